/* wisp_data_read: find the format, use the cache if it still fits, else read the source into one.
 *
 * A small source has no cache.  Places for the cache, in order: SOURCE.wispcache beside the source;
 * FOLDER/BASENAME-HASH.wispcache, HASH of the absolute path; and where none can be written, memory.
 * Words read with a model's names are other rows for each model: there the hash of the options
 * goes before the ending, so that training and models do not overwrite each other's. */
#include "base/mem.h"
#include "base/text.h"
#include "data/cache.h"
#include "data/ids.h"
#include "data/image.h"
#include "data/spool.h"
#include "data/text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { N_PLACES = 2 };
size_t wisp_cache_min = (size_t)1 << 20;

struct job {
    struct wisp_context *ctx;
    const char *path;
    struct wisp_read_options *o; /* the caller's, with what the format brings along */
    const struct wisp_format *format;
    const char *text; /* instead of a file, or NULL */
    size_t text_bytes;
    const struct wisp_memory_rows *rows; /* instead of both, or NULL */
    bool spooled;                        /* the text came as a stream */
    struct wisp_cache_key key;
    char places[N_PLACES][PATH_MAX + 300]; /* "": no such place */
};

static struct wisp_pool *pool(const struct job *j)
{
    return j->ctx ? j->ctx->pool : NULL;
}

/* Do the rows depend on the size that is asked for? */
static bool resizes(const struct job *j)
{
    return j->o->image.height && (j->format->sized || j->o->resize);
}

/* ---- places and key ---- */

/* Mixes in the file that is read along with the source; its absence counts, too. */
static uint64_t hash_beside(const struct job *j, uint64_t h)
{
    char *path = j->format->beside ? j->format->beside(j->path) : NULL;
    struct wisp_file_id id = { 0 };
    if (path) wisp_file_identify(&id, path, NULL);
    bool has = path != NULL;
    wisp_free(path);
    return has ? XXH3_64bits_withSeed(&id, sizeof id, h) : h;
}

/* Which ids are out of proportion. */
static uint64_t hash_known(const struct wisp_read_options *o, uint64_t h)
{
    const uint64_t known[] = { o->n_labels, o->old_labels, o->old_features };
    for (uint64_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i] > wisp_ids_free) h = XXH3_64bits_withSeed(&known[i], sizeof *known, h + i);
    return h;
}

/* All that changes the rows, apart from n_features (cache.h).  Formats of numbers know nothing of
 * words, so a model's names must not make a second cache of the same rows; nor must options that
 * say what is so anyway, or that the format does not know. */
static uint64_t hash_options(const struct job *j)
{
    const struct wisp_read_options *o = j->o;
    uint64_t h = hash_beside(j, XXH3_64bits(j->format->name, strlen(j->format->name)));
    const int numbers[2] = { wisp_index_base(j->format, o),
                             j->format == &wisp_format_xc && o->no_header };
    h = XXH3_64bits_withSeed(numbers, sizeof numbers, h);
    if (resizes(j)) h = XXH3_64bits_withSeed(&o->image, sizeof o->image, h);
    if (!j->format->words) {
        h = hash_known(o, h);
        if (o->named & WISP_NAMED_LABELS && o->labels)
            h = XXH3_64bits_withSeed(o->labels->text, o->labels->bytes, h + 1);
        if (o->named & WISP_NAMED_FEATURES && o->vocab)
            h = XXH3_64bits_withSeed(o->vocab->text, o->vocab->bytes, h + 2);
        return o->named && o->grow ? h + 3 : h;
    }
    const uint64_t words[] = { o->text.tokens,
                               o->text.pairs,
                               (uint64_t)o->text.chars_min,
                               (uint64_t)o->text.chars_max,
                               (uint64_t)o->min_count,
                               o->n_labels,
                               o->no_header || o->text.no_header };
    h = XXH3_64bits_withSeed(words, sizeof words, h);
    const char *const texts[] = { o->text.text_column, o->text.label_column,
                                  o->text.label_separator };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        h = XXH3_64bits_withSeed(texts[i], strlen(texts[i]) + 1, h);
    if (o->stop) h = XXH3_64bits_withSeed(o->stop->names->text, o->stop->names->bytes, h);
    if (o->labels) h = XXH3_64bits_withSeed(o->labels->text, o->labels->bytes, h + 1);
    if (o->vocab) h = XXH3_64bits_withSeed(o->vocab->text, o->vocab->bytes, h + 2);
    return o->grow ? h + 3 : h;
}

