/* Views: rows whose features and values stay where the caller has them, as scipy does in CSR.
 *
 *   the caller's    ids (nnz)  values (nnz)     32 or 64 bits each, borrowed
 *   made here       xp | yp | yi of each block   4 bytes per row, twice, and 4 per label
 *
 * Everything is checked once, so that readers need not: the rows are as a builder would have left
 * them, or are refused.  Blocks end where a sink would end them, so a view trains to the same bytes
 * as a copy.  A few rows to predict need neither labels nor counts: wisp_view_init makes a set of
 * them in the caller's memory. */
#include "base/mem.h"
#include "data/cache.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

struct source {
    size_t n_features, n_labels;
    const void *ptr, *idx, *val;
    unsigned types; /* WISP_CSR_... */
    const int64_t *y_ptr;
    const int32_t *y_idx;
};

static int64_t x_at(const struct source *s, size_t row)
{
    return s->types & WISP_CSR_PTR64 ? ((const int64_t *)s->ptr)[row]
                                     : ((const int32_t *)s->ptr)[row];
}

static int64_t y_at(const struct source *s, size_t row)
{
    return s->y_ptr ? s->y_ptr[row] : 0;
}

static wisp_status check_offsets(const struct source *s, size_t first, size_t n, wisp_error *err)
{
    for (size_t i = first; i < first + n; i++)
        if (x_at(s, i) < 0 || x_at(s, i) > x_at(s, i + 1) || y_at(s, i) < 0 ||
            y_at(s, i) > y_at(s, i + 1))
            return wisp_fail_row(err, WISP_EINVAL, i, 0, "offsets must not fall");
    return WISP_OK;
}

/* Where the block that starts at row 'first' ends. */
static size_t block_end(const struct source *s, size_t first, size_t n_rows)
{
    size_t end = first + 1;
    while (end < n_rows &&
           wisp_block_fits(end + 1 - first, (size_t)(x_at(s, end + 1) - x_at(s, first)),
                           (size_t)(y_at(s, end + 1) - y_at(s, first)), 0))
        end++;
    return end;
}

/* The features of one row of a block, counted in d unless that is NULL. */
static wisp_status check_row(struct wisp_data *d, const struct source *s, const struct wisp_rows *r,
                             size_t at, size_t row, wisp_error *err)
{
    int64_t before = -1;
    for (size_t i = r->xp[at]; i < r->xp[at + 1]; i++) {
        const int64_t id = r->xi ? r->xi[i] : r->xi64[i];
        const double value = r->xv ? (double)r->xv[i] : r->xv64[i];
        if (id < 0 || (size_t)id >= s->n_features || id > INT32_MAX)
            return wisp_fail_row(err, WISP_EINVAL, row, 0, "feature %lld is not in 0..%zu",
                                 (long long)id, s->n_features - 1);
        if (!(fabs(value) <= FLT_MAX))
            return wisp_fail_row(err, WISP_ENUMERIC, row, 0,
                                 "feature %lld has the value %g; values must be finite as floats",
                                 (long long)id, value);
        if (id <= before)
            return wisp_fail_row(err, WISP_EFORMAT, row, 0,
                                 "feature %lld after %lld; ids must ascend without repeats "
                                 "(scipy: sum_duplicates)",
                                 (long long)id, (long long)before);
        if ((float)value == 0)
            return wisp_fail_row(err, WISP_EFORMAT, row, 0,
                                 "feature %lld has the value %g, which is 0 as a float (scipy: "
                                 "eliminate_zeros)",
                                 (long long)id, value);
        before = id;
        if (!d) continue;
        d->counts = d->counts && wisp_is_count((float)value);
        d->feature_rows[id]++;
    }
    return WISP_OK;
}

/* The caller's rows first .. first+n-1, their features borrowed; xp (n+1) is filled. */
static wisp_status borrow(struct wisp_rows *r, uint32_t *xp, const struct source *s, size_t first,
                          size_t n, wisp_error *err)
{
    const size_t base = (size_t)x_at(s, first);
    if ((size_t)x_at(s, first + n) - base > UINT32_MAX)
        return wisp_fail_row(err, WISP_EINVAL, first, 0, "more than %u values", UINT32_MAX);
    for (size_t i = 0; i <= n; i++) xp[i] = (uint32_t)((size_t)x_at(s, first + i) - base);
    *r = (struct wisp_rows){ .n = n, .xp = xp };
    if (s->types & WISP_CSR_IDS64) r->xi64 = (const int64_t *)s->idx + base;
    else r->xi = (const int32_t *)s->idx + base;
    if (s->types & WISP_CSR_VALUES64) r->xv64 = (const double *)s->val + base;
    else r->xv = (const float *)s->val + base;
    return WISP_OK;
}

/* The labels of rows first .. end-1, in order and without repeats, as a builder keeps them. */
static wisp_status build_labels(struct wisp_builder *b, const struct source *s, size_t first,
                                size_t end, wisp_error *err)
{
    wisp_status st = WISP_OK;
    wisp_builder_reset(b);
    for (size_t row = first; st == WISP_OK && row < end; row++) {
        for (int64_t e = y_at(s, row); st == WISP_OK && e < y_at(s, row + 1); e++) {
            if (s->y_idx[e] < 0 || (size_t)s->y_idx[e] >= s->n_labels)
                st = wisp_fail_row(err, WISP_EINVAL, row, 0, "label %d is not in 0..%zu",
                                   s->y_idx[e], s->n_labels - 1);
            else st = wisp_builder_label(b, s->y_idx[e], err);
        }
        if (st == WISP_OK) st = wisp_builder_end_row(b, err);
    }
    return st;
}

