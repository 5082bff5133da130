/* wisp graph info FILE; wisp graph run FILE DATA
 *
 * The values of a row's outputs, in the order of the file:
 *
 *           name:value name:value        a line per row
 *   --tsv   row name value               a line per output, with tabs
 *   --json  {"outputs":{"name":value}}   an object per row */
#include "cli.h"

#include <stdbool.h>
#include <string.h>

static double get(const wisp_report *r, const char *key)
{
    double v = 0;
    wisp_report_get(r, key, &v);
    return v;
}

static const char *s_of(double n)
{
    return n == 1 ? "" : "s";
}

static void print_info(const wisp_report *r, const struct args *a)
{
    const char *functions = strstr(wisp_report_json(r), "\"functions\":{");
    const double nodes = get(r, "nodes"), inputs = get(r, "inputs"), outputs = get(r, "outputs");
    printf("graph     %s: %.0f node%s, of which %.0f input%s and %.0f output%s; %.0f edge%s\n",
           a->files[1], nodes, s_of(nodes), inputs, s_of(inputs), outputs, s_of(outputs),
           get(r, "edges"), s_of(get(r, "edges")));
    printf("levels    %.0f, of %.0f to %.0f nodes; the longest path has %.0f edge%s\n",
           get(r, "levels"), get(r, "thinnest"), get(r, "widest"), get(r, "longest_path"),
           s_of(get(r, "longest_path")));
    printf("functions");
    for (const char *p = functions + 12; functions && *p && *p != '}';) {
        const char *name = p + 2, *end = strchr(name, '"');
        const size_t digits = strspn(end + 2, "0123456789");
        printf("%s %.*s %.*s", *p == ',' ? "," : "", (int)(end - name), name, (int)digits, end + 2);
        p = end + 2 + digits;
    }
    printf("\n");
    if (get(r, "idle") > 0)
        printf("idle      %.0f node%s that no output depends on\n", get(r, "idle"),
               s_of(get(r, "idle")));
}

static void print_row(void *arg, size_t row, const char *const *names, const float *values,
                      size_t n)
{
    const struct args *a = arg;
    const bool json = args_on(a, "json"), tsv = args_on(a, "tsv");
    if (json) fputs("{\"outputs\":{", stdout);
    for (size_t o = 0; o < n; o++) {
        if (json) {
            if (o) putchar(',');
            put_json(names[o], strlen(names[o]), stdout);
            printf(":%.9g", (double)values[o]);
            continue;
        }
        if (tsv) printf("%zu\t", row + 1);
        else if (o) putchar(' ');
        put_safe(names[o], strlen(names[o]), stdout);
        printf(tsv ? "\t%.9g\n" : ":%.6g", (double)values[o]);
    }
    if (json) puts("}}");
    else if (!tsv) putchar('\n');
}

static wisp_status graph(const struct args *a, bool run, wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_data *rows = NULL;
    wisp_report *report = NULL;
    wisp_status st = open_context(&ctx, a, err);
    if (run && st == WISP_OK && strcmp(args_text(a, "blank-lines"), "auto") == 0)
        st = wisp_config_set(a->cfg, "blank-lines", "rows", err); /* each has its values */
    if (run && st == WISP_OK) st = wisp_data_open(&rows, ctx, a->files[2], a->cfg, NULL, err);
    if (run && st == WISP_OK)
        st = wisp_graph_run(&report, ctx, a->files[1], rows, a->cfg, print_row, (void *)a, err);
    if (!run && st == WISP_OK) st = wisp_graph_info(&report, a->files[1], a->cfg, err);
    if (!run && st == WISP_OK && args_on(a, "json")) printf("%s\n", wisp_report_json(report));
    else if (!run && st == WISP_OK) print_info(report, a);
    wisp_report_free(report);
    wisp_data_free(rows);
    wisp_context_free(ctx);
    return st;
}

int cmd_graph(const struct args *a)
{
    wisp_error err = { 0 };
    const char *part = a->n_files ? a->files[0] : "";
    const bool run = strcmp(part, "run") == 0, info = strcmp(part, "info") == 0;
    const int files = run ? 3 : 2;
    if (!run && !info)
        return usage_error(a->command, "expected 'info' or 'run' first%s%s%s",
                           *part ? ", found '" : "", part, *part ? "'" : "");
    if (a->n_files < files)
        return usage_error(a->command, "%s: %s is missing", part,
                           a->n_files == 1 ? "the file of a graph" : "the data");
    if (a->n_files > files)
        return usage_error(a->command, "%s: one file too many: '%s'", part, a->files[files]);
    if (args_on(a, "json") && args_on(a, "tsv"))
        return usage_error(a->command, "--json and --tsv: expected one of them");
    if (info && args_on(a, "tsv"))
        return usage_error(a->command, "info: --tsv is for the values of 'run'");
    heed_signals();
    return graph(a, run, &err) == WISP_OK ? 0 : fail(&err);
}
