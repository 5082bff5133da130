/* Deep sparse nets: groups, rules, merging and the engine, against the plain form in double
 * precision; the kernels of every instruction set against the scalar ones. */
#include "base/mem.h"
#include "kernels/kernels.h"
#include "spdnn/spdnn.h"
#include "test.h"

#include <math.h>
#include <string.h>

static uint64_t seed = 77;
static wisp_error err;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(test_rand(&seed) % n);
}

/* ---- nets to test with ---- */

struct shape {
    uint32_t twins;     /* outputs with the same inputs */
    uint32_t most_in;   /* of an output */
    bool weights;       /* differ from edge to edge */
    bool equal_weights; /* twins have equal ones */
    bool biases;        /* differ from output to output */
    float bias, weight;
};

static int by_id(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t random_list(uint32_t *id, uint32_t most, uint32_t n_in)
{
    uint32_t n = below(most + 1), m = 0;
    for (uint32_t i = 0; i < n; i++) id[i] = below(n_in);
    qsort(id, n, sizeof *id, by_id);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || id[i] != id[i - 1]) id[m++] = id[i];
    return m;
}

/* A layer whose outputs come in twins that lie apart: o, o + n_out / twins, ... */
static void random_layer(struct wisp_spnet *net, uint32_t n_in, uint32_t n_out,
                         const struct shape *s)
{
    const uint32_t kinds = s->twins > 1 ? (n_out + s->twins - 1) / s->twins : n_out;
    uint64_t *start = calloc(n_out + 1, sizeof *start);
    uint32_t *in = malloc(sizeof *in * n_out * (s->most_in + 1)),
             *list = malloc(sizeof *list * (s->most_in + 1));
    float *w = malloc(sizeof *w * n_out * (s->most_in + 1)),
          *biases = malloc(sizeof *biases * n_out);
    uint32_t **lists = malloc(sizeof *lists * kinds), *lengths = malloc(sizeof *lengths * kinds);
    for (uint32_t k = 0; k < kinds; k++) {
        lengths[k] = random_list(list, s->most_in, n_in);
        lists[k] =
            memcpy(malloc(sizeof *list * (s->most_in + 1)), list, sizeof *list * (s->most_in + 1));
    }
    for (uint32_t o = 0; o < n_out; o++) {
        const uint32_t k = o % kinds;
        for (uint32_t i = 0; i < lengths[k]; i++) {
            in[start[o] + i] = lists[k][i];
            w[start[o] + i] = s->equal_weights && o >= kinds ? w[start[k] + i]
                                                             : s->weight * (1 + test_randf(&seed));
        }
        start[o + 1] = start[o] + lengths[k];
        biases[o] =
            s->equal_weights && o >= kinds ? biases[k] : s->bias * (1 + 0.5f * test_randf(&seed));
    }
    const struct wisp_edges e = { n_in,
                                  n_out,
                                  start,
                                  in,
                                  s->weights ? w : NULL,
                                  s->weight,
                                  s->biases ? biases : NULL,
                                  s->bias,
                                  below(5) == 0 }; /* some layers are linear */
    CHECK(wisp_spnet_add(net, &e, &err) == WISP_OK, "%s", err.text);
    for (uint32_t k = 0; k < kinds; k++) free(lists[k]);
    free(start), free(in), free(list), free(w), free(biases), free(lists), free(lengths);
}

/* n neurons; each has itself as input, with this weight and bias. */
static void chain_layer(struct wisp_spnet *net, uint32_t n, float weight, float bias)
{
    uint64_t start[9];
    uint32_t in[8];
    for (uint32_t i = 0; i < n; i++) in[i] = i, start[i] = i;
    start[n] = n;
    const struct wisp_edges e = { n, n, start, in, NULL, weight, NULL, bias, false };
    CHECK(wisp_spnet_add(net, &e, &err) == WISP_OK, "%s", err.text);
}

