/* Values: what is chosen for which data, and tables whose columns are standardised: trained,
 * evaluated, predicted, saved, resumed, grown. */
#include "model_rig.h"

#include <math.h>

enum { COLUMNS = 5, CLASSES = 3, MOST = 400 };

struct table {
    int64_t xp[MOST + 1], yp[MOST + 1];
    int32_t xi[MOST * COLUMNS], yi[MOST];
    float xv[MOST * COLUMNS];
    size_t n;
};

static void end_row(struct table *t, int32_t label)
{
    t->yi[t->n] = label;
    t->n++;
    t->yp[t->n] = (int64_t)t->n;
}

static void put(struct table *t, int32_t column, float value)
{
    if (value == 0) return;
    int64_t *end = &t->xp[t->n + 1];
    t->xi[*end] = column;
    t->xv[(*end)++] = value;
}

/* The class is the largest of three columns of whole numbers, on scales of their own; then a column
 * of a single value, and one that is mostly 0. */
static wisp_data *table(size_t n, size_t columns)
{
    static struct table t;
    t = (struct table){ 0 };
    uint64_t state = 7;
    for (size_t i = 0; i < n; i++) {
        int best = 0, x[3];
        t.xp[t.n + 1] = t.xp[t.n];
        for (int c = 0; c < 3; c++) x[c] = 1 + (int)(test_rand(&state) % 49);
        for (int c = 1; c < 3; c++)
            if (x[c] > x[best]) best = c;
        put(&t, 0, (float)x[0]);
        put(&t, 1, (float)(1000 + 100 * x[1]));
        put(&t, 2, (float)x[2]);
        put(&t, 3, 7);
        put(&t, 4, i % 10 == 0);
        end_row(&t, best);
    }
    wisp_data *d = NULL;
    CHECK(wisp_data_from_csr(&d, t.n, columns, CLASSES, t.xp, t.xi, t.xv, t.yp, t.yi, &err) ==
              WISP_OK,
          "%s", err.text);
    return d;
}

/* ---- columns ---- */

static void test_columns(void)
{
    TEST("values: mean and deviation of columns, with the zeros");
    wisp_data *d = table(300, COLUMNS);
    float mean[COLUMNS], scale[COLUMNS];
    CHECK(wisp_values_columns(mean, scale, d, &err) == WISP_OK, "%s", err.text);
    for (int c = 0; c < COLUMNS; c++) {
        double sum = 0, square = 0;
        for (size_t i = 0; i < d->n_rows; i++) {
            size_t at;
            const struct wisp_rows *r = wisp_data_row(d, i, &at);
            for (uint32_t e = r->xp[at]; e < r->xp[at + 1]; e++)
                if (r->xi[e] == c)
                    sum += (double)r->xv[e], square += (double)r->xv[e] * (double)r->xv[e];
        }
        double m = sum / 300, deviation = sqrt(square / 300 - m * m);
        CHECK(fabs((double)mean[c] - m) < 1e-4 * m, "column %d: mean %g, not %g", c,
              (double)mean[c], m);
        CHECK(c == 3 ? scale[c] == 0 : fabs(1 / (double)scale[c] - deviation) < 1e-4 * deviation,
              "column %d: scale %g, deviation %g", c, (double)scale[c], deviation);
    }

    TEST("values: a standardised row has all columns but those of one value, none far off");
    const struct wisp_values v = { WISP_VALUES_STANDARD, NULL, mean, scale };
    int32_t xi[COLUMNS];
    float xv[COLUMNS];
    static const uint32_t xp[] = { 0, 2 };
    static const int32_t ids[] = { 1, 4 };
    static const float x[] = { 3e38f, 1 };
    const struct wisp_rows odd = { .n = 1, .xp = xp, .xi = ids, .xv = x };
    CHECK(wisp_values_fill(xi, xv, &odd, 0, COLUMNS, &v) == 4, "not 4 columns");
    CHECK(xi[0] == 0 && xi[1] == 1 && xi[2] == 2 && xi[3] == 4, "other columns");
    CHECK(fabsf(xv[0] + mean[0] * scale[0]) < 1e-4f && xv[1] == 10 &&
              fabsf(xv[3] - (1 - mean[4]) * scale[4]) < 1e-4f,
          "%g %g %g", (double)xv[0], (double)xv[1], (double)xv[3]);
    wisp_data_free(d);
}

