/* Writes NAME.npz and NAME.y.npz so that scipy.sparse.load_npz opens them.
 *
 *   per array: local head | name | zip64 extra | npy header | elements, then the directory
 *
 * Entries are stored, and always in zip64 form: one form is easier to test than two.  A head
 * holds size and crc of what follows, so each array is produced twice, first into the crc alone
 * and then into the file: the rows are never copied. */
#include "data/npz.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

struct stream {           /* where the bytes of an array go */
    struct wisp_out *out; /* NULL: only counted */
    uint32_t crc;
    uint64_t bytes;
    wisp_error *err;
};

static wisp_status put(void *stream, const void *p, size_t bytes)
{
    struct stream *s = stream;
    if (s->out) return wisp_out_write(s->out, p, bytes, s->err);
    s->crc = (uint32_t)crc32_z(s->crc, p, bytes);
    s->bytes += bytes;
    return WISP_OK;
}

struct part { /* one of the two matrices */
    const struct wisp_data *d;
    bool labels;
};

static size_t n_values(const struct part *m)
{
    return m->labels ? m->d->n_lab : m->d->nnz;
}

static wisp_status put_header(struct stream *s, const char *type, const char *shape)
{
    char head[128]; /* a multiple of 64, as the format asks for */
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\1\0\x76\0", 10);
    int n = snprintf(head + 10, sizeof head - 10,
                     "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    head[10 + n] = ' ';
    head[127] = '\n';
    return put(s, head, sizeof head);
}

static wisp_status put_header_n(struct stream *s, const char *type, size_t n)
{
    char shape[32];
    snprintf(shape, sizeof shape, "(%zu,)", n);
    return put_header(s, type, shape);
}

static wisp_status put_indices(struct stream *s, const struct part *m)
{
    wisp_status st = put_header_n(s, "<i4", n_values(m));
    for (size_t i = 0; i < m->d->n_blocks && !st; i++) {
        const struct wisp_rows *b = &m->d->blocks[i];
        st = m->labels ? put(s, b->yi, 4 * (size_t)b->yp[b->n]) : wisp_rows_give_ids(b, put, s);
    }
    return st;
}

static wisp_status put_indptr(struct stream *s, const struct part *m)
{
    enum { ROOM = 512 };
    int64_t buf[ROOM] = { 0 }, base = 0;
    size_t used = 1; /* the leading 0 */
    wisp_status st = put_header_n(s, "<i8", m->d->n_rows + 1);
    for (size_t i = 0; i < m->d->n_blocks && !st; i++) {
        const struct wisp_rows *b = &m->d->blocks[i];
        const uint32_t *p = m->labels ? b->yp : b->xp;
        for (size_t r = 1; r <= b->n && !st; r++) {
            buf[used++] = base + p[r];
            if (used < ROOM) continue;
            st = put(s, buf, sizeof buf);
            used = 0;
        }
        base += p[b->n];
    }
    return st ? st : put(s, buf, used * sizeof *buf);
}

static wisp_status put_data(struct stream *s, const struct part *m)
{
    wisp_status st = put_header_n(s, "<f4", n_values(m));
    for (size_t i = 0; i < m->d->n_blocks && !st && !m->labels; i++)
        st = wisp_rows_give_values(&m->d->blocks[i], put, s);
    float ones[256];
    for (size_t i = 0; i < 256; i++) ones[i] = 1;
    for (size_t left = m->labels ? m->d->n_lab : 0; left && !st;) {
        size_t n = left < 256 ? left : 256;
        st = put(s, ones, n * sizeof *ones);
        left -= n;
    }
    return st;
}

static wisp_status put_format(struct stream *s, const struct part *m)
{
    (void)m;
    wisp_status st = put_header(s, "|S3", "()");
    return st ? st : put(s, "csr", 3);
}

static wisp_status put_shape(struct stream *s, const struct part *m)
{
    int64_t shape[2] = { (int64_t)m->d->n_rows,
                         (int64_t)(m->labels ? m->d->n_labels : m->d->n_features) };
    wisp_status st = put_header_n(s, "<i8", 2);
    return st ? st : put(s, shape, sizeof shape);
}

static const struct {
    const char *name;
    wisp_status (*put)(struct stream *s, const struct part *m);
} arrays[] = {
    { "indices.npy", put_indices }, { "indptr.npy", put_indptr }, { "format.npy", put_format },
    { "shape.npy", put_shape },     { "data.npy", put_data },
};
enum { N_ARRAYS = sizeof arrays / sizeof *arrays };

/* ---- zip ---- */

struct record { /* bytes of a head in the making, little-endian */
    unsigned char p[128];
    size_t n;
};

static void add(struct record *r, uint64_t v, int bytes)
{
    for (; bytes-- > 0; v >>= 8) r->p[r->n++] = (unsigned char)v;
}

enum { ZIP64 = 45, DATE = 0x21 /* 1 January 1980: the same rows give the same bytes */ };

/* What local and central heads share: version to crc, sizes that point to the extra field. */
static void add_common(struct record *r, const struct stream *sum, size_t name, int extra)
{
    add(r, ZIP64, 2);
    add(r, 0, 2); /* flags */
    add(r, 0, 2); /* stored */
    add(r, 0, 2);
    add(r, DATE, 2);
    add(r, sum->crc, 4);
    add(r, 0xffffffff, 4);
    add(r, 0xffffffff, 4);
    add(r, name, 2);
    add(r, (uint64_t)extra, 2);
}

static void add_sizes(struct record *r, const struct stream *sum, int bytes)
{
    add(r, 1, 2);
    add(r, (uint64_t)bytes, 2);
    add(r, sum->bytes, 8);
    add(r, sum->bytes, 8);
}

static void add_name(struct record *r, const char *name)
{
    memcpy(r->p + r->n, name, strlen(name));
    r->n += strlen(name);
}

static wisp_status put_directory(struct wisp_out *out, const struct stream *sums,
                                 const uint64_t *at, wisp_error *err)
{
    uint64_t start = wisp_out_offset(out);
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < N_ARRAYS && !st; i++) {
        struct record r = { .n = 0 };
        add(&r, 0x02014b50, 4);
        add(&r, ZIP64, 2);
        add_common(&r, &sums[i], strlen(arrays[i].name), 28);
        add(&r, 0, 2 + 2 + 2 + 4); /* comment, part, attributes */
        add(&r, 0xffffffff, 4);
        add_name(&r, arrays[i].name);
        add_sizes(&r, &sums[i], 24);
        add(&r, at[i], 8);
        st = wisp_out_write(out, r.p, r.n, err);
    }
    uint64_t end = wisp_out_offset(out);
    struct record r = { .n = 0 };
    add(&r, 0x06064b50, 4); /* zip64 end */
    add(&r, 44, 8);
    add(&r, ZIP64, 2);
    add(&r, ZIP64, 2);
    add(&r, 0, 8); /* parts */
    add(&r, N_ARRAYS, 8);
    add(&r, N_ARRAYS, 8);
    add(&r, end - start, 8);
    add(&r, start, 8);
    add(&r, 0x07064b50, 4); /* locator */
    add(&r, 0, 4);
    add(&r, end, 8);
    add(&r, 1, 4);
    add(&r, 0x06054b50, 4); /* end */
    add(&r, 0, 4);
    add(&r, 0xffff, 2);
    add(&r, 0xffff, 2);
    add(&r, 0xffffffff, 4);
    add(&r, 0xffffffff, 4);
    add(&r, 0, 2);
    return st ? st : wisp_out_write(out, r.p, r.n, err);
}

