/* Making the votes of features for labels from the training rows.
 *
 *   G(f, l) = sum over rows with feature f and label l of x_f, / sqrt(rows with f + 1)
 *
 * with x as the network sees it (tf-idf, length 1); the KEPT largest of each feature stay.  Rows
 * are filed by feature (at most ROWS of each, chosen at random: a feature that has more says
 * little), then every feature is worked on alone:
 *   operations  non-zeros * labels per row;   bytes  8 * non-zeros kept, 12 * labels per thread */
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"
#include "model/votes.h"

#include <math.h>
#include <string.h>

enum { KEPT = 128, ROWS = 1024, CHUNK = 256 /* rows laid out at once */ };

struct maker {
    const struct wisp_data *d;
    const struct wisp_values *values;
    uint64_t seed;
    struct wisp_layout layout;
    /* rows by feature */
    int64_t *first; /* (n_features + 1) */
    uint32_t *row;  /* (first[n_features]) */
    float *x;
    /* of each thread: sums by label, and the labels that have one */
    float *sum;
    int32_t *seen;
    float *spare;
    struct wisp_votes *out;
    int32_t *n_kept; /* (n_features) */
};

static bool keeps(const struct maker *m, size_t row, int32_t feature)
{
    double n = (double)m->d->feature_rows[feature];
    if (n <= ROWS) return true;
    uint64_t place = (uint64_t)row << 32 ^ (uint32_t)feature;
    return wisp_rand_unit(m->seed, WISP_STREAM_VOTES, place) * n < ROWS;
}

/* Hands every non-zero that is kept to fn, in order of rows. */
static wisp_status each(struct maker *m,
                        void (*fn)(struct maker *m, size_t row, int32_t f, float x),
                        wisp_error *err)
{
    struct wisp_drop none = { 0 };
    size_t rows[CHUNK];
    for (size_t first = 0; first < m->d->n_rows; first += CHUNK) {
        size_t n = m->d->n_rows - first < CHUNK ? m->d->n_rows - first : CHUNK;
        for (size_t i = 0; i < n; i++) rows[i] = first + i;
        wisp_status st = wisp_layout_fill(&m->layout, m->d, rows, n, m->values, &none, err);
        if (st != WISP_OK) return st;
        const struct wisp_batch *b = &m->layout.batch;
        for (size_t i = 0; i < n; i++)
            for (uint32_t e = b->xp[i]; e < b->xp[i + 1]; e++)
                if (keeps(m, first + i, b->xi[e])) fn(m, first + i, b->xi[e], b->xv[e]);
    }
    return WISP_OK;
}

static void count(struct maker *m, size_t row, int32_t f, float x)
{
    (void)row, (void)x;
    m->first[f + 1]++;
}

static void file(struct maker *m, size_t row, int32_t f, float x)
{
    int64_t at = m->first[f]++;
    m->row[at] = (uint32_t)row;
    m->x[at] = x;
}

static const int32_t *labels_of(const struct wisp_data *d, size_t row, size_t *n)
{
    size_t at;
    const struct wisp_rows *r = wisp_data_row(d, row, &at);
    *n = r->yp[at + 1] - r->yp[at];
    return r->yi + r->yp[at];
}

/* Files the rows by feature: count, prefix sum, fill. */
static wisp_status file_rows(struct maker *m, size_t n_features, wisp_error *err)
{
    wisp_status st = each(m, count, err);
    if (st != WISP_OK) return st;
    for (size_t f = 0; f < n_features; f++) m->first[f + 1] += m->first[f];
    size_t n = (size_t)m->first[n_features];
    m->row = wisp_alloc(n, sizeof *m->row);
    m->x = wisp_alloc(n, sizeof *m->x);
    if (!m->row || !m->x) return wisp_fail_mem(err, n * 8, "rows by feature");
    if ((st = each(m, file, err)) != WISP_OK) return st;
    for (size_t f = n_features; f > 0; f--) m->first[f] = m->first[f - 1];
    m->first[0] = 0;
    return WISP_OK;
}

static wisp_status take_lists(struct wisp_votes *v, wisp_error *err)
{
    size_t all = (size_t)v->start[v->n_features];
    v->label = wisp_alloc(all, sizeof *v->label);
    v->weight = wisp_alloc(all, sizeof *v->weight);
    return v->label && v->weight ? WISP_OK : wisp_fail_mem(err, all * 8, "votes of features");
}

