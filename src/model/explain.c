/* Taking a label's logit apart; explain.h says into what. */
#include "model/explain.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "layer/bn.h"
#include "model/known.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- which nets ---- */

/* Does the layer read the rows of the data? */
static bool reads_rows(const struct wisp_layer *l)
{
    for (int k = 0; k < l->n_from; k++)
        if (l->from[k] == 0) return true;
    return false;
}

/* Are the weights known that multiply each feature, or is it the layer of images? */
static bool has_way(const struct wisp_layer *l)
{
    if (l->kind->uses & WISP_IMAGES) return true;
    for (int i = 0; i < l->n_params; i++)
        if (l->params[i].by == WISP_BY_FEATURE || l->params[i].wired) return true;
    return false;
}

static wisp_status check(const struct wisp_net *net, wisp_error *err)
{
    for (int i = 0; i < net->n_layers; i++)
        if (reads_rows(&net->layers[i]) && !has_way(&net->layers[i]))
            return wisp_fail(err, WISP_ENOTSUP,
                             "the model's layer '%s' reads the rows of the data: which of its "
                             "weights belong to a feature is not known, so it cannot be explained",
                             net->layers[i].kind->name);
    return WISP_OK;
}

/* ---- parts ---- */

struct tracing { /* an update that moves nothing */
    struct wisp_update update;
    struct wisp_explainer *e;
    double weight; /* of the net among several */
};

/* Is number i of the parameter added to whatever else a unit sums up?  Then that is it: a bias, or
 * of a norm what is left of it and of the mean, which is taken from the values. */
static bool constant_of(double *out, const struct wisp_param *p, const struct wisp_layer *l,
                        size_t i)
{
    const char *what = strrchr(p->name, '.');
    *out = (double)p->w[i];
    if (l->kind != &wisp_layer_bn) return strcmp(what ? what + 1 : p->name, "bias") == 0;
    const struct wisp_param *q = l->params;
    const double var = (double)q[WISP_BN_VAR].w[i] + l->arg[WISP_BN_EPS];
    *out -= (double)q[WISP_BN_SCALE].w[i] * (double)q[WISP_BN_MEAN].w[i] / sqrt(var);
    return p == &q[WISP_BN_SHIFT];
}

/* Of a parameter of the first layer: its numbers times their gradients, by the feature that each
 * multiplies. */
static void add_features(const struct tracing *t, const struct wisp_param *p, size_t row,
                         const float *g)
{
    struct wisp_explainer *e = t->e;
    size_t n, at = wisp_param_row(p, row, &n);
    const struct wisp_weights w = wisp_param_weights(p);
    const float *x = p->w ? p->w + at : wisp_weights_row(e->ctx.k, &w, row, e->spare);
    const int32_t *inputs = p->wired ? wisp_layer_wires(&e->net.layers[p->layer]).in + at : NULL;
    for (size_t i = 0; i < n; i++)
        e->sum[inputs ? (size_t)inputs[i] : row] += t->weight * (double)x[i] * (double)g[i];
}

/* Fits wisp_update.row.  One thread's work, so sums do not depend on how many the caller has. */
static void add_row(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    const struct tracing *t = (const struct tracing *)u;
    const struct wisp_layer *l = &t->e->net.layers[p->layer];
    double c;
    if (reads_rows(l) && (p->by == WISP_BY_FEATURE || p->wired)) {
        add_features(t, p, row, g);
        return;
    }
    size_t n, at = wisp_param_row(p, row, &n);
    for (size_t i = 0; p->w && i < n && constant_of(&c, p, l, at + i); i++)
        t->e->bias += t->weight * c * (double)g[i];
}

/* Fits wisp_peek.look: of images the pixels themselves have a gradient. */
static void add_pixels(void *arg, int layer, const struct wisp_act *a, size_t n, bool gradient)
{
    const struct tracing *t = arg;
    struct wisp_explainer *e = t->e;
    (void)n; /* 1 */
    if (!gradient || !(e->net.layers[layer].kind->uses & WISP_IMAGES)) return;
    for (size_t i = 0; i < a->width; i++)
        e->sum[i] += t->weight * (double)e->layout.batch.planes[i] * (double)a->g[i];
}

static const float *label_row(const struct wisp_explainer *e, int32_t label)
{
    const struct wisp_weights w = wisp_param_weights(&wisp_net_output(&e->net)->params[0]);
    return wisp_weights_row(e->ctx.k, &w, (size_t)label, e->row);
}

/* Adds what the net says of a label, times a weight. */
static wisp_status add_net(struct wisp_explainer *e, int32_t label, double weight, wisp_error *err)
{
    const struct tracing t = { { add_row }, e, weight };
    const struct wisp_peek peek = { add_pixels, (void *)&t };
    struct wisp_step step = { .ctx = &e->ctx,
                              .batch = &e->layout.batch,
                              .traces = true,
                              .update = &t.update,
                              .peek = &peek };
    e->bias += weight * (double)wisp_net_output(&e->net)->params[1].w[label];
    e->logit += weight * wisp_explainer_logit(e, label);
    return wisp_net_trace(&e->net, &step, label_row(e, label), err);
}

/* ---- the answer ---- */

static int by_size(const void *a, const void *b)
{
    const wisp_reason *x = a, *y = b;
    const double m = fabs(x->part), n = fabs(y->part);
    if (m != n) return m > n ? -1 : 1;
    return x->feature < y->feature ? -1 : x->feature > y->feature;
}

