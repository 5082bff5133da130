/* Rows as XC and LibSVM lines.  Ids that stand for numbers of the text (ids.h) are written as
 * those; words are written where the format has them, as labels of LibSVM text. */
#include "base/mem.h"
#include "data/ids.h"
#include "data/number.h"
#include "data/rowtext.h"

#include <stdio.h>
#include <string.h>

enum { ROOM = 24 + WISP_NUMBER_ROOM };

const struct wisp_names *wisp_rowtext_numbers(const struct wisp_data *d, unsigned side)
{
    const struct wisp_names *names = side == WISP_NAMED_LABELS ? &d->labels : &d->vocab;
    if (!(d->named & side) || names->n == 0) return NULL;
    for (size_t i = 0; i < names->n; i++)
        if (wisp_names_number(names, i) < 0) return NULL;
    return names;
}

struct printer {
    struct wisp_out *out;
    const struct wisp_names *labels, *features; /* what the text called them; NULL: their ids */
    size_t n;
    char buf[1 << 16];
};

static wisp_status spill(struct printer *w, size_t room, wisp_error *err)
{
    if (w->n + room <= sizeof w->buf) return WISP_OK;
    wisp_status st = wisp_out_write(w->out, w->buf, w->n, err);
    w->n = 0;
    return st;
}

/* What the text that was read had for an id. */
static int64_t number_of(const struct wisp_names *names, int32_t id)
{
    return names ? wisp_names_number(names, (size_t)id) : id;
}

static void print_id(struct printer *w, char before, int64_t id)
{
    if (before) w->buf[w->n++] = before;
    w->n += (size_t)snprintf(w->buf + w->n, 24, "%lld", (long long)id);
}

/* A label's name, of any length. */
static wisp_status print_name(struct printer *w, char before, const struct wisp_names *names,
                              size_t i, wisp_error *err)
{
    const size_t bytes = names->start[i + 1] - names->start[i] - 1;
    if (before) w->buf[w->n++] = before;
    wisp_status st = bytes < ROOM ? WISP_OK : spill(w, sizeof w->buf, err);
    if (bytes >= ROOM)
        return st ? st : wisp_out_write(w->out, names->text + names->start[i], bytes, err);
    memcpy(w->buf + w->n, names->text + names->start[i], bytes);
    w->n += bytes;
    return WISP_OK;
}

static wisp_status print_row(struct printer *w, const struct wisp_rows *r, size_t i,
                             const struct wisp_dialect *d, wisp_error *err)
{
    wisp_status st;
    int label_base = d->libsvm ? 0 : d->base;
    for (size_t k = r->yp[i]; k < r->yp[i + 1]; k++) {
        const char before = k > r->yp[i] ? ',' : 0;
        if ((st = spill(w, 2 * ROOM, err)) != WISP_OK) return st;
        const bool name = d->libsvm && w->labels && (size_t)r->yi[k] < w->labels->n;
        if (name) st = print_name(w, before, w->labels, (size_t)r->yi[k], err);
        else print_id(w, before, number_of(w->labels, r->yi[k]) + label_base);
        if (st != WISP_OK) return st;
    }
    for (size_t k = r->xp[i]; k < r->xp[i + 1]; k++) {
        if ((st = spill(w, ROOM, err)) != WISP_OK) return st;
        print_id(w, ' ', number_of(w->features, wisp_row_id(r, k)) + d->base);
        w->buf[w->n++] = ':';
        w->n += wisp_number_print(w->buf + w->n, wisp_row_value(r, k));
    }
    if ((st = spill(w, ROOM, err)) != WISP_OK) return st;
    if (d->libsvm && r->yp[i] == r->yp[i + 1] && r->xp[i] == r->xp[i + 1]) w->buf[w->n++] = ' ';
    w->buf[w->n++] = '\n';
    return WISP_OK;
}

wisp_status wisp_rowtext_write(struct wisp_out *out, const struct wisp_data *data,
                               const struct wisp_dialect *d, wisp_error *err)
{
    struct printer *w = wisp_alloc(1, sizeof *w);
    if (!w) return wisp_fail_mem(err, sizeof *w, "a buffer for text");
    w->out = out;
    w->n = 0;
    w->features = wisp_rowtext_numbers(data, WISP_NAMED_FEATURES);
    w->labels = wisp_rowtext_numbers(data, WISP_NAMED_LABELS);
    if (d->libsvm && data->named & WISP_NAMED_LABELS) w->labels = &data->labels;
    wisp_status st = WISP_OK;
    struct wisp_lists lists = { 0 };
    const struct wisp_rows *r = NULL;
    for (size_t b = 0; b < data->n_blocks && st == WISP_OK; b++) {
        st = wisp_rows_lists(&r, &lists, &data->blocks[b], err);
        for (size_t i = 0; st == WISP_OK && i < r->n; i++) st = print_row(w, r, i, d, err);
    }
    wisp_lists_clear(&lists);
    if (st == WISP_OK) st = spill(w, sizeof w->buf, err);
    wisp_free(w);
    return st;
}
