/* Tokens: one pass over the bytes.  ASCII is looked up in a table, other characters are decoded and
 * judged by the ranges of Unicode that matter; lower case never takes more bytes than upper case,
 * so a word fits the room of its text. */
#include "data/tokens.h"
#include "base/mem.h"
#include "base/text.h"
#include "data/data.h"

#include <string.h>

static const struct wisp_word ways[] = {
    [WISP_TOKENS_BLANKS] = { "blanks", "what stands between blanks, as it is" },
    [WISP_TOKENS_WORDS] = { "words", "runs of letters and digits, in lower case" },
};
enum { N_WAYS = sizeof ways / sizeof *ways };

const struct wisp_word *wisp_tokens_at(size_t i)
{
    return i < N_WAYS ? &ways[i] : NULL;
}

const char *wisp_tokens_name(enum wisp_tokens t)
{
    return ways[t].name;
}

bool wisp_tokens_find(enum wisp_tokens *out, const char *name)
{
    for (int i = 0; i < N_WAYS; i++)
        if (strcmp(ways[i].name, name) == 0) {
            *out = (enum wisp_tokens)i;
            return true;
        }
    return false;
}

static const char *one_number(int *out, const char *p)
{
    int n = 0;
    if (*p < '0' || *p > '9') return NULL;
    for (; *p >= '0' && *p <= '9'; p++)
        if (n <= WISP_CHARS_MAX) n = n * 10 + (*p - '0');
    *out = n;
    return p;
}

bool wisp_chars_read(struct wisp_text_how *how, const char *text)
{
    int lo = 0, hi;
    const char *p = one_number(&lo, text);
    hi = lo;
    if (p && *p == '-') p = one_number(&hi, p + 1);
    if (!p || *p || hi > WISP_CHARS_MAX || lo > hi || (lo == 0 && hi > 0)) return false;
    how->chars_min = lo;
    how->chars_max = hi;
    return true;
}

void wisp_chars_print(char out[16], const struct wisp_text_how *how)
{
    char *p = out;
    const int ends[2] = { how->chars_min, how->chars_max };
    for (int i = 0; i < 2; i++) {
        if (i && ends[0] == ends[1]) break;
        if (i) *p++ = '-';
        if (ends[i] >= 10) *p++ = (char)('0' + ends[i] / 10);
        *p++ = (char)('0' + ends[i] % 10);
    }
    *p = 0;
}

/* ---- characters ---- */

static bool blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0;
}

struct range {
    uint32_t first, last;
};

static bool in(const struct range *r, size_t n, uint32_t c)
{
    for (size_t i = 0; i < n && c >= r[i].first; i++)
        if (c <= r[i].last) return true;
    return false;
}
#define IN(ranges, c) in(ranges, sizeof(ranges) / sizeof *(ranges), c)

/* Punctuation, symbols and blanks above ASCII. */
static bool separates(uint32_t c)
{
    static const struct range r[] = {
        { 0x80, 0xa9 },     { 0xab, 0xb1 },     { 0xb4, 0xb4 },     { 0xb6, 0xb8 },
        { 0xbb, 0xbf },     { 0xd7, 0xd7 },     { 0xf7, 0xf7 },     { 0x2c2, 0x2c5 },
        { 0x37e, 0x37e },   { 0x387, 0x387 },   { 0x55a, 0x55f },   { 0x589, 0x58a },
        { 0x5be, 0x5be },   { 0x5c0, 0x5c0 },   { 0x5c3, 0x5c3 },   { 0x5f3, 0x5f4 },
        { 0x60c, 0x60d },   { 0x61b, 0x61f },   { 0x66a, 0x66d },   { 0x6d4, 0x6d4 },
        { 0x964, 0x965 },   { 0xe4f, 0xe4f },   { 0x2000, 0x200b }, { 0x200e, 0x206f },
        { 0x20a0, 0x20cf }, { 0x2190, 0x245f }, { 0x2500, 0x2bff }, { 0x2e00, 0x2e7f },
        { 0x3000, 0x3004 }, { 0x3008, 0x3020 }, { 0x3030, 0x3030 }, { 0x303d, 0x303f },
        { 0x30fb, 0x30fb }, { 0xfe10, 0xfe1f }, { 0xfe30, 0xfe6f }, { 0xfeff, 0xfeff },
        { 0xff01, 0xff0f }, { 0xff1a, 0xff20 }, { 0xff3b, 0xff40 }, { 0xff5b, 0xff65 },
        { 0xfff9, 0xffff },
    };
    return IN(r, c);
}

