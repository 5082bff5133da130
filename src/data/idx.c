/* Images as idx files have them (MNIST): a row is an image, its features are pixels.
 *
 * Pixel ids run along the rows of the image; the bytes stay as they are (data.h), unless a model
 * knows fewer features: then rows are lists of those it knows.  Labels come from the file beside
 * it, whose name has "labels" for "images" and "idx1" for "idx3":
 *
 *     train-images-idx3-ubyte   train-labels-idx1-ubyte
 *
 * Both may be packed (.gz, .zst): they are then unpacked whole.  Blocks of rows are built in
 * parallel and handed to the sink in order.  Not written. */
#include "base/idx.h"
#include "base/mem.h"
#include "data/feed.h"
#include "data/unpack.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* ---- files ---- */

struct part { /* one of the two files */
    struct wisp_map map;
    char *unpacked; /* NULL: it was plain */
    struct wisp_idx x;
};

static void part_clear(struct part *p)
{
    wisp_free(p->unpacked);
    wisp_map_close(&p->map);
}

/* The head says how much there should be: room for that, and for one byte to tell that there is
 * more.  Without a head that is one, the first bytes are enough to say so. */
static wisp_status unpack(struct part *p, size_t *n, struct wisp_unpack *u, const char *path,
                          wisp_error *err)
{
    enum { FIRST = 1 << 16 };
    p->unpacked = wisp_alloc(FIRST, 1);
    if (!p->unpacked) return wisp_fail_mem(err, FIRST, "images");
    *n = wisp_unpack(u, p->unpacked, FIRST);
    const size_t want = wisp_idx_bytes((unsigned char *)p->unpacked, *n);
    if (*n == FIRST && want >= FIRST) {
        const size_t room = want == SIZE_MAX ? want : want + 1;
        char *to = wisp_mem_fits(room) ? wisp_realloc(p->unpacked, FIRST, room, 1) : NULL;
        if (!to) return wisp_fail_mem(err, room, "images");
        p->unpacked = to;
        *n += wisp_unpack(u, to + FIRST, room - FIRST);
    }
    return u->code == WISP_OK ? WISP_OK : wisp_fail_at(err, u->code, path, 0, "%s", u->fault);
}

static wisp_status part_parse(struct part *p, const unsigned char *bytes, size_t n,
                              const char *path, int n_dims, wisp_error *err)
{
    struct wisp_unpack u;
    wisp_status st = wisp_unpack_init(&u, bytes, n, err);
    if (st == WISP_OK && u.kind != WISP_PLAIN) {
        st = unpack(p, &n, &u, path, err);
        bytes = (unsigned char *)p->unpacked;
    }
    wisp_unpack_clear(&u);
    return st == WISP_OK ? wisp_idx_parse(&p->x, bytes, n, path, n_dims, err) : st;
}

static wisp_status part_open(struct part *p, const char *path, int n_dims, wisp_error *err)
{
    wisp_status st = wisp_map_open(&p->map, path, err);
    return st == WISP_OK ? part_parse(p, p->map.p, p->map.bytes, path, n_dims, err) : st;
}

/* The last 'old' in name, if there is one, becomes 'new', which is as long. */
static void replace(char *name, const char *old, const char *new)
{
    char *at = NULL;
    for (char *p = name; (p = strstr(p, old)); p++) at = p;
    if (at) memcpy(at, new, strlen(new));
}

static char *name_in(const char *path)
{
    char *slash = strrchr(path, '/');
    return slash ? slash + 1 : (char *)path;
}

static bool names_images(const char *path)
{
    return strstr(name_in(path), "images") != NULL;
}

static char *labels_path(const char *path)
{
    char *y = names_images(path) ? wisp_strdup(path) : NULL;
    if (!y) return NULL;
    replace(name_in(y), "images", "labels");
    replace(name_in(y), "idx3", "idx1");
    return y;
}

/* ---- rows ---- */

struct feed {
    struct part images, labels;  /* labels.x.data NULL: there are none */
    struct wisp_image image, to; /* as they are, and what they become */
    size_t limit;                /* features from there on are dropped */
    struct wisp_ids ids;         /* of labels, where they go with names */
};

static wisp_status number_of(int64_t *label, const void *arg, size_t row, wisp_error *err)
{
    (void)err;
    *label = ((const struct feed *)arg)->labels.x.data[row];
    return WISP_OK;
}

