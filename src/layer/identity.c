/* Layers that give what they read: 'identity' as it is, 'flatten' as a row of units, in the order of
 * (channels, height, width), whatever the form in which they lie. */
#include "layer/planes.h"

#include <string.h>

static wisp_status plan_flat(struct wisp_layer *l, const struct wisp_act *const *in,
                             struct wisp_act *out, const struct wisp_layer_sizes *s,
                             wisp_error *err)
{
    wisp_status st = wisp_layer_plan_same(l, in, out, s, err);
    out->shape = wisp_flat(in[0]->width);
    out->form = WISP_FLAT;
    if (st == WISP_OK && in[0]->width > WISP_MAX_WIDTH)
        return wisp_fail(err, WISP_EINVAL, "'flatten' makes %zu units, expected at most %d",
                         in[0]->width, WISP_MAX_WIDTH);
    return st;
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)l, (void)err;
    if (out->x != in[0]->x) memcpy(out->x, in[0]->x, s->batch->n * out->floats * sizeof *out->x);
    return WISP_OK;
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)l, (void)err;
    if (in[0]->g != out->g) memcpy(in[0]->g, out->g, s->batch->n * out->floats * sizeof *out->g);
    return WISP_OK;
}

/* ---- out of blocks of channels, and back ---- */

struct job {
    struct wisp_planes p;
    float *planes, *units;
    bool back;
};

/* A block of a sample.  Channels past the last are 0 on the way back. */
static void turn_block(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct wisp_planes *p = &j->p;
    const size_t sample = task / p->blocks, block = task % p->blocks, pixels = p->h * p->w,
                 first = block * p->block;
    float *x = j->planes + wisp_planes_block(p, sample, block),
          *y = j->units + (sample * p->channels + first) * pixels;
    for (size_t c = 0; c < p->block; c++)
        for (size_t i = 0; i < pixels; i++) {
            if (!j->back && first + c < p->channels) y[c * pixels + i] = x[i * p->block + c];
            if (j->back) x[i * p->block + c] = first + c < p->channels ? y[c * pixels + i] : 0;
        }
}

static wisp_status turn(struct wisp_step *s, const struct wisp_act *in, const struct wisp_act *out,
                        bool back)
{
    struct job j = { wisp_planes_of(in), back ? in->g : in->x, back ? out->g : out->x, back };
    wisp_parallel_for(s->ctx->pool, s->batch->n * j.p.blocks, turn_block, &j);
    return WISP_OK;
}

static wisp_status forward_flat(const struct wisp_layer *l, struct wisp_step *s,
                                const struct wisp_act *const *in, struct wisp_act *out,
                                wisp_error *err)
{
    return in[0]->form == WISP_PLANES ? turn(s, in[0], out, false) : forward(l, s, in, out, err);
}

static wisp_status backward_flat(struct wisp_layer *l, struct wisp_step *s,
                                 struct wisp_act *const *in, const struct wisp_act *out,
                                 wisp_error *err)
{
    return in[0]->form == WISP_PLANES ? turn(s, in[0], out, true) : backward(l, s, in, out, err);
}

const struct wisp_layer_kind wisp_layer_identity = {
    .name = "identity",
    .what = "x",
    .takes = WISP_FLAT | WISP_PLANES,
    .uses = WISP_IN_PLACE | WISP_HANDS_ON | WISP_BY_SAMPLE,
    .ties = WISP_TIES_SAME,
    .plan = wisp_layer_plan_same,
    .forward = forward,
    .backward = backward,
};

const struct wisp_layer_kind wisp_layer_flatten = {
    .name = "flatten",
    .what = "x, its channels, rows and columns as one row of units",
    .takes = WISP_FLAT | WISP_PLANES,
    .uses = WISP_IN_PLACE | WISP_HANDS_ON | WISP_BY_SAMPLE,
    .ties = WISP_TIES_SPREAD,
    .plan = plan_flat,
    .forward = forward_flat,
    .backward = backward_flat,
};
