/* idx files:
 *
 *     0 0 8 n     magic: bytes, n dimensions
 *     n sizes     32 bits each, high byte first
 *     data        the last dimension runs fastest
 *
 * The file must be as long as its sizes say, to the byte.  Plain files only: what unpacks others
 * lives in data/, which this folder does not know. */
#include "spdnn/idx.h"

static wisp_status parse(struct wisp_idx *x, const char *path, int n_dims, wisp_error *err)
{
    const unsigned char *p = x->map.p;
    const size_t head = 4 + 4 * (size_t)n_dims;
    if (x->map.bytes >= 2 && p[0] == 0x1f && p[1] == 0x8b)
        return wisp_fail(err, WISP_EFORMAT, "%s: packed by gzip; unpack it first (gunzip)", path);
    if (x->map.bytes < head)
        return wisp_fail(err, WISP_EFORMAT,
                         "%s: %zu bytes; an idx file of %d dimension%s has %zu "
                         "before its data",
                         path, x->map.bytes, n_dims, n_dims > 1 ? "s" : "", head);
    if (p[0] || p[1] || p[2] != 8 || p[3] != n_dims)
        return wisp_fail(
            err, WISP_EFORMAT,
            "%s: begins with %02x %02x %02x %02x; expected 00 00 08 %02x, an idx file of "
            "%s as bytes",
            path, p[0], p[1], p[2], p[3], (unsigned)n_dims, n_dims == 3 ? "images" : "labels");
    size_t want = 1;
    for (int i = 0; i < 3; i++) {
        const unsigned char *s = p + 4 + 4 * i;
        x->size[i] = i < n_dims
                         ? (uint32_t)s[0] << 24 | (uint32_t)s[1] << 16 | (uint32_t)s[2] << 8 | s[3]
                         : 1;
        if (__builtin_mul_overflow(want, x->size[i], &want)) want = SIZE_MAX;
    }
    if (want != x->map.bytes - head)
        return wisp_fail(
            err, WISP_EFORMAT,
            "%s: %zu bytes of data, but its sizes are %u x %u x %u: cut off, or not an "
            "idx file",
            path, x->map.bytes - head, x->size[0], x->size[1], x->size[2]);
    x->n_dims = n_dims;
    x->data = p + head;
    return WISP_OK;
}

wisp_status wisp_idx_open(struct wisp_idx *out, const char *path, int n_dims, wisp_error *err)
{
    *out = (struct wisp_idx){ 0 };
    wisp_status st = wisp_map_open(&out->map, path, err);
    if (st == WISP_OK) st = parse(out, path, n_dims, err);
    if (st != WISP_OK) wisp_idx_close(out);
    return st;
}

void wisp_idx_close(struct wisp_idx *x)
{
    wisp_map_close(&x->map);
    *x = (struct wisp_idx){ 0 };
}
