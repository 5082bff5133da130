/* Tokens: words in lower case, blanks, pairs, pieces, stop words; looking names up. */
#include "test.h"
#include "base/mem.h"
#include "data/data.h"

#include <string.h>

static char out[4096];
static size_t at;
static int n_words;

static wisp_status see(void *arg, const char *p, size_t n, bool word, wisp_error *err)
{
    (void)arg, (void)err;
    n_words += word;
    at += (size_t)snprintf(out + at, sizeof out - at, "%s%.*s", at ? "|" : "", (int)n, p);
    return WISP_OK;
}

static const char *cut(const struct wisp_text_how *how, const struct wisp_lookup *stop,
                       const char *text)
{
    struct wisp_tokenizer t = { .how = how, .stop = stop, .see = see };
    wisp_error err = { 0 };
    at = 0;
    n_words = 0;
    out[0] = 0;
    wisp_tokenizer_begin(&t);
    CHECK(wisp_tokenizer_text(&t, text, strlen(text), &err) == WISP_OK, "%s", err.text);
    wisp_tokenizer_clear(&t);
    return out;
}

static void expect(const struct wisp_text_how *how, const char *text, const char *want)
{
    const char *got = cut(how, NULL, text);
    CHECK(strcmp(got, want) == 0, "'%s' gives '%s', not '%s'", text, got, want);
}

static const struct wisp_text_how words = { .tokens = WISP_TOKENS_WORDS },
                                  blanks = { .tokens = WISP_TOKENS_BLANKS };

static void test_words(void)
{
    expect(&words, "HOW LONG does Bread keep?", "how|long|does|bread|keep");
    expect(&words, "don't stop--ever (it's 3.5 o'clock)", "don|t|stop|ever|it|s|3|5|o|clock");
    expect(&words, "a_b  c\td\ne", "a_b|c|d|e");
    expect(&words, "", "");
    expect(&words, " ?! ", "");
    expect(&words,
           "Stra\xc3\x9f"
           "e GR\xc3\x9c\xc3\x9f"
           "E \xc3\x89t\xc3\xa9",
           "stra\xc3\x9f"
           "e|gr\xc3\xbc\xc3\x9f"
           "e|\xc3\xa9t\xc3\xa9");
    expect(&words, "\xce\x91\xce\xa9 \xd0\x96\xd0\xaf \xd0\x81 \xc5\xa0 \xc4\xb0x",
           "\xce\xb1\xcf\x89|\xd0\xb6\xd1\x8f|\xd1\x91|\xc5\xa1|ix");
    expect(&words, "\xe2\x80\x9cyes\xe2\x80\x9d\xe2\x80\x94no\xc2\xa0maybe", "yes|no|maybe");
    expect(&words, "\xe6\x97\xa5\xe6\x9c\xac go", "\xe6\x97\xa5|\xe6\x9c\xac|go");
    expect(&words,
           "\xff\xfe"
           "a b\xc3",
           "\xff\xfe"
           "a|b\xc3"); /* no UTF-8: kept */
    expect(&words, "\xed\xa0\x80 \xc0\xaf", "\xed\xa0\x80|\xc0\xaf");
}

/* What stands between 'a' and 'b': a letter of their word, a separator, a word of its own. */
enum { LETTER = 1, SEPARATES = 2, ALONE = 3 };

static wisp_status see_last(void *arg, const char *p, size_t n, bool word, wisp_error *err)
{
    (void)word, (void)err;
    memcpy(arg, p, n), ((char *)arg)[n] = 0;
    return WISP_OK;
}

/* The kind of the character of n bytes at p; 'low': it in lower case, if it is a letter. */
static size_t kind_of(const char *p, size_t n, char low[16])
{
    static struct wisp_tokenizer t = { .how = &words, .see = see_last };
    char text[8] = "a";
    wisp_error err;
    memcpy(text + 1, p, n), text[1 + n] = 'b';
    t.arg = low;
    wisp_tokenizer_begin(&t);
    CHECK(wisp_tokenizer_text(&t, text, n + 2, &err) == WISP_OK, "%s", err.text);
    wisp_tokenizer_clear(&t);
    return t.n_words;
}

/* Sums over all of Unicode, so that no end of a range can move unseen; no range holds the letters
 * just outside of it. */
static void test_characters(void)
{
    size_t n_of[4] = { 0 }, n_capitals = 0;
    uint32_t bytes = 0; /* of the small letters, all in a row */
    for (uint32_t c = 0x80; c < 0x110000; c++) {
        char p[4], low[16];
        size_t n = wisp_utf8_put(p, c), kind = kind_of(p, n, low);
        n_of[kind & 3]++;
        if (kind != LETTER || memcmp(low + 1, p, n) == 0) continue;
        n_capitals++;
        for (const char *q = low + 1; *q != 'b'; q++) bytes = bytes * 31 + (unsigned char)*q;
    }
    CHECK(n_of[SEPARATES] == 3054, "%zu separate", n_of[SEPARATES]);
    CHECK(n_of[ALONE] == 162251, "%zu stand alone", n_of[ALONE]);
    CHECK(n_capitals == 508 && bytes == 0x9daf2a10, "%zu capitals, %#x", n_capitals, bytes);
    static const uint32_t letters[] = { 0xaa,  0xb2,  0xb5,  0xb9,   0xba,   0xd6,  0xd8,
                                        0xf6,  0xf8,  0x2c1, 0x2c6,  0x386,  0x388, 0x66e,
                                        0x6d3, 0x966, 0xe50, 0x2070, 0x2c00, 0xff10 };
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        char p[4], low[16];
        size_t n = wisp_utf8_put(p, letters[i]);
        CHECK(kind_of(p, n, low) == LETTER, "U+%04X is a letter", letters[i]);
    }
}

