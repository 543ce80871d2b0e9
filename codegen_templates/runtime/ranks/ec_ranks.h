/* ec_ranks.h: GPUs of one process, one a rank, that add up or hand on values between their kernels.
 *
 * An exchange is enqueued on the streams of all ranks at once, so that each can be captured as a CUDA graph. Small values
 * go through the memory of the other GPUs by a kernel of our own, where these can access it, large ones through NCCL,
 * which is loaded when it is needed: libnccl.so.2, or the file that EDGEC_NCCL names. EDGEC_EXCHANGE=peer or nccl chooses
 * one of the two. With EC_ON_CPU the ranks are places in memory, and one thread exchanges their values. */
#ifndef EC_RANKS_H
#define EC_RANKS_H

#include "ec_cuda.h"

#ifndef EC_RANKS
#error "EC_RANKS is the number of ranks"
#endif
/* Parts of a batch whose exchanges may be under way at the same time, each on streams of its own. */
#ifndef EC_CHUNKS
#define EC_CHUNKS 1
#endif

/* Types of elements, as NCCL numbers them. */
enum { EC_RANK_I8, EC_RANK_U8, EC_RANK_I32, EC_RANK_U32, EC_RANK_I64, EC_RANK_U64, EC_RANK_F16, EC_RANK_F32, EC_RANK_F64, EC_RANK_BF16 };
static inline __attribute__((unused)) size_t ec_rank_bytes(int type) {
  static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[type];
}

#ifdef EC_ON_CPU

typedef struct { bool is_open; } ec_ranks;
static inline __attribute__((unused)) const char *ec_ranks_open(ec_ranks *r, size_t) {
  r->is_open = true;
  return 0;
}
static inline __attribute__((unused)) void ec_ranks_close(ec_ranks *r) { r->is_open = false; }
static inline __attribute__((unused)) bool ec_ranks_is_peer(const ec_ranks *, bool, size_t) { return true; }
static inline __attribute__((unused)) const char *ec_ranks_way(const ec_ranks *) { return "emulated"; }

template <class T, class Wide, Wide (*READ)(T), T (*WRITTEN)(Wide)>
static inline void ec_ranks_added(const void *const *given, void *const *received, size_t elements) {
  for (size_t i = 0; i < elements; ++i) {
    Wide sum = READ(((const T *)given[0])[i]);
    for (int k = 1; k < EC_RANKS; ++k) sum = (Wide)(sum + READ(((const T *)given[k])[i]));
    for (int k = 0; k < EC_RANKS; ++k) ((T *)received[k])[i] = WRITTEN(sum);
  }
}
template <class T> static inline T ec_rank_same(T x) { return x; }

static inline __attribute__((unused)) void ec_ranks_exchanged(bool is_sum, const void *const *given, void *const *received, size_t elements, int type) {
  const size_t bytes = elements * ec_rank_bytes(type);
  if (!is_sum) {
    for (int to = 0; to < EC_RANKS; ++to)
      for (int k = 0; k < EC_RANKS; ++k) memcpy((char *)received[to] + (size_t)k * bytes, given[k], bytes);
    return;
  }
#define EC_ADDED(number, T) \
  case number: ec_ranks_added<T, T, ec_rank_same<T>, ec_rank_same<T>>(given, received, elements); break
  switch (type) {
    EC_ADDED(EC_RANK_I8, int8_t);
    EC_ADDED(EC_RANK_U8, uint8_t);
    EC_ADDED(EC_RANK_I32, int32_t);
    EC_ADDED(EC_RANK_U32, uint32_t);
    EC_ADDED(EC_RANK_I64, int64_t);
    EC_ADDED(EC_RANK_U64, uint64_t);
    EC_ADDED(EC_RANK_F32, float);
    EC_ADDED(EC_RANK_F64, double);
    case EC_RANK_F16: ec_ranks_added<uint16_t, float, ec_from_f16, ec_to_f16>(given, received, elements); break;
    case EC_RANK_BF16: ec_ranks_added<uint16_t, float, ec_from_bf16, ec_to_bf16>(given, received, elements); break;
  }
#undef EC_ADDED
}

