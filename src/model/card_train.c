/* A training run on a card. */
#include "model/card.h"
#include "model/card_ranks.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/report.h"
#include "cuda/cuda.h"
#include "layer/product.h"
#include "model/memory.h"

#include <math.h>
#include <stdio.h>

struct wisp_card {
    const struct wisp_cuda *api;
    struct wisp_cuda_trainer *t;
    struct wisp_cuda_setup setup;
    struct wisp_cuda_block *blocks;
    struct wisp_data *table; /* standardised rows, or pixels as lists; NULL: the training rows as
                                they are */
    struct wisp_card_ranks ranks; /* where several divide the batches */
    uint32_t *ids;                /* (most steps, batch of the setup) */
    struct wisp_cuda_share *n;    /* (most steps) */
    float *lr;
    double *shorter;                   /* (most steps) groups of weights (shrink.c) */
    size_t *rows;                      /* (batch) */
    struct wisp_layout images;         /* how the net reads images, if it does */
    struct wisp_moved *moved;          /* (most steps, batch) theirs; NULL: they are not moved */
    uint32_t *none;                    /* zeros: where rows of images have no lists */
    struct wisp_sampler_counts before; /* what the sampler had counted when the trainer was made */
    double loss, own, set;             /* of the card's sums, at the start of the epoch */
    double untold;                     /* loss of this rank that the others have not heard of */
    uint64_t looked;
    uint64_t touched; /* feature rows, over all steps of the card */
    uint64_t *live;   /* by counted values: samples, blocks; then room for the most blocks of one */
    uint64_t averaged; /* step up to which shares of zeros are averages */
    bool anew;         /* the next steps are the first of the epoch, or of this process */
    bool outside;      /* the output layer's rows stay on the host */
    size_t free_bytes; /* of the card, before anything was taken, ... */
    struct wisp_cuda_bytes planned; /* ... and what was said to be taken */
};

/* ---- the setup ---- */

static bool reads_images(const struct wisp_card *g)
{
    return g->images.table;
}

/* Bytes go to the card as they are; lists, only if another layer reads the rows. */
static wisp_status set_images(struct wisp_cuda_setup *s, struct wisp_card *g,
                              const struct wisp_run *r, wisp_error *err)
{
    const struct wisp_data *d = r->sets.train;
    size_t most = 0;
    wisp_status st = wisp_layout_for(&g->images, &r->m->net, false, err);
    if (st != WISP_OK || !reads_images(g)) return st;
    for (size_t b = 0; b < d->n_blocks; b++) {
        if (!d->blocks[b].px)
            return wisp_not_on_card(err, "a net that reads images of other values than bytes");
        most = wisp_most(most, d->blocks[b].n);
    }
    wisp_image_table(g->images.table, &g->images.how);
    s->table = g->images.table;
    s->pixels = wisp_image_pixels(g->images.how.image);
    g->none = g->images.no_lists ? wisp_zalloc(most + 1, sizeof *g->none) : NULL;
    if (g->images.no_lists && !g->none)
        return wisp_fail_mem(err, most * sizeof *g->none, "the card's rows");
    return WISP_OK;
}

