/* Making a training run: the model, the order of rows, all memory, the printed plan. */
#include "base/bounds.h"
#include "base/mem.h"
#include "layer/product.h"
#include "model/card.h"
#include "model/about.h"
#include "model/init.h"
#include "model/known.h"

#include <stdio.h>
#include <string.h>

/* Where the first byte is that is no UTF-8, or a control character; the length: there is none. */
static size_t first_odd(const char *s, bool lines)
{
    size_t at = 0, left = strlen(s);
    for (size_t step; left > 0; at += step, left -= step) {
        step = wisp_utf8_bytes((const unsigned char *)s + at, left);
        bool control = (unsigned char)s[at] < ' ' && !(lines && s[at] == '\n');
        if (step == 0 || control || s[at] == 0x7f) break;
    }
    return at;
}

/* Options that shape the result, as lines "key=value": kept in the model, compared on resume. */
static wisp_status options_text(char **out, const struct wisp_run *r, const wisp_config *cfg,
                                wisp_error *err)
{
    static const enum wisp_opt aside[] = {
        OPT_RESUME,     OPT_LOG,         OPT_JSON,
        OPT_QUIET,      OPT_THREADS,     OPT_CONFIG,
        OPT_CACHE,      OPT_DEVICE,      OPT_VALID,
        OPT_LABELS,     OPT_VOCAB,       OPT_CHECKPOINT_STEPS,
        OPT_KEEP_STATE, OPT_CARD_MEMORY, OPT_CHECKPOINT_MINUTES
    };
    size_t room = 100;
    for (int i = 0; i < N_OPTS; i++)
        room += strlen(wisp_option_row((size_t)i)->key) +
                strlen(wisp_opt_text(cfg, (enum wisp_opt)i)) + 2;
    char *p = *out = wisp_alloc(room, 1);
    if (!p) return wisp_fail_mem(err, room, "options");
    *p = 0;
    for (int i = 0; i < N_OPTS; i++) {
        const wisp_option *o = wisp_option_row((size_t)i);
        bool skip = !strstr(o->commands, "train");
        for (size_t k = 0; k < sizeof aside / sizeof *aside; k++)
            skip |= aside[k] == (enum wisp_opt)i;
        if (!skip) p += sprintf(p, "%s=%s\n", o->key, wisp_opt_text(cfg, (enum wisp_opt)i));
    }
    if (r->init) sprintf(p, "init-checksum=%s\n", r->init->file.check); /* a path may be reused */
    const char *note = wisp_opt_text(cfg, OPT_NOTE);
    size_t bad = first_odd(note, false);
    if (note[bad])
        return wisp_fail(err, WISP_EINVAL,
                         "--note: byte 0x%02x at %zu: expected one line of text in UTF-8",
                         (unsigned char)note[bad], bad);
    for (char *s = *out; *(s += first_odd(s, true)); s++) *s = '?'; /* a path need not be UTF-8 */
    return WISP_OK;
}

/* Names from the data itself (text, or matched with the model's that training goes on from), from a
 * file, or from that model.  n: ids in use. */
static wisp_status take_names(struct wisp_names *out, const struct wisp_names *own,
                              const struct wisp_names *init, const char *path, size_t n,
                              const char *what, wisp_error *err)
{
    const struct wisp_names *from = own->n ? own : !*path && init && init->n ? init : NULL;
    wisp_status st = WISP_OK;
    if (from) st = wisp_names_init(out, from->text, from->bytes, true, err);
    else if (*path) st = wisp_names_load(out, path, err);
    bool of_init = from && from == init;
    if (st == WISP_OK && out->n && out->n < n)
        return wisp_fail_at(err, WISP_EINVAL,
                            of_init ? "--init"
                            : *path ? path
                                    : "text",
                            0, "has %zu names, the data has %zu %s%s", out->n, n, what,
                            of_init ? "; give the names of all of them in a file" : "");
    return st;
}

/* The training counts of labels, for metrics and priors: with those of the model to start from, as
 * if all rows had been trained on at once.  Names may know labels no row has. */
static wisp_status count_labels(struct wisp_run *r, size_t n_labels, wisp_error *err)
{
    struct wisp_model *m = r->m;
    const struct wisp_data *d = r->train;
    m->counts = wisp_zalloc(n_labels, sizeof *m->counts);
    if (!m->counts) return wisp_fail_mem(err, n_labels * sizeof *m->counts, "counts of labels");
    memcpy(m->counts, d->label_rows, d->n_labels * sizeof *m->counts);
    for (size_t l = 0; r->init && l < r->init->net.n_labels; l++)
        m->counts[l] += r->init->label_rows[l];
    m->label_rows = m->counts;
    m->n_train = d->n_rows + (r->init ? r->init->n_train : 0);
    return WISP_OK;
}

