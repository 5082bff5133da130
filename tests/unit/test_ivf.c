/* Inverted lists and the finder on top of them, against naive loops and planted neighbours. */
#include "base/mem.h"
#include "hash/lists.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { TOP = 20, MAX_BATCH = 70 };

static struct wisp_kernels kernels;
static struct wisp_context one, three; /* threads */

/* ---- a layer and its queries ---- */

struct rig {
    struct wisp_matrix m;
    float *w, *bias, *h;
    struct wisp_query q;
};

/* Rows in clusters, with noise; queries near rows.  spread 0: all rows of a cluster are equal. */
static void make_rig(struct rig *g, size_t n, size_t width, size_t clusters, float spread)
{
    uint64_t s = 7;
    size_t batch = MAX_BATCH;
    float *centre = wisp_alloc(clusters * width, sizeof *centre);
    g->w = wisp_alloc(n * width, sizeof *g->w), g->bias = wisp_alloc(n, sizeof *g->bias);
    g->h = wisp_alloc(batch * width, sizeof *g->h);
    if (!centre || !g->w || !g->bias || !g->h) abort();
    for (size_t i = 0; i < clusters * width; i++) centre[i] = test_randf(&s);
    for (size_t r = 0; r < n; r++) {
        const float *c = centre + (test_rand(&s) >> 20) % clusters * width;
        for (size_t i = 0; i < width; i++) g->w[r * width + i] = c[i] + spread * test_randf(&s);
        g->bias[r] = spread * test_randf(&s);
    }
    for (size_t b = 0; b < batch; b++) {
        const float *w = g->w + (test_rand(&s) >> 20) % n * width;
        for (size_t i = 0; i < width; i++) /* coordinates of unlike size: the metric matters */
            g->h[b * width + i] = (w[i] + 0.2f * test_randf(&s)) * (i % 3 == 0 ? 2.0f : 0.7f);
    }
    g->m = (struct wisp_matrix){ n, width, { .cols = width, .f32 = g->w }, g->bias };
    g->q = (struct wisp_query){ .n = batch, .h = g->h, .rows = g->m };
    wisp_free(centre);
}

static void free_rig(struct rig *g)
{
    wisp_free(g->w);
    wisp_free(g->bias);
    wisp_free(g->h);
}

/* Each row takes the place of the one 'by' before it. */
static void turn_rows(struct rig *g, size_t by)
{
    size_t n = g->m.n, width = g->m.width;
    float *w = wisp_alloc(n * width, sizeof *w);
    if (!w) abort();
    for (size_t r = 0; r < n; r++)
        memcpy(w + (r + by) % n * width, g->w + r * width, width * sizeof *w);
    memcpy(g->w, w, n * width * sizeof *w);
    wisp_free(w);
}

static void move_rows(struct rig *g, uint64_t seed, float by)
{
    for (size_t i = 0; i < g->m.n * g->m.width; i++) g->w[i] += by * test_randf(&seed);
}

/* ---- naive forms ---- */

/* metric (width + 1, width + 1) = mean of (h, 1) (h, 1)^T over n queries spread over the batch */
static float *moment(const struct rig *g, size_t n)
{
    size_t dims = g->m.width + 1;
    float *metric = wisp_alloc(dims * dims, sizeof *metric);
    if (!metric) abort();
    for (size_t a = 0; a < dims; a++)
        for (size_t b = 0; b < dims; b++) {
            double sum = 0;
            for (size_t s = 0; s < n; s++) {
                const float *h = g->h + s * MAX_BATCH / n * g->m.width;
                sum += (a + 1 < dims ? (double)h[a] : 1) * (b + 1 < dims ? (double)h[b] : 1);
            }
            metric[a * dims + b] = (float)(sum / (double)n);
        }
    return metric;
}

