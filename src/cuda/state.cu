/* The optimiser's state of large layers, kept in the host's memory: it goes to the card and back some
 * rows at a time, beside the rest of the way back, and rows move while theirs is there.
 *
 *   up     chunk 0 | chunk 1 | chunk 2 | ...      copies to a slot of a ring
 *   move             chunk 0 | chunk 1 | ...      rows and state move, as if the state lay here
 *   down                       chunk 0 | ...      copies back; the slot is free
 *
 * So of that state the card has room for the ring alone.  Numbers are the same as without.
 *
 * It is kept in memory of its own that the card may copy from: layers in their order, m before v.  The
 * host's arrays are not registered where they lie, because a copy of what lies beside them would
 * then begin in a page that is registered and end in one that is not, which CUDA refuses. */
#include "cuda/kind.cuh"

#include <string.h>

/* ---- which ---- */

static const struct wisp_param &param_of(const struct wisp_dnode &l)
{
    return l.l->params[0];
}

/* Arrays of it: m, or m and v. */
static size_t arrays(const struct wisp_dnode &l)
{
    return (size_t)(param_of(l).m != NULL) + (param_of(l).v != NULL);
}

static size_t bytes_of(const struct wisp_dnode &l)
{
    return arrays(l) * wisp_param_n(&param_of(l)) * 4;
}

static bool can(const struct wisp_dnet &n, const struct wisp_dnode &l)
{
    return n.training && !n.ranks && l.kind->some && l.kind->some(l, n) &&
           bytes_of(l) >= n.state.least && bytes_of(l) > 0;
}

/* Rows of a chunk. */
static size_t rows_of(const struct wisp_dnet &n, const struct wisp_dnode &l)
{
    const size_t unit = l.kind->some(l, n), bytes = unit * param_of(l).cols * arrays(l) * 4;
    return wisp_most(n.state.slot / bytes, 1) * unit;
}

bool wisp_dstate_outside(struct wisp_dnet *n, size_t layers)
{
    struct wisp_dstate *t = &n->state;
    t->n = t->bytes = t->slot_floats = 0;
    for (size_t i = 0; i < n->n_layers; i++) n->layers[i].outside = false;
    for (; t->n < layers; t->n++) {
        struct wisp_dnode *largest = NULL;
        for (size_t i = 0; i < n->n_layers; i++) {
            struct wisp_dnode *l = &n->layers[i];
            if (l->outside || !can(*n, *l)) continue;
            if (!largest || bytes_of(*l) > bytes_of(*largest)) largest = l;
        }
        if (!largest) return false;
        largest->outside = true;
        t->bytes += bytes_of(*largest);
        t->slot_floats = wisp_most(t->slot_floats, rows_of(*n, *largest) * arrays(*largest) *
                                                       param_of(*largest).cols);
    }
    return true;
}

/* Bytes that a link moves each way in a microsecond, roughly; copies that are hidden behind other work
 * count, too, but little. */
static const double BYTES_A_US = 5e4, HIDDEN = 0.1;

double wisp_dstate_us(const struct wisp_dnet &n)
{
    return (double)n.state.bytes / BYTES_A_US;
}

/* What comes after them on the way back takes about twice as long as forward. */
double wisp_dstate_cost(const struct wisp_dnet &n)
{
    double beside = 0;
    for (size_t i = 0; i < n.n_layers && !n.layers[i].outside; i++)
        beside += 2 * wisp_dnet_forward_us(n, n.layers[i]);
    const double us = wisp_dstate_us(n);
    return us > beside ? us - (1 - HIDDEN) * beside : HIDDEN * us;
}

/* ---- in a step ---- */

cudaError_t wisp_dstate_open(struct wisp_dstate *t)
{
    int low = 0, high = 0;
    cudaError_t e = cudaDeviceGetStreamPriorityRange(&low, &high);
    /* Its kernels are short, and copies wait for them. */
    for (cudaStream_t *s : { &t->up, &t->move, &t->down })
        if (e == cudaSuccess) e = cudaStreamCreateWithPriority(s, cudaStreamNonBlocking, high);
    for (cudaEvent_t *events : { t->filled, t->moved, t->freed })
        for (int i = 0; i < WISP_DSLOTS && e == cudaSuccess; i++)
            e = cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming);
    for (cudaEvent_t *event : { &t->ready, &t->done })
        if (e == cudaSuccess) e = cudaEventCreateWithFlags(event, cudaEventDisableTiming);
    return e;
}

