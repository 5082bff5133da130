/* Exact prediction on the card, against plain code in double, written from the definition:
 *
 *   sum.cu     max[i] = largest z(row) = h[i] . W[row] + bias[row];  sum[i] = sum of exp(z - max)
 *   scorer.cu  h[i] = relu(bias + sum of x W[f]);  the k rows with the largest z, of equal ones the
 *              smaller row; their z; max and sum
 *
 * Small whole numbers make every z exact in fp32, and where all z are equal the sum is the number
 * of rows to the bit: a row that is missing or counted twice shows.  Real numbers are compared
 * within rounding.  With RIG_SMALL in the environment: no big sizes and no timings. */
#include "cuda/trainer.cuh"
#include "gpu/graph_rig.cuh"
#include "gpu/rig.cuh"

#include <chrono>

extern "C" const struct wisp_cuda *wisp_cuda_table(void);

/* What sums of exp may be off by, beyond what comes of the scores. */
static const double EXP_OFF = 1e-5;

static bool agrees(double got_max, double got_sum, double max, double sum, double dz)
{
    double got = got_max + log(got_sum), want = max + log(sum); /* a NaN is not close */
    return fabs(got_max - max) <= dz && fabs(got - want) <= dz + EXP_OFF && got_sum > 0.99;
}

/* ---- sum.cu ---- */

enum data { REAL, WHOLE, EQUAL, HIGH, LOW, ONE };
static const char *const data_names[] = { "real", "whole", "equal", "high", "low", "one" };

struct spec {
    size_t n_rows, width, batch, n;
    enum data data;
    bool half;
};

static float weight(enum data d)
{
    return d == REAL ? rig_float() : d == EQUAL ? 0 : rig_whole(1);
}

static float bias_of(enum data d, size_t row, size_t n_rows)
{
    switch (d) {
    case REAL:
        return rig_float();
    case EQUAL:
        return -7;
    case HIGH:
        return 10000 * rig_whole(2);
    case LOW:
        return -50000 + rig_whole(3);
    case ONE:
        return row == n_rows - 1 ? 300.0f : 0;
    default:
        return rig_whole(3);
    }
}

struct sums { /* a case, on both sides */
    struct spec c;
    both<float> w, bias, h, max;
    both<uint16_t> w16;
    both<double> sum;
    both<uint32_t> n;
    both<unsigned char> block;
    struct wisp_dsum t;
    std::vector<double> want_max, want_sum, dz; /* (n) */

    explicit sums(const struct spec &s)
        : c(s), w(s.n_rows * s.width), bias(s.n_rows), h(s.batch * s.width), max(s.batch + 32),
          w16(s.half ? s.n_rows * s.width : 1), sum(s.batch + 32), n(1, (uint32_t)s.n), block(0),
          t()
    {
    }
};

static void fill(struct sums *r)
{
    const struct spec &c = r->c;
    for (size_t i = 0; i < r->w.size(); i++) {
        r->w[i] = weight(c.data);
        if (!c.half) continue;
        r->w16[i] = rig_half(r->w[i]);
        r->w[i] = rig_widen(r->w16[i]);
    }
    for (size_t i = 0; i < c.n_rows; i++) r->bias[i] = bias_of(c.data, i, c.n_rows);
    for (size_t i = 0; i < r->h.size(); i++)
        r->h[i] = i >= c.n * c.width ? NAN : c.data == REAL ? rig_float() : rig_whole(1);
    r->w.up(), r->w16.up(), r->bias.up(), r->h.up();
}

static void reference(struct sums *r)
{
    const struct spec &c = r->c;
    std::vector<double> z(c.n_rows);
    for (size_t s = 0; s < c.n; s++) {
        double max = -INFINITY, sum = 0, dz = 0;
        for (size_t row = 0; row < c.n_rows; row++) {
            double dot = 0, mass = 0;
            for (size_t d = 0; d < c.width; d++) {
                double x = (double)r->w[row * c.width + d] * r->h[s * c.width + d];
                dot += x, mass += fabs(x);
            }
            z[row] = dot + r->bias[row];
            max = fmax(max, z[row]);
            if (c.data == REAL) dz = fmax(dz, 1e-5 * mass + 2e-7 * fabs(z[row]));
        }
        for (double x : z) sum += exp(x - max);
        r->want_max.push_back(max), r->want_sum.push_back(sum), r->dz.push_back(dz);
    }
}

