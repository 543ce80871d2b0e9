/* ec_pool.c: a pool in memory that workers share; they watch a counter for a while, then sleep until it is notified. */
#include "ec_pool.h"

#include <stdatomic.h>
#include <stdint.h>

/* How often a thread looks at a counter before it sleeps: some 50 microseconds, which is long beside a wake-up. */
#ifndef EC_POOL_LOOKS
#define EC_POOL_LOOKS 20000
#endif
/* A look takes about 2.5 ns. */
#define EC_POOL_LOOKS_A_MS 400000
/* Parts of the patience: a system that stood still counts for one of them. */
#define EC_POOL_SLEEPS 8

#define EC_POOL_LINE 128

/* What belongs to one thread. */
typedef struct {
    _Alignas(EC_POOL_LINE) unsigned barriers; /* that this thread has entered so far */
} ec_seat;

struct ec_pool {
    /* Written by the caller, before it increments runs. */
    int threads;
    int may_sleep;    /* thread 0 */
    int64_t patience; /* of thread 0, in looks; 0: without end */
    ec_task *task; /* NULL: leave */
    void *context;

    _Alignas(EC_POOL_LINE) atomic_uint runs;     /* started so far */
    _Alignas(EC_POOL_LINE) atomic_int arrived;   /* at the current barrier */
    _Alignas(EC_POOL_LINE) atomic_uint barriers; /* completed so far */
    _Alignas(EC_POOL_LINE) atomic_int failed;

    ec_seat seats[];
};

/* Returns when it is notified, and at once where the count has moved on from old; after so many nanoseconds with 1, if
 * they are not negative. */
static int ec_sleep(atomic_uint *count, unsigned old, int64_t nanoseconds)
{
#ifdef __wasm_atomics__
    return __builtin_wasm_memory_atomic_wait32((int *)count, (int)old, nanoseconds) == 2;
#else
    (void)count;
    (void)old;
    (void)nanoseconds;
    return 0;
#endif
}

/* Returns when the count has moved on from old, or the pool has failed: that moves the counts too. The pool fails where
 * the patience, in looks, ends before; 0 has no end. */
static void ec_await(ec_pool *pool, atomic_uint *count, unsigned old, int may_sleep, int64_t patience)
{
    int64_t looks = 0, one = patience / EC_POOL_SLEEPS;
    while (atomic_load_explicit(count, memory_order_acquire) == old &&
           !atomic_load_explicit(&pool->failed, memory_order_relaxed)) {
        if (!may_sleep || looks < EC_POOL_LOOKS)
            ++looks;
        else if (ec_sleep(count, old, patience ? one * 1000000 / EC_POOL_LOOKS_A_MS : -1))
            looks += one;
        if (patience && looks > patience)
            ec_pool_fail(pool);
    }
}

static void ec_wake(atomic_uint *count)
{
#ifdef __wasm_atomics__
    __builtin_wasm_memory_atomic_notify((int *)count, UINT32_MAX);
#else
    (void)count;
#endif
}

/* Enters a barrier; the last thread to do so opens it. Returns whether it was this one, else *passed is the count that
 * will change. A thread that is late to notice cannot be overtaken, since the next barrier needs it too. */
static int ec_arrive(ec_pool *pool, int thread, unsigned *passed)
{
    *passed = pool->seats[thread].barriers++;
    if (atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel) < pool->threads - 1)
        return 0;
    atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
    atomic_store(&pool->barriers, *passed + 1);
    ec_wake(&pool->barriers);
    return 1;
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
    pool->may_sleep = 0;
    pool->patience = 0;
    pool->task = NULL;
    pool->context = NULL;
    atomic_init(&pool->runs, 0);
    atomic_init(&pool->arrived, 0);
    atomic_init(&pool->barriers, 0);
    atomic_init(&pool->failed, 0);
    for (int i = 0; i < threads; ++i)
        pool->seats[i].barriers = 0;
    return pool;
}

static void ec_announce(ec_pool *pool, ec_task *task, void *context)
{
    pool->task = task;
    pool->context = context;
    atomic_fetch_add(&pool->runs, 1);
    ec_wake(&pool->runs);
}

void ec_pool_destroy(ec_pool *pool)
{
    ec_announce(pool, NULL, NULL);
}

int ec_pool_threads(const ec_pool *pool)
{
    return pool->threads;
}

void ec_pool_may_sleep(ec_pool *pool, int allowed)
{
    pool->may_sleep = allowed;
}

void ec_pool_patience(ec_pool *pool, int milliseconds)
{
    pool->patience = (int64_t)milliseconds * EC_POOL_LOOKS_A_MS;
}

void ec_pool_work(ec_pool *pool, int thread)
{
    for (unsigned seen = 0;; ++seen) {
        ec_await(pool, &pool->runs, seen, 1, 0);
        if (atomic_load(&pool->failed) || !pool->task)
            return;
        pool->task(pool->context, thread, pool->threads);
        unsigned passed; /* only the caller waits for the end */
        ec_arrive(pool, thread, &passed);
    }
}

void ec_pool_fail(ec_pool *pool)
{
    atomic_store(&pool->failed, 1);
    /* Whoever was about to sleep finds that the count has moved. */
    atomic_fetch_add(&pool->barriers, 1);
    ec_wake(&pool->barriers);
    atomic_fetch_add(&pool->runs, 1);
    ec_wake(&pool->runs);
}

int ec_pool_failed(const ec_pool *pool)
{
    return atomic_load(&pool->failed);
}

void ec_pool_run(ec_pool *pool, ec_task *task, void *context)
{
    if (pool->threads > 1)
        ec_announce(pool, task, context);
    task(context, 0, pool->threads);
    ec_pool_barrier(pool, 0);
}

void ec_pool_barrier(ec_pool *pool, int thread)
{
    unsigned passed;
    if (pool->threads > 1 && !ec_arrive(pool, thread, &passed))
        ec_await(pool, &pool->barriers, passed, thread > 0 || pool->may_sleep, thread > 0 ? 0 : pool->patience);
}
