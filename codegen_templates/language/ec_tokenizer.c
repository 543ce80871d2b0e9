#include "ec_tokenizer.h"

#include <string.h>

/* Fields of the table, in 32-bit words; places are in bytes from its start. */
enum {
  VOCABULARY = 2, FLAGS = 3, SPLITTER = 4, BOS = 5, UNKNOWN = 7, STARTS = 8, BYTES = 9, BYTE_TOKENS = 10, PAIRS = 11,
  PAIR_MASK = 12, TEXTS = 13, TEXT_MASK = 14, SPECIALS = 15, SPECIAL_COUNT = 16, LETTERS = 17, NUMBERS = 19, SPACES = 21,
  KINDS = 23, ENDS = 24, END_COUNT = 25
};
enum { HAS_CHARACTERS = 1, PREFIX_SPACE = 2, ADD_BOS = 4, WHOLE_PIECES = 8 };
enum { SPLIT_NOT, SPLIT_GPT2, SPLIT_DIGITS, SPLIT_LLAMA3, SPLIT_QWEN2 };
enum { CONTROL = 3 };
#define NONE 0xffffffffu

typedef struct {
  uint32_t rank, at, left, right;
} merge;

typedef struct {
  uint32_t token, previous, next, start;
} symbol;

typedef struct {
  const unsigned char *table;
  const uint32_t *words;
  int32_t *tokens;
  size_t capacity, count;
  symbol *symbols;
  merge *heap;
  size_t waiting;
} encoder;

static const uint32_t *words_at(const encoder *e, int field) {
  return (const uint32_t *)(const void *)(e->table + e->words[field]);
}

static void put(encoder *e, uint32_t token) {
  if (e->count < e->capacity) e->tokens[e->count] = (int32_t)token;
  e->count += 1;
}

static uint32_t mixed(uint32_t a, uint32_t b) {
  uint32_t h = a * 0x9e3779b1u ^ (b * 0x85ebca6bu + 0x7f4a7c15u);
  h ^= h >> 15;
  h *= 0x2c1b3c6du;
  return h ^ h >> 13;
}

/* The merged token of two neighbors, and its rank; NONE where they do not merge. */
static uint32_t merged(const encoder *e, uint32_t left, uint32_t right, uint32_t *rank) {
  const uint32_t *pairs = words_at(e, PAIRS);
  for (uint32_t at = mixed(left, right) & e->words[PAIR_MASK];; at = (at + 1) & e->words[PAIR_MASK]) {
    const uint32_t *entry = pairs + 4 * (size_t)at;
    if (entry[0] == NONE) return NONE;
    if (entry[0] == left && entry[1] == right) {
      *rank = entry[2];
      return entry[3];
    }
  }
}

static size_t token_length(const encoder *e, uint32_t token) {
  const uint32_t *starts = words_at(e, STARTS);
  return starts[token + 1] - starts[token];
}

static const unsigned char *token_text(const encoder *e, uint32_t token) {
  return e->table + e->words[BYTES] + words_at(e, STARTS)[token];
}

/* The token with this text; NONE where there is none. */
static uint32_t token_of(const encoder *e, const unsigned char *text, size_t length) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < length; ++i) h = (h ^ text[i]) * 16777619u;
  const uint32_t *texts = words_at(e, TEXTS);
  for (uint32_t at = h & e->words[TEXT_MASK];; at = (at + 1) & e->words[TEXT_MASK]) {
    if (texts[at] == NONE) return NONE;
    if (token_length(e, texts[at]) == length && !memcmp(token_text(e, texts[at]), text, length)) return texts[at];
  }
}

/* ---- characters */

static size_t character(const unsigned char *text, size_t length, uint32_t *code) {
  const unsigned char c = text[0];
  const size_t size = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
  *code = c;
  if (size == 1) return 1;
  if (size && size <= length) {
    uint32_t value = c & (0x7fu >> size);
    size_t i = 1;
    for (; i < size && (text[i] & 0xc0) == 0x80; ++i) value = value << 6 | (text[i] & 0x3f);
    const uint32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
    if (i == size && value >= least && value <= 0x10ffff && (value < 0xd800 || value > 0xdfff)) {
      *code = value;
      return size;
    }
  }
  *code = NONE; /* a byte that is no character */
  return 1;
}

size_t ec_whole_characters(const char *text, size_t length) {
  const unsigned char *bytes = (const unsigned char *)text;
  for (size_t back = 1; back < 4 && back <= length; ++back) {
    const unsigned char c = bytes[length - back];
    if ((c & 0xc0) == 0x80) continue;
    const size_t size = c >= 0xf0 && c < 0xf5 ? 4 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xc2 && c < 0xe0 ? 2 : 1;
    return size > back ? length - back : length;
  }
  return length;
}

