/* Finding on the card (find.cu) against plain code, written from its definition.
 *
 * Most weights are small multiples of a power of two, so that scores are exact in any order of
 * adding up and every number must be the same; there are many ties then. */
#include "gpu/find_rig.cuh"
#include "base/rand.h"
#include "graph/ids.h"

/* ---- finding ---- */

struct shape {
    size_t n_rows, width, batch, n, keep, deep;
    bool neighbours;
    size_t ring, last, hops, n_carried, n_tables;
    int bits;
    size_t n_random, n_frequent, most_labels;
    bool half, exact;
};

struct finding { /* a find with all it needs */
    shape s;
    size_t n_samples, room;
    vector<float> w, bias, h;
    vector<int32_t> rings, lasts, carried, bucket_rows;
    vector<uint32_t> start, query;
    vector<double> up_to;
    batch b;
    wisp_dfind f;
    fenced<int32_t> own, found, rows;
    fenced<float> limit, origin;
    fenced<uint32_t> products, n, bits, before, chunk;
    fenced<uint64_t> counts;
    explicit finding(const shape &x);
    void reset()
    {
        own.poison(), found.poison(), rows.poison(), limit.poison(), origin.poison();
        products.poison(), n.poison(), before.poison(), chunk.poison();
        bits.fill(0);
        counts.fill(5);
    }
    void down()
    {
        own.down(), found.down(), rows.down(), limit.down(), origin.down(), products.down();
        n.down(), bits.down(), before.down(), chunk.down(), counts.down();
    }
};

static float value(bool exact, int range, float scale)
{
    if (!exact) return rig_float();
    return (float)((int)rig_below(2 * (size_t)range + 1) - range) * scale;
}

/* Lists of rows that end anywhere; behind a -1 may stand anything. */
static vector<int32_t> lists_of(size_t n, size_t size, size_t n_rows)
{
    vector<int32_t> all;
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < size; c++) all.push_back((int32_t)rig_below(n_rows));
        if (size && rig_below(3) == 0) all[i * size + rig_below(size)] = -1;
    }
    return all;
}

static void make_tables(finding &x)
{
    const shape &s = x.s;
    size_t n_buckets = (size_t)1 << s.bits;
    for (size_t t = 0; t < s.n_tables; t++) {
        vector<vector<int32_t>> of(n_buckets);
        for (size_t r = 0; r < s.n_rows; r++)
            of[rig_below(rig_below(n_buckets) + 1)].push_back((int32_t)r);
        uint32_t at = 0;
        for (auto &b : of) {
            x.start.push_back(at);
            at += (uint32_t)b.size();
            x.bucket_rows.insert(x.bucket_rows.end(), b.begin(), b.end());
        }
        x.start.push_back(at);
    }
    for (size_t i = 0; i < s.batch * s.n_tables; i++)
        x.query.push_back((uint32_t)rig_below(n_buckets));
}

