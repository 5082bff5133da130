/* Groups of a penalty that are no channels: columns of kernels, and whole branches.
 *
 * Columns: a task has a run of them, with the weights of all filters, so that squares and factors stay
 * in one thread's hands.  Branches: squares of fixed pieces of every parameter, added up in their order;
 * both give the same bytes for any number of threads. */
#include "model/groups.h"
#include "base/bounds.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { RUN = 64, PIECE = 1 << 14 }; /* columns; numbers */

static const struct wisp_word kinds_table[] = {
    { "channels", "units and channels: a row of a matrix or kernel, its bias, its norm" },
    { "shapes", "columns of kernels: the weights of all filters at one channel and place" },
    { "layers", "branches behind a shortcut, all their weights" },
};
enum { N_KINDS = sizeof kinds_table / sizeof *kinds_table };

const struct wisp_word *wisp_groups_row(size_t i)
{
    return i < N_KINDS ? &kinds_table[i] : NULL;
}

wisp_status wisp_groups_read(unsigned *kinds, const char *text, wisp_error *err)
{
    *kinds = 0;
    for (const char *p = text, *end;; p = end + 1) {
        end = p + strcspn(p, "+");
        size_t i = 0;
        while (i < N_KINDS && (strlen(kinds_table[i].name) != (size_t)(end - p) ||
                               strncmp(kinds_table[i].name, p, (size_t)(end - p)) != 0))
            i++;
        if (i == N_KINDS)
            return wisp_fail_option(err, "groups",
                                    "no '%.*s' in '%.100s'; there are channels, shapes and layers, "
                                    "joined by +",
                                    end - p < 100 ? (int)(end - p) : 100, p, text);
        *kinds |= 1u << i;
        if (!*end) return WISP_OK;
    }
}

static int layer_named(const struct wisp_net *net, const char *name, size_t n)
{
    for (int i = 0; i < net->n_layers; i++)
        if (strlen(net->layers[i].name) == n && strncmp(net->layers[i].name, name, n) == 0)
            return i;
    return -1;
}

static const char BY_OPERATIONS[] = "operations";

/* Weights that take part in the operations of a layer: matrices and kernels, not biases and norms. */
static double worked_weights(const struct wisp_net *net, int layer)
{
    double n = 0;
    for (size_t i = 0; i < net->list.n; i++) {
        const struct wisp_param *q = &net->list.p[i];
        if (q->layer == layer && wisp_param_is_matrix(q)) n += (double)wisp_param_n(q);
    }
    return n;
}

/* sqrt(size) times this is the root of what a group costs in operations, in units of the net's mean
 * cost of one weight. */
static void weigh_by_operations(double *weight, const struct wisp_net *net)
{
    double flops = 0, weights = 0;
    for (int i = 0; i < net->n_layers; i++)
        if (net->layers[i].kind->flops) {
            flops += wisp_net_layer_flops(net, i, false);
            weights += worked_weights(net, i);
        }
    for (int i = 0; i < net->n_layers; i++) {
        const double of_layer = wisp_net_layer_flops(net, i, false), n = worked_weights(net, i);
        if (of_layer > 0 && n > 0) weight[i] = sqrt(of_layer / n * (weights / flops));
    }
}

/* One item of the option, 'n' characters: NAME=FACTOR.  *layer is -1 where the net has no such layer. */
static wisp_status read_weight(int *layer, double *factor, const struct wisp_net *net,
                               const char *item, size_t n, wisp_error *err)
{
    const size_t name = strcspn(item, "=,");
    char *after = NULL;
    *factor = item[name] == '=' ? wisp_strtod(item + name + 1, &after) : -1;
    if (name == 0 || item[name] != '=' || after != item + n || after == item + name + 1 ||
        !(*factor >= 0 && *factor <= 1e6))
        return wisp_fail_option(err, "group-weights",
                                "'%.*s': expected NAME=FACTOR, the name of a layer and a number "
                                "from 0 to 1e6, or 'operations', with commas between",
                                n < 100 ? (int)n : 100, item);
    *layer = layer_named(net, item, name);
    return WISP_OK;
}

