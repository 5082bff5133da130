/* Models and states with right checksums and wrong contents: numbers that are none, counts and
 * clocks that no run leaves.  Each is refused when it is loaded, with words; and rows whose scores
 * overflow are refused when they are scored. */
#include "model_rig.h"

#include "data/cache.h"
#include "fuzz/checks.h"
#include "model/metrics.h"

#include <float.h>
#include <math.h>

/* ---- a file with one thing changed ---- */

struct change {
    const char *tensor; /* NULL: metadata */
    size_t at;          /* the element */
    union {
        float f32;
        uint16_t b16;
        int64_t i64;
        int32_t i32;
    } to;
    const char *key, *value; /* of metadata */
    enum wisp_dtype as;      /* with 'retype' */
    bool retype;
};

/* Writes the tensor file again with the change; false: there is nothing to change. */
static bool rewrite(const char *path, const struct change *c)
{
    struct wisp_tensor_file f;
    bool found = false;
    if (wisp_tensor_file_open(&f, NULL, path, &err) != WISP_OK) return false;
    void *copy = NULL;
    for (size_t i = 0; i < f.n_tensors; i++) {
        struct wisp_tensor *t = &f.tensors[i];
        if (!c->tensor || strcmp(t->name, c->tensor) != 0) continue;
        size_t each = wisp_dtypes[t->dtype].bytes;
        copy = malloc(2 * t->bytes);
        memcpy(copy, t->data, t->bytes);
        memcpy((char *)copy + c->at * each, &c->to, each);
        t->data = copy;
        if (c->retype) {
            t->bytes = t->shape[0] * wisp_dtypes[c->as].bytes;
            t->dtype = c->as;
        }
        found = true;
    }
    for (size_t i = 0; i < f.n_meta; i++) {
        if (!c->key || strcmp(f.meta[i].key, c->key) != 0) continue;
        f.meta[i].value = c->value;
        found = true;
    }
    char temp[80];
    snprintf(temp, sizeof temp, "%s.new", path);
    CHECK(wisp_tensor_file_write(temp, f.tensors, f.n_tensors, f.meta, f.n_meta, NULL, &err) ==
              WISP_OK,
          "%s", err.text);
    wisp_tensor_file_close(&f);
    free(copy);
    CHECK(rename(temp, path) == 0, "cannot rename");
    return found;
}

static void put_bytes(const char *path, struct bytes b)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    CHECK(write(fd, b.p, b.n) == (ssize_t)b.n, "cannot write");
    close(fd);
}

static void refused(const char *path, struct bytes good, struct change c, const char *says)
{
    struct wisp_model *m = NULL;
    const char *what = c.tensor ? c.tensor : c.key;
    put_bytes(path, good);
    CHECK(rewrite(path, &c), "%s is not there", what);
    wisp_status st = wisp_model_open(&m, ctx->pool, path, &err);
    CHECK(st == WISP_EMODEL && strstr(err.text, says) && !strchr(err.text, '\n'), "%s: %d '%s'",
          what, st, st ? err.text : "");
    wisp_model_free(m);
}

