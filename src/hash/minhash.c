/* MinHash by one permutation (DOPH) of the set of a vector's t largest coordinates, t = 30, or
 * width / 4 where that is less.
 *
 * Permutations are laid end to end and cut into bins; a digit is the place in its bin of the first
 * coordinate that is in the set, so
 *
 *     P(digits of A and B agree) = |A and B| / |A or B|
 *
 * but for bins where one of the sets has nothing: these borrow the digit of another bin, as in
 * dwta, and may agree by chance.  Bins are so long (a power of two from 3 width / t on) that this
 * is rare: 16 places at width 128, 32 at 256; a digit takes 4 or 5 bits.
 *
 * Sets of a block lie as one word a coordinate, bit i for vector i: the first place of all vectors
 * is found in one walk over the bin.
 *
 * Functions: place (n_tables * digits, bin), then work space (width) for drawing. */
#include "hash/family.h"
#include "base/cut.h"
#include "base/rand.h"
#include "hash/finder.h"

#include <string.h>

static size_t set_size(size_t width)
{
    size_t t = width / 4 < 30 ? width / 4 : 30;
    return t ? t : 1;
}

static int digit_bits(size_t width)
{
    int bits = 1;
    while (((size_t)1 << bits) * set_size(width) < 3 * width) bits++;
    return bits;
}

static size_t n_bins(const struct wisp_hash_shape *s)
{
    return s->n_tables * (size_t)s->digits;
}

static size_t n_places(const struct wisp_hash_shape *s)
{
    return n_bins(s) << s->digit_bits;
}

static size_t size(const struct wisp_hash_shape *s)
{
    return (n_places(s) + s->width) * sizeof(uint32_t);
}

struct work {
    uint32_t *member; /* (width) */
    float *x;         /* (width) */
};

static struct work lay_work(struct wisp_cut *c, size_t width)
{
    struct work w;
    w.member = wisp_cut_take(c, width, sizeof *w.member);
    w.x = wisp_cut_take(c, width, sizeof *w.x);
    return w;
}

static size_t scratch_bytes(const struct wisp_hash_shape *s)
{
    struct wisp_cut plan = { 0 };
    lay_work(&plan, s->width);
    return plan.at;
}

static void init(void *functions, const struct wisp_hash_shape *s, uint64_t seed, uint64_t draw)
{
    uint32_t *place = functions;
    wisp_bins_lay(place, n_places(s), s->width, s->width, place + n_places(s), seed, draw);
}

/* Sets bit i of the t largest coordinates of x; of equals the first are taken. */
static void mark_set(uint32_t *member, const float *x, size_t width, size_t i, float *work)
{
    size_t t = set_size(width), above = 0;
    memcpy(work, x, width * sizeof *x);
    float least = wisp_nth_largest(work, width, t);
    for (size_t c = 0; c < width; c++) above += x[c] > least;
    for (size_t c = 0, equal = t - above; c < width; c++)
        if (x[c] > least || (equal > 0 && x[c] == least)) {
            member[c] |= 1u << i;
            equal -= x[c] == least;
        }
}

/* First place of each vector of 'open' in a bin; returns the vectors with none. */
static uint32_t first_places(uint32_t *digit, const uint32_t *place, size_t bin,
                             const uint32_t *member, uint32_t open)
{
    for (size_t j = 0; j < bin && open; j++)
        for (uint32_t hit = member[place[j]] & open; hit; hit &= hit - 1) {
            int i = __builtin_ctz(hit);
            digit[i] = (uint32_t)j;
            open &= ~(1u << i);
        }
    return open;
}

static void hash(uint32_t *keys, const void *functions, const struct wisp_hash_shape *s,
                 const struct wisp_kernels *k, const float *x, size_t m, size_t first, size_t n,
                 void *scratch)
{
    (void)k;
    struct wisp_cut c = wisp_cut_of(scratch, scratch_bytes(s), WISP_CUT_FRESH);
    struct work w = lay_work(&c, s->width);
    uint32_t *member = w.member, digit[WISP_HASH_BLOCK];
    uint32_t all = m < 32 ? (1u << m) - 1 : UINT32_MAX;
    const uint32_t *places = functions;
    size_t digits = (size_t)s->digits, bins = n_bins(s), bin = (size_t)1 << s->digit_bits;
    memset(member, 0, s->width * sizeof *member);
    for (size_t i = 0; i < m; i++) mark_set(member, x + i * s->width, s->width, i, w.x);
    for (size_t t = 0; t < n; t++) {
        for (size_t i = 0; i < m; i++) keys[i * n + t] = 0;
        for (size_t j = 0; j < digits; j++) {
            size_t b = (first + t) * digits + j;
            memset(digit, 0, sizeof digit);
            uint32_t open = first_places(digit, places + b * bin, bin, member, all);
            for (unsigned a = 0; open && a < WISP_BORROWS; a++)
                open = first_places(digit, places + wisp_bins_borrow(b, a, bins) * bin, bin, member,
                                    open);
            for (size_t i = 0; i < m; i++)
                keys[i * n + t] = keys[i * n + t] << s->digit_bits | digit[i];
        }
    }
}

const struct wisp_hash_family wisp_hash_minhash = {
    .name = "minhash",
    .what = "the first of a permutation among the largest coordinates: sets",
    .digit_bits = digit_bits,
    .size = size,
    .scratch = scratch_bytes,
    .init = init,
    .hash = hash,
};
