/* What the tests of layers share: random nets with random batches on them, and a recorder for updates
 * (finite differences: layer_differences.h).
 *
 * backward() moves parameters through step->update; here that is a recorder, which adds each row's
 * gradient up beside the parameters and moves nothing. */
#ifndef WISP_TEST_LAYER_RIG_H
#define WISP_TEST_LAYER_RIG_H

#include "dag_rig.h"
#include "layer_nets.h"
#include "base/mem.h"
#include "data/data.h"
#include "layer/conv.h"
#include "layer/output.h"
#include "layer/planes.h"
#include "layer/sampled.h"
#include "layer/window.h"
#include "model/batch.h"
#include "model/net.h"

#include <math.h>
#include <string.h>

static struct wisp_error err;
static int times_tested[100]; /* by the place in the table of kinds */

/* ---- what a test works with ---- */

struct recorder {
    struct wisp_update update; /* first */
    const float *params;       /* the net's block: gradients lie in g as the weights do in it */
    float *g;
    unsigned char *hits; /* at a row's first weight: how often the row was moved */
};

static inline void record(const struct wisp_update *u, struct wisp_param *p, size_t row,
                          const float *g)
{
    const struct recorder *r = (const struct recorder *)u;
    size_t n, at = (size_t)(p->w - r->params) + wisp_param_row(p, row, &n);
    for (size_t i = 0; i < n; i++) r->g[at + i] += g[i];
    r->hits[at]++;
}

struct rig { /* a net with a batch on it */
    char spec[1000];
    size_t n_features, n_labels, floats;
    struct wisp_context ctx;
    struct wisp_net net;
    struct wisp_data *data;
    struct wisp_layout layout;
    struct recorder rec;
    struct wisp_step step;
    int32_t *rows; /* a subset of the labels, with all true ones */
    size_t n_rows;
    float *shift;               /* (n_rows) */
    uint32_t *op, *own;         /* each sample's own part of that subset, with its true labels */
    struct wisp_active *hidden; /* (layers) a subset of each sampled layer's rows */
    double *w;                  /* the parameters once more, laid out in the same way */
    double *x;                  /* (layers, n, widest) values, in double, channels one by one */
    float *mask;                /* (layers, n, widest) what dropout multiplies by */
    size_t widest;
};

/* Which kinds were in a net. */
static inline void count_kinds(const struct wisp_net *net)
{
    for (int l = 0; l < net->n_layers; l++)
        for (size_t i = 0; wisp_layer_kind_at(i); i++)
            times_tested[i] += wisp_layer_kind_at(i) == net->layers[l].kind;
}

/* n ids out of 'all', ascending, without repeats. */
static inline size_t some_ids(int32_t *to, size_t n, size_t all)
{
    size_t got = 0;
    for (size_t id = 0; id < all && got < n; id++)
        if (below(all - id) < n - got) to[got++] = (int32_t)id;
    return got;
}

static inline struct wisp_data *random_data(size_t n, size_t n_features, size_t n_labels)
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

/* What rows count for: some nothing. */
static inline void random_row_weights(struct wisp_data *d)
{
    float *w = calloc(d->n_rows, sizeof *w);
    for (size_t i = 0; i < d->n_rows; i++)
        w[i] = below(4) ? 0.2f + 2 * fabsf(test_randf(&seed)) : 0;
    CHECK(wisp_data_set_weights(d, w, &err) == WISP_OK, "%s", err.text);
    free(w);
}

static inline void random_weights(struct wisp_net *net)
{
    for (int i = 0; i < net->n_layers; i++)
        for (int k = 0; k < net->layers[i].n_params; k++) {
            struct wisp_param *p = &net->layers[i].params[k];
            bool last = i == net->n_layers - 1;
            double fan = net->layers[i].from[0] ? (double)net->layers[i].n_in : 3;
            if (wisp_layer_wires(&net->layers[i]).fan || net->layers[i].kind == &wisp_layer_conv)
                fan = (double)net->layers[i].params[0].cols;
            for (size_t e = 0; p->w && e < wisp_param_n(p); e++)
                p->w[e] = k ? test_randf(&seed) * 0.5f - (last ? 1.5f : 0)
                            : (float)(test_randf(&seed) * 2 / sqrt(fan));
        }
}

