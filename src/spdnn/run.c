/* A deep sparse net on cores.
 *
 *     inputs --> panel: 16 to 64 inputs side by side, x (neurons, lanes), in a thread's cache
 *                  |  layer by layer, x --> y --> x  (kernels.h: groups)
 *                  |  lanes that are all zero, or all at the clip, are done
 *                  v
 *               few lanes left? they wait, packed, before that layer until a panel of them is full
 *
 * So a thread's panels are nearly full at any depth, and the work follows the live inputs.  What
 * becomes of an input does not depend on the lane it has, so neither threads nor waiting change a
 * result.  Operations: 1 addition per edge and lane, one load for up to 16 edges; bytes: two panels
 * that stay in the second-level cache. */
#include "spdnn/spdnn.h"
#include "base/bounds.h"
#include "base/file.h"
#include "base/mem.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    CACHE = 512 * 1024,     /* bytes of two panels that stay near */
    SMALL = 64 * 1024,      /* bytes of a panel that is touched before the clock starts */
    WAITING = 64,           /* layers that lanes can wait before */
    WAIT_BYTES = 256 << 20, /* for waiting lanes, a thread */
};

#define SAY_S 10 /* seconds between words on how far it is */

struct panel {
    float *x;      /* (width, lanes) */
    size_t *row;   /* (lanes) the input in each lane */
    size_t n;      /* lanes in use: they come first */
    uint64_t live; /* bit j: lane j is not done */
};

struct worker {
    struct panel now, next;
    struct panel *wait; /* (n_wait) lanes about to enter layer i + 1 */
    struct wisp_lanes seen;
    uint64_t work;
};

struct run {
    const struct wisp_spnet *net;
    const struct wisp_spinputs *in;
    const struct wisp_kernels *k;
    struct wisp_sprun *r;
    size_t lanes, n_wait, per_task, n_out;
    size_t tally_words, tally_planes; /* of a first layer that counts bits; 0: it does not */
    struct worker *workers;
    /* for long runs */
    const struct wisp_context *ctx;
    atomic_size_t begun; /* inputs */
    double t0, said;     /* when the first thread last said how far it is */
};

static struct wisp_groups groups_of(const struct wisp_splayer *l, float clip)
{
    return (struct wisp_groups){ l->n_groups, l->in_start, l->in,     l->out_start,
                                 l->out,      l->weight,   l->w,      l->w_start,
                                 l->linear,   l->bias,     l->biases, clip };
}

static uint64_t all_of(size_t n)
{
    return n < 64 ? (1ull << n) - 1 : ~0ull;
}

static size_t count(uint64_t bits)
{
    return (size_t)__builtin_popcountll(bits);
}

/* ---- inputs into a panel ---- */

static void fill_bits(const struct run *u, struct panel *p, size_t first)
{
    const struct wisp_spinputs *in = u->in;
    for (size_t c = 0; c < u->lanes; c += WISP_PANEL) {
        const uint64_t *row[WISP_PANEL];
        for (size_t j = 0; j < WISP_PANEL; j++) { /* lanes past the end repeat the last input */
            const size_t lane = c + j < p->n ? c + j : p->n - 1;
            row[j] = in->bits + (first + lane) * in->words;
        }
        if (u->tally_words) u->k->tally(p->x + c, u->lanes, row, u->tally_words, u->tally_planes);
        else u->k->spread(p->x + c, u->lanes, row, in->words);
    }
}

static void fill_numbers(const struct run *u, struct panel *p, size_t first)
{
    memset(p->x, 0, (size_t)u->in->width * u->lanes * sizeof *p->x);
    for (size_t j = 0; j < p->n; j++)
        for (uint64_t k = u->in->start[first + j]; k < u->in->start[first + j + 1]; k++)
            p->x[u->in->id[k] * u->lanes + j] = u->in->value[k];
}

