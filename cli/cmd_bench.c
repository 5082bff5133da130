/* wisp bench train --shape SHAPE; wisp bench predict --shape SHAPE, or MODEL DATA;
 * wisp bench activations [IMAGES] --net NET --batch N;
 * wisp bench steps [IMAGES] --net NET --batch N; wisp bench input IMAGES */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double get(const wisp_report *r, const char *key)
{
    double v = 0;
    wisp_report_get(r, key, &v);
    return v;
}

/* Where the time of all threads goes, and the least it could be. */
static void print_phases(const wisp_report *r)
{
    static const char *const phases[] = { "layout", "input",  "query", "gather", "products",
                                          "loss",   "update", "back",  "upkeep", "wait" };
    double rate = get(r, "samples_per_s"), each = rate > 0 ? 1e6 / rate : 0;
    printf("phases   ");
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_us", phases[i]);
        printf(" %s %.1f%s", phases[i], get(r, key),
               i + 1 < sizeof phases / sizeof *phases ? "," : "");
    }
    printf("; us of all threads per sample\n");
    printf("floor     a sample takes %.1f us; its bytes alone %.1f (%.0f KB at %.1f GB/s, a copy), "
           "its "
           "operations %.1f (%.1f MFLOP at %.0f GFLOP/s)\n",
           each, get(r, "floor_bytes_us"), 1e-3 * get(r, "bytes_per_sample"),
           get(r, "copy_gb_per_s"), get(r, "floor_flops_us"), 1e-6 * get(r, "flops_per_sample"),
           get(r, "peak_gflops"));
}

/* What the parts of a step take on a card, each alone; as they are run, some overlap. */
static void print_parts(const wisp_report *r)
{
    static const char *const parts[] = { "begin", "input",   "hash",    "scan",   "find",
                                         "unite", "forward", "combine", "hidden", "rows",
                                         "best",  "learn",   "back",    "step",   "layout" };
    double rate = get(r, "samples_per_s"), each = rate > 0 ? 1e6 / rate : 0;
    printf("parts    ");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char key[32];
        snprintf(key, sizeof key, "gpu_%s_us", parts[i]);
        if (get(r, key) >= 0.05) printf(" %s %.1f", parts[i], get(r, key));
    }
    printf("; us per step, tables %.0f us once\n", get(r, "gpu_tables_us"));
    printf(
        "floor     a sample takes %.3f us; its bytes alone %.3f (%.0f KB at %.0f GB/s, a copy)\n",
        each, get(r, "floor_bytes_us"), 1e-3 * get(r, "bytes_per_sample"), get(r, "copy_gb_per_s"));
}

static void print_train(const wisp_report *r, const char *shape)
{
    double labels = get(r, "labels"), p1 = get(r, "heldout_p@1");
    printf("shape     %s: %.0f rows, %.0f features, %.0f labels\n", shape, get(r, "rows"),
           get(r, "features"), labels);
    printf("rate      %.0f samples/s, %.0f us per step of %.0f; %.0f threads\n",
           get(r, "samples_per_s"), get(r, "us_per_step"), get(r, "batch"), get(r, "threads"));
    printf("trained   %.2f epochs in %.1f s; the first step took %.3f s\n", get(r, "epochs"),
           get(r, "train_seconds"), get(r, "first_step_seconds"));
    printf("active    %.0f rows per step\n", get(r, "active_mean"));
    printf("scored    %.0f rows per sample, %.2f %% of all\n", get(r, "scored_mean"),
           100 * get(r, "scored_mean") / labels);
    printf("recall    %.4f own, %.4f union\n", get(r, "retrieval_recall"), get(r, "recall_union"));
    if (get(r, "gpu_step_us") > 0) print_parts(r);
    else print_phases(r);
    if (p1 >= 0) printf("held-out  P@1 %.2f of %.0f rows\n", p1, get(r, "heldout_rows"));
    printf("memory    %.0f MiB peak\n", get(r, "peak_bytes") / (1 << 20));
}

