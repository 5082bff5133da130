/* The way 'plain': the definition, for any sizes, groups and blocks.  Each number is one sum in
 * double, in the order of the formula, so it is as near to the truth as a float can be.
 *
 *   forward, data   a channel of a sample is a task
 *   weights         an output channel is a task; gw is in plain order */
#include "conv/conv.h"
#include "base/pool.h"

#include <string.h>

struct task {
    const struct wisp_conv *c;
    const struct wisp_conv_job *j;
};

/* The pixel under tap k at place p of the result; false: it lies outside. */
static bool under(size_t *at, size_t p, size_t k, size_t stride, size_t pad, size_t pixels)
{
    *at = p * stride + k - pad; /* below 0 it is past the end */
    return *at < pixels;
}

static double sum_forward(const struct wisp_conv *c, const float *x, const float *w, size_t first,
                          size_t p, size_t q)
{
    double sum = 0;
    size_t u, v;
    for (size_t ch = 0; ch < c->in / c->groups; ch++)
        for (size_t i = 0; i < c->kh; i++) {
            if (!under(&u, p, i, c->stride, c->pad_h, c->h)) continue;
            for (size_t k = 0; k < c->kw; k++)
                if (under(&v, q, k, c->stride, c->pad_w, c->w))
                    sum += (double)w[(ch * c->kh + i) * c->kw + k] *
                           (double)x[wisp_plane_at(first + ch, u, v, c->h, c->w, c->block)];
        }
    return sum;
}

static void forward(void *arg, size_t task, int thread)
{
    const struct wisp_conv *c = ((const struct task *)arg)->c;
    const struct wisp_conv_job *j = ((const struct task *)arg)->j;
    uint64_t found = 0;
    const size_t channels = wisp_up(c->out, WISP_PLANE_BLOCK), o = task % channels,
                 sample = task / channels, first = o / (c->out / c->groups) * (c->in / c->groups);
    const float *x = j->x + sample * wisp_conv_in_floats(c), *w = j->w + o * wisp_conv_row(c);
    float *y = j->y + sample * wisp_conv_out_floats(c);
    for (size_t p = 0; p < c->oh; p++)
        for (size_t q = 0; q < c->ow; q++) {
            float to = 0;
            if (o < c->out) {
                double bias = j->bias ? (double)j->bias[o] : 0;
                to = (float)(bias + sum_forward(c, x, w, first, p, q));
                if (j->relu && to < 0) to = 0; /* a NaN stays one */
            }
            y[wisp_plane_at(o, p, q, c->oh, c->ow, WISP_PLANE_BLOCK)] = to;
            found += to != 0;
        }
    uint64_t *live = wisp_conv_live(j, true, thread, o / WISP_PLANE_BLOCK);
    if (live) *live += found;
}

/* The place of the result whose tap k lies on pixel u; false: there is none. */
static bool over(size_t *at, size_t u, size_t k, size_t stride, size_t pad, size_t pixels)
{
    *at = (u + pad - k) / stride;
    return u + pad >= k && (u + pad - k) % stride == 0 && *at < pixels;
}

static double sum_data(const struct wisp_conv *c, const struct wisp_conv_job *j, const float *gy,
                       size_t ch, size_t u, size_t v)
{
    const size_t outs = c->out / c->groups, ins = c->in / c->groups, first = ch / ins * outs;
    double sum = 0;
    size_t p, q;
    for (size_t o = first; o < first + outs; o++) {
        const float *w = j->w + o * wisp_conv_row(c) + ch % ins * c->kh * c->kw;
        for (size_t i = 0; i < c->kh; i++) {
            if (!over(&p, u, i, c->stride, c->pad_h, c->oh)) continue;
            for (size_t k = 0; k < c->kw; k++)
                if (over(&q, v, k, c->stride, c->pad_w, c->ow))
                    sum += (double)w[i * c->kw + k] *
                           (double)gy[wisp_plane_at(o, p, q, c->oh, c->ow, WISP_PLANE_BLOCK)];
        }
    }
    return sum;
}

