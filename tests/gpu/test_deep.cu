/* Deep sparse networks on the card against plain code in double precision; then times.
 *
 * RIG_SMALL in the environment: small sizes, no times. */
#include "gpu/deep_rig.cuh"

/* ---- outputs that share no inputs ---- */

/* As pruning leaves them: weights, biases, every layer of another width, the last one linear. */
static struct net pruned_net(uint32_t width, bool small)
{
    struct net t;
    const uint32_t widths[] = { width, width + 33, width - 1, 2 * width, 77 };
    for (size_t i = 0; i < 4; i++)
        t.layers.push_back(random_layer(widths[i], widths[i + 1],
                                        { width / 8, 1, true, i != 1, i % 2 == 0, i == 3 }));
    t.clip = 3;
    random_inputs(t, small ? 70 : 1024, false, 0.3);
    return t;
}

/* Rows of no input, of all, of the first and the last, of neighbours, of the same one twice. */
static struct net uneven_net(uint32_t width)
{
    struct net t;
    for (size_t i = 0; i < 3; i++) {
        layer l;
        l.n_in = l.n_out = width, l.bias = 0.01f, l.weight = 1.f / 64;
        for (uint32_t o = 0; o < width; o++) {
            const uint32_t kind = (uint32_t)rig_below(i == 1 ? 40 : 8), at = (o * 17) % width;
            std::vector<uint32_t> ids;
            if (kind == 0) ids.push_back(0), ids.push_back(width - 1);
            if (kind == 1) ids.push_back(at), ids.push_back(at);
            if (kind == 2 && o % 5 == 0) ids = shuffled(width);
            if (kind > 3)
                for (uint32_t e = 0; e < kind * 2; e++) ids.push_back((at + e) % width);
            std::sort(ids.begin(), ids.end());
            l.in.insert(l.in.end(), ids.begin(), ids.end());
            l.in_start.push_back((uint32_t)l.in.size());
            l.out.push_back(o), l.out_start.push_back(o + 1);
            l.w_start.push_back(l.w.size());
            for (size_t e = 0; e < ids.size() && i != 1; e++)
                l.w.push_back(rig_float() / (float)ids.size());
        }
        t.layers.push_back(l);
    }
    t.clip = 1;
    return t;
}

/* Which form a net of random connections takes by itself. */
static int choice_of(uint32_t width, size_t n)
{
    struct net t;
    t.layers.push_back(random_layer(width, width, { 32, 1, false, false, false, false }));
    random_inputs(t, n, true, 0.001);
    const struct answer a = run(show(t), false);
    const char *const names[] = { "chip", "wide", "panel", "slice" };
    for (int i = 0; i < 4; i++)
        if (a.st == WISP_OK && strcmp(a.t.form, names[i]) == 0) return i;
    return -1;
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

/* Every edge with a probability of its own: what pruning leaves. */
static layer sparse_layer(uint32_t width, double density)
{
    layer l;
    l.n_in = l.n_out = width;
    for (uint32_t o = 0; o < width; o++) {
        l.w_start.push_back(l.w.size());
        for (double i = -1;;) {
            const double u = ((double)(test_rand(&rig_seed) >> 40) + 0.5) / (1 << 24);
            i += 1 + floor(log(u) / log1p(-density));
            if (i >= width) break;
            l.in.push_back((uint32_t)i), l.w.push_back(rig_float() / (float)(density * width));
        }
        l.in_start.push_back((uint32_t)l.in.size());
        l.out.push_back(o), l.out_start.push_back(o + 1);
        l.biases.push_back(0.1f * rig_float());
    }
    return l;
}

/* 4 layers of a pruned net, 1024 inputs (bench/pruned), with blocks of several sizes. */
static void pruned_times(uint32_t width, double zeros)
{
    char name[80];
    struct net t;
    double edges = 0;
    for (int l = 0; l < 4; l++) {
        t.layers.push_back(sparse_layer(width, 1 - zeros / 100));
        edges += 1024.0 * (double)t.layers.back().in.size();
    }
    random_inputs(t, 1024, true, 0.5);
    for (int warps : { 0, 4, 8, 16 }) {
        wisp_deep_warps = warps;
        snprintf(name, sizeof name, "pruned %u, %g %%, %d warps", width, zeros, warps);
        time_net(name, t, false, WISP_DEEP_SLICE, edges / 1024);
    }
    wisp_deep_warps = 0;
    snprintf(name, sizeof name, "pruned %u, %g %%", width, zeros);
    time_net(name, t, false, WISP_DEEP_WIDE, edges / 1024);
}

int main(void)
{
    const bool small = getenv("RIG_SMALL") != NULL;
    rig_sync("asking for a card");
    const int all = 15, wide_too = 3 + 8, panels = 4 + 8;
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
             { 1024, 8192 }) { /* one warp per input, a block; nothing dies so soon */
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
        try_net(t, 4, 2 + 8);
    }
    for (int ring : { 0, 700, 130, 17 }) {
        TEST("one lane per output, inputs in a window of rows");
        wisp_deep_ring = ring;
        for (int warps : { 0, 1, 3, 16 }) {
            wisp_deep_warps = warps;
            try_net(pruned_net(ring ? 300 : 900, small), 10, 8);
        }
        wisp_deep_warps = wisp_deep_ring = 0;
    }
    for (size_t n : { (size_t)1, (size_t)32, (size_t)(small ? 100 : 2000) }) {
        TEST("outputs without inputs, with all of them, with one far away");
        struct net t = uneven_net(513);
        random_inputs(t, n, n == 32, 0.3);
        try_net(t, 40, panels);
        struct net q = uneven_net(1024);
        random_inputs(q, n, true, 0.3);
        try_net(q, 10, panels);
        wisp_deep_ring = 64;
        struct net w = uneven_net(777);
        random_inputs(w, n, false, 0.3);
        try_net(w, 10, 8);
        wisp_deep_ring = 0;
    }
    {
        TEST("the form that is taken");
        int n_multi = 0;
        CHECK(cudaDeviceGetAttribute(&n_multi, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess,
              "no number of multiprocessors");
        const int few = choice_of(128, 33), many = choice_of(128, 32 * (size_t)n_multi);
        CHECK(few == WISP_DEEP_SLICE && many == WISP_DEEP_PANEL, "%d, %d", few, many);
        CHECK(choice_of(3000, 33) == WISP_DEEP_SLICE, "3000 outputs");
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
        for (double zeros : { 80.0, 90.0, 95.0, 99.0, 99.5 })
            for (uint32_t width : { 1024u, 4096u }) pruned_times(width, zeros);
        pruned_times(16384, 98);
    }
    return test_end();
}
