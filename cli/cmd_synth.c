/* wisp synth PREFIX --rows N --features N --labels N */
#include "cli.h"

#include <stdio.h>

int cmd_synth(const struct args *a)
{
    wisp_error err = { 0 };
    wisp_context *ctx = NULL;
    wisp_status st = open_context(&ctx, a, &err);
    if (st == WISP_OK) st = wisp_synth(ctx, a->files[0], a->cfg, &err);
    if (st == WISP_OK && !args_on(a, "quiet"))
        tell("wrote %s_train.txt and %s_test.txt", a->files[0], a->files[0]);
    wisp_context_free(ctx);
    return st == WISP_OK ? 0 : fail(&err);
}
