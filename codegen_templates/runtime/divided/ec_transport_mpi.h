/* ec_transport_mpi.h: a transport over MPI: rank 0 is the host. mpirun starts all, and ends all where one ends early.
 *
 * Who may start processes there is up to mpirun: there is no secret. Messages are as the network carries them. */
#ifndef EC_TRANSPORT_MPI_H
#define EC_TRANSPORT_MPI_H

#include "ec_transport.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  ec_transport transport; /* the first member: &mpi.transport is what other functions take */
  int own_rank;
} ec_mpi;

/* Called by all ranks after MPI_Init, within so many milliseconds of each other: checks that they are a host and so many
 * workers, and the host that every worker has the parts of its digest. ``digests`` has 32 bytes for each worker. Where it
 * fails, ``*lost`` is the rank of the worker, or 0. Messages go through MPI_COMM_WORLD. */
int ec_transport_mpi_open(ec_mpi *mpi, int workers, const unsigned char *digests, int milliseconds, int *lost);

#ifdef __cplusplus
}
#endif

#endif
