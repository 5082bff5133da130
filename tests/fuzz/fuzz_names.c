/* Fuzzing files of names: line i names id i; and names that are merged with those of a model. */
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

static bool same_name(const struct wisp_names *a, size_t i, const struct wisp_names *b, size_t k)
{
    const size_t n = a->start[i + 1] - a->start[i];
    return n == b->start[k + 1] - b->start[k] &&
           !memcmp(a->text + a->start[i], b->text + b->start[k], n - 1);
}

/* Those of a model come first, each of the others has the id of its name. */
static wisp_status merge(const struct wisp_names *names, wisp_error *err)
{
    static char text[] = "one\ntwo\n\none\nlast";
    static size_t start[] = { 0, 4, 8, 9, 13, 18 };
    const struct wisp_names model = { 5, text, 17, start, true };
    struct wisp_names all;
    int32_t *map = malloc((names->n + 1) * sizeof *map);
    wisp_status st = wisp_names_merge(&all, map, &model, names, err);
    if (st == WISP_OK) {
        rows_check_names(&all);
        if (!wisp_names_begin(&all, &model) || all.n > model.n + names->n)
            fuzz_die("the model's names are not the first", NULL);
        for (size_t i = 0; i < names->n; i++)
            if (map[i] < 0 || (size_t)map[i] >= all.n || !same_name(&all, (size_t)map[i], names, i))
                fuzz_die("an id of another name", NULL);
    }
    wisp_names_clear(&all);
    free(map);
    return st;
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    struct wisp_names names;
    wisp_status st = wisp_names_load(&names, fuzz_save("names", p, n), err);
    if (st == WISP_OK) {
        rows_check_names(&names);
        check_names(&names, p, n);
        if (how & 1) st = merge(&names, err);
    } else if (names.n || names.text) {
        fuzz_die("an error, and names", err);
    }
    wisp_names_clear(&names);
    return st;
}

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    static const char *const texts[] = { "one\ntwo\nthree\nthree\n",
                                         "\xef\xbb\xbfone\r\ntwo words\r\n\r\nlast",
                                         "http://x/1\tfirst\nhttp://x/2\t\tsecond\n\t\n",
                                         "",
                                         "\n",
                                         "\xef\xbb\xbf",
                                         "\r" };
    const size_t n = sizeof texts / sizeof *texts;
    if (i == 2 * n) return fuzz_put(to, 0, "a\nb\0c\n", 6);
    return i < 2 * n ? fuzz_put(to, i >= n, texts[i % n], strlen(texts[i % n])) : 0;
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
