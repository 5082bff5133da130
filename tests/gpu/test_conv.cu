/* Convolution on the card: every way and pass against plain code in double, on odd shapes; runs and
 * replays of a captured graph repeat bit for bit.
 *
 *   test_conv bench   times the passes of the layers of known nets (conv_bench.cuh) */
#include "gpu/conv_rig.cuh"
#include "gpu/conv_bench.cuh"

struct shape {
    size_t n, in, out, h, w, kh, kw, stride, pad_h, pad_w, groups;
};

static const struct shape shapes[] = {
    { 2, 16, 16, 7, 9, 3, 3, 1, 1, 1, 1 },    { 3, 1, 6, 12, 12, 5, 5, 1, 2, 2, 1 },
    { 2, 6, 16, 9, 8, 5, 5, 1, 0, 0, 1 },     { 1, 3, 8, 13, 11, 7, 7, 2, 3, 3, 1 },
    { 2, 4, 24, 19, 19, 11, 11, 4, 2, 2, 1 }, { 2, 32, 72, 8, 8, 3, 3, 2, 1, 1, 1 },
    { 3, 64, 40, 7, 7, 1, 1, 2, 0, 0, 1 },    { 2, 8, 8, 6, 10, 3, 1, 1, 1, 0, 1 },
    { 2, 16, 32, 9, 9, 3, 3, 1, 1, 1, 4 },    { 2, 24, 24, 8, 9, 3, 3, 2, 1, 1, 3 },
    { 1, 136, 200, 5, 4, 3, 3, 1, 1, 1, 1 },  { 5, 8, 136, 6, 6, 2, 2, 2, 0, 0, 1 },
    { 2, 8, 16, 5, 5, 3, 3, 3, 1, 1, 1 },     { 1, 12, 20, 4, 4, 4, 4, 1, 0, 0, 1 },
    { 2, 20, 8, 6, 5, 1, 1, 1, 0, 0, 1 },     { 1, 64, 64, 16, 16, 3, 3, 1, 1, 1, 1 },
    { 2, 4, 64, 9, 7, 3, 3, 1, 1, 1, 1 },     { 2, 4, 136, 9, 9, 5, 5, 2, 2, 2, 1 },
    { 3, 4, 8, 28, 28, 5, 5, 1, 2, 2, 1 },    { 2, 4, 4, 40, 70, 3, 5, 1, 1, 0, 1 },
    { 5, 4, 12, 9, 8, 2, 3, 2, 0, 1, 1 },     { 2, 4, 16, 60, 33, 7, 7, 1, 3, 3, 1 },
};

static struct wisp_dconv sizes_of(const struct shape &s, enum wisp_dconv_math math)
{
    const size_t oh = (s.h + 2 * s.pad_h - s.kh) / s.stride + 1;
    const size_t ow = (s.w + 2 * s.pad_w - s.kw) / s.stride + 1;
    return { s.n,  s.in, s.out,    s.h,     s.w,     oh,       ow,
             s.kh, s.kw, s.stride, s.pad_h, s.pad_w, s.groups, math };
}

/* ---- one pass of one way ---- */

struct asked {
    bool bias, relu, gate, fewer; /* fewer: the step has a sample less than there is room for */
};

struct result { /* of a pass */
    std::vector<float> x;
    std::vector<uint8_t> bytes;
};

static struct result run_once(conv_rig &r, const struct wisp_dconv_plan &p,
                              enum wisp_dconv_pass pass, const struct wisp_dconv_job &j, int how)
{
    struct result out;
    wisp_error err;
    cudaStream_t s;
    r.y.fill(how ? 7 : -3), r.gx.fill(how ? 7 : -3);
    for (float &v : r.gw.host) v = how ? 5 : NAN;
    r.gw.up();
    OK(cudaStreamCreate(&s));
    if (how == 2) { /* captured, and replayed twice */
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        CHECK(wisp_dconv_run(&p, pass, &j, s, &err) == WISP_OK, "%s", err.text);
        OK(cudaStreamEndCapture(s, &graph));
        OK(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < 2; i++) OK(cudaGraphLaunch(exec, s));
        OK(cudaStreamSynchronize(s));
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(graph));
    } else {
        CHECK(wisp_dconv_run(&p, pass, &j, s, &err) == WISP_OK, "%s", err.text);
    }
    OK(cudaStreamSynchronize(s));
    rig_sync(p.way[pass]->name);
    OK(cudaStreamDestroy(s));
    if (pass == WISP_DCONV_WEIGHTS) {
        r.gw.down(), out.x = r.gw.host;
    } else {
        values &v = pass == WISP_DCONV_FORWARD ? r.y : r.gx;
        v.down(), out.x = v.x;
    }
    out.bytes.resize(out.x.size() * 4);
    memcpy(out.bytes.data(), out.x.data(), out.bytes.size());
    return out;
}

