/* Nets of images in plain code: every kind of layer that they have, forward and back, in double,
 * written from the definitions of layer/, on values in the host's order (n, channels, height, width).
 *
 * Parameters move by SGD from rest, so that what they moved by is their gradient. */
#ifndef WISP_TESTS_GPU_IMAGE_RIG_CUH
#define WISP_TESTS_GPU_IMAGE_RIG_CUH

#include "cuda/conv.cuh"
#include "cuda/step.cuh"
#include "gpu/graph_rig.cuh"
#include "gpu/param_rig.cuh"
#include "graph/slide.h"

#include <string>

static const double RATE = 0.5;
enum { LABELS = 3 };

struct said {
    const char *kind;
    std::vector<double> args; /* as many as are given, by place; NAN: not given */
    std::vector<int> from;    /* empty: what the one before gives */
};
typedef std::vector<double> doubles;

struct rig {
    size_t n, batch;
    enum wisp_dconv_math math = WISP_DCONV_FP32;
    bool predicts = false; /* by running means */
    graph_rig net;
    std::vector<doubles> x, g;           /* by value */
    std::deque<std::vector<float>> w, m; /* parameters, moments */
    std::vector<doubles> moved;          /* by parameter */
    std::vector<bool> alone;             /* parameters of one row */
    std::vector<size_t> first;           /* parameter of each layer */
    struct wisp_image_sizes {
        size_t c, h, w;
    } image;
    both<struct wisp_dnow> now;
    both<uint32_t> id;
    both<struct wisp_moved> shift;
    both<uint8_t> bytes;
    both<float> table;
    rig(size_t samples, size_t most, size_t c, size_t h, size_t wide)
        : n(samples), batch(most), net(c * h * wide, LABELS), image{ c, h, wide }, now(1), id(most),
          shift(most), bytes(4 * most * c * h * wide), table(c * 256)
    {
    }
};

static bool is(const struct wisp_layer &l, const char *name)
{
    return strcmp(l.kind->name, name) == 0;
}
static const size_t *dim(const rig &r, int value)
{
    return r.net.acts[(size_t)value].shape.dim;
}
static size_t pixels(const rig &r, int value)
{
    const struct wisp_shape s = r.net.acts[(size_t)value].shape;
    return s.rank == 3 ? s.dim[1] * s.dim[2] : 1;
}
static size_t channels(const rig &r, int value)
{
    return r.net.acts[(size_t)value].shape.dim[0];
}

static void add_param(rig *r, size_t rows, size_t cols, float least, float most, bool state = false)
{
    r->w.push_back(std::vector<float>(rows * cols));
    r->m.push_back(std::vector<float>(rows * cols));
    r->alone.push_back(rows == 1);
    for (float &x : r->w.back()) x = least + (most - least) * (rig_float() + 1) / 2;
    struct wisp_param *p = r->net.param(rows, cols, r->w.back().data());
    p->m = state ? NULL : r->m.back().data();
    if (state) p->role = WISP_STATE;
}

static struct wisp_shape shape_of(const rig &r, const struct wisp_layer &l)
{
    struct wisp_shape s = r.net.acts[(size_t)l.from[0]].shape;
    const bool conv = is(l, "conv");
    if (is(l, "image")) return { 3, { r.image.c, r.image.h, r.image.w } };
    if (is(l, "dense") || is(l, "input")) return { 1, { (size_t)l.arg[0] } };
    if (is(l, "flatten")) return { 1, { s.dim[0] * s.dim[1] * s.dim[2] } };
    if (is(l, "globalavg")) return { 1, { s.dim[0] } };
    if (is(l, "concat"))
        for (int k = 1; k < l.n_from; k++) s.dim[0] += channels(r, l.from[k]);
    if (!conv && !is(l, "maxpool") && !is(l, "avgpool")) return s;
    const struct wisp_slide k = conv ? wisp_slide_conv(&l) : wisp_slide_window(&l);
    if (conv) s.dim[0] = (size_t)l.arg[WISP_CONV_ARG_CHANNELS];
    s.dim[1] = (s.dim[1] + 2 * k.pad_h - k.kh) / k.stride + 1;
    s.dim[2] = (s.dim[2] + 2 * k.pad_w - k.kw) / k.stride + 1;
    return s;
}

/* Of what the host's table says of a kind, what cards ask. */
static unsigned uses_of(const std::string &kind)
{
    const bool together = kind == "bn" || kind == "dropout" || kind == "dense" || kind == "input";
    return (together ? 0u : (unsigned)WISP_BY_SAMPLE) |
           (kind == "image" ? (unsigned)WISP_IMAGES : 0u);
}

