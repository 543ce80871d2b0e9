/* ec_pool.h: threads for generated code, owned by the caller.
 *
 *     void *memory = malloc(ec_pool_bytes(4));     (or static storage: any address will do)
 *     ec_pool *pool = ec_pool_init(memory, 4);     (NULL: the threads could not be started)
 *     ec_pool_run(pool, task, context);            (as often as you like)
 *     ec_pool_destroy(pool);                       (then the memory is yours again)
 *
 * No allocation and no globals: pools are independent of each other. One pool serves one caller at
 * a time, and a task must not run another task on its own pool.
 *
 * fork() copies the memory of a pool and none of its threads: in the child, a task runs on one
 * thread, as one part, and ec_pool_destroy does nothing. A child that wants threads makes a pool of
 * its own. No thread may be inside ec_pool_run while another one forks, or the child must not use
 * what that run was writing. */
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

/* Starts threads - 1 workers; the caller of ec_pool_run is thread 0. Returns NULL, with nothing
 * left running, if threads < 1 or a worker cannot be started. */
ec_pool *ec_pool_init(void *memory, int threads);

/* Ends and joins the workers. */
void ec_pool_destroy(ec_pool *pool);

int ec_pool_threads(const ec_pool *pool);

/* Runs the task on all threads and returns when all have finished; what they wrote is visible
 * then. Workers watch for the next call during EC_POOL_SPIN_US and sleep after that. */
void ec_pool_run(ec_pool *pool, ec_task *task, void *context);

/* Inside a task: returns when every thread has called it. */
void ec_pool_barrier(ec_pool *pool, int thread);

#ifdef __cplusplus
}
#endif

#endif
