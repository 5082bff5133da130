/* What memory a net takes, and when; and what it computes.
 *
 * Of a model, as JSON: for prediction, and for a step of training as its run made them (its options
 * and what it says of itself are read again, and planned like those of a run), each with
 *
 *   weights_bytes, optimizer_bytes   as long as the model, or the run
 *   arena_bytes, bound_bytes         the block of a step, and the most that is needed at one moment
 *   kept_bytes                       what layers keep from step to step
 *   whole_bytes, again_bytes, ...    where values are made again on the way back: the block without
 *                                    that, these values, the layers that run again and their flops
 *   lot_layers, lot_samples          where the first layers do so many samples at a time: so many
 *   items                            the parts of the arena, the largest first: what, whose, how long,
 *                                    where, and from which moment to which
 *   flops, layers                    multiplications and additions with weights for one row, and of
 *                                    each layer that has some (not of 'input', where they depend on
 *                                    the row)
 *
 * The sampler's tables and the index for sparse prediction come on top. */
#include "model/kind.h"
#include "model/memory.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/text.h"
#include "layer/output.h"
#include "layer/product.h"
#include "model/about.h"
#include "model/known.h"
#include "model/plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAID = 3, ANSWERS = 5 };

/* ---- parts and moments ---- */

static void layer_label(char *out, size_t room, const struct wisp_layer *l)
{
    if (*l->name) snprintf(out, room, "%s", l->name);
    else snprintf(out, room, "%d.%s", l->number, l->kind->name);
}

void wisp_moment_name(char out[WISP_MOMENT_NAME], const struct wisp_net *net, int moment)
{
    const int last = net->n_layers - 1, layer = moment <= last ? moment : 2 * last - moment;
    layer_label(out, WISP_MOMENT_NAME - 6, &net->layers[layer]);
    if (moment > last) strcat(out, " back");
}

int wisp_work_largest(int *out, int n, const struct wisp_work *w)
{
    int have = 0;
    for (int i = 0; i < w->n; i++) {
        int at = have < n ? have++ : n;
        for (; at > 0 && w->items[out[at - 1]].bytes < w->items[i].bytes; at--)
            if (at < n) out[at] = out[at - 1];
        if (at < n) out[at] = i;
    }
    return have;
}

/* Of a step's operations, those of layers that run again. */
static double again_share(const struct wisp_net *net)
{
    const double all = wisp_net_flops(net, true);
    return all > 0 ? net->work.again_flops / all : 0;
}

void wisp_memory_say_lots(const struct wisp_context *ctx, int layers, size_t samples)
{
    wisp_say(ctx, "lots      the first %d layers go through %zu samples at a time, forward twice",
             layers, samples);
}

void wisp_memory_say(const struct wisp_context *ctx, const struct wisp_net *net)
{
    const struct wisp_work *w = &net->work;
    int largest[SAID];
    const int n = wisp_work_largest(largest, SAID, w);
    char all[WISP_BYTES_TEXT], once[WISP_BYTES_TEXT];
    wisp_say(ctx, "step      %s of values, gradients and scratch; %s are needed at once",
             wisp_bytes_text(all, w->bytes), wisp_bytes_text(once, w->bound));
    if (w->n_again) {
        char flops[WISP_FLOPS_TEXT];
        wisp_say(ctx,
                 "again     %s of values are not kept but made again on the way back, by %d "
                 "layer%s: %s would be needed else; %s more per row, %.0f %% of a step",
                 wisp_bytes_text(once, w->again_bytes), w->n_again, wisp_plural((size_t)w->n_again),
                 wisp_bytes_text(all, w->whole), wisp_flops_text(flops, w->again_flops),
                 100 * again_share(net));
    }
    if (w->lots.first) wisp_memory_say_lots(ctx, w->lots.first, w->lots.samples);
    char text[SAID * (3 * WISP_MOMENT_NAME + 60 + WISP_BYTES_TEXT)];
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const struct wisp_item *item = &w->items[largest[i]];
        char of[WISP_MOMENT_NAME], from[WISP_MOMENT_NAME], to[WISP_MOMENT_NAME];
        layer_label(of, sizeof of, &net->layers[w->parts[largest[i]].layer]);
        wisp_moment_name(from, net, item->first);
        wisp_moment_name(to, net, item->last);
        const bool stays = item->last > item->first;
        at +=
            (size_t)wisp_print(text + at, sizeof text - at, "%s%s of %s %s (%s%s%s)", i ? ", " : "",
                               w->parts[largest[i]].what, of, wisp_bytes_text(all, item->bytes),
                               from, stays ? " to " : "", stays ? to : "");
    }
    if (n) wisp_say(ctx, "largest   %s", text);
}

