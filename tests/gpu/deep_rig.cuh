/* What test_deep.cu makes and compares: nets of random layers, the definition in plain code, and a
 * net tried in every form that can run it. */
#ifndef WISP_TESTS_GPU_DEEP_RIG_CUH
#define WISP_TESTS_GPU_DEEP_RIG_CUH

#include "gpu/rig.cuh"
#include "cuda/deep.cuh"

#include <algorithm>

/* ---- nets ---- */

struct layer {
    uint32_t n_in, n_out;
    bool linear = false;
    std::vector<uint32_t> in_start = { 0 }, in, out_start = { 0 }, out;
    float weight = 1;
    std::vector<float> w;
    std::vector<uint64_t> w_start;
    float bias = 0;
    std::vector<float> biases;
};

struct net {
    std::vector<layer> layers;
    float clip = INFINITY;
    size_t n = 0, words = 0;
    std::vector<uint64_t> bits, start;
    std::vector<uint32_t> id;
    std::vector<float> value;
    std::vector<struct wisp_cuda_layer> shown;
};

static struct wisp_cuda_deep show(struct net &t)
{
    struct wisp_cuda_deep d = {};
    t.shown.clear();
    for (auto &l : t.layers) {
        struct wisp_cuda_layer c = {};
        c.n_in = l.n_in, c.n_out = l.n_out, c.n_groups = (uint32_t)l.in_start.size() - 1;
        c.linear = l.linear;
        c.in_start = l.in_start.data(), c.in = l.in.data();
        c.out_start = l.out_start.data(), c.out = l.out.data();
        c.weight = l.weight, c.bias = l.bias;
        if (!l.w.empty()) c.w = l.w.data(), c.w_start = l.w_start.data();
        if (!l.biases.empty()) c.biases = l.biases.data();
        t.shown.push_back(c);
    }
    d.n_layers = t.layers.size(), d.layers = t.shown.data(), d.clip = t.clip;
    d.zero_from = d.full_from = d.n_layers + 1;
    d.n = t.n, d.words = t.words;
    if (!t.bits.empty()) d.bits = t.bits.data();
    d.start = t.start.data(), d.id = t.id.data(), d.value = t.value.data();
    return d;
}

static std::vector<uint32_t> shuffled(uint32_t n)
{
    std::vector<uint32_t> v(n);
    for (uint32_t i = 0; i < n; i++) v[i] = i;
    for (uint32_t i = n; i > 1; i--) std::swap(v[i - 1], v[rig_below(i)]);
    return v;
}

struct shape {                  /* of a random layer */
    uint32_t most_in, most_out; /* of a group */
    bool ragged, weighted, biased, linear;
};

static layer random_layer(uint32_t n_in, uint32_t n_out, const struct shape &s)
{
    layer l;
    l.n_in = n_in, l.n_out = n_out, l.linear = s.linear;
    l.weight = 0.25f, l.bias = -0.05f;
    l.out = shuffled(n_out);
    for (uint32_t at = 0; at < n_out;) {
        uint32_t m = s.ragged ? 1 + (uint32_t)rig_below(s.most_out) : s.most_out;
        uint32_t k = s.ragged ? (uint32_t)rig_below(s.most_in + 1) : s.most_in;
        m = std::min(m, n_out - at), k = std::min(k, n_in);
        std::vector<uint32_t> ids;
        while (ids.size() < k) {
            ids.push_back((uint32_t)rig_below(n_in));
            std::sort(ids.begin(), ids.end());
            ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
        }
        l.in.insert(l.in.end(), ids.begin(), ids.end());
        l.in_start.push_back((uint32_t)l.in.size());
        l.out_start.push_back(at += m);
        if (!s.weighted) continue;
        l.w_start.push_back(l.w.size());
        for (uint32_t i = 0; i < k * m; i++) l.w.push_back(0.5f * rig_float() + 0.1f);
    }
    if (s.weighted && l.w.empty()) l.w.push_back(0);
    for (uint32_t i = 0; i < n_out && s.biased; i++) l.biases.push_back(0.2f * rig_float());
    return l;
}

