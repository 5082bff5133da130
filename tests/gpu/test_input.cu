/* The first layer on the card, forward and backward, against sums in double precision. */
#include "gpu/param_rig.cuh"

#include <algorithm>
#include <memory>

/* ---- a step's batch ---- */

struct entry {
    int32_t feature;
    uint32_t sample;
    float value;
};

struct batch {
    both<uint32_t> xp, xn, tp, ts;
    both<int32_t> xi, touched;
    both<float> xv, tv;
    both<struct wisp_dnow> now;
    size_t n_touched, nnz;
    /* rows[i]: the features of sample i, ascending */
    batch(const std::vector<std::vector<int32_t>> &rows, size_t gap, uint64_t step, float lr)
        : xp(rows.size() + 1), xn(rows.size() + 1), tp(sum_of(rows, 0) + 1),
          ts(sum_of(rows, 0) + 3), xi(sum_of(rows, gap) + 1), touched(sum_of(rows, 0) + 1),
          xv(sum_of(rows, gap) + 1), tv(sum_of(rows, 0) + 3), now(1)
    {
        std::vector<entry> all;
        size_t at = 0;
        for (size_t i = 0; i < rows.size(); i++) { /* with a gap after each row */
            xp[i] = (uint32_t)at, xn[i] = (uint32_t)rows[i].size();
            for (int32_t f : rows[i]) {
                xi[at] = f, xv[at] = rig_float();
                all.push_back({ f, (uint32_t)i, xv[at++] });
            }
            for (size_t k = 0; k < gap; k++) xi[at] = 0x7fffffff, xv[at++] = POISON;
        }
        std::stable_sort(all.begin(), all.end(),
                         [](const entry &a, const entry &b) { return a.feature < b.feature; });
        n_touched = 0, nnz = all.size();
        for (size_t e = 0; e < all.size(); e++) { /* lists begin at 3 */
            if (e == 0 || all[e].feature != all[e - 1].feature) {
                touched[n_touched] = all[e].feature;
                tp[n_touched++] = (uint32_t)e + 3;
            }
            ts[e + 3] = all[e].sample, tv[e + 3] = all[e].value;
        }
        tp[n_touched] = (uint32_t)all.size() + 3;
        xp.up(), xn.up(), tp.up(), ts.up(), xi.up(), touched.up(), xv.up(), tv.up();
        struct wisp_dnow w;
        memset((void *)&w, 0, sizeof w);
        w.n = (uint32_t)rows.size(), w.step = step, w.seed = 99, w.lr = lr;
        w.xp = xp.dev, w.xn = xn.dev, w.xi = xi.dev, w.xv = xv.dev;
        w.n_touched = (uint32_t)n_touched, w.touched = touched.dev;
        w.tp = tp.dev, w.ts = ts.dev, w.tv = tv.dev;
        now[0] = w;
        now.up();
    }
    static size_t sum_of(const std::vector<std::vector<int32_t>> &rows, size_t gap)
    {
        size_t n = 0;
        for (auto &r : rows) n += r.size() + gap;
        return n;
    }
};

/* Feature f with a share that falls: the first few are in nearly every row. */
static std::vector<std::vector<int32_t>> make_rows(size_t n, size_t longest, size_t features)
{
    std::vector<std::vector<int32_t>> rows(n);
    for (size_t i = 0; i < n; i++) {
        if (i % 11 == 7) continue;
        for (size_t k = rig_below(longest + 1); k > 0; k--) {
            double u = ((double)rig_float() + 1) / 2;
            size_t f = (size_t)exp(u * log((double)features + 0.5)) - 1;
            rows[i].push_back((int32_t)std::min(f, features - 1));
        }
        std::sort(rows[i].begin(), rows[i].end());
        rows[i].erase(std::unique(rows[i].begin(), rows[i].end()), rows[i].end());
    }
    return rows;
}

/* ---- cases ---- */

