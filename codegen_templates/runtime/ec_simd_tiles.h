/* ec_simd_tiles.h: sums of products on the matrix unit of x86 CPUs (AMX), in bf16.
 *
 * Included behind ec_simd.h, by kernels that use it. A float becomes one bf16, or three whose sum is the float
 * to its last bit or two. With three, a product is the six products of parts that fp32 would notice: the parts
 * left out are within 2^-25 of it. Sums are fp32.
 * A tile in memory is 16 rows of 32 bf16, 1 KB. In one of the left factor, a row has 32 steps of the
 * sum; in one of the right factor, two steps of 16 columns, side by side. Tiles lie in the order
 * [16 rows, step, part] on the left, and [step, part, 16 columns of 32] on the right. */
#ifndef EC_SIMD_TILES_H
#define EC_SIMD_TILES_H

#include <string.h>

#include "ec_cpu.h"

#define EC_TILE 512        /* bf16 of a tile */
#define EC_TILE_ROWS 32    /* rows and columns of the block of sums that is computed at once */
#define EC_TILE_COLUMNS 32

typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes_of_row[16];
    uint8_t rows[16];
} ec_tile_shapes;

/* Before the first product of a thread in a kernel, and after the last one. */
EC_INLINE void ec_tiles_begin(void)
{
    static int asked; /* a kernel may run without the network around it */
    ec_tile_shapes shapes;
    if (!__atomic_load_n(&asked, __ATOMIC_RELAXED)) {
        ec_cpu_may_use_tiles();
        __atomic_store_n(&asked, 1, __ATOMIC_RELAXED);
    }
    memset(&shapes, 0, sizeof shapes);
    shapes.palette = 1;
    for (int i = 0; i < 8; ++i) {
        shapes.bytes_of_row[i] = 64;
        shapes.rows[i] = 16;
    }
    _tile_loadconfig(&shapes);
}

EC_INLINE void ec_tiles_end(void)
{
    _tile_release();
}

/* Some steps of 32 elements of the sum for 32 rows and 32 columns, added to sums [32, 32] or stored there.
 * The tiles of the second 16 rows lie rows_apart bf16 behind those of the first. */
#define EC_LEFT_(part)                                     \
    _tile_loadd(4, left + (part) * EC_TILE, 64);           \
    _tile_loadd(5, left + rows_apart + (part) * EC_TILE, 64)
#define EC_RIGHT_(part)                                    \
    _tile_loadd(6, right + 2 * (part) * EC_TILE, 64);      \
    _tile_loadd(7, right + (2 * (part) + 1) * EC_TILE, 64)
#define EC_PRODUCTS_()            \
    _tile_dpbf16ps(0, 4, 6);      \
    _tile_dpbf16ps(1, 4, 7);      \
    _tile_dpbf16ps(2, 5, 6);      \
    _tile_dpbf16ps(3, 5, 7)
EC_INLINE void ec_tiles_multiply(float *sums, const uint16_t *left, long rows_apart, const uint16_t *right, int steps,
                                 int parts, int adds)
{
    const int row = EC_TILE_COLUMNS * (int)sizeof(float);
    if (adds) {
        _tile_loadd(0, sums, row);
        _tile_loadd(1, sums + 16, row);
        _tile_loadd(2, sums + 16 * EC_TILE_COLUMNS, row);
        _tile_loadd(3, sums + 16 * EC_TILE_COLUMNS + 16, row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int step = 0; step < steps; ++step) {
        if (parts == 3) {
            EC_RIGHT_(2);
            EC_LEFT_(0);
            EC_PRODUCTS_();
            EC_RIGHT_(1);
            EC_PRODUCTS_();
            EC_LEFT_(1);
            EC_PRODUCTS_();
            EC_RIGHT_(0);
            EC_PRODUCTS_();
            EC_LEFT_(2);
            EC_PRODUCTS_();
            EC_LEFT_(0);
            EC_PRODUCTS_();
        } else {
            EC_LEFT_(0);
            EC_RIGHT_(0);
            EC_PRODUCTS_();
        }
        left += parts * EC_TILE;
        right += 2 * parts * EC_TILE;
    }
    _tile_stored(0, sums, row);
    _tile_stored(1, sums + 16, row);
    _tile_stored(2, sums + 16 * EC_TILE_COLUMNS, row);
    _tile_stored(3, sums + 16 * EC_TILE_COLUMNS + 16, row);
}

/* What 16 bf16 leave of 16 floats. */
EC_INLINE __m512 ec_rest_(__m512 x, __m256i part)
{
    return x - (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(part), 16);
}

/* Elements first to first + count of a row of the left factor, a multiple of 16 of them; tiles begins that row. */
EC_INLINE void ec_tiles_left(uint16_t *tiles, const float *s, int first, int count, int parts)
{
    for (int k = 0; k < count; k += 16) {
        uint16_t *const to = tiles + (first + k) / 32 * parts * EC_TILE + (first + k) % 32;
        __m512 rest = (__m512)ec_load(s + k);
        for (int part = 0; part < parts; ++part) {
            const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(rest);
            _mm256_storeu_si256((__m256i *)(to + part * EC_TILE), rounded);
            rest = ec_rest_(rest, rounded);
        }
    }
}

/* A row of a tile, two steps of the sum for 16 columns side by side, and those of the other parts behind it.
 * Numbers are finite. */
EC_INLINE void ec_tiles_right(uint16_t *row, ec_vf first, ec_vf second, int parts)
{
    for (int part = 0; part < parts; ++part) {
        const ec_vi a = ((ec_vi)first + 0x8000) & (int32_t)0xffff0000; /* to the nearest bf16 */
        const ec_vi b = ((ec_vi)second + 0x8000) & (int32_t)0xffff0000;
        _mm512_store_si512(row + 2 * part * EC_TILE, (__m512i)((ec_vi)((ec_vu_)a >> 16) | b));
        first -= (ec_vf)a;
        second -= (ec_vf)b;
    }
}

#endif