finding::finding(const shape &x)
    : s(x), n_samples(3 * x.batch),
      room(x.batch * (x.keep + x.most_labels) + x.n_random + x.n_frequent + x.n_carried + 1), f(),
      own(x.batch * x.keep), found(x.batch * x.deep), rows(room), limit(x.batch), origin(x.batch),
      products(x.batch), n(1), bits(x.n_rows / 32 + 1), before(x.n_rows / 32 + 1),
      chunk(x.n_rows / 32 / 1024 + 2), counts(3)
{
    for (size_t i = 0; i < s.n_rows * s.width; i++) w.push_back(value(s.exact, 3, 0.25f));
    for (size_t i = 0; i < s.n_rows; i++) bias.push_back(value(s.exact, 8, 0.125f));
    for (size_t i = 0; i < s.batch * s.width; i++) h.push_back(value(s.exact, 2, 0.5f));
    for (size_t r = 5; s.exact && r < s.n_rows; r += 50) w[r * s.width] = NAN;
    vector<__nv_bfloat16> w16;
    for (float &v : w) {
        w16.push_back(__float2bfloat16(v));
        if (s.half) v = __bfloat162float(w16.back());
    }
    rings = lists_of(s.n_rows, s.ring, s.n_rows);
    lasts = lists_of(n_samples, s.last, s.n_rows);
    carried = some_rows(s.n_carried, s.n_rows);
    if (s.n_carried > 1) carried.pop_back(); /* not as many as could be */
    carried.insert(carried.begin(), (int32_t)carried.size());
    carried.resize(1 + s.n_carried);
    double sum = 0;
    for (size_t i = 0; i < s.n_rows; i++) up_to.push_back(sum += (double)rig_below(9) + 1e-3);
    make_tables(*this);
    make_batch(b, s.n, s.n_rows, n_samples, s.most_labels, s.n_rows, 77);
    f.now = b.dev, f.batch = s.batch, f.width = s.width, f.n_rows = s.n_rows;
    f.w.rows = s.n_rows, f.w.cols = s.width, f.bias.rows = s.n_rows, f.bias.cols = 1;
    if (s.half) f.w.b16 = put(w16);
    else f.w.w = put(w);
    f.bias.w = put(bias);
    f.h = put(h);
    f.keep = s.keep, f.deep = s.deep, f.seed = 1234567;
    f.neighbours = s.neighbours;
    f.ring = s.ring, f.last = s.last, f.hops = s.hops, f.n_samples = n_samples;
    f.rings = put(rings), f.lasts = put(lasts);
    f.n_carried = s.n_carried, f.carried = put(carried);
    f.lsh.n_tables = s.n_tables, f.lsh.bits = s.bits;
    f.lsh.start = put(start), f.lsh.rows = put(bucket_rows), f.lsh.query = put(query);
    f.n_random = s.n_random, f.n_frequent = s.n_frequent, f.up_to = put(up_to);
    f.own = own.dev(), f.found = found.dev(), f.limit = limit.dev(), f.origin = origin.dev();
    f.products = products.dev(), f.chunk = chunk.dev(), f.counts = counts.dev();
    f.active.n_rows = s.n_rows, f.active.room = room;
    f.active.n = n.dev(), f.active.rows = rows.dev();
    f.active.bits = bits.dev(), f.active.before = before.dev();
}

struct scored {
    double score;
    int32_t row;
    bool operator<(const scored &o) const /* better */
    {
        return score != o.score ? score > o.score : row < o.row;
    }
};

struct pot {
    const finding *x;
    size_t i;
    set<int32_t> in;
    vector<scored> good; /* scores that are not NaN */
};

static double score_of(const finding &x, size_t i, int32_t row, double *mass = NULL)
{
    double sum = x.bias[row], all = fabs(sum);
    for (size_t c = 0; c < x.s.width; c++) {
        double term = (double)x.w[row * x.s.width + c] * x.h[i * x.s.width + c];
        sum += term;
        all += fabs(term);
    }
    if (mass) *mass = all;
    return sum;
}

static void add(pot &p, const int32_t *rows, size_t n)
{
    const vector<int32_t> &labels = p.x->b.labels[p.i];
    for (size_t c = 0; c < n && rows[c] >= 0; c++) {
        if (std::count(labels.begin(), labels.end(), rows[c]) || !p.in.insert(rows[c]).second)
            continue;
        double score = score_of(*p.x, p.i, rows[c]);
        if (score == score) p.good.push_back({ score, rows[c] });
    }
}

static void add_buckets(pot &p)
{
    const finding &x = *p.x;
    size_t tables = std::min(x.s.n_tables, (size_t)WISP_FIND_TABLES), cap = x.s.n_rows, sum;
    vector<size_t> size(tables), begin(tables);
    for (size_t t = 0; t < tables; t++) {
        const uint32_t *start = &x.start[t * (((size_t)1 << x.s.bits) + 1)];
        uint32_t key = x.query[p.i * x.s.n_tables + t];
        begin[t] = start[key], size[t] = start[key + 1] - start[key];
    }
    do { /* the largest share of each bucket so that all fit */
        sum = 0;
        for (size_t t = 0; t < tables; t++) sum += std::min(size[t], cap);
    } while (sum > WISP_FIND_HASHED && --cap);
    for (size_t t = 0; t < tables; t++)
        add(p, &x.bucket_rows[t * x.s.n_rows + begin[t]], std::min(size[t], cap));
}

