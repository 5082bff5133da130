/* Branches: from an input of a sum back to where others read along. */
#include "graph/branches.h"
#include "base/mem.h"

#include <string.h>

/* Marks the layers that lead to input k of layer 'sum' and nowhere else; 'outside' has room for all
 * values.  Is it a branch with weights? */
static bool mark(bool *has, bool *outside, const struct wisp_graph *g, int sum, int k)
{
    const int value = g->layers[sum].from[k];
    bool trained = false;
    memset(has, 0, (size_t)g->n_layers * sizeof *has);
    memset(outside, 0, (size_t)(g->n_layers + 1) * sizeof *outside);
    for (int i = value; i < g->n_layers; i++)
        for (int j = 0; j < g->layers[i].n_from; j++)
            if (i != sum || j != k) outside[g->layers[i].from[j]] = true;
    for (int i = value - 1; i >= 0; i--) {
        const struct wisp_layer *l = &g->layers[i];
        has[i] = !outside[i + 1];
        for (int j = 0; j < l->n_from; j++) {
            if (!has[i]) outside[l->from[j]] = true;
            else if (l->from[j] == 0) return false;
        }
        for (int p = 0; p < l->n_params && has[i]; p++)
            trained |= l->params[p].role == WISP_TRAINED;
    }
    return trained;
}

wisp_status wisp_branches_of(struct wisp_branches *out, const struct wisp_graph *g, wisp_error *err)
{
    const size_t layers = (size_t)g->n_layers;
    size_t most = 0;
    *out = (struct wisp_branches){ .n_layers = g->n_layers };
    for (int i = 0; i < g->n_layers; i++)
        if (g->layers[i].kind->uses & WISP_ADDS) most += (size_t)g->layers[i].n_from;
    out->has = wisp_alloc(most * layers, sizeof *out->has);
    bool *outside = wisp_alloc(layers + 1, sizeof *outside);
    const bool ok = out->has && outside;
    for (int i = 0; i < g->n_layers && ok; i++)
        for (int k = 0; g->layers[i].kind->uses & WISP_ADDS && k < g->layers[i].n_from; k++)
            if (mark(out->has + out->n * layers, outside, g, i, k)) out->n++;
    wisp_free(outside);
    if (ok) return WISP_OK;
    wisp_branches_clear(out);
    return wisp_fail_mem(err, (most + 1) * layers, "the branches of a net");
}

void wisp_branches_clear(struct wisp_branches *b)
{
    wisp_free(b->has);
    *b = (struct wisp_branches){ 0 };
}
