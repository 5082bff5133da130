/* Values of several pixels on the card against plain code in double: pooling, batch norm with what
 * is fused with it, images, the way to units; floats and bf16, channels that fill 16 bytes and others,
 * and steps with fewer samples than there is room for.
 *
 *   test_planes bench   times them on sizes of known nets */
#include "gpu/conv_rig.cuh"
#include "cuda/planes.cuh"

/* How far a number may be off: of its size, and of those that it was made of. */
static bool near(double is, double want, double mass, bool half)
{
    return fabs(is - want) <= (half ? 4.1e-3 : 2e-6) * fabs(want) + 3e-6 * mass + 1e-7;
}

struct planes_rig {
    struct wisp_dplanes p;
    both<uint32_t> now;
    size_t n; /* samples of the step */
    planes_rig(size_t room, size_t h, size_t w, size_t c, bool half, bool fewer)
        : p{ room, h, w, c, half, NULL }, now(1), n(fewer ? room - 1 : room)
    {
        now[0] = (uint32_t)n, now.up();
        if (fewer) p.now_n = now.dev;
    }
    size_t size() const
    {
        return p.n * p.h * p.w * p.c;
    }
};

/* Calls f for floats and bf16, several numbers of channels, whole batches and others. */
template <class F> static void all_kinds(const F &f)
{
    for (int half = 0; half < 2; half++)
        for (size_t c : { 16, 6, 72 })
            for (int fewer = 0; fewer < 2; fewer++) f(half != 0, c, fewer != 0);
}

/* Counts of what is not 0, as the card makes them. */
struct live_rig {
    both<unsigned long long> room;
    struct wisp_dlive live;
    explicit live_rig(size_t c)
        : room(wisp_dlive_words(wisp_parts(c, 16))), live{ room.dev, wisp_parts(c, 16) }
    {
        for (auto &v : room.host) v = 0;
        room.up();
    }
    /* y (samples, pixels, c), of which every so-manieth was to be counted. */
    void check(const std::vector<float> &y, size_t n, size_t pixels, size_t c, size_t every)
    {
        std::vector<unsigned long long> want(live.blocks), is(live.blocks);
        unsigned long long samples = 0;
        room.down();
        for (size_t i = 0; i < n * pixels * c; i++)
            if (i / c / pixels % every == 0) want[i % c / 16] += !(y[i] == 0);
        for (size_t i = 0; i < room.host.size(); i++) {
            const size_t b = i % (1 + live.blocks);
            if (b) is[b - 1] += room[i];
            else samples += room[i];
        }
        CHECK(samples == (n + every - 1) / every, "%llu samples of %zu", samples, n);
        for (size_t b = 0; b < live.blocks; b++)
            CHECK(is[b] == want[b], "block %zu: %llu are not 0, not %llu", b, is[b], want[b]);
    }
};

static void check_count(bool half, size_t c, bool fewer)
{
    planes_rig r(34, 5, 3, c, half, fewer);
    values x(r.size(), half);
    x.draw(false);
    for (float &v : x.x) v = v < 0 ? (v < -0.5f ? -0.0f : 0.0f) : v;
    x.x[1] = NAN, x.x[c + 1] = -1;
    x.up();
    for (size_t every : { 1, 16 }) {
        live_rig live(c);
        wisp_dlive_count(r.p, live.live, x.dev(), every, 0);
        rig_sync("count");
        live.check(x.x, r.n, 15, c, every);
    }
}

/* ---- pooling ---- */

struct window {
    size_t h, w, kh, kw, stride, pad;
};
static const struct window windows[] = {
    { 6, 8, 2, 2, 2, 0 },
    { 7, 9, 3, 3, 2, 1 },
    { 5, 7, 3, 2, 1, 0 },
    { 9, 9, 2, 2, 3, 0 },
};