static wisp_status feed_row(const void *arg, struct wisp_feed_job *j, size_t row)
{
    const struct feed *f = arg;
    const uint8_t *y = f->labels.x.data;
    wisp_status st = y ? wisp_feed_label(j, &f->ids, y[row]) : WISP_OK;
    if (st != WISP_OK) return st;
    return wisp_feed_image(j, f->images.x.data + row * wisp_image_pixels(f->image), f->image, f->to,
                           f->limit);
}

static size_t cut(const void *arg, size_t first)
{
    const struct feed *f = arg;
    return wisp_feed_images_cut(f->images.x.size[0] - first, wisp_image_pixels(f->to));
}

static wisp_status open_labels(struct feed *f, const struct wisp_source *src, const char *path,
                               wisp_error *err)
{
    struct stat info;
    if (!path) {
        wisp_say(src->ctx, "%s: no labels: its name has no 'images' to find them by", src->path);
        return WISP_OK;
    }
    if (stat(path, &info) != 0 && errno == ENOENT) {
        wisp_say(src->ctx, "%s: no labels: there is no %s beside it", src->path, path);
        return WISP_OK;
    }
    wisp_status st = part_open(&f->labels, path, 1, err);
    if (st == WISP_OK && f->labels.x.size[0] != f->images.x.size[0])
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0,
                          "%u labels, but %s has %u images; expected one for each",
                          f->labels.x.size[0], src->path, f->images.x.size[0]);
    return st;
}

static wisp_status open_images(struct feed *f, const struct wisp_source *src, wisp_error *err)
{
    wisp_status st = src->text ? part_parse(&f->images, (const unsigned char *)src->text,
                                            src->text_bytes, src->path, 3, err)
                               : part_open(&f->images, src->path, 3, err);
    if (st != WISP_OK) return st;
    const uint32_t *size = f->images.x.size;
    const size_t pixels = (size_t)size[1] * size[2];
    f->image = (struct wisp_image){ 1, size[1], size[2] };
    f->to = wisp_feed_size(src, f->image);
    if (size[0] == 0 || pixels == 0 || pixels > INT32_MAX)
        return wisp_fail_at(err, WISP_EFORMAT, src->path, 0,
                            "%u images of %u x %u pixels; expected at least one, of 1 to "
                            "2147483647 pixels",
                            size[0], size[1], size[2]);
    return WISP_OK;
}

static wisp_status idx_read(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    struct feed f = { 0 };
    char *y_path = src->text ? NULL : labels_path(src->path);
    if (!y_path && !src->text && names_images(src->path))
        return wisp_fail_mem(err, strlen(src->path), "a path");
    wisp_status st = open_images(&f, src, err);
    if (st == WISP_OK && !src->text) st = open_labels(&f, src, y_path, err);
    if (st == WISP_OK) {
        f.limit = wisp_feed_images(src, sink, f.to);
        if (src->source_bytes) *src->source_bytes = f.images.map.bytes + f.labels.map.bytes;
        const struct wisp_feed rows = { .n_rows = f.images.x.size[0],
                                        .cut = cut,
                                        .row = feed_row,
                                        .arg = &f,
                                        .map = f.images.unpacked ? NULL : &f.images.map,
                                        .p = f.images.x.data,
                                        .row_bytes = wisp_image_pixels(f.image) };
        if (f.labels.x.data)
            st = wisp_feed_open_labels(&f.ids, src, sink, &rows, number_of, false, err);
        if (st == WISP_OK) st = wisp_feed_all(&rows, src, sink, err);
    }
    st = wisp_map_end(&f.images.map, st, err);
    st = wisp_map_end(&f.labels.map, st, err);
    part_clear(&f.images);
    part_clear(&f.labels);
    wisp_ids_clear(&f.ids);
    wisp_free(y_path);
    return st;
}

static bool idx_probe(const char *path, const char *head, size_t n)
{
    (void)path;
    return n >= 4 && memcmp(head, "\0\0\10\3", 4) == 0;
}

const struct wisp_format wisp_format_idx = {
    .name = "idx",
    .what = "images as bytes (MNIST): NAME-images-idx3-ubyte, with the labels in "
            "NAME-labels-idx1-ubyte",
    .index_base = -1,
    .raw = true,
    .binary = true,
    .probe = idx_probe,
    .read = idx_read,
    .beside = labels_path,
};