static void say(rig *r, const std::vector<said> &all)
{
    for (const said &s : all) {
        r->net.add(s.kind, 0, s.from);
        struct wisp_layer &l = r->net.layers.back();
        struct wisp_act &a = r->net.acts.back();
        for (size_t i = 0; i < s.args.size(); i++)
            if (!isnan(s.args[i])) l.arg[i] = s.args[i], l.given |= 1u << i;
        r->net.kinds.back().uses = uses_of(s.kind);
        if (is(l, "bn")) l.arg[0] = 0.1, l.arg[1] = 1e-5;
        a.shape = shape_of(*r, l);
        a.width = l.n_out = wisp_units(a.shape);
        if (a.shape.rank == 3 && !is(l, "image")) a.form = WISP_PLANES;
        a.learns = false;
        for (int k = 0; k < l.n_from; k++) a.learns |= r->net.acts[(size_t)l.from[k]].learns;
        r->first.push_back(r->w.size());
        const size_t c = a.shape.dim[0];
        if (is(l, "conv")) {
            const struct wisp_slide k = wisp_slide_conv(&l);
            const size_t in = channels(*r, l.from[0]) / (size_t)l.arg[WISP_CONV_ARG_GROUPS];
            add_param(r, c, in * k.kh * k.kw, -0.3f, 0.3f);
            if (l.arg[WISP_CONV_ARG_BIAS] == 0) add_param(r, 1, c, -0.2f, 0.2f);
        }
        if (is(l, "dense") || is(l, "input")) {
            add_param(r, l.n_in, l.n_out, -0.3f, 0.3f);
            add_param(r, 1, l.n_out, -0.2f, 0.2f);
        }
        if (is(l, "bn")) {
            add_param(r, 1, c, 0.5f, 1.5f);
            add_param(r, 1, c, -0.5f, 0.5f);
            add_param(r, 1, c, -0.5f, 0.5f, true);
            add_param(r, 1, c, 0.5f, 1.5f, true);
        }
        a.learns |= l.n_params > 0;
    }
    r->first.push_back(r->w.size());
    r->net.add("output", LABELS);
    add_param(r, LABELS, r->net.layers.back().n_in, -0.3f, 0.3f);
    add_param(r, LABELS, 1, -0.2f, 0.2f);
}

/* ---- plain code: each walks (output, input, weight) triples, in either direction ---- */

template <class F> static void taps(const rig &r, const struct wisp_layer &l, const F &f)
{
    const bool conv = is(l, "conv");
    const struct wisp_slide k = conv ? wisp_slide_conv(&l) : wisp_slide_window(&l);
    const size_t *in = dim(r, l.from[0]), *out = dim(r, l.number + 1);
    const size_t groups = conv ? (size_t)l.arg[WISP_CONV_ARG_GROUPS] : out[0];
    const size_t each = in[0] / groups;
    for (size_t s = 0; s < r.n; s++)
        for (size_t o = 0; o < out[0]; o++)
            for (size_t p = 0; p < out[1]; p++)
                for (size_t q = 0; q < out[2]; q++)
                    for (size_t c = 0; c < each; c++)
                        for (size_t i = 0; i < k.kh; i++)
                            for (size_t j = 0; j < k.kw; j++) {
                                const long u = (long)(p * k.stride + i) - (long)k.pad_h,
                                           v = (long)(q * k.stride + j) - (long)k.pad_w;
                                if (u < 0 || v < 0 || u >= (long)in[1] || v >= (long)in[2])
                                    continue;
                                const size_t from = o / (out[0] / groups) * each + c;
                                f(((s * out[0] + o) * out[1] + p) * out[2] + q,
                                  ((s * in[0] + from) * in[1] + (size_t)u) * in[2] + (size_t)v,
                                  ((o * each + c) * k.kh + i) * k.kw + j, o);
                            }
}

static void normal(const rig &r, int value, doubles *mean, doubles *var)
{
    const size_t c = channels(r, value), q = pixels(r, value);
    const doubles &x = r.x[(size_t)value];
    const double n = (double)(r.n * q);
    mean->assign(c, 0), var->assign(c, 0);
    for (size_t at = 0; at < x.size(); at++) (*mean)[at / q % c] += x[at] / n;
    for (size_t at = 0; at < x.size(); at++)
        (*var)[at / q % c] += pow(x[at] - (*mean)[at / q % c], 2) / n;
}

/* Where a number of a concat's value k lies in the whole. */
static size_t place_in(const rig &r, const struct wisp_layer &l, int k, size_t at)
{
    const size_t q = pixels(r, l.from[k]), c = channels(r, l.from[k]);
    size_t before = 0;
    for (int i = 0; i < k; i++) before += channels(r, l.from[i]);
    const size_t s = at / q / c, all = channels(r, l.number + 1);
    return ((s * all + before + at / q % c) * q) + at % q;
}

