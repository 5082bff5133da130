/* Scoring by several models as one: each finds its best labels, all of them score all of these, and what they say is
 * mixed.  Rows are laid out once for all members; a row is mixed by one thread. */
#include "base/bounds.h"
#include "base/mem.h"
#include "hash/best.h"
#include "model/joint.h"
#include "model/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scorers {
    size_t n;
    struct wisp_scorer of[WISP_JOINT_MOST];
    size_t room; /* candidates of a row, at most */
    bool sparse;
    struct wisp_scorer
        *lead; /* sparse: its labels are the candidates of all; NULL: votes name them */
    int32_t *labels,
        *unknown;     /* (threads, room) candidates, ascending; those that a member did not name */
    float *said;      /* (threads, n, room) what each member says of the candidates */
    float *one, *sum; /* (threads, room) a member's scores of some; the mixed scores */
    uint64_t *keys;   /* (threads, room) */
    struct wisp_mix_seen *seen; /* NULL: nobody looks */
};

size_t wisp_joint_batch(const struct wisp_model *m)
{
    size_t least = WISP_SCORE_BATCH;
    for (size_t i = 0; i < m->joint->n; i++) {
        const struct wisp_model *member = m->joint->members[i];
        const size_t its = wisp_kind_of(member)->batch(member);
        least = its < least ? its : least;
    }
    return least;
}

wisp_status wisp_joint_ready(struct wisp_scorer *s, enum wisp_zeros zeros, wisp_error *err)
{
    const struct wisp_joint *j = s->m->joint;
    const size_t threads = (size_t)wisp_pool_threads(s->ctx->pool),
                 each = wisp_most(s->k, WISP_JOINT_CANDIDATES);
    struct scorers *o = s->own = wisp_zalloc(1, sizeof *o);
    if (!o) return wisp_fail_mem(err, sizeof *o, "scoring");
    for (; o->n < j->n; o->n++) {
        wisp_status st =
            wisp_scorer_init_member(&o->of[o->n], j->members[o->n], s->ctx, zeros, each, err);
        if (st != WISP_OK) return st;
        o->room += o->of[o->n].k;
    }
    o->labels = wisp_alloc(threads * o->room, sizeof *o->labels);
    o->unknown = wisp_alloc(threads * o->room, sizeof *o->unknown);
    o->said = wisp_alloc(threads * o->n * o->room, sizeof *o->said);
    o->one = wisp_alloc(threads * o->room, sizeof *o->one);
    o->sum = wisp_alloc(threads * o->room, sizeof *o->sum);
    o->keys = wisp_alloc(threads * o->room, sizeof *o->keys);
    return o->labels && o->unknown && o->said && o->one && o->sum && o->keys
               ? WISP_OK
               : wisp_fail_mem(err, threads * o->room * (24 + 4 * o->n), "scoring");
}

void wisp_joint_done(struct wisp_scorer *s)
{
    struct scorers *o = s->own;
    if (!o) return;
    for (size_t i = 0; i < o->n; i++) wisp_scorer_clear(&o->of[i]);
    wisp_free(o->labels);
    wisp_free(o->unknown);
    wisp_free(o->said);
    wisp_free(o->one);
    wisp_free(o->sum);
    wisp_free(o->keys);
    wisp_free(o);
    s->own = NULL;
}

const struct wisp_net *wisp_joint_reads(const struct wisp_scorer *s)
{
    const struct scorers *o = s->own;
    for (size_t i = 0; i < o->n; i++)
        if (o->of[i].net.n_layers) return &o->of[i].net;
    return NULL;
}

/* The member that scores all labels at the cost of the few weights that a row's features have: a linear model
 * whose lists are by feature.  NULL: there is none, or there is a net whose scores, by a softmax, would need
 * all labels. */
static const struct wisp_model *leader(const struct wisp_joint *j)
{
    const struct wisp_model *lead = NULL;
    for (size_t i = 0; i < j->n; i++) {
        const struct wisp_model *m = j->members[i];
        const bool linear = m->linear.by_feature && m->linear.start;
        if (!linear && (!wisp_model_is_net(m) || m->loss->needs_sum)) return NULL;
        if (linear && !lead) lead = m;
    }
    return lead;
}

enum wisp_guide wisp_joint_guide(const struct wisp_model *m)
{
    return m->votes.start ? WISP_GUIDE_VOTES : leader(m->joint) ? WISP_GUIDE_LEAD : WISP_GUIDE_NONE;
}

