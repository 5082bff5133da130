/* Samples with output rows of their own, hogwild, and samplers of hidden layers.
 *
 * Per-example sets against finite differences (random own parts, both losses), against the batch's
 * set where every sample owns every row, and what the layer tells its sampler against plain code.
 * Hogwild runs with one thread only: with more it races, on purpose. */
#include "layer_differences.h"
#include "layer/example.h"
#include "model/optimizer.h"

static struct wisp_active own_part(const struct rig *r)
{
    return (struct wisp_active){
        .n = r->n_rows, .rows = r->rows, .shift = r->shift, .op = r->op, .own = r->own
    };
}

/* Equal but for rounding, relative to the largest. */
static double difference(const float *a, const float *b, size_t n)
{
    double most = 0, biggest = 1e-2; /* where p = t everywhere, rounding is all there is */
    for (size_t i = 0; i < n; i++) {
        if (isnan(a[i]) || isnan(b[i])) return INFINITY;
        most = fmax(most, fabs((double)a[i] - b[i]));
        biggest = fmax(biggest, fabs(b[i]));
    }
    return most / biggest;
}

/* ---- sets of samples ---- */

static void check_own(struct rig *r, struct rig *three, const struct wisp_loss *loss)
{
    double a = gradients(r, loss, own_part(r), true), b = gradients(three, loss, own_part(r), true);
    CHECK(a == b && memcmp(r->rec.g, three->rec.g, r->floats * 4) == 0,
          "%s '%s' %s: 3 threads differ from 1", r->ctx.k->name, r->spec, loss->name);
    check_hits(r);
    double ref = mean_loss(r);
    CHECK(fabs(a - ref) <= 3e-6 * (1 + ref), "%s '%s' %s: loss %.9g, expected %.9g", r->ctx.k->name,
          r->spec, loss->name, a, ref);
    for (size_t i = 0; i < r->net.list.n; i++) check_param(r, &r->net.list.p[i]);
}

/* Every sample owns the whole set: the same numbers as with one set for all. */
static void check_whole(struct rig *r, struct rig *batch, const struct wisp_loss *loss)
{
    size_t n = r->step.batch->n;
    uint32_t *op = calloc(n + 1, sizeof *op), *own = calloc(n * r->n_rows, sizeof *own);
    for (size_t e = 0; e < n * r->n_rows; e++) own[e] = (uint32_t)(e % r->n_rows);
    for (size_t i = 0; i <= n; i++) op[i] = (uint32_t)(i * r->n_rows);
    struct wisp_active one = { .n = r->n_rows, .rows = r->rows, .shift = r->shift }, each = one;
    each.op = op, each.own = own;
    double a = gradients(r, loss, each, true), b = gradients(batch, loss, one, true),
           off = difference(r->rec.g, batch->rec.g, r->floats);
    CHECK(fabs(a - b) <= 2e-6 * (1 + b) && off < 2e-5,
          "%s '%s' %s: loss %.9g, batch's %.9g; gradients differ by %g of the largest",
          r->ctx.k->name, r->spec, loss->name, a, b, off);
    CHECK(memcmp(r->rec.hits, batch->rec.hits, r->floats) == 0, "'%s': other rows moved", r->spec);
    free(op), free(own);
}

/* The recorder moves nothing, so hogwild's pieces of a row's gradient add up to the whole. */
static void check_hogwild(struct rig *r, const struct wisp_loss *loss)
{
    double a = gradients(r, loss, own_part(r), true);
    float *g = malloc(r->floats * sizeof *g);
    memcpy(g, r->rec.g, r->floats * sizeof *g);
    r->step.head.hogwild = true;
    double b = gradients(r, loss, own_part(r), true), off = difference(r->rec.g, g, r->floats);
    r->step.head.hogwild = false;
    CHECK(a == b && off < 2e-5, "%s '%s' %s: loss %.9g and %.9g, gradients differ by %g",
          r->ctx.k->name, r->spec, loss->name, a, b, off);
    const struct wisp_param *p = &wisp_net_output(&r->net)->params[1];
    for (size_t place = 0; place < r->n_rows; place++) {
        int want = 0, got = r->rec.hits[(size_t)(p->w - r->net.params) + (size_t)r->rows[place]];
        for (uint32_t e = 0; e < r->op[r->step.batch->n]; e++) want += r->own[e] == place;
        CHECK(got == want, "row %d moved %d times, %d samples own it", r->rows[place], got, want);
    }
    free(g);
}

