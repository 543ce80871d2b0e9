/* ec_simd_helium.h: what ec_simd_generic.h leaves to better instructions where a Cortex-M has Helium (MVE).
 *
 * Included by ec_simd_generic.h only. Lanes go through memory as bytes in one instruction each, and four bytes a lane
 * are multiplied in two: the even ones and the odd ones, in 16 bits. */
#ifndef EC_SIMD_HELIUM_H
#define EC_SIMD_HELIUM_H

#if defined(__GNUC__) && !defined(__clang__) && !defined(EC_TRUST_GCC)
#error "gcc 12 makes wrong code of vectors for Helium: compile with clang, or define EC_TRUST_GCC for a later gcc"
#endif

#include <arm_mve.h>

EC_INLINE ec_vi ec_min_i(ec_vi a, ec_vi b)
{
    return (ec_vi)vminq_s32((int32x4_t)a, (int32x4_t)b);
}

EC_INLINE ec_vi ec_max_i(ec_vi a, ec_vi b)
{
    return (ec_vi)vmaxq_s32((int32x4_t)a, (int32x4_t)b);
}

/* VSHL looks at the low byte of a count, so counts are kept below 32 first; to the right is negative. */
EC_INLINE ec_vi ec_shl_i(ec_vi a, ec_vi n)
{
    return (ec_vi)vshlq_s32((int32x4_t)a, (int32x4_t)vminq_u32((uint32x4_t)n, vdupq_n_u32(32)));
}

EC_INLINE ec_vi ec_shr_i(ec_vi a, ec_vi n)
{
    return (ec_vi)vshlq_s32((int32x4_t)a, vnegq_s32((int32x4_t)vminq_u32((uint32x4_t)n, vdupq_n_u32(31))));
}

EC_INLINE ec_vi ec_load_u8(const uint8_t *p) { return (ec_vi)vldrbq_u32(p); }
EC_INLINE ec_vi ec_load_i8(const int8_t *p) { return (ec_vi)vldrbq_s32(p); }
EC_INLINE void ec_store_8_(uint8_t *p, ec_vi v) { vstrbq_u32(p, (uint32x4_t)v); }

/* Twice the product over 2^32, halves up; the one product that does not fit, of the two least numbers, saturates. */
EC_INLINE ec_vi ec_mulhigh(ec_vi a, ec_vi b)
{
    return (ec_vi)vqrdmulhq_s32((int32x4_t)a, (int32x4_t)b);
}

/* The low half of every lane and the high half, both with their sign. */
EC_INLINE int32x4_t ec_add_halves_(int32x4_t c, int16x8_t x)
{
    return vaddq_s32(vaddq_s32(c, vmovlbq_s16(x)), vmovltq_s16(x));
}

EC_INLINE ec_vi ec_dot_ss(ec_vi c, ec_vi s, ec_vi l)
{
    int8x16_t x = (int8x16_t)s, y = (int8x16_t)l;
    return (ec_vi)ec_add_halves_(ec_add_halves_((int32x4_t)c, vmullbq_int_s8(x, y)), vmulltq_int_s8(x, y));
}

/* Four sums, one a lane, in registers of integers: an instruction adds sixteen products of bytes to one of them. */
typedef struct {
    int32_t a, b, c, d;
} ec_sums;

EC_INLINE ec_sums ec_sums_from(const int32_t *p)
{
    ec_sums sums = {p[0], p[1], p[2], p[3]};
    return sums;
}

EC_INLINE ec_vi ec_lanes_of(ec_sums sums)
{
    ec_vi lanes = {sums.a, sums.b, sums.c, sums.d};
    return lanes;
}

/* Sixteen bytes as they lie, or so many of them and zeros. */
EC_INLINE ec_vi ec_block(const void *p) { return (ec_vi)vldrbq_s8((const int8_t *)p); }
EC_INLINE ec_vi ec_block_first(const void *p, uint32_t count)
{
    return (ec_vi)vldrbq_z_s8((const int8_t *)p, vctp8q(count));
}

/* Four blocks of l, one behind the other, are a step of four sums. */
EC_INLINE ec_sums ec_dot_blocks(ec_sums sums, ec_vi s, const int32_t *l)
{
    const int8x16_t x = (int8x16_t)s;
    const int8_t *const bytes = (const int8_t *)l;
    sums.a = vmladavaq_s8(sums.a, x, vldrbq_s8(bytes));
    sums.b = vmladavaq_s8(sums.b, x, vldrbq_s8(bytes + 16));
    sums.c = vmladavaq_s8(sums.c, x, vldrbq_s8(bytes + 32));
    sums.d = vmladavaq_s8(sums.d, x, vldrbq_s8(bytes + 48));
    return sums;
}

/* Products with an unsigned byte take 17 bits: with 128 less in every byte of s, and 128 times the bytes of l more. */
EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
    int8x16_t y = (int8x16_t)l;
    int16x8_t pairs = vaddq_s16(vmovlbq_s8(y), vmovltq_s8(y));
    int32x4_t sums = vaddq_s32(vmovlbq_s16(pairs), vmovltq_s16(pairs));
    ec_vi signs = s ^ (ec_vi)vdupq_n_s8(-128);
    return ec_dot_ss((ec_vi)vaddq_s32((int32x4_t)c, vshlq_n_s32(sums, 7)), signs, l);
}

#endif
