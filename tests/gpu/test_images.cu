/* Nets of images on the card: image, conv, pools, batch norm of planes, joins, flatten and what is
 * fused, forward and back, and what the scorer says of them, against plain code in double
 * (image_rig.cuh). */
#include "cuda/trainer.cuh"
#include "gpu/image_rig.cuh"
#include "gpu/net_rig.cuh"

#include <memory>
#include <string>

extern "C" const struct wisp_cuda *wisp_cuda_table(void);

static const double NEAR = 2e-5, TINIEST = 1e-6; /* of the largest; of any */
/* Products of rounded numbers: how far a value, as a vector, may be away, and a gradient, where a
 * ReLU or a maximum that decides otherwise counts, too: with planes of bf16 in nets as small as these
 * up to half.  A wrong one is as far as it is long. */
static const struct roughness {
    const char *name;
    enum wisp_dconv_math math;
    double value, back; /* 0: each number by NEAR */
} exact = { "", WISP_DCONV_FP32, 0, 0 }, tf32 = { ", tf32", WISP_DCONV_TF32, 0.01, 0.5 },
  bf16 = { ", bf16", WISP_DCONV_BF16, 0.03, 0.7 };
static struct roughness rough;

/* ---- on the card ---- */

/* The value in the host's order; channels past the last are 0, and so are, of gradients, samples
 * beyond the batch's. */
static std::vector<float> take(const rig &r, const struct wisp_dnet &net, const struct wisp_dact &a,
                               const float *card, bool all)
{
    std::vector<float> x(r.batch * a.width), y;
    std::vector<uint16_t> half(x.size());
    OK(cudaMemcpy(a.half ? (void *)half.data() : x.data(), card, x.size() * (a.half ? 2 : 4),
                  cudaMemcpyDeviceToHost));
    for (size_t at = 0; at < x.size() && a.half; at++) x[at] = rig_widen(half[at]);
    if (!a.c) return std::vector<float>(x.begin(), x.begin() + (long)(r.n * a.width));
    size_t bad = 0;
    for (size_t at = 0; at < (all ? x.size() : r.n * a.width); at++)
        if ((at % a.pitch >= a.c || at >= r.n * a.width) && x[at] != 0) bad = at + 1;
    CHECK(bad == 0, "value %d: %g at sample %zu, channel %zu of %zu", (int)(&a - net.acts),
          (double)x[bad - 1], (bad - 1) / a.width, (bad - 1) % a.pitch, a.c);
    for (size_t s = 0; s < r.n; s++)
        for (size_t c = 0; c < a.c; c++)
            for (size_t q = 0; q < a.h * a.w; q++) y.push_back(x[s * a.width + q * a.pitch + c]);
    return y;
}

template <class A>
static void compare(const char *what, size_t i, const A &got, const doubles &want)
{
    double most = 0;
    for (double x : want) most = fmax(most, fabs(x));
    CHECK(got.size() == want.size(), "%s %zu: %zu numbers, not %zu", what, i, got.size(),
          want.size());
    if (rough.value > 0) {
        double off = 0, all = 0;
        for (size_t at = 0; at < want.size(); at++)
            off += pow(got[at] - want[at], 2), all += pow(want[at], 2);
        const double most_off = strcmp(what, "value") == 0 ? rough.value : rough.back;
        CHECK(sqrt(off) <= most_off * sqrt(all), "%s %zu: %g of its length away", what, i,
              sqrt(off / all));
        return;
    }
    for (size_t at = 0; at < want.size(); at++)
        CHECK(fabs(got[at] - want[at]) <= NEAR * most + TINIEST, "%s %zu, place %zu: %g, not %g",
              what, i, at, (double)got[at], want[at]);
}

