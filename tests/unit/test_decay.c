/* Decay of weights: what each optimiser makes of it, and of what. */
#include "test.h"
#include "base/mem.h"
#include "kernels/kernels.h"
#include "model/net.h"
#include "model/optimizer.h"

#include <math.h>
#include <string.h>

enum { ROWS = 2, COLS = 37, N = ROWS * COLS, STEPS = 4 };
static const float LR = 0.1f, DECAY = 0.3f, MOMENTUM = 0.9f;

static wisp_error err;
static struct wisp_kernels k;

/* One weight after some steps, in double. */
static double expected(enum wisp_optimizer_id id, double w, const float *g, double square)
{
    double m = 0, v = 0, g2 = 0;
    for (int t = 1; t <= STEPS; t++) {
        double x = g[t - 1], left = 1 - (double)LR * (double)DECAY;
        if (id == WISP_SGD) {
            m = (double)MOMENTUM * m + x + (double)DECAY * w;
            w -= (double)LR * m;
            continue;
        }
        w *= left;
        if (id == WISP_ADAGRAD) {
            g2 += square;
            w -= (double)LR / sqrt(g2) * x;
            continue;
        }
        m = 0.9 * m + 0.1 * x;
        v = 0.999 * v + 0.001 * x * x;
        w -= (double)LR * (m / (1 - pow(0.9, t))) / (sqrt(v / (1 - pow(0.999, t))) + 1e-8);
    }
    return w;
}

static void check_optimizer(const struct wisp_optimizer_kind *kind, bool half)
{
    static float w[N], first[N], m[N], v[N], g2[ROWS], g[STEPS][COLS];
    static uint16_t b16[N];
    static uint32_t count[ROWS];
    struct wisp_optimizer o;
    uint64_t seed = 5;
    struct wisp_param p = {
        .rows = ROWS, .cols = COLS, .n = N, .decay = DECAY, .role = WISP_TRAINED
    };
    memset(m, 0, sizeof m), memset(v, 0, sizeof v);
    memset(g2, 0, sizeof g2), memset(count, 0, sizeof count);
    for (int i = 0; i < N; i++) w[i] = test_randf(&seed) * 4 - 2;
    k.to16(b16, w, N);
    if (half) k.from16(w, b16, N);
    memcpy(first, w, sizeof w);
    if (half) p.b16 = b16;
    else p.w = w;
    p.m = m, p.v = v, p.g2 = g2, p.count = count;
    CHECK(wisp_optimizer_init(&o, kind, &k, (double)MOMENTUM, &err) == WISP_OK, "%s", err.text);
    o.lr = LR;
    for (int t = 0; t < STEPS; t++) {
        for (int c = 0; c < COLS; c++) g[t][c] = test_randf(&seed) - 0.5f;
        double square = 0;
        for (int c = 0; c < COLS; c++) square += (double)g[t][c] * (double)g[t][c] / COLS;
        for (int c = 0; c < COLS; c++) g[t][c] /= (float)sqrt(square); /* the same in each step */
        o.step = (uint64_t)t;
        o.update.row(&o.update, &p, 1, g[t]);
    }
    if (half) k.from16(w, b16, N);
    for (int c = 0; c < COLS; c++) {
        float of[STEPS];
        for (int t = 0; t < STEPS; t++) of[t] = g[t][c];
        double want = expected(kind->id, (double)first[COLS + c], of, 1), near = half ? 0.05 : 2e-5;
        CHECK(fabs((double)w[COLS + c] - want) <= near * (1 + fabs(want)),
              "%s, column %d: %g for %g", kind->name, c, (double)w[COLS + c], want);
        CHECK(w[c] == first[c], "%s: a row that was not asked for", kind->name);
    }
    wisp_optimizer_clear(&o);
}

static void test_which(void)
{
    struct wisp_net net;
    struct wisp_layer_sizes sizes = { .batch = 2, .active = 3, .training = true };
    TEST("decay: weights, not biases and norms");
    CHECK(wisp_net_plan(&net, "input 5, bn, dense 4", 9, 3, &sizes, &err) == WISP_OK, "%s",
          err.text);
    wisp_net_decay(&net, 0.5f);
    for (size_t i = 0; i < net.list.n; i++) {
        const struct wisp_param *p = &net.list.p[i];
        CHECK((p->decay > 0) == (strstr(p->name, ".weight") != NULL), "%s: %g", p->name,
              (double)p->decay);
    }
    wisp_net_clear(&net);
}

int main(void)
{
    const struct wisp_optimizer_kind *kind;
    CHECK(wisp_kernels_select(&k, NULL, &err) == WISP_OK, "%s", err.text);
    TEST("decay: each optimiser against its formula");
    for (size_t i = 0; (kind = wisp_optimizer_at(i)); i++) check_optimizer(kind, false);
    TEST("decay: rows of bf16");
    for (size_t i = 0; (kind = wisp_optimizer_at(i)); i++) check_optimizer(kind, true);
    test_which();
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}
