/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of classifier. Each is called by every thread with its number; operands come first, the result last. */
#ifndef CLASSIFIER_KERNELS_H
#define CLASSIFIER_KERNELS_H

#include "ec_scalar.h"

void classifier_0_contract(const float *restrict image, const float *restrict image_copy, const float *restrict bias, const float *restrict weights, float *restrict stem_relu, ec_int thread, ec_int threads);
void classifier_1_window(const float *restrict stem_relu, const float *restrict weights, float *restrict mean, ec_int thread, ec_int threads);
void classifier_2_row(const float *restrict mean, const float *restrict weights, float *restrict scores, unsigned char *scratch_bytes, ec_int thread, ec_int threads);
#endif
