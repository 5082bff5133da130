/* Sparse prediction against exact, what it counts, and the index in the model file. */
#include "model_rig.h"

#include <math.h>

enum { FEATURES = 120, LABELS = 100, MANY = 600, K = 5 };

static struct wisp_kernels counting;
static void (*plain_dots)(float *out, const float *w, size_t ld, const int32_t *idx, size_t m,
                          const float *x, size_t n);
static atomic_ullong n_dots; /* rows that were multiplied one by one */

static void count_dots(float *out, const float *w, size_t ld, const int32_t *idx, size_t m,
                       const float *x, size_t n)
{
    atomic_fetch_add(&n_dots, m);
    plain_dots(out, w, ld, idx, m, x, n);
}

/* ---- rows and models ---- */

/* A feature stands for a few labels; row 3 of ten has no feature, row 4 no label. */
static wisp_data *planted(size_t n, size_t n_labels)
{
    int64_t *xp = calloc(n + 1, 8), *yp = calloc(n + 1, 8);
    int32_t *xi = calloc(n * 2, 4), *yi = calloc(n, 4);
    float *xv = calloc(n * 2, 4);
    wisp_data *d = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t f = test_rand(&seed) % (FEATURES / 2), x = (size_t)xp[i], y = (size_t)yp[i];
        if (i % 10 != 3) {
            xi[x] = (int32_t)f, xv[x++] = 1;
            xi[x] = (int32_t)(FEATURES / 2 + test_rand(&seed) % (FEATURES / 2 - 1));
            xv[x++] = 1; /* the last feature is in no row */
        }
        if (i % 10 != 4) yi[y++] = (int32_t)((f * 7 + test_rand(&seed) % 3) % n_labels);
        xp[i + 1] = (int64_t)x, yp[i + 1] = (int64_t)y;
    }
    CHECK(wisp_data_from_csr(&d, n, FEATURES, n_labels, xp, xi, xv, yp, yi, &err) == WISP_OK, "%s",
          err.text);
    free(xp), free(yp), free(xi), free(yi), free(xv);
    return d;
}

struct answers {
    size_t n, k;
    int32_t *label;
    float *score;
};

static struct answers ask(wisp_context *with, struct wisp_model *m, const wisp_data *d, size_t k,
                          const char *how)
{
    struct answers a = { d->n_rows, k, malloc(d->n_rows * k * 4), malloc(d->n_rows * k * 4) };
    char settings[60]; /* raw: exact and sparse compare */
    snprintf(settings, sizeof settings, "inference %s scores raw", how);
    CHECK(predict_so(a.label, a.score, with, m, d, 0, a.n, k, settings) == WISP_OK, "%s", err.text);
    return a;
}

static void forget(struct answers *a)
{
    free(a->label);
    free(a->score);
}

/* k different labels in range, best first. */
static void check_answers(const struct answers *a, size_t n_labels)
{
    for (size_t i = 0; i < a->n; i++) {
        unsigned char seen[MANY] = { 0 };
        const int32_t *l = a->label + i * a->k;
        const float *s = a->score + i * a->k;
        for (size_t c = 0; c < a->k; c++) {
            bool there = c < n_labels;
            CHECK(there ? l[c] >= 0 && (size_t)l[c] < n_labels && !seen[l[c]]++ : l[c] == -1,
                  "row %zu, place %zu of %zu: label %d", i, c, a->k, l[c]);
            CHECK(there ? c == 0 || s[c] <= s[c - 1] : s[c] == 0, "row %zu, place %zu: %g", i, c,
                  (double)s[c]);
            if (test_bad) return;
        }
    }
}

/* ---- an index that names every label ---- */

static struct wisp_votes all_labels(void)
{
    static int64_t start[FEATURES + 1];
    static int32_t label[FEATURES * LABELS];
    static float weight[FEATURES * LABELS];
    for (int32_t f = 0; f < FEATURES; f++) {
        start[f + 1] = (f + 1) * LABELS;
        for (int32_t l = 0; l < LABELS; l++)
            label[f * LABELS + l] = (l + f) % LABELS, weight[f * LABELS + l] = 1;
    }
    return (struct wisp_votes){ FEATURES, start, label, weight };
}

