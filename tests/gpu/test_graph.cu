/* Graphs with branches on the card: joins, values with several readers, batch norm, clip, fixed
 * connections in any number, graphs as layers and what is fused, forward and back, against plain
 * code in double written from the definitions of layer/, which does one layer at a time and adds
 * gradients up.
 *
 * The first layer stands for the rows: what it gives is drawn.  Parameters move by SGD from rest, so
 * that what they moved by is their gradient. */
#include "cuda/trainer.cuh"
#include "gpu/dag_rig.cuh"
#include "gpu/net_rig.cuh"
#include "gpu/param_rig.cuh"

#include <algorithm>
#include <deque>
#include <memory>
#include <string>

static const double RATE = 0.5, NEAR = 2e-5, TINIEST = 2e-7; /* of the largest; of any */

struct said {
    const char *kind;
    size_t width;
    double arg;
    std::vector<int> from; /* empty: what the one before gives */
};

struct numbers {                                  /* of a graph */
    std::deque<std::vector<float>> w, m;          /* all parameters, in order; moments */
    std::vector<std::vector<double>> x, g, moved; /* by value; by parameter */
};

struct rig {
    size_t n, batch;
    graph_rig net;
    numbers is;
    std::vector<size_t> first;               /* parameter of each layer */
    std::deque<std::vector<int64_t>> starts; /* of each sparse layer, in order */
    std::deque<std::vector<int32_t>> ids;
    std::deque<struct rig_dag> dags; /* of each graph, in order */
    both<struct wisp_dnow> now;
    explicit rig(size_t samples, size_t most, size_t width)
        : n(samples), batch(most), net(width, 3), now(1)
    {
    }
};

static bool kind_is(const struct wisp_layer &l, const char *name)
{
    return strcmp(l.kind->name, name) == 0;
}

static void add_param(rig *r, size_t rows, size_t cols, float least, float most)
{
    r->is.w.push_back(std::vector<float>(rows * cols));
    r->is.m.push_back(std::vector<float>(rows * cols));
    for (float &x : r->is.w.back()) x = least + (most - least) * (rig_float() + 1) / 2;
    r->net.param(rows, cols, r->is.w.back().data())->m = r->is.m.back().data();
}

/* Outputs of 0 to 'most' inputs, of which some have none and one has most. */
static void add_wires(rig *r, size_t n_in, size_t n_out, size_t most)
{
    std::vector<int64_t> start(n_out + 1, 0);
    std::vector<int32_t> ids, all(n_in);
    for (size_t o = 0; o < n_out; o++) {
        const size_t n = o % 4 == 1 ? 0 : o == 2 ? most : 1 + rig_below(most);
        for (size_t i = 0; i < n_in; i++) all[i] = (int32_t)i;
        for (size_t i = 0; i < n; i++) std::swap(all[i], all[i + rig_below(n_in - i)]);
        std::sort(all.begin(), all.begin() + (long)n);
        ids.insert(ids.end(), all.begin(), all.begin() + (long)n);
        start[o + 1] = (int64_t)ids.size();
    }
    r->starts.push_back(start), r->ids.push_back(ids);
    add_param(r, 1, ids.size(), -0.5f, 0.5f);
    add_param(r, 1, n_out, -0.2f, 0.2f);
    struct wisp_param *starts = r->net.param(1, n_out + 1, NULL);
    starts->role = WISP_STARTS, starts->start = r->starts.back().data();
    struct wisp_param *inputs = r->net.connections(n_out, most, r->ids.back().data());
    struct wisp_param *weight = &r->net.params.back()[0];
    for (struct wisp_param *p : { weight, inputs }) {
        p->rows = n_out, p->cols = most, p->n = ids.size();
        p->ragged = true, p->start = r->starts.back().data();
    }
}

/* Wide and thin levels in turn; 'fan' as rig_dag_draw has it. */
static void add_dag(rig *r, size_t n_in, size_t n_out, size_t fan)
{
    r->dags.push_back(rig_dag_draw(n_in, { 300, 3, 1, 350, 20, 5 }, fan, n_out));
    struct rig_dag &d = r->dags.back();
    add_param(r, 1, d.from.size(), -1, 1);
    rig_dag_scale(&r->is.w.back(), d);
    add_param(r, 1, d.n_nodes, -0.3f, 0.3f);
    rig_dag_fixed(&r->net, &d);
}

