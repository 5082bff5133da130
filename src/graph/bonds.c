/* Bonds of channels: a forest over all channels of all values, joined layer by layer. */
#include "graph/bonds.h"
#include "base/mem.h"

#include <string.h>

struct forest {
    const struct wisp_graph *g;
    const size_t *first;
    int32_t *parent; /* of each channel; a root's own place */
    bool *fixed;     /* of roots */
};

static int32_t root(const struct forest *f, int32_t i)
{
    while (f->parent[i] != i) i = f->parent[i] = f->parent[f->parent[i]];
    return i;
}

/* The lower root stays: bonds are numbered by their first channel. */
static void join(struct forest *f, size_t a, size_t b)
{
    int32_t x = root(f, (int32_t)a), y = root(f, (int32_t)b);
    if (y < x) {
        const int32_t low = y;
        y = x;
        x = low;
    }
    f->parent[y] = x;
    f->fixed[x] |= f->fixed[y];
}

static void fix(struct forest *f, int value)
{
    if (value == 0) return; /* the batch: features stay */
    const size_t n = wisp_channels(&f->g->acts[value]);
    for (size_t c = 0; c < n; c++) f->fixed[root(f, (int32_t)(f->first[value] + c))] = true;
}

static bool counts(const struct wisp_layer *l, enum wisp_axis axis)
{
    if (axis == WISP_AXIS_IN && l->n_params && l->params[0].wired) return true;
    for (int d = 0; l->n_params && d < l->params[0].rank; d++)
        if (l->params[0].axis[d] == axis) return true;
    return false;
}

/* Channels [0, n) of one value with those of another from 'at' on; 'run' of these for each. */
static void tie(struct forest *f, int small, int large, size_t at, size_t run)
{
    const size_t n = wisp_channels(&f->g->acts[small]);
    for (size_t c = 0; c < n; c++)
        for (size_t k = 0; k < run; k++)
            join(f, f->first[small] + c, f->first[large] + at + c * run + k);
}

static void tie_layer(struct forest *f, int i)
{
    const struct wisp_layer *l = &f->g->layers[i];
    const bool head = l->kind->head;
    const int out = i + 1;
    const enum wisp_ties ties = l->kind->ties;
    bool reads_rows = false;
    for (int k = 0; k < l->n_from; k++) reads_rows |= l->from[k] == 0;
    if (ties == WISP_TIES_FIXED || ties == WISP_TIES_NEW || (reads_rows && !head)) {
        const bool made = ties == WISP_TIES_NEW && counts(l, WISP_AXIS_OUT),
                   read = ties == WISP_TIES_NEW && counts(l, WISP_AXIS_IN);
        if (!head && !made) fix(f, out);
        for (int k = 0; k < l->n_from && !read; k++) fix(f, l->from[k]);
        return;
    }
    size_t at = 0;
    for (int k = 0; k < l->n_from; k++) {
        const size_t n = wisp_channels(&f->g->acts[l->from[k]]);
        const size_t run =
            ties == WISP_TIES_SPREAD ? wisp_channels(&f->g->acts[out]) / (n ? n : 1) : 1;
        tie(f, l->from[k], out, at, run);
        if (ties == WISP_TIES_ROW) at += n;
    }
}

/* Numbers for the roots, in the order of their channels. */
static void number(struct wisp_bonds *to, const struct forest *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t top = (size_t)root(f, (int32_t)i);
        if (top == i) {
            to->fixed[to->n] = f->fixed[i];
            to->of[i] = (int32_t)to->n++;
        } else {
            to->of[i] = to->of[top];
        }
    }
}

static void set_axes(struct wisp_bonds *to, const struct wisp_graph *g,
                     const struct wisp_params *list)
{
    for (size_t p = 0; p < list->n; p++) {
        const struct wisp_param *q = &list->p[p];
        const int read = g->layers[q->layer].from[0];
        for (int d = 0; d < q->rank; d++) {
            const int value = q->axis[d] == WISP_AXIS_OUT ? q->layer + 1 : read;
            const bool of_channels = q->axis[d] == WISP_AXIS_OUT || q->axis[d] == WISP_AXIS_IN;
            to->axis[p][d] = of_channels ? to->of + to->first[value] : NULL;
        }
        if (q->wired && read > 0) to->in[p] = to->of + to->first[read];
    }
}

/* What nobody can make 0 stays: a bond without weights of its own. */
static void fix_bare(struct wisp_bonds *to, const struct wisp_params *list, bool *made)
{
    memset(made, 0, to->n * sizeof *made);
    for (size_t p = 0; p < list->n; p++)
        for (int d = 0; d < list->p[p].rank; d++) {
            const struct wisp_param *q = &list->p[p];
            if (q->role != WISP_TRAINED || q->axis[d] != WISP_AXIS_OUT) continue;
            for (size_t i = 0; i < wisp_param_side(q, d); i++) made[to->axis[p][d][i]] = true;
        }
    for (size_t c = 0; c < to->n; c++) to->fixed[c] |= !made[c];
}

wisp_status wisp_bonds_of(struct wisp_bonds *out, const struct wisp_graph *g,
                          const struct wisp_params *list, wisp_error *err)
{
    struct forest f = { .g = g };
    size_t n = 0;
    *out = (struct wisp_bonds){ .n_params = list->n };
    out->first = wisp_alloc((size_t)g->n_layers, sizeof *out->first);
    for (int v = 0; v < g->n_layers && out->first; v++) {
        out->first[v] = n;
        if (v) n += wisp_channels(&g->acts[v]);
    }
    out->of = wisp_alloc(n, sizeof *out->of);
    out->fixed = wisp_zalloc(n, sizeof *out->fixed);
    out->axis = wisp_zalloc(list->n, sizeof *out->axis);
    out->in = wisp_zalloc(list->n, sizeof *out->in);
    f.first = out->first;
    f.parent = wisp_alloc(n, sizeof *f.parent);
    f.fixed = wisp_zalloc(n, sizeof *f.fixed);
    const bool ok =
        out->first && out->of && out->fixed && out->axis && out->in && f.parent && f.fixed;
    if (ok) {
        for (size_t i = 0; i < n; i++) f.parent[i] = (int32_t)i;
        for (int i = 0; i < g->n_layers; i++) tie_layer(&f, i);
        number(out, &f, n);
        set_axes(out, g, list);
        fix_bare(out, list, f.fixed);
    }
    wisp_free(f.parent);
    wisp_free(f.fixed);
    if (ok) return WISP_OK;
    wisp_bonds_clear(out);
    return wisp_fail_mem(err, n * (sizeof *out->of + sizeof *out->fixed), "the channels of a net");
}

void wisp_bonds_clear(struct wisp_bonds *bonds)
{
    wisp_free(bonds->fixed);
    wisp_free(bonds->first);
    wisp_free(bonds->of);
    wisp_free(bonds->axis);
    wisp_free(bonds->in);
    *bonds = (struct wisp_bonds){ 0 };
}
