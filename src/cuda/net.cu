/* A net's layers and parameters on the card: what lies where, and the copies between host and card.
 *
 * The ReLU and the dropout that follow a layer become a part of it ('after'); where they come in
 * another order they are a layer of their own.  A trainer's layers, and those of a scorer that uses
 * its weights, are the same ones: only the values of a batch differ. */
#include "cuda/trainer.cuh"

#include <new>

static_assert((int)WISP_DLAYERS == (int)WISP_CUDA_LAYERS, "all layers of a net have room");

/* ---- parameters ---- */

struct wisp_dparam wisp_dparam_lay(const struct wisp_cuda_param *p, bool outside, void *block,
                                   size_t *at)
{
    size_t n = outside ? 0 : p->rows * p->cols;
    struct wisp_dparam d = {};
    d.rows = p->rows, d.cols = p->cols;
    if (p->w) d.w = (float *)wisp_dtake(block, at, n * 4);
    if (p->b16) d.b16 = (__nv_bfloat16 *)wisp_dtake(block, at, n * 2);
    if (p->m) d.m = (float *)wisp_dtake(block, at, n * 4);
    if (p->v) d.v = (float *)wisp_dtake(block, at, n * 4);
    if (p->g2) d.g2 = (float *)wisp_dtake(block, at, p->rows * 4);
    if (p->count) d.count = (uint32_t *)wisp_dtake(block, at, p->rows * 4);
    return d;
}

void wisp_dcopy_bytes(struct wisp_dcopy *c, void *card, void *host, size_t bytes)
{
    if (!card || !host || !bytes || c->e != cudaSuccess) return;
    c->e = c->down ? cudaMemcpy(host, card, bytes, cudaMemcpyDeviceToHost)
                   : cudaMemcpy(card, host, bytes, cudaMemcpyHostToDevice);
}

void wisp_dcopy_param(struct wisp_dcopy *c, const struct wisp_dparam *d,
                      const struct wisp_cuda_param *p)
{
    size_t n = p->rows * p->cols;
    wisp_dcopy_bytes(c, d->w, p->w, n * 4);
    wisp_dcopy_bytes(c, d->b16, p->b16, n * 2);
    wisp_dcopy_bytes(c, d->m, p->m, n * 4);
    wisp_dcopy_bytes(c, d->v, p->v, n * 4);
    wisp_dcopy_bytes(c, d->g2, p->g2, p->rows * 4);
    wisp_dcopy_bytes(c, d->count, p->count, p->rows * 4);
}

/* ---- layers ---- */

static struct wisp_dhidden *add_layer(struct wisp_dnet *n, enum wisp_dkind kind,
                                      const struct wisp_cuda_hidden *from)
{
    struct wisp_dhidden *l = &n->layers[n->n_layers++];
    *l = {};
    l->kind = kind, l->n_in = from->n_in, l->n_out = from->n_out, l->fan = from->fan;
    l->after = wisp_dafter_of(false, 0, 0);
    return l;
}

/* A dropout or a ReLU: a part of the layer before, if nothing there comes after it. */
static void add_after(struct wisp_dnet *n, const struct wisp_cuda_hidden *from)
{
    struct wisp_dhidden *l = &n->layers[n->n_layers - 1];
    bool relu = from->kind == WISP_CUDA_KIND_RELU;
    if (l->after.drops || (relu && l->after.relu)) l = add_layer(n, WISP_DSAME, from);
    if (relu) l->after.relu = true;
    else l->after = wisp_dafter_of(l->after.relu, from->share, from->number);
}

/* What the layer has of its own: parameters and connections, and (by input) when training. */
static void lay_layer(struct wisp_dhidden *l, const struct wisp_cuda_hidden *from, bool training,
                      void *block, size_t *at)
{
    l->w = wisp_dparam_lay(&from->w, false, block, at);
    l->bias = wisp_dparam_lay(&from->bias, false, block, at);
    if (l->kind != WISP_DWIRES) return;
    size_t edges = l->n_out * l->fan;
    l->in = (int32_t *)wisp_dtake(block, at, edges * 4);
    if (!training) return;
    l->start = (uint32_t *)wisp_dtake(block, at, (l->n_in + 1) * 4);
    l->edge = (uint32_t *)wisp_dtake(block, at, edges * 4);
    l->output = (int32_t *)wisp_dtake(block, at, edges * 4);
}

