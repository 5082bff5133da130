/* Sparse prediction. */
#include "model/shortlist.h"
#include "base/mem.h"
#include "hash/best.h"

#include <math.h>
#include <string.h>

enum { LEAST = 256, MOST = 1024 };

/* One in a hundred labels, within bounds: docs/sampling.md has recall against it. */
static size_t candidates_for(size_t n_labels, size_t k)
{
    size_t n = n_labels / 100;
    n = n < LEAST ? LEAST : n > MOST ? MOST : n;
    if (n < k) n = k;
    return n < n_labels ? n : n_labels;
}

/* By a list kept in order: candidates are few. */
void wisp_most_frequent(int32_t *out, size_t n, const int64_t *rows, size_t n_labels)
{
    size_t have = 0;
    for (size_t l = 0; l < n_labels; l++) {
        if (have == n && rows[l] <= rows[out[n - 1]]) continue;
        size_t at = have < n ? have++ : n - 1;
        for (; at > 0 && rows[out[at - 1]] < rows[l]; at--) out[at] = out[at - 1];
        out[at] = (int32_t)l;
    }
}

/* Room for 'room' rows of a sample in each thread. */
static wisp_status take_room(struct wisp_shortlist *s, size_t room, size_t batch, wisp_error *err)
{
    const size_t threads = (size_t)wisp_pool_threads(s->ctx->pool);
    s->candidates = room;
    s->rows = wisp_alloc(threads * room, sizeof *s->rows);
    s->scores = wisp_alloc(threads * room, sizeof *s->scores);
    s->keys = wisp_alloc(threads * room, sizeof *s->keys);
    s->scored = wisp_alloc(batch, sizeof *s->scored);
    return s->rows && s->scores && s->keys && s->scored
               ? WISP_OK
               : wisp_fail_mem(err, threads * room * 16, "sparse prediction");
}

wisp_status wisp_shortlist_init_given(struct wisp_shortlist *s, const int32_t *given,
                                      size_t n_given, struct wisp_context *ctx, size_t batch,
                                      wisp_error *err)
{
    *s = (struct wisp_shortlist){ .given = given, .ctx = ctx };
    wisp_status st = take_room(s, n_given, batch, err);
    if (st != WISP_OK) wisp_shortlist_clear(s);
    return st;
}

wisp_status wisp_shortlist_init(struct wisp_shortlist *s, const struct wisp_votes *votes,
                                struct wisp_context *ctx, const int64_t *label_rows,
                                size_t n_labels, size_t batch, size_t k, wisp_error *err)
{
    const size_t threads = (size_t)wisp_pool_threads(ctx->pool);
    *s = (struct wisp_shortlist){ .votes = votes, .ctx = ctx };
    wisp_status st = take_room(s, candidates_for(n_labels, k), batch, err);
    s->elections = wisp_zalloc(threads, sizeof *s->elections);
    s->n_frequent = k < n_labels ? k : n_labels; /* enough for k answers */
    s->frequent = wisp_alloc(s->n_frequent, sizeof *s->frequent);
    if (st == WISP_OK && (!s->elections || !s->frequent))
        st = wisp_fail_mem(err, s->n_frequent * sizeof *s->frequent, "sparse prediction");
    for (size_t i = 0; st == WISP_OK && i < threads; i++, s->n_elections++)
        st = wisp_election_init(&s->elections[i], WISP_VOTERS, WISP_VOTES_EACH, n_labels, err);
    if (st == WISP_OK) wisp_most_frequent(s->frequent, s->n_frequent, label_rows, n_labels);
    else wisp_shortlist_clear(s);
    return st;
}

void wisp_shortlist_clear(struct wisp_shortlist *s)
{
    for (size_t i = 0; i < s->n_elections; i++) wisp_election_clear(&s->elections[i]);
    wisp_free(s->elections);
    wisp_free(s->rows);
    wisp_free(s->scores);
    wisp_free(s->keys);
    wisp_free(s->frequent);
    wisp_free(s->scored);
    *s = (struct wisp_shortlist){ 0 };
}

struct job {
    struct wisp_shortlist *s;
    const struct wisp_query *q;
    const struct wisp_loss *loss;
    size_t k;
    int32_t *labels;
    float *scores;
};

static size_t take_given(int32_t *rows, const struct wisp_shortlist *s, size_t i)
{
    const int32_t *given = s->given + i * s->candidates;
    size_t n = 0;
    for (; n < s->candidates && given[n] >= 0; n++) rows[n] = given[n];
    return n;
}

/* The rows to score for sample i: those that were given, or those elected, and frequent ones where they are
 * fewer than k. */
static size_t choose(int32_t *rows, const struct job *j, size_t i, int thread)
{
    const struct wisp_shortlist *s = j->s;
    const struct wisp_query *q = j->q;
    if (s->given) return take_given(rows, s, i);
    size_t n = wisp_votes_elect(rows, &s->elections[thread], s->votes, s->ctx->k, q->xi + q->xp[i],
                                q->xv + q->xp[i], q->xp[i + 1] - q->xp[i], s->candidates);
    size_t elected = n;
    for (size_t c = 0; c < s->n_frequent && n < j->k; c++)
        if (!s->ctx->k->holds(rows, elected, s->frequent[c])) rows[n++] = s->frequent[c];
    return n;
}

static void predict(void *arg, size_t i, int thread)
{
    const struct job *j = arg;
    const struct wisp_query *q = j->q;
    size_t room = j->s->candidates, first = (size_t)thread * room;
    int32_t *rows = j->s->rows + first;
    float *scores = j->s->scores + first;
    uint64_t *best = j->s->keys + first;
    size_t n = choose(rows, j, i, thread);
    wisp_weights_dots(j->s->ctx->k, scores, &q->rows.w, rows, n, q->h + i * q->rows.width);
    for (size_t c = 0; c < n; c++) scores[c] += q->rows.bias[rows[c]];
    size_t found = wisp_keys_best(best, scores, rows, n, j->k);
    float max = found ? wisp_key_score(best[0]) : 0;
    double sum = 0;
    for (size_t c = 0; c < n && j->loss->needs_sum; c++) sum += exp((double)scores[c] - max);
    bool odd = false;
    for (size_t c = 0; c < n; c++) odd |= !isfinite(scores[c]);
    for (size_t c = 0; c < j->k; c++) {
        j->labels[i * j->k + c] = c < found ? wisp_key_row(best[c]) : -1;
        j->scores[i * j->k + c] =
            c < found && !odd ? j->loss->probability(wisp_key_score(best[c]), max, sum) : NAN;
    }
    j->s->scored[i] = n;
}

uint64_t wisp_shortlist_topk(struct wisp_shortlist *s, const struct wisp_layer *out,
                             const struct wisp_loss *loss, const struct wisp_batch *b,
                             const float *h, size_t k, int32_t *labels, float *scores)
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
