/* Command lines: GNU long options from the library's option table, -o, -k, and files. */
#include "cli.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const wisp_option *find(const struct command *c, const char *key)
{
    const wisp_option *o;
    for (size_t i = 0; (o = wisp_option_of(c->name, i)); i++)
        if (strcmp(o->key, key) == 0) return o;
    return NULL;
}

/* An option that the command does not have: another command's, or a misspelt one. */
static int unknown(const struct command *c, const char *given, const char *key)
{
    const wisp_option *like = wisp_option_like(key, c->name), *o;
    for (size_t i = 0; (o = wisp_option_row(i)); i++)
        if (strcmp(o->key, key) == 0)
            return usage_error(c, "'%s' is no option of %s, but of: %s", given, c->name,
                               o->commands);
    if (like) return usage_error(c, "unknown option '%s'; did you mean --%s?", given, like->key);
    return usage_error(c, "unknown option '%s'", given);
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

static bool is_number(const char *s)
{
    return *s && s[strspn(s, "0123456789")] == 0;
}

/* One "--key value", "--key=value" or "--flag", or "--port-key" alone; *i moves over what it used. */
static int read_long(struct args *a, int argc, char **argv, int *i, enum pass pass)
{
    const char *eq = strchr(argv[*i], '='), *value = eq ? eq + 1 : NULL;
    char key[100];
    snprintf(key, sizeof key, "%.*s", eq ? (int)(eq - argv[*i] - 2) : 99, argv[*i] + 2);
    const wisp_option *o = find(a->command, key);
    if (!o) return unknown(a->command, argv[*i], key);
    if (!value && strcmp(o->type, "flag") == 0) value = "1";
    if (!value && strcmp(o->type, "port") == 0 && !is_number(*i + 1 < argc ? argv[*i + 1] : ""))
        value = "0";
    if (!value && *i + 1 < argc) value = argv[++*i];
    if (!value) return usage_error(a->command, "option '--%s' needs a value", o->key);
    bool is_config = strcmp(o->key, "config") == 0;
    if (is_config != (pass == CONFIG_FILES)) return 0;
    wisp_error err;
    wisp_status st = is_config ? wisp_config_load(a->cfg, value, &err) : WISP_OK;
    if (st == WISP_OK) st = wisp_config_set(a->cfg, o->key, value, &err);
    return st == WISP_OK ? 0 : fail(&err);
}

/* "-o FILE" of a command that writes one, "-k N" of a command with an option k. */
static int read_short(struct args *a, int argc, char **argv, int *i, enum pass pass)
{
    const char *s = argv[*i];
    int is_out = strcmp(s, "-o") == 0 && a->command->out;
    if (!is_out && !(strcmp(s, "-k") == 0 && find(a->command, "k")))
        return usage_error(a->command, "unknown option '%s'", s);
    if (*i + 1 == argc) return usage_error(a->command, "option '%s' needs a value", s);
    const char *value = argv[++*i];
    if (pass == CONFIG_FILES) return 0;
    if (is_out && a->out) return usage_error(a->command, "option '-o' is given twice: '%s'", value);
    if (is_out) a->out = value;
    wisp_error err;
    return is_out || wisp_config_set(a->cfg, "k", value, &err) == WISP_OK ? 0 : fail(&err);
}

/* Is this --help, or -h?  "all" may follow. */
static enum help_wanted wants_help(int argc, char **argv, int i)
{
    bool all = strcmp(argv[i], "--help=all") == 0;
    if (!all && strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0) return NO_HELP;
    return all || (i + 1 < argc && strcmp(argv[i + 1], "all") == 0) ? ALL_HELP : SHORT_HELP;
}

static int read_all(struct args *a, int argc, char **argv, enum pass pass)
{
    int rc = 0, only_files = 0;
    for (int i = 1; i < argc && rc == 0 && !a->help; i++) {
        const char *s = argv[i];
        if (only_files || s[0] != '-' || s[1] == 0) {
            if (pass == CONFIG_FILES) continue;
            if (a->n_files == a->command->max)
                rc = usage_error(a->command, "one file too many: '%s'", s);
            else a->files[a->n_files++] = s;
        } else if (strcmp(s, "--") == 0) {
            only_files = 1;
            a->ends = i;
        } else if ((a->help = wants_help(argc, argv, i)) != NO_HELP) {
            break;
        } else if (s[1] == '-') {
            rc = read_long(a, argc, argv, &i, pass);
        } else {
            rc = read_short(a, argc, argv, &i, pass);
        }
    }
    return rc;
}

int args_read(struct args *a, const struct command *command, int argc, char **argv)
{
    *a = (struct args){ .command = command, .argc = argc, .argv = argv, .ends = argc };
    wisp_error err;
    if (wisp_config_create(&a->cfg, &err) != WISP_OK ||
        wisp_config_command(a->cfg, command->name, &err) != WISP_OK)
        return fail(&err);
    int rc = read_all(a, argc, argv, CONFIG_FILES);
    if (rc == 0 && !a->help) rc = read_all(a, argc, argv, THE_REST);
    if (rc == 0 && !a->help && a->n_files < command->min)
        rc = usage_error(command, "%s",
                         command->min == 1 ? "a file is missing" : "files are missing");
    if (rc == 0 && !a->help) rc = files_check(a);
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
