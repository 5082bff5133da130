/* A lock on a file that a run writes: flock on a file beside it.
 *
 * Whoever gives the lock back removes the file first.  Another one may have opened it by then, and
 * would lock a file that has no name any more: so after locking it is looked at whether the name
 * still means this file, else it is tried again. */
#include "base/lock.h"
#include "base/open.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static wisp_status somebody_has_it(int fd, const char *path, wisp_error *err)
{
    char text[32] = "";
    long pid = 0;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0 || wisp_scan(text, "%ld", &pid) != 1) pid = 0;
    return wisp_fail_at(err, WISP_EIO, path, 0,
                        "another run is training it (process %ld); wait until it has ended, or "
                        "name another file",
                        pid);
}

/* For the message of others alone, so nothing depends on it. */
static void leave_number(int fd)
{
    char text[32];
    const int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) == 0 && write(fd, text, (size_t)n) != n) errno = 0;
}

static bool has_its_name(int fd, const char *path)
{
    struct stat here, there;
    return fstat(fd, &here) == 0 && lstat(path, &there) == 0 && here.st_ino == there.st_ino &&
           here.st_dev == there.st_dev;
}

/* Only a plain file of this user's: locking another one's could wait for him, and tell him. */
static int open_lock(const char *path, wisp_error *err)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (fd < 0) {
        wisp_fail_errno(err, WISP_EIO, path, "cannot be opened, to lock it");
    } else if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
        wisp_fail_at(err, WISP_EIO, path, 0, "expected a plain file of this user; remove it");
        close(fd);
        fd = -1;
    }
    return fd;
}

wisp_status wisp_lock_take(struct wisp_lock *out, const char *path, wisp_error *err)
{
    char target[PATH_MAX];
    const bool there = realpath(path, target) != NULL; /* else it is a new file */
    out->fd = 0;
    const int n = snprintf(out->path, sizeof out->path, "%s.lock", there ? target : path);
    if (n < 0 || n >= PATH_MAX)
        return wisp_fail(err, WISP_EIO, "%.100s...: the path is too long", path);
    for (;;) {
        int fd = open_lock(out->path, err), failed = 0;
        if (fd < 0) return WISP_EIO;
        while (flock(fd, LOCK_EX | LOCK_NB) != 0 && (failed = errno) == EINTR) failed = 0;
        if (failed == EWOULDBLOCK) {
            wisp_status st = somebody_has_it(fd, path, err);
            close(fd);
            return st;
        }
        if (failed || has_its_name(fd, out->path)) {
            out->fd = fd + 1;
            if (!failed) leave_number(fd);
            return WISP_OK;
        }
        close(fd);
    }
}

void wisp_lock_give(struct wisp_lock *l)
{
    if (!l->fd) return;
    unlink(l->path);
    flock(l->fd - 1, LOCK_UN); /* a forked process may still hold the descriptor */
    close(l->fd - 1);
    l->fd = 0;
}
