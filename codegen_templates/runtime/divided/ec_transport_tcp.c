/* ec_transport_tcp.c: a transport over TCP, by sockets that do not block and poll(). */
#define _POSIX_C_SOURCE 200809L
#include "ec_transport_tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ec_sha256.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

enum { NONCE = 32, MAGIC = 4, LEAST_SECRET = 16, MOST_SECRET = 1000, SPANS = 16 };

static int64_t deadline_in(int milliseconds) { return milliseconds < 0 ? -1 : ec_transport_now() + milliseconds; }

static int is_over(int64_t deadline) { return deadline >= 0 && ec_transport_left(deadline) == 0; }

/* Waits until one of the ends can be read or written. */
static int await(struct pollfd *ends, int count, int64_t deadline) {
  for (;;) {
    const int ready = poll(ends, (nfds_t)count, ec_transport_left(deadline));
    if (ready > 0) return EC_OK;
    if (ready == 0 && is_over(deadline)) return EC_LATE;
    if (ready < 0 && errno != EINTR && errno != EAGAIN) return EC_BROKEN;
  }
}

static int await_one(int end, short events, int64_t deadline) {
  struct pollfd one = {end, events, 0};
  return await(&one, 1, deadline);
}

static int fill(int end, void *data, size_t bytes, int64_t deadline) {
  unsigned char *to = data;
  while (bytes) {
    const ssize_t got = recv(end, to, bytes, 0);
    if (got == 0) return EC_GONE;
    if (got > 0) {
      to += got;
      bytes -= (size_t)got;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      const int status = await_one(end, POLLIN, deadline);
      if (status) return status;
    } else if (errno != EINTR) {
      return errno == ECONNRESET ? EC_GONE : EC_BROKEN;
    }
    if (bytes && is_over(deadline)) return EC_LATE;
  }
  return EC_OK;
}

static int drain(int end, struct iovec *pieces, int count, int64_t deadline) {
  while (count) {
    if (pieces->iov_len == 0) {
      ++pieces;
      --count;
      continue;
    }
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = pieces;
    message.msg_iovlen = (size_t)count;
    ssize_t gone = sendmsg(end, &message, MSG_NOSIGNAL);
    if (gone < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        const int status = await_one(end, POLLOUT, deadline);
        if (status) return status;
      } else if (errno != EINTR) {
        return errno == EPIPE || errno == ECONNRESET ? EC_GONE : EC_BROKEN;
      }
      gone = 0;
    }
    while (gone > 0) {
      const size_t part = (size_t)gone < pieces->iov_len ? (size_t)gone : pieces->iov_len;
      pieces->iov_base = (char *)pieces->iov_base + part;
      pieces->iov_len -= part;
      gone -= (ssize_t)part;
      if (!pieces->iov_len && count > 1) {
        ++pieces;
        --count;
      }
    }
    if (is_over(deadline) && (count > 1 || pieces->iov_len)) return EC_LATE;
  }
  return EC_OK;
}

static int send_bytes(int end, const void *data, size_t bytes, int64_t deadline) {
  struct iovec piece = {(void *)(uintptr_t)data, bytes};
  return drain(end, &piece, 1, deadline);
}

static int tcp_rank(ec_transport *transport) { return ((ec_tcp *)transport)->own_rank; }

static int tcp_send(ec_transport *transport, int to, const ec_span *spans, int count, int milliseconds) {
  ec_tcp *const tcp = (ec_tcp *)transport;
  const int64_t deadline = deadline_in(milliseconds);
  if (to < 0 || to >= tcp->ranks || tcp->ends[to] < 0) return EC_GONE;
  for (int begin = 0; begin < count; begin += SPANS) {
    struct iovec pieces[SPANS];
    const int here = count - begin < SPANS ? count - begin : SPANS;
    for (int k = 0; k < here; ++k) {
      pieces[k].iov_base = (void *)(uintptr_t)spans[begin + k].data;
      pieces[k].iov_len = spans[begin + k].bytes;
    }
    const int status = drain(tcp->ends[to], pieces, here, deadline);
    if (status) return status;
  }
  return EC_OK;
}