static wisp_status set_rows(struct wisp_cuda_setup *s, struct wisp_card *g,
                            const struct wisp_run *r, wisp_error *err)
{
    const struct wisp_values *v = &r->m->values;
    const struct wisp_data *d = r->sets.train;
    s->values = (int)v->mode;
    if (v->mode ==
        WISP_VALUES_STANDARD) { /* the card takes a copy of such rows, and takes it raw */
        wisp_status st = wisp_values_standardise(&g->table, d, r->m->net.n_features, v, err);
        if (st != WISP_OK) return st;
        d = g->table;
        s->values = WISP_VALUES_RAW;
    } else if (d->n_blocks && d->blocks[0].px && !g->none) {
        wisp_status st = wisp_data_lists(&g->table, d, err);
        if (st != WISP_OK) return st;
        d = g->table;
    }
    g->blocks = wisp_alloc(d->n_blocks, sizeof *g->blocks);
    if (!g->blocks) return wisp_fail_mem(err, d->n_blocks * sizeof *g->blocks, "the card's rows");
    for (size_t b = 0; b < d->n_blocks; b++) {
        const struct wisp_rows *k = &d->blocks[b];
        if (!g->none && (!k->xi || !k->xv))
            return wisp_not_on_card(err, "rows with ids or values of 64 bits");
        g->blocks[b] = (struct wisp_cuda_block){ .n = k->n,
                                                 .xp = g->none ? g->none : k->xp,
                                                 .xi = k->xi,
                                                 .xv = k->xv,
                                                 .yp = k->yp,
                                                 .yi = k->yi };
        if (reads_images(g)) g->blocks[b].px = r->sets.train->blocks[b].px;
    }
    s->n_rows = d->n_rows, s->n_blocks = d->n_blocks, s->blocks = g->blocks;
    s->idf = v->idf;
    s->input_dropout = (float)r->plan.input_dropout;
    return WISP_OK;
}

static wisp_status set_sampling(struct wisp_cuda_setup *s, const struct wisp_run *r,
                                wisp_error *err)
{
    s->room = r->m->net.sizes.active;
    s->most_labels = r->samplers.batch_labels;
    if (r->samplers.output) {
        struct wisp_wants wants = wisp_sampler_wants_of(r->samplers.output);
        s->keep = r->plan.sampling.keep, s->deep = wants.deep, s->best = wants.best;
    }
    return wisp_card_finders(&s->finders, r, err);
}

static wisp_status set_up(struct wisp_card *g, struct wisp_run *r, wisp_error *err)
{
    struct wisp_cuda_setup *s = &g->setup;
    s->batch =
        wisp_run_divides(r) ? wisp_divided_most(wisp_run_divides(r), r->plan.batch) : r->plan.batch;
    s->seed = r->plan.seed;
    s->most_bytes = r->plan.card_memory;
    s->momentum = r->opt.momentum;
    s->correct1 = r->opt.correct1, s->correct2 = r->opt.correct2;
    s->optimizer = r->plan.optimizer->id;
    s->loss = r->plan.loss->id;
    s->smoothing = (float)r->plan.smoothing;
    s->precision = r->plan.precision->id;
    s->zeros = r->plan.zeros;
    s->bonds = r->penalty ? &r->penalty->bonds : NULL;
    s->group_weights = r->penalty ? r->penalty->groups.weight : NULL;
    s->graph = wisp_net_graph(&r->m->net);
    s->score_batch = WISP_SCORE_BATCH, s->score_k = r->scorer.k;
    wisp_status st = set_images(s, g, r, err);
    if (st == WISP_OK) st = set_rows(s, g, r, err);
    return st == WISP_OK ? set_sampling(s, r, err) : st;
}

/* ---- making ---- */

