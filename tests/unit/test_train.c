/* Training runs through wisp_train: threads, numbers that blow up, validation, early stopping,
 * resume; and memory that runs out in each function of the way from data to predictions. */
#include "model_rig.h"

#include <math.h>

static char text_file[64], cache[80];

static wisp_data *synth(size_t rows, size_t features, size_t labels, bool test)
{
    struct wisp_synth_shape s = { .n_rows = rows,
                                  .n_test = rows / 2,
                                  .n_features = features,
                                  .n_labels = labels,
                                  .row_features = 12,
                                  .row_labels = 2,
                                  .seed = 9 };
    wisp_data *d = NULL;
    CHECK(wisp_synth_data(&d, ctx, &s, test, &err) == WISP_OK, "%s", err.text);
    return d;
}

/* ---- training ---- */

struct told { /* what on_progress was told at the ends of epochs */
    int epochs, stop_at, best;
    size_t calls, rows_done; /* how often; in the last epoch that ended */
    double valid[64], loss[64], valid_loss[64];
};

static int listen(void *arg, const wisp_progress *p)
{
    struct told *t = arg;
    t->calls++;
    CHECK(p->epoch >= 1 && p->epoch <= p->epochs && p->rows_done <= p->n_rows && p->eta_s >= 0 &&
              p->train_s >= 0 && p->loss >= 0,
          "epoch %d of %d, row %zu of %zu, %g s left", p->epoch, p->epochs, p->rows_done, p->n_rows,
          p->eta_s);
    if (!p->epoch_ended) return 0;
    t->rows_done = p->rows_done;
    const char *at = strstr(p->json, "\"valid_loss\":");
    t->valid[t->epochs] = p->valid;
    t->valid_loss[t->epochs] = at ? strtod(at + 13, NULL) : NAN;
    t->loss[t->epochs++] = p->loss;
    if (p->best) t->best = p->epoch;
    return p->epoch == t->stop_at;
}

static wisp_status train(struct told *t, wisp_context *with, const char *more, const wisp_data *d,
                         const wisp_data *valid, double *reported)
{
    wisp_config *c = config(more);
    wisp_report *r = NULL;
    struct told nobody = { 0 };
    err.text[0] = 0;
    wisp_status st = wisp_train(&r, with, c, d, valid, model, listen, t ? t : &nobody, &err);
    CHECK((st == WISP_OK) == (r != NULL), "status %d, report %p", st, (void *)r);
    if (reported) *reported = -2;
    if (r && reported) wisp_report_get(r, "valid_p@1", reported);
    wisp_report_free(r);
    wisp_config_free(c);
    return st;
}

static void test_threads(void)
{
    static const char *const runs[] = {
        "hidden 33,17 dropout 0.2 input-dropout 0.3 epochs 2 average 0.5",
        "hidden 20 optimizer adagrad lr 0.05 loss bce batch 50 values raw",
        "hidden 16 optimizer sgd lr 0.5 decay cosine memory 4k",
        "hidden 33,17 moments bf16 epochs 2",
        "hidden 300 moments bf16 rows bf16 loss bce",
        "hidden 20 moments bf16 optimizer sgd lr 0.5",
    };
    static const char *const isas[] = { "scalar", "" };
    TEST("train: 1, 2 and 4 threads write the same bytes");
    wisp_data *d = synth(500, 300, 400, false);
    for (size_t i = 0; i < 2 * sizeof runs / sizeof *runs; i++) {
        struct bytes one = { 0 };
        setenv("WISP_ISA", isas[i % 2], 1);
        for (int threads = 1; threads <= 4; threads *= 2) {
            wisp_context *c;
            CHECK(wisp_context_create(&c, threads, &err) == WISP_OK, "%s", err.text);
            unlink(model);
            CHECK(train(NULL, c, runs[i / 2], d, NULL, NULL) == WISP_OK, "%s", err.text);
            if (threads == 1) one = slurp(model);
            CHECK(one.n > 1000 && file_is(model, one), "'%s' %s: %d threads differ from 1",
                  runs[i / 2], isas[i % 2], threads);
            wisp_context_free(c);
        }
        free(one.p);
    }
    unsetenv("WISP_ISA");
    wisp_data_free(d);
}

