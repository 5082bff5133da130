/* Layers with few, fixed connections: what is connected, and training runs with them (threads,
 * resume, files, going on from a model, memory that runs out). */
#include "model_rig.h"
#include "spdnn/spdnn.h"

#include <math.h>

/* ---- connections ---- */

static bool wire_spec(struct wisp_net *net, const char *spec, size_t n_in, uint64_t start)
{
    struct wisp_layer_sizes sizes = { .batch = 1, .active = 1, .training = true };
    bool ok = wisp_net_plan(net, spec, n_in, 1, &sizes, &err) == WISP_OK &&
              wisp_net_alloc_params(net, &err) == WISP_OK;
    CHECK(ok, "'%s': %s", spec, err.text);
    if (ok) wisp_net_init(net, start, NULL);
    return ok;
}

/* A net of 'layers' layers "sparse FORM WIDTH", connected. */
static bool wire(struct wisp_net *net, const char *form, size_t n_in, size_t n_out, int layers,
                 uint64_t start)
{
    char spec[1000];
    size_t at = 0;
    for (int i = 0; i < layers; i++)
        at += (size_t)snprintf(spec + at, sizeof spec - at, "%ssparse %s %zu", i ? ", relu, " : "",
                               form, n_out);
    return wire_spec(net, spec, n_in, start);
}

static void test_challenge(void)
{
    static uint64_t start[4097];
    static uint32_t in[32 * 4096];
    TEST("wires: radix layers of equal widths are those of the Graph Challenge");
    for (uint32_t n = 1024; n <= 4096; n *= 4) {
        struct wisp_radix r = { .n_neurons = n, .n_layers = 8 };
        struct wisp_net net;
        int block = n == 1024 ? 6 : 8;
        if (!wire(&net, "radix", n, n, block + 1, 1)) return;
        for (int l = 0; l <= block; l++) {
            CHECK(wisp_radix_layer(start, in, &r, (size_t)(l % block), &err) == WISP_OK, "%s",
                  err.text);
            const struct wisp_wires found = wisp_layer_wires(&net.layers[2 * l]), *w = &found;
            CHECK(w->fan == 32 && memcmp(w->in, in, sizeof *in * 32 * n) == 0,
                  "%u neurons, layer %d differs", n, l);
        }
        wisp_net_clear(&net);
    }
    struct wisp_net net; /* layers of another form do not count */
    struct wisp_radix r = { .n_neurons = 1024, .n_layers = 8 };
    if (!wire_spec(&net, "sparse random 1024, relu, sparse radix 1024", 1024, 1)) return;
    CHECK(wisp_radix_layer(start, in, &r, 0, &err) == WISP_OK &&
              memcmp(net.layers[2].params[2].ids, in, sizeof *in * 32 * 1024) == 0,
          "the first radix layer is not the first");
    wisp_net_clear(&net);
}

/* Ids ascend and are in range, by either form; radix layers use all inputs about equally often. */
static void test_any_size(void)
{
    TEST("wires: any numbers of inputs and outputs");
    uint64_t s = 11;
    for (int i = 0; i < 400; i++) {
        size_t most = i % 3 ? 200 : 3000, n_in = 1 + test_rand(&s) % most,
               n_out = 1 + test_rand(&s) % most;
        bool radix = i % 2;
        struct wisp_net net;
        if (!wire(&net, radix ? "radix" : "random", n_in, n_out, 1, (uint64_t)i)) return;
        const struct wisp_wires found = wisp_layer_wires(&net.layers[0]), *w = &found;
        CHECK(w->fan == (n_in < 32 ? n_in : 32) &&
                  strcmp(net.layers[0].params[2].name, "0.sparse.inputs") == 0,
              "%zu inputs: fan %zu", n_in, w->fan);
        size_t *used = calloc(n_in, sizeof *used), least = SIZE_MAX, top = 0;
        for (size_t e = 0; e < n_out * w->fan; e++) {
            bool ok = w->in[e] >= 0 && (size_t)w->in[e] < n_in &&
                      (e % w->fan == 0 || w->in[e] > w->in[e - 1]);
            CHECK(ok, "%zu x %zu: id %d at %zu", n_in, n_out, w->in[e], e);
            if (ok) used[w->in[e]]++;
        }
        for (size_t k = 0; k < n_in; k++) {
            if (used[k] < least) least = used[k];
            if (used[k] > top) top = used[k];
        }
        double mean = (double)(n_out * w->fan) / (double)n_in;
        CHECK(!radix ||
                  ((double)top <= 2 * mean + 2 && (double)least >= fmin(floor(mean), mean / 2)),
              "%zu x %zu: inputs are used %zu to %zu times, %g on average", n_in, n_out, least, top,
              mean);
        free(used);
        wisp_net_clear(&net);
    }
}

