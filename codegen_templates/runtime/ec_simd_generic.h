/* ec_simd_generic.h: the same operations in plain vector extensions, for any other machine.
 *
 * Included by ec_simd.h only. SSE2, RISC-V and Power map these well; a core without vectors
 * gets four scalars, and still the right answer. */
#ifndef EC_SIMD_GENERIC_H
#define EC_SIMD_GENERIC_H

#if defined(__ARM_NEON)
#define EC_NEON 1
#include <arm_neon.h>
#else
#define EC_NEON 0
#endif

/* Whether the machine has vectors of RISC-V, and the compiler functions for them. */
#if defined(__riscv_v) && defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_rint) && __has_builtin(__builtin_elementwise_fma)
#define EC_RVV_ 1
#endif
#endif
#if !defined(EC_RVV_)
#define EC_RVV_ 0
#endif

/* a * b + c, rounded once where the machine fuses. */
EC_INLINE ec_vf ec_fma(ec_vf a, ec_vf b, ec_vf c)
{
#if defined(__ARM_NEON) && defined(__ARM_FEATURE_FMA)
    /* Operators on vectors are scalar code here, for compilers keep what NEON flushes to zero. */
    return (ec_vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#elif EC_RVV_
    return __builtin_elementwise_fma(a, b, c);
#elif EC_FUSED
#define EC_LANE_(l) __builtin_fmaf(a[l], b[l], c[l])
    return (ec_vf){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
#else
    return a * b + c;
#endif
}

EC_INLINE ec_vf ec_select(ec_vi mask, ec_vf a, ec_vf b)
{
    return (ec_vf)((mask & (ec_vi)a) | (~mask & (ec_vi)b));
}

EC_INLINE int ec_any_(ec_vi mask)
{
    return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
}

EC_INLINE ec_vf ec_sqrt(ec_vf x)
{
#define EC_LANE_(l) sqrtf(x[l])
    return (ec_vf){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
}

/* Through int32, where |x| < 2^23; any larger x is whole already, and NaN stays. The sign survives
 * in -0. */
EC_INLINE ec_vf ec_trunc(ec_vf x)
{
    ec_vi sign = (ec_vi)x & INT32_MIN;
    ec_vf magnitude = (ec_vf)((ec_vi)x & INT32_MAX);
    ec_vi fits = (ec_vi)(magnitude < 8388608.0f);
    ec_vi whole = __builtin_convertvector((ec_vf)((ec_vi)x & fits), ec_vi);
    ec_vf t = (ec_vf)((ec_vi)__builtin_convertvector(whole, ec_vf) | sign);
    return ec_select(fits, t, x);
}

/* Each step below subtracts 0 or +-1, never adds: -0 - 0 is -0, but -0 + 0 is not. */
EC_INLINE ec_vf ec_floor(ec_vf x)
{
    ec_vf t = ec_trunc(x);
    return t - (ec_vf)((ec_vi)(t > x) & (ec_vi)ec_set1(1.0f));
}

EC_INLINE ec_vf ec_ceil(ec_vf x)
{
    ec_vf t = ec_trunc(x);
    return t - (ec_vf)((ec_vi)(t < x) & (ec_vi)ec_set1(-1.0f));
}

#if EC_RVV_
EC_INLINE ec_vf ec_round(ec_vf x) { return __builtin_elementwise_rint(x); }
#else
EC_INLINE ec_vf ec_round(ec_vf x)
{
    ec_vf t = ec_trunc(x);
    ec_vf rest = (ec_vf)((ec_vi)(x - t) & INT32_MAX);
    ec_vf half = t * 0.5f;
    ec_vi odd = (ec_vi)(ec_trunc(half) != half);
    ec_vi away = (ec_vi)(rest > 0.5f) | ((ec_vi)(rest == 0.5f) & odd);
    ec_vi minus_one = ((ec_vi)x & INT32_MIN) ^ (ec_vi)ec_set1(-1.0f);
    return t - (ec_vf)(away & minus_one);
}
#endif

/* A NaN in a fails a != a and is taken; a NaN in b fails the comparison and is taken. */
EC_INLINE ec_vf ec_min(ec_vf a, ec_vf b)
{
    return ec_select((ec_vi)(a < b) | (ec_vi)(a != a), a, b);
}

EC_INLINE ec_vf ec_max(ec_vf a, ec_vf b)
{
    return ec_select((ec_vi)(a > b) | (ec_vi)(a != a), a, b);
}

#if EC_NEON
EC_INLINE ec_vf ec_clamp(ec_vf x, ec_vf low, ec_vf high)
{
    return (ec_vf)vminq_f32(vmaxq_f32((float32x4_t)x, (float32x4_t)low), (float32x4_t)high);
}
#else
EC_INLINE ec_vf ec_clamp(ec_vf x, ec_vf low, ec_vf high)
{
    x = ec_select((ec_vi)(x < low), low, x);
    return ec_select((ec_vi)(x > high), high, x);
}
#endif

/* Lane l of the result is lane l ^ distance of x. */
EC_INLINE ec_vf ec_swap_(ec_vf x, int distance)
{
    return distance == 2 ? (ec_vf){x[2], x[3], x[0], x[1]} : (ec_vf){x[1], x[0], x[3], x[2]};
}

/* The nearest integer, halves away from 0, for |x| < 2^22; NaN gives 0. */
EC_INLINE ec_vi ec_nearest_(ec_vf x)
{
    ec_vf half = (ec_vf)(((ec_vi)x & INT32_MIN) | (ec_vi)ec_set1(0.5f));
    return __builtin_convertvector((ec_vf)((ec_vi)(x + half) & (ec_vi)(x == x)), ec_vi);
}

/* ---- Integers ----------------------------------------------------------------------------- */

#if defined(__ARM_FEATURE_MVE) && __ARM_FEATURE_MVE
#define EC_HELIUM 1
#include "ec_simd_helium.h"
#elif EC_NEON
#define EC_HELIUM 0
#include "ec_simd_neon_integer.h"
#else
#define EC_HELIUM 0
EC_INLINE ec_vi ec_min_i(ec_vi a, ec_vi b)
{
    ec_vi less = (ec_vi)(a < b);
    return (less & a) | (~less & b);
}

EC_INLINE ec_vi ec_max_i(ec_vi a, ec_vi b)
{
    ec_vi more = (ec_vi)(a > b);
    return (more & a) | (~more & b);
}

EC_INLINE ec_vi ec_shl_i(ec_vi a, ec_vi n)
{
    ec_vi fits = (ec_vi)((ec_vu_)n < 32);
    return (ec_vi)((ec_vu_)a << (ec_vu_)(n & fits)) & fits;
}

EC_INLINE ec_vi ec_shr_i(ec_vi a, ec_vi n)
{
    ec_vi fits = (ec_vi)((ec_vu_)n < 32);
    return a >> ((n & fits) | (31 & ~fits));
}
#endif

#if EC_NEON
/* By adding what has no fraction any more; what is as large as that is whole already. It saturates, and NaN gives 0. */
EC_INLINE ec_vi ec_nearest(ec_vf x)
{
    const float32x4_t v = (float32x4_t)x, limit = vdupq_n_f32(0x1p23f);
    const float32x4_t large = vbslq_f32(vdupq_n_u32(0x80000000u), v, limit);
    const float32x4_t whole = vsubq_f32(vaddq_f32(v, large), large);
    return (ec_vi)vcvtq_s32_f32(vbslq_f32(vcltq_f32(vabsq_f32(v), limit), whole, v));
}

EC_INLINE ec_vi ec_whole(ec_vf x) { return (ec_vi)vcvtq_s32_f32((float32x4_t)x); }
EC_INLINE ec_vi ec_to_int(ec_vf x) { return ec_whole(x); }
#else
EC_INLINE ec_vi ec_whole(ec_vf x)
{
    return __builtin_convertvector((ec_vf)((ec_vi)x & (ec_vi)(x == x)), ec_vi);
}

#if EC_RVV_ /* one conversion, where nothing stands between the two */
EC_INLINE ec_vi ec_nearest(ec_vf x)
{
    return __builtin_convertvector(ec_round((ec_vf)((ec_vi)x & (ec_vi)(x == x))), ec_vi);
}
#else
EC_INLINE ec_vi ec_nearest(ec_vf x) { return ec_whole(ec_round(x)); }
#endif

EC_INLINE ec_vi ec_to_int(ec_vf x)
{
    ec_vi above = (ec_vi)(x >= 0x1p31f), below = (ec_vi)(x <= -0x1p31f);
    ec_vi inside = ec_whole((ec_vf)((ec_vi)x & ~(above | below)));
    return inside | (above & INT32_MAX) | (below & INT32_MIN);
}
#endif

#define EC_WIDEN_(TYPE, T)                                         \
    EC_INLINE ec_vi ec_load_##TYPE(const T *p)                     \
    {                                                              \
        return (ec_vi){p[0], p[1], p[2], p[3]};                    \
    }
#if !EC_NEON
#if !EC_HELIUM
EC_WIDEN_(u8, uint8_t)
EC_WIDEN_(i8, int8_t)
#endif
EC_WIDEN_(u16, uint16_t)
EC_WIDEN_(i16, int16_t)
#endif
#undef EC_WIDEN_

#if !EC_HELIUM && !EC_NEON
EC_INLINE void ec_store_8_(uint8_t *p, ec_vi v)
{
    for (int l = 0; l < 4; ++l)
        p[l] = (uint8_t)v[l];
}
#endif

#if !EC_NEON
EC_INLINE void ec_store_16_(uint16_t *p, ec_vi v)
{
    for (int l = 0; l < 4; ++l)
        p[l] = (uint16_t)v[l];
}

EC_INLINE int32_t ec_mulshift_lane_(int32_t a, int32_t b, int32_t n)
{
    uint64_t sum = (uint64_t)((int64_t)a * b) + (((uint64_t)1 << (n & 63)) >> 1);
    return (int32_t)((int64_t)sum >> (n & 63));
}

#if !EC_HELIUM
EC_INLINE ec_vi ec_mulhigh(ec_vi a, ec_vi b)
{
#define EC_LANE_(l) ec_mulshift_lane_(a[l], b[l], 31)
    return (ec_vi){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
}
#endif

EC_INLINE ec_vi ec_mulshift(ec_vi a, ec_vi b, ec_vi n)
{
#define EC_LANE_(l) ec_mulshift_lane_(a[l], b[l], n[l])
    return (ec_vi){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
}
#endif

#if EC_HELIUM
#elif defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP && !EC_NEON
#include <arm_acle.h>

/* Cortex-M4 and its like: two bytes at a time, widened to halves of a word, multiplied and summed in pairs. */
#define EC_TURN_(v) ((v) >> 8 | (v) << 24)
#define EC_SIGNED_(v) __sxtb16((int8x4_t)(v))
#define EC_UNSIGNED_(v) ((int16x2_t)__uxtb16(v))
#define EC_DOT_LANE_(widen, c, s, l) \
    __smlad(widen(EC_TURN_(s)), EC_SIGNED_(EC_TURN_(l)), __smlad(widen(s), EC_SIGNED_(l), c))

EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
#define EC_LANE_(k) EC_DOT_LANE_(EC_UNSIGNED_, c[k], (uint32_t)s[k], (uint32_t)l[k])
    return (ec_vi){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
}

EC_INLINE ec_vi ec_dot_ss(ec_vi c, ec_vi s, ec_vi l)
{
#define EC_LANE_(k) EC_DOT_LANE_(EC_SIGNED_, c[k], (uint32_t)s[k], (uint32_t)l[k])
    return (ec_vi){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
}
#elif defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
/* Other cores without vectors: byte by byte, a multiply-add each. */
#define EC_BYTE_OF_(type, v, k) ((uint32_t)(type)((uint32_t)(v) >> (8 * (k))))
#define EC_DOT_LANE_(type, c, s, l) \
    (int32_t)((uint32_t)(c) + EC_BYTE_OF_(type, s, 0) * EC_BYTE_OF_(int8_t, l, 0) + \
              EC_BYTE_OF_(type, s, 1) * EC_BYTE_OF_(int8_t, l, 1) + \
              EC_BYTE_OF_(type, s, 2) * EC_BYTE_OF_(int8_t, l, 2) + \
              EC_BYTE_OF_(type, s, 3) * EC_BYTE_OF_(int8_t, l, 3))

EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
#define EC_LANE_(k) EC_DOT_LANE_(uint8_t, c[k], s[k], l[k])
    return (ec_vi){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
}

EC_INLINE ec_vi ec_dot_ss(ec_vi c, ec_vi s, ec_vi l)
{
#define EC_LANE_(k) EC_DOT_LANE_(int8_t, c[k], s[k], l[k])
    return (ec_vi){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
}
#else
/* Byte k of every lane, with and without its sign. */
#define EC_SIGNED_BYTE_(v, k) ((ec_vi)((ec_vu_)(v) << (24 - 8 * (k))) >> 24)
#define EC_BYTE_(v, k) ((ec_vi)((ec_vu_)(v) >> (8 * (k))) & 0xff)

EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
    ec_vi first = EC_BYTE_(s, 0) * EC_SIGNED_BYTE_(l, 0) + EC_BYTE_(s, 1) * EC_SIGNED_BYTE_(l, 1);
    ec_vi rest = EC_BYTE_(s, 2) * EC_SIGNED_BYTE_(l, 2) + EC_BYTE_(s, 3) * EC_SIGNED_BYTE_(l, 3);
    return (ec_vi)((ec_vu_)c + (ec_vu_)(first + rest));
}

#if !EC_NEON
EC_INLINE ec_vi ec_dot_ss(ec_vi c, ec_vi s, ec_vi l)
{
    ec_vi first = EC_SIGNED_BYTE_(s, 0) * EC_SIGNED_BYTE_(l, 0) + EC_SIGNED_BYTE_(s, 1) * EC_SIGNED_BYTE_(l, 1);
    ec_vi rest = EC_SIGNED_BYTE_(s, 2) * EC_SIGNED_BYTE_(l, 2) + EC_SIGNED_BYTE_(s, 3) * EC_SIGNED_BYTE_(l, 3);
    return (ec_vi)((ec_vu_)c + (ec_vu_)(first + rest));
}
#endif
#endif

#include "ec_simd_half.h"

#endif