static pot find_for(const finding &x, size_t i)
{
    pot p = { &x, i, {}, {} };
    const shape &s = x.s;
    const vector<int32_t> &labels = x.b.labels[i];
    if (s.neighbours) {
        if (x.b.id[i] < x.n_samples) add(p, &x.lasts[x.b.id[i] * s.last], s.last);
        size_t n = labels.size(), first = 0;
        if (n > 10)
            first = wisp_rand_below(x.f.seed, WISP_STREAM_RINGS + (x.b.now.step << 8), i, n);
        for (size_t y = 0; y < n && y < 10; y++)
            add(p, &x.rings[labels[(first + y) % n] * s.ring], s.ring);
        std::sort(p.good.begin(), p.good.end());
        vector<scored> best(p.good.begin(), p.good.begin() + std::min(s.hops, p.good.size()));
        for (scored &b : best) add(p, &x.rings[b.row * s.ring], s.ring);
    }
    if (s.n_tables) add_buckets(p);
    std::sort(p.good.begin(), p.good.end());
    return p;
}

/* A list of rows against the best of the pot; those that are not exact may change places with
 * others of nearly the same score. */
static void check_list(finding &x, const pot &p, const int32_t *got, size_t n, const char *what)
{
    for (size_t c = 0; c < n; c++) {
        int32_t want = c < p.good.size() ? p.good[c].row : -1;
        double mass = 0, off = 0;
        bool same = got[c] == want;
        if (!x.s.exact && !same && want >= 0 && p.in.count(got[c])) {
            off = fabs(score_of(x, p.i, got[c], &mass) - p.good[c].score);
            same = off <= 1e-6 * mass;
        }
        CHECK(same, "%s: sample %zu, place %zu: row %d, expected %d", what, p.i, c, got[c], want);
    }
}

static void check_sample(finding &x, size_t i, set<int32_t> &marked)
{
    pot p = find_for(x, i);
    const shape &s = x.s;
    check_list(x, p, &x.own[i * s.keep], s.keep, "own");
    check_list(x, p, &x.found[i * s.deep], s.deep, "found");
    CHECK(x.products[i] == p.in.size(), "sample %zu: %u scored, expected %zu", i, x.products[i],
          p.in.size());
    double best = p.good.empty() ? 0 : p.good[0].score, tol = s.exact ? 0 : 1e-5;
    double limit = s.deep && p.good.size() >= s.deep ? p.good[s.deep - 1].score : -INFINITY;
    CHECK(x.limit[i] == limit || fabs(x.limit[i] - limit) <= tol * (double)s.width,
          "sample %zu: limit %g, expected %g", i, x.limit[i], limit);
    double origin = fabs(best) > 50 ? best : 0;
    CHECK(fabs(x.origin[i] - origin) <= tol * (double)s.width, "sample %zu: origin %g, not %g", i,
          x.origin[i], origin);
    for (size_t c = 0; c < s.keep; c++)
        if (x.own[i * s.keep + c] >= 0) marked.insert(x.own[i * s.keep + c]);
    for (int32_t y : x.b.labels[i]) marked.insert(y);
}

static void mark_for_all(const finding &x, set<int32_t> &marked)
{
    const uint64_t step = x.b.now.step << 8;
    size_t n_rows = x.s.n_rows, n = std::min(x.s.n_random, n_rows);
    for (size_t c = 0; c < n; c++)
        marked.insert((int32_t)(n == n_rows ? c
                                            : wisp_rand_below(x.f.seed, WISP_STREAM_RANDOM + step,
                                                              c, n_rows)));
    for (size_t c = 0; c < x.s.n_frequent; c++) {
        double at = x.up_to[n_rows - 1] * wisp_rand_unit(x.f.seed, WISP_STREAM_FREQUENCY + step, c);
        size_t row = 0;
        while (row + 1 < n_rows && x.up_to[row] <= at) row++;
        marked.insert((int32_t)row);
    }
    for (int32_t c = 0; x.s.neighbours && c < x.carried[0]; c++) marked.insert(x.carried[1 + c]);
}

