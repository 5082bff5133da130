/* Going on from a model: what is kept bit by bit, what is new, what adds up. */
#include "base/rand.h"
#include "graph/ids.h"
#include "model_rig.h"
#include "model/optimizer.h"

#include <math.h>

enum { F1 = 60, L1 = 20, F2 = 75, L2 = 26, N1 = 400, N2 = 150 };

static wisp_data *first, *more; /* more has further features and labels */
static char said[2000], state[80], other_state[80];

static void hear(void *arg, const char *line)
{
    (void)arg;
    strncat(said, line, sizeof said - strlen(said) - 1);
    strncat(said, "\n", sizeof said - strlen(said) - 1);
}

static struct wisp_model *load(const char *path)
{
    struct wisp_model *m = NULL;
    CHECK(wisp_model_open(&m, NULL, path, &err) == WISP_OK, "%s", err.text);
    return m;
}

static wisp_status go_on(const wisp_data *d, const char *net, const char *options)
{
    char line[400];
    snprintf(line, sizeof line, "init %s %s", model, options);
    said[0] = 0;
    return rig_train(ctx, d, net, line, 0, other, NULL);
}

/* One weight, whatever it is kept in. */
static float weight(const struct wisp_param *p, size_t i)
{
    float x;
    uint32_t bits = p->b16 ? (uint32_t)p->b16[i] << 16 : 0;
    memcpy(&x, &bits, sizeof x);
    return p->i8 ? (float)p->i8[i] * p->scale[i / p->cols] : p->b16 ? x : p->w[i];
}

/* How many of the old weights differ, and how many of the new ones are not as in a new net. */
static void compare(const struct wisp_model *old, const struct wisp_model *grown, size_t *changed,
                    size_t *moved)
{
    struct wisp_net fresh;
    struct wisp_layer_sizes sizes = { .batch = 1, .training = true };
    CHECK(wisp_net_plan(&fresh, grown->spec, grown->net.n_features, grown->net.n_labels, &sizes,
                        &err) == WISP_OK &&
              wisp_net_alloc_params(&fresh, &err) == WISP_OK,
          "%s", err.text);
    wisp_net_init(&fresh, 3, ctx->pool);
    *changed = *moved = 0;
    for (size_t i = 0; i < fresh.list.n; i++) {
        const struct wisp_param *a = &old->net.list.p[i], *b = &grown->net.list.p[i];
        for (size_t e = 0; a->role != WISP_FIXED && e < wisp_param_n(b); e++)
            if (e < wisp_param_n(a)) *changed += weight(a, e) != weight(b, e);
            else *moved += weight(b, e) != fresh.list.p[i].w[e];
    }
    wisp_net_clear(&fresh);
}

static void test_nets(void)
{
    static const char *const nets[] = { "input 12, relu",
                                        "input 12, relu, dropout 0.2, dense 9, relu",
                                        "sparse random 16 4, relu",
                                        "input 12, relu, sparse random 16 4, relu" };
    for (size_t n = 0; n < sizeof nets / sizeof *nets; n++) {
        TEST(nets[n]);
        size_t changed, moved;
        CHECK(rig_train(ctx, first, nets[n], "", 0, model, NULL) == WISP_OK, "%s", err.text);
        CHECK(go_on(more, nets[n], "epochs 2") == WISP_OK, "%s", err.text);
        CHECK(strstr(said, "20 old labels kept, 6 new; 60 old features, 15 new") &&
                  strstr(said, "optimizer state fresh, old rows do not move"),
              "%s", said);
        struct wisp_model *a = load(model), *b = load(other);
        CHECK(b->net.n_features == F2 && b->net.n_labels == L2, "%zu x %zu", b->net.n_features,
              b->net.n_labels);
        compare(a, b, &changed, &moved);
        CHECK(changed == 0 && moved > 100, "%zu old weights changed, %zu new ones moved", changed,
              moved);
        for (size_t i = 0; i < a->net.list.n; i++) {
            const struct wisp_param *x = &a->net.list.p[i], *y = &b->net.list.p[i];
            CHECK(!x->ids || memcmp(x->ids, y->ids, wisp_param_n(x) * sizeof *x->ids) == 0,
                  "%s: other connections", x->name);
        }
        for (size_t l = 0; l < L2; l++) {
            int64_t want = more->label_rows[l] + (l < L1 ? first->label_rows[l] : 0);
            CHECK(b->label_rows[l] == want, "label %zu: %ld rows", l, (long)b->label_rows[l]);
        }
        CHECK(b->n_train == N1 + N2, "%zu rows", b->n_train);
        wisp_model_free(b);
        CHECK(go_on(more, nets[n], "old-pace 0.5") == WISP_OK, "%s", err.text);
        b = load(other);
        compare(a, b, &changed, &moved);
        CHECK(changed > 100 && moved > 100, "at half the rate only %zu moved", changed);
        wisp_model_free(a);
        wisp_model_free(b);
    }
}

