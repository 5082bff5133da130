/* Writing the model file, in one pass over the data.
 *
 * The size of __integrity__ follows from the sizes of the tensors, so the header is complete before
 * any byte of data is read: header, then each tensor hashed and written chunk by chunk, then
 * __integrity__.  The same content gives the same bytes: metadata and tensors stand in the
 * order given, as JSON without spaces, padded to a multiple of 64 bytes.
 *
 *   {"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
 *    "__pad_0__":{"dtype":"U8","shape":[40],"data_offsets":[24,64]}, ... ,"__integrity__":{...}}
 *
 * A tensor whose rows several ranks have comes in pieces (parts.h); the bytes are the same.
 *
 * The header is written by hand (jansson could not tell a full machine from a bad string), and read
 * by hand: header.c. */
#include "model/file.h"
#include "base/mem.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* for a hash state that needs no heap */
#include <xxhash.h>

const struct wisp_dtype_info wisp_dtypes[WISP_N_DTYPES] = {
    [WISP_U8] = { "U8", 1 },   [WISP_I8] = { "I8", 1 },   [WISP_I32] = { "I32", 4 },
    [WISP_I64] = { "I64", 8 }, [WISP_F32] = { "F32", 4 }, [WISP_BF16] = { "BF16", 2 },
    [WISP_F16] = { "F16", 2 },
};

size_t wisp_tensor_chunk = (size_t)64 << 20;

size_t wisp_tensor_n_chunks(size_t bytes)
{
    return bytes / wisp_tensor_chunk + (bytes % wisp_tensor_chunk != 0);
}

bool wisp_tensor_name_ok(const char *name)
{
    size_t n = strnlen(name, WISP_NAME_BYTES);
    for (size_t i = 0; i < n; i++)
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\') return false;
    return n > 0 && n < WISP_NAME_BYTES;
}

bool wisp_tensor_size(size_t *bytes, enum wisp_dtype dtype, int n_dims, const size_t *shape)
{
    *bytes = wisp_dtypes[dtype].bytes;
    for (int i = 0; i < n_dims; i++)
        if (shape[i] > INT64_MAX || __builtin_mul_overflow(*bytes, shape[i], bytes)) return false;
    return true;
}

const char *wisp_tensor_text(char out[WISP_TENSOR_TEXT], enum wisp_dtype dtype, int n_dims,
                             const size_t *shape)
{
    int n = snprintf(out, WISP_TENSOR_TEXT, "%s", wisp_dtypes[dtype].name);
    for (int i = 0; i < n_dims; i++)
        n += snprintf(out + n, WISP_TENSOR_TEXT - (size_t)n, "%s%zu", i ? " x " : " ", shape[i]);
    return out;
}

/* ---- what the caller may hand in ---- */

static wisp_status check_meta(const char *path, const struct wisp_pair *meta, size_t n,
                              wisp_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!wisp_tensor_name_ok(meta[i].key))
            return wisp_fail_at(err, WISP_EINVAL, path, 0, "metadata %zu has no valid key", i);
        for (size_t j = 0; j < i; j++)
            if (strcmp(meta[i].key, meta[j].key) == 0)
                return wisp_fail_at(err, WISP_EINVAL, path, 0, "metadata '%s' twice", meta[i].key);
        const unsigned char *s = (const unsigned char *)meta[i].value;
        for (size_t step; *s; s += step)
            if ((step = wisp_utf8_bytes(s, strnlen((const char *)s, 4))) == 0)
                return wisp_fail_at(err, WISP_EINVAL, path, 0,
                                    "metadata '%s' is not UTF-8: byte 0x%02x", meta[i].key, *s);
    }
    return WISP_OK;
}

static wisp_status check_tensors(const char *path, const struct wisp_tensor *t, size_t n,
                                 wisp_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = t[i].name;
        if (!wisp_tensor_name_ok(name))
            return wisp_fail_at(err, WISP_EINVAL, path, 0, "tensor %zu has no valid name", i);
        if (strncmp(name, WISP_PAD_PREFIX, strlen(WISP_PAD_PREFIX)) == 0 ||
            strcmp(name, WISP_INTEGRITY) == 0 || strcmp(name, WISP_METADATA) == 0)
            return wisp_fail_at(err, WISP_EINVAL, path, 0, "the name '%s' is reserved", name);
        for (size_t j = 0; j < i; j++)
            if (strcmp(name, t[j].name) == 0)
                return wisp_fail_at(err, WISP_EINVAL, path, 0, "tensor '%s' twice", name);
        size_t bytes;
        if ((unsigned)t[i].dtype >= WISP_N_DTYPES || t[i].n_dims < 0 ||
            t[i].n_dims > WISP_MAX_DIMS ||
            !wisp_tensor_size(&bytes, t[i].dtype, t[i].n_dims, t[i].shape) || bytes != t[i].bytes)
            return wisp_fail_at(err, WISP_EINVAL, path, 0,
                                "tensor '%s': %zu bytes do not fit its shape", name, t[i].bytes);
    }
    return WISP_OK;
}

