/* Samplers of hidden layers: each 'sampled' layer of the net has its own, with its own seed.
 *
 * A hidden layer has no labels, so its sampler finds rows by their scores alone.  It keeps a
 * twentieth of the units for every sample, and computes at least as many, so a step never has
 * none. */
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"
#include "model/train.h"

#include <string.h>

enum { LEAST_KEPT = 20, KEPT_OF = 20 };

static bool samples(const struct wisp_run *r, const struct wisp_layer *l)
{
    return l->kind == &wisp_layer_sampled && strcmp(r->plan.hidden.names, "full") != 0;
}

/* 'o' receives the settings: it must live as long as the setup. */
static struct wisp_finder_setup setup(struct wisp_sampling *o, const struct wisp_run *r,
                                      const struct wisp_layer *l)
{
    *o = r->plan.hidden;
    o->keep = l->n_out / KEPT_OF > LEAST_KEPT ? l->n_out / KEPT_OF : LEAST_KEPT;
    o->least = o->keep;
    return (struct wisp_finder_setup){
        .o = o,
        .n_rows = l->n_out,
        .width = l->n_in,
        .batch = r->plan.batch,
        .seed = wisp_rand(r->plan.seed, WISP_STREAM_HIDDEN, (uint64_t)l->number),
        .threads = wisp_pool_threads(r->ctx->pool),
    };
}

size_t wisp_samplers_bytes(const struct wisp_run *r)
{
    const struct wisp_net *net = &r->m->net;
    size_t bytes = 0;
    for (int i = 0; i < net->n_layers; i++) {
        struct wisp_sampling o;
        struct wisp_finder_setup s = setup(&o, r, &net->layers[i]);
        if (samples(r, &net->layers[i])) bytes += wisp_sampler_bytes(&s, 0);
    }
    return bytes;
}

wisp_status wisp_samplers_make(struct wisp_run *r, wisp_error *err)
{
    const struct wisp_net *net = &r->m->net;
    r->hidden = wisp_zalloc((size_t)net->n_layers, sizeof *r->hidden);
    if (!r->hidden) return wisp_fail_mem(err, sizeof *r->hidden, "the samplers");
    r->n_hidden = net->n_layers;
    wisp_status st = WISP_OK;
    for (int i = 0; st == WISP_OK && i < net->n_layers; i++) {
        struct wisp_sampling o;
        struct wisp_finder_setup s = setup(&o, r, &net->layers[i]);
        if (samples(r, &net->layers[i]))
            st = wisp_sampler_create(&r->hidden[i], &s, r->ctx->k, 0, err);
        if (r->hidden[i]) net->layers[i].sampler = r->hidden[i];
    }
    return st;
}

void wisp_samplers_clear(struct wisp_run *r)
{
    for (int i = 0; i < r->n_hidden; i++) wisp_sampler_free(r->hidden[i]);
    wisp_free(r->hidden);
    r->hidden = NULL;
    r->n_hidden = 0;
}
