/* Hash tables on the card: moments, frame, keys of all families, tables, queries.
 *
 * Keys are made again here from their definitions (hash/dwta.c, wta.c, simhash.c, minhash.c), with
 * functions drawn here.  Vectors are those of the card's own frame, in the same float arithmetic:
 * keys of the families that look at the order of coordinates then have to be equal.  Signs of
 * simhash may differ where a sum is nothing but rounding.  The frame itself is held against one in
 * double precision, and keys under that one may differ in less than 0.5 %. */
#include "gpu/rig.cuh"

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

enum { DWTA, WTA, SIMHASH, MINHASH };
static const char *const names[] = { "dwta", "wta", "simhash", "minhash" };

struct shape {
    size_t n_rows, width, tables;
    int bits; /* of a key, about; 0: as lsh.c */
    bool transform, half, sparse;
    size_t batch, n, group; /* group 0: as laid */
};

struct numbers { /* what is hashed */
    both<float> w, bias, h;
    both<__nv_bfloat16> w16;
    both<struct wisp_dnow> now;
    explicit numbers(const struct shape &s)
        : w(s.half ? 0 : s.n_rows * s.width), bias(s.n_rows), h(s.batch * s.width),
          w16(s.half ? s.n_rows * s.width : 0), now(1)
    {
        std::vector<float> about(s.width);
        for (float &x : about) x = 0.3f * rig_float();
        for (size_t i = 0; i < s.n_rows * s.width; i++) {
            float x = about[i % s.width] + rig_float();
            if (s.sparse && (rig_below(8) || i / s.width % 13 == 5)) x = 0;
            if (s.half) w16[i] = __float2bfloat16(x);
            else w[i] = x;
        }
        for (float &x : bias.host) x = rig_float();
        for (size_t i = 0; i < h.size(); i++) {
            float x = 0.5f + rig_float();
            if (s.sparse && (rig_below(4) || i / s.width % 5 == 1)) x = 0;
            h[i] = x > 0 ? x : 0;
        }
        now[0].n = (uint32_t)s.n;
        w.up(), w16.up(), bias.up(), h.up(), now.up();
    }
    float weight(size_t at) const
    {
        return w.size() ? w.host[at] : __bfloat162float(w16.host[at]);
    }
};

/* ---- functions ---- */

static size_t set_size(size_t width)
{
    return std::max((size_t)1, std::min((size_t)30, width / 4));
}

static int digit_bits(int family, size_t width)
{
    int bits = family == SIMHASH ? 1 : 3;
    if (family == MINHASH)
        for (bits = 1; ((size_t)1 << bits) * set_size(width) < 3 * width;) bits++;
    return bits;
}

/* Permutations end to end, begun anew after 'keep' places; or a matrix of signs, zeros, normals. */
static std::vector<uint32_t> draw(const struct wisp_dhash &t)
{
    size_t width = t.width + t.appended, bins = t.n_tables * (size_t)t.digits;
    std::vector<uint32_t> f, order(width);
    if (t.family == SIMHASH) {
        for (size_t i = 0; i < width * bins; i++) {
            float x = rig_below(3) ? 0 : rig_below(2) ? 1.7320508f : -1.7320508f;
            if (i >= t.width * bins) x = rig_float() + rig_float() + rig_float();
            f.push_back(0);
            memcpy(&f.back(), &x, sizeof x);
        }
        return f;
    }
    size_t n = bins << t.digit_bits, keep = t.family == WTA ? std::min(width, (size_t)8) : width;
    for (size_t i = 0; i < width; i++) order[i] = (uint32_t)i;
    for (size_t i = 0; i < n; i++) {
        size_t at = i % keep;
        std::swap(order[at], order[at + rig_below(width - at)]);
        f.push_back(order[at]);
    }
    f.resize(n + width); /* the work space of hash/bins.c */
    return f;
}

struct hashing { /* a hash over numbers, in a block of its own between poisoned borders */
    enum { BORDER = 1024 };
    struct wisp_dhash t;
    both<uint32_t> functions;
    char *memory;
    size_t bytes, seen; /* of the block; of what is looked at: moments, frame, tables */
    std::vector<char> host;

