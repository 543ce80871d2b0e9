/* The vocabulary of generated kernels: CUDA's functions under the names that OpenCL kernels use too, and vectors of four
 * floats. With EC_ON_CPU the same kernels are C++ for the CPU (ec_cuda_cpu.h): slow, but every line can be tested without
 * a GPU. */
#ifndef EC_CUDA_H
#define EC_CUDA_H

#ifdef EC_ON_CPU
#include "ec_cuda_cpu.h"
#else
#include <cuda_runtime.h>
/* A thread block gets more than 48 KiB of shared memory only on request. Where kernels overlap, all of them leave as little of
 * a multiprocessor's memory to the L1 cache as they can: it is divided anew only while the multiprocessor is idle. */
#define EC_ASK(kernel, shared) \
  ((shared) > 48 * 1024 ? (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared) : (void)0)
#if EC_OVERLAP
/* With ``overlaps`` the kernel may start while the previous one on the stream ends (see ec_wait); ``cluster`` neighboring
 * thread blocks form a cluster. */
template <class... P, class... A>
static inline void ec_launch(bool overlaps, void (*kernel)(P...), unsigned groups, unsigned cluster, unsigned threads, int shared, cudaStream_t stream, A... arguments) {
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = cluster;
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  config.gridDim = dim3(groups);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = (size_t)shared;
  config.stream = stream;
  config.attrs = attributes + (cluster == 1);
  config.numAttrs = (cluster > 1) + overlaps;
  EC_ASK(kernel, shared);
  (void)cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  cudaLaunchKernelEx(&config, kernel, (P)arguments...);
}
#define EC_LAUNCH(overlaps, kernel, groups, cluster, threads, shared, stream, ...) \
  ec_launch(overlaps, kernel, (unsigned)(groups), cluster, threads, shared, stream, __VA_ARGS__)
#else
#define EC_LAUNCH(overlaps, kernel, groups, cluster, threads, shared, stream, ...) \
  (EC_ASK(kernel, shared), kernel<<<(unsigned)(groups), threads, shared, stream>>>(__VA_ARGS__))
#endif
#endif

#define EC_SCALAR static __device__ __forceinline__
#define EC_INT int /* positions: no buffer has 2^31 elements */
/* 1 / x, to one unit in the last place where that is a normal number; without the branches of a division. */
EC_SCALAR float ec_inverse(float x) {
#ifdef __CUDA_ARCH__
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
#else
  return 1 / x;
#endif
}
EC_SCALAR double ec_inverse(double x) { return 1 / x; }
#define EC_INVERSE(x) ec_inverse(x)
#include "ec_scalar.h"

#define restrict __restrict__
/* For pointers to what kernels before this one write. Where a kernel may start before those end, the compiler must not know
 * that it is constant in this kernel: it would move loads of constants to before ec_wait. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define EC_WAITED
#else
#define EC_WAITED restrict
#endif
#define EC_KERNEL(threads) EC_KERNEL_BESIDE(threads, 1)
/* A kernel with registers for so many thread blocks on a multiprocessor. */
#define EC_KERNEL_BESIDE(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define EC_DEVICE static __device__ __forceinline__
/* Shared memory: EC_SHARED declares an array in it, EC_IN_SHARED begins the type of a pointer into it (nothing is needed
 * here), EC_SHARED_MEMORY declares a pointer to the part whose size the launch gives. */
#define EC_SHARED __shared__
#define EC_IN_SHARED
#define EC_ALIGNED __align__(16)
#define EC_SHARED_MEMORY(type, name, elements) type *const name = (type *)(void *)ec_shared()
/* Unrolling that keeps the loads of several rounds in flight, and that of loops under a condition. */
#define EC_PRAGMA(text) _Pragma(#text)
#define EC_UNROLL_LOADS(rounds) EC_PRAGMA(unroll rounds)
#define EC_UNROLL_GUARDED EC_PRAGMA(unroll)

#ifndef EC_ON_CPU
/* Dynamic shared memory of the thread block; the launch gives its size. */
EC_DEVICE unsigned char *ec_shared(void) {
  extern __shared__ __align__(16) unsigned char ec_shared_bytes[];
  return ec_shared_bytes;
}
/* 2^x, to about six digits. */
EC_DEVICE float ec_exp2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
#endif
#define EC_LOG2E 1.44269504f
/* Softmax weights are 2^(x * unit + ec_less(base, unit)), of x = score or, where the base ec_is_far, x = score - base: its
 * rounded product with the unit may be off by more than weights have room for. ec_rebased: what weights are scaled by when
 * another base takes the place of one. */
EC_DEVICE bool ec_is_far(float base, float unit) { return fabsf(base * unit) > 16777216.0f && base != -(float)INFINITY; }
EC_DEVICE float ec_less(float base, float unit) { return fabsf(base * unit) > 16777216.0f ? 0.0f : -(base * unit); }
EC_DEVICE float ec_power(float score, float base, float unit) {
  return fmaf(ec_is_far(base, unit) ? score - base : score, unit, ec_less(base, unit));
}
EC_DEVICE float ec_rebased(float from, float to, float unit) {
  if (from == -(float)INFINITY) return 1.0f; /* there are no weights */
  return ec_exp2(ec_power(from, to, unit) - ec_power(from, from, unit));
}
EC_DEVICE int ec_group(void) { return (int)blockIdx.x; }
EC_DEVICE int ec_thread(void) { return (int)threadIdx.x; }
EC_DEVICE void ec_barrier(void) { __syncthreads(); }
EC_DEVICE void ec_warp_barrier(void) { __syncwarp(); }
/* Does it hold for any lane of the warp? */
EC_DEVICE bool ec_any(bool x) { return __any_sync(0xffffffffu, x); }
/* The value of the lane whose number differs in these bits. */
EC_DEVICE float ec_shuffle(float x, int bits) { return __shfl_xor_sync(0xffffffffu, x, bits); }
/* Reads memory that another thread block has written. */
#ifdef EC_ON_CPU
EC_DEVICE float ec_fresh(const float *p) { return *p; }
EC_DEVICE int ec_fresh(const int *p) { return *p; }
#else
EC_DEVICE float ec_fresh(const float *p) { float x; asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(p) : "memory"); return x; }
EC_DEVICE int ec_fresh(const int *p) { int x; asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(x) : "l"(p) : "memory"); return x; }
#endif
/* A number as it is stored, so that nothing waits for the load before ec_number makes it a float: from memory that nobody has
 * written since the kernel began, from memory that another thread block has written, and the latter where that is wanted. */