/* The values a row's features take: idf, or means and scales, of the training rows; features of the
 * model to start from keep its own, which their weights were learnt on. */
static wisp_status set_values(struct wisp_run *r, size_t n_features, wisp_error *err)
{
    struct wisp_model *m = r->m;
    m->values = r->init ? r->init->values : r->plan.values;
    m->idf = wisp_zalloc(n_features, sizeof *m->idf);
    if (!m->idf) return wisp_fail_mem(err, n_features * sizeof *m->idf, "idf");
    wisp_values_idf(m->idf, r->train);
    if (r->init) wisp_init_idf(r);
    m->values.idf = m->idf;
    if (m->values.mode != WISP_VALUES_STANDARD) return WISP_OK;
    float *mean = m->columns = wisp_zalloc(2 * n_features, sizeof *mean),
          *scale = mean + n_features;
    if (!mean) return wisp_fail_mem(err, 2 * n_features * sizeof *mean, "means of columns");
    wisp_status st = wisp_values_columns(mean, scale, r->train, err);
    if (st != WISP_OK) return st;
    if (r->init) wisp_init_columns(r);
    m->values.mean = mean, m->values.scale = scale;
    for (size_t f = 0; f < n_features; f++)
        if (scale[f] > 0) return WISP_OK;
    return wisp_fail(err, WISP_EINVAL,
                     "--values standard: every column of the training rows has a single value; "
                     "take --values raw or unit");
}

static bool sampled(const struct wisp_run *r)
{
    return strcmp(r->plan.sampling.names, "full") != 0;
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
                                     .n_samples = r->train->n_rows,
                                     .label_rows = r->m->label_rows,
                                     .votes = r->plan.index ? &r->m->votes : &r->votes,
                                     .seed = r->plan.seed,
                                     .threads = wisp_pool_threads(r->ctx->pool) };
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

static wisp_status make_model(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_data *d = r->train;
    const struct wisp_model *init = r->init;
    struct wisp_model *m = r->m = wisp_zalloc(1, sizeof *m);
    if (!m) return wisp_fail_mem(err, sizeof *m, "a model");
    m->loss = r->plan.loss;
    bool words = d->vocab.n && d->format && d->format->words;
    m->text = words || (init && init->text);
    m->how = words || !init ? d->text : init->how;
    m->named = init ? init->named : d->named;
    m->format = d->format;
    m->index_base = d->index_base;
    if (!(m->spec = wisp_strdup(r->plan.net.line)))
        return wisp_fail_mem(err, strlen(r->plan.net.line), "a model");
    wisp_status st;
    if ((st = options_text(&m->options, r, cfg, err)) != WISP_OK ||
        (st = take_names(&m->labels, &d->labels, init ? &init->labels : NULL,
                         wisp_opt_text(cfg, OPT_LABELS), d->n_labels, "labels", err)) != WISP_OK ||
        (st = take_names(&m->vocab, &d->vocab, init ? &init->vocab : NULL,
                         wisp_opt_text(cfg, OPT_VOCAB), d->n_features, "features", err)) != WISP_OK)
        return st;
    const struct wisp_names *stop = words || !init ? &d->stop : &init->stop;
    if ((st = wisp_names_copy(&m->stop, stop, err)) != WISP_OK) return st;
    if (init && (st = wisp_init_names(r, wisp_opt_text(cfg, OPT_INIT), err)) != WISP_OK) return st;
    size_t n_features = wisp_most(d->n_features, m->vocab.n),
           n_labels = wisp_most(d->n_labels, m->labels.n);
    if (init) n_features = wisp_most(n_features, init->net.n_features);
    if (init) n_labels = wisp_most(n_labels, init->net.n_labels);
    struct wisp_run_known known;
    wisp_run_known_init(&known, r, wisp_opt_on(cfg, OPT_RESUME));
    struct wisp_layer_sizes sizes = { .batch = r->plan.batch,
                                      .active = n_labels,
                                      .training = true,
                                      .precision = r->plan.precision,
                                      .half = r->plan.half,
                                      .known = &known.known };
    if ((sampled(r) || r->plan.cuda) &&
        (st = most_labels(&r->batch_labels, d, r->plan.batch, err)) != WISP_OK)
        return st;
    if (sampled(r)) {
        struct wisp_finder_setup setup;
        wisp_run_finder_setup(&setup, r, n_labels, 0);
        sizes.active = wisp_sampler_room(&setup, r->batch_labels);
        sizes.own = wisp_sampler_own_room(&setup, r->batch_labels);
        sizes.best = wisp_sampler_wants(&setup).best;
        if (sizes.own > UINT32_MAX)
            return wisp_fail(
                err, WISP_EINVAL,
                "--active-per example: a batch has up to %zu rows of samples' own; take a "
                "smaller --batch, --keep or --random",
                sizes.own);
    }
    st = wisp_net_plan_text(&m->net, r->plan.net.text, r->plan.net.where, n_features, n_labels,
                            &sizes, err);
    wisp_run_known_clear(&known);
    if (st != WISP_OK || (init && (st = wisp_init_fit(r, cfg, err)) != WISP_OK) ||
        (st = set_values(r, n_features, err)) != WISP_OK)
        return st;
    r->plan.slots = wisp_plan_slots(&r->plan, wisp_net_n_params(&m->net));
    return count_labels(r, n_labels, err);
}