static void lay(struct sums *r)
{
    const struct spec &c = r->c;
    struct wisp_dsum *t = &r->t;
    t->n_rows = c.n_rows, t->width = c.width, t->batch = c.batch;
    t->w.rows = c.n_rows, t->w.cols = c.width, t->bias.rows = c.n_rows, t->bias.cols = 1;
    if (c.half) t->w.b16 = (__nv_bfloat16 *)r->w16.dev;
    else t->w.w = r->w.dev;
    t->bias.w = r->bias.dev, t->h = r->h.dev, t->n = r->n.dev;
    t->max = r->max.dev, t->sum = r->sum.dev;
    size_t bytes = wisp_sum_lay(t, NULL);
    r->block.host.assign(bytes + 256, 0xab);
    OK(cudaFree(r->block.dev));
    OK(cudaMalloc((void **)&r->block.dev, bytes + 256));
    r->block.up();
    wisp_sum_lay(t, r->block.dev);
}

static void run(struct sums *r)
{
    const struct spec &c = r->c;
    for (size_t i = 0; i < r->max.size(); i++) r->max[i] = -77, r->sum[i] = 123.5;
    r->max.up(), r->sum.up();
    wisp_sum_exp(r->t, 0);
    rig_sync("sum");
    r->max.down(), r->sum.down(), r->block.down();
    for (size_t i = c.n; i < r->max.size(); i++)
        CHECK(r->max[i] == -77 && r->sum[i] == 123.5, "written beyond at %zu", i);
    for (size_t i = r->block.size() - 256; i < r->block.size(); i++)
        CHECK(r->block[i] == 0xab, "scratch overrun");
}

static void check_sums(const struct spec &c)
{
    struct sums r(c);
    fill(&r);
    reference(&r);
    lay(&r);
    const unsigned splits = r.t.splits;
    std::vector<float> max;
    std::vector<double> sum;
    for (int turn = 0; turn < 4; turn++) {
        r.t.splits = turn < 2 || splits < 3 ? splits : turn == 2 ? 1 : 3;
        run(&r);
        for (size_t i = 0; i < c.n; i++) {
            CHECK(agrees(r.max[i], r.sum[i], r.want_max[i], r.want_sum[i], r.dz[i]),
                  "sample %zu, %u blocks: %.9g %.9g, want %.9g %.9g", i, r.t.splits, r.max[i],
                  r.sum[i], r.want_max[i], r.want_sum[i]);
            CHECK(c.data != EQUAL || r.sum[i] == (double)c.n_rows, "sample %zu: %.17g rows", i,
                  r.sum[i]);
        }
        if (turn == 0) max = r.max.host, sum = r.sum.host;
        if (turn == 1)
            CHECK(max == r.max.host && sum == r.sum.host, "the second time another result");
    }
    if (test_bad)
        printf("  was: %zu x %zu, batch %zu, n %zu, %s%s\n", c.n_rows, c.width, c.batch, c.n,
               data_names[c.data], c.half ? ", halves" : "");
}

/* ---- scorer.cu, by the table ---- */

struct shape {
    size_t n_features, n_labels, width, batch, k;
    bool relu, half, whole;
};

struct model { /* in host memory */
    struct shape c;
    std::vector<float> in, in_bias, out, out_bias; /* what the references multiply */
    std::vector<uint16_t> in16, out16;
    struct wisp_graph g;
    graph_rig rig{ 0, 0 };
};

/* The next parameter of the last layer. */
static void make_param(struct model *m, std::vector<float> *x, std::vector<uint16_t> *x16,
                       size_t rows, size_t cols)
{
    const struct shape &c = m->c;
    x->resize(rows * cols);
    for (float &v : *x) v = c.whole ? rig_whole(1) : rig_float();
    struct wisp_param *p = m->rig.param(rows, cols, x->data());
    if (!c.half || !x16) return;
    x16->resize(x->size());
    for (size_t i = 0; i < x->size(); i++) (*x16)[i] = rig_half((*x)[i]);
    for (size_t i = 0; i < x->size(); i++) (*x)[i] = rig_widen((*x16)[i]);
    p->w = NULL, p->b16 = x16->data();
}

