/* CUDA on the CPU, for tests without a GPU: thread blocks run one after the other, the threads of a block (or of a cluster
 * of them) as fibers that yield where they synchronize. A fiber that never does runs to its end and takes the next thread,
 * so that kernels without barriers cost no switches. Device memory is the memory of the process. Every thread of the host
 * has a device of its own. */
#ifndef EC_CUDA_CPU_H
#define EC_CUDA_CPU_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include <functional>
#include <vector>

#define __device__
#define __global__
#define __shared__ static thread_local
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline, unused))

struct float2 { alignas(8) float x; float y; };
struct float4 { alignas(16) float x; float y, z, w; };
struct uint2 { alignas(8) unsigned x; unsigned y; };
struct uint4 { alignas(16) unsigned x; unsigned y, z, w; };
static inline __attribute__((unused)) float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif
#ifdef __SANITIZE_THREAD__ /* ThreadSanitizer is told which fiber runs */
extern "C" {
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
}
#else
static inline void *__tsan_get_current_fiber(void) { return nullptr; }
static inline void *__tsan_create_fiber(unsigned) { return nullptr; }
static inline void __tsan_destroy_fiber(void *) {}
static inline void __tsan_switch_to_fiber(void *, unsigned) {}
#endif

/* Dynamic shared memory of a block of a cluster. Under AddressSanitizer a launch has no more of it than it asks for, and what
 * is there at first is no number. */
enum { EC_ROOM = 227 * 1024 };
static inline __attribute__((unused)) unsigned char *ec_shared_of(unsigned block) {
  alignas(1024) static thread_local unsigned char rooms[8][EC_ROOM];
  return rooms[block];
}
static inline __attribute__((unused)) void ec_give_shared(size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  for (unsigned block = 0; block < 8; ++block) {
    unsigned char *const room = ec_shared_of(block);
    const size_t there = (bytes + 7) / 8 * 8;
    ASAN_UNPOISON_MEMORY_REGION(room, EC_ROOM);
    memset(room, 0xff, bytes);
    ASAN_POISON_MEMORY_REGION(room + there, EC_ROOM - there);
  }
#else
  (void)bytes;
#endif
}

struct ec_place { unsigned x, y, z; };

/* The threads of one block. */
struct ec_fibers {
  enum { WARP = 32, STACK = 256 * 1024 };
  struct Fiber { ucontext_t context; unsigned thread; char *stack; void *known; };
  ucontext_t home;
  void *known = nullptr; /* to ThreadSanitizer, as the fiber that a launch comes from */
  std::vector<Fiber *> idle, waiting;
  Fiber *current = nullptr;
  const std::function<void()> *body = nullptr;
  unsigned next = 0, count = 0, members = 0, arrived = 0, syncs = 0;
  std::vector<unsigned> rounds;    /* exchanges of every thread with its warp */
  ec_place thread = {}, group = {};
  unsigned first = 0; /* block of the cluster */
  std::vector<unsigned> here, passed, ended; /* of each block: threads at a barrier, barriers, threads that are over */
  bool capturing = false;
  std::vector<std::function<void()>> captured;

  static ec_fibers &all() { static thread_local ec_fibers one; return one; }
  ~ec_fibers() {
    for (Fiber *f : idle) {
      __tsan_destroy_fiber(f->known);
      free(f->stack);
      delete f;
    }
  }

