/* npz: round trip, what numpy may write (types, headers), damaged archives, full memory. */
#include "test.h"
#include "error_rig.h"
#include "base/mem.h"
#include "data/data.h"

#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char dir[40] =
    "/dev/shm/wisp_npz_XXXXXX"; /* thousands of files: not on a disk, if possible */
static char x_path[100], y_path[100];

static char last_line[300];
static void hear(void *arg, const char *line)
{
    (void)arg;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static wisp_status load_with(struct wisp_data **d, const struct wisp_read_options *o,
                             size_t *dropped, wisp_error *err)
{
    struct wisp_context ctx = { .say = hear };
    struct wisp_source src = { .ctx = &ctx, .path = x_path, .o = o };
    struct wisp_sink *sink;
    *d = NULL;
    wisp_status st = wisp_sink_create(&sink, NULL, err);
    if (st != WISP_OK) return st;
    st = wisp_format_npz.read(&src, sink, err);
    if (dropped) *dropped = src.n_dropped_features;
    if (st == WISP_OK) return wisp_sink_finish(d, sink, err);
    wisp_sink_abort(sink);
    return st;
}

static wisp_status load(struct wisp_data **d, wisp_error *err)
{
    return load_with(d, &(struct wisp_read_options){ .index_base = -1 }, NULL, err);
}

static bool same(const struct wisp_data *a, const struct wisp_data *b)
{
    if (a->n_rows != b->n_rows || a->nnz != b->nnz || a->n_lab != b->n_lab ||
        a->n_features != b->n_features || a->n_labels != b->n_labels)
        return false;
    for (size_t i = 0; i < a->n_rows; i++) {
        size_t r, q;
        const struct wisp_rows *x = wisp_data_row(a, i, &r), *y = wisp_data_row(b, i, &q);
        size_t nx = x->xp[r + 1] - x->xp[r], ny = x->yp[r + 1] - x->yp[r];
        if (nx != y->xp[q + 1] - y->xp[q] || ny != y->yp[q + 1] - y->yp[q] ||
            memcmp(x->xi + x->xp[r], y->xi + y->xp[q], 4 * nx) ||
            memcmp(x->xv + x->xp[r], y->xv + y->xp[q], 4 * nx) ||
            memcmp(x->yi + x->yp[r], y->yi + y->yp[q], 4 * ny))
            return false;
    }
    return true;
}

static struct wisp_data *random_rows(size_t n, size_t n_features, size_t n_labels)
{
    struct wisp_builder b = { 0 };
    struct wisp_sink *sink;
    struct wisp_data *d;
    uint64_t s = 5;
    wisp_sink_create(&sink, NULL, NULL);
    wisp_sink_at_least(sink, n_features, n_labels);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = test_rand(&s) % 6; k--;)
            wisp_builder_feature(&b, (int32_t)(test_rand(&s) % n_features), test_randf(&s), NULL);
        for (size_t k = test_rand(&s) % 3; k--;)
            wisp_builder_label(&b, (int32_t)(test_rand(&s) % n_labels), NULL);
        wisp_builder_end_row(&b, NULL);
    }
    wisp_sink_add(sink, &b, NULL);
    wisp_builder_clear(&b);
    wisp_sink_finish(&d, sink, NULL);
    return d;
}

static void spew(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0) exit(2);
}

static unsigned char *slurp(const char *path, size_t *n)
{
    struct wisp_map m;
    if (wisp_map_open(&m, path, NULL) != WISP_OK) exit(2);
    unsigned char *p = malloc(m.bytes);
    memcpy(p, m.p, *n = m.bytes);
    wisp_map_close(&m);
    return p;
}

/* ---- archives as another program would write them ---- */

struct file {
    unsigned char p[4096];
    size_t n;
};
static struct file body, directory;
static size_t n_entries;

static void le(struct file *f, uint64_t v, int bytes)
{
    for (; bytes--; v >>= 8) f->p[f->n++] = (unsigned char)v;
}
static void raw(struct file *f, const void *p, size_t n)
{
    memcpy(f->p + f->n, p, n);
    f->n += n;
}