static inline __attribute__((unused)) const char *ec_ranks_exchange(ec_ranks *, int first, int last, int, bool is_sum, const void *const *given, void *const *received, size_t elements, int type, const cudaStream_t *) {
  if (first != 0 || last != EC_RANKS) return "one thread exchanges the values of all ranks";
  struct Pointers { const void *given[EC_RANKS]; void *received[EC_RANKS]; } all;
  memcpy(all.given, given, sizeof all.given);
  memcpy(all.received, received, sizeof all.received);
  const std::function<void()> step = [=] { ec_ranks_exchanged(is_sum, all.given, all.received, elements, type); };
  ec_fibers &f = ec_fibers::all();
  if (f.capturing) f.captured.push_back(step);
  else step();
  return 0;
}

#else

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Bytes up to which values go through peer memory where NCCL is there too; EDGEC_EXCHANGE overrides it. */
#ifndef EC_PEER_MOST
#define EC_PEER_MOST (EC_RANKS == 2 ? 1 << 25 : 1 << 20)
#endif

enum { EC_PEER_BLOCKS = 128, EC_PEER_THREADS = 512 };

/* What reaches a rank: from every other one the number of the exchange whose values its thread block has sent. */
typedef struct {
  unsigned arrived[EC_PEER_BLOCKS][EC_RANKS];
  unsigned number[EC_PEER_BLOCKS]; /* exchanges of this rank's own block so far */
} ec_signals;

/* The ranks as their kernels see them. ``rooms`` are where values of the others arrive: two rooms by turns, each with
 * ``words`` of 16 bytes for every rank. A rank sends for the second exchange after this one when all others have sent for
 * the next one, and so have read what they got for this one. Every exchange has as many thread blocks, for the numbers
 * of all of them to be equal. */
typedef struct {
  ec_signals *signals[EC_RANKS];
  uint4 *rooms[EC_RANKS];
  size_t words;
} ec_peers;

static __device__ __forceinline__ void ec_signal(unsigned *p, unsigned number) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(number) : "memory");
}
/* Waits for some ten seconds at most: where another rank does not come, the run ends with an error. */
static __device__ __forceinline__ void ec_await(const unsigned *p, unsigned number) {
  unsigned there;
  for (unsigned tries = 0;; ++tries) {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(there) : "l"(p) : "memory");
    if ((int)(there - number) >= 0) return;
    if (tries >> 25) __trap();
  }
}
/* Sends the thread block's part of a value to the others, and waits for their parts; the room that these are in. */
static __device__ __forceinline__ const uint4 *ec_peers_meet(const ec_peers &all, int rank, const uint4 *given, size_t words) {
  ec_let_next();
  ec_wait();
  const unsigned number = all.signals[rank]->number[blockIdx.x] + 1;
  const size_t room = (number & 1) * EC_RANKS * all.words, step = (size_t)gridDim.x * blockDim.x;
#pragma unroll 4
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words; i += step) {
    const uint4 own = __ldcg(given + i);
#pragma unroll
    for (int k = 0; k < EC_RANKS; ++k)
      if (k != rank) all.rooms[k][room + (size_t)rank * all.words + i] = own;
  }
  __syncthreads();
  if (threadIdx.x < EC_RANKS && (int)threadIdx.x != rank) {
    ec_signal(&all.signals[threadIdx.x]->arrived[blockIdx.x][rank], number);
    ec_await(&all.signals[rank]->arrived[blockIdx.x][threadIdx.x], number);
  }
  __syncthreads();
  if (threadIdx.x == 0) all.signals[rank]->number[blockIdx.x] = number;
  return all.rooms[rank] + room;
}

