/* JSON, read piece by piece from bytes, without a tree: what a request says goes straight to where it
 * is wanted, so that memory grows with the body and not with what jansson makes of it (40 bytes for
 * a number of two).  Strict as RFC 8259 has it: UTF-8 is checked, numbers are finite, values are
 * nested JSON_DEPTH deep at most.
 *
 * The first thing that is wrong is kept, with its place; from then on every function does nothing
 * and gives 0, so that whoever reads looks once, at the end. */
#ifndef WISP_SERVE_JSON_H
#define WISP_SERVE_JSON_H

#include "serve/text.h"

#include <stdbool.h>
#include <stddef.h>

enum { JSON_DEPTH = 32 };

struct json {
    const char *begin, *at, *end;
    int depth;
    bool first; /* nothing was read of the innermost list or object so far */
    bool failed;
    size_t where;    /* the byte, from 0 */
    char why[300];   /* what was found there, what was expected */
    struct text key; /* of the object that is being read, decoded */
};

/* bytes[n] must be readable (a zero, usually). */
void jread_open(struct json *j, const char *bytes, size_t n);
/* Nothing but blanks may be left.  Clears; true: all was well. */
bool jread_close(struct json *j);

/* What comes next: '{' '[' '"' 'n' (a number) 't' 'f' '0' (null), or 0 where nothing is or has
 * failed. */
char jread_next(struct json *j);
/* Begins an object or a list; 'what' is said where something else is found. */
bool jread_enter(struct json *j, char kind, const char *what);
/* The next key (*key, *n; until the next call), or false: the object has ended. */
bool jread_key(struct json *j, const char **key, size_t *n);
/* Is the key 'name', the i-th (below 32) of those that this object may have?  Each of them may be given
 * once, and fails when it comes again: 'seen' has a bit for each. */
bool jread_is(struct json *j, const char *key, size_t n, const char *name, unsigned *seen,
              size_t i);
/* Which of these names it is; -1: it comes again, or is none of them (jread_unknown). */
int jread_which(struct json *j, const char *key, size_t n, const char *const *names, size_t m,
                unsigned *seen);
/* The key is none of these: fails, and says what it probably means. */
void jread_unknown(struct json *j, const char *key, size_t n, const char *const *names, size_t m);
/* Is there one more item?  False: the list has ended. */
bool jread_item(struct json *j);
/* Appends a string, decoded. */
void jread_string(struct json *j, struct text *to, const char *what);
double jread_number(struct json *j, const char *what);
/* A whole number in low..high. */
long long jread_whole(struct json *j, long long low, long long high, const char *what);
bool jread_bool(struct json *j, const char *what);
/* Whatever is there. */
void jread_skip(struct json *j);
/* Something is wrong with what was read last, or is about to be. */
void jread_fail(struct json *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
