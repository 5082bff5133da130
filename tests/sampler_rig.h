/* What test_sampler.c and test_neighbours.c share: contexts, a kernel table that counts, planted
 * rows, and a small network that really steps. */
#ifndef WISP_TEST_SAMPLER_RIG_H
#define WISP_TEST_SAMPLER_RIG_H

#include "base/mem.h"
#include "base/rand.h"
#include "hash/sampler.h"
#include "hash/votes.h"
#include "model/batch.h"
#include "model/net.h"
#include "model/optimizer.h"
#include "test.h"

#include <math.h>
#include <string.h>

/* Labels come in groups that share features; a row has two labels of one group, and now and then
 * one of another. */
enum {
    LABELS = 420,
    GROUP = 6,
    GROUPS = LABELS / GROUP,
    FEATURES = GROUPS * 4,
    ROWS = 900,
    WIDTH = 24,
    BATCH = 32,
    MAX_LABELS = 3, /* of a row */
    MOST_BEST = 64
};

static struct wisp_error err;
static struct wisp_kernels plain, counting;
static struct wisp_context contexts[5]; /* by threads: 1, 2, 4 */
static struct wisp_data *data;
static uint64_t rng = 5;

static inline size_t below(size_t n)
{
    return (size_t)(test_rand(&rng) >> 20) % n;
}

/* ---- counting ---- */

static atomic_ullong n_rows_scored, n_centres_scored;

static void count_dots(float *out, const float *w, size_t ld, const int32_t *idx, size_t m,
                       const float *x, size_t n)
{
    if (n == WIDTH) atomic_fetch_add(&n_rows_scored, m);
    plain.dots(out, w, ld, idx, m, x, n);
}

/* The products of a step are told apart: logits have biases, gradients have none; centres have one
 * coordinate more than rows. */
static void count_gemm_bias(float *c, size_t ldc, const float *a, size_t lda, const float *b,
                            size_t ldb, const float *bias, size_t m, size_t n, size_t k)
{
    atomic_fetch_add(&n_rows_scored, m * n);
    plain.gemm_bias(c, ldc, a, lda, b, ldb, bias, m, n, k);
}

static void count_gemm16(float *c, size_t ldc, const uint16_t *a, size_t lda, const uint32_t *b,
                         size_t ldb, const float *bias, size_t m, size_t n, size_t k, bool add)
{
    if (bias) atomic_fetch_add(&n_rows_scored, m * n);
    plain.gemm16(c, ldc, a, lda, b, ldb, bias, m, n, k, add);
}

static void count_gemm(float *c, size_t ldc, const float *a, size_t ras, size_t cas, const float *b,
                       size_t ldb, size_t m, size_t n, size_t k, bool add)
{
    if (k == WIDTH + 1 && n != WIDTH + 1 && n != WIDTH && !add)
        atomic_fetch_add(&n_centres_scored, m * n);
    plain.gemm(c, ldc, a, ras, cas, b, ldb, m, n, k, add);
}

/* ---- rows ---- */

static inline int32_t group_label(size_t group)
{
    return (int32_t)(group * GROUP + below(GROUP));
}

static inline void make_data(void)
{
    int64_t xp[ROWS + 1] = { 0 }, yp[ROWS + 1] = { 0 };
    static int32_t xi[ROWS * 3], yi[ROWS * MAX_LABELS];
    static float xv[ROWS * 3];
    for (size_t i = 0; i < ROWS; i++) {
        size_t group = below(GROUPS), x = (size_t)xp[i], y = (size_t)yp[i], left_out = below(4);
        for (size_t f = 0; f < 4; f++)
            if (f != left_out)
                xi[x] = (int32_t)(group * 4 + f), xv[x++] = 0.5f + (float)below(8) / 8;
        if (i % 50 != 7) { /* some rows have no label */
            yi[y++] = group_label(group);
            int32_t other = group_label(group);
            if (other != yi[y - 1]) yi[y++] = other;
            if (below(10) == 0) yi[y++] = group_label(below(GROUPS));
        }
        xp[i + 1] = (int64_t)x, yp[i + 1] = (int64_t)y;
    }
    CHECK(wisp_data_from_csr(&data, ROWS, FEATURES, LABELS, xp, xi, xv, yp, yi, &err) == WISP_OK,
          "%s", err.text);
}