/* Also settles how much of the card is taken; ranks have agreed on it (card_ranks.c). */
static wisp_status say_plan(const struct wisp_run *r, struct wisp_card *g, wisp_error *err)
{
    struct wisp_cuda_card c;
    wisp_status st = g->api->card(&c, err);
    if (st != WISP_OK) return st;
    struct wisp_cuda_bytes b;
    size_t most = g->setup.most_bytes;
    if (!g->setup.ranks && (most == 0 || most > c.free_bytes)) most = c.free_bytes;
    g->setup.most_bytes = most;
    if ((st = g->api->bytes(&b, &g->setup, err)) != WISP_OK) return st;
    g->free_bytes = c.free_bytes;
    g->planned = b;
    char needed[WISP_BYTES_TEXT], there[WISP_BYTES_TEXT];
    wisp_bytes_text(there, most);
    wisp_say(r->ctx, "device    %s (sm_%d%d, %d multiprocessors): %s needed%s, %s %s", c.name,
             c.major, c.minor, c.n_multi, wisp_bytes_text(needed, b.all <= most ? b.all : b.least),
             b.all <= most ? "" : ", the output layer's rows staying in the host's memory", there,
             most < c.free_bytes ? "allowed" : "free");
    char step[WISP_BYTES_TEXT], bound[WISP_BYTES_TEXT];
    if (b.libraries)
        wisp_say(r->ctx, "libraries about %s of that, for what they load and for recorded steps",
                 wisp_bytes_text(step, b.libraries));
    wisp_say(r->ctx,
             "step      %s of values, gradients and scratch on the card; %s are needed at once",
             wisp_bytes_text(step, b.step), wisp_bytes_text(bound, b.bound));
    if (b.n_again)
        wisp_say(r->ctx,
                 "again     %s of values are not kept but made again on the way back, by %d "
                 "layer%s: %s would be needed else; about %.1f ms more per step",
                 wisp_bytes_text(bound, b.again), b.n_again, wisp_plural((size_t)b.n_again),
                 wisp_bytes_text(step, b.whole), b.again_us / 1e3);
    if (b.n_outside)
        wisp_say(r->ctx,
                 "state     %s of the optimizer's state, of %d layer%s, stay in the host's memory "
                 "and are on their way to the card and back for about %.1f ms of a step",
                 wisp_bytes_text(bound, b.outside), b.n_outside, wisp_plural((size_t)b.n_outside),
                 b.outside_us / 1e3);
    if (b.lot_layers) wisp_memory_say_lots(r->ctx, b.lot_layers, b.lot_samples);
    else if (b.lot_stop >= 0)
        wisp_say(r->ctx,
                 "lots      none: layer %d, '%s', cannot do some samples of the batch at a time",
                 b.lot_stop, r->m->net.layers[b.lot_stop].kind->name);
    if (b.skipping || r->plan.zeros == WISP_ZEROS_FORCE)
        wisp_say(r->ctx, "zeros     %d of %d passes of convolutions leave out slices of zeros",
                 b.skipping, b.passes);
    g->outside = b.all > most;
    if (g->outside && g->setup.ranks)
        return wisp_fail(err, WISP_ENOMEM,
                         "--device cuda: %s needed by each rank, %s %s on its card: take a smaller "
                         "--batch, or fewer ranks for a card",
                         wisp_bytes_text(needed, b.all), there,
                         most < c.free_bytes ? "allowed" : "free");
    if (b.all <= most || b.least <= most) return WISP_OK;
    return wisp_fail(err, WISP_ENOMEM,
                     "--device cuda: %s needed with the output layer's rows in the host's "
                     "memory%s, %s %s on the card: take a smaller --hidden or --batch",
                     wisp_bytes_text(needed, b.least),
                     b.n_again ? " and values made again on the way back" : "", there,
                     most < c.free_bytes ? "allowed" : "free");
}

/* Of 'live'. */
static size_t count_words(const struct wisp_counts *c)
{
    size_t words = 0, most = 1;
    for (int i = 0; i < c->n; i++) {
        words += 1 + c->of[i].blocks;
        most = wisp_most(most, c->of[i].blocks);
    }
    return words + most;
}

/* The part for cards is open, and what a trainer is made from is there. */
static wisp_status begin_card(struct wisp_run *r, struct wisp_card *g, wisp_error *err)
{
    wisp_status st = wisp_card_open(&g->api, r, err);
    return st == WISP_OK ? set_up(g, r, err) : st;
}