static struct wisp_sampler *make_sampler(const char *names, size_t n_rows, size_t width,
                                         size_t batch)
{
    static int64_t label_rows[400];
    struct wisp_sampling o = { .keep = 3, .n_random = n_rows / 2 + 1, .least = 1, .rescore = true };
    struct wisp_finder_setup s = { .o = &o,
                                   .n_rows = n_rows,
                                   .width = width,
                                   .batch = batch,
                                   .n_samples = batch,
                                   .label_rows = label_rows,
                                   .seed = 5,
                                   .threads = 3 };
    static struct wisp_kernels k;
    struct wisp_sampler *out = NULL;
    snprintf(o.names, sizeof o.names, "%s", names);
    CHECK(wisp_kernels_select(&k, NULL, &err) == WISP_OK &&
              wisp_sampler_create(&out, &s, &k, batch * 12, &err) == WISP_OK,
          "%s", err.text);
    return out;
}

static double logit(const struct rig *r, size_t i, size_t place)
{
    const struct wisp_layer *l = wisp_net_output(&r->net);
    const float *h = wisp_net_last(&r->net)->x + i * l->n_in;
    size_t row = (size_t)r->rows[place];
    double z = l->params[1].w[row];
    for (size_t k = 0; k < l->n_in; k++) z += (double)l->params[0].w[row * l->n_in + k] * h[k];
    return z;
}

/* What the sampler is told: the best of a sample's own rows, without shifts, and how hot each is.
 */
static void check_outcome(struct rig *r, const struct wisp_loss *loss, bool hogwild)
{
    gradients(r, loss, own_part(r), true);
    struct wisp_layer *l = wisp_net_output(&r->net);
    struct wisp_act *in = wisp_net_last(&r->net);
    struct wisp_outcome o;
    size_t n = r->step.batch->n;
    l->sampler = make_sampler("neighbours", l->n_out, l->n_in, n);
    r->step.head.hogwild = hogwild;
    wisp_example_forward(l, &r->step, in);
    wisp_example_backward(&o, l, &r->step, in);
    r->step.head.hogwild = false;
    CHECK(o.active == &r->step.head.active && o.k > 1 && o.k == wisp_sampler_best(l->sampler),
          "k %zu", o.k);
    for (size_t i = 0; i < n; i++) {
        size_t m = r->op[i + 1] - r->op[i];
        for (size_t c = 0; c < o.k; c++) {
            int32_t id = o.best[i * o.k + c];
            CHECK((id >= 0) == (c < m), "place %zu of %zu own rows: %d", c, m, id);
            if (id < 0) continue;
            size_t better = 0, mine = 0;
            double z = logit(r, i, wisp_active_place(&r->step.head.active, id));
            for (uint32_t e = r->op[i]; e < r->op[i + 1]; e++) {
                better += logit(r, i, r->own[e]) > z + 1e-5;
                mine += r->rows[r->own[e]] == id;
            }
            CHECK(mine == 1 && better <= c, "row %d at place %zu has %zu better ones", id, c,
                  better);
        }
    }
    const float *gb = r->rec.g + (l->params[1].w - r->net.params); /* of two passes */
    double most = 0, biggest = 1e-2; /* where p = t everywhere, rounding is all there is */
    for (size_t p = 0; p < r->n_rows; p++) {
        most = fmax(most, fabs(2.0 * o.heat[p] - gb[r->rows[p]]));
        biggest = fmax(biggest, fabs(gb[r->rows[p]]));
    }
    CHECK(most <= 1e-5 * biggest, "heat is off by %g of %g", most, biggest);
    wisp_sampler_free(l->sampler);
    l->sampler = NULL;
}

static void check_net(const struct wisp_kernels *k, uint64_t start, int hidden)
{
    struct rig r, three, batch;
    if (!rig_init(&r, k, 1, start, hidden, true) || !rig_init(&three, k, 3, start, hidden, true) ||
        !rig_init(&batch, k, 1, start, hidden, false))
        return;
    for (size_t l = 0; wisp_loss_at(l); l++) {
        check_own(&r, &three, wisp_loss_at(l));
        check_whole(&r, &batch, wisp_loss_at(l));
        check_hogwild(&r, wisp_loss_at(l));
        check_outcome(&r, wisp_loss_at(l), l % 2);
        check_outcome(&r, wisp_loss_at(l), !(l % 2));
    }
    rig_clear(&r), rig_clear(&three), rig_clear(&batch);
}

