/* Reading the model file: map, parse the header, check that the tensors tile the file, verify every
 * checksum, and only then hand out pointers into the map.
 *
 * Nothing in the file is trusted.  Checksums catch damage, not malice, so the structure is checked
 * as strictly as if there were none: sizes by checked products, spans sorted and laid end to end
 * from 0 to the end of the file, names and types from short lists.
 *
 * jansson parses the header.  It ignores a failed allocation while it collects a token, which
 * could shorten a string silently; so what was parsed is written back and compared
 * with the header, byte for byte (the writer uses jansson's compact form). */
#include "model/file.h"
#include "base/mem.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct span { /* a tensor of any kind, pads and __integrity__ included */
    struct wisp_tensor t;
    size_t begin, end; /* in the data */
};

struct chunk {
    size_t span;
    const unsigned char *p, *want;
    size_t bytes;
    bool ok;
};

struct reader {
    const char *path;
    struct wisp_map map;
    size_t n_header; /* 8 length bytes and the JSON; the data follow */
    json_t *json;
    struct span *spans; /* (n_spans) */
    size_t n_spans;
    struct chunk *chunks; /* (n_chunks) */
    size_t n_chunks;
    wisp_error *err;
};

__attribute__((format(printf, 2, 3))) static wisp_status bad(const struct reader *r,
                                                             const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return wisp_fail(r->err, WISP_EMODEL, "%s: %s", r->path, text);
}

/* ---- the header as JSON ---- */

static bool same128(const void *p, size_t bytes, const unsigned char *want)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(p, bytes));
    return memcmp(c.digest, want, sizeof c.digest) == 0;
}

/* The header's checksum lies 32 bytes and some 8-byte checksums before the end of the file.  How
 * many is not known without parsing, but few: a tensor takes over 40 bytes of the header. */
static bool header_is_whole(const struct reader *r)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(r->map.p, r->n_header));
    size_t most = r->n_header / 40 + r->map.bytes / wisp_tensor_chunk;
    for (size_t back = 32; back <= r->map.bytes - r->n_header && back <= 32 + 8 * most; back += 8)
        if (memcmp(r->map.p + r->map.bytes - back, c.digest, sizeof c.digest) == 0) return true;
    return false;
}

/* jansson often calls a failed allocation a syntax error; a whole header has none.  Messages are
 * one line, and jansson quotes the input in its own. */
