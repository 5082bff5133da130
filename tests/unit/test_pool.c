/* Loops, work beside them, and the account of time, with up to 8 threads on any number of cores.
 * What threads share is plain memory wherever the pool promises an order, so that a run under
 * ThreadSanitizer (make SAN=thread) proves the promise. */
#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/team.h"
#include "layer/phase.h"
#include "test.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 8, MAX_TASKS = 600 };

static uint64_t rng = 5;

static size_t below(size_t n)
{
    return (size_t)(test_rand(&rng) >> 20) % n;
}

static struct wisp_pool *make_pool(int threads)
{
    struct wisp_pool *p;
    wisp_error err = { 0 };
    CHECK(wisp_pool_create(&p, threads, &err) == WISP_OK, "%s", err.text);
    if (!p) exit(2);
    CHECK(wisp_pool_threads(p) == threads, "%d threads", wisp_pool_threads(p));
    return p;
}

/* ---- who is at work: CHECK is not for many threads, so faults are counted ---- */

static int n_threads;
static atomic_bool busy[MAX_THREADS];
static atomic_int bad_thread, shared_thread, too_early;

/* Relaxed: the test must not order what the pool fails to order. */
static void enter(int thread)
{
    if (thread < 0 || thread >= n_threads) atomic_fetch_add(&bad_thread, 1);
    else if (atomic_exchange_explicit(&busy[thread], true, memory_order_relaxed))
        atomic_fetch_add(&shared_thread, 1);
}
static void leave(int thread)
{
    if (thread >= 0 && thread < n_threads)
        atomic_store_explicit(&busy[thread], false, memory_order_relaxed);
}
static void idle(size_t turns)
{
    for (volatile size_t i = 0; i < turns; i++) {}
}
static void check_faults(const char *where)
{
    CHECK(bad_thread == 0, "%s, %d threads: %d times a thread that is none", where, n_threads,
          (int)bad_thread);
    CHECK(shared_thread == 0, "%s, %d threads: %d times two at once with one number", where,
          n_threads, (int)shared_thread);
    CHECK(too_early == 0, "%s, %d threads: %d times before its turn", where, n_threads,
          (int)too_early);
    bad_thread = shared_thread = too_early = 0;
}

/* ---- loops ---- */

static int hits[MAX_TASKS + 1];

static void hit(void *arg, size_t i, int thread)
{
    enter(thread);
    hits[i] += *(const int *)arg;
    if (i % 16 == 3) idle(200);
    leave(thread);
}

static void loop(struct wisp_pool *p, size_t n)
{
    int arg = 1 + (int)below(1000);
    memset(hits, 0, sizeof hits);
    wisp_parallel_for(p, n, hit, &arg);
    size_t right = 0;
    for (size_t i = 0; i < n; i++) right += hits[i] == arg;
    CHECK(right == n && hits[n] == 0, "%d threads: %zu of %zu once", n_threads, right, n);
}

static void test_loops(void)
{
    TEST("pool: every index of many short loops once; no thread number twice at a time");
    for (n_threads = 1; n_threads <= MAX_THREADS; n_threads++) {
        struct wisp_pool *p = make_pool(n_threads);
        for (int i = 0; i < 400; i++) {
            loop(p, below(3) ? below(12) : below(MAX_TASKS));
            if (i % 100 == 99) usleep(3000); /* let them fall asleep */
        }
        check_faults("loops");
        wisp_pool_free(p);
    }
    n_threads = 1;
    loop(NULL, 10);
    check_faults("no pool");
    CHECK(wisp_pool_threads(NULL) == 1, "no pool is one thread");
}

/* More threads than one take part, if they are given the time. */
static atomic_int helpers;

static void wait_for_help(void *arg, size_t i, int thread)
{
    double end = *(const double *)arg;
    (void)i;
    if (thread > 0) helpers = 1;
    while (!helpers && wisp_now() < end) idle(100);
}

