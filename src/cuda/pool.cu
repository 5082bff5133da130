/* Pooling on the card: max, mean of windows, mean of all pixels; forward and back.
 *
 * A thread has one pixel of the result and 16 bytes of its channels (or one channel, where they do
 * not fill 16 bytes), so that neighbours read neighbours.  On the way back it has a pixel of x and
 * adds up what the windows that it lies in say, in their order: nothing is written twice. */
#include "cuda/planes.cuh"
#include "cuda/vector.cuh"

enum { THREADS = 256 };

struct window { /* struct wisp_dpool, in ints */
    int n, h, w, c, oh, ow, kh, kw, stride, pad_h, pad_w;
    const uint32_t *now_n;
};

static struct window window_of(const struct wisp_dpool &p)
{
    return { (int)p.x.n, (int)p.x.h, (int)p.x.w,    (int)p.x.c,   (int)p.oh,    (int)p.ow,
             (int)p.kh,  (int)p.kw,  (int)p.stride, (int)p.pad_h, (int)p.pad_w, p.x.now_n };
}

struct place { /* of a thread: a pixel, and the first of its channels */
    int sample, y, x, c;
    size_t at; /* in (n, h, w, c) */
};

template <int N> __device__ static struct place place_of(size_t i, int h, int w, int c)
{
    const int pieces = c / N;
    const size_t pixel = i / pieces;
    const int left = (int)(pixel % ((size_t)h * w));
    return { (int)(pixel / ((size_t)h * w)), left / w, left % w, (int)(i % pieces) * N, i * N };
}

__device__ static bool beyond(const uint32_t *now_n, int sample)
{
    return now_n && sample >= (int)*now_n;
}

/* ---- max and mean of windows ---- */

template <class T, int N, bool MAX>
__global__ static void __launch_bounds__(THREADS)
    pool_on(const __grid_constant__ struct window p, T *y, uint8_t *which, const T *x, size_t all)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= all) return;
    const struct place o = place_of<N>(i, p.oh, p.ow, p.c);
    if (beyond(p.now_n, o.sample)) return;
    auto best = wisp_vector<T, N>::of(MAX ? -INFINITY : 0);
    __align__(8) uint8_t at[N] = {};
    bool first = true;
    for (int t = 0; t < p.kh * p.kw; t++) {
        const int u = o.y * p.stride - p.pad_h + t / p.kw, v = o.x * p.stride - p.pad_w + t % p.kw;
        if (u < 0 || u >= p.h || v < 0 || v >= p.w) continue;
        const auto now =
            wisp_vector<T, N>::at(x + ((((size_t)o.sample * p.h + u) * p.w + v) * p.c + o.c));
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (!MAX) best.v[k] += now.v[k];
            else if (first || now.v[k] > best.v[k]) best.v[k] = now.v[k], at[k] = (uint8_t)t;
        }
        first = false;
    }
#pragma unroll
    for (int k = 0; k < N && !MAX; k++) best.v[k] /= (float)(p.kh * p.kw);
    best.to(y + o.at);
    if (!MAX || !which) return;
    if (N == 8) *(uint2 *)(which + o.at) = *(const uint2 *)at;
    else if (N == 4) *(uint32_t *)(which + o.at) = *(const uint32_t *)at;
    else which[o.at] = at[0];
}

template <class T, int N, bool MAX>
__global__ static void __launch_bounds__(THREADS)
    pool_back(const __grid_constant__ struct window p, T *gx, const T *gy, const uint8_t *which,
              const T *gate, size_t all)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= all) return;
    const struct place o = place_of<N>(i, p.h, p.w, p.c);
    auto sum = wisp_vector<T, N>::of(0);
    if (beyond(p.now_n, o.sample)) {
        sum.to(gx + o.at);
        return;
    }
    /* windows q with q stride - pad <= pixel < q stride - pad + kernel */
    const int y = o.y + p.pad_h, x = o.x + p.pad_w;
    const int first_y = y < p.kh ? 0 : (y - p.kh) / p.stride + 1,
              last_y = min(y / p.stride, p.oh - 1);
    const int first_x = x < p.kw ? 0 : (x - p.kw) / p.stride + 1,
              last_x = min(x / p.stride, p.ow - 1);
    for (int u = first_y; u <= last_y; u++)
        for (int v = first_x; v <= last_x; v++) {
            const size_t from = (((size_t)o.sample * p.oh + u) * p.ow + v) * p.c + o.c;
            const int tap = (y - u * p.stride) * p.kw + x - v * p.stride;
            const auto g = wisp_vector<T, N>::at(gy + from);
            __align__(8) uint8_t at[N];
            if (MAX && N == 8) *(uint2 *)at = *(const uint2 *)(which + from);
            else if (MAX && N == 4) *(uint32_t *)at = *(const uint32_t *)(which + from);
            else if (MAX) at[0] = which[from];
            /* gate of max: y, which is what x was there */
            const auto h = wisp_vector<T, N>::at(MAX && gate ? gate + from : gy + from);
#pragma unroll
            for (int k = 0; k < N; k++) {
                if (!MAX) sum.v[k] += g.v[k];
                else if (at[k] == tap && (!gate || h.v[k] > 0)) sum.v[k] += g.v[k];
            }
        }
    if (!MAX) {
        const auto h = wisp_vector<T, N>::at(gate ? gate + o.at : gy);
#pragma unroll
        for (int k = 0; k < N; k++)
            sum.v[k] = !gate || h.v[k] > 0 ? sum.v[k] / (float)(p.kh * p.kw) : 0;
    }
    sum.to(gx + o.at);
}

