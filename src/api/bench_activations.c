/* Benchmark of zeros: a net of images is trained, and some of its steps are looked at.  Of each value
 * and of each gradient: the share of numbers that are 0; the share of slices of 16 channels by 1 x 1, 4 x 4
 * and 8 x 8 pixels that are not all zeros, which is what skipping by tiles would still compute; and where
 * the time of a step goes.
 *
 * A value that one layer writes for another (a convolution with the ReLU behind it) is told once, for
 * the layer that writes it.  Units have slices of 16 of them, in their order.  On a card nobody looks: there are
 * the moving averages alone. */
#include "api/bench.h"
#include "base/context.h"
#include "base/mem.h"
#include "base/text.h"
#include "layer/conv.h"
#include "model/memory.h"

#include <string.h>

enum { EVERY = 8, SIDES = 3 };
static const size_t side_of[SIDES] = { 1, 4, 8 };

struct seen { /* of a value, or of its gradient */
    uint64_t numbers, zeros;
    uint64_t slices[SIDES], live[SIDES];
};

struct looks {
    struct wisp_pool *pool;
    struct seen *values, *gradients; /* (WISP_MAX_LAYERS) */
    size_t steps;
    struct seen *parts; /* (n_parts) of the value that is looked at */
    size_t n_parts;
};

/* ---- looking ---- */

struct look {
    struct looks *to;
    const float *x;
    size_t n, channels, h, w, block, blocks, floats; /* of a sample: whole blocks */
};

/* A tile of a block of channels: is any number not 0? */
static bool tile_lives(const struct look *l, const float *x, size_t y0, size_t x0, size_t side)
{
    for (size_t y = y0; y < y0 + side && y < l->h; y++)
        for (size_t p = x0; p < x0 + side && p < l->w; p++)
            for (size_t c = 0; c < l->block; c++)
                if (x[(y * l->w + p) * l->block + c] != 0) return true;
    return false;
}

/* A block of a sample.  Units are channels of one pixel; images as they come have one channel to a
 * block, whose slices are of that one. */
static void look_block(void *arg, size_t task, int thread)
{
    const struct look *l = arg;
    const size_t sample = task / l->blocks, block = task % l->blocks,
                 left = l->channels - block * l->block;
    const size_t channels = left < l->block ? left : l->block, pixels = l->h * l->w;
    const float *x = l->x + sample * l->floats + block * pixels * l->block;
    struct seen *s = &l->to->parts[thread];
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < channels; c++) s->zeros += x[i * l->block + c] == 0;
    s->numbers += pixels * channels;
    for (int k = 0; k < SIDES; k++)
        for (size_t y = 0; y < l->h; y += side_of[k])
            for (size_t p = 0; p < l->w; p += side_of[k])
                s->slices[k]++, s->live[k] += tile_lives(l, x, y, p, side_of[k]);
}

static struct look look_of(struct looks *to, const struct wisp_act *a, size_t n, bool gradient)
{
    struct look l = { .to = to, .x = gradient ? a->g : a->x, .n = n, .floats = a->floats };
    l.channels = a->width, l.h = l.w = 1, l.block = WISP_PLANE_BLOCK;
    if (a->shape.rank == 3) {
        l.channels = a->shape.dim[0], l.h = a->shape.dim[1], l.w = a->shape.dim[2];
        l.block = wisp_act_block(a);
    }
    l.blocks = wisp_parts(l.channels, l.block);
    return l;
}

static void add(struct seen *to, const struct seen *from)
{
    to->numbers += from->numbers, to->zeros += from->zeros;
    for (int k = 0; k < SIDES; k++) to->slices[k] += from->slices[k], to->live[k] += from->live[k];
}

static void look_at(void *arg, int layer, const struct wisp_act *a, size_t n, bool gradient)
{
    struct looks *to = arg;
    struct look l = look_of(to, a, n, gradient);
    if (layer == 0 && !gradient) to->steps++;
    if (!l.x) return;
    memset(to->parts, 0, to->n_parts * sizeof *to->parts);
    wisp_parallel_for(to->pool, n * l.blocks, look_block, &l);
    for (size_t i = 0; i < to->n_parts; i++)
        add(&(gradient ? to->gradients : to->values)[layer], &to->parts[i]);
}

static wisp_status make_looks(struct looks *l, struct wisp_context *ctx, wisp_error *err)
{
    l->pool = ctx->pool;
    l->n_parts = (size_t)wisp_pool_threads(ctx->pool);
    l->values = wisp_zalloc(2 * WISP_MAX_LAYERS + l->n_parts, sizeof *l->values);
    if (!l->values)
        return wisp_fail_mem(err, 2 * WISP_MAX_LAYERS * sizeof *l->values, "what was looked at");
    l->gradients = l->values + WISP_MAX_LAYERS;
    l->parts = l->gradients + WISP_MAX_LAYERS;
    return WISP_OK;
}

/* ---- what came out ---- */

static double share(uint64_t some, uint64_t all)
{
    return all ? (double)some / (double)all : -1;
}