const char *wisp_flops_text(char out[WISP_FLOPS_TEXT], double flops)
{
    static const char *const units[] = { "FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP" };
    size_t i = 0;
    for (; flops >= 999.5 && i + 1 < sizeof units / sizeof *units; i++) flops /= 1000;
    wisp_print(out, WISP_FLOPS_TEXT, "%.3g %s", flops, units[i]);
    return out;
}

/* ---- as JSON ---- */

struct text {
    char *s;
    size_t n, room;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = wisp_vprint(t->s + t->n, t->room - t->n, fmt, ap);
    va_end(ap);
    if (n > 0) t->n = t->n + (size_t)n < t->room ? t->n + (size_t)n : t->room - 1;
}

enum {
    HEAD_ROOM = 1000,
    ITEM_ROOM = 4 * WISP_MOMENT_NAME + 200,
    LAYER_ROOM = WISP_MOMENT_NAME + 60
};

static void put_flops(struct text *t, const struct wisp_net *net, bool training)
{
    const char *between = "";
    put(t, "\"flops\":%.0f,\"layers\":[", wisp_net_flops(net, training));
    for (int i = 0; i < net->n_layers; i++) {
        const double flops = wisp_net_layer_flops(net, i, training);
        char name[WISP_MOMENT_NAME];
        if (flops == 0) continue;
        layer_label(name, sizeof name, &net->layers[i]);
        put(t, "%s{\"layer\":\"%s\",\"flops\":%.0f}", between, name, flops);
        between = ",";
    }
    put(t, "],");
}

/* Names of layers are letters, digits, and signs that JSON does not mind. */
static wisp_status put_items(struct text *t, const struct wisp_net *net, wisp_error *err)
{
    const struct wisp_work *w = &net->work;
    int *order = wisp_alloc((size_t)w->n, sizeof *order);
    if (!order) return wisp_fail_mem(err, (size_t)w->n * sizeof *order, "a plan of memory");
    const int n = wisp_work_largest(order, w->n, w);
    put(t, "\"arena_bytes\":%zu,\"bound_bytes\":%zu,\"kept_bytes\":%zu,", w->bytes, w->bound,
        w->kept);
    if (w->n_again)
        put(t, "\"whole_bytes\":%zu,\"again_bytes\":%zu,\"again_layers\":%d,\"again_flops\":%.0f,",
            w->whole, w->again_bytes, w->n_again, w->again_flops);
    if (w->lots.first)
        put(t, "\"lot_layers\":%d,\"lot_samples\":%zu,", w->lots.first, w->lots.samples);
    put(t, "\"items\":[");
    for (int i = 0; i < n; i++) {
        const struct wisp_item *item = &w->items[order[i]];
        char of[WISP_MOMENT_NAME], from[WISP_MOMENT_NAME], to[WISP_MOMENT_NAME];
        layer_label(of, sizeof of, &net->layers[w->parts[order[i]].layer]);
        wisp_moment_name(from, net, item->first);
        wisp_moment_name(to, net, item->last);
        put(t,
            "%s{\"what\":\"%s\",\"layer\":\"%s\",\"bytes\":%zu,\"at\":%zu,\"first\":%d,"
            "\"last\":%d,\"from\":\"%s\",\"to\":\"%s\"}",
            i ? "," : "", w->parts[order[i]].what, of, item->bytes, item->at, item->first,
            item->last, from, to);
    }
    put(t, "]}");
    wisp_free(order);
    return WISP_OK;
}

/* Plans the net's step and begins its object, with room for all items. */
static wisp_status begin(struct text *t, struct wisp_net *net, int threads, wisp_error *err)
{
    wisp_status st = wisp_work_plan(net, threads, err);
    if (st != WISP_OK) return st;
    t->n = 0;
    t->room = HEAD_ROOM + (size_t)net->work.n * ITEM_ROOM + (size_t)net->n_layers * LAYER_ROOM;
    t->s = wisp_alloc(t->room, 1);
    if (!t->s) return wisp_fail_mem(err, t->room, "a plan of memory");
    put(t, "{\"batch\":%zu,\"threads\":%d,", net->sizes.batch, threads);
    return WISP_OK;
}

/* ---- prediction ---- */

