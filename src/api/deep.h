/* Running a deep sparse net in a mode, on a device: what wisp_challenge and wisp_sparse_run share.
 */
#ifndef WISP_API_DEEP_H
#define WISP_API_DEEP_H

#include "base/report.h"
#include "config/options.h"
#include "spdnn/spdnn.h"

struct wisp_deep {
    /* options "mode", "device", "memory" */
    const char *mode;
    bool merged, card;
    struct wisp_sprun run;
    struct wisp_spcard on_card;
    /* found */
    struct wisp_spnet *small; /* of the last net that was analysed, in mode merged */
    struct wisp_merged found;
    double analysis_s;
};

wisp_status wisp_deep_settings(struct wisp_deep *d, const wisp_config *cfg, wisp_error *err);
/* What the mode needs to know of the net; says which rules do not apply. */
wisp_status wisp_deep_analyse(struct wisp_deep *d, struct wisp_spnet *net,
                              const struct wisp_context *ctx, wisp_error *err);
/* run.ends and run.values are the caller's; values are those of the given net, merged or not.
 * repeats: on a card; run.seconds is the fastest. */
wisp_status wisp_deep_run(struct wisp_deep *d, const struct wisp_spnet *net,
                          const struct wisp_spinputs *x, int repeats,
                          const struct wisp_context *ctx, wisp_error *err);
/* How it went: live_layers, rules, merging, kernel. */
void wisp_deep_report(struct wisp_report *r, const struct wisp_deep *d,
                      const struct wisp_spnet *net, size_t n, const struct wisp_context *ctx);
void wisp_deep_clear(struct wisp_deep *d);

#endif
