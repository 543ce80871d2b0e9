/* Messages as the text that a chat model was trained on. A template is constant text between messages, which edgec takes
 * from the template of the model's file. Nothing is allocated. */
#ifndef EC_CHAT_H
#define EC_CHAT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Roles of messages; EC_END stands for the answer that is to come. */
enum { EC_SYSTEM = 0, EC_USER = 1, EC_ASSISTANT = 2, EC_END = 3 };

/* What becomes of a message, bits in this order. */
enum {
  EC_AFTER_THOUGHT = 1, /* only what follows the last "</think>" stays, */
  EC_NO_LINES = 2,      /* and of this no line feeds at its start */
  EC_STRIP_START = 4,   /* no white space at the start */
  EC_STRIP_END = 8,     /* no white space at the end */
  EC_NOT_EMPTY = 16     /* a message that is empty then is refused */
};

typedef struct {
  const char *text; /* null where the template has no such order of messages */
  size_t length;
} ec_between;

typedef struct {
  ec_between between[4][4]; /* after nothing, system, user, assistant; before a role or EC_END */
  int changes[3];           /* by role */
} ec_chat_template;

typedef struct {
  int role;
  const char *content; /* UTF-8 */
  size_t length;
} ec_message;

#define EC_REFUSED ((size_t)-1)

/* The text of a conversation up to where the answer begins. The result is its length, of which the first ``capacity``
 * bytes are stored, or EC_REFUSED where the template has no such order of messages. ``plain`` [2 * count] receives where
 * each content begins and ends: control tokens are no part of contents (see ec_encode_parts). */
size_t ec_chat(const ec_chat_template *chat, const ec_message *messages, size_t count, char *text, size_t capacity,
    size_t *plain);

#ifdef __cplusplus
}
#endif
#endif
