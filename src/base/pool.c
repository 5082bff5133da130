/* The thread pool: workers spin for a fraction of a millisecond for the next loop, then sleep.
 *
 * A loop is open while 'round' is odd.  Workers that see it open enter and take indices from one
 * atomic counter, as the caller does; the caller closes the loop when no index is left, and
 * returns when all who entered have left.  One who comes late finds the loop closed and is not
 * waited for.  A training step has a dozen short loops, so waking by a condition variable each
 * time (5-50 us) would cost more than the work: hence the spinning.
 *
 * Who waits lets others have the core now and then: it may be one of ours that was driven from its own.
 *
 * Between loops workers do what wisp_later left them, a task at a time.  Those that the team leaves out
 * rest: they neither spin nor wake for loops. */
#include "base/pool.h"
#include "base/bounds.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/team.h"
#include "base/text.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SPINS = 256 };                 /* between two looks at the clock: some microseconds */
static const double AWAKE_S = 200e-6; /* before a worker sleeps */
static const double LATE_S = 100e-6;  /* after the others */

struct worker {
    struct wisp_pool *pool;
    int id;
    pthread_t thread;
    _Alignas(64) atomic_bool inside; /* of a loop */
    atomic_bool rests;               /* is not of the team */
    double late;                     /* how often it was, lately; the caller's */
};

struct account { /* of one thread */
    _Alignas(64) int phase;
    double since;
    _Atomic double seconds[WISP_PHASES]; /* written by the thread alone, read by any */
};

struct later {
    pthread_mutex_t lock; /* of all below but 'waiting' */
    struct wisp_stage stages[WISP_STAGES];
    size_t n_stages, stage; /* the stage at work; n_stages: all are done */
    size_t next, done;      /* of that stage's tasks */
    void *arg;
    int phase;
    _Alignas(64) atomic_bool waiting; /* there may be a task to take */
};

struct wisp_pool {
    int n_threads;
    struct worker *workers;   /* n_threads - 1; the caller is thread 0 */
    struct account *accounts; /* n_threads */
    int n_started;
    pthread_mutex_t lock;
    pthread_cond_t wake, rest_is_over;
    struct later later;
    struct wisp_team team;
    int n_team;
    double serial, closed; /* time between loops; when the last one closed */
    /* Each on its own cache line: all workers look at 'round' while others count themselves in and
     * out. */
    _Alignas(64) atomic_uint round; /* odd: a loop is open */
    atomic_int sleeping;
    atomic_bool quit;
    _Alignas(64) atomic_int inside;
    /* the loop in progress */
    _Alignas(64) void (*fn)(void *, size_t, int);
    void *arg;
    size_t n;
    int phase; /* of the caller when it opened */
    _Alignas(64) atomic_size_t next;
};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* ---- phases ---- */

void wisp_phase(struct wisp_pool *p, int thread, int phase)
{
    if (!p) return;
    struct account *a = &p->accounts[thread];
    double now = wisp_now();
    double sum = atomic_load_explicit(&a->seconds[a->phase], memory_order_relaxed);
    atomic_store_explicit(&a->seconds[a->phase], sum + (now - a->since), memory_order_relaxed);
    a->since = now;
    a->phase = phase;
}

/* A worker's time since it last worked is nobody's. */
static void begin_account(struct wisp_pool *p, int thread, int phase)
{
    p->accounts[thread].since = wisp_now();
    p->accounts[thread].phase = phase;
}

void wisp_phase_seconds(const struct wisp_pool *p, double out[WISP_PHASES])
{
    memset(out, 0, WISP_PHASES * sizeof *out);
    for (int t = 0; p && t < p->n_threads; t++)
        for (int i = 0; i < WISP_PHASES; i++)
            out[i] += atomic_load_explicit(&p->accounts[t].seconds[i], memory_order_relaxed);
}

double wisp_serial_seconds(const struct wisp_pool *p)
{
    return p ? p->serial : 0;
}

/* ---- later ---- */

/* One task, if there is one to take now. */
static bool do_later(struct wisp_pool *p, int id)
{
    struct later *l = &p->later;
    if (!atomic_load_explicit(&l->waiting, memory_order_acquire)) return false;
    pthread_mutex_lock(&l->lock);
    bool some = l->stage < l->n_stages && l->next < l->stages[l->stage].n;
    size_t i = some ? l->next++ : 0;
    struct wisp_stage stage = some ? l->stages[l->stage] : (struct wisp_stage){ 0, NULL };
    void *arg = l->arg;
    int phase = l->phase;
    bool last_taken = some && i + 1 == stage.n;
    if (last_taken) atomic_store(&l->waiting, false);
    pthread_mutex_unlock(&l->lock);
    if (!some) return false;
    int before = p->accounts[id].phase;
    if (id > 0) begin_account(p, id, phase);
    else wisp_phase(p, id, phase);
    stage.fn(arg, i, id);
    wisp_phase(p, id, before);
    pthread_mutex_lock(&l->lock);
    if (++l->done == stage.n) {
        l->stage++;
        l->next = l->done = 0;
        atomic_store(&l->waiting, l->stage < l->n_stages);
    }
    pthread_mutex_unlock(&l->lock);
    return true;
}

