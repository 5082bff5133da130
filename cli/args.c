/* Command lines: GNU long options from the library's option table, -o, -k, and files. */
#include "cli.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const wisp_option *find(const char *command, const char *key, size_t bytes)
{
    const wisp_option *o;
    for (size_t i = 0; (o = wisp_option_row(i)); i++)
        if (strlen(o->key) == bytes && memcmp(o->key, key, bytes) == 0 &&
            strstr(o->commands, command))
            return o;
    return NULL;
}

static void print_help(const char *command, const char *usage)
{
    printf("usage: wisp %s\n\n", usage);
    const wisp_option *o;
    for (size_t i = 0; (o = wisp_option_row(i)); i++) {
        if (!strstr(o->commands, command)) continue;
        int flag = strcmp(o->type, "flag") == 0;
        char left[80];
        snprintf(left, sizeof left, "--%s%s%s", o->key, flag ? "" : " ",
                 flag                             ? ""
                 : strcmp(o->type, "choice") == 0 ? o->range
                                                  : o->type);
        printf("  %-36s %s", left, o->help);
        if (!flag && *o->fallback && strcmp(o->fallback, "-1") != 0 &&
            strcmp(o->fallback, "0") != 0)
            printf(" [%s]", o->fallback);
        putchar('\n');
    }
}

static int usage_error(const char *command, const char *usage, const char *fmt, const char *what)
{
    fprintf(stderr, "wisp %s: ", command);
    fprintf(stderr, fmt, what);
    fprintf(stderr, "\nusage: wisp %s\n       wisp %s --help lists the options\n", usage, command);
    return 2;
}

/* The folder for caches when none is named: the user's own. */
static void set_cache(struct args *a)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char path[4096];
    if (wisp_config_get(a->cfg, "cache")[0] || !(xdg && *xdg ? xdg : home)) return;
    if (xdg && *xdg) snprintf(path, sizeof path, "%s/wisp", xdg);
    else snprintf(path, sizeof path, "%s/.cache/wisp", home);
    wisp_config_set(a->cfg, "cache", path, NULL);
}

/* A command line is read twice: first the files that --config names, then the rest, which wins
 * wherever it stands. */
enum pass { CONFIG_FILES, THE_REST };

/* One "--key value", "--key=value" or "--flag"; *i moves over what it used. */
static int read_long(struct args *a, int argc, char **argv, int *i, enum pass pass,
                     const char *usage)
{
    const char *key = argv[*i] + 2, *eq = strchr(key, '='), *value = eq ? eq + 1 : NULL;
    const wisp_option *o = find(a->command, key, eq ? (size_t)(eq - key) : strlen(key));
    if (!o) return usage_error(a->command, usage, "unknown option '%s'", argv[*i]);
    if (!value && strcmp(o->type, "flag") == 0) value = "1";
    if (!value && *i + 1 < argc) value = argv[++*i];
    if (!value) return usage_error(a->command, usage, "option '--%s' needs a value", o->key);
    bool is_config = strcmp(o->key, "config") == 0;
    if (is_config != (pass == CONFIG_FILES)) return 0;
    wisp_error err;
    wisp_status st = is_config ? wisp_config_load(a->cfg, value, &err)
                               : wisp_config_set(a->cfg, o->key, value, &err);
    return st == WISP_OK ? 0 : fail(&err);
}

/* "-o FILE" of a command that writes one, "-k N" of a command with an option k. */
static int read_short(struct args *a, int argc, char **argv, int *i, enum pass pass,
                      const char *usage)
{
    const char *s = argv[*i];
    int is_out = strcmp(s, "-o") == 0 && strstr(usage, "-o ");
    if (!is_out && !(strcmp(s, "-k") == 0 && find(a->command, "k", 1)))
        return usage_error(a->command, usage, "unknown option '%s'", s);
    if (*i + 1 == argc) return usage_error(a->command, usage, "option '%s' needs a value", s);
    const char *value = argv[++*i];
    if (pass == CONFIG_FILES) return 0;
    if (is_out && a->out)
        return usage_error(a->command, usage, "option '-o' is given twice: '%s'", value);
    if (is_out) a->out = value;
    wisp_error err;
    return is_out || wisp_config_set(a->cfg, "k", value, &err) == WISP_OK ? 0 : fail(&err);
}

