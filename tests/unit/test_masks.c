/* Layers whose connections come from a file, each output with its own number of inputs: what is
 * read, training runs, and models and checkpoints that need the file no more. */
#include "model_rig.h"
#include "base/text.h"

#include <math.h>

enum { FEATURES = 150, HIDDEN = 40, WIDTH = 30, N = 50, K = 4 };

/* Outputs with no input, with one, with all, and with some. */
static bool connected(size_t in, size_t out, size_t n_in)
{
    switch (out % 5) {
    case 0:
        return false;
    case 1:
        return in == out * 7 % n_in;
    case 2:
        return true;
    default:
        return (in * 31 + out * 17) % 9 < out % 7;
    }
}

static float weight(size_t in, size_t out)
{
    return (float)((int)(in * 5 + out * 3) % 17 - 8) / 16;
}

/* 'input output [weight]', or MatrixMarket, 'output input [weight]'. */
static void write_mask(const char *path, size_t n_in, size_t n_out, bool market, bool weights)
{
    FILE *f = fopen(path, "w");
    size_t n = 0;
    CHECK(f, "%s cannot be written", path);
    if (!f) return;
    for (size_t e = 0; e < n_in * n_out; e++) n += connected(e % n_in, e / n_in, n_in);
    if (market)
        fprintf(f, "%%%%MatrixMarket matrix coordinate %s general\n%zu %zu %zu\n",
                weights ? "real" : "pattern", n_out, n_in, n);
    for (size_t i = 0; i < n_in; i++) /* by input: it has to be sorted */
        for (size_t o = 0; o < n_out; o++) {
            if (!connected(i, o, n_in)) continue;
            fprintf(f, "%zu %zu", market ? o + 1 : i + 1, market ? i + 1 : o + 1);
            char number[32] = "";
            if (weights) wisp_print(number, sizeof number, " %.9g", (double)weight(i, o));
            fputs(number, f);
            fprintf(f, "\n");
        }
    fclose(f);
}

static void write_files(void)
{
    write_mask("first.tsv", FEATURES, HIDDEN, false, false);
    write_mask("second.mtx", HIDDEN, WIDTH, true, true);
}

static void remove_files(void)
{
    unlink("first.tsv"), unlink("second.mtx");
}

static const char ragged[] = "sparse mask=first.tsv, relu, sparse file=second.mtx bias=-0.25, relu";

static bool plan(struct wisp_net *net, const char *spec, size_t n_in)
{
    struct wisp_layer_sizes sizes = { .batch = 1, .active = 1, .training = true };
    bool ok = wisp_net_plan(net, spec, n_in, 3, &sizes, &err) == WISP_OK &&
              wisp_net_alloc_params(net, &err) == WISP_OK;
    CHECK(ok, "'%s': %s", spec, err.text);
    if (ok) wisp_net_init(net, 7, NULL);
    return ok;
}

/* ---- what is read ---- */

