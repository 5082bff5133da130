/* Rows of sparse text: the parser and the printer of XC and LibSVM lines.
 *
 *   row     = [label {"," label}] {blank feature ":" value}
 *   blank   = one or more of space and tab; they may also begin and end a line
 *
 * A row without labels begins with a blank, or at once with its first feature:value.  Unsorted ids
 * are sorted, equal features summed, repeated labels kept once, values of 0 dropped (end_row does
 * that).  Every line ends in '\n' (text.h), which stops every loop here: no other bound is needed.
 *
 * LibSVM text differs so: '#' starts a comment; an empty line, or one with a comment only, is no
 * row (a row without anything is a line with one blank), unless every line must be one; labels are
 * taken as they are, from 0, whatever the base of the features; a label may be written as a whole
 * float ("3.0"). */
#include "data/rowtext.h"
#include "base/mem.h"
#include "data/number.h"

#include <math.h>
#include <stdio.h>

struct job { /* one chunk being parsed */
    const struct wisp_dialect *d;
    const struct wisp_chunk *c;
    struct wisp_builder *out;
    size_t line, n_dropped, n_blank;
    wisp_error *err;
};

struct local { /* what a chunk had */
    size_t n_dropped, n_blank;
};

static inline bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline bool at_end(const struct wisp_dialect *d, const char *p)
{
    return *p == '\n' || (*p == '\r' && p[1] == '\n') || (d->libsvm && *p == '#');
}

static const char lone_cr[] = "a carriage return follows; lines must end in LF or CRLF";

/* "path:line: 'token': why". */
static wisp_status refuse(const struct job *j, const char *token, const char *why)
{
    char buf[WISP_EXCERPT];
    return wisp_fail(j->err, WISP_EFORMAT, "%s:%zu: '%s': %s", j->c->path, j->line,
                     wisp_text_excerpt(buf, token, j->c->end, " \t"), why);
}

/* Digits to a number; more than 18 of them give a number beyond every limit. */
static inline const char *digits(uint64_t *n, const char *p)
{
    uint64_t x = 0;
    const char *begin = p;
    for (; wisp_is_digit(*p); p++) x = x * 10 + (uint64_t)(*p - '0');
    *n = p - begin > 18 ? UINT64_MAX : x;
    return p;
}

static wisp_status id_out_of_range(const struct job *j, const char *what, const char *token,
                                   size_t limit, int base)
{
    char buf[WISP_EXCERPT];
    wisp_text_excerpt(buf, token, j->c->end, " \t,:");
    if (limit == 0)
        return wisp_fail(j->err, WISP_EFORMAT,
                         "%s:%zu: %s %s, but the header says that there are none", j->c->path,
                         j->line, what, buf);
    return wisp_fail(j->err, WISP_EFORMAT, "%s:%zu: %s %s: expected an id in %d..%zu%s", j->c->path,
                     j->line, what, buf, base, limit - 1 + (size_t)base,
                     j->d->header ? ", as the header says" : "");
}

/* A label of LibSVM text that is not plain digits. */
static wisp_status odd_label(const struct job *j, const char *p, const char **end, uint64_t *id)
{
    float v;
    if (p[0] == '-' && wisp_is_digit(p[1]))
        return refuse(j, p,
                      "negative label; number the labels from 0 (so -1 and +1 become 0 and 1)");
    *end = wisp_number_parse(&v, p);
    if (!*end) return refuse(j, p, "expected a label (a whole number from 0) or feature:value");
    if (!(v >= 0 && v < 0x1p24f) || v != (float)(uint32_t)v)
        return refuse(j, p,
                      "a label must be a whole number from 0; targets of regression are not read");
    *id = (uint64_t)v;
    return WISP_OK;
}

static wisp_status labels(struct job *j, const char **at)
{
    const struct wisp_dialect *d = j->d;
    size_t base = d->libsvm ? 0 : (size_t)d->base;
    for (const char *p = *at;; p++) {
        uint64_t id;
        const char *end = digits(&id, p);
        if (d->libsvm && (end == p || *end == '.' || *end == 'e' || *end == 'E')) {
            wisp_status st = odd_label(j, p, &end, &id);
            if (st != WISP_OK) return st;
        }
        if (end == p) {
            if (*p == '-' && wisp_is_digit(p[1]))
                return id_out_of_range(j, "label", p, d->n_labels, (int)base);
            return refuse(j, *at, "expected labels such as 1,5,7 or feature:value");
        }
        if (id < base || id - base >= d->n_labels)
            return id_out_of_range(j, "label", p, d->n_labels, (int)base);
        wisp_status st = wisp_builder_label(j->out, (int32_t)(id - base), j->err);
        if (st != WISP_OK) return st;
        p = end;
        if (*p == ',') continue;
        if (!is_blank(*p) && !at_end(d, p))
            return refuse(j, *at,
                          *p == '\r' ? lone_cr : "expected labels such as 1,5,7 and then a blank");
        *at = p;
        return WISP_OK;
    }
}