static wisp_data *huge_values(float value)
{
    enum { N = 40 };
    int64_t p[N + 1];
    int32_t xi[N], yi[N];
    float xv[N];
    for (int i = 0; i <= N; i++) p[i] = i;
    for (int i = 0; i < N; i++) xi[i] = i % 5, yi[i] = i % 3, xv[i] = value;
    wisp_data *d;
    CHECK(wisp_data_from_csr(&d, N, 5, 3, p, xi, xv, p, yi, &err) == WISP_OK, "%s", err.text);
    return d;
}

static void test_numeric(void)
{
    static const char *const runs[] = {
        "values raw optimizer sgd lr 1000 batch 4 epochs 3 holdout 0.2",
        "values raw optimizer sgd lr 1000 batch 4 epochs 3 holdout 0",
        "values raw optimizer sgd lr 1000 batch 40 epochs 1 warmup 0 holdout 0.2", /* after the only
                                                                                      step */
        "values raw optimizer sgd lr 1000 batch 40 epochs 1 warmup 0 holdout 0",
        "values raw optimizer sgd lr 1000 batch 40 epochs 1 warmup 0 holdout 0 loss bce",
        /* the squares of gradients are infinite, the weights stay */
        "values raw batch 4 epochs 3 checkpoint-steps 1 decay none warmup 0",
        "values raw batch 4 epochs 3 moments bf16",
        "values raw batch 4 epochs 3 optimizer adagrad rows bf16 checkpoint-steps 1",
        "values raw batch 4 epochs 3 optimizer adagrad average 1 checkpoint-steps 2",
        "values raw batch 4 epochs 3 optimizer sgd lr 1000 rows bf16 checkpoint-steps 1",
        "values raw batch 4 epochs 3 optimizer sgd lr 1000 loss bce average 1 checkpoint-steps 1",
    };
    static const char old[] = "an older model";
    TEST("train: a loss, weights or moments that are no numbers leave the file alone");
    put_file(model, old);
    size_t files = n_files();
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        wisp_data *d = huge_values(i < 2 ? 1e37f : 3e38f);
        wisp_status st = train(NULL, ctx, runs[i], d, NULL, NULL);
        CHECK(st == WISP_ENUMERIC && strstr(err.text, "--lr") &&
                  strstr(err.text, i < 2 ? "the loss became" : "no number"),
              "'%s': %d '%s'", runs[i], st, err.text);
        CHECK(file_is(model, (struct bytes){ (unsigned char *)old, sizeof old - 1 }),
              "'%s': the file changed", runs[i]);
        CHECK(n_files() == files, "%zu files", n_files());
        wisp_data_free(d);
    }
}

static double eval_p1(const wisp_data *d)
{
    struct wisp_model *m = NULL;
    wisp_config *c = config("");
    wisp_report *r = NULL;
    double p = -3;
    CHECK(wisp_model_load(&m, model, &err) == WISP_OK &&
              wisp_eval(&r, ctx, m, d, c, &err) == WISP_OK,
          "%s", err.text);
    if (r) wisp_report_get(r, "p@1", &p);
    wisp_report_free(r);
    wisp_model_free(m);
    wisp_config_free(c);
    return p;
}

static void test_progress(void)
{
    static const char *const runs[] = { "epochs 3", "net linear loss hinge",
                                        "net linear loss squared-hinge refit yes",
                                        "net linear+net epochs 2" };
    TEST("train: how far a run is");
    wisp_data *d = synth(1000, 500, 300, false);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct told t = { 0 };
        CHECK(train(&t, ctx, runs[i], d, NULL, NULL) == WISP_OK, "%s: %s", runs[i], err.text);
        CHECK(t.calls > 0 && t.epochs > 0 && t.rows_done > 0, "%s: %zu calls, %d epochs, %zu rows",
              runs[i], t.calls, t.epochs, t.rows_done);
    }
    wisp_data_free(d);
}

