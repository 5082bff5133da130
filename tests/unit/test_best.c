/* Keys, and lists of the k best: however the rows are dealt out to lists and whatever the lists
 * tell each other, the best k are those of a full sort. */
#include "base/error.h"
#include "base/mem.h"
#include "hash/best.h"
#include "test.h"

#include <float.h>
#include <math.h>

static uint64_t rng = 99;

static size_t below(size_t n)
{
    return (size_t)(test_rand(&rng) >> 20) % n;
}

/* ---- keys ---- */

static void test_keys(void)
{
    static const float scores[] = {
        -INFINITY, -FLT_MAX, -2,      -1.0000001f, -1, -1e-30f,    -FLT_MIN, -1e-44f, 0,
        1e-45f,    1e-44f,   FLT_MIN, 0.5f,        1,  1.0000001f, 3e38f,    FLT_MAX, INFINITY
    };
    static const int32_t rows[] = { -1, 0, 1, 2, 77, 65535, 65536, INT32_MAX - 1, INT32_MAX };
    enum { SCORES = sizeof scores / sizeof *scores, ROWS = sizeof rows / sizeof *rows };
    TEST("keys: back to row and score; by score, then by smaller row");
    for (size_t a = 0; a < SCORES; a++)
        for (size_t i = 0; i < ROWS; i++) {
            uint64_t key = wisp_key(scores[a], rows[i]);
            float score = wisp_key_score(key);
            CHECK(wisp_key_row(key) == rows[i], "row %d becomes %d", (int)rows[i],
                  (int)wisp_key_row(key));
            CHECK(memcmp(&score, &scores[a], sizeof score) == 0, "%a becomes %a", scores[a], score);
            for (size_t b = 0; b < SCORES; b++)
                for (size_t j = 0; j < ROWS; j++) {
                    uint64_t other = wisp_key(scores[b], rows[j]);
                    bool more = scores[a] > scores[b];
                    if (a == b) /* row -1 stands for the least key of a score */
                        more = (rows[i] < 0) != (rows[j] < 0) ? rows[j] < 0 : rows[i] < rows[j];
                    CHECK((key > other) == more, "(%a, %d) against (%a, %d)", scores[a],
                          (int)rows[i], scores[b], (int)rows[j]);
                }
        }
    CHECK(wisp_key(-0.0f, 5) == wisp_key(0, 5), "-0 is not 0");
    CHECK(!signbit(wisp_key_score(wisp_key(-0.0f, 5))), "-0 stays");
    for (int i = 0; i < 2000; i++) {
        float x = test_randf(&rng) * 100, y = test_randf(&rng) * 100;
        int32_t row = (int32_t)below(INT32_MAX);
        CHECK((wisp_key(x, row) > wisp_key(y, (int32_t)below(1000))) == (x > y), "%a, %a", x, y);
        CHECK(wisp_key_score(wisp_key(x, row)) == x && wisp_key_row(wisp_key(x, row)) == row,
              "%a, %d", x, (int)row);
    }
}

/* ---- select and sort ---- */

enum { MOST = 400, MARGIN = 2 };

static int largest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Margins that would win, and margins that would lose: neither may move. */
static uint64_t *with_margins(uint64_t *room, const uint64_t *x, size_t n, uint64_t margin)
{
    for (size_t i = 0; i < n + 2 * MARGIN; i++) room[i] = margin;
    memcpy(room + MARGIN, x, n * sizeof *x);
    return room + MARGIN;
}

static bool margins_stand(const uint64_t *x, size_t n, uint64_t margin)
{
    for (size_t i = 1; i <= MARGIN; i++)
        if (x[-(ptrdiff_t)i] != margin || x[n - 1 + i] != margin) return false;
    return true;
}

/* The n largest of x (size), whose sorted form is 'sorted'. */
static void check_select(const uint64_t *x, const uint64_t *sorted, size_t size, size_t n)
{
    static uint64_t room[MOST + 2 * MARGIN];
    uint64_t margin = n % 2 ? UINT64_MAX : 0, *got = with_margins(room, x, size, margin);
    wisp_keys_select(got, size, n);
    CHECK(margins_stand(got, size, margin), "select %zu of %zu: outside", n, size);
    qsort(got, n, sizeof *got, largest_first);
    qsort(got + n, size - n, sizeof *got, largest_first);
    CHECK(memcmp(got, sorted, size * sizeof *got) == 0, "select %zu of %zu", n, size);
}

