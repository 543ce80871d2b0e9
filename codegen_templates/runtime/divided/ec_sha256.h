/* ec_sha256.h: SHA-256 (FIPS 180-4), and HMAC (RFC 2104) with it. Nothing is allocated. */
#ifndef EC_SHA256_H
#define EC_SHA256_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint32_t state[8];
  unsigned char block[64];
  size_t filled;
  uint64_t length;
} ec_sha256;

void ec_sha256_begin(ec_sha256 *hash);
void ec_sha256_add(ec_sha256 *hash, const void *data, size_t bytes);
void ec_sha256_end(ec_sha256 *hash, unsigned char digest[32]);

/* HMAC-SHA256 of a text. */
void ec_sha256_hmac(const void *key, size_t key_bytes, const void *text, size_t bytes, unsigned char proof[32]);

/* 1 where so many bytes are equal; it takes as long whatever the difference. */
int ec_sha256_equal(const unsigned char *a, const unsigned char *b, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
