/* A chunk of steps laid out on the card, against the same from the definition. */
#include "gpu/rig.cuh"
#include "base/rand.h"
#include "graph/ids.h"

#include <algorithm>
#include <map>

enum { TFIDF, UNIT, RAW, POISON = 0xa5 };

/* ---- a training set ---- */

struct set {
    size_t n_rows, n_features, n_labels; /* of the model; rows may name more */
    both<uint64_t> xp, yp;
    both<int32_t> xi, yi;
    both<float> xv, idf;
    set(size_t rows, size_t nnz, size_t lab, size_t features, size_t labels, size_t n_idf)
        : n_rows(rows), n_features(features), n_labels(labels), xp(rows + 1), yp(rows + 1), xi(nnz),
          yi(lab), xv(nnz), idf(n_idf)
    {
    }
    struct wisp_ddata on_card(int mode, float drop) const
    {
        struct wisp_ddata d = { n_rows, n_features, n_labels, xp.dev, xi.dev, xv.dev,
                                yp.dev, yi.dev,     idf.dev,  mode,   drop };
        return d;
    }
};

static std::vector<int32_t> pick(size_t n, size_t below) /* ascending, without repeats */
{
    std::vector<int32_t> a;
    for (size_t i = 0; i < n; i++) a.push_back((int32_t)rig_below(below));
    std::sort(a.begin(), a.end());
    a.erase(std::unique(a.begin(), a.end()), a.end());
    return a;
}

/* Rows of up to 'longest' features; every tenth is empty, some name ids beyond the model's. */
static set *make_set(size_t rows, size_t longest, size_t most_labels, size_t features,
                     size_t labels)
{
    std::vector<std::vector<int32_t>> x(rows), y(rows);
    size_t nnz = 0, lab = 0, n = 0, m = 0;
    size_t beyond_x = features < INT32_MAX ? features + features / 8 + 1 : features;
    size_t beyond_y = labels < INT32_MAX ? labels + labels / 8 + 1 : labels;
    for (size_t r = 0; r < rows; r++) {
        if (longest && r % 10 != 9) x[r] = pick(rig_below(longest + 1), beyond_x);
        if (most_labels && r % 7 != 6) y[r] = pick(rig_below(most_labels + 1), beyond_y);
        nnz += x[r].size();
        lab += y[r].size();
    }
    size_t n_idf = features < 1 << 24 ? features : 0; /* with more only where it is not read */
    set *s = new set(rows, nnz, lab, features, labels, n_idf);
    for (size_t r = 0; r < rows; r++) {
        s->xp[r] = n, s->yp[r] = m;
        for (int32_t f : x[r]) {
            s->xi[n] = f;
            s->xv[n++] = r % 13 == 5 ? 0 : rig_below(2) ? (float)(1 + rig_below(20)) : rig_float();
        }
        for (int32_t l : y[r]) s->yi[m++] = l;
    }
    s->xp[rows] = n, s->yp[rows] = m;
    for (size_t f = 0; f < n_idf; f++) s->idf[f] = (float)rig_below(1000) / 100;
    s->xp.up(), s->yp.up(), s->xi.up(), s->yi.up(), s->xv.up(), s->idf.up();
    return s;
}

/* ---- what a chunk should hold ---- */

struct want_step {
    std::vector<std::vector<int32_t>> xi, yi; /* of each sample */
    std::vector<std::vector<double>> xv;
    std::map<int32_t, std::vector<std::pair<uint32_t, uint32_t>>> touched; /* sample, place in it */
    std::map<int32_t, std::vector<uint32_t>> distinct;
};

static want_step lay_out(const set &d, const uint32_t *ids, size_t n, uint64_t step, uint64_t seed,
                         int mode, float drop)
{
    want_step w;
    w.xi.resize(n), w.xv.resize(n), w.yi.resize(n);
    for (size_t i = 0; i < n; i++) {
        size_t row = ids[i];
        double sum = 0;
        for (uint64_t e = d.xp.host[row]; e < d.xp.host[row + 1]; e++) {
            int32_t f = d.xi.host[e];
            double x = d.xv.host[e];
            uint64_t place = (uint64_t)i << 32 | (e - d.xp.host[row]);
            if ((size_t)f >= d.n_features) continue;
            if (drop > 0 &&
                wisp_rand_unit(seed, WISP_STREAM_INPUT_DROP + (step << 8), place) < (double)drop)
                continue;
            if (mode == TFIDF) x = (x > 1 ? 1 + log(x) : x) * d.idf.host[f];
            sum += x * x;
            w.touched[f].push_back({ (uint32_t)i, (uint32_t)w.xi[i].size() });
            w.xi[i].push_back(f);
            w.xv[i].push_back(x);
        }
        double scale = mode == RAW ? 1 / (1 - (double)drop) : sum > 0 ? 1 / sqrt(sum) : 0;
        for (double &x : w.xv[i]) x *= scale;
        for (uint64_t e = d.yp.host[row]; e < d.yp.host[row + 1]; e++) {
            if ((size_t)d.yi.host[e] >= d.n_labels) continue;
            w.yi[i].push_back(d.yi.host[e]);
            w.distinct[d.yi.host[e]].push_back((uint32_t)i);
        }
    }
    return w;
}