static void test_help(void)
{
    TEST("pool: workers come to help, awake or asleep");
    struct wisp_pool *p = make_pool(3);
    for (int asleep = 0; asleep < 2; asleep++) {
        double end = wisp_now() + 20;
        helpers = 0;
        if (asleep) usleep(30000);
        wisp_parallel_for(p, 2, wait_for_help, &end);
        CHECK(helpers, "nobody came");
    }
    wisp_pool_free(p);
}

/* ---- who takes part ---- */

/* Seconds of a step with n threads on 16 cores, of which others use 'taken': the threads that are too
 * many run half of the time, and all wait for them.  Some noise. */
static double step_size = 1;
static double step_seconds(int n, int taken)
{
    const double noise = 1 + 0.01 * ((double)below(2001) / 1000 - 1);
    const double serial = 0.0005, work = 0.08;
    return step_size * noise * (serial + (n > 16 - taken ? 2 * work / n : work / n));
}

/* Of the time of 'long_s' seconds, what a team of the right size would have saved. */
static double lost(struct wisp_team *t, int taken, double long_s)
{
    double at = 0, least = 0;
    while (at < long_s) {
        double s = step_seconds(t->now, taken), best = s;
        for (int n = 1; n <= t->most; n++) {
            double other = step_seconds(n, taken);
            if (other < best) best = other;
        }
        at += s;
        least += best;
        wisp_team_beat(t, 256, s);
    }
    return 1 - least / at;
}

static void test_team(void)
{
    TEST("team: threads whose cores others take are left out, and called again");
    const int taken[] = { 0, 1, 0, 2, 4, 9, 4, 0, 15, 0 };
    for (int most = 1; most <= 16; most = most < 4 ? most + 1 : most * 2) {
        struct wisp_team t;
        wisp_team_init(&t, most);
        for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
            double first = lost(&t, taken[i], 10), then = lost(&t, taken[i], 20);
            bool clear = 16 - taken[i] >= most || taken[i] <= 4;
            CHECK(first < 0.35 && then < (clear ? 0.08 : 0.15),
                  "%d threads, %d cores taken: %.3f of 10 s lost, then %.3f of 20; %d take part",
                  most, taken[i], first, then, t.home);
        }
    }
    TEST("team: on a quiet machine trials cost next to nothing");
    for (int most = 2; most <= 16; most *= 2) {
        struct wisp_team t;
        wisp_team_init(&t, most);
        lost(&t, 0, 20);
        double later = lost(&t, 0, 100);
        CHECK(t.home == most && later < 0.016, "%d of %d take part, %.4f lost", t.home, most,
              later);
    }
}

/* Trials are paid for when they are over: a short run must not consist of them. */
static void test_long_steps(void)
{
    TEST("team: steps that take long");
    step_size = 4;
    for (int most = 2; most <= 4; most *= 2) {
        struct wisp_team t;
        wisp_team_init(&t, most);
        const double first = lost(&t, 0, 3), then = lost(&t, 0, 60);
        CHECK(first < 0.02 && then < 0.03 && t.home == most,
              "%d threads: %.3f of 3 s lost, then %.3f of 60; %d take part", most, first, then,
              t.home);
        const double taken = lost(&t, 17 - most, 60);
        CHECK(taken < 0.1, "%d threads, a core fewer: %.3f of 60 s lost, %d take part", most, taken,
              t.home);
    }
    step_size = 1;
}

static atomic_uint took_part;

static void take_part(void *arg, size_t i, int thread)
{
    (void)arg, (void)i;
    atomic_fetch_or(&took_part, 1u << thread);
    idle(2000);
}

