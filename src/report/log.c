/* Reading logs: a line at a time, each by jansson; what does not fit is noted, not refused.
 *
 *   epoch 1 of a new run begins a run
 *   epoch n + 1          goes on with it
 *   epoch m <= n, m > 1  the run was resumed from an earlier checkpoint: epochs from m on are those
 *                        of the new lines
 *   epoch m > n + 1      goes on, and a note says what is missing
 *
 * A resumed run counts its seconds from 0 again; here they go on. */
#include "report/log.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Where the figures stand in a line, and what they are taken for; numbers out of these bounds say
 * nothing ("valid_p@1":-1 is a run without validation rows). */
static const struct {
    const char *key;
    double times, least, most;
} figures[WISP_N_FIGURES] = {
    [WISP_FIGURE_LOSS] = { "loss", 1, -1e15, 1e15 },
    [WISP_FIGURE_VALID_LOSS] = { "valid_loss", 1, 0, 1e15 },
    [WISP_FIGURE_P1] = { "valid_p@1", 1, 0, 100 },
    [WISP_FIGURE_P3] = { "valid_p@3", 1, 0, 100 },
    [WISP_FIGURE_P5] = { "valid_p@5", 1, 0, 100 },
    [WISP_FIGURE_RATE] = { "rows_per_s", 1, 1e-9, 1e15 },
    [WISP_FIGURE_ACTIVE] = { "active_mean", 1, 0, 1e15 },
    [WISP_FIGURE_SCORED] = { "scored_mean", 1, 0, 1e15 },
    [WISP_FIGURE_RECALL] = { "retrieval_recall", 100, 0, 100 },
    [WISP_FIGURE_LR] = { "lr", 1, 0, 1e15 },
    [WISP_FIGURE_TRAIN_S] = { "train_seconds", 1, 0, 1e12 },
    [WISP_FIGURE_SECONDS] = { "seconds", 1, 0, 1e12 },
    [WISP_FIGURE_PEAK] = { "peak_bytes", 1, 1, 1e15 },
};

struct reader {
    struct wisp_logs *to;
    const char *path;
    struct wisp_log_run *run;      /* NULL: none yet */
    double raw[2], before[2];      /* seconds of the line before; those before a resume */
    size_t n_bad, first_bad, line; /* lines that are no epochs; the line that is read */
    size_t n_zeros;                /* numbers kept of them */
    size_t n_more;                 /* epochs of runs for which there is no place */
    bool full, ends;               /* no place for a run; the last line has an end */
    wisp_error *err;
};

enum { NAME_BYTES = 200, VALUE_BYTES = 1000, NOTE_BYTES = 300, MOST_ZEROS = 1 << 24 };

/* At most 'most' bytes of a text in UTF-8, whole characters. */
static char *copy_text(const char *s, size_t most)
{
    size_t n = strlen(s);
    if (n > most)
        for (n = most; n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80;) n--;
    char *to = wisp_alloc(n + 1, 1);
    if (to) memcpy(to, s, n), to[n] = 0;
    return to;
}

static wisp_status no_memory(struct reader *r)
{
    return wisp_fail_mem(r->err, 4096, "a log");
}

__attribute__((format(printf, 2, 3))) static wisp_status note(struct reader *r, const char *fmt,
                                                              ...)
{
    struct wisp_log_run *run = r->run;
    char text[NOTE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    wisp_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    if (run->n_notes == 20) return WISP_OK; /* enough to see that the log is no good */
    if (!wisp_grow(&run->note, run->n_notes, &run->cap_notes, sizeof *run->note) ||
        !(run->note[run->n_notes] = copy_text(text, sizeof text)))
        return no_memory(r);
    run->n_notes++;
    return WISP_OK;
}

/* ---- what a run says of itself ---- */

const char *wisp_log_fact(const struct wisp_log_run *r, const char *key)
{
    for (size_t i = 0; i < r->n_facts; i++)
        if (strcmp(r->fact[i].key, key) == 0) return r->fact[i].value;
    return NULL;
}

/* A value as text; false: it is none of those that have one. */
static bool value_text(char out[VALUE_BYTES + 1], const json_t *v)
{
    if (json_is_string(v)) snprintf(out, VALUE_BYTES + 1, "%s", json_string_value(v));
    else if (json_is_integer(v)) snprintf(out, 40, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v)) wisp_print(out, 40, "%.6g", json_real_value(v));
    else if (json_is_boolean(v)) snprintf(out, 40, "%s", json_is_true(v) ? "yes" : "no");
    else return false;
    return true;
}

/* Facts of an object and of those in it.  Of two with one name, the first counts: what was chosen
 * comes before the options, and says more than "auto". */
