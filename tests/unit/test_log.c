/* Logs of training runs: what they say, what is noted of those that are cut, mixed or old, and the
 * page that is made of them. */
#include "test.h"
#include "base/mem.h"
#include "report/log.h"
#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/wisp-test-log-XXXXXX", path[100], page[100];
static struct wisp_logs logs;
static wisp_error err;

static wisp_status read_log(const char *text)
{
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    wisp_logs_clear(&logs);
    err.text[0] = 0;
    return wisp_logs_read(&logs, path, &err);
}

/* The page of what was read, to be freed. */
static char *page_text(void)
{
    CHECK(wisp_report_page(page, &logs, &err) == WISP_OK, "%s", err.text);
    FILE *f = fopen(page, "r");
    char *text = calloc(1, 1 << 20);
    if (f) text[fread(text, 1, (1 << 20) - 1, f)] = 0;
    if (f) fclose(f);
    return text;
}

#define RUN                                                                                        \
    "\"run\":{\"wisp\":\"0.1.0\",\"net\":\"input 8\",\"card\":{\"sampling\":\"lsh\",\"lr\":0.5,"   \
    "\"in_use\":true},\"options\":{\"lr\":0,\"seed\":7}}"

static void test_figures(void)
{
    TEST("log: figures of an epoch");
    CHECK(
        read_log("{\"epoch\":1,\"epochs\":3,\"loss\":2.5,\"valid_p@1\":-1,\"valid_loss\":0.25,"
                 "\"rows_per_s\":100,\"retrieval_recall\":0.5,\"train_seconds\":1,\"seconds\":2,"
                 "\"peak_bytes\":5,\"best\":1,\"last\":0,\"zeros\":{\"1.relu\":0.5}," RUN "}\n"
                 "{\"epoch\":2,\"epochs\":3,\"loss\":2,\"valid_p@3\":101,\"lr\":\"no\",\"best\":0,"
                 "\"last\":1,\"zeros\":{\"2.relu\":2,\"1.relu\":0.75}}\n") == WISP_OK,
        "%s", err.text);
    const struct wisp_log_run *r = &logs.run[0];
    CHECK(logs.n == 1 && r->n == 2 && r->epochs == 3 && r->ended, "%zu runs", logs.n);
    const double *at = r->epoch[0].at;
    CHECK(at[WISP_FIGURE_LOSS] == 2.5 && at[WISP_FIGURE_VALID_LOSS] == 0.25, "losses");
    CHECK(isnan(at[WISP_FIGURE_P1]), "-1 is none");
    CHECK(at[WISP_FIGURE_RECALL] == 50, "recall %g", at[WISP_FIGURE_RECALL]);
    CHECK(isnan(r->epoch[1].at[WISP_FIGURE_P3]) && isnan(r->epoch[1].at[WISP_FIGURE_LR]),
          "out of bounds, no number");
    CHECK(wisp_log_best(r) == &r->epoch[0] && wisp_log_end(r) == &r->epoch[1], "best");
    CHECK(r->n_layers == 2 && r->epoch[0].n_zeros == 1 && r->epoch[1].zeros[0] == 0.75f &&
              isnan(r->epoch[1].zeros[1]),
          "zeros");
    CHECK(strcmp(wisp_log_fact(r, "lr"), "0.5") == 0, "what was chosen, not the option");
    CHECK(strcmp(wisp_log_fact(r, "seed"), "7") == 0 &&
              strcmp(wisp_log_fact(r, "in-use"), "yes") == 0,
          "facts");
    CHECK(!wisp_log_fact(r, "card") && !wisp_log_fact(r, "x"), "no facts");
    CHECK(r->n_notes == 0 && strcmp(wisp_log_state(r), "ended early") == 0, "%s",
          wisp_log_state(r));
}

