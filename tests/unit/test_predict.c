/* Predictors: the answers of a plain program in double precision, whatever the batch, and no memory
 * taken by a call; settings of their own; the limits and the benchmark of prediction. */
#include "model_rig.h"
#include "api/limits.h"

#include <math.h>
#include <pthread.h>

enum { FEATURES = 90, LABELS = 700, N = 600, K = 5, WIDTH = 8 };

/* A feature below 60 stands for a few labels, the others for none; row 3 of ten has no feature. */
static wisp_data *planted(size_t n, size_t extra)
{
    int64_t *xp = calloc(n + 1, 8), *yp = calloc(n + 1, 8);
    int32_t *xi = calloc(n * 4 + extra, 4), *yi = calloc(n, 4);
    float *xv = calloc(n * 4 + extra, 4);
    wisp_data *d = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t f = test_rand(&seed) % 60, x = (size_t)xp[i];
        for (size_t k = 0; i % 10 != 3 && k < 1 + i % 4; k++) {
            xi[x] = (int32_t)(k ? 60 + test_rand(&seed) % 30 : f);
            xv[x++] = 0.5f + fabsf(test_randf(&seed));
        }
        for (size_t k = 0; i == 0 && k < extra; k++) xi[x] = (int32_t)(FEATURES + k), xv[x++] = 1;
        yi[i] = (int32_t)((f * 11 + test_rand(&seed) % 3) % LABELS);
        xp[i + 1] = (int64_t)x, yp[i + 1] = (int64_t)i + 1;
    }
    CHECK(wisp_data_from_csr(&d, n, FEATURES + extra, LABELS, xp, xi, xv, yp, yi, &err) == WISP_OK,
          "%s", err.text);
    free(xp), free(yp), free(xi), free(yi), free(xv);
    return d;
}

/* Its scores are raw: what the plain program computes. */
static wisp_predictor *predictor(wisp_context *with, const struct wisp_model *m, const char *how,
                                 size_t k)
{
    char settings[60];
    snprintf(settings, sizeof settings, "inference %s scores raw", how);
    wisp_predictor *p = predictor_so(with, m, k, settings);
    CHECK(p, "%s", err.text);
    if (!p) abort();
    return p;
}

struct answers {
    int32_t label[N * K];
    float score[N * K];
};

/* All rows by calls of 'batch' rows each, without an allocation. */
static void ask(struct answers *a, wisp_predictor *p, const wisp_data *d, size_t batch)
{
    memset(a, 0x7f, sizeof *a);
    wisp_mem_budget = 0;
    for (size_t at = 0; at < d->n_rows; at += batch) {
        size_t n = d->n_rows - at < batch ? d->n_rows - at : batch;
        CHECK(wisp_predictor_run(a->label + at * K, a->score + at * K, p, d, at, n, &err) ==
                  WISP_OK,
              "calls of %zu rows: %s", batch, err.text);
    }
    wisp_mem_budget = -1;
}

/* ---- in double precision ---- */

/* Logits of all labels of a row, by the definition of the net "input 8, relu". */
static void logits(double *z, const struct wisp_model *m, const wisp_data *d, size_t row)
{
    const struct wisp_param *in = m->net.layers[0].params;
    const struct wisp_param *out = wisp_net_output(&m->net)->params;
    double h[WIDTH], length = 0;
    size_t at;
    const struct wisp_rows *r = wisp_data_row(d, row, &at);
    for (uint32_t e = r->xp[at]; e < r->xp[at + 1]; e++) length += (double)r->xv[e] * r->xv[e];
    for (size_t j = 0; j < WIDTH; j++) {
        h[j] = in[1].w[j];
        for (uint32_t e = r->xp[at]; e < r->xp[at + 1]; e++)
            h[j] += r->xv[e] / sqrt(length) * in[0].w[(size_t)r->xi[e] * WIDTH + j];
        if (h[j] < 0) h[j] = 0;
    }
    for (size_t l = 0; l < LABELS; l++) {
        z[l] = out[1].w[l];
        for (size_t j = 0; j < WIDTH; j++) z[l] += h[j] * out[0].w[l * WIDTH + j];
    }
}

