/* wisp inspect MODEL */
#include "cli.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* One name per line, line i names id i. */
typedef const char *(*name_fn)(const wisp_model *m, int32_t id, size_t *bytes);
static int print_names(const struct args *a, const wisp_model *m, name_fn name, const char *what)
{
    size_t bytes = 0;
    if (!name(m, 0, &bytes)) {
        tell("wisp: %s: the model has no names of %s, only ids", a->files[0], what);
        return 2;
    }
    const char *s;
    for (int32_t id = 0; (s = name(m, id, &bytes)); id++) {
        put_safe(s, bytes, stdout);
        putchar('\n');
    }
    return 0;
}

/* ---- the description, for a person: JSON that the library made, so it is well formed ---- */

enum { SOME = 12 }; /* entries of a list; all: 0 */
static const char *print_value(const char *p, int indent, size_t most);

/* The text of a string that begins at its quote; lines of it stand below each other. */
static const char *print_string(const char *p, int indent)
{
    for (p++; *p != '"'; p++) {
        if (*p != '\\') {
            put_safe(p, 1, stdout);
            continue;
        }
        p++;
        if (*p == 'n' && p[1] != '"') printf("\n%*s", indent, "");
        else if (*p == 'u') printf("\\%.5s", p), p += 4;
        else if (!strchr("nrtbf", *p)) putchar(*p);
    }
    return p + 1;
}

/* An entry of a list, on one line, or not said. */
static const char *print_entry(const char *p, bool said)
{
    for (int depth = 0; depth || (*p != ',' && *p != ']'); p++) {
        depth += (*p == '[' || *p == '{') - (*p == ']' || *p == '}');
        if (said && *p != '"') putchar(*p == ',' && depth == 1 ? ' ' : *p);
    }
    return p;
}

/* "{...}" or "[...]": an entry per line, and of lists the first 'most' (0: all). */
static const char *print_inside(const char *p, int indent, size_t most)
{
    char end = *p == '{' ? '}' : ']';
    size_t n = 0;
    for (p++; *p != end; n++) {
        const bool said = end == '}' || !most || n < most;
        if (said) printf("\n%*s", indent, "");
        if (end == '}') {
            const char *key = p + 1;
            p = strchr(key, '"');
            printf("%-*.*s ", 16, (int)(p - key), key);
            p += 2; /* the quote and the colon */
            p = print_value(p, indent + 17, most);
        } else p = print_entry(p, said);
        if (*p == ',') p++;
    }
    if (most && end == ']' && n > most)
        printf("\n%*sand %zu more (--json has them)", indent, "", n - most);
    return p + 1;
}

static const char *print_value(const char *p, int indent, size_t most)
{
    if (*p == '"') return print_string(p, indent);
    if (*p == '{' || *p == '[') return print_inside(p, indent > 17 ? 8 : 4, most);
    while (!strchr(",]}", *p)) putchar(*p++);
    return p;
}

static void print_card(const wisp_model *m, const char *path)
{
    fputs("model            ", stdout);
    put_safe(path, strlen(path), stdout);
    print_inside(wisp_model_describe(m), 0, 0);
    putchar('\n');
}

/* What memory it takes: --plan. */
static wisp_status print_plan(const struct args *a, const wisp_model *m, wisp_error *err)
{
    wisp_context *ctx = NULL;
    wisp_report *plan = NULL;
    wisp_status st = open_context(&ctx, a, err);
    if (st == WISP_OK) st = wisp_model_plan(&plan, ctx, m, a->cfg, err);
    if (st == WISP_OK && args_on(a, "json")) printf("%s\n", wisp_report_json(plan));
    else if (st == WISP_OK) {
        fputs("model            ", stdout);
        put_safe(a->files[0], strlen(a->files[0]), stdout);
        print_inside(wisp_report_json(plan), 0, SOME);
        putchar('\n');
    }
    wisp_report_free(plan);
    wisp_context_free(ctx);
    return st;
}

int cmd_inspect(const struct args *a)
{
    wisp_error err = { 0 };
    wisp_model *m = NULL;
    int rc = 0;
    for (int i = 0; i < 2 && !args_on(a, "plan"); i++) {
        static const char *const of_plan[] = { "batch", "threads" };
        if (strcmp(args_text(a, of_plan[i]), "0") != 0)
            return usage_error(a->command, "--%s: only with --plan", of_plan[i]);
    }
    if (wisp_model_load(&m, a->files[0], &err) != WISP_OK) return fail(&err);
    if (args_on(a, "labels")) rc = print_names(a, m, wisp_model_label_name, "labels");
    else if (args_on(a, "vocab")) rc = print_names(a, m, wisp_model_feature_name, "features");
    else if (args_on(a, "plan")) rc = print_plan(a, m, &err) == WISP_OK ? 0 : fail(&err);
    else if (args_on(a, "json")) printf("%s\n", wisp_model_describe(m));
    else print_card(m, a->files[0]);
    wisp_model_free(m);
    return rc;
}
