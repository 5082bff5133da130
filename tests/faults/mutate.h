/* Changes of good files: of what a tensor file says (numbers, shapes, types, names, metadata), of
 * its header as text, of any bytes; and of caches.  All checksums are made right afterwards, so
 * that the checks behind them are reached.  A mutant is a function of its seed alone. */
#ifndef WISP_TESTS_FAULTS_MUTATE_H
#define WISP_TESTS_FAULTS_MUTATE_H

#include "data/cache.h"
#include "fuzz/checks.h"
#include "fuzz/repair.h"
#include "test.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { MUTATE_ROOM = 1 << 20, MUTATE_TENSORS = 200, MUTATE_PAIRS = 64 };

struct mutant { /* a tensor file in parts */
    struct wisp_tensor t[MUTATE_TENSORS];
    struct wisp_pair meta[MUTATE_PAIRS];
    size_t n, n_meta;
    void *owned[64];
    size_t n_owned;
    uint64_t rng;
    char what[400]; /* was changed, in words */
};

static inline size_t mutate_below(struct mutant *m, size_t n)
{
    return n ? (size_t)(test_rand(&m->rng) % n) : 0;
}

__attribute__((format(printf, 2, 3))) static inline void mutate_say(struct mutant *m,
                                                                    const char *fmt, ...)
{
    size_t at = strlen(m->what);
    va_list ap;
    va_start(ap, fmt);
    if (at + 2 < sizeof m->what) vsnprintf(m->what + at, sizeof m->what - at, fmt, ap);
    va_end(ap);
}

/* Memory that lives as long as the mutant. */
static inline void *mutate_keep(struct mutant *m, size_t bytes)
{
    void *p = calloc(1, bytes + 1);
    if (!p || m->n_owned == sizeof m->owned / sizeof *m->owned) abort();
    return m->owned[m->n_owned++] = p;
}

static inline void mutate_clear(struct mutant *m)
{
    while (m->n_owned) free(m->owned[--m->n_owned]);
}

static inline uint8_t *mutate_own(struct mutant *m, struct wisp_tensor *t, size_t bytes)
{
    uint8_t *p = mutate_keep(m, bytes);
    memcpy(p, t->data, bytes < t->bytes ? bytes : t->bytes);
    t->data = p;
    return p;
}

/* ---- numbers ---- */

static inline void mutate_number(struct mutant *m, uint8_t *to, enum wisp_dtype dtype)
{
    static const float floats[] = { NAN,   -NAN,   INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, -1,
                                    1e30f, -1e30f, 1e-45f,   0,         1,       -0.0f,    20 };
    static const int64_t ints[] = { -1,        0,         1,         2,         3,
                                    INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, UINT32_MAX,
                                    65535,     65536,     20000,     20001,     100,
                                    -2,        1ll << 40, 1ll << 62 };
    size_t bytes = wisp_dtypes[dtype].bytes, way = mutate_below(m, 8);
    if (way == 0) { /* any bits */
        uint64_t bits = test_rand(&m->rng);
        memcpy(to, &bits, bytes);
    } else if (way == 1) { /* one bit */
        to[mutate_below(m, bytes)] ^= (uint8_t)(1 << mutate_below(m, 8));
    } else if (dtype == WISP_F32 || (dtype == WISP_I32 && way == 2)) { /* blobs hold floats, too */
        memcpy(to, &floats[mutate_below(m, sizeof floats / sizeof *floats)], 4);
    } else if (dtype == WISP_BF16) {
        memcpy(to, (const char *)&floats[mutate_below(m, sizeof floats / sizeof *floats)] + 2, 2);
    } else if (way < 5) { /* a little off */
        uint64_t v = 0;
        memcpy(&v, to, bytes);
        v += mutate_below(m, 7) - 3; /* around at the ends */
        memcpy(to, &v, bytes);
    } else {
        memcpy(to, &ints[mutate_below(m, sizeof ints / sizeof *ints)], bytes);
    }
}

static inline void mutate_elements(struct mutant *m, struct wisp_tensor *t)
{
    size_t each = wisp_dtypes[t->dtype].bytes, n = t->bytes / each, times = 1;
    if (n == 0) return;
    uint8_t *p = mutate_own(m, t, t->bytes);
    if (mutate_below(m, 8) == 0) times = n; /* all of them alike */
    size_t first = mutate_below(m, 3) ? mutate_below(m, n) : mutate_below(m, 2) ? 0 : n - 1;
    mutate_number(m, p + each * first, t->dtype);
    for (size_t i = 0; times == n && i < n; i++) memmove(p + each * i, p + each * first, each);
    mutate_say(m, "; '%s'[%zu%s]", t->name, first, times == n ? ", all" : "");
}