static unsigned blocks(size_t n)
{
    return (unsigned)wisp_parts(n, THREADS);
}

template <class T, bool MAX>
static void run_on(const struct wisp_dpool &p, void *y, uint8_t *which, const void *x,
                   cudaStream_t s)
{
    constexpr int N = 16 / (int)sizeof(T);
    const size_t all = p.x.n * p.oh * p.ow * p.x.c;
    const struct window w = window_of(p);
    if (p.x.c % N == 0)
        pool_on<T, N, MAX>
            <<<blocks(all / N), THREADS, 0, s>>>(w, (T *)y, which, (const T *)x, all / N);
    else pool_on<T, 1, MAX><<<blocks(all), THREADS, 0, s>>>(w, (T *)y, which, (const T *)x, all);
}

template <class T, bool MAX>
static void run_back(const struct wisp_dpool &p, void *gx, const void *gy, const uint8_t *which,
                     const void *gate, cudaStream_t s)
{
    constexpr int N = 16 / (int)sizeof(T);
    const size_t all = p.x.n * p.x.h * p.x.w * p.x.c;
    const struct window w = window_of(p);
    if (p.x.c % N == 0)
        pool_back<T, N, MAX><<<blocks(all / N), THREADS, 0, s>>>(w, (T *)gx, (const T *)gy, which,
                                                                 (const T *)gate, all / N);
    else
        pool_back<T, 1, MAX><<<blocks(all), THREADS, 0, s>>>(w, (T *)gx, (const T *)gy, which,
                                                             (const T *)gate, all);
}

void wisp_dpool_max(const struct wisp_dpool &p, void *y, uint8_t *which, const void *x,
                    cudaStream_t s)
{
    if (p.x.half) run_on<__nv_bfloat16, true>(p, y, which, x, s);
    else run_on<float, true>(p, y, which, x, s);
}

void wisp_dpool_max_back(const struct wisp_dpool &p, void *gx, const void *gy, const uint8_t *which,
                         const void *gate, cudaStream_t s)
{
    if (p.x.half) run_back<__nv_bfloat16, true>(p, gx, gy, which, gate, s);
    else run_back<float, true>(p, gx, gy, which, gate, s);
}

void wisp_dpool_mean(const struct wisp_dpool &p, void *y, const void *x, cudaStream_t s)
{
    if (p.x.half) run_on<__nv_bfloat16, false>(p, y, NULL, x, s);
    else run_on<float, false>(p, y, NULL, x, s);
}

void wisp_dpool_mean_back(const struct wisp_dpool &p, void *gx, const void *gy, const void *gate,
                          cudaStream_t s)
{
    if (p.x.half) run_back<__nv_bfloat16, false>(p, gx, gy, NULL, gate, s);
    else run_back<float, false>(p, gx, gy, NULL, gate, s);
}

/* ---- mean of all pixels ---- */

/* A thread has a channel of a sample. */
template <class T>
__global__ static void __launch_bounds__(THREADS)
    all_on(const uint32_t *now_n, float *y, const T *x, size_t n, size_t pixels, size_t c)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n * c || beyond(now_n, (int)(i / c))) return;
    float sum = 0;
#pragma unroll 8
    for (size_t q = 0; q < pixels; q++) sum += (float)x[(i / c * pixels + q) * c + i % c];
    y[i] = sum / (float)pixels;
}

template <class T>
__global__ static void __launch_bounds__(THREADS)
    all_back(const uint32_t *now_n, T *gx, const float *gy, const T *gate, size_t n, size_t pixels,
             size_t c)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n * pixels * c) return;
    const size_t sample = i / c / pixels;
    const bool off = beyond(now_n, (int)sample) || (gate && !((float)gate[i] > 0));
    gx[i] = (T)(off ? 0 : gy[sample * c + i % c] / (float)pixels);
}

void wisp_dpool_all(const struct wisp_dplanes &p, float *y, const void *x, cudaStream_t s)
{
    const size_t pixels = p.h * p.w;
    const unsigned n = blocks(p.n * p.c);
    if (p.half)
        all_on<<<n, THREADS, 0, s>>>(p.now_n, y, (const __nv_bfloat16 *)x, p.n, pixels, p.c);
    else all_on<<<n, THREADS, 0, s>>>(p.now_n, y, (const float *)x, p.n, pixels, p.c);
}

void wisp_dpool_all_back(const struct wisp_dplanes &p, void *gx, const float *gy, const void *gate,
                         cudaStream_t s)
{
    const size_t pixels = p.h * p.w;
    const unsigned n = blocks(p.n * pixels * p.c);
    if (p.half)
        all_back<<<n, THREADS, 0, s>>>(p.now_n, (__nv_bfloat16 *)gx, gy,
                                       (const __nv_bfloat16 *)gate, p.n, pixels, p.c);
    else
        all_back<<<n, THREADS, 0, s>>>(p.now_n, (float *)gx, gy, (const float *)gate, p.n, pixels,
                                       p.c);
}
