/* The defaults of a run: each rule of plan.c and sampling.c, on both sides of its borders. */
#include "base/mem.h"
#include "layer/product.h"
#include "model/run.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct wisp_kernels kernels;
static wisp_error err;

static wisp_config *config(const char *options)
{
    wisp_config *c;
    char line[400], *p = line;
    snprintf(line, sizeof line, "values unit %s", options);
    if (wisp_config_create(&c, &err) != WISP_OK) abort();
    for (char *key; (key = strsep(&p, " ")) && *key;) {
        const char *value = strsep(&p, " ");
        CHECK(value && wisp_config_set(c, key, value, &err) == WISP_OK, "%s: %s", key, err.text);
    }
    return c;
}

static wisp_status plan(struct wisp_plan *p, size_t n_rows, size_t n_labels, const char *options,
                        const struct wisp_model *init)
{
    struct wisp_data d = { .n_rows = n_rows, .n_labels = n_labels };
    wisp_config *c = config(options);
    wisp_status st = wisp_plan_make(p, c, &kernels, &d, init, false, &err);
    wisp_config_free(c);
    return st;
}

static const char *shown(const struct wisp_plan *p)
{
    static char out[400];
    snprintf(out, sizeof out, "%zu x %d, %.6g, %s %s %.6g, %s%s", p->batch, p->epochs, p->holdout,
             p->loss->name, p->optimizer->name, p->lr, p->net.line, p->index ? ", index" : "");
    return out;
}

struct expected {
    size_t n_rows, n_labels;
    const char *options, *want;
};

static void expect(const struct expected *e, size_t n, const struct wisp_model *init)
{
    for (size_t i = 0; i < n; i++) {
        struct wisp_plan p;
        wisp_status st = plan(&p, e[i].n_rows, e[i].n_labels, e[i].options, init);
        CHECK(st == WISP_OK && strcmp(shown(&p), e[i].want) == 0, "{ %zu, %zu, \"%s\", \"%s\" }",
              e[i].n_rows, e[i].n_labels, e[i].options, st == WISP_OK ? shown(&p) : err.text);
        wisp_plan_clear(&p);
    }
}
#define EXPECT(cases, init) expect(cases, sizeof cases / sizeof *cases, init)

static void test_rows(void)
{
    TEST("plan: batch, epochs, validation rows and learning rate, from the number of rows");
    static const struct expected cases[] = {
        { 1, 2, "", "8 x 100, 0, bce adam 0.016, input 512, relu, dropout 0.5" },
        { 100, 2, "", "8 x 100, 0, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 199, 2, "", "8 x 60, 0, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 200, 2, "", "8 x 60, 0.1, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 511, 2, "", "8 x 25, 0.1, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 512, 2, "", "16 x 47, 0.1, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 1023, 2, "", "16 x 25, 0.1, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 1024, 2, "", "32 x 47, 0.1, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 4095, 2, "", "64 x 25, 0.1, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 4096, 2, "", "128 x 25, 0.1, bce adam 0.00441379, input 512, relu, dropout 0.5" },
        { 10000, 2, "", "128 x 25, 0.1, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 20000, 2, "", "128 x 18, 0.1, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 25000, 2, "", "128 x 16, 0.08, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 45000, 2, "", "128 x 12, 0.0444444, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 99999, 2, "", "128 x 8, 0.0200002, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 100000, 2, "", "256 x 8, 0.02, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 400000, 2, "", "256 x 5, 0.02, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 1000000, 2, "", "256 x 5, 0.02, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 2000000, 2, "", "256 x 5, 0.01, bce adam 0.004, input 512, relu, dropout 0.5" },
    };
    EXPECT(cases, NULL);
}