static double distance(const struct rig *g, size_t row, const float *centre, const float *metric)
{
    size_t width = g->m.width, dims = width + 1;
    double d[200], sum = 0;
    for (size_t i = 0; i < width; i++) d[i] = g->w[row * width + i] - (double)centre[i];
    d[width] = g->bias[row] - (double)centre[width];
    for (size_t a = 0; a < dims; a++)
        for (size_t b = 0; b < dims; b++) sum += d[a] * metric[a * dims + b] * d[b];
    return sum;
}

/* Every row is with the nearest centre, as far as rounding lets one say. */
static void check_nearest(const struct rig *g, const int32_t *list_of, const float *centre,
                          const float *metric, size_t lists)
{
    for (size_t r = 0; r < g->m.n; r++) {
        double best = INFINITY;
        for (size_t c = 0; c < lists; c++)
            best = fmin(best, distance(g, r, centre + c * (g->m.width + 1), metric));
        CHECK(list_of[r] >= 0 && (size_t)list_of[r] < lists, "row %zu: list %d", r, list_of[r]);
        if (list_of[r] < 0 || (size_t)list_of[r] >= lists) continue;
        double got = distance(g, r, centre + (size_t)list_of[r] * (g->m.width + 1), metric);
        CHECK(got <= best + 1e-4 * (1 + best), "row %zu: %g, nearest %g", r, got, best);
    }
}

/* Lists hold their rows and no others; centres are the means of the rows. */
static void check_lists(const struct rig *g, const int32_t *list_of, const uint32_t *start,
                        const int32_t *row, const float *centre, size_t lists)
{
    size_t width = g->m.width, at = 0;
    for (size_t c = 0; c < lists; c++) {
        double sum = 0;
        size_t first = at;
        CHECK(start[c] == at, "list %zu starts at %u, not %zu", c, start[c], at);
        for (size_t r = 0; r < g->m.n; r++) {
            if (list_of[r] != (int32_t)c) continue;
            CHECK(row[at] == (int32_t)r, "place %zu: row %d, not %zu", at, row[at], r);
            sum += g->w[r * width + c % width];
            at++;
        }
        double mean = sum / (double)(at - first);
        if (at > first)
            CHECK(fabs(centre[c * (width + 1) + c % width] - mean) < 1e-4, "centre %zu: %g, not %g",
                  c, centre[c * (width + 1) + c % width], mean);
    }
    CHECK(start[lists] == at, "%u rows in all, not %zu", start[lists], at);
}

/* The exact best rows of query i. */
static void exact_top(const struct rig *g, size_t i, int32_t *top)
{
    float value[TOP];
    size_t n = 0, width = g->m.width;
    for (size_t r = 0; r < g->m.n; r++) {
        float v = g->bias[r];
        for (size_t j = 0; j < width; j++) v += g->w[r * width + j] * g->h[i * width + j];
        size_t at = n < TOP ? n++ : TOP - 1;
        if (at == TOP - 1 && n == TOP && r >= TOP && v <= value[at]) continue;
        for (; at > 0 && value[at - 1] < v; at--) value[at] = value[at - 1], top[at] = top[at - 1];
        value[at] = v, top[at] = (int32_t)r;
    }
}

/* ---- the finder ---- */

struct finder {
    void *state;
    struct wisp_pot pot;
    void *block;
};

static struct wisp_finder_setup setup_of(const struct rig *g, const struct wisp_sampling *o)
{
    return (struct wisp_finder_setup){
        .o = o, .n_rows = g->m.n, .width = g->m.width, .batch = MAX_BATCH, .seed = 3, .threads = 3
    };
}

static void open_finder(struct finder *f, const struct rig *g, const struct wisp_sampling *o)
{
    struct wisp_finder_setup s = setup_of(g, o);
    f->block = wisp_zalloc(wisp_pot_bytes(WISP_POT_ROOM), 1);
    if (!f->block || wisp_finder_ivf.create(&f->state, &s, NULL) != WISP_OK) abort();
    wisp_pot_init(&f->pot, &kernels, f->block, WISP_POT_ROOM);
}

static void close_finder(struct finder *f)
{
    wisp_finder_ivf.free(f->state);
    wisp_free(f->block);
}