/* The labels of the batch and about half of the others. */
static inline void random_active(struct rig *r)
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
    r->shift = calloc(r->n_rows, sizeof *r->shift);
    for (size_t p = 0; p < r->n_rows; p++) r->shift[p] = below(2) ? test_randf(&seed) : 0;
}

/* Of that set, for each sample: its labels and a third of the others, or nothing at all where it
 * has no labels. */
static inline void random_own(struct rig *r)
{
    const struct wisp_batch *b = &r->layout.batch;
    struct wisp_active a = { .n = r->n_rows, .rows = r->rows };
    uint32_t at = 0;
    r->op = calloc(b->n + 1, sizeof *r->op);
    r->own = calloc(b->n * r->n_rows, sizeof *r->own);
    char *take = malloc(r->n_rows);
    for (size_t i = 0; i < b->n; i++) {
        bool none = below(4) == 0;
        for (size_t p = 0; p < r->n_rows; p++) take[p] = !none && below(3) == 0;
        for (uint32_t y = b->yp[i]; y < b->yp[i + 1]; y++)
            take[wisp_active_place(&a, b->yi[y])] = 1;
        for (size_t p = 0; p < r->n_rows; p++)
            if (take[p]) r->own[at++] = (uint32_t)p;
        r->op[i + 1] = at;
    }
    free(take);
}

/* Sampled layers get a random half of their rows, at least one. */
static inline void random_hidden(struct rig *r)
{
    r->hidden = calloc((size_t)r->net.n_layers, sizeof *r->hidden);
    for (int i = 0; i < r->net.n_layers; i++) {
        const struct wisp_layer *l = &r->net.layers[i];
        if (l->kind != &wisp_layer_sampled) continue;
        int32_t *rows = calloc(l->n_out, sizeof *rows);
        r->hidden[i].n = some_ids(rows, l->n_out / 2 + 1, l->n_out);
        r->hidden[i].rows = rows;
    }
}

/* ---- the forward pass again, in double ---- */

static inline void ref_multiply(double *out, const double *in, const double *w, const double *bias,
                                size_t n, size_t n_in, size_t n_out)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(out + i * n_out, bias, n_out * sizeof *out);
        for (size_t k = 0; k < n_in; k++)
            for (size_t j = 0; j < n_out; j++)
                out[i * n_out + j] += in[i * n_in + k] * w[k * n_out + j];
    }
}

static inline void ref_input(double *out, const struct wisp_batch *b, const double *w,
                             const double *bias, size_t n_out)
{
    for (size_t i = 0; i < b->n; i++) {
        memcpy(out + i * n_out, bias, n_out * sizeof *out);
        for (uint32_t e = b->xp[i]; e < b->xp[i + 1]; e++)
            for (size_t j = 0; j < n_out; j++)
                out[i * n_out + j] += b->xv[e] * w[(size_t)b->xi[e] * n_out + j];
    }
}

static inline void ref_sampled(double *out, const double *in, const double *w, const double *bias,
                               const struct wisp_layer *l, size_t n)
{
    const struct wisp_active *a = wisp_sampled_active(l);
    for (size_t i = 0; i < n * l->n_out; i++) out[i] = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < (a->n ? a->n : l->n_out); p++) {
            size_t row = a->n ? (size_t)a->rows[p] : p;
            double sum = bias[row];
            for (size_t k = 0; k < l->n_in; k++) sum += in[i * l->n_in + k] * w[row * l->n_in + k];
            out[i * l->n_out + row] = sum;
        }
}