wisp_status wisp_groups_weights(double *weight, const struct wisp_net *net, const char *text,
                                bool *unknown, wisp_error *err)
{
    wisp_status st = WISP_OK;
    *unknown = false;
    for (int i = 0; i < net->n_layers; i++) weight[i] = INFINITY;
    for (const char *p = text, *end; *p; p = *end ? end + 1 : end) {
        const size_t n = strcspn(p, ",");
        int layer = -1;
        double factor = 0;
        end = p + n;
        if (n == strlen(BY_OPERATIONS) && strncmp(p, BY_OPERATIONS, n) == 0) {
            weigh_by_operations(weight, net);
            continue;
        }
        wisp_status read = read_weight(&layer, &factor, net, p, n, err);
        if (read != WISP_OK) return read;
        if (layer >= 0) weight[layer] = factor;
        if (layer < 0 && !*unknown)
            st = wisp_fail_option(err, "group-weights",
                                  "the net has no layer called '%.*s'; give one its name with 'as "
                                  "NAME'",
                                  (int)fmin(100, (double)strcspn(p, "=,")), p);
        *unknown |= layer < 0;
    }
    return st;
}

wisp_status wisp_groups_make(struct wisp_group_set *g, const struct wisp_net *net, unsigned kinds,
                             wisp_error *err)
{
    const struct wisp_graph graph = wisp_net_graph(net);
    size_t longest = 0;
    *g = (struct wisp_group_set){ .kinds = kinds };
    g->weight = wisp_alloc((size_t)net->n_layers, sizeof *g->weight);
    if (!g->weight)
        return wisp_fail_mem(err, (size_t)net->n_layers * sizeof *g->weight,
                             "the groups of a penalty");
    for (int i = 0; i < net->n_layers; i++) g->weight[i] = INFINITY;
    if (!(kinds & WISP_GROUPS_LAYERS)) return WISP_OK;
    wisp_status st = wisp_branches_of(&g->branches, &graph, err);
    if (st != WISP_OK) {
        wisp_groups_clear(g);
        return st;
    }
    for (size_t i = 0; i < net->list.n; i++) longest = wisp_most(longest, net->list.p[i].n);
    g->part = wisp_alloc(wisp_parts(longest, PIECE), sizeof *g->part);
    if (g->part) return WISP_OK;
    wisp_groups_clear(g);
    return wisp_fail_mem(err, wisp_parts(longest, PIECE) * sizeof *g->part,
                         "the groups of a penalty");
}

void wisp_groups_clear(struct wisp_group_set *g)
{
    wisp_branches_clear(&g->branches);
    wisp_free(g->part);
    wisp_free(g->weight);
    *g = (struct wisp_group_set){ 0 };
}

/* What a group is multiplied by. */
static float factor(double square, size_t size, double by)
{
    const double shorter = by * sqrt((double)size), length = sqrt(square);
    return length == 0 || by == 0 ? 1 : length <= shorter ? 0 : (float)(1 - shorter / length);
}

/* Zeros are +0, and have no momentum; what is no number stays so: the run will see it. */
static void scale_one(struct wisp_param *q, size_t at, float by)
{
    q->w[at] = by != 0 ? q->w[at] * by : 0;
    if (by == 0 && q->m) q->m[at] = 0;
    if (by == 0 && q->m16) q->m16[at] = 0;
}

/* ---- shapes ---- */

struct columns { /* of a parameter: numbers [before, n, inner], a column has n of them */
    struct wisp_param *q;
    size_t before, n, inner;
    double by;
};