static void test_labels(void)
{
    TEST("plan: loss, optimiser and net, from the number of rows and labels");
    static const struct expected cases[] = {
        { 99999, 4096, "", "128 x 8, 0.0200002, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 99999, 4097, "",
          "128 x 8, 0.0200002, bce adam 0.006, input 256, relu, dropout 0.3, index" },
        { 100000, 4096, "", "256 x 8, 0.02, bce adam 0.004, input 512, relu, dropout 0.5" },
        { 100000, 4097, "",
          "256 x 8, 0.02, softmax adagrad 0.1, input 256, relu, dropout 0.1, index" },
        { 100000, 4097, "epochs 1",
          "256 x 1, 0.02, softmax adagrad 0.15, input 256, relu, dropout 0.1, index" },
        { 100000, 4097, "epochs 1 sampling full",
          "256 x 1, 0.02, softmax adagrad 0.1, input 256, relu, dropout 0.1, index" },
        { 100000, 4097, "epochs 1 optimizer sgd",
          "256 x 1, 0.02, softmax sgd 0.5, input 256, relu, dropout 0.1, index" },
        { 100000, 4097, "epochs 1 optimizer sgd hidden 9,8 dropout 0",
          "256 x 1, 0.02, softmax sgd 0.5, input 9, relu, dense 8, relu, index" },
        { 100000, 4097, "epochs 1 optimizer sgd hidden 9,8,7,6 dropout 0",
          "256 x 1, 0.02, softmax sgd 0.125, input 9, relu, dense 8, relu, dense 7, relu, dense 6, "
          "relu, index" },
        { 99999, 4097, "memory 1",
          "128 x 8, 0.0200002, bce adam 0.006, input 256, relu, dropout 0.3" },
    };
    EXPECT(cases, NULL);
}

/* Each label has 'each' rows. */
static void test_visits(void)
{
    TEST("plan: loss, from how often the run comes by a label");
    static const struct {
        size_t n_rows, n_labels;
        int64_t each;
        const char *options, *want;
    } cases[] = {
        { 40000, 5000, 8, "epochs 4", "softmax" }, /* bce would not leave the ground */
        { 40000, 5000, 8, "", "softmax" },
        { 40000, 5000, 8, "epochs 125", "bce" },
        { 40000, 5000, 8, "epochs 124", "softmax" },
        { 40000, 5000, 8, "epochs 4 loss bce", "bce" },
        { 12000, 700, 43, "", "softmax" },
        { 12000, 700, 44, "", "bce" },
        { 12000, 700, 44, "epochs 2", "softmax" },
        { 12000, 100, 42, "epochs 2", "bce" }, /* few labels: it learns all the same */
        { 12000, 101, 42, "epochs 2", "softmax" },
        { 120000, 5000, 1000, "", "softmax" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_plan p;
        int64_t *rows = calloc(cases[i].n_labels, sizeof *rows);
        for (size_t l = 0; l < cases[i].n_labels; l++) rows[l] = cases[i].each;
        struct wisp_data d = { .n_rows = cases[i].n_rows,
                               .n_labels = cases[i].n_labels,
                               .label_rows = rows };
        wisp_config *c = config(cases[i].options);
        wisp_status st = wisp_plan_make(&p, c, &kernels, &d, NULL, false, &err);
        CHECK(st == WISP_OK && strcmp(p.loss->name, cases[i].want) == 0,
              "%zu rows, %zu labels, \"%s\": %s", cases[i].n_rows, cases[i].n_labels,
              cases[i].options, st == WISP_OK ? p.loss->name : err.text);
        wisp_plan_clear(&p);
        wisp_config_free(c);
        free(rows);
    }
}

static void test_given(void)
{
    TEST("plan: what is given stays");
    static const struct expected cases[] = {
        { 1000, 10,
          "batch 7 epochs 3 holdout 0 loss softmax optimizer sgd lr 0.5 dropout 0 hidden 5,6 index "
          "yes",
          "7 x 3, 0, softmax sgd 0.5, input 5, relu, dense 6, relu, index" },
        { 1000, 5000, "holdout 0.5 dropout 0.25 hidden 5,6 index no",
          "16 x 25, 0.5, bce adam 0.006, input 5, relu, dropout 0.25, dense 6, relu, dropout "
          "0.25" },
        { 1000, 10, "net input", "16 x 25, 0.1, bce adam 0.004, input" },
    };
    EXPECT(cases, NULL);
}

static void test_images(void)
{
    static const struct {
        size_t n_rows;
        const char *options;
        size_t batch;
        int epochs;
        const char *loss, *optimizer;
        double lr, weight_decay, smoothing;
    } cases[] = {
        { 60000, "net lenet", 128, 10, "softmax", "sgd", 0.05, 5e-4, 0 },
        { 15000, "net lenet", 128, 40, "softmax", "sgd", 0.05, 5e-4, 0 },
        { 50000, "net lenet", 128, 12, "softmax", "sgd", 0.05, 5e-4, 0 },
        { 1000, "net lenet", 16, 40, "softmax", "sgd", 0.0176777, 5e-4, 0 },
        { 90, "net lenet", 8, 100, "softmax", "sgd", 0.0125, 5e-4, 0 },
        { 1000000, "net lenet", 256, 5, "softmax", "sgd", 0.0707107, 5e-4, 0 },
        { 60000, "net lenet loss bce optimizer adam weight-decay 0", 128, 10, "bce", "adam", 0.004,
          0, 0 },
        { 60000, "net lenet smoothing 0.1 lr 0.1", 128, 10, "softmax", "sgd", 0.1, 5e-4, 0.1 },
        { 60000, "net mlp", 128, 10, "bce", "adam", 0.004, 0, 0 },
    };
    TEST("plan: nets of images");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_plan p;
        CHECK(plan(&p, cases[i].n_rows, 10, cases[i].options, NULL) == WISP_OK, "%s", err.text);
        CHECK(p.batch == cases[i].batch && p.epochs == cases[i].epochs &&
                  strcmp(p.loss->name, cases[i].loss) == 0 &&
                  strcmp(p.optimizer->name, cases[i].optimizer) == 0 &&
                  fabs(p.lr - cases[i].lr) < 1e-6 && p.weight_decay == cases[i].weight_decay &&
                  p.smoothing == cases[i].smoothing && strcmp(p.decay->name, "linear") == 0,
              "%zu rows, %s: %s, weight decay %g, smoothing %g, %s", cases[i].n_rows,
              cases[i].options, shown(&p), p.weight_decay, p.smoothing, p.decay->name);
        wisp_plan_clear(&p);
    }
}

