/* A host program that has called setlocale, with a decimal comma: options, text, models,
 * checkpoints, reports and notices are what they are elsewhere, to the byte. */
#include "model_rig.h"
#include "base/text.h"
#include "data/number.h"

#include <locale.h>
#include <math.h>

/* The C library's own, to see that the program's locale stays (test.h has them replaced). */
#undef snprintf

static char locales[] = "/tmp/wisp-test-locale-XXXXXX";
static char notices[20000];

static void note(void *arg, const char *line)
{
    (void)arg;
    size_t n = strlen(notices);
    snprintf(notices + n, sizeof notices - n, "%s\n", line);
}

/* The machine's own, or made for this test; false: there is none. */
static bool use_locale(void)
{
    char command[300];
    if (setlocale(LC_ALL, "de_DE.UTF-8")) return true;
    if (!mkdtemp(locales)) return false;
    snprintf(command, sizeof command,
             "localedef --no-archive -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", locales);
    bool made = system(command) == 0;
    setenv("LOCPATH", locales, 1);
    return made && setlocale(LC_ALL, "de_DE.UTF-8");
}

static void drop_locale(void)
{
    char command[100];
    setlocale(LC_ALL, "C");
    snprintf(command, sizeof command, "rm -rf %s", locales);
    if (locales[sizeof locales - 2] != 'X' && system(command) != 0) abort();
}

static int stop_at; /* epochs */

static int on_progress(void *arg, const wisp_progress *p)
{
    (void)arg;
    if (p->epoch_ended) note(NULL, p->json);
    return stop_at && p->epoch >= stop_at && p->epoch_ended;
}

/* Everything from options to an answer; 'out' receives model, report and answers as one text. */
static void work(struct bytes *bytes, char *out, size_t room)
{
    wisp_config *c = NULL;
    wisp_data *d = NULL;
    wisp_report *r = NULL;
    wisp_model *m = NULL;
    char text[4000], *p = text;
    float scores[2] = { 0 };
    int32_t labels[2] = { 0 };
    notices[0] = 0;
    for (int i = 0; i < 100; i++)
        p += sprintf(p, "%d %d:0.%d %d:1.25e-1\n", i % 2, i % 2, 5 + i % 5, 2 + i % 7);
    FILE *f = fopen("rows.txt", "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0, "rows.txt");
    CHECK(wisp_config_create(&c, &err) == WISP_OK, "%s", err.text);
    f = fopen("options", "w");
    CHECK(f && fputs("lr = 0.015625\nmemory = 1.5G\n", f) >= 0 && fclose(f) == 0, "options");
    CHECK(wisp_config_load(c, "options", &err) == WISP_OK, "%s", err.text);
    set(c, "no-header", "1");
    set(c, "net", "input 8, relu, dropout 0.25");
    set(c, "input-dropout", "0.125");
    set(c, "epochs", "4");
    set(c, "holdout", "0.2");
    set(c, "patience", "0");
    set(c, "propensity", "0.55,1.5");
    CHECK(wisp_data_open(&d, ctx, "rows.txt", c, NULL, &err) == WISP_OK, "%s", err.text);
    stop_at = 2;
    CHECK(wisp_train(&r, ctx, c, d, NULL, model, on_progress, NULL, &err) == WISP_ESTOPPED, "%s",
          err.text);
    wisp_report_free(r);
    stop_at = 0;
    set(c, "resume", "1");
    CHECK(wisp_train(&r, ctx, c, d, NULL, model, on_progress, NULL, &err) == WISP_OK, "%s",
          err.text);
    wisp_report_free(r);
    *bytes = slurp(model);
    CHECK(wisp_model_load(&m, model, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_eval(&r, ctx, m, d, c, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_predict(labels, scores, ctx, m, d, 0, 1, 2, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_data_write(d, ctx, "written.svm", NULL, &err) == WISP_OK, "%s", err.text);
    struct bytes svm = slurp("written.svm");
    double p1 = -1, ece = -1;
    CHECK(r && wisp_report_get(r, "p@1", &p1) && wisp_report_get(r, "ece", &ece), "a report");
    for (const char *at = r ? wisp_report_json(r) : ""; (at = strchr(at, ',')); at++)
        CHECK(at[1] == '"', "a decimal comma in %s", wisp_report_json(r));
    snprintf(out, room, "%a %a %a %.*s", p1, ece, (double)scores[0], (int)svm.n, (char *)svm.p);
    CHECK(strstr(notices, "lr 0.015625") && strstr(notices, "input dropout 0.125"), "%s", notices);
    CHECK(strstr(notices, "\"lr\":0.0"), "%s", notices);
    free(svm.p);
    wisp_report_free(r);
    wisp_model_free(m);
    wisp_data_free(d);
    wisp_config_free(c);
    unlink("rows.txt"), unlink("rows.txt.wispcache"), unlink("options"), unlink("written.svm");
}

static void test_numbers(void)
{
    TEST("locale: numbers are read and printed with a point");
    char s[WISP_NUMBER_ROOM + 1], *end;
    float f;
    CHECK(localeconv()->decimal_point[0] == ',', "'%s'", localeconv()->decimal_point);
    CHECK(wisp_strtod("0.5x", &end) == 0.5 && *end == 'x', "%g", wisp_strtod("0.5", NULL));
    CHECK(wisp_strtof("1.5e-3", NULL) == 1.5e-3f, "strtof");
    CHECK(wisp_print(s, sizeof s, "%.2f", 1.25) == 4 && strcmp(s, "1.25") == 0, "%s", s);
    CHECK(wisp_scan("0.75 3", "%f", &f) == 1 && f == 0.75f, "%g", (double)f);
    s[wisp_number_print(s, 0.1f)] = 0;
    CHECK(strcmp(s, "0.1") == 0, "%s", s);
    wisp_fail(&err, WISP_EINVAL, "%g", 0.5);
    CHECK(strcmp(err.text, "0.5") == 0, "%s", err.text);
    snprintf(s, sizeof s, "%g", 0.5);
    CHECK(strcmp(s, "0,5") == 0, "the program's own locale is gone: %s", s);
}

int main(void)
{
    static char here[20000], there[20000];
    struct bytes a = { 0 }, b = { 0 };
    rig_init();
    wisp_context_on_notice(ctx, note, NULL);
    TEST("locale: in the C locale");
    setlocale(LC_ALL, "C");
    work(&a, here, sizeof here);
    if (!use_locale()) {
        TEST("locale: with a decimal comma");
        SKIP("there is no de_DE.UTF-8, and localedef cannot make it");
    } else {
        test_numbers();
        TEST("locale: with a decimal comma: train, stop, resume, load, evaluate, predict, write");
        work(&b, there, sizeof there);
        for (char *p = there; *p && p < strchr(there, '\n'); p++) /* our own %a */
            if (*p == ',') *p = '.';
        CHECK(strcmp(here, there) == 0, "%.200s\nin C\n%.200s", there, here);
        CHECK(a.n > 0 && same_bytes(a, b), "the model has other bytes: %zu, %zu", a.n, b.n);
    }
    free(a.p);
    free(b.p);
    drop_locale();
    return rig_end();
}