static void lay_values(struct wisp_dnet *n, struct wisp_dhidden *l, bool training, void *block,
                       size_t *at)
{
    l->h = (float *)wisp_dtake(block, at, n->batch * l->n_out * 4);
    l->back = NULL;
    if (training) l->back = (float *)wisp_dtake(block, at, n->batch * l->n_out * 4);
    if (l->kind == WISP_DWIRES) l->turned = (float *)wisp_dtake(block, at, l->n_in * n->lanes * 4);
}

/* The lender's layer in the same place, but for what comes after it. */
static void borrow_layer(struct wisp_dnet *n, const struct wisp_dnet *lender)
{
    struct wisp_dhidden *l = &n->layers[n->n_layers];
    *l = lender->layers[n->n_layers++];
    l->after = wisp_dafter_of(false, 0, 0);
}

void wisp_dnet_lay(struct wisp_dnet *n, const struct wisp_cuda_net *net, bool training,
                   const struct wisp_dnet *lender, void *block, size_t *at)
{
    static const enum wisp_dkind kinds[] = { WISP_DINPUT, WISP_DDENSE, WISP_DWIRES };
    size_t scratch = 0;
    n->n_layers = 0;
    n->lanes = (n->batch + 31) / 32 * 32;
    for (size_t i = 0; i < net->n_layers; i++) {
        const struct wisp_cuda_hidden *from = &net->layers[i];
        if (from->kind >= WISP_CUDA_KIND_RELU) add_after(n, from);
        else if (lender) borrow_layer(n, lender);
        else lay_layer(add_layer(n, kinds[from->kind], from), from, training, block, at);
    }
    for (size_t i = 0; i < n->n_layers; i++) {
        struct wisp_dhidden *l = &n->layers[i];
        lay_values(n, l, training, block, at);
        if (!training) l->after = wisp_dafter_of(l->after.relu, 0, 0);
        if (training && wisp_hidden_scratch(*n, *l) > scratch)
            scratch = wisp_hidden_scratch(*n, *l);
    }
    n->scratch = (float *)wisp_dtake(block, at, scratch * 4);
}

/* The connections of a sparse layer filed by input, as layer/sparse.c does. */
static void copy_wires(struct wisp_dcopy *c, const struct wisp_dhidden *l,
                       const struct wisp_cuda_hidden *from)
{
    wisp_dcopy_bytes(c, l->in, (void *)from->in, l->n_out * l->fan * 4);
    if (!l->start || c->e != cudaSuccess) return;
    size_t edges = l->n_out * l->fan;
    uint32_t *start = new (std::nothrow) uint32_t[l->n_in + 2 + 2 * edges]();
    if (!start) {
        c->e = cudaErrorMemoryAllocation;
        return;
    }
    uint32_t *edge = start + l->n_in + 2, *output = edge + edges;
    for (size_t e = 0; e < edges; e++) start[from->in[e] + 2]++;
    for (size_t i = 0; i < l->n_in; i++) start[i + 2] += start[i + 1];
    for (size_t e = 0; e < edges; e++) { /* start[i + 1] moves from i's first edge to its last */
        uint32_t place = start[from->in[e] + 1]++;
        edge[place] = (uint32_t)e, output[place] = (uint32_t)(e / l->fan);
    }
    wisp_dcopy_bytes(c, l->start, start, (l->n_in + 1) * 4);
    wisp_dcopy_bytes(c, l->edge, edge, edges * 4);
    wisp_dcopy_bytes(c, l->output, output, edges * 4);
    delete[] start;
}

void wisp_dnet_copy(struct wisp_dcopy *c, const struct wisp_dnet *n,
                    const struct wisp_cuda_net *net)
{
    const struct wisp_dhidden *l = n->layers;
    for (size_t i = 0; i < net->n_layers; i++) {
        const struct wisp_cuda_hidden *from = &net->layers[i];
        if (from->kind >= WISP_CUDA_KIND_RELU) continue;
        while (l->kind == WISP_DSAME) l++;
        wisp_dcopy_param(c, &l->w, &from->w);
        wisp_dcopy_param(c, &l->bias, &from->bias);
        if (l->kind == WISP_DWIRES && !c->down) copy_wires(c, l, from);
        l++;
    }
}