static void say(rig *r, const std::vector<said> &all)
{
    r->net.add("input", r->net.n_features);
    r->first.push_back(0);
    for (const said &s : all) {
        r->first.push_back(r->is.w.size());
        const struct wisp_layer &l = r->net.layers[r->net.add(s.kind, s.width, s.from)];
        struct wisp_layer &own = r->net.layers.back();
        own.arg[0] = s.arg;
        if (kind_is(l, "dense")) {
            add_param(r, l.n_in, l.n_out, -0.5f, 0.5f);
            add_param(r, 1, l.n_out, -0.2f, 0.2f);
        }
        if (kind_is(l, "sparse")) add_wires(r, l.n_in, l.n_out, (size_t)s.arg);
        if (kind_is(l, "dag")) add_dag(r, l.n_in, l.n_out, (size_t)s.arg);
        if (!kind_is(l, "bn")) continue;
        own.arg[0] = 0.1, own.arg[1] = 1e-5;
        add_param(r, 1, l.n_out, 0.5f, 1.5f);
        add_param(r, 1, l.n_out, -0.5f, 0.5f);
        for (int k = 0; k < 2; k++) {
            add_param(r, 1, l.n_out, 0.5f, 1.5f);
            r->net.params.back().back().role = WISP_STATE;
            r->net.params.back().back().m = NULL;
        }
    }
    r->net.add("output", 3);
}

/* ---- plain code ---- */

/* Kinds that look at one unit at a time: what it becomes, and the slope there.  Each is also in a net
 * of its own, with this argument. */
static const struct single {
    const char *kind;
    double arg;
    double (*on)(double x, double arg), (*slope)(double x, double arg);
} singles[] = {
    { "relu", 0, [](double x, double) { return x > 0 ? x : 0; },
      [](double x, double) { return x > 0 ? 1.0 : 0.0; } },
    { "clip", 0.4, [](double x, double most) { return x > most ? most : x; },
      [](double x, double most) { return x < most ? 1.0 : 0.0; } },
    { "identity", 0, [](double x, double) { return x; }, [](double, double) { return 1.0; } },
    { "flatten", 0, [](double x, double) { return x; }, [](double, double) { return 1.0; } },
};

static const struct single *single_of(const struct wisp_layer &l)
{
    for (const struct single &k : singles)
        if (kind_is(l, k.kind)) return &k;
    return NULL;
}

static void normal(const rig &r, size_t i, const std::vector<double> &x, std::vector<double> *mean,
                   std::vector<double> *var)
{
    const size_t w = r.net.layers[i].n_out;
    mean->assign(w, 0), var->assign(w, 0);
    for (size_t at = 0; at < r.n * w; at++) (*mean)[at % w] += x[at] / (double)r.n;
    for (size_t at = 0; at < r.n * w; at++) {
        const double d = x[at] - (*mean)[at % w];
        (*var)[at % w] += d * d / (double)r.n;
    }
}

struct piece { /* where column c of a concat comes from */
    size_t act, width, column;
};

static struct piece piece_of(const rig &r, const struct wisp_layer &l, size_t c)
{
    int k = 0;
    for (; c >= r.net.acts[l.from[k]].width; k++) c -= r.net.acts[l.from[k]].width;
    return { (size_t)l.from[k], r.net.acts[l.from[k]].width, c };
}

/* Which of the layers of its kind layer i is. */
static size_t turn_of(const rig &r, size_t i)
{
    size_t turn = 0;
    for (size_t k = 0; k < i; k++) turn += kind_is(r.net.layers[k], r.net.layers[i].kind->name);
    return turn;
}

static void sparse_forward(rig &r, size_t i)
{
    const struct wisp_layer &l = r.net.layers[i];
    const std::vector<double> &x = r.is.x[(size_t)l.from[0]];
    const auto &start = r.starts[turn_of(r, i)];
    const auto &ids = r.ids[turn_of(r, i)];
    for (size_t at = 0; at < r.n * l.n_out; at++) {
        const size_t s = at / l.n_out, o = at % l.n_out;
        double &y = r.is.x[i + 1][at] = r.is.w[r.first[i] + 1][o];
        for (auto e = (size_t)start[o]; e < (size_t)start[o + 1]; e++)
            y += r.is.w[r.first[i]][e] * x[s * l.n_in + (size_t)ids[e]];
    }
}

