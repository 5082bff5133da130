/* Images in arrays of numpy: NAME.npy with the labels in NAME.y.npy, or both in one NAME.npz.
 *
 *   images   (n, channels, height, width), (n, height, width, channels) or (n, height, width), of
 *            uint8 (0 to 255, kept as bytes) or floats (kept as they are).  Channels are last where
 *            the last dimension is up to 4 and the second is not
 *   labels   (n) or (n, 1) integers from 0
 *
 * An archive has one array of images and at most one of labels, whatever they are called.  Not
 * written. */
#include "base/mem.h"
#include "data/feed.h"
#include "data/fit.h"
#include "data/image.h"
#include "data/npy.h"
#include "data/npz.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct arrays {
    struct wisp_map map[2]; /* the file, and the labels' where they have one of their own */
    struct wisp_zip zip;
    struct wisp_npy x, y;        /* y.p NULL: no labels */
    char names[2][64];           /* in an archive */
    struct wisp_image image, to; /* as they are, and what they become */
    bool last;                   /* channels are */
    size_t n_rows, pixels, limit;
    struct wisp_ids ids; /* of labels, where they go with names */
    size_t room;         /* ids of labels below this are in proportion */
    bool known;          /* ... and others are unknown: a model says which there are */
    bool below;          /* labels below 0 are names that a model may have */
    wisp_error odd;      /* of an archive: why an array of it cannot be read */
};

static void clear(struct arrays *f)
{
    wisp_free(f->x.owned);
    wisp_free(f->y.owned);
    wisp_zip_clear(&f->zip);
    wisp_ids_clear(&f->ids);
    for (int i = 0; i < 2; i++) wisp_map_close(&f->map[i]);
}

/* ---- what arrays are ---- */

static bool is_bytes(const struct wisp_npy *a)
{
    return a->kind == 'u' && a->item == 1;
}

static bool are_images(const struct wisp_npy *a)
{
    return a->n_dims == 3 || a->n_dims == 4;
}

static bool are_labels(const struct wisp_npy *a)
{
    return a->n_dims == 1 || (a->n_dims == 2 && a->dim[1] == 1);
}

static wisp_status check_images(struct arrays *f, wisp_error *err)
{
    enum { FEW = 4 };
    const struct wisp_npy *a = &f->x;
    const size_t *d = a->dim;
    if (!are_images(a))
        return wisp_npy_wrong(a,
                              "expected images: (n, channels, height, width), (n, height, width, "
                              "channels) or (n, height, width)",
                              err);
    if (!is_bytes(a) && !(a->kind == 'f' && (a->item == 4 || a->item == 8)))
        return wisp_npy_wrong(a, "expected images of uint8, float32 or float64", err);
    if (a->columns)
        return wisp_npy_wrong(a, "in Fortran's order; save numpy.ascontiguousarray of it", err);
    for (int i = 0; i < a->n_dims; i++)
        if (d[i] == 0 || (i > 0 && d[i] > INT32_MAX))
            return wisp_fail_at(err, WISP_EFORMAT, a->path, 0,
                                "array '%s': dimension %d is %zu, expected 1 to 2147483647",
                                a->name, i, d[i]);
    f->last = a->n_dims == 4 && d[3] <= FEW && d[1] > FEW;
    f->image = (struct wisp_image){ 1, (uint32_t)d[1], (uint32_t)d[2] };
    if (a->n_dims == 4 && f->last) f->image.channels = (uint32_t)d[3];
    else if (a->n_dims == 4)
        f->image = (struct wisp_image){ (uint32_t)d[1], (uint32_t)d[2], (uint32_t)d[3] };
    f->n_rows = d[0];
    f->pixels = a->n / d[0];
    if (f->pixels > INT32_MAX)
        return wisp_fail_at(err, WISP_EFORMAT, a->path, 0,
                            "array '%s': images of %zu pixels, expected up to 2147483647", a->name,
                            f->pixels);
    return WISP_OK;
}

static wisp_status check_labels(const struct arrays *f, wisp_error *err)
{
    const struct wisp_npy *a = &f->y;
    if (!are_labels(a) || (a->kind != 'i' && a->kind != 'u') ||
        (a->item != 1 && a->item != 2 && a->item != 4 && a->item != 8))
        return wisp_npy_wrong(a, "expected labels: one integer for each image", err);
    if (a->n != f->n_rows)
        return wisp_fail_at(err, WISP_EFORMAT, a->path, 0,
                            "array '%s': %zu labels for %zu images; expected one for each", a->name,
                            a->n, f->n_rows);
    return WISP_OK;
}

/* ---- rows ---- */

static int64_t label_at(const struct wisp_npy *y, size_t i)
{
    if (y->kind == 'i' || y->item == 8) return wisp_npy_int(y, i); /* beyond 2^63: below 0 */
    return (int64_t)wisp_npy_value(y, i);
}

