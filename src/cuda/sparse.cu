/* A layer of few, fixed connections: layer/sparse.c, on the card.
 *
 *   forward   h[s][o] = after(bias[o] + sum over k of w[o][k] x[s][in[o][k]])
 *   back      back of the layer before: of input i the sum over its edges of w[e] back[s][output]
 *             gradient of w[o][k] = sum over s of back[s][o] x[s][in[o][k]]; rows and bias move
 *
 * As on the CPU values are turned round (turn.cuh).  A warp has a unit, a lane a sample; ids and
 * weights of 32 edges come 32 at a time, one per lane, and go round.  Sums of 32 units and 32 samples
 * are turned back through shared memory.  For the gradient of the weights a warp has an output, and
 * keeps sums of 32 edges, 32 samples apart, which are added up at the end so that lane k gets edge
 * k's.
 *
 * Outputs have 'fan' inputs each, or each its own number of them, also none: then 'row' says where
 * the edges of an output begin.  The gradient of an output's weights lies in shared memory; of one
 * with more than STAGED inputs in the scratch.  An output without inputs has no row that could move.
 *
 * 1024 x 32 edges, 128 samples: each of the three reads 17 MB from the cache for 8 MFLOP: 4 us. */
#include "cuda/turn.cuh"
#include "cuda/update.cuh"

#include <new>
#include <stdio.h>

enum {
    SIDE = WISP_TURN_SIDE,
    SUM_WARPS = 16, /* of a tile of sums */
    ROW_WARPS = 8,  /* outputs of a block whose weights move */
    STAGED = 1024   /* most inputs of an output whose gradient lies in shared memory */
};

enum { WEIGHT, BIAS }; /* parameters; those of connections follow */

struct wires { /* a layer, as kernels see it */
    size_t n_in, n_out;
    size_t fan;         /* inputs of each output, or of the one that has most */
    const int64_t *row; /* (n_out + 1) output o: edges row[o] .. row[o + 1] - 1; NULL: fan each */
    struct wisp_dparam w, bias;
    const int32_t *in;     /* (edges) the inputs of each output */
    const uint32_t *start; /* (n_in + 1) the same by input: edges start[i] .. start[i + 1] - 1 of */
    const uint32_t *edge;  /* (edges) number in w, ascending, and */
    const int32_t *output; /* (edges) output */
    float *turned;         /* (n_in, lanes) the input, values of a unit side by side */
};

/* The parameter that says which inputs outputs have. */
static const struct wisp_param *inputs_of(const struct wisp_layer *l)
{
    const struct wisp_param *p = l->params;
    while (p->role != WISP_FIXED) p++;
    return p;
}

static struct wires wires_of(const struct wisp_dnode &l)
{
    struct wires w = { l.l->n_in, l.l->n_out,      l.l->params[WEIGHT].cols,
                       l.rows,    l.param[WEIGHT], l.param[BIAS] };
    w.in = l.ids[inputs_of(l.l) - l.l->params], w.start = (const uint32_t *)l.own[WISP_DSTART];
    w.edge = (const uint32_t *)l.own[WISP_DEDGE], w.output = (const int32_t *)l.own[WISP_DOUTPUT];
    w.turned = l.kept;
    return w;
}

/* Where the edges of an output begin, and how many there are. */
static __device__ size_t edges_of(const struct wires &l, size_t o, size_t *n)
{
    const size_t first = l.row ? (size_t)l.row[o] : o * l.fan;
    *n = l.row ? (size_t)l.row[o + 1] - first : l.fan;
    return first;
}

/* ---- sums over edges ---- */

/* One of 32 edges. */
struct edge {
    int32_t row; /* of what is summed */
    float w;
};

/* sum += w x[row] over the m edges that the lanes have; x: this lane's sample of row 0. */
static __device__ float add_edges(float sum, struct edge e, uint32_t m, const float *x,
                                  size_t lanes)
{
#pragma unroll 8
    for (uint32_t k = 0; k < m; k++) {
        const size_t row = (size_t)__shfl_sync(WISP_WARP, e.row, k);
        sum += __shfl_sync(WISP_WARP, e.w, k) * x[row * lanes];
    }
    return sum;
}

/* The sums of a unit for 32 samples: of an output over its inputs (x: the layer's input, turned),
 * or, BACK, of an input over its outputs (x: the gradient, turned). */
template <bool BACK>
static __device__ float unit_sum(const struct wires &l, size_t unit, const float *x, size_t lanes)
{
    const uint32_t lane = threadIdx.x % 32;
    size_t n, from = BACK ? l.start[unit] : edges_of(l, unit, &n);
    const size_t to = BACK ? l.start[unit + 1] : from + n;
    float sum = BACK ? 0 : l.bias.w[unit];
    for (size_t base = from; base < to; base += 32) {
        const uint32_t m = to - base < 32 ? (uint32_t)(to - base) : 32;
        const size_t at = base + (lane < m ? lane : 0);
        const struct edge e = { BACK ? l.output[at] : l.in[at], l.w.w[BACK ? l.edge[at] : at] };
        sum = m == 32 ? add_edges(sum, e, 32, x, lanes) : add_edges(sum, e, m, x, lanes);
    }
    return sum;
}

