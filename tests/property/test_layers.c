/* Layers and losses against finite differences, and the best labels against a plain sort.
 *
 * backward() moves parameters through step->update; here that is a recorder, which copies each
 * row's gradient beside the parameters and moves nothing.  Random nets and random batches; every
 * loss of the table, every instruction set, all rows active or some of them.
 *
 * The numeric derivative is (L(w + h) - L(w - h)) / 2h with L the mean loss, along single weights
 * and along whole directions.  A float loss is too coarse for a small h, and with a large one some
 * ReLU of the batch is always at its kink; so L is a second forward pass in double, written as
 * plainly as possible, which the real one has to equal first.  Where the two one-sided differences
 * disagree there is a kink in between, and h is made smaller once. */
#include "test.h"
#include "base/mem.h"
#include "data/data.h"
#include "layer/output.h"
#include "model/batch.h"
#include "model/net.h"

#include <math.h>
#include <string.h>

static struct wisp_error err;
static uint64_t seed;
static const char *const tested[] = { "input", "dense", "relu", "dropout", "output" };
enum { N_TESTED = sizeof tested / sizeof *tested };
static int times_tested[N_TESTED];

/* ---- what a test works with ---- */

struct recorder {
    struct wisp_update update; /* first */
    const float *params;       /* the net's block: gradients lie in g as the weights do in it */
    float *g;
    unsigned char *hits; /* at a row's first weight: how often the row was moved */
};

static void record(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    const struct recorder *r = (const struct recorder *)u;
    size_t at = (size_t)(p->w - r->params) + row * p->cols;
    memcpy(r->g + at, g, p->cols * sizeof *g);
    r->hits[at]++;
}

struct rig { /* a net with a batch on it */
    char spec[200];
    size_t n_features, n_labels, floats;
    struct wisp_context ctx;
    struct wisp_net net;
    struct wisp_data *data;
    struct wisp_layout layout;
    struct recorder rec;
    struct wisp_step step;
    int32_t *rows; /* a subset of the labels, with all true ones */
    size_t n_rows;
    double *w;    /* the parameters once more, laid out in the same way */
    double *x[2]; /* (n, widest) values between layers, in double */
    float *mask;  /* (layers, n, widest) what dropout multiplies by */
    size_t widest;
};

static size_t below(size_t n)
{
    return (size_t)(test_rand(&seed) % n);
}

static void count_kind(const char *name)
{
    for (size_t i = 0; i < N_TESTED; i++) times_tested[i] += strcmp(tested[i], name) == 0;
}

/* "input 13, relu, dropout 0.3, dense 5, ..." with 1 to 3 layers that have weights. */
static void random_spec(char *spec, size_t room, int hidden)
{
    size_t at = 0;
    for (int i = 0; i < hidden; i++) {
        at += (size_t)snprintf(spec + at, room - at, "%s%s %zu", i ? ", " : "",
                               i ? "dense" : "input", 1 + below(35));
        count_kind(i ? "dense" : "input");
        if (below(4)) {
            at += (size_t)snprintf(spec + at, room - at, ", relu");
            count_kind("relu");
        }
        if (below(2)) {
            at += (size_t)snprintf(spec + at, room - at, ", dropout %.2f", 0.1 * (double)below(6));
            count_kind("dropout");
        }
    }
    count_kind("output");
}

/* n ids out of 'all', ascending, without repeats. */
static size_t some_ids(int32_t *to, size_t n, size_t all)
{
    size_t got = 0;
    for (size_t id = 0; id < all && got < n; id++)
        if (below(all - id) < n - got) to[got++] = (int32_t)id;
    return got;
}

