/* Reads one handwritten digit with the network that `edgec demo` builds, on two threads.
 *
 *     edgec demo -t 2 -o digits
 *     cc -O3 -march=native -Idigits classify.c digits/net*.c digits/net_weights.S digits/ec_pool.c -lm -lpthread
 */
#include <stdio.h>
#include <stdlib.h>

#include "ec_pool.h"
#include "net.h"

/* All memory is the caller's. The arena may live on the stack, on the heap, or, as here, beside the code. */
static _Alignas(NET_ALIGNMENT) unsigned char arena[NET_ARENA_BYTES];

/* A four, 8 x 8 pixels from ' ' (paper) to 'F' (ink). */
static const char *const rows[8] = {
    "   5F   ",
    "  2F8   ",
    "  BC    ",
    " 4F4 8A ",
    " CFFFFF4",
    " 3448F2 ",
    "    9D  ",
    "    BA  ",
};

int main(void) {
  float image[NET_IMAGE_ELEMENTS], probabilities[NET_PROBABILITIES_ELEMENTS];
  for (int i = 0; i < 64; ++i) {
    const char pixel = rows[i / 8][i % 8];
    image[i] = pixel == ' ' ? 0.0f : (float)(pixel <= '9' ? pixel - '0' : pixel - 'A' + 10) / 16.0f;
  }

  void *const memory = malloc(ec_pool_bytes(2));
  ec_pool *const pool = memory ? ec_pool_init(memory, 2) : NULL; /* without a pool the caller's thread does it all */
  const int status = net_run_pool(net_weights, arena, pool, image, probabilities);
  if (pool) ec_pool_destroy(pool);
  free(memory);
  if (status != NET_OK) {
    fprintf(stderr, "net_run_pool: status %d\n", status);
    return 1;
  }

  int best = 0;
  for (int digit = 1; digit < 10; ++digit)
    if (probabilities[digit] > probabilities[best]) best = digit;
  printf("a %d, probability %.3f\n", best, (double)probabilities[best]);
  return 0;
}
