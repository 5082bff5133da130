/* Fuzzing logs of training runs, and the page that is made of them: whatever a log holds, the page has
 * no tag, no quote and no number that the log put there. */
#define FUZZ_NAME    "fuzz_log"
#define FUZZ_ERRORS  WISP_EFORMAT
#define FUZZ_MUTANTS 8000
#define FUZZ_WORDS                                                                                 \
    "{\"epoch\":1", "{\"epoch\":2", "\"epochs\":", "\"loss\":", "\"valid_p@1\":", "\"zeros\":{",   \
        "\"run\":{", "\"best\":1", "\"last\":1", "1e308", "-1e-308", "null", "}\n", "}}\n",        \
        "\\u0000", "\\ud800", "<script>", "\"card\":{", "\"seconds\":", "[[[[[["
#include "fuzz/rig.h"

#include "report/log.h"
#include "report/page.h"

#include <math.h>

static void check_run(const struct wisp_log_run *r)
{
    if (!r->name || r->n == 0) fuzz_die("a run without a name or an epoch", NULL);
    for (size_t i = 0; i < r->n; i++) {
        const struct wisp_log_epoch *e = &r->epoch[i];
        if (e->epoch < 1 || (i && e->epoch <= r->epoch[i - 1].epoch))
            fuzz_die("epochs that do not ascend", NULL);
        for (int f = 0; f < WISP_N_FIGURES; f++)
            if (!isnan(e->at[f]) && !(fabs(e->at[f]) <= 1e15)) fuzz_die("no figure", NULL);
        if (e->n_zeros > r->n_layers) fuzz_die("zeros of no layer", NULL);
        for (size_t k = 0; k < e->n_zeros; k++)
            if (!isnan(e->zeros[k]) && !(e->zeros[k] >= 0 && e->zeros[k] <= 1))
                fuzz_die("no share", NULL);
    }
}

/* Tags are those that the page has by itself, and attributes are closed. */
static void check_page(const char *path)
{
    static const char *const ours[] = {
        "!doctype", "html",    "head",    "meta",   "title", "style",      "body", "a",  "header",
        "h1",       "h2",      "h3",      "p",      "main",  "dl",         "div",  "dt", "dd",
        "small",    "details", "summary", "table",  "thead", "tbody",      "tr",   "th", "td",
        "ul",       "li",      "strong",  "figure", "span",  "figcaption", "svg",  "g",  "path",
        "text",     "circle",  "rect",    "footer", "code"
    };
    struct wisp_map m;
    wisp_error err;
    if (wisp_map_open(&m, path, &err) != WISP_OK) {
        if (fuzz_starved) return;
        fuzz_die("no page", &err);
    }
    for (size_t i = 0; i < m.bytes; i++) {
        if (m.p[i] != '<') continue;
        const char *tag = (const char *)m.p + i + 1 + (m.p[i + 1] == '/');
        size_t n = 0;
        bool known = false;
        while (tag[n] && !strchr(" >/\n", tag[n])) n++;
        for (size_t k = 0; k < sizeof ours / sizeof *ours; k++)
            known |= strlen(ours[k]) == n && !strncmp(ours[k], tag, n);
        if (!known) fuzz_die("a tag that is not ours", NULL);
        unsigned quotes = 0;
        while (i < m.bytes && m.p[i] != '>') quotes += m.p[i++] == '"';
        if (quotes % 2) fuzz_die("an attribute without an end", NULL);
    }
    wisp_map_close(&m);
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    static struct wisp_logs logs;
    memset(&logs, 0, sizeof logs);
    const char *path = fuzz_save("log", p, n), *page = fuzz_path("page.html");
    wisp_status st = wisp_logs_read(&logs, path, err);
    if (st == WISP_OK && how & 1) st = wisp_logs_read(&logs, path, err); /* beside itself */
    for (size_t i = 0; i < logs.n && st == WISP_OK; i++) check_run(&logs.run[i]);
    if (st == WISP_OK && how & 2 && (st = wisp_report_page(page, &logs, err)) == WISP_OK)
        check_page(page);
    wisp_logs_clear(&logs);
    return st;
}

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    static const struct fuzz_text_seed seeds[] = {
        SEED(
            3,
            "{\"epoch\":1,\"epochs\":2,\"step\":35,\"loss\":9.8,\"lr\":0.01,\"valid_p@1\":52.9,"
            "\"valid_p@3\":30.2,\"valid_p@5\":22.6,\"valid_loss\":4.3,\"best\":1,\"rows_per_s\":"
            "46988.3,\"active_mean\":159.0,\"scored_mean\":159.0,\"retrieval_recall\":1.0,"
            "\"recall_union\":1.0,\"train_seconds\":0.093,\"seconds\":0.141,\"peak_bytes\":"
            "25579520,"
            "\"last\":0,\"zeros\":{\"1.relu\":0.4957,\"3.relu\":1},\"run\":{\"wisp\":\"0.1.0\","
            "\"model\":\"m\",\"net\":\"input 512, "
            "relu\",\"threads\":2,\"card\":{\"data\":\"x.txt\","
            "\"held_out\":\"yes\",\"lr\":0.016,\"sampling\":\"lsh\"},\"options\":{\"epochs\":4}}}\n"
            "{\"epoch\":2,\"epochs\":2,\"loss\":3.6,\"valid_p@1\":60.2,\"best\":1,\"last\":1,"
            "\"zeros\":{\"1.relu\":0.41}}\n"),
        SEED(2, "{\"epoch\":1,\"run\":{\"card\":{\"sampling\":\"full\",\"a\":{\"b\":1}}}}\n{"
                "\"epoch\":5}\n"
                "{\"epoch\":3,\"seconds\":3}\n{\"epoch\":4,\"seconds\":1}\n{\"epoch\":1}\n{\"epo"),
        SEED(3, "{\"epoch\":7,\"zeros\":{\"<b>\":0.5,\"\\\"\":0},\"run\":{\"<i>\":\"\\u2028</"
                "p>\",\"x\":true}}"),
        SEED(1, "{\"epoch\":2}\n{\"epoch\":1}\n{\"epoch\":2}\nnonsense\n\n"),
        SEED(0, "{\"loss\":3}\n"),
        SEED(0, "\n"),
        SEED(0, "[[[[{\"epoch\":1}]]]]"),
    };
    const size_t n = sizeof seeds / sizeof *seeds;
    return i < n ? fuzz_put(to, seeds[i].how, seeds[i].text, seeds[i].n) : 0;
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
}
#endif
