/* Scalar arithmetic where C leaves a gap: floor division, wrapping integers, conversions, half precision.
 * Every function is total: no input makes it undefined behavior. */
#ifndef EC_SCALAR_H
#define EC_SCALAR_H

#ifndef EC_OPENCL /* there, ec_opencl.h has what follows from headers, from memcpy and from double */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined __F16C__ && !defined EC_WITHOUT_INTRINSICS
#include <immintrin.h>
#endif
#endif

#ifndef EC_INT
#define EC_INT ptrdiff_t
#endif
typedef EC_INT ec_int;     /* loop counters and positions */
typedef uint16_t ec_f16;   /* storage of IEEE binary16 */
typedef uint16_t ec_bf16;  /* storage of bfloat16 */
typedef uint8_t ec_f8e4m3fn, ec_f8e4m3fnuz, ec_f8e5m2, ec_f8e5m2fnuz, ec_f8e8m0;
typedef uint8_t ec_f4e2m1, ec_i4, ec_u4, ec_i2, ec_u2; /* in the low bits of a byte each */

#ifndef EC_SCALAR
/* GCC 12 turns branches by data whose loads are neighbors into masks of the wrong elements. */
#if defined(__GNUC__) && !defined(__clang__)
#define EC_KEEP_BRANCH __asm__ volatile("")
#else
#define EC_KEEP_BRANCH (void)0
#endif
#define EC_SCALAR static inline __attribute__((always_inline, unused))
#endif

EC_SCALAR ec_int ec_min_int(ec_int a, ec_int b) { return a < b ? a : b; }
EC_SCALAR ec_int ec_max_int(ec_int a, ec_int b) { return a > b ? a : b; }

/* A position as data gives it: negative ones count from the end; -1 where it is outside. */
EC_SCALAR ec_int ec_wrap(int64_t place, ec_int extent) {
  if (place < 0) place += extent;
  return place < 0 || place >= extent ? -1 : (ec_int)place;
}

#ifndef EC_OPENCL
EC_SCALAR float ec_bits_to_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
EC_SCALAR uint32_t ec_float_to_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
EC_SCALAR double ec_bits_to_double(uint64_t u) { double f; memcpy(&f, &u, 8); return f; }
EC_SCALAR uint64_t ec_double_to_bits(double f) { uint64_t u; memcpy(&u, &f, 8); return u; }
#endif