    hashing(const struct shape &s, const struct numbers &x, int family) : t()
    {
        int row_bits = 0, digit = digit_bits(family, s.width);
        while (s.n_rows >> row_bits > 1) row_bits++;
        int bits = s.bits ? s.bits : std::max(4, row_bits - 1), most = std::min(24, row_bits + 1);
        t.n_rows = s.n_rows, t.width = s.width, t.batch = s.batch, t.n_tables = s.tables;
        t.family = family, t.digit_bits = digit, t.digits = (bits + digit / 2) / digit;
        if (t.digits * digit > 32) t.digits = 32 / digit;
        t.bits = std::min(t.digits * digit, most);
        t.key_shift = t.digits * digit > most ? 32 - most : 0;
        t.key_mask = t.key_shift ? UINT32_MAX : UINT32_MAX >> (32 - t.bits);
        t.appended = s.transform && family == SIMHASH ? 2 : 0;
        t.transform = s.transform;
        t.w.rows = s.n_rows, t.w.cols = s.width;
        if (s.half) t.w.b16 = x.w16.dev;
        else t.w.w = x.w.dev;
        t.bias.rows = s.n_rows, t.bias.cols = 1, t.bias.w = x.bias.dev;
        t.now = x.now.dev, t.h = x.h.dev;
        functions.host = draw(t);
        cudaFree(functions.dev);
        OK(cudaMalloc((void **)&functions.dev, functions.size() * sizeof(uint32_t)));
        functions.up();
        t.functions = functions.dev;
        bytes = wisp_hash_lay(&t, NULL);
        OK(cudaMalloc((void **)&memory, bytes + 2 * BORDER));
        OK(cudaMemset(memory, 0xff, bytes + 2 * BORDER)); /* floats: not a number */
        wisp_hash_lay(&t, memory + BORDER);
        if (s.group) t.group = s.group;
        seen = (size_t)((char *)t.keys - (memory + BORDER));
    }
    ~hashing()
    {
        cudaFree(memory);
    }
    void down() /* host: border, moments .. query, border */
    {
        host.resize(seen + 2 * BORDER);
        OK(cudaMemcpy(host.data(), memory, BORDER + seen, cudaMemcpyDeviceToHost));
        OK(cudaMemcpy(host.data() + BORDER + seen, memory + BORDER + bytes, BORDER,
                      cudaMemcpyDeviceToHost));
    }
    template <class T> const T *here(const T *dev) const /* after down() */
    {
        return (const T *)(host.data() + ((const char *)dev - memory));
    }
    template <class T> void clean(const T *dev, size_t n, size_t room, const char *what) const
    { /* bytes from n on up to the next array are as they were */
        const char *at = (const char *)here(dev);
        size_t end = (room * sizeof(T) + 255) / 256 * 256, bad = 0;
        for (size_t i = n * sizeof(T); i < end; i++) bad += at[i] != (char)0xff;
        CHECK(bad == 0, "%zu bytes written past %s", bad, what);
    }
    void check_borders(size_t n) const
    {
        size_t bad = 0;
        for (size_t i = 0; i < BORDER; i++)
            bad += (host[i] != (char)0xff) + (host[BORDER + seen + i] != (char)0xff);
        CHECK(bad == 0, "%zu bytes of the borders written", bad);
        size_t frame = 3 * t.width + 3, starts = t.n_tables * (((size_t)1 << t.bits) + 1);
        clean(t.moments, 2 * t.width, 2 * t.width, "moments");
        clean(t.frame, t.transform ? frame : 0, frame, "the frame");
        clean(t.tables.start, starts, starts, "start");
        clean(t.tables.rows, t.n_tables * t.n_rows, t.n_tables * t.n_rows, "rows");
        clean(t.tables.query, n * t.n_tables, t.batch * t.n_tables, "queries");
    }
};

/* ---- keys, from their definitions ---- */