static wisp_status take_facts(struct reader *r, json_t *object, int depth)
{
    struct wisp_log_run *run = r->run;
    const char *name;
    json_t *v;
    json_object_foreach(object, name, v)
    {
        char key[NAME_BYTES + 1], text[VALUE_BYTES + 1];
        if (json_is_object(v) && depth == 0) {
            wisp_status st = take_facts(r, v, 1);
            if (st != WISP_OK) return st;
            continue;
        }
        snprintf(key, sizeof key, "%s", name);
        for (char *c = key; *c; c++)
            if (*c == '_') *c = '-';
        if (run->n_facts == WISP_MOST_FACTS || !value_text(text, v) || wisp_log_fact(run, key))
            continue;
        if (!wisp_grow(&run->fact, run->n_facts, &run->cap_facts, sizeof *run->fact))
            return no_memory(r);
        struct wisp_log_fact *f = &run->fact[run->n_facts];
        *f = (struct wisp_log_fact){ copy_text(key, NAME_BYTES), copy_text(text, VALUE_BYTES) };
        run->n_facts++; /* also half made: clearing frees both */
        if (!f->key || !f->value) return no_memory(r);
    }
    return WISP_OK;
}

/* ---- an epoch ---- */

static double number(const json_t *v, double least, double most)
{
    const double x = json_is_number(v) ? json_number_value(v) : NAN;
    return x >= least && x <= most ? x : NAN;
}

/* The place of a layer among those of the run; WISP_MOST_LAYERS: they are too many, SIZE_MAX: there is
 * no memory. */
static size_t layer_place(struct reader *r, const char *name)
{
    struct wisp_log_run *run = r->run;
    size_t i = 0;
    while (i < run->n_layers && strcmp(run->layer[i], name) != 0) i++;
    if (i < run->n_layers || i == WISP_MOST_LAYERS) return i;
    if (!wisp_grow(&run->layer, i, &run->cap_layers, sizeof *run->layer) ||
        !(run->layer[i] = copy_text(name, NAME_BYTES)))
        return SIZE_MAX;
    run->n_layers++;
    return i;
}

static wisp_status take_zeros(struct reader *r, struct wisp_log_epoch *e, json_t *zeros)
{
    const char *name;
    json_t *v;
    if (!json_is_object(zeros) || json_object_size(zeros) == 0) return WISP_OK;
    json_object_foreach(zeros, name, v) if (layer_place(r, name) == SIZE_MAX) return no_memory(r);
    const size_t n = r->run->n_layers;
    if (r->n_zeros + n > MOST_ZEROS) return WISP_OK;
    if (!(e->zeros = wisp_alloc(n, sizeof *e->zeros))) return no_memory(r);
    r->n_zeros += e->n_zeros = n;
    for (size_t i = 0; i < n; i++) e->zeros[i] = NAN;
    json_object_foreach(zeros, name, v)
    {
        const size_t i = layer_place(r, name);
        if (i < n) e->zeros[i] = (float)number(v, 0, 1);
    }
    return WISP_OK;
}

/* Epochs from this one on will be told anew. */
static void forget_from(struct wisp_log_run *run, int epoch)
{
    while (run->n > 0 && run->epoch[run->n - 1].epoch >= epoch) {
        run->n--;
        wisp_free(run->epoch[run->n].zeros);
    }
}

static bool name_is_taken(const struct wisp_logs *logs, const char *name)
{
    for (size_t i = 0; i < logs->n; i++)
        if (strcmp(logs->run[i].name, name) == 0) return true;
    return false;
}

/* A run more, with a name that no other has. */
static wisp_status begin_run(struct reader *r)
{
    struct wisp_logs *to = r->to;
    const char *slash = strrchr(r->path, '/'), *file = slash ? slash + 1 : r->path;
    char base[WISP_SHOW_BYTES(48)], name[sizeof base + 24];
    wisp_text_show(base, file, strlen(file), 48);
    snprintf(name, sizeof name, "%s", base);
    for (int i = 2; name_is_taken(to, name); i++) snprintf(name, sizeof name, "%s (%d)", base, i);
    r->run = &to->run[to->n];
    *r->run = (struct wisp_log_run){ .name = copy_text(name, sizeof name) };
    if (!r->run->name) return no_memory(r);
    to->n++;
    r->raw[0] = r->raw[1] = r->before[0] = r->before[1] = 0;
    return WISP_OK;
}

