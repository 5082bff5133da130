/* Times of convolutions: the layers of known nets, pass by pass, own kernels and the library's. */
#ifndef WISP_TESTS_GPU_CONV_BENCH_CUH
#define WISP_TESTS_GPU_CONV_BENCH_CUH

#include "gpu/conv_rig.cuh"

struct bench_layer {
    size_t times; /* layers alike */
    size_t in, out, side, kernel, stride, pad;
};
struct bench_net {
    const char *name;
    size_t n;
    std::vector<bench_layer> layers; /* the first has no pass for data; images have 4 channels */
};

static const std::vector<bench_net> &bench_nets()
{
    static const std::vector<bench_net> nets = {
        { "lenet", 512, { { 1, 4, 6, 28, 5, 1, 2 }, { 1, 6, 16, 14, 5, 1, 0 } } },
        { "resnet18-cifar",
          512,
          { { 1, 4, 64, 32, 3, 1, 1 },
            { 4, 64, 64, 32, 3, 1, 1 },
            { 1, 64, 128, 32, 3, 2, 1 },
            { 1, 64, 128, 32, 1, 2, 0 },
            { 3, 128, 128, 16, 3, 1, 1 },
            { 1, 128, 256, 16, 3, 2, 1 },
            { 1, 128, 256, 16, 1, 2, 0 },
            { 3, 256, 256, 8, 3, 1, 1 },
            { 1, 256, 512, 8, 3, 2, 1 },
            { 1, 256, 512, 8, 1, 2, 0 },
            { 3, 512, 512, 4, 3, 1, 1 } } },
        { "alexnet",
          256,
          { { 1, 4, 64, 224, 11, 4, 2 },
            { 1, 64, 192, 27, 5, 1, 2 },
            { 1, 192, 384, 13, 3, 1, 1 },
            { 1, 384, 256, 13, 3, 1, 1 },
            { 1, 256, 256, 13, 3, 1, 1 } } },
        { "vgg16",
          64,
          { { 1, 4, 64, 224, 3, 1, 1 },
            { 1, 64, 64, 224, 3, 1, 1 },
            { 1, 64, 128, 112, 3, 1, 1 },
            { 1, 128, 128, 112, 3, 1, 1 },
            { 1, 128, 256, 56, 3, 1, 1 },
            { 2, 256, 256, 56, 3, 1, 1 },
            { 1, 256, 512, 28, 3, 1, 1 },
            { 2, 512, 512, 28, 3, 1, 1 },
            { 3, 512, 512, 14, 3, 1, 1 } } },
        { "resnet18",
          128,
          { { 1, 4, 64, 224, 7, 2, 3 },
            { 4, 64, 64, 56, 3, 1, 1 },
            { 1, 64, 128, 56, 3, 2, 1 },
            { 1, 64, 128, 56, 1, 2, 0 },
            { 3, 128, 128, 28, 3, 1, 1 },
            { 1, 128, 256, 28, 3, 2, 1 },
            { 1, 128, 256, 28, 1, 2, 0 },
            { 3, 256, 256, 14, 3, 1, 1 },
            { 1, 256, 512, 14, 3, 2, 1 },
            { 1, 256, 512, 14, 1, 2, 0 },
            { 3, 512, 512, 7, 3, 1, 1 } } },
    };
    return nets;
}

struct bench_times {                /* of one pass, in ms; 0: not measured */
    double own, library, best, any; /* best, any: of those that it measured, repeating or not */
    size_t bytes;                   /* of the library's memory */
};

/* Random numbers in -1 .. 1, as bf16 and as floats: the upper half of a float is a bf16. */
__global__ static void bench_fill(uint16_t *x, size_t n)
{
    for (size_t i = (size_t)blockIdx.x * 256 + threadIdx.x; i < n; i += (size_t)gridDim.x * 256) {
        const uint32_t bits = (uint32_t)(wisp_dmix(i + 1) >> 32);
        x[i] = (uint16_t)(__float_as_uint((float)(int32_t)bits * 0x1p-31f) >> 16);
    }
}

struct bench_room { /* of all arrays of a convolution */
    struct wisp_dconv c;
    char *block;
    static constexpr size_t EACH = (size_t)1 << 30, ARRAYS = 6;
    bench_room()
    {
        OK(cudaMalloc((void **)&block, EACH * ARRAYS));
        bench_fill<<<2048, 256>>>((uint16_t *)block, EACH * ARRAYS / 2);
        rig_sync("fill");
    }
    ~bench_room()
    {
        cudaFree(block);
    }
    struct wisp_dconv_job job() const
    {
        struct wisp_dconv_job j = {};
        j.x = block, j.w = block + EACH, j.gy = block + 2 * EACH;
        j.y = block + 3 * EACH, j.gx = block + 4 * EACH, j.gw = (float *)(block + 5 * EACH);
        return j;
    }
};

