/* ec_transport_mpi.c: a transport over MPI, by calls that do not block, for the sake of time-outs. */
#define _POSIX_C_SOURCE 200809L
#include "ec_transport_mpi.h"

#include <mpi.h>
#include <sched.h>
#include <string.h>
#include <time.h>

enum { TAG = 1, EAGER_TURNS = 2000, TURNS = 4000, NAP_NS = 50000 };

/* Bytes of one message of MPI, which counts in int. */
#define MOST ((size_t)1 << 30)

static int64_t deadline_in(int milliseconds) { return milliseconds < 0 ? -1 : ec_transport_now() + milliseconds; }

static int is_over(int64_t deadline) { return deadline >= 0 && ec_transport_left(deadline) == 0; }

/* Between two looks: none at first, then others get the processor, then a nap. */
static void idle(unsigned turn) {
  const struct timespec nap = {0, NAP_NS};
  if (turn > TURNS) nanosleep(&nap, NULL);
  else if (turn > EAGER_TURNS) sched_yield();
}

static int await(MPI_Request *request, int64_t deadline) {
  for (unsigned turn = 0;; turn += turn <= TURNS) {
    int is_done = 0;
    if (MPI_Test(request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return EC_BROKEN;
    if (is_done) return EC_OK;
    if (is_over(deadline)) return EC_LATE;
    idle(turn);
  }
}

static int mpi_rank(ec_transport *transport) { return ((ec_mpi *)transport)->own_rank; }

static int mpi_send(ec_transport *transport, int to, const ec_span *spans, int count, int milliseconds) {
  const int64_t deadline = deadline_in(milliseconds);
  (void)transport;
  for (int k = 0; k < count; ++k)
    for (size_t at = 0; at < spans[k].bytes; at += MOST) {
      const size_t bytes = spans[k].bytes - at < MOST ? spans[k].bytes - at : MOST;
      MPI_Request request;
      if (MPI_Isend((const char *)spans[k].data + at, (int)bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &request) != MPI_SUCCESS)
        return EC_BROKEN;
      const int status = await(&request, deadline);
      if (status) return status;
    }
  return EC_OK;
}

/* One message, which has to have exactly so many bytes: MPI has told how many come before any of them is taken in. */
static int receive_one(int *from, char *data, size_t bytes, int64_t deadline) {
  MPI_Message message;
  MPI_Status found;
  MPI_Request request;
  int is_here = 0, count = 0;
  for (unsigned turn = 0; !is_here; turn += turn <= TURNS) {
    const int source = *from == EC_ANY ? MPI_ANY_SOURCE : *from;
    if (MPI_Improbe(source, TAG, MPI_COMM_WORLD, &is_here, &message, &found) != MPI_SUCCESS) return EC_BROKEN;
    if (is_here) break;
    if (is_over(deadline)) return EC_LATE;
    idle(turn);
  }
  if (*from == EC_ANY) deadline = deadline_in(EC_REST);
  *from = found.MPI_SOURCE;
  if (MPI_Get_count(&found, MPI_BYTE, &count) != MPI_SUCCESS || count < 0 || (size_t)count != bytes) return EC_GARBAGE;
  if (MPI_Imrecv(data, count, MPI_BYTE, &message, &request) != MPI_SUCCESS) return EC_BROKEN;
  return await(&request, deadline);
}

static int mpi_receive(ec_transport *transport, int *from, void *data, size_t bytes, int milliseconds) {
  const int64_t deadline = deadline_in(milliseconds);
  (void)transport;
  for (size_t at = 0; at < bytes; at += MOST) {
    const int status = receive_one(from, (char *)data + at, bytes - at < MOST ? bytes - at : MOST, deadline);
    if (status) return status;
  }
  return EC_OK;
}

static int mpi_barrier(ec_transport *transport, int milliseconds) {
  MPI_Request request;
  (void)transport;
  if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return EC_BROKEN;
  return await(&request, deadline_in(milliseconds));
}

int ec_transport_mpi_open(ec_mpi *mpi, int workers, const unsigned char *digests, int milliseconds, int *lost) {
  int ranks = 0, status = EC_OK;
  if (!mpi || !digests || !lost) return EC_NULL_POINTER;
  *lost = 0;
  mpi->transport.rank = mpi_rank;
  mpi->transport.send = mpi_send;
  mpi->transport.receive = mpi_receive;
  mpi->transport.barrier = mpi_barrier;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &mpi->own_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != workers + 1) return EC_WRONG_RANKS;
  if (mpi->own_rank > 0) {
    const ec_span own = {digests + 32 * (mpi->own_rank - 1), 32};
    return mpi_send(&mpi->transport, 0, &own, 1, milliseconds);
  }
  for (int k = 1; k <= workers && !status; ++k) {
    unsigned char told[32];
    int from = k;
    status = mpi_receive(&mpi->transport, &from, told, sizeof told, milliseconds);
    if (!status && memcmp(told, digests + 32 * (k - 1), 32) != 0) status = EC_WRONG_PARTS;
    if (status) *lost = k;
  }
  return status;
}
