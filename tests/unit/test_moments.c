/* Moments in bf16: near those in fp32 on average, never negative, rounded by bits of their own, and
 * half the memory. */
#include "model_rig.h"

#include <math.h>

enum { ROWS = 2, COLS = 300, N = ROWS * COLS }; /* a row is two pieces */

struct side { /* a parameter and its optimiser */
    struct wisp_param p;
    struct wisp_optimizer o;
    float w[N], m[N], v[N];
    uint16_t w16[N], m16[N], v16[N];
    uint32_t count[ROWS];
};

/* All from 0, so that rows of bf16 begin where those of fp32 do. */
static void begin(struct side *s, const struct wisp_kernels *k, const char *kind, bool half_w,
                  bool half_moments)
{
    memset(s, 0, sizeof *s);
    CHECK(wisp_optimizer_init(&s->o, wisp_optimizer_find(kind), k, 0.9, &err) == WISP_OK, "%s",
          err.text);
    bool has_v = s->o.kind->slots & WISP_SLOT_V;
    s->o.lr = 0.001f;
    s->p = (struct wisp_param){ .rows = ROWS, .cols = COLS, .count = s->count };
    if (half_w) s->p.b16 = s->w16;
    else s->p.w = s->w;
    if (half_moments) s->p.m16 = s->m16, s->p.v16 = has_v ? s->v16 : NULL;
    else s->p.m = s->m, s->p.v = has_v ? s->v : NULL;
}

static void move(struct side *s, const float *g)
{
    for (size_t r = 0; r < ROWS; r++) s->o.update.row(&s->o.update, &s->p, r, g + r * COLS);
    s->o.step++;
}

/* What is there, in bf16 or not, as floats. */
static void look(struct side *s)
{
    if (s->p.b16) s->o.k->from16(s->w, s->w16, N);
    if (s->p.m16) s->o.k->from16(s->m, s->m16, N);
    if (s->p.v16) s->o.k->from16(s->v, s->v16, N);
}

/* No half is negative, infinite or NaN. */
static bool all_positive(const uint16_t *x)
{
    for (size_t i = 0; i < N; i++)
        if (x[i] >= 0x7f80) return false;
    return true;
}

static double mean_ratio(const float *a, const float *b)
{
    double sum = 0;
    for (size_t i = 0; i < N; i++) sum += (double)a[i] / b[i];
    return sum / N;
}

/* ---- near fp32 ---- */

/* The same gradients, of sizes from 1e-4 to 1 and with a drift, move rows of fp32 and of bf16.
 *
 * Rounded at random, a number that moves by a share f of the spacing s gathers a variance of
 * f(1-f)s^2 in a step, and forgets it as fast as it decays.  So v (f up to 0.25, decay 0.001)
 * strays by about 5 %, m by 1 %, and the length of a step by 3 %, both ways: over the whole run a
 * single weight ends up to 3 % off, the mean of all 600 below 0.1 %.  A weight of bf16 forgets
 * nothing: with f = 0.1 it strays in 2,000 steps by 13 spacings of 1/256, 5 % of its way, one in
 * 600 by 15 %, the mean by 0.3 %.  The limits are some three times that. */
static void compare(const struct wisp_kernels *k, const char *kind, bool half_w, bool half_moments)
{
    enum { STEPS = 2000 };
    static struct side a, b;
    static float g[N];
    begin(&a, k, kind, false, false), begin(&b, k, kind, half_w, half_moments);
    if (strcmp(kind, "sgd") == 0) a.o.lr = b.o.lr = 0.0001f;
    for (int t = 0; t < STEPS; t++) {
        for (size_t i = 0; i < N; i++)
            g[i] = (0.3f + test_randf(&seed)) * powf(10, -(float)(i % 5));
        move(&a, g), move(&b, g);
        CHECK(!b.p.v16 || all_positive(b.v16), "%s: v in step %d", k->name, t);
    }
    look(&b);
    double mean = mean_ratio(b.w, a.w), most = 0;
    for (size_t i = 0; i < N; i++) most = fmax(most, fabs(b.w[i] / a.w[i] - 1));
    CHECK(fabs(mean - 1) < 0.01 && most > 0 && most < (half_w ? 0.4 : 0.1),
          "%s, %s, %s: %g of fp32's way in the mean, %g off at most", k->name, kind,
          half_w ? "rows of bf16" : "rows of fp32", mean, most);
    if (a.p.v) CHECK(fabs(mean_ratio(b.v, a.v) - 1) < 0.01, "%s: v is not fp32's", k->name);
    wisp_optimizer_clear(&a.o), wisp_optimizer_clear(&b.o);
}

