/* Which layers can be done as a part of the one before them. */
#include "graph/graph.h"

/* Of the parts of a layer only the last is read by others, so that what is in it already is seen by
 * the maker of what the next one reads. */
static bool joins(const int *into, const struct wisp_graph *g, const unsigned *is,
                  const unsigned *takes, int i)
{
    const struct wisp_layer *l = &g->layers[i];
    const int maker = l->from[0] - 1, n_from = is[i] == WISP_FUSE_ADD ? 2 : 1;
    if (!is[i] || l->n_from != n_from || maker < 0 || g->acts[l->from[0]].n_readers != 1)
        return false;
    if (n_from == 2 && (l->from[1] == 0 || l->from[1] > into[maker])) return false;
    return takes[into[maker]] & is[i] && is[maker] < is[i];
}

void wisp_graph_fuse(int *into, const struct wisp_graph *g, const unsigned *is,
                     const unsigned *takes)
{
    for (int i = 0; i < g->n_layers; i++)
        into[i] = joins(into, g, is, takes, i) ? into[g->layers[i].from[0] - 1] : i;
}
