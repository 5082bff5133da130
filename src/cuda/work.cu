/* The memory of a step on the card: values, gradients and what layers need besides, each for the
 * time it is needed, in one block (graph/arena.h), as model/work.c places the CPU's.
 *
 * With n layers, in the order in which they run (first those that read the batch's rows), layer i
 * runs at moment i, the head at n, and on the way back layer i at 2n - i; prediction ends with the
 * head.  What is needed when:
 *
 *   a value     from its maker to its last reader, on the way back too where that looks at it again
 *               (its kind does, or it goes back through a ReLU that was done to it), or its maker
 *   a gradient  from the first of its readers on the way back to its maker
 *   kept        from the layer's forward to its backward
 *   front       at the layer's forward
 *   scratch     at the layer's backward; so is a gradient that is set aside, to be added
 *
 * Where rows move beside the way back (net.beside), what that reads and its scratch are needed until
 * it is waited for: up to the next layer that does so, on the way back.
 *
 * Where that does not fit n.limit, values are made again on the way back (graph/spill.h), as on the
 * CPU: such a value has a second place from the moment on at which its layer goes forward again.
 * Going forward again changes nothing else: running means move on the way back, and draws are a
 * function of the step.
 *
 * Where that is not enough either, the first layers do a lot of samples at a time (lots.cu): all their
 * values are of one lot, and made again at the first moment of their way back; the value that other
 * layers read, its gradient and what its layer keeps are of the whole batch from the first lot to the
 * last, and so are sums over lots.
 *
 * Rows whose state is the host's (state.cu) move up to the end of the step.
 *
 * Streams.  All layers run on the main stream, but for rows that move beside it, so that what ends at
 * a moment is done with before what begins later is written: there the order of launches is the order
 * of time.  The head's work on side streams (rows that move, best rows, learning: trainer.cu) begins
 * after its losses and lasts until the end of the step, beside the layers' way back.  Of this block it
 * reads one thing, the value that the head reads, which is therefore needed until the end of the step;
 * all else that it touches has memory of its own.  Steps do not overlap: all side streams are joined
 * before the next begins. */
#include "cuda/trainer.cuh"
#include "graph/arena.h"
#include "graph/spill.h"

#include <new>
#include <string.h>

enum { ALIGN = 256 };

struct span { /* moments, both included */
    int first, last;
};

struct list { /* what is to be placed, and where its place is noted */
    size_t n;
    struct wisp_item *items;
    size_t **places;
};

static void reach(struct span *s, int moment)
{
    if (moment < s->first) s->first = moment;
    if (moment > s->last) s->last = moment;
}

struct times {
    int head, end;
    int at[WISP_DLAYERS];                                 /* of layers, forward */
    int until[WISP_DLAYERS];                              /* when their rows have moved */
    struct span x[WISP_DLAYERS + 1], g[WISP_DLAYERS + 1]; /* of values */
};

static int back_of(const struct times &t, size_t i)
{
    return 2 * t.head - t.at[i];
}

static void order_layers(struct times *t, const struct wisp_dnet &n)
{
    int turn = 0;
    for (bool rows : { true, false })
        for (size_t i = 0; i < n.n_layers; i++)
            if (wisp_dreads_rows(n.layers[i]) == rows) t->at[i] = turn++;
    t->head = turn;
    t->end = n.training ? 2 * t->head : t->head;
}

/* The moment of layer i's way back, or the last before that of the next who waits for it. */
static void time_moves(struct times *t, const struct wisp_dnet &n)
{
    for (size_t i = 0; i < n.n_layers; i++) {
        const struct wisp_dnode &l = n.layers[i];
        t->until[i] = l.outside ? t->end : back_of(*t, i);
        if (l.outside || !n.beside || !l.kind->move) continue;
        t->until[i] = t->end;
        for (size_t k = 0; k < n.n_layers; k++) {
            const bool waits = n.layers[k].kind->move && n.acts[n.layers[k].out].learns;
            if (waits && back_of(*t, k) > back_of(*t, i) && back_of(*t, k) <= t->until[i])
                t->until[i] = back_of(*t, k) - 1;
        }
    }
}