static void check_sort(const uint64_t *x, const uint64_t *sorted, size_t size)
{
    static uint64_t room[MOST + 2 * MARGIN];
    uint64_t margin = size % 2 ? UINT64_MAX : 0, *got = with_margins(room, x, size, margin);
    wisp_keys_sort(got, size);
    CHECK(margins_stand(got, size, margin), "sort %zu: outside", size);
    CHECK(memcmp(got, sorted, size * sizeof *got) == 0, "sort %zu", size);
}

static void fill_keys(uint64_t *x, size_t size, int kind)
{
    size_t few = 1 + below(5);
    for (size_t i = 0; i < size; i++) switch (kind) {
        case 0:
            x[i] = test_rand(&rng);
            break;
        case 1:
            x[i] = below(few); /* many are equal */
            break;
        case 2:
            x[i] = i; /* upwards */
            break;
        case 3:
            x[i] = size - i;
            break;
        case 4:
            x[i] = i < size / 2 ? i : size - i;
            break;
        default:
            x[i] = below(3) ? below(few) : below(2) ? 0 : UINT64_MAX;
        }
}

static void test_select_and_sort(void)
{
    static uint64_t x[MOST], sorted[MOST];
    TEST("keys: select and sort as qsort does, all small sizes, many equal keys");
    for (size_t size = 0; size <= MOST; size += size < 140 ? 1 : 1 + below(40))
        for (int kind = 0; kind < 6; kind++) {
            fill_keys(x, size, kind);
            memcpy(sorted, x, size * sizeof *x);
            qsort(sorted, size, sizeof *x, largest_first);
            check_sort(x, sorted, size);
            for (size_t n = 0; n <= size; n += size < 34 ? 1 : 1 + below(size / 4))
                check_select(x, sorted, size, n);
            check_select(x, sorted, size, size);
        }
}

/* ---- lists ---- */

enum { MAX_N = 24, MAX_ROWS = 500, MAX_LISTS = 6, MAX_K = 70, CANARIES = 8 };

struct scene { /* lists of n samples, and the scores of all rows that will go into them */
    size_t n, k, n_rows, n_lists, kinds;
    const struct wisp_kernels *kernels;
    float z[MAX_ROWS * MAX_N]; /* (n_rows, n) */
    int32_t row[MAX_ROWS];     /* ascending */
    float limit[MAX_N];        /* where limits begin */
    bool limited;
    void *block;
    struct wisp_best lists[MAX_LISTS];
    int list_of[MAX_ROWS]; /* the list that a row goes to */
    size_t next[MAX_LISTS];
    _Atomic float told[MAX_N];
};

struct entry {
    float score;
    int32_t row;
};

static int better_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (isnan(x->score) != isnan(y->score)) return isnan(x->score) ? -1 : 1;
    if (x->score != y->score && !isnan(x->score)) return x->score < y->score ? 1 : -1;
    return x->row > y->row ? 1 : -1;
}

/* All rows of sample s that may get in, best first; returns how many. */
static size_t full_sort(struct entry *out, const struct scene *c, size_t s)
{
    size_t n = 0;
    for (size_t r = 0; r < c->n_rows; r++) {
        float v = c->z[r * c->n + s];
        if (!(v <= c->limit[s])) out[n++] = (struct entry){ v, c->row[r] };
    }
    qsort(out, n, sizeof *out, better_first);
    return n;
}

static float some_score(const struct scene *c)
{
    static const float special[] = { NAN, -NAN, INFINITY, -INFINITY, -0.0f, 0, 1e-45f, -1e-45f };
    size_t what = below(40);
    if (what == 0) return special[below(8)];
    if (c->kinds == 0) return test_randf(&rng);
    return (float)below(c->kinds) - (float)(c->kinds / 2);
}

