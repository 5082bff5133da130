/* Benchmark of the way that images take before a net sees them: read from their file or folder, and
 * laid out in batches, in the order of an epoch, moved and mirrored as the net says. */
#include "api/bench.h"
#include "base/bounds.h"
#include "base/context.h"
#include "base/file.h"
#include "base/mem.h"
#include "layer/image.h"
#include "model/batch.h"
#include "model/nets.h"
#include "model/order.h"

enum { LEAST_BATCHES = 3, BATCH = 256 };
static const char ANY_NET[] =
    "image pad=4 flip=yes, globalavg"; /* as nets of small images have it */

struct feed {
    struct wisp_context *ctx;
    const wisp_config *cfg;
    double seconds; /* that each of the two is measured for */
    size_t batch;
    struct wisp_data *d;
    struct wisp_net net;
    float *means; /* (2, channels) mean, scale */
    struct wisp_layout layout;
    struct wisp_order order;
    size_t *rows;                /* (batch) */
    double read_s, read_first_s; /* the fastest, and the first */
    size_t n_reads, n_laid;      /* times, images */
    double laid_s;
};

static void clear(struct feed *f)
{
    wisp_free(f->rows);
    wisp_order_clear(&f->order);
    wisp_layout_clear(&f->layout);
    wisp_net_clear(&f->net);
    wisp_free(f->means);
    wisp_data_free(f->d);
}

/* The first time makes the copy for fast reading, unless it is there; the others map it. */
static wisp_status read_images(struct feed *f, const char *path, wisp_error *err)
{
    const double end = wisp_now() + f->seconds;
    wisp_status st = WISP_OK;
    do {
        wisp_data_free(f->d);
        const double began = wisp_now();
        if ((st = wisp_data_open(&f->d, f->ctx, path, f->cfg, NULL, err)) != WISP_OK) return st;
        const double took = wisp_now() - began;
        if (f->n_reads++ == 0) f->read_s = f->read_first_s = took;
        if (took < f->read_s) f->read_s = took;
    } while (f->n_reads < 2 || wisp_now() < end);
    if (f->d->image.channels == 0)
        return wisp_fail(err, WISP_EFORMAT, "%s: rows that are no images", path);
    return f->d->n_rows ? WISP_OK : wisp_fail(err, WISP_EFORMAT, "%s: there are no images", path);
}

/* The net is planned, to know how its layer 'image' reads them, but has no weights. */
static wisp_status plan_net(struct feed *f, wisp_error *err)
{
    const struct wisp_layer_sizes sizes = { .batch = f->batch,
                                            .labels = f->d->n_labels,
                                            .active = f->d->n_labels,
                                            .training = true,
                                            .image = wisp_image_shape(f->d->image) };
    const char *option = wisp_opt_text(f->cfg, OPT_NET);
    const size_t channels = f->d->image.channels;
    struct wisp_net_text text;
    wisp_status st = wisp_net_text_read(&text, *option ? option : ANY_NET, err);
    if (st != WISP_OK) return st;
    st = wisp_net_plan_text(&f->net, text.text, text.where, f->d->n_features, f->d->n_labels,
                            &sizes, err);
    wisp_net_text_clear(&text);
    if (st != WISP_OK) return st;
    if (!(f->means = wisp_alloc(2 * channels, sizeof *f->means)))
        return wisp_fail_mem(err, 2 * channels * sizeof *f->means, "the means of channels");
    const struct wisp_layer *image = wisp_net_image(&f->net);
    image->params[WISP_IMAGE_MEAN].w = f->means;
    image->params[WISP_IMAGE_SCALE].w = f->means + channels;
    return wisp_image_means(f->means, f->means + channels, f->d, err);
}

static wisp_status prepare(struct feed *f, wisp_error *err)
{
    wisp_status st = plan_net(f, err);
    if (st == WISP_OK)
        st = wisp_layout_init(&f->layout, f->d->n_features, f->d->n_labels, false, err);
    if (st == WISP_OK) st = wisp_layout_for(&f->layout, &f->net, false, err);
    if (st == WISP_OK) st = wisp_order_init(&f->order, f->d, 1, 1, 0, 0, err);
    if (st != WISP_OK) return st;
    f->layout.pool = f->ctx->pool;
    f->layout.seed = 1;
    f->rows = wisp_alloc(f->batch, sizeof *f->rows);
    return f->rows ? WISP_OK : wisp_fail_mem(err, f->batch * sizeof *f->rows, "a batch");
}

/* Epoch after epoch while there is time; the first batch, whose memory is new, is not counted. */
static wisp_status lay_out(struct feed *f, wisp_error *err)
{
    const struct wisp_values raw = { .mode = WISP_VALUES_RAW };
    const struct wisp_drop none = { 0 };
    wisp_status st = WISP_OK;
    size_t batches = 0;
    for (int epoch = 1; st == WISP_OK && (batches <= LEAST_BATCHES || f->laid_s < f->seconds);
         epoch++) {
        wisp_order_start(&f->order, epoch);
        f->layout.epoch = epoch;
        for (size_t n; st == WISP_OK && (n = wisp_order_next(&f->order, f->rows, f->batch)) > 0;
             batches++) {
            const double began = wisp_now();
            st = wisp_layout_fill(&f->layout, &f->order.d, f->rows, n, &raw, &none, err);
            if (batches == 0) continue;
            f->laid_s += wisp_now() - began;
            f->n_laid += n;
        }
    }
    return st;
}

static wisp_status report(struct wisp_report **out, const struct feed *f, const char *path,
                          wisp_error *err)
{
    struct wisp_report *t = wisp_report_create();
    const double n = (double)f->d->n_rows;
    char image[WISP_IMAGE_TEXT];
    wisp_report_text(t, "data", path);
    wisp_report_text(t, "image", wisp_image_text(image, f->d->image));
    wisp_report_num(t, "images", n);
    wisp_report_num(t, "labels", (double)f->d->n_labels);
    wisp_report_num(t, "threads", wisp_pool_threads(f->ctx->pool));
    wisp_report_num(t, "batch", (double)f->batch);
    wisp_report_num(t, "reads", (double)f->n_reads);
    wisp_report_num(t, "read_images_per_s", n / f->read_s);
    wisp_report_num(t, "first_read_images_per_s", n / f->read_first_s);
    wisp_report_num(t, "laid_images_per_s", (double)f->n_laid / f->laid_s);
    wisp_report_num(t, "peak_bytes", (double)wisp_mem_peak());
    return wisp_report_done(out, t, err);
}

wisp_status wisp_bench_input(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                             const char *path, wisp_error *err)
{
    *out = NULL;
    const double seconds = wisp_opt_num(cfg, OPT_SECONDS), batch = wisp_opt_num(cfg, OPT_BATCH);
    struct feed f = { .ctx = ctx,
                      .cfg = cfg,
                      .seconds = seconds > 0 ? seconds : WISP_BENCH_PREDICT,
                      .batch = batch > 0 ? (size_t)batch : BATCH };
    wisp_status st = *wisp_opt_text(cfg, OPT_NET) ? wisp_bench_net(cfg, err) : WISP_OK;
    if (st == WISP_OK) st = read_images(&f, path, err);
    if (st == WISP_OK) st = prepare(&f, err);
    if (st == WISP_OK) st = lay_out(&f, err);
    if (st == WISP_OK) st = report(out, &f, path, err);
    clear(&f);
    return st;
}