static void test_reading(void)
{
    TEST("masks: either form of file, with and without weights, gives the same connections");
    for (int i = 0; i < 8; i++) {
        bool market = i & 1, weights = i & 2, file = i & 4;
        struct wisp_net net;
        char spec[100];
        write_mask("any", 20, 23, market, weights);
        snprintf(spec, sizeof spec, "sparse %s=any bias=0.5", file ? "file" : "mask");
        if (!plan(&net, spec, 20)) return;
        const struct wisp_layer *l = &net.layers[0];
        const struct wisp_wires w = wisp_layer_wires(l);
        const struct wisp_param *p = &l->params[0], *inputs = &l->params[3];
        CHECK(l->n_params == 4 && l->n_out == 23 && w.n_out == 23 && w.start && w.fan == 20 &&
                  p->rank == 1 && p->rows == 23 && wisp_param_n(p) == w.n_edges &&
                  strcmp(inputs->name, "0.sparse.inputs") == 0 && inputs->ids == w.in &&
                  strcmp(l->params[2].name, "0.sparse.start") == 0,
              "'%s': %zu outputs, %zu parameters", spec, w.n_out, (size_t)l->n_params);
        size_t e = 0;
        double square = 0, n_drawn = 0;
        for (size_t o = 0; o < 23; o++) {
            size_t n, first = wisp_wires_row(&w, o, &n), at = e;
            for (size_t in = 0; in < 20; in++)
                if (connected(in, o, 20)) {
                    float want = file ? weights ? weight(in, o) : 1 : p->w[e];
                    CHECK(w.in[e] == (int32_t)in && p->w[e] == want, "output %zu, input %zu", o,
                          in);
                    if (!file) square += (double)p->w[e] * (double)p->w[e] * (double)n / 2;
                    n_drawn++;
                    e++;
                }
            CHECK(first == at && n == e - at, "output %zu has %zu inputs", o, n);
            CHECK(l->params[1].w[o] == 0.5f, "bias %zu", o);
        }
        CHECK(file || fabs(square / n_drawn - 1) < 0.5, "variance %g", square / n_drawn);
        wisp_net_clear(&net);
    }
    TEST("masks: as many inputs of each output are the tensors of 'sparse random'");
    put_file("any", "2 1 0.5\n1 1 2\n3 2 1\n1 2 3\n");
    struct wisp_net net;
    if (!plan(&net, "sparse file=any", 3)) return;
    const struct wisp_layer *l = &net.layers[0];
    CHECK(l->n_params == 3 && !l->params[0].start && l->params[0].rank == 2 &&
              l->params[0].cols == 2 && l->params[2].ids[0] == 0 && l->params[2].ids[3] == 2 &&
              l->params[0].w[0] == 2 && l->params[0].w[3] == 1,
          "%d parameters", l->n_params);
    wisp_net_clear(&net);
    TEST("masks: one connection, and units that have none");
    put_file("any", "\n5\t2\n\n");
    if (!plan(&net, "sparse mask=any width=9", 5)) return;
    const struct wisp_wires w = wisp_layer_wires(&net.layers[0]);
    CHECK(w.n_out == 9 && w.n_edges == 1 && w.in[0] == 4 && w.start[1] == 0 && w.start[2] == 1 &&
              w.start[9] == 1,
          "%zu outputs", w.n_out);
    wisp_net_clear(&net);
    unlink("any");
}

static void test_turns(void)
{
    struct wisp_net a, b;
    TEST("masks: radix layers are counted without them");
    write_mask("any", 64, 64, false, false);
    if (!plan(&a, "sparse mask=any width=64, sparse radix 64, sparse radix 64", 64) ||
        !plan(&b, "sparse random 64 3, sparse radix 64, sparse radix 64", 64))
        return;
    for (int i = 1; i < 3; i++)
        CHECK(memcmp(a.layers[i].params[2].ids, b.layers[i].params[2].ids, 64 * 32 * 4) == 0,
              "layer %d", i);
    wisp_net_clear(&a), wisp_net_clear(&b);
    unlink("any");
}

static void test_refused(void)
{
    static const struct {
        const char *file, *spec, *text;
    } bad[] = {
        { "1 1\n", "sparse mask=none", "none: " },
        { "1 1\n6 1\n", "sparse mask=any", "any:2: an id out of range in '6 1'" },
        { "1 1\n1 0\n", "sparse mask=any", "any:2: an id of 0" },
        { "1 1\n1 1\n", "sparse mask=any", "any:2: an edge again" },
        { "1 1 2\n1 2\n", "sparse file=any", "any:2: a field is missing" },
        { "1 1\n1 2 3\n", "sparse file=any", "any:2: more than that" },
        { "1 1 nan\n", "sparse file=any", "no finite number" },
        { "\1 1\n", "sparse file=any", "any:1: no id" },
        { "\x1f\x8b\x08 1", "sparse mask=any", "any: packed by gzip or zstd" },
        { "\x28\xb5\x2f\xfd 1", "sparse mask=any", "any: packed by gzip or zstd" },
        { "", "sparse mask=any", "any: empty" },
        { "\n\n", "sparse mask=any", "any: empty" },
        { "1 4\n", "sparse mask=any width=3", "any:1: an id out of range" },
        { "%%MatrixMarket matrix coordinate pattern general\n2 4 1\n1 1\n", "sparse mask=any",
          "2 rows and 4 columns, expected 5 columns" },
        { "%%MatrixMarket matrix coordinate pattern general\n2 5 1\n1 1\n",
          "sparse mask=any width=3", "2 rows and 5 columns" },
        { "%%MatrixMarket matrix coordinate pattern general\n2 5 0\n", "sparse mask=any",
          "0 connections to 2 outputs" },
        { "%%MatrixMarket matrix coordinate pattern general\n1048577 5 1\n1 1\n", "sparse mask=any",
          "at most 1048576 outputs" },
        { "1 1\n", "sparse radix mask=any", "leave out 'form'" },
        { "1 1\n", "sparse mask=any inputs=3", "leave out 'inputs'" },
        { "1 1\n", "sparse mask=any file=any", "takes one file, found 'any' behind 'any'" },
        { "1 1\n", "sparse mask=", "mask: the name of a file, of at most 255 characters" },
        { "1 1\n", "sparse random 4 2 any", "takes no more arguments" },
        { "1 1\n", "sparse mask=any 4", "needs form: radix or random or kept; found '4'" },
        { "1 1\n", "sparse kept 4", "has the connections of a model, and there is none" },
        { "1 1\n", "sparse kept", "needs width: a whole number" },
        { "1 1\n", "sparse kept 4 2", "'sparse kept' takes one number" },
        { "1 1\n", "sparse kept mask=any", "leave out 'form'" },
        { "1 1\n", "sparse mask=any bias=1e9", "bias: a number from -1000000 to 1000000" },
    };
    TEST("masks: what is refused, with the place in the file");
    struct wisp_layer_sizes sizes = { .batch = 1, .active = 1, .training = true };
    struct wisp_net net;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        long live = wisp_mem_live;
        put_file("any", bad[i].file);
        wisp_status st = wisp_net_plan(&net, bad[i].spec, 5, 3, &sizes, &err);
        CHECK(st == WISP_EINVAL && strstr(err.text, bad[i].text) && !strchr(err.text, '\n'),
              "'%s': %d '%s', expected '%s'", bad[i].spec, st, err.text, bad[i].text);
        CHECK(wisp_mem_live == live, "'%s': %ld blocks lost", bad[i].spec, wisp_mem_live - live);
    }
    char spec[400] = "sparse mask=";
    memset(spec + strlen(spec), 'a', 256);
    CHECK(wisp_net_plan(&net, spec, 5, 3, &sizes, &err) == WISP_EINVAL, "a name of 256 characters");
    unlink("any");
}

