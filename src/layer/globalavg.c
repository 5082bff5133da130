/* Global average: the mean of each channel over its pixels, as units.  Sums are made by rows of
 * pixels, then of rows: rounding grows with the longest sum. */
#include "layer/planes.h"

struct job {
    struct wisp_planes p;
    const float *x, *gy;
    float *y, *gx;
};

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)out, (void)s;
    l->n_out = in[0]->shape.dim[0];
    return wisp_planes_check(l, in[0], err);
}

/* A block of channels of a sample. */
static void forward_block(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct wisp_planes *p = &j->p;
    const size_t sample = task / p->blocks, first = task % p->blocks * p->block;
    const float *x = j->x + wisp_planes_block(p, sample, task % p->blocks);
    for (size_t c = 0; c < p->block && first + c < p->channels; c++) {
        float sum = 0;
        for (size_t u = 0; u < p->h; u++) {
            float of_row = 0;
            for (size_t v = 0; v < p->w; v++) of_row += x[(u * p->w + v) * p->block + c];
            sum += of_row;
        }
        j->y[sample * p->channels + first + c] = sum / (float)(p->h * p->w);
    }
}

static void backward_block(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct wisp_planes *p = &j->p;
    const size_t sample = task / p->blocks, first = task % p->blocks * p->block,
                 pixels = p->h * p->w;
    float *gx = j->gx + wisp_planes_block(p, sample, task % p->blocks);
    for (size_t c = 0; c < p->block; c++) {
        const float g =
            first + c < p->channels ? j->gy[sample * p->channels + first + c] / (float)pixels : 0;
        for (size_t i = 0; i < pixels; i++) gx[i * p->block + c] = g;
    }
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    struct job j = { .p = wisp_planes_of(in[0]), .x = in[0]->x, .y = out->x };
    (void)l, (void)err;
    wisp_parallel_for(s->ctx->pool, s->batch->n * j.p.blocks, forward_block, &j);
    return WISP_OK;
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    struct job j = { .p = wisp_planes_of(in[0]), .gy = out->g, .gx = in[0]->g };
    (void)l, (void)err;
    wisp_parallel_for(s->ctx->pool, s->batch->n * j.p.blocks, backward_block, &j);
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_globalavg = {
    .name = "globalavg",
    .what = "the mean of each channel over all of its pixels, as units",
    .takes = WISP_FLAT | WISP_PLANES,
    .uses = WISP_BY_SAMPLE,
    .ties = WISP_TIES_SAME,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