/* The sampler and the votes; what making these takes is given back before the sampler is made. */
static size_t sampling_bytes(const struct wisp_run *r)
{
    const struct wisp_net *net = &r->m->net;
    size_t sampler = 0, making = 0, staying = 0;
    if (sampled(r)) {
        struct wisp_finder_setup setup;
        wisp_run_finder_setup(&setup, r, net->n_labels, wisp_net_output(net)->n_in);
        sampler = wisp_sampler_bytes(&setup, r->batch_labels);
    }
    if (wants_votes(r))
        wisp_votes_bytes(&making, &staying, r->train, net->n_features,
                         wisp_pool_threads(r->ctx->pool));
    if (wants_votes(r) && r->init && r->init->votes.start)
        staying += 8 * (size_t)r->init->votes.start[r->init->votes.n_features];
    return staying + wisp_most(making, sampler);
}

/* What the features of a text are. */
static void say_text(const struct wisp_run *r)
{
    const struct wisp_text_how *how = &r->m->how;
    char chars[16];
    wisp_chars_print(chars, how);
    wisp_say(r->ctx, "text      tokens: %s%s%s%s%s", wisp_tokens_name(how->tokens),
             how->pairs ? ", their pairs" : "", how->chars_max ? ", their pieces of " : "",
             how->chars_max ? chars : "", how->chars_max ? " characters" : "");
}

/* The plan, before any big block is taken: a person sees what will happen and whether it fits. */
static wisp_status print_plan(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_plan *p = &r->plan;
    const struct wisp_data *d = r->train;
    struct wisp_net *net = &r->m->net;
    wisp_status st = wisp_work_plan(net, wisp_pool_threads(r->ctx->pool), err);
    if (st != WISP_OK) return st;
    size_t weights = wisp_net_param_floats(net) * 4, wires = wisp_net_wire_ids(net) * 4,
           state = wisp_net_state_floats(net, p->slots) * 4;
    size_t work = net->work.bytes + net->work.kept;
    size_t hidden = wisp_samplers_bytes(r), index = sampling_bytes(r) + hidden;
    size_t need = weights * (p->average > 0 ? 2 : 1) + wires + state + work + index;
    size_t have = wisp_mem_available();
    wisp_say(r->ctx, "rows      %zu training%s, %zu validation%s", r->order.n_rows,
             r->weights ? " (weighted)" : "", r->valid->n_rows,
             r->held_out && r->held_out->n_rows ? " (held out)" : "");
    const char *why = r->init ? "as the model to go on from" : p->values_why;
    wisp_say(r->ctx,
             "data      %zu features, %zu labels; %.1f features and %.2f labels a row; values "
             "%s%s%s%s",
             net->n_features, net->n_labels, (double)d->nnz / (double)d->n_rows,
             (double)d->n_lab / (double)d->n_rows, wisp_values_name(r->m->values.mode),
             *why ? " (" : "", why, *why ? ")" : "");
    if (r->m->text) say_text(r);
    wisp_say(r->ctx, "net       %s, output %zu; %s loss; %.2f million parameters", r->m->spec,
             net->n_labels, p->loss->name, (double)wisp_net_n_params(net) / 1e6);
    wisp_say(
        r->ctx,
        "training  %d epochs, batch %zu, %s lr %g%s, input dropout %g, sampling %s%s%s, seed %llu",
        p->epochs, p->batch, p->optimizer->name, p->lr,
        p->slots & WISP_SLOT_HALF ? ", moments in bf16" : "", p->input_dropout, p->sampling.names,
        hidden ? ", hidden " : "", hidden ? p->hidden.names : "", (unsigned long long)p->seed);
    if (r->init) wisp_init_say(r, wisp_opt_text(cfg, OPT_INIT));
    wisp_say(r->ctx,
             "memory    %.2f GiB needed (weights %.2f, optimizer %.2f, batch %.2f, sampling %.2f), "
             "%.1f GiB free",
             wisp_gib(need), wisp_gib(weights + wires), wisp_gib(state), wisp_gib(work),
             wisp_gib(index), wisp_gib(have));
    if (!p->cuda)
        wisp_say(r->ctx,
                 "step      %.1f MiB of values, gradients and scratch; %.1f are needed at once",
                 (double)net->work.bytes / (1 << 20), (double)net->work.bound / (1 << 20));
    wisp_say(r->ctx, "machine   %s%d threads, %s kernels, products in %s",
             p->cuda ? "a card (cuda) and " : "cpu, ", wisp_pool_threads(r->ctx->pool),
             r->ctx->k->name, p->precision->name);
    if (have && need > have)
        return wisp_fail(err, WISP_ENOMEM,
                         "%.1f GiB needed, %.1f GiB free: take a smaller --hidden or --batch, "
                         "--moments bf16, or --optimizer adagrad",
                         wisp_gib(need), wisp_gib(have));
    return WISP_OK;
}

