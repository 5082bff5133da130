/* Whether skipping zeros is measured to be faster (conv.cuh): the dense way of a plan and the one that
 * skips, on numbers made up for it.
 *
 * A step is a graph that is captured before its numbers are known, so that it cannot ask them.  What
 * is measured is the best that real nets offer: of slices of a channel and 64 pixels 79 to 100 % were
 * live (docs/speed.md).  Channels of an image are 0 as a whole, so many that 79 % of the units are
 * live. */
#include "cuda/conv.cuh"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include <mutex>

enum { THREADS = 256, BLOCKS = 1024, RUNS = 4, KNOWN = 256 };
static const double LIVE = 0.79, FASTER = 0.98;

/* x (images, pixels, channels) of numbers in -1 .. 1 and zeros for a share of the channels. */
template <class T>
__global__ static void __launch_bounds__(THREADS)
    make_up(T *x, size_t n, size_t image, size_t channels, float zeros)
{
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (size_t)gridDim.x * THREADS) {
        const uint64_t channel = wisp_dmix(i / image * channels + i % channels + 1);
        const bool off = (float)(channel >> 40) * 0x1p-24f < zeros;
        x[i] = (T)(off ? 0.0f : (float)(int32_t)(wisp_dmix(~i) >> 32 | 0x1000) * 0x1p-31f);
    }
}

/* Least milliseconds of a run, which the first is not: what is loaded when it is used is there then.
 * Negative: it was refused. */
static double time_of(const struct wisp_dconv_plan &p, enum wisp_dconv_pass pass,
                      const struct wisp_dconv_job &j)
{
    cudaEvent_t from, to;
    double best = -1;
    if (cudaEventCreate(&from) != cudaSuccess) return -1;
    if (cudaEventCreate(&to) != cudaSuccess) {
        cudaEventDestroy(from);
        return -1;
    }
    for (int i = 0; i < RUNS; i++) {
        float ms = 0;
        cudaEventRecord(from, 0);
        const bool done = wisp_dconv_run(&p, pass, &j, 0, NULL) == WISP_OK;
        cudaEventRecord(to, 0);
        if (cudaEventSynchronize(to) != cudaSuccess || !done ||
            cudaEventElapsedTime(&ms, from, to) != cudaSuccess) {
            best = -1;
            break;
        }
        if (i && (best < 0 || ms < best)) best = ms;
    }
    cudaEventDestroy(from), cudaEventDestroy(to);
    return best;
}

template <class T> static void fill(void *x, size_t n, size_t image, size_t channels, float zeros)
{
    make_up<<<BLOCKS, THREADS>>>((T *)x, n, image, channels, zeros);
}

static bool measure(const struct wisp_dconv_plan *p, enum wisp_dconv_pass pass)
{
    const struct wisp_dconv &c = p->c;
    const bool half = c.math == WISP_DCONV_BF16;
    const size_t x = c.n * c.h * c.w * c.in, y = c.n * c.oh * c.ow * c.out;
    const size_t w = c.out * wisp_dconv_row(&c), size = wisp_dconv_size(&c);
    struct wisp_dconv_plan skip = {};
    skip.c = c, skip.way[pass] = &wisp_dconv_skip;
    const size_t work = wisp_most(p->bytes[pass], wisp_dconv_skip.bytes(&c, pass, NULL));
    const size_t at_y = wisp_up(x * size, 256), at_w = at_y + wisp_up(y * size, 256);
    const size_t at_gw = at_w + wisp_up(w * size, 256), at_work = at_gw + wisp_up(w * 4, 256);
    char *block = NULL;
    if (cudaMalloc((void **)&block, at_work + work) != cudaSuccess) {
        cudaGetLastError(); /* it is of no use to those who come next */
        return false;
    }
    const float zeros = (float)(half ? sqrt(1 - LIVE) : 1 - LIVE); /* a unit is two of bf16 */
    const auto put = half ? fill<__nv_bfloat16> : fill<float>;
    put(block, x, c.h * c.w * c.in, c.in, zeros);
    put(block + at_y, y, c.oh * c.ow * c.out, c.out, zeros);
    put(block + at_w, w, w, w, 0);
    struct wisp_dconv_job j = {};
    j.x = j.gx = block, j.y = block + at_y, j.gy = block + at_y, j.w = block + at_w;
    j.gw = (float *)(block + at_gw), j.work = block + at_work;
    const double dense = time_of(*p, pass, j);
    /* what the dense way has written is no number to be skipped */
    put(pass == WISP_DCONV_DATA ? block : block + at_y, pass == WISP_DCONV_DATA ? x : y,
        pass == WISP_DCONV_DATA ? c.h * c.w * c.in : c.oh * c.ow * c.out,
        pass == WISP_DCONV_DATA ? c.in : c.out, zeros);
    const double skipping = time_of(skip, pass, j);
    cudaFree(block);
    return dense > 0 && skipping > 0 && skipping < FASTER * dense;
}

bool wisp_dconv_skip_wins(const struct wisp_dconv_plan *p, enum wisp_dconv_pass pass)
{
    static struct { /* a net is planned several times */
        struct wisp_dconv c;
        enum wisp_dconv_pass pass;
        const struct wisp_dconv_way *dense;
        bool wins;
    } known[KNOWN];
    static size_t n;
    static std::mutex one_caller;
    const std::lock_guard<std::mutex> alone(one_caller);
    for (size_t i = 0; i < n; i++)
        if (memcmp(&known[i].c, &p->c, offsetof(struct wisp_dconv, math)) == 0 &&
            known[i].c.math == p->c.math && known[i].pass == pass && known[i].dense == p->way[pass])
            return known[i].wins;
    const bool wins = measure(p, pass);
    if (n < KNOWN) known[n++] = { p->c, pass, p->way[pass], wins };
    return wins;
}
