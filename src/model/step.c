/* A step of training: forward through the graph, the head's phases, and back.  Each part may fail,
 * and then the step ends there. */
#include "base/file.h"
#include "model/net.h"

#include <string.h>

/* What has passed since the layer before is this one's. */
static void lap(struct wisp_laps *laps, double *seconds, int layer)
{
    const double now = wisp_now();
    seconds[layer] += now - laps->last;
    laps->last = now;
}

/* Looking takes no layer's time. */
static void peek(const struct wisp_net *net, const struct wisp_step *s, int layer, bool gradient)
{
    if (!s->peek) return;
    s->peek->look(s->peek->arg, layer, &net->acts[layer + 1], s->batch->n, gradient);
    if (s->laps) s->laps->last = wisp_now();
}

static void inputs_of(const struct wisp_net *net, const struct wisp_layer *l,
                      const struct wisp_act *in[WISP_MAX_FROM])
{
    for (int k = 0; k < l->n_from; k++) in[k] = &net->acts[l->from[k]];
}

static wisp_status forward(struct wisp_net *net, int i, struct wisp_step *s,
                           enum wisp_work_pass pass, wisp_error *err)
{
    const struct wisp_layer *l = &net->layers[i];
    const struct wisp_act *in[WISP_MAX_FROM];
    wisp_work_pass(net, i, pass);
    if (l->done) return WISP_OK;
    inputs_of(net, l, in);
    wisp_status st = l->kind->forward(l, s, in, &net->acts[i + 1], err);
    if (st == WISP_OK && net->acts[i + 1].zeros) wisp_layer_count(s, &net->acts[i + 1]);
    return st;
}

static wisp_status forward_to(struct wisp_net *net, int first, int end, struct wisp_step *s,
                              wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (int i = first; i < end && st == WISP_OK; i++) {
        wisp_work_turn(net, i);
        st = forward(net, i, s, WISP_WORK_FORWARD, err);
        if (s->laps) lap(s->laps, s->laps->forward, i);
        if (st == WISP_OK && !net->layers[i].done) peek(net, s, i, false);
    }
    return st;
}

/* Samples of the batch from net->work.lots.at on, as many as a lot has. */
static struct wisp_batch lot_of(const struct wisp_net *net, const struct wisp_batch *b)
{
    const struct wisp_lots *lots = &net->work.lots;
    struct wisp_batch lot = *b;
    const size_t left = b->n - lots->at;
    lot.n = left < lots->samples ? left : lots->samples;
    lot.planes += lots->at * net->acts[0].width;
    return lot;
}

/* The first layers forward, lot by lot.  Zeros are counted in the first of them. */
static wisp_status lots_forward(struct wisp_net *net, struct wisp_step *s, wisp_error *err)
{
    const struct wisp_batch *whole = s->batch;
    struct wisp_lots *lots = &net->work.lots;
    wisp_status st = WISP_OK;
    for (lots->at = 0; lots->at < whole->n && st == WISP_OK; lots->at += lots->samples) {
        const struct wisp_batch lot = lot_of(net, whole);
        s->batch = &lot;
        s->again = lots->at > 0;
        st = forward_to(net, 0, lots->first, s, err);
    }
    lots->at = 0;
    s->again = false;
    s->batch = whole;
    wisp_work_pass(net, lots->first - 1, WISP_WORK_FORWARD); /* all of the last value */
    return st;
}

wisp_status wisp_net_hidden(struct wisp_net *net, struct wisp_step *s, wisp_error *err)
{
    const int first = net->work.lots.first;
    wisp_status st = first ? lots_forward(net, s, err) : WISP_OK;
    return st == WISP_OK ? forward_to(net, first, net->n_layers - 1, s, err) : st;
}

/* Values that are not kept, and that the way back looks at from this moment on.  No layer has moved
 * its weights before its own way back, so they come out as they were. */
static wisp_status make_again(struct wisp_net *net, int moment, struct wisp_step *s,
                              wisp_error *err)
{
    wisp_status st = WISP_OK;
    s->again = true;
    for (int i = 0; net->work.n_again && i < net->n_layers - 1 && st == WISP_OK; i++)
        if (net->work.again[i] == moment) st = forward(net, i, s, WISP_WORK_AGAIN, err);
    s->again = false;
    return st;
}

/* Choose, score, combine, back, move. */
static wisp_status run_head(struct wisp_net *net, struct wisp_step *s, wisp_error *err)
{
    struct wisp_layer *l = wisp_net_output(net);
    const struct wisp_head *head = l->kind->head;
    struct wisp_act *in = wisp_net_last(net);
    bool again = true;
    wisp_work_turn(net, l->number);
    wisp_status st = head->choose(l, s, in, err);
    while (st == WISP_OK && again) {
        st = head->score(l, s, in, err);
        if (st == WISP_OK) st = head->combine(l, s, in, &again, err);
    }
    if (st == WISP_OK) st = head->back(l, s, in, err);
    return st == WISP_OK ? head->move(l, s, in, err) : st;
}

/* A layer sets the gradients of what it reads.  Of a value with several readers the last in the
 * text comes first on the way back and sets it; the others' are set aside, and added. */
