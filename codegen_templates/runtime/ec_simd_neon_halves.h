/* ec_simd_neon_halves.h: sums of products of halves, in halves.
 *
 * Included by ec_simd_neon.h only. A vector of halves is as large as one of floats: its lower lanes are one of these, its
 * upper lanes another. Denormals are what they are. */
#ifndef EC_SIMD_NEON_HALVES_H
#define EC_SIMD_NEON_HALVES_H

#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
typedef float16x8_t ec_vh;
typedef __fp16 ec_half_;
typedef __fp16 ec_half_memory_ __attribute__((may_alias));

EC_INLINE ec_vh ec_load_h(const uint16_t *p) { return vreinterpretq_f16_u16(vld1q_u16(p)); }
EC_INLINE ec_vh ec_zero_h(void) { return vdupq_n_f16(0.0f); }
EC_INLINE ec_half_ ec_half(const uint16_t *p) { return *(const ec_half_memory_ *)p; }

/* s * l + c, rounded once. */
EC_INLINE ec_vh ec_fma_h(ec_half_ s, ec_vh l, ec_vh c) { return vfmaq_n_f16(c, l, s); }

/* For cores that run instructions in order, as in ec_simd_neon.h. */
EC_INLINE ec_vh ec_low_h(const uint16_t *p) { return vcombine_f16(vreinterpret_f16_u16(vld1_u16(p)), vdup_n_f16(0.0f)); }
EC_INLINE ec_vh ec_join_h(ec_vh low, uint64_t high)
{
    __asm__("ins %0.d[1], %1" : "+w"(low) : "r"(high));
    return low;
}

/* The first n, fewer than eight, and zeros. */
EC_INLINE ec_vh ec_first_h(const uint16_t *p, int n)
{
    uint16_t lanes[8] = {0};
    memcpy(lanes, p, 2 * (size_t)n);
    return ec_load_h(lanes);
}

/* The intrinsic has gcc 12 copy a lane to all of a register first, where several rows want it. */
#define ec_fma_lane_h(s, lane, l, c)                                                               \
    ({                                                                                             \
        ec_vh sum_ = (c);                                                                          \
        __asm__("fmla %0.8h, %1.8h, %2.h[" #lane "]" : "+w"(sum_) : "w"(l), "x"(s));               \
        sum_;                                                                                      \
    })

/* Lane by lane, and the first n halves, fewer than eight. */
EC_INLINE ec_vh ec_fma_lanes_h(ec_vh a, ec_vh b, ec_vh c) { return vfmaq_f16(c, a, b); }
EC_INLINE ec_vh ec_load_h_n(const uint16_t *p, int n) { return ec_first_h(p, n); }

EC_INLINE ec_vh ec_set1_h(float x) { return vdupq_n_f16((ec_half_)x); }
EC_INLINE ec_vh ec_max_h(ec_vh a, ec_vh b) { return vmaxq_f16(a, b); }
EC_INLINE ec_vh ec_min_h(ec_vh a, ec_vh b) { return vminq_f16(a, b); }
EC_INLINE void ec_store_h(uint16_t *p, ec_vh x) { vst1q_u16(p, vreinterpretq_u16_f16(x)); }
EC_INLINE void ec_store_h_n(uint16_t *p, ec_vh x, int n)
{
    uint16_t lanes[8];
    ec_store_h(lanes, x);
    memcpy(p, lanes, 2 * (size_t)n);
}

EC_INLINE ec_vf ec_low_floats(ec_vh x) { return (ec_vf)vcvt_f32_f16(vget_low_f16(x)); }
EC_INLINE ec_vf ec_high_floats(ec_vh x) { return (ec_vf)vcvt_high_f32_f16(x); }
#endif

#endif
