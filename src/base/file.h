/* Files: mapped reading, and writing that either happens whole or not at all. */
#ifndef WISP_BASE_FILE_H
#define WISP_BASE_FILE_H

#include "base/error.h"

#include <stdbool.h>

struct wisp_map { /* a whole file, read-only; all zero: nothing mapped */
    const unsigned char *p;
    size_t bytes;
};

/* Folders and other things that are no plain file are refused.  An empty file gives p = NULL,
 * bytes = 0. */
wisp_status wisp_map_open(struct wisp_map *out, const char *path, wisp_error *err);
void wisp_map_close(struct wisp_map *m);
/* Gives the pages of a part of a map back to the system (they stay in its file cache); the bytes
 * stay readable.  It is no exact tool: reading one page may map its neighbours, up to megabytes of
 * them. */
void wisp_map_forget(const void *p, size_t bytes);

/* A file being written under a temporary name beside its target.  After
 * wisp_out_commit (fsync, rename, fsync of the folder) it has the real name; wisp_out_abort
 * removes it.  A link is followed and its target replaced; what is there and no plain file (a
 * folder, a pipe, a device) is refused.  Writes are buffered; the first failure sticks and is
 * reported by commit as well, so callers may check once. */
struct wisp_out;
wisp_status wisp_out_create(struct wisp_out **out, const char *path, wisp_error *err);
wisp_status wisp_out_write(struct wisp_out *o, const void *p, size_t bytes, wisp_error *err);
size_t wisp_out_offset(const struct wisp_out *o);
wisp_status wisp_out_commit(struct wisp_out *o, wisp_error *err); /* frees o, also on failure */
void wisp_out_abort(struct wisp_out *o);                          /* NULL is fine */
/* Committing then keeps the file that is replaced, as the name of wisp_out_before: 'path', links
 * followed, with ".1" behind it (WISP_BEFORE_BYTES). */
void wisp_out_keep(struct wisp_out *o);
wisp_status wisp_out_before(char *out, const char *path, wisp_error *err);
enum { WISP_BEFORE_BYTES = 4200 };
/* Removes temporaries of 'path' that killed processes left; creating a file does it, too. */
void wisp_out_sweep(const char *path);

/* Size and time of last change, to tell whether a cache is stale. */
struct wisp_file_id {
    uint64_t bytes, mtime_ns;
};
wisp_status wisp_file_identify(struct wisp_file_id *out, const char *path, wisp_error *err);

/* The folder that 'path' lies in, into dir (PATH_MAX bytes). */
void wisp_folder_of(char *dir, const char *path);

double wisp_now(void); /* monotonic seconds */

#endif