static void sparse_backward(rig &r, size_t i)
{
    const struct wisp_layer &l = r.net.layers[i];
    const std::vector<double> &x = r.is.x[(size_t)l.from[0]], &g = r.is.g[i + 1];
    const auto &start = r.starts[turn_of(r, i)];
    const auto &ids = r.ids[turn_of(r, i)];
    const size_t p = r.first[i];
    for (size_t at = 0; at < r.n * l.n_out; at++) {
        const size_t s = at / l.n_out, o = at % l.n_out;
        for (auto e = (size_t)start[o]; e < (size_t)start[o + 1]; e++) {
            const size_t from = s * l.n_in + (size_t)ids[e];
            r.is.g[(size_t)l.from[0]][from] += g[at] * r.is.w[p][e];
            r.is.moved[p][e] -= RATE * g[at] * x[from];
        }
        r.is.moved[p + 1][o] -= RATE * g[at];
    }
}

/* Forward, or also back. */
static void do_dag(rig &r, size_t i, bool back)
{
    const struct wisp_layer &l = r.net.layers[i];
    const struct rig_dag &d = r.dags[turn_of(r, i)];
    const size_t p = r.first[i], from = (size_t)l.from[0];
    const float *w = r.is.w[p].data(), *bias = r.is.w[p + 1].data();
    for (size_t s = 0; s < r.n; s++) {
        std::vector<double> v(d.n_nodes + d.n_in), z(d.n_nodes), g(v.size());
        for (size_t k = 0; k < d.n_in; k++) v[d.n_nodes + k] = r.is.x[from][s * d.n_in + k];
        rig_dag_walk(d, w, bias, &v, &z);
        for (size_t o = 0; o < l.n_out; o++) {
            if (back) g[(size_t)d.out[o]] = r.is.g[i + 1][s * l.n_out + o];
            else r.is.x[i + 1][s * l.n_out + o] = v[(size_t)d.out[o]];
        }
        if (!back) continue;
        rig_dag_back(d, w, v, z, &g, r.is.moved[p].data(), r.is.moved[p + 1].data(), -RATE);
        for (size_t k = 0; k < d.n_in; k++) r.is.g[from][s * d.n_in + k] += g[d.n_nodes + k];
    }
}

static void forward(rig &r, size_t i)
{
    const struct wisp_layer &l = r.net.layers[i];
    const std::vector<double> &x = r.is.x[(size_t)l.from[0]];
    const auto *w = r.first[i] < r.is.w.size() ? &r.is.w[r.first[i]] : NULL;
    const size_t in = l.n_in, out = l.n_out;
    std::vector<double> &y = r.is.x[i + 1], mean, var;
    y.assign(r.n * out, 0);
    if (kind_is(l, "sparse") || kind_is(l, "dag")) {
        if (kind_is(l, "dag")) do_dag(r, i, false);
        else sparse_forward(r, i);
        return;
    }
    if (kind_is(l, "bn")) normal(r, i, x, &mean, &var);
    for (size_t at = 0; at < r.n * out; at++) {
        const size_t s = at / out, c = at % out;
        if (kind_is(l, "dense")) {
            y[at] = r.is.w[r.first[i] + 1][c];
            for (size_t k = 0; k < in; k++) y[at] += x[s * in + k] * (*w)[k * out + c];
        } else if (kind_is(l, "add")) {
            for (int k = 0; k < l.n_from; k++) y[at] += r.is.x[(size_t)l.from[k]][at];
        } else if (kind_is(l, "concat")) {
            const struct piece p = piece_of(r, l, c);
            y[at] = r.is.x[p.act][s * p.width + p.column];
        } else if (kind_is(l, "bn")) {
            y[at] =
                (x[at] - mean[c]) / sqrt(var[c] + l.arg[1]) * (*w)[c] + r.is.w[r.first[i] + 1][c];
        } else if (kind_is(l, "dropout")) {
            y[at] = rig_stays(l.arg[0], l.number, r.now[0], at) ? x[at] / (1 - l.arg[0]) : 0;
        } else {
            const struct single *k = single_of(l);
            CHECK(k, "no plain code for '%s'", l.kind->name);
            y[at] = k ? k->on(x[at], l.arg[0]) : 0;
        }
    }
}