static bool later_is_done(struct later *l)
{
    pthread_mutex_lock(&l->lock);
    bool done = l->stage == l->n_stages;
    pthread_mutex_unlock(&l->lock);
    return done;
}

void wisp_later(struct wisp_pool *p, const struct wisp_stage *stages, size_t n_stages, void *arg)
{
    assert(n_stages <= WISP_STAGES);
    if (!p) {
        for (size_t s = 0; s < n_stages; s++)
            for (size_t i = 0; i < stages[s].n; i++) stages[s].fn(arg, i, 0);
        return;
    }
    wisp_later_finish(p);
    struct later *l = &p->later;
    pthread_mutex_lock(&l->lock);
    l->n_stages = 0;
    for (size_t s = 0; s < n_stages; s++)
        if (stages[s].n) l->stages[l->n_stages++] = stages[s];
    l->stage = l->next = l->done = 0;
    l->arg = arg;
    l->phase = p->accounts[0].phase;
    atomic_store(&l->waiting, l->n_stages > 0);
    pthread_mutex_unlock(&l->lock);
}

void wisp_later_finish(struct wisp_pool *p)
{
    if (!p) return;
    for (int spins = 0; !later_is_done(&p->later); spins++) {
        if (do_later(p, 0)) spins = 0;
        else if (spins % SPINS == SPINS - 1) sched_yield();
        else relax();
    }
}

/* ---- loops ---- */

static void take_all(struct wisp_pool *p, int id)
{
    size_t i;
    while ((i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed)) < p->n)
        p->fn(p->arg, i, id);
}

/* Returns when it is of the team, or the pool wants to quit. */
static void rest(struct wisp_pool *p, struct worker *w)
{
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&w->rests) && !atomic_load(&p->quit))
        pthread_cond_wait(&p->rest_is_over, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

/* The next round in which a loop is open; or the pool wants to quit. */
static unsigned wait_round(struct wisp_pool *p, unsigned seen, int id)
{
    unsigned r;
    double until = 0;
    for (int s = 0; s < SPINS; s++) {
        if ((r = atomic_load_explicit(&p->round, memory_order_acquire)) != seen && r % 2) return r;
        if (do_later(p, id)) until = s = 0;
        relax();
        if (s < SPINS - 1) continue;
        sched_yield();
        const double now = wisp_now();
        if (until == 0) until = now + AWAKE_S;
        if (now < until) s = 0;
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleeping, 1);
    while (((r = atomic_load(&p->round)) == seen || r % 2 == 0) && !atomic_load(&p->quit))
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleeping, 1);
    pthread_mutex_unlock(&p->lock);
    return r;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct wisp_pool *p = w->pool;
    for (unsigned seen = 0;;) {
        seen = wait_round(p, seen, w->id);
        if (atomic_load(&p->quit)) return NULL;
        if (atomic_load_explicit(&w->rests, memory_order_relaxed)) {
            rest(p, w);
            continue;
        }
        atomic_store_explicit(&w->inside, true, memory_order_relaxed);
        atomic_fetch_add(&p->inside, 1);
        if (atomic_load(&p->round) == seen) { /* else it closed meanwhile */
            begin_account(p, w->id, p->phase);
            take_all(p, w->id);
            wisp_phase(p, w->id, WISP_PHASE_WAIT);
        }
        atomic_store_explicit(&w->inside, false, memory_order_relaxed);
        atomic_fetch_sub(&p->inside, 1);
    }
}

