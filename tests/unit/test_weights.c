/* What rows count for: weights of a data set, of --weights and of --class-weight. */
#include "model_rig.h"

#include <math.h>

enum { ROWS = 24, FEATURES = 6, LABELS = 3 };

/* Rows whose label is that of their only feature, but for every fourth, which has the next one. */
struct rows {
    int64_t p[4 * ROWS + 1];
    int32_t xi[4 * ROWS], yi[4 * ROWS];
    float xv[4 * ROWS], weight[4 * ROWS];
    size_t n;
};

static void add(struct rows *r, int feature, int label, float weight)
{
    r->p[0] = 0;
    r->xi[r->n] = feature, r->yi[r->n] = label, r->xv[r->n] = 1, r->weight[r->n] = weight;
    r->n++;
    r->p[r->n] = (int64_t)r->n;
}

static wisp_data *made(const struct rows *r, bool weighted)
{
    wisp_data *d = NULL;
    CHECK(wisp_data_from_csr(&d, r->n, FEATURES, LABELS, r->p, r->xi, r->xv, r->p, r->yi, &err) ==
              WISP_OK,
          "%s", err.text);
    if (weighted) CHECK(wisp_data_set_weights(d, r->weight, &err) == WISP_OK, "%s", err.text);
    return d;
}

static wisp_status train(const wisp_data *d, const char *more)
{
    return rig_train(ctx, d, "", more, 0, model, NULL);
}

/* Raw scores of the model for one row of each feature, by label. */
static void scores(float *to)
{
    wisp_model *m = NULL;
    struct rows r = { 0 };
    for (int f = 0; f < FEATURES; f++) add(&r, f, 0, 1);
    wisp_data *d = made(&r, false);
    int32_t labels[FEATURES * LABELS];
    float got[FEATURES * LABELS];
    memset(to, 0, FEATURES * LABELS * sizeof *to);
    CHECK(wisp_model_load(&m, model, &err) == WISP_OK &&
              predict_so(labels, got, ctx, m, d, 0, FEATURES, LABELS, "scores raw") == WISP_OK,
          "%s", err.text);
    for (int i = 0; i < FEATURES * LABELS && m; i++) to[i - i % LABELS + labels[i]] = got[i];
    wisp_model_free(m);
    wisp_data_free(d);
}

static float apart(const float *a, const float *b)
{
    float most = 0;
    for (int i = 0; i < FEATURES * LABELS; i++) most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

#define STEP                                                                                       \
    "holdout 0 values raw dropout 0 epochs 30 warmup 0 decay none batch 4096 hidden 8 precision "  \
    "fp32 "

static const char *const steps[] = {
    STEP "loss softmax optimizer sgd lr 8",
    STEP "loss bce optimizer sgd lr 8",
    STEP "loss softmax optimizer sgd lr 8 sampling random random 3",
    STEP "loss bce optimizer sgd lr 8 sampling random random 3 active-per example",
    STEP "loss softmax optimizer sgd lr 8 sampling random random 3 active-per example",
};

static void test_repeated(void)
{
    TEST("weights: a row of weight 4 is four rows");
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        struct rows weighted = { 0 }, repeated = { 0 };
        float a[FEATURES * LABELS], b[FEATURES * LABELS], plain[FEATURES * LABELS];
        for (int i = 0; i < ROWS; i++) {
            int f = i % FEATURES, l = (f + (i % 4 == 0)) % LABELS, w = i % 4 == 0 ? 4 : 1;
            add(&weighted, f, l, (float)w);
            for (int k = 0; k < w; k++) add(&repeated, f, l, 1);
        }
        wisp_data *d = made(&weighted, true), *e = made(&repeated, false),
                  *p = made(&weighted, false);
        CHECK(train(p, steps[s]) == WISP_OK, "%s", err.text);
        scores(plain);
        CHECK(train(d, steps[s]) == WISP_OK, "%s", err.text);
        scores(a);
        CHECK(train(e, steps[s]) == WISP_OK, "%s", err.text);
        scores(b);
        CHECK(apart(a, b) < 0.01f, "'%s': weighted and repeated are %g apart", steps[s],
              apart(a, b));
        CHECK(apart(a, plain) > 0.05f, "'%s': weights change %g only: the test sees nothing",
              steps[s], apart(a, plain));
        wisp_data_free(d), wisp_data_free(e), wisp_data_free(p);
    }
}

