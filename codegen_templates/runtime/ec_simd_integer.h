/* ec_simd_integer.h: lanes of integers, and elements narrower than a lane.
 *
 * Included by ec_simd.h only. A lane has 32 bits whatever lies in memory: a load of bytes, 16-bit
 * integers, booleans or half-precision floats widens them, a store narrows. Integers of every width
 * are held as int32_t, booleans as masks, half-precision floats as floats. Integer arithmetic wraps
 * around; ec_as_TYPE brings a result back into the range of a narrow type, as a cast in C does.
 *
 * The instruction set's part: ec_min_i, ec_max_i; ec_shl_i and ec_shr_i (arithmetic), by any
 * count; ec_whole(x) and ec_nearest(x), a float as an integer towards zero and with halves to even,
 * for |x| < 2^31 (NaN gives 0 in the low 16 bits); ec_to_int(x), towards zero, saturated, 0 for NaN;
 * ec_load_TYPE and ec_store_8_, ec_store_16_ with their forms for the first n lanes;
 * ec_from_half_ and ec_to_half_ between floats and the bits of binary16; ec_mulhigh(a, b), the
 * product over 2^31 with halves up, and ec_mulshift(a, b, n), over 2^n; ec_dot_us and ec_dot_ss;
 * where it has instructions for bfloat16 (EC_HAS_BF16), ec_dot_bf16 and ec_keep_bf16. */
#ifndef EC_SIMD_INTEGER_H
#define EC_SIMD_INTEGER_H

EC_INLINE ec_vi ec_set1_i(int32_t x)
{
    return (ec_vi){0} + x;
}

/* ---- Arithmetic --------------------------------------------------------------------------- */

EC_INLINE ec_vi ec_add_i(ec_vi a, ec_vi b) { return (ec_vi)((ec_vu_)a + (ec_vu_)b); }
EC_INLINE ec_vi ec_sub_i(ec_vi a, ec_vi b) { return (ec_vi)((ec_vu_)a - (ec_vu_)b); }
EC_INLINE ec_vi ec_mul_i(ec_vi a, ec_vi b) { return (ec_vi)((ec_vu_)a * (ec_vu_)b); }
EC_INLINE ec_vi ec_neg_i(ec_vi a) { return (ec_vi)(0 - (ec_vu_)a); }
EC_INLINE ec_vi ec_abs_i(ec_vi a) { return ec_max_i(a, ec_neg_i(a)); }
EC_INLINE ec_vi ec_sign_i(ec_vi a) { return (ec_vi)(a < 0) - (ec_vi)(a > 0); }
EC_INLINE ec_vi ec_bitand_i(ec_vi a, ec_vi b) { return a & b; }
EC_INLINE ec_vi ec_bitor_i(ec_vi a, ec_vi b) { return a | b; }
EC_INLINE ec_vi ec_bitxor_i(ec_vi a, ec_vi b) { return a ^ b; }
EC_INLINE ec_vi ec_bitnot_i(ec_vi a) { return ~a; }

EC_INLINE ec_vi ec_lt_i(ec_vi a, ec_vi b) { return (ec_vi)(a < b); }
EC_INLINE ec_vi ec_le_i(ec_vi a, ec_vi b) { return (ec_vi)(a <= b); }
EC_INLINE ec_vi ec_gt_i(ec_vi a, ec_vi b) { return (ec_vi)(a > b); }
EC_INLINE ec_vi ec_ge_i(ec_vi a, ec_vi b) { return (ec_vi)(a >= b); }
EC_INLINE ec_vi ec_eq_i(ec_vi a, ec_vi b) { return (ec_vi)(a == b); }
EC_INLINE ec_vi ec_ne_i(ec_vi a, ec_vi b) { return (ec_vi)(a != b); }
EC_INLINE ec_vi ec_xor(ec_vi a, ec_vi b) { return a ^ b; }

EC_INLINE ec_vi ec_select_i(ec_vi mask, ec_vi a, ec_vi b)
{
    return (ec_vi)ec_select(mask, (ec_vf)a, (ec_vf)b);
}

#if defined(__ARM_NEON) && !defined(__aarch64__)
EC_INLINE ec_vf ec_to_float(ec_vi a) { return (ec_vf)vcvtq_f32_s32((int32x4_t)a); }
#else
EC_INLINE ec_vf ec_to_float(ec_vi a) { return __builtin_convertvector(a, ec_vf); }
#endif
/* 1 where a mask holds, 0 elsewhere. */
EC_INLINE ec_vi ec_truth(ec_vi mask) { return mask & 1; }

