/* Deep sparse nets: a mode, a device, and nets made by hand (wisp_sparse_*). */
#include "api/deep.h"
#include "base/mem.h"
#include "kernels/kernels.h"
#include "model/deep.h"
#include "spdnn/mtx.h"
#include "spdnn/netfile.h"

#include <math.h>
#include <string.h>

/* ---- a mode and a device ---- */

wisp_status wisp_deep_settings(struct wisp_deep *d, const wisp_config *cfg, wisp_error *err)
{
    d->mode = wisp_opt_text(cfg, OPT_MODE);
    d->merged = strcmp(d->mode, "merged") == 0;
    d->run.drop = strcmp(d->mode, "raw") != 0;
    d->card = wisp_opt_is(cfg, OPT_DEVICE, "cuda");
    d->on_card.most_bytes = (size_t)wisp_opt_num(cfg, OPT_MEMORY);
    if (d->on_card.most_bytes && !d->card)
        return wisp_fail_option(err, "memory", "limits what lies on a card; add --device cuda");
    return WISP_OK;
}

wisp_status wisp_deep_analyse(struct wisp_deep *d, struct wisp_spnet *net,
                              const struct wisp_context *ctx, wisp_error *err)
{
    const double t0 = wisp_now();
    wisp_status st = d->run.drop ? wisp_spnet_rules(net, ctx->pool, err) : WISP_OK;
    if (st == WISP_OK && d->merged) st = wisp_spnet_merge(&d->small, &d->found, net, err);
    d->analysis_s = wisp_now() - t0;
    if (st != WISP_OK || !d->run.drop) return st;
    if (net->zero_from == net->n_layers)
        wisp_say(ctx, "the last layer does not keep inputs that are all zero: none is dropped");
    if (net->full_from == net->n_layers)
        wisp_say(ctx,
                 "the last layer does not keep inputs that are all at the clip: none is retired");
    if (d->merged && d->found.n_edges == net->n_edges)
        wisp_say(ctx, "no two neurons are equal: nothing was merged");
    return st;
}

/* Values of the merged net's outputs to those of the net. */
static void spread_values(float *to, const float *from, const struct wisp_merged *m, size_t n,
                          size_t n_from)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t o = 0; o < m->n_last; o++)
            to[i * m->n_last + o] = from[i * n_from + m->last[o]];
}

static wisp_status run_it(struct wisp_deep *d, const struct wisp_spnet *net,
                          const struct wisp_spinputs *x, int repeats,
                          const struct wisp_context *ctx, wisp_error *err)
{
    if (!d->card) return wisp_spnet_run(&d->run, net, x, ctx, err);
    d->on_card.repeats = repeats;
    return wisp_spnet_run_card(&d->run, &d->on_card, net, x, err);
}

wisp_status wisp_deep_run(struct wisp_deep *d, const struct wisp_spnet *net,
                          const struct wisp_spinputs *x, int repeats,
                          const struct wisp_context *ctx, wisp_error *err)
{
    float *values = d->run.values;
    if (!d->merged || !values) return run_it(d, d->merged ? d->small : net, x, repeats, ctx, err);
    const size_t n_out = d->small->layers[d->small->n_layers - 1].n_out;
    d->run.values = wisp_alloc(x->n * n_out, sizeof *values);
    wisp_status st = d->run.values
                         ? run_it(d, d->small, x, repeats, ctx, err)
                         : wisp_fail_mem(err, x->n * n_out * sizeof *values, "the results");
    if (st == WISP_OK) spread_values(values, d->run.values, &d->found, x->n, n_out);
    wisp_free(d->run.values);
    d->run.values = values;
    return st;
}

void wisp_deep_report(struct wisp_report *r, const struct wisp_deep *d,
                      const struct wisp_spnet *net, size_t n, const struct wisp_context *ctx)
{
    wisp_report_num(r, "inputs", (double)n);
    wisp_report_num(r, "edges", (double)net->n_edges);
    wisp_report_num(r, "live_layers", n ? (double)d->run.work / (double)n : 0);
    if (d->run.drop) wisp_report_num(r, "zero_from", (double)net->zero_from);
    if (d->run.drop) wisp_report_num(r, "full_from", (double)net->full_from);
    if (d->merged) wisp_report_num(r, "merged_width", d->found.widest);
    if (d->merged) wisp_report_num(r, "merged_edges", (double)d->found.n_edges);
    wisp_report_num(r, "threads", wisp_pool_threads(ctx->pool));
    wisp_report_text(r, "kernel", d->card ? d->on_card.form : ctx->k->name);
    if (d->card) wisp_report_num(r, "streamed", d->on_card.streamed);
    if (d->card) wisp_report_num(r, "card_bytes", (double)d->on_card.bytes);
}

void wisp_deep_clear(struct wisp_deep *d)
{
    wisp_spnet_free(d->small);
    wisp_merged_clear(&d->found);
    d->small = NULL;
}

/* ---- nets made by hand ---- */

struct wisp_sparse {
    struct wisp_spnet *net;
    struct wisp_deep deep;
    bool analysed; /* in the mode of 'deep' */
};

static wisp_status wrap(wisp_sparse **out, struct wisp_spnet *net, wisp_error *err)
{
    *out = net ? wisp_zalloc(1, sizeof **out) : NULL;
    if (*out) {
        (*out)->net = net;
        return WISP_OK;
    }
    wisp_spnet_free(net);
    return wisp_fail_mem(err, sizeof **out, "a sparse network");
}

