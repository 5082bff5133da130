/* A run whose net becomes smaller: channels that a penalty has made 0, or weights that were cut one by
 * one, are taken out between two epochs.
 *
 *   checkpoint of the epoch -> the net without them, with its optimiser's state -> checkpoint
 *   -> the run is cleared and made again from that, as a resumed one is
 *
 * So memory, scorer and samplers are made in one place, and a run that is killed anywhere in between
 * ends in the same bytes: resumed from the first checkpoint it takes out the same channels.
 *
 * What samplers know of rows by their numbers (who competed with whom) stays; indexes that are made of
 * their weights (hash tables, inverted lists) begin anew with the next step.  Votes of features do not
 * know the layers between, and scores are calibrated with every model that is saved. */
#include "base/bounds.h"
#include "base/mem.h"
#include "base/text.h"
#include "layer/wires.h"
#include "model/card.h"
#include "model/compact.h"
#include "model/run.h"
#include "model/trim.h"
#include "model/widths.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of a step's work that must go for it to pay: all memory is made anew. */
static const double LEAST_SHARE = 0.1;

static const char *option(const struct wisp_plan *p)
{
    return p->magnitude > 0 ? "magnitude" : p->cut > 0 ? "group-cut" : "group-penalty";
}

/* All weights must be gone an epoch before the end: then what is left is put into 'sparse' layers. */
static wisp_status check_epochs(const struct wisp_plan *p, wisp_error *err)
{
    if (p->penalty > 0 || p->cut > 0)
        return wisp_fail_option(err, "magnitude",
                                "whole groups are to go too; prune by the one, then by the "
                                "other, from its model (--init)");
    if (p->magnitude_epochs >= p->epochs)
        return wisp_fail_option(err, "magnitude-epochs",
                                "%d of %d epochs, expected fewer: what is left has to be trained",
                                p->magnitude_epochs, p->epochs);
    return WISP_OK;
}

wisp_status wisp_run_shrink_check(const struct wisp_run *r, wisp_error *err)
{
    const struct wisp_plan *p = &r->plan;
    if (wisp_plan_shrink_epochs(p) == 0) return WISP_OK;
    if (!r->path)
        return wisp_fail_option(err, option(p),
                                "a net that becomes smaller needs a file: -o MODEL");
    if (p->half)
        return wisp_fail_option(err, option(p), "rows of bf16 have no %s; use --rows fp32",
                                p->magnitude > 0 ? "magnitudes" : "penalty");
    if (p->average > 0)
        return wisp_fail_option(err, option(p),
                                "nets of different sizes have no mean; use --average 0");
    if (p->cut > 0 && p->penalty_epochs >= p->epochs)
        return wisp_fail_option(err, "penalty-epochs",
                                "%d of %d epochs, expected fewer: what is left has to be trained",
                                p->penalty_epochs, p->epochs);
    return p->magnitude > 0 ? check_epochs(p, err) : WISP_OK;
}

static wisp_status check_layers(const struct wisp_net *net, wisp_error *err)
{
    bool any = false;
    for (int i = 0; i < net->n_layers; i++) {
        const struct wisp_layer *l = &net->layers[i];
        if (!wisp_magnitude_cuts(l)) continue;
        any = true;
        if (l->from[0] == 0 && l->n_in > WISP_WIRES_FEATURES)
            return wisp_fail_option(err, "magnitude",
                                    "'%s' reads %zu features, and the layer 'sparse' that it would "
                                    "become up to %d; use --group-penalty",
                                    l->kind->name, l->n_in, WISP_WIRES_FEATURES);
    }
    if (any) return WISP_OK;
    return wisp_fail_option(err, "magnitude",
                            "the net has no 'input', 'dense' or 'sparse', whose weights could go "
                            "one by one; use --group-penalty");
}

static wisp_status make_magnitude(struct wisp_run *r, wisp_error *err)
{
    size_t steps = 0;
    wisp_status st = check_layers(&r->m->net, err);
    if (st != WISP_OK || r->at.epoch > r->plan.magnitude_epochs) return st;
    for (int e = 1; e <= r->plan.magnitude_epochs; e++)
        steps += wisp_order_steps(&r->feed.order, e, r->plan.batch);
    r->magnitude = wisp_zalloc(1, sizeof *r->magnitude);
    if (!r->magnitude) return wisp_fail_mem(err, sizeof *r->magnitude, "weights to cut");
    return wisp_magnitude_make(r->magnitude, &r->m->net, &r->opt.update, steps, err);
}

