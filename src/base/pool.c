/* The thread pool: workers spin for some microseconds for the next loop, then sleep.
 *
 * A loop is published by raising 'round'; workers and the caller take indices from one
 * atomic counter; the caller returns when every worker has left the loop.  A training
 * step has a dozen short loops, so waking by a condition variable each time (5-50 us)
 * would cost more than the work: hence the spinning. */
#include "base/pool.h"
#include "base/mem.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

enum { SPINS = 20000 };

struct worker {
    struct wisp_pool *pool;
    int id;
    pthread_t thread;
};

struct wisp_pool {
    int n_threads;
    struct worker *workers; /* n_threads - 1; the caller is thread 0 */
    int n_started;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_uint round;
    atomic_int sleeping, busy;
    atomic_bool quit;
    /* the loop in progress */
    void (*fn)(void *, size_t, int);
    void *arg;
    size_t n;
    _Alignas(64) atomic_size_t next;
};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void take_all(struct wisp_pool *p, int id)
{
    size_t i;
    while ((i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed)) < p->n)
        p->fn(p->arg, i, id);
}

static unsigned wait_round(struct wisp_pool *p, unsigned seen)
{
    unsigned r;
    for (int s = 0; s < SPINS; s++) {
        if ((r = atomic_load_explicit(&p->round, memory_order_acquire)) != seen) return r;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleeping, 1);
    while ((r = atomic_load(&p->round)) == seen) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleeping, 1);
    pthread_mutex_unlock(&p->lock);
    return r;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct wisp_pool *p = w->pool;
    for (unsigned seen = 0;;) {
        seen = wait_round(p, seen);
        if (atomic_load(&p->quit)) return NULL;
        take_all(p, w->id);
        atomic_fetch_sub_explicit(&p->busy, 1, memory_order_release);
    }
}

static void publish(struct wisp_pool *p)
{
    atomic_fetch_add(&p->round, 1);
    if (atomic_load(&p->sleeping) == 0) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

void wisp_parallel_for(struct wisp_pool *p, size_t n, void (*fn)(void *, size_t, int), void *arg)
{
    if (!p || p->n_threads == 1 || n <= 1) {
        for (size_t i = 0; i < n; i++) fn(arg, i, 0);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    p->n = n;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    atomic_store_explicit(&p->busy, p->n_threads - 1, memory_order_relaxed);
    publish(p);
    take_all(p, 0);
    for (int spins = 0; atomic_load_explicit(&p->busy, memory_order_acquire) > 0; spins++) {
        if (spins > SPINS) sched_yield();
        else relax();
    }
}

int wisp_cpu_quota(const char *path)
{
    FILE *f = fopen(path, "re");
    if (!f) return INT_MAX;
    double quota, period;
    int n = fscanf(f, "%lf %lf", &quota, &period); /* "max 100000" is no number: no limit */
    fclose(f);
    if (n != 2 || !(quota > 0 && period > 0 && quota / period < 1e6)) return INT_MAX;
    return (int)ceil(quota / period);
}

/* A container may be given less time than its processors have; threads beyond that only wait for
 * each other. */
static int cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    int quota = wisp_cpu_quota("/sys/fs/cgroup/cpu.max");
    return n < quota ? n : quota;
}

wisp_status wisp_pool_create(struct wisp_pool **out, int threads, wisp_error *err)
{
    *out = NULL;
    if (threads < 0 || threads > 1024)
        return wisp_fail(err, WISP_EINVAL, "threads: %d is not in 0..1024", threads);
    struct wisp_pool *p = wisp_zalloc(1, sizeof *p);
    if (!p) return wisp_fail_mem(err, sizeof *p, "the thread pool");
    p->n_threads = threads ? threads : cores();
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->workers = wisp_zalloc((size_t)p->n_threads, sizeof *p->workers);
    if (!p->workers) {
        wisp_pool_free(p);
        return wisp_fail_mem(err, (size_t)p->n_threads * sizeof *p->workers, "the thread pool");
    }
    for (int i = 0; i < p->n_threads - 1; i++) {
        p->workers[i] = (struct worker){ .pool = p, .id = i + 1 };
        if (pthread_create(&p->workers[i].thread, NULL, work, &p->workers[i]) != 0) {
            wisp_pool_free(p);
            return wisp_fail(err, WISP_ENOMEM, "could not start thread %d of %d", i + 2,
                             threads ? threads : cores());
        }
        p->n_started++;
    }
    *out = p;
    return WISP_OK;
}

void wisp_pool_free(struct wisp_pool *p)
{
    if (!p) return;
    atomic_store(&p->quit, true);
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->round, 1);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_started; i++) pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    wisp_free(p->workers);
    wisp_free(p);
}

int wisp_pool_threads(const struct wisp_pool *p)
{
    return p ? p->n_threads : 1;
}
