/* Dropout: while training, out = in * mask / (1 - rate); otherwise out = in.
 *
 * The mask is a function of (seed, layer, step, place), so it needs no memory: backward
 * draws it again. */
#include "layer/layer.h"
#include "base/rand.h"

#include <string.h>

static wisp_status plan(struct wisp_layer *l, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)s;
    if (l->number == 0)
        return wisp_fail(err, WISP_EINVAL,
                         "--net: the first layer must be 'input' or 'sparse', found 'dropout'");
    l->n_out = l->n_in;
    return WISP_OK;
}

struct job {
    const struct wisp_layer *l;
    const struct wisp_step *s;
    float *to;
    const float *from;
};

/* One random number serves four places: 16 bits each. */
static void tile(void *arg, size_t t, int thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t width = j->l->n_out, first = t * WISP_TILE * width;
    size_t end = first + wisp_tile_rows(j->s->batch->n, t) * width;
    uint64_t stream = WISP_STREAM_DROPOUT + ((uint64_t)j->l->number << 8);
    uint64_t key = wisp_rand(j->s->seed, stream, j->s->number);
    uint32_t limit = (uint32_t)(j->l->arg * 65536);
    float keep = (float)(1 / (1 - j->l->arg));
    for (size_t i = first; i < end; i += 4) {
        uint64_t r = wisp_mix(key + 0x9e3779b97f4a7c15u * (i / 4 + 1));
        for (size_t c = i; c < i + 4 && c < end; c++, r >>= 16)
            j->to[c] = (r & 0xffff) >= limit ? j->from[c] * keep : 0;
    }
}

static void apply(const struct wisp_layer *l, const struct wisp_step *s, float *to,
                  const float *from)
{
    struct job j = { l, s, to, from };
    if (s->training) wisp_parallel_for(s->ctx->pool, wisp_tiles(s->batch->n), tile, &j);
    else memcpy(to, from, s->batch->n * l->n_out * sizeof *to);
}

static void forward(const struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                    struct wisp_act *out)
{
    apply(l, s, out->x, in->x);
}

static void backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *in,
                     const struct wisp_act *out)
{
    apply(l, s, in->g, out->g);
}

const struct wisp_layer_kind wisp_layer_dropout = {
    .name = "dropout",
    .what = "zeroes a share of the units while training; number: share",
    .arg = WISP_ARG_SHARE,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