static void test_init(void)
{
    TEST("plan: a model that goes on counts the rows it has seen, and keeps its labels");
    const struct wisp_model init = { .n_train = 50000, .net = { .n_labels = 5000 } };
    static const struct expected cases[] = {
        { 1000, 10, "", "128 x 25, 0.1, bce adam 0.006, input 256, relu, dropout 0.3, index" },
        { 49999, 5001, "",
          "128 x 11, 0.0400008, bce adam 0.006, input 256, relu, dropout 0.3, index" },
        { 50000, 5001, "",
          "256 x 11, 0.04, softmax adagrad 0.1, input 256, relu, dropout 0.3, index" },
    };
    EXPECT(cases, &init);
}

static const char *precision(bool fast16, const char *options)
{
    struct wisp_plan p;
    kernels.fast16 = fast16;
    CHECK(plan(&p, 1000, 10, options, NULL) == WISP_OK, "%s", err.text);
    kernels.fast16 = false;
    wisp_plan_clear(&p);
    return p.precision->name;
}

static void test_precision(void)
{
    TEST("plan: products in bf16 where they are fast");
    CHECK(strcmp(precision(false, ""), "fp32") == 0, "not here");
    CHECK(strcmp(precision(true, ""), "bf16") == 0, "here");
    CHECK(strcmp(precision(false, "device cuda"), "bf16") == 0, "on a card");
    CHECK(strcmp(precision(true, "precision fp32"), "fp32") == 0, "as asked for");
    CHECK(strcmp(precision(true, "net lenet"), "fp32") == 0, "convolutions: only if asked for");
    CHECK(strcmp(precision(true, "net lenet precision bf16"), "bf16") == 0, "they were asked for");
}