/* Scripts without blanks between words. */
static bool stands_alone(uint32_t c)
{
    static const struct range r[] = {
        { 0x3005, 0x3007 },   { 0x3041, 0x30fa },   { 0x30fc, 0x30ff }, { 0x31f0, 0x31ff },
        { 0x3400, 0x4dbf },   { 0x4e00, 0x9fff },   { 0xf900, 0xfaff }, { 0xff66, 0xff9f },
        { 0x1f000, 0x1faff }, { 0x20000, 0x3ffff },
    };
    return IN(r, c);
}

/* Lower case by the regular parts of Unicode's tables: Latin, Greek, Cyrillic, Armenian. */
static uint32_t lower(uint32_t c)
{
    static const struct {
        uint32_t first, last, add; /* add 1: capitals are even (or, where they begin odd, odd) */
    } r[] = {
        { 0xc0, 0xd6, 32 },   { 0xd8, 0xde, 32 },    { 0x100, 0x12e, 1 },   { 0x132, 0x136, 1 },
        { 0x139, 0x147, 1 },  { 0x14a, 0x176, 1 },   { 0x179, 0x17d, 1 },   { 0x1cd, 0x1db, 1 },
        { 0x1de, 0x1ee, 1 },  { 0x1f8, 0x21e, 1 },   { 0x222, 0x232, 1 },   { 0x388, 0x38a, 37 },
        { 0x391, 0x3a1, 32 }, { 0x3a3, 0x3ab, 32 },  { 0x400, 0x40f, 80 },  { 0x410, 0x42f, 32 },
        { 0x460, 0x480, 1 },  { 0x48a, 0x4be, 1 },   { 0x4c1, 0x4cd, 1 },   { 0x4d0, 0x52e, 1 },
        { 0x531, 0x556, 48 }, { 0x1e00, 0x1e94, 1 }, { 0x1ea0, 0x1efe, 1 }, { 0xff21, 0xff3a, 32 },
    };
    static const struct {
        uint32_t from, to;
    } odd[] = { { 0x130, 'i' },   { 0x178, 0xff },  { 0x386, 0x3ac }, { 0x38c, 0x3cc },
                { 0x38e, 0x3cd }, { 0x38f, 0x3ce }, { 0x4c0, 0x4cf }, { 0x1e9e, 0xdf } };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (odd[i].from == c) return odd[i].to;
    for (size_t i = 0; i < sizeof r / sizeof *r && c >= r[i].first; i++)
        if (c <= r[i].last) return r[i].add > 1 ? c + r[i].add : c + ((c - r[i].first) % 2 == 0);
    return c;
}

/* ---- features ---- */

static bool begins(char c) /* a character of UTF-8 */
{
    return (c & 0xc0) != 0x80;
}

/* The pieces of the word of n bytes at 'word', made in 'to': "~<word>" with a window over it. */
static wisp_status pieces(struct wisp_tokenizer *t, const char *word, size_t n, char *to,
                          wisp_error *err)
{
    wisp_status st = WISP_OK;
    to[1] = '<';
    memcpy(to + 2, word, n);
    to[n + 2] = '>';
    const char *end = to + n + 3;
    for (char *p = to + 1; p < end && st == WISP_OK; p++) {
        if (!begins(*p)) continue;
        const char *stop = p;
        char before = p[-1];
        p[-1] = '~';
        for (int chars = 1; chars <= t->how->chars_max && stop < end && st == WISP_OK; chars++) {
            for (stop++; stop < end && !begins(*stop);) stop++;
            bool whole = p == to + 1 && stop == end;
            if (chars >= t->how->chars_min && !whole)
                st = t->see(t->arg, p - 1, (size_t)(stop - p) + 1, false, err);
        }
        p[-1] = before;
    }
    return st;
}

