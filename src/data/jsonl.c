/* JSON lines: one object per line, with a member of text and one of labels.
 *
 *   {"text": "How long does bread keep?", "labels": ["bread", "storage"]}
 *
 * Labels are a string, a number, true or false, null (none), or a list of these.  Other members are
 * passed over.  Every value is checked to be JSON; depth is bounded. */
#include "data/words.h"
#include "base/text.h"

#include <string.h>

enum { DEPTH = 64 };

struct lines {
    const struct wisp_source *src;
};

struct scan { /* over one line; *end is its '\n' */
    const char *p, *end;
};

static void blanks(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\r')) s->p++;
}

static wisp_status refuse(const struct scan *s, const char *expected, wisp_error *err)
{
    char buf[WISP_EXCERPT];
    if (s->p >= s->end)
        return wisp_fail(err, WISP_EFORMAT, "the line ends too early, expected %s", expected);
    return wisp_fail(err, WISP_EFORMAT, "'%s': expected %s",
                     wisp_text_excerpt(buf, s->p, s->end, NULL), expected);
}

static bool take(struct scan *s, char c)
{
    blanks(s);
    if (s->p == s->end || *s->p != c) return false;
    s->p++;
    return true;
}

static int hex(const char *p, const char *end)
{
    int n = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0) return -1;
        n = n * 16 + d;
    }
    return n;
}

/* The escape after a backslash at s->p; *to moves behind what it stands for. */
static wisp_status escape(struct scan *s, char **to, wisp_error *err)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char *which = s->p < s->end && *s->p ? strchr(from, *s->p) : NULL;
    if (which) {
        *(*to)++ = into[which - from];
        s->p++;
        return WISP_OK;
    }
    int c = s->p < s->end && *s->p == 'u' ? hex(s->p + 1, s->end) : -1;
    if (c < 0) return refuse(s, "an escape of JSON after '\\'", err);
    s->p += 5;
    if (c >= 0xd800 && c < 0xdc00 && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u') {
        int low = hex(s->p + 2, s->end);
        if (low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            s->p += 6;
        }
    }
    if (c == 0 || (c >= 0xd800 && c < 0xe000)) c = 0xfffd; /* NUL, half a pair */
    *to += wisp_utf8_put(*to, (uint32_t)c);
    return WISP_OK;
}

/* A string, its quote still ahead: where it stands, or without its escapes in 'room'. */
static wisp_status string(struct scan *s, struct wisp_words *w, const char **out, size_t *n,
                          wisp_error *err)
{
    if (!take(s, '"')) return refuse(s, "a string", err);
    const char *begin = s->p;
    while (s->p < s->end && *s->p != '"' && *s->p != '\\' && (unsigned char)*s->p >= ' ') s->p++;
    *out = begin;
    *n = (size_t)(s->p - begin);
    if (s->p < s->end && *s->p == '"') {
        s->p++;
        return WISP_OK;
    }
    char *room = wisp_words_room(w, (size_t)(s->end - begin) + 8, err), *to = room;
    if (!room) return WISP_ENOMEM;
    memcpy(to, begin, *n);
    to += *n;
    while (s->p < s->end && *s->p != '"') {
        if ((unsigned char)*s->p < ' ')
            return refuse(s, "text without control characters (they are escaped in JSON)", err);
        if (*s->p != '\\') {
            *to++ = *s->p++;
            continue;
        }
        s->p++;
        wisp_status st = escape(s, &to, err);
        if (st != WISP_OK) return st;
    }
    if (s->p == s->end) return refuse(s, "the '\"' that ends a string", err);
    s->p++;
    *out = room;
    *n = (size_t)(to - room);
    return WISP_OK;
}

/* A number, true, false or null: what stands there. */
static wisp_status plain(struct scan *s, const char **out, size_t *n, wisp_error *err)
{
    const char *begin = s->p;
    while (s->p < s->end && !strchr(",]} \t\r", *s->p)) s->p++;
    *out = begin;
    *n = (size_t)(s->p - begin);
    static const char *const words[] = { "true", "false", "null" };
    for (int i = 0; i < 3; i++)
        if (*n == strlen(words[i]) && memcmp(begin, words[i], *n) == 0) return WISP_OK;
    const char *p = begin;
    if (p < s->p && *p == '-') p++;
    bool number = p < s->p && *p >= '0' && *p <= '9';
    for (; p < s->p; p++) number &= (*p >= '0' && *p <= '9') || strchr(".eE+-", *p);
    if (number) return WISP_OK;
    s->p = begin;
    return refuse(s, "a value of JSON", err);
}

enum use { PASS, TEXT, LABELS };

static wisp_status use_value(const struct lines *l, struct wisp_words *w, enum use use,
                             const char *p, size_t n, bool quoted, wisp_error *err)
{
    if (use == PASS || (!quoted && n == 4 && memcmp(p, "null", 4) == 0)) return WISP_OK;
    if (use == TEXT) return wisp_words_text(w, p, n, err);
    return wisp_words_labels(w, p, n, quoted ? l->src->o->text.label_separator : "", err);
}

