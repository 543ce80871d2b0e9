/* ec_simd_neon.h: what ec_simd.h cannot say well in vector extensions, for 64-bit Arm.
 *
 * Included by ec_simd.h only. (32-bit Arm takes the generic header: its NEON flushes denormals and
 * has neither division nor rounding. What both have is in ec_simd_neon_integer.h.) */
#ifndef EC_SIMD_NEON_H
#define EC_SIMD_NEON_H

#include <arm_neon.h>

EC_INLINE ec_vf ec_fma(ec_vf a, ec_vf b, ec_vf c)
{
    return (ec_vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}

EC_INLINE ec_vf ec_sqrt(ec_vf x)
{
    return (ec_vf)vsqrtq_f32((float32x4_t)x);
}

EC_INLINE ec_vf ec_floor(ec_vf x)
{
    return (ec_vf)vrndmq_f32((float32x4_t)x);
}

EC_INLINE ec_vf ec_ceil(ec_vf x)
{
    return (ec_vf)vrndpq_f32((float32x4_t)x);
}

EC_INLINE ec_vf ec_trunc(ec_vf x)
{
    return (ec_vf)vrndq_f32((float32x4_t)x);
}

EC_INLINE ec_vf ec_round(ec_vf x)
{
    return (ec_vf)vrndnq_f32((float32x4_t)x);
}

/* FMIN and FMAX pass NaN on by themselves. */
EC_INLINE ec_vf ec_min(ec_vf a, ec_vf b)
{
    return (ec_vf)vminq_f32((float32x4_t)a, (float32x4_t)b);
}

EC_INLINE ec_vf ec_max(ec_vf a, ec_vf b)
{
    return (ec_vf)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}

EC_INLINE ec_vf ec_clamp(ec_vf x, ec_vf low, ec_vf high)
{
    return ec_min(ec_max(x, low), high);
}

EC_INLINE ec_vf ec_select(ec_vi mask, ec_vf a, ec_vf b)
{
    return (ec_vf)vbslq_f32((uint32x4_t)mask, (float32x4_t)a, (float32x4_t)b);
}

EC_INLINE int ec_any_(ec_vi mask)
{
    return vmaxvq_u32((uint32x4_t)mask) != 0;
}

/* Lane l of the result is lane l ^ distance of x. */
EC_INLINE ec_vf ec_swap_(ec_vf x, int distance)
{
    float32x4_t v = (float32x4_t)x;
    return (ec_vf)(distance == 2 ? vextq_f32(v, v, 2) : vrev64q_f32(v));
}

/* The nearest integer; NaN gives 0, and what does not fit saturates. */
EC_INLINE ec_vi ec_nearest_(ec_vf x)
{
    return (ec_vi)vcvtnq_s32_f32((float32x4_t)x);
}

/* ---- For cores that run instructions in order --------------------------------------------- *
 *
 * They have a way to memory of 64 bits: a vector is loaded as two halves, which start beside other
 * instructions. ec_low and ec_high load them, ec_join puts them together; none of them moves from
 * where it stands. ec_fma_lane(s, lane, l, c) = s[lane] * l + c, and ec_dot_ss_lane and
 * ec_dot_us_lane multiply by one of four words of bytes. */

typedef uint64_t ec_high_ __attribute__((aligned(4), may_alias));

EC_INLINE ec_vf ec_low(const float *p)
{
    return (ec_vf)vcombine_f32(vld1_f32(p), vdup_n_f32(0.0f));
}

EC_INLINE ec_vi ec_low_i(const void *p)
{
    return (ec_vi)vcombine_s32(vld1_s32((const int32_t *)p), vdup_n_s32(0));
}

/* The first n, fewer than four, and zeros. */
EC_INLINE ec_vf ec_first(const float *p, int n)
{
    float lanes[4] = {0};
    memcpy(lanes, p, 4 * (size_t)n);
    return (ec_vf)vld1q_f32(lanes);
}

EC_INLINE ec_vi ec_first_i(const void *p, int n)
{
    int32_t lanes[4] = {0};
    memcpy(lanes, p, 4 * (size_t)n);
    return (ec_vi)vld1q_s32(lanes);
}

EC_INLINE uint64_t ec_high(const void *p)
{
    uint64_t high;
    __asm__("ldr %0, %1" : "=r"(high) : "m"(*(const ec_high_ *)((const char *)p + 8)));
    return high;
}

EC_INLINE ec_vf ec_join(ec_vf low, uint64_t high)
{
    __asm__("ins %0.d[1], %1" : "+w"(low) : "r"(high));
    return low;
}

EC_INLINE ec_vi ec_join_i(ec_vi low, uint64_t high)
{
    return (ec_vi)ec_join((ec_vf)low, high);
}

/* Bytes with their sign bits turned. */
EC_INLINE ec_vi ec_turned(ec_vi bytes)
{
    return (ec_vi)veorq_s32((int32x4_t)bytes, vdupq_n_s32((int32_t)0x80808080));
}

#define ec_fma_lane(s, lane, l, c)                                                                 \
    ((ec_vf)vfmaq_laneq_f32((float32x4_t)(c), (float32x4_t)(l), (float32x4_t)(s), lane))
#if defined(__ARM_FEATURE_DOTPROD)
#define ec_dot_ss_lane(c, s, lane, l)                                                              \
    ((ec_vi)vdotq_laneq_s32((int32x4_t)(c), (int8x16_t)(l), (int8x16_t)(s), lane))
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define ec_dot_us_lane(c, s, lane, l)                                                              \
    ((ec_vi)vsudotq_laneq_s32((int32x4_t)(c), (int8x16_t)(l), (uint8x16_t)(s), lane))
#endif

/* ---- Integers ----------------------------------------------------------------------------- */

#include "ec_simd_neon_integer.h"

EC_INLINE ec_vi ec_whole(ec_vf x)
{
    return (ec_vi)vcvtq_s32_f32((float32x4_t)x);
}

EC_INLINE ec_vi ec_nearest(ec_vf x)
{
    return (ec_vi)vcvtnq_s32_f32((float32x4_t)x);
}

/* FCVTZS saturates, and gives 0 for NaN. */
EC_INLINE ec_vi ec_to_int(ec_vf x)
{
    return ec_whole(x);
}

EC_INLINE ec_vf ec_from_half_(ec_vi bits)
{
    return (ec_vf)vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32((uint32x4_t)bits)));
}

