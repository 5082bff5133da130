/* Steps that do with less memory: the choice of what is made again, and nets that end in the same
 * bytes with it as without; where the first layers do a lot of samples at a time, up to rounding. */
#include "layer_rig.h"
#include "graph/spill.h"
#include "model/nets.h"
#include "model/optimizer.h"

#include <limits.h>

/* ---- the choice ---- */

enum { MOST = 40, MOMENTS = 2 * MOST + 1 };

struct problem {
    struct wisp_spill s;
    struct wisp_spill_value values[MOST];
    struct wisp_spill_read reads[3 * MOST];
    size_t other[MOMENTS];
};

/* n values, each of one layer, which reads up to three that came before; of most the way back looks
 * at what was read, or given. */
static void random_problem(struct problem *p, int n)
{
    *p = (struct problem){ 0 };
    p->s = (struct wisp_spill){ .n = (size_t)n,
                                .values = p->values,
                                .reads = p->reads,
                                .n_moments = 2 * n + 1,
                                .other = p->other };
    for (int i = 0; i < n; i++) {
        struct wisp_spill_value *v = &p->values[i];
        *v = (struct wisp_spill_value){ .bytes = 64 * (1 + below(50)),
                                        .first = i,
                                        .front = i,
                                        .back = -1,
                                        .last = -1,
                                        .us = below(12) ? (double)below(100) : -1,
                                        .room = 64 * below(3) };
        if (below(3) == 0) v->back = v->last = 2 * n - i; /* its maker */
        for (size_t k = 0, m = i ? 1 + below(3) : 0; k < m; k++) {
            const int from = i - 1 - (int)below(k || i == 1 ? (size_t)i : i < 4 ? 1 : 2);
            struct wisp_spill_value *u = &p->values[from];
            p->reads[p->s.n_reads++] = (struct wisp_spill_read){ i, from };
            if (i > u->front) u->front = i;
            if (below(4) == 0) continue;
            const int back = 2 * n - i;
            if (u->back < 0 || back < u->back) u->back = back;
            if (back > u->last) u->last = back;
        }
    }
    for (int t = 0; t < p->s.n_moments; t++) p->other[t] = 64 * below(40);
}

/* The most at one moment, by the words of the header. */
static size_t naive_peak(const struct problem *p)
{
    size_t peak = 0;
    for (int t = 0; t < p->s.n_moments; t++) {
        size_t sum = p->other[t];
        for (size_t i = 0; i < p->s.n; i++) {
            const struct wisp_spill_value *v = &p->values[i];
            const bool early = v->first <= t && t <= (v->again < 0 ? v->until : v->front),
                       late = v->again >= 0 && v->again <= t && t <= v->until;
            sum += (early || late ? v->bytes : 0) + (v->again == t ? v->room : 0);
        }
        if (sum > peak) peak = sum;
    }
    return peak;
}

static void check_choice(const struct problem *p, const char *what)
{
    double us = 0;
    for (size_t i = 0; i < p->s.n; i++) {
        const struct wisp_spill_value *v = &p->values[i];
        us += v->again >= 0 ? v->us : 0;
        CHECK(v->until >= v->front && v->until >= v->last, "%s: value %zu goes too early", what, i);
        CHECK(v->again < 0 || (v->us >= 0 && v->again > v->front && v->again <= v->until &&
                               (v->back < 0 || v->again <= v->back)),
              "%s: value %zu is made again at %d", what, i, v->again);
    }
    for (size_t r = 0; r < p->s.n_reads; r++) {
        const struct wisp_spill_value *v = &p->values[p->reads[r].value],
                                      *u = &p->values[p->reads[r].reads];
        CHECK(v->again < 0 || (u->until >= v->again && u->again <= v->again),
              "%s: value %d is made again without value %d", what, p->reads[r].value,
              p->reads[r].reads);
    }
    CHECK(p->s.bytes == naive_peak(p) && fabs(p->s.us - us) < 1e-6 * (1 + us),
          "%s: %zu bytes, %g us; expected %zu and %g", what, p->s.bytes, p->s.us, naive_peak(p),
          us);
}