struct vec { /* of one row or query; 'slack': what rounding may have done to the last two of x */
    std::vector<float> x;
    double slack[2];
};

static vec row_vector(const struct wisp_dhash &t, const struct numbers &d, const float *frame,
                      size_t row)
{
    const size_t width = t.width;
    const float *mean = frame, *scale = frame + width, *centre = scale + width;
    vec v = { std::vector<float>(width + t.appended), { 0, 0 } };
    double dot = d.bias.host[row], mass = fabs(dot), square = 0;
    for (size_t c = 0; c < width; c++) {
        float w = d.weight(row * width + c);
        v.x[c] = w;
        if (!t.transform) continue;
        volatile float product = scale[c] * w; /* rounded here, whatever the compiler can do */
        v.x[c] = product - centre[c];
        dot += (double)mean[c] * w, mass += fabs((double)mean[c] * w);
        square += (double)v.x[c] * v.x[c];
    }
    if (!t.appended) return v;
    double beta = centre[width + 1], m = centre[width + 2], y = beta * (dot - centre[width]);
    double rest = m * m - square - y * y, root = rest > 0 ? sqrt(rest) : 0;
    v.x[width] = (float)y, v.x[width + 1] = (float)root;
    double terms = m * m + square + y * y;
    v.slack[0] = 1e-5 * beta * (mass + fabs(centre[width]));
    v.slack[1] = 1e-5 * terms / (root + 1e-3 * sqrt(terms));
    return v;
}

static vec query_vector(const struct wisp_dhash &t, const struct numbers &d, const float *frame,
                        size_t i)
{
    const size_t width = t.width;
    vec v = { std::vector<float>(width + t.appended), { 0, 0 } };
    for (size_t c = 0; c < width; c++) {
        v.x[c] = d.h.host[i * width + c];
        if (!t.transform) continue;
        volatile float less = v.x[c] - frame[c];
        v.x[c] = less / frame[width + c];
    }
    if (t.appended) v.x[width] = 1 / frame[3 * width + 1];
    return v;
}

static size_t borrowed(size_t bin, unsigned attempt, size_t n_bins)
{
    uint64_t x = ((uint64_t)bin << 8) + attempt + 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    __extension__ typedef unsigned __int128 wide;
    return (size_t)(((wide)x * n_bins) >> 64);
}

/* The digit of a bin; -1: it has nothing. */
static int bin_digit(const struct wisp_dhash &t, const float *x, const uint32_t *place)
{
    int best = -1;
    for (int j = 0; j < 1 << t.digit_bits; j++) {
        float v = x[place[j]];
        if (t.family == MINHASH && v != 0) return j;
        if (t.family == DWTA && v == 0) continue;
        if (t.family != MINHASH && (best < 0 || v > x[place[best]])) best = j;
    }
    return best;
}

/* The largest as ones, of equals the first, the others as zeros. */
static void to_set(std::vector<float> &x)
{
    std::vector<uint32_t> order(x.size());
    for (size_t c = 0; c < x.size(); c++) order[c] = (uint32_t)c;
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return x[a] > x[b]; });
    for (size_t i = 0; i < x.size(); i++) x[order[i]] = i < set_size(x.size());
}

/* Buckets of all tables; near[table]: a sign was too close to tell. */
static void buckets(const struct wisp_dhash &t, const uint32_t *functions, vec v, uint32_t *out,
                    char *near)
{
    const size_t bins = t.n_tables * (size_t)t.digits;
    const float *a = (const float *)functions;
    bool any = false;
    if (t.family == MINHASH) to_set(v.x);
    for (float x : v.x) any |= x != 0;
    for (size_t k = 0; k < t.n_tables; k++) {
        uint32_t key = 0;
        near[k] = false;
        for (int j = 0; j < t.digits; j++) {
            size_t bin = k * t.digits + j;
            int digit = 0;
            if (t.family == SIMHASH) {
                double z = 0, mass = 0;
                for (size_t c = 0; c < v.x.size(); c++) {
                    double term = (double)a[c * bins + bin] * v.x[c];
                    z += term, mass += fabs(term);
                }
                for (size_t i = 0; i < t.appended; i++)
                    mass += 1e5 * v.slack[i] * fabs(a[(t.width + i) * bins + bin]);
                digit = z > 0;
                near[k] |= fabs(z) <= 1e-5 * mass;
            } else {
                size_t size = (size_t)1 << t.digit_bits;
                digit = bin_digit(t, v.x.data(), functions + bin * size);
                for (unsigned i = 0; digit < 0 && any && i < 64; i++)
                    digit = bin_digit(t, v.x.data(), functions + borrowed(bin, i, bins) * size);
                if (digit < 0) digit = 0;
            }
            key = key << t.digit_bits | (uint32_t)digit;
        }
        out[k] = (key * 0x9e3779b1u & t.key_mask) >> t.key_shift;
    }
}

