/* Files: reading that never waits and never dies of a file that changes, and writing that either
 * happens whole or not at all.
 *
 * There are two kinds of files.  Those that the user named: links in their paths are followed, and
 * anybody may own them.  And wisp's own, which lie beside another (caches, states, temporaries):
 * nobody named them, so somebody else may have put something in their place.  There no link is
 * followed, and only files of this user, of root, or of the owner of the file beside are believed.
 *
 * Nothing but a plain file is ever read or replaced, and opening one never waits. */
#ifndef WISP_BASE_FILE_H
#define WISP_BASE_FILE_H

#include "base/error.h"

#include <stdbool.h>

struct wisp_map { /* a whole file, read-only; all zero: nothing */
    const unsigned char *p;
    size_t bytes;
    int slot; /* of a mapped file (map.c); 0: the bytes are a copy in memory */
};

/* Small files (wisp_map_copy_max bytes, 4 MiB) are copied into memory, larger ones are mapped.  A
 * copy that was not of one piece (the file was cut or changed meanwhile) is WISP_EIO.  A mapped
 * file that is cut reads as zeros from there on, without a signal (SIGBUS is caught); whoever reads
 * one asks wisp_map_check, at the latest before the result is used.  An empty file gives p = NULL,
 * bytes = 0. */
wisp_status wisp_map_open(struct wisp_map *out, const char *path, wisp_error *err);
/* The same for a file of wisp's own, made from the file 'source' (NULL: from none).  'copy': copied
 * into memory whatever its size, where half of what the machine has left is enough for that. */
wisp_status wisp_map_open_own(struct wisp_map *out, const char *path, const char *source, bool copy,
                              wisp_error *err);
/* WISP_EIO: the file was cut or changed since it was mapped, so what was read may be wrong. */
wisp_status wisp_map_check(const struct wisp_map *m, wisp_error *err);
void wisp_map_close(struct wisp_map *m);
/* What came of reading a map: 'st', unless the file was cut or changed, which then explains it. */
wisp_status wisp_map_blame(const struct wisp_map *m, wisp_status st, wisp_error *err);
/* The same, and closes it. */
wisp_status wisp_map_end(struct wisp_map *m, wisp_status st, wisp_error *err);
/* Gives the pages of a part of a map back to the system (they stay in its file cache); the bytes
 * stay readable.  It is no exact tool: reading one page may map its neighbours, up to megabytes of
 * them. */
void wisp_map_forget(const struct wisp_map *m, const void *p, size_t bytes);
extern size_t wisp_map_copy_max; /* only tests change it */

/* A pipe or a socket: bytes that come once and in order, so that nothing here
 * reads it; whoever wants to reads it into memory or a file first. */
bool wisp_file_is_pipe(const char *path);

/* A file being written under a temporary name beside its target.  After
 * wisp_out_commit (fsync, rename, fsync of the folder) it has the real name; wisp_out_abort
 * removes it.  What is there and no plain file (a folder, a pipe, a device) is refused.  A link
 * that this user or root made is followed and its target replaced; another one's is refused.  The
 * new file has the mode of the one that it replaces.  Writes are buffered; the first failure sticks
 * and is reported by commit as well, so callers may check once. */
struct wisp_out;
wisp_status wisp_out_create(struct wisp_out **out, const char *path, wisp_error *err);
/* The same for a file of wisp's own: a link there is replaced, not followed. */
wisp_status wisp_out_create_own(struct wisp_out **out, const char *path, wisp_error *err);
/* Committing then gives it the mode of the file 'source' (but for the right to run it), and what
 * members of a group may do only where the group is the source's, too.  NULL, or no such file: no
 * change. */
void wisp_out_like(struct wisp_out *o, const char *source);
wisp_status wisp_out_write(struct wisp_out *o, const void *p, size_t bytes, wisp_error *err);
size_t wisp_out_offset(const struct wisp_out *o);
wisp_status wisp_out_commit(struct wisp_out *o, wisp_error *err); /* frees o, also on failure */
void wisp_out_abort(struct wisp_out *o);                          /* NULL is fine */
/* Committing then keeps the file that is replaced, as the name of wisp_out_before: 'path' with
 * ".1" behind it (WISP_BEFORE_BYTES). */
void wisp_out_keep(struct wisp_out *o);
void wisp_out_before(char *out, const char *path);
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