/* The least peak over all sets. */
static size_t naive_least(struct problem *p)
{
    size_t least = SIZE_MAX;
    for (unsigned set = 0; set < 1u << p->s.n; set++) {
        bool ok = true;
        for (size_t i = 0; i < p->s.n; i++) {
            struct wisp_spill_value *v = &p->values[i];
            ok &= !(set >> i & 1) || (v->us >= 0 && v->back >= 0);
            v->again = set >> i & 1 ? v->back : -1;
            v->until = v->last > v->front ? v->last : v->front;
        }
        for (size_t r = p->s.n_reads; ok && r-- > 0;) { /* their values descend */
            const struct wisp_spill_value *v = &p->values[p->reads[r].value];
            struct wisp_spill_value *u = &p->values[p->reads[r].reads];
            if (v->again < 0) continue;
            if (v->again > u->until) u->until = v->again;
            const bool passing = u->back < 0 && u->us >= 0;
            if (u->again >= 0 || passing)
                u->again = u->again < 0 || v->again < u->again ? v->again : u->again;
        }
        const size_t peak = ok ? naive_peak(p) : SIZE_MAX;
        if (peak < least) least = peak;
    }
    return least;
}

static void test_choice(void)
{
    double worst = 1;
    int met = 0;
    TEST("spill: random values: lifetimes, bytes and limits");
    for (uint64_t round = 0; round < 300; round++) {
        struct problem p;
        char what[60];
        seed = 77 * round + 5;
        random_problem(&p, 1 + (int)below(round % 2 ? MOST : 9));
        CHECK(wisp_spill_choose(&p.s, SIZE_MAX, &err) == WISP_OK, "%s", err.text);
        const size_t whole = p.s.bytes;
        CHECK(p.s.us == 0, "round %zu: %g us without a limit", (size_t)round, p.s.us);
        CHECK(wisp_spill_choose(&p.s, 0, &err) == WISP_OK, "%s", err.text);
        const size_t least = p.s.bytes;
        check_choice(&p, "the least");
        CHECK(least <= whole, "%zu of %zu", least, whole);
        double before = -1;
        for (size_t share = 0; share <= 4; share++) {
            const size_t limit = whole - (whole - least) * share / 4;
            snprintf(what, sizeof what, "round %zu, limit %zu", (size_t)round, limit);
            CHECK(wisp_spill_choose(&p.s, limit, &err) == WISP_OK, "%s", err.text);
            check_choice(&p, what);
            met += p.s.bytes <= limit;
            CHECK(p.s.us >= 0 && (share > 1 || p.s.us >= before), "%s: cheaper than %g", what,
                  before);
            before = p.s.us;
        }
        if (p.s.n > 9) continue;
        const size_t best = naive_least(&p);
        CHECK(least >= best, "round %zu: %zu, but %zu is the least", (size_t)round, least, best);
        if ((double)least / (double)best > worst) worst = (double)least / (double)best;
    }
    CHECK(met >= 1400, "only %d of 1500 limits were kept to", met);
    CHECK(worst <= 1.2, "%.3f times the least of all sets", worst);
    printf("     %d of 1500 limits kept to; at most %.3f times the least of all sets\n", met,
           worst);
}

/* A chain of equal layers needs about 2 roots of its length. */
static void test_chain(void)
{
    enum { LONG = 400 };
    static struct wisp_spill_value values[LONG];
    static struct wisp_spill_read reads[LONG];
    static size_t other[2 * LONG + 1];
    struct wisp_spill s = { LONG, LONG - 1, values, reads, 2 * LONG + 1, other, 0, 0 };
    TEST("spill: a long chain");
    for (int i = 0; i < LONG; i++) {
        values[i] = (struct wisp_spill_value){ .bytes = 64,
                                               .first = i,
                                               .front = i + 1,
                                               .back = 2 * LONG - i - 1,
                                               .last = 2 * LONG - i - 1,
                                               .us = 1 };
        if (i) reads[i - 1] = (struct wisp_spill_read){ i, i - 1 };
    }
    CHECK(wisp_spill_choose(&s, 0, &err) == WISP_OK, "%s", err.text);
    printf("     %zu of %d values at once, %.0f made again\n", s.bytes / 64, LONG, s.us);
    CHECK(s.bytes <= 48 * 64 && s.us < LONG, "%zu values at once, %g made again", s.bytes / 64,
          s.us);
    CHECK(wisp_spill_choose(&s, LONG * 48, &err) == WISP_OK, "%s", err.text);
    CHECK(s.bytes <= LONG * 48 && s.us <= 0.3 * LONG, "3 quarters: %zu values, %g made again",
          s.bytes / 64, s.us);
}

static void test_memory(void)
{
    struct problem p;
    TEST("spill: failing allocations");
    seed = 3;
    random_problem(&p, 20);
    for (long budget = 0; budget < 8; budget++) {
        wisp_mem_budget = budget;
        CHECK(wisp_spill_choose(&p.s, 1, &err) == WISP_ENOMEM, "%ld blocks", budget);
        wisp_mem_budget = -1;
    }
}

