/* Branches and edges of kernels that are 0: which branches there are, nets that say the same without
 * them, and the penalties that make them 0. */
#include "small_rig.h"
#include "graph/branches.h"
#include "model/penalty.h"
#include "model/trim.h"

/* ---- branches ---- */

static void test_branches(void)
{
    static const struct {
        const char *net, *branches; /* letters of layers */
    } cases[] = {
        { "input 2, relu, dense 2", "" },
        { "input 2 as x, dense 2, relu, dense 2, add x", "bcd " },
        /* two that are joined: either may go */
        { "input 2 as x, dense 2 as l, from x, dense 2, add l", "c b " },
        /* one that nobody can do without, as it reads the rows */
        { "input 2 as l, from rows, input 2, dense 2, add l", "" },
        /* no weights in it */
        { "input 2 as x, relu, add x", "" },
        /* one within another */
        { "input 2 as x, dense 2 as y, dense 2, add y, add x", "c bcd " },
        /* what others read as well is not in it */
        { "input 2 as x, dense 2 as y, dense 2, add x, concat y", "c " },
        { "input 2 as x, dense 2, add x as y, dense 2 as z, relu, add y z", "b " },
    };
    TEST("trim: branches");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_layer_sizes sizes = { .batch = 4, .training = true };
        struct wisp_net net = { 0 };
        struct wisp_branches b = { 0 };
        char found[100] = "";
        size_t at = 0;
        const bool ok = wisp_net_plan(&net, cases[i].net, 9, 3, &sizes, &err) == WISP_OK;
        CHECK(ok, "%s", err.text);
        if (!ok) continue;
        struct wisp_graph g = wisp_net_graph(&net);
        CHECK(wisp_branches_of(&b, &g, &err) == WISP_OK, "%s", err.text);
        for (size_t k = 0; k < b.n; k++, found[at++] = ' ')
            for (int l = 0; l < b.n_layers; l++)
                if (b.has[k * (size_t)b.n_layers + (size_t)l]) found[at++] = (char)('a' + l);
        CHECK(strcmp(found, cases[i].branches) == 0, "'%s': '%s', expected '%s'", cases[i].net,
              found, cases[i].branches);
        wisp_branches_clear(&b);
        wisp_net_clear(&net);
    }
}

/* ---- smaller nets ---- */

/* Zeroes about half of the branches. */
static void mask_branches(struct wisp_net *net)
{
    struct wisp_graph g = wisp_net_graph(net);
    struct wisp_branches b;
    CHECK(wisp_branches_of(&b, &g, &err) == WISP_OK, "%s", err.text);
    for (size_t k = 0; k < b.n; k++) {
        if (below(2)) continue;
        for (size_t p = 0; p < net->list.n; p++)
            for (size_t i = 0; i < net->list.p[p].n; i++)
                if (net->list.p[p].role == WISP_TRAINED &&
                    b.has[k * (size_t)b.n_layers + (size_t)net->list.p[p].layer])
                    net->list.p[p].w[i] = below(2) ? 0 : -0.0f;
    }
    wisp_branches_clear(&b);
}

/* Zeroes the first and last rows or columns of some kernels. */
static void mask_edges(struct wisp_net *net)
{
    for (size_t p = 0; p < net->list.n; p++) {
        struct wisp_param *q = &net->list.p[p];
        if (q->rank != 4) continue;
        const size_t kh = q->dim[2], kw = q->dim[3], y = below(3), x = y ? below(3) : 1;
        for (size_t i = 0; i < q->n; i++) {
            const size_t row = i / kw % kh, col = i % kw;
            if (row < y || row + y >= kh || col < x || col + x >= kw) q->w[i] = 0;
        }
    }
}

static size_t layers_gone, kernels_smaller;

static void check_trimmed(struct wisp_net *net, struct wisp_step step, int threads,
                          const char *spec)
{
    struct wisp_trim t;
    struct wisp_net small = { 0 };
    lift_variances(net);
    mask_branches(net);
    mask_edges(net);
    CHECK(wisp_trim_make(&t, net, &err) == WISP_OK, "%s", err.text);
    if (t.text) {
        bool ok = wisp_net_plan(&small, t.text, net->n_features, net->n_labels, &net->sizes,
                                &err) == WISP_OK &&
                  wisp_net_alloc_params(&small, &err) == WISP_OK &&
                  wisp_work_alloc(&small, threads, &err) == WISP_OK;
        CHECK(ok, "'%s' -> '%s': %s", spec, t.text, err.text);
        if (ok) {
            wisp_net_init(&small, 99, NULL); /* what is not filled would be seen */
            wisp_trim_fill(&small, &t);
            CHECK((size_t)small.n_layers + t.n_layers == (size_t)net->n_layers, "'%s'", t.text);
            CHECK(t.n_kernels == 0 || wisp_net_n_params(&small) < wisp_net_n_params(net),
                  "'%s' is not smaller", t.text);
            check_same(net, &small, step, spec, t.text);
            layers_gone += t.n_layers;
            kernels_smaller += t.n_kernels;
            struct wisp_trim again;
            CHECK(wisp_trim_make(&again, &small, &err) == WISP_OK && !again.text,
                  "'%s' becomes smaller twice: '%s'", t.text, again.text ? again.text : err.text);
            wisp_trim_clear(&again);
        }
    }
    wisp_net_clear(&small);
    wisp_trim_clear(&t);
}