/* The union of what is marked: rows, words, places. */
static void check_union(finding &x, const set<int32_t> &marked, size_t room)
{
    size_t n = 0, words = x.s.n_rows / 32 + 1;
    vector<int32_t> rows(marked.begin(), marked.end());
    if (rows.size() > room) rows.resize(room);
    CHECK(x.n[0] == rows.size(), "%u rows are active, expected %zu", x.n[0], rows.size());
    for (size_t word = 0; word < words; word++) {
        uint32_t bits = 0;
        CHECK(x.before[word] == n, "before word %zu: %u, expected %zu", word, x.before[word], n);
        for (; n < rows.size() && (size_t)rows[n] / 32 == word; n++) {
            bits |= 1u << rows[n] % 32;
            CHECK(x.rows[n] == rows[n], "place %zu: row %d, expected %d", n, x.rows[n], rows[n]);
        }
        CHECK(x.bits[word] == bits, "word %zu: %x, expected %x", word, x.bits[word], bits);
    }
    CHECK(x.rows.clean(rows.size()) && x.before.clean(words) && x.n.clean(1) &&
              x.chunk.clean(x.s.n_rows / 32 / 1024 + 1) && x.counts.clean(3),
          "the union wrote elsewhere");
    CHECK(x.bits.clean(words), "marks elsewhere");
}

static void test_rows(const char *name, const shape &s)
{
    TEST(name);
    finding x(s);
    vector<uint32_t> bits[2];
    vector<int32_t> own[2], found[2];
    vector<float> limit[2];
    for (int run = 0; run < 2; run++) {
        x.reset();
        wisp_find_rows(x.f, 0);
        wisp_find_unite(x.f, 0);
        rig_sync(name);
        x.down();
        bits[run] = x.bits.all, own[run] = x.own.all, found[run] = x.found.all;
        limit[run] = x.limit.all;
    }
    CHECK(bits[0] == bits[1] && own[0] == own[1] && found[0] == found[1] && limit[0] == limit[1],
          "two runs differ");
    set<int32_t> marked;
    uint64_t products = 0;
    for (size_t i = 0; i < s.n; i++) {
        check_sample(x, i, marked);
        products += x.products[i];
    }
    if (s.n) mark_for_all(x, marked);
    CHECK(x.own.clean(s.n * s.keep) && x.found.clean(s.n * s.deep) && x.limit.clean(s.n) &&
              x.origin.clean(s.n) && x.products.clean(s.n),
          "rows of samples that are not there were written");
    check_union(x, marked, x.room);
    CHECK(x.counts[0] == 5 + marked.size() && x.counts[1] == 5 + marked.size() * s.n + products &&
              x.counts[2] == 5 + s.n,
          "counts %llu %llu %llu", (unsigned long long)x.counts[0], (unsigned long long)x.counts[1],
          (unsigned long long)x.counts[2]);
}

/* Many rows, any marks, too little room. */
static void test_union(size_t n_rows, size_t n, bool cut)
{
    shape s = { n_rows, 4, 2, 1, 1, 1, false, 1, 1, 1, 0, 0, 0, 0, 0, 1, false, true };
    finding x(s);
    fenced<int32_t> rows(n + 1);
    set<int32_t> marked;
    for (size_t c = 0; c < n; c++) marked.insert((int32_t)rig_below(n_rows));
    x.reset();
    for (int32_t r : marked) x.bits[r / 32] |= 1u << r % 32;
    x.bits.up();
    x.products.fill(0);
    x.f.active.rows = rows.dev();
    x.f.active.room = cut ? marked.size() / 2 : n + 1;
    wisp_find_unite(x.f, 0);
    rig_sync("unite");
    x.down();
    rows.down();
    size_t have = std::min(x.f.active.room, marked.size());
    CHECK(rows.clean(have), "rows beyond the room");
    std::swap(rows.all, x.rows.all);
    check_union(x, marked, x.f.active.room);
}

/* ---- timing ---- */

enum { TURNS = 8 }; /* batches, so that no row of the last one is in the cache */

static void fill_cheaply(vector<int32_t> &x, size_t n, size_t n_rows)
{
    uint64_t seed = rig_seed;
    x.resize(n);
    for (size_t i = 0; i < n; i++) x[i] = (int32_t)((test_rand(&seed) >> 24) % n_rows);
}