static inline void ref_sparse(double *out, const double *in, const double *w, const double *bias,
                              const struct wisp_layer *l, size_t n, const struct wisp_batch *rows)
{
    const struct wisp_wires wires = wisp_layer_wires(l);
    for (size_t i = 0; i < n; i++)
        for (size_t o = 0; o < l->n_out; o++) {
            double sum = bias[o];
            size_t fan, first = wisp_wires_row(&wires, o, &fan);
            for (size_t k = first; k < first + fan; k++) {
                double x = in ? in[i * l->n_in + (size_t)wires.in[k]] : 0;
                for (uint32_t e = rows->xp[i]; !in && e < rows->xp[i + 1]; e++)
                    if (rows->xi[e] == wires.in[k]) x = rows->xv[e];
                sum += w[k] * x;
            }
            out[i * l->n_out + o] = sum;
        }
}

/* Loss of one sample from its logits z over the active rows, or its own among them. */
static inline double ref_loss(const struct rig *r, const double *z, size_t sample)
{
    const struct wisp_batch *b = r->step.batch;
    const struct wisp_active *a = &r->step.head.active;
    size_t n_true = b->yp[sample + 1] - b->yp[sample];
    const double smoothing = (double)wisp_net_output(&r->net)->smoothing;
    double sum = 0, of_true = 0, all = 0;
    for (uint32_t e = b->yp[sample]; e < b->yp[sample + 1]; e++)
        of_true += z[wisp_active_place(a, b->yi[e])];
    bool softmax = strcmp(r->step.head.loss->name, "softmax") == 0;
    for (size_t i = a->op ? a->op[sample] : 0; i < (a->op ? a->op[sample + 1] : a->n); i++) {
        double x = z[a->op ? a->own[i] : i];
        sum += softmax ? exp(x) : log1p(exp(x));
        all += x / (double)a->n;
    }
    if (!softmax) return sum - of_true;
    double of_targets = (1 - smoothing) * of_true / (double)n_true + smoothing * all;
    return n_true ? log(sum) - of_targets : 0;
}

static inline double ref_output(const struct rig *r, const struct wisp_layer *l, const double *h,
                                const double *w, const double *bias)
{
    const struct wisp_active *a = &r->step.head.active;
    double total = 0, *z = malloc(a->n * sizeof *z);
    for (size_t i = 0; i < r->step.batch->n; i++) {
        for (size_t p = 0; p < a->n; p++) {
            size_t row = a->rows ? (size_t)a->rows[p] : p;
            z[p] = bias[row] + (a->shift ? a->shift[p] : 0);
            for (size_t k = 0; k < l->n_in; k++) z[p] += w[row * l->n_in + k] * h[i * l->n_in + k];
        }
        total += (double)wisp_batch_weight(r->step.batch, i) * ref_loss(r, z, i);
    }
    free(z);
    return total / (double)r->step.batch->n;
}

/* ---- what layers compute, in double: one row per kind ---- */

struct ref {
    const struct rig *r;
    const struct wisp_layer *l;
    size_t n;
    const double *in[WISP_MAX_FROM]; /* NULL: the rows of the batch */
    const double *w, *bias;          /* its first two parameters */
    double *out;
};