static void test_random(const struct wisp_kernels *k)
{
    TEST("trim: random nets say the same without branches and edges that are 0");
    layers_gone = kernels_smaller = 0;
    for (uint64_t i = 0; i < 80; i++) {
        struct rig r;
        rig_planes = i % 4 > 0;
        if (!rig_init(&r, k, 2, 8000009 * (i + 1), 4, false)) break;
        check_trimmed(&r.net, r.step, 2, r.spec);
        rig_clear(&r);
    }
    rig_planes = false;
    printf("     %zu layers went, %zu kernels are smaller\n", layers_gone, kernels_smaller);
    CHECK(layers_gone > 20 && kernels_smaller > 20, "%zu layers went, %zu kernels are smaller",
          layers_gone, kernels_smaller);
}

/* By hand: what becomes smaller, and what must not. */
static void test_texts(const struct wisp_kernels *k)
{
    static const struct {
        const char *net, *zero,
            *text; /* zero: rows of the kernel at the top and the bottom, columns */
    } cases[] = {
        { "image, conv 2 5", "1111", "image, conv channels=2 kernel=3x3" },
        { "image, conv 2 5", "2200", "image, conv channels=2 kernel=1x5" },
        { "image, conv 2 5", "1000", NULL }, /* at one side alone */
        { "image, conv 2 5", "2111", "image, conv channels=2 kernel=3x3" },
        { "image, conv 2 5 pad=0", "1111", NULL }, /* no pixels around to take away */
        { "image, conv 2 5x3 pad=1x0", "2211", "image, conv channels=2 kernel=3x3 pad=0x0" },
        { "image, conv 2 3 stride=2", "1100", "image, conv channels=2 kernel=1x3 stride=2" },
        { "image, conv 2 1", "0000", NULL },
    };
    TEST("trim: kernels");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_context ctx = { .k = k };
        struct wisp_layer_sizes sizes = {
            .batch = 2, .active = 3, .training = true, .ctx = &ctx, .image = { 3, { 1, 8, 8 } }
        };
        struct wisp_net net = { 0 };
        struct wisp_trim t = { 0 };
        char spec[200], text[200];
        const char *z = cases[i].zero;
        snprintf(spec, sizeof spec, "%s, flatten", cases[i].net);
        snprintf(text, sizeof text, "%s, flatten, output", cases[i].text ? cases[i].text : "");
        bool ok = wisp_net_plan(&net, spec, 64, 3, &sizes, &err) == WISP_OK &&
                  wisp_net_alloc_params(&net, &err) == WISP_OK;
        CHECK(ok, "%s", err.text);
        if (!ok) continue;
        wisp_net_init(&net, 1, NULL);
        struct wisp_param *q = &net.layers[1].params[0];
        const size_t kh = q->dim[2], kw = q->dim[3];
        for (size_t e = 0; e < q->n; e++) {
            const size_t y = e / kw % kh, x = e % kw;
            if (y < (size_t)(z[0] - '0') || y >= kh - (size_t)(z[1] - '0') ||
                x < (size_t)(z[2] - '0') || x >= kw - (size_t)(z[3] - '0'))
                q->w[e] = 0;
        }
        CHECK(wisp_trim_make(&t, &net, &err) == WISP_OK, "%s", err.text);
        CHECK(cases[i].text ? t.text && strcmp(t.text, text) == 0 : !t.text,
              "'%s', %s: '%s', expected '%s'", spec, z, t.text ? t.text : "the same",
              cases[i].text ? text : "the same");
        wisp_trim_clear(&t);
        wisp_net_clear(&net);
    }
}

/* ---- penalties ---- */

/* One group: those of the numbers at[0 .. n). */
static void plain_shorten(double *w, const size_t *at, size_t n, double by)
{
    double square = 0;
    for (size_t i = 0; i < n; i++) square += w[at[i]] * w[at[i]];
    for (size_t i = 0; i < n && square > 0; i++)
        w[at[i]] *= fmax(0, 1 - by * sqrt((double)n / square));
}

