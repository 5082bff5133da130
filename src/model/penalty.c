/* The proximal step of a group penalty: squares of every group, then one factor for each.
 *
 * Numbers of a parameter are [before, n, inner], and n counts groups.  A task has
 *
 *   where before = 1   a run of the n indices, and all numbers under them
 *   else               a piece of 'before', at most PIECES of them: whole lines of n * inner numbers, so
 *                      that memory is read from front to back (a layer of 93,352 features and 1,024 units
 *                      has a line per page)
 *
 * A task sums up its part alone, and parts are added in their order: the same bytes for any threads.
 * Bytes: all weights that groups have are read twice and written once. */
#include "model/penalty.h"
#include "base/bounds.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUN = 16, PIECES = 64, LEAST = 64 }; /* LEAST: lines of a piece */

static size_t piece_of(size_t before)
{
    return wisp_most(LEAST, wisp_parts(before, PIECES));
}

static bool counts(const struct wisp_param *q, int d, enum wisp_axis axis)
{
    return q->role == WISP_TRAINED && q->axis[d] == axis;
}

/* Every bond, with the first value that has it. */
static void list_bonds(struct wisp_penalty *p, const struct wisp_graph *g)
{
    for (size_t c = 0; c < p->bonds.n; c++) p->weak[c] = (struct wisp_weak){ (int32_t)c, 0, 0 };
    for (int v = g->n_layers - 1; v > 0; v--)
        for (size_t i = 0; i < wisp_channels(&g->acts[v]); i++)
            p->weak[p->bonds.of[p->bonds.first[v] + i]].value = v;
}

wisp_status wisp_penalty_make(struct wisp_penalty *p, const struct wisp_net *net, unsigned kinds,
                              wisp_error *err)
{
    const struct wisp_graph g = wisp_net_graph(net);
    size_t longest = 0, parts = 0;
    *p = (struct wisp_penalty){ 0 };
    wisp_status st = wisp_bonds_of(&p->bonds, &g, &net->list, err);
    if (st == WISP_OK && (st = wisp_groups_make(&p->groups, net, kinds, err)) != WISP_OK)
        wisp_bonds_clear(&p->bonds);
    if (st != WISP_OK) return st;
    for (size_t i = 0; i < net->list.n; i++) {
        const struct wisp_param *q = &net->list.p[i];
        size_t before = 1;
        for (int d = 0; d < q->rank; before *= q->dim[d++]) {
            if (!counts(q, d, WISP_AXIS_OUT) && !counts(q, d, WISP_AXIS_IN)) continue;
            const size_t n = wisp_param_side(q, d);
            longest = wisp_most(longest, n);
            parts = wisp_most(parts, n * wisp_parts(before, piece_of(before)));
        }
    }
    const size_t n = p->bonds.n;
    p->square = wisp_alloc(n, sizeof *p->square);
    p->scale = wisp_alloc(n, sizeof *p->scale);
    p->size = wisp_alloc(n, sizeof *p->size);
    p->weight = wisp_alloc(n, sizeof *p->weight);
    p->part = wisp_alloc(parts, sizeof *p->part);
    p->by = wisp_alloc(longest, sizeof *p->by);
    p->weak = wisp_alloc(n, sizeof *p->weak);
    if (p->square && p->scale && p->size && p->weight && p->part && p->by && p->weak) {
        list_bonds(p, &g);
        return WISP_OK;
    }
    wisp_penalty_clear(p);
    return wisp_fail_mem(err, n * 44 + longest * 4 + parts * 8, "the groups of a penalty");
}

void wisp_penalty_clear(struct wisp_penalty *p)
{
    wisp_bonds_clear(&p->bonds);
    wisp_groups_clear(&p->groups);
    wisp_free(p->ends);
    wisp_free(p->square);
    wisp_free(p->scale);
    wisp_free(p->size);
    wisp_free(p->weight);
    wisp_free(p->part);
    wisp_free(p->by);
    wisp_free(p->weak);
    *p = (struct wisp_penalty){ 0 };
}

struct side { /* of a parameter: numbers [before, n, inner], n counts groups */
    struct wisp_penalty *p;
    struct wisp_param *q;
    const int32_t *of;
    size_t before, n, inner; /* of rows of different lengths 'inner' is that of no one */
};

/* Where the numbers of group i begin, in line b, and how many they are. */
static size_t run_of(const struct side *s, size_t b, size_t i, size_t *n)
{
    *n = s->inner;
    return s->q->start ? wisp_param_row(s->q, i, n) : (b * s->n + i) * s->inner;
}

struct task { /* lines [line, line_end), of each the indices [first, end) */
    size_t piece, line, line_end, first, end;
};