static void choose_places(struct job *j)
{
    char whole[PATH_MAX];
    const char *slash = strrchr(j->path, '/'), *name = slash ? slash + 1 : j->path;
    char model[20] = "";
    if (j->format->words ? j->o->vocab || j->o->labels : j->o->named || resizes(j))
        snprintf(model, sizeof model, "-%016llx", (unsigned long long)j->key.options);
    if (strlen(j->path) < PATH_MAX)
        snprintf(j->places[0], sizeof j->places[0], "%s%s.wispcache", j->path, model);
    if (!j->o->cache || !realpath(j->path, whole)) return;
    int len =
        snprintf(j->places[1], sizeof j->places[1], "%s/%.200s-%016llx%s.wispcache", j->o->cache,
                 name, (unsigned long long)XXH3_64bits(whole, strlen(whole)), model);
    if (len < 0 || (size_t)len >= sizeof j->places[1]) j->places[1][0] = 0;
}

/* Makes the folder of 'path' and its parents; failure shows when the file is created. */
static void make_folders(const char *path)
{
    char part[PATH_MAX + 300];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(part, 0777);
        *p = '/';
    }
}

/* ---- reading ---- */

static wisp_status try_cache(struct wisp_data **out, struct job *j, const char *place,
                             struct wisp_source *src, wisp_error *err)
{
    *out = NULL;
    if (!place[0] || access(place, F_OK) != 0) return WISP_OK;
    wisp_error why = { 0 };
    const struct wisp_cache_want want = { j->key, j->path, j->o->memory > 0 };
    wisp_status st = wisp_cache_open(out, pool(j), place, &want, &src->n_dropped_features,
                                     &src->n_dropped_labels, &why);
    if (st == WISP_ENOTSUP)
        wisp_say(j->ctx, "%s: stale (the source or the options changed) - reading %s again", place,
                 j->path);
    else if (st == WISP_EFORMAT)
        wisp_say(j->ctx, "%s: damaged (%s) - reading %s again", place, why.text, j->path);
    else if (st == WISP_EIO) wisp_say(j->ctx, "%.400s - reading %s again", why.text, j->path);
    if (st != WISP_ENOMEM) return WISP_OK;
    if (err) *err = why;
    return st;
}

/* Reads the source into 'place' (NULL: memory).  *no_place: the cache could not be written. */
static wisp_status read_into(struct wisp_data **out, struct job *j, const char *place,
                             struct wisp_source *src, bool *no_place, wisp_error *err)
{
    struct wisp_sink *sink;
    size_t source_bytes = 0;
    const unsigned named = src->again ? src->named : j->o->named;
    *no_place = true;
    wisp_status st = wisp_sink_create(&sink, place, err);
    if (st != WISP_OK) return st;
    *src = (struct wisp_source){ .ctx = j->ctx,
                                 .path = j->path,
                                 .o = j->o,
                                 .text = j->text,
                                 .text_bytes = j->text_bytes,
                                 .rows = j->rows,
                                 .named = named,
                                 .source_bytes = &source_bytes };
    sink->key = j->key;
    sink->stay = j->o->memory > 0;
    if (place) wisp_out_like(sink->out, j->path);
    sink->pool = pool(j);
    sink->source = j->path;
    if (!place && !j->rows && (!j->text || j->spooled))
        sink->limit = j->o->memory; /* text in memory is there already */
    /* A line for a model must not cost what the model's features do. */
    sink->uncounted = (j->text || j->rows) && j->o->n_features && !j->o->counted;
    st = j->format->read(src, sink, err);
    if (st == WISP_OK && src->again) { /* ids have to be by name */
        wisp_sink_abort(sink);
        return read_into(out, j, place, src, no_place, err);
    }
    sink->key.named = sink->d->named = src->named;
    *no_place = st == WISP_OK || sink->write_failed; /* from here on only writing gives WISP_EIO */
    sink->n_dropped_features = src->n_dropped_features;
    sink->n_dropped_labels = src->n_dropped_labels;
    sink->n_blank = src->n_blank;
    if (st == WISP_OK) st = wisp_sink_finish(out, sink, err);
    else wisp_sink_abort(sink);
    if (st == WISP_OK) (*out)->source_bytes = source_bytes;
    return st;
}

static void say_dropped(const struct job *j, const struct wisp_source *src)
{
    if (src->n_dropped_features)
        wisp_say(j->ctx, "%s: left out %zu feature value%s that the model does not know", j->path,
                 src->n_dropped_features, wisp_plural(src->n_dropped_features));
    if (src->n_dropped_labels)
        wisp_say(j->ctx, "%s: %zu label%s that the model does not know count%s%s", j->path,
                 src->n_dropped_labels, wisp_plural(src->n_dropped_labels),
                 src->n_dropped_labels > 1 ? " as misses" : "s as a miss",
                 j->format->table && !*j->o->text.label_separator
                     ? " (where cells have several labels, --label-separator parts them)"
                     : "");
}