struct on_card {
    std::unique_ptr<struct wisp_dnet> net;
    both<unsigned char> block;
    /* keep: nothing lies over anything else, and all is done in order; else rows move beside the way
     * back.  planes: it predicts from these; NULL: it trains.  lots: so many of the first layers go so
     * many samples at a time, if they can.  outside: the optimiser's state of the largest layer is the
     * host's, if it can be. */
    on_card(const rig &r, const struct wisp_graph &g, bool keep, const float *planes = NULL,
            size_t limit = 0, int lots = 0, size_t samples = 0, bool outside = false)
        : net(new wisp_dnet()), block(0)
    {
        wisp_error err = {};
        net->batch = r.batch, net->now = r.now.dev, net->keep = keep;
        net->large = 1; /* all that are dense */
        net->beside = !keep && !planes;
        OK(cudaStreamCreateWithFlags(&net->side.stream, cudaStreamNonBlocking));
        OK(cudaEventCreateWithFlags(&net->side.ready, cudaEventDisableTiming));
        OK(cudaEventCreateWithFlags(&net->side.done, cudaEventDisableTiming));
        net->limit = limit;
        net->opt = { WISP_SGD, 0.9f, NULL, NULL };
        net->images.bytes = r.bytes.dev, net->images.table = r.table.dev;
        net->images.planes = planes, net->math = planes ? WISP_DCONV_FP32 : r.math;
        net->state.least = 1, net->state.slot = 1; /* in as many pieces as can be */
        wisp_dnet_make(net.get(), &g, !planes);
        CHECK(wisp_dnet_plan(net.get(), &err) == WISP_OK, "%s", err.text);
        if (outside && wisp_dstate_outside(net.get(), 1)) {
            OK(wisp_dstate_open(&net->state));
            CHECK(wisp_dnet_plan(net.get(), &err) == WISP_OK, "%s", err.text);
        }
        if (lots && wisp_dlots_can_end(*net, lots)) {
            net->lots.first = lots, net->lots.samples = samples;
            net->lots.n = wisp_parts(r.batch, samples);
            CHECK(wisp_dnet_place(net.get(), &err) == WISP_OK, "%s", err.text);
        }
        lay_on_card(net.get(), &block);
        OK(wisp_dstate_keep(&net->state));
        struct wisp_dcopy up = { false, cudaSuccess };
        wisp_dstate_copy(&up, *net);
    }
    ~on_card()
    {
        wisp_dstate_drop(&net->state);
        wisp_dstate_close(&net->state);
        wisp_dnet_clear(net.get());
        cudaStreamDestroy(net->side.stream);
        cudaEventDestroy(net->side.ready), cudaEventDestroy(net->side.done);
    }
    void step(const doubles &g)
    {
        wisp_error err = {};
        const struct wisp_dact &last = net->acts[net->last];
        const std::vector<float> gradient(g.begin(), g.end());
        for (bool rows : { true, false }) wisp_dnet_forward(*net, rows, 0);
        OK(cudaMemcpy(last.g, gradient.data(), gradient.size() * 4, cudaMemcpyHostToDevice));
        wisp_same_through(*net, last, last.g, last.g, 0);
        for (bool rows : { false, true }) wisp_dnet_backward(*net, rows, 0);
        rig_sync("a net");
        CHECK(wisp_dnet_status(*net, &err) == WISP_OK, "%s", err.text);
        struct wisp_dcopy down = { true, cudaSuccess };
        wisp_dnet_copy(&down, net.get());
        OK(down.e);
    }
};

static void draw(rig &r)
{
    struct wisp_dnow d;
    memset((void *)&d, 0, sizeof d);
    d.n = (uint32_t)r.n, d.step = 41, d.seed = 99, d.lr = (float)RATE;
    d.id = r.id.dev, d.moved = r.shift.dev;
    r.now[0] = d;
    for (uint8_t &b : r.bytes.host) b = (uint8_t)rig_below(256);
    for (float &t : r.table.host) t = rig_float();
    for (uint32_t &i : r.id.host) i = (uint32_t)rig_below(4 * r.batch);
    for (struct wisp_moved &m : r.shift.host)
        m = { (int32_t)rig_below(5) - 2, (int32_t)rig_below(5) - 2, (int32_t)rig_below(2) };
    r.now.up(), r.id.up(), r.shift.up(), r.bytes.up(), r.table.up();
}

/* Images as the host has laid them out, running means, and nothing for a way back. */
static void check_prediction(rig &r, const struct wisp_graph &g)
{
    const size_t layers = r.net.layers.size() - 1;
    both<float> planes(r.batch * r.x[1].size() / r.n, NAN);
    std::copy(r.x[1].begin(), r.x[1].end(), planes.host.begin());
    planes.up();
    r.predicts = true;
    for (size_t i = 1; i < layers; i++) forward(r, i);
    rough = exact; /* in fp32, always */
    on_card is(r, g, false, planes.dev);
    for (bool rows : { true, false }) wisp_dnet_forward(*is.net, rows, 0);
    rig_sync("prediction");
    const struct wisp_dact &last = is.net->acts[is.net->last];
    compare("what is predicted", layers, take(r, *is.net, last, last.x, false), r.x[layers]);
}

