/* The table of ways to convolve on the card, the choice among them, and sums that all share. */
#include "cuda/conv.cuh"
#include "cuda/ops.cuh"
#include "cuda/trainer.cuh"
#include "cuda/vector.cuh"

#include <string.h>

enum { THREADS = 256, PART = 1024, COLS = 8, LINES = THREADS / COLS };

/* ---- the table: the first that can is taken, but for what 'own_first' says; zeros are skipped only
 * by who asks for it ---- */

static const struct wisp_dconv_way *const ways[] = {
    &wisp_dconv_skip, &wisp_dconv_few, &wisp_dconv_cudnn, &wisp_dconv_tensor, &wisp_dconv_plain,
};

const struct wisp_dconv_way *wisp_dconv_way_at(size_t i)
{
    return i < sizeof ways / sizeof *ways ? ways[i] : NULL;
}

static bool takes(const struct wisp_dconv_way *way, struct wisp_dconv_plan *p,
                  enum wisp_dconv_pass pass)
{
    void *made = NULL;
    if (!way->can(&p->c, pass) || (way->make && !way->make(&made, &p->c, pass))) return false;
    p->way[pass] = way, p->made[pass] = made, p->bytes[pass] = way->bytes(&p->c, pass, made);
    return true;
}

/* Instead of the way that was taken. */
static void skip_instead(struct wisp_dconv_plan *p, enum wisp_dconv_pass pass)
{
    if (p->made[pass]) p->way[pass]->free(p->made[pass]);
    takes(&wisp_dconv_skip, p, pass);
}

/* Where the library is slower, by a fixed rule, so that a run repeats.  On an H200 (cuDNN 9.14, bf16,
 * own / library): images of 4 channels, 11 x 11 with stride 4, forward 0.50 / 1.07 ms, 3 x 3 at 32
 * pixels, weights 0.09 / 0.21; 1 x 1 with stride 2, 64 to 128 channels, forward 0.03 / 0.19.  In fp32
 * (cuDNN 9.19), 256 images of 27 x 27, 5 x 5, 64 to 192 channels: forward 3.6 / 10.7, weights 6.7 /
 * 5.4; for data the library has nothing that repeats. */
static bool own_first(const struct wisp_dconv *c, enum wisp_dconv_pass pass)
{
    const bool few = c->in / c->groups * wisp_dconv_size(c) <= 16;
    const bool point = c->kh * c->kw == 1 && c->stride > 1;
    const bool whole = c->in / c->groups % 4 == 0;
    if (c->math == WISP_DCONV_FP32) return pass == WISP_DCONV_FORWARD && whole;
    return (few && pass != WISP_DCONV_DATA) || (point && pass == WISP_DCONV_FORWARD);
}

static void take(struct wisp_dconv_plan *p, enum wisp_dconv_pass pass, const char *only)
{
    const bool tensor = !wisp_dconv_few.can(&p->c, pass) && own_first(&p->c, pass);
    if (!only && tensor && takes(&wisp_dconv_tensor, p, pass)) return;
    for (const struct wisp_dconv_way *way : ways) {
        const bool named = only && strcmp(only, way->name) == 0;
        const bool any = !only && way != &wisp_dconv_skip;
        if ((named || any || way == &wisp_dconv_plain) && takes(way, p, pass)) return;
    }
}

void wisp_dconv_make(struct wisp_dconv_plan *p, const struct wisp_dconv *c, const char *only,
                     unsigned passes, enum wisp_zeros zeros)
{
    *p = {};
    p->c = *c;
    for (int i = 0; i < WISP_DCONV_PASSES; i++) {
        const enum wisp_dconv_pass pass = (enum wisp_dconv_pass)i;
        if (!(passes >> i & 1)) continue;
        take(p, pass, only);
        if (zeros == WISP_ZEROS_OFF || !wisp_dconv_skip.can(c, pass)) continue;
        if (zeros == WISP_ZEROS_FORCE || wisp_dconv_skip_wins(p, pass)) skip_instead(p, pass);
    }
}

void wisp_dconv_clear(struct wisp_dconv_plan *p)
{
    for (int pass = 0; pass < WISP_DCONV_PASSES; pass++)
        if (p->made[pass]) p->way[pass]->free(p->made[pass]);
    *p = {};
}

bool wisp_dconv_gives_halves(const struct wisp_dconv_plan *p)
{
    return p->c.math == WISP_DCONV_BF16 && p->way[WISP_DCONV_WEIGHTS] == &wisp_dconv_cudnn;
}

bool wisp_dconv_adds(const struct wisp_dconv_plan *p)
{
    return p->way[WISP_DCONV_DATA] == &wisp_dconv_cudnn;
}

wisp_status wisp_dconv_run(const struct wisp_dconv_plan *p, enum wisp_dconv_pass pass,
                           const struct wisp_dconv_job *j, cudaStream_t s, wisp_error *err)
{
    struct wisp_dconv_job job = *j;
    if (pass == WISP_DCONV_DATA) job.n = NULL; /* gx of all samples: that of zeros is 0 */
    if (p->way[pass]->run(&p->c, pass, p->made[pass], &job, s)) return WISP_OK;
    return wisp_dfail(
        err, WISP_ENOTSUP,
        "--device cuda: %s refused a convolution that it had prepared (%zu x %zu, %zu "
        "to %zu channels); use --device cpu",
        wisp_dconv_library(), p->c.h, p->c.w, p->c.in, p->c.out);
}

