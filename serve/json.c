/* JSON, read piece by piece from bytes. */
#include "serve/json.h"
#include "wisp/wisp.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void jread_open(struct json *j, const char *bytes, size_t n)
{
    *j = (struct json){ .begin = bytes, .at = bytes, .end = bytes + n };
}

void jread_fail(struct json *j, const char *fmt, ...)
{
    if (j->failed) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(j->why, sizeof j->why, fmt, ap);
    va_end(ap);
    text_plain(j->why); /* it may quote a key */
    j->failed = true;
    j->where = (size_t)(j->at - j->begin);
}

static void skip_blanks(struct json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\t' || *j->at == '\r'))
        j->at++;
}

bool jread_close(struct json *j)
{
    skip_blanks(j);
    if (j->at < j->end) jread_fail(j, "more follows the end of the object");
    text_clear(&j->key);
    return !j->failed;
}

char jread_next(struct json *j)
{
    if (j->failed) return 0;
    skip_blanks(j);
    if (j->at == j->end) return 0;
    switch (*j->at) {
    case '{':
    case '[':
    case '"':
    case 't':
    case 'f':
        return *j->at;
    case 'n':
        return '0';
    case '-':
        return 'n';
    default:
        return *j->at >= '0' && *j->at <= '9' ? 'n' : 0;
    }
}

/* What is found, for messages. */
static const char *what_comes(struct json *j)
{
    switch (jread_next(j)) {
    case '{':
        return "an object";
    case '[':
        return "a list";
    case '"':
        return "a string";
    case 'n':
        return "a number";
    case 't':
    case 'f':
        return "true or false";
    case '0':
        return "null";
    default:
        return j->at == j->end ? "the end of the body" : "no JSON";
    }
}

static bool expect(struct json *j, char kind, const char *what)
{
    if (j->failed) return false;
    if (jread_next(j) == kind) return true;
    jread_fail(j, "found %s, expected %s", what_comes(j), what);
    return false;
}

bool jread_enter(struct json *j, char kind, const char *what)
{
    if (!expect(j, kind, what)) return false;
    if (j->depth == JSON_DEPTH) {
        jread_fail(j, "nested more than %d deep", JSON_DEPTH);
        return false;
    }
    j->depth++;
    j->at++;
    j->first = true;
    return true;
}

/* Over the comma before the next item, or over the end. */
static bool one_more(struct json *j, char end)
{
    if (j->failed) return false;
    skip_blanks(j);
    const char c = j->at < j->end ? *j->at : 0;
    if (c == end) {
        j->at++;
        j->depth--;
        j->first = false; /* of what is around it: this was an item */
        return false;
    }
    if (!j->first) {
        if (c != ',') {
            jread_fail(j, "found %s, expected ',' or '%c'",
                       j->at == j->end ? "the end of the body" : "something else", end);
            return false;
        }
        j->at++;
        skip_blanks(j);
    }
    j->first = false;
    return true;
}

bool jread_item(struct json *j)
{
    return one_more(j, ']');
}

bool jread_key(struct json *j, const char **key, size_t *n)
{
    if (!one_more(j, '}')) return false;
    j->key.n = 0;
    jread_string(j, &j->key, "a key");
    skip_blanks(j);
    if (!j->failed && (j->at == j->end || *j->at != ':')) jread_fail(j, "expected ':' after a key");
    if (j->failed) return false;
    j->at++;
    *key = j->key.at ? j->key.at : "";
    *n = j->key.n;
    return true;
}

bool jread_is(struct json *j, const char *key, size_t n, const char *name, unsigned *seen, size_t i)
{
    if (strlen(name) != n || memcmp(name, key, n) != 0) return false;
    if (*seen & 1u << i) jread_fail(j, "key '%s' is given twice, expected once", name);
    *seen |= 1u << i;
    return true;
}