/* Does the way back of a layer look at what it gave, or at its k-th value? */
static bool looks_up(const struct wisp_dnet &n, const struct wisp_dnode &l)
{
    const bool masks = l.relu && wisp_dbeside(n, l); /* by what it gave */
    return n.training && (l.kind->uses & WISP_USES_Y || masks || n.acts[l.out].l1 > 0);
}
static bool looks_at(const struct wisp_dnet &n, const struct wisp_dnode &l, int k)
{
    return n.training && ((l.kind->uses & WISP_USES_X && k < l.l->n_from) ||
                          (n.acts[l.from[k]].after.relu && !l.kind->gated));
}

static void time_values(struct times *t, const struct wisp_dnet &n)
{
    for (size_t i = 0; i < n.n_layers; i++) {
        const struct wisp_dnode &l = n.layers[i];
        t->x[l.out] = { t->at[i], t->at[i] };
        t->g[l.out] = { back_of(*t, i), t->until[i] };
        if (looks_up(n, l) && !wisp_din_lots(n, i)) reach(&t->x[l.out], back_of(*t, i));
    }
    for (size_t i = 0; i < n.n_layers; i++) {
        const struct wisp_dnode &l = n.layers[i];
        for (int k = 0; k < l.n_from; k++) {
            const int from = l.from[k];
            if (from == 0) continue;
            const bool stays = looks_at(n, l, k) && !wisp_din_lots(n, i);
            reach(&t->x[from], stays ? t->until[i] : t->at[i]);
            reach(&t->g[from], back_of(*t, i));
        }
    }
    reach(&t->x[n.last], t->end); /* for side streams, too */
    reach(&t->g[n.last], t->head);
    if (!n.lots.first) return;
    const int cut = n.layers[n.lots.first - 1].out; /* is of all lots */
    reach(&t->x[cut], 0);
    reach(&t->g[cut], t->end);
}

static void add(struct list *w, size_t *place, size_t floats, struct span s)
{
    if (!floats) return;
    struct wisp_item *item = &w->items[w->n];
    item->bytes = (floats * 4 + ALIGN - 1) / ALIGN * ALIGN; /* so places are multiples of it, too */
    item->first = s.first, item->last = s.last;
    w->places[w->n++] = place;
}

/* Of what does not learn nobody asks for it, but for the head, which makes it. */
static bool has_gradient(const struct wisp_dnet &n, int value)
{
    return n.training && (n.acts[value].learns || value == n.last);
}

/* Samples that layer i does at a time. */
static size_t samples_of(const struct wisp_dnet &n, size_t i)
{
    return wisp_din_lots(n, i) ? n.lots.samples : n.batch;
}

/* A layer, to which n.batch says how many samples it does. */
static void add_layer(struct list *w, struct wisp_dnet *n, const struct times &t, size_t i)
{
    struct wisp_dnode *l = &n->layers[i];
    struct wisp_dact *a = &n->acts[l->out];
    const struct span back = { back_of(t, i), back_of(t, i) };
    const bool lot = wisp_din_lots(*n, i), cut = lot && i + 1 == (size_t)n->lots.first;
    const size_t value = (cut ? n->lots.n * n->batch : n->batch) * wisp_dact_floats(*a);
    add(w, &a->x_at, value, t.x[l->out]);
    if (has_gradient(*n, l->out)) add(w, &a->g_at, value, t.g[l->out]);
    if (l->kind->front) add(w, &l->front_at, l->kind->front(*l, *n), { t.at[i], t.at[i] });
    if (l->kind->kept && cut) add(w, &l->kept_at, n->lots.n * wisp_dlots_kept(*n), { 0, t.end });
    else if (l->kind->kept)
        add(w, &l->kept_at, l->kind->kept(*l, *n),
            { t.at[i], n->training && !lot ? back.last : t.at[i] });
    if (n->training &&
        l->kind->scratch) /* which rows that move to the end of the step do not use */
        add(w, &l->scratch_at, l->kind->scratch(*l, *n),
            { back.first, l->outside ? back.last : t.until[i] });
    for (int k = 0; k < l->n_from && n->training; k++)
        if (l->aside[k])
            add(w, &l->gx_at[k], n->batch * wisp_dact_floats(n->acts[l->from[k]]), back);
}

