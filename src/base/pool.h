/* Threads.  The only threading in the library: a pool of workers and a parallel loop.
 *
 * fn(arg, i, thread) runs once for every i in 0 .. n-1; 'thread' is 0 .. threads-1 and
 * is never the same for two calls that run at the same time (use it to pick scratch).
 * Which thread takes which i is not fixed, so results must depend on i alone. */
#ifndef WISP_BASE_POOL_H
#define WISP_BASE_POOL_H

#include "base/error.h"

struct wisp_pool;

/* threads 0: one per core this process may use. */
wisp_status wisp_pool_create(struct wisp_pool **out, int threads, wisp_error *err);
void wisp_pool_free(struct wisp_pool *pool);
int wisp_pool_threads(const struct wisp_pool *pool);
/* Processors that a cgroup (version 2) may keep busy, from its file cpu.max: "200000 100000" is 2;
 * INT_MAX: no limit, or no such file. */
int wisp_cpu_quota(const char *path);
/* pool may be NULL: a plain loop. */
void wisp_parallel_for(struct wisp_pool *pool, size_t n,
                       void (*fn)(void *arg, size_t i, int thread), void *arg);

#endif
