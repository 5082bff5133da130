/* wisp prune DATA -o MODEL */
#include "cli.h"

#include <stdio.h>

static void tell_pruned(const struct args *a, const wisp_report *r)
{
    if (args_on(a, "quiet")) return;
    double weights = 0, ratio = 0, drop = 0, fast = 0, fast_1 = 0, seconds = 0;
    wisp_report_get(r, "weights", &weights);
    wisp_report_get(r, "weights_ratio", &ratio);
    wisp_report_get(r, "accuracy_drop", &drop);
    wisp_report_get(r, "time_ratio", &fast);
    wisp_report_get(r, "time_ratio_1", &fast_1);
    wisp_report_get(r, "seconds", &seconds);
    tell("saved     %s after %.1f s: %.0f parameters, %.1f times fewer; validation P@1 lower by "
         "%.2f; %.1f times as fast with 256 rows per call, %.1f times with one",
         a->out, seconds, weights, ratio, drop, fast, fast_1);
}

int cmd_prune(const struct args *a)
{
    return train_and_tell(a, wisp_prune, tell_pruned);
}
