/* The tables of a training report: how runs ended, what they were told, each of their epochs. */
#include "report/tables.h"
#include "base/text.h"
#include "report/chart.h"

#include <math.h>
#include <string.h>

/* ---- figures ---- */

static const struct {
    const char *name, *plain; /* printf's form of the number */
    int better;               /* 1: higher is better, -1: lower */
} columns[WISP_N_FIGURES] = {
    [WISP_FIGURE_P1] = { "P@1", "%.2f", 1 },
    [WISP_FIGURE_P3] = { "P@3", "%.2f", 1 },
    [WISP_FIGURE_P5] = { "P@5", "%.2f", 1 },
    [WISP_FIGURE_VALID_LOSS] = { "Validation loss", "%.4f", -1 },
    [WISP_FIGURE_LOSS] = { "Training loss", "%.4f", 0 },
    [WISP_FIGURE_RATE] = { "Rows per second", NULL, 1 },
    [WISP_FIGURE_ACTIVE] = { "Rows active", NULL, 0 },
    [WISP_FIGURE_SCORED] = { "Rows scored", NULL, 0 },
    [WISP_FIGURE_RECALL] = { "Recall, %", "%.1f", 0 },
    [WISP_FIGURE_LR] = { "Learning rate", "%.3g", 0 },
    [WISP_FIGURE_TRAIN_S] = { "Training time", NULL, 0 },
    [WISP_FIGURE_SECONDS] = { "Time in all", NULL, 0 },
    [WISP_FIGURE_PEAK] = { "Peak memory", NULL, 0 },
};
/* As they stand in the table of epochs; that of runs ends with the peak of memory. */
static const enum wisp_figure order[] = {
    WISP_FIGURE_P1,      WISP_FIGURE_P3,      WISP_FIGURE_P5,     WISP_FIGURE_VALID_LOSS,
    WISP_FIGURE_LOSS,    WISP_FIGURE_RATE,    WISP_FIGURE_SCORED, WISP_FIGURE_RECALL,
    WISP_FIGURE_TRAIN_S, WISP_FIGURE_SECONDS, WISP_FIGURE_PEAK,   WISP_FIGURE_ACTIVE,
    WISP_FIGURE_LR
};
enum { N_ORDER = sizeof order / sizeof *order, N_FINAL = 11 };

static void time_text(char out[WISP_FIGURE_TEXT], double s)
{
    const long t = (long)(s + 0.5);
    if (s < 60) wisp_print(out, WISP_FIGURE_TEXT, "%.1f s", s);
    else if (t < 3600) wisp_print(out, WISP_FIGURE_TEXT, "%ld:%02ld min", t / 60, t % 60);
    else wisp_print(out, WISP_FIGURE_TEXT, "%ld:%02ld h", t / 3600, t / 60 % 60);
}

/* With a comma between thousands. */
static void count_text(char out[WISP_FIGURE_TEXT], double v)
{
    char plain[WISP_FIGURE_TEXT];
    wisp_print(plain, sizeof plain, v < 100 ? "%.2f" : "%.0f", v);
    const size_t whole = strcspn(plain, ".");
    for (const char *c = plain; *c; c++) {
        *out++ = *c;
        const size_t left = whole - (size_t)(c - plain) - 1;
        if (c < plain + whole - 1 && left % 3 == 0) *out++ = ',';
    }
    *out = 0;
}

const char *wisp_figure_text(char out[WISP_FIGURE_TEXT], enum wisp_figure f, double v)
{
    *out = 0;
    if (isnan(v)) return out;
    if (f == WISP_FIGURE_TRAIN_S || f == WISP_FIGURE_SECONDS) time_text(out, v);
    else if (f == WISP_FIGURE_PEAK) wisp_bytes_text(out, (size_t)v);
    else if (!columns[f].plain) count_text(out, v);
    else wisp_print(out, WISP_FIGURE_TEXT, columns[f].plain, v);
    return out;
}

/* What a run is judged by: its kept epoch; rate, time and memory are those of its last one. */
static double final_figure(const struct wisp_log_run *r, enum wisp_figure f)
{
    const bool of_model = f == WISP_FIGURE_P1 || f == WISP_FIGURE_P3 || f == WISP_FIGURE_P5 ||
                          f == WISP_FIGURE_VALID_LOSS || f == WISP_FIGURE_LOSS;
    return (of_model ? wisp_log_best(r) : wisp_log_end(r))->at[f];
}

static bool in_any(const struct wisp_logs *logs, enum wisp_figure f)
{
    for (size_t i = 0; i < logs->n; i++)
        if (!isnan(final_figure(&logs->run[i], f))) return true;
    return false;
}

