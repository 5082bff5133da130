/* Tables of text: CSV (RFC 4180) and TSV, with a column of text and one of labels.
 *
 *   text,label
 *   "How long does bread keep?",bread
 *   "Two lines,
 *   one ""cell""",storage
 *
 * A cell may be quoted; within quotes separators and line ends are text, and a doubled quote is one
 * quote.  A quote that does not begin a cell is an ordinary character.  The first line names the
 * columns; without one (--no-header) columns are numbered from 1.  Every row has as many cells as
 * the first line.  Blank lines are no rows, unless every line is to be answered. */
#include "data/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table {
    const struct wisp_source *src;
    char separator;
    const char *what;                           /* the format's name */
    int n_columns;                              /* 0: not known yet */
    int text[WISP_TEXT_COLUMNS], n_text, label; /* columns from 0; label -1: none */
};

struct cell {
    const char *p, *end; /* as it stands, within its quotes */
    bool quoted, doubled;
};

/* The cell at p; returns what follows it: a separator, a line end, or NULL for a quote that does
 * not end where a cell may end.  'end' is where the text ends. */
static const char *read_cell(struct cell *c, const char *p, const char *end, char separator)
{
    *c = (struct cell){ .p = p };
    if (p < end && *p == '"') {
        c->quoted = true;
        c->p = ++p;
        for (;; p += 2, c->doubled = true) {
            p = memchr(p, '"', (size_t)(end - p));
            if (!p) return NULL;
            if (p + 1 == end || p[1] != '"') break;
        }
        c->end = p++;
    } else {
        while (p < end && *p != separator && *p != '\n') p++;
        c->end = p;
        if (p > c->p && p[-1] == '\r' && (p == end || *p == '\n')) c->end--;
    }
    if (p < end && *p == '\r' && (p + 1 == end || p[1] == '\n')) p++;
    return p == end || *p == separator || *p == '\n' ? p : NULL;
}

/* The end of the last whole row.  Rows are walked from the first, since a line end may be quoted.
 */
static const char *cut(void *table, const char *p, const char *end)
{
    const char separator = ((struct table *)table)->separator, *last = NULL;
    bool begin = true, quoted = false;
    for (; p < end; p++) {
        if (quoted) {
            p = memchr(p, '"', (size_t)(end - p));
            if (!p) break;
            quoted = false; /* the second of two opens it again */
            begin = true;
        } else if (*p == '"' && begin) {
            quoted = true;
        } else {
            begin = *p == separator || *p == '\n';
            if (*p == '\n') last = p + 1;
        }
    }
    return last;
}

static wisp_status bad_cell(const struct cell *c, const char *end, wisp_error *err)
{
    char buf[WISP_EXCERPT];
    return wisp_fail(err, WISP_EFORMAT,
                     "'%s': a quoted cell must end with a quote and then a separator or the end of "
                     "the line; quotes within it are doubled",
                     wisp_text_excerpt(buf, c->p, end, NULL));
}

/* A cell's text: where it stands, or, with its doubled quotes made single, in the room of w. */
static wisp_status cell_text(const char **out, size_t *n, struct wisp_words *w,
                             const struct cell *c, wisp_error *err)
{
    *out = c->p;
    *n = (size_t)(c->end - c->p);
    if (!c->doubled) return WISP_OK;
    char *to = wisp_words_room(w, *n, err);
    if (!to) return WISP_ENOMEM;
    *out = to;
    for (const char *p = c->p; p < c->end; p++) {
        *to++ = *p;
        if (*p == '"') p++;
    }
    *n = (size_t)(to - *out);
    return WISP_OK;
}

/* ---- the header ---- */

/* "'a', 'b' and 2 more" */
static void list_columns(char *out, size_t room, const char *p, const char *end, char separator)
{
    struct cell c;
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; p && p <= end && at + 60 < room; i++) {
        p = read_cell(&c, p, end, separator);
        if (!p) break;
        char name[WISP_EXCERPT];
        at += (size_t)snprintf(out + at, room - at, "%s'%s'", i ? ", " : "",
                               wisp_text_excerpt(name, c.p, c.end, NULL));
        if (p == end) break;
        p++;
    }
}