/* What a dropout multiplies a number by: masks are drawn by the place that the CPU has it at. */
static double kept_of(rig &r, const struct wisp_layer &l, size_t at)
{
    const size_t *d = dim(r, l.from[0]), q = d[1] * d[2], pixel = at % q, c = at / q % d[0];
    const size_t place = at / q / d[0] * wisp_planes_floats(d[0], d[1], d[2], WISP_PLANE_BLOCK) +
                         wisp_plane_at(c, pixel / d[2], pixel % d[2], d[1], d[2], WISP_PLANE_BLOCK);
    return rig_stays(l.arg[0], l.number, r.now[0], place) ? 1 / (1 - l.arg[0]) : 0;
}

static void lay_image(rig &r, doubles *y)
{
    const auto [c, h, w] = r.image;
    for (size_t at = 0; at < y->size(); at++) {
        const size_t s = at / (c * h * w), ch = at / (h * w) % c;
        const struct wisp_moved m = r.shift[s];
        const long u = (long)(at / w % h) + m.down;
        const long col = (long)(at % w), v = (m.mirrored ? (long)w - 1 - col : col) + m.right;
        const bool in = u >= 0 && v >= 0 && u < (long)h && v < (long)w;
        (*y)[at] =
            in ? r.table[ch * 256 + r.bytes[((r.id[s] * c + ch) * h + (size_t)u) * w + (size_t)v]]
               : 0;
    }
}

static void forward(rig &r, size_t i)
{
    const struct wisp_layer &l = r.net.layers[i];
    doubles &y = r.x[i + 1], mean, var;
    const doubles &x = r.x[(size_t)l.from[0]];
    const size_t c = channels(r, (int)i + 1), q = pixels(r, (int)i + 1), p = r.first[i];
    y.assign(r.n * l.n_out, 0);
    if (is(l, "image")) {
        lay_image(r, &y);
    } else if (is(l, "conv")) {
        for (size_t at = 0; at < y.size() && l.n_params > 1; at++) y[at] = r.w[p + 1][at / q % c];
        taps(r, l, [&](size_t o, size_t from, size_t k, size_t) { y[o] += r.w[p][k] * x[from]; });
    } else if (is(l, "avgpool")) {
        const struct wisp_slide k = wisp_slide_window(&l);
        taps(r, l, [&](size_t o, size_t from, size_t, size_t) {
            y[o] += x[from] / (double)(k.kh * k.kw);
        });
    } else if (is(l, "maxpool")) {
        y.assign(y.size(), -INFINITY);
        taps(r, l, [&](size_t o, size_t from, size_t, size_t) { y[o] = fmax(y[o], x[from]); });
    } else if (is(l, "globalavg")) {
        const size_t side = pixels(r, l.from[0]);
        for (size_t at = 0; at < x.size(); at++) y[at / side] += x[at] / (double)side;
    } else if (is(l, "bn")) {
        normal(r, l.from[0], &mean, &var);
        if (r.predicts) mean.assign(r.w[p + 2].begin(), r.w[p + 2].end());
        if (r.predicts) var.assign(r.w[p + 3].begin(), r.w[p + 3].end());
        for (size_t at = 0; at < y.size(); at++) {
            const size_t k = at / q % c;
            y[at] = (x[at] - mean[k]) / sqrt(var[k] + l.arg[1]) * r.w[p][k] + r.w[p + 1][k];
        }
    } else if (is(l, "dense") || is(l, "input")) {
        for (size_t at = 0; at < y.size(); at++) {
            y[at] = r.w[p + 1][at % l.n_out];
            for (size_t k = 0; k < l.n_in; k++)
                y[at] += x[at / l.n_out * l.n_in + k] * r.w[p][k * l.n_out + at % l.n_out];
        }
    } else if (is(l, "concat")) {
        for (int k = 0; k < l.n_from; k++)
            for (size_t at = 0; at < r.x[(size_t)l.from[k]].size(); at++)
                y[place_in(r, l, k, at)] = r.x[(size_t)l.from[k]][at];
    } else {
        for (size_t at = 0; at < y.size(); at++) {
            y[at] = x[at];
            for (int k = 1; k < l.n_from; k++) y[at] += r.x[(size_t)l.from[k]][at];
            if (is(l, "relu")) y[at] = y[at] > 0 ? y[at] : 0;
            if (is(l, "clip")) y[at] = y[at] > l.arg[0] ? l.arg[0] : y[at];
            if (is(l, "dropout") && !r.predicts) y[at] *= kept_of(r, l, at);
        }
    }
}

