/* The memory of a step: values, gradients, scratch of layers and of threads, each for the time it is
 * needed, in one block (graph/arena.h).
 *
 * With n layers, of which the last is the head, layer i runs at moment i, the head at n - 1, and on
 * the way back layer i at 2n - 2 - i; prediction ends with the head.  What is needed when:
 *
 *   a value     from its maker to its last reader, on the way back too where that, or the maker,
 *               looks at it again (struct wisp_layer_kind, uses)
 *   a gradient  from the last of the value's readers to its maker, both on the way back; of a value
 *               below which nothing is trained there is none
 *   scratch     from the layer's forward to its backward, or in one of them alone
 *   threads'    at each of the two by itself
 *   an aside    a gradient that is added to others: at one moment
 *
 * A layer that may work in place gives its result where its only input lies.  Where borders are on
 * (base/cut.h), a part is closed off when its time begins and looked at when it ends.
 *
 * Where all of it does not fit net->sizes.memory, values are made again on the way back
 * (graph/spill.h): such a value is a second part, from the moment at which its layers run forward
 * once more, before the layer whose way back it is, to its last reader.
 *
 * Where that is not enough either, the first layers do a lot of samples at a time (lots.c): all their
 * values are of one lot, and made again at the first moment of their way back; the value that other
 * layers read, and its gradient, are of the whole batch from the first lot to the last. */
#include "base/bounds.h"
#include "base/mem.h"
#include "graph/spill.h"
#include "model/net.h"

#include <string.h>

enum { FORWARD = WISP_WORK_FORWARD, BACKWARD = WISP_WORK_BACK, AGAIN = WISP_WORK_AGAIN };

static int back_at(const struct wisp_net *net, int layer)
{
    return 2 * net->n_layers - 2 - layer;
}

/* Bytes of n parts of so many floats, as they are cut; *apart: floats from one to the next. */
static size_t parts_bytes(size_t floats, int n, size_t *apart)
{
    struct wisp_cut c = { 0 };
    for (int i = 0; i < n; i++) wisp_cut_take(&c, floats, sizeof(float));
    if (apart) *apart = c.at / (size_t)n / sizeof(float);
    return c.at;
}

/* The next part; its number. */
static int add(struct wisp_work *w, const char *what, int layer, size_t floats, int parts,
               int first, int last)
{
    w->parts[w->n] = (struct wisp_part){ what, layer, floats, parts };
    w->items[w->n] = (struct wisp_item){ .bytes = parts_bytes(floats, parts, NULL),
                                         .first = first,
                                         .last = last };
    return w->n++;
}

static void reach(struct wisp_item *item, int first, int last)
{
    if (first < item->first) item->first = first;
    if (last > item->last) item->last = last;
}

/* ---- lifetimes ---- */

/* May the result of layer i lie where its only input does? */
static bool in_place(const struct wisp_net *net, int i)
{
    const struct wisp_layer *l = &net->layers[i];
    const struct wisp_act *in = &net->acts[l->from[0]];
    return l->kind->uses & WISP_IN_PLACE && l->from[0] > 0 && in->n_readers == 1 &&
           in->form == net->acts[i + 1].form && in->floats == net->acts[i + 1].floats &&
           !net->sizes.keep;
}

bool wisp_work_in_place(const struct wisp_net *net, int i)
{
    const struct wisp_layer *l = &net->layers[i];
    return in_place(net, i) && !(net->sizes.training && l->kind->uses & WISP_USES_X) &&
           !(net->sizes.training && (net->layers[l->from[0] - 1].kind->uses & WISP_USES_Y ||
                                     net->layers[l->from[0] - 1].l1 > 0));
}

/* Has the value a gradient?  The head always makes one of what it reads. */
static bool has_gradient(const struct wisp_net *net, int value)
{
    return net->sizes.training && value > 0 &&
           (net->acts[value].learns || value == net->layers[net->n_layers - 1].from[0]);
}

/* Does the way back of a layer, if there is one, look at what it read, or gave? */
static bool looks(const struct wisp_net *net, int layer, unsigned at)
{
    const struct wisp_layer *l = &net->layers[layer];
    const bool uses = l->kind->uses & at && !l->undone, pushes = at & WISP_USES_Y && l->l1 > 0;
    return net->sizes.training && !l->kind->head && net->acts[layer + 1].learns && (uses || pushes);
}

/* The moment at which a reader is done with a value. */
static int read_until(const struct wisp_net *net, int reader)
{
    return looks(net, reader, WISP_USES_X) ? back_at(net, reader) : reader;
}

