/* Moving a row by its gradient: the optimisers of model/optimizer.c, one warp per row.
 *
 * Lane l holds columns 4 l .. 4 l + 3 of every 128: weights, moments and gradient are read and
 * written 16 bytes per lane.  Widths are multiples of 4; lanes beyond the width hold zeros. */
#ifndef WISP_CUDA_UPDATE_CUH
#define WISP_CUDA_UPDATE_CUH

#include "cuda/quad.cuh"
#include "cuda/step.cuh"

#define WISP_WARP 0xffffffffu

__device__ inline float wisp_warp_sum(float x) /* the same in all lanes, in a fixed order */
{
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(WISP_WARP, x, d);
    return x;
}

/* The same of all threads of a block, at most 1024; sums (32): shared. */
__device__ inline float wisp_block_sum(float x, float *sums)
{
    x = wisp_warp_sum(x);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (uint32_t w = 0; w < blockDim.x / 32; w++) x += sums[w];
    return x;
}

/* Writes four weights; halves are rounded up or down at random like axpy16 of the kernels: the
 * lower bits of random + i * 40503 are added before those of the float are cut off. */
__device__ inline void wisp_dstore(const struct wisp_dparam &p, size_t row, size_t c, float4 w,
                                   uint32_t random)
{
    size_t at = row * p.cols + c;
    if (p.w) {
        *(float4 *)(p.w + at) = w;
        if (p.copy) {
            *(__nv_bfloat162 *)(p.copy + at) = __floats2bfloat162_rn(w.x, w.y);
            *(__nv_bfloat162 *)(p.copy + at + 2) = __floats2bfloat162_rn(w.z, w.w);
        }
        return;
    }
    float x[4] = { w.x, w.y, w.z, w.w };
    uint32_t half[4];
    for (int i = 0; i < 4; i++) {
        uint32_t bits = __float_as_uint(x[i]), low = (random + (uint32_t)(c + i) * 40503u) & 0xffff;
        if ((bits & 0x7f800000) != 0x7f800000) bits += low;
        half[i] = bits >> 16;
    }
    *(uint2 *)(p.b16 + at) = make_uint2(half[0] | half[1] << 16, half[2] | half[3] << 16);
}

/* Four columns of a row, with what the optimiser keeps of them. */
struct wisp_dcols {
    float4 w, m, v;
};

__device__ inline struct wisp_dcols wisp_dcols_of(const struct wisp_dopt &o,
                                                  const struct wisp_dparam &p, size_t row, size_t c)
{
    size_t at = row * p.cols + c;
    struct wisp_dcols x;
    x.w = wisp_dweights(p, row, c);
    x.m = x.v = make_float4(0, 0, 0, 0);
    if (o.kind == WISP_ADAM || o.kind == WISP_SGD) x.m = *(const float4 *)(p.m + at);
    if (o.kind == WISP_ADAM) x.v = *(const float4 *)(p.v + at);
    return x;
}

/* How far a row moves. */
struct wisp_dpace {
    float rate, eps;
    float left; /* of weights that decay; SGD adds to the gradient instead (model/optimizer.c) */
    uint32_t random; /* for weights of bf16 */
    bool moves;
};

/* kept: g2 of the row, or its count as bits, which become the new ones; square: the mean square of
 * the gradient, for AdaGrad. */
__device__ inline struct wisp_dpace wisp_dpace_of(const struct wisp_dopt &o,
                                                  const struct wisp_dparam &p, size_t row,
                                                  float *kept, float square, float lr,
                                                  uint64_t step)
{
    struct wisp_dpace x = { lr, 0, 1 - lr * p.decay, 0, true };
    if (p.b16) /* bits_for() of model/optimizer.c: both devices round alike */
        x.random = (uint32_t)wisp_dmix((step + 1) * 0x9e3779b97f4a7c15u + row * p.cols);
    if (o.kind == WISP_ADAM) {
        uint32_t t = __float_as_uint(*kept);
        if (t < WISP_CLOCK_MAX) t++; /* not beyond it: state.c has looked */
        *kept = __uint_as_float(t);
        float root = sqrtf(o.correct2[t]);
        x.rate = lr * root / o.correct1[t];
        x.eps = WISP_ADAM_EPS * root;
    } else if (o.kind == WISP_ADAGRAD) {
        *kept += square;
        x.moves = *kept > 0;
        x.rate = lr / sqrtf(*kept);
    }
    return x;
}

/* Where the optimiser keeps one number of a row: as bits, read and written; NULL: nowhere. */
__device__ inline float *wisp_dkept(const struct wisp_dopt &o, const struct wisp_dparam &p,
                                    size_t row)
{
    if (o.kind == WISP_ADAM) return (float *)(p.count + row);
    return o.kind == WISP_ADAGRAD ? p.g2 + row : NULL;
}

