/* Hidden layers on the card, forward and backward, against plain code in double written from the
 * definitions of layer/dense.c, sparse.c, relu.c and dropout.c; and how a graph becomes layers on
 * the card.  With RIG_SMALL in the environment: no timings. */
#include "cuda/trainer.cuh"
#include "gpu/graph_rig.cuh"
#include "gpu/param_rig.cuh"

#include <algorithm>
#include <memory>

enum kind { DENSE, SPARSE, SAME };
static const char *const kind_names[] = { "dense", "sparse", "identity" };
static const char *const opt_names[] = { "adam", "adagrad", "sgd" };
enum { BEFORE = 5, DROP_LAYER = 7 }; /* numbers of the dropout layers */

struct shape {
    enum kind kind;
    size_t batch, n, n_in, n_out, fan;
    enum wisp_optimizer_id opt;
    bool first;             /* sparse: reads the batch's rows */
    bool relu, before_relu; /* of the layer, of the one before */
    double share, before_share;
    enum wisp_dconv_math math = WISP_DCONV_FP32; /* else as large layers are: of rounded numbers */
};

/* ---- a layer and the one before it, with borders ---- */

/* (batch, width) with GUARD rows around it; rows from n on are not numbers where they are given. */
struct values {
    size_t width;
    both<float> x;
    values(size_t batch, size_t w, float fill) : width(w), x((batch + 2 * GUARD) * w, fill)
    {
    }
    float *dev() const
    {
        return x.dev + GUARD * width;
    }
    float at(size_t i, size_t c) const
    {
        return x.host[(GUARD + i) * width + c];
    }
    /* one in 'zeros' is 0; rounded: to numbers that bf16 has */
    void draw(size_t n, float scale, size_t zeros, bool rounded)
    {
        for (size_t k = 0; k < x.size(); k++) {
            bool in = k >= GUARD * width && k < (GUARD + n) * width;
            x[k] = !in ? NAN : zeros && rig_below(zeros) == 0 ? 0 : scale * rig_float();
            if (rounded && in) x[k] = rig_widen(rig_half(x[k]));
        }
        x.up();
    }
    /* Outside of n samples nothing is written; but those from n on, up to 'zeros', are 0. */
    void check_border(const char *what, size_t n, size_t zeros = 0) const
    {
        for (size_t k = 0; k < x.size(); k++) {
            const bool cleared = k >= (GUARD + n) * width && k < (GUARD + zeros) * width;
            if (k < GUARD * width || k >= (GUARD + n) * width)
                CHECK(x.host[k] == (cleared ? 0 : POISON), "%s: %zu of %zu was written", what, k,
                      x.size());
        }
    }
};

struct rows { /* lists of features, for a first layer */
    both<uint32_t> xp, xn;
    both<int32_t> xi;
    both<float> xv;
    rows(size_t n, size_t n_in) : xp(n + 1), xn(n + 1), xi(n * n_in + 1), xv(n * n_in + 1)
    {
        size_t at = 0;
        for (size_t i = 0; i < n; i++) {
            size_t from = at;
            for (size_t f = 0; f < n_in && i % 7 != 3; f++)
                if (rig_below(3) == 0) xi[at] = (int32_t)f, xv[at++] = rig_float();
            xp[i] = (uint32_t)from, xn[i] = (uint32_t)(at - from);
        }
        xp.up(), xn.up(), xi.up(), xv.up();
    }
};

struct rig {
    shape c;
    size_t lanes, edges;
    values x, h, below, back; /* of the layer before: h, back; of the layer: h, back */
    rows list;
    param w, bias;
    both<int32_t> in, output;
    both<uint32_t> start, edge;
    both<float> turned, front, scratch;
    both<uint16_t> copied; /* weights in bf16, with borders */
    both<struct wisp_dnow> now;
    struct wisp_param shown[3]; /* weight, bias, inputs: their sizes */
    struct wisp_layer host;
    std::unique_ptr<struct wisp_dnet> net;
    std::vector<double> dense; /* (n, n_in) what the layer reads */