static void find(struct finder *f, const struct rig *g, size_t i)
{
    wisp_pot_start(&f->pot, &g->q, i);
    wisp_finder_ivf.sample(f->state, &g->q, i, 0, &f->pot);
}

static void *blob(const struct finder *f, const char *name)
{
    struct wisp_blob all[WISP_MAX_BLOBS];
    size_t n = wisp_finder_ivf.blobs(f->state, all);
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0) return all[i].data;
    abort();
}

static uint64_t turns(const struct finder *f)
{
    return *(uint64_t *)blob(f, "ivf.counters");
}

static size_t n_lists_of(const struct finder *f)
{
    struct wisp_blob all[WISP_MAX_BLOBS];
    size_t n = wisp_finder_ivf.blobs(f->state, all);
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, "ivf.starts") == 0) return all[i].bytes / sizeof(uint32_t) - 1;
    abort();
}

static double recall(struct finder *f, const struct rig *g, double *share)
{
    int32_t top[TOP] = { 0 };
    size_t hits = 0, found = 0;
    wisp_finder_ivf.begin(f->state, &one, &g->q);
    for (size_t i = 0; i < MAX_BATCH; i++) {
        find(f, g, i);
        exact_top(g, i, top);
        found += f->pot.n;
        for (size_t t = 0; t < TOP; t++)
            for (size_t r = 0; r < f->pot.n; r++) hits += f->pot.row[r] == top[t];
    }
    *share = (double)found / (double)(MAX_BATCH * g->m.n);
    return (double)hits / (MAX_BATCH * TOP);
}

/* ---- tests ---- */

static void test_lists(size_t n, size_t width, size_t lists)
{
    struct rig g;
    struct wisp_lists *l;
    make_rig(&g, n, width, 30, 0.4f);
    float *metric = moment(&g, MAX_BATCH);
    if (wisp_lists_create(&l, n, width, lists, 3, NULL) != WISP_OK) abort();
    wisp_lists_seed(l, &three, &g.m, metric, 5);
    for (int turn = 1; turn <= 3; turn++) {
        for (size_t at = 0; at < n; at += 100)
            wisp_lists_assign(l, &three, &g.m, at, n - at < 100 ? n - at : 100, n);
        check_nearest(&g, l->list_of, l->centre, l->metric, lists);
        wisp_lists_turn(l, &three, &g.m, metric, 5, (uint64_t)turn);
        check_lists(&g, l->list_of, l->start, l->row, l->centre, lists);
    }

    wisp_lists_forget(l); /* a part of the rows, spread evenly */
    size_t part = (n + 2) / 3;
    wisp_lists_assign(l, &three, &g.m, 0, part, part);
    wisp_lists_turn(l, &three, &g.m, metric, 5, 4);
    check_lists(&g, l->list_of, l->start, l->row, l->centre, lists);
    CHECK(l->start[lists] == part, "%u rows, not %zu", l->start[lists], part);
    for (size_t i = 0; i < part; i++)
        CHECK(l->list_of[i * n / part] >= 0, "row %zu is missing", i * n / part);
    wisp_lists_free(l);
    wisp_free(metric);
    free_rig(&g);
}

static size_t n_filled(const struct wisp_lists *l)
{
    size_t filled = 0;
    for (size_t c = 0; c < l->n; c++) filled += l->start[c + 1] > l->start[c];
    return filled;
}