/* Moves four columns by their gradient g, and writes them. */
__device__ inline void wisp_dcols_move(const struct wisp_dopt &o, const struct wisp_dparam &p,
                                       size_t row, size_t c, struct wisp_dcols x, float4 g,
                                       const struct wisp_dpace &pace)
{
    const float B1 = WISP_ADAM_BETA1, B2 = WISP_ADAM_BETA2;
    size_t at = row * p.cols + c;
    float *ms = &x.m.x, *vs = &x.v.x, *ws = &x.w.x;
    const float *gs = &g.x;
    if (o.kind == WISP_DKEEP) {
        *(float4 *)(p.grad + at) = g;
        if (c == 0) p.flag[row] = 1;
        return;
    }
    if (o.kind == WISP_ADAM) {
        for (int i = 0; i < 4; i++) {
            ms[i] = B1 * ms[i] + (1 - B1) * gs[i];
            vs[i] = B2 * vs[i] + (1 - B2) * gs[i] * gs[i];
            float d = sqrtf(vs[i]) + pace.eps; /* 0 only where all gradients so far were 0 */
            ws[i] *= pace.left;
            if (d != 0) ws[i] -= pace.rate * ms[i] / d;
        }
        *(float4 *)(p.m + at) = x.m;
        *(float4 *)(p.v + at) = x.v;
    } else if (o.kind == WISP_SGD) {
        for (int i = 0; i < 4; i++) {
            ms[i] = o.momentum * ms[i] + (gs[i] + p.decay * ws[i]);
            ws[i] -= pace.rate * ms[i];
        }
        *(float4 *)(p.m + at) = x.m;
    } else {
        for (int i = 0; i < 4; i++) ws[i] = ws[i] * pace.left - pace.rate * gs[i];
    }
    wisp_dstore(p, row, c, x.w, pace.random);
}

/* A row of at most 128 columns, by a warp: x and kept were read before, g is this lane's part of
 * the gradient.  Lanes beyond the last column only join in. */
__device__ inline void wisp_dmove_ready(const struct wisp_dopt &o, const struct wisp_dparam &p,
                                        size_t row, struct wisp_dcols x, float kept, float4 g,
                                        float lr, uint64_t step)
{
    const int lane = threadIdx.x % 32;
    const bool in = 4 * lane < p.cols;
    float sum = 0, *home = wisp_dkept(o, p, row);
    if (o.kind == WISP_ADAGRAD)
        sum = wisp_warp_sum(in ? g.x * g.x + g.y * g.y + g.z * g.z + g.w * g.w : 0) / (float)p.cols;
    const struct wisp_dpace pace = wisp_dpace_of(o, p, row, &kept, sum, lr, step);
    __syncwarp(); /* all lanes have read what is kept */
    if (lane == 0 && home) *home = kept;
    if (pace.moves && in) wisp_dcols_move(o, p, row, 4 * lane, x, g, pace);
}

/* g: the row's gradient in shared or device memory, (cols) floats at a multiple of 16 bytes.  All
 * lanes of a warp call it.  used: of the columns those that are the host's, of which means are taken;
 * 0: all. */
__device__ inline void wisp_dmove(const struct wisp_dopt &o, const struct wisp_dparam &p,
                                  size_t row, const float *g, float lr, uint64_t step,
                                  size_t used = 0)
{
    const int lane = threadIdx.x % 32;
    float sum = 0, *home = wisp_dkept(o, p, row), kept = home ? *home : 0;
    if (o.kind == WISP_ADAGRAD) {
        for (size_t c = 4 * lane; c < p.cols; c += 128) {
            float4 x = *(const float4 *)(g + c);
            sum += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
        }
        sum = wisp_warp_sum(sum) / (float)(used ? used : p.cols);
    }
    const struct wisp_dpace pace = wisp_dpace_of(o, p, row, &kept, sum, lr, step);
    __syncwarp();
    if (lane == 0 && home) *home = kept;
    if (!pace.moves) return;
    for (size_t c = 4 * lane; c < p.cols; c += 128)
        wisp_dcols_move(o, p, row, c, wisp_dcols_of(o, p, row, c), *(const float4 *)(g + c), pace);
}