static wisp_status number_of(int64_t *label, const void *arg, size_t row, wisp_error *err)
{
    const struct arrays *f = arg;
    const int64_t most = f->known ? INT64_MAX : (int64_t)f->room; /* unknown ones are misses */
    *label = label_at(&f->y, row);
    if (*label < 0 ? f->below : f->ids.named || *label < most) return WISP_OK;
    return wisp_fail_at(err, WISP_EFORMAT, f->y.path, 0,
                        "array '%s': label %lld of row %zu, expected 0 to %lld", f->y.name,
                        (long long)*label, row, (long long)most - 1);
}

/* Are there labels whose ids would be out of proportion? */
static bool are_far(const struct arrays *f)
{
    for (size_t row = 0; f->y.p && row < f->y.n; row++) {
        const int64_t label = label_at(&f->y, row);
        if (label >= 0 && (uint64_t)label >= f->room) return true;
    }
    return false;
}

static wisp_status feed_label(const struct arrays *f, struct wisp_feed_job *j, size_t row)
{
    int64_t label;
    wisp_status st = number_of(&label, f, row, &j->err);
    if (st != WISP_OK) return st;
    const bool unknown = !f->ids.named && (size_t)label >= f->room;
    j->n_dropped_labels += unknown;
    return wisp_feed_label(j, &f->ids, unknown ? (int64_t)f->room : label);
}

/* Where pixel i of (channels, height, width) is in the array's own order. */
static size_t place(const struct arrays *f, size_t i)
{
    const size_t plane = (size_t)f->image.height * f->image.width;
    return f->last ? i % plane * f->image.channels + i / plane : i;
}

static wisp_status feed_value(const struct arrays *f, struct wisp_feed_job *j, size_t row, size_t i,
                              double v)
{
    if (!(fabs(v) <= FLT_MAX))
        return wisp_fail_at(&j->err, WISP_EFORMAT, f->x.path, 0,
                            "array '%s': %g in row %zu, expected a finite float32", f->x.name, v,
                            row);
    if ((float)v == 0) return WISP_OK;
    if (i < f->limit) return wisp_builder_feature(&j->b, (int32_t)i, (float)v, &j->err);
    j->n_dropped++;
    return WISP_OK;
}

static wisp_status feed_values(const struct arrays *f, struct wisp_feed_job *j, size_t row)
{
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < f->pixels && st == WISP_OK; i++) {
        const size_t at = row * f->pixels + place(f, i);
        st = feed_value(f, j, row, i,
                        is_bytes(&f->x) ? (double)wisp_pixel_value(f->x.p[at])
                                        : wisp_npy_value(&f->x, at));
    }
    return st == WISP_OK ? wisp_builder_end_row(&j->b, &j->err) : st;
}

/* ---- rows of another size ---- */

struct source {
    const struct arrays *f;
    size_t row;
};

static void read_line(double *to, const void *arg, uint32_t c, uint32_t y)
{
    const struct source *s = arg;
    const struct arrays *f = s->f;
    const size_t first = ((size_t)c * f->image.height + y) * f->image.width;
    for (uint32_t x = 0; x < f->image.width; x++) {
        const size_t at = s->row * f->pixels + place(f, first + x);
        to[x] = is_bytes(&f->x) ? f->x.p[at] : wisp_npy_value(&f->x, at);
    }
}

static wisp_status resize_bytes(const struct arrays *f, struct wisp_feed_job *j,
                                const struct source *s, struct wisp_fit *fit)
{
    uint8_t *to = wisp_builder_image(&j->b, wisp_image_pixels(f->to), &j->err);
    wisp_status st = to ? WISP_OK : WISP_ENOMEM;
    for (uint32_t c = 0; c < f->to.channels && st == WISP_OK; c++)
        st = wisp_fit_bytes(to + (size_t)c * f->to.height * f->to.width, fit, read_line, s, c,
                            &j->err);
    return st;
}

static wisp_status resize_values(const struct arrays *f, struct wisp_feed_job *j,
                                 const struct source *s, struct wisp_fit *fit)
{
    double *line = wisp_alloc(f->to.width, sizeof *line);
    wisp_status st =
        line ? WISP_OK : wisp_fail_mem(&j->err, f->to.width * sizeof *line, "a line of pixels");
    for (size_t i = 0, n = wisp_image_pixels(f->to); i < n && st == WISP_OK; i++) {
        const size_t x = i % f->to.width, y = i / f->to.width;
        if (x == 0)
            wisp_fit_line(line, fit, read_line, s, (uint32_t)(y / f->to.height),
                          (uint32_t)(y % f->to.height));
        st = feed_value(f, j, s->row, i, line[x]);
    }
    wisp_free(line);
    return st;
}

