/* ec_simd_wasm.h: what ec_simd.h cannot say well in vector extensions, for WebAssembly's simd128.
 *
 * Included by ec_simd.h only. There is no fused multiply-add, and no shift by a count a lane. */
#ifndef EC_SIMD_WASM_H
#define EC_SIMD_WASM_H

#include <wasm_simd128.h>

EC_INLINE ec_vf ec_fma(ec_vf a, ec_vf b, ec_vf c)
{
    return a * b + c;
}

EC_INLINE ec_vf ec_sqrt(ec_vf x)
{
    return (ec_vf)wasm_f32x4_sqrt((v128_t)x);
}

EC_INLINE ec_vf ec_floor(ec_vf x)
{
    return (ec_vf)wasm_f32x4_floor((v128_t)x);
}

EC_INLINE ec_vf ec_ceil(ec_vf x)
{
    return (ec_vf)wasm_f32x4_ceil((v128_t)x);
}

EC_INLINE ec_vf ec_trunc(ec_vf x)
{
    return (ec_vf)wasm_f32x4_trunc((v128_t)x);
}

EC_INLINE ec_vf ec_round(ec_vf x)
{
    return (ec_vf)wasm_f32x4_nearest((v128_t)x);
}

/* These pass NaN on by themselves. */
EC_INLINE ec_vf ec_min(ec_vf a, ec_vf b)
{
    return (ec_vf)wasm_f32x4_min((v128_t)a, (v128_t)b);
}

EC_INLINE ec_vf ec_max(ec_vf a, ec_vf b)
{
    return (ec_vf)wasm_f32x4_max((v128_t)a, (v128_t)b);
}

/* The pseudo-minimum b < a ? b : a is one instruction of x86, where min takes several; a NaN in its first operand stays. */
EC_INLINE ec_vf ec_clamp(ec_vf x, ec_vf low, ec_vf high)
{
    return (ec_vf)wasm_f32x4_pmin(wasm_f32x4_pmax((v128_t)x, (v128_t)low), (v128_t)high);
}

EC_INLINE ec_vf ec_select(ec_vi mask, ec_vf a, ec_vf b)
{
    return (ec_vf)wasm_v128_bitselect((v128_t)a, (v128_t)b, (v128_t)mask);
}

EC_INLINE int ec_any_(ec_vi mask)
{
    return wasm_v128_any_true((v128_t)mask);
}

/* Lane l of the result is lane l ^ distance of x. */
EC_INLINE ec_vf ec_swap_(ec_vf x, int distance)
{
    v128_t v = (v128_t)x;
    return (ec_vf)(distance == 2 ? wasm_i32x4_shuffle(v, v, 2, 3, 0, 1) : wasm_i32x4_shuffle(v, v, 1, 0, 3, 2));
}

/* The nearest integer; NaN gives 0, and what does not fit saturates. */
EC_INLINE ec_vi ec_nearest_(ec_vf x)
{
    return (ec_vi)wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest((v128_t)x));
}

/* ---- Integers ----------------------------------------------------------------------------- */

EC_INLINE ec_vi ec_min_i(ec_vi a, ec_vi b)
{
    return (ec_vi)wasm_i32x4_min((v128_t)a, (v128_t)b);
}

EC_INLINE ec_vi ec_max_i(ec_vi a, ec_vi b)
{
    return (ec_vi)wasm_i32x4_max((v128_t)a, (v128_t)b);
}

EC_INLINE ec_vi ec_shl_i(ec_vi a, ec_vi n)
{
    ec_vi fits = (ec_vi)((ec_vu_)n < 32);
    return (ec_vi)((ec_vu_)a << (ec_vu_)(n & fits)) & fits;
}

EC_INLINE ec_vi ec_shr_i(ec_vi a, ec_vi n)
{
    return a >> (ec_vi)wasm_u32x4_min((v128_t)n, wasm_i32x4_const_splat(31));
}

EC_INLINE ec_vi ec_whole(ec_vf x)
{
    return (ec_vi)wasm_i32x4_trunc_sat_f32x4((v128_t)x);
}

EC_INLINE ec_vi ec_nearest(ec_vf x)
{
    return ec_nearest_(x);
}