struct shape {
    size_t batch, n, longest, features, width;
    enum wisp_optimizer_id kind;
    bool half, relu;
    float dropout;
};

enum { DROP_LAYER = 2 };

static bool stays(const shape &h, const struct wisp_dnow &now, size_t i, size_t c)
{
    return rig_stays(h.dropout, DROP_LAYER, now, i * h.width + c);
}

static void check_forward(const shape &h, batch &b, param &w, param &bias, both<float> &out)
{
    double keep = 1 / (1 - (double)h.dropout);
    for (size_t k = 0; k < out.size(); k++)
        if (k < GUARD * h.width || k >= (GUARD + h.n) * h.width)
            CHECK(out[k] == POISON, "h: %zu of %zu was written", k, out.size());
    for (size_t i = 0; i < h.n; i++)
        for (size_t c = 0; c < h.width; c++) {
            double sum = bias.weight(0, c), mass = fabs(sum);
            for (size_t e = b.xp[i]; e < b.xp[i] + b.xn[i]; e++) {
                double x = (double)b.xv[e] * w.weight((size_t)b.xi[e], c);
                sum += x, mass += fabs(x);
            }
            if (h.relu && sum < 0) sum = 0;
            if (h.dropout > 0) sum = stays(h, b.now[0], i, c) ? sum * keep : 0;
            float got = out[(GUARD + i) * h.width + c];
            CHECK(fabs(got - sum) <= TINY * mass * keep, "sample %zu, unit %zu: %g, not %g", i, c,
                  got, sum);
            if (h.dropout > 0 && !stays(h, b.now[0], i, c))
                CHECK(got == 0, "sample %zu, unit %zu was not dropped", i, c);
        }
}

static void check_rows(const shape &h, const struct wisp_din &in, batch &b, both<float> &back,
                       param &w, param &bias, const copy &was_w, const copy &is_w,
                       const copy &was_b, const copy &is_b, const std::vector<float> &c1,
                       const std::vector<float> &c2)
{
    std::vector<bool> moved(h.features + 2 * GUARD);
    std::vector<double> g(h.width), mass(h.width);
    const float *from = &back.host[GUARD * h.width];
    for (size_t t = 0; t < b.n_touched; t++) {
        g.assign(h.width, 0), mass.assign(h.width, 0);
        for (size_t e = b.tp[t]; e < b.tp[t + 1]; e++)
            for (size_t c = 0; c < h.width; c++) {
                double x = (double)b.tv[e] * from[b.ts[e] * h.width + c];
                g[c] += x, mass[c] += fabs(x);
            }
        moved[(size_t)b.touched[t] + GUARD] = true;
        check_move(in.opt, c1, c2, w, was_w, is_w, (size_t)b.touched[t], g, mass, b.now[0].lr);
    }
    for (size_t r = 0; r < moved.size(); r++)
        if (!moved[r]) CHECK(was_w.same_row(is_w, r, h.width), "row %zu - guard was written", r);
    g.assign(h.width, 0), mass.assign(h.width, 0);
    for (size_t i = 0; i < h.n; i++)
        for (size_t c = 0; c < h.width; c++)
            g[c] += from[i * h.width + c], mass[c] += fabs(from[i * h.width + c]);
    if (h.n > 0) check_move(in.opt, c1, c2, bias, was_b, is_b, 0, g, mass, b.now[0].lr);
    for (size_t r = 0; r < 1 + 2 * GUARD; r++)
        if (r != GUARD || h.n == 0)
            CHECK(was_b.same_row(is_b, r, h.width), "bias: row %zu - guard was written", r);
}