static inline void rig_open(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    TEST("sampler: a rig");
    CHECK(wisp_kernels_select(&plain, NULL, &err) == WISP_OK, "%s", err.text);
    counting = plain;
    counting.dots = count_dots;
    counting.gemm = count_gemm;
    counting.gemm_bias = count_gemm_bias;
    counting.gemm16 = count_gemm16;
    for (int t = 1; t <= 4; t *= 2) {
        contexts[t].k = &counting;
        CHECK(wisp_pool_create(&contexts[t].pool, t, &err) == WISP_OK, "%s", err.text);
    }
    make_data();
}

static inline int rig_close(void)
{
    wisp_data_free(data);
    for (int t = 1; t <= 4; t *= 2) wisp_pool_free(contexts[t].pool);
    TEST("sampler: nothing is left");
    CHECK(wisp_mem_live == 0, "%ld blocks", (long)wisp_mem_live);
    return test_end();
}

/* ---- votes of features, as simple as can be: a feature's group ---- */

static struct wisp_votes group_votes;

static inline const struct wisp_votes *votes(void)
{
    static int64_t starts[FEATURES + 1];
    static int32_t labels[FEATURES * GROUP];
    static float weights[FEATURES * GROUP];
    for (size_t f = 0; f < FEATURES; f++) {
        starts[f + 1] = (int64_t)((f + 1) * GROUP);
        for (size_t l = 0; l < GROUP; l++) {
            labels[f * GROUP + l] = (int32_t)(f / 4 * GROUP + l);
            weights[f * GROUP + l] = 1 - 0.1f * (float)l;
        }
    }
    group_votes.n_features = FEATURES;
    group_votes.start = starts;
    group_votes.label = labels;
    group_votes.weight = weights;
    return &group_votes;
}

/* ---- settings ---- */

static inline struct wisp_sampling settings(const char *names)
{
    struct wisp_sampling o = { .keep = 20,
                               .n_random = 30,
                               .n_frequent = 25,
                               .n_carried = 40,
                               .rescore = true,
                               .tables = 12,
                               .bucket = 64,
                               .strategy = WISP_TOPK,
                               .votes = 2,
                               .transform = true,
                               .redraw = 2 };
    snprintf(o.names, sizeof o.names, "%s", names);
    snprintf(o.family, sizeof o.family, "dwta");
    return o;
}

static inline struct wisp_finder_setup setup_of(const struct wisp_sampling *o, int threads)
{
    return (struct wisp_finder_setup){ .o = o,
                                       .n_rows = LABELS,
                                       .width = WIDTH,
                                       .batch = BATCH,
                                       .n_samples = ROWS,
                                       .label_rows = data->label_rows,
                                       .votes = votes(),
                                       .seed = 9,
                                       .threads = threads };
}

/* ---- a network that steps ---- */

struct rig {
    struct wisp_context *ctx;
    struct wisp_sampling o;
    struct wisp_sampler *s; /* NULL: all rows */
    struct wisp_net net;
    struct wisp_layout layout;
    struct wisp_optimizer opt;
    struct wisp_step step; /* the last one */
    size_t number, rows[BATCH];
};

static inline void rig_make(struct rig *r, const struct wisp_sampling *o, int threads)
{
    *r = (struct rig){ .ctx = &contexts[threads], .o = *o };
    struct wisp_finder_setup setup = setup_of(&r->o, threads);
    bool full = strcmp(o->names, "full") == 0;
    struct wisp_layer_sizes sizes = {
        .keep = true,
        .batch = BATCH,
        .active = full ? LABELS : wisp_sampler_room(&setup, BATCH * MAX_LABELS),
        .training = true,
        .best = MOST_BEST,
        .own = full ? 0 : wisp_sampler_own_room(&setup, BATCH * MAX_LABELS),
    };
    bool ok = wisp_net_plan(&r->net, "input 24, relu", FEATURES, LABELS, &sizes, &err) == WISP_OK &&
              wisp_net_alloc_params(&r->net, &err) == WISP_OK &&
              wisp_optimizer_init(&r->opt, wisp_optimizer_find("adam"), &counting, 0.9, &err) ==
                  WISP_OK &&
              wisp_net_alloc_state(&r->net, r->opt.kind->slots, &err) == WISP_OK &&
              wisp_work_alloc(&r->net, threads, &err) == WISP_OK &&
              wisp_layout_init(&r->layout, FEATURES, LABELS, true, &err) == WISP_OK &&
              (full ||
               wisp_sampler_create(&r->s, &setup, &counting, BATCH * MAX_LABELS, &err) == WISP_OK);
    ok = ok && (full || wisp_sampler_best(r->s) <= MOST_BEST);
    CHECK(ok, "%s", err.text);
    if (!ok) abort();
    wisp_net_output(&r->net)->sampler = r->s;
    wisp_net_init(&r->net, 3, r->ctx->pool);
    r->opt.lr = 0.02f;
}

