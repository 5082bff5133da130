/* Fuzzing text: xc, libsvm and fasttext, plain or packed, from memory or from a file.
 *
 * Each input is read twice, in one chunk and in chunks of a few bytes: both must end alike,
 * and what was read must keep the promises of data.h.  Then it is written and read again. */
#define FUZZ_NAME   "fuzz_text"
#define FUZZ_ERRORS WISP_EFORMAT, WISP_EINVAL, WISP_ENOTSUP /* as npz, by its bytes */
#define FUZZ_WORDS                                                                                 \
    "__label__", "__label__a ", "\r\n", "\xef\xbb\xbf", "1e400", "-1", "2147483648", ":nan",       \
        "4294967296", "0.1", "1e-45", "# ", "qid:1", ",", "99999999999999999999", "\x1f\x8b\x08",  \
        "\x28\xb5\x2f\xfd", "1.00000005960464477539", "16777217.0", ":1e+",                        \
        "0000000000000000000000000000000000000000000000000000000000000000000000000000000001"
#define FUZZ_MUTANTS 16000
#include "fuzz/rows.h"

#include "data/rowtext.h"

/* how: */
enum {
    FORMAT = 3, /* xc, libsvm, fasttext, by its bytes */
    NO_HEADER = 4,
    BASE = 8, /* an index base, ... */
    BASE_1 = 16,
    FEATURES_3 = 32,
    PAIRS = 64,
    MODEL = 128, /* names of words and labels are given, and ids by name */
    GZIP = 256,  /* packed before it is read */
    ZSTD = 512,
    TO_FILE = 1024,
    RARE = 2048,     /* words from twice on; blank lines are rows */
    LABELS_2 = 4096, /* and rows that these go with: words (PAIRS), libsvm (BASE_1) or xc */
    LITTLE = 8192,   /* a limit for rows in memory */
    SHORT = 16384,   /* lines of at most 64 bytes, or a chunk */
    GROW = 32768,    /* the names that are given may become more */
};

static wisp_status read_once(struct wisp_data **d, unsigned how, const uint8_t *p, size_t n,
                             const struct wisp_read_options *o, wisp_error *err)
{
    if (!(how & TO_FILE))
        return wisp_data_read_text(d, &fuzz_one_thread, (const char *)p, n, "t", o, err);
    return wisp_data_read(d, &fuzz_one_thread, fuzz_path("t"), o, err);
}

/* Ids by name may be others when they are read again: there are as many rows and values. */
static void write_named(const struct wisp_data *d, const char *format)
{
    const struct wisp_read_options o = { .format = format, .index_base = -1 };
    wisp_error err = { 0 };
    struct wisp_data *back = NULL;
    const char *path = fuzz_path("named");
    wisp_status st = wisp_format_find(format)->write(d, &fuzz_one_thread, path, &err);
    if (st == WISP_OK) st = wisp_data_read(&back, &fuzz_one_thread, path, &o, &err);
    if (st != WISP_OK && !fuzz_starved) fuzz_die("names that were written cannot be read", &err);
    if (back && (back->n_rows != d->n_rows || back->nnz != d->nnz || back->n_lab != d->n_lab))
        fuzz_die("names that were written are read as other rows", NULL);
    wisp_data_free(back);
}