/* The first weights: random rows, biases at the labels' log prior (without it the first epochs go
 * into learning it); over these those of the model to start from. */
static wisp_status first_weights(struct wisp_run *r, wisp_error *err)
{
    struct wisp_net *net = &r->m->net;
    struct wisp_param *bias = &wisp_net_output(net)->params[1];
    double total = 0.5 * (double)bias->rows, *mass = wisp_alloc(bias->rows, sizeof *mass);
    if (!mass) return wisp_fail_mem(err, bias->rows * sizeof *mass, "the labels' priors");
    wisp_run_label_mass(mass, r);
    for (size_t l = 0; l < bias->rows; l++) total += mass[l];
    wisp_net_init(net, r->plan.seed, r->ctx->pool);
    for (size_t l = 0; l < bias->rows; l++)
        bias->w[l] = r->plan.loss->prior(mass[l], (double)r->m->n_train, total);
    wisp_free(mass);
    if (r->init) wisp_init_weights(r);
    return WISP_OK;
}

static wisp_status make_sampler(struct wisp_run *r, wisp_error *err)
{
    struct wisp_layer *out = wisp_net_output(&r->m->net);
    struct wisp_finder_setup setup;
    if (!sampled(r)) return WISP_OK;
    wisp_run_finder_setup(&setup, r, out->n_out, out->n_in);
    wisp_status st = wisp_sampler_create(&r->sampler, &setup, r->ctx->k, r->batch_labels, err);
    out->sampler = r->sampler;
    return st == WISP_OK ? wisp_recall_init(&r->recall, out, setup.threads, err) : st;
}

/* The index for sparse prediction, which a sampler may use too: of the training rows, and of those
 * that the model to start from was trained on. */
static wisp_status make_votes(struct wisp_run *r, wisp_error *err)
{
    struct wisp_votes *votes = r->plan.index ? &r->m->votes : &r->votes;
    if (!wants_votes(r)) return WISP_OK;
    wisp_status st = wisp_votes_make(votes, r->ctx, r->train, r->m->net.n_features, &r->m->values,
                                     r->plan.seed, err);
    bool more = st == WISP_OK && r->init && r->init->votes.start;
    return more ? wisp_votes_join(votes, r->ctx, &r->init->votes, err) : st;
}

