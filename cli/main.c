/* wisp: the command. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Results that did not reach stdout (a full disk) are a failure, whatever the command thinks. */
static int closed(int rc)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return rc;
    tell("wisp: stdout cannot be written: %s", strerror(errno));
    return rc ? rc : 5;
}

static int run(const struct command *c, int argc, char **argv)
{
    struct args a;
    int rc = args_read(&a, c, argc, argv);
    if (rc) return rc;
    if (a.help) help_command(c, a.help);
    else rc = c->run(&a);
    args_clear(&a);
    return rc;
}

static int version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("wisp %s\n", wisp_version());
    return 0;
}

/* What is no command: words and flags that stand in its place. */
static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} others[] = {
    { "help", help_topic }, { "--help", help_topic }, { "-h", help_topic },
    { "version", version }, { "--version", version }, { "-V", version },
};

/* Where stdin, stdout or stderr is closed, the next file that is opened would get its number, and
 * what is said would land in a cache or a log. */
static void open_standard(void)
{
    for (int fd; (fd = open("/dev/null", O_RDWR)) >= 0;)
        if (fd > 2) {
            close(fd);
            return;
        }
}

int main(int argc, char **argv)
{
    open_standard();
    signal(SIGXFSZ, SIG_IGN); /* a file at its limit is a full disk */
    tidy_on_signals();
    if (argc < 2) {
        help_print();
        return closed(2);
    }
    const struct command *c = command_find(argv[1]);
    if (c) return closed(run(c, argc - 1, argv + 1));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(argv[1], others[i].name) == 0) return closed(others[i].run(argc - 1, argv + 1));
    tell("wisp: no command '%s'%s; 'wisp help' lists them", argv[1], command_hint(argv[1]));
    return 2;
}
