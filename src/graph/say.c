/* The net language: from a line or a file of text to a list of layers.
 *
 *   net     = item { sep item } [ sep ]           sep: a comma, or the end of a line
 *   item    = KIND { VALUE | ARG=VALUE } { NAME } [ "as" NAME ]
 *           | "as" NAME                           names the value that was made last
 *           | "from" NAME | "from rows"           goes on from it, or from the batch
 *           | COUNT "x" [ NAME ] "(" net ")"      the same again and again
 *
 * A layer reads the value before it; names of further ones follow the kinds that take several.  "#"
 * begins a comment.  Names that a repeat makes belong to its turn: outside they are NAME.0.a,
 * NAME.1.a, or not to be seen where the repeat has no name.
 *
 * One pass without recursion: at ")" the text is read again from behind "(" until all turns are
 * done.  A name must be there before it is used, so layers stand in an order in which they can be
 * run. */
#include "graph/graph.h"
#include "base/mem.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_TEXT = 1 << 16,
    MOST_DEPTH = 8,
    MOST_TURNS = 4096,
    MOST_ITEMS =
        4 * WISP_MAX_LAYERS, /* with those of all turns: looking for names takes no longer */
    MOST_READ = 1 << 22      /* characters, with those of all turns */
};

struct named {
    char name[WISP_LAYER_NAME];
    unsigned char bytes;
    int value; /* REPEAT: the name of one, which names no value */
};
enum { REPEAT = -1 };

struct turn {            /* of a repeat that is open */
    size_t opened, body; /* places of its count and behind its "(" */
    int left, done;
    char own[WISP_LAYER_NAME];  /* its name; "": it has none */
    char name[WISP_LAYER_NAME]; /* with those of the repeats around it; "": one has none */
    size_t first_name;          /* of this turn */
    int first_layer;
};

struct reader {
    const char *text, *where;
    size_t at;
    const struct wisp_layer_kind *(*kinds)(size_t i);
    size_t items, again; /* items so far; characters that were read again */
    struct wisp_said *said;
    size_t n, cap;
    struct named *names;
    size_t n_names, cap_names;
    int value; /* what the next layer reads; 0: the batch */
    struct turn turns[MOST_DEPTH];
    int depth;
    wisp_error *err;
};

wisp_status wisp_say_fail(wisp_error *err, const char *where, const char *text, size_t at,
                          const char *fmt, ...)
{
    char why[400];
    size_t line = 1, column = 1;
    va_list ap;
    va_start(ap, fmt);
    wisp_vprint(why, sizeof why, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < at && text[i]; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) column++; /* characters, as editors count */
        if (text[i] == '\n') column = 1;
        line += text[i] == '\n';
    }
    if (where[0] != '-') return wisp_fail_place(err, WISP_EINVAL, where, line, column, "%s", why);
    char key[100]; /* of an option, "--net" */
    wisp_print(key, sizeof key, "%s:%zu:%zu", where + 2, line, column);
    return wisp_fail_option(err, key, "%s", why);
}
#define FAIL(r, place, ...) wisp_say_fail((r)->err, (r)->where, (r)->text, place, __VA_ARGS__)

/* ---- words ---- */

struct word {
    const char *p;
    size_t n, at;
};

static bool is(struct word w, const char *text)
{
    return strlen(text) == w.n && memcmp(w.p, text, w.n) == 0;
}

static void skip_blanks(struct reader *r)
{
    r->at += strspn(r->text + r->at, " \t\r");
    if (r->text[r->at] == '#') r->at += strcspn(r->text + r->at, "\n");
}

/* Blanks, and ends of lines. */
static void skip_lines(struct reader *r)
{
    skip_blanks(r);
    while (r->text[r->at] == '\n') {
        r->at++;
        skip_blanks(r);
    }
}

/* The word that stands here; empty at a separator, a parenthesis or the end. */
static struct word look(struct reader *r)
{
    skip_blanks(r);
    return (struct word){ r->text + r->at, strcspn(r->text + r->at, " \t\r\n,()#"), r->at };
}