static wisp_status odd_feature(const struct job *j, const char *p)
{
    if (strncmp(p, "qid:", 4) == 0)
        return refuse(j, p, "ranking data (qid) is not read; take these fields out");
    if (*p == '-' && wisp_is_digit(p[1]))
        return id_out_of_range(j, "feature", p, j->d->n_features, j->d->base);
    return refuse(j, p, "expected feature:value");
}

static inline wisp_status feature(struct job *j, const char **at)
{
    const struct wisp_dialect *d = j->d;
    const char *p = *at;
    uint64_t id;
    float value;
    const char *end = digits(&id, p);
    if (end == p || *end != ':') return odd_feature(j, p);
    if (id - (uint64_t)d->base >= d->n_features) { /* below the base it wraps around */
        if (id == 0 && d->base == 1)
            return refuse(j, p,
                          "features start at 1 here; pass --index-base 0 if yours start at 0");
        return id_out_of_range(j, "feature", p, d->n_features, d->base);
    }
    id -= (uint64_t)d->base;
    end = wisp_number_parse(&value, end + 1);
    if (!end || !(fabsf(value) <= FLT_MAX))
        return refuse(j, p, "expected a finite number (32-bit float) as value");
    if (!is_blank(*end) && !at_end(d, end))
        return refuse(j, p, *end == '\r' ? lone_cr : "expected feature:value and then a blank");
    *at = end;
    if (d->keep_features && id >= d->keep_features) {
        j->n_dropped++;
        return WISP_OK;
    }
    return wisp_builder_feature(j->out, (int32_t)id, value, j->err);
}

static wisp_status end_row(struct job *j)
{
    wisp_status st = wisp_builder_end_row(j->out, j->err);
    if (st != WISP_EFORMAT) return st;
    wisp_error why = *j->err;
    return wisp_fail(j->err, st, "%s:%zu: %.300s", j->c->path, j->line, why.text);
}

/* LibSVM lines that are no row: empty, or a comment alone. */
static bool skip_line(const struct wisp_dialect *d, const char *p)
{
    if (at_end(d, p)) return true;
    while (is_blank(*p)) p++;
    return *p == '#';
}

/* Reads the line at *at and moves to the next. */
static wisp_status row(struct job *j, const char **at)
{
    const struct wisp_dialect *d = j->d;
    const char *p = *at;
    wisp_status st;
    if (d->header && j->line - 2 >= d->n_rows)
        return wisp_fail(j->err, WISP_EFORMAT,
                         "%s:%zu: more rows than the %zu that the header says", j->c->path, j->line,
                         d->n_rows);
    if (d->libsvm && skip_line(d, p)) {
        j->n_blank++;
        *at = (const char *)rawmemchr(p, '\n') + 1;
        return d->every_line ? end_row(j) : WISP_OK;
    }
    if (!is_blank(*p) && !at_end(d, p)) {
        uint64_t id;
        const char *end = digits(&id, p);
        if ((end == p || *end != ':') && (st = labels(j, &p)) != WISP_OK) return st;
    }
    while (is_blank(*p)) p++;
    while (!at_end(d, p)) {
        if ((st = feature(j, &p)) != WISP_OK) return st;
        while (is_blank(*p)) p++;
    }
    *at = (const char *)rawmemchr(p, '\n') + 1; /* over a comment, or the CR of CRLF */
    return end_row(j);
}

static wisp_status parse(void *arg, const struct wisp_chunk *c, struct wisp_builder *out,
                         void *local, wisp_error *err)
{
    struct job j = { .d = arg, .c = c, .out = out, .line = c->line, .err = err };
    wisp_status st = WISP_OK;
    for (const char *p = c->begin; p < c->end && st == WISP_OK; j.line++) st = row(&j, &p);
    *(struct local *)local = (struct local){ j.n_dropped, j.n_blank };
    return st;
}

static wisp_status merge(void *arg, const struct wisp_chunk *c, struct wisp_builder *out,
                         void *local, wisp_error *err)
{
    struct wisp_dialect *d = arg;
    (void)c, (void)err;
    d->rows_read += out->n_rows;
    d->n_dropped += ((struct local *)local)->n_dropped;
    d->n_blank += ((struct local *)local)->n_blank;
    return WISP_OK;
}

struct wisp_text_parser wisp_rowtext_parser(struct wisp_dialect *d)
{
    return (struct wisp_text_parser){
        .arg = d, .parse = parse, .merge = merge, .local_bytes = sizeof(struct local)
    };
}