EC_DEVICE float ec_raw(const float *p) { return *p; }
EC_DEVICE ec_f16 ec_raw(const ec_f16 *p) { return *p; }
EC_DEVICE int ec_raw(const signed char *p) { return *p; }
#ifdef EC_ON_CPU
EC_DEVICE float ec_raw_fresh(const float *p) { return *p; }
EC_DEVICE ec_f16 ec_raw_fresh(const ec_f16 *p) { return *p; }
EC_DEVICE int ec_raw_fresh(const signed char *p) { return *p; }
EC_DEVICE void ec_renew(float &x, const float *p, bool is_wanted) { if (is_wanted) x = *p; }
EC_DEVICE void ec_renew(ec_f16 &x, const ec_f16 *p, bool is_wanted) { if (is_wanted) x = *p; }
EC_DEVICE void ec_renew(int &x, const signed char *p, bool is_wanted) { if (is_wanted) x = *p; }
#else
EC_DEVICE float ec_raw_fresh(const float *p) { return ec_fresh(p); }
EC_DEVICE ec_f16 ec_raw_fresh(const ec_f16 *p) { ec_f16 x; asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(x) : "l"(p) : "memory"); return x; }
EC_DEVICE int ec_raw_fresh(const signed char *p) { int x; asm volatile("ld.global.cg.s8 %0, [%1];" : "=r"(x) : "l"(p) : "memory"); return x; }
/* Without a branch, so that many are on their way at once. */
#define EC_RENEW(load, kind, type, from)                                                                             \
  EC_DEVICE void ec_renew(type &x, const from *p, bool is_wanted) {                                                  \
    asm volatile("{\n.reg .pred wanted;\nsetp.ne.s32 wanted, %2, 0;\n@wanted ld.global.cg." load " %0, [%1];\n}"    \
                 : kind(x) : "l"(p), "r"((int)is_wanted) : "memory");                                                 \
  }
EC_RENEW("f32", "+f", float, float)
EC_RENEW("u16", "+h", ec_f16, ec_f16)
EC_RENEW("s8", "+r", int, signed char)
#endif
EC_DEVICE float ec_number(float x) { return x; }
EC_DEVICE float ec_number(ec_f16 x) { return ec_from_f16(x); }
EC_DEVICE float ec_number(int x) { return (float)x; }
/* Programmatic dependent launch (compute capability 9.0): a kernel may start while the previous one ends, and must not read
 * what kernels have written, or write anything, before ec_wait. After ec_let_next the next kernel may start to wait, once
 * all thread blocks of this one run. Only kernels that leave resources for it call that. */
EC_DEVICE void ec_wait(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
EC_DEVICE void ec_let_next(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/* Prefetches the thread block's share of so many bytes into L2. */
EC_DEVICE void ec_prefetch(const void *from, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const int share = (bytes / (int)gridDim.x + 16) / 16 * 16, first = (int)blockIdx.x * share;
  if (threadIdx.x == 0 && first < bytes)
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"((const char *)from + first), "r"(min(share, bytes - first)));
#else
  (void)from;
  (void)bytes;
#endif
}
/* Prefetches the cache line of an element into L2. */
EC_DEVICE void ec_prefetch(const void *p) {
#ifdef EC_ON_CPU
  (void)p;
#else
  asm volatile("prefetch.global.L2 [%0];" :: "l"(p));
#endif
}
/* Is this the last of so many thread blocks to arrive? Then it sees what the others have written. */
EC_DEVICE bool ec_is_last(int *lock, int groups) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(lock, 1) == groups - 1;
    if (last) *lock = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}
#define EC_LAST_TO_ARRIVE(last, lock, groups) const bool last = ec_is_last(lock, groups)

/* Clusters of thread blocks (compute capability 9.0). After ec_cluster_sync, a barrier for all threads of the cluster, the
 * shared memory of every block is visible to the others. ec_remote reads four numbers from the shared memory of block
 * ``rank``, at the place that ``p`` has in this one; no block may end before the others have read. ec_cluster_arrive and
 * ec_cluster_wait are the halves of a barrier that orders nothing but the initialization of mbarriers. After it,
 * ec_to_remote writes four numbers to the shared memory of a block, and counts their bytes there: ec_remote_wait waits for
 * those that ec_mbarrier_expect announced to an mbarrier, once. */
#ifndef EC_ON_CPU
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
EC_DEVICE void ec_cluster_sync(void) {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
template <class T> EC_DEVICE void ec_remote(T (&numbers)[4], const T *p, int rank) {
  unsigned bits[4];
  asm volatile("{\n.reg .u32 there;\nmapa.shared::cluster.u32 there, %4, %5;\nld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [there];\n}"
               : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
               : "r"((unsigned)__cvta_generic_to_shared(p)), "r"(rank) : "memory");
  for (int i = 0; i < 4; ++i) memcpy(&numbers[i], &bits[i], 4);
}
EC_DEVICE void ec_cluster_arrive(void) { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
EC_DEVICE void ec_cluster_wait(void) { asm volatile("barrier.cluster.wait;" ::: "memory"); }
EC_DEVICE void ec_to_remote(float *p, const float (&numbers)[4], int rank, unsigned long long *mbarrier) {
  asm volatile("{\n.reg .u32 there, counter;\nmapa.shared::cluster.u32 there, %0, %1;\nmapa.shared::cluster.u32 counter, %2, %1;\n"
               "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%3, %4, %5, %6}, [counter];\n}"
               :: "r"((unsigned)__cvta_generic_to_shared(p)), "r"(rank), "r"((unsigned)__cvta_generic_to_shared(mbarrier)),
                  "f"(numbers[0]), "f"(numbers[1]), "f"(numbers[2]), "f"(numbers[3]) : "memory");
}
EC_DEVICE void ec_remote_wait(unsigned long long *mbarrier) {
  unsigned over;
  do
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(over) : "r"((unsigned)__cvta_generic_to_shared(mbarrier)) : "memory");
  while (!over);
}
#endif
#endif

/* Asynchronous copies of 16, 8 or 4 bytes from global to shared memory, complete after ec_copies_wait. ec_copy_if does not
 * branch: where ``there`` does not hold, it stores zeros. ec_fill stores a pattern instead. */
template <int BYTES> struct ec_piece { typedef unsigned type; };
template <> struct ec_piece<8> { typedef uint2 type; };
template <> struct ec_piece<16> { typedef uint4 type; };
template <int BYTES> EC_DEVICE void ec_fill(void *to, unsigned fill) {
  typename ec_piece<BYTES>::type piece;
  for (int i = 0; i < BYTES / 4; ++i) ((unsigned *)&piece)[i] = fill;
  *(typename ec_piece<BYTES>::type *)to = piece;
}
#ifndef EC_ON_CPU
static __device__ uint4 ec_zeros;
#endif
template <int BYTES> EC_DEVICE void ec_copy_if(void *to, const void *from, bool there) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if (!there) from = &ec_zeros; /* on H100, copies of no bytes from a null pointer ended kernels now and then */
  const unsigned place = (unsigned)__cvta_generic_to_shared(to), bytes = there ? BYTES : 0;
  if (BYTES == 16) /* bypasses L1, which smaller copies cannot */
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(from), "n"(BYTES), "r"(bytes) : "memory");
#else
  if (there) *(typename ec_piece<BYTES>::type *)to = *(const typename ec_piece<BYTES>::type *)from;
  else ec_fill<BYTES>(to, 0);
#endif
}
/* Ends a batch of copies; waits until all but the last so many batches are complete. */
EC_DEVICE void ec_copies_commit(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int BATCHES> EC_DEVICE void ec_copies_wait(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(BATCHES) : "memory");
#endif
}
/* Bulk copies (compute capability 9.0): one thread starts a copy of so many bytes, which completes a phase of an mbarrier in
 * shared memory. Threads wait for the end of an even (0) or odd (1) phase; threads other than the one that initialized the
 * mbarrier may do so after the next ec_barrier. */
