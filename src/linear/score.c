/* Scores of rows by a linear model: lists by feature for all labels, lists by label for some. */
#include "linear/linear.h"
#include "base/mem.h"

#include <string.h>

static float weight_at(const struct wisp_linear *m, size_t list, size_t at)
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

/* Where 'id' is in a list, or would be: the number of smaller ids from 'at' on, plus 'at'. */
static size_t find(const int32_t *ids, size_t at, size_t end, int32_t id)
{
    size_t n = end - at;
    while (n > 0) {
        size_t half = n / 2;
        bool right = ids[at + half] < id;
        at = right ? at + half + 1 : at;
        n = right ? n - half - 1 : half;
    }
    return at;
}

float wisp_linear_weight(const struct wisp_linear *m, size_t feature, size_t label)
{
    const size_t list = m->by_feature ? feature : label, end = (size_t)m->start[list + 1];
    const int32_t id = (int32_t)(m->by_feature ? label : feature);
    const size_t at = find(m->id, (size_t)m->start[list], end, id);
    return at < end && m->id[at] == id ? weight_at(m, list, at) : 0;
}

/* One label: each feature is looked for behind the one before. */
static float score_label(const struct wisp_linear *m, size_t label, const int32_t *xi,
                         const float *xv, size_t nnz)
{
    size_t at = (size_t)m->start[label];
    const size_t end = (size_t)m->start[label + 1];
    float sum = 0;
    for (size_t i = 0; i < nnz && at < end; i++) {
        at = find(m->id, at, end, xi[i]);
        if (at < end && m->id[at] == xi[i]) sum += xv[i] * weight_at(m, label, at);
    }
    return sum + m->bias[label];
}

/* Asks for a list that is needed soon: its beginning, its middle and its quarters. */
static void fetch(const struct wisp_linear *m, size_t list)
{
    const size_t first = (size_t)m->start[list], n = (size_t)m->start[list + 1] - first;
    for (size_t i = 1; i < 8; i++) __builtin_prefetch(m->id + first + n * i / 8);
}

void wisp_linear_some(float *z, const struct wisp_linear *m, const int32_t *xi, const float *xv,
                      size_t nnz, const int32_t *labels, size_t n)
{
    enum { AHEAD = 2 };
    for (size_t i = 0; i < n; i++) {
        const size_t label = (size_t)labels[i];
        if (m->by_feature) {
            z[i] = m->bias[label];
            for (size_t j = 0; j < nnz; j++)
                z[i] += xv[j] * wisp_linear_weight(m, (size_t)xi[j], label);
            continue;
        }
        if (i + AHEAD < n) fetch(m, (size_t)labels[i + AHEAD]);
        z[i] = score_label(m, label, xi, xv, nnz);
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
