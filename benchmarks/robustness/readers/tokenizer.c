/* libFuzzer: texts, tokens and stop strings through the tokenizer, the stream and the chat template of a model. */
#include <stdlib.h>
#include <string.h>

#include "ec_chat.h"
#include "ec_stream.h"
#include "ec_tokenizer.h"

extern const unsigned char fuzz_table[];

static void *block(size_t bytes) { /* exactly so many bytes, so that one more is found */
  void *memory = malloc(bytes ? bytes : 1);
  if (!memory) abort();
  return memory;
}

static size_t encoded(const char *text, size_t length, const size_t *plain, size_t parts, int flags, int32_t **tokens) {
  void *scratch = block(EC_ENCODE_BYTES(length));
  const size_t count = ec_encode_parts(fuzz_table, text, length, plain, parts, flags, NULL, 0, scratch);
  *tokens = block(count * sizeof **tokens);
  if (ec_encode_parts(fuzz_table, text, length, plain, parts, flags, *tokens, count, scratch) != count) abort();
  free(scratch);
  return count;
}

static void streamed(const int32_t *tokens, size_t count, const char *stop) {
  const char *const stops[1] = {stop}, *shown;
  const size_t bytes = EC_STREAM_BYTES(strlen(stop));
  size_t length;
  ec_stream stream = {fuzz_table, stops, 1, block(bytes), bytes, 0, EC_GOING};
  for (size_t k = 0; k < count; ++k) {
    if (ec_stream_put(&stream, tokens[k], &shown, &length) != EC_GOING) break;
    for (size_t i = 0; i < length; ++i) (void)*(const volatile char *)(shown + i);
  }
  ec_stream_finish(&stream, &shown, &length);
  free(stream.memory);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  if (size < 3) return 0;
  const int flags = data[0] & 3;
  char stop[9] = "";
  const size_t stop_length = data[1] % 9 < size - 2 ? data[1] % 9 : size - 2;
  memcpy(stop, data + 2, stop_length);
  const size_t length = size - 2;
  char *text = block(length);
  memcpy(text, data + 2, length);
  int32_t *tokens;
  const size_t count = encoded(text, length, NULL, 0, flags, &tokens);
  streamed(tokens, count, stop);
  free(tokens);
  for (size_t k = 0; k + 4 <= length; k += 4) { /* the same bytes as numbers of tokens */
    int32_t token;
    size_t bytes = 0;
    memcpy(&token, text + k, 4);
    const char *said = ec_decode(fuzz_table, token, flags, &bytes);
    for (size_t i = 0; said && i < bytes; ++i) (void)*(const volatile char *)(said + i);
    (void)ec_is_end(fuzz_table, token);
    streamed(&token, 1, stop);
  }
  /* A conversation of two messages, cut where the data say. */
  const size_t cut = data[0] % (length + 1);
  const ec_chat_template chat = {{{{"", 0}, {"S", 1}, {"<u>", 3}, {NULL, 0}}, {{NULL, 0}, {NULL, 0}, {"<u>", 3}, {NULL, 0}},
                                  {{NULL, 0}, {NULL, 0}, {"x", 1}, {"</s>", 4}}, {{NULL, 0}, {"", 0}, {"<u>", 3}, {"", 0}}},
                                 {data[1] & 31, data[0] & 31, 3}};
  const ec_message messages[2] = {{EC_SYSTEM, text, cut}, {data[1] % 3, text + cut, length - cut}};
  size_t plain[4];
  const size_t whole = ec_chat(&chat, messages, 2, NULL, 0, plain);
  if (whole != EC_REFUSED) {
    char *said = block(whole);
    if (ec_chat(&chat, messages, 2, said, whole, plain) != whole) abort();
    encoded(said, whole, plain, 2, flags, &tokens);
    free(tokens);
    free(said);
  }
  free(text);
  return 0;
}
