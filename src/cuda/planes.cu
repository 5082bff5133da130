/* Batch norm of planes: layer/bn.c, on the card, with the ReLU behind it, and what is added before
 * that (a residual).
 *
 *   forward   mean and variance of each channel over samples and pixels;
 *             y = (x - mean) / deviation * scale + shift (+ beside), then max(., 0)
 *   back      sums of g and of g xhat over all pixels, g where the ReLU let y through;
 *             gx = scale / deviation * (g - sum g / n - xhat * sum(g xhat) / n)
 *
 * All of it runs at the speed of memory: x is read once to be measured and once to be normalised;
 * on the way back x and g twice each.  Which values the ReLU let through is computed again from x, or
 * read off y where something was added.
 *
 * A block has 128 bytes of channels and a part of the pixels, a thread 16 bytes of every 32nd pixel.
 * A thread's mean and sum of squares are relative to its first value, so that nothing cancels; those
 * of threads and of parts are joined in a fixed order (Chan, Golub, LeVeque 1979). */
#include "cuda/planes.cuh"
#include "cuda/vector.cuh"

enum { THREADS = 256, COLS = 8, LINES = THREADS / COLS };
enum {
    JOIN = 32,
    JOINED = 8,
    GROUPS = JOIN * 32 / JOINED
}; /* warps that join parts; their channels */
/* An H200 has 132 multiprocessors, and each has room for three blocks: all are there at once, have
 * as much to do, and end together. */
enum { MOST_BLOCKS = 396, AT_ONCE = 3, LEAST_PIXELS = 8 * LINES };

struct norm { /* struct wisp_dnorm, and its parts */
    const uint32_t *now_n;
    const struct wisp_dnow *divided;
    size_t n, side, c; /* samples, pixels of one, channels */
    size_t parts, each;
    const float *scale, *shift;
    float *measured, *work;
    float eps;
    bool relu;
    struct wisp_dlive live;
};

/* Pixels are cut alike in both directions, whatever the card. */
static struct norm norm_of(const struct wisp_dnorm &l)
{
    const size_t size = l.x.half ? 2 : 4, lines = wisp_parts(l.x.c * size, COLS * 16);
    const size_t pixels = l.x.n * l.x.h * l.x.w;
    size_t parts = wisp_most(MOST_BLOCKS / lines, 1);
    if (parts > wisp_parts(pixels, LEAST_PIXELS)) parts = wisp_parts(pixels, LEAST_PIXELS);
    const size_t each = wisp_up(wisp_parts(pixels, parts), LINES);
    return { l.x.now_n, l.divided, l.x.n,   l.x.h * l.x.w, l.x.c,  wisp_parts(pixels, each),
             each,      l.scale,   l.shift, l.measured,    l.work, l.eps,
             l.relu,    l.live };
}

size_t wisp_dnorm_floats(const struct wisp_dplanes &x)
{
    struct wisp_dnorm l = {};
    l.x = x;
    return norm_of(l).parts * x.c * 2 + 2 * x.c;
}

__device__ static size_t pixels_of(const struct norm &l)
{
    return (l.now_n && *l.now_n < l.n ? *l.now_n : l.n) * l.side;
}

/* Of the samples of all ranks. */
__device__ static size_t all_pixels_of(const struct norm &l)
{
    return l.divided ? wisp_dall(l.divided) * l.side : pixels_of(l);
}

/* A thread's channels and pixels. */
struct mine {
    size_t c, first, end;
};
template <int N> __device__ static struct mine mine_of(const struct norm &l)
{
    const size_t begin = blockIdx.x * l.each, all = pixels_of(l);
    const size_t end = all < begin + l.each ? all : begin + l.each;
    return { (blockIdx.y * COLS + threadIdx.x % COLS) * N, begin + threadIdx.x / COLS, end };
}

/* ---- means and variances ---- */

struct moments {            /* of 'n' values */
    float n, mean, squares; /* squares: of the distance from the mean, summed */
};

__device__ static struct moments join(const struct moments &a, const struct moments &b)
{
    const float n = a.n + b.n, d = b.mean - a.mean;
    if (a.n == 0) return b;
    if (b.n == 0) return a;
    return { n, a.mean + d * (b.n / n), a.squares + b.squares + d * d * (a.n * b.n / n) };
}

