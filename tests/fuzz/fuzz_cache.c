/* Fuzzing the binary copy of a data set (.wispcache): any bytes are refused or safe to use; and
 * text that is read twice with a cache gives the same rows, the second time from the cache.
 *
 * With FIX the checksums are made to match first, so that the checks behind them are reached. */
#define FUZZ_NAME    "fuzz_cache"
#define FUZZ_ERRORS  WISP_EFORMAT, WISP_ENOTSUP
#define FUZZ_WORDS   "wispdata", "wispdend", "\1\1\1\1\1\1\1\1", "\377\377\377\377", "__label__a "
#define FUZZ_MUTANTS 15000
#include "fuzz/rows.h"

#include "data/cache.h"
#include "data/rowtext.h"
#include "fuzz/checks.h"

enum {
    TEXT = 1,
    FIX = 2,
    KEY = 4,
    LIMIT = 8,
    WORDS = 16,
    ELSEWHERE = 32,
    THREADS = 64,
    IMAGES = 128
};

static const struct checks_plan plan = { sizeof(struct wisp_cache_index),
                                         offsetof(struct wisp_cache_index, n_blocks),
                                         sizeof(struct wisp_cache_entry),
                                         sizeof(struct wisp_block_head),
                                         offsetof(struct wisp_block_head, check) };

static wisp_status open_bytes(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    static uint8_t b[4 * FUZZ_ROOM];
    const struct wisp_cache_want want = { .key = { .bytes = 1,
                                                   .n_features = how & LIMIT ? 3 : 0 } };
    size_t dropped[2];
    struct wisp_data *d;
    if (n > sizeof b) n = sizeof b;
    if (n) memcpy(b, p, n);
    if (how & FIX) checks_fix(b, n, &plan);
    fuzz_save("c", b, n);
    wisp_status st =
        wisp_cache_open(&d, how & THREADS ? fuzz_three_threads.pool : NULL, fuzz_path("c"),
                        how & KEY ? &want : NULL, &dropped[0], &dropped[1], err);
    if (!d != (st != WISP_OK)) fuzz_die("an error, and data", err);
    if (d) rows_check(d, false);
    wisp_data_free(d);
    return st;
}

static void check_twice(const struct wisp_data *a, const struct wisp_read_options *o,
                        const char *path)
{
    struct wisp_data *b;
    wisp_error err = { 0 };
    wisp_status st = wisp_data_read(&b, &fuzz_one_thread, path, o, &err);
    if (st == WISP_ENOMEM && fuzz_starved) return;
    if (st != WISP_OK) fuzz_die("what was cached cannot be read", &err);
    if (!rows_same(a, b) || a->n_features != b->n_features || a->n_labels != b->n_labels ||
        a->labels.n != b->labels.n || a->vocab.n != b->vocab.n)
        fuzz_die("the cache holds other rows", &err);
    if (!fuzz_starved && b->source_bytes) fuzz_die("the cache was not used", &err);
    wisp_data_free(b);
}

static wisp_status read_text(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    wisp_cache_min = 0;
    const struct wisp_read_options o = { .format = how & IMAGES  ? "idx"
                                                   : how & WORDS ? "fasttext"
                                                                 : "libsvm",
                                         .index_base = 0,
                                         .min_count = 1,
                                         .n_features = how & LIMIT && !(how & WORDS) ? 3 : 0,
                                         .cache = fuzz_path("deep/er"),
                                         .use_cache = true };
    struct wisp_data *d;
    /* A folder where the cache should lie sends it elsewhere. */
    const char *path = fuzz_save(how & ELSEWHERE ? "elsewhere" : "text", p, n);
    unlink(fuzz_path("text.wispcache"));
    wisp_status st = wisp_data_read(&d, &fuzz_one_thread, path, &o, err);
    if (!d != (st != WISP_OK)) fuzz_die("an error, and data", err);
    if (d) rows_check(d, true);
    if (d) check_twice(d, &o, path);
    wisp_data_free(d);
    return st;
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    if (!fuzz_measuring) wisp_ids_max = 1 << 12;
    mkdir(fuzz_path("elsewhere.wispcache"), 0777);
    return how & TEXT ? read_text(how, p, n, err) : open_bytes(how, p, n, err);
}

static const struct fuzz_text_seed texts[] = {
    SEED(TEXT, "3 1:2 5:0.25\n1,2 2:1\n\n4 7:.5\n"),
    SEED(TEXT | LIMIT, "3 1:2 5:0.25\n1,2 2:1\n"),
    SEED(TEXT | ELSEWHERE, "1 1:1\n0 1:2\n"),
    SEED(TEXT | WORDS, "__label__cat __label__dog a cat and a dog\nwoof woof\n"),
    SEED(TEXT | WORDS | ELSEWHERE, "__label__cat a b a\n"),
    SEED(TEXT, ""),
    SEED(TEXT, "1 x\n"),
    SEED(TEXT | IMAGES, "\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\3\0\1\377\0\0\7\0\0\0\0\0\200"),
};
enum { N_TEXTS = sizeof texts / sizeof *texts };

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    static uint8_t b[FUZZ_ROOM];
    static const unsigned hows[] = { 0, FIX, FIX | KEY, FIX | THREADS, FIX | KEY | LIMIT };
    if (i < N_TEXTS) return fuzz_put(to, texts[i].how, texts[i].text, texts[i].n);
    i -= N_TEXTS;
    if (i >= 20) return 0;
    const struct fuzz_text_seed *text = &texts[(int[]){ 0, 3, 1, 7 }[i / 5]];
    wisp_error err;
    if (read_text(text->how & ~(unsigned)LIMIT, (const uint8_t *)text->text, text->n, &err) !=
        WISP_OK)
        fuzz_die("no seed", &err);
    size_t n = fuzz_load("text.wispcache", b, sizeof b);
    if (hows[i % 5] & KEY) { /* made from the source that open_bytes asks for */
        const struct wisp_cache_key key = { .bytes = 1 };
        memcpy(b + checks_get(b + n - 64) + offsetof(struct wisp_cache_index, key), &key,
               sizeof key);
    }
    return fuzz_put(to, hows[i % 5], b, n);
}

#ifndef WISP_LIBFUZZER
/* Every byte flipped, every cut. */
static void fuzz_tests(void)
{
    TEST(FUZZ_NAME ": damage at any byte and cuts are found");
    static uint8_t b[FUZZ_ROOM];
    wisp_error err;
    size_t n = fuzz_seed_bytes[N_TEXTS] - FUZZ_HEAD;
    const uint8_t *good = fuzz_seeds[N_TEXTS] + FUZZ_HEAD;
    for (size_t i = 0; i < n; i++) {
        memcpy(b, good, n);
        b[i] ^= (uint8_t)(1 << i % 8);
        CHECK(open_bytes(0, b, n, &err) == WISP_EFORMAT, "byte %zu of %zu", i, n);
        CHECK(open_bytes(0, good, i, &err) == WISP_EFORMAT, "cut %zu", i);
    }
    TEST(FUZZ_NAME ": a cache that cannot be opened");
    struct wisp_data *d;
    CHECK(wisp_cache_open(&d, NULL, fuzz_path("nowhere"), NULL, NULL, NULL, &err) == WISP_EIO, "%s",
          err.text);
}
#endif