static void test_near(const struct wisp_kernels *k)
{
    for (int i = 1; i < 4; i++) compare(k, "adam", i & 1, i & 2), compare(k, "sgd", i & 1, i & 2);
}

/* Gradients of +-size: v goes to size^2 by steps of a thousandth of what is missing, which from a
 * fifth to a third of the way on is below half of bf16's spacing: rounded to the nearest it would
 * stay there. */
static void test_mean_square(const struct wisp_kernels *k)
{
    enum { STEPS = 6000 }; /* 0.25 % is missing */
    static struct side s;
    static float g[N], want[N];
    begin(&s, k, "adam", false, true);
    for (size_t i = 0; i < N; i++) want[i] = powf(4, -(float)(i % 9)) * (1 + (float)i / N);
    for (int t = 0; t < STEPS; t++) {
        for (size_t i = 0; i < N; i++) g[i] = sqrtf(want[i]) * (test_rand(&seed) >> 63 ? 1 : -1);
        move(&s, g);
    }
    look(&s);
    double mean = mean_ratio(s.v, want);
    CHECK(fabs(mean - 1) < 0.02, "%s: v is %g of the mean square", k->name, mean);
    for (size_t i = 0; i < N; i++)
        CHECK(fabsf(s.v[i] / want[i] - 1) < 0.4f, "%s: v[%zu] is %g of the mean square", k->name, i,
              s.v[i] / want[i]);
    wisp_optimizer_clear(&s.o);
}

/* ---- the ends of the scale ---- */

/* Gradients from 0 over those whose squares are below the smallest float up to 1e18, each followed
 * by steps in which all decays. */
static void test_range(const struct wisp_kernels *k)
{
    static struct side s;
    static float g[N];
    begin(&s, k, "adam", false, true);
    for (int t = 0; t < 600; t++) {
        bool decays = t % 3 > 0;
        for (size_t i = 0; i < N; i++)
            g[i] = decays ? 0 : test_randf(&seed) * powf(10, (float)(test_rand(&seed) % 50) - 31);
        move(&s, g);
        CHECK(all_positive(s.v16), "%s: v in step %d", k->name, t);
    }
    look(&s);
    for (size_t i = 0; i < N; i++) CHECK(isfinite(s.w[i]), "%s: w[%zu] is %g", k->name, i, s.w[i]);
    wisp_optimizer_clear(&s.o);
}

/* As in fp32, a square beyond the largest float leaves v infinite and the weight where it is. */
static void test_infinite(const struct wisp_kernels *k)
{
    static struct side s;
    static float g[N];
    begin(&s, k, "adam", false, true);
    for (size_t i = 0; i < N; i++) g[i] = i % 2 ? 1e30f : 1;
    for (int t = 0; t < 50; t++) move(&s, g);
    look(&s);
    for (size_t i = 0; i < N; i++)
        CHECK(i % 2 ? isinf(s.v[i]) && s.v[i] > 0 && s.w[i] == 0 : s.v[i] > 0 && s.w[i] < 0,
              "%s: [%zu]: v %g, w %g", k->name, i, s.v[i], s.w[i]);
    wisp_optimizer_clear(&s.o);
}

/* ---- the random bits ---- */

static struct {
    const struct wisp_kernels *k;
    uint16_t bits[64];
    size_t n;
} heard;

static void listen(uint16_t *x, const float *g, float a, size_t n, uint32_t random)
{
    if (heard.n < 64) heard.bits[heard.n++] = (uint16_t)random;
    heard.k->axpy16(x, g, a, n, random);
}