wisp_status wisp_joint_use_some(struct wisp_scorer *s, const struct wisp_scorer *none,
                                wisp_error *err)
{
    (void)none; /* a joint model is no member */
    struct scorers *o = s->own;
    const struct wisp_model *first = s->m->votes.start ? NULL : leader(s->m->joint);
    wisp_status st = WISP_OK;
    o->lead = NULL;
    for (size_t i = 0; i < o->n && first; i++)
        if (o->of[i].m == first) o->lead = &o->of[i];
    for (size_t i = 0; i < o->n && st == WISP_OK; i++)
        st = wisp_kind_of(o->of[i].m)->use_some(&o->of[i], o->lead, err);
    o->sparse = st == WISP_OK;
    return st;
}

void wisp_joint_use_all(struct wisp_scorer *s)
{
    struct scorers *o = s->own;
    for (size_t i = 0; i < o->n; i++) wisp_kind_of(o->of[i].m)->use_all(&o->of[i]);
    o->sparse = false;
    o->lead = NULL;
}

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static const float UNKNOWN = -1; /* scores are not below 0 */

/* The best labels of all members, ascending, each once; what members said of those that they named is in 'said'
 * (n, room), else UNKNOWN. */
static size_t unite(int32_t *labels, float *said, uint64_t *keys, const struct scorers *o,
                    size_t row)
{
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < o->n; i++) {
        const struct wisp_scorer *s = &o->of[i];
        for (size_t c = 0; c < s->k && s->labels[row * s->k + c] >= 0; c++)
            keys[n++] = (uint64_t)s->labels[row * s->k + c] << 32 | i << 28 | c;
    }
    qsort(keys, n, sizeof *keys, ascending);
    for (size_t e = 0; e < n; e++) {
        const int32_t label = (int32_t)(keys[e] >> 32);
        const size_t member = keys[e] >> 28 & 0xf, place = keys[e] & 0xfffffff;
        if (kept == 0 || labels[kept - 1] != label) {
            labels[kept++] = label;
            for (size_t i = 0; i < o->n; i++) said[i * o->room + kept - 1] = UNKNOWN;
        }
        said[member * o->room + kept - 1] = o->of[member].scores[row * o->of[member].k + place];
    }
    return kept;
}

struct job {
    struct wisp_scorer *s;
    const struct wisp_batch *b;
    size_t first_seen; /* where the rows of this batch are kept */
};

/* Scores as probabilities. */
static void calibrate(float *p, const struct wisp_scorer *s, bool sparse, size_t row, size_t n)
{
    const struct wisp_calibration *map = wisp_model_calibration(s->m, sparse);
    const float best = s->scores[row * s->k];
    for (size_t c = 0; c < n && map; c++) p[c] = wisp_calibrated(map, p[c], best);
}

/* What a member says of labels of one's own choice. */
static void ask(float *out, struct wisp_scorer *s, bool sparse, const struct wisp_batch *b,
                size_t row, const int32_t *labels, size_t n, int thread)
{
    wisp_kind_of(s->m)->score(out, s, b, row, labels, n, thread);
    calibrate(out, s, sparse, row, n);
}

/* The scores of candidates that the member did not name itself. */
static void complete(float *said, struct scorers *o, size_t member, const struct wisp_batch *b,
                     size_t row, const int32_t *labels, size_t n, int thread)
{
    struct wisp_scorer *s = &o->of[member];
    int32_t *unknown = o->unknown + (size_t)thread * o->room;
    float *one = o->one + (size_t)thread * o->room;
    size_t n_unknown = 0, at = 0;
    for (size_t c = 0; c < n; c++)
        if (said[c] == UNKNOWN) unknown[n_unknown++] = labels[c];
    if (n_unknown) wisp_kind_of(s->m)->score(one, s, b, row, unknown, n_unknown, thread);
    for (size_t c = 0; c < n; c++)
        if (said[c] == UNKNOWN) said[c] = one[at++];
}

static void keep(struct wisp_mix_seen *to, size_t at, size_t member, const float *p, size_t n)
{
    if (at < to->rows_room)
        memcpy(to->p + (at * to->n_members + member) * to->room, p, n * sizeof *p);
}

