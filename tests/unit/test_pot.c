/* The pot against a naive one: a list that is searched from its front, under random operations. */
#include "base/mem.h"
#include "hash/best.h"
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
static struct wisp_query q = { .n = SAMPLES,
                               .h = h,
                               .yp = yp,
                               .yi = yi,
                               .rows = { N_ROWS, WIDTH, { .cols = WIDTH, .f32 = w }, bias } };

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

/* Every row is found from the slots, and nothing else is in them; they are a power of two, never
 * more than half full, and lie in their array. */
static bool slots_fit(const struct wisp_pot *p)
{
    size_t full = 0, slots = p->mask + 1;
    if ((slots & p->mask) != 0 || slots > 2 * p->room || slots < 2 * p->n) return false;
    for (size_t s = 0; s < 2 * p->room; s++) full += p->slot[s] != 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->at[i] >= slots || p->slot[p->at[i]] != i + 1) return false;
    return full == p->n;
}

static bool is_better(const struct naive *a, int32_t row, int32_t than)
{
    float x = score_of(a->sample, row), y = score_of(a->sample, than);
    return x > y || (x == y && row < than);
}

/* Keys of the best: row number i has i rows before it that are better; none is a NaN. */
static bool best_fits(const uint64_t *key, size_t n, const struct naive *a)
{
    for (size_t i = 0; i < n; i++) {
        int32_t row = wisp_key_row(key[i]);
        size_t better = 0, here = 0;
        if (wisp_key_score(key[i]) != score_of(a->sample, row)) return false;
        for (size_t e = 0; e < a->n; e++)
            better += is_better(a, a->e[e].row, row), here += a->e[e].row == row;
        if (better != i || here != 1) return false;
    }
    return true;
}

static size_t n_numbers(const struct naive *a) /* rows whose score is one */
{
    size_t n = 0;
    for (size_t i = 0; i < a->n; i++) n += !isnan(score_of(a->sample, a->e[i].row));
    return n;
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

/* A list that ends early, by a row below 0 or by its length. */
static void vote_all(struct pair *t, size_t spread)
{
    int32_t rows[40];
    size_t n = below(40), length = below(4) ? n : below(40);
    for (size_t i = 0; i < 40; i++) rows[i] = (int32_t)below(spread < N_ROWS ? spread : N_ROWS);
    if (n < 40) rows[n] = -1;
    wisp_pot_add_all(&t->p, rows, length);
    for (size_t i = 0; i < n && i < length; i++) naive_vote(&t->a, rows[i], 1);
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
    for (size_t i = 0; i < t->p.n; i++) {
        float want = score_of(t->a.sample, t->p.row[i]);
        CHECK(t->p.score[i] == want || (isnan(want) && isnan(t->p.score[i])), "row %d scores %g",
              (int)t->p.row[i], t->p.score[i]);
    }
    size_t n = below(3) ? below(25) : t->p.n + below(2), got = SIZE_MAX, all = n_numbers(&t->a);
    const uint64_t *best = wisp_pot_best(&t->p, n, &got);
    CHECK(got == (n < all ? n : all), "best of %zu: %zu of %zu", n, got, all);
    CHECK(got > n || best_fits(best, got, &t->a), "the best %zu of %zu are not", got, t->p.n);
    CHECK(same(&t->p, &t->a) && t->p.n_scored == t->p.n, "asking for the best moved rows");
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
            if (what > 2) vote(&t, spread);
            else if (what == 2) vote_all(&t, spread);
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

static int32_t row_number(size_t i, size_t round)
{
    return (int32_t)(i * 7919 + round);
}

static bool near_a_power(size_t n)
{
    size_t p = 1;
    while (p < n) p *= 2;
    return p - n < 3 || n - p / 2 < 3;
}

static void grow(struct wisp_pot *p, size_t n, size_t round)
{
    for (size_t i = 0; i < n; i++) {
        int32_t row = row_number(i, round);
        if (round % 2) wisp_pot_add_all(p, &row, 1);
        else wisp_pot_add(p, row);
        CHECK(p->n == (i < p->room ? i + 1 : p->room), "%zu rows of %zu", p->n, i + 1);
        if (near_a_power(i + 1) || i % 97 == 0)
            CHECK(slots_fit(p), "%zu rows in %zu slots of %zu", p->n, p->mask + 1, 2 * p->room);
    }
    for (size_t i = 0; i < n; i++) wisp_pot_vote(p, row_number(i, round), 2);
    for (size_t i = 0; i < p->n; i++)
        CHECK(p->row[i] == row_number(i, round) && p->votes[i] == 3, "row %d with %g votes at %zu",
              (int)p->row[i], p->votes[i], i);
}

/* Keeps every second row, and finds them all again. */
static void thin_out(struct wisp_pot *p, size_t round)
{
    size_t half = p->n / 2;
    for (size_t i = 1; i < p->n; i += 2) wisp_pot_add(p, row_number(i, round));
    wisp_pot_trim(p, 0, half, 0);
    CHECK(slots_fit(p) && p->n == half, "%zu rows after a trim", p->n);
    for (size_t i = 0; i < half; i++) wisp_pot_add(p, row_number(2 * i + 1, round));
    for (size_t i = 0; i < p->n; i++)
        CHECK(p->n == half && p->votes[i] == 5, "place %zu of %zu: %g votes", i, p->n, p->votes[i]);
}

/* The slots begin small and grow with the rows; the next sample finds them small and empty. */
static void test_growth(void)
{
    TEST("pot: slots that grow lose nothing");
    for (size_t room = 256; room <= 4096; room *= 2) {
        struct pair t;
        make(&t, room);
        for (size_t round = 0; round < 3; round++) {
            start(&t, 0);
            CHECK(t.p.mask + 1 == (room < 512 ? 2 * room : 1024), "%zu slots at first",
                  t.p.mask + 1);
            grow(&t.p, round == 1 ? room + 50 : room / 2 + 1, round);
            thin_out(&t.p, round);
        }
        wisp_free(t.block);
    }
}

static void test_nan(void)
{
    struct pair t;
    size_t got;
    TEST("pot: rows without a score are never the best");
    make(&t, 64);
    for (size_t from = 0; from < 30; from++) {
        start(&t, 0);
        for (int32_t r = 0; r < 30; r++) wisp_pot_add(&t.p, r), naive_vote(&t.a, r, 1);
        for (size_t r = from; r < 30; r++) bias[r] = r % 2 ? NAN : bias[r];
        wisp_pot_score(&t.p);
        const uint64_t *best = wisp_pot_best(&t.p, 30, &got);
        CHECK(got == n_numbers(&t.a) && best_fits(best, got, &t.a), "from %zu: %zu", from, got);
        CHECK(same(&t.p, &t.a), "rows moved");
        for (size_t r = from; r < 30; r++) bias[r] = isnan(bias[r]) ? (float)(r % 5) : bias[r];
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
    for (size_t i = 0; i < N_ROWS; i++) {
        bias[i] = i % 19 == 18 ? NAN : (float)below(5) - 2;
        if (i % 23 == 22) bias[i] = i % 2 ? INFINITY : -INFINITY;
    }
    for (size_t i = 0; i < SAMPLES * WIDTH; i++) h[i] = i % 4 ? 0 : (float)below(3) - 1;
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        TEST("pot: random operations as a naive one");
        test_random(rooms[i]);
    }
    test_labels();
    test_full();
    test_chains();
    test_growth();
    test_nan();
    test_nth_largest();
    TEST("pot: nothing is left");
    CHECK(wisp_mem_live == 0, "%ld blocks", (long)wisp_mem_live);
    return test_end();
}
