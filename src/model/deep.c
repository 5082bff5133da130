/* From a trained net to a deep sparse one (spdnn/spdnn.h), which computes the same logits.
 *
 * A chain of layers becomes one of linear ones and of y = min(clip, max(0, W x + bias)):
 *
 *   input, dense, sampled, sparse, output   W and bias, each the beginning of a layer
 *   bn                                      is multiplied into the W and bias before it
 *   relu, clip                              make it one with bounds; all clips of a net are one
 *   dropout, identity, flatten              are nothing in prediction
 *
 * Everything else, and a net with branches, is refused by name. */
#include "model/kind.h"
#include "model/deep.h"
#include "base/mem.h"
#include "base/text.h"
#include "layer/bn.h"
#include "model/model.h"
#include "spdnn/netfile.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

struct maker {
    struct wisp_spnet *net;
    const struct wisp_kernels *k;
    const struct wisp_layer *l; /* where it is */
    /* the layer that is being made; n_out 0: none yet */
    uint32_t n_in, n_out;
    uint64_t *start;
    uint32_t *in;
    float *w, *biases, *spare; /* spare: a row of weights */
    bool relu;
    float clip;  /* INFINITY: none */
    bool bounds; /* the net has a layer with a relu, and net->clip is that of all */
    wisp_error *err;
};

__attribute__((format(printf, 2, 3))) static wisp_status refuse(const struct maker *m,
                                                                const char *fmt, ...)
{
    char why[300];
    va_list ap;
    va_start(ap, fmt);
    wisp_vprint(why, sizeof why, fmt, ap);
    va_end(ap);
    return wisp_fail(m->err, WISP_ENOTSUP, "layer %d, '%s': %s", m->l->number + 1, m->l->kind->name,
                     why);
}

static void let_go(struct maker *m)
{
    wisp_free(m->start);
    wisp_free(m->in);
    wisp_free(m->w);
    wisp_free(m->biases);
    wisp_free(m->spare);
    m->start = NULL, m->in = NULL, m->w = m->biases = m->spare = NULL;
    m->n_out = 0;
}

/* ---- weights ---- */

static void take_wires(struct maker *m, const struct wisp_wires *wires)
{
    for (size_t o = 0; o <= m->n_out; o++)
        m->start[o] = wires->start ? (uint64_t)wires->start[o] : o * wires->fan;
    memcpy(m->in, wires->in, wires->n_edges * sizeof *m->in);
    memcpy(m->w, m->l->params[0].w, wires->n_edges * sizeof *m->w);
}

/* All inputs of all outputs; rows of W are those of an output, or of an input. */
static void take_all(struct maker *m, bool by_input)
{
    const struct wisp_weights rows = wisp_param_weights(&m->l->params[0]);
    const size_t n_in = m->n_in, n_out = m->n_out;
    for (size_t o = 0; o <= n_out; o++) m->start[o] = o * n_in;
    for (size_t e = 0; e < n_in * n_out; e++) m->in[e] = (uint32_t)(e % n_in);
    for (size_t r = 0; r < (by_input ? n_in : n_out); r++) {
        const float *row = wisp_weights_row(m->k, &rows, r, m->spare);
        for (size_t c = 0; c < rows.cols; c++)
            m->w[by_input ? c * n_in + r : r * n_in + c] = row[c];
    }
}

static wisp_status take_matrix(struct maker *m, bool by_input)
{
    const struct wisp_layer *l = m->l;
    const struct wisp_wires wires = wisp_layer_wires(l);
    const size_t edges = wires.n_out ? wires.n_edges : l->n_in * l->n_out;
    if (edges > UINT32_MAX) return refuse(m, "%zu weights, expected at most 4294967295", edges);
    m->n_in = (uint32_t)l->n_in, m->n_out = (uint32_t)l->n_out;
    m->relu = false, m->clip = INFINITY;
    m->start = wisp_alloc(l->n_out + 1, sizeof *m->start);
    m->in = wisp_alloc(edges, sizeof *m->in);
    m->w = wisp_alloc(edges, sizeof *m->w);
    m->biases = wisp_alloc(l->n_out, sizeof *m->biases);
    m->spare = wisp_alloc(l->params[0].cols, sizeof *m->spare);
    if (!m->start || !m->in || !m->w || !m->biases || !m->spare)
        return wisp_fail_mem(m->err, 8 * edges, "the edges of a layer");
    memcpy(m->biases, l->params[1].w, l->n_out * sizeof *m->biases);
    if (wires.n_out) take_wires(m, &wires);
    else take_all(m, by_input);
    return WISP_OK;
}

/* ---- what follows them ---- */

/* (x - mean) / sqrt(variance + eps) * scale + shift, of W x + bias. */
static wisp_status fold_bn(struct maker *m)
{
    const struct wisp_param *p = m->l->params;
    const float *scale = p[WISP_BN_SCALE].w, *shift = p[WISP_BN_SHIFT].w, *mean = p[WISP_BN_MEAN].w,
                *var = p[WISP_BN_VAR].w;
    if (m->relu || m->clip < INFINITY)
        return refuse(m, "it must follow weights at once to be part of them");
    for (size_t o = 0; o < m->n_out; o++) {
        double factor = (double)scale[o] / sqrt((double)var[o] + m->l->arg[WISP_BN_EPS]);
        for (uint64_t e = m->start[o]; e < m->start[o + 1]; e++)
            m->w[e] = (float)((double)m->w[e] * factor);
        m->biases[o] =
            (float)(((double)m->biases[o] - (double)mean[o]) * factor + (double)shift[o]);
    }
    return WISP_OK;
}