static struct word take(struct reader *r)
{
    struct word w = look(r);
    r->at += w.n;
    return w;
}

/* For messages, in quotes: at most 20 columns. */
struct shown {
    char text[WISP_SHOW_BYTES(20) + 2];
};
static struct shown show(struct word w)
{
    struct shown s = { "'" };
    wisp_text_show(s.text + 1, w.p, w.n, 20);
    strcat(s.text, "'");
    return s;
}
/* What stands here: a word, one character, or the end. */
static struct shown show_here(const struct reader *r)
{
    const char *p = r->text + r->at + strspn(r->text + r->at, " \t\r");
    size_t n = strcspn(p, " \t\r\n,()#");
    if (!*p) return (struct shown){ "the end" };
    if (*p == '\n' || *p == '#') return (struct shown){ "the end of the line" };
    return show((struct word){ p, n ? n : 1, r->at });
}
/* The word, which has been taken; what stands behind where it would be, if it is empty. */
static struct shown found(const struct reader *r, struct word w)
{
    return w.n ? show(w) : show_here(r);
}

/* ---- what was meant ---- */

static void copy(char *to, size_t room, struct word w)
{
    to[0] = 0;
    if (w.n >= room) return;
    memcpy(to, w.p, w.n);
    to[w.n] = 0;
}

static const struct wisp_layer_kind *find_kind(const struct reader *r, struct word w)
{
    const struct wisp_layer_kind *k;
    for (size_t i = 0; (k = r->kinds(i)); i++)
        if (is(w, k->name)) return k;
    return NULL;
}

/* "did you mean 'dense'?", or what is said where no word is near. */
struct hint {
    char text[160];
};
__attribute__((format(printf, 4, 5))) static struct hint hint(struct word w,
                                                              const char *const *words, size_t n,
                                                              const char *fmt, ...)
{
    struct hint h;
    char word[WISP_LAYER_NAME];
    copy(word, sizeof word, w);
    const int near = wisp_nearest(word, words, n);
    va_list ap;
    va_start(ap, fmt);
    if (near >= 0) wisp_print(h.text, sizeof h.text, "did you mean '%s'?", words[near]);
    else wisp_vprint(h.text, sizeof h.text, fmt, ap);
    va_end(ap);
    return h;
}
enum { MOST_WORDS = 64 }; /* that are looked at */

/* ---- names ---- */

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name(struct word w, const char *more)
{
    bool ok = w.n > 0 && letter(w.p[0]);
    for (size_t i = 1; ok && i < w.n; i++)
        ok = letter(w.p[i]) || (w.p[i] >= '0' && w.p[i] <= '9') || (w.p[i] && strchr(more, w.p[i]));
    return ok;
}

/* A word of the language, or a kind of layer. */
static bool reserved(const struct reader *r, struct word w)
{
    return is(w, "as") || is(w, "from") || is(w, "rows") || find_kind(r, w);
}

static wisp_status check_name(const struct reader *r, struct word w)
{
    if (!is_name(w, "_-.") || w.p[w.n - 1] == '.')
        return FAIL(r, w.at,
                    "expected a name (a letter, then letters, digits, '_', '-' or '.'), found %s",
                    found(r, w).text);
    if (w.n >= WISP_LAYER_NAME)
        return FAIL(r, w.at, "the name %s has %zu characters, expected at most %d", show(w).text,
                    w.n, WISP_LAYER_NAME - 1);
    if (reserved(r, w))
        return FAIL(r, w.at, "%s is a word of the language, expected a name of your own",
                    show(w).text);
    if (is(w, "votes") || is(w, "calibration")) /* as tensors of a model begin */
        return FAIL(r, w.at, "%s is the name of another part of a model, expected one of your own",
                    show(w).text);
    return WISP_OK;
}

/* Where a turn's own names begin. */
static size_t own_names(const struct reader *r)
{
    return r->depth ? r->turns[r->depth - 1].first_name : 0;
}