static void test_zero(void)
{
    static const char *const runs[] = {
        "values raw holdout 0 epochs 20 batch 5 hidden 8",
        "values raw holdout 0 epochs 20 batch 5 hidden 8 loss softmax sampling random random 3",
        "values raw holdout 0 epochs 20 batch 5 hidden 8 sampling random random 3 active-per "
        "example",
        "values unit holdout 0 epochs 20 batch 5 hidden 8 memory 4k optimizer adagrad lr 0.1",
    };
    TEST("weights: rows of weight 0 change nothing");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct rows some = { 0 }, all = { 0 };
        float a[FEATURES * LABELS], b[FEATURES * LABELS], c[FEATURES * LABELS];
        for (int k = 0; k < ROWS; k++) add(&some, k % FEATURES, k % LABELS, 1);
        all = some;
        for (int k = 0; k < ROWS; k++) add(&all, k % FEATURES, (k + 1) % LABELS, 0);
        wisp_data *d = made(&some, true), *e = made(&all, true), *with = made(&all, false);
        CHECK(train(d, runs[i]) == WISP_OK, "%s", err.text);
        scores(a);
        CHECK(train(e, runs[i]) == WISP_OK, "%s", err.text);
        scores(b);
        CHECK(train(with, runs[i]) == WISP_OK, "%s", err.text);
        scores(c);
        CHECK(apart(a, b) < 0.01f, "'%s': rows of weight 0 moved scores by %g", runs[i],
              apart(a, b));
        CHECK(apart(a, c) > 0.03f, "'%s': these rows change %g only: the test sees nothing",
              runs[i], apart(a, c));
        wisp_data_free(d), wisp_data_free(e), wisp_data_free(with);
    }
}

static void test_set(void)
{
    struct rows r = { 0 };
    for (int i = 0; i < ROWS; i++) add(&r, i % FEATURES, i % LABELS, (float)(i + 1));
    TEST("weights: what cannot be one is refused, and the old ones stay");
    wisp_data *d = made(&r, true);
    static const float bad[] = { -1, NAN, INFINITY };
    for (int i = 0; i < 3; i++) {
        r.weight[5] = bad[i];
        CHECK(wisp_data_set_weights(d, r.weight, &err) == WISP_EINVAL &&
                  strstr(err.text, "row 5: its weight is"),
              "%g: %s", (double)bad[i], err.text);
        CHECK(d->weights && d->weights[5] == 6, "the old weights are gone");
    }
    CHECK(wisp_data_set_weights(d, NULL, &err) == WISP_OK && !d->weights, "NULL: all the same");
    memset(r.weight, 0, sizeof r.weight);
    CHECK(wisp_data_set_weights(d, r.weight, &err) == WISP_OK &&
              train(d, "holdout 0") == WISP_EINVAL && strstr(err.text, "weight 0"),
          "all zero: %s", err.text);
    wisp_data_free(d);

    TEST("weights: they go with picked and renumbered rows");
    for (int i = 0; i < ROWS; i++) r.weight[i] = (float)i;
    d = made(&r, true);
    wisp_data *another = NULL;
    static const int32_t labels[LABELS] = { 2, 0, 1 };
    CHECK(wisp_data_renumber(&another, d, NULL, labels, &err) == WISP_OK && another->weights &&
              another->weights[7] == 7,
          "%s", err.text);
    wisp_data_free(another);
    wisp_data_free(d);
}

static void test_files(void)
{
    static const struct {
        const char *file, *option, *found;
        wisp_status status;
    } cases[] = {
        { "1\n2\n", "weights", "has 2 weights, the data has 24 rows", WISP_EINVAL },
        { "1\nx\n", "weights", "weights.txt:2: found 'x', expected a weight", WISP_EFORMAT },
        { "1\n-1\n", "weights", "weights.txt:2: found '-1'", WISP_EFORMAT },
        { "1\n\n", "weights", "weights.txt:2: found ''", WISP_EFORMAT },
        { "a 1\n", "weights", "weights.txt:1: 'a' before the weight", WISP_EFORMAT },
        { "1\n1e39\n", "weights", "weights.txt:2: found '1e39'", WISP_EFORMAT },
        { "1\n2\n", "class-weight", "has 2 weights, there are 3 labels", WISP_EINVAL },
        { "1\n2\n1\n1\n", "class-weight", "weights.txt:4: a weight for label 3", WISP_EINVAL },
        { "0 1\n2\n", "class-weight", "lines with a label and lines without", WISP_EFORMAT },
        { "cat 1\n", "class-weight", "no label 'cat'", WISP_EINVAL },
        { "9 1\n", "class-weight", "a weight for label 9", WISP_EINVAL },
        { "0 2\n2 0.5\n", "class-weight", NULL, WISP_OK },
        { "0.5\n1\n2", "class-weight", NULL, WISP_OK },
    };
    struct rows r = { 0 };
    for (int i = 0; i < ROWS; i++) add(&r, i % FEATURES, i % LABELS, 1);
    wisp_data *d = made(&r, false);
    TEST("weights: files, and what is wrong with them");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char more[100];
        put_file("weights.txt", cases[i].file);
        snprintf(more, sizeof more, "epochs 1 %s weights.txt", cases[i].option);
        wisp_status st = train(d, more);
        CHECK(st == cases[i].status && (!cases[i].found || strstr(err.text, cases[i].found)),
              "'%s': %d '%s'", cases[i].file, st, err.text);
    }
    CHECK(train(d, "epochs 1 class-weight none.txt") == WISP_EIO && strstr(err.text, "none.txt"),
          "no such file: %s", err.text);
    wisp_data_free(d);
}

