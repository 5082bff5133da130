/* Views of CSR arrays: whatever their types, they are the set that a copy of the rows makes (the
 * same trained bytes, the same files, the same training state), and what a copy would tidy up is
 * refused with a word on what to do. */
#include "model_rig.h"

#include <math.h>

enum { N = 9000, FEATURES = 50, LABELS = 7, ROOM = N * 4, TYPES = 8 };

static struct { /* the same rows in every type */
    int64_t xp64[N + 1], yp[N + 1], xi64[ROOM];
    int32_t xp[N + 1], xi[ROOM], yi[N * 2];
    double xv64[ROOM];
    float xv[ROOM];
} rows;

/* More rows than a block holds; some have no feature, some no label, some a label twice. */
static void fill(void)
{
    for (size_t i = 0; i < N; i++) {
        int64_t x = rows.xp64[i], y = rows.yp[i];
        for (int f = (int)(test_rand(&seed) % 20);
             i % 9 != 4 && f < FEATURES && x < rows.xp64[i] + 4;
             f += 1 + (int)(test_rand(&seed) % 20), x++) {
            rows.xi[x] = f, rows.xi64[x] = f;
            rows.xv[x] = (float)(1 + test_rand(&seed) % 5), rows.xv64[x] = (double)rows.xv[x];
        }
        int32_t label = (int32_t)((x > rows.xp64[i] ? (size_t)rows.xi[rows.xp64[i]] : i) % LABELS);
        if (i % 11 != 3) rows.yi[y++] = label;
        if (i % 5 == 0) rows.yi[y++] = i % 10 ? label : (label + 3) % LABELS;
        rows.xp64[i + 1] = x, rows.xp[i + 1] = (int32_t)x, rows.yp[i + 1] = y;
    }
}

static wisp_status view(wisp_data **out, size_t n, unsigned types)
{
    err.text[0] = 0;
    return wisp_data_view_csr(out, n, FEATURES, LABELS,
                              types & WISP_CSR_PTR64 ? (void *)rows.xp64 : (void *)rows.xp,
                              types & WISP_CSR_IDS64 ? (void *)rows.xi64 : (void *)rows.xi,
                              types & WISP_CSR_VALUES64 ? (void *)rows.xv64 : (void *)rows.xv,
                              types, rows.yp, rows.yi, &err);
}

static wisp_data *copy(size_t n)
{
    wisp_data *d = NULL;
    CHECK(wisp_data_from_csr(&d, n, FEATURES, LABELS, rows.xp64, rows.xi, rows.xv, rows.yp, rows.yi,
                             &err) == WISP_OK,
          "%s", err.text);
    return d;
}

static void same_stats(const wisp_data *a, const wisp_data *b)
{
    wisp_data_stats x, y;
    wisp_data_stats_get(a, &x), wisp_data_stats_get(b, &y);
    CHECK(x.n_rows == y.n_rows && x.n_features == y.n_features && x.n_labels == y.n_labels &&
              x.n_values == y.n_values && x.n_label_values == y.n_label_values &&
              x.n_unlabelled == y.n_unlabelled,
          "other totals");
    CHECK(y.bytes <= 4 * (2 * (N + a->n_blocks) + x.n_label_values), "%zu bytes were made",
          y.bytes);
    CHECK(a->max_row_nnz == b->max_row_nnz && a->counts == b->counts &&
              a->n_blocks == b->n_blocks &&
              memcmp(a->first, b->first, (a->n_blocks + 1) * sizeof *a->first) == 0 &&
              memcmp(a->feature_rows, b->feature_rows, FEATURES * sizeof *a->feature_rows) == 0 &&
              memcmp(a->label_rows, b->label_rows, LABELS * sizeof *a->label_rows) == 0,
          "other counts or blocks");
}

static void check_files(const wisp_data *d, const char *name, struct bytes *want)
{
    CHECK(wisp_data_write(d, ctx, other, name, &err) == WISP_OK, "%s", err.text);
    if (!want->p) *want = slurp(other);
    else CHECK(file_is(other, *want), "%s: other bytes", name);
}

/* Trains through every reader of rows: held-out rows are picked, tf-idf and dropout lay rows out,
 * votes are made. */
static void check_same(void)
{
    static const char how[] = "values auto input-dropout 0.2 index yes sampling features+random";
    struct bytes trained, xc = { 0 }, npz = { 0 };
    wisp_data *want = copy(N), *d;
    TEST("the copy trains");
    CHECK(rig_train(ctx, want, "", how, 0, model, NULL) == WISP_OK, "%s", err.text);
    trained = slurp(model);
    check_files(want, "xc", &xc), check_files(want, "npz", &npz);
    for (unsigned types = 0; types < TYPES; types++) {
        static char name[TYPES][80];
        snprintf(name[types], sizeof name[0], "offsets, ids, values of %d, %d, %d bits",
                 types & WISP_CSR_PTR64 ? 64 : 32, types & WISP_CSR_IDS64 ? 64 : 32,
                 types & WISP_CSR_VALUES64 ? 64 : 32);
        TEST(name[types]);
        CHECK(view(&d, N, types) == WISP_OK, "%s", err.text);
        same_stats(want, d);
        CHECK(rig_train(ctx, d, "", how, 0, model, NULL) == WISP_OK, "%s", err.text);
        CHECK(file_is(model, trained), "another model");
        check_files(d, "xc", &xc), check_files(d, "npz", &npz);
        wisp_data_free(d);
    }
    TEST("a run on a copy goes on with a view");
    unlink(model);
    CHECK(rig_train(ctx, want, "", "epochs 2", 1, model, NULL) == WISP_ESTOPPED, "%s", err.text);
    CHECK(view(&d, N, WISP_CSR_IDS64 | WISP_CSR_VALUES64) == WISP_OK, "%s", err.text);
    rows.xv64[0] += 1;
    CHECK(rig_train(ctx, d, "", "epochs 2 resume 1", 0, model, NULL) == WISP_EMODEL,
          "rows that were changed: %s", err.text);
    rows.xv64[0] -= 1;
    CHECK(rig_train(ctx, d, "", "epochs 2 resume 1", 0, model, NULL) == WISP_OK, "%s", err.text);
    wisp_data_free(d);
    wisp_data_free(want);
    free(trained.p), free(xc.p), free(npz.p);
    char beside[80];
    snprintf(beside, sizeof beside, "%s.y.npz", other);
    unlink(beside);
}

