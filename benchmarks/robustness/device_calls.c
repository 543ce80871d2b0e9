/* Sessions of a network x -> y on a GPU, opened, run and closed: usage: device_calls RUNS. Every tenth run has a session
 * of its own; results are compared bit by bit with the first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

int main(int count, char **words) {
  static float x[NET_X_ELEMENTS], y[NET_Y_ELEMENTS], expected[NET_Y_ELEMENTS];
  const int runs = count > 1 ? atoi(words[1]) : 10;
  int wrong = 0;
  net_session *session = NULL;
#ifndef EC_ON_CPU /* OpenCL, and not the emulation of CUDA */
  net_options options = {0};
#endif
  for (size_t k = 0; k < NET_X_ELEMENTS; ++k) x[k] = (float)(k % 17) / 8 - 1;
  for (int k = 0; k < runs; ++k) {
    if (k % 10 == 0) {
      if (session) net_close(session);
#ifdef EC_ON_CPU
      const int status = net_open(&session, net_weights);
#else
      const int status = net_open(&session, net_weights, &options);
#endif
      if (status != NET_OK) {
        fprintf(stderr, "%s\n", net_last_error());
        return 1;
      }
    }
    memset(y, 0xff, sizeof y);
    if (net_run_host(session, x, y) != NET_OK) return 1;
    if (!k) memcpy(expected, y, sizeof y);
    wrong += memcmp(y, expected, sizeof y) != 0;
  }
  net_close(session);
  printf("%d calls, %d wrong\n", runs, wrong);
  return wrong != 0;
}