static void keep_truth(struct wisp_mix_seen *to, size_t at, const int32_t *labels, size_t n,
                       const struct wisp_batch *b, size_t row)
{
    if (at >= to->rows_room) return;
    to->n_candidates[at] = (uint16_t)n;
    for (size_t c = 0; c < n; c++)
        to->hit[at * to->room + c] =
            wisp_is_true(labels[c], b->yi + b->yp[row], b->yp[row + 1] - b->yp[row]);
}

static void mix_row(void *arg, size_t row, int thread)
{
    const struct job *job = arg;
    struct wisp_scorer *s = job->s;
    struct scorers *o = s->own;
    const struct wisp_joint *j = s->m->joint;
    const size_t first = (size_t)thread * o->room;
    int32_t *labels = o->labels + first;
    float *all = o->said + first * o->n, *sum = o->sum + first;
    const size_t n = unite(labels, all, o->keys + first, o, row);
    memset(sum, 0, n * sizeof *sum);
    for (size_t i = 0; i < o->n; i++) {
        float *said = all + i * o->room;
        complete(said, o, i, job->b, row, labels, n, thread);
        calibrate(said, &o->of[i], o->sparse, row, n);
        for (size_t c = 0; c < n; c++) sum[c] += j->mix[i] * said[c];
        if (o->seen) keep(o->seen, job->first_seen + row, i, said, n);
    }
    if (o->seen) keep_truth(o->seen, job->first_seen + row, labels, n, job->b, row);
    const size_t found = wisp_keys_best(o->keys + first, sum, labels, n, s->k);
    for (size_t c = 0; c < s->k; c++) {
        const bool there = c < found;
        s->labels[row * s->k + c] = there ? wisp_key_row(o->keys[first + c]) : -1;
        s->scores[row * s->k + c] = there ? wisp_key_score(o->keys[first + c]) : NAN;
    }
}

/* 'scored' becomes the labels that the member has scored, if they are more. */
static wisp_status best_of(struct wisp_scorer *of, uint64_t *scored, bool alone,
                           const struct wisp_batch *b, wisp_error *err)
{
    of->alone = alone;
    of->n_scored = 0;
    wisp_status st = wisp_kind_of(of->m)->best(of, b, err);
    if (of->n_scored > *scored) *scored = of->n_scored;
    return st;
}

/* Whoever leads goes first: the others score what it has named. */
wisp_status wisp_joint_best(struct wisp_scorer *s, const struct wisp_batch *b, wisp_error *err)
{
    struct scorers *o = s->own;
    uint64_t scored = 0;
    wisp_status st = o->lead ? best_of(o->lead, &scored, s->alone, b, err) : WISP_OK;
    for (size_t i = 0; i < o->n && st == WISP_OK; i++)
        if (&o->of[i] != o->lead) st = best_of(&o->of[i], &scored, s->alone, b, err);
    if (st != WISP_OK) return st;
    s->n_scored += scored;
    struct job job = { s, b, o->seen ? o->seen->n_rows : 0 };
    wisp_parallel_for(s->ctx->pool, b->n, mix_row, &job);
    if (o->seen) {
        const size_t left = o->seen->rows_room - o->seen->n_rows;
        o->seen->n_rows += b->n < left ? b->n : left;
    }
    return WISP_OK;
}

/* By the weights that members have, for whoever asks for labels of its own. */
void wisp_joint_score(float *out, struct wisp_scorer *s, const struct wisp_batch *b, size_t row,
                      const int32_t *labels, size_t n, int thread)
{
    struct scorers *o = s->own;
    float *one = o->one + (size_t)thread * o->room;
    memset(out, 0, n * sizeof *out);
    for (size_t at = 0; at < n; at += o->room) {
        const size_t some = n - at < o->room ? n - at : o->room;
        for (size_t i = 0; i < o->n; i++) {
            ask(one, &o->of[i], o->sparse, b, row, labels + at, some, thread);
            for (size_t c = 0; c < some; c++) out[at + c] += s->m->joint->mix[i] * one[c];
        }
    }
}

wisp_status wisp_joint_watch(struct wisp_scorer *s, struct wisp_mix_seen *to, size_t n_rows,
                             wisp_error *err)
{
    struct scorers *o = s->own;
    wisp_status st = wisp_mix_init(to, o->n, o->room, n_rows, err);
    o->seen = st == WISP_OK ? to : NULL;
    return st;
}

void wisp_joint_unwatch(struct wisp_scorer *s)
{
    struct scorers *o = s->own;
    if (o->seen) wisp_mix_clear(o->seen);
    o->seen = NULL;
}