static int n_again;   /* layers that went forward again, in all nets, */
static int n_lots;    /* nets whose first layers went some samples at a time, */
static int n_outside; /* and chunks of state that were the host's */

/* Parameters as they were, and state that has not moved. */
static void begin_again(rig &r, const std::deque<std::vector<float>> &was)
{
    for (size_t p = 0; p < was.size(); p++) {
        std::copy(was[p].begin(), was[p].end(), r.w[p].begin());
        std::fill(r.m[p].begin(), r.m[p].end(), 0.0f);
    }
}

/* What parameters have moved by, against plain code. */
static void check_moves(const rig &r, const std::deque<std::vector<float>> &was)
{
    for (size_t p = 0; p < r.w.size(); p++) {
        if (rough.value > 0 && r.alone[p])
            continue; /* a sum over all pixels, of which little may be left */
        doubles moved(was[p].size());
        for (size_t k = 0; k < moved.size(); k++) moved[k] = (double)r.w[p][k] - was[p][k];
        compare("parameter", p, moved, r.moved[p]);
    }
}

/* Some samples at a time, as many layers as can; sums over lots round otherwise. */
static void check_lots(rig &r, const struct wisp_graph &g, const doubles &gradient,
                       const std::deque<std::vector<float>> &was)
{
    for (int first = 1; first < (int)r.net.layers.size(); first++) {
        begin_again(r, was);
        on_card lots(r, g, false, NULL, 0, first, 3);
        if (!lots.net->lots.first) continue;
        n_lots++;
        lots.step(gradient);
        check_moves(r, was);
    }
}

/* State that is the host's, with and without lots: the same bytes, of state, too. */
static void check_outside(rig &r, const struct wisp_graph &g, const doubles &gradient,
                          const std::deque<std::vector<float>> &was)
{
    for (int first = 0; first < 3; first += 2) {
        begin_again(r, was);
        on_card inside(r, g, false, NULL, 0, first, 3);
        inside.step(gradient);
        const std::deque<std::vector<float>> w = r.w, m = r.m;
        begin_again(r, was);
        on_card outside(r, g, false, NULL, 0, first, 3, true);
        if (outside.net->state.n == 0) return;
        for (size_t i = 0; i < outside.net->n_layers; i++) {
            const struct wisp_dnode &l = outside.net->layers[i];
            if (l.outside) n_outside += (int)wisp_parts(l.l->n_in, l.kind->some(l, *outside.net));
        }
        outside.step(gradient);
        CHECK(w == r.w && m == r.m, "other numbers with state on the host, %d layers in lots",
              outside.net->lots.first);
    }
}

static void check_net(const char *name, size_t n, size_t batch, size_t c,
                      const std::vector<said> &all, bool alone, const struct roughness &how,
                      float l1 = 0)
{
    const std::string title = std::string(name) + ", " + std::to_string(n) + " samples" +
                              (alone ? ", each layer alone" : "") + how.name +
                              (l1 > 0 ? ", results in the loss" : "");
    rough = how;
    TEST(title.c_str());
    rig r(n, batch, c, 10, 9);
    r.math = how.math;
    say(&r, all);
    for (struct wisp_act &a : r.net.acts) a.n_readers += alone;
    for (struct wisp_layer &l : r.net.layers)
        if ((is(l, "relu") || is(l, "maxpool")) &&
            r.net.acts[(size_t)l.number + 1].form == WISP_PLANES)
            l.l1 = l1;
    draw(r);
    const struct wisp_graph g = r.net.graph();
    const size_t layers = r.net.layers.size() - 1;
    wisp_error err = {};
    CHECK(wisp_dnet_check(&g, NULL, &err) == WISP_OK, "%s", err.text);

    r.x.resize(layers + 1), r.g.resize(layers + 1);
    for (size_t i = 0; i < layers; i++) forward(r, i);
    for (size_t i = 0; i <= layers; i++) r.g[i].assign(r.x[i].size(), 0);
    for (double &x : r.g[layers]) x = (double)(0.1f * rig_float());
    for (auto &w : r.w) r.moved.push_back(doubles(w.size(), 0));
    const doubles gradient = r.g[layers];
    const std::deque<std::vector<float>> was = r.w;
    for (size_t i = layers; i-- > 1;) backward(r, i);

    on_card apart(r, g, true);
    apart.step(gradient);
    for (size_t i = 0; i < apart.net->n_layers; i++) {
        const struct wisp_dnode &l = apart.net->layers[i];
        const struct wisp_dact &a = apart.net->acts[l.out];
        compare("value", (size_t)l.out, take(r, *apart.net, a, a.x, false), r.x[(size_t)l.out]);
        const bool behind = l.kind->is > WISP_FUSE_ADD; /* its own work */
        if (behind || !a.learns) continue;
        compare("gradient of what layer makes", i, take(r, *apart.net, a, a.g, true),
                r.g[l.relu ? (size_t)l.out : (size_t)l.l->number + 1]);
    }
    check_moves(r, was);
    /* Things lie over each other, values are made again, and nobody sees it. */
    const std::deque<std::vector<float>> moved = r.w;
    size_t whole = apart.net->work_bytes, limit = 0;
    for (int turn = 0; turn < 3; turn++) {
        begin_again(r, was);
        on_card over(r, g, false, NULL, limit);
        CHECK(turn ? over.net->work_bytes <= whole : over.net->work_bytes < whole,
              "%zu bytes within %zu, and %zu without", over.net->work_bytes, limit, whole);
        n_again += over.net->n_again;
        over.step(gradient);
        if (over.net->lots.first) check_moves(r, was);
        CHECK(over.net->lots.first || moved == r.w,
              "other numbers with %d layers again, within %zu of %zu bytes", over.net->n_again,
              limit, whole);
        if (turn == 0) whole = over.net->work_bytes;
        limit = turn ? 1 : whole - whole / 8;
    }
    check_lots(r, g, gradient, was);
    check_outside(r, g, gradient, was);
    check_prediction(r, g);
    test_close(); /* while the name is there */
}