static inline void ref_of_input(const struct ref *c)
{
    ref_input(c->out, c->r->step.batch, c->w, c->bias, c->l->n_out);
}
static inline void ref_of_dense(const struct ref *c)
{
    ref_multiply(c->out, c->in[0], c->w, c->bias, c->n, c->l->n_in, c->l->n_out);
}
static inline void ref_of_sampled(const struct ref *c)
{
    ref_sampled(c->out, c->in[0], c->w, c->bias, c->l, c->n);
}
static inline void ref_of_sparse(const struct ref *c)
{
    ref_sparse(c->out, c->in[0], c->w, c->bias, c->l, c->n, c->r->step.batch);
}
static inline void ref_of_dag(const struct ref *c)
{
    const struct wisp_layer *l = c->l;
    const struct wisp_batch *b = c->r->step.batch;
    const struct wisp_dag d = { .n_nodes = l->params[3].rows,
                                .start = l->params[3].start,
                                .from = l->params[3].ids,
                                .function = l->params[4].ids };
    double *v = malloc((d.n_nodes + l->n_in) * sizeof *v), *x = v + d.n_nodes;
    for (size_t i = 0; i < c->n; i++) {
        memset(x, 0, l->n_in * sizeof *x);
        if (c->in[0]) memcpy(x, c->in[0] + i * l->n_in, l->n_in * sizeof *x);
        for (uint32_t e = b->xp[i]; !c->in[0] && e < b->xp[i + 1]; e++) x[b->xi[e]] = b->xv[e];
        dag_walk(v, &d, c->w, c->bias);
        for (size_t o = 0; o < l->n_out; o++) c->out[i * l->n_out + o] = v[l->params[5].ids[o]];
    }
    free(v);
}
static inline void ref_of_relu(const struct ref *c)
{
    for (size_t e = 0; e < c->n * c->l->n_out; e++) c->out[e] = fmax(c->in[0][e], 0);
}
static inline const struct wisp_act *act_of(const struct ref *c)
{
    return &c->r->net.acts[c->l->number + 1];
}
/* Where unit e of a value of n samples lies in it. */
static inline size_t lies_at(const struct wisp_act *a, size_t e)
{
    if (a->form != WISP_PLANES) return e;
    const struct wisp_planes p = wisp_planes_of(a);
    const size_t sample = e / a->width, unit = e % a->width;
    return sample * p.floats +
           wisp_plane_at(unit / (p.h * p.w), unit / p.w % p.h, unit % p.w, p.h, p.w, p.block);
}
static inline void ref_of_dropout(const struct ref *c)
{
    const float *mask = c->r->mask + (size_t)c->l->number * c->n * c->r->widest;
    for (size_t e = 0; e < c->n * c->l->n_out; e++)
        c->out[e] = c->in[0][e] * mask[lies_at(act_of(c), e)];
}
static inline void ref_of_same(const struct ref *c)
{
    memcpy(c->out, c->in[0], c->n * c->l->n_out * sizeof *c->out);
}
static inline void ref_of_unflat(const struct ref *c)
{
    const struct wisp_batch *b = c->r->step.batch;
    if (c->in[0]) {
        ref_of_same(c);
        return;
    }
    memset(c->out, 0, c->n * c->l->n_out * sizeof *c->out);
    for (size_t i = 0; i < c->n; i++)
        for (uint32_t k = b->xp[i]; k < b->xp[i + 1]; k++)
            c->out[i * c->l->n_out + (size_t)b->xi[k]] = b->xv[k];
}
static inline void ref_of_clip(const struct ref *c)
{
    for (size_t e = 0; e < c->n * c->l->n_out; e++)
        c->out[e] = fmin(c->in[0][e], (double)(float)c->l->arg[0]);
}
/* Mean and variance of each unit or channel over the batch; w: scale, bias: shift. */
static inline void ref_of_bn(const struct ref *c)
{
    const struct wisp_shape s = act_of(c)->shape;
    const size_t width = c->l->n_out, channels = s.dim[0], pixels = width / channels,
                 all = c->n * pixels;
    for (size_t u = 0; u < channels; u++) {
        double mean = 0, var = 0;
        for (size_t i = 0; i < all; i++)
            mean += c->in[0][i / pixels * width + u * pixels + i % pixels] / (double)all;
        for (size_t i = 0; i < all; i++)
            var +=
                pow(c->in[0][i / pixels * width + u * pixels + i % pixels] - mean, 2) / (double)all;
        for (size_t i = 0; i < all; i++) {
            const size_t e = i / pixels * width + u * pixels + i % pixels;
            c->out[e] = (c->in[0][e] - mean) / sqrt(var + (double)(float)c->l->arg[1]) * c->w[u] +
                        c->bias[u];
        }
    }
}
/* Every tap of the kernel at every place of the result. */
static inline void ref_of_conv(const struct ref *c)
{
    const struct wisp_conv *z = wisp_layer_conv_sizes(c->l);
    const size_t row = wisp_conv_row(z), taps = z->kh * z->kw, pixels = z->oh * z->ow;
    for (size_t e = 0; e < c->n * z->out * pixels; e++) {
        const size_t o = e / pixels % z->out, p = e / z->ow % z->oh, q = e % z->ow,
                     first = o / (z->out / z->groups) * (z->in / z->groups);
        const double *x = c->in[0] + e / (z->out * pixels) * c->l->n_in;
        double sum = c->l->n_params > 1 ? c->bias[o] : 0;
        for (size_t t = 0; t < row; t++) {
            const long u = (long)(p * z->stride + t % taps / z->kw) - (long)z->pad_h,
                       v = (long)(q * z->stride + t % z->kw) - (long)z->pad_w;
            if (u < 0 || v < 0 || u >= (long)z->h || v >= (long)z->w) continue;
            sum +=
                c->w[o * row + t] * x[((first + t / taps) * z->h + (size_t)u) * z->w + (size_t)v];
        }
        c->out[e] = sum;
    }
}
/* The largest, or the mean, under each window; what lies outside is 0 to the mean. */
static inline void ref_pool(const struct ref *c, bool largest)
{
    const struct wisp_window z = wisp_window_of(c->l, &c->r->net.acts[c->l->from[0]], act_of(c));
    const size_t pixels = z.out.h * z.out.w;
    for (size_t e = 0; e < c->n * c->l->n_out; e++) {
        const double *x = c->in[0] + e / pixels * z.in.h * z.in.w;
        double most = -INFINITY, sum = 0;
        for (size_t t = 0; t < z.kh * z.kw; t++) {
            const long u = (long)(e / z.out.w % z.out.h * z.stride + t / z.kw) - (long)z.pad_h,
                       v = (long)(e % z.out.w * z.stride + t % z.kw) - (long)z.pad_w;
            if (u < 0 || v < 0 || u >= (long)z.in.h || v >= (long)z.in.w) continue;
            const double at = x[(size_t)u * z.in.w + (size_t)v];
            most = fmax(most, at);
            sum += at;
        }
        c->out[e] = largest ? most : sum / (double)(z.kh * z.kw);
    }
}
static inline void ref_of_maxpool(const struct ref *c)
{
    ref_pool(c, true);
}
static inline void ref_of_avgpool(const struct ref *c)
{
    ref_pool(c, false);
}
static inline void ref_of_globalavg(const struct ref *c)
{
    const size_t pixels = c->l->n_in / c->l->n_out;
    for (size_t e = 0; e < c->n * c->l->n_out; e++) {
        c->out[e] = 0;
        for (size_t i = 0; i < pixels; i++) c->out[e] += c->in[0][e * pixels + i] / (double)pixels;
    }
}
static inline void ref_of_add(const struct ref *c)
{
    for (size_t e = 0; e < c->n * c->l->n_out; e++) {
        c->out[e] = 0;
        for (int i = 0; i < c->l->n_from; i++) c->out[e] += c->in[i][e];
    }
}
static inline void ref_of_concat(const struct ref *c)
{
    for (size_t row = 0, at = 0; row < c->n; row++)
        for (int i = 0; i < c->l->n_from; i++) {
            size_t width = c->r->net.acts[c->l->from[i]].width;
            for (size_t e = 0; e < width; e++) c->out[at++] = c->in[i][row * width + e];
        }
}

