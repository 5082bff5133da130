/* Errors: a code and one line of text in a struct that the caller owns. */
#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Messages quote what was found, and that may be any bytes: a message stays one line of text. */
static void one_line(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f) *s = '?';
}

wisp_status wisp_fail(wisp_error *err, wisp_status code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        err->code = code;
        wisp_vprint(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
        one_line(err->text);
    }
    return code;
}

wisp_status wisp_fail_errno(wisp_error *err, wisp_status code, const char *fmt, ...)
{
    int saved = errno;
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        err->code = code;
        int n = wisp_vprint(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
        if (n >= 0 && (size_t)n < sizeof err->text)
            snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", wisp_strerror(saved));
        one_line(err->text);
    }
    return code;
}
