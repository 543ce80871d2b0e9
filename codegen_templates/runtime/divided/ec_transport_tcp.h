/* ec_transport_tcp.h: a transport over TCP, one connection to each worker. Generated C needs no library for it.
 *
 * A connection begins with proofs that both ends know the secret, which itself is never sent: each answers the other's
 * random number with an HMAC of both (SHA-256), and of what parts the worker has. Messages are not encrypted afterwards:
 * use a network that you trust, or a tunnel. */
#ifndef EC_TRANSPORT_TCP_H
#define EC_TRANSPORT_TCP_H

#include "ec_transport.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EC_TCP_MOST_WORKERS 64
#define EC_TCP_MOST_ADDRESS 80
#define EC_TCP_GREETING 10000 /* milliseconds in which a connection has to begin */

typedef struct {
  ec_transport transport; /* the first member: &tcp.transport is what other functions take */
  int own_rank, ranks, server;
  int ends[EC_TCP_MOST_WORKERS + 1]; /* by rank */
  struct {
    size_t bytes; /* that have come of what is received from any rank */
    unsigned char data[EC_ANY_MOST];
  } begun[EC_TCP_MOST_WORKERS + 1];
} ec_tcp;

/* The host: connects to every worker at its address, "HOST:PORT". ``digests`` are those of the workers' parts, 32 bytes
 * each. Where it fails, ``*lost`` is the rank of the worker, and nothing is left open. */
int ec_transport_tcp_connect(ec_tcp *tcp, int workers, const char *const *addresses, const char *secret,
                             const unsigned char *digests, int *lost);

/* A worker: listens at "HOST:PORT", of this machine alone where it is null: 127.0.0.1 and any port that is free. Port 0
 * is any that is free, too: ec_transport_tcp_address has the one that was found, as "HOST:PORT". */
int ec_transport_tcp_listen(ec_tcp *tcp, int rank, const char *address);
void ec_transport_tcp_address(const ec_tcp *tcp, char address[EC_TCP_MOST_ADDRESS]);

/* A worker: waits for the next host and its proof. ``digest`` is that of the parts here. A status is about that
 * connection alone, which is closed then. */
int ec_transport_tcp_accept(ec_tcp *tcp, const char *secret, const unsigned char digest[32]);

/* Closes the connections; of a worker, it can accept others. */
void ec_transport_tcp_hang_up(ec_tcp *tcp);

/* Closes everything. */
void ec_transport_tcp_close(ec_tcp *tcp);

#ifdef __cplusplus
}
#endif

#endif
