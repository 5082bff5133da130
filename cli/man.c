/* Manual pages, made of the tables of commands and options: wisp(1) lists the commands, and each of
 * them has a page of its own, wisp-train(1).  They are plain man(7), which man-db and mandoc read
 * without a warning (tests/cli/test_shells.sh). */
#include "cli.h"

#include <stdbool.h>
#include <string.h>

/* Text of a manual page: a backslash and a dash have escapes, a line must not begin with a dot. */
static void roff(const char *s, size_t n)
{
    if (n && (*s == '.' || *s == '\'')) fputs("\\&", stdout);
    for (; n; s++, n--) {
        if (*s == '\\') fputs("\\e", stdout);
        else if (*s == '-') fputs("\\-", stdout);
        else putchar(*s);
    }
}

/* Text with 'end' behind it; words that would make a long line in the source go to lines of their
 * own, which a reader never sees. */
static void roff_text(const char *s, const char *end)
{
    enum { FULL = 70 };
    size_t at = 0;
    while (*s) {
        size_t n = strcspn(s, " ");
        if (at) putchar(at + n >= FULL ? '\n' : ' ');
        if (at + n >= FULL) at = 0;
        roff(s, n);
        at += n + 1;
        s += n + strspn(s + n, " ");
    }
    fputs(end, stdout);
}

/* "\fBwords\fP" */
static void bold(const char *s, size_t n)
{
    fputs("\\fB", stdout);
    roff(s, n);
    fputs("\\fP", stdout);
}

static void man_option(const wisp_option *o)
{
    const char *value = help_value(o), *fallback = help_default(o);
    fputs(".TP\n", stdout);
    if (o->key[1] == 0) printf("\\fB\\-%s\\fP, ", o->key);
    fputs("\\fB\\-\\-\\fP", stdout);
    bold(o->key, strlen(o->key));
    if (*value) {
        fputs(" \\fI", stdout);
        roff(value, strlen(value));
        fputs("\\fP", stdout);
    }
    putchar('\n');
    roff_text(o->help, *fallback ? "\n[" : "\n");
    if (*fallback) roff_text(fallback, "]\n");
}

/* Options under the titles that help has for them; 'essential' ones come first, as there. */
static void man_options(const struct command *c)
{
    const wisp_option *o, *before;
    puts(".SH OPTIONS");
    if (c->out) {
        fputs(".TP\n\\fB\\-o\\fP \\fIFILE\\fP\n", stdout);
        roff_text(c->out, "\n");
    }
    for (size_t i = 0; (o = wisp_option_of(c->name, i)); i++)
        if (help_is_essential(o, c)) man_option(o);
    fputs(".TP\n\\fB\\-h\\fP, \\fB\\-\\-help\\fP [\\fIall\\fP]\nthe essential options, or all of "
          "them\n",
          stdout);
    for (size_t i = 0; (o = wisp_option_of(c->name, i)); i++) {
        bool seen = help_is_essential(o, c);
        for (size_t k = 0; k < i && !seen; k++) {
            before = wisp_option_of(c->name, k);
            seen = !help_is_essential(before, c) && strcmp(before->group, o->group) == 0;
        }
        if (seen) continue;
        fputs(".SS ", stdout);
        roff_text(o->group, "\n");
        for (size_t k = i; (before = wisp_option_of(c->name, k)); k++)
            if (!help_is_essential(before, c) && strcmp(before->group, o->group) == 0)
                man_option(before);
    }
}

static void head(const char *name, const char *what)
{
    fputs(".TH ", stdout);
    for (const char *p = name; *p; p++)
        if (*p == '-') fputs("\\-", stdout);
        else putchar(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    printf(" 1 \"\" \"wisp %s\" \"User Commands\"\n.SH NAME\n", wisp_version());
    roff(name, strlen(name));
    fputs(" \\- ", stdout);
    roff_text(what, "\n");
}

void help_man_command(const struct command *c)
{
    char name[80];
    snprintf(name, sizeof name, "wisp-%s", c->name);
    head(name, c->what);
    puts(".SH SYNOPSIS");
    for (const char *p = c->usage; p;) {
        size_t n = strcspn(p, "\n");
        if (p != c->usage) puts(".br");
        bold("wisp", 4);
        putchar(' ');
        roff(p, n);
        putchar('\n');
        p = p[n] ? p + n + 1 : NULL;
    }
    man_options(c);
    if (c->examples[0]) puts(".SH EXAMPLES\n.nf");
    for (int i = 0; i < 4 && c->examples[i]; i++) {
        roff(c->examples[i], strlen(c->examples[i]));
        putchar('\n');
    }
    if (c->examples[0]) puts(".fi");
    puts(".SH SEE ALSO\n.BR wisp (1)");
}

void help_man(void)
{
    static const struct {
        const char *code, *what;
    } codes[] = {
        { "0", "success" },
        { "1", "an answer that does not match (challenge)" },
        { "2", "usage" },
        { "3", "data that breaks its format" },
        { "4", "a damaged or foreign model or state" },
        { "5", "files, a full disk included" },
        { "6", "out of memory" },
        { "7", "numbers that are not finite" },
        { "8", "a lost process" },
        { "128 + N", "stopped by signal N, after saving" },
    };
    const struct command *c;
    head("wisp", "neural networks that are mostly zeros");
    puts(".SH SYNOPSIS\n\\fBwisp\\fP \\fICOMMAND\\fP [options]\n.br\n"
         "\\fBwisp help\\fP \\fICOMMAND\\fP [\\fIall\\fP]\n"
         ".SH COMMANDS\nEach has a manual page of its own.");
    for (size_t i = 0; (c = command_row(i)); i++) {
        printf(".TP\n.BR wisp\\-%s (1)\n", c->name);
        roff_text(c->what, "\n");
    }
    puts(".SH EXIT STATUS");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        printf(".TP\n%s\n%s\n", codes[i].code, codes[i].what);
    fputs(".SH SEE ALSO\n", stdout);
    for (size_t i = 0; (c = command_row(i)); i++)
        printf(".BR wisp\\-%s (1)%s\n", c->name, command_row(i + 1) ? "," : "");
}