static void test_exact(void)
{
    static const char *const losses[] = { "bce", "softmax" };
    wisp_data *d = planted(600, LABELS);
    TEST("sparse: as exact where the index names every label");
    for (int loss = 0; loss < 2; loss++) {
        char more[100];
        snprintf(more, sizeof more, "index yes epochs 4 loss %s", losses[loss]);
        struct wisp_model *m = rig_trained(d, more);
        struct wisp_votes own = m->votes;
        m->votes = all_labels();
        struct answers a = ask(ctx, m, d, K, "exact"), b = ask(ctx, m, d, K, "sparse");
        check_answers(&a, LABELS), check_answers(&b, LABELS);
        for (size_t i = 0; i < a.n * K; i++) {
            if (i / K % 10 == 3) continue; /* no feature: frequent labels, see below */
            float off = fabsf(a.score[i] - b.score[i]);
            CHECK(off <= 1e-5f * a.score[i], "%s, row %zu: %g, exact %g", losses[loss], i / K,
                  (double)b.score[i], (double)a.score[i]);
            bool tied = (i % K > 0 && a.score[i - 1] - a.score[i] <= 1e-5f * a.score[i]) ||
                        (i % K + 1 < K ? a.score[i] - a.score[i + 1] <= 1e-5f * a.score[i] : false);
            CHECK(a.label[i] == b.label[i] || tied || i % K + 1 == K, "%s, row %zu: %d, exact %d",
                  losses[loss], i / K, b.label[i], a.label[i]);
        }
        forget(&a), forget(&b);
        m->votes = own;
        wisp_model_free(m);
    }
    wisp_data_free(d);
}

/* ---- always k answers ---- */

static int64_t at_least(const struct wisp_model *m, size_t n)
{
    for (int64_t count = 10000; count > 0; count--) { /* the largest that n labels reach */
        size_t reach = 0;
        for (size_t l = 0; l < m->net.n_labels; l++) reach += m->label_rows[l] >= count;
        if (reach >= n) return count;
    }
    return 0;
}

static void test_all_answered(void)
{
    static const size_t ks[] = { 1, K, 255, 256, 257, 300, MANY, MANY + 50 };
    wisp_data *d = planted(500, MANY);
    struct wisp_model *m = rig_trained(d, "index yes epochs 2");
    TEST("sparse: k different answers for any k; the most frequent where no feature speaks");
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        struct answers a = ask(ctx, m, d, ks[i], "sparse");
        check_answers(&a, MANY);
        forget(&a);
    }
    struct answers a = ask(ctx, m, d, K, "sparse");
    for (size_t i = 3; i < a.n; i += 10)
        for (size_t c = 0; c < K; c++)
            CHECK(m->label_rows[a.label[i * K + c]] >= at_least(m, K), "row %zu: label %d", i,
                  a.label[i * K + c]);
    forget(&a);
    wisp_model_free(m);
    wisp_data_free(d);
}

static void test_softmax(void)
{
    wisp_data *d = planted(500, MANY);
    struct wisp_model *m = rig_trained(d, "index yes epochs 4 loss softmax");
    TEST("sparse: softmax probabilities are shares of what was scored");
    struct answers some = ask(ctx, m, d, K, "sparse"), exact = ask(ctx, m, d, K, "exact");
    double most = 0;
    for (size_t i = 0; i < some.n; i++) {
        double sum = 0;
        for (size_t c = 0; c < K; c++) sum += some.score[i * K + c];
        CHECK(sum <= 1 + 1e-6 && sum > 0, "row %zu: sum %g", i, sum);
        most = fmax(most, sum);
        if (some.label[i * K] == exact.label[i * K]) /* shares of fewer: larger */
            CHECK(some.score[i * K] >= exact.score[i * K] * (1 - 1e-5f), "row %zu: %g < %g", i,
                  (double)some.score[i * K], (double)exact.score[i * K]);
        if (i % 10 == 3) CHECK(fabs(sum - 1) < 1e-5, "row %zu: %d scored, sum %g", i, K, sum);
    }
    CHECK(most > 0.5, "the largest sum is %g", most);
    forget(&some), forget(&exact);
    wisp_model_free(m);
    wisp_data_free(d);
}

/* ---- what is counted, threads, memory ---- */

static wisp_report *evaluate(wisp_context *with, const struct wisp_model *m, const wisp_data *d,
                             const char *more)
{
    wisp_config *c = config(more);
    wisp_report *r = NULL;
    CHECK(wisp_eval(&r, with, m, d, c, &err) == WISP_OK, "%s", err.text);
    wisp_config_free(c);
    return r;
}

