/* A graph of any shape as a layer: layer/dag.c, on the card.
 *
 *   forward  value = f(bias + sum over the edges to a node of weight x value where the edge begins)
 *   back     gradient of a value = that of the result, where it is one, + sum over the edges from it
 *            of weight x gradient of the sum where the edge ends; of its own sum: times the
 *            derivative.  Of a weight: sum over samples of gradient of the sum x value.  Rows and
 *            biases move.
 *
 * As on the CPU values lie as (nodes, then inputs; lanes): an edge is a row times one number
 * (turn.cuh).  A group of 8 lanes has a node, each lane one or four samples, and goes through the
 * node's edges in their order.  On the way back edges are filed by the node where they begin.
 *
 * Nodes of a level do not read each other.  What is launched, found once:
 *
 *   a wide level         a block has 32 nodes and 32 samples
 *   one with long lists  a block has one node, whose edges its groups share
 *   thin ones in a row   a block has 8 samples, which go through all of these levels: 128 nodes at a
 *                        time, and a barrier between levels instead of a launch
 *
 * Gradients of weights need the levels no more: a warp has a node, and moves its row as soon as it has
 * them.  Samples beyond the last are computed with those beside them, and are in no sum over samples.
 *
 * 10^5 nodes, 10^6 edges, 64 samples: each of forward, back and weights reads 256 MB, from 26 MB that
 * stay in the cache. */
#include "cuda/turn.cuh"
#include "cuda/update.cuh"
#include "cuda/trainer.cuh"
#include "graph/levels.h"

#include <new>
#include <string.h>

enum {
    GROUP = 8,             /* lanes that have a node */
    SIDE = WISP_TURN_SIDE, /* samples of a block but through thin levels: four per lane */
    GROUPS = 32,
    THIN_GROUPS = 128, /* of a block */
    THIN = 2048,       /* nodes and edges of a level that a block goes through alone */
    LONG = 256,        /* edges that a group goes through alone */
    ROW_WARPS = 8,     /* nodes of a block whose weights move */
    STAGED = 1024,     /* most edges of a node whose gradient lies in shared memory */
    EDGES = 4,         /* whose gradients a group makes at once */
    BIAS_THREADS = 1024
};

enum { WEIGHT, BIAS, START, INPUTS, FUNCTIONS, OUTPUTS }; /* parameters, as in layer/dag.c */
/* What the layer has of its own.  LEVEL: (levels + 1) first nodes.  When training, edges by the node
 * where they begin, BEGIN: (nodes + inputs + 1), EDGE: (edges) the number of each, TARGET: (edges)
 * where it ends; PLACE: (nodes + inputs) among the outputs, + 1; 0: none. */
enum { LEVEL, BEGIN, EDGE, TARGET, PLACE };

struct graph { /* a layer, as kernels see it */
    size_t n_nodes, n_in, lanes;
    const int64_t *start;                 /* (n_nodes + 1) edges to a node */
    const int32_t *from, *function, *out; /* where they begin; of nodes; (n_out) nodes */
    struct wisp_dparam w, bias;
    const uint32_t *level, *begin, *edge; /* as above */
    const int32_t *target, *place;
    float *x;        /* (n_nodes + n_in, lanes) values */
    float *d;        /* (n_nodes, or, where gradients of inputs are wanted, n_nodes + n_in; lanes)
                        derivatives, then gradients of sums; NULL: only forward */
    const float *gy; /* (n_out, lanes) gradients of the result */
};

/* ---- functions of nodes (spdnn/functions.c) ---- */

/* Is the derivative kept for the way back, because the value does not tell? */
static __device__ bool keeps_slope(int function)
{
    return function != WISP_NODE_IDENTITY && function != WISP_NODE_RELU;
}