/* The last of the names [from, to). */
static const struct named *find_name(const struct reader *r, struct word w, size_t from, size_t to)
{
    for (size_t i = to; i > from; i--)
        if (r->names[i - 1].bytes == w.n && memcmp(r->names[i - 1].name, w.p, w.n) == 0)
            return &r->names[i - 1];
    return NULL;
}

static wisp_status no_memory(const struct reader *r)
{
    return wisp_fail_mem(r->err, r->cap * sizeof *r->said, "the layers of a net");
}

static wisp_status add_name(struct reader *r, struct word w, int value)
{
    wisp_status st = check_name(r, w);
    if (st != WISP_OK) return st;
    if (find_name(r, w, own_names(r), r->n_names))
        return FAIL(r, w.at, "the name %s is there already", show(w).text);
    if (!wisp_grow(&r->names, r->n_names, &r->cap_names, sizeof *r->names)) return no_memory(r);
    struct named *to = &r->names[r->n_names++];
    *to = (struct named){ .bytes = (unsigned char)w.n, .value = value };
    memcpy(to->name, w.p, w.n);
    return WISP_OK;
}

static wisp_status no_value(const struct reader *r, struct word w)
{
    const char *words[MOST_WORDS];
    size_t n = 0;
    for (size_t i = r->n_names; i > 0 && n < MOST_WORDS; i--)
        if (r->names[i - 1].value != REPEAT) words[n++] = r->names[i - 1].name;
    return FAIL(r, w.at, "there is no value %s before this place; %s", show(w).text,
                hint(w, words, n, "'as NAME' behind a layer names what it gives").text);
}

/* The value of a name that was given before. */
static wisp_status value_of(int *out, const struct reader *r, struct word w)
{
    if (!is_name(w, "_-.") || reserved(r, w))
        return FAIL(r, w.at, "expected the name of a value, found %s", found(r, w).text);
    const struct named *named = find_name(r, w, 0, r->n_names);
    if (!named) return no_value(r, w);
    if (named->value == REPEAT)
        return FAIL(r, w.at, "'%s' names a repeat, expected a value of it, as in '%s.0.NAME'",
                    named->name, named->name);
    *out = named->value;
    return WISP_OK;
}

/* "block" and 0 and "conv" -> "block.0.conv" */
static wisp_status join(char out[WISP_LAYER_NAME], const struct reader *r, size_t at,
                        const char *outer, int number, const char *name)
{
    char whole[WISP_LAYER_NAME];
    int n = snprintf(whole, sizeof whole, "%s.%d.%s", outer, number, name);
    if (n >= WISP_LAYER_NAME)
        return FAIL(r, at, "the name %s has %d characters with its repeat, expected at most %d",
                    show((struct word){ whole, (size_t)n, at }).text, n, WISP_LAYER_NAME - 1);
    memcpy(out, whole, (size_t)n + 1);
    return WISP_OK;
}

/* ---- layers ---- */

static int n_args(const struct wisp_layer_kind *kind)
{
    int n = 0;
    while (kind->args && kind->args[n].name) n++;
    return n;
}

const char *wisp_arg_word(const struct wisp_arg *a, size_t i, size_t *n)
{
    const char *word = a->word ? a->word(i) : a->words;
    for (size_t at = 0; !a->word && word && at < i; at++)
        word = word[strcspn(word, "|")] ? word + strcspn(word, "|") + 1 : NULL;
    *n = !word ? 0 : a->word ? strlen(word) : strcspn(word, "|");
    return word;
}

/* The place of a word among those that there are; -1: it is none of them. */
static int word_place(const struct wisp_arg *a, struct word w)
{
    size_t n;
    const char *word;
    for (int i = 0; (word = wisp_arg_word(a, (size_t)i, &n)); i++)
        if (n == w.n && memcmp(word, w.p, n) == 0) return i;
    return -1;
}

static bool number_of(double *out, struct word w)
{
    char text[64], *end;
    if (w.n == 0 || w.n >= sizeof text) return false;
    memcpy(text, w.p, w.n);
    text[w.n] = 0;
    if (strspn(text, "+-.0123456789eE") != w.n) return false; /* no hexadecimal, no inf */
    *out = wisp_strtod(text, &end);
    return *end == 0 && isfinite(*out);
}

