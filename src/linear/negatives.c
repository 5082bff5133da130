/* Which rows teach a label what it is not, where there are too many to take all.
 *
 * A row is a negative of the labels that its features vote for most and that it does not have: those
 * are the labels that prediction will weigh against each other in rows like this one.  Of the labels
 * further down its list a share is drawn, and counts for the others.  Votes for a label are divided
 * by the root of its number of rows, as in prediction: else labels that many rows have would be
 * everybody's candidates.
 *
 *   bytes  4 * rows * (always + share * (up_to - always));   operations  votes of every row */
#include "linear/linear.h"
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"
#include "hash/votes.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 512 }; /* rows of a task */

float wisp_negatives_factor(int64_t rows)
{
    return rows > 0 ? 1 / sqrtf((float)rows) : 0;
}

size_t wisp_negatives_each(const struct wisp_negatives_how *how)
{
    return how->always + (size_t)ceil((double)(how->up_to - how->always) * how->share) + 1;
}

struct job {
    struct wisp_negatives *out;
    const struct wisp_linear_rows *rows;
    const struct wisp_votes *votes;
    uint64_t seed;
    struct wisp_election *elections; /* (threads) */
    int32_t *xi;                     /* (threads, room) a row's features apart from their values */
    float *xv;
    size_t room;
};

static bool has(const struct wisp_linear_rows *rows, size_t row, int32_t label)
{
    for (size_t i = rows->yp[row]; i < rows->yp[row + 1]; i++)
        if (rows->yi[i] == label) return true;
    return false;
}

/* The votes that a place in the order of candidates has at least; 0: all that have some. */
static float votes_at(const struct wisp_election *e, size_t n, size_t place)
{
    if (place == 0) return INFINITY;
    return n > place ? fmaxf(0, wisp_nth_largest(e->spare, n, place)) : 0;
}

/* Candidates below the first ones are numbered as they come, and taken where number * share, from a
 * random start, passes a whole number: as many as the share says, in every row. */
static void choose(struct job *j, size_t row, struct wisp_election *e, size_t n)
{
    const struct wisp_negatives_how *how = &j->out->how;
    uint32_t *to = j->out->label + row * j->out->each, *end = to + j->out->each - 1;
    const float first = votes_at(e, n, how->always), last = votes_at(e, n, how->up_to);
    const double from = wisp_rand_unit(j->seed, WISP_STREAM_NEGATIVES, row);
    size_t tail = 0;
    for (size_t i = 0; i < n && to < end; i++) {
        if (e->votes[i] < last || e->votes[i] <= 0 || has(j->rows, row, e->row[i])) continue;
        const bool always = e->votes[i] >= first;
        const double at = from + (double)tail * how->share;
        if (!always) tail++;
        if (!always && floor(at + how->share) == floor(at)) continue;
        *to++ = (uint32_t)e->row[i] | (always ? 0 : WISP_TAIL);
    }
    *to = WISP_NO_LABEL;
}

static void find(void *arg, size_t task, int thread)
{
    struct job *j = arg;
    const struct wisp_linear_rows *rows = j->rows;
    int32_t *xi = j->xi + (size_t)thread * j->room;
    float *xv = j->xv + (size_t)thread * j->room;
    for (size_t row = task * CHUNK; row < rows->n_rows && row < (task + 1) * CHUNK; row++) {
        const struct wisp_linear_entry *x = rows->x + rows->xp[row];
        size_t n = rows->xp[row + 1] - rows->xp[row];
        for (size_t i = 0; i < n; i++) xi[i] = x[i].id, xv[i] = x[i].x;
        n = wisp_votes_count(&j->elections[thread], j->votes, xi, xv, n);
        choose(j, row, &j->elections[thread], n);
    }
}

static wisp_status make_room(struct job *j, size_t threads, const float *factor, wisp_error *err)
{
    const struct wisp_linear_rows *rows = j->rows;
    for (size_t i = 0; i < rows->n_rows; i++)
        if (rows->xp[i + 1] - rows->xp[i] > j->room) j->room = rows->xp[i + 1] - rows->xp[i];
    j->elections = wisp_zalloc(threads, sizeof *j->elections);
    j->xi = wisp_alloc(threads * j->room, sizeof *j->xi);
    j->xv = wisp_alloc(threads * j->room, sizeof *j->xv);
    j->out->label = wisp_alloc(rows->n_rows * j->out->each, sizeof *j->out->label);
    j->out->count = wisp_zalloc(rows->n_labels, sizeof *j->out->count);
    if (!j->elections || !j->xi || !j->xv || !j->out->label || !j->out->count)
        return wisp_fail_mem(err, rows->n_rows * j->out->each * 4, "negatives of labels");
    for (size_t i = 0; i < threads; i++) {
        wisp_status st =
            wisp_election_init(&j->elections[i], WISP_VOTERS, WISP_VOTES_EACH, rows->n_labels, err);
        if (st != WISP_OK) return st;
        j->elections[i].factor = factor;
    }
    return WISP_OK;
}

wisp_status wisp_negatives_find(struct wisp_negatives *out, struct wisp_context *ctx,
                                const struct wisp_linear_rows *rows, const struct wisp_votes *votes,
                                const float *factor, const struct wisp_negatives_how *how,
                                uint64_t seed, wisp_error *err)
{
    const size_t threads = (size_t)wisp_pool_threads(ctx->pool);
    *out = (struct wisp_negatives){ .how = *how, .each = wisp_negatives_each(how) };
    struct job j = { .out = out, .rows = rows, .votes = votes, .seed = seed };
    wisp_status st = make_room(&j, threads, factor, err);
    if (st == WISP_OK) {
        wisp_parallel_for(ctx->pool, (rows->n_rows + CHUNK - 1) / CHUNK, find, &j);
        for (size_t row = 0; row < rows->n_rows; row++)
            for (const uint32_t *l = out->label + row * out->each; *l != WISP_NO_LABEL; l++)
                out->count[*l & ~WISP_TAIL]++;
    }
    for (size_t i = 0; j.elections && i < threads; i++) wisp_election_clear(&j.elections[i]);
    wisp_free(j.elections);
    wisp_free(j.xi);
    wisp_free(j.xv);
    if (st != WISP_OK) wisp_negatives_clear(out);
    return st;
}

void wisp_negatives_clear(struct wisp_negatives *n)
{
    wisp_free(n->label);
    wisp_free(n->count);
    *n = (struct wisp_negatives){ 0 };
}