/* dropout: as the net of a trainer may have it; of no concern to prediction. */
static void make_model(struct model *m, const struct shape &c, bool dropout)
{
    m->c = c;
    m->rig = graph_rig(c.n_features, c.n_labels);
    m->rig.add("input", c.width);
    make_param(m, &m->in, &m->in16, c.n_features, c.width);
    make_param(m, &m->in_bias, NULL, 1, c.width);
    if (c.relu) m->rig.add("relu", c.width);
    if (dropout) m->rig.layers[m->rig.add("dropout", c.width)].arg[0] = 0.5;
    m->rig.add("output", c.n_labels);
    make_param(m, &m->out, &m->out16, c.n_labels, c.width);
    make_param(m, &m->out_bias, NULL, c.n_labels, 1);
    m->g = m->rig.graph();
}

struct rows {
    std::vector<uint32_t> xp;
    std::vector<int32_t> xi;
    std::vector<float> xv;
    struct wisp_cuda_block block;
};

/* most: features of a row; every fifth has none.  The first place need not be 0. */
static void make_rows(struct rows *r, const struct shape &c, size_t n, size_t most, uint32_t first)
{
    r->xp.assign(1, first);
    r->xi.assign(first, -1);
    r->xv.assign(first, NAN);
    for (size_t i = 0; i < n; i++) {
        size_t m = i % 5 == 4 ? 0 : 1 + rig_below(most);
        for (size_t e = 0; e < m; e++) {
            r->xi.push_back((int32_t)rig_below(c.n_features));
            r->xv.push_back(c.whole ? rig_whole(1) : rig_float());
        }
        r->xp.push_back((uint32_t)r->xi.size());
    }
    r->xi.push_back(-1), r->xv.push_back(NAN);
    r->block = {};
    r->block.n = n, r->block.xp = r->xp.data(), r->block.xi = r->xi.data();
    r->block.xv = r->xv.data();
}

/* z (n_labels) of a row; returns what they may be off by. */
static double logits(std::vector<double> *z, const struct model &m, const struct rows &r, size_t i)
{
    const struct shape &c = m.c;
    std::vector<double> h(c.width), mass(c.width);
    double most = 0;
    for (size_t d = 0; d < c.width; d++) {
        h[d] = m.in_bias[d], mass[d] = fabs(h[d]);
        for (uint32_t e = r.xp[i]; e < r.xp[i + 1]; e++) {
            double x = (double)r.xv[e] * m.in[(size_t)r.xi[e] * c.width + d];
            h[d] += x, mass[d] += fabs(x);
        }
        if (c.relu && h[d] < 0) h[d] = 0;
    }
    z->resize(c.n_labels);
    for (size_t row = 0; row < c.n_labels; row++) {
        double sum = m.out_bias[row], all = fabs(sum);
        for (size_t d = 0; d < c.width; d++) {
            sum += h[d] * m.out[row * c.width + d];
            all += mass[d] * fabs(m.out[row * c.width + d]);
        }
        (*z)[row] = sum;
        most = fmax(most, all);
    }
    return c.whole ? 0 : 1e-5 * most;
}

struct result {
    std::vector<int32_t> labels;
    std::vector<float> logits, max;
    std::vector<double> sum;
};

static void check_row(const struct shape &c, const std::vector<double> &z, double dz,
                      const struct result &x, size_t i)
{
    const int32_t *labels = &x.labels[i * c.k];
    const float *scores = &x.logits[i * c.k];
    std::vector<char> seen(c.n_labels);
    double worst = INFINITY, max = -INFINITY, sum = 0;
    for (size_t p = 0; p < c.k; p++) {
        int32_t row = labels[p];
        bool in = row >= 0 && (size_t)row < c.n_labels && !seen[row];
        CHECK(in, "row %zu place %zu: label %d", i, p, row);
        if (!in) return;
        seen[row] = 1;
        CHECK(fabs(scores[p] - z[row]) <= dz, "row %zu label %d: %.9g, want %.9g", i, row,
              scores[p], z[row]);
        CHECK(p == 0 || scores[p] < scores[p - 1] ||
                  (scores[p] == scores[p - 1] && row > labels[p - 1]),
              "row %zu: order at %zu", i, p);
        worst = fmin(worst, z[row]);
    }
    for (size_t row = 0; row < c.n_labels; row++) {
        bool lost = z[row] > worst + 2 * dz ||
                    (dz == 0 && z[row] == worst && (int32_t)row < labels[c.k - 1]);
        CHECK(seen[row] || !lost, "row %zu: label %zu (%.9g) is missing", i, row, z[row]);
        max = fmax(max, z[row]);
    }
    for (double v : z) sum += exp(v - max);
    CHECK(agrees(x.max[i], x.sum[i], max, sum, dz), "row %zu: %.9g %.9g, want %.9g %.9g", i,
          x.max[i], x.sum[i], max, sum);
}

