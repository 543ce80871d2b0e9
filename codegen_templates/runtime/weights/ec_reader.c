/* ec_reader.c: one thread that reads, and the threads of the network, which wait for it and it for them. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for O_DIRECT */
#elif !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif

#include "ec_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* Reads past the page cache, which would keep what is read next only after everything else; 0 leaves them to it. */
#ifndef EC_READER_DIRECT
#define EC_READER_DIRECT 1
#endif
/* How bytes are read: a test has another way, which fails. */
#ifndef EC_READER_PREAD
#define EC_READER_PREAD pread
#endif

/* Neighboring pieces whose places are free are read at once, up to so many bytes. */
#ifndef EC_READER_LARGE
#define EC_READER_LARGE ((uint64_t)4 << 20)
#endif

#define EC_READER_LINE 128

/* How many kernels a thread has left behind, of all runs. */
typedef struct {
    _Alignas(EC_READER_LINE) atomic_llong passed;
} ec_reader_seat;

struct ec_reader {
    int file;
    int seats_count;
    unsigned char *slots;
    const ec_piece *pieces;
    int64_t kept, count, kernels;
    int64_t run; /* number of the current run; -1 before the first */
    pthread_t thread;

    _Alignas(EC_READER_LINE) atomic_llong loaded; /* pieces that are there, of all runs */
    atomic_int error;                             /* of a read; no piece comes after it */
    atomic_int stop, busy;
    atomic_int waits, waiters; /* the reader for the network, threads of the network for it */
    pthread_mutex_t mutex;
    pthread_cond_t freed, ready;

    ec_reader_seat seats[];
};

static int64_t ec_reader_passed(ec_reader *reader)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < reader->seats_count; ++i) {
        const int64_t passed = atomic_load(&reader->seats[i].passed);
        if (passed < least)
            least = passed;
    }
    return least;
}

/* Returns whether the threads of the network have come so far; no, if the reader is to end. The order matters: the
 * reader says that it waits and then looks, a thread of the network moves on and then looks whether it waits. */
static int ec_reader_may(ec_reader *reader, int64_t passed)
{
    if (ec_reader_passed(reader) < passed) {
        pthread_mutex_lock(&reader->mutex);
        atomic_store(&reader->waits, 1);
        while (!atomic_load(&reader->stop) && ec_reader_passed(reader) < passed)
            pthread_cond_wait(&reader->freed, &reader->mutex);
        atomic_store(&reader->waits, 0);
        pthread_mutex_unlock(&reader->mutex);
    }
    return !atomic_load(&reader->stop);
}