static double value(const wisp_report *r, const char *key)
{
    double v = -1;
    CHECK(r && wisp_report_get(r, key, &v), "the report has no %s", key);
    return v;
}

static void test_counts(void)
{
    static const int threads[] = { 1, 3 };
    wisp_data *d = planted(700, MANY);
    struct wisp_model *m = rig_trained(d, "index yes epochs 12 lr 0.05 loss bce");
    struct answers first = ask(ctx, m, d, K, "sparse"), exact = ask(ctx, m, d, K, "exact");
    TEST("sparse: scored_mean is what kernels computed; recall; 1 and 3 threads the same");
    for (int i = 0; i < 2; i++) {
        wisp_context *own;
        CHECK(wisp_context_create(&own, threads[i], &err) == WISP_OK, "%s", err.text);
        struct answers a = ask(own, m, d, K, "sparse");
        CHECK(memcmp(a.label, first.label, a.n * K * 4) == 0 &&
                  memcmp(a.score, first.score, a.n * K * 4) == 0,
              "%d threads: other answers", threads[i]);
        forget(&a);
        wisp_context counted = *own;
        counting = *own->k;
        plain_dots = counting.dots, counting.dots = count_dots;
        counted.k = &counting;
        n_dots = 0;
        wisp_report *r = evaluate(&counted, m, d, "inference sparse");
        double scored = value(r, "scored_mean"), hits = 0, best = 0;
        CHECK(n_dots > 0 && fabs(scored * (double)d->n_rows - (double)n_dots) < 0.5,
              "%d threads: scored_mean %g, counted %g", threads[i], scored,
              (double)n_dots / (double)d->n_rows);
        CHECK(scored < MANY / 4, "%g rows scored", scored);
        for (size_t x = 0; x < first.n; x++) {
            best += first.label[x * K] == exact.label[x * K];
            for (size_t y = 0; y < K * K; y++)
                hits += first.label[x * K + y / K] == exact.label[x * K + y % K];
        }
        CHECK(fabs(value(r, "recall@5") - hits / K / (double)first.n) < 1e-6 &&
                  fabs(value(r, "recall@1") - best / (double)first.n) < 1e-6,
              "recall %g, counted %g", value(r, "recall@5"), hits / K / (double)first.n);
        CHECK(value(r, "recall@1") > 0.7, "recall@1 %g", value(r, "recall@1"));
        wisp_report *plain = evaluate(own, m, d, "inference exact");
        double none;
        CHECK(value(plain, "p@1") == value(r, "exact_p@1") &&
                  value(plain, "p@5") == value(r, "exact_p@5"),
              "exact p@1 %g and %g", value(plain, "p@1"), value(r, "exact_p@1"));
        CHECK(!wisp_report_get(plain, "recall@1", &none) &&
                  !wisp_report_get(plain, "scored_mean", &none),
              "an exact report speaks of sparse");
        wisp_report_free(plain);
        wisp_report_free(r);
        wisp_context_free(own);
    }
    forget(&first), forget(&exact);
    wisp_model_free(m);
    wisp_data_free(d);
}

static void test_memory(void)
{
    wisp_data *d = planted(60, MANY);
    struct wisp_model *m = rig_trained(d, "index yes");
    wisp_config *c = config("inference sparse");
    wisp_report *r = NULL;
    TEST("sparse: each failing allocation of an evaluation");
    long live = wisp_mem_live, n = 0;
    for (;; n++) {
        wisp_mem_budget = n;
        wisp_status st = wisp_eval(&r, ctx, m, d, c, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && !r && wisp_mem_live == live, "after %ld: %s, %ld blocks", n,
              err.text, (long)wisp_mem_live - live);
    }
    CHECK(n > 20, "%ld allocations", n);
    wisp_report_free(r);
    wisp_config_free(c);
    wisp_model_free(m);
    wisp_data_free(d);
}

/* ---- the model file ---- */

static bool same_votes(const struct wisp_votes *a, const struct wisp_votes *b)
{
    size_t n = a->n_features + 1;
    if (n != b->n_features + 1 || memcmp(a->start, b->start, n * sizeof *a->start) != 0)
        return false;
    n = (size_t)a->start[n - 1];
    return memcmp(a->label, b->label, n * sizeof *a->label) == 0 &&
           memcmp(a->weight, b->weight, n * sizeof *a->weight) == 0;
}