static size_t stored_bytes(const struct wisp_param *p)
{
    if (p->codes) /* beside them the scales, and the values */
        return p->rows * (wisp_codes_bytes(p->bits, p->cols) + 4) + 4 * wisp_codes_values(p->bits);
    const size_t each = p->role == WISP_STARTS ? 8 : p->i8 ? 1 : p->b16 ? 2 : 4;
    return each * wisp_param_n(p) + (p->i8 ? 4 * p->rows : 0);
}

size_t wisp_net_stored_bytes(const struct wisp_net *net)
{
    size_t bytes = 0;
    for (size_t i = 0; i < net->list.n; i++) bytes += stored_bytes(&net->list.p[i]);
    return bytes;
}

static wisp_status plan_again(struct wisp_net *net, const struct wisp_model *m,
                              struct wisp_layer_sizes sizes, wisp_error *err)
{
    const struct wisp_net_known like = wisp_net_known(&m->net);
    sizes.known = &like.known;
    sizes.image = wisp_image_shape(wisp_net_images(&m->net));
    return wisp_net_plan(net, m->spec, m->net.n_features, m->net.n_labels, &sizes, err);
}

static wisp_status prediction(char **out, const struct wisp_model *m,
                              const struct wisp_context *ctx, wisp_error *err)
{
    const int threads = wisp_pool_threads(ctx->pool);
    const size_t batch = wisp_score_batch(&m->net);
    struct wisp_net net;
    struct text t = { 0 };
    size_t weights = 0;
    wisp_status st =
        plan_again(&net, m, (struct wisp_layer_sizes){ .batch = batch, .ctx = ctx }, err);
    if (st != WISP_OK) return st;
    weights = wisp_net_stored_bytes(&m->net);
    const struct wisp_layer *head = wisp_net_output(&net);
    const size_t k = m->net.n_labels < ANSWERS ? m->net.n_labels : ANSWERS;
    const size_t best = wisp_output_topk_floats(head, batch, k) +
                        (size_t)threads * wisp_output_topk_thread_floats(head, batch, k);
    st = begin(&t, &net, threads, err);
    if (st == WISP_OK) {
        put_flops(&t, &net, false);
        put(&t, "\"weights_bytes\":%zu,\"answers_bytes\":%zu,", weights, best * sizeof(float));
        st = put_items(&t, &net, err);
    }
    wisp_net_clear(&net);
    *out = t.s;
    return st;
}

/* ---- training ---- */

/* One line "key=value" more. */
static wisp_status take_line(wisp_config *cfg, const char *line, size_t n, wisp_error *err)
{
    char key[64], *value;
    const size_t at = strcspn(line, "=\n");
    if (at >= n || at >= sizeof key) return WISP_OK;
    snprintf(key, sizeof key, "%.*s", (int)at, line);
    if (!wisp_config_get(cfg, key)) return WISP_OK; /* a checksum, or a row of before */
    if (!(value = wisp_strdup(line + at + 1))) return wisp_fail_mem(err, n, "an option");
    value[n - at - 1] = 0;
    wisp_status st = wisp_config_set(cfg, key, value, err);
    wisp_free(value);
    return st;
}

/* The options of the model's run, and over them what it came to: what is in both is decided. */
static wisp_status options_of(wisp_config *cfg, const struct wisp_model *m, size_t batch,
                              wisp_error *err)
{
    const char *const texts[] = { m->options, m->about };
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < 2; i++)
        for (const char *s = texts[i] ? texts[i] : ""; st == WISP_OK && *s;
             s += strcspn(s, "\n"), s += *s != 0)
            st = take_line(cfg, s, strcspn(s, "\n"), err);
    char number[32];
    snprintf(number, sizeof number, "%zu", batch);
    if (st == WISP_OK && batch) st = wisp_config_set(cfg, "batch", number, err);
    if (st == WISP_OK) st = wisp_config_set(cfg, "net", "", err); /* the model has it */
    return st == WISP_OK ? wisp_config_set(cfg, "values", wisp_values_name(m->values.mode), err)
                         : st;
}