/* The weights that read each bond. */
static void plain_readers(double *w, const struct wisp_net *net, const struct wisp_bonds *bonds,
                          double by, size_t *at)
{
    for (size_t c = 0; c < bonds->n; c++) {
        size_t n = 0;
        for (size_t p = 0; p < net->list.n && !bonds->fixed[c]; p++) {
            const struct wisp_param *q = &net->list.p[p];
            size_t inner = q->n;
            for (int d = 0; d < q->rank; d++) {
                inner /= q->dim[d];
                if (q->role != WISP_TRAINED || q->axis[d] != WISP_AXIS_IN) continue;
                for (size_t i = 0; i < q->n; i++)
                    if (bonds->axis[p][d][i / inner % q->dim[d]] == (int32_t)c)
                        at[n++] = (size_t)(q->w - net->params) + i;
            }
        }
        plain_shorten(w, at, n, by);
    }
}

static void plain_groups(double *w, const struct wisp_net *net, const struct wisp_bonds *bonds,
                         double by)
{
    size_t *at = calloc(wisp_net_param_floats(net), sizeof *at);
    for (size_t p = 0; p < net->list.n; p++) {
        const struct wisp_param *q = &net->list.p[p];
        if (q->rank != 4 || q->axis[0] != WISP_AXIS_OUT) continue;
        for (size_t c = 0; c < q->cols; c++) {
            for (size_t o = 0; o < q->rows; o++)
                at[o] = (size_t)(q->w - net->params) + o * q->cols + c;
            plain_shorten(w, at, q->rows, by);
        }
    }
    struct wisp_graph g = wisp_net_graph(net);
    struct wisp_branches b;
    CHECK(wisp_branches_of(&b, &g, &err) == WISP_OK, "%s", err.text);
    for (size_t k = 0; k < b.n; k++) {
        size_t n = 0;
        for (size_t p = 0; p < net->list.n; p++) {
            const struct wisp_param *q = &net->list.p[p];
            if (q->role != WISP_TRAINED || !b.has[k * (size_t)b.n_layers + (size_t)q->layer])
                continue;
            for (size_t i = 0; i < q->n; i++) at[n++] = (size_t)(q->w - net->params) + i;
        }
        plain_shorten(w, at, n, by);
    }
    wisp_branches_clear(&b);
    plain_readers(w, net, bonds, by, at);
    free(at);
}

static void test_penalty(const struct wisp_kernels *k)
{
    size_t zeros = 0, others = 0;
    TEST("trim: penalties = plain code, the same bytes for any threads");
    for (uint64_t i = 0; i < 24; i++) {
        struct rig r;
        rig_planes = i % 4 > 0;
        if (!rig_init(&r, k, 3, 9100019 * (i + 1), 3, false)) break;
        struct wisp_penalty p;
        CHECK(wisp_penalty_make(&p, &r.net, WISP_GROUPS_SHAPES | WISP_GROUPS_LAYERS, &err) ==
                  WISP_OK,
              "%s", err.text);
        const double by = 0.05 + 0.1 * (double)below(6);
        const size_t bytes = r.floats * sizeof(float);
        float *first = malloc(bytes), *one = malloc(bytes);
        memcpy(first, r.net.params, bytes);
        plain_groups(r.w, &r.net, &p.bonds, by);
        wisp_penalty_move(&p, &r.net, by, NULL);
        memcpy(one, r.net.params, bytes);
        memcpy(r.net.params, first, bytes);
        wisp_penalty_move(&p, &r.net, by, r.ctx.pool);
        CHECK(memcmp(one, r.net.params, bytes) == 0, "'%s': other bytes with 3 threads", r.spec);
        for (size_t e = 0; e < r.floats; e++) {
            CHECK(fabs(r.w[e] - one[e]) <= 1e-5 * fabs(first[e]) && (r.w[e] == 0) == (one[e] == 0),
                  "'%s': %g is %g, expected %g", r.spec, first[e], one[e], r.w[e]);
            zeros += first[e] != 0 && one[e] == 0;
            others += first[e] != one[e] && one[e] != 0;
        }
        free(first), free(one);
        wisp_penalty_clear(&p);
        rig_clear(&r);
    }
    rig_planes = false;
    printf("     %zu weights became 0, %zu smaller\n", zeros, others);
    CHECK(zeros > 500 && others > 500, "%zu weights became 0, %zu smaller", zeros, others);
}

/* ---- memory ---- */