static struct wisp_data *random_data(size_t n, size_t n_features, size_t n_labels)
{
    enum { MOST = 12 };
    int64_t *xp = calloc(n + 1, sizeof *xp), *yp = calloc(n + 1, sizeof *yp);
    int32_t *xi = calloc(n * MOST, sizeof *xi), *yi = calloc(n * MOST, sizeof *yi);
    float *xv = calloc(n * MOST, sizeof *xv);
    size_t common = below(n_labels); /* a label that many rows share */
    for (size_t i = 0; i < n; i++) {
        size_t f = i % 7 == 3 ? 0 : below(MOST), l = i % 5 == 4 ? 0 : 1 + below(4);
        xp[i + 1] =
            xp[i] + (int64_t)some_ids(xi + xp[i], f < n_features ? f : n_features, n_features);
        for (int64_t e = xp[i]; e < xp[i + 1]; e++) xv[e] = 0.2f + 1.5f * test_randf(&seed);
        size_t got = some_ids(yi + yp[i], l < n_labels ? l : n_labels, n_labels);
        if (got && i % 2) yi[yp[i] + (int64_t)--got] = (int32_t)common, got++;
        yp[i + 1] = yp[i] + (int64_t)got;
    }
    struct wisp_data *d;
    wisp_status st = wisp_data_from_csr(&d, n, n_features, n_labels, xp, xi, xv, yp, yi, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    free(xp), free(yp), free(xi), free(yi), free(xv);
    return d;
}

static void random_weights(struct wisp_net *net)
{
    for (int i = 0; i < net->n_layers; i++)
        for (int k = 0; k < net->layers[i].n_params; k++) {
            struct wisp_param *p = &net->layers[i].params[k];
            bool last = i == net->n_layers - 1;
            double fan = last ? (double)net->layers[i].n_in : i ? (double)p->rows : 3;
            for (size_t e = 0; e < p->rows * p->cols; e++)
                p->w[e] = k ? test_randf(&seed) * 0.5f - (last ? 1.5f : 0)
                            : (float)(test_randf(&seed) * 2 / sqrt(fan));
        }
}

/* The labels of the batch and about half of the others. */
static void random_active(struct rig *r)
{
    char *take = calloc(r->n_labels, 1);
    for (size_t l = 0; l < r->n_labels; l++) take[l] = below(2) != 0;
    for (size_t i = 0; i < r->layout.batch.yp[r->layout.batch.n]; i++)
        take[r->layout.batch.yi[i]] = 1;
    take[below(r->n_labels)] = 1; /* never none */
    r->rows = calloc(r->n_labels, sizeof *r->rows);
    for (size_t l = 0; l < r->n_labels; l++)
        if (take[l]) r->rows[r->n_rows++] = (int32_t)l;
    free(take);
}

/* ---- the forward pass again, in double ---- */

static void ref_multiply(double *out, const double *in, const double *w, const double *bias,
                         size_t n, size_t n_in, size_t n_out)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(out + i * n_out, bias, n_out * sizeof *out);
        for (size_t k = 0; k < n_in; k++)
            for (size_t j = 0; j < n_out; j++)
                out[i * n_out + j] += in[i * n_in + k] * w[k * n_out + j];
    }
}

static void ref_input(double *out, const struct wisp_batch *b, const double *w, const double *bias,
                      size_t n_out)
{
    for (size_t i = 0; i < b->n; i++) {
        memcpy(out + i * n_out, bias, n_out * sizeof *out);
        for (uint32_t e = b->xp[i]; e < b->xp[i + 1]; e++)
            for (size_t j = 0; j < n_out; j++)
                out[i * n_out + j] += b->xv[e] * w[(size_t)b->xi[e] * n_out + j];
    }
}

/* Loss of one sample from its logits z over the active rows. */
static double ref_loss(const struct rig *r, const double *z, size_t sample)
{
    const struct wisp_batch *b = r->step.batch;
    const struct wisp_active *a = &r->step.active;
    size_t n_true = b->yp[sample + 1] - b->yp[sample];
    double sum = 0, of_true = 0;
    for (uint32_t e = b->yp[sample]; e < b->yp[sample + 1]; e++)
        of_true += z[wisp_active_place(a, b->yi[e])];
    bool softmax = strcmp(r->step.loss->name, "softmax") == 0;
    for (size_t i = 0; i < a->n; i++) sum += softmax ? exp(z[i]) : log1p(exp(z[i]));
    if (!softmax) return sum - of_true;
    return n_true ? log(sum) - of_true / (double)n_true : 0;
}

static double ref_output(const struct rig *r, const struct wisp_layer *l, const double *h,
                         const double *w, const double *bias)
{
    const struct wisp_active *a = &r->step.active;
    double total = 0, *z = malloc(a->n * sizeof *z);
    for (size_t i = 0; i < r->step.batch->n; i++) {
        for (size_t p = 0; p < a->n; p++) {
            size_t row = a->rows ? (size_t)a->rows[p] : p;
            z[p] = bias[row];
            for (size_t k = 0; k < l->n_in; k++) z[p] += w[row * l->n_in + k] * h[i * l->n_in + k];
        }
        total += ref_loss(r, z, i);
    }
    free(z);
    return total / (double)r->step.batch->n;
}