static void test_kept(void)
{
    static const struct {
        const char *more;
        bool kept;
    } ways[] = { { "index yes", true },
                 { "index no", false },
                 { "index auto", false }, /* few labels */
                 { "index no sampling features", false },
                 { "index yes sampling features", true },
                 { "index auto sampling features+random", false } };
    wisp_data *d = planted(300, LABELS);
    TEST("file: --index yes keeps the index, no leaves none, auto keeps none for few labels");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char more[100];
        snprintf(more, sizeof more, "%s holdout 0 seed 5", ways[i].more);
        struct wisp_model *m = rig_trained(d, more), *again = NULL;
        CHECK(!!m->votes.start == ways[i].kept, "'%s'", ways[i].more);
        wisp_config *sparse = config("inference sparse");
        wisp_status st = wisp_predictor_check(m, sparse, &err);
        CHECK(st == (ways[i].kept ? WISP_OK : WISP_ENOTSUP), "'%s': %d", ways[i].more, st);
        if (!ways[i].kept)
            CHECK(strstr(err.text, "no index; train it with --index yes"), "%s", err.text);
        wisp_predictor *p = predictor_so(ctx, m, 1, "inference sparse");
        CHECK(!!p == ways[i].kept, "'%s': %s", ways[i].more, err.text);
        wisp_predictor_free(p);
        CHECK(wisp_config_set(sparse, "inference", "fast", &err) == WISP_EINVAL, "fast");
        wisp_config_free(sparse);
        if (m->votes.start) {
            struct wisp_votes v;
            CHECK(wisp_votes_make(&v, ctx, d, d->n_features, &m->values, 5, &err) == WISP_OK, "%s",
                  err.text);
            CHECK(same_votes(&v, &m->votes), "'%s': not the index of these rows", ways[i].more);
            CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK &&
                      wisp_model_load(&again, other, &err) == WISP_OK,
                  "%s", err.text);
            CHECK(again && again->votes.start && same_votes(&v, &again->votes), "saved again");
            wisp_model_free(again);
            wisp_votes_clear(&v);
        }
        wisp_model_free(m);
    }
    wisp_data_free(d);
}

/* Labels that nobody has: an index without a vote. */
static void test_no_votes(void)
{
    static const int64_t xp[] = { 0, 1, 2, 3 }, yp[] = { 0, 1, 1, 1 };
    static const int32_t xi[] = { 0, 1, 2 }, yi[] = { 1 };
    static const float xv[] = { 1, 1, 1 };
    wisp_data *d;
    TEST("file: an index without a single vote");
    CHECK(wisp_data_from_csr(&d, 3, 3, 9, xp, xi, xv, yp, yi, &err) == WISP_OK, "%s", err.text);
    struct wisp_model *m = rig_trained(d, "index yes holdout 0"), *none = NULL;
    struct wisp_votes own = m->votes;
    int64_t zeros[4] = { 0 };
    m->votes = (struct wisp_votes){ 3, zeros, own.label, own.weight };
    CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK &&
              wisp_model_load(&none, other, &err) == WISP_OK,
          "%s", err.text);
    m->votes = own;
    if (none) {
        struct answers a = ask(ctx, none, d, K, "sparse");
        check_answers(&a, 9);
        for (size_t i = 0; i < 3; i++) {
            bool found = false;
            for (size_t c = 0; c < K; c++) found |= a.label[i * K + c] == 1;
            CHECK(found, "row %zu: the only frequent label is not there", i);
        }
        forget(&a);
    }
    wisp_model_free(none);
    wisp_model_free(m);
    wisp_data_free(d);
}