static struct wisp_spinputs random_inputs(size_t n, uint32_t width, bool bits, double share)
{
    struct wisp_spinputs x = { .n = n, .width = width };
    if (bits) {
        CHECK(wisp_spinputs_bits(&x, n, width, &err) == WISP_OK, "%s", err.text);
        for (size_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < width; j++)
                if ((double)below(1000) < 1000 * share * (double)(i % 7) / 3)
                    x.bits[i * x.words + j / 64] |= 1ull << j % 64;
        return x;
    }
    x.start = wisp_zalloc(n + 1, sizeof *x.start);
    x.id = wisp_alloc(n * width, sizeof *x.id);
    x.value = wisp_alloc(n * width, sizeof *x.value);
    for (size_t i = 0; i < n; i++) {
        x.start[i + 1] = x.start[i];
        for (uint32_t j = 0; j < width; j++)
            if ((double)below(1000) < 1000 * share * (double)(i % 7) / 3) {
                x.id[x.start[i + 1]] = j;
                x.value[x.start[i + 1]++] = 3 * test_randf(&seed);
            }
    }
    return x;
}

/* ---- against the plain form ---- */

static void same_as_plain(const struct wisp_spnet *net, const struct wisp_spnet *run,
                          const uint32_t *last, const struct wisp_spinputs *x,
                          const struct wisp_context *ctx, bool drop, const char *name)
{
    const uint32_t n_out = net->layers[net->n_layers - 1].n_out,
                   n_run = run->layers[run->n_layers - 1].n_out;
    struct wisp_sprun r = { .drop = drop };
    r.ends = malloc(x->n + 1);
    r.values = malloc(sizeof *r.values * (x->n * n_run + 1));
    memset(r.ends, 7, x->n + 1);
    for (size_t i = 0; i < x->n * n_run; i++) r.values[i] = -5;
    CHECK(wisp_spnet_run(&r, run, x, ctx, &err) == WISP_OK, "%s", err.text);
    double *values = malloc(sizeof *values * n_out),
           *scratch = malloc(sizeof *scratch * 2 * wisp_spnet_width(net));
    for (size_t i = 0; i < x->n; i++) {
        wisp_spnet_plain(values, net, x, i, scratch);
        double most = 0;
        for (uint32_t o = 0; o < n_out; o++) {
            const double got = r.values[i * n_run + (last ? last[o] : o)];
            CHECK(fabs(got - values[o]) <= 2e-4 * (1 + fabs(values[o])),
                  "%s: input %zu, output %u: %g, plain %g", name, i, o, got, values[o]);
            most = fmax(most, fabs(values[o]));
        }
        if (most == 0 || most > 1e-3)
            CHECK(r.ends[i] == (most > 0), "%s: input %zu ends %d, largest %g", name, i, r.ends[i],
                  most);
    }
    CHECK(r.ends[x->n] == 7, "%s: past the end", name);
    free(values), free(scratch), free(r.ends), free(r.values);
}

