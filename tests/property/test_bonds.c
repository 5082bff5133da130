/* Channels that go together: texts of nets and back, bonds that were written by hand, and nets that
 * say the same when what is 0 is taken away. */
#include "small_rig.h"
#include "graph/bonds.h"
#include "model/compact.h"
#include "model/optimizer.h"
#include "model/penalty.h"

/* ---- the text of a graph ---- */

/* Read again, it says the same layers. */
static void check_text(const struct wisp_net *net)
{
    struct wisp_graph g = wisp_net_graph(net);
    struct wisp_said *said = NULL;
    char *text = NULL;
    int n = 0;
    CHECK(wisp_graph_text(&text, &g, &err) == WISP_OK, "%s", err.text);
    if (!text) return;
    CHECK(wisp_say_net(&said, &n, text, "text", wisp_layer_kind_at, &err) == WISP_OK &&
              n == g.n_layers,
          "'%s': %d layers of %d: %s", text, n, g.n_layers, err.text);
    for (int i = 0; i < n && said; i++) {
        const struct wisp_layer *l = &g.layers[i];
        const struct wisp_said *s = &said[i];
        CHECK(s->kind == l->kind && s->n_from == l->n_from && s->given == l->given &&
                  strcmp(s->name, l->name) == 0 && strcmp(s->file, l->file) == 0 &&
                  memcmp(s->from, l->from, (size_t)l->n_from * sizeof *l->from) == 0 &&
                  memcmp(s->arg, l->arg, sizeof l->arg) == 0,
              "'%s': layer %d, %s, is another one", text, i, l->kind->name);
    }
    wisp_free(said);
    wisp_free(text);
}

static void test_texts(void)
{
    static const char *const nets[] = {
        "input 8",
        "input 8 as v0, relu, dense 8, add v0",
        "input 8, relu, as x, dense 8 as v1, add x v1, from rows, input 3, concat v1 x",
        "input 8, 2 x b (as x, dense 8 as fc, relu, dropout 0.1, add x), 2 x (2 x (relu))",
        "as r, input 5, from r, input 4, clip 1e-3, from rows, input 2, bn eps=0.25 momentum=1e-1",
        "input 8, sparse random 9 4, sparse radix 16, sampled 20, output loss=bce",
    };
    TEST("bonds: the text of a graph says the same layers");
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        struct wisp_layer_sizes sizes = { .batch = 4, .training = true };
        struct wisp_net net = { 0 };
        /* some values are read by nobody: only the layers matter here */
        if (wisp_net_plan(&net, nets[i], 9, 3, &sizes, &err) == WISP_OK) check_text(&net);
        else CHECK(strstr(err.text, "read"), "'%s': %s", nets[i], err.text);
        wisp_net_clear(&net);
    }
}

/* ---- bonds ---- */

static void test_classes(void)
{
    static const struct {
        const char *net, *fixed; /* by bond: '-' may go, '*' stays */
        const char *last;        /* the bonds of what the output layer reads, as letters */
    } cases[] = {
        { "input 3, relu", "---", "abc" },
        { "input 2, dense 3", "-----", "cde" },
        { "input 2 as a, relu, dense 2, add a", "--", "ab" },
        { "input 2 as a, from rows, input 3, bn, concat a", "-----", "cdeab" },
        { "input 2 as a, from rows, input 1, concat a as c, dense 3, add c", "---", "cab" },
        { "input 2, relu, sparse random 3 1", "-----", "cde" },
        { "sparse radix 2 as a, relu, sparse random 2 1, add a", "--", "ab" },
        { "input 2, dense 2, identity, clip 1, dropout 0.5, flatten", "----", "cd" },
    };
    TEST("bonds: bonds");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_layer_sizes sizes = { .batch = 4, .training = true };
        struct wisp_net net = { 0 };
        struct wisp_bonds bonds = { 0 };
        const bool ok = wisp_net_plan(&net, cases[i].net, 9, 3, &sizes, &err) == WISP_OK;
        CHECK(ok, "%s", err.text);
        if (!ok) continue;
        struct wisp_graph g = wisp_net_graph(&net);
        CHECK(wisp_bonds_of(&bonds, &g, &net.list, &err) == WISP_OK, "%s", err.text);
        char fixed[50] = "", last[50] = "";
        const int value = wisp_net_output(&net)->from[0];
        for (size_t c = 0; c < bonds.n && c < 49; c++) fixed[c] = bonds.fixed[c] ? '*' : '-';
        for (size_t c = 0; c < wisp_channels(&net.acts[value]) && c < 49; c++)
            last[c] = (char)('a' + bonds.of[bonds.first[value] + c]);
        CHECK(strcmp(fixed, cases[i].fixed) == 0 && strcmp(last, cases[i].last) == 0,
              "'%s': %s, read are %s; expected %s, %s", cases[i].net, fixed, last, cases[i].fixed,
              cases[i].last);
        wisp_bonds_clear(&bonds);
        wisp_net_clear(&net);
    }
}