static void print_predict(const wisp_report *r, const struct args *a)
{
    double labels = get(r, "labels"), rows = get(r, "rows"), train_s = get(r, "train_seconds");
    double gflops = get(r, "batch_gflops"), peak = get(r, "peak_gflops");
    double gb = get(r, "batch_gb_per_s"), copy = get(r, "copy_gb_per_s");
    const bool cuda = strcmp(args_text(a, "device"), "cuda") == 0;
    if (a->n_files > 1) printf("model     %s", a->files[1]);
    else printf("shape     %s", args_text(a, "shape"));
    double width;
    printf(": %.0f labels", labels);
    if (wisp_report_get(r, "hidden", &width)) printf(", width %.0f", width);
    printf("; %.0f rows predicted\n", rows);
    if (a->n_files == 1) printf("trained   in %.1f s\n", train_s);
    double ratio, indexed = wisp_report_get(r, "ratio", &ratio);
    if (indexed)
        printf(
            "sparse    %.0f us per row (median), %.0f us (p90), %.0f us (p99); one row per call, "
            "one thread\n",
            get(r, "sparse_us_median"), get(r, "sparse_us_p90"), get(r, "sparse_us_p99"));
    else if (!cuda) printf("sparse    no index: the model scores all labels\n");
    else printf("device    a card, which scores all labels\n");
    printf(
        "exact     %.0f us per row (median), %.0f us (p90), %.0f us (p99); one row per call, one "
        "thread\n",
        get(r, "exact_us_median"), get(r, "exact_us_p90"), get(r, "exact_us_p99"));
    if (indexed)
        printf("quality   P@1 %.2f sparse, %.2f exact, ratio %.3f\n", get(r, "sparse_p@1"),
               get(r, "exact_p@1"), ratio);
    else printf("quality   P@1 %.2f\n", get(r, "exact_p@1"));
    if (indexed)
        printf("scored    %.0f rows per sample, %.2f %% of all\n", get(r, "scored_mean"),
               100 * get(r, "scored_mean") / labels);
    printf("batches   %.*f rows/s, exact, %.0f rows per batch, %.0f threads\n",
           rate_digits(get(r, "batch_rows_per_s")), get(r, "batch_rows_per_s"),
           get(r, "batch_rows"), get(r, "threads"));
    if (peak == 0)
        return; /* limits are for nets on the processor, if there was memory to measure */
    printf("compute   %.1f GFLOP/s, %.0f %% of %.1f (a product in the caches)\n", gflops,
           100 * gflops / peak, peak);
    printf("memory    %.2f GB/s of weights, %.0f %% of %.2f (a copy, read and written)\n", gb,
           100 * gb / copy, copy);
}

/* Which kinds of layers a step's time goes to; those that take nothing are left out. */
static void print_kinds(const wisp_report *r)
{
    const char *name, *what;
    printf("layers   ");
    for (size_t i = 0; wisp_table_row("layers", i, &name, &what); i++) {
        char key[2][40];
        snprintf(key[0], sizeof key[0], "%s_forward_ms", name);
        snprintf(key[1], sizeof key[1], "%s_back_ms", name);
        double forward = get(r, key[0]), back = get(r, key[1]);
        if (forward + back >= 5e-4) printf(" %s %.3f + %.3f,", name, forward, back);
    }
    printf(" images %.3f; ms per step, forward + back\n", get(r, "layout_ms"));
}

