/* idx files:
 *
 *     0 0 8 n     magic: bytes, n dimensions
 *     n sizes     32 bits each, high byte first
 *     data        the last dimension runs fastest
 *
 * The file must be as long as its sizes say, to the byte.  Plain bytes only: who has packed ones
 * unpacks them first (data/idx.c does). */
#include "base/idx.h"

static uint32_t size_at(const unsigned char *head, int dim)
{
    const unsigned char *s = head + 4 + 4 * dim;
    return (uint32_t)s[0] << 24 | (uint32_t)s[1] << 16 | (uint32_t)s[2] << 8 | s[3];
}

static size_t head_bytes(int n_dims)
{
    return 4 + 4 * (size_t)n_dims;
}

size_t wisp_idx_bytes(const unsigned char *head, size_t n)
{
    if (n < 4 || head[0] || head[1] || head[2] != 8 || (head[3] != 1 && head[3] != 3) ||
        n < head_bytes(head[3]))
        return 0;
    size_t bytes = 1;
    for (int i = 0; i < head[3]; i++)
        if (__builtin_mul_overflow(bytes, size_at(head, i), &bytes)) return SIZE_MAX;
    return __builtin_add_overflow(bytes, head_bytes(head[3]), &bytes) ? SIZE_MAX : bytes;
}

wisp_status wisp_idx_parse(struct wisp_idx *x, const unsigned char *p, size_t bytes,
                           const char *path, int n_dims, wisp_error *err)
{
    const size_t head = head_bytes(n_dims);
    *x = (struct wisp_idx){ 0 };
    if (bytes >= 2 && p[0] == 0x1f && p[1] == 0x8b)
        return wisp_fail_at(err, WISP_EFORMAT, path, 0, "packed by gzip; unpack it first (gunzip)");
    if (bytes < head)
        return wisp_fail_at(err, WISP_EFORMAT, path, 0,
                            "%zu bytes; an idx file of %d dimension%s has %zu "
                            "before its data",
                            bytes, n_dims, n_dims > 1 ? "s" : "", head);
    if (p[0] || p[1] || p[2] != 8 || p[3] != n_dims)
        return wisp_fail_at(
            err, WISP_EFORMAT, path, 0,
            "begins with %02x %02x %02x %02x; expected 00 00 08 %02x, an idx file of "
            "%s as bytes",
            p[0], p[1], p[2], p[3], (unsigned)n_dims, n_dims == 3 ? "images" : "labels");
    uint32_t size[3] = { 1, 1, 1 };
    for (int i = 0; i < n_dims; i++) size[i] = size_at(p, i);
    if (wisp_idx_bytes(p, bytes) != bytes)
        return wisp_fail_at(err, WISP_EFORMAT, path, 0,
                            "%zu bytes of data, but its sizes are %u x %u x %u: cut off, or not an "
                            "idx file",
                            bytes - head, size[0], size[1], size[2]);
    *x = (struct wisp_idx){ .n_dims = n_dims,
                            .size = { size[0], size[1], size[2] },
                            .data = p + head };
    return WISP_OK;
}

wisp_status wisp_idx_open(struct wisp_idx *out, const char *path, int n_dims, wisp_error *err)
{
    struct wisp_map map;
    *out = (struct wisp_idx){ 0 };
    wisp_status st = wisp_map_open(&map, path, err);
    if (st == WISP_OK) st = wisp_idx_parse(out, map.p, map.bytes, path, n_dims, err);
    if (st == WISP_OK) out->map = map;
    else wisp_map_close(&map);
    return st;
}

void wisp_idx_close(struct wisp_idx *x)
{
    wisp_map_close(&x->map);
    *x = (struct wisp_idx){ 0 };
}
