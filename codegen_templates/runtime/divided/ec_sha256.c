/* ec_sha256.c: SHA-256 and HMAC. */
#include "ec_sha256.h"

#include <string.h>

/* Fractions of the cube roots of the first 64 prime numbers. */
static const uint32_t rounds[64] = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turned(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

static void compress(ec_sha256 *hash) {
  uint32_t w[64], s[8];
  for (int k = 0; k < 16; ++k) {
    const unsigned char *b = hash->block + 4 * k;
    w[k] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
  }
  for (int k = 16; k < 64; ++k) {
    const uint32_t low = turned(w[k - 15], 7) ^ turned(w[k - 15], 18) ^ w[k - 15] >> 3;
    const uint32_t high = turned(w[k - 2], 17) ^ turned(w[k - 2], 19) ^ w[k - 2] >> 10;
    w[k] = w[k - 16] + low + w[k - 7] + high;
  }
  memcpy(s, hash->state, sizeof s);
  for (int k = 0; k < 64; ++k) {
    const uint32_t first = turned(s[4], 6) ^ turned(s[4], 11) ^ turned(s[4], 25);
    const uint32_t second = turned(s[0], 2) ^ turned(s[0], 13) ^ turned(s[0], 22);
    const uint32_t sum = s[7] + first + ((s[4] & s[5]) ^ (~s[4] & s[6])) + rounds[k] + w[k];
    const uint32_t other = second + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += sum;
    s[0] = sum + other;
  }
  for (int k = 0; k < 8; ++k) hash->state[k] += s[k];
  hash->filled = 0;
}

void ec_sha256_begin(ec_sha256 *hash) {
  /* Fractions of the square roots of the first 8 prime numbers. */
  static const uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memset(hash, 0, sizeof *hash);
  memcpy(hash->state, state, sizeof state);
}

void ec_sha256_add(ec_sha256 *hash, const void *data, size_t bytes) {
  const unsigned char *from = data;
  hash->length += bytes;
  for (size_t k = 0; k < bytes; ++k) {
    hash->block[hash->filled++] = from[k];
    if (hash->filled == sizeof hash->block) compress(hash);
  }
}

void ec_sha256_end(ec_sha256 *hash, unsigned char digest[32]) {
  const uint64_t bits = hash->length * 8;
  unsigned char end[8];
  for (int k = 0; k < 8; ++k) end[k] = (unsigned char)(bits >> (56 - 8 * k));
  ec_sha256_add(hash, "\x80", 1);
  while (hash->filled != sizeof hash->block - 8) ec_sha256_add(hash, "", 1);
  ec_sha256_add(hash, end, 8);
  for (int k = 0; k < 32; ++k) digest[k] = (unsigned char)(hash->state[k / 4] >> (24 - 8 * (k % 4)));
}

void ec_sha256_hmac(const void *key, size_t key_bytes, const void *text, size_t bytes, unsigned char proof[32]) {
  unsigned char own[64] = {0}, pad[64];
  ec_sha256 hash;
  if (key_bytes > sizeof own) {
    ec_sha256_begin(&hash);
    ec_sha256_add(&hash, key, key_bytes);
    ec_sha256_end(&hash, own);
  } else {
    memcpy(own, key, key_bytes);
  }
  for (int k = 0; k < 64; ++k) pad[k] = (unsigned char)(own[k] ^ 0x36);
  ec_sha256_begin(&hash);
  ec_sha256_add(&hash, pad, sizeof pad);
  ec_sha256_add(&hash, text, bytes);
  ec_sha256_end(&hash, proof);
  for (int k = 0; k < 64; ++k) pad[k] = (unsigned char)(own[k] ^ 0x5c);
  ec_sha256_begin(&hash);
  ec_sha256_add(&hash, pad, sizeof pad);
  ec_sha256_add(&hash, proof, 32);
  ec_sha256_end(&hash, proof);
}

int ec_sha256_equal(const unsigned char *a, const unsigned char *b, size_t bytes) {
  volatile unsigned found = 0;
  for (size_t k = 0; k < bytes; ++k) found = found | (unsigned)(a[k] ^ b[k]);
  return found == 0;
}