static void print_steps(const wisp_report *r, const struct args *a)
{
    const double mib = 1.0 / (1 << 20);
    double layout;
    printf("net       %s: %.2f million parameters, %.1f MFLOP per image\n", args_text(a, "net"),
           1e-6 * get(r, "parameters"), 1e-6 * get(r, "flops_per_image"));
    printf("step      %.3f ms (median of %.0f), %.3f the fastest; batch %.0f, %.0f thread%s\n",
           get(r, "ms_median"), get(r, "steps"), get(r, "ms_min"), get(r, "batch"),
           get(r, "threads"), get(r, "threads") == 1 ? "" : "s");
    printf("rate      %.1f images/s, %.1f GFLOP/s\n", get(r, "images_per_s"), get(r, "gflops"));
    if (wisp_report_get(r, "layout_ms", &layout)) print_kinds(r);
    printf(
        "memory    %.1f MiB planned (%.1f of a step, of which %.1f at once); the process grew by "
        "%.1f MiB\n",
        mib * get(r, "plan_bytes"), mib * get(r, "step_bytes"), mib * get(r, "bound_bytes"),
        mib * get(r, "grown_bytes"));
    if (get(r, "gpu_bytes") > 0)
        printf(
            "card      %.1f MiB planned (%.1f of a step, of which %.1f at once), %.1f taken; %.1f "
            "of both are the images\n",
            mib * get(r, "gpu_plan_bytes"), mib * get(r, "gpu_work_bytes"),
            mib * get(r, "gpu_bound_bytes"), mib * get(r, "gpu_bytes"),
            mib * get(r, "gpu_image_bytes"));
}

/* The number behind "key": in a JSON object that ends at 'end'; where it is a list, number i of it. */
static double inside(const char *object, const char *end, const char *key, int i)
{
    char quoted[60];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(object, quoted);
    if (!at || at > end) return -1;
    at += strlen(quoted);
    if (*at == '[') at++;
    for (; i > 0 && at < end; i--) at += strcspn(at, ",]") + 1;
    return strtod(at, NULL);
}

static void print_share(double share)
{
    if (share < 0) printf("      -");
    else printf(" %6.1f", 100 * share);
}

/* A line per layer: shares in percent, milliseconds. */
static void print_activations(const wisp_report *r, const struct args *a)
{
    printf("net       %s: %.0f steps, %.0f of them looked at; %.3f ms (median), batch %.0f, %.0f "
           "thread%s\n",
           args_text(a, "net"), get(r, "steps"), get(r, "looked"), get(r, "ms_median"),
           get(r, "batch"), get(r, "threads"), get(r, "threads") == 1 ? "" : "s");
    const char *at = strstr(wisp_report_json(r), "\"layers\":[");
    if (!at) {
        const char *zeros = strstr(wisp_report_json(r), "\"zeros\":{");
        printf("zeros     %.*s\n", zeros ? (int)strcspn(zeros + 8, "}") + 1 : 0,
               zeros ? zeros + 8 : "");
        return;
    }
    printf(
        "%% of zeros, and of slices of 16 channels x pixels that are not all zeros; ms per step\n");
    printf("%-20s %-13s %6s %6s %6s %6s   %6s %6s %6s %6s   %8s %8s %8s\n", "layer", "kind",
           "zeros", "1x1", "4x4", "8x8", "grad", "1x1", "4x4", "8x8", "forward", "data", "weights");
    while ((at = strstr(at, "{\"name\":\""))) {
        const char *name = at + 9, *kind = strstr(name, "\"kind\":\"") + 8,
                   *end = at + strcspn(at, "}");
        printf("%-20.*s %-13.*s", (int)strcspn(name, "\""), name, (int)strcspn(kind, "\""), kind);
        print_share(inside(at, end, "zeros", 0));
        for (int i = 0; i < 3; i++) print_share(inside(at, end, "live", i));
        printf("  ");
        print_share(inside(at, end, "gradient_zeros", 0));
        for (int i = 0; i < 3; i++) print_share(inside(at, end, "gradient_live", i));
        printf("   %8.3f %8.3f %8.3f\n", inside(at, end, "forward_ms", 0),
               inside(at, end, "data_ms", 0), inside(at, end, "weights_ms", 0));
        at = end;
    }
}

static void print_input(const wisp_report *r, const struct args *a)
{
    printf("images    %s: %.0f, %.0f labels; %.0f thread%s\n", a->files[1], get(r, "images"),
           get(r, "labels"), get(r, "threads"), get(r, "threads") == 1 ? "" : "s");
    printf("read      %.0f images/s the first time, %.0f the fastest of %.0f\n",
           get(r, "first_read_images_per_s"), get(r, "read_images_per_s"), get(r, "reads"));
    printf("laid out  %.0f images/s, batches of %.0f\n", get(r, "laid_images_per_s"),
           get(r, "batch"));
    printf("memory    %.2f GiB peak\n", get(r, "peak_bytes") / (1 << 30));
}

