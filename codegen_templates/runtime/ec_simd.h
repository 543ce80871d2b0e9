/* ec_simd.h: vectors for generated code, one interface for every machine.
 *
 * A vector has EC_VL lanes: 16 with AVX-512, 8 with AVX2, 8 or 16 with SVE, otherwise 4. `+ - * /` are the native
 * operators of the GNU vector extensions; everything else is a function below. What the extensions
 * cannot say well stands in one thin header per instruction set; the mathematics is written here
 * once, on top of those.
 *
 * Loads and stores need no alignment. A comparison gives lanes of 0 and -1. Names that end in an
 * underscore are internal. Compile without -ffast-math: range reduction relies on the order of
 * operations, and NaN and infinity mean something here.
 *
 * An error bound is in ULP of the correctly rounded result over all floats, measured by
 * benchmarks/cpu/ulp.py with fused multiply-add, and in brackets without it. */
#ifndef EC_SIMD_H
#define EC_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define EC_VL 16
#define EC_FUSED 1
#elif defined(__AVX2__) && defined(__FMA__)
#define EC_VL 8
#define EC_FUSED 1
#elif defined(__ARM_FEATURE_SVE_BITS) && (__ARM_FEATURE_SVE_BITS == 256 || __ARM_FEATURE_SVE_BITS == 512)
#define EC_SVE 1
#define EC_VL (__ARM_FEATURE_SVE_BITS / 32)
#define EC_FUSED 1
#elif defined(__ARM_NEON) && defined(__aarch64__)
#define EC_VL 4
#define EC_FUSED 1
#else
#define EC_VL 4
#if defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA) || defined(__riscv_f)
#define EC_FUSED 1
#else
#define EC_FUSED 0
#endif
#endif

typedef float ec_vf __attribute__((vector_size(EC_VL * 4)));
typedef int32_t ec_vi __attribute__((vector_size(EC_VL * 4)));

/* The same in memory: aligned as a scalar, and allowed to alias the scalars it is made of. */
typedef float ec_vf_memory_ __attribute__((vector_size(EC_VL * 4), aligned(4), may_alias));
typedef int32_t ec_vi_memory_ __attribute__((vector_size(EC_VL * 4), aligned(4), may_alias));

/* Unsigned lanes, for shifts and sums that wrap. */
typedef uint32_t ec_vu_ __attribute__((vector_size(EC_VL * 4)));

/* Inlined even where the compiler thinks a function too large: a call in the tail of a matrix
 * product would spill every accumulator. */
#define EC_INLINE static inline __attribute__((always_inline))

/* f(0), f(1), ..., f(EC_VL - 1) */
#define EC_FOUR_LANES_(f, l) f(l), f(l + 1), f(l + 2), f(l + 3)
#if EC_VL == 16
#define EC_LANES_(f) \
    EC_FOUR_LANES_(f, 0), EC_FOUR_LANES_(f, 4), EC_FOUR_LANES_(f, 8), EC_FOUR_LANES_(f, 12)
#elif EC_VL == 8
#define EC_LANES_(f) EC_FOUR_LANES_(f, 0), EC_FOUR_LANES_(f, 4)
#else
#define EC_LANES_(f) EC_FOUR_LANES_(f, 0)
#endif

/* ---- Making, loading and storing ---------------------------------------------------------- */