/* "zeros":0.61,"live":[0.9,1,1] */
static size_t print_seen(char *text, size_t room, const char *prefix, const struct seen *s)
{
    size_t at = (size_t)wisp_print(text, room, ",\"%szeros\":%.4g,\"%slive\":[", prefix,
                                   share(s->zeros, s->numbers), prefix);
    for (int k = 0; k < SIDES; k++)
        at += (size_t)wisp_print(text + at, room - at, k ? ",%.4g" : "%.4g",
                                 share(s->live[k], s->slices[k]));
    return at + (size_t)wisp_print(text + at, room - at, "]");
}

static wisp_status report_layers(struct wisp_report *t, const struct wisp_net *net,
                                 const struct wisp_pace *p, const struct looks *l, wisp_error *err)
{
    enum { ROOM = WISP_MOMENT_NAME + 360 };
    const double each = 1e3 / (double)p->n;
    const size_t room = (size_t)net->n_layers * ROOM + 3;
    char *text = wisp_alloc(room, 1);
    if (!text) return wisp_fail_mem(err, room, "the zeros of layers");
    size_t at = (size_t)wisp_print(text, room, "[");
    for (int i = 0; i < net->n_layers; i++) {
        const struct wisp_layer *layer = &net->layers[i];
        const double data = layer->kind == &wisp_layer_conv ? p->laps.data[i]
                            : layer->n_params               ? 0
                                                            : p->laps.back[i];
        char name[WISP_MOMENT_NAME]; /* of letters, digits, '.', '-', '_' */
        if (layer->done) continue;
        wisp_moment_name(name, net, i);
        at += (size_t)wisp_print(text + at, room - at, "%s{\"name\":\"%s\",\"kind\":\"%s%s\"",
                                 at > 1 ? "," : "", name, layer->kind->name,
                                 layer->parts & WISP_FUSE_RELU ? "+relu" : "");
        at += print_seen(text + at, room - at, "", &l->values[i]);
        at += print_seen(text + at, room - at, "gradient_", &l->gradients[i]);
        at += (size_t)wisp_print(
            text + at, room - at,
            ",\"forward_ms\":%.6g,\"data_ms\":%.6g,\"weights_ms\":%.6g,\"mflop\":%.6g}",
            each * p->laps.forward[i], each * data, each * (p->laps.back[i] - data),
            1e-6 * wisp_net_layer_flops(net, i, true));
    }
    wisp_print(text + at, room - at, "]");
    wisp_report_object(t, "layers", text);
    wisp_free(text);
    return WISP_OK;
}

static wisp_status report_zeros(struct wisp_report *t, const struct wisp_net *net, wisp_error *err)
{
    char *text = wisp_alloc(wisp_net_zeros_room(net), 1);
    if (!text) return wisp_fail_mem(err, wisp_net_zeros_room(net), "the shares of zeros");
    wisp_net_zeros_text(text, net);
    wisp_report_object(t, "zeros", text);
    wisp_free(text);
    return WISP_OK;
}

static wisp_status report(struct wisp_report **out, struct wisp_context *ctx,
                          struct wisp_bench_subject *s, const struct looks *l, wisp_error *err)
{
    struct wisp_report *t = wisp_report_create();
    wisp_report_text(t, "net", wisp_opt_text(s->cfg, OPT_NET));
    wisp_report_text(t, "shape", wisp_opt_text(s->cfg, OPT_SHAPE));
    wisp_report_text(t, "device", wisp_opt_text(s->cfg, OPT_DEVICE));
    wisp_report_text(t, "kernels", ctx->k->name);
    wisp_report_num(t, "threads", wisp_pool_threads(ctx->pool));
    wisp_report_num(t, "batch", wisp_opt_num(s->cfg, OPT_BATCH));
    wisp_report_num(t, "steps", (double)s->pace.n);
    wisp_report_num(t, "looked", (double)l->steps);
    wisp_report_num(t, "ms_median", 1e3 * wisp_pace_median(&s->pace));
    wisp_status st = report_zeros(t, &s->m->net, err);
    if (st == WISP_OK && !wisp_opt_is(s->cfg, OPT_DEVICE, "cuda"))
        st = report_layers(t, &s->m->net, &s->pace, l, err);
    if (st == WISP_OK) return wisp_report_done(out, t, err);
    wisp_report_free(t);
    return st;
}

wisp_status wisp_bench_activations(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                                   const char *path, wisp_on_progress told, void *arg,
                                   wisp_error *err)
{
    *out = NULL;
    struct wisp_bench_subject s = { 0 };
    struct looks l = { 0 };
    const struct wisp_peek peek = { look_at, &l };
    s.pace.peek = &peek, s.pace.peek_every = EVERY;
    wisp_status st = make_looks(&l, ctx, err);
    if (st == WISP_OK) st = wisp_bench_run(&s, ctx, cfg, path, true, told, arg, err);
    if (st == WISP_OK) st = report(out, ctx, &s, &l, err);
    wisp_bench_clear(&s);
    wisp_free(l.values);
    return st;
}
