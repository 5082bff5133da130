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
 * Streams.  All layers run on the main stream, but for rows that move beside it, so that what ends at
 * a moment is done with before what begins later is written: there the order of launches is the order
 * of time.  The head's work on side streams (rows that move, best rows, learning: trainer.cu) begins
 * after its losses and lasts until the end of the step, beside the layers' way back.  Of this block it
 * reads one thing, the value that the head reads, which is therefore needed until the end of the step;
 * all else that it touches has memory of its own.  Steps do not overlap: all side streams are joined
 * before the next begins. */
#include "cuda/trainer.cuh"
#include "graph/arena.h"

#include <new>

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
        t->until[i] = back_of(*t, i);
        if (!n.beside || !l.kind->move) continue;
        t->until[i] = t->end;
        for (size_t k = 0; k < n.n_layers; k++) {
            const bool waits = n.layers[k].kind->move && n.acts[n.layers[k].out].learns;
            if (waits && back_of(*t, k) > back_of(*t, i) && back_of(*t, k) <= t->until[i])
                t->until[i] = back_of(*t, k) - 1;
        }
    }
}

static void time_values(struct times *t, const struct wisp_dnet &n)
{
    for (size_t i = 0; i < n.n_layers; i++) {
        const struct wisp_dnode &l = n.layers[i];
        t->x[l.out] = { t->at[i], t->at[i] };
        t->g[l.out] = { back_of(*t, i), t->until[i] };
        const bool masks = l.relu && wisp_dbeside(n, l); /* by what it gave */
        if (n.training && (l.kind->uses & WISP_USES_Y || masks))
            reach(&t->x[l.out], back_of(*t, i));
    }
    for (size_t i = 0; i < n.n_layers; i++) {
        const struct wisp_dnode &l = n.layers[i];
        for (int k = 0; k < l.n_from; k++) {
            const int from = l.from[k];
            if (from == 0) continue;
            const bool again = (l.kind->uses & WISP_USES_X && k < l.l->n_from) ||
                               (n.acts[from].after.relu && !l.kind->gated);
            reach(&t->x[from], n.training && again ? t->until[i] : t->at[i]);
            reach(&t->g[from], back_of(*t, i));
        }
    }
    reach(&t->x[n.last], t->end); /* for side streams, too */
    reach(&t->g[n.last], t->head);
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

static void add_layer(struct list *w, struct wisp_dnet *n, const struct times &t, size_t i)
{
    struct wisp_dnode *l = &n->layers[i];
    struct wisp_dact *a = &n->acts[l->out];
    const struct span back = { back_of(t, i), back_of(t, i) };
    add(w, &a->x_at, n->batch * wisp_dact_floats(*a), t.x[l->out]);
    if (has_gradient(*n, l->out)) add(w, &a->g_at, n->batch * wisp_dact_floats(*a), t.g[l->out]);
    if (l->kind->front) add(w, &l->front_at, l->kind->front(*l, *n), { t.at[i], t.at[i] });
    if (l->kind->kept)
        add(w, &l->kept_at, l->kind->kept(*l, *n), { t.at[i], n->training ? back.last : t.at[i] });
    if (n->training && l->kind->scratch)
        add(w, &l->scratch_at, l->kind->scratch(*l, *n), { back.first, t.until[i] });
    for (int k = 0; k < l->n_from && n->training; k++)
        if (l->aside[k])
            add(w, &l->gx_at[k], n->batch * wisp_dact_floats(n->acts[l->from[k]]), back);
}

static void add_in_place(struct wisp_dnode *l, const struct wisp_dnet &n)
{
    if (!l->aside[0] || !n.acts[l->from[0]].learns) return;
    l->adds = l->kind->adds && l->kind->adds(*l, n);
    l->aside[0] = !l->adds;
}

wisp_status wisp_dnet_plan(struct wisp_dnet *n, wisp_error *err)
{
    const size_t most = n->n_layers * (5 + WISP_MAX_FROM) + 1;
    struct times *t = new (std::nothrow) times();
    struct list w = { 0, new (std::nothrow) wisp_item[most](),
                      new (std::nothrow) size_t *[most]() };
    wisp_status st = WISP_OK;
    if (!t || !w.items || !w.places)
        st = wisp_dfail(err, WISP_ENOMEM, "no memory left for the card's plan");
    n->lanes = (n->batch + 31) / 32 * 32;
    for (size_t i = 0; i < n->n_layers && st == WISP_OK; i++)
        if (n->layers[i].kind->make) st = n->layers[i].kind->make(&n->layers[i], *n, err);
    for (size_t i = 0; i < n->n_layers && st == WISP_OK; i++) add_in_place(&n->layers[i], *n);
    if (st == WISP_OK) {
        order_layers(t, *n);
        time_moves(t, *n);
        time_values(t, *n);
        for (size_t i = 0; i < n->n_layers; i++) add_layer(&w, n, *t, i);
        for (size_t i = 0; i < w.n && n->keep; i++) w.items[i].first = 0, w.items[i].last = t->end;
        st = wisp_arena_place(w.items, w.n, &n->work_bytes, &n->work_bound, err);
    }
    for (size_t i = 0; i < w.n && st == WISP_OK; i++) *w.places[i] = w.items[i].at;
    delete t;
    delete[] w.items;
    delete[] w.places;
    return st;
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
    for (size_t i = 0; i < n->n_layers; i++) {
        struct wisp_dnode *l = &n->layers[i];
        struct wisp_dact *a = &n->acts[l->out];
        a->x = place(work, a->x_at);
        a->g = has_gradient(*n, l->out) ? place(work, a->g_at) : NULL;
        l->front = place(work, l->front_at);
        l->kept = place(work, l->kept_at);
        l->scratch = n->training ? place(work, l->scratch_at) : NULL;
    }
    for (size_t i = 0; i < n->n_layers; i++) {
        struct wisp_dnode *l = &n->layers[i];
        for (int k = 0; k < l->n_from; k++)
            l->gx[k] = l->aside[k] ? place(work, l->gx_at[k]) : n->acts[l->from[k]].g;
    }
}