/* Weights of any type are taken over as they are read. */
static void test_types(void)
{
    static const char *const types[] = { "bf16", "int8" };
    struct bytes whole;
    size_t changed, moved;
    TEST("rows of other types");
    CHECK(rig_train(ctx, first, "input 12, relu", "", 0, model, NULL) == WISP_OK, "%s", err.text);
    whole = slurp(model);
    for (int i = 0; i < 2; i++) {
        struct wisp_model *m = load(model);
        CHECK(wisp_model_quantize(m, other, types[i], &err) == WISP_OK, "%s", err.text);
        wisp_model_free(m);
        rename(other, model);
        CHECK(go_on(more, "input 12, relu", "") == WISP_OK, "%s", err.text);
        struct wisp_model *a = load(model), *b = load(other);
        compare(a, b, &changed, &moved);
        CHECK(changed == 0 && moved > 100, "%s: %zu changed, %zu moved", types[i], changed, moved);
        CHECK(b->net.layers[0].params[0].w, "%s: the new model is narrow, too", types[i]);
        wisp_model_free(a);
        wisp_model_free(b);
        FILE *f = fopen(model, "wb");
        CHECK(f && fwrite(whole.p, 1, whole.n, f) == whole.n && fclose(f) == 0, "not written");
    }
    CHECK(go_on(more, "input 12, relu", "rows bf16") == WISP_OK, "%s", err.text);
    struct wisp_model *a = load(model), *b = load(other);
    const struct wisp_param *x = &a->net.layers[0].params[0], *y = &b->net.layers[0].params[0];
    size_t far = 0;
    for (size_t i = 0; i < x->rows * x->cols; i++)
        far += fabsf(x->w[i] - weight(y, i)) > fabsf(x->w[i]) / 256;
    CHECK(y->b16 && far == 0, "to bf16: %zu weights are others", far);
    wisp_model_free(a);
    wisp_model_free(b);
    free(whole.p);
}

/* Rows of one label each; the features of row i are the bits of sets[i]. */
static wisp_data *rows_of(const unsigned *sets, const int32_t *labels, size_t n, size_t n_features,
                          size_t n_labels)
{
    enum { MOST = 400 };
    int64_t xp[MOST + 1] = { 0 }, yp[MOST + 1];
    int32_t x[8 * MOST];
    float v[8 * MOST];
    wisp_data *d = NULL;
    for (size_t i = 0; i < n; i++) {
        xp[i + 1] = xp[i];
        for (int f = 0; f < 32; f++)
            if (sets[i] >> f & 1) x[xp[i + 1]] = f, v[xp[i + 1]++] = 1;
    }
    for (size_t i = 0; i <= n; i++) yp[i] = (int64_t)i;
    CHECK(wisp_data_from_csr(&d, n, n_features, n_labels, xp, x, v, yp, labels, &err) == WISP_OK,
          "%s", err.text);
    return d;
}

/* The model's features: 0 and 1 are known, 2 never occurred, 3 was in all rows; 4 and 5 are new.
 */