enum { START, LABEL, WEIGHT };
static const char *const names[] = { "votes.start", "votes.label", "votes.weight" };
static const struct fault {
    const char *what, *text;
    int tensor;
    enum { MISSING, DTYPE, SHORTER, DIMS, PUT } how;
    size_t place; /* SIZE_MAX: the last */
    int64_t value;
} faults[] = {
    { "no starts", "'votes.start' is missing", START, MISSING, 0, 0 },
    { "no labels", "'votes.label' is missing", LABEL, MISSING, 0, 0 },
    { "no weights", "'votes.weight' is missing", WEIGHT, MISSING, 0, 0 },
    { "starts of another type", "'votes.start' has another type or shape", START, DTYPE, 0, 0 },
    { "labels of another type", "'votes.label' has another type or shape", LABEL, DTYPE, 0, 0 },
    { "weights of another type", "'votes.weight' has another type or shape", WEIGHT, DTYPE, 0, 0 },
    { "a start too few", "'votes.start' has another type or shape", START, SHORTER, 0, 0 },
    { "a label too few", "'votes.label' has another type or shape", LABEL, SHORTER, 0, 0 },
    { "a weight too few", "'votes.weight' has another type or shape", WEIGHT, SHORTER, 0, 0 },
    { "labels in rows", "'votes.label' has another type or shape", LABEL, DIMS, 0, 0 },
    { "first start 1", "out of range", START, PUT, 0, 1 },
    { "a negative start", "out of range", START, PUT, 0, -1 },
    { "starts that descend", "out of range", START, PUT, 5, 1 << 20 },
    { "a start below 0", "out of range", START, PUT, 5, -4 },
    { "more than there are", "'votes.label' has another type", START, PUT, SIZE_MAX, 1 << 20 },
    { "as many as memory", "'votes.label' has another type", START, PUT, SIZE_MAX, INT64_MAX },
    { "a label too large", "out of range", LABEL, PUT, SIZE_MAX, LABELS },
    { "a label below 0", "out of range", LABEL, PUT, 0, -1 },
};

/* The tensor with its fault; 'copy' holds what must be changed. */
static void spoil(struct wisp_tensor *t, const struct fault *f, unsigned char *copy)
{
    size_t size = wisp_dtypes[t->dtype].bytes, n = t->shape[0];
    if (f->how == DTYPE) { /* of the same size, or as bytes */
        t->dtype = f->tensor == LABEL ? WISP_F32 : f->tensor == WEIGHT ? WISP_I32 : WISP_U8;
        t->shape[0] = t->bytes / wisp_dtypes[t->dtype].bytes;
    } else if (f->how == SHORTER) {
        t->shape[0]--, t->bytes -= size;
    } else if (f->how == DIMS) {
        t->n_dims = 2, t->shape[1] = 1;
    } else {
        size_t place = f->place == SIZE_MAX ? n - 1 : f->place;
        int32_t small = (int32_t)f->value;
        memcpy(copy, t->data, t->bytes);
        memcpy(copy + place * size, size == 8 ? (const void *)&f->value : &small, size);
        t->data = copy;
    }
}

static void test_refused(void)
{
    wisp_data *d = planted(300, LABELS);
    struct wisp_model *m = rig_trained(d, "index yes"), *bad;
    const struct wisp_tensor_file *file = &m->file;
    struct wisp_tensor *t = calloc(file->n_tensors, sizeof *t);
    unsigned char *copy = malloc(file->map.bytes);
    TEST("file: a damaged index is refused with a reason");
    for (size_t i = 0; i <= sizeof faults / sizeof *faults; i++) {
        const struct fault *f = i ? &faults[i - 1] : NULL; /* first without a fault */
        size_t n = 0;
        for (size_t k = 0; k < file->n_tensors; k++) {
            bool it = f && strcmp(file->tensors[k].name, names[f->tensor]) == 0;
            if (it && f->how == MISSING) continue;
            t[n] = file->tensors[k];
            if (it) spoil(&t[n], f, copy);
            n++;
        }
        CHECK(wisp_tensor_file_write(other, t, n, file->meta, file->n_meta, NULL, &err) == WISP_OK,
              "%s", err.text);
        wisp_status st = wisp_model_load(&bad, other, &err);
        if (!f) CHECK(st == WISP_OK && same_votes(&bad->votes, &m->votes), "%s", err.text);
        else
            CHECK(st == WISP_EMODEL && !bad && strstr(err.text, f->text) && strstr(err.text, other),
                  "%s: %d, '%s'", f->what, st, err.text);
        wisp_model_free(bad);
    }
    free(t);
    free(copy);
    wisp_model_free(m);
    wisp_data_free(d);
}

int main(void)
{
    rig_init();
    test_exact();
    test_all_answered();
    test_softmax();
    test_counts();
    test_memory();
    test_kept();
    test_no_votes();
    test_refused();
    return rig_end();
}
