/* Scalar arithmetic where C leaves a gap: floor division, wrapping integers, conversions, half precision.
 * Every function is total: no input makes it undefined behavior. */
#ifndef EC_SCALAR_H
#define EC_SCALAR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef ptrdiff_t ec_int;  /* loop counters and positions */
typedef uint16_t ec_f16;   /* storage of IEEE binary16 */
typedef uint16_t ec_bf16;  /* storage of bfloat16 */

#define EC_SCALAR static inline __attribute__((always_inline, unused))

EC_SCALAR ec_int ec_min_int(ec_int a, ec_int b) { return a < b ? a : b; }
EC_SCALAR ec_int ec_max_int(ec_int a, ec_int b) { return a > b ? a : b; }

EC_SCALAR float ec_bits_to_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
EC_SCALAR uint32_t ec_float_to_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }

EC_SCALAR float ec_from_bf16(ec_bf16 h) { return ec_bits_to_float((uint32_t)h << 16); }
EC_SCALAR ec_bf16 ec_to_bf16(float f) {
  uint32_t u = ec_float_to_bits(f);
  if (f != f) return (ec_bf16)((u >> 16) | 0x40);
  return (ec_bf16)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

/* Scaling by a power of two lets the hardware do the rounding, denormals included. */
EC_SCALAR float ec_from_f16(ec_f16 h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
  float scaled = ec_bits_to_float(rest) * 0x1p112f;
  if (rest >= 0x0f800000u) scaled = ec_bits_to_float(rest | 0x7f800000u);
  return ec_bits_to_float(ec_float_to_bits(scaled) | sign);
}
EC_SCALAR ec_f16 ec_to_f16(float f) {
  uint32_t u = ec_float_to_bits(f), sign = (u >> 16) & 0x8000, rest = u & 0x7fffffff;
  if (rest > 0x7f800000) return (ec_f16)(sign | 0x7e00);
  if (rest >= 0x47800000) return (ec_f16)(sign | 0x7c00);
  if (rest < 0x38800000) {
    float aligned = ec_bits_to_float(rest) + 0.5f; /* puts the last kept bit at 2^-24 */
    return (ec_f16)(sign | (ec_float_to_bits(aligned) - 0x3f000000u));
  }
  rest += 0xc8000fff + ((rest >> 13) & 1);
  return (ec_f16)(sign | (rest >> 13));
}

/* Integers wrap, as ONNX's reference does; unsigned arithmetic says so without overflow. */
#define EC_WRAPPING(T, U)                                                                          \
  EC_SCALAR T ec_add_##T(T a, T b) { return (T)((U)a + (U)b); }                                    \
  EC_SCALAR T ec_sub_##T(T a, T b) { return (T)((U)a - (U)b); }                                    \
  EC_SCALAR T ec_mul_##T(T a, T b) { return (T)((U)((U)1 * a) * (U)((U)1 * b)); }                  \
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
#define EC_FLOATING(T, S)                                                                          \
  EC_SCALAR T ec_max_##T(T a, T b) { return a > b || a != a ? a : b; }                             \
  EC_SCALAR T ec_min_##T(T a, T b) { return a < b || a != a ? a : b; }                             \
  EC_SCALAR T ec_sign_##T(T a) { return a != a ? a : (T)((a > 0) - (a < 0)); }                     \
  EC_SCALAR T ec_sigmoid_##T(T a) { return 1 / (1 + exp##S(-a)); }                                 \
  EC_SCALAR T ec_floormod_##T(T a, T b) {                                                          \
    T r = fmod##S(a, b); return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r; }                    \
  EC_SCALAR T ec_floordiv_##T(T a, T b) { /* exact where a / b would round up to a whole number */   \
    T r = fmod##S(a, b), q = (a - r) / b;                                                          \
    return b == 0 ? a / b : rint##S(r != 0 && ((r < 0) != (b < 0)) ? q - 1 : q); }
EC_FLOATING(float, f)
EC_FLOATING(double, )
#undef EC_FLOATING

/* Unsigned numbers in the order of other values: -0 equals 0, and a NaN of either sign follows every number. */
EC_SCALAR uint32_t ec_key_int32_t(int32_t a) { return (uint32_t)a ^ 0x80000000u; }
EC_SCALAR uint64_t ec_key_int64_t(int64_t a) { return (uint64_t)a ^ 0x8000000000000000u; }
EC_SCALAR uint32_t ec_key_float(float a) {
  const uint32_t u = ec_float_to_bits(a == 0 ? 0.0f : a);
  return a != a ? UINT32_MAX : u >> 31 ? ~u : u | 0x80000000u;
}
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
