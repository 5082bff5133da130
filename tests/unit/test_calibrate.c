/* Calibration: expected calibration error by a plain computation; a fit that finds what was
 * planted, is the minimum, keeps the order and leaves few rows alone; a model's calibration through
 * training, file, prediction (exact, sparse, quantized), and the same bytes for any threads. */
#include "model_rig.h"

#include <float.h>
#include <math.h>

static double unit(void)
{
    return (double)(test_rand(&seed) >> 11) * 0x1p-53;
}

/* ---- metrics of scores ---- */

/* By the definition: predictions sorted into bins one bin at a time. */
static double plain_ece(const double *p, const bool *hit, size_t n)
{
    double gap = 0;
    for (int b = 0; b < 15; b++) {
        double sum = 0, hits = 0, low = b / 15.0, high = (b + 1) / 15.0;
        for (size_t i = 0; i < n; i++)
            if (p[i] >= low && (p[i] < high || b == 14)) sum += p[i], hits += hit[i];
        gap += fabs(sum - hits);
    }
    return 100 * gap / (double)n;
}

static void test_reliability(void)
{
    enum { PAIRS = 5000 };
    static double p[PAIRS];
    static bool hit[PAIRS];
    struct wisp_reliability r = { 0 };
    TEST("scores: nothing counted is 0");
    CHECK(wisp_reliability_ece(&r) == 0 && wisp_reliability_f1(&r, 0) == 0 &&
              wisp_reliability_precision(&r) == 0 && wisp_reliability_recall(&r, 0) == 0,
          "not 0");
    TEST("scores: four by hand");
    wisp_reliability_add(&r, 1, true);
    wisp_reliability_add(&r, 0.5, false);
    wisp_reliability_add(&r, 0.49, true);
    wisp_reliability_add(&r, 0, false);
    /* 0.49 and 0.5 share a bin: |0.99 - 1| */
    CHECK(fabs(wisp_reliability_ece(&r) - 100 * 0.01 / 4) < 1e-9, "%g", wisp_reliability_ece(&r));
    CHECK(wisp_reliability_precision(&r) == 50 && wisp_reliability_recall(&r, 4) == 25 &&
              fabs(wisp_reliability_f1(&r, 4) - 100 / 3.0) < 1e-9,
          "%g, %g, %g", wisp_reliability_precision(&r), wisp_reliability_recall(&r, 4),
          wisp_reliability_f1(&r, 4));
    TEST("scores: random ones as the plain computation says");
    r = (struct wisp_reliability){ 0 };
    for (size_t i = 0; i < PAIRS; i++) {
        p[i] = unit() * unit();
        hit[i] = unit() < p[i] / 2;
        wisp_reliability_add(&r, p[i], hit[i]);
    }
    double want = plain_ece(p, hit, PAIRS);
    CHECK(fabs(wisp_reliability_ece(&r) - want) < 1e-9 && want > 10, "%.12g, not %.12g",
          wisp_reliability_ece(&r), want);
    TEST("truth: found where it is");
    static const int32_t truth[] = { 2, 5, 9 };
    CHECK(wisp_is_true(5, truth, 3) && wisp_is_true(9, truth, 3) && !wisp_is_true(4, truth, 3) &&
              !wisp_is_true(2, NULL, 0),
          "not so");
}

/* ---- fitting ---- */

/* Rows of five falling scores; a label applies with the probability that 'planted' makes of its
 * score. */
static void plant(struct wisp_pairs *p, size_t n_rows, const struct wisp_calibration *planted)
{
    for (size_t i = 0; i < n_rows; i++) {
        int32_t label[5], truth[5];
        float score[5], s = (float)unit();
        size_t n_truth = 0;
        for (int c = 0; c < 5; c++, s *= (float)unit()) {
            label[c] = c, score[c] = s;
            if (unit() < wisp_calibrated(planted, s, score[0])) truth[n_truth++] = c;
        }
        wisp_pairs_add(p, label, score, 5, truth, n_truth);
    }
}

static struct wisp_calibration fit(size_t n_rows, const struct wisp_calibration *planted)
{
    struct wisp_pairs p;
    struct wisp_calibration c;
    CHECK(wisp_pairs_init(&p, n_rows * 5, &err) == WISP_OK, "%s", err.text);
    plant(&p, n_rows, planted);
    wisp_calibration_fit(&c, &p);
    CHECK(wisp_calibration_ok(&c), "a fit of %zu rows is not one that may be", n_rows);
    wisp_pairs_clear(&p);
    return c;
}

