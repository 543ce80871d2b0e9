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

/* Types of elements, as NCCL numbers them. */
enum { EC_RANK_I8, EC_RANK_U8, EC_RANK_I32, EC_RANK_U32, EC_RANK_I64, EC_RANK_U64, EC_RANK_F16, EC_RANK_F32, EC_RANK_F64, EC_RANK_BF16 };
static inline __attribute__((unused)) size_t ec_rank_bytes(int type) {
  static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[type];
}

#ifdef EC_ON_CPU

typedef struct { int opened; } ec_ranks;
static inline __attribute__((unused)) const char *ec_ranks_open(ec_ranks *r) {
  r->opened = 1;
  return 0;
}
static inline __attribute__((unused)) void ec_ranks_close(ec_ranks *r) { r->opened = 0; }
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

static inline __attribute__((unused)) const char *ec_ranks_exchange(ec_ranks *, bool is_sum, const void *const *given, void *const *received, size_t elements, int type, const cudaStream_t *) {
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
#define EC_PEER_MOST (1 << 20)
#endif

enum { EC_PEER_BLOCKS = 64, EC_PEER_THREADS = 512 };

/* What a rank tells the others: the number of the exchange that its thread block has begun, and ended. */
typedef struct {
  unsigned begun[EC_PEER_BLOCKS][EC_RANKS], ended[EC_PEER_BLOCKS][EC_RANKS];
  unsigned number[EC_PEER_BLOCKS]; /* exchanges of this rank's own block so far */
} ec_signals;

typedef struct {
  const void *given[EC_RANKS];
  ec_signals *signals[EC_RANKS];
} ec_peers;

static __device__ __forceinline__ void ec_signal(unsigned *p, unsigned number) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(number) : "memory");
}
static __device__ __forceinline__ void ec_await(const unsigned *p, unsigned number) {
  unsigned there;
  do asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(there) : "l"(p) : "memory");
  while ((int)(there - number) < 0);
}
static __device__ __forceinline__ void ec_meet_begun(const ec_peers &all, int rank, unsigned number) {
  if (threadIdx.x < EC_RANKS) {
    ec_signal(&all.signals[threadIdx.x]->begun[blockIdx.x][rank], number);
    ec_await(&all.signals[rank]->begun[blockIdx.x][threadIdx.x], number);
  }
  __syncthreads();
}
/* No rank goes on before the others have read what it gave: kernels behind this one may write there. */
static __device__ __forceinline__ void ec_meet_ended(const ec_peers &all, int rank, unsigned number) {
  __syncthreads();
  if (threadIdx.x < EC_RANKS) {
    ec_signal(&all.signals[threadIdx.x]->ended[blockIdx.x][rank], number);
    ec_await(&all.signals[rank]->ended[blockIdx.x][threadIdx.x], number);
  }
  if (threadIdx.x == 0) all.signals[rank]->number[blockIdx.x] = number;
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
template <class Sum> static __global__ void __launch_bounds__(EC_PEER_THREADS) ec_peer_sum(ec_peers all, int rank, uint4 *received, size_t words) {
  const unsigned number = all.signals[rank]->number[blockIdx.x] + 1;
  ec_meet_begun(all, rank, number);
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words; i += (size_t)gridDim.x * blockDim.x) {
    uint4 there[EC_RANKS];
#pragma unroll
    for (int k = 0; k < EC_RANKS; ++k) there[k] = __ldcg((const uint4 *)all.given[k] + i);
    Sum sum;
#pragma unroll
    for (int k = 0; k < EC_RANKS; ++k) sum.take(there[k], k == 0);
    received[i] = sum.whole();
  }
  ec_meet_ended(all, rank, number);
}
/* What all ranks gave, one after the other. */
static __global__ void __launch_bounds__(EC_PEER_THREADS) ec_peer_gather(ec_peers all, int rank, uint4 *received, size_t words) {
  const unsigned number = all.signals[rank]->number[blockIdx.x] + 1;
  ec_meet_begun(all, rank, number);
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words; i += (size_t)gridDim.x * blockDim.x) {
#pragma unroll
    for (int k = 0; k < EC_RANKS; ++k) received[k * words + i] = __ldcg((const uint4 *)all.given[k] + i);
  }
  ec_meet_ended(all, rank, number);
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
  ec_signals *signals[EC_RANKS]; /* null: the GPUs do not see one another's memory */
  size_t peer_most;              /* bytes of the largest value that goes through peer memory */
} ec_ranks;

static void ec_ranks_close(ec_ranks *r) {
  for (int k = 0; k < EC_RANKS; ++k) {
    cudaSetDevice(k);
    if (r->comms[k] && r->destroy) r->destroy(r->comms[k]);
    cudaFree(r->signals[k]);
    r->comms[k] = 0;
    r->signals[k] = 0;
  }
  r->library = 0; /* NCCL has threads of its own: it stays loaded */
}