enum { TRAIN, PREDICT, STEPS, ACTIVATIONS, INPUT, N_PARTS };
static const char *const parts[N_PARTS] = { "train", "predict", "steps", "activations", "input" };

static int part_of(const struct args *a)
{
    int part = 0;
    while (part < N_PARTS && strcmp(a->files[0], parts[part]) != 0) part++;
    return part;
}

static wisp_status bench(const struct args *a, struct screen *s, wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_report *report = NULL;
    const int part = part_of(a);
    const char *model = a->n_files > 1 ? a->files[1] : NULL, *data = model ? a->files[2] : NULL;
    wisp_status st = open_context(&ctx, a, err);
    if (st == WISP_OK && part == TRAIN)
        st = wisp_bench_train(&report, ctx, a->cfg, screen_show, s, err);
    else if (st == WISP_OK && part == STEPS)
        st = wisp_bench_steps(&report, ctx, a->cfg, model, screen_show, s, err);
    else if (st == WISP_OK && part == ACTIVATIONS)
        st = wisp_bench_activations(&report, ctx, a->cfg, model, screen_show, s, err);
    else if (st == WISP_OK && part == INPUT)
        st = wisp_bench_input(&report, ctx, a->cfg, a->files[1], err);
    else if (st == WISP_OK)
        st = wisp_bench_predict(&report, ctx, a->cfg, model, data, screen_show, s, err);
    if (st == WISP_OK && args_on(a, "json")) printf("%s\n", wisp_report_json(report));
    else if (st == WISP_OK && part == TRAIN) print_train(report, args_text(a, "shape"));
    else if (st == WISP_OK && part == STEPS) print_steps(report, a);
    else if (st == WISP_OK && part == ACTIVATIONS) print_activations(report, a);
    else if (st == WISP_OK && part == INPUT) print_input(report, a);
    else if (st == WISP_OK) print_predict(report, a);
    wisp_report_free(report);
    wisp_context_free(ctx);
    return st;
}

/* Says what is wrong with the parts of a command line, and gives the exit code; 0: nothing. */
static int wrong(const struct args *a)
{
    if (a->n_files == 0) return usage_error(a->command, "a part is missing, e.g. 'train'");
    const char *part = a->files[0];
    int train = part_of(a) == TRAIN, shape = *args_text(a, "shape") != 0;
    if (part_of(a) == N_PARTS) {
        int like = wisp_nearest(part, parts, N_PARTS);
        return usage_error(a->command, "there is no such part: '%s'%s%s%s", part,
                           like < 0 ? "" : "; did you mean '", like < 0 ? "" : parts[like],
                           like < 0 ? "" : "'?");
    }
    const int images = part_of(a) == INPUT,
              steps = part_of(a) == STEPS || part_of(a) == ACTIVATIONS;
    if (images && a->n_files == 1)
        return usage_error(a->command, "%s: a file or folder of images is missing", part);
    if ((images || steps) && a->n_files > 2)
        return usage_error(a->command, "%s: one file too many: '%s'", part, a->files[2]);
    if (steps && a->n_files == 2 && shape)
        return usage_error(a->command,
                           "%s: --shape is for images that are not there, '%s' has its own", part,
                           a->files[1]);
    if (images || steps) return 0;
    if (a->n_files == 1 && !shape)
        return usage_error(a->command, "%s: %s", part,
                           train ? "--shape is missing"
                                 : "--shape, or a model and data, are missing");
    if (a->n_files > 1 && (train || shape))
        return usage_error(a->command, "%s: one file too many: '%s'", part, a->files[1]);
    return a->n_files == 2 ? usage_error(a->command, "%s: the data to predict is missing", part)
                           : 0;
}

int cmd_bench(const struct args *a)
{
    struct screen s;
    wisp_error err = { 0 };
    int rc = wrong(a);
    if (rc == 0) rc = screen_open(&s, a);
    return rc ? rc : screen_close(&s, bench(a, &s, &err), &err);
}