static const struct wisp_calibration raw = { .w = { 1, 1, 0, 0 } };

static void test_fit(void)
{
    static const struct wisp_calibration planted[] = {
        { .w = { 0.5f, 0.5f, 0, 0 } },         /* too sure */
        { .w = { 1, 1, 2.5f, 0 } },            /* too low, as a softmax over several labels */
        { .w = { 1.5f, 0.3f, -0.7f, -0.4f } }, /* all at once */
        { .w = { 0.8f, 0, 1, 0.5f } },         /* at the border */
    };
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        struct wisp_calibration c = fit(8192, &planted[i]);
        TEST("fit: what was planted is found, and the error is gone");
        for (int k = 0; k < 4; k++)
            CHECK(fabsf(c.w[k] - planted[i].w[k]) < 0.15f, "case %zu, weight %d: %g, not %g", i, k,
                  c.w[k], planted[i].w[k]);
        CHECK(c.ece_raw > 3 && c.ece < 1, "case %zu: %g, from %g", i, c.ece, c.ece_raw);
    }
    TEST("fit: scores that are right stay about so");
    struct wisp_calibration c = fit(8192, &raw);
    for (int k = 0; k < 4; k++) CHECK(fabsf(c.w[k] - raw.w[k]) < 0.15f, "weight %d: %g", k, c.w[k]);
    TEST("fit: scores that say the opposite lose their weight, not their sign");
    static const struct wisp_calibration turned = { .w = { -1, -1, 0, 0 } };
    c = fit(2000, &turned);
    CHECK(c.w[0] == 0 && c.w[1] == 0, "%g, %g", c.w[0], c.w[1]);
    TEST("fit: few rows change little, or nothing where that predicts others better");
    size_t kept = 0;
    for (size_t n = 20; n <= 160; n *= 2) {
        double off = 0;
        for (int k = 0; k < 20; k++) {
            c = fit(n, &raw);
            kept += wisp_calibration_is_raw(&c) && c.ece == c.ece_raw;
            for (float p = 0.05f; p < 1; p += 0.1f)
                off = fmax(off, fabs(wisp_calibrated(&c, p, p) - p));
        }
        CHECK(off < 0.35, "%zu rows: by %g", n, off);
    }
    CHECK(kept > 20 && kept < 80, "%zu of 80 stay raw", kept);
}

static void test_minimum(void)
{
    enum { ROWS = 300 };
    static const struct wisp_calibration planted = { .w = { 0.6f, 1.4f, 0.8f, -0.3f } };
    struct wisp_pairs p;
    struct wisp_calibration c;
    int32_t label[ROWS][5];
    float score[ROWS][5];
    bool hit[ROWS][5];
    TEST("fit: no weights near have a lower loss, as the plain formula has it");
    CHECK(wisp_pairs_init(&p, ROWS * 5, &err) == WISP_OK, "%s", err.text);
    for (size_t i = 0; i < ROWS; i++) {
        int32_t truth[5];
        size_t n = 0;
        for (int k = 0; k < 5; k++) {
            label[i][k] = k;
            score[i][k] = (float)((k ? score[i][k - 1] : 1) * unit());
            hit[i][k] = unit() < wisp_calibrated(&planted, score[i][k], score[i][0]);
            if (hit[i][k]) truth[n++] = k;
        }
        wisp_pairs_add(&p, label[i], score[i], 5, truth, n);
    }
    wisp_calibration_fit(&c, &p);
    wisp_pairs_clear(&p);
    double least = 0;
    for (int at = 0; at < 9; at++) { /* the weights, then each one a little off, both ways */
        double w[4], loss = 0;
        for (int k = 0; k < 4; k++)
            w[k] = c.w[k] + (at - 1 == 2 * k) * 1e-3 - (at - 2 == 2 * k) * 1e-3;
        for (int k = 0; k < 4; k++) loss += 1.5 * (w[k] - raw.w[k]) * (w[k] - raw.w[k]);
        for (size_t i = 0; i < ROWS * 5; i++) {
            double s = score[i / 5][i % 5], best = score[i / 5][0];
            double odds = pow(s, w[0]) * pow(1 - s, -w[1]) * exp(w[2]) * pow(best, w[3]);
            loss -= log(hit[i / 5][i % 5] ? odds / (1 + odds) : 1 / (1 + odds));
        }
        if (at == 0) least = loss;
        else CHECK(loss > least, "%d: %.12g, not above %.12g", at, loss, least);
    }
}