static double mean_loss(const struct rig *r)
{
    size_t n = r->step.batch->n;
    double *in = r->x[0], *out = r->x[1], *t;
    for (int i = 0;; i++) {
        const struct wisp_layer *l = &r->net.layers[i];
        const double *w = l->n_params ? r->w + (l->params[0].w - r->net.params) : NULL;
        const double *bias = l->n_params ? r->w + (l->params[1].w - r->net.params) : NULL;
        const float *mask = r->mask + (size_t)i * n * r->widest;
        if (l->kind == &wisp_layer_output) return ref_output(r, l, in, w, bias);
        if (l->kind == &wisp_layer_input) ref_input(out, r->step.batch, w, bias, l->n_out);
        if (l->kind == &wisp_layer_dense) ref_multiply(out, in, w, bias, n, l->n_in, l->n_out);
        for (size_t e = 0; e < n * l->n_out; e++) {
            if (l->kind == &wisp_layer_relu) out[e] = fmax(in[e], 0);
            if (l->kind == &wisp_layer_dropout) out[e] = in[e] * mask[e];
        }
        t = in, in = out, out = t;
    }
}

/* What mean_loss works on.  Dropout's mask is its output for an input of ones. */
static void ref_init(struct rig *r)
{
    size_t n = r->step.batch->n;
    for (int i = 0; i < r->net.n_layers - 1; i++)
        if (r->net.layers[i].n_out > r->widest) r->widest = r->net.layers[i].n_out;
    r->w = calloc(r->floats, sizeof *r->w);
    for (size_t i = 0; i < r->floats; i++) r->w[i] = r->net.params[i];
    for (int i = 0; i < 2; i++) r->x[i] = calloc(n * r->widest, sizeof(double));
    r->mask = calloc((size_t)r->net.n_layers * n * r->widest, sizeof *r->mask);
    float *ones = malloc(n * r->widest * sizeof *ones);
    for (size_t e = 0; e < n * r->widest; e++) ones[e] = 1;
    for (int i = 0; i < r->net.n_layers; i++) {
        const struct wisp_layer *l = &r->net.layers[i];
        struct wisp_act in = { l->n_in, ones, NULL },
                        out = { l->n_out, r->mask + (size_t)i * n * r->widest, NULL };
        if (l->kind == &wisp_layer_dropout) l->kind->forward(l, &r->step, &in, &out);
    }
    free(ones);
}

/* ---- making one ---- */

static bool rig_init(struct rig *r, const struct wisp_kernels *k, int threads, uint64_t start,
                     int hidden)
{
    *r = (struct rig){ 0 };
    seed = start;
    random_spec(r->spec, sizeof r->spec, hidden);
    r->n_features = 2 + below(60);
    r->n_labels = 1 + below(below(2) ? 330 : 20);
    size_t n = 1 + below(70);
    size_t *ids = calloc(n, sizeof *ids);
    for (size_t i = 0; i < n; i++) ids[i] = i;
    r->data = random_data(n, r->n_features, r->n_labels);
    struct wisp_layer_sizes sizes = { n + below(3), r->n_labels, true };
    struct wisp_values raw = { .mode = WISP_VALUES_RAW };
    struct wisp_drop none = { 0 };
    r->ctx.k = k;
    bool ok =
        r->data && wisp_pool_create(&r->ctx.pool, threads, &err) == WISP_OK &&
        wisp_net_plan(&r->net, r->spec, r->n_features, r->n_labels, &sizes, &err) == WISP_OK &&
        wisp_net_alloc_params(&r->net, &err) == WISP_OK &&
        wisp_net_alloc_work(&r->net, threads, &err) == WISP_OK &&
        wisp_layout_init(&r->layout, r->n_features, r->n_labels, true, &err) == WISP_OK &&
        wisp_layout_fill(&r->layout, r->data, ids, n, &raw, &none, &err) == WISP_OK;
    CHECK(ok, "'%s': %s", r->spec, err.text);
    free(ids);
    if (!ok) return false;
    random_weights(&r->net);
    random_active(r);
    r->floats = wisp_net_param_floats(&r->net);
    r->rec =
        (struct recorder){ { record }, r->net.params, calloc(r->floats, 4), calloc(r->floats, 1) };
    r->step = (struct wisp_step){ .ctx = &r->ctx,
                                  .batch = &r->layout.batch,
                                  .training = true,
                                  .seed = start,
                                  .number = 3,
                                  .update = &r->rec.update };
    ref_init(r);
    return true;
}

