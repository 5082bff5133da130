/* The loss of the output layer, and its targets: between the logits and the two products of the way
 * back (out.cu).
 *
 *     combine   over all tiles: loss and factor of a sample; E of its true labels less target /
 *               factor; the panel f h
 *
 * Where the sum of a sample's E is far from 1 (its logits are beyond what exp has numbers for, and
 * nobody had looked at them: --sampling full), combine makes its E anew, relative to the best logit.
 *
 * With a smoothing s the targets are (1 - s) t + s / U.  What all rows have alike is taken from E
 * afterwards; its part of the loss is s / U times the sum of all logits, h . (sum of w) + sum of b. */
#include "cuda/out.cuh"

enum { AT_ONCE = 4 };                        /* labels of a warp at a time */
enum { ROWS_A_PART = 512, LEVEL_ROWS = 16 }; /* of sums of all rows; of a thread */

size_t wisp_out_row_parts(const struct wisp_dout &o)
{
    return up(o.active.room, ROWS_A_PART) / ROWS_A_PART;
}

/* ---- what all rows have alike of a sample's targets ---- */

__device__ static float level_of(const struct wisp_dout &o)
{
    return o.smoothing / (float)*o.active.n;
}

/* Sums of the rows of a part, one column per thread, and of their biases. */
template <class T>
__global__ static void __launch_bounds__(C_THREADS)
    sum_part(struct wisp_dout o, struct panels<T> p, size_t k)
{
    size_t c = (size_t)blockIdx.y * C_THREADS + threadIdx.x, n_rows = *o.active.n;
    size_t begin = (size_t)blockIdx.x * ROWS_A_PART;
    size_t end = begin + ROWS_A_PART < n_rows ? begin + ROWS_A_PART : n_rows;
    float sum = 0;
    if (c > k) return;
    for (size_t row = begin; row < end; row++)
        sum += c < k ? as_float(p.w[row * k + c]) : o.b_panel[row];
    o.part_rows[blockIdx.x * (k + 1) + c] = sum;
}

__global__ static void __launch_bounds__(C_THREADS) sum_parts(struct wisp_dout o, size_t k)
{
    size_t c = (size_t)blockIdx.x * C_THREADS + threadIdx.x;
    const size_t parts = up(*o.active.n, ROWS_A_PART) / ROWS_A_PART;
    double sum = 0;
    if (c > k) return;
    for (size_t i = 0; i < parts; i++) sum += o.part_rows[i * (k + 1) + c];
    o.all_rows[c] = sum;
}

/* A thread has some rows of a sample. */
template <class T>
__global__ static void __launch_bounds__(C_THREADS)
    subtract_level(struct wisp_dout o, struct panels<T> p)
{
    size_t i = (size_t)blockIdx.y * C_THREADS + threadIdx.x, n_rows = *o.active.n;
    if (i >= o.now->n || o.factor[i] == 0) return;
    float less = level_of(o) / (float)wisp_dall(o.now) / o.factor[i];
    const size_t begin = (size_t)blockIdx.x * LEVEL_ROWS;
    for (size_t row = begin; row < begin + LEVEL_ROWS && row < n_rows; row++) {
        T *e = p.e + row * o.lde + i;
        put(e, as_float(*e) - less);
    }
}

/* ---- combine ---- */

/* Logits of true labels y .. y + AT_ONCE - 1 of sample i, as E came from them; lane q < AT_ONCE
 * gets that of label y + q, and its place.  A warp. */
template <class T>
__device__ static float logits_of(uint32_t *place, const struct wisp_dout &o,
                                  const struct panels<T> &p, size_t k, size_t i, uint32_t y,
                                  uint32_t end)
{
    const int lane = threadIdx.x % 32;
    const T *h = p.h + i * k;
    float sum[AT_ONCE] = {};
    bool mine = lane < AT_ONCE && y + lane < end;
    *place = mine ? wisp_dplace(o.active, o.now->yi[y + lane]) : 0;
    const T *w[AT_ONCE];
#pragma unroll
    for (int q = 0; q < AT_ONCE; q++) w[q] = p.w + __shfl_sync(WISP_WARP, *place, q) * k;
    for (size_t c = 2 * lane; c < o.width; c += 64) {
        float h0 = as_float(h[c]), h1 = as_float(h[c + 1]);
#pragma unroll
        for (int q = 0; q < AT_ONCE; q++)
            sum[q] += as_float(w[q][c]) * h0 + as_float(w[q][c + 1]) * h1;
    }
    float z = 0;
#pragma unroll
    for (int q = 0; q < AT_ONCE; q++) {
        sum[q] = wisp_warp_sum(sum[q]);
        if (lane == q) z = sum[q];
    }
    return mine ? z + o.b_panel[*place] : 0;
}

/* The logit of active row r for sample i, by a warp: the same in all lanes. */
template <class T>
__device__ static float logit_of(const struct wisp_dout &o, const struct panels<T> &p, size_t k,
                                 size_t i, size_t r)
{
    float sum = 0;
    for (size_t c = threadIdx.x % 32; c < o.width; c += 32)
        sum += as_float(p.w[r * k + c]) * as_float(p.h[i * k + c]);
    return wisp_warp_sum(sum) + o.b_panel[r];
}

struct settled {
    float origin;
    double sum;
};

/* As layer/out_combine.c does: E of sample i relative to its best logit, and their sum.  By a block;
 * rare, so each warp takes a row at a time, twice. */