/* Which inputs of the net an output of its last layer depends on: one bit each. */
static void test_mixing(void)
{
    static const size_t widths[] = { 33, 47, 48, 100, 256, 784, 1000, 1024 };
    TEST("wires: radix layers in a row connect everything");
    for (size_t c = 0; c < sizeof widths / sizeof *widths; c++) {
        size_t n = widths[c], words = (n + 63) / 64;
        int layers = 1;
        while ((size_t)16 << layers < n) layers++;
        struct wisp_net net;
        if (!wire(&net, "radix", n, n, layers, 1)) return;
        uint64_t *from = calloc(n * words, 8), *to = calloc(n * words, 8), *t;
        for (size_t i = 0; i < n; i++) from[i * words + i / 64] |= 1ull << i % 64;
        for (int l = 0; l < layers; l++) {
            const struct wisp_wires found = wisp_layer_wires(&net.layers[2 * l]), *w = &found;
            memset(to, 0, n * words * 8);
            for (size_t e = 0; e < n * w->fan; e++)
                for (size_t k = 0; k < words; k++)
                    to[e / w->fan * words + k] |= from[(size_t)w->in[e] * words + k];
            t = from, from = to, to = t;
        }
        size_t missing = 0;
        for (size_t i = 0; i < n * words; i++)
            missing += (size_t)(64 - __builtin_popcountll(from[i]));
        missing -= n * (words * 64 - n);
        CHECK(missing == 0, "%zu wide, %d layers: %zu pairs are not connected", n, layers, missing);
        free(from), free(to);
        wisp_net_clear(&net);
    }
}

static void test_random(void)
{
    enum { IN = 500, OUT = 2000 };
    struct wisp_net a, b, c;
    TEST("wires: random connections by seed and layer, evenly");
    if (!wire(&a, "random", IN, OUT, 2, 5) || !wire(&b, "random", IN, OUT, 2, 5) ||
        !wire(&c, "random", IN, OUT, 2, 6))
        return;
    const struct wisp_wires found = wisp_layer_wires(&a.layers[0]), *w = &found;
    size_t bytes = OUT * w->fan * sizeof *w->in;
    CHECK(memcmp(w->in, b.layers[0].params[2].ids, bytes) == 0, "the same seed differs");
    CHECK(memcmp(w->in, c.layers[0].params[2].ids, bytes) != 0, "another seed does not");
    double used[IN] = { 0 }, want = (double)OUT * (double)w->fan / IN;
    for (size_t e = 0; e < OUT * w->fan; e++) used[w->in[e]]++;
    for (int i = 0; i < IN; i++)
        CHECK(fabs(used[i] - want) < 6 * sqrt(want), "input %d is used %g times, expected %g", i,
              used[i], want);
    wisp_net_clear(&a), wisp_net_clear(&b), wisp_net_clear(&c);
    if (!wire(&a, "random", IN, IN, 2, 5)) return;
    bytes = IN * a.layers[0].params[2].cols * sizeof *w->in;
    CHECK(memcmp(a.layers[0].params[2].ids, a.layers[2].params[2].ids, bytes) != 0,
          "layers do not differ");
    wisp_net_clear(&a);
}

