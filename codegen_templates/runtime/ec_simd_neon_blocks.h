/* ec_simd_neon_blocks.h: sums of products of bytes where NEON, of 32 or 64 bits, has no dot products.
 *
 * Included by ec_simd_neon_integer.h only. Sixteen bytes of a row meet sixteen of each of four columns. Two products
 * are added in 16 bits, where they fit if no byte of l is -128, and pairs of those to four sums in 32. */
#ifndef EC_SIMD_NEON_BLOCKS_H
#define EC_SIMD_NEON_BLOCKS_H

/* The sums of a row for four columns, each in four parts. */
typedef struct {
    int32x4_t a, b, c, d;
} ec_sums;

EC_INLINE ec_sums ec_sums_from(const int32_t *p)
{
    const int32x4_t zero = vdupq_n_s32(0);
    ec_sums sums = {vsetq_lane_s32(p[0], zero, 0), vsetq_lane_s32(p[1], zero, 0), vsetq_lane_s32(p[2], zero, 0),
                    vsetq_lane_s32(p[3], zero, 0)};
    return sums;
}

EC_INLINE ec_vi ec_lanes_of(ec_sums sums)
{
    return (ec_vi)ec_add_pairs_(ec_add_pairs_(sums.a, sums.b), ec_add_pairs_(sums.c, sums.d));
}

/* Sixteen bytes as they lie, or so many of them and zeros. */
EC_INLINE ec_vi ec_block(const void *p)
{
    return (ec_vi)vld1q_s8((const int8_t *)p);
}

EC_INLINE ec_vi ec_block_first(const void *p, int count)
{
    int8_t bytes[16] = {0};
    __builtin_memcpy(bytes, p, (size_t)count);
    return (ec_vi)vld1q_s8(bytes);
}

/* Products of the first halves of a block, those of the others beside them, and pairs of both added to sums. */
typedef int16x8_t ec_products;

EC_INLINE ec_products ec_low_products(ec_vi s, ec_vi l)
{
    return vmull_s8(vget_low_s8((int8x16_t)s), vget_low_s8((int8x16_t)l));
}

EC_INLINE ec_products ec_high_products(ec_products p, ec_vi s, ec_vi l)
{
#if defined(__aarch64__)
    return vmlal_high_s8(p, (int8x16_t)s, (int8x16_t)l);
#else
    return vmlal_s8(p, vget_high_s8((int8x16_t)s), vget_high_s8((int8x16_t)l));
#endif
}

EC_INLINE int32x4_t ec_add_products(int32x4_t c, ec_products p)
{
    return vpadalq_s16(c, p);
}

/* Four blocks of l, one behind the other, are a step of four sums; two at a time, so that none waits for its own. */
EC_INLINE ec_sums ec_dot_blocks(ec_sums sums, ec_vi s, const int32_t *l)
{
    const ec_vi la = ec_block(l), lb = ec_block(l + 4);
    ec_products a = ec_low_products(s, la), b = ec_low_products(s, lb);
    a = ec_high_products(a, s, la), b = ec_high_products(b, s, lb);
    sums.a = ec_add_products(sums.a, a), sums.b = ec_add_products(sums.b, b);
    const ec_vi lc = ec_block(l + 8), ld = ec_block(l + 12);
    ec_products c = ec_low_products(s, lc), d = ec_low_products(s, ld);
    c = ec_high_products(c, s, lc), d = ec_high_products(d, s, ld);
    sums.c = ec_add_products(sums.c, c), sums.d = ec_add_products(sums.d, d);
    return sums;
}

#endif