static void test_models(void)
{
    TEST("a model with a number that is none, in any tensor, is refused");
    struct wisp_data *d = words();
    struct wisp_model *m = hand_made(d);
    CHECK(wisp_model_save(m, model, 50, 1, NULL, &err) == WISP_OK, "%s", err.text);
    struct bytes good = slurp(model);
    static const float odd[] = { NAN, -NAN, INFINITY, -INFINITY };
    struct wisp_tensor_file f;
    CHECK(wisp_tensor_file_open(&f, NULL, model, &err) == WISP_OK, "%s", err.text);
    size_t n = 0;
    for (size_t i = 0; i < f.n_tensors; i++) {
        const struct wisp_tensor *t = &f.tensors[i];
        if (t->dtype != WISP_F32) continue;
        for (int v = 0; v < 4; v++, n++)
            refused(other, good,
                    (struct change){
                        .tensor = t->name, .at = v % 2 ? t->bytes / 4 - 1 : 0, .to.f32 = odd[v] },
                    t->name);
    }
    CHECK(n >= 4 * 7, "only %zu changes", n);
    TEST("a model with counts, idf or sizes that cannot be is refused");
    refused(other, good, (struct change){ .tensor = "idf", .to.f32 = -1 }, "'idf' is -1 in row 0");
    static const int64_t counts[] = { -1, INT64_MIN, INT64_MAX, 7 };
    for (int v = 0; v < 4; v++)
        refused(other, good,
                (struct change){ .tensor = "label_rows", .at = 1, .to.i64 = counts[v] },
                "label 1, expected 0 to 6");
    static const char *const keys[] = { "features", "labels", "train_rows", "index_base" };
    static const char *const values[] = { "-1",  "x",
                                          "1 ",  "18446744073709551617",
                                          "1e3", "99999999999999999999999" };
    for (size_t k = 0; k < 4; k++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            refused(other, good, (struct change){ .key = keys[k], .value = values[v] }, keys[k]);
    wisp_tensor_file_close(&f);
    free(good.p);
    wisp_model_free(m);
    wisp_data_free(d);
}

/* ---- rows that overflow ---- */

static wisp_data *rows_of(float big)
{
    enum { N = 3 };
    static const int64_t ptr[] = { 0, 2, 4, 6 };
    static const int32_t idx[] = { 0, 1, 0, 1, 0, 1 };
    float v[] = { 1, 1, big, -big, 1, 2 };
    static const int64_t y_ptr[] = { 0, 1, 2, 3 };
    static const int32_t y_idx[] = { 0, 1, 2 };
    wisp_data *d = NULL;
    CHECK(wisp_data_from_csr(&d, N, 2, 3, ptr, idx, v, y_ptr, y_idx, &err) == WISP_OK, "%s",
          err.text);
    return d;
}

/* Weights of both signs, so that infinities meet. */
static struct wisp_model *raw_model(const char *loss)
{
    struct wisp_model *m = wisp_zalloc(1, sizeof *m);
    struct wisp_layer_sizes sizes = { .batch = 16, .active = 3, .training = true };
    static int64_t counts[3] = { 1, 1, 1 };
    m->spec = wisp_strdup("input 16, relu");
    m->options = wisp_strdup("");
    m->loss = wisp_loss_find(loss);
    m->values = (struct wisp_values){ .mode = WISP_VALUES_RAW };
    m->label_rows = counts;
    m->n_train = 3;
    CHECK(wisp_net_plan(&m->net, m->spec, 2, 3, &sizes, &err) == WISP_OK &&
              wisp_net_alloc_params(&m->net, &err) == WISP_OK,
          "%s", err.text);
    for (size_t i = 0; i < wisp_net_param_floats(&m->net); i++)
        m->net.params[i] = 5 * test_randf(&seed);
    return m;
}

static void expect_row_2(wisp_status st, const char *what)
{
    CHECK(st == WISP_ENUMERIC && strstr(err.text, "row 1: ") && err.row == 2, "%s: %d %s", what, st,
          err.text); /* of arrays, so that the text counts from 0 */
    memset(&err, 0, sizeof err);
}

static void test_images(void)
{
    TEST("a model of images with more or fewer features than pixels is refused");
    enum { N = 12, PIXELS = 16, CLASSES = 3 };
    uint8_t pixels[N * PIXELS];
    int64_t at[N + 1];
    int32_t labels[N];
    for (int i = 0; i < N * PIXELS; i++) pixels[i] = (uint8_t)(i * 37);
    for (int i = 0; i <= N; i++) at[i] = i;
    for (int i = 0; i < N; i++) labels[i] = i % CLASSES;
    wisp_data *d = NULL;
    CHECK(wisp_data_from_images(&d, N, 1, 4, 4, pixels, 0, CLASSES, at, labels, &err) == WISP_OK &&
              rig_train(ctx, d, "image, conv 2 3, relu, globalavg", "values raw index no", 0, model,
                        NULL) == WISP_OK,
          "%s", err.text);
    struct bytes good = slurp(model);
    static const char *const values[] = { "15", "17", "32", "916", "1" };
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        refused(other, good, (struct change){ .key = "features", .value = values[v] }, "'image'");
    static const char *const sizes[] = { "1 x 4 x 3", "1 x 2 x 4", "2 x 4 x 4", "1 x 1 x 1",
                                         "4294967295 x 4294967295 x 4294967295" };
    for (size_t v = 0; v < sizeof sizes / sizeof *sizes; v++)
        refused(other, good, (struct change){ .key = "image", .value = sizes[v] }, "'image'");
    free(good.p);
    wisp_data_free(d);
}

static void test_rows(void)
{
    TEST("a row whose scores overflow is an error that names it, in every way of prediction");
    wisp_data *d = rows_of(3.4e38f), *tame = rows_of(3);
    static const char *const losses[] = { "softmax", "bce" };
    for (int i = 0; i < 2; i++) {
        struct wisp_model *m = raw_model(losses[i]);
        int32_t labels[3 * 2];
        float scores[3 * 2];
        wisp_config *c = config("");
        for (int sparse = 0; sparse < 2; sparse++) {
            wisp_report *r = NULL;
            if (sparse) {
                CHECK(wisp_votes_make(&m->votes, ctx, tame, 2, &m->values, 1, &err) == WISP_OK,
                      "%s", err.text);
                set(c, "inference", "sparse");
            }
            const char *how = sparse ? "inference sparse" : "inference exact";
            CHECK(predict_so(labels, scores, ctx, m, tame, 0, 3, 2, how) == WISP_OK, "%s",
                  err.text);
            expect_row_2(predict_so(labels, scores, ctx, m, d, 0, 3, 2, how), losses[i]);
            expect_row_2(predict_so(labels, scores, ctx, m, d, 1, 1, 1, how), losses[i]);
            CHECK(wisp_eval(&r, ctx, m, tame, c, &err) == WISP_OK, "%s", err.text);
            wisp_report_free(r);
            r = NULL;
            expect_row_2(wisp_eval(&r, ctx, m, d, c, &err), "eval");
            wisp_report_free(r);
        }
        wisp_config_free(c);
        enum { MANY = 600, BAD = 590 };
        int64_t ptr[MANY + 1];
        int32_t idx[2 * MANY], many[MANY];
        float val[2 * MANY], best[MANY];
        for (int r = 0; r <= MANY; r++) ptr[r] = 2 * r;
        for (int e = 0; e < 2 * MANY; e++)
            idx[e] = e % 2, val[e] = e / 2 == BAD ? (e % 2 ? 3.4e38f : -3.4e38f) : 1;
        wisp_predictor *p = predictor_so(ctx, m, 1, "inference sparse");
        wisp_status st =
            wisp_predictor_run_csr(many, best, p, MANY, 2, ptr, idx, val, WISP_CSR_PTR64, &err);
        CHECK(st == WISP_ENUMERIC && strstr(err.text, "row 590:") && err.row == BAD + 1, "%d %s",
              st, err.text);
        wisp_predictor_free(p);
        wisp_model_free(m);
    }
    TEST("one logit that is infinite or no number is seen, whatever the others are");
    static const float biases[] = { 3e38f, -3e38f };
    for (int i = 0; i < 4; i++) {
        struct wisp_model *m = raw_model(losses[i / 2]);
        int32_t labels[3];
        float scores[3];
        struct wisp_layer *out = &m->net.layers[m->net.n_layers - 1];
        for (size_t c = 0; c < out->n_in; c++) out->params[0].w[c] = biases[i % 2];
        out->params[1].w[0] = biases[i % 2];
        wisp_status st = wisp_predict(labels, scores, ctx, m, tame, 0, 1, 3, &err);
        CHECK(st == WISP_ENUMERIC, "%d", st);
        wisp_model_free(m);
    }
    wisp_data_free(d);
    wisp_data_free(tame);
    TEST("an idf that makes values overflow is an error that names the row");
    struct wisp_data *text = words();
    struct wisp_model *m = hand_made(text);
    for (size_t f = 0; f < text->n_features; f++) m->idf[f] = 3e38f;
    struct wisp_scorer s;
    size_t row = 0;
    CHECK(wisp_scorer_init(&s, m, ctx, WISP_ZEROS_OFF, 1, &err) == WISP_OK, "%s", err.text);
    wisp_status st = wisp_scorer_run(&s, text, &row, 1, &err);
    CHECK(st == WISP_ENUMERIC && strstr(err.text, "row 1: ") && err.row == 1, "%d %s", st,
          err.text); /* a line */
    wisp_scorer_clear(&s);
    wisp_model_free(m);
    wisp_data_free(text);
    TEST("a score that is no number finds a bin");
    struct wisp_reliability bins = { 0 };
    static const double odd[] = { NAN, -NAN, INFINITY, -INFINITY, -1, 0, 1, 2, 0.999999999 };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) wisp_reliability_add(&bins, odd[i], true);
    CHECK(bins.n[0] == 5 && bins.n[WISP_N_BINS - 1] == 4, "%d, %d", (int)bins.n[0],
          (int)bins.n[WISP_N_BINS - 1]);
}