/* Room for each feature's list: what it could have at most. */
static wisp_status make_room(struct maker *m, size_t n_features, wisp_error *err)
{
    struct wisp_votes *v = m->out;
    v->n_features = n_features;
    v->start = wisp_zalloc(n_features + 1, sizeof *v->start);
    if (!v->start) return wisp_fail_mem(err, n_features * 8, "votes of features");
    for (size_t f = 0; f < n_features; f++) {
        size_t most = 0, n;
        for (int64_t e = m->first[f]; e < m->first[f + 1] && most < KEPT; e++, most += n)
            labels_of(m->d, m->row[e], &n);
        v->start[f + 1] = v->start[f] + (int64_t)(most < KEPT ? most : KEPT);
    }
    return take_lists(v, err);
}

static void sort_heaviest(int32_t *label, float *weight, size_t n)
{
    for (size_t gap = n / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < n; i++) {
            float w = weight[i];
            int32_t l = label[i];
            size_t at = i;
            for (; at >= gap &&
                   (weight[at - gap] < w || (weight[at - gap] == w && label[at - gap] > l));
                 at -= gap) {
                weight[at] = weight[at - gap];
                label[at] = label[at - gap];
            }
            weight[at] = w;
            label[at] = l;
        }
}

static void make_feature(void *arg, size_t f, int thread)
{
    struct maker *m = arg;
    size_t n_labels = m->d->n_labels, n_seen = 0, n;
    float *sum = m->sum + (size_t)thread * n_labels;
    int32_t *seen = m->seen + (size_t)thread * n_labels;
    float *spare = m->spare + (size_t)thread * n_labels;
    for (int64_t e = m->first[f]; e < m->first[f + 1]; e++) {
        const int32_t *y = labels_of(m->d, m->row[e], &n);
        for (size_t i = 0; i < n; i++) {
            if (sum[y[i]] == 0) seen[n_seen++] = y[i];
            sum[y[i]] +=
                m->x[e] > 0 ? m->x[e] : 1e-9f; /* never back to 0: it would be seen twice */
        }
    }
    float least = 0, scale = 1 / sqrtf((float)(m->first[f + 1] - m->first[f] + 1));
    if (n_seen > KEPT) {
        for (size_t i = 0; i < n_seen; i++) spare[i] = sum[seen[i]];
        least = wisp_nth_largest(spare, n_seen, KEPT);
    }
    int32_t *label = m->out->label + m->out->start[f];
    float *weight = m->out->weight + m->out->start[f];
    size_t kept = 0, above = 0;
    for (size_t i = 0; i < n_seen; i++) above += sum[seen[i]] > least;
    size_t ties = KEPT - (above < KEPT ? above : KEPT);
    for (size_t i = 0; i < n_seen; i++) {
        float s = sum[seen[i]];
        sum[seen[i]] = 0;
        if (s < least || (s == least && ties == 0)) continue;
        ties -= s == least;
        label[kept] = seen[i];
        weight[kept++] = s * scale;
    }
    sort_heaviest(label, weight, kept);
    m->n_kept[f] = (int32_t)kept;
}

/* Closes the gaps behind lists that are shorter than they could be. */
static void close_gaps(struct wisp_votes *v, const int32_t *n_kept)
{
    int64_t to = 0;
    for (size_t f = 0; f < v->n_features; f++) {
        size_t n = (size_t)n_kept[f];
        memmove(v->label + to, v->label + v->start[f], n * sizeof *v->label);
        memmove(v->weight + to, v->weight + v->start[f], n * sizeof *v->weight);
        v->start[f] = to;
        to += (int64_t)n;
    }
    v->start[v->n_features] = to;
}

static void clear(struct maker *m)
{
    wisp_layout_clear(&m->layout);
    wisp_free(m->first);
    wisp_free(m->row);
    wisp_free(m->x);
    wisp_free(m->sum);
    wisp_free(m->seen);
    wisp_free(m->spare);
    wisp_free(m->n_kept);
}

void wisp_votes_bytes(size_t *making, size_t *staying, const struct wisp_data *d, size_t n_features,
                      int threads)
{
    double labels_a_row = d->n_rows ? (double)d->n_lab / (double)d->n_rows : 0, lists = 0,
           filed = 0;
    for (size_t f = 0; f < d->n_features; f++) {
        double rows = fmin((double)d->feature_rows[f], ROWS);
        filed += rows;
        lists += fmin(KEPT, rows * labels_a_row);
    }
    *staying = (size_t)lists * 8 + (n_features + 1) * 8;
    *making = (size_t)filed * 8 + n_features * 12 + (size_t)threads * d->n_labels * 12;
}

