/* The pot against a naive one: a list that is searched from its front, under random operations. */
#include "base/mem.h"
#include "hash/finder.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { MAX_ROOM = 256, WIDTH = 19, N_ROWS = 700, SAMPLES = 6 };

static struct wisp_kernels kernels;
static uint64_t rng = 4711;

/* Small whole numbers: every product is exact in any order, and equal scores are frequent. */
static float w[N_ROWS * WIDTH], bias[N_ROWS], h[SAMPLES * WIDTH];
static const uint32_t yp[SAMPLES + 1] = { 0, 0, 1, 4, 9, 12, 12 };
static const int32_t yi[] = { 5, 0, 3, 699, 1, 2, 3, 4, 6, 40, 41, 500 };
static struct wisp_query q = {
    .n = SAMPLES, .h = h, .yp = yp, .yi = yi, .rows = { N_ROWS, WIDTH, w, bias }
};

static size_t below(size_t n)
{
    return (size_t)(test_rand(&rng) >> 20) % n;
}

static float score_of(size_t sample, int32_t row)
{
    float s = bias[row];
    for (size_t i = 0; i < WIDTH; i++) s += w[(size_t)row * WIDTH + i] * h[sample * WIDTH + i];
    return s;
}

/* ---- the naive pot ---- */

struct entry {
    int32_t row;
    float votes;
};
struct naive {
    struct entry e[MAX_ROOM];
    size_t n, room, sample;
};

static bool true_label(const struct naive *a, int32_t row)
{
    for (uint32_t y = yp[a->sample]; q.yp && y < yp[a->sample + 1]; y++)
        if (yi[y] == row) return true;
    return false;
}

static void naive_vote(struct naive *a, int32_t row, float votes)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->e[i].row == row) {
            a->e[i].votes += votes;
            return;
        }
    if (a->n < a->room && !true_label(a, row)) a->e[a->n++] = (struct entry){ row, votes };
}

/* Takes out the one with fewest votes, the latest of those, until n are left. */
static void naive_trim(struct naive *a, size_t first, size_t n, float min_votes)
{
    size_t to = first;
    for (size_t i = first; i < a->n; i++)
        if (a->e[i].votes >= min_votes) a->e[to++] = a->e[i];
    a->n = to;
    while (a->n - first > n) {
        size_t worst = first;
        for (size_t i = first; i < a->n; i++)
            if (a->e[i].votes <= a->e[worst].votes) worst = i;
        memmove(a->e + worst, a->e + worst + 1, (--a->n - worst) * sizeof *a->e);
    }
}

/* ---- comparing ---- */

static bool same(const struct wisp_pot *p, const struct naive *a)
{
    if (p->n != a->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (p->row[i] != a->e[i].row || p->votes[i] != a->e[i].votes) return false;
    return true;
}

/* Every row is found from the slots, and nothing else is in them. */
static bool slots_fit(const struct wisp_pot *p)
{
    size_t full = 0;
    for (size_t s = 0; s < 2 * p->room; s++) full += p->slot[s] != 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->at[i] >= 2 * p->room || p->slot[p->at[i]] != i + 1) return false;
    return full == p->n;
}

/* After best(): the first n in order, the rest in any; the naive pot takes the new order. */
static bool best_fits(const struct wisp_pot *p, struct naive *a, size_t n)
{
    struct naive was = *a;
    for (size_t i = 0; i < p->n; i++) {
        size_t at = 0;
        while (at < was.n && was.e[at].row != p->row[i]) at++;
        if (at == was.n || p->votes[i] != was.e[at].votes) return false;
        a->e[i] = was.e[at];
        was.e[at].row = -1; /* taken */
        if (p->score[i] != score_of(a->sample, p->row[i])) return false;
        if (i > 0 && i < n &&
            (p->score[i - 1] < p->score[i] ||
             (p->score[i - 1] == p->score[i] && p->row[i - 1] >= p->row[i])))
            return false;
        if (i >= n && n > 0 &&
            (p->score[n - 1] < p->score[i] ||
             (p->score[n - 1] == p->score[i] && p->row[n - 1] > p->row[i])))
            return false;
    }
    return p->n == was.n;
}