/* ---- checks ---- */

static bool close_to(double got, double want, double mass)
{
    return fabs(got - want) <= 1e-5 * mass + 1e-30;
}

/* Four steps of observing, the first begins. */
static void check_moments(struct hashing &g, struct numbers &d, size_t n)
{
    const size_t width = g.t.width;
    std::vector<double> want(2 * width, 0);
    const uint64_t steps[] = { 5, 12345678901u, 7, 4 };
    for (int s = 0; s < 4; s++) {
        size_t tiles = (n + 31) / 32, from = s ? steps[s] % tiles * 32 : 0;
        size_t end = s ? std::min(n, from + 32) : n;
        for (size_t c = 0; c < 2 * width; c++) {
            double sum = 0, keep = s ? 0.98f : 0;
            for (size_t i = from; i < end; i++) {
                double x = d.h.host[i * width + c % width];
                sum += c < width ? x : x * x;
            }
            want[c] = keep * want[c] + (1 - keep) * sum / (double)(end - from);
        }
        d.now[0].step = steps[s];
        d.now.up();
        wisp_hash_observe(g.t, s == 0, 0);
        rig_sync("observe");
    }
    g.down();
    const float *got = g.here(g.t.moments);
    for (size_t c = 0; c < 2 * width; c++) /* no term is negative */
        CHECK(close_to(got[c], want[c], want[c]), "moment %zu: %g, not %g", c, got[c], want[c]);
}