/* 32 units and 32 samples: to (n, width), as 'after' leaves them, or, BACK, through what it did to
 * h. */
template <bool BACK>
__global__ static void __launch_bounds__(32 * SUM_WARPS, 2)
    sum_tile(const struct wisp_dnow *now, const __grid_constant__ struct wires l, const float *x,
             size_t lanes, const struct wisp_dafter after, const float *h, float *to, size_t width)
{
    __shared__ float tile[SIDE][SIDE + 1]; /* unit, sample */
    const size_t unit = (size_t)blockIdx.x * SIDE, sample = (size_t)blockIdx.y * SIDE;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = now->n;
    if (sample >= n) return;
    for (uint32_t u = warp; u < SIDE && unit + u < width; u += SUM_WARPS)
        tile[u][lane] = unit_sum<BACK>(l, unit + u, x + sample + lane, lanes);
    __syncthreads();
    wisp_turn_back<BACK>(now, tile, unit, sample, after, h, to, width);
}

/* ---- the weights move ---- */

/* Floats of shared memory for the gradient of an output, where the longest has so many inputs. */
static __host__ __device__ size_t staged_of(size_t fan)
{
    return fan < STAGED ? fan : (size_t)STAGED;
}

/* Lane k gets the sum over all lanes of x[k], in x[0]: 2 D are left of them, half go across. */
template <int D> static __device__ void add_across(float (&x)[32])
{
    const bool high = threadIdx.x & D;
#pragma unroll
    for (int i = 0; i < D; i++) {
        const float keep = high ? x[i + D] : x[i], send = high ? x[i] : x[i + D];
        x[i] = keep + __shfl_xor_sync(WISP_WARP, send, D);
    }
    if constexpr (D > 1) add_across<D / 2>(x);
}

/* g (n_in) = gradient of an output's weights, whose inputs are 'in', by a warp; gy: the output's
 * gradient, turned. */
static __device__ void row_gradient(float *g, const struct wires &l, const int32_t *in, size_t n_in,
                                    const float *gy, size_t lanes, uint32_t n)
{
    const uint32_t lane = threadIdx.x % 32;
    for (size_t base = 0; base < n_in; base += 32) {
        const size_t k = base + lane;
        const int32_t id = k < n_in ? in[k] : 0; /* any row: nobody takes its sum */
        float sum[32] = {};
        for (uint32_t s = lane; s < n + lane; s += 32) { /* as often in all lanes */
            const float y = gy[s];
#pragma unroll
            for (int e = 0; e < 32; e++)
                sum[e] += y * l.turned[(size_t)__shfl_sync(WISP_WARP, id, e) * lanes + s];
        }
        add_across<16>(sum);
        if (k < n_in) g[k] = sum[0];
    }
    __syncwarp();
}

/* One warp per output; the last block has the bias.  sums (tiles of samples, n_out): of the
 * gradient, added up into the first; far (edges): where gradients of long rows go. */
__global__ static void __launch_bounds__(32 * ROW_WARPS)
    move_rows(const struct wisp_dnow *now, const __grid_constant__ struct wisp_dopt opt,
              const __grid_constant__ struct wires l, const float *gy, float *sums, float *far,
              size_t lanes)
{
    extern __shared__ float4 staged[]; /* (warps, fan up to STAGED) */
    const uint32_t warp = threadIdx.x / 32, n = now->n;
    if (n == 0) return;
    if (blockIdx.x + 1 == gridDim.x) {
        for (size_t o = threadIdx.x; o < l.n_out; o += blockDim.x) {
            float sum = 0;
            for (size_t tile = 0; tile * SIDE < n; tile++) sum += sums[tile * l.n_out + o];
            sums[o] = sum;
        }
        __syncthreads();
        if (warp == 0) wisp_dmove(opt, l.bias, 0, sums, now->lr, now->step);
        return;
    }
    const size_t o = (size_t)blockIdx.x * ROW_WARPS + warp;
    if (o >= l.n_out) return;
    size_t n_in, first = edges_of(l, o, &n_in);
    if (n_in == 0) return;
    float *g = n_in > STAGED ? far + first : (float *)staged + warp * staged_of(l.fan);
    row_gradient(g, l, l.in + first, n_in, gy + o * lanes, lanes, n);
    wisp_dmove_few(opt, l.w, o, first, n_in, g, now->lr, now->step);
}

