/* Errors of ec_simd.h over ranges of bit patterns, against the C library in double precision. */
#include "ec_simd.h"

enum { CHUNK = 4096 };

/* What a range gave: the largest error in ULP where the true value is at least `tiny`, the largest absolute error where it
 * is smaller, each with its argument, and how often one of the two values was NaN and the other was not. */
struct worst {
    double ulp, absolute;
    uint32_t at, absolute_at;
    uint64_t wrong;
};

static double of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return (double)x;
}

/* 1 over the distance of the floats around y, y within 2^128. Without branches, so that loops of it become vectors. */
static double per_ulp(double y)
{
    uint64_t bits;
    memcpy(&bits, &y, 8);
    int64_t exponent = (int64_t)(bits >> 52 & 0x7FF) - 1023;
    exponent = exponent < -126 ? -126 : exponent > 127 ? 127 : exponent;
    bits = (uint64_t)(1023 + 23 - exponent) << 52;
    memcpy(&y, &bits, 8);
    return y;
}

/* Infinity as the float after the largest; NaN stays. */
static double bounded(double y)
{
    return y < -0x1p128 ? -0x1p128 : y > 0x1p128 ? 0x1p128 : y;
}

static void compare(struct worst *w, const uint32_t *at, const float *got, const double *want, int count, double tiny)
{
    double ulp[CHUNK], absolute[CHUNK], most = 0, most_absolute = 0;
    int64_t wrong = 0;
    for (int i = 0; i < count; ++i) {
        double y = bounded(want[i]), error = fabs(bounded(got[i]) - y);
        wrong += (got[i] != got[i]) != (y != y);
        ulp[i] = fabs(y) >= tiny ? error * per_ulp(y) : 0;
        absolute[i] = fabs(y) >= tiny ? 0 : error;
        most = ulp[i] > most ? ulp[i] : most;
        most_absolute = absolute[i] > most_absolute ? absolute[i] : most_absolute;
    }
    w->wrong += (uint64_t)wrong;
    for (int i = 0; most > w->ulp && i < count; ++i)
        if (ulp[i] > w->ulp)
            w->ulp = ulp[i], w->at = at[i];
    for (int i = 0; most_absolute > w->absolute && i < count; ++i)
        if (absolute[i] > w->absolute)
            w->absolute = absolute[i], w->absolute_at = at[i];
}

/* In ulp_reference.c. */
#define DECLARE(name) void reference_##name(const double *x, double *y, int count);
#define MEASURE(name)                                                                              \
    DECLARE(name)                                                                                  \
    void measure_##name(uint64_t first, uint64_t end, uint64_t stride, double tiny, struct worst *w) \
    {                                                                                              \
        uint32_t at[CHUNK];                                                                        \
        float x[CHUNK], got[CHUNK];                                                                \
        double wide[CHUNK], want[CHUNK];                                                           \
        while (first < end) {                                                                      \
            int count = 0;                                                                         \
            for (; count < CHUNK && first < end; ++count, first += stride) {                       \
                at[count] = (uint32_t)first;                                                       \
                wide[count] = of_bits(at[count]);                                                  \
                x[count] = (float)wide[count];                                                     \
            }                                                                                      \
            for (int i = count; i < CHUNK; ++i)                                                    \
                x[i] = 0;                                                                          \
            for (int i = 0; i < CHUNK; i += EC_VL)                                                 \
                ec_store(got + i, ec_##name(ec_load(x + i)));                                      \
            reference_##name(wide, want, count);                                                   \
            compare(w, at, got, want, count, tiny);                                                \
        }                                                                                          \
    }

MEASURE(exp) MEASURE(expm1) MEASURE(log) MEASURE(log1p) MEASURE(tanh) MEASURE(sigmoid)
MEASURE(silu) MEASURE(softplus) MEASURE(erf) MEASURE(sin) MEASURE(cos)

void reference_pow(const double *x, const double *y, double *z, int count);

/* Pairs whose power is a normal number: x of any exponent, and y so that |y * log2(x)| < 126; `first` seeds. A result
 * beyond `tiny` and 1/`tiny` counts as absolute, in ULP: near the ends the exponent costs bits. */
void measure_pow(uint64_t first, uint64_t end, uint64_t stride, double tiny, struct worst *w)
{
    uint32_t at[CHUNK];
    float x[CHUNK], y[CHUNK], got[CHUNK];
    double wide[CHUNK], power[CHUNK], want[CHUNK];
    for (; first < end; first += stride * CHUNK) {
        uint64_t state = first + 1;
        for (int i = 0; i < CHUNK; ++i) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            at[i] = (uint32_t)(state >> 33) % 0x7F800000u;
            wide[i] = of_bits(at[i]);
            state = state * 6364136223846793005u + 1442695040888963407u;
            double target = 252.0 * (double)(state >> 11) * 0x1p-53 - 126.0;
            double logarithm = log2(wide[i]);
            y[i] = (float)(fabs(logarithm) > 1e-30 ? target / logarithm : target);
            x[i] = (float)wide[i];
            power[i] = (double)y[i];
        }
        for (int i = 0; i < CHUNK; i += EC_VL)
            ec_store(got + i, ec_pow(ec_load(x + i), ec_load(y + i)));
        reference_pow(wide, power, want, CHUNK);
        for (int i = 0; i < CHUNK; ++i) {
            double error = fabs(bounded(got[i]) - want[i]) * per_ulp(want[i]);
            int is_near = want[i] > tiny && want[i] < 1 / tiny;
            if (!(want[i] > 0x1p-126 && want[i] < 0x1p127))
                continue;
            if (!(error < 1e30))
                ++w->wrong;
            else if (is_near && error > w->ulp)
                w->ulp = error, w->at = at[i];
            else if (!is_near && error > w->absolute)
                w->absolute = error, w->absolute_at = at[i];
        }
    }
}