/* Floats that a step moves, about: rows of features there and back, and the operations of the other
 * layers, of which FLOPS take as long as a float of memory.  Of the sizes alone, as the same net must
 * have the same penalty wherever it is trained. */
static double step_floats(const struct wisp_run *r)
{
    enum { FLOPS = 64 };
    const struct wisp_net *net = &r->m->net;
    const struct wisp_data *d = r->sets.train;
    double n = 0;
    for (int i = 0; i < net->n_layers; i++) {
        const struct wisp_layer *l = &net->layers[i];
        const double share = l->kind->head && r->samplers.output
                                 ? (double)net->sizes.active / (double)net->n_labels
                                 : 1;
        n += share * wisp_net_layer_flops(net, i, true) / FLOPS;
        if (l->n_params && l->params[0].by == WISP_BY_FEATURE)
            n += 3.0 * (double)d->nnz / (double)d->n_rows * (double)l->n_out;
    }
    return n * (double)r->plan.batch;
}

/* A move reads all grouped weights twice and writes them once.  It comes every fourth step, or so
 * seldom that it takes COST of the time, but OFTEN an epoch in any case: what is too coarse does not
 * choose well. */
static size_t steps_between(const struct wisp_run *r)
{
    enum { LEAST = 4, OFTEN = 16 };
    const double COST = 0.03;
    const struct wisp_params *list = &r->m->net.list;
    double grouped = 0;
    for (size_t i = 0; i < list->n; i++)
        for (int d = 0; d < list->p[i].rank; d++)
            if (list->p[i].role == WISP_TRAINED && list->p[i].axis[d] == WISP_AXIS_OUT)
                grouped += (double)list->p[i].n;
    const double wanted = ceil(3 * grouped / (COST * fmax(1, step_floats(r)))),
                 most = (double)(r->at.steps / (size_t)r->plan.epochs / OFTEN);
    return (size_t)fmax(LEAST, fmin(wanted, most));
}

/* A net that became smaller, or that a run goes on from, may have lost layers that the option names. */
static wisp_status read_weights(double *weight, const struct wisp_run *r, wisp_error *err)
{
    bool unknown = false;
    wisp_error why;
    const bool smaller = r->smaller || r->init.model;
    wisp_status st = wisp_groups_weights(weight, &r->m->net, r->plan.group_weights, &unknown, &why);
    if (st == WISP_OK || !unknown || !smaller)
        return st == WISP_OK ? st : wisp_fail_as(err, st, &why);
    if (!r->again) wisp_say(r->ctx, "penalty   %s", why.text);
    return WISP_OK;
}

static wisp_status check_weights(const struct wisp_run *r, wisp_error *err)
{
    const size_t n = (size_t)r->m->net.n_layers;
    double *weight = wisp_alloc(n, sizeof *weight);
    wisp_status st = weight ? read_weights(weight, r, err)
                            : wisp_fail_mem(err, n * sizeof *weight, "the groups of a penalty");
    wisp_free(weight);
    return st;
}

/* Layers with connections of their own are known by their places in the net, which change when a layer
 * goes (trim.h). */
static wisp_status check_groups(const struct wisp_run *r, wisp_error *err)
{
    const struct wisp_net *net = &r->m->net;
    for (size_t p = 0; p < net->list.n; p++)
        if (r->plan.groups != WISP_GROUPS_CHANNELS && net->list.p[p].role == WISP_FIXED)
            return wisp_fail_option(err, "groups",
                                    "a net with layers '%s' can lose channels alone; use --groups "
                                    "channels",
                                    net->layers[net->list.p[p].layer].kind->name);
    if (r->plan.groups & WISP_GROUPS_LAYERS && r->penalty->groups.branches.n == 0 && !r->again)
        wisp_say(r->ctx, "penalty   the net has no branch behind a shortcut that could go");
    return WISP_OK;
}

