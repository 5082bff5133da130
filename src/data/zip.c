/* Zip archives, read from the end:
 *
 *   (local head | name | extra | data) ... | central directory | [zip64 end | locator] | end
 *
 * The central directory is the truth; a local head only says where its data starts, and must
 * agree on name and method.  Every offset is compared with what is left of the map before it is
 * used.  Deflate expands at most 1032 times, so a declared size beyond that is refused before any
 * memory is asked for, as is one beyond the memory there is, and inflating stops at the declared
 * size: an archive cannot make us allocate more than about a thousand times its own length, nor
 * write beyond it. */
#include "data/zip.h"
#include "base/mem.h"
#include "data/unpack.h"

#include <string.h>

enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    END64 = 0x06064b50,
    LOCATOR = 0x07064b50,
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    STORED = 0,
    DEFLATED = 8,
    MAX_EXPANSION = 1032
};

static unsigned get16(const unsigned char *p)
{
    return (unsigned)(p[0] | p[1] << 8);
}
static uint32_t get32(const unsigned char *p)
{
    return get16(p) | (uint32_t)get16(p + 2) << 16;
}
static uint64_t get64(const unsigned char *p)
{
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

static wisp_status broken(const struct wisp_zip *z, const char *what, wisp_error *err)
{
    return wisp_fail_at(err, WISP_EFORMAT, z->path, 0, "not a whole zip archive: %s", what);
}

struct directory {
    uint64_t start, bytes, n;
};

/* Finds the end record: the last one whose comment reaches exactly to the end of the file. */
static wisp_status find_directory(struct directory *d, const struct wisp_zip *z,
                                  const unsigned char *p, size_t bytes, wisp_error *err)
{
    if (bytes < END_BYTES) return broken(z, "it is too short", err);
    size_t at = bytes - END_BYTES, first = at > 0xffff ? at - 0xffff : 0;
    while (get32(p + at) != END || get16(p + at + 20) != bytes - END_BYTES - at)
        if (at-- == first) return broken(z, "no end record; is the file cut?", err);
    if (get16(p + at + 4) || get16(p + at + 6)) return broken(z, "it has several parts", err);
    d->n = get16(p + at + 10);
    d->bytes = get32(p + at + 12);
    d->start = get32(p + at + 16);
    uint64_t end = at;
    if (d->n == 0xffff || d->bytes == 0xffffffff || d->start == 0xffffffff) {
        if (at < LOCATOR_BYTES || get32(p + at - LOCATOR_BYTES) != LOCATOR)
            return broken(z, "no zip64 locator", err);
        end = get64(p + at - LOCATOR_BYTES + 8);
        if (end > at - LOCATOR_BYTES || at - LOCATOR_BYTES - end < END64_BYTES ||
            get32(p + end) != END64)
            return broken(z, "no zip64 end record", err);
        d->n = get64(p + end + 32);
        d->bytes = get64(p + end + 40);
        d->start = get64(p + end + 48);
    }
    if (d->start > end || d->bytes != end - d->start)
        return broken(z, "its directory is not before its end record", err);
    if (d->n > d->bytes / CENTRAL_BYTES)
        return broken(z, "its directory is too short for its entries", err);
    return WISP_OK;
}

/* Fields that overflow in the directory stand in extra field 1, in this order. */
static int zip64_fields(const unsigned char *extra, size_t n, uint64_t *field[3])
{
    while (n >= 4 && get16(extra) != 1) {
        size_t skip = 4 + (size_t)get16(extra + 2);
        if (skip > n) return 0;
        extra += skip;
        n -= skip;
    }
    if (n < 4 || get16(extra + 2) > n - 4) return 0;
    n = get16(extra + 2);
    extra += 4;
    for (int i = 0; i < 3; i++) {
        if (*field[i] != 0xffffffff) continue;
        if (n < 8) return 0;
        *field[i] = get64(extra);
        extra += 8;
        n -= 8;
    }
    return 1;
}

/* The entry at c, of which 'left' bytes are there; 'limit' is the start of the directory. */
static wisp_status read_entry(struct wisp_zip_entry *e, size_t *used, const struct wisp_zip *z,
                              const unsigned char *p, uint64_t limit, const unsigned char *c,
                              uint64_t left, wisp_error *err)
{
    if (left < CENTRAL_BYTES || get32(c) != CENTRAL) return broken(z, "a damaged directory", err);
    size_t n_name = get16(c + 28), n_extra = get16(c + 30), n_comment = get16(c + 32);
    *used = CENTRAL_BYTES + n_name + n_extra + n_comment;
    if (*used > left) return broken(z, "a damaged directory", err);
    uint64_t packed = get32(c + 20), bytes = get32(c + 24), at = get32(c + 42);
    if ((packed == 0xffffffff || bytes == 0xffffffff || at == 0xffffffff) &&
        !zip64_fields(c + CENTRAL_BYTES + n_name, n_extra, (uint64_t *[]){ &bytes, &packed, &at }))
        return broken(z, "an entry without its zip64 sizes", err);
    *e = (struct wisp_zip_entry){ .name = (const char *)c + CENTRAL_BYTES,
                                  .name_bytes = n_name,
                                  .method = get16(c + 10),
                                  .crc = get32(c + 16) };
    if (get16(c + 8) & 1)
        return wisp_fail_at(err, WISP_ENOTSUP, z->path, 0, "entry '%.*s' is encrypted", (int)n_name,
                            e->name);
    if (at > limit || limit - at < LOCAL_BYTES || get32(p + at) != LOCAL)
        return broken(z, "an entry is not where the directory says", err);
    uint64_t data = LOCAL_BYTES + (uint64_t)get16(p + at + 26) + get16(p + at + 28);
    if (limit - at < data || get16(p + at + 26) != n_name ||
        memcmp(p + at + LOCAL_BYTES, e->name, n_name) || get16(p + at + 8) != e->method)
        return broken(z, "an entry and the directory disagree", err);
    if (packed > limit - at - data) return broken(z, "an entry reaches into the directory", err);
    e->packed = p + at + data;
    e->packed_bytes = (size_t)packed;
    e->bytes = (size_t)bytes;
    return WISP_OK;
}

wisp_status wisp_zip_init(struct wisp_zip *z, const unsigned char *p, size_t bytes,
                          const char *path, wisp_error *err)
{
    *z = (struct wisp_zip){ .path = path };
    struct directory d = { 0 };
    wisp_status st = find_directory(&d, z, p, bytes, err);
    if (st) return st;
    z->entries = wisp_alloc((size_t)d.n, sizeof *z->entries);
    if (!z->entries)
        return wisp_fail_mem(err, (size_t)d.n * sizeof *z->entries, "the entries of an archive");
    const unsigned char *c = p + d.start;
    uint64_t left = d.bytes;
    for (; z->n < d.n; z->n++) {
        size_t used = 0;
        st = read_entry(&z->entries[z->n], &used, z, p, d.start, c, left, err);
        if (st) break;
        c += used;
        left -= used;
    }
    if (!st && left) st = broken(z, "its directory holds more than its entries", err);
    if (st) wisp_zip_clear(z);
    return st;
}

void wisp_zip_clear(struct wisp_zip *z)
{
    wisp_free(z->entries);
    *z = (struct wisp_zip){ 0 };
}

wisp_status wisp_zip_find(const struct wisp_zip_entry **e, const struct wisp_zip *z,
                          const char *name, wisp_error *err)
{
    *e = NULL;
    for (size_t i = 0; i < z->n; i++) {
        if (z->entries[i].name_bytes != strlen(name) ||
            memcmp(z->entries[i].name, name, strlen(name)))
            continue;
        if (*e)
            return wisp_fail_at(err, WISP_EFORMAT, z->path, 0,
                                "entry '%s' is there twice, expected it once", name);
        *e = &z->entries[i];
    }
    return WISP_OK;
}

/* zlib counts in 32 bits: input and output are handed over in pieces. */
static size_t refill(unsigned *avail, size_t left)
{
    *avail = left < 1u << 30 ? (unsigned)left : 1u << 30;
    return left - *avail;
}

static wisp_status inflate_entry(unsigned char *to, const struct wisp_zip *z,
                                 const struct wisp_zip_entry *e, wisp_error *err)
{
    z_stream s = { .zalloc = wisp_zlib_alloc,
                   .zfree = wisp_zlib_free,
                   .next_in = (unsigned char *)e->packed,
                   .next_out = to };
    int rc = inflateInit2(&s, -MAX_WBITS);
    if (rc != Z_OK) return wisp_fail_mem(err, 1 << 15, "unpacking");
    size_t in = e->packed_bytes, out = e->bytes;
    while (rc == Z_OK) {
        if (s.avail_in == 0) in = refill(&s.avail_in, in);
        if (s.avail_out == 0) out = refill(&s.avail_out, out);
        rc = inflate(&s, Z_NO_FLUSH);
    }
    inflateEnd(&s);
    if (rc == Z_MEM_ERROR) return wisp_fail_mem(err, 1 << 15, "unpacking");
    if (rc != Z_STREAM_END || s.avail_in || in || s.avail_out || out)
        return wisp_fail_at(err, WISP_EFORMAT, z->path, 0,
                            "entry '%.*s' does not unpack to its %zu bytes", (int)e->name_bytes,
                            e->name, e->bytes);
    return WISP_OK;
}

static wisp_status check_entry(const struct wisp_zip *z, const struct wisp_zip_entry *e,
                               wisp_error *err)
{
    if (e->method == DEFLATED && e->bytes / MAX_EXPANSION > e->packed_bytes)
        return wisp_fail_at(err, WISP_EFORMAT, z->path, 0,
                            "entry '%.*s': %zu bytes cannot unpack to %zu", (int)e->name_bytes,
                            e->name, e->packed_bytes, e->bytes);
    if (e->method != DEFLATED && e->method != STORED)
        return wisp_fail_at(err, WISP_ENOTSUP, z->path, 0,
                            "entry '%.*s' is packed by method %u; stored and deflate are known",
                            (int)e->name_bytes, e->name, e->method);
    if (e->method == STORED && e->bytes != e->packed_bytes)
        return broken(z, "a stored entry with two sizes", err);
    return WISP_OK;
}

wisp_status wisp_zip_peek(unsigned char *to, size_t *n, const struct wisp_zip *z,
                          const struct wisp_zip_entry *e, wisp_error *err)
{
    wisp_status st = check_entry(z, e, err);
    if (st) return st;
    if (*n > e->bytes) *n = e->bytes;
    if (e->method == STORED) {
        memcpy(to, e->packed, *n);
        return WISP_OK;
    }
    z_stream s = { .zalloc = wisp_zlib_alloc,
                   .zfree = wisp_zlib_free,
                   .next_in = (unsigned char *)e->packed,
                   .next_out = to,
                   .avail_out = (unsigned)*n };
    refill(&s.avail_in, e->packed_bytes);
    if (inflateInit2(&s, -MAX_WBITS) != Z_OK) return wisp_fail_mem(err, 1 << 15, "unpacking");
    int rc = inflate(&s, Z_SYNC_FLUSH);
    *n = s.total_out;
    inflateEnd(&s);
    if (rc == Z_MEM_ERROR) return wisp_fail_mem(err, 1 << 15, "unpacking");
    if (rc == Z_DATA_ERROR)
        return wisp_fail_at(err, WISP_EFORMAT, z->path, 0, "entry '%.*s' does not unpack",
                            (int)e->name_bytes, e->name);
    return WISP_OK;
}

wisp_status wisp_zip_read(const unsigned char **p, void **owned, const struct wisp_zip *z,
                          const struct wisp_zip_entry *e, wisp_error *err)
{
    *p = e->packed;
    *owned = NULL;
    wisp_status st = check_entry(z, e, err);
    if (st) return st;
    if (e->method == DEFLATED) {
        unsigned char *to = wisp_mem_fits(e->bytes) ? wisp_alloc(e->bytes, 1) : NULL;
        if (!to) return wisp_fail_mem(err, e->bytes, "an unpacked array");
        *p = *owned = to;
        st = inflate_entry(to, z, e, err);
    }
    if (!st && crc32_z(0, *p, e->bytes) != e->crc)
        st = wisp_fail_at(err, WISP_EFORMAT, z->path, 0,
                          "entry '%.*s' is damaged: its checksum is wrong", (int)e->name_bytes,
                          e->name);
    if (st) {
        wisp_free(*owned);
        *owned = NULL;
    }
    return st;
}
