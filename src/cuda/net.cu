/* A graph's layers and parameters on the card: who does what, what lies where, the copies between
 * host and card, and the way through the layers.
 *
 * A trainer's layers, and those of a scorer that uses its weights, are the same ones: only the
 * values of a batch differ. */
#include "cuda/kind.cuh"

#include <new>
#include <string.h>

/* ---- parameters ---- */

struct wisp_dparam wisp_dparam_lay(const struct wisp_param *p, bool outside, void *block,
                                   size_t *at)
{
    size_t n = outside ? 0 : wisp_param_n(p);
    struct wisp_dparam d = {};
    d.rows = p->rows, d.cols = p->cols, d.decay = p->decay;
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

void wisp_dcopy_param(struct wisp_dcopy *c, const struct wisp_dparam *d, const struct wisp_param *p)
{
    size_t n = wisp_param_n(p);
    wisp_dcopy_bytes(c, d->w, p->w, n * 4);
    wisp_dcopy_bytes(c, d->b16, p->b16, n * 2);
    wisp_dcopy_bytes(c, d->m, p->m, n * 4);
    wisp_dcopy_bytes(c, d->v, p->v, n * 4);
    wisp_dcopy_bytes(c, d->g2, p->g2, p->rows * 4);
    wisp_dcopy_bytes(c, d->count, p->count, p->rows * 4);
}

/* ---- parameters in an order of the card's ---- */

/* false: as on the host. */
static bool order_of(struct wisp_dorder *o, const struct wisp_dnet &n, const struct wisp_dnode &l,
                     int k)
{
    return l.kind->order && l.kind->order(o, l, n, k);
}

static void turn(const struct wisp_dorder &o, size_t rows, float *card, float *host, bool down)
{
    for (size_t r = 0; r < rows; r++, card += o.pixels * o.pitch)
        for (size_t c = 0; c < o.channels; c++)
            for (size_t q = 0; q < o.pixels; q++, host++) {
                float *there = &card[q * o.pitch + c];
                if (down) *host = *there;
                else *there = *host;
            }
}

static void copy_turned(struct wisp_dcopy *c, const struct wisp_dorder &o, size_t rows, float *card,
                        float *host)
{
    const size_t n = o.rows * o.pixels * o.pitch;
    if (!card || !host || c->e != cudaSuccess) return;
    float *between = new (std::nothrow) float[n]();
    if (!between) {
        c->e = cudaErrorMemoryAllocation;
        return;
    }
    if (!c->down) turn(o, rows, between, host, false);
    wisp_dcopy_bytes(c, card, between, n * 4);
    if (c->down && c->e == cudaSuccess) turn(o, rows, between, host, true);
    delete[] between;
}

__global__ static void round_all(__nv_bfloat16 *to, const float *from, size_t n)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = __float2bfloat16_rn(from[i]);
}

/* One number per row; those of rows that the host does not have are 0. */
static void copy_rows(struct wisp_dcopy *c, const struct wisp_dorder &o, size_t rows, void *card,
                      void *host)
{
    if (card && host && !c->down && c->e == cudaSuccess) c->e = cudaMemset(card, 0, o.rows * 4);
    wisp_dcopy_bytes(c, card, host, rows * 4);
}

static void copy_ordered(struct wisp_dcopy *c, const struct wisp_dorder &o,
                         const struct wisp_dparam *d, const struct wisp_param *p)
{
    copy_turned(c, o, p->rows, d->w, p->w);
    copy_turned(c, o, p->rows, d->m, p->m);
    copy_turned(c, o, p->rows, d->v, p->v);
    copy_rows(c, o, p->rows, d->g2, p->g2);
    copy_rows(c, o, p->rows, d->count, p->count);
}

/* What is multiplied in bf16. */
static void round_copy(const struct wisp_dparam &d)
{
    const size_t n = d.rows * d.cols;
    if (d.copy) round_all<<<(unsigned)wisp_parts(n, 256), 256>>>(d.copy, d.w, n);
}