/* ---- training ---- */

static const char *const nets[] = {
    "sparse radix 100, relu, sparse radix 80, relu",
    "input 48, relu, sparse random 70 9, relu, dropout 0.2, sparse radix 50, relu",
};
enum { N_NETS = sizeof nets / sizeof *nets };

static void test_runs(const wisp_data *d)
{
    static const char *const how[] = { "epochs 3 holdout 0", "epochs 3 holdout 0 optimizer adagrad",
                                       "epochs 3 holdout 0 optimizer sgd average 0.9" };
    TEST("wires: 1, 2 and 4 threads write the same bytes, and so does a run that was resumed");
    for (size_t i = 0; i < 3 * N_NETS; i++) {
        const char *net = nets[i % N_NETS], *more = how[i / N_NETS];
        char resume[200];
        struct bytes one = { 0 };
        snprintf(resume, sizeof resume, "%s resume yes", more);
        for (int threads = 1; threads <= 4; threads *= 2) {
            wisp_context *c;
            CHECK(wisp_context_create(&c, threads, &err) == WISP_OK, "%s", err.text);
            unlink(model);
            CHECK(rig_train(c, d, net, more, 0, model, NULL) == WISP_OK, "%s", err.text);
            if (threads == 1) one = slurp(model);
            CHECK(one.n > 1000 && file_is(model, one), "'%s': %d threads differ from 1", net,
                  threads);
            wisp_context_free(c);
        }
        unlink(model);
        CHECK(rig_train(ctx, d, net, more, 2, model, NULL) == WISP_ESTOPPED, "%s", err.text);
        CHECK(!file_is(model, one), "'%s': there was nothing left to do", net);
        CHECK(rig_train(ctx, d, net, resume, 0, model, NULL) == WISP_OK, "%s", err.text);
        CHECK(file_is(model, one), "'%s': resumed it differs", net);
        free(one.p);
    }
}

static void test_learns(const wisp_data *d)
{
    TEST("wires: it learns");
    for (size_t i = 0; i < N_NETS; i++) {
        double first, last;
        CHECK(rig_train(ctx, d, nets[i], "epochs 1 lr 1e-9", 0, model, &first) == WISP_OK &&
                  rig_train(ctx, d, nets[i], "epochs 12 lr 0.01", 0, model, &last) == WISP_OK,
              "%s", err.text);
        CHECK(last > first + 25, "'%s': P@1 %g, before training %g", nets[i], last, first);
    }
}

/* ---- files ---- */

enum { N = 50, K = 4 };

