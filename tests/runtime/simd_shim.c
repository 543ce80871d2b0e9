/* Every function of ec_simd.h over arrays, so that test_simd.py can call it. */
#include "ec_simd.h"

#define MAP(name)                                                                  \
    void map_##name(const float *x, float *y, int64_t count)                       \
    {                                                                              \
        for (int64_t i = 0; i < count; i += EC_VL) {                               \
            int n = count - i < EC_VL ? (int)(count - i) : EC_VL;                  \
            ec_store_n(y + i, ec_##name(ec_load_n(x + i, n)), n);                  \
        }                                                                          \
    }

#define MAP2(name)                                                                 \
    void map_##name(const float *a, const float *b, float *y, int64_t count)       \
    {                                                                              \
        for (int64_t i = 0; i < count; i += EC_VL) {                               \
            int n = count - i < EC_VL ? (int)(count - i) : EC_VL;                  \
            ec_store_n(y + i, ec_##name(ec_load_n(a + i, n), ec_load_n(b + i, n)), n); \
        }                                                                          \
    }

/* A mask is seen through the select that uses it: 1 where it holds. */
#define COMPARE(name)                                                              \
    static ec_vf ec_is_##name(ec_vf a, ec_vf b)                                    \
    {                                                                              \
        return ec_select(ec_##name(a, b), ec_set1(1.0f), ec_set1(0.0f));           \
    }                                                                              \
    MAP2(is_##name)

MAP(exp) MAP(expm1) MAP(log) MAP(log1p) MAP(tanh) MAP(sigmoid) MAP(silu) MAP(softplus)
MAP(erf) MAP(sin) MAP(cos)
MAP(abs) MAP(neg) MAP(sqrt) MAP(floor) MAP(ceil) MAP(trunc) MAP(round)
MAP2(min) MAP2(max) MAP2(pow)
COMPARE(lt) COMPARE(le) COMPARE(eq) COMPARE(ne) COMPARE(gt) COMPARE(ge)

int lanes(void)
{
    return EC_VL;
}

int fused(void)
{
    return EC_FUSED;
}

void fma_(const float *a, const float *b, const float *c, float *y)
{
    ec_store(y, ec_fma(ec_load(a), ec_load(b), ec_load(c)));
}

void clamp(const float *x, float low, float high, float *y)
{
    ec_store(y, ec_clamp(ec_load(x), ec_set1(low), ec_set1(high)));
}

void load_n(const float *p, int n, float *y)
{
    ec_store(y, ec_load_n(p, n));
}

void store_n(float *p, const float *x, int n)
{
    ec_store_n(p, ec_load(x), n);
}

void gather(const float *p, ptrdiff_t stride, float *y)
{
    ec_store(y, ec_gather(p, stride));
}

void gather_n(const float *p, ptrdiff_t stride, int n, float *y)
{
    ec_store(y, ec_gather_n(p, stride, n));
}

void scatter(float *p, ptrdiff_t stride, const float *x)
{
    ec_scatter(p, stride, ec_load(x));
}

void scatter_n(float *p, ptrdiff_t stride, const float *x, int n)
{
    ec_scatter_n(p, stride, ec_load(x), n);
}

void iota(float *y)
{
    ec_store(y, ec_iota());
}

void horizontal(const float *x, float *sum, float *product, float *least, float *greatest)
{
    *sum = ec_hsum(ec_load(x));
    *product = ec_hprod(ec_load(x));
    *least = ec_hmin(ec_load(x));
    *greatest = ec_hmax(ec_load(x));
}

/* y = 3 where both masks hold, 2 where the first alone, 1 where neither, 0 where the second. */
void masks(const int32_t *a, const int32_t *b, float *y)
{
    ec_vi p = ec_load_i(a), q = ec_load_i(b);
    ec_vf both = ec_set1(3.0f), first = ec_set1(2.0f), neither = ec_set1(1.0f);
    ec_vf rest = ec_select(ec_not(ec_or(p, q)), neither, ec_set1(0.0f));
    ec_store(y, ec_select(ec_and(p, q), both, ec_select(ec_and(p, ec_not(q)), first, rest)));
}

void copy_i(const int32_t *x, int32_t *y)
{
    ec_store_i(y, ec_load_i(x));
}