  static void enter() {
    ec_fibers &f = all();
    for (;;) {
      Fiber *me = f.current;
      while (f.next < f.count) {
        me->thread = f.next++;
        f.take(me->thread);
        (*f.body)();
        ++f.ended[me->thread / f.members];
      }
      f.idle.push_back(me);
      f.go_home(me);
    }
  }
  Fiber *fresh() {
    if (idle.empty()) idle.push_back(made());
    Fiber *f = idle.back();
    idle.pop_back();
    return f;
  }
  static Fiber *made() {
    Fiber *const f = new Fiber();
    f->stack = (char *)malloc(STACK);
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK;
    f->context.uc_link = nullptr;
    f->known = __tsan_create_fiber(0);
    makecontext(&f->context, (void (*)())enter, 0);
    return f;
  }
  void take(unsigned number) { /* of a cluster's threads */
    thread.x = number % members;
    group.x = first + number / members;
  }
  void resume(Fiber *f) {
    current = f;
    take(f->thread);
    __tsan_switch_to_fiber(f->known, 0);
    swapcontext(&home, &f->context);
  }
  void go_home(Fiber *me) {
    __tsan_switch_to_fiber(known, 0);
    swapcontext(&me->context, &home);
  }
  /* Lets the others come as far. */
  void yield() {
    Fiber *me = current;
    waiting.push_back(me);
    go_home(me);
  }
  void run(unsigned groups, unsigned cluster, unsigned threads, size_t shared, const std::function<void()> &kernel) {
    ec_give_shared(shared);
    body = &kernel;
    known = __tsan_get_current_fiber();
    members = threads;
    count = threads * cluster;
    shown.assign(2 * count, Shown());
    for (first = 0; first < groups; first += cluster) {
      next = arrived = 0;
      rounds.assign(count, 0);
      here.assign(cluster, 0);
      passed.assign(cluster, 0);
      ended.assign(cluster, 0);
      while (next < count || !waiting.empty()) {
        if (next < count) { resume(fresh()); continue; }
        if (arrived == count) { ++syncs; arrived = 0; }
        for (unsigned block = 0; block < cluster; ++block)
          if (here[block] && here[block] + ended[block] == members) { ++passed[block]; here[block] = 0; }
        std::vector<Fiber *> now;
        now.swap(waiting);
        for (Fiber *f : now) resume(f);
      }
    }
  }
  void launch(unsigned groups, unsigned cluster, unsigned threads, size_t shared, std::function<void()> kernel) {
    if (capturing) captured.push_back([=] { all().run(groups, cluster, threads, shared, kernel); });
    else run(groups, cluster, threads, shared, kernel);
  }
  /* All threads of a block wait until every one has arrived, or is over. They go on in one turn: some may have waited more
   * often than others before, as warps do that take a branch with exchanges. */
  void barrier() {
    const unsigned block = current->thread / members, before = passed[block];
    ++here[block];
    while (passed[block] == before) yield();
  }
  /* The same for a cluster, whose blocks may have passed fewer barriers than others: all go on in one turn. Threads that
   * have ended are not waited for on a GPU; here they count as arrived. */
  void cluster_sync() {
    const unsigned before = syncs;
    ++arrived;
    while (syncs == before) yield();
  }
  /* Every lane of a warp publishes up to 36 bytes; seen(k) are those of lane k. */
  struct Shown { unsigned words[9]; };
  std::vector<Shown> shown; /* two a thread: rounds alternate, so that no lane waits before it goes on */
  unsigned now = 0;
  void show(const void *what, size_t bytes) {
    const unsigned me = current->thread;
    now = rounds[me]++ & 1;
    memcpy(shown[2 * me + now].words, what, bytes);
    const unsigned mine = now;
    yield();
    now = mine;
  }
  const Shown &seen(unsigned lane) const { return shown[2 * (current->thread / WARP * WARP + lane) + now]; }
  float exchange(float x, int bits) {
    show(&x, 4);
    memcpy(&x, seen((thread.x % WARP) ^ (unsigned)bits).words, 4);
    return x;
  }
};

#define threadIdx (ec_fibers::all().thread)
#define blockIdx (ec_fibers::all().group)
static inline __attribute__((unused)) void __syncwarp() {}
static inline __attribute__((unused)) void __syncthreads() { ec_fibers::all().barrier(); }
static inline __attribute__((unused)) void __threadfence() {}
static inline __attribute__((unused)) int __any_sync(unsigned, int x) {
  ec_fibers &f = ec_fibers::all();
  f.show(&x, sizeof x);
  int any = 0;
  for (unsigned lane = 0; lane < ec_fibers::WARP; ++lane) any |= f.seen(lane).words[0] != 0;
  return any;
}
static inline __attribute__((unused)) float __shfl_xor_sync(unsigned, float x, int bits) { return ec_fibers::all().exchange(x, bits); }
template <class T> static inline T __shfl_sync(unsigned, T x, int lane) {
  ec_fibers &f = ec_fibers::all();
  f.show(&x, sizeof x);
  memcpy(&x, f.seen((unsigned)lane).words, sizeof x);
  return x;
}
static inline __attribute__((unused)) int atomicAdd(int *p, int x) { const int old = *p; *p += x; return old; }

