/* ec_simd_avx2.h: what ec_simd.h cannot say well in vector extensions, for AVX2 with FMA.
 *
 * Included by ec_simd.h only. */
#ifndef EC_SIMD_AVX2_H
#define EC_SIMD_AVX2_H

#include <immintrin.h>

/* The first n lanes, 0 <= n <= 8. */
EC_INLINE __m256i ec_first_(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

EC_INLINE ec_vf ec_load_n(const float *p, int n)
{
    return _mm256_maskload_ps(p, ec_first_(n));
}

EC_INLINE void ec_store_n(float *p, ec_vf v, int n)
{
    _mm256_maskstore_ps(p, ec_first_(n), v);
}

EC_INLINE ec_vf ec_fma(ec_vf a, ec_vf b, ec_vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

EC_INLINE ec_vf ec_sqrt(ec_vf x)
{
    return _mm256_sqrt_ps(x);
}

EC_INLINE ec_vf ec_floor(ec_vf x)
{
    return _mm256_floor_ps(x);
}

EC_INLINE ec_vf ec_ceil(ec_vf x)
{
    return _mm256_ceil_ps(x);
}

EC_INLINE ec_vf ec_trunc(ec_vf x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

EC_INLINE ec_vf ec_round(ec_vf x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* VMINPS and VMAXPS return their second operand when either is NaN: that passes a NaN in a, and
 * the blend restores a NaN in b. The mask of a constant b leaves the loop. */
EC_INLINE ec_vf ec_min(ec_vf a, ec_vf b)
{
    return _mm256_blendv_ps(_mm256_min_ps(b, a), b, _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
}

EC_INLINE ec_vf ec_max(ec_vf a, ec_vf b)
{
    return _mm256_blendv_ps(_mm256_max_ps(b, a), b, _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
}

EC_INLINE ec_vf ec_clamp(ec_vf x, ec_vf low, ec_vf high)
{
    return _mm256_min_ps(high, _mm256_max_ps(low, x));
}

EC_INLINE ec_vf ec_select(ec_vi mask, ec_vf a, ec_vf b)
{
    return _mm256_blendv_ps(b, a, (__m256)mask);
}

EC_INLINE int ec_any_(ec_vi mask)
{
    return _mm256_movemask_ps((__m256)mask) != 0;
}

/* Lane l of the result is lane l ^ distance of x. */
EC_INLINE ec_vf ec_swap_(ec_vf x, int distance)
{
    switch (distance) {
    case 4: return _mm256_permute2f128_ps(x, x, 1);
    case 2: return _mm256_permute_ps(x, _MM_SHUFFLE(1, 0, 3, 2));
    default: return _mm256_permute_ps(x, _MM_SHUFFLE(2, 3, 0, 1));
    }
}

/* The nearest integer; NaN and what does not fit give INT32_MIN. */
EC_INLINE ec_vi ec_nearest_(ec_vf x)
{
    return (ec_vi)_mm256_cvtps_epi32(x);
}

/* ---- Integers ----------------------------------------------------------------------------- */

EC_INLINE ec_vi ec_min_i(ec_vi a, ec_vi b)
{
    return (ec_vi)_mm256_min_epi32((__m256i)a, (__m256i)b);
}

EC_INLINE ec_vi ec_max_i(ec_vi a, ec_vi b)
{
    return (ec_vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

EC_INLINE ec_vi ec_shl_i(ec_vi a, ec_vi n)
{
    return (ec_vi)_mm256_sllv_epi32((__m256i)a, (__m256i)n);
}

EC_INLINE ec_vi ec_shr_i(ec_vi a, ec_vi n)
{
    return (ec_vi)_mm256_srav_epi32((__m256i)a, (__m256i)n);
}

EC_INLINE ec_vi ec_whole(ec_vf x)
{
    return (ec_vi)_mm256_cvttps_epi32(x);
}

EC_INLINE ec_vi ec_nearest(ec_vf x)
{
    return (ec_vi)_mm256_cvtps_epi32(x);
}

/* Below the range VCVTTPS2DQ gives INT32_MIN by itself; above, that is one too few to be INT32_MAX. */
EC_INLINE ec_vi ec_to_int(ec_vf x)
{
    ec_vi above = (ec_vi)_mm256_cmp_ps(x, _mm256_set1_ps(0x1p31f), _CMP_GE_OQ);
    ec_vi ordered = (ec_vi)_mm256_cmp_ps(x, x, _CMP_ORD_Q);
    return (ec_whole(x) ^ above) & ordered;
}

EC_INLINE ec_vi ec_load_u8(const uint8_t *p)
{
    return (ec_vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
}

EC_INLINE ec_vi ec_load_i8(const int8_t *p)
{
    return (ec_vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p));
}

EC_INLINE ec_vi ec_load_u16(const uint16_t *p)
{
    return (ec_vi)_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
}

EC_INLINE ec_vi ec_load_i16(const int16_t *p)
{
    return (ec_vi)_mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)p));
}

/* The low halves of the lanes, in order. */
EC_INLINE __m128i ec_low_halves_(ec_vi v)
{
    const __m256i low = _mm256_set1_epi64x(0x0d0c090805040100);
    __m256i halves = _mm256_shuffle_epi8((__m256i)v, low);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(halves, _MM_SHUFFLE(3, 1, 2, 0)));
}

EC_INLINE void ec_store_8_(uint8_t *p, ec_vi v)
{
    __m128i halves = _mm_and_si128(ec_low_halves_(v), _mm_set1_epi16(0xff));
    _mm_storel_epi64((void *)p, _mm_packus_epi16(halves, halves));
}

EC_INLINE void ec_store_16_(uint16_t *p, ec_vi v)
{
    _mm_storeu_si128((void *)p, ec_low_halves_(v));
}

/* Even and odd lanes apart, as products in 64 bits; those of odd lanes end in the upper halves. */
EC_INLINE ec_vi ec_mulhigh(ec_vi a, ec_vi b)
{
    const __m256i x = (__m256i)a, y = (__m256i)b, half = _mm256_set1_epi64x(1 << 30);
    __m256i even = _mm256_add_epi64(_mm256_mul_epi32(x, y), half);
    __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32));
    odd = _mm256_slli_epi64(_mm256_add_epi64(odd, half), 1);
    return (ec_vi)_mm256_blend_epi32(odd, _mm256_srli_epi64(even, 31), 0x55);
}

/* AVX2 has no arithmetic shift of 64 bits: 2^63 is added before, and what became of it taken away. */
EC_INLINE __m256i ec_rounded_shift_(__m256i product, __m256i n)
{
    const __m256i bias = _mm256_set1_epi64x(INT64_MIN);
    const __m256i half = _mm256_srli_epi64(_mm256_sllv_epi64(_mm256_set1_epi64x(1), n), 1);
    __m256i sum = _mm256_xor_si256(_mm256_add_epi64(product, half), bias);
    return _mm256_sub_epi64(_mm256_srlv_epi64(sum, n), _mm256_srlv_epi64(bias, n));
}

EC_INLINE ec_vi ec_mulshift(ec_vi a, ec_vi b, ec_vi n)
{
    const __m256i x = (__m256i)a, y = (__m256i)b, count = (__m256i)(n & 63);
    __m256i even = _mm256_mul_epi32(x, y);
    __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32));
    even = ec_rounded_shift_(even, _mm256_and_si256(count, _mm256_set1_epi64x(63)));
    odd = ec_rounded_shift_(odd, _mm256_srli_epi64(count, 32));
    return (ec_vi)_mm256_blend_epi32(_mm256_slli_epi64(odd, 32), even, 0x55);
}

