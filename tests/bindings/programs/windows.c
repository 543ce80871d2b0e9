/* program.exe LIBRARY WEIGHTS INPUT OUTPUT ARENA_BYTES THREADS: one run of the network `digits` in a wheel's library. */
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

typedef int run_function(const void *weights, void *arena, void *pool, const float *image, float *probabilities);
typedef size_t bytes_function(int threads);
typedef void *init_function(void *memory, int threads);
typedef void destroy_function(void *pool);

static void *aligned(size_t bytes) { return _aligned_malloc(bytes, 64); }

static void *content(const char *path, size_t bytes) {
    FILE *file = fopen(path, "rb");
    void *found = aligned(bytes);
    if (!file || fread(found, 1, bytes, file) != bytes)
        exit(3);
    fclose(file);
    return found;
}

int main(int count, char **words) {
    if (count != 7)
        return 1;
    HMODULE library = LoadLibraryA(words[1]);
    if (!library)
        return 2;
    run_function *run = (run_function *)(void *)GetProcAddress(library, "digits_run_pool");
    bytes_function *bytes = (bytes_function *)(void *)GetProcAddress(library, "digits_ec_pool_bytes");
    init_function *init = (init_function *)(void *)GetProcAddress(library, "digits_ec_pool_init");
    destroy_function *destroy = (destroy_function *)(void *)GetProcAddress(library, "digits_ec_pool_destroy");
    if (!run || !bytes || !init || !destroy)
        return 4;
    const int threads = atoi(words[6]);
    void *pool = init(aligned(bytes(threads)), threads);
    if (!pool)
        return 5;
    FILE *file = fopen(words[2], "rb");
    fseek(file, 0, SEEK_END);
    const size_t size = (size_t)ftell(file);
    fclose(file);
    const void *weights = content(words[2], size), *image = content(words[3], 64 * sizeof(float));
    float probabilities[2][10];
    void *arena = aligned((size_t)atoll(words[5]));
    for (int k = 0; k < 2; ++k)
        if (run(weights, arena, k ? pool : NULL, image, probabilities[k]))
            return 6;
    destroy(pool);
    file = fopen(words[4], "wb");
    return fwrite(probabilities, sizeof probabilities, 1, file) == 1 && fclose(file) == 0 ? 0 : 7;
}
