/* A batch on its way through a net of any shape, forward and back (dag.h). */
#include "spdnn/dag.h"
#include "base/bounds.h"
#include "base/pool.h"
#include "kernels/kernels.h"

#include <string.h>

/* What a thread takes at once: nodes of a wide level, samples of thin ones.  Tiles of 16 samples, one
 * line of the cache of each row, were slower than whole rows (a Xeon, batch 64, 100 levels, one thread:
 * 23 ms instead of 10 to 14). */
enum { NODES = 16, TILE = 64 };

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

/* Does node r read one of the nodes from 'first' on?  Inputs come last in its list. */
static bool reads(const struct wisp_dag *d, size_t r, size_t first)
{
    for (int64_t e = d->start[r + 1]; e > d->start[r]; e--)
        if ((size_t)d->from[e - 1] < d->n_nodes) return (size_t)d->from[e - 1] >= first;
    return false;
}

/* The end of the level that begins with node 'first'. */
static size_t level_end(const struct wisp_dag *d, size_t first)
{
    size_t r = first + 1;
    while (r < d->n_nodes && !reads(d, r, first)) r++;
    return r;
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
            p->edge[at] = (uint32_t)e;
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

struct part {
    const struct wisp_dag_run *r;
    size_t first, end; /* nodes; of the way back to the inputs, these count from n_nodes on */
    bool wide;
    void (*fn)(const struct wisp_dag_run *r, size_t node, size_t lane, size_t n, int thread);
    bool down;
};

/* Nodes of a wide level, or a tile of samples of thin ones. */
static void do_task(void *arg, size_t task, int thread)
{
    const struct part *p = arg;
    size_t first = p->first, end = p->end, lane = 0, n = p->r->n;
    if (p->wide) {
        first += task * NODES;
        if (end - first > NODES) end = first + NODES;
    } else {
        lane = task * TILE;
        n = n - lane < TILE ? n - lane : TILE;
    }
    for (size_t i = 0; i < end - first; i++)
        p->fn(p->r, p->down ? end - 1 - i : first + i, lane, n, thread);
}

static void do_part(const struct part *p)
{
    const size_t n = p->wide ? wisp_parts(p->end - p->first, NODES) : wisp_parts(p->r->n, TILE);
    wisp_parallel_for(p->r->ctx->pool, n, do_task, (void *)p);
}

static struct part part_at(const struct wisp_dag_run *r, size_t i)
{
    const uint32_t *at = r->plan->part + i;
    return (struct part){ .r = r, .first = at[0] / 2, .end = at[1] / 2, .wide = at[0] & 1 };
}

/* ---- forward ---- */

static void forward_node(const struct wisp_dag_run *r, size_t node, size_t lane, size_t n,
                         int thread)
{
    (void)thread;
    const struct wisp_dag *d = r->dag;
    const struct wisp_kernels *k = r->ctx->k;
    const size_t at = (size_t)d->start[node], edges = (size_t)d->start[node + 1] - at;
    float *y = r->x + node * r->lanes + lane;
    const float bias = d->bias[node];
    for (size_t i = 0; i < n; i++) y[i] = bias;
    k->bag(y, r->x + lane, r->lanes, d->from + at, d->w + at, edges, n);
    wisp_node_function_at((size_t)d->function[node])
        ->run(k, y, r->d ? r->d + node * r->lanes + lane : NULL, n);
}

void wisp_dag_forward(const struct wisp_dag_run *r)
{
    for (size_t i = 0; i < r->plan->made[1]; i++) {
        struct part p = part_at(r, i);
        p.fn = forward_node;
        do_part(&p);
    }
}

/* ---- backward ---- */

/* Weights by the node where they begin, as they are now. */
static void gather_weights(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct wisp_dag_run *r = arg;
    const size_t first = task << 14, left = r->dag->n_edges - first,
                 n = left < 1 << 14 ? left : 1 << 14;
    for (size_t e = first; e < first + n; e++) r->weight[e] = r->dag->w[r->plan->edge[e]];
}

/* The gradient of a node's value: of the result, where it is one, and of the nodes that read it. */
static void gather_gradient(float *g, const struct wisp_dag_run *r, size_t node, size_t lane,
                            size_t n)
{
    const struct wisp_dag_plan *p = r->plan;
    const size_t n_out = r->dag->n_out, place = (size_t)p->place[node];
    const uint32_t at = p->begin[node];
    for (size_t i = 0; i < n; i++) g[i] = place ? r->gy[(lane + i) * n_out + place - 1] : 0;
    r->ctx->k->bag(g, r->d + lane, r->lanes, p->target + at, r->weight + at,
                   p->begin[node + 1] - at, n);
}

static void backward_node(const struct wisp_dag_run *r, size_t node, size_t lane, size_t n,
                          int thread)
{
    float *g = r->spare(r, thread), *d = r->d + node * r->lanes + lane;
    gather_gradient(g, r, node, lane, n);
    for (size_t i = 0; i < n; i++) d[i] *= g[i];
}

static void backward_input(const struct wisp_dag_run *r, size_t node, size_t lane, size_t n,
                           int thread)
{
    (void)thread;
    gather_gradient(r->gx + (node - r->dag->n_nodes) * r->lanes + lane, r, node, lane, n);
}

void wisp_dag_backward(const struct wisp_dag_run *r)
{
    const size_t nodes = r->dag->n_nodes;
    wisp_parallel_for(r->ctx->pool, wisp_parts(r->dag->n_edges, 1 << 14), gather_weights,
                      (void *)r);
    for (size_t i = r->plan->made[1]; i > 0; i--) {
        struct part p = part_at(r, i - 1);
        p.fn = backward_node;
        p.down = true;
        do_part(&p);
    }
    const struct part inputs = { r, nodes, nodes + r->dag->n_in, true, backward_input, false };
    if (r->gx) do_part(&inputs);
}