/* A log of an older wisp says nothing of the run: its last epoch says whether it ended. */
static void test_state(void)
{
    static const char *const cases[][2] = {
        { "{\"epoch\":1,\"epochs\":2}\n", "not finished" },
        { "{\"epoch\":1,\"epochs\":1}\n", "finished" },
        { "{\"epoch\":1,\"epochs\":1," RUN "}\n", "not finished" },
        { "{\"epoch\":1,\"epochs\":1,\"last\":1," RUN "}\n", "finished" },
    };
    TEST("log: whether a run has ended");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(read_log(cases[i][0]) == WISP_OK, "%s", err.text);
        CHECK(strcmp(wisp_log_state(&logs.run[0]), cases[i][1]) == 0, "%s: %s", cases[i][0],
              wisp_log_state(&logs.run[0]));
    }
}

static void test_full(void)
{
    TEST("log: steps that compute all rows say nothing of rows scored");
    CHECK(
        read_log("{\"epoch\":1,\"scored_mean\":9,\"run\":{\"card\":{\"sampling\":\"full\"}}}\n") ==
            WISP_OK,
        "%s", err.text);
    CHECK(isnan(logs.run[0].epoch[0].at[WISP_FIGURE_SCORED]), "scored");
}

/* Runs as "epochs;epochs", and the notes of the last. */
static void test_order(void)
{
    static const struct {
        const char *log, *runs, *note;
    } cases[] = {
        { "{\"epoch\":1}\n{\"epoch\":2}\n", "1 2;", "options are not known" },
        { "{\"epoch\":1}\n\n  \r\n{\"epoch\":2}", "1 2;", "options are not known" },
        { "{\"epoch\":1}\n{\"epoch\":2}\n{\"epoch\":1}\n", "1 2;1;", "options are not known" },
        { "{\"epoch\":1}\n{\"epoch\":2}\n{\"epoch\":3}\n{\"epoch\":2}\n", "1 2;", "from 2 on" },
        { "{\"epoch\":1}\n{\"epoch\":3}\n", "1 3;", "Epoch 2 is not in the log" },
        { "{\"epoch\":1}\n{\"epoch\":5}\n", "1 5;", "Epochs 2 to 4 are not in the log" },
        { "{\"epoch\":4}\n{\"epoch\":5}\n", "4 5;", "begins with epoch 4" },
        { "{\"epoch\":4}\n{\"epoch\":3}\n", "4;3;", "options are not known" },
        { "{\"epoch\":1}\n{\"epo", "1;", "last line of the log is cut" },
        { "what\n{\"epoch\":1}\n", "1;", "Line 1 of the log is no epoch's" },
        { "{\"epoch\":1}\n[1]\n{\"epoch\":1.5}\n{\"epoch\":-1}\n", "1;", "3 lines" },
        { "{\"epoch\":1,\"epochs\":2," RUN "}\n", "1;", "stopped, or has not ended" },
    };
    TEST("log: cut, mixed, resumed");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char runs[200] = "", notes[4000] = "";
        CHECK(read_log(cases[i].log) == WISP_OK, "case %zu: %s", i, err.text);
        for (size_t k = 0; k < logs.n; k++) {
            const struct wisp_log_run *r = &logs.run[k];
            for (size_t e = 0; e < r->n; e++)
                sprintf(runs + strlen(runs), "%s%d", e ? " " : "", r->epoch[e].epoch);
            strcat(runs, ";");
            for (size_t e = 0; e < r->n_notes; e++) strcat(strcat(notes, r->note[e]), "\n");
        }
        CHECK(strcmp(runs, cases[i].runs) == 0, "case %zu: %s", i, runs);
        CHECK(strstr(notes, cases[i].note), "case %zu: %s", i, notes);
        free(page_text());
    }
}

static void test_time(void)
{
    TEST("log: the time of a resumed run goes on");
    CHECK(read_log("{\"epoch\":1,\"seconds\":10,\"train_seconds\":8," RUN "}\n"
                   "{\"epoch\":2,\"seconds\":20,\"train_seconds\":16}\n"
                   "{\"epoch\":3,\"seconds\":30,\"train_seconds\":20," RUN "}\n"
                   "{\"epoch\":4,\"seconds\":5,\"train_seconds\":4}\n") == WISP_OK,
          "%s", err.text);
    const struct wisp_log_run *r = &logs.run[0];
    CHECK(r->epoch[2].at[WISP_FIGURE_SECONDS] == 50 && r->epoch[2].at[WISP_FIGURE_TRAIN_S] == 36,
          "a line that says that the run began again");
    CHECK(r->epoch[3].at[WISP_FIGURE_SECONDS] == 55, "seconds that went back: %g",
          r->epoch[3].at[WISP_FIGURE_SECONDS]);
}

