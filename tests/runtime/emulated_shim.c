/* Calls functions of simd_shim.c in a processor that is emulated: test_simd_emulated.py writes a call, reads what came of it.
 *
 * A call: bytes of a name with its 0, the name; how many operands; of each a kind (0 an array, 1 an integer, 2 a float)
 * and, of an array, its bytes; then its content. The answer: every array, in order. All counts are of 64 bits. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 8 };

/* AArch64 counts integers and floats each by themselves, so that any order of them is called like this. */
typedef int64_t called(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, float, float);

static int64_t take(void *to, int64_t bytes)
{
    if (fread(to, 1, (size_t)bytes, stdin) != (size_t)bytes)
        exit(0);
    return bytes;
}

int main(void)
{
    for (;;) {
        char name[64];
        int64_t count, x[MOST] = {0}, bytes[MOST] = {0}, integers = 0, floats = 0;
        float y[2] = {0};
        void *arrays[MOST] = {0};
        take(&count, 8), take(name, count), take(&count, 8);
        for (int64_t k = 0; k < count; ++k) {
            int64_t kind;
            take(&kind, 8);
            if (kind == 0) {
                take(&bytes[k], 8);
                take(arrays[k] = malloc((size_t)bytes[k] + 1), bytes[k]);
                x[integers++] = (int64_t)arrays[k];
            } else if (kind == 1) {
                take(&x[integers++], 8);
            } else {
                take(&y[floats++], 4);
            }
        }
        called *const f = (called *)dlsym(RTLD_DEFAULT, name);
        const int64_t given = f ? f(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], y[0], y[1]) : -1;
        fwrite(&given, 8, 1, stdout);
        for (int64_t k = 0; k < count; ++k) {
            fwrite(arrays[k], 1, (size_t)bytes[k], stdout);
            free(arrays[k]);
        }
        fflush(stdout);
    }
}