/* All rows go far away, to the one centre that lies that way: the others start anew from rows. */
static void test_empty(void)
{
    enum { N = 600, WIDTH = 10, LISTS = 40 };
    struct rig g;
    struct wisp_lists *l;
    make_rig(&g, N, WIDTH, 30, 0.3f);
    float *metric = moment(&g, MAX_BATCH);
    if (wisp_lists_create(&l, N, WIDTH, LISTS, 3, NULL) != WISP_OK) abort();
    wisp_lists_seed(l, &one, &g.m, metric, 5);
    for (size_t i = 0; i < (size_t)N * WIDTH; i++) g.w[i] += 50;
    size_t filled[3];
    for (uint64_t turn = 1; turn <= 3; turn++) {
        wisp_lists_assign(l, &one, &g.m, 0, N, N);
        wisp_lists_turn(l, &one, &g.m, metric, 5, turn);
        filled[turn - 1] = n_filled(l);
        for (size_t c = 0; c < LISTS; c++) {
            if (l->start[c + 1] > l->start[c]) continue;
            double nearest = INFINITY;
            for (size_t r = 0; r < N; r++)
                nearest = fmin(nearest, distance(&g, r, l->centre + c * (WIDTH + 1), metric));
            CHECK(nearest == 0, "the centre of empty list %zu is no row", c);
        }
    }
    CHECK(filled[0] < 5 && filled[2] > LISTS / 2, "%zu, %zu, %zu lists have rows", filled[0],
          filled[1], filled[2]);
    wisp_lists_free(l);
    wisp_free(metric);
    free_rig(&g);
}

/* Scores against plain products; the best lists against a naive choice. */
static void test_scores(size_t n, size_t width, size_t lists)
{
    struct rig g;
    struct wisp_lists *l;
    make_rig(&g, n, width, 10, 0.4f);
    float *score = wisp_alloc(MAX_BATCH * lists, sizeof *score), *metric = moment(&g, MAX_BATCH);
    float *value = wisp_alloc(lists, sizeof *value);
    int32_t *best = wisp_alloc(lists, sizeof *best);
    if (!score || !best || !value) abort();
    if (wisp_lists_create(&l, n, width, lists, 3, NULL) != WISP_OK) abort();
    wisp_lists_seed(l, &one, &g.m, metric, 5);
    wisp_lists_assign(l, &one, &g.m, 0, n, n);
    wisp_lists_turn(l, &one, &g.m, metric, 5, 1);
    wisp_lists_score(l, &three, score, g.h, MAX_BATCH);
    for (size_t i = 0; i < MAX_BATCH; i++) {
        float *z = score + i * lists;
        for (size_t c = 0; c < lists; c++) {
            const float *centre = l->centre + c * (width + 1);
            double want = centre[width], mass = fabs(want);
            for (size_t j = 0; j < width; j++) {
                want += (double)centre[j] * g.h[i * width + j];
                mass += fabs((double)centre[j] * g.h[i * width + j]);
            }
            CHECK(fabs(z[c] - want) <= 1e-6 * mass, "(%zu, %zu): %g, not %g", i, c, z[c], want);
        }
        if (i == 1) z[lists / 2] = NAN;
        if (i == 2)
            for (size_t c = 0; c < lists; c++) z[c] = (float)(c % 3);
        for (size_t k = 0; k <= lists; k += 1 + k / 2) {
            size_t found = wisp_lists_best(l, z, k, value, best), want = n_filled(l);
            CHECK(found == (want < k ? want : k), "%zu of %zu, not %zu", found, k, want);
            for (size_t b = 0; b < found; b++) { /* as many lists as b come before it */
                size_t before = 0, c0 = (size_t)best[b];
                float v = isnan(z[c0]) ? -INFINITY : z[c0];
                for (size_t c = 0; c < lists; c++)
                    before += l->start[c + 1] > l->start[c] &&
                              (z[c] > v || (z[c] == v && c < c0) || (isnan(z[c0]) && c != c0));
                CHECK(before == b, "sample %zu: list %zu at %zu, not %zu", i, c0, b, before);
            }
        }
    }
    wisp_lists_free(l);
    wisp_free(metric);
    wisp_free(score);
    wisp_free(value);
    wisp_free(best);
    free_rig(&g);
}

