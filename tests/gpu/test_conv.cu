/* Convolution on the card: every way and pass against plain code in double, on odd shapes; runs and
 * replays of a captured graph repeat bit for bit.
 *
 *   test_conv bench   times the passes of the layers of known nets (conv_bench.cuh)
 *   test_conv zeros   the same of ways that skip zeros (skip_bench.cuh)
 *   test_conv WAY     checks one way alone */
#include "gpu/conv_rig.cuh"
#include "gpu/skip_bench.cuh"

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
    double mass = 2e-6, own = 1e-6;
    if (r.c.math == WISP_DCONV_TF32 && way != &wisp_dconv_plain && (library || !rounded))
        mass = 1e-3;
    if (r.c.math == WISP_DCONV_BF16) own = pass == WISP_DCONV_WEIGHTS && !library ? 1e-6 : 4.1e-3;
    if (r.c.math == WISP_DCONV_BF16 && library) mass = 1e-3;
    const double twice = library && r.c.math == WISP_DCONV_BF16 ? fabs(before) : 0;
    return mass * t.mass + own * (fabs(t.is) + twice) + 1e-7;
}

static void check_pass(conv_rig &r, const struct wisp_dconv_plan &p, enum wisp_dconv_pass pass,
                       bool rounded, const struct asked &a, const char *name, void *work)
{
    struct wisp_dconv_job j = r.job();
    const size_t n = a.fewer ? r.c.n - 1 : r.c.n;
    r.now[0] = (uint32_t)n, r.now.up();
    j.n = a.fewer ? r.now.dev : NULL, j.work = work, j.relu = a.relu;
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
    for (int how = 1; how < 3 && !rig_own; how++) { /* to racecheck they are all the same */
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
            both<uint8_t> work(p.bytes[pass] + 256);
            check_pass(r, p, pass, rounded, a, name, work.dev);
            done++;
        }
        wisp_dconv_clear(&p);
    }
    CHECK(done > 0, "%s does nothing in %s", way->name, math_names[math]);
}

/* Of a plan of half its bytes; the batch goes in pieces then. */
static void check_pieces(void)
{
    TEST("convolution, cudnn in fp32, in pieces");
    const struct wisp_dconv one = conv_of(1, 8, 8, 4, 3, 1, 1, 1, WISP_DCONV_FP32);
    if (!wisp_dconv_cudnn.can(&one, WISP_DCONV_FORWARD)) {
        SKIP(wisp_dconv_library());
        return;
    }
    const size_t most = wisp_dconv_turned;
    int done = 0;
    for (const struct shape &s : shapes)
        for (enum wisp_dconv_pass pass : { WISP_DCONV_FORWARD, WISP_DCONV_DATA }) {
            conv_rig r(sizes_of(s, WISP_DCONV_FP32));
            struct wisp_dconv_plan whole, p;
            wisp_dconv_make(&whole, &r.c, "cudnn");
            wisp_dconv_turned = whole.bytes[pass] * 3 / 4;
            wisp_dconv_make(&p, &r.c, "cudnn");
            wisp_dconv_turned = most;
            const size_t bytes = p.bytes[pass];
            if (p.way[pass] == &wisp_dconv_cudnn && bytes > whole.bytes[pass] / 4) {
                both<uint8_t> work(bytes + 256);
                r.draw(false);
                check_pass(r, p, pass, false, { true, true, true, false }, "in pieces", work.dev);
                done += bytes <= whole.bytes[pass] * 3 / 4 + 256;
            }
            wisp_dconv_clear(&whole), wisp_dconv_clear(&p);
        }
    CHECK(done > 3, "only %d passes in pieces", done);
}