bool wisp_rowtext_probe(const char *head, size_t n)
{
    const char *p = head, *end = head + n;
    for (const char *line = p; line < end;) { /* to the first line with more than a comment */
        while (p < end && (is_blank(*p) || *p == '\r')) p++;
        if (p < end && *p != '#' && *p != '\n') break;
        const char *nl = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        line = p = nl ? nl + 1 : end;
    }
    bool digit = false;
    for (; p < end && *p != '\n' && *p != ':'; p++) {
        if (!*p || !strchr("0123456789,.+-eE \t\r", *p)) return false;
        digit |= wisp_is_digit(*p);
    }
    return digit;
}

/* One line of numbers: how many features it has; -1: it is something else. */
static int features_of(const char *p, const char *end)
{
    int n = 0;
    for (bool first = true; p < end && *p != '#'; first = false) {
        const char *token = p;
        while (p < end && (wisp_is_digit(*p) || (first && *p == ','))) p++;
        bool any = p > token, feature = any && p < end && *p == ':';
        if (feature) p++;
        while (feature && p < end && *p != '\r' && !is_blank(*p)) {
            if (!wisp_is_digit(*p) && (!*p || !strchr("+-.eE", *p))) return -1;
            p++;
        }
        if (!feature && !(first && (any || p == end || is_blank(*p)))) return -1;
        n += feature;
        while (p < end && (is_blank(*p) || *p == '\r')) p++;
    }
    return n;
}

bool wisp_rowtext_certain(const char *head, size_t n)
{
    const char *p = head, *end = head + n;
    int features = 0;
    for (bool first = true; p < end; first = false) {
        const char *nl = memchr(p, '\n', (size_t)(end - p)), *stop = nl ? nl : end;
        if (!nl && features > 1) break; /* a line that is cut off */
        bool header = first && wisp_xc_header(p, (size_t)(stop - p));
        int k = header ? 0 : features_of(p, stop);
        if (k < 0) return false;
        features += k;
        p = nl ? nl + 1 : end;
    }
    return features > 1; /* "12:30" may be a time */
}

/* ---- writing ---- */

struct printer {
    struct wisp_out *out;
    size_t n;
    char buf[1 << 16];
};

static wisp_status spill(struct printer *w, size_t room, wisp_error *err)
{
    if (w->n + room <= sizeof w->buf) return WISP_OK;
    wisp_status st = wisp_out_write(w->out, w->buf, w->n, err);
    w->n = 0;
    return st;
}

static void print_id(struct printer *w, char before, int64_t id)
{
    if (before) w->buf[w->n++] = before;
    w->n += (size_t)snprintf(w->buf + w->n, 24, "%lld", (long long)id);
}

static wisp_status print_row(struct printer *w, const struct wisp_rows *r, size_t i,
                             const struct wisp_dialect *d, wisp_error *err)
{
    enum { ROOM = 24 + WISP_NUMBER_ROOM };
    wisp_status st;
    int label_base = d->libsvm ? 0 : d->base;
    for (size_t k = r->yp[i]; k < r->yp[i + 1]; k++) {
        if ((st = spill(w, ROOM, err)) != WISP_OK) return st;
        print_id(w, k > r->yp[i] ? ',' : 0, (int64_t)r->yi[k] + label_base);
    }
    for (size_t k = r->xp[i]; k < r->xp[i + 1]; k++) {
        if ((st = spill(w, ROOM, err)) != WISP_OK) return st;
        print_id(w, ' ', (int64_t)wisp_row_id(r, k) + d->base);
        w->buf[w->n++] = ':';
        w->n += wisp_number_print(w->buf + w->n, wisp_row_value(r, k));
    }
    if ((st = spill(w, ROOM, err)) != WISP_OK) return st;
    if (d->libsvm && r->yp[i] == r->yp[i + 1] && r->xp[i] == r->xp[i + 1]) w->buf[w->n++] = ' ';
    w->buf[w->n++] = '\n';
    return WISP_OK;
}

wisp_status wisp_rowtext_write(struct wisp_out *out, const struct wisp_data *data,
                               const struct wisp_dialect *d, wisp_error *err)
{
    struct printer *w = wisp_alloc(1, sizeof *w);
    if (!w) return wisp_fail_mem(err, sizeof *w, "a buffer for text");
    w->out = out;
    w->n = 0;
    wisp_status st = WISP_OK;
    for (size_t b = 0; b < data->n_blocks; b++)
        for (size_t i = 0; i < data->blocks[b].n && st == WISP_OK; i++)
            st = print_row(w, &data->blocks[b], i, d, err);
    if (st == WISP_OK) st = spill(w, sizeof w->buf, err);
    wisp_free(w);
    return st;
}
