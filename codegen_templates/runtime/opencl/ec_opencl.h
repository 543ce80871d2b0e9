/* The vocabulary of generated kernels: OpenCL C 1.2 with C's names of types and functions, the names that CUDA kernels use
 * too, and vectors of 4, 8 or 16 floats. Comes before ec_scalar.h, which comes before the kernels. */
#ifndef EC_OPENCL
#define EC_OPENCL 1

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#elif defined(cl_intel_subgroups)
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#endif

typedef char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;
#define UINT32_MAX UINT_MAX
#define UINT64_MAX ULONG_MAX

#define EC_INT int /* positions: no buffer has 2^31 elements */
#define EC_SCALAR static inline
#define EC_DEVICE static inline
#define EC_KERNEL(threads) __kernel __attribute__((reqd_work_group_size(threads, 1, 1))) void
#define ec_group() ((int)get_group_id(0))
#define ec_thread() ((int)get_local_id(0))
#define ec_barrier() barrier(CLK_LOCAL_MEM_FENCE)
/* Local memory (CUDA calls it shared): EC_SHARED declares an array in it, EC_IN_SHARED begins the type of a pointer into it,
 * EC_SHARED_MEMORY declares a pointer to so many elements of it. All at the outermost level of a kernel. */
#define EC_SHARED __local
#define EC_IN_SHARED __local
#define EC_ALIGNED __attribute__((aligned(16)))
#define EC_SHARED_MEMORY(type, name, elements) \
  __local type name##_memory[elements] EC_ALIGNED; \
  __local type *const name = name##_memory
/* Unrolling that keeps the loads of several rounds in flight; compilers of OpenCL choose by themselves. */
#define EC_UNROLL_LOADS(rounds)
/* Makes the writes of this work-item visible to all work-groups, on devices that can. */
#ifdef cl_nv_pragma_unroll
#define ec_publish() asm volatile("membar.gl;" ::: "memory")
#else
#define ec_publish() mem_fence(CLK_GLOBAL_MEM_FENCE)
#endif

