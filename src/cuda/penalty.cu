/* A group penalty on the card: penalty.cuh. */
#include "cuda/penalty.cuh"
#include "cuda/trainer.cuh"
#include "cuda/update.cuh"
#include "graph/bonds.h"

#include <math.h>
#include <new>
#include <stdio.h>

enum {
    WARPS = 8,
    THREADS = 32 * WARPS,
    COLS = 128,        /* of a block: a quad per lane */
    LEAST_CHUNK = 64,  /* rows of such a block */
    MOST_CHUNKS = 256, /* of a matrix: parts that a thread adds up */
    JOINERS = 128
};

/* ---- which parameters ---- */

/* The dimension of a parameter that counts groups; -1: none does. */
static int side_of(const struct wisp_param *p)
{
    for (int d = 0; d < p->rank; d++)
        if (p->role == WISP_TRAINED && p->axis[d] == WISP_AXIS_OUT) return d;
    return -1;
}

/* The list of parameters, whose order is that of the bonds'. */
static const struct wisp_param *list_of(const struct wisp_graph *g)
{
    for (int i = 0; i < g->n_layers; i++)
        if (g->layers[i].n_params) return g->layers[i].params;
    return NULL;
}

static wisp_status add_side(struct wisp_dpenalty *d, const struct wisp_dnet *n, size_t layer, int k,
                            const struct wisp_param *list, const struct wisp_bonds *bonds,
                            const double *times, wisp_error *err)
{
    const struct wisp_layer *l = n->layers[layer].l;
    const struct wisp_param *p = &l->params[k];
    const int dim = side_of(p);
    if (dim < 0) return WISP_OK;
    if (!p->w || (dim > 0 && dim < p->rank - 1)) {
        char what[WISP_DWORDS];
        snprintf(what, sizeof what, "--group-penalty on layer %d, '%s',", l->number, l->kind->name);
        return wisp_dfail(err, WISP_ENOTSUP, WISP_CUDA_LACKS, what);
    }
    struct wisp_dside *s = &d->sides[d->n_sides++];
    *s = {};
    s->layer = layer, s->k = k, s->rows = dim == 0;
    s->n = wisp_param_side(p, dim), s->weights = p->n / s->n, s->start = p->start;
    s->of = (int32_t *)bonds->axis[p - list][dim], s->times = times[l->number];
    return WISP_OK;
}

wisp_status wisp_dpenalty_make(struct wisp_dpenalty *d, const struct wisp_dnet *n,
                               const struct wisp_graph *g, const struct wisp_bonds *bonds,
                               const double *times, wisp_error *err)
{
    size_t most = 0;
    *d = {};
    if (!bonds) return WISP_OK;
    for (size_t i = 0; i < n->n_layers; i++) most += (size_t)n->layers[i].l->n_params;
    d->n = bonds->n, d->fixed = bonds->fixed;
    d->sides = new (std::nothrow) wisp_dside[most];
    if (!d->sides) return wisp_dfail(err, WISP_ENOMEM, "no memory left for the card's plan");
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < n->n_layers; i++)
        for (int k = 0; k < n->layers[i].l->n_params && st == WISP_OK; k++)
            st = add_side(d, n, i, k, list_of(g), bonds, times, err);
    return st;
}

void wisp_dpenalty_clear(struct wisp_dpenalty *d)
{
    delete[] d->sides;
    *d = {};
}

/* ---- memory ---- */

static uint32_t chunks_of(const struct wisp_dside &s)
{
    return (uint32_t)wisp_parts(s.p.rows, s.chunk);
}

static uint32_t blocks_of(const struct wisp_dside &s)
{
    return s.rows ? (uint32_t)wisp_parts(s.n, WARPS) : s.tiles * chunks_of(s);
}

static size_t parts_of(const struct wisp_dside &s)
{
    return s.rows ? s.n : chunks_of(s) * s.p.cols;
}

