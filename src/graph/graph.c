/* Shapes, and the list of parameters. */
#include "graph/graph.h"
#include "base/mem.h"

#include <string.h>

struct wisp_param *wisp_params_add(struct wisp_params *list, int rank, const size_t *dim)
{
    if (!list->full && !wisp_grow(&list->p, list->n, &list->cap, sizeof *list->p))
        list->full = true;
    struct wisp_param *p = list->full ? &list->none : &list->p[list->n++];
    *p = (struct wisp_param){ .rows = dim[0], .cols = 1, .rank = rank, .total_rows = dim[0] };
    memcpy(p->dim, dim, (size_t)rank * sizeof *dim);
    for (int i = 1; i < rank; i++) p->cols *= dim[i];
    return p;
}

void wisp_params_clear(struct wisp_params *list)
{
    wisp_free(list->p);
    *list = (struct wisp_params){ 0 };
}

bool wisp_same_shape(struct wisp_shape a, struct wisp_shape b)
{
    bool same = a.rank == b.rank;
    for (int i = 0; same && i < a.rank; i++) same = a.dim[i] == b.dim[i];
    return same;
}