/* wisp_dmove by all threads of a block, at most 1024; g may be bf16.  sums (32): shared. */
template <class T>
__device__ inline void wisp_dmove_block(const struct wisp_dopt &o, const struct wisp_dparam &p,
                                        size_t row, const T *g, float lr, uint64_t step,
                                        size_t used, float *sums)
{
    float sum = 0, *home = wisp_dkept(o, p, row), kept = home ? *home : 0;
    if (o.kind == WISP_ADAGRAD) {
        for (size_t c = 4 * threadIdx.x; c < p.cols; c += 4 * blockDim.x) {
            const float4 x = wisp_dquad(g + c);
            sum += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
        }
        sum = wisp_block_sum(sum, sums) / (float)used;
    }
    const struct wisp_dpace pace = wisp_dpace_of(o, p, row, &kept, sum, lr, step);
    if (home) __syncthreads(); /* all have read what is kept */
    if (threadIdx.x == 0 && home) *home = kept;
    if (!pace.moves) return;
    for (size_t c = 4 * threadIdx.x; c < p.cols; c += 4 * blockDim.x)
        wisp_dcols_move(o, p, row, c, wisp_dcols_of(o, p, row, c), wisp_dquad(g + c), pace);
}

/* Moves one weight by its gradient. */
__device__ inline void wisp_dmove_weight(const struct wisp_dopt &o, const struct wisp_dparam &p,
                                         size_t at, float g, const struct wisp_dpace &pace)
{
    const float B1 = WISP_ADAM_BETA1, B2 = WISP_ADAM_BETA2;
    if (o.kind == WISP_DKEEP) {
        p.grad[at] = g;
    } else if (o.kind == WISP_ADAM) {
        float m = p.m[at] = B1 * p.m[at] + (1 - B1) * g;
        float v = p.v[at] = B2 * p.v[at] + (1 - B2) * g * g;
        float d = sqrtf(v) + pace.eps;
        p.w[at] *= pace.left;
        if (d != 0) p.w[at] -= pace.rate * m / d;
    } else if (o.kind == WISP_SGD) {
        float m = p.m[at] = o.momentum * p.m[at] + (g + p.decay * p.w[at]);
        p.w[at] -= pace.rate * m;
    } else {
        p.w[at] = p.w[at] * pace.left - pace.rate * g;
    }
}

/* wisp_dmove for rows of floats with any number of columns, one lane per column at a time: the few
 * weights of a sparse layer's output, n of them from number 'first' on. */
__device__ inline void wisp_dmove_few(const struct wisp_dopt &o, const struct wisp_dparam &p,
                                      size_t row, size_t first, size_t n, const float *g, float lr,
                                      uint64_t step)
{
    const int lane = threadIdx.x % 32;
    float sum = 0, *home = wisp_dkept(o, p, row), kept = home ? *home : 0;
    for (size_t c = lane; c < n && o.kind == WISP_ADAGRAD; c += 32) sum += g[c] * g[c];
    if (o.kind == WISP_ADAGRAD) sum = wisp_warp_sum(sum) / (float)n;
    const struct wisp_dpace pace = wisp_dpace_of(o, p, row, &kept, sum, lr, step);
    __syncwarp(); /* all lanes have read what is kept */
    if (lane == 0 && home) *home = kept;
    if (lane == 0 && o.kind == WISP_DKEEP) p.flag[row] = 1;
    for (size_t c = lane; c < n && pace.moves; c += 32)
        wisp_dmove_weight(o, p, first + c, g[c], pace);
}

/* The same for a whole row by all threads of a block, at most 1024.  sums (32): shared. */
__device__ inline void wisp_dmove_many(const struct wisp_dopt &o, const struct wisp_dparam &p,
                                       size_t row, const float *g, float lr, uint64_t step,
                                       float *sums)
{
    float sum = 0, *home = wisp_dkept(o, p, row), kept = home ? *home : 0;
    if (o.kind == WISP_ADAGRAD) {
        for (size_t c = threadIdx.x; c < p.cols; c += blockDim.x) sum += g[c] * g[c];
        sum = wisp_block_sum(sum, sums) / (float)p.cols;
    }
    const struct wisp_dpace pace = wisp_dpace_of(o, p, row, &kept, sum, lr, step);
    if (home) __syncthreads(); /* all have read what is kept */
    if (threadIdx.x == 0 && home) *home = kept;
    if (threadIdx.x == 0 && o.kind == WISP_DKEEP) p.flag[row] = 1;
    for (size_t c = threadIdx.x; c < p.cols && pace.moves; c += blockDim.x)
        wisp_dmove_weight(o, p, row * p.cols + c, g[c], pace);
}

/* For a row of one column (a bias of the output layer): one thread. */
__device__ inline void wisp_dmove_one(const struct wisp_dopt &o, const struct wisp_dparam &p,
                                      size_t row, float g, float lr)
{
    float *home = wisp_dkept(o, p, row), kept = home ? *home : 0;
    const struct wisp_dpace pace = wisp_dpace_of(o, p, row, &kept, g * g, lr, 0);
    if (home) *home = kept;
    if (o.kind == WISP_DKEEP) p.flag[row] = 1;
    if (pace.moves) wisp_dmove_weight(o, p, row, g, pace);
}

#endif