/* Weights, m and v, in that order, of both pieces of each row, in two steps. */
static void test_bits(const struct wisp_kernels *k)
{
    enum { ARRAYS = 3, PIECE = 256, ALL = 2 * ROWS * 2 * ARRAYS };
    static struct side s;
    static float g[N];
    struct wisp_kernels ear = *k;
    ear.axpy16 = listen;
    for (int again = 0; again < 2; again++) {
        uint16_t first[ALL];
        memcpy(first, heard.bits, sizeof first);
        heard.k = k, heard.n = 0;
        begin(&s, &ear, "adam", true, true);
        for (size_t i = 0; i < N; i++) g[i] = test_randf(&seed);
        move(&s, g), move(&s, g);
        CHECK(heard.n == ALL, "%zu pieces were rounded", heard.n);
        CHECK(!again || memcmp(first, heard.bits, sizeof first) == 0, "other bits the second time");
        wisp_optimizer_clear(&s.o);
    }
    for (size_t i = 0; i < ALL; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(heard.bits[i] != heard.bits[j], "pieces %zu and %zu have the same bits", j, i);
    for (size_t i = 0; i < ALL; i += 2 * ARRAYS)
        for (size_t x = i; x < i + ARRAYS; x++)
            CHECK(heard.bits[x + ARRAYS] == (uint16_t)(heard.bits[x] + PIECE * WISP_GOLDEN16),
                  "the second piece does not go on where the first ends");
}

/* ---- what is kept ---- */

static void test_plan(void)
{
    static const struct {
        const char *optimizer;
        enum wisp_moments moments;
        size_t n_params;
        bool half;
    } cases[] = {
        { "adam", WISP_MOMENTS_AUTO, (1u << 26) - 1, false },
        { "adam", WISP_MOMENTS_AUTO, 1u << 26, true },
        { "sgd", WISP_MOMENTS_AUTO, 1u << 26, true },
        { "adam", WISP_MOMENTS_FP32, 1u << 30, false },
        { "adam", WISP_MOMENTS_BF16, 100, true },
        { "adagrad", WISP_MOMENTS_BF16, 1u << 30, false },
    };
    TEST("moments: bf16 where asked for, or where weights are many");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct wisp_optimizer_kind *kind = wisp_optimizer_find(cases[i].optimizer);
        struct wisp_plan p = { .optimizer = kind, .moments = cases[i].moments };
        CHECK(wisp_plan_slots(&p, cases[i].n_params) ==
                  (kind->slots | (cases[i].half ? WISP_SLOT_HALF : 0)),
              "%s, %d, %zu weights", cases[i].optimizer, (int)cases[i].moments, cases[i].n_params);
    }
}

static size_t moment_bytes(const struct wisp_param *p)
{
    return (p->m ? 4 : 0) + (p->v ? 4 : 0) + (p->m16 ? 2 : 0) + (p->v16 ? 2 : 0);
}

static void test_memory(void)
{
    struct wisp_layer_sizes sizes = { .batch = 4, .active = 50, .training = true };
    TEST("moments: bf16 takes half the memory, biases stay as they are");
    for (size_t i = 0; wisp_optimizer_at(i); i++) {
        unsigned slots = wisp_optimizer_at(i)->slots;
        size_t floats[2], each = 4 * (!!(slots & WISP_SLOT_M) + !!(slots & WISP_SLOT_V));
        for (unsigned half = 0; half < 2; half++) {
            struct wisp_net net;
            unsigned with = slots | (half ? WISP_SLOT_HALF : 0);
            CHECK(wisp_net_plan(&net, "input 32, relu, dense 16, relu", 100, 50, &sizes, &err) ==
                          WISP_OK &&
                      wisp_net_alloc_state(&net, with, &err) == WISP_OK,
                  "%s", err.text);
            floats[half] = wisp_net_state_floats(&net, with);
            for (int l = 0; l < net.n_layers; l++)
                for (int q = 0; q < net.layers[l].n_params; q++) {
                    const struct wisp_param *p = &net.layers[l].params[q];
                    CHECK(moment_bytes(p) == (q == 0 && half ? each / 2 : each), "%s: %zu bytes",
                          p->name, moment_bytes(p));
                }
            wisp_net_clear(&net);
        }
        CHECK((floats[0] - floats[1]) * 4 == (100 * 32 + 32 * 16 + 16 * 50) * each / 2,
              "%s: %zu and %zu floats", wisp_optimizer_at(i)->name, floats[0], floats[1]);
    }
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(const struct wisp_kernels *k);
    } tests[] = {
        { "moments: in bf16 rows go the way of fp32, on average", test_near },
        { "moments: v goes to the mean square by steps below bf16's spacing", test_mean_square },
        { "moments: v is never negative", test_range },
        { "moments: v may be infinite, but not NaN", test_infinite },
        { "moments: weights, m and v are rounded by bits of their own", test_bits },
    };
    rig_init();
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
        TEST(tests[t].name);
        for (size_t i = 0; wisp_kernels_isa(i, NULL); i++) {
            struct wisp_kernels k;
            if (wisp_kernels_select(&k, wisp_kernels_isa(i, NULL), &err) == WISP_OK)
                tests[t].run(&k);
        }
    }
    test_plan();
    test_memory();
    return rig_end();
}