/* f(z), and its derivative where that is kept.  Exponentials are of numbers that are not above 0. */
static __device__ float value_of(int function, float z, float *slope)
{
    float e, share;
    *slope = 0;
    switch (function) {
    case WISP_NODE_RELU:
        return z > 0 ? z : 0;
    case WISP_NODE_TANH:
        e = expf(-2 * fabsf(z)), share = 1 / (1 + e);
        *slope = 4 * e * share * share;
        return tanhf(z);
    case WISP_NODE_SIGMOID:
        e = expf(-fabsf(z)), share = 1 / (1 + e);
        *slope = e * share * share;
        return z < 0 ? e * share : share;
    case WISP_NODE_GAUSS:
        e = expf(-z * z);
        *slope = e > 0 ? -2 * z * e : 0;
        return e;
    case WISP_NODE_SIN:
        *slope = cosf(z);
        return sinf(z);
    case WISP_NODE_ABS:
        *slope = (float)(z > 0) - (float)(z < 0);
        return fabsf(z);
    case WISP_NODE_STEP:
        return z == z ? (float)(z > 0) : z;
    default:
        return z;
    }
}

/* ---- nodes ---- */

/* Samples of a lane, side by side. */
template <int N> struct alignas(4 * N) few {
    float x[N];
};
template <int N> static __device__ struct few<N> &few_at(float *row) {
    return *(struct few<N> *)row;
}

/* The edges that a node's sum is over: to it, or, BACK, from it. */
struct list {
    size_t at, end;
};
template <bool BACK> static __device__ struct list list_of(const struct graph &g, size_t node)
{
    if (BACK) return { g.begin[node], g.begin[node + 1] };
    return { (size_t)g.start[node], (size_t)g.start[node + 1] };
}

/* What the sum begins with. */
template <int N, bool BACK>
static __device__ struct few<N> first_of(const struct graph &g, size_t node, size_t sample) {
    struct few<N> sum;
    const int32_t place = BACK ? g.place[node] : 0;
    if (place) return few_at<N>((float *)g.gy + (size_t)(place - 1) * g.lanes + sample);
#pragma unroll
    for (int i = 0; i < N; i++) sum.x[i] = BACK ? 0 : g.bias.w[node];
    return sum;
}

/* Edges in their order; some of them are on their way at once. */
template <int N, bool BACK>
static __device__ void add_edges(struct few<N> *sum, const struct graph &g, size_t sample,
                                 struct list l)
{
    constexpr int ON_WAY = N == 1 ? 8 : 4;
    float *rows = (BACK ? g.d : g.x) + sample;
    for (; l.at < l.end; l.at += ON_WAY) {
        int32_t row[ON_WAY];
        float w[ON_WAY];
        struct few<N> x[ON_WAY];
#pragma unroll
        for (int k = 0; k < ON_WAY; k++)
            if (l.at + k < l.end) {
                row[k] = (BACK ? g.target : g.from)[l.at + k];
                w[k] = g.w.w[BACK ? g.edge[l.at + k] : l.at + k];
            }
#pragma unroll
        for (int k = 0; k < ON_WAY; k++)
            if (l.at + k < l.end) x[k] = few_at<N>(rows + (size_t)row[k] * g.lanes);
#pragma unroll
        for (int k = 0; k < ON_WAY; k++)
            if (l.at + k < l.end)
#pragma unroll
                for (int i = 0; i < N; i++) sum->x[i] += w[k] * x[k].x[i];
    }
}

template <int N>
static __device__ void set_value(const struct graph &g, size_t node, size_t sample,
                                 struct few<N> sum)
{
    const int function = g.function[node];
    const size_t at = node * g.lanes + sample;
    struct few<N> slope;
#pragma unroll
    for (int i = 0; i < N; i++) sum.x[i] = value_of(function, sum.x[i], &slope.x[i]);
    few_at<N>(g.x + at) = sum;
    if (g.d && keeps_slope(function)) few_at<N>(g.d + at) = slope;
}

/* sum: the gradient of the value.  An input's goes on as it is. */
template <int N>
static __device__ void set_gradient(const struct graph &g, size_t node, size_t sample,
                                    struct few<N> sum)
{
    const int function = node < g.n_nodes ? g.function[node] : WISP_NODE_IDENTITY;
    const size_t at = node * g.lanes + sample;
    if (function == WISP_NODE_RELU) {
        const struct few<N> y = few_at<N>(g.x + at);
#pragma unroll
        for (int i = 0; i < N; i++) sum.x[i] = y.x[i] > 0 ? sum.x[i] : 0;
    } else if (keeps_slope(function)) {
        const struct few<N> slope = few_at<N>(g.d + at);
#pragma unroll
        for (int i = 0; i < N; i++) sum.x[i] *= slope.x[i];
    }
    few_at<N>(g.d + at) = sum;
}