static void time_rows(size_t n, bool half)
{
    const size_t N_ROWS = 670091, N_SAMPLES = 490449, WIDTH = 128, TABLES = 12, BUCKETS = 1 << 18;
    static vector<float> w(N_ROWS * WIDTH), bias(N_ROWS);
    static vector<int32_t> rings, lasts, table;
    static vector<uint32_t> start;
    if (rings.empty()) {
        for (float &v : w) v = rig_float() * 0.1f;
        fill_cheaply(rings, N_ROWS * 24, N_ROWS);
        fill_cheaply(lasts, N_SAMPLES * 20, N_ROWS);
        fill_cheaply(table, TABLES * N_ROWS, N_ROWS);
        for (size_t t = 0; t < TABLES; t++)
            for (size_t b = 0; b <= BUCKETS; b++) start.push_back((uint32_t)(b * N_ROWS / BUCKETS));
    }
    vector<__nv_bfloat16> w16;
    for (size_t i = 0; half && i < w.size(); i++) w16.push_back(__float2bfloat16(w[i]));
    shape s = { 1000, 4, n, 1, 20, 20, false, 1, 1, 1, 0, 0, 0, 0, 0, 10, false, true };
    finding x(s); /* for the arrays of the batch */
    fenced<uint32_t> bits(N_ROWS / 32 + 1), before(N_ROWS / 32 + 1), chunk(N_ROWS / 32768 + 2);
    wisp_dfind f[TURNS];
    float *rows = half ? NULL : put(w);
    __nv_bfloat16 *rows16 = half ? put(w16) : NULL;
    float *b = put(bias), *h = put(vector<float>(w.begin(), w.begin() + (long)(n * WIDTH)));
    int32_t *r = put(rings), *l = put(lasts), *t = put(table);
    uint32_t *st = put(start);
    size_t products = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        batch now;
        vector<uint32_t> query;
        for (size_t i = 0; i < n; i++) {
            now.id.push_back((uint32_t)rig_below(N_SAMPLES));
            now.labels.push_back(some_rows(5 + (i % 20 < 9), N_ROWS));
            std::sort(now.labels[i].begin(), now.labels[i].end());
            for (size_t k = 0; k < TABLES; k++) query.push_back((uint32_t)rig_below(BUCKETS));
        }
        upload(now, (uint64_t)turn);
        f[turn] = x.f;
        f[turn].now = now.dev, f[turn].width = WIDTH, f[turn].n_rows = N_ROWS;
        f[turn].w.w = rows, f[turn].w.b16 = rows16, f[turn].w.rows = N_ROWS;
        f[turn].w.cols = WIDTH, f[turn].bias.w = b, f[turn].h = h;
        f[turn].neighbours = true, f[turn].ring = 24, f[turn].last = 20, f[turn].hops = 4;
        f[turn].n_samples = N_SAMPLES, f[turn].rings = r, f[turn].lasts = l;
        f[turn].lsh.n_tables = TABLES, f[turn].lsh.bits = 18, f[turn].lsh.start = st;
        f[turn].lsh.rows = t, f[turn].lsh.query = put(query);
        f[turn].active.n_rows = N_ROWS, f[turn].active.bits = bits.dev();
        f[turn].active.before = before.dev(), f[turn].chunk = chunk.dev();
    }
    double us = graph_us([&](cudaStream_t s, int k) { wisp_find_rows(f[k % TURNS], s); }, 32);
    x.products.down();
    for (size_t i = 0; i < n; i++) products += x.products[i];
    double mb = (double)products * WIDTH * (half ? 2 : 4) / 1e6;
    printf("  time find_rows, %zu samples, %s: %.1f us, %.0f rows per sample, %.0f MB, %.0f GB/s\n",
           n, half ? "bf16" : "fp32", us, (double)products / (double)n, mb, mb / us * 1e3);
    bits.fill(0);
    wisp_find_rows(f[0], 0);
    us = graph_us([&](cudaStream_t s, int k) { wisp_find_unite(f[k % TURNS], s); }, 32);
    x.n.down();
    printf("  time find_unite, %zu rows, %u active: %.1f us\n", N_ROWS, x.n[0], us);
    cudaFree(rows), cudaFree(rows16), cudaFree(r), cudaFree(l), cudaFree(t), cudaFree(st);
}

