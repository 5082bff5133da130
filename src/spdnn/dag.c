/* A batch on its way through a net of any shape, forward and back (dag.h). */
#include "spdnn/dag.h"
#include "base/bounds.h"
#include "base/pool.h"
#include "graph/levels.h"
#include "kernels/kernels.h"

#include <string.h>

/* Nodes of a wide level that a thread takes at once. */
enum { NODES = 16, TILE = WISP_DAG_TILE };

size_t wisp_dag_thin = 512;

bool wisp_dag_ordered(const struct wisp_dag *d, size_t *bad)
{
    for (*bad = 0; *bad < d->n_nodes; ++*bad)
        for (int64_t e = d->start[*bad]; e < d->start[*bad + 1]; e++) {
            const int32_t from = d->from[e];
            if (from < 0 || (size_t)from >= d->n_nodes + d->n_in ||
                ((size_t)from >= *bad && (size_t)from < d->n_nodes))
                return false;
        }
    return true;
}

static size_t level_end(const struct wisp_dag *d, size_t first)
{
    return wisp_level_end(d->start, d->from, d->n_nodes, first);
}

struct wisp_dag_sizes wisp_dag_measure(const struct wisp_dag *d, uint32_t *level)
{
    struct wisp_dag_sizes s = { .thinnest = d->n_nodes };
    for (size_t at = 0, end; at < d->n_nodes; at = end) {
        end = level_end(d, at);
        if (level) level[s.n_levels] = (uint32_t)at;
        s.n_levels++;
        s.widest = wisp_most(s.widest, end - at);
        if (end - at < s.thinnest) s.thinnest = end - at;
    }
    if (level) level[s.n_levels] = (uint32_t)d->n_nodes;
    return s;
}

/* ---- what is found out once ---- */

static void find_parts(struct wisp_dag_plan *p, const struct wisp_dag *d)
{
    uint32_t n = 0;
    bool run = false; /* the last part is of thin levels */
    for (size_t at = 0, end; at < d->n_nodes; at = end) {
        end = level_end(d, at);
        const bool thin = (size_t)(d->start[end] - d->start[at]) + (end - at) < wisp_dag_thin;
        if (!thin || !run) p->part[n++] = (uint32_t)(2 * at + !thin);
        run = thin;
    }
    p->part[n] = (uint32_t)(2 * d->n_nodes);
    p->made[1] = n;
    p->made[0] = 1;
}

static void file_edges(struct wisp_dag_plan *p, const struct wisp_dag *d)
{
    const size_t all = d->n_nodes + d->n_in;
    memset(p->begin, 0, (all + 1) * sizeof *p->begin);
    memset(p->place, 0, all * sizeof *p->place);
    for (size_t e = 0; e < d->n_edges; e++) p->begin[d->from[e] + 1]++;
    for (size_t i = 0; i < all; i++) p->begin[i + 1] += p->begin[i];
    for (size_t r = 0; r < d->n_nodes; r++)
        for (int64_t e = d->start[r]; e < d->start[r + 1]; e++) {
            const uint32_t at = p->begin[d->from[e]]++;
            p->at[e] = at;
            p->target[at] = (int32_t)r;
        }
    memmove(p->begin + 1, p->begin, all * sizeof *p->begin); /* starts again */
    p->begin[0] = 0;
    for (size_t o = 0; o < d->n_out; o++) p->place[d->out[o]] = (int32_t)o + 1;
    p->made[2] = 1;
}

void wisp_dag_plan(struct wisp_dag_plan *p, const struct wisp_dag *d)
{
    if (!p->made[0]) find_parts(p, d);
    if (p->begin && !p->made[2]) file_edges(p, d);
}

/* ---- parts ---- */

struct tile {
    size_t first, n, width; /* samples; floats from row to row */
    float *x, *d, *gx;      /* its rows */
};

static struct tile tile_at(const struct wisp_dag_run *r, size_t i)
{
    const size_t nodes = r->dag->n_nodes, first = i * TILE, left = r->n - first;
    return (struct tile){ .first = first,
                          .n = left < TILE ? left : TILE,
                          .width = wisp_dag_width(r->lanes, first),
                          .x = r->x + first * (nodes + r->dag->n_in),
                          .d = r->d ? r->d + first * nodes : NULL,
                          .gx = r->gx ? r->gx + first * r->dag->n_in : NULL };
}