/* ---- a chunk, copied back ---- */

struct laid {
    struct wisp_dchunk c;
    std::vector<uint8_t> bytes;                         /* of its block */
    const uint8_t *base;                                /* of the block on the card */
    template <class T> const T *at(const T *card) const /* the copy of what lies there */
    {
        return (const T *)(bytes.data() + ((const uint8_t *)card - base));
    }
    bool holds(const void *card, size_t n_bytes) const
    {
        const uint8_t *p = (const uint8_t *)card;
        return p >= base && p + n_bytes <= base + bytes.size();
    }
};

/* What lies between the arrays must be as it was. */
static void check_gaps(const laid &l)
{
    const struct wisp_dchunk &c = l.c;
    size_t rows = c.steps * c.batch, all = c.nnz_room + c.lab_room;
    const std::pair<const void *, size_t> parts[] = {
        { c.ids, rows * 4 },       { c.now, c.steps * sizeof *c.now },
        { c.xp, (rows + 1) * 4 },  { c.xn, rows * 4 },
        { c.yp, (rows + 1) * 4 },  { c.xi, c.nnz_room * 4 },
        { c.xv, c.nnz_room * 4 },  { c.yi, c.lab_room * 4 },
        { c.key[0], all * 8 },     { c.value[0], all * 4 },
        { c.key[1], all * 8 },     { c.value[1], all * 4 },
        { c.sample, all * 4 },     { c.run_id, all * 4 },
        { c.run_at, all * 4 + 4 }, { c.first, (2 * c.steps + 1) * 4 },
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t end = (const uint8_t *)parts[i].first - l.base + parts[i].second;
        CHECK((uintptr_t)parts[i].first % 256 == 0, "array %zu is not aligned", i);
        for (size_t b = end; b % 256; b++)
            CHECK(l.bytes[b] == POISON, "byte %zu after array %zu was written", b - end, i);
    }
}

static void check_step(const laid &l, size_t s, const want_step &w, size_t n)
{
    const struct wisp_dnow &now = l.at(l.c.now)[s];
    CHECK(now.id == l.c.ids + s * l.c.batch, "step %zu", s);
    if (!l.holds(now.xp, n * 4) || !l.holds(now.yp, n * 4 + 4) || !l.holds(now.xi, 0) ||
        !l.holds(now.yi, 0) || !l.holds(now.tp, (now.n_touched + 1) * 4ull) ||
        !l.holds(now.lp, (now.n_distinct + 1) * 4ull) || !l.holds(now.ts, 0) ||
        !l.holds(now.tv, 0)) {
        CHECK(false, "step %zu points out of the block", s);
        return;
    }
    const uint32_t *xp = l.at(now.xp), *xn = l.at(now.xn), *yp = l.at(now.yp);
    const float *xv = l.at(now.xv);
    for (size_t i = 0; i < n; i++) {
        CHECK(xn[i] == w.xi[i].size(), "step %zu, sample %zu: %u features, not %zu", s, i, xn[i],
              w.xi[i].size());
        if (xn[i] != w.xi[i].size()) return;
        for (size_t e = 0; e < xn[i]; e++) {
            CHECK(l.at(now.xi)[xp[i] + e] == w.xi[i][e], "step %zu, sample %zu: feature %zu", s, i,
                  e);
            CHECK(fabs(xv[xp[i] + e] - w.xv[i][e]) <= 5e-7 * fabs(w.xv[i][e]),
                  "step %zu, sample %zu: value %zu is %g, not %g", s, i, e, xv[xp[i] + e],
                  w.xv[i][e]);
        }
        CHECK(yp[i + 1] - yp[i] == w.yi[i].size(), "step %zu, sample %zu: %u labels, not %zu", s, i,
              yp[i + 1] - yp[i], w.yi[i].size());
        if (yp[i + 1] - yp[i] != w.yi[i].size()) return;
        for (size_t e = 0; e < w.yi[i].size(); e++)
            CHECK(l.at(now.yi)[yp[i] + e] == w.yi[i][e], "step %zu, sample %zu: label", s, i);
    }
    CHECK(now.n_touched == w.touched.size(), "step %zu: %u touched, not %zu", s, now.n_touched,
          w.touched.size());
    CHECK(now.n_distinct == w.distinct.size(), "step %zu: %u labels, not %zu", s, now.n_distinct,
          w.distinct.size());
    if (now.n_touched != w.touched.size() || now.n_distinct != w.distinct.size()) return;
    size_t t = 0;
    for (auto &f : w.touched) {
        const uint32_t *tp = l.at(now.tp) + t;
        CHECK(l.at(now.touched)[t] == f.first, "step %zu: touched %zu is not %d", s, t, f.first);
        CHECK(tp[1] - tp[0] == f.second.size(), "step %zu: touched %zu: %u samples, not %zu", s, t,
              tp[1] - tp[0], f.second.size());
        if (tp[1] - tp[0] != f.second.size()) return;
        for (size_t e = 0; e < f.second.size(); e++) {
            uint32_t sample = f.second[e].first, place = f.second[e].second;
            CHECK(l.at(now.ts)[tp[0] + e] == sample, "step %zu: touched %zu: sample", s, t);
            CHECK(memcmp(&l.at(now.tv)[tp[0] + e], &xv[xp[sample] + place], 4) == 0,
                  "step %zu: touched %zu: value", s, t);
        }
        t++;
    }
    t = 0;
    for (auto &y : w.distinct) {
        const uint32_t *lp = l.at(now.lp) + t;
        CHECK(l.at(now.distinct)[t] == y.first, "step %zu: label %zu is not %d", s, t, y.first);
        CHECK(lp[1] - lp[0] == y.second.size(), "step %zu: label %zu: %u samples, not %zu", s, t,
              lp[1] - lp[0], y.second.size());
        if (lp[1] - lp[0] != y.second.size()) return;
        for (size_t e = 0; e < y.second.size(); e++)
            CHECK(l.at(now.ls)[lp[0] + e] == y.second[e], "step %zu: label %zu: sample", s, t);
        t++;
    }
}