static void score(struct result *x, const struct wisp_cuda *api, struct wisp_cuda_scorer *s,
                  const struct rows &r, const struct shape &c, bool sums)
{
    const size_t n = r.block.n, border = 32;
    wisp_error err = {};
    x->labels.assign(n * c.k + border, -77), x->logits.assign(n * c.k + border, 123.5f);
    x->max.assign(n + border, 123.5f), x->sum.assign(n + border, 123.5);
    struct wisp_cuda_best out = { x->labels.data(), x->logits.data(), sums ? x->max.data() : NULL,
                                  sums ? x->sum.data() : NULL };
    CHECK(api->score(s, &out, &r.block, &err) == WISP_OK, "%s", err.text);
    for (size_t i = n * c.k; i < x->labels.size(); i++)
        CHECK(x->labels[i] == -77 && x->logits[i] == 123.5f, "written beyond at %zu", i);
    for (size_t i = sums ? n : 0; i < x->max.size(); i++)
        CHECK(x->max[i] == 123.5f && x->sum[i] == 123.5, "written beyond at %zu", i);
}

static void check_scorer(const struct shape &c, size_t n, size_t most)
{
    const struct wisp_cuda *api = wisp_cuda_table();
    struct wisp_cuda_scorer *s = NULL;
    struct model m;
    wisp_error err = {};
    make_model(&m, c, false);
    CHECK(api->create_scorer(&s, &m.g, NULL, c.batch, c.k, &err) == WISP_OK, "%s", err.text);
    if (!s) return;
    for (int turn = 0; turn < 3; turn++) { /* other rows, more, fewer */
        struct rows r;
        struct result x, again, plain;
        std::vector<double> z;
        size_t count = turn == 0 ? n : turn == 1 ? c.batch : 1;
        make_rows(&r, c, count, turn == 1 ? most : 1 + most / 9, turn == 2 ? 7 : 0);
        score(&x, api, s, r, c, true);
        score(&again, api, s, r, c, true);
        score(&plain, api, s, r, c, false);
        for (size_t i = 0; i<count; i += c.n_labels> 20000 ? 37 : 1)
            check_row(c, z, logits(&z, m, r, i), x, i);
        CHECK(x.labels == again.labels && x.logits == again.logits && x.max == again.max &&
                  x.sum == again.sum,
              "the second time another result");
        CHECK(x.labels == plain.labels && x.logits == plain.logits, "other labels without sums");
    }
    api->free_scorer(s);
    if (test_bad)
        printf("  was: %zu features, %zu labels, width %zu, batch %zu, n %zu, k %zu, relu %d, "
               "halves %d, whole %d\n",
               c.n_features, c.n_labels, c.width, c.batch, n, c.k, c.relu, c.half, c.whole);
}

/* A scorer that uses a trainer's weights where they are: the answers of one with its own, also
 * after the weights have moved. */
static struct wisp_dparam on_card(both<float> *x, const std::vector<float> &from, size_t rows)
{
    struct wisp_dparam p = {};
    x->host = from;
    OK(cudaFree(x->dev));
    OK(cudaMalloc((void **)&x->dev, from.size() * sizeof from[0]));
    x->up();
    p.rows = rows, p.cols = from.size() / rows, p.w = x->dev;
    return p;
}