/* ---- layers ---- */

/* The value that layer i gives: what its work was added to, if it is a part of another, and it. */
static void give(struct wisp_dnet *n, const struct wisp_graph *g, int i, bool part,
                 struct wisp_dnode *maker, const struct wisp_card_kind *kind)
{
    const struct wisp_layer *l = &g->layers[i];
    const struct wisp_act *is = &g->acts[i + 1];
    struct wisp_dact *a = &n->acts[i + 1];
    *a = {};
    a->width = is->width, a->learns = is->learns, a->l1 = n->training ? l->l1 : 0;
    if (is->shape.rank == 3) {
        a->c = is->shape.dim[0], a->h = is->shape.dim[1], a->w = is->shape.dim[2];
        a->pitch = wisp_up(a->c, 4);
        a->width = a->h * a->w * a->pitch;
        a->half = n->math == WISP_DCONV_BF16;
    }
    if (part && maker->kind->masks) { /* which takes no dropout */
        maker->relu |= kind->is == WISP_FUSE_RELU;
        a->after = wisp_dafter_of(false, 0, 0);
        return;
    }
    a->after = part ? n->acts[l->from[0]].after : wisp_dafter_of(false, 0, 0);
    if (kind->after) kind->after(&a->after, l, n->training);
    a->after.width = a->width;
}

/* Who sets a value's gradient, and whose are added to it. */
static void share_gradients(struct wisp_dnet *n)
{
    bool set[WISP_DLAYERS + 1] = {};
    set[n->last] = true; /* by the head */
    for (size_t i = n->n_layers; i-- > 0;) {
        struct wisp_dnode *l = &n->layers[i];
        for (int k = 0; k < l->n_from; k++) {
            const int from = l->from[k];
            const bool wanted = from == n->last || n->acts[from].learns;
            l->aside[k] = from > 0 && (wanted ? set[from] : !l->kind->skips);
            set[from] = true;
        }
    }
}

/* bf16 is for planes, and for what stands beside them: units alone stay as they are. */
bool wisp_dnet_has_planes(const struct wisp_graph *g)
{
    for (int i = 1; i < g->n_layers; i++)
        if (g->acts[i].shape.rank == 3) return true;
    return false;
}

/* Below it the library's launches take longer than products by dense.cu. */
static const size_t LARGE = (size_t)1 << 18;
/* State that is worth a ring, and a piece of it: copied in 0.08 ms, at 55 GB/s. */
static const size_t LEAST_OUTSIDE = (size_t)64 << 20, SLOT = (size_t)4 << 20;

void wisp_dnet_make(struct wisp_dnet *n, const struct wisp_graph *g, bool training)
{
    const struct wisp_card_kind *kinds[WISP_DLAYERS + 1];
    unsigned is[WISP_DLAYERS + 1], takes[WISP_DLAYERS + 1];
    int into[WISP_DLAYERS + 1];
    size_t place[WISP_DLAYERS + 1]; /* of layers in n */
    for (int i = 0; i < g->n_layers; i++) {
        kinds[i] = wisp_card_kind_of(g, &g->layers[i]);
        is[i] = kinds[i]->is, takes[i] = kinds[i]->takes;
    }
    wisp_graph_fuse(into, g, is, takes);
    n->training = training, n->n_layers = 0;
    if (!wisp_dnet_has_planes(g) && n->math == WISP_DCONV_BF16) n->math = WISP_DCONV_FP32;
    if (!n->large) n->large = LARGE;
    if (!n->state.least) n->state.least = LEAST_OUTSIDE;
    if (!n->state.slot) n->state.slot = SLOT;
    n->last = wisp_graph_head(g)->from[0];
    n->acts[0] = {};
    n->acts[0].width = g->n_features;
    for (int i = 0; i < g->n_layers - 1; i++) {
        if (into[i] == i) {
            struct wisp_dnode *l = &n->layers[place[i] = n->n_layers++];
            *l = {};
            l->l = &g->layers[i], l->kind = kinds[i];
            l->n_from = l->l->n_from;
            memcpy(l->from, l->l->from, sizeof l->from);
        } else if (is[i] == WISP_FUSE_ADD) {
            struct wisp_dnode *l = &n->layers[place[into[i]]];
            l->from[l->n_from++] = g->layers[i].from[1];
        }
        n->layers[place[into[i]]].out = i + 1;
        give(n, g, i, into[i] != i, &n->layers[place[into[i]]], kinds[i]);
    }
    share_gradients(n);
}

