/* wisp info: every table of this build, and what runs on this machine. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

/* What a layer takes, below it. */
static void print_arguments(const char *layer)
{
    char table[100];
    const char *name, *what;
    snprintf(table, sizeof table, "layers/%s", layer);
    for (size_t i = 0; wisp_table_row(table, i, &name, &what); i++)
        printf("    %-10s %s\n", name, what);
}

int cmd_info(const struct args *a)
{
    int json = args_on(a, "json");
    const char *table, *about, *name, *what;
    printf(json ? "{\"version\":\"%s\"" : "wisp %s\n", wisp_version());
    for (size_t t = 0; wisp_table_row("tables", t, &table, &about); t++) {
        if (json) printf(",\"%s\":[", table);
        else printf("\n%s: %s\n", table, about);
        for (size_t i = 0; wisp_table_row(table, i, &name, &what); i++) {
            if (json) printf("%s\"%s\"", i ? "," : "", name);
            else printf("  %-12s %s\n", name, what);
            if (!json && strcmp(table, "layers") == 0) print_arguments(name);
        }
        if (json) putchar(']');
    }
    if (json) puts("}");
    return 0;
}