EC_SCALAR float ec_from_bf16(ec_bf16 h) { return ec_bits_to_float((uint32_t)h << 16); }
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 800
EC_SCALAR ec_bf16 ec_to_bf16(float f) { ec_bf16 h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
#else
EC_SCALAR ec_bf16 ec_to_bf16(float f) {
  uint32_t u = ec_float_to_bits(f);
  if (f != f) return (ec_bf16)((u >> 16) | 0x40);
  return (ec_bf16)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
#endif

#ifdef __CUDACC__ /* instructions of every GPU */
EC_SCALAR float ec_from_f16(ec_f16 h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
EC_SCALAR ec_f16 ec_to_f16(float f) { ec_f16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
#elif defined __F16C__ && !defined EC_OPENCL && !defined EC_WITHOUT_INTRINSICS /* every processor with AVX2 */
EC_SCALAR float ec_from_f16(ec_f16 h) { return _cvtsh_ss(h); }
EC_SCALAR ec_f16 ec_to_f16(float f) { return (ec_f16)_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT); }
#elif defined __ARM_FP16_FORMAT_IEEE && defined __aarch64__ && !defined EC_OPENCL
EC_SCALAR float ec_from_f16(ec_f16 h) { __fp16 f; memcpy(&f, &h, 2); return f; }
EC_SCALAR ec_f16 ec_to_f16(float f) { const __fp16 g = (__fp16)f; ec_f16 h; memcpy(&h, &g, 2); return h; }
#else
/* Scaling by a power of two lets the hardware do the rounding, denormals included. */
EC_SCALAR float ec_from_f16(ec_f16 h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
  float scaled = ec_bits_to_float(rest) * 0x1p112f;
  if (rest >= 0x0f800000u) scaled = ec_bits_to_float(rest | 0x7f800000u);
  return ec_bits_to_float(ec_float_to_bits(scaled) | sign);
}
EC_SCALAR ec_f16 ec_to_f16(float f) {
  uint32_t u = ec_float_to_bits(f), sign = (u >> 16) & 0x8000, rest = u & 0x7fffffff;
  if (rest > 0x7f800000) return (ec_f16)(sign | 0x7c00 | ((rest >> 13 & 0x3ff) ? rest >> 13 & 0x3ff : 1));
  if (rest >= 0x47800000) return (ec_f16)(sign | 0x7c00);
  if (rest < 0x38800000) {
    float aligned = ec_bits_to_float(rest) + 0.5f; /* puts the last kept bit at 2^-24 */
    return (ec_f16)(sign | (ec_float_to_bits(aligned) - 0x3f000000u));
  }
  rest += 0xc8000fffu + ((rest >> 13) & 1);
  return (ec_f16)(sign | (rest >> 13));
}
#endif

/* Floats of 8 and 4 bits. The magnitude of a code, and the code nearest to a magnitude (in the bits of a float), for so
 * many bits of mantissa and this bias of the exponent; what is not finite is the business of each type. */
EC_SCALAR float ec_decode(uint32_t code, int mantissa, int bias) {
  return ec_bits_to_float(code << (23 - mantissa)) * ec_bits_to_float((uint32_t)(254 - bias) << 23);
}
EC_SCALAR uint32_t ec_encode(uint32_t size, int mantissa, int bias) {
  if (size < (uint32_t)(128 - bias) << 23) { /* subnormal: the last bit of this sum is the last of the code */
    const uint32_t aligned = (uint32_t)(151 - bias - mantissa) << 23;
    return ec_float_to_bits(ec_bits_to_float(size) + ec_bits_to_float(aligned)) - aligned;
  }
  const uint32_t tie = (1u << (22 - mantissa)) - 1 + ((size >> (23 - mantissa)) & 1);
  return ((size + tie) >> (23 - mantissa)) - ((uint32_t)(127 - bias) << mantissa);
}

/* e4m3fn has no infinity: what is too large becomes NaN. */
EC_SCALAR float ec_from_f8e4m3fn(ec_f8e4m3fn h) {
  const float size = (h & 0x7f) == 0x7f ? ec_bits_to_float(0x7fc00000) : ec_decode(h & 0x7f, 3, 7);
  return ec_bits_to_float(ec_float_to_bits(size) | (uint32_t)(h & 0x80) << 24);
}
EC_SCALAR ec_f8e4m3fn ec_to_f8e4m3fn(float f) {
  const uint32_t u = ec_float_to_bits(f), size = u & 0x7fffffff;
  const uint32_t code = size >= 0x7f800000 ? 0x7f : ec_encode(size, 3, 7);
  return (ec_f8e4m3fn)((u >> 24 & 0x80) | (code > 0x7e ? 0x7f : code));
}

/* e5m2 is the upper half of an f16. */
EC_SCALAR float ec_from_f8e5m2(ec_f8e5m2 h) { return ec_from_f16((ec_f16)((h & 0x7f) > 0x7c ? h << 8 | 0x200 : h << 8)); }
EC_SCALAR ec_f8e5m2 ec_to_f8e5m2(float f) {
  const uint32_t u = ec_float_to_bits(f), size = u & 0x7fffffff;
  const uint32_t code = size > 0x7f800000 ? 0x7e : size == 0x7f800000 ? 0x7c : ec_encode(size, 2, 15);
  return (ec_f8e5m2)((u >> 24 & 0x80) | (code > 0x7c && size <= 0x7f800000 ? 0x7c : code));
}

/* The fnuz types have one zero, and one NaN in the place of the other. */
#define EC_FNUZ(NAME, MANTISSA, BIAS)                                                              \
  EC_SCALAR float ec_from_##NAME(ec_##NAME h) {                                                    \
    if (h == 0x80) return ec_bits_to_float(0xffc00000u);                                           \
    const float size = ec_decode(h & 0x7f, MANTISSA, BIAS);                                        \
    return h & 0x80 ? -size : size;                                                                \
  }                                                                                                \
  EC_SCALAR ec_##NAME ec_to_##NAME(float f) {                                                      \
    const uint32_t u = ec_float_to_bits(f), size = u & 0x7fffffff;                                 \
    const uint32_t code = size >= 0x7f800000 ? 0x80 : ec_encode(size, MANTISSA, BIAS);             \
    return (ec_##NAME)(code > 0x7f ? 0x80 : code ? (u >> 24 & 0x80) | code : 0);                   \
  }
EC_FNUZ(f8e4m3fnuz, 3, 8)
EC_FNUZ(f8e5m2fnuz, 2, 16)
#undef EC_FNUZ

/* e8m0 is the exponent of a float: powers of two and a NaN, which is what anything that is not positive becomes. */
EC_SCALAR float ec_from_f8e8m0(ec_f8e8m0 h) {
  return ec_bits_to_float(h == 0xff ? 0x7fc00000 : h ? (uint32_t)h << 23 : 0x400000);
}
EC_SCALAR ec_f8e8m0 ec_to_f8e8m0(float f) {
  const uint32_t u = ec_float_to_bits(f);
  if (u == 0 || u >= 0x7f800000) return 0xff;
  return (ec_f8e8m0)(u < 0x800000 ? u >= 0x600000 : (u + 0x400000) >> 23);
}

/* e2m1 has finite values alone. */
EC_SCALAR float ec_from_f4e2m1(ec_f4e2m1 h) {
  const float size = ec_decode(h & 7, 1, 1);
  return h & 8 ? -size : size;
}
EC_SCALAR ec_f4e2m1 ec_to_f4e2m1(float f) {
  const uint32_t u = ec_float_to_bits(f), size = u & 0x7fffffff, sign = u >> 28 & 8;
  if (size > 0x7f800000) return (ec_f4e2m1)(sign ^ 8);
  const uint32_t code = size >= 0x41000000 ? 7 : ec_encode(size, 1, 1);
  return (ec_f4e2m1)(sign | (code > 7 ? 7 : code));
}

/* Integers of fewer than 8 bits: the bits above are ignored when read, 0 when written. */
EC_SCALAR int8_t ec_from_i4(ec_i4 h) { return (int8_t)((h & 7) - (h & 8)); }
EC_SCALAR uint8_t ec_from_u4(ec_u4 h) { return h & 15; }
EC_SCALAR int8_t ec_from_i2(ec_i2 h) { return (int8_t)((h & 1) - (h & 2)); }
EC_SCALAR uint8_t ec_from_u2(ec_u2 h) { return h & 3; }
EC_SCALAR ec_i4 ec_to_i4(int64_t x) { return (ec_i4)(x & 15); }
EC_SCALAR ec_u4 ec_to_u4(int64_t x) { return (ec_u4)(x & 15); }
EC_SCALAR ec_i2 ec_to_i2(int64_t x) { return (ec_i2)(x & 3); }
EC_SCALAR ec_u2 ec_to_u2(int64_t x) { return (ec_u2)(x & 3); }

/* Integers wrap, as ONNX's reference does; unsigned arithmetic says so without overflow. */
#define EC_WRAPPING(T, U)                                                                          \
  EC_SCALAR T ec_add_##T(T a, T b) { return (T)((U)a + (U)b); }                                    \
  EC_SCALAR T ec_sub_##T(T a, T b) { return (T)((U)a - (U)b); }                                    \
  EC_SCALAR T ec_mul_##T(T a, T b) { return (T)((U)a * (U)b); }                                     \
  EC_SCALAR T ec_neg_##T(T a) { return (T)(0 - (U)a); }                                            \
  EC_SCALAR T ec_abs_##T(T a) { return (T)(a < 0 ? 0 - (U)a : (U)a); }                             \
  EC_SCALAR T ec_sign_##T(T a) { return (T)((a > 0) - (a < 0)); }                                  \
  EC_SCALAR T ec_div_##T(T a, T b) { return b == 0 ? 0 : b == (T)-1 ? (T)(0 - (U)a) : (T)(a / b); } \
  EC_SCALAR T ec_fmod_##T(T a, T b) { return b == 0 || b == (T)-1 ? 0 : (T)(a % b); }              \
  EC_SCALAR T ec_floormod_##T(T a, T b) {                                                          \
    T r = ec_fmod_##T(a, b); return (r != 0 && ((r < 0) != (b < 0))) ? (T)(r + b) : r; }           \
  EC_SCALAR T ec_floordiv_##T(T a, T b) {                                                          \
    T r = ec_fmod_##T(a, b), q = ec_div_##T(a, b);                                                 \
    return (r != 0 && ((r < 0) != (b < 0))) ? (T)(q - 1) : q; }                                    \
  EC_SCALAR T ec_max_##T(T a, T b) { return a > b ? a : b; }                                       \
  EC_SCALAR T ec_min_##T(T a, T b) { return a < b ? a : b; }                                       \
  EC_SCALAR T ec_shl_##T(T a, T b) { return (U)b >= sizeof(T) * 8 ? 0 : (T)((U)a << b); }          \
  EC_SCALAR T ec_shr_##T(T a, T b) { return (T)(a >> ((U)b < sizeof(T) * 8 ? b : (T)(sizeof(T) * 8 - 1))); } \
  EC_SCALAR T ec_pow_##T(T a, T b) {                                                               \
    U r = 1, base = (U)a;                                                                          \
    if (b < 0) return (T)(a == 1 ? 1 : a == (T)-1 ? (b & 1 ? (T)-1 : 1) : 0);                      \
    for (; b > 0; b = (T)(b / 2)) { if (b % 2) r = (U)((U)1 * r * base); base = (U)((U)1 * base * base); } \
    return (T)r; }