static wisp_status make_rooms(struct wisp_run *r, struct wisp_card *g, wisp_error *err)
{
    const size_t most = g->api->most_steps(g->t), batch = g->setup.batch;
    g->ids = wisp_alloc(most * batch, sizeof *g->ids);
    g->n = wisp_alloc(most, sizeof *g->n);
    g->lr = wisp_alloc(most, sizeof *g->lr);
    g->shorter = wisp_alloc(most, sizeof *g->shorter);
    g->rows = wisp_alloc(r->plan.batch, sizeof *g->rows);
    const bool moves = reads_images(g) && (g->images.how.pad || g->images.how.flip);
    if (moves) g->moved = wisp_alloc(most * batch, sizeof *g->moved);
    const size_t counts = count_words(&r->m->net.counts);
    g->live = wisp_zalloc(counts, sizeof *g->live);
    if (!g->ids || !g->n || !g->lr || !g->shorter || !g->rows || !g->live || (moves && !g->moved))
        return wisp_fail_mem(err, most * batch * sizeof *g->ids, "the card's row numbers");
    return g->outside ? WISP_OK : wisp_scorer_use_card(&r->scorer, g->t, true, err);
}

/* Several ranks do this at once; what fails at one of them ends all. */
wisp_status wisp_card_make(struct wisp_run *r, wisp_error *err)
{
    struct wisp_card *g = r->card = wisp_zalloc(1, sizeof *g);
    wisp_status st = g ? WISP_OK : wisp_fail_mem(err, sizeof *g, "the card's run");
    if (g) {
        g->anew = true;
        g->averaged = r->at.step;
        if (r->samplers.output) g->before = *wisp_sampler_counts(r->samplers.output);
        st = begin_card(r, g, err);
    }
    st = wisp_run_agree(r, st, err);
    if (st == WISP_OK && wisp_card_exchanges(r)) {
        g->setup.ranks = &g->ranks.ranks;
        st = wisp_card_agree(&g->ranks, &g->setup.most_bytes, g->api, r, err);
    }
    if (st == WISP_OK) st = wisp_run_agree(r, say_plan(r, g, err), err);
    if (st == WISP_OK) st = wisp_run_agree(r, g->api->create(&g->t, &g->setup, err), err);
    if (st == WISP_OK && g->ranks.ranks.library)
        st = wisp_run_agree(r, g->api->meet(g->t, g->ranks.id, err), err);
    return st == WISP_OK ? wisp_run_agree(r, make_rooms(r, g, err), err) : st;
}

void wisp_card_free(struct wisp_card *g)
{
    if (!g) return;
    if (g->t) g->api->free(g->t);
    wisp_free(g->blocks);
    wisp_data_free(g->table);
    wisp_free(g->ids);
    wisp_free(g->n);
    wisp_free(g->lr);
    wisp_free(g->shorter);
    wisp_free(g->rows);
    wisp_free(g->moved);
    wisp_free(g->live);
    wisp_free(g->none);
    wisp_layout_clear(&g->images);
    wisp_free(g);
}

/* ---- steps ---- */

/* What the card has counted since the last time goes into the averages. */
static void take_zeros(struct wisp_run *r)
{
    struct wisp_card *g = r->card;
    const struct wisp_counts *c = &r->m->net.counts;
    const size_t steps = r->at.step - g->averaged;
    uint64_t *before = g->live, *now = g->live;
    for (int i = 0; i < c->n; i++) now += 1 + c->of[i].blocks;
    for (int i = 0; i < c->n && steps > 0; i++, before += 1 + c->of[i - 1].blocks) {
        struct wisp_zeros_of *z = &c->of[i];
        const size_t samples = g->api->live(g->t, z->layer, now), more = samples - before[0];
        if (samples == 0 || more == 0) continue;
        for (size_t b = 0; b < z->blocks; b++) {
            const uint64_t all = now[b];
            now[b] -= before[1 + b];
            before[1 + b] = all;
        }
        before[0] = samples;
        wisp_zeros_take(z, now, more, steps);
    }
    g->averaged = r->at.step;
}

