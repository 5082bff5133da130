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
