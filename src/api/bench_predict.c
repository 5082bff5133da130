/* Benchmark of prediction: one row per call by one thread, sparse and exact; exact batches by all
 * threads, against what the machine could do at most (limits.h).
 *
 * The first call of every way is not counted: it touches all weights.  Every
 * way goes through the same rows, again and again while there is time; P@1 is of the first time. */
#include "api/bench.h"
#include "base/bounds.h"
#include "api/limits.h"
#include "api/predictor.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/sort.h"
#include "kernels/kernels.h"
#include "layer/output.h"
#include "model/kind.h"
#include "model/plan.h"

#include <stdlib.h>
#include <string.h>

enum { K = 5, CALLS = 1 << 20 /* at most */, EXACT_CALLS = 20 /* at least */ };

/* ---- what to measure ---- */

struct subject {
    struct wisp_model *m;
    struct wisp_data *rows;
    size_t n;     /* rows that are predicted */
    size_t batch; /* of these in a call */
    enum wisp_zeros zeros;
    bool cuda; /* on a card, all of it by one way */
    double data_s, train_s;
};

static void clear_subject(struct subject *s)
{
    wisp_model_free(s->m);
    wisp_data_free(s->rows);
}

static wisp_status load(struct subject *s, wisp_context *ctx, const wisp_config *cfg,
                        const char *model, const char *rows, wisp_error *err)
{
    double began = wisp_now();
    wisp_status st = wisp_model_load(&s->m, model, err);
    if (st == WISP_OK) st = wisp_data_open(&s->rows, ctx, rows, cfg, s->m, err);
    s->data_s = wisp_now() - began;
    return st;
}

/* The settings of training that wisp_bench_train would use, but by epochs. */
static wisp_status train_settings(wisp_config **out, const wisp_config *cfg, wisp_error *err)
{
    wisp_status st = wisp_bench_settings(out, cfg, err);
    if (st == WISP_OK) st = wisp_config_set(*out, "seconds", "0", err);
    if (st == WISP_OK && !wisp_opt_on(cfg, OPT_EPOCHS))
        st = wisp_config_set(*out, "epochs", "1", err);
    return st;
}

static wisp_status train(struct subject *s, wisp_context *ctx, const wisp_config *cfg,
                         wisp_on_progress told, void *arg, wisp_error *err)
{
    wisp_config *own = NULL;
    struct wisp_synth_shape shape, nothing;
    struct wisp_data *rows = NULL, *none = NULL;
    struct wisp_report *run = NULL;
    double began = wisp_now();
    wisp_status st = train_settings(&own, cfg, err);
    if (st == WISP_OK) st = wisp_bench_shape(&shape, own, err);
    if (st == WISP_OK) nothing = shape, nothing.n_test = 0;
    if (st == WISP_OK) st = wisp_synth_data(&rows, ctx, &shape, false, err);
    if (st == WISP_OK) st = wisp_synth_data(&s->rows, ctx, &shape, true, err);
    if (st == WISP_OK) st = wisp_synth_data(&none, ctx, &nothing, true, err);
    s->data_s = wisp_now() - began;
    if (st == WISP_OK)
        st = wisp_train_model(&s->m, &run, NULL, ctx, own, rows, none, told, arg, err);
    if (st == WISP_OK) wisp_report_get(run, "train_seconds", &s->train_s);
    wisp_report_free(run);
    wisp_data_free(none);
    wisp_data_free(rows);
    wisp_config_free(own);
    return st;
}

/* ---- measuring ---- */

struct timing {
    size_t n, rows; /* calls, and rows that they predicted */
    double *each;   /* (CALLS) seconds of each */
    double all;
    size_t hits;   /* rows whose first answer is right, of the first time through */
    double scored; /* labels per row */
};

static bool is_right(const struct wisp_data *d, size_t row, int32_t label)
{
    size_t at;
    const struct wisp_rows *r = wisp_data_row(d, row, &at);
    for (uint32_t e = r->yp[at]; e < r->yp[at + 1]; e++)
        if (r->yi[e] == label) return true;
    return false;
}

