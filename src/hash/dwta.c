/* DWTA (densified WTA): ceil(8 n / width) permutations are laid end to end and cut into n bins of
 * 8 coordinates, n = tables * digits; the digit of a bin is the place of its largest value among
 * those that are not zero.  A bin of zeros alone borrows the digit of another bin, chosen by a
 * hash of its number, until one has a value; two vectors with the same zeros borrow alike.  For
 * vectors that are partly zero, as the output of a ReLU is.
 *
 * Zeros count as minus infinity, which gives what visiting only the others gives, at the speed of
 * a whole block side by side.
 *
 * Functions: place (n, 8), then work space (width) for drawing. */
#include "hash/family.h"
#include "base/rand.h"

#include <math.h>

static int digit_bits(size_t width)
{
    (void)width;
    return WISP_BIN_BITS;
}

static size_t n_bins(const struct wisp_hash_shape *s)
{
    return s->n_tables * (size_t)s->digits;
}

static size_t size(const struct wisp_hash_shape *s)
{
    return (n_bins(s) * WISP_BIN + s->width) * sizeof(uint32_t);
}

static size_t scratch_bytes(const struct wisp_hash_shape *s)
{
    return s->width * WISP_HASH_BLOCK * sizeof(float);
}

static void init(void *functions, const struct wisp_hash_shape *s, uint64_t seed, uint64_t draw)
{
    uint32_t *place = functions;
    size_t n = n_bins(s) * WISP_BIN;
    wisp_bins_lay(place, n, s->width, s->width, place + n, seed, draw);
}

/* Loops of a fixed length become vector instructions at -O2. */
enum { B = WISP_HASH_BLOCK };

static bool has_zeros(const float *xt, size_t n)
{
    uint32_t zero[B] = { 0 }, any = 0;
    size_t at = 0;
    for (; at + 4 * B <= n; at += 4 * B) { /* fewer rounds, as each waits for the one before */
        const float *x = xt + at;
        for (size_t i = 0; i < B; i++)
            zero[i] |= (x[i] == 0) | (x[B + i] == 0) | (x[2 * B + i] == 0) | (x[3 * B + i] == 0);
    }
    for (; at < n; at++) any |= xt[at] == 0;
    for (size_t i = 0; i < B; i++) any |= zero[i];
    return any;
}

/* Bit i: vector i has a value that is not zero.  Vectors in a frame (frame.h) have no zeros: it is
 * worth a look. */
static uint32_t hide_zeros(float *xt, size_t width)
{
    uint32_t some[B] = { 0 }, any = 0;
    if (!has_zeros(xt, width * B)) return UINT32_MAX;
    for (size_t c = 0; c < width; c++, xt += B)
        for (size_t i = 0; i < B; i++) {
            some[i] |= xt[i] != 0;
            xt[i] = xt[i] == 0 ? -INFINITY : xt[i];
        }
    for (size_t i = 0; i < B; i++) any |= some[i] << i;
    return any;
}

static uint32_t borrow(const uint32_t *places, size_t bin, size_t bins, const float *xt, size_t i)
{
    for (unsigned attempt = 0; attempt < WISP_BORROWS; attempt++) {
        const uint32_t *place = places + wisp_bins_borrow(bin, attempt, bins) * WISP_BIN;
        float best = -INFINITY;
        uint32_t digit = 0;
        for (uint32_t j = 0; j < WISP_BIN; j++) {
            float v = xt[place[j] * WISP_HASH_BLOCK + i];
            if (v > best) best = v, digit = j;
        }
        if (best > -INFINITY) return digit;
    }
    return 0;
}

static void hash(uint32_t *keys, const void *functions, const struct wisp_hash_shape *s,
                 const struct wisp_kernels *k, const float *x, size_t m, size_t first, size_t n,
                 void *scratch)
{
    float *xt = scratch;
    const uint32_t *places = functions;
    size_t digits = (size_t)s->digits, bins = n_bins(s);
    wisp_bins_turn(xt, k, x, m, s->width);
    uint32_t any = hide_zeros(xt, s->width);
    for (size_t t = 0; t < n; t++) {
        uint32_t key[WISP_HASH_BLOCK] = { 0 };
        for (size_t j = 0; j < digits; j++) {
            size_t bin = (first + t) * digits + j;
            uint32_t empty = k->winner(key, xt, places + bin * WISP_BIN) & any;
            for (; empty; empty &= empty - 1) { /* its digit is 0 so far */
                int i = __builtin_ctz(empty);
                key[i] |= borrow(places, bin, bins, xt, (size_t)i);
            }
        }
        for (size_t i = 0; i < m; i++) keys[i * n + t] = key[i];
    }
}

const struct wisp_hash_family wisp_hash_dwta = {
    .name = "dwta",
    .what = "the largest of 8 coordinates that are not zero: their order",
    .digit_bits = digit_bits,
    .size = size,
    .scratch = scratch_bytes,
    .init = init,
    .hash = hash,
};