static wisp_status make_penalty(struct wisp_run *r, wisp_error *err)
{
    r->penalty = wisp_zalloc(1, sizeof *r->penalty);
    if (!r->penalty) return wisp_fail_mem(err, sizeof *r->penalty, "a penalty");
    wisp_status st = wisp_penalty_make(r->penalty, &r->m->net, r->plan.groups, err);
    if (st == WISP_OK) st = read_weights(r->penalty->groups.weight, r, err);
    if (st != WISP_OK) return st;
    if ((st = check_groups(r, err)) != WISP_OK) return st;
    const int most =
        r->plan.penalty_epochs < r->plan.epochs ? r->plan.penalty_epochs : r->plan.epochs;
    const size_t n = (size_t)most;
    r->penalty->every = steps_between(r);
    r->penalty->ends = wisp_alloc(n, sizeof *r->penalty->ends);
    if (!r->penalty->ends) return wisp_fail_mem(err, n * sizeof(size_t), "a penalty");
    for (size_t e = 0; e < n; e++)
        r->penalty->ends[e] = (e ? r->penalty->ends[e - 1] : 0) +
                              wisp_order_steps(&r->feed.order, (int)e + 1, r->plan.batch);
    return WISP_OK;
}

/* It may rise from 0. */
static double lambda(const struct wisp_run *r, size_t step)
{
    const double rise = r->plan.penalty_warmup * (double)r->at.steps / r->plan.epochs,
                 now = (double)step + 1;
    return r->plan.penalty * (now < rise ? now / rise : 1);
}

wisp_status wisp_run_shrink_make(struct wisp_run *r, wisp_error *err)
{
    if (wisp_plan_shrink_epochs(&r->plan) == 0) return check_weights(r, err); /* prune begins so */
    if (r->plan.magnitude == 0) return make_penalty(r, err);
    if (wisp_samplers_any(&r->samplers))
        return wisp_fail_option(err, "magnitude",
                                "not with sampled rows yet; use --sampling full, and no layer "
                                "'sampled'");
    return make_magnitude(r, err);
}

/* Steps since groups moved last, if they do so after this one; 0: they do not.  An epoch ends with a
 * move: steps between let a bias of what is 0 learn again. */
static size_t due(const struct wisp_run *r, size_t step)
{
    if (!r->penalty || r->at.epoch > r->plan.penalty_epochs) return 0;
    const size_t every = r->penalty->every, late = step % every;
    if (late > 0 && step + 1 != r->penalty->ends[r->at.epoch - 1]) return 0;
    return late ? late : every;
}

double wisp_run_shorter(const struct wisp_run *r, size_t step, double lr)
{
    return lambda(r, step) * (double)due(r, step) * lr;
}

/* At the time 'part' of all that there is for it: most of them early, when what is left has the time to
 * make up for it. */
static double share_cut(const struct wisp_plan *p, double part)
{
    const double left = 1 - fmin(1, part);
    return p->cut * (1 - left * left * left);
}

double wisp_run_cut(const struct wisp_run *r, size_t step)
{
    if (r->plan.cut == 0 || due(r, step) == 0) return 0;
    return share_cut(&r->plan,
                     ((double)step + 1) / (double)r->penalty->ends[r->plan.penalty_epochs - 1]);
}

/* CUTS times the weakest are cut, as many as are to be gone by then.  What is cut may learn again up to
 * the last time, and then another goes in its place (soft filter pruning, He et al., IJCAI 2018). */
bool wisp_run_cut_between(struct wisp_run *r)
{
    enum { CUTS = 4 };
    const int done = r->at.epoch - 1, all = r->plan.penalty_epochs;
    if (!r->plan.cuda || r->plan.cut == 0 || r->at.in_epoch > 0 || done < 1 || done > all ||
        done * CUTS / all == (done - 1) * CUTS / all)
        return false;
    return wisp_penalty_cut(r->penalty, &r->m->net, share_cut(&r->plan, (double)done / all),
                            r->ctx->pool) > 0;
}

/* Moments stay in what the large net had them in, which had more weights to choose by. */
static void keep_moments(struct wisp_plan *p, const struct wisp_tensor_file *state)
{
    for (size_t i = 0; i < state->n_tensors && p->moments == WISP_MOMENTS_AUTO; i++) {
        const struct wisp_tensor *t = &state->tensors[i];
        const char *of = strrchr(t->name, '.');
        if (t->dtype == WISP_BF16 && of && (strcmp(of, ".m") == 0 || strcmp(of, ".v") == 0))
            p->moments = WISP_MOMENTS_BF16;
    }
}

