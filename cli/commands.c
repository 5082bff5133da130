/* The subcommands, one row each.  Dispatch, help, the manual page and completion read this table.
 */
#include "cli.h"

#include <string.h>

static const struct command commands[] = {
    { "train",
      "train DATA -o MODEL [options]",
      "train a classifier",
      "the model",
      1,
      1,
      cmd_train,
      { "wisp train train.txt -o model --labels names.txt",
        "wisp train train.txt -o model --valid dev.txt --epochs 20 --log run.jsonl",
        "wisp train new.txt -o model2 --init model" } },
    { "eval",
      "eval MODEL DATA [options]",
      "measure it on labelled rows",
      NULL,
      2,
      2,
      cmd_eval,
      { "wisp eval model test.txt", "wisp eval model test.txt -k 1,5,10 --json" } },
    { "predict",
      "predict MODEL DATA|- [options]",
      "the best labels of each row",
      "the answers, instead of stdout",
      2,
      2,
      cmd_predict,
      { "wisp predict model test.txt -k 3", "wisp predict model test.txt --threshold 0.5 --tsv",
        "echo 'how long does bread keep' | wisp predict model -" } },
    { "convert",
      "convert IN OUT [options]",
      "between data formats; a model to a smaller one",
      NULL,
      2,
      2,
      cmd_convert,
      { "wisp convert train.txt train.npz", "wisp convert model small --quantize int8" } },
    { "synth",
      "synth PREFIX --rows N --features N --labels N [options]",
      "synthetic data of any shape",
      NULL,
      1,
      1,
      cmd_synth,
      { "wisp synth toy --rows 10000 --features 5000 --labels 1000",
        "wisp synth big --shape amazon670k" } },
    { "bench",
      "bench train --shape SHAPE [options]\n"
      "bench predict --shape SHAPE | MODEL DATA [options]",
      "speed of training and prediction",
      NULL,
      0,
      3,
      cmd_bench,
      { "wisp bench train --shape amazon670k --seconds 30", "wisp bench predict model test.txt" } },
    { "challenge",
      "challenge --neurons N --layers L --data DIR [options]",
      "very deep sparse networks: the Graph Challenge",
      "the categories, one per line",
      0,
      0,
      cmd_challenge,
      { "wisp challenge --neurons 1024 --layers 120 --generate --data mnist" } },
    { "inspect",
      "inspect MODEL [options]",
      "what is in a model file",
      NULL,
      1,
      1,
      cmd_inspect,
      { "wisp inspect model", "wisp inspect model --labels > names.txt" } },
    { "info", "info [options]", "what this build and machine can do", NULL, 0, 0, cmd_info, { 0 } },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

const struct command *command_row(size_t i)
{
    return i < N_COMMANDS ? &commands[i] : NULL;
}

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0) return &commands[i];
    return NULL;
}

const char *command_hint(const char *name)
{
    static char hint[80];
    const char *names[N_COMMANDS];
    for (size_t i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    int found = wisp_nearest(name, names, N_COMMANDS);
    snprintf(hint, sizeof hint, found < 0 ? "" : "; did you mean '%s'?",
             found < 0 ? "" : names[found]);
    return hint;
}