EC_WRAPPING(int8_t, uint32_t)
EC_WRAPPING(int16_t, uint32_t)
EC_WRAPPING(int32_t, uint32_t)
EC_WRAPPING(int64_t, uint64_t)
#undef EC_WRAPPING

/* a * b / 2^n, a half rounded up: fixed-point scaling. The product is exact, n is taken modulo 64, the result wraps. */
EC_SCALAR int32_t ec_mulshift_int32_t(int32_t a, int32_t b, int32_t n) {
  const uint64_t middle = ((uint64_t)1 << (n & 63)) >> 1;
  return (int32_t)((int64_t)((uint64_t)((int64_t)a * b) + middle) >> (n & 63));
}

/* Without a sign there is no negative value to compare with, and compilers warn about asking. */
#define EC_UNSIGNED(T, U)                                                                          \
  EC_SCALAR T ec_add_##T(T a, T b) { return (T)((U)a + (U)b); }                                    \
  EC_SCALAR T ec_sub_##T(T a, T b) { return (T)((U)a - (U)b); }                                    \
  EC_SCALAR T ec_mul_##T(T a, T b) { return (T)((U)a * (U)b); }                                    \
  EC_SCALAR T ec_neg_##T(T a) { return (T)(0 - (U)a); }                                            \
  EC_SCALAR T ec_abs_##T(T a) { return a; }                                                        \
  EC_SCALAR T ec_sign_##T(T a) { return (T)(a != 0); }                                             \
  EC_SCALAR T ec_div_##T(T a, T b) { return (T)(b == 0 ? 0 : a / b); }                             \
  EC_SCALAR T ec_fmod_##T(T a, T b) { return (T)(b == 0 ? 0 : a % b); }                            \
  EC_SCALAR T ec_floormod_##T(T a, T b) { return ec_fmod_##T(a, b); }                              \
  EC_SCALAR T ec_floordiv_##T(T a, T b) { return ec_div_##T(a, b); }                               \
  EC_SCALAR T ec_max_##T(T a, T b) { return a > b ? a : b; }                                       \
  EC_SCALAR T ec_min_##T(T a, T b) { return a < b ? a : b; }                                       \
  EC_SCALAR T ec_shl_##T(T a, T b) { return (T)(b >= sizeof(T) * 8 ? 0 : (U)a << b); }             \
  EC_SCALAR T ec_shr_##T(T a, T b) { return (T)(b >= sizeof(T) * 8 ? 0 : (U)a >> b); }             \
  EC_SCALAR T ec_pow_##T(T a, T b) {                                                               \
    U r = 1, base = a;                                                                             \
    for (; b > 0; b = (T)(b / 2)) { if (b % 2) r *= base; base *= base; }                          \
    return (T)r; }
