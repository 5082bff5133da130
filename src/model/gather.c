/* Gathering numbers by the indices that stay. */
#include "model/gather.h"

#include <string.h>

/* The place in the larger array of number i of the smaller one. */
static size_t place(const struct wisp_gather *g, size_t i)
{
    size_t at = 0, step = 1;
    for (int d = g->rank - 1; d >= 0; d--) {
        const size_t k = i % g->to[d];
        i /= g->to[d];
        at += (g->index[d] ? g->index[d][k] : g->first[d] + k) * step;
        step *= g->from[d];
    }
    return at;
}

void wisp_gather(void *to, const void *from, size_t bytes, const struct wisp_gather *g)
{
    const int last = g->rank - 1;
    const size_t *index = g->index[last], line = g->to[last];
    size_t n = 1;
    if (!to || !from || line == 0) return;
    for (int d = 0; d < g->rank; d++) n *= g->to[d];
    for (size_t i = 0; i < n; i += line) { /* a place is dear to find: one of each line */
        char *out = (char *)to + i * bytes;
        const char *in = (const char *)from + place(g, i) * bytes;
        if (!index) memcpy(out, in, line * bytes);
        for (size_t k = 0; index && k < line; k++)
            memcpy(out + k * bytes, in + (index[k] - index[0]) * bytes, bytes);
    }
}

void wisp_gather_param(struct wisp_param *to, const struct wisp_param *from,
                       const struct wisp_gather *g)
{
    struct wisp_gather rows = *g;
    rows.rank = 1; /* what there is one of for each row */
    wisp_gather(to->w, from->w, sizeof *to->w, g);
    wisp_gather(to->b16, from->b16, sizeof *to->b16, g);
    wisp_gather(to->m, from->m, sizeof *to->m, g);
    wisp_gather(to->v, from->v, sizeof *to->v, g);
    wisp_gather(to->m16, from->m16, sizeof *to->m16, g);
    wisp_gather(to->v16, from->v16, sizeof *to->v16, g);
    wisp_gather(to->g2, from->g2, sizeof *to->g2, &rows);
    wisp_gather(to->count, from->count, sizeof *to->count, &rows);
}