/* Is a character in one of the ranges of a field, which are sorted? */
static int is_in(const encoder *e, int field, uint32_t code) {
  const uint32_t *ranges = words_at(e, field);
  uint32_t low = 0, high = e->words[field + 1];
  if (code == NONE) return 0;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (code > ranges[2 * middle + 1]) low = middle + 1;
    else high = middle;
  }
  return low < e->words[field + 1] && code >= ranges[2 * low];
}

enum { LETTER, NUMBER, SPACE, OTHER, END };

static int class_of(const encoder *e, const unsigned char *text, size_t length, size_t *size, uint32_t *code) {
  if (!length) return END;
  *size = character(text, length, code);
  if (is_in(e, LETTERS, *code)) return LETTER;
  if (is_in(e, NUMBERS, *code)) return NUMBER;
  return is_in(e, SPACES, *code) ? SPACE : OTHER;
}

/* Bytes of characters of one class from ``at`` on. */
static size_t run_of(const encoder *e, int kind, const unsigned char *text, size_t at, size_t length) {
  size_t size, end = at;
  uint32_t code;
  while (class_of(e, text + end, length - end, &size, &code) == kind) end += size;
  return end;
}

/* ---- pieces: where a text is split before anything is merged */

/* The length of 's, 't, 're, 've, 'm, 'll or 'd at the start of a text, or 0. */
static size_t contraction(const unsigned char *text, size_t length, int any_case) {
  if (length < 2 || text[0] != '\'') return 0;
  if (any_case && length > 2 && text[1] == 0xc5 && text[2] == 0xbf) return 3; /* the long s */
  unsigned char a = text[1], b = length > 2 ? text[2] : 0;
  if (any_case) {
    if (a >= 'A' && a <= 'Z') a = (unsigned char)(a + 32);
    if (b >= 'A' && b <= 'Z') b = (unsigned char)(b + 32);
  }
  if ((a == 'r' || a == 'v') && b == 'e') return 3;
  if (a == 'l' && b == 'l') return 3;
  return a == 's' || a == 't' || a == 'm' || a == 'd' ? 2 : 0;
}

static int is_line_end(unsigned char c) { return c == '\r' || c == '\n'; }

/* The end of a piece of white space; its last character goes to the word behind it. */
static size_t spaces_end(const encoder *e, const unsigned char *text, size_t length) {
  size_t size = 0, end = 0, last = 0;
  uint32_t code;
  while (class_of(e, text + end, length - end, &size, &code) == SPACE) {
    last = end;
    end += size;
  }
  if (end == length || last == 0) return end;
  if (e->words[SPLITTER] == SPLIT_DIGITS && class_of(e, text + end, length - end, &size, &code) == NUMBER) return end;
  return last;
}

/* GPT-2's pieces; with ``alone``, each number is a piece of its own, and texts end before it. */
static size_t piece_gpt2(const encoder *e, const unsigned char *text, size_t length, int alone) {
  size_t size = 0, next = 0;
  uint32_t code;
  const size_t short_form = contraction(text, length, 0);
  if (short_form) return short_form;
  int kind = class_of(e, text, length, &size, &code);
  if (alone && kind == NUMBER) return size;
  if (text[0] == ' ') {
    const int after = class_of(e, text + 1, length - 1, &next, &code);
    if (after != SPACE && after != END && !(alone && after == NUMBER)) return run_of(e, after, text, 1, length);
  }
  return kind == SPACE ? spaces_end(e, text, length) : run_of(e, kind, text, 0, length);
}

/* The pieces of Llama 3 and Qwen 2, which differ in the digits of a piece. */
static size_t piece_llama3(const encoder *e, const unsigned char *text, size_t length, int digits) {
  size_t size = 0, next = 0;
  uint32_t code;
  const size_t short_form = contraction(text, length, 1);
  if (short_form) return short_form;
  const int kind = class_of(e, text, length, &size, &code);
  if (kind == LETTER) return run_of(e, LETTER, text, 0, length);
  if (kind == NUMBER) {
    size_t end = 0;
    for (int i = 0; i < digits && class_of(e, text + end, length - end, &size, &code) == NUMBER; ++i) end += size;
    return end;
  }
  if (!is_line_end(text[0]) && class_of(e, text + size, length - size, &next, &code) == LETTER) {
    return run_of(e, LETTER, text, size, length);
  }
  const size_t first = text[0] == ' ' ? 1 : 0;
  if (class_of(e, text + first, length - first, &next, &code) == OTHER) {
    size_t end = run_of(e, OTHER, text, first, length);
    while (end < length && is_line_end(text[end])) ++end;
    return end;
  }
  const size_t end = run_of(e, SPACE, text, 0, length);
  for (size_t i = end; i > 0; --i) {
    if (is_line_end(text[i - 1])) return i;
  }
  return spaces_end(e, text, length);
}

