/* Batch norm: layer/bn.c, on the card.
 *
 *   forward   mean and variance of each unit over the batch (or, predicting, the running ones);
 *             h = after((x - mean) / sqrt(variance + eps) * scale + shift)
 *   back      sums of g and of g xhat over the batch;
 *             gx = scale / deviation * (g - sum g / n - xhat * sum(g xhat) / n)
 *             scale and shift move by the sums, and the running means by what forward measured
 *
 * A block has 32 units and all samples: of 16 samples in a row each warp takes one, one lane per
 * unit, and the warps' sums are added in their order.  The running means move on the way back
 * alone: a step goes forward a second time where hash tables are made anew.
 *
 * Of a batch that ranks divide, means and sums are those of all its samples, on planes, too (planes.cu):
 * each rank measures its own, and what comes of all of them takes their place.  Of n numbers with mean
 * m and sum of squared distances q the ranks add up n m, q and n m^2, as doubles, so that the last may
 * be far larger than what is left of it. */
#include "cuda/kind.cuh"
#include "cuda/ranks.cuh"
#include "cuda/update.cuh"

enum { SIDE = 32, WARPS = 16, THREADS = 32 * WARPS, QUADS = SIDE / 4 };
enum { SCALE, SHIFT, MEAN, VARIANCE }; /* parameters (1, width) */
enum { MOMENTUM, EPS };                /* arguments */

struct norm {
    const struct wisp_dnow *now;
    size_t width;
    float momentum, eps;
    struct wisp_dparam scale, shift, mean, variance;
    float *measured; /* (3, width) mean, 1 / deviation, variance: kept, when training */
    const float *x;
};

/* The sum over samples of what f says of each, the same in all warps; lanes may differ. */
template <class F>
static __device__ float over_samples(float (&part)[WARPS][SIDE], uint32_t n, const F &f)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sum = 0;
    for (uint32_t i = warp; i < n; i += WARPS) sum += f(i);
    __syncthreads(); /* all have read the sums before these */
    part[warp][lane] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < WARPS; w++) sum += part[w][lane];
    return sum;
}

/* ---- forward ---- */

/* Whose mean and variance: the running ones, the batch's own, those that were measured before. */
enum whose { RUNNING, OWN, MEASURED };

/* Of the samples that are here; n at least 1. */
static __device__ void measure_unit(float (&part)[WARPS][SIDE], const struct norm &l, size_t unit,
                                    float *mean, float *variance)
{
    const uint32_t n = l.now->n;
    const float m = over_samples(part, n, [&](uint32_t i) { return l.x[i * l.width + unit]; }) / n;
    *mean = m;
    *variance = over_samples(part, n,
                             [&](uint32_t i) {
                                 const float d = l.x[i * l.width + unit] - m;
                                 return d * d;
                             }) /
                n;
}

static __device__ void keep_measured(const struct norm &l, size_t unit, float mean, float variance)
{
    l.measured[unit] = mean, l.measured[l.width + unit] = 1 / sqrtf(variance + l.eps);
    l.measured[2 * l.width + unit] = variance;
}

__global__ static void __launch_bounds__(THREADS) measure(const __grid_constant__ struct norm l)
{
    __shared__ float part[WARPS][SIDE];
    const size_t unit = (size_t)blockIdx.x * SIDE + threadIdx.x % 32;
    float mean, variance;
    if (l.now->n == 0) return;
    measure_unit(part, l, unit < l.width ? unit : 0, &mean, &variance);
    if (threadIdx.x < 32 && unit < l.width) keep_measured(l, unit, mean, variance);
}

