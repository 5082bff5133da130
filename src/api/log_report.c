/* Logs of training runs as one page. */
#include "base/context.h"
#include "base/mem.h"
#include "report/page.h"

wisp_status wisp_log_report(wisp_context *ctx, const char *path, const char *const *logs,
                            size_t n_logs, wisp_error *err)
{
    if (n_logs == 0) return wisp_fail(err, WISP_EINVAL, "a report needs a log");
    struct wisp_logs *all = wisp_zalloc(1, sizeof *all);
    if (!all) return wisp_fail_mem(err, sizeof *all, "the runs of a report");
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < n_logs && st == WISP_OK; i++) st = wisp_logs_read(all, logs[i], err);
    for (size_t i = 0; i < all->n && st == WISP_OK; i++)
        for (size_t k = 0; k < all->run[i].n_notes; k++)
            wisp_say(ctx, "%s: %s", all->run[i].name, all->run[i].note[k]);
    if (st == WISP_OK) st = wisp_report_page(path, all, err);
    wisp_logs_clear(all);
    wisp_free(all);
    return st;
}
