/* ec_weights.h: files of weights. Each begins with a head of EC_WEIGHTS_HEAD bytes, whose first EC_WEIGHTS_MARK bytes
 * tell which weights follow: "ecweight", the number of this layout (uint32), the bytes of the head (uint32), those of
 * the weights (uint64), the SHA-256 of the weights, and the digest of the code that they are for. Zeros fill the rest.
 * Numbers are little-endian. There are no addresses in a file: it may lie anywhere that is aligned for the network. */
#ifndef EC_WEIGHTS_H
#define EC_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EC_WEIGHTS_HEAD 4096
#define EC_WEIGHTS_MARK 88
#define EC_WEIGHTS_SIZE 16 /* where the bytes of the weights are in the mark, */
#define EC_WEIGHTS_HASH 24 /* the SHA-256, */
#define EC_WEIGHTS_ABI 56  /* and the digest of the code */

/* What is wrong with a file of so many bytes that begins with ``head``; 0: nothing. ``mark`` is the one expected, of any
 * hash. ``wrong``, ``build`` and ``cut_off`` are the statuses of what is no file of weights, of weights for other code, and
 * of a file of another length. */
static inline int ec_weights_problem(const unsigned char *head, uint64_t bytes, const unsigned char *mark,
                                     uint64_t weights_bytes, int wrong, int build, int cut_off)
{
    if (bytes < EC_WEIGHTS_MARK)
        return cut_off;
    if (memcmp(head, mark, EC_WEIGHTS_SIZE) != 0)
        return wrong;
    if (memcmp(head + EC_WEIGHTS_ABI, mark + EC_WEIGHTS_ABI, EC_WEIGHTS_MARK - EC_WEIGHTS_ABI) != 0)
        return build;
    if (memcmp(head + EC_WEIGHTS_SIZE, mark + EC_WEIGHTS_SIZE, EC_WEIGHTS_HASH - EC_WEIGHTS_SIZE) != 0)
        return wrong;
    return bytes == EC_WEIGHTS_HEAD + weights_bytes ? 0 : cut_off;
}

/* One block of 64 bytes of SHA-256 (FIPS 180-4). */
static inline void ec_sha256_block(uint32_t state[8], const unsigned char *block)
{
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
#define EC_ROTATED(x, n) ((x) >> (n) | (x) << (32 - (n)))
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; ++i) {
        const unsigned char *b = block + 4 * i;
        w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int i = 16; i < 64; ++i)
        w[i] = w[i - 16] + w[i - 7] + (EC_ROTATED(w[i - 15], 7) ^ EC_ROTATED(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (EC_ROTATED(w[i - 2], 17) ^ EC_ROTATED(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; ++i) {
        const uint32_t e = s[4], a = s[0];
        const uint32_t t = s[7] + (EC_ROTATED(e, 6) ^ EC_ROTATED(e, 11) ^ EC_ROTATED(e, 25)) +
                           ((e & s[5]) ^ (~e & s[6])) + k[i] + w[i];
        const uint32_t u = (EC_ROTATED(a, 2) ^ EC_ROTATED(a, 13) ^ EC_ROTATED(a, 22)) +
                           ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t;
        s[0] = t + u;
    }
#undef EC_ROTATED
    for (int i = 0; i < 8; ++i)
        state[i] += s[i];
}

/* Is this the SHA-256 of the bytes? */
static inline int ec_sha256_is(const unsigned char *bytes, size_t count, const unsigned char *expected)
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char last[128] = {0};
    const size_t whole = count / 64 * 64, rest = count - whole, end = rest < 56 ? 64 : 128;
    for (size_t at = 0; at < whole; at += 64)
        ec_sha256_block(state, bytes + at);
    memcpy(last, bytes + whole, rest);
    last[rest] = 0x80;
    for (size_t i = 0; i < 8; ++i)
        last[end - 1 - i] = (unsigned char)((uint64_t)count * 8 >> (8 * i));
    ec_sha256_block(state, last);
    if (end > 64)
        ec_sha256_block(state, last + 64);
    for (size_t i = 0; i < 32; ++i)
        if (expected[i] != (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4))))
            return 0;
    return 1;
}

#endif
