/* Active sets and the table of samplers. */
#include "hash/active.h"

#include <string.h>

static void choose_full(struct wisp_active *out, const struct wisp_query *q)
{
    *out = (struct wisp_active){ .n = q->n_rows };
}

static const struct wisp_sampler_kind kinds[] = {
    { "full", "every row: the full softmax", choose_full },
};

const struct wisp_sampler_kind *wisp_sampler_at(size_t i)
{
    return i < sizeof kinds / sizeof *kinds ? &kinds[i] : NULL;
}

const struct wisp_sampler_kind *wisp_sampler_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    return NULL;
}

size_t wisp_active_place(const struct wisp_active *a, int32_t row)
{
    if (!a->rows) return (size_t)row < a->n ? (size_t)row : SIZE_MAX;
    size_t lo = 0, hi = a->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (a->rows[mid] < row) lo = mid + 1;
        else hi = mid;
    }
    return lo < a->n && a->rows[lo] == row ? lo : SIZE_MAX;
}
