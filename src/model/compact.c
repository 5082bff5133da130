/* Removing channels: a new text, and parameters gathered by the indices that stay. */
#include "model/compact.h"
#include "base/mem.h"
#include "layer/wires.h"
#include "model/gather.h"

#include <string.h>

/* ---- what stays ---- */

static bool is_0(const struct wisp_param *q, size_t i)
{
    return q->b16 ? !(q->b16[i] & 0x7fff) : q->w[i] == 0;
}

static const int32_t *ids_of(const struct wisp_net *net, const struct wisp_param *q)
{
    return q->wired ? wisp_layer_wires(&net->layers[q->layer]).in : NULL;
}

struct marks { /* of bonds */
    const bool *keep;
    bool *made, *read;
};

/* A weight between two bonds, either of which may be none (below 0). */
static void mark(const struct marks *m, int32_t out, int32_t in)
{
    if (out >= 0 && (in < 0 || m->keep[in])) m->made[out] = true;
    if (in >= 0 && (out < 0 || m->keep[out])) m->read[in] = true;
}

static void mark_edges(const struct marks *m, const struct wisp_bonds *bonds,
                       const struct wisp_net *net, size_t p)
{
    const struct wisp_param *q = &net->list.p[p];
    const int32_t *ids = ids_of(net, q), *in = bonds->in[p];
    for (size_t o = 0; o < q->rows; o++) {
        size_t n, first = wisp_param_row(q, o, &n);
        for (size_t e = first; e < first + n; e++)
            if (!is_0(q, e)) mark(m, bonds->axis[p][0][o], in ? in[ids[e]] : -1);
    }
}

static void mark_param(const struct marks *m, const struct wisp_bonds *bonds,
                       const struct wisp_net *net, size_t p)
{
    const struct wisp_param *q = &net->list.p[p];
    if (q->wired) {
        mark_edges(m, bonds, net, p);
        return;
    }
    size_t inner = q->n, apart[2] = { 1, 1 };
    int dim[2] = { -1, -1 }; /* of WISP_AXIS_OUT, of WISP_AXIS_IN */
    for (int d = 0; d < q->rank; d++) {
        inner /= q->dim[d] ? q->dim[d] : 1;
        if (!bonds->axis[p][d]) continue;
        const int side = q->axis[d] == WISP_AXIS_IN;
        dim[side] = d;
        apart[side] = inner;
    }
    if (dim[0] < 0 && dim[1] < 0) return;
    const size_t line = q->dim[q->rank - 1]; /* along which one side at most changes */
    for (size_t i = 0; i < q->n; i += line) {
        int32_t bond[2] = { -1, -1 };
        const int32_t *along[2] = { NULL, NULL };
        for (int side = 0; side < 2; side++) {
            if (dim[side] < 0) continue;
            const int32_t *of = bonds->axis[p][dim[side]];
            if (dim[side] == q->rank - 1) along[side] = of;
            else bond[side] = of[i / apart[side] % q->dim[dim[side]]];
        }
        for (size_t k = 0; k < line; k++)
            if (!is_0(q, i + k))
                mark(m, along[0] ? along[0][k] : bond[0], along[1] ? along[1][k] : bond[1]);
    }
}

static const int32_t *bonds_of(const struct wisp_bonds *bonds, int value)
{
    return bonds->of + bonds->first[value];
}

static size_t count(const bool *keep, const int32_t *of, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) kept += keep[of[i]];
    return kept;
}

/* What is made only by, or read only by, what goes, goes too: again until nothing changes. */
static void settle(bool *keep, const struct marks *m, const struct wisp_bonds *bonds,
                   const struct wisp_net *net)
{
    bool changed = true;
    memset(keep, true, bonds->n * sizeof *keep);
    while (changed) {
        memset(m->made, 0, 2 * bonds->n * sizeof *m->made);
        for (size_t p = 0; p < net->list.n; p++)
            if (net->list.p[p].role == WISP_TRAINED) mark_param(m, bonds, net, p);
        changed = false;
        for (size_t c = 0; c < bonds->n; c++) {
            const bool stays = bonds->fixed[c] || (m->made[c] && m->read[c]);
            changed |= keep[c] && !stays;
            keep[c] = keep[c] && stays;
        }
    }
}