/* ---- states ---- */

static char state[80], before[80];

static void state_refused(const wisp_data *d, const char *options, struct bytes good_model,
                          struct bytes good, struct change c, const char *says)
{
    char more[300];
    const char *what = c.tensor ? c.tensor : c.key;
    put_bytes(model, good_model);
    put_bytes(state, good);
    unlink(before);
    CHECK(rewrite(state, &c), "%s is not there", what);
    snprintf(more, sizeof more, "%s resume 1", options);
    wisp_status st = rig_train(ctx, d, "", more, 0, model, NULL);
    CHECK(st == WISP_EMODEL && strstr(err.text, says) && !strchr(err.text, '\n'),
          "resume, %s: %d '%s', expected '%s'", what, st, st ? err.text : "", says);
}

static void init_refused(const wisp_data *d, const char *options, struct bytes good_model,
                         struct bytes good, struct change c, const char *says)
{
    char more[400];
    put_bytes(other, good_model);
    char path[80];
    snprintf(path, sizeof path, "%s.state", other);
    put_bytes(path, good);
    CHECK(rewrite(path, &c), "%s is not there", c.tensor);
    snprintf(more, sizeof more, "%s init %s", options, other);
    wisp_status st = rig_train(ctx, d, "", more, 0, model, NULL);
    CHECK(st == WISP_EMODEL && strstr(err.text, says), "init, %s: %d '%s'", c.tensor, st,
          st ? err.text : "");
    unlink(path);
}

