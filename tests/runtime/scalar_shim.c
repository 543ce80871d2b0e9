/* The narrow types of ec_scalar.h over whole arrays, for ctypes. */
#include "ec_scalar.h"

#define WIDE(NAME, CODE, VALUE)                                                      \
  void from_##NAME(const CODE *x, VALUE *y, int64_t n) {                             \
    for (int64_t i = 0; i < n; ++i) y[i] = ec_from_##NAME(x[i]);                     \
  }
#define NARROW(NAME, CODE, VALUE)                                                    \
  void to_##NAME(const VALUE *x, CODE *y, int64_t n) {                               \
    for (int64_t i = 0; i < n; ++i) y[i] = ec_to_##NAME(x[i]);                       \
  }
#define FLOATING(NAME) WIDE(NAME, ec_##NAME, float) NARROW(NAME, ec_##NAME, float)
#define INTEGER(NAME, VALUE) WIDE(NAME, ec_##NAME, VALUE) NARROW(NAME, ec_##NAME, int64_t)

FLOATING(f16)
FLOATING(bf16)
FLOATING(f8e4m3fn)
FLOATING(f8e4m3fnuz)
FLOATING(f8e5m2)
FLOATING(f8e5m2fnuz)
FLOATING(f8e8m0)
FLOATING(f4e2m1)
INTEGER(i4, int8_t)
INTEGER(u4, uint8_t)
INTEGER(i2, int8_t)
INTEGER(u2, uint8_t)