static void test_file(const wisp_data *d)
{
    static float was[N * K], is[N * K];
    struct wisp_model *m = NULL, *again = NULL;
    TEST("wires: a first layer reads the rows of its batch alone");
    CHECK(rig_train(ctx, d, nets[0], "epochs 2", 0, model, NULL) == WISP_OK &&
              wisp_model_load(&m, model, &err) == WISP_OK,
          "%s", err.text);
    if (m) rig_score(was, m, d, N, K);
    wisp_model_free(m);
    m = NULL;
    TEST("wires: connections are in the model file, and are those that are used");
    CHECK(rig_train(ctx, d, nets[1], "epochs 2", 0, model, NULL) == WISP_OK &&
              wisp_model_load(&m, model, &err) == WISP_OK,
          "%s", err.text);
    if (!m || !rig_score(was, m, d, N, K)) return;
    struct wisp_layer *l = &m->net.layers[2];
    struct wisp_param *inputs = &l->params[2];
    size_t n = wisp_param_n(inputs);
    CHECK(l->n_out == 70 && inputs->cols == 9 && l->params[0].rows == 70 && l->params[0].cols == 9,
          "'%s': %zu outputs of %zu inputs", m->spec, l->n_out, inputs->cols);
    int32_t *in = inputs->ids, *ids = malloc(n * sizeof *ids);
    CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK &&
              wisp_model_load(&again, other, &err) == WISP_OK,
          "%s", err.text);
    if (again && rig_score(is, again, d, N, K))
        CHECK(memcmp(was, is, sizeof was) == 0, "other scores");
    wisp_model_free(again);

    /* Other connections in the file: all moved by one where that is possible. */
    for (size_t e = 0; e < n; e++) ids[e] = (int32_t)(e % 9 * 2 + e / 9 % 30);
    inputs->ids = ids;
    CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK &&
              wisp_model_load(&again, other, &err) == WISP_OK,
          "%s", err.text);
    if (again && rig_score(is, again, d, N, K))
        CHECK(memcmp(was, is, sizeof was) != 0, "the same scores");
    wisp_model_free(again);

    static const struct {
        size_t at;
        int32_t id;
        const char *text;
    } bad[] = {
        { 0, -1, "has input -1 after -1 at output 0, expected ascending ids below 48" },
        { 69 * 9 + 8, 48, "has input 48 after" },
        { 12, 1 << 30, "at output 1, expected" },
        { 14, 0, "has input 0 after" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(ids, in, n * sizeof *ids);
        ids[bad[i].at] = bad[i].id;
        CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK, "%s", err.text);
        wisp_status st = wisp_model_load(&again, other, &err);
        CHECK(st == WISP_EMODEL && strstr(err.text, bad[i].text) &&
                  strstr(err.text, "'2.sparse.inputs'"),
              "id %d: %d '%s'", bad[i].id, st, err.text);
        wisp_model_free(again);
    }
    memcpy(ids, in, n * sizeof *ids);
    ids[13] = ids[12];
    CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK &&
              wisp_model_load(&again, other, &err) == WISP_EMODEL,
          "an input twice");
    strcpy(inputs->name, "others"); /* a file without them */
    CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK &&
              wisp_model_load(&again, other, &err) == WISP_EMODEL &&
              strstr(err.text, "tensor '2.sparse.inputs' is missing"),
          "no connections: %s", err.text);
    free(ids);
    wisp_model_free(m);
}

/* --init: the model's connections, not those of this run's seed. */
static void test_init(const wisp_data *d)
{
    static float was[N * K], is[N * K];
    char more[200];
    struct wisp_model *m = NULL, *on = NULL;
    TEST("wires: training goes on with the model's connections");
    CHECK(rig_train(ctx, d, nets[1], "epochs 2", 0, model, NULL) == WISP_OK, "%s", err.text);
    snprintf(more, sizeof more, "epochs 1 lr 1e-9 seed 77 init %s", model);
    CHECK(rig_train(ctx, d, nets[1], more, 0, other, NULL) == WISP_OK, "%s", err.text);
    if (wisp_model_load(&m, model, &err) == WISP_OK &&
        wisp_model_load(&on, other, &err) == WISP_OK && rig_score(was, m, d, N, K) &&
        rig_score(is, on, d, N, K)) {
        const struct wisp_layer *l = &m->net.layers[2];
        CHECK(memcmp(l->params[2].ids, on->net.layers[2].params[2].ids,
                     wisp_param_n(&l->params[2]) * 4) == 0,
              "other connections");
        for (int i = 0; i < N * K; i++) CHECK(fabsf(was[i] - is[i]) < 1e-3f, "score %d", i);
    } else CHECK(false, "%s", err.text);
    wisp_model_free(m), wisp_model_free(on);
}

static void test_memory(const wisp_data *d)
{
    TEST("wires: memory that runs out");
    unlink(model);
    rig_train_without_memory(d, nets[1], "epochs 1 batch 16", 1);
}

int main(void)
{
    rig_init();
    wisp_data *d = rig_synth(500, 150, 20, 1), *few = rig_synth(60, 150, 20, 1);
    test_challenge();
    test_any_size();
    test_mixing();
    test_random();
    test_runs(d);
    test_learns(d);
    test_file(d);
    test_init(d);
    test_memory(few);
    wisp_data_free(d), wisp_data_free(few);
    return rig_end();
}
