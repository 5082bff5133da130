/* Dense layer between hidden layers: out = in W + bias, W (n_in, n_out).
 *
 * Forward and the gradient for the layer below are split by tiles of samples, the weight
 * gradient by tiles of rows of W; each row is moved by the thread that summed it.
 * Scratch: W transposed, as it was before the update. */
#include "layer/layer.h"

#include <math.h>
#include <string.h>

static wisp_status plan(struct wisp_layer *l, const struct wisp_layer_sizes *s, wisp_error *err)
{
    if (l->number == 0)
        return wisp_fail(err, WISP_EINVAL,
                         "--net: the first layer must be 'input' or 'sparse', found 'dense'");
    l->n_out = (size_t)l->arg;
    wisp_layer_declare_rows(l, "weight", WISP_BY_NONE, l->n_in, l->n_out);
    wisp_layer_declare_rows(l, "bias", WISP_BY_NONE, 1, l->n_out);
    if (s->training) {
        l->scratch_floats = l->n_in * l->n_out;
        l->thread_floats = WISP_TILE * l->n_out;
    }
    return WISP_OK;
}

struct job {
    struct wisp_layer *l;
    struct wisp_step *s;
    const struct wisp_act *in, *out;
};

static void forward_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct wisp_layer *l = j->l;
    size_t first = tile * WISP_TILE, n = wisp_tile_rows(j->s->batch->n, tile);
    float *out = j->out->x + first * l->n_out;
    for (size_t i = 0; i < n; i++)
        memcpy(out + i * l->n_out, l->params[1].w, l->n_out * sizeof *out);
    j->s->ctx->k->gemm(out, l->n_out, j->in->x + first * l->n_in, l->n_in, 1, l->params[0].w,
                       l->n_out, n, l->n_out, l->n_in, true);
}

static void forward(const struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                    struct wisp_act *out)
{
    struct job j = { (struct wisp_layer *)l, s, in, out };
    wisp_parallel_for(s->ctx->pool, wisp_tiles(s->batch->n), forward_tile, &j);
}

static void below_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct wisp_layer *l = j->l;
    size_t first = tile * WISP_TILE, n = wisp_tile_rows(j->s->batch->n, tile);
    j->s->ctx->k->gemm(j->in->g + first * l->n_in, l->n_in, j->out->g + first * l->n_out, l->n_out,
                       1, l->scratch, l->n_in, n, l->n_in, l->n_out, false);
}

static void weight_tile(void *arg, size_t tile, int thread)
{
    const struct job *j = arg;
    struct wisp_layer *l = j->l;
    size_t first = tile * WISP_TILE, n = wisp_tile_rows(l->n_in, tile);
    float *g = wisp_layer_thread(l, thread);
    j->s->ctx->k->gemm(g, l->n_out, j->in->x + first, 1, l->n_in, j->out->g, l->n_out, n, l->n_out,
                       j->s->batch->n, false);
    for (size_t i = 0; i < n; i++)
        j->s->update->row(j->s->update, &l->params[0], first + i, g + i * l->n_out);
}

static void backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *in,
                     const struct wisp_act *out)
{
    struct job j = { l, s, in, out };
    s->ctx->k->transpose(l->scratch, l->n_in, l->params[0].w, l->n_out, l->n_in, l->n_out);
    wisp_parallel_for(s->ctx->pool, wisp_tiles(s->batch->n), below_tile, &j);
    wisp_parallel_for(s->ctx->pool, wisp_tiles(l->n_in), weight_tile, &j);
    wisp_layer_move_bias(l, s, &l->params[1], out->g);
}

const struct wisp_layer_kind wisp_layer_dense = {
    .name = "dense",
    .what = "dense values times a matrix; number: width",
    .arg = WISP_ARG_WIDTH,
    .plan = plan,
    .init = wisp_layer_init_he,
    .forward = forward,
    .backward = backward,
};