/* Access of all GPUs to one another's memory, where they have that. */
static cudaError_t ec_ranks_peers(ec_ranks *r) {
  for (int a = 0; a < EC_RANKS; ++a)
    for (int b = 0; b < EC_RANKS; ++b) {
      int can = 0;
      if (a != b && (cudaDeviceCanAccessPeer(&can, a, b) != cudaSuccess || !can)) return cudaSuccess;
    }
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
    if (e == cudaSuccess) e = cudaMalloc((void **)&r->signals[a], sizeof(ec_signals));
    if (e == cudaSuccess) e = cudaMemset(r->signals[a], 0, sizeof(ec_signals));
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

/* Null, or in words why the GPUs cannot exchange values. Changes the current device. */
static const char *ec_ranks_open(ec_ranks *r) {
  memset(r, 0, sizeof *r);
  int there = 0;
  if (cudaGetDeviceCount(&there) != cudaSuccess || there < EC_RANKS) return "this machine has fewer GPUs than the network was built for";
  const char *const way = getenv("EDGEC_EXCHANGE");
  const bool is_nccl = way && !strcmp(way, "nccl"), is_peer = way && !strcmp(way, "peer");
  if (way && *way && !is_nccl && !is_peer) return "EDGEC_EXCHANGE is neither nccl nor peer";
  if (!is_nccl) {
    const cudaError_t e = ec_ranks_peers(r);
    if (e != cudaSuccess) return cudaGetErrorString(e);
    r->peer_most = r->signals[EC_RANKS - 1] ? EC_PEER_MOST : 0;
    if (is_peer && !r->peer_most) return "the GPUs do not see one another's memory: leave out EDGEC_EXCHANGE=peer";
  }
  if (is_peer) {
    r->peer_most = (size_t)-1;
    return 0;
  }
  const char *const why = ec_ranks_nccl(r);
  if (why && !is_nccl && r->peer_most) { /* without NCCL, all goes through peer memory */
    r->library = 0;
    r->peer_most = (size_t)-1;
    return 0;
  }
  return why;
}

static inline const char *ec_ranks_way(const ec_ranks *r) { return !r->peer_most ? "nccl" : r->library ? "peer and nccl" : "peer"; }

static const char *ec_peer_exchange(ec_ranks *r, bool is_sum, const void *const *given, void *const *received, size_t words, int type, const cudaStream_t *streams) {
  const size_t needed = (words + EC_PEER_THREADS - 1) / EC_PEER_THREADS;
  const unsigned blocks = (unsigned)(needed < 1 ? 1 : needed < EC_PEER_BLOCKS ? needed : EC_PEER_BLOCKS);
  ec_peers all;
  for (int k = 0; k < EC_RANKS; ++k) {
    all.given[k] = given[k];
    all.signals[k] = r->signals[k];
  }
  for (int k = 0; k < EC_RANKS; ++k) {
    uint4 *const to = (uint4 *)received[k];
    cudaSetDevice(k);
#define EC_PEER(Sum) ec_peer_sum<Sum><<<blocks, EC_PEER_THREADS, 0, streams[k]>>>(all, k, to, words)
    if (!is_sum) ec_peer_gather<<<blocks, EC_PEER_THREADS, 0, streams[k]>>>(all, k, to, words);
    else if (type == EC_RANK_F16) EC_PEER(ec_rank_half<false>);
    else if (type == EC_RANK_BF16) EC_PEER(ec_rank_half<true>);
    else if (type == EC_RANK_F32) EC_PEER(ec_rank_sum<float>);
    else if (type == EC_RANK_F64) EC_PEER(ec_rank_sum<double>);
    else if (type == EC_RANK_I8) EC_PEER(ec_rank_sum<signed char>);
    else if (type == EC_RANK_U8) EC_PEER(ec_rank_sum<unsigned char>);
    else if (type == EC_RANK_I64 || type == EC_RANK_U64) EC_PEER(ec_rank_sum<unsigned long long>);
    else EC_PEER(ec_rank_sum<unsigned>);
#undef EC_PEER
    const cudaError_t e = cudaGetLastError();
    if (e != cudaSuccess) return cudaGetErrorString(e);
  }
  return 0;
}

/* Enqueues an exchange of so many elements of every rank on the streams of all; in words what failed, or null. */
static const char *ec_ranks_exchange(ec_ranks *r, bool is_sum, const void *const *given, void *const *received, size_t elements, int type, const cudaStream_t *streams) {
  const size_t bytes = elements * ec_rank_bytes(type);
  if (!bytes) return 0;
  if (bytes <= r->peer_most && (bytes % 16 == 0 || is_sum)) /* sums may write up to the end of a unit of memory */
    return ec_peer_exchange(r, is_sum, given, received, (bytes + 15) / 16, type, streams);
  if (!r->library) return "values of odd lengths need NCCL: pip install nvidia-nccl-cu13";
  int failed = r->begin();
  for (int k = 0; k < EC_RANKS && !failed; ++k)
    failed = is_sum ? r->all_reduce(given[k], received[k], elements, type, 0, r->comms[k], streams[k])
                    : r->all_gather(given[k], received[k], elements, type, r->comms[k], streams[k]);
  const int ended = r->end();
  failed = failed ? failed : ended;
  return failed ? r->words(failed) : 0;
}
#endif
#endif
