/* Lets what tools/dist links on a new Debian run with an older glibc.
 *
 * The linker binds every call to the newest version of a function that its own glibc has, although older versions are still
 * there and do the same: pthread_create only moved from libpthread to libc in 2.34, stat became a function of its own in
 * 2.33, and exp, log and pow stopped calling a user's matherr in 2.29.  tools/dist links with --wrap for each name below, so
 * that calls, also those of the static libraries inside, come here and go on to the old version.  What is left needs glibc
 * 2.28, whose exp and its family already give the same bits as today's; before that they were other algorithms.
 *
 * libpthread.so.0 and libdl.so.2 must be among the needed libraries (they are stubs today).  tools/dist wraps every name that
 * has a __wrap_ function in this object, which is no part of the library. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#if defined(__x86_64__)
#define BASE     "GLIBC_2.2.5"
#define SETNAME  "GLIBC_2.12"
#define SETCLOCK "GLIBC_2.3.3"
enum { STAT_VERSION = 1 };
#elif defined(__aarch64__)
#define BASE     "GLIBC_2.17"
#define SETNAME  BASE
#define SETCLOCK BASE
enum { STAT_VERSION = 0 };
#else
#error "which version of glibc was this processor's first?"
#endif

/* __wrap_NAME calls NAME as the first glibc of this processor had it. */
#define OLD_OF(version, type, name, parameters, arguments)                                         \
    type wisp_old_##name parameters;                                                               \
    __asm__(".symver wisp_old_" #name ", " #name "@" version);                                     \
    __attribute__((visibility("hidden"))) type __wrap_##name parameters;                           \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return wisp_old_##name arguments;                                                          \
    }

#define OLD(type, name, parameters, arguments) OLD_OF(BASE, type, name, parameters, arguments)

OLD(double, exp, (double x), (x))
OLD(double, log, (double x), (x))
OLD(double, log2, (double x), (x))
OLD(double, pow, (double x, double y), (x, y))
OLD(char *, dlerror, (void), ())
OLD(void *, dlopen, (const char *file, int how), (file, how))
OLD(void *, dlsym, (void *library, const char *name), (library, name))
OLD(int, dlclose, (void *library), (library))
OLD(int, pthread_create, (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *x),
    (t, a, f, x))
OLD(int, pthread_join, (pthread_t t, void **x), (t, x))
OLD(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *before), (how, set, before))
OLD(int, pthread_attr_setstacksize, (pthread_attr_t * a, size_t bytes), (a, bytes))
OLD_OF(SETCLOCK, int, pthread_condattr_setclock, (pthread_condattr_t * a, clockid_t clock),
       (a, clock))
OLD_OF(SETNAME, int, pthread_setname_np, (pthread_t t, const char *name), (t, name))

/* stat and its family were macros around functions that are told which struct the caller has. */
#define OLD_STAT(name, old, first)                                                                 \
    int wisp_##old(int version, first, struct stat *s);                                            \
    __asm__(".symver wisp_" #old ", " #old "@" BASE);                                              \
    __attribute__((visibility("hidden"))) int __wrap_##name(first, struct stat *s);                \
    int __wrap_##name(first, struct stat *s)                                                       \
    {                                                                                              \
        return wisp_##old(STAT_VERSION, x, s);                                                     \
    }

OLD_STAT(stat, __xstat, const char *x)
OLD_STAT(lstat, __lxstat, const char *x)
OLD_STAT(fstat, __fxstat, int x)

/* A program is started by what glibc's crt1.o calls.  Until 2.34 that also passed a function which runs the program's own
 * constructors; today it passes NULL and glibc finds them itself.  Ours is passed, which old and new ones call.  A shared
 * library never comes here: the two names, which only the linker of a program makes, are weak. */
typedef void start(int, char **, char **);
extern start *__init_array_start[] __attribute__((weak, visibility("hidden")));
extern start *__init_array_end[] __attribute__((weak, visibility("hidden")));
static void construct(int argc, char **argv, char **env)
{
    for (start **f = __init_array_start; f < __init_array_end; f++) (*f)(argc, argv, env);
}

#define START                                                                                      \
    (int (*main)(int, char **, char **), int argc, char **argv, start *init, void (*fini)(void),   \
     void (*end)(void), void *stack)
int wisp_old_start START;
__asm__(".symver wisp_old_start, __libc_start_main@" BASE);
__attribute__((visibility("hidden"))) int __wrap___libc_start_main START;
int __wrap___libc_start_main START
{
    return wisp_old_start(main, argc, argv, init ? init : construct, fini, end, stack);
}
