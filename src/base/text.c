/* Numbers as text in the C locale, whatever the locale of the host program and of this thread. */
#include "base/text.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* glibc and musl: a constant, nothing is made, so it cannot fail and need not be freed. */
static locale_t c_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double wisp_strtod(const char *s, char **end)
{
    return strtod_l(s, end, c_locale());
}

float wisp_strtof(const char *s, char **end)
{
    return strtof_l(s, end, c_locale());
}

int wisp_vprint(char *to, size_t room, const char *fmt, va_list ap)
{
    locale_t old = uselocale(c_locale());
    int n = vsnprintf(to, room, fmt, ap);
    uselocale(old);
    return n;
}

int wisp_print(char *to, size_t room, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = wisp_vprint(to, room, fmt, ap);
    va_end(ap);
    return n;
}

int wisp_scan(const char *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    locale_t old = uselocale(c_locale());
    int n = vsscanf(s, fmt, ap);
    uselocale(old);
    va_end(ap);
    return n;
}

int wisp_casecmp(const char *a, const char *b)
{
    return strcasecmp_l(a, b, c_locale());
}

int wisp_ncasecmp(const char *a, const char *b, size_t n)
{
    return strncasecmp_l(a, b, n, c_locale());
}

const char *wisp_strerror(int code)
{
    return strerror_l(code, c_locale());
}

size_t wisp_utf8_put(char *to, uint32_t c)
{
    static const unsigned char mark[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6) to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(mark[n] | c);
    return n;
}