static void check_windows(bool half, size_t c, bool fewer, const struct window &w, bool max)
{
    planes_rig r(3, w.h, w.w, c, half, fewer);
    const size_t oh = (w.h + 2 * w.pad - w.kh) / w.stride + 1;
    const size_t ow = (w.w + 2 * w.pad - w.kw) / w.stride + 1;
    live_rig live(c);
    const struct wisp_dpool p = { r.p, oh, ow, w.kh, w.kw, w.stride, w.pad, w.pad, live.live };
    const size_t outs = r.p.n * oh * ow * c, ins = r.size();
    values x(ins, half), y(outs, half), gy(outs, half), gx(ins, half);
    both<uint8_t> which(outs);
    x.draw(false), gy.draw(false), gx.fill(NAN);
    for (float &v : x.x) v = floorf(v * 8) / 8; /* equals, too, and zeros */
    x.up();
    if (max) wisp_dpool_max(p, y.dev(), which.dev, true, x.dev(), 0);
    else wisp_dpool_mean(p, y.dev(), x.dev(), 0);
    rig_sync("pool");
    y.down();
    live.check(y.x, r.n, oh * ow, c, 1);
    if (max) wisp_dpool_max_back(p, gx.dev(), gy.dev(), which.dev, 0);
    else wisp_dpool_mean_back(p, gx.dev(), gy.dev(), x.dev(), 0);
    rig_sync("pool back");
    gx.down();
    std::vector<double> want(ins), mass(ins);
    for (size_t i = 0; i < r.n * oh * ow * c; i++) {
        const size_t k = i % c, q = i / c % ow, o = i / c / ow % oh, s = i / c / ow / oh;
        double best = -INFINITY, sum = 0, all = 0;
        size_t at = 0;
        auto each = [&](auto f) {
            for (size_t t = 0; t < w.kh * w.kw; t++) {
                const long u = along(o, t / w.kw, w.stride, w.pad, w.h);
                const long v = along(q, t % w.kw, w.stride, w.pad, w.w);
                if (u >= 0 && v >= 0) f(((s * w.h + (size_t)u) * w.w + (size_t)v) * c + k);
            }
        };
        each([&](size_t from) {
            if (x.x[from] > best) best = x.x[from], at = from;
            sum += x.x[from] / (double)(w.kh * w.kw), all += fabs(x.x[from]);
        });
        const double is = max ? best : sum;
        CHECK(near(y.x[i], is, max ? 0 : all, half), "%zu: %g, not %g", i, y.x[i], is);
        if (max && best > 0) want[at] += gy.x[i], mass[at] += fabs(gy.x[i]);
        if (!max)
            each([&](size_t from) {
                const double g = x.x[from] > 0 ? gy.x[i] / (double)(w.kh * w.kw) : 0;
                want[from] += g, mass[from] += fabs(g);
            });
    }
    for (size_t i = 0; i < ins; i++)
        CHECK(near(gx.x[i], want[i], mass[i], half), "gradient at %zu: %g, not %g", i, gx.x[i],
              want[i]);
}

static void check_all(bool half, size_t c, bool fewer)
{
    planes_rig r(3, 5, 3, c, half, fewer);
    values x(r.size(), half), gx(r.size(), half);
    both<float> y(r.p.n * c), gy(r.p.n * c);
    x.draw(false), gx.fill(NAN);
    for (float &v : gy.host) v = rig_float();
    gy.up();
    wisp_dpool_all(r.p, y.dev, x.dev(), 0);
    wisp_dpool_all_back(r.p, gx.dev(), gy.dev, x.dev(), 0);
    rig_sync("all");
    y.down(), gx.down();
    for (size_t i = 0; i < r.n * c; i++) {
        double sum = 0;
        for (size_t q = 0; q < 15; q++) sum += x.x[(i / c * 15 + q) * c + i % c] / 15;
        CHECK(fabs(y[i] - sum) < 1e-6, "%zu: %g, not %g", i, y[i], sum);
    }
    for (size_t i = 0; i < r.size(); i++) {
        const double g = i / c / 15 < r.n && x.x[i] > 0 ? gy[i / c / 15 * c + i % c] / 15 : 0;
        CHECK(near(gx.x[i], g, 0, half), "gradient at %zu: %g, not %g", i, gx.x[i], g);
    }
}

/* ---- units and images ---- */

static void check_units(bool half, size_t c, bool fewer)
{
    planes_rig r(3, 5, 7, c, half, fewer);
    values x(r.size(), half), gx(r.size(), half);
    both<float> y(r.size());
    x.draw(false), gx.fill(NAN);
    wisp_dflatten(r.p, y.dev, x.dev(), 0);
    rig_sync("flatten");
    y.down();
    for (size_t i = 0; i < r.n * 35 * c; i++) {
        const size_t s = i / c / 35, q = i / c % 35;
        CHECK(y[(s * c + i % c) * 35 + q] == x.x[i], "unit of %zu: %g, not %g", i,
              y[(s * c + i % c) * 35 + q], x.x[i]);
    }
    for (float &v : y.host) v = 3; /* of samples that are not there, too */
    for (size_t i = 0; i < r.n * 35 * c; i++)
        y[(i / c / 35 * c + i % c) * 35 + i / c % 35] = x.x[i];
    y.up();
    wisp_dflatten_back(r.p, gx.dev(), y.dev, 0);
    rig_sync("flatten back");
    gx.down();
    for (size_t i = 0; i < r.size(); i++) {
        const float g = i / c / 35 < r.n ? x.x[i] : 0;
        CHECK(gx.x[i] == g, "gradient at %zu: %g, not %g", i, gx.x[i], g);
    }
}

