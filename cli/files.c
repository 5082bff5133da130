/* The files of a command line, looked at before any work is done: those that are read are there,
 * and none of those that are written is one that is read, by whatever name or link. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = MOST_FILES + 40 };

struct named {
    const char *what; /* "-o", "--log", "DATA" */
    char path[PATH_MAX];
};

struct list {
    struct named *at; /* (MOST) */
    size_t n;
};

static void add(struct list *l, const char *what, const char *path, const char *suffix)
{
    if (l->n == MOST || !*path || strcmp(path, "-") == 0) return;
    struct named *to = &l->at[l->n];
    if (snprintf(to->path, sizeof to->path, "%s%s", path, suffix) >= (int)sizeof to->path) return;
    to->what = what;
    l->n++;
}

static bool is_type(const wisp_option *o, const char *type)
{
    return strcmp(o->type, type) == 0;
}

/* A word of the range stands for no file. */
static bool is_word(const wisp_option *o, const char *value)
{
    size_t n = strlen(value);
    for (const char *p = o->range; n && (p = strstr(p, value)); p += n)
        if ((p == o->range || p[-1] == '|') && (p[n] == 0 || p[n] == '|')) return true;
    return false;
}

/* What options name: files that are read, or that are written. */
static void add_options(struct list *l, const struct args *a, const char *type)
{
    const wisp_option *o;
    for (size_t i = 0; (o = wisp_option_of(a->command->name, i)); i++)
        if (is_type(o, type) && !is_word(o, args_text(a, o->key)))
            add(l, o->key, args_text(a, o->key), "");
}

/* Is it there, and may it be read?  Gives the exit code. */
static int is_readable(const struct named *f)
{
    struct stat st;
    int bad = stat(f->path, &st) != 0 || access(f->path, R_OK) != 0 ? errno
              : S_ISDIR(st.st_mode) && strcmp(f->what, "valid") != 0 && strcmp(f->what, "test") != 0
                  ? EISDIR
                  : 0; /* folders of images */
    if (!bad) return 0;
    tell("wisp: --%s: %s: cannot be opened: %s", f->what, f->path, strerror(bad));
    return 5;
}

/* The path without links and dots, also where the file itself is not there yet. */
static bool place(char to[PATH_MAX], const char *path)
{
    char folder[PATH_MAX], resolved[PATH_MAX];
    if (realpath(path, to)) return true;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    return realpath(folder, resolved) && snprintf(to, PATH_MAX, "%s/%s", resolved, name) < PATH_MAX;
}

static bool is_same(const char *a, const char *b)
{
    struct stat x, y;
    char at[PATH_MAX], bt[PATH_MAX];
    if (stat(a, &x) == 0 && stat(b, &y) == 0)
        return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    return place(at, a) && place(bt, b) && strcmp(at, bt) == 0;
}

static const char *dashes(const struct named *f)
{
    return *f->what == '-' || strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ", *f->what) ? "" : "--";
}

/* No file of 'to' is one of 'from', nor another of 'to'.  Gives the exit code. */
static int are_apart(const struct list *to, const struct list *from, const struct args *a)
{
    for (size_t i = 0; i < to->n; i++) {
        const struct named *f = &to->at[i];
        for (size_t k = 0; k < from->n; k++)
            if (is_same(f->path, from->at[k].path))
                return usage_error(
                    a->command,
                    "%s%s: %s is the file that %s%s reads, and would be overwritten; "
                    "name another",
                    dashes(f), f->what, f->path, dashes(&from->at[k]), from->at[k].what);
        for (size_t k = 0; k < i; k++)
            if (to->at[k].what != f->what && is_same(f->path, to->at[k].path))
                return usage_error(a->command, "%s%s: %s is written by %s%s, too; name another",
                                   dashes(f), f->what, f->path, dashes(&to->at[k]), to->at[k].what);
    }
    return 0;
}

/* Stdin can be read once.  Gives the exit code. */
static int is_stdin_once(const struct args *a)
{
    const struct command *c = a->command;
    const wisp_option *o;
    int n = 0;
    for (int i = 0; i < c->inputs && i < a->n_files; i++) n += strcmp(a->files[i], "-") == 0;
    for (size_t i = 0; (o = wisp_option_of(c->name, i)); i++)
        n += is_type(o, "file") && strcmp(args_text(a, o->key), "-") == 0;
    return n < 2 ? 0 : usage_error(c, "'-' is given %d times, but stdin can be read once", n);
}

int files_check(const struct args *a)
{
    static struct named read[MOST], written[MOST];
    static const char *const ordinal[] = { "FILE", "FILE 2", "FILE 3", "FILE 4" };
    const struct command *c = a->command;
    struct list from = { read, 0 }, to = { written, 0 };
    int rc = 0;
    add_options(&from, a, "file");
    for (size_t i = 0; i < from.n && rc == 0; i++) rc = is_readable(&from.at[i]);
    for (int i = 0; i < c->inputs && i < a->n_files; i++)
        add(&from, c->inputs > 1 ? ordinal[i] : ordinal[0], a->files[i], "");
    const char *target = c->out ? a->out : a->n_files > c->inputs ? a->files[c->inputs] : NULL;
    for (int i = 0; i < N_WRITES && c->writes[i] && target; i++)
        add(&to, c->out ? "-o" : "OUT", target, c->writes[i]);
    add_options(&to, a, "output");
    if (rc == 0) rc = is_stdin_once(a);
    return rc ? rc : are_apart(&to, &from, a);
}

wisp_status load_model(wisp_model **out, const struct args *a, wisp_error *err)
{
    wisp_status st = wisp_model_load(out, a->files[0], err);
    if (st != WISP_EMODEL || a->n_files < 2) return st;
    wisp_error why = *err;
    const char *kind = "";
    if (wisp_file_kind(&kind, a->files[0], NULL) == WISP_OK && *kind &&
        wisp_file_kind(&kind, a->files[1], NULL) == WISP_OK && strcmp(kind, "model") == 0)
        return refuse(err, st, "%.240s; the model comes first: wisp %s %.100s %.100s", why.text,
                      a->command->name, a->files[1], a->files[0]);
    return st;
}

wisp_status load_model_share(wisp_model **out, wisp_context *ctx, const struct args *a,
                             wisp_error *err)
{
    const wisp_status st = wisp_context_agree(ctx, load_model(out, a, err), err);
    return st == WISP_OK ? wisp_model_share(*out, ctx, err) : st;
}