static void rig_clear(struct rig *r)
{
    wisp_pool_free(r->ctx.pool);
    wisp_net_clear(&r->net);
    wisp_layout_clear(&r->layout);
    wisp_data_free(r->data);
    free(r->rec.g), free(r->rec.hits), free(r->rows);
    free(r->w), free(r->x[0]), free(r->x[1]), free(r->mask);
}

/* One whole step; leaves the gradients in r->rec.g and returns the mean loss. */
static double gradients(struct rig *r, const struct wisp_loss *loss, struct wisp_active active)
{
    memset(r->rec.g, 0, r->floats * sizeof *r->rec.g);
    memset(r->rec.hits, 0, r->floats);
    r->step.loss = loss;
    r->step.active = active;
    wisp_net_step(&r->net, &r->step);
    return r->step.loss_sum / (double)r->step.batch->n;
}

/* ---- finite differences ---- */

/* Derivative of the loss along 'd' (n numbers) from the weights w; false at a kink. */
static bool numeric(double *out, const struct rig *r, double *w, const double *d, size_t n,
                    double h)
{
    double *keep = malloc(n * sizeof *keep), side[3];
    memcpy(keep, w, n * sizeof *keep);
    for (int s = 0; s < 3; s++) {
        for (size_t i = 0; i < n; i++) w[i] = keep[i] + (s - 1) * h * d[i];
        side[s] = mean_loss(r);
    }
    memcpy(w, keep, n * sizeof *keep);
    free(keep);
    double up = (side[2] - side[1]) / h, down = (side[1] - side[0]) / h;
    *out = (up + down) / 2;
    return fabs(up - down) <= 1e-4 * (fabs(up) + fabs(down)) + 1e-7;
}

static int n_checks, n_kinks;

/* 'scale': how large the terms are of which 'want' is the sum. */
static void check_direction(struct rig *r, const struct wisp_param *p, size_t at, const double *d,
                            size_t n, double want, double scale)
{
    double got, *w = r->w + (p->w - r->net.params) + at;
    n_checks++;
    if (!numeric(&got, r, w, d, n, 1e-5) && !numeric(&got, r, w, d, n, 1e-7)) {
        n_kinks++;
        return;
    }
    CHECK(fabs(got - want) <= 2e-5 * (fabs(want) + scale) + 1e-7,
          "%s '%s' %s loss, %s at %zu (%zu numbers): gradient %g, differences say %g",
          r->ctx.k->name, r->spec, r->step.loss->name, p->name, at, n, want, got);
}

static void check_param(struct rig *r, const struct wisp_param *p)
{
    size_t n = p->rows * p->cols;
    const float *g = r->rec.g + (p->w - r->net.params);
    double norm = 0, want = 0, biggest = 0, length = 0;
    for (size_t i = 0; i < n; i++) norm += (double)g[i] * g[i], biggest = fmax(biggest, fabs(g[i]));
    norm = sqrt(norm);
    const double one = 1;
    for (int c = 0; c < 3; c++) {
        size_t at = below(n);
        for (int more = 0; more < 6 * c;
             more++) { /* one anywhere, others where there is much to see */
            size_t other = below(n);
            if (fabsf(g[other]) > fabsf(g[at])) at = other;
        }
        check_direction(r, p, at, &one, 1, g[at], biggest);
    }
    double *d = malloc(n * sizeof *d); /* all weights at once: no place is left out */
    for (size_t i = 0; i < n; i++)
        d[i] = test_randf(&seed) + (norm > 0 ? g[i] / biggest : 0), length += d[i] * d[i];
    for (size_t i = 0; i < n; i++) d[i] /= sqrt(length), want += d[i] * g[i];
    check_direction(r, p, 0, d, n, want, norm);
    free(d);
}

/* Every active output row and touched feature moved once, everything else not at all. */
static void check_hits(const struct rig *r)
{
    for (int i = 0; i < r->net.n_layers; i++)
        for (int k = 0; k < r->net.layers[i].n_params; k++) {
            const struct wisp_param *p = &r->net.layers[i].params[k];
            for (size_t row = 0; row < p->rows; row++) {
                int want = 1, got = r->rec.hits[(size_t)(p->w - r->rec.params) + row * p->cols];
                if (i == r->net.n_layers - 1)
                    want = wisp_active_place(&r->step.active, (int32_t)row) != SIZE_MAX;
                if (i == 0 && k == 0) {
                    want = 0;
                    for (uint32_t e = 0; e < r->step.batch->xp[r->step.batch->n]; e++)
                        want |= (size_t)r->step.batch->xi[e] == row;
                }
                CHECK(got == want, "'%s' %s row %zu moved %d times, expected %d", r->spec, p->name,
                      row, got, want);
            }
        }
}

