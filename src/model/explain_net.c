/* Taking the logit of a net apart: gradient times value (explain.h).
 *
 * The derivatives come from the layers' own ways back, begun with the label's row of weights.  The
 * gradient of a weight w of the first layer that feature f is multiplied with is x_f times that of
 * the unit, so a feature's part is the sum of w times the gradient of w: an update that moves nothing
 * adds that up.  Pixels have a gradient of their own.
 *
 * Biases are the same sum over all biases, the label's own among them, and what norms add.  A net of
 * matrices, convolutions, pools, norms and ReLUs is linear around a row (and homogeneous in values
 * and biases together), so there the remainder is rounding.  Clips and functions of graphs leave
 * one. */
#include "base/mem.h"
#include "base/bounds.h"
#include "layer/bn.h"
#include "model/explain.h"
#include "model/known.h"

#include <math.h>
#include <string.h>

struct own {
    struct wisp_net net; /* the model's weights; values and gradients of its own */
    float *row, *spare;  /* a label's row as floats; a row of the first layer's */
};

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
    struct wisp_account *to;
    const struct own *own;
    const struct wisp_context *ctx;
    const struct wisp_batch *batch;
    double weight;
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
    size_t n, at = wisp_param_row(p, row, &n);
    const struct wisp_weights w = wisp_param_weights(p);
    const float *x = p->w ? p->w + at : wisp_weights_row(t->ctx->k, &w, row, t->own->spare);
    const struct wisp_layer *l = &t->own->net.layers[p->layer];
    const int32_t *inputs = p->wired ? wisp_layer_wires(l).in + at : NULL;
    for (size_t i = 0; i < n; i++)
        t->to->sum[inputs ? (size_t)inputs[i] : row] += t->weight * (double)x[i] * (double)g[i];
}

/* Fits wisp_update.row.  One thread's work, so sums do not depend on how many the caller has. */
static void add_row(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    const struct tracing *t = (const struct tracing *)u;
    const struct wisp_layer *l = &t->own->net.layers[p->layer];
    double c;
    if (reads_rows(l) && (p->by == WISP_BY_FEATURE || p->wired)) {
        add_features(t, p, row, g);
        return;
    }
    size_t n, at = wisp_param_row(p, row, &n);
    for (size_t i = 0; p->w && i < n && constant_of(&c, p, l, at + i); i++)
        t->to->bias += t->weight * c * (double)g[i];
}

/* Fits wisp_peek.look: of images the pixels themselves have a gradient. */
static void add_pixels(void *arg, int layer, const struct wisp_act *a, size_t n, bool gradient)
{
    const struct tracing *t = arg;
    (void)n; /* 1 */
    if (!gradient || !(t->own->net.layers[layer].kind->uses & WISP_IMAGES)) return;
    for (size_t i = 0; i < a->width; i++)
        t->to->sum[i] += t->weight * (double)t->batch->planes[i] * (double)a->g[i];
}

wisp_status wisp_explain_net(struct wisp_account *to, struct wisp_explainer *e,
                             const struct wisp_batch *b, int32_t label, double weight,
                             wisp_error *err)
{
    struct own *own = e->own;
    const struct wisp_layer *out = wisp_net_output(&own->net);
    const struct wisp_weights w = wisp_param_weights(&out->params[0]);
    const float *row = wisp_weights_row(e->ctx.k, &w, (size_t)label, own->row);
    struct tracing t = { { add_row }, to, own, &e->ctx, b, weight };
    const struct wisp_peek peek = { add_pixels, &t };
    struct wisp_step step = {
        .ctx = &e->ctx, .batch = b, .traces = true, .update = &t.update, .peek = &peek
    };
    const double bias = (double)out->params[1].w[label];
    double z;
    wisp_status st = wisp_net_trace(&z, &own->net, &step, row, err);
    if (st != WISP_OK) return st;
    to->bias += weight * bias;
    to->logit += weight * (z + bias);
    return WISP_OK;
}

/* ---- room ---- */

wisp_status wisp_explain_net_ready(struct wisp_explainer *e, wisp_error *err)
{
    const struct wisp_model *m = e->m;
    struct own *own = e->own = wisp_zalloc(1, sizeof *own);
    e->reads = &m->net;
    if (!own) return wisp_fail_mem(err, sizeof *own, "explaining");
    const struct wisp_net_known like = wisp_net_known(&m->net);
    const struct wisp_layer_sizes sizes = { .batch = 1,
                                            .training = true,
                                            .traces = true,
                                            .known = &like.known,
                                            .ctx = &e->ctx,
                                            .image = wisp_image_shape(wisp_net_images(&m->net)) };
    wisp_status st =
        wisp_net_plan(&own->net, m->spec, m->net.n_features, m->net.n_labels, &sizes, err);
    if (st == WISP_OK) st = check(&own->net, err);
    if (st == WISP_OK) st = wisp_work_alloc(&own->net, 1, err);
    if (st != WISP_OK) return st;
    wisp_net_lend(&own->net, &m->net);
    size_t most = 0;
    for (size_t i = 0; i < own->net.list.n; i++) most = wisp_most(most, own->net.list.p[i].cols);
    own->row = wisp_alloc(most, sizeof *own->row);
    own->spare = wisp_alloc(most, sizeof *own->spare);
    return own->row && own->spare ? WISP_OK
                                  : wisp_fail_mem(err, most * sizeof *own->row, "explaining");
}

void wisp_explain_net_done(struct wisp_explainer *e)
{
    struct own *own = e->own;
    wisp_net_clear(&own->net);
    wisp_free(own->row);
    wisp_free(own->spare);
    wisp_free(own);
}
