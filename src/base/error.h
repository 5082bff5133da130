/* Failing in one statement: return wisp_fail(err, WISP_EFORMAT, "%s:%zu: ...", path, line); */
#ifndef WISP_BASE_ERROR_H
#define WISP_BASE_ERROR_H

#include "wisp/wisp.h"

/* Writes code and text into err (NULL is fine) and returns code. */
wisp_status wisp_fail(wisp_error *err, wisp_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a failed system call: ": <strerror(errno)>" follows the text. */
wisp_status wisp_fail_errno(wisp_error *err, wisp_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
