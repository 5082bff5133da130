/* Copying a stream to a temporary without a name. */
#include "data/spool.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAIT_MS = 1000, BUFFER = 1 << 20 };

bool wisp_spool_wants(const char *path)
{
    return strcmp(path, "-") == 0 || wisp_file_is_pipe(path);
}

const char *wisp_spool_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "stdin" : path;
}

/* A writer that has opened the pipe may take its time; one that never comes is not waited for. */
static int open_pipe(const char *path, wisp_error *err)
{
    char byte;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        wisp_fail_errno(err, WISP_EIO, path, "cannot be opened");
        return -1;
    }
    struct pollfd p = { .fd = fd, .events = POLLIN };
    int ready;
    while ((ready = poll(&p, 1, WAIT_MS)) < 0 && errno == EINTR) {}
    if (ready == 0 && read(fd, &byte, 0) == 0 && read(fd, &byte, 1) == 0) {
        wisp_fail_at(err, WISP_EIO, path, 0, "a pipe that nobody writes to");
        close(fd);
        return -1;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

/* A file without a name in a folder, or -1. */
static int open_temporary(const char *folder)
{
    char path[PATH_MAX];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
    if (snprintf(path, sizeof path, "%s/wisp-XXXXXX", folder) >= (int)sizeof path) return -1;
    fd = mkostemp(path, O_CLOEXEC); /* a file system that has no such files */
    if (fd >= 0) unlink(path);
    return fd;
}

static wisp_status write_all(int fd, const char *p, size_t n, const char *name, const char *folder,
                             wisp_error *err)
{
    while (n > 0) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0)
            return wisp_fail_errno(err, WISP_EIO, name,
                                   "cannot be kept in %s; write it to a file on a larger disk, "
                                   "and name that",
                                   folder);
        p += done;
        n -= (size_t)done;
    }
    return WISP_OK;
}

static wisp_status copy(int to, int from, const char *name, const char *folder, wisp_error *err)
{
    char *buf = wisp_alloc(BUFFER, 1);
    wisp_status st = buf ? WISP_OK : wisp_fail_mem(err, BUFFER, "a buffer");
    for (ssize_t n = 1; st == WISP_OK && n != 0;) {
        n = read(from, buf, BUFFER);
        if (n < 0 && errno != EINTR) st = wisp_fail_errno(err, WISP_EIO, name, "cannot be read");
        else if (n > 0) st = write_all(to, buf, (size_t)n, name, folder, err);
    }
    wisp_free(buf);
    return st;
}

wisp_status wisp_spool_open(struct wisp_spool *s, const char *path, const char *folder,
                            wisp_error *err)
{
    const char *const folders[] = { folder, "/var/tmp", "/tmp" }, *name = wisp_spool_name(path);
    const bool is_stdin = strcmp(path, "-") == 0;
    struct stat at;
    *s = (struct wisp_spool){ .fd = -1 };
    int from = is_stdin ? 0 : open_pipe(path, err);
    if (from < 0) return WISP_EIO;
    if (is_stdin && fstat(0, &at) == 0 && S_ISREG(at.st_mode) && lseek(0, 0, SEEK_CUR) == 0) {
        snprintf(s->path, sizeof s->path, "/proc/self/fd/0");
        return WISP_OK;
    }
    size_t i = 0;
    for (; i < 3; i++)
        if (folders[i] && (s->fd = open_temporary(folders[i])) >= 0) break;
    wisp_status st = s->fd >= 0 ? copy(s->fd, from, name, folders[i], err)
                                : wisp_fail_errno(err, WISP_EIO, name, "no temporary can be made");
    if (!is_stdin) close(from);
    snprintf(s->path, sizeof s->path, "/proc/self/fd/%d", s->fd);
    if (st != WISP_OK) wisp_spool_close(s);
    return st;
}

void wisp_spool_close(struct wisp_spool *s)
{
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
}