/* The frame from the card's moments, in double; the card's is held against it. */
static std::vector<float> check_frame(const struct hashing &g, const struct numbers &d)
{
    const struct wisp_dhash &t = g.t;
    const size_t width = t.width, step = (t.n_rows + 1023) / 1024;
    const float *m = g.here(t.moments), *got = g.here(t.frame);
    std::vector<float> f(3 * width + 3);
    std::vector<double> sum(width, 0), sums(width, 0);
    double least = 0, bias = 0, bias_mass = 0, xx = 0, yy = 0;
    size_t n = 0;
    for (size_t c = 0; c < width; c++) {
        volatile float square = m[c] * m[c];
        float variance = m[width + c] - square;
        f[c] = m[c], f[width + c] = variance > 0 ? sqrtf(variance) : 0;
        least += f[width + c] / (20.0 * (double)width);
    }
    if (!(least > 0)) least = 1;
    for (size_t c = 0; c < width; c++) f[width + c] = std::max(f[width + c], (float)least);
    for (size_t r = 0; r < t.n_rows; r += step, n++) {
        bias += d.bias.host[r], bias_mass += fabs(d.bias.host[r]);
        for (size_t c = 0; c < width; c++) {
            double w = d.weight(r * width + c);
            sum[c] += w, sums[c] += fabs(w);
            bias += m[c] * w, bias_mass += fabs(m[c] * w);
        }
    }
    for (size_t c = 0; c < width; c++) {
        f[2 * width + c] = (float)(sum[c] / (double)n * f[width + c]);
        double mass = sums[c] / (double)n * f[width + c], scale = got[width + c];
        CHECK(got[c] == f[c] && close_to(scale, f[width + c], scale), "mean, scale of %zu", c);
        CHECK(close_to(got[2 * width + c], f[2 * width + c], mass), "centre of %zu", c);
    }
    f[3 * width] = (float)(bias / (double)n), f[3 * width + 1] = 1, f[3 * width + 2] = 0;
    CHECK(close_to(got[3 * width], f[3 * width], bias_mass / (double)n), "centre of biases");
    if (!t.appended) {
        CHECK(got[3 * width + 1] == 1 && got[3 * width + 2] == 0, "beta, m: not measured");
        return f;
    }
    std::vector<double> squares, ys, lengths;
    for (size_t r = 0; r < t.n_rows; r += step) {
        double y = d.bias.host[r] - bias / (double)n, square = 0;
        for (size_t c = 0; c < width; c++) {
            double w = d.weight(r * width + c), x = f[width + c] * w - sum[c] / n * f[width + c];
            y += m[c] * w, square += x * x;
        }
        xx += square, yy += y * y;
        squares.push_back(square), ys.push_back(y);
    }
    double beta = sqrt(sqrt(xx / (yy * (double)width)));
    if (!(beta > 1e-3 && beta < 1e3)) beta = 1;
    for (size_t i = 0; i < n; i++)
        lengths.push_back(sqrt(squares[i] + beta * beta * ys[i] * ys[i]));
    std::sort(lengths.begin(), lengths.end());
    double most = lengths[(size_t)((double)(n - 1) * 0.98)];
    f[3 * width + 1] = (float)beta, f[3 * width + 2] = (float)most;
    double b = got[3 * width + 1], far = got[3 * width + 2]; /* beta and m */
    if (n == 1) return f; /* nothing is left of one row but rounding */
    CHECK(close_to(b, beta, 100 * beta), "beta: %g, expected %g", b, beta);
    CHECK(close_to(far, most, 100 * most), "m: %g, expected %g", far, most);
    return f;
}

/* Every row once in each table, ascending in its bucket; returns the bucket of each. */
static std::vector<uint32_t> check_tables(const struct hashing &g)
{
    const struct wisp_dhash &t = g.t;
    const size_t n = (size_t)1 << t.bits;
    std::vector<uint32_t> where(t.n_tables * t.n_rows, UINT32_MAX);
    for (size_t k = 0; k < t.n_tables; k++) {
        const uint32_t *start = g.here(t.tables.start) + k * (n + 1);
        const int32_t *rows = g.here(t.tables.rows) + k * t.n_rows;
        CHECK(start[0] == 0 && start[n] == t.n_rows, "table %zu: %u to %u", k, start[0], start[n]);
        for (size_t b = 0; b < n; b++) {
            CHECK(start[b] <= start[b + 1] && start[b + 1] <= t.n_rows, "table %zu bucket %zu", k,
                  b);
            for (size_t i = start[b]; i < start[b + 1] && i < t.n_rows; i++) {
                bool ok = rows[i] >= 0 && (size_t)rows[i] < t.n_rows;
                CHECK(ok, "table %zu place %zu: row %d", k, i, rows[i]);
                if (!ok) continue;
                CHECK(i == start[b] || rows[i] > rows[i - 1], "table %zu bucket %zu: order", k, b);
                uint32_t *w = &where[k * t.n_rows + rows[i]];
                CHECK(*w == UINT32_MAX, "table %zu: row %d twice", k, rows[i]);
                *w = (uint32_t)b;
            }
        }
    }
    return where;
}

/* Keys of rows and queries under a frame; returns how many differ from the card's. */
static size_t compare(const struct hashing &g, const struct numbers &d, const float *frame,
                      const std::vector<uint32_t> &where, size_t n, size_t *close, size_t *all)
{
    const struct wisp_dhash &t = g.t;
    std::vector<uint32_t> want(t.n_tables);
    std::vector<char> near(t.n_tables);
    size_t wrong = 0;
    *close = 0, *all = (t.n_rows + n) * t.n_tables;
    for (size_t i = 0; i < t.n_rows + n; i++) {
        bool row = i < t.n_rows;
        buckets(t, g.functions.host.data(),
                row ? row_vector(t, d, frame, i) : query_vector(t, d, frame, i - t.n_rows),
                want.data(), near.data());
        for (size_t k = 0; k < t.n_tables; k++) {
            uint32_t got = row ? where[k * t.n_rows + i]
                               : g.here(t.tables.query)[(i - t.n_rows) * t.n_tables + k];
            if (got == want[k]) continue;
            if (near[k]) ++*close;
            else wrong++;
        }
    }
    return wrong;
}