static size_t piece_end(const encoder *e, const unsigned char *text, size_t length) {
  size_t end = length;
  switch (e->words[SPLITTER]) {
    case SPLIT_GPT2: end = piece_gpt2(e, text, length, 0); break;
    case SPLIT_DIGITS: end = piece_gpt2(e, text, length, 1); break;
    case SPLIT_LLAMA3: end = piece_llama3(e, text, length, 3); break;
    case SPLIT_QWEN2: end = piece_llama3(e, text, length, 1); break;
    default: break;
  }
  return end ? end : length;
}

/* ---- merges: the pair of least rank first, the leftmost of equals */

static int is_before(const merge *a, const merge *b) {
  return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(encoder *e, merge m) {
  size_t at = e->waiting++;
  while (at && is_before(&m, &e->heap[(at - 1) / 2])) {
    e->heap[at] = e->heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  e->heap[at] = m;
}

static merge pop(encoder *e) {
  const merge first = e->heap[0], m = e->heap[--e->waiting];
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= e->waiting) break;
    if (child + 1 < e->waiting && is_before(&e->heap[child + 1], &e->heap[child])) ++child;
    if (!is_before(&e->heap[child], &m)) break;
    e->heap[at] = e->heap[child];
    at = child;
  }
  e->heap[at] = m;
  return first;
}

static void offer(encoder *e, uint32_t left) {
  const uint32_t right = e->symbols[left].next;
  uint32_t rank = 0;
  if (right == NONE || e->symbols[left].token == NONE || e->symbols[right].token == NONE) return;
  if (merged(e, e->symbols[left].token, e->symbols[right].token, &rank) == NONE) return;
  push(e, (merge){rank, left, e->symbols[left].token, e->symbols[right].token});
}

/* Merge ``count`` symbols; the first stays the first. */
static void merge_all(encoder *e, uint32_t count) {
  e->waiting = 0;
  for (uint32_t i = 0; i + 1 < count; ++i) offer(e, i);
  while (e->waiting) {
    const merge m = pop(e);
    symbol *left = &e->symbols[m.at];
    if (left->token != m.left || left->next == NONE || e->symbols[left->next].token != m.right) continue;
    uint32_t rank = 0;
    symbol *right = &e->symbols[left->next];
    left->token = merged(e, m.left, m.right, &rank);
    right->token = NONE;
    left->next = right->next;
    if (left->next != NONE) e->symbols[left->next].previous = m.at;
    if (left->previous != NONE) offer(e, left->previous);
    offer(e, m.at);
  }
}

static void symbol_at(encoder *e, uint32_t at, uint32_t token, size_t start) {
  e->symbols[at] = (symbol){token, at ? at - 1 : NONE, NONE, (uint32_t)start};
  if (at) e->symbols[at - 1].next = at;
}

/* A piece whose symbols are bytes; bytes that the vocabulary does not have are left out. */
static void encode_bytes(encoder *e, const unsigned char *text, size_t length) {
  if (e->words[FLAGS] & WHOLE_PIECES) {
    const uint32_t whole = token_of(e, text, length);
    if (whole != NONE) {
      put(e, whole);
      return;
    }
  }
  const uint32_t *bytes = words_at(e, BYTE_TOKENS);
  uint32_t count = 0;
  for (size_t i = 0; i < length; ++i) {
    if (bytes[text[i]] != NONE) symbol_at(e, count++, bytes[text[i]], i);
  }
  if (!count) return;
  merge_all(e, count);
  for (uint32_t at = 0; at != NONE; at = e->symbols[at].next) put(e, e->symbols[at].token);
}