typedef unsigned long long ec_mbarrier;
#ifdef EC_ON_CPU
EC_DEVICE void ec_mbarrier_init(ec_mbarrier *) {}
EC_DEVICE void ec_mbarriers_fence(void) {}
EC_DEVICE void ec_mbarrier_expect(ec_mbarrier *, int) {}
EC_DEVICE void ec_mbarrier_wait(ec_mbarrier *, unsigned) {}
EC_DEVICE void ec_bulk_copy(void *to, const void *from, int bytes, ec_mbarrier *) { memcpy(to, from, (size_t)bytes); }
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
EC_DEVICE unsigned ec_place_of(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
EC_DEVICE void ec_mbarrier_init(ec_mbarrier *mbarrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(ec_place_of(mbarrier)) : "memory");
}
EC_DEVICE void ec_mbarriers_fence(void) {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/* Announces so many bytes, and arrives. */
EC_DEVICE void ec_mbarrier_expect(ec_mbarrier *mbarrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(ec_place_of(mbarrier)), "r"(bytes) : "memory");
}
EC_DEVICE void ec_mbarrier_wait(ec_mbarrier *mbarrier, unsigned phase) {
  unsigned over;
  do
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(over) : "r"(ec_place_of(mbarrier)), "r"(phase) : "memory");
  while (!over);
}
EC_DEVICE void ec_bulk_copy(void *to, const void *from, int bytes, ec_mbarrier *mbarrier) {
  const unsigned place = ec_place_of(mbarrier);
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(ec_place_of(to)), "l"(from), "r"(bytes), "r"(place) : "memory");
}
#endif
/* Matrix products of a warp: 32 bytes of k at once, whatever the type. A register holds 4 bytes of row lane / 4, from byte
 * lane % 4 * 4 on. ec_matrices loads four matrices of 8 rows of 16 bytes, to which the lanes point; ec_matrices_transposed
 * loads matrices of 16 bits transposed: a register holds two elements of column lane / 4, from row lane % 4 * 2 on. ec_gathered
 * loads four floats, which are ``one`` and ``two`` elements apart. */