static void test_memory(void)
{
    struct wisp_layer_sizes sizes = { .batch = 4, .training = true };
    struct wisp_net net = { 0 };
    TEST("trim: the n-th allocation fails");
    CHECK(wisp_net_plan(&net, "input 4 as x, dense 4, relu, dense 4, add x", 9, 3, &sizes, &err) ==
                  WISP_OK &&
              wisp_net_alloc_params(&net, &err) == WISP_OK,
          "%s", err.text);
    wisp_net_init(&net, 1, NULL);
    for (int l = 1; l < 4; l++)
        for (int p = 0; p < net.layers[l].n_params; p++)
            memset(net.layers[l].params[p].w, 0, net.layers[l].params[p].n * sizeof(float));
    const long live = wisp_mem_live;
    for (int what = 0; what < 2; what++)
        for (long n = 0;; n++) {
            struct wisp_trim t;
            struct wisp_penalty p;
            wisp_mem_budget = n;
            wisp_status st =
                what ? wisp_trim_make(&t, &net, &err)
                     : wisp_penalty_make(&p, &net, WISP_GROUPS_SHAPES | WISP_GROUPS_LAYERS, &err);
            wisp_mem_budget = -1;
            if (st == WISP_OK) {
                CHECK(n > 4, "%ld allocations", n);
                CHECK(what == 0 || (t.text && !strstr(t.text, "dense")), "the branch stays");
                if (what) wisp_trim_clear(&t);
                else wisp_penalty_clear(&p);
                break;
            }
            CHECK(st == WISP_ENOMEM && wisp_mem_live == live, "after %ld: %s, %ld blocks", n,
                  err.text, (long)wisp_mem_live - live);
        }
    wisp_net_clear(&net);
}

static void check_preset(struct wisp_net *net, struct wisp_step step, const char *name)
{
    layers_gone = kernels_smaller = 0;
    check_trimmed(net, step, 2, name);
    printf("     %s: %zu layers went, %zu kernels are smaller\n", name, layers_gone,
           kernels_smaller);
    CHECK(layers_gone + kernels_smaller > 0, "%s: nothing went", name);
}

/* ---- what layers weigh ---- */

static double weight_of(const struct wisp_net *net, const double *weight, const char *name)
{
    for (int i = 0; i < net->n_layers; i++)
        if (strcmp(net->layers[i].name, name) == 0) return weight[i];
    return NAN;
}

/* Each weight of a works 16 times as often as one of b, and one of b 16 times as often as one of c.
 * Expected factors are the roots of operations per weight over the net's mean. */
static void test_weights_by_operations(void)
{
    struct wisp_layer_sizes sizes = { .batch = 4,
                                      .training = true,
                                      .image = wisp_image_shape((struct wisp_image){ 1, 16, 16 }) };
    struct wisp_net net = { 0 };
    double weight[16];
    bool unknown;
    TEST("trim: layers weighed by operations");
    if (wisp_net_plan(&net,
                      "image, conv 4 3x3 as a, relu, maxpool 4, conv 8 1x1 as b, relu, globalavg, "
                      "flatten, dense 6 as c, relu",
                      256, 3, &sizes, &err) != WISP_OK) {
        CHECK(false, "%s", err.text);
        return;
    }
    CHECK(net.n_layers <= 16, "%d layers", net.n_layers);
    CHECK(wisp_groups_weights(weight, &net, "operations", &unknown, &err) == WISP_OK, "%s",
          err.text);
    const double flops = 2.0 * (36 * 256 + 32 * 16 + 48 + 18), weights = 36 + 32 + 48 + 18,
                 mean = flops / weights;
    CHECK(fabs(weight_of(&net, weight, "a") - sqrt(2 * 256 / mean)) < 1e-9, "a: %g",
          weight_of(&net, weight, "a"));
    CHECK(fabs(weight_of(&net, weight, "b") - sqrt(2 * 16 / mean)) < 1e-9, "b: %g",
          weight_of(&net, weight, "b"));
    CHECK(fabs(weight_of(&net, weight, "c") - sqrt(2 / mean)) < 1e-9, "c: %g",
          weight_of(&net, weight, "c"));
    CHECK(isinf(weight[0]), "a layer without operations is not named");
    CHECK(wisp_groups_weights(weight, &net, "operations,b=0", &unknown, &err) == WISP_OK, "%s",
          err.text);
    CHECK(weight_of(&net, weight, "b") == 0, "what is said later counts");
    CHECK(wisp_groups_weights(weight, &net, "operation", &unknown, &err) == WISP_EINVAL,
          "no such word");
    wisp_net_clear(&net);
}

int main(void)
{
    const struct wisp_kernels k = best_kernels();
    test_branches();
    test_weights_by_operations();
    test_texts(&k);
    test_random(&k);
    test_penalty(&k);
    test_memory();
    TEST("trim: presets say the same without branches and edges that are 0");
    each_preset(&k, check_preset);
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}