static size_t n_tasks(const struct side *s)
{
    return s->before == 1 ? wisp_parts(s->n, RUN) : wisp_parts(s->before, piece_of(s->before));
}

static struct task task_at(const struct side *s, size_t i)
{
    if (s->before == 1)
        return (struct task){ 0, 0, 1, i * RUN, (i + 1) * RUN < s->n ? (i + 1) * RUN : s->n };
    const size_t piece = piece_of(s->before), end = (i + 1) * piece;
    return (struct task){ i, i * piece, end < s->before ? end : s->before, 0, s->n };
}

/* sum[i] += squares of index i, of lines of single numbers: in floats for LINES of them.  Blocks of a
 * fixed length, which compilers make vectors of. */
static void square_lines(double *sum, const float *w, size_t lines, size_t n)
{
    enum { LINES = 32, BLOCKS = 16 };
    float some[BLOCKS][RUN];
    const size_t whole = n / RUN;
    for (size_t line = 0; line < lines; line += LINES)
        for (size_t block = 0; block < whole; block += BLOCKS) {
            const size_t end = line + LINES < lines ? line + LINES : lines,
                         blocks = whole - block < BLOCKS ? whole - block : BLOCKS;
            memset(some, 0, sizeof some);
            for (size_t b = line; b < end; b++)
                for (size_t k = 0; k < blocks; k++) {
                    const float *x = w + b * n + (block + k) * RUN;
                    for (size_t i = 0; i < RUN; i++) some[k][i] += x[i] * x[i];
                }
            for (size_t i = 0; i < blocks * RUN; i++)
                sum[block * RUN + i] += (double)some[i / RUN][i % RUN];
        }
    for (size_t b = 0; b < lines; b++)
        for (size_t i = whole * RUN; i < n; i++)
            sum[i] += (double)w[b * n + i] * (double)w[b * n + i];
}

static void add_squares(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct side *s = arg;
    const struct task t = task_at(s, i);
    double *sum = s->p->part + t.piece * s->n;
    for (size_t c = t.first; c < t.end; c++) sum[c] = 0;
    if (s->before > 1 && s->inner == 1) {
        square_lines(sum, s->q->w + t.line * s->n, t.line_end - t.line, s->n);
        return;
    }
    for (size_t b = t.line; b < t.line_end; b++)
        for (size_t c = t.first; c < t.end; c++) {
            size_t n;
            const float *w = s->q->w + run_of(s, b, c, &n);
            for (size_t k = 0; k < n; k++) sum[c] += (double)w[k] * (double)w[k];
        }
}

/* Zeros are +0, as a product with a negative weight would leave -0. */
static void scale_run(float *restrict w, const float *restrict by, size_t n)
{
    size_t i = 0;
    for (; i + RUN <= n; i += RUN)
        for (size_t k = 0; k < RUN; k++) w[i + k] = w[i + k] * by[i + k] + 0.0f;
    for (; i < n; i++) w[i] = w[i] * by[i] + 0.0f;
}

static void clear_moment(const struct wisp_param *q, size_t at, size_t n)
{
    if (q->m) memset(q->m + at, 0, n * sizeof *q->m);
    if (q->m16) memset(q->m16 + at, 0, n * sizeof *q->m16);
}

static void scale(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct side *s = arg;
    const struct task t = task_at(s, i);
    const bool lines = s->before > 1 && s->inner == 1, moves = s->q->m || s->q->m16;
    for (size_t b = t.line; b < t.line_end; b++) {
        if (lines) scale_run(s->q->w + b * s->n, s->p->by, s->n);
        if (lines && !moves) continue;
        for (size_t c = t.first; c < t.end; c++) {
            const float by = s->p->by[c];
            size_t n, at = run_of(s, b, c, &n);
            for (size_t k = 0; !lines && by != 1 && k < n; k++)
                s->q->w[at + k] = s->q->w[at + k] * by + 0.0f;
            if (by == 0) clear_moment(s->q, at, n);
        }
    }
}

typedef void side_fn(const struct side *s, struct wisp_pool *pool);

static void square_side(const struct side *s, struct wisp_pool *pool)
{
    wisp_parallel_for(pool, n_tasks(s), add_squares, (void *)s);
    const size_t pieces = wisp_parts(s->before, piece_of(s->before));
    for (size_t i = 0; i < s->n; i++) {
        double *to = &s->p->square[s->of[i]];
        for (size_t piece = 0; piece < pieces; piece++) *to += s->p->part[piece * s->n + i];
        size_t n;
        run_of(s, 0, i, &n);
        s->p->size[s->of[i]] += s->before * n;
        double *weight = &s->p->weight[s->of[i]];
        *weight = fmin(*weight, s->p->groups.weight[s->q->layer]);
    }
}

