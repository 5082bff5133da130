/* Fuzzing npz archives: any bytes, and archives that are whole with any arrays in them.
 *
 * Raw: the bytes are NAME.npz, and with BOTH the part behind the first two bytes' number of them is
 * NAME.y.npz.  Else they are records, of which an archive with right sizes and checksums is made:
 *
 *   what (1 byte) | length (2 bytes, low first) | npy bytes          ... */
#define FUZZ_NAME   "fuzz_npz"
#define FUZZ_ERRORS WISP_EFORMAT, WISP_ENOTSUP, WISP_EINVAL /* as words, by its bytes */
#define FUZZ_WORDS                                                                                 \
    "PK\3\4", "PK\1\2", "PK\5\6", "PK\6\6", "PK\6\7", "\x93NUMPY\1", "{'descr': '<f4', ", "'<i8'", \
        "'|b1'", "'<U3'", "'|S3'", "'<f8'", "'>i4'", "(3,)", "(2, 2)", "()",                       \
        ", 'shape': (1,), }\n", "18446744073709551616", "9223372036854775807",                     \
        "'fortran_order': True"
#define FUZZ_MUTANTS 12000
#include "fuzz/rows.h"

#include "data/rowtext.h"

enum { RAW = 1, BOTH = 2, FEATURES_3 = 4, LABELS_2 = 8, CACHED = 16 };           /* how */
enum { FORMAT, SHAPE, INDPTR, INDICES, DATA, OTHER, IMAGES, LABELS, N_NAMES };   /* what */
enum { PACKED = 8, IN_LABELS = 16, BAD_SUM = 32, ODD_METHOD = 64, ZIP64 = 128 }; /* and */
static const char *const names[] = { "format.npy", "shape.npy", "indptr.npy", "indices.npy",
                                     "data.npy",   "other",     "x.npy",      "y.npy" };

/* ---- a zip archive ---- */

struct zip {
    uint8_t p[4 * FUZZ_ROOM];
    size_t n, n_entries;
    uint8_t dir[FUZZ_ROOM];
    size_t n_dir;
};

static uint8_t *put(uint8_t *to, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) *to++ = (uint8_t)(v >> 8 * i);
    return to;
}

static void add_entry(struct zip *z, unsigned what, const uint8_t *p, size_t n)
{
    static uint8_t packed[2 * FUZZ_ROOM];
    const char *name = names[what % N_NAMES];
    const size_t name_bytes = strlen(name), at = z->n;
    uint64_t crc = crc32(0, p, (unsigned)n), bytes = n;
    if (z->n + n + 2 * FUZZ_ROOM > sizeof z->p || z->n_dir + 128 > sizeof z->dir) return;
    if (what & PACKED) { /* deflate: gzip without its head (10) and tail (8) */
        size_t m = fuzz_pack(FUZZ_GZIP, packed, sizeof packed, p, n);
        p = packed + 10;
        n = m - 18;
    }
    unsigned method = what & ODD_METHOD ? 12 : what & PACKED ? 8 : 0;
    if (what & BAD_SUM) crc ^= 1;
    uint8_t *h = put(put(put(z->p + z->n, 0x04034b50, 4), 20, 2), 0, 2);
    h = put(put(put(put(put(h, method, 2), 0, 4), crc, 4), n, 4), bytes, 4);
    h = put(put(h, name_bytes, 2), 0, 2);
    memcpy(h, name, name_bytes);
    memcpy(h + name_bytes, p, n);
    z->n = (size_t)(h - z->p) + name_bytes + n;
    const bool wide = what & ZIP64;
    h = put(put(put(put(z->dir + z->n_dir, 0x02014b50, 4), 20, 2), 20, 2), 0, 2);
    h = put(put(put(h, method, 2), 0, 4), crc, 4);
    h = put(put(h, wide ? 0xffffffff : n, 4), wide ? 0xffffffff : bytes, 4);
    h = put(put(put(h, name_bytes, 2), wide ? 24 : 0, 2), 0, 2);
    h = put(put(put(h, 0, 4), 0, 4), at, 4);
    memcpy(h, name, name_bytes);
    h += name_bytes;
    if (wide) h = put(put(put(put(put(put(h, 9, 2), 0, 2), 1, 2), 16, 2), bytes, 8), n, 8);
    z->n_dir = (size_t)(h - z->dir);
    z->n_entries++;
}

