/* ec_simd_sve.h: what vector extensions do not say well for SVE, whose vectors have a size that is known beforehand.
 *
 * Included by ec_simd.h only, where the compiler was given -msve-vector-bits=256 or 512 (gcc 12). Lanes are then those of
 * the GNU types, and intrinsics take these for their own. SVE2 is not needed, nor are the instructions of SVE's I8MM and
 * BF16, which are taken where they are there. Processors of another size are refused by ec_cpu.h. */
#ifndef EC_SIMD_SVE_H
#define EC_SIMD_SVE_H

#include <arm_sve.h>

/* All lanes, and the first n of them. */
#define EC_ALL_ svptrue_b32()
#define EC_FIRST_LANES_(n) svwhilelt_b32_s32(0, (n))

EC_INLINE ec_vf ec_fma(ec_vf a, ec_vf b, ec_vf c)
{
    return svmla_f32_x(EC_ALL_, c, a, b);
}

EC_INLINE ec_vf ec_sqrt(ec_vf x) { return svsqrt_f32_x(EC_ALL_, x); }
EC_INLINE ec_vf ec_floor(ec_vf x) { return svrintm_f32_x(EC_ALL_, x); }
EC_INLINE ec_vf ec_ceil(ec_vf x) { return svrintp_f32_x(EC_ALL_, x); }
EC_INLINE ec_vf ec_trunc(ec_vf x) { return svrintz_f32_x(EC_ALL_, x); }
EC_INLINE ec_vf ec_round(ec_vf x) { return svrintn_f32_x(EC_ALL_, x); }

/* FMIN and FMAX pass NaN on by themselves. */
EC_INLINE ec_vf ec_min(ec_vf a, ec_vf b) { return svmin_f32_x(EC_ALL_, a, b); }
EC_INLINE ec_vf ec_max(ec_vf a, ec_vf b) { return svmax_f32_x(EC_ALL_, a, b); }

EC_INLINE ec_vf ec_clamp(ec_vf x, ec_vf low, ec_vf high)
{
    return ec_min(ec_max(x, low), high);
}

/* Masks of a comparison lie in a predicate already; compilers leave its way through a vector out. */
EC_INLINE ec_vf ec_select(ec_vi mask, ec_vf a, ec_vf b)
{
    return svsel_f32(svcmpne_n_s32(EC_ALL_, mask, 0), a, b);
}

EC_INLINE int ec_any_(ec_vi mask)
{
    return svptest_any(EC_ALL_, svcmpne_n_s32(EC_ALL_, mask, 0));
}

/* Lane l of the result is lane l ^ distance of x. */
EC_INLINE ec_vf ec_swap_(ec_vf x, int distance)
{
    return svtbl_f32(x, sveor_n_u32_x(EC_ALL_, svindex_u32(0, 1), (uint32_t)distance));
}

EC_INLINE ec_vf ec_load_n(const float *p, int n) { return svld1_f32(EC_FIRST_LANES_(n), p); }
EC_INLINE void ec_store_n(float *p, ec_vf v, int n) { svst1_f32(EC_FIRST_LANES_(n), p, v); }

/* ---- Integers ----------------------------------------------------------------------------- */

EC_INLINE ec_vi ec_min_i(ec_vi a, ec_vi b) { return svmin_s32_x(EC_ALL_, a, b); }
EC_INLINE ec_vi ec_max_i(ec_vi a, ec_vi b) { return svmax_s32_x(EC_ALL_, a, b); }

/* Counts from 32 on give 0, or the sign, by themselves. */
EC_INLINE ec_vi ec_shl_i(ec_vi a, ec_vi n) { return svlsl_s32_x(EC_ALL_, a, (ec_vu_)n); }
EC_INLINE ec_vi ec_shr_i(ec_vi a, ec_vi n) { return svasr_s32_x(EC_ALL_, a, (ec_vu_)n); }

/* FCVTZS saturates, and gives 0 for NaN. */
EC_INLINE ec_vi ec_whole(ec_vf x) { return svcvt_s32_f32_x(EC_ALL_, x); }
EC_INLINE ec_vi ec_to_int(ec_vf x) { return ec_whole(x); }
EC_INLINE ec_vi ec_nearest(ec_vf x) { return ec_whole(ec_round(x)); }
EC_INLINE ec_vi ec_nearest_(ec_vf x) { return ec_nearest(x); }

/* Narrow memory: loads that widen, stores that narrow, of all lanes or the first n. */
#define EC_HAS_NARROW_N 1
#define EC_NARROW_(TYPE, T, load)                                                                      \
    EC_INLINE ec_vi ec_load_##TYPE(const T *p) { return load(EC_ALL_, p); }                      \
    EC_INLINE ec_vi ec_load_##TYPE##_n(const T *p, int n) { return load(EC_FIRST_LANES_(n), p); }