template <enum whose WHOSE>
__global__ static void __launch_bounds__(THREADS)
    norm_on(const __grid_constant__ struct norm l, const struct wisp_dafter after, float *h)
{
    __shared__ float part[WARPS][SIDE], means[SIDE], inverses[SIDE];
    const uint32_t n = l.now->n, lane = threadIdx.x % 32;
    const size_t first = (size_t)blockIdx.x * SIDE, unit = first + lane;
    const size_t in = unit < l.width ? unit : 0; /* beyond the last: any, and nobody looks */
    if (n == 0) return;
    float mean = l.mean.w[in], variance = l.variance.w[in];
    if (WHOSE == OWN) measure_unit(part, l, in, &mean, &variance);
    if (WHOSE == MEASURED) mean = l.measured[in], variance = l.measured[2 * l.width + in];
    if (threadIdx.x < 32) {
        means[lane] = mean, inverses[lane] = 1 / sqrtf(variance + l.eps);
        if (WHOSE == OWN && unit < l.width) keep_measured(l, unit, mean, variance);
    }
    __syncthreads();
    const uint32_t q = threadIdx.x % QUADS * 4;
    const size_t c = first + q;
    if (c >= l.width) return;
    const float4 scale = *(const float4 *)(l.scale.w + c), shift = *(const float4 *)(l.shift.w + c);
    for (uint32_t i = threadIdx.x / QUADS; i < n; i += THREADS / QUADS) {
        const size_t at = i * l.width + c;
        float4 x = *(const float4 *)(l.x + at);
        x.x = (x.x - means[q]) * inverses[q] * scale.x + shift.x;
        x.y = (x.y - means[q + 1]) * inverses[q + 1] * scale.y + shift.y;
        x.z = (x.z - means[q + 2]) * inverses[q + 2] * scale.z + shift.z;
        x.w = (x.w - means[q + 3]) * inverses[q + 3] * scale.w + shift.w;
        *(float4 *)(h + at) = wisp_dafter_on(after, l.now, at, x);
    }
}

/* ---- back ---- */

struct sums {                    /* of a unit, on the way back */
    float mean, inverse, g, dot; /* the last two divided by n */
};

static __device__ float below(const struct sums &u, float scale, float x, float g)
{
    return scale * u.inverse * (g - u.g - (x - u.mean) * u.inverse * u.dot);
}

/* Sums over the samples that are here: of g xhat, of g. */
static __device__ void add_unit(float (&part)[WARPS][SIDE], const struct norm &l, size_t unit,
                                const float *g, float *dot, float *sum)
{
    const uint32_t n = l.now->n;
    const float mean = l.measured[unit], inverse = l.measured[l.width + unit];
    *sum = over_samples(part, n, [&](uint32_t i) { return g[i * l.width + unit]; });
    *dot = over_samples(part, n, [&](uint32_t i) {
        const size_t at = i * l.width + unit;
        return g[at] * (l.x[at] - mean) * inverse;
    });
}

/* Where there are no samples the sums are 0: other ranks have some. */
__global__ static void __launch_bounds__(THREADS)
    add_up(const __grid_constant__ struct norm l, const float *g, float *totals)
{
    __shared__ float part[WARPS][SIDE];
    const size_t unit = (size_t)blockIdx.x * SIDE + threadIdx.x % 32;
    float dot, sum;
    add_unit(part, l, unit < l.width ? unit : 0, g, &dot, &sum);
    if (threadIdx.x < 32 && unit < l.width) totals[unit] = dot, totals[l.width + unit] = sum;
}

/* gx goes back through 'before', what was done to x; totals (2, width): of g xhat, of g.  ADDED: they
 * are there already. */
