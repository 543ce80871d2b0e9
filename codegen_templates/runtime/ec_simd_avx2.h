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

#endif
