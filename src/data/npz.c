/* CSR matrices as scipy.sparse.save_npz writes them: a zip archive of npy arrays
 *
 *   indices (nnz), indptr (n_rows + 1), data (nnz), shape (2), format ('csr')
 *
 * Features are in NAME.npz, labels (any value but 0) in NAME.y.npz beside it.
 * Reading: stored arrays are used where they lie in the map, packed ones are inflated whole; blocks
 * of rows are then built in parallel and handed to the sink in order.  Archives must be whole (crc,
 * sizes), headers strict, ids in range and values finite.
 * Writing is in npz_write.c. */
#include "data/feed.h"
#include "base/bounds.h"
#include "data/ids.h"
#include "data/npy.h"
#include "data/npz.h"
#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

/* ---- matrices ---- */

struct matrix {
    const char *path;
    struct wisp_map map;
    struct wisp_zip zip;
    struct wisp_npy indptr, indices, data;
    size_t n_rows, n_cols;
};

static void matrix_clear(struct matrix *m)
{
    wisp_free(m->indptr.owned);
    wisp_free(m->indices.owned);
    wisp_free(m->data.owned);
    wisp_zip_clear(&m->zip);
    wisp_map_close(&m->map);
}

static wisp_status check_format(const struct wisp_zip *z, wisp_error *err)
{
    struct wisp_npy a;
    wisp_status st = wisp_npy_load_small(&a, z, "format", err);
    if (!st) {
        char word[8] = { 0 };
        size_t step = a.kind == 'U' ? 4 : 1, n = a.item / step;
        bool text = (a.kind == 'U' || a.kind == 'S') && a.n == 1;
        for (size_t i = 0; text && i < n && i < sizeof word - 1; i++) word[i] = (char)a.p[i * step];
        if (strcmp(word, "csr"))
            st = wisp_fail_at(err, WISP_EFORMAT, a.path, 0,
                              "array 'format': '%.7s', expected 'csr'; call tocsr() before saving",
                              word);
    }
    wisp_free(a.owned);
    return st;
}

static bool is_int(const struct wisp_npy *a)
{
    return a->kind == 'i' && (a->item == 4 || a->item == 8);
}

static wisp_status load_shape(struct matrix *m, wisp_error *err)
{
    struct wisp_npy a;
    wisp_status st = wisp_npy_load_small(&a, &m->zip, "shape", err);
    if (!st && (!is_int(&a) || a.n_dims != 1 || a.n != 2))
        st = wisp_npy_wrong(&a, "expected two integers", err);
    if (!st) {
        int64_t rows = wisp_npy_int(&a, 0), cols = wisp_npy_int(&a, 1);
        if (rows < 0 || cols < 0 || (size_t)cols > wisp_ids_max)
            st = wisp_fail_at(err, WISP_EFORMAT, a.path, 0,
                              "array 'shape': (%lld, %lld), expected up to %zu columns",
                              (long long)rows, (long long)cols, wisp_ids_max);
        m->n_rows = (size_t)rows;
        m->n_cols = (size_t)cols;
    }
    wisp_free(a.owned);
    return st;
}

/* What headers say: types, and lengths that fit each other. */
static wisp_status check_lengths(const struct matrix *m, wisp_error *err)
{
    const struct wisp_npy *p = &m->indptr, *i = &m->indices, *v = &m->data;
    bool value = v->kind == 'f' ? v->item == 4 || v->item == 8
                                : (v->kind == 'i' || v->kind == 'u' || v->kind == 'b') &&
                                      v->item <= 8 && !(v->item & (v->item - 1));
    if (!is_int(p) || p->n_dims != 1)
        return wisp_npy_wrong(p, "expected a row of int32 or int64", err);
    if (!is_int(i) || i->n_dims != 1)
        return wisp_npy_wrong(i, "expected a row of int32 or int64", err);
    if (!value || !v->item || v->n_dims != 1)
        return wisp_npy_wrong(v, "expected a row of float32, float64, integers or bool", err);
    if (p->n - 1 != m->n_rows || p->n == 0)
        return wisp_fail_at(err, WISP_EFORMAT, p->path, 0,
                            "array 'indptr': %zu elements for %zu rows", p->n, m->n_rows);
    if (i->n != v->n)
        return wisp_fail_at(err, WISP_EFORMAT, i->path, 0,
                            "array 'indices': %zu elements, but 'data' has %zu", i->n, v->n);
    return WISP_OK;
}

