/* Training all labels of a linear model, some at a time.
 *
 * Every label is a problem of its own (solve.c), so labels are what threads share.  Where all rows
 * take part, problems read the rows where they lie; else a label's rows are copied with its features
 * numbered anew, so that its weights and rows stay in the cache for the dozen passes over them:
 *
 *   room of a thread   a, cost, sign, order of each row; rows and features of the copy, which grow
 *   filed              negatives of some labels, by label: at most FILED of them at once
 *
 * A label that goes on from old weights begins with them; old features that none of its rows has keep
 * their weights.  New labels begin as one that no row had: with nothing but a bias of NO_ROWS, since
 * none of the old rows had them.
 *
 * A label's weights depend on the label and the seed alone, not on threads or on where a run was
 * stopped. */
#include "linear/linear.h"
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FILED = 8 << 20,       /* negatives that are filed by label at a time */
    SOME_LABELS = 512,     /* at once */
    SOME_VISITS = 12 << 20 /* at once, by estimate */
};

static const float NO_ROWS = -1; /* the score of a label that no row has: nothing speaks for it */

struct room {             /* of a thread */
    size_t rows, entries; /* that there is room for */
    float *a, *cost, *square;
    int8_t *sign;
    uint32_t *order, *row;
    size_t *xp;
    struct wisp_linear_entry *x;
    float *w;         /* (n_features) */
    int32_t *number;  /* (n_features) of a feature in the copy plus 1; 0: it is not there */
    int32_t *feature; /* (n_features) the other way round */
    uint64_t visits;
};

struct found { /* weights of a label */
    size_t n;
    int32_t *id;
    float *weight;
    float bias;
    double objective;
};

struct wisp_linear_trainer {
    struct wisp_context *ctx;
    const struct wisp_linear_rows *rows;
    const struct wisp_negatives *negatives; /* NULL: all rows */
    struct wisp_linear_how how;
    const struct wisp_linear_done *old; /* weights to stay near to; NULL: none */
    struct wisp_linear_done *done;
    struct room *rooms; /* (threads) */
    size_t n_rooms;
    /* negatives of labels filed_from .. filed_to - 1 */
    size_t filed_from, filed_to;
    size_t *filed_at;    /* (SOME: filed_to - filed_from + 1) */
    uint32_t *filed;     /* rows, WISP_TAIL set as in negatives */
    size_t first;        /* of the labels that are being trained */
    struct found *found; /* (SOME_LABELS) */
};

/* ---- a label's rows ---- */

static size_t n_positive(const struct wisp_linear_rows *r, size_t label)
{
    return r->lp[label + 1] - r->lp[label];
}

/* At most so many rows are a label's, repeated ones included. */
static size_t n_rows_of(const struct wisp_linear_trainer *t, size_t label)
{
    if (!t->negatives) return t->rows->n_rows;
    return n_positive(t->rows, label) + t->negatives->count[label] + t->negatives->how.random;
}

static bool is_positive(const struct wisp_linear_rows *r, size_t label, uint32_t row)
{
    size_t low = r->lp[label], high = r->lp[label + 1];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (r->lr[middle] < row) low = middle + 1;
        else high = middle;
    }
    return low < r->lp[label + 1] && r->lr[low] == row;
}

/* Does it go on from weights that some rows have taught? */
static bool is_old(const struct wisp_linear_trainer *t, size_t label)
{
    return t->old && label < t->old->n_labels && t->old->start[label + 1] > t->old->start[label];
}

static float cost_of(const struct wisp_linear_trainer *t, size_t label)
{
    return is_old(t, label) ? t->how.cost * t->how.old_pace : t->how.cost;
}

static void take_row(struct room *m, const struct wisp_linear_trainer *t, size_t at, uint32_t row,
                     int sign, double cost)
{
    m->row[at] = row;
    m->sign[at] = (int8_t)sign;
    m->cost[at] = (float)(cost * (t->rows->weight ? t->rows->weight[row] : 1));
}