EC_DEVICE void ec_gathered(unsigned (&r)[4], const float *p, int one, int two) {
  memcpy(&r[0], p, 4);
  memcpy(&r[1], p + one, 4);
  memcpy(&r[2], p + two, 4);
  memcpy(&r[3], p + one + two, 4);
}
#ifndef EC_ON_CPU
EC_DEVICE void ec_matrices(unsigned (&r)[4], const void *row) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place) : "memory");
}
EC_DEVICE void ec_matrices_transposed(unsigned (&r)[4], const void *row) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place) : "memory");
}
#define EC_MULTIPLY(NAME, SHAPE, SUM, IN)                                                          \
  EC_DEVICE void NAME(SUM (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {             \
    asm("mma.sync.aligned." SHAPE " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : IN(c[0]), IN(c[1]), IN(c[2]), IN(c[3])                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                  \
  }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define EC_F(x) "+f"(x)
#define EC_R(x) "+r"(x)
EC_MULTIPLY(ec_multiply_f16, "m16n8k16.row.col.f32.f16.f16.f32", float, EC_F)
EC_MULTIPLY(ec_multiply_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32", float, EC_F)
EC_MULTIPLY(ec_multiply_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32", float, EC_F)
EC_MULTIPLY(ec_multiply_i8_i8, "m16n8k32.row.col.s32.s8.s8.s32", int, EC_R)
EC_MULTIPLY(ec_multiply_i8_u8, "m16n8k32.row.col.s32.s8.u8.s32", int, EC_R)
EC_MULTIPLY(ec_multiply_u8_i8, "m16n8k32.row.col.s32.u8.s8.s32", int, EC_R)
EC_MULTIPLY(ec_multiply_u8_u8, "m16n8k32.row.col.s32.u8.u8.s32", int, EC_R)
#undef EC_F
#undef EC_R
#endif
#undef EC_MULTIPLY
#endif

/* Products by weights of which two of each four along k are there: 64 bytes of k of the other factor at once. ``ec_sparse`` has
 * what a lane holds of 16 columns of weights: their elements, and the positions of elements in their groups of four, two bits
 * each. ec_load_sparse loads it from memory in the order of lanes; of halves every other pair of lanes gives positions. ``s``
 * has the rows of the other factor as two results of ec_matrices. Sums are of 16 columns by 16 rows: lane 4 g + t has columns g
 * (``left``) and g + 8 (``right``) of rows 2 t, 2 t + 1 and those eight below, which ec_transpose makes columns 2 t and 2 t + 1
 * of row g: it transposes 8 x 8 numbers, of which a lane holds two of a row. */
struct ec_sparse { unsigned elements[4], positions; };
template <int BYTES> EC_DEVICE void ec_load_sparse(ec_sparse &r, const unsigned *from) {
  const int lane = ec_thread() % 32;
  const uint4 four = *(const uint4 *)(const void *)(from + 4 * lane);
  r.elements[0] = four.x;
  r.elements[1] = four.y;
  r.elements[2] = four.z;
  r.elements[3] = four.w;
  r.positions = from[128 + (BYTES == 1 ? lane : lane / 4 * 2 + lane % 2)];
}
template <class T> EC_DEVICE void ec_transpose(T &x, T &y) {
  const int lane = ec_thread() % 32, odd = lane / 4 % 2, other = lane % 4 * 8 + lane / 8;
  const T first = __shfl_sync(0xffffffffu, odd ? y : x, other + odd * 4), second = __shfl_sync(0xffffffffu, odd ? x : y, other + 4 - odd * 4);
  x = odd ? second : first;
  y = odd ? first : second;
}
#ifndef EC_ON_CPU
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
/* From PTX 8.5 on, positions that are in order have an instruction of their own; the other one may be slow. */
#if !defined(__CUDACC_VER_MAJOR__) || __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 5)
#define EC_ORDERED "::ordered_metadata"
#else
#define EC_ORDERED ""
#endif
#define EC_MULTIPLY_SPARSE(NAME, SHAPE, SUM, IN)                                                                       \
  EC_DEVICE void NAME(SUM (&left)[4], SUM (&right)[4], const ec_sparse &l, const unsigned (&s)[2][4]) {               \
    for (int i = 0; i < 2; ++i)                                                                                        \
      asm("mma.sp" EC_ORDERED ".sync.aligned." SHAPE                                                                   \
          " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;"                     \
          : IN(left[2 * i]), IN(left[2 * i + 1]), IN(right[2 * i]), IN(right[2 * i + 1])                               \
          : "r"(l.elements[0]), "r"(l.elements[1]), "r"(l.elements[2]), "r"(l.elements[3]),                            \
            "r"(s[0][i]), "r"(s[0][i + 2]), "r"(s[1][i]), "r"(s[1][i + 2]), "r"(l.positions));                         \
  }
#define EC_F(x) "+f"(x)
#define EC_R(x) "+r"(x)
EC_MULTIPLY_SPARSE(ec_multiply_sparse_f16, "m16n8k32.row.col.f32.f16.f16.f32", float, EC_F)
EC_MULTIPLY_SPARSE(ec_multiply_sparse_bf16, "m16n8k32.row.col.f32.bf16.bf16.f32", float, EC_F)
/* The factors in the order of the names are S and L; of the instruction, L is the left one. */
EC_MULTIPLY_SPARSE(ec_multiply_sparse_i8_i8, "m16n8k64.row.col.s32.s8.s8.s32", int, EC_R)
EC_MULTIPLY_SPARSE(ec_multiply_sparse_i8_u8, "m16n8k64.row.col.s32.u8.s8.s32", int, EC_R)
EC_MULTIPLY_SPARSE(ec_multiply_sparse_u8_i8, "m16n8k64.row.col.s32.s8.u8.s32", int, EC_R)
EC_MULTIPLY_SPARSE(ec_multiply_sparse_u8_u8, "m16n8k64.row.col.s32.u8.u8.s32", int, EC_R)
#undef EC_F
#undef EC_R
#undef EC_MULTIPLY_SPARSE
#undef EC_ORDERED
#endif
#endif

/* Products of groups of four warps (compute capability 9.0): factors in shared memory, in rows of 128 bytes that begin at
 * multiples of 1024 and have their 16-byte chunks in an order that depends on the row. Between ec_group_begin and
 * ec_group_commit products are started; ec_group_wait waits until all but the last so many commits are done. What threads
 * have stored there, or copied, is seen after ec_group_sees_copies and a barrier. The compiler does not know when registers of
 * a product are read and written: they are ec_group_settled before ec_group_begin where they have been changed, and after
 * ec_group_wait. ec_matrix describes a factor: its place and, where rows of one step of the sum are longer than 128 bytes, how
 * far the next part of them is. */
#ifdef EC_ON_CPU
EC_DEVICE unsigned char *ec_aligned(unsigned char *p) { return p; }
EC_DEVICE void ec_group_sees_copies(void) {}
EC_DEVICE void ec_group_begin(void) {}
EC_DEVICE void ec_group_commit(void) {}
template <int COMMITS> EC_DEVICE void ec_group_wait(void) {}
template <int WIDE> EC_DEVICE void ec_group_settled(float (&)[WIDE][4]) {}
template <int WIDE> EC_DEVICE void ec_group_settled(unsigned (&)[WIDE][4]) {}
template <int WIDE> EC_DEVICE void ec_group_settled(int (&)[WIDE][4]) {}
#elif !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
EC_DEVICE unsigned char *ec_aligned(unsigned char *p) { return p + (-(unsigned)__cvta_generic_to_shared(p) & 1023u); }
EC_DEVICE void ec_group_sees_copies(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
EC_DEVICE void ec_group_begin(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
EC_DEVICE void ec_group_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int COMMITS> EC_DEVICE void ec_group_wait(void) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(COMMITS) : "memory");
}
template <int WIDE> EC_DEVICE void ec_group_settled(float (&x)[WIDE][4]) {
#pragma unroll
  for (int i = 0; i < WIDE * 4; ++i) asm volatile("" : "+f"(x[i / 4][i % 4]) :: "memory");
}
template <int WIDE> EC_DEVICE void ec_group_settled(unsigned (&x)[WIDE][4]) {
#pragma unroll
  for (int i = 0; i < WIDE * 4; ++i) asm volatile("" : "+r"(x[i / 4][i % 4]) :: "memory");
}
template <int WIDE> EC_DEVICE void ec_group_settled(int (&x)[WIDE][4]) {
#pragma unroll
  for (int i = 0; i < WIDE * 4; ++i) asm volatile("" : "+r"(x[i / 4][i % 4]) :: "memory");
}
EC_DEVICE unsigned long long ec_matrix(const void *p, unsigned next_part) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(p);
  return (place & 0x3ffffu) >> 4 | (unsigned long long)(next_part >> 4) << 16 | 64ull << 32 | 1ull << 62;
}
#endif

/* Tensor cores drop the last 13 bits of a float; adding half of the last bit that stays turns this into rounding. */
template <int N> EC_DEVICE void ec_round_tf32(unsigned (&r)[N][4]) {
#pragma unroll
  for (int i = 0; i < N; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) r[i][j] += 0x1000u;
}

/* Sorts n items by the threads of a block: a bitonic network whose steps all sort upwards, so that n need not be a power of
 * two. ``after`` must order equal items for a stable sort. */
template <int THREADS, class Item, class After> EC_DEVICE void ec_sort(Item *items, ec_int n, After after) {
  for (ec_int size = 2; size < 2 * n; size *= 2)
    for (ec_int step = size / 2; step > 0; step /= 2) {
      for (ec_int pair = ec_thread(); pair / step * 2 * step < n; pair += THREADS) {
        const ec_int first = pair / step * 2 * step, low = first + pair % step;
        const ec_int high = 2 * step == size ? first + size - 1 - pair % step : low + step; /* the merge, then its halves */
        if (high < n && after(items[low], items[high])) {
          const Item held = items[low];
          items[low] = items[high];
          items[high] = held;
        }
      }
      ec_barrier();
    }
}

/* fp32 products as three of TF32: of the leading 11 bits of both factors, and of those with the remainder of the other. The
 * product of both remainders could only change the last bit. Infinity has no remainder. Tensor cores truncate sums, so that
 * they add up at most eight products. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
EC_DEVICE void ec_split(unsigned x, unsigned &high, unsigned &low) {
  high = x & 0xffffe000u;
  low = high == x ? 0 : ec_float_to_bits(ec_bits_to_float(x) - ec_bits_to_float(high)) + 0x1000u; /* rounded, not cut */
}
EC_DEVICE void ec_multiply_f32(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  unsigned high[4], low[4], high0, high1, low0, low1;
#pragma unroll
  for (int i = 0; i < 4; ++i) ec_split(a[i], high[i], low[i]);
  ec_split(b0, high0, low0);
  ec_split(b1, high1, low1);
  float sum[4] = {};
  ec_multiply_tf32(sum, low, high0, high1);
  ec_multiply_tf32(sum, high, low0, low1);
  ec_multiply_tf32(sum, high, high0, high1);
#pragma unroll
  for (int i = 0; i < 4; ++i) c[i] += sum[i];
}
#endif

/* x / y that is rounded to an integer next, for a y that is neither tiny nor huge: the steps of a division without its
 * branches. Exact up to 2^24, but for what rounds to zero; beyond, within two units in the last place. */
EC_DEVICE float ec_quotient(float x, float y) {
#ifdef __CUDA_ARCH__
  float inverse, quotient;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(y));
  inverse = fmaf(fmaf(-y, inverse, 1.0f), inverse, inverse);
  quotient = x * inverse;
  float better = fmaf(fmaf(-y, quotient, x), inverse, quotient);
  better = fmaf(fmaf(-y, better, x), inverse, better);
  return fabsf(quotient) < 16777216.0f ? better : quotient; /* infinity has no remainder */
#else
  return x / y;
#endif
}

/* The error function within 2.6e-5, and a share of 1.1e-4 of it, for results of 16 bits or fewer: a polynomial up to 3. */
EC_DEVICE float ec_coarse_erf(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float y;
  asm("max.NaN.f32 %0, %1, 0fC0400000;\nmin.NaN.f32 %0, %0, 0f40400000;" : "=f"(y) : "f"(x));
#else
  const float y = x == x ? fminf(fmaxf(x, -3.0f), 3.0f) : x;
#endif
  const float z = y * y;
  float p = 4.0742087e-08f;
  p = fmaf(p, z, -1.94482209e-06f);
  p = fmaf(p, z, 4.10605135e-05f);
  p = fmaf(p, z, -0.000511036778f);
  p = fmaf(p, z, 0.0042354269f);
  p = fmaf(p, z, -0.0251028594f);
  p = fmaf(p, z, 0.111079335f);
  p = fmaf(p, z, -0.375314862f);
  p = fmaf(p, z, 1.12826848f);
  return p * y;
}

/* Four floats, and the masks that comparing them gives. */
struct ec_vf { float4 v; };
struct ec_vi { int x, y, z, w; };

EC_DEVICE ec_vf ec_make(float x, float y, float z, float w) { return {make_float4(x, y, z, w)}; }
EC_DEVICE ec_vf ec_set1(float x) { return ec_make(x, x, x, x); }
EC_DEVICE float ec_lane(ec_vf a, int lane) { return lane == 0 ? a.v.x : lane == 1 ? a.v.y : lane == 2 ? a.v.z : a.v.w; }
EC_DEVICE ec_vf ec_load(const float *p) { return {*(const float4 *)p}; }
EC_DEVICE ec_vf ec_gather(const float *p, int step) { return ec_make(p[0], p[step], p[2 * step], p[3 * step]); }
EC_DEVICE void ec_store(float *p, ec_vf a) { *(float4 *)p = a.v; }
EC_DEVICE void ec_store_two(float *p, float a, float b) { *(float2 *)(void *)p = {a, b}; }
EC_DEVICE ec_vf ec_load_shared(const float *p) { return ec_load(p); }
EC_DEVICE void ec_store_shared(float *p, ec_vf a) { ec_store(p, a); }
EC_DEVICE void ec_scatter_shared(float *p, int step, ec_vf a) {
#pragma unroll
  for (int j = 0; j < 4; ++j) p[j * step] = ec_lane(a, j);
}
/* fp16 and bf16 in memory, two to a word. */
#define EC_HALVES(TYPE)                                                                                              \
  EC_DEVICE ec_vf ec_four_##TYPE(unsigned low, unsigned high) {                                                      \
    return ec_make(ec_from_##TYPE((ec_##TYPE)low), ec_from_##TYPE((ec_##TYPE)(low >> 16)),                           \
                   ec_from_##TYPE((ec_##TYPE)high), ec_from_##TYPE((ec_##TYPE)(high >> 16)));                        \
  }                                                                                                                  \
  EC_DEVICE ec_vf ec_load_##TYPE(const ec_##TYPE *p) {                                                               \
    const uint2 w = *(const uint2 *)p;                                                                               \
    return ec_four_##TYPE(w.x, w.y);                                                                                 \
  }                                                                                                                  \
  EC_DEVICE unsigned ec_two_##TYPE(float low, float high) { return ec_to_##TYPE(low) | (unsigned)ec_to_##TYPE(high) << 16; } \
  EC_DEVICE ec_vf ec_gather_##TYPE(const ec_##TYPE *p, int step) {                                                   \
    return ec_make(ec_from_##TYPE(p[0]), ec_from_##TYPE(p[step]), ec_from_##TYPE(p[2 * step]), ec_from_##TYPE(p[3 * step])); \
  }                                                                                                                  \
  EC_DEVICE void ec_store_##TYPE(ec_##TYPE *p, ec_vf a) {                                                            \
    uint2 w;                                                                                                         \
    w.x = ec_two_##TYPE(a.v.x, a.v.y);                                                                               \
    w.y = ec_two_##TYPE(a.v.z, a.v.w);                                                                               \
    *(uint2 *)p = w;                                                                                                 \
  }
EC_HALVES(f16)
EC_HALVES(bf16)
#undef EC_HALVES

/* int8 and uint8 in memory, four to a word; a store truncates to an integer, which the caller knows to fit. */
EC_DEVICE float ec_from_u8(unsigned char x) { return (float)x; }
EC_DEVICE float ec_from_i8(signed char x) { return (float)x; }
EC_DEVICE ec_vf ec_load_u8(const unsigned char *p) {
  const unsigned w = *(const unsigned *)(const void *)p;
  return ec_make((float)(w & 255), (float)(w >> 8 & 255), (float)(w >> 16 & 255), (float)(w >> 24));
}
EC_DEVICE ec_vf ec_load_i8(const signed char *p) {
  const unsigned w = *(const unsigned *)(const void *)p;
  return ec_make((float)(signed char)w, (float)(signed char)(w >> 8), (float)(signed char)(w >> 16), (float)(signed char)(w >> 24));
}
EC_DEVICE ec_vf ec_gather_u8(const unsigned char *p, int step) { return ec_make((float)p[0], (float)p[step], (float)p[2 * step], (float)p[3 * step]); }
EC_DEVICE ec_vf ec_gather_i8(const signed char *p, int step) { return ec_make((float)p[0], (float)p[step], (float)p[2 * step], (float)p[3 * step]); }
EC_DEVICE unsigned ec_four_bytes(ec_vf a) {
  return ((unsigned)(int)a.v.x & 255) | ((unsigned)(int)a.v.y & 255) << 8 | ((unsigned)(int)a.v.z & 255) << 16 | (unsigned)(int)a.v.w << 24;
}
EC_DEVICE void ec_store_u8(unsigned char *p, ec_vf a) { *(unsigned *)(void *)p = ec_four_bytes(a); }
EC_DEVICE void ec_store_i8(signed char *p, ec_vf a) { *(unsigned *)(void *)p = ec_four_bytes(a); }
/* Floats that a store rounds, adds the zero point to, and saturates. Those of 16 bits are far beyond all bounds. */
struct ec_rounded { ec_vf v; int zero; };
#ifdef EC_ON_CPU
EC_DEVICE int ec_16_bits(float x) { return x != x ? 0 : (int)fminf(fmaxf(rintf(x), -32768.0f), 32767.0f); }
#else
EC_DEVICE int ec_16_bits(float x) {
  short r;
  asm("cvt.rni.sat.s16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
#endif
/* The bytes x and y, y the lower one, below two that were packed before. */
#if defined(EC_ON_CPU) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 720)
template <bool SIGNED> EC_DEVICE unsigned ec_pack(int x, int y, unsigned upper) {
  const int low = SIGNED ? -128 : 0, high = SIGNED ? 127 : 255;
  const int a = x < low ? low : x > high ? high : x, b = y < low ? low : y > high ? high : y;
  return ((unsigned)b & 255) | ((unsigned)a & 255) << 8 | upper << 16;
}
#else
template <bool SIGNED> EC_DEVICE unsigned ec_pack(int x, int y, unsigned upper) {
  unsigned r;
  if (SIGNED) asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(upper));
  else asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(upper));
  return r;
}
#endif
template <bool SIGNED> EC_DEVICE unsigned ec_saturated(ec_rounded a) {
  const unsigned upper = ec_pack<SIGNED>(ec_16_bits(a.v.v.w) + a.zero, ec_16_bits(a.v.v.z) + a.zero, 0u);
  return ec_pack<SIGNED>(ec_16_bits(a.v.v.y) + a.zero, ec_16_bits(a.v.v.x) + a.zero, upper);
}
EC_DEVICE void ec_store_u8(unsigned char *p, ec_rounded a) { *(unsigned *)(void *)p = ec_saturated<false>(a); }
EC_DEVICE void ec_store_i8(signed char *p, ec_rounded a) { *(unsigned *)(void *)p = ec_saturated<true>(a); }

/* 16, 8 or 4 bytes of weights, requested where this is called, and not kept in L1; the four elements of quarter ``q`` (of a
 * 16 bytes' part): floats, fp16, bf16, or codes of 8 bits, by the bits of floats from 2^23 on; for a code of 4 bits,
 * 1 + code / 16. A scale and an offset. */
template <int WORDS> struct ec_words { unsigned words[WORDS]; };
struct ec_pair { float x, y; };
#ifdef EC_ON_CPU
template <int WORDS> EC_DEVICE ec_words<WORDS> ec_piece_of(const void *p, int at) {
  ec_words<WORDS> r;
  memcpy(&r, (const char *)p + sizeof r * (size_t)at, sizeof r);
  return r;
}
#else
template <int WORDS> EC_DEVICE ec_words<WORDS> ec_piece_of(const void *p, int at) {
  const ec_words<WORDS> *const from = (const ec_words<WORDS> *)p + at;
  ec_words<WORDS> r;
  if constexpr (WORDS == 4)
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.words[0]), "=r"(r.words[1]), "=r"(r.words[2]), "=r"(r.words[3]) : "l"(from));
  else if constexpr (WORDS == 2)
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(r.words[0]), "=r"(r.words[1]) : "l"(from));
  else
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(r.words[0]) : "l"(from));
  return r;
}
#endif
EC_DEVICE ec_pair ec_pair_f32(const float *p, int at) { return {p[2 * at], p[2 * at + 1]}; }
EC_DEVICE ec_pair ec_pair_of(unsigned two) { return {ec_from_f16((ec_f16)two), ec_from_f16((ec_f16)(two >> 16))}; }
EC_DEVICE ec_pair ec_pair_f16(const ec_f16 *p, int at) { return ec_pair_of(((const unsigned *)(const void *)p)[at]); }
/* The same, requested where this is called; ec_pair_of waits for it. */
#ifdef EC_ON_CPU
EC_DEVICE ec_pair ec_request_f32(const float *p, int at) { return ec_pair_f32(p, at); }
EC_DEVICE unsigned ec_request_f16(const ec_f16 *p, int at) { return ((const unsigned *)(const void *)p)[at]; }
#else
EC_DEVICE ec_pair ec_request_f32(const float *p, int at) {
  ec_pair r;
  asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(r.x), "=f"(r.y) : "l"((const float2 *)(const void *)p + at));
  return r;
}
EC_DEVICE unsigned ec_request_f16(const ec_f16 *p, int at) {
  unsigned two;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(two) : "l"((const unsigned *)(const void *)p + at));
  return two;
}
#endif
EC_DEVICE ec_pair ec_pair_of(ec_pair a) { return a; }
template <int WORDS> EC_DEVICE ec_vf ec_quarter_f32(const ec_words<WORDS> &a, int) {
  return ec_make(ec_bits_to_float(a.words[0]), ec_bits_to_float(a.words[1]), ec_bits_to_float(a.words[2]), ec_bits_to_float(a.words[3]));
}
template <int WORDS> EC_DEVICE ec_vf ec_quarter_f16(const ec_words<WORDS> &a, int q) {
  return ec_four_f16(a.words[2 * q], a.words[2 * q + 1]);
}
template <int WORDS> EC_DEVICE ec_vf ec_quarter_bf16(const ec_words<WORDS> &a, int q) {
  return ec_four_bf16(a.words[2 * q], a.words[2 * q + 1]);
}
EC_DEVICE float ec_from_code(unsigned code) { return ec_bits_to_float(0x4b000000u | code) - 8388608.0f; }
template <int WORDS> EC_DEVICE ec_vf ec_quarter_c8(const ec_words<WORDS> &a, int q) {
  const unsigned w = a.words[q];
  return ec_make(ec_from_code(w & 255), ec_from_code(w >> 8 & 255), ec_from_code(w >> 16 & 255), ec_from_code(w >> 24));
}
/* The code as the first bits behind the point of 1: 1 + code / 16, by a shift and one logical operation (of two constants
 * in C++ the compiler would make two). */