static const struct {
    const char *kind;
    void (*run)(const struct ref *c);
} refs[] = {
    { "input", ref_of_input },     { "dense", ref_of_dense },
    { "sampled", ref_of_sampled }, { "sparse", ref_of_sparse },
    { "relu", ref_of_relu },       { "dropout", ref_of_dropout },
    { "identity", ref_of_same },   { "flatten", ref_of_same },
    { "clip", ref_of_clip },       { "add", ref_of_add },
    { "concat", ref_of_concat },   { "bn", ref_of_bn },
    { "conv", ref_of_conv },       { "maxpool", ref_of_maxpool },
    { "avgpool", ref_of_avgpool }, { "globalavg", ref_of_globalavg },
    { "unflat", ref_of_unflat },   { "dag", ref_of_dag },
};

static inline double mean_loss(const struct rig *r)
{
    size_t n = r->step.batch->n;
    for (int i = 0;; i++) {
        const struct wisp_layer *l = &r->net.layers[i];
        struct ref c = { .r = r, .l = l, .n = n, .out = r->x + (size_t)(i + 1) * n * r->widest };
        if (l->n_params) c.w = r->w + (l->params[0].w - r->net.params);
        if (l->n_params) c.bias = r->w + (l->params[1].w - r->net.params);
        for (int k = 0; k < l->n_from; k++)
            c.in[k] = l->from[k] ? r->x + (size_t)l->from[k] * n * r->widest : NULL;
        if (l->kind->head) return ref_output(r, l, c.in[0], c.w, c.bias);
        size_t k = 0;
        while (k < sizeof refs / sizeof *refs && strcmp(refs[k].kind, l->kind->name) != 0) k++;
        CHECK(k < sizeof refs / sizeof *refs, "layer_rig.h has no reference for '%s'",
              l->kind->name);
        if (k < sizeof refs / sizeof *refs) refs[k].run(&c);
    }
}

