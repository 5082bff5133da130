/* Decimal numbers in text to float and back, the nearest float always, whatever the locale.
 *
 * The first 19 significant digits fit a u64 m, and m * 10^e with |e| <= 22 is one or two roundings
 * away from the truth in double: at most 2 units in its last place.  Rounding that to float is
 * right unless the double lies that near the middle between two floats (29 more bits: about one
 * number in 10 million), and only then, or outside those ranges, strtof decides. */
#ifndef WISP_DATA_NUMBER_H
#define WISP_DATA_NUMBER_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern const double wisp_powers_of_10[23];

/* The bytes from 'begin' to 'end' by strtof; false when there are more than 500 of them. */
bool wisp_number_slow(float *out, const char *begin, const char *end);

static inline bool wisp_is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* Reads [+-]digits[.digits][e[+-]digits].  Returns what follows, or NULL where there is no such
 * number; *out may be infinite.  The text must end with some other character. */
static inline const char *wisp_number_parse(float *out, const char *p)
{
    if (wisp_is_digit(*p) && (p[1] == ' ' || p[1] == '\n')) { /* a small count: most common */
        *out = (float)(*p - '0');
        return p + 1;
    }
    const char *begin = p;
    bool neg = *p == '-', any = false, slow = false;
    if (*p == '-' || *p == '+') p++;
    uint64_t m = 0;
    int e = 0;
    for (; wisp_is_digit(*p); p++, any = true) {
        if (m < 1000000000000000000u) m = m * 10 + (uint64_t)(*p - '0');
        else slow = true;
    }
    if (*p == '.')
        for (p++; wisp_is_digit(*p); p++, any = true) {
            if (m < 1000000000000000000u) m = m * 10 + (uint64_t)(*p - '0'), e--;
            else slow = true;
        }
    if (!any) return NULL;
    if (*p == 'e' || *p == 'E') {
        p++;
        bool down = *p == '-';
        int x = 0;
        if (*p == '-' || *p == '+') p++;
        if (!wisp_is_digit(*p)) return NULL;
        for (; wisp_is_digit(*p); p++)
            if (x < 100000) x = x * 10 + (*p - '0');
        slow |= x == 100000;
        e += down ? -x : x;
    }
    if (!slow && e >= -22 && e <= 22) {
        double d = e < 0 ? (double)m / wisp_powers_of_10[-e] : (double)m * wisp_powers_of_10[e];
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        int64_t off_middle = (int64_t)(bits & 0x1fffffff) - 0x10000000;
        if (m == 0 ||
            (d >= (double)FLT_MIN && d <= (double)FLT_MAX && (off_middle > 8 || off_middle < -8))) {
            *out = (float)(neg ? -d : d);
            return p;
        }
    }
    return wisp_number_slow(out, begin, p) ? p : NULL;
}

/* The shortest of 6 to 9 digits that reads back as v; returns its length.  v is finite. */
enum { WISP_NUMBER_ROOM = 32 };
size_t wisp_number_print(char to[WISP_NUMBER_ROOM], float v);

#endif