void wisp_dpenalty_lay(struct wisp_dpenalty *d, const struct wisp_dnet *n, void *block, size_t *at)
{
    size_t ids = 0, entries = 0, parts = 0;
    if (!d->n_sides) return;
    d->n_blocks = 0;
    for (size_t i = 0; i < d->n_sides; i++) {
        struct wisp_dside *s = &d->sides[i];
        s->p = n->layers[s->layer].param[s->k];
        s->begin = s->start ? n->layers[s->layer].rows : NULL;
        s->chunk = wisp_most(LEAST_CHUNK, wisp_parts(s->p.rows, MOST_CHUNKS));
        s->tiles = (uint32_t)wisp_parts(s->p.cols, COLS);
        s->block = d->n_blocks, s->part = (uint32_t)parts;
        d->n_blocks += blocks_of(*s), parts += parts_of(*s);
        ids += s->n, entries += s->rows ? s->n : chunks_of(*s) * s->n;
    }
    d->n_parts = (uint32_t)parts;
    d->on_card = (struct wisp_dside *)wisp_dtake(block, at, d->n_sides * sizeof *d->on_card);
    d->of = (int32_t *)wisp_dtake(block, at, ids * sizeof *d->of);
    d->part = (double *)wisp_dtake(block, at, parts * sizeof *d->part);
    d->start = (uint32_t *)wisp_dtake(block, at, (d->n + 1) * sizeof *d->start);
    d->list = (uint32_t *)wisp_dtake(block, at, entries * sizeof *d->list);
    d->root = (double *)wisp_dtake(block, at, d->n * sizeof *d->root);
    d->scale = (float *)wisp_dtake(block, at, d->n * sizeof *d->scale);
}

/* Every part of a group, in the order in which they are added. */
template <class F> static void each_part(const struct wisp_dpenalty &d, F f)
{
    for (size_t i = 0; i < d.n_sides; i++) {
        const struct wisp_dside &s = d.sides[i];
        for (uint32_t c = 0; c < (s.rows ? 1 : chunks_of(s)); c++)
            for (size_t k = 0; k < s.n; k++)
                f((size_t)s.of[k], (uint32_t)(s.part + c * s.p.cols + k));
    }
}

static void fill_lists(struct wisp_dcopy *c, const struct wisp_dpenalty &d)
{
    uint32_t *start = new (std::nothrow) uint32_t[d.n + 2]();
    size_t n = 0;
    each_part(d, [&](size_t, uint32_t) { n++; });
    uint32_t *list = new (std::nothrow) uint32_t[n];
    if (!start || !list) {
        c->e = cudaErrorMemoryAllocation;
    } else {
        each_part(d, [&](size_t group, uint32_t) { start[group + 2]++; });
        for (size_t g = 2; g < d.n + 2; g++) start[g] += start[g - 1];
        each_part(d, [&](size_t group, uint32_t part) { list[start[group + 1]++] = part; });
        wisp_dcopy_bytes(c, d.start, start, (d.n + 1) * sizeof *start);
        wisp_dcopy_bytes(c, d.list, list, n * sizeof *list);
    }
    delete[] start;
    delete[] list;
}

static size_t weights_of(const struct wisp_dside &s, size_t k)
{
    return s.start ? (size_t)(s.start[k + 1] - s.start[k]) : s.weights;
}

/* The smallest factor of its layers that have one counts. */
static void fill_roots(struct wisp_dcopy *c, const struct wisp_dpenalty &d)
{
    double *root = new (std::nothrow) double[2 * d.n]();
    if (!root) {
        c->e = cudaErrorMemoryAllocation;
        return;
    }
    double *times = root + d.n;
    for (size_t g = 0; g < d.n; g++) times[g] = INFINITY;
    for (size_t i = 0; i < d.n_sides; i++)
        for (size_t k = 0; k < d.sides[i].n; k++) {
            const size_t g = (size_t)d.sides[i].of[k];
            root[g] += (double)weights_of(d.sides[i], k);
            times[g] = fmin(times[g], d.sides[i].times);
        }
    for (size_t g = 0; g < d.n; g++)
        root[g] =
            d.fixed[g] || times[g] == 0 ? -1 : (isinf(times[g]) ? 1 : times[g]) * sqrt(root[g]);
    wisp_dcopy_bytes(c, d.root, root, d.n * sizeof *root);
    delete[] root;
}

