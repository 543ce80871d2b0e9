/* Seconds a token of a language model whose weights are read as it runs, and of reading the same bytes alone, in turns.
 *
 *     streaming FILE TOKENS ROUNDS
 *
 * Prints a line for each round: seconds a token, seconds to read the bytes of a token, bytes of memory so far. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lm_session.h"

static _Alignas(LM_WEIGHTS_MEMORY_ALIGNMENT) unsigned char memory[LM_WEIGHTS_MEMORY_BYTES];
static _Alignas(LM_ALIGNMENT) unsigned char arena[LM_ARENA_BYTES], cache[LM_CACHE_BYTES];
static _Alignas(4096) unsigned char buffer[4 << 20];
static float logits[LM_VOCABULARY];

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds to read the last so many bytes of the file, past the page cache. */
static double read_alone(const char *path, size_t bytes) {
  const int file = open(path, O_RDONLY | O_DIRECT);
  const off_t end = lseek(file, 0, SEEK_END);
  const double start = seconds();
  size_t left = bytes;
  while (file >= 0 && left > 0) {
    const size_t now = left < sizeof buffer ? left : sizeof buffer;
    if (pread(file, buffer, now, end - (off_t)left) != (ssize_t)now) exit(3);
    left -= now;
  }
  const double taken = seconds() - start;
  close(file);
  return taken;
}

static long peak(void) {
  long kilobytes = 0;
  char line[256];
  FILE *const file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file)) sscanf(line, "VmHWM: %ld", &kilobytes);
  if (file) fclose(file);
  return kilobytes * 1024;
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const int tokens = atoi(argv[2]), rounds = atoi(argv[3]);
  const void *weights = 0;
  int status = lm_weights_open(argv[1], memory, &weights);
  if (status) return 4;
  lm_session session = {weights, arena, 0, cache, 0};
  status = lm_next(&session, 1, logits);
  for (int round = 0; round < rounds && !status; ++round) {
    session.past = 1;
    /* The reader is ahead after a pause: the token that uses that up does not count. */
    status = lm_next(&session, 2, logits);
    const double start = seconds();
    for (int i = 0; i < tokens && !status; ++i) status = lm_next(&session, i % LM_VOCABULARY, logits);
    const double each = (seconds() - start) / tokens;
    double alone = 0;
    for (int i = 0; i < tokens; ++i) alone += read_alone(argv[1], LM_READ_BYTES) / tokens;
    printf("%.9f %.9f %ld\n", each, alone, peak());
  }
  lm_weights_close(weights);
  return status;
}
