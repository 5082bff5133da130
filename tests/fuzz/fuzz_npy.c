/* Fuzzing arrays of images: any bytes as NAME.npy, with labels in NAME.y.npy or without.
 *
 *   length (2 bytes, low first) | that many bytes of images | labels, with LABELS */
#define FUZZ_NAME   "fuzz_npy"
#define FUZZ_ERRORS WISP_EFORMAT, WISP_ENOTSUP, WISP_EINVAL
#define FUZZ_WORDS                                                                                 \
    "\x93NUMPY\1", "{'descr': '|u1', ", "'<f4'", "'<f8'", "'<i8'", "(2, 1, 2, 3)", "(2, 5, 2, 3)", \
        "(2,)", "'fortran_order': True", "4294967296"
#define FUZZ_MUTANTS 12000
#include "fuzz/rows.h"

enum { LABELS = 1, FEATURES_3 = 2, PROBE = 4 };

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    const struct wisp_read_options o = { .format = how & PROBE ? NULL : "npy",
                                         .n_features = how & FEATURES_3 ? 3 : 0 };
    struct wisp_data *d;
    if (!fuzz_measuring) wisp_ids_max = 1 << 12;
    size_t images = n < 2 ? 0 : p[0] | (size_t)p[1] << 8;
    if (n >= 2) p += 2, n -= 2;
    if (images > n) images = n;
    fuzz_save("x.npy", p, images);
    unlink(fuzz_path("x.y.npy"));
    if (how & LABELS) fuzz_save("x.y.npy", p + images, n - images);
    wisp_status st = wisp_data_read(&d, NULL, fuzz_path("x.npy"), &o, err);
    if (!d != (st != WISP_OK)) fuzz_die("an error, and data", err);
    if (d) rows_check(d, true);
    wisp_data_free(d);
    return st;
}

static const struct {
    unsigned how;
    const char *type, *order, *shape;
    size_t bytes;
    const char *y_type, *y_shape;
    size_t y_bytes;
} seeds[] = {
    { PROBE, "|u1", "False", "(2, 1, 2, 3)", 12, NULL, NULL, 0 },
    { LABELS, "|u1", "False", "(2, 5, 2, 3)", 60, "<i8", "(2,)", 16 },
    { LABELS, "<f4", "False", "(2, 2, 3)", 48, "|u1", "(2, 1)", 2 },
    { LABELS | FEATURES_3, "<f8", "False", "(1, 2, 3)", 48, "<u4", "(1,)", 4 },
    { FEATURES_3, "|u1", "False", "(2, 1, 2, 3)", 12, NULL, NULL, 0 },
    { 0, "|u1", "True", "(2, 1, 2, 3)", 12, NULL, NULL, 0 },
    { 0, "<i2", "False", "(2, 1, 2, 3)", 24, NULL, NULL, 0 },
    { 0, "|u1", "False", "(12,)", 12, NULL, NULL, 0 },
    { 0, "|u1", "False", "(2, 0, 2, 3)", 0, NULL, NULL, 0 },
    { 0, "|u1", "False", "(2, 4294967296, 4294967296, 1)", 0, NULL, NULL, 0 },
    { LABELS, "|u1", "False", "(2, 1, 2, 3)", 12, "<f4", "(2,)", 8 },
    { LABELS, "|u1", "False", "(2, 1, 2, 3)", 12, "<i4", "(3,)", 12 },
    { LABELS, "|u1", "False", "(2, 1, 2, 3)", 12, "<i4", "(2,)", 8 },
};

static size_t array(uint8_t *to, const char *type, const char *order, const char *shape,
                    size_t bytes)
{
    static const uint8_t data[64] = { 1, 0, 0, 0, 0, 0, 0, 255, 2, 0, 7, 0, 5 };
    memset(to, ' ', 128);
    memcpy(to, "\x93NUMPY\1\0\x76\0", 10);
    int n = snprintf((char *)to + 10, 118, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }",
                     type, order, shape);
    to[10 + n] = ' ';
    to[127] = '\n';
    memcpy(to + 128, data, bytes);
    return 128 + bytes;
}

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    static uint8_t b[1000];
    if (i >= sizeof seeds / sizeof *seeds) return 0;
    size_t n = array(b + 2, seeds[i].type, seeds[i].order, seeds[i].shape, seeds[i].bytes);
    b[0] = (uint8_t)n, b[1] = (uint8_t)(n >> 8);
    n += 2;
    if (seeds[i].y_type)
        n += array(b + n, seeds[i].y_type, "False", seeds[i].y_shape, seeds[i].y_bytes);
    return fuzz_put(to, seeds[i].how, b, n);
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
    TEST(FUZZ_NAME ": labels that are no file");
    const struct wisp_read_options o = { .format = "npy" };
    struct wisp_data *d;
    wisp_error err;
    uint8_t b[1000];
    fuzz_save("z.npy", b, array(b, "|u1", "False", "(2, 1, 2, 3)", 12));
    mkdir(fuzz_path("z.y.npy"), 0777);
    CHECK(wisp_data_read(&d, NULL, fuzz_path("z.npy"), &o, &err) == WISP_EIO, "%s", err.text);
}
#endif