static wisp_status bound(struct maker *m)
{
    const float most = (float)m->l->arg[0];
    if (!(most > 0)) return refuse(m, "a bound of %g, expected one above 0", (double)most);
    if (most < m->clip) m->clip = most;
    return WISP_OK;
}

/* The layer that is being made goes into the net. */
static wisp_status push(struct maker *m)
{
    if (m->n_out == 0) return WISP_OK;
    const struct wisp_edges e = { .n_in = m->n_in,
                                  .n_out = m->n_out,
                                  .start = m->start,
                                  .in = m->in,
                                  .w = m->w,
                                  .biases = m->biases,
                                  .linear = !m->relu };
    if (!m->relu && m->clip < INFINITY) return refuse(m, "before it is a 'clip' without a 'relu'");
    if (m->relu && m->bounds && m->net->clip != m->clip)
        return refuse(m, "before it is another 'clip' than before; all must be one number");
    if (m->relu) m->bounds = true, m->net->clip = m->clip;
    wisp_status st = wisp_spnet_add(m->net, &e, m->err);
    let_go(m);
    return st;
}

/* ---- the chain ---- */

enum part { BY_INPUT, BY_OUTPUT, NORM, RELU, CLIP, NOTHING };

static const struct {
    const struct wisp_layer_kind *kind;
    enum part part;
} parts[] = {
    { &wisp_layer_input, BY_INPUT },    { &wisp_layer_dense, BY_INPUT },
    { &wisp_layer_sampled, BY_OUTPUT }, { &wisp_layer_sparse, BY_OUTPUT },
    { &wisp_layer_output, BY_OUTPUT },  { &wisp_layer_bn, NORM },
    { &wisp_layer_relu, RELU },         { &wisp_layer_clip, CLIP },
    { &wisp_layer_dropout, NOTHING },   { &wisp_layer_identity, NOTHING },
    { &wisp_layer_flatten, NOTHING },
};
enum { N_PARTS = sizeof parts / sizeof *parts };

static wisp_status add_layer(struct maker *m, int place)
{
    const struct wisp_layer *l = m->l;
    size_t i = 0;
    while (i < N_PARTS && parts[i].kind != l->kind) i++;
    if (i == N_PARTS) return refuse(m, "there is no form of it in a deep sparse network");
    if (l->from[0] != place)
        return refuse(m, "it reads another value than the one before it: expected a chain");
    wisp_status st = WISP_OK;
    switch (parts[i].part) {
    case BY_INPUT:
    case BY_OUTPUT:
        st = push(m);
        return st == WISP_OK ? take_matrix(m, parts[i].part == BY_INPUT) : st;
    case NORM:
        return fold_bn(m);
    case CLIP:
        return bound(m);
    case RELU:
        m->relu = true;
        break;
    case NOTHING:
        break;
    }
    return st;
}

static wisp_status of_model(struct wisp_spnet **out, const struct wisp_model *model,
                            const struct wisp_context *ctx, wisp_error *err)
{
    wisp_status st = wisp_model_need_net(model, "a deep sparse network", err);
    if (st != WISP_OK) return st;
    if (model->values.mode != WISP_VALUES_RAW)
        return wisp_fail(err, WISP_ENOTSUP,
                         "its values are '%s', expected 'raw': a deep sparse network has no form "
                         "of what else is done to rows",
                         wisp_values_name(model->values.mode));
    struct maker m = { .net = wisp_spnet_create(INFINITY), .k = ctx->k, .err = err };
    st = m.net ? WISP_OK : wisp_fail_mem(err, sizeof *m.net, "a network");
    for (int i = 0; i < model->net.n_layers && st == WISP_OK; i++) {
        m.l = &model->net.layers[i];
        st = add_layer(&m, i);
    }
    if (st == WISP_OK) st = push(&m); /* the head: linear */
    let_go(&m);
    if (st == WISP_OK) *out = m.net;
    else wisp_spnet_free(m.net);
    return st;
}

/* ---- files ---- */

static wisp_status open_model(struct wisp_spnet **out, const struct wisp_context *ctx,
                              const char *path, wisp_error *err)
{
    struct wisp_model *model;
    wisp_error why = { 0 };
    wisp_status st = wisp_model_open(&model, ctx->pool, path, err);
    if (st != WISP_OK) return st;
    st = of_model(out, model, ctx, &why);
    if (st == WISP_ENOMEM) wisp_fail_as(err, st, &why);
    else if (st != WISP_OK) wisp_fail_at(err, st, path, 0, "%s", why.text);
    st = wisp_map_blame(&model->file.map, st, err);
    if (st != WISP_OK) {
        wisp_spnet_free(*out);
        *out = NULL;
    }
    wisp_model_free(model);
    return st;
}

wisp_status wisp_spnet_open(struct wisp_spnet **out, const struct wisp_context *ctx,
                            const char *path, wisp_error *err)
{
    struct wisp_map map;
    wisp_error why = { 0 };
    *out = NULL;
    wisp_status st = wisp_map_open(&map, path, err);
    if (st != WISP_OK) return st;
    const bool model = wisp_tensor_file_probe(map.p, map.bytes);
    wisp_map_close(&map);
    if (model) return open_model(out, ctx, path, err);
    st = wisp_spnet_load(out, path, NULL, ctx->pool, &why);
    if (st == WISP_EFORMAT) return wisp_fail_at(err, st, path, 0, "%s", why.text);
    return st == WISP_OK ? st : wisp_fail_as(err, st, &why);
}