/* ---- smaller nets ---- */

/* The index of number i in dimension d, whose numbers lie 'inner' apart. */
static size_t index_of(const struct wisp_param *q, int d, size_t inner, size_t i)
{
    size_t row = 0;
    if (!q->ragged) return i / inner % q->dim[d];
    while ((size_t)q->start[row + 1] <= i) row++;
    return row;
}

/* Zeroes the weights that make some of the bonds that may go; returns how many. */
static size_t mask_some(struct wisp_net *net, const struct wisp_bonds *bonds, bool *gone)
{
    size_t n = 0;
    for (size_t c = 0; c < bonds->n; c++) n += gone[c] = !bonds->fixed[c] && below(2);
    for (size_t p = 0; p < net->list.n; p++) {
        struct wisp_param *q = &net->list.p[p];
        size_t inner = q->n;
        for (int d = 0; d < q->rank; d++) {
            inner /= q->dim[d];
            if (q->role != WISP_TRAINED || q->axis[d] != WISP_AXIS_OUT) continue;
            for (size_t i = 0; i < q->n; i++)
                if (gone[bonds->axis[p][d][index_of(q, d, inner, i)]])
                    q->w[i] = below(2) ? 0 : -0.0f;
        }
    }
    return n;
}

/* The first sample by itself says what it says among others. */
static void check_alone(struct wisp_net *net, struct wisp_step step, const char *spec)
{
    double *all = logits(net, step), most = 0, far = 0;
    struct wisp_batch one = *step.batch;
    one.n = 1;
    step.batch = &one;
    step.alone = true;
    double *z = logits(net, step);
    for (size_t i = 0; i < net->n_labels; i++) {
        most = fmax(most, fabs(all[i]));
        far = fmax(far, fabs(all[i] - z[i]));
    }
    CHECK(far <= 2e-5 * most + 1e-6, "'%s': alone, logits to %g differ by %g", spec, most, far);
    free(all), free(z);
}

/* Zeroes most weights of layers that can lose them one by one; returns how many. */
static size_t thin_out(struct wisp_net *net)
{
    size_t n = 0;
    for (size_t p = 0; p < net->list.n; p++) {
        struct wisp_param *q = &net->list.p[p];
        const struct wisp_layer *l = &net->layers[q->layer];
        if (q != &l->params[0] || (!q->wired && !l->kind->thins)) continue;
        for (size_t i = 0; i < q->n; i++)
            if (below(4)) q->w[i] = 0, n++;
    }
    return n;
}

/* Are there weights of 0 where a thin net has none, or matrices?  A layer that has nothing else keeps
 * one. */
static size_t still_there(const struct wisp_net *net)
{
    size_t n = 0;
    for (size_t p = 0; p < net->list.n; p++) {
        const struct wisp_param *q = &net->list.p[p];
        n += net->layers[q->layer].kind->thins;
        for (size_t i = 0; q->wired && q->n > 1 && i < q->n; i++) n += q->w[i] == 0;
    }
    return n;
}

static size_t n_gone, n_nets, n_edges, n_padding;

/* As cards have units, a multiple of 4 of every value of them is left, or all, and of maps one of 16
 * where that is asked for; nothing else goes. */