static void all_ways(struct wisp_spnet *net, const struct wisp_spinputs *x,
                     const struct wisp_context *ctx, const char *name)
{
    struct wisp_spnet *small;
    struct wisp_merged what;
    CHECK(wisp_spnet_rules(net, ctx->pool, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_spnet_merge(&small, &what, net, &err) == WISP_OK, "%s", err.text);
    same_as_plain(net, net, NULL, x, ctx, false, name);
    same_as_plain(net, net, NULL, x, ctx, true, name);
    same_as_plain(net, small, what.last, x, ctx, true, name);
    same_as_plain(net, small, what.last, x, ctx, false, name);
    wisp_merged_clear(&what);
    wisp_spnet_free(small);
}

/* A first layer that only counts bits a fixed stride apart is done as they are read; one that is
 * so in all but one thing is not. */
static void test_counting(const struct wisp_context *ctx)
{
    enum {
        AS_IT_IS,
        BOUNDS,
        WEIGHTS,
        WEIGHT,
        BIASES,
        BIAS,
        STRIDE,
        ORDER,
        LESS,
        NUMBERS,
        ALONE,
        MANY,
        WORDS,
        N_ODD
    };
    enum { MOST = 256 * 64 };
    static uint32_t in[MOST];
    static uint64_t start[129];
    static float w[MOST], biases[128];
    TEST("counting: bits a fixed stride apart, and layers that only look so");
    for (size_t i = 0; i < MOST; i++) w[i] = 1 + (float)(i % 3);
    for (size_t i = 0; i < 128; i++) biases[i] = (float)(i % 5);
    for (int odd = 0; odd < N_ODD; odd++) {
        const uint32_t n = odd == WORDS      ? 96
                           : odd == AS_IT_IS ? 128
                                             : 64,
                       planes = odd == MANY ? 256 : 3;
        for (uint32_t o = 0; o < n; o++) {
            const uint32_t from = odd == ORDER ? n - 1 - o : o;
            start[o] = (uint64_t)o * planes;
            for (uint32_t k = 0; k < planes; k++)
                in[start[o] + k] = odd == STRIDE ? o * planes + k : from + k * n;
        }
        start[n] = (uint64_t)n * planes;
        if (odd == LESS) in[0] = 1; /* an input twice, another never */
        const struct wisp_edges first = { planes * n,
                                          n,
                                          start,
                                          in,
                                          odd == WEIGHTS ? w : NULL,
                                          odd == WEIGHT ? 2 : 1,
                                          odd == BIASES ? biases : NULL,
                                          odd == BIAS ? -1 : 0,
                                          odd != BOUNDS };
        struct wisp_spnet *net = wisp_spnet_create(2);
        CHECK(wisp_spnet_add(net, &first, &err) == WISP_OK, "%s", err.text);
        if (odd != ALONE)
            random_layer(net, n, 40, &(struct shape){ 4, 9, true, false, true, -0.1f, 0.3f });
        struct wisp_spinputs x = random_inputs(70, planes * n, odd != NUMBERS, 0.4);
        char name[20];
        snprintf(name, sizeof name, "but for %d", odd);
        all_ways(net, &x, ctx, name);
        wisp_spinputs_clear(&x);
        wisp_spnet_free(net);
    }
}

static void test_random(const struct wisp_context *ctx, int turn)
{
    static const struct shape shapes[] = {
        { 1, 40, false, false, false, -0.3f, 1.0f / 16 },
        { 16, 32, false, true, false, -0.3f, 1.0f / 16 },
        { 5, 33, true, false, true, -0.1f, 0.2f },
        { 5, 20, true, true, true, -0.1f, 0.2f },
        { 23, 9, false, true, true, 0.05f, 0.3f },
        { 3, 0, false, false, true, 0.2f, 1 },
    };
    const struct shape *s = &shapes[turn % 6];
    const float clips[] = { 32, 1, INFINITY };
    struct wisp_spnet *net = wisp_spnet_create(clips[turn % 3]);
    const size_t n_layers = 1 + below(12);
    uint32_t width = 1 + below(300);
    struct wisp_spinputs x = random_inputs(1 + below(300), width, turn % 2, 0.4);
    for (size_t i = 0; i < n_layers; i++) {
        const uint32_t next = 1 + below(300);
        random_layer(net, width, next, s);
        width = next;
    }
    char name[40];
    snprintf(name, sizeof name, "turn %d", turn);
    all_ways(net, &x, ctx, name);
    wisp_spinputs_clear(&x);
    wisp_spnet_free(net);
}

/* ---- nets on which careless rules are wrong ---- */

static struct wisp_spinputs ones(size_t n, uint32_t width, bool last_is_zero)
{
    struct wisp_spinputs x;
    CHECK(wisp_spinputs_bits(&x, n, width, &err) == WISP_OK, "%s", err.text);
    for (size_t i = 0; i < n - last_is_zero; i++) x.bits[i * x.words] = (1u << width) - 1;
    return x;
}

static void test_rules(const struct wisp_context *ctx)
{
    struct wisp_spinputs x = ones(40, 4, true);
    struct wisp_spnet *net = wisp_spnet_create(1);
    TEST("rules: a positive bias later on wakes inputs that are all zero");
    chain_layer(net, 4, 2, -0.5f);
    chain_layer(net, 4, 2, -0.5f);
    chain_layer(net, 4, 2, 0.25f);
    chain_layer(net, 4, 2, -0.1f);
    all_ways(net, &x, ctx, "woken");
    CHECK(net->zero_from == 3, "zero from layer %zu", net->zero_from);
    CHECK(net->full_from == 0, "full from layer %zu", net->full_from);
    wisp_spnet_free(net);
    TEST("rules: a weak layer later on lets full inputs decay");
    net = wisp_spnet_create(1);
    chain_layer(net, 4, 2, -0.5f);
    chain_layer(net, 4, 0.5f, -0.1f);
    chain_layer(net, 4, 2, -0.9f);
    all_ways(net, &x, ctx, "decayed");
    CHECK(net->zero_from == 0 && net->full_from == 2, "zero %zu, full %zu", net->zero_from,
          net->full_from);
    wisp_spnet_free(net);
    TEST("rules: nothing is full without a clip, nor at a margin that rounding could eat");
    net = wisp_spnet_create(INFINITY);
    chain_layer(net, 4, 2, 0);
    CHECK(wisp_spnet_rules(net, NULL, &err) == WISP_OK && net->full_from == 1, "full %zu",
          net->full_from);
    wisp_spnet_free(net);
    net = wisp_spnet_create(32);
    chain_layer(net, 4, 1, 0);
    CHECK(wisp_spnet_rules(net, NULL, &err) == WISP_OK && net->full_from == 1, "full %zu",
          net->full_from);
    wisp_spnet_free(net);
    wisp_spinputs_clear(&x);
}

/* Two outputs with the same inputs and bias, whose weights or places differ. */
static void test_not_equal(const struct wisp_context *ctx)
{
    TEST("merging: the same inputs with exchanged weights are not equal");
    const uint64_t start[] = { 0, 2, 4, 6 };
    const uint32_t in[] = { 0, 1, 0, 1, 0, 1 };
    const float w[] = { 0.5f, 2, 2, 0.5f, 0.5f, 2 }, biases[] = { 0.1f, 0.1f, 0.3f };
    struct wisp_spnet *net = wisp_spnet_create(32), *small;
    struct wisp_merged what;
    const struct wisp_edges e = { 2, 3, start, in, w, 0, biases, 0, false };
    CHECK(wisp_spnet_add(net, &e, &err) == WISP_OK, "%s", err.text);
    chain_layer(net, 3, 1.5f, 0);
    CHECK(wisp_spnet_merge(&small, &what, net, &err) == WISP_OK, "%s", err.text);
    CHECK(small->layers[0].n_out == 3, "%u classes of 3 different outputs", small->layers[0].n_out);
    wisp_spnet_free(small);
    wisp_merged_clear(&what);
    struct wisp_spinputs x = ones(3, 2, false);
    x.bits[0] = 1, x.bits[1] = 2;
    all_ways(net, &x, ctx, "exchanged");
    wisp_spinputs_clear(&x);
    wisp_spnet_free(net);
    TEST("merging: equal outputs one layer on are found through their classes");
    net = wisp_spnet_create(32);
    const uint64_t s4[] = { 0, 1, 2, 3, 4 };
    const uint32_t in4[] = { 0, 1, 0, 1 }, next4[] = { 0, 2, 1, 3 };
    const struct wisp_edges a = { 2, 4, s4, in4, NULL, 1, NULL, 0, false },
                            b = { 4, 4, s4, next4, NULL, 1, NULL, 0, false };
    CHECK(wisp_spnet_add(net, &a, &err) == WISP_OK && wisp_spnet_add(net, &b, &err) == WISP_OK,
          "%s", err.text);
    CHECK(wisp_spnet_merge(&small, &what, net, &err) == WISP_OK, "%s", err.text);
    CHECK(small->layers[1].n_out == 2 && what.last[0] == what.last[1] &&
              what.last[2] == what.last[3],
          "%u classes", small->layers[1].n_out);
    wisp_spnet_free(small);
    wisp_merged_clear(&what);
    wisp_spnet_free(net);
}

static void test_sizes(void)
{
    TEST("layers: what does not fit is refused");
    struct wisp_spnet *net = wisp_spnet_create(1);
    const uint64_t start[] = { 0, 2 };
    const uint32_t down[] = { 1, 0 }, far[] = { 0, 9 };
    const float nan[] = { 1, NAN };
    struct wisp_edges e = { 2, 1, start, down, NULL, 1, NULL, 0, false };
    CHECK(wisp_spnet_add(net, &e, &err) == WISP_EINVAL && strstr(err.text, "ascend"), "%s",
          err.text);
    e.in = far;
    CHECK(wisp_spnet_add(net, &e, &err) == WISP_EINVAL, "%s", err.text);
    e.in = (uint32_t[]){ 0, 1 }, e.w = nan;
    CHECK(wisp_spnet_add(net, &e, &err) == WISP_EINVAL && strstr(err.text, "finite"), "%s",
          err.text);
    e.w = NULL;
    CHECK(wisp_spnet_add(net, &e, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_spnet_add(net, &e, &err) == WISP_EINVAL && strstr(err.text, "outputs"), "%s",
          err.text);
    wisp_spnet_free(net);
}

static void test_memory(const struct wisp_context *ctx)
{
    TEST("every failing allocation is reported, and nothing is lost");
    const long live = wisp_mem_live;
    struct wisp_spinputs x = random_inputs(50, 90, true, 0.3);
    for (long n = 0;; n++) {
        const uint64_t before = seed;
        struct wisp_spnet *net = wisp_spnet_create(32), *small = NULL;
        random_layer(net, 90, 80, &(struct shape){ 4, 9, true, true, true, -0.1f, 0.3f });
        random_layer(net, 80, 70, &(struct shape){ 4, 9, false, true, false, -0.1f, 0.3f });
        struct wisp_merged what = { 0 };
        uint8_t ends[50];
        struct wisp_sprun r = { .drop = true, .ends = ends };
        wisp_mem_budget = n;
        wisp_status st = wisp_spnet_rules(net, NULL, &err);
        if (st == WISP_OK) st = wisp_spnet_merge(&small, &what, net, &err);
        if (st == WISP_OK) st = wisp_spnet_run(&r, small, &x, ctx, &err);
        wisp_mem_budget = -1;
        CHECK(st == WISP_OK || st == WISP_ENOMEM, "after %ld: %s", n, err.text);
        wisp_merged_clear(&what);
        wisp_spnet_free(small);
        wisp_spnet_free(net);
        seed = before;
        if (st == WISP_OK) break;
    }
    wisp_spinputs_clear(&x);
    CHECK(wisp_mem_live == live, "%ld blocks are left", wisp_mem_live - live);
}

/* ---- kernels ---- */

static void compare(const float *a, const float *b, size_t n, float most, const char *what,
                    const char *isa)
{
    for (size_t i = 0; i < n; i++)
        CHECK(fabsf(a[i] - b[i]) <= most * (1 + fabsf(a[i])), "%s of %s [%zu]: %g, scalar says %g",
              what, isa, i, b[i], a[i]);
}

static void test_forms(const struct wisp_kernels *k, const struct wisp_kernels *plain, size_t lanes)
{
    enum { IN = 192, OUT = 130 };
    static float x[IN * 64], y[2][OUT * 64], p[2][IN * 64];
    for (int s = 0; s < 4; s++) {
        struct wisp_spnet *net = wisp_spnet_create(s % 2 ? 1 : INFINITY);
        random_layer(
            net, IN, OUT,
            &(struct shape){ s < 2 ? 1 : 31, 50, s == 1 || s == 3, false, s == 3, -0.1f, 0.2f });
        const struct wisp_splayer *l = &net->layers[0];
        for (int linear = 0; linear < 2; linear++) {
            const struct wisp_groups g = { l->n_groups, l->in_start, l->in,     l->out_start,
                                           l->out,      l->weight,   l->w,      l->w_start,
                                           linear,      l->bias,     l->biases, net->clip };
            for (size_t i = 0; i < IN * lanes; i++) x[i] = test_randf(&seed);
            for (size_t i = 0; i < IN; i++) x[i * lanes + 1] = 0; /* a lane of zeros */
            memset(y, 1, sizeof y);
            struct wisp_lanes a, b;
            plain->groups(y[0], x, lanes, &g, &a);
            k->groups(y[1], x, lanes, &g, &b);
            compare(y[0], y[1], sizeof y[0] / sizeof(float), 1e-5f, "groups", k->name);
            CHECK(a.zero == b.zero && a.full == b.full,
                  "%s: lanes %llx %llx, scalar says %llx %llx", k->name, (unsigned long long)b.zero,
                  (unsigned long long)b.full, (unsigned long long)a.zero,
                  (unsigned long long)a.full);
            memset(y[1], 1, sizeof y[1]);
            k->groups(y[1], x, lanes, &g, NULL);
            compare(y[0], y[1], sizeof y[0] / sizeof(float), 1e-5f, "groups without bounds",
                    k->name);
        }
        wisp_spnet_free(net);
    }
    struct wisp_spnet *chain =
        wisp_spnet_create(1); /* one lane fills up, one lives, the others die */
    chain_layer(chain, 8, 2, -0.5f);
    const struct wisp_splayer *l = &chain->layers[0];
    const struct wisp_groups g = { l->n_groups, l->in_start, l->in, l->out_start, l->out, l->weight,
                                   NULL,        NULL,        false, l->bias,      NULL,   1 };
    const uint64_t all = UINT64_MAX >> (64 - lanes);
    for (size_t fills = 0; fills < lanes; fills++) {
        const size_t lives = (fills + 2) % lanes;
        for (size_t i = 0; i < 8 * lanes; i++)
            x[i] = i % lanes == fills ? 5 : i % lanes == lives && i < lanes;
        struct wisp_lanes seen;
        k->groups(y[1], x, lanes, &g, &seen);
        CHECK(seen.full == 1ull << fills && seen.zero == (all ^ 1ull << fills ^ 1ull << lives),
              "%s: lane %zu of %zu fills up: full %llx, zero %llx", k->name, fills, lanes,
              (unsigned long long)seen.full, (unsigned long long)seen.zero);
    }
    wisp_spnet_free(chain);
    uint64_t bits[WISP_PANEL][9];
    const uint64_t *row[WISP_PANEL];
    for (int j = 0; j < WISP_PANEL; j++) {
        row[j] = bits[j];
        for (int i = 0; i < 9; i++) bits[j][i] = test_rand(&seed) & test_rand(&seed);
    }
    for (size_t words = 1; words <= 3; words++) {
        memset(p, 1, sizeof p);
        plain->spread(p[0], lanes, row, words);
        k->spread(p[1], lanes, row, words);
        compare(p[0], p[1], IN * 64, 0, "spread", k->name);
        for (size_t planes = 1; planes * words <= 9; planes++) {
            plain->tally(p[0], lanes, row, words, planes);
            k->tally(p[1], lanes, row, words, planes);
            compare(p[0], p[1], IN * 64, 0, "tally", k->name);
        }
    }
    for (size_t n = 0; n <= WISP_PANEL; n++) {
        uint8_t which[WISP_PANEL];
        for (int j = 0; j < WISP_PANEL; j++) which[j] = (uint8_t)below(WISP_PANEL);
        memset(p, 1, sizeof p);
        plain->pack(p[0], lanes, x, lanes, which, n, IN - 5);
        k->pack(p[1], lanes, x, lanes, which, n, IN - 5);
        compare(p[0], p[1], IN * 64, 0, "pack", k->name);
    }
}

static void test_kernels(void)
{
    struct wisp_kernels plain, k;
    wisp_kernels_scalar(&plain);
    const char *isa;
    for (size_t i = 0; (isa = wisp_kernels_isa(i, NULL)) != NULL; i++) {
        static char name[8][60];
        memset(&k, 0, sizeof k);
        if (wisp_kernels_select(&k, isa, NULL) != WISP_OK) continue;
        snprintf(name[i], sizeof name[i], "kernels: %s against scalar", isa);
        TEST(name[i]);
        for (size_t lanes = 16; lanes <= 64; lanes *= 2) test_forms(&k, &plain, lanes);
    }
}

int main(void)
{
    wisp_context *one, *three;
    if (wisp_context_create(&one, 1, &err) || wisp_context_create(&three, 3, &err)) return 2;
    test_kernels();
    test_sizes();
    TEST("random nets: raw, exact and merged are the plain form");
    for (int turn = 0; turn < 60; turn++) test_random(turn % 4 ? one : three, turn);
    test_counting(one);
    test_rules(one);
    test_not_equal(one);
    test_memory(one);
    wisp_context_free(one);
    wisp_context_free(three);
    return test_end();
}
