/* What the kernels of a training step share: where things lie on the card.
 *
 * A step is a fixed list of launches, captured once as a graph and replayed (those of ranks are
 * launched, ranks.cuh).  So nothing that differs from step to step is an argument: sizes and
 * pointers of the batch lie in a struct on the card (wisp_dnow), which the first kernel of the step
 * fills in; grids are those of the largest batch, and blocks without work return at once.
 *
 * No float is added by an atomic, and nothing depends on the order in which blocks run: a run
 * repeats bit for bit. */
#ifndef WISP_CUDA_STEP_CUH
#define WISP_CUDA_STEP_CUH

#include "base/bounds.h"
#include "graph/ids.h"
#include "graph/planes.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

struct wisp_dparam { /* a parameter: model's struct wisp_param, on the card */
    size_t rows, cols;
    float *w; /* (rows, cols) one of these two */
    __nv_bfloat16 *b16;
    __nv_bfloat16 *copy; /* (rows, cols) w rounded, kept up by whoever moves a row; NULL: none */
    float *m, *v;        /* (rows, cols) what the optimiser uses, else NULL */
    float *g2;           /* (rows) */
    uint32_t *count;     /* (rows) */
    float decay;         /* what an update takes from weights: this share, times the rate */
    /* Of a batch that ranks divide (ranks.cuh): this rank's gradient, where w has its number, and 1
     * for each row that has one; NULL: rows move where their gradients are made. */
    float *grad, *flag;
};

/* Besides the host's optimisers: no row moves, its gradient is kept (struct wisp_dparam). */
constexpr enum wisp_optimizer_id WISP_DKEEP = WISP_OPTIMIZERS;

struct wisp_dopt { /* the optimiser */
    enum wisp_optimizer_id kind;
    float momentum;
    const float *correct1, *correct2; /* (WISP_CLOCK_FACTORS) 1 - beta^t */
};

struct wisp_dnow { /* this step's batch, in device memory */
    uint32_t n;    /* samples; 0: nothing to do */
    /* Of a batch that ranks divide: samples of the ranks before this one, a multiple of 4, and of all
     * ranks; 0: all are here. */
    uint32_t before, all;
    uint64_t step, seed;
    float lr;
    const uint32_t *id;             /* (n) number of each sample's row in the training set */
    const struct wisp_moved *moved; /* (n) how its image is; NULL: not at all */
    /* sample i's features: xi, xv [xp[i] .. xp[i] + xn[i]) ; values are transformed */
    const uint32_t *xp, *xn;
    const int32_t *xi;
    const float *xv;
    /* its labels, ascending: yi [yp[i] .. yp[i+1]); yp[0] need not be 0 */
    const uint32_t *yp;
    const int32_t *yi;
    /* the same features by feature: sample ts[e] has value tv[e] of feature touched[t], for e in
     * tp[t] .. tp[t+1], samples ascending */
    uint32_t n_touched;
    const int32_t *touched; /* (n_touched) ascending */
    const uint32_t *tp;     /* (n_touched + 1); tp[0] need not be 0 */
    const uint32_t *ts;
    const float *tv;
    /* and the labels by label */
    uint32_t n_distinct;
    const int32_t *distinct; /* (n_distinct) ascending */
    const uint32_t *lp;      /* (n_distinct + 1) */
    const uint32_t *ls;      /* sample, ascending */
};

/* Samples of the whole batch, wherever they are. */
__device__ inline uint32_t wisp_dall(const struct wisp_dnow *now)
{
    return now->all ? now->all : now->n;
}

struct wisp_dactive { /* the rows of the output layer that this step computes */
    size_t n_rows, room;
    uint32_t *n;      /* how many, on the card */
    int32_t *rows;    /* (room) ascending */
    uint32_t *bits;   /* (n_rows / 32 + 1) row is in: bit row % 32 of word row / 32 */
    uint32_t *before; /* (n_rows / 32 + 1) rows in all words before this one */
};

/* The place of a row that is in. */
__device__ inline uint32_t wisp_dplace(const struct wisp_dactive &a, int32_t row)
{
    uint32_t word = (uint32_t)row / 32;
    return a.before[word] + (uint32_t)__popc(a.bits[word] & ((1u << row % 32) - 1));
}

/* ---- random numbers: base/rand.h, on the card ---- */

__host__ __device__ inline uint64_t wisp_dmix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

__host__ __device__ inline uint64_t wisp_drand(uint64_t seed, uint64_t stream, uint64_t i)
{
    uint64_t key = wisp_dmix(seed + 0x9e3779b97f4a7c15u * (stream + 1));
    return wisp_dmix(key + 0x9e3779b97f4a7c15u * (i + 1));
}

__device__ inline double wisp_drand_unit(uint64_t seed, uint64_t stream, uint64_t i)
{
    return ((double)(wisp_drand(seed, stream, i) >> 11) + 0.5) * 0x1p-53;
}

__device__ inline uint64_t wisp_drand_below(uint64_t seed, uint64_t stream, uint64_t i, uint64_t n)
{
    return __umul64hi(wisp_drand(seed, stream, i), n);
}

/* ---- keys: a row with its score as one number, larger is better (hash/best.h) ---- */

__device__ inline uint64_t wisp_dkey(float score, int32_t row)
{
    uint32_t bits = __float_as_uint(score + 0.0f);
    bits ^= bits >> 31 ? 0xffffffffu : 0x80000000u;
    return (uint64_t)bits << 32 | (uint32_t)~row;
}
__device__ inline int32_t wisp_dkey_row(uint64_t key)
{
    return (int32_t) ~(uint32_t)key;
}
__device__ inline float wisp_dkey_score(uint64_t key)
{
    uint32_t bits = (uint32_t)(key >> 32);
    return __uint_as_float(bits ^ (bits >> 31 ? 0x80000000u : 0xffffffffu));
}

/* ---- rows ---- */

/* Four weights from column c on; c and cols are multiples of 4. */
__device__ inline float4 wisp_dweights(const struct wisp_dparam &p, size_t row, size_t c)
{
    size_t at = row * p.cols + c;
    if (p.w) return *(const float4 *)(p.w + at);
    uint2 h = *(const uint2 *)(p.b16 + at);
    return make_float4(__uint_as_float(h.x << 16), __uint_as_float(h.x & 0xffff0000u),
                       __uint_as_float(h.y << 16), __uint_as_float(h.y & 0xffff0000u));
}

/* The same, rounded: from the copy, where there is one. */
__device__ inline float4 wisp_drounded(const struct wisp_dparam &p, size_t row, size_t c)
{
    struct wisp_dparam half = p;
    if (p.copy) half.w = NULL, half.b16 = p.copy;
    return wisp_dweights(half, row, c);
}

#endif