EC_INLINE ec_vf ec_set1(float x)
{
#define EC_LANE_(l) x
    return (ec_vf){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
}

/* 0, 1, 2, ... */
EC_INLINE ec_vf ec_iota(void)
{
#define EC_LANE_(l) (float)(l)
    return (ec_vf){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
}

EC_INLINE ec_vf ec_load(const float *p)
{
    return *(const ec_vf_memory_ *)p;
}

/* Bring the line of p nearer; p may lie outside of what is allocated. Weights are read once, in
 * order, and processors that follow such a stream stop at the end of each page: asking for it
 * EC_AHEAD numbers ahead makes products that stream their weights up to 1.6 times as fast. */
#define EC_AHEAD 2048
EC_INLINE void ec_prefetch(const void *p)
{
    __builtin_prefetch(p);
}

/* Bring the line of p into a cache behind the nearest one. */
EC_INLINE void ec_prefetch_far(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}

/* From here on the compiler takes p for a pointer it knows nothing of: what was loaded through it
 * is not kept in registers, but loaded again. */
#define EC_OPAQUE(p) __asm__("" : "+r"(p))

/* A function whose instructions shall stand in the order they are written in. */
#if defined(__GNUC__) && !defined(__clang__)
#define EC_NO_RESCHEDULE                                                                              \
    __attribute__((optimize("no-schedule-insns", "no-schedule-insns2", "no-schedule-fusion",       \
                            "no-tree-ter")))
#else
#define EC_NO_RESCHEDULE
#endif

EC_INLINE void ec_store(float *p, ec_vf v)
{
    *(ec_vf_memory_ *)p = v;
}

/* Lane l = p[l * stride]. Single loads: on Zen 5 they take half the time of a gather. */
EC_INLINE ec_vf ec_gather(const float *p, ptrdiff_t stride)
{
#define EC_LANE_(l) p[(l) * stride]
    return (ec_vf){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
}

/* Lane l = v[l - l % size + k]: element k of every group of `size` lanes. Both are constants: it is one instruction. */
#define EC_GROUP_LANE_(l) v_[(l) / size_ * size_ + k_]
#define ec_in_groups(v, size, k)                                                                      \
    __extension__({                                                                                \
        const ec_vf v_ = (v);                                                                      \
        enum { size_ = (size), k_ = (k) };                                                         \
        (ec_vf){EC_LANES_(EC_GROUP_LANE_)};                                                       \
    })

/* Lane l = v[(l + phase) / times]: every lane as often as that, without the first phase; constants. */
#define EC_REPEATED_LANE_(l) v_[((l) + phase_) / times_]
#define ec_repeated(v, times, phase)                                                               \
    __extension__({                                                                                \
        const ec_vf v_ = (v);                                                                      \
        enum { times_ = (times), phase_ = (phase) };                                               \
        (ec_vf){EC_LANES_(EC_REPEATED_LANE_)};                                                     \
    })

/* The first n lanes, 0 <= n <= EC_VL; the others are 0. */
EC_INLINE ec_vf ec_gather_n(const float *p, ptrdiff_t stride, int n)
{
    float lanes[EC_VL] = {0};
    for (int l = 0; l < n; ++l)
        lanes[l] = p[l * stride];
    return ec_load(lanes);
}

EC_INLINE void ec_scatter_n(float *p, ptrdiff_t stride, ec_vf v, int n)
{
    float lanes[EC_VL];
    ec_store(lanes, v);
    for (int l = 0; l < n; ++l)
        p[l * stride] = lanes[l];
}

EC_INLINE void ec_scatter(float *p, ptrdiff_t stride, ec_vf v)
{
    ec_scatter_n(p, stride, v, EC_VL);
}

/* ---- The instruction set's part ----------------------------------------------------------- *
 *
 * ec_fma(a, b, c) = a * b + c; ec_sqrt, ec_floor, ec_ceil, ec_trunc, ec_round (halves to even);
 * ec_min and ec_max, which return NaN where either operand is NaN and are fastest with a constant
 * second; ec_clamp(x, low, high), which keeps a NaN x; ec_select(mask, a, b) = mask ? a : b;
 * ec_load_n and ec_store_n, which touch the first n lanes only, 0 <= n <= EC_VL. */

#if defined(EC_SVE)
#include "ec_simd_sve.h"
#elif EC_VL == 16
#include "ec_simd_avx512.h"
#elif EC_VL == 8
#include "ec_simd_avx2.h"
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include "ec_simd_neon.h"
#elif defined(__wasm_simd128__)
#include "ec_simd_wasm.h"
#else
#include "ec_simd_generic.h"
#endif

#if EC_VL == 4 /* no masked memory access: four lanes are few enough to ask each */
EC_INLINE ec_vf ec_load_n(const float *p, int n)
{
    return (ec_vf){n > 0 ? p[0] : 0.0f, n > 1 ? p[1] : 0.0f, n > 2 ? p[2] : 0.0f,
                   n > 3 ? p[3] : 0.0f};
}

EC_INLINE void ec_store_n(float *p, ec_vf v, int n)
{
    for (int l = 0; l < 4; ++l)
        if (l < n)
            p[l] = v[l];
}
#endif

/* ---- Transposing -------------------------------------------------------------------------- *
 *
 * The halves of a and b interleaved: a[0], b[0], a[1], b[1], ... From a block of EC_VL vectors, those
 * of vectors k and k + EC_VL / 2 for every k are the block with the bits of (row, lane) rotated by
 * one; after as many times as a lane has bits, rows and lanes have changed places. */
#define EC_LOW_(l) (l) & 1 ? b[(l) / 2] : a[(l) / 2]
#define EC_HIGH_(l) (l) & 1 ? b[EC_VL / 2 + (l) / 2] : a[EC_VL / 2 + (l) / 2]
EC_INLINE void ec_interleave_(const ec_vf *from, ec_vf *to)
{
#pragma GCC unroll 8
    for (int k = 0; k < EC_VL / 2; ++k) {
        const ec_vf a = from[k], b = from[k + EC_VL / 2];
        to[2 * k] = (ec_vf){EC_LANES_(EC_LOW_)};
        to[2 * k + 1] = (ec_vf){EC_LANES_(EC_HIGH_)};
    }
}
#undef EC_LOW_
#undef EC_HIGH_

/* Lane l of v[k] becomes lane k of v[l]. */
EC_INLINE void ec_transpose(ec_vf *v)
{
    ec_vf w[EC_VL];
    ec_interleave_(v, w);
    ec_interleave_(w, v);
    if (EC_VL > 4) {
        ec_interleave_(v, w);
        if (EC_VL > 8)
            ec_interleave_(w, v);
        else
            memcpy(v, w, sizeof w);
    }
}

EC_INLINE void ec_transpose_i(ec_vi *v)
{
    ec_vf w[EC_VL];
    memcpy(w, v, sizeof w);
    ec_transpose(w);
    memcpy(v, w, sizeof w);
}

/* ---- Comparing, signs and masks ----------------------------------------------------------- */

EC_INLINE ec_vi ec_lt(ec_vf a, ec_vf b) { return (ec_vi)(a < b); }
EC_INLINE ec_vi ec_le(ec_vf a, ec_vf b) { return (ec_vi)(a <= b); }
EC_INLINE ec_vi ec_gt(ec_vf a, ec_vf b) { return (ec_vi)(a > b); }
EC_INLINE ec_vi ec_ge(ec_vf a, ec_vf b) { return (ec_vi)(a >= b); }
EC_INLINE ec_vi ec_eq(ec_vf a, ec_vf b) { return (ec_vi)(a == b); }
EC_INLINE ec_vi ec_ne(ec_vf a, ec_vf b) { return (ec_vi)(a != b); }

EC_INLINE ec_vi ec_and(ec_vi a, ec_vi b) { return a & b; }
EC_INLINE ec_vi ec_or(ec_vi a, ec_vi b) { return a | b; }
EC_INLINE ec_vi ec_not(ec_vi a) { return ~a; }
/* all lanes true or all false */
EC_INLINE ec_vi ec_mask(int condition) { return (ec_vi){0} - (int32_t)(condition != 0); }

EC_INLINE ec_vf ec_neg(ec_vf x) { return -x; }
EC_INLINE ec_vf ec_abs(ec_vf x) { return (ec_vf)((ec_vi)x & INT32_MAX); }

/* |x| where ``on`` is not 0, x otherwise. */
EC_INLINE ec_vf ec_abs_if(int on, ec_vf x) { return (ec_vf)((ec_vi)x & (on ? INT32_MAX : -1)); }

/* The sign bit of each lane, alone. */
EC_INLINE ec_vi ec_sign_(ec_vf x) { return (ec_vi)x & INT32_MIN; }

#include "ec_simd_integer.h"

/* ---- Across the lanes --------------------------------------------------------------------- */

/* Combines each lane with its partner at half, a quarter, ... of the vector: the same tree in
 * every lane, so that lane 0 holds the whole. Written out, for compilers that unroll late. */
#define EC_REDUCE_(combine, swap, x)                       \
    if (EC_VL > 8)                                         \
        x = combine(x, swap(x, 8));                        \
    if (EC_VL > 4)                                         \
        x = combine(x, swap(x, 4));                        \
    x = combine(x, swap(x, 2));                            \
    x = combine(x, swap(x, 1));                            \
    return x[0]
#define EC_SWAP_I_(x, by) ((ec_vi)ec_swap_((ec_vf)(x), by))
#define EC_ADD_(a, b) ((a) + (b))
#define EC_MULTIPLY_(a, b) ((a) * (b))

EC_INLINE float ec_hsum(ec_vf x) { EC_REDUCE_(EC_ADD_, ec_swap_, x); }
EC_INLINE float ec_hprod(ec_vf x) { EC_REDUCE_(EC_MULTIPLY_, ec_swap_, x); }
EC_INLINE float ec_hmin(ec_vf x) { EC_REDUCE_(ec_min, ec_swap_, x); }
EC_INLINE float ec_hmax(ec_vf x) { EC_REDUCE_(ec_max, ec_swap_, x); }
EC_INLINE int32_t ec_hsum_i(ec_vi x) { EC_REDUCE_(ec_add_i, EC_SWAP_I_, x); }
EC_INLINE int32_t ec_hprod_i(ec_vi x) { EC_REDUCE_(ec_mul_i, EC_SWAP_I_, x); }
EC_INLINE int32_t ec_hmin_i(ec_vi x) { EC_REDUCE_(ec_min_i, EC_SWAP_I_, x); }
EC_INLINE int32_t ec_hmax_i(ec_vi x) { EC_REDUCE_(ec_max_i, EC_SWAP_I_, x); }

/* ---- Powers of two ------------------------------------------------------------------------ */

#if !defined(EC_HAS_POWERS) /* AVX-512 has instructions for these, and exp and erf by lookup */

/* a * 2^n, |n| <= 252, in two factors, since 2^n itself may not be a float. */
EC_INLINE ec_vf ec_scale_by_(ec_vf a, ec_vi n)
{
    ec_vi half = n >> 1;
    ec_vf first = (ec_vf)((ec_vu_)(half + 127) << 23);
    ec_vf second = (ec_vf)((ec_vu_)(n - half + 127) << 23);
    return a * first * second;
}

EC_INLINE ec_vf ec_scale_(ec_vf a, ec_vf n)
{
    return ec_scale_by_(a, ec_nearest_(n));
}

/* x = m * 2^exponent with m in [0.75, 1.5), for positive finite x. Denormals are scaled first. */
EC_INLINE ec_vf ec_split_(ec_vf x, ec_vf *exponent)
{
    const int32_t three_quarters = 0x3F400000;
    ec_vi tiny = ec_lt(x, ec_set1(0x1p-126f));
    ec_vu_ bits = (ec_vu_)ec_select(tiny, x * 0x1p24f, x) - three_quarters;
    ec_vi whole = ((ec_vi)bits >> 23) - (tiny & 24);
    *exponent = __builtin_convertvector(whole, ec_vf);
    return (ec_vf)((bits & 0x007FFFFF) + three_quarters);
}
#endif

/* ---- Exponential functions ---------------------------------------------------------------- */

#define EC_LOG2E_ 1.44269504f
#define EC_LN2_HIGH_ 0.693145752f /* 15 bits: exact in a product with any exponent */
#define EC_LN2_LOW_ 1.42860677e-6f

/* One step of Horner's rule: p * x + c. */
EC_INLINE ec_vf ec_horner_(ec_vf p, ec_vf x, float c)
{
    return ec_fma(p, x, ec_set1(c));
}

/* x - n * ln(2) */
EC_INLINE ec_vf ec_minus_ln2_(ec_vf x, ec_vf n)
{
    return ec_fma(n, ec_set1(-EC_LN2_LOW_), ec_fma(n, ec_set1(-EC_LN2_HIGH_), x));
}

/* e^r - 1 for |r| <= ln(2)/2: minimax, 3e-9. */
EC_INLINE ec_vf ec_expm1_near_0_(ec_vf r)
{
    ec_vf p = ec_set1(0.00138208661f);
    p = ec_horner_(p, r, 0.00836867839f);
    p = ec_horner_(p, r, 0.0416682698f);
    p = ec_horner_(p, r, 0.16666521f);
    p = ec_horner_(p, r, 0.499999940f);
    return ec_fma(p, r * r, r);
}

#if !defined(EC_HAS_POWERS)
/* e^x: 1.1 ULP; below 1.7e-38 it is 0.
 *
 * Scaled by 2^(n-1), which is a float also for the largest n = 128, then doubled: that overflows
 * by itself where e^x does. At the other end n = -126 makes the factor 0. */
EC_INLINE ec_vf ec_exp(ec_vf x)
{
    x = ec_clamp(x, ec_set1(-87.6f), ec_set1(89.0f));
    ec_vi n = ec_nearest_(x * EC_LOG2E_);
    ec_vf r = ec_minus_ln2_(x, __builtin_convertvector(n, ec_vf));
    ec_vf power = (ec_vf)((ec_vu_)(n + 126) << 23);
    ec_vf half = (ec_expm1_near_0_(r) + 1.0f) * power;
    return half + half;
}
#endif

/* e^x - 1: 1.5 ULP [1.6].
 *
 * With x = n * ln(2) + r it is ((e^r - 1) + (1 - 2^-n)) * 2^n: where e^x is near 1, n is 0 and
 * nothing cancels. */
EC_INLINE ec_vf ec_expm1(ec_vf x)
{
    x = ec_clamp(x, ec_set1(-18.0f), ec_set1(89.0f)); /* e^x - 1 is -1 and inf there */
    ec_vf n = ec_round(x * EC_LOG2E_);
    ec_vf near_0 = ec_expm1_near_0_(ec_minus_ln2_(x, n));
    return ec_scale_(near_0 + (1.0f - ec_scale_(ec_set1(1.0f), -n)), n);
}

/* 1 / (1 + e^-x): 3.2 ULP; 0 below -88.7, where the truth is below 3e-39. */
EC_INLINE ec_vf ec_sigmoid(ec_vf x)
{
    return 1.0f / (1.0f + ec_exp(-x));
}

/* x * sigmoid(x): 3.2 ULP; -0 below -88.7, where the truth is within 3e-37 of it. */
EC_INLINE ec_vf ec_silu(ec_vf x)
{
    return x / (1.0f + ec_exp(-x));
}

/* ---- tanh and erf: odd rational functions up to where they round to 1 ----------------------- *
 *
 * x * P(x^2) / Q(x^2): one division, no table, no branch. The error is largest just below 1, where
 * ULPs are small: 4e-7. The coefficients were searched for the least error in float arithmetic. */

/* tanh(x): 6 ULP [7], and never beyond 1. */
EC_INLINE ec_vf ec_tanh(ec_vf x)
{
    x = ec_clamp(x, ec_set1(-8.50256062f), ec_set1(8.50256062f));
    ec_vf u = x * x;
    ec_vf p = ec_set1(1.33252049e-8f);
    p = ec_horner_(p, u, 2.05839387e-5f);
    p = ec_horner_(p, u, 0.00349399471f);
    p = ec_horner_(p, u, 0.13379696f);
    p = ec_horner_(p, u, 1.0f);
    ec_vf q = ec_set1(7.76323077e-7f);
    q = ec_horner_(q, u, 0.000328305119f);
    q = ec_horner_(q, u, 0.0258709379f);
    q = ec_horner_(q, u, 0.467130244f);
    q = ec_horner_(q, u, 1.0f);
    return x * p / q;
}

#if !defined(EC_HAS_POWERS)
/* erf(x): 6 ULP [7.5]. */
EC_INLINE ec_vf ec_erf(ec_vf x)
{
    x = ec_clamp(x, ec_set1(-3.72717977f), ec_set1(3.72717977f));
    ec_vf u = x * x;
    ec_vf p = ec_set1(2.0416619e-6f);
    p = ec_horner_(p, u, 0.000284806127f);
    p = ec_horner_(p, u, 0.00377960177f);
    p = ec_horner_(p, u, 0.0527903698f);
    p = ec_horner_(p, u, 0.190782115f);
    p = ec_horner_(p, u, 1.12837923f);
    ec_vf q = ec_set1(3.80020792e-5f);
    q = ec_horner_(q, u, 0.00116521283f);
    q = ec_horner_(q, u, 0.0149974851f);
    q = ec_horner_(q, u, 0.114256889f);
    q = ec_horner_(q, u, 0.502409279f);
    q = ec_horner_(q, u, 1.0f);
    return x * p / q;
}
#endif

/* ---- Logarithms --------------------------------------------------------------------------- */

/* (log(1 + f) - f + f^2/2) / f^3 for f in [-0.25, 0.5] */
EC_INLINE ec_vf ec_log_cubic_(ec_vf f)
{
    ec_vf p = ec_set1(0.037609919906f);
    p = ec_horner_(p, f, -0.091068014503f);
    p = ec_horner_(p, f, 0.116969920695f);
    p = ec_horner_(p, f, -0.127283751965f);
    p = ec_horner_(p, f, 0.142768025398f);
    p = ec_horner_(p, f, -0.166553169489f);
    p = ec_horner_(p, f, 0.199995785952f);
    p = ec_horner_(p, f, -0.250001639128f);
    return ec_horner_(p, f, 0.333333402872f);
}

/* log((1 + f) * 2^n), summed from the small terms up. */
EC_INLINE ec_vf ec_log_sum_(ec_vf f, ec_vf n)
{
    ec_vf square = f * f;
    ec_vf rest = ec_fma(ec_log_cubic_(f), square * f, n * EC_LN2_LOW_);
    return ec_fma(n, ec_set1(EC_LN2_HIGH_), f + ec_fma(square, ec_set1(-0.5f), rest));
}

/* y where x is positive and finite, otherwise log(x): -inf at 0, NaN below, x itself above. */
EC_INLINE ec_vf ec_log_edges_(ec_vf x, ec_vf y)
{
    const ec_vf zero = ec_set1(0.0f), inf = ec_set1(INFINITY), nan = ec_set1(NAN);
    ec_vf edge = ec_select(ec_eq(x, zero), -inf, ec_select(ec_lt(x, zero), nan, x));
    return ec_select(ec_and(ec_gt(x, zero), ec_lt(x, inf)), y, edge);
}

/* log(x): 0.9 ULP. */
EC_INLINE ec_vf ec_log(ec_vf x)
{
    ec_vf n;
    ec_vf m = ec_split_(x, &n);
    ec_vf y = ec_log_sum_(m - 1.0f, n);
#if defined(EC_HAS_POWERS)
    return y; /* AVX-512 splits 0 and inf rightly */
#else
    return ec_log_edges_(x, y);
#endif
}

/* log(1 + x): 0.9 ULP.
 *
 * The exponent comes from the rounded 1 + x, the fraction from x itself, so that no bit of x is
 * lost: (1 + x) * 2^-n - 1 = x * 2^-n - (1 - 2^-n). */
EC_INLINE ec_vf ec_log1p(ec_vf x)
{
    ec_vf n;
    (void)ec_split_(1.0f + x, &n);
    ec_vf f = ec_scale_(x, -n) - (1.0f - ec_scale_(ec_set1(1.0f), -n));
    return ec_log_edges_(1.0f + x, ec_log_sum_(f, n));
}

/* log(1 + e^x): 2.8 ULP. It is max(x, 0) + log(1 + t) with t = e^-|x| in [0, 1]. */
EC_INLINE ec_vf ec_softplus(ec_vf x)
{
    ec_vf t = ec_exp(-ec_abs(x));
    ec_vf p = ec_set1(-0.003290468594f);
    p = ec_horner_(p, t, 0.020086241886f);
    p = ec_horner_(p, t, -0.057457230985f);
    p = ec_horner_(p, t, 0.106611281633f);
    p = ec_horner_(p, t, -0.153448805213f);
    p = ec_horner_(p, t, 0.196921020746f);
    p = ec_horner_(p, t, -0.249580189586f);
    p = ec_horner_(p, t, 0.333304643631f);
    p = ec_horner_(p, t, -0.499999314547f);
    p = ec_horner_(p, t, 1.0f);
    return ec_fma(p, t, ec_max(x, ec_set1(0.0f)));
}

/* ---- Powers ------------------------------------------------------------------------------- */

/* What a * b, rounded to product, leaves over: exact. */
EC_INLINE ec_vf ec_product_error_(ec_vf a, ec_vf b, ec_vf product)
{
#if EC_FUSED
    return ec_fma(a, b, -product);
#else
    ec_vf a_high = (ec_vf)((ec_vi)a & ~0xFFF), a_low = a - a_high;
    ec_vf b_high = (ec_vf)((ec_vi)b & ~0xFFF), b_low = b - b_high;
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
#endif
}

/* |x|^y = 2^(y * log2|x|), the logarithm in two floats: up to 7 bits of it become the exponent. */
EC_INLINE ec_vf ec_pow_magnitude_(ec_vf magnitude, ec_vf y)
{
    ec_vf n;
    ec_vf f = ec_split_(magnitude, &n) - 1.0f;

    /* log(1 + f) = f - f^2/2 + f^3 * cubic = high + low */
    ec_vf square = f * f;
    ec_vf parabola = f - square * 0.5f;
    ec_vf rest = (f - parabola) - square * 0.5f;
    rest = rest - ec_product_error_(f, f, square) * 0.5f;
    rest = ec_fma(ec_log_cubic_(f), square * f, rest);
    ec_vf high = parabola + rest;
    ec_vf low = rest - (high - parabola);

    /* n + (high + low) * log2(e) = log2_high + log2_low */
    ec_vf product = high * EC_LOG2E_;
    ec_vf product_low = ec_product_error_(high, ec_set1(EC_LOG2E_), product);
    product_low = ec_fma(high, ec_set1(1.92596303e-8f), product_low); /* log2(e) - EC_LOG2E_ */
    product_low = ec_fma(low, ec_set1(EC_LOG2E_), product_low);
    ec_vf log2_high = n + product;
    ec_vf log2_low = (product - (log2_high - n)) + product_low;

    /* The clamps act only where the result is 0 or inf anyway: they keep inf - inf out. */
    y = ec_clamp(y, ec_set1(-1e30f), ec_set1(1e30f));
    ec_vf z = ec_clamp(y * log2_high, ec_set1(-200.0f), ec_set1(200.0f));
    ec_vf z_low = ec_fma(y, log2_low, ec_product_error_(y, log2_high, z));
    ec_vf whole = ec_round(z);
    ec_vf fraction = ec_clamp((z - whole) + z_low, ec_set1(-1.0f), ec_set1(1.0f));
    return ec_scale_(ec_expm1_near_0_(fraction * 0.693147181f) + 1.0f, whole);
}

/* x^y: 3 ULP [3.5] while the result lies in 1e-7 ... 1e7, 20 ULP near overflow and underflow; with the
 * special cases of C. */
EC_INLINE ec_vf ec_pow(ec_vf x, ec_vf y)
{
    const ec_vf zero = ec_set1(0.0f), one = ec_set1(1.0f);
    const ec_vf inf = ec_set1(INFINITY), nan = ec_set1(NAN);
    ec_vf magnitude = ec_abs(x);
    ec_vf result = ec_pow_magnitude_(magnitude, y);

    /* 0 and inf, to a positive or negative power. */
    ec_vi at_0 = ec_eq(magnitude, zero), at_inf = ec_eq(magnitude, inf);
    ec_vi vanishes = (at_0 & ec_gt(y, zero)) | (at_inf & ec_lt(y, zero));
    result = ec_select(at_0 | at_inf, ec_select(vanishes, zero, inf), result);

    /* A negative base: the sign of an odd power, and no real value between the integers. */
    ec_vi negative = ec_sign_(x) >> 31;
    ec_vf half = y * 0.5f;
    ec_vi whole = ec_eq(ec_trunc(y), y);
    ec_vi odd = whole & ec_ne(ec_trunc(half), half);
    result = (ec_vf)((ec_vi)result ^ (negative & odd & INT32_MIN));
    result = ec_select(~whole & ec_lt(x, zero) & ec_gt(x, -inf), nan, result);

    result = ec_select(ec_ne(x, x) | ec_ne(y, y), x + y, result);
    ec_vi certain = ec_eq(x, one) | ec_eq(y, zero) | (ec_eq(x, -one) & ec_eq(ec_abs(y), inf));
    return ec_select(certain, one, result);
}

/* ---- Sine and cosine ---------------------------------------------------------------------- */

/* Up to here an argument keeps its precision when multiples of pi/2 are taken off in float. */
#if EC_FUSED
#define EC_TRIG_LIMIT_ 100000.0f
#else
#define EC_TRIG_LIMIT_ 6400.0f
#endif

/* x - n * pi/2 */
EC_INLINE ec_vf ec_minus_quarters_(ec_vf x, ec_vf n)
{
#if EC_FUSED
    x = ec_fma(n, ec_set1(-1.57079637f), x);
    x = ec_fma(n, ec_set1(4.37113883e-8f), x);
    return ec_fma(n, ec_set1(1.71512451e-15f), x);
#else /* parts of 12 bits, whose products with n are exact */
    x = x - n * 1.57080078f;
    x = x - n * -4.45358455e-6f;
    x = x - n * -8.70613803e-10f;
    return x - n * 6.22337197e-14f;
#endif
}

/* sin(x + quarters * pi/2) for |x| <= EC_TRIG_LIMIT_. Both series are evaluated, one is taken. */
EC_INLINE ec_vf ec_sin_of_quarters_(ec_vf x, int quarters)
{
    ec_vi n = ec_nearest_(x * 0.636619772f);
    ec_vf r = ec_minus_quarters_(x, __builtin_convertvector(n, ec_vf));
    ec_vf u = r * r;

    ec_vf sine = ec_set1(-0.000195178975f);
    sine = ec_horner_(sine, u, 0.00833218731f);
    sine = ec_horner_(sine, u, -0.166666552f);
    sine = ec_fma(sine, u * r, r);

    ec_vf cosine = ec_set1(2.44323273e-5f);
    cosine = ec_horner_(cosine, u, -0.00138873095f);
    cosine = ec_horner_(cosine, u, 0.0416664556f);
    cosine = ec_horner_(cosine, u, -0.5f);
    cosine = ec_horner_(cosine, u, 1.0f);

    n += quarters;
    ec_vf y = ec_select((ec_vi)((n & 1) != 0), cosine, sine);
    return (ec_vf)((ec_vu_)y ^ ((ec_vu_)(n & 2) << 30));
}

/* For when some lane lies beyond EC_TRIG_LIMIT_, or is infinite: the C library, lane by lane. */
EC_INLINE ec_vf ec_each_lane_(float (*f)(float), ec_vf x)
{
#define EC_LANE_(l) f(x[l])
    return (ec_vf){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
}

/* sin(x): 2.5 ULP [3]. */
EC_INLINE ec_vf ec_sin(ec_vf x)
{
    if (ec_any_(ec_gt(ec_abs(x), ec_set1(EC_TRIG_LIMIT_))))
        return ec_each_lane_(sinf, x);
    return ec_sin_of_quarters_(x, 0);
}

/* cos(x): 2.5 ULP [3]. */
EC_INLINE ec_vf ec_cos(ec_vf x)
{
    if (ec_any_(ec_gt(ec_abs(x), ec_set1(EC_TRIG_LIMIT_))))
        return ec_each_lane_(cosf, x);
    return ec_sin_of_quarters_(x, 1);
}

/* ---- Remainders --------------------------------------------------------------------------- */

/* fmod(x, y), exact. The quotient is rounded, to the next whole number at most: what that leaves over is at most one
 * divisor below 0, and a float. Where a quotient has more than 24 bits, or there is none: the C library, lane by lane. */
EC_INLINE ec_vf ec_fmod(ec_vf x, ec_vf y)
{
    ec_vf a = ec_abs(x), b = ec_abs(y);
    ec_vf quotient = ec_trunc(a / b);
    ec_vf product = quotient * b;
    ec_vf rest = (a - product) - ec_product_error_(quotient, b, product);
    rest = ec_select(ec_lt(rest, ec_set1(0.0f)), rest + b, rest);
    rest = ec_select(ec_lt(a, b), a, rest); /* of an infinite divisor, too */
    ec_vi known = ec_lt(quotient, ec_set1(0x1p24f)) & ec_gt(b, ec_set1(0x1p-100f));
    known |= ec_lt(a, b) | ec_eq(b, ec_set1(0.0f)); /* NaN by then, as in lanes beyond the last element */
    if (ec_any_(~known)) {
#define EC_LANE_(l) fmodf(x[l], y[l])
        return (ec_vf){EC_LANES_(EC_LANE_)};
#undef EC_LANE_
    }
    return (ec_vf)((ec_vi)rest | ec_sign_(x));
}

#include "ec_simd_codes.h"
#include "ec_simd_panels.h"

#endif