static void check_keys(const struct hashing &g, const struct numbers &d, const float *own,
                       const std::vector<uint32_t> &where, size_t n)
{
    size_t close, all, wrong = compare(g, d, g.here(g.t.frame), where, n, &close, &all);
    CHECK(wrong == 0, "%zu of %zu keys are wrong", wrong, all);
    CHECK(close * 200 <= all + 200, "%zu of %zu keys differ, near a tie", close, all);
    if (!own || g.t.n_rows == 1) return;
    wrong = compare(g, d, own, where, n, &close, &all);
    wrong += close;
    CHECK(wrong * 200 <= all, "%zu of %zu keys differ under a double frame", wrong, all);
}

/* Build and query as a graph, into poisoned memory: the same bytes. */
static void check_again(struct hashing &g)
{
    std::vector<char> before = g.host;
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t from = (size_t)((char *)g.t.frame - g.memory);
    OK(cudaMemset(g.t.frame, 0xff, hashing::BORDER + g.seen - from));
    OK(cudaDeviceSynchronize());
    OK(cudaStreamCreate(&s));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    wisp_hash_build(g.t, s);
    wisp_hash_query(g.t, s);
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, s));
    rig_sync("graph");
    g.down();
    CHECK(before == g.host, "two runs differ");
}

static void check_inputs(struct hashing &g, struct numbers &d)
{
    std::vector<float> w = d.w.host, bias = d.bias.host, h = d.h.host;
    std::vector<uint32_t> f = g.functions.host;
    d.w.down(), d.bias.down(), d.h.down(), g.functions.down();
    CHECK(w == d.w.host && bias == d.bias.host && h == d.h.host && f == g.functions.host,
          "an input was changed");
}

/* Tables of all rows, asked for n samples, copied back. */
static void build_and_ask(struct hashing &g, struct numbers &d, size_t n)
{
    check_moments(g, d, n);
    wisp_hash_build(g.t, 0);
    wisp_hash_query(g.t, 0);
    rig_sync("build, query");
    g.down();
    g.check_borders(n);
}

static void test_shape(const struct shape &s, int family)
{
    static char name[200];
    test_close(); /* it prints the name */
    snprintf(name, sizeof name, "%s: %zu x %zu, %zu tables, %zu of %zu samples%s%s%s",
             names[family], s.n_rows, s.width, s.tables, s.n, s.batch, s.transform ? ", frame" : "",
             s.half ? ", bf16" : "", s.sparse ? ", sparse" : "");
    TEST(name);
    struct numbers d(s);
    struct hashing g(s, d, family);
    build_and_ask(g, d, s.n);
    std::vector<float> own;
    if (s.transform) own = check_frame(g, d);
    check_keys(g, d, s.transform ? own.data() : NULL, check_tables(g), s.n);
    check_again(g);
    check_inputs(g, d);
}

static void test_nothing(void)
{
    TEST("no samples: nothing is written");
    struct shape s = { 100, 64, 3, 0, true, false, false, 40, 0, 0 };
    struct numbers d(s);
    struct hashing g(s, d, DWTA);
    wisp_hash_observe(g.t, true, 0);
    wisp_hash_observe(g.t, false, 0);
    wisp_hash_query(g.t, 0);
    rig_sync("nothing");
    g.down();
    for (char x : g.host) CHECK(x == (char)0xff, "a byte was written");
}

/* ---- time ---- */