/* ---- random operations ---- */

struct pair {
    struct wisp_pot p;
    struct naive a;
    void *block;
};

static void make(struct pair *t, size_t room)
{
    t->block = wisp_zalloc(wisp_pot_bytes(room), 1);
    if (!t->block) abort();
    wisp_pot_init(&t->p, &kernels, t->block, room);
    t->a = (struct naive){ .room = room };
}

static void start(struct pair *t, size_t sample)
{
    wisp_pot_start(&t->p, &q, sample);
    t->a.n = 0;
    t->a.sample = sample;
    CHECK(slots_fit(&t->p) && t->p.n == 0 && t->p.n_scored == 0 && t->p.products == 0,
          "a started pot is not empty");
}

static void vote(struct pair *t, size_t spread)
{
    /* a few rows come again and again; votes of both signs, halves are exact */
    int32_t row = (int32_t)(below(3) ? below(spread) : below(N_ROWS));
    float votes = below(4) ? 1 : (float)below(9) / 2 - 1;
    if (votes == 1) wisp_pot_add(&t->p, row);
    else wisp_pot_vote(&t->p, row, votes);
    naive_vote(&t->a, row, votes);
}

static void trim(struct pair *t)
{
    size_t scored = t->p.n_scored, first = scored + below(t->p.n - scored + 1), n = below(20);
    if (!below(3)) n = t->p.n - first + below(3); /* about as many as there are */
    float min_votes = (float)below(5) / 2;
    wisp_pot_trim(&t->p, first, n, min_votes);
    naive_trim(&t->a, first, n, min_votes);
    CHECK(same(&t->p, &t->a), "trim from %zu to %zu with %g votes", first, n, min_votes);
}

static void score_and_best(struct pair *t)
{
    uint64_t before = t->p.products;
    size_t fresh = t->p.n - t->p.n_scored;
    wisp_pot_score(&t->p);
    CHECK(same(&t->p, &t->a) && t->p.n_scored == t->p.n && t->p.products == before + fresh,
          "scoring: %zu new rows, %llu products", fresh,
          (unsigned long long)(t->p.products - before));
    size_t n = below(3) ? below(25) : t->p.n + below(2), got = wisp_pot_best(&t->p, n);
    CHECK(got == (n < t->p.n ? n : t->p.n), "best of %zu: %zu of %zu", n, got, t->p.n);
    CHECK(best_fits(&t->p, &t->a, got), "the best %zu of %zu are not", got, t->p.n);
}

static void test_random(size_t room)
{
    struct pair t;
    make(&t, room);
    for (int round = 0; round < 300 && !test_bad; round++) {
        start(&t, below(SAMPLES));
        size_t spread = 1 + below(2 * room), ops = below(3 * room);
        for (size_t op = 0; op < ops && !test_bad; op++) {
            size_t what = below(40);
            if (what > 1) vote(&t, spread);
            else if (what == 1) trim(&t);
            else score_and_best(&t);
            CHECK(same(&t.p, &t.a), "room %zu, round %d, operation %zu", room, round, op);
            CHECK(slots_fit(&t.p), "room %zu: slots", room);
        }
    }
    wisp_free(t.block);
}

/* ---- single properties ---- */

static void test_labels(void)
{
    struct pair t;
    TEST("pot: true labels never get in, wherever they stand in the list");
    make(&t, 64);
    for (size_t i = 0; i < SAMPLES; i++) {
        start(&t, i);
        for (uint32_t y = 0; y < yp[SAMPLES]; y++) wisp_pot_vote(&t.p, yi[y], 3);
        for (uint32_t y = 0; y < yp[SAMPLES]; y++) naive_vote(&t.a, yi[y], 3);
        CHECK(same(&t.p, &t.a), "sample %zu", i);
        for (size_t r = 0; r < t.p.n; r++)
            CHECK(!true_label(&t.a, t.p.row[r]), "sample %zu has %d", i, (int)t.p.row[r]);
    }
    struct wisp_query unlabelled = q;
    unlabelled.yp = NULL, unlabelled.yi = NULL;
    wisp_pot_start(&t.p, &unlabelled, 2);
    for (int32_t r = 0; r < 10; r++) wisp_pot_add(&t.p, r);
    CHECK(t.p.n == 10, "labels are not known, yet %zu of 10 are in", t.p.n);
    wisp_free(t.block);
}

