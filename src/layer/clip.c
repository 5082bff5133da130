/* Clip: out = min(in, most), as the Graph Challenge has it after its ReLU. */
#include "layer/layer.h"

static const struct wisp_arg args[] = {
    { .name = "most", .what = "upper bound", .type = WISP_ARG_REAL, .most = 1e30 },
    { .name = NULL },
};

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    const float most = (float)l->arg[0], *x = in[0]->x;
    (void)err;
    for (size_t i = 0; i < s->batch->n * out->floats; i++)
        out->x[i] = x[i] > most ? most : x[i]; /* this way round a NaN stays */
    return WISP_OK;
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    const float most = (float)l->arg[0];
    (void)err;
    for (size_t i = 0; i < s->batch->n * out->floats; i++)
        in[0]->g[i] = out->x[i] < most ? out->g[i] : 0;
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_clip = {
    .name = "clip",
    .what = "min(x, most)",
    .args = args,
    .takes = WISP_FLAT | WISP_PLANES,
    .uses = WISP_USES_Y | WISP_IN_PLACE | WISP_BY_SAMPLE,
    .ties = WISP_TIES_SAME,
    .plan = wisp_layer_plan_same,
    .forward = forward,
    .backward = backward,
};