/* ---- runs ---- */

static void test_runs(const wisp_data *d)
{
    static const char *const how[] = { "epochs 3 holdout 0", "epochs 3 holdout 0 optimizer adagrad",
                                       "epochs 3 holdout 0 optimizer sgd average 0.9",
                                       "epochs 3 holdout 0 moments bf16" };
    TEST("masks: 1, 2 and 4 threads write the same bytes, and so does a run that was resumed "
         "without "
         "its files");
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        char resume[200];
        struct bytes one = { 0 };
        snprintf(resume, sizeof resume, "%s resume yes", how[i]);
        write_files();
        for (int threads = 1; threads <= 4; threads *= 2) {
            wisp_context *c;
            CHECK(wisp_context_create(&c, threads, &err) == WISP_OK, "%s", err.text);
            unlink(model);
            CHECK(rig_train(c, d, ragged, how[i], 0, model, NULL) == WISP_OK, "%s", err.text);
            if (threads == 1) one = slurp(model);
            CHECK(one.n > 1000 && file_is(model, one), "%d threads differ from 1", threads);
            wisp_context_free(c);
        }
        unlink(model);
        CHECK(rig_train(ctx, d, ragged, how[i], 2, model, NULL) == WISP_ESTOPPED, "%s", err.text);
        CHECK(!file_is(model, one), "there was nothing left to do");
        put_file("first.tsv", "1 1\n2 1\n"); /* other connections by now */
        unlink("second.mtx");
        CHECK(rig_train(ctx, d, ragged, resume, 0, model, NULL) == WISP_OK, "%s", err.text);
        CHECK(file_is(model, one), "'%s': resumed it differs", how[i]);
        remove_files();
        CHECK(rig_train(ctx, d, ragged, resume, 0, model, NULL) == WISP_OK && file_is(model, one),
              "a finished run: %s", err.text);
        free(one.p);
    }
    unlink(model);
    wisp_status st = rig_train(ctx, d, ragged, how[0], 0, model, NULL);
    CHECK(st == WISP_EINVAL && strstr(err.text, "first.tsv"), "without the file: %d %s", st,
          err.text);
    write_files();
    double first, last;
    CHECK(rig_train(ctx, d, ragged, "epochs 1 lr 1e-9", 0, model, &first) == WISP_OK &&
              rig_train(ctx, d, ragged, "epochs 12 lr 0.01", 0, model, &last) == WISP_OK,
          "%s", err.text);
    CHECK(last > first + 25, "P@1 %g, before training %g", last, first);
}