EC_DEVICE float ec_from_four_bits(unsigned word, int at) {
  const unsigned shifted = at <= 19 ? word << (19 - at) : word >> (at - 19);
#ifdef EC_ON_CPU
  return ec_bits_to_float((shifted & 0x00780000u) | 0x3f800000u);
#else
  unsigned r;
  asm("lop3.b32 %0, %1, 0x00780000, %2, 0xea;" : "=r"(r) : "r"(shifted), "r"(0x3f800000u)); /* (a & b) | c */
  return ec_bits_to_float(r);
#endif
}
template <int WORDS> EC_DEVICE ec_vf ec_quarter_c4(const ec_words<WORDS> &a, int q) {
  const unsigned w = a.words[q / 2];
  const int at = q % 2 * 16;
  return ec_make(ec_from_four_bits(w, at), ec_from_four_bits(w, at + 4), ec_from_four_bits(w, at + 8), ec_from_four_bits(w, at + 12));
}

/* Four int8 or uint8 along k as a word: loaded whole, or ``fill`` for a null pointer; or from four values. */
EC_DEVICE int ec_word(const void *p) { return *(const int *)p; }
EC_DEVICE int ec_word(const void *p, unsigned fill) { return p ? *(const int *)p : (int)fill; }
EC_DEVICE int ec_bytes(int a, int b, int c, int d) {
  return (int)((unsigned)(a & 255) | (unsigned)(b & 255) << 8 | (unsigned)(c & 255) << 16 | (unsigned)(d & 255) << 24);
}
/* The dot product of four int8 or uint8, added to a sum (compute capability 6.1). */
#ifndef EC_ON_CPU
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 610
#define EC_DOT(NAME, TYPES)                                                                        \
  EC_DEVICE int NAME(int a, int b, int sum) {                                                      \
    asm("dp4a." TYPES " %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));                            \
    return sum;                                                                                    \
  }
EC_DOT(ec_dot_i8_i8, "s32.s32")
EC_DOT(ec_dot_i8_u8, "s32.u32")
EC_DOT(ec_dot_u8_i8, "u32.s32")
EC_DOT(ec_dot_u8_u8, "u32.u32")
#undef EC_DOT
#endif
#endif

#define EC_LANEWISE(EXPRESSION)                                                                    \
  float4 r;                                                                                        \
  { const float x = a.v.x; r.x = EXPRESSION(x); }                                                  \
  { const float x = a.v.y; r.y = EXPRESSION(x); }                                                  \
  { const float x = a.v.z; r.z = EXPRESSION(x); }                                                  \
  { const float x = a.v.w; r.w = EXPRESSION(x); }                                                  \
  return {r}
#define EC_UNARY(NAME, FUNCTION)                                                                   \
  EC_DEVICE ec_vf NAME(ec_vf a) { EC_LANEWISE(FUNCTION); }
#define EC_BINARY(NAME, FUNCTION)                                                                  \
  EC_DEVICE ec_vf NAME(ec_vf a, ec_vf b) {                                                         \
    return ec_make(FUNCTION(a.v.x, b.v.x), FUNCTION(a.v.y, b.v.y), FUNCTION(a.v.z, b.v.z), FUNCTION(a.v.w, b.v.w)); }
#define EC_INFIX(SYMBOL)                                                                           \
  EC_DEVICE ec_vf operator SYMBOL(ec_vf a, ec_vf b) {                                              \
    return ec_make(a.v.x SYMBOL b.v.x, a.v.y SYMBOL b.v.y, a.v.z SYMBOL b.v.z, a.v.w SYMBOL b.v.w); }
#define EC_COMPARE(NAME, SYMBOL)                                                                   \
  EC_DEVICE ec_vi NAME(ec_vf a, ec_vf b) {                                                         \
    return {a.v.x SYMBOL b.v.x, a.v.y SYMBOL b.v.y, a.v.z SYMBOL b.v.z, a.v.w SYMBOL b.v.w}; }
EC_INFIX(+)
EC_INFIX(-)
EC_INFIX(*)
EC_INFIX(/)
EC_BINARY(ec_quotient, ec_quotient)
EC_COMPARE(ec_lt, <)
EC_COMPARE(ec_le, <=)
EC_COMPARE(ec_gt, >)
EC_COMPARE(ec_ge, >=)
EC_COMPARE(ec_eq, ==)
EC_COMPARE(ec_ne, !=)
EC_UNARY(operator-, -)
EC_UNARY(ec_abs, fabsf)
EC_UNARY(ec_sqrt, sqrtf)
EC_UNARY(ec_floor, floorf)
EC_UNARY(ec_ceil, ceilf)
EC_UNARY(ec_trunc, truncf)
EC_UNARY(ec_round, rintf)
EC_UNARY(ec_exp, expf)
EC_UNARY(ec_log, logf)
EC_UNARY(ec_log1p, log1pf)
EC_UNARY(ec_expm1, expm1f)
EC_UNARY(ec_sigmoid, ec_sigmoid_float)
EC_UNARY(ec_tanh, tanhf)
EC_UNARY(ec_erf, erff)
EC_UNARY(ec_coarse_erf, ec_coarse_erf)
EC_UNARY(ec_sin, sinf)
EC_UNARY(ec_cos, cosf)
EC_BINARY(ec_max, ec_max_float)
EC_BINARY(ec_min, ec_min_float)
EC_BINARY(ec_pow, powf)
EC_BINARY(ec_fmod, fmodf)
#undef EC_LANEWISE
#undef EC_UNARY
#undef EC_BINARY
#undef EC_INFIX
#undef EC_COMPARE

EC_DEVICE ec_vf ec_fma(ec_vf a, ec_vf b, ec_vf c) {
  return ec_make(fmaf(a.v.x, b.v.x, c.v.x), fmaf(a.v.y, b.v.y, c.v.y), fmaf(a.v.z, b.v.z, c.v.z), fmaf(a.v.w, b.v.w, c.v.w));
}
EC_DEVICE ec_vi ec_mask(bool x) { return {x, x, x, x}; }
EC_DEVICE ec_vi ec_and(ec_vi a, ec_vi b) { return {a.x & b.x, a.y & b.y, a.z & b.z, a.w & b.w}; }
EC_DEVICE ec_vi ec_or(ec_vi a, ec_vi b) { return {a.x | b.x, a.y | b.y, a.z | b.z, a.w | b.w}; }
EC_DEVICE ec_vi ec_not(ec_vi a) { return {!a.x, !a.y, !a.z, !a.w}; }
EC_DEVICE ec_vf ec_select(ec_vi m, ec_vf a, ec_vf b) {
  return ec_make(m.x ? a.v.x : b.v.x, m.y ? a.v.y : b.v.y, m.z ? a.v.z : b.v.z, m.w ? a.v.w : b.v.w);
}

#endif
