/* Sets of rows for fuzz targets: the promises of data.h, and whether two are the same. */
#ifndef WISP_TESTS_FUZZ_ROWS_H
#define WISP_TESTS_FUZZ_ROWS_H

#include "fuzz/rig.h"

#include "data/data.h"

#include <math.h>

static inline void rows_check_list(const uint32_t *ptr, const int32_t *id, size_t n_rows,
                                   size_t n_ids, int64_t *counts)
{
    if (ptr[0] != 0) fuzz_die("offsets do not start at 0", NULL);
    for (size_t r = 0; r < n_rows; r++) {
        if (ptr[r] > ptr[r + 1]) fuzz_die("offsets fall", NULL);
        for (size_t k = ptr[r]; k < ptr[r + 1]; k++) {
            if (id[k] < 0 || (size_t)id[k] >= n_ids) fuzz_die("id out of range", NULL);
            if (k > ptr[r] && id[k - 1] >= id[k]) fuzz_die("ids do not ascend", NULL);
            counts[id[k]]++;
        }
    }
}

static inline void rows_check_names(const struct wisp_names *n)
{
    unsigned sum = 0;
    for (size_t i = 0; i < n->n; i++) {
        if (n->start[i + 1] <= n->start[i] || n->start[i + 1] > n->bytes + 1)
            fuzz_die("places of names", NULL);
        for (size_t k = n->start[i]; k < n->start[i + 1] - 1; k++) {
            if (n->text[k] == '\n') fuzz_die("a name of two lines", NULL);
            sum += (unsigned char)n->text[k];
        }
    }
    fuzz_sink = sum;
}

/* 'counted': the numbers of rows with a feature and with a label are those of the rows. */
static inline void rows_check(const struct wisp_data *d, bool counted)
{
    size_t rows = 0, nnz = 0;
    counted = counted && d->feature_rows; /* rows in memory for a model are not counted */
    int64_t *features = calloc(d->n_features + 1, sizeof *features),
            *labels = calloc(d->n_labels + 1, sizeof *labels);
    struct wisp_lists lists = { 0 };
    const long budget = wisp_mem_budget;
    wisp_mem_budget = -1; /* what is looked at here is not what runs out */
    if (wisp_image_pixels(d->image) > d->n_features) fuzz_die("pixels that are no features", NULL);
    for (size_t b = 0; b < d->n_blocks; b++) {
        const struct wisp_rows *r = &d->blocks[b];
        if (r->px && r->pixels != wisp_image_pixels(d->image)) fuzz_die("other images", NULL);
        wisp_rows_lists(&r, &lists, r, NULL);
        rows_check_list(r->xp, r->xi, r->n, d->n_features, features);
        rows_check_list(r->yp, r->yi, r->n, d->n_labels, labels);
        for (size_t k = 0; k < r->xp[r->n]; k++)
            if (!isfinite(r->xv[k])) fuzz_die("a value that is not finite", NULL);
        rows += r->n;
        nnz += r->xp[r->n];
    }
    wisp_lists_clear(&lists);
    wisp_mem_budget = budget;
    if (rows != d->n_rows || nnz != d->nnz) fuzz_die("wrong totals", NULL);
    for (size_t i = 0; counted && i < d->n_features; i++)
        if (features[i] != d->feature_rows[i]) fuzz_die("wrong count of a feature", NULL);
    for (size_t i = 0; counted && i < d->n_labels; i++)
        if (labels[i] != d->label_rows[i]) fuzz_die("wrong count of a label", NULL);
    free(features);
    free(labels);
    rows_check_names(&d->labels);
    rows_check_names(&d->vocab);
}

/* The same rows; numbers of features and labels may differ, where ids alone say them. */
static inline bool rows_same(const struct wisp_data *a, const struct wisp_data *b)
{
    if (a->n_rows != b->n_rows || a->nnz != b->nnz || a->n_lab != b->n_lab) return false;
    struct wisp_lists lists[2] = { { .cap = 0 } };
    const long budget = wisp_mem_budget;
    bool same = true;
    wisp_mem_budget = -1;
    for (size_t i = 0; i < a->n_rows && same; i++) {
        size_t p, q;
        const struct wisp_rows *x = wisp_data_row(a, i, &p), *y = wisp_data_row(b, i, &q);
        wisp_rows_lists(&x, &lists[0], x, NULL);
        wisp_rows_lists(&y, &lists[1], y, NULL);
        size_t nx = x->xp[p + 1] - x->xp[p], ny = x->yp[p + 1] - x->yp[p];
        same = !(y->xp[q + 1] - y->xp[q] != nx || y->yp[q + 1] - y->yp[q] != ny ||
                 (nx && memcmp(x->xi + x->xp[p], y->xi + y->xp[q], 4 * nx)) ||
                 (nx && memcmp(x->xv + x->xp[p], y->xv + y->xp[q], 4 * nx)) ||
                 (ny && memcmp(x->yi + x->yp[p], y->yi + y->yp[q], 4 * ny)));
    }
    for (int i = 0; i < 2; i++) wisp_lists_clear(&lists[i]);
    wisp_mem_budget = budget;
    return same;
}

/* What was read in one chunk and in several (d[i] NULL: refused) is the same.  agree: so are the
 * outcomes, the text of an error too where 'text' says so. */
static inline void rows_same_by_chunks(struct wisp_data *const *d, const wisp_status *st,
                                       const wisp_error *e, bool agree, bool text)
{
    if (agree && (st[0] != st[1] || (text && strcmp(e[0].text, e[1].text)))) {
        fprintf(stderr, "in one chunk: %s\nin several: %s\n", e[0].text, e[1].text);
        fuzz_die("chunks change the outcome", &e[0]);
    }
    for (int i = 0; i < 2; i++)
        if (!d[i] != (st[i] != WISP_OK)) fuzz_die("an error, and data", &e[i]);
    if (d[0] && d[1] && (!rows_same(d[0], d[1]) || d[0]->n_features != d[1]->n_features))
        fuzz_die("chunks change the rows", &e[0]);
}

/* d, written in the named format and read again, has the same rows.  False: it cannot be written
 * so. */
static inline bool rows_round_trip(const struct wisp_data *d, const char *format, const char *file)
{
    const struct wisp_read_options o = { .format = format, .index_base = -1, .min_count = 1 };
    wisp_error err = { 0 };
    struct wisp_data *back;
    const char *path = fuzz_path(file);
    wisp_status st = wisp_format_find(format)->write(d, &fuzz_one_thread, path, &err);
    if (st == WISP_ENOTSUP) return false;
    if (st == WISP_OK) st = wisp_data_read(&back, &fuzz_one_thread, path, &o, &err);
    if (st == WISP_ENOMEM && fuzz_starved) return false;
    if (st != WISP_OK) fuzz_die("what was written cannot be read", &err);
    /* Ids far apart, as a model may ask for, are made compact where none asks. */
    if (!back->named && !rows_same(d, back))
        fuzz_die("what was written is read as other rows", NULL);
    wisp_data_free(back);
    return true;
}

#endif