/* Memory that other work-groups have written: pointers to it are volatile. */
#define ec_fresh(p) (*(p))
/* Declares ``last``: is this the last of so many work-groups to come here? Then it sees what the others have written. */
#define EC_LAST_TO_ARRIVE(last, lock, groups) \
  __local int last##_arrived[1]; \
  ec_publish(); \
  ec_barrier(); \
  if (ec_thread() == 0) { \
    last##_arrived[0] = atomic_inc(lock); \
    if (last##_arrived[0] == (groups) - 1) *(lock) = 0; /* for the next kernel */ \
    ec_publish(); \
  } \
  ec_barrier(); \
  const bool last = last##_arrived[0] == (groups) - 1

/* Unrolls loops in a branch that follows a barrier, but for PoCL 3.1, which then executes their stores whatever their
 * conditions are (docs/results/opencl.md). */
#ifdef POCL_DEVICE_ADDRESS_BITS
#define EC_UNROLL_GUARDED
#else
#define EC_UNROLL_GUARDED _Pragma("unroll")
#endif

/* Functions of floats are overloads in OpenCL. */
#define fabsf fabs
#define floorf floor
#define ceilf ceil
#define truncf trunc
#define rintf rint
#define sqrtf sqrt
#define expf exp
#define fmaxf fmax
#define logf log
#define log1pf log1p
#define expm1f expm1
#define tanhf tanh
#define erff erf
#define sinf sin
#define cosf cos
#define tanf tan
#define asinf asin
#define acosf acos
#define atanf atan
#define sinhf sinh
#define coshf cosh
#define asinhf asinh
#define acoshf acosh
#define atanhf atanh
#define powf pow
#define fmodf fmod

#define ec_bits_to_float(u) as_float((uint)(u))
#define ec_float_to_bits(f) as_uint((float)(f))
#define ec_bits_to_double(u) as_double((ulong)(u))
#define ec_double_to_bits(f) as_ulong((double)(f))

/* Conversion to integers truncates and saturates; NaN becomes 0. */
#define ec_convert_int8_t(x) convert_char_sat(x)
#define ec_convert_int16_t(x) convert_short_sat(x)
#define ec_convert_int32_t(x) convert_int_sat(x)
#define ec_convert_int64_t(x) convert_long_sat(x)
#define ec_convert_uint8_t(x) convert_uchar_sat(x)
#define ec_convert_uint16_t(x) convert_ushort_sat(x)
#define ec_convert_uint32_t(x) convert_uint_sat(x)
#define ec_convert_uint64_t(x) convert_ulong_sat(x)

typedef float4 ec_vf;
#define ec_make(x, y, z, w) ((float4)(x, y, z, w))
#define ec_set1(x) ((float4)(x))
#define ec_load_shared(p) (*(__local const float4 *)(p))
#define ec_store_shared(p, a) (*(__local float4 *)(p) = (a))
EC_DEVICE void ec_scatter_shared(__local float *p, int step, float4 a) {
  p[0] = a.s0;
  p[step] = a.s1;
  p[2 * step] = a.s2;
  p[3 * step] = a.s3;
}
/* Vectors; comparing them gives masks. Pointers are to __global memory and aligned to the whole vector. */
#define ec_load4(p) (*(__global const float4 *)(p))
#define ec_load8(p) (*(__global const float8 *)(p))
#define ec_load16(p) (*(__global const float16 *)(p))
#define ec_store4(p, a) (*(__global float4 *)(p) = (a))
#define ec_store8(p, a) (*(__global float8 *)(p) = (a))
#define ec_store16(p, a) (*(__global float16 *)(p) = (a))
EC_DEVICE float4 ec_gather4(__global const float *p, int step) { return (float4)(p[0], p[step], p[2 * step], p[3 * step]); }
EC_DEVICE float8 ec_gather8(__global const float *p, int step) { return (float8)(ec_gather4(p, step), ec_gather4(p + 4 * step, step)); }
EC_DEVICE float16 ec_gather16(__global const float *p, int step) { return (float16)(ec_gather8(p, step), ec_gather8(p + 8 * step, step)); }

/* fp16 in memory, which every device of OpenCL 1.2 converts. */
#define ec_load1_f16(p) vload_half(0, (__global const half *)(p))
#define ec_load4_f16(p) vload_half4(0, (__global const half *)(p))
#define ec_load8_f16(p) vload_half8(0, (__global const half *)(p))
#define ec_load16_f16(p) vload_half16(0, (__global const half *)(p))
#define ec_store1_f16(p, a) vstore_half_rte(a, 0, (__global half *)(p))
#define ec_store4_f16(p, a) vstore_half4_rte(a, 0, (__global half *)(p))
#define ec_store8_f16(p, a) vstore_half8_rte(a, 0, (__global half *)(p))
#define ec_store16_f16(p, a) vstore_half16_rte(a, 0, (__global half *)(p))
EC_DEVICE float4 ec_gather4_f16(__global const ushort *p, int step) {
  return (float4)(ec_load1_f16(p), ec_load1_f16(p + step), ec_load1_f16(p + 2 * step), ec_load1_f16(p + 3 * step));
}
EC_DEVICE float8 ec_gather8_f16(__global const ushort *p, int step) { return (float8)(ec_gather4_f16(p, step), ec_gather4_f16(p + 4 * step, step)); }
EC_DEVICE float16 ec_gather16_f16(__global const ushort *p, int step) { return (float16)(ec_gather8_f16(p, step), ec_gather8_f16(p + 8 * step, step)); }
/* int8 and uint8 in memory as floats; stored values are rounded and in range. */
#define ec_load1_i8(p) ((float)*(p))
#define ec_load4_i8(p) convert_float4(vload4(0, p))
#define ec_load8_i8(p) convert_float8(vload8(0, p))
#define ec_load16_i8(p) convert_float16(vload16(0, p))
#define ec_store4_i8(p, a) vstore4(convert_char4_sat(a), 0, p)
#define ec_store8_i8(p, a) vstore8(convert_char8_sat(a), 0, p)
#define ec_store16_i8(p, a) vstore16(convert_char16_sat(a), 0, p)
EC_DEVICE float4 ec_gather4_i8(__global const char *p, int step) { return (float4)(p[0], p[step], p[2 * step], p[3 * step]); }
EC_DEVICE float8 ec_gather8_i8(__global const char *p, int step) { return (float8)(ec_gather4_i8(p, step), ec_gather4_i8(p + 4 * step, step)); }
EC_DEVICE float16 ec_gather16_i8(__global const char *p, int step) { return (float16)(ec_gather8_i8(p, step), ec_gather8_i8(p + 8 * step, step)); }
#define ec_load1_u8(p) ((float)*(p))
#define ec_load4_u8(p) convert_float4(vload4(0, p))
#define ec_load8_u8(p) convert_float8(vload8(0, p))
#define ec_load16_u8(p) convert_float16(vload16(0, p))
#define ec_store4_u8(p, a) vstore4(convert_uchar4_sat(a), 0, p)
#define ec_store8_u8(p, a) vstore8(convert_uchar8_sat(a), 0, p)
#define ec_store16_u8(p, a) vstore16(convert_uchar16_sat(a), 0, p)
EC_DEVICE float4 ec_gather4_u8(__global const uchar *p, int step) { return (float4)(p[0], p[step], p[2 * step], p[3 * step]); }
EC_DEVICE float8 ec_gather8_u8(__global const uchar *p, int step) { return (float8)(ec_gather4_u8(p, step), ec_gather4_u8(p + 4 * step, step)); }
EC_DEVICE float16 ec_gather16_u8(__global const uchar *p, int step) { return (float16)(ec_gather8_u8(p, step), ec_gather8_u8(p + 8 * step, step)); }
/* Weights as an image of EC_IMAGE_WIDTH texels a row (the host's ec_cl.h has the same). */
#define EC_IMAGE_WIDTH 4096
#define ec_texel(image, k) read_imagef(image, (int2)((k) % EC_IMAGE_WIDTH, (k) / EC_IMAGE_WIDTH))
#define ec_texel_half(image, k) read_imageh(image, (int2)((k) % EC_IMAGE_WIDTH, (k) / EC_IMAGE_WIDTH))
/* Unaligned vectors. */
#define ec_read1(p) (*(p))
#define ec_read4(p) vload4(0, p)
#define ec_read8(p) vload8(0, p)
#define ec_read16(p) vload16(0, p)
#define ec_read1_f16 ec_load1_f16
#define ec_read4_f16 ec_load4_f16
#define ec_read8_f16 ec_load8_f16
#define ec_read16_f16 ec_load16_f16
/* Unaligned vectors of fp16, on devices with fp16 arithmetic (cl_khr_fp16). */
#define ec_read1_half(p) (*(__global const half *)(p))
#define ec_read4_half(p) vload4(0, (__global const half *)(p))
#define ec_read8_half(p) vload8(0, (__global const half *)(p))
#define ec_read16_half(p) vload16(0, (__global const half *)(p))

#define ec_fma(a, b, c) ((a) * (b) + (c)) /* contracted to one instruction where there is one; mad may be two */
#define ec_lt(a, b) ((a) < (b))
#define ec_le(a, b) ((a) <= (b))
#define ec_gt(a, b) ((a) > (b))
#define ec_ge(a, b) ((a) >= (b))
#define ec_eq(a, b) ((a) == (b))
#define ec_ne(a, b) ((a) != (b))
#define ec_and(a, b) ((a) & (b))
#define ec_or(a, b) ((a) | (b))
#define ec_not(a) (~(a))
#define ec_select(mask, a, b) select(b, a, mask)
#define ec_abs(a) fabs(a)
#define ec_sqrt(a) sqrt(a)
#define ec_floor(a) floor(a)
#define ec_ceil(a) ceil(a)
#define ec_trunc(a) trunc(a)
#define ec_round(a) rint(a)
#define ec_exp(a) exp(a)
#define ec_log(a) log(a)
#define ec_log1p(a) log1p(a)
#define ec_expm1(a) expm1(a)
#define ec_sigmoid(a) (1.0f / (1.0f + exp(-(a))))
#define ec_tanh(a) tanh(a)
#define ec_erf(a) erf(a)
#define ec_sin(a) sin(a)
#define ec_cos(a) cos(a)
#define ec_pow(a, b) pow(a, b)
#define ec_fmod(a, b) fmod(a, b)
#define ec_max(a, b) select(b, a, ((a) > (b)) | ((a) != (a))) /* a NaN operand gives NaN */
#define ec_min(a, b) select(b, a, ((a) < (b)) | ((a) != (a)))
#define ec_lane(a, lane) ((a).s##lane)

/* Up to four int8 or uint8, ``step`` apart, as a word. */
#define ec_word(p) (*(__global const uint *)(p))
EC_DEVICE uint ec_bytes(__global const uchar *p, int step, int count) {
  uint word = p[0];
  if (count > 1) word |= (uint)p[step] << 8;
  if (count > 2) word |= (uint)p[2 * step] << 16;
  if (count > 3) word |= (uint)p[3 * step] << 24;
  return word;
}

/* Dot products of four int8 or uint8, a word each, added to a sum: the device's instruction where the network was built for
 * a device that has one (EC_DOTS), else multiplications. ec_dot_su: signed times unsigned. */
#if defined(EC_DOTS) && defined(cl_khr_integer_dot_product)
#define ec_dot_ss(a, b, sum) ((sum) + dot_4x8packed_ss_int(a, b))
#define ec_dot_us(a, b, sum) ((sum) + dot_4x8packed_us_int(a, b))
#define ec_dot_su(a, b, sum) ((sum) + dot_4x8packed_su_int(a, b))
#define ec_dot_uu(a, b, sum) ((sum) + (int)dot_4x8packed_uu_uint(a, b))
#elif defined(EC_DOTS) && defined(cl_arm_integer_dot_product_int8)
#pragma OPENCL EXTENSION cl_arm_integer_dot_product_int8 : enable
/* Unsigned times signed: u = s + 128, where s is u with its highest bit flipped. */
#define ec_dot_ss(a, b, sum) ((sum) + arm_dot(as_char4(a), as_char4(b)))
#define ec_dot_uu(a, b, sum) ((sum) + (int)arm_dot(as_uchar4(a), as_uchar4(b)))
#define ec_dot_us(a, b, sum) (ec_dot_ss((a) ^ 0x80808080u, b, sum) - arm_dot((char4)(-128), as_char4(b)))
#define ec_dot_su(a, b, sum) ec_dot_us(b, a, sum)
#elif defined(EC_DOTS) && defined(cl_nv_pragma_unroll)
#define EC_DP4A(NAME, TYPES)                                                    \
  EC_DEVICE int NAME(uint a, uint b, int sum) {                                 \
    asm("dp4a." TYPES " %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));         \
    return sum;                                                                 \
  }
EC_DP4A(ec_dot_ss, "s32.s32")
EC_DP4A(ec_dot_us, "u32.s32")
EC_DP4A(ec_dot_su, "s32.u32")
EC_DP4A(ec_dot_uu, "u32.u32")
#else
#define EC_DOTS_BY_MULTIPLYING 1
#endif

#ifdef EC_DOTS_BY_MULTIPLYING
/* Lane by lane: every lane of b with the four bytes of a. */
#define ec_byte_s(w, i) ((w) << (24 - 8 * (i)) >> 24)
#define ec_byte_u(w, i) ((w) >> (8 * (i)) & 255)
#define EC_DOT(N, A, B)                                                                                           \
  EC_DEVICE int##N ec_dot##N##_##A##B(uint a, uint##N b, int##N sum) {                                            \
    const int w = (int)a;                                                                                         \
    const int##N x = as_int##N(b);                                                                                \
    return sum + ec_byte_##A(w, 0) * ec_byte_##B(x, 0) + ec_byte_##A(w, 1) * ec_byte_##B(x, 1) +                  \
           ec_byte_##A(w, 2) * ec_byte_##B(x, 2) + ec_byte_##A(w, 3) * ec_byte_##B(x, 3);                         \
  }
#define EC_DOT_ALL(A, B) EC_DOT(4, A, B) EC_DOT(8, A, B) EC_DOT(16, A, B)
#else
#define EC_DOT_ALL(A, B)                                                                                          \
  EC_DEVICE int4 ec_dot4_##A##B(uint a, uint4 b, int4 sum) {                                                      \
    return (int4)(ec_dot_##A##B(a, b.s0, sum.s0), ec_dot_##A##B(a, b.s1, sum.s1),                                 \
                  ec_dot_##A##B(a, b.s2, sum.s2), ec_dot_##A##B(a, b.s3, sum.s3));                                \
  }                                                                                                               \
  EC_DEVICE int8 ec_dot8_##A##B(uint a, uint8 b, int8 sum) {                                                      \
    return (int8)(ec_dot4_##A##B(a, b.lo, sum.lo), ec_dot4_##A##B(a, b.hi, sum.hi));                              \
  }                                                                                                               \
  EC_DEVICE int16 ec_dot16_##A##B(uint a, uint16 b, int16 sum) {                                                  \
    return (int16)(ec_dot8_##A##B(a, b.lo, sum.lo), ec_dot8_##A##B(a, b.hi, sum.hi));                             \
  }
#endif
EC_DOT_ALL(s, s)
EC_DOT_ALL(u, s)
EC_DOT_ALL(s, u)
EC_DOT_ALL(u, u)

#endif
