/* Features: rows that the sample's features vote for (votes.h). */
#include "base/mem.h"
#include "hash/votes.h"

#include <math.h>

enum {
    VOTERS = 24,   /* features with a say */
    EACH = 48,     /* labels each of them votes for */
    CANDIDATES = 5 /* times 'keep': rows that are scored */
};

void wisp_votes_cast(const struct wisp_votes *v, const int32_t *xi, const float *xv, size_t nnz,
                     size_t voters, size_t each, size_t n, struct wisp_pot *pot)
{
    size_t first = pot->n, n_known = 0, ties = voters;
    float least = -INFINITY;
    if (nnz > pot->room) nnz = pot->room;
    for (size_t i = 0; i < nnz; i++)
        if ((size_t)xi[i] < v->n_features) pot->spare[n_known++] = xv[i];
    if (n_known > voters) {
        least = wisp_nth_largest(pot->spare, n_known, voters);
        for (size_t i = 0; i < n_known; i++) ties -= pot->spare[i] > least;
    }
    for (size_t i = 0; i < nnz; i++) {
        if ((size_t)xi[i] >= v->n_features || xv[i] < least || (xv[i] == least && ties == 0))
            continue;
        ties -= xv[i] == least;
        int64_t end = v->start[xi[i] + 1];
        if (end > v->start[xi[i]] + (int64_t)each) end = v->start[xi[i]] + (int64_t)each;
        for (int64_t e = v->start[xi[i]]; e < end; e++)
            wisp_pot_vote(pot, v->label[e], xv[i] * v->weight[e]);
    }
    wisp_pot_trim(pot, first, n, 0);
}

struct features {
    const struct wisp_votes *votes;
    size_t n; /* candidates a sample */
};

static size_t bytes(const struct wisp_finder_setup *s)
{
    (void)s;
    return sizeof(struct features);
}

static wisp_status create(void **state, const struct wisp_finder_setup *s, wisp_error *err)
{
    struct features *f = *state = wisp_zalloc(1, sizeof *f);
    if (!f) return wisp_fail_mem(err, sizeof *f, "votes of features");
    f->votes = s->votes;
    f->n = s->o->rescore ? CANDIDATES * s->o->keep : s->o->keep;
    return WISP_OK;
}

static void sample(const void *state, const struct wisp_query *q, size_t i, int thread,
                   struct wisp_pot *pot)
{
    (void)thread;
    const struct features *f = state;
    wisp_votes_cast(f->votes, q->xi + q->xp[i], q->xv + q->xp[i], q->xp[i + 1] - q->xp[i], VOTERS,
                    EACH, f->n, pot);
}

const struct wisp_finder_kind wisp_finder_features = {
    .name = "features",
    .what = "rows that the sample's features vote for, by the labels of the training rows",
    .needs_labels = true,
    .needs_votes = true,
    .bytes = bytes,
    .create = create,
    .free = wisp_free,
    .sample = sample,
};