template <int N, bool BACK>
static __device__ void finish(const struct graph &g, size_t node, size_t sample, struct few<N> sum)
{
    if (BACK) set_gradient<N>(g, node, sample, sum);
    else set_value<N>(g, node, sample, sum);
}

template <int N, bool BACK>
static __device__ void do_node(const struct graph &g, size_t node, size_t sample)
{
    struct few<N> sum = first_of<N, BACK>(g, node, sample);
    add_edges<N, BACK>(&sum, g, sample, list_of<BACK>(g, node));
    finish<N, BACK>(g, node, sample, sum);
}

/* ---- levels ---- */

/* Nodes first .. end-1, which do not read each other. */
template <bool BACK>
__global__ static void __launch_bounds__(GROUPS *GROUP)
    wide_level(const struct wisp_dnow *now, const __grid_constant__ struct graph g, size_t first,
               size_t end)
{
    const size_t sample = (size_t)blockIdx.y * SIDE, lane = threadIdx.x % GROUP;
    const size_t node = first + (size_t)blockIdx.x * GROUPS + threadIdx.x / GROUP;
    if (sample >= now->n || node >= end) return;
    do_node<4, BACK>(g, node, sample + 4 * lane);
}

/* The same of nodes from 'first' on, one per block. */
template <bool BACK>
__global__ static void __launch_bounds__(GROUPS *GROUP)
    long_level(const struct wisp_dnow *now, const __grid_constant__ struct graph g, size_t first)
{
    __shared__ struct few<4> parts[GROUPS][GROUP];
    const uint32_t lane = threadIdx.x % GROUP, group = threadIdx.x / GROUP;
    const size_t node = first + blockIdx.x, sample = (size_t)blockIdx.y * SIDE + 4 * lane;
    if ((size_t)blockIdx.y * SIDE >= now->n) return;
    struct list l = list_of<BACK>(g, node);
    const size_t share = (l.end - l.at + GROUPS - 1) / GROUPS, at = l.at + group * share;
    struct few<4> sum = {
    };
    if (group == 0) sum = first_of<4, BACK>(g, node, sample);
    l.at = at < l.end ? at : l.end;
    if (l.end - l.at > share) l.end = l.at + share;
    add_edges<4, BACK>(&sum, g, sample, l);
    parts[group][lane] = sum;
    __syncthreads();
    if (group) return;
    for (int p = 1; p < GROUPS; p++)
#pragma unroll
        for (int i = 0; i < 4; i++) sum.x[i] += parts[p][lane].x[i];
    finish<4, BACK>(g, node, sample, sum);
}

/* Levels first .. end-1, or, BACK, the other way round. */
template <bool BACK>
__global__ static void __launch_bounds__(THIN_GROUPS *GROUP)
    thin_levels(const struct wisp_dnow *now, const __grid_constant__ struct graph g, uint32_t first,
                uint32_t end)
{
    const size_t sample = (size_t)blockIdx.x * GROUP, lane = threadIdx.x % GROUP;
    if (sample >= now->n) return;
    for (uint32_t i = 0; i < end - first; i++) {
        const uint32_t level = BACK ? end - 1 - i : first + i, past = g.level[level + 1];
        for (uint32_t node = g.level[level] + threadIdx.x / GROUP; node < past; node += THIN_GROUPS)
            do_node<1, BACK>(g, node, sample + lane);
        __syncthreads();
    }
}

/* to (n, width): rows 'ids' of these, or the first ones. */
template <bool BACK>
__global__ static void __launch_bounds__(32 * GROUP)
    turn_back(const struct wisp_dnow *now, const float *rows, const int32_t *ids, size_t lanes,
              const struct wisp_dafter after, const float *h, float *to, size_t width)
{
    __shared__ float tile[SIDE][SIDE + 1]; /* unit, sample */
    const size_t unit = (size_t)blockIdx.x * SIDE, sample = (size_t)blockIdx.y * SIDE;
    const uint32_t lane = threadIdx.x % 32;
    if (sample >= now->n) return;
    for (uint32_t u = threadIdx.x / 32; u < SIDE && unit + u < width; u += GROUP) {
        const size_t row = ids ? (size_t)ids[unit + u] : unit + u;
        tile[u][lane] = rows[row * lanes + sample + lane];
    }
    __syncthreads();
    wisp_turn_back<BACK>(now, tile, unit, sample, after, h, to, width);
}