/* "3x5", or "3" for both. */
static bool size_of(double *out, struct word w, const struct wisp_arg *a)
{
    const char *x = memchr(w.p, 'x', w.n);
    struct word part[2] = { { w.p, x ? (size_t)(x - w.p) : w.n, w.at }, w };
    if (x) part[1] = (struct word){ x + 1, w.n - part[0].n - 1, w.at };
    else part[1] = part[0];
    size_t side[2];
    for (int i = 0; i < 2; i++) {
        double v;
        if (!number_of(&v, part[i]) || v < a->least || v > a->most || v != floor(v)) return false;
        side[i] = (size_t)v;
    }
    *out = wisp_size_of(side[0], side[1]);
    return true;
}

void wisp_arg_range(char out[WISP_ARG_RANGE], const struct wisp_arg *a)
{
    const size_t room = WISP_ARG_RANGE;
    size_t at = 0;
    if (a->type == WISP_ARG_FILE) {
        snprintf(out, room, "the name of a file, of at most %d characters", WISP_FILE_NAME - 1);
    } else if (a->type == WISP_ARG_WORD) {
        const char *word;
        for (size_t i = 0, n; (word = wisp_arg_word(a, i, &n)) && at < room - 1; i++)
            at += (size_t)snprintf(out + at, room - at, "%s%.*s", i ? " or " : "", (int)n, word);
    } else if (a->type == WISP_ARG_SIZE) {
        wisp_print(out, room, "HEIGHTxWIDTH or one number for both, from %.15g to %.15g", a->least,
                   a->most);
    } else {
        wisp_print(out, room, "a %snumber from %.15g %s %.15g",
                   a->type == WISP_ARG_INT ? "whole " : "", a->least, a->open ? "to below" : "to",
                   a->most);
    }
}

/* "width: a whole number from 1 to 1048576" */
static const char *expected(char out[160], const struct wisp_arg *a)
{
    char range[WISP_ARG_RANGE];
    wisp_arg_range(range, a);
    snprintf(out, 160, "%s: %s", a->name, range);
    return out;
}

static wisp_status set_arg(struct reader *r, struct wisp_said *s, int i, struct word w)
{
    const struct wisp_arg *a = &s->kind->args[i];
    char want[160];
    double v = 0;
    bool ok;
    if (s->given & 1u << i) return FAIL(r, w.at, "'%s' has its %s already", s->kind->name, a->name);
    if (a->type == WISP_ARG_WORD) {
        int place = word_place(a, w);
        ok = place >= 0;
        v = place;
    } else if (a->type == WISP_ARG_FILE) {
        if (s->file[0])
            return FAIL(r, w.at, "'%s' takes one file, found %s behind %s", s->kind->name,
                        show(w).text, show((struct word){ s->file, strlen(s->file), 0 }).text);
        ok = w.n > 0 && w.n < sizeof s->file;
        if (ok) memcpy(s->file, w.p, w.n);
    } else if (a->type == WISP_ARG_SIZE) {
        ok = size_of(&v, w, a);
    } else {
        ok = number_of(&v, w) && v >= a->least && v <= a->most && !(a->open && v == a->most) &&
             (a->type == WISP_ARG_REAL || v == floor(v));
    }
    if (!ok)
        return FAIL(r, w.at, "'%s' needs %s; found %s%s", s->kind->name, expected(want, a),
                    found(r, w).text, s->file[0] ? " (the name of a file ends at a blank)" : "");
    s->arg[i] = v;
    s->given |= 1u << i;
    return WISP_OK;
}

