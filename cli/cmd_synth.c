/* wisp synth PREFIX --rows N --features N --labels N */
#include "cli.h"

#include <stdio.h>

int cmd_synth(int argc, char **argv)
{
    struct args a;
    wisp_error err = { 0 };
    wisp_context *ctx = NULL;
    int rc = args_read(&a, "synth", argc, argv, 1, 1,
                       "synth PREFIX --rows N --features N --labels N | --shape amazon670k");
    if (rc) return rc;
    wisp_status st = open_context(&ctx, &a, &err);
    if (st == WISP_OK) st = wisp_synth(ctx, a.files[0], a.cfg, &err);
    if (st == WISP_OK)
        fprintf(stderr, "wrote %s_train.txt and %s_test.txt\n", a.files[0], a.files[0]);
    else rc = fail(&err);
    wisp_context_free(ctx);
    args_clear(&a);
    return rc;
}
