/* Training runs with sampled hidden layers, with output rows of each sample's own, and hogwild:
 * threads, resume, files, what is refused, and memory that runs out. */
#include "model_rig.h"

static const char WIDE[] = "input 24, relu, sampled 130, relu, sampled 70, relu";

static wisp_status train(wisp_context *with, const wisp_data *d, const char *net, const char *more,
                         int stop, double *p1)
{
    return rig_train(with, d, net, more, stop, model, p1);
}

static const struct {
    const char *net, *more;
} runs[] = {
    { "", "sampling neighbours+random random 40 carry 20 active-per example epochs 3 holdout 0" },
    { "",
      "sampling lsh+random random 20 active-per example epochs 3 holdout 0 loss bce correct 1" },
    { WIDE, "epochs 3 holdout 0 sampling full hidden-sampling lsh" },
    { WIDE, "epochs 3 holdout 0 sampling ivf hidden-sampling ivf+random random 9 loss bce "
            "optimizer adagrad" },
    { WIDE, "epochs 3 holdout 0 sampling lsh+random random 30 hidden-sampling random active-per "
            "example" },
    { WIDE, "epochs 3 holdout 0 sampling full hidden-sampling full optimizer sgd lr 0.1" },
};
enum { N_RUNS = sizeof runs / sizeof *runs };

static void test_threads(const wisp_data *d)
{
    TEST("wide: 1, 2 and 4 threads write the same bytes");
    for (size_t i = 0; i < N_RUNS; i++) {
        struct bytes one = { 0 };
        for (int threads = 1; threads <= 4; threads *= 2) {
            wisp_context *c;
            CHECK(wisp_context_create(&c, threads, &err) == WISP_OK, "%s", err.text);
            unlink(model);
            CHECK(train(c, d, runs[i].net, runs[i].more, 0, NULL) == WISP_OK, "%s", err.text);
            if (threads == 1) one = slurp(model);
            CHECK(one.n > 1000 && file_is(model, one), "'%s': %d threads differ from 1",
                  runs[i].more, threads);
            wisp_context_free(c);
        }
        free(one.p);
    }
}

static void test_resume(const wisp_data *d)
{
    char more[300];
    TEST("wide: stopped and resumed is the same model");
    for (size_t i = 0; i < N_RUNS; i++) {
        unlink(model);
        CHECK(train(ctx, d, runs[i].net, runs[i].more, 0, NULL) == WISP_OK, "%s", err.text);
        struct bytes whole = slurp(model);
        unlink(model);
        CHECK(train(ctx, d, runs[i].net, runs[i].more, 2, NULL) == WISP_ESTOPPED, "%s", err.text);
        CHECK(!file_is(model, whole), "'%s': there was nothing left to do", runs[i].more);
        snprintf(more, sizeof more, "%s resume yes", runs[i].more);
        CHECK(train(ctx, d, runs[i].net, more, 0, NULL) == WISP_OK, "%s", err.text);
        CHECK(file_is(model, whole), "'%s': resumed it differs", runs[i].more);
        free(whole.p);
    }
}