/* Rows with their columns written out, for whoever cannot do that as it goes: as wisp_values_fill makes
 * them, or no memory. */
static void check_written(const struct wisp_data *to, const struct wisp_data *d,
                          const struct wisp_values *v)
{
    int32_t xi[COLUMNS];
    float xv[COLUMNS];
    CHECK(to->n_rows == d->n_rows && to->n_features == COLUMNS && to->n_labels == CLASSES,
          "%zu rows, %zu columns, %zu labels", to->n_rows, to->n_features, to->n_labels);
    for (size_t i = 0; i < to->n_rows && i < d->n_rows; i++) {
        size_t at, k;
        const struct wisp_rows *r = wisp_data_row(d, i, &at), *w = wisp_data_row(to, i, &k);
        const uint32_t n = wisp_values_fill(xi, xv, r, at, COLUMNS, v);
        CHECK(w->xp[k + 1] - w->xp[k] == n && memcmp(w->xi + w->xp[k], xi, n * sizeof *xi) == 0 &&
                  memcmp(w->xv + w->xp[k], xv, n * sizeof *xv) == 0,
              "row %zu has other values", i);
        CHECK(w->yp[k + 1] - w->yp[k] == 1 && w->yi[w->yp[k]] == r->yi[r->yp[at]],
              "row %zu has another label", i);
    }
}

static void test_written(void)
{
    TEST("values: a table written out, or no memory");
    wisp_data *d = table(300, COLUMNS);
    float mean[COLUMNS], scale[COLUMNS];
    CHECK(wisp_values_columns(mean, scale, d, &err) == WISP_OK, "%s", err.text);
    const struct wisp_values v = { WISP_VALUES_STANDARD, NULL, mean, scale };
    for (long n = 0;; n++) { /* allocations that work */
        struct wisp_data *to = NULL;
        const long live = wisp_mem_live;
        wisp_mem_budget = n;
        wisp_status st = wisp_values_standardise(&to, d, COLUMNS, &v, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) check_written(to, d, &v);
        else CHECK(st == WISP_ENOMEM && !to, "after %ld: %d %s", n, st, err.text);
        wisp_data_free(to);
        CHECK(wisp_mem_live == live, "after %ld: %ld blocks leaked", n, wisp_mem_live - live);
        if (st == WISP_OK) break;
    }
    wisp_data_free(d);
}

/* ---- what is chosen ---- */

static wisp_data *parse(const char *text, const char *format)
{
    char more[60];
    wisp_data *d = NULL;
    snprintf(more, sizeof more, "format %s", format);
    wisp_config *c = config(more);
    CHECK(wisp_data_parse(&d, ctx, text, strlen(text), "rows", c, NULL, &err) == WISP_OK, "%s",
          err.text);
    wisp_config_free(c);
    return d;
}

static void test_choice(void)
{
    static char sparse[20000], words_of_two[4000], *p;
    char why[WISP_VALUES_WHY];
    TEST("values: auto sees what the data is");
    wisp_data *d = table(300, COLUMNS);
    CHECK(wisp_values_choose(why, d) == WISP_VALUES_STANDARD && strstr(why, "table"), "%s", why);
    wisp_data_free(d);
    d = table(10, COLUMNS);
    CHECK(wisp_values_choose(why, d) == WISP_VALUES_UNIT, "few rows: %s", why);
    wisp_data_free(d);
    d = table(300, 5000);
    CHECK(wisp_values_choose(why, d) == WISP_VALUES_UNIT, "many columns: %s", why);
    wisp_data_free(d);
    p = sparse;
    for (int i = 0; i < 100; i++) p += sprintf(p, "%d %d:1 %d:2\n", i % 3, i % 20, 20 + i % 30);
    d = parse(sparse, "xc");
    CHECK(wisp_values_choose(why, d) == WISP_VALUES_TFIDF && strstr(why, "counts"), "%s", why);
    wisp_data_free(d);
    p = sparse;
    for (int i = 0; i < 100; i++) p += sprintf(p, "%d %d:0.5 %d:2\n", i % 3, i % 20, 20 + i % 30);
    d = parse(sparse, "xc");
    CHECK(wisp_values_choose(why, d) == WISP_VALUES_UNIT && strstr(why, "not all"), "%s", why);
    wisp_data_free(d);
    p = words_of_two;
    for (int i = 0; i < 60; i++) p += sprintf(p, "__label__%d the %s\n", i % 2, i % 2 ? "a" : "b");
    d = parse(words_of_two, "fasttext");
    CHECK(wisp_values_choose(why, d) == WISP_VALUES_TFIDF && strcmp(why, "words") == 0, "%s", why);
    wisp_data_free(d);
}

