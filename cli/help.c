/* Help, made of the tables of commands and options: essentials first, then groups, wrapped to the
 * width of the terminal. */
#include "cli.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { INDENT = 2, LEFT = 26, NARROWEST = 40, WIDEST = 120 };

/* Columns of the terminal that reads stdout; 80 where it is none. */
static int columns(void)
{
    struct winsize w;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col == 0) return 80;
    return w.ws_col < NARROWEST ? NARROWEST : w.ws_col > WIDEST ? WIDEST : w.ws_col;
}

/* Prints words from column 'at' on, and where a line is full goes on at column 'indent'. */
static void wrap(const char *text, int at, int indent)
{
    int width = columns(), first = 1;
    for (const char *p = text; *p;) {
        int n = (int)strcspn(p, " ");
        if (!first && at + 1 + n >= width) {
            printf("\n%*s", indent, "");
            at = indent;
            first = 1;
        }
        if (!first) at += printf(" ");
        at += printf("%.*s", n, p);
        first = 0;
        p += n;
        while (*p == ' ') p++;
    }
    putchar('\n');
}

/* Prints what stands on the left: where a line is full it goes on behind the next '|'.  Gives the
 * column where it ends. */
static int print_left(const char *s)
{
    int width = columns(), at = printf("%*s", INDENT, "");
    for (size_t n; *s; s += n) {
        n = strcspn(s, "|");
        n += s[n] == '|';
        if (at > 2 * INDENT && at + (int)n >= width) at = printf("\n%*s", 2 * INDENT, "") - 1;
        at += printf("%.*s", (int)n, s);
    }
    return at;
}

/* "left      text, wrapped": text begins on a line of its own where left is long. */
static void entry(const char *left, const char *text)
{
    int at = print_left(left);
    if (at + 2 > LEFT) printf("\n%*s", LEFT, "");
    else printf("%*s", LEFT - at, "");
    wrap(text, LEFT, LEFT);
}

const char *help_value(const wisp_option *o)
{
    static const struct {
        const char *type, *value;
    } values[] = {
        { "int", "N" },      { "real", "X" },       { "size", "SIZE" }, { "flag", "" },
        { "text", "TEXT" },  { "list", "N,N,..." }, { "file", "FILE" }, { "output", "FILE" },
        { "folder", "DIR" }, { "port", "[PORT]" },
    };
    static char words[1000];
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (strcmp(o->type, values[i].type) != 0) continue;
        const char *bar = strchr(o->range, '|');
        if (!bar) return values[i].value;
        if (strstr(o->range, "..")) /* numbers, then words */
            snprintf(words, sizeof words, "%s%s", values[i].value, bar);
        else snprintf(words, sizeof words, "%s|%s", o->range, values[i].value);
        return words;
    }
    return o->range; /* of choices */
}

const char *help_default(const wisp_option *o)
{
    static const char *const silent[] = { "", "0", "-1" }; /* what they mean is in the help */
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
        if (strcmp(o->fallback, silent[i]) == 0) return "";
    return o->fallback;
}

static void print_option(const wisp_option *o)
{
    const char *value = help_value(o), *fallback = help_default(o);
    char left[1100], text[4000];
    bool letter = o->key[1] == 0; /* k is -k, too */
    snprintf(left, sizeof left, "%s%s--%s%s%s", letter ? "-" : "",
             letter ? (char[]){ o->key[0], ',', ' ', 0 } : "", o->key, *value ? " " : "", value);
    snprintf(text, sizeof text, *fallback ? "%s [%s]" : "%s", o->help, fallback);
    entry(left, text);
}

bool help_is_essential(const wisp_option *o, const struct command *c)
{
    size_t n = strlen(c->name);
    for (const char *p = o->essential; (p = strstr(p, c->name)); p += n)
        if ((p == o->essential || p[-1] == ' ') && (p[n] == 0 || p[n] == ' ')) return true;
    return false;
}