void wisp_dstate_close(struct wisp_dstate *t)
{
    for (cudaEvent_t *events : { t->filled, t->moved, t->freed })
        for (int i = 0; i < WISP_DSLOTS; i++)
            if (events[i]) cudaEventDestroy(events[i]);
    for (cudaEvent_t event : { t->ready, t->done })
        if (event) cudaEventDestroy(event);
    for (cudaStream_t s : { t->up, t->move, t->down })
        if (s) cudaStreamDestroy(s);
}

static void wait(cudaStream_t who, cudaEvent_t event, cudaStream_t for_whom)
{
    cudaEventRecord(event, for_whom);
    cudaStreamWaitEvent(who, event, 0);
}

/* What is kept of a layer's. */
static float *home_of(const struct wisp_dnet &n, const struct wisp_dnode &l)
{
    float *home = n.state.home;
    for (const struct wisp_dnode *k = n.layers; k < &l; k++)
        if (k->outside) home += bytes_of(*k) / sizeof *home;
    return home;
}

/* m, then v, of some rows. */
static void copy(const struct wisp_dnode &l, float *home, size_t first, size_t rows, float *slot,
                 bool down, cudaStream_t s)
{
    const struct wisp_param &p = param_of(l);
    const size_t n = rows * p.cols;
    home += first * p.cols;
    for (size_t k = arrays(l); k > 0; k--, home += wisp_param_n(&p), slot += n) {
        if (down) cudaMemcpyAsync(home, slot, n * 4, cudaMemcpyDeviceToHost, s);
        else cudaMemcpyAsync(slot, home, n * 4, cudaMemcpyHostToDevice, s);
    }
}

void wisp_dstate_move(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    const struct wisp_dstate &t = n.state;
    const size_t all = param_of(l).rows, most = rows_of(n, l);
    float *home = home_of(n, l);
    cudaEventRecord(t.ready, s);
    cudaStreamWaitEvent(t.up, t.ready, 0);
    cudaStreamWaitEvent(t.move, t.ready, 0);
    for (size_t first = 0; first < all; first += most, t.turn++) {
        const size_t at = t.turn % WISP_DSLOTS, rows = all - first < most ? all - first : most;
        float *slot = t.slots + at * t.slot_floats, *m = param_of(l).m ? slot : NULL,
              *v = param_of(l).v ? slot + (m ? rows * param_of(l).cols : 0) : NULL;
        if (t.turn >= WISP_DSLOTS) cudaStreamWaitEvent(t.up, t.freed[at], 0);
        copy(l, home, first, rows, slot, false, t.up);
        wait(t.move, t.filled[at], t.up);
        l.kind->move_some(n, l, first, rows, m, v, t.move);
        wait(t.down, t.moved[at], t.move);
        copy(l, home, first, rows, slot, true, t.down);
        cudaEventRecord(t.freed[at], t.down);
    }
}

void wisp_dstate_wait(const struct wisp_dnet &n, cudaStream_t s)
{
    if (n.state.turn == 0) return;
    n.state.turn = 0;
    wait(s, n.state.done, n.state.down);
}

/* ---- where it is kept ---- */

cudaError_t wisp_dstate_keep(struct wisp_dstate *t)
{
    return t->bytes ? cudaHostAlloc((void **)&t->home, t->bytes, cudaHostAllocDefault)
                    : cudaSuccess;
}

void wisp_dstate_drop(struct wisp_dstate *t)
{
    if (t->home) cudaFreeHost(t->home);
    t->home = NULL;
}

void wisp_dstate_copy(const struct wisp_dcopy *c, const struct wisp_dnet &n)
{
    float *at = n.state.home;
    for (size_t i = 0; at && c->e == cudaSuccess && i < n.n_layers; i++) {
        if (!n.layers[i].outside) continue;
        const struct wisp_param &p = param_of(n.layers[i]);
        for (float *host : { p.m, p.v }) {
            if (!host) continue;
            if (c->down) memcpy(host, at, wisp_param_n(&p) * 4);
            else memcpy(at, host, wisp_param_n(&p) * 4);
            at += wisp_param_n(&p);
        }
    }
}
