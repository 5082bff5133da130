/* Files: mapping, and atomic commit (temporary, fsync, rename, fsync of the folder). */
#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

wisp_status wisp_map_open(struct wisp_map *out, const char *path, wisp_error *err)
{
    *out = (struct wisp_map){ 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return wisp_fail_errno(err, WISP_EIO, "%s: cannot be opened", path);
    struct stat st;
    wisp_status status = WISP_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        status = wisp_fail(err, WISP_EIO, "%s: expected a plain file", path);
    } else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) status = wisp_fail_errno(err, WISP_EIO, "%s: cannot be mapped", path);
        else *out = (struct wisp_map){ .p = p, .bytes = (size_t)st.st_size };
    }
    close(fd);
    return status;
}

void wisp_map_close(struct wisp_map *m)
{
    if (m->p) munmap((void *)m->p, m->bytes);
    *m = (struct wisp_map){ 0 };
}

void wisp_map_forget(const void *p, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), from = (size_t)p & ~(page - 1);
    madvise((void *)from, (size_t)p + bytes - from, MADV_DONTNEED);
}

enum { BUFFER = 1 << 20 };

struct wisp_out {
    int fd;
    char *path, *target, *temp; /* as named; what it means, links followed; while it is written */
    bool keeps;                 /* the file that is replaced */
    unsigned char *buf;         /* BUFFER bytes, 'used' of them waiting */
    size_t used, offset;
    int failed; /* errno of the first failure */
};

/* The folder of 'path', with its last '/', or "." */
void wisp_folder_of(char *dir, const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(dir, PATH_MAX, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
}

/* The file that 'path' means: itself, or what a link leads to. */
static wisp_status follow(char target[PATH_MAX], const char *path, wisp_error *err)
{
    struct stat st;
    bool link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    if (snprintf(target, PATH_MAX, "%s", path) >= PATH_MAX)
        return wisp_fail(err, WISP_EIO, "%.100s...: the path is too long", path);
    if (link && !realpath(path, target))
        return wisp_fail_errno(err, WISP_EIO, "%s: a link that leads nowhere", path);
    if (stat(target, &st) == 0 && !S_ISREG(st.st_mode))
        return wisp_fail(err, WISP_EIO, "%s: expected a plain file or a new one", path);
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
            sscanf(e->d_name + n, ".tmp%d-%d%n", &pid, &number, &end) != 2 ||
            e->d_name[n + (size_t)end])
            continue;
        int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0) continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(dirfd(d), e->d_name, 0);
        close(fd);
    }
    closedir(d);
}

void wisp_out_sweep(const char *path)
{
    char target[PATH_MAX];
    if (follow(target, path, NULL) == WISP_OK) sweep(target);
}

/* A new temporary, locked.  Another one's sweep may come between making and locking it: then it is
 * gone, and the next number is tried. */
static int open_temp(char *temp, size_t room, const char *target)
{
    static atomic_int number;
    for (int tries = 0; tries < 1000; tries++) {
        snprintf(temp, room, "%s.tmp%d-%d", target, (int)getpid(), atomic_fetch_add(&number, 1));
        int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST) continue;
        if (fd < 0) return fd;
        while (flock(fd, LOCK_EX) != 0 && errno == EINTR) {}
        struct stat st;
        if (fstat(fd, &st) != 0 || st.st_nlink > 0) return fd;
        close(fd);
        errno = EEXIST;
    }
    return -1;
}

wisp_status wisp_out_create(struct wisp_out **out, const char *path, wisp_error *err)
{
    char target[PATH_MAX];
    *out = NULL;
    wisp_status st = follow(target, path, err);
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
    sweep(target);
    o->fd = open_temp(o->temp, room, target);
    if (o->fd < 0) {
        wisp_fail_errno(err, WISP_EIO, "%s: cannot be created", o->temp);
        o->temp[0] = 0; /* not ours to remove */
        wisp_out_abort(o);
        return WISP_EIO;
    }
    *out = o;
    return WISP_OK;
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
    return wisp_fail_errno(err, WISP_EIO, "%s: cannot be written", o->path);
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

static void name_before(char *out, const char *target)
{
    snprintf(out, WISP_BEFORE_BYTES, "%s.1", target);
}

wisp_status wisp_out_before(char *out, const char *path, wisp_error *err)
{
    char target[PATH_MAX];
    wisp_status st = follow(target, path, err);
    if (st == WISP_OK) name_before(out, target);
    return st;
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
    name_before(before, o->target);
    if (o->keeps && rename(o->target, before) != 0 && errno != ENOENT) return errno;
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
    if (!o->failed && fsync(o->fd) != 0) o->failed = errno;
    /* Closed, that is unlocked, only under its real name: a sweep must not take it before. */
    if (!o->failed && !(o->failed = rename_both(o))) {
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
    if (o->temp && o->temp[0]) unlink(o->temp);
    wisp_free(o->path);
    wisp_free(o->target);
    wisp_free(o->temp);
    wisp_free(o->buf);
    wisp_free(o);
}

wisp_status wisp_file_identify(struct wisp_file_id *out, const char *path, wisp_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0) return wisp_fail_errno(err, WISP_EIO, "%s: cannot be read", path);
    out->bytes = (uint64_t)st.st_size;
    out->mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    return WISP_OK;
}

double wisp_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