static inline void rig_clear(struct rig *r)
{
    wisp_sampler_free(r->s);
    wisp_layout_clear(&r->layout);
    wisp_optimizer_clear(&r->opt);
    wisp_net_clear(&r->net);
}

/* The next step, on these rows; returns the loss. */
static inline double rig_step_on(struct rig *r, const size_t *rows, size_t n,
                                 const struct wisp_update *u)
{
    struct wisp_values unit = { .mode = WISP_VALUES_UNIT };
    struct wisp_drop none = { 0 };
    memmove(r->rows, rows, n * sizeof *rows);
    if (wisp_layout_fill(&r->layout, data, r->rows, n, &unit, &none, &err) != WISP_OK) abort();
    r->step = (struct wisp_step){ .ctx = r->ctx,
                                  .batch = &r->layout.batch,
                                  .training = true,
                                  .seed = 1,
                                  .number = r->number++,
                                  .update = u,
                                  .head.loss = wisp_loss_find("softmax") };
    CHECK(wisp_net_step(&r->net, &r->step, NULL) == WISP_OK, "a step");
    return r->step.head.loss_sum;
}

/* On n rows that depend on its number alone. */
static inline double rig_step_with(struct rig *r, size_t n)
{
    size_t rows[BATCH];
    for (size_t i = 0; i < n; i++) rows[i] = (r->number * BATCH + i) * 7 % ROWS;
    return rig_step_on(r, rows, n, &r->opt.update);
}

static inline double rig_step(struct rig *r)
{
    return rig_step_with(r, BATCH);
}

/* The query that the output layer would make for the last step's rows, with their hidden values. */
static inline struct wisp_query rig_query(const struct rig *r)
{
    const struct wisp_layer *out = wisp_net_output(&r->net);
    const struct wisp_batch *b = &r->layout.batch;
    return (struct wisp_query){
        .n = b->n,
        .h = wisp_net_last(&r->net)->x,
        .yp = b->yp,
        .yi = b->yi,
        .id = b->id,
        .xp = b->xp,
        .xi = b->xi,
        .xv = b->xv,
        .step = r->number,
        .rows = { LABELS, WIDTH, { WIDTH, out->params[0].w, NULL }, out->params[1].w }
    };
}

static inline struct wisp_blob blob(struct wisp_sampler *s, const char *name)
{
    struct wisp_blob all[WISP_SAMPLER_BLOBS];
    size_t n = wisp_sampler_blobs(s, all);
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0) return all[i];
    CHECK(false, "no blob '%s'", name);
    abort();
}

static inline bool same_params(const struct rig *a, const struct rig *b)
{
    return memcmp(a->net.params, b->net.params, wisp_net_param_floats(&a->net) * sizeof(float)) ==
           0;
}

static inline bool same_blobs(const struct rig *a, const struct rig *b)
{
    struct wisp_blob x[WISP_SAMPLER_BLOBS], y[WISP_SAMPLER_BLOBS];
    size_t n = wisp_sampler_blobs(a->s, x), m = wisp_sampler_blobs(b->s, y);
    bool same = n == m;
    for (size_t i = 0; same && i < n; i++)
        same = x[i].bytes == y[i].bytes && memcmp(x[i].data, y[i].data, x[i].bytes) == 0;
    return same;
}

static inline bool is_label(const struct wisp_query *q, size_t i, int32_t row)
{
    for (uint32_t y = q->yp[i]; y < q->yp[i + 1]; y++)
        if (q->yi[y] == row) return true;
    return false;
}

static inline double score_of(const struct wisp_query *q, size_t i, int32_t row)
{
    double z = q->rows.bias[row];
    for (size_t c = 0; c < WIDTH; c++)
        z += (double)q->rows.w.f32[(size_t)row * WIDTH + c] * (double)q->h[i * WIDTH + c];
    return z;
}

#endif