EC_INLINE ec_vi ec_to_half_(ec_vf x)
{
    return (ec_vi)vmovl_u16(vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x)));
}

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define EC_HAS_BF16 1
EC_INLINE void ec_keep_bf16(uint16_t *p, ec_vf x)
{
    vst1_u16(p, (uint16x4_t)vcvt_bf16_f32((float32x4_t)x));
}

EC_INLINE void ec_keep_bf16_n(uint16_t *p, ec_vf x, int n)
{
    const uint16x4_t bits = (uint16x4_t)vcvt_bf16_f32((float32x4_t)x);
    for (int l = 0; l < n; ++l)
        p[l] = bits[l];
}

EC_INLINE ec_vf ec_dot_bf16(ec_vf c, ec_vi s, ec_vi l)
{
    return (ec_vf)vbfdotq_f32((float32x4_t)c, (bfloat16x8_t)s, (bfloat16x8_t)l);
}
#endif

#if defined(__ARM_FEATURE_DOTPROD)
EC_INLINE ec_vi ec_dot_ss(ec_vi c, ec_vi s, ec_vi l)
{
    return (ec_vi)vdotq_s32((int32x4_t)c, (int8x16_t)s, (int8x16_t)l);
}
#endif

#if defined(__ARM_FEATURE_MATMUL_INT8)
EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
    return (ec_vi)vusdotq_s32((int32x4_t)c, (uint8x16_t)s, (int8x16_t)l);
}
#elif defined(__ARM_FEATURE_DOTPROD)
/* With 128 less in every byte of s, and 128 times the bytes of l more. */
EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
    int8x16_t x = (int8x16_t)veorq_u8((uint8x16_t)s, vdupq_n_u8(0x80)), y = (int8x16_t)l;
    int32x4_t sum = vdotq_s32((int32x4_t)c, vdupq_n_s8(64), y);
    return (ec_vi)vdotq_s32(vdotq_s32(sum, vdupq_n_s8(64), y), x, y);
}
#else
EC_INLINE ec_vi ec_dot_us(ec_vi c, ec_vi s, ec_vi l)
{
    uint8x16_t x = (uint8x16_t)s;
    int8x16_t y = (int8x16_t)l;
    int16x8_t low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(x)));
    int16x8_t high = vreinterpretq_s16_u16(vmovl_high_u8(x));
    low = vmulq_s16(low, vmovl_s8(vget_low_s8(y)));
    high = vmulq_s16(high, vmovl_high_s8(y));
    int32x4_t sum = vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
    return (ec_vi)vaddq_s32((int32x4_t)c, sum);
}
#endif

#include "ec_simd_neon_halves.h"
#include "ec_simd_neon_matrix.h"

#endif