/* Whoever looks at ids should know that they are others than the source's. */
static void say_compact(const struct job *j, const struct wisp_data *d)
{
    static const char *const what[2] = { "label", "feature" };
    for (int i = 0; i < 2; i++) {
        const unsigned side = i ? WISP_NAMED_FEATURES : WISP_NAMED_LABELS;
        const struct wisp_names *names = i ? &d->vocab : &d->labels;
        if (d->named & ~j->o->named & side && !j->format->classes &&
            wisp_names_number(names, 0) >= 0)
            wisp_say(
                j->ctx,
                "%s: %s ids are far apart: numbered anew (%zu different ones); models and text "
                "show the old ones",
                j->path, what[i], names->n);
    }
}

static wisp_status read_cached(struct wisp_data **out, struct job *j, struct wisp_source *src,
                               wisp_error *err)
{
    struct wisp_file_id id;
    bool no_place;
    wisp_status st = j->format->identify ? j->format->identify(&id, j->path, err)
                                         : wisp_file_identify(&id, j->path, err);
    if (st != WISP_OK) return st;
    j->key = (struct wisp_cache_key){ .bytes = id.bytes,
                                      .mtime_ns = id.mtime_ns,
                                      .options = hash_options(j),
                                      .n_features = j->o->n_features,
                                      .every_line = j->o->every_line,
                                      .named = j->o->named,
                                      .decided = j->o->decided };
    if (id.bytes < wisp_cache_min && !j->o->memory)
        return read_into(out, j, NULL, src, &no_place, err);
    choose_places(j);
    for (int i = 0; i < N_PLACES; i++) {
        st = try_cache(out, j, j->places[i], src, err);
        if (st != WISP_OK || *out) return st;
    }
    wisp_error why = { 0 };
    for (int i = 0; i < N_PLACES; i++) {
        if (!j->places[i][0]) continue;
        if (i > 0) make_folders(j->places[i]);
        st = read_into(out, j, j->places[i], src, &no_place, &why);
        if (st != WISP_EIO || !no_place) {
            if (st != WISP_OK && err) *err = why;
            return st;
        }
    }
    wisp_say(j->ctx, "%s - rows of %s are kept in memory, without a cache", why.text, j->path);
    return read_into(out, j, NULL, src, &no_place, err);
}

/* Pieces of words help where a text has few words: on titles of 10 words (cooking, 3 seeds) they
 * gain a point of P@1; long texts have words enough, and would have many times as many pieces. */
static wisp_status choose_pieces(struct wisp_text_how *how, const struct job *j, wisp_error *err)
{
    struct wisp_look seen = { 0 };
    struct wisp_sink *sink;
    struct wisp_source src = { .ctx = j->ctx,
                               .path = j->path,
                               .o = j->o,
                               .text = j->text,
                               .text_bytes = j->text_bytes,
                               .rows = j->rows,
                               .look = &seen };
    wisp_status st = wisp_sink_create(&sink, NULL, err);
    if (st != WISP_OK) return st;
    st = j->format->read(&src, sink, err);
    wisp_sink_abort(sink);
    how->chars_auto = false;
    if (seen.n_words > WISP_SHORT_TEXT * seen.n_rows) return st;
    how->chars_min = WISP_PIECE_MIN;
    how->chars_max = WISP_PIECE_MAX;
    return st;
}

static wisp_status other_image(const struct job *j, const struct wisp_data *d, wisp_error *err)
{
    char found[WISP_IMAGE_TEXT], wanted[WISP_IMAGE_TEXT];
    wisp_image_text(wanted, j->o->image);
    if (!d->image.channels)
        return wisp_fail_at(err, WISP_EFORMAT, j->path, 0,
                            "rows that are no images; expected images of %s (channels x height x "
                            "width)",
                            wanted);
    char hint[WISP_IMAGE_HINT];
    return wisp_fail_at(
        err, WISP_EFORMAT, j->path, 0, "images of %s (channels x height x width); expected %s%s",
        wisp_image_text(found, d->image), wanted, wisp_image_hint(hint, d->image, j->o->image));
}

/* Rows of pixels, where features have names or images are others. */
static wisp_status check_image(const struct job *j, const struct wisp_data *d, wisp_error *err)
{
    if (d->image.channels && j->o->named & WISP_NAMED_FEATURES)
        return wisp_fail_at(err, WISP_EFORMAT, j->path, 0,
                            "images, but the features that these rows go with stand for names, "
                            "which pixels do not have");
    if (!j->o->image.channels || wisp_same_image(d->image, j->o->image)) return WISP_OK;
    return other_image(j, d, err);
}

