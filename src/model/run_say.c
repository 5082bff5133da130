/* What a run says before it begins: the plan, before any big block is taken, so that a person sees
 * what will happen and whether it fits. */
#include "base/bounds.h"
#include "base/mem.h"
#include "base/text.h"
#include "layer/conv.h"
#include "layer/product.h"
#include "model/memory.h"
#include "model/pace.h"
#include "model/parts.h"
#include "model/run.h"

#include <stdio.h>
#include <string.h>

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

static size_t name_length(const struct wisp_names *names, size_t i)
{
    return names->start[i + 1] - names->start[i] - 1;
}

static bool is_name(const struct wisp_names *names, const char *p, size_t n)
{
    for (size_t i = 0; i < names->n; i++)
        if (name_length(names, i) == n && memcmp(names->text + names->start[i], p, n) == 0)
            return true;
    return false;
}

/* How many names have the sign in them; of a comma, which names may have by themselves ("Paris,
 * France"), only if what stands before it is mostly a label, too. */
static size_t count_joined(const struct wisp_names *names, char sign, size_t *last)
{
    enum { LOOKED_UP = 50 }; /* each by going through all names */
    size_t n = 0, alone = 0, looked = 0;
    for (size_t i = 0; i < names->n; i++) {
        const char *name = names->text + names->start[i];
        const char *at = memchr(name, sign, name_length(names, i));
        if (!at) continue;
        n++;
        *last = i;
        if (sign == ',' && looked < LOOKED_UP) {
            looked++;
            alone += is_name(names, name, (size_t)(at - name));
        }
    }
    return 2 * alone >= looked ? n : 0;
}

/* Cells such as "bread|storage" that nobody has taken apart: names with one of the usual signs in a
 * tenth of all labels or more, where no row has two: no separator was given, or the wrong one. */
static void say_joined(const struct wisp_run *r, const struct wisp_data *d)
{
    enum { LONGEST = 60 };
    const struct wisp_names *names = &d->labels;
    const char *given = r->m->how.label_separator;
    if (d->n_lab > d->n_rows - d->n_unlabelled) return;
    for (const char *sign = "|;,"; *sign; sign++) {
        size_t last = 0;
        const size_t n = count_joined(names, *sign, &last);
        if (n == 0 || n * 10 < names->n) continue;
        const size_t length = name_length(names, last);
        wisp_say(r->ctx,
                 "labels    '%.*s' is one label%s%s%s; --label-separator '%c' makes several of it",
                 (int)(length < LONGEST ? length : LONGEST), names->text + names->start[last],
                 *given ? ", as no cell has a '" : "", given, *given ? "' in it" : "", *sign);
        return;
    }
}

void wisp_run_say_data(const struct wisp_run *r)
{
    const struct wisp_sets *sets = &r->sets;
    const struct wisp_data *d = sets->train;
    const struct wisp_net *net = &r->m->net;
    char bare[60] = "";
    if (d->n_unlabelled) snprintf(bare, sizeof bare, "; %zu of all have no label", d->n_unlabelled);
    wisp_say(r->ctx, "rows      %zu training%s, %zu validation%s%s", r->feed.order.n_rows,
             sets->weights ? " (weighted)" : "", sets->valid->n_rows,
             sets->held_out && sets->held_out->n_rows ? " (held out)" : "", bare);
    const char *why = r->init.model ? "as the model to go on from" : r->plan.values_why;
    wisp_say(r->ctx,
             "data      %zu features, %zu labels; %.1f features and %.2f labels per row; values "
             "%s%s%s%s",
             net->n_features, net->n_labels, (double)d->nnz / (double)d->n_rows,
             (double)d->n_lab / (double)d->n_rows, wisp_values_name(r->m->values.mode),
             *why ? " (" : "", why, *why ? ")" : "");
    if (r->m->text) say_joined(r, d);
    if (r->m->text) say_text(r);
}