EC_UNSIGNED(uint8_t, uint32_t)
EC_UNSIGNED(uint16_t, uint32_t)
EC_UNSIGNED(uint32_t, uint32_t)
EC_UNSIGNED(uint64_t, uint64_t)
#undef EC_UNSIGNED

/* Floating point: a NaN operand gives NaN, as numpy's maximum and minimum have it. */
#ifndef EC_INVERSE /* some processors have an instruction for it */
#define EC_INVERSE(x) (1 / (x))
#endif
#define EC_FLOATING(T, S)                                                                          \
  EC_SCALAR T ec_max_##T(T a, T b) { return a > b || a != a ? a : b; }                             \
  EC_SCALAR T ec_min_##T(T a, T b) { return a < b || a != a ? a : b; }                             \
  EC_SCALAR T ec_sign_##T(T a) { return a != a ? a : (T)((a > 0) - (a < 0)); }                     \
  EC_SCALAR T ec_sigmoid_##T(T a) { return EC_INVERSE(1 + exp##S(-a)); }                           \
  EC_SCALAR T ec_floormod_##T(T a, T b) {                                                          \
    T r = fmod##S(a, b); return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r; }                    \
  EC_SCALAR T ec_floordiv_##T(T a, T b) { /* exact where a / b would round up to a whole number */   \
    T r = fmod##S(a, b), q = (a - r) / b;                                                          \
    return b == 0 ? a / b : rint##S(r != 0 && ((r < 0) != (b < 0)) ? q - 1 : q); }