static wisp_status value(const struct lines *l, struct scan *s, struct wisp_words *w, enum use use,
                         int depth, wisp_error *err);

/* The members of an object or the elements of a list, its bracket behind us. */
static wisp_status inside(const struct lines *l, struct scan *s, struct wisp_words *w, enum use use,
                          int depth, char close, wisp_error *err)
{
    const char *p;
    size_t n;
    wisp_status st = WISP_OK;
    if (depth == DEPTH)
        return wisp_fail(err, WISP_EFORMAT, "lists within lists, more than %d", DEPTH);
    if (take(s, close)) return WISP_OK;
    do {
        if (close == '}') {
            st = string(s, w, &p, &n, err);
            if (st == WISP_OK && !take(s, ':')) st = refuse(s, "':' after a member's name", err);
        }
        if (st == WISP_OK) st = value(l, s, w, use, depth + 1, err);
    } while (st == WISP_OK && take(s, ','));
    if (st == WISP_OK && !take(s, close))
        st = refuse(s, close == '}' ? "',' or '}'" : "',' or ']'", err);
    return st;
}

static wisp_status value(const struct lines *l, struct scan *s, struct wisp_words *w, enum use use,
                         int depth, wisp_error *err)
{
    const char *p;
    size_t n;
    blanks(s);
    if (s->p == s->end) return refuse(s, "a value", err);
    if (*s->p == '{' && use != PASS)
        return refuse(s, use == TEXT ? "a string of text" : "a label or a list of them", err);
    if (*s->p == '{' || *s->p == '[') {
        char close = *s->p++ == '{' ? '}' : ']';
        return inside(l, s, w, use, depth, close, err);
    }
    bool quoted = *s->p == '"';
    wisp_status st = quoted ? string(s, w, &p, &n, err) : plain(s, &p, &n, err);
    return st == WISP_OK ? use_value(l, w, use, p, n, quoted, err) : st;
}

static wisp_status object(const struct lines *l, struct scan *s, struct wisp_words *w,
                          wisp_error *err)
{
    const struct wisp_text_how *how = &l->src->o->text;
    int wanted = wisp_text_columns_listed(how), texts = 0, labels = 0;
    wisp_status st = WISP_OK;
    if (!take(s, '{')) return refuse(s, "an object, '{\"text\": ..., \"labels\": ...}'", err);
    if (take(s, '}')) st = WISP_OK;
    else {
        do {
            const char *p;
            size_t n;
            st = string(s, w, &p, &n, err);
            if (st != WISP_OK) break;
            enum use use = wisp_text_column(how, p, n) >= 0    ? TEXT
                           : wisp_label_column(how, p, n) >= 0 ? LABELS
                                                               : PASS;
            if (use == LABELS && labels && !*how->label_column) use = PASS;
            if (use == TEXT && texts && !wanted) use = PASS;
            texts += use == TEXT;
            labels += use == LABELS;
            if (!take(s, ':')) st = refuse(s, "':' after a member's name", err);
            else st = value(l, s, w, use, 0, err);
        } while (st == WISP_OK && take(s, ','));
        if (st == WISP_OK && !take(s, '}')) st = refuse(s, "',' or '}'", err);
    }
    blanks(s);
    if (st == WISP_OK && s->p < s->end) st = refuse(s, "nothing after the object", err);
    if (st == WISP_OK && texts < (wanted ? wanted : 1))
        st =
            wisp_fail(err, WISP_EFORMAT, "no member '%s' with the text: name it with --text-column",
                      wanted ? how->text_column : "text");
    return st == WISP_OK ? wisp_words_end(w, err) : st;
}

static wisp_status parse(void *lines, struct wisp_words *w, const struct wisp_chunk *c,
                         size_t *line, wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (const char *p = c->begin, *nl; p < c->end && st == WISP_OK; p = nl + 1) {
        nl = memchr(p, '\n', (size_t)(c->end - p));
        struct scan s = { p, nl };
        blanks(&s);
        st = s.p == nl ? wisp_words_blank(w, err) : object(lines, &s, w, err);
        if (st == WISP_OK) ++*line;
    }
    return st;
}

static wisp_status jsonl_read(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    struct lines l = { src };
    const struct wisp_words_format f = { .arg = &l, .parse = parse };
    return wisp_words_read(src, sink, &f, err);
}

/* Ours if the first line with anything on it begins as an object. */
static bool jsonl_probe(const char *path, const char *head, size_t n)
{
    (void)path;
    struct scan s = { head, head + n };
    while (blanks(&s), s.p < s.end && *s.p == '\n') s.p++;
    if (!take(&s, '{')) return false;
    if (take(&s, '}')) return true;
    return take(&s, '"') && memchr(s.p, ':', (size_t)(s.end - s.p));
}

const struct wisp_format wisp_format_jsonl = {
    .name = "jsonl",
    .what = "one JSON object per line, with a member of text and one of labels",
    .index_base = -1,
    .words = true,
    .probe = jsonl_probe,
    .read = jsonl_read,
};