static void check_images(void)
{
    TEST("images of bytes");
    for (int half = 0; half < 2; half++)
        for (int moves = 0; moves < 2; moves++) {
            const size_t n = 3, h = 5, w = 6, channels = 3, c = half ? 8 : 4, rows = 7;
            both<uint8_t> bytes(rows * channels * h * w);
            both<float> table(channels * 256);
            both<uint32_t> row(n);
            both<struct wisp_moved> moved(n);
            values x(n * h * w * c, half != 0);
            for (uint8_t &b : bytes.host) b = (uint8_t)rig_below(256);
            for (float &t : table.host) t = rig_widen(rig_half(rig_float()));
            for (size_t i = 0; i < n; i++)
                row[i] = (uint32_t)rig_below(rows),
                moved[i] = { (int32_t)rig_whole(3), (int32_t)rig_whole(3), (int32_t)rig_below(2) };
            bytes.up(), table.up(), row.up(), moved.up(), x.fill(NAN);
            const struct wisp_dplanes p = { n, h, w, c, half != 0, NULL };
            struct wisp_dimages from = {};
            from.bytes = bytes.dev, from.channels = channels, from.table = table.dev;
            from.row = row.dev, from.moved = moves ? moved.dev : NULL;
            wisp_dimages_lay(p, from, x.dev(), 0);
            rig_sync("images");
            x.down();
            for (size_t i = 0; i < x.x.size(); i++) {
                const size_t k = i % c, s = i / c / w / h;
                const struct wisp_moved m = moves ? moved[s] : wisp_moved{};
                const long u = (long)(i / c / w % h) + m.down, at = (long)(i / c % w);
                const long v = (m.mirrored ? (long)w - 1 - at : at) + m.right;
                float want = 0;
                if (k < channels && u >= 0 && u < (long)h && v >= 0 && v < (long)w)
                    want = table[k * 256 +
                                 bytes[((row[s] * channels + k) * h + (size_t)u) * w + (size_t)v]];
                CHECK(x.x[i] == want, "at %zu: %g, not %g", i, x.x[i], want);
            }
        }
}

/* ---- batch norm ---- */

static void norm_back(const struct wisp_dnorm &l, void *gx, float *totals, const void *g,
                      const void *x, const struct wisp_dnorm_beside *beside, cudaStream_t s)
{
    wisp_dnorm_add(l, totals, g, x, beside, s);
    wisp_dnorm_below(l, gx, totals, g, x, beside, s);
}

