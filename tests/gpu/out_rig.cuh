/* The output layer's test (test_out.cu): a layer with everything around it, on both sides, poisoned
 * where nothing may be read or written. */
#ifndef WISP_TESTS_GPU_OUT_RIG_CUH
#define WISP_TESTS_GPU_OUT_RIG_CUH

#include "gpu/rig.cuh"

#include <algorithm>
#include <thread>

/* ---- arrays with borders ---- */

template <class T> struct fenced {
    enum { PAD = 256 / sizeof(T) };
    size_t n = 0;
    T *base = NULL;
    std::vector<T> host, was; /* (PAD + n + PAD) now, and what a run begins with */
    fenced()
    {
    }
    fenced(const fenced &) = delete;
    ~fenced()
    {
        cudaFree(base);
    }
    void make(size_t count)
    {
        n = count;
        host.resize(n + 2 * PAD);
        memset((void *)host.data(), 0xff, host.size() * sizeof(T));
        cudaFree(base);
        OK(cudaMalloc((void **)&base, host.size() * sizeof(T)));
    }
    T *dev()
    {
        return base ? base + PAD : NULL;
    }
    T &operator[](size_t i)
    {
        return host[PAD + i];
    }
    void keep()
    {
        was = host, back();
    }
    void back()
    {
        host = was;
        if (base)
            OK(cudaMemcpy(base, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    void down()
    {
        if (base)
            OK(cudaMemcpy(host.data(), base, host.size() * sizeof(T), cudaMemcpyDeviceToHost));
    }
    bool same(size_t from, size_t to) const
    {
        return memcmp(&host[PAD + from], &was[PAD + from], (to - from) * sizeof(T)) == 0;
    }
    bool fences() const
    {
        return !base || (memcmp(&host[0], &was[0], PAD * sizeof(T)) == 0 &&
                         memcmp(&host[PAD + n], &was[PAD + n], PAD * sizeof(T)) == 0);
    }
};

/* ---- bf16 ---- */

/* ---- a case ---- */

enum store { STORE_FP32, STORE_COPY, STORE_BF16, STORES };
enum flavour { PLAIN, MANY, LARGE, FAR, BARE, BEYOND };
static const char *const opt_names[] = { "adam", "adagrad", "sgd" };
static const char *const loss_names[] = { "softmax", "bce" };
static const char *const precision_names[] = { "fp32", "bf16" };
static const char *const store_names[] = { "rows fp32", "rows fp32 and a copy", "rows bf16" };
static const char *const flavour_names[] = { "plain",        "50 labels per sample",
                                             "large logits", "logits far from 0",
                                             "no labels",    "logits beyond what exp has" };
static const float rates[] = { 0.05f, 0.1f, 30 }; /* moves that a bf16 shows */
static const float MOMENTUM = 0.9f;

struct shape {
    size_t n, batch, active, width, n_labels;
};

struct how {
    enum wisp_optimizer_id opt;
    enum wisp_loss_id loss;
    enum wisp_precision_id precision;
    enum store store;
    enum flavour flavour;
    float smoothing;
};

struct param {
    size_t rows, cols;
    fenced<float> w, m, v, g2;
    fenced<uint16_t> b16, copy;
    fenced<uint32_t> count;
};

struct world {
    struct shape s;
    struct how k;
    size_t room, lab_room;
    std::vector<int32_t> rows, labels; /* active; labels [starts[i] .. starts[i+1]) of sample i */
    std::vector<uint32_t> starts;
    struct param w, bias;
    fenced<float> h, g, origin, tile_max;
    fenced<double> loss;
    fenced<uint32_t> yp, lp, ls, n, bits, before;
    fenced<int32_t> yi, distinct, list;
    fenced<unsigned char> block;
    struct wisp_dout o;
    both<struct wisp_dnow> now;
    world() : o(), now(1)
    {
    }
};

static both<float> *correct1, *correct2;

/* Active rows: any, the first and the last row always among them. */
static void draw_rows(struct world *x)
{
    size_t need = x->s.active, all = x->s.n_labels;
    x->rows.clear();
    for (size_t row = 0; row < all; row++)
        if (rig_below(all - row) < need) x->rows.push_back((int32_t)row), need--;
    if (x->rows.size() < 2) return;
    x->rows.front() = 0;
    x->rows.back() = (int32_t)all - 1;
}

/* Labels of each sample from the active rows, some of them in many samples. */
static void draw_labels(struct world *x)
{
    x->labels.clear();
    x->starts.assign(1, 0);
    for (size_t i = 0; i < x->s.n; i++) {
        size_t most = x->k.flavour == MANY   ? 50
                      : x->k.flavour == BARE ? 0
                      : x->s.n == 1          ? 1
                                             : rig_below(6);
        size_t want = std::min(most, x->s.active);
        std::vector<int32_t> own;
        while (own.size() < want) {
            size_t from = rig_below(4) == 0 ? std::min<size_t>(3, x->s.active) : x->s.active;
            int32_t y = x->rows[rig_below(from)];
            if (std::find(own.begin(), own.end(), y) == own.end()) own.push_back(y);
        }
        std::sort(own.begin(), own.end());
        x->labels.insert(x->labels.end(), own.begin(), own.end());
        x->starts.push_back((uint32_t)x->labels.size());
    }
}

/* The labels as the card has them, by sample and by label; both lists may begin anywhere. */
static void lay_labels(struct world *x)
{
    size_t n = x->s.n, all = x->labels.size();
    uint32_t first = rig_below(2) ? 0 : 1 + (uint32_t)rig_below(1000), other = 3 * first;
    x->yp.make(std::max(x->s.batch, n) + 1);
    x->yi.make(first + all);
    for (size_t i = 0; i <= n; i++) x->yp[i] = first + x->starts[i];
    for (size_t e = 0; e < all; e++) x->yi[first + e] = x->labels[e];
    std::vector<int32_t> distinct(x->labels);
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    x->distinct.make(distinct.size());
    x->lp.make(distinct.size() + 1);
    x->ls.make(other + all);
    x->lp[0] = other;
    for (size_t d = 0; d < distinct.size(); d++) {
        uint32_t at = x->lp[d];
        x->distinct[d] = distinct[d];
        for (size_t i = 0; i < n; i++)
            for (uint32_t e = x->starts[i]; e < x->starts[i + 1]; e++)
                if (x->labels[e] == distinct[d]) x->ls[at++] = (uint32_t)i;
        x->lp[d + 1] = at;
    }
    x->yp.keep(), x->yi.keep(), x->distinct.keep(), x->lp.keep(), x->ls.keep();
    x->lab_room = std::max<size_t>(1, all + (rig_below(2) ? 0 : 37));
}

/* Rows beyond the last active one are others, as if left from an earlier step. */
static void lay_active(struct world *x)
{
    size_t words = x->s.n_labels / 32 + 1, used = x->s.active;
    x->room = std::max<size_t>(1, std::min(x->s.n_labels, used + (rig_below(2) ? 0 : 100)));
    x->n.make(1), x->list.make(x->room), x->bits.make(words), x->before.make(words);
    x->n[0] = (uint32_t)used;
    for (size_t word = 0; word < words; word++) x->bits[word] = 0;
    for (int32_t row : x->rows) x->bits[row / 32] |= 1u << row % 32;
    uint32_t sum = 0;
    for (size_t word = 0; word < words; word++) {
        x->before[word] = sum;
        sum += (uint32_t)__builtin_popcount(x->bits[word]);
    }
    int32_t other = 0;
    for (size_t r = 0; r < x->room; r++) {
        if (r >= used)
            while (x->bits[other / 32] >> other % 32 & 1) other++;
        x->list[r] = r < used ? x->rows[r] : other++;
    }
    x->n.keep(), x->list.keep(), x->bits.keep(), x->before.keep();
}

/* State of active rows as if they had moved before by gradients of any size; some had not. */
static void lay_state(struct world *x, struct param *p)
{
    static const uint32_t ages[] = { 0, 0, 1, 5, 1000, 19998, 19999, 20000 };
    size_t all = p->rows * p->cols;
    if (x->k.opt == WISP_ADAM) p->m.make(all), p->v.make(all), p->count.make(p->rows);
    if (x->k.opt == WISP_ADAGRAD) p->g2.make(p->rows);
    if (x->k.opt == WISP_SGD) p->m.make(all);
    for (int32_t row : x->rows) {
        float size = powf(10, -3.25f + 1.25f * rig_float());
        uint32_t age = ages[rig_below(8)];
        if (x->k.opt == WISP_ADAM) p->count[row] = age;
        if (x->k.opt == WISP_ADAGRAD) p->g2[row] = age ? size * size : 0;
        for (size_t at = row * p->cols; at < (row + 1) * p->cols; at++) {
            if (x->k.opt != WISP_ADAGRAD) p->m[at] = age ? size * rig_float() : 0;
            if (x->k.opt == WISP_ADAM)
                p->v[at] = age ? size * size * (0.1f + fabsf(rig_float())) : 0;
        }
    }
    p->m.keep(), p->v.keep(), p->g2.keep(), p->count.keep();
}

struct sums {                              /* of terms a(r,k) b(k,c), over k */
    std::vector<double> sum, mass, square; /* (rows, cols) of terms, |terms|, terms^2 */
};

/* Calls fn(r) for r < n, on all cores. */
template <class F> static void on_all_cores(size_t n, F fn)
{
    size_t cores = std::min<size_t>(16, std::max(1u, std::thread::hardware_concurrency()));
    if (n < 64) cores = 1;
    std::vector<std::thread> threads;
    for (size_t t = 1; t < cores; t++)
        threads.emplace_back([=] {
            for (size_t r = t; r < n; r += cores) fn(r);
        });
    for (size_t r = 0; r < n; r += cores) fn(r);
    for (std::thread &t : threads) t.join();
}

static void multiply(struct sums *out, const std::vector<double> &a, size_t rows, size_t inner,
                     const std::vector<double> &b, size_t cols)
{
    out->sum.assign(rows * cols, 0), out->mass.assign(rows * cols, 0);
    out->square.assign(rows * cols, 0);
    on_all_cores(rows, [&](size_t r) {
        double *__restrict sum = &out->sum[r * cols], *__restrict mass = &out->mass[r * cols];
        double *__restrict square = &out->square[r * cols];
        for (size_t k = 0; k < inner; k++) {
            const double v = a[r * inner + k], *__restrict w = &b[k * cols];
            for (size_t c = 0; c < cols; c++) {
                double t = v * w[c];
                sum[c] += t, mass[c] += fabs(t), square[c] += t * t;
            }
        }
    });
}

/* What a product may be off by. */
static double allowed(const struct world &x, const struct sums &p, size_t at)
{
    if (x.k.precision == WISP_IN_FP32) return 1e-5 * p.mass[at];
    return 2e-5 * p.mass[at] + 2.5 / 256 * sqrt(p.square[at]);
}

/* Weights, biases and h, so that logits are what the flavour says. */
static void lay_values(struct world *x)
{
    size_t width = x->s.width, used = x->s.active, n = x->s.n;
    std::vector<double> w(used * width), b(used), ht(width * n);
    x->h.make(x->s.batch * width), x->origin.make(x->s.batch);
    bool relu = rig_below(2);
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < width; c++) {
            float v = 2 * rig_float() / sqrtf((float)width);
            x->h[i * width + c] = relu && v < 0 ? 0 : v;
            ht[c * n + i] = x->h[i * width + c];
        }
        x->origin[i] = x->k.flavour == FAR ? 40 + rig_float() : 0;
    }
    for (double &v : w) v = rig_float();
    for (double &v : b) v = x->k.flavour == FAR ? 39.5 + rig_float() : 0.5 * rig_float();
    if (x->k.flavour == BEYOND) { /* all above, or all below; rows are far apart */
        const double shift = rig_below(2) ? 300 : -300;
        for (double &v : b) v = shift + 100 * v;
    }
    if (x->k.flavour == LARGE && n > 0) {
        struct sums z;
        double top = 0;
        multiply(&z, w, used, width, ht, n);
        for (size_t at = 0; at < used * n; at++) top = std::max(top, fabs(z.sum[at] + b[at / n]));
        for (double &v : w) v *= 30 / top;
        for (double &v : b) v *= 30 / top;
    }
    bool half = x->k.store == STORE_BF16;
    size_t all = x->s.n_labels * width;
    if (half) x->w.b16.make(all);
    else x->w.w.make(all);
    if (x->k.store == STORE_COPY) x->w.copy.make(all);
    x->bias.w.make(x->s.n_labels);
    for (size_t r = 0; r < used; r++) {
        x->bias.w[x->rows[r]] = (float)b[r];
        for (size_t c = 0; c < width; c++) {
            size_t at = x->rows[r] * width + c;
            float v = (float)w[r * width + c];
            if (half) x->w.b16[at] = rig_half(v);
            else x->w.w[at] = v;
            if (x->k.store == STORE_COPY) x->w.copy[at] = rig_half(v);
        }
    }
    x->h.keep(), x->origin.keep(), x->w.w.keep(), x->w.b16.keep(), x->w.copy.keep();
    x->bias.w.keep();
}

static struct wisp_dparam on_card(struct param *p)
{
    struct wisp_dparam d = { p->rows,
                             p->cols,
                             p->w.dev(),
                             (__nv_bfloat16 *)p->b16.dev(),
                             (__nv_bfloat16 *)p->copy.dev(),
                             p->m.dev(),
                             p->v.dev(),
                             p->g2.dev(),
                             p->count.dev() };
    return d;
}

static void lay_out(struct world *x, enum wisp_precision_id precision)
{
    struct wisp_dout *o = &x->o;
    o->precision = precision;
    size_t bytes = wisp_out_lay(o, NULL);
    x->block.make(bytes);
    x->block.keep();
    size_t again = wisp_out_lay(o, x->block.dev());
    CHECK(bytes == again, "wisp_out_lay: %zu bytes, then %zu", bytes, again);
    CHECK(o->lde >= x->s.batch && o->lde % 64 == 0, "lde %zu", o->lde);
    const char *from = (const char *)x->block.dev(), *to = from + bytes;
    size_t e_bytes = x->room * o->lde * (precision == WISP_IN_BF16 ? 2 : 4);
    CHECK((const char *)o->e >= from && (const char *)o->e + e_bytes <= to, "E is not inside");
    CHECK((const char *)o->factor >= from && (const char *)(o->factor + x->s.batch) <= to,
          "factor is not inside");
    CHECK((const char *)o->heat >= from && (const char *)(o->heat + x->room) <= to,
          "heat is not inside");
}

static void build(struct world *x, struct shape s, struct how k)
{
    x->s = s, x->k = k;
    draw_rows(x);
    draw_labels(x);
    lay_labels(x);
    lay_active(x);
    x->w.rows = x->bias.rows = s.n_labels, x->w.cols = s.width, x->bias.cols = 1;
    lay_values(x);
    lay_state(x, &x->w);
    lay_state(x, &x->bias);
    x->g.make(s.batch * s.width), x->g.keep();
    x->loss.make(1), x->loss[0] = 5.25, x->loss.keep();
    struct wisp_dnow *now = &x->now[0];
    memset((void *)now, 0, sizeof *now);
    now->n = (uint32_t)s.n, now->step = 41, now->seed = 7, now->lr = rates[k.opt];
    now->yp = x->yp.dev(), now->yi = x->yi.dev();
    now->n_distinct = (uint32_t)x->distinct.n, now->distinct = x->distinct.dev();
    now->lp = x->lp.dev(), now->ls = x->ls.dev();
    x->now.up();
    struct wisp_dout *o = &x->o;
    o->now = x->now.dev, o->batch = s.batch, o->width = s.width, o->loss = k.loss;
    o->smoothing = k.smoothing;
    o->w = on_card(&x->w), o->bias = on_card(&x->bias);
    o->opt.kind = k.opt, o->opt.momentum = MOMENTUM;
    o->opt.correct1 = correct1->dev, o->opt.correct2 = correct2->dev;
    o->active.n_rows = s.n_labels, o->active.room = x->room, o->active.n = x->n.dev();
    o->active.rows = x->list.dev(), o->active.bits = x->bits.dev();
    o->active.before = x->before.dev();
    o->lab_room = x->lab_room, o->h = x->h.dev(), o->g = x->g.dev(), o->origin = x->origin.dev();
    o->loss_sum = x->loss.dev();
    o->outside = rig_below(3) == 0;
    o->pass = rig_below(2) ? 0 : 1.25f;
    o->tile_max = NULL;
    lay_out(x, k.precision);
    x->tile_max.make((x->room + 31) / 32 * o->lde), x->tile_max.keep();
    if (k.flavour != BEYOND && rig_below(3)) o->tile_max = x->tile_max.dev();
}

/* ---- runs ---- */

static void down(struct param *p)
{
    p->w.down(), p->m.down(), p->v.down(), p->g2.down(), p->b16.down(), p->copy.down();
    p->count.down();
}

static void back(struct param *p)
{
    p->w.back(), p->m.back(), p->v.back(), p->g2.back(), p->b16.back(), p->copy.back();
    p->count.back();
}

/* As at the beginning, with scratch of this byte. */
static void begin(struct world *x, int poison)
{
    back(&x->w), back(&x->bias);
    x->g.back(), x->loss.back();
    OK(cudaMemset(x->block.dev(), poison, x->block.n));
    rig_sync("the beginning");
}

/* E of the active rows and true samples, (active, n). */
static std::vector<float> take_e(const struct world &x)
{
    size_t n = x.s.n, used = x.s.active, lde = x.o.lde;
    size_t size = x.k.precision == WISP_IN_BF16 ? 2 : 4;
    std::vector<unsigned char> raw(used * lde * size + 1);
    std::vector<float> e(used * n);
    OK(cudaMemcpy(raw.data(), x.o.e, used * lde * size, cudaMemcpyDeviceToHost));
    for (size_t at = 0; at < used * n; at++) {
        const unsigned char *from = &raw[(at / n * lde + at % n) * size];
        uint16_t half;
        if (size == 4) memcpy(&e[at], from, 4);
        else memcpy(&half, from, 2), e[at] = rig_widen(half);
    }
    return e;
}

static std::vector<float> take(const float *dev, size_t n)
{
    std::vector<float> x(n);
    if (n) OK(cudaMemcpy(x.data(), dev, n * 4, cudaMemcpyDeviceToHost));
    return x;
}

enum { SHOT_E, SHOT_FACTOR, SHOT_LOSS, SHOT_G, SHOT_HEAT, SHOT_ROWS, SHOT_BIAS, SHOTS };
static const char *const shot_names[] = { "E", "factor", "loss", "g", "heat", "rows", "bias" };
struct shot { /* all that a run leaves */
    std::vector<unsigned char> part[SHOTS];
};

template <class T> static void add(std::vector<unsigned char> *to, const std::vector<T> &x)
{
    const unsigned char *from = (const unsigned char *)x.data();
    to->insert(to->end(), from, from + x.size() * sizeof(T));
}

static void add(std::vector<unsigned char> *to, const struct param &p)
{
    add(to, p.w.host), add(to, p.b16.host), add(to, p.copy.host), add(to, p.m.host);
    add(to, p.v.host), add(to, p.g2.host), add(to, p.count.host);
}

static void shoot(struct shot *to, struct world *x)
{
    down(&x->w), down(&x->bias);
    x->g.down(), x->loss.down();
    add(&to->part[SHOT_E], take_e(*x));
    add(&to->part[SHOT_FACTOR], take(x->o.factor, x->s.n));
    add(&to->part[SHOT_LOSS], x->loss.host);
    std::vector<float> g(&x->g.host[x->g.PAD], &x->g.host[x->g.PAD] + x->s.n * x->s.width);
    add(&to->part[SHOT_G], g);
    add(&to->part[SHOT_HEAT], take(x->o.heat, x->s.n ? x->s.active : 0));
    add(&to->part[SHOT_ROWS], x->w);
    add(&to->part[SHOT_BIAS], x->bias);
}

static void launch_all(const struct world &x, cudaStream_t s)
{
    wisp_out_forward(x.o, s);
    wisp_out_combine(x.o, s);
    wisp_out_hidden(x.o, s);
    wisp_out_rows(x.o, s);
}

static void run_graph(const struct world &x)
{
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamCreate(&s));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    launch_all(x, s);
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    rig_sync("the graph");
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(s));
}

#endif