static void test_rest(void)
{
    TEST("team: those who are left out rest, and come back");
    struct wisp_pool *p = make_pool(n_threads = 4);
    bool rested = false, came_back = false;
    for (int i = 0; i < 3000; i++) { /* two do the same work in half the time; later four do */
        const bool few = i < 1500;
        wisp_pool_beat(p, 1, wisp_pool_team(p) == (few ? 2 : 4) ? 0.01 : 0.02);
        if (i % 10) continue;
        loop(p, below(100));
        if (wisp_pool_team(p) == 2) rested = true;
        if (rested && wisp_pool_team(p) == 4) came_back = true;
    }
    CHECK(rested && came_back, "team of %d", wisp_pool_team(p));
    for (int i = 0; i < 2000; i++) wisp_pool_beat(p, 1, 0.01 * wisp_pool_team(p));
    for (int i = 0; i < 50 && wisp_pool_team(p) > 1; i++) /* a trial may be in progress */
        wisp_pool_beat(p, 1, 0.01 * wisp_pool_team(p));
    took_part = 0;
    for (int i = 0; i < 20; i++) wisp_parallel_for(p, 64, take_part, NULL);
    CHECK(took_part == 1, "threads %x took part", (unsigned)took_part);
    check_faults("team");
    wisp_pool_free(p); /* with some at rest */
}

/* ---- work beside the loops ---- */

struct job {
    size_t n[WISP_STAGES];
    int seen[WISP_STAGES][MAX_TASKS];
    long value[WISP_STAGES][MAX_TASKS]; /* from the stage before */
    atomic_size_t done[WISP_STAGES];
    const struct job *before; /* must be done entirely */
    atomic_size_t by[MAX_THREADS];
    size_t idle;
};

static bool is_done(const struct job *j, size_t stages)
{
    for (size_t s = 0; s < stages; s++)
        if (atomic_load_explicit(&j->done[s], memory_order_relaxed) != j->n[s]) return false;
    return true;
}

static long value_before(const struct job *j, size_t s, size_t i)
{
    while (s > 0 && j->n[s - 1] == 0) s--;
    return s > 0 ? j->value[s - 1][i % j->n[s - 1]] : 1;
}

static void do_task(struct job *j, size_t s, size_t i, int thread)
{
    enter(thread);
    if (!is_done(j, s) || (j->before && !is_done(j->before, WISP_STAGES)))
        atomic_fetch_add(&too_early, 1);
    if (thread >= 0 && thread < MAX_THREADS)
        atomic_fetch_add_explicit(&j->by[thread], 1, memory_order_relaxed);
    idle(i % 4 ? j->idle : 10 * j->idle);
    j->value[s][i] = value_before(j, s, i) * 3 + (long)s;
    j->seen[s][i]++;
    atomic_fetch_add_explicit(&j->done[s], 1, memory_order_relaxed);
    leave(thread);
}

#define STAGE(number)                                                                              \
    static void stage##number(void *arg, size_t i, int thread)                                     \
    {                                                                                              \
        do_task(arg, number, i, thread);                                                           \
    }
STAGE(0)
STAGE(1)
STAGE(2)
STAGE(3)

static struct job jobs[3]; /* one is made, one waits, one must be done before it */

static struct job *new_job(size_t most)
{
    static int turn;
    struct job *j = &jobs[turn++ % 3];
    memset(j, 0, sizeof *j);
    for (size_t s = 0; s < WISP_STAGES; s++) j->n[s] = below(4) ? 1 + below(most) : 0;
    j->idle = below(300);
    return j;
}

static void leave_for_later(struct wisp_pool *p, const struct job *j, size_t n_stages)
{
    const struct wisp_stage stages[WISP_STAGES] = {
        { j->n[0], stage0 }, { j->n[1], stage1 }, { j->n[2], stage2 }, { j->n[3], stage3 }
    };
    wisp_later(p, stages, n_stages, (void *)j);
}

static void check_job(const struct job *j)
{
    size_t wrong = 0;
    for (size_t s = 0; s < WISP_STAGES; s++)
        for (size_t i = 0; i < MAX_TASKS; i++) {
            wrong += j->seen[s][i] != (i < j->n[s]);
            wrong += i < j->n[s] && j->value[s][i] != value_before(j, s, i) * 3 + (long)s;
        }
    CHECK(wrong == 0, "%d threads: %zu tasks not once, or not after those before", n_threads,
          wrong);
}

