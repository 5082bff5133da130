/* Counter-based random numbers: value i of a stream is a pure function of (seed,
 * stream, i), so no random choice depends on the number of threads or on order. */
#ifndef WISP_BASE_RAND_H
#define WISP_BASE_RAND_H

#include <math.h>
#include <stdint.h>

static inline uint64_t wisp_mix(uint64_t x) /* splitmix64's finaliser: a bijection */
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline uint64_t wisp_rand(uint64_t seed, uint64_t stream, uint64_t i)
{
    uint64_t key = wisp_mix(seed + 0x9e3779b97f4a7c15u * (stream + 1));
    return wisp_mix(key + 0x9e3779b97f4a7c15u * (i + 1));
}

/* Uniform in (0, 1), never 0 or 1. */
static inline double wisp_rand_unit(uint64_t seed, uint64_t stream, uint64_t i)
{
    return ((double)(wisp_rand(seed, stream, i) >> 11) + 0.5) * 0x1p-53;
}

__extension__ typedef unsigned __int128 wisp_u128; /* ISO C has no name for it */

/* Uniform in 0 .. n-1, n > 0. */
static inline uint64_t wisp_rand_below(uint64_t seed, uint64_t stream, uint64_t i, uint64_t n)
{
    return (uint64_t)(((wisp_u128)wisp_rand(seed, stream, i) * n) >> 64);
}

/* Normal with mean 0 and variance 1 (Box-Muller). */
static inline double wisp_rand_normal(uint64_t seed, uint64_t stream, uint64_t i)
{
    double u = wisp_rand_unit(seed, stream, 2 * i), v = wisp_rand_unit(seed, stream, 2 * i + 1);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* The i-th of a kind of streams: of an epoch, a step, a layer. */
static inline uint64_t wisp_stream(uint64_t kind, uint64_t i)
{
    return kind + (i << 8);
}

/* Streams in use, so that no two meet by accident. */
enum {
    WISP_STREAM_SHUFFLE = 1, /* + epoch << 8 */
    WISP_STREAM_HOLDOUT = 2,
    WISP_STREAM_INPUT_DROP = 3, /* + step << 8 */
    WISP_STREAM_DROPOUT = 4,    /* + layer << 8 */
    WISP_STREAM_SYNTH = 5,
    WISP_STREAM_PAD = 6, /* + step << 8; the next ones too */
    WISP_STREAM_RANDOM = 7,
    WISP_STREAM_HASH = 8, /* + draw << 8 */
    WISP_STREAM_IVF = 9,  /* + turn << 8 */
    WISP_STREAM_FREQUENCY = 10,
    WISP_STREAM_RINGS = 11,
    WISP_STREAM_VOTES = 13,
    WISP_STREAM_IVF_CUT = 12, /* + step << 8 */
    WISP_STREAM_HIDDEN = 14,
    WISP_STREAM_RADIX = 15, /* + block << 8, or layer << 8 */
    WISP_STREAM_INIT = 16,  /* + parameter number << 8 */
    WISP_STREAM_WIRES = 17  /* + layer << 8 */
};

#endif