/* Bytes that are no UTF-8 stay what they are, though some look like a separator written longer. */
static void test_no_utf8(void)
{
    static const char *const text[] = {
        "x\xc2",          "x\xc1\xbfy",         "x\xbf\x80y",         "x\x80y",
        "x\xe0\x82\xa9y", "x\xe0\x9f\xbfy",     "x\xe2\x80",          "x\xe2\x80z",
        "x\xe2z\x80",     "x\xf0\x82\x80\x80y", "x\xf0\x8f\xbf\xbfy", "x\xf0\x9f\x98",
        "x\xed\xa0\x80y", "x\xf4\x90\x80\x80y", "x\xf8\x90\x80\x80y", "x\xff\xbf\xbf\xbfy",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) expect(&words, text[i], text[i]);
    expect(&words, "\xc3\x89", "\xc3\xa9"); /* the last byte of the text is its last */
    expect(&words, "x\xe2\x80\xa9y \xf0\x9f\x98\x80z", "x|y|\xf0\x9f\x98\x80|z");
}

static void test_blanks(void)
{
    expect(&blanks, "HOW LONG does  Bread\tkeep?\r", "HOW|LONG|does|Bread|keep?");
    expect(&blanks, "\xe6\x97\xa5\xe6\x9c\xac", "\xe6\x97\xa5\xe6\x9c\xac");
}

static void test_pairs_and_pieces(void)
{
    struct wisp_text_how how = words;
    how.pairs = true;
    expect(&how, "A, b; c", "a|b|a b|c|b c");
    CHECK(n_words == 3, "%d words", n_words);
    how.pairs = false;
    how.chars_min = 2, how.chars_max = 3;
    expect(&how, "ab", "ab|~<a|~<ab|~ab|~ab>|~b>");
    expect(&how, "\xc3\xa4", "\xc3\xa4|~<\xc3\xa4|~\xc3\xa4>"); /* "<x>" whole is the word itself */
    CHECK(n_words == 1, "%d words", n_words);
    how.chars_min = how.chars_max = 10;
    expect(&how, "short", "short");
    how.pairs = true;
    how.chars_min = how.chars_max = 3;
    expect(&how, "ab cd", "ab|~<ab|~ab>|cd|ab cd|~<cd|~cd>");
}

static void test_stop(void)
{
    char text[] = "the\nof\n";
    struct wisp_names names;
    struct wisp_lookup stop;
    wisp_error err;
    CHECK(wisp_names_init(&names, text, 7, true, &err) == WISP_OK, "names");
    CHECK(wisp_lookup_init(&stop, &names, &err) == WISP_OK, "lookup");
    struct wisp_text_how how = words;
    how.pairs = true;
    const char *got = cut(&how, &stop, "The king of the hill");
    CHECK(strcmp(got, "king|hill|king hill") == 0, "%s", got);
    wisp_lookup_clear(&stop);
    wisp_names_clear(&names);
}

static void test_lookup(void)
{
    char text[200000];
    size_t n = 0, count = 10000;
    struct wisp_names names;
    struct wisp_lookup l = { 0 };
    wisp_error err;
    CHECK(wisp_lookup_find(&l, "x", 1) == -1, "of no names");
    for (size_t i = 0; i < count; i++) n += (size_t)sprintf(text + n, "w%zu\n", i * 7 % count);
    n += (size_t)sprintf(text + n, "w0\n\n"); /* again, and a name without letters */
    CHECK(wisp_names_init(&names, text, n, true, &err) == WISP_OK &&
              wisp_lookup_init(&l, &names, &err) == WISP_OK,
          "made");
    for (size_t i = 0; i < count; i++) {
        char name[20];
        size_t bytes = (size_t)sprintf(name, "w%zu", i * 7 % count);
        CHECK(wisp_lookup_find(&l, name, bytes) == (int32_t)i, "%s", name);
    }
    CHECK(wisp_lookup_find(&l, "", 0) == (int32_t)count + 1, "an empty name");
    CHECK(wisp_lookup_find(&l, "w10000", 6) == -1 && wisp_lookup_find(&l, "w", 1) == -1, "none");
    wisp_lookup_clear(&l);
    wisp_names_clear(&names);
}

static void test_chars(void)
{
    static const struct {
        const char *text;
        int lo, hi;
    } good[] = { { "0", 0, 0 }, { "4", 4, 4 }, { "3-5", 3, 5 }, { "1-10", 1, 10 } };
    static const char *const bad[] = {
        "",     "-",   "3-",    "-3", "5-3",  "11",
        "3-11", "0-3", "3 - 5", "a",  "3-5x", "99999999999999999999"
    };
    struct wisp_text_how how;
    char back[16];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK(wisp_chars_read(&how, good[i].text) && how.chars_min == good[i].lo &&
                  how.chars_max == good[i].hi,
              "%s", good[i].text);
        wisp_chars_print(back, &how);
        CHECK(strcmp(back, good[i].text) == 0, "%s comes back as %s", good[i].text, back);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!wisp_chars_read(&how, bad[i]), "%s", bad[i]);
}

int main(void)
{
    TEST("tokens: words");
    test_words();
    TEST("tokens: every character of Unicode");
    test_characters();
    TEST("tokens: bytes that are no UTF-8");
    test_no_utf8();
    TEST("tokens: blanks");
    test_blanks();
    TEST("tokens: pairs and pieces");
    test_pairs_and_pieces();
    TEST("tokens: stop words");
    test_stop();
    TEST("tokens: looking names up");
    test_lookup();
    TEST("tokens: lengths of pieces");
    test_chars();
    CHECK(wisp_mem_live == 0, "%ld blocks not freed", (long)wisp_mem_live);
    return test_end();
}