static wisp_status take_memory(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    struct wisp_net *net = &r->m->net;
    const struct wisp_plan *p = &r->plan;
    wisp_status st;
    if ((st = wisp_net_alloc_params(net, err)) != WISP_OK ||
        (st = wisp_net_alloc_state(net, p->slots, err)) != WISP_OK ||
        (st = wisp_work_alloc(net, wisp_pool_threads(r->ctx->pool), err)) != WISP_OK ||
        (st = wisp_optimizer_init(&r->opt, p->optimizer, r->ctx->k, wisp_opt_num(cfg, OPT_MOMENTUM),
                                  err)) != WISP_OK ||
        (r->init && (st = wisp_init_pace(r, err)) != WISP_OK) ||
        (st = wisp_scorer_init(&r->scorer, r->m, r->ctx, 5, err)) != WISP_OK ||
        (st = make_votes(r, err)) != WISP_OK || (st = make_sampler(r, err)) != WISP_OK ||
        (st = wisp_samplers_make(r, err)) != WISP_OK)
        return st;
    for (int i = 0; i < 2; i++) {
        st = wisp_layout_init(&r->layouts[i], net->n_features, net->n_labels, true, err);
        if (st != WISP_OK) return st;
        r->layouts[i].pool = r->ctx->pool;
        if (!(r->rows[i] = wisp_alloc(p->batch, sizeof *r->rows[i])))
            return wisp_fail_mem(err, p->batch * sizeof *r->rows[i], "a batch");
    }
    size_t floats = wisp_net_param_floats(net);
    if (p->average > 0 && !(r->average = wisp_zalloc(floats, sizeof *r->average)))
        return wisp_fail_mem(err, floats * sizeof *r->average, "the averaged parameters");
    return WISP_OK;
}

wisp_status wisp_run_make(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_data *d = r->train;
    struct wisp_plan *p = &r->plan;
    wisp_status st;
    if (d->n_rows == 0) return wisp_fail(err, WISP_EINVAL, "there are no rows to train on");
    if ((st = wisp_init_open(r, cfg, err)) != WISP_OK ||
        (st = wisp_plan_make(p, cfg, r->ctx->k, d, r->init, r->valid != NULL, err)) != WISP_OK)
        return st;
    if (!r->path) p->index = r->keep; /* else nobody would keep it */
    if (r->init && (st = wisp_init_plan(r, cfg, err)) != WISP_OK) return st;
    if ((st = make_model(r, cfg, err)) != WISP_OK ||
        (st = wisp_run_weights(r, cfg, err)) != WISP_OK ||
        (st = wisp_order_init(&r->order, &r->weighted, p->seed, p->holdout, p->memory, err)) !=
            WISP_OK)
        return st;
    if (r->order.n_rows == 0)
        return wisp_fail(err, WISP_EINVAL, "no rows are left to train on: lower --holdout");
    if (!r->valid) {
        if ((st = wisp_order_held_out(&r->held_out, &r->order, err)) != WISP_OK) return st;
        r->valid = r->held_out;
    }
    if ((p->cuda && (st = wisp_card_check_run(r, err)) != WISP_OK) ||
        (st = print_plan(r, cfg, err)) != WISP_OK || (st = wisp_about_run(r, err)) != WISP_OK ||
        (st = take_memory(r, cfg, err)) != WISP_OK || (st = first_weights(r, err)) != WISP_OK)
        return st;
    if (r->init && ((st = wisp_init_state(r, cfg, err)) != WISP_OK ||
                    (st = wisp_map_check(&r->init->file.map, err)) != WISP_OK ||
                    (st = wisp_map_check(&r->init_state.map, err)) != WISP_OK))
        return st;
    r->epoch = 1;
    r->best = r->best_loss = -1;
    for (int e = 1; e <= p->epochs; e++) r->steps += wisp_order_steps(&r->order, e, p->batch);
    if (wisp_opt_on(cfg, OPT_RESUME)) st = wisp_state_load(r, err);
    if (st == WISP_OK && p->cuda && !r->finished) st = wisp_card_make(r, err);
    return st == WISP_OK ? wisp_state_begin(r, err) : st;
}

void wisp_run_clear(struct wisp_run *r)
{
    wisp_plan_clear(&r->plan);
    wisp_scorer_clear(&r->scorer);
    wisp_card_free(r->card);
    wisp_sampler_free(r->sampler);
    wisp_samplers_clear(r);
    wisp_recall_clear(&r->recall);
    wisp_pairs_clear(&r->pairs);
    for (int i = 0; i < 2; i++) {
        wisp_layout_clear(&r->layouts[i]);
        wisp_free(r->rows[i]);
    }
    wisp_optimizer_clear(&r->opt);
    wisp_order_clear(&r->order);
    wisp_model_free(r->m);
    wisp_votes_clear(&r->votes);
    wisp_data_free(r->held_out);
    wisp_free(r->average);
    wisp_free(r->weights);
    wisp_free(r->raise);
    wisp_tensor_file_close(&r->init_state);
    wisp_model_free(r->init);
}