    rig(const shape &s, corrections &correct);
    ~rig()
    {
        if (net->layers[0].made) net->layers[0].kind->clear(&net->layers[0]);
    }
    /* Products of what bf16 has are exact: these are. */
    void round_weights()
    {
        for (size_t k = GUARD * w.cols; k < w.w.size() - GUARD * w.cols; k++)
            copied[k] = rig_half(w.w[k]), w.w[k] = rig_widen(copied[k]);
        w.w.up(), copied.up();
        if (c.math == WISP_DCONV_BF16)
            net->layers[0].param[0].copy = (__nv_bfloat16 *)copied.dev + GUARD * w.cols;
    }
    void check_copy()
    {
        if (c.math != WISP_DCONV_BF16) return;
        copied.down(), w.w.down();
        for (size_t k = 0; k < copied.size(); k++) {
            const bool in = k >= GUARD * w.cols && k < copied.size() - GUARD * w.cols;
            CHECK(copied[k] == (in ? rig_half(w.w[k]) : 0), "copy at %zu: %x of %g", k, copied[k],
                  w.w[k]);
        }
    }
    size_t cleared() const /* a library writes all samples: those beyond the last are 0 */
    {
        const struct wisp_dnode &l = net->layers[0];
        return l.kind->halves && l.kind->halves(l) ? c.batch : 0;
    }
    void forward(cudaStream_t s) const
    {
        net->layers[0].kind->forward(*net, net->layers[0], s);
    }
    void backward(cudaStream_t s) const
    {
        const struct wisp_dnode &l = net->layers[0];
        l.kind->backward(*net, l, s);
        if (l.kind->move) l.kind->move(*net, l, s);
    }
    double input(size_t i, size_t k) const
    {
        return dense[i * c.n_in + k];
    }
};

static void draw_wires(rig *r)
{
    const shape &c = r->c;
    for (size_t o = 0; o < c.n_out; o++) {
        std::vector<int32_t> ids(c.n_in);
        for (size_t i = 0; i < c.n_in; i++) ids[i] = (int32_t)i;
        for (size_t i = 0; i < c.fan; i++) std::swap(ids[i], ids[i + rig_below(c.n_in - i)]);
        std::sort(ids.begin(), ids.begin() + (long)c.fan);
        for (size_t k = 0; k < c.fan; k++) r->in[o * c.fan + k] = ids[k];
    }
    size_t at = 0;
    for (size_t i = 0; i < c.n_in; i++) {
        r->start[i] = (uint32_t)at;
        for (size_t e = 0; e < r->edges; e++)
            if ((size_t)r->in[e] == i)
                r->edge[at] = (uint32_t)e, r->output[at++] = (int32_t)(e / c.fan);
    }
    r->start[c.n_in] = (uint32_t)at;
    r->in.up(), r->output.up(), r->start.up(), r->edge.up();
}