/* Also where it had decided before, for another number of samples. */
static void add_in_place(struct wisp_dnode *l, const struct wisp_dnet &n)
{
    if (!(l->aside[0] || l->adds) || !n.acts[l->from[0]].learns) return;
    l->adds = l->kind->adds && l->kind->adds(*l, n);
    l->aside[0] = !l->adds;
}

/* ---- values that are made again ---- */

/* Operations, and bytes that are moved, in a microsecond, roughly: the choice hangs on how layers
 * compare. */
double wisp_dnet_forward_us(const struct wisp_dnet &n, const struct wisp_dnode &l)
{
    const double flops_a_us = n.math == WISP_DCONV_FP32 ? 3e7 : 3e8, bytes_a_us = 2e6;
    const struct wisp_dact &out = n.acts[l.out];
    double floats = (double)wisp_dact_floats(out);
    for (int k = 0; k < l.n_from; k++) floats += (double)wisp_dact_floats(n.acts[l.from[k]]);
    const double weights = l.l->n_params ? (double)wisp_param_n(&l.l->params[0]) : 0;
    const double pixels = out.h ? (double)(out.h * out.w) : 1;
    return (double)n.batch * (2 * weights * pixels / flops_a_us + 4 * floats / bytes_a_us);
}

/* ---- layers in lots ---- */

/* Are there sums over lots of what its rows move by? */
static bool sums(const struct wisp_dnet &n, const struct wisp_dnode &l)
{
    return wisp_din_lots(n, (size_t)(&l - n.layers)) && l.kind->weighed && n.acts[l.out].learns;
}

/* Which layers go forward again: those whose value the way back looks at, or another that goes forward
 * again reads, and those that keep something, but for the last, which has that of all lots. */
static void find_again(bool (&again)[WISP_DLAYERS], const struct wisp_dnet &n)
{
    const size_t first = (size_t)n.lots.first;
    bool wanted[WISP_DLAYERS + 1] = {}; /* values */
    for (size_t i = first; i-- > 0;) {
        const struct wisp_dnode &l = n.layers[i];
        again[i] = wanted[l.out] || looks_up(n, l) || (l.kind->kept && i + 1 < first);
        for (int k = 0; k < l.n_from; k++)
            wanted[l.from[k]] |= again[i] || (n.acts[l.out].learns && looks_at(n, l, k));
    }
}

static void add_again(struct list *w, struct wisp_dnet *n, size_t i, struct span x,
                      const struct times &t)
{
    struct wisp_dnode *l = &n->layers[i];
    struct wisp_dact *a = &n->acts[l->out];
    const size_t floats = n->batch * wisp_dact_floats(*a);
    l->again = x.first;
    add(w, &a->again_at, floats, x);
    if (l->kind->front) add(w, &l->again_front_at, l->kind->front(*l, *n), { x.first, x.first });
    if (l->kind->kept && i + 1 < (size_t)n->lots.first)
        add(w, &l->again_kept_at, l->kind->kept(*l, *n), { x.first, back_of(t, i) });
    n->n_again++, n->again_bytes += floats * 4;
}

