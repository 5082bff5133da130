/* Threads.  The only threading in the library: a pool of workers, a parallel loop, work for those
 * who would wait, and an account of where the time goes.
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
/* Cores that this process may use: those it may run on, at most its cgroup's quota. */
int wisp_cores(void);
/* Processors that a cgroup (version 2) may keep busy, from its file cpu.max: "200000 100000" is 2;
 * INT_MAX: no limit, or no such file. */
int wisp_cpu_quota(const char *path);
#define WISP_CPU_MAX "/sys/fs/cgroup/cpu.max"
/* pool may be NULL: a plain loop. */
void wisp_parallel_for(struct wisp_pool *pool, size_t n,
                       void (*fn)(void *arg, size_t i, int thread), void *arg);

/* A piece of work that is repeated, such as a training step, was done in so many seconds.  The pool finds
 * out by such beats how many of its threads are better left out, because others use their cores; the
 * rest take part in loops (team.h).  Without beats all do. */
void wisp_pool_beat(struct wisp_pool *pool, double work, double seconds);
/* Threads that take part now. */
int wisp_pool_team(const struct wisp_pool *pool);

/* ---- work beside the loops ---- */

struct wisp_stage { /* a loop that begins when the stage before it is done */
    size_t n;
    void (*fn)(void *arg, size_t i, int thread);
};
enum { WISP_STAGES = 4 };

/* Leaves stages, all with one arg, to threads that would wait otherwise; the calls of one
 * wisp_later end before the next begins.  They must not use the pool.  Their time is counted for
 * the phase of the caller. */
void wisp_later(struct wisp_pool *pool, const struct wisp_stage *stages, size_t n_stages,
                void *arg);
/* Returns when they are done; the caller does what nobody has begun. */
void wisp_later_finish(struct wisp_pool *pool);

/* ---- where the time goes ---- */

/* Time is counted by numbered phases.  Two are the pool's own; what those between them are is the
 * business of whoever uses the pool (layer/phase.h). */
enum {
    WISP_PHASES = 11,
    WISP_PHASE_OTHER = 0,              /* where every thread begins */
    WISP_PHASE_WAIT = WISP_PHASES - 1, /* for other threads */
};

/* From now on this thread's time is the phase's.  Threads that join a loop begin in the phase of
 * the caller. */
void wisp_phase(struct wisp_pool *pool, int thread, int phase);
/* Seconds of each phase, summed over threads, since the pool was made, to be asked between loops;
 * waiting between loops is not counted for workers. */
void wisp_phase_seconds(const struct wisp_pool *pool, double out[WISP_PHASES]);
/* Seconds that the caller worked between loops, in phases other than 'other', while all others
 * waited. */
double wisp_serial_seconds(const struct wisp_pool *pool);

#endif
