/* The output layer's logits, by blocks of rows. */
#include "layer/out.h"

#include <string.h>

static void begin_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct wisp_out_job *j = arg;
    j->p.kind->begin(&j->p, tile * WISP_TILE, wisp_tile_rows(j->p.n, tile));
}

/* Rows drawn at random stand for all that were not: their logits are raised. */
static void lift_drawn(const struct wisp_out_job *j, float *z, size_t first, size_t m)
{
    const float *shift = j->s->head.active.shift;
    for (size_t i = 0; shift && i < m; i++)
        for (size_t c = 0; shift[first + i] != 0 && c < j->v.ld; c++)
            z[i * j->v.ld + c] += shift[first + i];
}

/* What the targets that all labels have alike take from the loss. */
static void sum_logits(const struct wisp_out_job *j, const float *z, size_t block, size_t m)
{
    float *sum = j->v.block_z + block * j->v.ld;
    memset(sum, 0, j->v.ld * sizeof *sum);
    for (size_t i = 0; i < m; i++) j->p.k->axpy(sum, z + i * j->v.ld, 1, j->v.ld);
}

static void forward_block(void *arg, size_t block, int thread)
{
    const struct wisp_out_job *j = arg;
    const struct wisp_out_view *v = &j->v;
    const struct wisp_batch *b = j->s->batch;
    size_t m = wisp_block_rows(&j->s->head.active, block), first = block * WISP_OUT_BLOCK;
    float bias[WISP_OUT_BLOCK];
    struct wisp_out_work own = wisp_out_work(j, thread);
    wisp_out_phase(j, thread, WISP_PHASE_GATHER);
    const void *w = j->p.kind->gather(&j->p, block, false, own.products);
    for (size_t i = 0; i < m; i++) {
        size_t row = wisp_row_at(&j->s->head.active, first + i);
        bias[i] = j->l->params[1].w[row] + (j->l->raise ? j->l->raise[row] : 0);
    }
    wisp_out_phase(j, thread, WISP_PHASE_PRODUCTS);
    float *z = j->p.kind->forward(&j->p, block, m, w, bias, own.products);
    wisp_out_phase(j, thread, WISP_PHASE_LOSS);
    lift_drawn(j, z, first, m);
    for (uint32_t e = v->start[block]; e < v->start[block + 1]; e++)
        b->logit[e] = z[(b->place[e] - first) * v->ld + b->sample[e]];
    j->p.k->col_max(v->block_max + block * v->ld, z, v->ld, m, v->ld);
    if (v->block_z) sum_logits(j, z, block, m);
    j->s->head.loss->block(j->p.k, z, v->ld, m, v->ld, v->origin, v->block_sum + block * v->ld);
    j->p.kind->keep(&j->p, block, m, z);
}

/* Files the true labels by block: count, prefix sum, fill.  Here ids of labels become rows; those
 * of other ranks are left out. */
static void file_labels(const struct wisp_out_job *j)
{
    const struct wisp_batch *b = j->s->batch;
    uint32_t *start = j->v.start, *place = (uint32_t *)b->logit; /* which is filled later */
    memset(start, 0, (j->v.n_blocks + 1) * sizeof *start);
    const struct wisp_share share = j->l->params[0].share;
    for (size_t i = 0; i < b->yp[b->n]; i++) {
        const size_t id = (size_t)b->yi[i];
        const int32_t row = (int32_t)wisp_share_row(share, id);
        size_t at =
            wisp_share_has(share, id) ? wisp_active_place(&j->s->head.active, row) : SIZE_MAX;
        place[i] = at == SIZE_MAX ? UINT32_MAX : (uint32_t)at;
        if (at != SIZE_MAX) start[at / WISP_OUT_BLOCK]++;
    }
    uint32_t sum = 0;
    for (size_t i = 0; i <= j->v.n_blocks; i++) {
        uint32_t count = i < j->v.n_blocks ? start[i] : 0;
        start[i] = sum;
        sum += count;
    }
    for (size_t i = 0; i < b->n; i++)
        for (uint32_t y = b->yp[i]; y < b->yp[i + 1]; y++) {
            if (place[y] == UINT32_MAX) continue;
            uint32_t at = start[place[y] / WISP_OUT_BLOCK]++;
            b->place[at] = place[y];
            b->sample[at] = (uint32_t)i;
        }
    for (size_t i = j->v.n_blocks; i > 0; i--) start[i] = start[i - 1];
    start[0] = 0;
}

void wisp_out_begin(struct wisp_out_job *j)
{
    file_labels(j);
    memset(j->v.origin, 0, j->v.ld * sizeof *j->v.origin);
    wisp_parallel_for(j->s->ctx->pool, wisp_tiles(j->p.n), begin_tile, j);
}

void wisp_out_score(struct wisp_out_job *j)
{
    wisp_parallel_for(j->s->ctx->pool, j->v.n_blocks, forward_block, j);
}
