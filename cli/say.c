/* Speaking to a person: one message is one line, and nothing in it moves the terminal. */
#include "cli.h"
#include "serve/text.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of the control character at s, n left: below a space, DEL, or U+0080..U+009F, which
 * terminals obey too; 0: it is none. */
static size_t is_control(const unsigned char *s, size_t n)
{
    if (*s < 0x20 || *s == 0x7f) return 1;
    return n > 1 && *s == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0 ? 2 : 0;
}

void put_safe(const char *text, size_t n, FILE *to)
{
    static const char named[] = "\n\r\t", letters[] = "nrt";
    const unsigned char *s = (const unsigned char *)text;
    size_t plain = 0; /* bytes before i that are yet to be written */
    for (size_t i = 0; i < n; i++) {
        size_t bytes = is_control(s + i, n - i);
        if (bytes == 0) {
            plain++;
            continue;
        }
        fwrite(s + i - plain, 1, plain, to);
        plain = 0;
        const char *at = s[i] ? strchr(named, s[i]) : NULL;
        if (at) fprintf(to, "\\%c", letters[at - named]);
        else
            for (size_t k = 0; k < bytes; k++) fprintf(to, "\\x%02x", s[i + k]);
        i += bytes - 1;
    }
    fwrite(s + n - plain, 1, plain, to);
}

void put_json(const char *s, size_t n, FILE *to)
{
    struct text line = { 0 };
    text_json(&line, s, n);
    fwrite(line.at, 1, line.n, to); /* without memory it is cut, as it would be on a full disk */
    text_clear(&line);
}

static void tell_list(const char *fmt, va_list list)
{
    char *line = NULL;
    int n = vasprintf(&line, fmt, list);
    if (n < 0) return; /* no memory, and this was to be said in it */
    put_safe(line, (size_t)n, stderr);
    fputc('\n', stderr);
    free(line);
}

void tell(const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    tell_list(fmt, list);
    va_end(list);
}

int usage_error(const struct command *c, const char *fmt, ...)
{
    va_list list;
    fprintf(stderr, "wisp %s: ", c->name);
    va_start(list, fmt);
    tell_list(fmt, list);
    va_end(list);
    const char *before = "usage: ";
    for (const char *p = c->usage; p; before = "       ") {
        int n = (int)strcspn(p, "\n");
        fprintf(stderr, "%swisp %.*s\n", before, n, p);
        p = p[n] ? p + n + 1 : NULL;
    }
    tell("       wisp %s --help lists the options", c->name);
    return 2;
}

int exit_code(wisp_status st)
{
    switch (st) {
    case WISP_OK:
        return 0;
    case WISP_EINVAL:
    case WISP_ENOTSUP:
        return 2;
    case WISP_EFORMAT:
        return 3;
    case WISP_EMODEL:
        return 4;
    case WISP_EIO:
        return 5;
    case WISP_ENOMEM:
        return 6;
    case WISP_ENUMERIC:
        return 7;
    case WISP_EPEER:
        return 8;
    case WISP_ESTOPPED:
        return 128 + (stop_signal() ? stop_signal() : SIGINT);
    }
    return 1;
}

wisp_status refuse(wisp_error *err, wisp_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    *err = (wisp_error){ .code = code };
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return code;
}

int fail(const wisp_error *err)
{
    tell("wisp: %s", err->text);
    return exit_code(err->code);
}

/* Ranks agree on what went wrong, and the first one says it; but a rank that has lost another has
 * nobody to agree with. */
int fail_of_rank(const wisp_error *err, int rank)
{
    char own[40];
    const int n = snprintf(own, sizeof own, "rank %d (", rank);
    if (rank > 0 && !(err->code == WISP_EPEER && strncmp(err->text, own, (size_t)n) == 0))
        return exit_code(err->code);
    return fail(err);
}

static void say(void *arg, const char *line)
{
    (void)arg;
    tell("%s", line);
}

wisp_status open_context(wisp_context **out, const struct args *a, wisp_error *err)
{
    wisp_status st = wisp_context_create(out, (int)strtod(args_text(a, "threads"), NULL), err);
    if (st == WISP_OK && !args_on(a, "quiet")) wisp_context_on_notice(*out, say, NULL);
    return st;
}

wisp_status join_context(wisp_context **out, const struct args *a, wisp_error *err)
{
    wisp_status st = wisp_context_join(out, (int)strtod(args_text(a, "threads"), NULL), err);
    if (st == WISP_OK && wisp_context_rank(*out) == 0 && !args_on(a, "quiet"))
        wisp_context_on_notice(*out, say, NULL);
    return st;
}

FILE *open_write(const char *path, int append)
{
    const int how = append ? O_APPEND : O_TRUNC;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | how, 0666);
    if (fd < 0) return NULL;
    FILE *f =
        fcntl(fd, F_SETFL, append ? O_APPEND : 0) == 0 ? fdopen(fd, append ? "a" : "w") : NULL;
    if (!f) close(fd);
    return f;
}