/* Second values, and sums of what rows move by. */
static void add_lots(struct list *w, struct wisp_dnet *n, const struct times &t)
{
    const size_t first = (size_t)n->lots.first;
    const int moment = back_of(t, first - 1);
    struct span x[WISP_DLAYERS + 1];
    bool again[WISP_DLAYERS];
    find_again(again, *n);
    for (size_t i = 0; i < first; i++) {
        const struct wisp_dnode &l = n->layers[i];
        x[l.out] = { moment, looks_up(*n, l) ? back_of(t, i) : moment };
    }
    for (size_t i = 0; i < first; i++)
        for (int k = 0; k < n->layers[i].n_from; k++)
            if (n->layers[i].from[k] > 0 && looks_at(*n, n->layers[i], k))
                reach(&x[n->layers[i].from[k]], t.until[i]);
    for (size_t i = 0; i < first; i++) {
        struct wisp_dnode *l = &n->layers[i];
        size_t at;
        if (sums(*n, *l)) add(w, &l->sum_at, l->kind->weighed(&at, *l), { moment, t.end });
        if (!again[i]) continue;
        n->again_us += wisp_dnet_forward_us(*n, *l);
        const size_t whole = n->batch;
        n->batch = n->lots.samples;
        add_again(w, n, i, x[l->out], t);
        n->batch = whole;
    }
    add(w, &n->lots.now_at, wisp_parts(n->lots.n * sizeof *n->lots.now, 4), { 0, t.end });
}

/* ---- the choice of what else is made again ---- */

struct spilling {
    struct wisp_dnet *n;
    const struct times *t;
    struct list *w;
    size_t n_items; /* of the plan without it, and those */
    struct wisp_item *items;
    struct wisp_spill s;
    size_t base;    /* values are numbered by their makers' turns from this one on */
    int lots_again; /* of layers in lots, and so */
    size_t lots_bytes;
    double lots_us;
    struct wisp_spill_value values[WISP_DLAYERS];
    size_t layer[WISP_DLAYERS], item[WISP_DLAYERS];
    struct wisp_spill_read reads[WISP_DLAYERS * WISP_MAX_FROM];
    size_t other[2 * WISP_DLAYERS + 1];
    int maker[WISP_DLAYERS + 1]; /* of a value, its number */
};

static void look_back(struct wisp_spill_value *v, int moment, int until)
{
    if (v->back < 0 || moment < v->back) v->back = moment;
    if (until > v->last) v->last = until;
}

/* Of layers in lots the last value alone, which cannot be made again. */
static void list_values(struct spilling *p)
{
    const struct wisp_dnet &n = *p->n;
    p->base = n.lots.first ? (size_t)n.lots.first - 1 : 0;
    for (size_t i = p->base; i < n.n_layers; i++) {
        const struct wisp_dnode &l = n.layers[i];
        const size_t v_at = (size_t)p->t->at[i] - p->base;
        p->layer[v_at] = i;
        p->maker[l.out] = (int)v_at;
        for (size_t k = 0; k < p->n_items; k++)
            if (p->w->places[k] == &n.acts[l.out].x_at) p->item[v_at] = k;
        struct wisp_spill_value *v = &p->values[v_at];
        const struct wisp_item &item = p->items[p->item[v_at]];
        *v = { item.bytes, item.first, p->t->at[i], -1, -1, wisp_dnet_forward_us(n, l), 0, -1, -1 };
        if (wisp_din_lots(n, i)) {
            v->us = -1;
            continue;
        }
        if (l.kind->front) v->room = wisp_up(4 * l.kind->front(l, n), ALIGN);
        if (looks_up(n, l) && n.acts[l.out].learns)
            look_back(v, back_of(*p->t, i), back_of(*p->t, i));
    }
    p->s.n = n.n_layers - p->base;
    for (size_t i = (size_t)n.lots.first; i < n.n_layers; i++) {
        const struct wisp_dnode &l = n.layers[i];
        for (int k = 0; k < l.n_from; k++) {
            if (l.from[k] == 0) continue;
            const int from = p->maker[l.from[k]];
            struct wisp_spill_value *v = &p->values[from];
            if (p->t->at[i] > v->front) v->front = p->t->at[i];
            if (looks_at(n, l, k) && n.acts[l.out].learns)
                look_back(v, back_of(*p->t, i), p->t->until[i]);
            p->reads[p->s.n_reads++] = { p->maker[l.out], from };
        }
    }
    struct wisp_spill_value *last = &p->values[p->maker[n.last]]; /* side streams read it */
    last->us = -1, last->back = p->t->head, last->last = p->t->end;
}