/* The run that an epoch belongs to, ready to take it. */
static wisp_status find_run(struct reader *r, int epoch)
{
    wisp_status st = WISP_OK;
    if (!r->run || epoch == 1) {
        if (r->to->n == WISP_MOST_RUNS) {
            r->full = true;
            return WISP_OK;
        }
        st = begin_run(r);
        if (st == WISP_OK && epoch > 1) st = note(r, "The log begins with epoch %d.", epoch);
        return st;
    }
    const int last = wisp_log_end(r->run)->epoch;
    if (epoch <= last) {
        st = note(r, "Epochs from %d on are those after the run was resumed.", epoch);
        if (r->run->epoch[0].epoch < epoch) forget_from(r->run, epoch);
        else st = begin_run(r); /* nothing would be left */
    } else if (epoch == last + 2) st = note(r, "Epoch %d is not in the log.", last + 1);
    else if (epoch > last + 2)
        st = note(r, "Epochs %d to %d are not in the log.", last + 1, epoch - 1);
    return st;
}

/* Seconds go on where those of the line begin again. */
static void take_times(struct reader *r, struct wisp_log_epoch *e, bool resumed)
{
    static const enum wisp_figure times[2] = { WISP_FIGURE_TRAIN_S, WISP_FIGURE_SECONDS };
    for (int i = 0; i < 2; i++) {
        double *at = &e->at[times[i]];
        if (isnan(*at)) continue;
        if (r->run->n > 0 && (resumed || *at < r->raw[i])) {
            const double so_far = wisp_log_end(r->run)->at[times[i]];
            if (!isnan(so_far)) r->before[i] = so_far;
        }
        r->raw[i] = *at;
        *at += r->before[i];
    }
}

static wisp_status take_epoch(struct reader *r, json_t *line, int epoch)
{
    wisp_status st = find_run(r, epoch);
    struct wisp_log_run *run = r->run;
    if (st != WISP_OK) return st;
    if (r->full || run->n == WISP_MOST_EPOCHS) {
        r->n_more++;
        return WISP_OK;
    }
    if (!wisp_grow(&run->epoch, run->n, &run->cap, sizeof *run->epoch)) return no_memory(r);
    struct wisp_log_epoch e = { .epoch = epoch };
    json_t *facts = json_object_get(line, "run");
    for (int i = 0; i < WISP_N_FIGURES; i++)
        e.at[i] = figures[i].times * number(json_object_get(line, figures[i].key),
                                            figures[i].least / figures[i].times,
                                            figures[i].most / figures[i].times);
    e.best = json_number_value(json_object_get(line, "best")) > 0;
    take_times(r, &e, facts != NULL);
    st = take_zeros(r, &e, json_object_get(line, "zeros"));
    run->epoch[run->n++] = e; /* cleared with the run, whatever follows */
    const double epochs = number(json_object_get(line, "epochs"), 1, WISP_MOST_EPOCHS);
    run->epochs = isnan(epochs) ? run->epochs : (int)epochs;
    run->ended = json_number_value(json_object_get(line, "last")) > 0;
    return st == WISP_OK && json_is_object(facts) && run->n_facts == 0 ? take_facts(r, facts, 0)
                                                                       : st;
}

/* ---- a file ---- */

static wisp_status take_line(struct reader *r, const char *p, size_t n)
{
    json_t *line = json_loadb(p, n, 0, NULL);
    const double epoch = number(json_object_get(line, "epoch"), 1, WISP_MOST_EPOCHS);
    wisp_status st = WISP_OK;
    if (epoch == floor(epoch)) st = take_epoch(r, line, (int)epoch);
    else if (r->n_bad++ == 0) r->first_bad = r->line;
    json_decref(line);
    return st;
}

static bool is_blank(const char *p, size_t n)
{
    while (n > 0 && strchr(" \t\r", p[n - 1]) && p[n - 1]) n--;
    return n == 0;
}

static wisp_status take_lines(struct reader *r, const char *p, size_t bytes)
{
    wisp_status st = WISP_OK;
    for (size_t at = 0; at < bytes && st == WISP_OK;) {
        const char *end = memchr(p + at, '\n', bytes - at);
        const size_t n = end ? (size_t)(end - p) - at : bytes - at;
        r->line++;
        r->ends = end != NULL;
        if (!is_blank(p + at, n)) st = take_line(r, p + at, n);
        at += n + 1;
    }
    return st;
}

/* A file without an epoch is no log. */
static wisp_status refuse(const struct reader *r, const char *p, size_t bytes)
{
    char shown[WISP_SHOW_BYTES(40)];
    if (r->n_bad == 0)
        return wisp_fail_at(r->err, WISP_EFORMAT, r->path, 0,
                            "the log is empty; a run writes the first line of its --log when its "
                            "first epoch ends");
    for (size_t line = 1; line < r->first_bad; line++) {
        const char *end = memchr(p, '\n', bytes);
        bytes -= (size_t)(end + 1 - p);
        p = end + 1;
    }
    const char *end = memchr(p, '\n', bytes);
    return wisp_fail_at(
        r->err, WISP_EFORMAT, r->path, r->first_bad,
        "expected the line of an epoch as 'wisp train --log' writes it, {\"epoch\":1,...}; found "
        "'%s'",
        wisp_text_show(shown, p, end ? (size_t)(end - p) : bytes, 40));
}