static size_t check_round(bool *keep, const struct wisp_bonds *b, const struct wisp_net *net,
                          const char *spec)
{
    bool *before = malloc(b->n + 1);
    memcpy(before, keep, b->n);
    const size_t maps = below(2) ? 16 : 1, more = wisp_compact_round(keep, b, net, 4, maps);
    size_t added = 0;
    for (size_t c = 0; c < b->n; c++) {
        CHECK(keep[c] || !before[c], "'%s': bond %zu is gone", spec, c);
        added += keep[c] && !before[c];
    }
    CHECK(added == more, "'%s': %zu bonds more, it says %zu", spec, added, more);
    for (int v = 1; v < net->n_layers; v++) {
        const size_t n = wisp_channels(&net->acts[v]);
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) kept += keep[b->of[b->first[v] + i]];
        CHECK(kept % (net->acts[v].shape.rank == 3 ? maps : 4) == 0 || kept == n,
              "'%s': %zu of %zu channels of value %d", spec, kept, n, v);
    }
    free(before);
    return more;
}

static void check_smaller(struct wisp_net *net, struct wisp_step step, int threads,
                          const char *spec, bool thin)
{
    struct wisp_bonds bonds;
    struct wisp_graph g = wisp_net_graph(net);
    struct wisp_net small = { 0 };
    struct wisp_smaller s = { 0 };
    struct wisp_layer_sizes sizes = net->sizes;
    size_t gone = 0;
    check_text(net);
    lift_variances(net);
    if (wisp_bonds_of(&bonds, &g, &net->list, &err) != WISP_OK) {
        CHECK(false, "%s", err.text);
        return;
    }
    bool *keep = calloc(bonds.n + 1, sizeof *keep), *masked = calloc(bonds.n + 1, sizeof *masked);
    const size_t n_masked = mask_some(net, &bonds, masked);
    if (thin) n_edges += thin_out(net);
    CHECK(wisp_compact_choose(keep, &gone, &bonds, net, &err) == WISP_OK, "%s", err.text);
    CHECK(gone + (size_t)net->n_layers >= n_masked, "'%s': %zu bonds are 0, %zu go", spec, n_masked,
          gone);
    if (n_nets % 3 == 2) {
        const size_t padding = check_round(keep, &bonds, net, spec);
        gone -= padding;
        n_padding += padding;
    }
    bool ok = wisp_smaller_make(&s, net, &bonds, keep, thin, &err) == WISP_OK;
    const char *text = ok ? s.text : "";
    sizes.known = &s.known;
    ok = ok &&
         wisp_net_plan(&small, text, net->n_features, net->n_labels, &sizes, &err) == WISP_OK &&
         wisp_net_alloc_params(&small, &err) == WISP_OK &&
         wisp_work_alloc(&small, threads, &err) == WISP_OK;
    if (ok) wisp_net_init(&small, 99, NULL); /* what is not filled would be seen */
    ok = ok && wisp_compact_fill(&small, &s, &err) == WISP_OK;
    CHECK(ok, "'%s' -> '%s': %s", spec, text, err.text);
    if (ok) {
        check_same(net, &small, step, spec, text);
        CHECK(gone == 0 || wisp_net_n_params(&small) < wisp_net_n_params(net),
              "'%s' is not smaller", text);
        CHECK(!thin || still_there(&small) == 0, "'%s': %zu weights should have gone", text,
              still_there(&small));
        check_text(&small);
        check_alone(net, step, spec);
        check_alone(&small, step, text);
        n_gone += gone;
        n_nets++;
    }
    wisp_net_clear(&small);
    wisp_bonds_clear(&bonds);
    wisp_smaller_clear(&s);
    free(keep), free(masked);
}

static void test_random(const struct wisp_kernels *k, bool thin)
{
    TEST(thin ? "bonds: random nets say the same without weights that are 0"
              : "bonds: random nets say the same without what is 0");
    n_gone = n_nets = n_edges = n_padding = 0;
    for (uint64_t i = 0; i < 80; i++) {
        struct rig r;
        rig_planes = i % 2;
        if (!rig_init(&r, k, 2, 7000003 * (i + 1), 4, false)) break;
        check_smaller(&r.net, r.step, 2, r.spec, thin);
        rig_clear(&r);
    }
    rig_planes = false;
    printf("     %zu nets, %zu bonds taken away, %zu weights\n", n_nets, n_gone, n_edges);
    CHECK(n_nets > 70 && n_gone > 500 && (!thin || n_edges > 10000),
          "%zu nets, %zu bonds, %zu weights", n_nets, n_gone, n_edges);
    CHECK(n_padding > 20, "%zu bonds were kept to have a multiple of 4", n_padding);
}