/* "width=8" */
static wisp_status named_arg(struct reader *r, struct wisp_said *s, struct word w, size_t key)
{
    const struct word name = { w.p, key, w.at },
                      value = { w.p + key + 1, w.n - key - 1, w.at + key + 1 };
    const char *words[WISP_MAX_ARGS];
    char list[100] = "it has none";
    int n = n_args(s->kind), at = 0;
    for (int i = 0; i < n; i++) {
        words[i] = s->kind->args[i].name;
        if (is(name, words[i])) return set_arg(r, s, i, value);
        if (at < 80) at += wisp_print(list + at, 20, "%s%.17s", i ? ", " : "", words[i]);
    }
    return FAIL(r, w.at, "'%s' has no argument %s; %s", s->kind->name, show(name).text,
                hint(name, words, (size_t)n, n ? "its arguments: %s" : "%s", list).text);
}

/* The first argument with a place that was not given; -1: all were. */
static int next_arg(const struct wisp_said *s)
{
    for (int i = 0; i < n_args(s->kind); i++)
        if (!(s->given & 1u << i) && !s->kind->args[i].by_name) return i;
    return -1;
}

static wisp_status read_input(struct reader *r, struct wisp_said *s, struct word w)
{
    if (s->n_from == s->kind->most_from || s->n_from == WISP_MAX_FROM)
        return FAIL(r, w.at, "'%s' reads at most %d values; join some of them first", s->kind->name,
                    s->kind->most_from);
    return value_of(&s->from[s->n_from++], r, w);
}

/* What follows the kind's name, up to the separator. */
static wisp_status read_rest(struct reader *r, struct wisp_said *s)
{
    wisp_status st = WISP_OK;
    while (st == WISP_OK && look(r).n > 0 && !is(look(r), "as")) {
        struct word w = take(r);
        const char *equals = memchr(w.p, '=', w.n);
        int i = next_arg(s);
        bool value = i >= 0 && (s->kind->args[i].type == WISP_ARG_WORD || !letter(w.p[0]));
        if (equals) st = named_arg(r, s, w, (size_t)(equals - w.p));
        else if (s->kind->most_from > 1 && !value) st = read_input(r, s, w);
        else if (i >= 0) st = set_arg(r, s, i, w);
        else
            st = FAIL(r, w.at, "'%s' takes %s, expected ',' or the end, found %s", s->kind->name,
                      n_args(s->kind) ? "no more arguments" : "no arguments", show(w).text);
    }
    return st;
}

/* Arguments that were not given get their defaults. */
static wisp_status fill_in(struct reader *r, struct wisp_said *s, size_t at)
{
    char want[160];
    for (int i = 0; i < n_args(s->kind); i++) {
        const struct wisp_arg *a = &s->kind->args[i];
        if (s->given & 1u << i || s->given & a->unless) continue;
        if (!a->fallback)
            return FAIL(r, at, "'%s' needs %s; found %s", s->kind->name, expected(want, a),
                        show_here(r).text);
        const struct word w = { a->fallback, strlen(a->fallback), at };
        if (a->type == WISP_ARG_WORD) s->arg[i] = word_place(a, w);
        else if (a->type == WISP_ARG_SIZE) size_of(&s->arg[i], w, a);
        else if (a->type != WISP_ARG_FILE) number_of(&s->arg[i], w);
    }
    return WISP_OK;
}

static wisp_status check_inputs(struct reader *r, const struct wisp_said *s)
{
    int least = s->kind->least_from ? s->kind->least_from : 1;
    if (s->n_from >= least) return WISP_OK;
    return FAIL(r, s->at,
                "'%s' reads at least %d values: the one before it, and others by name, as "
                "in '%s a'",
                s->kind->name, least, s->kind->name);
}

static wisp_status name_layer(struct reader *r, struct wisp_said *s, int value)
{
    take(r); /* "as" */
    struct word w = take(r);
    wisp_status st = add_name(r, w, value);
    if (st != WISP_OK) return st;
    const struct turn *t = r->depth ? &r->turns[r->depth - 1] : NULL;
    if (t && !t->name[0]) return WISP_OK; /* the same in every turn: it names no layer */
    if (t) return join(s->name, r, w.at, t->name, t->done, r->names[r->n_names - 1].name);
    memcpy(s->name, w.p, w.n);
    return WISP_OK;
}

