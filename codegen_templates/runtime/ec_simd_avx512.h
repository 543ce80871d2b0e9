/* ec_simd_avx512.h: what ec_simd.h cannot say well in vector extensions, for AVX-512 (F, BW, DQ, VL).
 *
 * Included by ec_simd.h only. Masks stay vectors of 0 and -1 in the interface; where a mask never
 * leaves a function it lives in a mask register. */
#ifndef EC_SIMD_AVX512_H
#define EC_SIMD_AVX512_H

#include <immintrin.h>

/* The first n lanes, 0 <= n <= 16. */
EC_INLINE __mmask16 ec_first_(int n)
{
    return (__mmask16)((1u << n) - 1u);
}

EC_INLINE ec_vf ec_load_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(ec_first_(n), p);
}

EC_INLINE void ec_store_n(float *p, ec_vf v, int n)
{
    _mm512_mask_storeu_ps(p, ec_first_(n), v);
}

EC_INLINE ec_vf ec_fma(ec_vf a, ec_vf b, ec_vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

EC_INLINE ec_vf ec_sqrt(ec_vf x)
{
    return _mm512_sqrt_ps(x);
}

EC_INLINE ec_vf ec_floor(ec_vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

EC_INLINE ec_vf ec_ceil(ec_vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}

EC_INLINE ec_vf ec_trunc(ec_vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

EC_INLINE ec_vf ec_round(ec_vf x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* VMINPS and VMAXPS return their second operand when either is NaN: that passes a NaN in a, and
 * the merge mask keeps a NaN in b. The mask of a constant b leaves the loop. */
EC_INLINE ec_vf ec_min(ec_vf a, ec_vf b)
{
    return _mm512_mask_min_ps(b, _mm512_cmp_ps_mask(b, b, _CMP_ORD_Q), b, a);
}

EC_INLINE ec_vf ec_max(ec_vf a, ec_vf b)
{
    return _mm512_mask_max_ps(b, _mm512_cmp_ps_mask(b, b, _CMP_ORD_Q), b, a);
}

EC_INLINE ec_vf ec_clamp(ec_vf x, ec_vf low, ec_vf high)
{
    return _mm512_min_ps(high, _mm512_max_ps(low, x));
}

/* One VPTERNLOGD: (mask & a) | (~mask & b). */
EC_INLINE ec_vf ec_select(ec_vi mask, ec_vf a, ec_vf b)
{
    return (ec_vf)_mm512_ternarylogic_epi32((__m512i)mask, (__m512i)a, (__m512i)b, 0xCA);
}

EC_INLINE int ec_any_(ec_vi mask)
{
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
}

/* Lane l of the result is lane l ^ distance of x. */
EC_INLINE ec_vf ec_swap_(ec_vf x, int distance)
{
    switch (distance) {
    case 8: return _mm512_shuffle_f32x4(x, x, _MM_SHUFFLE(1, 0, 3, 2));
    case 4: return _mm512_shuffle_f32x4(x, x, _MM_SHUFFLE(2, 3, 0, 1));
    case 2: return _mm512_permute_ps(x, _MM_SHUFFLE(1, 0, 3, 2));
    default: return _mm512_permute_ps(x, _MM_SHUFFLE(2, 3, 0, 1));
    }
}

/* The nearest integer; NaN and what does not fit give INT32_MIN. */
EC_INLINE ec_vi ec_nearest_(ec_vf x)
{
    return (ec_vi)_mm512_cvtps_epi32(x);
}

/* Powers of two, exp and erf of its own, and loads and stores of the first elements of narrow memory. */
#define EC_HAS_POWERS 1
#define EC_HAS_NARROW_N 1

/* a * 2^n, n a whole number of any size; rounds once, into the denormals too. */
EC_INLINE ec_vf ec_scale_(ec_vf a, ec_vf n)
{
    return _mm512_scalef_ps(a, n);
}

/* x = m * 2^exponent with m in [0.75, 1.5). Zero gives exponent -inf, infinity inf, and a negative
 * x gives NaN, so that log needs no special cases. */
EC_INLINE ec_vf ec_split_(ec_vf x, ec_vf *exponent)
{
    ec_vf m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
    *exponent = (ec_vf)_mm512_getexp_ps(x) - (ec_vf)_mm512_getexp_ps(m);
    return m;
}

/* Lane l of the result is table[j], j in the low four bits of index[l] taken as an integer. */
EC_INLINE ec_vf ec_lookup_(ec_vf table, ec_vf index)
{
    return _mm512_permutexvar_ps((__m512i)index, table);
}

/* e^x in 12 instructions: 1.1 ULP; below 1.2e-38 it is 0. A subnormal share of a softmax would slow
 * every multiplication that it is a factor of a hundred times.
 *
 * Adding 1.5 * 2^19 rounds x * log2(e) to sixteenths: n = k + j/16, with j in the low bits of the
 * sum. Then e^x = 2^k * 2^(j/16) * e^r with |r| <= ln(2)/32, where a cubic is enough. VSCALEFPS
 * applies floor(n) = k. Where x is infinite or huge, r is meaningless: VRANGEPS bounds it in
 * magnitude, and n alone makes the result 0 or inf. Where x is NaN, so are n and the result. */
EC_INLINE ec_vf ec_exp(ec_vf x)
{
    const ec_vf power = {/* 2^(j/16) */
                         1.0f,         1.0442737824f, 1.0905077327f, 1.1387886348f,
                         1.1892071150f, 1.2418578121f, 1.2968395547f, 1.3542555469f,
                         1.4142135624f, 1.4768261459f, 1.5422108254f, 1.6104903319f,
                         1.6817928305f, 1.7562521604f, 1.8340080864f, 1.9152065614f};
    const ec_vf to_sixteenths = ec_set1(786432.0f);
    ec_vf sum = ec_fma(x, ec_set1(1.44269504f), to_sixteenths);
    ec_vf n = sum - to_sixteenths;
    ec_vf r = ec_fma(n, ec_set1(-0.693145752f), x);
    r = ec_fma(n, ec_set1(-1.42860677e-6f), r);
    r = _mm512_range_ps(r, ec_set1(0.03125f), 2 /* smaller magnitude, sign of r */);
    ec_vf t = ec_lookup_(power, sum);
    ec_vf p = ec_fma(ec_set1(0.166668355f), r, ec_set1(0.500016212f));
    p = ec_fma(p, r, ec_set1(1.0f)) * r;
    const __mmask16 normal = _mm512_cmp_ps_mask(x, ec_set1(-87.336544f), _CMP_NLT_UQ); /* NaN too */
    return _mm512_maskz_scalef_ps(normal, ec_fma(t, p, t), n);
}

/* erf(x): 2.3 ULP.
 *
 * No division: a polynomial of degree 5 around each of 0, 1/4, 2/4, ... 15/4, its coefficients
 * looked up by lane. Adding 1.5 * 2^21 rounds |x| to quarters and leaves their number in the low
 * bits. Where erf rounds to 1, |x| is held. */
EC_INLINE ec_vf ec_erf(ec_vf x)
{
    const ec_vf c5 = {0.141690999f, 0.0796684325f, 0.00736880908f, -0.0524895824f,
                      -0.0686337352f, -0.0470736511f, -0.0149910608f, 0.00644453336f,
                      0.0130048692f, 0.0106403921f, 0.00613101618f, 0.00277343299f,
                      0.0010272332f, 0.000318471371f, 8.37179905e-05f, 1.88197937e-05f};
    const ec_vf c4 = {-0.00741152186f, 0.126070797f, 0.182081237f, 0.150352672f,
                      0.0691081434f, -0.00553809665f, -0.0439587161f, -0.047710292f,
                      -0.0341461226f, -0.0189035069f, -0.00905592926f, -0.00317318714f,
                      -0.00135885202f, -0.000145454338f, 0.000294339057f, -8.58924468e-05f};
    const ec_vf c3 = {-0.375538558f, -0.309168577f, -0.146462694f, 0.0267793797f,
                      0.138362929f, 0.167534843f, 0.138752922f, 0.0901588947f,
                      0.0482235067f, 0.0217246711f, 0.00834999792f, 0.00276025129f,
                      0.000789017242f, 0.000195773042f, 4.22829617e-05f, 7.96609947e-06f};
    const ec_vf c2 = {-1.48595691e-05f, -0.264998704f, -0.439387798f, -0.482200384f,
                      -0.415104538f, -0.295656741f, -0.178401753f, -0.0923610255f,
                      -0.0413396619f, -0.0160746649f, -0.00543812755f, -0.001614457f,
                      -0.000411845569f, -9.77100208e-05f, -2.60059005e-05f, -1.90211972e-06f};
    const ec_vf c1 = {1.12837923f, 1.06001413f, 0.87878257f, 0.642931104f,
                      0.415107518f, 0.236521125f, 0.118930288f, 0.0527749918f,
                      0.0206669848f, 0.00714231888f, 0.00217828434f, 0.000586277514f,
                      0.000139253214f, 2.91890974e-05f, 5.39945131e-06f, 1.06617802e-06f};
    const ec_vf c0 = {0.0f, 0.276326388f, 0.520499885f, 0.711155653f,
                      0.842700779f, 0.92290014f, 0.966105163f, 0.986671686f,
                      0.995322287f, 0.998537302f, 0.999593019f, 0.999899387f,
                      0.999977887f, 0.999995708f, 0.999999285f, 0.999999881f};
    const ec_vf to_quarters = ec_set1(3145728.0f);
    const ec_vf magnitude = (ec_vf)((ec_vi)x & INT32_MAX);
    ec_vf held = _mm512_min_ps(ec_set1(3.8745f), magnitude);
    ec_vf sum = held + to_quarters;
    ec_vf d = held - (sum - to_quarters);
    ec_vf p = ec_lookup_(c5, sum);
    p = ec_fma(p, d, ec_lookup_(c4, sum));
    p = ec_fma(p, d, ec_lookup_(c3, sum));
    p = ec_fma(p, d, ec_lookup_(c2, sum));
    p = ec_fma(p, d, ec_lookup_(c1, sum));
    p = ec_fma(p, d, ec_lookup_(c0, sum));
    return (ec_vf)((ec_vi)p | ((ec_vi)x & INT32_MIN));
}

/* ---- Integers ----------------------------------------------------------------------------- */

EC_INLINE ec_vi ec_min_i(ec_vi a, ec_vi b)
{
    return (ec_vi)_mm512_min_epi32((__m512i)a, (__m512i)b);
}

EC_INLINE ec_vi ec_max_i(ec_vi a, ec_vi b)
{
    return (ec_vi)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

EC_INLINE ec_vi ec_shl_i(ec_vi a, ec_vi n)
{
    return (ec_vi)_mm512_sllv_epi32((__m512i)a, (__m512i)n);
}

EC_INLINE ec_vi ec_shr_i(ec_vi a, ec_vi n)
{
    return (ec_vi)_mm512_srav_epi32((__m512i)a, (__m512i)n);
}

EC_INLINE ec_vi ec_whole(ec_vf x)
{
    return (ec_vi)_mm512_cvttps_epi32(x);
}

EC_INLINE ec_vi ec_nearest(ec_vf x)
{
    return (ec_vi)_mm512_cvtps_epi32(x);
}

/* Below the range VCVTTPS2DQ gives INT32_MIN by itself. */
EC_INLINE ec_vi ec_to_int(ec_vf x)
{
    __m512i whole = _mm512_maskz_cvttps_epi32(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x);
    __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_set1_ps(0x1p31f), _CMP_GE_OQ);
    return (ec_vi)_mm512_mask_mov_epi32(whole, above, _mm512_set1_epi32(INT32_MAX));
}

#define EC_WIDEN_(TYPE, T, LOAD, FIRST, WIDEN)                     \
    EC_INLINE ec_vi ec_load_##TYPE(const T *p)                     \
    {                                                              \
        return (ec_vi)WIDEN(LOAD((const void *)p));                \
    }                                                              \
    EC_INLINE ec_vi ec_load_##TYPE##_n(const T *p, int n)          \
    {                                                              \
        return (ec_vi)WIDEN(FIRST(ec_first_(n), p));               \
    }
EC_WIDEN_(u8, uint8_t, _mm_loadu_si128, _mm_maskz_loadu_epi8, _mm512_cvtepu8_epi32)
EC_WIDEN_(i8, int8_t, _mm_loadu_si128, _mm_maskz_loadu_epi8, _mm512_cvtepi8_epi32)
EC_WIDEN_(u16, uint16_t, _mm256_loadu_si256, _mm256_maskz_loadu_epi16, _mm512_cvtepu16_epi32)
EC_WIDEN_(i16, int16_t, _mm256_loadu_si256, _mm256_maskz_loadu_epi16, _mm512_cvtepi16_epi32)
#undef EC_WIDEN_

EC_INLINE ec_vi ec_load_i32_n(const int32_t *p, int n)
{
    return (ec_vi)_mm512_maskz_loadu_epi32(ec_first_(n), p);
}

EC_INLINE void ec_store_i32_n(int32_t *p, ec_vi v, int n)
{
    _mm512_mask_storeu_epi32(p, ec_first_(n), (__m512i)v);
}

EC_INLINE void ec_store_8_(uint8_t *p, ec_vi v)
{
    _mm_storeu_si128((void *)p, _mm512_cvtepi32_epi8((__m512i)v));
}

EC_INLINE void ec_store_8_n_(uint8_t *p, ec_vi v, int n)
{
    _mm_mask_storeu_epi8(p, ec_first_(n), _mm512_cvtepi32_epi8((__m512i)v));
}

EC_INLINE void ec_store_16_(uint16_t *p, ec_vi v)
{
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16((__m512i)v));
}

EC_INLINE void ec_store_16_n_(uint16_t *p, ec_vi v, int n)
{
    _mm256_mask_storeu_epi16(p, ec_first_(n), _mm512_cvtepi32_epi16((__m512i)v));
}

EC_INLINE ec_vf ec_from_half_(ec_vi bits)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)bits));
}