/* ---- weights and biases move ---- */

/* The sum over the lanes of a group, the same in all of them. */
static __device__ float group_sum(float x)
{
    for (int d = GROUP / 2; d > 0; d /= 2) x += __shfl_xor_sync(WISP_WARP, x, d);
    return x;
}

/* g[k] = gradient of the weight of edge first + k of n_in to node o, by a warp: of EDGES per group
 * from 'base' on, and so on each 'step' edges. */
static __device__ void row_gradient(float *g, const struct graph &l, size_t o, size_t first,
                                    size_t n_in, size_t base, size_t step, uint32_t n)
{
    const uint32_t lane = threadIdx.x % GROUP, group = threadIdx.x % 32 / GROUP;
    for (; base < n_in; base += step) {
        const size_t k = base + group * EDGES;
        float *x[EDGES], sum[EDGES] = {};
#pragma unroll
        for (int e = 0; e < EDGES; e++) { /* behind the last any row: nobody takes its sum */
            const size_t at = k + e < n_in ? k + e : n_in - 1;
            x[e] = l.x + (size_t)l.from[first + at] * l.lanes;
        }
        for (size_t s = 4 * lane; s < n; s += SIDE) {
            const struct few<4> y = few_at<4>(l.d + o * l.lanes + s);
#pragma unroll
            for (int e = 0; e < EDGES; e++) {
                const struct few<4> v = few_at<4>(x[e] + s);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (s + i < n) sum[e] += y.x[i] * v.x[i];
            }
        }
#pragma unroll
        for (int e = 0; e < EDGES; e++) {
            sum[e] = group_sum(sum[e]);
            if (lane == 0 && k + e < n_in) g[k + e] = sum[e];
        }
    }
    __syncwarp();
}

/* One warp per node, but gradients of long rows are made by all warps of a block.  longest: the most
 * edges to a node; gb (n_nodes): gradients of the biases; far (edges): where those of long rows go. */
__global__ static void __launch_bounds__(32 * ROW_WARPS)
    move_rows(const struct wisp_dnow *now, const __grid_constant__ struct wisp_dopt opt,
              const __grid_constant__ struct graph l, size_t longest, float *gb, float *far)
{
    extern __shared__ float4 staged[]; /* (warps, longest up to STAGED) */
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = now->n;
    const size_t base = (size_t)blockIdx.x * ROW_WARPS, o = base + warp;
    const size_t room = longest < STAGED ? longest : (size_t)STAGED;
    if (n == 0) return;
    for (size_t r = base; longest > LONG && r < base + ROW_WARPS && r < l.n_nodes; r++) {
        const struct list e = list_of<false>(l, r);
        float *g = e.end - e.at > STAGED ? far + e.at : (float *)staged + (r - base) * room;
        if (e.end - e.at > LONG)
            row_gradient(g, l, r, e.at, e.end - e.at, warp * 4 * EDGES, ROW_WARPS * 4 * EDGES, n);
    }
    __syncthreads();
    if (o >= l.n_nodes) return;
    float bias = 0;
    for (size_t s = lane; s < n; s += 32) bias += l.d[o * l.lanes + s];
    bias = wisp_warp_sum(bias);
    if (lane == 0) gb[o] = bias;
    const struct list e = list_of<false>(l, o);
    const size_t n_in = e.end - e.at;
    if (n_in == 0) return;
    float *g = n_in > STAGED ? far + e.at : (float *)staged + warp * room;
    if (n_in <= LONG) row_gradient(g, l, o, e.at, n_in, 0, 4 * EDGES, n);
    wisp_dmove_few(opt, l.w, o, e.at, n_in, g, now->lr, now->step);
}

