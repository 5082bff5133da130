/* Opening files for reading: plain ones only, without waiting, and wisp's own only where nobody
 * else can have put them there. */
#include "base/open.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_of(mode_t mode)
{
    static const struct {
        mode_t type;
        const char *name;
    } kinds[] = { { S_IFDIR, "a folder" }, { S_IFIFO, "a pipe" },    { S_IFCHR, "a device" },
                  { S_IFBLK, "a device" }, { S_IFSOCK, "a socket" }, { S_IFLNK, "a link" } };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((mode & S_IFMT) == kinds[i].type) return kinds[i].name;
    return "something else";
}

static struct wisp_file_id id_of(const struct stat *st)
{
    return (struct wisp_file_id){
        .bytes = (uint64_t)st->st_size,
        .mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec,
    };
}

/* What has no name of its own is opened by its number (spools, models of the Python package). */
static bool needs_proc(const char *path)
{
    return errno == ENOENT && strncmp(path, "/proc/self/", 11) == 0 &&
           access("/proc/self", F_OK) != 0;
}

/* A writer need not come to a pipe: without O_NONBLOCK opening it would wait for one. */
static int open_plain(struct stat *st, const char *path, int flags, wisp_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    const bool link = fd < 0 && errno == ELOOP && (flags & O_NOFOLLOW);
    const bool there = fd >= 0 ? fstat(fd, st) == 0 : errno == ENXIO && stat(path, st) == 0;
    if (link) wisp_fail_at(err, WISP_EIO, path, 0, "expected a plain file, found a link");
    else if (!there && needs_proc(path))
        wisp_fail_at(err, WISP_EIO, path, 0,
                     "cannot be opened, as /proc is not there; expected it mounted (mount -t proc "
                     "proc /proc)");
    else if (!there) wisp_fail_errno(err, WISP_EIO, path, "cannot be opened");
    else if (!S_ISREG(st->st_mode))
        wisp_fail_at(err, WISP_EIO, path, 0, "expected a plain file, found %s",
                     kind_of(st->st_mode));
    else return fd;
    if (fd >= 0) close(fd);
    return -1;
}

int wisp_open_named(struct wisp_file_id *id, const char *path, wisp_error *err)
{
    struct stat st;
    int fd = open_plain(&st, path, 0, err);
    if (fd >= 0) *id = id_of(&st);
    return fd;
}

/* A file that the owner of the source made is worth as much as the source: he could have changed
 * that as well.  The same holds for who else may write it. */
static bool believed(const struct stat *st, const char *source)
{
    struct stat from = { .st_uid = geteuid() };
    const mode_t others = S_IWGRP | S_IWOTH;
    const bool has = source && stat(source, &from) == 0;
    if (st->st_uid != geteuid() && st->st_uid != 0 && st->st_uid != from.st_uid) return false;
    return !has || !(st->st_mode & others & ~from.st_mode);
}

int wisp_open_own(struct wisp_file_id *id, const char *path, const char *source, wisp_error *err)
{
    struct stat st;
    int fd = open_plain(&st, path, O_NOFOLLOW, err);
    if (fd < 0) return -1;
    *id = id_of(&st);
    if (believed(&st, source)) return fd;
    close(fd);
    wisp_fail_at(err, WISP_EIO, path, 0,
                 "belongs to another user, or others may write it: not believed");
    return -1;
}

/* Makes the folder of 'path', and the one around it.  Is it one of this user, which not everybody
 * may write?  (A group may where the umask is 002, as with many systems: it is the user's own.) */
static bool own_folder(const char *path)
{
    char folder[PATH_MAX];
    struct stat st;
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path || (size_t)(slash - path) >= sizeof folder) return false;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = 0;
    char *around = strrchr(folder, '/');
    if (around && around > folder) {
        *around = 0;
        mkdir(folder, 0700);
        *around = '/';
    }
    mkdir(folder, 0700);
    return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & S_IWOTH);
}

int wisp_open_append(size_t *bytes, const char *path, wisp_error *err)
{
    struct stat st;
    if (!own_folder(path)) {
        wisp_fail_at(err, WISP_EIO, path, 0, "its folder is not this user's alone");
        return -1;
    }
    int fd = open(
        path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0600);
    if (fd < 0 || fstat(fd, &st) != 0) {
        wisp_fail_errno(err, WISP_EIO, path, "cannot be written");
    } else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1 ||
               st.st_mode & S_IWOTH) {
        wisp_fail_at(err, WISP_EIO, path, 0, "is no plain file of this user alone");
    } else {
        *bytes = (size_t)st.st_size;
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

wisp_status wisp_file_unchanged(int fd, const struct wisp_file_id *id, bool cut, const char *path,
                                wisp_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return wisp_fail_errno(err, WISP_EIO, path, "cannot be read");
    const struct wisp_file_id now = id_of(&st);
    if (now.bytes < id->bytes)
        return wisp_fail_at(err, WISP_EIO, path, 0,
                            "was cut from %llu to %llu bytes while it was read; start again with "
                            "the whole file",
                            (unsigned long long)id->bytes, (unsigned long long)now.bytes);
    if (now.bytes == id->bytes && now.mtime_ns == id->mtime_ns)
        return cut ? wisp_fail_at(err, WISP_EIO, path, 0, "a part of it could not be read")
                   : WISP_OK;
    return wisp_fail_at(err, WISP_EIO, path, 0,
                        "was changed while it was read; start again, and replace files in use by "
                        "renaming new ones over them");
}

wisp_status wisp_file_identify(struct wisp_file_id *out, const char *path, wisp_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0) return wisp_fail_errno(err, WISP_EIO, path, "cannot be read");
    *out = id_of(&st);
    return WISP_OK;
}

bool wisp_file_is_pipe(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}
