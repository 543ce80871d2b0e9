/* Tasks that catch a pool in the act. Includes the pool itself, so that thread creation can be
 * made to fail; with POOL_MAIN it is a program, for the sanitizers. */
#ifdef __linux__
#define _GNU_SOURCE
#else
#define _POSIX_C_SOURCE 200809L
#endif
#include <pthread.h>

/* Workers alive, and how many more may be started. */
static int alive, allowed = 1000;

static int counted_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument)
{
    if (allowed == 0)
        return 1;
    int failed = pthread_create(thread, attributes, start, argument);
    alive += !failed;
    allowed -= !failed;
    return failed;
}

static int counted_join(pthread_t thread, void **result)
{
    --alive;
    return pthread_join(thread, result);
}

#define pthread_create counted_create
#define pthread_join counted_join
#include "ec_pool.c"
#undef pthread_create
#undef pthread_join

#include <stdio.h>
#include <stdlib.h>

enum { MOST_THREADS = 64 };

int workers_alive(void)
{
    return alive;
}

void allow_workers(int count)
{
    allowed = count;
}

/* ---- Every thread runs once a run --------------------------------------------------------- */

typedef struct {
    int calls[MOST_THREADS]; /* plain, not atomic: the pool itself must order the accesses */
    int wrong_threads;
} tally;

static void count_call(void *context, int thread, int threads)
{
    tally *t = context;
    ++t->calls[thread];
    if (thread == 0)
        t->wrong_threads += threads;
}

/* Calls that are missing or too many after so many runs. */
int spmd_errors(ec_pool *pool, int runs)
{
    int threads = ec_pool_threads(pool);
    tally t = {{0}, 0};
    int errors = 0;
    for (int run = 1; run <= runs; ++run) {
        ec_pool_run(pool, count_call, &t);
        for (int i = 0; i < MOST_THREADS; ++i)
            errors += t.calls[i] != (i < threads ? run : 0);
    }
    return errors + (t.wrong_threads != runs * threads);
}

/* ---- Barriers order what stands around them ------------------------------------------------- */

typedef struct {
    ec_pool *pool;
    int rounds;
    int written[MOST_THREADS];
    int errors[MOST_THREADS];
} relay;

/* Each round every thread writes its round, and after the barrier must see everyone's. */
static void pass_rounds(void *context, int thread, int threads)
{
    relay *r = context;
    for (int round = 1; round <= r->rounds; ++round) {
        r->written[thread] = round;
        ec_pool_barrier(r->pool, thread);
        for (int i = 0; i < threads; ++i)
            r->errors[thread] += r->written[i] != round;
        ec_pool_barrier(r->pool, thread);
    }
}

int barrier_errors(ec_pool *pool, int rounds)
{
    relay r = {pool, rounds, {0}, {0}};
    ec_pool_run(pool, pass_rounds, &r);
    int errors = 0;
    for (int i = 0; i < MOST_THREADS; ++i)
        errors += r.errors[i];
    return errors;
}

static void only_barriers(void *context, int thread, int threads)
{
    relay *r = context;
    (void)threads;
    for (int round = 0; round < r->rounds; ++round)
        ec_pool_barrier(r->pool, thread);
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double seconds_per_barrier(ec_pool *pool, int rounds)
{
    relay r = {pool, rounds, {0}, {0}};
    double start = seconds(CLOCK_MONOTONIC);
    ec_pool_run(pool, only_barriers, &r);
    return (seconds(CLOCK_MONOTONIC) - start) / rounds;
}

double seconds_per_run(ec_pool *pool, int runs)
{
    relay r = {pool, 0, {0}, {0}};
    double start = seconds(CLOCK_MONOTONIC);
    for (int run = 0; run < runs; ++run)
        ec_pool_run(pool, only_barriers, &r);
    return (seconds(CLOCK_MONOTONIC) - start) / runs;
}

#ifdef __linux__
/* ---- Where threads run ---------------------------------------------------------------------- */

static void note_core(void *context, int thread, int threads)
{
    (void)threads;
    ((int *)context)[thread] = sched_getcpu();
}

/* Runs in which a worker was on the core that the caller was on all the time. */
int runs_on_one_core(ec_pool *pool, int runs)
{
    int shared = 0;
    for (int run = 0; run < runs; ++run) {
        int cores[MOST_THREADS], before = sched_getcpu();
        ec_pool_run(pool, note_core, cores);
        if (before == cores[0] && before == sched_getcpu())
            for (int i = 1; i < ec_pool_threads(pool); ++i)
                shared += cores[i] == before;
    }
    return shared;
}
#endif

/* ---- Rest ----------------------------------------------------------------------------------- */

static void rest(double duration)
{
    struct timespec t = {(time_t)duration, (long)((duration - (double)(time_t)duration) * 1e9)};
    nanosleep(&t, NULL);
}

/* The processor time that the whole process uses while the pool has nothing to do. */
double idle_processor_seconds(ec_pool *pool, double duration)
{
    spmd_errors(pool, 1);
    rest(0.02);
    double start = seconds(CLOCK_PROCESS_CPUTIME_ID);
    rest(duration);
    return seconds(CLOCK_PROCESS_CPUTIME_ID) - start;
}

/* Pauses long enough to sleep, and of about the length where workers decide to. */
int errors_with_pauses(ec_pool *pool, int runs)
{
    int errors = 0;
    for (int run = 0; run < runs; ++run) {
        rest(run % 2 ? 2e-3 : 1e-6 * (double)(run % 200));
        errors += spmd_errors(pool, 3);
    }
    return errors;
}

#ifdef POOL_MAIN
int main(int count, char **arguments)
{
    int threads = count > 1 ? atoi(arguments[1]) : 1;
    void *memory = malloc(ec_pool_bytes(threads));
    ec_pool *pool = ec_pool_init(memory, threads);
    if (!pool)
        return 1;
    int errors = spmd_errors(pool, 200) + barrier_errors(pool, 200) + errors_with_pauses(pool, 20);
    ec_pool_destroy(pool);
    free(memory);
    printf("%d errors, %d workers left\n", errors, alive);
    return errors || alive;
}
#endif