/* ---- nets ---- */

struct steps { /* a net that learns from the rig's batch */
    struct wisp_net net;
    struct wisp_optimizer opt;
    struct wisp_step step;
};

static bool steps_make(struct steps *t, const char *spec, size_t n_features, size_t n_labels,
                       const struct wisp_layer_sizes *sizes, struct wisp_step step, int threads)
{
    *t = (struct steps){ 0 };
    bool ok = wisp_net_plan(&t->net, spec, n_features, n_labels, sizes, &err) == WISP_OK &&
              wisp_net_alloc_params(&t->net, &err) == WISP_OK &&
              wisp_optimizer_init(&t->opt, wisp_optimizer_find("sgd"), sizes->ctx->k, 0.9, &err) ==
                  WISP_OK &&
              wisp_net_alloc_state(&t->net, t->opt.kind->slots, &err) == WISP_OK &&
              wisp_work_alloc(&t->net, threads, &err) == WISP_OK;
    CHECK(ok, "'%s': %s", spec, err.text);
    if (!ok) return false;
    wisp_net_init(&t->net, 7, NULL);
    t->opt.lr = 0.01f;
    t->step = step;
    t->step.head.loss = wisp_loss_find("softmax");
    t->step.head.active = (struct wisp_active){ .n = n_labels };
    t->step.update = &t->opt.update;
    return true;
}

static void steps_run(struct steps *t, int n)
{
    for (int i = 0; i < n; i++) {
        t->step.number = t->opt.step = (uint64_t)i;
        CHECK(wisp_net_step(&t->net, &t->step, &err) == WISP_OK, "%s", err.text);
    }
}

static void steps_clear(struct steps *t)
{
    wisp_optimizer_clear(&t->opt);
    wisp_net_clear(&t->net);
}

static int n_nets, n_again, n_refused, n_lots;

/* Parameters as without lots, up to the rounding of sums over samples: each by how far it has moved. */
static void check_near(const struct steps *t, const struct steps *whole, const char *spec)
{
    struct wisp_net first = { 0 };
    bool ok = wisp_net_plan(&first, spec, whole->net.n_features, whole->net.n_labels,
                            &whole->net.sizes, &err) == WISP_OK &&
              wisp_net_alloc_params(&first, &err) == WISP_OK;
    CHECK(ok, "'%s': %s", spec, err.text);
    if (ok) wisp_net_init(&first, 7, NULL);
    for (size_t i = 0; i < first.list.n && ok; i++) {
        const struct wisp_param *p = &t->net.list.p[i], *q = &whole->net.list.p[i];
        double off = 0, moved = 0;
        if (p->role != WISP_TRAINED || !p->w) continue;
        for (size_t k = 0; k < wisp_param_n(p); k++) {
            const double was = (double)first.list.p[i].w[k];
            off += pow((double)p->w[k] - (double)q->w[k], 2);
            moved += pow((double)q->w[k] - was, 2);
        }
        CHECK(sqrt(off) <= 1e-3 * sqrt(moved) + 1e-6,
              "'%s': %s: %g of its way off with %d layers in lots of %zu", spec, p->name,
              sqrt(off / moved), t->net.work.lots.first, t->net.work.lots.samples);
    }
    n_lots++;
    wisp_net_clear(&first);
}

/* Limits from all of what a step needs down to nearly nothing, where the least is taken. */
static void check_limits(const char *spec, size_t n_features, size_t n_labels,
                         struct wisp_layer_sizes sizes, struct wisp_step step, int n_limits,
                         int n_steps)
{
    enum { THREADS = 2 };
    struct steps whole, t;
    size_t least = 0;
    sizes.memory = 0;
    if (!steps_make(&whole, spec, n_features, n_labels, &sizes, step, THREADS)) return;
    steps_run(&whole, n_steps);
    const size_t all = whole.net.work.bytes, floats = wisp_net_param_floats(&whole.net);
    CHECK(all == whole.net.work.whole && whole.net.work.n_again == 0, "'%s'", spec);
    for (int share = 100; share >= 0; share -= 100 / n_limits) {
        sizes.memory = share ? all * (size_t)share / 100 : 1;
        if (!steps_make(&t, spec, n_features, n_labels, &sizes, step, THREADS)) break;
        const struct wisp_work *w = &t.net.work;
        steps_run(&t, n_steps);
        if (w->lots.first) check_near(&t, &whole, spec);
        CHECK(w->lots.first || memcmp(t.net.params, whole.net.params, floats * 4) == 0,
              "'%s' within %zu of %zu bytes: other weights", spec, sizes.memory, all);
        CHECK(w->whole == all && w->bytes <= all + all / 50 && w->bound <= w->bytes,
              "'%s': %zu bytes, %zu without a limit", spec, w->bytes, all);
        CHECK((w->n_again > 0) == (w->again_bytes > 0) && (share < 100 || w->n_again == 0),
              "'%s': %d layers again within all", spec, w->n_again);
        n_refused += w->bytes > sizes.memory;
        n_again += w->n_again;
        least = w->bytes; /* of the last one */
        const char *broken = wisp_borders_broken();
        CHECK(!broken, "'%s': %s", spec, broken);
        steps_clear(&t);
    }
    sizes.memory = least;
    if (steps_make(&t, spec, n_features, n_labels, &sizes, step, THREADS)) {
        CHECK(t.net.work.bytes <= least, "'%s': %zu are the least, but not within them", spec,
              least);
        steps_clear(&t);
    }
    n_nets++;
    steps_clear(&whole);
}