static const int32_t *ids_of(const struct wisp_net *net, int layer)
{
    return wisp_layer_wires(&net->layers[layer]).in;
}

/* Connections that 'random' drew, as a file: the same weights, and the same run. */
static void test_same_as_random(const wisp_data *d)
{
    struct wisp_model *a = NULL, *b = NULL;
    TEST("masks: connections as 'random' draws them train to the same bytes");
    CHECK(rig_train(ctx, d, "sparse random 60 7, relu", "epochs 2", 0, model, NULL) == WISP_OK &&
              wisp_model_load(&a, model, &err) == WISP_OK,
          "%s", err.text);
    if (!a) return;
    FILE *f = fopen("any", "w");
    for (int e = 0; f && e < 60 * 7; e++)
        fprintf(f, "%d %d\n", ids_of(&a->net, 0)[e] + 1, e / 7 + 1);
    if (f) fclose(f);
    CHECK(rig_train(ctx, d, "sparse mask=any, relu", "epochs 2", 0, other, NULL) == WISP_OK &&
              wisp_model_load(&b, other, &err) == WISP_OK,
          "%s", err.text);
    if (b) {
        CHECK(a->file.n_tensors == b->file.n_tensors, "%zu tensors", b->file.n_tensors);
        for (size_t i = 0; i < a->file.n_tensors && i < b->file.n_tensors; i++) {
            const struct wisp_tensor *x = &a->file.tensors[i], *y = &b->file.tensors[i];
            CHECK(strcmp(x->name, y->name) == 0 && x->bytes == y->bytes && x->n_dims == y->n_dims &&
                      memcmp(x->data, y->data, x->bytes) == 0,
                  "'%s' and '%s' differ", x->name, y->name);
        }
    }
    wisp_model_free(a), wisp_model_free(b);
    unlink("any");
}

/* The checkpoint with one number of a tensor changed, and sums that fit. */
static void change_state(const char *name, size_t at, int64_t to)
{
    char path[80];
    struct wisp_tensor_file f;
    snprintf(path, sizeof path, "%s.state", model);
    CHECK(wisp_tensor_file_open(&f, NULL, path, &err) == WISP_OK, "%s", err.text);
    const struct wisp_tensor *t = wisp_tensor_file_find(&f, name);
    CHECK(t, "there is no '%s'", name);
    if (t) {
        void *data = malloc(t->bytes);
        memcpy(data, t->data, t->bytes);
        if (t->dtype == WISP_I64) ((int64_t *)data)[at] = to;
        else ((int32_t *)data)[at] = (int32_t)to;
        ((struct wisp_tensor *)t)->data = data;
        CHECK(wisp_tensor_file_write(path, f.tensors, f.n_tensors, f.meta, f.n_meta, NULL, &err) ==
                  WISP_OK,
              "%s", err.text);
        free(data);
    }
    wisp_tensor_file_close(&f);
}

static void test_checkpoint(const wisp_data *d)
{
    static const struct {
        const char *name;
        size_t at;
        int64_t to;
        const char *text;
    } bad[] = {
        { "0.sparse.inputs", 0, -1, "the connections '0.sparse.inputs' cannot be of a run" },
        { "0.sparse.inputs", 0, FEATURES, "the connections '0.sparse.inputs' cannot be of a run" },
        { "2.sparse.inputs", 9, 0, "the connections '2.sparse.inputs' cannot be of a run" },
        { "0.sparse.start", 0, 1, "'0.sparse.start' must ascend from 0" },
        { "0.sparse.start", HIDDEN, 1, "'0.sparse.start' must ascend from 0" },
        { "2.sparse.start", 3, INT64_MAX, "'2.sparse.start' must ascend from 0" },
    };
    TEST("masks: a checkpoint with connections that cannot be is refused");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_files();
        unlink(model);
        CHECK(rig_train(ctx, d, ragged, "epochs 3", 1, model, NULL) == WISP_ESTOPPED, "%s",
              err.text);
        change_state(bad[i].name, bad[i].at, bad[i].to);
        wisp_status st = rig_train(ctx, d, ragged, "epochs 3 resume yes", 0, model, NULL);
        CHECK((st == WISP_EMODEL || st == WISP_EINVAL) && strstr(err.text, bad[i].text) &&
                  strstr(err.text, model),
              "%s: %d '%s'", bad[i].name, st, err.text);
    }
    char path[80];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s.state%s", model, i ? ".1" : "");
        unlink(path);
    }
}

/* ---- files ---- */