wisp_status wisp_compact_choose(bool *keep, size_t *gone, const struct wisp_bonds *bonds,
                                const struct wisp_net *net, wisp_error *err)
{
    bool *made = wisp_alloc(2 * bonds->n, sizeof *made);
    *gone = 0;
    if (!made) return wisp_fail_mem(err, 2 * bonds->n * sizeof *made, "channels to keep");
    settle(keep, &(struct marks){ keep, made, made + bonds->n }, bonds, net);
    wisp_free(made);
    for (int v = 1; v < net->n_layers; v++) {
        const int32_t *of = bonds_of(bonds, v);
        if (count(keep, of, wisp_channels(&net->acts[v])) == 0) keep[of[0]] = true;
    }
    for (size_t c = 0; c < bonds->n; c++) *gone += !keep[c];
    return WISP_OK;
}

/* Keeping a channel may make too many of another value that has it: until none is changed. */
size_t wisp_compact_round(bool *keep, const struct wisp_bonds *bonds, const struct wisp_net *net,
                          size_t units, size_t maps)
{
    size_t more = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (int v = 1; v < net->n_layers; v++) {
            const size_t n = wisp_channels(&net->acts[v]),
                         of = net->acts[v].shape.rank == 1 ? units : maps;
            const int32_t *bond = bonds_of(bonds, v);
            size_t kept = count(keep, bond, n);
            for (size_t i = 0; i < n && kept % of != 0; i++) {
                if (keep[bond[i]]) continue;
                keep[bond[i]] = changed = true;
                kept = count(keep, bond, n); /* behind 'flatten' a channel has many units */
                more++;
            }
        }
    }
    return more;
}

/* ---- connections ---- */

/* The numbers that inputs of a layer will have; -1: they go.  To be freed. */
static wisp_status new_numbers(int32_t **out, const struct wisp_smaller *s,
                               const struct wisp_layer *l, wisp_error *err)
{
    const int value = l->from[0];
    int32_t *to = *out = wisp_alloc(l->n_in, sizeof *to), next = 0;
    if (!to) return wisp_fail_mem(err, l->n_in * sizeof *to, "the inputs of a smaller layer");
    for (size_t i = 0; i < l->n_in; i++)
        to[i] = value == 0 || s->keep[bonds_of(s->bonds, value)[i]] ? next++ : -1;
    return WISP_OK;
}

/* Edges of an output that stay; their places where there is room for them. */
static size_t edges_of(int32_t *in, size_t *edge, const struct wisp_smaller *s,
                       const struct wisp_layer *l, const int32_t *number, size_t o)
{
    const struct wisp_param *w = &l->params[0];
    const int32_t *ids = ids_of(s->from, w);
    size_t all = l->n_in, first = 0, n = 0;
    if (ids) first = wisp_param_row(w, o, &all);
    for (size_t k = 0; k < all; k++) {
        const size_t from = ids ? (size_t)ids[first + k] : k,
                     e = ids ? first + k : k * l->n_out + o;
        if (number[from] < 0 || (s->thin && is_0(w, e))) continue;
        if (in) in[n] = number[from];
        if (in) edge[n] = e;
        n++;
    }
    return n;
}

/* Lists the edges of outputs that stay.  A layer without any would be none: it has one of weight 0. */
static wisp_status list_edges(struct wisp_left *to, const struct wisp_smaller *s,
                              const struct wisp_layer *l, const int32_t *number, wisp_error *err)
{
    const int32_t *of = bonds_of(s->bonds, l->number + 1);
    to->n_out = count(s->keep, of, l->n_out);
    to->start = wisp_zalloc(to->n_out + 1, sizeof *to->start);
    if (!to->start) return wisp_fail_mem(err, to->n_out * sizeof *to->start, "a smaller layer");
    for (int pass = 0; pass < 2; pass++) {
        size_t at = 0, r = 0;
        for (size_t o = 0; o < l->n_out; o++) {
            if (!s->keep[of[o]]) continue;
            const size_t n =
                edges_of(pass ? to->in + at : NULL, pass ? to->edge + at : NULL, s, l, number, o);
            if (n > to->fan) to->fan = n;
            at += n;
            to->start[++r] = (int64_t)at;
        }
        if (pass) break;
        to->n_edges = at ? at : 1;
        to->in = wisp_zalloc(to->n_edges, sizeof *to->in);
        to->edge = wisp_alloc(to->n_edges, sizeof *to->edge);
        if (!to->in || !to->edge)
            return wisp_fail_mem(err, to->n_edges * 12, "the edges of a smaller layer");
    }
    if (to->fan == 0) {
        to->edge[0] = SIZE_MAX;
        to->fan = 1;
        for (size_t r = 1; r <= to->n_out; r++) to->start[r] = 1;
    }
    to->ragged = to->n_edges != to->n_out * to->fan;
    return WISP_OK;
}

