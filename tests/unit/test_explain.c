/* Explanations: parts, biases and remainder against finite differences and the definition of the
 * logit, of nets of every kind; scores; narrow weights; what cannot be explained. */
#include "model_rig.h"
#include "api/predictor.h"
#include "data/image.h"

#include <math.h>

enum { FEATURES = 24, LABELS = 7, ROWS = 6 };

/* A net with random weights over rows as they are. */
static struct wisp_model *random_model(const char *spec, const char *loss, size_t n_features,
                                       struct wisp_image image)
{
    struct wisp_model *m = wisp_zalloc(1, sizeof *m);
    struct wisp_layer_sizes sizes = {
        .batch = 16, .active = LABELS, .training = true, .image = wisp_image_shape(image)
    };
    static int64_t counts[LABELS];
    m->spec = wisp_strdup(spec);
    m->loss = wisp_loss_find(loss);
    m->values = (struct wisp_values){ .mode = WISP_VALUES_RAW };
    m->label_rows = counts;
    m->n_train = 10;
    CHECK(wisp_net_plan(&m->net, m->spec, n_features, LABELS, &sizes, &err) == WISP_OK &&
              wisp_net_alloc_params(&m->net, &err) == WISP_OK,
          "%s: %s", spec, err.text);
    wisp_net_init(&m->net, 5, NULL);
    for (size_t p = 0; p < m->net.list.n; p++) {
        struct wisp_param *q = &m->net.list.p[p];
        for (size_t i = 0; q->w && i < q->n; i++) q->w[i] = 0.4f * test_randf(&seed);
        for (size_t i = 0; q->role == WISP_STATE && i < q->n; i++)
            q->w[i] = 0.5f + fabsf(q->w[i]); /* variances, scales of pixels */
    }
    return m;
}

/* Rows of some features, the last of none. */
static wisp_data *random_rows(float values[ROWS][FEATURES])
{
    int64_t xp[ROWS + 1] = { 0 };
    int32_t xi[ROWS * FEATURES];
    float xv[ROWS * FEATURES];
    wisp_data *d = NULL;
    memset(values, 0, sizeof(float[ROWS][FEATURES]));
    for (size_t i = 0; i < ROWS; i++) {
        size_t at = (size_t)xp[i];
        for (int32_t f = 0; i + 1 < ROWS && f < FEATURES; f++) {
            if (test_rand(&seed) % 3) continue;
            xi[at] = f;
            xv[at++] = values[i][f] = 0.2f + 2 * test_randf(&seed);
        }
        xp[i + 1] = (int64_t)at;
    }
    CHECK(wisp_data_from_csr(&d, ROWS, FEATURES, LABELS, xp, xi, xv, NULL, NULL, &err) == WISP_OK,
          "%s", err.text);
    return d;
}

static wisp_data *row_of(const float *x, size_t n)
{
    int64_t xp[2] = { 0 };
    int32_t *xi = calloc(n, sizeof *xi);
    float *xv = calloc(n, sizeof *xv);
    wisp_data *d = NULL;
    for (size_t f = 0; f < n; f++)
        if (x[f] != 0) xi[xp[1]] = (int32_t)f, xv[xp[1]++] = x[f];
    CHECK(wisp_data_from_csr(&d, 1, n, LABELS, xp, xi, xv, NULL, NULL, &err) == WISP_OK, "%s",
          err.text);
    free(xi), free(xv);
    return d;
}

/* The logit of a row that the library did not see as a row of the test's data. */
static double logit_at(wisp_predictor *p, const float *x, size_t n, int32_t label)
{
    const wisp_explanation *e;
    wisp_data *d = row_of(x, n);
    CHECK(wisp_explain(&e, p, d, 0, label, &err) == WISP_OK, "%s", err.text);
    const double z = e ? e->logit : NAN;
    wisp_data_free(d);
    return z;
}

/* What the parts of an explanation come to, and to without their signs. */
static double sum_of(const wisp_explanation *e, double *mass)
{
    double sum = 0;
    *mass = fabs(e->bias);
    for (size_t i = 0; i < e->n; i++) {
        sum += e->reasons[i].part;
        *mass += fabs(e->reasons[i].part);
        if (i)
            CHECK(fabs(e->reasons[i].part) <= fabs(e->reasons[i - 1].part), "place %zu is larger",
                  i);
    }
    return sum;
}

