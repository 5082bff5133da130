/* Writing files: atomic commit (temporary, fsync, rename, fsync of the folder). */
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 20 };

struct wisp_out {
    int fd;
    char *path, *target, *temp; /* as named; what it means, links followed; while it is written */
    bool keeps;                 /* the file that is replaced */
    bool has_mode;              /* when it is committed it gets ... */
    mode_t mode;                /* ... this mode, and this group where that can be */
    gid_t group;
    unsigned char *buf; /* BUFFER bytes, 'used' of them waiting */
    size_t used, offset;
    int failed; /* errno of the first failure */
};

/* The folder of 'path', with its last '/', or "." */
void wisp_folder_of(char *dir, const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(dir, PATH_MAX, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
}

/* One link: where it leads, from the folder that it lies in. */
static wisp_status step(char target[PATH_MAX], const struct stat *st, const char *path,
                        wisp_error *err)
{
    char to[PATH_MAX], folder[PATH_MAX];
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return wisp_fail_at(err, WISP_EIO, path, 0,
                            "a link that another user made; remove it, or name the file itself");
    ssize_t n = readlink(target, to, sizeof to - 1);
    if (n < 0) return wisp_fail_errno(err, WISP_EIO, path, "cannot be followed");
    to[n] = 0;
    wisp_folder_of(folder, target);
    const bool whole = to[0] == '/';
    const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    char joined[2 * PATH_MAX];
    snprintf(joined, sizeof joined, "%s%s%s", whole ? "" : folder, whole ? "" : slash, to);
    if (snprintf(target, PATH_MAX, "%s", joined) >= PATH_MAX)
        return wisp_fail_at(err, WISP_EIO, path, 0, "the link leads to a path that is too long");
    return WISP_OK;
}

/* The file that 'path' means: itself, or what links of this user or root lead to.  st: what is
 * there now, st_nlink = 0: nothing. */
static wisp_status follow(char target[PATH_MAX], struct stat *st, const char *path, bool links,
                          wisp_error *err)
{
    enum { MOST_LINKS = 40 };
    *st = (struct stat){ 0 };
    if (snprintf(target, PATH_MAX, "%s", path) >= PATH_MAX)
        return wisp_fail(err, WISP_EIO, "%.100s...: the path is too long", path);
    int i = 0;
    for (; lstat(target, st) == 0; i++) {
        if (S_ISREG(st->st_mode)) return WISP_OK;
        if (!S_ISLNK(st->st_mode))
            return wisp_fail_at(err, WISP_EIO, path, 0, "expected a plain file or a new one");
        if (!links) return WISP_OK;
        if (i == MOST_LINKS) return wisp_fail_at(err, WISP_EIO, path, 0, "links that lead nowhere");
        wisp_status failed = step(target, st, path, err);
        if (failed) return failed;
    }
    *st = (struct stat){ 0 };
    if (i > 0) return wisp_fail_at(err, WISP_EIO, path, 0, "a link that leads nowhere");
    return WISP_OK;
}

/* Temporaries are named TARGET.tmp<process>-<number> and locked while their writer lives.  Those
 * of a writer that was killed stay behind, unlocked: the next writer of the same file removes
 * them.  A file system without locks keeps them. */
static void sweep(const char *target)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(target, '/'), *base = slash ? slash + 1 : target;
    wisp_folder_of(dir, target);
    DIR *d = opendir(dir);
    if (!d) return;
    size_t n = strlen(base);
    for (struct dirent *e; (e = readdir(d));) {
        int pid, number, end = 0;
        if (strncmp(e->d_name, base, n) != 0 ||
            wisp_scan(e->d_name + n, ".tmp%d-%d%n", &pid, &number, &end) != 2 ||
            e->d_name[n + (size_t)end])
            continue;
        int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        struct stat st;
        if (fd < 0) continue;
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
            flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(dirfd(d), e->d_name, 0);
        close(fd);
    }
    closedir(d);
}

void wisp_out_sweep(const char *path)
{
    char target[PATH_MAX];
    struct stat st;
    if (follow(target, &st, path, false, NULL) == WISP_OK) sweep(target);
}