static void test_balanced(void)
{
    static const char run[] = "values raw holdout 0 epochs 60 lr 0.05 dropout 0 batch 8 ";
    struct rows r = { 0 };
    float plain[FEATURES * LABELS], balanced[FEATURES * LABELS], by_file[FEATURES * LABELS];
    for (int i = 0; i < ROWS; i++) add(&r, 0, i % 6 == 0, 1); /* a sixth has label 1 */
    wisp_data *d = made(&r, false);
    char more[200];
    TEST("weights: balanced classes count the same, and a file says how much");
    CHECK(train(d, run) == WISP_OK, "%s", err.text);
    scores(plain);
    snprintf(more, sizeof more, "%sclass-weight balanced", run);
    CHECK(train(d, more) == WISP_OK, "%s", err.text);
    scores(balanced);
    put_file("weights.txt", "0 1\n1 5\n");
    snprintf(more, sizeof more, "%sclass-weight weights.txt", run);
    CHECK(train(d, more) == WISP_OK, "%s", err.text);
    scores(by_file);
    CHECK(fabsf(plain[1] - 1 / 6.0f) < 0.05f, "label 1 has %g of the rows", (double)plain[1]);
    CHECK(fabsf(balanced[1] - 0.5f) < 0.05f, "balanced: label 1 scores %g", (double)balanced[1]);
    CHECK(fabsf(by_file[1] - 0.5f) < 0.05f, "by file: label 1 scores %g", (double)by_file[1]);
    wisp_data_free(d);
}

static void test_resume(void)
{
    struct rows r = { 0 };
    for (int i = 0; i < ROWS; i++) add(&r, i % FEATURES, i % LABELS, (float)(1 + i % 3));
    wisp_data *d = made(&r, true);
    TEST("weights: a resumed run has the same, or is refused");
    unlink(model);
    CHECK(train(d, "epochs 3 hidden 8") == WISP_OK, "%s", err.text);
    struct bytes whole = slurp(model);
    unlink(model);
    CHECK(rig_train(ctx, d, "", "epochs 3 hidden 8", 1, model, NULL) == WISP_ESTOPPED, "%s",
          err.text);
    r.weight[3] = 5;
    wisp_data *another = made(&r, true), *none = made(&r, false);
    CHECK(train(another, "epochs 3 hidden 8 resume yes") == WISP_EMODEL &&
              strstr(err.text, "weights-checksum"),
          "%s", err.text);
    CHECK(train(none, "epochs 3 hidden 8 resume yes") == WISP_EMODEL, "%s", err.text);
    CHECK(train(d, "epochs 3 hidden 8 resume yes") == WISP_OK, "%s", err.text);
    CHECK(file_is(model, whole), "resumed it differs");
    free(whole.p);
    wisp_data_free(d), wisp_data_free(another), wisp_data_free(none);
}

static void test_memory(void)
{
    struct rows r = { 0 };
    for (int i = 0; i < ROWS; i++) add(&r, i % FEATURES, i % LABELS, (float)(1 + i % 3));
    wisp_data *d = made(&r, true);
    TEST("weights: memory that runs out");
    put_file("weights.txt", "0 2\n1 1\n");
    rig_train_without_memory(d, "", "epochs 1 hidden 8 class-weight weights.txt", 1);
    wisp_data_free(d);
}

int main(void)
{
    rig_init();
    test_repeated();
    test_zero();
    test_set();
    test_files();
    test_balanced();
    test_resume();
    test_memory();
    unlink("weights.txt");
    return rig_end();
}
