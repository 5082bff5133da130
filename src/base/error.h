/* Failing in one statement: return wisp_fail_at(err, WISP_EFORMAT, path, line, "..."); */
#ifndef WISP_BASE_ERROR_H
#define WISP_BASE_ERROR_H

#include "wisp/wisp.h"

/* Writes code and text into err (NULL is fine) and returns code.  The error has no place. */
wisp_status wisp_fail(wisp_error *err, wisp_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a fault of a file: "path:line: " precedes the text, "path: " where 'line' is 0, and
 * the fields of the place are filled.  Of a path of more than 300 bytes the end is shown. */
wisp_status wisp_fail_at(wisp_error *err, wisp_status code, const char *path, size_t line,
                         const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* The same with a column: "path:line:column: ". */
wisp_status wisp_fail_place(wisp_error *err, wisp_status code, const char *path, size_t line,
                            size_t column, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
/* The same for a failed system call on a file: ": <strerror(errno)>" follows the text. */
wisp_status wisp_fail_errno(wisp_error *err, wisp_status code, const char *path, const char *fmt,
                            ...) __attribute__((format(printf, 4, 5)));
/* The same for row 'row' (from 0) of a data set: "row N: " precedes the text, where N is counted
 * from 'base', as the rows of the caller are: 0 for those of arrays, 1 for those of a file. */
wisp_status wisp_fail_row(wisp_error *err, wisp_status code, size_t row, int base, const char *fmt,
                          ...) __attribute__((format(printf, 5, 6)));
/* WISP_EINVAL for the value of an option: "--key: " precedes the text. */
wisp_status wisp_fail_option(wisp_error *err, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Hands an error on with its place. */
wisp_status wisp_fail_as(wisp_error *err, wisp_status code, const wisp_error *why);

#endif
