/* ec_simd_neon.h: what ec_simd.h cannot say well in vector extensions, for 64-bit Arm.
 *
 * Included by ec_simd.h only. (32-bit Arm takes the generic header: its NEON flushes denormals and
 * has neither division nor rounding.) */
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

#endif