static void test_validation(void)
{
    wisp_data *d = synth(400, 200, 30, false), *v = synth(400, 200, 30, true);
    double reported;
    TEST("train: the epoch of the lowest validation loss is the one on disk");
    bool earlier = false, apart = false;
    for (int i = 0; i < 4; i++) {
        struct told t = { 0 };
        char more[120];
        double best = -1, least = INFINITY;
        snprintf(more, sizeof more,
                 "epochs 6 optimizer sgd lr 8 momentum 0.5 decay none batch 20 seed %d", i);
        CHECK(train(&t, ctx, more, d, v, &reported) == WISP_OK, "%s", err.text);
        for (int e = 0; e < t.epochs; e++) {
            best = fmax(best, t.valid[e]);
            least = fmin(least, t.valid_loss[e]);
        }
        earlier |= t.best < t.epochs;
        apart |= reported < best;
        CHECK(t.epochs == 6 && best > 0 && t.valid[t.best - 1] == reported &&
                  t.valid_loss[t.best - 1] <= least * 1.001,
              "%d epochs, best %d with a loss of %g, least %g", t.epochs, t.best,
              t.valid_loss[t.best - 1], least);
        double p1 = eval_p1(v);
        CHECK(fabs(p1 - reported) < 1e-9, "the model on disk has P@1 %g, reported %g", p1,
              reported);
        CHECK(access("model.state", F_OK) != 0,
              "the state is still there"); /* we are in the folder */
    }
    CHECK(earlier, "no run had its best epoch before its last: the test sees nothing");
    CHECK(apart, "in every run it is the epoch of the highest P@1: the test sees nothing");

    TEST("train: it learns, and stops when it learns no more");
    struct told t = { 0 };
    CHECK(train(&t, ctx, "epochs 12 lr 0.02 batch 20", d, v, &reported) == WISP_OK, "%s", err.text);
    CHECK(t.epochs == 12 && t.loss[11] < 0.7 * t.loss[0], "loss %g -> %g", t.loss[0], t.loss[11]);
    for (int patience = 1; patience <= 3; patience++) {
        char more[120];
        t = (struct told){ 0 };
        snprintf(more, sizeof more, "epochs 20 lr 1e-9 patience %d", patience);
        CHECK(train(&t, ctx, more, d, patience == 2 ? NULL : v, &reported) == WISP_OK, "%s",
              err.text);
        CHECK(t.epochs == 1 + patience && t.best == 1, "patience %d: %d epochs, best %d", patience,
              t.epochs, t.best);
    }
    t = (struct told){ 0 };
    CHECK(train(&t, ctx, "epochs 3 holdout 0", d, NULL, &reported) == WISP_OK && t.epochs == 3 &&
              t.best == 3 && reported == -1,
          "without validation rows the last epoch is kept: %d", t.best);
    wisp_data *empty;
    t = (struct told){ 0 };
    static const int64_t zero[1];
    CHECK(wisp_data_from_csr(&empty, 0, 200, 30, zero, NULL, NULL, NULL, NULL, &err) == WISP_OK &&
              train(&t, ctx, "epochs 3", d, empty, &reported) == WISP_OK && t.best == 3 &&
              reported == -1,
          "an empty validation set is none: best %d, %s", t.best, err.text);
    wisp_data_free(empty);
    wisp_data_free(d), wisp_data_free(v);
}

/* 120 rows with a feature of their label's own and three that any may have, trained by the
 * defaults: no epoch is better by P@1 than the first that has 100. */
