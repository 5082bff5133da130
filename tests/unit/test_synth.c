/* The synthetic generator: the shape asked for, the same bytes for any number of threads, and
 * labels that can be learnt from the features. */
#include "test.h"
#include "base/mem.h"
#include "data/data.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static struct wisp_context context(int threads)
{
    struct wisp_context ctx = { 0 };
    wisp_error err;
    if (wisp_pool_create(&ctx.pool, threads, &err) != WISP_OK) exit(2);
    return ctx;
}

static struct wisp_data *make(const char *name, int threads, bool test, uint64_t seed)
{
    struct wisp_synth_shape s;
    struct wisp_data *d = NULL;
    wisp_error err;
    struct wisp_context ctx = context(threads);
    CHECK(wisp_synth_find(&s, name), "%s", name);
    s.seed = seed;
    wisp_status st = wisp_synth_data(&d, &ctx, &s, test, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    wisp_pool_free(ctx.pool);
    if (!d) exit(2);
    return d;
}

static bool same(const struct wisp_data *a, const struct wisp_data *b)
{
    if (a->n_rows != b->n_rows || a->nnz != b->nnz || a->n_lab != b->n_lab ||
        a->n_blocks != b->n_blocks)
        return false;
    for (size_t i = 0; i < a->n_blocks; i++) {
        const struct wisp_rows *x = &a->blocks[i], *y = &b->blocks[i];
        if (x->n != y->n || memcmp(x->xp, y->xp, 4 * (x->n + 1)) ||
            memcmp(x->yp, y->yp, 4 * (x->n + 1)) || memcmp(x->xi, y->xi, 4 * (size_t)x->xp[x->n]) ||
            memcmp(x->xv, y->xv, 4 * (size_t)x->xp[x->n]) ||
            memcmp(x->yi, y->yi, 4 * (size_t)x->yp[x->n]))
            return false;
    }
    return true;
}

static void check_means(const char *name, double features, double labels)
{
    struct wisp_data *d = make(name, 2, false, 1);
    double x = (double)d->nnz / (double)d->n_rows, y = (double)d->n_lab / (double)d->n_rows;
    CHECK(fabs(x / features - 1) < 0.03, "%s: %g features per row, not %g", name, x, features);
    CHECK(fabs(y / labels - 1) < 0.03, "%s: %g labels per row, not %g", name, y, labels);
    CHECK(d->n_unlabelled == 0, "%zu rows without labels", d->n_unlabelled);
    wisp_data_free(d);
}

static void check_length(const struct wisp_data *d)
{
    for (size_t i = 0; i < d->n_blocks; i++)
        for (size_t r = 0; r < d->blocks[i].n; r++) {
            double sum = 0;
            for (size_t k = d->blocks[i].xp[r]; k < d->blocks[i].xp[r + 1]; k++)
                sum += (double)d->blocks[i].xv[k] * (double)d->blocks[i].xv[k];
            CHECK(fabs(sum - 1) < 1e-5, "row %zu of block %zu: length^2 %g", r, i, sum);
        }
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Slope of log frequency over log rank of all labels between two ranks. */
static double slope(const struct wisp_data *d, size_t from, size_t to)
{
    int64_t *f = malloc(d->n_labels * sizeof *f);
    memcpy(f, d->label_rows, d->n_labels * sizeof *f);
    qsort(f, d->n_labels, sizeof *f, descending);
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (size_t r = from; r < to; r++) {
        double x = log((double)r + 1), y = log((double)f[r] + 1e-9);
        n++, sx += x, sy += y, sxx += x * x, sxy += x * y;
    }
    free(f);
    return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

/* A label's signature is the sum of the training rows that have it; the test row's best label is
 * the one with the highest cosine.  Returns the share of rows whose best label is theirs. */
static double nearest(const struct wisp_data *train, const struct wisp_data *test)
{
    size_t nf = train->n_features, nl = train->n_labels, hits = 0, row = 0;
    float *w = calloc(nf * nl, sizeof *w), *score = malloc(nl * sizeof *score);
    for (size_t i = 0; i < train->n_blocks; i++)
        for (size_t r = 0; r < train->blocks[i].n; r++) {
            const struct wisp_rows *b = &train->blocks[i];
            for (size_t y = b->yp[r]; y < b->yp[r + 1]; y++)
                for (size_t k = b->xp[r]; k < b->xp[r + 1]; k++)
                    w[(size_t)b->xi[k] * nl + (size_t)b->yi[y]] += b->xv[k];
        }
    float *norm = calloc(nl, sizeof *norm);
    for (size_t f = 0; f < nf; f++)
        for (size_t l = 0; l < nl; l++) norm[l] += w[f * nl + l] * w[f * nl + l];
    for (; row < test->n_rows; row++) {
        size_t r, best = 0;
        const struct wisp_rows *b = wisp_data_row(test, row, &r);
        memset(score, 0, nl * sizeof *score);
        for (size_t k = b->xp[r]; k < b->xp[r + 1]; k++)
            for (size_t l = 0; l < nl; l++) score[l] += b->xv[k] * w[(size_t)b->xi[k] * nl + l];
        for (size_t l = 0; l < nl; l++) {
            score[l] /= sqrtf(norm[l] + 1e-9f);
            if (score[l] > score[best]) best = l;
        }
        for (size_t y = b->yp[r]; y < b->yp[r + 1]; y++) hits += (size_t)b->yi[y] == best;
    }
    free(w), free(score), free(norm);
    return (double)hits / (double)test->n_rows;
}

static char *slurp(const char *path, size_t *n)
{
    struct wisp_map m;
    wisp_error err;
    wisp_status st = wisp_map_open(&m, path, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    if (st != WISP_OK) exit(2);
    char *p = malloc(m.bytes + 1);
    memcpy(p, m.p, m.bytes);
    p[ *n = m.bytes] = 0;
    wisp_map_close(&m);
    return p;
}

/* Reads the text back with strtof and compares with the rows in memory. */
static void check_text(const char *text, const struct wisp_data *d)
{
    char *p;
    CHECK(strtoul(text, &p, 10) == d->n_rows && strtoul(p, &p, 10) == d->n_features &&
              strtoul(p, &p, 10) == d->n_labels && *p == '\n',
          "head %.40s", text);
    p++;
    for (size_t row = 0; row < d->n_rows; row++) {
        size_t r;
        const struct wisp_rows *b = wisp_data_row(d, row, &r);
        bool good = true;
        for (size_t k = b->yp[r]; k < b->yp[r + 1]; k++, p += *p == ',')
            good &= strtol(p, &p, 10) == b->yi[k];
        for (size_t k = b->xp[r]; k < b->xp[r + 1]; k++) {
            good &= strtol(p, &p, 10) == b->xi[k] && *p == ':';
            good &= strtof(p + 1, &p) == b->xv[k];
        }
        CHECK(good && *p == '\n', "row %zu: text and memory differ", row);
        p++;
    }
    CHECK(*p == 0, "text goes on: %.40s", p);
}

static void test_files(const char *dir)
{
    char prefix[100], path[120];
    char *text[2][2];
    size_t n[2][2];
    struct wisp_synth_shape s;
    wisp_error err;
    wisp_synth_find(&s, "3000x2000x500");
    for (int i = 0; i < 2; i++) {
        struct wisp_context ctx = context(i ? 4 : 1);
        snprintf(prefix, sizeof prefix, "%s/t%d", dir, i);
        CHECK(wisp_synth_write(&ctx, prefix, &s, &err) == WISP_OK, "%s", err.text);
        wisp_pool_free(ctx.pool);
        for (int k = 0; k < 2; k++) {
            snprintf(path, sizeof path, "%s_%s.txt", prefix, k ? "test" : "train");
            text[i][k] = slurp(path, &n[i][k]);
            unlink(path);
        }
    }
    for (int k = 0; k < 2; k++) {
        CHECK(n[0][k] == n[1][k] && !memcmp(text[0][k], text[1][k], n[0][k]),
              "1 and 4 threads write different files");
        struct wisp_data *d = make("3000x2000x500", 2, k == 1, 1);
        check_text(text[0][k], d);
        wisp_data_free(d);
        free(text[0][k]), free(text[1][k]);
    }
}

static void test_shapes(void)
{
    struct wisp_synth_shape s;
    CHECK(wisp_synth_find(&s, "amazon670k") && s.n_labels == 670091 && s.n_test == 20000, "amazon");
    CHECK(wisp_synth_find(&s, "delicious200k") && s.row_labels == 75 && s.n_test == 19660, "del.");
    CHECK(wisp_synth_find(&s, "100x20x3") && s.n_rows == 100 && s.n_features == 20 &&
              s.n_labels == 3 && s.n_test == 10,
          "RxFxL");
    const char *bad[] = { "",       "amazon", "1x2",
                          "1x2x",   "1x2x3x", "0x2x3",
                          "-1x2x3", "1 x2x3", "1x99999999999999999999x3",
                          "1x2x3 " };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!wisp_synth_find(&s, bad[i]), "'%s' is a shape", bad[i]);
    /* tiny and odd ones end, and hold what they say */
    const char *tiny[] = { "1x1x1", "2x1x3", "50x30x2", "40x7x19", "30x100000x21" };
    for (size_t i = 0; i < sizeof tiny / sizeof *tiny; i++) {
        struct wisp_data *d = make(tiny[i], 2, false, 7);
        CHECK(d->n_unlabelled == 0 && d->nnz >= d->n_rows, "%s", tiny[i]);
        check_length(d);
        wisp_data_free(d);
    }
    wisp_error err;
    struct wisp_data *d;
    wisp_synth_find(&s, "10x10x10");
    s.row_labels = 0.5;
    CHECK(wisp_synth_data(&d, NULL, &s, false, &err) == WISP_EINVAL && !d, "row_labels 0.5");
}

static void test_memory(const char *dir)
{
    struct wisp_synth_shape s;
    struct wisp_data *d;
    char prefix[100], path[120];
    wisp_error err;
    wisp_synth_find(&s, "20x50x30");
    snprintf(prefix, sizeof prefix, "%s/m", dir);
    long live = wisp_mem_live;
    for (int text = 0; text < 2; text++) {
        for (long n = 0;; n++) {
            wisp_mem_budget = n;
            wisp_status st = text ? wisp_synth_write(NULL, prefix, &s, &err)
                                  : wisp_synth_data(&d, NULL, &s, false, &err);
            wisp_mem_budget = -1;
            if (st == WISP_OK) break;
            CHECK(st == WISP_ENOMEM && wisp_mem_live == live, "after %ld: %s", n, err.text);
        }
        if (!text) wisp_data_free(d);
    }
    CHECK(wisp_mem_live == live, "%ld blocks left", wisp_mem_live - live);
    for (int k = 0; k < 2; k++) {
        snprintf(path, sizeof path, "%s_%s.txt", prefix, k ? "test" : "train");
        unlink(path);
    }
}

int main(void)
{
    char dir[] = "/tmp/wisp_synth_XXXXXX";
    if (!mkdtemp(dir)) return 2;

    TEST("synth: shapes, tiny ones too");
    test_shapes();

    TEST("synth: 1 and 4 threads and a second run agree, another seed does not");
    struct wisp_data *a = make("20000x5000x1000", 1, false, 1);
    struct wisp_data *b = make("20000x5000x1000", 4, false, 1);
    struct wisp_data *c = make("20000x5000x1000", 4, false, 2);
    CHECK(same(a, b), "1 and 4 threads differ");
    CHECK(!same(a, c), "seeds 1 and 2 agree");
    wisp_data_free(c);

    TEST("synth: rows have length 1");
    check_length(a);

    TEST("synth: mean features and labels of a row within 3 %");
    check_means("20000x5000x1000", 75, 5);
    check_means("20000x135909x670091", 75, 5);
    check_means("20000x300x100", 75, 5);
    struct wisp_synth_shape s;
    wisp_error err;
    wisp_synth_find(&s, "delicious200k");
    s.n_rows = 5000;
    CHECK(wisp_synth_data(&c, NULL, &s, false, &err) == WISP_OK, "%s", err.text);
    CHECK(fabs((double)c->nnz / 5000 / 302 - 1) < 0.03, "%g features", (double)c->nnz / 5000);
    CHECK(fabs((double)c->n_lab / 5000 / 75 - 1) < 0.03, "%g labels", (double)c->n_lab / 5000);
    wisp_data_free(c);

    TEST("synth: label frequencies follow Zipf(0.75)");
    wisp_synth_find(&s, "100000x1000x2000");
    s.row_features = 2;
    s.row_labels = 1;
    CHECK(wisp_synth_data(&c, NULL, &s, false, &err) == WISP_OK, "%s", err.text);
    double first = slope(c, 5, 500);
    CHECK(fabs(first + 0.75) < 0.05, "slope %g of first labels, not -0.75", first);
    size_t popular[50] = { 0 }, most = 0;
    for (size_t l = 0; l < 1000; l++)
        if (c->label_rows[l] > 400) popular[l / 20]++;
    for (size_t k = 0; k < 50; k++) most = popular[k] > most ? popular[k] : most;
    CHECK(most <= 3, "%zu popular labels in one cluster", most);
    wisp_data_free(c);

    TEST("synth: features tell the label");
    c = make("20000x5000x1000", 2, true, 1);
    double right = nearest(a, c);
    CHECK(right > 0.5, "nearest signature is right in %g of the rows", right);
    wisp_data_free(c);
    wisp_data_free(a);
    wisp_data_free(b);

    TEST("synth: files are the same for 1 and 4 threads, and as in memory");
    test_files(dir);

    TEST("synth: failing allocations");
    test_memory(dir);
    rmdir(dir);
    return test_end();
}