/* Pieces of words are dropped, words are not. */
static void test_pieces(void)
{
    TEST("plan: inputs dropped, from what the features are; what else is handed on");
    struct wisp_data d = { .n_rows = 1000, .n_labels = 10, .text.chars_max = 5 };
    struct wisp_plan p, words;
    wisp_config *c = config("patience 4 checkpoint-minutes 2 warmup 0.25 average 0.5 seed 9");
    CHECK(wisp_plan_make(&p, c, &kernels, &d, NULL, true, &err) == WISP_OK, "%s", err.text);
    d.text.chars_max = 0;
    CHECK(wisp_plan_make(&words, c, &kernels, &d, NULL, true, &err) == WISP_OK, "%s", err.text);
    CHECK(p.input_dropout == 0.3 && words.input_dropout == 0, "%g and %g", p.input_dropout,
          words.input_dropout);
    CHECK(p.holdout == 0, "there are rows for validation: %g", p.holdout);
    CHECK(p.patience == 4 && p.checkpoint_s == 120 && p.warmup == 0.25 && p.average == 0.5 &&
              p.seed == 9 && !p.half && !p.cuda && !p.hogwild && p.memory == 0,
          "options");
    wisp_plan_clear(&p), wisp_plan_clear(&words);
    wisp_config_free(c);
}

/* ---- samplers ---- */

static const char *shown_sampling(const struct wisp_sampling *o)
{
    static char out[300];
    snprintf(out, sizeof out, "%s %s, keep %zu, %zu..%zu, random %zu, carry %zu%s", o->names,
             o->family, o->keep, o->least, o->most, o->n_random, o->n_carried,
             o->per_example ? ", per example" : "");
    return out;
}

