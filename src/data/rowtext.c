/* Rows of sparse text: the parser of XC and LibSVM lines.
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
 * float ("3.0").  Labels may also be words, or of any sign: then they are names (ids.h), as are
 * numbers that are out of proportion to the text.  That shows while rows are parsed: reading then
 * stops, and begins again with a pass that collects the names. */
#include "data/rowtext.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "data/ids.h"
#include "data/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct seen {    /* the first label of a kind */
    size_t line; /* 0: none */
    const char *token;
};

struct local { /* what a chunk had */
    size_t n_dropped, n_blank, n_unknown;
    unsigned wants;      /* WISP_NAMED_...: reading must begin again */
    struct seen seen[2]; /* numbers, words */
    wisp_status st;      /* a fault, whose turn comes after one of kinds, and why */
    wisp_error err;
    struct wisp_dict names[2]; /* of labels, of features */
};

struct job { /* one chunk being parsed */
    const struct wisp_dialect *d;
    const struct wisp_chunk *c;
    struct wisp_builder *out;
    struct local *l;
    size_t line;
    int32_t row_unknown; /* labels of the row in progress */
    wisp_error *err;
};

static inline bool at_end(const struct wisp_dialect *d, const char *p)
{
    return *p == '\n' || (*p == '\r' && p[1] == '\n') || (d->libsvm && *p == '#');
}

static const char lone_cr[] = "a carriage return follows; lines must end in LF or CRLF";

