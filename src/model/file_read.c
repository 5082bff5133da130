/* Reading the model file: map, parse the header, check that the tensors tile the file, verify every
 * checksum, and only then hand out pointers into the map.
 *
 * Nothing in the file is trusted.  Checksums catch damage, not malice, so the structure is checked
 * as strictly as if there were none: sizes by checked products, spans sorted and laid end to end
 * from 0 to the end of the file, names and types from short lists. */
#include "base/mem.h"
#include "base/text.h"
#include "model/header.h"
#include "model/net.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* for a hash state that needs no heap */
#include <xxhash.h>

struct chunk {
    size_t span;
    const unsigned char *p, *want;
    size_t bytes;
    bool ok, finite;
};

struct reader {
    const char *path;
    struct wisp_map map;
    size_t n_header; /* 8 length bytes and the JSON; the data follow */
    struct wisp_header header;
    struct chunk *chunks; /* (n_chunks) */
    size_t n_chunks;
    bool plain; /* of somebody else: no alignment, no pads, no checksums */
    wisp_error *err;
};

__attribute__((format(printf, 2, 3))) static wisp_status bad(const struct reader *r,
                                                             const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    wisp_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    return wisp_fail_at(r->err, WISP_EMODEL, r->path, 0, "%s", text);
}

/* ---- the header ---- */

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

static bool has_sums(const struct wisp_header *h)
{
    for (size_t i = 0; i < h->n_spans; i++)
        if (strcmp(h->spans[i].t.name, WISP_INTEGRITY) == 0) return true;
    return false;
}

bool wisp_tensor_file_is_plain(const unsigned char *p, size_t bytes)
{
    struct wisp_header h;
    if (!wisp_tensor_file_probe(p, bytes) || json_bytes(p) > bytes - 8 ||
        wisp_header_parse(&h, "", p + 8, (size_t)json_bytes(p), NULL) != WISP_OK)
        return false;
    const bool plain = !has_sums(&h);
    wisp_header_clear(&h);
    return plain;
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
    return wisp_header_parse(&r->header, r->path, p + 8, (size_t)n, r->err);
}

/* ---- tensors ---- */

/* A tensor's bytes fit its shape and lie in the file. */
static wisp_status place(const struct reader *r, struct wisp_span *s)
{
    size_t n_data = r->map.bytes - r->n_header;
    if (!wisp_tensor_size(&s->t.bytes, s->t.dtype, s->t.n_dims, s->t.shape))
        return bad(r, "tensor '%s': its shape is too large", s->t.name);
    if (s->end > n_data)
        return bad(r, "cut off: tensor '%s' ends at byte %zu of the data, which has %zu", s->t.name,
                   s->end, n_data);
    if (s->end - s->begin != s->t.bytes)
        return bad(r, "tensor '%s': %zu bytes, its shape needs %zu", s->t.name, s->end - s->begin,
                   s->t.bytes);
    s->t.data = r->map.p + r->n_header + s->begin;
    s->t.finite = true;
    return WISP_OK;
}

/* Empty tensors lie before what begins at the same place. */
static int by_place(const void *a, const void *b)
{
    const struct wisp_span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->t.name, y->t.name);
}

static bool is_pad(const struct wisp_span *s)
{
    return strncmp(s->t.name, WISP_PAD_PREFIX, strlen(WISP_PAD_PREFIX)) == 0;
}

static wisp_status not_ours(const struct reader *r)
{
    return bad(r, "no " WISP_INTEGRITY " tensor at the end: not written by wisp; 'wisp convert' "
                  "makes a model of weights from elsewhere (docs/models.md)");
}

/* End to end from 0 to the end of the file, __integrity__ last, data aligned. */
static wisp_status check_layout(struct reader *r)
{
    struct wisp_span *spans = r->header.spans;
    size_t n_spans = r->header.n_spans, at = 0, n_data = r->map.bytes - r->n_header;
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < n_spans && st == WISP_OK; i++) st = place(r, &spans[i]);
    if (st != WISP_OK) return st;
    if (n_spans == 0) return bad(r, r->plain ? "no tensors" : "no tensors: not written by wisp");
    qsort(spans, n_spans, sizeof *spans, by_place);
    if (!r->plain && !has_sums(&r->header)) return not_ours(r);
    for (size_t i = 0; i < n_spans; i++) {
        const struct wisp_span *s = &spans[i];
        if (s->begin != at)
            return bad(r, "tensor '%s' %s: it begins at byte %zu of the data, expected %zu",
                       s->t.name, s->begin < at ? "overlaps another" : "leaves a hole before it",
                       s->begin, at);
        at = s->end;
        bool last = i + 1 == n_spans;
        if (r->plain) continue;
        if (!last && !is_pad(s) && (r->n_header + s->begin) % WISP_FILE_ALIGN != 0)
            return bad(
                r, "tensor '%s' is not aligned: byte %zu of the file, expected a multiple of %d",
                s->t.name, r->n_header + s->begin, WISP_FILE_ALIGN);
        if (last != (strcmp(s->t.name, WISP_INTEGRITY) == 0) || (last && s->t.dtype != WISP_U8))
            return not_ours(r);
    }
    if (at != n_data) return bad(r, "%zu bytes too many at the end", n_data - at);
    return WISP_OK;
}