/* ---- the penalty ---- */

/* Every group shorter by by * sqrt(size), in double, one weight after the other. */
static void plain_penalty(double *w, const struct wisp_net *net, const struct wisp_bonds *b,
                          double by)
{
    double *square = calloc(b->n, sizeof *square), *size = calloc(b->n, sizeof *size);
    for (int pass = 0; pass < 2; pass++)
        for (size_t p = 0; p < net->list.n; p++) {
            const struct wisp_param *q = &net->list.p[p];
            size_t inner = q->n;
            for (int d = 0; d < q->rank; d++) {
                inner /= q->dim[d];
                if (q->role != WISP_TRAINED || q->axis[d] != WISP_AXIS_OUT) continue;
                for (size_t i = 0; i < q->n; i++) {
                    const int32_t c = b->axis[p][d][index_of(q, d, inner, i)];
                    double *at = &w[(size_t)(q->w - net->params) + i];
                    if (pass == 0) square[c] += *at * *at, size[c]++;
                    else if (!b->fixed[c] && square[c] > 0)
                        *at *= fmax(0, 1 - by * sqrt(size[c] / square[c]));
                }
            }
        }
    free(square), free(size);
}

/* A weight that is no number is not hidden by a zero: a checkpoint looks for such. */
static void check_no_number(struct wisp_penalty *p, struct wisp_net *net, double by,
                            const char *spec)
{
    for (size_t i = 0; i < net->list.n; i++) {
        struct wisp_param *q = &net->list.p[i];
        for (int d = 0; d < q->rank; d++) {
            if (q->role != WISP_TRAINED || q->axis[d] != WISP_AXIS_OUT) continue;
            q->w[0] = NAN;
            wisp_penalty_move(p, net, by, NULL);
            CHECK(isnan(q->w[0]), "'%s': nan became %g", spec, q->w[0]);
            return;
        }
    }
}

static void test_penalty(const struct wisp_kernels *k)
{
    size_t zeros = 0, others = 0;
    TEST("bonds: a penalty = plain code, the same bytes for any threads");
    for (uint64_t i = 0; i < 24; i++) {
        struct rig r;
        rig_planes = i % 2;
        if (!rig_init(&r, k, 3, 9000011 * (i + 1), 3, false)) break;
        struct wisp_penalty p;
        CHECK(wisp_penalty_make(&p, &r.net, WISP_GROUPS_CHANNELS, &err) == WISP_OK, "%s", err.text);
        const double by = 0.05 + 0.1 * (double)below(6);
        const size_t bytes = r.floats * sizeof(float);
        float *first = malloc(bytes), *one = malloc(bytes);
        memcpy(first, r.net.params, bytes);
        plain_penalty(r.w, &r.net, &p.bonds, by);
        wisp_penalty_move(&p, &r.net, by, NULL);
        memcpy(one, r.net.params, bytes);
        memcpy(r.net.params, first, bytes);
        wisp_penalty_move(&p, &r.net, by, r.ctx.pool);
        CHECK(memcmp(one, r.net.params, bytes) == 0, "'%s': other bytes with 3 threads", r.spec);
        for (size_t e = 0; e < r.floats; e++) {
            CHECK(fabs(r.w[e] - one[e]) <= 1e-6 * fabs((double)first[e]) &&
                      (r.w[e] == 0) == (one[e] == 0),
                  "'%s': %g is %g, expected %g", r.spec, first[e], one[e], r.w[e]);
            zeros += first[e] != 0 && one[e] == 0;
            others += first[e] != one[e] && one[e] != 0;
        }
        if (p.bonds.n > 0) check_no_number(&p, &r.net, by, r.spec);
        free(first), free(one);
        wisp_penalty_clear(&p);
        rig_clear(&r);
    }
    rig_planes = false;
    printf("     %zu weights became 0, %zu smaller\n", zeros, others);
    CHECK(zeros > 1000 && others > 1000, "%zu weights became 0, %zu smaller", zeros, others);
}