static void test_nets(const struct wisp_kernels *k)
{
    char name[100];
    snprintf(name, sizeof name, "spill: %s: random nets end in the same bytes", k->name);
    TEST(name);
    n_nets = n_again = n_refused = 0;
    for (uint64_t i = 0; i < 60; i++) {
        struct rig r;
        rig_planes = i % 3 != 0;
        rig_more_zeros = i % 2 ? 0.5f : 0; /* which looks at results on the way back */
        if (!rig_init(&r, k, 2, 4000037 * (i + 1), 3, false)) break;
        /* connections of files are gone by now */
        if (!strstr(r.spec, "mask="))
            check_limits(r.spec, r.n_features, r.n_labels, r.net.sizes, r.step, 4, 2);
        rig_clear(&r);
    }
    rig_planes = false;
    rig_more_zeros = 0;
    printf("     %d nets, %d layers run again, %d limits could not be kept to\n", n_nets, n_again,
           n_refused);
    CHECK(n_nets > 40 && n_again > 200, "%d nets, %d layers again", n_nets, n_again);
    test_close();
}

/* ---- nets of images ---- */

enum { BATCH = 6, LABELS = 7 };

struct pictures { /* random ones, as a batch */
    struct wisp_context ctx;
    struct wisp_layout layout;
    struct wisp_data *data;
    float *planes;
    struct wisp_layer_sizes sizes;
    struct wisp_step step;
};

static void pictures_make(struct pictures *p, const struct wisp_kernels *k, size_t channels,
                          size_t side)
{
    const size_t pixels = channels * side * side;
    struct wisp_values raw = { .mode = WISP_VALUES_RAW };
    struct wisp_drop none = { 0 };
    const size_t ids[BATCH] = { 0, 1, 2, 3, 4, 5 };
    *p = (struct pictures){ .ctx.k = k };
    seed = 5;
    p->data = random_data(BATCH, pixels, LABELS);
    CHECK(wisp_pool_create(&p->ctx.pool, 2, &err) == WISP_OK &&
              wisp_layout_init(&p->layout, pixels, LABELS, true, &err) == WISP_OK &&
              wisp_layout_fill(&p->layout, p->data, ids, BATCH, &raw, &none, &err) == WISP_OK,
          "%s", err.text);
    p->planes = malloc(BATCH * pixels * sizeof *p->planes);
    for (size_t e = 0; e < BATCH * pixels; e++) p->planes[e] = (float)below(1000) / 500 - 1;
    p->layout.batch.planes = p->planes;
    p->sizes = (struct wisp_layer_sizes){ .batch = BATCH,
                                          .active = LABELS,
                                          .training = true,
                                          .image = { 3, { channels, side, side } },
                                          .ctx = &p->ctx };
    p->step = (struct wisp_step){
        .ctx = &p->ctx, .batch = &p->layout.batch, .training = true, .seed = 1
    };
}

static void pictures_clear(struct pictures *p)
{
    p->layout.batch.planes = NULL;
    free(p->planes);
    wisp_layout_clear(&p->layout);
    wisp_data_free(p->data);
    wisp_pool_free(p->ctx.pool);
}

