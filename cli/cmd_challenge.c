/* wisp challenge --neurons N --layers L --mode raw|exact|merged --data DIR [--generate] */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static double get(const wisp_report *r, const char *key)
{
    double v = 0;
    wisp_report_get(r, key, &v);
    return v;
}

/* What its JSON says: match, mismatch or unknown; a quote follows. */
static const char *truth_of(const wisp_report *r)
{
    static const char key[] = "\"truth\":\"";
    const char *at = strstr(wisp_report_json(r), key);
    return at ? at + strlen(key) : "";
}

static void print(const wisp_report *r, const struct args *a)
{
    const char *mode = args_text(a, "mode");
    const double s = get(r, "seconds"), rate = get(r, "edges_per_s");
    char ranks[40] = "";
    if (get(r, "ranks") > 1) snprintf(ranks, sizeof ranks, ", %.0f ranks", get(r, "ranks"));
    printf("network   %.0f neurons x %.0f layers, %.4g edges; %.0f inputs\n", get(r, "neurons"),
           get(r, "layers"), get(r, "edges"), get(r, "inputs"));
    printf("mode      %s on %s%s: %.6f s, %.4g %sedges/s; the fastest of %.0f runs\n", mode,
           args_text(a, "device"), ranks, s, rate, strcmp(mode, "raw") == 0 ? "" : "effective ",
           get(r, "repeats"));
    printf("work      %.2f layers per input", get(r, "live_layers"));
    if (strcmp(mode, "merged") == 0)
        printf(", %.0f neurons and %.4g edges after merging", get(r, "merged_width"),
               get(r, "merged_edges"));
    printf("\nbefore    reading %.3f s, analysis %.3f s, upload %.3f s\n", get(r, "read_seconds"),
           get(r, "analysis_seconds"), get(r, "upload_seconds"));
    const char *truth = truth_of(r);
    printf("answer    %.0f categories, truth: %.*s", get(r, "categories"),
           (int)strcspn(truth, "\""), truth);
    printf("\nmemory    %.0f MiB peak%s\n", get(r, "peak_bytes") / (1 << 20),
           *ranks ? " of a rank" : "");
}

/* Of several processes the first one speaks.  It has done so before any of them ends (freeing the
 * context waits for all): mpirun ends the others as soon as one has failed. */
int cmd_challenge(const struct args *a)
{
    wisp_error err = { 0 };
    wisp_context *ctx = NULL;
    wisp_report *report = NULL;
    int rc = 0;
    wisp_status st = join_context(&ctx, a, &err);
    if (st == WISP_OK) st = wisp_challenge(&report, ctx, a->cfg, a->out, &err);
    if (st != WISP_OK) rc = wisp_context_rank(ctx) == 0 ? fail(&err) : exit_code(st);
    else if (report && args_on(a, "json")) printf("%s\n", wisp_report_json(report));
    else if (report) print(report, a);
    if (report && strncmp(truth_of(report), "mismatch", 8) == 0) {
        tell("wisp: the categories are not the official ones");
        rc = 1;
    }
    fflush(stdout);
    wisp_report_free(report);
    wisp_context_free(ctx);
    return rc;
}
