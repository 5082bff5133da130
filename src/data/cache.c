/* Writing, mapping and verifying cache files; cache.h draws the layout. */
#include "data/cache.h"
#include "base/mem.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* for a hash state that needs no heap */
#include <xxhash.h>

enum { VERSION = 4 };

struct head {
    char magic[8];
    uint32_t order, version; /* order reads differently on a machine of other byte order */
    char zero[48];
};
static const struct head head_wanted = { "wispdata", 0x01020304, VERSION, { 0 } };

struct tail {
    uint64_t offset, bytes, check; /* of the index */
    char zero[24];
    char magic[8];
    uint64_t own; /* XXH3-64 of the bytes before */
};
_Static_assert(sizeof(struct head) == 64 && sizeof(struct tail) == 64, "part of the file format");

/* ---- writing ---- */

static wisp_status write_bytes(struct wisp_sink *s, const void *p, size_t bytes, wisp_error *err)
{
    wisp_status st = bytes ? wisp_out_write(s->out, p, bytes, err) : WISP_OK;
    if (st != WISP_OK) s->write_failed = true;
    return st;
}

wisp_status wisp_cache_write_head(struct wisp_sink *s, wisp_error *err)
{
    return write_bytes(s, &head_wanted, sizeof head_wanted, err);
}

wisp_status wisp_cache_write_block(struct wisp_sink *s, wisp_error *err)
{
    const struct wisp_builder *b = &s->pending;
    struct wisp_cache_entry e = { .offset = wisp_out_offset(s->out),
                                  .bytes = wisp_block_bytes(b->n_rows, b->nnz, b->n_lab, b->pixels),
                                  .n_rows = (uint32_t)b->n_rows,
                                  .nnz = (uint32_t)b->nnz,
                                  .n_lab = (uint32_t)b->n_lab,
                                  .pixels = (uint32_t)b->pixels };
    if (!wisp_grow(&s->entries, s->d->n_blocks, &s->cap_entries, sizeof e))
        return wisp_fail_mem(err, s->d->n_blocks * sizeof e, "the index of blocks");
    if (e.bytes > s->cap_block) {
        wisp_free(s->block);
        s->cap_block = 0;
        s->block = wisp_alloc(e.bytes, 1);
        if (!s->block) return wisp_fail_mem(err, e.bytes, "a block of rows");
        s->cap_block = e.bytes;
    }
    wisp_block_write(s->block, b);
    struct wisp_block_head *h = (struct wisp_block_head *)s->block;
    e.check = h->check = XXH3_64bits(s->block + sizeof *h, e.bytes - sizeof *h);
    s->entries[s->d->n_blocks] = e;
    return write_bytes(s, s->block, e.bytes, err);
}

struct part {
    const void *p;
    size_t bytes;
};

wisp_status wisp_cache_write_index(struct wisp_sink *s, wisp_error *err)
{
    const struct wisp_data *d = s->d;
    struct wisp_cache_index x = { .n_rows = d->n_rows,
                                  .n_features = d->n_features,
                                  .n_labels = d->n_labels,
                                  .nnz = d->nnz,
                                  .n_lab = d->n_lab,
                                  .n_unlabelled = d->n_unlabelled,
                                  .max_row_nnz = d->max_row_nnz,
                                  .counts = d->counts,
                                  .n_blocks = d->n_blocks,
                                  .n_seen_features = s->n_seen_features,
                                  .n_seen_labels = s->n_seen_labels,
                                  .labels_bytes = d->labels.bytes,
                                  .vocab_bytes = d->vocab.bytes,
                                  .n_dropped_features = s->n_dropped_features,
                                  .n_dropped_labels = s->n_dropped_labels,
                                  .n_blank = s->n_blank,
                                  .channels = d->image.channels,
                                  .height = d->image.height,
                                  .width = d->image.width,
                                  .key = s->key };
    struct part parts[] = { { &x, sizeof x },
                            { s->entries, d->n_blocks * sizeof *s->entries },
                            { d->feature_rows, s->n_seen_features * sizeof(int64_t) },
                            { d->label_rows, s->n_seen_labels * sizeof(int64_t) },
                            { d->labels.text, d->labels.bytes },
                            { d->vocab.text, d->vocab.bytes } };
    struct tail t = { .offset = wisp_out_offset(s->out), .magic = "wispdend" };
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].bytes) XXH3_64bits_update(&hash, parts[i].p, parts[i].bytes);
        wisp_status st = write_bytes(s, parts[i].p, parts[i].bytes, err);
        if (st != WISP_OK) return st;
        t.bytes += parts[i].bytes;
    }
    t.check = XXH3_64bits_digest(&hash);
    t.own = XXH3_64bits(&t, offsetof(struct tail, own));
    return write_bytes(s, &t, sizeof t, err);
}