/* Calls of up to 'batch' rows, at least 'least' of them, until the time is up. */
static wisp_status measure(struct timing *t, const struct subject *s, wisp_context *ctx,
                           bool sparse, size_t batch, size_t least, double seconds, wisp_error *err)
{
    int32_t labels[WISP_SCORE_BATCH * K];
    float scores[WISP_SCORE_BATCH * K];
    wisp_predictor *p = NULL;
    size_t calls = wisp_parts(s->n, batch);
    const struct wisp_prediction how = { .sparse = sparse, .cuda = s->cuda, .zeros = s->zeros };
    wisp_status st = wisp_predictor_make(&p, ctx, s->m, how, K, err);
    t->n = t->rows = t->hits = 0;
    t->all = 0;
    if (st == WISP_OK)
        st = wisp_predictor_run(labels, scores, p, s->rows, 0, s->n < batch ? s->n : batch, err);
    if (st == WISP_OK) p->scorer.n_scored = 0;
    for (; st == WISP_OK && t->n < CALLS && (t->n < least || t->all < seconds); t->n++) {
        size_t first = t->n % calls * batch, n = s->n - first < batch ? s->n - first : batch;
        double began = wisp_now();
        st = wisp_predictor_run(labels, scores, p, s->rows, first, n, err);
        t->all += t->each[t->n] = wisp_now() - began;
        t->rows += n;
        for (size_t i = 0; t->n < calls && i < n; i++)
            t->hits += is_right(s->rows, first + i, labels[i * K]);
    }
    if (st == WISP_OK) t->scored = (double)p->scorer.n_scored / (double)t->rows;
    wisp_predictor_free(p);
    return st;
}

/* Microseconds that this share of the calls (which are sorted) took at most. */
static double microseconds(const struct timing *t, double share)
{
    size_t at = (size_t)(share * (double)t->n);
    return 1e6 * t->each[at < t->n ? at : t->n - 1];
}

static void report_calls(struct wisp_report *r, struct timing *t, bool sparse)
{
    wisp_sort_doubles(t->each, t->n);
    wisp_report_num(r, sparse ? "sparse_calls" : "exact_calls", (double)t->n);
    wisp_report_num(r, sparse ? "sparse_us_median" : "exact_us_median", microseconds(t, 0.5));
    wisp_report_num(r, sparse ? "sparse_us_p90" : "exact_us_p90", microseconds(t, 0.9));
    wisp_report_num(r, sparse ? "sparse_us_p99" : "exact_us_p99", microseconds(t, 0.99));
}

/* Batches of exact prediction, and what the processor could do; the latter 0: no memory for it. */
static void report_batches(struct wisp_report *r, const struct subject *s, wisp_context *ctx,
                           double rows_per_s, double batches_per_s, double seconds)
{
    wisp_report_num(r, "batch_rows", (double)s->batch);
    wisp_report_num(r, "batch_rows_per_s", rows_per_s);
    if (s->cuda || !wisp_model_is_net(s->m)) return; /* what else there is has no one product */
    const struct wisp_layer *out = wisp_net_output(&s->m->net);
    const struct wisp_param *w = &out->params[0];
    bool as16 = w->b16 && ctx->k->fast16 && out->n_in % 32 == 0; /* as layer/topk.c multiplies */
    double weights = (double)out->n_out * (double)out->n_in;
    const struct wisp_weights rows = wisp_param_weights(w);
    double bytes = (double)out->n_out * (double)wisp_weights_row_bytes(&rows);
    wisp_report_num(r, "batch_gflops", 2e-9 * rows_per_s * weights);
    wisp_report_num(r, "peak_gflops", 1e-9 * wisp_limit_flops(ctx, as16, seconds / 4));
    wisp_report_num(r, "batch_gb_per_s", 1e-9 * batches_per_s * bytes);
    wisp_report_num(r, "copy_gb_per_s", 1e-9 * wisp_limit_copy(ctx->pool, seconds / 4));
}