/* ---- the scorer, as the rest of wisp sees it ---- */

struct lists { /* of rows that have both an image and a list of features */
    std::vector<uint32_t> xp;
    std::vector<int32_t> xi;
    std::vector<float> xv;
};

/* most: features of a row; x (n, features) the same. */
static struct lists draw_lists(size_t n, size_t features, size_t most, doubles *x)
{
    struct lists l = { { 0 }, {}, {} };
    x->assign(n * features, 0);
    for (size_t i = 0; i < n; i++) {
        for (size_t f = 0; f < features && most; f++) {
            if (rig_below(features) >= most) continue;
            l.xi.push_back((int32_t)f), l.xv.push_back(rig_float());
            (*x)[i * features + f] = l.xv.back();
        }
        l.xp.push_back((uint32_t)l.xi.size());
    }
    return l;
}

/* Logits of n rows, by the scorer and by plain code: places of images, lists and answers change with
 * the number of rows and of features. */
static void check_scores(rig &r, struct wisp_cuda_scorer *s, size_t n, size_t most, bool bytes)
{
    const size_t layers = r.net.layers.size() - 1, width = r.net.layers.back().n_in;
    wisp_error err = {};
    r.n = n;
    draw(r);
    if (bytes) std::fill(r.shift.host.begin(), r.shift.host.end(), wisp_moved{});
    const struct lists l = draw_lists(n, r.net.n_features, most, &r.x[0]);
    for (size_t i = 0; i < layers; i++) forward(r, i);
    const std::vector<float> planes(r.x[1].begin(), r.x[1].end());
    std::vector<int32_t> labels(n * LABELS, -1);
    std::vector<float> logits(n * LABELS, NAN), got(n * LABELS, NAN);
    struct wisp_cuda_block rows = {};
    rows.n = n, rows.xp = l.xp.data(), rows.xi = l.xi.data(), rows.xv = l.xv.data();
    std::vector<const uint8_t *> places;
    for (size_t i = 0; i < n; i++) places.push_back(&r.bytes[r.id[i] * (planes.size() / n)]);
    if (bytes) rows.bytes = places.data(), rows.table = r.table.host.data();
    else rows.planes = planes.data();
    const struct wisp_cuda_best best = { labels.data(), logits.data(), NULL, NULL };
    CHECK(wisp_cuda_table()->score(s, &best, &rows, &err) == WISP_OK, "%s", err.text);
    doubles want(n * LABELS);
    for (size_t at = 0; at < want.size(); at++) {
        const size_t sample = at / LABELS, label = at % LABELS, w = r.first[layers];
        want[at] = r.w[w + 1][label];
        for (size_t d = 0; d < width; d++)
            want[at] += r.x[layers][sample * width + d] * r.w[w][label * width + d];
        if (labels[at] >= 0 && labels[at] < LABELS)
            got[sample * LABELS + (size_t)labels[at]] = logits[at];
    }
    compare("logits of so many rows:", n, got, want);
}