static wisp_status resize(const struct arrays *f, struct wisp_feed_job *j, size_t row)
{
    const struct source s = { f, row };
    struct wisp_fit fit;
    wisp_status st =
        wisp_fit_init(&fit, f->image.height, f->image.width, f->to.height, f->to.width, &j->err);
    if (st == WISP_OK)
        st = is_bytes(&f->x) ? resize_bytes(f, j, &s, &fit) : resize_values(f, j, &s, &fit);
    wisp_fit_clear(&fit);
    return st == WISP_OK ? wisp_builder_end_row(&j->b, &j->err) : st;
}

static wisp_status feed_row(const void *arg, struct wisp_feed_job *j, size_t row)
{
    const struct arrays *f = arg;
    wisp_status st = f->y.p ? feed_label(f, j, row) : WISP_OK;
    if (st != WISP_OK) return st;
    if (!wisp_same_image(f->image, f->to)) return resize(f, j, row);
    if (!is_bytes(&f->x) || f->pixels > f->limit) return feed_values(f, j, row);
    uint8_t *to = wisp_builder_image(&j->b, f->pixels, &j->err);
    const unsigned char *from = f->x.p + row * f->pixels;
    if (!to) return WISP_ENOMEM;
    if (f->last)
        for (size_t i = 0; i < f->pixels; i++) to[i] = from[place(f, i)];
    else memcpy(to, from, f->pixels);
    return wisp_builder_end_row(&j->b, &j->err);
}

static size_t cut(const void *arg, size_t first)
{
    const struct arrays *f = arg;
    return wisp_feed_images_cut(f->n_rows - first, wisp_image_pixels(f->to));
}

/* Once both arrays are there. */
static wisp_status feed(struct arrays *f, struct wisp_source *src, struct wisp_sink *sink,
                        wisp_error *err)
{
    wisp_status st = check_images(f, err);
    if (st == WISP_OK && f->y.p) st = check_labels(f, err);
    if (st != WISP_OK) return st;
    f->to = wisp_feed_size(src, f->image);
    f->limit = wisp_feed_images(src, sink, f->to);
    if (src->source_bytes) *src->source_bytes = f->map[0].bytes + f->map[1].bytes;
    const struct wisp_feed rows = { .n_rows = f->n_rows,
                                    .cut = cut,
                                    .row = feed_row,
                                    .arg = f,
                                    .map = f->x.owned ? NULL : &f->map[0],
                                    .p = f->x.p,
                                    .row_bytes = f->pixels * f->x.item };
    const struct wisp_read_options *o = src->o;
    f->room = wisp_most(wisp_ids_free, wisp_most(o->n_labels, o->old_labels));
    f->known = o->n_labels > 0;
    f->below = o->named & WISP_NAMED_LABELS;
    if (f->y.p) st = wisp_feed_open_labels(&f->ids, src, sink, &rows, number_of, are_far(f), err);
    return st == WISP_OK ? wisp_feed_all(&rows, src, sink, err) : st;
}

static wisp_status finish(struct arrays *f, wisp_status st, wisp_error *err)
{
    for (int i = 0; i < 2; i++) st = wisp_map_blame(&f->map[i], st, err);
    clear(f);
    return st;
}

/* ---- archives ---- */

static bool ends_npy(const struct wisp_zip_entry *e)
{
    return e->name_bytes > 4 && memcmp(e->name + e->name_bytes - 4, ".npy", 4) == 0;
}

static bool is_named(const struct wisp_zip_entry *e, const char *name)
{
    return e->name_bytes == strlen(name) && memcmp(e->name, name, e->name_bytes) == 0;
}

static void name_of(char out[64], const struct wisp_zip_entry *e)
{
    snprintf(out, 64, "%.*s", (int)(e->name_bytes < 60 ? e->name_bytes - 4 : 55), e->name);
}

/* The one array that is such; NULL: there is none. */
static wisp_status find_one(const struct wisp_zip_entry **out, struct arrays *f, int which,
                            bool (*is)(const struct wisp_npy *a), const char *what, wisp_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < f->zip.n; i++) {
        const struct wisp_zip_entry *e = &f->zip.entries[i];
        char name[64];
        wisp_error why = { 0 };
        if (!ends_npy(e)) continue;
        name_of(name, e);
        struct wisp_npy a = { .path = f->zip.path, .name = name };
        wisp_status st = wisp_npy_peek_entry(&a, &f->zip, e, &why);
        if (st == WISP_ENOMEM) return wisp_fail_as(err, st, &why);
        if (st != WISP_OK && !f->odd.code) f->odd = why;
        if (st != WISP_OK || !is(&a)) continue; /* it says nothing to us */
        if (*out)
            return wisp_fail_at(err, WISP_EFORMAT, f->zip.path, 0,
                                "several arrays of %s, '%.*s' and '%.*s'; expected one: save the "
                                "arrays that belong together in a file of their own",
                                what, (int)(*out)->name_bytes, (*out)->name, (int)e->name_bytes,
                                e->name);
        *out = e;
        name_of(f->names[which], e);
    }
    return WISP_OK;
}

