/* SPDX-License-Identifier: Apache-2.0 */
/* Runs blend on inputs from a file: what edgec starts on a device to check and to time it there.
 *
 *     blend_runner INPUTS OUTPUTS [RUNS [THREADS]]
 *
 * INPUTS holds samples, one after the other: the sizes chosen at run time (int64 each), then every input as its length
 * in bytes (uint64) and its bytes. For each sample OUTPUTS gets the status (int64), the number of runs (int64), the
 * nanoseconds of every run (int64 each), all sizes (int64 each), and every output, as long as it can become.
 * All numbers are in the byte order of the device.
 * Compiled with -DEC_PROFILE it also prints, a line each, "kernel NUMBER NANOSECONDS" of the fastest run of the last
 * sample on the first thread.
 * Ends with 0; with 2 for files it cannot use, 3 without memory or threads, 4 on a processor the code was not built for.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "blend.h"
#include "ec_pool.h"
#define MOST_RUNS 100000

static _Alignas(64) unsigned char arena[BLEND_ARENA_BYTES + 1];
static float left_data[BLEND_LEFT_ELEMENTS + 1];
static float right_data[BLEND_RIGHT_ELEMENTS + 1];
static int64_t order_data[BLEND_ORDER_ELEMENTS + 1];
static float mixed_data[BLEND_MIXED_ELEMENTS + 1];
static float picked_data[BLEND_PICKED_ELEMENTS + 1];
static int64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#ifdef EC_PROFILE
#define KERNELS 5
static int64_t begun[KERNELS + 1];

void ec_profile(int kernel, int thread) {
  if (thread == 0) begun[kernel] = nanoseconds();
}
#endif

static int fail(const char *what, const char *path) {
  fprintf(stderr, "blend_runner: %s %s\n", what, path);
  return 2;
}

/* One array of a sample; 1 if it is there and not too long. */
static int read_array(FILE *file, void *data, size_t room) {
  uint64_t bytes = 0;
  return fread(&bytes, sizeof bytes, 1, file) == 1 && bytes <= room && fread(data, 1, (size_t)bytes, file) == bytes;
}

int main(int argc, char **argv) {
  if (argc < 3) return fail("usage: runner INPUTS OUTPUTS [RUNS [THREADS]]", "");
  const int asked = argc > 3 ? atoi(argv[3]) : 1;
  const int64_t runs = asked < 1 ? 1 : asked > MOST_RUNS ? MOST_RUNS : asked;
  const int threads = argc > 4 ? atoi(argv[4]) : 1;
  if (!blend_runs_here()) {
    fprintf(stderr, "blend_runner: this processor lacks what the code was built for ()\n");
    return 4;
  }
  FILE *const in = fopen(argv[1], "rb");
  if (!in) return fail("cannot read", argv[1]);
  FILE *const out = fopen(argv[2], "wb");
  if (!out) return fail("cannot write", argv[2]);
  int64_t *const taken = (int64_t *)malloc((size_t)runs * sizeof *taken);
  ec_pool *pool = 0;
  void *pool_memory = 0;
  if (threads > 1) {
    pool_memory = malloc(ec_pool_bytes(threads));
    pool = pool_memory ? ec_pool_init(pool_memory, threads) : 0;
  }
  if (!taken || (threads > 1 && !pool)) {
    fprintf(stderr, "blend_runner: no memory, or no threads\n");
    return 3;
  }
#ifdef EC_PROFILE
  static int64_t best[KERNELS + 1];
#endif
  for (int next = fgetc(in); next != EOF; next = fgetc(in)) {
    ungetc(next, in);
    if (!read_array(in, left_data, BLEND_LEFT_ELEMENTS * sizeof(float))) return fail("a sample does not fit in", argv[1]);
    if (!read_array(in, right_data, BLEND_RIGHT_ELEMENTS * sizeof(float))) return fail("a sample does not fit in", argv[1]);
    if (!read_array(in, order_data, BLEND_ORDER_ELEMENTS * sizeof(int64_t))) return fail("a sample does not fit in", argv[1]);
    memset(arena, 0xff, BLEND_ARENA_BYTES); /* what nobody wrote shows up as NaN */
    memset(mixed_data, 0xff, BLEND_MIXED_ELEMENTS * sizeof(float));
    memset(picked_data, 0xff, BLEND_PICKED_ELEMENTS * sizeof(float));
    int64_t status = 0;
    int64_t least = INT64_MAX;
    for (int64_t run = 0; run < runs && status == 0; ++run) {
      const int64_t start = nanoseconds();
      status = blend_run_pool(blend_weights, arena, pool, left_data, right_data, order_data, mixed_data, picked_data);
      taken[run] = nanoseconds() - start;
      if (taken[run] < least) {
        least = taken[run];
#ifdef EC_PROFILE
        memcpy(best, begun, sizeof best);
#endif
      }
    }
    fwrite(&status, sizeof status, 1, out);
    fwrite(&runs, sizeof runs, 1, out);
    fwrite(taken, sizeof *taken, (size_t)runs, out);
    fwrite(mixed_data, sizeof(float), BLEND_MIXED_ELEMENTS, out);
    fwrite(picked_data, sizeof(float), BLEND_PICKED_ELEMENTS, out);
    (void)least;
  }
#ifdef EC_PROFILE
  for (int kernel = 0; kernel < KERNELS; ++kernel)
    printf("kernel %d %lld\n", kernel, (long long)(best[kernel + 1] - best[kernel]));
#endif
  if (pool) ec_pool_destroy(pool);
  free(pool_memory);
  free(taken);
  fclose(in);
  if (fclose(out) != 0) return fail("cannot write", argv[2]);
  return 0;
}