static void test_edges(void)
{
    struct wisp_pairs p;
    struct wisp_calibration c;
    int32_t label[3] = { 4, 7, -1 };
    float score[3] = { 1, 0, 0.5f };
    TEST("fit: no pairs, too few rows: raw");
    CHECK(wisp_pairs_init(&p, 10000, &err) == WISP_OK, "%s", err.text);
    for (size_t n = 0; n < WISP_CALIBRATION_FEW; n++) {
        wisp_calibration_fit(&c, &p);
        CHECK(wisp_calibration_is_raw(&c) && c.ece == c.ece_raw, "%zu rows", n);
        wisp_pairs_add(&p, label, score, 3, label, 1);
    }
    CHECK(p.n == 2 * WISP_CALIBRATION_FEW, "%zu pairs: a label of -1 ends a row", p.n);
    for (int right = 0; right < 2; right++) {
        TEST(right ? "fit: all are true" : "fit: none is true");
        p.n = p.n_rows = 0;
        for (int i = 0; i < 500; i++) {
            score[0] = (float)unit(), score[1] = score[0] / 2;
            wisp_pairs_add(&p, label, score, 3, label, right ? 2 : 0);
        }
        wisp_calibration_fit(&c, &p);
        CHECK(wisp_calibration_ok(&c) && c.ece < c.ece_raw / 4, "%g, from %g", c.ece, c.ece_raw);
        float at = wisp_calibrated(&c, 0.5f, 0.5f);
        CHECK(right ? at > 0.9f : at < 0.1f, "0.5 becomes %g", at);
    }
    TEST("fit: pairs beyond the room are left out");
    p.n = p.n_rows = 0;
    p.room = 3;
    for (int i = 0; i < 5; i++) wisp_pairs_add(&p, label, score, 3, label, 2);
    CHECK(p.n == 3, "%zu", p.n);
    wisp_pairs_clear(&p);
    TEST("fit: no memory");
    wisp_mem_budget = 0;
    CHECK(wisp_pairs_init(&p, 10, &err) == WISP_ENOMEM && !p.seen, "%s", err.text);
    wisp_mem_budget = -1;
}

static void test_map(void)
{
    TEST("map: raw weights give the score back");
    for (float p = 0; p <= 1; p += 0.001f)
        CHECK(fabsf(wisp_calibrated(&raw, p, 0.9f) - p) < 1e-6f, "%g becomes %g", p,
              wisp_calibrated(&raw, p, 0.9f));
    TEST("map: any weights that may be: 0..1, finite, never against the order");
    for (int i = 0; i < 300; i++) {
        struct wisp_calibration c = { .w = { (float)(3 * unit()), (float)(3 * unit()),
                                             (float)(20 * unit() - 10), (float)(6 * unit() - 3) } };
        if (i % 7 == 0) c.w[i % 2] = 0;
        CHECK(wisp_calibration_ok(&c), "refused");
        float best = i % 3 ? (float)unit() : 1, p = best, was = 1;
        for (int k = 0; k < 60; k++, p *= k % 5 ? (float)unit() : 1 - FLT_EPSILON) {
            float q = wisp_calibrated(&c, k == 59 ? 0 : p, best);
            CHECK(q >= 0 && q <= was, "%g becomes %.9g, after %.9g", p, q, was);
            was = q;
        }
    }
    TEST("map: weights that may not be");
    for (int i = 0; i < 7; i++) {
        struct wisp_calibration c = raw;
        if (i < 2) c.w[i] = -0.001f;
        else if (i < 4) c.w[i] = i == 2 ? NAN : INFINITY;
        else if (i == 4) c.ece = 101;
        else if (i == 5) c.ece_raw = -1;
        else c.ece = NAN;
        CHECK(!wisp_calibration_ok(&c), "case %d", i);
    }
}

/* ---- models ---- */

enum { FEATURES = 60, LABELS = 40, ROWS = 900, K = 4 };

