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

/* The i-th of a kind of streams: of an epoch, a step, a layer.  Kinds are numbers below 256, called
 * STREAM_... where they are used (most in graph/ids.h); tools/lint sees that no two are equal. */
static inline uint64_t wisp_stream(uint64_t kind, uint64_t i)
{
    return kind + (i << 8);
}

#endif
