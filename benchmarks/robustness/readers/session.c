/* libFuzzer: bytes as a saved session of a language model, and as its file of weights. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net_session.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static _Alignas(NET_ALIGNMENT) unsigned char arena[NET_ARENA_BYTES + 1], cache[NET_CACHE_BYTES];
static float logits[NET_VOCABULARY];

static void restored(const void *weights, const unsigned char *data, size_t size) {
  net_session session = {weights, arena, 0, cache, 0};
  int32_t tokens[NET_CONTEXT];
  const int32_t prompt[3] = {1, 2, 3};
  if (net_prefill(&session, prompt, 3, logits) != NET_OK) abort();
  /* A session that is right, and a part of it overwritten. */
  const size_t right = net_saved_bytes(session.past);
  unsigned char *saved = malloc(right);
  if (!saved || net_save(&session, prompt, saved, right) != NET_OK) abort();
  const size_t at = size > 1 ? (data[0] | (size_t)data[1] << 8) % right : 0, room = right - at;
  if (size > 2) memcpy(saved + at, data + 2, size - 2 < room ? size - 2 : room);
  for (int k = 0; k < 2; ++k) {
    const int status = k ? net_restore(&session, tokens, data, size) : net_restore(&session, tokens, saved, right);
    if (status != NET_OK && status != NET_NOT_SAVED) abort();
    if (session.past < 0 || session.past > NET_CONTEXT) abort();
    if (status == NET_OK && session.past < NET_CONTEXT && net_next(&session, 1, logits) != NET_OK) abort();
  }
  free(saved);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  static const void *weights;
  if (!weights && net_weights_open(getenv("FUZZ_WEIGHTS"), 0, &weights) != NET_OK) abort();
  restored(weights, data, size);
  static char path[4096];
  if (!path[0]) snprintf(path, sizeof path, "%s/edgec-fuzz-%ld", getenv("TMPDIR") ? getenv("TMPDIR") : ".", (long)getpid());
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, size, file) != size || fclose(file)) abort();
  const void *opened = NULL;
  if (net_weights_open(path, 0, &opened) == NET_OK) net_weights_close(opened);
  remove(path);
  return 0;
}
