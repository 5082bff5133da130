/* wisp tune DATA -o MODEL */
#include "cli.h"

#include <stdio.h>
#include <string.h>

/* The list of what was tried, as it is. */
static void print_list(const struct args *a)
{
    char path[4200], line[4096];
    const char *given = args_text(a, "tried");
    snprintf(path, sizeof path, *given ? "%s" : "%s.tried", *given ? given : a->out);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) fputs(line, stdout);
    if (f) fclose(f);
}

static void tell_tuned(const struct args *a, const wisp_report *r)
{
    double best = -1, seconds = 0;
    wisp_report_get(r, "valid_p@1", &best);
    wisp_report_get(r, "seconds", &seconds);
    print_list(a);
    if (!args_on(a, "quiet"))
        tell("saved     %s, validation P@1 %.2f, after %.1f s", a->out, best, seconds);
}

int cmd_tune(const struct args *a)
{
    return train_and_tell(a, wisp_tune, tell_tuned);
}
