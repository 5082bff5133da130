/* Blocks of rows built in parallel, handed to the sink in order. */
#include "data/feed.h"
#include "base/mem.h"

#include <string.h>

struct round { /* blocks that are under way */
    const struct wisp_feed *f;
    struct wisp_feed_job *jobs;
};

static void feed_block(void *arg, size_t number, int thread)
{
    (void)thread;
    const struct round *r = arg;
    struct wisp_feed_job *j = &r->jobs[number];
    wisp_builder_reset(&j->b);
    j->err.code = WISP_OK;
    wisp_status st = WISP_OK;
    for (size_t row = j->first; row < j->first + j->n_rows && st == WISP_OK; row++)
        st = r->f->row(r->f->arg, j, row);
    j->err.code = st;
}

wisp_status wisp_feed_all(const struct wisp_feed *f, struct wisp_source *src,
                          struct wisp_sink *sink, wisp_error *err)
{
    struct wisp_pool *pool = src->ctx ? src->ctx->pool : NULL;
    size_t n_jobs = (size_t)wisp_pool_threads(pool), n;
    struct round r = { f, wisp_zalloc(n_jobs, sizeof *r.jobs) };
    if (!r.jobs) return wisp_fail_mem(err, n_jobs * sizeof *r.jobs, "blocks being read");
    wisp_status st = WISP_OK;
    for (size_t row = 0; row < f->n_rows && st == WISP_OK;) {
        for (n = 0; n < n_jobs && row < f->n_rows; n++) {
            r.jobs[n].first = row;
            row += r.jobs[n].n_rows = f->cut(f->arg, row);
        }
        wisp_parallel_for(pool, n, feed_block, &r);
        for (size_t i = 0; i < n && st == WISP_OK; i++) {
            st = r.jobs[i].err.code;
            if (st != WISP_OK) wisp_fail_as(err, st, &r.jobs[i].err);
            else st = wisp_sink_add(sink, &r.jobs[i].b, err);
        }
    }
    for (size_t i = 0; i < n_jobs; i++) {
        src->n_dropped_features += r.jobs[i].n_dropped;
        src->n_dropped_labels += r.jobs[i].n_dropped_labels;
        wisp_builder_clear(&r.jobs[i].b);
    }
    wisp_free(r.jobs);
    return st;
}

size_t wisp_feed_images(const struct wisp_source *src, struct wisp_sink *sink,
                        struct wisp_image image)
{
    const size_t pixels = wisp_image_pixels(image);
    const size_t known = src->o->image.channels ? 0 : src->o->n_features; /* else all is wrong */
    wisp_sink_at_least(sink, known ? known : pixels, src->o->n_labels);
    if (!known || pixels <= known) wisp_sink_images(sink, image);
    return known ? known : SIZE_MAX;
}

size_t wisp_feed_images_cut(size_t left, size_t pixels)
{
    const size_t block = WISP_BLOCK_NNZ / pixels + 1;
    const size_t most = block < WISP_BLOCK_ROWS ? block : WISP_BLOCK_ROWS;
    return left < most ? left : most;
}

wisp_status wisp_feed_image(struct wisp_feed_job *j, const uint8_t *px, size_t pixels, size_t limit)
{
    wisp_status st = WISP_OK;
    if (pixels <= limit) {
        uint8_t *to = wisp_builder_image(&j->b, pixels, &j->err);
        if (!to) return WISP_ENOMEM;
        memcpy(to, px, pixels);
        return wisp_builder_end_row(&j->b, &j->err);
    }
    for (size_t i = 0; i < pixels && st == WISP_OK; i++) {
        if (px[i] == 0) continue;
        if (i < limit)
            st = wisp_builder_feature(&j->b, (int32_t)i, wisp_pixel_value(px[i]), &j->err);
        else j->n_dropped++;
    }
    return st == WISP_OK ? wisp_builder_end_row(&j->b, &j->err) : st;
}