static void test_sampling(void)
{
    TEST("plan: samplers, from the number of labels");
    static const struct {
        size_t n_labels;
        const char *options, *want;
    } cases[] = {
        { 4096, "", "full dwta, keep 20, 0..2500, random 100, carry 100" },
        { 4097, "", "neighbours+features+random dwta, keep 20, 0..2500, random 100, carry 100" },
        { 4097, "memory 1", "neighbours+random dwta, keep 20, 0..2500, random 100, carry 100" },
        { 4097, "device cuda", "scan dwta, keep 20, 0..0, random 100, carry 100" },
        { 20199, "", "neighbours+features+random dwta, keep 20, 0..2500, random 100, carry 100" },
        { 20200, "", "neighbours+features+random dwta, keep 20, 0..2500, random 101, carry 101" },
        { 99999, "", "neighbours+features+random dwta, keep 20, 0..11999, random 499, carry 499" },
        { 100200, "", "neighbours+features+random dwta, keep 20, 0..12024, random 500, carry 500" },
        { 199999, "", "neighbours+features+random dwta, keep 20, 0..23999, random 500, carry 500" },
        { 199999, "memory 1", "neighbours+random dwta, keep 20, 0..23999, random 500, carry 500" },
        { 199999, "device cuda", "scan dwta, keep 20, 0..0, random 500, carry 500" },
        { 200000, "", "neighbours+lsh dwta, keep 20, 0..24000, random 500, carry 0" },
        { 200000, "memory 1", "neighbours+lsh dwta, keep 20, 0..24000, random 500, carry 0" },
        { 200000, "device cuda", "neighbours+lsh dwta, keep 20, 0..0, random 500, carry 0" },
        { 3999999, "", "neighbours+lsh dwta, keep 20, 0..479999, random 500, carry 0" },
        { 3999999, "device cuda", "neighbours+lsh dwta, keep 20, 0..0, random 500, carry 0" },
        { 4000000, "", "neighbours+features+random dwta, keep 20, 0..480000, random 500, carry 0" },
        { 4000000, "memory 1", "neighbours+random dwta, keep 20, 0..480000, random 500, carry 0" },
        { 4000000, "device cuda", "neighbours+random dwta, keep 20, 0..0, random 500, carry 0" },
        { 1009, "sampling random", "random dwta, keep 20, 0..2500, random 100, carry 100" },
        { 1010, "sampling random", "random dwta, keep 20, 0..2500, random 101, carry 101" },
        { 30000, "sampling random", "random dwta, keep 20, 0..3600, random 2000, carry 2000" },
        { 30000, "sampling lsh hash simhash keep 3 random 0 carry 0 active-max 0",
          "lsh simhash, keep 3, 0..0, random 0, carry 0" },
        { 30000, "sampling lsh random 1 carry 1 active-max 1",
          "lsh dwta, keep 20, 0..1, random 1, carry 1" },
        { 30000, "sampling lsh active-min 3600",
          "lsh dwta, keep 20, 3600..3600, random 150, carry 150" },
        { 30000, "sampling lsh active-min 3601",
          "lsh dwta, keep 20, 3601..3601, random 150, carry 150" },
        { 30000, "sampling lsh active-min 7 active-max 7",
          "lsh dwta, keep 20, 7..7, random 150, carry 150" },
        { 30000, "sampling lsh active-min 7 active-max 0",
          "lsh dwta, keep 20, 7..0, random 150, carry 150" },
        { 30000, "sampling lsh active-per example",
          "lsh dwta, keep 20, 0..3600, random 150, carry 150, per example" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_sampling o;
        wisp_config *c = config(cases[i].options);
        wisp_status st = wisp_sampling_plan(&o, c, cases[i].n_labels, &err);
        CHECK(st == WISP_OK && strcmp(shown_sampling(&o), cases[i].want) == 0,
              "{ %zu, \"%s\", \"%s\" }", cases[i].n_labels, cases[i].options,
              st == WISP_OK ? shown_sampling(&o) : err.text);
        wisp_config_free(c);
    }
}

static void test_options(void)
{
    TEST("plan: a sampler's options arrive");
    wisp_config *c = config("frequent 3 correct 0.5 rescore yes bits 4 tables 5 bucket 6 replace "
                            "reservoir strategy vanilla votes 7 transform yes rebuild 8 redraw 9 "
                            "lists 10 probes 11");
    struct wisp_sampling o;
    CHECK(wisp_sampling_plan(&o, c, 10, &err) == WISP_OK, "%s", err.text);
    CHECK(o.n_frequent == 3 && o.correct == 0.5f && o.rescore && o.bits == 4 && o.tables == 5 &&
              o.bucket == 6 && o.reservoir && o.strategy == WISP_VANILLA && o.votes == 7 &&
              o.transform && o.rebuild == 8 && o.redraw == 9 && o.lists == 10 && o.probes == 11,
          "some do not");
    wisp_config_free(c);
    c = config("rescore no replace fifo strategy topk transform no");
    CHECK(wisp_sampling_plan(&o, c, 10, &err) == WISP_OK && !o.rescore && !o.reservoir &&
              o.strategy == WISP_TOPK && !o.transform,
          "%s", err.text);
    wisp_config_free(c);
    c = config("strategy threshold");
    CHECK(wisp_sampling_plan(&o, c, 10, &err) == WISP_OK && o.strategy == WISP_THRESHOLD, "%s",
          err.text);
    wisp_config_free(c);
}

/* A hidden layer's sampler is the output's, without what is about labels or a whole batch. */
static void test_hidden(void)
{
    TEST("plan: samplers of hidden layers");
    struct wisp_plan p;
    CHECK(plan(&p, 1000, 30000,
               "sampling lsh keep 3 active-min 5 active-max 6 correct 0.5 random 9 tables 4 "
               "hidden-sampling ivf+random",
               NULL) == WISP_OK,
          "%s", err.text);
    CHECK(p.sampling.keep == 3 && p.sampling.least == 5 && p.sampling.most == 6 &&
              p.sampling.correct == 0.5f,
          "the output's");
    CHECK(p.hidden.keep == 0 && p.hidden.least == 0 && p.hidden.most == 0 &&
              p.hidden.correct == 0 && !p.hidden.per_example,
          "what is about labels");
    CHECK(strcmp(p.hidden.names, "ivf+random") == 0 && p.hidden.tables == 4 &&
              p.hidden.n_random == 9,
          "what is not");
    wisp_plan_clear(&p);
    CHECK(plan(&p, 1000, 30000, "sampling lsh active-per example", NULL) == WISP_OK &&
              p.sampling.per_example && !p.hidden.per_example,
          "%s", err.text);
    wisp_plan_clear(&p);
}

static void test_refused(void)
{
    static const struct {
        const char *options, *want;
    } bad[] = {
        { "active-min 7 active-max 6", "--active-min: 7 is more than --active-max 6" },
        { "active-min 1 active-per example", "not with --active-per example" },
        { "rows bf16 average 0.1", "--average: rows of bf16" },
        { "smoothing 0.1 sampling random", "--smoothing: --sampling random computes some" },
        { "sampling random+random", "--sampling: 'random' twice" },
        { "hidden-sampling neighbours", "--hidden-sampling: 'neighbours' needs labels" },
        { "hogwild yes sampling lsh", "needs --active-per example:" },
        { "hogwild yes sampling full active-per example", "and a --sampling other than full" },
    };
    TEST("plan: what is refused");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct wisp_plan p;
        wisp_status st = plan(&p, 1000, 30000, bad[i].options, NULL);
        CHECK(st == WISP_EINVAL && strstr(err.text, bad[i].want), "'%s': %d '%s'", bad[i].options,
              st, err.text);
        CHECK(err.place_bytes > 4 && strncmp(err.text, "--", 2) == 0 &&
                  strncmp(err.text + err.place_bytes - 2, ": ", 2) == 0 && err.file_bytes == 0,
              "'%s': the place is '%.*s'", bad[i].options, (int)err.place_bytes, err.text);
    }
    char names[300] = "sampling random", hidden[300] = "hidden-sampling random";
    for (int i = 0; i < 20; i++) strcat(names, "+features"), strcat(hidden, "+features");
    struct wisp_plan p;
    CHECK(plan(&p, 1000, 30000, names, NULL) == WISP_EINVAL && strstr(err.text, "is too long"),
          "%s", err.text);
    CHECK(plan(&p, 1000, 30000, hidden, NULL) == WISP_EINVAL && strstr(err.text, "is too long"),
          "%s", err.text);
}