/* Are these the k best of all labels, with their softmax? */
static void check_exact(const struct wisp_model *m, const wisp_data *d, const struct answers *a)
{
    for (size_t i = 0; i < N && !test_bad; i++) {
        static double z[LABELS];
        double sum = 0, last = INFINITY;
        size_t above = 0;
        logits(z, m, d, i);
        for (size_t l = 0; l < LABELS; l++) sum += exp(z[l]);
        for (size_t c = 0; c < K; c++) {
            int32_t l = a->label[i * K + c];
            CHECK(l >= 0 && l < LABELS, "row %zu, place %zu: label %d", i, c, l);
            if (test_bad) return;
            double want = exp(z[l]) / sum;
            CHECK(fabs(a->score[i * K + c] - want) < 1e-5 * want && z[l] < last + 1e-5,
                  "row %zu, label %d: %g, not %g", i, l, (double)a->score[i * K + c], want);
            last = z[l];
        }
        for (size_t l = 0; l < LABELS; l++) above += z[l] > last + 1e-5;
        CHECK(above < K, "row %zu: %zu labels are better than the last", i, above);
    }
}

/* A label that votes name has its exact score as a share of the rows that were scored: ratios of
 * scores are those of all labels. */
static void check_sparse(const struct wisp_model *m, const wisp_data *d, const struct answers *a)
{
    for (size_t i = 0; i < N && !test_bad; i++) {
        static double z[LABELS];
        logits(z, m, d, i);
        const int32_t *l = a->label + i * K;
        for (size_t c = 0; c < K && !test_bad; c++) {
            CHECK(l[c] >= 0 && l[c] < LABELS, "row %zu, place %zu: label %d", i, c, l[c]);
            if (test_bad) return;
            double want = exp(z[l[c]] - z[l[0]]) * a->score[i * K];
            CHECK(fabs(a->score[i * K + c] - want) < 1e-5 * want, "row %zu, label %d: %g, not %g",
                  i, l[c], (double)a->score[i * K + c], want);
        }
    }
}

/* The answers of calls for one row: the same up to rounding. */
static bool near(const struct answers *a, const struct answers *b)
{
    bool good = true;
    for (size_t i = 0; i < (size_t)N * K && good; i++) {
        float x = a->score[i], y = b->score[i];
        good = fabsf(x - y) <= 1e-5f * (fabsf(x) + fabsf(y)) &&
               (a->label[i] == b->label[i] || fabsf(x - y) <= 1e-5f * y);
    }
    return good;
}

static void test_answers(void)
{
    static const size_t batches[] = { N, 1, 2, 7, 16, 17, 255, 256, 257, 599 };
    static struct answers first, a;
    wisp_data *d = planted(N, 0);
    struct wisp_model *m = rig_trained(d, "index yes epochs 6 lr 0.05");
    for (int way = 0; way < 2; way++) {
        const char *how = way ? "sparse" : "exact";
        TEST(way ? "sparse: any batch and number of threads the same bytes, nothing allocated"
                 : "exact: any batch and number of threads the same bytes, nothing allocated");
        for (int threads = 1; threads <= 3; threads += 2) {
            wisp_context *own;
            CHECK(wisp_context_create(&own, threads, &err) == WISP_OK, "%s", err.text);
            for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
                wisp_predictor *p =
                    predictor(own, m, how, K); /* its first call allocates nothing */
                ask(threads == 1 && b == 0 ? &first : &a, p, d, batches[b]);
                ask(&a, p, d, batches[b]); /* nor does any other */
                bool ones = batches[b] == 1 || N % batches[b] == 1;
                bool good = ones ? near(&a, &first) : memcmp(&a, &first, sizeof a) == 0;
                CHECK(good, "%d threads, calls of %zu rows", threads, batches[b]);
                wisp_predictor_free(p);
            }
            wisp_context_free(own);
        }
        if (way) check_sparse(m, d, &first);
        else check_exact(m, d, &first);
    }
    wisp_model_free(m);
    wisp_data_free(d);
}

/* ---- several predictors of a model ---- */

struct asker { /* a thread with a predictor and a context of its own */
    pthread_t thread;
    const char *how;
    bool raw;
    const wisp_data *d;
    wisp_context *ctx;
    wisp_predictor *p;
    struct answers alone, now;
    int n_other; /* runs that gave other answers, or failed */
};

static void *ask_often(void *arg)
{
    struct asker *t = arg;
    for (int i = 0; i < 20; i++) {
        memset(&t->now, 0x7f, sizeof t->now);
        wisp_status st = wisp_predictor_run(t->now.label, t->now.score, t->p, t->d, 0, N, NULL);
        t->n_other += st != WISP_OK || memcmp(&t->now, &t->alone, sizeof t->now) != 0;
    }
    return NULL;
}