/* 16 bytes of elements of a type, which are added in fp32, or in their own type where that is wider. */
template <class T> struct ec_rank_sum {
  T sums[16 / sizeof(T)];
  __device__ __forceinline__ void take(uint4 x, bool is_first) {
    const T *const own = (const T *)(const void *)&x;
#pragma unroll
    for (int i = 0; i < (int)(16 / sizeof(T)); ++i) sums[i] = is_first ? own[i] : (T)(sums[i] + own[i]);
  }
  __device__ __forceinline__ uint4 whole() const {
    uint4 x;
    memcpy(&x, sums, 16);
    return x;
  }
};
template <bool IS_BF16> struct ec_rank_half {
  float sums[8];
  static __device__ __forceinline__ float wide(unsigned h) { return IS_BF16 ? ec_from_bf16((ec_bf16)h) : ec_from_f16((ec_f16)h); }
  static __device__ __forceinline__ unsigned narrow(float f) { return IS_BF16 ? (unsigned)ec_to_bf16(f) : (unsigned)ec_to_f16(f); }
  __device__ __forceinline__ void take(uint4 x, bool is_first) {
    const unsigned words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float own = wide(words[i / 2] >> i % 2 * 16 & 0xffffu);
      sums[i] = is_first ? own : sums[i] + own;
    }
  }
  __device__ __forceinline__ uint4 whole() const {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = narrow(sums[2 * i]) | narrow(sums[2 * i + 1]) << 16;
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
};

/* The sums of what all ranks gave, in the order of the ranks: every rank receives the same bits. ``words`` are of 16 bytes. */
template <class Sum> static __global__ void __launch_bounds__(EC_PEER_THREADS) ec_peer_sum(ec_peers all, int rank, const uint4 *given, uint4 *received, size_t words) {
  const uint4 *const room = ec_peers_meet(all, rank, given, words);
#pragma unroll 2
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words; i += (size_t)gridDim.x * blockDim.x) {
    Sum sum;
#pragma unroll
    for (int k = 0; k < EC_RANKS; ++k) sum.take(__ldcg(k == rank ? given + i : room + (size_t)k * all.words + i), k == 0);
    received[i] = sum.whole();
  }
}
/* What all ranks gave, one after the other. */
static __global__ void __launch_bounds__(EC_PEER_THREADS) ec_peer_gather(ec_peers all, int rank, const uint4 *given, uint4 *received, size_t words) {
  const uint4 *const room = ec_peers_meet(all, rank, given, words);
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words; i += (size_t)gridDim.x * blockDim.x) {
#pragma unroll
    for (int k = 0; k < EC_RANKS; ++k) received[k * words + i] = __ldcg(k == rank ? given + i : room + (size_t)k * all.words + i);
  }
}

typedef struct {
  void *library;
  void *comms[EC_RANKS];
  int (*all_reduce)(const void *, void *, size_t, int, int, void *, cudaStream_t);
  int (*all_gather)(const void *, void *, size_t, int, void *, cudaStream_t);
  int (*begin)(void);
  int (*end)(void);
  int (*destroy)(void *);
  const char *(*words)(int);
  ec_peers peers[EC_CHUNKS];
  unsigned peer_blocks;
  size_t peer_most; /* bytes of the largest value that goes through peer memory */
} ec_ranks;

static void ec_ranks_close(ec_ranks *r) {
  for (int k = 0; k < EC_RANKS; ++k) {
    cudaSetDevice(k);
    if (r->comms[k] && r->destroy) r->destroy(r->comms[k]);
    for (int chunk = 0; chunk < EC_CHUNKS; ++chunk) {
      cudaFree(r->peers[chunk].signals[k]);
      cudaFree(r->peers[chunk].rooms[k]);
      r->peers[chunk].signals[k] = 0;
      r->peers[chunk].rooms[k] = 0;
    }
    r->comms[k] = 0;
  }
  r->library = 0; /* NCCL has threads of its own: it stays loaded */
}

static bool ec_ranks_see(void) {
  for (int a = 0; a < EC_RANKS; ++a)
    for (int b = 0; b < EC_RANKS; ++b) {
      int can = 0;
      if (a != b && (cudaDeviceCanAccessPeer(&can, a, b) != cudaSuccess || !can)) return false;
    }
  return true;
}

