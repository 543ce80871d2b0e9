/* ec_transport.c: words and times of transports. */
#define _POSIX_C_SOURCE 200809L
#include "ec_transport.h"

#include <limits.h>
#include <time.h>

const char *ec_transport_told(int status) {
  switch (status) {
    case EC_OK: return "all is well";
    case EC_NULL_POINTER: return "an argument is NULL";
    case EC_WRONG_CPU: return "this processor lacks instructions that a part uses";
    case EC_NO_MEMORY: return "no memory";
    case EC_LATE: return "no answer in time";
    case EC_GONE: return "the connection was closed";
    case EC_BROKEN: return "the connection broke";
    case EC_GARBAGE: return "a message that is not due: it answers garbage";
    case EC_PART_FAILED: return "a part failed there";
    case EC_WRONG_SECRET: return "it does not know the secret";
    case EC_WRONG_PARTS: return "it has other parts than this program";
    case EC_UNREACHABLE: return "it cannot be reached";
    case EC_WRONG_RANKS: return "there are more or fewer ranks than a host and its workers";
    case EC_LOST: return "a worker was lost before: open the network again";
    case EC_FULL: return "as many frames as there is room for are on their way";
    case EC_EMPTY: return "no frame is on its way";
    case EC_BUSY: return "frames are on their way";
    case EC_NO_SECRET: return "a secret has at least 16 characters and at most 1000";
    default: return "unknown status";
  }
}

int64_t ec_transport_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int ec_transport_left(int64_t deadline) {
  if (deadline < 0) return EC_FOREVER;
  const int64_t left = deadline - ec_transport_now();
  return left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}
