/* Benchmarks: the real training path on synthetic rows that lie in memory.
 *
 * The rate is that of complete steps (rows laid out, sampling and its upkeep, forward, backward,
 * updates); making the data, validation and measuring recall are left out.  The first step, which
 * touches all memory and builds the indexes, is shown apart. */
#include "api/bench.h"
#include "api/limits.h"
#include "base/context.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "cuda/cuda.h"
#include "kernels/kernels.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what to run ---- */

static wisp_status set_unless(wisp_config *c, bool there, const char *key, const char *value,
                              wisp_error *err)
{
    return there ? WISP_OK : wisp_config_set(c, key, value, err);
}

wisp_status wisp_bench_settings(wisp_config **out, const wisp_config *cfg, wisp_error *err)
{
    wisp_status st = wisp_config_create(out, err);
    wisp_config *c = *out;
    const wisp_option *o;
    for (size_t i = 0; st == WISP_OK && (o = wisp_option_row(i)); i++)
        if (strstr(o->commands, "bench") && wisp_opt_given(cfg, (enum wisp_opt)i))
            st = wisp_config_set(c, o->key, wisp_opt_text(cfg, (enum wisp_opt)i), err);
    if (st != WISP_OK) return st;
    bool net = *wisp_opt_text(c, OPT_NET) || *wisp_opt_text(c, OPT_HIDDEN);
    bool end = wisp_opt_on(c, OPT_EPOCHS) || wisp_opt_on(c, OPT_SECONDS);
    if ((st = set_unless(c, net, "hidden", "128", err)) == WISP_OK &&
        (st = set_unless(c, wisp_opt_on(c, OPT_BATCH), "batch", "256", err)) == WISP_OK)
        st = set_unless(c, end, "seconds", WISP_TEXT(WISP_BENCH_SECONDS), err);
    return st;
}

wisp_status wisp_bench_shape(struct wisp_synth_shape *s, const wisp_config *cfg, wisp_error *err)
{
    double tests = wisp_opt_num(cfg, OPT_TEST_ROWS);
    wisp_status st = wisp_shape_named(s, cfg, err);
    if (st != WISP_OK) return st;
    s->n_test = tests < 0 ? WISP_BENCH_TESTS : (size_t)tests;
    if (wisp_opt_on(cfg, OPT_ROW_FEATURES)) s->row_features = wisp_opt_num(cfg, OPT_ROW_FEATURES);
    if (wisp_opt_on(cfg, OPT_ROW_LABELS)) s->row_labels = wisp_opt_num(cfg, OPT_ROW_LABELS);
    return WISP_OK;
}

/* ---- what came out ---- */

struct meter { /* stands between training and whoever watches it */
    wisp_on_progress on_progress;
    void *arg;
    size_t first_rows, rows; /* trained after the first step, now */
    double first_s, s;       /* and the time they took */
    double p1;               /* of the last model judged; -1: no test rows */
};

static int on_progress(void *arg, const wisp_progress *p)
{
    struct meter *m = arg;
    if (m->rows == 0) m->first_rows = p->rows_trained, m->first_s = p->train_s;
    m->rows = p->rows_trained;
    m->s = p->train_s;
    if (p->epoch_ended) m->p1 = p->valid;
    return m->on_progress ? m->on_progress(m->arg, p) : 0;
}

static double steady_rate(const struct meter *m)
{
    bool only_one = m->rows == m->first_rows;
    double rows = (double)(only_one ? m->rows : m->rows - m->first_rows);
    double s = only_one ? m->s : m->s - m->first_s;
    return s > 0 ? rows / s : 0;
}

/* A number where it is one: "128", but "512,256" or a whole --net as text. */
static void report_hidden(struct wisp_report *t, const wisp_config *cfg)
{
    const char *net = wisp_opt_text(cfg, OPT_NET), *hidden = wisp_opt_text(cfg, OPT_HIDDEN);
    char *end;
    double width = wisp_strtod(hidden, &end);
    if (*net || *end) wisp_report_text(t, "hidden", *net ? net : hidden);
    else wisp_report_num(t, "hidden", width);
}

static void take(struct wisp_report *to, const struct wisp_report *from, const char *key)
{
    double v = 0;
    if (wisp_report_get(from, key, &v)) wisp_report_num(to, key, v);
}

/* Of a run on the CPU or on a card: whichever is there. */
static void take_phases(struct wisp_report *t, const struct wisp_report *run)
{
    char key[48];
    for (int i = WISP_PHASE_LAYOUT; i < WISP_PHASES; i++) {
        snprintf(key, sizeof key, "%s_us", wisp_phase_name(i));
        take(t, run, key);
    }
    take(t, run, "serial_us");
    for (int i = 0; i < WISP_CUDA_PARTS; i++) {
        snprintf(key, sizeof key, "gpu_%s_us", wisp_cuda_part_names[i]);
        take(t, run, key);
    }
    take(t, run, "gpu_step_us");
    take(t, run, "gpu_layout_us");
    take(t, run, "gpu_tables_us");
}

