/* Numbers as text in the C locale, whatever the locale of the host program and of this thread;
 * characters. */
#include "base/text.h"

#include <locale.h>
#include <stdbool.h>
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

/* Blanks other than ' ', marks of direction, and others without a form: U+0000 .. U+FFFF. */
static bool unseen(uint32_t c)
{
    return (c >= 0x80 && c <= 0xa0) || c == 0xad || (c >= 0x2000 && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202f) || (c >= 0x205f && c <= 0x206f) || c == 0x3000 ||
           c == 0xfeff;
}

const char *wisp_text_show(char *to, const char *p, size_t n, size_t most)
{
    const unsigned char *s = (const unsigned char *)p, *end = s + n;
    size_t at = 0, columns = 0;
    while (s < end) {
        uint32_t c;
        const size_t bytes = wisp_utf8_get(&c, s, (size_t)(end - s));
        if (bytes == 0) c = 0;
        const size_t wide = unseen(c) ? sizeof "<U+FEFF>" - 1 : 1;
        if (columns + wide > most) {
            memcpy(to + at, "...", 4);
            return to;
        }
        if (wide > 1) at += (size_t)wisp_print(to + at, wide + 1, "<U+%04X>", (unsigned)c);
        else if (c < ' ' || c == 0x7f) to[at++] = c == '\t' ? ' ' : '?';
        else {
            memcpy(to + at, s, bytes);
            at += bytes;
        }
        columns += wide;
        s += bytes ? bytes : 1;
    }
    to[at] = 0;
    return to;
}

const char *wisp_bytes_text(char out[WISP_BYTES_TEXT], size_t bytes)
{
    const double kib = (double)bytes / 1024, mib = kib / 1024, gib = mib / 1024;
    if (gib >= 0.1) wisp_print(out, WISP_BYTES_TEXT, "%.2f GiB", gib);
    else if (mib >= 0.1) wisp_print(out, WISP_BYTES_TEXT, "%.1f MiB", mib);
    else if (bytes) wisp_print(out, WISP_BYTES_TEXT, "%.1f KiB", kib);
    else wisp_print(out, WISP_BYTES_TEXT, "0");
    return out;
}