static void test_refused(void)
{
    static const char *const cases[][2] = {
        { "", "the log is empty" },
        { "\n \n", "the log is empty" },
        { "\n<html>\x1b[1m\n", ":2: expected the line of an epoch" },
        { "{\"p@1\":3}\n", ":1: expected the line of an epoch" },
        { "{\"epoch\":0}", "found '{\"epoch\":0}'" },
        { "{\"epoch\":1e99}", "expected the line" },
    };
    TEST("log: what is none");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(read_log(cases[i][0]) == WISP_EFORMAT, "case %zu", i);
        CHECK(strstr(err.text, cases[i][1]) && !strchr(err.text, '\n'), "case %zu: %s", i,
              err.text);
    }
    CHECK(wisp_logs_read(&logs, "/proc/none/log", &err) == WISP_EIO, "%s", err.text);
}

static void test_many(void)
{
    TEST("log: more runs than a report has, names of their own");
    char text[100 * 14 + 1] = "";
    for (int i = 0; i < 100; i++) strcat(text, "{\"epoch\":1}\n");
    CHECK(read_log(text) == WISP_OK, "%s", err.text);
    CHECK(logs.n == WISP_MOST_RUNS && strcmp(logs.run[0].name, "run.jsonl") == 0 &&
              strcmp(logs.run[63].name, "run.jsonl (64)") == 0,
          "%zu, %s", logs.n, logs.run[logs.n - 1].name);
    CHECK(strstr(logs.run[63].note[0], "36 further epochs"), "%s", logs.run[63].note[0]);
    free(page_text());
    CHECK(wisp_logs_read(&logs, path, &err) == WISP_EFORMAT && strstr(err.text, "at most 64"), "%s",
          err.text);
}

static void test_hostile(void)
{
    TEST("log: nothing of a log becomes markup");
    static const char evil[] = "<script>alert(1)</script>\\\"' onload=x &amp;";
    char text[2000];
    sprintf(text,
            "{\"epoch\":1,\"loss\":1e308,\"valid_loss\":3,\"best\":1,\"zeros\":{\"%s\":0.5},"
            "\"run\":{\"%s\":\"%s\",\"net\":\"%s\","
            "\"data\":\"%s\",\"options\":{\"a\":[1],\"b\":null}}}\n",
            evil, evil, evil, evil, evil);
    CHECK(read_log(text) == WISP_OK, "%s", err.text);
    char *html = page_text();
    CHECK(strstr(html, "&lt;script&gt;alert(1)&lt;/script&gt;&quot;"), "it is shown");
    CHECK(!strstr(html, "<script") && !strstr(html, "\" onload") && !strstr(html, "nan") &&
              !strstr(html, "inf\""),
          "and only shown");
    free(html);
}

static void test_memory(void)
{
    TEST("log: memory runs out");
    for (long n = 0;; n++) {
        wisp_logs_clear(&logs);
        wisp_mem_budget = n;
        wisp_status st = wisp_logs_read(&logs, path, &err);
        if (st == WISP_OK) st = wisp_report_page(page, &logs, &err);
        wisp_mem_budget = -1;
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM, "after %ld: %s", n, err.text);
    }
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL, "no folder");
    snprintf(path, sizeof path, "%s/run.jsonl", folder);
    snprintf(page, sizeof page, "%s/page.html", folder);
    test_figures();
    test_state();
    test_full();
    test_order();
    test_time();
    test_refused();
    test_many();
    test_hostile();
    test_memory();
    wisp_logs_clear(&logs);
    unlink(path);
    unlink(page);
    rmdir(folder);
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}