static void test_recall(void)
{
    struct rig g;
    struct finder f;
    double share, r;
    make_rig(&g, 6000, 40, 150, 0.5f);
    open_finder(&f, &g, &(struct wisp_sampling){ 0 });
    r = recall(&f, &g, &share);
    printf("  defaults: recall %.3f among %.3f of the rows\n", r, share);
    CHECK(share < 0.0775 && r > 0.6, /* 6 sqrt(6000) rows */
          "recall %g among %g of the rows", r, share);
    size_t lists = n_lists_of(&f);
    CHECK(f.pot.products == lists, "%zu centres count as %zu", lists, (size_t)f.pot.products);
    turn_rows(&g, 1234);
    double stale = recall(&f, &g, &share);
    for (uint64_t until = turns(&f) + 2; turns(&f) < until;)
        wisp_finder_ivf.learn(f.state, &one, &g.q, NULL);
    r = recall(&f, &g, &share);
    printf("  rows moved: recall %.3f, after two sweeps %.3f\n", stale, r);
    CHECK(stale < 0.3 && r > 0.6, "two sweeps bring %g to %g", stale, r);
    close_finder(&f);

    open_finder(&f, &g, &(struct wisp_sampling){ .lists = 64, .probes = 64 });
    r = recall(&f, &g, &share);
    CHECK(r == 1 && share == 1, "all probes: recall %g among %g of the rows", r, share);
    close_finder(&f);
    free_rig(&g);
}

/* After a sweep the lists are those of a naive assignment of the rows as they are now. */
static void test_moment(size_t width) /* of a layer so wide */
{
    struct rig g;
    struct finder f;
    make_rig(&g, 50, width, 10, 0.4f);
    open_finder(&f, &g, &(struct wisp_sampling){ .lists = 4 });
    wisp_finder_ivf.begin(f.state, &three, &g.q);
    float *want = moment(&g, 64), *got = blob(&f, "ivf.moment");
    for (size_t i = 0; i < (width + 1) * (width + 1); i++)
        CHECK(fabsf(got[i] - want[i]) < 1e-5f * (1 + fabsf(want[i])), "%zu [%zu]: %g, not %g",
              width, i, got[i], want[i]);
    wisp_free(want);
    close_finder(&f);
    free_rig(&g);
}

static void test_sweep(void)
{
    struct rig g;
    struct finder f;
    make_rig(&g, 1500, 20, 40, 0.4f);
    open_finder(&f, &g, &(struct wisp_sampling){ .lists = 50 });
    wisp_finder_ivf.begin(f.state, &one, &g.q);
    move_rows(&g, 4, 0.6f);
    size_t bytes = 50 * 21 * sizeof(float);
    float *centre = wisp_alloc(bytes, 1), metric[21 * 21], *mean = moment(&g, 64);
    if (!centre) abort();
    memcpy(centre, blob(&f, "ivf.centres"), bytes);
    memcpy(metric, blob(&f, "ivf.metric"), sizeof metric);
    uint64_t before = turns(&f);
    int steps = 0;
    for (; turns(&f) == before && steps < 1000; steps++) {
        CHECK(memcmp(centre, blob(&f, "ivf.centres"), bytes) == 0, "centres moved in a sweep");
        wisp_finder_ivf.learn(f.state, &one, &g.q, NULL);
    }
    CHECK(steps == 16, "the first sweep took %d steps", steps);
    CHECK(((uint64_t *)blob(&f, "ivf.counters"))[1] == 0, "the next does not begin at row 0");
    check_nearest(&g, blob(&f, "ivf.list_of"), centre, metric, 50);
    check_lists(&g, blob(&f, "ivf.list_of"), blob(&f, "ivf.starts"), blob(&f, "ivf.rows"),
                blob(&f, "ivf.centres"), 50);
    const float *now = blob(&f, "ivf.metric");
    for (size_t i = 0; i < 21; i++) mean[i * 21 + i] *= 1.5f;
    for (size_t i = 0; i < 21 * 21; i++)
        CHECK(fabsf(now[i] - mean[i]) < 1e-5f * (1 + fabsf(mean[i])), "metric [%zu]: %g, not %g", i,
              now[i], mean[i]);
    wisp_free(mean);
    for (before = turns(&f); turns(&f) < before + 6; steps++)
        wisp_finder_ivf.learn(f.state, &one, &g.q, NULL);
    CHECK(steps > 16 + 32 + 64 + 128 + 200 && steps < 16 + 32 + 64 + 128 + 3 * 256 + 1,
          "seven sweeps took %d steps", steps);
    wisp_free(centre);
    close_finder(&f);
    free_rig(&g);
}