static wisp_status no_layer(const struct reader *r, struct word w)
{
    const char *words[MOST_WORDS] = { "as", "from" };
    const struct wisp_layer_kind *k;
    size_t n = 2;
    for (size_t i = 0; (k = r->kinds(i)) && n < MOST_WORDS; i++) words[n++] = k->name;
    return FAIL(r, w.at, "there is no layer %s; %s", show(w).text,
                hint(w, words, n, "'wisp info' lists the kinds").text);
}

static wisp_status read_layer(struct reader *r, struct word w)
{
    const struct wisp_layer_kind *kind = find_kind(r, w);
    if (!kind) return no_layer(r, w);
    if (kind->head && r->depth) return FAIL(r, w.at, "'%s' cannot be repeated", kind->name);
    if (r->n == WISP_MAX_LAYERS) return FAIL(r, w.at, "more than %d layers", WISP_MAX_LAYERS);
    if (!wisp_grow(&r->said, r->n, &r->cap, sizeof *r->said)) return no_memory(r);
    struct wisp_said *s = &r->said[r->n++];
    *s = (struct wisp_said){ .kind = kind, .n_from = 1, .from = { r->value }, .at = w.at };
    wisp_status st = read_rest(r, s);
    if (st == WISP_OK) st = fill_in(r, s, r->at);
    if (st == WISP_OK) st = check_inputs(r, s);
    r->value = (int)r->n;
    if (st == WISP_OK && is(look(r), "as")) st = name_layer(r, s, r->value);
    return st;
}

/* ---- repeats ---- */

static wisp_status repeat_head(struct reader *r, struct word count, double *times)
{
    const bool number = number_of(times, count);
    if (!number || !is(look(r), "x"))
        return FAIL(r, count.at,
                    "expected a layer, or a repeat as in '3 x (dense 64, relu)', found %s",
                    show(count).text);
    take(r);
    if (*times != floor(*times) || *times < 1 || *times > MOST_TURNS)
        return FAIL(r, count.at, "a repeat of %s times, expected a whole number from 1 to %d",
                    show(count).text, MOST_TURNS);
    if (r->depth == MOST_DEPTH)
        return FAIL(r, count.at, "repeats stand in each other %d deep, expected at most %d",
                    r->depth + 1, MOST_DEPTH);
    return WISP_OK;
}

static wisp_status open_repeat(struct reader *r, struct word count)
{
    double times = 0;
    struct word name = { 0 };
    wisp_status st = repeat_head(r, count, &times);
    if (st == WISP_OK && look(r).n > 0) st = add_name(r, name = take(r), REPEAT);
    if (st != WISP_OK) return st;
    skip_blanks(r);
    if (r->text[r->at] != '(')
        return FAIL(r, r->at, "expected '(' and the layers to repeat, found %s", show_here(r).text);
    struct turn *t = &r->turns[r->depth], *outer = r->depth ? t - 1 : NULL;
    *t = (struct turn){ .opened = count.at,
                        .body = ++r->at,
                        .left = (int)times,
                        .first_name = r->n_names,
                        .first_layer = (int)r->n };
    r->depth++;
    if (name.n) copy(t->own, sizeof t->own, name);
    if (!outer) memcpy(t->name, t->own, sizeof t->name);
    else if (name.n && outer->name[0])
        st = join(t->name, r, name.at, outer->name, outer->done, t->own);
    return st;
}

/* Names of a turn that is over: outside they have the repeat's before them, or are gone. */
static wisp_status leave_turn(struct reader *r, const struct turn *t)
{
    wisp_status st = WISP_OK;
    const size_t outer = r->depth > 1 ? t[-1].first_name : 0; /* where those around it begin */
    if (!t->own[0]) r->n_names = t->first_name;
    for (size_t i = t->first_name; i < r->n_names && st == WISP_OK; i++) {
        struct named *named = &r->names[i];
        st = join(named->name, r, t->opened, t->own, t->done, named->name);
        named->bytes = (unsigned char)strlen(named->name);
        const struct word w = { named->name, named->bytes, t->opened };
        if (st == WISP_OK && find_name(r, w, outer, i))
            st = FAIL(r, t->opened, "the name %s is there already", show(w).text);
    }
    return st;
}

