/* Sparse prediction. */
#include "model/sparse.h"
#include "base/mem.h"
#include "hash/best.h"

#include <math.h>
#include <string.h>

enum { VOTERS = 64, EACH = 128, LEAST = 256, MOST = 1024 };

/* One in a hundred labels, within bounds: docs/sampling.md has recall against it. */
static size_t candidates_for(size_t n_labels, size_t k)
{
    size_t n = n_labels / 100;
    n = n < LEAST ? LEAST : n > MOST ? MOST : n;
    if (n < k) n = k;
    return n < n_labels ? n : n_labels;
}

/* The labels with most training rows, by a list kept in order: candidates are few. */
static void most_frequent(int32_t *out, size_t n, const int64_t *rows, size_t n_labels)
{
    size_t have = 0;
    for (size_t l = 0; l < n_labels; l++) {
        if (have == n && rows[l] <= rows[out[n - 1]]) continue;
        size_t at = have < n ? have++ : n - 1;
        for (; at > 0 && rows[out[at - 1]] < rows[l]; at--) out[at] = out[at - 1];
        out[at] = (int32_t)l;
    }
}

wisp_status wisp_sparse_init(struct wisp_sparse *s, const struct wisp_votes *votes,
                             struct wisp_context *ctx, const int64_t *label_rows, size_t n_labels,
                             size_t batch, size_t k, wisp_error *err)
{
    size_t threads = (size_t)wisp_pool_threads(ctx->pool), room = WISP_POT_ROOM;
    *s = (struct wisp_sparse){ .votes = votes,
                               .ctx = ctx,
                               .candidates = candidates_for(n_labels, k) };
    while (room < s->candidates) room *= 2;
    s->pots = wisp_zalloc(threads, sizeof *s->pots);
    s->blocks = wisp_zalloc(threads, wisp_pot_bytes(room));
    s->n_frequent = k < n_labels ? k : n_labels; /* enough for k answers */
    s->frequent = wisp_alloc(s->n_frequent, sizeof *s->frequent);
    s->scored = wisp_alloc(batch, sizeof *s->scored);
    if (!s->pots || !s->blocks || !s->frequent || !s->scored) {
        wisp_sparse_clear(s);
        return wisp_fail_mem(err, threads * wisp_pot_bytes(room), "sparse prediction");
    }
    for (size_t i = 0; i < threads; i++)
        wisp_pot_init(&s->pots[i], ctx->k, s->blocks + i * wisp_pot_bytes(room), room);
    most_frequent(s->frequent, s->n_frequent, label_rows, n_labels);
    return WISP_OK;
}

void wisp_sparse_clear(struct wisp_sparse *s)
{
    wisp_free(s->pots);
    wisp_free(s->blocks);
    wisp_free(s->frequent);
    wisp_free(s->scored);
    *s = (struct wisp_sparse){ 0 };
}

struct job {
    struct wisp_sparse *s;
    const struct wisp_query *q;
    const struct wisp_loss *loss;
    size_t k;
    int32_t *labels;
    float *scores;
};

static void predict(void *arg, size_t i, int thread)
{
    const struct job *j = arg;
    const struct wisp_query *q = j->q;
    struct wisp_pot *pot = &j->s->pots[thread];
    wisp_pot_start(pot, q, i);
    wisp_votes_cast(j->s->votes, q->xi + q->xp[i], q->xv + q->xp[i], q->xp[i + 1] - q->xp[i],
                    VOTERS, EACH, j->s->candidates, pot);
    for (size_t c = 0; c < j->s->n_frequent && pot->n < j->k; c++) /* always k answers */
        wisp_pot_add(pot, j->s->frequent[c]);
    wisp_pot_score(pot);
    size_t n;
    const uint64_t *best = wisp_pot_best(pot, j->k, &n);
    float max = n ? wisp_key_score(best[0]) : 0;
    double sum = 0;
    for (size_t c = 0; c < pot->n && j->loss->needs_sum; c++)
        sum += exp((double)pot->score[c] - max);
    for (size_t c = 0; c < j->k; c++) {
        j->labels[i * j->k + c] = c < n ? wisp_key_row(best[c]) : -1;
        j->scores[i * j->k + c] =
            c < n ? j->loss->probability(wisp_key_score(best[c]), max, sum) : 0;
    }
    j->s->scored[i] = pot->products;
}

uint64_t wisp_sparse_topk(struct wisp_sparse *s, const struct wisp_layer *out,
                          const struct wisp_loss *loss, const struct wisp_batch *b, const float *h,
                          size_t k, int32_t *labels, float *scores)
{
    struct wisp_query q = {
        .n = b->n, .h = h, .xp = b->xp, .xi = b->xi, .xv = b->xv, .rows = wisp_layer_matrix(out)
    };
    struct job j = { s, &q, loss, k, labels, scores };
    wisp_parallel_for(s->ctx->pool, b->n, predict, &j);
    uint64_t all = 0;
    for (size_t i = 0; i < b->n; i++) all += s->scored[i];
    return all;
}