static void check_net(const struct wisp_kernels *k, uint64_t start, int hidden)
{
    struct rig r, three;
    if (!rig_init(&r, k, 1, start, hidden)) return;
    if (!rig_init(&three, k, 3, start, hidden)) return;
    for (size_t l = 0; wisp_loss_at(l); l++) {
        const struct wisp_loss *loss = wisp_loss_at(l);
        CHECK(strcmp(loss->name, "softmax") == 0 || strcmp(loss->name, "bce") == 0,
              "no test case for loss %s", loss->name);
        struct wisp_active full = { .n = r.n_labels }, part = { r.n_rows, r.rows };
        int32_t *all = malloc(r.n_labels * sizeof *all);
        for (size_t i = 0; i < r.n_labels; i++) all[i] = (int32_t)i;
        double listed = gradients(&three, loss, (struct wisp_active){ r.n_labels, all });
        double want = gradients(&r, loss, full);
        CHECK(isfinite(want) && want >= 0, "loss %g", want);
        CHECK(listed == want && memcmp(r.rec.g, three.rec.g, r.floats * 4) == 0,
              "%s '%s' %s: all rows by name differ from all rows", k->name, r.spec, loss->name);
        free(all);
        for (int some = 0; some < 2; some++) {
            double a = gradients(&r, loss, some ? part : full),
                   b = gradients(&three, loss, some ? part : full);
            CHECK(a == b && memcmp(r.rec.g, three.rec.g, r.floats * 4) == 0,
                  "%s '%s' %s: 3 threads differ from 1", k->name, r.spec, loss->name);
            check_hits(&r);
            double ref = mean_loss(&r);
            CHECK(fabs(a - ref) <= 3e-6 * (1 + ref), "%s '%s' %s: loss %.9g, expected %.9g",
                  k->name, r.spec, loss->name, a, ref);
            for (int i = 0; i < r.net.n_layers; i++)
                for (int p = 0; p < r.net.layers[i].n_params; p++)
                    check_param(&r, &r.net.layers[i].params[p]);
        }
    }
    rig_clear(&r);
    rig_clear(&three);
}

/* ---- the best labels ---- */

static const float *sort_by;
static int better(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (sort_by[x] != sort_by[y]) return sort_by[x] > sort_by[y] ? -1 : 1;
    return (x > y) - (x < y);
}

struct topk { /* an output layer by itself */
    struct wisp_context ctx;
    struct wisp_layer l;
    float *w, *bias, *h;
    size_t n;
};

static void topk_one(const struct topk *t, const struct wisp_loss *loss, size_t k)
{
    size_t labels = t->l.n_out, threads = (size_t)wisp_pool_threads(t->ctx.pool);
    float *scratch = malloc(wisp_output_topk_floats(&t->l, t->n, k) * 4);
    float *each = malloc(wisp_output_topk_thread_floats(&t->l, t->n) * threads * 4);
    int32_t *got = malloc(t->n * k * 4), *order = malloc(labels * 4);
    float *score = malloc(t->n * k * 4), *z = malloc(labels * 4);
    wisp_output_topk(&t->l, (struct wisp_context *)&t->ctx, loss, t->h, t->n, k, got, score,
                     scratch, each);
    for (size_t s = 0; s < t->n; s++) {
        double max = -INFINITY, sum = 0, total = 0;
        for (size_t l = 0; l < labels; l++) {
            z[l] = t->bias[l]; /* small whole numbers: exact in any order */
            for (size_t i = 0; i < t->l.n_in; i++)
                z[l] += t->w[l * t->l.n_in + i] * t->h[s * t->l.n_in + i];
            max = fmax(max, z[l]);
            order[l] = (int32_t)l;
        }
        for (size_t l = 0; l < labels; l++) sum += exp(z[l] - max);
        sort_by = z;
        qsort(order, labels, sizeof *order, better);
        for (size_t c = 0; c < k; c++) {
            int32_t want = c < labels ? order[c] : -1;
            double p = c >= labels                          ? 0
                       : strcmp(loss->name, "softmax") == 0 ? exp(z[want] - max) / sum
                                                            : 1 / (1 + exp(-(double)z[want]));
            CHECK(got[s * k + c] == want, "%s, %zu labels, place %zu of %zu: %d, expected %d",
                  t->ctx.k->name, labels, c, k, got[s * k + c], want);
            CHECK(fabs(score[s * k + c] - p) <= 2e-6 * (p + 1e-6),
                  "%s %s, %zu labels, place %zu: %g, expected %g", t->ctx.k->name, loss->name,
                  labels, c, score[s * k + c], p);
            total += score[s * k + c];
        }
        CHECK(k < labels || strcmp(loss->name, "softmax") != 0 || fabs(total - 1) < 1e-5,
              "sum of probabilities %g", total);
    }
    free(scratch), free(each), free(got), free(order), free(score), free(z);
}