EC_NARROW_(u8, uint8_t, svld1ub_s32)
EC_NARROW_(i8, int8_t, svld1sb_s32)
EC_NARROW_(u16, uint16_t, svld1uh_s32)
EC_NARROW_(i16, int16_t, svld1sh_s32)
#undef EC_NARROW_
EC_INLINE ec_vi ec_load_i32_n(const int32_t *p, int n) { return svld1_s32(EC_FIRST_LANES_(n), p); }
EC_INLINE void ec_store_8_(uint8_t *p, ec_vi v) { svst1b_s32(EC_ALL_, (int8_t *)p, v); }
EC_INLINE void ec_store_16_(uint16_t *p, ec_vi v) { svst1h_s32(EC_ALL_, (int16_t *)p, v); }
EC_INLINE void ec_store_8_n_(uint8_t *p, ec_vi v, int n) { svst1b_s32(EC_FIRST_LANES_(n), (int8_t *)p, v); }
EC_INLINE void ec_store_16_n_(uint16_t *p, ec_vi v, int n) { svst1h_s32(EC_FIRST_LANES_(n), (int16_t *)p, v); }
EC_INLINE void ec_store_i32_n(int32_t *p, ec_vi v, int n) { svst1_s32(EC_FIRST_LANES_(n), p, v); }

/* a * b / 2^n in 64 bits, halves up; of two halves of the lanes, the low words of both. */
EC_INLINE svint64_t ec_mulshift_half_(svint64_t a, svint64_t b, svuint64_t n)
{
    const svuint64_t half = svlsr_n_u64_x(svptrue_b64(), svlsl_u64_x(svptrue_b64(), svdup_n_u64(1), n), 1);
    const svint64_t product = svmul_s64_x(svptrue_b64(), a, b);
    return svasr_s64_x(svptrue_b64(), svadd_s64_x(svptrue_b64(), product, svreinterpret_s64_u64(half)), n);
}

EC_INLINE ec_vi ec_mulshift(ec_vi a, ec_vi b, ec_vi n)
{
    const ec_vu_ count = (ec_vu_)n & 63;
    const svint64_t low = ec_mulshift_half_(svunpklo_s64(a), svunpklo_s64(b), svunpklo_u64(count));
    const svint64_t high = ec_mulshift_half_(svunpkhi_s64(a), svunpkhi_s64(b), svunpkhi_u64(count));
    return svuzp1_s32(svreinterpret_s32_s64(low), svreinterpret_s32_s64(high));
}

EC_INLINE ec_vi ec_mulhigh(ec_vi a, ec_vi b)
{
    return ec_mulshift(a, b, (ec_vi){0} + 31);
}

/* A half lies in the low bits of its lane. */
EC_INLINE ec_vf ec_from_half_(ec_vi bits)
{
    return svcvt_f32_f16_x(EC_ALL_, svreinterpret_f16_s32(bits));
}

EC_INLINE ec_vi ec_to_half_(ec_vf x)
{
    return svreinterpret_s32_f16(svcvt_f16_f32_x(EC_ALL_, x));
}

/* ---- Products of bytes -------------------------------------------------------------------- */

/* SDOT is in SVE itself; USDOT came with I8MM. */
EC_INLINE ec_vi ec_dot_ss(ec_vi c, ec_vi s, ec_vi l)
{
    return svdot_s32(c, svreinterpret_s8_s32(s), svreinterpret_s8_s32(l));
}

#if defined(__ARM_FEATURE_SVE_MATMUL_INT8)
EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
    return svusdot_s32(c, svreinterpret_u8_s32(s), svreinterpret_s8_s32(l));
}
#else
/* With 128 less in every byte of s, and 128 times the bytes of l more. */
EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
    const ec_vi x = s ^ (int32_t)0x80808080, many = (ec_vi){0} + 0x40404040;
    return ec_dot_ss(ec_dot_ss(ec_dot_ss(c, many, l), many, l), x, l);
}
#endif

/* ---- Products of bfloat16, and instructions for matrices ---------------------------------- *
 *
 * An instruction for matrices multiplies two rows of S by two columns of L in every 128 bits. Sums of two rows lie in two
 * registers: each pair of columns row by row, those of the first half of the columns and of the others. */

#if defined(__ARM_FEATURE_SVE_MATMUL_INT8) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
/* Eight bytes of two rows in every 128 bits; or the first n of them, and zeros. */
EC_INLINE ec_vi ec_rows(const void *p, const void *q)
{
    double low, high; /* in the registers of vectors from the start */
    __builtin_memcpy(&low, p, 8);
    __builtin_memcpy(&high, q, 8);
    return svreinterpret_s32_f64(svzip1_f64(svdup_n_f64(low), svdup_n_f64(high)));
}

