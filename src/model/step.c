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

wisp_status wisp_net_hidden(struct wisp_net *net, struct wisp_step *s, wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (int i = 0; i < net->n_layers - 1 && st == WISP_OK; i++) {
        wisp_work_turn(net, i);
        st = forward(net, i, s, WISP_WORK_FORWARD, err);
        if (s->laps) lap(s->laps, s->laps->forward, i);
    }
    return st;
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

wisp_status wisp_net_step(struct wisp_net *net, struct wisp_step *s, wisp_error *err)
{
    struct wisp_pool *pool = s->ctx->pool;
    wisp_phase(pool, 0, WISP_PHASE_INPUT);
    if (s->laps) s->laps->last = wisp_now();
    wisp_status st = wisp_net_hidden(net, s, err);
    if (st == WISP_OK) st = run_head(net, s, err);
    if (s->laps) lap(s->laps, s->laps->forward, net->n_layers - 1);
    for (int i = net->n_layers - 2; i >= 0 && st == WISP_OK; i--) {
        if (!net->acts[i + 1].learns) continue;
        wisp_phase(pool, 0, WISP_PHASE_BACK);
        st = backward(net, i, s, err);
        if (s->laps) lap(s->laps, s->laps->back, i);
    }
    if (st == WISP_OK) wisp_net_counted(net);
    wisp_phase(pool, 0, WISP_PHASE_OTHER);
    return st;
}