EC_INLINE ec_vi ec_to_half_(ec_vf x)
{
    return (ec_vi)_mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* VPERMPS looks at the low four bits of a lane alone. */
#define EC_HAS_NIBBLE 1
EC_INLINE ec_vf ec_nibble(ec_vi word, int k)
{
    const ec_vf numbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return ec_lookup_(numbers, (ec_vf)((ec_vu_)word >> (4 * k)));
}

#if defined(__AVX512BF16__)
#define EC_HAS_BF16 1
EC_INLINE void ec_keep_bf16(uint16_t *p, ec_vf x)
{
    _mm256_storeu_si256((void *)p, (__m256i)_mm512_cvtneps_pbh(x));
}

EC_INLINE void ec_keep_bf16_n(uint16_t *p, ec_vf x, int n)
{
    _mm256_mask_storeu_epi16(p, ec_first_(n), (__m256i)_mm512_cvtneps_pbh(x));
}

EC_INLINE ec_vf ec_dot_bf16(ec_vf c, ec_vi s, ec_vi l)
{
    return (ec_vf)_mm512_dpbf16_ps(c, (__m512bh)s, (__m512bh)l);
}
#endif

/* Even and odd lanes apart, as products in 64 bits; those of odd lanes end in the upper halves. */
EC_INLINE ec_vi ec_mulhigh(ec_vi a, ec_vi b)
{
    const __m512i x = (__m512i)a, y = (__m512i)b, half = _mm512_set1_epi64(1 << 30);
    __m512i even = _mm512_add_epi64(_mm512_mul_epi32(x, y), half);
    __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(y, 32));
    odd = _mm512_slli_epi64(_mm512_add_epi64(odd, half), 1);
    return (ec_vi)_mm512_mask_mov_epi32(odd, 0x5555, _mm512_srli_epi64(even, 31));
}