/* Saves the model as it is and expects the copy to be refused. */
static void refused(struct wisp_model *m, const char *text)
{
    struct wisp_model *again = NULL;
    CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_status st = wisp_model_load(&again, other, &err);
    CHECK(st == WISP_EMODEL && strstr(err.text, text), "expected '%s': %d '%s'", text, st,
          err.text);
    wisp_model_free(again);
}

static void test_hostile(struct wisp_model *m)
{
    struct wisp_layer *l = &m->net.layers[0];
    struct wisp_param *start = &l->params[2], *inputs = &l->params[3];
    int64_t *was = start->start, *places = malloc(start->n * sizeof *places);
    int32_t *in = inputs->ids, *ids = malloc(inputs->n * sizeof *ids);
    const int64_t n = (int64_t)inputs->n;
    const struct {
        size_t at;
        int64_t to;
    } moves[] = { { 0, 1 },     { 0, -1 },         { 5, INT64_MAX },      { 5, INT64_MIN },
                  { 7, -1 },    { HIDDEN, n + 1 }, { HIDDEN, n - 1 },     { HIDDEN, 0 },
                  { 2, n + 1 }, { HIDDEN, -n },    { HIDDEN, INT64_MAX }, { 3, n } };
    TEST("masks: a model whose places do not ascend to the number of connections is refused");
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        memcpy(places, was, start->n * sizeof *places);
        places[moves[i].at] = moves[i].to;
        start->start = places;
        refused(m, "'0.sparse.start' must ascend from 0 to");
    }
    memcpy(places, was, start->n * sizeof *places);
    start->start = was;
    TEST("masks: ids out of range, twice, or of another output");
    inputs->ids = ids;
    const size_t second = (size_t)was[3]; /* of an output that has some */
    const struct {
        size_t at;
        int32_t to;
    } odd[] = {
        { 0, -1 }, { 0, FEATURES }, { inputs->n - 1, INT32_MAX }, { second + 1, in[second] }
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        memcpy(ids, in, inputs->n * sizeof *ids);
        ids[odd[i].at] = odd[i].to;
        refused(m, "expected ascending ids below 150");
    }
    memcpy(ids, in, inputs->n * sizeof *ids);
    for (size_t o = 3; o < 10; o++) places[o]--; /* ascends still, but rows are cut elsewhere */
    start->start = places;
    refused(m, "expected ascending ids below 150");
    start->start = was;
    inputs->ids = in;
    TEST("masks: tensors that are missing or have another shape");
    char name[WISP_PARAM_NAME];
    memcpy(name, start->name, sizeof name);
    strcpy(start->name, "others");
    refused(m, "must be I32 of two dimensions, or of one beside '0.sparse.start', I64");
    memcpy(start->name, name, sizeof name);
    memcpy(name, inputs->name, sizeof name);
    strcpy(inputs->name, "others");
    refused(m, "tensor '0.sparse.inputs' is missing");
    memcpy(inputs->name, name, sizeof name);
    inputs->rank = 0;
    refused(m, "'0.sparse.inputs' must be I32 of two dimensions");
    inputs->rank = 1;
    const size_t all = start->dim[0];
    start->dim[0] = 1;
    refused(m, "'0.sparse.inputs' must be I32 of two dimensions");
    start->dim[0] = all;
    inputs->dim[0]--;
    refused(m, "must ascend from 0 to");
    inputs->dim[0]++;
    start->dim[0]--;
    refused(m, "must ascend from 0 to");
    start->dim[0]++;
    struct wisp_param *w = &l->params[0];
    w->dim[0]--;
    refused(m, "tensor '0.sparse.weight' has another type or shape");
    w->dim[0]++;
    free(places), free(ids);
}

