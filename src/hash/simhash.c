/* SimHash (signed random projections): a bit is the sign of a . x for a random a, so
 *
 *     P(bits of x and y agree) = 1 - angle(x, y) / pi.
 *
 * As published, a is sparse: a third of its coordinates, with random signs (from 30 coordinates
 * on; below, all have signs).  The zeros are stored: all projections of a block are then one
 * matrix product, which is faster than adding and subtracting a third of the coordinates one by
 * one.  Coordinates that were appended to make up for norms can be as long as all others together;
 * a sign or a zero there would decide the whole bit, so theirs are normal.
 *
 * Functions: a (width, n_tables * digits), a column a bit. */
#include "hash/family.h"
#include "base/rand.h"
#include "graph/ids.h"

enum { COLUMNS = 256 }; /* projections of a block made at a time: they stay in the cache */

static int digit_bits(size_t width)
{
    (void)width;
    return 1;
}

static size_t n_bits(const struct wisp_hash_shape *s)
{
    return s->n_tables * (size_t)s->digits;
}

static size_t size(const struct wisp_hash_shape *s)
{
    return s->width * n_bits(s) * sizeof(float);
}

static size_t scratch_bytes(const struct wisp_hash_shape *s)
{
    (void)s;
    return (size_t)WISP_HASH_BLOCK * COLUMNS * sizeof(float);
}

static void init(void *functions, const struct wisp_hash_shape *s, uint64_t seed, uint64_t draw)
{
    float *a = functions;
    size_t columns = n_bits(s), plain = s->width - s->appended;
    uint64_t stream = wisp_stream(WISP_STREAM_HASH, draw), one_in = plain < 30 ? 1 : 3;
    float length = one_in == 3 ? 1.7320508f : 1; /* variance 1, as the normal ones have */
    for (size_t i = 0; i < plain * columns; i++) {
        uint64_t r = wisp_rand(seed, stream, 2 * i);
        a[i] = (r >> 1) % one_in ? 0 : r & 1 ? length : -length;
    }
    for (size_t i = plain * columns; i < s->width * columns; i++)
        a[i] = (float)wisp_rand_normal(seed, stream, i);
}

static uint32_t join(const float *z, int digits)
{
    uint32_t key = 0;
    for (int j = 0; j < digits; j++) key = key << 1 | (z[j] > 0);
    return key;
}

static void hash(uint32_t *keys, const void *functions, const struct wisp_hash_shape *s,
                 const struct wisp_kernels *k, const float *x, size_t m, size_t first, size_t n,
                 void *scratch)
{
    size_t digits = (size_t)s->digits, columns = n_bits(s), at_once = COLUMNS / digits;
    float *z = scratch; /* (m, COLUMNS) */
    for (size_t t = 0; t < n; t += at_once) {
        size_t tables = n - t < at_once ? n - t : at_once;
        const float *a = (const float *)functions + (first + t) * digits;
        k->gemm(z, COLUMNS, x, s->width, 1, a, columns, m, tables * digits, s->width, false);
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < tables; j++)
                keys[i * n + t + j] = join(z + i * COLUMNS + j * digits, s->digits);
    }
}

const struct wisp_hash_family wisp_hash_simhash = {
    .name = "simhash",
    .what = "signs of random projections: angles",
    .cosine = true,
    .digit_bits = digit_bits,
    .size = size,
    .scratch = scratch_bytes,
    .init = init,
    .hash = hash,
};
