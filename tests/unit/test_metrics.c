/* Metrics: cases computed by hand, and a random instance against numpy (tests/golden/metrics.py).
 */
#include "test.h"
#include "base/mem.h"
#include "model/metrics.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static struct wisp_error err;

static bool near(double got, double want, double eps)
{
    return fabs(got - want) <= eps * fmax(1, fabs(want));
}

#define SAME(got, want)                                                                            \
    CHECK(near(got, want, 1e-12), "%s: %.15g, expected %.15g", #got, (double)(got), (double)(want))
#define ADD(m, ranked, truth)                                                                      \
    wisp_metrics_add(m, ranked, sizeof(ranked) / sizeof *(ranked), truth,                          \
                     sizeof(truth) / sizeof *(truth))

static void test_by_hand(void)
{
    static const size_t cuts[] = { 1, 3, 5 };
    static const int64_t counts[] = { 5, 2, 1, 0 };
    /* with A = 1, B = 1 and N = 8: C = 2 (ln 8 - 1), 1/p = 1 + C / (N_l + 1) */
    const double c = 2 * (log(8) - 1);
    struct wisp_metrics m;

    TEST("metrics: two rows by hand");
    wisp_status st = wisp_metrics_init(&m, cuts, 3, counts, 4, 8, 1, 1, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    if (st != WISP_OK) return;
    SAME(m.inverse[0], 1 + c / 6);
    SAME(m.inverse[3], 1 + c);
    SAME(m.inverse[4], 1 + c);
    /* of 8: label 0 passes a third, label 1 (7) passes two thirds */
    CHECK(memcmp(m.group, (uint8_t[]){ 0, 1, 2, 2 }, 4) == 0, "groups %d %d %d %d", m.group[0],
          m.group[1], m.group[2], m.group[3]);
    ADD(&m, ((int32_t[]){ 0, 3, 1 }), ((int32_t[]){ 1, 3 })); /* hits at places 2 and 3 */
    wisp_metrics_add(&m, (int32_t[]){ 0, 1, 2 }, 3, NULL, 0);
    CHECK(m.n_rows == 2 && m.n_unlabelled == 1, "%zu rows, %zu unlabelled", m.n_rows,
          m.n_unlabelled);
    SAME(wisp_metrics_p(&m, 0), 0);
    SAME(wisp_metrics_p(&m, 1), 100 * (2 / 3.0) / 2);
    SAME(wisp_metrics_p(&m, 2), 100 * (2 / 5.0) / 2);
    SAME(wisp_metrics_r(&m, 1), 50);
    SAME(wisp_metrics_ndcg(&m, 1), 50 * (1 / log2(3) + 1 / log2(4)) / (1 + 1 / log2(3)));
    SAME(wisp_metrics_psp(&m, 0), 0);
    SAME(m.psp_best[0], 1 + c);
    SAME(wisp_metrics_psp(&m, 1), 100);
    SAME(wisp_metrics_group_p(&m, 0, 1), 0);
    SAME(wisp_metrics_group_p(&m, 1, 1), 100 / 3.0);
    SAME(wisp_metrics_group_p(&m, 2, 2), 100 / 5.0);
    ADD(&m, ((int32_t[]){ 2, -1, 0 }), ((int32_t[]){ 0, 9 })); /* 9 is unknown, 0 after the end */
    SAME(m.psp_best[1], (1 + c) + (1 + c / 3) + (1 + c) + (1 + c / 6));
    SAME(wisp_metrics_psp(&m, 1), 100 * (2 + c + c / 3) / m.psp_best[1]);
    CHECK(m.group_rows[0] == 1 && m.group_rows[1] == 1 && m.group_rows[2] == 1, "group rows");
    ADD(&m, ((int32_t[]){ 9, 0 }), ((int32_t[]){ 0, 9 })); /* a ranked 9 is no hit */
    SAME(wisp_metrics_p(&m, 0), 0);
    SAME(wisp_metrics_group_p(&m, 0, 1), 100 * (1 / 3.0) / 2);
    wisp_metrics_clear(&m);

    TEST("metrics: groups are cut at thirds");
    static const int64_t even[] = { 0, 2, 2, 2, 0, 2, 2, 2 };
    CHECK(wisp_metrics_init(&m, cuts, 1, even, 8, 12, 0.55, 1.5, &err) == WISP_OK, "%s", err.text);
    CHECK(memcmp(m.group, (uint8_t[]){ 2, 0, 0, 1, 2, 1, 2, 2 }, 8) == 0, "equal counts, by id");
    SAME(wisp_metrics_p(&m, 0), 0);
    SAME(wisp_metrics_psp(&m, 0), 0);
    SAME(wisp_metrics_group_p(&m, 1, 0), 0);
    wisp_metrics_clear(&m);
}

static void test_edges(void)
{
    static const size_t cuts[] = { 1, 3, 3, 0 };
    static const int64_t counts[] = { 1, -1 };
    struct wisp_metrics m;
    TEST("metrics: bad arguments are refused");
    CHECK(wisp_metrics_init(&m, cuts, 3, counts, 1, 9, 1, 1, &err) == WISP_EINVAL, "3,3");
    CHECK(wisp_metrics_init(&m, cuts + 3, 1, counts, 1, 9, 1, 1, &err) == WISP_EINVAL, "0");
    CHECK(wisp_metrics_init(&m, cuts, 0, counts, 1, 9, 1, 1, &err) == WISP_EINVAL, "no cuts");
    CHECK(wisp_metrics_init(&m, cuts, 9, counts, 1, 9, 1, 1, &err) == WISP_EINVAL, "9 cuts");
    CHECK(wisp_metrics_init(&m, cuts, 1, counts, 2, 9, 1, 1, &err) == WISP_EINVAL, "count -1");
    CHECK(wisp_metrics_init(&m, cuts, 1, counts, 1, 9, -1, 1, &err) == WISP_EINVAL, "A");
    CHECK(wisp_metrics_init(&m, cuts, 1, counts, 1, 9, 1, 0, &err) == WISP_EINVAL, "B");
    CHECK(wisp_metrics_init(&m, cuts, 1, counts, 1, 9, NAN, 1, &err) == WISP_EINVAL, "NaN");
    CHECK(wisp_metrics_init(&m, cuts, 1, counts, 1, 9, 99, 1e-300, &err) == WISP_EINVAL,
          "infinite");

    TEST("metrics: a handful of training rows, or no labels at all");
    for (size_t n = 0; n < 3; n++) {
        CHECK(wisp_metrics_init(&m, cuts, 1, counts, 1, n, .55, 1.5, &err) == WISP_OK, "%s",
              err.text);
        SAME(m.inverse[0], 1);
        wisp_metrics_clear(&m);
    }
    CHECK(wisp_metrics_init(&m, cuts, 2, NULL, 0, 5, .55, 1.5, &err) == WISP_OK, "%s", err.text);
    ADD(&m, ((int32_t[]){ -1 }), ((int32_t[]){ 3 }));
    SAME(wisp_metrics_r(&m, 1), 0);
    wisp_metrics_clear(&m);

    TEST("metrics: the n-th allocation fails");
    for (long n = 0;; n++) {
        wisp_mem_budget = n;
        wisp_status st = wisp_metrics_init(&m, cuts, 2, counts, 1, 9, 1, 1, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && wisp_mem_live == 0 && !m.inverse, "after %ld: %s", n, err.text);
        CHECK(n < 20, "never succeeds");
    }
    wisp_metrics_clear(&m);
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
}

/* ---- the golden instance ---- */

/* Numbers up to something that is none; returns what follows. */
static char *numbers(char *p, int64_t *out, size_t *n)
{
    for (*n = 0;; (*n)++) {
        char *end;
        long long v = strtoll(p, &end, 10);
        if (end == p || *n == 100) return p;
        out[*n] = v;
        p = end;
    }
}

static void add_row(struct wisp_metrics *m, char *p)
{
    int64_t v[100];
    int32_t ranked[100], truth[100];
    size_t n_ranked, n_truth;
    p = numbers(p, v, &n_ranked);
    for (size_t i = 0; i < n_ranked; i++) ranked[i] = (int32_t)v[i];
    numbers(strchr(p, '|') + 1, v, &n_truth);
    for (size_t i = 0; i < n_truth; i++) truth[i] = (int32_t)v[i];
    wisp_metrics_add(m, ranked, n_ranked, truth, n_truth);
}

static double value(const struct wisp_metrics *m, const char *name, size_t cut)
{
    if (strcmp(name, "p") == 0) return wisp_metrics_p(m, cut);
    if (strcmp(name, "r") == 0) return wisp_metrics_r(m, cut);
    if (strcmp(name, "ndcg") == 0) return wisp_metrics_ndcg(m, cut);
    if (strcmp(name, "psp") == 0) return wisp_metrics_psp(m, cut);
    if (strcmp(name, "head") == 0) return wisp_metrics_group_p(m, 0, cut);
    if (strcmp(name, "middle") == 0) return wisp_metrics_group_p(m, 1, cut);
    if (strcmp(name, "tail") == 0) return wisp_metrics_group_p(m, 2, cut);
    return NAN;
}

static void test_golden(void)
{
    TEST("metrics: a random instance agrees with numpy");
    FILE *f = fopen("tests/golden/metrics.txt", "r");
    CHECK(f != NULL, "tests/golden/metrics.txt is missing");
    if (!f) return;
    struct wisp_metrics m = { 0 };
    int64_t v[100], counts[100];
    size_t cuts[WISP_MAX_CUTS], n_cuts = 0, n_counts = 0, n_train = 0, k, n_rows = 0,
                                n_expected = 0;
    double a = 0, b = 0, want;
    char line[2000], name[20];
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "cuts", 4) == 0) {
            numbers(line + 4, v, &n_cuts);
            for (size_t i = 0; i < n_cuts; i++) cuts[i] = (size_t)v[i];
        } else if (strncmp(line, "counts", 6) == 0) {
            numbers(line + 6, counts, &n_counts);
            wisp_status st =
                wisp_metrics_init(&m, cuts, n_cuts, counts, n_counts, n_train, a, b, &err);
            CHECK(st == WISP_OK, "%s", err.text);
            if (st != WISP_OK) break;
        } else if (strncmp(line, "row", 3) == 0) {
            add_row(&m, line + 3);
            n_rows++;
        } else if (sscanf(line, "expect %19[a-z]@%zu %lf", name, &k, &want) == 3) {
            size_t cut = 0;
            while (cut < n_cuts && cuts[cut] != k) cut++;
            CHECK(cut < n_cuts && near(value(&m, name, cut), want, 1e-9),
                  "%s@%zu: %.15g, expected %.15g", name, k, value(&m, name, cut), want);
            n_expected++;
        } else if (sscanf(line, "propensity %lf %lf", &a, &b) != 2) {
            CHECK(sscanf(line, "train %zu", &n_train) == 1, "not understood: %s", line);
        }
    }
    CHECK(n_rows == 150 && n_expected == 21, "%zu rows, %zu values", n_rows, n_expected);
    CHECK(m.n_unlabelled > 5, "%zu unlabelled rows", m.n_unlabelled);
    wisp_metrics_clear(&m);
    fclose(f);
}

int main(void)
{
    test_by_hand();
    test_edges();
    test_golden();
    return test_end();
}