/* What the layer has of its own, for all who use it. */
static void lay_layer(struct wisp_dnode *l, const struct wisp_dnet &n, void *block, size_t *at)
{
    for (int k = 0; k < l->l->n_params; k++) {
        struct wisp_param p = l->l->params[k];
        struct wisp_dorder o;
        if (order_of(&o, n, *l, k)) {
            p.rows = o.rows, p.cols = o.pixels * o.pitch;
            p.n = p.rows * p.cols;
        }
        if (k == 0 && l->outside) p.m = p.v = NULL;
        if (p.role == WISP_FIXED) l->ids[k] = (int32_t *)wisp_dtake(block, at, p.n * 4);
        else if (p.role == WISP_STARTS) l->rows = (int64_t *)wisp_dtake(block, at, p.n * 8);
        else l->param[k] = wisp_dparam_lay(&p, false, block, at);
        if (k == 0 && n.math == WISP_DCONV_BF16 && l->kind->halves && l->kind->halves(*l))
            l->param[k].copy = (__nv_bfloat16 *)wisp_dtake(block, at, p.n * 2);
    }
    if (l->kind->lay) l->kind->lay(l, n, block, at);
}

static void borrow_layer(struct wisp_dnode *l, const struct wisp_dnode &lender)
{
    memcpy(l->param, lender.param, sizeof l->param);
    memcpy(l->own, lender.own, sizeof l->own);
    memcpy(l->ids, lender.ids, sizeof l->ids);
    l->rows = lender.rows;
}

void wisp_dnet_lay(struct wisp_dnet *n, const struct wisp_dnet *lender, void *block, size_t *at)
{
    for (size_t i = 0; i < n->n_layers; i++) {
        if (lender) borrow_layer(&n->layers[i], lender->layers[i]);
        else lay_layer(&n->layers[i], *n, block, at);
    }
    if (!lender && n->state.n)
        n->state.slots = (float *)wisp_dtake(block, at, WISP_DSLOTS * n->state.slot_floats * 4);
    size_t within = 0; /* the lender's, of which nothing is taken */
    if (lender && n->work_bytes <= lender->work_bytes) wisp_dnet_lay_work(n, lender->work, &within);
    else wisp_dnet_lay_work(n, block, at);
}

void wisp_dnet_copy(struct wisp_dcopy *c, const struct wisp_dnet *n)
{
    for (size_t i = 0; i < n->n_layers; i++) {
        const struct wisp_dnode *l = &n->layers[i];
        for (int k = 0; k < l->l->n_params; k++) {
            const struct wisp_param *p = &l->l->params[k];
            const bool fixed = p->role == WISP_FIXED, starts = p->role == WISP_STARTS;
            struct wisp_dorder o;
            if (order_of(&o, *n, *l, k)) copy_ordered(c, o, &l->param[k], p);
            else if (!fixed && !starts) wisp_dcopy_param(c, &l->param[k], p);
            if (!c->down && c->e == cudaSuccess) round_copy(l->param[k]);
            if (fixed && !c->down) wisp_dcopy_bytes(c, l->ids[k], p->ids, wisp_param_n(p) * 4);
            if (starts && !c->down) wisp_dcopy_bytes(c, l->rows, p->start, wisp_param_n(p) * 8);
        }
        if (l->kind->fill && !c->down) l->kind->fill(c, *l);
    }
    wisp_dstate_copy(c, *n);
}

