/* CIFAR's binary records: one image of 3 x 32 x 32 bytes after its label, and nothing else.
 *
 *     CIFAR-10     label | 1024 red | 1024 green | 1024 blue
 *     CIFAR-100    coarse label | label | red, green, blue        the coarse one of 20 is not used
 *
 * There is no head: a file is known by its length and by the bytes where labels must be.  Files of
 * one set (data_batch_1.bin, ...) can be joined with cat.  Plain files only.  Not written. */
#include "base/mem.h"
#include "data/feed.h"

#include <string.h>
#include <sys/stat.h>

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE };
static const struct wisp_image images = { 3, SIDE, SIDE };

static const struct kind {
    size_t labels;   /* bytes before the pixels; the last is the label */
    uint8_t most[2]; /* what they are below */
} kinds[] = { { 1, { 10 } }, { 2, { 20, 100 } } };
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static size_t record(const struct kind *k)
{
    return k->labels + PIXELS;
}

/* The first record of 'bytes' whose labels are too large; how many there are: none. */
static size_t first_wrong(const struct kind *k, const unsigned char *p, size_t bytes)
{
    const size_t n = bytes / record(k);
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < k->labels; b++)
            if (p[i * record(k) + b] >= k->most[b]) return i;
    return n;
}

/* Which of the two it is: the length decides, and where both fit, the labels. */
static wisp_status find_kind(const struct kind **out, const unsigned char *p, size_t bytes,
                             const char *path, wisp_error *err)
{
    const struct kind *fits = NULL;
    for (size_t i = 0; i < N_KINDS; i++) {
        if (bytes == 0 || bytes % record(&kinds[i])) continue;
        *out = fits = &kinds[i];
        if (first_wrong(fits, p, bytes) == bytes / record(fits)) return WISP_OK;
    }
    if (!fits)
        return wisp_fail_at(err, WISP_EFORMAT, path, 0,
                            "%zu bytes; expected records of 3073 (CIFAR-10) or 3074 (CIFAR-100) "
                            "bytes: cut off, packed, or no CIFAR file",
                            bytes);
    const size_t at = first_wrong(fits, p, bytes), b = fits->labels - 1;
    const unsigned char *y = p + at * record(fits);
    if (b && y[0] >= fits->most[0])
        return wisp_fail_at(err, WISP_EFORMAT, path, 0,
                            "record %zu has the coarse label %d; expected 0 to %d", at, y[0],
                            fits->most[0] - 1);
    return wisp_fail_at(err, WISP_EFORMAT, path, 0, "record %zu has the label %d; expected 0 to %d",
                        at, y[b], fits->most[b] - 1);
}

struct feed {
    const struct kind *kind;
    const unsigned char *p;
    size_t n_rows, limit;
    struct wisp_image to; /* what images become */
    struct wisp_ids ids;  /* of labels, where they go with names */
};

static int64_t label_of(const struct feed *f, size_t row)
{
    return f->p[row * record(f->kind) + f->kind->labels - 1];
}

static wisp_status number_of(int64_t *label, const void *arg, size_t row, wisp_error *err)
{
    (void)err;
    *label = label_of(arg, row);
    return WISP_OK;
}

static wisp_status feed_row(const void *arg, struct wisp_feed_job *j, size_t row)
{
    const struct feed *f = arg;
    const unsigned char *p = f->p + row * record(f->kind) + f->kind->labels;
    wisp_status st = wisp_feed_label(j, &f->ids, label_of(f, row));
    return st == WISP_OK ? wisp_feed_image(j, p, images, f->to, f->limit) : st;
}

static size_t cut(const void *arg, size_t first)
{
    const struct feed *f = arg;
    return wisp_feed_images_cut(f->n_rows - first, wisp_image_pixels(f->to));
}

static wisp_status cifar_read(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    struct wisp_map map = { 0 };
    struct feed f = { .p = (const unsigned char *)src->text };
    size_t bytes = src->text_bytes;
    wisp_status st = src->text ? WISP_OK : wisp_map_open(&map, src->path, err);
    if (st == WISP_OK && !src->text) f.p = map.p, bytes = map.bytes;
    if (st == WISP_OK) st = find_kind(&f.kind, f.p, bytes, src->path, err);
    if (st == WISP_OK) {
        f.n_rows = bytes / record(f.kind);
        f.to = wisp_feed_size(src, images);
        f.limit = wisp_feed_images(src, sink, f.to);
        if (src->source_bytes) *src->source_bytes = bytes;
        const struct wisp_feed rows = { f.n_rows, cut, feed_row, &f, &map, f.p, record(f.kind) };
        st = wisp_feed_open_labels(&f.ids, src, sink, &rows, number_of, false, err);
        if (!f.ids.named) wisp_sink_at_least(sink, 0, f.kind->most[f.kind->labels - 1]);
        if (st == WISP_OK) st = wisp_feed_all(&rows, src, sink, err);
    }
    wisp_ids_clear(&f.ids);
    return wisp_map_end(&map, st, err);
}

/* Text never has bytes below 9, where pixels nearly always do. */
static bool cifar_probe(const char *path, const char *head, size_t n)
{
    struct stat info;
    bool dark = false;
    for (size_t i = 0; i < n && !dark; i++) dark = (unsigned char)head[i] < 9;
    if (!dark || stat(path, &info) != 0 || info.st_size <= 0) return false;
    for (size_t i = 0; i < N_KINDS; i++) {
        const size_t whole = n / record(&kinds[i]) * record(&kinds[i]);
        if ((size_t)info.st_size % record(&kinds[i]) == 0 && whole > 0 &&
            first_wrong(&kinds[i], (const unsigned char *)head, whole) == whole / record(&kinds[i]))
            return true;
    }
    return false;
}

const struct wisp_format wisp_format_cifar = {
    .name = "cifar",
    .what = "images of 3 x 32 x 32 bytes, each after its label (CIFAR-10, CIFAR-100, binary)",
    .index_base = -1,
    .raw = true,
    .binary = true,
    .probe = cifar_probe,
    .read = cifar_read,
};