static void entry(const char *name, const void *data, size_t n, bool packed)
{
    unsigned char out[2048];
    size_t at = body.n, n_out = n;
    memcpy(out, data, n);
    if (packed) {
        z_stream z = { .next_in = (unsigned char *)data,
                       .avail_in = (unsigned)n,
                       .next_out = out,
                       .avail_out = sizeof out };
        deflateInit2(&z, 9, Z_DEFLATED, -15, 8, 0);
        deflate(&z, Z_FINISH);
        n_out = sizeof out - z.avail_out;
        deflateEnd(&z);
    }
    uint32_t crc = (uint32_t)crc32(0, data, (unsigned)n);
    for (int central = 0; central < 2; central++) {
        struct file *f = central ? &directory : &body;
        le(f, central ? 0x02014b50 : 0x04034b50, 4);
        if (central) le(f, 20, 2);
        le(f, 20, 2), le(f, 0, 2), le(f, packed ? 8 : 0, 2), le(f, 0, 4);
        le(f, crc, 4), le(f, n_out, 4), le(f, n, 4), le(f, strlen(name), 2), le(f, 0, 2);
        if (central) le(f, 0, 2), le(f, 0, 4), le(f, 0, 4), le(f, at, 4);
        raw(f, name, strlen(name));
    }
    raw(&body, out, n_out);
    n_entries++;
}

static void npy(const char *name, const char *head, const void *data, size_t n, bool packed)
{
    struct file f = { .n = 0 };
    raw(&f, "\x93NUMPY\1\0", 8);
    le(&f, strlen(head) + 1, 2);
    raw(&f, head, strlen(head));
    for (size_t i = 10; i < f.n; i++) /* '#' stands for a NUL */
        if (f.p[i] == '#') f.p[i] = 0;
    raw(&f, "\n", 1);
    raw(&f, data, n);
    entry(name, f.p, f.n, packed);
}

static void finish(const char *path)
{
    size_t at = body.n;
    raw(&body, directory.p, directory.n);
    le(&body, 0x06054b50, 4), le(&body, 0, 4), le(&body, n_entries, 2), le(&body, n_entries, 2);
    le(&body, directory.n, 4), le(&body, at, 4), le(&body, 0, 2);
    spew(path, body.p, body.n);
    body.n = directory.n = n_entries = 0;
}

#define HEAD(type, shape) "{'descr': '" type "', 'fortran_order': False, 'shape': " shape ", }"

struct sample { /* a 2 x 5 matrix with five values: what a test changes, it sets */
    const char *type, *data_head, *index_head, *format_head;
    const void *data, *indices, *indptr, *shape, *format;
    size_t bytes, index_bytes, format_bytes;
    bool packed;
};

static const int32_t indices[5] = { 3, 0, 3, 4, 1 };
static const int32_t indptr[3] = { 0, 3, 5 };
static const int64_t shape[2] = { 2, 5 };
static const float floats[5] = { 1, 2, 4, 0, 8 };

static struct sample sample(void)
{
    return (struct sample){ .data_head = HEAD("<f4", "(5,)"),
                            .index_head = HEAD("<i4", "(5,)"),
                            .format_head = HEAD("|S3", "()"),
                            .data = floats,
                            .bytes = sizeof floats,
                            .indices = indices,
                            .index_bytes = sizeof indices,
                            .indptr = indptr,
                            .shape = shape,
                            .format = "csr",
                            .format_bytes = 3 };
}

static void save(const struct sample *s)
{
    npy("indices.npy", s->index_head, s->indices, s->index_bytes, s->packed);
    npy("indptr.npy", HEAD("<i4", "(3,)"), s->indptr, sizeof indptr, s->packed);
    npy("format.npy", s->format_head, s->format, s->format_bytes, s->packed);
    npy("shape.npy", HEAD("<i8", "(2,)"), s->shape, sizeof shape, s->packed);
    npy("data.npy", s->data_head, s->data, s->bytes, s->packed);
    finish(x_path);
}

/* Row 0: 0 -> 2, 3 -> 1 + 4; row 1: 1 -> 8; the 0 is gone. */
static void expect(const struct sample *s, const char *what)
{
    struct wisp_data *d;
    wisp_error err;
    save(s);
    wisp_status st = load(&d, &err);
    CHECK(st == WISP_OK, "%s: %s", what, err.text);
    if (st != WISP_OK) return;
    const struct wisp_rows *b = d->blocks;
    CHECK(d->n_rows == 2 && d->n_features == 5 && d->nnz == 3 && d->n_unlabelled == 2, "%s", what);
    CHECK(b->xp[1] == 2 && b->xi[0] == 0 && b->xi[1] == 3 && b->xi[2] == 1, "%s: ids", what);
    CHECK(b->xv[0] == 2 && b->xv[1] == 5 && b->xv[2] == 8, "%s: values", what);
    wisp_data_free(d);
}

