/* Fuzzing idx images: plain or packed, with labels beside them or without.
 *
 *   length (2 bytes, low first) | that many bytes of images | labels, with LABELS */
#define FUZZ_NAME    "fuzz_idx"
#define FUZZ_ERRORS  WISP_EFORMAT, WISP_EINVAL, WISP_ENOTSUP /* as words, as npz: by its bytes */
#define FUZZ_WORDS   "\1\1\10\3", "\1\1\10\1", "\377\377\377\377", "\200"
#define FUZZ_MUTANTS 12000
#include "fuzz/rows.h"

#include "base/idx.h"

enum { LABELS = 1, GZIP = 2, ZSTD = 4, IN_MEMORY = 8, FEATURES_3 = 16, PROBE = 32 };
#define NAME "x-images-idx3-ubyte"

static void save_packed(unsigned how, const char *name, const uint8_t *p, size_t n)
{
    static uint8_t packed[2 * FUZZ_ROOM];
    if (how & (GZIP | ZSTD) && n < FUZZ_ROOM) {
        n = fuzz_pack(how & GZIP ? FUZZ_GZIP : FUZZ_ZSTD, packed, sizeof packed, p, n);
        p = packed;
    }
    fuzz_save(name, p, n);
}

static void open_alone(int n_dims, const char *path)
{
    struct wisp_idx x;
    wisp_error err;
    unsigned sum = 0;
    wisp_status st = wisp_idx_open(&x, path, n_dims, &err);
    bool starved = st == WISP_ENOMEM && fuzz_starved; /* small files are copied */
    if (st != WISP_OK && st != WISP_EFORMAT && !starved) fuzz_die("an error of another kind", &err);
    for (size_t i = 0; x.data && i < (size_t)x.size[0] * x.size[1] * x.size[2]; i++)
        sum += x.data[i];
    fuzz_sink = sum;
    wisp_idx_close(&x);
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    const struct wisp_read_options o = { .format = how & PROBE ? NULL : "idx",
                                         .n_features = how & FEATURES_3 ? 3 : 0 };
    struct wisp_data *d;
    if (!fuzz_measuring)
        wisp_ids_max = 1 << 12; /* other formats, by the bytes: counts per id are arrays */
    size_t images = n < 2 ? 0 : p[0] | (size_t)p[1] << 8;
    if (n >= 2) p += 2, n -= 2;
    if (images > n) images = n;
    save_packed(how, NAME, p, images);
    unlink(fuzz_path("x-labels-idx1-ubyte"));
    if (how & LABELS) {
        save_packed(how, "x-labels-idx1-ubyte", p + images, n - images);
        open_alone(1, fuzz_path("x-labels-idx1-ubyte"));
    }
    open_alone(3, fuzz_path(NAME));
    wisp_status st = how & IN_MEMORY
                         ? wisp_data_read_text(&d, NULL, (const char *)p, images, "t", &o, err)
                         : wisp_data_read(&d, NULL, fuzz_path(NAME), &o, err);
    if (!d != (st != WISP_OK)) fuzz_die("an error, and data", err);
    if (d) rows_check(d, true);
    wisp_data_free(d);
    return st;
}

#define IMAGES "\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\3\0\1\377\0\0\7\0\0\0\0\0\200"
static const struct fuzz_text_seed seeds[] = {
    SEED(0, "\34\0" IMAGES),
    SEED(PROBE, "\34\0" IMAGES),
    SEED(LABELS, "\34\0" IMAGES "\0\0\10\1\0\0\0\2\7\377"),
    SEED(LABELS | GZIP | FEATURES_3, "\34\0" IMAGES "\0\0\10\1\0\0\0\2\7\377"),
    SEED(LABELS | ZSTD, "\34\0" IMAGES "\0\0\10\1\0\0\0\2\7\377"),
    SEED(LABELS, "\34\0" IMAGES "\0\0\10\1\0\0\0\3\7\377\1"),
    SEED(LABELS, "\34\0" IMAGES "\0\0\10\1\0\0\0\2\7"),
    SEED(LABELS, "\34\0" IMAGES "\0\0\11\1\0\0\0\2\7\7"),
    SEED(IN_MEMORY | FEATURES_3, "\34\0" IMAGES),
    SEED(IN_MEMORY, "\34\0\0\0\10\3\377\377\377\377\377\377\377\377\377\377\377\377zzzzzzzzzzzz"),
    SEED(0, "\20\0\0\0\10\3\0\0\0\0\0\0\0\2\0\0\0\3"),
    SEED(0, "\7\0\0\0\10\3\0\0\0"),
    SEED(GZIP, "\34\0" IMAGES),
    SEED(0, "\24\0\x1f\x8b\x08\0\0\0\0\0\0\3garbage!xx"),
    SEED(IN_MEMORY, "\24\0\x28\xb5\x2f\xfdgarbagegarbagexx"),
    SEED(GZIP, "\35\0" IMAGES "\1"),
};

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    const size_t n = sizeof seeds / sizeof *seeds;
    return i < n ? fuzz_put(to, seeds[i].how, seeds[i].text, seeds[i].n) : 0;
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
    TEST(FUZZ_NAME
         ": names that say nothing of labels; labels that are no file; more than a buffer");
    static uint8_t big[200000] = "\0\0\10\3\0\0\2\0\0\0\0\20\0\0\0\20", packed[200000];
    const struct wisp_read_options o = { .format = "idx" };
    struct wisp_data *d;
    wisp_error err;
    fuzz_save("pictures", "" IMAGES, sizeof IMAGES - 1);
    CHECK(wisp_data_read(&d, NULL, fuzz_path("pictures"), &o, &err) == WISP_OK, "%s", err.text);
    wisp_data_free(d);
    mkdir(fuzz_path("z-labels-idx1-ubyte"), 0777);
    fuzz_save("z-images-idx3-ubyte", "" IMAGES, sizeof IMAGES - 1);
    CHECK(wisp_data_read(&d, NULL, fuzz_path("z-images-idx3-ubyte"), &o, &err) == WISP_EIO, "%s",
          err.text);
    struct wisp_idx x;
    CHECK(wisp_idx_open(&x, fuzz_path("nowhere"), 3, &err) == WISP_EIO, "%s", err.text);
    size_t n = fuzz_pack(FUZZ_ZSTD, packed, sizeof packed, big, 16 + 512 * 256);
    fuzz_save("w-images-idx3-ubyte", packed, n);
    CHECK(wisp_data_read(&d, NULL, fuzz_path("w-images-idx3-ubyte"), &o, &err) == WISP_OK &&
              d->n_rows == 512,
          "%s", err.text);
    wisp_data_free(d);
}
#endif