static wisp_status backward(struct wisp_net *net, int i, struct wisp_step *s, wisp_error *err)
{
    struct wisp_layer *l = &net->layers[i];
    struct wisp_act aside[WISP_MAX_FROM], *in[WISP_MAX_FROM];
    const int moment = 2 * net->n_layers - 2 - i;
    wisp_work_turn(net, moment);
    wisp_status st = make_again(net, moment, s, err);
    if (st != WISP_OK) return st;
    wisp_net_l1_back(net, i, s);
    if (l->undone) return WISP_OK;
    peek(net, s, i, true);
    wisp_work_pass(net, i, WISP_WORK_BACK);
    for (int k = 0; k < l->n_from; k++) {
        float *g = wisp_work_aside(net, i, k);
        in[k] = &net->acts[l->from[k]];
        if (!g) continue;
        aside[k] = *in[k];
        aside[k].g = g;
        in[k] = &aside[k];
    }
    st = l->kind->backward(l, s, in, &net->acts[i + 1], err);
    for (int k = 0; k < l->n_from && st == WISP_OK; k++) {
        const struct wisp_act *a = &net->acts[l->from[k]];
        if (in[k] != a)
            wisp_layer_runs(s->ctx, wisp_run_add, a->g, in[k]->g, NULL, s->batch->n * a->floats);
    }
    return st;
}

/* What is exchanged begins while the layers below are on their way back. */
static wisp_status made(const struct wisp_step *s, int layer, wisp_error *err)
{
    return s->sums ? s->sums->made(s->sums, layer, err) : WISP_OK;
}

static wisp_status back_to(struct wisp_net *net, int first, int end, struct wisp_step *s,
                           wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (int i = end - 1; i >= first && st == WISP_OK; i--) {
        if (!net->acts[i + 1].learns) continue;
        wisp_phase(s->ctx->pool, 0, WISP_PHASE_BACK);
        st = backward(net, i, s, err);
        if (st == WISP_OK && !net->work.lots.all) st = made(s, i, err);
        if (s->laps) lap(s->laps, s->laps->back, i);
    }
    return st;
}

struct summing { /* an update that adds up over lots, and moves rows with the last */
    struct wisp_update update;
    const struct wisp_update *moves;
    const struct wisp_net *net;
    const struct wisp_kernels *k;
    bool last;
};

static void sum_row(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    const struct summing *m = (const struct summing *)u;
    size_t n;
    wisp_param_row(p, row, &n);
    float *sum = wisp_work_sum(m->net, p, row);
    if (m->net->work.lots.at == 0) memcpy(sum, g, n * sizeof *sum);
    else m->k->axpy(sum, g, 1, n);
    if (m->last) m->moves->row(m->moves, p, row, sum);
}

/* The first layers' way back, lot by lot; each begins with their way forward (make_again). */
static wisp_status lots_back(struct wisp_net *net, struct wisp_step *s, wisp_error *err)
{
    const struct wisp_batch *whole = s->batch;
    struct wisp_lots *lots = &net->work.lots;
    struct wisp_act *given = &net->acts[lots->first];
    float *g = given->g;
    struct summing m = { { sum_row }, s->update, net, s->ctx->k, false };
    wisp_status st = WISP_OK;
    s->update = &m.update;
    lots->all = whole->n;
    for (lots->at = 0; lots->at < whole->n && st == WISP_OK; lots->at += lots->samples) {
        const struct wisp_batch lot = lot_of(net, whole);
        s->batch = &lot;
        given->g = g + lots->at * given->floats;
        m.last = lots->at + lot.n == whole->n;
        st = back_to(net, 0, lots->first, s, err);
    }
    lots->at = lots->all = 0;
    given->g = g;
    s->update = m.moves;
    s->batch = whole;
    return st;
}

wisp_status wisp_net_step(struct wisp_net *net, struct wisp_step *s, wisp_error *err)
{
    struct wisp_pool *pool = s->ctx->pool;
    wisp_phase(pool, 0, WISP_PHASE_INPUT);
    if (s->laps) s->laps->last = wisp_now();
    wisp_status st = wisp_net_hidden(net, s, err);
    if (st == WISP_OK) st = run_head(net, s, err);
    if (st == WISP_OK) st = made(s, net->n_layers - 1, err);
    if (s->laps) lap(s->laps, s->laps->forward, net->n_layers - 1);
    const int first = net->work.lots.first;
    if (st == WISP_OK) st = back_to(net, first, net->n_layers - 1, s, err);
    if (st == WISP_OK && first) st = lots_back(net, s, err);
    if (st == WISP_OK) st = made(s, 0, err);
    if (st == WISP_OK) wisp_net_counted(net);
    wisp_phase(pool, 0, WISP_PHASE_OTHER);
    return st;
}

wisp_status wisp_net_trace(double *dot, struct wisp_net *net, struct wisp_step *s, const float *g,
                           wisp_error *err)
{
    const struct wisp_act *last = wisp_net_last(net);
    wisp_status st = wisp_net_hidden(net, s, err);
    *dot = 0;
    if (st != WISP_OK) return st;
    for (size_t i = 0; i < last->width; i++) *dot += (double)g[i] * (double)last->x[i];
    wisp_work_turn(net, net->n_layers - 1);
    memcpy(last->g, g, last->width * sizeof *g);
    return back_to(net, 0, net->n_layers - 1, s, err);
}