/* ---- Types narrower than a lane ----------------------------------------------------------- */

/* The bits of bfloat16, rounded to even. */
EC_INLINE ec_vi ec_to_brain_(ec_vf x)
{
    ec_vu_ u = (ec_vu_)x;
    ec_vi rounded = (ec_vi)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
    return ec_select_i(ec_ne(x, x), (ec_vi)((u >> 16) | 0x40), rounded);
}

EC_INLINE ec_vf ec_from_brain_(ec_vi bits) { return (ec_vf)((ec_vu_)bits << 16); }

EC_INLINE ec_vi ec_as_i8(ec_vi a) { return (ec_vi)((ec_vu_)a << 24) >> 24; }
EC_INLINE ec_vi ec_as_i16(ec_vi a) { return (ec_vi)((ec_vu_)a << 16) >> 16; }
EC_INLINE ec_vi ec_as_u8(ec_vi a) { return a & 0xff; }
EC_INLINE ec_vi ec_as_u16(ec_vi a) { return a & 0xffff; }
EC_INLINE ec_vf ec_as_f16(ec_vf x) { return ec_from_half_(ec_to_half_(x)); }
EC_INLINE ec_vf ec_as_bf16(ec_vf x) { return ec_from_brain_(ec_to_brain_(x)); }

/* ---- Memory ------------------------------------------------------------------------------- */

EC_INLINE ec_vi ec_load_i32(const int32_t *p)
{
    return *(const ec_vi_memory_ *)p;
}

EC_INLINE void ec_store_i32(int32_t *p, ec_vi v)
{
    *(ec_vi_memory_ *)p = v;
}

/* Whole numbers of 64 bits, which no lane computes: places, mostly. */
#if !defined(EC_HAS_WIDE)
EC_INLINE void ec_store_i64_n(int64_t *p, ec_vi v, int n)
{
    for (int l = 0; l < n; ++l)
        p[l] = v[l];
}
#endif

EC_INLINE void ec_store_i64(int64_t *p, ec_vi v) { ec_store_i64_n(p, v, EC_VL); }

#if !defined(EC_HAS_NARROW_N) /* no masks for narrow elements: the live ones go through a vector of their own */
#define EC_FIRST_(TYPE, T)                                                  \
    EC_INLINE ec_vi ec_load_##TYPE##_n(const T *p, int n)                   \
    {                                                                       \
        T lanes[EC_VL] = {0};                                               \
        for (int l = 0; l < EC_VL; ++l)                                     \
            if (l < n)                                                      \
                lanes[l] = p[l];                                            \
        return ec_load_##TYPE(lanes);                                       \
    }
EC_FIRST_(u8, uint8_t)
EC_FIRST_(i8, int8_t)
EC_FIRST_(u16, uint16_t)
EC_FIRST_(i16, int16_t)
EC_FIRST_(i32, int32_t)
#undef EC_FIRST_

EC_INLINE void ec_store_8_n_(uint8_t *p, ec_vi v, int n)
{
    for (int l = 0; l < EC_VL; ++l)
        if (l < n)
            p[l] = (uint8_t)v[l];
}

EC_INLINE void ec_store_16_n_(uint16_t *p, ec_vi v, int n)
{
    for (int l = 0; l < EC_VL; ++l)
        if (l < n)
            p[l] = (uint16_t)v[l];
}

EC_INLINE void ec_store_i32_n(int32_t *p, ec_vi v, int n)
{
    for (int l = 0; l < EC_VL; ++l)
        if (l < n)
            p[l] = v[l];
}
#endif

EC_INLINE void ec_store_u8(uint8_t *p, ec_vi v) { ec_store_8_(p, v); }
EC_INLINE void ec_store_i8(int8_t *p, ec_vi v) { ec_store_8_((uint8_t *)p, v); }
EC_INLINE void ec_store_u16(uint16_t *p, ec_vi v) { ec_store_16_(p, v); }
EC_INLINE void ec_store_i16(int16_t *p, ec_vi v) { ec_store_16_((uint16_t *)p, v); }
EC_INLINE void ec_store_u8_n(uint8_t *p, ec_vi v, int n) { ec_store_8_n_(p, v, n); }
EC_INLINE void ec_store_i8_n(int8_t *p, ec_vi v, int n) { ec_store_8_n_((uint8_t *)p, v, n); }
EC_INLINE void ec_store_u16_n(uint16_t *p, ec_vi v, int n) { ec_store_16_n_(p, v, n); }
EC_INLINE void ec_store_i16_n(int16_t *p, ec_vi v, int n) { ec_store_16_n_((uint16_t *)p, v, n); }

