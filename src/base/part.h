/* Parts of wisp that may be missing: shared objects of their own, opened when they are wanted, so
 * that one command serves machines with and without what they need. */
#ifndef WISP_BASE_PART_H
#define WISP_BASE_PART_H

#include "base/error.h"

#include <stdbool.h>

/* Opens 'file' beside the library or the command that holds this code, or in the lib folder beside
 * its bin, and nowhere else: not where the system looks, not in the current folder; it stays open.
 * What its function 'name' returns: a struct that begins with its version, an int, which must be
 * this one.  NULL: 'why' says in a few words why not.  global: what the part brings along can be
 * seen by what it opens itself. */
const void *wisp_part_table(const char *file, const char *name, int version, bool global, char *why,
                            size_t room);

#endif
