/* Average pooling: the sum under a window that moves over each channel, divided by the window's
 * pixels.  As in PyTorch, what lies outside the image counts as 0. */
#include "layer/window.h"

#include <string.h>

static const struct wisp_arg args[] = {
    [WISP_WINDOW_KERNEL] = { .name = "kernel",
                             .what = "pixels of the window",
                             .type = WISP_ARG_SIZE,
                             .least = 1,
                             .most = WISP_MAX_KERNEL },
    [WISP_WINDOW_STRIDE] = { .name = "stride",
                             .what = "pixels from one window to the next; not given: the kernel",
                             .type = WISP_ARG_INT,
                             .least = 1,
                             .most = WISP_MAX_KERNEL,
                             .fallback = "" },
    [WISP_WINDOW_PAD] = { .name = "pad",
                          .what = "pixels around the image, which count as 0",
                          .type = WISP_ARG_SIZE,
                          .most = WISP_MAX_KERNEL,
                          .fallback = "0" },
    { .name = NULL },
};

struct job {
    struct wisp_window w;
    float *in, *out; /* values, or gradients */
    bool back;
    const struct wisp_kernels *k;
    const struct wisp_zeros_of *zeros; /* of the result; NULL: nobody counts */
};

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)s;
    return wisp_window_plan(l, in[0], out, err);
}

/* The window at (p, q), all channels of the block: y is its sum, or what each of it gets. */
static void look(const struct job *j, float *x, float *y, size_t p, size_t q)
{
    const struct wisp_window *w = &j->w;
    const size_t block = w->in.block;
    const float share = 1 / (float)(w->kh * w->kw);
    size_t u0, u1, v0, v1;
    wisp_window_span(&u0, &u1, p, w->kh, w->stride, w->pad_h, w->in.h);
    wisp_window_span(&v0, &v1, q, w->kw, w->stride, w->pad_w, w->in.w);
    if (!j->back) memset(y, 0, block * sizeof *y);
    for (size_t u = u0; u < u1; u++)
        for (size_t v = v0; v < v1; v++) {
            float *at = x + (u * w->in.w + v) * block;
            for (size_t c = 0; c < block; c++)
                if (j->back) at[c] += y[c] * share;
                else y[c] += at[c];
        }
    for (size_t c = 0; c < block && !j->back; c++) y[c] *= share;
}

/* A block of channels of a sample. */
static void over_block(void *arg, size_t task, int thread)
{
    const struct job *j = arg;
    const struct wisp_planes *out = &j->w.out, *in = &j->w.in;
    const size_t sample = task / out->blocks, block = task % out->blocks;
    float *x = j->in + wisp_planes_block(in, sample, block),
          *y = j->out + wisp_planes_block(out, sample, block);
    if (j->back) memset(x, 0, in->h * in->w * in->block * sizeof *x);
    for (size_t p = 0; p < out->h; p++)
        for (size_t q = 0; q < out->w; q++, y += out->block) look(j, x, y, p, q);
    if (!j->zeros) return;
    const size_t n = out->h * out->w * out->block;
    wisp_zeros_add(j->zeros, thread, j->zeros->blocks > 1 ? block : 0, j->k->live_count(y - n, n));
}

static wisp_status run(const struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                       const struct wisp_act *out, bool back)
{
    struct job j = { wisp_window_of(l, in, out),
                     back ? in->g : in->x,
                     back ? out->g : out->x,
                     back,
                     s->ctx->k,
                     back ? NULL : wisp_layer_zeros(s, out) };
    wisp_parallel_for(s->ctx->pool, s->batch->n * j.w.out.blocks, over_block, &j);
    return WISP_OK;
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)err;
    return run(l, s, in[0], out, false);
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)err;
    return run(l, s, in[0], out, true);
}

const struct wisp_layer_kind wisp_layer_avgpool = {
    .name = "avgpool",
    .what = "the mean of each channel under a window that moves over the image",
    .args = args,
    .takes = WISP_FLAT | WISP_PLANES,
    .uses = WISP_MAKES_ZEROS | WISP_BY_SAMPLE,
    .ties = WISP_TIES_SAME,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