EC_INLINE ec_vi ec_load_bool(const uint8_t *p) { return ec_ne_i(ec_load_u8(p), (ec_vi){0}); }
EC_INLINE ec_vi ec_load_bool_n(const uint8_t *p, int n)
{
    return ec_ne_i(ec_load_u8_n(p, n), (ec_vi){0});
}
EC_INLINE void ec_store_bool(uint8_t *p, ec_vi mask) { ec_store_8_(p, ec_truth(mask)); }
EC_INLINE void ec_store_bool_n(uint8_t *p, ec_vi mask, int n) { ec_store_8_n_(p, ec_truth(mask), n); }

#define EC_HALF_(TYPE, FROM, TO)                                                                  \
    EC_INLINE ec_vf ec_load_##TYPE(const uint16_t *p) { return FROM(ec_load_u16(p)); }             \
    EC_INLINE ec_vf ec_load_##TYPE##_n(const uint16_t *p, int n) { return FROM(ec_load_u16_n(p, n)); } \
    EC_INLINE void ec_store_##TYPE(uint16_t *p, ec_vf x) { ec_store_16_(p, TO(x)); }               \
    EC_INLINE void ec_store_##TYPE##_n(uint16_t *p, ec_vf x, int n) { ec_store_16_n_(p, TO(x), n); }
EC_HALF_(f16, ec_from_half_, ec_to_half_)
EC_HALF_(bf16, ec_from_brain_, ec_to_brain_)
#undef EC_HALF_

/* Lane l is at p[l * stride]. */
#define EC_STRIDED_(TYPE, T, V)                                                       \
    EC_INLINE V ec_gather_##TYPE##_n(const T *p, ptrdiff_t stride, int n)             \
    {                                                                                 \
        T lanes[EC_VL] = {0};                                                         \
        for (int l = 0; l < n; ++l)                                                   \
            lanes[l] = p[l * stride];                                                 \
        return ec_load_##TYPE(lanes);                                                 \
    }                                                                                 \
    EC_INLINE V ec_gather_##TYPE(const T *p, ptrdiff_t stride)                        \
    {                                                                                 \
        return ec_gather_##TYPE##_n(p, stride, EC_VL);                                \
    }                                                                                 \
    EC_INLINE void ec_scatter_##TYPE##_n(T *p, ptrdiff_t stride, V v, int n)          \
    {                                                                                 \
        T lanes[EC_VL];                                                               \
        ec_store_##TYPE(lanes, v);                                                    \
        for (int l = 0; l < n; ++l)                                                   \
            p[l * stride] = lanes[l];                                                 \
    }                                                                                 \
    EC_INLINE void ec_scatter_##TYPE(T *p, ptrdiff_t stride, V v)                     \
    {                                                                                 \
        ec_scatter_##TYPE##_n(p, stride, v, EC_VL);                                   \
    }
EC_STRIDED_(u8, uint8_t, ec_vi)
EC_STRIDED_(i8, int8_t, ec_vi)
EC_STRIDED_(u16, uint16_t, ec_vi)
EC_STRIDED_(i16, int16_t, ec_vi)
EC_STRIDED_(i32, int32_t, ec_vi)
EC_STRIDED_(bool, uint8_t, ec_vi)
EC_STRIDED_(f16, uint16_t, ec_vf)
EC_STRIDED_(bf16, uint16_t, ec_vf)
#undef EC_STRIDED_

/* Lane l is p[at[l]]. */
#define EC_PICKED_(NAME, T, V, FROM)                              \
    EC_INLINE V NAME##_n(const T *p, ec_vi at, int n)             \
    {                                                             \
        ec_vi lanes = {0};                                        \
        for (int l = 0; l < n; ++l)                               \
            lanes[l] = p[at[l]];                                  \
        return FROM(lanes);                                       \
    }                                                             \
    EC_INLINE V NAME(const T *p, ec_vi at) { return FROM(((ec_vi){EC_LANES_(EC_PICK_)})); }