static void run_shape(const shape &h, corrections &correct)
{
    static const char *const kinds[] = { "adam", "adagrad", "sgd" };
    char name[200];
    snprintf(name, sizeof name,
             "batch %zu of %zu, %zu features per row of %zu, width %zu, %s%s%s%s", h.n, h.batch,
             h.longest, h.features, h.width, kinds[h.kind], h.half ? ", bf16" : "",
             h.relu ? ", relu" : "", h.dropout > 0 ? ", dropout" : "");
    TEST(name);
    batch b(make_rows(h.n, h.longest, h.features), 2, 41, 0.05f);
    param w(h.features, h.width, h.half), bias(1, h.width, false);
    size_t all = (h.batch + 2 * GUARD) * h.width;
    both<float> out(all, POISON), back(all);
    for (float &x : back.host) x = rig_below(3) ? 0.01f * rig_float() : 0;
    back.up();
    struct wisp_din in = {};
    in.now = b.now.dev, in.batch = h.batch, in.width = h.width;
    in.most_touched = b.n_touched + rig_below(3) * rig_below(200);
    in.w = w.on_card(h.kind), in.bias = bias.on_card(h.kind);
    in.opt = { h.kind, 0.9f, correct.one.dev, correct.two.dev };
    in.after = wisp_dafter_of(h.relu, h.dropout, DROP_LAYER);
    in.h = out.dev + GUARD * h.width, in.back = back.dev + GUARD * h.width;
    const size_t n_far = wisp_input_far(h.width);
    both<float> far(n_far + 64, NAN);
    in.far = n_far ? far.dev : NULL;

    copy was_w(w), was_b(bias);
    wisp_input_forward(in, 0);
    rig_sync("forward");
    out.down();
    check_forward(h, b, w, bias, out);
    CHECK(was_w.same(copy(w)) && was_b.same(copy(bias)), "forward moved rows");
    wisp_input_backward(in, 0);
    rig_sync("backward");
    copy is_w(w), is_b(bias);
    check_rows(h, in, b, back, w, bias, was_w, is_w, was_b, is_b, correct.one.host,
               correct.two.host);
    far.down();
    for (size_t k = n_far; k < far.size(); k++) CHECK(isnan(far[k]), "far: overrun");

    std::vector<float> first_out = out.host; /* and again */
    was_w.put(w), was_b.put(bias);
    wisp_input_forward(in, 0);
    wisp_input_backward(in, 0);
    rig_sync("again");
    out.down();
    CHECK(out.host == first_out, "two runs differ");
    CHECK(is_w.same(copy(w)) && is_b.same(copy(bias)), "two runs move rows differently");
    test_close(); /* while the name is there */
}

/* ---- time ---- */

static void time_steps(size_t n, size_t width, enum wisp_optimizer_id kind, bool half,
                       corrections &correct)
{
    enum { STEPS = 16 };
    const size_t features = 135909;
    std::vector<std::unique_ptr<batch>> steps;
    size_t nnz = 0, touched = 0, most = 0;
    for (int k = 0; k < STEPS; k++) { /* 92 draws leave 75 features; numbers without order */
        std::vector<std::vector<int32_t>> rows(n);
        for (auto &r : rows) {
            for (int i = 0; i < 92; i++) {
                double u = ((double)rig_float() + 1) / 2;
                size_t f = (size_t)exp(u * log((double)features));
                r.push_back((int32_t)(f * 1000003 % features));
            }
            std::sort(r.begin(), r.end());
            r.erase(std::unique(r.begin(), r.end()), r.end());
        }
        steps.emplace_back(new batch(rows, 0, (uint64_t)k, 1e-3f));
        nnz += steps.back()->nnz / STEPS, touched += steps.back()->n_touched / STEPS;
        most = std::max(most, steps.back()->n_touched);
    }
    param w(features, width, half), bias(1, width, false);
    both<float> out(n * width), back(n * width);
    for (float &x : back.host) x = 1e-3f * rig_float();
    back.up();
    struct wisp_din in = {};
    in.batch = n, in.width = width, in.most_touched = 2 * most;
    in.w = w.on_card(kind), in.bias = bias.on_card(kind);
    in.opt = { kind, 0.9f, correct.one.dev, correct.two.dev };
    in.after = wisp_dafter_of(true, 0.2, DROP_LAYER);
    in.h = out.dev, in.back = back.dev;
    double forward = graph_us(STEPS, [&](size_t i, cudaStream_t s) {
        in.now = steps[i]->now.dev;
        wisp_input_forward(in, s);
    });
    double backward = graph_us(STEPS, [&](size_t i, cudaStream_t s) {
        in.now = steps[i]->now.dev;
        wisp_input_backward(in, s);
    });
    double row = (double)width * (half ? 2 : 4), moments = kind == WISP_ADAM ? 2 : kind == WISP_SGD;
    double moved = (double)touched * 2 * (row + moments * (double)width * 4);
    printf("  time batch %zu, width %zu, %s: forward %.2f us (%.0f GB/s of %zu rows), backward "
           "%.2f us "
           "(%.0f GB/s of %zu rows moved)\n",
           n, width,
           half                ? "adagrad bf16"
           : kind == WISP_ADAM ? "adam"
                               : "adagrad",
           forward, 1e-3 * (double)nnz * row / forward, nnz, backward, 1e-3 * moved / backward,
           touched);
}

