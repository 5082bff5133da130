/* Pictures in folders: FOLDER/CLASS/NAME.jpg, .jpeg or .png; the names of the folders are the names
 * of the labels, in the order of their letters.  A folder without folders, and a single file, are
 * pictures without labels.
 *
 * Pictures of one size keep it.  Of several sizes, each is resized so that it covers a square, whose
 * side is the median of the shorter sides, at most 224, and its middle is taken; for a net that says
 * a size, or a model, all become that.  Grey ones among colours are colours, too.
 *
 * What begins with a dot, and files of other endings, are left out.  Not written. */
#include "base/mem.h"
#include "base/open.h"
#include "data/decode.h"
#include "data/feed.h"
#include "data/ids.h"
#include "data/image.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

enum {
    SQUARE = 224,
    DECODING =
        1 /* one more when the same files become other pixels, so that caches are made anew */
};

struct file {
    char *path;
    int32_t label; /* place in 'classes'; -1: none */
    uint32_t height, width, channels;
    wisp_error err;
};

struct folder {
    struct file *files;
    size_t n, cap;
    char **classes; /* their names, ascending */
    size_t n_classes, cap_classes;
    size_t n_other, n_empty; /* files that are no pictures; classes without one */
    size_t n_deep;           /* classes whose pictures all lie in folders within */
    struct wisp_ids ids;
    int64_t *id;    /* (n_classes) -1: unknown */
    size_t unknown; /* what stands for that: an id that cannot be predicted */
    struct wisp_image image;
};

static void clear(struct folder *f)
{
    for (size_t i = 0; i < f->n; i++) wisp_free(f->files[i].path);
    for (size_t i = 0; i < f->n_classes; i++) wisp_free(f->classes[i]);
    wisp_free(f->files);
    wisp_free(f->classes);
    wisp_free(f->id);
    wisp_ids_clear(&f->ids);
}

/* ---- what there is ---- */