#define EC_PICK_(l) p[at[l]]
#define EC_SAME_(lanes) (lanes)
#define EC_TRUE_(lanes) ec_ne_i(lanes, (ec_vi){0})
EC_PICKED_(ec_pick_u8, uint8_t, ec_vi, EC_SAME_)
EC_PICKED_(ec_pick_i8, int8_t, ec_vi, EC_SAME_)
EC_PICKED_(ec_pick_u16, uint16_t, ec_vi, EC_SAME_)
EC_PICKED_(ec_pick_i16, int16_t, ec_vi, EC_SAME_)
EC_PICKED_(ec_pick_i32, int32_t, ec_vi, EC_SAME_)
EC_PICKED_(ec_pick_bool, uint8_t, ec_vi, EC_TRUE_)
EC_PICKED_(ec_pick_f16, uint16_t, ec_vf, ec_from_half_)
EC_PICKED_(ec_pick_bf16, uint16_t, ec_vf, ec_from_brain_)
#ifndef EC_HAS_PICK_N
EC_INLINE ec_vf ec_pick_n(const float *p, ec_vi at, int n)
{
    ec_vf lanes = {0};
    for (int l = 0; l < n; ++l)
        lanes[l] = p[at[l]];
    return lanes;
}
#endif
#ifndef EC_HAS_PICK
EC_INLINE ec_vf ec_pick(const float *p, ec_vi at) { return (ec_vf){EC_LANES_(EC_PICK_)}; }
#endif
/* The same of a table in which vectors whose ends are neighbors are runs. */
EC_INLINE ec_vf ec_pick_run(const float *p, const int32_t *at)
{
    return at[EC_VL - 1] - at[0] == EC_VL - 1 ? ec_load(p + at[0]) : ec_pick(p, ec_load_i32(at));
}
#undef EC_PICKED_
#undef EC_PICK_
#undef EC_SAME_
#undef EC_TRUE_

/* ---- Products of bytes -------------------------------------------------------------------- *
 *
 * ec_dot_us(c, s, l) adds to each lane of c the products of four unsigned bytes of s with four
 * signed bytes of l; ec_dot_ss takes signed bytes of both. Sums wrap around in 32 bits. */

/* Bytes of four vectors beside one another in each lane; of signed ones, each borrows from the next. */
EC_INLINE ec_vi ec_bytes(ec_vi a, ec_vi b, ec_vi c, ec_vi d)
{
    return (ec_vi)(((ec_vu_)a + ((ec_vu_)b << 8)) + (((ec_vu_)c << 16) + ((ec_vu_)d << 24)));
}

/* Four bytes of a row for every lane. */
EC_INLINE ec_vi ec_word(const void *p)
{
    int32_t word;
    __builtin_memcpy(&word, p, 4);
    return ec_set1_i(word);
}

/* The last n of the four bytes at p, and zeros behind them. */
EC_INLINE ec_vi ec_word_last(const void *p, int n)
{
    uint32_t word;
    __builtin_memcpy(&word, p, 4);
    return ec_set1_i((int32_t)(word >> (32 - 8 * n)));
}

EC_INLINE ec_vi ec_word_of(int32_t a, int32_t b, int32_t c, int32_t d)
{
    return ec_set1_i((int32_t)(((uint32_t)a & 0xff) | ((uint32_t)b & 0xff) << 8 | ((uint32_t)c & 0xff) << 16 | (uint32_t)d << 24));
}

/* Code k of the eight of four bits in every lane, as a float. */
#if !defined(EC_HAS_NIBBLE)
EC_INLINE ec_vf ec_nibble(ec_vi word, int k)
{
    return ec_to_float((ec_vi)((ec_vu_)word >> (4 * k)) & 15);
}
#endif

/* ---- bfloat16 between kernels, and products of pairs of it -------------------------------- *
 *
 * ec_dot_bf16(c, s, l) adds to each lane of c the products of two bfloat16 of s with two of l, in
 * float; ec_keep_bf16 stores floats rounded to even. Instructions for them take denormals for
 * zeros, and round sums in their own way. */

/* Two bfloat16 of a row for every lane, the first in the low half. */
EC_INLINE ec_vi ec_pair_of(uint16_t a, uint16_t b)
{
    return ec_set1_i((int32_t)(a | (uint32_t)b << 16));
}

#if !defined(EC_HAS_BF16)
EC_INLINE void ec_keep_bf16(uint16_t *p, ec_vf x) { ec_store_bf16(p, x); }
EC_INLINE void ec_keep_bf16_n(uint16_t *p, ec_vf x, int n) { ec_store_bf16_n(p, x, n); }

EC_INLINE ec_vf ec_dot_bf16(ec_vf c, ec_vi s, ec_vi l)
{
    const ec_vf low = ec_fma(ec_from_brain_(s), ec_from_brain_(l), c);
    return ec_fma((ec_vf)(s & (int32_t)0xffff0000u), (ec_vf)(l & (int32_t)0xffff0000u), low);
}
#endif

#endif
