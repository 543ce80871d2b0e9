/* SPDX-License-Identifier: Apache-2.0 */
/* An example: run classifier once on random input and print the largest output.
 * usage: classifier_example [runs] */
#include <stdio.h>
#include <stdlib.h>

#include "classifier.h"
static _Alignas(64) unsigned char arena[CLASSIFIER_ARENA_BYTES + 1];
static float image_data[CLASSIFIER_IMAGE_ELEMENTS + 1];
static float scores_data[CLASSIFIER_SCORES_ELEMENTS + 1];
int main(int argc, char **argv) {
  const int runs = argc > 1 ? atoi(argv[1]) : 1;
  unsigned state = 1;
  for (size_t i = 0; i < CLASSIFIER_IMAGE_ELEMENTS; ++i) {
    state = state * 1664525u + 1013904223u;
    image_data[i] = (float)(state >> 8) / 16777216;
  }
  (void)state;
  for (int run = 0; run < runs; ++run) {
    const int status = classifier_run(classifier_weights, arena, image_data, scores_data);
    if (status != CLASSIFIER_OK) {
      fprintf(stderr, "classifier_run failed with status %d\n", status);
      return 1;
    }
  }
  {
    size_t best = 0;
    for (size_t i = 1; i < CLASSIFIER_SCORES_ELEMENTS; ++i)
      if (scores_data[i] > scores_data[best]) best = i;
    printf("scores: largest of %zu elements is number %zu: %g\n", (size_t)CLASSIFIER_SCORES_ELEMENTS,
           best, (double)scores_data[best]);
  }
  return 0;
}