static void check_borrowed(const struct shape &c)
{
    const struct wisp_cuda *api = wisp_cuda_table();
    struct wisp_cuda_trainer t = {};
    struct model m;
    struct rows r;
    both<float> in, in_bias, out, out_bias;
    struct wisp_cuda_scorer *borrowed = NULL;
    wisp_error err = {};
    make_model(&m, c, true);
    make_rows(&r, c, c.batch, 30, 0);
    t.s.graph = m.g;
    wisp_dnet_make(&t.net, &m.g, true);
    t.net.layers[0].param[0] = on_card(&in, m.in, c.n_features);
    t.net.layers[0].param[1] = on_card(&in_bias, m.in_bias, 1);
    t.out.w = on_card(&out, m.out, c.n_labels);
    t.out.bias = on_card(&out_bias, m.out_bias, c.n_labels);
    OK(cudaStreamCreateWithFlags(&t.main, cudaStreamNonBlocking));
    CHECK(api->create_scorer(&borrowed, NULL, &t, c.batch, c.k, &err) == WISP_OK, "%s", err.text);
    for (int turn = 0; turn < 2 && borrowed; turn++) {
        struct wisp_cuda_scorer *own = NULL;
        struct result x, y;
        CHECK(api->create_scorer(&own, &m.g, NULL, c.batch, c.k, &err) == WISP_OK, "%s", err.text);
        if (!own) break;
        score(&x, api, borrowed, r, c, true);
        score(&y, api, own, r, c, true);
        CHECK(x.labels == y.labels && x.logits == y.logits && x.max == y.max && x.sum == y.sum,
              "turn %d: another result", turn);
        api->free_scorer(own);
        for (size_t i = 0; i < c.n_labels; i++) out_bias[i] = m.out_bias[i] = rig_float();
        for (size_t i = 0; i < in.size(); i++) in[i] = m.in[i] = rig_float();
        out_bias.up(), in.up();
        OK(cudaDeviceSynchronize());
    }
    api->free_scorer(borrowed);
    OK(cudaStreamDestroy(t.main)); /* which is the trainer's still */
}

/* ---- timings ---- */

static __global__ void fill_device(float *w, uint16_t *half, size_t size)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < size;
         i += (size_t)gridDim.x * blockDim.x) {
        float x = 0.3f * ((float)(wisp_drand(1, 0, i) >> 40) * 0x1p-23f - 1.0f);
        if (w) w[i] = x;
        if (half) half[i] = (uint16_t)(__float_as_uint(x) >> 16);
    }
}

static void time_sum(size_t n_rows, size_t width, size_t batch, bool half)
{
    both<float> h(batch * width), bias(n_rows), max(batch);
    both<double> sum(batch);
    both<uint32_t> n(1, (uint32_t)batch);
    size_t size = n_rows * width;
    void *w, *block;
    OK(cudaMalloc(&w, size * (half ? 2 : 4)));
    fill_device<<<1024, 256>>>(half ? NULL : (float *)w, half ? (uint16_t *)w : NULL, size);
    for (float &x : h.host) x = rig_float();
    h.up();
    struct wisp_dsum t = {};
    t.n_rows = n_rows, t.width = width, t.batch = batch;
    if (half) t.w.b16 = (__nv_bfloat16 *)w;
    else t.w.w = (float *)w;
    t.bias.w = bias.dev, t.h = h.dev, t.n = n.dev, t.max = max.dev, t.sum = sum.dev;
    OK(cudaMalloc(&block, wisp_sum_lay(&t, NULL)));
    wisp_sum_lay(&t, block);
    double ms = rig_ms([&] { wisp_sum_exp(t, 0); });
    rig_sync("timing");
    printf("  time sum, %s, %zu x %zu, %zu rows: %.3f ms, %.1f TFLOP/s\n",
           half ? "halves" : "floats", n_rows, width, batch, ms, 2e-9 * size * batch / ms);
    cudaFree(w), cudaFree(block);
}