/* The options of a state without the line of one of them, or with one more, to be freed. */
static char *options_but(const char *drop, const char *more)
{
    struct wisp_tensor_file f;
    CHECK(wisp_tensor_file_open(&f, NULL, state, &err) == WISP_OK, "%s", err.text);
    const char *all = wisp_tensor_file_meta(&f, "options"), *line = drop ? strstr(all, drop) : all;
    char *out = malloc(strlen(all) + strlen(more) + 1);
    size_t before_it = line ? (size_t)(line - all) : 0;
    CHECK(line != NULL, "no line %s", drop);
    memcpy(out, all, before_it);
    strcpy(out + before_it, drop ? line + strcspn(line, "\n") + 1 : all);
    strcat(out, more);
    wisp_tensor_file_close(&f);
    return out;
}

static void test_younger_options(const wisp_data *d)
{
    static const char run[] = "optimizer sgd epochs 3 index no";
    static const struct {
        const char *drop, *more, *options, *says; /* NULL: it goes on */
    } rows[] = {
        { "weight-decay=", "", "", NULL },
        { "weight-decay=", "", " weight-decay 0.1", "--weight-decay was '-1' and is '0.1'" },
        { NULL, "some-day=1\n", "", "--some-day is not of this version" },
        { "seed=", "", " seed 4", "--seed was '1' and is '4'" },
        { "net=", "net=input 8\nrelu\n", "", "--net was 'input 8" },
    };
    TEST("a state from before an option had its default; one with an option more is refused");
    CHECK(rig_train(ctx, d, "", run, 1, model, NULL) == WISP_ESTOPPED, "%s", err.text);
    struct bytes good_model = slurp(model), good = slurp(state);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char more[200], *options;
        put_bytes(model, good_model);
        put_bytes(state, good);
        unlink(before);
        options = options_but(rows[i].drop, rows[i].more);
        CHECK(rewrite(state, &(struct change){ .key = "options", .value = options }), "no options");
        snprintf(more, sizeof more, "%s%s resume 1", run, rows[i].options);
        wisp_status st = rig_train(ctx, d, "", more, 0, model, NULL);
        CHECK(rows[i].says ? st == WISP_EMODEL && strstr(err.text, rows[i].says) : st == WISP_OK,
              "%zu: %d '%s'", i, st, st ? err.text : "");
        free(options);
    }
    free(good.p), free(good_model.p);
}