static void test_topk(const struct wisp_kernels *k)
{
    static const size_t sizes[] = { 1, 2, 17, 95, 96, 97, 193, 700, 1537, 5000 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            struct topk t = { .ctx = { .k = k }, .n = sizes[i] > 1000 ? 2 : 1 + below(40) };
            t.l = (struct wisp_layer){ .kind = &wisp_layer_output,
                                       .number = 1,
                                       .n_in = 1 + below(20) };
            t.l.arg = (double)sizes[i];
            struct wisp_layer_sizes s = { t.n, sizes[i], false };
            CHECK(t.l.kind->plan(&t.l, &s, &err) == WISP_OK &&
                      wisp_pool_create(&t.ctx.pool, threads, &err) == WISP_OK,
                  "%s", err.text);
            t.w = t.l.params[0].w = malloc(sizes[i] * t.l.n_in * 4);
            t.bias = t.l.params[1].w = malloc(sizes[i] * 4);
            t.h = malloc(t.n * t.l.n_in * 4);
            for (size_t e = 0; e < sizes[i] * t.l.n_in; e++) t.w[e] = (float)below(3) - 1;
            for (size_t e = 0; e < sizes[i]; e++) t.bias[e] = (float)below(3);
            for (size_t e = 0; e < t.n * t.l.n_in; e++) t.h[e] = (float)below(5) - 2;
            const size_t ks[] = { 1, 5, sizes[i], sizes[i] + 7 };
            for (size_t c = 0; c < 4; c++) topk_one(&t, wisp_loss_at(c % 2 ? 1 : 0), ks[c]);
            topk_one(&t, wisp_loss_at(0), sizes[i] < 1000 ? sizes[i] + 1 : 100);
            wisp_pool_free(t.ctx.pool);
            free(t.w), free(t.bias), free(t.h);
        }
}

/* ---- dropout by itself ---- */

static void drop(float *out, struct wisp_layer *l, struct wisp_step *s, uint64_t number,
                 bool training)
{
    size_t n = s->batch->n * l->n_out;
    float *ones = malloc(n * sizeof *ones);
    for (size_t i = 0; i < n; i++) ones[i] = 1;
    struct wisp_act in = { l->n_in, ones, NULL }, to = { l->n_out, out, NULL };
    s->number = number;
    s->training = training;
    l->kind->forward(l, s, &in, &to);
    free(ones);
}

static void test_dropout(void)
{
    enum { ROWS = 70, WIDTH = 333, N = ROWS * WIDTH };
    static const double rates[] = { 0, 0.1, 0.5, 0.9 };
    struct wisp_batch b = { .n = ROWS };
    struct wisp_context ctx = { 0 };
    struct wisp_step s = { .ctx = &ctx, .batch = &b, .seed = 5 };
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    TEST("layers: dropout's share, scale and independence");
    for (size_t i = 0; i < 4; i++) {
        double rate = rates[i], deviation = sqrt(rate * (1 - rate) * N);
        struct wisp_layer l = {
            .kind = &wisp_layer_dropout, .number = 2, .n_in = WIDTH, .n_out = WIDTH, .arg = rate
        };
        size_t zeros = 0, both = 0, again = 0;
        drop(x, &l, &s, 7, true);
        for (size_t e = 0; e < N; e++) {
            CHECK(x[e] == 0 || fabs(x[e] - 1 / (1 - rate)) < 1e-6, "rate %g: %g", rate, x[e]);
            zeros += x[e] == 0;
            if (e) both += x[e] == 0 && x[e - 1] == 0;
        }
        CHECK(fabs((double)zeros - rate * N) <= 5 * deviation + 1, "rate %g: %zu of %d dropped",
              rate, zeros, N);
        CHECK(fabs((double)both - rate * rate * N) <= 8 * deviation + 1,
              "rate %g: %zu neighbours dropped", rate, both);
        for (int other = 0; other < 2; other++) { /* another step, another layer */
            if (other) l.number = 3;
            drop(y, &l, &s, other ? 7 : 8, true);
            again = 0;
            for (size_t e = 0; e < N; e++) again += x[e] == 0 && y[e] == 0;
            CHECK(fabs((double)again - rate * rate * N) <= 5 * deviation + 1,
                  "rate %g: %zu dropped in both", rate, again);
        }
        drop(y, &l, &s, 7, false);
        for (size_t e = 0; e < N; e++) CHECK(y[e] == 1, "not training: %g", y[e]);
    }
    free(x), free(y);
}