static void norm_backward(rig &r, size_t i)
{
    const struct wisp_layer &l = r.net.layers[i];
    const std::vector<double> &x = r.is.x[(size_t)l.from[0]], &g = r.is.g[i + 1];
    const size_t w = l.n_out, p = r.first[i];
    std::vector<double> mean, var, sum(w), dot(w);
    normal(r, i, x, &mean, &var);
    for (size_t at = 0; at < r.n * w; at++) {
        const size_t c = at % w;
        sum[c] += g[at], dot[c] += g[at] * (x[at] - mean[c]) / sqrt(var[c] + l.arg[1]);
    }
    for (size_t at = 0; at < r.n * w; at++) {
        const size_t c = at % w;
        const double inverse = 1 / sqrt(var[c] + l.arg[1]), n = (double)r.n;
        r.is.g[(size_t)l.from[0]][at] +=
            r.is.w[p][c] * inverse *
            (g[at] - sum[c] / n - (x[at] - mean[c]) * inverse * dot[c] / n);
    }
    for (size_t c = 0; c < w; c++) {
        const double whole = r.n > 1 ? (double)r.n / (double)(r.n - 1) : 1;
        r.is.moved[p][c] = -RATE * dot[c], r.is.moved[p + 1][c] = -RATE * sum[c];
        r.is.moved[p + 2][c] = l.arg[0] * (mean[c] - r.is.w[p + 2][c]);
        r.is.moved[p + 3][c] = l.arg[0] * (whole * var[c] - r.is.w[p + 3][c]);
    }
}

/* Adds to the gradients of what the layer read. */
static void backward(rig &r, size_t i)
{
    const struct wisp_layer &l = r.net.layers[i];
    const std::vector<double> &x = r.is.x[(size_t)l.from[0]], &g = r.is.g[i + 1];
    std::vector<double> &gx = r.is.g[(size_t)l.from[0]];
    const size_t in = l.n_in, out = l.n_out, p = r.first[i];
    if (kind_is(l, "bn") || kind_is(l, "sparse") || kind_is(l, "dag")) {
        if (kind_is(l, "bn")) norm_backward(r, i);
        else if (kind_is(l, "dag")) do_dag(r, i, true);
        else sparse_backward(r, i);
        return;
    }
    for (size_t at = 0; at < r.n * out; at++) {
        const size_t s = at / out, c = at % out;
        if (kind_is(l, "dense")) {
            for (size_t k = 0; k < in; k++) {
                gx[s * in + k] += g[at] * r.is.w[p][k * out + c];
                r.is.moved[p][k * out + c] -= RATE * g[at] * x[s * in + k];
            }
            r.is.moved[p + 1][c] -= RATE * g[at];
        } else if (kind_is(l, "add")) {
            for (int k = 0; k < l.n_from; k++) r.is.g[(size_t)l.from[k]][at] += g[at];
        } else if (kind_is(l, "concat")) {
            const struct piece q = piece_of(r, l, c);
            r.is.g[q.act][s * q.width + q.column] += g[at];
        } else if (kind_is(l, "dropout")) {
            gx[at] += rig_stays(l.arg[0], l.number, r.now[0], at) ? g[at] / (1 - l.arg[0]) : 0;
        } else if (const struct single *k = single_of(l)) {
            gx[at] += g[at] * k->slope(x[at], l.arg[0]);
        }
    }
}

/* ---- on the card ---- */

static void put(float *card, const std::vector<double> &x)
{
    const std::vector<float> y(x.begin(), x.end());
    OK(cudaMemcpy(card, y.data(), y.size() * 4, cudaMemcpyHostToDevice));
}

static std::vector<float> take(const float *card, size_t n)
{
    std::vector<float> x(n);
    OK(cudaMemcpy(x.data(), card, n * 4, cudaMemcpyDeviceToHost));
    return x;
}

template <class A>
static void compare(const char *what, size_t i, const A &got, const std::vector<double> &want)
{
    double most = 0;
    for (double x : want) most = fmax(most, fabs(x));
    for (size_t at = 0; at < want.size(); at++)
        CHECK(fabs(got[at] - want[at]) <= NEAR * most + TINIEST, "%s %zu, place %zu: %g, not %g",
              what, i, at, (double)got[at], want[at]);
}

