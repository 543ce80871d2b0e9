/* The kernels of classifier. Each is called by every thread with its number; operands come first, the result last. */
#ifndef CLASSIFIER_KERNELS_H
#define CLASSIFIER_KERNELS_H

#include "ec_scalar.h"

void classifier_0_contract(const float *restrict p0, const float *restrict p1, const float *restrict p2, const float *restrict p3, float *restrict y, ec_int thread, ec_int threads);
void classifier_1_window(const float *restrict p0, const float *restrict p1, float *restrict y, ec_int thread, ec_int threads);
void classifier_2_row(const float *restrict p0, const float *restrict p1, float *restrict y, unsigned char *scratch_bytes, ec_int thread, ec_int threads);
#endif