/* Groups whose inputs are stretches of one long row that overlap those of the groups before. */
static layer chained_layer(uint32_t n_in, uint32_t n_out, uint32_t most_in, bool biased)
{
    layer l;
    const std::vector<uint32_t> row = shuffled(n_in);
    uint32_t from = 0;
    l.n_in = n_in, l.n_out = n_out;
    l.weight = 1.5f / (float)most_in, l.bias = -0.05f;
    l.out = shuffled(n_out);
    for (uint32_t at = 0; at < n_out;) {
        const uint32_t m = std::min(1 + (uint32_t)rig_below(50), n_out - at);
        const uint32_t k = 1 + (uint32_t)rig_below(most_in);
        std::vector<uint32_t> ids;
        for (uint32_t i = 0; i < std::min(k, n_in); i++) ids.push_back(row[(from + i) % n_in]);
        if (rig_below(8) == 0) ids.push_back(ids[0]); /* twice */
        from += (uint32_t)rig_below(k + 2);           /* from all shared to none */
        std::sort(ids.begin(), ids.end());
        l.in.insert(l.in.end(), ids.begin(), ids.end());
        l.in_start.push_back((uint32_t)l.in.size());
        l.out_start.push_back(at += m);
    }
    for (uint32_t i = 0; i < n_out && biased; i++) l.biases.push_back(0.2f * rig_float());
    return l;
}

static void random_inputs(struct net &t, size_t n, bool bits, double density)
{
    const uint32_t n_in = t.layers[0].n_in;
    t.n = n, t.words = (n_in + 63) / 64;
    t.bits.assign(bits ? n * t.words : 0, 0);
    t.start.assign(1, 0), t.id.clear(), t.value.clear();
    for (size_t r = 0; r < n; r++) {
        const bool empty = r % 7 == 3; /* an input of zeros */
        for (uint32_t i = 0; i < n_in && !empty; i++) {
            if ((double)(test_rand(&rig_seed) >> 40) >= density * (1 << 24)) continue;
            if (bits) t.bits[r * t.words + i / 64] |= (uint64_t)1 << i % 64;
            t.id.push_back(i), t.value.push_back(bits ? 1 : 0.5f + 0.5f * rig_float());
        }
        t.start.push_back(t.id.size());
    }
}

/* ---- the definition ---- */

struct truth {
    std::vector<double> y, mass; /* of one input; sums of |terms|, through all layers */
};

static void plain_layer(struct truth &v, const layer &l, double clip)
{
    struct truth next;
    next.y.assign(l.n_out, 0), next.mass.assign(l.n_out, 0);
    for (size_t g = 0; g + 1 < l.in_start.size(); g++)
        for (uint32_t o = l.out_start[g], m = l.out_start[g + 1] - o, j = 0; j < m; j++) {
            double sum = 0, mass = 0;
            for (uint32_t i = l.in_start[g]; i < l.in_start[g + 1]; i++) {
                const uint64_t at = (uint64_t)(i - l.in_start[g]) * m + j;
                const double w = l.w.empty() ? l.weight : l.w[l.w_start[g] + at];
                sum += w * v.y[l.in[i]], mass += fabs(w) * v.mass[l.in[i]];
            }
            const uint32_t id = l.out[o + j];
            const double b = l.biases.empty() ? l.bias : l.biases[id];
            next.mass[id] = mass + fabs(b);
            next.y[id] = l.linear ? sum + b : std::min(clip, std::max(0.0, sum + b));
        }
    v = next;
}

static struct truth plain(const struct net &t, size_t row)
{
    struct truth v;
    v.y.assign(t.layers[0].n_in, 0);
    for (uint64_t e = t.start[row]; e < t.start[row + 1]; e++) v.y[t.id[e]] = t.value[e];
    v.mass = v.y;
    for (auto &l : t.layers) plain_layer(v, l, t.clip);
    return v;
}

/* ---- on the card ---- */

struct answer {
    wisp_status st = WISP_OK;
    std::vector<uint8_t> ends;
    std::vector<float> values;
    struct wisp_cuda_deep_times t = {};
};