/* Columns by number, as the options list them ("2" or "2,3"); false: not all are numbers. */
static bool by_number(struct table *t)
{
    const struct wisp_text_how *how = &t->src->o->text;
    const char *p = how->text_column;
    char *end;
    t->n_text = 0;
    t->label = -1;
    for (long n; *p; p = *end ? end + 1 : end) {
        n = strtol(p, &end, 10);
        if (end == p || (*end && *end != ',') || n < 1 || n > 1000000) return false;
        if (t->n_text < WISP_TEXT_COLUMNS) t->text[t->n_text++] = (int)n - 1;
    }
    if (*how->label_column) {
        long n = strtol(how->label_column, &end, 10);
        if (*end || n < 1 || n > 1000000) return false;
        t->label = (int)n - 1;
    }
    return t->n_text > 0;
}

static void by_name(struct table *t, const char *p, const char *end)
{
    const struct wisp_text_how *how = &t->src->o->text;
    struct cell c;
    int listed = wisp_text_columns_listed(how);
    bool have[WISP_TEXT_COLUMNS] = { false };
    t->n_text = 0;
    t->label = -1;
    for (int i = 0; p; i++) {
        p = read_cell(&c, p, end, t->separator);
        if (!p) break;
        size_t n = (size_t)(c.end - c.p);
        int place = wisp_text_column(how, c.p, n);
        if (place >= 0 && place < WISP_TEXT_COLUMNS && !have[place]) {
            have[place] = true;
            t->text[place] = i;
            t->n_text++;
        } else if (t->label < 0 && wisp_label_column(how, c.p, n) >= 0) {
            t->label = i;
        }
        if (p == end) break;
        p++;
    }
    if (t->n_text < listed) t->n_text = 0; /* a listed one is missing */
}

static wisp_status first(void *table, const char *begin, const char *end, bool *taken,
                         wisp_error *err)
{
    struct table *t = table;
    const struct wisp_read_options *o = t->src->o;
    struct cell c;
    char columns[300];
    t->n_columns = 0;
    for (const char *p = begin; p; p++) {
        p = read_cell(&c, p, end, t->separator);
        if (!p)
            return wisp_fail_at(err, WISP_EFORMAT, t->src->path, 1,
                                "a quoted cell of the first line does not end on it");
        t->n_columns++;
        if (p == end) break;
    }
    *taken = !o->no_header;
    bool numbers = by_number(t);
    if (!numbers && !o->no_header) by_name(t, begin, end);
    list_columns(columns, sizeof columns, begin, end, t->separator);
    if (!numbers && o->no_header)
        return wisp_fail_at(err, WISP_EINVAL, t->src->path, 0,
                            "%s without a header: give --text-column and --label-column by their "
                            "numbers, from 1",
                            t->what);
    for (int i = 0; i < t->n_text; i++)
        if (t->text[i] >= t->n_columns) t->n_text = 0;
    if (t->n_text == 0)
        return wisp_fail_at(err, WISP_EFORMAT, t->src->path, 1,
                            "no column of text%s%s%s among %s: name it with --text-column (by its "
                            "name, or its number from 1)",
                            *o->text.text_column ? " '" : "", o->text.text_column,
                            *o->text.text_column ? "'" : "", columns);
    if (t->label >= t->n_columns) t->label = -1;
    if (t->label < 0 && !o->every_line) /* rows to be predicted need no labels */
        return wisp_fail_at(err, WISP_EFORMAT, t->src->path, 1,
                            "no column of labels%s%s%s among %s: name it with --label-column (by "
                            "its name, or its number from 1)",
                            *o->text.label_column ? " '" : "", o->text.label_column,
                            *o->text.label_column ? "'" : "", columns);
    return WISP_OK;
}

/* ---- rows ---- */

