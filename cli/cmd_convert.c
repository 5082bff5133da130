/* wisp convert IN OUT: any readable format to the one that OUT's ending names. */
#include "cli.h"

#include <stdio.h>

static wisp_status convert(const struct args *a, wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_data *d = NULL;
    wisp_status st = open_context(&ctx, a, err);
    if (st == WISP_OK) st = wisp_data_open(&d, ctx, a->files[0], a->cfg, NULL, err);
    if (st == WISP_OK) st = wisp_data_write(d, ctx, a->files[1], NULL, err);
    if (st == WISP_OK) {
        wisp_data_stats s;
        wisp_data_stats_get(d, &s);
        fprintf(stderr, "%s: %zu rows, %zu features, %zu labels, %zu values\n", a->files[1],
                s.n_rows, s.n_features, s.n_labels, s.n_values);
    }
    wisp_data_free(d);
    wisp_context_free(ctx);
    return st;
}

int cmd_convert(int argc, char **argv)
{
    struct args a;
    wisp_error err = { 0 };
    int rc = args_read(&a, "convert", argc, argv, 2, 2, "convert IN OUT [options]");
    if (rc) return rc;
    rc = convert(&a, &err) == WISP_OK ? 0 : fail(&err);
    args_clear(&a);
    return rc;
}
