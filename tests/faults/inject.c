/* A shim that makes calls of the C library fail, for tests: LD_PRELOAD=inject.so, and in the
 * environment
 *
 *     INJECT="KIND N MODE HOW"
 *       KIND   open, write, fsync, rename, close, mmap, flock, ftruncate, thread (pthread_create),
 *              malloc (and calloc, realloc, aligned_alloc, posix_memalign)
 *       N      the first call of that kind that fails, from 1
 *       MODE   once, or good: this one, or all from it on; late: once, and each before it takes 0.4 s
 *       HOW    EIO, ENOSPC, EINTR, ENOMEM, EAGAIN, ENOLCK, EACCES; short (a write takes half of its
 *              bytes); kill (the process kills itself, as by kill -9)
 *     INJECT_HIT=FILE   is made when a call fails: where it is missing, N was beyond the last call
 *
 * Calls count from the start of main, in all threads.  What the C library does inside (stdio's
 * writing, a thread's stack) is not seen.  Built without malloc (-DNO_MALLOC) it goes with a
 * sanitizer, which has its own. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool on, good, late, is_short, kill;
    char kind[16];
    long n;
    int error;
} plan;
static atomic_long seen;

__attribute__((constructor)) static void read_plan(void)
{
    static const struct {
        const char *name;
        int error;
    } errors[] = { { "EIO", EIO },       { "ENOSPC", ENOSPC }, { "EINTR", EINTR },
                   { "ENOMEM", ENOMEM }, { "EAGAIN", EAGAIN }, { "ENOLCK", ENOLCK },
                   { "EACCES", EACCES }, { "short", -1 },      { "kill", -2 } };
    const char *text = getenv("INJECT");
    char mode[8], how[16];
    if (!text) return;
    if (sscanf(text, "%15s %ld %7s %15s", plan.kind, &plan.n, mode, how) != 4) abort();
    plan.good = strcmp(mode, "good") == 0;
    plan.late = strcmp(mode, "late") == 0;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(how, errors[i].name) == 0) plan.error = errors[i].error;
    if (plan.error == 0 || (!plan.good && !plan.late && strcmp(mode, "once") != 0)) abort();
    plan.is_short = plan.error == -1;
    plan.kill = plan.error == -2;
    plan.on = true;
}

static void *real(const char *name)
{
    void *p = dlsym(RTLD_NEXT, name);
    if (!p) abort();
    return p;
}
/* real_NAME(): the C library's own function, looked up once. */
#define REAL(name)                                                                                 \
    static __typeof__(&name) real_##name(void)                                                     \
    {                                                                                              \
        static __typeof__(&name) p;                                                                \
        if (!p) p = (__typeof__(&name))real(#name);                                                \
        return p;                                                                                  \
    }
REAL(open)
REAL(close)
REAL(write)
REAL(fsync)
REAL(rename)
REAL(flock)
REAL(ftruncate)
REAL(mmap)
REAL(pthread_create)

/* Is it this call's turn to fail?  Then errno is set, or the process is gone. */
static bool fails(const char *kind)
{
    if (!plan.on || strcmp(kind, plan.kind) != 0) return false;
    long n = atomic_fetch_add(&seen, 1) + 1;
    if (plan.late && n < plan.n) nanosleep(&(struct timespec){ .tv_nsec = 400000000 }, NULL);
    if (plan.good ? n < plan.n : n != plan.n) return false;
    const char *hit = getenv("INJECT_HIT");
    if (hit) {
        int fd = real_open()(hit, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd >= 0) real_close()(fd);
    }
    if (plan.kill) kill(getpid(), SIGKILL);
    errno = plan.error;
    return true;
}

/* ---- files ---- */

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? (mode_t)va_arg(ap, int) : 0;
    va_end(ap);
    return fails("open") ? -1 : real_open()(path, flags, mode);
}

int close(int fd)
{
    int rc = real_close()(fd); /* closed in any case, as Linux does it */
    return fails("close") ? -1 : rc;
}

ssize_t write(int fd, const void *p, size_t n)
{
    if (fails("write")) {
        if (!plan.is_short) return -1;
        n = (n + 1) / 2;
    }
    return real_write()(fd, p, n);
}

int fsync(int fd)
{
    return fails("fsync") ? -1 : real_fsync()(fd);
}

int rename(const char *from, const char *to)
{
    return fails("rename") ? -1 : real_rename()(from, to);
}

int flock(int fd, int what)
{
    return fails("flock") ? -1 : real_flock()(fd, what);
}

int ftruncate(int fd, off_t n)
{
    return fails("ftruncate") ? -1 : real_ftruncate()(fd, n);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    return fails("mmap") ? MAP_FAILED : real_mmap()(at, n, prot, flags, fd, offset);
}

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
    return fails("thread") ? plan.error : real_pthread_create()(t, a, fn, arg);
}

/* ---- memory: glibc's own functions, since looking them up may itself allocate ---- */

#ifndef NO_MALLOC
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
    return fails("malloc") ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails("malloc") ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return fails("malloc") ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    return fails("malloc") ? NULL : __libc_memalign(align, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    if (fails("malloc")) return ENOMEM;
    *out = __libc_memalign(align, n);
    return *out ? 0 : ENOMEM;
}
#endif