/* A card's floor: its bytes, at the speed of a copy. */
static void report_card_floor(struct wisp_report *t, const struct wisp_report *run)
{
    double bytes = 0, copy = 0;
    wisp_report_get(run, "bytes_per_sample", &bytes);
    wisp_report_get(run, "copy_gb_per_s", &copy);
    take(t, run, "bytes_per_sample");
    take(t, run, "flops_per_sample");
    take(t, run, "copy_gb_per_s");
    wisp_report_num(t, "floor_bytes_us", copy > 0 ? 1e-3 * bytes / copy : 0);
}

/* What the machine can do, and what a sample would take at that: the larger of moving its bytes and
 * doing its operations. */
static void report_floor(struct wisp_report *t, const struct wisp_report *run,
                         struct wisp_context *ctx, bool bf16)
{
    const double seconds = 0.4;
    double bytes = 0, flops = 0, copy = wisp_limit_copy(ctx->pool, seconds);
    double peak = wisp_limit_flops(ctx, bf16, seconds);
    wisp_report_get(run, "bytes_per_sample", &bytes);
    wisp_report_get(run, "flops_per_sample", &flops);
    wisp_report_num(t, "bytes_per_sample", bytes);
    wisp_report_num(t, "flops_per_sample", flops);
    wisp_report_num(t, "copy_gb_per_s", 1e-9 * copy);
    wisp_report_num(t, "peak_gflops", 1e-9 * peak);
    wisp_report_num(t, "floor_bytes_us", copy > 0 ? 1e6 * bytes / copy : 0);
    wisp_report_num(t, "floor_flops_us", peak > 0 ? 1e6 * flops / peak : 0);
}

static wisp_status report(struct wisp_report **out, struct wisp_context *ctx,
                          const wisp_config *cfg, const struct wisp_synth_shape *shape,
                          const struct wisp_report *run, const struct meter *m, double data_s,
                          wisp_error *err)
{
    struct wisp_report *t = wisp_report_create();
    double rate = steady_rate(m), batch = wisp_opt_num(cfg, OPT_BATCH);
    wisp_report_text(t, "shape", wisp_opt_text(cfg, OPT_SHAPE));
    wisp_report_num(t, "rows", (double)shape->n_rows);
    wisp_report_num(t, "features", (double)shape->n_features);
    wisp_report_num(t, "labels", (double)shape->n_labels);
    wisp_report_text(t, "device", wisp_opt_text(cfg, OPT_DEVICE));
    wisp_report_text(t, "kernels", ctx->k->name);
    wisp_report_num(t, "threads", wisp_pool_threads(ctx->pool));
    wisp_report_num(t, "batch", batch);
    report_hidden(t, cfg);
    wisp_report_text(t, "sampling", wisp_opt_text(cfg, OPT_SAMPLING));
    wisp_report_num(t, "samples_per_s", rate);
    wisp_report_num(t, "us_per_step", rate > 0 ? 1e6 * batch / rate : 0);
    take(t, run, "active_mean");
    take(t, run, "scored_mean");
    take(t, run, "retrieval_recall");
    take(t, run, "recall_union");
    take_phases(t, run);
    wisp_report_num(t, "heldout_p@1", m->p1);
    wisp_report_num(t, "heldout_rows", (double)shape->n_test);
    wisp_report_num(t, "epochs", (double)m->rows / (double)shape->n_rows);
    take(t, run, "train_seconds");
    wisp_report_num(t, "first_step_seconds", m->first_s);
    wisp_report_num(t, "data_seconds", data_s);
    take(t, run, "seconds");
    take(t, run, "parameters");
    take(t, run, "peak_bytes");
    const char *precision = wisp_opt_text(cfg, OPT_PRECISION);
    bool bf16 = strcmp(precision, "auto") == 0 ? ctx->k->fast16 : strcmp(precision, "bf16") == 0;
    if (wisp_opt_is(cfg, OPT_DEVICE, "cuda")) report_card_floor(t, run);
    else report_floor(t, run, ctx, bf16);
    return wisp_report_done(out, t, err);
}

wisp_status wisp_bench_train(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                             wisp_on_progress told, void *arg, wisp_error *err)
{
    *out = NULL;
    wisp_config *own = NULL;
    struct wisp_synth_shape shape;
    struct wisp_data *train = NULL, *test = NULL;
    struct wisp_report *run = NULL;
    struct meter m = { .on_progress = told, .arg = arg, .p1 = -1 };
    double began = wisp_now(), data_s = 0;
    wisp_status st = wisp_bench_settings(&own, cfg, err);
    if (st == WISP_OK) st = wisp_bench_shape(&shape, own, err);
    if (st == WISP_OK) st = wisp_synth_data(&train, ctx, &shape, false, err);
    if (st == WISP_OK) st = wisp_synth_data(&test, ctx, &shape, true, err);
    data_s = wisp_now() - began;
    if (st == WISP_OK) st = wisp_train_run(&run, ctx, own, train, test, NULL, on_progress, &m, err);
    if (st == WISP_OK) st = report(out, ctx, own, &shape, run, &m, data_s, err);
    wisp_report_free(run);
    wisp_data_free(test);
    wisp_data_free(train);
    wisp_config_free(own);
    return st;
}
