/* ec_reader.h: weights that are read from a file while the network runs.
 *
 * Memory has slots for a few pieces of the weights. A thread of its own reads piece after piece, in the order in which
 * kernels need them and as far ahead as there are free slots, run after run. Threads of the network wait for a piece
 * (ec_reader_await) and tell how far they are (ec_reader_pass). Nothing is allocated. */
#ifndef EC_READER_H
#define EC_READER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What pieces, slots and reads are aligned to, as reads past the page cache need it. */
#define EC_READER_ALIGNMENT 4096
/* Memory of a reader for so many threads. */
#define EC_READER_BYTES(threads) (1024 + 128 * (size_t)(threads))

typedef struct ec_reader ec_reader;

/* One read: so many bytes of the file, into the slots from a place on, as soon as all threads have left so many kernels
 * of the run behind; kernels of the run before are negative. */
typedef struct {
    uint64_t file;
    uint64_t bytes;
    uint64_t place;
    int64_t after;
} ec_piece;

/* Begins to read. The first ``kept`` pieces are read once, the others in every run, which has ``kernels`` kernels.
 * ``file`` is an open descriptor, which belongs to the reader from then on. Returns 0, or an error of the system. */
int ec_reader_open(ec_reader *reader, int file, unsigned char *slots, const ec_piece *pieces, int64_t kept, int64_t count,
                   int64_t kernels, int threads);

/* Ends the thread and closes the file. */
void ec_reader_close(ec_reader *reader);

/* The beginning of a run on so many threads: 0; 1 if a run has begun and not ended; 2 if a read has failed. */
int ec_reader_begin(ec_reader *reader, int threads);

/* Its end: 0, or 2 if a read failed, so that the run did not end. */
int ec_reader_end(ec_reader *reader);

/* Returns 0 when the first so many pieces of the run are there, 1 if they never will be. */
int ec_reader_await(ec_reader *reader, int64_t pieces);

/* A thread has left so many kernels of the run behind. */
void ec_reader_pass(ec_reader *reader, int64_t thread, int64_t kernels);

/* Why a read failed: an error of the system, or -1 for a file that ended too early; 0 if none did. */
int ec_reader_error(const ec_reader *reader);

#ifdef __cplusplus
}
#endif

#endif