/* Is layer i one of those that do a lot at a time? */
static bool in_lots(const struct wisp_net *net, int i)
{
    return i < net->work.lots.first;
}

/* Samples that a value is there for at a time. */
static size_t samples_of(const struct wisp_net *net, int value)
{
    return value < net->work.lots.first ? net->work.lots.samples : net->sizes.batch;
}

static void add_values(struct wisp_work *w, const struct wisp_net *net)
{
    for (int i = 0; i < net->n_layers - 1; i++) {
        const struct wisp_layer *l = &net->layers[i];
        size_t floats = samples_of(net, i + 1) * net->acts[i + 1].floats;
        int until = looks(net, i, WISP_USES_Y) && !in_lots(net, i) ? back_at(net, i) : i;
        w->x[i + 1] = wisp_work_in_place(net, i) ? w->x[l->from[0]] : -1;
        if (w->x[i + 1] < 0) w->x[i + 1] = add(w, "values", i, floats, 1, i, until);
        else reach(&w->items[w->x[i + 1]], i, until);
        w->g[i + 1] = in_place(net, i) ? w->g[l->from[0]] : -1;
        if (!has_gradient(net, i + 1)) continue;
        if (w->g[i + 1] < 0)
            w->g[i + 1] = add(w, "gradients", i, floats, 1, back_at(net, i), back_at(net, i));
        else reach(&w->items[w->g[i + 1]], back_at(net, i), back_at(net, i));
    }
    for (int i = 0; i < net->n_layers; i++)
        for (int k = 0; k < net->layers[i].n_from; k++) {
            int value = net->layers[i].from[k];
            if (value == 0) continue;
            reach(&w->items[w->x[value]], i, in_lots(net, i) ? i : read_until(net, i));
            if (has_gradient(net, value))
                reach(&w->items[w->g[value]], back_at(net, i), back_at(net, i));
        }
    if (!w->lots.first) return;
    reach(&w->items[w->x[w->lots.first]], 0, 0);
    reach(&w->items[w->g[w->lots.first]], back_at(net, 0), back_at(net, 0));
}

static void add_scratch(struct wisp_work *w, const struct wisp_net *net, int threads)
{
    for (int i = 0; i < net->n_layers; i++) {
        const struct wisp_layer *l = &net->layers[i];
        const int back = back_at(net, i);
        const bool returns = net->sizes.training && back != i;
        w->scratch[i] = w->threads[FORWARD][i] = w->threads[BACKWARD][i] = -1;
        w->front[i] = w->back[i] = -1;
        if (l->scratch_floats) {
            const size_t floats =
                wisp_parts(l->scratch_floats * samples_of(net, i), net->sizes.batch);
            w->scratch[i] = add(w, "scratch", i, floats, 1, i, returns ? back : i);
        }
        if (l->front_floats) w->front[i] = add(w, "scratch", i, l->front_floats, 1, i, i);
        if (l->back_floats && returns)
            w->back[i] = add(w, "scratch", i, l->back_floats, 1, back, back);
        if (!l->thread_floats) continue;
        w->threads[FORWARD][i] = add(w, "thread scratch", i, l->thread_floats, threads, i, i);
        w->threads[BACKWARD][i] =
            returns ? add(w, "thread scratch", i, l->thread_floats, threads, back, back)
                    : w->threads[FORWARD][i];
    }
}

/* Gradients of values that have others already when a layer's turn comes: the last reader in the
 * text comes first on the way back. */
static void add_asides(struct wisp_work *w, const struct wisp_net *net)
{
    for (int i = 0; i < net->n_layers * WISP_MAX_FROM; i++) w->aside[i] = -1;
    for (int i = 0; i < net->n_layers; i++) {
        const struct wisp_layer *l = &net->layers[i];
        for (int k = 0; k < l->n_from; k++) {
            int value = l->from[k];
            bool first = !has_gradient(net, value) || net->acts[value].last_reader == i;
            for (int b = 0; b < k; b++) first &= l->from[b] != value; /* it reads it twice */
            if (!first)
                w->aside[i * WISP_MAX_FROM + k] =
                    add(w, "gradients aside", i, samples_of(net, value) * net->acts[value].floats,
                        1, back_at(net, i), back_at(net, i));
        }
    }
}

/* ---- values that are made again ---- */

/* A core's operations, and bytes that it moves, in a microsecond, roughly: the choice hangs on how
 * layers compare, not on how fast they are. */