static void make_scene(struct scene *c, size_t k, const struct wisp_kernels *kernels)
{
    c->n = 1 + below(MAX_N), c->k = k, c->n_rows = below(3) ? below(MAX_ROWS) : below(2 * k + 2);
    c->n_lists = 1 + below(MAX_LISTS), c->kinds = below(2) ? 0 : 1 + below(9);
    c->kernels = kernels, c->limited = below(3) == 0;
    int32_t row = (int32_t)below(3);
    bool gaps = below(2), parts = below(2); /* parts: runs of rows; else dealt out at random */
    for (size_t r = 0; r < c->n_rows; r++) {
        c->row[r] = row, row += 1 + (int32_t)(gaps ? below(1000) : 0);
        c->list_of[r] = (int)(parts ? r * c->n_lists / c->n_rows : below(c->n_lists));
        for (size_t s = 0; s < c->n; s++) c->z[r * c->n + s] = some_score(c);
    }
    bool told = c->limited && below(2);
    for (size_t s = 0; s < c->n; s++) {
        c->limit[s] = c->limited ? test_randf(&rng) : -INFINITY;
        if (c->limited && below(4) == 0) c->limit[s] = -INFINITY;
        atomic_init(&c->told[s], told ? c->limit[s] : -INFINITY);
    }
    struct wisp_cut plan = { 0 };
    for (size_t i = 0; i < c->n_lists; i++) wisp_best_lay(&plan, c->n, k);
    c->block = wisp_alloc(plan.at, 1);
    if (!c->block) abort();
    struct wisp_cut cut = wisp_cut_of(c->block, plan.at, WISP_CUT_FRESH);
    for (size_t i = 0; i < c->n_lists; i++) {
        c->lists[i] = wisp_best_lay(&cut, c->n, k);
        wisp_best_reset(&c->lists[i], c->limited || below(2) ? c->limit : NULL);
        c->next[i] = 0;
    }
}

static void end_scene(struct scene *c)
{
    const char *broken = wisp_borders_broken();
    CHECK(!broken, "k=%zu, n=%zu: wrote past the lists: %s", c->k, c->n, broken);
    wisp_free(c->block);
}

/* The next rows of list i, by one of the ways there are; false: there are none. */
static bool advance(struct scene *c, size_t i)
{
    static float z[MAX_ROWS * MAX_N];
    int32_t rows[MAX_ROWS], where[MAX_N];
    size_t m = 0, most = 1 + below(96);
    for (size_t *r = &c->next[i]; *r < c->n_rows && m < most; ++*r) {
        if (c->list_of[*r] != (int)i) continue;
        memcpy(z + m * c->n, c->z + *r * c->n, c->n * sizeof *z);
        rows[m++] = c->row[*r];
    }
    if (m == 0) return false;
    bool run = (size_t)(rows[m - 1] - rows[0]) == m - 1;
    if (below(4) == 0) {
        for (size_t r = 0; r < m; r++)
            for (size_t s = 0; s < c->n; s++)
                wisp_best_add(&c->lists[i], s, z[r * c->n + s], rows[r]);
    } else
        wisp_best_collect(&c->lists[i], c->kernels, z, m, run && below(2) ? NULL : rows,
                          (size_t)rows[0], where);
    return true;
}

static void play(struct scene *c)
{
    size_t open = c->n_lists, how = below(3); /* 0: nobody talks; 1: now and then; 2: always */
    bool ended[MAX_LISTS] = { false };
    while (open > 0) {
        size_t i = below(c->n_lists);
        if (ended[i]) continue;
        if (how && (how == 2 || below(2))) wisp_best_hear(&c->lists[i], c->told);
        if (!advance(c, i)) ended[i] = true, open--;
        if (how && (how == 2 || below(2))) wisp_best_tell(&c->lists[i], c->told);
        for (size_t s = 0; s < c->n; s++)
            CHECK(c->lists[i].count[s] < c->lists[i].room, "a full list: %u",
                  (unsigned)c->lists[i].count[s]);
    }
}