static void norm_backward(rig &r, size_t i)
{
    const struct wisp_layer &l = r.net.layers[i];
    const size_t c = channels(r, (int)i + 1), q = pixels(r, (int)i + 1), p = r.first[i];
    const doubles &x = r.x[(size_t)l.from[0]], &g = r.g[i + 1];
    doubles mean, var, sum(c), dot(c);
    const double n = (double)(r.n * q);
    normal(r, l.from[0], &mean, &var);
    auto hat = [&](size_t at) {
        return (x[at] - mean[at / q % c]) / sqrt(var[at / q % c] + l.arg[1]);
    };
    for (size_t at = 0; at < g.size(); at++)
        sum[at / q % c] += g[at], dot[at / q % c] += g[at] * hat(at);
    for (size_t at = 0; at < g.size(); at++) {
        const size_t k = at / q % c;
        r.g[(size_t)l.from[0]][at] +=
            r.w[p][k] / sqrt(var[k] + l.arg[1]) * (g[at] - sum[k] / n - hat(at) * dot[k] / n);
    }
    for (size_t k = 0; k < c; k++) {
        r.moved[p][k] = -RATE * dot[k], r.moved[p + 1][k] = -RATE * sum[k];
        r.moved[p + 2][k] = l.arg[0] * (mean[k] - r.w[p + 2][k]);
        r.moved[p + 3][k] = l.arg[0] * (n / (n - 1) * var[k] - r.w[p + 3][k]);
    }
}

/* Adds to the gradients of what the layer read. */
static void backward(rig &r, size_t i)
{
    const struct wisp_layer &l = r.net.layers[i];
    const doubles &x = r.x[(size_t)l.from[0]], &y = r.x[i + 1], &g = r.g[i + 1];
    doubles &gx = r.g[(size_t)l.from[0]];
    const size_t c = channels(r, (int)i + 1), q = pixels(r, (int)i + 1), p = r.first[i];
    for (size_t at = 0; at < y.size() && l.l1 > 0; at++)
        if (y[at] > 0) r.g[i + 1][at] += l.l1 / (double)r.n;
    if (is(l, "conv")) {
        taps(r, l, [&](size_t o, size_t from, size_t k, size_t) {
            gx[from] += r.w[p][k] * g[o], r.moved[p][k] -= RATE * g[o] * x[from];
        });
        for (size_t at = 0; at < g.size() && l.n_params > 1; at++)
            r.moved[p + 1][at / q % c] -= RATE * g[at];
    } else if (is(l, "avgpool")) {
        const struct wisp_slide k = wisp_slide_window(&l);
        taps(r, l, [&](size_t o, size_t from, size_t, size_t) {
            gx[from] += g[o] / (double)(k.kh * k.kw);
        });
    } else if (is(l, "maxpool")) {
        std::vector<bool> given(g.size());
        taps(r, l, [&](size_t o, size_t from, size_t, size_t) {
            if (!given[o] && x[from] == y[o]) given[o] = true, gx[from] += g[o];
        });
    } else if (is(l, "globalavg")) {
        const size_t side = pixels(r, l.from[0]);
        for (size_t at = 0; at < x.size(); at++) gx[at] += g[at / side] / (double)side;
    } else if (is(l, "bn")) {
        norm_backward(r, i);
    } else if (is(l, "dense")) {
        for (size_t at = 0; at < g.size(); at++) {
            const size_t s = at / l.n_out, o = at % l.n_out;
            for (size_t k = 0; k < l.n_in; k++) {
                gx[s * l.n_in + k] += g[at] * r.w[p][k * l.n_out + o];
                r.moved[p][k * l.n_out + o] -= RATE * g[at] * x[s * l.n_in + k];
            }
            r.moved[p + 1][o] -= RATE * g[at];
        }
    } else if (is(l, "concat")) {
        for (int k = 0; k < l.n_from; k++)
            for (size_t at = 0; at < r.g[(size_t)l.from[k]].size(); at++)
                r.g[(size_t)l.from[k]][at] += g[place_in(r, l, k, at)];
    } else {
        for (size_t at = 0; at < g.size(); at++)
            for (int k = 0; k < l.n_from; k++) {
                const bool off =
                    (is(l, "relu") && !(y[at] > 0)) || (is(l, "clip") && !(x[at] < l.arg[0]));
                const double by = is(l, "dropout") ? kept_of(r, l, at) : 1;
                r.g[(size_t)l.from[k]][at] += off ? 0 : by * g[at];
            }
    }
}

#endif