int main(void)
{
    static const struct {
        const char *name;
        shape s;
    } all[] = {
        /* rows, width, batch, n, keep, deep, neighbours, ring, last, hops, carried, tables, bits,
         * random, frequent, labels, half, exact */
        { "one sample, 4 columns",
          { 300, 4, 3, 1, 5, 7, true, 24, 20, 4, 0, 12, 6, 0, 0, 4, false, true } },
        { "neighbours and buckets, 100 columns",
          { 3000, 100, 37, 30, 20, 20, true, 24, 20, 4, 10, 12, 8, 50, 0, 8, false, true } },
        { "long rings, 128 columns",
          { 5000, 128, 24, 24, 20, 40, true, 56, 40, 10, 0, 0, 0, 0, 60, 30, false, true } },
        { "long rings and full buckets, 256 columns, bf16",
          { 2000, 256, 9, 7, 64, 40, true, 56, 40, 10, 300, 50, 4, 300, 40, 14, true, true } },
        { "full buckets alone, 132 columns",
          { 1500, 132, 10, 10, 20, 0, false, 0, 0, 0, 0, 50, 3, 0, 0, 5, false, true } },
        { "many tables, 512 columns",
          { 900, 512, 5, 4, 130, 20, false, 0, 0, 0, 0, 300, 7, 0, 0, 3, false, true } },
        { "all rows at random, nothing else",
          { 700, 8, 6, 5, 20, 20, false, 0, 0, 0, 0, 0, 0, 700, 0, 6, false, true } },
        { "one row", { 1, 4, 2, 2, 2, 1, true, 24, 20, 4, 0, 2, 4, 0, 0, 1, false, true } },
        { "no hops, odd rings",
          { 400, 60, 12, 11, 3, 2, true, 7, 5, 0, 3, 3, 5, 0, 0, 12, true, true } },
        { "no sample", { 400, 60, 12, 0, 3, 2, true, 7, 5, 1, 3, 3, 5, 9, 9, 12, true, true } },
        { "nothing kept", { 400, 16, 4, 4, 0, 0, true, 9, 5, 2, 0, 3, 5, 0, 0, 3, false, true } },
        { "real numbers, 128 columns",
          { 4000, 128, 40, 40, 20, 20, true, 24, 20, 4, 0, 12, 9, 0, 0, 9, false, false } },
        { "real numbers, 260 columns, bf16",
          { 4000, 260, 20, 20, 20, 20, true, 24, 20, 4, 0, 12, 9, 0, 0, 9, true, false } },
        { "many samples, bf16",
          { 3000, 128, 400, 397, 20, 20, true, 24, 20, 4, 10, 12, 8, 50, 0, 8, true, true } },
        { "many samples, many kept",
          { 2000, 36, 410, 405, 130, 40, true, 56, 40, 10, 30, 50, 4, 300, 200, 14, false, true } },
    };
    for (auto &a : all) test_rows(a.name, a.s);
    const size_t wide = wisp_dshared() / 4; /* with all else more than shared memory holds */
    test_rows("as wide as shared memory",
              { 300, wide, 5, 4, 5, 7, true, 24, 20, 4, 0, 12, 6, 0, 0, 4, false, true });
    test_rows("wider than shared memory, many samples, bf16",
              { 40, wide + 36, 400, 2, 5, 7, true, 24, 20, 4, 9, 3, 4, 0, 0, 4, true, true });
    TEST("the union of any marks");
    for (size_t n_rows : { 1, 31, 32, 33, 32767, 32768, 100003, 1300000 }) {
        test_union(n_rows, n_rows / 50 + 3, false);
        test_union(n_rows, n_rows / 3 + 1, true);
    }
    if (!getenv("RIG_SMALL")) {
        time_rows(256, false);
        time_rows(1024, false);
        time_rows(256, true);
        time_rows(1024, true);
    }
    return test_end();
}