template <bool ADDED>
__global__ static void __launch_bounds__(THREADS)
    norm_back(const __grid_constant__ struct norm l, const struct wisp_dafter before,
              const float *g, float *gx, float *totals)
{
    __shared__ float part[WARPS][SIDE];
    __shared__ struct sums all[SIDE];
    const uint32_t n = l.now->n, whole = wisp_dall(l.now), lane = threadIdx.x % 32;
    const size_t first = (size_t)blockIdx.x * SIDE, unit = first + lane;
    const size_t in = unit < l.width ? unit : 0;
    float dot, sum;
    if (n == 0) return;
    if (ADDED) dot = totals[in], sum = totals[l.width + in];
    else add_unit(part, l, in, g, &dot, &sum);
    if (threadIdx.x < 32) {
        all[lane] = { l.measured[in], l.measured[l.width + in], sum / whole, dot / whole };
        if (!ADDED && unit < l.width) totals[unit] = dot, totals[l.width + unit] = sum;
    }
    __syncthreads();
    const uint32_t q = threadIdx.x % QUADS * 4;
    const size_t c = first + q;
    if (c >= l.width) return;
    const float4 scale = *(const float4 *)(l.scale.w + c);
    for (uint32_t i = threadIdx.x / QUADS; i < n; i += THREADS / QUADS) {
        const size_t at = i * l.width + c;
        const float4 x = *(const float4 *)(l.x + at), y = *(const float4 *)(g + at);
        const float4 b =
            make_float4(below(all[q], scale.x, x.x, y.x), below(all[q + 1], scale.y, x.y, y.y),
                        below(all[q + 2], scale.z, x.z, y.z), below(all[q + 3], scale.w, x.w, y.w));
        *(float4 *)(gx + at) = wisp_dafter_back(before, l.now, at, l.x, b);
    }
}

/* A block each for scale and shift; the third moves the running means, with the variance that the
 * batch's samples say the data has (n - 1).  Totals that are those of all ranks are one rank's
 * gradient, the others have none: 'mine'. */
__global__ static void __launch_bounds__(THREADS)
    norm_move(const __grid_constant__ struct norm l, const __grid_constant__ struct wisp_dopt opt,
              size_t used, size_t side, const float *totals, bool mine)
{
    __shared__ float room[WARPS];
    const size_t n = wisp_dall(l.now) * side;
    if (n == 0) return;
    if (blockIdx.x < 2) {
        if (!mine) return;
        const struct wisp_dparam &p = blockIdx.x ? l.shift : l.scale;
        wisp_dmove_block(opt, p, 0, totals + blockIdx.x * l.width, l.now->lr, l.now->step, used,
                         room);
        return;
    }
    const float a = l.momentum, whole = n > 1 ? (float)n / (float)(n - 1) : 1;
    for (size_t c = threadIdx.x; c < l.width; c += blockDim.x) {
        l.mean.w[c] = (1 - a) * l.mean.w[c] + a * l.measured[c];
        l.variance.w[c] = (1 - a) * l.variance.w[c] + a * whole * l.measured[2 * l.width + c];
    }
}

/* ---- of all ranks ---- */

__global__ static void __launch_bounds__(THREADS)
    pack(const struct wisp_dnow *now, size_t width, size_t side, const float *measured, double *x)
{
    const size_t c = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const double n = (double)now->n * (double)side;
    if (c >= width) return;
    const double mean = n > 0 ? measured[c] : 0, variance = n > 0 ? measured[2 * width + c] : 0;
    x[c] = n * mean, x[width + c] = n * variance, x[2 * width + c] = n * mean * mean;
}

__global__ static void __launch_bounds__(THREADS)
    unpack(const struct wisp_dnow *now, size_t width, size_t side, float eps, const double *x,
           float *measured)
{
    const size_t c = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const double n = (double)wisp_dall(now) * (double)side;
    if (c >= width || n == 0) return;
    const double mean = x[c] / n, apart = x[2 * width + c] - x[c] * mean;
    const float variance = (float)((x[width + c] + (apart > 0 ? apart : 0)) / n);
    measured[c] = (float)mean, measured[width + c] = 1 / sqrtf(variance + eps);
    measured[2 * width + c] = variance;
}

__global__ static void __launch_bounds__(THREADS) widen(size_t n, const float *totals, double *x)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) x[i] = totals[i];
}

__global__ static void __launch_bounds__(THREADS) narrow(size_t n, const double *x, float *totals)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) totals[i] = (float)x[i];
}

static unsigned runs(size_t n)
{
    return (unsigned)wisp_parts(n, THREADS);
}

