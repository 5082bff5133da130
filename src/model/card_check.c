/* What a card has no form for: rows of the host's tables, by their names, and settings of a run.
 * Nothing is printed, and no memory taken. */
#include "layer/product.h"
#include "model/card.h"
#include "model/card_ranks.h"
#include "model/groups.h"

#include <stdio.h>

wisp_status wisp_not_on_card(wisp_error *err, const char *what)
{
    return wisp_fail(err, WISP_ENOTSUP, WISP_CUDA_LACKS, what);
}

static wisp_status no_row(wisp_error *err, const char *option, const char *name)
{
    char what[100];
    snprintf(what, sizeof what, "--%s %s", option, name);
    return wisp_not_on_card(err, what);
}

wisp_status wisp_card_finders(struct wisp_finders *out, const struct wisp_run *r, wisp_error *err)
{
    const struct wisp_net *net = &r->m->net;
    struct wisp_finder_setup setup;
    wisp_run_finder_setup(&setup, r, net->n_labels, wisp_net_output(net)->n_in);
    const struct wisp_finder_kind *without = wisp_sampler_device(out, &setup, r->samplers.output);
    return without ? no_row(err, "sampling", without->name) : WISP_OK;
}

static wisp_status check_rows(const struct wisp_cuda *api, const struct wisp_plan *p,
                              const struct wisp_finders *f, wisp_error *err)
{
    const struct {
        bool has;
        const char *option, *name;
    } rows[] = {
        { api->optimizers >> p->optimizer->id & 1, "optimizer", p->optimizer->name },
        { api->losses >> p->loss->id & 1, "loss", p->loss->name },
        { api->precisions >> p->precision->id & 1, "precision", p->precision->name },
        { !f->hash.family || api->has_family(f->hash.family), "hash", f->hash.family },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!rows[i].has) return no_row(err, rows[i].option, rows[i].name);
    return WISP_OK;
}

wisp_status wisp_card_check_with(const struct wisp_cuda *api, const struct wisp_run *r,
                                 wisp_error *err)
{
    const struct wisp_plan *p = &r->plan;
    const struct wisp_sampling *o = &p->sampling;
    const struct wisp_net *net = &r->m->net;
    struct wisp_finders f;
    const struct wisp_graph g = wisp_net_graph(net);
    wisp_status st = wisp_card_finders(&f, r, err);
    if (st == WISP_OK) st = check_rows(api, p, &f, err);
    if (st == WISP_OK) st = api->check(&g, &f, err);
    if (st != WISP_OK) return st;
#define MORE(found, most, here, what)                                                              \
    {                                                                                              \
        (found) > (most) && (here), what " of more than " #most                                    \
    }
    const struct {
        bool asked;
        const char *what;
    } lacks[] = {
        { o->per_example, "--active-per example" },
        { o->correct > 0, "--correct" },
        { !o->rescore, "--rescore no" },
        { o->least || o->most, "--active-min or --active-max" },
        MORE(o->keep, 1000, true, "--keep"),
        MORE(o->keep, 64, f.scan, "--sampling scan with --keep"),
        MORE(o->n_carried, 2000, true, "--carry"),
        { p->average > 0, "--average" },
        { p->magnitude > 0, "--magnitude" },
        { p->penalty > 0 && p->groups != WISP_GROUPS_CHANNELS, "--groups shapes or layers" },
        { p->errors.rate > 0, "--error-rate" },
        { r->sets.weights, "training with weights of rows or labels" },
        { r->init.model && (p->old_pace != 1 || net->n_labels > r->init.model->net.n_labels),
          "--init with new labels, or with an --old-pace other than 1," },
        { p->slots & WISP_SLOT_HALF, "--moments bf16" },
        { p->memory, "--memory" },
        { r->sets.train->n_rows > INT32_MAX, "a set of more than 2^31 rows" },
    };
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
        if (lacks[i].asked) return wisp_not_on_card(err, lacks[i].what);
    return WISP_OK;
}

wisp_status wisp_card_check_run(const struct wisp_run *r, wisp_error *err)
{
    const struct wisp_cuda *api;
    wisp_status st = wisp_card_open(&api, r, err);
    return st == WISP_OK ? wisp_card_check_with(api, r, err) : st;
}