/* What the results of ReLUs add to it, by their own weights, once mean_loss has made them. */
static inline double l1_part(const struct rig *r)
{
    const size_t n = r->step.batch->n;
    double sum = 0;
    for (int i = 0; i < r->net.n_layers - 1; i++) {
        const double *x = r->x + (size_t)(i + 1) * n * r->widest;
        const double l1 = (double)r->net.layers[i].l1 / (double)n;
        for (size_t e = 0; l1 > 0 && e < n * r->net.acts[i + 1].width; e++) sum += l1 * x[e];
    }
    return sum;
}

/* What mean_loss works on.  Dropout's mask is its output for an input of ones. */
static inline void ref_init(struct rig *r)
{
    size_t n = r->step.batch->n;
    for (int i = 0; i < r->net.n_layers - 1; i++)
        r->widest = wisp_most(r->widest, r->net.acts[i + 1].floats);
    r->w = calloc(r->floats, sizeof *r->w);
    for (size_t i = 0; i < r->floats; i++) r->w[i] = r->net.params[i];
    r->x = calloc((size_t)r->net.n_layers * n * r->widest, sizeof *r->x);
    r->mask = calloc((size_t)r->net.n_layers * n * r->widest, sizeof *r->mask);
    float *ones = malloc(n * r->widest * sizeof *ones);
    for (size_t e = 0; e < n * r->widest; e++) ones[e] = 1;
    for (int i = 0; i < r->net.n_layers; i++) {
        const struct wisp_layer *l = &r->net.layers[i];
        if (l->kind != &wisp_layer_dropout) continue;
        struct wisp_act in = r->net.acts[l->from[0]], out = r->net.acts[i + 1];
        const struct wisp_act *from = &in;
        in.x = ones;
        out.x = r->mask + (size_t)i * n * r->widest;
        l->kind->forward(l, &r->step, &from, &out, NULL);
    }
    free(ones);
}

/* ---- making one ---- */

static const struct wisp_precision *rig_precision; /* of the next rig; NULL: fp32 */
static float rig_smoothing;                        /* of the next rig's targets */
static enum wisp_zeros rig_zeros;                  /* of the layers that may skip them */
static float rig_more_zeros;                       /* of its ReLUs */
static bool rig_keep;                              /* values stay to be looked at */
static bool rig_planes;      /* the next rig's net has values with height and width */
static const char *rig_spec; /* of the next rig; NULL: a random one */
static const struct wisp_conv_choice *rig_conv; /* of its convolutions; NULL: any */
static size_t rig_rows; /* samples of the next rig; 0: a random number of them */

/* Differences take the loss some hundred times, in plain C: a net of many products has fewer of the
 * samples, or a single one of these would take as long as all others. */
static inline size_t affordable(const struct wisp_net *net, size_t n)
{
    const size_t most = 2 + (size_t)(5e5 / (1 + wisp_net_flops(net, false)));
    return most < n && !rig_rows ? most : n;
}