static void test_idf(void)
{
    TEST("idf");
    static const unsigned old[] = { 9, 11, 10, 9 }, new[] = { 8 + 32 + 1, 8 + 32 + 4, 8 + 32 + 16 };
    static const int32_t labels[] = { 0, 1, 0, 1 };
    const double want[] = { log(4.0 / 3), log(4.0 / 2), log(7.0), 0, log(7.0), log(7.0 / 3) };
    wisp_data *a = rows_of(old, labels, 4, 4, 2), *b = rows_of(new, labels, 3, 6, 2);
    CHECK(rig_train(ctx, a, "input 12, relu", "values tfidf holdout 0", 0, model, NULL) ==
                  WISP_OK &&
              go_on(b, "input 12, relu", "holdout 0") == WISP_OK,
          "%s", err.text);
    struct wisp_model *m = load(other), *was = load(model);
    for (int f = 0; f < 6; f++)
        CHECK(fabs(m->values.idf[f] - want[f]) < 1e-6, "feature %d: %g, not %g", f,
              m->values.idf[f], want[f]);
    CHECK(memcmp(m->values.idf, was->values.idf, 2 * sizeof(float)) == 0, "not the same bits");
    wisp_model_free(m);
    wisp_model_free(was);
    wisp_data_free(a);
    wisp_data_free(b);
}

/* Nothing new: all rows move as if they were the run's own. */
static void test_same(void)
{
    size_t changed, moved;
    TEST("nothing new");
    CHECK(rig_train(ctx, first, "input 12, relu", "", 0, model, NULL) == WISP_OK &&
              go_on(first, "input 12, relu", "") == WISP_OK,
          "%s", err.text);
    CHECK(
        strstr(said, "20 old labels kept, 0 new; 60 old features, 0 new; optimizer state fresh\n"),
        "%s", said);
    struct bytes here = slurp(other);
    struct wisp_model *a = load(model), *b = load(other);
    compare(a, b, &changed, &moved);
    CHECK(changed > 500 && moved == 0, "%zu moved", changed);
    wisp_model_free(a);
    wisp_model_free(b);
    wisp_context *one;
    CHECK(wisp_context_create(&one, 1, &err) == WISP_OK, "%s", err.text);
    char line[100];
    snprintf(line, sizeof line, "init %s", model);
    CHECK(rig_train(one, first, "input 12, relu", line, 0, other, NULL) == WISP_OK &&
              file_is(other, here),
          "one thread gives other bytes");
    wisp_context_free(one);
    free(here.p);
}

/* Labels that three of four new rows have, and no old one: they must not be everybody's.  (Without
 * what evens that out they are the best of all 300 old rows.) */
static void test_prior(void)
{
    TEST("labels that only new rows have");
    static const char *const losses[] = { "loss bce epochs 80", "loss softmax epochs 80" };
    enum { N = 300, M = 100, K = 5 };
    unsigned sets[N];
    int32_t labels[N], best[N];
    float score[N];
    for (unsigned i = 0; i < N; i++) /* a feature of the label, and one that says nothing */
        sets[i] = 1u << i % K | 1u << (10 + i % 7), labels[i] = (int32_t)(i % K);
    wisp_data *old = rows_of(sets, labels, N, 17, K), *new;
    for (unsigned i = 0; i < M; i++)
        sets[i] = 1u << (K + i % 2) | 1u << (10 + i % 7),
        labels[i] = (int32_t)(i % 4 == 3 ? i % K : K + i % 2);
    new = rows_of(sets, labels, M, 17, K + 2);
    for (int i = 0; i < 2; i++) {
        CHECK(rig_train(ctx, old, "input 16, relu", losses[i], 0, model, NULL) == WISP_OK &&
                  go_on(new, "input 16, relu", losses[i]) == WISP_OK,
              "%s", err.text);
        struct wisp_model *m = load(other);
        size_t wrong = 0, found = 0;
        CHECK(wisp_predict(best, score, ctx, m, old, 0, N, 1, &err) == WISP_OK, "%s", err.text);
        for (size_t r = 0; r < N; r++) wrong += best[r] >= K;
        CHECK(wisp_predict(best, score, ctx, m, new, 0, M, 1, &err) == WISP_OK, "%s", err.text);
        for (size_t r = 0; r < M; r++) found += best[r] == (int32_t)(K + r % 2);
        CHECK(wrong < N / 20 && found > M / 4, "%s: best of %zu old rows, found in %zu new",
              losses[i], wrong, found);
        wisp_model_free(m);
    }
    wisp_data_free(old);
    wisp_data_free(new);
}