wisp_status wisp_run_smaller(struct wisp_run *r, wisp_error *err)
{
    struct wisp_tensor_file state;
    if (wisp_plan_shrink_epochs(&r->plan) == 0) return WISP_OK;
    wisp_status st = wisp_state_peek(&state, r, err);
    if (st != WISP_OK) return st;
    /* Also where the text is the same: layers 'sparse' may have lost connections alone. */
    const char *text = state.n_tensors ? wisp_tensor_file_meta(&state, "net") : NULL;
    if (text && !(r->smaller = wisp_strdup(text))) st = wisp_fail_mem(err, strlen(text), "a net");
    keep_moments(&r->plan, &state);
    wisp_tensor_file_close(&state);
    return st;
}

/* A smaller net, with memory for its parameters and their state. */
static wisp_status plan_smaller(struct wisp_net *out, const struct wisp_run *r, const char *text,
                                const struct wisp_known *known, wisp_error *err)
{
    const struct wisp_net *net = &r->m->net;
    struct wisp_layer_sizes sizes = net->sizes;
    sizes.known = known;
    wisp_status st = wisp_net_plan(out, text, net->n_features, net->n_labels, &sizes, err);
    out->sizes.known = NULL; /* which is the caller's */
    if (st == WISP_OK) st = wisp_net_alloc_params(out, err);
    return st == WISP_OK ? wisp_net_alloc_state(out, r->plan.slots, err) : st;
}

static wisp_status make_smaller(struct wisp_net *out, const struct wisp_run *r,
                                const struct wisp_smaller *s, wisp_error *err)
{
    wisp_status st = plan_smaller(out, r, s->text, &s->known, err);
    return st == WISP_OK ? wisp_compact_fill(out, s, err) : st;
}

/* Does it pay?  What is 0 when the last zeros are made goes in any case: it would learn again. */
static bool pays(const struct wisp_run *r, const struct wisp_net *small)
{
    const double now = wisp_net_flops(&r->m->net, true), then = wisp_net_flops(small, true);
    if (r->plan.cut > 0 && r->at.epoch <= r->plan.penalty_epochs) return false; /* a share of all */
    return r->at.epoch > wisp_plan_shrink_epochs(&r->plan) || then <= (1 - LEAST_SHARE) * now;
}

/* Is there a weight that is 0, or a matrix that has not become a layer 'sparse'? */
static bool differs(const struct wisp_net *net, const struct wisp_net *small)
{
    bool matrix = false;
    for (int i = 0; i < net->n_layers; i++) matrix |= net->layers[i].kind->thins;
    return matrix || wisp_net_n_params(small) < wisp_net_n_params(net);
}

/* Channels of maps go by blocks on a card, where units of a thin net do not. */
static bool rounds_maps(const struct wisp_run *r)
{
    return r->plan.cuda && r->plan.round && r->plan.magnitude == 0;
}

/* padding: channels that stay although they count for nothing. */
static wisp_status take_smaller(struct wisp_run *r, struct wisp_net *small, char **text,
                                size_t padding, wisp_error *err)
{
    char more[120] = "";
    int n = 0;
    if (padding)
        n = snprintf(more, sizeof more,
                     ", with %zu channel%s that could go, as cards have units by %d", padding,
                     wisp_plural(padding), WISP_CUDA_UNITS);
    if (padding && rounds_maps(r))
        snprintf(more + n, sizeof more - (size_t)n, " and maps by %d", WISP_WIDTHS_BLOCK);
    wisp_say(r->ctx, "smaller   %zu of %zu parameters are left%s: %s", wisp_net_n_params(small),
             wisp_net_n_params(&r->m->net), more, *text);
    wisp_scorer_clear(&r->scorer); /* which uses the card's weights, and the card the old net's */
    wisp_card_free(r->card);
    r->card = NULL;
    const struct wisp_net old = r->m->net;
    char *spec = r->m->spec;
    r->m->net = *small;
    r->m->spec = *text;
    *small = old;
    *text = spec;
    wisp_status st = wisp_samplers_renew(r, err);
    return st == WISP_OK ? wisp_state_save(r, err) : st;
}

