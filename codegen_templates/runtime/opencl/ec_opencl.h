/* What generated kernels are written in: OpenCL C 1.2, with the names of C for types and functions, and vectors of 4, 8
 * or 16 floats. Comes before ec_scalar.h, which comes before the kernels. */
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
/* What this work-item has written is there for every group, where the device does such a thing. */
#ifdef cl_nv_pragma_unroll
#define ec_publish() asm volatile("membar.gl;" ::: "memory")
#else
#define ec_publish() mem_fence(CLK_GLOBAL_MEM_FENCE)
#endif

/* A float is a float by its argument, not by its name. */
#define fabsf fabs
#define floorf floor
#define ceilf ceil
#define truncf trunc
#define rintf rint
#define sqrtf sqrt
#define expf exp
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
/* Vectors; masks are what comparing them gives. Pointers are to __global memory and aligned to the whole vector. */
#define ec_load4(p) (*(__global const float4 *)(p))
#define ec_load8(p) (*(__global const float8 *)(p))
#define ec_load16(p) (*(__global const float16 *)(p))
#define ec_store4(p, a) (*(__global float4 *)(p) = (a))
#define ec_store8(p, a) (*(__global float8 *)(p) = (a))
#define ec_store16(p, a) (*(__global float16 *)(p) = (a))
EC_DEVICE float4 ec_gather4(__global const float *p, int step) { return (float4)(p[0], p[step], p[2 * step], p[3 * step]); }
EC_DEVICE float8 ec_gather8(__global const float *p, int step) { return (float8)(ec_gather4(p, step), ec_gather4(p + 4 * step, step)); }
EC_DEVICE float16 ec_gather16(__global const float *p, int step) { return (float16)(ec_gather8(p, step), ec_gather8(p + 8 * step, step)); }

/* Half precision in memory, which every device of OpenCL 1.2 converts. */
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
/* Neighbors wherever they begin. */
#define ec_read1(p) (*(p))
#define ec_read4(p) vload4(0, p)
#define ec_read8(p) vload8(0, p)
#define ec_read16(p) vload16(0, p)
#define ec_read1_f16 ec_load1_f16
#define ec_read4_f16 ec_load4_f16
#define ec_read8_f16 ec_load8_f16
#define ec_read16_f16 ec_load16_f16
/* The same as what they are, on devices that calculate with it (cl_khr_fp16). */
#define ec_read1_half(p) (*(__global const half *)(p))
#define ec_read4_half(p) vload4(0, (__global const half *)(p))
#define ec_read8_half(p) vload8(0, (__global const half *)(p))
#define ec_read16_half(p) vload16(0, (__global const half *)(p))

#define ec_fma(a, b, c) ((a) * (b) + (c)) /* one instruction where there is one: contraction is on; mad may be two */
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
#define ec_max(a, b) select(b, a, ((a) > (b)) | ((a) != (a))) /* a NaN operand gives NaN */
#define ec_min(a, b) select(b, a, ((a) < (b)) | ((a) != (a)))
#define ec_lane(a, lane) ((a).s##lane)

#endif