/* As a run would size its net; labels of a batch are those of mean rows. */
static struct wisp_layer_sizes training_sizes(const struct wisp_plan *p, const struct wisp_model *m,
                                              const struct wisp_context *ctx)
{
    struct wisp_layer_sizes sizes = { .batch = p->batch,
                                      .memory = wisp_net_image(&m->net) ? p->memory : 0,
                                      .active = m->net.n_labels,
                                      .training = true,
                                      .precision = p->precision,
                                      .zeros = p->cuda ? WISP_ZEROS_OFF : p->zeros,
                                      .more_zeros = (float)p->more_zeros,
                                      .half = p->half,
                                      .smoothing = (float)p->smoothing,
                                      .ctx = ctx };
    if (wisp_sampling_is_full(p->sampling.names)) return sizes;
    const struct wisp_finder_setup setup = { .o = &p->sampling,
                                             .n_rows = m->net.n_labels,
                                             .batch = p->batch,
                                             .n_samples = m->n_train,
                                             .label_rows = m->label_rows,
                                             .seed = p->seed,
                                             .threads = wisp_pool_threads(ctx->pool) };
    double n = 0;
    for (size_t l = 0; l < m->net.n_labels; l++) n += (double)m->label_rows[l];
    const size_t labels =
        (size_t)ceil((double)p->batch * n / (m->n_train ? (double)m->n_train : 1));
    sizes.active = wisp_sampler_room(&setup, labels);
    sizes.own = wisp_sampler_own_room(&setup, labels);
    sizes.best = wisp_sampler_wants(&setup).best;
    return sizes;
}

static wisp_status training_of(char **out, const struct wisp_plan *p, const struct wisp_model *m,
                               const struct wisp_context *ctx, wisp_error *err)
{
    struct wisp_net net;
    struct text t = { 0 };
    wisp_status st = plan_again(&net, m, training_sizes(p, m, ctx), err);
    if (st != WISP_OK) return st;
    const unsigned slots = wisp_plan_slots(p, wisp_net_n_params(&net));
    const size_t weights = 4 * (wisp_net_param_floats(&net) + wisp_net_wire_ids(&net)),
                 state = 4 * wisp_net_state_floats(&net, slots),
                 averaged = p->average > 0 ? 4 * wisp_net_param_floats(&net) : 0;
    st = begin(&t, &net, wisp_pool_threads(ctx->pool), err);
    if (st == WISP_OK) {
        put(&t, "\"optimizer\":\"%s\",\"moments\":\"%s\",\"rows\":\"%s\",\"precision\":\"%s\",",
            p->optimizer->name, slots & WISP_SLOT_HALF ? "bf16" : "fp32", p->half ? "bf16" : "fp32",
            p->precision->name);
        put(&t, "\"sampling\":\"%s\",\"output_rows\":%zu,", p->sampling.names, net.sizes.active);
        put_flops(&t, &net, true);
        put(&t, "\"weights_bytes\":%zu,\"optimizer_bytes\":%zu,\"averaged_bytes\":%zu,", weights,
            state, averaged);
        st = put_items(&t, &net, err);
    }
    wisp_net_clear(&net);
    *out = t.s;
    return st;
}

static wisp_status training(char **out, const struct wisp_model *m, const struct wisp_context *ctx,
                            size_t batch, wisp_error *err)
{
    wisp_config *own;
    struct wisp_plan p = { .batch = 0 };
    wisp_error why = { 0 };
    const struct wisp_data rows = { .n_rows = wisp_most(m->n_train, 1),
                                    .n_labels = m->net.n_labels };
    wisp_status st = wisp_config_create(&own, err);
    if (st != WISP_OK) return st;
    st = options_of(own, m, batch, &why);
    if (st == WISP_OK) st = wisp_plan_make(&p, own, ctx->k, &rows, NULL, true, &why);
    if (st == WISP_OK) st = training_of(out, &p, m, ctx, &why);
    wisp_plan_clear(&p);
    wisp_config_free(own);
    if (st == WISP_OK || st == WISP_ENOMEM) return st == WISP_OK ? st : wisp_fail_as(err, st, &why);
    return wisp_fail(err, WISP_EMODEL, "what the model says of its run cannot be: %.400s",
                     why.text);
}

wisp_status wisp_memory_describe(char **out_prediction, char **out_training,
                                 const struct wisp_model *m, const struct wisp_context *ctx,
                                 const struct wisp_config *cfg, wisp_error *err)
{
    *out_prediction = *out_training = NULL;
    wisp_status st = wisp_model_need_net(m, "the plan of a model's memory", err);
    if (st == WISP_OK) st = prediction(out_prediction, m, ctx, err);
    return st == WISP_OK ? training(out_training, m, ctx, (size_t)wisp_opt_num(cfg, OPT_BATCH), err)
                         : st;
}
