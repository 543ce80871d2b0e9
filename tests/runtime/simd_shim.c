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
MAP2(min) MAP2(max) MAP2(pow) MAP2(fmod)
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

void spread(const float *x, float *y)
{
    ec_vf v = ec_load(x);
    ec_store(y, ec_in_groups(v, 2, 0));
    ec_store(y + EC_VL, ec_in_groups(v, 2, 1));
    ec_store(y + 2 * EC_VL, ec_in_groups(v, 4, 2));
    ec_store(y + 3 * EC_VL, ec_in_groups(v, EC_VL, 3));
    ec_store(y + 4 * EC_VL, ec_repeated(v, 2, 0));
    ec_store(y + 5 * EC_VL, ec_repeated(v, 4, 0));
    ec_store(y + 6 * EC_VL, ec_repeated(v, 4, 3));
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
    ec_vi p = ec_load_i32(a), q = ec_load_i32(b);
    ec_vf both = ec_set1(3.0f), first = ec_set1(2.0f), neither = ec_set1(1.0f);
    ec_vf rest = ec_select(ec_not(ec_or(p, q)), neither, ec_set1(0.0f));
    ec_store(y, ec_select(ec_and(p, q), both, ec_select(ec_and(p, ec_not(q)), first, rest)));
}

void copy_i(const int32_t *x, int32_t *y)
{
    ec_store_i32(y, ec_load_i32(x));
}

/* Integers: whole vectors over arrays whose length is a multiple of the lanes. */
#define INT1(name)                                                                 \
    void int_##name(const int32_t *a, int32_t *y, int64_t count)                   \
    {                                                                              \
        for (int64_t i = 0; i < count; i += EC_VL)                                 \
            ec_store_i32(y + i, ec_##name(ec_load_i32(a + i)));                    \
    }
#define INT2(name)                                                                 \
    void int_##name(const int32_t *a, const int32_t *b, int32_t *y, int64_t count) \
    {                                                                              \
        for (int64_t i = 0; i < count; i += EC_VL)                                 \
            ec_store_i32(y + i, ec_##name(ec_load_i32(a + i), ec_load_i32(b + i))); \
    }
#define INT3(name)                                                                 \
    void int_##name(const int32_t *a, const int32_t *b, const int32_t *c, int32_t *y, int64_t count) \
    {                                                                              \
        for (int64_t i = 0; i < count; i += EC_VL)                                 \
            ec_store_i32(y + i, ec_##name(ec_load_i32(a + i), ec_load_i32(b + i), ec_load_i32(c + i))); \
    }
#define TO_INT(name)                                                               \
    void int_##name(const float *x, int32_t *y, int64_t count)                     \
    {                                                                              \
        for (int64_t i = 0; i < count; i += EC_VL)                                 \
            ec_store_i32(y + i, ec_##name(ec_load(x + i)));                        \
    }

INT1(neg_i) INT1(abs_i) INT1(sign_i) INT1(bitnot_i) INT1(as_i8) INT1(as_i16) INT1(as_u8) INT1(as_u16)
INT2(add_i) INT2(sub_i) INT2(mul_i) INT2(min_i) INT2(max_i) INT2(shl_i) INT2(shr_i)
INT2(bitand_i) INT2(bitor_i) INT2(bitxor_i) INT2(mulhigh)
INT2(lt_i) INT2(le_i) INT2(gt_i) INT2(ge_i) INT2(eq_i) INT2(ne_i)
INT3(mulshift) INT3(select_i) INT3(dot_us) INT3(dot_ss)
TO_INT(whole) TO_INT(nearest) TO_INT(to_int)
MAP(as_f16) MAP(as_bf16)

void int_across(const int32_t *x, int32_t *y)
{
    ec_vi v = ec_load_i32(x);
    y[0] = ec_hsum_i(v);
    y[1] = ec_hprod_i(v);
    y[2] = ec_hmin_i(v);
    y[3] = ec_hmax_i(v);
}

/* Elements of a type into lanes and back: n of them, `stride` apart. */
#define NARROW(TYPE, T)                                                            \
    void copy_##TYPE(const T *x, T *y, int n)                                      \
    {                                                                              \
        if (n == EC_VL)                                                            \
            ec_store_##TYPE(y, ec_load_##TYPE(x));                                 \
        else                                                                       \
            ec_store_##TYPE##_n(y, ec_load_##TYPE##_n(x, n), n);                   \
    }                                                                              \
    void stride_##TYPE(const T *x, ptrdiff_t stride, T *y, int n)                  \
    {                                                                              \
        if (n == EC_VL)                                                            \
            ec_scatter_##TYPE(y, stride, ec_gather_##TYPE(x, stride));             \
        else                                                                       \
            ec_scatter_##TYPE##_n(y, stride, ec_gather_##TYPE##_n(x, stride, n), n); \
    }
NARROW(u8, uint8_t) NARROW(i8, int8_t) NARROW(u16, uint16_t) NARROW(i16, int16_t)
NARROW(i32, int32_t) NARROW(bool, uint8_t) NARROW(f16, uint16_t) NARROW(bf16, uint16_t)

#define WIDE(TYPE, T)                                                              \
    void lanes_##TYPE(const T *x, int32_t *y)                                      \
    {                                                                              \
        ec_store_i32(y, ec_load_##TYPE(x));                                        \
    }
WIDE(u8, uint8_t) WIDE(i8, int8_t) WIDE(u16, uint16_t) WIDE(i16, int16_t) WIDE(bool, uint8_t)

void lanes_f16(const uint16_t *x, float *y) { ec_store(y, ec_load_f16(x)); }
void lanes_bf16(const uint16_t *x, float *y) { ec_store(y, ec_load_bf16(x)); }

void words(const uint8_t *p, int32_t *whole, int32_t *parts, int32_t *last)
{
    ec_store_i32(whole, ec_word(p));
    ec_store_i32(parts, ec_word_of(p[0], p[1], p[2], p[3]));
    ec_store_i32(last, ec_word_last(p, 3));
}