static bool same(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void check_scene(struct scene *c)
{
    static struct entry want[MAX_ROWS];
    static uint64_t work[MAX_LISTS * (2 * MAX_K + 32) + CANARIES];
    size_t room = c->n_lists * wisp_best_room(c->k);
    for (size_t s = 0; s < c->n; s++) {
        float told = atomic_load(&c->told[s]);
        size_t all = full_sort(want, c, s), n = all < c->k ? all : c->k;
        for (size_t i = 0; i < CANARIES; i++) work[room + i] = 12345;
        /* what was told is a help, not a part of the answer */
        size_t got = wisp_best_take(work, c->lists, c->n_lists, s, below(2) ? told : -INFINITY);
        CHECK(got == n, "k=%zu: %zu of %zu", c->k, got, n);
        for (size_t i = 0; i < n && i < got; i++)
            CHECK(wisp_key_row(work[i]) == want[i].row &&
                      same(wisp_key_score(work[i]), want[i].score),
                  "k=%zu, %zu lists, number %zu: row %d with %a, not %d with %a", c->k, c->n_lists,
                  i, (int)wisp_key_row(work[i]), wisp_key_score(work[i]), (int)want[i].row,
                  want[i].score);
        for (size_t i = 0; i < CANARIES; i++) CHECK(work[room + i] == 12345, "more than its room");
        if (all >= c->k)
            CHECK(isnan(want[c->k - 1].score) || told < want[c->k - 1].score,
                  "told %a, yet the last is %a", told, want[c->k - 1].score);
        else CHECK(!(told > c->limit[s]), "told %a by lists that are not full", told);
    }
}

static void test_lists(void)
{
    static struct scene c;
    TEST(
        "best: lists that hear and tell at random, with limits, = a full sort; a NaN is above all");
    for (size_t i = 0; wisp_kernels_isa(i, NULL); i++) {
        struct wisp_kernels kernels;
        if (wisp_kernels_select(&kernels, wisp_kernels_isa(i, NULL), NULL) != WISP_OK) break;
        for (size_t k = 1; k <= MAX_K; k++)
            for (int round = 0; round < 3 && !test_bad; round++) {
                make_scene(&c, k, &kernels);
                play(&c);
                check_scene(&c);
                end_scene(&c);
            }
    }
}

/* Where a list stops to look at what cannot win. */
static void test_talk(void)
{
    enum { K = 3 };
    _Atomic float told[2];
    size_t room = wisp_best_room(K);
    struct wisp_cut plan = { 0 };
    for (int i = 0; i < 2; i++) wisp_best_lay(&plan, 2, K);
    void *block = wisp_alloc(plan.at, 1);
    if (!block) abort();
    struct wisp_cut c = wisp_cut_of(block, plan.at, WISP_CUT_FRESH);
    TEST("best: a list that hears another's limit lets less in, but equal scores");
    CHECK(room == 35, "room for %zu", room);
    struct wisp_best a = wisp_best_lay(&c, 2, K), b = wisp_best_lay(&c, 2, K);
    wisp_best_reset(&a, NULL), wisp_best_reset(&b, NULL);
    atomic_init(&told[0], -INFINITY), atomic_init(&told[1], -INFINITY);
    for (size_t i = 0; i < room; i++) wisp_best_add(&a, 0, 5 + (float)(i % 3), (int32_t)(100 + i));
    CHECK(a.count[0] == K && a.limit[0] == 7 && a.limit[1] == -INFINITY, "%u rows above %g",
          (unsigned)a.count[0], a.limit[0]);
    wisp_best_tell(&a, told);
    wisp_best_hear(&b, told);
    CHECK(b.limit[0] < 7 && nextafterf(b.limit[0], INFINITY) == 7 && b.limit[1] == -INFINITY,
          "%a, %a", b.limit[0], b.limit[1]);
    wisp_best_add(&b, 0, 6.9f, 1);
    CHECK(b.count[0] == 0, "too little got in");
    wisp_best_add(&b, 0, 7, 2);
    wisp_best_add(&b, 1, -1e30f, 4);
    wisp_best_add(&b, 1, -INFINITY, 6);
    CHECK(b.count[0] == 1 && b.count[1] == 1, "%u, %u", (unsigned)b.count[0], (unsigned)b.count[1]);
    atomic_store(&told[0], 9);
    wisp_best_tell(&a, told); /* less than is known */
    CHECK(atomic_load(&told[0]) == 9 && atomic_load(&told[1]) == -INFINITY, "a limit went down");
    wisp_best_hear(&a, told);
    CHECK(a.limit[0] == 9, "%g", a.limit[0]);
    atomic_store(&told[0], 8);
    wisp_best_hear(&a, told);
    CHECK(a.limit[0] == 9, "a list's own limit went down");
    wisp_best_reset_one(&b, 0);
    CHECK(b.count[0] == 0 && b.limit[0] == -INFINITY && b.count[1] == 1, "reset of one list");

    uint64_t work[2 * 35];
    c = wisp_cut_of(block, plan.at, WISP_CUT_FRESH);
    struct wisp_best none = wisp_best_lay(&c, 1, 0);
    wisp_best_reset(&none, NULL);
    for (int32_t i = 0; i < 100; i++) wisp_best_add(&none, 0, 1, i);
    CHECK(wisp_best_take(work, &none, 1, 0, -INFINITY) == 0, "the best 0 are none");
    CHECK(wisp_best_take(work, NULL, 0, 0, -INFINITY) == 0, "the best of no lists");
    wisp_free(block);
}

int main(void)
{
    test_keys();
    test_select_and_sort();
    test_lists();
    test_talk();
    TEST("best: nothing is left");
    CHECK(wisp_mem_live == 0, "%ld blocks", (long)wisp_mem_live);
    return test_end();
}