__global__ static void __launch_bounds__(BIAS_THREADS)
    move_biases(const struct wisp_dnow *now, const __grid_constant__ struct wisp_dopt opt,
                const __grid_constant__ struct wisp_dparam bias, const float *g)
{
    __shared__ float sums[32];
    if (now->n == 0) return;
    wisp_dmove_many(opt, bias, 0, g, now->lr, now->step, sums);
}

/* ---- what is launched ---- */

enum shape { WIDE, LISTS, THIN_ONES };

struct part {
    enum shape shape;
    uint32_t first, end; /* nodes; of thin ones, levels */
};

struct made { /* of a net, on the host */
    size_t n_levels;
    uint32_t *level;      /* (n_levels + 1) first nodes */
    size_t n_parts[2];    /* forward, back: levels differ in how many edges they read there */
    struct part *part[2]; /* (n_parts) in the order of the nodes */
    size_t longest_from;  /* the most edges from an input */
};

static size_t n_nodes_of(const struct wisp_dnode &l)
{
    return l.l->params[INPUTS].rows;
}

/* Nodes and inputs. */
static size_t n_all_of(const struct wisp_dnode &l)
{
    return n_nodes_of(l) + l.l->n_in;
}

static size_t n_edges_of(const struct wisp_layer *l)
{
    return wisp_param_n(&l->params[INPUTS]);
}

/* part (levels): edges of node i are begin[i] .. begin[i + 1]. */
template <class T> static size_t find_parts(struct part *part, const struct made &m, const T *begin)
{
    size_t n = 0;
    for (size_t i = 0; i < m.n_levels; i++) {
        const uint32_t first = m.level[i], end = m.level[i + 1];
        size_t longest = 0;
        for (uint32_t o = first; o < end; o++)
            longest = wisp_most(longest, (size_t)(begin[o + 1] - begin[o]));
        const bool thin =
            longest <= LONG && end - first + (size_t)(begin[end] - begin[first]) <= THIN;
        if (thin && n > 0 && part[n - 1].shape == THIN_ONES) part[n - 1].end = (uint32_t)i + 1;
        else if (thin) part[n++] = { THIN_ONES, (uint32_t)i, (uint32_t)i + 1 };
        else part[n++] = { longest > LONG ? LISTS : WIDE, first, end };
    }
    return n;
}

static void clear(struct wisp_dnode *l)
{
    struct made *m = (struct made *)l->made;
    if (!m) return;
    delete[] m->level;
    for (struct part *p : m->part) delete[] p;
    delete m;
    l->made = NULL;
}

static wisp_status make(struct wisp_dnode *l, const struct wisp_dnet &, wisp_error *err)
{
    const size_t nodes = n_nodes_of(*l), all = n_all_of(*l);
    const int64_t *start = l->l->params[START].start;
    const int32_t *from = l->l->params[INPUTS].ids;
    struct made *m = new (std::nothrow) made();
    l->made = m;
    if (m) m->level = new (std::nothrow) uint32_t[nodes + 1];
    if (!m || !m->level) return wisp_dfail(err, WISP_ENOMEM, "no memory left for a graph's levels");
    for (size_t at = 0; at < nodes; at = wisp_level_end(start, from, nodes, at))
        m->level[m->n_levels++] = (uint32_t)at;
    m->level[m->n_levels] = (uint32_t)nodes;
    uint32_t *begin = new (std::nothrow) uint32_t[all + 1]();
    for (struct part *&p : m->part) p = new (std::nothrow) struct part[m->n_levels];
    if (begin && m->part[0] && m->part[1]) {
        for (size_t e = 0; e < n_edges_of(l->l); e++) begin[from[e] + 1]++;
        for (size_t i = nodes; i < all; i++)
            m->longest_from = wisp_most(m->longest_from, begin[i + 1]);
        for (size_t i = 0; i < all; i++) begin[i + 1] += begin[i];
        m->n_parts[0] = find_parts(m->part[0], *m, start);
        m->n_parts[1] = find_parts(m->part[1], *m, begin);
    }
    const bool whole = begin && m->part[0] && m->part[1];
    delete[] begin;
    return whole ? WISP_OK : wisp_dfail(err, WISP_ENOMEM, "no memory left for a graph's levels");
}