/* One label of one row: sums, and each part by moving its value to both sides. */
static void check_label(wisp_predictor *p, const wisp_data *d, const float *x, size_t row,
                        int32_t label, bool linear, const char *spec)
{
    const wisp_explanation *e;
    wisp_reason reasons[FEATURES];
    double mass;
    CHECK(wisp_explain(&e, p, d, row, label, &err) == WISP_OK, "%s: %s", spec, err.text);
    if (!e) return;
    const double sum = sum_of(e, &mass);
    CHECK(e->label == label && fabs(sum + e->bias + e->remainder - e->logit) <= 1e-9 * (1 + mass),
          "%s: %g + %g + %g is not %g", spec, sum, e->bias, e->remainder, e->logit);
    if (linear)
        CHECK(fabs(e->remainder) <= 1e-5 * mass, "%s, row %zu: remainder %g of %g", spec, row,
              e->remainder, mass);
    const size_t n = e->n;
    memcpy(reasons, e->reasons, n * sizeof *reasons);
    for (size_t i = 0; i < n; i++) {
        float at[FEATURES];
        const int32_t f = reasons[i].feature;
        const float step = 1e-3f;
        CHECK(reasons[i].value == x[f] && x[f] != 0, "feature %d has %g, not %g", f,
              (double)reasons[i].value, (double)x[f]);
        memcpy(at, x, sizeof at);
        at[f] = x[f] + step;
        const double up = logit_at(p, at, FEATURES, label), higher = at[f];
        at[f] = x[f] - step;
        const double down = logit_at(p, at, FEATURES, label);
        const double want = x[f] * (up - down) / (higher - at[f]);
        CHECK(fabs(reasons[i].part - want) <= 0.004 * (fabs(want) + mass),
              "%s, row %zu, feature %d: %g, differences say %g", spec, row, f, reasons[i].part,
              want);
    }
}

static void check_net(const char *spec, bool linear)
{
    float x[ROWS][FEATURES];
    struct wisp_model *m = random_model(spec, "bce", FEATURES, (struct wisp_image){ 0 });
    wisp_data *d = random_rows(x);
    wisp_predictor *p = predictor_so(ctx, m, LABELS, "scores raw");
    CHECK(p, "%s: %s", spec, err.text);
    for (size_t i = 0; p && i < ROWS; i++)
        for (int32_t l = 0; l < LABELS; l += 3) check_label(p, d, x[i], i, l, linear, spec);
    wisp_predictor_free(p);
    wisp_data_free(d);
    wisp_model_free(m);
}

/* Scores of all labels are those of the predictor, by both losses, and so is the best label. */
static void check_scores(const char *loss)
{
    float x[ROWS][FEATURES];
    struct wisp_model *m = random_model("input 9, relu", loss, FEATURES, (struct wisp_image){ 0 });
    m->fitted[0] = (struct wisp_calibration){ .w = { 0.9f, 0.7f, -0.2f, 0.1f } };
    m->calibration[0] = &m->fitted[0];
    wisp_data *d = random_rows(x);
    for (int raw = 0; raw < 2; raw++) {
        wisp_predictor *p = predictor_so(ctx, m, LABELS, raw ? "scores raw" : "");
        wisp_predictor *one = predictor_so(ctx, m, 1, raw ? "scores raw" : "");
        for (size_t i = 0; i < ROWS; i++) {
            int32_t labels[LABELS];
            float scores[LABELS];
            const wisp_explanation *e;
            CHECK(wisp_predictor_run(labels, scores, p, d, i, 1, &err) == WISP_OK, "%s", err.text);
            for (size_t c = 0; c < LABELS; c++) {
                CHECK(wisp_explain(&e, one, d, i, labels[c], &err) == WISP_OK, "%s", err.text);
                CHECK(fabsf(e->score - scores[c]) <= 1e-5f * scores[c], "%s, row %zu: %g, not %g",
                      loss, i, (double)e->score, (double)scores[c]);
            }
            CHECK(wisp_explain(&e, one, d, i, -1, &err) == WISP_OK && e->label == labels[0],
                  "row %zu: the best label is %d", i, labels[0]);
        }
        wisp_predictor_free(p), wisp_predictor_free(one);
    }
    wisp_data_free(d);
    wisp_model_free(m);
}

