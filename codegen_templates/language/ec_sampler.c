#include "ec_sampler.h"

#include <string.h>

typedef struct {
  float logit;
  int32_t token;
} candidate;

/* More probable ones first, of equals the first token. */
static int is_before(candidate a, candidate b) { return a.logit != b.logit ? a.logit > b.logit : a.token < b.token; }

/* ---- a heap with the most probable candidate first, or the least probable one */

enum order { MOST_FIRST, LEAST_FIRST };

static int precedes(candidate a, candidate b, enum order order) {
  return order == MOST_FIRST ? is_before(a, b) : is_before(b, a);
}

static void sift(candidate *heap, size_t count, size_t at, enum order order) {
  const candidate moved = heap[at];
  for (size_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && precedes(heap[child + 1], heap[child], order)) ++child;
    if (!precedes(heap[child], moved, order)) break;
    heap[at] = heap[child];
  }
  heap[at] = moved;
}

static void make_heap(candidate *heap, size_t count, enum order order) {
  for (size_t i = count / 2; i-- > 0;) sift(heap, count, i, order);
}

/* Take the first of ``count`` candidates out; it goes behind those that stay. */
static candidate take(candidate *heap, size_t count, enum order order) {
  const candidate first = heap[0];
  heap[0] = heap[count - 1];
  heap[count - 1] = first;
  if (count > 1) sift(heap, count - 1, 0, order);
  return first;
}

/* Move the most probable ``kept`` of the candidates to the front, the most probable last. */
static void keep(candidate *c, size_t count, size_t kept) {
  make_heap(c, kept, LEAST_FIRST);
  for (size_t i = kept; i < count; ++i) {
    if (!is_before(c[i], c[0])) continue;
    c[0] = c[i];
    sift(c, kept, 0, LEAST_FIRST);
  }
  make_heap(c, kept, MOST_FIRST);
  for (size_t left = kept; left > 0; --left) take(c, left, MOST_FIRST);
}

/* ---- probabilities as integers: they are the same wherever they are computed */

#define ONE ((uint64_t)1 << 40) /* the weight of the most probable token, about */

/* The probability of a token as a part of ONE, which is that of the largest logit: 2^-(distance * scale / 2^30). The
 * polynomial is 2^x in 0 .. 1, with 31 bits behind the point. */
static uint64_t weight(candidate x, float largest, double scale) {
  static const uint64_t terms[] = {469816, 2660264, 20797478, 119143308, 515891075, 1488521695, 2147483654};
  const double steps = x.logit == largest ? 0 : ((double)largest - (double)x.logit) * scale;
  if (!(steps < 41.0 * (1 << 30))) return 0;
  const uint64_t fixed = (uint64_t)steps, part = (1u << 30) - (fixed & ((1u << 30) - 1));
  uint64_t power = terms[0];
  for (int i = 1; i < 7; ++i) power = terms[i] + (power * part >> 30);
  return (power << 8) >> (fixed >> 30);
}

/* The high half of a product. */
static uint64_t high_product(uint64_t a, uint64_t b) {
  const uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffffu);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

static uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* A random number below ``end``: SplitMix64 at a place that seed and counter give. */
static uint64_t drawn(ec_sampler *s, uint64_t end) {
  s->drawn += 1;
  return high_product(mixed(mixed(s->seed) + s->drawn * 0x9e3779b97f4a7c15u), end);
}

/* ---- the tokens that are considered */

/* Candidates for all tokens, then those that may be taken, moved to the front: their number. */
static size_t allowed(ec_sampler *s, const float *logits, candidate *c, uint32_t *bits) {
  const size_t vocabulary = (size_t)s->vocabulary;
  const float penalty = s->repetition_penalty;
  size_t count = 0;
  for (size_t t = 0; t < vocabulary; ++t) c[t] = (candidate){logits[t], (int32_t)t};
  if (penalty > 0 && penalty != 1) {
    const int64_t recent = s->accepted < s->window ? s->accepted : s->window;
    for (int64_t i = 0; i < recent; ++i) {
      const int32_t t = s->recent[i];
      if (t >= 0 && t < s->vocabulary) c[t].logit = logits[t] > 0 ? logits[t] / penalty : logits[t] * penalty;
    }
  }
  if (s->mask) {
    memset(bits, 0xff, 4 * ((vocabulary + 31) / 32));
    s->mask(s->context, bits, s->vocabulary);
  }
  for (size_t t = 0; t < vocabulary; ++t) {
    if (s->mask && !(bits[t / 32] >> t % 32 & 1)) continue;
    if (c[t].logit >= -3.4028234663852886e38f) c[count++] = c[t]; /* no NaN, and not minus infinity */
  }
  return count;
}

int32_t ec_sample(ec_sampler *s, const float *logits, void *scratch) {
  candidate *const c = scratch;
  size_t count = s->vocabulary > 0 ? allowed(s, logits, c, (uint32_t *)(void *)(c + s->vocabulary)) : 0;
  if (!count) return -1;
  candidate first = c[0];
  for (size_t i = 1; i < count; ++i) first = is_before(c[i], first) ? c[i] : first;
  if (!(s->temperature > 0)) return first.token;

  const double scale = 1.4426950408889634 * (1 << 30) / (double)s->temperature;
  const float largest = first.logit;
  const int has_top_k = s->top_k > 0, has_top_p = s->top_p > 0 && s->top_p < 1;
  candidate *kept = c;
  if (has_top_k) {
    const size_t most = (size_t)s->top_k < count ? (size_t)s->top_k : count;
    keep(c, count, most);
    count = most;
  } else if (has_top_p) { /* those that are taken out stand at the end, the most probable last */
    make_heap(c, count, MOST_FIRST);
  }
  if (has_top_p) {
    uint64_t total = 0, sum = 0;
    for (size_t i = 0; i < count; ++i) total += weight(kept[i], largest, scale);
    const uint64_t enough = (uint64_t)((double)total * (double)s->top_p);
    size_t taken = 0;
    if (has_top_k) {
      while (taken < count && (sum < enough || !taken)) sum += weight(kept[count - ++taken], largest, scale);
    } else {
      for (; taken < count && (sum < enough || !taken); ++taken) sum += weight(take(c, count - taken, MOST_FIRST), largest, scale);
    }
    kept += count - taken;
    count = taken;
  }
  const uint64_t least = s->min_p > 0 ? (uint64_t)((double)ONE * (double)(s->min_p < 1 ? s->min_p : 1)) : 0;
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t w = weight(kept[i], largest, scale);
    if (w + 512 >= least) total += w; /* the polynomial is not exact */
  }
  uint64_t at = drawn(s, total);
  for (size_t i = count; i-- > 0;) { /* from the most probable one, where they are in order */
    const uint64_t w = weight(kept[i], largest, scale);
    if (w + 512 < least) continue;
    if (at < w) return kept[i].token;
    at -= w;
  }
  return first.token;
}

void ec_accept(ec_sampler *s, int32_t token) {
  if (s->window > 0) s->recent[s->accepted % s->window] = token;
  s->accepted += 1;
}