/* A net on the card, with a block in which nothing is a number yet. */
struct on_card {
    std::unique_ptr<struct wisp_dnet> net;
    both<unsigned char> block;
    on_card(const rig &r, const struct wisp_graph &g, bool keep) : net(new wisp_dnet()), block(0)
    {
        wisp_error err = {};
        net->batch = r.batch, net->now = r.now.dev, net->keep = keep;
        net->opt = { WISP_SGD, 0.9f, NULL, NULL };
        wisp_dnet_make(net.get(), &g, true);
        CHECK(wisp_dnet_plan(net.get(), &err) == WISP_OK, "%s", err.text);
        CHECK(net->work_bound <= net->work_bytes, "%zu bytes, and %zu at once", net->work_bytes,
              net->work_bound);
        lay_on_card(net.get(), &block);
    }
    ~on_card()
    {
        wisp_dnet_clear(net.get());
    }
    /* A step, from what the first layer gives and the gradient of what the last one does. */
    void step(const std::vector<double> &x, const std::vector<double> &g)
    {
        const struct wisp_dact &last = net->acts[net->last];
        put(net->acts[1].x, x);
        wisp_dnet_forward(*net, false, 0);
        put(net->acts[1].x, x);
        wisp_dnet_forward(*net, false, 0); /* a second time changes nothing */
        put(last.g, g);
        wisp_same_through(*net, last, last.g, last.g, 0);
        wisp_dnet_backward(*net, false, 0);
        rig_sync("a graph");
        struct wisp_dcopy down = { true, cudaSuccess };
        wisp_dnet_copy(&down, net.get());
        OK(down.e);
    }
};

/* Side streams read the value that the head reads until the step ends: nothing that is written on the
 * way back lies over it. */
static void check_last(const struct wisp_dnet &n)
{
    const struct wisp_dact &last = n.acts[n.last];
    const float *from = last.x, *end = from + n.batch * last.width;
    auto over = [&](const float *p, size_t floats) { return p && p < end && from < p + floats; };
    for (size_t i = 0; i < n.n_layers; i++) {
        const struct wisp_dnode &l = n.layers[i];
        const size_t scratch = l.kind->scratch ? l.kind->scratch(l, n) : 0;
        bool bad = over(n.acts[l.out].g, n.batch * n.acts[l.out].width);
        bad |= scratch && over(l.scratch, scratch);
        for (int k = 0; k < l.n_from; k++) bad |= over(l.gx[k], n.batch * n.acts[l.from[k]].width);
        CHECK(!bad, "layer %zu goes back over what the head reads", i);
    }
}

/* alone: no layer is a part of another, as if each value had one more reader. */
static void check_graph(const char *name, size_t n, size_t batch, size_t width,
                        const std::vector<said> &all, bool alone)
{
    const std::string title = std::string(name) + ", " + std::to_string(n) + " samples" +
                              (alone ? ", each layer alone" : "");
    TEST(title.c_str());
    rig r(n, batch, width);
    say(&r, all);
    for (struct wisp_act &a : r.net.acts) a.n_readers += alone;
    const struct wisp_graph g = r.net.graph();
    const size_t layers = r.net.layers.size() - 1;
    wisp_error err = {};
    CHECK(wisp_dnet_check(&g, NULL, &err) == WISP_OK, "%s", err.text);
    struct wisp_dnow d;
    memset((void *)&d, 0, sizeof d);
    d.n = (uint32_t)n, d.step = 41, d.seed = 99, d.lr = (float)RATE;
    r.now[0] = d;
    r.now.up();

    r.is.x.resize(layers + 1), r.is.g.resize(layers + 1);
    r.is.x[1].resize(n * width);
    for (double &x : r.is.x[1]) x = (double)rig_float();
    for (size_t i = 1; i < layers; i++) forward(r, i);
    for (size_t i = 1; i <= layers; i++) r.is.g[i].assign(r.is.x[i].size(), 0);
    for (double &x : r.is.g[layers]) x = 0.1 * (double)rig_float();
    for (auto &w : r.is.w) r.is.moved.push_back(std::vector<double>(w.size(), 0));
    const std::vector<double> x = r.is.x[1], gradient = r.is.g[layers];
    const std::deque<std::vector<float>> was = r.is.w;
    for (size_t i = layers; i-- > 1;) backward(r, i);

    /* Everything stays where it is ... */
    on_card apart(r, g, true);
    CHECK(apart.net->n_layers == layers || !alone, "%zu layers of %zu", apart.net->n_layers,
          layers);
    apart.step(x, gradient);
    for (size_t i = 0; i < apart.net->n_layers; i++) {
        const struct wisp_dnode &l = apart.net->layers[i];
        const struct wisp_dact &a = apart.net->acts[l.out];
        compare("value", (size_t)l.out, take(a.x, n * a.width), r.is.x[(size_t)l.out]);
        if (l.kind->is) continue; /* its gradient lies behind its own work */
        compare("gradient of what layer makes", i, take(a.g, n * a.width),
                r.is.g[(size_t)l.l->number + 1]);
    }
    for (size_t p = 0; p < r.is.w.size(); p++) {
        std::vector<double> moved(was[p].size());
        for (size_t k = 0; k < moved.size(); k++) moved[k] = (double)r.is.w[p][k] - was[p][k];
        compare("parameter", p, moved, r.is.moved[p]);
    }
    /* ... or things lie over each other, and nobody sees it. */
    const std::deque<std::vector<float>> moved = r.is.w;
    for (size_t p = 0; p < was.size(); p++) {
        std::copy(was[p].begin(), was[p].end(), r.is.w[p].begin());
        std::fill(r.is.m[p].begin(), r.is.m[p].end(), 0.0f);
    }
    on_card over(r, g, false);
    CHECK(over.net->work_bytes < apart.net->work_bytes, "%zu bytes, and %zu side by side",
          over.net->work_bytes, apart.net->work_bytes);
    check_last(*over.net);
    over.step(x, gradient);
    const struct wisp_dact &a = apart.net->acts[apart.net->last],
                           &b = over.net->acts[over.net->last];
    CHECK(moved == r.is.w && take(a.x, n * a.width) == take(b.x, n * b.width),
          "other numbers where things lie over each other");
    test_close(); /* while the name is there */
}