/* ---- structure ---- */

/* Other numbers of rows or columns, with the bytes that go with them. */
static inline void mutate_shape(struct mutant *m, struct wisp_tensor *t)
{
    size_t d = t->n_dims ? mutate_below(m, (size_t)t->n_dims) : 0, bytes;
    static const size_t to[] = { 0, 1, 2, 3, 1000 };
    size_t way = mutate_below(m, 8);
    if (way < 2) t->shape[d] += 1;
    else if (way < 4) t->shape[d] -= t->shape[d] > 0;
    else if (way < 5) t->shape[d] = to[mutate_below(m, 5)];
    else if (way < 6 && t->n_dims == 2) {
        size_t x = t->shape[0];
        t->shape[0] = t->shape[1], t->shape[1] = x;
    } else if (way < 7) t->n_dims = (int)mutate_below(m, WISP_MAX_DIMS + 1);
    else t->dtype = (enum wisp_dtype)mutate_below(m, WISP_N_DTYPES);
    for (int i = 1; i < t->n_dims; i++) t->shape[i] += t->shape[i] == 0;
    if (!wisp_tensor_size(&bytes, t->dtype, t->n_dims, t->shape) || bytes > MUTATE_ROOM / 4) return;
    mutate_own(m, t, bytes);
    t->bytes = bytes;
    mutate_say(m, "; shape of '%s': %d %zu %zu %s", t->name, t->n_dims, t->shape[0], t->shape[1],
               wisp_dtypes[t->dtype].name);
}

static inline void mutate_list(struct mutant *m)
{
    size_t i = mutate_below(m, m->n), k = mutate_below(m, m->n);
    switch (mutate_below(m, 4)) {
    case 0:
        mutate_say(m, "; without '%s'", m->t[i].name);
        memmove(&m->t[i], &m->t[i + 1], (--m->n - i) * sizeof *m->t);
        break;
    case 1:
        if (m->n == MUTATE_TENSORS) return;
        m->t[m->n] = m->t[i];
        if (mutate_below(m, 4)) m->t[m->n].name[0] ^= 1;
        mutate_say(m, "; '%s' again as '%s'", m->t[i].name, m->t[m->n].name);
        m->n++;
        break;
    case 2:
        mutate_say(m, "; '%s' is called '%s'", m->t[i].name, m->t[k].name);
        memcpy(m->t[i].name, m->t[k].name, sizeof m->t[i].name);
        break;
    default: /* what another tensor holds */
        mutate_say(m, "; '%s' holds '%s'", m->t[i].name, m->t[k].name);
        if (m->t[i].bytes <= m->t[k].bytes) m->t[i].data = m->t[k].data;
    }
}

/* Names, one on a line. */
static inline void mutate_text(struct mutant *m, struct wisp_tensor *t)
{
    static const char odd[] = "\n\n\0\x1b\xff a\r\t\"\\:";
    if (t->bytes == 0) return;
    uint8_t *p = mutate_own(m, t, t->bytes);
    for (size_t times = 1 + mutate_below(m, 3); times-- > 0;)
        p[mutate_below(m, 2) ? mutate_below(m, t->bytes) : t->bytes - 1] =
            (uint8_t)odd[mutate_below(m, sizeof odd - 1)];
    mutate_say(m, "; text of '%s'", t->name);
}

static inline const char *mutate_value(struct mutant *m, const char *was)
{
    static const char *const values[] = {
        "",
        "-1",
        "0",
        "1",
        "2",
        "4294967296",
        "nan",
        "inf",
        "1e9",
        "2147483648",
        "2147483647",
        "18446744073709551615",
        "wisp-model 1",
        "wisp-state 1",
        "none",
        "softmax",
        "bce",
        "tfidf",
        "unit",
        "raw",
        "words",
        "words and pairs",
        "xc",
        "fasttext",
        "npz",
        "idx",
        "memory",
        "input 8",
        "input 8, relu",
        "input 1000000000",
        "input 8, dense 4294967295",
        "input 99999999999999999999",
        "input 8, relu, dense 8, dense 8",
        "input 8, sparse radix 8",
        "input 8, dropout 2",
        "sparse random 8 4",
        "input 0",
        "relu",
        "a=1\nb=2\n",
        "\x1b[31m\n",
        "\xc3\xa9",
    };
    size_t n = strlen(was), way = mutate_below(m, 6), at = mutate_below(m, n + 1);
    char *p = mutate_keep(m, n + 40);
    if (way < 2) return values[mutate_below(m, sizeof values / sizeof *values)];
    memcpy(p, was, n + 1);
    if (way == 2) p[at] = 0;
    else if (way == 3 && at < n) p[at] = (char)('0' + mutate_below(m, 10));
    else if (way == 4 && at < n) p[at] = " ,=\n-.x9"[mutate_below(m, 8)];
    else
        sprintf(p, "%.*s%s%s", (int)at, was,
                (const char *[]){ "9", " ", "-", ", relu" }[mutate_below(m, 4)], was + at);
    return p;
}

