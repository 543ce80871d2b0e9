/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of blend. Each is called by every thread with its number; operands come first, the result last. */
#ifndef BLEND_KERNELS_H
#define BLEND_KERNELS_H

#include "ec_scalar.h"

void blend_0_map(const float *restrict left_2, float *restrict join, ec_int thread, ec_int threads);
void blend_1_map(const float *restrict right_2, float *restrict join, ec_int thread, ec_int threads);
void blend_2_map(const float *restrict join, float *restrict mixed, ec_int thread, ec_int threads);
void blend_3_map(const int64_t *restrict order, const float *restrict mixed, float *restrict picked, ec_int thread, ec_int threads);
void blend_4_map(const int64_t *restrict order, uint8_t *restrict order_copy, ec_int thread, ec_int threads);
#endif