template <class T, int N>
__global__ static void __launch_bounds__(THREADS, AT_ONCE)
    measure_parts(const __grid_constant__ struct norm l, const T *x)
{
    __shared__ struct moments all[LINES][COLS * N + 1];
    const struct mine m = mine_of<N>(l);
    const int line = (int)threadIdx.x / COLS, col = (int)threadIdx.x % COLS * N;
    float n = 0;
    if (m.c < l.c && m.first < m.end) {
        const auto origin = wisp_vector<T, N>::at(x + m.first * l.c + m.c);
        auto sum = wisp_vector<T, N>::of(0), squares = sum;
#pragma unroll 8
        for (size_t i = m.first; i < m.end; i += LINES) {
            const auto v = wisp_vector<T, N>::at(x + i * l.c + m.c);
#pragma unroll
            for (int k = 0; k < N; k++) {
                const float d = v.v[k] - origin.v[k];
                sum.v[k] += d, squares.v[k] += d * d;
            }
        }
        n = (float)((m.end - m.first + LINES - 1) / LINES);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float mean = sum.v[k] / n, left = squares.v[k] - sum.v[k] * mean;
            all[line][col + k] = { n, origin.v[k] + mean, left > 0 ? left : 0 };
        }
    } else {
#pragma unroll
        for (int k = 0; k < N; k++) all[line][col + k] = { 0, 0, 0 };
    }
    __syncthreads();
    const size_t c = (size_t)blockIdx.y * COLS * N + threadIdx.x;
    if (threadIdx.x >= COLS * N || c >= l.c) return;
    struct moments joined = all[0][threadIdx.x];
    for (int i = 1; i < LINES; i++) joined = join(joined, all[i][threadIdx.x]);
    l.work[(blockIdx.x * 2) * l.c + c] = joined.mean;
    l.work[(blockIdx.x * 2 + 1) * l.c + c] = joined.squares;
}

/* Parts are joined by blocks of 8 channels: thread t has channel t % 8 of parts t / 8, t / 8 + GROUPS,
 * ...  x summed over the groups, in a fixed order: the same in all threads of a channel. */
__device__ static float over_groups(float (&room)[JOIN][JOINED], float x)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int d = JOINED; d < 32; d *= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    __syncthreads(); /* room is free */
    if (lane < JOINED) room[warp][lane] = x;
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int w = 0; w < JOIN; w++) sum += room[w][lane % JOINED];
    return sum;
}

struct joined { /* of a thread */
    uint32_t group;
    size_t c, in; /* in: a channel that is there */
};
__device__ static struct joined joined_of(const struct norm &l)
{
    const size_t c = (size_t)blockIdx.x * JOINED + threadIdx.x % JOINED;
    return { threadIdx.x / JOINED, c, c < l.c ? c : 0 };
}

/* First the mean of all pixels, then the squares of distances from it. */
__global__ static void __launch_bounds__(JOIN * 32)
    join_parts(const __grid_constant__ struct norm l)
{
    __shared__ float room[JOIN][JOINED];
    const struct joined j = joined_of(l);
    const size_t pixels = pixels_of(l);
    const size_t used = (pixels + l.each - 1) / l.each; /* parts that have pixels */
    auto share = [&](size_t p) {                        /* of all pixels */
                                 const size_t left = pixels - p * l.each;
                                 return (float)(left < l.each ? left : l.each) / (float)pixels;
    };
    float mean = 0, variance = 0;
    if (pixels == 0) return;
#pragma unroll 4
    for (size_t p = j.group; p < used; p += GROUPS) mean += share(p) * l.work[(p * 2) * l.c + j.in];
    mean = over_groups(room, mean);
#pragma unroll 4
    for (size_t p = j.group; p < used; p += GROUPS) {
        const float d = l.work[(p * 2) * l.c + j.in] - mean;
        variance += share(p) * d * d + l.work[(p * 2 + 1) * l.c + j.in] / (float)pixels;
    }
    variance = over_groups(room, variance);
    if (j.group != 0 || j.c >= l.c) return;
    l.measured[j.c] = mean, l.measured[l.c + j.c] = 1 / sqrtf(variance + l.eps);
    l.measured[2 * l.c + j.c] = variance;
}

