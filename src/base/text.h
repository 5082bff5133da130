/* Numbers as text, the same in every locale: a host program that has called setlocale may have a
 * decimal comma, and then the C library's own functions read 0.5 as 0 and print 0,5.  All numbers
 * that the library reads or writes pass through here (tools/lint looks).  And UTF-8. */
#ifndef WISP_BASE_TEXT_H
#define WISP_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* As strtod, strtof, snprintf, vsnprintf and sscanf of the C locale. */
double wisp_strtod(const char *s, char **end);
float wisp_strtof(const char *s, char **end);
int wisp_print(char *to, size_t room, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int wisp_vprint(char *to, size_t room, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
int wisp_scan(const char *s, const char *fmt, ...) __attribute__((format(scanf, 2, 3)));
/* As strcasecmp and strncasecmp: a Turkish i is no I. */
int wisp_casecmp(const char *a, const char *b);
int wisp_ncasecmp(const char *a, const char *b, size_t n);
/* Writes a character (below 0x110000) as UTF-8, 1 to 4 bytes; returns how many. */
size_t wisp_utf8_put(char *to, uint32_t c);
/* The UTF-8 character at s, of which 'left' bytes are there.  Returns how many it has; 0 when it is
 * none (also overlong forms and surrogates, which strict readers refuse). */
static inline size_t wisp_utf8_get(uint32_t *out, const unsigned char *s, size_t left)
{
    if (left == 0) return 0;
    uint32_t c = *out = s[0];
    if (c < 0x80) return 1;
    size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || n > left) return 0;
    c &= 0xffu >> n; /* from 0xf5 on more than there is */
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    *out = c;
    if ((n == 3 && c < 0x800) || (n == 4 && c < 0x10000)) return 0; /* longer than it need be */
    return c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) ? n : 0;
}
static inline size_t wisp_utf8_bytes(const unsigned char *s, size_t left)
{
    uint32_t c;
    return wisp_utf8_get(&c, s, left);
}
/* For messages: "1.25 GiB", "31.4 MiB", "2.0 KiB", "0": the unit in which there is something to see.
 * Returns out. */
enum { WISP_BYTES_TEXT = 24 };
const char *wisp_bytes_text(char out[WISP_BYTES_TEXT], size_t bytes);
/* For messages: 1 row, 2 rows. */
static inline const char *wisp_plural(size_t n)
{
    return n == 1 ? "" : "s";
}
/* For messages: the first n bytes at p in at most 'most' columns, with "..." behind them if there is
 * more.  What cannot be seen, a blank that is none or a mark of byte order, is shown as <U+FEFF>;
 * other control characters than tabs, and bytes that are no UTF-8, as '?'.  Returns to. */
#define WISP_SHOW_BYTES(most) (4 * (most) + 4)
const char *wisp_text_show(char *to, const char *p, size_t n, size_t most);
/* A row of a table that is names alone. */
struct wisp_word {
    const char *name, *what;
};
/* What an errno means, in English. */
const char *wisp_strerror(int code);

#endif
