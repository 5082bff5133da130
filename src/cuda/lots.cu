/* The first layers of a step, a lot of samples at a time, as model/lots.c has it for the CPU: which
 * layers and how many samples, by the same search, and the way through them.
 *
 *   forward   for each lot: the first layers; their last value goes where the whole batch's lies
 *   back      after all other layers, for each lot: the first layers forward once more, and back, from
 *             its part of the gradient; after the last their rows move, by the sums over all lots, in
 *             their order
 *
 * To the layers' kernels a lot is a batch: n.batch and n.now are its own meanwhile.  The last lots of
 * a short batch may have no samples; gradients of samples beyond the batch's are 0 in all lots. */
#include "cuda/kind.cuh"
#include "graph/lots.h"

enum { THREADS = 256 };

/* ---- which ---- */

/* Does the layer look at each sample by itself, and can what its rows move by be summed over lots? */
static bool can_be(const struct wisp_dnet &n, const struct wisp_dnode &l)
{
    const struct wisp_dact &out = n.acts[l.out];
    const unsigned uses = l.l->kind->uses;
    const bool lists = wisp_dreads_rows(l) && !(uses & WISP_IMAGES);
    bool moves = false;
    for (int k = 0; k < l.l->n_params; k++) moves |= l.l->params[k].role == WISP_TRAINED;
    return uses & WISP_BY_SAMPLE && !lists && !out.after.drops && !(out.l1 > 0) &&
           (!moves || l.kind->weighed);
}

static int first_that_cannot(const struct wisp_dnet &n)
{
    int i = 0;
    while (i < (int)n.n_layers && can_be(n, n.layers[i])) i++;
    return i;
}

/* Can the first layers be apart from the others?  Of what they give those, and the head, read the last
 * value only, which learns. */
bool wisp_dlots_can_end(const struct wisp_dnet &n, int first)
{
    const int cut = n.layers[first - 1].out;
    bool reads = n.last == cut;
    if (first > first_that_cannot(n) || !n.acts[cut].learns) return false;
    if (wisp_dact_floats(n.acts[cut]) % 4)
        return false; /* lots of it lie at multiples of 16 bytes */
    for (int i = 0; i < first - 1; i++)
        if (n.layers[i].out == n.last) return false;
    for (size_t i = (size_t)first; i < n.n_layers; i++) {
        const struct wisp_dnode &l = n.layers[i];
        if (wisp_dreads_rows(l)) return false;
        for (int k = 0; k < l.n_from; k++) {
            reads |= l.from[k] == cut;
            for (int m = 0; m < first - 1; m++)
                if (l.from[k] == n.layers[m].out) return false;
        }
    }
    return reads;
}

static bool can_end(void *arg, int first)
{
    return wisp_dlots_can_end(*(const struct wisp_dnet *)arg, first);
}

static wisp_status place(void *arg, struct wisp_lots_choice *c, wisp_error *err)
{
    struct wisp_dnet *n = (struct wisp_dnet *)arg;
    n->lots.first = c->first, n->lots.samples = c->samples;
    n->lots.n = c->first ? wisp_parts(n->batch, c->samples) : 0;
    const wisp_status st = wisp_dnet_place(n, err);
    c->bytes = n->work_bytes, c->us = n->again_us;
    return st;
}

wisp_status wisp_dlots_choose(struct wisp_dnet *n, wisp_error *err)
{
    /* Ranks add up what rows move by when a layer has made it, which is of all samples. */
    if (n->ranks) return WISP_OK;
    const struct wisp_lots_search search = {
        (int)n->n_layers + 1, n->batch, n->limit, can_end, place, n
    };
    const struct wisp_lots_choice now = { 0, 0, n->work_bytes, n->again_us };
    const wisp_status st = wisp_lots_choose(&search, now, err);
    const int stop = first_that_cannot(*n);
    if (n->lots.first == 0 && stop < (int)n->n_layers) n->lots.stop = n->layers[stop].l->number;
    return st;
}

/* ---- through them ---- */

/* What each lot is of the batch. */
__global__ static void __launch_bounds__(THREADS)
    deal(const struct wisp_dnow *now, struct wisp_dnow *lots, uint32_t n, uint32_t samples)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    struct wisp_dnow lot = *now;
    const uint32_t first = i * samples, left = now->n > first ? now->n - first : 0;
    lot.n = left < samples ? left : samples;
    lot.id += first;
    if (lot.moved) lot.moved += first;
    lots[i] = lot;
}