static const struct wisp_tensor *slot(const struct wisp_tensor_file *f, const char *param,
                                      const char *what)
{
    char name[100];
    snprintf(name, sizeof name, "%s.%s", param, what);
    return wisp_tensor_file_find(f, name);
}

/* The optimiser's memory of old rows goes from state file to state file, bit by bit. */
static void test_state(void)
{
    static const struct {
        const char *options, *slots[3];
    } kinds[] = { { "optimizer adagrad", { "g2" } },
                  { "optimizer adam", { "m", "v", "count" } },
                  { "optimizer adam moments bf16", { "m", "v", "count" } },
                  { "optimizer sgd", { "m" } } };
    static const char *const params[] = { "0.input.weight", "2.output.weight", "2.output.bias" };
    char line[200];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        TEST(kinds[i].options);
        snprintf(line, sizeof line, "%s keep-state 1", kinds[i].options);
        CHECK(rig_train(ctx, first, "input 12, relu", line, 0, model, NULL) == WISP_OK, "%s",
              err.text);
        CHECK(access(state, F_OK) == 0, "no state is left");
        /* the optimiser is the state's where none is named */
        snprintf(line, sizeof line, "optimizer auto keep-state 1%s",
                 strstr(kinds[i].options, "bf16") ? " moments bf16" : "");
        CHECK(go_on(more, "input 12, relu", line) == WISP_OK, "%s", err.text);
        CHECK(strstr(said, "optimizer state kept"), "%s", said);
        struct wisp_tensor_file a, b;
        CHECK(wisp_tensor_file_open(&a, NULL, state, &err) == WISP_OK &&
                  wisp_tensor_file_open(&b, NULL, other_state, &err) == WISP_OK,
              "%s", err.text);
        for (int p = 0; p < 3; p++)
            for (int s = 0; s < 3 && kinds[i].slots[s]; s++) {
                const struct wisp_tensor *x = slot(&a, params[p], kinds[i].slots[s]),
                                         *y = slot(&b, params[p], kinds[i].slots[s]);
                CHECK(x && y && y->bytes > x->bytes && memcmp(x->data, y->data, x->bytes) == 0,
                      "%s.%s", params[p], kinds[i].slots[s]);
                bool any = false;
                for (size_t e = x ? x->bytes : 0; y && e < y->bytes; e++)
                    any |= ((const unsigned char *)y->data)[e] != 0;
                CHECK(any, "%s.%s: new rows have none", params[p], kinds[i].slots[s]);
            }
        wisp_tensor_file_close(&a);
        wisp_tensor_file_close(&b);
        struct bytes with = slurp(other);
        CHECK(go_on(first, "input 12, relu", kinds[i].options) == WISP_OK, "%s", err.text);
        CHECK(access(other_state, F_OK) != 0, "the state was not asked for");
        free(with.p);
        with = slurp(other);
        unlink(state);
        CHECK(go_on(first, "input 12, relu", kinds[i].options) == WISP_OK && !file_is(other, with),
              "the state makes no difference");
        free(with.p);
    }
    TEST("a state that is of no use");
    CHECK(rig_train(ctx, first, "input 12, relu", "keep-state 1", 0, model, NULL) == WISP_OK, "%s",
          err.text);
    CHECK(go_on(more, "input 12, relu", "optimizer adagrad") == WISP_OK &&
              strstr(said, "memory is not used: it is of adam") && strstr(said, "state fresh"),
          "%s", said);
    CHECK(rename(state, other_state) == 0 &&
              rig_train(ctx, first, "input 12, relu", "seed 8", 0, model, NULL) == WISP_OK &&
              rename(other_state, state) == 0,
          "%s", err.text);
    CHECK(go_on(more, "input 12, relu", "") == WISP_OK &&
              strstr(said, "belongs to another model") && strstr(said, "state fresh"),
          "%s", said);
    put_file(state, "no state");
    CHECK(go_on(more, "input 12, relu", "") == WISP_OK && strstr(said, "state fresh"), "%s", said);
    unlink(state);
}

static void refuse(const wisp_data *d, const char *net, const char *options, const char *words)
{
    wisp_status st = go_on(d, net, options);
    CHECK(st == WISP_EMODEL && strstr(err.text, words), "%d %s", st, err.text);
}