static void test_toy(void)
{
    enum { N = 120, LABELS = 3 };
    static int64_t xp[N + 1], yp[N + 1];
    static int32_t xi[4 * N], yi[N];
    static float xv[4 * N];
    for (int i = 0; i < N; i++) {
        const int f[4] = { i % LABELS, 3 + i % 5, 8 + i % 7, 15 + i % 4 };
        for (int k = 0; k < 4; k++) xi[4 * i + k] = f[k], xv[4 * i + k] = 1;
        yi[i] = i % LABELS;
        xp[i + 1] = 4 * (i + 1), yp[i + 1] = i + 1;
    }
    wisp_data *d;
    CHECK(wisp_data_from_csr(&d, N, 19, LABELS, xp, xi, xv, yp, yi, &err) == WISP_OK, "%s",
          err.text);
    TEST("train: a toy ends with sure answers, all of them right");
    for (int run = 1; run <= 3; run++) {
        wisp_config *c;
        wisp_report *r = NULL;
        struct wisp_model *m = NULL;
        int32_t labels[N];
        float scores[N];
        char number[8];
        snprintf(number, sizeof number, "%d", run);
        CHECK(wisp_config_create(&c, &err) == WISP_OK, "%s", err.text);
        set(c, "seed", number);
        CHECK(wisp_train(&r, ctx, c, d, NULL, model, NULL, NULL, &err) == WISP_OK &&
                  wisp_model_load(&m, model, &err) == WISP_OK &&
                  wisp_predict(labels, scores, ctx, m, d, 0, N, 1, &err) == WISP_OK,
              "%s", err.text);
        for (int i = 0; i < N && m; i++)
            CHECK(labels[i] == yi[i] && scores[i] >= 0.9f, "seed %d, row %d: label %d, score %g",
                  run, i, labels[i], (double)scores[i]);
        wisp_model_free(m);
        wisp_report_free(r);
        wisp_config_free(c);
    }
    wisp_data_free(d);
}

static void test_refused(void)
{
    static const int64_t zero[3] = { 0, 1, 2 };
    static const int32_t ids[2] = { 0, 1 };
    static const float ones[2] = { 1, 1 };
    wisp_data *d;
    TEST("train: data that cannot be trained on");
    unlink(model);
    CHECK(wisp_data_from_csr(&d, 0, 2, 2, zero, NULL, NULL, NULL, NULL, &err) == WISP_OK &&
              train(NULL, ctx, "", d, NULL, NULL) == WISP_EFORMAT && strstr(err.text, "no rows"),
          "no rows: %s", err.text);
    wisp_data_free(d);
    CHECK(wisp_data_from_csr(&d, 2, 2, 0, zero, ids, ones, NULL, NULL, &err) == WISP_OK &&
              train(NULL, ctx, "", d, NULL, NULL) == WISP_EFORMAT &&
              strstr(err.text, "none of the 2 rows has a label"),
          "no labels: %s", err.text);
    wisp_data_free(d);
    CHECK(wisp_data_from_csr(&d, 2, 2, 2, zero, ids, ones, zero, ids, &err) == WISP_OK &&
              train(NULL, ctx, "resume yes holdout 0", d, NULL, NULL) == WISP_OK,
          "no state, from the beginning: %s", err.text);
    unlink(model);
    CHECK(train(NULL, ctx, "hidden 0", d, NULL, NULL) == WISP_EINVAL, "a width of 0: %s", err.text);
    CHECK(train(NULL, ctx, "holdout 0", d, NULL, NULL) == WISP_OK, "two rows are enough: %s",
          err.text);
    wisp_data_free(d);
}

static void test_resume(const char *run)
{
    char more[200], state[80];
    wisp_data *d = synth(300, 150, 40, false);
    struct bytes whole;
    snprintf(state, sizeof state, "%s.state", model);
    snprintf(more, sizeof more, "%s resume yes", run);
    TEST("train: stopped and resumed is the same model");
    unlink(model);
    CHECK(train(NULL, ctx, run, d, NULL, NULL) == WISP_OK, "%s", err.text);
    whole = slurp(model);
    for (int stop = 1; stop <= 4; stop++) {
        struct told t = { .stop_at = stop };
        unlink(model);
        wisp_status st = train(&t, ctx, run, d, NULL, NULL);
        if (stop == 4) { /* nothing was left to do */
            CHECK(st == WISP_OK && access(state, F_OK) != 0 && file_is(model, whole),
                  "stopped at the end: %d %s", st, err.text);
            break;
        }
        CHECK(st == WISP_ESTOPPED && access(state, F_OK) == 0, "stopped in epoch %d: %d", stop, st);
        CHECK(train(NULL, ctx, "epochs 4 resume yes", d, NULL, NULL) == WISP_EMODEL,
              "another run's state was taken");
        CHECK(train(NULL, ctx, more, d, NULL, NULL) == WISP_OK, "%s", err.text);
        CHECK(file_is(model, whole) && access(state, F_OK) != 0,
              "'%s': resumed after epoch %d it differs", run, stop);
    }
    struct told none = { 0 };
    CHECK(train(&none, ctx, "epochs 1", d, NULL, NULL) == WISP_OK && none.epochs == 1 &&
              train(&none, ctx, "epochs 1 resume yes", d, NULL, NULL) == WISP_OK &&
              none.epochs == 1,
          "a finished run went on: %d epochs, %s", none.epochs, err.text);
    free(whole.p);
    wisp_data_free(d);
}