/* ---- cases ---- */

struct shape {
    const char *name;
    size_t steps, batch, rows, longest, most_labels, features, labels;
    int mode;
    float drop;
};

static size_t sum_of(const set &d, const std::vector<uint32_t> &ids, const std::vector<uint32_t> &n,
                     size_t batch, bool labels)
{
    const std::vector<uint64_t> &p = labels ? d.yp.host : d.xp.host;
    size_t sum = 0;
    for (size_t s = 0; s < n.size(); s++)
        for (size_t i = 0; i < n[s]; i++) sum += p[ids[s * batch + i] + 1] - p[ids[s * batch + i]];
    return sum;
}

/* Fills the chunk with n_steps steps and checks every one; the sizes passed may be too large. */
static void run_chunk(const struct wisp_dchunk &c, uint8_t *card, size_t block_bytes, const set &d,
                      const shape &h, size_t n_steps, bool exact)
{
    const uint64_t seed = 12345 + n_steps;
    const size_t border = 4096;
    std::vector<uint32_t> ids(h.steps * h.batch, 0xffffffffu), n(n_steps);
    std::vector<struct wisp_dnow> now(h.steps);
    memset((void *)now.data(), 0, h.steps * sizeof now[0]);
    for (size_t s = 0; s < n_steps; s++) {
        n[s] = (uint32_t)(s % 4 == 0 ? h.batch : s % 4 == 3 ? 0 : 1 + rig_below(h.batch));
        if (n_steps == 1) n[s] = (uint32_t)h.batch;
        for (size_t i = 0; i < n[s]; i++) ids[s * h.batch + i] = (uint32_t)rig_below(h.rows);
        now[s].n = n[s], now[s].step = 1000 + 7 * s, now[s].seed = seed, now[s].lr = (float)s;
    }
    size_t nnz = sum_of(d, ids, n, h.batch, false), labels = sum_of(d, ids, n, h.batch, true);
    if (!exact && nnz + 3 <= c.nnz_room) nnz += 3;
    if (!exact && labels + 5 <= c.lab_room) labels += 5;
    laid l[2];
    for (int turn = 0; turn < 2; turn++) {
        OK(cudaMemset(card, POISON, block_bytes + 2 * border));
        OK(cudaMemcpy(c.ids, ids.data(), ids.size() * 4, cudaMemcpyHostToDevice));
        OK(cudaMemcpy(c.now, now.data(), now.size() * sizeof now[0], cudaMemcpyHostToDevice));
        wisp_chunk_fill(c, d.on_card(h.mode, h.drop), n_steps, nnz, labels, seed, 0);
        rig_sync(h.name);
        std::vector<uint8_t> all(block_bytes + 2 * border);
        OK(cudaMemcpy(all.data(), card, all.size(), cudaMemcpyDeviceToHost));
        for (size_t b = 0; b < border; b++)
            CHECK(all[b] == POISON && all[border + block_bytes + b] == POISON,
                  "%s: written beyond the block", h.name);
        l[turn].c = c;
        l[turn].bytes.assign(all.begin() + border, all.end() - border);
        l[turn].base = card + border;
    }
    check_gaps(l[0]);
    CHECK(memcmp(l[0].at(c.ids), ids.data(), ids.size() * 4) == 0, "row numbers changed");
    for (size_t s = 0; s < h.steps; s++) {
        const struct wisp_dnow &got = l[0].at(c.now)[s];
        CHECK(got.n == now[s].n && got.step == now[s].step && got.seed == now[s].seed &&
                  got.lr == now[s].lr,
              "step %zu: what the trainer set has changed", s);
        if (s >= n_steps) CHECK(memcmp(&got, &now[s], sizeof got) == 0, "step %zu was written", s);
    }
    size_t kept = 0, kept_labels = 0, runs = 0;
    for (size_t s = 0; s < n_steps; s++) {
        want_step w = lay_out(d, &ids[s * h.batch], n[s], now[s].step, seed, h.mode, h.drop);
        check_step(l[0], s, w, n[s]);
        for (auto &x : w.xi) kept += x.size();
        for (auto &y : w.yi) kept_labels += y.size();
        runs += w.touched.size() + w.distinct.size();
    }
    for (size_t e = kept_labels; e < c.lab_room; e++)
        CHECK(l[0].at(c.yi)[e] == (int32_t)0xa5a5a5a5, "yi is written beyond the labels");
    for (size_t e = kept + kept_labels; e < c.nnz_room + c.lab_room; e++)
        CHECK(l[0].at(c.sample)[e] == 0xa5a5a5a5, "ts is written beyond the entries");
    for (size_t r = runs + 1; r < c.nnz_room + c.lab_room + 1; r++)
        CHECK(l[0].at(c.run_at)[r] == 0xa5a5a5a5, "tp is written beyond the runs");
    /* the same again: all but CUB's own memory */
    size_t upto = (const uint8_t *)c.work - l[0].base;
    CHECK(memcmp(l[0].bytes.data(), l[1].bytes.data(), upto) == 0, "%s: two runs differ", h.name);
}