int wisp_dconv_multis(void)
{
    int device = 0, n = 1;
    if (cudaGetDevice(&device) != cudaSuccess) return WISP_DPLAN_MULTIS;
    cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device);
    return n;
}

int wisp_dconv_capability(void)
{
    int device = 0, major = 0, minor = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return WISP_DPLAN_CAPABILITY;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    return 10 * major + minor;
}

/* ---- sums in a fixed order ---- */

__global__ static void __launch_bounds__(THREADS)
    add_few(float *to, const float *parts, size_t floats, size_t n)
{
    const size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= floats) return;
    float sum = 0;
#pragma unroll 8
    for (size_t i = 0; i < n; i++) sum += parts[i * floats + at];
    to[at] = sum;
}

/* A block has 32 of the floats: warp w adds parts w, w + WARPS, ..., and the warps' sums are added
 * in their order. */
template <int WARPS>
__global__ static void __launch_bounds__(WARPS * 32)
    add_many(float *to, const float *parts, size_t floats, size_t n)
{
    __shared__ float sums[WARPS][32];
    const size_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t at = (size_t)blockIdx.x * 32 + lane;
    float sum = 0;
#pragma unroll 8
    for (size_t i = warp; i < n && at < floats; i += WARPS) sum += parts[i * floats + at];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || at >= floats) return;
    for (size_t w = 1; w < WARPS; w++) sum += sums[w][lane];
    to[at] = sum;
}

void wisp_dconv_add(float *to, const float *parts, size_t floats, size_t n_parts, cudaStream_t s)
{
    const unsigned rows = (unsigned)wisp_parts(floats, 32);
    if (n_parts <= 16)
        add_few<<<(unsigned)wisp_parts(floats, THREADS), THREADS, 0, s>>>(to, parts, floats,
                                                                          n_parts);
    else if (n_parts <= 256) add_many<8><<<rows, 8 * 32, 0, s>>>(to, parts, floats, n_parts);
    else add_many<32><<<rows, 32 * 32, 0, s>>>(to, parts, floats, n_parts);
}

/* A block has 128 bytes of channels (or 8 channels, where they do not fill 16 bytes) and a part of
 * the pixels; a thread 16 bytes of every 32nd. */
template <class T, int N>
__global__ static void __launch_bounds__(THREADS)
    add_pixels(float *parts, const T *gy, const uint32_t *now_n, size_t n, size_t pixels,
               size_t channels)
{
    __shared__ float sums[LINES][COLS * N + 1];
    const size_t line = threadIdx.x / COLS, col = threadIdx.x % COLS * N;
    const size_t c = (size_t)blockIdx.y * COLS * N + col, first = (size_t)blockIdx.x * PART;
    const size_t all = (now_n && *now_n < n ? *now_n : n) * pixels;
    const size_t end = all < first + PART ? all : first + PART;
    auto sum = wisp_vector<T, N>::of(0);
#pragma unroll 4
    for (size_t i = first + line; i < end && c < channels; i += LINES) {
        const auto v = wisp_vector<T, N>::at(gy + i * channels + c);
#pragma unroll
        for (int k = 0; k < N; k++) sum.v[k] += v.v[k];
    }
#pragma unroll
    for (int k = 0; k < N; k++) sums[line][col + k] = sum.v[k];
    __syncthreads();
    const size_t mine = (size_t)blockIdx.y * COLS * N + threadIdx.x;
    if (threadIdx.x >= COLS * N || mine >= channels) return;
    float total = 0;
    for (int i = 0; i < LINES; i++) total += sums[i][threadIdx.x];
    parts[blockIdx.x * channels + mine] = total;
}

template <class T, int N>
static void launch_add(float *parts, const void *gy, const uint32_t *now_n, size_t n, size_t pixels,
                       size_t channels, cudaStream_t s)
{
    const dim3 grid((unsigned)wisp_parts(n * pixels, PART),
                    (unsigned)wisp_parts(channels, (size_t)COLS * N));
    add_pixels<T, N><<<grid, THREADS, 0, s>>>(parts, (const T *)gy, now_n, n, pixels, channels);
}

size_t wisp_dconv_bias_bytes(size_t n, size_t pixels, size_t channels)
{
    return wisp_parts(n * pixels, PART) * channels * 4;
}

void wisp_dconv_bias(float *sums, const void *gy, bool half, const uint32_t *now_n, size_t n,
                     size_t pixels, size_t channels, void *work, cudaStream_t s)
{
    float *parts = (float *)work;
    if (half && channels % 8 == 0)
        launch_add<__nv_bfloat16, 8>(parts, gy, now_n, n, pixels, channels, s);
    else if (half) launch_add<__nv_bfloat16, 1>(parts, gy, now_n, n, pixels, channels, s);
    else if (channels % 4 == 0) launch_add<float, 4>(parts, gy, now_n, n, pixels, channels, s);
    else launch_add<float, 1>(parts, gy, now_n, n, pixels, channels, s);
    wisp_dconv_add(sums, parts, channels, wisp_parts(n * pixels, PART), s);
}