static wisp_status make_left(struct wisp_left *to, const struct wisp_smaller *s,
                             const struct wisp_layer *l, wisp_error *err)
{
    int32_t *number;
    const bool wired = wisp_layer_wires(l).n_out && l->kind->ties != WISP_TIES_FIXED;
    if (!wired && !(s->thin && l->kind->thins)) return WISP_OK;
    wisp_status st = new_numbers(&number, s, l, err);
    if (st == WISP_OK) st = list_edges(to, s, l, number, err);
    wisp_free(number);
    return st;
}

static wisp_status left_wires(const struct wisp_known *k, struct wisp_wires *out,
                              const struct wisp_layer *l, wisp_error *err)
{
    const struct wisp_left *left = &((const struct wisp_smaller *)k)->layers[l->number];
    (void)err;
    *out = left->n_out
               ? (struct wisp_wires){ left->n_out, left->n_edges,
                                      left->fan,   left->ragged ? left->start : NULL,
                                      left->in,    0 }
               : wisp_layer_wires(&((const struct wisp_smaller *)k)->from->layers[l->number]);
    return WISP_OK;
}

/* ---- the text ---- */

static wisp_status make_text(struct wisp_smaller *s, wisp_error *err)
{
    const struct wisp_net *net = s->from;
    struct wisp_layer *layers = wisp_alloc((size_t)net->n_layers, sizeof *layers);
    if (!layers) return wisp_fail_mem(err, (size_t)net->n_layers * sizeof *layers, "a smaller net");
    memcpy(layers, net->layers, (size_t)net->n_layers * sizeof *layers);
    for (int i = 0; i < net->n_layers - 1; i++) {
        if (s->layers[i].n_out) {
            wisp_wires_keep(&layers[i], s->layers[i].n_out);
            continue;
        }
        for (int a = 0; layers[i].kind->args && layers[i].kind->args[a].name; a++)
            if (layers[i].kind->args[a].counts)
                layers[i].arg[a] = (double)count(s->keep, bonds_of(s->bonds, i + 1),
                                                 wisp_channels(&net->acts[i + 1]));
    }
    struct wisp_graph g = wisp_net_graph(net);
    g.layers = layers;
    wisp_status st = wisp_graph_text(&s->text, &g, err);
    wisp_free(layers);
    return st;
}

wisp_status wisp_smaller_make(struct wisp_smaller *out, const struct wisp_net *net,
                              const struct wisp_bonds *bonds, const bool *keep, bool thin,
                              wisp_error *err)
{
    *out = (struct wisp_smaller){ { left_wires }, net, bonds, keep, thin, NULL, NULL };
    out->layers = wisp_zalloc((size_t)net->n_layers, sizeof *out->layers);
    wisp_status st = out->layers ? WISP_OK
                                 : wisp_fail_mem(err, (size_t)net->n_layers * sizeof *out->layers,
                                                 "a smaller net");
    for (int i = 0; i < net->n_layers - 1 && st == WISP_OK; i++)
        st = make_left(&out->layers[i], out, &net->layers[i], err);
    if (st == WISP_OK) st = make_text(out, err);
    if (st != WISP_OK) wisp_smaller_clear(out);
    return st;
}

void wisp_smaller_clear(struct wisp_smaller *s)
{
    for (int i = 0; s->layers && i < s->from->n_layers; i++) {
        wisp_free(s->layers[i].start);
        wisp_free(s->layers[i].in);
        wisp_free(s->layers[i].edge);
    }
    wisp_free(s->layers);
    wisp_free(s->text);
    *s = (struct wisp_smaller){ 0 };
}

/* ---- gathering ---- */

/* Numbers of edges, floats or bf16. */
static void take_edges(float *to, uint16_t *to16, const float *from, const uint16_t *from16,
                       const struct wisp_left *left)
{
    for (size_t e = 0; (to || to16) && (from || from16) && e < left->n_edges; e++) {
        const size_t at = left->edge[e];
        float x = 0;
        uint32_t bits;
        if (at != SIZE_MAX && from) x = from[at];
        memcpy(&bits, &x, sizeof bits);
        if (at != SIZE_MAX && !from) bits = (uint32_t)from16[at] << 16;
        if (to16) to16[e] = (uint16_t)(bits >> 16);
        else memcpy(&to[e], &bits, sizeof bits);
    }
}

/* What there is one of for each row: of the same outputs, or of a matrix with rows of inputs, the
 * mean of their squares and the oldest of their clocks. */