static wisp_status check_loss(const struct wisp_run *r, wisp_error *err)
{
    if (isfinite(r->at.loss_sum)) return WISP_OK;
    return wisp_run_no_number(
        r, isnan(r->at.loss_sum) ? "the loss became nan" : "the loss became inf", err);
}

wisp_status wisp_card_wait(struct wisp_run *r, wisp_error *err)
{
    struct wisp_card *g = r->card;
    struct wisp_cuda_seen s;
    wisp_status st = g->api->wait(g->t, &s, err);
    if (st != WISP_OK) return st;
    g->touched = s.touched;
    take_zeros(r);
    const double more = s.loss - g->loss;
    if (wisp_run_divides(r)) g->untold += more;
    else r->at.loss_sum += more;
    g->loss = s.loss;
    if (r->samplers.output) {
        struct wisp_sampler_counts *c = wisp_sampler_counts(r->samplers.output);
        c->active = g->before.active + s.active;
        c->scored = g->before.scored + s.scored;
        c->samples = g->before.samples + s.samples;
        r->samplers.recall.sums.own += s.recall_own - g->own;
        r->samplers.recall.sums.set += s.recall_set - g->set;
        r->samplers.recall.sums.n += s.recall_n - g->looked;
        r->samplers.recall.seconds = s.recall_s;
        g->own = s.recall_own, g->set = s.recall_set, g->looked = s.recall_n;
    }
    return check_loss(r, err);
}

wisp_status wisp_card_tell(struct wisp_run *r, struct wisp_pulse *p, wisp_error *err)
{
    struct wisp_card *g = r->card;
    p->loss = g->untold;
    g->untold = 0;
    wisp_status st = wisp_ranks_pulse(r, p, WISP_OK, err);
    if (st != WISP_OK) return st;
    r->at.loss_sum += p->loss;
    return check_loss(r, err);
}

enum { FIRST_STEPS = 2 };

/* How the images of m rows are moved in this epoch. */
static void move_images(struct wisp_moved *to, const struct wisp_run *r, const size_t *rows,
                        size_t m)
{
    const struct wisp_card *g = r->card;
    for (size_t i = 0; i < m; i++) {
        const struct wisp_image_move k =
            wisp_image_move(&g->images.how, r->plan.seed, r->feed.order.epoch, rows[i]);
        to[i] = (struct wisp_moved){ k.down, k.right, k.mirrored };
    }
}

/* Step number n of the call has the first m of g->rows, or this rank's share of them. */
static void set_step(struct wisp_run *r, size_t n, size_t m)
{
    struct wisp_card *g = r->card;
    const size_t batch = g->setup.batch;
    size_t before = 0, share = m;
    if (wisp_run_divides(r)) wisp_divided_share(&before, &share, wisp_run_divides(r), m);
    const size_t *rows = g->rows + before;
    for (size_t i = 0; i < share; i++) g->ids[n * batch + i] = (uint32_t)rows[i];
    if (g->moved) move_images(g->moved + n * batch, r, rows, share);
    g->n[n] = (struct wisp_cuda_share){ .n = (uint32_t)share,
                                        .before = (uint32_t)before,
                                        .all = (uint32_t)m };
    g->lr[n] = (float)wisp_plan_lr(&r->plan, r->at.step + n, r->at.steps);
    g->shorter[n] = wisp_run_shorter(r, r->at.step + n, g->lr[n]);
}

/* Steps up to the one that measures recall, which is the last of its call.  The card waits for the
 * first of an epoch: these are few, and then twice as many each time. */
