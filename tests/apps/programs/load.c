/* load LIBRARY PICTURE: opens the library of an AAR and runs digits on 64 floats, on one thread and on two. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int run_pool(const void *weights, void *arena, void *pool, const float *image, float *probabilities);
typedef size_t pool_bytes(int threads);
typedef void *pool_init(void *memory, int threads);

static _Alignas(128) unsigned char arena[1 << 20], memory[1 << 16];

int main(int argc, char **argv) {
  void *const library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : 0;
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  run_pool *const run = (run_pool *)dlsym(library, "digits_run_pool");
  pool_bytes *const size = (pool_bytes *)dlsym(library, "digits_ec_pool_bytes");
  pool_init *const init = (pool_init *)dlsym(library, "digits_ec_pool_init");
  const char *(*const processor)(void) = (const char *(*)(void))dlsym(library, "digits_processor");
  if (processor && processor()) fprintf(stderr, "%s\n", processor());
  float image[64], one[10], two[10];
  FILE *const file = fopen(argv[2], "rb");
  if (!run || !size || !init || size(2) > sizeof memory || !file || fread(image, 4, 64, file) != 64) return 2;
  const int status = run(dlsym(library, "digits_weights"), arena, 0, image, one);
  if (status) return 10 + status;
  if (run(dlsym(library, "digits_weights"), arena, init(memory, 2), image, two)) return 3;
  if (memcmp(one, two, sizeof one)) return 4;
  for (int k = 0; k < 10; ++k) printf("%.9g\n", (double)one[k]);
  return 0;
}
