/* Many calls of a network x -> y, each compared bit by bit with the first.
 * usage: calls THREADS SECONDS CALLS WORKERS: so many threads call it, each with an arena of its own and a pool of
 * WORKERS threads, until the seconds are over or each has made its calls. Pools are opened and closed on the way.
 * Prints the calls made, results that were wrong, and resident KiB after a tenth of the calls and at the end. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ec_pool.h"
#include "net.h"

enum { POOL_CALLS = 500, INPUTS = 4 };

extern const unsigned char net_weights[];
static float inputs[INPUTS][NET_X_ELEMENTS], expected[INPUTS][NET_Y_ELEMENTS];
static atomic_llong made, wrong;
static long long each;
static double until;
static int workers;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *memory(size_t bytes) {
  void *found = aligned_alloc(NET_ALIGNMENT, (bytes / NET_ALIGNMENT + 1) * NET_ALIGNMENT);
  if (!found) abort();
  return found;
}

static void *caller(void *number) {
  void *arena = memory(NET_ARENA_BYTES), *of_pool = NULL;
  ec_pool *pool = NULL;
  float *y = memory(sizeof expected[0]);
  for (long long k = 0; k < each && now() < until; ++k) {
    const size_t which = ((size_t)k + (size_t)number) % INPUTS;
    if (workers > 1 && k % POOL_CALLS == 0) {
      if (pool) ec_pool_destroy(pool);
      free(of_pool);
      of_pool = malloc(ec_pool_bytes(workers));
      pool = of_pool ? ec_pool_init(of_pool, workers) : NULL;
      if (!pool) abort();
    }
    memset(y, 0xff, sizeof expected[0]);
    if (net_run_pool(net_weights, arena, pool, inputs[which], y) != NET_OK || memcmp(y, expected[which], sizeof expected[0]))
      atomic_fetch_add(&wrong, 1);
    atomic_fetch_add(&made, 1);
  }
  if (pool) ec_pool_destroy(pool);
  free(of_pool);
  free(arena);
  free(y);
  return NULL;
}

static long resident(void) {
  long size = 0, pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2) abort();
  fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void part(int threads, long long calls) {
  pthread_t running[64];
  each = calls;
  for (int k = 0; k < threads; ++k)
    if (pthread_create(&running[k], NULL, caller, (void *)(size_t)k)) abort();
  for (int k = 0; k < threads; ++k) pthread_join(running[k], NULL);
}

int main(int count, char **words) {
  if (count < 5) return 2;
  const int threads = atoi(words[1]) < 64 ? atoi(words[1]) : 64;
  const long long calls = atoll(words[3]);
  workers = atoi(words[4]);
  void *arena = memory(NET_ARENA_BYTES);
  for (int i = 0; i < INPUTS; ++i) {
    for (size_t k = 0; k < NET_X_ELEMENTS; ++k) inputs[i][k] = (float)((k * 2654435761u + (size_t)i * 97) % 1000) / 500 - 1;
    if (net_run(net_weights, arena, inputs[i], expected[i]) != NET_OK) return 3;
  }
  free(arena);
  until = now() + atof(words[2]);
  part(threads, calls / 10 + 1);
  const long early = resident();
  part(threads, calls - calls / 10 - 1);
  printf("%lld calls, %lld wrong, %ld KiB, %ld KiB\n", atomic_load(&made), atomic_load(&wrong), early, resident());
  return atomic_load(&wrong) != 0;
}