static void scale_side(const struct side *s, struct wisp_pool *pool)
{
    bool any = false;
    for (size_t i = 0; i < s->n; i++) {
        s->p->by[i] = s->p->scale[s->of[i]];
        any |= s->p->by[i] != 1;
    }
    if (any) wisp_parallel_for(pool, n_tasks(s), scale, (void *)s);
}

static void each_side(struct wisp_penalty *p, struct wisp_net *net, struct wisp_pool *pool,
                      enum wisp_axis axis, side_fn *fn)
{
    for (size_t i = 0; i < net->list.n; i++) {
        struct wisp_param *q = &net->list.p[i];
        size_t before = 1, inner = q->n;
        for (int d = 0; d < q->rank; before *= q->dim[d++]) {
            inner /= q->dim[d];
            if (counts(q, d, axis))
                fn(&(struct side){ p, q, p->bonds.axis[i][d], before, wisp_param_side(q, d),
                                   inner },
                   pool);
        }
    }
}

/* Squares, sizes and weights of all bonds, by what makes their channels or what reads them. */
static void add_up(struct wisp_penalty *p, struct wisp_net *net, enum wisp_axis axis,
                   struct wisp_pool *pool)
{
    const size_t n = p->bonds.n;
    memset(p->square, 0, n * sizeof *p->square);
    memset(p->size, 0, n * sizeof *p->size);
    for (size_t c = 0; c < n; c++) p->weight[c] = INFINITY;
    each_side(p, net, pool, axis, square_side);
}

/* The weights that make a bond's channels, or those that read them. */
static void shorten(struct wisp_penalty *p, struct wisp_net *net, double by, enum wisp_axis axis,
                    struct wisp_pool *pool)
{
    const size_t n = p->bonds.n;
    add_up(p, net, axis, pool);
    for (size_t c = 0; c < n; c++) { /* a length that is no number stays one: the run will see it */
        const double times = isinf(p->weight[c]) ? 1 : p->weight[c],
                     shorter = times * by * sqrt((double)p->size[c]), length = sqrt(p->square[c]);
        p->scale[c] = p->bonds.fixed[c] || length == 0 || times == 0 ? 1
                      : length <= shorter                            ? 0
                                          : (float)(1 - shorter / length);
    }
    each_side(p, net, pool, axis, scale_side);
}

void wisp_penalty_move(struct wisp_penalty *p, struct wisp_net *net, double by,
                       struct wisp_pool *pool)
{
    wisp_groups_move(&p->groups, net, by, pool);
    if (p->groups.kinds & WISP_GROUPS_SHAPES) shorten(p, net, by, WISP_AXIS_IN, pool);
    if (p->groups.kinds & WISP_GROUPS_CHANNELS) shorten(p, net, by, WISP_AXIS_OUT, pool);
}

static int weaker(const void *a, const void *b)
{
    const struct wisp_weak *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    if (x->strength != y->strength) return x->strength < y->strength ? -1 : 1;
    return x->bond < y->bond ? -1 : 1;
}

size_t wisp_penalty_cut(struct wisp_penalty *p, struct wisp_net *net, double share,
                        struct wisp_pool *pool)
{
    const size_t n = p->bonds.n;
    size_t changed = 0;
    struct wisp_weak *w = p->weak;
    add_up(p, net, WISP_AXIS_IN, pool);
    for (size_t i = 0; i < n; i++)
        w[i].strength = p->size[w[i].bond] > 0 ? p->square[w[i].bond] : 1;
    add_up(p, net, WISP_AXIS_OUT, pool);
    for (size_t i = 0; i < n; i++) {
        const int32_t c = w[i].bond;
        w[i].strength *= p->square[c];
        if (!isfinite(w[i].strength) || p->bonds.fixed[c]) w[i].strength = INFINITY;
        p->scale[c] = 1;
    }
    qsort(w, n, sizeof *w, weaker);
    for (size_t first = 0, end; first < n; first = end) {
        size_t free = 0;
        for (end = first; end < n && w[end].value == w[first].value; end++)
            free += !p->bonds.fixed[w[end].bond];
        const size_t cut = (size_t)(share * (double)free + 1e-6);
        for (size_t i = 0; i < cut && i + 1 < free && isfinite(w[first + i].strength); i++) {
            p->scale[w[first + i].bond] = 0;
            changed += p->square[w[first + i].bond] > 0;
        }
    }
    each_side(p, net, pool, WISP_AXIS_OUT, scale_side);
    return changed;
}