/* The scores of a model that was loaded are those it had when it was saved. */
static void test_file(const wisp_data *d)
{
    enum { N = 50, K = 4 };
    int32_t labels[N * K];
    float scores[N * K];
    struct wisp_model *m = NULL;
    TEST("wide: a net with sampled layers, saved and loaded");
    CHECK(train(ctx, d, WIDE, "epochs 2", 0, NULL) == WISP_OK &&
              wisp_model_load(&m, model, &err) == WISP_OK,
          "%s", err.text);
    if (!m) return;
    const struct wisp_layer *l = &m->net.layers[2];
    CHECK(strcmp(m->spec, WIDE) == 0 && l->kind == &wisp_layer_sampled && l->n_out == 130 &&
              l->params[0].rows == 130 && l->params[0].cols == 24 && l->params[1].rows == 130 &&
              strcmp(l->params[0].name, "2.sampled.weight") == 0,
          "the net is '%s'", m->spec);
    struct wisp_scorer s;
    size_t rows[N];
    for (size_t i = 0; i < N; i++) rows[i] = i;
    CHECK(wisp_scorer_init(&s, m, ctx, WISP_ZEROS_OFF, K, &err) == WISP_OK &&
              wisp_scorer_run(&s, d, rows, N, &err) == WISP_OK,
          "%s", err.text);
    memcpy(labels, s.labels, sizeof labels), memcpy(scores, s.scores, sizeof scores);
    wisp_scorer_clear(&s);
    CHECK(wisp_model_save(m, other, 1, 1, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_model_free(m);
    CHECK(wisp_model_load(&m, other, &err) == WISP_OK &&
              wisp_scorer_init(&s, m, ctx, WISP_ZEROS_OFF, K, &err) == WISP_OK &&
              wisp_scorer_run(&s, d, rows, N, &err) == WISP_OK,
          "%s", err.text);
    CHECK(memcmp(labels, s.labels, sizeof labels) == 0 &&
              memcmp(scores, s.scores, sizeof scores) == 0,
          "other scores");
    wisp_scorer_clear(&s);
    wisp_model_free(m);
}

static void test_hogwild(const wisp_data *d)
{
    static const char run[] = "epochs 8 sampling neighbours+random random 10 active-per example "
                              "hogwild yes lr 0.01 hidden 24";
    wisp_context *one;
    double first, last;
    TEST("wide: hogwild with one thread repeats itself and learns; with two it learns");
    CHECK(wisp_context_create(&one, 1, &err) == WISP_OK, "%s", err.text);
    CHECK(train(one, d, "", "epochs 1 lr 1e-9 sampling full", 0, &first) == WISP_OK &&
              train(one, d, "", run, 0, &last) == WISP_OK,
          "%s", err.text);
    struct bytes once = slurp(model);
    CHECK(train(one, d, "", run, 0, NULL) == WISP_OK && file_is(model, once), "twice differs");
    CHECK(last > first + 25, "P@1 %g, before training %g", last, first);
#ifndef __SANITIZE_THREAD__ /* it races, on purpose */
    CHECK(train(ctx, d, "", run, 0, &last) == WISP_OK, "%s", err.text);
    CHECK(last > first + 25, "two threads: P@1 %g, before training %g", last, first);
#endif
    free(once.p);
    wisp_context_free(one);
}

static void test_refused(const wisp_data *d)
{
    static const struct {
        const char *more, *text;
    } bad[] = {
        { "hogwild yes sampling lsh", "needs --active-per example:" },
        { "hogwild yes active-per example sampling full", "and a --sampling other than full" },
        { "hidden-sampling neighbours", "--hidden-sampling: 'neighbours' needs labels" },
        { "hidden-sampling frequency+lsh", "--hidden-sampling: 'frequency' needs labels" },
        { "hidden-sampling lsh+nothing", "--hidden-sampling: no 'nothing'" },
        { "hidden-sampling full+lsh", "--hidden-sampling: 'full' is all rows" },
    };
    TEST("wide: what is refused");
    unlink(model);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wisp_status st = train(ctx, d, "", bad[i].more, 0, NULL);
        CHECK(st == WISP_EINVAL && strstr(err.text, bad[i].text), "'%s': %d '%s'", bad[i].more, st,
              err.text);
    }
    CHECK(access(model, F_OK) != 0, "a model was written");
}

static void test_memory(const wisp_data *d)
{
    static const char run[] = "epochs 1 batch 16 holdout 0.2 sampling lsh+random random 5 "
                              "active-per example hidden-sampling lsh+ivf+random tables 3";
    static const char net[] = "input 5, relu, sampled 30, relu, sampled 25";
    TEST("wide: memory that runs out");
    unlink(model);
    rig_train_without_memory(d, net, run, 13);
}

int main(void)
{
    rig_init();
    wisp_data *d = rig_synth(400, 300, 200, 2), *few = rig_synth(600, 300, 30, 2),
              *small = rig_synth(60, 300, 40, 2);
    test_threads(d);
    test_resume(d);
    test_file(d);
    test_hogwild(few);
    test_refused(d);
    test_memory(small);
    wisp_data_free(d), wisp_data_free(few), wisp_data_free(small);
    return rig_end();
}
