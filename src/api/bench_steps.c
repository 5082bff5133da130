/* Benchmark of training nets of images: the real training path on images of random bytes, or on those
 * of a file, that lie in memory, each step timed by itself.
 *
 * A step is all that it takes: images laid out (moved and mirrored as the net says), forward, loss,
 * backward, update.  The first steps, which touch all memory and choose and prepare the convolutions,
 * are left out.  On the CPU every layer's share is told, too. */
#include "api/bench.h"
#include "base/bounds.h"
#include "base/context.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/text.h"
#include "data/feed.h"
#include "layer/conv.h"
#include "layer/product.h"
#include "model/memory.h"
#include "model/model.h"
#include "model/nets.h"
#include "model/pace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STREAM_PIXELS = 19,
    WARM = 1, /* steps; on a card epochs */
    LEAST = 3,
    FEW_STEPS = 16, /* of an epoch */
    MANY_STEPS = 512,
    EPOCH_BYTES = 1 << 26, /* of images, but FEW_STEPS steps at least */
};

/* ---- what to run ---- */

void wisp_bench_clear(struct wisp_bench_subject *s)
{
    wisp_pace_clear(&s->pace);
    wisp_report_free(s->run);
    wisp_model_free(s->m);
    wisp_data_free(s->none);
    wisp_data_free(s->rows);
    wisp_config_free(s->cfg);
}

/* CHANNELSxHEIGHTxWIDTHxLABELS */
static bool read_shape(struct wisp_bench_subject *s, const char *text)
{
    unsigned long n[4];
    for (int i = 0; i < 4; i++) {
        char *end;
        if (*text < '1' || *text > '9') return false;
        n[i] = strtoul(text, &end, 10);
        if (*end != (i < 3 ? 'x' : 0) || n[i] > (1 << 16)) return false;
        text = end + 1;
    }
    s->image = (struct wisp_image){ (uint32_t)n[0], (uint32_t)n[1], (uint32_t)n[2] };
    s->n_labels = n[3];
    return n[0] * n[1] <= INT32_MAX / n[2];
}

/* What --shape says, or what the net was made for. */
static wisp_status set_shape(struct wisp_bench_subject *s, wisp_error *err)
{
    static const struct {
        const char *net, *shape;
    } usual[] = { { "lenet", "1x28x28x10" },
                  { "resnet18-cifar", "3x32x32x10" },
                  { "alexnet", "3x224x224x1000" },
                  { "vgg16", "3x224x224x1000" },
                  { "resnet18", "3x224x224x1000" } };
    const char *net = wisp_opt_text(s->cfg, OPT_NET), *shape = wisp_opt_text(s->cfg, OPT_SHAPE);
    for (size_t i = 0; !*shape && i < sizeof usual / sizeof *usual; i++)
        if (strcmp(net, usual[i].net) == 0) shape = usual[i].shape;
    if (read_shape(s, shape)) return wisp_config_set(s->cfg, "shape", shape, err);
    if (!*shape)
        return wisp_fail_option(err, "shape",
                                "missing: nobody knows what images '%.60s' is for; say "
                                "CHANNELSxHEIGHTxWIDTHxLABELS, e.g. 3x32x32x10",
                                net);
    return wisp_fail_option(err, "shape",
                            "'%.100s' is not CHANNELSxHEIGHTxWIDTHxLABELS, e.g. 3x32x32x10, each "
                            "from 1 to 65536",
                            shape);
}

wisp_status wisp_bench_net(const wisp_config *cfg, wisp_error *err)
{
    const char *net = wisp_opt_text(cfg, OPT_NET);
    struct wisp_net_text text;
    if (!*net)
        return wisp_fail_option(err, "net", "missing: say a net of images, e.g. --net lenet");
    wisp_status st = wisp_net_text_read(&text, net, err);
    if (st != WISP_OK) return st;
    if (!wisp_net_text_images(&text, NULL))
        st = wisp_fail_option(
            err, "net", "'%.60s' reads no images; 'wisp bench train' measures such nets", net);
    wisp_net_text_clear(&text);
    return st;
}

/* Random labels cannot be learnt: with a tiny rate no net gets anywhere where numbers end, and one that
 * was trained before (--init) stays what it is.  There are more epochs than time. */