static void refuse(const struct sample *s, const char *text)
{
    struct wisp_data *d;
    wisp_error err = { 0 };
    save(s);
    wisp_status st = load(&d, &err);
    CHECK(st == WISP_EFORMAT && !d && strstr(err.text, text) &&
              !strncmp(err.text, x_path, strlen(x_path)),
          "expected '%s', got %d '%s'", text, st, err.text);
    const char *row = strstr(err.text, " in row ");
    CHECK(err.row == (row ? strtoul(row + 8, NULL, 10) + 1 : err.row) && place_agrees(&err),
          "row %zu: '%s'", err.row, err.text);
    wisp_data_free(d);
}

static void test_kinds(void)
{
    unlink(y_path);
    struct sample s = sample();
    expect(&s, "float32");
    CHECK(strstr(last_line, "no labels"), "said '%s'", last_line);
    s.packed = true;
    expect(&s, "packed");
    s.data = (double[]){ 1, 2, 4, 0, 8 }, s.bytes = 40, s.data_head = HEAD("<f8", "(5,)");
    expect(&s, "float64");
    s.data = (int64_t[]){ 1, 2, 4, 0, 8 }, s.data_head = HEAD("<i8", "(5,)");
    expect(&s, "int64");
    s.data = (uint8_t[]){ 1, 2, 4, 0, 8 }, s.bytes = 5, s.data_head = HEAD("|u1", "(5,)");
    expect(&s, "uint8");
    s.data = (int16_t[]){ 1, 2, 4, 0, 8 }, s.bytes = 10, s.data_head = HEAD("<i2", "(5,)");
    expect(&s, "int16");
    s = sample();
    s.indices = (int64_t[]){ 3, 0, 3, 4, 1 }, s.index_bytes = 40,
    s.index_head = HEAD("<i8", "(5,)");
    expect(&s, "int64 indices");
    s.format = "c\0\0\0s\0\0\0r\0\0", s.format_bytes = 12, s.format_head = HEAD("<U3", "()");
    expect(&s, "unicode format");
    s.data_head = "{'shape':(5,),'fortran_order':True,'descr':'<f4'}";
    expect(&s, "another header");
}

static void test_wrong(void)
{
    struct sample s = sample();
    s.format = "csc";
    refuse(&s, "array 'format': 'csc', expected 'csr'");
    s = sample(), s.indices = (int32_t[]){ 3, 0, 3, 5, 1 };
    refuse(&s, "array 'indices': 5 in row 1, expected 0 to 4");
    s = sample(), s.indices = (int32_t[]){ 3, -1, 3, 4, 1 };
    refuse(&s, "array 'indices': -1 in row 0");
    s = sample(), s.indptr = (int32_t[]){ 0, 6, 5 };
    refuse(&s, "array 'indptr': falls at row 1");
    s = sample(), s.indptr = (int32_t[]){ 1, 3, 5 };
    refuse(&s, "array 'indptr': does not start at 0");
    s = sample(), s.indptr = (int32_t[]){ 0, 3, 6 };
    refuse(&s, "array 'indptr': ends at 6, but there are 5 values");
    s = sample(), s.shape = (int64_t[]){ 3, 5 };
    refuse(&s, "array 'indptr': 3 elements for 3 rows");
    s = sample(), s.shape = (int64_t[]){ -1, 5 };
    refuse(&s, "array 'shape': (-1, 5)");
    s = sample(), s.shape = (int64_t[]){ 2, (int64_t)1 << 31 };
    refuse(&s, "array 'shape': (2, 2147483648)");
    s = sample(), s.data = (uint32_t[]){ 0, 0, 0x7fc00000, 0, 0 };
    refuse(&s, "array 'data': nan in row 0, expected a finite float32");
    s = sample(), s.data = (float[]){ 3e38f, 1, 3e38f, 1, 1 };
    refuse(&s, "row 0: the values of a repeated feature sum to infinity");
    s = sample(), s.bytes = 16;
    refuse(&s, "array 'data': 5 elements of 4 bytes in 16 bytes");
    s = sample(), s.bytes = 16, s.data_head = HEAD("<f4", "(4,)");
    refuse(&s, "array 'indices': 5 elements, but 'data' has 4");
    s = sample();
    const char *heads[] = { HEAD(">f4", "(5,)"),
                            HEAD("<c8", "(5,)"),
                            HEAD("#f4", "(5,)"),
                            HEAD("<#4", "(5,)"),
                            HEAD("<f4", "(5)"),
                            HEAD("<f4", "(99999999999999999999,)"),
                            HEAD("<f4", "(5,)") "x",
                            HEAD("<f4", "(-5,)"),
                            "{'descr': '<f4', 'shape': (5,)}",
                            "",
                            "{",
                            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (5,), }" };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        s.data_head = heads[i];
        refuse(&s, "array 'data': its npy header");
    }
    s.data_head = HEAD("<f2", "(10,)");
    refuse(&s, "array 'data': expected a row of float32");
    s.data_head = HEAD("<f4", "(5, 1)");
    refuse(&s, "array 'data': expected a row of float32");
    s = sample();
    npy("data.npy", HEAD("<f4", "(5,)"), (float[]){ 9, 9, 9, 9, 9 }, sizeof floats, false);
    refuse(&s, "entry 'data.npy' is there twice");
    npy("indices.npy", HEAD("<i4", "(5,)"), indices, sizeof indices, false);
    finish(x_path);
    struct wisp_data *d;
    wisp_error err;
    CHECK(load(&d, &err) == WISP_EFORMAT && strstr(err.text, "array 'format': missing"), "%s",
          err.text);
}