static void shorten_columns(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct columns *c = arg;
    const size_t runs = wisp_parts(c->inner, RUN), first = task % runs * RUN,
                 end = first + RUN < c->inner ? first + RUN : c->inner,
                 start = task / runs * c->n * c->inner;
    double square[RUN] = { 0 };
    float by[RUN];
    for (size_t o = 0; o < c->n; o++)
        for (size_t k = first; k < end; k++) {
            const double w = (double)c->q->w[start + o * c->inner + k];
            square[k - first] += w * w;
        }
    for (size_t k = first; k < end; k++) by[k - first] = factor(square[k - first], c->n, c->by);
    for (size_t o = 0; o < c->n; o++)
        for (size_t k = first; k < end; k++)
            if (by[k - first] != 1) scale_one(c->q, start + o * c->inner + k, by[k - first]);
}

/* The dimension that counts filters, of a parameter with places of a kernel; -1: it has none. */
static int filters(const struct wisp_param *q)
{
    int at = -1;
    bool places = false;
    for (int d = 0; d < q->rank; d++) {
        if (q->axis[d] == WISP_AXIS_OUT) at = d;
        places |= q->axis[d] == WISP_AXIS_Y || q->axis[d] == WISP_AXIS_X;
    }
    return q->role == WISP_TRAINED && places ? at : -1;
}

static double times(double weight)
{
    return isinf(weight) ? 1 : weight;
}

static void shorten_shapes(const struct wisp_group_set *g, struct wisp_net *net, double by,
                           struct wisp_pool *pool)
{
    for (size_t i = 0; i < net->list.n; i++) {
        struct wisp_param *q = &net->list.p[i];
        const int d = filters(q);
        if (d < 0) continue;
        struct columns c = { q, 1, q->dim[d], 1, by * times(g->weight[q->layer]) };
        for (int k = 0; k < q->rank; k++) *(k < d ? &c.before : &c.inner) *= k == d ? 1 : q->dim[k];
        wisp_parallel_for(pool, c.before * wisp_parts(c.inner, RUN), shorten_columns, &c);
    }
}

/* ---- layers ---- */

struct whole { /* a parameter */
    struct wisp_param *q;
    double *part;
    float by;
};

static void add_piece(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct whole *w = arg;
    const size_t end = (task + 1) * PIECE < w->q->n ? (task + 1) * PIECE : w->q->n;
    double sum = 0;
    for (size_t i = task * PIECE; i < end; i++) sum += (double)w->q->w[i] * (double)w->q->w[i];
    w->part[task] = sum;
}

static void scale_piece(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct whole *w = arg;
    const size_t end = (task + 1) * PIECE < w->q->n ? (task + 1) * PIECE : w->q->n;
    for (size_t i = task * PIECE; i < end; i++) scale_one(w->q, i, w->by);
}

static void shorten_branch(struct wisp_group_set *g, struct wisp_net *net, const bool *has,
                           double by, struct wisp_pool *pool)
{
    double square = 0, weight = INFINITY;
    size_t size = 0;
    float scale = 1;
    for (int i = 0; i < net->n_layers; i++)
        if (has[i]) weight = fmin(weight, g->weight[i]);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < net->list.n; i++) {
            struct wisp_param *q = &net->list.p[i];
            const size_t pieces = wisp_parts(q->n, PIECE);
            struct whole w = { q, g->part, scale };
            if (q->role != WISP_TRAINED || !has[q->layer]) continue;
            wisp_parallel_for(pool, pieces, pass == 0 ? add_piece : scale_piece, &w);
            for (size_t t = 0; t < pieces && pass == 0; t++) square += g->part[t];
            size += q->n;
        }
        if (pass == 0) scale = factor(square, size, by * times(weight));
        if (scale == 1) return;
    }
}

void wisp_groups_move(struct wisp_group_set *g, struct wisp_net *net, double by,
                      struct wisp_pool *pool)
{
    const size_t layers = (size_t)net->n_layers;
    if (g->kinds & WISP_GROUPS_SHAPES) shorten_shapes(g, net, by, pool);
    for (size_t b = 0; b < g->branches.n; b++)
        shorten_branch(g, net, g->branches.has + b * layers, by, pool);
}