wisp_status wisp_votes_make(struct wisp_votes *out, struct wisp_context *ctx,
                            const struct wisp_data *d, size_t n_features,
                            const struct wisp_values *values, uint64_t seed, wisp_error *err)
{
    *out = (struct wisp_votes){ 0 };
    struct maker m = { .d = d, .values = values, .seed = seed, .out = out };
    size_t threads = (size_t)wisp_pool_threads(ctx->pool);
    wisp_status st = wisp_layout_init(&m.layout, d->n_features, d->n_labels, false, err);
    if (st != WISP_OK) return st;
    m.layout.pool = ctx->pool;
    m.first = wisp_zalloc(n_features + 1, sizeof *m.first);
    m.sum = wisp_zalloc(threads * d->n_labels, sizeof *m.sum);
    m.seen = wisp_alloc(threads * d->n_labels, sizeof *m.seen);
    m.spare = wisp_alloc(threads * d->n_labels, sizeof *m.spare);
    m.n_kept = wisp_zalloc(n_features, sizeof *m.n_kept);
    if (!m.first || !m.sum || !m.seen || !m.spare || !m.n_kept)
        st = wisp_fail_mem(err, threads * d->n_labels * 12, "votes of features");
    if (st == WISP_OK) st = file_rows(&m, n_features, err);
    if (st == WISP_OK) st = make_room(&m, n_features, err);
    if (st == WISP_OK) {
        wisp_parallel_for(ctx->pool, n_features, make_feature, &m);
        close_gaps(out, m.n_kept);
    }
    clear(&m);
    if (st != WISP_OK) wisp_votes_clear(out);
    return st;
}

/* ---- joining ---- */

struct joiner {
    const struct wisp_votes *a, *b;
    struct wisp_votes *out;
    int32_t *n_kept; /* (n_features) */
};

static size_t list_of(const struct wisp_votes *v, size_t f)
{
    return f < v->n_features ? (size_t)(v->start[f + 1] - v->start[f]) : 0;
}

static void join_feature(void *arg, size_t f, int thread)
{
    (void)thread;
    const struct joiner *j = arg;
    int32_t label[2 * KEPT];
    float weight[2 * KEPT];
    size_t n_a = list_of(j->a, f), n_b = list_of(j->b, f), n = n_a < KEPT ? n_a : KEPT;
    if (n) memcpy(label, j->a->label + j->a->start[f], n * sizeof *label);
    if (n) memcpy(weight, j->a->weight + j->a->start[f], n * sizeof *weight);
    n_a = n;
    for (size_t i = 0; i < n_b && i < KEPT; i++) {
        int32_t l = j->b->label[j->b->start[f] + (int64_t)i];
        float w = j->b->weight[j->b->start[f] + (int64_t)i];
        size_t at = 0;
        while (at < n_a && label[at] != l) at++;
        if (at < n_a) weight[at] += w;
        else label[n] = l, weight[n++] = w;
    }
    sort_heaviest(label, weight, n);
    if (n > KEPT) n = KEPT;
    if (n) memcpy(j->out->label + j->out->start[f], label, n * sizeof *label);
    if (n) memcpy(j->out->weight + j->out->start[f], weight, n * sizeof *weight);
    j->n_kept[f] = (int32_t)n;
}

wisp_status wisp_votes_join(struct wisp_votes *v, struct wisp_context *ctx,
                            const struct wisp_votes *other, wisp_error *err)
{
    size_t n_features = v->n_features;
    struct wisp_votes out = { .n_features = n_features };
    struct joiner j = { .a = other, .b = v, .out = &out };
    out.start = wisp_zalloc(n_features + 1, sizeof *out.start);
    j.n_kept = wisp_zalloc(n_features, sizeof *j.n_kept);
    wisp_status st =
        out.start && j.n_kept ? WISP_OK : wisp_fail_mem(err, n_features * 12, "votes of features");
    for (size_t f = 0; st == WISP_OK && f < n_features; f++) {
        size_t n = list_of(v, f) + list_of(other, f);
        out.start[f + 1] = out.start[f] + (int64_t)(n < KEPT ? n : KEPT);
    }
    if (st == WISP_OK) st = take_lists(&out, err);
    if (st == WISP_OK) {
        wisp_parallel_for(ctx->pool, n_features, join_feature, &j);
        close_gaps(&out, j.n_kept);
        wisp_votes_clear(v);
        *v = out;
    } else {
        wisp_votes_clear(&out);
    }
    wisp_free(j.n_kept);
    return st;
}

void wisp_votes_clear(struct wisp_votes *v)
{
    wisp_free(v->start);
    wisp_free(v->label);
    wisp_free(v->weight);
    *v = (struct wisp_votes){ 0 };
}
