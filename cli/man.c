/* The manual page and the completion for bash, made of the tables of commands and options. */
#include "cli.h"

#include <string.h>

/* Text of a manual page: a backslash and a dash have escapes, a line must not begin with a dot. */
static void roff(const char *s)
{
    if (*s == '.' || *s == '\'') fputs("\\&", stdout);
    for (; *s; s++) {
        if (*s == '\\') fputs("\\e", stdout);
        else if (*s == '-') fputs("\\-", stdout);
        else putchar(*s);
    }
}

static void man_option(const wisp_option *o)
{
    const char *value = help_value(o), *fallback = help_default(o);
    fputs(".TP\n.B ", stdout);
    if (o->key[1] == 0) printf("\\-%s, ", o->key);
    fputs("\\-\\-", stdout);
    roff(o->key);
    if (*value) {
        putchar(' ');
        roff(value);
    }
    putchar('\n');
    roff(o->help);
    if (*fallback) {
        fputs(" [", stdout);
        roff(fallback);
        putchar(']');
    }
    putchar('\n');
}

static void man_command(const struct command *c)
{
    printf(".SS wisp %s\n", c->name);
    roff(c->what);
    putchar('\n');
    for (const char *p = c->usage; p;) {
        char line[200];
        int n = (int)strcspn(p, "\n");
        snprintf(line, sizeof line, "%.*s", n, p);
        fputs(".PP\n.B wisp ", stdout);
        roff(line);
        putchar('\n');
        p = p[n] ? p + n + 1 : NULL;
    }
    if (c->out) {
        fputs(".TP\n.B \\-o FILE\n", stdout);
        roff(c->out);
        putchar('\n');
    }
    const wisp_option *o;
    for (size_t i = 0; (o = wisp_option_of(c->name, i)); i++) man_option(o);
    if (c->examples[0]) fputs(".PP\nExamples:\n.PP\n.nf\n", stdout);
    for (int i = 0; i < 4 && c->examples[i]; i++) {
        fputs("    ", stdout);
        roff(c->examples[i]);
        putchar('\n');
    }
    if (c->examples[0]) fputs(".fi\n", stdout);
}

void help_man(void)
{
    printf(".TH WISP 1 \"\" \"wisp %s\" \"User Commands\"\n"
           ".SH NAME\nwisp \\- neural networks that are mostly zeros\n"
           ".SH SYNOPSIS\n.B wisp\n.I COMMAND\n[options]\n"
           ".SH COMMANDS\n",
           wisp_version());
    const struct command *c;
    for (size_t i = 0; (c = command_row(i)); i++) man_command(c);
    fputs(".SH EXIT STATUS\n"
          "0 success, 1 an answer that does not match (challenge), 2 usage, 3 data that breaks its "
          "format, 4 a damaged or foreign model or state, 5 files (a full disk included), 6 out of "
          "memory, 7 numbers that are not finite, 8 a lost process, 128 + the signal: stopped "
          "after saving.\n",
          stdout);
}

void help_bash(void)
{
    const struct command *c;
    const wisp_option *o;
    fputs("# bash completion for wisp: made by 'wisp help bash'\n"
          "_wisp() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options=\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" = 1 ] || [ \"$COMP_CWORD $before\" = '2 help' ]; then\n"
          "        COMPREPLY=($(compgen -W '",
          stdout);
    for (size_t i = 0; (c = command_row(i)); i++) printf("%s ", c->name);
    fputs("help version' -- \"$word\"))\n"
          "        return\n"
          "    fi\n"
          "    case ${COMP_WORDS[1]}:$before in\n",
          stdout);
    for (size_t i = 0; (c = command_row(i)); i++)
        for (size_t k = 0; (o = wisp_option_of(c->name, k)); k++) {
            if (!*o->range || strstr(o->range, "..")) continue; /* no words to choose from */
            printf("    %s:--%s) options='", c->name, o->key);
            for (const char *p = o->range; *p; p++) putchar(*p == '|' ? ' ' : *p);
            puts("' ;;");
        }
    fputs("    *) case ${COMP_WORDS[1]} in\n", stdout);
    for (size_t i = 0; (c = command_row(i)); i++) {
        printf("        %s) options='%s", c->name, c->out ? "-o " : "");
        for (size_t k = 0; (o = wisp_option_of(c->name, k)); k++) printf("--%s ", o->key);
        puts("--help' ;;");
    }
    fputs("        esac\n"
          "        [[ $word == -* ]] || options= ;;\n"
          "    esac\n"
          "    [ -z \"$options\" ] || COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
          "}\n"
          "complete -o default -F _wisp wisp\n",
          stdout);
}