static void round_trips(const struct wisp_data *d, bool words)
{
    if (d->named) {
        write_named(d, "xc");
        write_named(d, "libsvm");
        return;
    }
    rows_round_trip(d, "xc", "xc");
    rows_round_trip(d, "libsvm", "libsvm");
    if (words) rows_round_trip(d, "fasttext", "words");
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    static const char *const formats[] = { "xc", "libsvm", "fasttext", NULL };
    static char label_text[] = "a\nb\n\nb\n", word_text[] = "the\ncat\nthe cat\n7\n40\n";
    static size_t label_start[] = { 0, 2, 4, 5, 7 }, word_start[] = { 0, 4, 8, 16, 18, 21 };
    static uint8_t packed[2 * FUZZ_ROOM];
    const struct wisp_names labels = { 4, label_text, 7, label_start, true },
                            words = { 5, word_text, 21, word_start, true };
    struct wisp_read_options o = { .format = formats[how & FORMAT],
                                   .no_header = how & NO_HEADER,
                                   .index_base = how & BASE ? !!(how & BASE_1) : -1,
                                   .n_features = how & FEATURES_3 ? 3 : 0,
                                   .n_labels = how & LABELS_2 ? 2 : 0,
                                   .text.pairs = how & PAIRS,
                                   .min_count = how & RARE ? 2 : 1,
                                   .labels = how & MODEL ? &labels : NULL,
                                   .vocab = how & MODEL ? &words : NULL,
                                   .named = how & MODEL ? 3 : 0,
                                   .decided = how & (MODEL | LABELS_2) ? 3 : 0,
                                   .grow = how & GROW,
                                   .every_line = how & RARE,
                                   .like = !(how & LABELS_2) ? NULL
                                           : how & PAIRS     ? &wisp_format_fasttext
                                           : how & BASE_1    ? &wisp_format_libsvm
                                                             : &wisp_format_xc,
                                   .like_base = how & BASE_1 ? 1 : 0,
                                   .memory = how & LITTLE ? 1 << 10 : 0 };
    wisp_error e[2] = { { 0 }, { 0 } };
    wisp_status st[2];
    struct wisp_data *d[2];
    const size_t usual = wisp_text_chunk, line_max = wisp_text_line_max;
    if (how & (GZIP | ZSTD) && n < FUZZ_ROOM) {
        n = fuzz_pack(how & GZIP ? FUZZ_GZIP : FUZZ_ZSTD, packed, sizeof packed, p, n);
        p = packed;
    }
    if (how & TO_FILE) fuzz_save("t", p, n);
    if (!fuzz_measuring) wisp_ids_max = 1 << 12; /* counts per id are arrays: keep them small */
    /* and ids beyond that, and the text, are by name */
    if (!fuzz_measuring) wisp_ids_free = how & SHORT ? 4 : 64;
    if (how & SHORT) wisp_text_line_max = 64;
    for (int i = 0; i < 2; i++) {
        wisp_text_chunk = i ? (size_t)1 + how % 13 : 1 << 16; /* small buffers: more inputs */
        st[i] = read_once(&d[i], how, p, n, &o, &e[i]);
    }
    wisp_text_chunk = usual;
    wisp_text_line_max = line_max;
    wisp_ids_free = (size_t)1 << 20;
    *err = e[0];
    /* Of a damaged archive more or less may be unpacked before the damage is met. */
    bool archive = strstr(e[0].text, "zstd data") || strstr(e[1].text, "zstd data") ||
                   strstr(e[0].text, "gzip data") || strstr(e[1].text, "gzip data");
    rows_same_by_chunks(d, st, e, !fuzz_starved && !(how & (LITTLE | SHORT)), !archive);
    if (d[0]) rows_check(d[0], true);
    /* Labels that are not in a table have no name to be written, or one of another kind. */
    bool whole = d[0] && !(d[0]->named && how & MODEL);
    if (whole) round_trips(d[0], d[0]->vocab.n && !(how & RARE));
    wisp_data_free(d[0]);
    wisp_data_free(d[1]);
    return st[0];
}

