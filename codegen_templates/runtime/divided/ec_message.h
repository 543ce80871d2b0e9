/* ec_message.h: heads of messages between the host of a divided network and its workers.
 *
 * Both sides know before what each message has to be, so a head carries no types, only a checksum of them. The layout is
 * that of edgec's own workers, 28 bytes with the most significant first: "EDG2", kind (2), part (2), run of the part (8),
 * bytes that follow (8), checksum of their types (4). The outputs of a run are followed by a tail of 12 bytes, "ENDS" and
 * run (8): an answer that has lost bytes, or has some too many, would be made whole by those of the next one. */
#ifndef EC_MESSAGE_H
#define EC_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  EC_RUN = 1,    /* to a worker: run a part; its inputs follow */
  EC_DONE = 2,   /* from a worker: the outputs of the part follow */
  EC_FAILED = 3, /* from a worker: why the part failed follows in words */
  EC_ASK = 4,    /* to a worker: its memory is asked for */
  EC_TOLD = 5,   /* from a worker: the greatest resident bytes of its process so far */
  EC_RESET = 6,  /* to a worker: states begin anew */
  EC_END = 7     /* to a worker: nothing follows */
};

#define EC_HEAD_BYTES 28
#define EC_TAIL_BYTES 12
#define EC_MOST_WORDS 2000 /* bytes of a reason in words */

typedef struct {
  uint32_t kind, part;
  uint64_t run, length;
  uint32_t types;
} ec_head;

void ec_message_pack(unsigned char bytes[EC_HEAD_BYTES], const ec_head *head);

/* 1 for a head, 0 for bytes that are none. */
int ec_message_unpack(ec_head *head, const unsigned char bytes[EC_HEAD_BYTES]);

void ec_message_pack_tail(unsigned char bytes[EC_TAIL_BYTES], uint64_t run);

/* 1 for the tail of an answer to this run of a part. */
int ec_message_is_tail(const unsigned char bytes[EC_TAIL_BYTES], uint64_t run);

/* 1 for a head that is the one that is due, in everything. */
int ec_message_is(const ec_head *head, uint32_t kind, uint32_t part, uint64_t run, uint64_t length, uint32_t types);

#ifdef __cplusplus
}
#endif

#endif