EC_INLINE __m512i ec_rounded_shift_(__m512i product, __m512i n)
{
    const __m512i half = _mm512_srli_epi64(_mm512_sllv_epi64(_mm512_set1_epi64(1), n), 1);
    return _mm512_srav_epi64(_mm512_add_epi64(product, half), n);
}

EC_INLINE ec_vi ec_mulshift(ec_vi a, ec_vi b, ec_vi n)
{
    const __m512i x = (__m512i)a, y = (__m512i)b, count = (__m512i)(n & 63);
    __m512i even = _mm512_mul_epi32(x, y);
    __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(y, 32));
    even = ec_rounded_shift_(even, _mm512_and_epi32(count, _mm512_set1_epi64(63)));
    odd = ec_rounded_shift_(odd, _mm512_srli_epi64(count, 32));
    return (ec_vi)_mm512_mask_mov_epi32(_mm512_slli_epi64(odd, 32), 0x5555, even);
}

#if defined(__AVX512VNNI__)
EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
    return (ec_vi)_mm512_dpbusd_epi32((__m512i)c, (__m512i)s, (__m512i)l);
}

/* With 128 more in every byte of s, and 128 times the bytes of l less. */
EC_INLINE ec_vi ec_dot_ss(ec_vi c, ec_vi s, ec_vi l)
{
    const ec_vi flip = (ec_vi)_mm512_set1_epi8((char)0x80);
    __m512i more = _mm512_dpbusd_epi32(_mm512_setzero_si512(), (__m512i)flip, (__m512i)l);
    return (ec_vi)_mm512_sub_epi32((__m512i)ec_dot_us(c, s ^ flip, l), more);
}
#else
/* Even and odd bytes apart, as 16-bit integers. */
EC_INLINE ec_vi ec_dot_halves_(ec_vi c, __m512i s_even, __m512i s_odd, __m512i l)
{
    __m512i l_even = _mm512_srai_epi16(_mm512_slli_epi16(l, 8), 8), l_odd = _mm512_srai_epi16(l, 8);
    __m512i sum = _mm512_add_epi32(_mm512_madd_epi16(s_even, l_even), _mm512_madd_epi16(s_odd, l_odd));
    return (ec_vi)_mm512_add_epi32((__m512i)c, sum);
}

EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
    __m512i x = (__m512i)s;
    __m512i even = _mm512_and_si512(x, _mm512_set1_epi16(0xff));
    return ec_dot_halves_(c, even, _mm512_srli_epi16(x, 8), (__m512i)l);
}

#define EC_HAS_DOT_CODES 1
EC_INLINE ec_vi ec_dot_codes(ec_vi c, ec_vi codes, ec_vi s)
{
    const __m512i pairs = _mm512_maddubs_epi16((__m512i)codes, (__m512i)s); /* 2 * 127 * 128 does not saturate */
    return (ec_vi)_mm512_add_epi32((__m512i)c, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

EC_INLINE ec_vi ec_dot_ss(ec_vi c, ec_vi s, ec_vi l)
{
    __m512i x = (__m512i)s;
    __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8);
    return ec_dot_halves_(c, even, _mm512_srai_epi16(x, 8), (__m512i)l);
}
#endif

#define EC_HAS_PICK 1
EC_INLINE ec_vf ec_pick(const float *p, ec_vi at) { return (ec_vf)_mm512_i32gather_ps((__m512i)at, p, 4); }
#define EC_HAS_PICK_N 1
EC_INLINE ec_vf ec_pick_n(const float *p, ec_vi at, int n)
{
    return (ec_vf)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), ec_first_(n), (__m512i)at, p, 4);
}

#define EC_HAS_WIDE 1
EC_INLINE void ec_store_i64_n(int64_t *p, ec_vi v, int n)
{
    const __mmask16 live = ec_first_(n);
    const __m512i x = (__m512i)v;
    _mm512_mask_storeu_epi64(p, (__mmask8)live, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(x)));
    _mm512_mask_storeu_epi64(p + 8, (__mmask8)(live >> 8), _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(x, 1)));
}

#endif