static bool differs(const struct wisp_logs *logs, const char *key)
{
    const char *first = NULL;
    bool some = false, absent = false;
    for (size_t i = 0; i < logs->n; i++) {
        if (logs->run[i].n_facts == 0) continue;
        const char *v = wisp_log_fact(&logs->run[i], key);
        if (!v) absent = true;
        else if (!some) first = v, some = true;
        else if (strcmp(first, v) != 0) return true;
    }
    return some && absent;
}

/* Figures of different data say nothing about each other. */
static bool are_comparable(const struct wisp_logs *logs)
{
    return !differs(logs, "data-checksum") && !differs(logs, "validation-rows");
}

/* Is it the best of several that are not all alike? */
static bool is_best(const struct wisp_logs *logs, size_t i, enum wisp_figure f)
{
    const double mine = columns[f].better * final_figure(&logs->run[i], f);
    bool better = false;
    for (size_t k = 0; k < logs->n; k++) {
        const double other = columns[f].better * final_figure(&logs->run[k], f);
        if (other > mine) return false;
        better |= other < mine;
    }
    return better;
}

/* ---- cells ---- */

/* A table that may be wider than the page scrolls by itself, also by keys. */
static void begin_table(struct wisp_drawing *g, const char *what)
{
    wisp_draw(g, "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"");
    wisp_draw_text(g, what);
    wisp_draw(g, "\"><table><thead><tr>");
}

static void put_cell(struct wisp_drawing *g, const char *kind, const char *text)
{
    wisp_draw(g, "<td class=\"%s\">", kind);
    wisp_draw_text(g, text);
    wisp_draw(g, "</td>");
}

static void put_head(struct wisp_drawing *g, const char *kind, const char *text)
{
    wisp_draw(g, "<th scope=\"col\" class=\"%s\">", kind);
    wisp_draw_text(g, text);
    wisp_draw(g, "</th>");
}

static void put_run(struct wisp_drawing *g, const struct wisp_logs *logs, size_t i,
                    const char *scope)
{
    wisp_draw(g, "<th scope=\"%s\" class=\"run\">", scope);
    if (logs->n > 1) wisp_chart_swatch(g, (int)i);
    wisp_draw_text(g, logs->run[i].name);
    wisp_draw(g, "</th>");
}

/* ---- how runs ended ---- */

void wisp_table_final(struct wisp_drawing *g, const struct wisp_logs *logs)
{
    char text[WISP_FIGURE_TEXT];
    const bool compared = are_comparable(logs);
    wisp_draw(g, "<h2>Final figures</h2>\n");
    begin_table(g, "Final figures");
    put_head(g, "", "Run");
    put_head(g, "", "State");
    put_head(g, "number", "Epochs");
    put_head(g, "number", "Kept epoch");
    for (int c = 0; c < N_FINAL; c++)
        if (in_any(logs, order[c])) put_head(g, "number", columns[order[c]].name);
    wisp_draw(g, "</tr></thead>\n<tbody>");
    for (size_t i = 0; i < logs->n; i++) {
        const struct wisp_log_run *r = &logs->run[i];
        wisp_draw(g, "<tr>");
        put_run(g, logs, i, "row");
        put_cell(g, "word", wisp_log_state(r));
        wisp_print(text, sizeof text, r->epochs ? "%d of %d" : "%d", wisp_log_end(r)->epoch,
                   r->epochs);
        put_cell(g, "number", text);
        wisp_print(text, sizeof text, "%d", wisp_log_best(r)->epoch);
        put_cell(g, "number", text);
        for (int c = 0; c < N_FINAL; c++) {
            if (!in_any(logs, order[c])) continue;
            const bool best =
                compared && columns[order[c]].better != 0 && is_best(logs, i, order[c]);
            wisp_draw(g, "<td class=\"number\">%s", best ? "<strong>" : "");
            wisp_draw_text(g, wisp_figure_text(text, order[c], final_figure(r, order[c])));
            wisp_draw(g, "%s</td>", best ? "</strong><span class=\"hidden\"> (best)</span>" : "");
        }
        wisp_draw(g, "</tr>\n");
    }
    wisp_draw(
        g,
        "</tbody></table></div>\n<p class=\"soft\">P@k and losses are those of the kept epoch, "
        "all else of the last one.%s</p>\n",
        compared ? "" : " The runs are of different data, so no figure is marked as the best.");
}

/* ---- what they were told ---- */

static bool is_shown(const char *key)
{
    return strcmp(key, "model") != 0; /* where it lies says nothing of the run */
}

/* Was the key met in a run before this one?  Then it has its row. */
static bool is_seen(const struct wisp_logs *logs, size_t run, const char *key)
{
    for (size_t i = 0; i < run; i++)
        if (wisp_log_fact(&logs->run[i], key)) return true;
    return false;
}

static void put_option(struct wisp_drawing *g, const struct wisp_logs *logs, const char *key,
                       bool each)
{
    wisp_draw(g, "<tr><th scope=\"row\">");
    wisp_draw_text(g, key);
    wisp_draw(g, "</th>");
    for (size_t i = 0; i < logs->n; i++) {
        const struct wisp_log_run *r = &logs->run[i];
        const char *v = wisp_log_fact(r, key);
        if (!each && !v) continue;
        put_cell(g, v && *v ? "" : "soft",
                 v && *v           ? v
                 : v               ? "empty"
                 : r->n_facts == 0 ? "not known"
                                   : "as by default");
        if (!each) break;
    }
    wisp_draw(g, "</tr>\n");
}

/* Rows of all keys that differ, or of all others; returns how many. */
static size_t put_options(struct wisp_drawing *g, const struct wisp_logs *logs, bool each)
{
    size_t n = 0;
    for (size_t i = 0; i < logs->n; i++)
        for (size_t k = 0; k < logs->run[i].n_facts; k++) {
            const char *key = logs->run[i].fact[k].key;
            if (!is_shown(key) || is_seen(logs, i, key) || differs(logs, key) != each) continue;
            if (g) put_option(g, logs, key, each);
            n++;
        }
    return n;
}

void wisp_table_options(struct wisp_drawing *g, const struct wisp_logs *logs)
{
    const size_t n_each = put_options(NULL, logs, true), n_all = put_options(NULL, logs, false);
    if (logs->n > 1) {
        wisp_draw(g, "<h2>What differs between the runs</h2>\n");
        if (n_each == 0)
            wisp_draw(g, "<p>Nothing that the logs tell: neither options nor data.</p>\n");
        else {
            begin_table(g, "Options that differ");
            put_head(g, "", "Option");
            for (size_t i = 0; i < logs->n; i++) put_run(g, logs, i, "col");
            wisp_draw(g, "</tr></thead>\n<tbody>");
            put_options(g, logs, true);
            wisp_draw(g, "</tbody></table></div>\n");
        }
    }
    if (n_all == 0) return;
    wisp_draw(g, "<details><summary>%s (%zu)</summary>\n",
              logs->n > 1 ? "What the runs have in common" : "Data, net and options of the run",
              n_all);
    begin_table(g, "Options");
    put_head(g, "", "Option");
    put_head(g, "", "Value");
    wisp_draw(g, "</tr></thead>\n<tbody>");
    put_options(g, logs, false);
    wisp_draw(g, "</tbody></table></div></details>\n");
}

/* ---- every epoch ---- */

enum { MOST_ROWS = 1000 };

static void put_epoch(struct wisp_drawing *g, const struct wisp_logs *logs,
                      const struct wisp_log_epoch *e)
{
    char text[WISP_FIGURE_TEXT];
    wisp_draw(g, "<tr><th scope=\"row\" class=\"number\">%d%s</th>", e->epoch,
              e->best ? "<span class=\"hidden\"> (better than all before)</span>"
                        "<span aria-hidden=\"true\"> *</span>"
                      : "");
    for (int c = 0; c < N_ORDER; c++)
        if (in_any(logs, order[c]))
            put_cell(g, "number", wisp_figure_text(text, order[c], e->at[order[c]]));
    wisp_draw(g, "</tr>\n");
}

void wisp_table_epochs(struct wisp_drawing *g, const struct wisp_logs *logs)
{
    for (size_t i = 0; i < logs->n; i++) {
        const struct wisp_log_run *r = &logs->run[i];
        const size_t from = r->n > MOST_ROWS ? r->n - MOST_ROWS : 0;
        wisp_draw(g, "<details><summary>");
        wisp_draw_text(g, r->name);
        wisp_draw(g, ": %zu epoch%s%s</summary>\n", r->n, wisp_plural(r->n),
                  from ? ", the last 1000" : "");
        begin_table(g, r->name);
        put_head(g, "number", "Epoch");
        for (int c = 0; c < N_ORDER; c++)
            if (in_any(logs, order[c])) put_head(g, "number", columns[order[c]].name);
        wisp_draw(g, "</tr></thead>\n<tbody>");
        for (size_t k = from; k < r->n; k++) put_epoch(g, logs, &r->epoch[k]);
        wisp_draw(g, "</tbody></table></div></details>\n");
    }
}
