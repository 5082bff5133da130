/* Parsing the header of a model file; header.h says what it may look like. */
#include "model/header.h"
#include "base/mem.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    const char *path;
    const unsigned char *begin, *p, *end;
    struct wisp_header *h;
    size_t
        used; /* of h->text, whose room is that of the JSON: no string is longer than its source */
    wisp_error *err;
};

__attribute__((format(printf, 2, 3))) static wisp_status bad(const struct parser *s,
                                                             const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    wisp_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    return wisp_fail_at(s->err, WISP_EMODEL, s->path, 0, "%s", text);
}

static wisp_status no_json(const struct parser *s, const char *expected)
{
    return bad(s, "the header is not valid JSON: byte %zu, expected %s", (size_t)(s->p - s->begin),
               expected);
}

/* ---- tokens ---- */

static void skip_spaces(struct parser *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

/* The next character that is no space, without taking it; -1: there is none. */
static int next(struct parser *s)
{
    skip_spaces(s);
    return s->p < s->end ? *s->p : -1;
}

static bool take(struct parser *s, char c)
{
    if (next(s) != c) return false;
    s->p++;
    return true;
}

/* Of a list or an object: is there another element?  *n counts them; 'close' is taken. */
static wisp_status more(bool *out, struct parser *s, char close, size_t *n)
{
    *out = false;
    if (take(s, close)) return WISP_OK;
    if (*n > 0 && !take(s, ',')) return no_json(s, close == '}' ? "',' or '}'" : "',' or ']'");
    (*n)++;
    *out = true;
    return WISP_OK;
}

/* 4 hexadecimal digits; -1: there are none. */
static int32_t hex4(const struct parser *s)
{
    int32_t v = 0;
    if (s->end - s->p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int c = s->p[i], digit = c >= '0' && c <= '9'   ? c - '0'
                                 : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                 : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                        : -1;
        if (digit < 0) return -1;
        v = v << 4 | digit;
    }
    return v;
}

static void put_utf8(struct parser *s, uint32_t c)
{
    s->used += wisp_utf8_put(s->h->text + s->used, c);
}

/* What follows "\u": one character, of two such codes beyond U+FFFF. */
static wisp_status unicode(struct parser *s)
{
    int32_t c = hex4(s);
    if (c < 0) return no_json(s, "4 hexadecimal digits after \\u");
    if (c == 0) return no_json(s, "no \\u0000 in a string");
    s->p += 4;
    if (c >= 0xd800 && c < 0xdc00 && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u') {
        s->p += 2;
        int32_t low = hex4(s);
        if (low < 0xdc00 || low > 0xdfff) return no_json(s, "the second half of a pair \\uD8..");
        s->p += 4;
        c = 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
    }
    if (c >= 0xd800 && c < 0xe000) return no_json(s, "a pair \\uD8..\\uDC.., not one half of it");
    put_utf8(s, (uint32_t)c);
    return WISP_OK;
}

static wisp_status escape(struct parser *s)
{
    static const char letter[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    const char *at = s->p < s->end && *s->p ? strchr(letter, *s->p) : NULL;
    if (at) {
        s->p++;
        s->h->text[s->used++] = plain[at - letter];
        return WISP_OK;
    }
    if (s->p == s->end || *s->p != 'u') return no_json(s, "one of \"\\/bfnrtu after \\");
    s->p++;
    return unicode(s);
}

/* A string, decoded, with a NUL, at the end of what is used of h->text. */
static wisp_status string(const char **out, struct parser *s)
{
    *out = s->h->text + s->used;
    if (!take(s, '"')) return no_json(s, "a string");
    while (s->p < s->end && *s->p != '"') {
        size_t n = wisp_utf8_bytes(s->p, (size_t)(s->end - s->p));
        wisp_status st = WISP_OK;
        if (*s->p < 0x20) return no_json(s, "no control character in a string");
        if (n == 0) return no_json(s, "UTF-8");
        if (*s->p == '\\') {
            s->p++;
            st = escape(s);
        } else {
            memcpy(s->h->text + s->used, s->p, n);
            s->used += n;
            s->p += n;
        }
        if (st != WISP_OK) return st;
    }
    if (s->p == s->end) return no_json(s, "the end of a string");
    s->p++;
    s->h->text[s->used++] = 0; /* in the place of the two quotes */
    return WISP_OK;
}

/* A whole number from 0; what no size can be becomes UINT64_MAX. */
static bool whole_number(uint64_t *out, struct parser *s)
{
    uint64_t v = 0;
    const unsigned char *first;
    next(s);
    for (first = s->p; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
        if (s->p - first < 19) v = 10 * v + (*s->p - (uint64_t)'0'); /* below 10^19: no overflow */
    size_t digits = (size_t)(s->p - first);
    bool ends = s->p == s->end || !strchr(".eE", *s->p) || !*s->p;
    *out = digits > 19 ? UINT64_MAX : v;
    return digits > 0 && ends && (digits == 1 || *first != '0');
}

/* ---- what a header holds ---- */

static wisp_status shape(struct parser *s, struct wisp_tensor *t)
{
    bool another;
    size_t n = 0;
    wisp_status st = WISP_OK;
    const bool list = take(s, '[');
    for (int i = 0; i < WISP_MAX_DIMS; i++) t->shape[i] = 1;
    while (list && (st = more(&another, s, ']', &n)) == WISP_OK && another) {
        uint64_t v;
        if (n > WISP_MAX_DIMS) break;
        if (!whole_number(&v, s))
            return bad(s, "tensor '%s': dimension %zu is not a whole number from 0", t->name,
                       n - 1);
        t->shape[n - 1] = (size_t)v;
    }
    if (!list || n > WISP_MAX_DIMS)
        return bad(s, "tensor '%s': its shape is not a list of at most %d numbers", t->name,
                   WISP_MAX_DIMS);
    t->n_dims = (int)n;
    return st;
}

static wisp_status offsets(struct parser *s, struct wisp_span *t)
{
    uint64_t b, e;
    if (!take(s, '[') || !whole_number(&b, s) || !take(s, ',') || !whole_number(&e, s) ||
        !take(s, ']') || b > e)
        return bad(s, "tensor '%s': expected data_offsets [begin, end], 0 <= begin <= end",
                   t->t.name);
    t->begin = (size_t)b, t->end = (size_t)e;
    return WISP_OK;
}

static wisp_status dtype(struct parser *s, struct wisp_tensor *t)
{
    const char *name;
    size_t used = s->used, i = 0;
    wisp_status st = string(&name, s);
    if (st != WISP_OK) return st;
    s->used = used;
    while (i < WISP_N_DTYPES && strcmp(name, wisp_dtypes[i].name) != 0) i++;
    if (i == WISP_N_DTYPES)
        return bad(s, "tensor '%s': its dtype is none of U8, I8, I32, I64, F32, BF16, F16",
                   t->name);
    t->dtype = (enum wisp_dtype)i;
    return WISP_OK;
}

/* dtype, shape and data_offsets, once each, in any order. */
static wisp_status tensor(struct parser *s, struct wisp_span *to)
{
    static const char *const fields[] = { "dtype", "shape", "data_offsets" };
    unsigned seen = 0;
    bool another = true;
    size_t n = 0, used = s->used;
    wisp_status st = WISP_OK;
    if (!take(s, '{'))
        return bad(s, "tensor '%s': expected dtype, shape and data_offsets", to->t.name);
    while (st == WISP_OK && (st = more(&another, s, '}', &n)) == WISP_OK && another) {
        const char *key;
        int i = 0;
        if ((st = string(&key, s)) != WISP_OK) return st;
        s->used = used;
        while (i < 3 && strcmp(key, fields[i]) != 0) i++;
        if (i == 3 || seen & 1u << i)
            return bad(s, "tensor '%s': expected dtype, shape and data_offsets, once each",
                       to->t.name);
        seen |= 1u << i;
        if (!take(s, ':')) return no_json(s, "':'");
        st = i == 0 ? dtype(s, &to->t) : i == 1 ? shape(s, &to->t) : offsets(s, to);
    }
    if (st == WISP_OK && seen != 7)
        st = bad(s, "tensor '%s': expected dtype, shape and data_offsets", to->t.name);
    return st;
}

static wisp_status add_tensor(struct parser *s, const char *name)
{
    struct wisp_header *h = s->h;
    if (!wisp_tensor_name_ok(name))
        return bad(s, "a tensor's name is not 1 to %d plain characters", WISP_NAME_BYTES - 1);
    if (h->n_spans == WISP_TENSORS_MAX)
        return bad(s, "more than %d tensors: not written by wisp", WISP_TENSORS_MAX);
    if (!wisp_grow(&h->spans, h->n_spans, &h->cap_spans, sizeof *h->spans))
        return wisp_fail_mem(s->err, h->n_spans * sizeof *h->spans, "the list of tensors");
    struct wisp_span *to = &h->spans[h->n_spans++];
    *to = (struct wisp_span){ 0 };
    memcpy(to->t.name, name, strlen(name) + 1);
    return tensor(s, to);
}

static wisp_status add_pair(struct parser *s)
{
    struct wisp_header *h = s->h;
    const char *key, *value;
    wisp_status st = string(&key, s);
    if (st != WISP_OK) return st;
    if (!wisp_tensor_name_ok(key))
        return bad(s, "a key of " WISP_METADATA " is not 1 to %d plain characters",
                   WISP_NAME_BYTES - 1);
    for (size_t i = 0; i < h->n_meta; i++)
        if (strcmp(h->meta[i].key, key) == 0)
            return bad(s, "a duplicate key: metadata '%s' is there twice", key);
    if (h->n_meta == WISP_META_MAX)
        return bad(s, "more than %d keys of metadata: not written by wisp", WISP_META_MAX);
    if (!take(s, ':')) return no_json(s, "':'");
    if (next(s) != '"') return bad(s, "metadata '%s' is not a string", key);
    if ((st = string(&value, s)) != WISP_OK) return st;
    if (!wisp_grow(&h->meta, h->n_meta, &h->cap_meta, sizeof *h->meta))
        return wisp_fail_mem(s->err, h->n_meta * sizeof *h->meta, "the metadata");
    h->meta[h->n_meta++] = (struct wisp_pair){ key, value };
    return WISP_OK;
}

static wisp_status metadata(struct parser *s)
{
    bool another = true;
    size_t n = 0;
    wisp_status st = WISP_OK;
    if (!take(s, '{')) return bad(s, WISP_METADATA " is not a JSON object");
    while (st == WISP_OK && (st = more(&another, s, '}', &n)) == WISP_OK && another)
        st = add_pair(s);
    return st;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct wisp_span *)a)->t.name, ((const struct wisp_span *)b)->t.name);
}

