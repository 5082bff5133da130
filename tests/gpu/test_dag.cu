/* Graphs of any shape on the card (dag.cu) against a plain walk in double: values, gradients of inputs,
 * weights and biases, of levels that are wide, thin, in turn, and of nodes with very many edges to or
 * from them; twice, to the same bytes.  Then times of the graphs of bench/graph.c; RIG_SMALL in the
 * environment: no times.
 *
 * Parameters move by SGD from rest, so that what they moved by is their gradient. */
#include "cuda/trainer.cuh"
#include "gpu/dag_rig.cuh"
#include "gpu/net_rig.cuh"
#include "gpu/param_rig.cuh"

#include "../../bench/graph_net.h"

#include <memory>
#include <string>

static const double RATE = 0.5, NEAR = 2e-5, TINIEST = 2e-7; /* of the largest; of any */

/* ---- a net of one graph ---- */

struct dag_net {
    struct rig_dag dag;
    graph_rig net;
    std::vector<float> w, bias, w_m, bias_m;
    explicit dag_net(const struct rig_dag &d)
        : dag(d), net(d.n_in, 3), w(d.from.size()), bias(d.n_nodes), w_m(w.size()),
          bias_m(d.n_nodes)
    {
        net.add("input", dag.n_in);
        net.add("dag", dag.out.size());
        net.param(1, w.size(), w.data())->m = w_m.data();
        net.param(1, dag.n_nodes, bias.data())->m = bias_m.data();
        rig_dag_fixed(&net, &dag);
        net.add("output", 3);
    }
};

/* On the card, for 'batch' samples, in a block in which nothing is a number yet. */
struct on_card {
    std::unique_ptr<struct wisp_dnet> net;
    both<unsigned char> block;
    both<struct wisp_dnow> now;
    on_card(const dag_net &r, size_t n, size_t batch, bool training)
        : net(new wisp_dnet()), block(0), now(1)
    {
        const struct wisp_graph g = r.net.graph();
        wisp_error err = {};
        CHECK(wisp_dnet_check(&g, NULL, &err) == WISP_OK, "%s", err.text);
        struct wisp_dnow d;
        memset((void *)&d, 0, sizeof d);
        d.n = (uint32_t)n, d.step = 41, d.seed = 99, d.lr = (float)RATE;
        now[0] = d;
        now.up();
        net->batch = batch, net->now = now.dev;
        net->opt = { WISP_SGD, 0.9f, NULL, NULL };
        wisp_dnet_make(net.get(), &g, training);
        CHECK(wisp_dnet_plan(net.get(), &err) == WISP_OK, "%s", err.text);
        lay_on_card(net.get(), &block);
    }
    ~on_card()
    {
        wisp_dnet_clear(net.get());
    }
};

static void put(float *card, const std::vector<float> &x)
{
    OK(cudaMemcpy(card, x.data(), x.size() * 4, cudaMemcpyHostToDevice));
}

static std::vector<float> take(const float *card, size_t n)
{
    std::vector<float> x(n);
    OK(cudaMemcpy(x.data(), card, n * 4, cudaMemcpyDeviceToHost));
    return x;
}

/* ---- against a walk ---- */

static void compare(const char *what, const std::vector<float> &got,
                    const std::vector<double> &want)
{
    double most = 0;
    for (double x : want) most = fmax(most, fabs(x));
    for (size_t at = 0; at < want.size(); at++)
        CHECK(fabs(got[at] - want[at]) <= NEAR * most + TINIEST, "%s, place %zu: %g, not %g", what,
              at, (double)got[at], want[at]);
}

struct results {
    std::vector<float> y, gx, w, bias;
    bool operator==(const results &o) const
    {
        return y == o.y && gx == o.gx && w == o.w && bias == o.bias;
    }
};

static struct results run(const dag_net &given, size_t n, size_t batch, const std::vector<float> &x,
                          const std::vector<float> &gy)
{
    dag_net r(given.dag);
    r.w = given.w, r.bias = given.bias;
    on_card card(r, n, batch, true);
    const struct wisp_dnet &net = *card.net;
    const struct wisp_dact &in = net.acts[1], &out = net.acts[2];
    put(in.x, x);
    wisp_dnet_forward(net, false, 0);
    rig_sync("forward");
    struct results is;
    is.y = take(out.x, n * out.width);
    put(out.g, gy);
    wisp_dnet_backward(net, false, 0);
    rig_sync("back");
    is.gx = take(in.g, n * in.width);
    struct wisp_dcopy down = { true, cudaSuccess };
    wisp_dnet_copy(&down, &net);
    OK(down.e);
    is.w = r.w, is.bias = r.bias;
    return is;
}

struct shape {
    const char *name;
    size_t n_in;
    std::vector<size_t> widths; /* of levels */
    size_t fan, n_out;
};