static void say_training(const struct wisp_run *r, bool hidden)
{
    const struct wisp_plan *p = &r->plan;
    const struct wisp_net *net = &r->m->net;
    wisp_say(r->ctx, "net       %s; %zu outputs, %s loss; %.2f million parameters", r->m->spec,
             net->n_labels, p->loss->name, (double)wisp_net_n_params(net) / 1e6);
    char decay[40] = "", smoothing[40] = "", zeros[40] = "";
    if (p->weight_decay > 0) wisp_print(decay, sizeof decay, ", weight decay %g", p->weight_decay);
    if (p->smoothing > 0) wisp_print(smoothing, sizeof smoothing, ", smoothing %g", p->smoothing);
    if (p->more_zeros > 0) wisp_print(zeros, sizeof zeros, ", more zeros %g", p->more_zeros);
    wisp_say(
        r->ctx,
        "training  %d epoch%s, batch %zu, %s lr %g%s%s%s%s, input dropout %g, sampling %s%s%s, "
        "seed %llu",
        p->epochs, wisp_plural((size_t)p->epochs), p->batch, p->optimizer->name, p->lr, decay,
        smoothing, zeros, p->slots & WISP_SLOT_HALF ? ", moments in bf16" : "", p->input_dropout,
        p->sampling.names, hidden ? ", hidden " : "", hidden ? p->hidden.names : "",
        (unsigned long long)p->seed);
}

/* What images cost, of layers with weights; before the first steps nobody knows how long it takes. */
static void say_work(const struct wisp_run *r)
{
    const struct wisp_net *net = &r->m->net;
    const double of_step = wisp_net_flops(net, true);
    char forward[WISP_FLOPS_TEXT], training[WISP_FLOPS_TEXT], epoch[WISP_FLOPS_TEXT];
    wisp_say(r->ctx, "work      %s per image forward, %s in training; %s per epoch",
             wisp_flops_text(forward, wisp_net_flops(net, false)),
             wisp_flops_text(training, of_step),
             wisp_flops_text(epoch, of_step * (double)r->feed.order.n_rows));
}

/* Ways in bf16 are taken where they are the fastest: what a processor makes of the precision. */
static void say_machine(const struct wisp_run *r)
{
    const struct wisp_plan *p = &r->plan;
    const struct wisp_net *net = &r->m->net;
    const int threads = wisp_pool_threads(r->ctx->pool);
    struct wisp_conv_passes all = { 0 };
    char convolutions[160] = "";
    for (int i = 0; i < net->n_layers && !p->cuda; i++)
        if (net->layers[i].kind == &wisp_layer_conv) {
            const struct wisp_conv_passes n = wisp_layer_conv_passes(&net->layers[i]);
            all.all += n.all, all.half += n.half, all.skip += n.skip;
        }
    if (all.all && p->precision == &wisp_precision_bf16)
        snprintf(convolutions, sizeof convolutions, ", %d of %d passes of convolutions too",
                 all.half, all.all);
    const size_t at = strlen(convolutions);
    if (all.skip)
        snprintf(convolutions + at, sizeof convolutions - at,
                 "; %d of %d passes of convolutions skip zeros where there are many", all.skip,
                 all.all);
    wisp_say(r->ctx, "machine   %s%d thread%s, %s kernels, products in %s%s",
             p->cuda ? "a card (cuda) and " : "cpu, ", threads, wisp_plural((size_t)threads),
             r->ctx->k->name, p->precision->name, convolutions);
}

/* A step within --memory; on the CPU also within what is free besides all else, where that is less
 * than it needs. */
