/* Add: the sum of values of one shape, in the order in which they are named. */
#include "layer/layer.h"

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    char first[WISP_SHAPE_TEXT], other[WISP_SHAPE_TEXT];
    for (int i = 1; i < l->n_from; i++) {
        if (!wisp_same_shape(in[i]->shape, in[0]->shape))
            return wisp_fail(err, WISP_EINVAL,
                             "'add' needs values of one shape: the first has %s, number %d has %s",
                             wisp_shape_text(first, in[0]->shape), i + 1,
                             wisp_shape_text(other, in[i]->shape));
        if (in[i]->form != in[0]->form)
            return wisp_fail(err, WISP_EINVAL,
                             "'add' cannot add an image as it is read to what a layer gives; put a "
                             "'conv' between them");
    }
    return wisp_layer_plan_same(l, in, out, s, err);
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    const size_t n = s->batch->n * out->floats;
    (void)err;
    if (out->x != in[0]->x) wisp_layer_runs(s->ctx, wisp_run_copy, out->x, in[0]->x, NULL, n);
    for (int i = 1; i < l->n_from; i++)
        wisp_layer_runs(s->ctx, wisp_run_add, out->x, in[i]->x, NULL, n);
    return WISP_OK;
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)err;
    for (int i = 0; i < l->n_from; i++)
        if (in[i]->g && in[i]->g != out->g)
            wisp_layer_runs(s->ctx, wisp_run_copy, in[i]->g, out->g, NULL,
                            s->batch->n * out->floats);
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_add = {
    .name = "add",
    .what = "the sum of several values",
    .takes = WISP_FLAT | WISP_PLANES,
    .uses = WISP_IN_PLACE | WISP_BY_SAMPLE | WISP_ADDS,
    .least_from = 2,
    .most_from = WISP_MAX_FROM,
    .ties = WISP_TIES_SAME,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