/* The share of each value's channels with the smallest products of lengths, by plain sums. */
static void test_cut(const struct wisp_kernels *k)
{
    size_t gone = 0;
    TEST("bonds: a cut takes the weakest, the same bytes for any threads");
    for (uint64_t i = 0; i < 24; i++) {
        struct rig r;
        struct wisp_penalty p;
        rig_planes = i % 2;
        if (!rig_init(&r, k, 3, 7000003 * (i + 1), 3, false)) break;
        CHECK(wisp_penalty_make(&p, &r.net, WISP_GROUPS_CHANNELS, &err) == WISP_OK, "%s", err.text);
        const size_t bytes = r.floats * sizeof(float), n = p.bonds.n;
        const double share = 0.1 + 0.2 * (double)below(5);
        float *first = malloc(bytes), *one = malloc(bytes);
        double *made = calloc(n, sizeof *made), *read = calloc(n, sizeof *read);
        bool *reads = calloc(n, sizeof *reads), *is_0 = malloc(n * sizeof *is_0);
        memcpy(first, r.net.params, bytes);
        for (size_t q = 0; q < r.net.list.n; q++) {
            const struct wisp_param *w = &r.net.list.p[q];
            size_t inner = w->n;
            for (int d = 0; d < w->rank; d++) {
                inner /= w->dim[d];
                const int32_t *of = p.bonds.axis[q][d];
                const bool out = w->axis[d] == WISP_AXIS_OUT;
                for (size_t e = 0; of && w->role == WISP_TRAINED && !w->ragged && e < w->n; e++) {
                    const int32_t c = of[e / inner % w->dim[d]];
                    *(out ? &made[c] : &read[c]) += (double)w->w[e] * (double)w->w[e];
                    if (!out) reads[c] = true;
                }
            }
        }
        bool ragged = false;
        for (size_t q = 0; q < r.net.list.n; q++) ragged |= r.net.list.p[q].ragged;
        const size_t cut_now = wisp_penalty_cut(&p, &r.net, share, NULL);
        size_t strong = 0;
        for (size_t a = 0; a < n; a++)
            strong += p.scale[p.weak[a].bond] == 0 && p.weak[a].strength > 0;
        CHECK(cut_now == strong, "'%s': %zu were cut, it says %zu", r.spec, strong, cut_now);
        memcpy(one, r.net.params, bytes);
        memcpy(r.net.params, first, bytes);
        wisp_penalty_cut(&p, &r.net, share, r.ctx.pool);
        CHECK(memcmp(one, r.net.params, bytes) == 0, "'%s': other bytes with 3 threads", r.spec);
        for (size_t c = 0; c < n; c++) is_0[c] = p.scale[c] == 0;
        CHECK(wisp_penalty_cut(&p, &r.net, share, NULL) == 0, "'%s': the same are cut once more",
              r.spec);
        for (size_t a = 0; a < n && !ragged; a++) {
            const struct wisp_weak *w = &p.weak[a];
            size_t all = 0, cut = 0;
            double strength = made[w->bond] * (reads[w->bond] ? read[w->bond] : 1);
            for (size_t b = 0; b < n; b++) {
                const int32_t c = p.weak[b].bond;
                if (p.weak[b].value != w->value || p.bonds.fixed[c]) continue;
                all++, cut += is_0[c];
                const double other = made[c] * (reads[c] ? read[c] : 1);
                CHECK(!is_0[w->bond] || is_0[c] || strength <= other * (1 + 1e-4),
                      "'%s': %g went, %g stayed", r.spec, strength, other);
            }
            CHECK(!is_0[w->bond] || !p.bonds.fixed[w->bond], "'%s': one that is fixed", r.spec);
            const size_t want = (size_t)(share * (double)all + 1e-6);
            CHECK(all == 0 || cut == (want < all ? want : all - 1), "'%s': %zu of %zu went", r.spec,
                  cut, all);
            gone += is_0[w->bond];
        }
        free(first), free(one), free(made), free(read), free(reads), free(is_0);
        wisp_penalty_clear(&p);
        rig_clear(&r);
    }
    rig_planes = false;
    CHECK(gone > 50, "%zu channels", gone);
    printf("     %zu channels were cut\n", gone);
}

