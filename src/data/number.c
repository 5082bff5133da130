/* The rare cases of number.h, and printing. */
#include "data/number.h"
#include "base/text.h"

#include <string.h>

const double wisp_powers_of_10[23] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                       1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

bool wisp_number_slow(float *out, const char *begin, const char *end)
{
    char copy[512];
    size_t n = (size_t)(end - begin);
    if (n > 500) return false;
    memcpy(copy, begin, n);
    copy[n] = 0;
    *out = wisp_strtof(copy, NULL);
    return true;
}

static size_t print_whole(char *to, uint32_t n)
{
    char digits[12];
    size_t k = 0, len = 0;
    do digits[k++] = (char)('0' + n % 10);
    while (n /= 10);
    while (k) to[len++] = digits[--k];
    return len;
}

size_t wisp_number_print(char to[WISP_NUMBER_ROOM], float v)
{
    if (v >= 0 && v < 1e6f && v == (float)(uint32_t)v) return print_whole(to, (uint32_t)v);
    int n = 0;
    for (int digits = 6; digits <= 9; digits++) {
        float back;
        n = wisp_print(to, WISP_NUMBER_ROOM, "%.*g", digits, (double)v);
        if (wisp_number_parse(&back, to) && back == v) break;
    }
    return (size_t)n;
}