static void data(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct wisp_conv *c = ((const struct task *)arg)->c;
    const struct wisp_conv_job *j = ((const struct task *)arg)->j;
    const size_t channels = wisp_up(c->in, c->block), ch = task % channels,
                 sample = task / channels;
    const float *gy = j->gy + sample * wisp_conv_out_floats(c);
    float *gx = j->gx + sample * wisp_conv_in_floats(c);
    for (size_t u = 0; u < c->h; u++)
        for (size_t v = 0; v < c->w; v++)
            gx[wisp_plane_at(ch, u, v, c->h, c->w, c->block)] =
                ch < c->in ? (float)sum_data(c, j, gy, ch, u, v) : 0;
}

static double sum_weight(const struct wisp_conv *c, const struct wisp_conv_job *j, size_t o,
                         size_t ch, size_t i, size_t k)
{
    double sum = 0;
    size_t u, v;
    for (size_t s = 0; s < j->n; s++) {
        const float *x = j->x + s * wisp_conv_in_floats(c),
                    *gy = j->gy + s * wisp_conv_out_floats(c);
        for (size_t p = 0; p < c->oh; p++) {
            if (!under(&u, p, i, c->stride, c->pad_h, c->h)) continue;
            for (size_t q = 0; q < c->ow; q++)
                if (under(&v, q, k, c->stride, c->pad_w, c->w))
                    sum += (double)gy[wisp_plane_at(o, p, q, c->oh, c->ow, WISP_PLANE_BLOCK)] *
                           (double)x[wisp_plane_at(ch, u, v, c->h, c->w, c->block)];
        }
    }
    return sum;
}

static void weights(void *arg, size_t o, int thread)
{
    (void)thread;
    const struct wisp_conv *c = ((const struct task *)arg)->c;
    const struct wisp_conv_job *j = ((const struct task *)arg)->j;
    const size_t ins = c->in / c->groups, first = o / (c->out / c->groups) * ins;
    float *gw = j->gw + o * wisp_conv_row(c);
    for (size_t ch = 0; ch < ins; ch++)
        for (size_t i = 0; i < c->kh; i++)
            for (size_t k = 0; k < c->kw; k++) *gw++ = (float)sum_weight(c, j, o, first + ch, i, k);
}

static wisp_status run(const struct wisp_conv *c, enum wisp_conv_pass pass,
                       const struct wisp_conv_job *j, wisp_error *err)
{
    struct task t = { c, j };
    (void)err;
    if (pass == WISP_CONV_FORWARD)
        wisp_parallel_for(j->pool, j->n * wisp_up(c->out, WISP_PLANE_BLOCK), forward, &t);
    else if (pass == WISP_CONV_DATA)
        wisp_parallel_for(j->pool, j->n * wisp_up(c->in, c->block), data, &t);
    else wisp_parallel_for(j->pool, c->out, weights, &t);
    return WISP_OK;
}

static bool can(const struct wisp_conv *c, enum wisp_conv_pass pass, const struct wisp_kernels *k)
{
    (void)c, (void)pass, (void)k;
    return true;
}

static size_t weight_floats(const struct wisp_conv *c, enum wisp_conv_pass pass)
{
    return pass == WISP_CONV_WEIGHTS ? c->out * wisp_conv_row(c) : 0;
}

static void rows(const struct wisp_conv *c, const struct wisp_kernels *k, const float *gw,
                 size_t row, float *out)
{
    (void)k;
    memcpy(out, gw + row * wisp_conv_row(c),
           wisp_conv_rows_from(c, row) * wisp_conv_row(c) * sizeof *out);
}

const struct wisp_conv_way wisp_conv_plain = {
    .name = "plain",
    .what = "sums in double, one by one: the definition",
    .counts = true,
    .can = can,
    .weight_floats = weight_floats,
    .rows = rows,
    .run = run,
};
