/* Sessions of a network x -> y on a GPU, opened, run and closed: usage: device_calls RUNS THREADS. Every thread makes RUNS
 * runs, every tenth with a session of its own; results are compared bit by bit with the thread's first. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

enum { MOST = 64 };
struct caller {
  int runs, wrong, failed;
  float expected[NET_Y_ELEMENTS];
};

static void *call(void *given) {
  struct caller *const c = (struct caller *)given;
  float x[NET_X_ELEMENTS], y[NET_Y_ELEMENTS];
  net_session *session = NULL;
#ifndef EC_ON_CPU /* OpenCL, and not the emulation of CUDA */
  net_options options = {0};
#endif
  for (size_t k = 0; k < NET_X_ELEMENTS; ++k) x[k] = (float)(k % 17) / 8 - 1;
  for (int k = 0; k < c->runs && !c->failed; ++k) {
    if (k % 10 == 0) {
      if (session) net_close(session);
      session = NULL;
#ifdef EC_ON_CPU
      const int status = net_open(&session, net_weights);
#else
      const int status = net_open(&session, net_weights, &options);
#endif
      if (status != NET_OK) {
        fprintf(stderr, "%s\n", net_last_error());
        c->failed = 1;
        break;
      }
    }
    memset(y, 0xff, sizeof y);
    c->failed = net_run_host(session, x, y) != NET_OK;
    if (!k) memcpy(c->expected, y, sizeof y);
    c->wrong += memcmp(y, c->expected, sizeof y) != 0;
  }
  if (session) net_close(session);
  return NULL;
}

int main(int count, char **words) {
  static struct caller callers[MOST];
  pthread_t threads[MOST];
  const int runs = count > 1 ? atoi(words[1]) : 10, most = count > 2 ? atoi(words[2]) : 1;
  int wrong = 0, failed = 0;
  for (int k = 0; k < most && k < MOST; ++k) {
    callers[k].runs = runs;
    if (pthread_create(&threads[k], NULL, call, &callers[k])) return 1;
  }
  for (int k = 0; k < most && k < MOST; ++k) {
    pthread_join(threads[k], NULL);
    wrong += callers[k].wrong + (memcmp(callers[k].expected, callers[0].expected, sizeof callers[0].expected) != 0);
    failed += callers[k].failed;
  }
  if (failed) return 1;
  printf("%d calls, %d wrong\n", runs * most, wrong);
  return wrong != 0;
}
