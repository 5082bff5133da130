/* Trained models as deep sparse networks: the logits of wisp_sparse_run against what the model
 * predicts itself, in every mode; what has no such form; memory that runs out. */
#include "model_rig.h"

#include <math.h>

enum { FEATURES = 64, LABELS = 12, N = 60 };

static void write_files(void)
{
    FILE *f = fopen("mask", "w"), *g = fopen("file", "w");
    for (int o = 1; o <= 50; o++)
        for (int i = 1; i <= FEATURES; i++) {
            bool there = o % 7 == 0 ? false : o % 5 == 0 ? true : (i * 13 + o * 5) % 11 < o % 4;
            if (there) fprintf(f, "%d %d\n", i, o);
        }
    for (int i = 1; i <= 16; i++)
        for (int o = 1; o <= 16; o++)
            if ((i ^ o) < 9) fprintf(g, "%d\t%d\t0.125\n", i, o);
    fclose(f), fclose(g);
}

/* All scores of a row by label, as the model says them before any calibration. */
static void predict(float *to, const struct wisp_model *m, const wisp_data *d)
{
    struct wisp_scorer s;
    size_t rows[N];
    for (size_t i = 0; i < N; i++) rows[i] = i;
    CHECK(wisp_scorer_init(&s, m, ctx, WISP_ZEROS_OFF, LABELS, &err) == WISP_OK &&
              wisp_scorer_run(&s, d, rows, N, &err) == WISP_OK,
          "%s", err.text);
    for (size_t i = 0; i < N * LABELS; i++)
        to[i / LABELS * LABELS + (size_t)s.labels[i]] = s.scores[i];
    wisp_scorer_clear(&s);
}

/* Logits become what the loss makes of them. */
static void score(float *to, const float *logits, bool softmax)
{
    for (size_t i = 0; i < N; i++) {
        double sum = 0;
        for (size_t l = 0; l < LABELS; l++) sum += exp((double)logits[i * LABELS + l]);
        for (size_t l = 0; l < LABELS; l++) {
            double e = exp((double)logits[i * LABELS + l]);
            to[i * LABELS + l] = (float)(softmax ? e / sum : e / (1 + e));
        }
    }
}

static void run(float *logits, wisp_sparse *net, const wisp_data *d, const char *mode)
{
    static uint64_t start[N + 1];
    static uint32_t id[N * FEATURES];
    static float value[N * FEATURES];
    static uint8_t ends[N];
    for (size_t i = 0; i < N; i++) {
        size_t at;
        const struct wisp_rows *r = wisp_data_row(d, i, &at);
        start[i + 1] = start[i];
        for (uint32_t e = r->xp[at]; e < r->xp[at + 1]; e++) {
            id[start[i + 1]] = (uint32_t)wisp_row_id(r, e);
            value[start[i + 1]++] = wisp_row_value(r, e);
        }
    }
    wisp_config *c;
    CHECK(wisp_config_create(&c, &err) == WISP_OK, "%s", err.text);
    set(c, "mode", mode);
    CHECK(wisp_sparse_run(logits, ends, NULL, ctx, net, N, start, id, value, c, &err) == WISP_OK,
          "%s", err.text);
    wisp_config_free(c);
}

static void check_model(const char *path, const wisp_data *d, const char *what)
{
    static const char *const modes[] = { "raw", "exact", "merged" };
    static float want[N * LABELS], got[N * LABELS], logits[N * LABELS];
    struct wisp_model *m = NULL;
    wisp_sparse *net = NULL;
    bool ok = wisp_model_load(&m, path, &err) == WISP_OK &&
              wisp_sparse_load(&net, ctx, path, &err) == WISP_OK;
    CHECK(ok, "%s: %s", what, err.text);
    for (size_t i = 0; ok && i < 3; i++) {
        float worst = 0, least = 1, most = 0;
        predict(want, m, d);
        run(logits, net, d, modes[i]);
        score(got, logits, strcmp(m->loss->name, "softmax") == 0);
        for (size_t e = 0; e < N * LABELS; e++) {
            worst = fmaxf(worst, fabsf(want[e] - got[e]));
            least = fminf(least, want[e]), most = fmaxf(most, want[e]);
        }
        CHECK(worst <= 1e-5f && most > least + 0.1f, "%s, %s: off by %g (scores %g to %g)", what,
              modes[i], (double)worst, (double)least, (double)most);
    }
    wisp_sparse_free(net);
    wisp_model_free(m);
}