/* Without branches and edges of kernels that are 0. */
static wisp_status shrink_layers(struct wisp_run *r, bool *shrunk, wisp_error *err)
{
    struct wisp_net small = { 0 };
    struct wisp_trim t;
    wisp_status st = wisp_trim_make(&t, &r->m->net, err);
    if (st == WISP_OK && t.text) {
        st = plan_smaller(&small, r, t.text, NULL, err);
        if (st == WISP_OK) wisp_trim_fill(&small, &t);
        *shrunk = st == WISP_OK && pays(r, &small);
        if (*shrunk) st = take_smaller(r, &small, &t.text, 0, err);
    }
    wisp_trim_clear(&t);
    wisp_net_clear(&small);
    return st;
}

/* To numbers of channels that are fast here, or that a card has, where 'padding' of them could go;
 * returns how many bonds go then. */
static size_t round_counts(bool *keep, const struct wisp_run *r, const struct wisp_bonds *bonds,
                           char *said, size_t room, size_t *padding)
{
    size_t gone = 0;
    struct wisp_widths w;
    const bool cuda = r->plan.cuda;
    if (cuda) wisp_widths_card(&w);
    if (r->plan.round && (cuda || wisp_widths_know(&w, &r->m->net, r->ctx)))
        wisp_widths_round(keep, bonds, &r->m->net, &w, said, room);
    if (cuda)
        *padding = wisp_compact_round(keep, bonds, &r->m->net, WISP_CUDA_UNITS,
                                      rounds_maps(r) ? WISP_WIDTHS_BLOCK : 1);
    for (size_t c = 0; c < bonds->n; c++) gone += !keep[c];
    return gone;
}

/* Without channels that are 0, or single weights. */
static wisp_status shrink(struct wisp_run *r, bool *shrunk, const struct wisp_bonds *bonds,
                          wisp_error *err)
{
    const bool thin = r->plan.magnitude > 0;
    const struct wisp_net *net = &r->m->net;
    struct wisp_net small = { 0 };
    struct wisp_smaller s = { 0 };
    size_t gone, padding = 0;
    bool *keep = wisp_alloc(bonds->n, sizeof *keep);
    if (!keep) return wisp_fail_mem(err, bonds->n, "channels to keep");
    char said[300] = "";
    wisp_status st = wisp_compact_choose(keep, &gone, bonds, net, err);
    if (st == WISP_OK && thin) /* units without connections cost nothing, and a card may have it */
        padding = wisp_compact_round(keep, bonds, net, WISP_CUDA_UNITS, 1);
    else if (st == WISP_OK && gone > 0)
        gone = round_counts(keep, r, bonds, said, sizeof said, &padding);
    if (st == WISP_OK && (gone > 0 || thin)) {
        st = wisp_smaller_make(&s, net, bonds, keep, thin, err);
        if (st == WISP_OK) st = make_smaller(&small, r, &s, err);
        *shrunk = st == WISP_OK && (thin ? differs(net, &small) : pays(r, &small));
        if (*shrunk && *said)
            wisp_say(r->ctx, "counts    %s: %s",
                     r->plan.cuda ? "as cards have them" : "faster here", said);
        if (*shrunk) st = take_smaller(r, &small, &s.text, padding, err);
    }
    wisp_smaller_clear(&s);
    wisp_net_clear(&small);
    wisp_free(keep);
    return st;
}

wisp_status wisp_run_shrink(struct wisp_run *r, bool *shrunk, wisp_error *err)
{
    const int last = wisp_plan_shrink_epochs(&r->plan) + 1;
    *shrunk = false;
    if (last == 1 || r->at.epoch == 1 || r->at.in_epoch > 0 || r->at.epoch > last) return WISP_OK;
    wisp_status st = r->penalty ? shrink_layers(r, shrunk, err) : WISP_OK;
    if (st != WISP_OK || *shrunk) return st;
    if (r->penalty) return shrink(r, shrunk, &r->penalty->bonds, err);
    if (r->at.epoch < last) return WISP_OK; /* weights go all at once */
    struct wisp_bonds bonds;
    const struct wisp_graph g = wisp_net_graph(&r->m->net);
    st = wisp_bonds_of(&bonds, &g, &r->m->net.list, err);
    if (st == WISP_OK) st = shrink(r, shrunk, &bonds, err);
    wisp_bonds_clear(&bonds);
    return st;
}