/* A word of n bytes is complete; it lies behind the word before and a blank. */
static wisp_status emit(struct wisp_tokenizer *t, size_t n, wisp_error *err)
{
    char *word = t->buf + (t->n_before ? t->n_before + 1 : 0);
    t->n_words++;
    if (t->stop && wisp_lookup_find(t->stop, word, n) >= 0) return WISP_OK;
    wisp_status st = t->see(t->arg, word, n, true, err);
    if (st == WISP_OK && t->how->pairs && t->n_before)
        st = t->see(t->arg, t->buf, t->n_before + 1 + n, false, err);
    if (st == WISP_OK && t->how->chars_max) st = pieces(t, word, n, word + n, err);
    if (t->how->pairs) {
        memmove(t->buf, word, n);
        t->buf[n] = ' ';
        t->n_before = n;
    }
    return st;
}

static wisp_status by_blanks(struct wisp_tokenizer *t, const char *p, const char *end,
                             wisp_error *err)
{
    wisp_status st = WISP_OK;
    while (st == WISP_OK) {
        while (p < end && blank(*p)) p++;
        const char *start = p;
        while (p < end && !blank(*p)) p++;
        if (p == start) break;
        memcpy(t->buf + (t->n_before ? t->n_before + 1 : 0), start, (size_t)(p - start));
        st = emit(t, (size_t)(p - start), err);
    }
    return st;
}

/* ASCII letters in lower case, digits, '_'; 0: it separates. */
static char plain(unsigned char c)
{
    if (c >= 'A' && c <= 'Z') return (char)(c + 32);
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ? (char)c : 0;
}

static wisp_status by_words(struct wisp_tokenizer *t, const char *text, const char *stop,
                            wisp_error *err)
{
    const unsigned char *p = (const unsigned char *)text, *end = (const unsigned char *)stop;
    wisp_status st = WISP_OK;
    size_t n = 0;
    while (p < end && st == WISP_OK) {
        char *word = t->buf + (t->n_before ? t->n_before + 1 : 0);
        uint32_t c = *p;
        if (c < 0x80) {
            char low = plain(*p++);
            if (low) word[n++] = low;
            else if (n) st = emit(t, n, err), n = 0;
            continue;
        }
        size_t bytes = wisp_utf8_get(&c, p, (size_t)(end - p));
        if (bytes == 0) {
            word[n++] = (char)*p++;
            continue;
        }
        bool alone = stands_alone(c);
        if (n && (alone || separates(c))) {
            st = emit(t, n, err);
            word = t->buf + (t->n_before ? t->n_before + 1 : 0);
            n = 0;
        }
        if (st == WISP_OK && (alone || !separates(c))) n += wisp_utf8_put(word + n, lower(c));
        if (st == WISP_OK && alone) st = emit(t, n, err), n = 0;
        p += bytes;
    }
    return st == WISP_OK && n ? emit(t, n, err) : st;
}

void wisp_tokenizer_begin(struct wisp_tokenizer *t)
{
    t->n_before = t->n_words = 0;
}

wisp_status wisp_tokenizer_text(struct wisp_tokenizer *t, const char *p, size_t n, wisp_error *err)
{
    size_t room = t->n_before + 1 + 2 * n + 8; /* the word before, a word, its pieces */
    if (room > t->cap) {
        char *buf = wisp_realloc(t->buf, t->n_before, 2 * room, 1);
        if (!buf) return wisp_fail_mem(err, 2 * room, "a word");
        t->buf = buf;
        t->cap = 2 * room;
        if (t->n_before) t->buf[t->n_before] = ' ';
    }
    return t->how->tokens == WISP_TOKENS_WORDS ? by_words(t, p, p + n, err)
                                               : by_blanks(t, p, p + n, err);
}

void wisp_tokenizer_clear(struct wisp_tokenizer *t)
{
    wisp_free(t->buf);
    t->buf = NULL;
    t->cap = 0;
}
