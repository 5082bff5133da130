/* What static libraries of Debian lack when tools/dist links them into a shared object.
 *
 * They are compiled for programs, and so reach stdin, stdout and stderr, variables of glibc, directly, which a shared object must
 * not.  With --wrap=stdin and so on they get variables of ours, set before anything else runs.
 *
 * libmicrohttpd calls GnuTLS, which needs eight further libraries and a new glibc.  In what tools/dist makes there is none:
 * tools/dist writes a function that fails for each that is called, but for those that must not.  A server that is asked for
 * TLS then says that it cannot start. */
#include <stdio.h>

#define HIDDEN __attribute__((visibility("hidden")))

extern FILE *__real_stdin, *__real_stdout, *__real_stderr;
HIDDEN FILE *__wrap_stdin, *__wrap_stdout, *__wrap_stderr;
__attribute__((constructor(101))) static void begin(void)
{
    __wrap_stdin = __real_stdin;
    __wrap_stdout = __real_stdout;
    __wrap_stderr = __real_stderr;
}

HIDDEN void *gnutls_malloc; /* a pointer to a function there */
HIDDEN int gnutls_global_init(void)
{
    return 0;
}
HIDDEN const char *gnutls_strerror(int error)
{
    (void)error;
    return "this wisp was built without GnuTLS";
}