static void take_rows(struct wisp_param *to, const struct wisp_param *from,
                      const struct wisp_gather *outputs)
{
    if (from->wired) {
        wisp_gather(to->g2, from->g2, sizeof *to->g2, outputs);
        wisp_gather(to->count, from->count, sizeof *to->count, outputs);
        return;
    }
    double g2 = 0;
    uint32_t oldest = 0;
    for (size_t i = 0; i < from->rows; i++) {
        if (from->g2) g2 += (double)from->g2[i] / (double)from->rows;
        if (from->count && from->count[i] > oldest) oldest = from->count[i];
    }
    for (size_t o = 0; o < to->rows; o++) {
        if (to->g2) to->g2[o] = (float)g2;
        if (to->count) to->count[o] = oldest;
    }
}

/* A layer 'sparse': weights, [biases as any parameter's,] starts and inputs. */
static void take_wires(struct wisp_layer *to, const struct wisp_layer *from,
                       const struct wisp_left *left, const struct wisp_gather *outputs)
{
    struct wisp_param *w = &to->params[0];
    const struct wisp_param *q = &from->params[0];
    take_edges(w->w, NULL, q->w, q->b16, left);
    take_edges(w->m, w->m16, q->m, q->m16, left);
    take_edges(w->v, w->v16, q->v, q->v16, left);
    take_rows(w, q, outputs);
    for (int k = 2; k < to->n_params; k++) {
        struct wisp_param *p = &to->params[k];
        if (p->role == WISP_STARTS) memcpy(p->start, left->start, p->n * sizeof *p->start);
        else memcpy(p->ids, left->in, p->n * sizeof *p->ids);
    }
}

/* A parameter of a layer that stays as it is and has connections. */
static void take_whole(struct wisp_param *to, const struct wisp_param *from)
{
    const struct wisp_gather all = { .rank = 1, .from = { from->n }, .to = { from->n } };
    const struct wisp_gather rows = { .rank = 1, .from = { from->rows }, .to = { from->rows } };
    wisp_gather(to->w, from->w, sizeof *to->w, &all);
    wisp_gather(to->m, from->m, sizeof *to->m, &all);
    wisp_gather(to->v, from->v, sizeof *to->v, &all);
    wisp_gather(to->m16, from->m16, sizeof *to->m16, &all);
    wisp_gather(to->v16, from->v16, sizeof *to->v16, &all);
    wisp_gather(to->g2, from->g2, sizeof *to->g2, &rows);
    wisp_gather(to->count, from->count, sizeof *to->count, &rows);
    wisp_gather(to->ids, from->ids, sizeof *to->ids, &all);
    if (to->role == WISP_STARTS) memcpy(to->start, from->start, to->n * sizeof *to->start);
}

static struct wisp_gather gather_of(const struct wisp_smaller *s, size_t p, size_t *index,
                                    size_t most)
{
    const struct wisp_param *q = &s->from->list.p[p];
    struct wisp_gather g = { .rank = q->rank };
    for (int d = 0; d < q->rank; d++) {
        g.from[d] = g.to[d] = wisp_param_side(q, d);
        const int32_t *of = s->bonds->axis[p][d];
        if (!of) continue;
        size_t *list = index + (size_t)d * most;
        g.to[d] = 0;
        for (size_t i = 0; i < g.from[d]; i++)
            if (s->keep[of[i]]) list[g.to[d]++] = i;
        g.index[d] = list;
    }
    return g;
}

wisp_status wisp_compact_fill(struct wisp_net *to, const struct wisp_smaller *s, wisp_error *err)
{
    const struct wisp_params *list = &s->from->list;
    size_t most = 0;
    for (size_t p = 0; p < list->n; p++)
        for (int d = 0; d < list->p[p].rank; d++)
            if (list->p[p].dim[d] > most) most = list->p[p].dim[d];
    size_t *index = wisp_alloc(most * WISP_MAX_RANK, sizeof *index);
    if (!index) return wisp_fail_mem(err, most * WISP_MAX_RANK * sizeof *index, "a smaller net");
    for (int i = 0; i < to->n_layers; i++) {
        const struct wisp_layer *l = &s->from->layers[i];
        const struct wisp_left *left = &s->layers[i];
        for (int k = 0; k < l->n_params && !(left->n_out && k > 1); k++) {
            if (!left->n_out && wisp_layer_wires(l).n_out) {
                take_whole(&to->layers[i].params[k], &l->params[k]);
                continue;
            }
            struct wisp_gather g = gather_of(s, (size_t)(&l->params[k] - list->p), index, most);
            g.rank = left->n_out && k == 0 ? 1 : g.rank; /* its rows, if they are outputs */
            if (left->n_out && k == 0) take_wires(&to->layers[i], l, left, &g);
            else wisp_gather_param(&to->layers[i].params[k], &l->params[k], &g);
        }
    }
    wisp_free(index);
    return WISP_OK;
}