static wisp_status json_failed(const struct reader *r, json_error_t *e)
{
    if (json_error_code(e) == json_error_out_of_memory || !e->text[0] || header_is_whole(r))
        return wisp_fail_mem(r->err, r->n_header, "the header of the model file");
    for (char *c = e->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
    return bad(r, "the header is not valid JSON: %s", e->text);
}

static uint64_t json_bytes(const unsigned char *p)
{
    uint64_t n = 0;
    for (int i = 0; i < 8; i++) n |= (uint64_t)p[i] << (8 * i);
    return n;
}

bool wisp_tensor_file_probe(const unsigned char *p, size_t bytes)
{
    return bytes > 8 && json_bytes(p) <= WISP_HEADER_MAX && p[8] == '{';
}

static wisp_status parse_header(struct reader *r)
{
    const unsigned char *p = r->map.p;
    if (r->map.bytes < 8) return bad(r, "%zu bytes are too few for a model file", r->map.bytes);
    uint64_t n = json_bytes(p);
    if (n > WISP_HEADER_MAX)
        return bad(r, "a header of %llu bytes, expected at most %d: not a model file",
                   (unsigned long long)n, WISP_HEADER_MAX);
    if (n > r->map.bytes - 8)
        return bad(r, "cut off: a header of %llu bytes in a file of %zu", (unsigned long long)n,
                   r->map.bytes);
    r->n_header = 8 + (size_t)n;
    json_error_t e;
    r->json = json_loadb((const char *)p + 8, (size_t)n, JSON_REJECT_DUPLICATES, &e);
    if (!r->json) return json_failed(r, &e);
    if (!json_is_object(r->json)) return bad(r, "the header is not a JSON object");
    return WISP_OK;
}

struct rest { /* of the header, while it is compared */
    const char *p;
    size_t n;
    bool differs;
};

static int compare_part(const char *part, size_t n, void *arg)
{
    struct rest *rest = arg;
    rest->differs = n > rest->n || memcmp(part, rest->p, n) != 0;
    if (rest->differs) return -1;
    rest->p += n;
    rest->n -= n;
    return 0;
}

static wisp_status check_parse(const struct reader *r)
{
    struct rest rest = { (const char *)r->map.p + 8, r->n_header - 8, false };
    bool done = json_dump_callback(r->json, compare_part, &rest, JSON_COMPACT) == 0;
    while (rest.n > 0 && *rest.p == ' ') rest.p++, rest.n--;
    if (done && !rest.differs && rest.n == 0) return WISP_OK;
    if ((!done && !rest.differs) || header_is_whole(r))
        return wisp_fail_mem(r->err, r->n_header, "the header of the model file");
    return bad(r, "the header is not as wisp writes it");
}

/* ---- tensors ---- */

static wisp_status parse_shape(const struct reader *r, struct wisp_tensor *t, const json_t *shape)
{
    if (!json_is_array(shape) || json_array_size(shape) > 2)
        return bad(r, "tensor '%s': its shape is not a list of at most 2 numbers", t->name);
    t->n_dims = (int)json_array_size(shape);
    for (int i = 0; i < 2; i++) {
        const json_t *d = json_array_get(shape, (size_t)i);
        if (d && (!json_is_integer(d) || json_integer_value(d) < 0))
            return bad(r, "tensor '%s': dimension %d is not a whole number from 0", t->name, i);
        t->shape[i] = d ? (size_t)json_integer_value(d) : 1;
    }
    if (!wisp_tensor_size(&t->bytes, t->dtype, t->n_dims, t->shape))
        return bad(r, "tensor '%s': its shape is too large", t->name);
    return WISP_OK;
}

static wisp_status parse_offsets(const struct reader *r, struct span *s, const json_t *offsets)
{
    const json_t *b = json_array_get(offsets, 0), *e = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(b) || !json_is_integer(e) ||
        json_integer_value(b) < 0 || json_integer_value(e) < json_integer_value(b))
        return bad(r, "tensor '%s': expected data_offsets [begin, end], 0 <= begin <= end",
                   s->t.name);
    s->begin = (size_t)json_integer_value(b);
    s->end = (size_t)json_integer_value(e);
    if (s->end > r->map.bytes - r->n_header)
        return bad(r, "cut off: tensor '%s' ends at byte %zu of the data, which has %zu", s->t.name,
                   s->end, r->map.bytes - r->n_header);
    if (s->end - s->begin != s->t.bytes)
        return bad(r, "tensor '%s': %zu bytes, its shape needs %zu", s->t.name, s->end - s->begin,
                   s->t.bytes);
    s->t.data = r->map.p + r->n_header + s->begin;
    return WISP_OK;
}

static wisp_status parse_tensor(const struct reader *r, struct span *s, const char *name,
                                const json_t *v)
{
    if (!wisp_tensor_name_ok(name))
        return bad(r, "a tensor's name is not 1 to %d plain characters", WISP_NAME_BYTES - 1);
    memcpy(s->t.name, name, strlen(name) + 1);
    const char *dtype = json_string_value(json_object_get(v, "dtype"));
    if (json_object_size(v) != 3 || !dtype)
        return bad(r, "tensor '%s': expected dtype, shape and data_offsets", name);
    size_t i = 0;
    while (i < WISP_N_DTYPES && strcmp(dtype, wisp_dtypes[i].name) != 0) i++;
    if (i == WISP_N_DTYPES)
        return bad(r, "tensor '%s': its dtype is none of U8, I8, I32, I64, F32, BF16", name);
    s->t.dtype = (enum wisp_dtype)i;
    wisp_status st = parse_shape(r, &s->t, json_object_get(v, "shape"));
    return st == WISP_OK ? parse_offsets(r, s, json_object_get(v, "data_offsets")) : st;
}

