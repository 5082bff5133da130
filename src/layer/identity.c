/* Layers that give what they read: 'identity' as it is, 'flatten' as a row of units. */
#include "layer/layer.h"

#include <string.h>

static wisp_status plan_flat(struct wisp_layer *l, const struct wisp_act *const *in,
                             struct wisp_act *out, const struct wisp_layer_sizes *s,
                             wisp_error *err)
{
    wisp_status st = wisp_layer_plan_same(l, in, out, s, err);
    out->shape = wisp_flat(in[0]->width);
    return st;
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)err;
    if (out->x != in[0]->x) memcpy(out->x, in[0]->x, s->batch->n * l->n_out * sizeof *out->x);
    return WISP_OK;
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)err;
    if (in[0]->g != out->g) memcpy(in[0]->g, out->g, s->batch->n * l->n_out * sizeof *out->g);
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_identity = {
    .name = "identity",
    .what = "x",
    .takes = WISP_FLAT,
    .uses = WISP_IN_PLACE,
    .plan = wisp_layer_plan_same,
    .forward = forward,
    .backward = backward,
};

const struct wisp_layer_kind wisp_layer_flatten = {
    .name = "flatten",
    .what = "x, its channels, rows and columns as one row of units",
    .takes = WISP_FLAT,
    .uses = WISP_IN_PLACE,
    .plan = plan_flat,
    .forward = forward,
    .backward = backward,
};
