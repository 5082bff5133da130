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

static wisp_status tune(const struct args *a, struct screen *s, wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_data *data = NULL, *valid = NULL;
    wisp_report *report = NULL;
    const char *valid_path = args_text(a, "valid");
    wisp_status st = open_context(&ctx, a, err);
    if (st == WISP_OK) st = wisp_data_open(&data, ctx, a->files[0], a->cfg, NULL, err);
    if (st == WISP_OK && *valid_path)
        st = wisp_data_open_like(&valid, ctx, valid_path, a->cfg, data, err);
    if (st == WISP_OK)
        st = wisp_tune(&report, ctx, a->cfg, data, valid, a->out, screen_train, s, err);
    if (st == WISP_OK) {
        double best = -1, seconds = 0;
        wisp_report_get(report, "valid_p@1", &best);
        wisp_report_get(report, "seconds", &seconds);
        print_list(a);
        if (!s->quiet)
            tell("saved     %s, validation P@1 %.2f, after %.1f s", a->out, best, seconds);
        if (args_on(a, "json")) printf("%s\n", wisp_report_json(report));
    }
    wisp_report_free(report);
    wisp_data_free(valid);
    wisp_data_free(data);
    wisp_context_free(ctx);
    return st;
}

int cmd_tune(const struct args *a)
{
    struct screen s;
    wisp_error err = { 0 };
    if (!a->out) return usage_error(a->command, "-o MODEL is missing");
    heed_signals();
    int rc = screen_open(&s, a);
    return rc ? rc : screen_close(&s, tune(a, &s, &err), &err);
}
