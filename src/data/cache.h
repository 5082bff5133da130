/* The sink's inside and the cache file, shared by sink.c, cache.c and read.c only.
 *
 * A cache file holds the blocks of a data set and all that was gathered while reading it:
 *
 *   head (64 bytes) | blocks, 64-aligned | index | tail (64 bytes)
 *   index: struct wisp_cache_index | entry[n_blocks] | i64 feature_rows[n_seen_features]
 *          | i64 label_rows[n_seen_labels] | label names | vocabulary
 *
 * Every byte is covered: the head is constant, blocks have their checksum in their entry, the
 * index has its own in the tail, and the tail ends with a checksum of itself.  Native byte order
 * (the magic differs on the other one): a cache is rebuilt, never carried elsewhere. */
#ifndef WISP_DATA_CACHE_H
#define WISP_DATA_CACHE_H

#include "data/data.h"

/* What a cache was made from.  With n_features (0: all) ids from there on were dropped; a cache
 * that lost nothing serves every limit above its ids. */
struct wisp_cache_key {
    uint64_t bytes, mtime_ns; /* of the source */
    uint64_t options;         /* hash of the format and of the options that change rows */
    uint64_t n_features;
    uint64_t every_line;     /* blank lines are rows; no matter where there are none */
    uint64_t named, decided; /* WISP_NAMED_...: sides by name; sides that had to be so */
};

struct wisp_cache_index {
    uint64_t n_rows, n_features, n_labels, nnz, n_lab, n_unlabelled, max_row_nnz, counts;
    uint64_t n_blocks, n_seen_features, n_seen_labels, labels_bytes, vocab_bytes;
    uint64_t n_dropped_features, n_dropped_labels, n_blank;
    uint64_t channels, height, width; /* of an image; 0: rows are none */
    struct wisp_cache_key key;
};

struct wisp_cache_entry {
    uint64_t offset, bytes, check;
    uint32_t n_rows, nnz, n_lab, pixels; /* pixels of a row; 0: lists */
};

struct wisp_sink {
    struct wisp_data *d; /* totals so far; blocks, too, when in memory */
    size_t cap_heap, cap_features, cap_labels;
    size_t n_seen_features, n_seen_labels; /* highest id in the rows, + 1 */
    struct wisp_builder pending;           /* rows of the next block */
    /* in memory: more bytes of blocks than this (0: any) are refused, naming the source */
    size_t limit;
    const char *source;
    bool stay;      /* as in wisp_cache_want */
    bool uncounted; /* rows per feature and label are not wanted */
    /* into a cache file */
    struct wisp_out *out; /* NULL: in memory */
    char *path;
    bool write_failed;
    struct wisp_cache_entry *entries; /* (d->n_blocks) */
    size_t cap_entries;
    unsigned char *block; /* (cap_block) scratch */
    size_t cap_block;
    struct wisp_cache_key key;
    size_t n_dropped_features, n_dropped_labels, n_blank;
    struct wisp_pool *pool;
};

wisp_status wisp_cache_write_head(struct wisp_sink *s, wisp_error *err);
wisp_status wisp_cache_write_block(struct wisp_sink *s, wisp_error *err); /* s->pending */
wisp_status wisp_cache_write_index(struct wisp_sink *s, wisp_error *err);

/* What is asked of a cache. */
struct wisp_cache_want {
    struct wisp_cache_key key;
    const char *source; /* whose owner may own the cache, too (base/file.h) */
    bool stay;          /* in the file: mapped, not copied into memory */
};

/* Reads and verifies.  WISP_EFORMAT: err->text says in a few words what is wrong ("block 3:
 * checksum"), without the path.  WISP_ENOTSUP: made from another source or with other options.
 * WISP_EIO: it cannot be read, or is not believed.  want NULL: any. */
wisp_status wisp_cache_open(struct wisp_data **out, struct wisp_pool *pool, const char *path,
                            const struct wisp_cache_want *want, size_t *n_dropped_features,
                            size_t *n_dropped_labels, wisp_error *err);

/* The set's block tables: d->blocks and d->first for d->n_blocks blocks at 'block(arg, i)'. */
wisp_status wisp_data_index(struct wisp_data *d, const unsigned char *(*block)(void *arg, size_t i),
                            void *arg, wisp_error *err);
/* n counts, zero.  Refuses more than the machine has, since ids may be absurd. */
int64_t *wisp_counts_alloc(size_t n, const char *what, wisp_error *err);

#endif