static wisp_status settings(struct wisp_bench_subject *s, const wisp_config *cfg, bool random,
                            bool learns, wisp_error *err)
{
    wisp_status st = wisp_bench_net(cfg, err);
    if (st == WISP_OK && !wisp_opt_on(cfg, OPT_BATCH))
        st = wisp_fail_option(err, "batch", "missing: say the images of a step, e.g. --batch 64");
    if (st == WISP_OK) st = wisp_bench_settings(&s->cfg, cfg, err);
    if (st == WISP_OK && random) st = set_shape(s, err);
    if (st == WISP_OK && !wisp_opt_on(cfg, OPT_LR) && (random || !learns))
        st = wisp_config_set(s->cfg, "lr", "1e-5", err);
    if (st == WISP_OK && !wisp_opt_on(cfg, OPT_EPOCHS))
        st = wisp_config_set(s->cfg, "epochs", "200", err);
    if (st == WISP_OK && !wisp_opt_on(cfg, OPT_SECONDS))
        st = wisp_config_set(s->cfg, "seconds", WISP_TEXT(WISP_BENCH_STEPS), err);
    if (st == WISP_OK) st = wisp_config_set(s->cfg, "patience", "0", err);
    return st;
}

/* How many rows there are to be, and steps that count. */
static void set_rows(struct wisp_bench_subject *s)
{
    const size_t batch = (size_t)wisp_opt_num(s->cfg, OPT_BATCH);
    size_t steps = EPOCH_BYTES / (batch * wisp_image_pixels(s->image));
    steps = steps < FEW_STEPS ? FEW_STEPS : steps > MANY_STEPS ? MANY_STEPS : steps;
    s->n_rows = s->rows ? s->rows->n_rows : batch * steps;
    steps = s->n_rows / batch;
    if (!wisp_opt_is(s->cfg, OPT_DEVICE, "cuda")) steps = 1; /* a card counts by epochs */
    s->pace.warm = WARM * steps, s->pace.least = LEAST * steps;
}

/* ---- images of random bytes ---- */

static wisp_status add_row(struct wisp_builder *b, const struct wisp_bench_subject *s, size_t row,
                           wisp_error *err)
{
    const size_t pixels = wisp_image_pixels(s->image);
    const int32_t label = (int32_t)wisp_rand_below(0, STREAM_PIXELS, row, s->n_labels);
    wisp_status st = wisp_builder_label(b, label, err);
    if (st != WISP_OK) return st;
    uint8_t *to = wisp_builder_image(b, pixels, err);
    if (!to) return WISP_ENOMEM;
    for (size_t i = 0; i < pixels; i += 8) {
        const uint64_t eight = wisp_rand(row + 1, STREAM_PIXELS, i);
        memcpy(to + i, &eight, pixels - i < 8 ? pixels - i : 8);
    }
    return wisp_builder_end_row(b, err);
}

static wisp_status add_rows(struct wisp_sink *sink, const struct wisp_bench_subject *s, size_t n,
                            wisp_error *err)
{
    struct wisp_builder b = { 0 };
    wisp_status st = WISP_OK;
    for (size_t row = 0; row < n && st == WISP_OK;) {
        const size_t end = row + wisp_feed_images_cut(n - row, wisp_image_pixels(s->image));
        for (; row < end && st == WISP_OK; row++) st = add_row(&b, s, row, err);
        if (st == WISP_OK) st = wisp_sink_add(sink, &b, err);
        wisp_builder_reset(&b);
    }
    wisp_builder_clear(&b);
    return st;
}

static wisp_status make_rows(struct wisp_data **out, const struct wisp_bench_subject *s, size_t n,
                             wisp_error *err)
{
    struct wisp_sink *sink = NULL;
    wisp_status st = wisp_sink_create(&sink, NULL, err);
    if (st != WISP_OK) return st;
    wisp_sink_at_least(sink, wisp_image_pixels(s->image), s->n_labels);
    wisp_sink_images(sink, s->image);
    st = add_rows(sink, s, n, err);
    if (st == WISP_OK) return wisp_sink_finish(out, sink, err);
    wisp_sink_abort(sink);
    return st;
}

/* Images of a file or folder, whose size the net may say. */
static wisp_status read_rows(struct wisp_bench_subject *s, struct wisp_context *ctx,
                             const char *path, wisp_error *err)
{
    wisp_status st = wisp_data_open(&s->rows, ctx, path, s->cfg, NULL, err);
    if (st != WISP_OK) return st;
    s->image = s->rows->image;
    s->n_labels = s->rows->n_labels;
    char shape[100];
    snprintf(shape, sizeof shape, "%ux%ux%ux%zu", s->image.channels, s->image.height,
             s->image.width, s->n_labels);
    if (s->image.channels == 0)
        return wisp_fail(err, WISP_EFORMAT, "%s: rows that are no images", path);
    if (s->rows->n_rows < (size_t)wisp_opt_num(s->cfg, OPT_BATCH))
        return wisp_fail_option(err, "batch", "%s has %zu images, fewer than a step takes", path,
                                s->rows->n_rows);
    return wisp_config_set(s->cfg, "shape", shape, err);
}