EC_FLOATING(float, f)
#if !defined(EC_OPENCL) || defined(cl_khr_fp64)
EC_FLOATING(double, )
#endif
#undef EC_FLOATING

/* Unsigned numbers in the order of other values: -0 equals 0, and a NaN of either sign follows every number. */
EC_SCALAR uint32_t ec_key_int32_t(int32_t a) { return (uint32_t)a ^ 0x80000000u; }
EC_SCALAR uint64_t ec_key_int64_t(int64_t a) { return (uint64_t)a ^ 0x8000000000000000u; }
EC_SCALAR uint32_t ec_key_float(float a) {
  const uint32_t u = ec_float_to_bits(a == 0 ? 0.0f : a);
  return a != a ? UINT32_MAX : u >> 31 ? ~u : u | 0x80000000u;
}
#ifndef EC_OPENCL
EC_SCALAR uint64_t ec_key_double(double a) {
  uint64_t u;
  if (a == 0) a = 0;
  memcpy(&u, &a, 8);
  return a != a ? UINT64_MAX : u >> 63 ? ~u : u | 0x8000000000000000u;
}

/* Conversion to integers truncates and saturates; NaN becomes 0. The limits are exact in double. */
#define EC_CONVERT(T, LOW, HIGH, ABOVE)                                                            \
  EC_SCALAR T ec_convert_##T(double x) {                                                           \
    if (x != x) return 0;                                                                          \
    if (x <= (double)(LOW)) return LOW;                                                            \
    if (x >= (ABOVE)) return HIGH;                                                                 \
    return (T)x; }
EC_CONVERT(int8_t, INT8_MIN, INT8_MAX, 128.0)
EC_CONVERT(int16_t, INT16_MIN, INT16_MAX, 32768.0)
EC_CONVERT(int32_t, INT32_MIN, INT32_MAX, 2147483648.0)
EC_CONVERT(int64_t, INT64_MIN, INT64_MAX, 9223372036854775808.0)
EC_CONVERT(uint8_t, 0, UINT8_MAX, 256.0)
EC_CONVERT(uint16_t, 0, UINT16_MAX, 65536.0)
EC_CONVERT(uint32_t, 0, UINT32_MAX, 4294967296.0)
EC_CONVERT(uint64_t, 0, UINT64_MAX, 18446744073709551616.0)
#undef EC_CONVERT
#endif

#endif
