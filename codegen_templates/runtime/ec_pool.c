/* ec_pool.c: a spinning pool that goes to sleep when nobody calls.
 *
 * A run is a counter that the caller increments and the workers watch; its end is a barrier that
 * all threads pass. Only a worker that has watched in vain for a while takes the mutex and sleeps:
 * the hot path is a few shared cache lines and no system call. */
#define _POSIX_C_SOURCE 200809L

#include "ec_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/* How long a worker watches for the next run before it sleeps. */
#ifndef EC_POOL_SPIN_US
#define EC_POOL_SPIN_US 70
#endif

/* How often a waiting thread looks before it offers its core to others: with more threads than
 * cores, it may be waiting for one that cannot run. */
#ifndef EC_POOL_SPINS
#define EC_POOL_SPINS 1000
#endif

/* Two lines of 64 bytes, since processors fetch lines in pairs; and one line of 128 elsewhere. */
#define EC_POOL_LINE 128

/* What belongs to one thread. */
typedef struct {
    _Alignas(EC_POOL_LINE) ec_pool *pool;
    pthread_t thread;
    int index;
    unsigned barriers; /* that this thread has entered */
} ec_seat;

struct ec_pool {
    /* Written by the caller, before it increments runs. */
    int threads;
    ec_task *task; /* NULL: leave */
    void *context;

    _Alignas(EC_POOL_LINE) atomic_uint runs;     /* started so far */
    _Alignas(EC_POOL_LINE) atomic_int arrived;   /* at the current barrier */
    _Alignas(EC_POOL_LINE) atomic_uint barriers; /* completed so far */

    _Alignas(EC_POOL_LINE) atomic_int sleepers; /* changed under the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t wake;

    ec_seat seats[];
};

/* One step of waiting: counts it while it is short. */
static void ec_pause(int *spins)
{
    if (*spins >= EC_POOL_SPINS) {
        sched_yield();
        return;
    }
    ++*spins;
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
}

static int64_t ec_microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Watches for a run after those seen, for EC_POOL_SPIN_US. */
static int ec_next_run_comes(ec_pool *pool, unsigned seen)
{
    const int looks_per_clock = 64;
    int64_t deadline = ec_microseconds() + EC_POOL_SPIN_US;
    int spins = 0;
    do {
        for (int look = 0; look < looks_per_clock; ++look) {
            if (atomic_load_explicit(&pool->runs, memory_order_acquire) != seen)
                return 1;
            ec_pause(&spins);
        }
    } while (ec_microseconds() < deadline);
    return 0;
}

/* Sleeps until a run after those seen. The order matters: this thread announces itself, then looks
 * at runs; ec_announce increments runs, then looks for sleepers. One of the two sees the other. */
static void ec_sleep(ec_pool *pool, unsigned seen)
{
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->runs) == seen)
        pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

/* Publishes the task to the workers. */
static void ec_announce(ec_pool *pool, ec_task *task, void *context)
{
    pool->task = task;
    pool->context = context;
    atomic_fetch_add(&pool->runs, 1);
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
    }
}

static void *ec_work(void *argument)
{
    ec_seat *seat = argument;
    ec_pool *pool = seat->pool;
    for (unsigned seen = 0;; ++seen) {
        if (!ec_next_run_comes(pool, seen))
            ec_sleep(pool, seen);
        if (!pool->task)
            return NULL;
        pool->task(pool->context, seat->index, pool->threads);
        ec_pool_barrier(pool, seat->index);
    }
}

/* Ends and joins the first so many workers. */
static void ec_dismiss(ec_pool *pool, int workers)
{
    ec_announce(pool, NULL, NULL);
    for (int i = 1; i <= workers; ++i)
        pthread_join(pool->seats[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
}

size_t ec_pool_bytes(int threads)
{
    return sizeof(ec_pool) + (size_t)threads * sizeof(ec_seat) + EC_POOL_LINE - 1;
}

ec_pool *ec_pool_init(void *memory, int threads)
{
    if (!memory || threads < 1)
        return NULL;
    uintptr_t aligned = ((uintptr_t)memory + EC_POOL_LINE - 1) & ~(uintptr_t)(EC_POOL_LINE - 1);
    ec_pool *pool = (ec_pool *)aligned;
    pool->threads = threads;
    pool->task = NULL;
    pool->context = NULL;
    atomic_init(&pool->runs, 0);
    atomic_init(&pool->arrived, 0);
    atomic_init(&pool->barriers, 0);
    atomic_init(&pool->sleepers, 0);
    if (pthread_mutex_init(&pool->mutex, NULL))
        return NULL;
    if (pthread_cond_init(&pool->wake, NULL)) {
        pthread_mutex_destroy(&pool->mutex);
        return NULL;
    }
    for (int i = 0; i < threads; ++i) {
        ec_seat *seat = &pool->seats[i];
        seat->pool = pool;
        seat->index = i;
        seat->barriers = 0;
        if (i > 0 && pthread_create(&seat->thread, NULL, ec_work, seat)) {
            ec_dismiss(pool, i - 1);
            return NULL;
        }
    }
    return pool;
}

void ec_pool_destroy(ec_pool *pool)
{
    ec_dismiss(pool, pool->threads - 1);
}

int ec_pool_threads(const ec_pool *pool)
{
    return pool->threads;
}

void ec_pool_run(ec_pool *pool, ec_task *task, void *context)
{
    if (pool->threads > 1)
        ec_announce(pool, task, context);
    task(context, 0, pool->threads);
    ec_pool_barrier(pool, 0);
}

/* The last thread to arrive opens the barrier by counting it as completed; the others wait for the
 * count that they expect. A thread that is late to notice cannot be overtaken, since the next
 * barrier needs it too. */
void ec_pool_barrier(ec_pool *pool, int thread)
{
    if (pool->threads == 1)
        return;
    unsigned expected = ++pool->seats[thread].barriers;
    if (atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel) == pool->threads - 1) {
        atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&pool->barriers, expected, memory_order_release);
        return;
    }
    int spins = 0;
    while (atomic_load_explicit(&pool->barriers, memory_order_acquire) != expected)
        ec_pause(&spins);
}