wisp_status wisp_dnet_status(const struct wisp_dnet &n, wisp_error *err)
{
    const wisp_status st = n.refused;
    if (st != WISP_OK && err) *err = n.why;
    n.refused = WISP_OK;
    return st;
}

/* ---- through the layers ---- */

void wisp_dnet_go_forward(const struct wisp_dnet &n, const struct wisp_dnode &l, bool again,
                          cudaStream_t s)
{
    const struct wisp_dact &out = n.acts[l.out];
    out.x = again ? out.x_again : out.x_first;
    l.front = again ? l.front_again : l.front_first;
    l.again_now = again;
    l.kept = again && l.kept_again ? l.kept_again : l.kept_first;
    out.live = again ? wisp_dlive{} : out.live_first;
    l.kind->forward(n, l, s);
    if (out.live.at && !l.kind->counts)
        wisp_dlive_count(wisp_dplanes_of(n, out), out.live, out.x, WISP_DLIVE_EVERY, s);
}

void wisp_dnet_forward(const struct wisp_dnet &n, bool rows, cudaStream_t s)
{
    if (n.lots.first && !rows) wisp_dlots_forward(n, s);
    for (size_t i = 0; i < n.n_layers; i++)
        if (!wisp_din_lots(n, i) && wisp_dreads_rows(n.layers[i]) == rows)
            wisp_dnet_go_forward(n, n.layers[i], false, s);
}

/* Values that were not kept, and that the way back looks at from this moment on: their layers go
 * forward again, in the order of their turns. */
static void make_again(const struct wisp_dnet &n, int moment, cudaStream_t s)
{
    for (bool rows : { true, false })
        for (size_t i = 0; i < n.n_layers && n.n_again; i++)
            if (n.layers[i].again == moment && wisp_dreads_rows(n.layers[i]) == rows)
                wisp_dnet_go_forward(n, n.layers[i], true, s);
}

void wisp_dnet_wait_for_side(const struct wisp_dnet &n, cudaStream_t s)
{
    if (!n.side.begun) return;
    n.side.begun = false;
    cudaEventRecord(n.side.done, n.side.stream);
    cudaStreamWaitEvent(s, n.side.done, 0);
}
/* What was begun on s is done before the other stream goes on. */
static cudaStream_t side_after(const struct wisp_dnet &n, cudaStream_t s)
{
    if (!n.beside) return s;
    n.side.begun = true;
    cudaEventRecord(n.side.ready, s);
    cudaStreamWaitEvent(n.side.stream, n.side.ready, 0);
    return n.side.stream;
}

/* Rows of layers that do a lot at a time move after the last. */
static void move(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    if (l.outside) wisp_dstate_move(n, l, s);
    else if (l.sum) wisp_dlots_add(n, l, side_after(n, s));
    else l.kind->move(n, l, side_after(n, s));
}

void wisp_dnet_go_back(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    if (!n.acts[l.out].learns) return;
    if (l.kind->move) wisp_dnet_wait_for_side(n, s); /* its memory is free from here on (work.cu) */
    make_again(n, l.back, s);
    if (n.acts[l.out].l1 > 0) wisp_same_more_zeros(n, n.acts[l.out], s);
    if (l.kind->weigh) l.kind->weigh(n, l, side_after(n, s));
    l.kind->backward(n, l, s);
    if (l.kind->move) move(n, l, s);
    for (int k = 0; k < l.n_from; k++)
        if (l.aside[k] && n.acts[l.from[k]].g) wisp_join_gradient(n, n.acts[l.from[k]], l.gx[k], s);
}

void wisp_dnet_backward(const struct wisp_dnet &n, bool rows, cudaStream_t s)
{
    for (size_t i = n.n_layers; i-- > 0;)
        if (!wisp_din_lots(n, i) && wisp_dreads_rows(n.layers[i]) == rows)
            wisp_dnet_go_back(n, n.layers[i], s);
    if (n.lots.first && !rows) wisp_dlots_back(n, s);
    if (!rows) return;
    wisp_dnet_wait_for_side(n, s);
    wisp_dstate_wait(n, s);
}
