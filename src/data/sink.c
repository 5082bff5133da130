/* The sink: rows in, a data set out.
 *
 * Rows are gathered into 'pending' until a block is full, so blocks do not depend on how the
 * source was cut.  A full block goes to the heap or to the cache file; the totals (rows per
 * feature and label, largest row, whether values are counts) are taken on the way. */
#include "data/cache.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

wisp_status wisp_sink_create(struct wisp_sink **out, const char *path, wisp_error *err)
{
    *out = NULL;
    struct wisp_sink *s = wisp_zalloc(1, sizeof *s);
    if (s) s->d = wisp_zalloc(1, sizeof *s->d);
    if (s && path) s->path = wisp_strdup(path);
    if (!s || !s->d || (path && !s->path)) {
        wisp_sink_abort(s);
        return wisp_fail_mem(err, sizeof *s, "a data set");
    }
    s->d->counts = true;
    wisp_status st = WISP_OK;
    if (path) st = wisp_out_create_own(&s->out, path, err);
    if (st == WISP_OK && path) st = wisp_cache_write_head(s, err);
    if (st == WISP_OK) *out = s;
    else wisp_sink_abort(s);
    return st;
}

void wisp_sink_abort(struct wisp_sink *s)
{
    if (!s) return;
    wisp_out_abort(s->out);
    wisp_data_free(s->d);
    wisp_builder_clear(&s->pending);
    wisp_free(s->path);
    wisp_free(s->entries);
    wisp_free(s->block);
    wisp_free(s);
}

int64_t *wisp_counts_alloc(size_t n, const char *what, wisp_error *err)
{
    size_t bytes;
    int64_t *p = NULL;
    if (__builtin_mul_overflow(n, sizeof *p, &bytes)) bytes = SIZE_MAX;
    if (wisp_mem_fits(bytes)) p = wisp_zalloc_lazy(n, sizeof *p);
    if (!p) wisp_fail_mem(err, bytes, what);
    return p;
}

/* Counts for ids below n. */
static wisp_status grow_counts(int64_t **counts, size_t *cap, size_t n, const char *what,
                               wisp_error *err)
{
    if (n <= *cap) return WISP_OK;
    size_t bigger = n < *cap + *cap / 2 ? *cap + *cap / 2 : n;
    int64_t *p = wisp_counts_alloc(bigger, what, err);
    if (!p) return WISP_ENOMEM;
    if (*cap) memcpy(p, *counts, *cap * sizeof *p);
    wisp_free(*counts);
    *counts = p;
    *cap = bigger;
    return WISP_OK;
}

/* The same for rows of pixels: ids are places in a row, and all may be seen. */
static wisp_status count_pixels(int64_t **counts, size_t *cap, size_t *seen,
                                const struct wisp_builder *b, wisp_error *err)
{
    size_t top = *seen;
    for (size_t row = 0; row < b->n_rows; row++)
        for (size_t i = b->pixels; i > top; i--)
            if (b->px[row * b->pixels + i - 1]) top = i;
    *seen = top;
    if (!counts) return WISP_OK;
    wisp_status st = grow_counts(counts, cap, top, "counts of pixels", err);
    if (st != WISP_OK) return st;
    for (size_t row = 0; row < b->n_rows; row++)
        for (size_t i = 0; i < b->pixels && i < top; i++)
            (*counts)[i] += b->px[row * b->pixels + i] != 0;
    return WISP_OK;
}

/* Adds the ids to the counts (NULL: there are none); *seen becomes the highest id + 1. */
static wisp_status count(int64_t **counts, size_t *cap, size_t *seen, const int32_t *id, size_t n,
                         const char *what, wisp_error *err)
{
    int32_t top = -1;
    for (size_t i = 0; i < n; i++) top = id[i] > top ? id[i] : top;
    size_t need = (size_t)((int64_t)top + 1);
    if (need > *seen) *seen = need;
    if (!counts) return WISP_OK;
    wisp_status st = grow_counts(counts, cap, need, what, err);
    if (st != WISP_OK) return st;
    for (size_t i = 0; i < n; i++) (*counts)[id[i]]++;
    return WISP_OK;
}

static bool all_counts(const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!wisp_is_count(v[i])) return false;
    return true;
}

static bool all_full(const uint8_t *px, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (px[i] && px[i] != 255) return false;
    return true;
}

static wisp_status past_limit(const struct wisp_sink *s, wisp_error *err)
{
    static const char units[] = " kMGT";
    double limit = (double)s->limit;
    int u = 0;
    for (; limit >= 1024 && u < 4; u++) limit /= 1024;
    return wisp_fail_at(err, WISP_ENOMEM, s->source, 0,
                        "its rows do not fit --memory %.4g%.*s without a cache: pass --cache DIR "
                        "or raise --memory",
                        limit, u > 0, units + u);
}

