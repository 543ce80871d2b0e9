/* Text to tokens and back, by a table that edgec writes. Nothing is allocated; the table is only read. */
#ifndef EC_TOKENIZER_H
#define EC_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of memory that ec_encode needs for a text of this many bytes, aligned to 8. */
#define EC_ENCODE_BYTES(length) ((size_t)64 * ((size_t)(length) + 8))

enum {
  EC_PARSE_SPECIAL = 1, /* texts of control tokens in the text become these tokens */
  EC_BEGIN = 2          /* a text begins here: the token for that comes first, where the model has one */
};

/* The tokens of a text of UTF-8; bytes that are no UTF-8 stay bytes. The result is the number of tokens, of which the
 * first ``capacity`` are stored. ``scratch`` has EC_ENCODE_BYTES(length) bytes. */
size_t ec_encode(const void *table, const char *text, size_t length, int flags, int32_t *tokens, size_t capacity,
    void *scratch);

/* The same of a text with ``parts`` parts [begin, end) in which texts of control tokens stay texts, one after the other:
 * what people write in a conversation. */
size_t ec_encode_parts(const void *table, const char *text, size_t length, const size_t *plain, size_t parts, int flags,
    int32_t *tokens, size_t capacity, void *scratch);

/* The bytes of a token, not ended by a zero; a null pointer for a token outside the vocabulary. Control tokens have a
 * text only with EC_PARSE_SPECIAL. */
const char *ec_decode(const void *table, int32_t token, int flags, size_t *length);

/* Does this token end a text? Models may have several. */
int ec_is_end(const void *table, int32_t token);

/* The number of leading bytes that are whole characters: the rest waits for the next token. */
size_t ec_whole_characters(const char *text, size_t length);

#ifdef __cplusplus
}
#endif
#endif
