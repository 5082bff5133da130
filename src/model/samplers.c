/* The samplers of a run: that of the output layer, with the votes that it may need, and one of each
 * hidden layer that asks for one, with a seed of its own.
 *
 * A hidden layer has no labels, so its sampler finds rows by their scores alone.  It keeps a
 * twentieth of the units for every sample, and computes at least as many, so a step never has
 * none. */
#include "model/samplers.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"
#include "model/run.h"

enum { LEAST_KEPT = 20, KEPT_OF = 20 };

/* ---- the output layer ---- */

static bool sampled(const struct wisp_run *r)
{
    return !wisp_sampling_is_full(r->plan.sampling.names);
}

static bool wants_votes(const struct wisp_run *r)
{
    return r->plan.index || wisp_sampling_needs_votes(r->plan.sampling.names);
}

void wisp_run_finder_setup(struct wisp_finder_setup *s, const struct wisp_run *r, size_t n_labels,
                           size_t width)
{
    *s = (struct wisp_finder_setup){ .o = &r->plan.sampling,
                                     .n_rows = n_labels,
                                     .width = width,
                                     .batch = r->plan.batch,
                                     .n_samples = r->sets.train->n_rows,
                                     .label_rows = r->m->label_rows,
                                     .votes = r->plan.index ? &r->m->votes : &r->samplers.votes,
                                     .seed = r->plan.seed,
                                     .threads = wisp_pool_threads(r->ctx->pool),
                                     .share = wisp_comm_deal(wisp_run_shares(r)) };
}

static size_t row_labels(const struct wisp_rows *b, size_t row)
{
    return b->yp[row + 1] - b->yp[row];
}

/* The most labels that a batch can have: those of the rows with most. */
static wisp_status most_labels(size_t *out, const struct wisp_data *d, size_t batch,
                               wisp_error *err)
{
    size_t longest = 0;
    for (size_t b = 0; b < d->n_blocks; b++)
        for (size_t i = 0; i < d->blocks[b].n; i++)
            longest = wisp_most(longest, row_labels(&d->blocks[b], i));
    size_t *rows = wisp_zalloc(longest + 1, sizeof *rows);
    if (!rows) return wisp_fail_mem(err, (longest + 1) * sizeof *rows, "counts of labels");
    for (size_t b = 0; b < d->n_blocks; b++)
        for (size_t i = 0; i < d->blocks[b].n; i++) rows[row_labels(&d->blocks[b], i)]++;
    *out = 0;
    for (size_t n = longest; n > 0 && batch > 0; n--) {
        size_t take = rows[n] < batch ? rows[n] : batch;
        *out += take * n;
        batch -= take;
    }
    wisp_free(rows);
    return WISP_OK;
}

wisp_status wisp_samplers_room(struct wisp_layer_sizes *sizes, struct wisp_run *r, size_t n_labels,
                               wisp_error *err)
{
    size_t *labels = &r->samplers.batch_labels;
    struct wisp_finder_setup setup;
    if (!sampled(r) && !r->plan.cuda) return WISP_OK;
    wisp_status st = most_labels(labels, r->sets.train, r->plan.batch, err);
    if (st != WISP_OK || !sampled(r)) return st;
    wisp_run_finder_setup(&setup, r, n_labels, 0);
    sizes->active = wisp_sampler_room(&setup, *labels);
    if (sizes->active > wisp_share_rows(setup.share, n_labels))
        sizes->active = wisp_share_rows(setup.share, n_labels);
    sizes->own = wisp_sampler_own_room(&setup, *labels);
    sizes->best = wisp_sampler_wants(&setup).best;
    if (sizes->own <= UINT32_MAX) return WISP_OK;
    return wisp_fail_option(err, "active-per example",
                            "a batch has up to %zu rows of samples' own; take a "
                            "smaller --batch, --keep or --random",
                            sizes->own);
}

/* With the votes; what making these takes is given back before the sampler is made. */
static size_t output_bytes(const struct wisp_run *r)
{
    const struct wisp_net *net = &r->m->net;
    const struct wisp_model *init = r->init.model;
    size_t sampler = 0, making = 0, staying = 0;
    if (sampled(r)) {
        struct wisp_finder_setup setup;
        wisp_run_finder_setup(&setup, r, net->n_labels, wisp_net_output(net)->n_in);
        sampler = wisp_sampler_bytes(&setup, r->samplers.batch_labels);
    }
    if (wants_votes(r))
        wisp_votes_bytes(&making, &staying, r->sets.train, net->n_features,
                         wisp_pool_threads(r->ctx->pool));
    if (wants_votes(r) && init && init->votes.start)
        staying += 8 * (size_t)init->votes.start[init->votes.n_features];
    return staying + wisp_most(making, sampler);
}

/* The index for sparse prediction, which a sampler may use too: of the training rows, and of those
 * that the model to start from was trained on. */