static void test_later(void)
{
    TEST("later: every task once, stages in order, with loops in between");
    for (n_threads = 1; n_threads <= MAX_THREADS; n_threads += 1 + n_threads / 4) {
        struct wisp_pool *p = make_pool(n_threads);
        struct job *j, *last = NULL;
        for (int round = 0; round < 100; round++) {
            j = new_job(round % 10 == 9 ? 100 : 8);
            j->before = last;
            leave_for_later(p, j, WISP_STAGES);
            if (last) check_job(last);
            last = below(3) ? NULL : j; /* at times the next one has to wait for this one */
            for (size_t loops = below(3); loops > 0; loops--) loop(p, below(30));
            if (last) continue;
            wisp_later_finish(p);
            check_job(j);
        }
        wisp_later_finish(p);
        if (last) check_job(last);
        check_faults("later");
        wisp_pool_free(p);
    }

    TEST("later: few stages, empty ones, none; finishing nothing, and twice");
    n_threads = 3;
    struct wisp_pool *p = make_pool(n_threads);
    wisp_later_finish(p);
    for (size_t stages = 0; stages <= WISP_STAGES; stages++)
        for (size_t full = 0; full < 1u << stages; full++) {
            struct job *j = new_job(1);
            for (size_t s = 0; s < WISP_STAGES; s++) j->n[s] = full >> s & 1;
            leave_for_later(p, j, stages);
            wisp_later_finish(p);
            check_job(j);
            wisp_later_finish(p);
        }
    check_faults("few stages");
    wisp_pool_free(p);

    TEST("later: without a pool at once and in order");
    n_threads = 1;
    struct job *j = new_job(20);
    leave_for_later(NULL, j, WISP_STAGES);
    check_job(j);
    wisp_later_finish(NULL);
    check_faults("no pool");

    TEST("later: a pool that is freed with work left does it first");
    for (n_threads = 1; n_threads <= MAX_THREADS; n_threads *= 2)
        for (int loops = 0; loops < 3; loops++) {
            p = make_pool(n_threads);
            j = new_job(40);
            leave_for_later(p, j, WISP_STAGES);
            for (int i = 0; i < loops; i++) loop(p, 20);
            wisp_pool_free(p);
            check_job(j);
        }
    check_faults("freed");
}

static void test_later_helpers(void)
{
    TEST("later: workers that have nothing else to do take it up without being asked");
    struct wisp_pool *p = make_pool(n_threads = 2);
    struct job *j = new_job(50);
    j->n[3] = 1;
    leave_for_later(p, j, WISP_STAGES);
    for (double end = wisp_now() + 20; !is_done(j, WISP_STAGES) && wisp_now() < end; usleep(200))
        loop(p, 4);
    CHECK(is_done(j, WISP_STAGES), "nobody did it");
    CHECK(j->by[0] == 0, "it was not asked of thread 0, or by a thread in its name");
    wisp_later_finish(p);
    check_job(j);
    wisp_pool_free(p);

    p = make_pool(n_threads = 1); /* the only thread has something else to do */
    j = new_job(50);
    j->n[0] = 5;
    leave_for_later(p, j, WISP_STAGES);
    for (int i = 0; i < 10; i++) loop(p, 4);
    CHECK(atomic_load(&j->done[0]) == 0, "done in a loop");
    wisp_later_finish(p);
    check_job(j);
    wisp_pool_free(p);
    check_faults("helpers");
}

/* ---- where the time goes: every sum lies between what was seen inside and outside of it ---- */

static struct wisp_pool *timed;
static double low[WISP_PHASES], high[WISP_PHASES], inner[MAX_TASKS];
static int now_in; /* of thread 0, since about ... */
static double since_out, since_in;