void wisp_norm_join(const struct wisp_dnet &n, const struct wisp_dnode &l, size_t width,
                    size_t side, float *measured, cudaStream_t s)
{
    if (!n.ranks) return;
    double *x = n.ranks->numbers;
    pack<<<runs(width), THREADS, 0, s>>>(n.now, width, side, measured, x);
    wisp_dranks_add(n, 3 * width, s);
    unpack<<<runs(width), THREADS, 0, s>>>(n.now, width, side, (float)l.l->arg[EPS], x, measured);
}

void wisp_norm_join_totals(const struct wisp_dnet &n, size_t width, float *totals, cudaStream_t s)
{
    if (!n.ranks) return;
    widen<<<runs(2 * width), THREADS, 0, s>>>(2 * width, totals, n.ranks->numbers);
    wisp_dranks_add(n, 2 * width, s);
    narrow<<<runs(2 * width), THREADS, 0, s>>>(2 * width, n.ranks->numbers, totals);
}

/* ---- the layer ---- */

static struct norm norm_of(const struct wisp_dnet &n, const struct wisp_dnode &l)
{
    struct norm o = { n.now, l.l->n_out, (float)l.l->arg[MOMENTUM], (float)l.l->arg[EPS] };
    o.scale = l.param[SCALE], o.shift = l.param[SHIFT];
    o.mean = l.param[MEAN], o.variance = l.param[VARIANCE];
    o.measured = l.kept, o.x = wisp_dread(n, l).x;
    return o;
}

static unsigned blocks(const struct wisp_dnode &l)
{
    return (unsigned)((l.l->n_out + SIDE - 1) / SIDE);
}

static void forward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dact &out = wisp_dgiven(n, l);
    const struct norm o = norm_of(n, l);
    const bool joins = n.ranks && n.training;
    auto kernel = !n.training ? norm_on<RUNNING> : joins ? norm_on<MEASURED> : norm_on<OWN>;
    if (joins && !l.again_now) {
        measure<<<blocks(l), THREADS, 0, s>>>(o);
        wisp_norm_join(n, l, o.width, 1, o.measured, s);
    }
    kernel<<<blocks(l), THREADS, 0, s>>>(o, out.after, out.x);
}

void wisp_norm_move(const struct wisp_dnet &n, const struct wisp_dnode &l, size_t width,
                    size_t used, size_t side, float *measured, const float *totals, cudaStream_t s)
{
    struct norm o = norm_of(n, l);
    o.width = width, o.measured = measured;
    /* AdaGrad's mean of squares is a warp's */
    const unsigned threads = n.opt.kind == WISP_ADAGRAD ? 32 : THREADS;
    const bool mine = !n.ranks || n.ranks->how->rank == 0;
    norm_move<<<3, threads, 0, s>>>(o, n.opt, used, side, totals, mine);
}

static void backward(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct norm o = norm_of(n, l);
    const float *g = wisp_dgiven(n, l).g;
    auto kernel = n.ranks ? norm_back<true> : norm_back<false>;
    if (n.ranks) {
        add_up<<<blocks(l), THREADS, 0, s>>>(o, g, l.scratch);
        wisp_norm_join_totals(n, o.width, l.scratch, s);
    }
    kernel<<<blocks(l), THREADS, 0, s>>>(o, wisp_dread(n, l).after, g, l.gx[0], l.scratch);
    wisp_norm_move(n, l, l.l->n_out, l.l->n_out, 1, l.kept, l.scratch, s);
}

static size_t kept(const struct wisp_dnode &l, const struct wisp_dnet &n)
{
    return n.training ? 3 * l.l->n_out : 0;
}

static size_t scratch(const struct wisp_dnode &l, const struct wisp_dnet &)
{
    return 2 * l.l->n_out;
}

static struct wisp_card_kind filled()
{
    struct wisp_card_kind k = {};
    k.name = "bn", k.forms = WISP_FLAT, k.takes = WISP_FUSE_RELU | WISP_FUSE_DROPOUT;
    k.uses = WISP_USES_X, k.kept = kept, k.scratch = scratch, k.forward = forward,
    k.backward = backward;
    return k;
}
const struct wisp_card_kind wisp_card_bn = filled();
