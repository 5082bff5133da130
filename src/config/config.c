/* The values a run was given: options set one by one or by a file of them, checked against their
 * rows of the table. */
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "config/options.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct wisp_config {
    const wisp_option *row[N_OPTS]; /* what the command means by it, or all */
    char *text[N_OPTS];             /* NULL: the default */
    double num[N_OPTS];
};

static bool is_type(const wisp_option *o, const char *type)
{
    return strcmp(o->type, type) == 0;
}

/* Is every text a value of it, for whoever uses it to judge? */
static bool is_text(const wisp_option *o)
{
    static const char *const types[] = { "text", "list", "file", "output", "folder" };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (is_type(o, types[i])) return true;
    return false;
}

/* "1.5G" -> bytes; false if it is no size. */
static bool parse_size(double *out, const char *s)
{
    char *end;
    *out = wisp_strtod(s, &end);
    const char *units = "kmgtKMGT", *u = *end ? strchr(units, *end) : NULL;
    if (end == s || *out < 0 || !isfinite(*out)) return false;
    if (u) {
        *out *= pow(1024, (double)((u - units) % 4 + 1));
        end++;
        if (*end == 'i') end++;
        if (*end == 'B' || *end == 'b') end++;
    }
    return *end == 0 && *out < 0x1p62; /* a size_t holds it, and sums of a few */
}