/* ---- reading ---- */

struct checker {
    const struct wisp_map *map;
    const unsigned char *file; /* its bytes */
    const struct wisp_cache_index *x;
    const unsigned char *entries; /* unaligned */
    _Atomic size_t bad;           /* lowest block that is wrong; n_blocks: none */
};

static struct wisp_cache_entry entry(const struct checker *c, size_t i)
{
    struct wisp_cache_entry e;
    memcpy(&e, c->entries + i * sizeof e, sizeof e);
    return e;
}

/* Offsets that start at 0, never fall and end at 'end'. */
static bool offsets_are_good(const uint32_t *ptr, size_t n_rows, size_t end)
{
    if (ptr[0] != 0 || ptr[n_rows] != end) return false;
    for (size_t r = 0; r < n_rows; r++)
        if (ptr[r] > ptr[r + 1]) return false;
    return true;
}

/* The pixels that the offsets count. */
static bool pixels_are_good(const struct wisp_rows *rows, size_t end)
{
    if (!offsets_are_good(rows->xp, rows->n, end)) return false;
    for (size_t r = 0; r < rows->n; r++) {
        size_t seen = 0;
        for (size_t i = 0; i < rows->pixels; i++) seen += rows->px[r * rows->pixels + i] != 0;
        if (seen != rows->xp[r + 1] - rows->xp[r]) return false;
    }
    return true;
}

/* The same of lists, and ids that ascend below 'n' in each row. */
static bool rows_are_good(const uint32_t *ptr, size_t n_rows, size_t end, const int32_t *id,
                          size_t n)
{
    if (!offsets_are_good(ptr, n_rows, end)) return false;
    for (size_t r = 0; r < n_rows; r++) {
        int64_t last = -1;
        bool good = true;
        for (size_t i = ptr[r]; i < ptr[r + 1]; i++) {
            good &= id[i] > last;
            last = id[i];
        }
        if (!good || last >= (int64_t)n) return false;
    }
    return true;
}

static bool block_is_good(const struct checker *c, struct wisp_cache_entry e)
{
    struct wisp_block_head h, want = { .magic = WISP_BLOCK_MAGIC,
                                       .n_rows = e.n_rows,
                                       .nnz = e.nnz,
                                       .n_lab = e.n_lab,
                                       .bytes = e.bytes,
                                       .check = e.check,
                                       .pixels = e.pixels };
    const unsigned char *block = c->file + e.offset;
    memcpy(&h, block, sizeof h);
    if (memcmp(&h, &want, sizeof h) != 0) return false;
    if (XXH3_64bits(block + sizeof h, e.bytes - sizeof h) != e.check) return false;
    struct wisp_rows rows = wisp_block_view(block);
    bool finite = true;
    for (size_t i = 0; rows.xv && i < e.nnz; i++) finite &= fabsf(rows.xv[i]) <= FLT_MAX;
    return finite &&
           (rows.px ? pixels_are_good(&rows, e.nnz)
                    : rows_are_good(rows.xp, rows.n, e.nnz, rows.xi, c->x->n_features)) &&
           rows_are_good(rows.yp, rows.n, e.n_lab, rows.yi, c->x->n_labels);
}

static void check_block(void *arg, size_t i, int thread)
{
    struct checker *c = arg;
    (void)thread;
    bool good = block_is_good(c, entry(c, i));
    struct wisp_cache_entry e = entry(c, i);
    /* a file larger than memory passes through once */
    wisp_map_forget(c->map, c->file + e.offset, e.bytes);
    if (good) return;
    size_t bad = atomic_load(&c->bad);
    while (i < bad && !atomic_compare_exchange_weak(&c->bad, &bad, i)) {}
}

/* Blocks lie one after the other from the head to the index, and their sums are the totals. */
static bool entries_are_good(const struct checker *c, size_t index_offset)
{
    const struct wisp_cache_index *x = c->x;
    uint64_t at = sizeof(struct head), rows = 0, nnz = 0, lab = 0;
    for (size_t i = 0; i < x->n_blocks; i++) {
        struct wisp_cache_entry e = entry(c, i);
        if (e.offset != at || e.bytes != wisp_block_bytes(e.n_rows, e.nnz, e.n_lab, e.pixels) ||
            e.n_rows == 0 || e.bytes > index_offset - at ||
            (e.pixels && e.pixels != x->channels * x->height * x->width))
            return false;
        at += e.bytes;
        rows += e.n_rows;
        nnz += e.nnz;
        lab += e.n_lab;
    }
    return at == index_offset && rows == x->n_rows && nnz == x->nnz && lab == x->n_lab;
}