/* ---- what came out ---- */

static double get(const struct wisp_report *r, const char *key)
{
    double v = 0;
    wisp_report_get(r, key, &v);
    return v;
}

/* Of all layers of a kind together: "conv_forward_ms", "conv_back_ms".  Medians of the steps. */
static void report_kinds(struct wisp_report *t, const struct wisp_net *net,
                         const struct wisp_pace *p)
{
    const struct wisp_layer_kind *k;
    for (size_t at = 0; (k = wisp_layer_kind_at(at)); at++) {
        int of[WISP_MAX_LAYERS], n = 0;
        for (int i = 0; i < net->n_layers; i++)
            if (net->layers[i].kind == k) of[n++] = i;
        char key[2][40];
        snprintf(key[0], sizeof key[0], "%s_forward_ms", k->name);
        snprintf(key[1], sizeof key[1], "%s_back_ms", k->name);
        if (n) wisp_report_num(t, key[0], 1e3 * wisp_pace_lap(p, of, n, false));
        if (n) wisp_report_num(t, key[1], 1e3 * wisp_pace_lap(p, of, n, true));
    }
}

/* ,"zeros": [0.61, 0.0, 0.61], "skipped": [1, 0, 1]: of forward, data, weights the mean share of
 * zeros of what was skipped, or would have been, and the share of steps that did */
static size_t print_skipped(char *text, size_t room, const struct wisp_layer *l)
{
    struct wisp_conv_skipped s[WISP_CONV_PASSES];
    wisp_layer_conv_skipped(l, s);
    size_t at = (size_t)wisp_print(text, room, ",\"zeros\":[");
    for (int p = 0; p < WISP_CONV_PASSES; p++)
        at += (size_t)wisp_print(text + at, room - at, p ? ",%.4g" : "%.4g", s[p].zeros);
    at += (size_t)wisp_print(text + at, room - at, "],\"skipped\":[");
    for (int p = 0; p < WISP_CONV_PASSES; p++)
        at += (size_t)wisp_print(text + at, room - at, p ? ",%.4g" : "%.4g", s[p].share);
    return at + (size_t)wisp_print(text + at, room - at, "]");
}

/* "layers": [{"name": "conv1", "kind": "conv", "forward_ms": 1.2, "back_ms": 2.3, "mflop": 30.1}, ...];
 * convolutions have more */
static wisp_status report_layers(struct wisp_report *t, const struct wisp_net *net,
                                 const struct wisp_pace *p, wisp_error *err)
{
    enum { ROOM = WISP_MOMENT_NAME + 260 };
    const size_t room = (size_t)net->n_layers * ROOM + 3;
    char *text = wisp_alloc(room, 1);
    if (!text) return wisp_fail_mem(err, room, "the times of layers");
    size_t at = (size_t)wisp_print(text, room, "[");
    for (int i = 0; i < net->n_layers; i++) {
        char name[WISP_MOMENT_NAME]; /* of letters, digits, '.', '-', '_' */
        wisp_moment_name(name, net, i);
        at += (size_t)wisp_print(
            text + at, room - at,
            "%s{\"name\":\"%s\",\"kind\":\"%s\",\"forward_ms\":%.6g,"
            "\"back_ms\":%.6g,\"mflop\":%.6g",
            i ? "," : "", name, net->layers[i].kind->name, 1e3 * wisp_pace_lap(p, &i, 1, false),
            1e3 * wisp_pace_lap(p, &i, 1, true), 1e-6 * wisp_net_layer_flops(net, i, true));
        if (net->layers[i].kind == &wisp_layer_conv)
            at += print_skipped(text + at, room - at, &net->layers[i]);
        at += (size_t)wisp_print(text + at, room - at, "}");
    }
    wisp_print(text + at, room - at, "]");
    wisp_report_object(t, "layers", text);
    wisp_free(text);
    return WISP_OK;
}