static void fill(const struct run *u, struct panel *p, size_t first, size_t n)
{
    p->n = n;
    p->live = all_of(n);
    for (size_t j = 0; j < n; j++) p->row[j] = first + j;
    if (u->in->bits) fill_bits(u, p, first);
    else fill_numbers(u, p, first);
}

/* ---- lanes that are done ---- */

static void finish(const struct run *u, const struct panel *p, size_t lane, bool ends)
{
    u->r->ends[p->row[lane]] = ends;
    if (!u->r->values) return;
    float *to = u->r->values + p->row[lane] * u->n_out;
    for (size_t i = 0; i < u->n_out; i++) to[i] = p->x[i * u->lanes + lane];
}

/* A vector that is all zero or all at the clip ends as such, whatever the widths of later layers.
 */
static void retire(const struct run *u, struct panel *p, size_t lane, float value)
{
    const size_t row = p->row[lane];
    u->r->ends[row] = value != 0;
    for (size_t i = 0; u->r->values && i < u->n_out; i++) u->r->values[row * u->n_out + i] = value;
    p->live &= ~(1ull << lane);
}

static void drop(const struct run *u, struct worker *w, size_t next)
{
    struct panel *p = &w->now;
    const uint64_t zero = next >= u->net->zero_from ? w->seen.zero & p->live : 0;
    for (uint64_t m = zero; m; m &= m - 1) retire(u, p, (size_t)__builtin_ctzll(m), 0);
    const uint64_t full = next >= u->net->full_from ? w->seen.full & p->live : 0;
    for (uint64_t m = full; m; m &= m - 1) retire(u, p, (size_t)__builtin_ctzll(m), u->net->clip);
}

/* ---- waiting ---- */

/* Moves live lanes of 'from' behind those of 'to', as many as there is room for. */
static void move(const struct run *u, struct panel *to, struct panel *from, size_t rows)
{
    for (size_t c = 0; c < from->n && to->n < u->lanes; c += WISP_PANEL) {
        uint8_t which[WISP_PANEL];
        size_t n = 0;
        for (uint64_t m = from->live >> c & 0xffff; m && to->n + n < u->lanes; m &= m - 1) {
            const size_t lane = (size_t)__builtin_ctzll(m);
            to->row[to->n + n] = from->row[c + lane];
            from->live &= ~(1ull << (c + lane));
            which[n++] = (uint8_t)lane;
        }
        if (n) u->k->pack(to->x + to->n, u->lanes, from->x + c, u->lanes, which, n, rows);
        to->n += n;
    }
    to->live = all_of(to->n);
}

static void swap(struct panel *a, struct panel *b)
{
    const struct panel c = *a;
    *a = *b;
    *b = c;
}

/* The live lanes of the panel join those that wait before layer 'next'.  True: enough have come,
 * and the panel is a full one again. */
static bool wait_here(const struct run *u, struct worker *w, size_t next)
{
    struct panel *p = &w->now, *q = &w->wait[next - 1];
    const size_t rows = u->net->layers[next].n_in;
    move(u, q, p, rows);
    if (q->n < u->lanes) return false;
    /* q goes on; what is left of p waits in its place */
    w->next.n = 0;
    move(u, &w->next, p, rows);
    swap(p, q);
    swap(q, &w->next);
    return true;
}

/* The panel enters layer 'l' and goes on until its lanes are done or wait. */
static void advance(const struct run *u, struct worker *w, size_t l)
{
    const size_t n_layers = u->net->n_layers;
    for (; l < n_layers; l++) {
        const struct wisp_splayer *layer = &u->net->layers[l];
        const bool looks = l + 1 == n_layers || (u->r->drop && !layer->linear);
        const struct wisp_groups g = groups_of(layer, u->net->clip);
        u->k->groups(w->next.x, w->now.x, u->lanes, &g, looks ? &w->seen : NULL);
        float *x = w->now.x;
        w->now.x = w->next.x;
        w->next.x = x;
        w->work += count(w->now.live);
        if (l + 1 == n_layers || !looks) continue;
        drop(u, w, l + 1);
        if (w->now.live == 0) return;
        if (l + 1 <= u->n_wait && count(w->now.live) <= u->lanes * 5 / 8 && !wait_here(u, w, l + 1))
            return;
    }
    for (uint64_t m = w->now.live; m; m &= m - 1) {
        const size_t lane = (size_t)__builtin_ctzll(m);
        finish(u, &w->now, lane, !(w->seen.zero >> lane & 1));
    }
}