static struct graph graph_of(const struct wisp_dnet &n, const struct wisp_dnode &l)
{
    struct graph g = {};
    g.n_nodes = n_nodes_of(l), g.n_in = l.l->n_in, g.lanes = n.lanes;
    g.start = l.rows, g.from = l.ids[INPUTS], g.function = l.ids[FUNCTIONS], g.out = l.ids[OUTPUTS];
    g.w = l.param[WEIGHT], g.bias = l.param[BIAS];
    g.level = (const uint32_t *)l.own[LEVEL], g.begin = (const uint32_t *)l.own[BEGIN];
    g.edge = (const uint32_t *)l.own[EDGE], g.target = (const int32_t *)l.own[TARGET];
    g.place = (const int32_t *)l.own[PLACE];
    g.x = l.kept, g.d = n.training ? l.kept + n_all_of(l) * n.lanes : NULL, g.gy = l.scratch;
    return g;
}

template <bool BACK>
static void do_nodes(const struct wisp_dnet &n, const struct graph &g, enum shape shape,
                     size_t first, size_t end, cudaStream_t s)
{
    const unsigned tiles = (unsigned)(n.lanes / SIDE);
    if (shape == LISTS)
        long_level<BACK>
            <<<dim3((unsigned)(end - first), tiles), GROUPS * GROUP, 0, s>>>(n.now, g, first);
    else if (shape == WIDE)
        wide_level<BACK>
            <<<dim3((unsigned)wisp_parts(end - first, GROUPS), tiles), GROUPS * GROUP, 0, s>>>(
                n.now, g, first, end);
    else
        thin_levels<BACK><<<(unsigned)(n.lanes / GROUP), THIN_GROUPS * GROUP, 0, s>>>(
            n.now, g, (uint32_t)first, (uint32_t)end);
}

static void forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct graph g = graph_of(n, l);
    const struct made *m = (const struct made *)l.made;
    const struct wisp_dact &in = wisp_dread(n, l), &out = wisp_dgiven(n, l);
    float *inputs = g.x + g.n_nodes * n.lanes;
    if (!in.x) wisp_turn_rows(n, g.n_in, inputs, s);
    else wisp_turn_units(n, in.x, g.n_in, inputs, NULL, s);
    for (size_t i = 0; i < m->n_parts[0]; i++) {
        const struct part &p = m->part[0][i];
        do_nodes<false>(n, g, p.shape, p.first, p.end, s);
    }
    turn_back<false><<<wisp_turn_tiles(n, l.l->n_out), 32 * GROUP, 0, s>>>(
        n.now, g.x, g.out, n.lanes, out.after, NULL, out.x, l.l->n_out);
}

/* Before the weights move. */
static void gradients_below(const struct wisp_dnet &n, const struct wisp_dnode &l,
                            const struct graph &g, cudaStream_t s)
{
    const struct made *m = (const struct made *)l.made;
    const struct wisp_dact &in = wisp_dread(n, l);
    do_nodes<true>(n, g, m->longest_from > LONG ? LISTS : WIDE, g.n_nodes, g.n_nodes + g.n_in, s);
    turn_back<true><<<wisp_turn_tiles(n, g.n_in), 32 * GROUP, 0, s>>>(
        n.now, g.d + g.n_nodes * n.lanes, NULL, n.lanes, in.after, in.x, l.gx[0], g.n_in);
}

static void backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct graph g = graph_of(n, l);
    const struct made *m = (const struct made *)l.made;
    const size_t longest = l.l->params[INPUTS].cols, room = longest < STAGED ? longest : STAGED;
    float *gb = l.scratch + l.l->n_out * n.lanes, *far = gb + g.n_nodes;
    wisp_turn_units(n, wisp_dgiven(n, l).g, l.l->n_out, l.scratch, NULL, s);
    for (size_t i = m->n_parts[1]; i-- > 0;) {
        const struct part &p = m->part[1][i];
        do_nodes<true>(n, g, p.shape, p.first, p.end, s);
    }
    if (l.gx[0]) gradients_below(n, l, g, s);
    move_rows<<<(unsigned)wisp_parts(g.n_nodes, ROW_WARPS), 32 * ROW_WARPS,
                ROW_WARPS * room * sizeof(float), s>>>(n.now, n.opt, g, longest, gb, far);
    move_biases<<<1, BIAS_THREADS, 0, s>>>(n.now, n.opt, g.bias, gb);
}