/* Which rows, with sign and cost; returns how many. */
static size_t choose_rows(struct room *m, const struct wisp_linear_trainer *t, size_t label)
{
    const struct wisp_linear_rows *r = t->rows;
    const struct wisp_negatives_how *how = &t->negatives->how;
    const float cost = cost_of(t, label);
    size_t n = 0;
    for (size_t i = r->lp[label]; i < r->lp[label + 1]; i++) take_row(m, t, n++, r->lr[i], 1, cost);
    const size_t *at = t->filed_at + (label - t->filed_from);
    for (size_t i = at[0]; i < at[1]; i++) {
        const bool tail = t->filed[i] & WISP_TAIL;
        take_row(m, t, n++, t->filed[i] & ~WISP_TAIL, -1, tail ? cost / how->share : cost);
    }
    for (size_t i = 0; i < how->random; i++) {
        const uint64_t stream = wisp_stream(WISP_STREAM_NEGATIVES, label + 1);
        uint32_t row = (uint32_t)wisp_rand_below(t->how.seed, stream, i, r->n_rows);
        if (!is_positive(r, label, row)) take_row(m, t, n++, row, -1, cost);
    }
    return n;
}

static bool grow_entries(struct room *m, size_t n)
{
    if (n <= m->entries) return true;
    n += n / 4;
    wisp_free(m->x);
    m->x = wisp_alloc(n, sizeof *m->x);
    m->entries = m->x ? n : 0;
    return m->x != NULL;
}

/* The number of a feature in the copy; one that is not there gets the next. */
static int32_t number_of(struct room *m, int32_t feature, size_t *n_features)
{
    if (m->number[feature] == 0) {
        m->feature[(*n_features)++] = feature;
        m->number[feature] = (int32_t)*n_features;
    }
    return m->number[feature] - 1;
}

/* Copies the rows, features numbered as they come; returns how many features there are. */
static size_t copy_rows(struct room *m, const struct wisp_linear_rows *r, size_t n)
{
    enum { FAR = 16, NEAR = 8 }; /* rows that are asked for before their turn: they lie anywhere */
    size_t to = 0, n_features = 0;
    for (size_t i = 0; i < n; i++) {
        if (i + FAR < n) __builtin_prefetch(r->xp + m->row[i + FAR]);
        if (i + NEAR < n) {
            const struct wisp_linear_entry *soon = r->x + r->xp[m->row[i + NEAR]];
            __builtin_prefetch(soon);
            __builtin_prefetch(soon + 8);
            __builtin_prefetch(r->square + m->row[i + NEAR]);
        }
        m->xp[i] = to;
        m->square[i] = r->square[m->row[i]];
        for (size_t e = r->xp[m->row[i]]; e < r->xp[m->row[i] + 1]; e++, to++) {
            const int32_t f = r->x[e].id;
            m->x[to] = (struct wisp_linear_entry){ number_of(m, f, &n_features), r->x[e].x };
        }
    }
    m->xp[n] = to;
    return n_features;
}

/* ---- a label ---- */

/* The weights to stay near to, as the problem's first ones; returns how many features there are then. */
static size_t take_old(struct wisp_linear_problem *p, struct room *m,
                       const struct wisp_linear_trainer *t, size_t label, bool copied)
{
    const struct wisp_linear_done *old = t->old;
    size_t n_features = p->n_features;
    if (!old) return n_features;
    const bool known = label < old->n_labels;
    double sum = 0;
    p->bias = known ? old->bias[label] : NO_ROWS;
    for (int64_t e = known ? old->start[label] : 0; known && e < old->start[label + 1]; e++) {
        const float w = old->weight[e];
        const size_t before = n_features;
        const int32_t at = copied ? number_of(m, old->id[e], &n_features) : old->id[e];
        p->w[at] = w;
        if (n_features == before) sum += (double)w * w; /* others are outside of the problem */
    }
    p->old_length = 0.5 * (sum + (double)p->bias * p->bias);
    return n_features;
}

