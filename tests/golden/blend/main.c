/* SPDX-License-Identifier: Apache-2.0 */
/* An example: run blend once on random input and print the largest output.
 * usage: blend_example [runs] */
#include <stdio.h>
#include <stdlib.h>

#include "blend.h"
static _Alignas(64) unsigned char arena[BLEND_ARENA_BYTES + 1];
static float left_data[BLEND_LEFT_ELEMENTS + 1];
static float right_data[BLEND_RIGHT_ELEMENTS + 1];
static int64_t order_data[BLEND_ORDER_ELEMENTS + 1];
static float mixed_data[BLEND_MIXED_ELEMENTS + 1];
static float picked_data[BLEND_PICKED_ELEMENTS + 1];
int main(int argc, char **argv) {
  const int runs = argc > 1 ? atoi(argv[1]) : 1;
  unsigned state = 1;
  for (size_t i = 0; i < BLEND_LEFT_ELEMENTS; ++i) {
    state = state * 1664525u + 1013904223u;
    left_data[i] = (float)(state >> 8) / 16777216;
  }
  for (size_t i = 0; i < BLEND_RIGHT_ELEMENTS; ++i) {
    state = state * 1664525u + 1013904223u;
    right_data[i] = (float)(state >> 8) / 16777216;
  }
  for (size_t i = 0; i < BLEND_ORDER_ELEMENTS; ++i) {
    state = state * 1664525u + 1013904223u;
    order_data[i] = (int64_t)((state >> 24) & 1);
  }
  (void)state;
  for (int run = 0; run < runs; ++run) {
    const int status = blend_run(blend_weights, arena, left_data, right_data, order_data, mixed_data, picked_data);
    if (status != BLEND_OK) {
      fprintf(stderr, "blend_run failed with status %d\n", status);
      return 1;
    }
  }
  {
    size_t best = 0;
    for (size_t i = 1; i < BLEND_MIXED_ELEMENTS; ++i)
      if (mixed_data[i] > mixed_data[best]) best = i;
    printf("mixed: largest of %zu elements is number %zu: %g\n", (size_t)BLEND_MIXED_ELEMENTS,
           best, (double)mixed_data[best]);
  }
  {
    size_t best = 0;
    for (size_t i = 1; i < BLEND_PICKED_ELEMENTS; ++i)
      if (picked_data[i] > picked_data[best]) best = i;
    printf("picked: largest of %zu elements is number %zu: %g\n", (size_t)BLEND_PICKED_ELEMENTS,
           best, (double)picked_data[best]);
  }
  return 0;
}
