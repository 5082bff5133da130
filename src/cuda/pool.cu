/* Pooling on the card: max, mean of windows, mean of all pixels; forward and back.
 *
 * A thread has one pixel of the result and 16 bytes of its channels (or one channel, where they do
 * not fill 16 bytes), so that neighbours read neighbours.  On the way back it has a pixel of x and
 * adds up what the windows that it lies in say, in their order: nothing is written twice. */
#include "cuda/planes.cuh"
#include "cuda/vector.cuh"

enum { THREADS = 256, NOBODY = 255 };

struct window { /* struct wisp_dpool, in ints */
    int n, h, w, c, oh, ow, kh, kw, stride, pad_h, pad_w;
    const uint32_t *now_n;
    struct wisp_dlive live;
};

static struct window window_of(const struct wisp_dpool &p)
{
    return { (int)p.x.n, (int)p.x.h,    (int)p.x.w,   (int)p.x.c,   (int)p.oh, (int)p.ow, (int)p.kh,
             (int)p.kw,  (int)p.stride, (int)p.pad_h, (int)p.pad_w, p.x.now_n, p.live };
}

struct place { /* of a thread: a pixel, and the first of its channels */
    int sample, y, x, c;
    size_t at; /* in (n, h, w, c) */
};

/* A block has a piece of one row of pixels; false: this thread has none. */
template <int N> __device__ static bool place_of(struct place *o, int h, int w, int c)
{
    const uint32_t pieces = (uint32_t)(c / N), i = blockIdx.y * THREADS + threadIdx.x;
    if (i >= (uint32_t)w * pieces) return false;
    o->sample = (int)(blockIdx.x / (uint32_t)h), o->y = (int)(blockIdx.x % (uint32_t)h);
    o->x = (int)(i / pieces), o->c = (int)(i % pieces) * N;
    o->at = ((size_t)blockIdx.x * w + o->x) * c + o->c;
    return true;
}

__device__ static bool beyond(const uint32_t *now_n, int sample)
{
    return now_n && sample >= (int)*now_n;
}

/* ---- max and mean of windows ---- */

/* The window of a thread. */
template <class T, int N, bool MAX>
static __device__ wisp_vector<T, N> pool_at(const struct window &p, const struct place &o, T *y,
                                            uint8_t *which, bool gate, const T *x)
{
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
    if (!which) return best;
#pragma unroll
    for (int k = 0; k < N; k++)
        if (gate && !(best.v[k] > 0)) at[k] = NOBODY;
    if (N == 8) *(uint2 *)(which + o.at) = *(const uint2 *)at;
    else if (N == 4) *(uint32_t *)(which + o.at) = *(const uint32_t *)at;
    else which[o.at] = at[0];
    return best;
}

template <class T, int N, bool MAX, bool COUNT>
__global__ static void __launch_bounds__(THREADS)
    pool_on(const __grid_constant__ struct window p, T *y, uint8_t *which, bool gate, const T *x)
{
    struct place o;
    const bool mine = place_of<N>(&o, p.oh, p.ow, p.c) && !beyond(p.now_n, o.sample);
    if (!COUNT) {
        if (mine) pool_at<T, N, MAX>(p, o, y, which, gate, x);
        return;
    }
    __shared__ struct wisp_dtally tally;
    wisp_dtally_begin(tally);
    if (mine) {
        const uint32_t found = wisp_dlives_of(pool_at<T, N, MAX>(p, o, y, which, gate, x));
        if (found) wisp_dtally_add(tally, p.live, (size_t)o.c / WISP_PLANE_BLOCK, found);
    }
    const bool first = blockIdx.x == 0 && blockIdx.y == 0;
    wisp_dtally_end(tally, p.live, !first ? 0 : p.now_n ? min(*p.now_n, (uint32_t)p.n) : p.n);
}

template <class T, int N, bool MAX>
__global__ static void __launch_bounds__(THREADS)
    pool_back(const __grid_constant__ struct window p, T *gx, const T *gy, const uint8_t *which,
              const T *gate)
{
    struct place o;
    if (!place_of<N>(&o, p.h, p.w, p.c)) return;
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
#pragma unroll
            for (int k = 0; k < N; k++)
                if (!MAX || at[k] == tap) sum.v[k] += g.v[k];
        }
    if (!MAX) {
        const auto h = wisp_vector<T, N>::at(gate ? gate + o.at : gy);
#pragma unroll
        for (int k = 0; k < N; k++)
            sum.v[k] = !gate || h.v[k] > 0 ? sum.v[k] / (float)(p.kh * p.kw) : 0;
    }
    sum.to(gx + o.at);
}

static dim3 rows_of(size_t n, size_t h, size_t w, size_t pieces)
{
    return dim3((unsigned)(n * h), (unsigned)wisp_parts(w * pieces, THREADS));
}

template <class T, int N, bool MAX>
static void launch_on(const struct wisp_dpool &p, void *y, uint8_t *which, bool gate, const void *x,
                      cudaStream_t s)
{
    const dim3 grid = rows_of(p.x.n, p.oh, p.ow, p.x.c / N);
    auto kernel = p.live.at ? pool_on<T, N, MAX, true> : pool_on<T, N, MAX, false>;
    kernel<<<grid, THREADS, 0, s>>>(window_of(p), (T *)y, which, gate, (const T *)x);
}