static const struct fuzz_text_seed seeds[] = {
    SEED(0, "1 1000000000 5\n1 999999999:1\n"), /* 29 bytes: 16 GB, once */
    SEED(1, "1999999999 1:1 2000000000:1\n"),
    SEED(LABELS_2, "1 999999999 8\n0 1:2\n"), /* and for rows that these go with */
    SEED(4, "0,3 1:2 5:0.25\n 2:1\n\n7 0:1e-3 3:-4.5e2\n"),
    SEED(0, "3 10 8\n0,3 1:2 5:0.25\n 2:1\n7 0:1e-3 3:-4.5e2\n"),
    SEED(TO_FILE, "\xef\xbb\xbf"
                  "2 10 8\r\n0,3 1:2 5:0.25\r\n2:1\r\n"),
    SEED(GZIP, "\xef\xbb\xbf"
               "2 10 8\r\n0,3 1:2 5:0.25\r\n2:1"),
    SEED(ZSTD | TO_FILE, "2 10 8\n0,3 1:2 5:0.25\n2:1\n"),
    SEED(1, "3 1:2 5:0.25 # comment\n+1,2.0 2:1\n\n \n4 7:.5\n"),
    SEED(1 | GZIP, "3 1:2 5:0.25 # comment\n-1 2:1\n"),
    SEED(3, "1 2:3 2:4 1:1\n2 qid:1 1:1\n"),
    SEED(3 | TO_FILE, "# x\n\n1 2:3 1:1\n2 1:1\n"),
    SEED(1 | FEATURES_3, "1 2:3 2:4 1:1\n\n2 9:1 1:1\n"),
    SEED(2, "__label__cat __label__dog a cat and a dog\n__label__dog woof woof\nno label\n"),
    SEED(2 | PAIRS, "__label__x one  two\tthree one two\n\n__label__y \xc3\xa4\xc3\xb6 \xff two\n"),
    SEED(3 | ZSTD, "\n __label__cat __label__dog a cat and a dog\n"),
    SEED(2 | RARE | TO_FILE, "__label__cat a a b b c\n__label__cat a\n"),
    SEED(2 | MODEL, "__label__b the cat\n\n__label__c __label__d a the cat\n"),
    SEED(2 | MODEL | PAIRS | FEATURES_3 | LABELS_2, "__label__b the  cat sat\n"),
    SEED(2 | ZSTD, "\x1f\x8b\x08 is a word\n"), /* which begins a file when it is written */
    SEED(2 | ZSTD, "\n\xef\xbb\xbfword\n"),
    SEED(2 | MODEL | GROW, "__label__b the cat\n\n__label__c __label__d a the cat\n"),
    SEED(2 | MODEL | GROW | PAIRS | RARE, "__label__b the  cat sat sat the cat\n"),
    SEED(2 | FEATURES_3, "words without names\n"),
    SEED(1 | RARE, "1 1:2\n\n# no\r\n2 2:1"),
    SEED(3 | LABELS_2, "1,2 4:1 5:1\n\n3 2:1\n"), /* bare rows like xc's, ... */
    SEED(3 | LABELS_2 | BASE_1, "1,2 4:1 5:1\n\n3 2:1\n"),
    SEED(3 | LABELS_2 | PAIRS | MODEL, "1,2 4:1 5:1\n\n3 2:1\n"), /* ... like words */
    SEED(3 | LABELS_2 | PAIRS | MODEL, "3 4 5\nthe cat 12:30\n"),
    SEED(3 | LABELS_2, "__label__a the cat\n"),
    SEED(1, "1 4000:2 7:1\n3000,5 1:2\n"), /* ids far apart */
    SEED(0 | SHORT, "2 4000 3000\n7 3999:1\n\n"),
    SEED(4 | SHORT | FEATURES_3, "7 3999:1\n2000 2:1\n"),
    SEED(1, "-1 3:1\n+1 2:1\n1.0 4:1\n"), /* labels by name */
    SEED(3, "spam 3:1\nham,b 2:1\n# no\nspam 4:1\n"),
    SEED(1 | MODEL | BASE, "a 3:1\nb,c 7:1\nc,d 40:1 8:1\n"),
    SEED(1 | MODEL | GROW, "a 3:1\nb,c 7:1\n"),
    SEED(1 | MODEL | LABELS_2, "a 3:1\nb,c 7:1\n"),
    SEED(1, "spam 3:1\n7 2:1\n"), /* a mix */
    SEED(2 | LABELS_2, "__label__a b c\n"),
    SEED(2, "x __label__ y\n"),
    SEED(8 | FEATURES_3, "2 10 8\n0,3 1:2 9:0.125\n1,1,1 2:1 2:1 2:3e38\n"),
    SEED(8 | BASE_1, "1 3 2\n2,1 3:1 1:1\n"),
    SEED(4 | SHORT, "0 1:1 2:2 3:3 4:4 5:5 6:6 7:7 8:8 9:9 10:1 11:1 12:1 13:1 14:1 15:1\n"),
    SEED(4 | SHORT | GZIP, "0 1:1 2:2 3:3 4:4 5:5 6:6 7:7 8:8 9:9 10:1 11:1 12:1 13:1 14:1 15:1 "
                           "16:1 17:1 18:1 19:1 20:1\n"),
    SEED(4 | LITTLE, "0 1:1 2:2 3:3 4:4\n0 1:1\n0 1:1\n0 1:1\n0 1:1\n0 1:1\n"),
    SEED(4, "0 0:1.00000005960464477539 1:123456789012345678901234567890 2:1e-46 3:7e-46\n"),
    SEED(0, "3 10 8\n0,3 1:2\n"),
    SEED(0, "1 10 8\n0,3 1:2\n1 1:1\n"),
    SEED(0, "1 10\n"),
    SEED(0, "1 99999 8\n0 1:2\n"),
    SEED(0, "1 10 8\n0,3 1:2 3:3e38 3:3e38\n"),
    SEED(4, "0 1:2\n0 1\0:2\n"),
    SEED(4, "0 1:2\r1 1:3\n"),
    SEED(4, "0,9 1:inf\n"),
    SEED(1, "1.5 1:1\n"),
    SEED(1, "x 1:1\n"),
    SEED(1, "1 0:1\n"),
    SEED(1, "1 -3:1\n"),
    SEED(4, "-1 1:1\n"),
    SEED(4, "1,x 1:1\n"),
    SEED(0, "1 0 0\n1 1:1\n"),
    SEED(4, "\x1f\x8b\x08\0\0\0\0\0\0\3garbage!"),
    SEED(4, "\x28\xb5\x2f\xfdgarbage"),
    SEED(4, "\x50\x2a\x4d\x18\2\0\0\0xy\x28\xb5\x2f\xfd\x20\5\x29\0\0"
            "0 1:1x"),
    SEED(3, ""),
    SEED(3, "It was a dark and stormy night;\n"),
    SEED(3 | TO_FILE, "neither a row nor a header\n"),
    SEED(0, ""),
    SEED(3, "\x1f\x8b"),
};

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    static uint8_t long_text[6000], two[1000];
    const size_t n = sizeof seeds / sizeof *seeds;
    if (i < n) return fuzz_put(to, seeds[i].how, seeds[i].text, seeds[i].n);
    if (i == n) { /* more rows than fit a buffer, and a number of 600 digits */
        size_t at = 0;
        for (int r = 0; r < 250; r++)
            at += (size_t)snprintf((char *)long_text + at, sizeof long_text - at, "%d %d:%d.5\n", r,
                                   r, r);
        for (int k = 0; k < 600; k++) long_text[at++] = k == 2 ? ':' : '0';
        return fuzz_put(to, NO_HEADER, long_text, at);
    }
    if (i == n + 1 || i == n + 2) { /* two packed pieces, the second of them cut or not */
        int kind = i == n + 1 ? FUZZ_GZIP : FUZZ_ZSTD;
        const uint8_t row[] = "0 1:2\n";
        size_t at = fuzz_pack(kind, two, sizeof two, row, 6);
        at += fuzz_pack(kind, two + at, sizeof two - at, row, 6);
        return fuzz_put(to, NO_HEADER, two, at);
    }
    if (i == n + 3 || i == n + 4) { /* packed, and something else behind it */
        const uint8_t row[] = "0 1:2\n";
        size_t at = fuzz_pack(i == n + 3 ? FUZZ_GZIP : FUZZ_ZSTD, two, sizeof two, row, 6);
        memcpy(two + at, "more", 4);
        return fuzz_put(to, NO_HEADER, two, at + 4);
    }
    return 0;
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
    TEST(FUZZ_NAME ": formats and files that are not there");
    const struct wisp_read_options none = { .format = "parquet" }, probe = { .index_base = -1 };
    struct wisp_data *d;
    wisp_error err;
    CHECK(wisp_data_read_text(&d, NULL, "1 2\n", 4, "t", &none, &err) == WISP_EINVAL && !d, "%s",
          err.text);
    CHECK(wisp_data_read(&d, NULL, fuzz_path("nowhere"), &probe, &err) == WISP_EIO && !d, "%s",
          err.text);
    CHECK(wisp_data_read(&d, NULL, fuzz_folder, &probe, &err) == WISP_EFORMAT && !d, "%s",
          err.text);
}
#endif
