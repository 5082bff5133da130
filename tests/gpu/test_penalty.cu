/* The proximal step of a group penalty on the card, against plain code in double: lengths of groups that
 * have rows and columns of several parameters, what they are multiplied by, copies in bf16, momentum. */
#include "cuda/penalty.cuh"
#include "gpu/param_rig.cuh"

#include <algorithm>
#include <deque>
#include <memory>

struct
    sizes { /* of a parameter; n: of its rows, or columns, that the host has.  Rows of odd lengths,
                  where it is ragged: row r is short of its columns by r % 7 */
    size_t rows, cols, n;
    bool by_row, copied, ragged;
};

struct one { /* a parameter in groups */
    struct sizes z;
    param p;
    both<uint16_t> half; /* its copy, between guards */
    std::vector<int32_t> of;
    both<int64_t> start;
    one(const struct sizes &s, size_t groups)
        : z(s), p(s.rows, s.cols, false), half((s.rows + 2 * GUARD) * s.cols, (uint16_t)0x1234),
          of(s.n), start(s.n + 1)
    {
        for (int32_t &g : of) g = (int32_t)rig_below(groups);
        for (size_t r = 0; r < z.n; r++)
            start[r + 1] = start[r] + (int64_t)(z.cols - (z.ragged ? r % 7 : 0));
        for (size_t e = 0; e < z.rows * z.cols; e++) {
            float &w = p.w[GUARD * z.cols + e];
            if (group(e) < 0) w = 0;
            half[GUARD * z.cols + e] = rig_half(w);
        }
        p.w.up(), half.up(), start.up();
    }
    int32_t group(size_t e) const /* of number e; -1: it is padding, or a guard */
    {
        if (e >= z.rows * z.cols) return -1;
        size_t k = e % z.cols;
        if (z.by_row)
            k = (size_t)(std::upper_bound(start.host.begin(), start.host.end(), (int64_t)e) -
                         start.host.begin() - 1);
        return k < z.n ? of[k] : -1;
    }
};

struct rig {
    std::deque<one> params;
    std::unique_ptr<struct wisp_dnet> net;
    std::vector<struct wisp_dside> sides;
    std::unique_ptr<bool[]> fixed;
    struct wisp_dpenalty d = {};
    both<unsigned char> block;
    rig(const std::vector<struct sizes> &all, size_t groups, enum wisp_optimizer_id kind)
        : net(new wisp_dnet()), fixed(new bool[groups])
    {
        for (size_t g = 0; g < groups; g++) fixed[g] = rig_below(7) == 0;
        for (const struct sizes &z : all) {
            struct wisp_dside s = {};
            const size_t i = params.size();
            params.emplace_back(z, groups);
            one &p = params.back();
            net->layers[i].param[1] = p.p.on_card(kind);
            if (z.copied)
                net->layers[i].param[1].copy = (__nv_bfloat16 *)p.half.dev + GUARD * z.cols;
            s.layer = i, s.k = 1, s.rows = z.by_row, s.n = z.n, s.of = p.of.data();
            s.weights = z.by_row ? z.cols : z.rows;
            s.times = all.size() > 2 && i < 2 ? 1.5 * (double)i : INFINITY; /* 0: they stay */
            s.start = z.ragged ? p.start.host.data() : NULL;
            net->layers[i].rows = z.ragged ? p.start.dev : NULL;
            sides.push_back(s);
        }
        d.n = groups, d.fixed = fixed.get(), d.n_sides = sides.size(), d.sides = sides.data();
        size_t bytes = 0, at = 0;
        wisp_dpenalty_lay(&d, net.get(), NULL, &bytes);
        block.host.assign(bytes, 0xff);
        OK(cudaFree(block.dev));
        OK(cudaMalloc((void **)&block.dev, bytes));
        block.up();
        wisp_dpenalty_lay(&d, net.get(), block.dev, &at);
        CHECK(at == bytes, "%zu bytes, then %zu", bytes, at);
        struct wisp_dcopy up = { false, cudaSuccess };
        wisp_dpenalty_fill(&up, d);
        OK(up.e);
    }
};

/* What each group is multiplied by, from what is on the host. */
static std::vector<double> plain(const rig &r, double by)
{
    std::vector<double> square(r.d.n), size(r.d.n), scale(r.d.n, 1), times(r.d.n, INFINITY);
    for (size_t i = 0; i < r.params.size(); i++)
        for (int32_t g : r.params[i].of)
            times[(size_t)g] = fmin(times[(size_t)g], r.sides[i].times);
    for (const one &p : r.params)
        for (size_t e = 0; e < p.z.rows * p.z.cols; e++) {
            const int32_t g = p.group(e);
            const double w = p.p.w.host[GUARD * p.z.cols + e];
            if (g >= 0) square[(size_t)g] += w * w, size[(size_t)g]++;
        }
    for (size_t g = 0; g < r.d.n; g++)
        if (!r.fixed[g] && square[g] > 0 && times[g] > 0)
            scale[g] =
                fmax(0, 1 - (isinf(times[g]) ? 1 : times[g]) * by * sqrt(size[g] / square[g]));
    return scale;
}

static size_t n_zeros, n_others, n_same;

