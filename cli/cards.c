/* --cards N: the same command line N times over, by mpirun, each with a card (docs/ranks.md). */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SELF = 4096, BEFORE = 6, ADDED = 1 };

/* Those that are started read --cards=1 last, so that none starts others whatever mpirun tells them. */
static char **line_of(const struct args *a, const char *self, const char *cards)
{
    const char *const before[BEFORE] = { "mpirun", "-np", cards, "--bind-to", "none", self };
    char **line = calloc((size_t)(BEFORE + a->argc + ADDED + 1), sizeof *line);
    int n = 0;
    if (!line) return NULL;
    for (int i = 0; i < BEFORE; i++) line[n++] = (char *)before[i];
    for (int i = 0; i < a->ends; i++) line[n++] = a->argv[i];
    line[n++] = "--cards=1";
    for (int i = a->ends; i < a->argc; i++) line[n++] = a->argv[i];
    return line;
}

wisp_status start_ranks(const struct args *a, const wisp_context *ctx, wisp_error *err)
{
    const char *cards = args_text(a, "cards");
    char self[SELF];
    if (strtol(cards, NULL, 10) <= 1) return WISP_OK;
    if (wisp_context_ranks(ctx) > 1)
        return refuse(
            err, WISP_EINVAL,
            "--cards: mpirun or srun has started %d ranks already, each with a card; leave "
            "the option out",
            wisp_context_ranks(ctx));
    if (strcmp(args_text(a, "device"), "cuda") != 0)
        return refuse(err, WISP_EINVAL,
                      "--cards: expected --device cuda beside it; 'mpirun -np %s wisp train ...' "
                      "starts ranks that work on cores",
                      cards);
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) return refuse(err, WISP_EIO, "/proc/self/exe: %s", strerror(errno));
    self[n] = 0;
    char **line = line_of(a, self, cards);
    if (!line) return refuse(err, WISP_ENOMEM, "out of memory: a command line");
    execvp(line[0], line);
    const int why = errno;
    free(line);
    if (why != ENOENT) return refuse(err, WISP_ENOTSUP, "--cards: mpirun: %s", strerror(why));
    return refuse(err, WISP_ENOTSUP,
                  "--cards: there is no mpirun, which starts a process for each card; install it "
                  "(on Debian: apt-get install openmpi-bin libopenmpi-dev, then make again)");
}
