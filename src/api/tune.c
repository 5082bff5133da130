/* wisp_tune: training by --net auto with more effort, and the list of what was tried. */
#include "config/options.h"
#include "wisp/wisp.h"

#include <limits.h>
#include <stdio.h>

wisp_status wisp_tune(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                      const wisp_data *train, const wisp_data *valid, const char *path,
                      wisp_on_progress on_progress, void *arg, wisp_error *err)
{
    wisp_config *own = NULL;
    char list[PATH_MAX];
    *out = NULL;
    snprintf(list, sizeof list, "%s.tried", path);
    wisp_status st = wisp_config_create(&own, err);
    if (st == WISP_OK) st = wisp_config_take(own, cfg, NULL, 0, err);
    if (st == WISP_OK) st = wisp_config_set(own, "net", "auto", err);
    if (st == WISP_OK && !wisp_opt_given(cfg, OPT_EFFORT))
        st = wisp_config_set(own, "effort", "high", err);
    if (st == WISP_OK && !wisp_opt_given(cfg, OPT_TRIED))
        st = wisp_config_set(own, "tried", list, err);
    if (st == WISP_OK) st = wisp_train(out, ctx, own, train, valid, path, on_progress, arg, err);
    wisp_config_free(own);
    return st;
}
