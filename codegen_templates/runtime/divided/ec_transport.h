/* ec_transport.h: messages between the host of a divided network, rank 0, and its workers, ranks 1 and on.
 *
 * An engine is a structure that begins with ec_transport: TCP (ec_transport_tcp.h), MPI (ec_transport_mpi.h), or one of
 * your own. Messages of one rank to another arrive in order, and each receive takes what one span of a send was: what
 * is sent of a length is received of that length. Workers talk to the host alone.
 *
 * No function allocates. All of them return EC_OK or a status below, and none waits longer than it is told. */
#ifndef EC_TRANSPORT_H
#define EC_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  EC_OK = 0,
  EC_NULL_POINTER = 1,  /* a required argument is null */
  EC_WRONG_CPU = 5,     /* this processor lacks instructions that a part uses */
  EC_NO_MEMORY = 40,
  EC_LATE = 41,         /* a message did not come, or was not taken, in time */
  EC_GONE = 42,         /* the other end closed the connection, or ended */
  EC_BROKEN = 43,       /* the system refused to send or receive */
  EC_GARBAGE = 44,      /* a message of another kind, order, type or length than the one that is due */
  EC_PART_FAILED = 45,  /* a worker told that a part failed; it told the reason in words */
  EC_WRONG_SECRET = 46, /* the other end does not know the secret */
  EC_WRONG_PARTS = 47,  /* the other end has other parts than were built here */
  EC_UNREACHABLE = 48,  /* nobody listens at the address of a worker, or it is none */
  EC_WRONG_RANKS = 49,  /* there are more or fewer ranks than a host and its workers */
  EC_LOST = 50,         /* a worker was lost before: open the network again */
  EC_FULL = 51,         /* as many frames as there is room for are on their way: pull one */
  EC_EMPTY = 52,        /* no frame is on its way */
  EC_BUSY = 53,         /* frames are on their way: pull them first */
  EC_NO_SECRET = 54     /* a secret has at least 16 characters and at most 1000 */
};

#define EC_ANY (-1)     /* receive: from whichever rank has something first */
#define EC_ANY_MOST 28  /* bytes of that at most */
#define EC_FOREVER (-1) /* milliseconds: until it comes */
#define EC_REST 10000   /* milliseconds in which a message of MPI has to come after its envelope is there */

typedef struct {
  const void *data;
  size_t bytes;
} ec_span;

typedef struct ec_transport ec_transport;
struct ec_transport {
  /* The own rank. */
  int (*rank)(ec_transport *transport);
  /* Sends the spans in order, at once where that can be; empty ones are left out. Their memory is free afterwards. */
  int (*send)(ec_transport *transport, int to, const ec_span *spans, int count, int milliseconds);
  /* Receives exactly so many bytes, 1 or more, from rank ``*from``; or EC_ANY_MOST at most from EC_ANY, waiting so long
   * until one has sent all of them, and tells which, also where that one fails. What others have sent by then is kept. */
  int (*receive)(ec_transport *transport, int *from, void *data, size_t bytes, int milliseconds);
  /* Called by all before the first message: returns when the host and the caller have met. */
  int (*barrier)(ec_transport *transport, int milliseconds);
};

/* A status in words. */
const char *ec_transport_told(int status);

/* Milliseconds of a clock that never goes back. */
int64_t ec_transport_now(void);

/* Milliseconds until a time of that clock, 0 where it is over; a negative time never comes. */
int ec_transport_left(int64_t deadline);

#ifdef __cplusplus
}
#endif

#endif
