/* Removing channels: a new text, and parameters gathered by the indices that stay. */
#include "model/compact.h"
#include "base/mem.h"

#include <string.h>

/* Does bond c have a weight that makes it? */
static void mark_weights(bool *keep, const struct wisp_bonds *bonds, const struct wisp_params *list)
{
    for (size_t p = 0; p < list->n; p++) {
        const struct wisp_param *q = &list->p[p];
        size_t inner = q->n;
        for (int d = 0; d < q->rank; d++) {
            inner /= q->dim[d] ? q->dim[d] : 1;
            if (q->role != WISP_TRAINED || q->axis[d] != WISP_AXIS_OUT) continue;
            const int32_t *of = bonds->axis[p][d];
            for (size_t i = 0; i < q->n; i++)
                if (q->b16 ? q->b16[i] & 0x7fff : q->w[i] != 0)
                    keep[of[i / inner % q->dim[d]]] = true;
        }
    }
}

static const int32_t *bonds_of(const struct wisp_bonds *bonds, int value)
{
    return bonds->of + bonds->first[value];
}

static size_t count(const bool *keep, const int32_t *of, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) kept += keep[of[i]];
    return kept;
}

size_t wisp_compact_choose(bool *keep, const struct wisp_bonds *bonds, const struct wisp_net *net)
{
    memcpy(keep, bonds->fixed, bonds->n * sizeof *keep);
    mark_weights(keep, bonds, &net->list);
    for (int v = 1; v < net->n_layers; v++) {
        const int32_t *of = bonds_of(bonds, v);
        if (count(keep, of, wisp_channels(&net->acts[v])) == 0) keep[of[0]] = true;
    }
    size_t gone = 0;
    for (size_t c = 0; c < bonds->n; c++) gone += !keep[c];
    return gone;
}

wisp_status wisp_compact_text(char **out, const struct wisp_net *net,
                              const struct wisp_bonds *bonds, const bool *keep, wisp_error *err)
{
    struct wisp_layer *layers = wisp_alloc((size_t)net->n_layers, sizeof *layers);
    *out = NULL;
    if (!layers) return wisp_fail_mem(err, (size_t)net->n_layers * sizeof *layers, "a smaller net");
    memcpy(layers, net->layers, (size_t)net->n_layers * sizeof *layers);
    for (int i = 0; i < net->n_layers - 1; i++)
        for (int a = 0; layers[i].kind->args && layers[i].kind->args[a].name; a++)
            if (layers[i].kind->args[a].counts)
                layers[i].arg[a] =
                    (double)count(keep, bonds_of(bonds, i + 1), wisp_channels(&net->acts[i + 1]));
    struct wisp_graph g = wisp_net_graph(net);
    g.layers = layers;
    wisp_status st = wisp_graph_text(out, &g, err);
    wisp_free(layers);
    return st;
}

/* ---- gathering ---- */

struct gather { /* of a parameter: which indices of each dimension stay */
    int rank;
    size_t from[WISP_MAX_RANK], to[WISP_MAX_RANK]; /* sizes */
    const size_t *index[WISP_MAX_RANK];            /* (to); NULL: all */
};

/* The place in the larger array of number i of the smaller one. */
static size_t place(const struct gather *g, size_t i)
{
    size_t at = 0, step = 1;
    for (int d = g->rank - 1; d >= 0; d--) {
        const size_t k = i % g->to[d];
        i /= g->to[d];
        at += (g->index[d] ? g->index[d][k] : k) * step;
        step *= g->from[d];
    }
    return at;
}

static void gather(void *to, const void *from, size_t bytes, const struct gather *g)
{
    size_t n = 1;
    if (!to || !from) return;
    for (int d = 0; d < g->rank; d++) n *= g->to[d];
    for (size_t i = 0; i < n; i++)
        memcpy((char *)to + i * bytes, (const char *)from + place(g, i) * bytes, bytes);
}

static void gather_param(struct wisp_param *to, const struct wisp_param *from,
                         const struct gather *g)
{
    struct gather rows = *g;
    rows.rank = 1; /* what there is one of for each row */
    gather(to->w, from->w, sizeof *to->w, g);
    gather(to->b16, from->b16, sizeof *to->b16, g);
    gather(to->ids, from->ids, sizeof *to->ids, g);
    gather(to->m, from->m, sizeof *to->m, g);
    gather(to->v, from->v, sizeof *to->v, g);
    gather(to->m16, from->m16, sizeof *to->m16, g);
    gather(to->v16, from->v16, sizeof *to->v16, g);
    if (from->ragged) rows.to[0] = rows.from[0] = from->rows;
    gather(to->g2, from->g2, sizeof *to->g2, &rows);
    gather(to->count, from->count, sizeof *to->count, &rows);
    if (from->role == WISP_STARTS) gather(to->start, from->start, sizeof *to->start, g);
}

wisp_status wisp_compact_fill(struct wisp_net *to, const struct wisp_net *from,
                              const struct wisp_bonds *bonds, const bool *keep, wisp_error *err)
{
    size_t most = 0;
    for (size_t p = 0; p < from->list.n; p++)
        for (int d = 0; d < from->list.p[p].rank; d++)
            if (from->list.p[p].dim[d] > most) most = from->list.p[p].dim[d];
    size_t *index = wisp_alloc(most * WISP_MAX_RANK, sizeof *index);
    if (!index) return wisp_fail_mem(err, most * WISP_MAX_RANK * sizeof *index, "a smaller net");
    for (size_t p = 0; p < from->list.n; p++) {
        const struct wisp_param *q = &from->list.p[p];
        struct gather g = { .rank = q->rank };
        for (int d = 0; d < q->rank; d++) {
            g.from[d] = g.to[d] = q->dim[d];
            const int32_t *of = bonds->axis[p][d];
            if (!of) continue;
            size_t *list = index + (size_t)d * most;
            g.to[d] = 0;
            for (size_t i = 0; i < q->dim[d]; i++)
                if (keep[of[i]]) list[g.to[d]++] = i;
            g.index[d] = list;
        }
        gather_param(&to->list.p[p], q, &g);
    }
    wisp_free(index);
    return WISP_OK;
}