static wisp_status parse_tensors(struct reader *r)
{
    size_t n = json_object_size(r->json);
    r->spans = wisp_zalloc(n, sizeof *r->spans);
    if (!r->spans) return wisp_fail_mem(r->err, n * sizeof *r->spans, "the list of tensors");
    const char *key;
    json_t *v;
    json_object_foreach(r->json, key, v)
    {
        if (strcmp(key, WISP_METADATA) == 0) continue;
        wisp_status st = parse_tensor(r, &r->spans[r->n_spans], key, v);
        if (st != WISP_OK) return st;
        r->n_spans++;
    }
    return WISP_OK;
}

/* Empty tensors lie before what begins at the same place. */
static int by_place(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->t.name, y->t.name);
}

static bool is_pad(const struct span *s)
{
    return strncmp(s->t.name, WISP_PAD_PREFIX, strlen(WISP_PAD_PREFIX)) == 0;
}

/* End to end from 0 to the end of the file, __integrity__ last, data aligned. */
static wisp_status check_layout(struct reader *r)
{
    qsort(r->spans, r->n_spans, sizeof *r->spans, by_place);
    size_t at = 0, n_data = r->map.bytes - r->n_header;
    for (size_t i = 0; i < r->n_spans; i++) {
        const struct span *s = &r->spans[i];
        if (s->begin != at)
            return bad(r, "tensor '%s' %s: it begins at byte %zu of the data, expected %zu",
                       s->t.name, s->begin < at ? "overlaps another" : "leaves a hole before it",
                       s->begin, at);
        at = s->end;
        bool last = i + 1 == r->n_spans;
        if (!last && !is_pad(s) && (r->n_header + s->begin) % WISP_FILE_ALIGN != 0)
            return bad(
                r, "tensor '%s' is not aligned: byte %zu of the file, expected a multiple of %d",
                s->t.name, r->n_header + s->begin, WISP_FILE_ALIGN);
        if (last != (strcmp(s->t.name, WISP_INTEGRITY) == 0) || (last && s->t.dtype != WISP_U8))
            return bad(r, "no " WISP_INTEGRITY " tensor at the end: not written by wisp");
    }
    if (r->n_spans == 0) return bad(r, "no tensors: not written by wisp");
    if (at != n_data) return bad(r, "%zu bytes too many at the end", n_data - at);
    return WISP_OK;
}

/* ---- checksums ---- */

static void verify_chunk(void *arg, size_t i, int thread)
{
    (void)thread;
    struct chunk *c = &((struct reader *)arg)->chunks[i];
    XXH64_canonical_t got;
    XXH64_canonicalFromHash(&got, XXH3_64bits(c->p, c->bytes));
    c->ok = memcmp(got.digest, c->want, sizeof got.digest) == 0;
}

static void list_chunks(struct reader *r, const unsigned char *want)
{
    size_t n = 0;
    for (size_t i = 0; i + 1 < r->n_spans; i++) {
        const unsigned char *p = r->spans[i].t.data;
        for (size_t left = r->spans[i].t.bytes; left > 0; n++) {
            size_t bytes = left < wisp_tensor_chunk ? left : wisp_tensor_chunk;
            r->chunks[n] = (struct chunk){ i, p, want + 8 * n, bytes, false };
            p += bytes;
            left -= bytes;
        }
    }
}

static wisp_status verify(struct reader *r, struct wisp_pool *pool)
{
    const struct wisp_tensor *sums = &r->spans[r->n_spans - 1].t;
    const unsigned char *p = sums->data;
    for (size_t i = 0; i + 1 < r->n_spans; i++)
        r->n_chunks += wisp_tensor_n_chunks(r->spans[i].t.bytes);
    if (sums->bytes != 32 + 8 * r->n_chunks)
        return bad(r, WISP_INTEGRITY " has %zu bytes, expected %zu", sums->bytes,
                   32 + 8 * r->n_chunks);
    if (!same128(p, sums->bytes - 16, p + sums->bytes - 16))
        return bad(r, "damaged: the checksum of " WISP_INTEGRITY " does not match");
    if (!same128(r->map.p, r->n_header, p))
        return bad(r, "damaged: the checksum of the header does not match");
    r->chunks = wisp_alloc(r->n_chunks, sizeof *r->chunks);
    if (!r->chunks)
        return wisp_fail_mem(r->err, r->n_chunks * sizeof *r->chunks, "the list of checksums");
    list_chunks(r, p + 16);
    wisp_parallel_for(pool, r->n_chunks, verify_chunk, r);
    for (size_t i = 0; i < r->n_chunks; i++) {
        const struct chunk *c = &r->chunks[i];
        if (!c->ok)
            return bad(r,
                       "damaged: tensor '%s' does not match its checksum (%zu bytes from byte %zu)",
                       r->spans[c->span].t.name, c->bytes, (size_t)(c->p - r->map.p));
    }
    return WISP_OK;
}