/* Ids that no row has cost memory all the same, so their number must be in proportion to the file
 * that the cache was made from. */
static bool ids_are_good(uint64_t n, uint64_t n_seen, uint64_t source_bytes)
{
    enum { FREE = 1 << 20, PER_BYTE = 16 };
    return n >= n_seen && n <= wisp_ids_max + 1 && (n - n_seen) / PER_BYTE <= FREE + source_bytes;
}

/* An image's sizes are all there or all 0, and its pixels are features. */
static bool image_is_good(const struct wisp_cache_index *x)
{
    if (!x->channels && !x->height && !x->width) return true;
    if (!x->channels || !x->height || !x->width || x->channels > INT32_MAX ||
        x->height > INT32_MAX || x->width > INT32_MAX)
        return false;
    return x->height <= INT32_MAX / x->channels / x->width &&
           x->channels * x->height * x->width <= x->n_features;
}

/* The parts that follow the fixed fields fill the index exactly. */
static bool sizes_are_good(const struct wisp_cache_index *x, size_t bytes)
{
    size_t left = bytes - sizeof *x;
    const size_t n[] = { x->n_blocks, x->n_seen_features, x->n_seen_labels, x->labels_bytes,
                         x->vocab_bytes };
    const size_t size[] = { sizeof(struct wisp_cache_entry), 8, 8, 1, 1 };
    for (int i = 0; i < 5; i++) {
        if (n[i] > left / size[i]) return false;
        left -= n[i] * size[i];
    }
    return left == 0 && image_is_good(x) &&
           ids_are_good(x->n_features, x->n_seen_features, x->key.bytes) &&
           ids_are_good(x->n_labels, x->n_seen_labels, x->key.bytes);
}

static const char *find_index(const struct wisp_map *m, struct tail *t, struct wisp_cache_index *x)
{
    if (m->bytes < sizeof(struct head) + sizeof *t + sizeof *x) return "too short";
    if (memcmp(m->p, &head_wanted, sizeof head_wanted) != 0) return "not of this version";
    memcpy(t, m->p + m->bytes - sizeof *t, sizeof *t);
    if (memcmp(t->magic, "wispdend", 8) != 0 ||
        t->own != XXH3_64bits(t, offsetof(struct tail, own)))
        return "the end is missing";
    size_t body = m->bytes - sizeof *t;
    if (t->offset < sizeof(struct head) || t->offset > body || t->bytes != body - t->offset ||
        t->bytes < sizeof *x || t->offset % 64)
        return "index out of place";
    if (XXH3_64bits(m->p + t->offset, t->bytes) != t->check) return "index: checksum";
    memcpy(x, m->p + t->offset, sizeof *x);
    return sizes_are_good(x, t->bytes) ? NULL : "index: sizes";
}

static bool key_fits(const struct wisp_cache_index *x, const struct wisp_cache_key *want)
{
    const struct wisp_cache_key *have = &x->key;
    if (have->bytes != want->bytes || have->mtime_ns != want->mtime_ns ||
        have->options != want->options)
        return false;
    if (have->every_line != want->every_line && x->n_blank) return false;
    if ((have->named ^ want->named) & want->decided) return false;
    if ((x->n_dropped_features || x->n_dropped_labels) && have->decided != want->decided)
        return false;
    if (have->n_features == want->n_features) return true;
    bool whole = x->n_dropped_features == 0 && x->n_dropped_labels == 0 &&
                 (have->n_features == 0 || x->n_features < have->n_features);
    return whole && (want->n_features == 0 || x->n_features <= want->n_features);
}

static const unsigned char *map_block(void *arg, size_t i)
{
    const struct checker *c = arg;
    return c->file + entry(c, i).offset;
}

static wisp_status load_names(struct wisp_names *n, const unsigned char *p, size_t bytes,
                              wisp_error *err)
{
    return bytes ? wisp_names_init(n, (char *)p, bytes, true, err) : WISP_OK;
}

/* Counts of ids: each in some of the rows, all together as many as the rows hold. */
static bool counts_are_good(const unsigned char *p, size_t n, size_t n_rows, size_t sum)
{
    bool good = true;
    for (size_t i = 0; i < n; i++) {
        uint64_t count;
        memcpy(&count, p + 8 * i, 8);
        good &= count <= n_rows && count <= sum;
        sum -= good ? count : 0;
    }
    return good && sum == 0;
}

