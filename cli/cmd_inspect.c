/* wisp inspect MODEL */
#include "cli.h"

#include <stdio.h>

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

/* The description, one entry per line. */
static void print_entries(const wisp_model *m)
{
    int depth = 0, text = 0;
    for (const char *p = wisp_model_describe(m); *p; p++) {
        if (*p == '"' && (p[-1] != '\\')) text = !text;
        if (!text && (*p == ']' || *p == '}')) depth--;
        putchar(*p);
        if (!text && (*p == '[' || *p == '{')) depth++;
        if (!text &&
            ((*p == ',' && depth <= 2) || (*p == '{' && depth == 1) || (p[1] == '}' && depth == 1)))
            printf("\n%s", p[1] == '}' ? "" : depth == 1 ? "  " : "    ");
    }
    putchar('\n');
}

int cmd_inspect(const struct args *a)
{
    wisp_error err = { 0 };
    wisp_model *m = NULL;
    int rc = 0;
    if (wisp_model_load(&m, a->files[0], &err) != WISP_OK) return fail(&err);
    if (args_on(a, "labels")) rc = print_names(a, m, wisp_model_label_name, "labels");
    else if (args_on(a, "vocab")) rc = print_names(a, m, wisp_model_feature_name, "features");
    else if (args_on(a, "json")) printf("%s\n", wisp_model_describe(m));
    else print_entries(m);
    wisp_model_free(m);
    return rc;
}
