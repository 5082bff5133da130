/* Rooms filled to their last place: the active set without a ceiling, and a step over it.
 *
 * Sample i has the hidden vector e_i (feature i alone, and the input layer is the identity); row r
 * of the output is e_(r mod BATCH), longer the higher r is.  So the best rows of a sample are no
 * other sample's, its labels are its worst rows, and a batch needs all the room there is. */
#include "base/mem.h"
#include "layer/product.h"
#include "model/batch.h"
#include "model/net.h"
#include "model/optimizer.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { BATCH = 32, KEEP = 20, EACH = 3, ROWS = 2048, LABELS = BATCH * EACH };

static wisp_error err;
static struct wisp_kernels kernels;
static struct wisp_context ctx;

struct rig {
    struct wisp_sampling o;
    struct wisp_finder_setup setup;
    struct wisp_sampler *s;
    struct wisp_net net;
    struct wisp_optimizer opt;
    struct wisp_layout layout;
    struct wisp_data *data;
    struct wisp_step step;
};

static void make_data(struct rig *r)
{
    int64_t xp[BATCH + 1], yp[BATCH + 1];
    int32_t xi[BATCH], yi[LABELS];
    float xv[BATCH];
    for (int i = 0; i <= BATCH; i++) xp[i] = i, yp[i] = (int64_t)i * EACH;
    for (int i = 0; i < BATCH; i++) {
        xi[i] = i, xv[i] = 1;
        for (int y = 0; y < EACH; y++) yi[i * EACH + y] = i + y * BATCH;
    }
    CHECK(wisp_data_from_csr(&r->data, BATCH, BATCH, ROWS, xp, xi, xv, yp, yi, &err) == WISP_OK,
          "%s", err.text);
}

static void set_weights(struct wisp_net *net)
{
    struct wisp_param *in = &net->layers[0].params[0], *out = &wisp_net_output(net)->params[0];
    for (size_t i = 0; i < BATCH * BATCH; i++) in->w[i] = i % (BATCH + 1) == 0;
    for (size_t i = 0; i < ROWS * BATCH; i++) {
        size_t r = i / BATCH;
        out->w[i] = i % BATCH == r % BATCH ? 1 + (float)r / ROWS : 0;
    }
}

static void rig_make(struct rig *r, const char *names, bool per_example,
                     const struct wisp_precision *precision)
{
    *r = (struct rig){ .o = { .keep = KEEP, .rescore = true, .per_example = per_example } };
    snprintf(r->o.names, sizeof r->o.names, "%s", names);
    r->setup = (struct wisp_finder_setup){ .o = &r->o,
                                           .n_rows = ROWS,
                                           .width = BATCH,
                                           .batch = BATCH,
                                           .n_samples = BATCH,
                                           .seed = 3,
                                           .threads = 2 };
    struct wisp_layer_sizes sizes = { .batch = BATCH,
                                      .active = wisp_sampler_room(&r->setup, LABELS),
                                      .training = true,
                                      .precision = precision,
                                      .best = wisp_sampler_wants(&r->setup).best,
                                      .own = wisp_sampler_own_room(&r->setup, LABELS) };
    make_data(r);
    bool ok =
        wisp_net_plan(&r->net, "input 32, relu", BATCH, ROWS, &sizes, &err) == WISP_OK &&
        wisp_net_alloc_params(&r->net, &err) == WISP_OK &&
        wisp_optimizer_init(&r->opt, wisp_optimizer_find("adam"), &kernels, 0.9, &err) == WISP_OK &&
        wisp_net_alloc_state(&r->net, r->opt.kind->slots, &err) == WISP_OK &&
        wisp_work_alloc(&r->net, 2, &err) == WISP_OK &&
        wisp_layout_init(&r->layout, BATCH, ROWS, true, &err) == WISP_OK &&
        wisp_sampler_create(&r->s, &r->setup, &kernels, LABELS, &err) == WISP_OK;
    CHECK(ok, "%s", err.text);
    if (!ok) abort();
    wisp_net_output(&r->net)->sampler = r->s;
    set_weights(&r->net);
    r->opt.lr = 1e-6f; /* the weights stay what they are, but for their last bits */
}

static void rig_clear(struct rig *r)
{
    wisp_sampler_free(r->s);
    wisp_layout_clear(&r->layout);
    wisp_optimizer_clear(&r->opt);
    wisp_net_clear(&r->net);
    wisp_data_free(r->data);
}

static void rig_step(struct rig *r, uint64_t number)
{
    struct wisp_values unit = { .mode = WISP_VALUES_UNIT };
    struct wisp_drop none = { 0 };
    size_t rows[BATCH];
    for (size_t i = 0; i < BATCH; i++) rows[i] = i;
    CHECK(wisp_layout_fill(&r->layout, r->data, rows, BATCH, &unit, &none, &err) == WISP_OK, "%s",
          err.text);
    r->step = (struct wisp_step){ .ctx = &ctx,
                                  .batch = &r->layout.batch,
                                  .training = true,
                                  .seed = 1,
                                  .number = number,
                                  .update = &r->opt.update,
                                  .head.loss = wisp_loss_find("softmax") };
    CHECK(wisp_net_step(&r->net, &r->step, &err) == WISP_OK, "%s", err.text);
}