/* ---- the learning rate ---- */

static void test_lr(void)
{
    TEST("plan: the learning rate rises, then falls to nearly 0, or stays");
    static const struct {
        const char *decay;
        size_t t;
        double want;
    } cases[] = {
        { "linear", 0, 0.25 },     { "linear", 2, 0.75 },     { "linear", 3, 1 },
        { "linear", 4, 16. / 17 }, { "linear", 19, 1. / 17 }, { "none", 0, 0.25 },
        { "none", 3, 1 },          { "none", 19, 1 },         { "cosine", 0, 0.25 },
        { "cosine", 3, 1 },        { "cosine", 19, 0.00851 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_plan p = { .lr = 2, .warmup = 0.2, .decay = wisp_decay_find(cases[i].decay) };
        double got = wisp_plan_lr(&p, cases[i].t, 20);
        CHECK(fabs(got - 2 * cases[i].want) < 1e-4, "%s, step %zu: %g", cases[i].decay, cases[i].t,
              got);
    }
    struct wisp_plan cold = { .lr = 2, .warmup = 0, .decay = wisp_decay_find("linear") };
    CHECK(fabs(wisp_plan_lr(&cold, 0, 9) - 1.8) < 1e-9, "%g", wisp_plan_lr(&cold, 0, 9));
}

int main(void)
{
    if (wisp_kernels_select(&kernels, "scalar", NULL) != WISP_OK) return 1;
    test_rows();
    test_labels();
    test_visits();
    test_given();
    test_images();
    test_init();
    test_precision();
    test_pieces();
    test_sampling();
    test_options();
    test_hidden();
    test_refused();
    test_lr();
    CHECK(wisp_mem_live == 0, "%ld blocks not freed", (long)wisp_mem_live);
    return test_end();
}