/* ---- sampled layers ---- */

static struct wisp_layer *first_sampled(struct rig *r)
{
    for (int i = 0; i < r->net.n_layers; i++)
        if (r->net.layers[i].kind == &wisp_layer_sampled) return &r->net.layers[i];
    return NULL;
}

/* A net with a sampled layer: seeds are tried until there is one. */
static bool wide_rig(struct rig *r, const struct wisp_kernels *k, int threads, uint64_t start)
{
    for (uint64_t t = 0; t < 50; t++) {
        if (!rig_init(r, k, threads, start + 7919 * t, 3, false)) return false;
        if (first_sampled(r) && first_sampled(r)->n_out > 20) return true;
        rig_clear(r);
    }
    CHECK(false, "no net with a sampled layer");
    return false;
}

/* A backward pass changes what the layer's sampler would write into a checkpoint. */
static void check_learns(struct rig *r, struct wisp_layer *l)
{
    struct wisp_act *in = &r->net.acts[l->from[0]], *out = &r->net.acts[l->number + 1];
    struct wisp_blob blobs[WISP_SAMPLER_BLOBS];
    char *was[WISP_SAMPLER_BLOBS];
    bool same = true;
    l->sampler = make_sampler("ivf", l->n_out, l->n_in, r->step.batch->n);
    gradients(r, wisp_loss_at(0), (struct wisp_active){ .n = r->n_labels }, true);
    l->kind->forward(l, &r->step, (const struct wisp_act *const *)&in, out, NULL);
    size_t n = wisp_sampler_blobs(l->sampler, blobs);
    for (size_t i = 0; i < n; i++)
        memcpy(was[i] = malloc(blobs[i].bytes), blobs[i].data, blobs[i].bytes);
    l->kind->backward(l, &r->step, &in, out, NULL);
    for (size_t i = 0; i < n; i++) {
        same &= memcmp(was[i], blobs[i].data, blobs[i].bytes) == 0;
        free(was[i]);
    }
    CHECK(!same, "'%s': the sampler learnt nothing", r->spec);
    wisp_sampler_free(l->sampler);
    l->sampler = NULL;
}

static void test_hidden(const struct wisp_kernels *k, uint64_t start)
{
    struct rig r, three;
    if (!wide_rig(&r, k, 1, start) || !wide_rig(&three, k, 3, start)) return;
    const struct wisp_loss *loss = wisp_loss_at(0);
    struct wisp_layer *l = first_sampled(&r), *l3 = first_sampled(&three);
    struct wisp_active all = { .n = r.n_labels };
    const struct wisp_act *in = &r.net.acts[l->from[0]], *out = &r.net.acts[l->number + 1];
    size_t floats = r.step.batch->n * l->n_out;
    float *x = malloc(floats * sizeof *x);

    gradients(&r, loss, all, false);
    memcpy(x, out->x, floats * sizeof *x);
    gradients(&r, loss, all, true);
    CHECK(memcmp(x, out->x, floats * sizeof *x) != 0, "'%s': a subset changes nothing", r.spec);
    r.step.training = false;
    l->kind->forward(l, &r.step, &in, (struct wisp_act *)out, NULL);
    r.step.training = true;
    CHECK(memcmp(x, out->x, floats * sizeof *x) == 0,
          "'%s': outside training not all units were computed", r.spec);

    l->sampler = make_sampler("random", l->n_out, l->n_in, r.step.batch->n);
    l3->sampler = make_sampler("random", l->n_out, l->n_in, r.step.batch->n);
    double a = gradients(&r, loss, all, true), b = gradients(&three, loss, all, true);
    const struct wisp_active *set = wisp_sampled_active(l);
    CHECK(set->n > 0 && set->n < l->n_out && a == b &&
              memcmp(r.rec.g, three.rec.g, r.floats * 4) == 0,
          "'%s': %zu of %zu rows, 3 threads differ from 1", r.spec, set->n, l->n_out);
    check_hits(&r);
    double ref = mean_loss(&r);
    CHECK(fabs(a - ref) <= 3e-6 * (1 + ref), "'%s': loss %.9g, expected %.9g", r.spec, a, ref);
    for (int p = 0; p < l->n_params; p++) check_param(&r, &l->params[p]);
    CHECK(wisp_sampler_counts(l->sampler)->active == set->n, "the sampler counts other rows");
    wisp_sampler_free(l->sampler), wisp_sampler_free(l3->sampler);
    check_learns(&r, l);
    free(x);
    rig_clear(&r), rig_clear(&three);
}