/* ---- round trip and damage ---- */

static void write_or_die(const struct wisp_data *d)
{
    wisp_error err;
    wisp_status st = wisp_format_npz.write(d, NULL, x_path, &err);
    CHECK(st == WISP_OK, "%s", err.text);
}

static void test_round_trip(void)
{
    size_t sizes[] = { 0, 1, 100, 20000 };
    for (size_t i = 0; i < 4; i++) {
        struct wisp_data *d = random_rows(sizes[i], 300, 40), *e;
        wisp_error err;
        write_or_die(d);
        wisp_status st = load(&e, &err);
        CHECK(st == WISP_OK && same(d, e), "%zu rows: %s", sizes[i], st ? err.text : "differ");
        if (i == 2) {
            size_t dropped;
            wisp_data_free(e);
            st = load_with(&e, &(struct wisp_read_options){ .n_features = 100, .n_labels = 50 },
                           &dropped, &err);
            CHECK(st == WISP_OK && e->n_features == 100 && e->n_labels == 50 &&
                      e->nnz + dropped == d->nnz && dropped > 0,
                  "%zu of %zu dropped", dropped, d->nnz);
        }
        wisp_data_free(d);
        wisp_data_free(e);
    }
    /* labels of another data set */
    struct wisp_data *d = random_rows(10, 5, 5), *e = random_rows(9, 5, 5), *f;
    wisp_error err;
    write_or_die(d);
    char keep[100];
    snprintf(keep, sizeof keep, "%s/keep", dir);
    rename(x_path, keep);
    write_or_die(e);
    rename(keep, x_path);
    CHECK(load(&f, &err) == WISP_EFORMAT && strstr(err.text, "9 rows of labels, but"), "%s",
          err.text);
    wisp_data_free(d);
    wisp_data_free(e);
}

/* The columns that stand for names are those that have a value; a 0 that is written down is none. */
static void test_named(void)
{
    static const float values[5] = { 2, 1, 4, 0, 1 };
    struct sample s = sample();
    struct wisp_data *d;
    wisp_error err = { 0 };
    s.data = values;
    save(&s);
    unlink(y_path);
    const struct wisp_read_options o = { .index_base = -1, .named = WISP_NAMED_FEATURES };
    CHECK(load_with(&d, &o, NULL, &err) == WISP_OK, "%s", err.text);
    CHECK(d && d->n_features == 3 && d->nnz == 3, "%zu features, %zu values", d ? d->n_features : 0,
          d ? d->nnz : 0);
    wisp_data_free(d);
}