static void take_mode(struct wisp_out *o, const struct stat *from, mode_t part)
{
    o->has_mode = true;
    o->mode = from->st_mode & part;
    o->group = from->st_gid;
}

/* A group that is not the wanted one gets no more rights than everybody. */
static int give_mode(const struct wisp_out *o)
{
    struct stat st;
    mode_t mode = o->mode;
    if (!o->has_mode) return 0;
    if (fstat(o->fd, &st) != 0) return errno;
    if (st.st_gid != o->group && fchown(o->fd, (uid_t)-1, o->group) != 0)
        mode &= ~(mode_t)070 | (mode & 07) << 3;
    return fchmod(o->fd, mode) != 0 ? errno : 0;
}

/* Names of the temporaries that are being written, for a signal that ends the process. */
static struct {
    atomic_bool taken, there;
    char path[PATH_MAX];
} temporaries[16];
enum { N_TEMPORARIES = sizeof temporaries / sizeof *temporaries };

static void note_temporary(const char *path)
{
    for (int i = 0; i < N_TEMPORARIES; i++) {
        if (atomic_exchange(&temporaries[i].taken, true)) continue;
        snprintf(temporaries[i].path, PATH_MAX, "%s", path);
        atomic_store(&temporaries[i].there, true);
        return;
    }
}

static void forget_temporary(const char *path)
{
    for (int i = 0; i < N_TEMPORARIES; i++) {
        if (!atomic_load(&temporaries[i].there) || strcmp(temporaries[i].path, path) != 0) continue;
        atomic_store(&temporaries[i].there, false);
        atomic_store(&temporaries[i].taken, false);
        return;
    }
}

void wisp_abandon(void)
{
    for (int i = 0; i < N_TEMPORARIES; i++)
        if (atomic_load(&temporaries[i].there)) unlink(temporaries[i].path);
}

/* A new temporary, locked, and noted before it is there: a signal may come at any time.  Another
 * one's sweep may come between making and locking it: then it is locked, or gone, and the next
 * number is tried.  Waiting for a lock could be waiting for ever. */
static int open_temp(char *temp, size_t room, const char *target, mode_t mode)
{
    static atomic_int number;
    for (int tries = 0; tries < 1000; tries++) {
        snprintf(temp, room, "%s.tmp%d-%d", target, (int)getpid(), atomic_fetch_add(&number, 1));
        note_temporary(temp);
        int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd < 0) forget_temporary(temp); /* errno stays: no call is made */
        if (fd < 0 && errno == EEXIST) continue;
        if (fd < 0) return fd;
        struct stat st;
        int locked;
        while ((locked = flock(fd, LOCK_EX | LOCK_NB)) != 0 && errno == EINTR) {}
        const bool busy = locked != 0 && errno == EWOULDBLOCK;
        if (!busy && (fstat(fd, &st) != 0 || st.st_nlink > 0)) return fd;
        if (busy) unlink(temp);
        forget_temporary(temp);
        close(fd);
        errno = EEXIST;
    }
    return -1;
}

static wisp_status create(struct wisp_out **out, const char *path, bool own, wisp_error *err)
{
    char target[PATH_MAX];
    struct stat was;
    *out = NULL;
    wisp_status st = follow(target, &was, path, !own, err);
    if (st != WISP_OK) return st;
    struct wisp_out *o = wisp_zalloc(1, sizeof *o);
    size_t room = strlen(target) + 64;
    if (o) {
        o->fd = -1;
        o->path = wisp_strdup(path);
        o->target = wisp_strdup(target);
        o->temp = wisp_zalloc(room, 1);
        o->buf = wisp_alloc(BUFFER, 1);
    }
    if (!o || !o->path || !o->target || !o->temp || !o->buf) {
        wisp_out_abort(o);
        return wisp_fail_mem(err, BUFFER, "a file buffer");
    }
    if (was.st_nlink > 0 && S_ISREG(was.st_mode) && (!own || was.st_uid == geteuid()))
        take_mode(o, &was, 0777);
    sweep(target);
    o->fd = open_temp(o->temp, room, target, o->has_mode || own ? 0600 : 0666);
    if (o->fd < 0) {
        wisp_fail_errno(err, WISP_EIO, o->temp, "cannot be created");
        o->temp[0] = 0; /* not ours to remove */
        wisp_out_abort(o);
        return WISP_EIO;
    }
    *out = o;
    return WISP_OK;
}