static void test_full(void)
{
    struct pair t;
    TEST("pot: a full one keeps what came first and still counts votes");
    make(&t, 16);
    start(&t, 0);
    for (int32_t r = 0; r < 40; r++) wisp_pot_add(&t.p, r);
    CHECK(t.p.n == 16 && t.p.row[15] == 15, "%zu rows, the last is %d", t.p.n, (int)t.p.row[15]);
    for (int32_t r = 0; r < 40; r++) wisp_pot_add(&t.p, r);
    for (size_t i = 0; i < t.p.n; i++) CHECK(t.p.votes[i] == 2, "row %zu: %g", i, t.p.votes[i]);
    wisp_pot_trim(&t.p, 0, 4, 0);
    CHECK(t.p.n == 4 && t.p.row[3] == 3, "all equal: the first stay");
    for (int32_t r = 39; r >= 0; r--) wisp_pot_add(&t.p, r);
    CHECK(t.p.n == 16 && t.p.votes[0] == 3 && t.p.votes[3] == 3 && t.p.row[4] == 39,
          "rows are found again after a trim: %zu rows, %g votes", t.p.n, t.p.votes[0]);
    CHECK(slots_fit(&t.p), "slots");
    start(&t, 1);
    wisp_free(t.block);
}

/* Ids that fall into few slots: long chains, cut by trims. */
static void test_chains(void)
{
    struct pair t;
    TEST("pot: ids that share their slots, and the largest id");
    make(&t, 128);
    for (int round = 0; round < 50; round++) {
        start(&t, 0);
        for (int i = 0; i < 400; i++) {
            int32_t row = (int32_t)(below(60) << 16 | 0x7fff);
            if (!below(50)) row = INT32_MAX;
            wisp_pot_add(&t.p, row);
            naive_vote(&t.a, row, 1);
            if (!below(60)) trim(&t);
            CHECK(same(&t.p, &t.a) && slots_fit(&t.p), "round %d, %d rows", round, i);
        }
    }
    wisp_free(t.block);
}

static void test_nth_largest(void)
{
    TEST("nth_largest against counting, with and without ties");
    for (int round = 0; round < 20000; round++) {
        float x[40], copy[40];
        size_t size = 1 + below(round < 10000 ? 6 : 40), n = 1 + below(size), kinds = 1 + below(50);
        for (size_t i = 0; i < size; i++) x[i] = copy[i] = (float)below(kinds) - 3;
        float got = wisp_nth_largest(copy, size, n);
        size_t above = 0, equal = 0;
        for (size_t i = 0; i < size; i++) above += x[i] > got, equal += x[i] == got;
        CHECK(equal > 0 && above < n && above + equal >= n,
              "%g is not number %zu of %zu: %zu above", got, n, size, above);
    }
}

int main(void)
{
    static const size_t rooms[] = { 1, 2, 16, 64, MAX_ROOM };
    setvbuf(stdout, NULL, _IOLBF, 0);
    TEST("pot: kernels");
    CHECK(wisp_kernels_select(&kernels, NULL, NULL) == WISP_OK, "none");
    for (size_t i = 0; i < N_ROWS * WIDTH; i++) w[i] = (float)below(3) - 1;
    for (size_t i = 0; i < N_ROWS; i++) bias[i] = (float)below(5) - 2;
    for (size_t i = 0; i < SAMPLES * WIDTH; i++) h[i] = i % 4 ? 0 : (float)below(3) - 1;
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        TEST("pot: random operations as a naive one");
        test_random(rooms[i]);
    }
    test_labels();
    test_full();
    test_chains();
    test_nth_largest();
    TEST("pot: nothing is left");
    CHECK(wisp_mem_live == 0, "%ld blocks", (long)wisp_mem_live);
    return test_end();
}