/* How far from the truth a number may be: relative to the sum of the absolute terms, and to
 * itself.  Where bf16 is rounded to, that is half of its last place, 1 / 256 at most; and cuDNN
 * rounds 'before', what it is before the bias (0: there is none), too. */
static double allowed(const struct wisp_dconv_way *way, const conv_rig &r,
                      enum wisp_dconv_pass pass, bool rounded, const truth &t, double before)
{
    const bool library = way == &wisp_dconv_cudnn;
    double mass = library ? 1e-5 : 2e-6, own = 1e-6;
    if (r.c.math == WISP_DCONV_TF32 && way != &wisp_dconv_plain && (library || !rounded))
        mass = 1e-3;
    if (r.c.math == WISP_DCONV_BF16) own = pass == WISP_DCONV_WEIGHTS && !library ? 1e-6 : 4.1e-3;
    if (r.c.math == WISP_DCONV_BF16 && library) mass = 1e-3;
    const double twice = library && r.c.math == WISP_DCONV_BF16 ? fabs(before) : 0;
    return mass * t.mass + own * (fabs(t.is) + twice) + 1e-7;
}

static void check_pass(conv_rig &r, const struct wisp_dconv_plan &p, enum wisp_dconv_pass pass,
                       bool rounded, const struct asked &a, const char *name)
{
    struct wisp_dconv_job j = r.job();
    const size_t n = a.fewer ? r.c.n - 1 : r.c.n;
    both<uint8_t> work(p.bytes[pass] + 256);
    r.now[0] = (uint32_t)n, r.now.up();
    j.n = a.fewer ? r.now.dev : NULL, j.work = work.dev, j.relu = a.relu;
    j.bias = a.bias ? r.bias.dev : NULL, j.gate = a.gate ? r.gate.dev() : NULL;
    const struct result is = run_once(r, p, pass, j, 0);
    std::vector<truth> want = conv_truth(r, pass, n);
    const size_t per_sample = pass == WISP_DCONV_WEIGHTS ? 0 : want.size() / r.c.n;
    double worst = 0;
    for (size_t i = 0; i < (per_sample ? per_sample * n : want.size()); i++) {
        truth t = want[i];
        const double before = pass == WISP_DCONV_FORWARD && a.bias ? t.is : 0;
        if (pass == WISP_DCONV_FORWARD && a.bias) t.add(1, r.bias[i % r.c.out]);
        if (pass == WISP_DCONV_FORWARD && a.relu && t.is < 0) t.is = 0;
        if (pass == WISP_DCONV_DATA && a.gate && !(r.gate.x[i] > 0)) t.is = t.mass = 0;
        const double far = fabs(is.x[i] - t.is) / allowed(p.way[pass], r, pass, rounded, t, before);
        worst = far > worst || far != far ? far : worst;
        CHECK(far <= 1, "%s at %zu of %zu: %g, should be %g (terms %g)", name, i, want.size(),
              is.x[i], t.is, t.mass);
    }
    for (size_t i = per_sample * n; per_sample && pass == WISP_DCONV_DATA && i < want.size(); i++)
        CHECK(is.x[i] == 0, "%s: gradient %g of a sample that is not there", name, is.x[i]);
    for (int how = 1; how < 3; how++) {
        const struct result again = run_once(r, p, pass, j, how);
        const size_t bytes = per_sample ? per_sample * n * 4 : is.bytes.size();
        CHECK(memcmp(again.bytes.data(), is.bytes.data(), bytes) == 0, "%s: %s gives other bytes",
              name, how == 1 ? "a second run" : "a replay");
    }
    if (getenv("RIG_LOUD")) printf("  %s: %.2g of what is allowed\n", name, worst);
}

static void check_way(const struct wisp_dconv_way *way, enum wisp_dconv_math math)
{
    char name[160];
    int done = 0;
    const size_t every = getenv("RIG_SMALL") ? 3 : 1;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += every) {
        const bool rounded = i % 2 == 0;
        conv_rig r(sizes_of(shapes[i], math));
        struct wisp_dconv_plan p;
        wisp_dconv_make(&p, &r.c, way->name);
        for (int k = 0; k < WISP_DCONV_PASSES; k++) {
            const enum wisp_dconv_pass pass = (enum wisp_dconv_pass)k;
            const bool fewer = i % 3 == 1 && r.c.n > 1;
            const struct asked a = { i % 2 == 0, i % 4 < 2, i % 2 == 1, fewer };
            if (p.way[k] != way) continue;
            r.draw(rounded);
            if (fewer) {
                const size_t each = r.gy.x.size() / r.c.n;
                for (size_t v = each * (r.c.n - 1); v < r.gy.x.size(); v++) r.gy.x[v] = 0;
                r.gy.up();
            }
            snprintf(name, sizeof name, "%s %s %s, shape %zu", way->name, math_names[math],
                     pass_names[k], i);
            check_pass(r, p, pass, rounded, a, name);
            done++;
        }
        wisp_dconv_clear(&p);
    }
    CHECK(done > 0, "%s does nothing in %s", way->name, math_names[math]);
}