/* ---- memory that runs out ---- */

static wisp_config *fail_config;
static wisp_data *fail_data, *out_data;
static struct wisp_model *fail_model, *out_model;
static wisp_report *out_report;

static wisp_status do_open(void)
{
    return wisp_data_open(&out_data, ctx, text_file, fail_config, NULL, &err);
}
static wisp_status do_open_anew(void)
{
    unlink(cache);
    return do_open();
}
static wisp_status do_train(void)
{
    return wisp_train(&out_report, ctx, fail_config, fail_data, NULL, model, NULL, NULL, &err);
}
static wisp_status do_save(void)
{
    return wisp_model_save(fail_model, model, 1, 1, NULL, &err);
}
static wisp_status do_load(void)
{
    return wisp_model_load(&out_model, model, &err);
}
static wisp_status do_predict(void)
{
    int32_t labels[6 * 3];
    float scores[6 * 3];
    return wisp_predict(labels, scores, ctx, fail_model, fail_data, 0, 6, 3, &err);
}
static wisp_status do_eval(void)
{
    return wisp_eval(&out_report, ctx, fail_model, fail_data, fail_config, &err);
}

static void forget(void)
{
    wisp_data_free(out_data), wisp_model_free(out_model), wisp_report_free(out_report);
    out_data = NULL, out_model = NULL, out_report = NULL;
}

/* Fails the n-th allocation for every n until it succeeds.  'after': what the file may hold already
 * when memory runs out late, in the report. */
static void fail_each(const char *name, wisp_status (*fn)(void), struct bytes after)
{
    static const char junk[] = "x"; /* outputs must not be left as they were */
    struct bytes before = slurp(model);
    size_t files = n_files();
    long live = wisp_mem_live, n = 0;
    TEST(name);
    for (;; n += n < 300 ? 1 : 17) {
        out_data = (wisp_data *)junk, out_model = (struct wisp_model *)junk,
        out_report = (wisp_report *)junk;
        bool is_open = fn == do_open || fn == do_open_anew, is_load = fn == do_load,
             reports = fn == do_train || fn == do_eval;
        err.text[0] = 0;
        wisp_mem_budget = n;
        wisp_status st = fn();
        wisp_mem_budget = -1;
        if (!is_open) out_data = NULL;
        if (!is_load) out_model = NULL;
        if (!reports) out_report = NULL;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && strncmp(err.text, "out of memory", 13) == 0,
              "after %ld: %d '%s'", n, st, err.text);
        CHECK(!out_data && !out_model && !out_report, "after %ld: an output is set", n);
        CHECK(wisp_mem_live == live, "after %ld: %ld blocks lost", n, wisp_mem_live - live);
        CHECK(file_is(model, before) || (after.p && file_is(model, after)),
              "after %ld: the model file changed", n);
        CHECK(n_files() == files, "after %ld: %zu files, there were %zu", n, n_files(), files);
        if (st != WISP_ENOMEM || n > 20000) break;
    }
    CHECK(n >= 3, "only %ld allocations", n);
    forget();
    CHECK(wisp_mem_live == live, "%ld blocks lost", wisp_mem_live - live);
    free(before.p);
}

/* The n-th allocation fails, in a run with checkpoints or in one that is resumed: nothing is lost,
 * and resumed it ends with the bytes of the run that was left alone. */
