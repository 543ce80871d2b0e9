#include "ec_stream.h"

#include <string.h>

#include "ec_tokenizer.h"

/* The bytes of the character at the start of a text, or of the longest beginning of one. */
static size_t character(const unsigned char *text, size_t length, int *is_whole) {
  const unsigned char c = text[0];
  const size_t size = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
  size_t i = 1;
  for (; i < size && i < length; ++i) {
    const unsigned char low = i > 1 ? 0x80 : c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = i > 1 ? 0xbf : c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (text[i] < low || text[i] > high) break;
  }
  *is_whole = i == size;
  return i;
}

static size_t capacity(const ec_stream *s) { return s->bytes / 4; }

/* Show the first ``count`` of the bytes that wait, and keep those from ``kept`` on. */
static void show(ec_stream *s, size_t count, size_t kept, const char **text, size_t *length) {
  const unsigned char *from = (const unsigned char *)s->memory;
  char *const to = s->memory + capacity(s);
  size_t written = 0;
  for (size_t at = 0, size; at < count; at += size) {
    int is_whole;
    size = character(from + at, count - at, &is_whole);
    memcpy(to + written, is_whole ? (const char *)from + at : "\xef\xbf\xbd", is_whole ? size : 3);
    written += is_whole ? size : 3;
  }
  *text = to;
  *length = written;
  s->held -= kept;
  memmove(s->memory, s->memory + kept, s->held);
}

/* Where the first stop string begins, and where the rest may become one; both are the end where there is none. */
static size_t first_stop(const ec_stream *s, size_t *begins) {
  *begins = s->held;
  for (size_t at = 0; at < s->held; ++at) {
    for (size_t k = 0; k < s->stop_count; ++k) {
      const size_t size = strlen(s->stops[k]), rest = s->held - at;
      if (!size || memcmp(s->memory + at, s->stops[k], size < rest ? size : rest)) continue;
      if (size <= rest) return at;
      if (*begins > at) *begins = at;
    }
  }
  return s->held;
}

int ec_stream_finish(ec_stream *s, const char **text, size_t *length) {
  show(s, s->held, s->held, text, length);
  if (s->status == EC_GOING) s->status = EC_ENDED;
  return s->status;
}

int ec_stream_put(ec_stream *s, int32_t token, const char **text, size_t *length) {
  size_t size, begins;
  show(s, 0, 0, text, length);
  if (s->status != EC_GOING) return s->status;
  if (ec_is_end(s->table, token)) return ec_stream_finish(s, text, length);
  const char *const bytes = ec_decode(s->table, token, 0, &size);
  if (!bytes) return s->status = EC_NO_TOKEN;
  if (size > capacity(s) - s->held) return s->status = EC_NO_ROOM;
  memcpy(s->memory + s->held, bytes, size);
  s->held += size;
  const size_t stop = first_stop(s, &begins);
  if (stop < s->held) {
    s->status = EC_STOPPED;
    show(s, stop, s->held, text, length);
    return s->status;
  }
  const size_t whole = ec_whole_characters(s->memory, begins);
  show(s, whole, whole, text, length);
  return s->status;
}