void wisp_dpenalty_fill(struct wisp_dcopy *c, const struct wisp_dpenalty &d)
{
    size_t at = 0;
    if (!d.n_sides) return;
    for (size_t i = 0; i < d.n_sides; i++) {
        struct wisp_dside s = d.sides[i];
        wisp_dcopy_bytes(c, d.of + at, s.of, s.n * sizeof *s.of);
        s.of = d.of + at;
        at += s.n;
        wisp_dcopy_bytes(c, d.on_card + i, &s, sizeof s);
    }
    fill_roots(c, d);
    fill_lists(c, d);
}

/* ---- kernels ---- */

/* Whose block this is. */
static __device__ struct wisp_dside side_here(const struct wisp_dpenalty &d)
{
    size_t lo = 0, hi = d.n_sides;
    while (hi - lo > 1) {
        const size_t mid = (lo + hi) / 2;
        if (d.on_card[mid].block <= blockIdx.x) lo = mid;
        else hi = mid;
    }
    return d.on_card[lo];
}

static __device__ double square(float x)
{
    return (double)x * (double)x;
}

/* Where a row begins, and how long it is; true: it lies in quads. */
static __device__ bool row_of(const struct wisp_dside &s, size_t row, size_t *at, size_t *n)
{
    *at = s.begin ? (size_t)s.begin[row] : row * s.p.cols;
    *n = s.begin ? (size_t)s.begin[row + 1] - *at : s.p.cols;
    return !s.begin && s.p.cols % 4 == 0;
}

/* A warp has a row. */
static __device__ void square_row(const struct wisp_dpenalty &d, const struct wisp_dside &s,
                                  size_t row, int lane)
{
    double sum = 0;
    size_t at, n;
    if (row >= s.n) return;
    if (row_of(s, row, &at, &n)) {
#pragma unroll 4
        for (size_t c = 4 * lane; c < n; c += COLS) {
            const float4 w = wisp_dquad(s.p.w + at + c);
            sum += (square(w.x) + square(w.y)) + (square(w.z) + square(w.w));
        }
    } else {
        for (size_t c = lane; c < n; c += 32) sum += square(s.p.w[at + c]);
    }
    for (int k = 16; k > 0; k /= 2) sum += __shfl_xor_sync(WISP_WARP, sum, k);
    if (lane == 0) d.part[s.part + row] = sum;
}

/* A lane has four columns, a warp every eighth row of the chunk. */
static __device__ void square_columns(const struct wisp_dpenalty &d, const struct wisp_dside &s,
                                      uint32_t tile, uint32_t chunk, int lane, int warp)
{
    __shared__ double sums[WARPS][COLS];
    const size_t col = (size_t)tile * COLS, c = col + 4 * lane;
    const size_t first = chunk * s.chunk,
                 end = first + s.chunk < s.p.rows ? first + s.chunk : s.p.rows;
    double x = 0, y = 0, z = 0, u = 0;
#pragma unroll 4
    for (size_t r = first + warp; r < end && c < s.p.cols; r += WARPS) {
        const float4 w = wisp_dquad(s.p.w + r * s.p.cols + c);
        x += square(w.x), y += square(w.y), z += square(w.z), u += square(w.w);
    }
    double *to = &sums[warp][4 * lane];
    to[0] = x, to[1] = y, to[2] = z, to[3] = u;
    __syncthreads();
    const size_t mine = threadIdx.x;
    if (mine >= COLS || col + mine >= s.p.cols) return;
    double sum = 0;
    for (int w = 0; w < WARPS; w++) sum += sums[w][mine];
    d.part[s.part + chunk * s.p.cols + col + mine] = sum;
}

static __global__ void __launch_bounds__(THREADS)
    add_squares(const __grid_constant__ struct wisp_dpenalty d)
{
    const struct wisp_dside s = side_here(d);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t b = blockIdx.x - s.block;
    if (s.rows) square_row(d, s, (size_t)b * WARPS + warp, lane);
    else square_columns(d, s, b % s.tiles, b / s.tiles, lane, warp);
}

