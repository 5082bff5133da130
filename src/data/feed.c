/* Blocks of rows built in parallel, handed to the sink in order. */
#include "data/feed.h"
#include "base/mem.h"
#include "data/fit.h"
#include "data/image.h"

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
    for (size_t row = 0, first; row < f->n_rows && st == WISP_OK;) {
        first = row;
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
        if (f->map && src->o->memory)
            wisp_map_forget(f->map, f->p + first * f->row_bytes, (row - first) * f->row_bytes);
    }
    for (size_t i = 0; i < n_jobs; i++) {
        src->n_dropped_features += r.jobs[i].n_dropped;
        src->n_dropped_labels += r.jobs[i].n_dropped_labels;
        wisp_builder_clear(&r.jobs[i].b);
    }
    wisp_free(r.jobs);
    return st;
}

static wisp_status collect(struct wisp_ids *ids, const struct wisp_feed *rows,
                           wisp_feed_number number, wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (size_t row = 0; row < rows->n_rows && st == WISP_OK; row++) {
        int64_t of_row;
        st = number(&of_row, rows->arg, row, err);
        if (st == WISP_OK) st = wisp_ids_add_number(ids, of_row, err);
    }
    return st;
}

wisp_status wisp_feed_open_labels(struct wisp_ids *ids, struct wisp_source *src,
                                  struct wisp_sink *sink, const struct wisp_feed *rows,
                                  wisp_feed_number number, bool far, wisp_error *err)
{
    struct wisp_names names = { 0 };
    far &= !(src->o->decided & WISP_NAMED_LABELS);
    if (!far && !(src->o->named & WISP_NAMED_LABELS)) return WISP_OK;
    wisp_status st = wisp_ids_init(ids, src->o, WISP_NAMED_LABELS, err);
    if (st == WISP_OK && ids->open) st = collect(ids, rows, number, err);
    if (st == WISP_OK && ids->open) st = wisp_ids_number(ids, &names, err);
    if (st == WISP_OK) wisp_sink_names(sink, &names, NULL);
    if (st == WISP_OK) wisp_sink_at_least(sink, 0, ids->n);
    wisp_names_clear(&names);
    src->named |= WISP_NAMED_LABELS;
    return st;
}

wisp_status wisp_feed_label(struct wisp_feed_job *j, const struct wisp_ids *ids, int64_t number)
{
    int64_t id = ids->named ? wisp_ids_find_number(ids, number) : number;
    if (id < 0) { /* an id that cannot be predicted */
        j->n_dropped_labels++;
        id = (int64_t)ids->n;
    }
    return wisp_builder_label(&j->b, (int32_t)id, &j->err);
}

struct wisp_image wisp_feed_size(const struct wisp_source *src, struct wisp_image found)
{
    const struct wisp_image want = src->o->image;
    if (!src->o->resize || !want.height) return found;
    return (struct wisp_image){ found.channels, want.height, want.width };
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

struct planes {
    const uint8_t *px;
    struct wisp_image image;
};

static void read_line(double *to, const void *arg, uint32_t c, uint32_t y)
{
    const struct planes *p = arg;
    const uint8_t *line = p->px + ((size_t)c * p->image.height + y) * p->image.width;
    for (uint32_t x = 0; x < p->image.width; x++) to[x] = line[x];
}

static wisp_status resize(uint8_t *out, const uint8_t *px, struct wisp_image found,
                          struct wisp_image to, wisp_error *err)
{
    const struct planes p = { px, found };
    struct wisp_fit f;
    wisp_status st = wisp_fit_init(&f, found.height, found.width, to.height, to.width, err);
    for (uint32_t c = 0; c < to.channels && st == WISP_OK; c++)
        st = wisp_fit_bytes(out + (size_t)c * to.height * to.width, &f, read_line, &p, c, err);
    wisp_fit_clear(&f);
    return st;
}

wisp_status wisp_feed_image(struct wisp_feed_job *j, const uint8_t *px, struct wisp_image found,
                            struct wisp_image to, size_t limit)
{
    wisp_status st = WISP_OK;
    const size_t pixels = wisp_image_pixels(to);
    if (pixels <= limit) {
        uint8_t *room = wisp_builder_image(&j->b, pixels, &j->err);
        if (!room) return WISP_ENOMEM;
        if (wisp_same_image(found, to)) memcpy(room, px, pixels);
        else st = resize(room, px, found, to, &j->err);
        return st == WISP_OK ? wisp_builder_end_row(&j->b, &j->err) : st;
    }
    for (size_t i = 0; i < pixels && st == WISP_OK; i++) {
        if (px[i] == 0) continue;
        if (i < limit)
            st = wisp_builder_feature(&j->b, (int32_t)i, wisp_pixel_value(px[i]), &j->err);
        else j->n_dropped++;
    }
    return st == WISP_OK ? wisp_builder_end_row(&j->b, &j->err) : st;
}
