/* Scores of rows by a linear model: lists by feature for all labels, lists by label for some. */
#include "linear/linear.h"
#include "base/mem.h"

#include <string.h>

static inline float weight_at(const struct wisp_linear *m, size_t list, size_t at)
{
    union {
        uint32_t u;
        float f;
    } bits;
    if (m->f32) return m->f32[at];
    if (m->i8) return m->scale[list] * (float)m->i8[at];
    bits.u = (uint32_t)m->b16[at] << 16;
    return bits.f;
}

float wisp_linear_weight_at(const struct wisp_linear *m, size_t list, size_t at)
{
    return weight_at(m, list, at);
}

/* z[id] += x * weight over a list; the ids of a list are different, so nothing is added twice. */
static void add_list(float *z, const struct wisp_linear *m, size_t list, float x)
{
    const size_t end = (size_t)m->start[list + 1];
    size_t at = (size_t)m->start[list];
    if (m->f32) {
        for (; at < end; at++) z[m->id[at]] += x * m->f32[at];
    } else if (m->i8) {
        x *= m->scale[list];
        for (; at < end; at++) z[m->id[at]] += x * (float)m->i8[at];
    } else {
        for (; at < end; at++) z[m->id[at]] += x * weight_at(m, list, at);
    }
}

void wisp_linear_all(float *z, const struct wisp_linear *m, const int32_t *xi, const float *xv,
                     size_t nnz)
{
    memcpy(z, m->bias, m->n_labels * sizeof *z);
    for (size_t i = 0; i < nnz; i++) add_list(z, m, (size_t)xi[i], xv[i]);
}

/* Where 'id' is among the ids from 'at' to 'end', or would be.  Without a branch that depends on an
 * id: half of them would be foreseen wrong. */
static inline size_t find(const int32_t *ids, size_t at, size_t end, int32_t id)
{
    size_t n = end - at;
    while (n > 1) {
        const size_t half = n / 2;
        at += (size_t)(ids[at + half - 1] < id) * half;
        n -= half;
    }
    return at + (n == 1 && ids[at] < id);
}

float wisp_linear_weight(const struct wisp_linear *m, size_t feature, size_t label)
{
    const size_t list = m->by_feature ? feature : label, end = (size_t)m->start[list + 1];
    const int32_t id = (int32_t)(m->by_feature ? label : feature);
    const size_t at = find(m->id, (size_t)m->start[list], end, id);
    return at < end && m->id[at] == id ? weight_at(m, list, at) : 0;
}

/* ---- some labels, from lists by label ----
 *
 * A list lies anywhere in memory, so what counts is how many cache lines are waited for.  'places'
 * says where in a list of average make a feature would be; the true place is a few ids away, and is
 * found by doubling steps from there.  These lines are asked for AHEAD labels before they are looked
 * at, weights when it is known which are needed, and they are added up BEHIND labels later. */

enum { AHEAD = 3, BEHIND = 4, HITS = 96 };

struct hits { /* of a label in the features of a row */
    size_t label, n;
    size_t at[HITS];
    float x[HITS];
    float sum; /* of those that there was no room for */
};

void wisp_linear_places(float *out, const struct wisp_linear *m)
{
    const size_t n = wisp_linear_weights(m);
    memset(out, 0, m->n_features * sizeof *out);
    for (size_t i = 0; i < n; i++) out[m->id[i]]++;
    double before = 0;
    for (size_t f = 0; f < m->n_features; f++) {
        const double own = out[f];
        out[f] = (float)((before + own / 2) / (double)(n ? n : 1));
        before += own;
    }
}

static inline size_t guess(const struct wisp_linear *m, size_t first, size_t n, int32_t feature)
{
    const size_t at = (size_t)(m->places[feature] * (float)n);
    return first + (at < n ? at : n - 1);
}