/* Takes what has come of so many bytes of a rank, without waiting: EC_LATE where it is not all of them. */
static int go_on(ec_tcp *tcp, int rank, void *data, size_t bytes) {
  unsigned char *const begun = tcp->begun[rank].data;
  size_t *const there = &tcp->begun[rank].bytes;
  const ssize_t got = recv(tcp->ends[rank], begun + *there, bytes - *there, 0);
  if (got == 0) return EC_GONE;
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? EC_LATE : errno == ECONNRESET ? EC_GONE : EC_BROKEN;
  *there += (size_t)got;
  if (*there < bytes) return EC_LATE;
  memcpy(data, begun, bytes);
  *there = 0;
  return EC_OK;
}

static int receive_any(ec_tcp *tcp, int *from, void *data, size_t bytes, int64_t deadline) {
  struct pollfd ends[EC_TCP_MOST_WORKERS + 1];
  int ranks[EC_TCP_MOST_WORKERS + 1], count = 0;
  if (bytes > EC_ANY_MOST) return EC_BROKEN;
  for (int k = 0; k < tcp->ranks; ++k)
    if (tcp->ends[k] >= 0) {
      const struct pollfd one = {tcp->ends[k], POLLIN, 0};
      ends[count] = one;
      ranks[count++] = k;
    }
  for (;;) {
    int status = await(ends, count, deadline);
    if (status) return status;
    for (int k = 0; k < count; ++k) {
      status = ends[k].revents ? go_on(tcp, ranks[k], data, bytes) : EC_LATE;
      if (status == EC_LATE) continue;
      *from = ranks[k];
      return status;
    }
    if (is_over(deadline)) return EC_LATE;
  }
}

static int tcp_receive(ec_transport *transport, int *from, void *data, size_t bytes, int milliseconds) {
  ec_tcp *const tcp = (ec_tcp *)transport;
  const int64_t deadline = deadline_in(milliseconds);
  if (*from == EC_ANY) return receive_any(tcp, from, data, bytes, deadline);
  if (*from < 0 || *from >= tcp->ranks || tcp->ends[*from] < 0) return EC_GONE;
  if (tcp->begun[*from].bytes) return EC_BROKEN; /* of what is received from any rank */
  return fill(tcp->ends[*from], data, bytes, deadline);
}

/* The greeting was one: nobody is connected before it, and messages keep their order behind it. */
static int tcp_barrier(ec_transport *transport, int milliseconds) {
  (void)transport;
  (void)milliseconds;
  return EC_OK;
}

static void begin(ec_tcp *tcp, int rank, int ranks) {
  memset(tcp, 0, sizeof *tcp);
  tcp->transport.rank = tcp_rank;
  tcp->transport.send = tcp_send;
  tcp->transport.receive = tcp_receive;
  tcp->transport.barrier = tcp_barrier;
  tcp->own_rank = rank;
  tcp->ranks = ranks;
  tcp->server = -1;
  for (int k = 0; k <= EC_TCP_MOST_WORKERS; ++k) tcp->ends[k] = -1;
}