template <class T>
__device__ static __noinline__ struct settled settle(const struct wisp_dout &o,
                                                     const struct panels<T> &p, size_t k, size_t i,
                                                     double *work)
{
    __shared__ float tops[C_THREADS / 32];
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t n_rows = *o.active.n;
    float top = -INFINITY;
    for (size_t r = warp; r < n_rows; r += C_THREADS / 32)
        top = fmaxf(top, logit_of(o, p, k, i, r));
    if (lane == 0) tops[warp] = top;
    __syncthreads();
    for (int w = 0; w < C_THREADS / 32; w++) top = fmaxf(top, tops[w]);
    const float origin = fabsf(top) < INFINITY ? top : 0; /* else the loss is no number, either */
    double sum = 0;
    for (size_t r = warp; r < n_rows; r += C_THREADS / 32) {
        float term;
        const float e = value_and_term<T>(&term, WISP_SOFTMAX, logit_of(o, p, k, i, r), origin);
        if (lane == 0) put(p.e + r * o.lde + i, e), sum += term;
    }
    return { origin, sum_all(sum, work) };
}

/* e^50: beyond it, and below its reciprocal, logits are far from 0 (WISP_DFAR).  Sums that are no
 * numbers are, too. */
__device__ static bool is_far(double sum)
{
    const double most = 5.184705528587072e21;
    return !(sum <= most && sum * most >= 1);
}

/* One block per sample.  Logits of the first true labels are found while sums are on their way. */
template <class T, bool SMOOTHED>
__global__ static void __launch_bounds__(C_THREADS, sizeof(T) == 2 ? 8 : 6)
    combine(const __grid_constant__ struct wisp_dout o, const __grid_constant__ struct panels<T> p,
            size_t k)
{
    enum { AHEAD = 4 };
    __shared__ double work[C_THREADS / 32];
    const struct wisp_dnow *now = o.now;
    const uint32_t lane = threadIdx.x % 32;
    size_t i = blockIdx.x, n = now->n, n_tiles = up(*o.active.n, BM) / BM;
    bool softmax = o.loss == WISP_SOFTMAX;
    double loss = 0;
    float factor = 0;
    const float all = (float)wisp_dall(now);
    if (i < n) {
        uint32_t first = now->yp[i], n_true = now->yp[i + 1] - first, end = first + n_true, place;
        float origin = o.origin[i], target = (softmax ? 1.0f / (float)n_true : 1.0f);
        if (SMOOTHED) target *= 1 - o.smoothing;
        float part[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            size_t t = threadIdx.x + a * C_THREADS;
            part[a] = t < n_tiles ? o.block_sum[t * o.lde + i] : 0;
        }
        uint32_t y = first + threadIdx.x / 32 * AT_ONCE;
        float z = y < end ? logits_of(&place, o, p, k, i, y, end) : 0;
        double sum = 0, labels = 0;
#pragma unroll
        for (int a = 0; a < AHEAD; a++) sum += part[a];
        for (size_t t = threadIdx.x + AHEAD * C_THREADS; t < n_tiles; t += C_THREADS)
            sum += o.block_sum[t * o.lde + i];
        sum = sum_all(sum, work);
        if (softmax && n_tiles && !o.tile_max && is_far(sum)) {
            const struct settled anew = settle(o, p, k, i, work);
            origin = anew.origin, sum = anew.sum;
        }
        if (n_tiles && (n_true || !softmax)) {
            factor = (float)(softmax ? 1 / sum : 1.0) / all;
            loss = softmax ? origin + log(sum) : sum;
        }
        while (y < end) {
            if (lane < AT_ONCE && y + lane < end) {
                float term, value = value_and_term<float>(&term, o.loss, z, origin);
                labels += (double)target * z;
                if (factor > 0) put(p.e + place * o.lde + i, value - target / all / factor);
            }
            y += AT_ONCE * (C_THREADS / 32);
            if (y < end) z = logits_of(&place, o, p, k, i, y, end);
        }
        if (SMOOTHED && factor > 0) {
            double logits = threadIdx.x == 0 ? o.all_rows[k] : 0;
            for (size_t c = threadIdx.x; c < o.width; c += C_THREADS)
                logits += as_float(p.h[i * k + c]) * o.all_rows[c];
            labels += level_of(o) * logits;
        }
        loss -= sum_all(labels, work);
    }
    if (threadIdx.x == 0) {
        o.factor[i] = factor;
        o.losses[i] = i < n ? loss : 0;
    }
    for (size_t c = threadIdx.x; c < k; c += C_THREADS)
        put(p.fh + i * k + c, i < n && c < o.width ? factor * o.h[i * o.width + c] : 0);
}

/* ---- launches ---- */

template <class T> static void combine_all(const struct wisp_dout &o, cudaStream_t s)
{
    const struct panels<T> p = panels_of<T>(o);
    const size_t k = depth_of(o), columns = up(k + 1, C_THREADS) / C_THREADS;
    const dim3 samples = dim3(o.lde, 1, 1);
    if (!(o.smoothing > 0)) {
        combine<T, false><<<samples, C_THREADS, 0, s>>>(o, p, k);
        return;
    }
    sum_part<T><<<dim3(wisp_out_row_parts(o), columns, 1), C_THREADS, 0, s>>>(o, p, k);
    sum_parts<<<dim3(columns, 1, 1), C_THREADS, 0, s>>>(o, k);
    combine<T, true><<<samples, C_THREADS, 0, s>>>(o, p, k);
    subtract_level<T><<<dim3(up(o.active.room, LEVEL_ROWS) / LEVEL_ROWS, o.lde / C_THREADS, 1),
                        C_THREADS, 0, s>>>(o, p);
}

void wisp_out_combine(const struct wisp_dout &o, cudaStream_t s)
{
    if (o.precision == WISP_IN_BF16) combine_all<__nv_bfloat16>(o, s);
    else combine_all<float>(o, s);
}
