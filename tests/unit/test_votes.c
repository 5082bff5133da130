/* The index of votes: made from rows, against a map in double precision; cast, against a naive
 * election; and what the finder 'features' finds with it while training. */
#include "base/mem.h"
#include "hash/votes.h"
#include "model/run.h"
#include "model/votes.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum {
    KEPT = 128,      /* labels of a feature, as in model/votes.c */
    MOST_ROWS = 1024 /* rows of a feature, there too */
};

static struct wisp_error err;
static wisp_context *contexts[5]; /* by threads: 1, 2, 4 */
static uint64_t rng = 77;

static size_t below(size_t n)
{
    return (size_t)(test_rand(&rng) >> 20) % n;
}

/* ---- rows ---- */

static struct wisp_builder rows;

static void feature(size_t id, double value)
{
    CHECK(wisp_builder_feature(&rows, (int32_t)id, (float)value, &err) == WISP_OK, "%s", err.text);
}

static void label(size_t id)
{
    CHECK(wisp_builder_label(&rows, (int32_t)id, &err) == WISP_OK, "%s", err.text);
}

static void end_row(void)
{
    CHECK(wisp_builder_end_row(&rows, &err) == WISP_OK, "%s", err.text);
}

/* The rows so far; the next set begins empty. */
static struct wisp_data *data(size_t n_features, size_t n_labels)
{
    struct wisp_sink *sink;
    struct wisp_data *d = NULL;
    wisp_status st = wisp_sink_create(&sink, NULL, &err);
    if (st == WISP_OK && rows.n_rows) st = wisp_sink_add(sink, &rows, &err);
    wisp_sink_at_least(sink, n_features, n_labels);
    if (st == WISP_OK) st = wisp_sink_finish(&d, sink, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    if (st != WISP_OK) abort();
    wisp_builder_clear(&rows);
    return d;
}

/* Feature 0 is in every row, 1 in none, 2 in the first only; low numbers are frequent.  Every
 * seventh row has no label, every eleventh no feature but those. */
static struct wisp_data *random_rows(size_t n, size_t n_features, size_t n_labels, bool negative)
{
    for (size_t i = 0; i < n; i++) {
        feature(0, 1 + (double)below(3));
        if (i == 0) feature(2, 2);
        for (size_t k = i % 11 ? 1 + below(6) : 0; k > 0; k--)
            feature(3 + below(1 + below(n_features - 3)),
                    (negative && below(3) == 0 ? -0.5 : 0.5) * (double)(1 + below(7)));
        for (size_t k = i % 7 ? 1 + below(4) : 0; k > 0; k--) label(below(1 + below(n_labels)));
        end_row();
    }
    return data(n_features, n_labels);
}

/* ---- the map ---- */

struct map {
    size_t n_features, n_labels;
    double *sum;    /* (n_features, n_labels), scaled */
    size_t *n_rows; /* (n_features) */
};

static void add_row(struct map *m, const struct wisp_rows *r, size_t at,
                    const struct wisp_values *v)
{
    double x[64], length = 0;
    size_t n = r->xp[at + 1] - r->xp[at];
    const int32_t *xi = r->xi + r->xp[at];
    for (size_t i = 0; i < n; i++) {
        x[i] = r->xv[r->xp[at] + i];
        if (v->mode == WISP_VALUES_TFIDF) x[i] = (x[i] > 1 ? 1 + log(x[i]) : x[i]) * v->idf[xi[i]];
        length += x[i] * x[i];
    }
    double scale = v->mode == WISP_VALUES_RAW ? 1 : length > 0 ? 1 / sqrt(length) : 0;
    for (size_t i = 0; i < n; i++) {
        m->n_rows[xi[i]]++;
        for (uint32_t y = r->yp[at]; y < r->yp[at + 1]; y++)
            m->sum[(size_t)xi[i] * m->n_labels + (size_t)r->yi[y]] +=
                x[i] * scale > 0 ? x[i] * scale : 1e-9;
    }
}

static struct map map_of(const struct wisp_data *d, const struct wisp_values *v)
{
    struct map m = { d->n_features, d->n_labels, calloc(d->n_features * d->n_labels + 1, 8),
                     calloc(d->n_features + 1, sizeof(size_t)) };
    for (size_t i = 0; i < d->n_rows; i++) {
        size_t at;
        const struct wisp_rows *r = wisp_data_row(d, i, &at);
        add_row(&m, r, at, v);
    }
    for (size_t f = 0; f < m.n_features; f++)
        for (size_t l = 0; l < m.n_labels; l++)
            m.sum[f * m.n_labels + l] /= sqrt((double)m.n_rows[f] + 1);
    return m;
}

static void map_free(struct map *m)
{
    free(m->sum);
    free(m->n_rows);
}

/* One feature's list: the heaviest of the map, all of them up to KEPT, in order. */
static void check_list(const struct wisp_votes *v, const struct map *m, size_t f)
{
    const int32_t *l = v->label + v->start[f];
    const float *w = v->weight + v->start[f];
    const double *sum = m->sum + f * m->n_labels;
    size_t n = (size_t)(v->start[f + 1] - v->start[f]), n_seen = 0;
    unsigned char *listed = calloc(m->n_labels + 1, 1);
    for (size_t i = 0; i < m->n_labels; i++) n_seen += sum[i] > 0;
    CHECK(n == (n_seen < KEPT ? n_seen : KEPT), "feature %zu: %zu of %zu labels", f, n, n_seen);
    for (size_t i = 0; i < n; i++) {
        CHECK(l[i] >= 0 && (size_t)l[i] < m->n_labels && !listed[l[i]]++, "feature %zu: label %d",
              f, l[i]);
        CHECK(fabs(w[i] - sum[l[i]]) <= 2e-6 * sum[l[i]] * sqrt((double)m->n_rows[f] + 1),
              "feature %zu, label %d: %g, the map says %g", f, l[i], (double)w[i], sum[l[i]]);
        CHECK(i == 0 || w[i] < w[i - 1] || (w[i] == w[i - 1] && l[i] > l[i - 1]),
              "feature %zu: place %zu is out of order", f, i);
    }
    for (size_t i = 0; n == KEPT && i < m->n_labels; i++)
        CHECK(listed[i] || sum[i] <= w[n - 1] * (1 + 1e-4), "feature %zu: label %zu is heavier", f,
              i);
    free(listed);
}

static void check_votes(const struct wisp_votes *v, const struct map *m, size_t n_features)
{
    CHECK(v->n_features == n_features && v->start[0] == 0, "%zu features", v->n_features);
    for (size_t f = 0; f < n_features && !test_bad; f++) {
        CHECK(v->start[f + 1] >= v->start[f], "feature %zu: starts descend", f);
        if (f < m->n_features) check_list(v, m, f);
        else CHECK(v->start[f + 1] == v->start[f], "feature %zu is not in the data", f);
    }
}

/* ---- making ---- */

static struct wisp_votes make(int threads, const struct wisp_data *d, size_t n_features,
                              const struct wisp_values *values, uint64_t seed)
{
    struct wisp_votes v;
    wisp_status st = wisp_votes_make(&v, contexts[threads], d, n_features, values, seed, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    if (st != WISP_OK) abort();
    return v;
}

static bool same(const struct wisp_votes *a, const struct wisp_votes *b)
{
    size_t starts = (a->n_features + 1) * sizeof *a->start;
    if (a->n_features != b->n_features || memcmp(a->start, b->start, starts) != 0) return false;
    size_t n = (size_t)a->start[a->n_features];
    return memcmp(a->label, b->label, n * sizeof *a->label) == 0 &&
           memcmp(a->weight, b->weight, n * sizeof *a->weight) == 0;
}

static void test_make(void)
{
    TEST("make: as a map, for all ways to take values; 1, 2 and 4 threads the same bytes");
    for (int mode = 0; mode < 3; mode++) {
        enum { FEATURES = 70, MORE = 5 };
        struct wisp_data *d = random_rows(600, FEATURES, 400, mode == WISP_VALUES_RAW);
        float idf[FEATURES];
        wisp_values_idf(idf, d);
        struct wisp_values values = { .mode = (enum wisp_values_mode)mode, .idf = idf };
        struct map m = map_of(d, &values);
        struct wisp_votes one = make(1, d, FEATURES + MORE, &values, 3);
        check_votes(&one, &m, FEATURES + MORE);
        CHECK(one.start[1] == KEPT && one.start[2] == KEPT && one.start[3] >= one.start[2],
              "the first features have %ld, %ld labels", (long)one.start[1],
              (long)(one.start[2] - one.start[1]));
        for (int t = 2; t <= 4; t *= 2) {
            struct wisp_votes other = make(t, d, FEATURES + MORE, &values, 3);
            CHECK(same(&one, &other), "mode %d: %d threads differ", mode, t);
            wisp_votes_clear(&other);
        }
        wisp_votes_clear(&one);
        map_free(&m);
        wisp_data_free(d);
    }
}

static void test_ties(void)
{
    struct wisp_values unit = { .mode = WISP_VALUES_UNIT };
    TEST("make: of a row's equal labels the smaller numbers");
    feature(0, 1);
    for (size_t l = 0; l < 300; l++) label(l);
    end_row();
    struct wisp_data *d = data(1, 300);
    struct wisp_votes v = make(2, d, 1, &unit, 3);
    CHECK(v.start[1] == KEPT, "%ld labels", (long)v.start[1]);
    for (int32_t i = 0; i < KEPT; i++)
        CHECK(v.label[i] == i && v.weight[i] == 1 / sqrtf(2), "place %d: label %d, %g", i,
              v.label[i], (double)v.weight[i]);
    wisp_votes_clear(&v);
    wisp_data_free(d);
}

/* Feature 0 has 9 times as many rows as are kept, feature 1 exactly as many, feature 2 one more.
 * Labels 0, 1, 2, ... of 2000 are planted on ever fewer rows; label 1999 is on all. */
static void test_frequent(void)
{
    enum { N = 9 * MOST_ROWS, LABELS = 2000, PLANTED = 5 };
    struct wisp_values raw = { .mode = WISP_VALUES_RAW };
    size_t with[PLANTED] = { 0 };
    TEST("make: a very frequent feature: a fair part of its rows, the same each time");
    for (size_t i = 0; i < N; i++) {
        feature(0, 0.5);
        if (i < MOST_ROWS) feature(1, 0.5);
        if (i > 3 * MOST_ROWS && i <= 4 * MOST_ROWS + 1) feature(2, 0.5);
        for (size_t l = 0, share = 60; l < PLANTED; l++, share -= 12)
            if (below(100) < share) label(l), with[l]++;
        label(PLANTED + below(LABELS - PLANTED - 1));
        label(LABELS - 1);
        end_row();
    }
    struct wisp_data *d = data(3, LABELS);
    struct wisp_votes v = make(2, d, 3, &raw, 3), again = make(4, d, 3, &raw, 3),
                      other = make(2, d, 3, &raw, 4);
    CHECK(same(&v, &again) && !same(&v, &other), "chosen rows do not depend on the seed alone");
    CHECK(v.label[0] == LABELS - 1, "first is label %d", v.label[0]);
    double kept = 2 * v.weight[0] * 2 * v.weight[0]; /* 0.5 n / sqrt(n + 1), nearly */
    CHECK(fabs(kept - MOST_ROWS) < 5 * sqrt(MOST_ROWS), "about %g rows were kept", kept);
    for (size_t l = 0; l < PLANTED; l++) {
        double want = 0.5 * MOST_ROWS * (double)with[l] / N / sqrt(MOST_ROWS + 1);
        CHECK(v.label[l + 1] == (int32_t)l, "place %zu: label %d", l + 1, v.label[l + 1]);
        CHECK(fabs(v.weight[l + 1] - want) < 0.25 * want, "label %zu: %g, all rows say %g", l,
              (double)v.weight[l + 1], want);
    }
    int64_t at = v.start[1];
    CHECK(v.label[at] == LABELS - 1 && fabsf(v.weight[at] - 512 / sqrtf(1025)) < 1e-4f,
          "a feature of %d rows: %g", MOST_ROWS, (double)v.weight[at]);
    CHECK(v.label[v.start[2]] == LABELS - 1 && v.weight[v.start[2]] > 15.5f, "one more: %g",
          (double)v.weight[v.start[2]]);
    wisp_votes_clear(&v), wisp_votes_clear(&again), wisp_votes_clear(&other);
    wisp_data_free(d);
}

static void test_empty(void)
{
    struct wisp_values unit = { .mode = WISP_VALUES_UNIT };
    TEST("make: no rows; rows without features; rows without labels");
    for (int what = 0; what < 4; what++) {
        for (int i = 0; i < (what ? 5 : 0); i++) {
            if (what & 1) feature((size_t)i % 3, 1);
            if (what & 2) label((size_t)i % 2);
            end_row();
        }
        struct wisp_data *d = data(4, what == 1 ? 0 : 3);
        struct wisp_votes v = make(2, d, 6, &unit, 1);
        CHECK(v.n_features == 6 && v.start[0] == 0 && v.start[6] == (what == 3 ? 5 : 0),
              "%d: %ld votes", what, (long)v.start[6]);
        for (size_t f = 3; f < 6; f++) CHECK(v.start[f + 1] == v.start[f], "%d: %zu", what, f);
        wisp_votes_clear(&v);
        wisp_votes_clear(&v); /* twice is fine */
        wisp_data_free(d);
    }
}

static void test_memory(void)
{
    struct wisp_values unit = { .mode = WISP_VALUES_UNIT };
    struct wisp_data *d = random_rows(700, 40, 50, false);
    TEST("make: each failing allocation");
    long live = wisp_mem_live, n = 0;
    for (;; n++) {
        struct wisp_votes v;
        wisp_mem_budget = n;
        wisp_status st = wisp_votes_make(&v, contexts[2], d, 40, &unit, 1, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) {
            wisp_votes_clear(&v);
            break;
        }
        CHECK(st == WISP_ENOMEM && !v.start && !v.label && !v.weight && wisp_mem_live == live,
              "after %ld: %d, %s", n, st, err.text);
    }
    CHECK(n > 10 && wisp_mem_live == live, "%ld allocations, %ld blocks", n,
          (long)wisp_mem_live - live);
    wisp_data_free(d);
}

/* ---- casting ---- */

enum { ROOM = 64, N_FEATURES = 50, N_LABELS = 90, MOST_X = 100 };

struct election {
    size_t n;
    int32_t row[ROOM + MOST_X];
    float votes[ROOM + MOST_X];
};

static void naive_vote(struct election *e, const int32_t *labels, size_t n_labels, int32_t row,
                       float votes)
{
    for (size_t i = 0; i < n_labels; i++)
        if (labels[i] == row) return;
    for (size_t i = 0; i < e->n; i++)
        if (e->row[i] == row) {
            e->votes[i] += votes;
            return;
        }
    if (e->n < ROOM) e->row[e->n] = row, e->votes[e->n++] = votes;
}

/* How many stand before i: with more, or as much and earlier. */
static size_t rank(const float *x, const unsigned char *counts, size_t n, size_t i)
{
    size_t before = 0;
    for (size_t k = 0; k < n; k++)
        before += (!counts || counts[k]) && (x[k] > x[i] || (x[k] == x[i] && k < i));
    return before;
}

static void naive_cast(struct election *e, const struct wisp_votes *v, const int32_t *xi,
                       const float *xv, size_t nnz, size_t voters, size_t each, size_t n,
                       const int32_t *labels, size_t n_labels)
{
    unsigned char known[MOST_X];
    size_t first = e->n, kept = first;
    if (nnz > ROOM) nnz = ROOM;
    for (size_t i = 0; i < nnz; i++) known[i] = (size_t)xi[i] < v->n_features;
    for (size_t i = 0; i < nnz; i++) {
        if (!known[i] || rank(xv, known, nnz, i) >= voters) continue;
        const int64_t *s = v->start + xi[i];
        for (int64_t l = s[0]; l < s[1] && l < s[0] + (int64_t)each; l++)
            naive_vote(e, labels, n_labels, v->label[l], xv[i] * v->weight[l]);
    }
    float votes[ROOM];
    memcpy(votes, e->votes, sizeof votes);
    for (size_t i = first; i < e->n; i++)
        if (rank(votes + first, NULL, e->n - first, i - first) < n)
            e->row[kept] = e->row[i], e->votes[kept++] = votes[i];
    e->n = kept;
}

/* Small whole numbers: sums are exact, and equal ones frequent. */
static struct wisp_votes random_votes(void)
{
    static int64_t start[N_FEATURES + 1];
    static int32_t labels[N_FEATURES * 12];
    static float weights[N_FEATURES * 12];
    int64_t at = 0;
    for (size_t f = 0; f < N_FEATURES; f++) {
        float heavy = 12;
        for (size_t k = below(13), l = below(7); k > 0; k--, l += 1 + below(7), at++) {
            labels[at] = (int32_t)l; /* at most 6 + 12 * 7 */
            weights[at] = heavy -= (float)below(2);
        }
        start[f + 1] = at;
    }
    return (struct wisp_votes){ N_FEATURES, start, labels, weights };
}

static void cast_once(const struct wisp_votes *v, struct wisp_pot *pot, size_t round)
{
    static const size_t sizes[] = { 1, 2, 3, 5, 20, 60, 100 };
    static const float h[1];
    uint32_t yp[2] = { 0, (uint32_t)below(4) };
    int32_t yi[4] = { 3, 17, 40, 41 }, xi[MOST_X];
    float xv[MOST_X];
    struct wisp_query q = { .n = 1, .h = h, .yp = yp, .yi = yi, .rows = { 0 } };
    struct election e = { 0 };
    size_t nnz = round % 5 == 0 ? MOST_X : below(30), voters = sizes[below(7)],
           each = sizes[below(5)], n = sizes[below(7)];
    for (size_t i = 0; i < nnz; i++) {
        xi[i] = (int32_t)below(N_FEATURES + N_FEATURES / 5); /* some are beyond the index */
        xv[i] = (float)(1 + below(round % 2 ? 4 : 40));
    }
    wisp_pot_start(pot, &q, 0);
    for (size_t i = round % 3 ? 0 : below(ROOM + 1), row = 0; i > 0; i--, row += 1 + below(2)) {
        wisp_pot_add(pot, (int32_t)row); /* what others found */
        naive_vote(&e, yi, yp[1], (int32_t)row, 1);
    }
    wisp_votes_cast(v, xi, xv, nnz, voters, each, n, pot);
    naive_cast(&e, v, xi, xv, nnz, voters, each, n, yi, yp[1]);
    CHECK(pot->n == e.n, "round %zu (%zu voters, %zu each, %zu): %zu rows, not %zu", round, voters,
          each, n, pot->n, e.n);
    for (size_t i = 0; i < e.n && i < pot->n; i++)
        CHECK(pot->row[i] == e.row[i] && pot->votes[i] == e.votes[i],
              "round %zu, place %zu: row %d with %g votes, not %d with %g", round, i, pot->row[i],
              (double)pot->votes[i], e.row[i], (double)e.votes[i]);
}

static void test_cast(void)
{
    struct wisp_pot pot;
    TEST("cast: as a naive election: few voters, few labels each, full pots, long samples");
    void *block = wisp_zalloc(1, wisp_pot_bytes(ROOM));
    wisp_pot_init(&pot, contexts[1]->k, block, ROOM);
    for (size_t round = 0; round < 4000 && !test_bad; round++) {
        struct wisp_votes v = random_votes();
        cast_once(&v, &pot, round);
    }
    wisp_free(block);
}

/* ---- elections ---- */

/* Rows as wisp_votes_cast leaves them in an empty pot. */
static void elect_once(struct wisp_election *e, struct wisp_pot *pot, const struct wisp_votes *v,
                       const int32_t *xi, const float *xv, size_t nnz, size_t n, size_t round)
{
    static const float h[1];
    static int32_t won[WISP_POT_ROOM + 1];
    struct wisp_query q = { .n = 1, .h = h };
    memset(won, 0xff, sizeof won);
    wisp_pot_start(pot, &q, 0);
    wisp_votes_cast(v, xi, xv, nnz, e->voters, e->each, n, pot);
    size_t got = wisp_votes_elect(won, e, v, pot->k, xi, xv, nnz, n);
    CHECK(got == pot->n, "round %zu (%zu voters, %zu each, %zu): %zu rows, not %zu", round,
          e->voters, e->each, n, got, pot->n);
    for (size_t i = 0; i < got && i < pot->n; i++)
        CHECK(won[i] == pot->row[i], "round %zu, place %zu of %zu: row %d, not %d", round, i, got,
              won[i], pot->row[i]);
    CHECK(won[n] == -1, "round %zu: written beyond its end", round);
}

enum { LENGTH = 150, FEW_LABELS = 6 + 12 * 7 + 1, MOST_LABEL = 50 + LENGTH * 10000 };

/* Long lists of labels up to a million, some in many of them; weights that hardly ever tie. */
static struct wisp_votes long_votes(size_t length)
{
    static int64_t start[N_FEATURES + 1];
    static int32_t labels[N_FEATURES * 300];
    static float weights[N_FEATURES * 300];
    for (size_t f = 0, at = 0; f < N_FEATURES; f++) {
        size_t l = below(50);
        for (size_t k = 0; k < length; k++, l += 1 + below(below(4) ? 5 : 10000)) {
            labels[at] = (int32_t)l;
            weights[at++] = 1e-4f + fabsf(test_randf(&rng)) * (below(9) ? 0.01f : 1);
        }
        start[f + 1] = (int64_t)at;
    }
    return (struct wisp_votes){ N_FEATURES, start, labels, weights };
}

static void test_elect(void)
{
    static const size_t sizes[] = { 1, 2, 5, 20, 70, 300 };
    struct wisp_pot pot;
    struct wisp_election e;
    TEST("elect: as votes cast into an empty pot; any number of voters, votes and seats");
    void *block = wisp_zalloc(1, wisp_pot_bytes(WISP_POT_ROOM));
    wisp_pot_init(&pot, contexts[1]->k, block, WISP_POT_ROOM);
    for (size_t round = 0; round < 1500 && !test_bad; round++) {
        bool large = round % 10 == 0;
        struct wisp_votes v = large ? long_votes(LENGTH) : random_votes();
        size_t voters = sizes[below(5)], each = sizes[large ? 3 + below(3) : below(4)];
        int32_t xi[MOST_X];
        float xv[MOST_X];
        if (voters * each > WISP_POT_ROOM)
            voters = WISP_POT_ROOM / each; /* the pot would be full */
        CHECK(wisp_election_init(&e, voters, each, large ? MOST_LABEL : FEW_LABELS, &err) ==
                  WISP_OK,
              "%s", err.text);
        for (int again = 0; again < 3; again++) { /* what one leaves the next must not see */
            size_t nnz = below(MOST_X + 1), n = large ? 1 + below(3000) : sizes[below(6)];
            for (size_t i = 0; i < nnz; i++) {
                xi[i] = (int32_t)below(N_FEATURES + N_FEATURES / 5);
                xv[i] = (float)below(round % 2 ? 4 : 40) - (round % 3 ? 0 : 2);
            }
            elect_once(&e, &pot, &v, xi, xv, nnz, n, round);
        }
        wisp_election_clear(&e);
    }
    wisp_free(block);
    long live = wisp_mem_live, n = 0;
    for (;; n++) {
        wisp_mem_budget = n;
        wisp_status st = wisp_election_init(&e, 3, 4, 5, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && wisp_mem_live == live, "after %ld: %s", n, err.text);
    }
    CHECK(n > 2, "%ld allocations", n);
    wisp_election_clear(&e);
}

/* ---- the finder ---- */

/* Labels come in groups of 20, and features in pairs that name a group: who is of the sample's
 * group competes with its label. */
static double recall_of(const char *sampling, const struct wisp_data *d)
{
    static const char *const options[][2] = {
        { "hidden", "24" },       { "epochs", "5" },  { "batch", "64" },     { "lr", "0.01" },
        { "loss", "softmax" },    { "keep", "24" },   { "random", "60" },    { "holdout", "0.05" },
        { "input-dropout", "0" }, { "dropout", "0" }, { "active-min", "0" }, { "index", "no" },
    };
    wisp_config *c;
    wisp_report *r = NULL;
    double recall = -1;
    CHECK(wisp_config_create(&c, &err) == WISP_OK, "%s", err.text);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        CHECK(wisp_config_set(c, options[i][0], options[i][1], &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_config_set(c, "sampling", sampling, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_train_run(&r, contexts[1], c, d, NULL, NULL, NULL, NULL, &err) == WISP_OK, "%s",
          err.text);
    if (r) wisp_report_get(r, "retrieval_recall", &recall);
    wisp_report_free(r);
    wisp_config_free(c);
    return recall;
}

static void test_finder(void)
{
    enum { GROUPS = 60, GROUP = 20, LABELS = GROUPS * GROUP, N = 4000 };
    TEST("the finder 'features' finds the competitors of a sample's labels");
    for (size_t i = 0; i < N; i++) {
        size_t group = below(GROUPS);
        feature(2 * group, 1);
        feature(2 * group + 1, 1);
        for (int k = 0; k < 3; k++) feature(2 * GROUPS + below(300), 1); /* these say nothing */
        for (int k = 0; k < 3; k++) label(group * GROUP + below(GROUP));
        end_row();
    }
    struct wisp_data *d = data(2 * GROUPS + 300, LABELS);
    double recall = recall_of("features", d);
    CHECK(recall > 0.75, "recall %g", recall); /* by chance: 24 of 1200 */
    wisp_data_free(d);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    TEST("votes: contexts");
    for (int t = 1; t <= 4; t *= 2)
        CHECK(wisp_context_create(&contexts[t], t, &err) == WISP_OK, "%s", err.text);
    test_make();
    test_ties();
    test_frequent();
    test_empty();
    test_memory();
    test_cast();
    test_elect();
    test_finder();
    for (int t = 1; t <= 4; t *= 2) wisp_context_free(contexts[t]);
    TEST("votes: nothing is left");
    CHECK(wisp_mem_live == 0, "%ld blocks", (long)wisp_mem_live);
    return test_end();
}