static inline void mutate_meta(struct mutant *m)
{
    if (m->n_meta == 0) return;
    size_t i = mutate_below(m, m->n_meta), k = mutate_below(m, m->n_meta);
    struct wisp_pair *p = &m->meta[i];
    if (mutate_below(m, 12) == 0) {
        mutate_say(m, "; no metadata '%s'", p->key);
        *p = m->meta[--m->n_meta];
        return;
    }
    p->value = mutate_below(m, 10) ? mutate_value(m, p->value) : m->meta[k].value;
    mutate_say(m, "; metadata '%s'", p->key);
}

/* ---- as bytes ---- */

static inline size_t mutate_quoted(char *to, const char *s)
{
    size_t n = 0;
    to[n++] = '"';
    for (; *s; s++) {
        if ((unsigned char)*s < 0x20) n += (size_t)sprintf(to + n, "\\u%04x", (unsigned char)*s);
        else {
            if (*s == '"' || *s == '\\') to[n++] = '\\';
            to[n++] = *s;
        }
    }
    to[n++] = '"';
    return n;
}

static inline size_t mutate_entry(char *to, const struct wisp_tensor *t, const char *name,
                                  size_t begin)
{
    char shape[22 * WISP_MAX_DIMS] = "";
    for (int i = 0, at = 0; i < t->n_dims; i++)
        at += snprintf(shape + at, sizeof shape - (size_t)at, "%s%zu", i ? "," : "", t->shape[i]);
    to[0] = ',';
    size_t n = 1 + mutate_quoted(to + 1, name);
    return n + (size_t)sprintf(to + n,
                               ":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                               wisp_dtypes[t->dtype].name, shape, begin, begin + t->bytes);
}

/* The file of the parts, sums left out; its bytes, 0: there is no room. */
static inline size_t mutate_build(uint8_t *to, const struct mutant *m)
{
    static char head[MUTATE_ROOM / 2];
    static uint8_t data[MUTATE_ROOM];
    size_t n = (size_t)sprintf(head, "{\"__metadata__\":{"), at = 0, sums = 0;
    for (size_t i = 0; i < m->n_meta; i++) {
        if (n + 6 * strlen(m->meta[i].value) + 200 > sizeof head) return 0;
        if (i) head[n++] = ',';
        n += mutate_quoted(head + n, m->meta[i].key);
        head[n++] = ':';
        n += mutate_quoted(head + n, m->meta[i].value);
    }
    head[n++] = '}';
    for (size_t i = 0; i < m->n; i++) {
        const struct wisp_tensor *t = &m->t[i];
        struct wisp_tensor pad = { .n_dims = 1, .shape = { -at % 64 }, .bytes = -at % 64 };
        char name[32];
        if (n + 1000 > sizeof head || at + t->bytes + 64 > sizeof data / 2) return 0;
        snprintf(name, sizeof name, "__pad_%zu__", i);
        if (pad.bytes) n += mutate_entry(head + n, &pad, name, at);
        memset(data + at, 0, pad.bytes);
        at += pad.bytes;
        n += mutate_entry(head + n, t, t->name, at);
        if (t->bytes) memcpy(data + at, t->data, t->bytes);
        at += t->bytes;
        sums += (pad.bytes > 0) + (t->bytes > 0);
    }
    struct wisp_tensor last = { .n_dims = 1, .shape = { 32 + 8 * sums }, .bytes = 32 + 8 * sums };
    n += mutate_entry(head + n, &last, WISP_INTEGRITY, at);
    memset(data + at, 0, last.bytes);
    head[n++] = '}';
    while ((n + 8) % 64) head[n++] = ' ';
    uint64_t length = n;
    memcpy(to, &length, 8);
    memcpy(to + 8, head, n);
    memcpy(to + 8 + n, data, at + last.bytes);
    return 8 + n + at + last.bytes;
}

/* Some characters of the header, which stays as long as it is; or bytes anywhere; or the end. */
static inline size_t mutate_bytes(struct mutant *m, uint8_t *b, size_t n)
{
    static const char odd[] = "0123456789,:[]{}\"\\ -.eE\n\x01\xff";
    uint64_t head;
    memcpy(&head, b, 8);
    if (head > n - 8) return n;
    size_t way = mutate_below(m, 8);
    for (size_t times = 1 + mutate_below(m, 3); times-- > 0;) {
        size_t at = 8 + mutate_below(m, (size_t)head);
        if (way < 4) { /* a digit */
            while (at < 8 + head && (b[at] < '0' || b[at] > '9')) at++;
            if (at < 8 + head) b[at] = (uint8_t)('0' + mutate_below(m, 10));
        } else if (way < 6) {
            b[at] = (uint8_t)odd[mutate_below(m, sizeof odd - 1)];
        } else if (way == 6) {
            b[mutate_below(m, n)] ^= (uint8_t)(1 << mutate_below(m, 8));
        }
    }
    if (way == 7)
        n = mutate_below(m, 2) ? mutate_below(m, n) : n - mutate_below(m, n < 64 ? n : 64);
    mutate_say(m, "; bytes");
    return n;
}

/* One to three changes of the good file; its bytes in 'to' (MUTATE_ROOM). */
static inline size_t mutate_tensors(struct mutant *m, uint8_t *to, const struct wisp_tensor_file *f)
{
    m->n = f->n_tensors < MUTATE_TENSORS ? f->n_tensors : MUTATE_TENSORS;
    m->n_meta = f->n_meta < MUTATE_PAIRS ? f->n_meta : MUTATE_PAIRS;
    memcpy(m->t, f->tensors, m->n * sizeof *m->t);
    memcpy(m->meta, f->meta, m->n_meta * sizeof *m->meta);
    size_t times = 1 + mutate_below(m, 3) / 2 + mutate_below(m, 4) / 3;
    bool raw = mutate_below(m, 6) == 0;
    for (; times > 0 && m->n > 0; times--) {
        struct wisp_tensor *t = &m->t[mutate_below(m, m->n)];
        size_t way = mutate_below(m, 16);
        if (t->dtype == WISP_U8 && way < 8) mutate_text(m, t);
        else if (way < 8) mutate_elements(m, t);
        else if (way < 10) mutate_shape(m, t);
        else if (way < 11) mutate_list(m);
        else mutate_meta(m);
    }
    size_t n = mutate_build(to, m);
    if (raw && n > 8) n = mutate_bytes(m, to, n);
    tensors_fix(to, n);
    return n;
}

/* Words of a cache: mostly of its index, of its blocks, of its ends; sometimes its length. */
static inline size_t mutate_cache(struct mutant *m, uint8_t *b, size_t n)
{
    static const struct checks_plan plan = { sizeof(struct wisp_cache_index),
                                             offsetof(struct wisp_cache_index, n_blocks),
                                             sizeof(struct wisp_cache_entry),
                                             sizeof(struct wisp_block_head),
                                             offsetof(struct wisp_block_head, check) };
    size_t index = (size_t)checks_get(b + n - 64), end = n - 64;
    if (index > end) index = end;
    for (size_t times = 1 + mutate_below(m, 2); times-- > 0;) {
        size_t way = mutate_below(m, 16), at;
        if (way < 9) {
            at =
                index + mutate_below(m, (way < 6 && end - index > 200 ? 200 : end - index) / 8) * 8;
            if (at + 8 <= n) mutate_number(m, b + at, WISP_I64);
        } else if (way < 14) {
            at = 64 + mutate_below(m, (index > 64 ? index - 64 : 0) / 4) * 4;
            if (at + 4 <= n) mutate_number(m, b + at, mutate_below(m, 2) ? WISP_I32 : WISP_F32);
        } else if (way == 14) {
            at = mutate_below(m, 2) ? mutate_below(m, 64) : end + mutate_below(m, 64);
            b[at] ^= (uint8_t)(1 << mutate_below(m, 8));
        } else { /* a name, or whatever stands at the end of the index */
            at = end - 1 - mutate_below(m, end - index < 60 ? end - index : 60);
            b[at] = (uint8_t) "\n\0\xff\x1b"[mutate_below(m, 4)];
        }
        mutate_say(m, "; byte %zu", at);
    }
    checks_fix(b, n, &plan);
    return n;
}

#endif
