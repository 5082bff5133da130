/* Weights in lists by label, as training makes them, and in lists by feature. */
#include "linear/linear.h"
#include "base/mem.h"

#include <string.h>

wisp_status wisp_linear_done_init(struct wisp_linear_done *d, size_t n_labels, wisp_error *err)
{
    *d = (struct wisp_linear_done){ 0 };
    d->start = wisp_zalloc(n_labels + 1, sizeof *d->start);
    d->bias = wisp_zalloc(n_labels, sizeof *d->bias);
    if (d->start && d->bias) return WISP_OK;
    wisp_linear_done_clear(d);
    return wisp_fail_mem(err, n_labels * 12, "weights");
}

void wisp_linear_done_clear(struct wisp_linear_done *d)
{
    wisp_free(d->start);
    wisp_free(d->id);
    wisp_free(d->weight);
    wisp_free(d->bias);
    *d = (struct wisp_linear_done){ 0 };
}

void wisp_linear_by_feature(int64_t *start, int32_t *id, float *weight,
                            const struct wisp_linear_done *d, size_t n_features)
{
    memset(start, 0, (n_features + 1) * sizeof *start);
    for (size_t i = 0; i < d->n; i++) start[d->id[i] + 1]++;
    for (size_t f = 0; f < n_features; f++) start[f + 1] += start[f];
    for (size_t l = 0; l < d->n_labels; l++)
        for (int64_t e = d->start[l]; e < d->start[l + 1]; e++) {
            const int64_t to = start[d->id[e]]++;
            id[to] = (int32_t)l;
            weight[to] = d->weight[e];
        }
    memmove(start + 1, start, n_features * sizeof *start);
    start[0] = 0;
}

wisp_status wisp_linear_by_label(struct wisp_linear_done *out, const struct wisp_linear *m,
                                 wisp_error *err)
{
    const size_t n = wisp_linear_weights(m), lists = wisp_linear_lists(m);
    wisp_status st = wisp_linear_done_init(out, m->n_labels, err);
    if (st != WISP_OK) return st;
    out->id = wisp_alloc(n, sizeof *out->id);
    out->weight = wisp_alloc(n, sizeof *out->weight);
    if (!out->id || !out->weight) return wisp_fail_mem(err, 8 * n, "weights");
    out->n_labels = m->n_labels, out->n = out->cap = n;
    memcpy(out->bias, m->bias, m->n_labels * sizeof *out->bias);
    for (size_t i = 0; m->by_feature && i < n; i++) out->start[m->id[i] + 1]++;
    for (size_t l = 0; l < m->n_labels; l++)
        out->start[l + 1] = m->by_feature ? out->start[l + 1] + out->start[l] : m->start[l + 1];
    for (size_t list = 0; list < lists; list++)
        for (int64_t e = m->start[list]; e < m->start[list + 1]; e++) {
            const int64_t to = m->by_feature ? out->start[m->id[e]]++ : e;
            out->id[to] = m->by_feature ? (int32_t)list : m->id[e];
            out->weight[to] = wisp_linear_weight_at(m, list, (size_t)e);
        }
    if (!m->by_feature) return WISP_OK;
    memmove(out->start + 1, out->start, m->n_labels * sizeof *out->start);
    out->start[0] = 0;
    return WISP_OK;
}