/* A layer of many features, whose squares are summed up in pieces. */
static void test_wide(const struct wisp_kernels *k)
{
    static const char *const texts[] = { "input 37, relu", "input 64, relu, dense 19, relu",
                                         "input 5" };
    struct wisp_context ctx = { .k = k };
    TEST("bonds: a penalty on a layer of many features = plain code, the same bytes for any "
         "threads");
    CHECK(wisp_pool_create(&ctx.pool, 3, &err) == WISP_OK, "%s", err.text);
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        const struct wisp_layer_sizes sizes = { .batch = 4, .training = true, .ctx = &ctx };
        struct wisp_net net;
        struct wisp_penalty p;
        size_t zeros = 0, others = 0;
        CHECK(wisp_net_plan(&net, texts[t], 6000 + 61 * t, 9, &sizes, &err) == WISP_OK &&
                  wisp_net_alloc_params(&net, &err) == WISP_OK,
              "%s", err.text);
        CHECK(wisp_net_alloc_state(&net, WISP_SLOT_M, &err) == WISP_OK, "%s", err.text);
        wisp_net_init(&net, 5, ctx.pool);
        for (size_t i = 0; i < net.list.n; i++)
            for (size_t e = 0; e < net.list.p[i].n; e++) net.list.p[i].m[e] = 1;
        CHECK(wisp_penalty_make(&p, &net, WISP_GROUPS_CHANNELS, &err) == WISP_OK, "%s", err.text);
        struct wisp_param *w = &net.list.p[0];
        for (size_t e = 0; e < w->n; e++) w->w[e] *= (float)(1 + e % w->cols) / (float)w->cols;
        const size_t n = wisp_net_param_floats(&net);
        float *first = malloc(n * sizeof *first), *one = malloc(n * sizeof *one);
        double *plain = malloc(n * sizeof *plain);
        memcpy(first, net.params, n * sizeof *first);
        for (size_t e = 0; e < n; e++) plain[e] = first[e];
        plain_penalty(plain, &net, &p.bonds, 0.05);
        wisp_penalty_move(&p, &net, 0.05, NULL);
        memcpy(one, net.params, n * sizeof *one);
        memcpy(net.params, first, n * sizeof *first);
        wisp_penalty_move(&p, &net, 0.05, ctx.pool);
        CHECK(memcmp(one, net.params, n * sizeof *one) == 0, "'%s': other bytes", texts[t]);
        for (size_t e = 0; e < n; e++) {
            CHECK(fabs(plain[e] - one[e]) <= 1e-5 * fabs(first[e]) &&
                      (plain[e] == 0) == (one[e] == 0),
                  "'%s': %g is %g, expected %g", texts[t], first[e], one[e], plain[e]);
            zeros += first[e] != 0 && one[e] == 0;
            others += first[e] != one[e] && one[e] != 0;
        }
        CHECK(zeros > 0 && others > 0, "'%s': %zu zeros, %zu others", texts[t], zeros, others);
        for (size_t e = 0; e < w->n; e++)
            CHECK((w->m[e] == 0) == (w->w[e] == 0), "momentum %g of %g", w->m[e], w->w[e]);
        free(first), free(one), free(plain);
        wisp_penalty_clear(&p);
        wisp_net_clear(&net);
    }
    wisp_pool_free(ctx.pool);
}

static void check_preset(struct wisp_net *net, struct wisp_step step, const char *name)
{
    n_gone = 0;
    check_smaller(net, step, 2, name, false);
    printf("     %s: %zu bonds taken away\n", name, n_gone);
    CHECK(n_gone > 5, "%s: %zu bonds", name, n_gone);
}

int main(void)
{
    const struct wisp_kernels k = best_kernels();
    test_texts();
    test_classes();
    test_random(&k, false);
    test_random(&k, true);
    test_penalty(&k);
    test_wide(&k);
    test_cut(&k);
    TEST("bonds: presets say the same without what is 0");
    each_preset(&k, check_preset);
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}
