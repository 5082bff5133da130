/* Rows of a data set elsewhere in memory: some as a set of their own, or a block's as they are. */
#include "data/data.h"
#include "base/mem.h"

#include <string.h>

struct pick {
    bool (*want)(const void *arg, size_t row); /* NULL: all */
    const void *arg;
    const int32_t *features, *labels; /* new ids; NULL: as they are */
    bool lists;                       /* pixels become lists */
};

static int32_t renamed(const int32_t *map, int32_t id)
{
    return map ? map[id] : id;
}

static wisp_status copy_row(struct wisp_builder *b, const struct wisp_rows *r, size_t row,
                            const struct pick *p, wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (uint32_t i = r->yp[row]; st == WISP_OK && i < r->yp[row + 1]; i++)
        st = wisp_builder_label(b, renamed(p->labels, r->yi[i]), err);
    if (r->px && st == WISP_OK) {
        uint8_t *px = wisp_builder_image(b, r->pixels, err);
        if (!px) return WISP_ENOMEM;
        memcpy(px, r->px + row * r->pixels, r->pixels);
        return wisp_builder_end_row(b, err);
    }
    for (uint32_t i = r->xp[row]; st == WISP_OK && i < r->xp[row + 1]; i++)
        st = wisp_builder_feature(b, renamed(p->features, wisp_row_id(r, i)), wisp_row_value(r, i),
                                  err);
    return st == WISP_OK ? wisp_builder_end_row(b, err) : st;
}

/* What the wanted rows count for. */
static wisp_status copy_weights(struct wisp_data *to, const struct wisp_data *d,
                                const struct pick *p, wisp_error *err)
{
    size_t n = 0;
    if (!d->weights) return WISP_OK;
    if (!(to->weights = wisp_alloc(to->n_rows, sizeof *to->weights)))
        return wisp_fail_mem(err, to->n_rows * sizeof *to->weights, "the weights of rows");
    for (size_t row = 0; row < d->n_rows; row++)
        if (!p->want || p->want(p->arg, row)) to->weights[n++] = d->weights[row];
    return WISP_OK;
}

static wisp_status copy(struct wisp_data **out, const struct wisp_data *d, const struct pick *p,
                        wisp_error *err)
{
    *out = NULL;
    struct wisp_sink *sink;
    struct wisp_builder b = { 0 };
    wisp_status st = wisp_sink_create(&sink, NULL, err);
    if (st != WISP_OK) return st;
    struct wisp_lists lists = { 0 };
    for (size_t i = 0; st == WISP_OK && i < d->n_blocks; i++) {
        const struct wisp_rows *r = &d->blocks[i];
        if (p->lists) st = wisp_rows_lists(&r, &lists, r, err);
        for (size_t row = 0; st == WISP_OK && row < r->n; row++)
            if (!p->want || p->want(p->arg, d->first[i] + row)) st = copy_row(&b, r, row, p, err);
        if (st == WISP_OK && b.n_rows) st = wisp_sink_add(sink, &b, err);
        wisp_builder_reset(&b);
        wisp_data_forget(d, i);
    }
    wisp_lists_clear(&lists);
    wisp_builder_clear(&b);
    st = wisp_map_blame(&d->map, st, err);
    if (st != WISP_OK) {
        wisp_sink_abort(sink);
        return st;
    }
    if (!p->features) wisp_sink_images(sink, d->image);
    wisp_sink_at_least(sink, p->features ? 0 : d->n_features, p->labels ? 0 : d->n_labels);
    st = wisp_sink_finish(out, sink, err);
    if (st != WISP_OK) return st;
    (*out)->format = d->format;
    (*out)->index_base = d->index_base;
    st = copy_weights(*out, d, p, err);
    if (st == WISP_OK) return WISP_OK;
    wisp_data_free(*out);
    *out = NULL;
    return st;
}

wisp_status wisp_data_pick(struct wisp_data **out, const struct wisp_data *d,
                           bool (*want)(const void *arg, size_t row), const void *arg,
                           wisp_error *err)
{
    struct pick p = { .want = want, .arg = arg };
    return copy(out, d, &p, err);
}

wisp_status wisp_data_renumber(struct wisp_data **out, const struct wisp_data *d,
                               const int32_t *features, const int32_t *labels, wisp_error *err)
{
    struct pick p = { .features = features, .labels = labels, .lists = features != NULL };
    return copy(out, d, &p, err);
}

wisp_status wisp_data_lists(struct wisp_data **out, const struct wisp_data *d, wisp_error *err)
{
    struct pick p = { .lists = true };
    return copy(out, d, &p, err);
}

struct wisp_rows wisp_rows_copy(void *to, const struct wisp_rows *r)
{
    const char *from = (const char *)r->xp; /* the first section */
    char *base = to;
    memcpy(base, from, wisp_rows_bytes(r));
    struct wisp_rows copy = *r;
    copy.xp = (const uint32_t *)base;
    copy.yp = (const uint32_t *)(base + ((const char *)r->yp - from));
    copy.yi = (const int32_t *)(base + ((const char *)r->yi - from));
    if (r->px) {
        copy.px = (const uint8_t *)(base + ((const char *)r->px - from));
    } else {
        copy.xi = (const int32_t *)(base + ((const char *)r->xi - from));
        copy.xv = (const float *)(base + ((const char *)r->xv - from));
    }
    return copy;
}

void wisp_data_forget(const struct wisp_data *d, size_t block)
{
    wisp_map_forget(&d->map, d->blocks[block].xp, wisp_rows_bytes(&d->blocks[block]));
}