/* Access of all GPUs to one another's memory, and rooms for values of so many bytes. */
static cudaError_t ec_ranks_peers(ec_ranks *r, size_t bytes) {
  const size_t words = (bytes + 15) / 16, blocks = (words + EC_PEER_THREADS - 1) / EC_PEER_THREADS;
  r->peer_blocks = (unsigned)(blocks < 1 ? 1 : blocks < EC_PEER_BLOCKS ? blocks : EC_PEER_BLOCKS);
  for (int a = 0; a < EC_RANKS; ++a) {
    cudaError_t e = cudaSetDevice(a);
    for (int b = 0; b < EC_RANKS && e == cudaSuccess; ++b)
      if (a != b) {
        e = cudaDeviceEnablePeerAccess(b, 0);
        if (e == cudaErrorPeerAccessAlreadyEnabled) {
          cudaGetLastError();
          e = cudaSuccess;
        }
      }
    for (int chunk = 0; chunk < EC_CHUNKS; ++chunk) {
      ec_peers *const all = &r->peers[chunk];
      all->words = words;
      if (e == cudaSuccess) e = cudaMalloc((void **)&all->rooms[a], 2 * EC_RANKS * words * 16 + 1);
      if (e == cudaSuccess) e = cudaMalloc((void **)&all->signals[a], sizeof(ec_signals));
      if (e == cudaSuccess) e = cudaMemset(all->signals[a], 0, sizeof(ec_signals));
    }
    if (e == cudaSuccess) e = cudaDeviceSynchronize();
    if (e != cudaSuccess) return e;
  }
  return cudaSuccess;
}

static const char *ec_ranks_nccl(ec_ranks *r) {
  const char *const file = getenv("EDGEC_NCCL");
  setenv("NCCL_NVLS_ENABLE", "0", 0); /* no multicast by the switches: it needs rights that containers do not have */
  r->library = dlopen(file && *file ? file : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!r->library) return "libnccl.so.2 was not found: pip install nvidia-nccl-cu13, or set EDGEC_NCCL to the file";
  int (*const init)(void **, int, const int *) = (int (*)(void **, int, const int *))dlsym(r->library, "ncclCommInitAll");
  *(void **)&r->all_reduce = dlsym(r->library, "ncclAllReduce");
  *(void **)&r->all_gather = dlsym(r->library, "ncclAllGather");
  *(void **)&r->begin = dlsym(r->library, "ncclGroupStart");
  *(void **)&r->end = dlsym(r->library, "ncclGroupEnd");
  *(void **)&r->destroy = dlsym(r->library, "ncclCommDestroy");
  *(void **)&r->words = dlsym(r->library, "ncclGetErrorString");
  if (!init || !r->all_reduce || !r->all_gather || !r->begin || !r->end || !r->destroy || !r->words) return "libnccl.so.2 lacks functions of NCCL 2";
  const int failed = init(r->comms, EC_RANKS, 0);
  return failed ? r->words(failed) : 0;
}

/* Null, or in words why the GPUs cannot exchange values, of ``most`` bytes each. Changes the current device. */
static const char *ec_ranks_open(ec_ranks *r, size_t most) {
  memset(r, 0, sizeof *r);
  int there = 0;
  if (cudaGetDeviceCount(&there) != cudaSuccess || there < EC_RANKS) return "this machine has fewer GPUs than the network was built for";
  if (!most) return 0;
  const char *const way = getenv("EDGEC_EXCHANGE");
  const bool is_nccl = way && !strcmp(way, "nccl"), is_peer = way && !strcmp(way, "peer"), see = !is_nccl && ec_ranks_see();
  if (way && *way && !is_nccl && !is_peer) return "EDGEC_EXCHANGE is neither nccl nor peer";
  if (is_peer && !see) return "the GPUs do not see one another's memory: leave out EDGEC_EXCHANGE=peer";
  if (!is_peer && (!see || most > EC_PEER_MOST)) {
    const char *const why = ec_ranks_nccl(r);
    if (why && (is_nccl || !see)) return why;
    if (why) r->library = 0;
  }
  if (!see) return 0;
  r->peer_most = r->library && most > EC_PEER_MOST ? EC_PEER_MOST : most;
  const cudaError_t e = ec_ranks_peers(r, r->peer_most);
  return e == cudaSuccess ? 0 : cudaGetErrorString(e);
}