/* ---- the header ---- */

struct text {
    char *p;
    size_t n, cap;
    bool full; /* out of memory: sticks, asked for once at the end */
};

static void put_char(struct text *t, char c)
{
    if (t->full || !wisp_grow(&t->p, t->n, &t->cap, 1)) t->full = true;
    else t->p[t->n++] = c;
}

static void put(struct text *t, const char *s)
{
    while (*s) put_char(t, *s++);
}

static void put_quoted(struct text *t, const char *s)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    put_char(t, '"');
    for (; *s; s++) {
        const char *at = strchr(plain, *s);
        char code[8];
        if (at) {
            put_char(t, '\\');
            put_char(t, letter[at - plain]);
        } else if ((unsigned char)*s < 0x20) {
            snprintf(code, sizeof code, "\\u%04X", (unsigned)*s);
            put(t, code);
        } else {
            put_char(t, *s);
        }
    }
    put_char(t, '"');
}

static void put_tensor(struct text *t, const struct wisp_tensor *x, size_t begin)
{
    char s[WISP_NAME_BYTES + 200], shape[22 * WISP_MAX_DIMS] = "";
    for (int i = 0, at = 0; i < x->n_dims; i++)
        at += snprintf(shape + at, sizeof shape - (size_t)at, "%s%zu", i ? "," : "", x->shape[i]);
    snprintf(s, sizeof s, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
             x->name, wisp_dtypes[x->dtype].name, shape, begin, begin + x->bytes);
    put(t, s);
}

static struct wisp_tensor byte_tensor(const char *name, size_t bytes)
{
    struct wisp_tensor t = { .dtype = WISP_U8, .n_dims = 1, .shape = { bytes }, .bytes = bytes };
    snprintf(t.name, sizeof t.name, "%s", name);
    return t;
}

/* Zeros needed at 'offset' for the next tensor to be aligned. */
static size_t gap(size_t offset)
{
    return -offset % WISP_FILE_ALIGN;
}

/* The 8 length bytes and the JSON; *n_hashes receives the number of chunks of all tensors.  NULL: a
 * plain file. */
static void put_header(struct text *h, const struct wisp_tensor *t, size_t n_tensors,
                       const struct wisp_pair *meta, size_t n_meta, size_t *n_hashes)
{
    for (int i = 0; i < 8; i++) put_char(h, 0);
    put(h, "{\"" WISP_METADATA "\":{");
    for (size_t i = 0; i < n_meta; i++) {
        if (i) put_char(h, ',');
        put_quoted(h, meta[i].key);
        put_char(h, ':');
        put_quoted(h, meta[i].value);
    }
    put_char(h, '}');
    size_t offset = 0, n = 0;
    for (size_t i = 0, n_pads = 0; i < n_tensors; i++) {
        size_t zeros = n_hashes ? gap(offset) : 0;
        if (zeros) {
            char name[40];
            snprintf(name, sizeof name, WISP_PAD_PREFIX "%zu__", n_pads++);
            struct wisp_tensor pad = byte_tensor(name, zeros);
            put_tensor(h, &pad, offset);
        }
        put_tensor(h, &t[i], offset + zeros);
        offset += zeros + t[i].bytes;
        n += wisp_tensor_n_chunks(zeros) + wisp_tensor_n_chunks(t[i].bytes);
    }
    struct wisp_tensor last = byte_tensor(WISP_INTEGRITY, 32 + 8 * n);
    if (n_hashes) put_tensor(h, &last, offset);
    put_char(h, '}');
    while (h->n % WISP_FILE_ALIGN && !h->full) put_char(h, ' ');
    for (int i = 0; i < 8 && !h->full; i++) h->p[i] = (char)((h->n - 8) >> (8 * i));
    if (n_hashes) *n_hashes = n;
}

/* ---- the data ---- */

struct hashes {
    unsigned char *p; /* (16 + 8 * chunks + 16) */
    size_t used;
};

static void add_hash128(struct hashes *h, const void *p, size_t bytes)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(p, bytes));
    memcpy(h->p + h->used, c.digest, sizeof c.digest);
    h->used += sizeof c.digest;
}

