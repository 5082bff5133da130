/* What the tests of convolution share: sizes, values drawn for them on both sides, plain code in
 * double, and running a pass of a way. */
#ifndef WISP_TESTS_GPU_CONV_RIG_CUH
#define WISP_TESTS_GPU_CONV_RIG_CUH

#include "cuda/conv.cuh"
#include "gpu/rig.cuh"

#include <string>

static const char *const math_names[] = { "fp32", "tf32", "bf16" };
static const char *const pass_names[] = { "forward", "data", "weights" };

static inline struct wisp_dconv conv_of(size_t n, size_t in, size_t out, size_t side, size_t kernel,
                                        size_t stride, size_t pad, size_t groups,
                                        enum wisp_dconv_math math)
{
    const size_t o = (side + 2 * pad - kernel) / stride + 1;
    return { n, in, out, side, side, o, o, kernel, kernel, stride, pad, pad, groups, math };
}

struct values { /* floats, or bf16, on both sides */
    bool half;
    std::vector<float> x;
    both<float> f;
    both<uint16_t> h;
    values(size_t n, bool is_half) : half(is_half), x(n), f(half ? 0 : n), h(half ? n : 0)
    {
    }
    void *dev()
    {
        return half ? (void *)h.dev : (void *)f.dev;
    }
    size_t bytes() const
    {
        return x.size() * (half ? 2 : 4);
    }
    /* rounded: to what bf16 can say, whatever it is stored as. */
    void draw(bool rounded, float scale = 1)
    {
        for (float &v : x) {
            v = rig_float() * scale;
            if (half || rounded) v = rig_widen(rig_half(v));
        }
        up();
    }
    void up()
    {
        for (size_t i = 0; i < x.size(); i++)
            if (half) h[i] = rig_half(x[i]);
            else f[i] = x[i];
        half ? h.up() : f.up();
    }
    void down()
    {
        half ? h.down() : f.down();
        for (size_t i = 0; i < x.size(); i++) x[i] = half ? rig_widen(h[i]) : f[i];
    }
    void fill(float v)
    {
        for (float &each : x) each = v;
        up();
    }
};

struct conv_rig {
    struct wisp_dconv c;
    values x, w, gy, y, gx, gate;
    both<float> bias, gw;
    both<uint32_t> now;
    explicit conv_rig(const struct wisp_dconv &sizes)
        : c(sizes), x(c.n * c.h * c.w * c.in, c.math == WISP_DCONV_BF16),
          w(c.out * wisp_dconv_row(&c), x.half), gy(c.n * c.oh * c.ow * c.out, x.half),
          y(gy.x.size(), x.half), gx(x.x.size(), x.half), gate(x.x.size(), x.half), bias(c.out),
          gw(w.x.size()), now(1)
    {
    }
    void draw(bool rounded)
    {
        x.draw(rounded), w.draw(rounded), gy.draw(rounded), gate.draw(rounded);
        for (float &b : bias.host) b = rig_widen(rig_half(rig_float()));
        bias.up();
    }
    struct wisp_dconv_job job()
    {
        struct wisp_dconv_job j = {};
        j.x = x.dev(), j.w = w.dev(), j.gy = gy.dev(), j.y = y.dev(), j.gx = gx.dev();
        j.gw = gw.dev;
        return j;
    }
};

/* ---- plain code in double ---- */

struct truth { /* of one number: it, and the sum of the absolute terms */
    double is, mass;
    void add(double a, double b)
    {
        is += a * b, mass += fabs(a * b);
    }
};

/* The pixel of x that output pixel p and tap i read along one side; -1: outside. */
static long along(size_t p, size_t i, size_t stride, size_t pad, size_t size)
{
    const long at = (long)(p * stride + i) - (long)pad;
    return at >= 0 && at < (long)size ? at : -1;
}

/* Calls f(place in y, place in x, place in w) for all terms of 'n' samples. */
template <class F> static void all_terms(const struct wisp_dconv &c, size_t n, const F &f)
{
    const size_t ig = c.in / c.groups, og = c.out / c.groups;
    for (size_t at = 0; at < n * c.oh * c.ow * c.out; at++) {
        const size_t o = at % c.out, q = at / c.out % c.ow, p = at / c.out / c.ow % c.oh;
        const size_t sample = at / c.out / c.ow / c.oh;
        for (size_t i = 0; i < c.kh; i++)
            for (size_t j = 0; j < c.kw; j++) {
                const long u = along(p, i, c.stride, c.pad_h, c.h);
                const long v = along(q, j, c.stride, c.pad_w, c.w);
                if (u < 0 || v < 0) continue;
                const size_t from = ((sample * c.h + (size_t)u) * c.w + (size_t)v) * c.in;
                for (size_t k = 0; k < ig; k++)
                    f(at, from + o / og * ig + k, ((o * c.kh + i) * c.kw + j) * ig + k);
            }
    }
}

static inline std::vector<truth> conv_truth(const conv_rig &r, enum wisp_dconv_pass pass, size_t n)
{
    std::vector<truth> t(pass == WISP_DCONV_FORWARD ? r.y.x.size()
                         : pass == WISP_DCONV_DATA  ? r.x.x.size()
                                                    : r.w.x.size());
    all_terms(r.c, n, [&](size_t y, size_t x, size_t w) {
        if (pass == WISP_DCONV_FORWARD) t[y].add(r.x.x[x], r.w.x[w]);
        else if (pass == WISP_DCONV_DATA) t[x].add(r.gy.x[y], r.w.x[w]);
        else t[w].add(r.gy.x[y], r.x.x[x]);
    });
    return t;
}

#endif