/* ---- hogwild learns ---- */

/* Steps with real updates on one batch; the loss of each into 'loss', the weights stay in the net.
 */
static void steps(struct rig *r, const char *optimizer, float lr, double *loss, int n)
{
    struct wisp_optimizer o;
    const struct wisp_optimizer_kind *kind = wisp_optimizer_find(optimizer);
    CHECK(wisp_net_alloc_state(&r->net, kind->slots, &err) == WISP_OK &&
              wisp_optimizer_init(&o, kind, r->ctx.k, 0.5, &err) == WISP_OK,
          "%s", err.text);
    o.lr = lr;
    r->step.update = &o.update;
    r->step.head.hogwild = true;
    for (int i = 0; i < n; i++) loss[i] = gradients(r, wisp_loss_at(0), own_part(r), true);
    wisp_optimizer_clear(&o);
}

static void test_hogwild(const struct wisp_kernels *k)
{
    static const char *const optimizers[] = { "adam", "adagrad", "sgd" };
    static const float lr[] = { 0.003f, 0.02f, 0.3f };
    enum { STEPS = 40 };
    rig_spec = "input 24, relu, dropout 0.3";
    for (int o = 0; o < 3; o++) {
        struct rig a, b;
        double loss[2][STEPS];
        if (!rig_init(&a, k, 1, 4243, 1, true) || !rig_init(&b, k, 1, 4243, 1, true)) return;
        steps(&a, optimizers[o], lr[o], loss[0], STEPS);
        steps(&b, optimizers[o], lr[o], loss[1], STEPS);
        CHECK(memcmp(loss[0], loss[1], sizeof loss[0]) == 0 &&
                  memcmp(a.net.params, b.net.params, a.floats * sizeof(float)) == 0,
              "%s: one thread twice differs", optimizers[o]);
        CHECK(loss[0][STEPS - 1] < 0.6 * loss[0][0], "%s: loss %g -> %g", optimizers[o], loss[0][0],
              loss[0][STEPS - 1]);
        rig_clear(&a), rig_clear(&b);
    }
    rig_spec = NULL;
}

int main(void)
{
    rig_keep = true;
    enum { NETS = 6 };
    for (size_t i = 0; wisp_kernels_isa(i, NULL); i++) {
        struct wisp_kernels k = { 0 };
        char name[80];
        const char *isa = wisp_kernels_isa(i, NULL);
        bool there = wisp_kernels_select(&k, isa, &err) == WISP_OK;
        snprintf(name, sizeof name, "sets: %s, rows of each sample's own", isa);
        TEST(name);
        if (!there) SKIP("not on this machine");
        for (uint64_t n = 0; there && n < NETS; n++) {
            int was = test_bad;
            uint64_t start = 1000033 * (n + 1) + 77 * i;
            check_net(&k, start, 1 + (int)(n % 3));
            if (test_bad > was) printf("  the seed was %llu\n", (unsigned long long)start);
        }
        CHECK(n_kinks * 50 <= n_checks, "%d kinks in %d places", n_kinks, n_checks);
        test_close();
        snprintf(name, sizeof name, "sets: %s, hidden layers", isa);
        TEST(name);
        for (uint64_t n = 0; there && n < NETS; n++) test_hidden(&k, 99991 * (n + 1) + i);
        if (!there) SKIP("not on this machine");
        test_close(); /* before 'name' goes */
    }
    TEST("sets: hogwild with one thread repeats itself and learns");
    struct wisp_kernels k;
    CHECK(wisp_kernels_select(&k, NULL, &err) == WISP_OK, "%s", err.text);
    test_hogwild(&k);
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}
