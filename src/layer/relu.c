/* ReLU: out = max(in, 0). */
#include "layer/layer.h"

static void run(const struct wisp_kernels *k, float *y, const float *x, const float *none, size_t n)
{
    (void)none;
    k->relu(y, x, n);
}

static size_t count(const struct wisp_kernels *k, float *y, const float *x, size_t n)
{
    return k->relu_live(y, x, n);
}

static void run_back(const struct wisp_kernels *k, float *gx, const float *gy, const float *y,
                     size_t n)
{
    k->relu_back(gx, gy, y, n);
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    struct wisp_zeros_of *z = wisp_layer_zeros(s, out);
    (void)l, (void)err;
    if (z) wisp_layer_count_runs(s->ctx, count, z, out, out->x, in[0]->x, s->batch->n);
    else wisp_layer_runs(s->ctx, run, out->x, in[0]->x, NULL, s->batch->n * out->floats);
    return WISP_OK;
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)l, (void)err;
    wisp_layer_runs(s->ctx, run_back, in[0]->g, out->g, out->x, s->batch->n * out->floats);
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_relu = {
    .name = "relu",
    .what = "max(x, 0)",
    .takes = WISP_FLAT | WISP_PLANES,
    .uses = WISP_USES_Y | WISP_IN_PLACE | WISP_MAKES_ZEROS | WISP_BY_SAMPLE,
    .part = WISP_FUSE_RELU,
    .ties = WISP_TIES_SAME,
    .plan = wisp_layer_plan_same,
    .forward = forward,
    .backward = backward,
};