__global__ static void use(const __grid_constant__ struct norm l, const float *mean,
                           const float *variance)
{
    const size_t c = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (c >= l.c) return;
    l.measured[c] = mean[c], l.measured[l.c + c] = 1 / sqrtf(variance[c] + l.eps);
}

/* ---- forward ---- */

template <int N> struct channels { /* of a thread: y = (x - mean) * slope + shift */
    float mean[N], slope[N], shift[N];
};
template <int N> __device__ static struct channels<N> channels_of(const struct norm &l, size_t c) {
    struct channels<N> a;
#pragma unroll
    for (int k = 0; k < N; k++) {
        const size_t at = c + k < l.c ? c + k : 0;
        a.mean[k] = l.measured[at], a.slope[k] = l.measured[l.c + at] * l.scale[at];
        a.shift[k] = l.shift[at];
    }
    return a;
}

/* Both directions compute a value alike: what the ReLU let through is the same. */
template <int N>
__device__ static float value(const struct channels<N> &a, int k, float x)
{
    return __fmaf_rn(x - a.mean[k], a.slope[k], a.shift[k]);
}

/* COUNT: what is not 0, besides; a thread's channels are of one block of 16. */
template <class T, int N, bool COUNT>
__global__ static void __launch_bounds__(THREADS, AT_ONCE)
    norm_on(const __grid_constant__ struct norm l, T *y, const T *x, const T *beside)
{
    __shared__ struct wisp_dtally tally;
    struct mine m = mine_of<N>(l);
    uint32_t found = 0;
    if (COUNT) wisp_dtally_begin(tally);
    if (m.c >= l.c && !COUNT) return;
    if (m.c >= l.c) m.end = m.first;
    const struct channels<N> a = channels_of<N>(l, m.c);
#pragma unroll 4
    for (size_t i = m.first; i < m.end; i += LINES) {
        const size_t at = i * l.c + m.c;
        auto v = wisp_vector<T, N>::at(x + at);
#pragma unroll
        for (int k = 0; k < N; k++) v.v[k] = value(a, k, v.v[k]);
        if (beside) {
            const auto b = wisp_vector<T, N>::at(beside + at);
#pragma unroll
            for (int k = 0; k < N; k++) v.v[k] += b.v[k];
        }
#pragma unroll
        for (int k = 0; k < N; k++) v.v[k] = l.relu && !(v.v[k] > 0) ? 0 : v.v[k];
        if (COUNT) found += wisp_dlives_of(v);
        v.to(y + at);
    }
    if (!COUNT) return;
    if (found) wisp_dtally_add(tally, l.live, m.c / WISP_PLANE_BLOCK, found);
    wisp_dtally_end(tally, l.live, blockIdx.x == 0 && blockIdx.y == 0 ? pixels_of(l) / l.side : 0);
}

/* ---- back ---- */

/* g of a piece, where the ReLU let its values through. */
template <class T, int N>
__device__ static wisp_vector<T, N> through(const struct norm &l, const struct channels<N> &a,
                                            const T *g, const wisp_vector<T, N> &x, const T *y,
                                            size_t at)
{
    auto v = wisp_vector<T, N>::at(g + at);
    if (!l.relu) return v;
    const auto h = wisp_vector<T, N>::at(y ? y + at : g + at);
#pragma unroll
    for (int k = 0; k < N; k++) v.v[k] = (y ? h.v[k] : value(a, k, x.v[k])) > 0 ? v.v[k] : 0;
    return v;
}

/* Zeros for samples that are not there. */
template <class T, int N>
__device__ static void clear_beyond(const struct norm &l, const struct mine &m, T *to)
{
    const size_t pixels = pixels_of(l), last = l.n * l.side;
    const size_t end = last < (blockIdx.x + 1) * l.each ? last : (blockIdx.x + 1) * l.each;
    for (size_t i = m.first; i < end; i += LINES)
        if (i >= pixels) wisp_vector<T, N>::of(0).to(to + i * l.c + m.c);
}