rig::rig(const shape &s, corrections &correct)
    : c(s), lanes((s.batch + 31) / 32 * 32), edges(s.n_out * s.fan),
      x(s.batch, s.first ? 4 : s.n_in, 0), h(s.batch, s.n_out, POISON),
      below(s.batch, s.first ? 4 : s.n_in, POISON), back(s.batch, s.n_out, 0),
      list(s.first ? s.n : 0, s.n_in),
      w(s.kind == SPARSE ? s.n_out : s.n_in, s.kind == SPARSE ? s.fan : s.n_out, false),
      bias(1, s.n_out, false), in(edges), output(edges), start(s.n_in + 1), edge(edges),
      turned(s.n_in * lanes + 64, NAN), front(0), scratch(0), copied(w.b16.size()), now(1), shown(),
      host(), net(new wisp_dnet()), dense(s.n * s.n_in)
{
    const bool rounded = c.math != WISP_DCONV_FP32;
    x.draw(c.n, 1, 3, rounded);
    back.draw(c.n, 0.05f, 4, rounded);
    if (c.kind == SPARSE) draw_wires(this);
    for (size_t i = 0; i < c.n; i++) {
        for (size_t k = 0; k < c.n_in && !c.first; k++) dense[i * c.n_in + k] = x.at(i, k);
        for (size_t e = 0; c.first && e < list.xn[i]; e++)
            dense[i * c.n_in + (size_t)list.xi[list.xp[i] + e]] = list.xv[list.xp[i] + e];
    }
    struct wisp_dnow d;
    memset((void *)&d, 0, sizeof d);
    d.n = (uint32_t)c.n, d.step = 41, d.seed = 99, d.lr = 0.05f;
    d.xp = list.xp.dev, d.xn = list.xn.dev, d.xi = list.xi.dev, d.xv = list.xv.dev;
    now[0] = d;
    now.up();
    struct wisp_dnet &n = *net;
    n.now = now.dev, n.batch = c.batch, n.lanes = lanes, n.n_layers = 1, n.training = true;
    n.opt = { c.opt, 0.9f, correct.one.dev, correct.two.dev };
    struct wisp_dnode &l = n.layers[0];
    shown[0].rows = c.n_out, shown[0].cols = c.fan, shown[0].n = edges;
    shown[2].role = WISP_FIXED;
    host.n_in = c.n_in, host.n_out = c.n_out, host.params = shown, host.n_params = 3;
    host.n_from = 1, host.from[0] = c.first ? 0 : 1;
    l.n_from = 1, l.from[0] = host.from[0];
    l.l = &host, l.out = 2, l.kind = wisp_card_kind_find(kind_names[c.kind]);
    if (!c.first) {
        struct wisp_dact &b = n.acts[1];
        b.width = c.n_in, b.x = x.dev(), b.g = l.gx[0] = below.dev();
        b.after = wisp_dafter_of(c.before_relu, c.before_share, BEFORE);
    }
    struct wisp_dact &a = n.acts[2];
    a.width = c.n_out, a.x = h.dev(), a.g = back.dev();
    a.after = wisp_dafter_of(c.relu, c.share, DROP_LAYER);
    l.param[0] = w.on_card(c.opt), l.param[1] = bias.on_card(c.opt), l.ids[2] = in.dev;
    l.own[WISP_DSTART] = start.dev, l.own[WISP_DEDGE] = edge.dev;
    l.own[WISP_DOUTPUT] = output.dev, l.kept = turned.dev;
    n.math = c.math, n.large = 1;
    wisp_error err = {};
    if (l.kind->make) CHECK(l.kind->make(&l, n, &err) == WISP_OK, "%s", err.text);
    if (rounded) round_weights();
    front.host.assign((l.kind->front ? l.kind->front(l, n) : 0) + 64, NAN);
    OK(cudaFree(front.dev));
    OK(cudaMalloc((void **)&front.dev, front.size() * 4));
    front.up();
    l.front = front.dev;
    scratch.host.assign((l.kind->scratch ? l.kind->scratch(l, n) : 0) + 64, NAN);
    OK(cudaFree(scratch.dev));
    OK(cudaMalloc((void **)&scratch.dev, scratch.size() * 4));
    scratch.up();
    l.scratch = scratch.dev;
}

/* ---- what it should be ---- */

/* The weight between input k and output o, 0 where there is none; *at: its column. */
static double weight(const rig &r, size_t k, size_t o)
{
    const shape &c = r.c;
    if (c.kind == SAME) return k == o;
    if (c.kind == DENSE) return r.w.weight(k, o);
    for (size_t e = 0; e < c.fan; e++)
        if ((size_t)r.in.host[o * c.fan + e] == k) return r.w.weight(o, e);
    return 0;
}

static void check_forward(rig &r)
{
    const shape &c = r.c;
    const double keep = 1 / (1 - c.share);
    r.h.x.down();
    r.h.check_border("h", c.n, r.cleared());
    for (size_t i = 0; i < c.n; i++)
        for (size_t o = 0; o < c.n_out; o++) {
            double sum = c.kind == SAME ? 0 : r.bias.weight(0, o), mass = fabs(sum);
            for (size_t k = 0; k < c.n_in; k++) {
                double t = r.input(i, k) * weight(r, k, o);
                sum += t, mass += fabs(t);
            }
            if (c.relu && sum < 0) sum = 0;
            bool stays = c.share == 0 || rig_stays(c.share, DROP_LAYER, r.now[0], i * c.n_out + o);
            double want = stays ? sum * keep : 0, got = r.h.at(i, o);
            CHECK(fabs(got - want) <= TINY * mass * keep && (stays || got == 0),
                  "sample %zu, unit %zu: %g, not %g", i, o, got, want);
        }
}