static void open_loop(struct wisp_pool *p)
{
    atomic_fetch_add(&p->round, 1);
    if (atomic_load(&p->sleeping) == 0) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

/* Whom the others wait for now. */
static void count_late(struct wisp_pool *p)
{
    for (int i = 0; i < p->n_started; i++)
        if (atomic_load_explicit(&p->workers[i].inside, memory_order_relaxed))
            p->workers[i].late += 1;
}

static void close_loop(struct wisp_pool *p)
{
    int phase = p->accounts[0].phase;
    wisp_phase(p, 0, WISP_PHASE_WAIT);
    atomic_fetch_add(&p->round, 1);
    bool counted = false;
    for (int spins = 0; atomic_load(&p->inside) > 0; spins++) {
        relax();
        if (spins % SPINS < SPINS - 1) continue;
        sched_yield();
        if (counted || wisp_now() - p->accounts[0].since < LATE_S) continue;
        count_late(p);
        counted = true;
    }
    wisp_phase(p, 0, phase);
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
    p->phase = p->accounts[0].phase;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    if (p->phase != WISP_PHASE_OTHER) p->serial += wisp_now() - p->closed;
    open_loop(p);
    take_all(p, 0);
    close_loop(p);
    p->closed = p->accounts[0].since;
}

/* ---- the team ---- */

/* Of those that rest, or do not: who was late least, or most. */
static struct worker *choose(struct wisp_pool *p, bool rests)
{
    struct worker *best = NULL;
    for (int i = 0; i < p->n_started; i++) {
        struct worker *w = &p->workers[i];
        if (atomic_load_explicit(&w->rests, memory_order_relaxed) != rests) continue;
        if (!best || (rests ? w->late < best->late : w->late >= best->late)) best = w;
    }
    return best;
}

void wisp_pool_beat(struct wisp_pool *p, double work, double seconds)
{
    if (!p || p->n_threads == 1) return;
    const int before = p->team.now, now = wisp_team_beat(&p->team, work, seconds);
    if (now == before) return;
    pthread_mutex_lock(&p->lock);
    for (; p->n_team > now; p->n_team--) atomic_store(&choose(p, false)->rests, true);
    for (; p->n_team < now; p->n_team++) atomic_store(&choose(p, true)->rests, false);
    pthread_cond_broadcast(&p->rest_is_over);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_started; i++) p->workers[i].late *= 0.9; /* what was long ago fades */
}

int wisp_pool_team(const struct wisp_pool *p)
{
    return p ? p->n_team : 1;
}

int wisp_cpu_quota(const char *path)
{
    FILE *f = fopen(path, "re");
    if (!f) return INT_MAX;
    double quota, period;
    char line[100] = "";
    int n = fgets(line, sizeof line, f) ? wisp_scan(line, "%lf %lf", &quota, &period) : 0;
    fclose(f); /* "max 100000" is no number: no limit */
    if (n != 2 || !(quota > 0 && period > 0 && quota / period < 1e6)) return INT_MAX;
    return (int)ceil(quota / period);
}

/* A container may be given less time than its processors have; threads beyond that only wait for
 * each other. */
int wisp_cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    int quota = wisp_cpu_quota(WISP_CPU_MAX);
    return n < quota ? n : quota;
}

wisp_status wisp_pool_create(struct wisp_pool **out, int threads, wisp_error *err)
{
    *out = NULL;
    if (threads < 0 || threads > WISP_MOST_THREADS)
        return wisp_fail_option(err, "threads", "%d is not in 0..%d", threads, WISP_MOST_THREADS);
    struct wisp_pool *p = wisp_zalloc(1, sizeof *p);
    if (!p) return wisp_fail_mem(err, sizeof *p, "the thread pool");
    p->n_threads = p->n_team = threads ? threads : wisp_cores();
    wisp_team_init(&p->team, p->n_threads);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->rest_is_over, NULL);
    pthread_mutex_init(&p->later.lock, NULL);
    p->workers = wisp_zalloc((size_t)p->n_threads, sizeof *p->workers);
    p->accounts = wisp_zalloc((size_t)p->n_threads, sizeof *p->accounts);
    if (!p->workers || !p->accounts) {
        size_t bytes = (size_t)p->n_threads * sizeof *p->workers;
        wisp_pool_free(p);
        return wisp_fail_mem(err, bytes, "the thread pool");
    }
    p->accounts[0].since = wisp_now();
    for (int i = 0; i < p->n_threads - 1; i++) {
        p->workers[i] = (struct worker){ .pool = p, .id = i + 1 };
        if (pthread_create(&p->workers[i].thread, NULL, work, &p->workers[i]) != 0) {
            wisp_pool_free(p);
            return wisp_fail(err, WISP_ENOMEM, "could not start thread %d of %d", i + 2,
                             threads ? threads : wisp_cores());
        }
        p->n_started++;
    }
    *out = p;
    return WISP_OK;
}

void wisp_pool_free(struct wisp_pool *p)
{
    if (!p) return;
    wisp_later_finish(p);
    atomic_store(&p->quit, true);
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->round, 1); /* opens one that nobody enters: those who spin see it */
    pthread_cond_broadcast(&p->wake);
    pthread_cond_broadcast(&p->rest_is_over);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_started; i++) pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_cond_destroy(&p->rest_is_over);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->later.lock);
    wisp_free(p->accounts);
    wisp_free(p->workers);
    wisp_free(p);
}

int wisp_pool_threads(const struct wisp_pool *p)
{
    return p ? p->n_threads : 1;
}