static const double FLOPS_A_US = 5e4, BYTES_A_US = 1e4;

static double again_us(const struct wisp_net *net, int layer, int threads)
{
    const struct wisp_layer *l = &net->layers[layer];
    double floats = (double)net->acts[layer + 1].floats;
    for (int k = 0; k < l->n_from; k++) floats += (double)net->acts[l->from[k]].floats;
    const double flops = wisp_net_layer_flops(net, layer, false);
    return (double)net->sizes.batch * (flops / FLOPS_A_US + 4 * floats / BYTES_A_US) / threads;
}

/* What a layer needs to run forward again at a moment; until: the last that looks at its value. */
static void add_again(struct wisp_work *w, const struct wisp_net *net, int i, int threads,
                      int moment, int until)
{
    const struct wisp_layer *l = &net->layers[i];
    const int part = w->x[i + 1];
    const bool over = l->from[0] > 0 && w->x[l->from[0]] == part;
    const size_t samples = in_lots(net, i) ? w->lots.samples : net->sizes.batch;
    w->again[i] = moment;
    if (over) {
        w->again_x[i + 1] = w->again_x[l->from[0]];
        reach(&w->items[w->again_x[i + 1]], moment, until);
    } else {
        w->again_x[i + 1] =
            add(w, "values again", i, samples * net->acts[i + 1].floats, 1, moment, until);
        w->again_bytes += w->items[w->again_x[i + 1]].bytes;
    }
    if (l->front_floats)
        w->again_front[i] = add(w, "scratch", i, l->front_floats, 1, moment, moment);
    if (l->thread_floats)
        w->threads[AGAIN][i] =
            add(w, "thread scratch", i, l->thread_floats, threads, moment, moment);
    w->again_flops += wisp_net_layer_flops(net, i, false);
    w->again_us += again_us(net, i, threads);
    w->n_again++;
}

static void begin_again(struct wisp_work *w, const struct wisp_net *net)
{
    w->again_bytes = 0;
    w->again_flops = w->again_us = 0;
    w->n_again = 0;
    for (int i = 0; i < net->n_layers; i++)
        w->again[i] = w->again_x[i] = w->again_front[i] = w->threads[AGAIN][i] = -1;
}

/* Second values of the layers that do a lot at a time, and sums of what their parameters move by. */
static void add_lots(struct wisp_work *w, const struct wisp_net *net, int threads)
{
    const int moment = wisp_work_lots_back(net);
    size_t floats = 0;
    for (int i = 0; i < w->lots.first; i++)
        add_again(w, net, i, threads, moment,
                  looks(net, i, WISP_USES_Y) ? back_at(net, i) : moment);
    for (int i = 0; i < w->lots.first; i++) {
        const struct wisp_layer *l = &net->layers[i];
        for (int k = 0; k < l->n_from; k++)
            if (l->from[k] > 0 && looks(net, i, WISP_USES_X))
                reach(&w->items[w->again_x[l->from[k]]], moment, back_at(net, i));
        for (int k = 0; k < l->n_params; k++) {
            if (l->params[k].role != WISP_TRAINED) continue;
            w->lots.sum[&l->params[k] - net->list.p] = floats;
            floats += wisp_up(wisp_param_n(&l->params[k]), 16);
        }
    }
    w->lots.sums = floats ? add(w, "sums of lots", 0, floats, 1, moment, back_at(net, 0)) : -1;
}

struct spilling {
    struct wisp_spill s;
    struct wisp_net *net;
    int threads;
    int n_parts;             /* of the plan without it, */
    struct wisp_work before; /* which had these numbers */
    struct wisp_item *items; /* (n_parts) as that has them */
    int *part, *value;       /* of a value, its part; of a part, its value, or -1 */
    struct wisp_spill_read *reads;
    size_t *other;
};

static void clear_spilling(struct spilling *p)
{
    wisp_free(p->s.values);
    wisp_free(p->items);
    wisp_free(p->part);
    wisp_free(p->reads);
    wisp_free(p->other);
}

/* A look at value v on the way back. */
static void look_back(struct wisp_spill_value *v, int moment)
{
    if (v->back < 0 || moment < v->back) v->back = moment;
    if (moment > v->last) v->last = moment;
}

/* The parts that are values, in the order in which their last layers run: what works in place in one
 * of them comes after whatever else it reads. */