static double time_sort(const struct hashing &g)
{
    int bits = g.t.bits;
    while ((size_t)1 << (bits - g.t.bits) < g.t.group) bits++;
    size_t bytes = g.t.work_bytes;
    return rig_ms([&] {
        OK(cub::DeviceRadixSort::SortPairs(
            g.t.work, bytes, (const uint32_t *)g.t.keys, g.t.keys_sorted, (const int32_t *)g.t.ids,
            g.t.tables.rows, (uint32_t)(g.t.group * g.t.n_rows), 0, bits, 0));
    });
}

static void time_family(const struct shape &s, struct numbers &d, int family)
{
    struct hashing g(s, d, family), plain(s, d, family);
    plain.t.transform = false, plain.t.appended = 0;
    double gb = (double)s.n_rows * (double)s.width * 4e-9;
    wisp_hash_observe(g.t, true, 0);
    double observe = rig_ms([&] { wisp_hash_observe(g.t, false, 0); });
    double build = rig_ms([&] { wisp_hash_build(g.t, 0); });
    double query = rig_ms([&] { wisp_hash_query(g.t, 0); });
    double hashing_only = rig_ms([&] { wisp_hash_build(plain.t, 0); });
    double sort = time_sort(g);
    rig_sync("timing");
    printf("%s, %zu x %zu, %zu tables of %d digits, %d bits, %zu a group\n", names[family],
           s.n_rows, s.width, s.tables, g.t.digits, g.t.bits, g.t.group);
    printf("  observe            %8.4f ms\n  query of %4zu      %8.4f ms\n", observe, s.n, query);
    printf("  build              %8.4f ms\n", build);
    printf("    frame            %8.4f ms   (difference)\n", build - hashing_only);
    printf("    keys, edges      %8.4f ms   %.0f GB/s of rows (difference)\n", hashing_only - sort,
           gb / (hashing_only - sort) * 1e3);
    printf("    sort             %8.4f ms   %.2f G pairs/s\n", sort,
           1e-6 * (double)(g.t.group * s.n_rows) / sort);
}

static void test_large(void)
{
    TEST("670,091 x 128, 12 tables: every key");
    struct shape s = { 670091, 128, 12, 0, true, false, false, 256, 256, 0 };
    struct numbers d(s);
    {
        struct hashing g(s, d, DWTA);
        size_t close, all;
        build_and_ask(g, d, s.n);
        check_frame(g, d);
        size_t wrong = compare(g, d, g.here(g.t.frame), check_tables(g), s.n, &close, &all);
        CHECK(wrong == 0, "%zu of %zu keys are wrong", wrong, all);
        check_again(g);
    }
    for (int family = 0; family < 4; family++) time_family(s, d, family);
    s.tables = 50;
    time_family(s, d, DWTA);
}

int main(void)
{
    const struct shape shapes[] = {
        { 1, 4, 1, 0, true, false, false, 1, 1, 0 },
        { 5, 8, 3, 0, true, false, false, 40, 33, 0 },
        { 33, 100, 12, 0, true, false, false, 64, 1, 0 },
        { 1000, 128, 12, 0, true, true, false, 256, 256, 0 },
        { 3001, 256, 5, 0, false, false, true, 100, 77, 0 },
        { 2500, 100, 7, 0, false, true, true, 65, 65, 3 },
        { 1500, 64, 9, 0, true, false, true, 33, 32, 0 },
        { 2049, 512, 4, 0, true, false, false, 256, 200, 0 },
        { 700, 128, 50, 0, true, false, false, 31, 30, 7 },
        { 150, 2048, 3, 0, true, false, false, 9, 9, 0 },
        { 4000, 64, 6, 30, true, false, false, 70, 69, 4 },
        { 40, 4, 1000, 4, false, false, true, 20, 20, 0 },
    };
    for (int family = 0; family < 4; family++)
        CHECK(wisp_hash_family(names[family]) == family, "%s is found by its name", names[family]);
    CHECK(wisp_hash_family("dwt") < 0 && wisp_hash_family("") < 0, "a name that nobody has");
    for (int family = 0; family < 4; family++)
        for (const struct shape &s : shapes) test_shape(s, family);
    test_nothing();
    test_large();
    return test_end();
}
