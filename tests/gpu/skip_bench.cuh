/* Times of convolutions that skip slices of zeros, beside the own dense kernels and the library: the
 * layers of known nets at several shares of zeros, which lie by themselves or as whole channels of an
 * image, as those of a ReLU that never opens do. */
#ifndef WISP_TESTS_GPU_SKIP_BENCH_CUH
#define WISP_TESTS_GPU_SKIP_BENCH_CUH

#include "cuda/conv_skip.cuh"
#include "gpu/conv_bench.cuh"

/* Zeros for a share of x (images, pixels, channels), the rest as bench_fill has it.  size: bytes of a
 * number, which has any that is not 0 in its upper half. */
__global__ static void bench_zeros(uint16_t *x, size_t n, size_t size, size_t image,
                                   size_t channels, float share, bool clustered)
{
    for (size_t i = (size_t)blockIdx.x * 256 + threadIdx.x; i < n; i += (size_t)gridDim.x * 256) {
        const size_t key = clustered ? i / image * channels + i % channels : i;
        const bool off = (float)(wisp_dmix(key + 77) >> 40) * 0x1p-24f < share;
        const uint32_t bits = (uint32_t)(wisp_dmix(i + 1) >> 32) | 0x100u;
        const uint32_t v = off ? 0 : __float_as_uint((float)(int32_t)bits * 0x1p-31f);
        if (size == 2) x[i] = (uint16_t)(v >> 16);
        else ((uint32_t *)x)[i] = v & 0xffff0000u;
    }
}

struct skip_point {
    double ms, live; /* ms -1: it cannot */
};
static struct skip_point bench_skip(const bench_room &r, enum wisp_dconv_pass pass, void *work,
                                    size_t room, float share, bool clustered)
{
    const struct wisp_dconv &c = r.c;
    const struct wisp_dconv_job j = r.job();
    const size_t size = wisp_dconv_size(&c);
    if (!wisp_dconv_skip.can(&c, pass) || wisp_dconv_skip.bytes(&c, pass, NULL) > room)
        return { -1, 1 };
    bench_zeros<<<2048, 256>>>((uint16_t *)j.x, c.n * c.h * c.w * c.in, size, c.h * c.w * c.in,
                               c.in, share, clustered);
    bench_zeros<<<2048, 256>>>((uint16_t *)j.gy, c.n * c.oh * c.ow * c.out, size,
                               c.oh * c.ow * c.out, c.out, share, clustered);
    rig_sync("zeros");
    const double ms = bench_run(r, "skip", pass, work, room, NULL);
    const struct wisp_dlive seen = wisp_dconv_skip_seen(&c, pass, work);
    return { ms, (double)seen.live / (double)seen.all };
}

/* zeros [NET...]; BENCH_MATH: fp32, tf32 or bf16 alone. */
static int skip_bench(int argc, char **argv)
{
    const size_t room = (size_t)1 << 30;
    const float shares[] = { 0, 0.5f, 0.7f, 0.8f, 0.9f, 0.95f };
    const char *math_wanted = getenv("BENCH_MATH");
    bench_room r;
    void *work;
    OK(cudaMalloc(&work, room));
    printf("%s\nms: own dense; library | zeros of x and gy in %% : skip (%% of slices live), by "
           "themselves | by channels of an image\n",
           wisp_dconv_library());
    for (const bench_net &net : bench_nets())
        for (int math = 0; math < 3; math++) {
            bool wanted = argc == 0;
            for (int i = 0; i < argc; i++) wanted = wanted || net.name == std::string(argv[i]);
            if (!wanted || (math_wanted && strcmp(math_wanted, math_names[math]) != 0)) continue;
            for (const bench_layer &l : net.layers) {
                r.c = conv_of(net.n, l.in, l.out, l.side, l.kernel, l.stride, l.pad, 1,
                              (enum wisp_dconv_math)math);
                for (int k = 0; k < WISP_DCONV_PASSES; k++) {
                    const enum wisp_dconv_pass pass = (enum wisp_dconv_pass)k;
                    if (l.in == 4) continue; /* images, which have no zeros */
                    const double own = bench_run(r, "tensor", pass, work, room, NULL);
                    const double library = bench_run(r, "cudnn", pass, work, room, NULL);
                    printf("%s %s %zu>%zu %zux%zu /%zu %s: %.3f; %.3f", net.name, math_names[math],
                           l.in, l.out, l.kernel, l.side, l.stride, pass_names[k], own, library);
                    for (int clustered = 0; clustered < 2; clustered++)
                        for (float share : shares) {
                            if (clustered && share == 0) {
                                printf(" |");
                                continue;
                            }
                            const struct skip_point t =
                                bench_skip(r, pass, work, room, share, clustered);
                            printf("%s%.0f: %.3f (%.0f)", share == 0 ? " | " : ", ", share * 100,
                                   t.ms, t.live * 100);
                        }
                    printf("\n");
                    fflush(stdout);
                }
            }
        }
    cudaFree(work);
    return 0;
}

#endif