/* 'one' is a context with one thread. */
static wisp_status measure_all(struct wisp_report *r, const struct subject *s, wisp_context *ctx,
                               wisp_context *one, struct timing *t, double seconds, wisp_error *err)
{
    size_t batches = wisp_parts(s->n, s->batch);
    wisp_status st = measure(t, s, ctx, false, s->batch, batches, seconds, err);
    if (st != WISP_OK) return st;
    wisp_sort_doubles(t->each, t->n);
    wisp_report_num(r, "batch_us_median", microseconds(t, 0.5));
    double exact = 100.0 * (double)t->hits / (double)s->n;
    double rows_per_s = (double)t->rows / t->all, batches_per_s = (double)t->n / t->all;
    if (wisp_model_guide(s->m) != WISP_GUIDE_NONE && !s->cuda) {
        if ((st = measure(t, s, one, true, 1, s->n, seconds, err)) != WISP_OK) return st;
        double sparse = 100.0 * (double)t->hits / (double)s->n;
        report_calls(r, t, true);
        wisp_report_num(r, "scored_mean", t->scored);
        wisp_report_num(r, "sparse_p@1", sparse);
        wisp_report_num(r, "ratio", exact > 0 ? sparse / exact : 0);
    }
    if ((st = measure(t, s, one, false, 1, EXACT_CALLS, seconds, err)) != WISP_OK) return st;
    report_calls(r, t, false);
    wisp_report_num(r, "exact_p@1", exact);
    report_batches(r, s, ctx, rows_per_s, batches_per_s, seconds);
    return WISP_OK;
}

static wisp_status report(struct wisp_report **out, const struct subject *s, wisp_context *ctx,
                          const char *key, const char *name, double seconds, wisp_error *err)
{
    struct wisp_context one = { .k = ctx->k, .conv = ctx->conv };
    struct timing t = { .each = wisp_alloc(CALLS, sizeof *t.each) };
    struct wisp_report *r = wisp_report_create();
    wisp_status st = t.each ? WISP_OK : wisp_fail_mem(err, CALLS * sizeof *t.each, "times");
    wisp_report_text(r, key, name);
    wisp_report_num(r, "rows", (double)s->n);
    wisp_report_num(r, "labels", (double)s->m->net.n_labels);
    if (wisp_model_is_net(s->m))
        wisp_report_num(r, "hidden", (double)wisp_net_output(&s->m->net)->n_in);
    wisp_report_text(r, "kernels", ctx->k->name);
    wisp_report_num(r, "threads", wisp_pool_threads(ctx->pool));
    wisp_report_num(r, "data_seconds", s->data_s);
    wisp_report_num(r, "train_seconds", s->train_s);
    if (st == WISP_OK) st = wisp_pool_create(&one.pool, 1, err);
    if (st == WISP_OK) st = measure_all(r, s, ctx, &one, &t, seconds, err);
    if (st == WISP_OK) st = wisp_report_done(out, r, err);
    else wisp_report_free(r);
    wisp_pool_free(one.pool);
    wisp_free(t.each);
    return st;
}

wisp_status wisp_bench_predict(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                               const char *model, const char *rows, wisp_on_progress told,
                               void *arg, wisp_error *err)
{
    *out = NULL;
    struct subject s = { .zeros = wisp_plan_zeros(cfg),
                         .cuda = wisp_opt_is(cfg, OPT_DEVICE, "cuda") };
    double tests = wisp_opt_num(cfg, OPT_TEST_ROWS), seconds = wisp_opt_num(cfg, OPT_SECONDS);
    wisp_status st =
        model ? load(&s, ctx, cfg, model, rows, err) : train(&s, ctx, cfg, told, arg, err);
    if (st == WISP_OK) {
        size_t most = tests < 0 ? WISP_BENCH_TESTS : (size_t)tests;
        s.n = s.rows->n_rows < most ? s.rows->n_rows : most;
        if (s.n == 0) st = wisp_fail(err, WISP_EINVAL, "there are no rows to predict");
        s.batch = model && wisp_opt_on(cfg, OPT_BATCH) ? (size_t)wisp_opt_num(cfg, OPT_BATCH)
                                                       : WISP_SCORE_BATCH;
        if (st == WISP_OK && s.batch > WISP_SCORE_BATCH)
            st =
                wisp_fail_option(err, "batch", "%zu rows; predictions are made of up to %d at once",
                                 s.batch, WISP_SCORE_BATCH);
    }
    if (st == WISP_OK)
        st = report(out, &s, ctx, model ? "model" : "shape",
                    model ? model : wisp_opt_text(cfg, OPT_SHAPE),
                    seconds > 0 ? seconds : WISP_BENCH_PREDICT, err);
    clear_subject(&s);
    return st;
}