static void test_presets(const struct wisp_kernels *k)
{
    static const struct {
        const char *name;
        size_t side, channels; /* to run, and */
        size_t full, batch;    /* to plan with */
        double least;          /* of all that a step needs then */
    } nets[] = { { "lenet", 28, 1, 28, 512, 0.1 },
                 { "alexnet", 64, 3, 224, 512, 0.1 },
                 { "vgg16", 32, 3, 224, 64, 0.1 },
                 { "resnet18", 32, 3, 224, 128, 0.4 },
                 { "resnet18-cifar", 16, 3, 32, 256, 0.45 } };
    TEST("spill: presets end in the same bytes");
    wisp_borders = false;
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        const size_t pixels = nets[i].channels * nets[i].side * nets[i].side;
        struct wisp_net_text text;
        struct pictures p;
        CHECK(wisp_net_text_read(&text, nets[i].name, &err) == WISP_OK, "%s", err.text);
        pictures_make(&p, k, nets[i].channels, nets[i].side);
        check_limits(text.line, pixels, LABELS, p.sizes, p.step, 2, 1);
        struct wisp_layer_sizes little = p.sizes;
        struct wisp_net net;
        little.memory = 1, little.batch = nets[i].batch;
        little.image.dim[1] = little.image.dim[2] = nets[i].full;
        const size_t all = nets[i].channels * nets[i].full * nets[i].full;
        CHECK(wisp_net_plan(&net, text.line, all, LABELS, &little, &err) == WISP_OK &&
                  wisp_work_plan(&net, 2, &err) == WISP_OK,
              "%s", err.text);
        printf("     %-15s %7.1f MiB, at least %7.1f with %.3g of %.3g GFLOP per image again\n",
               nets[i].name, (double)net.work.whole / (1 << 20), (double)net.work.bytes / (1 << 20),
               net.work.again_flops / 1e9, wisp_net_flops(&net, true) / 1e9);
        CHECK((double)net.work.bytes <= 1.05 * (double)net.work.bound, "%s: %zu bytes, bound %zu",
              nets[i].name, net.work.bytes, net.work.bound);
        net.sizes.memory = 0;
        const size_t at_least = net.work.bytes;
        CHECK(wisp_work_plan(&net, 2, &err) == WISP_OK &&
                  (double)net.work.bytes <= 1.05 * (double)net.work.bound,
              "%s: %zu bytes, bound %zu", nets[i].name, net.work.bytes, net.work.bound);
        CHECK((double)at_least <= nets[i].least * (double)net.work.whole,
              "%s: %zu of %zu bytes at least", nets[i].name, at_least, net.work.whole);
        wisp_net_clear(&net);
        wisp_net_text_clear(&text);
        pictures_clear(&p);
    }
    wisp_borders = true;
}

/* With borders, all kinds that can be in lots, whatever else they stand beside; short batches. */
static void test_lots(const struct wisp_kernels *k)
{
    enum { SIDE = 12 };
    static const char *const nets[] = {
        "image, conv 6 3, relu, maxpool 2, conv 7 3, relu, maxpool 2, flatten, dense 12, relu",
        "image, conv 20 3 as a, relu, conv 5 1 as b, concat a b, relu, avgpool 2, conv 8 3 "
        "groups=1, "
        "bn, relu, conv 4 3, relu, flatten, dense 9",
        "image, conv 18 5 stride=2 as a, clip 0.4, conv 18 3, identity, add a, relu, dropout 0.3, "
        "conv 6 3, globalavg",
        "image, maxpool 2 as a, conv 16 3 bias=no as b, conv 16 3, add b, relu, globalavg",
        "image, conv 4 3, relu, conv 4 3, bn, relu, globalavg, dense 8, relu, dropout 0.5"
    };
    TEST("spill: first layers in lots");
    n_lots = 0;
    for (size_t i = 0; i < 2 * sizeof nets / sizeof *nets; i++) {
        struct pictures p;
        pictures_make(&p, k, 2, SIDE);
        if (i % 2) p.layout.batch.n = BATCH - 1, p.sizes.more_zeros = 0.3f;
        check_limits(nets[i / 2], 2 * SIDE * SIDE, LABELS, p.sizes, p.step, 10, 3);
        pictures_clear(&p);
    }
    printf("     %d limits kept to by lots\n", n_lots);
    CHECK(n_lots > 20, "%d", n_lots);
}

int main(void)
{
    test_choice();
    test_chain();
    test_memory();
    struct wisp_kernels k = { 0 };
    for (size_t i = 0; wisp_kernels_isa(i, NULL); i++) { /* the last that this machine has */
        struct wisp_kernels more = { 0 };
        if (wisp_kernels_select(&more, wisp_kernels_isa(i, NULL), &err) == WISP_OK) k = more;
    }
    test_nets(&k);
    test_lots(&k);
    test_presets(&k);
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}
