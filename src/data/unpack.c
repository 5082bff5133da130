/* Unpacking as a stream, so that a small file that unpacks to terabytes costs time, not memory.
 *
 * gzip: several members may follow each other (RFC 1952); anything else after the last member is
 * an error, as is an end inside a member.  zstd: several frames and skippable frames, windows up to
 * zstd's default limit of 128 MiB.  zlib allocates through wisp_alloc; zstd's stable interface has
 * no such hook. */
#include "data/unpack.h"
#include "base/mem.h"

#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

void *wisp_zlib_alloc(void *arg, unsigned n, unsigned size)
{
    (void)arg;
    return wisp_alloc(n, size);
}

void wisp_zlib_free(void *arg, void *p)
{
    (void)arg;
    wisp_free(p);
}

static bool is_gzip(const unsigned char *p, size_t n)
{
    return n >= 2 && p[0] == 0x1f && p[1] == 0x8b;
}

static bool is_zstd(const unsigned char *p, size_t n) /* a frame, or a skippable one */
{
    if (n < 4) return false;
    uint32_t magic = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return magic == 0xfd2fb528 || (magic & 0xfffffff0) == 0x184d2a50;
}

enum wisp_packing wisp_unpack_kind(const unsigned char *bytes, size_t n)
{
    return is_gzip(bytes, n) ? WISP_GZIP : is_zstd(bytes, n) ? WISP_ZSTD : WISP_PLAIN;
}

wisp_status wisp_unpack_init(struct wisp_unpack *u, const unsigned char *bytes, size_t n,
                             wisp_error *err)
{
    *u = (struct wisp_unpack){ .p = bytes, .left = n, .kind = wisp_unpack_kind(bytes, n) };
    if (u->kind == WISP_GZIP) {
        u->z.zalloc = wisp_zlib_alloc;
        u->z.zfree = wisp_zlib_free;
        if (inflateInit2(&u->z, 15 + 16) != Z_OK)
            return wisp_fail_mem(err, 1 << 15, "unpacking gzip");
        u->open = u->member = true;
    } else if (u->kind == WISP_ZSTD) {
        u->d = ZSTD_createDCtx();
        if (!u->d) return wisp_fail_mem(err, 1 << 17, "unpacking zstd");
    }
    return WISP_OK;
}

static void fault(struct wisp_unpack *u, wisp_status code, const char *why)
{
    u->code = code;
    u->fault = why;
}

static size_t unpack_gzip(struct wisp_unpack *u, char *to, size_t room)
{
    enum { STEP = 1 << 30 }; /* zlib counts in 32 bits */
    size_t in = u->left < STEP ? u->left : STEP, out = room < STEP ? room : STEP;
    if (!u->member) {
        if (u->left < 2 && u->more) return 0;
        if (u->left == 0) {
            u->ended = true;
            return 0;
        }
        if (!is_gzip(u->p, u->left)) {
            fault(u, WISP_EFORMAT, "other bytes follow the end of the gzip data");
            return 0;
        }
        inflateReset(&u->z);
        u->member = true;
    }
    u->z.next_in = (unsigned char *)u->p;
    u->z.avail_in = (unsigned)in;
    u->z.next_out = (unsigned char *)to;
    u->z.avail_out = (unsigned)out;
    int code = inflate(&u->z, Z_NO_FLUSH);
    in -= u->z.avail_in;
    out -= u->z.avail_out;
    u->p += in;
    u->left -= in;
    if (code == Z_STREAM_END) u->member = false;
    else if (code == Z_MEM_ERROR) fault(u, WISP_ENOMEM, "out of memory while unpacking gzip");
    else if (code == Z_DATA_ERROR || code == Z_NEED_DICT)
        fault(u, WISP_EFORMAT, "the gzip data is damaged");
    else if (u->left == 0 && out == 0 && !u->more)
        fault(u, WISP_EFORMAT, "the gzip data ends too early: the file was cut");
    return out;
}

static size_t unpack_zstd(struct wisp_unpack *u, char *to, size_t room)
{
    ZSTD_inBuffer in = { u->p, u->left, 0 };
    ZSTD_outBuffer out = { to, room, 0 };
    if (!u->member && u->left < 4 && u->more) return 0;
    if (!u->member && u->left == 0) {
        u->ended = true;
        return 0;
    }
    if (!u->member && !is_zstd(u->p, u->left)) {
        fault(u, WISP_EFORMAT, "other bytes follow the end of the zstd data");
        return 0;
    }
    size_t code = ZSTD_decompressStream(u->d, &out, &in);
    u->p += in.pos;
    u->left -= in.pos;
    u->member = code != 0; /* 0: a frame is complete and flushed */
    if (ZSTD_isError(code)) {
        ZSTD_ErrorCode e = ZSTD_getErrorCode(code);
        if (e == ZSTD_error_memory_allocation)
            fault(u, WISP_ENOMEM, "out of memory while unpacking zstd");
        else if (e == ZSTD_error_frameParameter_windowTooLarge)
            fault(u, WISP_EFORMAT,
                  "the zstd data needs a window above 128 MiB: pack it again without --long");
        else fault(u, WISP_EFORMAT, "the zstd data is damaged");
    } else if (u->member && u->left == 0 && out.pos == 0 && !u->more) {
        fault(u, WISP_EFORMAT, "the zstd data ends too early: the file was cut");
    }
    return out.pos;
}

size_t wisp_unpack(struct wisp_unpack *u, char *to, size_t room)
{
    size_t done = 0, before = room + 1, left = 0;
    while (done < room && !u->ended && u->code == WISP_OK) {
        if (u->more && done == before && u->left == left) break; /* no step forward */
        before = done;
        left = u->left;
        if (u->kind == WISP_GZIP) {
            done += unpack_gzip(u, to + done, room - done);
        } else if (u->kind == WISP_ZSTD) {
            done += unpack_zstd(u, to + done, room - done);
        } else {
            size_t n = u->left < room - done ? u->left : room - done;
            if (n) memcpy(to + done, u->p, n), u->p += n; /* no bytes: there may be no pointer */
            u->left -= n;
            done += n;
            u->ended = u->left == 0 && !u->more;
        }
    }
    return done;
}

void wisp_unpack_clear(struct wisp_unpack *u)
{
    if (u->open) inflateEnd(&u->z);
    ZSTD_freeDCtx(u->d);
    *u = (struct wisp_unpack){ 0 };
}