wisp_status wisp_sparse_create(wisp_sparse **out, double clip, wisp_error *err)
{
    *out = NULL;
    if (!(clip >= 0))
        return wisp_fail(err, WISP_EINVAL, "a clip of %g; it must be above 0, or 0 for none", clip);
    return wrap(out, wisp_spnet_create(clip > 0 ? (float)clip : INFINITY), err);
}

void wisp_sparse_free(wisp_sparse *net)
{
    if (!net) return;
    wisp_deep_clear(&net->deep);
    wisp_spnet_free(net->net);
    wisp_free(net);
}

wisp_status wisp_sparse_add(wisp_sparse *net, uint32_t n_in, uint32_t n_out, const uint64_t *start,
                            const uint32_t *in, const float *weights, const float *biases,
                            int linear, wisp_error *err)
{
    for (uint32_t o = 0; o < n_out; o++)
        if (start[o + 1] < start[o] || start[0] != 0)
            return wisp_fail(err, WISP_EINVAL,
                             "output %u: its inputs begin at %llu and end at %llu", o,
                             (unsigned long long)start[o], (unsigned long long)start[o + 1]);
    const struct wisp_edges e = { .n_in = n_in,
                                  .n_out = n_out,
                                  .start = start,
                                  .in = in,
                                  .w = weights,
                                  .weight = 1,
                                  .biases = biases,
                                  .linear = linear != 0 };
    net->analysed = false;
    return wisp_spnet_add(net->net, &e, err);
}

wisp_status wisp_sparse_add_file(wisp_sparse *net, const char *path, double bias, int linear,
                                 wisp_error *err)
{
    struct wisp_mtx m;
    wisp_error why = { 0 };
    wisp_status st = wisp_mtx_read(&m, path, false, err);
    if (st != WISP_OK) return st;
    m.e.bias = (float)bias;
    m.e.linear = linear != 0;
    net->analysed = false;
    st = wisp_spnet_add(net->net, &m.e, &why);
    wisp_mtx_clear(&m);
    return st == WISP_OK ? st : wisp_fail_at(err, st, path, 0, "%.400s", why.text);
}

wisp_status wisp_sparse_save(const wisp_sparse *net, const char *path, wisp_error *err)
{
    return wisp_spnet_save(net->net, path, NULL, err);
}

wisp_status wisp_sparse_load(wisp_sparse **out, wisp_context *ctx, const char *path,
                             wisp_error *err)
{
    struct wisp_spnet *net;
    *out = NULL;
    const wisp_status st = wisp_spnet_open(&net, ctx, path, err);
    return st == WISP_OK ? wrap(out, net, err) : st;
}

static wisp_status check_inputs(const struct wisp_sparse *net, const struct wisp_spinputs *x,
                                wisp_error *err)
{
    if (net->net->n_layers == 0) return wisp_fail(err, WISP_EINVAL, "a network without layers");
    for (size_t i = 0; i < x->n; i++) {
        if (x->start[i + 1] < x->start[i])
            return wisp_fail(err, WISP_EINVAL, "input %zu begins at %llu and ends at %llu", i,
                             (unsigned long long)x->start[i], (unsigned long long)x->start[i + 1]);
        for (uint64_t k = x->start[i]; k < x->start[i + 1]; k++)
            if (x->id[k] >= x->width || !isfinite(x->value[k]))
                return wisp_fail(err, WISP_EINVAL,
                                 "input %zu: value %g at place %u; places are 0..%u, values finite",
                                 i, (double)x->value[k], x->id[k], x->width - 1);
    }
    return WISP_OK;
}

static wisp_status report(wisp_report **out, const struct wisp_sparse *net,
                          const struct wisp_spinputs *x, const struct wisp_context *ctx,
                          wisp_error *err)
{
    struct wisp_report *r = wisp_report_create();
    wisp_report_num(r, "seconds", net->deep.run.seconds);
    wisp_report_num(r, "analysis_seconds", net->deep.analysis_s);
    wisp_report_num(r, "upload_seconds", net->deep.on_card.upload_s);
    wisp_deep_report(r, &net->deep, net->net, x->n, ctx);
    wisp_report_num(r, "peak_bytes", (double)wisp_mem_peak());
    return wisp_report_done(out, r, err);
}

wisp_status wisp_sparse_run(float *values, uint8_t *ends, wisp_report **out, wisp_context *ctx,
                            wisp_sparse *net, size_t n, const uint64_t *start, const uint32_t *id,
                            const float *value, const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_spinputs x = { .n = n,
                                     .width = net->net->n_layers ? net->net->layers[0].n_in : 0,
                                     .start = (uint64_t *)start,
                                     .id = (uint32_t *)id,
                                     .value = (float *)value };
    struct wisp_deep now = { 0 };
    if (out) *out = NULL;
    wisp_status st = wisp_deep_settings(&now, cfg, err);
    if (st == WISP_OK) st = check_inputs(net, &x, err);
    if (st != WISP_OK) return st;
    if (net->analysed && net->deep.merged == now.merged && net->deep.run.drop == now.run.drop) {
        now.small = net->deep.small;
        now.found = net->deep.found;
    } else {
        /* What is let go is first forgotten: another thread may fork the process at any moment, and
         * the child's copy of the net is then whole. */
        struct wisp_deep old = net->deep;
        net->analysed = false;
        net->deep = (struct wisp_deep){ 0 };
        wisp_deep_clear(&old);
        st = wisp_deep_analyse(&now, net->net, ctx, err);
    }
    net->deep = now;
    net->analysed = st == WISP_OK;
    net->deep.run.values = values;
    net->deep.run.ends = ends;
    if (st == WISP_OK) st = wisp_deep_run(&net->deep, net->net, &x, 1, ctx, err);
    if (st == WISP_OK && out) st = report(out, net, &x, ctx, err);
    return st;
}
