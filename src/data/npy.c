/* Arrays as numpy writes them: a header, then little-endian elements. */
#include "data/npy.h"

#include <stdio.h>
#include <string.h>

wisp_status wisp_npy_wrong(const struct wisp_npy *a, const char *what, wisp_error *err)
{
    return wisp_fail_at(err, WISP_EFORMAT, a->path, 0, "array '%s': %s", a->name, what);
}

struct cursor {
    const char *p, *end;
};

/* Skips blanks, then takes 'word' if it is there. */
static bool take(struct cursor *c, const char *word)
{
    while (c->p < c->end && *c->p == ' ') c->p++;
    size_t n = strlen(word);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n)) return false;
    c->p += n;
    return true;
}

static bool take_number(struct cursor *c, size_t *out)
{
    take(c, "");
    const char *start = c->p;
    for (*out = 0; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (size_t)(*c->p - '0'), out))
            return false;
    return c->p > start;
}

/* Is c one of 'set'?  strchr finds the NUL at its end as well. */
static bool one_of(const char *set, char c)
{
    return c && strchr(set, c);
}

/* '<f4': byte order, kind, size.  Unicode counts characters of 4 bytes. */
static bool take_type(struct cursor *c, struct wisp_npy *a)
{
    if (!take(c, "'") || c->end - c->p < 2 || !one_of("<|", c->p[0])) return false;
    a->kind = c->p[1];
    c->p += 2;
    if (!one_of("fiubSU", a->kind) || !take_number(c, &a->item) || a->item > 1000) return false;
    if (a->kind == 'U') a->item *= 4;
    return take(c, "'");
}

static bool take_shape(struct cursor *c, struct wisp_npy *a)
{
    if (!take(c, "(")) return false;
    a->n = 1;
    for (a->n_dims = 0; !take(c, ")"); a->n_dims++) {
        size_t dim;
        if (a->n_dims && !take(c, ",")) return false;
        if (a->n_dims && take(c, ")")) return true;
        if (!take_number(c, &dim) || __builtin_mul_overflow(a->n, dim, &a->n)) return false;
        if (a->n_dims < WISP_NPY_DIMS) a->dim[a->n_dims] = dim;
    }
    return a->n_dims != 1; /* one dimension is written (n,) */
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (3,), } */
static bool parse_header(struct wisp_npy *a, const char *text, size_t n)
{
    struct cursor c = { text, text + n };
    int seen = 0;
    if (!take(&c, "{")) return false;
    while (!take(&c, "}")) {
        if (seen && !take(&c, ",")) return false;
        if (take(&c, "}")) break;
        int key = take(&c, "'descr'") ? 1 : take(&c, "'fortran_order'") ? 2 : 4;
        if ((key == 4 && !take(&c, "'shape'")) || !take(&c, ":") || seen & key) return false;
        if (key == 1 && !take_type(&c, a)) return false;
        if (key == 2) a->columns = take(&c, "True");
        if (key == 2 && !a->columns && !take(&c, "False")) return false;
        if (key == 4 && !take_shape(&c, a)) return false;
        seen |= key;
    }
    return take(&c, "\n") && c.p == c.end && seen == 7;
}

wisp_status wisp_npy_parse(struct wisp_npy *a, const unsigned char *p, size_t there, size_t bytes,
                           wisp_error *err)
{
    if (there < 12 || memcmp(p, "\x93NUMPY", 6) || p[6] < 1 || p[6] > 3)
        return wisp_npy_wrong(a, "no npy header of version 1 to 3", err);
    size_t at = p[6] == 1 ? 10 : 12, head = (size_t)(p[8] | p[9] << 8);
    if (p[6] > 1) head |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (head > there - at || !parse_header(a, (const char *)p + at, head))
        return wisp_npy_wrong(a,
                              "its npy header is not one this program reads (little-endian numbers "
                              "or text, no structures)",
                              err);
    size_t want;
    if (__builtin_mul_overflow(a->n, a->item, &want) || want != bytes - at - head)
        return wisp_fail_at(err, WISP_EFORMAT, a->path, 0,
                            "array '%s': %zu elements of %zu bytes in %zu bytes", a->name, a->n,
                            a->item, bytes - at - head);
    a->p = p + at + head;
    return WISP_OK;
}

