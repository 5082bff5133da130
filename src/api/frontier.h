/* All nets that a pruning tried: what each says and costs, as JSON, as a table, as a picture. */
#ifndef WISP_API_FRONTIER_H
#define WISP_API_FRONTIER_H

#include "base/context.h"

#include <stdbool.h>

struct wisp_rung { /* one of them; the first is the net as it is */
    double lambda; /* the penalty, or the share of weights that went */
    double valid;  /* P@1, percent */
    double params, flops, seconds;
    double us[2]; /* of a row: one per call, WISP_RUNG_BATCH per call */
    bool good;    /* as accurate as asked for */
};
enum { WISP_RUNG_BATCH = 256 };

struct wisp_frontier {
    const struct wisp_rung *rungs; /* (n) */
    int n, best;
    double least;   /* P@1 that is good enough */
    const char *by; /* what 'lambda' is: "penalty" */
};

/* A list in JSON, to be freed; NULL: out of memory. */
char *wisp_frontier_json(const struct wisp_frontier *f);
void wisp_frontier_say(const struct wisp_frontier *f, const struct wisp_context *ctx);
/* P@1 against parameters, operations and measured times, as an SVG file. */
wisp_status wisp_frontier_plot(const struct wisp_frontier *f, const char *path, const char *model,
                               wisp_error *err);

#endif
