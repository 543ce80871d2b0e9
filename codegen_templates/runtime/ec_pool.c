/* ec_pool.c: a pool that spins for a while, then sleeps.
 *
 * A run is a counter that the caller increments and the workers watch, and so is a barrier. Only a
 * thread that has watched in vain for a while takes the mutex and sleeps: the hot path is a few
 * shared cache lines and no system call. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* for CPU_COUNT and its kind */
#elif !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif

#include "ec_pool.h"

#include <pthread.h>
#ifdef __linux__
#include <sched.h>
#endif
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#ifndef __wasm__
#include <unistd.h>
#endif

/* How long a thread watches for the next run, or for the others at a barrier, before it sleeps:
 * long beside a wake-up, short beside the turn that a system gives to another program on a core. It
 * does not yield: that would put it behind whatever else wants the core, a sleeper goes in front. */
#ifndef EC_POOL_SPIN_US
#define EC_POOL_SPIN_US 100
#endif

/* Keep workers off the core of the caller; 0 leaves them where the system puts them. */
#ifndef EC_POOL_SPREAD
#if defined(__linux__) && !defined(__ANDROID__) && defined(CPU_COUNT)
#define EC_POOL_SPREAD 1
#else
#define EC_POOL_SPREAD 0
#endif
#endif

/* Two lines of 64 bytes, since processors fetch lines in pairs; and one line of 128 elsewhere. */
#define EC_POOL_LINE 128

/* What belongs to one thread. */
typedef struct {
    _Alignas(EC_POOL_LINE) ec_pool *pool;
    pthread_t thread;
    int index;
    unsigned barriers; /* that this thread has entered so far */
} ec_seat;

struct ec_pool {
    /* Written by the caller, before it increments runs. */
    int threads;
    ec_task *task; /* NULL: leave */
    void *context;
    int core; /* of the caller, when workers were last kept off it; -1: never */
    long owner; /* the process that has the workers: one that is forked off has their memory only */

    _Alignas(EC_POOL_LINE) atomic_uint runs;     /* started so far */
    _Alignas(EC_POOL_LINE) atomic_int arrived;   /* at the current barrier */
    _Alignas(EC_POOL_LINE) atomic_uint barriers; /* completed so far */

    _Alignas(EC_POOL_LINE) atomic_int sleepers; /* of all kinds; changed under the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t wake;

    ec_seat seats[];
};

static long ec_process(void)
{
#ifdef __wasm__
    return 0;
#else
    return (long)getpid();
#endif
}

static void ec_pause(void)
{
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

/* Whether the count moves on from old within EC_POOL_SPIN_US. */
static int ec_moves_soon(atomic_uint *count, unsigned old)
{
    const int looks_per_clock = 64;
    int64_t deadline = 0;
    for (;;) {
        for (int look = 0; look < looks_per_clock; ++look) {
            if (atomic_load_explicit(count, memory_order_acquire) != old)
                return 1;
            ec_pause();
        }
        int64_t now = ec_microseconds();
        if (deadline == 0)
            deadline = now + EC_POOL_SPIN_US;
        else if (now >= deadline)
            return 0;
    }
}

/* Returns when the count has moved on from old. The order matters: a sleeper announces itself, then
 * looks at the count; ec_move sets the count, then looks for sleepers. One of them sees the other. */
static void ec_await(ec_pool *pool, atomic_uint *count, unsigned old)
{
    if (ec_moves_soon(count, old))
        return;
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(count) == old)
        pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

static void ec_move(ec_pool *pool, atomic_uint *count, unsigned value)
{
    atomic_store(count, value);
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
    }
}

/* Keeps the workers off the core that the caller is on, and gives each its own where there are just
 * as many cores as threads. Systems that fill one core before they wake another put a worker where
 * its waker runs, and two threads that wait for each other there take turns of milliseconds. */
static void ec_spread(ec_pool *pool)
{
#if EC_POOL_SPREAD
    int core = sched_getcpu();
    cpu_set_t cores;
    if (core == pool->core || core < 0)
        return;
    if (pthread_getaffinity_np(pthread_self(), sizeof cores, &cores))
        return;
    int spare = CPU_COUNT(&cores) - pool->threads;
    if (spare < 0 || !CPU_ISSET((size_t)core, &cores))
        return;
    pool->core = core;
    CPU_CLR((size_t)core, &cores);
    int next = 0;
    for (int i = 1; i < pool->threads; ++i) {
        cpu_set_t own = cores;
        if (spare == 0) {
            while (!CPU_ISSET((size_t)next, &cores))
                ++next;
            CPU_ZERO(&own);
            CPU_SET((size_t)next, &own);
            ++next;
        }
        pthread_setaffinity_np(pool->seats[i].thread, sizeof own, &own);
    }
#else
    (void)pool;
#endif
}

/* Publishes the task to the workers. */
static void ec_announce(ec_pool *pool, ec_task *task, void *context)
{
    pool->task = task;
    pool->context = context;
    ec_move(pool, &pool->runs, atomic_load_explicit(&pool->runs, memory_order_relaxed) + 1);
}

/* Enters a barrier; the last thread to do so opens it by counting it as completed. Returns whether
 * it was this one, else *passed is the count that will change. A thread that is late to notice
 * cannot be overtaken, since the next barrier needs it too. */
static int ec_arrive(ec_pool *pool, int thread, unsigned *passed)
{
    *passed = pool->seats[thread].barriers++;
    if (atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel) < pool->threads - 1)
        return 0;
    atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
    ec_move(pool, &pool->barriers, *passed + 1);
    return 1;
}

static void *ec_work(void *argument)
{
    ec_seat *seat = argument;
    ec_pool *pool = seat->pool;
    for (unsigned seen = 0;; ++seen) {
        ec_await(pool, &pool->runs, seen);
        if (!pool->task)
            return NULL;
        pool->task(pool->context, seat->index, pool->threads);
        unsigned passed; /* only the caller waits for the end */
        ec_arrive(pool, seat->index, &passed);
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
    pool->core = -1;
    pool->owner = ec_process();
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
    if (pool->owner == ec_process())
        ec_dismiss(pool, pool->threads - 1);
}

int ec_pool_threads(const ec_pool *pool)
{
    return pool->threads;
}

void ec_pool_run(ec_pool *pool, ec_task *task, void *context)
{
    if (pool->threads > 1 && pool->owner != ec_process()) {
        task(context, 0, 1);
        return;
    }
    if (pool->threads > 1) {
        ec_spread(pool);
        ec_announce(pool, task, context);
    }
    task(context, 0, pool->threads);
    ec_pool_barrier(pool, 0);
}

void ec_pool_barrier(ec_pool *pool, int thread)
{
    unsigned passed;
    if (pool->threads > 1 && !ec_arrive(pool, thread, &passed))
        ec_await(pool, &pool->barriers, passed);
}