/* The plan with what was chosen. */
static wisp_status take_choice(void *arg, size_t *bytes, wisp_error *err)
{
    struct spilling *p = (struct spilling *)arg;
    struct wisp_dnet *n = p->n;
    memcpy(p->w->items, p->items, p->n_items * sizeof *p->items);
    p->w->n = p->n_items;
    n->n_again = p->lots_again, n->again_bytes = p->lots_bytes;
    for (size_t k = 0; k < p->s.n; k++) {
        const struct wisp_spill_value &v = p->values[k];
        struct wisp_dnode *l = &n->layers[p->layer[k]];
        struct wisp_item *item = &p->w->items[p->item[k]];
        if (!wisp_din_lots(*n, p->layer[k])) l->again = v.again;
        if (v.again < 0 && v.until > item->last) item->last = v.until;
        if (v.again < 0) continue;
        item->last = v.front;
        add(p->w, &n->acts[l->out].again_at, v.bytes / 4, { v.again, v.until });
        if (v.room) add(p->w, &l->again_front_at, v.room / 4, { v.again, v.again });
        n->n_again++, n->again_bytes += v.bytes;
    }
    wisp_status st = wisp_arena_place(p->w->items, p->w->n, &n->work_bytes, &n->work_bound, err);
    *bytes = n->work_bytes;
    return st;
}

static wisp_status spill(struct wisp_dnet *n, const struct times &t, struct list *w,
                         wisp_error *err)
{
    struct spilling *p = new (std::nothrow) spilling();
    struct wisp_item *items = new (std::nothrow) wisp_item[w->n];
    wisp_status st = WISP_OK;
    if (!p || !items) st = wisp_dfail(err, WISP_ENOMEM, "no memory left for the card's plan");
    if (st == WISP_OK) {
        memcpy(items, w->items, w->n * sizeof *items);
        p->n = n, p->t = &t, p->w = w, p->n_items = w->n, p->items = items;
        p->lots_again = n->n_again, p->lots_bytes = n->again_bytes, p->lots_us = n->again_us;
        list_values(p);
        for (size_t i = 0; i < w->n; i++) {
            bool value = false;
            for (size_t k = 0; k < p->s.n; k++) value |= p->item[k] == i;
            for (int m = items[i].first; m <= items[i].last && !value; m++)
                p->other[m] += items[i].bytes;
        }
        p->s.values = p->values, p->s.reads = p->reads, p->s.other = p->other;
        p->s.n_moments = t.end + 1;
        st = wisp_spill_fit(&p->s, n->limit, take_choice, p, err);
        n->again_us = p->lots_us + p->s.us;
    }
    delete[] items;
    delete p;
    return st;
}

/* ---- the plan ---- */

/* What kinds make, for as many samples as their layers do at a time. */
static wisp_status make(struct wisp_dnet *n, wisp_error *err)
{
    const size_t whole = n->batch;
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < n->n_layers && st == WISP_OK; i++) {
        struct wisp_dnode *l = &n->layers[i];
        const size_t samples = samples_of(*n, i);
        if (!l->kind->make || l->made_for == samples) continue;
        if (l->made) l->kind->clear(l);
        l->made_for = samples;
        n->batch = samples;
        st = l->kind->make(l, *n, err);
        n->batch = whole;
    }
    return st;
}

static bool too_much(const struct wisp_dnet &n)
{
    return n.training && !n.keep && n.limit && n.work_bytes > n.limit;
}

static wisp_status add_all(struct list *w, struct wisp_dnet *n, struct times *t, wisp_error *err)
{
    const size_t whole = n->batch;
    order_layers(t, *n);
    time_moves(t, *n);
    time_values(t, *n);
    for (size_t i = 0; i < n->n_layers; i++) {
        n->layers[i].back = back_of(*t, i);
        n->batch = samples_of(*n, i);
        add_layer(w, n, *t, i);
        n->batch = whole;
    }
    if (n->lots.first) add_lots(w, n, *t);
    for (size_t i = 0; i < w->n && n->keep; i++) w->items[i].first = 0, w->items[i].last = t->end;
    return wisp_arena_place(w->items, w->n, &n->work_bytes, &n->work_bound, err);
}

