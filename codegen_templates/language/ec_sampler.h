/* The next token of a text from the logits of a run. Nothing is allocated, and nothing depends on the C library: the same
 * logits and seed give the same token on every machine. */
#ifndef EC_SAMPLER_H
#define EC_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of memory that ec_sample needs for a vocabulary, aligned to 8. */
#define EC_SAMPLE_BYTES(vocabulary) ((size_t)8 * (size_t)(vocabulary) + 4 * (((size_t)(vocabulary) + 31) / 32))

/* A grammar: clears the bits of tokens that may not follow; all bits are set before. Token t is bit t % 32 of word t / 32. */
typedef void (*ec_token_mask)(void *context, uint32_t *allowed, int32_t vocabulary);

/* Options, and what the next token depends on beside the logits. A field of 0 changes nothing but ``temperature``.
 * In this order: mask, repetition penalty, temperature, top-k, top-p, min-p. */
typedef struct {
  int32_t vocabulary;
  int32_t top_k;            /* so many of the most probable tokens stay */
  float temperature;        /* divides the logits; 0 takes the most probable token, the first of equals */
  float top_p;              /* the fewest most probable tokens stay whose probabilities sum up to this */
  float min_p;              /* tokens stay whose probability is at least this part of the largest */
  float repetition_penalty; /* divides positive logits of recent tokens, multiplies negative ones */
  uint64_t seed;
  uint64_t drawn;           /* random numbers so far: 0 at the start */
  int32_t *recent;          /* memory for ``window`` tokens */
  int64_t window;           /* tokens that count as recent */
  int64_t accepted;         /* tokens so far: 0 at the start */
  ec_token_mask mask;
  void *context;            /* of the mask */
} ec_sampler;

/* The next token; -1 where no token is allowed, or has a logit above minus infinity. A NaN counts as minus infinity. */
int32_t ec_sample(ec_sampler *sampler, const float *logits, void *scratch);

/* Make a token recent: those of the prompt, and each that was taken. */
void ec_accept(ec_sampler *sampler, int32_t token);

#ifdef __cplusplus
}
#endif
#endif