int jread_which(struct json *j, const char *key, size_t n, const char *const *names, size_t m,
                unsigned *seen)
{
    for (size_t i = 0; i < m; i++)
        if (jread_is(j, key, n, names[i], seen, i)) return j->failed ? -1 : (int)i;
    jread_unknown(j, key, n, names, m);
    return -1;
}

void jread_unknown(struct json *j, const char *key, size_t n, const char *const *names, size_t m)
{
    char word[40];
    struct text all = { 0 };
    snprintf(word, sizeof word, "%.*s", (int)(n < 39 ? n : 39), key);
    const int like = wisp_nearest(word, names, m);
    for (size_t i = 0; i < m; i++) text_print(&all, i ? ", %s" : "%s", names[i]);
    jread_fail(j, "unknown key '%s'%s%s%s; expected one of %.*s", word,
               like < 0 ? "" : " (did you mean '", like < 0 ? "" : names[like],
               like < 0 ? "" : "'?)", (int)all.n, all.at ? all.at : "");
    text_clear(&all);
}

/* ---- strings ---- */

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four digits after \u, or -1. */
static int code_unit(struct json *j)
{
    int code = 0;
    if (j->end - j->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const int digit = hex(j->at[i]);
        if (digit < 0) return -1;
        code = code << 4 | digit;
    }
    j->at += 4;
    return code;
}

static void put_code(struct text *to, unsigned c)
{
    char s[4];
    size_t n = 0;
    if (c < 0x80) s[n++] = (char)c;
    else if (c < 0x800) s[n++] = (char)(0xc0 | c >> 6);
    else if (c < 0x10000) s[n++] = (char)(0xe0 | c >> 12);
    else s[n++] = (char)(0xf0 | c >> 18);
    if (c >= 0x10000) s[n++] = (char)(0x80 | (c >> 12 & 0x3f));
    if (c >= 0x800) s[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    if (c >= 0x80) s[n++] = (char)(0x80 | (c & 0x3f));
    text_add(to, s, n);
}

/* What follows a backslash. */
static void escape(struct json *j, struct text *to)
{
    static const char from[] = "\"\\/bfnrt", is[] = "\"\\/\b\f\n\r\t";
    const char c = j->at < j->end ? *j->at++ : 0;
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        text_add(to, &is[found - from], 1);
        return;
    }
    int code = c == 'u' ? code_unit(j) : -1;
    if (code >= 0xd800 && code < 0xdc00 && j->end - j->at > 1 && j->at[0] == '\\' &&
        j->at[1] == 'u') {
        j->at += 2;
        const int low = code_unit(j);
        code =
            low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : -1;
    } else if (code >= 0xd800 && code < 0xe000) {
        code = -1; /* half a pair */
    }
    if (code < 0) jread_fail(j, "a backslash that begins no escape of JSON");
    else put_code(to, (unsigned)code);
}

void jread_string(struct json *j, struct text *to, const char *what)
{
    if (!expect(j, '"', what)) return;
    j->at++;
    while (!j->failed) {
        const char *from = j->at;
        while (j->at < j->end && (unsigned char)*j->at >= 0x20 && (unsigned char)*j->at < 0x80 &&
               *j->at != '"' && *j->at != '\\')
            j->at++;
        text_add(to, from, (size_t)(j->at - from));
        if (j->at == j->end) {
            jread_fail(j, "a string without its end");
        } else if (*j->at == '"') {
            j->at++;
            break;
        } else if (*j->at == '\\') {
            j->at++;
            escape(j, to);
        } else {
            const size_t n = utf8_character(j->at, (size_t)(j->end - j->at));
            if ((unsigned char)*j->at < 0x20) jread_fail(j, "a control character in a string");
            else if (n == 0)
                jread_fail(j, "a byte that is no UTF-8 (0x%02x)", (unsigned char)*j->at);
            else text_add(to, j->at, n);
            j->at += n;
        }
    }
    if (to->failed) jread_fail(j, "out of memory");
}