/* The loss of sample i over the whole set (own 0) or over its own part of it. */
static double naive_loss(const struct wisp_active *a, size_t i, bool own)
{
    double sum = 0, of_true = 0;
    size_t n = own ? a->op[i + 1] - a->op[i] : a->n;
    for (size_t e = 0; e < n; e++) {
        size_t r = (size_t)a->rows[own ? a->own[a->op[i] + e] : e];
        double z = r % BATCH == i ? 1 + (double)r / ROWS : 0;
        sum += exp(z);
        if (r % BATCH == i && r / BATCH < EACH) of_true += z / EACH;
    }
    return log(sum) - of_true;
}

static void test_room(void)
{
    static const char *const names[] = { "scan", "scan+neighbours" };
    for (int own = 0; own < 2; own++) {
        TEST(own ? "rooms: sets of samples' own that are full, no ceiling"
                 : "rooms: a set that is full, no ceiling: labels and the best rows of every "
                   "sample");
        for (size_t i = 0; i < 4; i++) {
            struct rig r;
            const struct wisp_precision *precision = wisp_precision_at(i / 2);
            rig_make(&r, names[i % 2], own, precision);
            size_t room = wisp_sampler_room(&r.setup, LABELS);
            CHECK(room == BATCH * KEEP + LABELS, "room for %zu rows", room);
            for (uint64_t step = 0; step < 3; step++) {
                rig_step(&r, step);
                const struct wisp_active *a = &r.step.head.active;
                CHECK(a->n == room, "%s: %zu rows, room for %zu", names[i % 2], a->n, room);
                CHECK(!own || a->op[BATCH] == wisp_sampler_own_room(&r.setup, LABELS),
                      "%u rows of samples' own", own ? a->op[BATCH] : 0);
                double want = 0;
                for (size_t s = 0; s < BATCH; s++) {
                    size_t n;
                    const int32_t *rows = wisp_sampler_own(r.s, s, &n);
                    CHECK(n == KEEP, "%zu rows", n);
                    for (size_t c = 0; c < n; c++)
                        CHECK(wisp_active_place(a, rows[c]) != SIZE_MAX &&
                                  rows[c] == (int32_t)(ROWS - BATCH * (c + 1) + s),
                              "sample %zu: row %d, place %zu", s, rows[c],
                              wisp_active_place(a, rows[c]));
                    want += naive_loss(a, s, own);
                }
                CHECK(fabs(r.step.head.loss_sum - want) < 3e-3 * want,
                      "%s %s: loss %g, expected %g", names[i % 2], precision->name,
                      r.step.head.loss_sum, want);
                const char *broken = wisp_borders_broken();
                CHECK(!broken, "%s %s: %s", names[i % 2], precision->name, broken);
            }
            rig_clear(&r);
        }
    }
}

/* Sizes alone, where no machine would fill them. */
static void test_sizes(void)
{
    TEST("rooms: rows kept of every sample, rows for all, labels; floor, ceiling, all rows");
    struct wisp_sampling o = { .names = "random", .keep = 50, .n_random = 700 };
    struct wisp_finder_setup s = { .o = &o, .n_rows = 1000000, .batch = 1000 };
    CHECK(wisp_sampler_room(&s, 3000) == 50000 + 700 + 3000, "%zu", wisp_sampler_room(&s, 3000));
    CHECK(wisp_sampler_own_room(&s, 3000) == 0, "one set has no parts");
    o.per_example = true;
    CHECK(wisp_sampler_own_room(&s, 3000) == 1000 * 750 + 3000, "%zu",
          wisp_sampler_own_room(&s, 3000));
    o.most = 20000;
    CHECK(wisp_sampler_room(&s, 3000) == 20000, "%zu", wisp_sampler_room(&s, 3000));
    CHECK(wisp_sampler_room(&s, 30000) == 30000, "labels are never cut");
    o.most = 0, o.least = 60000;
    CHECK(wisp_sampler_room(&s, 3000) == 60000, "%zu", wisp_sampler_room(&s, 3000));
    s.n_rows = 53000;
    CHECK(wisp_sampler_room(&s, 3000) == 53000, "%zu", wisp_sampler_room(&s, 3000));
}

int main(void)
{
    TEST("rooms: a rig");
    CHECK(wisp_kernels_select(&kernels, NULL, &err) == WISP_OK, "%s", err.text);
    ctx.k = &kernels;
    CHECK(wisp_pool_create(&ctx.pool, 2, &err) == WISP_OK, "%s", err.text);
    test_sizes();
    test_room();
    wisp_pool_free(ctx.pool);
    CHECK(wisp_mem_live == 0, "%ld blocks are left", (long)wisp_mem_live);
    return test_end();
}
