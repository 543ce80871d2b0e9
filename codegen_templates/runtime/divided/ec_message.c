/* ec_message.c: heads and tails of messages, byte by byte. */
#include "ec_message.h"

#include <string.h>

static void put(unsigned char *to, uint64_t value, int bytes) {
  for (int k = 0; k < bytes; ++k) to[k] = (unsigned char)(value >> (8 * (bytes - 1 - k)));
}

static uint64_t got(const unsigned char *from, int bytes) {
  uint64_t value = 0;
  for (int k = 0; k < bytes; ++k) value = value << 8 | from[k];
  return value;
}

void ec_message_pack(unsigned char bytes[EC_HEAD_BYTES], const ec_head *head) {
  memcpy(bytes, "EDG2", 4);
  put(bytes + 4, head->kind, 2);
  put(bytes + 6, head->part, 2);
  put(bytes + 8, head->run, 8);
  put(bytes + 16, head->length, 8);
  put(bytes + 24, head->types, 4);
}

int ec_message_unpack(ec_head *head, const unsigned char bytes[EC_HEAD_BYTES]) {
  head->kind = (uint32_t)got(bytes + 4, 2);
  head->part = (uint32_t)got(bytes + 6, 2);
  head->run = got(bytes + 8, 8);
  head->length = got(bytes + 16, 8);
  head->types = (uint32_t)got(bytes + 24, 4);
  return memcmp(bytes, "EDG2", 4) == 0;
}

void ec_message_pack_tail(unsigned char bytes[EC_TAIL_BYTES], uint64_t run) {
  memcpy(bytes, "ENDS", 4);
  put(bytes + 4, run, 8);
}

int ec_message_is_tail(const unsigned char bytes[EC_TAIL_BYTES], uint64_t run) {
  return memcmp(bytes, "ENDS", 4) == 0 && got(bytes + 4, 8) == run;
}

int ec_message_is(const ec_head *head, uint32_t kind, uint32_t part, uint64_t run, uint64_t length, uint32_t types) {
  return head->kind == kind && head->part == part && head->run == run && head->length == length && head->types == types;
}