static wisp_status keep_in_memory(struct wisp_sink *s, wisp_error *err)
{
    const struct wisp_builder *b = &s->pending;
    struct wisp_data *d = s->d;
    if (!wisp_grow(&d->heap, d->n_blocks, &s->cap_heap, sizeof *d->heap))
        return wisp_fail_mem(err, d->n_blocks * sizeof *d->heap, "the list of blocks");
    size_t bytes = wisp_block_bytes(b->n_rows, b->nnz, b->n_lab, b->pixels);
    if (s->limit && d->bytes + bytes > s->limit) return past_limit(s, err);
    unsigned char *block = wisp_alloc(bytes, 1);
    if (!block) return wisp_fail_mem(err, bytes, "a block of rows");
    wisp_block_write(block, b);
    d->heap[d->n_blocks] = block;
    return WISP_OK;
}

static wisp_status flush(struct wisp_sink *s, wisp_error *err)
{
    struct wisp_builder *b = &s->pending;
    struct wisp_data *d = s->d;
    if (b->n_rows == 0) return WISP_OK;
    bool counts = !s->uncounted;
    int64_t **features = counts ? &d->feature_rows : NULL;
    wisp_status st = b->pixels
                         ? count_pixels(features, &s->cap_features, &s->n_seen_features, b, err)
                         : count(features, &s->cap_features, &s->n_seen_features, b->xi, b->nnz,
                                 "counts of features: is the highest feature id right?", err);
    if (st == WISP_OK)
        st = count(counts ? &d->label_rows : NULL, &s->cap_labels, &s->n_seen_labels, b->yi,
                   b->n_lab, "counts of labels: is the highest label id right?", err);
    if (st == WISP_OK) st = s->out ? wisp_cache_write_block(s, err) : keep_in_memory(s, err);
    if (st != WISP_OK) return st;
    for (size_t i = 0; i < b->n_rows; i++) {
        size_t nnz = b->xp[i + 1] - b->xp[i];
        if (nnz > d->max_row_nnz) d->max_row_nnz = nnz;
        d->n_unlabelled += b->yp[i] == b->yp[i + 1];
    }
    d->counts = d->counts &&
                (b->pixels ? all_full(b->px, b->n_rows * b->pixels) : all_counts(b->xv, b->nnz));
    d->bytes += wisp_block_bytes(b->n_rows, b->nnz, b->n_lab, b->pixels);
    d->n_rows += b->n_rows;
    d->nnz += b->nnz;
    d->n_lab += b->n_lab;
    d->n_blocks++;
    wisp_builder_reset(b);
    return WISP_OK;
}

/* Makes room for n 4-byte elements after the 'used' ones, in *p and its twin. */
static bool reserve(void *p, void *twin, size_t used, size_t n, size_t *cap)
{
    if (used + n <= *cap) return true;
    void *to[2] = { p, twin };
    for (int i = 0; i < 2 && to[i]; i++) {
        void *old, *new;
        memcpy(&old, to[i], sizeof old);
        new = wisp_realloc(old, used, used + n, 4);
        if (!new) return false;
        memcpy(to[i], &new, sizeof new);
    }
    *cap = used + n;
    return true;
}

/* The same for n images after those there are. */
static bool reserve_images(struct wisp_builder *b, size_t n)
{
    if (!b->pixels || b->n_rows + n <= b->cap_images) return true;
    uint8_t *px = wisp_realloc(b->px, b->n_rows * b->pixels, (b->n_rows + n) * b->pixels, 1);
    if (!px) return false;
    b->px = px;
    b->cap_images = b->n_rows + n;
    return true;
}

/* Appends rows first .. last-1 of b to the pending ones. */
static wisp_status append(struct wisp_builder *to, const struct wisp_builder *b, size_t first,
                          size_t last, wisp_error *err)
{
    assert(to->n_rows == 0 || to->pixels == b->pixels);
    size_t x = b->xp[first], nx = b->xp[last] - x, y = b->yp[first], ny = b->yp[last] - y;
    to->pixels = b->pixels;
    if ((!b->pixels && !reserve(&to->xi, &to->xv, to->nnz, nx, &to->cap_nnz)) ||
        !reserve_images(to, last - first) || !reserve(&to->yi, NULL, to->n_lab, ny, &to->cap_lab) ||
        !reserve(&to->xp, &to->yp, to->n_rows + 1, last - first, &to->cap_rows))
        return wisp_fail_mem(err, 8 * (to->nnz + nx), "a block of rows");
    if (b->pixels)
        memcpy(to->px + to->n_rows * b->pixels, b->px + first * b->pixels,
               (last - first) * b->pixels);
    else if (nx) {
        memcpy(to->xi + to->nnz, b->xi + x, nx * sizeof *b->xi);
        memcpy(to->xv + to->nnz, b->xv + x, nx * sizeof *b->xv);
    }
    if (ny) memcpy(to->yi + to->n_lab, b->yi + y, ny * sizeof *b->yi);
    to->xp[0] = to->yp[0] = 0;
    for (size_t i = first; i < last; i++) {
        to->xp[to->n_rows + 1 + i - first] = (uint32_t)(to->nnz + b->xp[i + 1] - x);
        to->yp[to->n_rows + 1 + i - first] = (uint32_t)(to->n_lab + b->yp[i + 1] - y);
    }
    to->n_rows += last - first;
    to->nnz += nx;
    to->n_lab += ny;
    return WISP_OK;
}

