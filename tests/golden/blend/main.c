/* An example: run blend once on random input and print the largest output.
 * usage: blend_example [runs] */
#include <stdio.h>
#include <stdlib.h>

#include "blend.h"

static _Alignas(64) unsigned char arena[BLEND_ARENA_BYTES + 1];
static float left[BLEND_LEFT_ELEMENTS + 1];
static float right[BLEND_RIGHT_ELEMENTS + 1];
static int64_t order[BLEND_ORDER_ELEMENTS + 1];
static float mixed[BLEND_MIXED_ELEMENTS + 1];
static float picked[BLEND_PICKED_ELEMENTS + 1];
int main(int argc, char **argv) {
  const int runs = argc > 1 ? atoi(argv[1]) : 1;
  unsigned state = 1;
  for (size_t i = 0; i < BLEND_LEFT_ELEMENTS; ++i) {
    state = state * 1664525u + 1013904223u;
    left[i] = (float)(state >> 8) / 16777216;
  }
  for (size_t i = 0; i < BLEND_RIGHT_ELEMENTS; ++i) {
    state = state * 1664525u + 1013904223u;
    right[i] = (float)(state >> 8) / 16777216;
  }
  for (size_t i = 0; i < BLEND_ORDER_ELEMENTS; ++i) {
    state = state * 1664525u + 1013904223u;
    order[i] = (int64_t)((state >> 24) & 1);
  }
  for (int run = 0; run < runs; ++run) {
    const int status = blend_run(blend_weights, arena, left, right, order, mixed, picked);
    if (status != BLEND_OK) {
      fprintf(stderr, "blend_run failed with status %d\n", status);
      return 1;
    }
  }
  {
    size_t best = 0;
    for (size_t i = 1; i < BLEND_MIXED_ELEMENTS; ++i)
      if (mixed[i] > mixed[best]) best = i;
    printf("mixed: largest of %zu elements is number %zu: %g\n", BLEND_MIXED_ELEMENTS, best,
           (double)mixed[best]);
  }
  {
    size_t best = 0;
    for (size_t i = 1; i < BLEND_PICKED_ELEMENTS; ++i)
      if (picked[i] > picked[best]) best = i;
    printf("picked: largest of %zu elements is number %zu: %g\n", BLEND_PICKED_ELEMENTS, best,
           (double)picked[best]);
  }
  return 0;
}
