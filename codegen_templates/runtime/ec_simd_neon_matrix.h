/* ec_simd_neon_matrix.h: sums of products by instructions for matrices, of bytes (i8mm) and of bfloat16.
 *
 * Included by ec_simd_neon.h only. Two rows of S, eight bytes of each, meet two columns of L in one instruction. Sums of
 * two rows for four columns lie in two registers: those of the first two columns, row by row, and of the others. */
#ifndef EC_SIMD_NEON_MATRIX_H
#define EC_SIMD_NEON_MATRIX_H

#if defined(__ARM_FEATURE_MATMUL_INT8) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
/* Eight bytes of two rows; or the first n of them, and zeros. */
EC_INLINE ec_vi ec_rows(const void *p, const void *q)
{
    return (ec_vi)vcombine_u8(vld1_u8((const uint8_t *)p), vld1_u8((const uint8_t *)q));
}

EC_INLINE ec_vi ec_rows_first(const void *p, const void *q, int n)
{
    uint64_t low = 0, high = 0;
    __builtin_memcpy(&low, p, (size_t)n);
    __builtin_memcpy(&high, q, (size_t)n);
    return (ec_vi)vcombine_u64(vcreate_u64(low), vcreate_u64(high));
}

/* The same of numbers of 16 bits, four or n of each row. */
EC_INLINE ec_vi ec_rows_16(const uint16_t *p, const uint16_t *q) { return ec_rows(p, q); }
EC_INLINE ec_vi ec_rows_16_first(const uint16_t *p, const uint16_t *q, int n) { return ec_rows_first(p, q, 2 * n); }
#endif

#if defined(__ARM_FEATURE_MATMUL_INT8)
typedef struct {
    int32x4_t left, right;
} ec_two_i;

/* Both rows start at the four numbers at p. */
EC_INLINE ec_two_i ec_two_i_from(const int32_t *p)
{
    const int64x2_t start = vreinterpretq_s64_s32(vld1q_s32(p));
    ec_two_i two = {vreinterpretq_s32_s64(vdupq_laneq_s64(start, 0)), vreinterpretq_s32_s64(vdupq_laneq_s64(start, 1))};
    return two;
}

EC_INLINE ec_vi ec_two_i_lanes(ec_two_i two, int row)
{
    const int64x2_t left = vreinterpretq_s64_s32(two.left), right = vreinterpretq_s64_s32(two.right);
    return (ec_vi)(row ? vzip2q_s64(left, right) : vzip1q_s64(left, right));
}

/* Eight bytes of four columns, one behind the other, are a step. */
EC_INLINE ec_two_i ec_matrix_ss(ec_two_i c, ec_vi s, const int32_t *l)
{
    const int8_t *const bytes = (const int8_t *)l;
    c.left = vmmlaq_s32(c.left, (int8x16_t)s, vld1q_s8(bytes));
    c.right = vmmlaq_s32(c.right, (int8x16_t)s, vld1q_s8(bytes + 16));
    return c;
}

EC_INLINE ec_two_i ec_matrix_us(ec_two_i c, ec_vi s, const int32_t *l)
{
    const int8_t *const bytes = (const int8_t *)l;
    c.left = vusmmlaq_s32(c.left, (uint8x16_t)s, vld1q_s8(bytes));
    c.right = vusmmlaq_s32(c.right, (uint8x16_t)s, vld1q_s8(bytes + 16));
    return c;
}
#endif

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
typedef struct {
    float32x4_t left, right;
} ec_two;

EC_INLINE ec_two ec_two_zero(void)
{
    ec_two two = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
    return two;
}

EC_INLINE ec_vf ec_two_lanes(ec_two two, int row)
{
    const float64x2_t left = vreinterpretq_f64_f32(two.left), right = vreinterpretq_f64_f32(two.right);
    return (ec_vf)(row ? vzip2q_f64(left, right) : vzip1q_f64(left, right));
}

EC_INLINE ec_two ec_matrix_bf16(ec_two c, ec_vi s, const int32_t *l)
{
    c.left = vbfmmlaq_f32(c.left, (bfloat16x8_t)s, (bfloat16x8_t)vld1q_s32(l));
    c.right = vbfmmlaq_f32(c.right, (bfloat16x8_t)s, (bfloat16x8_t)vld1q_s32(l + 4));
    return c;
}
#endif

#endif