static void list_values(struct spilling *p, const struct wisp_net *net, int threads)
{
    const struct wisp_work *w = &net->work;
    const int n = net->n_layers - 1;
    const int lots = w->lots.first, from_layer = lots ? lots - 1 : 0; /* whose value cannot be */
    for (int i = 0; i < p->n_parts; i++) p->value[i] = -1;
    for (int i = from_layer; i < n; i++) {
        bool whole = true;
        for (int k = i + 1; k < n; k++) whole &= w->x[k + 1] != w->x[i + 1];
        if (!whole) continue;
        const struct wisp_item *item = &w->items[w->x[i + 1]];
        p->part[p->s.n] = w->x[i + 1];
        p->value[w->x[i + 1]] = (int)p->s.n;
        p->s.values[p->s.n++] = (struct wisp_spill_value){ .bytes = wisp_up(item->bytes, 64),
                                                           .first = item->first,
                                                           .front = i,
                                                           .back = -1,
                                                           .last = -1 };
    }
    if (lots) p->s.values[p->value[w->x[lots]]].us = -1;
    for (int i = lots; i < net->n_layers; i++) {
        const struct wisp_layer *l = &net->layers[i];
        struct wisp_spill_value *own = i < n ? &p->s.values[p->value[w->x[i + 1]]] : NULL;
        if (own) {
            if (own->us >= 0) own->us += again_us(net, i, threads);
            own->room += wisp_up(parts_bytes(l->front_floats, 1, NULL), 64) +
                         wisp_up(parts_bytes(l->thread_floats, threads, NULL), 64);
            if (looks(net, i, WISP_USES_Y)) look_back(own, back_at(net, i));
        }
        for (int k = 0; k < l->n_from; k++) {
            if (l->from[k] == 0) continue;
            const int from = p->value[w->x[l->from[k]]];
            struct wisp_spill_value *v = &p->s.values[from];
            if (i > v->front) v->front = i;
            if (looks(net, i, WISP_USES_X)) look_back(v, back_at(net, i));
            if (own && v != own)
                p->reads[p->s.n_reads++] =
                    (struct wisp_spill_read){ (int)(own - p->s.values), from };
        }
    }
}

static wisp_status begin_spilling(struct spilling *p, struct wisp_net *net, int threads,
                                  wisp_error *err)
{
    const struct wisp_work *w = &net->work;
    const size_t n = (size_t)w->n, layers = (size_t)net->n_layers, moments = 2 * layers - 1;
    *p = (struct spilling){ .net = net, .threads = threads, .n_parts = w->n, .before = *w };
    size_t most = 1;
    for (int i = 0; i < net->n_layers; i++) most += (size_t)net->layers[i].n_from;
    p->s.values = wisp_zalloc(layers, sizeof *p->s.values);
    p->items = wisp_alloc(n, sizeof *p->items);
    p->part = wisp_alloc(layers + n, sizeof *p->part);
    p->reads = wisp_alloc(most, sizeof *p->reads);
    p->other = wisp_zalloc(moments, sizeof *p->other);
    if (!p->s.values || !p->items || !p->part || !p->reads || !p->other)
        return wisp_fail_mem(err, n * sizeof *p->items, "a plan of memory");
    p->value = p->part + layers;
    memcpy(p->items, w->items, n * sizeof *p->items);
    list_values(p, net, threads);
    for (int i = 0; i < w->n; i++)
        for (int t = w->items[i].first; t <= w->items[i].last && p->value[i] < 0; t++)
            p->other[t] += wisp_up(w->items[i].bytes, 64);
    p->s.reads = p->reads, p->s.other = p->other, p->s.n_moments = (int)moments;
    return WISP_OK;
}

/* The plan with what was chosen: second parts, scratch for the layers that run again. */
static wisp_status take_choice(void *arg, size_t *bytes, wisp_error *err)
{
    struct spilling *p = arg;
    struct wisp_net *net = p->net;
    struct wisp_work *w = &net->work;
    memcpy(w->items, p->items, (size_t)p->n_parts * sizeof *w->items);
    w->n = p->n_parts;
    w->again_bytes = p->before.again_bytes, w->n_again = p->before.n_again;
    w->again_flops = p->before.again_flops, w->again_us = p->before.again_us;
    for (size_t i = 0; i < p->s.n; i++) {
        const struct wisp_spill_value *v = &p->s.values[i];
        w->items[p->part[i]].last = v->again < 0 ? v->until : v->front;
    }
    for (int i = w->lots.first; i < net->n_layers - 1; i++) {
        const struct wisp_spill_value *v = &p->s.values[p->value[w->x[i + 1]]];
        w->again[i] = w->again_x[i + 1] = w->again_front[i] = w->threads[AGAIN][i] = -1;
        if (v->again >= 0) add_again(w, net, i, p->threads, v->again, v->until);
    }
    wisp_status st = wisp_arena_place(w->items, (size_t)w->n, &w->bytes, &w->bound, err);
    *bytes = w->bytes;
    return st;
}