static struct answer run(const struct wisp_cuda_deep &d, bool values, int repeats = 1)
{
    struct answer a;
    struct wisp_cuda_runner *r = NULL;
    wisp_error err = {};
    a.ends.assign(d.n, 9);
    if (values) a.values.assign(d.n * d.layers[d.n_layers - 1].n_out, -1);
    a.st = wisp_ddeep_create(&r, &d, &err);
    if (a.st == WISP_OK)
        a.st =
            wisp_ddeep_run(r, a.ends.data(), values ? a.values.data() : NULL, repeats, &a.t, &err);
    if (a.st != WISP_OK) printf("  %s\n", err.text);
    wisp_ddeep_free(r);
    return a;
}

static bool same(const struct answer &a, const struct answer &b)
{
    return a.ends == b.ends && a.values.size() == b.values.size() &&
           memcmp(a.values.data(), b.values.data(), a.values.size() * 4) == 0;
}

static void compare(const struct net &t, const struct answer &a, size_t rows)
{
    const uint32_t n_out = t.layers.back().n_out;
    for (size_t q = 0; q < rows; q++) {
        const size_t r = rows >= t.n ? q : q == 0 ? 0 : q == 1 ? t.n - 1 : rig_below(t.n);
        if (r >= t.n) break;
        const struct truth v = plain(t, r);
        bool some = false, clear = true;
        for (uint32_t o = 0; o < n_out; o++) {
            const double slack = 2e-6 * (1 + v.mass[o]) * (double)t.layers.size();
            const float got = a.values[r * n_out + o];
            CHECK(fabs(got - v.y[o]) <= slack, "row %zu output %u: %g, not %g (+- %g)", r, o,
                  (double)got, v.y[o], slack);
            some |= fabs(v.y[o]) > slack;
            clear &= fabs(v.y[o]) > slack || v.y[o] == 0;
        }
        if (some || clear)
            CHECK(a.ends[r] == some, "row %zu ends as %d, not %d", r, a.ends[r], some);
    }
}

/* Every form that can; streamed; again. */
static void try_net(struct net t, size_t rows, int forms)
{
    struct wisp_cuda_deep d = show(t);
    for (int form = 0; form < 4; form++) {
        if (!(forms >> form & 1)) continue;
        wisp_deep_only = form;
        struct answer a = run(d, true, 2);
        CHECK(a.st == WISP_OK, "form %d: %d", form, a.st);
        if (a.st != WISP_OK) continue;
        CHECK(!a.t.streamed && a.t.work == t.n * t.layers.size(), "work %zu", (size_t)a.t.work);
        compare(t, a, rows);
        struct answer b = run(d, true);
        CHECK(same(a, b), "form %d: two runs differ", form);
        int streamed = 0;
        for (double part : { 0.75, 0.5, 0.3, 0.2 }) {
            struct wisp_cuda_deep e = d;
            e.most_bytes = (size_t)(part * (double)a.t.bytes);
            struct wisp_cuda_runner *r = NULL;
            wisp_error err = {};
            struct answer c = a;
            if (wisp_ddeep_create(&r, &e, &err) != WISP_OK) {
                CHECK(err.code == WISP_ENOMEM && strstr(err.text, "GiB"), "%s", err.text);
                continue;
            }
            std::fill(c.ends.begin(), c.ends.end(), 7);
            std::fill(c.values.begin(), c.values.end(), -3.f);
            wisp_status st = wisp_ddeep_run(r, c.ends.data(), c.values.data(), 1, &c.t, &err);
            CHECK(st == WISP_OK && c.t.streamed, "form %d part %g: %s", form, part, err.text);
            CHECK(c.t.bytes <= e.most_bytes, "%zu of %zu bytes", (size_t)c.t.bytes, e.most_bytes);
            CHECK(same(a, c), "form %d: streamed with %g of the memory differs", form, part);
            wisp_ddeep_free(r);
            streamed++;
        }
        CHECK(streamed > 0 || t.n < 1000, "form %d was never streamed", form);
    }
    wisp_deep_only = -1;
}

#endif
