/* Concat: values side by side, in the order in which they are named.  Of values with height and
 * width, which must be equal, the channels follow each other: (n, units) is the same copy. */
#include "layer/layer.h"

#include <string.h>

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)s;
    out->shape = in[0]->shape;
    for (int i = 1; i < l->n_from; i++) {
        struct wisp_shape x = in[i]->shape;
        out->shape.dim[0] += x.dim[0];
        x.dim[0] = in[0]->shape.dim[0];
        if (!wisp_same_shape(x, in[0]->shape))
            return wisp_fail(
                err, WISP_EINVAL,
                "'concat' needs values of the same height and width: number %d differs "
                "from the first",
                i + 1);
    }
    l->n_out = wisp_units(out->shape);
    if (l->n_out > WISP_MAX_WIDTH)
        return wisp_fail(err, WISP_EINVAL, "'concat' gives %zu units, expected at most %d",
                         l->n_out, WISP_MAX_WIDTH);
    return WISP_OK;
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)err;
    for (size_t row = 0; row < s->batch->n; row++) {
        float *to = out->x + row * l->n_out;
        for (int i = 0; i < l->n_from; to += in[i++]->width)
            memcpy(to, in[i]->x + row * in[i]->width, in[i]->width * sizeof *to);
    }
    return WISP_OK;
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)err;
    for (size_t row = 0; row < s->batch->n; row++) {
        const float *from = out->g + row * l->n_out;
        for (int i = 0; i < l->n_from; from += in[i++]->width)
            memcpy(in[i]->g + row * in[i]->width, from, in[i]->width * sizeof *from);
    }
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_concat = {
    .name = "concat",
    .what = "several values side by side",
    .takes = WISP_FLAT,
    .least_from = 2,
    .most_from = WISP_MAX_FROM,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
