/* Batch norm: the batch's means while training, running ones otherwise; odd batches.  (Gradients:
 * property/test_layers.c.) */
#include "test.h"
#include "base/mem.h"
#include "model/net.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 5, MOST = 40 };

static wisp_error err;
static struct wisp_context ctx;
static struct wisp_net net;
static float x[MOST * WIDTH], y[MOST * WIDTH];

static struct wisp_layer *bn(void)
{
    return &net.layers[1];
}

/* Through the layer, n samples of x to y. */
static void run(size_t n, bool training)
{
    struct wisp_batch b = { .n = n };
    struct wisp_step s = { .ctx = &ctx, .batch = &b, .training = training };
    const struct wisp_act in = { .shape = { 1, { WIDTH } },
                                 .form = WISP_FLAT,
                                 .width = WIDTH,
                                 .floats = WIDTH,
                                 .x = x },
                          *from = &in;
    struct wisp_act out = { .form = WISP_FLAT, .width = WIDTH, .floats = WIDTH, .x = y };
    CHECK(bn()->kind->forward(bn(), &s, &from, &out, &err) == WISP_OK, "%s", err.text);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-5 * (1 + fabs(b));
}

static void test_running(void)
{
    static const size_t sizes[] = { 40, 17, 2, 33 };
    double mean[WIDTH] = { 0 }, var[WIDTH];
    uint64_t seed = 3;
    TEST("bn: running means of what was seen, and what they are for");
    for (int u = 0; u < WIDTH; u++) var[u] = 1;
    for (size_t t = 0; t < sizeof sizes / sizeof *sizes; t++) {
        size_t n = sizes[t];
        for (size_t i = 0; i < n * WIDTH; i++) x[i] = 3 + (float)(i % WIDTH) * test_randf(&seed);
        run(n, true);
        for (size_t u = 0; u < WIDTH; u++) {
            double m = 0, v = 0, mean_y = 0;
            for (size_t i = 0; i < n; i++) m += x[i * WIDTH + u] / (double)n;
            for (size_t i = 0; i < n; i++) v += pow(x[i * WIDTH + u] - m, 2) / (double)n;
            for (size_t i = 0; i < n; i++) mean_y += y[i * WIDTH + u] / (double)n;
            CHECK(fabs(mean_y) < 1e-4, "unit %zu: a mean of %g", u, mean_y);
            mean[u] = 0.75 * mean[u] + 0.25 * m;
            var[u] = 0.75 * var[u] + 0.25 * v * (double)n / (double)(n - 1);
            CHECK(near(bn()->params[2].w[u], mean[u]) && near(bn()->params[3].w[u], var[u]),
                  "batch %zu, unit %zu: %g and %g, expected %g and %g", t, u, bn()->params[2].w[u],
                  bn()->params[3].w[u], mean[u], var[u]);
        }
    }
    run(3, false);
    for (size_t i = 0; i < 3 * WIDTH; i++)
        CHECK(near(y[i], (x[i] - mean[i % WIDTH]) / sqrt(var[i % WIDTH] + 1e-5)), "%zu: %g", i,
              y[i]);
}

static void test_odd(void)
{
    TEST("bn: a batch of one, of none, and units that never change");
    float before[WIDTH];
    for (size_t u = 0; u < WIDTH; u++) bn()->params[1].w[u] = (float)u; /* shift */
    for (size_t i = 0; i < MOST * WIDTH; i++) x[i] = 7;
    run(1, true);
    for (size_t u = 0; u < WIDTH; u++) CHECK(y[u] == (float)u, "one: %g", y[u]);
    run(20, true);
    for (size_t i = 0; i < 20 * WIDTH; i++) CHECK(y[i] == (float)(i % WIDTH), "same: %g", y[i]);
    memcpy(before, bn()->params[2].w, sizeof before);
    run(0, true);
    CHECK(memcmp(before, bn()->params[2].w, sizeof before) == 0, "nothing moved the means");
}

static void test_batch_of_one(void)
{
    TEST("bn: batches of one row have no mean to learn by");
    struct wisp_layer_sizes sizes = { .batch = 1, .active = 3, .training = true };
    struct wisp_net one;
    wisp_status st = wisp_net_plan(&one, "input 5, bn", 9, 3, &sizes, &err);
    CHECK(st == WISP_EINVAL && strstr(err.text, "use --batch 2 or more"), "%d '%s'", st, err.text);
    sizes.training = false; /* a row that is predicted alone */
    st = wisp_net_plan(&one, "input 5, bn", 9, 3, &sizes, &err);
    CHECK(st == WISP_OK, "%s", err.text);
    wisp_net_clear(&one);
}

int main(void)
{
    struct wisp_layer_sizes sizes = { .batch = MOST, .active = 3, .training = true };
    struct wisp_kernels k;
    CHECK(wisp_kernels_select(&k, NULL, &err) == WISP_OK, "%s", err.text);
    ctx.k = &k;
    CHECK(wisp_net_plan(&net, "input 5, bn momentum=0.25, relu", 9, 3, &sizes, &err) == WISP_OK &&
              wisp_net_alloc_params(&net, &err) == WISP_OK &&
              wisp_work_alloc(&net, 1, &err) == WISP_OK,
          "%s", err.text);
    wisp_net_init(&net, 1, NULL);
    CHECK(bn()->n_params == 4 && bn()->params[2].role == WISP_STATE &&
              wisp_net_n_params(&net) == 9 * 5 + 5 + 10 + 5 * 3 + 3,
          "%zu parameters", wisp_net_n_params(&net));
    test_running();
    test_odd();
    test_batch_of_one();
    wisp_net_clear(&net);
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}
