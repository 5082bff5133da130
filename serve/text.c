/* Text that grows. */
#include "serve/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for n more bytes and a zero. */
static bool grow(struct text *t, size_t n)
{
    if (t->failed) return false;
    if (n < t->room - t->n) return true;
    size_t room = t->room ? t->room : 256;
    while (room - t->n <= n && room <= SIZE_MAX / 2) room *= 2;
    char *at = room - t->n > n ? realloc(t->at, room) : NULL;
    if (!at) {
        t->failed = true;
        return false;
    }
    t->at = at;
    t->room = room;
    return true;
}

void text_add(struct text *t, const char *s, size_t n)
{
    if (!grow(t, n)) return;
    memcpy(t->at + t->n, s, n);
    t->n += n;
}

void text_put(struct text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

void text_print(struct text *t, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && grow(t, (size_t)n)) {
        vsnprintf(t->at + t->n, (size_t)n + 1, fmt, again);
        t->n += (size_t)n;
    }
    va_end(again);
}

size_t utf8_character(const char *s, size_t n)
{
    static const unsigned lowest[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char c = (unsigned char)s[0];
    if (c < 0x80) return 1;
    const size_t bytes = c < 0xc0 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf8 ? 4 : 0;
    if (bytes == 0 || bytes > n) return 0;
    unsigned code = c & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    return code < lowest[bytes] || code > 0x10ffff || surrogate ? 0 : bytes;
}

/* May it stand in a JSON string as it is? */
static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

void text_json(struct text *t, const char *s, size_t n)
{
    text_add(t, "\"", 1);
    for (size_t i = 0; i < n;) {
        size_t plain = i, bytes;
        while (plain < n && is_plain((unsigned char)s[plain])) plain++;
        text_add(t, s + i, plain - i);
        if ((i = plain) == n) break;
        bytes = utf8_character(s + i, n - i);
        if (bytes == 0) text_add(t, "\\ufffd", 6);
        else if (s[i] == '"' || s[i] == '\\') text_add(t, (const char[]){ '\\', s[i] }, 2);
        else if (bytes == 1) text_print(t, "\\u%04x", (unsigned char)s[i]);
        else text_add(t, s + i, bytes);
        i += bytes ? bytes : 1;
    }
    text_add(t, "\"", 1);
}

void text_whole(struct text *t, long long x)
{
    char s[24];
    size_t at = sizeof s;
    unsigned long long left = x < 0 ? 0 - (unsigned long long)x : (unsigned long long)x;
    do s[--at] = (char)('0' + left % 10);
    while (left /= 10);
    if (x < 0) s[--at] = '-';
    text_add(t, s + at, sizeof s - at);
}

/* Writes the six digits of a number from 0.0001 to below 1, and returns how many bytes; 0: it is
 * another number, or so near to the middle between two that its digits have to be computed exactly.
 * Scores are such numbers, and printf takes ten times as long. */
static size_t put_share(char *s, double x)
{
    size_t zeros = 0, n = 6;
    double scaled = x * 1e6;
    if (!(x >= 1e-4 && x < 1)) return 0;
    for (; scaled < 1e5; zeros++) scaled *= 10;
    const double whole = floor(scaled), rest = scaled - whole;
    if (fabs(rest - 0.5) < 1e-6) return 0;
    unsigned digits = (unsigned)whole + (rest > 0.5);
    if (digits == 1000000) return 0;
    while (digits % 10 == 0) digits /= 10, n--;
    memcpy(s, "0.000", 5);
    for (size_t i = n; i > 0; i--, digits /= 10) s[1 + zeros + i] = (char)('0' + digits % 10);
    return 2 + zeros + n;
}

void text_real(struct text *t, double x)
{
    if (!grow(t, 32)) return;
    const size_t n = put_share(t->at + t->n, x);
    t->n += n ? n : (size_t)snprintf(t->at + t->n, 32, "%.6g", isfinite(x) ? x : 0);
}

int text_shown(const struct text *t)
{
    return t->n < 40 ? (int)t->n : 40;
}

void text_clear(struct text *t)
{
    free(t->at);
    *t = (struct text){ 0 };
}

bool array_grow(void *array, size_t n, size_t *room, size_t size)
{
    void *p;
    if (n < *room) return true;
    const size_t more = *room ? *room * 2 : 64;
    memcpy(&p, array, sizeof p);
    p = realloc(p, more * size);
    if (!p) return false;
    memcpy(array, &p, sizeof p);
    *room = more;
    return true;
}

void text_plain(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f) *s = '?';
}
