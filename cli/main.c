/* wisp: the command.  One row a subcommand. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct command {
    const char *name, *usage, *what;
    int (*run)(int argc, char **argv);
} commands[] = {
    { "train", "train DATA -o MODEL [options]", "train a classifier", cmd_train },
    { "eval", "eval MODEL DATA [options]", "measure it on labelled rows", cmd_eval },
    { "predict", "predict MODEL DATA|- [options]", "the best labels of each row", cmd_predict },
    { "convert", "convert IN OUT [options]", "between data formats; a model to a smaller one",
      cmd_convert },
    { "synth", "synth PREFIX --rows N --features N --labels N", "synthetic data of any shape",
      cmd_synth },
    { "bench", "bench train|predict --shape amazon670k [options]", "speed on synthetic rows",
      cmd_bench },
    { "challenge", "challenge --neurons N --layers L --data DIR [options]",
      "very deep sparse networks: the Graph Challenge", cmd_challenge },
    { "inspect", "inspect MODEL", "what is in a model file", cmd_inspect },
    { "info", "info", "what this build and machine can do", cmd_info },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void help(void)
{
    puts("wisp " WISP_VERSION ": neural networks that are mostly zeros\n");
    for (int i = 0; i < N_COMMANDS; i++)
        printf("  wisp %-51s %s\n", commands[i].usage, commands[i].what);
    puts("\n  wisp COMMAND --help lists the command's options.  For example:\n"
         "    wisp train train.txt -o model --labels names.txt\n"
         "    wisp eval model test.txt\n"
         "    wisp predict model test.txt -k 3");
}

/* Results that did not reach stdout (a full disk) are a failure, whatever the command thinks. */
static int closed(int rc)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return rc;
    fprintf(stderr, "wisp: stdout cannot be written: %s\n", strerror(errno));
    return rc ? rc : 5;
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        help();
        return argc < 2 ? 2 : 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("wisp %s\n", wisp_version());
        return 0;
    }
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return closed(commands[i].run(argc - 1, argv + 1));
    fprintf(stderr, "wisp: no command '%s'; 'wisp help' lists them\n", argv[1]);
    return 2;
}