static wisp_status check_offsets(const struct matrix *m, wisp_error *err)
{
    const struct wisp_npy *p = &m->indptr, *i = &m->indices;
    if (wisp_npy_int(p, 0) != 0) return wisp_npy_wrong(p, "does not start at 0", err);
    for (size_t r = 0; r < m->n_rows; r++)
        if (wisp_npy_int(p, r + 1) < wisp_npy_int(p, r))
            return wisp_fail_at(err, WISP_EFORMAT, p->path, 0, "array 'indptr': falls at row %zu",
                                r);
    if ((uint64_t)wisp_npy_int(p, m->n_rows) > i->n)
        return wisp_fail_at(err, WISP_EFORMAT, p->path, 0,
                            "array 'indptr': ends at %lld, but there are %zu values",
                            (long long)wisp_npy_int(p, m->n_rows), i->n);
    return WISP_OK;
}

static wisp_status matrix_open(struct matrix *m, const char *path, wisp_error *err)
{
    *m = (struct matrix){ .path = path };
    wisp_status st = wisp_map_open(&m->map, path, err);
    if (!st) st = wisp_zip_init(&m->zip, m->map.p, m->map.bytes, path, err);
    if (!st) st = check_format(&m->zip, err);
    if (!st) st = load_shape(m, err);
    if (!st) st = wisp_npy_peek(&m->indptr, &m->zip, "indptr", err);
    if (!st) st = wisp_npy_peek(&m->indices, &m->zip, "indices", err);
    if (!st) st = wisp_npy_peek(&m->data, &m->zip, "data", err);
    if (!st) st = check_lengths(m, err); /* before memory is taken for what may be no matrix */
    if (!st) st = wisp_npy_load(&m->indptr, &m->zip, "indptr", err);
    if (!st) st = check_offsets(m, err);
    if (!st) st = wisp_npy_load(&m->indices, &m->zip, "indices", err);
    if (!st) st = wisp_npy_load(&m->data, &m->zip, "data", err);
    return st ? st : check_lengths(m, err); /* the file may have changed meanwhile */
}

/* ---- reading ---- */

struct feed {
    struct matrix m[2];     /* features, labels (n_rows = 0 where there are none) */
    struct wisp_ids ids[2]; /* of their columns */
    size_t limit[2];        /* features from there on are dropped; labels are none that is known */
};

/* Unknown labels of a row are ids that cannot be predicted, a different one each: the labels from
 * 'limit' on. */
static wisp_status feed_unknown(const struct feed *f, struct wisp_feed_job *j, size_t row, size_t i,
                                size_t limit)
{
    const size_t place = i - (size_t)wisp_npy_int(&f->m[1].indptr, row);
    j->n_dropped_labels++;
    return wisp_builder_label(&j->b, (int32_t)(limit + place), &j->err);
}

/* Value i of matrix 'which', whose column has an id by name. */
static wisp_status feed_named(const struct feed *f, struct wisp_feed_job *j, int which, size_t row,
                              size_t i, int64_t column, float value)
{
    const struct wisp_ids *ids = &f->ids[which];
    int64_t id = wisp_ids_find_number(ids, column);
    if (id < 0 && !which) {
        j->n_dropped++;
        return WISP_OK;
    }
    if (!which) return wisp_builder_feature(&j->b, (int32_t)id, value, &j->err);
    if (id < 0) return feed_unknown(f, j, row, i, ids->n);
    return wisp_builder_label(&j->b, (int32_t)id, &j->err);
}