/* Thread 0 turns to a phase and stays in it for so long. */
static void stay(int phase, unsigned us)
{
    double out = wisp_now();
    wisp_phase(timed, 0, phase);
    double in = wisp_now();
    low[now_in] += out - since_in, high[now_in] += in - since_out;
    now_in = phase, since_out = out, since_in = in;
    if (us) usleep(us);
}

static void spend(void *arg, size_t i, int thread)
{
    const int *phases = arg; /* of even and odd tasks; NULL: as it comes */
    if (phases) wisp_phase(timed, thread, phases[i % 2]);
    double begin = wisp_now();
    while (wisp_now() < begin + 5e-4) idle(50);
    inner[i] = wisp_now() - begin;
}

/* A loop; without phases thread 0 still is in its own afterwards. */
static void timed_loop(size_t n, const int *phases)
{
    double begin = wisp_now();
    low[now_in] += begin - since_in, high[now_in] += begin - since_out;
    wisp_parallel_for(timed, n, spend, (void *)phases);
    if (phases) wisp_phase(timed, 0, now_in);
    since_in = since_out = wisp_now();
    double all = (since_out - begin) * n_threads;
    high[WISP_PHASE_WAIT] += all;
    for (size_t i = 0; i < n; i++) high[WISP_PHASE_WAIT] -= inner[i];
    for (size_t i = 0; i < n; i++) low[phases ? phases[i % 2] : now_in] += inner[i];
    for (int i = 0; phases && i < 2; i++) high[phases[i]] += all;
    high[now_in] += all;
}

/* Work left in one phase, done while thread 0 is in another. */
static void timed_later(size_t n, int then)
{
    const struct wisp_stage stage = { n, spend };
    double begin = wisp_now();
    low[now_in] += begin - since_in, high[now_in] += begin - since_out;
    wisp_later(timed, &stage, 1, NULL);
    wisp_phase(timed, 0, then);
    wisp_later_finish(timed);
    since_in = since_out = wisp_now();
    double all = (since_out - begin) * n_threads;
    for (size_t i = 0; i < n; i++) low[now_in] += inner[i];
    high[now_in] += all, high[then] += all;
    now_in = then;
}

static void check_phases(void)
{
    double got[WISP_PHASES];
    wisp_phase_seconds(timed, got);
    for (int i = 0; i < WISP_PHASES; i++)
        CHECK(got[i] >= low[i] - 1e-6 && got[i] <= high[i] + 1e-6,
              "%d threads, %s: %.6f s, not %.6f .. %.6f", n_threads, wisp_phase_name(i), got[i],
              low[i], high[i]);
}

/* The caller has nothing to do, the other one has: it waits. */
static void wait_for_worker(void *arg, size_t i, int thread)
{
    double begin = wisp_now();
    wait_for_help(arg, i, thread);
    while (thread > 0 && wisp_now() < begin + 0.02) idle(50);
}

/* A thread that is new, and is given work before its first loop, has no past. */
static void test_new_worker(void)
{
    const struct wisp_stage stage = { 2, spend };
    double got[WISP_PHASES], sum = 0, begin = wisp_now();
    timed = make_pool(n_threads = 2);
    wisp_later(timed, &stage, 1, NULL);
    while (wisp_now() < begin + 2e-3) wisp_phase_seconds(timed, got); /* while one works */
    wisp_later_finish(timed);
    wisp_phase_seconds(timed, got);
    double all = n_threads * (wisp_now() - begin);
    for (int i = 0; i < WISP_PHASES; i++) sum += got[i];
    CHECK(sum <= all && got[WISP_PHASE_OTHER] >= inner[0] + inner[1] - 1e-6, "%g s of %g", sum,
          all);
    wisp_pool_free(timed);
}

static double seconds_of(int phase)
{
    double got[WISP_PHASES];
    wisp_phase_seconds(timed, got);
    return got[phase];
}