/* Lanes without an input: zeros, lest something slow (denormals) lies there. */
static void clear_rest(const struct run *u, struct panel *p, size_t rows)
{
    const size_t rest = u->lanes - p->n;
    for (size_t i = 0; i < rows && rest; i++)
        memset(p->x + i * u->lanes + p->n, 0, rest * sizeof *p->x);
}

/* Every ten seconds, by the caller's thread. */
static void show(struct run *u, size_t more, int thread)
{
    const size_t begun = atomic_fetch_add(&u->begun, more) + more;
    if (thread != 0) return;
    const double now = wisp_now(), share = (double)begun / (double)u->in->n;
    if (now - u->said < SAY_S) return;
    u->said = now;
    wisp_say(u->ctx, "%.0f %% of %zu inputs, %.0f s left", 100 * share, u->in->n,
             (now - u->t0) * (1 - share) / share);
}

static void task(void *arg, size_t t, int thread)
{
    struct run *u = arg;
    struct worker *w = &u->workers[thread];
    const size_t end = (t + 1) * u->per_task < u->in->n ? (t + 1) * u->per_task : u->in->n;
    for (size_t i = t * u->per_task; i < end; i += u->lanes) {
        const size_t n = end - i < u->lanes ? end - i : u->lanes;
        fill(u, &w->now, i, n);
        if (u->tally_words) w->work += n; /* counting bits was the first layer */
        advance(u, w, u->tally_words ? 1 : 0);
        show(u, n, thread);
    }
    for (size_t i = 0; i < u->n_wait; i++) {
        if (w->wait[i].n == 0) continue;
        swap(&w->now, &w->wait[i]);
        w->wait[i].n = 0;
        clear_rest(u, &w->now, u->net->layers[i + 1].n_in);
        advance(u, w, i + 1);
    }
}

/* ---- room ---- */

static bool make_panel(struct panel *p, size_t width, size_t lanes)
{
    const bool small = width * lanes * sizeof *p->x <= SMALL;
    p->x =
        small ? wisp_zalloc(width * lanes, sizeof *p->x) : wisp_alloc(width * lanes, sizeof *p->x);
    p->row = wisp_alloc(lanes, sizeof *p->row);
    p->n = 0;
    return p->x && p->row;
}

static void clear_panel(struct panel *p)
{
    wisp_free(p->x);
    wisp_free(p->row);
}

static bool make_worker(struct worker *w, const struct run *u, size_t width)
{
    bool all = make_panel(&w->now, width, u->lanes) && make_panel(&w->next, width, u->lanes);
    w->wait = wisp_zalloc(u->n_wait, sizeof *w->wait);
    for (size_t i = 0; all && w->wait && i < u->n_wait; i++)
        all = make_panel(&w->wait[i], width, u->lanes);
    return all && w->wait;
}

static void clear_worker(struct worker *w, const struct run *u)
{
    clear_panel(&w->now);
    clear_panel(&w->next);
    for (size_t i = 0; w->wait && i < u->n_wait; i++) clear_panel(&w->wait[i]);
    wisp_free(w->wait);
}