/* Value i of matrix 'which' goes into the row of b. */
static wisp_status feed_value(const struct feed *f, struct wisp_feed_job *j, int which, size_t row,
                              size_t i)
{
    const struct matrix *m = &f->m[which];
    int64_t id = wisp_npy_int(&m->indices, i);
    float v = (float)wisp_npy_value(&m->data, i);
    if (id < 0 || (uint64_t)id >= m->n_cols)
        return wisp_fail_at(&j->err, WISP_EFORMAT, m->path, 0,
                            "array 'indices': %lld in row %zu, expected 0 to %zu", (long long)id,
                            row, m->n_cols - (m->n_cols > 0));
    if (!isfinite(v))
        return wisp_fail_at(&j->err, WISP_EFORMAT, m->path, 0,
                            "array 'data': %g in row %zu, expected a finite float32",
                            wisp_npy_value(&m->data, i), row);
    if (v == 0) return WISP_OK;
    if (f->ids[which].named) return feed_named(f, j, which, row, i, id, v);
    if (which && (size_t)id >= f->limit[1]) return feed_unknown(f, j, row, i, f->limit[1]);
    if (which) return wisp_builder_label(&j->b, (int32_t)id, &j->err);
    if ((size_t)id < f->limit[0]) return wisp_builder_feature(&j->b, (int32_t)id, v, &j->err);
    j->n_dropped++;
    return WISP_OK;
}

static wisp_status feed_row(const void *arg, struct wisp_feed_job *j, size_t row)
{
    const struct feed *f = arg;
    wisp_status st = WISP_OK;
    for (int which = 0; which < 2; which++) {
        const struct matrix *m = &f->m[which];
        size_t end = m->n_rows ? (size_t)wisp_npy_int(&m->indptr, row + 1) : 0;
        for (size_t i = m->n_rows ? (size_t)wisp_npy_int(&m->indptr, row) : 0; i < end && !st; i++)
            st = feed_value(f, j, which, row, i);
    }
    wisp_error why;
    if (!st && (st = wisp_builder_end_row(&j->b, &why)) != WISP_OK)
        wisp_fail_at(&j->err, st, f->m[0].path, 0, "row %zu: %s", row, why.text);
    if (st) j->err.row = row + 1;
    return st;
}

/* The next block: as many rows as fit, at least one. */
static size_t cut(const void *arg, size_t first)
{
    const struct feed *f = arg;
    size_t n = 0, left = f->m[0].n_rows - first;
    int64_t start[2] = { 0, 0 };
    for (int w = 0; w < 2; w++)
        if (f->m[w].n_rows) start[w] = wisp_npy_int(&f->m[w].indptr, first);
    while (n < left && n < WISP_BLOCK_ROWS) {
        n++;
        int64_t values = 0;
        for (int w = 0; w < 2; w++)
            if (f->m[w].n_rows) values += wisp_npy_int(&f->m[w].indptr, first + n) - start[w];
        if (values >= WISP_BLOCK_NNZ) break;
    }
    return n;
}

char *wisp_npz_labels_path(const char *path)
{
    size_t n = strlen(path);
    char *y = wisp_alloc(n + 7, 1);
    if (!y) return NULL;
    if (n >= 4 && !strcmp(path + n - 4, ".npz")) n -= 4;
    memcpy(y, path, n);
    memcpy(y + n, ".y.npz", 7);
    return y;
}

static wisp_status read_both(struct feed *f, struct wisp_source *src, const char *y_path,
                             wisp_error *err)
{
    struct stat info;
    wisp_status st = matrix_open(&f->m[0], src->path, err);
    if (st) return st;
    if (stat(y_path, &info) != 0 && errno == ENOENT) {
        wisp_say(src->ctx, "%s: no labels: there is no %s beside it", src->path, y_path);
        return WISP_OK;
    }
    if ((st = matrix_open(&f->m[1], y_path, err)) != WISP_OK) return st;
    if (f->m[1].n_rows != f->m[0].n_rows)
        return wisp_fail_at(err, WISP_EFORMAT, y_path, 0, "%zu rows of labels, but %s has %zu rows",
                            f->m[1].n_rows, src->path, f->m[0].n_rows);
    return WISP_OK;
}

/* The columns that have values become names; 'names' receives them. */
static wisp_status collect(struct wisp_ids *ids, struct wisp_names *names, const struct matrix *m,
                           wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (size_t i = 0, n = (size_t)wisp_npy_int(&m->indptr, m->n_rows); i < n && !st; i++) {
        if ((float)wisp_npy_value(&m->data, i) == 0) continue;
        st = wisp_ids_add_number(ids, wisp_npy_int(&m->indices, i), err);
    }
    return st ? st : wisp_ids_number(ids, names, err);
}