static void check_norm(bool half, size_t c, bool fewer, bool relu, bool add)
{
    planes_rig r(3, 13, 11, c, half, fewer);
    const size_t pixels = r.n * 13 * 11;
    values x(r.size(), half), y(r.size(), half), beside(r.size(), half), g(r.size(), half);
    values gx(r.size(), half);
    both<float> scale(c), shift(c), measured(3 * c), totals(2 * c, NAN);
    both<float> work(wisp_dnorm_floats(r.p));
    x.draw(false), beside.draw(false), g.draw(false), gx.fill(NAN);
    for (size_t i = 0; i < r.size(); i++) x.x[i] = x.x[i] * 0.5f + (float)(i % c) * 0.25f;
    for (size_t i = 0; i < r.size() && half; i++) x.x[i] = rig_widen(rig_half(x.x[i]));
    x.up();
    for (size_t k = 0; k < c; k++) scale[k] = 1 + rig_float() / 2, shift[k] = rig_float() / 2;
    scale.up(), shift.up();
    live_rig live(c);
    struct wisp_dnorm l = { r.p,          1e-5f,    scale.dev, shift.dev,
                            measured.dev, work.dev, relu,      live.live };
    wisp_dnorm_measure(l, x.dev(), 0);
    wisp_dnorm_on(l, y.dev(), x.dev(), add ? beside.dev() : NULL, 0);
    rig_sync("norm");
    measured.down(), y.down();
    live.check(y.x, r.n, 13 * 11, c, 1);
    const std::vector<float> counted = y.x;
    l.live = {};
    wisp_dnorm_on(l, y.dev(), x.dev(), add ? beside.dev() : NULL, 0);
    rig_sync("norm");
    y.down();
    CHECK(memcmp(counted.data(), y.x.data(), pixels * c * sizeof(float)) == 0,
          "counting changes what is written");
    std::vector<double> mean(c), var(c), sum(c), dot(c), mass(c);
    for (size_t i = 0; i < pixels * c; i++) mean[i % c] += x.x[i] / (double)pixels;
    for (size_t i = 0; i < pixels * c; i++)
        var[i % c] += (x.x[i] - mean[i % c]) * (x.x[i] - mean[i % c]) / (double)pixels;
    auto normal = [&](size_t i) { return (x.x[i] - mean[i % c]) / sqrt(var[i % c] + 1e-5); };
    for (size_t k = 0; k < c; k++) {
        CHECK(fabs(measured[k] - mean[k]) < 1e-6 * (1 + fabs(mean[k])), "mean %g, not %g",
              measured[k], mean[k]);
        CHECK(fabs(measured[2 * c + k] - var[k]) < 3e-6 * var[k], "variance %g, not %g",
              measured[2 * c + k], var[k]);
    }
    for (size_t i = 0; i < pixels * c; i++) {
        double v = normal(i) * scale[i % c] + shift[i % c] + (add ? beside.x[i] : 0);
        if (relu && v < 0) v = 0;
        CHECK(near(y.x[i], v, 3 + fabs(mean[i % c]), half), "y at %zu: %g, not %g", i, y.x[i], v);
    }
    const std::vector<float> before = g.x;
    const struct wisp_dnorm_beside to = { y.dev(), g.dev() };
    norm_back(l, gx.dev(), totals.dev, g.dev(), x.dev(), add ? &to : NULL, 0);
    rig_sync("norm back");
    gx.down(), g.down(), totals.down();
    /* what the ReLU let through, as the card saw it: near 0 either is right */
    std::vector<double> through(pixels * c);
    for (size_t i = 0; i < pixels * c; i++) {
        through[i] = !relu || y.x[i] > 0 ? before[i] : 0;
        sum[i % c] += through[i], dot[i % c] += through[i] * normal(i);
        mass[i % c] += fabs(before[i]);
        CHECK(g.x[i] == (add ? (float)through[i] : before[i]), "g at %zu: %g, not %g", i, g.x[i],
              through[i]);
    }
    for (size_t k = 0; k < c; k++) {
        CHECK(fabs(totals[k] - dot[k]) < 1e-5 * mass[k], "scale's %g, not %g", totals[k], dot[k]);
        CHECK(fabs(totals[c + k] - sum[k]) < 1e-5 * mass[k], "shift's %g, not %g", totals[c + k],
              sum[k]);
    }
    for (size_t i = 0; i < r.size(); i++) {
        const size_t k = i % c;
        const double want =
            i >= pixels * c
                ? 0
                : scale[k] / sqrt(var[k] + 1e-5) *
                      (through[i] - sum[k] / (double)pixels - normal(i) * dot[k] / (double)pixels);
        CHECK(near(gx.x[i], want, 10, half), "gradient at %zu: %g, not %g", i, gx.x[i], want);
    }
}

static void check_use(void)
{
    TEST("batch norm by running means");
    const size_t c = 70;
    both<float> mean(c), variance(c), measured(3 * c);
    for (size_t k = 0; k < c; k++) mean[k] = rig_float(), variance[k] = 1 + rig_float() / 2;
    mean.up(), variance.up();
    struct wisp_dnorm l = {
        { 1, 1, 1, c, false, NULL }, 1e-3f, NULL, NULL, measured.dev, NULL, false
    };
    wisp_dnorm_use(l, mean.dev, variance.dev, 0);
    rig_sync("use");
    measured.down();
    for (size_t k = 0; k < c; k++) {
        const double inverse = 1 / sqrt(variance[k] + 1e-3);
        CHECK(measured[k] == mean[k] && fabs(measured[c + k] - inverse) < 1e-6 * inverse,
              "channel %zu: %g, not %g", k, measured[c + k], inverse);
    }
}

/* ---- times ---- */

static void line(const char *what, size_t bytes, double ms)
{
    printf("  time %s: %.3f ms, %.0f GB/s\n", what, ms, (double)bytes / ms / 1e6);
}

