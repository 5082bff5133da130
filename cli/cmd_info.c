/* wisp info: every table of this build, and what runs on this machine. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

/* "layers/dense": what a layer takes. */
static const char *arguments_of(char table[100], const char *layer)
{
    snprintf(table, 100, "layers/%s", layer);
    return table;
}

static void print_tables(void)
{
    char of[100];
    const char *table, *about, *name, *what;
    for (size_t t = 0; wisp_table_row("tables", t, &table, &about); t++) {
        printf("\n%s: %s\n", table, about);
        for (size_t i = 0; wisp_table_row(table, i, &name, &what); i++) {
            printf("  %-12s %s\n", name, what);
            if (strcmp(table, "layers") != 0) continue;
            arguments_of(of, name);
            for (size_t k = 0; wisp_table_row(of, k, &name, &what); k++)
                printf("    %-10s %s\n", name, what);
        }
    }
}

static void put_text(const char *before, const char *s)
{
    fputs(before, stdout);
    put_json(s, strlen(s), stdout);
}

/* {"csv":"a table ...", ...} */
static void put_rows(const char *table)
{
    const char *name, *what;
    putchar('{');
    for (size_t i = 0; wisp_table_row(table, i, &name, &what); i++) {
        put_text(i ? "," : "", name);
        put_text(":", what);
    }
    putchar('}');
}

/* The names of each table; what they are, by table and name; the arguments of each layer. */
static void put_tables(void)
{
    char of[100];
    const char *table, *about, *name, *what;
    for (size_t t = 0; wisp_table_row("tables", t, &table, &about); t++) {
        printf(",\"%s\":[", table);
        for (size_t i = 0; wisp_table_row(table, i, &name, &what); i++)
            put_text(i ? "," : "", name);
        putchar(']');
    }
    fputs(",\"what\":{", stdout);
    for (size_t t = 0; wisp_table_row("tables", t, &table, &about); t++) {
        printf("%s\"%s\":", t ? "," : "", table);
        put_rows(table);
    }
    fputs("},\"arguments\":{", stdout);
    for (size_t i = 0; wisp_table_row("layers", i, &name, &what); i++) {
        printf("%s\"%s\":", i ? "," : "", name);
        put_rows(arguments_of(of, name));
    }
    putchar('}');
}

int cmd_info(const struct args *a)
{
    int json = args_on(a, "json");
    printf(json ? "{\"version\":\"%s\"" : "wisp %s\n", wisp_version());
    if (!json) {
        print_tables();
        return 0;
    }
    put_tables();
    puts("}");
    return 0;
}
