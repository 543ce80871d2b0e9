/* ec_pool.h: threads for generated code in WebAssembly, whose threads are workers of JavaScript.
 *
 * All instances of the module share one memory, in which the pool is. Before a run, whoever owns the workers has each of
 * them instantiate the module with a stack of its own and call ec_pool_work(pool, thread), which returns when the pool is
 * destroyed.
 *
 * The caller of ec_pool_run is thread 0. A page's own thread may not sleep: it says so, and watches instead. */
#ifndef EC_POOL_H
#define EC_POOL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ec_pool ec_pool;

/* One part of a task: the same function runs once on every thread, 0 <= thread < threads. */
typedef void ec_task(void *context, int thread, int threads);

/* The memory that a pool of so many threads needs. */
size_t ec_pool_bytes(int threads);

/* A pool for threads - 1 workers, which do not have to be there yet. Returns NULL if threads < 1. */
ec_pool *ec_pool_init(void *memory, int threads);

/* Has the workers return from ec_pool_work. */
void ec_pool_destroy(ec_pool *pool);

int ec_pool_threads(const ec_pool *pool);

/* Whether thread 0 may sleep; it may not unless it is told so. */
void ec_pool_may_sleep(ec_pool *pool, int allowed);

/* How long thread 0 waits for the others, roughly, before the pool fails: a worker that was ended from outside cannot tell
 * it. 0, as at first: without end. */
void ec_pool_patience(ec_pool *pool, int milliseconds);

/* The part of worker number thread, 0 < thread < threads. Returns when the pool is destroyed, or has failed. */
void ec_pool_work(ec_pool *pool, int thread);

/* A worker is lost, or all patience: all others go on to the end of their parts without it, and what they compute is of no use. */
void ec_pool_fail(ec_pool *pool);

int ec_pool_failed(const ec_pool *pool);

/* Runs the task on all threads and returns when all have finished, or when the pool has failed. */
void ec_pool_run(ec_pool *pool, ec_task *task, void *context);

/* Inside a task: returns when every thread has called it. */
void ec_pool_barrier(ec_pool *pool, int thread);

#ifdef __cplusplus
}
#endif

#endif