/* Parts of the sums of g xhat and of g.  to: what the ReLU lets through, as y says; NULL: x does. */
template <class T, int N>
__global__ static void __launch_bounds__(THREADS, AT_ONCE)
    sum_parts(const __grid_constant__ struct norm l, const T *g, const T *x, const T *y, T *to)
{
    __shared__ float dots[LINES][COLS * N + 1], sums[LINES][COLS * N + 1];
    const struct mine m = mine_of<N>(l);
    const int line = (int)threadIdx.x / COLS, col = (int)threadIdx.x % COLS * N;
    auto dot = wisp_vector<T, N>::of(0), sum = dot;
    if (m.c < l.c) {
        const struct channels<N> a = channels_of<N>(l, m.c);
#pragma unroll 2
        for (size_t i = m.first; i < m.end; i += LINES) {
            const size_t at = i * l.c + m.c;
            const auto u = wisp_vector<T, N>::at(x + at);
            const auto v = through<T, N>(l, a, g, u, y, at);
            if (to) v.to(to + at);
#pragma unroll
            for (int k = 0; k < N; k++)
                dot.v[k] += v.v[k] * (u.v[k] - a.mean[k]), sum.v[k] += v.v[k];
        }
        if (to) clear_beyond<T, N>(l, m, to);
    }
#pragma unroll
    for (int k = 0; k < N; k++) dots[line][col + k] = dot.v[k], sums[line][col + k] = sum.v[k];
    __syncthreads();
    const size_t c = (size_t)blockIdx.y * COLS * N + threadIdx.x;
    if (threadIdx.x >= COLS * N || c >= l.c) return;
    float d = 0, s = 0;
    for (int i = 0; i < LINES; i++) d += dots[i][threadIdx.x], s += sums[i][threadIdx.x];
    l.work[(blockIdx.x * 2) * l.c + c] = d, l.work[(blockIdx.x * 2 + 1) * l.c + c] = s;
}

__global__ static void __launch_bounds__(JOIN * 32)
    add_parts(const __grid_constant__ struct norm l, float *totals)
{
    __shared__ float room[JOIN][JOINED];
    const struct joined j = joined_of(l);
    float d = 0, s = 0;
#pragma unroll 4
    for (size_t p = j.group; p < l.parts; p += GROUPS)
        d += l.work[(p * 2) * l.c + j.in], s += l.work[(p * 2 + 1) * l.c + j.in];
    d = over_groups(room, d), s = over_groups(room, s);
    if (j.group != 0 || j.c >= l.c) return;
    totals[j.c] = d * l.measured[l.c + j.c], totals[l.c + j.c] = s;
}

template <class T, int N>
__global__ static void __launch_bounds__(THREADS, AT_ONCE)
    norm_back(const __grid_constant__ struct norm l, T *gx, const float *totals, const T *g,
              const T *x, bool done)
{
    const size_t pixels = all_pixels_of(l);
    const struct mine m = mine_of<N>(l);
    if (m.c >= l.c) return;
    const struct channels<N> a = channels_of<N>(l, m.c);
    float inverse[N], sum[N], dot[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        const size_t c = m.c + k < l.c ? m.c + k : 0;
        inverse[k] = l.measured[l.c + c];
        dot[k] = totals[c] / (float)pixels, sum[k] = totals[l.c + c] / (float)pixels;
    }
    struct norm how = l;
    how.relu = l.relu && !done;
#pragma unroll 2
    for (size_t i = m.first; i < m.end; i += LINES) {
        const size_t at = i * l.c + m.c;
        const auto u = wisp_vector<T, N>::at(x + at);
        auto v = through<T, N>(how, a, g, u, (const T *)NULL, at);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float normal = (u.v[k] - a.mean[k]) * inverse[k];
            v.v[k] = a.slope[k] * (v.v[k] - sum[k] - normal * dot[k]);
        }
        v.to(gx + at);
    }
    clear_beyond<T, N>(l, m, gx);
}

/* ---- launches ---- */

template <class T, int N> static dim3 grid_of(const struct norm &l)
{
    return dim3((unsigned)l.parts, (unsigned)wisp_parts(l.c, (size_t)COLS * N));
}

template <class T> static constexpr int wide = 16 / (int)sizeof(T);