static const char *save_zip(struct zip *z, const char *name, bool wide)
{
    const size_t at = z->n;
    memcpy(z->p + z->n, z->dir, z->n_dir);
    uint8_t *h = z->p + z->n + z->n_dir;
    if (wide) {
        const size_t end = (size_t)(h - z->p);
        h = put(put(put(put(put(h, 0x06064b50, 4), 44, 8), 45, 4), 0, 8), z->n_entries, 8);
        h = put(put(put(h, z->n_entries, 8), z->n_dir, 8), at, 8);
        h = put(put(put(put(h, 0x07064b50, 4), 0, 4), end, 8), 1, 4);
    }
    h = put(put(put(h, 0x06054b50, 4), 0, 4), z->n_entries, 2);
    h = put(put(h, wide ? 0xffff : z->n_entries, 2), z->n_dir, 4);
    h = put(put(h, wide ? 0xffffffff : at, 4), 0, 2);
    return fuzz_save(name, z->p, (size_t)(h - z->p));
}

/* Records to x.npz and, where some are of labels, x.y.npz. */
static void assemble(const uint8_t *p, size_t n)
{
    static struct zip z[2];
    bool wide = false;
    for (int i = 0; i < 2; i++) z[i].n = z[i].n_dir = z[i].n_entries = 0;
    while (n >= 3) {
        size_t len = p[1] | (size_t)p[2] << 8;
        if (len > n - 3) len = n - 3;
        add_entry(&z[!!(p[0] & IN_LABELS)], p[0], p + 3, len);
        wide |= p[0] & ZIP64;
        p += 3 + len;
        n -= 3 + len;
    }
    save_zip(&z[0], "x.npz", wide);
    if (z[1].n_entries) save_zip(&z[1], "x.y.npz", wide);
}

/* ---- reading ---- */

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    struct wisp_read_options o = { .format = how & CACHED ? NULL : "npz",
                                   .n_features = how & FEATURES_3 ? 3 : 0,
                                   .n_labels = how & LABELS_2 ? 2 : 0,
                                   .use_cache = how & CACHED };
    wisp_cache_min = 0;
    struct wisp_data *d;
    unlink(fuzz_path("x.y.npz"));
    unlink(fuzz_path("x.npz.wispcache"));
    if (!(how & RAW)) {
        assemble(p, n);
    } else if (how & BOTH && n >= 2) {
        size_t first = p[0] | (size_t)p[1] << 8;
        if (first > n - 2) first = n - 2;
        fuzz_save("x.npz", p + 2, first);
        fuzz_save("x.y.npz", p + 2 + first, n - 2 - first);
    } else {
        fuzz_save("x.npz", p, n);
    }
    if (!fuzz_measuring) wisp_ids_max = 1 << 12;
    wisp_status st = wisp_data_read(&d, &fuzz_one_thread, fuzz_path("x.npz"), &o, err);
    if (!d != (st != WISP_OK)) fuzz_die("an error, and data", err);
    if (!d) return st;
    rows_check(d, true);
    unlink(fuzz_path("again.y.npz"));
    if (!rows_round_trip(d, "npz", "again.npz") && !fuzz_starved)
        fuzz_die("cannot be written", err);
    wisp_data_free(d);
    return st;
}

/* ---- seeds ---- */

struct text {
    uint8_t p[FUZZ_ROOM];
    size_t n;
};

/* A record: an array of n numbers. */
static void array(struct text *t, unsigned what, const char *type, const char *shape,
                  const void *data, size_t bytes)
{
    char head[128];
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\1\0\x76\0", 10);
    int n = snprintf(head + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type,
                     shape);
    head[10 + n] = ' ';
    head[127] = '\n';
    uint8_t *to = put(put(t->p + t->n, what, 1), sizeof head + bytes, 2);
    memcpy(to, head, sizeof head);
    memcpy(to + sizeof head, data, bytes);
    t->n += 3 + sizeof head + bytes;
}

static void matrix(struct text *t, unsigned and, const char *ids, const char *values)
{
    static const int64_t shape[] = { 3, 7 }, ptr64[] = { 0, 2, 2, 4 }, id64[] = { 6, 1, 0, 3 };
    static const int32_t ptr32[] = { 0, 2, 2, 4 }, id32[] = { 6, 1, 0, 3 };
    static const float f4[] = { 1, -2.5f, 0, 3 };
    static const double f8[] = { 1, -2.5, 0, 3 };
    static const uint8_t u1[] = { 1, 1, 0, 3 };
    static const int16_t i2[] = { 1, -1, 0, 3 };
    const bool wide = strcmp(ids, "<i8") == 0;
    array(t, FORMAT | and, "|S3", "()", "csr", 3);
    array(t, SHAPE | and, "<i8", "(2,)", shape, sizeof shape);
    array(t, INDPTR | and, ids, "(4,)", wide ? (const void *)ptr64 : ptr32, wide ? 32 : 16);
    array(t, INDICES | and, ids, "(4,)", wide ? (const void *)id64 : id32, wide ? 32 : 16);
    if (!strcmp(values, "<f4")) array(t, DATA | and, values, "(4,)", f4, sizeof f4);
    else if (!strcmp(values, "<f8")) array(t, DATA | and, values, "(4,)", f8, sizeof f8);
    else if (!strcmp(values, "<i2")) array(t, DATA | and, values, "(4,)", i2, sizeof i2);
    else array(t, DATA | and, values, "(4,)", u1, sizeof u1);
}