static void check_param(one *p, const copy &was, const copy &is,
                        const std::vector<uint16_t> &old_half, const std::vector<double> &scale,
                        bool momentum)
{
    CHECK(is.v == was.v && is.g2 == was.g2 && is.count == was.count && is.b16 == was.b16,
          "other state has changed");
    for (size_t at = 0; at < was.w.size(); at++) {
        const size_t e = at - GUARD * p->z.cols; /* of the first guard: beyond all */
        const int32_t g = p->group(e);
        const double by = g >= 0 ? scale[(size_t)g] : 1, want = by * was.w[at];
        CHECK(by == 1 ? is.w[at] == was.w[at]
                      : fabs(is.w[at] - want) <= 2e-7 * fabs((double)was.w[at]),
              "number %zu of %zu x %zu: %g times %g is %g", e, p->z.rows, p->z.cols, was.w[at], by,
              is.w[at]);
        CHECK(by != 0 || (is.w[at] == 0 && !signbit(is.w[at])), "number %zu: %g is not +0", e,
              is.w[at]);
        CHECK(is.m[at] == (by == 0 && momentum ? 0 : was.m[at]), "number %zu: momentum %g is %g", e,
              was.m[at], is.m[at]);
        const uint16_t half = p->z.copied && g >= 0 ? rig_half(is.w[at]) : old_half[at];
        CHECK(p->half[at] == half, "number %zu: the copy of %g is %x", e, is.w[at], p->half[at]);
        if (g >= 0) (by == 0 ? n_zeros : by == 1 ? n_same : n_others)++;
    }
}

static void check_groups(const std::vector<struct sizes> &all, size_t groups, double by,
                         enum wisp_optimizer_id kind)
{
    rig r(all, groups, kind);
    const std::vector<double> scale = plain(r, by);
    std::vector<copy> was, is;
    std::vector<std::vector<uint16_t>> half;
    for (one &p : r.params) was.emplace_back(p.p), half.push_back(p.half.host);
    wisp_dpenalty_move(r.d, by, 0);
    rig_sync("a penalty");
    for (size_t i = 0; i < r.params.size(); i++) {
        one *p = &r.params[i];
        is.emplace_back(p->p);
        p->half.down();
        check_param(p, was[i], is[i], half[i], scale, kind != WISP_ADAGRAD);
    }
    for (size_t i = 0; i < r.params.size(); i++) was[i].put(r.params[i].p);
    wisp_dpenalty_move(r.d, by, 0);
    rig_sync("a penalty");
    for (size_t i = 0; i < r.params.size(); i++) {
        const copy again(r.params[i].p);
        CHECK(again.w == is[i].w, "parameter %zu has other bytes the second time", i);
    }
}

static void test_nan(void)
{
    TEST("a group with a weight that is no number keeps it");
    rig r({ { 12, 20, 12, true, false } }, 3, WISP_SGD);
    param &p = r.params[0].p;
    for (size_t g = 0; g < 3; g++) r.fixed[g] = false;
    struct wisp_dcopy up = { false, cudaSuccess };
    wisp_dpenalty_fill(&up, r.d);
    p.w[GUARD * 20 + 7] = NAN;
    p.w.up();
    wisp_dpenalty_move(r.d, 1e6, 0);
    rig_sync("a penalty");
    p.w.down();
    CHECK(isnan(p.w[GUARD * 20 + 7]), "nan became %g", p.w[GUARD * 20 + 7]);
}

static void time_move(const char *name, const std::vector<struct sizes> &all, size_t groups)
{
    rig r(all, groups, WISP_SGD);
    double bytes = 0;
    for (const struct sizes &z : all) bytes += 12.0 * (double)(z.rows * z.cols);
    const double ms = rig_ms([&] { wisp_dpenalty_move(r.d, 1e-6, 0); });
    printf("  time %s: %.1f us, %.0f GB/s\n", name, 1e3 * ms, 1e-6 * bytes / ms);
}

int main(void)
{
    const bool small = getenv("RIG_SMALL") != NULL;
    TEST("groups of rows and columns = plain code, the same bytes again");
    const double rates[] = { 0.03, 0.057, 0.06 }; /* a weight is 0.058 on average */
    for (int i = 0; i < (small ? 3 : 12); i++) {
        const enum wisp_optimizer_id kind = (enum wisp_optimizer_id)(i % 3);
        const double by = rates[(i / 3 + i) % 3]; /* every three of them have all */
        check_groups({ { 20, 36, 17, true, true },
                       { 1, 20, 17, false, false },
                       { 4, 100, 98, false, true } },
                     60, by, kind);
        check_groups({ { 1, 4, 1, false, false } }, 1, by, kind);
        check_groups({ { 300, 264, 264, false, true }, { 1, 264, 264, false, false } }, 90, by,
                     kind);
        check_groups({ { 33, 45, 33, true, false, true },
                       { 1, 36, 33, false, false },
                       { 21, 7, 21, true, false } },
                     30, by, kind);
        if (!small)
            check_groups({ { 2500, 132, 130, false, false }, { 130, 1160, 129, true, true } }, 200,
                         by, kind);
    }
    CHECK(n_zeros > 1000 && n_others > 1000 && n_same > 1000,
          "%zu weights became 0, %zu smaller, %zu stayed", n_zeros, n_others, n_same);
    test_nan();
    if (!small) { /* a whole matrix; the kernels of resnet18-cifar's last stage */
        time_move("dense 4096 x 4096", { { 4096, 4096, 4096, false, true } }, 4096);
        time_move("conv 512, 3 x 3, 4 of them",
                  { { 512, 4608, 512, true, true },
                    { 512, 4608, 512, true, true },
                    { 512, 4608, 512, true, true },
                    { 512, 4608, 512, true, true } },
                  512);
        time_move("conv 64, 3 x 3", { { 64, 576, 64, true, true } }, 64);
    }
    return test_end();
}