/* What is said of a file as a whole stands with its last run. */
static wisp_status note_file(struct reader *r)
{
    wisp_status st = WISP_OK;
    const bool cut = r->n_bad == 1 && r->first_bad == r->line && !r->ends;
    if (cut) st = note(r, "The last line of the log is cut and was left out.");
    else if (r->n_bad == 1)
        st = note(r, "Line %zu of the log is no epoch's and was left out.", r->first_bad);
    else if (r->n_bad > 1)
        st =
            note(r, "%zu lines of the log are no epochs' and were left out; the first is line %zu.",
                 r->n_bad, r->first_bad);
    if (st == WISP_OK && r->n_more)
        st = note(r, "%zu further epochs of the log were left out: a report has at most %d runs.",
                  r->n_more, WISP_MOST_RUNS);
    return st;
}

static wisp_status note_run(struct reader *r, struct wisp_log_run *run)
{
    wisp_status st = WISP_OK;
    const char *sampling = wisp_log_fact(run, "sampling");
    r->run = run;
    if (run->n_facts == 0)
        st = note(r, "The log does not say what the run is: its options are not known.");
    if (st == WISP_OK && !run->ended && run->n_facts > 0)
        st = note(r, "The run was stopped, or has not ended yet.");
    if (sampling && strcmp(sampling, "full") == 0) /* what is then all labels, and found */
        for (size_t i = 0; i < run->n; i++) {
            double *at = run->epoch[i].at;
            at[WISP_FIGURE_ACTIVE] = at[WISP_FIGURE_SCORED] = at[WISP_FIGURE_RECALL] = NAN;
        }
    return st;
}

wisp_status wisp_logs_read(struct wisp_logs *to, const char *path, wisp_error *err)
{
    struct reader r = { .to = to, .path = path, .err = err };
    struct wisp_map map;
    const size_t had = to->n;
    wisp_status st = wisp_map_open(&map, path, err);
    if (st != WISP_OK) return st;
    if (map.bytes > WISP_MOST_LOG_BYTES)
        st = wisp_fail_at(err, WISP_EFORMAT, path, 0, "%zu MiB; logs of up to %d MiB are read",
                          map.bytes >> 20, WISP_MOST_LOG_BYTES >> 20);
    if (st == WISP_OK) st = take_lines(&r, (const char *)map.p, map.bytes);
    if (st == WISP_OK && to->n == had)
        st = r.full ? wisp_fail_at(err, WISP_EFORMAT, path, 0,
                                   "one run too many: a report has at most %d", WISP_MOST_RUNS)
                    : refuse(&r, (const char *)map.p, map.bytes);
    if (st == WISP_OK) st = note_file(&r);
    for (size_t i = had; i < to->n && st == WISP_OK; i++) st = note_run(&r, &to->run[i]);
    return wisp_map_end(&map, st, err);
}

const struct wisp_log_epoch *wisp_log_best(const struct wisp_log_run *r)
{
    for (size_t i = r->n; i-- > 0;)
        if (r->epoch[i].best) return &r->epoch[i];
    return wisp_log_end(r);
}

/* A log that does not say what the run is does not say either that it has ended. */
const char *wisp_log_state(const struct wisp_log_run *r)
{
    const bool all = wisp_log_end(r)->epoch >= r->epochs;
    if (!r->ended) return r->n_facts == 0 && all ? "finished" : "not finished";
    return all ? "finished" : "ended early";
}

void wisp_logs_clear(struct wisp_logs *logs)
{
    for (size_t k = 0; k < logs->n; k++) {
        struct wisp_log_run *r = &logs->run[k];
        for (size_t i = 0; i < r->n; i++) wisp_free(r->epoch[i].zeros);
        for (size_t i = 0; i < r->n_facts; i++) {
            wisp_free(r->fact[i].key);
            wisp_free(r->fact[i].value);
        }
        for (size_t i = 0; i < r->n_layers; i++) wisp_free(r->layer[i]);
        for (size_t i = 0; i < r->n_notes; i++) wisp_free(r->note[i]);
        wisp_free(r->name);
        wisp_free(r->epoch);
        wisp_free(r->fact);
        wisp_free(r->layer);
        wisp_free(r->note);
    }
    logs->n = 0;
}
