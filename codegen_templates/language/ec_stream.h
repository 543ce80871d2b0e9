/* The text of tokens as they come: in whole characters, never a part of a stop string. Nothing is allocated. */
#ifndef EC_STREAM_H
#define EC_STREAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EC_LONGEST_TOKEN 4096 /* bytes of a token's text at most */
/* Bytes of memory for a stream whose stop strings have at most so many bytes. */
#define EC_STREAM_BYTES(longest_stop) (4 * ((size_t)(longest_stop) + EC_LONGEST_TOKEN + 4))

enum {
  EC_GOING = 0,
  EC_STOPPED = 1,  /* a stop string came; it is not part of the text, nor is what follows */
  EC_ENDED = 2,    /* a token came that ends the text */
  EC_NO_TOKEN = 3, /* the token is outside the vocabulary */
  EC_NO_ROOM = 4   /* the memory is too small for the stop strings */
};

typedef struct {
  const void *table;        /* of the tokenizer */
  const char *const *stops; /* ended by a zero each; empty ones are ignored */
  size_t stop_count;
  char *memory;
  size_t bytes;             /* of the memory */
  size_t held;              /* bytes that wait: 0 at the start */
  int status;               /* EC_GOING at the start; once it is another, no more text comes */
} ec_stream;

/* Take a token. ``*text`` are the ``*length`` bytes of UTF-8 that can be shown now, valid until the next call; a byte
 * that is part of no character becomes U+FFFD. The result is the status. */
int ec_stream_put(ec_stream *stream, int32_t token, const char **text, size_t *length);

/* No more tokens come: what still waited. */
int ec_stream_finish(ec_stream *stream, const char **text, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