static void test_refused(void)
{
    TEST("refused");
    CHECK(rig_train(ctx, first, "input 12, relu", "", 0, model, NULL) == WISP_OK, "%s", err.text);
    refuse(more, "input 13, relu", "", "its net is 'input 12, relu', this run's is 'input 13");
    refuse(more, "input 12, relu, dense 12, relu", "", "its net is");
    refuse(more, "input 12, relu, dropout 0.1", "", "its net is");
    wisp_data *text = words();
    refuse(text, "input 12, relu", "", "its labels have numbers only");
    CHECK(rig_train(ctx, text, "input 12, relu", "holdout 0", 0, model, NULL) == WISP_OK, "%s",
          err.text);
    wisp_data_free(text);
    CHECK(go_on(more, "input 12, relu", "") == WISP_EINVAL &&
              strstr(err.text, "--init: has 4 names, the data has 26 labels; give"),
          "%s", err.text);
}

static void test_votes(void)
{
    TEST("votes of old and new rows");
    struct wisp_values unit = { .mode = WISP_VALUES_UNIT };
    struct wisp_votes a, b, both;
    CHECK(wisp_votes_make(&a, ctx, first, F1, &unit, 1, &err) == WISP_OK &&
              wisp_votes_make(&b, ctx, more, F2, &unit, 1, &err) == WISP_OK &&
              wisp_votes_make(&both, ctx, more, F2, &unit, 1, &err) == WISP_OK &&
              wisp_votes_join(&both, ctx, &a, &err) == WISP_OK,
          "%s", err.text);
    size_t n_both = 0;
    for (size_t f = 0; f < F2; f++) {
        double sum[L2] = { 0 };
        size_t n = 0;
        for (int64_t e = f < F1 ? a.start[f] : 0; e < (f < F1 ? a.start[f + 1] : 0); e++)
            sum[a.label[e]] += a.weight[e];
        for (int64_t e = b.start[f]; e < b.start[f + 1]; e++) {
            n_both += sum[b.label[e]] > 0;
            sum[b.label[e]] += b.weight[e];
        }
        for (size_t l = 0; l < L2; l++) n += sum[l] > 0;
        CHECK(n == (size_t)(both.start[f + 1] - both.start[f]), "feature %zu has another length",
              f);
        for (int64_t e = both.start[f]; e < both.start[f + 1]; e++) {
            CHECK(fabs(both.weight[e] - sum[both.label[e]]) < 1e-6, "feature %zu", f);
            CHECK(e == both.start[f] || both.weight[e] <= both.weight[e - 1], "not heaviest first");
        }
    }
    CHECK(n_both > 50, "only %zu labels are voted for by both", n_both);
    wisp_votes_clear(&a);
    wisp_votes_clear(&b);
    wisp_votes_clear(&both);
}

static void test_names(void)
{
    TEST("names that are merged");
    static char left[] = "a\nb\na\nc\n", right[] = "x\nc\na\nx\nb b", longer[] = "a\nb\na\nc\nd\n";
    static const int32_t want[] = { 4, 3, 0, 4, 5 };
    struct wisp_names a, b, c, out;
    int32_t map[5];
    CHECK(wisp_names_init(&a, left, sizeof left - 1, true, &err) == WISP_OK &&
              wisp_names_init(&b, right, sizeof right - 1, true, &err) == WISP_OK &&
              wisp_names_init(&c, longer, sizeof longer - 1, true, &err) == WISP_OK &&
              wisp_names_merge(&out, map, &a, &b, &err) == WISP_OK,
          "%s", err.text);
    CHECK(out.n == 6 && memcmp(out.text, "a\nb\na\nc\nx\nb b\n", out.bytes) == 0, "%.*s",
          (int)out.bytes, out.text);
    CHECK(memcmp(map, want, sizeof want) == 0, "other ids");
    CHECK(wisp_names_begin(&c, &a) && wisp_names_begin(&out, &a) && wisp_names_begin(&a, &a) &&
              !wisp_names_begin(&a, &c) && !wisp_names_begin(&b, &a),
          "which begins with which");
    wisp_names_clear(&a);
    wisp_names_clear(&b);
    wisp_names_clear(&c);
    wisp_names_clear(&out);
}

