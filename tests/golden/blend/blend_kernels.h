/* The kernels of blend. Each is called by every thread with its number; operands come first, the result last. */
#ifndef BLEND_KERNELS_H
#define BLEND_KERNELS_H

#include "ec_scalar.h"

void blend_0_map(const float *restrict p0, float *restrict y, ec_int thread, ec_int threads);
void blend_1_map(const float *restrict p0, float *restrict y, ec_int thread, ec_int threads);
void blend_2_map(const float *restrict p0, float *restrict y, ec_int thread, ec_int threads);
void blend_3_map(const int64_t *restrict p0, const float *restrict p1, float *restrict y, ec_int thread, ec_int threads);
#endif