static void run_shape(const shape &h)
{
    TEST(h.name);
    set *d = make_set(h.rows, h.longest, h.most_labels, h.features, h.labels);
    struct wisp_dchunk c = {};
    size_t longest = 0, most = 0;
    for (size_t r = 0; r < h.rows; r++) {
        longest = std::max(longest, (size_t)(d->xp[r + 1] - d->xp[r]));
        most = std::max(most, (size_t)(d->yp[r + 1] - d->yp[r]));
    }
    c.steps = h.steps, c.batch = h.batch;
    c.nnz_room = h.steps * h.batch * longest, c.lab_room = h.steps * h.batch * most;
    size_t bytes = wisp_chunk_lay(&c, NULL, h.features, h.labels);
    both<uint8_t> block(bytes + 8192);
    size_t again = wisp_chunk_lay(&c, block.dev + 4096, h.features, h.labels);
    CHECK(bytes == again && bytes % 256 == 0, "%zu bytes, then %zu", bytes, again);
    run_chunk(c, block.dev, bytes, *d, h, h.steps, true);
    run_chunk(c, block.dev, bytes, *d, h, h.steps, false);
    if (h.steps > 2) run_chunk(c, block.dev, bytes, *d, h, h.steps - 2, true);
    run_chunk(c, block.dev, bytes, *d, h, 1, true);
    delete d;
}

/* ---- time ---- */