struct graph_case {
    const char *name;
    size_t width;
    std::vector<said> all;
};

int main(void)
{
    std::vector<graph_case> cases = {
        { "residual",
          8,
          { { "dense", 8, 0, {} }, /* value 2 */
            { "relu", 8, 0, {} },
            { "dense", 8, 0, {} },
            { "add", 8, 0, { 4, 1 } },
            { "relu", 8, 0, {} } } },
        { "two residual blocks",
          36,
          { { "dense", 36, 0, {} },
            { "relu", 36, 0, {} }, /* value 3 */
            { "dense", 36, 0, {} },
            { "relu", 36, 0, {} },
            { "add", 36, 0, { 5, 3 } },
            { "relu", 36, 0, {} }, /* value 7 */
            { "dense", 36, 0, {} },
            { "dropout", 36, 0.25, {} },
            { "add", 36, 0, { 9, 7, 3 } },
            { "dropout", 36, 0.5, {} } } },
        { "two branches",
          40,
          { { "dense", 12, 0, {} },
            { "relu", 12, 0, {} }, /* value 3 */
            { "dense", 4, 0, { 1 } },
            { "clip", 4, 0.1, {} }, /* value 5 */
            { "concat", 56, 0, { 3, 5, 1 } },
            { "dropout", 56, 0.3, {} },
            { "dense", 4, 0, {} } } },
        { "batch norm",
          100,
          { { "bn", 100, 0, {} },
            { "relu", 100, 0, {} },
            { "dropout", 100, 0.2, {} }, /* value 4 */
            { "dense", 100, 0, {} },
            { "bn", 100, 0, {} }, /* value 6 */
            { "add", 100, 0, { 6, 4, 6 } },
            { "flatten", 100, 0, {} },
            { "identity", 100, 0, {} },
            { "relu", 100, 0, {} },
            { "relu", 100, 0, {} } } },
        { "connections in any number",
          1100,
          { { "sparse", 36, 1100, {} }, /* longer than what shared memory holds */
            { "relu", 36, 0, {} },      /* value 3 */
            { "sparse", 40, 33, {} },
            { "dropout", 40, 0.2, {} },
            { "sparse", 36, 5, {} },
            { "add", 36, 0, { 6, 3 } },
            { "relu", 36, 0, {} } } },
    };
    cases.push_back({ "graphs of any shape",
                      40,
                      { { "dense", 44, 0, {} },
                        { "relu", 44, 0, {} }, /* value 3 */
                        { "dag", 24, 5, {} },
                        { "relu", 24, 0, {} },
                        { "dropout", 24, 0.25, {} }, /* value 6 */
                        { "dag", 44, 3, { 3 } },     /* value 7 */
                        { "concat", 68, 0, { 6, 7 } },
                        { "dag", 12, 8, {} } } });
    for (const struct single &k : singles) /* behind what is fused */
        if (!wisp_card_kind_find(k.kind)->is)
            cases.push_back({ k.kind,
                              8,
                              { { "dense", 8, 0, {} },
                                { "relu", 8, 0, {} },
                                { "dropout", 8, 0.5, {} },
                                { k.kind, 8, k.arg, {} },
                                { "relu", 8, 0, {} },
                                { "add", 8, 0, { 1, 6, 1, 5 } } } });
    for (const graph_case &c : cases)
        for (size_t n : { (size_t)1, (size_t)47, (size_t)70 })
            for (bool alone : { false, true }) check_graph(c.name, n, 70, c.width, c.all, alone);
    return test_end();
}
