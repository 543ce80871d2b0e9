/* ec_simd_neon_integer.h: lanes of integers and narrow memory, as NEON has them on 32 and on 64 bits.
 *
 * Included by ec_simd_neon.h and ec_simd_generic.h only. */
#ifndef EC_SIMD_NEON_INTEGER_H
#define EC_SIMD_NEON_INTEGER_H

EC_INLINE ec_vi ec_min_i(ec_vi a, ec_vi b)
{
    return (ec_vi)vminq_s32((int32x4_t)a, (int32x4_t)b);
}

EC_INLINE ec_vi ec_max_i(ec_vi a, ec_vi b)
{
    return (ec_vi)vmaxq_s32((int32x4_t)a, (int32x4_t)b);
}

/* SSHL looks at the low byte of a count, so counts are kept below 32 first; to the right is negative. */
EC_INLINE ec_vi ec_shl_i(ec_vi a, ec_vi n)
{
    uint32x4_t count = vminq_u32((uint32x4_t)n, vdupq_n_u32(32));
    return (ec_vi)vshlq_s32((int32x4_t)a, (int32x4_t)count);
}

EC_INLINE ec_vi ec_shr_i(ec_vi a, ec_vi n)
{
    uint32x4_t count = vminq_u32((uint32x4_t)n, vdupq_n_u32(31));
    return (ec_vi)vshlq_s32((int32x4_t)a, vnegq_s32((int32x4_t)count));
}

/* Four bytes in the low half of a vector. */
EC_INLINE uint8x8_t ec_four_bytes_(const void *p)
{
    uint32_t word;
    memcpy(&word, p, 4);
    return vreinterpret_u8_u32(vdup_n_u32(word));
}

EC_INLINE ec_vi ec_load_u8(const uint8_t *p)
{
    return (ec_vi)vmovl_u16(vget_low_u16(vmovl_u8(ec_four_bytes_(p))));
}

EC_INLINE ec_vi ec_load_i8(const int8_t *p)
{
    return (ec_vi)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(ec_four_bytes_(p)))));
}

EC_INLINE ec_vi ec_load_u16(const uint16_t *p)
{
    return (ec_vi)vmovl_u16(vld1_u16(p));
}

EC_INLINE ec_vi ec_load_i16(const int16_t *p)
{
    return (ec_vi)vmovl_s16(vld1_s16(p));
}

EC_INLINE void ec_store_8_(uint8_t *p, ec_vi v)
{
    uint16x4_t halves = vmovn_u32((uint32x4_t)v);
    uint32_t word = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(halves, halves))), 0);
    memcpy(p, &word, 4);
}

EC_INLINE void ec_store_16_(uint16_t *p, ec_vi v)
{
    vst1_u16(p, vmovn_u32((uint32x4_t)v));
}

EC_INLINE ec_vi ec_mulhigh(ec_vi a, ec_vi b)
{
    int32x4_t x = (int32x4_t)a, y = (int32x4_t)b;
    int32x2_t low = vrshrn_n_s64(vmull_s32(vget_low_s32(x), vget_low_s32(y)), 31);
    return (ec_vi)vcombine_s32(low, vrshrn_n_s64(vmull_s32(vget_high_s32(x), vget_high_s32(y)), 31));
}

/* SRSHL rounds halves up where it shifts to the right. */
EC_INLINE ec_vi ec_mulshift(ec_vi a, ec_vi b, ec_vi n)
{
    int32x4_t x = (int32x4_t)a, y = (int32x4_t)b, right = vnegq_s32((int32x4_t)(n & 63));
    int64x2_t low = vmull_s32(vget_low_s32(x), vget_low_s32(y)), high = vmull_s32(vget_high_s32(x), vget_high_s32(y));
    low = vrshlq_s64(low, vmovl_s32(vget_low_s32(right)));
    high = vrshlq_s64(high, vmovl_s32(vget_high_s32(right)));
    return (ec_vi)vcombine_s32(vmovn_s64(low), vmovn_s64(high));
}

#if !defined(__ARM_FEATURE_DOTPROD)
EC_INLINE int32x4_t ec_add_pairs_(int32x4_t a, int32x4_t b)
{
#if defined(__aarch64__)
    return vpaddq_s32(a, b);
#else
    return vcombine_s32(vpadd_s32(vget_low_s32(a), vget_high_s32(a)), vpadd_s32(vget_low_s32(b), vget_high_s32(b)));
#endif
}

/* The product of two bytes fits 16 bits; pairs are summed on the way to 32. */
EC_INLINE ec_vi ec_dot_ss(ec_vi c, ec_vi s, ec_vi l)
{
    int8x16_t x = (int8x16_t)s, y = (int8x16_t)l;
    int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(y)));
    int32x4_t high = vpaddlq_s16(vmull_s8(vget_high_s8(x), vget_high_s8(y)));
    return (ec_vi)vaddq_s32((int32x4_t)c, ec_add_pairs_(low, high));
}

#include "ec_simd_neon_blocks.h"
#endif

#endif