/* As find, beginning at 'near', which is before 'end' and may be before 'low'. */
static inline size_t find_near(const int32_t *ids, size_t low, size_t end, size_t near, int32_t id)
{
    size_t step = 4;
    if (near < low) near = low;
    if (near >= end) return end;
    if (ids[near] < id) {
        low = near + 1;
        for (; near + step < end && ids[near + step] < id; step *= 2) low = near + step + 1;
        return find(ids, low, near + step < end ? near + step : end, id);
    }
    end = near;
    for (; near >= low + step && ids[near - step] >= id; step *= 2) end = near - step;
    return find(ids, near >= low + step ? near - step + 1 : low, end, id);
}

/* Always inline: gcc 12 drops calls of functions that only prefetch. */
__attribute__((always_inline)) static inline void fetch(const struct wisp_linear *m, size_t list,
                                                        const int32_t *xi, size_t nnz)
{
    const size_t first = (size_t)m->start[list], n = (size_t)m->start[list + 1] - first;
    for (size_t i = 0; n && i < nnz; i++) __builtin_prefetch(m->id + guess(m, first, n, xi[i]));
}

__attribute__((always_inline)) static inline void fetch_weight(const struct wisp_linear *m,
                                                               size_t at)
{
    if (m->f32) __builtin_prefetch(m->f32 + at);
    else if (m->i8) __builtin_prefetch(m->i8 + at);
    else __builtin_prefetch(m->b16 + at);
}

/* Each feature is looked for behind the one before. */
static void look(struct hits *h, const struct wisp_linear *m, size_t label, const int32_t *xi,
                 const float *xv, size_t nnz)
{
    const size_t first = (size_t)m->start[label], end = (size_t)m->start[label + 1];
    size_t at = first;
    h->label = label, h->n = 0, h->sum = 0;
    for (size_t i = 0; i < nnz && at < end; i++) {
        at = m->places ? find_near(m->id, at, end, guess(m, first, end - first, xi[i]), xi[i])
                       : find(m->id, at, end, xi[i]);
        if (at == end || m->id[at] != xi[i]) continue;
        if (h->n == HITS) {
            h->sum += xv[i] * weight_at(m, label, at);
            continue;
        }
        fetch_weight(m, at);
        h->at[h->n] = at;
        h->x[h->n++] = xv[i];
    }
}

static float add_up(const struct hits *h, const struct wisp_linear *m)
{
    float sum = h->sum;
    for (size_t i = 0; i < h->n; i++) sum += h->x[i] * weight_at(m, h->label, h->at[i]);
    return sum + m->bias[h->label];
}

static void some_by_label(float *z, const struct wisp_linear *m, const int32_t *xi, const float *xv,
                          size_t nnz, const int32_t *labels, size_t n)
{
    struct hits hits[BEHIND];
    for (size_t i = 0; m->places && i < n && i < AHEAD; i++) fetch(m, (size_t)labels[i], xi, nnz);
    for (size_t i = 0; i < n + BEHIND; i++) {
        if (i >= BEHIND) z[i - BEHIND] = add_up(&hits[i % BEHIND], m);
        if (m->places && i + AHEAD < n) fetch(m, (size_t)labels[i + AHEAD], xi, nnz);
        if (i < n) look(&hits[i % BEHIND], m, (size_t)labels[i], xi, xv, nnz);
    }
}

void wisp_linear_some(float *z, const struct wisp_linear *m, const int32_t *xi, const float *xv,
                      size_t nnz, const int32_t *labels, size_t n)
{
    if (!m->by_feature) {
        some_by_label(z, m, xi, xv, nnz, labels, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        z[i] = m->bias[labels[i]];
        for (size_t j = 0; j < nnz; j++)
            z[i] += xv[j] * wisp_linear_weight(m, (size_t)xi[j], (size_t)labels[i]);
    }
}

void wisp_linear_clear(struct wisp_linear *m)
{
    if (m->owned) {
        wisp_free((void *)m->start);
        wisp_free((void *)m->id);
        wisp_free((void *)m->f32);
        wisp_free((void *)m->bias);
    }
    *m = (struct wisp_linear){ 0 };
}