#if defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__))
EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
#if defined(__AVXVNNI__)
    return (ec_vi)_mm256_dpbusd_avx_epi32((__m256i)c, (__m256i)s, (__m256i)l);
#else
    return (ec_vi)_mm256_dpbusd_epi32((__m256i)c, (__m256i)s, (__m256i)l);
#endif
}

/* With 128 more in every byte of s, and 128 times the bytes of l less. */
EC_INLINE ec_vi ec_dot_ss(ec_vi c, ec_vi s, ec_vi l)
{
    const ec_vi flip = (ec_vi)_mm256_set1_epi8((char)0x80);
    ec_vi more = ec_dot_us((ec_vi)_mm256_setzero_si256(), flip, l);
    return (ec_vi)_mm256_sub_epi32((__m256i)ec_dot_us(c, s ^ flip, l), (__m256i)more);
}
#else
/* Even and odd bytes apart, as 16-bit integers. (VPMADDUBSW would saturate.) */
EC_INLINE ec_vi ec_dot_halves_(ec_vi c, __m256i s_even, __m256i s_odd, __m256i l)
{
    __m256i l_even = _mm256_srai_epi16(_mm256_slli_epi16(l, 8), 8), l_odd = _mm256_srai_epi16(l, 8);
    __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(s_even, l_even), _mm256_madd_epi16(s_odd, l_odd));
    return (ec_vi)_mm256_add_epi32((__m256i)c, sum);
}

EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
    __m256i x = (__m256i)s;
    __m256i even = _mm256_and_si256(x, _mm256_set1_epi16(0xff));
    return ec_dot_halves_(c, even, _mm256_srli_epi16(x, 8), (__m256i)l);
}

#define EC_HAS_DOT_CODES 1
EC_INLINE ec_vi ec_dot_codes(ec_vi c, ec_vi codes, ec_vi s)
{
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)codes, (__m256i)s); /* 2 * 127 * 128 does not saturate */
    return (ec_vi)_mm256_add_epi32((__m256i)c, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

EC_INLINE ec_vi ec_dot_ss(ec_vi c, ec_vi s, ec_vi l)
{
    __m256i x = (__m256i)s;
    __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8);
    return ec_dot_halves_(c, even, _mm256_srai_epi16(x, 8), (__m256i)l);
}
#endif

#if defined(__F16C__)
EC_INLINE ec_vf ec_from_half_(ec_vi bits)
{
    return _mm256_cvtph_ps(ec_low_halves_(bits));
}

EC_INLINE ec_vi ec_to_half_(ec_vf x)
{
    return (ec_vi)_mm256_cvtepu16_epi32(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#else
#include "ec_simd_half.h"
#endif

#define EC_HAS_PICK 1
EC_INLINE ec_vf ec_pick(const float *p, ec_vi at) { return (ec_vf)_mm256_i32gather_ps(p, (__m256i)at, 4); }

#endif
