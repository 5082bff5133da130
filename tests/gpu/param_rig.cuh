/* Parameters with poisoned borders, and whether their rows moved as they should: what the tests of
 * the hidden layers share. */
#ifndef WISP_TESTS_GPU_PARAM_RIG_CUH
#define WISP_TESTS_GPU_PARAM_RIG_CUH

#include "base/rand.h"
#include "graph/ids.h"
#include "gpu/rig.cuh"

enum { GUARD = 4 }; /* rows before and after each array that must stay as they are */
static const float POISON = -7777.25f;
static const double TINY = 4e-6; /* of the sum of absolute terms */

static uint16_t half_of(float x)
{
    uint32_t b;
    memcpy(&b, &x, 4);
    return (uint16_t)(b >> 16);
}
static float float_of(uint16_t h)
{
    uint32_t b = (uint32_t)h << 16;
    float x;
    memcpy(&x, &b, 4);
    return x;
}

struct param {
    size_t rows, cols;
    bool half;
    both<float> w, m, v, g2;
    both<uint16_t> b16;
    both<uint32_t> count;
    param(size_t r, size_t c, bool h)
        : rows(r), cols(c), half(h), w((r + 2 * GUARD) * c, POISON), m((r + 2 * GUARD) * c, POISON),
          v((r + 2 * GUARD) * c, POISON), g2(r + 2 * GUARD, POISON),
          b16((r + 2 * GUARD) * c, (uint16_t)0x1234), count(r + 2 * GUARD, 777)
    {
        for (size_t i = GUARD; i < r + GUARD; i++) {
            for (size_t k = i * c; k < (i + 1) * c; k++) {
                float x = rig_float();
                w[k] = 0.1f * x;
                b16[k] = half_of(w[k]);
                m[k] = 0.01f * (x > 0 ? x - 0.5f : x + 0.5f);
                v[k] = 1e-4f * (1 - x);
            }
            g2[i] = 0.01f * (1 + rig_float());
            count[i] = i % 5 == 0 ? 0 : i % 5 == 1 ? 20000 : (uint32_t)rig_below(20000);
        }
        w.up(), m.up(), v.up(), g2.up(), b16.up(), count.up();
    }
    struct wisp_dparam on_card(enum wisp_optimizer_id kind) const
    {
        struct wisp_dparam p = {};
        p.rows = rows, p.cols = cols;
        if (half) p.b16 = (__nv_bfloat16 *)b16.dev + GUARD * cols;
        else p.w = w.dev + GUARD * cols;
        if (kind != WISP_ADAGRAD) p.m = m.dev + GUARD * cols;
        if (kind == WISP_ADAM) p.v = v.dev + GUARD * cols, p.count = count.dev + GUARD;
        if (kind == WISP_ADAGRAD) p.g2 = g2.dev + GUARD;
        return p;
    }
    double weight(size_t row, size_t c) const
    {
        size_t at = (row + GUARD) * cols + c;
        return half ? float_of(b16.host[at]) : w.host[at];
    }
};

struct copy { /* of a parameter, before or after */
    std::vector<float> w, m, v, g2;
    std::vector<uint16_t> b16;
    std::vector<uint32_t> count;
    explicit copy(param &p)
    {
        p.w.down(), p.m.down(), p.v.down(), p.g2.down(), p.b16.down(), p.count.down();
        w = p.w.host, m = p.m.host, v = p.v.host, g2 = p.g2.host, b16 = p.b16.host;
        count = p.count.host;
    }
    void put(param &p) const
    {
        p.w.host = w, p.m.host = m, p.v.host = v, p.g2.host = g2, p.b16.host = b16;
        p.count.host = count;
        p.w.up(), p.m.up(), p.v.up(), p.g2.up(), p.b16.up(), p.count.up();
    }
    bool same(const copy &o) const
    {
        return w == o.w && m == o.m && v == o.v && g2 == o.g2 && b16 == o.b16 && count == o.count;
    }
    bool same_row(const copy &o, size_t row, size_t cols) const /* row counts from the guard on */
    {
        size_t at = row * cols;
        return memcmp(&w[at], &o.w[at], cols * 4) == 0 && memcmp(&m[at], &o.m[at], cols * 4) == 0 &&
               memcmp(&v[at], &o.v[at], cols * 4) == 0 && g2[row] == o.g2[row] &&
               memcmp(&b16[at], &o.b16[at], cols * 2) == 0 && count[row] == o.count[row];
    }
};