/* A text whose symbols are characters; those without a token become bytes. */
static void encode_characters(encoder *e, const unsigned char *text, size_t length, int with_space) {
  uint32_t count = 0, code;
  static const unsigned char space = ' ';
  if (with_space) symbol_at(e, count++, token_of(e, &space, 1), 0);
  for (size_t i = 0, size; i < length; i += size) {
    size = character(text + i, length - i, &code);
    const int is_space = code == 0x2581; /* the mark that vocabularies write for a space */
    symbol_at(e, count++, is_space ? token_of(e, &space, 1) : code == NONE ? NONE : token_of(e, text + i, size), i);
  }
  if (!count) return;
  merge_all(e, count);
  const uint32_t *bytes = words_at(e, BYTE_TOKENS);
  for (uint32_t at = 0; at != NONE; at = e->symbols[at].next) {
    if (e->symbols[at].token != NONE) {
      put(e, e->symbols[at].token);
      continue;
    }
    const size_t start = e->symbols[at].start, size = character(text + start, length - start, &code);
    for (size_t i = 0; i < size; ++i) {
      const uint32_t token = bytes[text[start + i]] != NONE ? bytes[text[start + i]] : e->words[UNKNOWN];
      if (token != NONE) put(e, token);
      if (bytes[text[start + i]] == NONE) break;
    }
  }
}

static void encode_text(encoder *e, const unsigned char *text, size_t length) {
  if (!length) return;
  if (e->words[FLAGS] & HAS_CHARACTERS) {
    encode_characters(e, text, length, (e->words[FLAGS] & PREFIX_SPACE) != 0);
    return;
  }
  while (length) {
    const size_t end = piece_end(e, text, length);
    encode_bytes(e, text, end);
    text += end;
    length -= end;
  }
}

/* The special token at the start of a text, the longest of several; NONE where there is none. Control tokens end within
 * the first ``most`` bytes. */
static uint32_t special_at(const encoder *e, const unsigned char *text, size_t length, size_t most, int flags) {
  const uint32_t *specials = words_at(e, SPECIALS);
  const unsigned char *kinds = e->table + e->words[KINDS];
  for (uint32_t k = 0; k < e->words[SPECIAL_COUNT]; ++k) {
    const uint32_t token = specials[k];
    const size_t size = token_length(e, token);
    if (kinds[token] == CONTROL && (!(flags & EC_PARSE_SPECIAL) || size > most)) continue;
    if (size <= length && !memcmp(token_text(e, token), text, size)) return token;
  }
  return NONE;
}

size_t ec_encode_parts(const void *table, const char *text, size_t length, const size_t *plain, size_t parts, int flags,
    int32_t *tokens, size_t capacity, void *scratch) {
  const unsigned char *bytes = (const unsigned char *)text;
  encoder e = {table, table, tokens, capacity, 0, scratch, 0, 0};
  e.heap = (merge *)(void *)((unsigned char *)scratch + sizeof(symbol) * (length + 8));
  if ((flags & EC_BEGIN) && (e.words[FLAGS] & ADD_BOS) && e.words[BOS] != NONE) put(&e, e.words[BOS]);
  size_t start = 0;
  for (size_t i = 0, part = 0; i < length;) {
    while (part < parts && (plain[2 * part + 1] <= i || plain[2 * part] == plain[2 * part + 1])) ++part;
    const size_t next = part < parts ? plain[2 * part] : length;
    const uint32_t token = special_at(&e, bytes + i, length - i, next > i ? next - i : 0, flags);
    if (token == NONE) {
      ++i;
      continue;
    }
    encode_text(&e, bytes + start, i - start);
    put(&e, token);
    i += token_length(&e, token);
    start = i;
  }
  encode_text(&e, bytes + start, length - start);
  return e.count;
}

size_t ec_encode(const void *table, const char *text, size_t length, int flags, int32_t *tokens, size_t capacity,
    void *scratch) {
  return ec_encode_parts(table, text, length, 0, 0, flags, tokens, capacity, scratch);
}

const char *ec_decode(const void *table, int32_t token, int flags, size_t *length) {
  encoder e = {table, table, 0, 0, 0, 0, 0, 0};
  *length = 0;
  if (token < 0 || (uint32_t)token >= e.words[VOCABULARY]) return 0;
  const unsigned char *kinds = e.table + e.words[KINDS];
  if (kinds[token] != CONTROL || (flags & EC_PARSE_SPECIAL)) *length = token_length(&e, (uint32_t)token);
  return (const char *)token_text(&e, (uint32_t)token);
}

int ec_is_end(const void *table, int32_t token) {
  encoder e = {table, table, 0, 0, 0, 0, 0, 0};
  const uint32_t *ends = words_at(&e, ENDS);
  for (uint32_t k = 0; k < e.words[END_COUNT]; ++k) {
    if (ends[k] == (uint32_t)token) return 1;
  }
  return 0;
}