wisp_status wisp_card_steps(struct wisp_run *r, size_t *rows, bool last, wisp_error *err)
{
    struct wisp_card *g = r->card;
    size_t most = g->api->most_steps(g->t), batch = r->plan.batch, n = 0;
    bool look = false;
    *rows = 0;
    if (last) most = 1;
    else if (most > r->at.in_epoch + FIRST_STEPS) most = r->at.in_epoch + FIRST_STEPS;
    for (; n < most && !look; n++) {
        size_t m = wisp_order_next(&r->feed.order, g->rows, batch);
        if (m == 0) break;
        set_step(r, n, m);
        *rows += m;
        look = r->samplers.output && (last || wisp_recall_due(r, r->at.in_epoch + n));
    }
    if (n == 0) return WISP_OK;
    bool anew = g->anew || r->at.in_epoch == 0;
    wisp_status st = g->api->run(g->t, g->ids, g->moved, g->n, g->lr, g->shorter, n, r->at.step,
                                 look, anew, err);
    if (st != WISP_OK) return st;
    g->anew = false;
    r->opt.lr = g->lr[n - 1];
    r->at.seen += *rows;
    r->at.step += n;
    r->at.in_epoch += n;
    if (r->samplers.output) wisp_sampler_counts(r->samplers.output)->steps += n;
    return WISP_OK;
}

wisp_status wisp_card_fetch(struct wisp_run *r, wisp_error *err)
{
    wisp_status st = wisp_card_wait(r, err);
    return st == WISP_OK ? r->card->api->fetch(r->card->t, err) : st;
}

/* What was planned, what is taken now, what of both are the images, which lie there as bytes, and what
 * of the plan is for libraries. */
static wisp_status report_bytes(struct wisp_report *t, const struct wisp_card *g, wisp_error *err)
{
    struct wisp_cuda_card c;
    wisp_status st = g->api->card(&c, err);
    if (st != WISP_OK) return st;
    const size_t planned = g->outside ? g->planned.least : g->planned.all;
    wisp_report_num(t, "gpu_plan_bytes", (double)planned);
    wisp_report_num(t, "gpu_work_bytes", (double)g->planned.step);
    wisp_report_num(t, "gpu_bound_bytes", (double)g->planned.bound);
    wisp_report_num(t, "gpu_bytes", (double)g->free_bytes - (double)c.free_bytes);
    wisp_report_num(t, "gpu_image_bytes", (double)(g->setup.n_rows * g->setup.pixels));
    wisp_report_num(t, "gpu_library_bytes", (double)g->planned.libraries);
    wisp_report_num(t, "gpu_again_bytes", (double)(g->planned.n_again ? g->planned.again : 0));
    wisp_report_num(t, "gpu_lot_layers", (double)g->planned.lot_layers);
    wisp_report_num(t, "gpu_lot_samples", (double)g->planned.lot_samples);
    wisp_report_num(t, "gpu_state_bytes", (double)g->planned.outside);
    return WISP_OK;
}

wisp_status wisp_card_report(struct wisp_report *t, struct wisp_run *r, wisp_error *err)
{
    struct wisp_cuda_times times;
    wisp_status st = report_bytes(t, r->card, err);
    if (st != WISP_OK || r->card->setup.ranks) return st; /* steps of ranks have no such parts */
    st = r->card->api->time(r->card->t, &times, err);
    if (st != WISP_OK) return st;
    for (int i = 0; i < WISP_CUDA_PARTS; i++) {
        char key[48];
        snprintf(key, sizeof key, "gpu_%s_us", wisp_cuda_part_names[i]);
        wisp_report_num(t, key, times.us[i]);
    }
    wisp_report_num(t, "gpu_step_us", times.step_us);
    wisp_report_num(t, "gpu_layout_us", times.layout_us);
    wisp_report_num(t, "gpu_tables_us", times.tables_us);
    if (r->penalty) wisp_report_num(t, "gpu_penalty_us", times.penalty_us);
    wisp_report_num(t, "copy_gb_per_s", times.copy_gb_per_s);
    return WISP_OK;
}

double wisp_card_touched(const struct wisp_run *r)
{
    return (double)r->card->touched;
}

bool wisp_card_has_tables(const struct wisp_run *r)
{
    return r->card->setup.finders.hash.n_tables > 0;
}