typedef void node_fn(const struct wisp_dag_run *r, size_t node, const struct tile *t);

struct part {
    const struct wisp_dag_run *r;
    size_t first, end; /* nodes; of the way back to the inputs, these count from n_nodes on */
    bool wide;
    node_fn *fn;
    bool down;   /* through thin levels */
    size_t tile; /* of a wide part */
};

/* Nodes of a wide level, or a tile of thin ones. */
static void do_task(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct part *p = arg;
    size_t first = p->first, end = p->end;
    const struct tile t = tile_at(p->r, p->wide ? p->tile : task);
    if (p->wide) {
        first += task * NODES;
        if (end - first > NODES) end = first + NODES;
    }
    for (size_t i = 0; i < end - first; i++) p->fn(p->r, p->down ? end - 1 - i : first + i, &t);
}

static void do_part(const struct part *p)
{
    const size_t n = p->wide ? wisp_parts(p->end - p->first, NODES) : wisp_parts(p->r->n, TILE);
    wisp_parallel_for(p->r->ctx->pool, n, do_task, (void *)p);
}

static bool is_wide(const struct wisp_dag_run *r, size_t i)
{
    return r->plan->part[i] & 1;
}

static struct part part_at(const struct wisp_dag_run *r, size_t i, node_fn *fn)
{
    const uint32_t *at = r->plan->part + i;
    return (struct part){
        .r = r, .first = at[0] / 2, .end = at[1] / 2, .wide = is_wide(r, i), .fn = fn
    };
}

/* Wide parts first .. end-1, or, on the way down, the other way round: one tile after the other. */
static void do_wide(const struct wisp_dag_run *r, size_t first, size_t end, node_fn *fn, bool down)
{
    for (size_t tile = 0; tile < wisp_parts(r->n, TILE); tile++)
        for (size_t i = 0; i < end - first; i++) {
            struct part p = part_at(r, down ? end - 1 - i : first + i, fn);
            p.tile = tile;
            do_part(&p);
        }
}

/* Rows that are read soon: the processor does not guess them.  Those behind the end of a list are
 * the next node's, where nodes come in order. */
enum { AHEAD = 8 };
static void soon(const float *rows, size_t width, const int32_t *ids, size_t left)
{
    for (size_t i = 0; i < left && i < AHEAD; i++) {
        const float *row = rows + (size_t)ids[i] * width;
        for (size_t at = 0; at < width; at += 16) __builtin_prefetch(row + at);
    }
}

/* ---- forward ---- */

static void forward_node(const struct wisp_dag_run *r, size_t node, const struct tile *t)
{
    const struct wisp_dag *d = r->dag;
    const struct wisp_kernels *k = r->ctx->k;
    const struct wisp_node_function *fn = wisp_node_function_at((size_t)d->function[node]);
    const size_t at = (size_t)d->start[node], end = (size_t)d->start[node + 1];
    float *y = t->x + node * t->width;
    const float bias = d->bias[node];
    soon(t->x, t->width, d->from + end, d->n_edges - end);
    for (size_t i = 0; i < t->n; i++) y[i] = bias;
    k->bag(y, t->x, t->width, d->from + at, d->w + at, end - at, t->n);
    fn->run(k, y, t->d && !fn->back ? t->d + node * t->width : NULL, t->n);
}

void wisp_dag_forward(const struct wisp_dag_run *r)
{
    const size_t n = r->plan->made[1];
    for (size_t i = 0, end; i < n; i = end) {
        end = i + 1;
        if (is_wide(r, i)) {
            while (end < n && is_wide(r, end)) end++;
            do_wide(r, i, end, forward_node, false);
        } else {
            const struct part p = part_at(r, i, forward_node);
            do_part(&p);
        }
    }
}

/* ---- backward ---- */

/* Weights by the node where they begin, as they are now. */
static void file_weights(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct wisp_dag_run *r = arg;
    const size_t first = task << 14, left = r->dag->n_edges - first,
                 n = left < 1 << 14 ? left : 1 << 14;
    for (size_t e = first; e < first + n; e++) r->weight[r->plan->at[e]] = r->dag->w[e];
}