static int ascending(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Keeps the weights that are not near 0, by ascending feature. */
static bool keep(struct found *out, struct room *m, const struct wisp_linear_trainer *t,
                 size_t n_features, bool copied)
{
    size_t n = 0;
    for (size_t i = 0; i < n_features; i++) n += fabsf(m->w[i]) >= t->how.drop && m->w[i] != 0;
    out->id = wisp_alloc(n, sizeof *out->id);
    out->weight = wisp_alloc(n, sizeof *out->weight);
    if (!out->id || !out->weight) return false;
    for (size_t i = 0; i < n_features; i++)
        if (fabsf(m->w[i]) >= t->how.drop && m->w[i] != 0)
            out->id[out->n++] = copied ? m->feature[i] : (int32_t)i;
    if (copied && n > 1) qsort(out->id, n, sizeof *out->id, ascending);
    for (size_t i = 0; i < n; i++)
        out->weight[i] = m->w[copied ? m->number[out->id[i]] - 1 : out->id[i]];
    return true;
}

static bool solve_all(struct found *out, struct room *m, struct wisp_linear_trainer *t,
                      size_t label)
{
    const struct wisp_linear_rows *r = t->rows;
    for (size_t i = 0; i < r->n_rows; i++) {
        m->sign[i] = -1;
        m->cost[i] = cost_of(t, label) * (r->weight ? r->weight[i] : 1);
    }
    for (size_t i = r->lp[label]; i < r->lp[label + 1]; i++) m->sign[r->lr[i]] = 1;
    struct wisp_linear_problem p = { .n = r->n_rows,
                                     .n_features = r->n_features,
                                     .xp = r->xp,
                                     .x = r->x,
                                     .square = r->square,
                                     .sign = m->sign,
                                     .cost = m->cost,
                                     .a = m->a,
                                     .w = m->w,
                                     .order = m->order };
    memset(p.a, 0, p.n * sizeof *p.a);
    memset(p.w, 0, p.n_features * sizeof *p.w);
    take_old(&p, m, t, label, false);
    wisp_linear_solve(&p, &t->how, wisp_stream(WISP_STREAM_LINEAR, label));
    m->visits += p.visits;
    out->bias = p.bias;
    out->objective = p.reached;
    return keep(out, m, t, r->n_features, false);
}

static bool solve_some(struct found *out, struct room *m, struct wisp_linear_trainer *t,
                       size_t label)
{
    const struct wisp_linear_rows *r = t->rows;
    const size_t n = choose_rows(m, t, label);
    size_t entries = 0;
    for (size_t i = 0; i < n; i++) entries += r->xp[m->row[i] + 1] - r->xp[m->row[i]];
    if (!grow_entries(m, entries)) return false;
    const size_t n_copied = copy_rows(m, r, n);
    struct wisp_linear_problem p = { .n = n,
                                     .n_features = n_copied,
                                     .xp = m->xp,
                                     .x = m->x,
                                     .square = m->square,
                                     .sign = m->sign,
                                     .cost = m->cost,
                                     .a = m->a,
                                     .w = m->w,
                                     .order = m->order };
    memset(p.a, 0, n * sizeof *p.a);
    memset(p.w, 0, n_copied * sizeof *p.w);
    const size_t n_features = take_old(&p, m, t, label, true);
    wisp_linear_solve(&p, &t->how, wisp_stream(WISP_STREAM_LINEAR, label));
    m->visits += p.visits;
    out->bias = p.bias;
    out->objective = p.reached;
    const bool kept = keep(out, m, t, n_features, true);
    for (size_t i = 0; i < n_features; i++) m->number[m->feature[i]] = 0;
    return kept;
}

/* A label without rows keeps what it had, and so does one that must not move. */
static bool keep_old(struct found *out, const struct wisp_linear_done *old, size_t label)
{
    const size_t first = (size_t)old->start[label];
    out->n = (size_t)old->start[label + 1] - first;
    out->bias = old->bias[label];
    out->id = wisp_alloc(out->n, sizeof *out->id);
    out->weight = wisp_alloc(out->n, sizeof *out->weight);
    if (!out->id || !out->weight) return false;
    if (out->n) memcpy(out->id, old->id + first, out->n * sizeof *out->id);
    if (out->n) memcpy(out->weight, old->weight + first, out->n * sizeof *out->weight);
    return true;
}

static void train_label(void *arg, size_t i, int thread)
{
    struct wisp_linear_trainer *t = arg;
    struct found *out = &t->found[i];
    const size_t label = t->first + i;
    struct room *m = &t->rooms[thread];
    const bool none = n_positive(t->rows, label) == 0 || (is_old(t, label) && t->how.old_pace == 0),
               known = t->old && label < t->old->n_labels;
    *out = (struct found){ .bias = NO_ROWS };
    if (none && !known) return;
    const bool ok = none           ? keep_old(out, t->old, label)
                    : t->negatives ? solve_some(out, m, t, label)
                                   : solve_all(out, m, t, label);
    if (!ok) out->n = SIZE_MAX; /* out of memory: the caller sees it */
}

/* ---- some labels ---- */

/* Files the negatives of the labels from 'first' on. */
static wisp_status file_negatives(struct wisp_linear_trainer *t, size_t first, wisp_error *err)
{
    const struct wisp_negatives *g = t->negatives;
    const struct wisp_linear_rows *r = t->rows;
    size_t to = first, n = 0;
    for (; to < r->n_labels && (to == first || n + g->count[to] <= FILED); to++) n += g->count[to];
    wisp_free(t->filed_at);
    wisp_free(t->filed);
    t->filed_at = wisp_zalloc(to - first + 2, sizeof *t->filed_at);
    t->filed = wisp_alloc(n, sizeof *t->filed);
    if (!t->filed_at || !t->filed) return wisp_fail_mem(err, 4 * n, "negatives by label");
    t->filed_from = first, t->filed_to = to;
    size_t *next = t->filed_at + 1; /* where the next row of each label goes */
    for (size_t l = first; l + 1 < to; l++) next[l - first + 1] = next[l - first] + g->count[l];
    for (size_t row = 0; row < r->n_rows; row++)
        for (const uint32_t *l = g->label + row * g->each; *l != WISP_NO_LABEL; l++) {
            const size_t label = *l & ~WISP_TAIL;
            if (label >= first && label < to)
                t->filed[next[label - first]++] = (uint32_t)row | (*l & WISP_TAIL);
        }
    return WISP_OK;
}

static wisp_status take_found(struct wisp_linear_trainer *t, size_t n, wisp_error *err)
{
    struct wisp_linear_done *d = t->done;
    size_t more = 0;
    for (size_t i = 0; i < n; i++) {
        if (t->found[i].n == SIZE_MAX) return wisp_fail_mem(err, 0, "the weights of a label");
        more += t->found[i].n;
    }
    if (d->n + more > d->cap) {
        const size_t cap = d->n + more + d->cap / 2;
        int32_t *id = wisp_realloc(d->id, d->n, cap, sizeof *id);
        if (id) d->id = id;
        float *weight = wisp_realloc(d->weight, d->n, cap, sizeof *weight);
        if (weight) d->weight = weight;
        if (!id || !weight) return wisp_fail_mem(err, 8 * cap, "weights");
        d->cap = cap;
    }
    for (size_t i = 0; i < n; i++) {
        const struct found *f = &t->found[i];
        if (f->n) memcpy(d->id + d->n, f->id, f->n * sizeof *f->id);
        if (f->n) memcpy(d->weight + d->n, f->weight, f->n * sizeof *f->weight);
        d->n += f->n;
        d->bias[d->n_labels] = f->bias;
        d->objective += f->objective;
        d->start[++d->n_labels] = (int64_t)d->n;
    }
    return WISP_OK;
}

wisp_status wisp_linear_train_some(struct wisp_linear_trainer *t, wisp_error *err)
{
    const size_t first = t->done->n_labels, n_labels = t->rows->n_labels;
    const bool filed = !t->negatives || (first >= t->filed_from && first < t->filed_to);
    wisp_status st = filed ? WISP_OK : file_negatives(t, first, err);
    if (st != WISP_OK) return st;
    const size_t end = t->negatives ? t->filed_to : n_labels;
    size_t n = 0;
    for (size_t visits = 0; first + n < end && n < SOME_LABELS && visits < SOME_VISITS; n++)
        visits += 7 * n_rows_of(t, first + n);
    t->first = first;
    wisp_parallel_for(t->ctx->pool, n, train_label, t);
    st = take_found(t, n, err);
    for (size_t i = 0; i < n; i++) wisp_free(t->found[i].id), wisp_free(t->found[i].weight);
    return st;
}

size_t wisp_linear_filed_bytes(void)
{
    return (size_t)FILED * sizeof(uint32_t);
}

uint64_t wisp_linear_visits(const struct wisp_linear_trainer *t)
{
    uint64_t all = 0;
    for (size_t i = 0; i < t->n_rooms; i++) all += t->rooms[i].visits;
    return all;
}

/* ---- memory ---- */

static bool make_room(struct room *m, const struct wisp_linear_trainer *t, size_t rows)
{
    const size_t n_features = t->rows->n_features;
    m->rows = rows;
    m->a = wisp_alloc(rows, sizeof *m->a);
    m->cost = wisp_alloc(rows, sizeof *m->cost);
    m->sign = wisp_alloc(rows, sizeof *m->sign);
    m->order = wisp_alloc(rows, sizeof *m->order);
    m->w = wisp_alloc(n_features, sizeof *m->w);
    if (!m->a || !m->cost || !m->sign || !m->order || !m->w) return false;
    if (!t->negatives) return true;
    m->square = wisp_alloc(rows, sizeof *m->square);
    m->row = wisp_alloc(rows, sizeof *m->row);
    m->xp = wisp_alloc(rows + 1, sizeof *m->xp);
    m->number = wisp_zalloc(n_features, sizeof *m->number);
    m->feature = wisp_alloc(n_features, sizeof *m->feature);
    return m->square && m->row && m->xp && m->number && m->feature;
}

static void clear_room(struct room *m)
{
    wisp_free(m->a);
    wisp_free(m->cost);
    wisp_free(m->square);
    wisp_free(m->sign);
    wisp_free(m->order);
    wisp_free(m->row);
    wisp_free(m->xp);
    wisp_free(m->x);
    wisp_free(m->w);
    wisp_free(m->number);
    wisp_free(m->feature);
}

wisp_status wisp_linear_trainer_make(struct wisp_linear_trainer **out, struct wisp_context *ctx,
                                     const struct wisp_linear_rows *rows,
                                     const struct wisp_negatives *negatives,
                                     const struct wisp_linear_how *how,
                                     const struct wisp_linear_done *old,
                                     struct wisp_linear_done *done, wisp_error *err)
{
    struct wisp_linear_trainer *t = *out = wisp_zalloc(1, sizeof *t);
    if (!t) return wisp_fail_mem(err, sizeof *t, "training");
    *t = (struct wisp_linear_trainer){
        .ctx = ctx, .rows = rows, .negatives = negatives, .how = *how, .old = old, .done = done
    };
    size_t most = 1, threads = (size_t)wisp_pool_threads(ctx->pool);
    for (size_t l = 0; l < rows->n_labels; l++)
        if (n_rows_of(t, l) > most) most = n_rows_of(t, l);
    t->rooms = wisp_zalloc(threads, sizeof *t->rooms);
    t->found = wisp_zalloc(SOME_LABELS, sizeof *t->found);
    bool ok = t->rooms && t->found;
    for (; ok && t->n_rooms < threads; t->n_rooms++) ok = make_room(&t->rooms[t->n_rooms], t, most);
    if (ok) return WISP_OK;
    wisp_linear_trainer_free(t);
    *out = NULL;
    return wisp_fail_mem(err, threads * most * 29, "training");
}

void wisp_linear_trainer_free(struct wisp_linear_trainer *t)
{
    if (!t) return;
    const size_t threads = (size_t)wisp_pool_threads(t->ctx->pool);
    for (size_t i = 0; t->rooms && i < threads; i++) clear_room(&t->rooms[i]);
    wisp_free(t->rooms);
    wisp_free(t->found);
    wisp_free(t->filed_at);
    wisp_free(t->filed);
    wisp_free(t);
}