/* ---- forward and back ---- */

static void forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wires w = wires_of(l);
    const struct wisp_dact &in = wisp_dread(n, l), &out = wisp_dgiven(n, l);
    if (!in.x) wisp_turn_rows(n, w.n_in, w.turned, s);
    else wisp_turn_units(n, in.x, w.n_in, w.turned, NULL, s);
    sum_tile<false><<<wisp_turn_tiles(n, w.n_out), 32 * SUM_WARPS, 0, s>>>(
        n.now, w, w.turned, n.lanes, out.after, NULL, out.x, w.n_out);
}

static void backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wires w = wires_of(l);
    float *gy = l.scratch, *sums = gy + w.n_out * n.lanes, *far = sums + w.n_out * n.lanes / SIDE;
    wisp_turn_units(n, wisp_dgiven(n, l).g, w.n_out, gy, sums, s);
    if (l.gx[0]) { /* before the weights move */
        const struct wisp_dact &in = wisp_dread(n, l);
        sum_tile<true><<<wisp_turn_tiles(n, w.n_in), 32 * SUM_WARPS, 0, s>>>(
            n.now, w, gy, n.lanes, in.after, in.x, l.gx[0], w.n_in);
    }
    const size_t bytes = ROW_WARPS * staged_of(w.fan) * sizeof(float);
    const unsigned blocks = (unsigned)((w.n_out + ROW_WARPS - 1) / ROW_WARPS) + 1;
    move_rows<<<blocks, 32 * ROW_WARPS, bytes, s>>>(n.now, n.opt, w, gy, sums, far, n.lanes);
}

/* ---- what lies where ---- */

static size_t edges_of(const struct wisp_layer *l)
{
    return wisp_param_n(&l->params[WEIGHT]);
}

static void lay(struct wisp_dnode *l, const struct wisp_dnet &n, void *block, size_t *at)
{
    if (!n.training) return;
    l->own[WISP_DSTART] = wisp_dtake(block, at, (l->l->n_in + 1) * 4);
    l->own[WISP_DEDGE] = wisp_dtake(block, at, edges_of(l->l) * 4);
    l->own[WISP_DOUTPUT] = wisp_dtake(block, at, edges_of(l->l) * 4);
}

static size_t kept(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    return l.l->n_in * n.lanes; /* the input, turned round */
}

static size_t scratch(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    const size_t far = l.l->params[WEIGHT].cols > STAGED ? edges_of(l.l) : 0;
    return l.l->n_out * (n.lanes + n.lanes / SIDE) + far;
}

/* The connections filed by input, as layer/sparse.c does. */
static void fill(struct wisp_dcopy *c, const struct wisp_dnode &l)
{
    if (!l.own[WISP_DSTART] || c->e != cudaSuccess) return;
    const struct wisp_param *p = inputs_of(l.l);
    const size_t n_in = l.l->n_in, edges = edges_of(l.l);
    uint32_t *start = new (std::nothrow) uint32_t[n_in + 2 + 2 * edges]();
    if (!start) {
        c->e = cudaErrorMemoryAllocation;
        return;
    }
    uint32_t *edge = start + n_in + 2, *output = edge + edges;
    for (size_t e = 0; e < edges; e++) start[p->ids[e] + 2]++;
    for (size_t i = 0; i < n_in; i++) start[i + 2] += start[i + 1];
    /* start[i + 1] goes from i's first edge to its last */
    for (size_t o = 0; o < l.l->n_out; o++) {
        size_t n, first = wisp_param_row(p, o, &n);
        for (size_t e = first; e < first + n; e++) {
            uint32_t place = start[p->ids[e] + 1]++;
            edge[place] = (uint32_t)e, output[place] = (uint32_t)o;
        }
    }
    wisp_dcopy_bytes(c, l.own[WISP_DSTART], start, (n_in + 1) * 4);
    wisp_dcopy_bytes(c, l.own[WISP_DEDGE], edge, edges * 4);
    wisp_dcopy_bytes(c, l.own[WISP_DOUTPUT], output, edges * 4);
    delete[] start;
}

static bool lacks(char what[WISP_DWORDS], const struct wisp_graph *g, const struct wisp_layer *l)
{
    return wisp_card_width(what, g, l) || wisp_card_edges(what, l, edges_of(l));
}

static struct wisp_card_kind filled()
{
    struct wisp_card_kind k = {};
    k.name = "sparse", k.forms = WISP_ROWS | WISP_FLAT,
    k.takes = WISP_FUSE_RELU | WISP_FUSE_DROPOUT, k.lacks = lacks;
    k.lay = lay, k.kept = kept, k.scratch = scratch, k.fill = fill;
    k.forward = forward, k.backward = backward;
    return k;
}
const struct wisp_card_kind wisp_card_sparse = filled();