wisp_status wisp_out_create(struct wisp_out **out, const char *path, wisp_error *err)
{
    return create(out, path, false, err);
}

wisp_status wisp_out_create_own(struct wisp_out **out, const char *path, wisp_error *err)
{
    return create(out, path, true, err);
}

void wisp_out_like(struct wisp_out *o, const char *source)
{
    struct stat st;
    if (source && stat(source, &st) == 0) take_mode(o, &st, 0666);
}

static void flush(struct wisp_out *o)
{
    for (size_t done = 0; done < o->used && !o->failed;) {
        ssize_t n = write(o->fd, o->buf + done, o->used - done);
        if (n > 0) done += (size_t)n;
        else if (n < 0 && errno != EINTR) o->failed = errno;
    }
    o->used = 0;
}

static wisp_status write_failed(struct wisp_out *o, wisp_error *err)
{
    errno = o->failed;
    return wisp_fail_errno(err, WISP_EIO, o->path, "cannot be written");
}

wisp_status wisp_out_write(struct wisp_out *o, const void *p, size_t bytes, wisp_error *err)
{
    const unsigned char *from = p;
    o->offset += bytes;
    while (bytes > 0 && !o->failed) {
        size_t n = BUFFER - o->used < bytes ? BUFFER - o->used : bytes;
        memcpy(o->buf + o->used, from, n);
        o->used += n;
        from += n;
        bytes -= n;
        if (o->used == BUFFER) flush(o);
    }
    return o->failed ? write_failed(o, err) : WISP_OK;
}

size_t wisp_out_offset(const struct wisp_out *o)
{
    return o->offset;
}

void wisp_out_before(char *out, const char *path)
{
    snprintf(out, WISP_BEFORE_BYTES, "%s.1", path);
}

void wisp_out_keep(struct wisp_out *o)
{
    o->keeps = true;
}

/* The old file gets the name of the one before, the new file its own.  A kill between the two
 * leaves the old one, under the name of the one before. */
static int rename_both(const struct wisp_out *o)
{
    char before[WISP_BEFORE_BYTES];
    struct stat st;
    wisp_out_before(before, o->target);
    const bool has = lstat(o->target, &st) == 0 && S_ISREG(st.st_mode);
    if (o->keeps && has && rename(o->target, before) != 0 && errno != ENOENT) return errno;
    return rename(o->temp, o->target) != 0 ? errno : 0;
}

/* The folder's entry must reach the disk too, or a power cut may lose the rename.  Folders that
 * cannot be opened or synced at all are left to their file system; a disk that says no is an error,
 * though the file is in its place. */
static int sync_folder(const char *path)
{
    char dir[PATH_MAX];
    wisp_folder_of(dir, path);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), failed = 0;
    if (fd < 0) return 0;
    if (fsync(fd) != 0 && (errno == EIO || errno == ENOSPC)) failed = errno;
    close(fd);
    return failed;
}

wisp_status wisp_out_commit(struct wisp_out *o, wisp_error *err)
{
    flush(o);
    if (!o->failed) o->failed = give_mode(o);
    if (!o->failed && fsync(o->fd) != 0) o->failed = errno;
    /* Closed, that is unlocked, only under its real name: a sweep must not take it before. */
    if (!o->failed && !(o->failed = rename_both(o))) {
        forget_temporary(o->temp);
        o->temp[0] = 0; /* nothing left to remove */
        o->failed = sync_folder(o->target);
    }
    wisp_status st = o->failed ? write_failed(o, err) : WISP_OK;
    wisp_out_abort(o);
    return st;
}

void wisp_out_abort(struct wisp_out *o)
{
    if (!o) return;
    if (o->fd >= 0) close(o->fd);
    if (o->temp && o->temp[0]) {
        unlink(o->temp);
        forget_temporary(o->temp);
    }
    wisp_free(o->path);
    wisp_free(o->target);
    wisp_free(o->temp);
    wisp_free(o->buf);
    wisp_free(o);
}

double wisp_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