static bool totals_are_good(const struct checker *c)
{
    const struct wisp_cache_index *x = c->x;
    const unsigned char *features = c->entries + x->n_blocks * sizeof(struct wisp_cache_entry);
    return counts_are_good(features, x->n_seen_features, x->n_rows, x->nnz) &&
           counts_are_good(features + 8 * x->n_seen_features, x->n_seen_labels, x->n_rows,
                           x->n_lab) &&
           x->n_unlabelled <= x->n_rows && x->max_row_nnz <= x->nnz;
}

static wisp_status load(struct wisp_data *d, struct checker *c, wisp_error *err)
{
    const struct wisp_cache_index *x = c->x;
    const unsigned char *p = c->entries + x->n_blocks * sizeof(struct wisp_cache_entry);
    d->n_rows = x->n_rows;
    d->n_features = x->n_features;
    d->n_labels = x->n_labels;
    d->nnz = x->nnz;
    d->n_lab = x->n_lab;
    d->n_unlabelled = x->n_unlabelled;
    d->max_row_nnz = x->max_row_nnz;
    d->counts = x->counts != 0;
    d->image =
        (struct wisp_image){ (uint32_t)x->channels, (uint32_t)x->height, (uint32_t)x->width };
    d->named = (unsigned)x->key.named;
    d->n_blocks = x->n_blocks;
    for (size_t i = 0; i < d->n_blocks; i++) d->bytes += entry(c, i).bytes;
    wisp_status st = wisp_data_index(d, map_block, c, err);
    if (st != WISP_OK) return st;
    if (!(d->feature_rows = wisp_counts_alloc(d->n_features, "counts of features", err)) ||
        !(d->label_rows = wisp_counts_alloc(d->n_labels, "counts of labels", err)))
        return WISP_ENOMEM;
    memcpy(d->feature_rows, p, x->n_seen_features * 8);
    p += x->n_seen_features * 8;
    memcpy(d->label_rows, p, x->n_seen_labels * 8);
    p += x->n_seen_labels * 8;
    st = load_names(&d->labels, p, x->labels_bytes, err);
    return st == WISP_OK ? load_names(&d->vocab, p + x->labels_bytes, x->vocab_bytes, err) : st;
}

wisp_status wisp_cache_open(struct wisp_data **out, struct wisp_pool *pool, const char *path,
                            const struct wisp_cache_want *want, size_t *n_dropped_features,
                            size_t *n_dropped_labels, wisp_error *err)
{
    *out = NULL;
    struct wisp_data *d = wisp_zalloc(1, sizeof *d);
    if (!d) return wisp_fail_mem(err, sizeof *d, "a data set");
    struct tail t;
    struct wisp_cache_index x;
    struct checker c = { .x = &x };
    wisp_status st =
        wisp_map_open_own(&d->map, path, want ? want->source : NULL, !want || !want->stay, err);
    if (st != WISP_OK) goto done;
    const char *why = find_index(&d->map, &t, &x);
    if (why) {
        st = wisp_fail(err, WISP_EFORMAT, "%s", why);
        goto done;
    }
    if (want && !key_fits(&x, &want->key)) {
        st = wisp_fail(err, WISP_ENOTSUP, "made from another state of the source");
        goto done;
    }
    c.map = &d->map;
    c.file = d->map.p;
    c.entries = d->map.p + t.offset + sizeof x;
    c.bad = x.n_blocks;
    if (!entries_are_good(&c, t.offset)) st = wisp_fail(err, WISP_EFORMAT, "index: blocks");
    else if (!totals_are_good(&c)) st = wisp_fail(err, WISP_EFORMAT, "index: counts");
    else wisp_parallel_for(pool, x.n_blocks, check_block, &c);
    if (st == WISP_OK && c.bad < x.n_blocks)
        st = wisp_fail(err, WISP_EFORMAT, "block %zu: checksum", (size_t)c.bad);
    if (st == WISP_OK) st = load(d, &c, err);
    st = wisp_map_blame(&d->map, st, err);
    if (st != WISP_OK) goto done;
    if (n_dropped_features) *n_dropped_features = x.n_dropped_features;
    if (n_dropped_labels) *n_dropped_labels = x.n_dropped_labels;
    *out = d;
    d = NULL;
done:
    wisp_data_free(d);
    return st;
}