/* Ids by name, where a model has them so, or where there are far more columns than values. */
static wisp_status open_ids(struct feed *f, struct wisp_source *src, struct wisp_sink *sink,
                            wisp_error *err)
{
    const struct wisp_read_options *o = src->o;
    struct wisp_names names[2] = { { 0 } };
    wisp_status st = WISP_OK;
    for (int w = 0; w < 2 && !st; w++) {
        const unsigned side = w ? WISP_NAMED_LABELS : WISP_NAMED_FEATURES;
        const struct matrix *m = &f->m[w];
        const size_t most = 16 * wisp_ids_free, bytes = m->map.bytes;
        const bool far = m->n_cols > wisp_most(bytes, most) && !(o->decided & side);
        if (!far && !(o->named & side)) continue;
        st = wisp_ids_init(&f->ids[w], o, side, err);
        if (!st && f->ids[w].open && m->n_rows) st = collect(&f->ids[w], &names[w], m, err);
        src->named |= side;
    }
    if (!st) wisp_sink_names(sink, &names[1], &names[0]);
    for (int w = 0; w < 2; w++) wisp_names_clear(&names[w]);
    return st;
}

/* How many ids there are; where ids must be numbers, no more than is in proportion. */
static void set_sizes(struct wisp_sink *sink, struct feed *f, const struct wisp_read_options *o)
{
    size_t n[2];
    for (int w = 0; w < 2; w++) {
        const size_t known = w ? o->n_labels : o->n_features, cols = f->m[w].n_cols;
        const size_t most =
            wisp_most(wisp_most(known, w ? o->old_labels : o->old_features), 16 * wisp_ids_free);
        const bool bound = o->decided & (w ? WISP_NAMED_LABELS : WISP_NAMED_FEATURES);
        f->limit[w] = bound ? most : SIZE_MAX;
        if (!w && known) f->limit[w] = known;
        n[w] = f->ids[w].named ? f->ids[w].n : known > cols ? known : cols;
        if (!f->ids[w].named && n[w] > f->limit[w]) n[w] = f->limit[w];
    }
    wisp_sink_at_least(sink, n[0], n[1]);
}

static wisp_status npz_read(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    if (src->text)
        return wisp_fail_at(err, WISP_ENOTSUP, src->path, 0,
                            "npz archives are read from files only");
    bool images;
    wisp_status read = wisp_arrays_npz(&images, src, sink, err);
    if (read || images) return read;
    struct feed f = { 0 };
    char *y_path = wisp_npz_labels_path(src->path);
    if (!y_path) return wisp_fail_mem(err, strlen(src->path) + 7, "a path");
    wisp_status st = read_both(&f, src, y_path, err);
    if (!st) st = open_ids(&f, src, sink, err);
    if (!st) {
        set_sizes(sink, &f, src->o);
        if (src->source_bytes) *src->source_bytes = f.m[0].map.bytes + f.m[1].map.bytes;
        const struct wisp_feed rows = {
            .n_rows = f.m[0].n_rows, .cut = cut, .row = feed_row, .arg = &f
        };
        st = wisp_feed_all(&rows, src, sink, err);
    }
    for (int w = 0; w < 2; w++) {
        st = wisp_map_end(&f.m[w].map, st, err);
        wisp_ids_clear(&f.ids[w]);
        matrix_clear(&f.m[w]);
    }
    wisp_free(y_path);
    return st;
}

static bool npz_probe(const char *path, const char *head, size_t n)
{
    (void)path;
    return n >= 4 && !memcmp(head, "PK\3\4", 4);
}

const struct wisp_format wisp_format_npz = {
    .name = "npz",
    .what = "CSR matrices of scipy.sparse.save_npz: NAME.npz, with the labels in NAME.y.npz; or "
            "arrays of images and labels (numpy.savez)",
    .endings = ".npz",
    .index_base = -1,
    .binary = true,
    .probe = npz_probe,
    .read = npz_read,
    .write = wisp_npz_write,
    .beside = wisp_npz_labels_path,
};