static inline __attribute__((unused)) unsigned char *ec_shared(void) {
  return ec_shared_of(ec_fibers::all().group.x - ec_fibers::all().first);
}
static inline __attribute__((unused)) void ec_cluster_sync(void) { ec_fibers::all().cluster_sync(); }
template <class T> static inline __attribute__((unused)) void ec_remote(T (&numbers)[4], const T *p, int rank) {
  const ec_fibers &f = ec_fibers::all();
  const unsigned mine = f.group.x - f.first;
  memcpy(numbers, (const unsigned char *)p + ((long)rank - (long)mine) * EC_ROOM, 16);
}
static inline __attribute__((unused)) void ec_cluster_arrive(void) {}
static inline __attribute__((unused)) void ec_cluster_wait(void) { ec_cluster_sync(); }
static inline __attribute__((unused)) void ec_remote_wait(unsigned long long *) { ec_cluster_sync(); }
static inline __attribute__((unused)) void ec_to_remote(float *p, const float (&numbers)[4], int rank, unsigned long long *) {
  const ec_fibers &f = ec_fibers::all();
  const unsigned mine = f.group.x - f.first;
  memcpy((unsigned char *)p + ((long)rank - (long)mine) * EC_ROOM, numbers, 16);
}
static inline __attribute__((unused)) float ec_exp2(float x) { return exp2f(x); }

template <class... P, class... A>
static inline void ec_launch(void (*kernel)(P...), unsigned groups, unsigned cluster, unsigned threads, size_t shared, A... arguments) {
  ec_fibers::all().launch(groups, cluster, threads, shared, [=] { kernel(arguments...); });
}
#define EC_LAUNCH(overlaps, kernel, groups, cluster, threads, shared, stream, ...)                        \
  ((void)(overlaps), (void)(stream), ec_launch(kernel, (unsigned)(groups), cluster, threads, (size_t)(shared), __VA_ARGS__))

/* Tensor cores: ec_cuda.h says which lane holds which elements. */
static inline __attribute__((unused)) void ec_matrices(unsigned (&r)[4], const void *row) {
  ec_fibers &f = ec_fibers::all();
  if ((const unsigned char *)row < ec_shared() || (const unsigned char *)row + 16 > ec_shared() + EC_ROOM) abort();
  const unsigned lane = f.thread.x % ec_fibers::WARP;
  f.show(&row, sizeof row);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned char *from;
    memcpy(&from, f.seen(8 * i + lane / 4).words, sizeof from);
    memcpy(&r[i], from + lane % 4 * 4, 4);
  }
}
static inline __attribute__((unused)) void ec_matrices_transposed(unsigned (&r)[4], const void *row) {
  ec_fibers &f = ec_fibers::all();
  const unsigned lane = f.thread.x % ec_fibers::WARP;
  f.show(&row, sizeof row);
  for (unsigned i = 0; i < 4; ++i) {
    uint16_t two[2];
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned char *from;
      memcpy(&from, f.seen(8 * i + lane % 4 * 2 + half).words, sizeof from);
      memcpy(&two[half], from + lane / 4 * 2, 2);
    }
    memcpy(&r[i], two, 4);
  }
}
static inline float ec_from_f16(uint16_t h);
static inline float ec_from_bf16(uint16_t h);
/* Products of rows of A (16) and of B (8), ``per`` elements to a register of 4 bytes. */
template <class Sum, class Element>
static inline void ec_multiply_on_cpu(Sum (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, unsigned per, Element element) {
  ec_fibers &f = ec_fibers::all();
  const unsigned lane = f.thread.x % ec_fibers::WARP, mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
  f.show(mine, sizeof mine);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4, column = lane % 4 * 2 + i % 2;
    Sum sum = 0;
    for (unsigned k = 0; k < 8 * per; ++k) {
      const unsigned half = k / (4 * per), holder = k % (4 * per) / per, part = k % per;
      sum += element(f.seen(4 * row + holder).words[i / 2 + 2 * half], part, false) *
             element(f.seen(4 * column + holder).words[4 + half], part, true);
    }
    c[i] += sum;
  }
}
static inline __attribute__((unused)) void ec_multiply_f16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  ec_multiply_on_cpu(c, a, b0, b1, 2, [](unsigned w, unsigned part, bool) { return ec_from_f16((uint16_t)(w >> 16 * part)); });
}
static inline __attribute__((unused)) void ec_multiply_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  ec_multiply_on_cpu(c, a, b0, b1, 2, [](unsigned w, unsigned part, bool) { return ec_from_bf16((uint16_t)(w >> 16 * part)); });
}
static inline __attribute__((unused)) void ec_multiply_tf32(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  ec_multiply_on_cpu(c, a, b0, b1, 1, [](unsigned w, unsigned, bool) {
    w &= 0xffffe000u; /* 10 bits of mantissa */
    float x;
    memcpy(&x, &w, 4);
    return x;
  });
}

