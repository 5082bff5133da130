/* Exact best rows on the card, against scores in double precision of every row.
 *
 * Small whole numbers make every product and sum exact in bf16 and fp32: there the result must be
 * the definition's to the bit, ties and all.  Real numbers are compared within rounding.  With any
 * argument: no big sizes and no timings. */
#include "gpu/rig.cuh"

#include <algorithm>

enum data { REAL, WHOLE, EQUAL, ASCENDING, DESCENDING, PERIODIC, HOT, DEAD, NEGATIVE, HEAD };
static const char *const data_names[] = { "real",     "whole", "equal", "ascending", "descending",
                                          "periodic", "hot",   "dead",  "negative",  "head" };
enum source { FLOATS, HALVES, COPY }; /* w.w; w.b16; w.w with rows16 */

struct spec {
    size_t n_rows, width, batch, n, k;
    enum data data;
    enum source source;
    bool skip;
};

static float rounded(float x)
{
    return rig_widen(rig_half(x));
}

struct rig { /* a case, on both sides */
    struct spec c;
    both<float> w, bias, h;
    both<uint16_t> half;
    both<uint32_t> n, yp;
    both<int32_t> yi, rows;
    both<float> scores;
    both<unsigned char> block;
    both<struct wisp_dnow> now;
    struct wisp_dscan t;
    std::vector<double> z, mass; /* (chosen, n_rows), (n) most of any row */
    std::vector<size_t> place;   /* (n) of a sample in z */

    explicit rig(const struct spec &s)
        : c(s), w(s.n_rows * s.width), bias(s.n_rows), h(s.batch * s.width),
          half(s.n_rows * s.width), n(1), yp(s.batch + 1), yi(s.batch * 12 + s.n_rows + 8),
          rows(s.batch * s.k + 32), scores(s.batch * s.k + 32), block(0), now(1), t()
    {
    }
};

static void fill(struct rig *r)
{
    const struct spec &c = r->c;
    for (size_t i = 0; i < r->w.size(); i++) {
        float x = c.data == REAL || c.data == NEGATIVE ? rig_float() : rig_whole(2);
        if (c.data == EQUAL) x = r->w[i % c.width] = i < c.width ? rig_whole(2) : r->w[i % c.width];
        r->half[i] = rig_half(x);
        r->w[i] = c.source == HALVES ? rig_widen(r->half[i]) : x;
    }
    for (size_t i = 0; i < c.n_rows; i++) {
        float x = c.data == REAL ? rig_float() : rig_whole(3);
        if (c.data == EQUAL || c.data == DEAD) x = 0;
        if (c.data == ASCENDING) x = (float)(40 * i);
        if (c.data == DESCENDING) x = -(float)(40 * i);
        if (c.data == PERIODIC) x = (float)(i % 256 == 3 ? 5000 - i / 256 : 0);
        if (c.data == NEGATIVE) x = -1000 - 100 * fabsf(rig_float());
        if (c.data == HEAD) x = (float)(i >= c.n_rows / 3 && i < c.n_rows / 3 + 300 ? 1000 : 0);
        r->bias[i] = x;
    }
    for (size_t i = 0; i < c.n * c.width; i++) {
        size_t s = i / c.width;
        r->h[i] = c.data == REAL || c.data == NEGATIVE ? rig_float() : rig_whole(2);
        if (c.data == HOT && s != c.n / 2) r->h[i] = 0;
        if (c.data == DEAD && s % 2 == 0) r->h[i] = 0;
    }
    for (size_t i = c.n * c.width; i < r->h.size(); i++) r->h[i] = 1e30f; /* is never looked at */
    r->n[0] = (uint32_t)c.n;
}

/* Scores of all rows, of those samples for which 'some' says so. */
static void reference(struct rig *r, bool bf16, bool (*some)(size_t))
{
    const struct spec &c = r->c;
    std::vector<size_t> chosen;
    r->place.assign(c.n, 0);
    for (size_t s = 0; s < c.n; s++)
        if (some(s)) r->place[s] = chosen.size(), chosen.push_back(s);
    std::vector<double> h(c.n * c.width), x(c.width);
    for (size_t i = 0; i < h.size(); i++) h[i] = bf16 ? rounded(r->h[i]) : r->h[i];
    r->z.assign(chosen.size() * c.n_rows, 0);
    r->mass.assign(c.n, 0);
    for (size_t row = 0; row < c.n_rows; row++) {
        for (size_t d = 0; d < c.width; d++) {
            size_t at = row * c.width + d;
            x[d] = bf16 ? rig_widen(r->half[at]) : r->w[at];
        }
        for (size_t i = 0; i < chosen.size(); i++) {
            const double *y = &h[chosen[i] * c.width];
            double sum[4] = { r->bias[row], 0, 0, 0 }, most[4] = { fabs(r->bias[row]), 0, 0, 0 };
            for (size_t d = 0; d < c.width; d++) {
                sum[d % 4] += x[d] * y[d];
                most[d % 4] += fabs(x[d] * y[d]);
            }
            double mass = most[0] + most[1] + most[2] + most[3];
            r->z[i * c.n_rows + row] = sum[0] + sum[1] + sum[2] + sum[3];
            if (mass > r->mass[chosen[i]]) r->mass[chosen[i]] = mass;
        }
    }
}