static void report_memory(struct wisp_report *t, const struct wisp_bench_subject *s)
{
    const struct wisp_pace *p = &s->pace;
    wisp_report_num(t, "plan_bytes", (double)p->plan_bytes);
    wisp_report_num(t, "step_bytes", (double)p->step_bytes);
    wisp_report_num(t, "bound_bytes", (double)p->bound_bytes);
    static const char *const card[] = { "gpu_plan_bytes",  "gpu_work_bytes",  "gpu_bound_bytes",
                                        "gpu_bytes",       "gpu_image_bytes", "gpu_library_bytes",
                                        "gpu_again_bytes", "gpu_lot_layers",  "gpu_lot_samples",
                                        "gpu_state_bytes" };
    for (size_t i = 0; i < sizeof card / sizeof *card; i++)
        if (wisp_opt_is(s->cfg, OPT_DEVICE, "cuda"))
            wisp_report_num(t, card[i], get(s->run, card[i]));
    wisp_report_num(t, "peak_bytes", get(s->run, "peak_bytes"));
    wisp_report_num(t, "grown_bytes", get(s->run, "peak_bytes") - (double)p->start_bytes);
}

static wisp_status report(struct wisp_report **out, struct wisp_context *ctx,
                          struct wisp_bench_subject *s, wisp_error *err)
{
    struct wisp_report *t = wisp_report_create();
    struct wisp_pace *p = &s->pace;
    double sum = 0, batch = wisp_opt_num(s->cfg, OPT_BATCH);
    const char *precision = wisp_opt_text(s->cfg, OPT_PRECISION);
    const bool card = wisp_opt_is(s->cfg, OPT_DEVICE, "cuda");
    if (strcmp(precision, "auto") == 0) precision = ctx->k->fast16 || card ? "bf16" : "fp32";
    const double median = wisp_pace_median(p);
    for (size_t i = 0; i < p->n; i++) sum += p->each[i];
    wisp_report_text(t, "net", wisp_opt_text(s->cfg, OPT_NET));
    wisp_report_text(t, "shape", wisp_opt_text(s->cfg, OPT_SHAPE));
    wisp_report_text(t, "device", wisp_opt_text(s->cfg, OPT_DEVICE));
    wisp_report_text(t, "kernels", ctx->k->name);
    wisp_report_text(t, "precision", precision);
    wisp_report_num(t, "threads", wisp_pool_threads(ctx->pool));
    wisp_report_num(t, "batch", batch);
    wisp_report_num(t, "rows", (double)s->n_rows);
    wisp_report_num(t, "steps", (double)p->n);
    wisp_report_num(t, "ms_median", 1e3 * median);
    wisp_report_num(t, "ms_min", 1e3 * p->each[0]);
    wisp_report_num(t, "ms_mean", 1e3 * sum / (double)p->n);
    wisp_report_num(t, "images_per_s", batch / median);
    wisp_report_num(t, "gflops", 1e-9 * batch * get(s->run, "flops_per_sample") / median);
    wisp_report_num(t, "flops_per_image", get(s->run, "flops_per_sample"));
    wisp_report_num(t, "parameters", get(s->run, "parameters"));
    wisp_status st = WISP_OK;
    if (!card) {
        wisp_report_num(t, "layout_ms", 1e3 * p->layout / (double)p->n);
        report_kinds(t, &s->m->net, p);
        st = report_layers(t, &s->m->net, p, err);
    }
    report_memory(t, s);
    if (st == WISP_OK) return wisp_report_done(out, t, err);
    wisp_report_free(t);
    return st;
}

wisp_status wisp_bench_run(struct wisp_bench_subject *s, struct wisp_context *ctx,
                           const wisp_config *cfg, const char *path, bool learns,
                           wisp_on_progress told, void *arg, wisp_error *err)
{
    wisp_status st = settings(s, cfg, !path, learns, err);
    if (st == WISP_OK && path) st = read_rows(s, ctx, path, err);
    if (st == WISP_OK) set_rows(s);
    if (st == WISP_OK && !path) st = make_rows(&s->rows, s, s->n_rows, err);
    if (st == WISP_OK) st = make_rows(&s->none, s, 0, err);
    s->pace.start_bytes = wisp_mem_peak();
    if (st == WISP_OK)
        st = wisp_train_model(&s->m, &s->run, &s->pace, ctx, s->cfg, s->rows, s->none, told, arg,
                              err);
    if (st == WISP_OK && s->pace.n == 0)
        st = wisp_fail_option(err, "epochs", "no step is left after the first, which do not count");
    return st;
}

wisp_status wisp_bench_steps(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                             const char *path, wisp_on_progress told, void *arg, wisp_error *err)
{
    *out = NULL;
    struct wisp_bench_subject s = { 0 };
    wisp_status st = wisp_bench_run(&s, ctx, cfg, path, false, told, arg, err);
    if (st == WISP_OK) st = report(out, ctx, &s, err);
    wisp_bench_clear(&s);
    return st;
}
