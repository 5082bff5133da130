/* wisp inspect MODEL */
#include "cli.h"

#include <stdio.h>

int cmd_inspect(int argc, char **argv)
{
    struct args a;
    wisp_error err = { 0 };
    wisp_model *m = NULL;
    int rc = args_read(&a, "inspect", argc, argv, 1, 1, "inspect MODEL [--json]");
    if (rc) return rc;
    if (wisp_model_load(&m, a.files[0], &err) != WISP_OK) {
        rc = fail(&err);
    } else if (args_on(&a, "json")) {
        printf("%s\n", wisp_model_describe(m));
    } else { /* the same, one entry a line */
        int depth = 0, text = 0;
        for (const char *p = wisp_model_describe(m); *p; p++) {
            if (*p == '"' && (p[-1] != '\\')) text = !text;
            if (!text && (*p == ']' || *p == '}')) depth--;
            putchar(*p);
            if (!text && (*p == '[' || *p == '{')) depth++;
            if (!text && ((*p == ',' && depth <= 2) || (*p == '{' && depth == 1) ||
                          (p[1] == '}' && depth == 1)))
                printf("\n%s", p[1] == '}' ? "" : depth == 1 ? "  " : "    ");
        }
        putchar('\n');
    }
    wisp_model_free(m);
    args_clear(&a);
    return rc;
}