static bool is_choice(const char *range, const char *s)
{
    size_t n = strlen(s);
    for (const char *p = range; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (n > 0 && strncmp(p, s, n) == 0 && (p[n] == 0 || p[n] == '|')) return true;
    return false;
}

/* "; did you mean softmax?", or nothing. */
static const char *meant(char *to, size_t room, const char *range, const char *s)
{
    const char *words[32];
    char text[1000];
    size_t n = 0;
    snprintf(text, sizeof text, "%s", range);
    for (char *p = text, *next; p && n < 32; p = next) {
        if ((next = strchr(p, '|'))) *next++ = 0;
        words[n++] = p;
    }
    int i = wisp_nearest(s, words, n);
    snprintf(to, room, i < 0 ? "" : "; did you mean %s?", i < 0 ? "" : words[i]);
    return to;
}

static wisp_status parse(double *num, const wisp_option *o, const char *s, wisp_error *err)
{
    *num = 0;
    if (is_text(o)) return WISP_OK;
    if (is_type(o, "choice")) {
        if (is_choice(o->range, s)) return WISP_OK;
        char hint[80];
        return wisp_fail_option(err, o->key, "'%s' is not one of %s%s", s, o->range,
                                meant(hint, sizeof hint, o->range, s));
    }
    if (is_type(o, "flag")) {
        if (strcmp(s, "1") == 0 || strcmp(s, "true") == 0 || strcmp(s, "yes") == 0) *num = 1;
        else if (strcmp(s, "0") != 0 && strcmp(s, "false") != 0 && strcmp(s, "no") != 0)
            return wisp_fail_option(err, o->key, "'%s' is not yes or no", s);
        return WISP_OK;
    }
    if (is_type(o, "size")) {
        if (parse_size(num, s)) return WISP_OK;
        return wisp_fail_option(err, o->key, "'%s' is not a size like 512M or 2G", s);
    }
    const char *words =
        strchr(o->range, '|'); /* behind the numbers: for whoever uses it to judge */
    if (words && is_choice(words + 1, s)) return WISP_OK;
    char *end;
    double lo = wisp_strtod(o->range, NULL), hi = wisp_strtod(strstr(o->range, "..") + 2, NULL);
    bool whole = !is_type(o, "real");
    *num = wisp_strtod(s, &end);
    if (end == s || *end || (whole && *num != floor(*num)))
        return wisp_fail_option(err, o->key, "'%s' is not %s", s,
                                whole ? "a whole number" : "a number");
    if (!(*num >= lo && *num <= hi))
        return wisp_fail_option(err, o->key, "%s is not in %s", s, o->range);
    return WISP_OK;
}

/* Rows and defaults are the command's. */
static void begin(wisp_config *c, const char *command)
{
    for (size_t i = 0; i < N_OPTS; i++) {
        c->row[i] = wisp_option_meant(command, (enum wisp_opt)i);
        parse(&c->num[i], c->row[i], c->row[i]->fallback, NULL);
    }
}

wisp_status wisp_config_create(wisp_config **out, wisp_error *err)
{
    wisp_config *c = *out = wisp_zalloc(1, sizeof *c);
    if (!c) return wisp_fail_mem(err, sizeof *c, "options");
    begin(c, "");
    return WISP_OK;
}

wisp_status wisp_config_command(wisp_config *c, const char *command, wisp_error *err)
{
    for (size_t i = 0; i < N_OPTS; i++)
        if (c->text[i])
            return wisp_fail(err, WISP_EINVAL,
                             "the command '%.40s' must be named before options are set; '%s' is",
                             command, c->row[i]->key);
    if (!wisp_option_of(command, 0))
        return wisp_fail(err, WISP_EINVAL, "no command '%.40s' has options", command);
    begin(c, command);
    return WISP_OK;
}

void wisp_config_free(wisp_config *c)
{
    if (!c) return;
    for (size_t i = 0; i < N_OPTS; i++) wisp_free(c->text[i]);
    wisp_free(c);
}

static int find(const char *key)
{
    for (int i = 0; i < N_OPTS; i++)
        if (strcmp(wisp_option_row((size_t)i)->key, key) == 0) return i;
    return -1;
}

wisp_status wisp_config_set(wisp_config *c, const char *key, const char *value, wisp_error *err)
{
    int i = find(key);
    const wisp_option *like = i < 0 ? wisp_option_like(key, NULL) : NULL;
    if (like)
        return wisp_fail(err, WISP_EINVAL, "no option '%s'; did you mean '%s'?", key, like->key);
    if (i < 0) return wisp_fail(err, WISP_EINVAL, "no option '%s'", key);
    double num;
    wisp_status st = parse(&num, c->row[i], value, err);
    if (st != WISP_OK) return st;
    char *copy = wisp_strdup(value);
    if (!copy) return wisp_fail_mem(err, strlen(value) + 1, "an option");
    wisp_free(c->text[i]);
    c->text[i] = copy;
    c->num[i] = num;
    return WISP_OK;
}

const char *wisp_config_get(const wisp_config *c, const char *key)
{
    int i = find(key);
    return i < 0 ? NULL : wisp_opt_text(c, (enum wisp_opt)i);
}

double wisp_opt_num(const wisp_config *c, enum wisp_opt o)
{
    return c->num[o];
}

const char *wisp_opt_text(const wisp_config *c, enum wisp_opt o)
{
    if (!c) return wisp_option_row(o)->fallback;
    return c->text[o] ? c->text[o] : c->row[o]->fallback;
}

wisp_status wisp_opt_time(double *seconds, const wisp_config *c, enum wisp_opt o, wisp_error *err)
{
    char *end;
    const char *text = wisp_opt_text(c, o);
    const double x = wisp_strtod(text, &end);
    const double unit = *end == 'm' ? 60 : *end == 'h' ? 3600 : *end == 's' || !*end ? 1 : -1;
    *seconds = x * unit;
    if (!*text || (end > text && (!*end || !end[1]) && x > 0 && unit > 0)) return WISP_OK;
    return wisp_fail_option(err, wisp_option_row(o)->key,
                            "found '%.40s', expected a time: 90s, 5m or 1.5h", text);
}

bool wisp_opt_is(const wisp_config *c, enum wisp_opt o, const char *word)
{
    const char *range = wisp_option_row(o)->range;
    assert(!*range || is_choice(range, word)); /* else it would never be */
    (void)range;
    return strcmp(wisp_opt_text(c, o), word) == 0;
}

bool wisp_opt_given(const wisp_config *c, enum wisp_opt o)
{
    return c->text[o] != NULL;
}

static char *trim(char *s)
{
    while (*s == ' ' || *s == '\t') s++;
    for (size_t n = strlen(s); n > 0 && strchr(" \t\r\n", s[n - 1]); n--) s[n - 1] = 0;
    return s;
}

/* One line of a file of options. */
static wisp_status set_line(wisp_config *c, char *line, wisp_error *err)
{
    char *hash = strchr(line, '#');
    if (hash) *hash = 0;
    char *key = trim(line), *eq = strchr(key, '=');
    if (!*key) return WISP_OK;
    if (!eq) return wisp_fail(err, WISP_EINVAL, "expected 'key = value', found '%.40s'", key);
    *eq = 0;
    key = trim(key);
    if (strcmp(key, wisp_option_row(OPT_CONFIG)->key) == 0)
        return wisp_fail(err, WISP_EINVAL,
                         "a file of options cannot name another: give each with "
                         "--config");
    return wisp_config_set(c, key, trim(eq + 1), err);
}

enum { LINE_ROOM = 4095 }; /* with the final zero */

/* The next line without its end; *p moves behind it. */
static wisp_status read_line(char line[LINE_ROOM], const char **p, const char *end, wisp_error *err)
{
    const char *nl = *p < end ? memchr(*p, '\n', (size_t)(end - *p)) : NULL;
    const size_t n = (size_t)((nl ? nl : end) - *p);
    if (n > 0 && memchr(*p, 0, n < LINE_ROOM ? n : LINE_ROOM))
        return wisp_fail(err, WISP_EINVAL, "a NUL byte, expected text");
    if (n >= LINE_ROOM)
        return wisp_fail(err, WISP_EINVAL, "expected text, at most %d bytes per line",
                         LINE_ROOM - 1);
    if (n > 0) memcpy(line, *p, n);
    line[n] = 0;
    *p = nl ? nl + 1 : end;
    return WISP_OK;
}

wisp_status wisp_config_load(wisp_config *c, const char *path, wisp_error *err)
{
    struct wisp_map map;
    char line[LINE_ROOM];
    wisp_status st = wisp_map_open(&map, path, err);
    const char *p = map.p ? (const char *)map.p : "", *end = p + map.bytes;
    for (size_t n = 1; st == WISP_OK && p < end; n++) {
        wisp_error why = { 0 };
        st = read_line(line, &p, end, &why);
        if (st == WISP_OK) {
            bool bom = n == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0;
            st = set_line(c, line + (bom ? 3 : 0), &why);
        }
        if (st != WISP_OK) wisp_fail_at(err, st, path, n, "%.400s", why.text);
    }
    return wisp_map_end(&map, st, err);
}

wisp_status wisp_opt_list(double *out, size_t *n, size_t room, const wisp_config *c,
                          enum wisp_opt o, wisp_error *err)
{
    const char *s = wisp_opt_text(c, o);
    *n = 0;
    for (const char *p = s; *p;) {
        char *end;
        double v = wisp_strtod(p, &end);
        if (end == p || (*end && *end != ',') || !isfinite(v))
            return wisp_fail_option(err, wisp_option_row(o)->key,
                                    "'%s' is not a list of numbers like 1,3,5", s);
        if (*n == room)
            return wisp_fail_option(err, wisp_option_row(o)->key, "'%s' has more than %zu numbers",
                                    s, room);
        out[(*n)++] = v;
        p = *end ? end + 1 : end;
    }
    return WISP_OK;
}

wisp_status wisp_config_take(wisp_config *to, const wisp_config *from, const enum wisp_opt *skip,
                             size_t n_skip, wisp_error *err)
{
    const wisp_option *o;
    wisp_status st = WISP_OK;
    for (size_t k = 0; st == WISP_OK && (o = wisp_option_row(k)); k++) {
        bool left_out = !strstr(o->commands, "train") || !wisp_opt_given(from, (enum wisp_opt)k);
        for (size_t i = 0; i < n_skip; i++) left_out |= skip[i] == (enum wisp_opt)k;
        if (!left_out) st = wisp_config_set(to, o->key, wisp_opt_text(from, (enum wisp_opt)k), err);
    }
    return st;
}