/* A feature stands for two labels, of which each applies by the toss of a coin. */
static wisp_data *coins(void)
{
    static int64_t xp[ROWS + 1], yp[ROWS + 1];
    static int32_t xi[2 * ROWS], yi[2 * ROWS];
    static float xv[2 * ROWS];
    wisp_data *d = NULL;
    for (size_t i = 0; i < ROWS; i++) {
        int32_t f = (int32_t)(test_rand(&seed) % 20);
        size_t x = (size_t)xp[i], y = (size_t)yp[i];
        xi[x] = f, xv[x++] = 1;
        xi[x] = (int32_t)(20 + test_rand(&seed) % 40), xv[x++] = 1;
        for (int32_t l = 2 * f; l < 2 * f + 2; l++)
            if (unit() < 0.6) yi[y++] = l;
        xp[i + 1] = (int64_t)x, yp[i + 1] = (int64_t)y;
    }
    CHECK(wisp_data_from_csr(&d, ROWS, FEATURES, LABELS, xp, xi, xv, yp, yi, &err) == WISP_OK, "%s",
          err.text);
    return d;
}

static struct wisp_model *load(const char *path)
{
    struct wisp_model *m = NULL;
    CHECK(wisp_model_load(&m, path, &err) == WISP_OK, "%s", err.text);
    if (!m) abort();
    return m;
}

static wisp_report *train(wisp_context *with, const wisp_data *d, const char *more)
{
    wisp_config *c = config(more);
    wisp_report *r = NULL;
    CHECK(wisp_train(&r, with, c, d, NULL, model, NULL, NULL, &err) == WISP_OK, "%s: %s", more,
          err.text);
    wisp_config_free(c);
    return r;
}

static double number(const wisp_report *r, const char *key)
{
    double v = NAN;
    CHECK(wisp_report_get(r, key, &v), "no %s", key);
    return v;
}

struct answers {
    int32_t label[ROWS * K];
    float score[ROWS * K];
};

/* Fills a; are the scores calibrated? */
static bool ask(struct answers *a, const struct wisp_model *m, const wisp_data *d, const char *how,
                const char *scores)
{
    char settings[60];
    snprintf(settings, sizeof settings, "inference %s scores %s", how, scores);
    wisp_predictor *p = predictor_so(ctx, m, K, settings);
    CHECK(p && wisp_predictor_run(a->label, a->score, p, d, 0, ROWS, &err) == WISP_OK, "%s",
          err.text);
    bool calibrated = p && wisp_predictor_calibrated(p);
    wisp_predictor_free(p);
    return calibrated;
}

/* Labels are the same, scores those of the map; the truth agrees with them. */
static void check_answers(struct wisp_model *m, const wisp_data *d, const char *how)
{
    static struct answers plain, mapped;
    struct wisp_reliability before = { 0 }, after = { 0 };
    CHECK(!ask(&plain, m, d, how, "raw"), "raw ones are calibrated");
    CHECK(ask(&mapped, m, d, how, "calibrated"), "%s: not calibrated", how);
    CHECK(memcmp(plain.label, mapped.label, sizeof plain.label) == 0, "%s: other labels", how);
    const struct wisp_calibration *c = m->calibration[strcmp(how, "sparse") == 0];
    for (size_t i = 0; i < ROWS * K; i++) {
        float want = wisp_calibrated(c, plain.score[i], plain.score[i / K * K]);
        CHECK(mapped.score[i] == want, "%s: %g becomes %g, not %g", how, plain.score[i],
              mapped.score[i], want);
        size_t at;
        const struct wisp_rows *r = wisp_data_row(d, i / K, &at);
        bool hit = wisp_is_true(plain.label[i], r->yi + r->yp[at], r->yp[at + 1] - r->yp[at]);
        wisp_reliability_add(&before, plain.score[i], hit);
        wisp_reliability_add(&after, mapped.score[i], hit);
    }
    CHECK(wisp_reliability_ece(&after) < 0.6 * wisp_reliability_ece(&before), "%s: %g, from %g",
          how, wisp_reliability_ece(&after), wisp_reliability_ece(&before));
}

/* Stops after the epoch that *arg counts down to. */
static int stop_after(void *arg, const wisp_progress *p)
{
    return p->epoch_ended && --*(int *)arg == 0;
}

