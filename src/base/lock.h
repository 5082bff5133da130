/* A lock on a file that a run writes again and again: one run at a time. */
#ifndef WISP_BASE_LOCK_H
#define WISP_BASE_LOCK_H

#include "base/error.h"

#include <limits.h>

struct wisp_lock { /* all zero: none */
    int fd;        /* + 1 */
    char path[PATH_MAX];
};

/* Takes the lock of 'path', PATH.lock beside it (beside its target, where it is a link).  WISP_EIO:
 * somebody has it; the message names the process.  It is the kernel's, so it ends with its process,
 * however that ends; the file is removed by whoever gives the lock back, and one that a killed
 * process left hinders nobody.  Where the file system has no locks there is none. */
wisp_status wisp_lock_take(struct wisp_lock *out, const char *path, wisp_error *err);
void wisp_lock_give(struct wisp_lock *l);

#endif