/* ---- checksums ---- */

static bool same128(const void *p, size_t bytes, const unsigned char *want)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(p, bytes));
    return memcmp(c.digest, want, sizeof c.digest) == 0;
}

static bool finite_f16(const unsigned char *p, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++) ok &= (p[2 * i + 1] & 0x7c) != 0x7c;
    return ok;
}

/* A piece is summed and looked at while it is in the cache. */
static void verify_chunk(void *arg, size_t i, int thread)
{
    enum { PIECE = 1 << 16 };
    (void)thread;
    struct chunk *c = &((struct reader *)arg)->chunks[i];
    const enum wisp_dtype dtype = ((struct reader *)arg)->header.spans[c->span].t.dtype;
    XXH64_canonical_t got;
    XXH3_state_t sum;
    XXH3_64bits_reset(&sum);
    c->finite = true;
    for (size_t at = 0, n; at < c->bytes; at += n) {
        n = c->bytes - at < PIECE ? c->bytes - at : PIECE;
        if (c->want) XXH3_64bits_update(&sum, c->p + at, n);
        if (dtype == WISP_F32) c->finite &= wisp_finite(c->p + at, n / 4);
        else if (dtype == WISP_BF16) c->finite &= wisp_finite16(c->p + at, n / 2);
        else if (dtype == WISP_F16) c->finite &= finite_f16(c->p + at, n / 2);
    }
    if (!c->want) return;
    XXH64_canonicalFromHash(&got, XXH3_64bits_digest(&sum));
    c->ok = memcmp(got.digest, c->want, sizeof got.digest) == 0;
}

/* Of all tensors but __integrity__. */
static size_t n_seen(const struct reader *r)
{
    return r->header.n_spans - !r->plain;
}

static void list_chunks(struct reader *r, const unsigned char *want)
{
    size_t n = 0;
    for (size_t i = 0; i < n_seen(r); i++) {
        const unsigned char *p = r->header.spans[i].t.data;
        for (size_t left = r->header.spans[i].t.bytes; left > 0; n++) {
            size_t bytes = left < wisp_tensor_chunk ? left : wisp_tensor_chunk;
            r->chunks[n] = (struct chunk){ i, p, want ? want + 8 * n : NULL, bytes, !want, false };
            p += bytes;
            left -= bytes;
        }
    }
}

/* Looks at every byte; 'want' (8 bytes per chunk) is NULL in a plain file. */
static wisp_status see(struct reader *r, struct wisp_pool *pool, const unsigned char *want)
{
    r->chunks = wisp_alloc(r->n_chunks, sizeof *r->chunks);
    if (!r->chunks)
        return wisp_fail_mem(r->err, r->n_chunks * sizeof *r->chunks, "the list of checksums");
    list_chunks(r, want);
    wisp_parallel_for(pool, r->n_chunks, verify_chunk, r);
    for (size_t i = 0; i < r->n_chunks; i++) {
        const struct chunk *c = &r->chunks[i];
        if (!c->ok)
            return bad(r,
                       "damaged: tensor '%s' does not match its checksum (%zu bytes from byte %zu)",
                       r->header.spans[c->span].t.name, c->bytes, (size_t)(c->p - r->map.p));
        r->header.spans[c->span].t.finite &= c->finite;
    }
    return WISP_OK;
}

static wisp_status verify(struct reader *r, struct wisp_pool *pool)
{
    const struct wisp_tensor *sums = &r->header.spans[r->header.n_spans - 1].t;
    const unsigned char *p = sums->data;
    for (size_t i = 0; i < n_seen(r); i++)
        r->n_chunks += wisp_tensor_n_chunks(r->header.spans[i].t.bytes);
    if (r->plain) return see(r, pool, NULL);
    if (sums->bytes != 32 + 8 * r->n_chunks)
        return bad(r, WISP_INTEGRITY " has %zu bytes, expected %zu", sums->bytes,
                   32 + 8 * r->n_chunks);
    if (!same128(p, sums->bytes - 16, p + sums->bytes - 16))
        return bad(r, "damaged: the checksum of " WISP_INTEGRITY " does not match");
    if (!same128(r->map.p, r->n_header, p))
        return bad(r, "damaged: the checksum of the header does not match");
    return see(r, pool, p + 16);
}