/* Milliseconds of a call, as a step would run it: REPEATS calls captured as a graph. */
template <class F> static double bench_graph(const F &call)
{
    enum { REPEATS = 4 };
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    bool all = true;
    OK(cudaStreamCreate(&s));
    all = call(s) == WISP_OK; /* what is loaded when it is first used is there now */
    OK(cudaStreamSynchronize(s));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < REPEATS; i++) all = call(s) == WISP_OK && all;
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    const double ms = rig_ms([&]() { OK(cudaGraphLaunch(exec, 0)); }, 5) / REPEATS;
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(s));
    return all ? ms : -1;
}

static double bench_run(const bench_room &r, const char *only, enum wisp_dconv_pass pass,
                        void *work, size_t room, size_t *bytes)
{
    struct wisp_dconv_plan p;
    struct wisp_dconv_job j = r.job();
    wisp_error err;
    double ms = 0;
    wisp_dconv_make(&p, &r.c, only);
    j.work = work;
    if (strcmp(p.way[pass]->name, only) == 0 && p.bytes[pass] <= room) {
        ms = bench_graph([&](cudaStream_t s) { return wisp_dconv_run(&p, pass, &j, s, &err); });
    }
    if (bytes) *bytes = p.bytes[pass];
    wisp_dconv_clear(&p);
    return ms;
}

static struct bench_times bench_pass(const bench_room &r, enum wisp_dconv_pass pass, void *work,
                                     size_t room)
{
    struct bench_times t = {};
    struct wisp_dconv_seen seen[16];
    struct wisp_dconv_job j = r.job();
    t.own = bench_run(r, "tensor", pass, work, room, NULL);
    t.library = bench_run(r, "cudnn", pass, work, room, &t.bytes);
    j.work = work;
    const size_t n =
        getenv("BENCH_FIND") ? wisp_dconv_cudnn_measure(seen, 16, &r.c, pass, &j, room) : 0;
    for (size_t i = n; i-- > 0;) {
        t.any = seen[i].ms;
        if (seen[i].repeats) t.best = seen[i].ms;
    }
    return t;
}

/* bench [NET...]; BENCH_FIND=1: cuDNN measures all its algorithms, too. */
static int conv_bench(int argc, char **argv)
{
    const size_t room = (size_t)1 << 30;
    const double peak[] = { 67, 495, 989 }; /* TFLOP/s of an H200, said by its maker */
    bench_room r;
    void *work;
    OK(cudaMalloc(&work, room));
    printf("%s\n", wisp_dconv_library());
    printf(
        "ms (TFLOP/s, share of %g and %g): own; cudnn as taken, with its MiB; cudnn's fastest that "
        "repeats, of all\n",
        peak[1], peak[2]);
    for (const bench_net &net : bench_nets()) {
        bool wanted = argc == 0;
        for (int i = 0; i < argc; i++) wanted = wanted || net.name == std::string(argv[i]);
        for (int math = WISP_DCONV_TF32; math <= WISP_DCONV_BF16 && wanted; math++) {
            struct bench_times sum[WISP_DCONV_PASSES] = {};
            for (const bench_layer &l : net.layers) {
                r.c = conv_of(net.n, l.in, l.out, l.side, l.kernel, l.stride, l.pad, 1,
                              (enum wisp_dconv_math)math);
                const double flops = 2.0 * (double)(r.c.n * r.c.oh * r.c.ow * r.c.out) *
                                     (double)wisp_dconv_row(&r.c);
                printf("%s %s %zu x %zu>%zu %zux%zu /%zu:", net.name, math_names[math], l.times,
                       l.in, l.out, l.kernel, l.side, l.stride);
                for (int k = 0; k < WISP_DCONV_PASSES; k++) {
                    if (k == WISP_DCONV_DATA && &l == &net.layers[0]) continue;
                    const struct bench_times t = bench_pass(r, (enum wisp_dconv_pass)k, work, room);
                    const double rate = flops / 1e9;
                    printf(" %s %.3f (%.0f, %.0f%%); %.3f (%.0f, %.0f%%, %zu); %.3f %.3f |",
                           pass_names[k], t.own, rate / t.own, rate / t.own / peak[math] * 100,
                           t.library, rate / t.library, rate / t.library / peak[math] * 100,
                           t.bytes >> 20, t.best, t.any);
                    sum[k].own += t.own * (double)l.times;
                    sum[k].library += t.library * (double)l.times;
                    sum[k].best += t.best * (double)l.times, sum[k].any += t.any * (double)l.times;
                }
                printf("\n");
                fflush(stdout);
            }
            printf("ALL %s %s:", net.name, math_names[math]);
            for (int k = 0; k < WISP_DCONV_PASSES; k++)
                printf(" %s %.3f; %.3f; %.3f %.3f |", pass_names[k], sum[k].own, sum[k].library,
                       sum[k].best, sum[k].any);
            printf("\n");
        }
    }
    cudaFree(work);
    return 0;
}

#endif