/* Errors of writing stick in 'o' and are reported by the commit. */
static void write_part(struct wisp_out *o, struct hashes *h, const unsigned char *p, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        size_t n = bytes - at < wisp_tensor_chunk ? bytes - at : wisp_tensor_chunk;
        XXH64_canonical_t c;
        XXH64_canonicalFromHash(&c, XXH3_64bits(p + at, n));
        memcpy(h->p + h->used, c.digest, sizeof c.digest);
        h->used += sizeof c.digest;
        if (wisp_out_write(o, p + at, n, NULL) != WISP_OK) return;
        at += n;
    }
}

/* A tensor that comes in pieces: what is hashed at once may begin in one and end in another. */
struct stream {
    struct wisp_out *o;
    struct hashes *h;
    XXH3_state_t state;
    size_t in_chunk;
};

static void end_chunk(struct stream *s)
{
    XXH64_canonical_t c;
    XXH64_canonicalFromHash(&c, XXH3_64bits_digest(&s->state));
    memcpy(s->h->p + s->h->used, c.digest, sizeof c.digest);
    s->h->used += sizeof c.digest;
    XXH3_64bits_reset(&s->state);
    s->in_chunk = 0;
}

/* Fits wisp_parts_pass. */
static void write_rows(void *arg, const void *rows, size_t bytes)
{
    struct stream *s = arg;
    for (size_t at = 0; at < bytes;) {
        const size_t left = wisp_tensor_chunk - s->in_chunk,
                     n = bytes - at < left ? bytes - at : left;
        XXH3_64bits_update(&s->state, (const char *)rows + at, n);
        wisp_out_write(s->o, (const char *)rows + at, n, NULL);
        at += n;
        if ((s->in_chunk += n) == wisp_tensor_chunk) end_chunk(s);
    }
}

/* What is written to: the file, and what the pieces of tensors need. */
struct target {
    struct wisp_out *o;
    unsigned char *room; /* NULL: no tensor comes in pieces */
};

static wisp_status write_tensor(const struct target *to, struct hashes *h,
                                const struct wisp_tensor *t, wisp_error *err)
{
    if (!t->parts.comm) {
        write_part(to->o, h, t->data, t->bytes);
        return WISP_OK;
    }
    struct stream s = { .o = to->o, .h = h };
    XXH3_64bits_reset(&s.state);
    wisp_status st = wisp_parts_pass(&t->parts, t->data, to->room, write_rows, &s, err);
    if (s.in_chunk > 0) end_chunk(&s);
    return st;
}

static wisp_status open_target(struct target *to, const char *path, const char *model,
                               const struct wisp_tensor *t, size_t n_tensors, wisp_error *err)
{
    size_t room = 0;
    for (size_t i = 0; i < n_tensors; i++)
        if (t[i].parts.comm) {
            const size_t bytes = 2 * wisp_parts_room(&t[i].parts);
            if (bytes > room) room = bytes;
        }
    *to = (struct target){ .room = room ? wisp_alloc(room, 1) : NULL };
    if (room && !to->room) return wisp_fail_mem(err, room, "rows of other ranks");
    wisp_status st = (model ? wisp_out_create_own : wisp_out_create)(&to->o, path, err);
    if (st != WISP_OK) return st;
    if (model) wisp_out_keep(to->o);
    if (model) wisp_out_like(to->o, model);
    return WISP_OK;
}

/* Where writing fails pieces are taken none the less: the other ranks send them.  Where a rank is lost
 * nothing is committed. */
static wisp_status write_all(struct target *to, const struct text *header, struct hashes *h,
                             const struct wisp_tensor *t, size_t n_tensors, wisp_error *err)
{
    static const unsigned char zeros[WISP_FILE_ALIGN];
    wisp_status st = WISP_OK;
    wisp_out_write(to->o, header->p, header->n, NULL);
    add_hash128(h, header->p, header->n);
    for (size_t i = 0; i < n_tensors && st == WISP_OK; i++) {
        write_part(to->o, h, zeros, gap(wisp_out_offset(to->o)));
        st = write_tensor(to, h, &t[i], err);
    }
    if (st != WISP_OK) {
        wisp_out_abort(to->o);
        return st;
    }
    add_hash128(h, h->p, h->used);
    wisp_out_write(to->o, h->p, h->used, NULL);
    return wisp_out_commit(to->o, err);
}

/* Ranks but the first: they only send. */
static wisp_status send_all(const struct wisp_tensor *t, size_t n_tensors, wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < n_tensors && st == WISP_OK; i++)
        if (t[i].parts.comm)
            st = wisp_parts_pass(&t[i].parts, t[i].data, NULL, write_rows, NULL, err);
    return st;
}

