/* What the output layer's blocks come to together: losses and factors of the samples. */
#include "comm/comm.h"
#include "layer/out.h"

#include <math.h>

struct sums { /* of a sample, over blocks */
    double sum, logits;
    float max;
};

static struct sums add_blocks(const struct wisp_out_view *v, size_t i)
{
    struct sums s = { .max = -INFINITY };
    for (size_t block = 0; block < v->n_blocks; block++) {
        s.sum += v->block_sum[block * v->ld + i];
        if (v->block_z) s.logits += (double)v->block_z[block * v->ld + i];
        s.max = fmaxf(s.max, v->block_max[block * v->ld + i]);
    }
    return s;
}

/* ---- several ranks ---- */

static void add_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct wisp_out_job *j = arg;
    size_t first = tile * WISP_TILE, n = wisp_tile_rows(j->v.ld, tile);
    for (size_t i = first; i < first + n; i++) {
        const struct sums s = add_blocks(&j->v, i);
        j->v.sums[i] = (struct wisp_out_sums){ s.sum, s.max, (float)s.logits };
    }
}

/* Fits wisp_join. */
static void join_sums(void *to, const void *const *part, int n_parts, size_t n, size_t bytes)
{
    (void)bytes;
    struct wisp_out_sums *out = to;
    for (size_t i = 0; i < n; i++) {
        struct wisp_out_sums s = ((const struct wisp_out_sums *)part[0])[i];
        for (int q = 1; q < n_parts; q++) {
            const struct wisp_out_sums *t = (const struct wisp_out_sums *)part[q] + i;
            s.sum += t->sum;
            s.max = fmaxf(s.max, t->max);
            s.logits += t->logits;
        }
        out[i] = s;
    }
}

/* Where each label's loss stands alone a rank needs no more than its own: its part of the loss is
 * the sum of these, and the factor is 1. */
static bool exchanges(const struct wisp_out_job *j)
{
    return wisp_out_shared(j->l) && j->s->head.loss->has_origin;
}

/* Does this rank count what a sample's loss has besides its true labels? */
static bool counts_rest(const struct wisp_out_job *j)
{
    return !exchanges(j) || j->l->params[0].share.rank == 0;
}

/* ---- samples ---- */

/* The loss and the factor of a sample, its weight and 1/n folded into the factor. */
static void combine(const struct wisp_out_job *j, size_t i)
{
    const struct wisp_out_view *v = &j->v;
    const struct wisp_batch *b = j->s->batch;
    struct sums s;
    if (exchanges(j)) s = (struct sums){ v->sums[i].sum, v->sums[i].logits, v->sums[i].max };
    else s = add_blocks(v, i);
    const double sum = s.sum, logits = s.logits;
    float factor = 0;
    v->max[i] = s.max;
    const bool some = exchanges(j) ? s.max != -INFINITY : v->n_blocks > 0; /* rows to compute */
    bool counts = some && (wisp_out_n_true(b, i) > 0 || j->s->head.loss->uses_unlabelled);
    v->loss[i] = counts ? j->s->head.loss->finish(v->origin[i], sum, &factor) : 0;
    if (counts && v->block_z) v->loss[i] -= (double)wisp_out_level(j) * logits;
    if (!counts_rest(j)) v->loss[i] = 0;
    v->factor[i] = wisp_batch_weight(b, i) * factor / wisp_batch_all(b);
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
    for (size_t i = 0; i < v->ld && j->s->head.loss->has_origin; i++)
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

wisp_status wisp_out_combine(struct wisp_out_job *j, bool *again, wisp_error *err)
{
    struct wisp_pool *pool = j->s->ctx->pool;
    if (exchanges(j)) {
        wisp_parallel_for(pool, wisp_tiles(j->p.n), add_tile, j);
        wisp_status st =
            j->s->ctx->comm->all_join(j->v.sums, j->p.n, sizeof *j->v.sums, join_sums, err);
        if (st != WISP_OK) return st;
    }
    wisp_parallel_for(pool, wisp_tiles(j->p.n), combine_tile, j);
    *again = move_origins(j);
    if (!*again) add_up(j);
    return WISP_OK;
}