static void check_same(struct finder *a, struct finder *b, const struct rig *g, const char *what)
{
    for (size_t i = 0; i < MAX_BATCH; i++) {
        find(a, g, i);
        find(b, g, i);
        CHECK(a->pot.n == b->pot.n &&
                  memcmp(a->pot.row, b->pot.row, a->pot.n * sizeof *a->pot.row) == 0,
              "%s: sample %zu finds other rows", what, i);
    }
    struct wisp_blob x[WISP_MAX_BLOBS], y[WISP_MAX_BLOBS];
    size_t n = wisp_finder_ivf.blobs(a->state, x);
    wisp_finder_ivf.blobs(b->state, y);
    for (size_t i = 0; i < n; i++) {
        CHECK(x[i].bytes % 4 == 0, "%s has %zu bytes", x[i].name, x[i].bytes);
        CHECK(memcmp(x[i].data, y[i].data, x[i].bytes) == 0, "%s: %s differs", what, x[i].name);
    }
}

static void step(struct finder *f, struct wisp_context *ctx, struct rig *g)
{
    wisp_finder_ivf.begin(f->state, ctx, &g->q);
    wisp_finder_ivf.learn(f->state, ctx, &g->q, NULL);
}

/* Threads change nothing; nor does a stop in the middle of a sweep. */
static void test_same_run(void)
{
    struct rig g;
    struct finder a, b, c;
    struct wisp_sampling o = { 0 };
    make_rig(&g, 3000, 33, 60, 0.4f);
    open_finder(&a, &g, &o);
    open_finder(&b, &g, &o);
    open_finder(&c, &g, &o);
    for (int i = 0; i < 70; i++) {
        if (i == 25) {
            struct wisp_blob from[WISP_MAX_BLOBS], to[WISP_MAX_BLOBS];
            size_t n = wisp_finder_ivf.blobs(a.state, from);
            CHECK(n == wisp_finder_ivf.blobs(c.state, to) && n <= WISP_MAX_BLOBS, "%zu", n);
            for (size_t j = 0; j < n; j++) memcpy(to[j].data, from[j].data, from[j].bytes);
            wisp_finder_ivf.restored(c.state, &one);
        }
        step(&a, &one, &g);
        step(&b, &three, &g);
        check_same(&a, &b, &g, "three threads");
        if (i >= 25) {
            step(&c, &three, &g);
            check_same(&a, &c, &g, "resumed");
        }
        move_rows(&g, (uint64_t)i + 1, 0.05f);
    }
    CHECK(turns(&a) >= 4, "only %d turns", (int)turns(&a));
    close_finder(&a);
    close_finder(&b);
    close_finder(&c);
    free_rig(&g);
}