/* sum (+)= from, of a lot that has samples. */
__global__ static void __launch_bounds__(THREADS)
    add_lot(const struct wisp_dnow *lot, bool is_first, float *sum, const float *from, size_t n)
{
    const size_t at = 4 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    if (at >= n || lot->n == 0) return;
    float4 x = *(const float4 *)(from + at);
    if (!is_first) {
        const float4 before = *(const float4 *)(sum + at);
        x.x = before.x + x.x, x.y = before.y + x.y, x.z = before.z + x.z, x.w = before.w + x.w;
    }
    *(float4 *)(sum + at) = x;
}

void wisp_dlots_add(const struct wisp_dnet &n, const struct wisp_dnode &l, cudaStream_t s)
{
    size_t at;
    const size_t floats = l.kind->weighed(&at, l);
    add_lot<<<(unsigned)wisp_parts(floats / 4, THREADS), THREADS, 0, s>>>(
        n.now, n.lots.at == 0, l.sum, l.scratch + at, floats);
}

struct whole { /* what is the batch's, while a lot has its own */
    const struct wisp_dnow *now;
    size_t batch;
    float *x, *g, *kept; /* of the last layer, which are there for all samples */
};

/* The last of these layers, and its value. */
static const struct wisp_dnode &last_of(const struct wisp_dnet &n)
{
    return n.layers[n.lots.first - 1];
}
static const struct wisp_dact &cut_of(const struct wisp_dnet &n)
{
    return n.acts[last_of(n).out];
}

size_t wisp_dlots_kept(const struct wisp_dnet &n)
{
    const struct wisp_dnode &l = last_of(n);
    const size_t whole = n.batch;
    n.batch = n.lots.samples;
    const size_t floats = l.kind->kept ? wisp_up(l.kind->kept(l, n), 64) : 0;
    n.batch = whole;
    return floats;
}

static struct whole whole_of(const struct wisp_dnet &n)
{
    return { n.now, n.batch, cut_of(n).x_first, cut_of(n).g, last_of(n).kept_first };
}

static void enter(const struct wisp_dnet &n, const struct whole &w, size_t lot)
{
    const struct wisp_dact &cut = cut_of(n);
    const size_t before = lot * n.lots.samples * wisp_dact_floats(cut);
    n.lots.at = lot;
    n.now = n.lots.now + lot, n.batch = n.lots.samples;
    cut.x_first = w.x + before, cut.g = w.g + before;
    last_of(n).kept = last_of(n).kept_first = w.kept + lot * wisp_dlots_kept(n);
}

static void leave(const struct wisp_dnet &n, const struct whole &w)
{
    const struct wisp_dact &cut = cut_of(n);
    n.now = w.now, n.batch = w.batch;
    cut.x = cut.x_first = w.x, cut.g = w.g;
    last_of(n).kept = last_of(n).kept_first = w.kept;
}

void wisp_dlots_forward(const struct wisp_dnet &n, cudaStream_t s)
{
    const struct whole w = whole_of(n);
    deal<<<(unsigned)wisp_parts(n.lots.n, THREADS), THREADS, 0, s>>>(
        n.now, n.lots.now, (uint32_t)n.lots.n, (uint32_t)n.lots.samples);
    for (size_t lot = 0; lot < n.lots.n; lot++) {
        enter(n, w, lot);
        for (bool rows : { true, false })
            for (int i = 0; i < n.lots.first; i++)
                if (wisp_dreads_rows(n.layers[i]) == rows)
                    wisp_dnet_go_forward(n, n.layers[i], false, s);
    }
    leave(n, w);
}

/* The last lot may have room for samples that the batch has not: nobody else makes their gradient. */
static void clear_beyond(const struct wisp_dnet &n, const struct whole &w, cudaStream_t s)
{
    const size_t floats = wisp_dact_floats(cut_of(n)), beyond = n.lots.n * n.lots.samples - w.batch;
    if (beyond) cudaMemsetAsync(w.g + w.batch * floats, 0, beyond * floats * 4, s);
}

void wisp_dlots_back(const struct wisp_dnet &n, cudaStream_t s)
{
    const struct whole w = whole_of(n);
    clear_beyond(n, w, s);
    for (size_t lot = 0; lot < n.lots.n; lot++) {
        wisp_dnet_wait_for_side(n, s); /* what the lot before is read of is written again */
        enter(n, w, lot);
        for (int i = n.lots.first; i-- > 0;) wisp_dnet_go_back(n, n.layers[i], s);
    }
    leave(n, w);
    wisp_dnet_wait_for_side(n, s);
    for (int i = 0; i < n.lots.first; i++)
        if (n.layers[i].sum) n.layers[i].kind->move(n, n.layers[i], s);
}