static wisp_status make_votes(struct wisp_run *r, wisp_error *err)
{
    struct wisp_votes *votes = r->plan.index ? &r->m->votes : &r->samplers.votes;
    if (!wants_votes(r)) return WISP_OK;
    wisp_status st = wisp_votes_make(votes, r->ctx, r->sets.train, r->m->net.n_features,
                                     &r->m->values, r->plan.seed, err);
    bool more = st == WISP_OK && r->init.model && r->init.model->votes.start;
    return more ? wisp_votes_join(votes, r->ctx, &r->init.model->votes, err) : st;
}

static wisp_status make_sampler(struct wisp_run *r, wisp_error *err)
{
    struct wisp_layer *out = wisp_net_output(&r->m->net);
    struct wisp_finder_setup setup;
    wisp_run_finder_setup(&setup, r, r->m->net.n_labels, out->n_in);
    wisp_status st =
        wisp_sampler_create(&r->samplers.output, &setup, r->ctx->k, r->samplers.batch_labels, err);
    out->sampler = r->samplers.output;
    return st;
}

static wisp_status make_output(struct wisp_run *r, wisp_error *err)
{
    if (!sampled(r)) return WISP_OK;
    wisp_status st = make_sampler(r, err);
    return st == WISP_OK ? wisp_recall_init(&r->samplers.recall, wisp_net_output(&r->m->net),
                                            wisp_pool_threads(r->ctx->pool), err)
                         : st;
}

/* ---- hidden layers ---- */

static bool samples(const struct wisp_run *r, const struct wisp_layer *l)
{
    return l->kind->uses & WISP_SAMPLES && !l->kind->head &&
           !wisp_sampling_is_full(r->plan.hidden.names);
}

/* 'o' receives the settings: it must live as long as the setup. */
static struct wisp_finder_setup hidden_setup(struct wisp_sampling *o, const struct wisp_run *r,
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

static size_t hidden_bytes(const struct wisp_run *r)
{
    const struct wisp_net *net = &r->m->net;
    size_t bytes = 0;
    for (int i = 0; i < net->n_layers; i++) {
        struct wisp_sampling o;
        struct wisp_finder_setup s = hidden_setup(&o, r, &net->layers[i]);
        if (samples(r, &net->layers[i])) bytes += wisp_sampler_bytes(&s, 0);
    }
    return bytes;
}

static wisp_status make_hidden(struct wisp_run *r, wisp_error *err)
{
    const struct wisp_net *net = &r->m->net;
    struct wisp_samplers *all = &r->samplers;
    const size_t n = (size_t)net->n_layers;
    if (!(all->hidden = wisp_zalloc(n, sizeof(struct wisp_sampler *))))
        return wisp_fail_mem(err, n * sizeof(struct wisp_sampler *), "the samplers");
    all->n_hidden = net->n_layers;
    wisp_status st = WISP_OK;
    for (int i = 0; st == WISP_OK && i < net->n_layers; i++) {
        struct wisp_sampling o;
        struct wisp_finder_setup s = hidden_setup(&o, r, &net->layers[i]);
        if (samples(r, &net->layers[i]))
            st = wisp_sampler_create(&all->hidden[i], &s, r->ctx->k, 0, err);
        if (all->hidden[i]) net->layers[i].sampler = all->hidden[i];
    }
    return st;
}

/* ---- all of them ---- */

size_t wisp_samplers_bytes(size_t *hidden, const struct wisp_run *r)
{
    *hidden = hidden_bytes(r);
    return output_bytes(r) + *hidden;
}

wisp_status wisp_samplers_make(struct wisp_run *r, wisp_error *err)
{
    wisp_status st = make_votes(r, err);
    if (st == WISP_OK) st = make_output(r, err);
    return st == WISP_OK ? make_hidden(r, err) : st;
}

static void free_hidden(struct wisp_samplers *s)
{
    for (int i = 0; i < s->n_hidden; i++) wisp_sampler_free(s->hidden[i]);
    wisp_free(s->hidden);
    s->hidden = NULL;
    s->n_hidden = 0;
}

wisp_status wisp_samplers_renew(struct wisp_run *r, wisp_error *err)
{
    struct wisp_sampler *old = r->samplers.output;
    wisp_status st = WISP_OK;
    if (old) st = make_sampler(r, err);
    if (old && st == WISP_OK) wisp_sampler_inherit(r->samplers.output, old);
    wisp_sampler_free(old);
    free_hidden(&r->samplers); /* whose rows are others now */
    return st == WISP_OK ? make_hidden(r, err) : st;
}

bool wisp_samplers_any(const struct wisp_samplers *s)
{
    bool any = s->output != NULL;
    for (int i = 0; i < s->n_hidden; i++) any |= s->hidden[i] != NULL;
    return any;
}

void wisp_samplers_clear(struct wisp_samplers *s)
{
    wisp_sampler_free(s->output);
    free_hidden(s);
    wisp_recall_clear(&s->recall);
    wisp_votes_clear(&s->votes);
    *s = (struct wisp_samplers){ 0 };
}