static void test_resume(const wisp_data *d, const char *settings)
{
    static const char *const keys[] = { "valid_ece", "valid_ece_raw", "best_epoch", "valid_p@1" };
    wisp_report *whole = train(ctx, d, settings), *r = NULL;
    struct bytes want = slurp(model);
    wisp_config *c = config(settings);
    TEST("model: stopped after its best epoch and resumed: the same bytes, the same report");
    int left = (int)number(whole, "best_epoch") + 1;
    CHECK(left < 9 &&
              wisp_train(&r, ctx, c, d, NULL, model, stop_after, &left, &err) == WISP_ESTOPPED,
          "%d, %s", left, err.text);
    set(c, "resume", "1");
    CHECK(wisp_train(&r, ctx, c, d, NULL, model, NULL, NULL, &err) == WISP_OK, "%s", err.text);
    CHECK(file_is(model, want), "another model");
    for (size_t i = 0; r && i < sizeof keys / sizeof *keys; i++)
        CHECK(number(r, keys[i]) == number(whole, keys[i]), "%s: %g, not %g", keys[i],
              number(r, keys[i]), number(whole, keys[i]));
    wisp_report_free(r);
    wisp_report_free(whole);
    wisp_config_free(c);
    free(want.p);
}

static void test_model(void)
{
    static const char settings[] = "index yes epochs 6 lr 0.05 holdout 0.3";
    wisp_data *d = coins();
    wisp_report *r = train(ctx, d, settings);
    TEST("model: trained, its report says the error before and after");
    struct wisp_model *m = load(model);
    CHECK(m->calibration[0] && m->calibration[1], "a calibration is missing");
    CHECK(fabs(number(r, "valid_ece") - m->calibration[0]->ece) < 1e-6 &&
              fabs(number(r, "valid_ece_raw") - m->calibration[0]->ece_raw) < 1e-6 &&
              fabs(number(r, "valid_ece_sparse") - m->calibration[1]->ece) < 1e-6 &&
              number(r, "calibration_seconds") > 0,
          "%s", wisp_report_json(r));
    CHECK(number(r, "valid_ece") < number(r, "valid_ece_raw"), "%s", wisp_report_json(r));
    wisp_report_free(r);
    TEST("model: exact and sparse scores, each by its own map; the order stays");
    check_answers(m, d, "exact");
    check_answers(m, d, "sparse");
    TEST("model: a smaller one keeps it");
    CHECK(wisp_model_quantize(m, other, "int8", &err) == WISP_OK, "%s", err.text);
    struct wisp_model *small = load(other);
    CHECK(memcmp(small->fitted, m->fitted, sizeof m->fitted) == 0, "other numbers");
    check_answers(small, d, "exact");
    wisp_model_free(small);
    TEST("model: numbers that no fit gives are refused");
    m->fitted[1].w[1] = -1;
    CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_model_load(&small, other, &err) == WISP_EMODEL &&
              strstr(err.text, "'calibration.sparse' has numbers out of range"),
          "%s", err.text);
    wisp_model_free(m);
    TEST("model: the same bytes for any number of threads");
    struct bytes first = slurp(model);
    for (int threads = 1; threads <= 5; threads += 2) {
        wisp_context *own;
        CHECK(wisp_context_create(&own, threads, &err) == WISP_OK, "%s", err.text);
        wisp_report_free(train(own, d, settings));
        CHECK(file_is(model, first), "%d threads", threads);
        wisp_context_free(own);
    }
    free(first.p);
    test_resume(d, "epochs 9 lr 0.5 holdout 0.3 decay none"); /* such steps do not get better */
    TEST("model: no validation rows, no calibration");
    r = train(ctx, d, "index yes epochs 2 holdout 0");
    CHECK(number(r, "valid_ece_raw") == -1 && number(r, "valid_ece") == -1, "%s",
          wisp_report_json(r));
    wisp_report_free(r);
    m = load(model);
    static struct answers a, b;
    CHECK(!m->calibration[0] && !m->calibration[1] && !ask(&a, m, d, "exact", "calibrated"),
          "there is one");
    ask(&b, m, d, "exact", "raw");
    CHECK(memcmp(&a, &b, sizeof a) == 0, "other scores");
    wisp_model_free(m);
    TEST("model: a handful of validation rows, scores stay raw");
    r = train(ctx, d, "epochs 2 holdout 0.01");
    CHECK(number(r, "valid_ece_raw") == number(r, "valid_ece") && number(r, "valid_ece") >= 0, "%s",
          wisp_report_json(r));
    wisp_report_free(r);
    m = load(model);
    CHECK(m->calibration[0] && !ask(&a, m, d, "exact", "calibrated"), "calibrated");
    ask(&b, m, d, "exact", "raw");
    CHECK(memcmp(&a, &b, sizeof a) == 0, "other scores");
    wisp_model_free(m);
    wisp_data_free(d);
}

int main(void)
{
    rig_init();
    test_reliability();
    test_fit();
    test_minimum();
    test_edges();
    test_map();
    test_model();
    return rig_end();
}