static void test_nets(const wisp_data *d)
{
    static const char *const nets[] = {
        "sparse radix 64, relu, sparse radix 64, relu, sparse radix 32, relu",
        "sparse mask=mask, relu, clip 2, sparse random 40 6, relu, clip 2, dense 16, relu, clip 2, "
        "sparse file=file bias=-0.1, clip 2, relu",
        "input 48, bn, relu, dropout 0.2, sparse random 32 8, bn, identity, relu, sampled 20, "
        "flatten, dense 16",
        "sparse mask=mask, relu, relu, output",
    };
    TEST("deep models: logits of a model as a deep sparse network, in all modes");
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        const char *how = i % 2 ? "epochs 8 values raw loss bce" : "epochs 8 values raw";
        CHECK(rig_train(ctx, d, nets[i], how, 0, model, NULL) == WISP_OK, "%s", err.text);
        check_model(model, d, nets[i]);
    }
    TEST("deep models: of nets that were pruned, by weights and by units");
    static const struct {
        const char *net, *how;
    } pruned[] = {
        { "input 48, relu, dense 32, bn, relu",
          "epochs 9 values raw sampling full optimizer sgd lr 0.1 magnitude 0.8" },
        { "sparse radix 64, relu, sparse random 48 8, relu",
          "epochs 9 values raw sampling full optimizer sgd lr 0.1 group-penalty 0.1" },
    };
    for (size_t i = 0; i < sizeof pruned / sizeof *pruned; i++) {
        struct wisp_model *m = NULL;
        CHECK(rig_train(ctx, d, pruned[i].net, pruned[i].how, 0, model, NULL) == WISP_OK &&
                  wisp_model_load(&m, model, &err) == WISP_OK,
              "%s", err.text);
        CHECK(m && strstr(m->spec, "sparse form=kept"), "'%s' -> '%s'", pruned[i].net,
              m ? m->spec : "");
        wisp_model_free(m);
        check_model(model, d, pruned[i].net);
    }
    TEST("deep models: of bf16 and int8");
    static const char *const types[] = { "bf16", "int8" };
    for (int i = 0; i < 2; i++) {
        struct wisp_model *m = NULL;
        CHECK(rig_train(ctx, d, nets[2], "epochs 8 values raw", 0, model, NULL) == WISP_OK &&
                  wisp_model_load(&m, model, &err) == WISP_OK &&
                  wisp_model_quantize(m, other, types[i], &err) == WISP_OK,
              "%s", err.text);
        wisp_model_free(m);
        check_model(other, d, types[i]);
    }
    TEST("deep models: saved as a network of its own");
    wisp_sparse *net = NULL;
    static float was[N * LABELS], is[N * LABELS];
    CHECK(rig_train(ctx, d, nets[1], "epochs 2 values raw", 0, model, NULL) == WISP_OK &&
              wisp_sparse_load(&net, ctx, model, &err) == WISP_OK,
          "%s", err.text);
    if (!net) return;
    run(was, net, d, "raw");
    CHECK(wisp_sparse_save(net, other, &err) == WISP_OK, "%s", err.text);
    wisp_sparse_free(net);
    CHECK(wisp_sparse_load(&net, ctx, other, &err) == WISP_OK, "%s", err.text);
    if (net) run(is, net, d, "raw");
    CHECK(memcmp(was, is, sizeof was) == 0, "other logits");
    wisp_sparse_free(net);
}