EC_INLINE ec_vi ec_rows_first(const void *p, const void *q, int n)
{
    uint64_t low = 0, high = 0;
    __builtin_memcpy(&low, p, (size_t)n);
    __builtin_memcpy(&high, q, (size_t)n);
    return ec_rows(&low, &high);
}

/* The same of numbers of 16 bits, four or n of each row. */
EC_INLINE ec_vi ec_rows_16(const uint16_t *p, const uint16_t *q) { return ec_rows(p, q); }
EC_INLINE ec_vi ec_rows_16_first(const uint16_t *p, const uint16_t *q, int n) { return ec_rows_first(p, q, 2 * n); }

/* Lanes of one row, of pairs of columns. */
EC_INLINE ec_vi ec_row_of_(ec_vi left, ec_vi right, int row)
{
    const svint64_t a = svreinterpret_s64_s32(left), b = svreinterpret_s64_s32(right);
    return svreinterpret_s32_s64(row ? svuzp2_s64(a, b) : svuzp1_s64(a, b));
}
#endif

#if defined(__ARM_FEATURE_SVE_MATMUL_INT8)
typedef struct {
    ec_vi left, right;
} ec_two_i;

/* Both rows start at the numbers at p. */
EC_INLINE ec_two_i ec_two_i_from(const int32_t *p)
{
    const svint64_t start = svreinterpret_s64_s32(svld1_s32(EC_ALL_, p));
    ec_two_i two = {svreinterpret_s32_s64(svzip1_s64(start, start)),
                    svreinterpret_s32_s64(svzip2_s64(start, start))};
    return two;
}

EC_INLINE ec_vi ec_two_i_lanes(ec_two_i two, int row) { return ec_row_of_(two.left, two.right, row); }

/* Eight bytes of a vector's columns, one behind the other, are a step. */
EC_INLINE ec_two_i ec_matrix_ss(ec_two_i c, ec_vi s, const int32_t *l)
{
    const svint8_t rows = svreinterpret_s8_s32(s);
    c.left = svmmla_s32(c.left, rows, svld1_s8(svptrue_b8(), (const int8_t *)l));
    c.right = svmmla_s32(c.right, rows, svld1_s8(svptrue_b8(), (const int8_t *)(l + EC_VL)));
    return c;
}

EC_INLINE ec_two_i ec_matrix_us(ec_two_i c, ec_vi s, const int32_t *l)
{
    const svuint8_t rows = svreinterpret_u8_s32(s);
    c.left = svusmmla_s32(c.left, rows, svld1_s8(svptrue_b8(), (const int8_t *)l));
    c.right = svusmmla_s32(c.right, rows, svld1_s8(svptrue_b8(), (const int8_t *)(l + EC_VL)));
    return c;
}
#endif

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define EC_HAS_BF16 1
EC_INLINE void ec_keep_bf16(uint16_t *p, ec_vf x)
{
    svst1h_s32(EC_ALL_, (int16_t *)p, svreinterpret_s32_bf16(svcvt_bf16_f32_x(EC_ALL_, x)));
}

EC_INLINE void ec_keep_bf16_n(uint16_t *p, ec_vf x, int n)
{
    svst1h_s32(EC_FIRST_LANES_(n), (int16_t *)p, svreinterpret_s32_bf16(svcvt_bf16_f32_x(EC_ALL_, x)));
}

EC_INLINE ec_vf ec_dot_bf16(ec_vf c, ec_vi s, ec_vi l)
{
    return svbfdot_f32(c, svreinterpret_bf16_s32(s), svreinterpret_bf16_s32(l));
}

typedef struct {
    ec_vf left, right;
} ec_two;

EC_INLINE ec_two ec_two_zero(void)
{
    ec_two two = {{0}, {0}};
    return two;
}

EC_INLINE ec_vf ec_two_lanes(ec_two two, int row)
{
    return (ec_vf)ec_row_of_((ec_vi)two.left, (ec_vi)two.right, row);
}

EC_INLINE ec_two ec_matrix_bf16(ec_two c, ec_vi s, const int32_t *l)
{
    const svbfloat16_t rows = svreinterpret_bf16_s32(s);
    c.left = svbfmmla_f32(c.left, rows, svreinterpret_bf16_s32(svld1_s32(EC_ALL_, l)));
    c.right = svbfmmla_f32(c.right, rows, svreinterpret_bf16_s32(svld1_s32(EC_ALL_, l + EC_VL)));
    return c;
}
#endif

#endif
