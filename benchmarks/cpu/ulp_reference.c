/* The functions in double precision: the C library's vector functions where it has them, which err by at most 4 ULP of a
 * double, 1e-8 of a float's. */
#include <math.h>

#define REFERENCE(name, value)                                    \
    void reference_##name(const double *a, double *y, int count)  \
    {                                                             \
        for (int i = 0; i < count; ++i) {                         \
            double x = a[i];                                      \
            y[i] = (value);                                       \
        }                                                         \
    }

REFERENCE(exp, exp(x))
REFERENCE(expm1, expm1(x))
REFERENCE(log, log(x))
REFERENCE(log1p, log1p(x))
REFERENCE(tanh, tanh(x))
REFERENCE(sigmoid, 1 / (1 + exp(-x)))
REFERENCE(silu, x / (1 + exp(-x)))
REFERENCE(softplus, (x > 0 ? x : 0) + log1p(exp(-fabs(x))))
REFERENCE(erf, erf(x))
REFERENCE(sin, sin(x))
REFERENCE(cos, cos(x))

void reference_pow(const double *x, const double *y, double *z, int count)
{
    for (int i = 0; i < count; ++i)
        z[i] = pow(x[i], y[i]);
}