/* The Graph Challenge's own layers, from their files, trained for some steps. */
static void test_official(void)
{
    enum { DEEP = 12 };
    TEST("deep models: 12 layers of the challenge's files, trained, run as it runs them");
    const char *data = getenv("WISP_DATA"), *home = getenv("HOME");
    char folder_of[300], first[400], net[DEEP * 400];
    size_t at = 0;
    snprintf(folder_of, sizeof folder_of, "%s%s/graphchallenge/neuron1024",
             data   ? data
             : home ? home
                    : "",
             data ? "" : "/.cache/wisp-data");
    snprintf(first, sizeof first, "%s/n1024-l1.tsv", folder_of);
    if (access(first, R_OK) != 0 || strcspn(folder_of, " ,()#=") < strlen(folder_of)) {
        SKIP("no graphchallenge in $WISP_DATA; run ../shared/data/unpack graphchallenge");
        return;
    }
    for (int i = 1; i <= DEEP; i++)
        at += (size_t)snprintf(net + at, sizeof net - at,
                               "sparse file=%s/n1024-l%d.tsv bias=-0.05, relu, clip 32\n",
                               folder_of, i);
    wisp_data *d = rig_synth(300, 1024, LABELS, 1);
    put_file("deep.net", net);
    CHECK(rig_train(ctx, d, "deep.net", "epochs 1 values raw lr 1e-4", 0, model, NULL) == WISP_OK,
          "%s", err.text);
    check_model(model, d, "the challenge");
    unlink("deep.net");
    wisp_data_free(d);
}

static void test_refused(const wisp_data *d)
{
    static const struct {
        const char *net, *more, *text;
    } bad[] = {
        { "input 8, relu", "values unit", "its values are 'unit', expected 'raw'" },
        { "input 8, relu as a, dense 8, add a", "values raw", "layer 4, 'add': there is no form" },
        { "input 8 as a, relu as b, from a, dense 8, relu, concat b, dense 4", "values raw",
          "expected a chain" },
        { "input 8, clip 2, dense 4", "values raw",
          "layer 3, 'dense': before it is a 'clip' without a 'relu'" },
        { "input 8, relu, clip 2, dense 4, relu", "values raw",
          "layer 6, 'output': before it is another 'clip' than before" },
        { "input 8, relu, clip 0", "values raw", "layer 3, 'clip': a bound of 0, expected one" },
        { "input 8, relu, bn", "values raw",
          "layer 3, 'bn': it must follow weights at once to be part of them" },
    };
    TEST("deep models: what has no such form is named");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wisp_sparse *net = NULL;
        CHECK(rig_train(ctx, d, bad[i].net, bad[i].more, 0, model, NULL) == WISP_OK, "%s",
              err.text);
        wisp_status st = wisp_sparse_load(&net, ctx, model, &err);
        CHECK(st == WISP_ENOTSUP && !net && strstr(err.text, bad[i].text) &&
                  strncmp(err.text, model, strlen(model)) == 0,
              "'%s': %d '%s'", bad[i].net, st, err.text);
        wisp_sparse_free(net);
    }
    wisp_sparse *net;
    CHECK(wisp_sparse_load(&net, ctx, "none", &err) == WISP_EIO && !net, "%s", err.text);
    put_file(other, "");
    CHECK(wisp_sparse_load(&net, ctx, other, &err) == WISP_EFORMAT && !net, "%s", err.text);
}

static void test_memory(const wisp_data *d)
{
    TEST("deep models: memory that runs out");
    CHECK(rig_train(ctx, d, "sparse mask=mask, relu, dense 8, bn, relu", "values raw", 0, model,
                    NULL) == WISP_OK,
          "%s", err.text);
    long live = wisp_mem_live;
    for (long n = 0;; n++) {
        wisp_sparse *net = NULL;
        wisp_mem_budget = n;
        wisp_status st = wisp_sparse_load(&net, ctx, model, &err);
        wisp_mem_budget = -1;
        wisp_sparse_free(net);
        CHECK(st == WISP_OK || (st == WISP_ENOMEM && !net), "after %ld: %d %s", n, st, err.text);
        CHECK(wisp_mem_live == live, "after %ld: %ld blocks lost", n, wisp_mem_live - live);
        if (st != WISP_ENOMEM) break;
    }
}

int main(void)
{
    rig_init();
    wisp_data *d = rig_synth(300, FEATURES, LABELS, 1);
    write_files();
    test_nets(d);
    test_official();
    test_refused(d);
    test_memory(d);
    unlink("mask"), unlink("file");
    wisp_data_free(d);
    return rig_end();
}