/* Bits whose groups are a fixed stride apart are counted as they are read. */
static void find_tally(struct run *u)
{
    const struct wisp_splayer *l = &u->net->layers[0];
    const uint32_t n = l->n_groups;
    if (!u->in->bits || !l->linear || l->w || l->weight != 1 || l->biases || l->bias != 0 ||
        n == 0 || n % 64 || l->n_out != n || l->n_in % n || l->n_in / n > 255 ||
        u->net->n_layers == 1)
        return;
    for (uint32_t g = 0; g < n; g++) {
        if (l->in_start[g + 1] - l->in_start[g] != l->n_in / n || l->out[g] != g) return;
        for (uint32_t k = 0; k < l->n_in / n; k++)
            if (l->in[l->in_start[g] + k] != g + k * n) return;
    }
    u->tally_words = n / 64;
    u->tally_planes = l->n_in / n;
}

/* Widest panel that a thread's cache keeps twice: where groups have few outputs, more lanes share
 * an id and a weight. */
static size_t choose_lanes(const struct wisp_spnet *net, size_t width, size_t n)
{
    uint64_t outs = 0, all = 0;
    for (size_t i = 0; i < net->n_layers; i++) {
        outs += net->layers[i].n_out;
        all += net->layers[i].n_groups;
    }
    size_t lanes = outs < 4 * all ? WISP_PANEL_MOST : WISP_PANEL;
    while (lanes > WISP_PANEL && (2 * width * lanes * sizeof(float) > CACHE || n <= lanes / 2))
        lanes /= 2;
    return lanes;
}

static wisp_status check(const struct wisp_spnet *net, const struct wisp_spinputs *x,
                         wisp_error *err)
{
    if (net->n_layers == 0)
        return wisp_fail(err, WISP_EINVAL, "a net without layers cannot be run");
    if (x->width != net->layers[0].n_in)
        return wisp_fail(err, WISP_EINVAL, "inputs of %u values; the net's first layer has %u",
                         x->width, net->layers[0].n_in);
    return WISP_OK;
}

wisp_status wisp_spnet_run(struct wisp_sprun *r, const struct wisp_spnet *net,
                           const struct wisp_spinputs *x, const struct wisp_context *ctx,
                           wisp_error *err)
{
    wisp_status st = check(net, x, err);
    if (st != WISP_OK) return st;
    struct run u = { .net = net, .in = x, .k = ctx->k, .r = r, .ctx = ctx };
    const int threads = wisp_pool_threads(ctx->pool);
    u.n_out = net->layers[net->n_layers - 1].n_out;
    find_tally(&u);
    /* rows of a panel of bits come in whole words */
    size_t width = wisp_up(wisp_spnet_width(net), 64);
    if (u.tally_words) {
        width = 0;
        for (size_t i = 0; i < net->n_layers; i++)
            if (net->layers[i].n_out > width) width = net->layers[i].n_out;
    }
    u.lanes = choose_lanes(net, width, x->n);
    const size_t panel_bytes = width * u.lanes * sizeof(float);
    u.n_wait = r->drop && net->n_layers > 1 ? net->n_layers - 1 : 0;
    if (u.n_wait > WAITING) u.n_wait = WAITING;
    if (u.n_wait * panel_bytes > WAIT_BYTES) u.n_wait = WAIT_BYTES / panel_bytes;
    u.per_task = (x->n / ((size_t)threads * 4) + u.lanes) / u.lanes * u.lanes;
    if (threads == 1) u.per_task = x->n;
    u.workers = wisp_zalloc((size_t)threads, sizeof *u.workers);
    bool all = u.workers != NULL;
    for (int i = 0; all && i < threads; i++) all = make_worker(&u.workers[i], &u, width);
    if (all) {
        u.t0 = u.said = wisp_now();
        if (x->n) wisp_parallel_for(ctx->pool, wisp_parts(x->n, u.per_task), task, &u);
        r->seconds = wisp_now() - u.t0;
        r->work = 0;
        for (int i = 0; i < threads; i++) r->work += u.workers[i].work;
    } else
        st = wisp_fail_mem(err, (size_t)threads * (u.n_wait + 2) * panel_bytes, "panels of inputs");
    for (int i = 0; u.workers && i < threads; i++) clear_worker(&u.workers[i], &u);
    wisp_free(u.workers);
    return st;
}