/* Reads one piece; 0, or why that failed. */
static int ec_reader_read(ec_reader *reader, const ec_piece *piece)
{
    uint64_t done = 0;
    while (done < piece->bytes && !atomic_load(&reader->stop)) {
        const ssize_t got = EC_READER_PREAD(reader->file, reader->slots + piece->place + done, piece->bytes - done,
                                            (off_t)(piece->file + done));
        if (got > 0)
            done += (uint64_t)got;
        else if (got == 0)
            return -1;
#ifdef O_DIRECT
        else if (errno == EINVAL && (fcntl(reader->file, F_GETFL) & O_DIRECT))
            fcntl(reader->file, F_SETFL, fcntl(reader->file, F_GETFL) & ~O_DIRECT); /* not on this file system */
#endif
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

static void ec_reader_tell(ec_reader *reader)
{
    if (atomic_load(&reader->waiters)) {
        pthread_mutex_lock(&reader->mutex);
        pthread_cond_broadcast(&reader->ready);
        pthread_mutex_unlock(&reader->mutex);
    }
}

/* Piece number k of all runs, with the number of kernels, of all runs, that have to be left behind before it is read. */
static ec_piece ec_reader_piece(const ec_reader *reader, int64_t k)
{
    const int64_t each = reader->count - reader->kept, later = k - reader->kept;
    ec_piece piece = reader->pieces[k < reader->kept ? k : reader->kept + later % each];
    if (k >= reader->kept)
        piece.after += later / each * reader->kernels;
    return piece;
}

static void *ec_reader_work(void *argument)
{
    ec_reader *reader = argument;
    const int runs = reader->count > reader->kept;
    for (int64_t k = 0; k < reader->kept || runs;) {
        ec_piece piece = ec_reader_piece(reader, k);
        if (!ec_reader_may(reader, piece.after))
            return NULL;
        const int64_t passed = ec_reader_passed(reader);
        for (++k; k < reader->kept || runs; ++k) {
            const ec_piece next = ec_reader_piece(reader, k);
            if (next.after > passed || next.file != piece.file + piece.bytes || next.place != piece.place + piece.bytes ||
                piece.bytes + next.bytes > EC_READER_LARGE)
                break;
            piece.bytes += next.bytes;
        }
        const int error = ec_reader_read(reader, &piece);
        if (error) {
            atomic_store(&reader->error, error);
            ec_reader_tell(reader);
            return NULL;
        }
        if (atomic_load(&reader->stop))
            return NULL;
        atomic_store(&reader->loaded, k);
        ec_reader_tell(reader);
    }
    return NULL;
}

int ec_reader_open(ec_reader *reader, int file, unsigned char *slots, const ec_piece *pieces, int64_t kept, int64_t count,
                   int64_t kernels, int threads)
{
    reader->file = file;
    reader->seats_count = threads;
    reader->slots = slots;
    reader->pieces = pieces;
    reader->kept = kept;
    reader->count = count;
    reader->kernels = kernels;
    reader->run = -1;
    atomic_init(&reader->loaded, 0);
    atomic_init(&reader->error, 0);
    atomic_init(&reader->stop, 0);
    atomic_init(&reader->busy, 0);
    atomic_init(&reader->waits, 0);
    atomic_init(&reader->waiters, 0);
    for (int i = 0; i < threads; ++i)
        atomic_init(&reader->seats[i].passed, 0);
#ifdef O_DIRECT
    if (EC_READER_DIRECT)
        fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_DIRECT); /* where the file system cannot, reads are plain */
#endif
    int error = pthread_mutex_init(&reader->mutex, NULL);
    if (error)
        return error;
    error = pthread_cond_init(&reader->freed, NULL);
    if (!error && (error = pthread_cond_init(&reader->ready, NULL)))
        pthread_cond_destroy(&reader->freed);
    if (!error && (error = pthread_create(&reader->thread, NULL, ec_reader_work, reader))) {
        pthread_cond_destroy(&reader->ready);
        pthread_cond_destroy(&reader->freed);
    }
    if (error)
        pthread_mutex_destroy(&reader->mutex);
    return error;
}

void ec_reader_close(ec_reader *reader)
{
    pthread_mutex_lock(&reader->mutex);
    atomic_store(&reader->stop, 1);
    pthread_cond_broadcast(&reader->freed);
    pthread_mutex_unlock(&reader->mutex);
    pthread_join(reader->thread, NULL);
    pthread_cond_destroy(&reader->freed);
    pthread_cond_destroy(&reader->ready);
    pthread_mutex_destroy(&reader->mutex);
    close(reader->file);
}

int ec_reader_begin(ec_reader *reader, int threads)
{
    if (atomic_exchange(&reader->busy, 1))
        return 1;
    if (atomic_load(&reader->error)) {
        atomic_store(&reader->busy, 0);
        return 2;
    }
    ++reader->run;
    for (int i = 0; i < reader->seats_count; ++i)
        atomic_store(&reader->seats[i].passed, i < threads ? reader->run * reader->kernels : INT64_MAX);
    return 0;
}

int ec_reader_end(ec_reader *reader)
{
    const int failed = atomic_load(&reader->error) && atomic_load(&reader->seats[0].passed) < (reader->run + 1) * reader->kernels;
    atomic_store(&reader->busy, 0);
    return failed ? 2 : 0;
}

int ec_reader_await(ec_reader *reader, int64_t pieces)
{
    const int64_t wanted = reader->kept + reader->run * (reader->count - reader->kept) + pieces;
    if (atomic_load_explicit(&reader->loaded, memory_order_acquire) >= wanted)
        return 0;
    pthread_mutex_lock(&reader->mutex);
    atomic_fetch_add(&reader->waiters, 1);
    while (atomic_load(&reader->loaded) < wanted && !atomic_load(&reader->error))
        pthread_cond_wait(&reader->ready, &reader->mutex);
    atomic_fetch_sub(&reader->waiters, 1);
    pthread_mutex_unlock(&reader->mutex);
    return atomic_load(&reader->loaded) < wanted;
}

void ec_reader_pass(ec_reader *reader, int64_t thread, int64_t kernels)
{
    atomic_store(&reader->seats[thread].passed, reader->run * reader->kernels + kernels);
    if (atomic_load(&reader->waits)) {
        pthread_mutex_lock(&reader->mutex);
        pthread_cond_signal(&reader->freed);
        pthread_mutex_unlock(&reader->mutex);
    }
}

int ec_reader_error(const ec_reader *reader) { return atomic_load(&((ec_reader *)(uintptr_t)reader)->error); }

_Static_assert(sizeof(struct ec_reader) <= EC_READER_BYTES(0), "a reader takes more than its bytes");
_Static_assert(sizeof(ec_reader_seat) <= 128, "a seat takes more than its bytes");