/* "path:line: 'token': why". */
static wisp_status refuse(const struct job *j, const char *token, const char *why)
{
    char buf[WISP_EXCERPT];
    return wisp_fail_at(j->err, WISP_EFORMAT, j->c->path, j->line, "'%s': %s",
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
        return wisp_fail_at(j->err, WISP_EFORMAT, j->c->path, j->line,
                            "%s %s, but the header says that there are none", what, buf);
    return wisp_fail_at(j->err, WISP_EFORMAT, j->c->path, j->line,
                        "%s %s: expected an id in %d..%zu%s", what, buf, base,
                        limit - 1 + (size_t)base, j->d->header ? ", as the header says" : "");
}

static bool ends_label(const struct wisp_dialect *d, const char *p)
{
    return *p == ',' || wisp_is_blank(*p) || at_end(d, p);
}

struct label {
    bool word;
    int64_t number;
    const char *end;
};

/* A label of LibSVM text that is not plain digits: a whole number in another form, or a word. */
static wisp_status odd_label(const struct job *j, const char *p, struct label *l)
{
    float v;
    l->end = wisp_number_parse(&v, p);
    if (l->end && ends_label(j->d, l->end)) {
        if (!(fabsf(v) < 0x1p24f) || v != (float)(int32_t)v)
            return refuse(j, p,
                          "a label must be a whole number or a name; targets of regression are not "
                          "read");
        l->number = (int64_t)v;
        return l->number < (int64_t)j->d->n_labels
                   ? WISP_OK
                   : id_out_of_range(j, "label", p, j->d->n_labels, 0);
    }
    for (l->end = p; !ends_label(j->d, l->end); l->end++) {
        if (*l->end == '\r') return refuse(j, p, lone_cr);
        if (*l->end == ':')
            return refuse(j, p, "expected a label (a number or a name) or feature:value");
    }
    if (l->end == p) return refuse(j, p, "an empty label, expected labels such as 1,5,7 or a,b");
    l->word = true;
    return WISP_OK;
}

static wisp_status read_label(const struct job *j, const char *row, const char *p, struct label *l)
{
    const struct wisp_dialect *d = j->d;
    const bool minus = *p == '-';
    const char *first = p + (d->libsvm && (minus || *p == '+'));
    const size_t base = d->libsvm ? 0 : (size_t)d->base;
    uint64_t id;
    *l = (struct label){ .end = digits(&id, first) };
    if (l->end == first || !ends_label(d, l->end)) {
        if (d->libsvm) return odd_label(j, p, l);
        if (l->end == p && minus && wisp_is_digit(p[1]))
            return id_out_of_range(j, "label", p, d->n_labels - base, (int)base);
        if (l->end == p) return refuse(j, row, "expected labels such as 1,5,7 or feature:value");
        if (*l->end == '\r') return refuse(j, row, lone_cr);
        return refuse(j, row, "expected labels such as 1,5,7 and then a blank");
    }
    if (id < base || id >= d->n_labels)
        return id_out_of_range(j, "label", p, d->n_labels - base, (int)base);
    l->number = minus ? -(int64_t)id : (int64_t)id;
    return WISP_OK;
}

/* Labels that are not what the text began with: reading stops where that may be, to begin again. */
static wisp_status want_names(struct job *j, unsigned side)
{
    j->l->wants |= side;
    return WISP_ESTOPPED;
}

static wisp_status out_of_proportion(const struct job *j, const char *what, const char *token,
                                     size_t room)
{
    char buf[WISP_EXCERPT];
    return wisp_fail_at(
        j->err, WISP_EFORMAT, j->c->path, j->line,
        "%s %s is out of proportion to the text, expected one below %zu; "
        "number them without gaps, or leave out --labels, --vocab and --init, so that "
        "ids are made compact",
        what, wisp_text_excerpt(buf, token, j->c->end, " \t,:"), room);
}

/* Looks a name up, or has it collected.  *id is -1 where it has none. */
static wisp_status look_up(struct job *j, int64_t *id, const struct wisp_ids *ids,
                           struct wisp_dict *names, const char *name, size_t bytes)
{
    struct wisp_dict_entry *e;
    *id = -1;
    if (!j->d->counting) *id = wisp_ids_find(ids, name, bytes);
    else if (ids->open)
        return wisp_dict_add(&e, names, name, bytes, wisp_dict_hash(name, bytes), j->err);
    return WISP_OK;
}

static wisp_status named_label(struct job *j, const char *p, const struct label *l)
{
    char number[24];
    const struct wisp_ids *ids = &j->d->labels;
    struct seen *seen = &j->l->seen[l->word];
    int64_t id;
    if (!seen->line) *seen = (struct seen){ j->line, p };
    if (j->d->counting && ids->open && j->l->seen[!l->word].line) return WISP_ESTOPPED;
    size_t bytes = (size_t)(l->end - p);
    if (!l->word) {
        bytes = (size_t)snprintf(number, sizeof number, "%lld", (long long)l->number);
        p = number;
    }
    wisp_status st = look_up(j, &id, ids, &j->l->names[0], p, bytes);
    if (st != WISP_OK || j->d->counting) return st;
    if (id < 0) {
        j->l->n_unknown++;
        id = (int64_t)ids->n + j->row_unknown++;
    }
    return wisp_builder_label(j->out, (int32_t)id, j->err);
}

static wisp_status add_label(struct job *j, const char *p, const struct label *l)
{
    const struct wisp_dialect *d = j->d;
    if (d->labels.named) return named_label(j, p, l);
    const bool odd = l->word || l->number < 0;
    if (odd && d->decided & WISP_NAMED_LABELS)
        return refuse(j, p,
                      "expected a whole number from 0 as label: the labels that this goes with "
                      "have numbers");
    if (odd) return want_names(j, WISP_NAMED_LABELS);
    if (d->counting) return WISP_OK;
    int64_t id = l->number;
    if ((size_t)id >= d->room[0]) {
        if (!(d->decided & WISP_NAMED_LABELS)) return want_names(j, WISP_NAMED_LABELS);
        if (!d->drop) return out_of_proportion(j, "label", p, d->room[0]);
        j->l->n_unknown++;
        id = (int64_t)d->room[0] + j->row_unknown++;
    }
    return wisp_builder_label(j->out, (int32_t)id, j->err);
}

static wisp_status labels(struct job *j, const char **at)
{
    for (const char *p = *at;; p++) {
        struct label l;
        wisp_status st = read_label(j, *at, p, &l);
        if (st == WISP_OK) st = add_label(j, p, &l);
        if (st != WISP_OK) return st;
        p = l.end;
        if (*p == ',') continue;
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

/* A feature that is not simply one of those that are kept: a name, or beyond them. */
static wisp_status far_feature(struct job *j, const char *token, int64_t number, float value)
{
    const struct wisp_dialect *d = j->d;
    int64_t id = -1;
    wisp_status st = WISP_OK;
    if (d->features.named) {
        char name[24];
        int n = snprintf(name, sizeof name, "%lld", (long long)number);
        st = look_up(j, &id, &d->features, &j->l->names[1], name, (size_t)n);
    } else if (d->keep_features && (size_t)number >= d->keep_features) {
        id = -1;
    } else if ((size_t)number < d->room[1]) {
        id = number;
    } else if (!(d->decided & WISP_NAMED_FEATURES)) {
        return want_names(j, WISP_NAMED_FEATURES);
    } else if (!d->drop) {
        return out_of_proportion(j, "feature", token, d->room[1]);
    }
    if (st != WISP_OK || d->counting) return st;
    if (id >= 0) return wisp_builder_feature(j->out, (int32_t)id, value, j->err);
    j->l->n_dropped++;
    return WISP_OK;
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
    if (!wisp_is_blank(*end) && !at_end(d, end))
        return refuse(j, p, *end == '\r' ? lone_cr : "expected feature:value and then a blank");
    *at = end;
    if (id >= d->plain_features) return far_feature(j, p, (int64_t)id, value);
    return wisp_builder_feature(j->out, (int32_t)id, value, j->err);
}

static wisp_status end_row(struct job *j)
{
    j->row_unknown = 0;
    wisp_status st = j->d->counting ? WISP_OK : wisp_builder_end_row(j->out, j->err);
    if (st != WISP_EFORMAT) return st;
    wisp_error why = *j->err;
    return wisp_fail_at(j->err, st, j->c->path, j->line, "%.300s", why.text);
}

/* LibSVM lines that are no row: empty, or a comment alone. */
static bool skip_line(const struct wisp_dialect *d, const char *p)
{
    if (at_end(d, p)) return true;
    while (wisp_is_blank(*p)) p++;
    return *p == '#';
}

/* Reads the line at *at and moves to the next. */
static wisp_status row(struct job *j, const char **at)
{
    const struct wisp_dialect *d = j->d;
    const char *p = *at;
    wisp_status st;
    if (d->header && j->line - 2 >= d->n_rows)
        return wisp_fail_at(j->err, WISP_EFORMAT, j->c->path, j->line,
                            "more rows than the %zu that the header says", d->n_rows);
    if (d->libsvm && skip_line(d, p)) {
        j->l->n_blank++;
        *at = (const char *)rawmemchr(p, '\n') + 1;
        return d->every_line ? end_row(j) : WISP_OK;
    }
    if (!wisp_is_blank(*p) && !at_end(d, p)) {
        uint64_t id;
        const char *end = digits(&id, p);
        if ((end == p || *end != ':') && (st = labels(j, &p)) != WISP_OK) return st;
    }
    while (wisp_is_blank(*p)) p++;
    while (!at_end(d, p)) {
        if ((st = feature(j, &p)) != WISP_OK) return st;
        while (wisp_is_blank(*p)) p++;
    }
    *at = (const char *)rawmemchr(p, '\n') + 1; /* over a comment, or the CR of CRLF */
    return end_row(j);
}

static wisp_status parse(void *arg, const struct wisp_chunk *c, struct wisp_builder *out,
                         void *local, wisp_error *err)
{
    struct local *l = local;
    struct job j = { .d = arg, .c = c, .out = out, .l = l, .line = c->line, .err = &l->err };
    wisp_status st = WISP_OK;
    (void)err;
    l->n_dropped = l->n_blank = l->n_unknown = 0;
    l->seen[0].line = l->seen[1].line = 0;
    for (const char *p = c->begin; p < c->end && st == WISP_OK; j.line++) st = row(&j, &p);
    l->st = st == WISP_ESTOPPED ? WISP_OK : st; /* that is for merge to see */
    return WISP_OK;
}

/* Labels must be of one kind.  The later of the two first ones is in this chunk. */
static wisp_status check_kinds(struct wisp_dialect *d, const struct wisp_chunk *c,
                               const struct local *l, wisp_error *err)
{
    static const char *const kinds[] = { "number", "name" };
    for (int k = 0; k < 2; k++)
        if (!d->seen[k]) d->seen[k] = l->seen[k].line;
    d->labels.words = d->seen[1] > 0;
    if (!d->labels.open || !d->seen[0] || !d->seen[1]) return WISP_OK;
    const int late = d->seen[1] > d->seen[0] ||
                     (d->seen[1] == d->seen[0] && l->seen[1].token > l->seen[0].token);
    char buf[WISP_EXCERPT];
    return wisp_fail_at(err, WISP_EFORMAT, c->path, d->seen[late],
                        "'%s': a label that is a %s, but on line %zu there is a %s; expected "
                        "labels of one kind",
                        wisp_text_excerpt(buf, l->seen[late].token, c->end, " \t,"), kinds[late],
                        d->seen[!late], kinds[!late]);
}

static wisp_status merge(void *arg, const struct wisp_chunk *c, struct wisp_builder *out,
                         void *local, wisp_error *err)
{
    struct wisp_dialect *d = arg;
    struct local *l = local;
    wisp_status st = d->counting ? check_kinds(d, c, l, err) : WISP_OK;
    if (st != WISP_OK) return st;
    if (l->st != WISP_OK) {
        if (err) *err = l->err;
        return l->st;
    }
    if ((d->wants = l->wants)) return WISP_ESTOPPED;
    d->rows_read += out->n_rows;
    d->n_dropped += l->n_dropped;
    d->n_blank += l->n_blank;
    d->n_unknown += l->n_unknown;
    if (!d->counting) return WISP_OK;
    st = wisp_ids_merge(&d->labels, &l->names[0], err);
    return st == WISP_OK ? wisp_ids_merge(&d->features, &l->names[1], err) : st;
}

static void clear_local(void *local)
{
    struct local *l = local;
    for (int i = 0; i < 2; i++) wisp_dict_clear(&l->names[i]);
}

/* ---- what ids may be ---- */

static void set_plain(struct wisp_dialect *d)
{
    d->plain_features = d->room[1];
    if (d->keep_features && d->keep_features < d->room[1]) d->plain_features = d->keep_features;
    if (d->counting || d->features.named) d->plain_features = 0;
}

bool wisp_rowtext_header(struct wisp_dialect *d, const uint64_t n[2])
{
    const unsigned sides[2] = { WISP_NAMED_LABELS, WISP_NAMED_FEATURES };
    for (int i = 0; i < 2; i++) {
        const struct wisp_ids *ids = i ? &d->features : &d->labels;
        const size_t most = wisp_most(16 * wisp_ids_free, d->text_bytes);
        if (ids->named || d->drop) continue;
        if (n[i] <= wisp_most(most, d->room[i])) d->room[i] = wisp_most(d->room[i], n[i]);
        else if (d->decided & sides[i]) return false;
        else d->wants |= sides[i];
    }
    set_plain(d);
    return true;
}

static void set_rooms(struct wisp_dialect *d, const struct wisp_read_options *o)
{
    /* What is known is in proportion, however short the text is. */
    const size_t known[2] = { wisp_most(o->n_labels, o->old_labels),
                              wisp_most(o->n_features, o->old_features) };
    for (int i = 0; i < 2; i++) {
        d->room[i] = wisp_most(known[i], wisp_most(wisp_ids_free, d->text_bytes));
        if (d->room[i] > wisp_ids_max) d->room[i] = wisp_ids_max;
    }
    set_plain(d);
}

static wisp_status read_pass(struct wisp_dialect *d, struct wisp_source *src,
                             struct wisp_sink *sink, const struct wisp_text_parser *parser,
                             bool counting, wisp_error *err)
{
    d->counting = counting;
    d->rows_read = d->n_dropped = d->n_blank = d->n_unknown = 0;
    set_rooms(d, src->o);
    return wisp_text_read(src, sink, parser, err);
}

/* Ids by name, on the sides where they are. */
static wisp_status open_ids(struct wisp_dialect *d, const struct wisp_source *src, wisp_error *err)
{
    const struct wisp_read_options *o = src->o;
    const unsigned named = o->named | src->named;
    wisp_status st = WISP_OK;
    for (int i = 0; i < 2 && st == WISP_OK; i++) {
        const unsigned side = i ? WISP_NAMED_FEATURES : WISP_NAMED_LABELS;
        if (named & side) st = wisp_ids_init(i ? &d->features : &d->labels, o, side, err);
    }
    return st;
}

static wisp_status name_ids(struct wisp_dialect *d, struct wisp_sink *sink, wisp_error *err)
{
    struct wisp_names names[2] = { { 0 } };
    wisp_status st = WISP_OK;
    for (int i = 0; i < 2 && st == WISP_OK; i++) {
        struct wisp_ids *ids = i ? &d->features : &d->labels;
        if (ids->named && ids->open) st = wisp_ids_number(ids, &names[i], err);
    }
    if (st == WISP_OK) wisp_sink_names(sink, &names[0], &names[1]);
    for (int i = 0; i < 2; i++) wisp_names_clear(&names[i]);
    return st;
}

wisp_status wisp_rowtext_read(struct wisp_dialect *d, struct wisp_source *src,
                              struct wisp_sink *sink, wisp_error *err)
{
    const struct wisp_read_options *o = src->o;
    const struct wisp_text_parser parser = { .arg = d,
                                             .first = d->first,
                                             .parse = parse,
                                             .merge = merge,
                                             .clear = clear_local,
                                             .local_bytes = sizeof(struct local) };
    d->decided = o->decided;
    d->drop = (o->n_features || o->like) && !o->grow;
    d->keep_features = o->n_features;
    wisp_status st = wisp_text_bytes(&d->text_bytes, src, err);
    if (st == WISP_OK) st = open_ids(d, src, err);
    const bool collect = d->labels.open || d->features.open;
    if (st == WISP_OK && collect) st = read_pass(d, src, sink, &parser, true, err);
    if (st == WISP_OK && collect) st = name_ids(d, sink, err);
    if (st == WISP_OK) st = read_pass(d, src, sink, &parser, false, err);
    if (d->wants) {
        src->named |= d->wants;
        src->again = true;
        st = WISP_OK;
    }
    src->n_dropped_features += d->n_dropped;
    src->n_dropped_labels += d->n_unknown;
    src->n_blank += d->n_blank;
    wisp_sink_at_least(sink, d->features.n, d->labels.n);
    wisp_ids_clear(&d->features);
    wisp_ids_clear(&d->labels);
    return st;
}