/* ---- what lies where ---- */

static void lay(struct wisp_dnode *l, const struct wisp_dnet &n, void *block, size_t *at)
{
    const size_t all = n_all_of(*l), edges = n_edges_of(l->l);
    l->own[LEVEL] = wisp_dtake(block, at, (n_nodes_of(*l) + 1) * 4);
    if (!n.training) return;
    l->own[BEGIN] = wisp_dtake(block, at, (all + 1) * 4);
    l->own[EDGE] = wisp_dtake(block, at, edges * 4);
    l->own[TARGET] = wisp_dtake(block, at, edges * 4);
    l->own[PLACE] = wisp_dtake(block, at, all * 4);
}

/* Values; derivatives, then gradients, also of inputs, where these are a layer's. */
static size_t kept(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    const size_t learning = wisp_dreads_rows(l) ? n_nodes_of(l) : n_all_of(l);
    return (n_all_of(l) + (n.training ? learning : 0)) * n.lanes;
}

static size_t scratch(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    const size_t far = l.l->params[INPUTS].cols > STAGED ? n_edges_of(l.l) : 0;
    return l.l->n_out * n.lanes + n_nodes_of(l) + far;
}

/* Edges filed by the node where they begin, as spdnn/dag.c does. */
static void file_edges(struct wisp_dcopy *c, const struct wisp_dnode &l)
{
    const struct wisp_param *p = l.l->params;
    const size_t nodes = n_nodes_of(l), all = n_all_of(l), edges = n_edges_of(l.l);
    uint32_t *begin = new (std::nothrow) uint32_t[2 * all + 2 + 2 * edges]();
    if (!begin) {
        c->e = cudaErrorMemoryAllocation;
        return;
    }
    uint32_t *edge = begin + all + 2, *target = edge + edges, *place = target + edges;
    for (size_t e = 0; e < edges; e++) begin[p[INPUTS].ids[e] + 2]++;
    for (size_t i = 0; i < all; i++) begin[i + 2] += begin[i + 1];
    /* begin[i + 1] goes from i's first edge to its last */
    for (size_t o = 0; o < nodes; o++)
        for (int64_t e = p[START].start[o]; e < p[START].start[o + 1]; e++) {
            const uint32_t at = begin[p[INPUTS].ids[e] + 1]++;
            edge[at] = (uint32_t)e, target[at] = (uint32_t)o;
        }
    for (size_t i = 0; i < l.l->n_out; i++) place[p[OUTPUTS].ids[i]] = (uint32_t)i + 1;
    wisp_dcopy_bytes(c, l.own[BEGIN], begin, (all + 1) * 4);
    wisp_dcopy_bytes(c, l.own[EDGE], edge, edges * 4);
    wisp_dcopy_bytes(c, l.own[TARGET], target, edges * 4);
    wisp_dcopy_bytes(c, l.own[PLACE], place, all * 4);
    delete[] begin;
}

static void fill(struct wisp_dcopy *c, const struct wisp_dnode &l)
{
    const struct made *m = (const struct made *)l.made;
    wisp_dcopy_bytes(c, l.own[LEVEL], m->level, (m->n_levels + 1) * 4);
    if (l.own[BEGIN] && c->e == cudaSuccess) file_edges(c, l);
}

static bool lacks(char what[WISP_DWORDS], const struct wisp_graph *g, const struct wisp_layer *l)
{
    return wisp_card_width(what, g, l) || wisp_card_edges(what, l, n_edges_of(l));
}

static struct wisp_card_kind filled()
{
    struct wisp_card_kind k = {};
    k.name = "dag", k.forms = WISP_ROWS | WISP_FLAT;
    k.takes = WISP_FUSE_RELU | WISP_FUSE_DROPOUT, k.skips = true, k.lacks = lacks;
    k.make = make, k.clear = clear;
    k.lay = lay, k.kept = kept, k.scratch = scratch, k.fill = fill;
    k.forward = forward, k.backward = backward;
    return k;
}
const struct wisp_card_kind wisp_card_dag = filled();
