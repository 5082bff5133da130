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

/* Is the first line one?  The options say so, or the model that the rows go with. */
static bool names_columns(const struct wisp_read_options *o)
{
    return !o->no_header && !o->text.no_header;
}

/* The next cell of a first line that begins at *at, which becomes NULL behind the last one; false: there
 * is none, or its quotes do not end. */
static bool next_cell(struct cell *c, const char **at, const char *end, char separator)
{
    const char *next = *at ? read_cell(c, *at, end, separator) : NULL;
    *at = next && next != end ? next + 1 : NULL;
    return next != NULL;
}

static bool same_cell(const struct cell *a, const struct cell *b)
{
    return a->end - a->p == b->end - b->p && memcmp(a->p, b->p, (size_t)(a->end - a->p)) == 0;
}

/* "'a', 'b' and 2 more" */
static void list_columns(char *out, size_t room, const char *p, const char *end, char separator)
{
    struct cell c;
    size_t at = 0;
    out[0] = 0;
    while (at + 60 < room && next_cell(&c, &p, end, separator)) {
        char name[WISP_EXCERPT];
        at += (size_t)snprintf(out + at, room - at, "%s'%s'", at ? ", " : "",
                               wisp_text_excerpt(name, c.p, c.end, NULL));
    }
}

/* A column by its number from 1, up to a ',' where 'many'; -1: none.  Moves behind it. */
static int number_at(const char **at, bool many)
{
    char *end;
    const long n = strtol(*at, &end, 10);
    if (end == *at || (*end && !(many && *end == ',')) || n < 1 || n > 1000000) return -1;
    *at = *end ? end + 1 : end;
    return (int)n - 1;
}

/* Columns of text by number, as the option lists them ("2" or "2,3"), if all are numbers. */
static void text_by_number(struct table *t)
{
    const char *p = t->src->o->text.text_column;
    t->n_text = 0;
    while (*p) {
        const int n = number_at(&p, true);
        if (n < 0) {
            t->n_text = 0;
            return;
        }
        if (t->n_text < WISP_TEXT_COLUMNS) t->text[t->n_text++] = n;
    }
}

static void label_by_number(struct table *t)
{
    const char *p = t->src->o->text.label_column;
    t->label = *p ? number_at(&p, false) : -1;
}

static bool is_text(const struct table *t, int column)
{
    for (int i = 0; i < t->n_text; i++)
        if (t->text[i] == column) return true;
    return false;
}

/* Columns by the names of the first line.  'twice': one whose name a column before it has, too. */
static void text_by_name(struct table *t, const char *p, const char *end, struct cell *twice)
{
    const struct wisp_text_how *how = &t->src->o->text;
    struct cell c, seen[WISP_TEXT_COLUMNS] = { 0 };
    t->n_text = 0;
    for (int i = 0; next_cell(&c, &p, end, t->separator); i++) {
        const int place = wisp_text_column(how, c.p, (size_t)(c.end - c.p));
        if (place < 0 || place >= WISP_TEXT_COLUMNS) continue;
        if (!seen[place].p) seen[place] = c, t->text[place] = i, t->n_text++;
        else if (same_cell(&seen[place], &c)) *twice = c;
    }
    if (t->n_text < wisp_text_columns_listed(how)) t->n_text = 0; /* a listed one is missing */
}

/* The column of labels by its name; by a usual name no column of text. */
static void label_by_name(struct table *t, const char *p, const char *end, struct cell *twice)
{
    const struct wisp_text_how *how = &t->src->o->text;
    struct cell c, seen = { 0 };
    t->label = -1;
    for (int i = 0; next_cell(&c, &p, end, t->separator); i++) {
        const bool meant = wisp_label_column(how, c.p, (size_t)(c.end - c.p)) >= 0;
        if (!meant || (!*how->label_column && is_text(t, i))) continue;
        if (!seen.p) t->label = i, seen = c;
        else if (same_cell(&seen, &c)) *twice = c;
    }
}

/* Would a CR as the end of lines make two of the first that have as many cells? */
static bool ends_in_cr(const char *begin, const char *end, char separator)
{
    const char *first_end = memchr(begin, '\r', (size_t)(end - begin));
    if (!first_end || first_end + 1 >= end) return false;
    const char *next = memchr(first_end + 1, '\r', (size_t)(end - first_end - 1));
    int n = 0;
    for (const char *p = begin; p < first_end; p++) n += *p == separator;
    for (const char *p = first_end; p < (next ? next : end); p++) n -= *p == separator;
    return n == 0;
}

/* The columns of the first line: how many there are. */
static wisp_status count_columns(struct table *t, const char *begin, const char *end,
                                 wisp_error *err)
{
    struct cell c;
    t->n_columns = 0;
    if (ends_in_cr(begin, end, t->separator))
        return wisp_fail_at(err, WISP_EFORMAT, t->src->path, 1,
                            "lines that end in CR alone, expected LF or CR LF (tr '\\r' '\\n' "
                            "turns one into the other)");
    for (const char *p = begin; p; t->n_columns++)
        if (!next_cell(&c, &p, end, t->separator))
            return wisp_fail_at(err, WISP_EFORMAT, t->src->path, 1,
                                "a quoted cell of the first line does not end on it");
    return WISP_OK;
}

