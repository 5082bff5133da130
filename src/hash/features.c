/* Features: rows that the sample's features vote for (votes.h). */
#include "base/mem.h"
#include "hash/votes.h"

enum {
    VOTERS = 24,   /* features with a say */
    EACH = 48,     /* labels each of them votes for */
    CANDIDATES = 5 /* times 'keep': rows that are scored */
};

struct features {
    const struct wisp_votes *votes;
    size_t n; /* candidates per sample */
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
    .shared = true,
    .bytes = bytes,
    .create = create,
    .free = wisp_free,
    .sample = sample,
};