static std::vector<int32_t> ranking(const struct rig &r, size_t s)
{
    std::vector<int32_t> order(r.c.n_rows);
    for (size_t i = 0; i < order.size(); i++) order[i] = (int32_t)i;
    const double *z = &r.z[r.place[s] * r.c.n_rows];
    std::sort(order.begin(), order.end(),
              [z](int32_t a, int32_t b) { return z[a] != z[b] ? z[a] > z[b] : a < b; });
    return order;
}

/* Labels are taken from the best rows, so that leaving them out matters; the last sample has very
 * many.  The place of the first is not 0. */
static void label(struct rig *r)
{
    const struct spec &c = r->c;
    uint32_t at = 5;
    for (size_t s = 0; s < c.n; s++) {
        r->yp[s] = at;
        std::vector<int32_t> order = ranking(*r, s), mine;
        size_t many = s + 1 == c.n ? c.n_rows / 3 : rig_below(10);
        for (size_t i = 0; i < many && i < order.size(); i++)
            if (s + 1 == c.n || rig_below(2)) mine.push_back(order[i]);
        std::sort(mine.begin(), mine.end());
        for (size_t i = 0; i < mine.size(); i++) r->yi[at++] = mine[i];
    }
    for (size_t s = c.n; s <= c.batch; s++) r->yp[s] = at;
}

static bool is_label(const struct rig &r, size_t s, int32_t row)
{
    if (!r.c.skip) return false;
    const int32_t *y = r.yi.host.data();
    return std::binary_search(y + r.yp.host[s], y + r.yp.host[s + 1], row);
}

static void upload(struct rig *r)
{
    const struct spec &c = r->c;
    r->w.up(), r->bias.up(), r->h.up(), r->half.up(), r->n.up(), r->yp.up(), r->yi.up();
    r->now[0].yp = r->yp.dev;
    r->now[0].yi = r->yi.dev;
    r->now[0].n = (uint32_t)c.n;
    r->now.up();
    struct wisp_dscan *t = &r->t;
    t->n_rows = c.n_rows, t->width = c.width, t->batch = c.batch, t->k = c.k;
    t->w.rows = c.n_rows, t->w.cols = c.width;
    if (c.source != HALVES) t->w.w = r->w.dev;
    if (c.source == HALVES) t->w.b16 = (__nv_bfloat16 *)r->half.dev;
    if (c.source == COPY) t->rows16 = (const __nv_bfloat16 *)r->half.dev;
    t->bias.rows = c.n_rows, t->bias.cols = 1, t->bias.w = r->bias.dev;
    t->h = r->h.dev;
    t->n = r->n.dev;
    t->now = c.skip ? r->now.dev : NULL;
    t->skip_labels = c.skip;
    t->rows = r->rows.dev, t->scores = r->scores.dev;
    size_t bytes = wisp_scan_lay(t, NULL);
    r->block.host.assign(bytes + 256, 0xab);
    OK(cudaFree(r->block.dev));
    OK(cudaMalloc((void **)&r->block.dev, bytes + 256));
    r->block.up();
    wisp_scan_lay(t, r->block.dev);
}

/* Runs it; what is beyond the samples and beyond the scratch must stay as it was. */
static void run(struct rig *r, bool bf16)
{
    const struct spec &c = r->c;
    for (size_t i = 0; i < r->rows.size(); i++) r->rows[i] = -77, r->scores[i] = 123.5f;
    r->rows.up(), r->scores.up();
    if (bf16) wisp_scan_bf16(r->t, 0);
    else wisp_scan_fp32(r->t, 0);
    rig_sync("scan");
    r->rows.down(), r->scores.down();
    const size_t border = r->block.size() - 256;
    OK(cudaMemcpy(&r->block[border], r->block.dev + border, 256, cudaMemcpyDeviceToHost));
    for (size_t i = c.n * c.k; i < r->rows.size(); i++)
        CHECK(r->rows[i] == -77 && r->scores[i] == 123.5f, "written beyond at %zu", i);
    for (size_t i = border; i < r->block.size(); i++) CHECK(r->block[i] == 0xab, "scratch overrun");
}

