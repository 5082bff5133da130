/* Fuzzing files of names: line i names id i. */
#define FUZZ_NAME    "fuzz_names"
#define FUZZ_ERRORS  WISP_EFORMAT
#define FUZZ_WORDS   "\xef\xbb\xbf", "\r\n", "\n\n", "\t", "http://x/y\t"
#define FUZZ_MUTANTS 10000
#include "fuzz/rows.h"

/* The same by the plainest means: line i without BOM, CR and what stands before a tab. */
static void check_names(const struct wisp_names *n, const uint8_t *p, size_t bytes)
{
    size_t at = bytes >= 3 && !memcmp(p, "\xef\xbb\xbf", 3) ? 3 : 0, i = 0;
    for (; at < bytes; i++) {
        size_t end = at, from;
        while (end < bytes && p[end] != '\n') end++;
        size_t stop = end > at && p[end - 1] == '\r' ? end - 1 : end;
        for (from = stop; from > at && p[from - 1] != '\t';) from--;
        if (i >= n->n || n->start[i + 1] - n->start[i] - 1 != stop - from ||
            memcmp(n->text + n->start[i], p + from, stop - from))
            fuzz_die("another name", NULL);
        at = end + 1;
    }
    if (i != n->n) fuzz_die("another number of names", NULL);
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    struct wisp_names names;
    (void)how;
    wisp_status st = wisp_names_load(&names, fuzz_save("names", p, n), err);
    if (st == WISP_OK) {
        rows_check_names(&names);
        check_names(&names, p, n);
    } else if (names.n || names.text) {
        fuzz_die("an error, and names", err);
    }
    wisp_names_clear(&names);
    return st;
}

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    static const char *const texts[] = { "one\ntwo\nthree\n",
                                         "\xef\xbb\xbfone\r\ntwo words\r\n\r\nlast",
                                         "http://x/1\tfirst\nhttp://x/2\t\tsecond\n\t\n",
                                         "",
                                         "\n",
                                         "\xef\xbb\xbf",
                                         "\r" };
    const size_t n = sizeof texts / sizeof *texts;
    if (i == n) return fuzz_put(to, 0, "a\nb\0c\n", 6);
    return i < n ? fuzz_put(to, 0, texts[i], strlen(texts[i])) : 0;
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
    TEST(FUZZ_NAME ": no such file");
    struct wisp_names n;
    wisp_error err;
    CHECK(wisp_names_load(&n, fuzz_path("nowhere"), &err) == WISP_EIO, "%s", err.text);
}
#endif
