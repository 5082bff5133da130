/* wisp bench train --shape SHAPE */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static double get(const wisp_report *r, const char *key)
{
    double v = 0;
    wisp_report_get(r, key, &v);
    return v;
}

static void print_table(const wisp_report *r, const char *shape)
{
    double labels = get(r, "labels"), p1 = get(r, "heldout_p@1");
    printf("shape     %s: %.0f rows, %.0f features, %.0f labels\n", shape, get(r, "rows"),
           get(r, "features"), labels);
    printf("rate      %.0f samples/s, %.0f us a step of %.0f; %.0f threads\n",
           get(r, "samples_per_s"), get(r, "us_per_step"), get(r, "batch"), get(r, "threads"));
    printf("trained   %.2f epochs in %.1f s; the first step took %.3f s\n", get(r, "epochs"),
           get(r, "train_seconds"), get(r, "first_step_seconds"));
    printf("active    %.0f rows a step\n", get(r, "active_mean"));
    printf("scored    %.0f rows a sample, %.2f %% of all\n", get(r, "scored_mean"),
           100 * get(r, "scored_mean") / labels);
    printf("recall    %.4f own, %.4f union\n", get(r, "retrieval_recall"), get(r, "recall_union"));
    if (p1 >= 0) printf("held-out  P@1 %.2f of %.0f rows\n", p1, get(r, "heldout_rows"));
    printf("memory    %.2f GiB peak\n", get(r, "peak_bytes") / (1 << 30));
}

static wisp_status bench(const struct args *a, struct screen *s, wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_report *report = NULL;
    wisp_status st = open_context(&ctx, a, err);
    if (st == WISP_OK) st = wisp_bench_train(&report, ctx, a->cfg, screen_show, s, err);
    if (st == WISP_OK && args_on(a, "json")) printf("%s\n", wisp_report_json(report));
    else if (st == WISP_OK) print_table(report, args_text(a, "shape"));
    wisp_report_free(report);
    wisp_context_free(ctx);
    return st;
}

int cmd_bench(int argc, char **argv)
{
    static const char usage[] =
        "bench train --shape amazon670k|delicious200k|ROWSxFEATURESxLABELS [options]";
    struct args a;
    struct screen s;
    wisp_error err = { 0 };
    int rc = args_read(&a, "bench", argc, argv, 0, 1, usage);
    if (rc) return rc;
    const char *why = a.n_files == 0                     ? "a part is missing, e.g. 'train'"
                      : strcmp(a.files[0], "train") != 0 ? "there is no such part"
                      : !*args_text(&a, "shape")         ? "--shape is missing"
                                                         : NULL;
    if (why) {
        fprintf(stderr,
                "wisp bench%s%s: %s\nusage: wisp %s\n       wisp bench --help lists the options\n",
                a.n_files ? " " : "", a.n_files ? a.files[0] : "", why, usage);
        args_clear(&a);
        return 2;
    }
    rc = screen_open(&s, &a);
    if (rc == 0) rc = screen_close(&s, bench(&a, &s, &err), &err);
    args_clear(&a);
    return rc;
}