static void test_file(const wisp_data *d)
{
    static float was[N * K], is[N * K];
    struct wisp_model *m = NULL, *again = NULL;
    TEST("masks: a model needs its files no more");
    write_files();
    CHECK(rig_train(ctx, d, ragged, "epochs 4", 0, model, NULL) == WISP_OK &&
              wisp_model_load(&m, model, &err) == WISP_OK,
          "%s", err.text);
    if (!m || !rig_score(was, m, d, N, K)) return;
    remove_files();
    CHECK(wisp_model_load(&again, model, &err) == WISP_OK, "%s", err.text);
    if (again && rig_score(is, again, d, N, K))
        CHECK(memcmp(was, is, sizeof was) == 0, "other scores");
    wisp_model_free(again);
    again = NULL;
    TEST("masks: a quantized copy keeps the connections");
    CHECK(wisp_model_quantize(m, other, "int8", &err) == WISP_OK &&
              wisp_model_load(&again, other, &err) == WISP_OK,
          "%s", err.text);
    if (again && rig_score(is, again, d, N, K))
        for (int i = 0; i < N * K; i++)
            CHECK(fabsf(was[i] - is[i]) < 0.05f, "score %d: %g and %g", i, was[i], is[i]);
    wisp_model_free(again);
    again = NULL;
    TEST("masks: training goes on from a model without the files");
    char more[200];
    snprintf(more, sizeof more, "epochs 1 lr 1e-9 seed 77 init %s", model);
    CHECK(rig_train(ctx, d, ragged, more, 0, other, NULL) == WISP_OK &&
              wisp_model_load(&again, other, &err) == WISP_OK,
          "%s", err.text);
    if (again && rig_score(is, again, d, N, K)) {
        for (int l = 0; l < 3; l += 2) {
            const struct wisp_wires a = wisp_layer_wires(&m->net.layers[l]),
                                    b = wisp_layer_wires(&again->net.layers[l]);
            CHECK(a.n_edges == b.n_edges && memcmp(a.in, b.in, a.n_edges * 4) == 0 &&
                      memcmp(a.start, b.start, (a.n_out + 1) * 8) == 0,
                  "layer %d has other connections", l);
        }
        for (int i = 0; i < N * K; i++) CHECK(fabsf(was[i] - is[i]) < 1e-3f, "score %d", i);
    }
    wisp_model_free(again);
    static const char *const others[] = {
        "sparse mask=any, relu, sparse file=second.mtx bias=-0.25, relu",
        "sparse mask=first.tsv, relu, relu, relu, relu, sparse mask=any",
    };
    write_mask("any", FEATURES, HIDDEN, false, false);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (i) write_mask("any", HIDDEN, WIDTH, false, false);
        wisp_status st = rig_train(ctx, d, others[i], more, 0, other, NULL);
        CHECK(st == WISP_EMODEL && strstr(err.text, "its net is"), "'%s': %d %s", others[i], st,
              err.text);
    }
    unlink("any");
    test_hostile(m);
    wisp_model_free(m);
}

static void test_memory(const wisp_data *d)
{
    TEST("masks: memory that runs out, from the beginning and resuming");
    for (int resume = 0; resume < 2; resume++) {
        write_files();
        unlink(model);
        if (resume)
            CHECK(rig_train(ctx, d, ragged, "epochs 2 batch 16", 1, model, NULL) == WISP_ESTOPPED,
                  "%s", err.text);
        if (resume) remove_files();
        rig_train_without_memory(d, ragged,
                                 resume ? "epochs 2 batch 16 resume yes" : "epochs 1 batch 16", 1);
    }
    remove_files();
}

/* Nets that become smaller: by weights, by units, and with the file's connections. */
static void test_smaller_memory(const wisp_data *d)
{
    static const struct {
        const char *net, *more;
    } runs[] = {
        { "input 20, relu, dense 16, relu", "epochs 2 batch 16 sampling full magnitude 0.7" },
        { ragged, "epochs 2 batch 16 sampling full magnitude 0.5" },
        { "sparse radix 32, relu, sparse random 20 6, relu",
          "epochs 2 batch 16 sampling full optimizer sgd lr 0.2 group-penalty 5 penalty-epochs 1" },
    };
    TEST("masks: memory that runs out while a net becomes smaller");
    write_files();
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        unlink(model);
        rig_train_without_memory(d, runs[i].net, runs[i].more, 1);
        struct wisp_model *m = NULL;
        CHECK(wisp_model_open(&m, NULL, model, &err) == WISP_OK, "%s", err.text);
        CHECK(m && strstr(m->spec, "sparse form=kept width="), "'%s' -> '%s'", runs[i].net,
              m ? m->spec : "");
        wisp_model_free(m);
    }
    remove_files();
}

int main(void)
{
    rig_init();
    wisp_data *d = rig_synth(500, FEATURES, 20, 1), *few = rig_synth(60, FEATURES, 20, 1);
    test_reading();
    test_turns();
    test_refused();
    test_runs(d);
    test_checkpoint(few);
    test_same_as_random(d);
    test_file(d);
    test_memory(few);
    test_smaller_memory(few);
    wisp_data_free(d), wisp_data_free(few);
    return rig_end();
}