static wisp_status close_turn(struct reader *r)
{
    size_t at = r->at++;
    if (r->depth == 0) return FAIL(r, at, "')' without a '(' before it");
    struct turn *t = &r->turns[r->depth - 1];
    if ((int)r->n == t->first_layer) return FAIL(r, at, "a repeat without a layer");
    wisp_status st = leave_turn(r, t);
    if (st != WISP_OK) return st;
    t->done++;
    if (--t->left == 0) {
        r->depth--;
        return WISP_OK;
    }
    t->first_name = r->n_names;
    t->first_layer = (int)r->n;
    r->again += r->at - t->body;
    r->at = t->body;
    if (r->again > MOST_READ)
        return FAIL(r, t->opened, "repeats of more than %d characters in all", MOST_READ);
    return WISP_OK;
}

/* ---- the whole ---- */

static wisp_status read_item(struct reader *r)
{
    const struct wisp_layer_kind *last = r->n ? r->said[r->n - 1].kind : NULL;
    struct word w = take(r);
    if (w.n == 0) return FAIL(r, w.at, "expected a layer, found %s", show_here(r).text);
    if (last && last->head)
        return FAIL(r, w.at, "'%s' must be the last layer, found %s behind it", last->name,
                    show(w).text);
    if (++r->items > MOST_ITEMS)
        return FAIL(r, w.at, "more than %d layers, names and repeats", MOST_ITEMS);
    if (strchr("+-.0123456789", w.p[0])) return open_repeat(r, w);
    if (is(w, "as")) return add_name(r, take(r), r->value);
    if (is(w, "from")) {
        struct word name = take(r);
        if (!is(name, "rows")) return value_of(&r->value, r, name);
        r->value = 0;
        return WISP_OK;
    }
    return read_layer(r, w);
}

/* Behind an item stands a separator, or what ends the list. */
static wisp_status end_item(struct reader *r)
{
    skip_blanks(r);
    char c = r->text[r->at];
    if (c == ',') r->at++;
    else if (c && c != '\n' && c != ')')
        return FAIL(r, r->at, "expected ',' or the end, found %s", show_here(r).text);
    return WISP_OK;
}

static wisp_status read_all(struct reader *r)
{
    size_t bytes = strnlen(r->text, MOST_TEXT + 1);
    if (bytes > MOST_TEXT) return FAIL(r, MOST_TEXT, "a net of more than %d characters", MOST_TEXT);
    wisp_status st = WISP_OK;
    for (skip_lines(r); st == WISP_OK && r->text[r->at]; skip_lines(r)) {
        const bool closes = r->text[r->at] == ')';
        const int depth = r->depth;
        st = closes ? close_turn(r) : read_item(r);
        /* Behind "(", and where a turn begins again, comes an item. */
        bool opened = r->depth > depth || (closes && r->depth == depth);
        if (st == WISP_OK && !opened) st = end_item(r);
    }
    if (st == WISP_OK && r->depth)
        st = FAIL(r, r->turns[r->depth - 1].opened, "a repeat without its ')'");
    return st;
}

wisp_status wisp_say_net(struct wisp_said **out, int *n, const char *text, const char *where,
                         const struct wisp_layer_kind *(*kinds)(size_t i), wisp_error *err)
{
    struct reader r = { .text = text, .where = where, .kinds = kinds, .err = err };
    wisp_status st = read_all(&r);
    if (st == WISP_OK && r.n == 0) st = FAIL(&r, r.at, "a net without a layer");
    if (st == WISP_OK && !r.said[r.n - 1].kind->head)
        st = read_layer(&r, (struct word){ "output", 6, r.at });
    wisp_free(r.names);
    if (st != WISP_OK) wisp_free(r.said);
    *out = st == WISP_OK ? r.said : NULL;
    *n = st == WISP_OK ? (int)r.n : 0;
    return st;
}