/* Ids and values are looked at when a batch is laid out, not before. */
static void check_borrowed(void)
{
    TEST("features and values are borrowed");
    wisp_data *d;
    CHECK(view(&d, N, 0) == WISP_OK, "%s", err.text);
    CHECK(d->blocks[0].xi == rows.xi && d->blocks[0].xv == rows.xv &&
              d->blocks[1].xi == rows.xi + rows.xp[d->first[1]],
          "copied");
    wisp_data_free(d);
    TEST("no rows, no labels");
    CHECK(view(&d, 0, 0) == WISP_OK && d->n_rows == 0 && d->n_blocks == 0, "%s", err.text);
    wisp_data_free(d);
    CHECK(wisp_data_view_csr(&d, 3, FEATURES, 0, rows.xp, rows.xi, rows.xv, 0, NULL, NULL, &err) ==
                  WISP_OK &&
              d->n_unlabelled == 3,
          "%s", err.text);
    wisp_data_free(d);
    TEST("offsets need not begin at 0");
    CHECK(wisp_data_view_csr(&d, 5, FEATURES, LABELS, rows.xp64 + 100, rows.xi64, rows.xv64, 7,
                             rows.yp + 100, rows.yi, &err) == WISP_OK,
          "%s", err.text);
    CHECK(d->nnz == (size_t)(rows.xp64[105] - rows.xp64[100]) && d->blocks[0].xp[0] == 0 &&
              wisp_row_id(&d->blocks[0], 0) == rows.xi[rows.xp64[100]],
          "other rows");
    wisp_data_free(d);
}

static void refused(wisp_status want, const char *text)
{
    wisp_data *d = NULL;
    CHECK(view(&d, N, 7) == want && d == NULL && strstr(err.text, text), "'%s', expected '%s'",
          err.text, text);
}

static void check_refused(void)
{
    TEST("what a reader could stumble over is refused");
    size_t row = 0;
    while (rows.xp64[row + 1] - rows.xp64[row] < 2) row++;
    int64_t *id = rows.xi64 + rows.xp64[row], id0 = id[0], id1 = id[1];
    double *value = rows.xv64 + rows.xp64[row], value0 = value[0];
    id[1] = id0, refused(WISP_EFORMAT, "sum_duplicates");
    id[0] = id1, id[1] = id0, refused(WISP_EFORMAT, "ids must ascend");
    id[0] = id0, id[1] = FEATURES, refused(WISP_EINVAL, "is not in 0..49");
    id[1] = (int64_t)1 << 32, refused(WISP_EINVAL, "feature 4294967296");
    id[0] = -1, refused(WISP_EINVAL, "feature -1");
    id[0] = id0, id[1] = id1;
    value[0] = 0, refused(WISP_EFORMAT, "eliminate_zeros");
    value[0] = 1e-60, refused(WISP_EFORMAT, "1e-60, which is 0");
    value[0] = 1e60, refused(WISP_ENUMERIC, "1e+60");
    value[0] = NAN, refused(WISP_ENUMERIC, "nan");
    value[0] = value0;
    rows.xp64[5] += 1000000, refused(WISP_EINVAL, "row 5: offsets must not fall");
    CHECK(err.row == 6 && err.place_bytes == 7, "row %zu", err.row);
    rows.xp64[5] -= 1000000;
    size_t y = 0;
    while (rows.yp[y + 1] == rows.yp[y]) y++;
    int32_t *label = rows.yi + rows.yp[y], label0 = *label;
    *label = LABELS, refused(WISP_EINVAL, "label 7 is not in 0..6");
    *label = label0;
    TEST("a failing allocation leaves nothing");
    long before = wisp_mem_live;
    for (long n = 0;; n++) {
        wisp_data *d = NULL;
        wisp_mem_budget = n;
        wisp_status st = view(&d, N, 7);
        wisp_mem_budget = -1;
        if (st == WISP_OK) {
            wisp_data_free(d);
            CHECK(n > 5, "%ld allocations", n);
            break;
        }
        CHECK(st == WISP_ENOMEM && !d && wisp_mem_live == before, "after %ld: %s", n, err.text);
    }
}

int main(void)
{
    rig_init();
    fill();
    check_same();
    check_borrowed();
    check_refused();
    return rig_end();
}