/* "no column of text 'a' among ...: name it with --text-column": what is said of a missing one. */
static wisp_status no_column(const struct table *t, const char *what, const char *option,
                             const char *listed, const char *columns, wisp_error *err)
{
    return wisp_fail_at(err, WISP_EFORMAT, t->src->path, 1,
                        "no column of %s%s%s%s among %s: name it with --%s (by its name as it is "
                        "written there, or its number from 1)%s",
                        what, *listed ? " '" : "", listed, *listed ? "'" : "", columns, option,
                        t->src->o->like ? "; where lines are texts, not a table, say --format "
                                          "fasttext"
                                        : "");
}

static wisp_status choose_columns(struct table *t, const char *begin, const char *end,
                                  wisp_error *err)
{
    const struct wisp_text_how *how = &t->src->o->text;
    struct cell twice = { 0 }, none;
    char columns[300], name[WISP_EXCERPT];
    const bool named = names_columns(t->src->o), answers = t->src->o->every_line;
    list_columns(columns, sizeof columns, begin, end, t->separator);
    t->n_text = 0;
    t->label = -1;
    /* A name that looks like a number is a name. */
    if (named) text_by_name(t, begin, end, &twice);
    if (t->n_text == 0) text_by_number(t);
    if (named) label_by_name(t, begin, end, answers ? &none : &twice); /* not needed for answers */
    if (t->label < 0) label_by_number(t);
    if (!named && (t->n_text == 0 || (*how->label_column && t->label < 0)))
        return wisp_fail_at(err, WISP_EINVAL, t->src->path, 0,
                            "%s without a header: give --text-column and --label-column by their "
                            "numbers, from 1 (where it has one: --no-header=0)",
                            t->what);
    if (twice.p)
        return wisp_fail_at(err, WISP_EFORMAT, t->src->path, 1,
                            "two columns are called '%s', among %s: name the one that is meant by "
                            "its number, from 1",
                            wisp_text_excerpt(name, twice.p, twice.end, NULL), columns);
    for (int i = 0; i < t->n_text; i++)
        if (t->text[i] >= t->n_columns) t->n_text = 0;
    if (t->n_text == 0) return no_column(t, "text", "text-column", how->text_column, columns, err);
    if (t->label >= t->n_columns) t->label = -1;
    if (answers && is_text(t, t->label)) t->label = -1; /* it is not needed */
    if (t->label < 0 && !answers)
        return no_column(t, "labels", "label-column", how->label_column, columns, err);
    if (is_text(t, t->label))
        return wisp_fail_at(err, WISP_EINVAL, t->src->path, 1,
                            "column %d is that of text and that of labels, expected two "
                            "different ones among %s",
                            t->label + 1, columns);
    return WISP_OK;
}

static wisp_status first(void *table, const char *begin, const char *end, bool *taken,
                         wisp_error *err)
{
    struct table *t = table;
    *taken = names_columns(t->src->o);
    wisp_status st = count_columns(t, begin, end, err);
    return st == WISP_OK ? choose_columns(t, begin, end, err) : st;
}

/* ---- rows ---- */

static wisp_status see(const struct table *t, struct wisp_words *w, const struct cell *c,
                       int column, wisp_error *err)
{
    const char *p;
    size_t n;
    const bool text = is_text(t, column);
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
                         "%d cell%s, but the first line has %d; a cell with a separator in it must "
                         "be quoted",
                         n + 1, n ? "s" : "", t->n_columns);
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

/* Where the first line begins, behind a mark of byte order, and where it ends; NULL: it is not whole. */
static const char *first_line(const char **begin, const char *head, size_t n)
{
    if (n >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0) head += 3, n -= 3;
    const char *end = memchr(head, '\n', n);
    *begin = head;
    return end && end > head && end[-1] == '\r' ? end - 1 : end;
}

/* The columns that a first line names. */
static void look_at_first(struct table *t, const char *begin, const char *end)
{
    struct cell twice;
    if (count_columns(t, begin, end, NULL) != WISP_OK) t->n_columns = 0;
    text_by_name(t, begin, end, &twice);
    label_by_name(t, begin, end, &twice);
}

/* Prose has a blank behind a comma, and names of columns have none. */
static bool is_prose(const struct table *t, const char *p, const char *end)
{
    struct cell c;
    while (next_cell(&c, &p, end, t->separator))
        if (c.p < c.end && *c.p == ' ') return true;
    return false;
}

int wisp_table_columns(const struct wisp_format *f, const struct wisp_text_how *how,
                       const char *head, size_t n)
{
    struct wisp_read_options o = { .text = *how };
    struct wisp_source src = { .o = &o };
    struct table t = { .src = &src, .separator = f == &wisp_format_tsv ? '\t' : ',', .label = -1 };
    const char *begin, *end = first_line(&begin, head, n);
    if (!end || is_prose(&t, begin, end)) return 0;
    look_at_first(&t, begin, end);
    return t.n_text > 0 ? t.n_columns : 0;
}

/* Ours by its name, or by a first line that names a column of text and one of labels. */
static bool probe(const char *path, const char *head, size_t n, const char *ending, char separator)
{
    if (wisp_path_ends(path, ending)) return true;
    struct wisp_read_options o = { 0 };
    struct wisp_source src = { .path = path, .o = &o };
    struct table t = { .src = &src, .separator = separator, .label = -1 };
    const char *begin, *end = first_line(&begin, head, n);
    if (!end) return false;
    look_at_first(&t, begin, end);
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