/* Whether a row moved as it should by gradient g, whose absolute terms add up to mass.  Each number
 * follows from those on the card that it is made of, so that no error grows on the way. */
static inline void check_move(const struct wisp_dopt &o, const std::vector<float> &correct1,
                              const std::vector<float> &correct2, const param &p, const copy &was,
                              const copy &is, size_t row, const std::vector<double> &g,
                              const std::vector<double> &mass, double lr)
{
    size_t r = row + GUARD, cols = p.cols;
    double rate = lr, eps = 0, squares = 0, error = 0;
    for (size_t c = 0; c < cols; c++)
        squares += g[c] * g[c], error += 2 * fabs(g[c]) * mass[c] * TINY;
    if (o.kind == WISP_ADAM) {
        uint32_t t = was.count[r] < 20000 ? was.count[r] + 1 : 20000;
        CHECK(is.count[r] == t, "row %zu: count %u, not %u", row, is.count[r], t);
        rate = lr * sqrt((double)correct2[t]) / correct1[t];
        eps = 1e-8 * sqrt((double)correct2[t]);
    } else if (o.kind == WISP_ADAGRAD) {
        double want = was.g2[r] + squares / (double)cols;
        CHECK(fabs(is.g2[r] - want) <= 1e-5 * want + error / (double)cols, "row %zu: g2 %g, not %g",
              row, is.g2[r], want);
        rate = is.g2[r] > 0 ? lr / sqrt((double)is.g2[r]) : 0;
    }
    for (size_t c = 0; c < cols; c++) {
        size_t at = r * cols + c;
        double step = rate * g[c], slack = rate * mass[c] * TINY;
        if (o.kind == WISP_ADAM) {
            double m = 0.9f * (double)was.m[at] + (1 - 0.9f) * g[c];
            double v = 0.999f * (double)was.v[at] + (1 - 0.999f) * g[c] * g[c];
            CHECK(fabs(is.m[at] - m) <= 1e-6 * fabs(was.m[at]) + mass[c] * TINY,
                  "row %zu: m %g, %g", row, is.m[at], m);
            CHECK(fabs(is.v[at] - v) <= 1e-5 * v + 0.002 * fabs(g[c]) * mass[c] * TINY,
                  "row %zu: v %g, not %g", row, is.v[at], v);
            step = rate * is.m[at] / (sqrt((double)is.v[at]) + eps), slack = 0;
        } else if (o.kind == WISP_SGD) {
            double m = o.momentum * (double)was.m[at] + g[c];
            CHECK(fabs(is.m[at] - m) <= 1e-6 * fabs(was.m[at]) + mass[c] * TINY,
                  "row %zu: m %g, %g", row, is.m[at], m);
            step = rate * is.m[at], slack = 0;
        }
        double old = p.half ? float_of(was.b16[at]) : was.w[at], want = old - step;
        double got = p.half ? float_of(is.b16[at]) : is.w[at];
        slack += 1e-6 * (fabs(old) + fabs(step));
        if (p.half) slack += fabs(want) / 128; /* rounded up or down */
        CHECK(fabs(got - want) <= slack, "row %zu, column %zu: %g, not %g", row, c, got, want);
    }
}

/* Whether dropout keeps a place: layer/dropout.c. */
static inline bool rig_stays(double share, int layer, const struct wisp_dnow &now, size_t at)
{
    uint64_t key = wisp_rand(now.seed, WISP_STREAM_DROPOUT + ((uint64_t)layer << 8), now.step);
    uint64_t r = wisp_mix(key + 0x9e3779b97f4a7c15u * (at / 4 + 1));
    return (r >> 16 * (at % 4) & 0xffff) >= (uint32_t)(share * 65536);
}

struct corrections {
    both<float> one, two;
    corrections() : one(20001), two(20001)
    {
        for (int t = 0; t <= 20000; t++)
            one[t] = (float)(1 - pow(0.9, t)), two[t] = (float)(1 - pow(0.999, t));
        one.up(), two.up();
    }
};

/* All steps as one graph, as in training; microseconds of one. */
template <class F> static double graph_us(size_t steps, F launch)
{
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamCreate(&s));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (size_t i = 0; i < steps; i++) launch(i, s);
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    double ms = rig_ms([&] { OK(cudaGraphLaunch(exec, 0)); });
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(s));
    return 1000 * ms / (double)steps;
}

#endif