/* Pixels of an image, by their differences, where a net has channels, pools and norms. */
static void check_image(const char *spec, bool linear)
{
    enum { SIDE = 6, PIXELS = 2 * SIDE * SIDE };
    float x[PIXELS], at[PIXELS];
    struct wisp_model *m =
        random_model(spec, "softmax", PIXELS, (struct wisp_image){ 2, SIDE, SIDE });
    wisp_data *d = NULL, *moved = NULL;
    const wisp_explanation *e;
    double mass;
    for (size_t i = 0; i < PIXELS; i++) x[i] = test_randf(&seed);
    CHECK(wisp_data_from_images(&d, 1, 2, SIDE, SIDE, x, 1, LABELS, NULL, NULL, &err) == WISP_OK,
          "%s", err.text);
    wisp_predictor *p = predictor_so(ctx, m, 2, "");
    CHECK(p && wisp_explain(&e, p, d, 0, 3, &err) == WISP_OK, "%s: %s", spec, err.text);
    CHECK(e->n == PIXELS && e->channels == 2 && e->height == SIDE && e->width == SIDE,
          "%zu pixels of %zu x %zu x %zu", e->n, e->channels, e->height, e->width);
    sum_of(e, &mass);
    if (linear) CHECK(fabs(e->remainder) <= 1e-5 * mass, "%s: remainder %g", spec, e->remainder);
    const size_t f = (size_t)e->reasons[1].feature;
    const double part = e->reasons[1].part, value = (double)e->reasons[1].value;
    const struct wisp_param *state = m->net.layers[0].params; /* mean, scale */
    const double scale = (double)state[1].w[f / (SIDE * SIDE)];
    CHECK(fabs(value - ((double)x[f] - (double)state[0].w[f / (SIDE * SIDE)]) * scale) < 1e-5,
          "the value of pixel %zu is %g", f, value);
    double z[2];
    for (int side = 0; side < 2; side++) {
        memcpy(at, x, sizeof at);
        at[f] += side ? 1e-3f : -1e-3f;
        CHECK(wisp_data_from_images(&moved, 1, 2, SIDE, SIDE, at, 1, LABELS, NULL, NULL, &err) ==
                      WISP_OK &&
                  wisp_explain(&e, p, moved, 0, 3, &err) == WISP_OK,
              "%s", err.text);
        z[side] = e->logit;
        wisp_data_free(moved);
    }
    const double want = value * (z[1] - z[0]) / (2e-3 * scale);
    CHECK(fabs(part - want) <= 0.01 * (fabs(want) + fabs(part)), "%s: pixel %zu: %g, not %g", spec,
          f, part, want);
    wisp_predictor_free(p);
    wisp_data_free(d);
    wisp_model_free(m);
}