/* One array that is not as it must be, after those that are. */
static void with_wrong(struct text *t, unsigned what, const char *type, const char *shape,
                       const void *data, size_t bytes)
{
    t->n = 0;
    array(t, what, type, shape, data, bytes); /* the first of a name counts */
    matrix(t, 0, "<i4", "<f4");
}

/* Arrays of images, with labels and without. */
static size_t image_seed(uint8_t *to, size_t i)
{
    static const struct {
        const char *type, *shape, *y_type, *y_shape;
        size_t bytes, y_bytes;
        unsigned how, twice;
    } seeds[] = {
        { "|u1", "(2, 1, 2, 3)", "<i8", "(2,)", 12, 16, 0, 0 },
        { "|u1", "(2, 5, 2, 3)", "|u1", "(2, 1)", 60, 2, CACHED, 0 }, /* channels last */
        { "<f4", "(2, 2, 3)", NULL, NULL, 48, 0, 0, 0 },
        { "<f8", "(1, 2, 3)", "<u2", "(1,)", 48, 2, 0, 0 },
        { "|u1", "(2, 1, 2, 3)", NULL, NULL, 12, 0, FEATURES_3, 0 },
        { "<i4", "(2, 1, 2, 3)", NULL, NULL, 48, 0, 0, 0 },
        { "|u1", "(2, 1, 0, 3)", NULL, NULL, 0, 0, 0, 0 },
        { "|u1", "(2, 1, 2, 3)", "<f4", "(2,)", 12, 8, 0, 0 },
        { "|u1", "(2, 1, 2, 3)", "<i4", "(3,)", 12, 12, 0, 0 },
        { "|u1", "(2, 1, 2, 3)", NULL, NULL, 12, 0, 0, 1 },
    };
    static const uint8_t data[64] = { 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 7, 0, 5 };
    static struct text t;
    if (i >= sizeof seeds / sizeof *seeds) return 0;
    t.n = 0;
    array(&t, IMAGES, seeds[i].type, seeds[i].shape, data, seeds[i].bytes);
    if (seeds[i].twice) array(&t, LABELS, seeds[i].type, seeds[i].shape, data, seeds[i].bytes);
    if (seeds[i].y_type)
        array(&t, LABELS, seeds[i].y_type, seeds[i].y_shape, data, seeds[i].y_bytes);
    return fuzz_put(to, seeds[i].how, t.p, t.n);
}

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    static const struct {
        unsigned what;
        const char *type, *shape;
        uint8_t data[32];
        size_t bytes;
    } wrong[] = {
        { FORMAT, "<U3", "()", "c\0\0\0s\0\0\0c\0\0", 12 },
        { FORMAT, "<i4", "(1,)", { 1 }, 4 },
        { SHAPE, "<f8", "(2,)", { 0 }, 16 },
        { SHAPE, "<i8", "(2,)", { 3, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255 }, 16 },
        { SHAPE, "<i8", "(2,)", { 0, 0, 0, 0, 0, 0, 0, 16, 1 }, 16 }, /* 2^60 rows */
        { SHAPE, "<i4", "(2,)", { 3, 0, 0, 0, 2 }, 8 },               /* ids out of range */
        { INDPTR, "<u4", "(4,)", { 0 }, 16 },
        { INDPTR, "<i4", "(3,)", { 0 }, 12 },
        { INDPTR, "<i4", "(4,)", { 1 }, 16 },
        { INDPTR, "<i4", "(4,)", { 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 4 }, 16 },
        { INDPTR, "<i4", "(4,)", { 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 9 }, 16 },
        { INDICES, "<i4", "(2, 2)", { 0 }, 16 },
        { INDICES, "<i4", "(3,)", { 0 }, 12 },
        { INDICES, "<i4", "(4,)", { 255, 255, 255, 255 }, 16 },
        { INDICES, "<i4", "(4)", { 0 }, 16 },
        { INDICES, "<i4", "(4611686018427387905, 4)", { 0 }, 16 },
        { INDICES, "<i4", "(5,)", { 0 }, 16 },
        { DATA, "<f2", "(4,)", { 0 }, 8 },
        { DATA, "<f4", "(4,)", { 0, 0, 192, 127 }, 16 },
        { DATA, ">f4", "(4,)", { 0 }, 16 },
        { OTHER, "<f4", "(4,)", { 0 }, 16 },
        { FORMAT | ODD_METHOD, "|S3", "()", "csr", 3 },
        { SHAPE | BAD_SUM, "<i4", "(2,)", { 3, 0, 0, 0, 7 }, 8 },
    };
    enum { N_WRONG = sizeof wrong / sizeof *wrong };
    static struct text t;
    static const char *const values[] = { "<f4", "<f8", "<i2", "|b1", "|u1" };
    if (i < 5) { /* good ones; the last two also as raw bytes, below */
        t.n = 0;
        matrix(&t, i == 1 ? PACKED : i == 2 ? ZIP64 : 0, i % 2 ? "<i8" : "<i4", values[i]);
        if (i) matrix(&t, IN_LABELS | (i == 3 ? PACKED : 0), "<i4", values[(i + 2) % 5]);
        return fuzz_put(to,
                        i == 2   ? FEATURES_3
                        : i == 3 ? LABELS_2
                        : i == 4 ? CACHED
                                 : 0,
                        t.p, t.n);
    }
    i -= 5;
    if (i < N_WRONG) {
        with_wrong(&t, wrong[i].what, wrong[i].type, wrong[i].shape, wrong[i].data, wrong[i].bytes);
        return fuzz_put(to, 0, t.p, t.n);
    }
    i -= N_WRONG;
    if (i < 4) { /* the same as bytes of an archive: plain, packed, zip64, with labels */
        static uint8_t raw[FUZZ_ROOM];
        t.n = 0;
        matrix(&t, i == 1 ? PACKED : i == 2 ? ZIP64 : 0, "<i4", "<f4");
        assemble(t.p, t.n);
        size_t n = fuzz_load("x.npz", raw, sizeof raw);
        if (i < 3) return fuzz_put(to, RAW, raw, n);
        memmove(raw + 2, raw, n);
        put(raw, n, 2);
        n += 2 + fuzz_load("x.npz", raw + n + 2, sizeof raw - n - 2);
        return fuzz_put(to, RAW | BOTH, raw, n);
    }
    i -= 4;
    if (i == 2) { /* an entry that claims 2 GB */
        static uint8_t raw[FUZZ_ROOM];
        t.n = 0;
        matrix(&t, PACKED, "<i4", "<f4");
        assemble(t.p, t.n);
        size_t n = fuzz_load("x.npz", raw, sizeof raw);
        uint8_t *entry = memmem(raw, n, "PK\1\2", 4);
        put(entry + 24, 0x7fffffff, 4);
        return fuzz_put(to, RAW, raw, n);
    }
    if (i >= 3) return image_seed(to, i - 3);
    if (i == 0) { /* labels of another number of rows */
        const int32_t shape[] = { 2, 7 }, ptr[] = { 0, 0, 1 };
        t.n = 0;
        matrix(&t, 0, "<i4", "<f4");
        array(&t, SHAPE | IN_LABELS, "<i4", "(2,)", shape, 8);
        array(&t, INDPTR | IN_LABELS, "<i4", "(3,)", ptr, 12);
        matrix(&t, IN_LABELS, "<i4", "<f4");
        return fuzz_put(to, 0, t.p, t.n);
    }
    if (i == 1) { /* one feature twice in a row, beyond the largest float */
        const float big[] = { 3e38f, 3e38f, 1, 1 };
        const int32_t same[] = { 1, 1, 0, 3 };
        t.n = 0;
        array(&t, DATA, "<f4", "(4,)", big, 16);
        array(&t, INDICES, "<i4", "(4,)", same, 16);
        matrix(&t, 0, "<i4", "<f4");
        return fuzz_put(to, 0, t.p, t.n);
    }
    return 0;
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
    TEST(FUZZ_NAME ": an archive is no text in memory");
    const struct wisp_read_options o = { .format = "npz" };
    struct wisp_data *d;
    wisp_error err;
    CHECK(wisp_data_read_text(&d, NULL, "PK\3\4", 4, "t", &o, &err) == WISP_ENOTSUP, "%s",
          err.text);
}
#endif