/* lent: the scorer has the weights of a net that trains, as where training validates. */
static void check_scorer(const char *name, size_t c, const std::vector<said> &all, bool lent,
                         bool half)
{
    const std::string title =
        std::string("scorer: ") + name + (lent ? ", lent weights" : "") + (half ? ", of bf16" : "");
    TEST(title.c_str());
    rough = exact; /* it predicts in fp32, always */
    rig r(1, 7, c, 10, 9);
    if (half) r.math = WISP_DCONV_BF16;
    say(&r, all);
    r.predicts = true;
    r.x.resize(r.net.layers.size());
    const struct wisp_graph g = r.net.graph();
    const struct wisp_cuda *api = wisp_cuda_table();
    struct wisp_cuda_scorer *s = NULL;
    std::unique_ptr<struct wisp_cuda_trainer> t(new wisp_cuda_trainer());
    wisp_error err = {};
    on_card trains(r, g, false);
    both<float> out[2];
    t->s.graph = g, t->net = *trains.net;
    for (size_t i = 0; i < 2; i++) {
        const std::vector<float> &w = r.w[r.first.back() + i];
        out[i].host = w;
        OK(cudaFree(out[i].dev));
        OK(cudaMalloc((void **)&out[i].dev, w.size() * 4));
        out[i].up();
    }
    t->out.w.rows = t->out.bias.rows = LABELS;
    t->out.w.cols = r.net.layers.back().n_in, t->out.bias.cols = 1;
    t->out.w.w = out[0].dev, t->out.bias.w = out[1].dev;
    OK(cudaStreamCreateWithFlags(&t->main, cudaStreamNonBlocking));
    CHECK(api->create_scorer(&s, lent ? NULL : &g, lent ? t.get() : NULL, r.batch, LABELS, &err) ==
              WISP_OK,
          "%s", err.text);
    if (s)
        for (size_t n : { (size_t)7, (size_t)3, (size_t)7, (size_t)1 })
            for (size_t most : { (size_t)0, (size_t)1, (size_t)9 })
                for (bool bytes : { true, false }) check_scores(r, s, n, most, bytes);
    api->free_scorer(s);
    OK(cudaStreamDestroy(t->main));
    test_close(); /* while the name is there */
}

static double size(size_t h, size_t w)
{
    return wisp_size_of(h, w);
}
/* channels, kernel, stride, pad (0: as is usual), groups, without a bias */
static said conv(size_t channels, double kernel, double stride = 1, double pad = NAN,
                 double groups = 1, bool bias = true, std::vector<int> from = {})
{
    return { "conv", { (double)channels, kernel, stride, pad, groups, bias ? 0.0 : 1.0 }, from };
}