/* Every cut and every flipped bit of either file: an error, or the same rows. */
static void damage(const char *path, const struct wisp_data *good)
{
    size_t n, undetected = 0;
    unsigned char *p = slurp(path, &n);
    struct wisp_data *d;
    wisp_error err;
    for (size_t cut = 0; cut < n; cut++) {
        spew(path, p, cut);
        wisp_status st = load(&d, &err);
        CHECK(st == WISP_EFORMAT && !d, "cut at %zu of %zu: %d", cut, n, st);
        wisp_data_free(d);
    }
    for (size_t bit = 0; bit < 8 * n; bit += 3) {
        p[bit / 8] ^= (unsigned char)(1 << bit % 8);
        spew(path, p, n);
        p[bit / 8] ^= (unsigned char)(1 << bit % 8);
        wisp_status st = load(&d, &err);
        undetected += st == WISP_OK;
        CHECK(st != WISP_OK || same(d, good), "bit %zu of byte %zu: other rows", bit % 8, bit / 8);
        wisp_data_free(d);
    }
    CHECK(undetected < 8 * n / 4, "%zu flips of %zu bits are fine", undetected, 8 * n);
    spew(path, p, n);
    free(p);
}

static void test_damage(void)
{
    struct wisp_data *d = random_rows(4, 9, 5), *packed;
    write_or_die(d);
    damage(x_path, d);
    damage(y_path, d);
    wisp_data_free(d);
    unlink(y_path);
    struct sample s = sample();
    s.packed = true;
    save(&s);
    if (load(&packed, NULL) != WISP_OK) exit(2);
    damage(x_path, packed);
    wisp_data_free(packed);
}

static void test_bomb(void)
{
    struct sample s = sample();
    struct wisp_data *d;
    wisp_error err;
    s.packed = true;
    save(&s);
    size_t n, at;
    unsigned char *p = slurp(x_path, &n);
    for (at = 0; memcmp(p + at, "PK\1\2", 4); at++) {}
    memset(p + at + 24, 0xee, 4); /* 4 GB from a few bytes */
    spew(x_path, p, n);
    CHECK(load(&d, &err) == WISP_EFORMAT && strstr(err.text, "indices.npy': "), "%s", err.text);
    CHECK(strstr(err.text, "cannot unpack to 4008636142"), "%s", err.text);
    free(p);
    s.packed = false;
    save(&s);
    p = slurp(x_path, &n);
    for (at = 0; memcmp(p + at, "PK\1\2", 4); at++) {}
    memcpy(p + at + 20, "\0\0\0\x40\0\0\0\x40", 8); /* 1 GiB, stored, beyond the file */
    spew(x_path, p, n);
    CHECK(load(&d, &err) == WISP_EFORMAT && strstr(err.text, "reaches into the directory"), "%s",
          err.text);
    free(p);
}

static void test_memory(void)
{
    struct wisp_data *d = random_rows(20, 30, 10), *e = NULL;
    wisp_error err;
    long live = wisp_mem_live;
    for (long n = 0;; n++) {
        wisp_mem_budget = n;
        wisp_status st = wisp_format_npz.write(d, NULL, x_path, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && wisp_mem_live == live, "write after %ld: %s", n, err.text);
    }
    for (int packed = 0; packed < 2; packed++) {
        for (long n = 0;; n++) {
            wisp_mem_budget = n;
            wisp_status st = load(&e, &err);
            wisp_mem_budget = -1;
            if (st == WISP_OK) break;
            CHECK(st == WISP_ENOMEM && !e && wisp_mem_live == live, "read after %ld: %s", n,
                  err.text);
        }
        wisp_data_free(e);
        struct sample s = sample();
        s.packed = true;
        unlink(y_path);
        save(&s);
    }
    CHECK(wisp_mem_live == live, "%ld blocks left", wisp_mem_live - live);
    wisp_data_free(d);
}

int main(void)
{
    if (!mkdtemp(dir)) {
        strcpy(dir, "/tmp/wisp_npz_XXXXXX");
        if (!mkdtemp(dir)) return 2;
    }
    snprintf(x_path, sizeof x_path, "%s/a.npz", dir);
    snprintf(y_path, sizeof y_path, "%s/a.y.npz", dir);

    TEST("npz: types and headers that numpy writes");
    test_kinds();
    TEST("npz: wrong arrays are refused with words");
    test_wrong();
    TEST("npz: round trip");
    test_round_trip();
    TEST("npz: columns by name");
    test_named();
    TEST("npz: cut anywhere, any bit flipped");
    test_damage();
    TEST("npz: an archive that claims to be huge");
    test_bomb();
    TEST("npz: failing allocations");
    test_memory();
    char command[200];
    unlink(x_path), unlink(y_path);
    snprintf(command, sizeof command, "%s/keep", dir);
    unlink(command);
    CHECK(rmdir(dir) == 0, "files left in %s", dir);
    return test_end();
}