/* ---- net lines ---- */

static void test_specs(void)
{
    static const struct {
        const char *spec, *text;
    } bad[] = {
        { "", "first layer" },
        { "dense 4", "first layer" },
        { "relu", "first layer" },
        { "dropout 0.5", "first layer" },
        { "input 4, input 4", "come first" },
        { "input", "width" },
        { "input 0", "width" },
        { "input 2.5", "width" },
        { "input -3", "width" },
        { "input 99999999", "width" },
        { "input 4 relu", "expected" },
        { "input 4, dropout 1", "needs a share below 1" },
        { "input 4, dropout -0.1", "needs a share below 1" },
        { "input 4, dropout nan", "needs a share below 1" },
        { "input 4, output 3", "no layer" },
        { "input 4, , relu", "no layer" },
        { "input 4, conv 3", "no layer" },
        { "input 4, dropout", "share" },
        { "input 4, relu 3", "takes no number" },
    };
    TEST("nets: lines that are refused");
    struct wisp_layer_sizes sizes = { 4, 4, true };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct wisp_net net;
        err.text[0] = 0;
        wisp_status st = wisp_net_plan(&net, bad[i].spec, 5, 4, &sizes, &err);
        CHECK(st == WISP_EINVAL && strstr(err.text, bad[i].text), "'%s': %d '%s'", bad[i].spec, st,
              err.text);
        CHECK(!net.layers && !net.acts, "'%s' left something behind", bad[i].spec);
        if (st == WISP_OK) wisp_net_clear(&net);
    }
    struct wisp_net net;
    CHECK(wisp_net_plan(&net, "input 4", 0, 4, &sizes, &err) == WISP_EINVAL, "no features");
    CHECK(wisp_net_plan(&net, "input 4", 4, 0, &sizes, &err) == WISP_EINVAL, "no labels");
}

int main(void)
{
    enum { NETS = 9 };
    for (size_t i = 0; wisp_kernels_isa(i, NULL); i++) {
        struct wisp_kernels k = { 0 };
        char name[80];
        const char *isa = wisp_kernels_isa(i, NULL);
        bool there = wisp_kernels_select(&k, isa, &err) == WISP_OK;
        snprintf(name, sizeof name, "layers: %s gradients, finite differences", isa);
        TEST(name);
        if (!there) SKIP("not on this machine");
        for (uint64_t n = 0; there && n < NETS; n++) {
            int was = test_bad;
            uint64_t start = 1000003 * (n + 1) + 77 * i;
            check_net(&k, start, 1 + (int)(n % 3));
            if (test_bad > was) printf("  the seed was %llu\n", (unsigned long long)start);
        }
        CHECK(n_kinks * 50 <= n_checks, "%d kinks in %d places", n_kinks, n_checks);
        test_close();
        snprintf(name, sizeof name, "layers: %s best labels, ties and all", isa);
        TEST(name);
        if (there) test_topk(&k);
        else SKIP("not on this machine");
        test_close(); /* before 'name' goes */
    }
    TEST("layers: every kind of the table was in a net");
    for (size_t i = 0; wisp_layer_kind_at(i); i++) {
        int n = 0;
        for (size_t t = 0; t < N_TESTED; t++)
            if (strcmp(tested[t], wisp_layer_kind_at(i)->name) == 0) n = times_tested[t];
        CHECK(n > 0, "no test case for layer kind %s", wisp_layer_kind_at(i)->name);
    }
    test_dropout();
    test_specs();
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}
