/* Plots: well-formed whatever the numbers and texts are, whole or not at all. */
#include "test.h"
#include "base/draw.h"
#include "base/mem.h"
#include "base/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct wisp_error err;
static char path[100];

static char *contents(void)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 200000);
    if (f) text[fread(text, 1, 199999, f)] = 0;
    if (f) fclose(f);
    return text;
}

static size_t times(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

static struct wisp_plot plot_of(const double *x, const double *y, const enum wisp_mark *mark, int n)
{
    struct wisp_plot p = { .title = "a <b> & \"c\" \x01\xff \xc3\xa4",
                           .y_name = "y",
                           .n = n,
                           .y = y,
                           .mark = mark,
                           .mark_names = { "begin", NULL, "missed", "chosen" },
                           .level = NAN,
                           .level_name = "enough",
                           .n_panels = 3 };
    for (int i = 0; i < 3; i++) p.panel[i] = (struct wisp_panel){ "x", "note", x };
    return p;
}

static void test_numbers(void)
{
    static const struct {
        double x[4], y[4], level;
        int n;
    } cases[] = {
        { { 1 }, { 50 }, NAN, 1 },
        { { 5, 5, 5 }, { 50, 50, 50 }, 50, 3 },
        { { 1e-9, 1e12, 3 }, { 0, 100, 50 }, 99.5, 3 },
        { { 1.7e6, 3.5e4, 2e4, 1e3 }, { 98.4, 98.1, 97.9, 12 }, 98, 4 },
        { { 1000, 999.6, 1001, 1000.2 }, { 90, 90.001, 89.999, 90 }, -3, 4 },
    };
    static const enum wisp_mark marks[4] = { WISP_MARK_BEGIN, WISP_MARK_MISSED, WISP_MARK_CHOSEN,
                                             WISP_MARK_GOOD };
    TEST("plot: any numbers");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_plot p = plot_of(cases[i].x, cases[i].y, marks, cases[i].n);
        p.level = cases[i].level;
        CHECK(wisp_plot_write(path, &p, &err) == WISP_OK, "%s", err.text);
        char *text = contents();
        CHECK(!strstr(text, "nan") && !strstr(text, "inf"), "case %zu: no numbers", i);
        CHECK(times(text, "<g>") == 3 * (size_t)cases[i].n && times(text, "</svg>\n") == 1,
              "case %zu", i);
        CHECK((strstr(text, "enough") != NULL) == !isnan(cases[i].level), "case %zu: the level", i);
        /* the title in itself, and as a text; what XML cannot hold is a question mark */
        CHECK(times(text, "a &lt;b&gt; &amp; &quot;c&quot; ?? \xc3\xa4") == 2,
              "case %zu: the title", i);
        CHECK(times(text, "soft end\">") >= 3 && times(text, "soft mid\">") >= 3, "case %zu: ticks",
              i);
        free(text);
    }
}

static void test_far(void)
{
    static const double x[3] = { 100, 10, 1 }, y[3] = { 98, 97, 12.5 };
    static const enum wisp_mark marks[3] = { WISP_MARK_BEGIN, WISP_MARK_CHOSEN, WISP_MARK_MISSED };
    struct wisp_plot p = plot_of(x, y, marks, 3);
    TEST("plot: a point far below leaves room for the others");
    CHECK(wisp_plot_write(path, &p, &err) == WISP_OK, "%s", err.text);
    char *text = contents();
    CHECK(times(text, ">12.5</text>") == 3 && times(text, ">20</text>") == 0, "its number");
    CHECK(times(text, ">97.5</text>") == 3, "the others' ticks");
    free(text);
}

static void test_short(void)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = { { 1500000, "1.5M" }, { 999.9, "1k" },    { 999, "999" }, { 0, "0" },
                  { 0.25, "0.25" },    { 35709, "35.7k" }, { 2e13, "20T" } };
    TEST("plot: short numbers");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[WISP_SHORT_NUMBER];
        CHECK(strcmp(wisp_short_number(out, cases[i].v), cases[i].text) == 0, "%g: %s, expected %s",
              cases[i].v, out, cases[i].text);
    }
}

static void test_failures(void)
{
    const double x[1] = { 1 };
    const enum wisp_mark mark[1] = { WISP_MARK_GOOD };
    struct wisp_plot p = plot_of(x, x, mark, 1);
    TEST("plot: failures");
    CHECK(wisp_plot_write("/proc/none/x.svg", &p, &err) == WISP_EIO, "%s", err.text);
    for (long n = 0;; n++) {
        wisp_mem_budget = n;
        wisp_status st = wisp_plot_write(path, &p, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM, "after %ld: %s", n, err.text);
    }
}

int main(void)
{
    char folder[] = "/tmp/wisp-test-plot-XXXXXX";
    CHECK(mkdtemp(folder) != NULL, "no folder");
    snprintf(path, sizeof path, "%s/x.svg", folder);
    test_numbers();
    test_far();
    test_short();
    test_failures();
    unlink(path);
    rmdir(folder);
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}