/* ---- runs ---- */

static double accuracy(const wisp_data *d, const char *path)
{
    static int32_t labels[MOST];
    static float scores[MOST];
    struct wisp_model *m = NULL;
    size_t right = 0, at;
    CHECK(wisp_model_load(&m, path, &err) == WISP_OK &&
              wisp_predict(labels, scores, ctx, m, d, 0, d->n_rows, 1, &err) == WISP_OK,
          "%s", err.text);
    for (size_t i = 0; m && i < d->n_rows; i++) {
        const struct wisp_rows *r = wisp_data_row(d, i, &at);
        right += r->yi[r->yp[at]] == labels[i];
    }
    if (m) CHECK(m->values.mode == WISP_VALUES_STANDARD, "not standardised");
    wisp_model_free(m);
    return 100 * (double)right / (double)d->n_rows;
}

static const char run[] = "values auto epochs 12 dropout 0.1 hidden 32 lr 0.01 batch 8";

static void test_runs(void)
{
    static const char *const more[] = { "",
                                        " loss bce",
                                        " input-dropout 0.1",
                                        " memory 4k",
                                        " optimizer adagrad lr 0.1",
                                        " index yes",
                                        " sampling random random 3" };
    wisp_data *d = table(MOST, COLUMNS);
    TEST("values: a table of whole numbers is learnt, however it is trained");
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        char all[200];
        snprintf(all, sizeof all, "%s%s", run, more[i]);
        CHECK(rig_train(ctx, d, "", all, 0, model, NULL) == WISP_OK, "%s", err.text);
        double right = accuracy(d, model);
        CHECK(right > 80, "'%s': %g %% right", more[i], right);
    }

    TEST("values: standardised, stopped and resumed is the same model");
    unlink(model);
    CHECK(rig_train(ctx, d, "", run, 0, other, NULL) == WISP_OK, "%s", err.text);
    struct bytes whole = slurp(other);
    CHECK(rig_train(ctx, d, "", run, 2, model, NULL) == WISP_ESTOPPED, "%s", err.text);
    char again[200];
    snprintf(again, sizeof again, "%s resume yes", run);
    CHECK(rig_train(ctx, d, "", again, 0, model, NULL) == WISP_OK && file_is(model, whole), "%s",
          err.text);
    free(whole.p);

    TEST("values: a model goes on with its own means, and further columns");
    char init[200];
    wisp_data *wider = table(MOST, COLUMNS + 3);
    snprintf(init, sizeof init, "epochs 2 lr 0.001 batch 8 hidden 32 dropout 0.1 init %s", other);
    CHECK(rig_train(ctx, wider, "", init, 0, model, NULL) == WISP_OK, "%s", err.text);
    double right = accuracy(wider, model);
    CHECK(right > 80, "%g %% right", right);
    wisp_data_free(wider);

    TEST("values: memory that runs out");
    rig_train_without_memory(d, "", "values standard epochs 1 hidden 8", 1);

    TEST("values: rows beside which nothing varies cannot be standardised");
    wisp_data *same = table(1, COLUMNS);
    CHECK(rig_train(ctx, same, "", "values standard holdout 0", 0, model, NULL) == WISP_EINVAL &&
              strstr(err.text, "single value"),
          "%s", err.text);
    wisp_data_free(same);
    wisp_data_free(d);
}

int main(void)
{
    rig_init();
    test_columns();
    test_written();
    test_choice();
    test_runs();
    return rig_end();
}
