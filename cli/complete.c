/* Completion for bash, zsh and fish, made of the tables of commands and options.  All three offer
 * commands behind wisp, options where a word begins with a dash, and behind an option that has them
 * the words to choose from; anything else is a file. */
#include "cli.h"

#include <stdbool.h>
#include <string.h>

/* Words behind 'wisp' and 'wisp help' that are no commands. */
static const char *const others[] = { "help", "version" };
static const char *const topics[] = { "man", "bash", "zsh", "fish" };

enum value { NO_VALUE, ANY_VALUE, A_FILE, A_FOLDER };
static enum value value_of(const wisp_option *o)
{
    static const struct {
        const char *type;
        enum value value;
    } types[] = {
        { "flag", NO_VALUE }, { "file", A_FILE }, { "output", A_FILE }, { "folder", A_FOLDER }
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(o->type, types[i].type) == 0) return types[i].value;
    return ANY_VALUE;
}

/* Are there words to choose from?  "1..9" is a range of numbers. */
static bool has_words(const wisp_option *o)
{
    return *o->range && !strstr(o->range, "..");
}

static void put_words(const wisp_option *o)
{
    for (const char *p = o->range; *p; p++) putchar(*p == '|' ? ' ' : *p);
}

/* What a shell shows beside a word: the first clause of the help, without what would have to be
 * quoted in any of them. */
static void put_what(const char *s)
{
    enum { FEW = 10, FULL = 60 };
    size_t n = strcspn(s, ";:(");
    if (n < FEW) n = strcspn(s, ";"); /* "softmax: labels compete; ..." */
    while (n && (s[n - 1] == ' ' || s[n - 1] == ',')) n--;
    if (n > FULL)
        for (n = FULL; n && s[n] != ' ';) n--;
    for (size_t i = 0; i < n; i++)
        if (!strchr("'\"\\[]$`{}", s[i])) putchar(s[i]);
}

static void put_names(const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) printf(" %s", names[i]);
}

static void put_commands(void)
{
    const struct command *c;
    for (size_t i = 0; (c = command_row(i)); i++) printf("%s%s", i ? " " : "", c->name);
}

void help_bash(void)
{
    const struct command *c;
    const wisp_option *o;
    fputs("# bash completion for wisp: made by 'wisp help bash'\n"
          "_wisp() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options=\n"
          "    COMPREPLY=()\n"
          "    case $COMP_CWORD:$before in\n"
          "    1:*) options='",
          stdout);
    put_commands();
    put_names(others, sizeof others / sizeof *others);
    fputs("' ;;\n    2:help) options='", stdout);
    put_commands();
    put_names(topics, sizeof topics / sizeof *topics);
    fputs("' ;;\n"
          "    *) case ${COMP_WORDS[1]}:$before in\n",
          stdout);
    for (size_t i = 0; (c = command_row(i)); i++)
        for (size_t k = 0; (o = wisp_option_of(c->name, k)); k++) {
            if (!has_words(o)) continue;
            printf("        %s:--%s) options='", c->name, o->key);
            put_words(o);
            puts("' ;;");
        }
    fputs("        *) case $word:${COMP_WORDS[1]} in\n", stdout);
    for (size_t i = 0; (c = command_row(i)); i++) {
        printf("            -*:%s) options='%s", c->name, c->out ? "-o " : "");
        for (size_t k = 0; (o = wisp_option_of(c->name, k)); k++) printf("--%s ", o->key);
        puts("--help' ;;");
    }
    fputs("            esac ;;\n"
          "        esac ;;\n"
          "    esac\n"
          "    [ -z \"$options\" ] || COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
          "}\n"
          "complete -o default -F _wisp wisp\n",
          stdout);
}

/* "'--loss[what]:value:(softmax bce)'" */
static void zsh_option(const wisp_option *o)
{
    static const char *const actions[] = { [NO_VALUE] = "",
                                           [ANY_VALUE] = ":value:",
                                           [A_FILE] = ":file:_files",
                                           [A_FOLDER] = ":folder:_files -/" };
    printf("            '--%s[", o->key);
    put_what(o->help);
    putchar(']');
    if (has_words(o)) {
        fputs(value_of(o) == A_FILE ? ":file or word:{_files; compadd -- " : ":word:(", stdout);
        put_words(o);
        putchar(value_of(o) == A_FILE ? '}' : ')');
    } else {
        fputs(actions[value_of(o)], stdout);
    }
    puts("' \\");
}

/* "'train:train a classifier'", one per line */
static void zsh_commands(void)
{
    const struct command *c;
    for (size_t i = 0; (c = command_row(i)); i++) {
        printf("        '%s:", c->name);
        put_what(c->what);
        puts("'");
    }
}

void help_zsh(void)
{
    const struct command *c;
    const wisp_option *o;
    puts("#compdef wisp\n"
         "# zsh completion for wisp: made by 'wisp help zsh'\n"
         "_wisp() {\n"
         "    local -a commands=(");
    zsh_commands();
    puts("        'help:options of a command' 'version:the version'\n    )");
    fputs("    if ((CURRENT == 2)); then\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    local command=$words[2]\n"
          "    shift words\n"
          "    ((CURRENT--))\n"
          "    case $command in\n"
          "    help) _describe command commands; compadd --",
          stdout);
    put_names(topics, sizeof topics / sizeof *topics);
    puts(" ;;");
    for (size_t i = 0; (c = command_row(i)); i++) {
        printf("    %s)\n        _arguments -s -S \\\n", c->name);
        if (c->out) {
            fputs("            '-o[", stdout);
            put_what(c->out);
            puts("]:file:_files' \\");
        }
        for (size_t k = 0; (o = wisp_option_of(c->name, k)); k++) zsh_option(o);
        puts("            '--help[help]' '*:file:_files' ;;");
    }
    /* Sourced, it is made known; loaded by its name, it is what was asked for. */
    puts("    esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _wisp ]; then _wisp \"$@\"; else compdef _wisp wisp; fi");
}

static void fish_option(const struct command *c, const wisp_option *o)
{
    printf("complete -c wisp -n '__fish_seen_subcommand_from %s' -l %s", c->name, o->key);
    if (o->key[1] == 0) printf(" -s %s", o->key);
    if (value_of(o) != NO_VALUE) fputs(value_of(o) == ANY_VALUE ? " -x" : " -r", stdout);
    if (has_words(o)) {
        fputs(" -a '", stdout);
        put_words(o);
        putchar('\'');
    }
    fputs(" -d '", stdout);
    put_what(o->help);
    puts("'");
}

void help_fish(void)
{
    const struct command *c;
    const wisp_option *o;
    puts("# fish completion for wisp: made by 'wisp help fish'");
    for (size_t i = 0; (c = command_row(i)); i++) {
        printf("complete -c wisp -f -n __fish_use_subcommand -a %s -d '", c->name);
        put_what(c->what);
        puts("'");
        if (c->out) {
            printf("complete -c wisp -n '__fish_seen_subcommand_from %s' -s o -r -d '", c->name);
            put_what(c->out);
            puts("'");
        }
        for (size_t k = 0; (o = wisp_option_of(c->name, k)); k++) fish_option(c, o);
    }
    puts("complete -c wisp -f -n __fish_use_subcommand -a help -d 'options of a command'\n"
         "complete -c wisp -f -n __fish_use_subcommand -a version -d 'the version'\n"
         "complete -c wisp -n 'not __fish_use_subcommand' -s h -l help -d help");
    fputs("complete -c wisp -f -n '__fish_seen_subcommand_from help' -a '", stdout);
    put_commands();
    put_names(topics, sizeof topics / sizeof *topics);
    puts("'");
}