static int bench(void)
{
    for (int half = 0; half < 2; half++) {
        const size_t n = 128, side = 112, c = 64, values = n * side * side * c;
        const size_t size = half ? 2 : 4, bytes = values * size;
        char *block;
        OK(cudaMalloc((void **)&block, 5 * bytes));
        OK(cudaMemset(block, 0x3e, 5 * bytes));
        char *x = block, *y = x + bytes, *g = y + bytes, *gx = g + bytes, *more = gx + bytes;
        const struct wisp_dplanes p = { n, side, side, c, half != 0, NULL };
        both<float> scale(c, 1), measured(3 * c), totals(2 * c), work(wisp_dnorm_floats(p));
        struct wisp_dnorm l = { p, 1e-5f, scale.dev, scale.dev, measured.dev, work.dev, true };
        printf("%s (%zu, %zu, %zu, %zu)\n", half ? "bf16" : "fp32", n, side, side, c);
        line("measure", bytes, rig_ms([&]() { wisp_dnorm_measure(l, x, 0); }));
        line("norm", 2 * bytes, rig_ms([&]() { wisp_dnorm_on(l, y, x, NULL, 0); }));
        live_rig live(c);
        struct wisp_dnorm counted = l;
        counted.live = live.live;
        line("norm, counted", 2 * bytes, rig_ms([&]() { wisp_dnorm_on(counted, y, x, NULL, 0); }));
        line("count, all samples", bytes,
             rig_ms([&]() { wisp_dlive_count(p, live.live, y, 1, 0); }));
        line("count, one of 16", bytes / 16,
             rig_ms([&]() { wisp_dlive_count(p, live.live, y, 16, 0); }));
        line("norm, add", 3 * bytes, rig_ms([&]() { wisp_dnorm_on(l, y, x, more, 0); }));
        line("norm back", 5 * bytes,
             rig_ms([&]() { norm_back(l, gx, totals.dev, g, x, NULL, 0); }));
        const struct wisp_dnorm_beside to = { y, more };
        line("norm back, add", 7 * bytes,
             rig_ms([&]() { norm_back(l, gx, totals.dev, g, x, &to, 0); }));
        const struct wisp_dpool two = { p, 56, 56, 2, 2, 2, 0, 0 },
                                three = { p, 56, 56, 3, 3, 2, 1, 1 };
        uint8_t *which = (uint8_t *)more;
        for (const struct wisp_dpool &w : { two, three }) {
            line(w.kh == 2 ? "max 2x2" : "max 3x3", bytes + bytes / 4 + values / 4,
                 rig_ms([&]() { wisp_dpool_max(w, y, which, true, x, 0); }));
            struct wisp_dpool with = w;
            with.live = live.live;
            line("  counted", bytes + bytes / 4 + values / 4,
                 rig_ms([&]() { wisp_dpool_max(with, y, which, true, x, 0); }));
            line("  back", bytes + bytes / 4 + values / 4,
                 rig_ms([&]() { wisp_dpool_max_back(w, gx, g, which, 0); }));
        }
        line("mean of all", bytes, rig_ms([&]() { wisp_dpool_all(p, (float *)y, x, 0); }));
        line("flatten", bytes + values * 4, rig_ms([&]() {
                                                struct wisp_dplanes part = p;
                                                part.n = n / 4;
                                                wisp_dflatten(part, (float *)y, x, 0);
                                            }) * 4);
        const size_t sums = wisp_dconv_bias_bytes(n, side * side, c);
        both<uint8_t> room(sums);
        line("bias", bytes, rig_ms([&]() {
                 wisp_dconv_bias(totals.dev, g, half != 0, NULL, n, side * side, c, room.dev, 0);
             }));
        cudaFree(block);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "bench") == 0) return bench();
    TEST("what is not 0 of planes");
    all_kinds(check_count);
    TEST("max of windows");
    all_kinds([](bool half, size_t c, bool fewer) {
        for (const struct window &w : windows) check_windows(half, c, fewer, w, true);
    });
    TEST("mean of windows");
    all_kinds([](bool half, size_t c, bool fewer) {
        for (const struct window &w : windows) check_windows(half, c, fewer, w, false);
    });
    TEST("mean of all pixels");
    all_kinds(check_all);
    TEST("units of planes");
    all_kinds(check_units);
    check_images();
    for (int how = 0; how < 4; how++) {
        static const char *const names[] = { "batch norm of planes", "batch norm, ReLU",
                                             "batch norm, add", "batch norm, add, ReLU" };
        TEST(names[how]);
        all_kinds([&](bool half, size_t c, bool fewer) {
            check_norm(half, c, fewer, how % 2 != 0, how / 2 != 0);
        });
    }
    check_use();
    return test_end();
}