template <class T, bool MAX>
static void run_on(const struct wisp_dpool &p, void *y, uint8_t *which, bool gate, const void *x,
                   cudaStream_t s)
{
    constexpr int N = 16 / (int)sizeof(T);
    if (p.x.c % N == 0) launch_on<T, N, MAX>(p, y, which, gate, x, s);
    else launch_on<T, 1, MAX>(p, y, which, gate, x, s);
}

template <class T, int N, bool MAX>
static void launch_back(const struct wisp_dpool &p, void *gx, const void *gy, const uint8_t *which,
                        const void *gate, cudaStream_t s)
{
    const dim3 grid = rows_of(p.x.n, p.x.h, p.x.w, p.x.c / N);
    pool_back<T, N, MAX>
        <<<grid, THREADS, 0, s>>>(window_of(p), (T *)gx, (const T *)gy, which, (const T *)gate);
}

template <class T, bool MAX>
static void run_back(const struct wisp_dpool &p, void *gx, const void *gy, const uint8_t *which,
                     const void *gate, cudaStream_t s)
{
    constexpr int N = 16 / (int)sizeof(T);
    if (p.x.c % N == 0) launch_back<T, N, MAX>(p, gx, gy, which, gate, s);
    else launch_back<T, 1, MAX>(p, gx, gy, which, gate, s);
}

void wisp_dpool_max(const struct wisp_dpool &p, void *y, uint8_t *which, bool gate, const void *x,
                    cudaStream_t s)
{
    if (p.x.half) run_on<__nv_bfloat16, true>(p, y, which, gate, x, s);
    else run_on<float, true>(p, y, which, gate, x, s);
}

void wisp_dpool_max_back(const struct wisp_dpool &p, void *gx, const void *gy, const uint8_t *which,
                         cudaStream_t s)
{
    if (p.x.half) run_back<__nv_bfloat16, true>(p, gx, gy, which, NULL, s);
    else run_back<float, true>(p, gx, gy, which, NULL, s);
}

void wisp_dpool_mean(const struct wisp_dpool &p, void *y, const void *x, cudaStream_t s)
{
    if (p.x.half) run_on<__nv_bfloat16, false>(p, y, NULL, false, x, s);
    else run_on<float, false>(p, y, NULL, false, x, s);
}

void wisp_dpool_mean_back(const struct wisp_dpool &p, void *gx, const void *gy, const void *gate,
                          cudaStream_t s)
{
    if (p.x.half) run_back<__nv_bfloat16, false>(p, gx, gy, NULL, gate, s);
    else run_back<float, false>(p, gx, gy, NULL, gate, s);
}

/* ---- mean of all pixels ---- */

static unsigned blocks(size_t n)
{
    return (unsigned)wisp_parts(n, THREADS);
}

/* A thread has a channel of a sample. */
template <class T>
__global__ static void __launch_bounds__(THREADS)
    all_on(const uint32_t *now_n, float *y, const T *x, size_t n, size_t pixels, size_t c,
           size_t used)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n * used || beyond(now_n, (int)(i / used))) return;
    float sum = 0;
#pragma unroll 8
    for (size_t q = 0; q < pixels; q++) sum += (float)x[(i / used * pixels + q) * c + i % used];
    y[i] = sum / (float)pixels;
}

/* A thread has N channels of a pixel. */
template <class T, int N>
__global__ static void __launch_bounds__(THREADS)
    all_back(const uint32_t *now_n, T *gx, const float *gy, const T *gate, size_t n, size_t pixels,
             size_t c, size_t used)
{
    const size_t i = N * ((size_t)blockIdx.x * THREADS + threadIdx.x), first = i % c;
    if (i >= n * pixels * c) return;
    const size_t sample = i / c / pixels;
    const bool there = !beyond(now_n, (int)sample);
    wisp_vector<T, N> g;
#pragma unroll
    for (int k = 0; k < N; k++) {
        const bool on = there && first + k < used && (!gate || (float)gate[i + k] > 0);
        g.v[k] = on ? gy[sample * used + first + k] / (float)pixels : 0;
    }
    g.to(gx + i);
}

template <class T>
static void go_back(const struct wisp_dplanes &p, void *gx, const float *gy, const void *gate,
                    cudaStream_t s)
{
    constexpr int N = 16 / (int)sizeof(T);
    const size_t pixels = p.h * p.w, used = p.used ? p.used : p.c, all = p.n * pixels * p.c;
    if (p.c % N == 0)
        all_back<T, N><<<blocks(all / N), THREADS, 0, s>>>(p.now_n, (T *)gx, gy, (const T *)gate,
                                                           p.n, pixels, p.c, used);
    else
        all_back<T, 1><<<blocks(all), THREADS, 0, s>>>(p.now_n, (T *)gx, gy, (const T *)gate, p.n,
                                                       pixels, p.c, used);
}

void wisp_dpool_all(const struct wisp_dplanes &p, float *y, const void *x, cudaStream_t s)
{
    const size_t pixels = p.h * p.w;
    const size_t used = p.used ? p.used : p.c;
    const unsigned n = blocks(p.n * used);
    if (p.half)
        all_on<<<n, THREADS, 0, s>>>(p.now_n, y, (const __nv_bfloat16 *)x, p.n, pixels, p.c, used);
    else all_on<<<n, THREADS, 0, s>>>(p.now_n, y, (const float *)x, p.n, pixels, p.c, used);
}

void wisp_dpool_all_back(const struct wisp_dplanes &p, void *gx, const float *gy, const void *gate,
                         cudaStream_t s)
{
    if (p.half) go_back<__nv_bfloat16>(p, gx, gy, gate, s);
    else go_back<float>(p, gx, gy, gate, s);
}