int main(void)
{
    const struct {
        const char *name;
        size_t channels;
        std::vector<said> all;
    } cases[] = {
        { "as lenet",
          1,
          { { "image", {}, {} },
            conv(6, size(3, 3)),
            { "relu", {}, {} },
            { "maxpool", { size(2, 2) }, {} },
            conv(7, size(3, 2), 1, 0),
            { "relu", {}, {} },
            { "maxpool", { size(2, 2), 1, size(1, 1) }, {} },
            { "flatten", {}, {} },
            { "dense", { 12 }, {} },
            { "relu", {}, {} } } },
        { "as vgg",
          3,
          { { "image", {}, {} },
            conv(8, size(3, 3)),
            { "relu", {}, {} },
            conv(32, size(3, 3)),
            { "relu", {}, {} },
            { "maxpool", { size(2, 2) }, {} },
            { "flatten", {}, {} }, /* 640 units: five pieces of state, and four slots */
            { "dense", { 12 }, {} },
            { "relu", {}, {} },
            { "dense", { 8 }, {} },
            { "relu", {}, {} } } },
        { "residual",
          3,
          { { "image", {}, {} },
            conv(8, size(3, 3), 2, NAN, 1, false),
            { "bn", {}, {} },
            { "relu", {}, {} }, /* value 4 */
            conv(8, size(3, 3), 1, NAN, 1, false),
            { "bn", {}, {} },
            { "relu", {}, {} },
            conv(8, size(3, 3), 1, NAN, 1, false),
            { "bn", {}, {} },        /* value 9 */
            { "add", {}, { 9, 4 } }, /* value 10 */
            { "relu", {}, {} },      /* value 11 */
            conv(12, size(1, 1), 2, NAN, 1, false),
            { "bn", {}, {} }, /* value 13 */
            conv(12, size(3, 3), 2, NAN, 1, false, { 11 }),
            { "bn", {}, {} }, /* value 15 */
            { "add", {}, { 15, 13 } },
            { "relu", {}, {} },
            { "globalavg", {}, {} } } },
        { "branches and all kinds",
          2,
          { { "image", {}, {} }, /* value 1 */
            { "maxpool", { size(2, 2), 1 }, {} },
            conv(5, size(2, 2), 1, 0), /* value 3 */
            { "relu", {}, {} },        /* value 4 */
            conv(6, size(1, 1), 1, 0),
            { "clip", { 0.1 }, {} }, /* value 6 */
            { "bn", {}, { 4 } },     /* value 7 */
            { "concat", {}, { 4, 6, 7 } },
            { "identity", {}, {} },
            { "avgpool", { size(3, 2), 2, size(1, 0) }, {} },
            { "relu", {}, {} },
            conv(8, size(2, 3), 2, size(0, 1)),
            conv(8, size(3, 3), 1, NAN, 2),
            { "relu", {}, {} },
            { "avgpool", { size(2, 2), 1 }, {} },
            { "flatten", {}, {} },
            { "dense", { 8 }, {} } } },
        { "dropout",
          3,
          { { "image", {}, {} },
            conv(18, size(3, 3), 2),
            { "dropout", { 0.4 }, {} },
            conv(21, size(3, 3)),
            { "relu", {}, {} },
            { "dropout", { 0.2 }, {} },
            { "avgpool", { size(2, 2), 2 }, {} },
            conv(8, size(3, 3)),
            { "dropout", { 0.3 }, {} },
            { "relu", {}, {} },
            { "flatten", {}, {} } } },
        { "residual beside a ReLU, and without one behind it",
          3,
          { { "image", {}, {} },
            conv(8, size(3, 3)),
            { "relu", {}, {} }, /* value 3 */
            conv(8, size(3, 3)),
            { "bn", {}, {} }, /* value 5 */
            { "add", {}, { 5, 3 } },
            { "relu", {}, {} }, /* value 7 */
            conv(8, size(3, 3)),
            { "bn", {}, {} }, /* value 9 */
            { "add", {}, { 9, 7 } },
            { "bn", {}, {} },         /* value 11 */
            { "add", {}, { 7, 11 } }, /* which is not there when value 7 is made */
            { "globalavg", {}, {} } } },
        { "batch norm and mean behind a ReLU",
          4,
          { { "image", {}, {} },
            { "bn", {}, {} },
            conv(5, size(3, 3), 3),
            { "relu", {}, {} },
            { "bn", {}, {} },
            conv(4, size(3, 3)),
            { "relu", {}, {} },
            { "globalavg", {}, {} },
            { "relu", {}, {} } } },
    };
    for (const auto &c : cases)
        for (size_t n : { (size_t)2, (size_t)5, (size_t)7 })
            for (bool alone : { false, true })
                for (const struct roughness &how : { exact, tf32, bf16 })
                    check_net(c.name, n, 7, c.channels, c.all, alone, how);
    for (const auto &c : cases)
        for (bool alone : { false, true })
            for (const struct roughness &how : { exact, bf16 })
                check_net(c.name, 5, 7, c.channels, c.all, alone, how, 0.02f);
    const std::vector<said> beside = {
        { "image", {}, {} },       conv(8, size(3, 3), 2),
        { "relu", {}, {} },        { "globalavg", {}, {} }, /* value 4 */
        { "input", { 8 }, { 0 } }, { "concat", {}, { 4, 5 } }
    };
    for (int how = 0; how < 3; how++) {
        const bool lent = how > 0, half = how > 1;
        for (const auto &c : cases) check_scorer(c.name, c.channels, c.all, lent, half);
        check_scorer("images beside lists", 2, beside, lent, half);
    }
    TEST("values that were made again");
    CHECK(n_again > 100, "only %d", n_again);
    TEST("first layers that went some samples at a time");
    CHECK(n_lots > 100, "only %d", n_lots);
    TEST("state on the host");
    CHECK(n_outside > 20 || wisp_dconv_capability() < 80, "only %d pieces", n_outside);
    return test_end();
}