static wisp_status run(struct wisp_data **out, struct job *j, wisp_error *err)
{
    *out = NULL;
    struct wisp_source src = { 0 };
    bool no_place;
    wisp_status st = WISP_OK;
    if (j->rows) j->format = &wisp_format_memory;
    else st = wisp_format_choose(&j->format, j->o, j->path, j->text, j->text_bytes, err);
    if (st != WISP_OK) return st;
    if (j->format->classes && j->o->labels) j->o->named |= WISP_NAMED_LABELS;
    if (j->format->words && j->o->text.chars_auto) st = choose_pieces(&j->o->text, j, err);
    if (st != WISP_OK) return st;
    st = j->text || j->rows || !j->o->use_cache ? read_into(out, j, NULL, &src, &no_place, err)
                                                : read_cached(out, j, &src, err);
    if (st != WISP_OK) return st;
    st = check_image(j, *out, err);
    if (st != WISP_OK) {
        wisp_data_free(*out);
        *out = NULL;
        return st;
    }
    (*out)->format = j->format;
    (*out)->index_base = wisp_index_base(j->format, j->o);
    (*out)->n_dropped_features = src.n_dropped_features;
    (*out)->n_dropped_labels = src.n_dropped_labels;
    if (!j->text && !j->rows)
        say_dropped(j, &src); /* of lines that arrive one by one, the caller */
    say_compact(j, *out);
    if (!j->format->words) return WISP_OK;
    (*out)->text = j->o->text;
    (*out)->text.no_header &= j->format->table;
    if (j->o->stop) st = wisp_names_copy(&(*out)->stop, j->o->stop->names, err);
    if (st == WISP_OK) return st;
    wisp_data_free(*out);
    *out = NULL;
    return st;
}

/* A stream is a text in a file without a name. */
static wisp_status read_spooled(struct wisp_data **out, struct wisp_context *ctx, const char *path,
                                const struct wisp_read_options *o, wisp_error *err)
{
    struct wisp_read_options own = *o;
    struct wisp_spool spool;
    struct wisp_map map = { 0 };
    *out = NULL;
    wisp_status st = wisp_spool_open(&spool, path, o->cache, err);
    if (st != WISP_OK) return st;
    st = wisp_map_open(&map, spool.path, err);
    struct job j = { .ctx = ctx,
                     .path = wisp_spool_name(path),
                     .o = &own,
                     .text = map.p ? (const char *)map.p : "",
                     .text_bytes = map.bytes,
                     .spooled = true };
    if (st == WISP_OK) st = run(out, &j, err);
    st = wisp_map_end(&map, st, err);
    wisp_spool_close(&spool);
    if (st == WISP_OK) return st;
    wisp_data_free(*out);
    *out = NULL;
    return st;
}

wisp_status wisp_data_read(struct wisp_data **out, struct wisp_context *ctx, const char *path,
                           const struct wisp_read_options *o, wisp_error *err)
{
    if (wisp_spool_wants(path)) return read_spooled(out, ctx, path, o, err);
    struct wisp_read_options own = *o;
    struct job j = { .ctx = ctx, .path = path, .o = &own };
    return run(out, &j, err);
}

wisp_status wisp_data_read_text(struct wisp_data **out, struct wisp_context *ctx, const char *text,
                                size_t bytes, const char *name, const struct wisp_read_options *o,
                                wisp_error *err)
{
    struct wisp_read_options own = *o;
    struct job j = {
        .ctx = ctx, .path = name, .o = &own, .text = text ? text : "", .text_bytes = bytes
    };
    return run(out, &j, err);
}

wisp_status wisp_data_read_rows(struct wisp_data **out, struct wisp_context *ctx,
                                const struct wisp_memory_rows *rows,
                                const struct wisp_read_options *o, wisp_error *err)
{
    struct wisp_read_options own = *o;
    struct job j = { .ctx = ctx, .path = "text", .o = &own, .rows = rows };
    return run(out, &j, err);
}

wisp_status wisp_need_labels(const struct wisp_data *d, const char *what, wisp_error *err)
{
    const char *name = *d->source ? d->source : "rows";
    if (d->n_rows == 0)
        return wisp_fail_at(err, WISP_EFORMAT, name, 0, "there are no rows to %s", what);
    if (d->n_lab > 0) return WISP_OK;
    return wisp_fail_at(err, WISP_EFORMAT, name, 0,
                        "none of the %zu rows has a label, expected some to %s", d->n_rows, what);
}