static bool exact(const struct spec &c)
{
    return c.data != REAL && c.data != NEGATIVE;
}

static void compare_sample(struct rig *r, size_t s)
{
    const struct spec &c = r->c;
    const int32_t *rows = r->rows.host.data() + s * c.k;
    const float *scores = r->scores.host.data() + s * c.k;
    const double *z = &r->z[r->place[s] * c.n_rows];
    double tol = exact(c) ? 0 : 1e-5 * r->mass[s], worst = INFINITY;
    std::vector<char> seen(c.n_rows);
    size_t free = c.n_rows, got = 0;
    for (size_t i = 0; i < c.n_rows; i++)
        if (is_label(*r, s, (int32_t)i)) free--, seen[i] = 2;
    for (; got < c.k && rows[got] != -1; got++) {
        int32_t row = rows[got];
        bool in = row >= 0 && (size_t)row < c.n_rows;
        CHECK(in, "sample %zu place %zu: row %d", s, got, row);
        if (!in) return;
        CHECK(seen[row] != 2, "sample %zu: row %d is a label", s, row);
        CHECK(seen[row] != 1, "sample %zu: row %d twice", s, row);
        seen[row] = 1;
        CHECK(fabs(scores[got] - z[row]) <= tol, "sample %zu row %d: %.9g, should be %.9g", s, row,
              scores[got], z[row]);
        CHECK(got == 0 || scores[got] < scores[got - 1] ||
                  (scores[got] == scores[got - 1] && row > rows[got - 1]),
              "sample %zu: order at %zu", s, got);
        if (z[row] < worst) worst = z[row];
    }
    CHECK(got == (free < c.k ? free : c.k), "sample %zu: %zu rows of %zu", s, got, free);
    for (size_t i = got; i < c.k; i++)
        CHECK(rows[i] == -1 && scores[i] == -INFINITY, "sample %zu: after the last", s);
    if (got < c.k) return;
    int32_t last = rows[got - 1];
    for (size_t i = 0; i < c.n_rows; i++) {
        bool lost = z[i] > worst + 2 * tol || (tol == 0 && z[i] == worst && (int32_t)i < last);
        CHECK(seen[i] || !lost, "sample %zu: row %zu (%.9g) is missing, the last is %d (%.9g)", s,
              i, z[i], last, worst);
    }
}

static bool all(size_t)
{
    return true;
}
static bool sparse(size_t s)
{
    return s % 41 == 3;
}

/* Which lists ran over: their samples' products are summed in another order. */
static std::vector<bool> ran_over(const struct rig &r)
{
    std::vector<uint32_t> count(r.c.batch);
    std::vector<bool> over(r.c.batch);
    OK(cudaMemcpy(count.data(), r.t.count, r.c.batch * 4, cudaMemcpyDeviceToHost));
    for (size_t s = 0; s < count.size(); s++) over[s] = count[s] > (r.c.k <= 32 ? 2048 : 4096);
    return over;
}

static size_t most_slow = 1000000; /* scores: what version 0 is given */

/* One case with every version of the kernels, twice, and with few blocks: the same bits, but where
 * a list ran over with one number of blocks and not with the other. */
static void check(const struct spec &c, bool (*some)(size_t))
{
    struct rig r(c);
    fill(&r);
    bool ready = false;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        reference(&r, bf16, some);
        if (!ready) {
            if (c.skip) label(&r);
            upload(&r);
            ready = true;
        }
        const int fastest = r.t.version, sms = r.t.sms;
        for (int version = bf16 || fastest < 1 ? fastest : 1; version >= 0; version--) {
            if (version == 0 && fastest > 0 && c.n_rows * c.n > most_slow) break;
            r.t.version = version;
            r.t.sms = sms;
            run(&r, bf16);
            std::vector<int32_t> rows = r.rows.host;
            std::vector<float> scores = r.scores.host;
            std::vector<bool> over = ran_over(r);
            for (size_t s = 0; s < c.n; s++)
                if (some(s)) compare_sample(&r, s);
            run(&r, bf16);
            CHECK(rows == r.rows.host &&
                      !memcmp(scores.data(), r.scores.host.data(), scores.size() * 4),
                  "another result, version %d", version);
            if (sms <= 3) continue;
            r.t.sms = 3;
            run(&r, bf16);
            std::vector<bool> over3 = ran_over(r);
            for (size_t s = 0; s < c.n; s++) {
                if (some(s)) compare_sample(&r, s);
                const size_t at = s * c.k, bytes = c.k * 4;
                bool same = !memcmp(&rows[at], &r.rows[at], bytes) &&
                            !memcmp(&scores[at], &r.scores[at], bytes);
                CHECK(same || (!exact(c) && over[s] != over3[s]),
                      "sample %zu: another result with 3 blocks, version %d", s, version);
            }
        }
        r.t.version = fastest, r.t.sms = sms;
    }
}