static bool is_picture(const char *name)
{
    return wisp_path_ends(name, ".jpg") || wisp_path_ends(name, ".jpeg") ||
           wisp_path_ends(name, ".png");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static wisp_status full(wisp_error *err, size_t n)
{
    return wisp_fail_mem(err, n * 64, "the names of pictures");
}

/* The names in a folder, ascending, without those that begin with a dot; each, and the list, to be
 * freed. */
static wisp_status list(char ***out, size_t *n, const char *path, wisp_error *err)
{
    size_t cap = 0;
    wisp_status st = WISP_OK;
    *out = NULL;
    *n = 0;
    DIR *dir = opendir(path);
    if (!dir) return wisp_fail_errno(err, WISP_EIO, path, "cannot be opened");
    for (struct dirent *e; st == WISP_OK && (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        if (!wisp_grow(out, *n, &cap, sizeof **out) || !((*out)[*n] = wisp_strdup(e->d_name)))
            st = full(err, *n);
        else ++*n;
    }
    closedir(dir);
    if (*n) qsort(*out, *n, sizeof **out, by_name);
    return st;
}

static void free_list(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++) wisp_free(names[i]);
    wisp_free(names);
}

static char *join(const char *folder, const char *name)
{
    const size_t n = strlen(folder), room = n + strlen(name) + 2;
    char *path = wisp_alloc(room, 1);
    if (path) snprintf(path, room, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name);
    return path;
}

static wisp_status add_file(struct folder *f, char *path, int32_t label, wisp_error *err)
{
    if (!wisp_grow(&f->files, f->n, &f->cap, sizeof *f->files)) {
        wisp_free(path);
        return full(err, f->n);
    }
    f->files[f->n++] = (struct file){ .path = path, .label = label };
    return WISP_OK;
}

static wisp_status add_class(struct folder *f, const char *name, wisp_error *err)
{
    if (!wisp_grow(&f->classes, f->n_classes, &f->cap_classes, sizeof *f->classes) ||
        !(f->classes[f->n_classes] = wisp_strdup(name)))
        return full(err, f->n_classes);
    f->n_classes++;
    return WISP_OK;
}

static wisp_status walk(struct folder *f, const char *path, int32_t label, wisp_error *err);

/* A folder beside others is a class, if there are pictures in it. */
static wisp_status walk_class(struct folder *f, const char *path, const char *name, wisp_error *err)
{
    const size_t before = f->n;
    if (strchr(name, '\n'))
        return wisp_fail_at(err, WISP_EFORMAT, path, 0,
                            "a folder's name has a line end; it is the name of a label");
    wisp_status st = add_class(f, name, err);
    if (st == WISP_OK) st = walk(f, path, (int32_t)f->n_classes - 1, err);
    bool deep = true;
    for (size_t i = before; i < f->n; i++)
        deep &= strchr(f->files[i].path + strlen(path) + 1, '/') != NULL;
    if (st == WISP_OK && f->n > before) f->n_deep += deep;
    if (st != WISP_OK || f->n > before) return st;
    wisp_free(f->classes[--f->n_classes]);
    f->n_empty++;
    return WISP_OK;
}

static bool is_link(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

/* Pictures of a folder and of those within it; where 'label' is -1, these are classes.  Within a class
 * links to folders are not followed: they may lead back. */
static wisp_status walk(struct folder *f, const char *path, int32_t label, wisp_error *err)
{
    char **names;
    size_t n;
    struct stat info;
    wisp_status st = list(&names, &n, path, err);
    for (size_t i = 0; i < n && st == WISP_OK; i++) {
        char *inside = join(path, names[i]);
        if (!inside) {
            st = full(err, f->n);
        } else if (stat(inside, &info) != 0) {
            st = wisp_fail_errno(err, WISP_EIO, inside, "cannot be read");
        } else if (S_ISDIR(info.st_mode) && (label < 0 || !is_link(inside))) {
            st = label < 0 ? walk_class(f, inside, names[i], err) : walk(f, inside, label, err);
        } else if (S_ISREG(info.st_mode) && is_picture(names[i])) {
            st = add_file(f, inside, label, err);
            inside = NULL;
        } else {
            f->n_other++;
        }
        wisp_free(inside);
    }
    free_list(names, n);
    return st;
}

static wisp_status find_files(struct folder *f, const char *path, wisp_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0) return wisp_fail_errno(err, WISP_EIO, path, "cannot be read");
    if (!S_ISDIR(info.st_mode)) {
        char *copy = wisp_strdup(path);
        return copy ? add_file(f, copy, -1, err) : full(err, 1);
    }
    wisp_status st = walk(f, path, -1, err);
    if (st != WISP_OK) return st;
    if (f->n == 0)
        return wisp_fail_at(err, WISP_EFORMAT, path, 0,
                            "no pictures: expected folders, one for each label, of .jpg, .jpeg or "
                            ".png files");
    for (size_t i = 0; i < f->n && f->n_classes; i++)
        if (f->files[i].label < 0)
            return wisp_fail_at(err, WISP_EFORMAT, f->files[i].path, 0,
                                "a picture beside folders of pictures has no label; move it into "
                                "one of them");
    return WISP_OK;
}

/* Names, sizes and times of all pictures: what a cache depends on, as it does on what we make of
 * them. */
static wisp_status identify(struct wisp_file_id *out, const char *path, wisp_error *err)
{
    struct folder f = { 0 };
    struct wisp_file_id one;
    wisp_status st = find_files(&f, path, err);
    *out = (struct wisp_file_id){ .mtime_ns = DECODING };
    for (size_t i = 0; i < f.n && st == WISP_OK; i++) {
        st = wisp_file_identify(&one, f.files[i].path, err);
        if (st != WISP_OK) break;
        out->bytes += one.bytes;
        out->mtime_ns = XXH3_64bits_withSeed(&one, sizeof one, out->mtime_ns);
        out->mtime_ns =
            XXH3_64bits_withSeed(f.files[i].path, strlen(f.files[i].path), out->mtime_ns);
    }
    clear(&f);
    return st;
}

/* ---- sizes ---- */

static void peek(void *arg, size_t i, int thread)
{
    (void)thread;
    struct file *file = &((struct folder *)arg)->files[i];
    struct wisp_map map;
    struct wisp_picture p;
    wisp_status st = wisp_map_open(&map, file->path, &file->err);
    if (st == WISP_OK) {
        st = wisp_picture_peek(&p, map.p, map.bytes, file->path, &file->err);
        st = wisp_map_end(&map, st, &file->err);
    }
    file->err.code = st;
    if (st != WISP_OK) return;
    file->height = p.height, file->width = p.width, file->channels = p.channels;
}

static int by_size(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static wisp_status median_side(uint32_t *side, const struct folder *f, wisp_error *err)
{
    uint32_t *sides = wisp_alloc(f->n, sizeof *sides);
    if (!sides) return full(err, f->n);
    for (size_t i = 0; i < f->n; i++)
        sides[i] = f->files[i].height < f->files[i].width ? f->files[i].height : f->files[i].width;
    qsort(sides, f->n, sizeof *sides, by_size);
    *side = sides[f->n / 2] < SQUARE ? sides[f->n / 2] : SQUARE;
    wisp_free(sides);
    return WISP_OK;
}

/* One size for all. */
static wisp_status find_size(struct folder *f, const struct wisp_source *src, wisp_error *err)
{
    bool equal = true;
    f->image = src->o->image;
    if (f->image.channels) return WISP_OK; /* files are looked at when they are read */
    wisp_parallel_for(src->ctx ? src->ctx->pool : NULL, f->n, peek, f);
    for (size_t i = 0; i < f->n; i++) {
        const struct file *file = &f->files[i];
        if (file->err.code != WISP_OK) return wisp_fail_as(err, file->err.code, &file->err);
        equal &= file->height == f->files[0].height && file->width == f->files[0].width;
        if (file->channels > f->image.channels) f->image.channels = file->channels;
    }
    if (f->image.height) return WISP_OK;
    f->image.height = f->files[0].height, f->image.width = f->files[0].width;
    if (equal) return WISP_OK;
    wisp_status st = median_side(&f->image.height, f, err);
    f->image.width = f->image.height;
    if (st == WISP_OK)
        wisp_say(src->ctx,
                 "%s: pictures of several sizes: the middle of each becomes %u x %u (a net that "
                 "begins with 'image size=HxW' chooses another size)",
                 src->path, f->image.height, f->image.width);
    return st;
}

/* ---- rows ---- */

static wisp_status feed_label(const struct folder *f, struct wisp_feed_job *j, int32_t label)
{
    const int64_t id = f->id[label];
    j->n_dropped_labels += id < 0;
    return wisp_builder_label(&j->b, (int32_t)(id < 0 ? (int64_t)f->unknown : id), &j->err);
}

static wisp_status feed_row(const void *arg, struct wisp_feed_job *j, size_t row)
{
    const struct folder *f = arg;
    const struct file *file = &f->files[row];
    struct wisp_map map = { 0 };
    struct wisp_picture p = { 0 };
    wisp_status st = file->label >= 0 ? feed_label(f, j, file->label) : WISP_OK;
    if (st == WISP_OK) st = wisp_map_open(&map, file->path, &j->err);
    if (st == WISP_OK) st = wisp_picture_decode(&p, map.p, map.bytes, file->path, &j->err);
    st = wisp_map_end(&map, st, &j->err);
    uint8_t *to = NULL;
    if (st == WISP_OK && !(to = wisp_builder_image(&j->b, wisp_image_pixels(f->image), &j->err)))
        st = WISP_ENOMEM;
    if (st == WISP_OK)
        st = wisp_picture_fit(to, &p, f->image.channels, f->image.height, f->image.width, &j->err);
    wisp_picture_clear(&p);
    return st == WISP_OK ? wisp_builder_end_row(&j->b, &j->err) : st;
}

static size_t cut(const void *arg, size_t first)
{
    const struct folder *f = arg;
    return wisp_feed_images_cut(f->n - first, wisp_image_pixels(f->image));
}

/* Labels that are to go with others which have numbers alone: folders must be called so. */
static wisp_status ids_of_numbers(struct folder *f, const struct wisp_source *src, wisp_error *err)
{
    const struct wisp_read_options *o = src->o;
    const size_t room = wisp_most(wisp_ids_free, wisp_most(o->n_labels, o->old_labels));
    f->unknown = room;
    for (size_t i = 0; i < f->n_classes; i++) {
        const char *name = f->classes[i];
        const int64_t id = wisp_name_number(name, strlen(name));
        const bool fits = id >= 0 && (size_t)id < room;
        f->id[i] = fits ? id : -1;
        if (fits) continue;
        if (o->grow)
            return wisp_fail_at(err, WISP_EFORMAT, src->path, 0,
                                "the folder '%.80s', but the labels that these go with have "
                                "numbers and no names; expected folders called by numbers from 0, "
                                "below %zu",
                                name, room);
        if (id < 0)
            wisp_say(src->ctx,
                     "%s: the label '%.80s' is unknown: the labels that these go with have numbers "
                     "and no names",
                     src->path, name);
    }
    return WISP_OK;
}

/* Labels by the names of the folders: a model's, or in the order of their letters. */
static wisp_status ids_of_names(struct folder *f, struct wisp_source *src, struct wisp_sink *sink,
                                wisp_error *err)
{
    struct wisp_names names = { 0 };
    wisp_status st = wisp_ids_init(&f->ids, src->o, WISP_NAMED_LABELS, err);
    for (size_t i = 0; i < f->n_classes && f->ids.open && st == WISP_OK; i++) {
        struct wisp_dict_entry *e;
        const size_t n = strlen(f->classes[i]);
        st = wisp_dict_add(&e, &f->ids.dict, f->classes[i], n, wisp_dict_hash(f->classes[i], n),
                           err);
    }
    f->ids.words = true; /* in this order, whatever they are */
    if (st == WISP_OK && f->ids.open) st = wisp_ids_number(&f->ids, &names, err);
    if (st == WISP_OK) wisp_sink_names(sink, &names, NULL);
    if (st == WISP_OK) wisp_sink_at_least(sink, 0, f->ids.n);
    wisp_names_clear(&names);
    for (size_t i = 0; i < f->n_classes && st == WISP_OK; i++)
        f->id[i] = wisp_ids_find(&f->ids, f->classes[i], strlen(f->classes[i]));
    f->unknown = f->ids.n;
    src->named |= WISP_NAMED_LABELS;
    return st;
}

static wisp_status number_classes(struct folder *f, struct wisp_source *src, struct wisp_sink *sink,
                                  wisp_error *err)
{
    const struct wisp_read_options *o = src->o;
    const bool others = o->n_labels || o->grow, named = o->named & WISP_NAMED_LABELS;
    f->id = wisp_alloc(f->n_classes, sizeof *f->id);
    if (!f->id) return full(err, f->n_classes);
    return others && o->decided & WISP_NAMED_LABELS && !named ? ids_of_numbers(f, src, err)
                                                              : ids_of_names(f, src, sink, err);
}

static wisp_status check_features(const struct folder *f, const struct wisp_source *src,
                                  wisp_error *err)
{
    char text[WISP_IMAGE_TEXT];
    const size_t n = wisp_image_pixels(f->image), known = src->o->n_features;
    if (n > INT32_MAX)
        return wisp_fail_at(err, WISP_EFORMAT, src->path, 0,
                            "pictures of %s (channels x height x width); expected up to 2147483647 "
                            "pixels",
                            wisp_image_text(text, f->image));
    if (src->o->image.channels || !known || n == known) return WISP_OK;
    return wisp_fail_at(err, WISP_EFORMAT, src->path, 0,
                        "pictures of %s (channels x height x width), but the model knows %zu "
                        "features and not how they lie; train one that begins with 'image'",
                        wisp_image_text(text, f->image), known);
}

static wisp_status images_read(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    struct folder f = { 0 };
    if (src->text)
        return wisp_fail_at(err, WISP_ENOTSUP, src->path, 0, "pictures are read from files only");
    wisp_status st = find_files(&f, src->path, err);
    if (st == WISP_OK) st = find_size(&f, src, err);
    if (st == WISP_OK) st = check_features(&f, src, err);
    if (st == WISP_OK && f.n_classes) st = number_classes(&f, src, sink, err);
    if (st == WISP_OK) {
        if (f.n_other)
            wisp_say(src->ctx, "%s: %zu files that are no .jpg, .jpeg or .png were left out",
                     src->path, f.n_other);
        if (f.n_classes && f.n_deep == f.n_classes)
            wisp_say(src->ctx,
                     "%s: all pictures lie in folders within '%.80s' and its like, which are the "
                     "labels; if the inner folders are, name one of the outer ones: %s/%.80s",
                     src->path, f.classes[0], src->path, f.classes[0]);
        if (f.n_empty)
            wisp_say(src->ctx, "%s: %zu folder%s without pictures %s left out: no label%s",
                     src->path, f.n_empty, wisp_plural(f.n_empty), f.n_empty > 1 ? "were" : "was",
                     wisp_plural(f.n_empty));
        wisp_feed_images(src, sink, f.image);
        const struct wisp_feed rows = { .n_rows = f.n, .cut = cut, .row = feed_row, .arg = &f };
        st = wisp_feed_all(&rows, src, sink, err);
    }
    struct wisp_file_id id;
    if (st == WISP_OK && src->source_bytes && identify(&id, src->path, NULL) == WISP_OK)
        *src->source_bytes = id.bytes;
    clear(&f);
    return st;
}

static bool images_probe(const char *path, const char *head, size_t n)
{
    (void)path;
    return wisp_picture_probe((const unsigned char *)head, n);
}

const struct wisp_format wisp_format_images = {
    .name = "images",
    .what = "a folder of JPEG or PNG files in one folder for each label, or a single such file",
    .index_base = -1,
    .raw = true,
    .binary = true,
    .classes = true,
    .sized = true,
    .probe = images_probe,
    .read = images_read,
    .identify = identify,
};