static wisp_status spill(struct wisp_net *net, int threads, wisp_error *err)
{
    struct spilling p;
    wisp_status st = begin_spilling(&p, net, threads, err);
    if (st == WISP_OK) st = wisp_spill_fit(&p.s, net->sizes.memory, take_choice, &p, err);
    clear_spilling(&p);
    return st;
}

/* Could less be needed, and should it? */
static bool too_much(const struct wisp_net *net)
{
    return net->sizes.memory && net->work.bytes > net->sizes.memory && net->sizes.training &&
           !net->sizes.keep;
}

static wisp_status make_lists(struct wisp_net *net, wisp_error *err)
{
    struct wisp_work *w = &net->work;
    const size_t n = (size_t)net->n_layers;
    size_t most =
        10 * n + 1; /* with what is made again: a value, a layer's scratch and its threads',
                                 and sums of lots */
    for (int i = 0; i < net->n_layers; i++) most += (size_t)net->layers[i].n_from;
    wisp_work_clear(w);
    w->items = wisp_zalloc(most, sizeof *w->items);
    w->parts = wisp_zalloc(most, sizeof *w->parts);
    w->x = wisp_zalloc(n * (11 + WISP_MAX_FROM), sizeof *w->x);
    w->lots.sum = wisp_zalloc(net->list.n + 1, sizeof *w->lots.sum);
    if (!w->items || !w->parts || !w->x || !w->lots.sum)
        return wisp_fail_mem(err, most * sizeof *w->items, "a plan of memory");
    w->g = w->x + n;
    w->scratch = w->g + n;
    for (int k = 0; k < 3; k++) w->threads[k] = w->scratch + (size_t)(k + 1) * n;
    w->front = w->threads[AGAIN] + n;
    w->back = w->front + n;
    w->again = w->back + n;
    w->again_x = w->again + n;
    w->again_front = w->again_x + n;
    w->aside = w->again_front + n;
    return WISP_OK;
}

wisp_status wisp_work_place(struct wisp_net *net, int threads, wisp_error *err)
{
    struct wisp_work *w = &net->work;
    w->n = 0;
    begin_again(w, net);
    add_values(w, net);
    add_scratch(w, net, threads);
    if (net->sizes.training) add_asides(w, net);
    if (w->lots.first) add_lots(w, net, threads);
    for (int i = 0; i < w->n && net->sizes.keep; i++)
        w->items[i].first = 0, w->items[i].last = back_at(net, 0);
    wisp_status st = wisp_arena_place(w->items, (size_t)w->n, &w->bytes, &w->bound, err);
    if (!w->lots.first) w->whole = w->bytes;
    return st == WISP_OK && too_much(net) ? spill(net, threads, err) : st;
}

wisp_status wisp_work_plan(struct wisp_net *net, int threads, wisp_error *err)
{
    struct wisp_work *w = &net->work;
    wisp_status st = make_lists(net, err);
    if (st != WISP_OK) return st;
    for (int i = 0; i < net->n_layers; i++)
        w->kept += parts_bytes(net->layers[i].kept_floats, 1, NULL);
    st = wisp_work_place(net, threads, err);
    return st == WISP_OK && too_much(net) ? wisp_work_choose_lots(net, threads, err) : st;
}

void wisp_work_clear(struct wisp_work *w)
{
    wisp_free(w->items);
    wisp_free(w->parts);
    wisp_free(w->x);
    wisp_free(w->lots.sum);
    wisp_free(w->block);
    wisp_free(w->kept_block);
    *w = (struct wisp_work){ 0 };
}

/* ---- places ---- */

static float *place(const struct wisp_work *w, int part)
{
    return part < 0 ? NULL : (float *)(void *)(w->block + w->items[part].at);
}

/* A part's time begins: what it holds is nothing. */
static void open_part(const struct wisp_work *w, int i)
{
    struct wisp_cut c = wisp_cut_of(place(w, i), w->items[i].bytes, WISP_CUT_FRESH);
    for (int k = 0; k < w->parts[i].parts; k++)
        wisp_cut_next(&c, w->parts[i].floats, sizeof(float), w->parts[i].what);
}