template <class T> static void measure(const struct norm &l, const void *x, cudaStream_t s)
{
    constexpr int N = wide<T>;
    if (l.c % N == 0) measure_parts<T, N><<<grid_of<T, N>(l), THREADS, 0, s>>>(l, (const T *)x);
    else measure_parts<T, 1><<<grid_of<T, 1>(l), THREADS, 0, s>>>(l, (const T *)x);
    join_parts<<<(unsigned)wisp_parts(l.c, JOINED), JOIN * 32, 0, s>>>(l);
}

template <class T, int N>
static void launch_on(const struct norm &l, void *y, const void *x, const void *beside,
                      cudaStream_t s)
{
    auto kernel = l.live.at ? norm_on<T, N, true> : norm_on<T, N, false>;
    kernel<<<grid_of<T, N>(l), THREADS, 0, s>>>(l, (T *)y, (const T *)x, (const T *)beside);
}

template <class T>
static void go_on(const struct norm &l, void *y, const void *x, const void *beside, cudaStream_t s)
{
    constexpr int N = wide<T>;
    if (l.c % N == 0) launch_on<T, N>(l, y, x, beside, s);
    else launch_on<T, 1>(l, y, x, beside, s);
}

template <class T, int N>
static void add_up(const struct norm &l, float *totals, const void *g, const void *x,
                   const struct wisp_dnorm_beside *beside, cudaStream_t s)
{
    const void *y = beside ? beside->y : NULL;
    sum_parts<T, N><<<grid_of<T, N>(l), THREADS, 0, s>>>(
        l, (const T *)g, (const T *)x, (const T *)y, beside ? (T *)beside->gx : NULL);
    add_parts<<<(unsigned)wisp_parts(l.c, JOINED), JOIN * 32, 0, s>>>(l, totals);
}

template <class T, int N>
static void go_back(const struct norm &l, void *gx, const float *totals, const void *g,
                    const void *x, const struct wisp_dnorm_beside *beside, cudaStream_t s)
{
    if (beside) g = beside->gx;
    norm_back<T, N><<<grid_of<T, N>(l), THREADS, 0, s>>>(l, (T *)gx, totals, (const T *)g,
                                                         (const T *)x, beside != NULL);
}

void wisp_dnorm_measure(const struct wisp_dnorm &l, const void *x, cudaStream_t s)
{
    if (l.x.half) measure<__nv_bfloat16>(norm_of(l), x, s);
    else measure<float>(norm_of(l), x, s);
}

void wisp_dnorm_use(const struct wisp_dnorm &l, const float *mean, const float *variance,
                    cudaStream_t s)
{
    use<<<(unsigned)wisp_parts(l.x.c, THREADS), THREADS, 0, s>>>(norm_of(l), mean, variance);
}

void wisp_dnorm_on(const struct wisp_dnorm &l, void *y, const void *x, const void *beside,
                   cudaStream_t s)
{
    if (l.x.half) go_on<__nv_bfloat16>(norm_of(l), y, x, beside, s);
    else go_on<float>(norm_of(l), y, x, beside, s);
}

void wisp_dnorm_add(const struct wisp_dnorm &l, float *totals, const void *g, const void *x,
                    const struct wisp_dnorm_beside *beside, cudaStream_t s)
{
    const struct norm o = norm_of(l);
    if (l.x.half && l.x.c % 8 == 0) add_up<__nv_bfloat16, 8>(o, totals, g, x, beside, s);
    else if (l.x.half) add_up<__nv_bfloat16, 1>(o, totals, g, x, beside, s);
    else if (l.x.c % 4 == 0) add_up<float, 4>(o, totals, g, x, beside, s);
    else add_up<float, 1>(o, totals, g, x, beside, s);
}

void wisp_dnorm_below(const struct wisp_dnorm &l, void *gx, const float *totals, const void *g,
                      const void *x, const struct wisp_dnorm_beside *beside, cudaStream_t s)
{
    const struct norm o = norm_of(l);
    if (l.x.half && l.x.c % 8 == 0) go_back<__nv_bfloat16, 8>(o, gx, totals, g, x, beside, s);
    else if (l.x.half) go_back<__nv_bfloat16, 1>(o, gx, totals, g, x, beside, s);
    else if (l.x.c % 4 == 0) go_back<float, 4>(o, gx, totals, g, x, beside, s);
    else go_back<float, 1>(o, gx, totals, g, x, beside, s);
}
