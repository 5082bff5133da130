/* A run whose net becomes smaller: channels that a penalty has made 0 are taken out between two epochs.
 *
 *   checkpoint of the epoch -> the net without them, with its optimiser's state -> checkpoint
 *   -> the run is cleared and made again from that, as a resumed one is
 *
 * So memory, scorer and samplers are made in one place, and a run that is killed anywhere in between
 * ends in the same bytes: resumed from the first checkpoint it takes out the same channels. */
#include "base/mem.h"
#include "model/compact.h"
#include "model/run.h"

#include <string.h>

/* Of a step's work that must go for it to pay: all memory is made anew. */
static const double LEAST_SHARE = 0.1;

static const char OPTION[] = "group-penalty";

wisp_status wisp_run_penalty_check(const struct wisp_run *r, wisp_error *err)
{
    const struct wisp_plan *p = &r->plan;
    if (p->penalty == 0) return WISP_OK;
    if (!r->path)
        return wisp_fail_option(err, OPTION, "a net that becomes smaller needs a file: -o MODEL");
    if (p->half)
        return wisp_fail_option(err, OPTION, "rows of bf16 have no penalty; use --rows fp32");
    if (p->average > 0)
        return wisp_fail_option(err, OPTION,
                                "nets of different sizes have no mean; use --average 0");
    return WISP_OK;
}

wisp_status wisp_run_penalty(struct wisp_run *r, wisp_error *err)
{
    bool sampled = r->samplers.output;
    for (int i = 0; i < r->samplers.n_hidden; i++) sampled |= r->samplers.hidden[i] != NULL;
    if (sampled)
        return wisp_fail_option(err, OPTION,
                                "indexes of rows would have to change with them; use --sampling "
                                "full, and no layer 'sampled'");
    r->penalty = wisp_zalloc(1, sizeof *r->penalty);
    if (!r->penalty) return wisp_fail_mem(err, sizeof *r->penalty, "a penalty");
    return wisp_penalty_make(r->penalty, &r->m->net, err);
}

wisp_status wisp_run_smaller(struct wisp_run *r, wisp_error *err)
{
    struct wisp_tensor_file state;
    if (r->plan.penalty == 0) return WISP_OK;
    wisp_status st = wisp_state_peek(&state, r, err);
    if (st != WISP_OK) return st;
    const char *text = wisp_tensor_file_meta(&state, "net");
    if (text && strcmp(text, r->plan.net.line) != 0 && !(r->smaller = wisp_strdup(text)))
        st = wisp_fail_mem(err, strlen(text), "a net");
    wisp_tensor_file_close(&state);
    return st;
}

/* The smaller net, with memory for its parameters and their state. */
static wisp_status make_smaller(struct wisp_net *out, const struct wisp_run *r,
                                const struct wisp_smaller *s, wisp_error *err)
{
    struct wisp_layer_sizes sizes = s->from->sizes;
    sizes.known = &s->known;
    wisp_status st;
    if ((st = wisp_net_plan(out, s->text, s->from->n_features, s->from->n_labels, &sizes, err)) !=
            WISP_OK ||
        (st = wisp_net_alloc_params(out, err)) != WISP_OK ||
        (st = wisp_net_alloc_state(out, r->plan.slots, err)) != WISP_OK)
        return st;
    return wisp_compact_fill(out, s, err);
}

/* Does it pay?  What is 0 when the penalty ends goes in any case: it would learn again. */
static bool pays(const struct wisp_run *r, const struct wisp_net *small)
{
    const double now = wisp_net_flops(&r->m->net, true), then = wisp_net_flops(small, true);
    return r->at.epoch == r->plan.penalty_epochs + 1 || then <= (1 - LEAST_SHARE) * now;
}

static wisp_status take_smaller(struct wisp_run *r, struct wisp_net *small, char **text,
                                wisp_error *err)
{
    wisp_say(r->ctx, "smaller   %zu of %zu parameters are left: %s", wisp_net_n_params(small),
             wisp_net_n_params(&r->m->net), *text);
    const struct wisp_net old = r->m->net;
    char *spec = r->m->spec;
    r->m->net = *small;
    r->m->spec = *text;
    *small = old;
    *text = spec;
    return wisp_state_save(r, err);
}

wisp_status wisp_run_shrink(struct wisp_run *r, bool *shrunk, wisp_error *err)
{
    struct wisp_net small = { 0 };
    struct wisp_smaller s = { 0 };
    size_t gone;
    *shrunk = false;
    if (r->at.epoch == 1 || r->at.in_epoch > 0 || r->at.epoch > r->plan.penalty_epochs + 1)
        return WISP_OK;
    const struct wisp_bonds *bonds = &r->penalty->bonds;
    bool *keep = wisp_alloc(bonds->n, sizeof *keep);
    if (!keep) return wisp_fail_mem(err, bonds->n, "channels to keep");
    wisp_status st = wisp_compact_choose(keep, &gone, bonds, &r->m->net, err);
    if (st == WISP_OK && gone > 0) {
        st = wisp_smaller_make(&s, &r->m->net, bonds, keep, false, err);
        if (st == WISP_OK) st = make_smaller(&small, r, &s, err);
        *shrunk = st == WISP_OK && pays(r, &small);
        if (*shrunk) st = take_smaller(r, &small, &s.text, err);
    }
    wisp_smaller_clear(&s);
    wisp_net_clear(&small);
    wisp_free(keep);
    return st;
}