static wisp_status load(struct wisp_npy *a, const struct arrays *f, const struct wisp_zip_entry *e,
                        const char *name, wisp_error *err)
{
    const unsigned char *p;
    *a = (struct wisp_npy){ .path = f->zip.path, .name = name };
    wisp_status st = wisp_zip_read(&p, &a->owned, &f->zip, e, err);
    return st == WISP_OK ? wisp_npy_parse(a, p, e->bytes, e->bytes, err) : st;
}

static wisp_status read_archive(bool *images, struct arrays *f, struct wisp_source *src,
                                struct wisp_sink *sink, wisp_error *err)
{
    const struct wisp_zip_entry *x = NULL, *y = NULL;
    wisp_status st = wisp_zip_init(&f->zip, f->map[0].p, f->map[0].bytes, src->path, err);
    for (size_t i = 0; st == WISP_OK && i < f->zip.n; i++) /* scipy's, whole or not */
        if (is_named(&f->zip.entries[i], "indptr.npy") ||
            is_named(&f->zip.entries[i], "indices.npy") ||
            is_named(&f->zip.entries[i], "format.npy"))
            return WISP_OK;
    if (st == WISP_OK) st = find_one(&x, f, 0, are_images, "images", err);
    if (st == WISP_OK && !x && f->odd.code) return wisp_fail_as(err, f->odd.code, &f->odd);
    if (st != WISP_OK || !x) return st;
    *images = true;
    st = find_one(&y, f, 1, are_labels, "labels", err);
    if (st == WISP_OK) st = load(&f->x, f, x, f->names[0], err);
    if (st == WISP_OK && y) st = load(&f->y, f, y, f->names[1], err);
    if (st == WISP_OK && !y)
        wisp_say(src->ctx, "%s: no labels: no array of (n) numbers%s%s", src->path,
                 f->odd.code ? "; one cannot be read: " : "",
                 f->odd.code ? f->odd.text + f->odd.place_bytes : "");
    return st == WISP_OK ? feed(f, src, sink, err) : st;
}

wisp_status wisp_arrays_npz(bool *images, struct wisp_source *src, struct wisp_sink *sink,
                            wisp_error *err)
{
    struct arrays f = { 0 };
    *images = false;
    wisp_status st = wisp_map_open(&f.map[0], src->path, err);
    if (st == WISP_OK) st = read_archive(images, &f, src, sink, err);
    return finish(&f, st, err);
}

/* ---- single arrays ---- */

static char *labels_path(const char *path)
{
    size_t n = strlen(path);
    char *y = wisp_alloc(n + 7, 1);
    if (!y) return NULL;
    if (n >= 4 && !strcmp(path + n - 4, ".npy")) n -= 4;
    memcpy(y, path, n);
    memcpy(y + n, ".y.npy", 7);
    return y;
}

static wisp_status open_array(struct wisp_npy *a, struct wisp_map *map, const char *path,
                              const char *name, wisp_error *err)
{
    *a = (struct wisp_npy){ .path = path, .name = name };
    wisp_status st = wisp_map_open(map, path, err);
    return st == WISP_OK ? wisp_npy_parse(a, map->p, map->bytes, map->bytes, err) : st;
}

static wisp_status npy_read(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    struct arrays f = { 0 };
    struct stat info;
    if (src->text)
        return wisp_fail_at(err, WISP_ENOTSUP, src->path, 0, "npy arrays are read from files only");
    char *y_path = labels_path(src->path);
    if (!y_path) return wisp_fail_mem(err, strlen(src->path) + 7, "a path");
    wisp_status st = open_array(&f.x, &f.map[0], src->path, "images", err);
    if (st == WISP_OK && stat(y_path, &info) != 0 && errno == ENOENT)
        wisp_say(src->ctx, "%s: no labels: there is no %s beside it", src->path, y_path);
    else if (st == WISP_OK) st = open_array(&f.y, &f.map[1], y_path, "labels", err);
    if (st == WISP_OK) st = feed(&f, src, sink, err);
    st = finish(&f, st, err);
    wisp_free(y_path);
    return st;
}

static bool npy_probe(const char *path, const char *head, size_t n)
{
    (void)path;
    return n >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

const struct wisp_format wisp_format_npy = {
    .name = "npy",
    .what = "arrays of images of numpy.save: NAME.npy, with the labels in NAME.y.npy",
    .index_base = -1,
    .raw = true,
    .binary = true,
    .probe = npy_probe,
    .read = npy_read,
    .beside = labels_path,
};
