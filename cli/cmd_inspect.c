/* wisp inspect MODEL */
#include "cli.h"

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

static const char *print_value(const char *p, int indent);

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

/* "{...}" or "[...]": an entry per line; what is in a list stays on one line. */
static const char *print_inside(const char *p, int indent)
{
    char end = *p == '{' ? '}' : ']';
    for (p++; *p != end;) {
        printf("\n%*s", indent, "");
        if (end == '}') {
            const char *key = p + 1;
            p = strchr(key, '"');
            printf("%-*.*s ", 16, (int)(p - key), key);
            p += 2; /* the quote and the colon */
            p = print_value(p, indent + 17);
        } else {
            for (int depth = 0; depth || (*p != ',' && *p != end); p++) {
                depth += (*p == '[' || *p == '{') - (*p == ']' || *p == '}');
                if (*p != '"') putchar(*p == ',' && depth == 1 ? ' ' : *p);
            }
        }
        if (*p == ',') p++;
    }
    return p + 1;
}

static const char *print_value(const char *p, int indent)
{
    if (*p == '"') return print_string(p, indent);
    if (*p == '{' || *p == '[') return print_inside(p, 4);
    while (!strchr(",]}", *p)) putchar(*p++);
    return p;
}

static void print_card(const wisp_model *m, const char *path)
{
    fputs("model            ", stdout);
    put_safe(path, strlen(path), stdout);
    print_inside(wisp_model_describe(m), 0);
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
    else print_card(m, a->files[0]);
    wisp_model_free(m);
    return rc;
}
