/* Shapes, and the list of parameters. */
#include "graph/graph.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

struct wisp_param *wisp_params_add(struct wisp_params *list, int rank, const size_t *dim)
{
    if (!list->full && !wisp_grow(&list->p, list->n, &list->cap, sizeof *list->p))
        list->full = true;
    struct wisp_param *p = list->full ? &list->none : &list->p[list->n++];
    *p = (struct wisp_param){ .rows = dim[0], .cols = 1, .rank = rank, .total_rows = dim[0] };
    memcpy(p->dim, dim, (size_t)rank * sizeof *dim);
    for (int i = 1; i < rank; i++) p->cols *= dim[i];
    p->n = p->rows * p->cols;
    return p;
}

void wisp_params_join(struct wisp_params *list)
{
    for (size_t i = 0; i < list->n; i++) {
        struct wisp_param *p = &list->p[i];
        for (size_t k = 0; p->ragged && k < list->n; k++) {
            const struct wisp_param *q = &list->p[k];
            if (q->layer == p->layer && q->role == WISP_STARTS) p->start = q->start;
        }
    }
}

bool wisp_starts_ok(const int64_t *start, size_t rows, size_t n)
{
    bool ok = start[0] == 0 && start[rows] >= 0 && (size_t)start[rows] == n;
    for (size_t i = 0; i < rows; i++) ok &= start[i] <= start[i + 1];
    return ok;
}

size_t wisp_param_bad_id(const struct wisp_param *p, size_t *row)
{
    for (*row = 0; *row < p->rows; ++*row) {
        size_t n, first = wisp_param_row(p, *row, &n);
        int32_t before = -1;
        for (size_t e = first; e < first + n; before = p->ids[e++])
            if (p->ids[e] <= before || (size_t)p->ids[e] >= p->below) return e;
    }
    return p->n;
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

const char *wisp_shape_text(char out[WISP_SHAPE_TEXT], struct wisp_shape s)
{
    if (s.rank == 3)
        snprintf(out, WISP_SHAPE_TEXT, "%zu x %zu x %zu (channels x height x width)", s.dim[0],
                 s.dim[1], s.dim[2]);
    else snprintf(out, WISP_SHAPE_TEXT, "%zu units", wisp_units(s));
    return out;
}