wisp_status wisp_sink_add(struct wisp_sink *s, const struct wisp_builder *b, wisp_error *err)
{
    struct wisp_builder *to = &s->pending;
    for (size_t row = 0; row < b->n_rows;) {
        size_t last = row; /* rows that still fit */
        while (last < b->n_rows &&
               wisp_block_fits(to->n_rows + (last - row) + 1,
                               to->nnz + (b->xp[last + 1] - b->xp[row]),
                               to->n_lab + (b->yp[last + 1] - b->yp[row]), b->pixels))
            last++;
        if (last == row && to->n_rows == 0) last++; /* one huge row is a block of its own */
        wisp_status st = WISP_OK;
        if (last > row) st = append(to, b, row, last, err);
        if (st == WISP_OK && last < b->n_rows) st = flush(s, err);
        if (st != WISP_OK) return st;
        row = last;
    }
    return WISP_OK;
}

void wisp_sink_at_least(struct wisp_sink *s, size_t n_features, size_t n_labels)
{
    if (n_features > s->d->n_features) s->d->n_features = n_features;
    if (n_labels > s->d->n_labels) s->d->n_labels = n_labels;
}

void wisp_sink_images(struct wisp_sink *s, struct wisp_image image)
{
    s->d->image = image;
}

void wisp_sink_names(struct wisp_sink *s, struct wisp_names *labels, struct wisp_names *vocab)
{
    struct wisp_names *from[2] = { labels, vocab }, *to[2] = { &s->d->labels, &s->d->vocab };
    for (int i = 0; i < 2; i++) {
        if (!from[i]) continue;
        wisp_names_clear(to[i]);
        *to[i] = *from[i];
        *from[i] = (struct wisp_names){ 0 };
    }
}

static const unsigned char *heap_block(void *arg, size_t i)
{
    return ((struct wisp_data *)arg)->heap[i];
}

static wisp_status finish_file(struct wisp_data **out, struct wisp_sink *s, wisp_error *err)
{
    wisp_status st = wisp_cache_write_index(s, err);
    if (st != WISP_OK) return st;
    st = wisp_out_commit(s->out, err);
    s->out = NULL;
    const struct wisp_cache_want want = { .key = s->key, .source = s->source, .stay = s->stay };
    if (st == WISP_OK) st = wisp_cache_open(out, s->pool, s->path, &want, NULL, NULL, err);
    /* What was just written must read back; if not, the disk is to blame. */
    return st == WISP_EFORMAT ? wisp_fail_at(err, WISP_EIO, s->path, 0, "damaged while written")
                              : st;
}

wisp_status wisp_sink_finish(struct wisp_data **out, struct wisp_sink *s, wisp_error *err)
{
    *out = NULL;
    struct wisp_data *d = s->d;
    wisp_status st = flush(s, err);
    wisp_sink_at_least(s, s->n_seen_features, s->n_seen_labels);
    if (st == WISP_OK && s->out) {
        st = finish_file(out, s, err);
    } else if (st == WISP_OK) {
        if (!s->uncounted)
            st = grow_counts(&d->feature_rows, &s->cap_features, d->n_features,
                             "counts of features: is their number right?", err);
        if (st == WISP_OK && !s->uncounted)
            st = grow_counts(&d->label_rows, &s->cap_labels, d->n_labels,
                             "counts of labels: is their number right?", err);
        if (st == WISP_OK) st = wisp_data_index(d, heap_block, d, err);
        if (st == WISP_OK) {
            *out = d;
            s->d = NULL;
        }
    }
    wisp_sink_abort(s);
    return st;
}

wisp_status wisp_data_index(struct wisp_data *d, const unsigned char *(*block)(void *arg, size_t i),
                            void *arg, wisp_error *err)
{
    d->blocks = wisp_alloc(d->n_blocks, sizeof *d->blocks);
    d->first = wisp_alloc(d->n_blocks + 1, sizeof *d->first);
    if (!d->blocks || !d->first)
        return wisp_fail_mem(err, d->n_blocks * sizeof *d->blocks, "the list of blocks");
    d->first[0] = 0;
    for (size_t i = 0; i < d->n_blocks; i++) {
        d->blocks[i] = wisp_block_view(block(arg, i));
        d->first[i + 1] = d->first[i] + d->blocks[i].n;
    }
    return WISP_OK;
}

void wisp_data_free(struct wisp_data *d)
{
    if (!d) return;
    for (size_t i = 0; d->heap && i < d->n_blocks; i++) wisp_free(d->heap[i]);
    wisp_free(d->heap);
    wisp_free(d->blocks);
    wisp_free(d->first);
    wisp_free(d->feature_rows);
    wisp_free(d->label_rows);
    wisp_free(d->weights);
    wisp_names_clear(&d->labels);
    wisp_names_clear(&d->vocab);
    wisp_names_clear(&d->stop);
    wisp_map_close(&d->map);
    wisp_free(d);
}