static void test_states(void)
{
    snprintf(state, sizeof state, "%s.state", model);
    snprintf(before, sizeof before, "%s.state.1", model);
    wisp_data *d = rig_synth(120, 60, 30, 1.5);
    TEST("a state whose clocks, moments or types no run leaves is refused");
    static const char adam[] = "optimizer adam epochs 3 average 0.5 index no";
    CHECK(rig_train(ctx, d, "", adam, 1, model, NULL) == WISP_ESTOPPED, "%s", err.text);
    struct bytes good_model = slurp(model), good = slurp(state);
    static const struct {
        struct change c;
        const char *says;
        bool init;
    } changes[] = {
        { { .tensor = "0.input.weight.count", .at = 3, .to.i32 = -1 }, "counts up to 20000", true },
        { { .tensor = "0.input.weight.count", .at = 0, .to.i32 = 20001 },
          "counts up to 20000",
          true },
        { { .tensor = "0.input.weight.v", .to.f32 = -1e-3f }, "squares from 0", true },
        { { .tensor = "0.input.weight.v", .to.f32 = NAN }, "no number", true },
        { { .tensor = "0.input.weight.m", .to.f32 = INFINITY }, "no number", true },
        { { .tensor = "0.input.weight.w", .to.f32 = INFINITY }, "no number", false },
        { { .tensor = "average.w", .to.f32 = -INFINITY }, "no number", false },
        { { .tensor = "0.input.weight.m", .retype = true, .as = WISP_I32 }, "another type", true },
        { { .tensor = "0.input.weight.count", .retype = true, .as = WISP_F32 },
          "another type",
          true },
        { { .tensor = "0.input.weight.count", .retype = true, .as = WISP_I64 },
          "another type",
          true },
        { { .tensor = "0.input.bias.v", .retype = true, .as = WISP_I64 }, "another type", true },
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        state_refused(d, adam, good_model, good, changes[i].c, changes[i].says);
        if (changes[i].init)
            init_refused(d, "epochs 1", good_model, good, changes[i].c, changes[i].says);
    }
    free(good.p);
    free(good_model.p);

    TEST("a checkpoint whose smaller net cannot be is a bad file, not a wrong option");
    static const char cut[] = "group-cut 0.5 penalty-epochs 2 epochs 3 index no";
    CHECK(rig_train(ctx, d, "", cut, 1, model, NULL) == WISP_ESTOPPED, "%s", err.text);
    good_model = slurp(model), good = slurp(state);
    static const char *const nets[] = { "dens= 8", "input 0", "input 8, dense", "input 8, add x" };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        state_refused(d, cut, good_model, good, (struct change){ .key = "net", .value = nets[i] },
                      "train without --resume");
    free(good.p);
    free(good_model.p);

    TEST("hash tables and lists that no run leaves are refused");
    static const char sampled[] = "optimizer adagrad epochs 3 sampling lsh+ivf keep 2 tables 2 "
                                  "bits 4 rebuild 3 lists 4 index no batch 8";
    CHECK(rig_train(ctx, d, "", sampled, 1, model, NULL) == WISP_ESTOPPED, "%s", err.text);
    good_model = slurp(model), good = slurp(state);
    enum { FILLED = 18 }; /* of the counters, in words of 32 bits */
    static const struct change blobs[] = {
        { .tensor = "sampler.lsh.total", .at = 0, .to.i32 = 1 << 20 },
        { .tensor = "sampler.lsh.total", .at = 1, .to.i32 = 31 },
        { .tensor = "sampler.lsh.counters", .at = FILLED, .to.i32 = -5 },
        { .tensor = "sampler.lsh.counters", .at = 11, .to.i32 = 1 }, /* a gap of 2^32 */
        { .tensor = "sampler.lsh.frames", .at = 2, .to.f32 = NAN },
        { .tensor = "sampler.ivf.metric", .at = 2, .to.f32 = INFINITY },
        { .tensor = "sampler.ivf.centres", .at = 2, .to.f32 = NAN },
        { .tensor = "recall.sums", .at = 1, .to.i32 = -1 },
        { .tensor = "2.output.bias.g2", .at = 1, .to.f32 = -1 },
    };
    for (size_t i = 0; i < sizeof blobs / sizeof *blobs; i++) {
        bool sampling = !strstr(blobs[i].tensor, "output");
        state_refused(d, sampled, good_model, good, blobs[i],
                      sampling ? "cannot be of this run" : "squares from 0");
    }
    free(good.p);

    test_younger_options(d);
    TEST("a finished model whose epoch cannot be is refused by resume");
    unlink(state), unlink(before);
    static const char *const epochs[] = { "2147483647", "-1", "4" };
    for (int i = 0; i < 3; i++) {
        char more[300];
        put_bytes(model, good_model);
        CHECK(rewrite(model, &(struct change){ .key = "epoch", .value = epochs[i] }), "no epoch");
        snprintf(more, sizeof more, "%s resume 1", sampled);
        wisp_status st = rig_train(ctx, d, "", more, 0, model, NULL);
        CHECK(st == WISP_EMODEL && strstr(err.text, "epoch"), "%s: %d %s", epochs[i], st, err.text);
    }
    TEST("a model that cannot be loaded is nobody's last word: resume refuses it");
    static const struct change damaged[] = {
        { .tensor = "2.output.weight", .to.f32 = NAN },
        { .tensor = "label_rows", .retype = true, .as = WISP_I32 },
        { .key = "loss", .value = "other" },
        { .key = "features", .value = "59" },
    };
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        char more[300];
        put_bytes(model, good_model);
        CHECK(rewrite(model, &damaged[i]), "nothing to change");
        snprintf(more, sizeof more, "%s resume 1", sampled);
        wisp_status st = rig_train(ctx, d, "", more, 0, model, NULL);
        CHECK(st == WISP_EMODEL && strstr(err.text, "train without --resume"), "%zu: %d %s", i, st,
              err.text);
    }
    free(good_model.p);
    wisp_data_free(d);
    unlink(state), unlink(before);
}