static void describe(const struct spec &c)
{
    if (!test_bad) return;
    printf("  was: %zu x %zu, batch %zu, n %zu, k %zu, %s, source %d, skip %d\n", c.n_rows, c.width,
           c.batch, c.n, c.k, data_names[c.data], (int)c.source, (int)c.skip);
}

/* ---- timings ---- */

static __global__ void fill_device(float *w, uint16_t *half, size_t size, uint64_t seed,
                                   float scale)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < size;
         i += (size_t)gridDim.x * blockDim.x) {
        float x = scale * ((float)(wisp_drand(seed, 0, i) >> 40) * 0x1p-23f - 1.0f);
        if (w) w[i] = x;
        if (half) half[i] = (uint16_t)(__float_as_uint(x) >> 16);
    }
}

static void time_one(size_t n_rows, size_t width, size_t batch, size_t k, bool bf16,
                     enum source source, const char *what, float head, size_t dead)
{
    both<float> h(batch * width), bias(n_rows);
    both<uint32_t> n(1, (uint32_t)batch);
    both<int32_t> rows(batch * k);
    both<float> scores(batch * k);
    float *w = NULL;
    uint16_t *half = NULL;
    size_t size = n_rows * width;
    if (source == FLOATS) OK(cudaMalloc((void **)&w, size * 4));
    else OK(cudaMalloc((void **)&half, size * 2));
    fill_device<<<1024, 256>>>(w, half, size, 1, 1);
    for (size_t i = 0; i < h.size(); i++) h[i] = i / width < dead ? 0 : rig_float();
    for (size_t i = 0; i < n_rows; i++)
        bias[i] = dead ? 0 : 0.1f * rig_float() + (i < 2000 ? head : 0);
    h.up(), bias.up();
    struct wisp_dscan t = {};
    t.n_rows = n_rows, t.width = width, t.batch = batch, t.k = k;
    t.w.w = w, t.w.b16 = (__nv_bfloat16 *)half, t.bias.w = bias.dev;
    t.h = h.dev, t.n = n.dev, t.rows = rows.dev, t.scores = scores.dev;
    void *block;
    OK(cudaMalloc(&block, wisp_scan_lay(&t, NULL)));
    wisp_scan_lay(&t, block);
    const int fastest = bf16 ? t.version : 1;
    for (t.version = 1; t.version <= fastest; t.version++) {
        double ms = rig_ms([&] {
            if (bf16) wisp_scan_bf16(t, 0);
            else wisp_scan_fp32(t, 0);
        });
        rig_sync("timing");
        std::vector<uint32_t> count(batch);
        OK(cudaMemcpy(count.data(), t.count, batch * 4, cudaMemcpyDeviceToHost));
        double mean = 0;
        for (size_t i = 0; i < batch; i++) mean += (double)count[i] / (double)batch;
        printf("  %s v%d, %s, %zu x %zu, batch %zu, k %zu%s: %.3f ms, %.1f TFLOP/s, %.0f GB/s, "
               "%.0f a list\n",
               bf16 ? "bf16" : "fp32", bf16 ? t.version : 1, source == FLOATS ? "floats" : "halves",
               n_rows, width, batch, k, what, ms, 2e-9 * size * batch / ms,
               1e-6 * size * (source == FLOATS ? 4 : 2) / ms, mean);
    }
    OK(cudaFree(block));
    cudaFree(w), cudaFree(half);
}

