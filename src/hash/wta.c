/* WTA (winner takes all): permute the coordinates and take the place of the largest among the
 * first 8.  Only the order of coordinates matters, not their size: 3 bits a digit, robust where
 * values are noisy.  For dense vectors; where many coordinates are zero, dwta is meant.
 *
 * Functions: place (n_tables * digits, 8), then work space (width) for drawing. */
#include "hash/family.h"
#include "base/rand.h"

static int digit_bits(size_t width)
{
    (void)width;
    return WISP_BIN_BITS;
}

static size_t n_places(const struct wisp_hash_shape *s)
{
    return s->n_tables * (size_t)s->digits * WISP_BIN;
}

static size_t size(const struct wisp_hash_shape *s)
{
    return (n_places(s) + s->width) * sizeof(uint32_t);
}

static size_t scratch_bytes(const struct wisp_hash_shape *s)
{
    return s->width * WISP_HASH_BLOCK * sizeof(float);
}

static void init(void *functions, const struct wisp_hash_shape *s, uint64_t seed, uint64_t draw)
{
    uint32_t *place = functions;
    size_t keep = s->width < WISP_BIN ? s->width : WISP_BIN;
    wisp_bins_lay(place, n_places(s), s->width, keep, place + n_places(s), seed, draw);
}

static void hash(uint32_t *keys, const void *functions, const struct wisp_hash_shape *s,
                 const struct wisp_kernels *k, const float *x, size_t m, size_t first, size_t n,
                 void *scratch)
{
    float *xt = scratch;
    size_t digits = (size_t)s->digits;
    wisp_bins_turn(xt, k, x, m, s->width);
    for (size_t t = 0; t < n; t++) {
        const uint32_t *place = (const uint32_t *)functions + (first + t) * digits * WISP_BIN;
        uint32_t key[WISP_HASH_BLOCK] = { 0 };
        for (size_t j = 0; j < digits; j++) k->winner(key, xt, place + j * WISP_BIN);
        for (size_t i = 0; i < m; i++) keys[i * n + t] = key[i];
    }
}

const struct wisp_hash_family wisp_hash_wta = {
    .name = "wta",
    .what = "the largest of 8 random coordinates: their order",
    .digit_bits = digit_bits,
    .size = size,
    .scratch = scratch_bytes,
    .init = init,
    .hash = hash,
};