/* Rows of about 75 features whose k-th most frequent has a share of 1 / k, at random places. */
static set *make_large(size_t rows, size_t features, size_t labels)
{
    std::vector<int32_t> x, y;
    std::vector<uint64_t> xp, yp;
    for (size_t r = 0; r < rows; r++) {
        xp.push_back(x.size()), yp.push_back(y.size());
        for (int i = 0; i < 92; i++) {
            double u = ((double)rig_float() + 1) / 2;
            size_t k = (size_t)exp(u * log((double)features));
            x.push_back((int32_t)(k * 1000003 % features));
        }
        std::sort(x.begin() + xp.back(), x.end());
        x.erase(std::unique(x.begin() + xp.back(), x.end()), x.end());
        for (size_t i = 0, n = 1 + rig_below(10); i < n; i++)
            y.push_back((int32_t)rig_below(labels));
        std::sort(y.begin() + yp.back(), y.end());
        y.erase(std::unique(y.begin() + yp.back(), y.end()), y.end());
    }
    xp.push_back(x.size()), yp.push_back(y.size());
    set *s = new set(rows, x.size(), y.size(), features, labels, features);
    s->xi.host = x, s->yi.host = y, s->xp.host = xp, s->yp.host = yp;
    for (float &v : s->xv.host) v = (float)(1 + rig_below(5));
    for (float &v : s->idf.host) v = 1 + rig_float();
    s->xp.up(), s->yp.up(), s->xi.up(), s->yi.up(), s->xv.up(), s->idf.up();
    return s;
}

static void time_chunks(const set &d, size_t steps, size_t batch, float drop)
{
    struct wisp_dchunk c = {};
    std::vector<uint32_t> ids(steps * batch), n(steps, (uint32_t)batch);
    std::vector<struct wisp_dnow> now(steps);
    for (uint32_t &id : ids) id = (uint32_t)rig_below(d.n_rows);
    memset((void *)now.data(), 0, steps * sizeof now[0]);
    for (size_t s = 0; s < steps; s++) now[s].n = n[s], now[s].step = s;
    size_t nnz = sum_of(d, ids, n, batch, false), labels = sum_of(d, ids, n, batch, true);
    c.steps = steps, c.batch = batch, c.nnz_room = nnz, c.lab_room = labels;
    both<uint8_t> block(wisp_chunk_lay(&c, NULL, d.n_features, d.n_labels));
    wisp_chunk_lay(&c, block.dev, d.n_features, d.n_labels);
    OK(cudaMemcpy(c.ids, ids.data(), ids.size() * 4, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(c.now, now.data(), now.size() * sizeof now[0], cudaMemcpyHostToDevice));
    double ms =
        rig_ms([&] { wisp_chunk_fill(c, d.on_card(TFIDF, drop), steps, nnz, labels, 1, 0); });
    rig_sync("time");
    OK(cudaMemcpy(now.data(), c.now, now.size() * sizeof now[0], cudaMemcpyDeviceToHost));
    printf("  time chunk %zu x %zu rows, drop %.1f: %.4f ms (%zu features, %zu labels; %u and %u "
           "distinct in step 0), %.0f GB/s of 170 bytes each\n",
           steps, batch, (double)drop, ms, nnz, labels, now[0].n_touched, now[0].n_distinct,
           170e-6 * (double)(nnz + labels) / ms);
}

int main(void)
{
    const shape shapes[] = {
        /* steps, batch, rows, longest, labels per row, features, labels */
        { "plain", 8, 32, 500, 40, 8, 1000, 300, TFIDF, 0 },
        { "dropped", 8, 32, 500, 40, 8, 1000, 300, TFIDF, 0.3f },
        { "unit length, dropped", 5, 33, 100, 100, 5, 77, 10, UNIT, 0.5f },
        { "raw, dropped", 3, 7, 40, 20, 3, 4096, 512, RAW, 0.25f },
        { "one row per step", 9, 1, 40, 70, 4, 128, 64, TFIDF, 0.1f },
        { "one step", 1, 300, 400, 90, 6, 5000, 2000, TFIDF, 0 },
        { "one feature, one label", 4, 16, 30, 2, 2, 1, 1, TFIDF, 0 },
        { "all dropped but few", 4, 16, 30, 10, 2, 50, 20, TFIDF, 0.99f },
        { "no features", 4, 16, 30, 0, 5, 50, 20, TFIDF, 0.1f },
        { "no labels", 4, 16, 30, 30, 0, 50, 20, TFIDF, 0.1f },
        { "nothing", 4, 16, 30, 0, 0, 50, 20, TFIDF, 0 },
        { "largest ids", 6, 20, 60, 50, 5, 2147483647, 2147483647, UNIT, 0.2f },
        { "long rows", 2, 12, 30, 4000, 300, 100000, 9000, TFIDF, 0.2f },
        { "many rows", 64, 150, 3000, 30, 5, 3000, 700, TFIDF, 0.2f },
    };
    for (const shape &h : shapes) run_shape(h);
    test_close();
    if (getenv("RIG_SMALL")) return test_end();
    set *d = make_large(100000, 135909, 670091);
    time_chunks(*d, 64, 256, 0);
    time_chunks(*d, 64, 256, 0.2f);
    time_chunks(*d, 16, 1024, 0);
    delete d;
    return test_end();
}