static wisp_status put_archive(struct wisp_out *out, const struct part *m, wisp_error *err)
{
    struct stream sums[N_ARRAYS];
    uint64_t at[N_ARRAYS];
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < N_ARRAYS && !st; i++) {
        sums[i] = (struct stream){ .err = err };
        at[i] = wisp_out_offset(out);
        if ((st = arrays[i].put(&sums[i], m)) != WISP_OK) break;
        struct record r = { .n = 0 };
        add(&r, 0x04034b50, 4);
        add_common(&r, &sums[i], strlen(arrays[i].name), 20);
        add_name(&r, arrays[i].name);
        add_sizes(&r, &sums[i], 16);
        st = wisp_out_write(out, r.p, r.n, err);
        if (!st) st = arrays[i].put(&(struct stream){ .out = out, .err = err }, m);
    }
    return st ? st : put_directory(out, sums, at, err);
}

/* Labels are written even where there are none: an old file must not be taken for them. */
wisp_status wisp_npz_write(const struct wisp_data *d, struct wisp_context *ctx, const char *path,
                           wisp_error *err)
{
    (void)ctx;
    char *y_path = wisp_npz_labels_path(path);
    if (!y_path) return wisp_fail_mem(err, strlen(path) + 7, "a path");
    struct wisp_out *x = NULL, *y = NULL;
    wisp_status st = wisp_out_create(&x, path, err);
    if (!st) st = wisp_out_create(&y, y_path, err);
    if (!st) st = put_archive(x, &(struct part){ d, false }, err);
    if (!st) st = put_archive(y, &(struct part){ d, true }, err);
    if (!st) {
        st = wisp_out_commit(y, err);
        y = NULL;
    }
    if (!st) {
        st = wisp_out_commit(x, err);
        x = NULL;
    }
    wisp_out_abort(x);
    wisp_out_abort(y);
    wisp_free(y_path);
    return st;
}
