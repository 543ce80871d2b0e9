#include "ec_chat.h"

#include <string.h>

/* The bytes of the white space at the start of a text; 0 where there is none. What Python calls white space. */
static size_t space(const unsigned char *text, size_t length) {
  const unsigned char c = length ? text[0] : 'x';
  if ((c >= 9 && c <= 13) || (c >= 28 && c <= 32)) return 1;
  if (c == 0xc2 && length > 1 && (text[1] == 0x85 || text[1] == 0xa0)) return 2;
  if (length < 3) return 0;
  if (c == 0xe2 && text[1] == 0x80) {
    const unsigned char last = text[2];
    return (last >= 0x80 && last <= 0x8a) || last == 0xa8 || last == 0xa9 || last == 0xaf ? 3 : 0;
  }
  return (c == 0xe1 && text[1] == 0x9a && text[2] == 0x80) || (c == 0xe2 && text[1] == 0x81 && text[2] == 0x9f)
      || (c == 0xe3 && text[1] == 0x80 && text[2] == 0x80) ? 3 : 0;
}

static void change(ec_message *m, int changes) {
  static const char thought[] = "</think>";
  const size_t size = sizeof thought - 1;
  if (changes & EC_AFTER_THOUGHT) {
    for (size_t at = m->length; at >= size; --at) {
      if (memcmp(m->content + at - size, thought, size)) continue;
      m->content += at;
      m->length -= at;
      while (changes & EC_NO_LINES && m->length && m->content[0] == '\n') ++m->content, --m->length;
      break;
    }
  }
  for (size_t n; changes & EC_STRIP_START && (n = space((const unsigned char *)m->content, m->length)) > 0;) {
    m->content += n;
    m->length -= n;
  }
  for (size_t n = 1; changes & EC_STRIP_END && n && m->length;) {
    for (n = 3; n > 0; --n) {
      if (n <= m->length && space((const unsigned char *)m->content + m->length - n, n) == n) break;
    }
    m->length -= n;
  }
}

static size_t put(char *text, size_t capacity, size_t at, const char *from, size_t length) {
  if (at < capacity && length) memcpy(text + at, from, length < capacity - at ? length : capacity - at);
  return at + length;
}

size_t ec_chat(const ec_chat_template *chat, const ec_message *messages, size_t count, char *text, size_t capacity,
    size_t *plain) {
  size_t at = 0;
  int before = 0;
  for (size_t k = 0; k <= count; ++k) {
    const int role = k < count ? messages[k].role : EC_END;
    if (role < 0 || role > EC_END || (k < count && role == EC_END)) return EC_REFUSED;
    const ec_between between = chat->between[before][role];
    if (!between.text) return EC_REFUSED;
    at = put(text, capacity, at, between.text, between.length);
    if (k == count) break;
    ec_message m = messages[k];
    change(&m, chat->changes[role]);
    if (!m.length && chat->changes[role] & EC_NOT_EMPTY) return EC_REFUSED;
    plain[2 * k] = at;
    at = put(text, capacity, at, m.content, m.length);
    plain[2 * k + 1] = at;
    before = role + 1;
  }
  return at;
}
