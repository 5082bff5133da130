/* The output layer's way back: targets, gradients, rows that move, the best rows. */
#include "hash/swap.h"
#include "layer/out.h"

#include <math.h>

/* The targets, before the factor.  E of a true label is made anew from its logit: what is kept may
 * be too coarse to subtract from. */
static void subtract_targets(const struct wisp_out_job *j, size_t block)
{
    const struct wisp_batch *b = j->s->batch;
    const struct wisp_out_view *v = &j->v;
    for (uint32_t e = v->start[block]; e < v->start[block + 1]; e++) {
        uint32_t i = b->sample[e];
        float target = wisp_batch_weight(b, i) * wisp_out_target(j, i) / wisp_batch_all(b);
        float value = j->s->head.loss->value(b->logit[e], v->origin[i]);
        if (v->factor[i] == 0) continue; /* of weight 0: nothing of it counts */
        j->p.kind->set(&j->p, b->place[e], i, value - target / v->factor[i]);
    }
}

/* What all labels' targets have alike, before the factor, from every row of a block.  True labels are
 * made anew after it. */
static void subtract_level(const struct wisp_out_job *j, size_t first, size_t m, float *spare)
{
    const struct wisp_batch *b = j->s->batch;
    const struct wisp_out_view *v = &j->v;
    for (size_t row = first; row < first + m; row++) {
        const float *e = j->p.kind->row(&j->p, row, spare);
        for (size_t i = 0; i < b->n; i++) {
            if (v->factor[i] == 0) continue; /* of weight 0, or without labels */
            float target = wisp_batch_weight(b, i) * wisp_out_level(j) / wisp_batch_all(b);
            j->p.kind->set(&j->p, row, i, e[i] - target / v->factor[i]);
        }
    }
}

/* Bias gradients, and the best rows, from the rows of E. */
static void look_at_rows(const struct wisp_out_job *j, size_t first, size_t m,
                         struct wisp_best *best, const struct wisp_out_work *own)
{
    const struct wisp_out_view *v = &j->v;
    for (size_t i = first; i < first + m; i++) {
        const float *e = j->p.kind->row(&j->p, i, own->row);
        v->gb[i] = j->p.k->dot(e, v->factor, v->ld);
        if (v->k)
            wisp_best_collect(best, j->p.k, e, 1, NULL, wisp_row_at(&j->s->head.active, i),
                              own->where);
    }
}

static void backward_block(const struct wisp_out_job *j, size_t block, float *part, bool add,
                           struct wisp_best *best, int thread)
{
    const struct wisp_update *u = j->s->update;
    struct wisp_param *weight = &j->l->params[0], *bias = &j->l->params[1];
    size_t width = j->l->n_in, first = block * WISP_OUT_BLOCK,
           m = wisp_block_rows(&j->s->head.active, block);
    struct wisp_out_work own = wisp_out_work(j, thread);
    wisp_out_phase(j, thread, WISP_PHASE_GATHER);
    const void *w = j->p.kind->gather(&j->p, block, true, own.products);
    for (size_t i = 0; i < m; i++)
        wisp_param_fetch(bias, wisp_row_at(&j->s->head.active, first + i), true);
    wisp_out_phase(j, thread, WISP_PHASE_LOSS);
    if (j->l->smoothing > 0) subtract_level(j, first, m, own.row);
    subtract_targets(j, block);
    look_at_rows(j, first, m, best, &own);
    wisp_out_phase(j, thread, WISP_PHASE_PRODUCTS);
    j->p.kind->backward(&j->p, block, m, w, part, add, own.gw, own.products);
    wisp_out_phase(j, thread, WISP_PHASE_UPDATE);
    for (size_t i = 0; i < m; i++) {
        size_t row = wisp_row_at(&j->s->head.active, first + i);
        u->row(u, weight, row, own.gw + i * width);
        u->row(u, bias, row, j->v.gb + first + i);
    }
}

static void backward_lane(void *arg, size_t lane, int thread)
{
    const struct wisp_out_job *j = arg;
    size_t n = j->v.n_blocks, lanes = j->v.n_lanes;
    size_t begin = lane * n / lanes, end = (lane + 1) * n / lanes;
    struct wisp_best best = j->v.lists[lane];
    if (j->v.k) wisp_best_reset(&best, j->v.limit);
    for (size_t block = begin; block < end; block++)
        backward_block(j, block, j->v.part[lane], block > begin, &best, thread);
}

/* What this rank has of a sample's best rows, by their ids. */
static void offer_best(const struct wisp_out_job *j, size_t i, const uint64_t *keys, size_t found)
{
    const struct wisp_share share = j->l->params[0].share;
    const size_t k = j->v.k;
    uint64_t *to = j->v.keys + i * k;
    for (size_t c = 0; c < k; c++) {
        const size_t id = c < found ? wisp_share_id(share, (size_t)wisp_key_row(keys[c])) : 0;
        to[c] = c < found ? wisp_key(wisp_key_score(keys[c]), (int32_t)id) : 0;
    }
}

/* The best of all ranks. */
static wisp_status swap_best(const struct wisp_out_job *j, wisp_error *err)
{
    const size_t n = j->p.n, k = j->v.k;
    wisp_status st = wisp_keys_swap(j->v.keys, j->s->ctx->comm, n, k, err);
    for (size_t i = 0; i < n * k && st == WISP_OK; i++)
        j->v.best[i] = j->v.keys[i] ? wisp_key_row(j->v.keys[i]) : -1;
    return st;
}

/* The gradient of h, and the best rows, of a tile of samples. */
static void end_tile(void *arg, size_t tile, int thread)
{
    const struct wisp_out_job *j = arg;
    size_t first = tile * WISP_TILE, n = wisp_tile_rows(j->p.n, tile), k = j->v.k;
    j->p.kind->end(&j->p, j->in->g, j->v.part, j->v.n_lanes, j->v.factor, first, n,
                   wisp_out_work(j, thread).products);
    uint64_t *keys = wisp_out_keys(j, thread);
    for (size_t i = first; k && i < first + n; i++) {
        size_t found = wisp_best_take(keys, j->v.lists, j->v.n_lanes, i, -INFINITY);
        if (j->v.keys) offer_best(j, i, keys, found);
        for (size_t c = 0; c < k; c++)
            j->v.best[i * k + c] = c < found ? wisp_key_row(keys[c]) : -1;
    }
}

wisp_status wisp_out_back(struct wisp_out_job *j, wisp_error *err)
{
    wisp_parallel_for(j->s->ctx->pool, j->v.n_lanes, backward_lane, j);
    wisp_phase(j->s->ctx->pool, 0, WISP_PHASE_PRODUCTS);
    wisp_parallel_for(j->s->ctx->pool, wisp_tiles(j->p.n), end_tile, j);
    return j->v.keys ? swap_best(j, err) : WISP_OK;
}
