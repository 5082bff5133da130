/* Max pooling: the largest value under a window that moves over each channel.  Of several largest
 * ones the first in the order of rows and columns is it, and gets the gradient; a NaN is larger than
 * all.  What lies outside the image does not count.
 *
 * A task is a block of channels of a sample.  scratch, from forward to backward: the place of each
 * largest value under its window, one byte: which is why windows have at most 256 pixels. */
#include "layer/window.h"

#include <string.h>

enum { MOST_SIDE = 16 };

static const struct wisp_arg args[] = {
    [WISP_WINDOW_KERNEL] = { .name = "kernel",
                             .what = "pixels of the window",
                             .type = WISP_ARG_SIZE,
                             .least = 1,
                             .most = MOST_SIDE },
    [WISP_WINDOW_STRIDE] = { .name = "stride",
                             .what = "pixels from one window to the next; not given: the kernel",
                             .type = WISP_ARG_INT,
                             .least = 1,
                             .most = MOST_SIDE,
                             .fallback = "" },
    [WISP_WINDOW_PAD] = { .name = "pad",
                          .what = "pixels around the image, which do not count",
                          .type = WISP_ARG_SIZE,
                          .most = MOST_SIDE,
                          .fallback = "0" },
    { .name = NULL },
};

struct job {
    struct wisp_window w;
    const float *x, *gy;
    float *y, *gx;
    uint8_t *place; /* (n, floats of the result); NULL: nobody will ask */
};

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    wisp_status st = wisp_window_plan(l, in[0], out, err);
    if (st != WISP_OK || !s->training) return st;
    const size_t floats = wisp_planes_floats(out->shape.dim[0], out->shape.dim[1],
                                             out->shape.dim[2], wisp_act_block(out));
    l->scratch_floats = wisp_parts(s->batch * floats, sizeof(float));
    return WISP_OK;
}

/* ---- forward ---- */

/* The window at (p, q), all channels of a block.  Inlined with a block of 16 the loops over channels
 * become vector instructions: so there is no branch in them, and places are as wide as values. */
static inline __attribute__((always_inline)) void look(const struct job *j, const float *x,
                                                       size_t to, size_t p, size_t q,
                                                       const size_t block)
{
    const struct wisp_window *w = &j->w;
    float most[WISP_PLANE_BLOCK];
    int32_t where[WISP_PLANE_BLOCK] = { 0 };
    size_t u0, u1, v0, v1;
    wisp_window_span(&u0, &u1, p, w->kh, w->stride, w->pad_h, w->in.h);
    wisp_window_span(&v0, &v1, q, w->kw, w->stride, w->pad_w, w->in.w);
    memcpy(most, x + (u0 * w->in.w + v0) * block, block * sizeof *most);
    for (size_t u = u0; u < u1; u++)
        for (size_t v = v0; v < v1; v++) {
            const float *at = x + (u * w->in.w + v) * block;
            const int32_t which = (int32_t)((u - u0) * w->kw + (v - v0));
            for (size_t c = 0; c < block; c++) {
                const int more = !(at[c] <= most[c]) & (most[c] == most[c]);
                most[c] = more ? at[c] : most[c];
                where[c] = more ? which : where[c];
            }
        }
    memcpy(j->y + to, most, block * sizeof *most);
    for (size_t c = 0; j->place && c < block; c++) j->place[to + c] = (uint8_t)where[c];
}

static void forward_block(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct wisp_planes *out = &j->w.out;
    const size_t sample = task / out->blocks, block = task % out->blocks,
                 at = wisp_planes_block(out, sample, block);
    const float *x = j->x + wisp_planes_block(&j->w.in, sample, block);
    for (size_t p = 0; p < out->h; p++)
        for (size_t q = 0; q < out->w; q++) {
            const size_t to = at + (p * out->w + q) * out->block;
            if (out->block == WISP_PLANE_BLOCK) look(j, x, to, p, q, WISP_PLANE_BLOCK);
            else look(j, x, to, p, q, 1);
        }
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    struct job j = { .w = wisp_window_of(l, in[0], out), .x = in[0]->x, .y = out->x };
    (void)err;
    if (s->training) j.place = (uint8_t *)l->scratch;
    wisp_parallel_for(s->ctx->pool, s->batch->n * j.w.out.blocks, forward_block, &j);
    return WISP_OK;
}

/* ---- backward ---- */

static void backward_block(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct wisp_window *w = &j->w;
    const struct wisp_planes *out = &w->out;
    const size_t sample = task / out->blocks, block = task % out->blocks, side = out->block,
                 at = wisp_planes_block(out, sample, block);
    float *gx = j->gx + wisp_planes_block(&w->in, sample, block);
    size_t u0, v0, end;
    memset(gx, 0, w->in.h * w->in.w * side * sizeof *gx);
    for (size_t p = 0; p < out->h; p++)
        for (size_t q = 0; q < out->w; q++) {
            const size_t from = at + (p * out->w + q) * side;
            wisp_window_span(&u0, &end, p, w->kh, w->stride, w->pad_h, w->in.h);
            wisp_window_span(&v0, &end, q, w->kw, w->stride, w->pad_w, w->in.w);
            for (size_t c = 0; c < side; c++) {
                const size_t u = u0 + j->place[from + c] / w->kw,
                             v = v0 + j->place[from + c] % w->kw;
                gx[(u * w->in.w + v) * side + c] += j->gy[from + c];
            }
        }
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    struct job j = { .w = wisp_window_of(l, in[0], out),
                     .gy = out->g,
                     .gx = in[0]->g,
                     .place = (uint8_t *)l->scratch };
    (void)err;
    wisp_parallel_for(s->ctx->pool, s->batch->n * j.w.out.blocks, backward_block, &j);
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_maxpool = {
    .name = "maxpool",
    .what = "the largest of each channel under a window that moves over the image",
    .args = args,
    .takes = WISP_FLAT | WISP_PLANES,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
