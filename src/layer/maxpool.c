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
    bool relu;      /* no gradient to what is not above 0 */
    const struct wisp_kernels *k;
    const struct wisp_zeros_of *zeros; /* of the result; NULL: nobody counts */
    uint64_t *live;                    /* where the task counts */
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

/* The window at (p, q) of one channel. */
static void look(const struct job *j, const float *x, size_t to, size_t p, size_t q)
{
    const struct wisp_window *w = &j->w;
    size_t u0, u1, v0, v1, where = 0;
    wisp_window_span(&u0, &u1, p, w->kh, w->stride, w->pad_h, w->in.h);
    wisp_window_span(&v0, &v1, q, w->kw, w->stride, w->pad_w, w->in.w);
    float most = x[u0 * w->in.w + v0];
    for (size_t u = u0; u < u1; u++)
        for (size_t v = v0; v < v1; v++) {
            const float at = x[u * w->in.w + v];
            if (at <= most || most != most) continue;
            most = at;
            where = (u - u0) * w->kw + (v - v0);
        }
    j->y[to] = most;
    if (j->live) *j->live += most != 0;
    if (j->place) j->place[to] = (uint8_t)where;
}

/* Windows q .. *end - 1 of row p, 16 channels, all as wide: those that the border cuts are alone. */
static struct wisp_maxpool windows(const struct job *j, size_t at, size_t p, size_t q, size_t *end)
{
    const struct wisp_window *w = &j->w;
    const size_t low = wisp_parts(w->pad_w, w->stride),
                 high = w->in.w + w->pad_w < w->kw ? 0
                                                   : (w->in.w + w->pad_w - w->kw) / w->stride +
                                                         1; /* whole: low .. high - 1 */
    size_t u0, u1, v0, v1;
    *end = q >= low && q < high ? high : q + 1;
    wisp_window_span(&u0, &u1, p, w->kh, w->stride, w->pad_h, w->in.h);
    wisp_window_span(&v0, &v1, q, w->kw, w->stride, w->pad_w, w->in.w);
    const size_t to = at + (p * w->out.w + q) * WISP_PLANE_BLOCK,
                 from = (u0 * w->in.w + v0) * WISP_PLANE_BLOCK;
    return (struct wisp_maxpool){ .n = *end - q,
                                  .rows = u1 - u0,
                                  .cols = v1 - v0,
                                  .apart = w->kw,
                                  .row = w->in.w * WISP_PLANE_BLOCK,
                                  .next = w->stride * WISP_PLANE_BLOCK,
                                  .x = j->x ? j->x + from : NULL,
                                  .gx = j->gx ? j->gx + from : NULL,
                                  .gy = j->gy ? j->gy + to : NULL,
                                  .y = j->y ? j->y + to : NULL,
                                  .place = j->place ? j->place + to : NULL,
                                  .relu = j->relu,
                                  .live = j->live,
                                  .add = w->stride < w->kh || w->stride < w->kw };
}

static void forward_block(void *arg, size_t task, int thread)
{
    const struct job *j = arg;
    const struct wisp_planes *out = &j->w.out;
    const size_t sample = task / out->blocks, block = task % out->blocks,
                 at = wisp_planes_block(out, sample, block);
    struct job own = *j;
    own.x += wisp_planes_block(&j->w.in, sample, block);
    if (j->zeros) own.live = wisp_zeros_live(j->zeros, thread) + (j->zeros->blocks > 1 ? block : 0);
    for (size_t p = 0; p < out->h; p++)
        for (size_t q = 0, end; q < out->w; q = end)
            if (out->block == 1) {
                look(&own, own.x, at + p * out->w + q, p, q);
                end = q + 1;
            } else {
                const struct wisp_maxpool run = windows(&own, at, p, q, &end);
                j->k->maxpool(&run);
            }
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    struct job j = { .w = wisp_window_of(l, in[0], out), .x = in[0]->x, .y = out->x };
    (void)err;
    if (s->training || s->traces) j.place = (uint8_t *)l->scratch;
    j.relu = l->masked;
    j.k = s->ctx->k;
    j.zeros = wisp_layer_zeros(s, out);
    wisp_parallel_for(s->ctx->pool, s->batch->n * j.w.out.blocks, forward_block, &j);
    return WISP_OK;
}

/* ---- backward ---- */

/* Does each pixel lie under one window?  Then all of them are set there. */
static bool covered(const struct wisp_window *w)
{
    return w->in.block == WISP_PLANE_BLOCK && w->kh == w->stride && w->kw == w->stride &&
           w->pad_h == 0 && w->pad_w == 0 && w->in.h == w->out.h * w->stride &&
           w->in.w == w->out.w * w->stride;
}

static void backward_block(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct wisp_window *w = &j->w;
    const struct wisp_planes *out = &w->out;
    const size_t sample = task / out->blocks, block = task % out->blocks, side = out->block,
                 at = wisp_planes_block(out, sample, block);
    struct job own = *j;
    float *gx = own.gx += wisp_planes_block(&w->in, sample, block);
    size_t u0, v0, stop;
    if (!covered(w)) memset(gx, 0, w->in.h * w->in.w * side * sizeof *gx);
    for (size_t p = 0; p < out->h; p++)
        for (size_t q = 0, end; q < out->w; q = end) {
            if (side == WISP_PLANE_BLOCK) {
                const struct wisp_maxpool run = windows(&own, at, p, q, &end);
                j->k->maxpool_back(&run);
                continue;
            }
            const size_t from = at + p * out->w + q;
            end = q + 1;
            wisp_window_span(&u0, &stop, p, w->kh, w->stride, w->pad_h, w->in.h);
            wisp_window_span(&v0, &stop, q, w->kw, w->stride, w->pad_w, w->in.w);
            const size_t u = u0 + j->place[from] / w->kw, v = v0 + j->place[from] % w->kw;
            gx[u * w->in.w + v] += j->gy[from];
        }
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    struct job j = { .w = wisp_window_of(l, in[0], out),
                     .gy = out->g,
                     .gx = in[0]->g,
                     .place = (uint8_t *)l->scratch,
                     .k = s->ctx->k };
    (void)err;
    wisp_parallel_for(s->ctx->pool, s->batch->n * j.w.out.blocks, backward_block, &j);
    return WISP_OK;
}

/* One place of a window of 16 x 16 pixels would mean that there is none. */
static bool masks(const struct wisp_layer *l)
{
    const struct wisp_slide s = wisp_slide_window(l);
    return s.kh * s.kw <= WISP_NO_PLACE;
}

const struct wisp_layer_kind wisp_layer_maxpool = {
    .name = "maxpool",
    .what = "the largest of each channel under a window that moves over the image",
    .args = args,
    .takes = WISP_FLAT | WISP_PLANES,
    .uses = WISP_MAKES_ZEROS | WISP_BY_SAMPLE,
    .ties = WISP_TIES_SAME,
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .masks = masks,
};
