/* Branches and edges of kernels that are 0: found from the first layer to the last, left out from the
 * last to the first. */
#include "model/trim.h"
#include "base/mem.h"
#include "model/gather.h"

#include <string.h>

static bool is_zero(const struct wisp_param *q, size_t i)
{
    return q->b16 ? (q->b16[i] & 0x7fff) == 0 : q->w[i] == 0;
}

static bool all_zero(const struct wisp_param *q)
{
    size_t i = 0;
    while (i < q->n && is_zero(q, i)) i++;
    return i == q->n;
}

/* ---- kernels ---- */

/* Are the numbers 0 that have index 'at' of dimension d? */
static bool zero_at(const struct wisp_param *q, int d, size_t at)
{
    size_t inner = 1;
    for (int k = d + 1; k < q->rank; k++) inner *= q->dim[k];
    const size_t step = inner * q->dim[d];
    for (size_t b = at * inner; b < q->n; b += step)
        for (size_t i = 0; i < inner; i++)
            if (!is_zero(q, b + i)) return false;
    return true;
}

/* How many at either side of a kernel are 0, of those that padding allows: it goes with them, and is
 * less than the kernel. */
static size_t edge_of(const struct wisp_param *q, enum wisp_axis axis, size_t pad)
{
    size_t n = 0;
    for (int d = 0; d < q->rank; d++) {
        if (q->axis[d] != axis || q->role != WISP_TRAINED) continue;
        const size_t most = pad == SIZE_MAX             ? pad
                            : pad < q->dim[d] - 1 - pad ? pad
                                                        : q->dim[d] - 1 - pad;
        while (n < most && 2 * n + 2 < q->dim[d] && zero_at(q, d, n) &&
               zero_at(q, d, q->dim[d] - 1 - n))
            n++;
    }
    return n;
}

/* Argument i of a layer, less an edge. */
static double less(double size, int times, const struct wisp_edge *e)
{
    return wisp_size_of(wisp_size_height(size) - (size_t)times * e->y,
                        wisp_size_width(size) - (size_t)times * e->x);
}

static void find_edges(struct wisp_trim *t)
{
    for (int i = 0; i < t->from->n_layers; i++) {
        const struct wisp_layer *l = &t->from->layers[i];
        struct wisp_edge pad = { SIZE_MAX, SIZE_MAX };
        if (t->gone[i] || l->n_params == 0) continue;
        for (int a = 0; l->kind->args && l->kind->args[a].name; a++)
            if (l->kind->args[a].edges == 1 && l->given & 1u << a)
                pad = (struct wisp_edge){ wisp_size_height(l->arg[a]), wisp_size_width(l->arg[a]) };
        t->edge[i].y = edge_of(&l->params[0], WISP_AXIS_Y, pad.y);
        t->edge[i].x = edge_of(&l->params[0], WISP_AXIS_X, pad.x);
        t->n_kernels += t->edge[i].y || t->edge[i].x;
    }
}

/* ---- branches ---- */

/* Is what layer i gives 0, whatever it reads, where 'zero' says so of what comes before it? */
static bool gives_zero(const struct wisp_net *net, int i, const bool *zero)
{
    const struct wisp_layer *l = &net->layers[i];
    const enum wisp_ties ties = l->kind->ties;
    bool trained = false, weights = false, reads = true;
    for (int p = 0; p < l->n_params; p++)
        if (l->params[p].role == WISP_TRAINED) {
            trained = true;
            weights |= !all_zero(&l->params[p]);
        }
    for (int k = 0; k < l->n_from; k++) reads &= zero[l->from[k]];
    if (l->kind->head || ties == WISP_TIES_FIXED) return false;
    if (trained) return !weights;
    return ties != WISP_TIES_NEW && reads;
}

/* reads (values): what is read instead of each. */
static void leave_out(struct wisp_layer *layers, struct wisp_trim *t, bool *zero, int *reads)
{
    const struct wisp_net *net = t->from;
    for (int i = 0; i < net->n_layers; i++) {
        struct wisp_layer *l = &layers[i];
        int n = 0;
        if (l->kind->uses & WISP_ADDS) {
            for (int k = 0; k < l->n_from; k++)
                if (!zero[l->from[k]]) l->from[n++] = l->from[k];
            if (n == 0) n = 1; /* all of them are 0: one stays */
            l->n_from = n;
        }
        for (int k = 0; k < l->n_from; k++) l->from[k] = reads[l->from[k]];
        reads[i + 1] = n == 1 ? l->from[0] : i + 1;
        t->gone[i] = n == 1;
        zero[i + 1] = gives_zero(net, i, zero);
    }
}

