/* Dropout: while training, out = in * mask / (1 - rate); otherwise out = in.
 *
 * The mask is a function of (seed, layer, step, place), so it needs no memory: backward
 * draws it again. */
#include "layer/layer.h"
#include "base/rand.h"
#include "graph/ids.h"

#include <string.h>

static const struct wisp_arg args[] = {
    { .name = "share", .what = "of the units", .type = WISP_ARG_REAL, .most = 1, .open = true },
    { .name = NULL },
};

struct job {
    const struct wisp_layer *l;
    const struct wisp_step *s;
    float *to;
    const float *from;
    size_t floats; /* of a sample */
};

/* One random number serves four places: 16 bits each. */
static void tile(void *arg, size_t t, int thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t width = j->floats, first = t * WISP_TILE * width;
    size_t end = first + wisp_tile_rows(j->s->batch->n, t) * width;
    uint64_t stream = wisp_stream(WISP_STREAM_DROPOUT, (uint64_t)j->l->number);
    uint64_t key = wisp_rand(j->s->seed, stream, j->s->number);
    uint32_t limit = (uint32_t)(j->l->arg[0] * 65536);
    float keep = (float)(1 / (1 - j->l->arg[0]));
    const size_t before = j->s->batch->before * width; /* places of other ranks; a multiple of 4 */
    for (size_t i = first; i < end; i += 4) {
        uint64_t r = wisp_mix(key + 0x9e3779b97f4a7c15u * ((before + i) / 4 + 1));
        for (size_t c = i; c < i + 4 && c < end; c++, r >>= 16)
            j->to[c] = (r & 0xffff) >= limit ? j->from[c] * keep : 0;
    }
}

static void apply(const struct wisp_layer *l, const struct wisp_step *s, float *to,
                  const float *from, size_t floats)
{
    struct job j = { l, s, to, from, floats };
    if (s->training) wisp_parallel_for(s->ctx->pool, wisp_tiles(s->batch->n), tile, &j);
    else if (to != from) memcpy(to, from, s->batch->n * floats * sizeof *to);
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)err;
    apply(l, s, out->x, in[0]->x, out->floats);
    return WISP_OK;
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)err;
    apply(l, s, in[0]->g, out->g, out->floats);
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_dropout = {
    .name = "dropout",
    .what = "zeroes a share of the units while training",
    .args = args,
    .takes = WISP_FLAT | WISP_PLANES,
    .uses = WISP_IN_PLACE,
    .ties = WISP_TIES_SAME,
    .plan = wisp_layer_plan_same,
    .forward = forward,
    .backward = backward,
};