/* ---- numbers ---- */

static const char *digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9') p++;
    return p;
}

/* The end of the number at j->at, or NULL. */
static const char *number_end(const struct json *j)
{
    const char *p = j->at + (*j->at == '-'), *from = p;
    p = digits(p, j->end);
    if (p == from || (*from == '0' && p - from > 1)) return NULL;
    if (p < j->end && *p == '.') {
        from = ++p;
        p = digits(p, j->end);
        if (p == from) return NULL;
    }
    if (p < j->end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < j->end && (*p == '+' || *p == '-')) p++;
        from = p;
        p = digits(p, j->end);
        if (p == from) return NULL;
    }
    return p;
}

/* Up to 15 digits and a power of ten up to 22 are exact in a double, and so is their quotient as it is
 * rounded: most numbers need nothing more. */
static bool short_number(double *x, const char *p, const char *end)
{
    static const double tens[] = { 1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15 };
    const bool minus = *p == '-';
    int64_t whole = 0;
    int n = 0, after = -1;
    for (p += minus; p < end; p++) {
        if (*p == '.') {
            after = 0;
            continue;
        }
        if (*p < '0' || *p > '9' || ++n > 15) return false;
        whole = whole * 10 + (*p - '0');
        after += after >= 0;
    }
    *x = (double)whole / tens[after > 0 ? after : 0];
    if (minus) *x = -*x;
    return true;
}

double jread_number(struct json *j, const char *what)
{
    double x = 0;
    if (!expect(j, 'n', what)) return 0;
    const char *end = number_end(j);
    if (!end) {
        jread_fail(j, "found no number as JSON writes it, expected %s", what);
        return 0;
    }
    if (!short_number(&x, j->at, end)) x = strtod(j->at, NULL);
    if (!isfinite(x)) jread_fail(j, "a number beyond 1.8e308, expected %s", what);
    j->at = end;
    return isfinite(x) ? x : 0;
}

long long jread_whole(struct json *j, long long low, long long high, const char *what)
{
    const double x = jread_number(j, what);
    if (j->failed) return low;
    if (x >= (double)low && x <= (double)high && x == floor(x)) return (long long)x;
    jread_fail(j, "found %.17g, expected %s (%lld..%lld)", x, what, low, high);
    return low;
}

/* ---- the rest ---- */

static bool word(struct json *j, const char *s)
{
    const size_t n = strlen(s);
    if ((size_t)(j->end - j->at) < n || memcmp(j->at, s, n) != 0) return false;
    j->at += n;
    return true;
}

bool jread_bool(struct json *j, const char *what)
{
    const char c = jread_next(j);
    if (j->failed) return false;
    if (c == 't' && word(j, "true")) return true;
    if (c == 'f' && word(j, "false")) return false;
    jread_fail(j, "found %s, expected %s", what_comes(j), what);
    return false;
}

void jread_skip(struct json *j)
{
    const int outer = j->depth;
    struct text bin = { 0 };
    const char *key;
    size_t n;
    char open[JSON_DEPTH + 1]; /* what each level is */
    do {
        const char c = jread_next(j);
        if (c == '{' || c == '[') {
            if (jread_enter(j, c, "a value")) open[j->depth] = c;
        } else if (c == '"') {
            bin.n = 0;
            jread_string(j, &bin, "a string");
        } else if (c == 'n') {
            jread_number(j, "a number");
        } else if (!(c == 't' && word(j, "true")) && !(c == 'f' && word(j, "false")) &&
                   !(c == '0' && word(j, "null"))) {
            jread_fail(j, "found %s, expected a value", what_comes(j));
        }
        while (!j->failed && j->depth > outer) {
            const int at = j->depth;
            if (open[at] == '{' ? jread_key(j, &key, &n) : jread_item(j)) break;
            if (j->depth == at) break; /* it failed */
        }
    } while (!j->failed && j->depth > outer);
    text_clear(&bin);
}