/* Prints, or with 'names' only names, those options of a group that are no essentials. */
static void print_group(const struct command *c, const char *group, bool names)
{
    char line[2000];
    size_t used = 0;
    const wisp_option *o;
    for (size_t i = 0; (o = wisp_option_of(c->name, i)); i++) {
        if (strcmp(o->group, group) != 0 || help_is_essential(o, c)) continue;
        if (used == 0 && !names) printf("\n%s:\n", group);
        if (!names) print_option(o);
        used +=
            (size_t)snprintf(line + used, sizeof line - used, "%s--%s", used ? " " : "", o->key);
    }
    if (!names || used == 0) return;
    int at = printf("  %s: ", group);
    wrap(line, at, 4);
}

/* All groups of a command, in the order of the table; gives the number of options in them. */
static size_t print_groups(const struct command *c, bool names, bool count_only)
{
    const wisp_option *o, *before;
    size_t n = 0;
    for (size_t i = 0; (o = wisp_option_of(c->name, i)); i++) {
        n += !help_is_essential(o, c);
        bool seen = count_only;
        for (size_t k = 0; k < i && !seen; k++) {
            before = wisp_option_of(c->name, k);
            seen = strcmp(before->group, o->group) == 0;
        }
        if (!seen) print_group(c, o->group, names);
    }
    return n;
}

static void print_usage(const struct command *c)
{
    const char *before = "usage: ";
    for (const char *p = c->usage; p; before = "       ") {
        int n = (int)strcspn(p, "\n");
        printf("%swisp %.*s\n", before, n, p);
        p = p[n] ? p + n + 1 : NULL;
    }
}

void help_command(const struct command *c, enum help_wanted how)
{
    bool all = how == ALL_HELP;
    print_usage(c);
    printf("\n  %s\n", c->what);
    if (c->examples[0]) puts("\nExamples:");
    for (int i = 0; i < 4 && c->examples[i]; i++) printf("  %s\n", c->examples[i]);
    size_t more = print_groups(c, false, true);
    puts(more ? "\nEssentials:" : "\nOptions:");
    if (c->out) entry("-o FILE", c->out);
    const wisp_option *o;
    for (size_t i = 0; (o = wisp_option_of(c->name, i)); i++)
        if (help_is_essential(o, c)) print_option(o);
    entry(more && !all ? "-h, --help [all]" : "-h, --help",
          more && !all ? "this help; with 'all': every option" : "this help");
    if (all) {
        print_groups(c, false, false);
    } else if (more) {
        printf("\n%zu more ('wisp %s --help all' explains them):\n", more, c->name);
        print_groups(c, true, false);
    }
}

void help_print(void)
{
    puts("wisp " WISP_VERSION ": neural networks that are mostly zeros\n");
    const struct command *c;
    for (size_t i = 0; (c = command_row(i)); i++) {
        char left[80];
        snprintf(left, sizeof left, "wisp %s", c->name);
        entry(left, c->what);
    }
    entry("wisp help COMMAND", "its options, with examples; also 'man' (its pages), and 'bash', "
                               "'zsh', 'fish' (completion)");
    entry("wisp version", "the version; also --version, -V");
    puts("\nFor example:\n"
         "  wisp train questions.csv -o model --label-separator '|'\n"
         "  wisp eval model test.csv\n"
         "  wisp predict model new.txt -k 3\n"
         "  wisp serve model");
}

int help_topic(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } topics[] = {
        { "man", help_man }, { "bash", help_bash }, { "zsh", help_zsh }, { "fish", help_fish }
    };
    if (argc < 2) {
        help_print();
        return 0;
    }
    const bool page = argc > 2 && strcmp(argv[1], "man") == 0;
    if (page) argv++;
    for (size_t i = 0; i < sizeof topics / sizeof *topics && !page; i++)
        if (strcmp(argv[1], topics[i].name) == 0) {
            topics[i].print();
            return 0;
        }
    const struct command *c = command_find(argv[1]);
    if (!c) {
        tell("wisp help: no command '%s'%s; 'wisp help' lists them", argv[1],
             command_hint(argv[1]));
        return 2;
    }
    if (page) help_man_command(c);
    else help_command(c, argc > 2 && strcmp(argv[2], "all") == 0 ? ALL_HELP : SHORT_HELP);
    return 0;
}