/* The gradient for the layer before, with the weights as they were. */
static std::vector<double> below_of(const rig &r, std::vector<double> *mass)
{
    const shape &c = r.c;
    std::vector<double> g(c.n * c.n_in);
    mass->assign(g.size(), 0);
    for (size_t k = 0; k < c.n_in && !c.first; k++)
        for (size_t o = 0; o < c.n_out; o++) {
            const double x = weight(r, k, o);
            for (size_t i = 0; i < c.n; i++) {
                double t = x * r.back.at(i, o);
                g[i * c.n_in + k] += t, (*mass)[i * c.n_in + k] += fabs(t);
            }
        }
    const double keep = 1 / (1 - c.before_share);
    for (size_t at = 0; at < g.size() && !c.first; at++) {
        bool passes = c.before_relu ? r.x.at(at / c.n_in, at % c.n_in) > 0
                                    : c.before_share == 0 ||
                                          rig_stays(c.before_share, BEFORE, r.now.host[0], at);
        g[at] = passes ? g[at] * keep : 0;
        (*mass)[at] = passes ? (*mass)[at] * keep : 0;
    }
    return g;
}

static void check_below(rig &r, const std::vector<double> &want, const std::vector<double> &mass)
{
    const shape &c = r.c;
    r.below.x.down();
    /* It shares its kernel with planes, where gradients of samples beyond are 0 (kind.cuh). */
    r.below.check_border("back of the layer before", c.first ? 0 : c.n,
                         c.kind == SAME ? c.batch : r.cleared());
    for (size_t at = 0; at < want.size() && !c.first; at++) {
        double got = r.below.at(at / c.n_in, at % c.n_in);
        CHECK(fabs(got - want[at]) <= TINY * mass[at], "sample %zu, input %zu: %g, not %g",
              at / c.n_in, at % c.n_in, got, want[at]);
    }
}

static void check_moved(rig &r, const copy &was_w, const copy &was_b, corrections &correct)
{
    const shape &c = r.c;
    const copy is_w(r.w), is_b(r.bias);
    const bool wires = c.kind == SPARSE, moves = c.n > 0 && c.kind != SAME;
    std::vector<double> g(r.w.cols), mass(r.w.cols);
    for (size_t row = 0; row < r.w.rows + 2 * GUARD; row++) {
        bool in = row >= GUARD && row < GUARD + r.w.rows && moves;
        if (!in) CHECK(was_w.same_row(is_w, row, r.w.cols), "row %zu - guard was written", row);
        for (size_t col = 0; col < r.w.cols && in; col++) {
            size_t at = row - GUARD, o = wires ? at : col;
            size_t k = wires ? (size_t)r.in[at * c.fan + col] : at;
            g[col] = mass[col] = 0;
            for (size_t i = 0; i < c.n; i++) {
                double t = r.input(i, k) * r.back.at(i, o);
                g[col] += t, mass[col] += fabs(t);
            }
        }
        if (in)
            check_move(r.net->opt, correct.one.host, correct.two.host, r.w, was_w, is_w,
                       row - GUARD, g, mass, r.now[0].lr);
    }
    g.assign(c.n_out, 0), mass.assign(c.n_out, 0);
    for (size_t i = 0; i < c.n; i++)
        for (size_t o = 0; o < c.n_out; o++)
            g[o] += r.back.at(i, o), mass[o] += fabs(r.back.at(i, o));
    for (size_t row = 0; row < 1 + 2 * GUARD; row++)
        if (row != GUARD || !moves)
            CHECK(was_b.same_row(is_b, row, c.n_out), "bias: row %zu - guard was written", row);
    if (moves)
        check_move(r.net->opt, correct.one.host, correct.two.host, r.bias, was_b, is_b, 0, g, mass,
                   r.now[0].lr);
}

/* What is not to be read holds no numbers, and the last places still do not. */
static void check_ends(rig &r)
{
    r.turned.down(), r.scratch.down(), r.front.down();
    for (size_t i = r.turned.size() - 64; i < r.turned.size(); i++)
        CHECK(isnan(r.turned[i]), "turned: overrun");
    for (size_t i = r.scratch.size() - 64; i < r.scratch.size(); i++)
        CHECK(isnan(r.scratch[i]), "scratch: overrun");
    for (size_t i = r.front.size() - 64; i < r.front.size(); i++)
        CHECK(isnan(r.front[i]), "front: overrun");
}

