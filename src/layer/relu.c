/* ReLU: out = max(in, 0). */
#include "layer/layer.h"

static wisp_status plan(struct wisp_layer *l, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)s;
    if (l->number == 0)
        return wisp_fail(err, WISP_EINVAL,
                         "--net: the first layer must be 'input' or 'sparse', found 'relu'");
    l->n_out = l->n_in;
    return WISP_OK;
}

static void forward(const struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                    struct wisp_act *out)
{
    s->ctx->k->relu(out->x, in->x, s->batch->n * l->n_out);
}

static void backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *in,
                     const struct wisp_act *out)
{
    s->ctx->k->relu_back(in->g, out->g, out->x, s->batch->n * l->n_out);
}

const struct wisp_layer_kind wisp_layer_relu = {
    .name = "relu",
    .what = "max(x, 0)",
    .arg = WISP_ARG_NONE,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
