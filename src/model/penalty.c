/* The proximal step of a group penalty: squares of every group, then one factor for each.
 *
 * A task has some indices of the dimension that groups are counted by, and all numbers under them:
 * every sum is made by one thread in one order.  Bytes: all weights that groups have are read twice
 * and written once. */
#include "model/penalty.h"
#include "base/bounds.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { RUN = 16 }; /* indices of a task: a line of the last dimension */

wisp_status wisp_penalty_make(struct wisp_penalty *p, const struct wisp_net *net, wisp_error *err)
{
    const struct wisp_graph g = wisp_net_graph(net);
    size_t longest = 0;
    *p = (struct wisp_penalty){ 0 };
    wisp_status st = wisp_bonds_of(&p->bonds, &g, &net->list, err);
    if (st != WISP_OK) return st;
    for (size_t i = 0; i < net->list.n; i++)
        for (int d = 0; d < net->list.p[i].rank; d++)
            longest = wisp_most(longest, net->list.p[i].dim[d]);
    const size_t n = p->bonds.n;
    p->square = wisp_alloc(n, sizeof *p->square);
    p->scale = wisp_alloc(n, sizeof *p->scale);
    p->size = wisp_alloc(n, sizeof *p->size);
    p->part = wisp_alloc(longest, sizeof *p->part);
    if (p->square && p->scale && p->size && p->part) return WISP_OK;
    wisp_penalty_clear(p);
    return wisp_fail_mem(err, n * 20 + longest * 8, "the groups of a penalty");
}

void wisp_penalty_clear(struct wisp_penalty *p)
{
    wisp_bonds_clear(&p->bonds);
    wisp_free(p->square);
    wisp_free(p->scale);
    wisp_free(p->size);
    wisp_free(p->part);
    *p = (struct wisp_penalty){ 0 };
}

struct side { /* of a parameter: numbers [before, n, inner], n counts groups */
    struct wisp_penalty *p;
    struct wisp_param *q;
    const int32_t *of;
    size_t before, n, inner; /* of rows of different lengths 'inner' is that of no one */
};

/* Where the numbers of group i begin, in part b of 'before', and how many they are. */
static size_t run_of(const struct side *s, size_t b, size_t i, size_t *n)
{
    *n = s->inner;
    return s->q->start ? wisp_param_row(s->q, i, n) : (b * s->n + i) * s->inner;
}

static void add_squares(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct side *s = arg;
    const size_t first = task * RUN, end = first + RUN < s->n ? first + RUN : s->n;
    double sum[RUN] = { 0 };
    for (size_t b = 0; b < s->before; b++)
        for (size_t i = 0; i < end - first; i++) {
            size_t n;
            const float *w = s->q->w + run_of(s, b, first + i, &n);
            for (size_t k = 0; k < n; k++) sum[i] += (double)w[k] * (double)w[k];
        }
    memcpy(s->p->part + first, sum, (end - first) * sizeof *sum);
}

static void scale_run(float *x, size_t n, float by)
{
    for (size_t k = 0; x && k < n; k++) x[k] *= by;
}

/* Zeros are +0, as a product with a negative weight would leave -0. */
static void scale(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct side *s = arg;
    const size_t first = task * RUN, end = first + RUN < s->n ? first + RUN : s->n;
    for (size_t b = 0; b < s->before; b++)
        for (size_t i = first; i < end; i++) {
            const float by = s->p->scale[s->of[i]];
            size_t n, at = run_of(s, b, i, &n);
            if (by == 1) continue;
            if (by != 0) { /* a length that is no number stays one: the run will see it */
                scale_run(s->q->w + at, n, by);
                continue;
            }
            memset(s->q->w + at, 0, n * sizeof *s->q->w);
            if (s->q->m) memset(s->q->m + at, 0, n * sizeof *s->q->m);
            if (s->q->m16) memset(s->q->m16 + at, 0, n * sizeof *s->q->m16);
        }
}

typedef void side_fn(const struct side *s, struct wisp_pool *pool);

static void square_side(const struct side *s, struct wisp_pool *pool)
{
    wisp_parallel_for(pool, wisp_parts(s->n, RUN), add_squares, (void *)s);
    for (size_t i = 0; i < s->n; i++) {
        s->p->square[s->of[i]] += s->p->part[i];
        size_t n;
        run_of(s, 0, i, &n);
        s->p->size[s->of[i]] += s->before * n;
    }
}

static void scale_side(const struct side *s, struct wisp_pool *pool)
{
    wisp_parallel_for(pool, wisp_parts(s->n, RUN), scale, (void *)s);
}

static void each_side(struct wisp_penalty *p, struct wisp_net *net, struct wisp_pool *pool,
                      side_fn *fn)
{
    for (size_t i = 0; i < net->list.n; i++) {
        struct wisp_param *q = &net->list.p[i];
        size_t before = 1, inner = q->n;
        for (int d = 0; d < q->rank; before *= q->dim[d++]) {
            inner /= q->dim[d];
            if (q->role == WISP_TRAINED && q->axis[d] == WISP_AXIS_OUT)
                fn(&(struct side){ p, q, p->bonds.axis[i][d], before, wisp_param_side(q, d),
                                   inner },
                   pool);
        }
    }
}

void wisp_penalty_move(struct wisp_penalty *p, struct wisp_net *net, double by,
                       struct wisp_pool *pool)
{
    const size_t n = p->bonds.n;
    memset(p->square, 0, n * sizeof *p->square);
    memset(p->size, 0, n * sizeof *p->size);
    each_side(p, net, pool, square_side);
    for (size_t c = 0; c < n; c++) {
        const double shorter = by * sqrt((double)p->size[c]), length = sqrt(p->square[c]);
        p->scale[c] = p->bonds.fixed[c] || length == 0 ? 1
                      : length <= shorter              ? 0
                                                       : (float)(1 - shorter / length);
    }
    each_side(p, net, pool, scale_side);
}