/* ---- what the caller gets ---- */

static wisp_status copy_meta(const struct reader *r, struct wisp_tensor_file *f)
{
    const struct wisp_header *h = &r->header;
    size_t bytes = 0;
    if (h->n_meta == 0) return WISP_OK;
    for (size_t i = 0; i < h->n_meta; i++)
        bytes += sizeof *f->meta + strlen(h->meta[i].key) + strlen(h->meta[i].value) + 2;
    f->meta = wisp_alloc(bytes, 1);
    if (!f->meta) return wisp_fail_mem(r->err, bytes, "the metadata");
    char *text = (char *)(f->meta + h->n_meta);
    for (size_t i = 0; i < h->n_meta; i++) {
        f->meta[i].key = strcpy(text, h->meta[i].key);
        text += strlen(text) + 1;
        f->meta[i].value = strcpy(text, h->meta[i].value);
        text += strlen(text) + 1;
    }
    f->n_meta = h->n_meta;
    return WISP_OK;
}

static wisp_status copy_tensors(const struct reader *r, struct wisp_tensor_file *f)
{
    f->tensors = wisp_alloc(r->header.n_spans, sizeof *f->tensors);
    if (!f->tensors)
        return wisp_fail_mem(r->err, r->header.n_spans * sizeof *f->tensors, "the list of tensors");
    for (size_t i = 0; i < n_seen(r); i++)
        if (r->plain || !is_pad(&r->header.spans[i]))
            f->tensors[f->n_tensors++] = r->header.spans[i].t;
    const unsigned char *check = r->map.p + r->map.bytes - 16;
    XXH128_canonical_t all;
    if (r->plain) {
        XXH128_canonicalFromHash(&all, XXH3_128bits(r->map.p, r->map.bytes));
        check = all.digest;
    }
    for (int i = 0; i < 16; i++) {
        f->check[2 * i] = "0123456789abcdef"[check[i] >> 4];
        f->check[2 * i + 1] = "0123456789abcdef"[check[i] & 15];
    }
    return WISP_OK;
}

/* All of it, once it is mapped. */
static wisp_status read_map(struct wisp_tensor_file *out, struct wisp_pool *pool, const char *path,
                            bool plain, wisp_error *err)
{
    wisp_status st = WISP_OK;
    struct reader r = { .path = path, .map = out->map, .plain = plain, .err = err };
    st = parse_header(&r);
    if (st == WISP_OK) st = check_layout(&r);
    if (st == WISP_OK) st = copy_meta(&r, out);
    if (st == WISP_OK) st = verify(&r, pool);
    if (st == WISP_OK) st = copy_tensors(&r, out);
    wisp_header_clear(&r.header);
    wisp_free(r.chunks);
    st = wisp_map_blame(&out->map, st, err);
    if (st != WISP_OK) wisp_tensor_file_close(out);
    return st;
}

wisp_status wisp_tensor_file_open(struct wisp_tensor_file *out, struct wisp_pool *pool,
                                  const char *path, wisp_error *err)
{
    *out = (struct wisp_tensor_file){ 0 };
    wisp_status st = wisp_map_open(&out->map, path, err);
    return st == WISP_OK ? read_map(out, pool, path, false, err) : st;
}

wisp_status wisp_tensor_file_open_plain(struct wisp_tensor_file *out, struct wisp_pool *pool,
                                        const char *path, wisp_error *err)
{
    *out = (struct wisp_tensor_file){ 0 };
    wisp_status st = wisp_map_open(&out->map, path, err);
    return st == WISP_OK ? read_map(out, pool, path, true, err) : st;
}

wisp_status wisp_tensor_file_open_own(struct wisp_tensor_file *out, struct wisp_pool *pool,
                                      const char *path, const char *model, wisp_error *err)
{
    *out = (struct wisp_tensor_file){ 0 };
    wisp_status st = wisp_map_open_own(&out->map, path, model, false, err);
    return st == WISP_OK ? read_map(out, pool, path, false, err) : st;
}

wisp_status wisp_tensor_file_copy(struct wisp_tensor_file *out, struct wisp_pool *pool,
                                  const void *bytes, size_t n, const char *name, wisp_error *err)
{
    *out = (struct wisp_tensor_file){ 0 };
    unsigned char *copy = n ? wisp_alloc(n, 1) : NULL;
    if (n && !copy) return wisp_fail_mem(err, n, name);
    if (n) memcpy(copy, bytes, n);
    out->map = (struct wisp_map){ .p = copy, .bytes = n };
    return read_map(out, pool, name, false, err);
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