static wisp_status fit_step(struct wisp_run *r, size_t others, wisp_error *err)
{
    struct wisp_net *net = &r->m->net;
    const int threads = wisp_pool_threads(r->ctx->pool);
    const size_t have = wisp_mem_available(), limit = net->sizes.memory;
    wisp_status st = wisp_work_plan(net, threads, err);
    if (st == WISP_OK && limit && net->work.bytes > limit) {
        char least[WISP_BYTES_TEXT], whole[WISP_BYTES_TEXT], found[WISP_BYTES_TEXT];
        return wisp_fail_option(err, "memory",
                                "a step of this net takes %s at least (%zu bytes; %s if nothing "
                                "were made again on the way back), found %s; raise it, or take a "
                                "smaller --batch",
                                wisp_bytes_text(least, net->work.bytes), net->work.bytes,
                                wisp_bytes_text(whole, net->work.whole),
                                wisp_bytes_text(found, limit));
    }
    const size_t need = others + net->work.bytes + net->work.kept;
    if (st != WISP_OK || r->plan.cuda || !have || need <= have || need - have >= net->work.bytes)
        return st;
    net->sizes.memory = net->work.bytes - (need - have);
    return wisp_work_plan(net, threads, err);
}

/* What several ranks need besides: gradients, and as much in messages, where they divide samples; else
 * rank 0 gathers the rows of others for a file, a piece at a time. */
static size_t exchange_bytes(const struct wisp_run *r)
{
    const struct wisp_comm *c = wisp_run_shares(r);
    size_t most = wisp_run_divides(r) ? wisp_divided_bytes(&r->m->net) : 0;
    for (size_t i = 0; c && c->rank == 0 && i < r->m->net.list.n; i++) {
        const struct wisp_param *p = &r->m->net.list.p[i];
        const struct wisp_parts parts = { c, p->share, p->total_rows, p->cols * sizeof *p->w };
        if (!wisp_share_all(p->share)) most = wisp_most(most, wisp_parts_room(&parts));
    }
    return 2 * most;
}

wisp_status wisp_run_say(struct wisp_run *r, const wisp_config *cfg, wisp_error *err)
{
    const struct wisp_plan *p = &r->plan;
    struct wisp_net *net = &r->m->net;
    size_t weights = wisp_net_param_floats(net) * 4, wires = wisp_net_wire_ids(net) * 4,
           state = wisp_net_state_floats(net, p->slots) * 4;
    size_t hidden, index = wisp_samplers_bytes(&hidden, r);
    size_t others = weights * (p->average > 0 ? 2 : 1) + wires + state + index;
    const size_t exchange = exchange_bytes(r);
    others += exchange;
    wisp_status st = fit_step(r, others, err);
    if (st != WISP_OK) return st;
    size_t work = net->work.bytes + net->work.kept, need = others + work;
    size_t have = wisp_mem_available();
    if (r->pace) {
        r->pace->plan_bytes = need;
        r->pace->step_bytes = net->work.bytes;
        r->pace->bound_bytes = net->work.bound;
    }
    wisp_run_say_data(r);
    say_training(r, hidden > 0);
    if (wisp_net_image(net)) say_work(r);
    if (r->init.model || r->init.weights.n_tensors) wisp_init_say(r, wisp_opt_text(cfg, OPT_INIT));
    char text[6][WISP_BYTES_TEXT], exchanged[WISP_BYTES_TEXT + 20] = "";
    if (exchange)
        wisp_print(exchanged, sizeof exchanged, ", exchange %s",
                   wisp_bytes_text(text[0], exchange));
    wisp_bytes_text(text[0], need), wisp_bytes_text(text[5], have);
    wisp_say(r->ctx,
             "memory    %s needed (weights %s, optimizer %s, batch %s, sampling %s%s), %s free",
             text[0], wisp_bytes_text(text[1], weights + wires), wisp_bytes_text(text[2], state),
             wisp_bytes_text(text[3], work), wisp_bytes_text(text[4], index), exchanged, text[5]);
    if (!p->cuda) wisp_memory_say(r->ctx, net);
    say_machine(r);
    if (have && need > have)
        return wisp_fail(err, WISP_ENOMEM,
                         "%s needed, %s free: take a smaller --hidden or --batch, --moments bf16, "
                         "or --optimizer adagrad",
                         text[0], text[5]);
    return WISP_OK;
}