#define CHECKPOINTS "epochs 2 batch 60 average 0.6 sampling neighbours+lsh tables 3"
static void fail_resume(const wisp_data *d, bool resumed, struct bytes whole)
{
    static const char run[] = CHECKPOINTS " checkpoint-steps 1",
                      again[] = CHECKPOINTS " resume yes";
    long n = 0;
    for (;; n += 1 + n / 16) { /* every n: tests/faults/run */
        struct told stop = { .stop_at = 1 };
        unlink(model);
        if (resumed) CHECK(train(&stop, ctx, run, d, NULL, NULL) == WISP_ESTOPPED, "%s", err.text);
        long live = wisp_mem_live;
        wisp_config *c = config(resumed ? again : run);
        wisp_report *r = NULL;
        wisp_mem_budget = n;
        wisp_status st = wisp_train(&r, ctx, c, d, NULL, model, NULL, NULL, &err);
        wisp_mem_budget = -1;
        wisp_report_free(r);
        wisp_config_free(c);
        CHECK(wisp_mem_live == live, "after %ld: %ld blocks lost", n, wisp_mem_live - live);
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM, "after %ld: %d '%s'", n, st, err.text);
        CHECK(train(NULL, ctx, again, d, NULL, NULL) == WISP_OK, "after %ld: %s", n, err.text);
        CHECK(file_is(model, whole), "after %ld it differs", n);
        CHECK(n_files() == 1, "after %ld: %zu files", n, n_files());
    }
    CHECK(n > 50 && file_is(model, whole), "%ld allocations", n);
}

static void test_memory_resume(void)
{
    wisp_data *d = synth(150, 60, 20, false);
    TEST("memory: a run with checkpoints, and one that is resumed");
    unlink(model);
    CHECK(train(NULL, ctx, CHECKPOINTS, d, NULL, NULL) == WISP_OK, "%s", err.text);
    struct bytes whole = slurp(model);
    fail_resume(d, false, whole);
    fail_resume(d, true, whole);
    free(whole.p);
    wisp_data_free(d);
}

static void test_memory(void)
{
    static const char old[] = "an older model";
    struct bytes none = { 0 };
    put_file(text_file, "4 6 3\n0,1 0:1 3:2\n2 1:1\n 5:1 2:3\n1 0:2\n");
    put_file(model, old);
    fail_config = config("format xc cache -");
    fail_each("memory: opening a data file", do_open, none);
    set(fail_config, "cache", "");
    fail_each("memory: opening a data file into a cache", do_open_anew, none);
    CHECK(access(cache, F_OK) == 0, "there is no cache");
    fail_each("memory: opening a cache", do_open, none);
    wisp_config_free(fail_config);

    fail_data = words();
    fail_config = config("batch 2 holdout 0.4 values tfidf hidden 5 average 1 seed 3");
    CHECK(do_train() == WISP_OK, "%s", err.text);
    double p1 = -1;
    CHECK(out_report && wisp_report_get(out_report, "valid_p@1", &p1) && p1 >= 0, "none held out");
    forget();
    struct bytes trained = slurp(model);
    put_file(model, old);
    fail_each("memory: training", do_train, trained);
    CHECK(file_is(model, trained), "trained after failures it differs");
    fail_each("memory: loading a model", do_load, none);
    CHECK(wisp_model_load(&fail_model, model, &err) == WISP_OK, "%s", err.text);
    fail_each("memory: predicting", do_predict, none);
    fail_each("memory: evaluating", do_eval, none);
    wisp_model_free(fail_model);
    fail_model = hand_made(fail_data);
    fail_each("memory: saving a model", do_save, none);
    wisp_model_free(fail_model);
    wisp_data_free(fail_data);
    wisp_config_free(fail_config);
    free(trained.p);
    unlink(cache);
}

int main(void)
{
    rig_init();
    wisp_cache_min = 0;
    snprintf(text_file, sizeof text_file, "%s/rows.txt", folder);
    snprintf(cache, sizeof cache, "%s.wispcache", text_file);
    test_threads();
    test_numeric();
    test_progress();
    test_validation();
    test_toy();
    test_refused();
    test_resume("epochs 4 input-dropout 0.2 dropout 0.1 average 0.6 batch 24");
    test_resume("epochs 4 batch 24 moments bf16");
    test_resume("epochs 4 batch 24 moments bf16 rows bf16");
    test_resume("epochs 4 batch 24 moments bf16 optimizer sgd lr 0.5 average 0.6");
    test_memory();
    unlink(text_file);
    test_memory_resume();
    return rig_end();
}