static void test_settings(void)
{
    static struct asker t[] = { { .how = "inference exact scores raw", .raw = true },
                                { .how = "inference exact scores calibrated" },
                                { .how = "inference sparse scores raw", .raw = true },
                                { .how = "inference sparse scores calibrated" } };
    enum { N_ASKERS = sizeof t / sizeof *t };
    wisp_data *d = planted(N, 0);
    struct wisp_model *m = rig_trained(d, "index yes epochs 6 lr 0.05 holdout 0.4");
    TEST("settings: one model, four predictors, each in a thread, each with answers of its own");
    for (int i = 0; i < N_ASKERS; i++) {
        t[i].d = d;
        CHECK(wisp_context_create(&t[i].ctx, 1 + i % 2, &err) == WISP_OK, "%s", err.text);
        t[i].p = predictor_so(t[i].ctx, m, K, t[i].how);
        CHECK(t[i].p && wisp_predictor_calibrated(t[i].p) == !t[i].raw, "%s: %s", t[i].how,
              err.text);
        CHECK(predict_so(t[i].alone.label, t[i].alone.score, ctx, m, d, 0, N, K, t[i].how) ==
                  WISP_OK,
              "%s", err.text);
        for (int k = 0; k < i; k++)
            CHECK(memcmp(&t[i].alone, &t[k].alone, sizeof t[i].alone) != 0,
                  "%s, %s: the same answers", t[i].how, t[k].how);
    }
    for (int i = 0; i < N_ASKERS; i++)
        CHECK(pthread_create(&t[i].thread, NULL, ask_often, &t[i]) == 0, "no thread");
    for (int i = 0; i < N_ASKERS; i++) {
        pthread_join(t[i].thread, NULL);
        CHECK(t[i].n_other == 0, "%s: %d of 20 runs answer otherwise", t[i].how, t[i].n_other);
        wisp_predictor_free(t[i].p);
        wisp_context_free(t[i].ctx);
    }
    TEST("settings: without options exact and calibrated, as wisp_predict");
    static struct answers a;
    wisp_predictor *p = NULL;
    CHECK(wisp_predictor_create(&p, ctx, m, NULL, K, &err) == WISP_OK &&
              wisp_predictor_run(a.label, a.score, p, d, 0, N, &err) == WISP_OK &&
              memcmp(&a, &t[1].alone, sizeof a) == 0,
          "a predictor: %s", err.text);
    wisp_predictor_free(p);
    memset(&a, 0x7f, sizeof a);
    CHECK(wisp_predict(a.label, a.score, ctx, m, d, 0, N, K, &err) == WISP_OK &&
              memcmp(&a, &t[1].alone, sizeof a) == 0,
          "wisp_predict: %s", err.text);
    CHECK(wisp_predictor_check(m, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_model_free(m);
    wisp_data_free(d);
}

/* ---- the caller's rows ---- */

struct csr { /* the same rows in every type */
    int32_t p4[N + 1], i4[N * 4];
    int64_t p8[N + 1], i8[N * 4];
    float v4[N * 4];
    double v8[N * 4];
};

static void copy_rows(struct csr *x, const wisp_data *d)
{
    size_t n = 0, at;
    for (size_t row = 0; row < d->n_rows; row++) {
        const struct wisp_rows *r = wisp_data_row(d, row, &at);
        for (uint32_t e = r->xp[at]; e < r->xp[at + 1]; e++, n++) {
            x->i4[n] = r->xi[e], x->i8[n] = r->xi[e];
            x->v4[n] = r->xv[e], x->v8[n] = (double)r->xv[e];
        }
        x->p4[row + 1] = (int32_t)n, x->p8[row + 1] = (int64_t)n;
    }
}

static void test_csr(void)
{
    static struct answers first, a;
    static struct csr x;
    wisp_data *d = planted(N, 0);
    struct wisp_model *m = rig_trained(d, "index no");
    wisp_predictor *p = predictor(ctx, m, "exact", K);
    copy_rows(&x, d);
    ask(&first, p, d, N);
    TEST("rows in CSR order, of 32 and 64 bits: the answers of the set, nothing allocated");
    for (unsigned types = 0; types < 8; types++) {
        const void *xp = types & WISP_CSR_PTR64 ? (void *)x.p8 : x.p4,
                   *xi = types & WISP_CSR_IDS64 ? (void *)x.i8 : x.i4,
                   *xv = types & WISP_CSR_VALUES64 ? (void *)x.v8 : x.v4;
        memset(&a, 0x7f, sizeof a);
        wisp_mem_budget = 0;
        CHECK(wisp_predictor_run_csr(a.label, a.score, p, N, FEATURES, xp, xi, xv, types, &err) ==
                  WISP_OK,
              "types %u: %s", types, err.text);
        wisp_mem_budget = -1;
        CHECK(memcmp(&a, &first, sizeof a) == 0, "types %u: other answers", types);
    }
    CHECK(wisp_predictor_run_csr(a.label, a.score, p, 1, FEATURES, x.p4 + 400, x.i4, x.v4, 0,
                                 &err) == WISP_OK &&
              fabsf(a.score[0] - first.score[(size_t)400 * K]) < 1e-5f &&
              a.label[0] == first.label[(size_t)400 * K],
          "one row: %s", err.text);
    TEST("rows in CSR order that are refused: the number of the row is that of the call");
    const size_t e = (size_t)x.p4[300]; /* the first feature of row 300, which has one */
    const float value = x.v4[e];
    const int32_t id = x.i4[e];
    const struct {
        float value;
        int32_t id;
        wisp_status st;
        const char *text;
    } bad[] = {
        { NAN, id, WISP_ENUMERIC, "row 300: feature" },
        { 0, id, WISP_EFORMAT, "row 300: feature" },
        { value, FEATURES, WISP_EINVAL, "row 300: feature 90 is not in 0..89" },
        { value, -1, WISP_EINVAL, "row 300: feature -1 is not in 0..89" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        x.v4[e] = bad[i].value, x.i4[e] = bad[i].id;
        CHECK(wisp_predictor_run_csr(a.label, a.score, p, N, FEATURES, x.p4, x.i4, x.v4, 0, &err) ==
                      bad[i].st &&
                  strncmp(err.text, bad[i].text, strlen(bad[i].text)) == 0,
              "%zu: %d, %s", i, err.code, err.text);
    }
    x.v4[e] = value, x.i4[e] = id;
    x.p4[301] = x.p4[300] - 1;
    CHECK(wisp_predictor_run_csr(a.label, a.score, p, N, FEATURES, x.p4, x.i4, x.v4, 0, &err) ==
                  WISP_EINVAL &&
              strstr(err.text, "row 300: offsets must not fall"),
          "%s", err.text);
    wisp_model_free(m); /* in this order, too: freeing a predictor does not read its model (ASan) */
    wisp_predictor_free(p);
    wisp_data_free(d);
}

/* ---- growing, failing ---- */

static void test_long_rows(void)
{
    enum { LONG = 100000 };
    wisp_data *d = planted(20, LONG);
    struct wisp_model *m = rig_trained(d, "index yes");
    wisp_predictor *p = predictor(ctx, m, "sparse", K);
    static int32_t label[20 * K], again[20 * K];
    static float score[20 * K];
    TEST("a row of 100,000 features: refused without memory, then answered; later calls take none");
    long live = wisp_mem_live;
    wisp_mem_budget = 0;
    wisp_status st = wisp_predictor_run(label, score, p, d, 0, 1, &err);
    CHECK(st == WISP_ENOMEM, "%d", st);
    CHECK(wisp_mem_live <= live, "%ld blocks more", (long)wisp_mem_live - live);
    wisp_mem_budget = -1;
    CHECK(wisp_predictor_run(label, score, p, d, 0, 20, &err) == WISP_OK, "%s", err.text);
    wisp_mem_budget = 0;
    for (size_t i = 0; i < 20; i++)
        CHECK(wisp_predictor_run(again + i * K, score, p, d, i, 1, &err) == WISP_OK, "%s",
              err.text);
    wisp_mem_budget = -1;
    CHECK(memcmp(label, again, sizeof label) == 0, "other answers");
    wisp_predictor_free(p);
    wisp_model_free(m);
    wisp_data_free(d);
}

static void test_refused(void)
{
    wisp_data *d = planted(30, 0);
    struct wisp_model *m = rig_trained(d, "index no");
    wisp_predictor *p;
    int32_t label[LABELS + 9];
    float score[LABELS + 9];
    TEST("refused: k 0, rows that are not there; more than there are labels is fine");
    CHECK(wisp_predictor_create(&p, ctx, m, NULL, 0, &err) == WISP_EINVAL && !p, "k 0");
    wisp_predictor_free(NULL);
    p = predictor(ctx, m, "exact", LABELS + 9);
    CHECK(wisp_predictor_run(label, score, p, d, 30, 1, &err) == WISP_EINVAL &&
              strstr(err.text, "rows 30..31 asked for, the data has 30"),
          "%s", err.text);
    CHECK(wisp_predictor_run(label, score, p, d, 2, SIZE_MAX, &err) == WISP_EINVAL, "overflow");
    CHECK(wisp_predictor_run(NULL, NULL, p, d, 30, 0, &err) == WISP_OK, "no rows");
    CHECK(wisp_predictor_run(label, score, p, d, 29, 1, &err) == WISP_OK, "%s", err.text);
    for (size_t c = LABELS - 1; c < LABELS + 9; c++)
        CHECK((label[c] == -1 && score[c] == 0) == (c >= LABELS), "place %zu: %d", c, label[c]);
    wisp_predictor_free(p);
    TEST("a device: cpu, cuda where there is a card; sparse prediction only on the cpu");
    wisp_config *cuda = config("device cuda");
    wisp_status card = wisp_predictor_check(m, cuda, &err);
    CHECK(card == WISP_OK ||
              (card == WISP_ENOTSUP && strncmp(err.text, "--device cuda: ", 15) == 0),
          "%d, %s", card, err.text);
    CHECK(wisp_predictor_create(&p, ctx, m, cuda, K, &err) == card && !p == (card != WISP_OK), "%s",
          err.text);
    wisp_predictor_free(p);
    wisp_config_free(cuda);
    TEST("each failing allocation of a predictor");
    wisp_model_free(m);
    m = rig_trained(d, "index yes");
    p = predictor_so(ctx, m, K, "inference sparse device cuda");
    CHECK(!p && err.code == WISP_ENOTSUP, "sparse prediction on a card: %s", err.text);
    for (int way = 0; way < 2; way++) {
        wisp_config *c = config(way ? "inference sparse" : "");
        long live = wisp_mem_live, n = 0;
        for (;; n++) {
            wisp_mem_budget = n;
            wisp_status st = wisp_predictor_create(&p, ctx, m, c, K, &err);
            wisp_mem_budget = -1;
            if (st == WISP_OK) break;
            CHECK(st == WISP_ENOMEM && !p && wisp_mem_live == live, "after %ld: %s", n, err.text);
        }
        CHECK(n > 10, "%ld allocations", n);
        wisp_predictor_free(p);
        wisp_config_free(c);
    }
    wisp_model_free(m);
    wisp_data_free(d);
}

/* ---- measuring ---- */

static void test_limits(void)
{
    TEST("limits: numbers above 0, nothing left; 0 without memory");
    long live = wisp_mem_live;
    double copy = wisp_limit_copy(ctx->pool, 0), flops = wisp_limit_flops(ctx, false, 0);
    CHECK(copy > 1e7 && copy < 1e14, "%g bytes/s", copy);
    CHECK(flops > 1e6 && flops < 1e16, "%g flops", flops);
    if (ctx->k->fast16) CHECK(wisp_limit_flops(ctx, true, 0) > 1e6, "bf16");
    for (long n = 0; n < 2; n++) {
        wisp_mem_budget = n;
        CHECK(wisp_limit_copy(ctx->pool, 0) == 0, "with %ld allocations", n);
        if (n == 0) CHECK(wisp_limit_flops(ctx, false, 0) == 0, "without memory");
        wisp_mem_budget = -1;
    }
    CHECK(wisp_mem_live == live, "%ld blocks", (long)wisp_mem_live - live);
}

static void test_bench(void)
{
    wisp_config *c = config("shape 60x40x30 test-rows 9 row-features 5 seconds 0.0001");
    wisp_report *r = NULL;
    TEST("bench: each failing allocation");
    long live = wisp_mem_live, n = 0;
    for (;; n++) {
        wisp_mem_budget = n;
        wisp_status st = wisp_bench_predict(&r, ctx, c, NULL, NULL, NULL, NULL, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && !r && wisp_mem_live == live, "after %ld: %d, %s, %ld blocks", n,
              st, err.text, (long)wisp_mem_live - live);
    }
    CHECK(n > 100, "%ld allocations", n);
    wisp_report_free(r);
    wisp_config_free(c);
}

int main(void)
{
    rig_init();
    test_answers();
    test_settings();
    test_csr();
    test_long_rows();
    test_refused();
    test_limits();
    test_bench();
    return rig_end();
}