static void check_ways(void)
{
    static char names[8][3][64];
    const struct wisp_dconv_way *way;
    for (size_t i = 0; (way = wisp_dconv_way_at(i)) != NULL; i++)
        for (int math = 0; math < 3; math++) {
            const size_t in = way == &wisp_dconv_few ? 4 : 8;
            const struct wisp_dconv one =
                conv_of(1, in, 8, 4, 3, 1, 1, 1, (enum wisp_dconv_math)math);
            snprintf(names[i][math], sizeof names[i][math], "convolution, %s in %s", way->name,
                     math_names[math]);
            TEST(names[i][math]);
            if (way->can(&one, WISP_DCONV_FORWARD)) check_way(way, (enum wisp_dconv_math)math);
            else if (way == &wisp_dconv_cudnn) SKIP(wisp_dconv_library());
            else if (math) SKIP("needs a card of compute capability 8.0 or more");
            else SKIP("has no form for it");
        }
}

/* ---- who is chosen ---- */

static void check_choice(void)
{
    TEST("ways are chosen by rule");
    const struct wisp_dconv any = conv_of(1, 8, 8, 4, 3, 1, 1, 1, WISP_DCONV_FP32);
    const bool library = wisp_dconv_cudnn.can(&any, WISP_DCONV_FORWARD);
    const bool tensor = wisp_dconv_capability() >= 80;
    for (int math = 0; math < 3; math++) {
        const enum wisp_dconv_math m = (enum wisp_dconv_math)math;
        const struct wisp_dconv_way *own = math && tensor ? &wisp_dconv_tensor : &wisp_dconv_plain;
        const struct wisp_dconv_way *first = library ? &wisp_dconv_cudnn : own;
        const struct wisp_dconv image = conv_of(8, 4, 64, 32, 3, 1, 1, 1, m);
        const struct wisp_dconv inner = conv_of(64, 64, 64, 32, 3, 1, 1, 1, m);
        const struct wisp_dconv digits = conv_of(64, 4, 8, 28, 5, 1, 2, 1, m);
        for (const struct wisp_dconv &c : { image, inner, digits }) {
            const bool own_first = c.in == 4 && own == &wisp_dconv_tensor;
            struct wisp_dconv_plan p;
            wisp_dconv_make(&p, &c, NULL);
            for (int k = 0; k < WISP_DCONV_PASSES; k++) {
                if (c.in == 4 && k == WISP_DCONV_DATA) continue; /* nobody wants it of images */
                const struct wisp_dconv_way *want = c.out == 8  ? &wisp_dconv_few
                                                    : own_first ? own
                                                                : first;
                /* the library need not have an algorithm of fp32 that repeats */
                CHECK(p.way[k] == want || (!math && p.way[k] == own),
                      "%s, %zu channels, %s: %s, not %s", math_names[math], c.in, pass_names[k],
                      p.way[k]->name, want->name);
            }
            wisp_dconv_clear(&p);
        }
    }
}

/* ---- sums over pixels ---- */

static void check_bias(void)
{
    TEST("gradient of a bias");
    for (int half = 0; half < 2; half++)
        for (size_t channels : { 1, 6, 64, 100 }) {
            const size_t n = 3, pixels = 777;
            values gy(n * pixels * channels, half);
            both<float> sums(channels, NAN);
            both<uint32_t> now(1, 2);
            both<uint8_t> work(wisp_dconv_bias_bytes(n, pixels, channels));
            gy.draw(false);
            wisp_dconv_bias(sums.dev, gy.dev(), half, now.dev, n, pixels, channels, work.dev, 0);
            rig_sync("bias");
            sums.down();
            for (size_t c = 0; c < channels; c++) {
                truth t = {};
                for (size_t i = 0; i < 2 * pixels; i++) t.add(gy.x[i * channels + c], 1);
                CHECK(fabs(sums[c] - t.is) <= 1e-6 * t.mass, "channel %zu of %zu: %g, not %g", c,
                      channels, sums[c], t.is);
            }
        }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "bench") == 0) return conv_bench(argc - 2, argv + 2);
    printf("  %s\n", wisp_dconv_library());
    check_ways();
    check_choice();
    check_bias();
    return test_end();
}