/* Whole calls, with what the host does. */
static void time_scorer(size_t n_labels, size_t width, size_t k, bool half)
{
    const struct wisp_cuda *api = wisp_cuda_table();
    struct shape c = { 20000, n_labels, width, 256, k, true, half, false };
    struct wisp_cuda_scorer *s = NULL;
    struct model m;
    struct rows r;
    struct result x;
    wisp_error err = {};
    make_model(&m, c, false);
    make_rows(&r, c, c.batch, 180, 0);
    CHECK(api->create_scorer(&s, &m.g, NULL, c.batch, k, &err) == WISP_OK, "%s", err.text);
    if (!s) return;
    for (int sums = 0; sums < 2; sums++) {
        const int turns = 20;
        std::chrono::steady_clock::time_point began;
        for (int i = 0; i <= turns; i++) {
            if (i == 1) began = std::chrono::steady_clock::now();
            score(&x, api, s, r, c, sums);
        }
        double ms =
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began)
                .count() /
            turns;
        printf("  time score%s, %s, %zu x %zu, %zu rows, k %zu: %.3f ms, %.0f rows/s\n",
               sums ? " with sums" : "", half ? "halves" : "floats", n_labels, width, c.batch, k,
               ms, 1e3 * c.batch / ms);
    }
    api->free_scorer(s);
}

int main(void)
{
    static const size_t all_rows[] = { 1, 2, 7, 16, 17, 63, 64, 255, 256, 257, 300, 3001, 9001 };
    static const size_t widths[] = { 4, 8, 12, 36, 64, 100, 128, 200, 256, 260, 512, 1024 };
    static const size_t batches[] = { 1, 3, 17, 64, 127, 128, 129, 200, 256, 257, 600 };
    static const size_t ks[] = { 1, 2, 5, 20, 33, 64 };
    const bool small = getenv("RIG_SMALL") != NULL;

    TEST("sums of exp: random shapes and data");
    for (int i = 0; i < (small ? 12 : 50); i++) {
        struct spec c = { all_rows[rig_below(13)], widths[rig_below(12)], batches[rig_below(11)], 0,
                          (enum data)rig_below(6), rig_below(2) == 1 };
        c.n = rig_below(3) ? c.batch : 1 + rig_below(c.batch);
        size_t most = (small ? 4000000 : 30000000) / (c.n_rows * c.width) + 1;
        if (c.n > most) c.n = most;
        check_sums(c);
    }

    TEST("sums of exp: every kind of data, floats and halves");
    for (int i = 0; i < 12; i++)
        check_sums({ i % 2 ? 70000u : 1281u, small || i % 2 ? 20u : 132u, 200,
                     i % 2 && small ? 20u : 150u, (enum data)(i / 2), i % 4 > 1 });

    TEST("sums of exp: no samples, one");
    check_sums({ 3000, 128, 256, 0, REAL, false });
    check_sums({ 3000, 128, 256, 1, WHOLE, true });

    TEST("scorer: random models");
    for (int i = 0; i < (small ? 6 : 30); i++) {
        struct shape c = { 1 + rig_below(700),    all_rows[rig_below(13)],
                           widths[rig_below(12)], 0,
                           ks[rig_below(6)],      rig_below(3) > 0,
                           rig_below(2) == 1,     rig_below(2) == 1 };
        size_t most = (small ? 4000000 : 20000000) / (c.n_labels * c.width) + 1;
        c.batch = batches[rig_below(10)];
        if (c.batch > most) c.batch = most;
        if (c.k > c.n_labels) c.k = c.n_labels;
        check_scorer(c, 1 + rig_below(c.batch), 40);
    }

    TEST("scorer: more features in a batch than there was room for");
    check_scorer({ 90, 50, 8, 256, 5, true, false, true }, 3, small ? 700 : 900);

    TEST("scorer: with the weights of a trainer");
    check_borrowed({ 60, 900, 36, 70, 5, true, false, false });
    check_borrowed({ 300, 3001, 64, 256, 20, false, false, false });

    if (!small) {
        TEST("scorer: many labels");
        check_scorer({ 500, 100003, 64, 256, 5, true, false, true }, 100, 60);
        check_scorer({ 500, 100003, 64, 256, 5, true, true, false }, 256, 60);
        test_close();
        time_sum(670091, 128, 256, false);
        time_sum(670091, 128, 256, true);
        time_sum(25400, 256, 256, false);
        time_scorer(670091, 128, 5, false);
        time_scorer(670091, 128, 5, true);
        time_scorer(25400, 256, 5, false);
    }
    return test_end();
}