/* From a file, with weights of every type: the same sums, and no bytes more than the row needs. */
static void check_narrow(const char *type)
{
    wisp_data *d = words();
    struct wisp_model *m = hand_made(d), *n = NULL;
    CHECK(wisp_model_save(m, model, 0, 1, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_model_free(m);
    CHECK(wisp_model_load(&m, model, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_model_quantize(m, other, type, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_model_load(&n, other, &err) == WISP_OK, "%s", err.text);
    wisp_predictor *p = predictor_so(ctx, n, 3, "");
    for (size_t i = 0; p && i < d->n_rows; i++) {
        const wisp_explanation *e;
        double mass;
        CHECK(wisp_explain(&e, p, d, i, -1, &err) == WISP_OK, "%s", err.text);
        sum_of(e, &mass);
        CHECK(fabs(e->remainder) <= 1e-5 * mass, "%s, row %zu: remainder %g of %g", type, i,
              e->remainder, mass);
    }
    wisp_predictor_free(p);
    wisp_model_free(m), wisp_model_free(n);
    wisp_data_free(d);
}

static void set_weights(struct wisp_model *m, float first, float others)
{
    for (size_t i = 0; i < m->net.list.n; i++) {
        struct wisp_param *q = &m->net.list.p[i];
        const float w = strstr(q->name, "bias") ? 0 : q->layer ? others : first;
        for (size_t k = 0; k < q->n; k++) q->w[k] = w;
    }
}

/* The score, 1e-25 times 1e30 times 1e30, is a number; the way back multiplies 1e30 by 1e30 first. */
static void check_overflow(void)
{
    const wisp_explanation *e = NULL;
    struct wisp_model *m = random_model("input 1, dense 1", "bce", 2, (struct wisp_image){ 0 });
    wisp_predictor *p = predictor_so(ctx, m, 1, "");
    wisp_data *d = row_of((float[]){ 1, 0 }, 2);
    set_weights(m, 1e-25f, 1e30f);
    CHECK(wisp_explain(&e, p, d, 0, 0, &err) == WISP_ENUMERIC && !e && strstr(err.text, "parts of"),
          "%s", e ? "explained" : err.text);
    set_weights(m, 1e-25f, 1e10f);
    CHECK(wisp_explain(&e, p, d, 0, 0, &err) == WISP_OK && fabs(e->logit - 1e-5) < 1e-10, "%s",
          err.text);
    CHECK(e && e->n == 1 && fabs(e->reasons[0].part - 1e-5) < 1e-10, "what the refused one left");
    wisp_predictor_free(p);
    wisp_model_free(m);
    wisp_data_free(d);
}

static void check_refusals(void)
{
    float x[ROWS][FEATURES];
    wisp_data *d = random_rows(x);
    const wisp_explanation *e = NULL;
    struct wisp_model *m = random_model("input 5, relu", "bce", FEATURES, (struct wisp_image){ 0 });
    wisp_predictor *p = predictor_so(ctx, m, 3, "");
    CHECK(wisp_explain(&e, p, d, ROWS, 0, &err) == WISP_EINVAL && !e && strstr(err.text, "row 6"),
          "%s", err.text);
    CHECK(wisp_explain(&e, p, d, 0, LABELS, &err) == WISP_EINVAL && strstr(err.text, "label 7"),
          "%s", err.text);
    CHECK(wisp_explain(&e, p, d, 0, -2, &err) == WISP_EINVAL, "%s", err.text);
    wisp_predictor_free(p);
    wisp_model_free(m);
    /* of a graph it is not known which weights belong to which feature, behind other layers it is */
    put_file(other, "input a b\nnode c tanh 0.1\na c 0.5\nb c 0.7\noutput c\n");
    char spec[100];
    snprintf(spec, sizeof spec, "dag file=%s, relu", other);
    m = random_model(spec, "bce", 2, (struct wisp_image){ 0 });
    wisp_data *two = row_of((float[]){ 1, 2 }, 2);
    p = predictor_so(ctx, m, 3, "");
    CHECK(wisp_explain(&e, p, two, 0, 0, &err) == WISP_ENOTSUP && strstr(err.text, "'dag'"), "%s",
          err.text);
    wisp_data_free(two);
    wisp_predictor_free(p);
    wisp_model_free(m);
    snprintf(spec, sizeof spec, "input 2, dag file=%s", other);
    check_net(spec, false);
    for (long n = 0;; n++) { /* the n-th allocation of the first explanation fails */
        m = random_model("input 5, relu", "bce", FEATURES, (struct wisp_image){ 0 });
        p = predictor_so(ctx, m, 3, "");
        wisp_mem_budget = n;
        const wisp_status st = wisp_explain(&e, p, d, 0, 0, &err);
        wisp_mem_budget = -1;
        CHECK(st == WISP_OK || (st == WISP_ENOMEM && !e), "after %ld: %s", n, err.text);
        wisp_predictor_free(p);
        wisp_model_free(m);
        if (st != WISP_ENOMEM) break;
    }
    wisp_data_free(d);
}

int main(void)
{
    rig_init();
    static const struct {
        const char *spec;
        bool linear; /* around a row */
    } nets[] = {
        { "input 9", true },
        { "input 9, relu", true },
        { "input 11, relu, dropout 0.3, dense 6, relu, dense 5, relu", true },
        { "input 16, relu, sampled 40, relu, dense 5", true },
        { "sparse random 16 4, relu, dense 5, relu", true },
        { "input 8 as a, relu as b, dense 8, add b, relu, concat a", true },
        { "input 6, relu as a, from rows, sparse random 9 3, relu, concat a, dense 5, relu", true },
        { "input 9, bn, relu, dense 6, bn, relu", true },
        { "input 9, clip 0.5, dense 5", false },
    };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        TEST(nets[i].spec);
        check_net(nets[i].spec, nets[i].linear);
    }
    TEST("scores are the predictor's");
    check_scores("softmax");
    check_scores("bce");
    static const struct {
        const char *spec;
        bool linear;
    } images[] = {
        { "image, flatten", true },
        { "image, conv 5 3x3, relu, maxpool 2x2, conv 4 3x3 pad=1, relu, globalavg", true },
        { "image, conv 5 3x3, bn, relu, avgpool 2x2, flatten, dense 6, relu", true },
    };
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        TEST(images[i].spec);
        check_image(images[i].spec, images[i].linear);
    }
    TEST("weights of every type");
    check_narrow("bf16");
    check_narrow("int8");
    check_narrow("c16");
    TEST("gradients that overflow");
    check_overflow();
    TEST("what is refused, and memory that runs out");
    check_refusals();
    return rig_end();
}