static void list_reasons(struct wisp_explainer *e)
{
    const struct wisp_batch *b = &e->layout.batch;
    double sum = 0;
    e->n = e->image ? e->n_features : b->xp[1] - b->xp[0];
    for (size_t i = 0; i < e->n; i++) {
        const int32_t f = e->image ? (int32_t)i : b->xi[i];
        e->reasons[i] = (wisp_reason){ f, e->image ? b->planes[i] : b->xv[i], e->sum[f] };
        sum += e->sum[f];
        e->sum[f] = 0; /* for the next one */
    }
    if (e->n) qsort(e->reasons, e->n, sizeof *e->reasons, by_size);
    e->remainder = e->logit - e->bias - sum;
}

double wisp_explainer_logit(const struct wisp_explainer *e, int32_t label)
{
    const struct wisp_layer *out = wisp_net_output(&e->net);
    const float *row = label_row(e, label);
    double z = (double)out->params[1].w[label];
    for (size_t i = 0; i < out->n_in; i++) z += (double)row[i] * (double)e->h[i];
    return z;
}

wisp_status wisp_explainer_label(struct wisp_explainer *e, int32_t label, wisp_error *err)
{
    e->logit = e->bias = 0;
    wisp_status st = wisp_map_check(&e->m->file.map, err);
    if (st == WISP_OK) st = add_net(e, label, 1, err); /* of several members: of each, weighted */
    st = wisp_map_blame(&e->m->file.map, st, err);
    if (st == WISP_OK) list_reasons(e);
    return st;
}

wisp_status wisp_explainer_row(struct wisp_explainer *e, const struct wisp_data *d, size_t row,
                               wisp_error *err)
{
    struct wisp_drop none = { 0 };
    struct wisp_step step = { .ctx = &e->ctx, .batch = &e->layout.batch, .traces = true };
    if (row >= d->n_rows)
        return wisp_fail(err, WISP_EINVAL, "row %zu asked for, the data has %zu", row, d->n_rows);
    wisp_status st = wisp_layout_fill(&e->layout, d, &row, 1, &e->m->values, &none, err);
    if (st == WISP_OK) st = wisp_map_check(&e->m->file.map, err);
    if (st != WISP_OK) return st;
    const size_t n = e->image ? e->n_features : e->layout.batch.xp[1];
    if (n > e->room) {
        wisp_reason *more = wisp_alloc(n, sizeof *more);
        if (!more) return wisp_fail_mem(err, n * sizeof *more, "the parts of a score");
        wisp_free(e->reasons);
        e->reasons = more, e->room = n;
    }
    st = wisp_net_hidden(&e->net, &step, err);
    if (st == WISP_OK)
        memcpy(e->h, wisp_net_last(&e->net)->x, wisp_net_output(&e->net)->n_in * sizeof *e->h);
    return wisp_map_blame(&e->m->file.map, st, err);
}

/* ---- room ---- */

static wisp_status make_room(struct wisp_explainer *e, wisp_error *err)
{
    const struct wisp_net *net = &e->net;
    const size_t width = wisp_net_output(net)->n_in;
    for (size_t i = 0; i < net->list.n; i++)
        e->spare_floats = wisp_most(e->spare_floats, net->list.p[i].cols);
    e->sum = wisp_zalloc(e->n_features, sizeof *e->sum);
    e->h = wisp_alloc(width, sizeof *e->h);
    e->row = wisp_alloc(width, sizeof *e->row);
    e->spare = wisp_alloc(e->spare_floats, sizeof *e->spare);
    if (e->sum && e->h && e->row && e->spare) return WISP_OK;
    return wisp_fail_mem(err, e->n_features * sizeof *e->sum, "explaining");
}

wisp_status wisp_explainer_init(struct wisp_explainer *e, const struct wisp_model *m,
                                const struct wisp_context *ctx, wisp_error *err)
{
    *e = (struct wisp_explainer){ .m = m, .ctx = *ctx, .n_features = m->net.n_features };
    e->ctx.pool = NULL;
    e->ctx.conv = NULL; /* one row is not worth measuring */
    const struct wisp_net_known like = wisp_net_known(&m->net);
    const struct wisp_layer_sizes sizes = { .batch = 1,
                                            .training = true,
                                            .traces = true,
                                            .known = &like.known,
                                            .ctx = &e->ctx,
                                            .image = wisp_image_shape(wisp_net_images(&m->net)) };
    wisp_status st =
        wisp_net_plan(&e->net, m->spec, m->net.n_features, m->net.n_labels, &sizes, err);
    if (st != WISP_OK) return st;
    e->image = wisp_net_image(&e->net) != NULL;
    wisp_net_lend(&e->net, &m->net);
    if ((st = check(&e->net, err)) != WISP_OK || (st = wisp_work_alloc(&e->net, 1, err)) != WISP_OK)
        goto done;
    st = wisp_layout_init(&e->layout, m->net.n_features, m->net.n_labels, true, err);
    if (st == WISP_OK) st = wisp_layout_for(&e->layout, &e->net, false, err);
    if (st == WISP_OK) st = make_room(e, err);
done:
    if (st != WISP_OK) wisp_explainer_clear(e);
    return st;
}

void wisp_explainer_clear(struct wisp_explainer *e)
{
    wisp_net_clear(&e->net);
    wisp_layout_clear(&e->layout);
    wisp_free(e->sum);
    wisp_free(e->h);
    wisp_free(e->row);
    wisp_free(e->spare);
    wisp_free(e->reasons);
    *e = (struct wisp_explainer){ 0 };
}
