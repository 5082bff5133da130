/* Dense layer between hidden layers: out = in W + bias, W (n_in, n_out).
 *
 * Forward is split by tiles of samples, the gradient for the layer below by panels of 64 rows of W,
 * which a thread transposes in its scratch, and the weight gradient by tiles of rows of W; each row
 * is moved by the thread that summed it. */
#include "layer/layer.h"

#include <math.h>
#include <string.h>

enum { PANEL = 64 };

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)in, (void)out, (void)err;
    l->n_out = (size_t)l->arg[0];
    wisp_layer_declare_rows(l, "weight", WISP_BY_NONE, l->n_in, l->n_out);
    wisp_layer_declare_rows(l, "bias", WISP_BY_NONE, 1, l->n_out);
    if (s->training) l->thread_floats = PANEL * l->n_out;
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

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)err;
    struct job j = { (struct wisp_layer *)l, s, in[0], out };
    wisp_parallel_for(s->ctx->pool, wisp_tiles(s->batch->n), forward_tile, &j);
    return WISP_OK;
}

static void below_panel(void *arg, size_t panel, int thread)
{
    const struct job *j = arg;
    const struct wisp_layer *l = j->l;
    const struct wisp_kernels *k = j->s->ctx->k;
    size_t first = panel * PANEL, n = l->n_in - first < PANEL ? l->n_in - first : PANEL;
    float *turned = wisp_layer_thread(l, thread); /* (n_out, n) */
    k->transpose(turned, n, l->params[0].w + first * l->n_out, l->n_out, n, l->n_out);
    k->gemm(j->in->g + first, l->n_in, j->out->g, l->n_out, 1, turned, n, j->s->batch->n, n,
            l->n_out, false);
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

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)err;
    struct job j = { l, s, in[0], out };
    if (in[0]->g) wisp_parallel_for(s->ctx->pool, wisp_parts(l->n_in, PANEL), below_panel, &j);
    wisp_parallel_for(s->ctx->pool, wisp_tiles(l->n_in), weight_tile, &j);
    wisp_layer_move_bias(l, s, &l->params[1], out->g);
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_dense = {
    .name = "dense",
    .what = "values times a matrix",
    .args = wisp_args_width,
    .takes = WISP_FLAT,
    .uses = WISP_USES_X,
    .plan = plan,
    .init = wisp_layer_init_he,
    .flops = wisp_layer_flops_matrix,
    .forward = forward,
    .backward = backward,
};
