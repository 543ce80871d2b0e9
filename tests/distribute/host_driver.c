/* The host of a divided network beside workers that are a few lines: three parts that read nothing, one term each.
 * usage: driver KIND BYTES TERMS ORDER     prints the sum's bytes to stdout
 *        driver statuses                   checks what calls return that are out of turn, or late */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ec_divided.h"

enum { WORKERS = 3, MOST = 1 << 16, FRAMES = 2 };

static unsigned char terms[WORKERS][MOST];
static size_t bytes;
static int order[WORKERS] = {0, 1, 2}, asked[WORKERS], step, is_silent;

static int rank(ec_transport *t) { return (void)t, 0; }

static int barrier(ec_transport *t, int milliseconds) { return (void)t, (void)milliseconds, EC_OK; }

static int take(ec_transport *t, int to, const ec_span *spans, int count, int milliseconds) {
  (void)t, (void)milliseconds;
  if (count != 1 || spans[0].bytes != EC_HEAD_BYTES) abort();
  ++asked[to - 1];
  return EC_OK;
}

static int give(ec_transport *t, int *from, void *data, size_t wanted, int milliseconds) {
  (void)t, (void)milliseconds;
  if (*from != EC_ANY) {
    if (wanted == EC_TAIL_BYTES) {
      ec_message_pack_tail(data, 0);
      return EC_OK;
    }
    if (wanted != bytes) abort();
    memcpy(data, terms[*from - 1], bytes);
    return EC_OK;
  }
  if (is_silent || step == WORKERS) return EC_LATE;
  const int worker = order[step++];
  const ec_head head = {EC_DONE, (uint32_t)worker, 0, bytes, 1};
  ec_message_pack(data, &head);
  *from = worker + 1;
  return EC_OK;
}

static void require(int status, int due) {
  if (status == due) return;
  fprintf(stderr, "status %d where %d is due\n", status, due);
  exit(1);
}

int main(int argc, char **argv) {
  static const int writes[WORKERS] = {0, 1, 2};
  static unsigned char result[MOST];
  ec_part parts[WORKERS];
  ec_tensor tensors[WORKERS + 1];
  const int outputs[] = {WORKERS}, is_sum = argc == 5;
  ec_transport transport = {rank, take, give, barrier};
  bytes = is_sum ? (size_t)atoi(argv[2]) : 64;
  for (int k = 0; k < WORKERS; ++k) {
    const ec_part part = {k, 1, 1, 0, bytes, NULL, 0, writes + k, 1};
    const ec_tensor tensor = {(size_t)k * MOST, bytes, NULL, 0, 0};
    parts[k] = part;
    tensors[k] = tensor;
  }
  const ec_tensor sum = {(size_t)WORKERS * MOST, bytes, writes, WORKERS, is_sum ? atoi(argv[1]) : EC_ADD_BYTES};
  tensors[WORKERS] = sum;
  const ec_division division = {parts, tensors, NULL, outputs, WORKERS, WORKERS + 1, 0, 1, WORKERS, FRAMES, (WORKERS + 1) * (size_t)MOST, 0};
  ec_host *host = aligned_alloc(64, (ec_divided_bytes(&division) + 63) / 64 * 64);
  if (!host) return 1;
  const void *const in[] = {NULL};
  void *const out[] = {result};
  require(ec_divided_open(host, &division, &transport, 50), EC_OK);
  if (is_sum) {
    FILE *const file = fopen(argv[3], "rb");
    for (int k = 0; k < WORKERS; ++k) {
      order[k] = argv[4][k] - '0';
      if (!file || fread(terms[k], 1, bytes, file) != bytes) return 1;
    }
    fclose(file);
    require(ec_divided_run(host, in, out), EC_OK);
    fwrite(result, 1, bytes, stdout);
  } else {
    is_silent = 1;
    memset(result, 7, sizeof result);
    require(ec_divided_run(NULL, in, out), EC_NULL_POINTER);
    require(ec_divided_pull(host, out), EC_EMPTY);
    for (int k = 0; k < FRAMES; ++k) require(ec_divided_push(host, in), EC_OK);
    require(ec_divided_push(host, in), EC_FULL);
    require(ec_divided_run(host, in, out), EC_BUSY);
    require(ec_divided_reset(host), EC_BUSY);
    for (int k = 0; k < WORKERS; ++k) require(asked[k], 1); /* one request at most, whatever is on its way */
    require(ec_divided_lost(host), -1);
    require(ec_divided_pull(host, out), EC_LATE);
    require(ec_divided_lost(host), 0);
    require(ec_divided_push(host, in), EC_LOST);
    require(ec_divided_pull(host, out), EC_LOST);
    require(ec_divided_reset(host), EC_LOST);
    for (size_t i = 0; i < sizeof result; ++i) require(result[i], 7);
  }
  ec_divided_close(host);
  free(host);
  return 0;
}
