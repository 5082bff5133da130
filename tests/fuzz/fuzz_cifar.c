/* Fuzzing CIFAR records: the input is repeated until records are whole, for bytes alone seldom have
 * the length of any.
 *
 *   with LONG the bytes are tiled to one record of CIFAR-10, with LONGER to one of CIFAR-100 */
#define FUZZ_NAME    "fuzz_cifar"
#define FUZZ_ERRORS  WISP_EFORMAT
#define FUZZ_WORDS   "\11\1", "\23\143", "\377", "\1\1\1\1"
#define FUZZ_MUTANTS 4000
#include "fuzz/rows.h"

enum { LONG = 1, LONGER = 2, IN_MEMORY = 4, FEATURES_3 = 8, PROBE = 16 };

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    static uint8_t b[FUZZ_ROOM];
    const struct wisp_read_options o = { .format = how & PROBE ? NULL : "cifar",
                                         .n_features = how & FEATURES_3 ? 3 : 0 };
    struct wisp_data *d;
    if (!fuzz_measuring) wisp_ids_max = 1 << 12;
    size_t bytes = how & LONG ? 3073 : how & LONGER ? 2 * 3074 : n;
    for (size_t i = 0; i < bytes; i++) b[i] = n ? p[i % n] : 0;
    const char *path = fuzz_save("c.bin", b, bytes);
    wisp_status st = how & IN_MEMORY ? wisp_data_read_text(&d, NULL, (char *)b, bytes, "t", &o, err)
                                     : wisp_data_read(&d, NULL, path, &o, err);
    if (!d != (st != WISP_OK)) fuzz_die("an error, and data", err);
    if (d) rows_check(d, true);
    wisp_data_free(d);
    return st;
}

static const struct fuzz_text_seed seeds[] = {
    SEED(LONG, "\3\0\377"),
    SEED(LONG | PROBE, "\3\0\377\7"),
    SEED(LONGER, "\3\50\0\0\377\7"),
    SEED(LONGER | PROBE, "\1\2\0\3"),
    SEED(LONG | FEATURES_3, "\3\1"),
    SEED(LONG | IN_MEMORY, "\1\0\2\7\200"),
    SEED(LONG, "\12"),
    SEED(LONGER, "\24\1"),
    SEED(LONGER, "\1\144"),
    SEED(0, "\1\2\3"),
    SEED(0, ""),
};

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    const size_t n = sizeof seeds / sizeof *seeds;
    return i < n ? fuzz_put(to, seeds[i].how, seeds[i].text, seeds[i].n) : 0;
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
    TEST(FUZZ_NAME ": a file that is not there");
    const struct wisp_read_options o = { .format = "cifar" };
    struct wisp_data *d;
    wisp_error err;
    CHECK(wisp_data_read(&d, NULL, fuzz_path("nowhere"), &o, &err) == WISP_EIO, "%s", err.text);
}
#endif