static int is_set_up(int end) {
  const int flags = fcntl(end, F_GETFL), one = 1;
  if (flags < 0 || fcntl(end, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(end, F_SETFD, FD_CLOEXEC) < 0) return 0;
  setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return 1;
}

static int random_bytes(unsigned char *data, size_t bytes) {
  const int source = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  size_t filled = 0;
  while (source >= 0 && filled < bytes) {
    const ssize_t got = read(source, data + filled, bytes - filled);
    if (got > 0) filled += (size_t)got;
    else if (got == 0 || errno != EINTR) break;
  }
  if (source >= 0) close(source);
  return filled == bytes;
}

static size_t secret_bytes(const char *secret) {
  const size_t bytes = secret ? strlen(secret) : 0;
  return bytes >= LEAST_SECRET && bytes <= MOST_SECRET ? bytes : 0;
}

/* The answer to both random numbers of who knows the secret, in a role, about parts of a digest. */
static void prove(const char *secret, const char *role, const unsigned char *of_worker, const unsigned char *of_host,
                  const unsigned char *digest, unsigned char proof[32]) {
  unsigned char text[16 + 2 * NONCE + 32];
  const size_t begin = strlen(role);
  memcpy(text, role, begin);
  memcpy(text + begin, of_worker, NONCE);
  memcpy(text + begin + NONCE, of_host, NONCE);
  memcpy(text + begin + 2 * NONCE, digest, 32);
  ec_sha256_hmac(secret, strlen(secret), text, begin + 2 * NONCE + 32, proof);
}

static int greet_as_host(int end, const char *secret, const unsigned char *digest) {
  const int64_t deadline = deadline_in(EC_TCP_GREETING);
  unsigned char hello[MAGIC + NONCE + 32], answer[NONCE + 32], told[32], due[32];
  int status = fill(end, hello, sizeof hello, deadline);
  if (status) return status;
  if (memcmp(hello, "EDG2", MAGIC) != 0) return EC_GARBAGE;
  if (!ec_sha256_equal(hello + MAGIC + NONCE, digest, 32)) return EC_WRONG_PARTS;
  if (!random_bytes(answer, NONCE)) return EC_BROKEN;
  prove(secret, "coordinator", hello + MAGIC, answer, digest, answer + NONCE);
  status = send_bytes(end, answer, sizeof answer, deadline);
  if (!status) status = fill(end, told, sizeof told, deadline);
  if (status) return status == EC_GONE ? EC_WRONG_SECRET : status; /* a worker hangs up on who does not know it */
  prove(secret, "worker", hello + MAGIC, answer, digest, due);
  return ec_sha256_equal(told, due, 32) ? EC_OK : EC_WRONG_SECRET;
}

static int greet_as_worker(int end, const char *secret, const unsigned char *digest) {
  const int64_t deadline = deadline_in(EC_TCP_GREETING);
  unsigned char hello[MAGIC + NONCE + 32], answer[NONCE + 32], due[32];
  memcpy(hello, "EDG2", MAGIC);
  memcpy(hello + MAGIC + NONCE, digest, 32);
  if (!random_bytes(hello + MAGIC, NONCE)) return EC_BROKEN;
  int status = send_bytes(end, hello, sizeof hello, deadline);
  if (!status) status = fill(end, answer, sizeof answer, deadline);
  if (status) return status;
  prove(secret, "coordinator", hello + MAGIC, answer, digest, due);
  if (!ec_sha256_equal(answer + NONCE, due, 32)) return EC_WRONG_SECRET;
  prove(secret, "worker", hello + MAGIC, answer, digest, due);
  return send_bytes(end, due, sizeof due, deadline);
}

/* The addresses of "HOST:PORT", also "[::1]:PORT"; null where it is none. */
static struct addrinfo *found(const char *address, int flags) {
  char host[256];
  const char *const colon = address ? strrchr(address, ':') : NULL;
  if (!colon || colon == address || !colon[1] || (size_t)(colon - address) >= sizeof host) return NULL;
  const size_t bracket = address[0] == '[' && colon[-1] == ']';
  const size_t length = (size_t)(colon - address) - 2 * bracket;
  memcpy(host, address + bracket, length);
  host[length] = 0;
  struct addrinfo wanted, *list = NULL;
  memset(&wanted, 0, sizeof wanted);
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags | AI_NUMERICSERV;
  return getaddrinfo(host, colon + 1, &wanted, &list) == 0 ? list : NULL;
}

static int connected(const struct addrinfo *to) {
  const int end = socket(to->ai_family, to->ai_socktype, to->ai_protocol);
  if (end < 0) return -1;
  if (is_set_up(end)) {
    if (connect(end, to->ai_addr, to->ai_addrlen) == 0) return end;
    int error = 1;
    socklen_t bytes = sizeof error;
    if (errno == EINPROGRESS && await_one(end, POLLOUT, deadline_in(EC_TCP_GREETING)) == EC_OK &&
        getsockopt(end, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && !error)
      return end;
  }
  close(end);
  return -1;
}

int ec_transport_tcp_connect(ec_tcp *tcp, int workers, const char *const *addresses, const char *secret,
                             const unsigned char *digests, int *lost) {
  if (!tcp || !addresses || !digests || !lost) return EC_NULL_POINTER;
  *lost = 0;
  if (workers < 1 || workers > EC_TCP_MOST_WORKERS) return EC_WRONG_RANKS;
  begin(tcp, 0, workers + 1);
  if (!secret_bytes(secret)) return EC_NO_SECRET;
  for (int k = 1; k <= workers; ++k) {
    struct addrinfo *const list = found(addresses[k - 1], 0);
    for (const struct addrinfo *to = list; to && tcp->ends[k] < 0; to = to->ai_next) tcp->ends[k] = connected(to);
    if (list) freeaddrinfo(list);
    const int status = tcp->ends[k] < 0 ? EC_UNREACHABLE : greet_as_host(tcp->ends[k], secret, digests + 32 * (k - 1));
    if (status) {
      *lost = k;
      ec_transport_tcp_close(tcp);
      return status;
    }
  }
  return EC_OK;
}

int ec_transport_tcp_listen(ec_tcp *tcp, int rank, const char *address) {
  if (!tcp) return EC_NULL_POINTER;
  begin(tcp, rank, 1);
  struct addrinfo *const list = found(address ? address : "127.0.0.1:0", AI_PASSIVE);
  for (const struct addrinfo *at = list; at && tcp->server < 0; at = at->ai_next) {
    const int server = socket(at->ai_family, at->ai_socktype, at->ai_protocol), one = 1;
    if (server < 0) continue;
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (is_set_up(server) && bind(server, at->ai_addr, at->ai_addrlen) == 0 && listen(server, 4) == 0)
      tcp->server = server;
    else
      close(server);
  }
  if (list) freeaddrinfo(list);
  return tcp->server < 0 ? EC_UNREACHABLE : EC_OK;
}

void ec_transport_tcp_address(const ec_tcp *tcp, char address[EC_TCP_MOST_ADDRESS]) {
  struct sockaddr_storage own;
  socklen_t bytes = sizeof own;
  char host[64], port[8];
  address[0] = 0;
  if (getsockname(tcp->server, (struct sockaddr *)&own, &bytes) != 0) return;
  if (getnameinfo((struct sockaddr *)&own, bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) return;
  snprintf(address, EC_TCP_MOST_ADDRESS, own.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

int ec_transport_tcp_accept(ec_tcp *tcp, const char *secret, const unsigned char digest[32]) {
  if (!tcp || !digest) return EC_NULL_POINTER;
  if (!secret_bytes(secret)) return EC_NO_SECRET;
  ec_transport_tcp_hang_up(tcp);
  int status = await_one(tcp->server, POLLIN, -1);
  if (status) return status;
  tcp->ends[0] = accept(tcp->server, NULL, NULL);
  status = tcp->ends[0] >= 0 && is_set_up(tcp->ends[0]) ? greet_as_worker(tcp->ends[0], secret, digest) : EC_BROKEN;
  if (status) ec_transport_tcp_hang_up(tcp);
  return status;
}

void ec_transport_tcp_hang_up(ec_tcp *tcp) {
  for (int k = 0; k <= EC_TCP_MOST_WORKERS; ++k) {
    if (tcp->ends[k] >= 0) close(tcp->ends[k]);
    tcp->ends[k] = -1;
  }
}

void ec_transport_tcp_close(ec_tcp *tcp) {
  ec_transport_tcp_hang_up(tcp);
  if (tcp->server >= 0) close(tcp->server);
  tcp->server = -1;
}