static void check_shape(const struct shape &c, size_t n, size_t batch)
{
    const std::string title = std::string("graph: ") + c.name + ", " + std::to_string(n) +
                              " samples of " + std::to_string(batch);
    TEST(title.c_str());
    dag_net r(rig_dag_draw(c.n_in, c.widths, c.fan, c.n_out));
    const struct rig_dag &d = r.dag;
    for (float &w : r.w) w = rig_float();
    rig_dag_scale(&r.w, d);
    for (float &b : r.bias) b = 0.3f * rig_float();
    std::vector<float> x(n * c.n_in), gy(n * c.n_out);
    for (float &v : x) v = rig_float();
    for (float &v : gy) v = 0.1f * rig_float();

    const size_t all = d.n_nodes + d.n_in;
    std::vector<double> y(n * c.n_out), gx(n * c.n_in), w(d.from.size()), bias(d.n_nodes);
    for (size_t s = 0; s < n; s++) {
        std::vector<double> v(all), z(d.n_nodes), g(all);
        for (size_t i = 0; i < d.n_in; i++) v[d.n_nodes + i] = x[s * d.n_in + i];
        rig_dag_walk(d, r.w.data(), r.bias.data(), &v, &z);
        for (size_t o = 0; o < c.n_out; o++) {
            y[s * c.n_out + o] = v[(size_t)d.out[o]];
            g[(size_t)d.out[o]] = gy[s * c.n_out + o];
        }
        rig_dag_back(d, r.w.data(), v, z, &g, w.data(), bias.data(), -RATE);
        for (size_t i = 0; i < d.n_in; i++) gx[s * d.n_in + i] = g[d.n_nodes + i];
    }
    const struct results is = run(r, n, batch, x, gy);
    compare("value", is.y, y);
    compare("gradient of an input", is.gx, gx);
    std::vector<float> moved(is.w), moved_bias(is.bias);
    for (size_t e = 0; e < moved.size(); e++) moved[e] -= r.w[e];
    for (size_t o = 0; o < moved_bias.size(); o++) moved_bias[o] -= r.bias[o];
    compare("weight", moved, w);
    compare("bias", moved_bias, bias);
    CHECK(is == run(r, n, batch, x, gy), "other bytes the second time");
    test_close(); /* while the name is there */
}

/* ---- times ---- */

static void time_net(size_t levels, enum wisp_node_function_id function, const char *name)
{
    struct rig_dag d = { GRAPH_NODES, GRAPH_INPUTS, GRAPH_FAN, {}, {}, {}, {} };
    std::vector<float> w(GRAPH_NODES * GRAPH_FAN);
    d.start.resize(GRAPH_NODES + 1), d.from.resize(w.size()), d.out.resize(GRAPH_OUTPUTS);
    d.function.assign(GRAPH_NODES, function);
    graph_draw(d.start.data(), d.from.data(), w.data(), d.out.data(), levels);
    dag_net r(d);
    r.w = w;
    std::vector<float> x(GRAPH_BATCH * GRAPH_INPUTS);
    both<float> gy(GRAPH_BATCH * GRAPH_OUTPUTS);
    for (float &v : x) v = (rig_float() + 1) / 2;
    for (float &v : gy.host) v = 1e-6f * rig_float(); /* weights stay about as they are */
    gy.up();
    double us[2];
    for (bool training : { false, true }) {
        on_card card(r, GRAPH_BATCH, GRAPH_BATCH, training);
        const struct wisp_dnet &net = *card.net;
        put(net.acts[1].x, x);
        us[training] = graph_us(1, [&](size_t, cudaStream_t s) {
            wisp_dnet_forward(net, false, s);
            if (!training) return;
            cudaMemcpyAsync(net.acts[2].g, gy.dev, gy.size() * 4, cudaMemcpyDeviceToDevice, s);
            wisp_dnet_backward(net, false, s);
        });
        rig_sync("times");
    }
    printf("  time %zu levels, %s, on the card: %.3f ms forward, %.3f forward, back and SGD\n",
           levels, name, us[0] / 1e3, us[1] / 1e3);
}

int main(void)
{
    const std::vector<shape> shapes = {
        { "one node", 4, { 1 }, 0, 4 },
        { "thin levels", 12, std::vector<size_t>(60, 3), 4, 24 },
        { "a path", 8, std::vector<size_t>(70, 1), 0, 8 },
        { "wide levels", 40, { 700, 500, 650 }, 9, 100 },
        { "wide and thin in turn", 20, { 600, 2, 5, 3, 400, 1, 7, 900, 4 }, 8, 60 },
        { "many edges to a node, and from one", 1300, { 1, 400, 1, 1500, 1, 3 }, 6, 36 },
        { "many edges from inputs", 4, { 800, 800 }, 3, 20 },
    };
    for (const shape &c : shapes)
        for (size_t n : { (size_t)1, (size_t)47, (size_t)70 }) check_shape(c, n, 70);
    test_close();
    if (getenv("RIG_SMALL")) return test_end();
    for (size_t levels : { 10, 100, 1000 }) time_net(levels, WISP_NODE_RELU, "relu");
    time_net(100, WISP_NODE_TANH, "tanh");
    return test_end();
}