/* What any file must be; the header has room for pads between tensors. */
static wisp_status check_file(const char *path, const struct wisp_tensor *t, size_t n_tensors,
                              const struct wisp_pair *meta, size_t n_meta, wisp_error *err)
{
    if (n_meta > WISP_META_MAX || 2 * n_tensors + 1 > WISP_TENSORS_MAX)
        return wisp_fail_at(err, WISP_EINVAL, path, 0, "%zu tensors and %zu strings are too many",
                            n_tensors, n_meta);
    wisp_status st = check_meta(path, meta, n_meta, err);
    return st == WISP_OK ? check_tensors(path, t, n_tensors, err) : st;
}

static wisp_status too_long(const char *path, const struct text *header, wisp_error *err)
{
    return wisp_fail_at(err, WISP_EINVAL, path, 0,
                        "a header of %zu bytes, at most %d can be read back", header->n,
                        WISP_HEADER_MAX);
}

/* By the process that writes; c NULL: it is alone.  Others wait to hear that all is well so far. */
static wisp_status write_here(const char *path, const char *model, const struct wisp_tensor *t,
                              size_t n_tensors, const struct wisp_pair *meta, size_t n_meta,
                              char *check, const struct wisp_comm *c, wisp_error *err)
{
    struct text header = { 0 };
    struct hashes h = { 0 };
    struct target to = { 0 };
    size_t n_hashes = 0;
    wisp_status st = check_file(path, t, n_tensors, meta, n_meta, err);
    if (st == WISP_OK) {
        put_header(&header, t, n_tensors, meta, n_meta, &n_hashes);
        if (!header.full) h.p = wisp_alloc(32 + 8 * n_hashes, 1);
        if (header.full || !h.p)
            st = wisp_fail_mem(err, header.n + 32 + 8 * n_hashes, "the header of the model file");
        else if (header.n > WISP_HEADER_MAX) st = too_long(path, &header, err);
    }
    if (st == WISP_OK) st = open_target(&to, path, model, t, n_tensors, err);
    if (c) {
        const bool mine = st == WISP_OK;
        st = wisp_comm_agree(c, st, err);
        if (mine && st != WISP_OK) wisp_out_abort(to.o);
    }
    if (st == WISP_OK) st = write_all(&to, &header, &h, t, n_tensors, err);
    if (st == WISP_OK && check)
        for (int i = 0; i < 16; i++)
            snprintf(check + 2 * i, 3, "%02x", h.p[h.used - 16 + (size_t)i]);
    wisp_free(to.room);
    wisp_free(header.p);
    wisp_free(h.p);
    return st;
}

static wisp_status write_file(const char *path, const char *model, const struct wisp_tensor *t,
                              size_t n_tensors, const struct wisp_pair *meta, size_t n_meta,
                              char *check, wisp_error *err)
{
    const struct wisp_comm *c = NULL;
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < n_tensors && !c; i++) c = t[i].parts.comm;
    if (!c || c->rank == 0) st = write_here(path, model, t, n_tensors, meta, n_meta, check, c, err);
    else if ((st = wisp_comm_agree(c, st, err)) == WISP_OK) st = send_all(t, n_tensors, err);
    if (!c) return st;
    st = wisp_comm_agree(c, st, err);
    return st == WISP_OK && check ? c->spread(check, 33, 0, err) : st;
}

wisp_status wisp_tensor_file_write(const char *path, const struct wisp_tensor *t, size_t n_tensors,
                                   const struct wisp_pair *meta, size_t n_meta, char *check,
                                   wisp_error *err)
{
    return write_file(path, NULL, t, n_tensors, meta, n_meta, check, err);
}

wisp_status wisp_tensor_file_replace(const char *path, const char *model,
                                     const struct wisp_tensor *t, size_t n_tensors,
                                     const struct wisp_pair *meta, size_t n_meta, wisp_error *err)
{
    return write_file(path, model, t, n_tensors, meta, n_meta, NULL, err);
}

wisp_status wisp_tensor_file_write_plain(const char *path, const struct wisp_tensor *t,
                                         size_t n_tensors, const struct wisp_pair *meta,
                                         size_t n_meta, wisp_error *err)
{
    struct text header = { 0 };
    struct wisp_out *o;
    wisp_status st = check_file(path, t, n_tensors, meta, n_meta, err);
    if (st != WISP_OK) return st;
    put_header(&header, t, n_tensors, meta, n_meta, NULL);
    if (header.full) st = wisp_fail_mem(err, header.n, "the header of the file of weights");
    else if (header.n > WISP_HEADER_MAX) st = too_long(path, &header, err);
    else st = wisp_out_create(&o, path, err);
    if (st == WISP_OK) {
        wisp_out_write(o, header.p, header.n, NULL);
        for (size_t i = 0; i < n_tensors; i++) wisp_out_write(o, t[i].data, t[i].bytes, NULL);
        st = wisp_out_commit(o, err);
    }
    wisp_free(header.p);
    return st;
}