/* A saved state is believed up to the last number that can be, and not one beyond it. */
static void test_saved(void)
{
    enum { N = 100, WIDTH = 5, LISTS = 8 };
    struct rig g;
    struct finder f;
    make_rig(&g, N, WIDTH, 10, 0.4f);
    open_finder(&f, &g, &(struct wisp_sampling){ .lists = LISTS });
    step(&f, &one, &g);
    uint64_t *next = (uint64_t *)blob(&f, "ivf.counters") + 1;
    uint32_t *start = blob(&f, "ivf.starts");
    const struct {
        void *at;
        int64_t last, beyond;
        size_t bytes;
    } cases[] = {
        { next, N - 1, N, 8 },
        { start + LISTS, start[LISTS], N + 1, 4 },
        { start + LISTS / 2, start[LISTS / 2 + 1], start[LISTS / 2 + 1] + 1, 4 },
        { (int32_t *)blob(&f, "ivf.list_of") + N - 1, LISTS - 1, LISTS, 4 },
        { (int32_t *)blob(&f, "ivf.list_of") + N - 1, -1, -2, 4 },
        { (int32_t *)blob(&f, "ivf.rows") + N - 1, N - 1, N, 4 },
        { blob(&f, "ivf.rows"), 0, -1, 4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t was;
        memcpy(&was, cases[i].at, cases[i].bytes);
        memcpy(cases[i].at, &cases[i].last, cases[i].bytes);
        CHECK(wisp_finder_ivf.restored(f.state, &one), "%zu: the last that can be", i);
        memcpy(cases[i].at, &cases[i].beyond, cases[i].bytes);
        CHECK(!wisp_finder_ivf.restored(f.state, &one), "%zu: beyond it", i);
        memcpy(cases[i].at, &was, cases[i].bytes);
    }
    static const char *const floats[] = { "ivf.moment", "ivf.metric", "ivf.centres", "ivf.sums" };
    for (size_t i = 0; i < 4; i++) {
        size_t n = i < 2 ? (WIDTH + 1) * (WIDTH + 1) : LISTS * (WIDTH + 1);
        float *last = (float *)blob(&f, floats[i]) + n - 1, was = *last;
        *last = NAN;
        CHECK(!wisp_finder_ivf.restored(f.state, &one), "%s: not a number", floats[i]);
        *last = was;
    }
    CHECK(wisp_finder_ivf.restored(f.state, &one), "as it was");
    close_finder(&f);
    free_rig(&g);
}

static void test_odd_sizes(void)
{
    static const struct {
        size_t n, width, clusters, lists;
        float spread;
    } cases[] = {
        { 1, 1, 1, 0, 1 },   { 1, 5, 1, 40, 0 },   { 3, 2, 1, 0, 1 },   { 3, 7, 1, 2, 0 },
        { 500, 8, 1, 0, 0 }, { 500, 8, 2, 90, 0 }, { 77, 1, 5, 77, 1 }, { 130, 65, 3, 65, 1 },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int zero = 0; zero < 2; zero++) {
            struct rig g;
            struct finder f;
            make_rig(&g, cases[c].n, cases[c].width, cases[c].clusters, cases[c].spread);
            if (zero) memset(g.w, 0, g.m.n * g.m.width * sizeof *g.w);
            if (zero) memset(g.h, 0, g.m.width * MAX_BATCH * sizeof *g.h);
            open_finder(&f, &g, &(struct wisp_sampling){ .lists = cases[c].lists, .probes = 999 });
            for (int i = 0; i < 40; i++) {
                step(&f, &three, &g);
                find(&f, &g, (size_t)i);
                CHECK(f.pot.n == g.m.n, "case %zu: %zu of %zu rows", c, f.pot.n, g.m.n);
            }
            close_finder(&f);
            free_rig(&g);
        }
}

/* True labels are left out, and a pot that is full stays within its room. */
static void test_pot(void)
{
    struct rig g;
    struct finder f;
    make_rig(&g, 9000, 4, 5, 0.4f);
    open_finder(&f, &g, &(struct wisp_sampling){ .lists = 20, .probes = 20 });
    uint32_t yp[MAX_BATCH + 1];
    int32_t yi[2 * MAX_BATCH];
    for (size_t i = 0; i <= MAX_BATCH; i++) yp[i] = (uint32_t)(2 * i);
    for (size_t i = 0; i < 2 * MAX_BATCH; i++) yi[i] = (int32_t)(60 * i);
    g.q.yp = yp, g.q.yi = yi;
    wisp_finder_ivf.begin(f.state, &one, &g.q);
    for (size_t i = 0; i < MAX_BATCH; i++) {
        find(&f, &g, i);
        CHECK(f.pot.n == WISP_POT_ROOM, "%zu rows", f.pot.n);
        for (size_t r = 0; r < f.pot.n; r++)
            CHECK(f.pot.row[r] != yi[2 * i] && f.pot.row[r] != yi[2 * i + 1], "a label is in");
    }
    close_finder(&f);
    free_rig(&g);
}

/* Rows that are all equal lie in one list: each sample looks at its own part of it. */
static void test_long_list(void)
{
    enum { N = 500, SEEN = 134 }; /* 6 sqrt(500) */
    struct rig g;
    struct finder f;
    bool met[N] = { 0 };
    size_t n_met = 0;
    make_rig(&g, N, 8, 1, 0);
    open_finder(&f, &g, &(struct wisp_sampling){ 0 });
    wisp_finder_ivf.begin(f.state, &one, &g.q);
    for (size_t i = 0; i < MAX_BATCH; i++) {
        find(&f, &g, i);
        CHECK(f.pot.n == SEEN, "%zu rows, not %d", f.pot.n, SEEN);
        for (size_t r = 0; r < f.pot.n; r++) met[f.pot.row[r]] = true;
    }
    for (size_t r = 0; r < N; r++) n_met += met[r];
    CHECK(n_met == N, "%zu of %d rows are ever seen", n_met, N);
    close_finder(&f);
    free_rig(&g);
}

static void test_memory(void)
{
    struct rig g;
    struct wisp_sampling o = { 0 };
    wisp_error err;
    make_rig(&g, 1000, 12, 9, 0.4f);
    struct wisp_finder_setup s = setup_of(&g, &o);
    long live = wisp_mem_live, n = 0;
    for (void *state;; n++) {
        wisp_mem_budget = n;
        wisp_status st = wisp_finder_ivf.create(&state, &s, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) {
            wisp_finder_ivf.free(state);
            break;
        }
        CHECK(st == WISP_ENOMEM && !state && wisp_mem_live == live, "after %ld: %s", n, err.text);
    }
    CHECK(n > 2 && wisp_mem_live == live, "%ld allocations", n);
    wisp_finder_ivf.free(NULL);

    size_t few = wisp_finder_ivf.bytes(&s);
    struct wisp_blob all[WISP_MAX_BLOBS];
    struct finder f;
    open_finder(&f, &g, &o);
    size_t saved = 0, count = wisp_finder_ivf.blobs(f.state, all);
    for (size_t i = 0; i < count; i++) saved += all[i].bytes;
    CHECK(few > saved && few < 4 * saved + (1 << 20), "%zu bytes, %zu saved", few, saved);
    wisp_mem_budget = 0; /* a step allocates nothing */
    for (int i = 0; i < 40; i++) step(&f, &three, &g);
    wisp_mem_budget = -1;
    close_finder(&f);
    free_rig(&g);
}

int main(void)
{
    if (wisp_kernels_select(&kernels, NULL, NULL) != WISP_OK) return 1;
    one.k = three.k = &kernels;
    if (wisp_pool_create(&three.pool, 3, NULL) != WISP_OK) return 1;
    TEST("ivf: lists equal a naive assignment, centres the means");
    test_lists(1000, 30, 70);
    test_lists(333, 7, 64);
    test_lists(130, 129, 3);
    TEST("ivf: empty lists start anew");
    test_empty();
    TEST("ivf: scores of centres, the best lists");
    test_scores(400, 19, 150);
    test_scores(700, 128, 600);
    test_scores(9, 3, 9);
    TEST("ivf: finds planted neighbours, also after rows moved; all probes are exact");
    test_recall();
    TEST("ivf: the moment of the samples, in tiles of 64 and what is left");
    for (size_t width = 61; width < 67; width++) test_moment(width);
    test_moment(129);
    TEST("ivf: a sweep renews lists and centres, sweeps get longer");
    test_sweep();
    TEST("ivf: same rows and state for 1 and 3 threads, and after a resume");
    test_same_run();
    TEST("ivf: a saved state with numbers that cannot be");
    test_saved();
    TEST("ivf: one row, three rows, equal rows, zero rows");
    test_odd_sizes();
    TEST("ivf: labels stay out, a full pot is no harm");
    test_pot();
    TEST("ivf: of a long list every sample sees another part");
    test_long_list();
    TEST("ivf: failing allocations; a step allocates nothing");
    test_memory();
    wisp_pool_free(three.pool);
    CHECK(wisp_mem_live == 0, "%ld blocks leaked", (long)wisp_mem_live);
    return test_end();
}