/* ---- caches ---- */

/* The cache at 'path' with a word of 64 bits changed, 'place' words behind the fixed fields and the
 * entry of the only block; all sums are right. */
static void spoil_cache(const char *path, struct bytes good, size_t place, uint64_t value)
{
    static const struct checks_plan plan = { sizeof(struct wisp_cache_index),
                                             offsetof(struct wisp_cache_index, n_blocks),
                                             sizeof(struct wisp_cache_entry),
                                             sizeof(struct wisp_block_head),
                                             offsetof(struct wisp_block_head, check) };
    unsigned char *p = malloc(good.n);
    memcpy(p, good.p, good.n);
    size_t at = (size_t)checks_get(p + good.n - 64) + sizeof(struct wisp_cache_index) +
                sizeof(struct wisp_cache_entry) + 8 * place;
    memcpy(p + at, &value, sizeof value);
    checks_fix(p, good.n, &plan);
    put_bytes(path, (struct bytes){ p, good.n });
    free(p);
}

static void test_caches(void)
{
    TEST("a cache whose counts are not those of its rows is made anew");
    struct wisp_builder b = { 0 };
    struct wisp_sink *s;
    struct wisp_data *d = NULL;
    CHECK(wisp_sink_create(&s, other, &err) == WISP_OK, "%s", err.text);
    for (int row = 0; row < 4; row++)
        CHECK(wisp_builder_label(&b, row % 2, &err) == WISP_OK &&
                  wisp_builder_feature(&b, row % 3, 1, &err) == WISP_OK &&
                  wisp_builder_end_row(&b, &err) == WISP_OK,
              "%s", err.text);
    CHECK(wisp_sink_add(s, &b, &err) == WISP_OK && wisp_sink_finish(&d, s, &err) == WISP_OK, "%s",
          err.text);
    wisp_builder_clear(&b);
    wisp_data_free(d);
    struct bytes good = slurp(other);
    static const uint64_t counts[] = { 0, 5, UINT64_MAX, (uint64_t)1 << 63 };
    spoil_cache(other, good, 0, 2); /* what it is: rows with feature 0 */
    CHECK(wisp_cache_open(&d, NULL, other, NULL, NULL, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_data_free(d);
    for (size_t place = 0; place < 5; place++) /* 3 features, 2 labels */
        for (size_t v = 0; v < 4; v++) {
            spoil_cache(other, good, place, counts[v]);
            wisp_status st = wisp_cache_open(&d, NULL, other, NULL, NULL, NULL, &err);
            CHECK(st == WISP_EFORMAT && strstr(err.text, "counts"), "%zu: %d %s", place, st,
                  err.text);
            wisp_data_free(d);
        }
    free(good.p);
}

int main(void)
{
    rig_init();
    test_models();
    test_images();
    test_rows();
    test_states();
    test_caches();
    return rig_end();
}