/* Room for one more block. */
static wisp_status grow(struct wisp_data *d, size_t cap[3], wisp_error *err)
{
    if (wisp_grow(&d->heap, d->n_blocks, &cap[0], sizeof *d->heap) &&
        wisp_grow(&d->blocks, d->n_blocks, &cap[1], sizeof *d->blocks) &&
        wisp_grow(&d->first, d->n_blocks + 1, &cap[2], sizeof *d->first))
        return WISP_OK;
    return wisp_fail_mem(err, d->n_blocks * sizeof *d->blocks, "the list of blocks");
}

static wisp_status add_block(struct wisp_data *d, const struct source *s, struct wisp_builder *b,
                             size_t first, size_t end, wisp_error *err)
{
    wisp_status st = build_labels(b, s, first, end, err);
    if (st != WISP_OK) return st;
    const size_t n = end - first, bytes = 4 * (2 * (n + 1) + b->n_lab);
    uint32_t *xp = wisp_alloc(bytes, 1), *yp = xp + n + 1;
    if (!xp) return wisp_fail_mem(err, bytes, "offsets and labels of rows");
    d->heap[d->n_blocks] = xp;
    struct wisp_rows *r = &d->blocks[d->n_blocks++];
    if ((st = borrow(r, xp, s, first, n, err)) != WISP_OK) return st;
    memcpy(yp, b->yp, (n + 1) * sizeof *yp);
    if (b->n_lab) memcpy(yp + n + 1, b->yi, b->n_lab * sizeof *b->yi);
    r->yp = yp;
    r->yi = (const int32_t *)(yp + n + 1);
    for (size_t i = 0; st == WISP_OK && i < n; i++) {
        const size_t nnz = xp[i + 1] - xp[i];
        if (nnz > d->max_row_nnz) d->max_row_nnz = nnz;
        d->n_unlabelled += yp[i] == yp[i + 1];
        st = check_row(d, s, r, i, first + i, err);
    }
    for (size_t i = 0; i < b->n_lab; i++) d->label_rows[b->yi[i]]++;
    d->first[d->n_blocks] = end;
    d->n_rows = end;
    d->nnz += xp[n];
    d->n_lab += b->n_lab;
    d->bytes += bytes;
    return st;
}

wisp_status wisp_data_view_csr(wisp_data **out, size_t n_rows, size_t n_features, size_t n_labels,
                               const void *x_ptr, const void *x_idx, const void *x_val,
                               unsigned types, const int64_t *y_ptr, const int32_t *y_idx,
                               wisp_error *err)
{
    const struct source s = { n_features, n_labels, x_ptr, x_idx, x_val, types, y_ptr, y_idx };
    struct wisp_builder b = { 0 };
    size_t cap[3] = { 0 };
    *out = NULL;
    wisp_status st = check_offsets(&s, 0, n_rows, err);
    if (st != WISP_OK) return st;
    struct wisp_data *d = wisp_zalloc(1, sizeof *d);
    if (!d) return wisp_fail_mem(err, sizeof *d, "a data set");
    d->n_features = n_features;
    d->n_labels = n_labels;
    d->counts = true;
    d->feature_rows = wisp_counts_alloc(n_features, "counts of features", err);
    d->label_rows = d->feature_rows ? wisp_counts_alloc(n_labels, "counts of labels", err) : NULL;
    if (!d->label_rows) st = WISP_ENOMEM;
    if (st == WISP_OK) st = grow(d, cap, err);
    if (st == WISP_OK) d->first[0] = 0;
    for (size_t row = 0; st == WISP_OK && row < n_rows; row = d->n_rows)
        if ((st = grow(d, cap, err)) == WISP_OK)
            st = add_block(d, &s, &b, row, block_end(&s, row, n_rows), err);
    wisp_builder_clear(&b);
    if (st == WISP_OK) *out = d;
    else wisp_data_free(d);
    return st;
}

wisp_status wisp_view_init(struct wisp_view *v, size_t first, size_t n, size_t n_features,
                           const void *x_ptr, const void *x_idx, const void *x_val, unsigned types,
                           wisp_error *err)
{
    const struct source s = {
        .n_features = n_features, .ptr = x_ptr, .idx = x_idx, .val = x_val, .types = types
    };
    assert(n <= WISP_VIEW_ROWS);
    wisp_status st = check_offsets(&s, first, n, err);
    if (st == WISP_OK) st = borrow(&v->rows, v->xp, &s, first, n, err);
    for (size_t i = 0; st == WISP_OK && i < n; i++)
        st = check_row(NULL, &s, &v->rows, i, first + i, err);
    if (st != WISP_OK) return st;
    memset(v->yp, 0, (n + 1) * sizeof *v->yp);
    v->rows.yp = v->yp;
    v->first[0] = 0;
    v->first[1] = n;
    v->d = (struct wisp_data){ .n_rows = n,
                               .rows_before = first,
                               .n_features = n_features,
                               .n_unlabelled = n,
                               .nnz = v->xp[n],
                               .n_blocks = 1,
                               .blocks = &v->rows,
                               .first = v->first };
    return WISP_OK;
}