/* own: the output layer's scratch is for samples with rows of their own. */
static inline bool rig_init(struct rig *r, const struct wisp_kernels *k, int threads,
                            uint64_t start, int hidden, bool own)
{
    *r = (struct rig){ 0 };
    seed = start;
    r->n_features = 2 + below(60);
    size_t pixels = rig_planes ? random_planes_spec(r->spec, sizeof r->spec) : 0;
    if (pixels) r->n_features = pixels;
    if (!rig_planes) random_spec(r->spec, sizeof r->spec, hidden, r->n_features);
    if (rig_spec) snprintf(r->spec, sizeof r->spec, "%s", rig_spec);
    r->n_labels = 1 + below(below(2) && !rig_planes ? 330 : 20);
    size_t n = rig_rows ? rig_rows : 1 + below(rig_planes ? 20 : 70);
    if (n == 1 && strstr(r->spec, "bn")) n = 2; /* one row has no mean to learn by */
    size_t *ids = calloc(n, sizeof *ids);
    for (size_t i = 0; i < n; i++) ids[i] = i;
    r->data = random_data(n, r->n_features, r->n_labels);
    if (r->data && below(2)) random_row_weights(r->data);
    r->ctx.k = k, r->ctx.conv = rig_conv;
    struct wisp_layer_sizes sizes = { .keep = rig_keep,
                                      .batch = n + below(3),
                                      .active = r->n_labels,
                                      .training = true,
                                      .precision = rig_precision,
                                      .smoothing = rig_smoothing,
                                      .zeros = rig_zeros,
                                      .more_zeros = rig_more_zeros,
                                      .ctx = &r->ctx };
    struct wisp_finder_setup few = { .n_rows = r->n_labels };
    if (own) sizes.own = n * r->n_labels, sizes.best = wisp_finder_neighbours.wants(&few).best;
    struct wisp_values raw = { .mode = WISP_VALUES_RAW };
    struct wisp_drop none = { 0 };
    bool ok =
        r->data && wisp_pool_create(&r->ctx.pool, threads, &err) == WISP_OK &&
        wisp_net_plan(&r->net, r->spec, r->n_features, r->n_labels, &sizes, &err) == WISP_OK &&
        wisp_net_alloc_params(&r->net, &err) == WISP_OK &&
        wisp_work_alloc(&r->net, threads, &err) == WISP_OK &&
        wisp_layout_init(&r->layout, r->n_features, r->n_labels, true, &err) == WISP_OK &&
        wisp_layout_fill(&r->layout, r->data, ids, affordable(&r->net, n), &raw, &none, &err) ==
            WISP_OK;
    CHECK(ok, "'%s': %s", r->spec, err.text);
    remove_masks();
    free(ids);
    if (!ok) return false;
    wisp_net_init(&r->net, start, NULL); /* fixed connections */
    count_kinds(&r->net);
    random_weights(&r->net);
    random_active(r);
    random_own(r);
    random_hidden(r);
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

static inline void rig_clear(struct rig *r)
{
    wisp_pool_free(r->ctx.pool);
    wisp_layout_clear(&r->layout);
    wisp_data_free(r->data);
    free(r->rec.g), free(r->rec.hits), free(r->rows), free(r->shift), free(r->op), free(r->own);
    for (int i = 0; r->hidden && i < r->net.n_layers; i++) free((void *)r->hidden[i].rows);
    free(r->hidden);
    free(r->w), free(r->x), free(r->mask);
    wisp_net_clear(&r->net);
}

/* One whole step, sampled layers with some of their rows or with all; leaves the gradients in
 * r->rec.g and returns the mean loss. */
static inline double gradients(struct rig *r, const struct wisp_loss *loss,
                               struct wisp_active active, bool some_hidden)
{
    memset(r->rec.g, 0, r->floats * sizeof *r->rec.g);
    memset(r->rec.hits, 0, r->floats);
    r->step.head.loss = loss;
    r->step.head.active = active;
    for (int i = 0; i < r->net.n_layers; i++)
        if (r->net.layers[i].kind == &wisp_layer_sampled)
            *wisp_sampled_active(&r->net.layers[i]) =
                some_hidden ? r->hidden[i] : (struct wisp_active){ 0 };
    CHECK(wisp_net_step(&r->net, &r->step, &err) == WISP_OK, "%s", err.text);
    return r->step.head.loss_sum / (double)r->step.batch->n;
}

#endif
