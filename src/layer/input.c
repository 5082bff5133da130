/* Sparse input ("embedding bag"): out = bias + sum over a row's features f of x_f * W[f].
 *
 * W is (n_in features, n_out), so a non-zero costs one contiguous row.  Forward is split by
 * samples.  Backward is split by touched feature: the batch carries its non-zeros by
 * feature as well, so each touched row has one owner, which sums its gradient
 *     g[f] = sum over samples s with f of x_sf * gz[s]
 * and moves the row at once; gradients of a whole layer never exist.
 *
 * Of several ranks each has the rows of some features and adds up those; the sums of all ranks are
 * the result.  The bias is everybody's, and rank 0 adds it. */
#include "layer/layer.h"
#include "base/bounds.h"
#include "comm/comm.h"

#include <string.h>

enum { FEATURES_A_TASK = 64, AHEAD = 6 };

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)in, (void)out, (void)err;
    l->n_out = (size_t)l->arg[0];
    struct wisp_param *w =
        wisp_layer_declare_share(l, "weight", WISP_BY_FEATURE, s->share, l->n_in, l->n_out);
    w->narrow = true;
    w->half = s->half;
    wisp_param_axes(w, WISP_AXIS_NONE, WISP_AXIS_OUT);
    wisp_param_axes(wisp_layer_declare_rows(l, "bias", WISP_BY_NONE, 1, l->n_out), WISP_AXIS_NONE,
                    WISP_AXIS_OUT);
    l->thread_floats = l->n_out;
    return WISP_OK;
}

/* Rows have length 1, so this is also the deviation of a hidden unit at the start. */
static void init(struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool)
{
    wisp_param_normal(&l->params[0], 0.1, seed, 2 * l->number, pool);
    memset(l->params[1].w, 0, l->n_out * sizeof(float));
}

struct job {
    struct wisp_layer *l;
    struct wisp_step *s;
    const struct wisp_act *out;
};

static void forward_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct wisp_batch *b = j->s->batch;
    size_t width = j->l->n_out, first = tile * WISP_TILE, n = wisp_tile_rows(b->n, tile);
    struct wisp_weights w = wisp_param_weights(&j->l->params[0]);
    const uint32_t *p = b->in_p ? b->in_p : b->xp;
    const int32_t *rows = b->in_p ? b->in_i : b->xi;
    const float *values = b->in_p ? b->in_v : b->xv;
    const bool biased = j->l->params[0].share.rank == 0;
    for (size_t i = first; i < first + n; i++) {
        float *out = j->out->x + i * width;
        if (biased) memcpy(out, j->l->params[1].w, width * sizeof *out);
        else memset(out, 0, width * sizeof *out);
        wisp_weights_bag(j->s->ctx->k, out, &w, rows + p[i], values + p[i], p[i + 1] - p[i]);
    }
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)in; /* the batch itself */
    struct job j = { (struct wisp_layer *)l, s, out };
    wisp_parallel_for(s->ctx->pool, wisp_tiles(s->batch->n), forward_tile, &j);
    if (wisp_share_all(l->params[0].share)) return WISP_OK;
    return wisp_comm_sum(s->ctx->comm, out->x, s->batch->n * l->n_out, err);
}

static void backward_features(void *arg, size_t task, int thread)
{
    const struct job *j = arg;
    const struct wisp_batch *b = j->s->batch;
    size_t width = j->l->n_out, end = (task + 1) * FEATURES_A_TASK;
    float *g = wisp_layer_thread(j->l, thread);
    if (end > b->n_touched) end = b->n_touched;
    for (size_t t = task * FEATURES_A_TASK; t < end; t++) {
        if (t + AHEAD < b->n_touched)
            wisp_param_fetch(&j->l->params[0], (size_t)b->touched[t + AHEAD], true);
        memset(g, 0, width * sizeof *g);
        j->s->ctx->k->bag(g, j->out->g, width, b->ts + b->tp[t], b->tv + b->tp[t],
                          b->tp[t + 1] - b->tp[t], width);
        j->s->update->row(j->s->update, &j->l->params[0], (size_t)b->touched[t], g);
    }
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)in, (void)err;
    struct job j = { l, s, out };
    size_t n_tasks = wisp_parts(s->batch->n_touched, FEATURES_A_TASK);
    wisp_parallel_for(s->ctx->pool, n_tasks, backward_features, &j);
    wisp_layer_move_bias(l, s, &l->params[1], out->g);
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_input = {
    .name = "input",
    .what = "the rows of the data times a matrix",
    .args = wisp_args_width,
    .takes = WISP_ROWS,
    .ties = WISP_TIES_NEW,
    .thins = true,
    .plan = plan,
    .init = init,
    .forward = forward,
    .backward = backward,
};