/* ---- what the caller gets ---- */

static wisp_status copy_meta(const struct reader *r, struct wisp_tensor_file *f)
{
    json_t *meta = json_object_get(r->json, WISP_METADATA), *v;
    if (!meta) return WISP_OK;
    if (!json_is_object(meta)) return bad(r, WISP_METADATA " is not a JSON object");
    size_t bytes = 0;
    const char *key;
    json_object_foreach(meta, key, v)
    {
        if (!wisp_tensor_name_ok(key))
            return bad(r, "a key of " WISP_METADATA " is not 1 to %d plain characters",
                       WISP_NAME_BYTES - 1);
        if (!json_is_string(v)) return bad(r, "metadata '%s' is not a string", key);
        bytes += sizeof *f->meta + strlen(key) + json_string_length(v) + 2;
    }
    f->meta = wisp_alloc(bytes, 1);
    if (!f->meta) return wisp_fail_mem(r->err, bytes, "the metadata");
    char *text = (char *)(f->meta + json_object_size(meta));
    json_object_foreach(meta, key, v)
    {
        f->meta[f->n_meta].key = strcpy(text, key);
        text += strlen(key) + 1;
        f->meta[f->n_meta++].value = strcpy(text, json_string_value(v));
        text += json_string_length(v) + 1;
    }
    return WISP_OK;
}

static wisp_status copy_tensors(const struct reader *r, struct wisp_tensor_file *f)
{
    f->tensors = wisp_alloc(r->n_spans, sizeof *f->tensors);
    if (!f->tensors)
        return wisp_fail_mem(r->err, r->n_spans * sizeof *f->tensors, "the list of tensors");
    for (size_t i = 0; i + 1 < r->n_spans; i++)
        if (!is_pad(&r->spans[i])) f->tensors[f->n_tensors++] = r->spans[i].t;
    const unsigned char *check = r->map.p + r->map.bytes - 16;
    for (int i = 0; i < 16; i++) {
        f->check[2 * i] = "0123456789abcdef"[check[i] >> 4];
        f->check[2 * i + 1] = "0123456789abcdef"[check[i] & 15];
    }
    return WISP_OK;
}

wisp_status wisp_tensor_file_open(struct wisp_tensor_file *out, struct wisp_pool *pool,
                                  const char *path, wisp_error *err)
{
    *out = (struct wisp_tensor_file){ 0 };
    wisp_status st = wisp_map_open(&out->map, path, err);
    if (st != WISP_OK) return st;
    struct reader r = { .path = path, .map = out->map, .err = err };
    st = parse_header(&r);
    if (st == WISP_OK) st = parse_tensors(&r);
    if (st == WISP_OK) st = check_layout(&r);
    if (st == WISP_OK) st = copy_meta(&r, out);
    if (st == WISP_OK) st = verify(&r, pool);
    if (st == WISP_OK) st = check_parse(&r);
    if (st == WISP_OK) st = copy_tensors(&r, out);
    json_decref(r.json);
    wisp_free(r.spans);
    wisp_free(r.chunks);
    if (st != WISP_OK) wisp_tensor_file_close(out);
    return st;
}

void wisp_tensor_file_close(struct wisp_tensor_file *f)
{
    wisp_free(f->tensors);
    wisp_free(f->meta);
    wisp_map_close(&f->map);
    *f = (struct wisp_tensor_file){ 0 };
}

const struct wisp_tensor *wisp_tensor_file_find(const struct wisp_tensor_file *f, const char *name)
{
    for (size_t i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    return NULL;
}

const char *wisp_tensor_file_meta(const struct wisp_tensor_file *f, const char *key)
{
    for (size_t i = 0; i < f->n_meta; i++)
        if (strcmp(f->meta[i].key, key) == 0) return f->meta[i].value;
    return NULL;
}