/* The conversion saturates, and gives 0 for NaN. */
EC_INLINE ec_vi ec_to_int(ec_vf x)
{
    return ec_whole(x);
}

EC_INLINE ec_vi ec_load_u8(const uint8_t *p)
{
    return (ec_vi)wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(wasm_v128_load32_zero(p)));
}

EC_INLINE ec_vi ec_load_i8(const int8_t *p)
{
    return (ec_vi)wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(wasm_v128_load32_zero(p)));
}

EC_INLINE ec_vi ec_load_u16(const uint16_t *p)
{
    return (ec_vi)wasm_u32x4_load16x4(p);
}

EC_INLINE ec_vi ec_load_i16(const int16_t *p)
{
    return (ec_vi)wasm_i32x4_load16x4(p);
}

EC_INLINE void ec_store_8_(uint8_t *p, ec_vi v)
{
    v128_t bytes = (v128_t)v;
    bytes = wasm_i8x16_shuffle(bytes, bytes, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    wasm_v128_store32_lane(p, bytes, 0);
}

EC_INLINE void ec_store_16_(uint16_t *p, ec_vi v)
{
    v128_t halves = (v128_t)v;
    wasm_v128_store64_lane(p, wasm_i16x8_shuffle(halves, halves, 0, 2, 4, 6, 0, 2, 4, 6), 0);
}

EC_INLINE ec_vi ec_mulhigh(ec_vi a, ec_vi b)
{
    v128_t half = wasm_i64x2_const_splat((int64_t)1 << 30);
    v128_t low = wasm_i64x2_add(wasm_i64x2_extmul_low_i32x4((v128_t)a, (v128_t)b), half);
    v128_t high = wasm_i64x2_add(wasm_i64x2_extmul_high_i32x4((v128_t)a, (v128_t)b), half);
    return (ec_vi)wasm_i32x4_shuffle(wasm_i64x2_shr(low, 31), wasm_i64x2_shr(high, 31), 0, 2, 4, 6);
}

EC_INLINE int32_t ec_mulshift_lane_(int32_t a, int32_t b, int32_t n)
{
    uint64_t sum = (uint64_t)((int64_t)a * b) + (((uint64_t)1 << (n & 63)) >> 1);
    return (int32_t)((int64_t)sum >> (n & 63));
}

EC_INLINE ec_vi ec_mulshift(ec_vi a, ec_vi b, ec_vi n)
{
#define EC_LANE_(l) ec_mulshift_lane_(a[l], b[l], n[l])
    return (ec_vi){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
}

/* c and, in each lane, two neighbors of eight sums of pairs. */
EC_INLINE ec_vi ec_add_pairs_(ec_vi c, v128_t low, v128_t high)
{
    v128_t even = wasm_i32x4_shuffle(low, high, 0, 2, 4, 6), odd = wasm_i32x4_shuffle(low, high, 1, 3, 5, 7);
    return (ec_vi)wasm_i32x4_add((v128_t)c, wasm_i32x4_add(even, odd));
}

EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
    v128_t x = (v128_t)s, y = (v128_t)l;
    v128_t low = wasm_i32x4_dot_i16x8(wasm_u16x8_extend_low_u8x16(x), wasm_i16x8_extend_low_i8x16(y));
    v128_t high = wasm_i32x4_dot_i16x8(wasm_u16x8_extend_high_u8x16(x), wasm_i16x8_extend_high_i8x16(y));
    return ec_add_pairs_(c, low, high);
}

EC_INLINE ec_vi ec_dot_ss(ec_vi c, ec_vi s, ec_vi l)
{
    v128_t x = (v128_t)s, y = (v128_t)l;
    v128_t low = wasm_i32x4_dot_i16x8(wasm_i16x8_extend_low_i8x16(x), wasm_i16x8_extend_low_i8x16(y));
    v128_t high = wasm_i32x4_dot_i16x8(wasm_i16x8_extend_high_i8x16(x), wasm_i16x8_extend_high_i8x16(y));
    return ec_add_pairs_(c, low, high);
}

#include "ec_simd_half.h"

#endif