static int read_all(struct args *a, int argc, char **argv, enum pass pass, int max,
                    const char *usage)
{
    int rc = 0, only_files = 0;
    for (int i = 1; i < argc && rc == 0; i++) {
        const char *s = argv[i];
        if (only_files || s[0] != '-' || s[1] == 0) {
            if (pass == CONFIG_FILES) continue;
            if (a->n_files == max)
                rc = usage_error(a->command, usage, "one file too many: '%s'", s);
            else a->files[a->n_files++] = s;
        } else if (strcmp(s, "--") == 0) {
            only_files = 1;
        } else if (strcmp(s, "--help") == 0 || strcmp(s, "-h") == 0) {
            print_help(a->command, usage);
            args_clear(a);
            exit(0);
        } else if (s[1] == '-') {
            rc = read_long(a, argc, argv, &i, pass, usage);
        } else {
            rc = read_short(a, argc, argv, &i, pass, usage);
        }
    }
    return rc;
}

int args_read(struct args *a, const char *command, int argc, char **argv, int min, int max,
              const char *usage)
{
    *a = (struct args){ .command = command };
    wisp_error err;
    if (wisp_config_create(&a->cfg, &err) != WISP_OK) return fail(&err);
    int rc = read_all(a, argc, argv, CONFIG_FILES, max, usage);
    if (rc == 0) rc = read_all(a, argc, argv, THE_REST, max, usage);
    if (rc == 0 && a->n_files < min)
        rc =
            usage_error(command, usage, "%s", min == 1 ? "a file is missing" : "files are missing");
    if (rc == 0) set_cache(a);
    else args_clear(a);
    return rc;
}

void args_clear(struct args *a)
{
    wisp_config_free(a->cfg);
    a->cfg = NULL;
}

const char *args_text(const struct args *a, const char *key)
{
    return wisp_config_get(a->cfg, key);
}

int args_on(const struct args *a, const char *key)
{
    const char *s = args_text(a, key); /* checked when it was set */
    return strcmp(s, "1") == 0 || strcmp(s, "true") == 0 || strcmp(s, "yes") == 0;
}

int exit_code(wisp_status st)
{
    switch (st) {
    case WISP_OK:
        return 0;
    case WISP_EINVAL:
    case WISP_ENOTSUP:
        return 2;
    case WISP_EFORMAT:
        return 3;
    case WISP_EMODEL:
        return 4;
    case WISP_EIO:
        return 5;
    case WISP_ENOMEM:
        return 6;
    case WISP_ENUMERIC:
        return 7;
    case WISP_EPEER:
        return 8;
    case WISP_ESTOPPED:
        return 128 + (stop_signal() ? stop_signal() : SIGINT);
    }
    return 1;
}

int fail(const wisp_error *err)
{
    fprintf(stderr, "wisp: %s\n", err->text);
    return exit_code(err->code);
}

static void say(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "%s\n", line);
}

wisp_status open_context(wisp_context **out, const struct args *a, wisp_error *err)
{
    wisp_status st = wisp_context_create(out, (int)strtod(args_text(a, "threads"), NULL), err);
    if (st == WISP_OK) wisp_context_on_notice(*out, say, NULL);
    return st;
}

wisp_status join_context(wisp_context **out, const struct args *a, wisp_error *err)
{
    wisp_status st = wisp_context_join(out, (int)strtod(args_text(a, "threads"), NULL), err);
    if (st == WISP_OK && wisp_context_rank(*out) == 0) wisp_context_on_notice(*out, say, NULL);
    return st;
}

static volatile sig_atomic_t stopped;

static void set_signals(void (*fn)(int sig))
{
    struct sigaction sa = { .sa_handler = fn };
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
}

static void on_signal(int sig)
{
    stopped = sig;
    set_signals(SIG_DFL); /* a second one, of either kind, kills at once */
}

int stop_signal(void)
{
    return stopped;
}

void heed_signals(void)
{
    set_signals(SIG_DFL);
}

void watch_signals(void)
{
    static bool watching;
    if (!watching) set_signals(on_signal);
    watching = true;
}