int main(void)
{
    corrections correct;
    const size_t widths[] = { 4, 100, 128, 132, 256, 512 };
    const enum wisp_optimizer_id kinds[] = { WISP_ADAM, WISP_ADAGRAD, WISP_SGD };
    for (int k = 0; k < 18; k++) { /* every width with every kind */
        shape h = {};
        h.width = widths[k % 6], h.kind = kinds[k / 6];
        h.batch = 60, h.n = k % 3 == 0 ? 60 : 1 + rig_below(59);
        h.longest = 30, h.features = 300;
        h.half = k % 2 == 1, h.relu = k % 4 != 3, h.dropout = k % 5 < 2 ? 0 : 0.3f;
        run_shape(h, correct);
    }
    const shape more[] = {
        { 40, 1, 10, 50, 128, WISP_ADAM, false, true, 0.2f },
        { 40, 0, 10, 50, 128, WISP_ADAM, false, true, 0.2f },        /* no samples: nothing moves */
        { 40, 33, 0, 50, 64, WISP_ADAM, false, true, 0.5f },         /* no features: bias alone */
        { 300, 300, 700, 900, 128, WISP_ADAGRAD, false, true, 0 },   /* rows of several passes */
        { 1024, 1000, 20, 60, 64, WISP_ADAM, false, false, 0.1f },   /* every list long */
        { 700, 513, 8, 3, 128, WISP_SGD, true, true, 0 },            /* three features */
        { 20, 20, 12, 40, 2048, WISP_ADAGRAD, false, true, 0.25f },  /* fewer warps a block */
        { 9, 9, 12, 40, 12004, WISP_ADAGRAD, false, true, 0.25f },   /* one warp, more memory */
        { 256, 255, 75, 20000, 128, WISP_ADAM, true, true, 0.125f }, /* mostly short lists */
    };
    for (const shape &h : more) run_shape(h, correct);
    const size_t wide = wisp_dshared() / 4 + 4; /* more than shared memory holds */
    CHECK(wisp_input_far(wide) && !wisp_input_far(wide / 2), "shared memory of %zu", 4 * wide);
    for (enum wisp_optimizer_id kind : kinds)
        run_shape({ 45, 41, 12, 30, wide, kind, kind == WISP_ADAGRAD, true, 0.25f }, correct);
    if (getenv("RIG_SMALL")) return test_end();
    for (size_t n : { (size_t)256, (size_t)1024 }) {
        time_steps(n, 128, WISP_ADAM, false, correct);
        time_steps(n, 128, WISP_ADAGRAD, false, correct);
        time_steps(n, 128, WISP_ADAGRAD, true, correct);
        time_steps(n, 256, WISP_ADAM, false, correct);
    }
    return test_end();
}
