/* Rows of few values: every weight is the number of one of 16 or 64 values that all rows share, times a
 * factor of its row.
 *
 * Numbers are packed for vectors, in groups that begin at a byte; the last of a row is filled with 0.
 *
 *   4 bits   32 weights in 16 bytes: byte j has weight j in its low half, weight 16 + j in its high one
 *   6 bits   64 weights in 48 bytes: byte j has weight j in its low 6 bits, j < 48; the high 2 bits of
 *            bytes j, 16 + j and 32 + j are weight 48 + j, lowest first
 *
 * Any bytes are some weights: a number is always below 16 or 64. */
#ifndef WISP_KERNELS_CODES_H
#define WISP_KERNELS_CODES_H

#include <stddef.h>
#include <stdint.h>

enum { WISP_CODES_MOST = 64 }; /* weights of a group, and values */

static inline size_t wisp_codes_group(int bits)
{
    return bits == 4 ? 32 : 64;
}

static inline size_t wisp_codes_values(int bits)
{
    return (size_t)1 << bits;
}

/* Bytes of a row. */
static inline size_t wisp_codes_bytes(int bits, size_t cols)
{
    const size_t group = wisp_codes_group(bits);
    return (cols + group - 1) / group * (group * (size_t)bits / 8);
}

/* Which value weight i of a row has. */
static inline unsigned wisp_codes_at(const uint8_t *row, int bits, size_t i)
{
    const size_t group = wisp_codes_group(bits), in = i % group, j = in % 16;
    const uint8_t *at = row + i / group * (group * (size_t)bits / 8);
    if (bits == 4) return in < 16 ? at[j] & 15 : at[j] >> 4;
    if (in < 48) return at[in] & 63;
    return (unsigned)(at[j] >> 6 | at[16 + j] >> 6 << 2 | at[32 + j] >> 6 << 4);
}

/* Sets it, in a row that had 0 there. */
static inline void wisp_codes_put(uint8_t *row, int bits, size_t i, unsigned value)
{
    const size_t group = wisp_codes_group(bits), in = i % group, j = in % 16;
    uint8_t *at = row + i / group * (group * (size_t)bits / 8);
    if (bits == 4) {
        at[j] |= (uint8_t)(in < 16 ? value : value << 4);
    } else if (in < 48) {
        at[in] |= (uint8_t)value;
    } else {
        at[j] |= (uint8_t)((value & 3) << 6);
        at[16 + j] |= (uint8_t)((value >> 2 & 3) << 6);
        at[32 + j] |= (uint8_t)((value >> 4) << 6);
    }
}

#endif