/* Is it the scratch of a layer that does a lot at a time?  Each lot has it twice: on its way forward, and
 * from when it is made again to its layer's way back. */
static bool lot_scratch(const struct wisp_net *net, int i)
{
    bool found = false;
    for (int k = 0; k < net->work.lots.first; k++) found |= net->work.scratch[k] == i;
    return found;
}

/* Lots come to the moments of their layers again and again: what is of all lots is closed off for the
 * first of them, and looked at after the last. */
static bool of_all_lots(const struct wisp_net *net, int i)
{
    const struct wisp_item *item = &net->work.items[i];
    const int back = wisp_work_lots_back(net);
    const bool forward = item->last < net->work.lots.first;
    return i == net->work.lots.sums || !(forward || item->first >= back || lot_scratch(net, i));
}

void wisp_work_turn(const struct wisp_net *net, int moment)
{
    const struct wisp_work *w = &net->work;
    const int last = net->sizes.training ? back_at(net, 0) : net->n_layers - 1,
              back = wisp_work_lots_back(net);
    const bool more = w->lots.first && w->lots.at > 0; /* not the first lot */
    int before = moment ? moment - 1 : last;
    if (more && moment == 0) before = w->lots.first - 1;
    if (more && moment == back) before = last;
    for (int i = 0; i < w->n && wisp_borders; i++) /* looked at, and nobody's from now on */
        if (w->items[i].last == before && !(more && of_all_lots(net, i)))
            wisp_cut_begin(place(w, i), w->items[i].bytes);
    for (int i = 0; i < w->n && wisp_borders; i++) {
        const bool begins = w->items[i].first == moment && !(more && of_all_lots(net, i));
        if (begins || (more && moment == back && lot_scratch(net, i))) open_part(w, i);
    }
}

float *wisp_work_sum(const struct wisp_net *net, const struct wisp_param *p, size_t row)
{
    size_t n;
    const size_t at = wisp_param_row(p, row, &n);
    return place(&net->work, net->work.lots.sums) + net->work.lots.sum[p - net->list.p] + at;
}

wisp_status wisp_work_alloc(struct wisp_net *net, int threads, wisp_error *err)
{
    struct wisp_work *w = &net->work;
    wisp_status st = w->items ? WISP_OK : wisp_work_plan(net, threads, err);
    if (st != WISP_OK) return st;
    w->block = wisp_alloc(w->bytes, 1);
    w->kept_block = w->kept ? wisp_zalloc(w->kept, 1) : NULL;
    if (!w->block || (w->kept && !w->kept_block))
        return wisp_fail_mem(err, w->bytes + w->kept, "the values of a batch");
    struct wisp_cut kept = wisp_cut_of(w->kept_block, w->kept, WISP_CUT_KEEP);
    for (int i = 0; i < net->n_layers; i++) {
        struct wisp_layer *l = &net->layers[i];
        l->scratch = place(w, w->scratch[i]);
        l->front = place(w, w->front[i]);
        l->back = place(w, w->back[i]);
        l->thread_scratch = place(w, w->threads[FORWARD][i]);
        parts_bytes(l->thread_floats, 1, &l->thread_apart);
        if (w->kept) l->kept = wisp_cut_take(&kept, l->kept_floats, sizeof *l->kept);
        if (i == 0) continue;
        net->acts[i].x = place(w, w->x[i]);
        net->acts[i].g = has_gradient(net, i) ? place(w, w->g[i]) : NULL;
    }
    return WISP_OK;
}

void wisp_work_pass(struct wisp_net *net, int layer, enum wisp_work_pass pass)
{
    const struct wisp_work *w = &net->work;
    struct wisp_layer *l = &net->layers[layer];
    l->thread_scratch = place(w, w->threads[pass][layer]);
    if (!w->n_again || pass == WISP_WORK_BACK) return;
    const bool again = pass == WISP_WORK_AGAIN;
    struct wisp_act *out = &net->acts[layer + 1];
    l->front = place(w, (again ? w->again_front : w->front)[layer]);
    out->x = place(w, (again ? w->again_x : w->x)[layer + 1]);
    if (!again && w->lots.first && layer + 1 == w->lots.first) out->x += w->lots.at * out->floats;
}

float *wisp_work_aside(const struct wisp_net *net, int layer, int input)
{
    return place(&net->work, net->work.aside[layer * WISP_MAX_FROM + input]);
}