/* What nobody reads goes. */
static void sweep(const struct wisp_layer *layers, struct wisp_trim *t, bool *read)
{
    const int last = t->from->n_layers - 1;
    memset(read, 0, (size_t)(last + 2) * sizeof *read);
    read[last + 1] = true; /* the head */
    for (int i = last; i >= 0; i--) {
        t->gone[i] |= !read[i + 1];
        for (int k = 0; k < layers[i].n_from && !t->gone[i]; k++) read[layers[i].from[k]] = true;
        t->n_layers += t->gone[i];
    }
}

/* Layers with connections of their own are known by their numbers while a smaller net is planned: such
 * a net stays as it is. */
static bool has_wires(const struct wisp_net *net)
{
    for (size_t p = 0; p < net->list.n; p++)
        if (net->list.p[p].role == WISP_FIXED) return true;
    return false;
}

/* ---- the text ---- */

static wisp_status say(struct wisp_trim *t, struct wisp_layer *layers, int *number, wisp_error *err)
{
    const struct wisp_net *net = t->from;
    struct wisp_graph g = wisp_net_graph(net);
    int n = 0;
    number[0] = 0;
    for (int i = 0; i < net->n_layers; i++) {
        struct wisp_layer *l = &layers[i];
        if (t->gone[i]) continue;
        for (int k = 0; k < l->n_from; k++) l->from[k] = number[l->from[k]];
        for (int a = 0; l->kind->args && l->kind->args[a].name; a++)
            if (l->given & 1u << a && l->kind->args[a].edges)
                l->arg[a] = less(l->arg[a], l->kind->args[a].edges, &t->edge[i]);
        number[i + 1] = n + 1;
        layers[n++] = *l;
    }
    g.layers = layers;
    g.n_layers = n;
    return wisp_graph_text(&t->text, &g, err);
}

wisp_status wisp_trim_make(struct wisp_trim *out, const struct wisp_net *net, wisp_error *err)
{
    const size_t n = (size_t)net->n_layers;
    struct wisp_layer *layers = wisp_alloc(n, sizeof *layers);
    bool *zero = wisp_zalloc(n + 1, sizeof *zero);
    int *reads = wisp_zalloc(n + 1, sizeof *reads);
    *out = (struct wisp_trim){ .from = net };
    out->gone = wisp_zalloc(n, sizeof *out->gone);
    out->edge = wisp_zalloc(n, sizeof *out->edge);
    wisp_status st = WISP_OK;
    if (!layers || !zero || !reads || !out->gone || !out->edge)
        st = wisp_fail_mem(err, n * sizeof *layers, "a smaller net");
    if (st == WISP_OK && !has_wires(net)) {
        memcpy(layers, net->layers, n * sizeof *layers);
        leave_out(layers, out, zero, reads);
        sweep(layers, out, zero);
        find_edges(out);
    }
    if (st == WISP_OK && (out->n_layers || out->n_kernels)) st = say(out, layers, reads, err);
    wisp_free(layers);
    wisp_free(zero);
    wisp_free(reads);
    if (st != WISP_OK) wisp_trim_clear(out);
    return st;
}

void wisp_trim_clear(struct wisp_trim *t)
{
    wisp_free(t->gone);
    wisp_free(t->edge);
    wisp_free(t->text);
    *t = (struct wisp_trim){ 0 };
}

/* ---- parameters ---- */

void wisp_trim_fill(struct wisp_net *to, const struct wisp_trim *t)
{
    struct wisp_param *q = to->list.p;
    for (size_t p = 0; p < t->from->list.n; p++) {
        const struct wisp_param *from = &t->from->list.p[p];
        const struct wisp_edge *e = &t->edge[from->layer];
        if (t->gone[from->layer]) continue;
        struct wisp_gather g = { .rank = from->rank };
        for (int d = 0; d < g.rank; d++) {
            g.first[d] = from->axis[d] == WISP_AXIS_Y   ? e->y
                         : from->axis[d] == WISP_AXIS_X ? e->x
                                                        : 0;
            g.from[d] = wisp_param_side(from, d);
            g.to[d] = g.from[d] - 2 * g.first[d];
        }
        wisp_gather_param(q++, from, &g);
    }
}