int main(int argc, char **argv)
{
    static const size_t all_rows[] = {
        1, 2, 7, 63, 64, 65, 300, 2048, 2049, 3001, 4097, 6000, 9001
    };
    static const size_t widths[] = { 4, 8, 12, 36, 64, 100, 128, 200, 256, 260, 512, 1024 };
    static const size_t batches[] = { 1, 3, 17, 64, 65, 128, 129, 200, 256, 257, 300, 600 };
    static const size_t ks[] = { 1, 2, 5, 20, 33, 64 };
    const bool quick = argc > 1 || getenv("RIG_SMALL");
    (void)argv;
    if (quick) most_slow = 20000;

    TEST("best rows of real numbers, random shapes");
    for (int i = 0; i < (quick ? 12 : 36); i++) {
        struct spec c = { all_rows[rig_below(13)],   widths[rig_below(12)],
                          batches[rig_below(12)],    0,
                          ks[rig_below(6)],          REAL,
                          (enum source)rig_below(3), rig_below(2) == 1 };
        c.n = rig_below(3) ? c.batch : 1 + rig_below(c.batch);
        size_t most = (quick ? 20000000 : 40000000) / (c.n_rows * c.width) + 1;
        if (c.n > most) c.n = most;
        check(c, all);
        describe(c);
    }

    TEST("every kind of data, to the bit");
    for (int data = WHOLE; data <= HEAD; data++)
        for (int i = 0; i < 3; i++) {
            struct spec c = { 5003, 32, 140, 140, 20, (enum data)data, (enum source)i, true };
            if (i == 1) c.n_rows = 2500, c.batch = 60, c.n = 59, c.skip = false;
            if (i == 2) c.width = quick ? 48 : 128, c.n = 70, c.k = 40;
            if (data == NEGATIVE) continue;
            if (quick) c.n = 20 - i;
            check(c, all);
            describe(c);
        }

    TEST("more columns, negative scores, no samples, one sample");
    check({ 5003, 72, 256, quick ? 30u : 256u, 20, REAL, HALVES, false }, all);
    check({ 3003, 256, 300, quick ? 280u : 300u, 20, REAL, COPY, false }, sparse);
    check({ 3003, 512, 140, 140, 20, REAL, HALVES, false }, sparse);
    check({ 3003, 1024, 140, 140, 20, REAL, FLOATS, false }, sparse);
    check({ 5003, 128, 200, 199, 20, NEGATIVE, HALVES, true }, all);
    check({ 3000, 128, 256, 0, 20, REAL, HALVES, false }, all);
    check({ 3000, 128, 256, 1, 20, REAL, HALVES, false }, all);

    TEST("many columns, many samples");
    const size_t wide =
        (wisp_dshared() / 16 + 3) / 4 * 4; /* four samples are too wide to be held */
    check({ 2101, 1500, 9, 9, 20, WHOLE, FLOATS, true }, all);
    check({ 2101, 4096, 9, 8, 20, WHOLE, HALVES, false }, all);
    check({ 2101, 4096, 6, 6, 20, EQUAL, COPY, true }, all);
    check({ 2101, wide, 5, 5, 20, EQUAL, HALVES, false }, all);
    check({ 300, wide, 5, 3, 20, WHOLE, FLOATS, true }, all);
    check({ 2101, 8, 2300, quick ? 1100u : 2300u, 5, EQUAL, FLOATS, false }, all); /* all slow */
    check({ 2101, 8, 5000, quick ? 1100u : 4097u, 5, WHOLE, COPY, true }, sparse);

    if (!quick) {
        TEST("many rows");
        check({ 300007, 128, 256, 250, 20, REAL, HALVES, false }, sparse);
        check({ 120001, 64, 512, 512, 5, WHOLE, COPY, false }, sparse);
        check({ 100003, 256, 256, 256, 64, HEAD, FLOATS, false }, sparse);
        test_close();
        time_one(670091, 128, 256, 20, true, HALVES, "", 0, 0);
        time_one(670091, 128, 1024, 20, true, HALVES, "", 0, 0);
        time_one(25400, 256, 256, 20, true, HALVES, "", 0, 0);
        time_one(205443, 128, 256, 20, true, HALVES, "", 0, 0);
        time_one(670091, 128, 256, 20, true, FLOATS, "", 0, 0);
        time_one(670091, 128, 256, 20, true, HALVES, ", best rows are neighbours", 20, 0);
        time_one(670091, 128, 256, 20, true, HALVES, ", 4 samples without features", 0, 4);
        time_one(670091, 128, 256, 5, false, FLOATS, "", 0, 0);
        time_one(670091, 128, 256, 5, false, HALVES, "", 0, 0);
        time_one(25400, 256, 1024, 5, false, FLOATS, "", 0, 0);
    }
    return test_end();
}