/* The gradient of a node's value: of the result, where it is one, and of the nodes that read it.
 * x: the value, for what this tile adds to the gradients of the weights between them; NULL: not
 * yet. */
static void gather_gradient(float *g, const struct wisp_dag_run *r, size_t node,
                            const struct tile *t, const float *x)
{
    const struct wisp_dag_plan *p = r->plan;
    const size_t n_out = r->dag->n_out, place = (size_t)p->place[node];
    const uint32_t at = p->begin[node], end = p->begin[node + 1];
    soon(t->x, t->width, p->target + end, r->dag->n_edges - end);
    for (size_t i = 0; i < t->n; i++) g[i] = place ? r->gy[(t->first + i) * n_out + place - 1] : 0;
    if (x)
        r->ctx->k->bag_dots(g, r->gw + at, t->x, t->width, p->target + at, r->weight + at, end - at,
                            x, t->n, t->first);
    else r->ctx->k->bag(g, t->x, t->width, p->target + at, r->weight + at, end - at, t->n);
}

/* Of the sum, of the value's, in the value's place. */
static void through(const struct wisp_dag_run *r, size_t node, const struct tile *t, const float *g)
{
    const struct wisp_node_function *fn = wisp_node_function_at((size_t)r->dag->function[node]);
    float *x = t->x + node * t->width;
    const float *d = t->d + node * t->width;
    if (fn->back) fn->back(r->ctx->k, x, g, x, t->n);
    else
        for (size_t i = 0; i < t->n; i++) x[i] = d[i] * g[i];
}

static void add_bias(const struct wisp_dag_run *r, size_t node, const struct tile *t)
{
    const float sum = r->ctx->k->sum(t->x + node * t->width, t->n);
    r->gb[node] = t->first ? r->gb[node] + sum : sum;
}

static void backward_wide(const struct wisp_dag_run *r, size_t node, const struct tile *t)
{
    float g[TILE];
    gather_gradient(g, r, node, t, t->x + node * t->width);
    through(r, node, t, g);
    add_bias(r, node, t);
}

/* Several tiles are on their way through thin levels, so weights have to wait, and values with them,
 * where the derivatives were: finish_thin(). */
static void backward_thin(const struct wisp_dag_run *r, size_t node, const struct tile *t)
{
    float g[TILE], x[TILE];
    gather_gradient(g, r, node, t, NULL);
    memcpy(x, t->x + node * t->width, t->n * sizeof *x);
    through(r, node, t, g);
    memcpy(t->d + node * t->width, x, t->n * sizeof *x);
}

static void finish_thin(const struct wisp_dag_run *r, size_t node, const struct tile *t)
{
    float g[TILE];
    gather_gradient(g, r, node, t, t->d + node * t->width);
    add_bias(r, node, t);
}

static void backward_input(const struct wisp_dag_run *r, size_t node, const struct tile *t)
{
    float g[TILE];
    gather_gradient(t->gx ? t->gx + (node - r->dag->n_nodes) * t->width : g, r, node, t,
                    t->x + node * t->width);
}

static void by_tiles(struct part *p)
{
    p->wide = true;
    for (p->tile = 0; p->tile < wisp_parts(p->r->n, TILE); p->tile++) do_part(p);
}

void wisp_dag_backward(const struct wisp_dag_run *r)
{
    const size_t nodes = r->dag->n_nodes;
    wisp_parallel_for(r->ctx->pool, wisp_parts(r->dag->n_edges, 1 << 14), file_weights, (void *)r);
    for (size_t end = r->plan->made[1], i; end > 0; end = i) {
        i = end - 1;
        if (is_wide(r, i)) {
            while (i > 0 && is_wide(r, i - 1)) i--;
            do_wide(r, i, end, backward_wide, true);
        } else {
            struct part p = part_at(r, i, backward_thin);
            p.down = true;
            do_part(&p);
            p.fn = finish_thin;
            by_tiles(&p);
        }
    }
    struct part inputs = {
        .r = r, .first = nodes, .end = nodes + r->dag->n_in, .fn = backward_input
    };
    by_tiles(&inputs);
}