static wisp_status check_names(const struct parser *s)
{
    struct wisp_header *h = s->h;
    if (h->n_spans) qsort(h->spans, h->n_spans, sizeof *h->spans, by_name);
    for (size_t i = 1; i < h->n_spans; i++)
        if (by_name(&h->spans[i - 1], &h->spans[i]) == 0)
            return bad(s, "a duplicate key: tensor '%s' is there twice", h->spans[i].t.name);
    return WISP_OK;
}

static wisp_status header(struct parser *s)
{
    bool another = true, had_meta = false;
    size_t n = 0;
    wisp_status st = WISP_OK;
    if (next(s) == '[') return bad(s, "the header is not a JSON object");
    if (!take(s, '{')) return no_json(s, "'{'");
    while (st == WISP_OK && (st = more(&another, s, '}', &n)) == WISP_OK && another) {
        const char *name;
        size_t used = s->used;
        if ((st = string(&name, s)) != WISP_OK) return st;
        if (!take(s, ':')) return no_json(s, "':'");
        bool is_meta = strcmp(name, WISP_METADATA) == 0;
        if (is_meta && had_meta) return bad(s, "a duplicate key: " WISP_METADATA " is there twice");
        had_meta |= is_meta;
        st = is_meta ? metadata(s) : add_tensor(s, name);
        if (!is_meta) s->used = used;
    }
    if (st == WISP_OK && next(s) >= 0) return no_json(s, "nothing after the last '}'");
    return st == WISP_OK ? check_names(s) : st;
}

wisp_status wisp_header_parse(struct wisp_header *h, const char *path, const unsigned char *json,
                              size_t bytes, wisp_error *err)
{
    struct parser s = {
        .path = path, .begin = json, .p = json, .end = json + bytes, .h = h, .err = err
    };
    *h = (struct wisp_header){ .text = wisp_alloc(bytes, 1) };
    wisp_status st =
        h->text ? header(&s) : wisp_fail_mem(err, bytes, "the header of the model file");
    if (st != WISP_OK) wisp_header_clear(h);
    return st;
}

void wisp_header_clear(struct wisp_header *h)
{
    wisp_free(h->spans);
    wisp_free(h->meta);
    wisp_free(h->text);
    *h = (struct wisp_header){ 0 };
}
