/* Which layers become parts of the one before them: by the whole text of a net, with rows of a
 * device made here. */
#include "base/mem.h"
#include "model/net.h"
#include "test.h"

#include <string.h>

enum { MOST = 40, BOTH = WISP_FUSE_RELU | WISP_FUSE_DROPOUT };

/* As cards have them: what makes sums takes both, clip nothing, and bn what is added besides. */
static unsigned is_of(const struct wisp_layer *l)
{
    if (strcmp(l->kind->name, "add") == 0) return WISP_FUSE_ADD;
    if (strcmp(l->kind->name, "relu") == 0) return WISP_FUSE_RELU;
    return strcmp(l->kind->name, "dropout") == 0 ? WISP_FUSE_DROPOUT : 0;
}
static unsigned takes_of(const struct wisp_layer *l)
{
    if (strcmp(l->kind->name, "bn") == 0) return WISP_FUSE_ADD | BOTH;
    return strcmp(l->kind->name, "clip") == 0 || l->kind->head ? 0 : BOTH;
}

/* want: for each layer but the head the number of the one that does its work. */
static void check(const char *text, unsigned takes, int n, const int *want)
{
    struct wisp_net net;
    struct wisp_layer_sizes sizes = { .batch = 4, .training = true };
    wisp_error err = { 0 };
    unsigned is[MOST], can[MOST];
    int into[MOST];
    wisp_status st = wisp_net_plan(&net, text, 20, 30, &sizes, &err);
    CHECK(st == WISP_OK && net.n_layers == n + 1, "'%s': %d layers, %s", text, net.n_layers,
          err.text);
    if (st != WISP_OK) return;
    for (int i = 0; i < net.n_layers; i++)
        is[i] = is_of(&net.layers[i]), can[i] = takes_of(&net.layers[i]) & takes;
    const struct wisp_graph g = wisp_net_graph(&net);
    CHECK(wisp_graph_head(&g) == wisp_net_output(&net) && g.acts == net.acts, "another graph");
    wisp_graph_fuse(into, &g, is, can);
    for (int i = 0; i < n; i++)
        CHECK(into[i] == want[i], "'%s': layer %d is done by %d, not by %d", text, i, into[i],
              want[i]);
    CHECK(into[n] == n, "'%s': the head is done by %d", text, into[n]);
    wisp_net_clear(&net);
}
#define FUSES(text, ...)                                                                           \
    check(text, WISP_FUSE_ADD | BOTH, (int)(sizeof((int[]){ __VA_ARGS__ }) / sizeof(int)),         \
          (int[]){ __VA_ARGS__ })

int main(void)
{
    TEST("a ReLU, then a dropout, become parts of the layer before");
    FUSES("input 8", 0);
    FUSES("input 8, relu", 0, 0);
    FUSES("input 8, dropout 0.1", 0, 0);
    FUSES("input 8, relu, dropout 0.1", 0, 0, 0);
    FUSES("input 8, relu, dense 8, relu, dropout 0.1, sparse random 8 3, dropout 0.2", 0, 0, 2, 2,
          2, 5, 5);

    TEST("in another order they do their own work");
    FUSES("input 8, dropout 0.1, relu", 0, 0, 2);
    FUSES("input 8, relu, relu", 0, 0, 2);
    FUSES("input 8, dropout 0.1, dropout 0.1", 0, 0, 2);
    FUSES("input 8, dropout 0.1, relu, dropout 0.1, relu", 0, 0, 2, 2, 4);
    FUSES("input 8, identity, relu, flatten, dropout 0.1", 0, 1, 1, 3, 3);

    TEST("a layer takes only what its device lets it");
    FUSES("input 8, clip 2, relu, dropout 0.1", 0, 1, 2, 2);
    check("input 8, relu, dropout 0.1", 0, 3, (int[]){ 0, 1, 2 });
    check("input 8, relu, dropout 0.1", WISP_FUSE_RELU, 3, (int[]){ 0, 0, 2 });
    check("input 8, relu, dropout 0.1", WISP_FUSE_DROPOUT, 3, (int[]){ 0, 1, 1 });

    TEST("what somebody else reads stays");
    FUSES("input 8 as x, relu, add x", 0, 1, 2);
    FUSES("input 8, relu as x, dropout 0.1, add x, relu", 0, 0, 2, 3, 3);
    FUSES("input 8, relu, as x, dense 8, relu, dense 8, add x, relu", 0, 0, 2, 2, 4, 5, 5);
    FUSES("input 8, relu as a, from rows, sparse random 8 3, relu, concat a, dropout 0.1", 0, 0, 2,
          2, 4, 4);

    TEST("what is added to a batch norm's result becomes a part of it, if it is there by then");
    FUSES("input 8, relu as x, dense 8, bn, add x, relu", 0, 0, 2, 3, 3, 3);
    FUSES("input 8, relu as x, dense 8, bn, relu, add x, relu", 0, 0, 2, 3, 3, 5, 5);
    FUSES("input 8, bn as x, dense 8, add x", 0, 1, 2, 3);
    FUSES("input 8, bn as x, from rows, input 8, add x", 0, 1, 2, 3);
    FUSES("input 8 as r, bn as x, from r, dense 8 as y, from x, add y", 0, 1, 2, 3);
    check("input 8, relu as x, dense 8, bn, add x, relu", BOTH, 6, (int[]){ 0, 0, 2, 3, 4, 4 });
    return test_end();
}
