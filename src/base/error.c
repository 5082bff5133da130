/* Errors: a code, one line of text and the place it speaks of, in a struct that the caller owns. */
#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PATH_SHOWN = 300 }; /* bytes of a path: the rest of the text is for what is wrong */

static void begin(wisp_error *err, wisp_status code)
{
    err->code = code;
    err->line = err->row = 0;
    err->file_bytes = err->place_bytes = 0;
}

/* A piece of the place, which is short enough: paths are cut, keys are ours. */
__attribute__((format(printf, 2, 3))) static void put_place(wisp_error *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const size_t room = sizeof err->text - err->place_bytes;
    int n = wisp_vprint(err->text + err->place_bytes, room, fmt, ap);
    va_end(ap);
    err->place_bytes = (unsigned short)(err->place_bytes + n);
}

static void begin_at(wisp_error *err, wisp_status code, const char *path, size_t line,
                     size_t column)
{
    const size_t n = strlen(path);
    size_t cut = n > PATH_SHOWN ? n - PATH_SHOWN : 0;
    while (cut && ((unsigned char)path[cut] & 0xc0) == 0x80) cut++; /* whole characters */
    begin(err, code);
    err->line = line;
    if (!cut) err->file_bytes = (unsigned short)n;
    put_place(err, "%s%s", cut ? "..." : "", path + cut);
    if (line) put_place(err, ":%zu", line);
    if (column) put_place(err, ":%zu", column);
    put_place(err, ": ");
}

/* The text behind the place; returns where it ends.  Messages quote what was found, and that may be
 * any bytes: a message stays one line of text. */
static size_t put_text(wisp_error *err, const char *fmt, va_list ap)
{
    const size_t room = sizeof err->text - err->place_bytes;
    int n = wisp_vprint(err->text + err->place_bytes, room, fmt, ap);
    for (char *s = err->text; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f) *s = '?';
    return n >= 0 && (size_t)n < room ? err->place_bytes + (size_t)n : sizeof err->text - 1;
}

wisp_status wisp_fail(wisp_error *err, wisp_status code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        begin(err, code);
        put_text(err, fmt, ap);
        va_end(ap);
    }
    return code;
}

wisp_status wisp_fail_at(wisp_error *err, wisp_status code, const char *path, size_t line,
                         const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        begin_at(err, code, path, line, 0);
        put_text(err, fmt, ap);
        va_end(ap);
    }
    return code;
}

wisp_status wisp_fail_place(wisp_error *err, wisp_status code, const char *path, size_t line,
                            size_t column, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        begin_at(err, code, path, line, column);
        put_text(err, fmt, ap);
        va_end(ap);
    }
    return code;
}

wisp_status wisp_fail_errno(wisp_error *err, wisp_status code, const char *path, const char *fmt,
                            ...)
{
    int saved = errno;
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        begin_at(err, code, path, 0, 0);
        size_t n = put_text(err, fmt, ap);
        va_end(ap);
        snprintf(err->text + n, sizeof err->text - n, ": %s", wisp_strerror(saved));
    }
    return code;
}

wisp_status wisp_fail_row(wisp_error *err, wisp_status code, size_t row, int base, const char *fmt,
                          ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        begin(err, code);
        err->row = row + 1;
        put_place(err, "row %zu: ", row + (size_t)base);
        put_text(err, fmt, ap);
        va_end(ap);
    }
    return code;
}

wisp_status wisp_fail_option(wisp_error *err, const char *key, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        begin(err, WISP_EINVAL);
        put_place(err, "--%s: ", key);
        put_text(err, fmt, ap);
        va_end(ap);
    }
    return WISP_EINVAL;
}

wisp_status wisp_fail_as(wisp_error *err, wisp_status code, const wisp_error *why)
{
    if (err) *err = *why, err->code = code;
    return code;
}