static bool same_bits(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
}

static void run_shape(const shape &c, corrections &correct)
{
    char name[240];
    const char *const math[] = { "", ", tf32", ", bf16" };
    snprintf(name, sizeof name, "%s%s%s, %zu of %zu samples, %zu x %zu, fan %zu, %s%s%s%s%s",
             kind_names[c.kind], math[c.math], c.first ? ", first" : "", c.n, c.batch, c.n_in,
             c.n_out, c.fan, opt_names[c.opt], c.relu ? ", relu" : "",
             c.share > 0 ? ", dropout" : "", c.before_relu ? ", relu before" : "",
             c.before_share > 0 ? ", dropout before" : "");
    TEST(name);
    rig r(c, correct);
    const copy was_w(r.w), was_b(r.bias);
    std::vector<double> mass, below = below_of(r, &mass);
    r.forward(0);
    rig_sync("forward");
    check_forward(r);
    CHECK(was_w.same(copy(r.w)) && was_b.same(copy(r.bias)), "forward moved rows");
    r.backward(0);
    rig_sync("backward");
    check_below(r, below, mass);
    check_moved(r, was_w, was_b, correct);
    check_ends(r);
    r.check_copy();

    const std::vector<float> h = r.h.x.host, g = r.below.x.host; /* and again */
    const copy is_w(r.w), is_b(r.bias);
    was_w.put(r.w), was_b.put(r.bias);
    if (c.math != WISP_DCONV_FP32) r.round_weights();
    r.forward(0);
    r.backward(0);
    rig_sync("again");
    r.h.x.down(), r.below.x.down();
    CHECK(same_bits(h, r.h.x.host) && same_bits(g, r.below.x.host), "two runs differ");
    CHECK(is_w.same(copy(r.w)) && is_b.same(copy(r.bias)), "two runs move rows differently");
    test_close(); /* while the name is there */
}

static void run_shapes(corrections &correct)
{
    const size_t widths[] = { 4, 100, 32, 132, 64, 36 }, fans[] = { 1, 3, 32, 33, 64, 100 };
    for (int k = 0; k < 36; k++) {
        shape c = {};
        c.kind = k % 2 ? SPARSE : DENSE, c.opt = (enum wisp_optimizer_id)((k / 2 + k / 12) % 3);
        c.n_in = widths[k / 2 % 6], c.n_out = widths[(k / 2 + k / 12 * 2 + 1) % 6];
        c.batch = k % 5 == 0 ? 33 : 70, c.n = k % 3 ? 1 + rig_below(c.batch) : c.batch;
        c.first = c.kind == SPARSE && k % 4 == 1;
        if (c.first) c.n_in += k % 3; /* features come in any number */
        if (c.kind == SPARSE) c.fan = std::min(fans[k / 6], c.n_in);
        c.relu = rig_below(2), c.share = rig_below(2) ? 0.3 : 0;
        c.before_relu = rig_below(2), c.before_share = rig_below(2) ? 0.2 : 0;
        run_shape(c, correct);
    }
    const shape more[] = {
        { DENSE, 40, 0, 64, 32, 0, WISP_ADAM, false, true, true, 0, 0 }, /* no samples */
        { SPARSE, 40, 0, 64, 32, 7, WISP_ADAM, false, true, true, 0, 0 },
        { SPARSE, 40, 0, 64, 32, 7, WISP_SGD, true, true, true, 0, 0 },
        { DENSE, 40, 1, 64, 32, 0, WISP_ADAGRAD, false, true, false, 0.5, 0.25 },
        { SPARSE, 9, 9, 300, 20, 300, WISP_ADAGRAD, true, true, true, 0, 0 }, /* long rows */
        { SPARSE, 9, 9, 1300, 12, 1024, WISP_ADAM, true, true, true, 0, 0 },
        { SPARSE, 9, 9, 1300, 12, 1025, WISP_ADAGRAD, false, true, true, 0, 0 },
        { SPARSE, 40, 33, 1300, 12, 1300, WISP_SGD, true, true, true, 0.1, 0 },
        { SPARSE, 64, 61, 8, 260, 2, WISP_ADAM, false, true, true, 0, 0 }, /* long lists */
        { DENSE, 8, 8, 516, 260, 0, WISP_ADAM, false, false, false, 0, 0 },
        { DENSE, 300, 290, 36, 40, 0, WISP_ADAM, false, true, true, 0.1, 0.1 },
        { SPARSE, 300, 290, 36, 40, 9, WISP_ADAM, false, true, true, 0.1, 0.1 },
        { SAME, 50, 47, 36, 36, 0, WISP_ADAM, false, true, false, 0, 0.3 },
        { SAME, 50, 47, 36, 36, 0, WISP_ADAM, false, false, true, 0.3, 0.3 },
        { SAME, 50, 50, 4, 4, 0, WISP_ADAM, false, false, false, 0.3, 0 },
    };
    for (const shape &c : more) run_shape(c, correct);
    /* As large ones are: whole tiles, parts of them, samples in pieces of 32. */
    const size_t large[] = { 128, 300, 36, 260, 8 };
    for (int k = 0; k < 24; k++) {
        shape c = {};
        c.kind = DENSE, c.opt = (enum wisp_optimizer_id)(k % 3);
        c.math = k % 2 ? WISP_DCONV_BF16 : WISP_DCONV_TF32;
        c.n_in = large[k / 2 % 5], c.n_out = large[(k / 4 + 1) % 5];
        c.batch = k % 5 == 0 ? 32 : 70, c.n = k == 23 ? 0
                                              : k % 3 ? 1 + rig_below(c.batch)
                                                      : c.batch;
        c.relu = rig_below(2), c.share = rig_below(2) ? 0.3 : 0;
        c.before_relu = rig_below(2), c.before_share = rig_below(2) ? 0.2 : 0;
        run_shape(c, correct);
    }
}

