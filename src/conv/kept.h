/* What was measured once, kept in a file that many processes add to: lines of a key and a value.
 *
 * A line is added by one write behind all others, so none is lost and none is mixed up with another.
 * The first line of a key counts: whoever has added one asks again, and so all agree. */
#ifndef WISP_CONV_KEPT_H
#define WISP_CONV_KEPT_H

#include <stdbool.h>
#include <stddef.h>

/* Is this a value that can be used? */
typedef bool wisp_kept_good(void *arg, const char *value, size_t length);
/* The first good value behind 'key'; false: there is none, or no such file.  What is cut, strange or
 * far too long is passed over. */
bool wisp_kept_find(const char *path, const char *key, wisp_kept_good *good, void *arg);
/* False: the file cannot be written, or is not this user's alone. */
bool wisp_kept_add(const char *path, const char *key, const char *value);

#endif