/* A length that is no number stays one: the run will see it. */
static __global__ void __launch_bounds__(JOINERS)
    join_parts(const __grid_constant__ struct wisp_dpenalty d, double by)
{
    const size_t g = (size_t)blockIdx.x * JOINERS + threadIdx.x;
    if (g >= d.n) return;
    double sum = 0;
    for (uint32_t i = d.start[g]; i < d.start[g + 1]; i++) sum += d.part[d.list[i]];
    const double shorter = by * d.root[g], length = sqrt(sum);
    d.scale[g] = d.root[g] < 0 || length == 0 ? 1
                 : length <= shorter          ? 0
                                              : (float)(1 - shorter / length);
}

/* Zeros are +0, as a product with a negative weight would leave -0. */
static __device__ float scaled(float x, float by)
{
    return by == 0 ? 0 : x * by;
}

static __device__ void scale_quad(const struct wisp_dparam &p, size_t at, float4 by)
{
    float4 w = wisp_dquad(p.w + at);
    w = make_float4(scaled(w.x, by.x), scaled(w.y, by.y), scaled(w.z, by.z), scaled(w.w, by.w));
    wisp_dquad_to(p.w + at, w);
    if (p.copy) wisp_dquad_to(p.copy + at, w);
    if (!p.m || (by.x != 0 && by.y != 0 && by.z != 0 && by.w != 0)) return;
    const float4 m = wisp_dquad(p.m + at);
    wisp_dquad_to(p.m + at, make_float4(by.x == 0 ? 0 : m.x, by.y == 0 ? 0 : m.y,
                                        by.z == 0 ? 0 : m.z, by.w == 0 ? 0 : m.w));
}

/* The same of one; such parameters have no copies. */
static __device__ void scale_one(const struct wisp_dparam &p, size_t at, float by)
{
    p.w[at] = scaled(p.w[at], by);
    if (p.m && by == 0) p.m[at] = 0;
}

static __device__ void scale_row(const struct wisp_dside &s, size_t row, float by, int lane)
{
    size_t at, n;
    if (row_of(s, row, &at, &n))
        for (size_t c = 4 * lane; c < n; c += COLS)
            scale_quad(s.p, at + c, make_float4(by, by, by, by));
    else
        for (size_t c = lane; c < n; c += 32) scale_one(s.p, at + c, by);
}

/* Of a row or a column; padding stays. */
static __device__ float by_of(const struct wisp_dpenalty &d, const struct wisp_dside &s, size_t c)
{
    return c < s.n ? d.scale[s.of[c]] : 1;
}

static __global__ void __launch_bounds__(THREADS)
    scale(const __grid_constant__ struct wisp_dpenalty d)
{
    const struct wisp_dside s = side_here(d);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t b = blockIdx.x - s.block;
    if (s.rows) {
        const size_t row = (size_t)b * WARPS + warp;
        const float x = by_of(d, s, row);
        if (x != 1) scale_row(s, row, x, lane);
        return;
    }
    const size_t c = (size_t)(b % s.tiles) * COLS + 4 * lane;
    const size_t first = b / s.tiles * s.chunk,
                 end = first + s.chunk < s.p.rows ? first + s.chunk : s.p.rows;
    if (c >= s.p.cols) return;
    const float4 by =
        make_float4(by_of(d, s, c), by_of(d, s, c + 1), by_of(d, s, c + 2), by_of(d, s, c + 3));
    if (by.x == 1 && by.y == 1 && by.z == 1 && by.w == 1) return;
    for (size_t r = first + warp; r < end; r += WARPS) scale_quad(s.p, r * s.p.cols + c, by);
}

void wisp_dpenalty_move(const struct wisp_dpenalty &d, double by, cudaStream_t s)
{
    if (!d.n_sides || !d.n) return;
    add_squares<<<d.n_blocks, THREADS, 0, s>>>(d);
    join_parts<<<(unsigned)wisp_parts(d.n, JOINERS), JOINERS, 0, s>>>(d, by);
    scale<<<d.n_blocks, THREADS, 0, s>>>(d);
}
