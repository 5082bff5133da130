/* Deep sparse networks on the card against plain code in double precision; then times.
 *
 * RIG_SMALL in the environment: small sizes, no times. */
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
static void try_net(struct net &t, size_t rows, int forms)
{
    struct wisp_cuda_deep d = show(t);
    for (int form = 0; form < 3; form++) {
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

/* ---- dropping ---- */

/* Some die, some fill up. */
static void fading_inputs(struct net &t, size_t n)
{
    const uint32_t width = t.layers[0].n_in;
    t.clip = 4;
    random_inputs(t, n, true, 0.5);
    for (size_t r = 0; r < n; r++) /* from a few to all values: some die, some fill up */
        for (uint32_t i = 0; i < width; i++)
            if ((i * 37 + r) % 97 >= r % 100)
                t.bits[r * t.words + i / 64] &= ~((uint64_t)1 << i % 64);
    for (size_t r = 0; r < n; r++) /* large values, by a first layer */
        for (uint32_t i = 0; i < width && r % 3 == 0; i++)
            t.bits[r * t.words + i / 64] |= (uint64_t)1 << i % 64;
    t.layers[0].weight = 2;
    t.start.assign(1, 0), t.id.clear(), t.value.clear();
    for (size_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < width; i++)
            if (t.bits[r * t.words + i / 64] >> i % 64 & 1) t.id.push_back(i), t.value.push_back(1);
        t.start.push_back(t.id.size());
    }
}

/* Layers in which zeros stay zeros and vectors at the clip stay there. */
static struct net fading(uint32_t width, size_t depth, size_t n)
{
    struct net t;
    for (size_t i = 0; i < depth; i++) {
        layer l = random_layer(width, width, { 8, 5, false, false, false, false });
        l.weight = 0.27f, l.bias = -0.3f;
        t.layers.push_back(l);
    }
    fading_inputs(t, n);
    return t;
}

static void try_dropping(struct net t, int forms, size_t rows)
{
    const size_t depth = t.layers.size();
    const uint32_t width = t.layers[0].n_in;
    for (int form = 0; form < 2; form++) {
        if (!(forms >> form & 1)) continue;
        wisp_deep_only = form;
        struct wisp_cuda_deep d = show(t);
        const struct answer whole = run(d, true);
        CHECK(whole.st == WISP_OK, "%d", whole.st);
        if (whole.st != WISP_OK) continue;
        compare(t, whole, rows);
        uint64_t least = whole.t.work;
        const size_t froms[] = { 0, depth / 2, depth, depth + 1 };
        for (size_t zero : froms)
            for (size_t full : froms) {
                d.drop = true, d.zero_from = zero, d.full_from = full;
                struct answer a = run(d, true);
                CHECK(a.st == WISP_OK && same(a, whole), "width %u, form %d, from %zu and %zu",
                      width, form, zero, full);
                CHECK(a.t.work <= whole.t.work, "more work than all");
                if (zero >= depth && full >= depth)
                    CHECK(a.t.work == whole.t.work, "dropped without a rule");
                least = std::min(least, a.t.work);
                d.most_bytes = a.t.bytes * 2 / 3;
                if (zero == 0 && full == depth / 2) {
                    struct answer c = run(d, true);
                    CHECK(c.st == WISP_OK && c.t.streamed && same(c, whole), "streamed, dropping");
                    CHECK(c.t.work == a.t.work, "streamed: work %zu", (size_t)c.t.work);
                }
                d.most_bytes = 0;
            }
        CHECK(least < whole.t.work * 3 / 4, "width %u, form %d: little was dropped: %zu of %zu",
              width, form, (size_t)least, (size_t)whole.t.work);
    }
    wisp_deep_only = -1;
}

/* ---- the official networks, for times ---- */

/* Class q of layer s reads classes q and q + 2^s; 16 neurons a class, permuted block by block. */
static struct net radix(uint32_t n_neurons, size_t n_layers)
{
    struct net t;
    const uint32_t B = n_neurons / 16;
    uint32_t nb = 0;
    while (1u << nb < B) nb++;
    t.clip = 32;
    std::vector<uint32_t> rows(n_neurons), next;
    for (uint32_t i = 0; i < n_neurons; i++) rows[i] = i; /* row of place i: class i % B */
    for (size_t l = 0; l < n_layers; l++) {
        layer a;
        const uint32_t d = 1u << l % nb;
        const bool ends = (l + 1) % nb == 0;
        next = ends ? shuffled(n_neurons) : rows;
        a.n_in = a.n_out = n_neurons, a.weight = 1.f / 16, a.bias = -0.3f;
        for (uint32_t q = 0; q < B; q++) {
            std::vector<uint32_t> ids;
            for (uint32_t c : { q, (q + d) % B })
                for (uint32_t j = 0; j < 16; j++) ids.push_back(rows[c + B * j]);
            std::sort(ids.begin(), ids.end());
            a.in.insert(a.in.end(), ids.begin(), ids.end());
            a.in_start.push_back((uint32_t)a.in.size());
            for (uint32_t j = 0; j < 16; j++) a.out.push_back(rows[q + B * j]);
            a.out_start.push_back((uint32_t)a.out.size());
        }
        rows = next;
        t.layers.push_back(a);
    }
    return t;
}

/* One neuron a class: sums of 16 inputs first, then of 2; sums again where rows are permuted. */
static struct net merged(uint32_t n_neurons, size_t n_layers)
{
    struct net t;
    const uint32_t B = n_neurons / 16;
    uint32_t nb = 0;
    while (1u << nb < B) nb++;
    t.clip = 32;
    for (size_t l = 0; l < n_layers; l++) {
        layer a;
        const uint32_t d = 1u << l % nb;
        if (l % nb == 0) {
            layer s;
            s.n_in = l ? B : n_neurons, s.n_out = B, s.linear = true;
            for (uint32_t q = 0; q < B; q++) {
                for (uint32_t j = 0; j < 16; j++)
                    s.in.push_back(l ? (uint32_t)rig_below(B) : q + B * j);
                std::sort(s.in.end() - 16, s.in.end());
                s.in_start.push_back((uint32_t)s.in.size());
                s.out.push_back(q), s.out_start.push_back(q + 1);
            }
            t.layers.push_back(s);
        }
        a.n_in = a.n_out = B, a.weight = l % nb ? 1.f : 1.f / 16, a.bias = -0.3f;
        for (uint32_t q = 0; q < B; q++) {
            a.in.push_back(q), a.in.push_back((q + d) % B);
            a.in_start.push_back((uint32_t)a.in.size());
            a.out.push_back(q), a.out_start.push_back(q + 1);
        }
        t.layers.push_back(a);
    }
    return t;
}

/* Densities such that inputs die as those of the challenge do: few reach the end. */
static void sparse_bits(struct net &t, size_t n)
{
    const uint32_t n_in = t.layers[0].n_in;
    t.n = n, t.words = (n_in + 63) / 64;
    t.bits.assign(n * t.words, 0);
    for (uint64_t &b : t.bits) /* about a tenth: 1/4 * 5/8 * 3/4 */
        b = test_rand(&rig_seed) & test_rand(&rig_seed) &
            (test_rand(&rig_seed) | (test_rand(&rig_seed) & test_rand(&rig_seed)) >> 1) &
            (test_rand(&rig_seed) | test_rand(&rig_seed));
}

static void time_net(const char *what, struct net &t, bool drop, int form, double edges)
{
    struct wisp_cuda_deep d = show(t);
    d.drop = drop;
    if (drop) d.zero_from = d.full_from = 0;
    wisp_deep_only = form;
    struct answer a = run(d, false, 3);
    wisp_deep_only = -1;
    CHECK(a.st == WISP_OK, "%s: %d", what, a.st);
    if (a.st != WISP_OK) return;
    size_t ends = 0;
    for (uint8_t e : a.ends) ends += e;
    printf("  time %-28s %-5s %9.3f ms, %6.2f of %zu layers, %6.2f tera-edges/s, upload %.2f s, "
           "%zu ends\n",
           what, a.t.form, 1e3 * a.t.seconds, (double)a.t.work / (double)t.n, t.layers.size(),
           edges * (double)a.t.work / (double)t.layers.size() / a.t.seconds * 1e-12, a.t.upload_s,
           ends);
    fflush(stdout);
}

static void times(void)
{
    char name[80];
    for (uint32_t n_neurons : { 1024u, 4096u, 16384u, 65536u }) {
        const size_t n = n_neurons == 65536 ? 20000 : 60000;
        struct net t = radix(n_neurons, 24);
        sparse_bits(t, n);
        const double edges = 32.0 * n_neurons * 24 * (double)1;
        snprintf(name, sizeof name, "raw %u x 24", n_neurons);
        time_net(name, t, false, -1, edges);
        if (n_neurons < 65536) time_net(name, t, false, WISP_DEEP_WIDE, edges);
        snprintf(name, sizeof name, "dropping %u x 24", n_neurons);
        time_net(name, t, true, -1, edges);
        struct net m = merged(n_neurons, 24);
        m.n = t.n, m.words = t.words, m.bits.swap(t.bits);
        snprintf(name, sizeof name, "merged %u x 24", n_neurons);
        time_net(name, m, true, -1, edges);
    }
    struct net t;
    t.clip = 32;
    for (int l = 0; l < 24; l++) {
        t.layers.push_back(random_layer(1024, 1024, { 32, 1, false, false, false, false }));
        t.layers.back().weight = 1.f / 16, t.layers.back().bias = -0.3f;
    }
    sparse_bits(t, 60000);
    time_net("random 1024 x 24", t, false, -1, 32.0 * 1024 * 24);
    time_net("random 1024 x 24", t, false, WISP_DEEP_CHIP, 32.0 * 1024 * 24);
    time_net("random 1024 x 24, dropping", t, true, -1, 32.0 * 1024 * 24);
}

int main(void)
{
    const bool small = getenv("RIG_SMALL") != NULL;
    rig_sync("asking for a card");
    const int all = 7, wide_too = 3;
    for (size_t n : { (size_t)1, (size_t)31, (size_t)33, (size_t)1000 }) {
        TEST("ragged groups of different widths");
        struct net t;
        const uint32_t widths[] = { 64, 1, 31, 200, 1000, 64, 65 };
        for (size_t i = 0; i + 1 < 7; i++) {
            struct shape s = { 40, 40, true, i % 2 == 1, i % 3 == 1, i == 3 };
            t.layers.push_back(random_layer(widths[i], widths[i + 1], s));
        }
        t.clip = n % 2 ? 3 : INFINITY;
        random_inputs(t, n, n != 33, 0.3);
        try_net(t, 40, all);
    }
    {
        TEST("single outputs");
        struct net t;
        for (size_t i = 0; i < 6; i++)
            t.layers.push_back(
                random_layer(i ? 1000 : 777, 1000, { 32, 1, i > 3, i == 2, false, false }));
        t.clip = 4;
        random_inputs(t, small ? 100 : 1000, true, 0.3);
        try_net(t, 20, all);
    }
    {
        TEST("units of every size, 4096 wide, weights");
        struct net t;
        for (size_t i = 0; i < 4; i++)
            t.layers.push_back(
                random_layer(i ? 4096 : 5000, 4096, { 24, 31, true, i == 1, i == 2, false }));
        t.clip = 4;
        random_inputs(t, small ? 33 : 1000, false, 0.1);
        try_net(t, 6, wide_too);
    }
    {
        TEST("sums of neighbours, read from memory");
        struct net t = merged(2048, 20);
        random_inputs(t, small ? 100 : 1000, true, 0.2);
        try_net(t, 20, wide_too);
        for (uint32_t neurons :
             { 1024, 8192 }) { /* a warp an input, a block; nothing dies so soon */
            struct net m = merged(neurons, 3);
            random_inputs(m, small ? 40 : 1000, true, 0.4);
            try_net(m, 20, 1);
        }
        struct net o = merged(1024, 1); /* odd numbers of inputs, narrow layers */
        for (uint32_t k : { 1, 3, 32, 7, 40 }) {
            const uint32_t n = o.layers.back().n_out;
            layer l = random_layer(n,
                                   k == 32  ? 33
                                   : k == 7 ? 90
                                            : n,
                                   { k, 1, false, false, false, k == 3 });
            l.weight = 1.f / (float)k, l.bias = -0.01f;
            o.layers.push_back(l);
        }
        random_inputs(o, small ? 40 : 1000, true, 0.4);
        try_net(o, 20, 1);
        struct net q = merged(1024, 6);
        q.layers[0] = random_layer(1024, 64, { 16, 1, false, true, false, true });
        random_inputs(q, 200, true, 0.2);
        try_net(q, 20, all);
    }
    for (size_t n : { (size_t)1, (size_t)33, (size_t)(small ? 300 : 2000) }) {
        TEST("units that share inputs with the next one");
        struct net t;
        for (size_t i = 0; i < 6; i++)
            t.layers.push_back(chained_layer(i ? 900 : 700, 900, 30u << i % 3, i % 2));
        t.clip = 4;
        random_inputs(t, n, true, 0.3);
        try_net(t, 20, wide_too);
        struct net q = radix(512, 12);
        random_inputs(q, n, true, 0.3);
        try_net(q, 20, wide_too);
    }
    {
        TEST("ids beyond 16 bits");
        struct net t;
        t.layers.push_back(random_layer(66000, 300, { 40, 12, true, true, false, false }));
        t.layers.push_back(random_layer(300, 40, { 7, 3, false, false, false, false }));
        random_inputs(t, small ? 33 : 1000, true, 0.1);
        try_net(t, 20, wide_too);
        struct net q;
        q.layers.push_back(random_layer(65536, 300, { 13, 12, true, false, false, false }));
        q.layers.push_back(random_layer(300, 40, { 7, 3, false, false, false, false }));
        random_inputs(q, 33, false, 0.1);
        try_net(q, 33, wide_too);
    }
    {
        TEST("many layers, few inputs: layers come in ranges");
        struct net t;
        for (size_t i = 0; i < 50; i++)
            t.layers.push_back(
                random_layer(i ? 300 : 350, 300, { 20, 1, true, i == 9, i == 8, i == 40 }));
        t.layers.push_back(random_layer(300, 70, { 20, 9, true, false, true, false }));
        t.clip = 4;
        random_inputs(t, 70, true, 0.2);
        try_net(t, 10, all);
    }
    {
        TEST("wider than a chip");
        struct net t;
        t.layers.push_back(random_layer(3000, 30000, { 9, 20, true, false, true, false }));
        t.layers.push_back(random_layer(30000, 66000, { 9, 20, true, false, false, false }));
        t.layers.push_back(random_layer(66000, 66000, { 9, 20, true, true, false, false }));
        t.layers.push_back(random_layer(66000, 50, { 33, 20, true, false, false, false }));
        t.clip = 2;
        random_inputs(t, small ? 33 : 200, true, 0.1);
        try_net(t, 4, 2);
    }
    TEST("inputs are dropped where the rules allow it");
    try_dropping(fading(64, 40, small ? 200 : 1000), 3, 20);
    try_dropping(fading(320, 64, 100), 3, 10);
    try_dropping(fading(1000, 24, small ? 100 : 3000), 3, 10);
    {
        struct net t = radix(1024, 20);
        for (layer &l : t.layers) l.weight = 0.07f;
        fading_inputs(t, small ? 1100 : 3000);
        try_dropping(t, 2, 10);
    }
    if (!small) {
        TEST("times");
        times();
    }
    return test_end();
}