/* ---- failing allocations ---- */

static void test_memory(void)
{
    TEST("memory: opening and training with a model to go on from");
    char names[100], rows[100], line[400];
    long live, n = 0;
    snprintf(names, sizeof names, "%s/names", folder);
    snprintf(rows, sizeof rows, "%s/rows", folder);
    put_file(rows, "4 6 3\n0,1 0:1 3:2\n2 1:1\n0 5:1 2:3\n1 0:2\n");
    put_file(names, "one\ntwo\nthree\n");
    snprintf(line, sizeof line, "labels %s", names);
    wisp_config *c = config(line);
    wisp_data *d = NULL;
    wisp_report *report = NULL;
    CHECK(wisp_data_open(&d, ctx, rows, c, NULL, &err) == WISP_OK &&
              rig_train(ctx, d, "input 4, relu", line, 0, model, NULL) == WISP_OK,
          "%s", err.text);
    wisp_data_free(d);
    put_file(names, "four\nthree\none\n");
    set(c, "init", model);
    set(c, "net", "input 4, relu");
    live = wisp_mem_live;
    for (;; n++) {
        wisp_mem_budget = n;
        wisp_status st = wisp_data_open(&d, ctx, rows, c, NULL, &err);
        if (st == WISP_OK) st = wisp_train(&report, ctx, c, d, NULL, other, NULL, NULL, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        wisp_data_free(d);
        d = NULL;
        CHECK(st == WISP_ENOMEM, "after %ld: %d %s", n, st, err.text);
        CHECK(wisp_mem_live == live, "after %ld: %ld blocks lost", n, wisp_mem_live - live);
        if (st != WISP_ENOMEM) break;
    }
    CHECK(d && d->n_labels == 4 && n > 50, "%ld allocations", n);
    wisp_report_free(report);
    wisp_data_free(d);
    wisp_config_free(c);
    unlink(names);
    unlink(rows);
}

/* Weights are random numbers of their own layer, by the seed: the same in every version. */
static void test_first_weights(void)
{
    enum { SEED = 3, N_IN = 40000 }; /* more than a thread's part of them */
    TEST("a new net: the weights of each layer");
    struct wisp_net net;
    struct wisp_layer_sizes sizes = { .batch = 1, .training = true };
    CHECK(wisp_net_plan(&net, "input 3, relu, dense 5, relu, sparse random 4 4", N_IN, 7, &sizes,
                        &err) == WISP_OK &&
              wisp_net_alloc_params(&net, &err) == WISP_OK,
          "%s", err.text);
    wisp_net_init(&net, SEED, ctx->pool);
    int tried = 0;
    for (int i = 0; i < net.n_layers; i++) {
        const struct wisp_layer *l = &net.layers[i];
        if (l->n_params == 0) continue;
        const double deviation[] = { 0.1, sqrt(2.0 / 3), sqrt(2.0 / 4), 0.01 };
        const struct wisp_param *p = l->params;
        for (size_t e = 0; e < wisp_param_n(p); e++) {
            double x = wisp_rand_normal(SEED, wisp_stream(WISP_STREAM_INIT, 2 * (uint64_t)i), e);
            CHECK(p->w[e] == (float)(deviation[tried] * x), "layer %d [%zu]: %g", i, e, p->w[e]);
        }
        for (size_t e = 0; e < wisp_param_n(p + 1); e++)
            CHECK(p[1].w[e] == 0, "a bias: %g", p[1].w[e]);
        tried++;
    }
    CHECK(tried == 4, "%d layers have weights", tried);
    wisp_net_clear(&net);
}

int main(void)
{
    rig_init();
    snprintf(state, sizeof state, "%s.state", model);
    snprintf(other_state, sizeof other_state, "%s.state", other);
    wisp_context_on_notice(ctx, hear, NULL);
    first = rig_synth(N1, F1, L1, 2);
    more = rig_synth(N2, F2, L2, 2);
    test_first_weights();
    test_names();
    test_votes();
    test_nets();
    test_types();
    test_idf();
    test_same();
    test_prior();
    test_state();
    test_refused();
    test_memory();
    wisp_data_free(first);
    wisp_data_free(more);
    unlink(state), unlink(other_state);
    return rig_end();
}