wisp_status wisp_dnet_place(struct wisp_dnet *n, wisp_error *err)
{
    const size_t most = n->n_layers * (9 + WISP_MAX_FROM) + 1;
    struct times *t = new (std::nothrow) times();
    struct list w = { 0, new (std::nothrow) wisp_item[most](),
                      new (std::nothrow) size_t *[most]() };
    wisp_status st = WISP_OK;
    if (!t || !w.items || !w.places)
        st = wisp_dfail(err, WISP_ENOMEM, "no memory left for the card's plan");
    n->n_again = 0, n->again_bytes = 0, n->again_us = 0;
    if (st == WISP_OK) st = make(n, err);
    for (size_t i = 0; i < n->n_layers && st == WISP_OK; i++) {
        n->layers[i].again = -1;
        add_in_place(&n->layers[i], *n);
    }
    if (st == WISP_OK) st = add_all(&w, n, t, err);
    if (st == WISP_OK && too_much(*n)) st = spill(n, *t, &w, err);
    for (size_t i = 0; i < w.n && st == WISP_OK; i++) *w.places[i] = w.items[i].at;
    delete t;
    delete[] w.items;
    delete[] w.places;
    return st;
}

wisp_status wisp_dnet_plan(struct wisp_dnet *n, wisp_error *err)
{
    const size_t limit = n->limit;
    n->lanes = (n->batch + 31) / 32 * 32;
    n->lots = {};
    n->lots.stop = -1;
    n->limit = 0;
    wisp_status st = wisp_dnet_place(n, err);
    n->limit = limit;
    n->work_whole = n->work_bytes;
    if (st == WISP_OK && too_much(*n)) st = wisp_dnet_place(n, err);
    return st == WISP_OK && too_much(*n) ? wisp_dlots_choose(n, err) : st;
}

void wisp_dnet_clear(struct wisp_dnet *n)
{
    for (size_t i = 0; i < n->n_layers; i++)
        if (n->layers[i].made) n->layers[i].kind->clear(&n->layers[i]);
}

static float *place(char *work, size_t at)
{
    return work ? (float *)(work + at) : NULL;
}

void wisp_dnet_lay_work(struct wisp_dnet *n, void *block, size_t *at)
{
    char *work = (char *)wisp_dtake(block, at, n->work_bytes);
    n->work = work;
    n->lots.now = n->lots.first ? (struct wisp_dnow *)place(work, n->lots.now_at) : NULL;
    for (size_t i = 0; i < n->n_layers; i++) {
        struct wisp_dnode *l = &n->layers[i];
        struct wisp_dact *a = &n->acts[l->out];
        a->x = a->x_first = place(work, a->x_at);
        a->x_again = l->again < 0 ? NULL : place(work, a->again_at);
        a->g = has_gradient(*n, l->out) ? place(work, a->g_at) : NULL;
        l->front = l->front_first = place(work, l->front_at);
        l->front_again = l->again < 0 ? NULL : place(work, l->again_front_at);
        const bool again = l->again >= 0 && i + 1 < (size_t)n->lots.first;
        l->kept = l->kept_first = place(work, l->kept_at);
        l->kept_again = again ? place(work, l->again_kept_at) : NULL;
        l->sum = sums(*n, *l) ? place(work, l->sum_at) : NULL;
        l->scratch = n->training ? place(work, l->scratch_at) : NULL;
    }
    for (size_t i = 0; i < n->n_layers; i++) {
        struct wisp_dnode *l = &n->layers[i];
        for (int k = 0; k < l->n_from; k++)
            l->gx[k] = l->aside[k] ? place(work, l->gx_at[k]) : n->acts[l->from[k]].g;
    }
}