static void check_ways(const char *only)
{
    static char names[8][3][64];
    const struct wisp_dconv_way *way;
    for (size_t i = 0; (way = wisp_dconv_way_at(i)) != NULL; i++)
        for (int math = 0; math < 3 && (!*only || strcmp(only, way->name) == 0); math++) {
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

/* ---- zeros that are skipped ---- */

enum zeros { ALONE, OF_CHANNELS, OF_PIXELS, EVERYWHERE, ZEROS };
static const char *const zeros_names[] = { "alone", "of channels", "of pixels", "everywhere" };

/* Puts zeros, some of them -0, into v (images, pixels, channels). */
static void put_zeros(values &v, size_t n, size_t channels, enum zeros how, size_t of_ten)
{
    const size_t image = v.x.size() / n;
    std::vector<bool> off(how == OF_CHANNELS ? n * channels : v.x.size() / channels);
    for (size_t i = 0; i < off.size(); i++) off[i] = rig_below(10) < of_ten;
    for (size_t i = 0; i < v.x.size(); i++) {
        const bool zero = how == ALONE         ? rig_below(10) < of_ten
                          : how == OF_CHANNELS ? off[i / image * channels + i % channels]
                          : how == OF_PIXELS   ? off[i / channels]
                                               : true;
        if (zero) v.x[i] = rig_below(2) ? -0.0f : 0.0f;
    }
    v.up();
}

/* Is any of 'n' numbers from 'at' on not 0? */
static bool some(const values &v, size_t at, size_t n)
{
    for (size_t i = at; i < at + n; i++)
        if (v.x[i] != 0) return true;
    return false;
}

/* Live slices by the definition: (tap, 4 bytes of channels) of 128 pixels that lie one after the other
 * among those of a phase; or a pixel, of up to 128 outputs and 128 weights of an output. */
static size_t count_rows(const conv_rig &r, bool back, size_t samples)
{
    const struct wisp_dconv &c = r.c;
    const values &a = back ? r.gy : r.x;
    const size_t channels = back ? c.out : c.in, unit = 4 / wisp_dconv_size(&c), step = c.stride;
    const size_t ah = back ? c.oh : c.h, aw = back ? c.ow : c.w, phases = back ? step : 1;
    size_t live = 0;
    for (size_t phase = 0; phase < phases * phases; phase++) {
        std::vector<size_t> rows; /* of d: sample, y, x */
        for (size_t s = 0; s < samples; s++)
            for (size_t y = phase / phases; y < (back ? c.h : c.oh); y += phases)
                for (size_t x = phase % phases; x < (back ? c.w : c.ow); x += phases)
                    rows.push_back(s << 40 | y << 20 | x);
        for (size_t row0 = 0; row0 < rows.size(); row0 += 128)
            for (size_t tap = 0; tap < c.kh * c.kw; tap++)
                for (size_t u = 0; u < channels; u += unit) {
                    bool any = false;
                    for (size_t i = row0; i < row0 + 128 && i < rows.size() && !any; i++) {
                        long y = (long)(rows[i] >> 20 & 0xfffff), x = (long)(rows[i] & 0xfffff);
                        if (back) {
                            y += (long)c.pad_h - (long)(tap / c.kw);
                            x += (long)c.pad_w - (long)(tap % c.kw);
                            if (y < 0 || x < 0 || y % (long)step || x % (long)step) continue;
                            y /= (long)step, x /= (long)step;
                        } else {
                            y = y * (long)step - (long)c.pad_h + (long)(tap / c.kw);
                            x = x * (long)step - (long)c.pad_w + (long)(tap % c.kw);
                        }
                        if (y < 0 || x < 0 || y >= (long)ah || x >= (long)aw) continue;
                        const size_t pixel = ((rows[i] >> 40) * ah + (size_t)y) * aw + (size_t)x;
                        any = some(a, pixel * channels + u, unit);
                    }
                    live += any;
                }
    }
    return live;
}

static size_t count_pixels(const conv_rig &r, size_t samples)
{
    const struct wisp_dconv &c = r.c;
    const size_t rows = c.out > 64 ? 128 : 64, width = wisp_dconv_row(&c);
    size_t live = 0;
    for (size_t q = 0; q < samples * c.oh * c.ow; q++)
        for (size_t o = 0; o < c.out; o += rows) {
            if (!some(r.gy, q * c.out + o, c.out - o < rows ? c.out - o : rows)) continue;
            for (size_t col0 = 0; col0 < width; col0 += 128) {
                bool any = false;
                for (size_t col = col0; col < col0 + 128 && col < width && !any; col++) {
                    const size_t tap = col / c.in;
                    const long y = along(q / c.ow % c.oh, tap / c.kw, c.stride, c.pad_h, c.h);
                    const long x = along(q % c.ow, tap % c.kw, c.stride, c.pad_w, c.w);
                    if (y < 0 || x < 0) continue;
                    const size_t sample = q / c.ow / c.oh;
                    any =
                        r.x.x[((sample * c.h + (size_t)y) * c.w + (size_t)x) * c.in + col % c.in] !=
                        0;
                }
                live += any;
            }
        }
    return live;
}

static void check_skip(enum wisp_dconv_math math)
{
    char name[160];
    int done = 0;
    static char test[3][64];
    snprintf(test[math], sizeof test[math], "slices of zeros are left out, %s", math_names[math]);
    TEST(test[math]);
    const struct wisp_dconv one = conv_of(1, 8, 8, 4, 3, 1, 1, 1, math);
    if (!wisp_dconv_skip.can(&one, WISP_DCONV_FORWARD)) {
        SKIP("needs a card of compute capability 8.0 or more");
        return;
    }
    const size_t every = getenv("RIG_SMALL") ? 4 : 1;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += every)
        for (int how = 0; how < ZEROS; how++) {
            conv_rig r(sizes_of(shapes[i], math));
            struct wisp_dconv_plan p;
            wisp_dconv_make(&p, &r.c, "skip");
            for (int k = 0; k < WISP_DCONV_PASSES; k++) {
                const enum wisp_dconv_pass pass = (enum wisp_dconv_pass)k;
                const struct asked a = { i % 2 == 0, i % 4 < 2, i % 2 == 1, false };
                if (p.way[k] != &wisp_dconv_skip) continue;
                r.draw(true);
                put_zeros(r.x, r.c.n, r.c.in, (enum zeros)how, 8);
                put_zeros(r.gy, r.c.n, r.c.out, (enum zeros)how, 8);
                snprintf(name, sizeof name, "skip %s %s, shape %zu, zeros %s", math_names[math],
                         pass_names[k], i, zeros_names[how]);
                both<uint8_t> work(p.bytes[pass] + 256, 0xff);
                check_pass(r, p, pass, true, a, name, work.dev);
                const size_t live = pass == WISP_DCONV_WEIGHTS
                                        ? count_pixels(r, r.c.n)
                                        : count_rows(r, pass == WISP_DCONV_DATA, r.c.n);
                const struct wisp_dlive seen = wisp_dconv_skip_seen(&r.c, pass, work.dev);
                CHECK(seen.live == live && live <= seen.all, "%s: %zu slices of %zu, should be %zu",
                      name, seen.live, seen.all, live);
                done++;
            }
            wisp_dconv_clear(&p);
        }
    CHECK(done > 0, "skip does nothing in %s", math_names[math]);
}

/* What docs/speed.md says: products of zeros that are skipped with infinite numbers or NaN are left
 * out; a NaN or infinite number that is met shows. */
static void check_not_finite(enum wisp_dconv_math math)
{
    static char test[3][64];
    snprintf(test[math], sizeof test[math], "what is no number, where zeros are skipped, %s",
             math_names[math]);
    TEST(test[math]);
    conv_rig r(conv_of(1, 16, 8, 6, 3, 1, 1, 1, math));
    struct wisp_dconv_plan p;
    wisp_dconv_make(&p, &r.c, "skip");
    if (p.way[WISP_DCONV_FORWARD] != &wisp_dconv_skip) {
        SKIP("needs a card of compute capability 8.0 or more");
        wisp_dconv_clear(&p);
        return;
    }
    struct wisp_dconv_job j = r.job();
    both<uint8_t> work(p.bytes[WISP_DCONV_FORWARD] + p.bytes[WISP_DCONV_WEIGHTS] + 256);
    j.work = work.dev;
    for (int met = 0; met < 2; met++) { /* weights of channel 5 are no numbers; is it live? */
        r.draw(true);
        for (size_t i = 0; i < r.x.x.size(); i++)
            if (i % 16 / 2 == 2) r.x.x[i] = met && i == 5 ? 1 : 0;
        for (size_t i = 0; i < r.w.x.size(); i++)
            if (i % 16 == 5) r.w.x[i] = i % 3 ? INFINITY : NAN;
        r.x.up(), r.w.up();
        const struct result y = run_once(r, p, WISP_DCONV_FORWARD, j, 0);
        size_t bad = 0;
        for (float v : y.x) bad += !isfinite(v);
        CHECK((bad > 0) == (met == 1), "weights that are no numbers, %s: %zu results are none",
              met ? "met" : "skipped", bad);
    }
    r.draw(true);
    r.x.x[16 * 7 + 3] = NAN, r.x.up(); /* pixel (1, 1): nine results see it */
    const struct result y = run_once(r, p, WISP_DCONV_FORWARD, j, 0);
    for (size_t q = 0; q < 36; q++)
        for (size_t o = 0; o < 8; o++)
            CHECK((y.x[q * 8 + o] != y.x[q * 8 + o]) == (q / 6 < 3 && q % 6 < 3),
                  "a NaN at pixel (1, 1): %g at pixel %zu", y.x[q * 8 + o], q);
    for (int met = 0; met < 2; met++) { /* gy of pixel 14 is infinite; is x there 0 for all taps? */
        r.draw(true);
        for (size_t i = 0; i < r.x.x.size(); i++)
            if (i / 16 / 6 >= 1 && i / 16 / 6 <= 3 && i / 16 % 6 >= 1 && i / 16 % 6 <= 3)
                r.x.x[i] = met && i / 16 == 14 ? 1 : 0;
        for (size_t o = 0; o < 8; o++) r.gy.x[14 * 8 + o] = INFINITY;
        r.x.up(), r.gy.up();
        const struct result gw = run_once(r, p, WISP_DCONV_WEIGHTS, j, 0);
        size_t bad = 0;
        for (float v : gw.x) bad += !isfinite(v);
        CHECK((bad > 0) == (met == 1), "an infinite gradient, %s: %zu results are no numbers",
              met ? "met" : "skipped", bad);
    }
    wisp_dconv_clear(&p);
}

/* All layers of known nets: as the plain way has them, which is compared with the truth above. */
static void check_nets(void)
{
    TEST("skip equals plain on the layers of known nets");
    for (const bench_net &net : bench_nets())
        for (const bench_layer &l : net.layers)
            for (int math = 0; math < 3; math++) {
                conv_rig r(conv_of(2, l.in, l.out, l.side, l.kernel, l.stride, l.pad, 1,
                                   (enum wisp_dconv_math)math));
                struct wisp_dconv_plan plain, skip;
                wisp_dconv_make(&plain, &r.c, "plain"), wisp_dconv_make(&skip, &r.c, "skip");
                r.draw(true);
                put_zeros(r.x, 2, l.in, math == 1 ? OF_CHANNELS : ALONE, 7);
                put_zeros(r.gy, 2, l.out, math == 1 ? OF_CHANNELS : ALONE, 7);
                struct wisp_dconv_job j = r.job();
                for (int k = 0; k < WISP_DCONV_PASSES; k++) {
                    if (skip.way[k] != &wisp_dconv_skip) continue;
                    const enum wisp_dconv_pass pass = (enum wisp_dconv_pass)k;
                    both<uint8_t> work(wisp_most(plain.bytes[k], skip.bytes[k]) + 256);
                    j.work = work.dev, j.relu = true, j.bias = r.bias.dev, j.gate = r.gate.dev();
                    const struct result want = run_once(r, plain, pass, j, 0);
                    const struct result is = run_once(r, skip, pass, j, 0);
                    const double terms =
                        (double)(pass == WISP_DCONV_FORWARD ? wisp_dconv_row(&r.c)
                                 : pass == WISP_DCONV_DATA  ? r.c.kh * r.c.kw * r.c.out
                                                            : 2 * r.c.oh * r.c.ow);
                    const double own = math == 2 && pass != WISP_DCONV_WEIGHTS ? 8.2e-3 : 1e-6;
                    for (size_t i = 0; i < is.x.size(); i++) {
                        const double most = 2e-7 * terms + own * fabs(want.x[i]) + 1e-6;
                        CHECK(fabs(is.x[i] - want.x[i]) <= most,
                              "%s %zu>%zu %zux%zu %s %s at %zu: %g, plain %g", net.name, l.in,
                              l.out, l.kernel, l.side, math_names[math], pass_names[k], i, is.x[i],
                              want.x[i]);
                    }
                }
                wisp_dconv_clear(&plain), wisp_dconv_clear(&skip);
            }
}

static void check_zeros(void)
{
    for (int math = 0; math < 3; math++) {
        check_skip((enum wisp_dconv_math)math);
        check_not_finite((enum wisp_dconv_math)math);
    }
    if (!getenv("RIG_SMALL")) check_nets();
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
        const struct wisp_dconv_way *own = tensor ? &wisp_dconv_tensor : &wisp_dconv_plain;
        const struct wisp_dconv_way *first = library ? &wisp_dconv_cudnn : own;
        const struct wisp_dconv image = conv_of(8, 4, 64, 32, 3, 1, 1, 1, m);
        const struct wisp_dconv inner = conv_of(64, 64, 64, 32, 3, 1, 1, 1, m);
        const struct wisp_dconv digits = conv_of(64, 4, 8, 28, 5, 1, 2, 1, m);
        for (const struct wisp_dconv &c : { image, inner, digits }) {
            const bool own_first = c.in == 4 && math && own == &wisp_dconv_tensor;
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

static void check_asked(void)
{
    const unsigned all = (1u << WISP_DCONV_PASSES) - 1;
    TEST("zeros are skipped where that is asked for");
    for (int math = 0; math < 3; math++) {
        const struct wisp_dconv c = conv_of(8, 32, 32, 14, 3, 1, 1, 1, (enum wisp_dconv_math)math);
        const struct wisp_dconv grouped =
            conv_of(8, 32, 32, 14, 3, 1, 1, 2, (enum wisp_dconv_math)math);
        struct wisp_dconv_plan off, force, other, one, two;
        wisp_dconv_make(&off, &c, NULL), wisp_dconv_make(&force, &c, NULL, all, WISP_ZEROS_FORCE);
        wisp_dconv_make(&other, &grouped, NULL, all, WISP_ZEROS_FORCE);
        wisp_dconv_make(&one, &c, NULL, all, WISP_ZEROS_AUTO);
        wisp_dconv_make(&two, &c, NULL, all, WISP_ZEROS_AUTO);
        for (int k = 0; k < WISP_DCONV_PASSES; k++) {
            const bool can = wisp_dconv_skip.can(&c, (enum wisp_dconv_pass)k);
            CHECK(off.way[k] != &wisp_dconv_skip, "%s: by default", pass_names[k]);
            CHECK((force.way[k] == &wisp_dconv_skip) == can, "%s: force", pass_names[k]);
            CHECK(other.way[k] != &wisp_dconv_skip, "%s: force, with groups", pass_names[k]);
            CHECK(one.way[k] == off.way[k] || one.way[k] == &wisp_dconv_skip, "%s: auto is %s",
                  pass_names[k], one.way[k]->name);
            CHECK(one.way[k] == two.way[k], "%s: auto changes its mind", pass_names[k]);
        }
        wisp_dconv_clear(&off), wisp_dconv_clear(&force), wisp_dconv_clear(&other);
        wisp_dconv_clear(&one), wisp_dconv_clear(&two);
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
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "bench") == 0) return conv_bench(argc - 2, argv + 2);
    if (strcmp(what, "zeros") == 0) return skip_bench(argc - 2, argv + 2);
    printf("  %s\n", wisp_dconv_library());
    check_ways(what);
    if (!*what || strcmp(what, "skip") == 0) check_zeros(), check_asked();
    if (!*what) check_pieces(), check_choice(), check_bias();
    return test_end();
}
