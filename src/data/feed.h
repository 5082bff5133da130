/* Rows that can be read at any place, by block and in parallel, into a sink in order. */
#ifndef WISP_DATA_FEED_H
#define WISP_DATA_FEED_H

#include "data/data.h"
#include "data/ids.h"

struct wisp_feed_job { /* one block */
    size_t first, n_rows;
    struct wisp_builder b;
    size_t n_dropped;        /* features beyond the model's */
    size_t n_dropped_labels; /* labels that it does not know */
    wisp_error err;
};

struct wisp_feed {
    size_t n_rows;
    /* Rows of the block that begins at 'first': at least one. */
    size_t (*cut)(const void *arg, size_t first);
    /* One row into j->b; a failure says why in j->err. */
    wisp_status (*row)(const void *arg, struct wisp_feed_job *j, size_t row);
    const void *arg;
    /* Where rows lie in a map, one behind the other: its pages are given back under a limit of memory,
     * as rows are read once.  NULL: they do not. */
    const struct wisp_map *map;
    const unsigned char *p;
    size_t row_bytes;
};

/* As many blocks are under way as there are threads; the first failure in the order of rows counts.
 */
wisp_status wisp_feed_all(const struct wisp_feed *f, struct wisp_source *src,
                          struct wisp_sink *sink, wisp_error *err);

/* ---- labels that are numbers, one for each row ---- */

/* The number of a row's label. */
typedef wisp_status (*wisp_feed_number)(int64_t *number, const void *arg, size_t row,
                                        wisp_error *err);
/* Finds out what labels are: ids, or, where the ones that these rows go with have names, or numbers are
 * 'far' out of proportion, numbers that are called so ('ids' is then named). */
wisp_status wisp_feed_open_labels(struct wisp_ids *ids, struct wisp_source *src,
                                  struct wisp_sink *sink, const struct wisp_feed *rows,
                                  wisp_feed_number number, bool far, wisp_error *err);
/* The label of the row in progress. */
wisp_status wisp_feed_label(struct wisp_feed_job *j, const struct wisp_ids *ids, int64_t number);

/* ---- rows of pixels ---- */

/* What images of a source become: what they are, or of the size that the options ask for. */
struct wisp_image wisp_feed_size(const struct wisp_source *src, struct wisp_image found);
/* Tells the sink what its rows are images of; returns the first feature that a model does not know,
 * or SIZE_MAX. */
size_t wisp_feed_images(const struct wisp_source *src, struct wisp_sink *sink,
                        struct wisp_image image);
/* Rows of a block of such images, of those that are left. */
size_t wisp_feed_images_cut(size_t left, size_t pixels);
/* The pixels of a row (channels, height, width), fitted to another size (fit.h), and the end of the
 * row.  Where some are dropped, from 'limit' on, the others are a list. */
wisp_status wisp_feed_image(struct wisp_feed_job *j, const uint8_t *px, struct wisp_image found,
                            struct wisp_image to, size_t limit);

#endif
