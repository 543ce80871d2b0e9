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

EC_INLINE ec_vf ec_low_floats(ec_vh x) { return (ec_vf)vcvt_f32_f16(vget_low_f16(x)); }
EC_INLINE ec_vf ec_high_floats(ec_vh x) { return (ec_vf)vcvt_high_f32_f16(x); }
#endif

#endif
