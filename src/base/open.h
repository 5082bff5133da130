/* Opening files for reading and adding, and telling whether they are still the same; map.c and file.c use it.
 */
#ifndef WISP_BASE_OPEN_H
#define WISP_BASE_OPEN_H

#include "base/file.h"

/* A descriptor of the plain file at 'path', and what it is now; -1: 'err' says why not (its code is
 * always WISP_EIO).  It never waits: a pipe or a device is refused. */
int wisp_open_named(struct wisp_file_id *id, const char *path, wisp_error *err);
/* The same for a file of wisp's own, made from 'source' (or NULL): no link, and nobody but this
 * user, root or the owner of the source may be able to write it. */
int wisp_open_own(struct wisp_file_id *id, const char *path, const char *source, wisp_error *err);
/* To add to a file of wisp's own, which is made where there is none, in a folder that is made, too
 * (with the one around it).  File and folder must be this user's: no link, nothing that everybody may
 * write.  Its size is put in *bytes. */
int wisp_open_append(size_t *bytes, const char *path, wisp_error *err);
/* WISP_EIO where the file is not what it was, or is known to be 'cut'. */
wisp_status wisp_file_unchanged(int fd, const struct wisp_file_id *id, bool cut, const char *path,
                                wisp_error *err);

#endif