static wisp_status see(const struct table *t, struct wisp_words *w, const struct cell *c,
                       int column, wisp_error *err)
{
    const char *p;
    size_t n;
    bool text = false;
    for (int i = 0; i < t->n_text; i++) text |= t->text[i] == column;
    if (!text && column != t->label) return WISP_OK;
    wisp_status st = cell_text(&p, &n, w, c, err);
    if (st == WISP_OK && text) st = wisp_words_text(w, p, n, err);
    if (st == WISP_OK && column == t->label)
        st = wisp_words_labels(w, p, n, t->src->o->text.label_separator, err);
    return st;
}

/* The row at *at; moves behind its line end. */
static wisp_status row(const struct table *t, struct wisp_words *w, const char **at,
                       const char *end, wisp_error *err)
{
    struct cell c;
    const char *p = *at;
    wisp_status st = WISP_OK;
    int n = 0;
    for (;; p++, n++) {
        const char *next = read_cell(&c, p, end, t->separator);
        if (!next) return bad_cell(&c, end, err);
        st = see(t, w, &c, n, err);
        if (st != WISP_OK) return st;
        p = next;
        if (*p == '\n') break;
    }
    *at = p + 1;
    if (n + 1 != t->n_columns)
        return wisp_fail(err, WISP_EFORMAT,
                         "%d cells, but the first line has %d; a cell with a separator in it must "
                         "be quoted",
                         n + 1, t->n_columns);
    return wisp_words_end(w, err);
}

static bool is_blank_line(const char *p)
{
    return *p == '\n' || (*p == '\r' && p[1] == '\n');
}

static wisp_status parse(void *table, struct wisp_words *w, const struct wisp_chunk *c,
                         size_t *line, wisp_error *err)
{
    const struct table *t = table;
    wisp_status st = WISP_OK;
    for (const char *p = c->begin, *from; p < c->end && st == WISP_OK;) {
        from = p;
        if (is_blank_line(p) && t->n_columns > 1) {
            p = (const char *)rawmemchr(p, '\n') + 1;
            st = wisp_words_blank(w, err);
        } else {
            st = row(t, w, &p, c->end, err);
        }
        for (; st == WISP_OK && from < p; from++) *line += *from == '\n';
    }
    return st;
}

static wisp_status read_table(struct wisp_source *src, struct wisp_sink *sink, char separator,
                              const char *what, wisp_error *err)
{
    struct table t = { .src = src, .separator = separator, .what = what };
    const struct wisp_words_format f = { .arg = &t, .first = first, .cut = cut, .parse = parse };
    return wisp_words_read(src, sink, &f, err);
}

static wisp_status csv_read(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    return read_table(src, sink, ',', "csv", err);
}

static wisp_status tsv_read(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    return read_table(src, sink, '\t', "tsv", err);
}

/* ---- probing ---- */

/* Ours by its name, or by a first line that names a column of text and one of labels. */
static bool probe(const char *path, const char *head, size_t n, const char *ending, char separator)
{
    if (wisp_path_ends(path, ending)) return true;
    const char *nl = memchr(head, '\n', n), *end = nl;
    if (!nl) return false;
    if (end > head && end[-1] == '\r') end--;
    struct wisp_read_options o = { 0 };
    struct wisp_source src = { .path = path, .o = &o };
    struct table t = { .src = &src, .separator = separator };
    by_name(&t, head, end);
    return t.n_text > 0 && t.label >= 0;
}

static bool csv_probe(const char *path, const char *head, size_t n)
{
    return probe(path, head, n, ".csv", ',');
}

static bool tsv_probe(const char *path, const char *head, size_t n)
{
    return probe(path, head, n, ".tsv", '\t');
}

const struct wisp_format wisp_format_csv = {
    .name = "csv",
    .what = "a table with a column of text and one of labels, cells separated by commas",
    .index_base = -1,
    .words = true,
    .table = true,
    .probe = csv_probe,
    .read = csv_read,
};

const struct wisp_format wisp_format_tsv = {
    .name = "tsv",
    .what = "the same with tabs",
    .index_base = -1,
    .words = true,
    .table = true,
    .probe = tsv_probe,
    .read = tsv_read,
};