static void test_waiting(void)
{
    TEST("phases: the caller waits for the others in a phase of its own");
    timed = make_pool(n_threads = 2);
    double waited = 0;
    for (int turn = 0; turn < 20 && waited < 0.01; turn++) { /* a busy machine may come between */
        double end = wisp_now() + 20, before = seconds_of(WISP_PHASE_WAIT);
        helpers = 0;
        wisp_parallel_for(timed, 2, wait_for_worker, &end);
        waited = seconds_of(WISP_PHASE_WAIT) - before;
    }
    CHECK(waited >= 0.01, "%g s", waited);
    wisp_pool_free(timed);
}

static void test_phases(void)
{
    static const int two[] = { WISP_PHASE_QUERY, WISP_PHASE_LOSS };
    TEST("phases: each has the time that was spent in it, waiting between loops is nobody's");
    for (n_threads = 1; n_threads <= 4; n_threads += n_threads) {
        memset(low, 0, sizeof low), memset(high, 0, sizeof high);
        since_out = wisp_now();
        now_in = WISP_PHASE_OTHER;
        timed = make_pool(n_threads);
        since_in = wisp_now();
        stay(WISP_PHASE_LAYOUT, 4000);
        stay(WISP_PHASE_UPKEEP, 8000);
        stay(WISP_PHASE_LAYOUT, 2000);
        stay(WISP_PHASE_PRODUCTS, 0);
        timed_loop(12, NULL);
        usleep(2000);
        stay(WISP_PHASE_OTHER, 5000);
        stay(WISP_PHASE_INPUT, 0);
        timed_loop(12, two);
        stay(WISP_PHASE_GATHER, 1000);
        timed_later(9, WISP_PHASE_UPDATE);
        timed_loop(5, NULL);
        stay(WISP_PHASE_BACK, 0);
        check_phases();
        wisp_pool_free(timed);
    }

    for (int turn = 0; turn < 10; turn++) test_new_worker();

    TEST("phases: without a pool nothing is counted; names");
    double none[WISP_PHASES] = { 1, 2, 3 };
    wisp_phase(NULL, 0, WISP_PHASE_LOSS);
    wisp_phase_seconds(NULL, none);
    for (int i = 0; i < WISP_PHASES; i++) {
        CHECK(none[i] == 0, "%g s", none[i]);
        CHECK(wisp_phase_name(i) && *wisp_phase_name(i), "%d has no name", i);
        for (int j = 0; j < i; j++)
            CHECK(strcmp(wisp_phase_name(i), wisp_phase_name(j)) != 0, "two are called %s",
                  wisp_phase_name(i));
    }
    CHECK(strcmp(wisp_phase_name(WISP_PHASE_OTHER), "other") == 0 &&
              strcmp(wisp_phase_name(WISP_PHASE_UPKEEP), "upkeep") == 0 &&
              strcmp(wisp_phase_name(WISP_PHASE_WAIT), "wait") == 0,
          "names are not in order");
}

/* ---- making one ---- */

static void test_create(void)
{
    struct wisp_pool *p;
    wisp_error err;
    TEST("pool: wrong numbers of threads, failing allocations");
    CHECK(wisp_pool_create(&p, -1, &err) == WISP_EINVAL && !p, "-1");
    CHECK(wisp_pool_create(&p, 1025, &err) == WISP_EINVAL && !p, "1025");
    CHECK(wisp_pool_create(&p, 0, &err) == WISP_OK && wisp_pool_threads(p) >= 1, "0");
    wisp_pool_free(p);
    wisp_pool_free(NULL);
    for (long n = 0;; n++) {
        wisp_mem_budget = n;
        wisp_status st = wisp_pool_create(&p, 3, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && !p && wisp_mem_live == 0, "after %ld", n);
    }
    wisp_pool_free(p);
}

int main(void)
{
    test_create();
    test_loops();
    test_help();
    test_team();
    test_long_steps();
    test_rest();
    test_later();
    test_later_helpers();
    test_phases();
    test_waiting();
    TEST("pool: nothing is left");
    CHECK(wisp_mem_live == 0, "%ld blocks", (long)wisp_mem_live);
    return test_end();
}