static inline const char *ec_ranks_way(const ec_ranks *r) { return !r->library ? "peer" : r->peer_most ? "peer and nccl" : "nccl"; }

static const char *ec_peer_exchange(const ec_ranks *r, int rank, int chunk, bool is_sum, const void *given, void *received, size_t words, int type, cudaStream_t stream) {
  const uint4 *const from = (const uint4 *)given;
  uint4 *const to = (uint4 *)received;
#define EC_PEER(kernel) EC_LAUNCH(true, (kernel), r->peer_blocks, 1, EC_PEER_THREADS, 0, stream, r->peers[chunk], rank, from, to, words)
  if (!is_sum) EC_PEER(ec_peer_gather);
  else if (type == EC_RANK_F16) EC_PEER(ec_peer_sum<ec_rank_half<false>>);
  else if (type == EC_RANK_BF16) EC_PEER(ec_peer_sum<ec_rank_half<true>>);
  else if (type == EC_RANK_F32) EC_PEER(ec_peer_sum<ec_rank_sum<float>>);
  else if (type == EC_RANK_F64) EC_PEER(ec_peer_sum<ec_rank_sum<double>>);
  else if (type == EC_RANK_I8) EC_PEER(ec_peer_sum<ec_rank_sum<signed char>>);
  else if (type == EC_RANK_U8) EC_PEER(ec_peer_sum<ec_rank_sum<unsigned char>>);
  else if (type == EC_RANK_I64 || type == EC_RANK_U64) EC_PEER(ec_peer_sum<ec_rank_sum<unsigned long long>>);
  else EC_PEER(ec_peer_sum<ec_rank_sum<unsigned>>);
#undef EC_PEER
  const cudaError_t e = cudaGetLastError();
  return e != cudaSuccess ? cudaGetErrorString(e) : 0;
}

/* May the kernel behind an exchange of so many bytes start before its end? */
static bool ec_ranks_is_peer(const ec_ranks *r, bool is_sum, size_t bytes) {
  return bytes <= r->peer_most && (bytes % 16 == 0 || is_sum); /* sums may write up to the end of a unit of memory */
}

/* Enqueues an exchange of so many elements of every rank, of a part of the batch, on the streams of ranks ``first`` to
 * ``last``, the last excluded: of all, or in a thread of its own of one, which is the current device. In words what failed,
 * or null. */
static const char *ec_ranks_exchange(const ec_ranks *r, int first, int last, int chunk, bool is_sum, const void *const *given, void *const *received, size_t elements, int type, const cudaStream_t *streams) {
  const size_t bytes = elements * ec_rank_bytes(type);
  const char *why = 0;
  if (!bytes) return 0;
  if (ec_ranks_is_peer(r, is_sum, bytes)) {
    for (int k = first; k < last && !why; ++k) {
      if (last > first + 1) cudaSetDevice(k);
      why = ec_peer_exchange(r, k, chunk, is_sum, given[k], received[k], (bytes + 15) / 16, type, streams[k]);
    }
    return why;
  }
  if (!r->library) return "values of odd lengths need NCCL: pip install nvidia-nccl-cu13";
  const bool is_group = last > first + 1;
  int failed = is_group ? r->begin() : 0;
  for (int k = first; k < last && !failed; ++k)
    failed = is_sum ? r->all_reduce(given[k], received[k], elements, type, 0, r->comms[k], streams[k])
                    : r->all_gather(given[k], received[k], elements, type, r->comms[k], streams[k]);
  const int ended = is_group ? r->end() : 0;
  failed = failed ? failed : ended;
  return failed ? r->words(failed) : 0;
}
#endif
#endif