/* ---- a graph ---- */

static void check_after(const struct wisp_dnet &n, size_t at, const char *kind, bool relu,
                        double share, int number)
{
    const struct wisp_dnode &l = n.layers[at];
    const struct wisp_dafter a = wisp_dafter_of(relu, share, number), &is = n.acts[l.out].after;
    CHECK(strcmp(l.kind->name, kind) == 0, "%s, not %s", l.kind->name, kind);
    CHECK(is.relu == relu && is.drops == (share > 0) && is.keep == a.keep,
          "another end of layer %zu: relu %d, dropout %d", at, is.relu, is.drops);
    CHECK(share == 0 || (is.limit == a.limit && is.stream == a.stream), "another mask");
}

static void check_net(void)
{
    TEST("a graph's layers");
    const struct {
        const char *kind;
        size_t width;
        double share;
    } said[] = { { "input", 8, 0 },     { "relu", 8, 0 },    { "dropout", 8, 0.2 },
                 { "dropout", 8, 0.3 }, { "sparse", 12, 0 }, { "dropout", 12, 0.4 },
                 { "relu", 12, 0 },     { "relu", 12, 0 },   { "dense", 4, 0 } };
    std::vector<int32_t> wires = { 0, 7, 1, 7, 2, 7, 3, 7, 4, 7, 5, 7,
                                   0, 1, 0, 2, 0, 3, 4, 5, 5, 6, 3, 4 };
    std::vector<float> w[9], bias[9], m[9];
    graph_rig rig(20, 3);
    for (int i = 0; i < 9; i++) {
        const size_t n_in = rig.acts.back().width, n_out = said[i].width;
        const bool sparse = strcmp(said[i].kind, "sparse") == 0;
        rig.add(said[i].kind, n_out);
        rig.layers.back().arg[0] = said[i].share;
        if (i % 4) continue;
        const size_t rows = sparse ? n_out : n_in, cols = sparse ? 2 : n_out;
        w[i].resize(rows * cols);
        for (float &x : w[i]) x = rig_float();
        m[i] = w[i], bias[i].assign(n_out, (float)i);
        rig.param(rows, cols, w[i].data())->m = m[i].data();
        rig.param(1, n_out, bias[i].data());
        if (sparse) rig.connections(n_out, 2, wires.data());
    }
    rig.add("output", 3);
    const struct wisp_graph g = rig.graph();
    std::unique_ptr<struct wisp_dnet> n(new wisp_dnet()), s(new wisp_dnet());
    size_t bytes = 0, at = 0;
    n->batch = s->batch = 5;
    wisp_error err = {};
    CHECK(wisp_dnet_check(&g, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_dnet_make(n.get(), &g, true);
    CHECK(wisp_dnet_plan(n.get(), &err) == WISP_OK, "%s", err.text);
    wisp_dnet_lay(n.get(), NULL, NULL, &bytes);
    both<unsigned char> block(bytes), other(bytes);
    wisp_dnet_lay(n.get(), NULL, block.dev, &at);
    CHECK(at == bytes, "%zu bytes, then %zu", bytes, at);
    CHECK(n->n_layers == 6 && n->last == 9, "%zu layers, the last value is %d", n->n_layers,
          n->last);
    check_after(*n, 0, "input", true, 0.2, 2);
    check_after(*n, 1, "dropout", false, 0.3, 3);
    check_after(*n, 2, "sparse", false, 0.4, 5);
    check_after(*n, 3, "relu", true, 0, 0);
    check_after(*n, 4, "relu", true, 0, 0);
    check_after(*n, 5, "dense", false, 0, 0);
    for (size_t i = 0; i < n->n_layers; i++) {
        const struct wisp_dnode &l = n->layers[i];
        const int from = i ? n->layers[i - 1].out : 0;
        CHECK(l.l->from[0] == from && n->acts[l.out].x && n->acts[l.out].g, "layer %zu reads %d", i,
              l.l->from[0]);
        CHECK(l.gx[0] == n->acts[from].g, "layer %zu: its gradient goes elsewhere", i);
    }
    at = 0;
    wisp_dnet_make(s.get(), &g, false);
    CHECK(wisp_dnet_plan(s.get(), &err) == WISP_OK, "%s", err.text);
    wisp_dnet_lay(s.get(), n.get(), other.dev, &at);
    CHECK(s->n_layers == n->n_layers && at == 0, "%zu layers borrowed, %zu bytes of their own",
          s->n_layers, at);
    for (size_t i = 0; i < s->n_layers; i++) {
        const struct wisp_dnode &a = s->layers[i], &b = n->layers[i];
        check_after(*s, i, b.kind->name, n->acts[b.out].after.relu, 0, 0);
        const char *x = (const char *)s->acts[a.out].x, *work = (const char *)n->work;
        CHECK(a.param[0].w == b.param[0].w && memcmp(a.ids, b.ids, sizeof a.ids) == 0 && !a.gx[0] &&
                  x >= work && x + 5 * s->acts[a.out].width * sizeof(float) <= work + n->work_bytes,
              "layer %zu: other weights, or values that are not where a step has its own", i);
    }
}

/* What has no form is refused by its own name. */
static void check_refusals(void)
{
    TEST("what has no form for cards is named");
    const size_t most = wisp_hash_most_width();
    char hashed[WISP_DWORDS];
    struct wisp_finders finders = {};
    finders.hash.n_tables = 1;
    snprintf(
        hashed, sizeof hashed,
        "layer 2, 'dense' with a width of %zu, where --sampling lsh hashes at most %zu on this "
        "card,",
        most + 4, most);
    const struct {
        const char *kind, *what;
        size_t width, last;
    } cases[] = {
        { "sampled", "a layer 'sampled'", 8, 8 },
        { "dense", "layer 1, 'dense' with a width of 30, which is no multiple of 4,", 30, 8 },
        { "sparse", "layer 1, 'sparse' with a width of 9, which is no multiple of 4,", 9, 8 },
        { "dense", hashed, 8, most + 4 },
    };
    for (const auto &c : cases) {
        graph_rig rig(20, 3);
        char text[200];
        wisp_error err = {};
        rig.add("input", 8), rig.add(c.kind, c.width), rig.add("dense", c.last);
        rig.add("output", 3);
        const struct wisp_graph g = rig.graph();
        snprintf(text, sizeof text, WISP_CUDA_LACKS, c.what);
        CHECK(wisp_dnet_check(&g, &finders, &err) == WISP_ENOTSUP && strcmp(err.text, text) == 0,
              "'%s'", err.text);
    }
}

/* Up and down again; connections by input. */
static void check_copies(void)
{
    TEST("weights and connections go up, weights come back");
    std::vector<int32_t> wires = { 1, 4, 0, 4, 1, 2, 2, 4 };
    std::vector<float> w(8), v(8), bias(4);
    for (float &x : w) x = rig_float();
    const std::vector<float> was = w;
    graph_rig rig(5, 3);
    rig.add("sparse", 4);
    rig.param(4, 2, w.data())->v = v.data();
    rig.param(1, 4, bias.data());
    rig.connections(4, 2, wires.data());
    rig.add("output", 3);
    const struct wisp_graph g = rig.graph();
    std::unique_ptr<struct wisp_dnet> n(new wisp_dnet());
    size_t bytes = 0, at = 0;
    wisp_error err = {};
    n->batch = 3;
    wisp_dnet_make(n.get(), &g, true);
    CHECK(wisp_dnet_plan(n.get(), &err) == WISP_OK, "%s", err.text);
    wisp_dnet_lay(n.get(), NULL, NULL, &bytes);
    both<unsigned char> block(bytes);
    wisp_dnet_lay(n.get(), NULL, block.dev, &at);
    struct wisp_dcopy up = { false, cudaSuccess }, down = { true, cudaSuccess };
    wisp_dnet_copy(&up, n.get());
    w.assign(8, 0);
    wisp_dnet_copy(&down, n.get());
    CHECK(up.e == cudaSuccess && down.e == cudaSuccess && w == was, "other weights came back");
    const uint32_t starts[] = { 0, 1, 3, 5, 5, 8 }, edges[] = { 2, 0, 4, 5, 6, 1, 3, 7 };
    uint32_t start[6], edge[8];
    int32_t output[8], in[8];
    void *const *own = n->layers[0].own;
    OK(cudaMemcpy(in, n->layers[0].ids[2], sizeof in, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(start, own[WISP_DSTART], sizeof start, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(edge, own[WISP_DEDGE], sizeof edge, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(output, own[WISP_DOUTPUT], sizeof output, cudaMemcpyDeviceToHost));
    CHECK(memcmp(in, wires.data(), sizeof in) == 0, "inputs differ");
    CHECK(memcmp(start, starts, sizeof start) == 0, "starts differ");
    CHECK(memcmp(edge, edges, sizeof edge) == 0, "edges differ");
    for (int e = 0; e < 8; e++) CHECK(output[e] == (int32_t)edges[e] / 2, "output of %d", e);
}

/* ---- time ---- */

static void time_layer(const shape &c, corrections &correct)
{
    enum { STEPS = 16 };
    rig r(c, correct);
    double forward = graph_us(STEPS, [&](size_t, cudaStream_t s) { r.forward(s); });
    double back = graph_us(STEPS, [&](size_t, cudaStream_t s) { r.backward(s); });
    double flop = 2e-6 * (double)c.n * (double)c.n_out * (double)(c.fan ? c.fan : c.n_in);
    printf("  time %s%s %zu x %zu%s, batch %zu, %s: forward %.2f us (%.2f TFLOP/s), back %.2f us "
           "(%.2f TFLOP/s)\n",
           kind_names[c.kind], c.first ? " first" : "", c.n_in, c.n_out, c.fan ? " of few" : "",
           c.batch, opt_names[c.opt], forward, flop / forward, back,
           (c.first ? 1 : 2) * flop / back);
}

int main(void)
{
    corrections correct;
    check_net();
    check_refusals();
    check_copies();
    run_shapes(correct);
    if (getenv("RIG_SMALL")) return test_end();
    for (size_t n : { (size_t)128, (size_t)256, (size_t)1024 }) {
        time_layer({ DENSE, n, n, 512, 512, 0, WISP_ADAM, false, true, true, 0, 0 }, correct);
        time_layer({ DENSE, n, n, 1024, 1024, 0, WISP_ADAM, false, true, true, 0, 0 }, correct);
        time_layer({ SPARSE, n, n, 1024, 1024, 32, WISP_ADAM, false, true, true, 0, 0 }, correct);
        time_layer({ SPARSE, n, n, 784, 1024, 32, WISP_ADAM, true, true, true, 0, 0 }, correct);
    }
    return test_end();
}