static wisp_status find_array(struct wisp_npy *a, const struct wisp_zip_entry **e,
                              const struct wisp_zip *z, const char *name, wisp_error *err)
{
    char file[32];
    *a = (struct wisp_npy){ .path = z->path, .name = name };
    snprintf(file, sizeof file, "%s.npy", name);
    wisp_status st = wisp_zip_find(e, z, file, err);
    if (st || *e) return st;
    return wisp_npy_wrong(a, "missing; expected a file of scipy.sparse.save_npz in format csr",
                          err);
}

wisp_status wisp_npy_load(struct wisp_npy *a, const struct wisp_zip *z, const char *name,
                          wisp_error *err)
{
    const struct wisp_zip_entry *e;
    const unsigned char *p;
    wisp_status st = find_array(a, &e, z, name, err);
    if (!st) st = wisp_zip_read(&p, &a->owned, z, e, err);
    return st ? st : wisp_npy_parse(a, p, e->bytes, e->bytes, err);
}

wisp_status wisp_npy_load_small(struct wisp_npy *a, const struct wisp_zip *z, const char *name,
                                wisp_error *err)
{
    enum { MOST = 1 << 17 }; /* a header of any length that version 1 allows, and a word */
    const struct wisp_zip_entry *e;
    wisp_status st = find_array(a, &e, z, name, err);
    if (!st && e->bytes > MOST) return wisp_npy_wrong(a, "expected a word, or two integers", err);
    return st ? st : wisp_npy_load(a, z, name, err);
}

wisp_status wisp_npy_peek_entry(struct wisp_npy *a, const struct wisp_zip *z,
                                const struct wisp_zip_entry *e, wisp_error *err)
{
    enum { MOST_HEADER = 4096 }; /* numpy writes 118 bytes */
    unsigned char head[MOST_HEADER];
    size_t n = sizeof head;
    wisp_status st = wisp_zip_peek(head, &n, z, e, err);
    if (!st) st = wisp_npy_parse(a, head, n, e->bytes, err);
    a->p = NULL;
    return st;
}

wisp_status wisp_npy_peek(struct wisp_npy *a, const struct wisp_zip *z, const char *name,
                          wisp_error *err)
{
    const struct wisp_zip_entry *e;
    wisp_status st = find_array(a, &e, z, name, err);
    return st ? st : wisp_npy_peek_entry(a, z, e, err);
}

/* Elements may lie at any address, hence memcpy; little-endian on both sides. */
static uint64_t bits_at(const struct wisp_npy *a, size_t i)
{
    uint64_t v = 0;
    switch (a->item) {
    case 1:
        return a->p[i];
    case 2:
        memcpy(&v, a->p + 2 * i, 2);
        return v;
    case 4:
        memcpy(&v, a->p + 4 * i, 4);
        return v;
    default:
        memcpy(&v, a->p + 8 * i, 8);
        return v;
    }
}

int64_t wisp_npy_int(const struct wisp_npy *a, size_t i)
{
    int shift = 64 - 8 * (int)a->item;
    return (int64_t)(bits_at(a, i) << shift) >> shift;
}

double wisp_npy_value(const struct wisp_npy *a, size_t i)
{
    if (a->kind == 'i') return (double)wisp_npy_int(a, i);
    uint64_t v = bits_at(a, i);
    if (a->kind != 'f') return (double)v;
    double d;
    float f;
    uint32_t low = (uint32_t)v;
    memcpy(&d, &v, sizeof d);
    memcpy(&f, &low, sizeof f);
    return a->item == 4 ? (double)f : d;
}