/* Products of 16 rows of A, which has two of each four elements along k, and 8 of B. Positions of A are those of lanes 4 g and
 * 4 g + 1 (of halves; each has 16 columns of rows g and g + 8), or of all (of bytes; 32 columns of a row each). */
template <class Sum, class Sparse, class Element>
static inline void ec_multiply_sparse_on_cpu(Sum (&left)[4], Sum (&right)[4], const Sparse &a, const unsigned (&b)[2][4], unsigned per, Element element) {
  ec_fibers &f = ec_fibers::all();
  const unsigned lane = f.thread.x % ec_fibers::WARP;
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned mine[9] = {a.elements[0], a.elements[1], a.elements[2], a.elements[3], b[0][half], b[0][half + 2], b[1][half], b[1][half + 2], a.positions};
    f.show(mine, sizeof mine);
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = lane / 4, lower = i / 2, column = lane % 4 * 2 + i % 2;
      Sum sum = 0;
      for (unsigned at = 0; at < 8 * per; ++at) { /* elements of A that are there */
        const unsigned word = f.seen(4 * row + at % (4 * per) / per).words[lower + at / (4 * per) * 2];
        const unsigned teller = per == 2 ? at / 8 : lower + at / 16 * 2, bit = per == 2 ? lower * 16 + at % 8 * 2 : at % 16 * 2;
        const unsigned k = at / 2 * 4 + (f.seen(4 * row + teller).words[8] >> bit & 3);
        sum += element(word, at % per, true) * element(f.seen(4 * column + k % (4 * per) / per).words[4 + k / (4 * per)], k % per, false);
      }
      (lower ? right : left)[half * 2 + i % 2] += sum;
    }
  }
}
#define EC_SPARSE_HALVES(TYPE)                                                                                         \
  template <class Sparse> static inline void ec_multiply_sparse_##TYPE(float (&left)[4], float (&right)[4], const Sparse &a, const unsigned (&b)[2][4]) { \
    ec_multiply_sparse_on_cpu(left, right, a, b, 2, [](unsigned w, unsigned part, bool) { return ec_from_##TYPE((uint16_t)(w >> 16 * part)); }); \
  }
EC_SPARSE_HALVES(f16)
EC_SPARSE_HALVES(bf16)
#undef EC_SPARSE_HALVES
#define EC_SPARSE_BYTES(NAME, S, L)                                                                                    \
  template <class Sparse> static inline void NAME(int (&left)[4], int (&right)[4], const Sparse &a, const unsigned (&b)[2][4]) { \
    ec_multiply_sparse_on_cpu(left, right, a, b, 4, [](unsigned w, unsigned part, bool is_l) {                         \
      return is_l ? (int)(L)(w >> 8 * part) : (int)(S)(w >> 8 * part);                                                 \
    });                                                                                                                \
  }
EC_SPARSE_BYTES(ec_multiply_sparse_i8_i8, int8_t, int8_t)
EC_SPARSE_BYTES(ec_multiply_sparse_i8_u8, int8_t, uint8_t)
EC_SPARSE_BYTES(ec_multiply_sparse_u8_i8, uint8_t, int8_t)
EC_SPARSE_BYTES(ec_multiply_sparse_u8_u8, uint8_t, uint8_t)
#undef EC_SPARSE_BYTES

/* The element of step ``k`` of a row of a factor of a group of warps, at ``p`` and what follows. */
template <bool TURNED> static inline uint16_t ec_group_bits(const void *p, unsigned row, unsigned k) {
  const uintptr_t at = (uintptr_t)p + (TURNED ? row / 64 * 8192 + k * 128 + row % 64 * 2 : row * 128 + k * 2);
  uint16_t bits;
  memcpy(&bits, (const void *)(at ^ (at >> 7 & 7) << 4), 2);
  return bits;
}
/* The byte of step ``k`` of a row of such a factor, k innermost. */
template <class Byte> static inline int ec_group_byte(const unsigned char *p, unsigned row, unsigned k) {
  const uintptr_t at = (uintptr_t)p + row * 128 + k;
  return (int)*(const Byte *)(const void *)(at ^ (at >> 7 & 7) << 4);
}
/* sums += STEPS steps of the sum of a group's 64 rows and 8 * WIDE columns; s and l give a row's, and a column's, number of a
 * step. */
template <int WIDE, unsigned STEPS, class Sum, class S, class L>
static inline void ec_group_multiply_on_cpu(Sum (&sums)[WIDE][4], S s, L l) {
  const unsigned thread = ec_fibers::all().thread.x, lane = thread % 32, first = thread / 32 % 4 * 16 + lane / 4;
  Sum rows[2][STEPS];
  for (unsigned k = 0; k < 2 * STEPS; ++k) rows[k / STEPS][k % STEPS] = s(first + k / STEPS * 8, k % STEPS);
  for (unsigned i = 0; i < WIDE * 2; ++i)
    for (unsigned k = 0; k < STEPS; ++k) {
      const Sum x = l(i / 2 * 8 + lane % 4 * 2 + i % 2, k);
      sums[i / 2][i % 2] += rows[0][k] * x;
      sums[i / 2][i % 2 + 2] += rows[1][k] * x;
    }
}
/* The same where registers hold the rows, for 32 bytes of k; two halves lie in the place of a float. */
template <int WIDE, bool TURNED, void (*MULTIPLY)(float (&)[4], const unsigned (&)[4], unsigned, unsigned)>
static inline __attribute__((unused)) void ec_group_multiply_rows_on_cpu(float (&sums)[WIDE][4], const unsigned (&rows)[4], const void *l, bool adds) {
  const unsigned lane = ec_fibers::all().thread.x % 32;
  for (unsigned j = 0; j < WIDE; ++j) {
    unsigned two[2] = {};
    for (unsigned k = 0; k < 4; ++k) two[k / 2] |= (unsigned)ec_group_bits<TURNED>(l, j * 8 + lane / 4, k / 2 * 8 + lane % 4 * 2 + k % 2) << k % 2 * 16;
    if (!adds) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0.0f;
    MULTIPLY(sums[j], rows, two[0], two[1]);
  }
}

#define EC_MULTIPLY_BYTES(NAME, S, L)                                                              \
  static inline __attribute__((unused)) void NAME(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { \
    ec_multiply_on_cpu(c, a, b0, b1, 4, [](unsigned w, unsigned part, bool is_l) {                 \
      return is_l ? (int)(L)(w >> 8 * part) : (int)(S)(w >> 8 * part);                             \
    });                                                                                            \
  }
EC_MULTIPLY_BYTES(ec_multiply_i8_i8, int8_t, int8_t)
EC_MULTIPLY_BYTES(ec_multiply_i8_u8, int8_t, uint8_t)
EC_MULTIPLY_BYTES(ec_multiply_u8_i8, uint8_t, int8_t)
EC_MULTIPLY_BYTES(ec_multiply_u8_u8, uint8_t, uint8_t)
#undef EC_MULTIPLY_BYTES

#define EC_DOT(NAME, S, L)                                                                         \
  static inline __attribute__((unused)) int NAME(int a, int b, int sum) {                          \
    for (int i = 0; i < 4; ++i) sum += (int)(S)((unsigned)a >> 8 * i) * (int)(L)((unsigned)b >> 8 * i); \
    return sum;                                                                                    \
  }
EC_DOT(ec_dot_i8_i8, int8_t, int8_t)
EC_DOT(ec_dot_i8_u8, int8_t, uint8_t)
EC_DOT(ec_dot_u8_i8, uint8_t, int8_t)
EC_DOT(ec_dot_u8_u8, uint8_t, uint8_t)
#undef EC_DOT

/* Functions of the host. */
typedef int cudaError_t, cudaMemcpyKind;
typedef struct CUstream_st *cudaStream_t;
typedef std::vector<std::function<void()>> *cudaGraph_t, *cudaGraphExec_t;
enum { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorStreamCaptureUnsupported = 900 };
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaStreamNonBlocking, cudaMemAttachGlobal, cudaHostAllocDefault, cudaStreamCaptureModeThreadLocal };
#define EC_CPU static inline __attribute__((unused)) cudaError_t
static inline const char *cudaGetErrorString(cudaError_t e) {
  return e == cudaSuccess ? "no error" : e == cudaErrorMemoryAllocation ? "out of memory" : "not permitted when stream is capturing";
}
EC_CPU cudaGetLastError() { return cudaSuccess; }
EC_CPU cudaMalloc(void **p, size_t bytes) {
  *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
EC_CPU cudaSetDevice(int) { return cudaSuccess; }
EC_CPU cudaGetDevice(int *device) { *device = 0; return cudaSuccess; }
EC_CPU cudaMallocManaged(void **p, size_t bytes, unsigned) { return cudaMalloc(p, bytes); }
EC_CPU cudaHostAlloc(void **p, size_t bytes, unsigned) { return cudaMalloc(p, bytes); }
EC_CPU cudaFreeHost(void *p) { free(p); return cudaSuccess; }
EC_CPU cudaFree(void *p) { free(p); return cudaSuccess; }
EC_CPU cudaMemcpyAsync(void *to, const void *from, size_t bytes, int, cudaStream_t) { memcpy(to, from, bytes); return cudaSuccess; }
EC_CPU cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t bytes, size_t rows, int, cudaStream_t) {
  for (size_t row = 0; row < rows; ++row) memcpy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, bytes);
  return cudaSuccess;
}
EC_CPU cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) { memset(to, value, bytes); return cudaSuccess; }
EC_CPU cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) { *stream = nullptr; return cudaSuccess; }
EC_CPU cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
EC_CPU cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
/* With EC_NO_CAPTURE in the environment nothing is captured, as where a driver refuses it. */
EC_CPU cudaStreamBeginCapture(cudaStream_t, int) {
  if (getenv("EC_NO_CAPTURE")) return cudaErrorStreamCaptureUnsupported;
  ec_fibers::all().capturing = true;
  return cudaSuccess;
}
EC_CPU cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph) {
  ec_fibers &f = ec_fibers::all();
  f.capturing = false;
  *graph = new std::vector<std::function<void()>>();
  (*graph)->swap(f.captured);
  return cudaSuccess;
}
EC_CPU cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long) { *made = new std::vector<std::function<void()>>(*graph); return cudaSuccess; }
EC_CPU cudaGraphDestroy(cudaGraph_t graph) { delete graph; return cudaSuccess; }
EC_CPU cudaGraphExecDestroy(cudaGraphExec_t graph) { delete graph; return cudaSuccess; }
EC_CPU cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) { for (auto &step : *graph) step(); return cudaSuccess; }
/* Times are those of the CPU. */
typedef double *cudaEvent_t;
EC_CPU cudaEventCreate(cudaEvent_t *event) { *event = new double(0); return cudaSuccess; }
enum { cudaEventDisableTiming = 2 };
EC_CPU cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return cudaEventCreate(event); }
EC_CPU cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; } /* kernels run in the order of their launches */
EC_CPU cudaEventDestroy(cudaEvent_t event) { delete event; return cudaSuccess; }
EC_CPU cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
EC_CPU cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *event = 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
  return cudaSuccess;
}
EC_CPU cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = (float)(*to - *from);
  return cudaSuccess;
}
#undef EC_CPU

#endif
