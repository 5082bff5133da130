/* The memory of a step: nothing that is needed at the same moment lies over something else, the
 * block is about as short as can be, and values in place are the values. */
#include "test.h"
#include "base/mem.h"
#include "model/net.h"

#include <math.h>
#include <string.h>

static wisp_error err;
static uint64_t seed = 17;

static size_t below(size_t n)
{
    return (size_t)(test_rand(&seed) % n);
}

static bool over_each_other(const struct wisp_item *a, const struct wisp_item *b)
{
    return a->first <= b->last && b->first <= a->last && a->bytes && b->bytes &&
           a->at < b->at + b->bytes && b->at < a->at + a->bytes;
}

/* The same by trying every moment. */
static size_t naive_bound(const struct wisp_item *items, size_t n, int last)
{
    size_t bound = 0;
    for (int t = 0; t <= last; t++) {
        size_t sum = 0;
        for (size_t i = 0; i < n; i++)
            if (items[i].first <= t && t <= items[i].last) sum += (items[i].bytes + 63) / 64 * 64;
        if (sum > bound) bound = sum;
    }
    return bound;
}

static void check_places(const struct wisp_item *items, size_t n, size_t bytes, const char *what)
{
    size_t clashes = 0;
    for (size_t i = 0; i < n; i++) {
        CHECK(items[i].at % 64 == 0 && items[i].at + items[i].bytes <= bytes, "%s: %zu at %zu",
              what, items[i].bytes, items[i].at);
        for (size_t k = 0; k < i; k++) clashes += over_each_other(&items[i], &items[k]);
    }
    CHECK(clashes == 0, "%s: %zu pairs lie over each other", what, clashes);
}

static void test_random(void)
{
    enum { MOST = 120, LAST = 60 };
    struct wisp_item items[MOST];
    double waste = 0;
    TEST("arena: any items");
    for (int round = 0; round < 300; round++) {
        size_t n = below(MOST), bytes, bound;
        for (size_t i = 0; i < n; i++) {
            int first = (int)below(LAST), last = first + (int)below((size_t)(LAST - first));
            items[i] = (struct wisp_item){ below(4) ? below(5000) : 0, first, last, 1 };
        }
        CHECK(wisp_arena_place(items, n, &bytes, &bound, &err) == WISP_OK, "%s", err.text);
        check_places(items, n, bytes, "random");
        CHECK(bound == naive_bound(items, n, LAST) && bytes >= bound && bytes <= 2 * bound,
              "%zu items: %zu bytes, bound %zu, expected %zu", n, bytes, bound,
              naive_bound(items, n, LAST));
        if (bound) waste += (double)bytes / (double)bound - 1;
    }
    printf("     %.2f %% above the bound on average\n", waste / 3);
    CHECK(waste / 300 < 0.02, "%.4f of the bound are lost on average", waste / 300);
    for (long budget = 0; budget < 4; budget++) {
        size_t bytes, bound;
        wisp_mem_budget = budget;
        CHECK(wisp_arena_place(items, 5, &bytes, &bound, &err) == WISP_ENOMEM, "%ld blocks",
              budget);
        wisp_mem_budget = -1;
    }
}

static const struct {
    const char *name, *net;
    size_t features, labels, batch, active;
} nets[] = {
    { "demo", "input 256, relu, dropout 0.3", 66000, 21392, 256, 3000 },
    { "wide", "input 512, relu, dropout 0.5", 14000, 735, 128, 735 },
    { "three layers", "input 512, relu, dense 512, relu, dense 512, relu", 5000, 1000, 256, 1000 },
    { "residual", "input 256, relu, 16 x (as x, dense 256, bn, relu, dense 256, bn, add x, relu)",
      5000, 500, 256, 500 },
    { "two branches",
      "input 256 as l, relu as a, from rows, sparse random 512 32, relu, dropout 0.2, concat a, "
      "dense 256, relu",
      5000, 500, 256, 500 },
    { "sampled", "input 128, relu, sampled 4096, relu", 5000, 1000, 128, 1000 },
    { "radix", "12 x (sparse radix 1024, relu)", 1024, 10, 256, 10 },
    { "amazon670k", "input 128, relu", 135909, 670091, 1024, 20000 },
    { "yso", "input 256, relu, dropout 0.2", 90000, 25400, 256, 4000 },
    { "joins",
      "input 64 as a, 7 x b (dense 64 as d, relu), concat b.0.d b.1.d b.2.d b.3.d b.4.d "
      "b.5.d a, dense 64, relu",
      2000, 100, 512, 100 },
};

static void test_nets(void)
{
    TEST("arena: ten nets, at most 1.05 times what no placing could do without");
    wisp_borders = false; /* sizes as they are in use */
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        for (int training = 0; training < 2; training++) {
            struct wisp_layer_sizes sizes = { .batch = nets[i].batch,
                                              .active = nets[i].active,
                                              .training = training };
            struct wisp_net net, apart;
            wisp_status st =
                wisp_net_plan(&net, nets[i].net, nets[i].features, nets[i].labels, &sizes, &err);
            sizes.keep = true;
            if (st == WISP_OK)
                st = wisp_net_plan(&apart, nets[i].net, nets[i].features, nets[i].labels, &sizes,
                                   &err);
            CHECK(st == WISP_OK && wisp_work_plan(&net, 2, &err) == WISP_OK &&
                      wisp_work_plan(&apart, 2, &err) == WISP_OK,
                  "%s: %s", nets[i].name, err.text);
            if (st != WISP_OK) continue;
            const struct wisp_work *w = &net.work;
            check_places(w->items, (size_t)w->n, w->bytes, nets[i].name);
            CHECK(w->bound == naive_bound(w->items, (size_t)w->n, 2 * net.n_layers), "%s: bound",
                  nets[i].name);
            CHECK((double)w->bytes <= 1.05 * (double)w->bound && w->bytes <= apart.work.bytes,
                  "%s: %zu bytes, bound %zu, side by side %zu", nets[i].name, w->bytes, w->bound,
                  apart.work.bytes);
            printf("     %-12s %-10s %8.2f MiB, bound %8.2f, side by side %8.2f\n", nets[i].name,
                   training ? "training" : "prediction", (double)w->bytes / (1 << 20),
                   (double)w->bound / (1 << 20), (double)apart.work.bytes / (1 << 20));
            wisp_net_clear(&net), wisp_net_clear(&apart);
        }
    wisp_borders = true;
}

int main(void)
{
    test_random();
    test_nets();
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}
