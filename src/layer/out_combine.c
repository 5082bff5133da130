/* What the output layer's blocks come to together: losses and factors of the samples. */
#include "layer/out.h"

#include <math.h>

/* The loss and the factor of a sample, its weight and 1/n folded into the factor. */
static void combine(const struct wisp_out_job *j, size_t i)
{
    const struct wisp_out_view *v = &j->v;
    const struct wisp_batch *b = j->s->batch;
    double sum = 0, logits = 0;
    float factor = 0;
    v->max[i] = -INFINITY;
    for (size_t block = 0; block < v->n_blocks; block++) {
        sum += v->block_sum[block * v->ld + i];
        if (v->block_z) logits += (double)v->block_z[block * v->ld + i];
        v->max[i] = fmaxf(v->max[i], v->block_max[block * v->ld + i]);
    }
    bool counts =
        v->n_blocks > 0 && (wisp_out_n_true(b, i) > 0 || j->s->head.loss->uses_unlabelled);
    v->loss[i] = counts ? j->s->head.loss->finish(v->origin[i], sum, &factor) : 0;
    if (counts && v->block_z) v->loss[i] -= (double)wisp_out_level(j) * logits;
    v->factor[i] = wisp_batch_weight(b, i) * factor / (float)b->n;
}

/* What a number of E must be above to be worth collecting: what the sampler knows already, and the
 * k-th largest of the blocks' largest logits, as k rows are at least that. */
static float limit_of(const struct wisp_out_job *j, size_t i, uint64_t *keys)
{
    const struct wisp_out_view *v = &j->v;
    float limit = wisp_sampler_limits(j->l->sampler)[i], least = INFINITY;
    for (size_t b = 0; b < v->n_blocks; b++) keys[b] = wisp_key(v->block_max[b * v->ld + i], 0);
    wisp_keys_select(keys, v->n_blocks, v->k);
    for (size_t b = 0; b < v->k && b < v->n_blocks; b++)
        least = fminf(least, wisp_key_score(keys[b]));
    if (v->n_blocks >= v->k && least > limit) limit = least;
    return 0.98f * j->s->head.loss->value(limit, v->origin[i]); /* E may be rounded */
}

static void combine_tile(void *arg, size_t tile, int thread)
{
    const struct wisp_out_job *j = arg;
    uint64_t *keys = wisp_out_keys(j, thread);
    size_t first = tile * WISP_TILE, n = wisp_tile_rows(j->v.ld, tile);
    for (size_t i = first; i < first + n; i++) {
        combine(j, i);
        if (j->v.k) j->v.limit[i] = limit_of(j, i, keys);
    }
    j->p.kind->factors(&j->p, j->v.factor, first, n);
}

/* New origins where the old ones were too far off; true: there are some. */
static bool move_origins(const struct wisp_out_job *j)
{
    const struct wisp_out_view *v = &j->v;
    bool moved = false;
    for (size_t i = 0; i < v->ld && v->n_blocks && j->s->head.loss->has_origin; i++)
        if (fabsf(v->max[i] - v->origin[i]) > WISP_LOSS_RANGE && isfinite(v->max[i])) {
            v->origin[i] = v->max[i];
            moved = true;
        }
    return moved;
}

/* The true labels' part of the loss; what they have in common with all others is in it already. */
static void add_up(const struct wisp_out_job *j)
{
    const struct wisp_batch *b = j->s->batch;
    const struct wisp_out_view *v = &j->v;
    for (uint32_t e = 0; e < v->start[v->n_blocks]; e++)
        v->loss[b->sample[e]] -=
            (double)(wisp_out_target(j, b->sample[e]) - wisp_out_level(j)) * b->logit[e];
    j->s->head.loss_sum = 0;
    for (size_t i = 0; i < b->n; i++)
        j->s->head.loss_sum += (double)wisp_batch_weight(b, i) * v->loss[i];
}

bool wisp_out_combine(struct wisp_out_job *j)
{
    wisp_parallel_for(j->s->ctx->pool, wisp_tiles(j->p.n), combine_tile, j);
    bool again = move_origins(j);
    if (!again) add_up(j);
    return again;
}
