/* The subcommands, one row each.  Dispatch, help, the manual page and completion read this table.
 */
#include "cli.h"

#include <string.h>

static const struct command commands[] = {
    { .name = "train",
      .usage = "train DATA -o MODEL [options]",
      .what = "train a classifier",
      .out = "the model",
      .min = 1,
      .max = 1,
      .inputs = 1,
      .writes = { "", ".state", ".state.1" },
      .run = cmd_train,
      .examples = { "wisp train questions.csv -o model --label-separator '|'",
                    "wisp train train.txt -o model --valid dev.txt --epochs 20 --log run.jsonl",
                    "wisp train new.txt -o model2 --init model" } },
    { .name = "tune",
      .usage = "tune DATA -o MODEL [--budget 5m] [options]",
      .what = "try linear models and nets, keep what is best",
      .out = "the model",
      .min = 1,
      .max = 1,
      .inputs = 1,
      .writes = { "", ".tried" },
      .run = cmd_tune,
      .examples = { "wisp tune train.txt -o model --budget 5m",
                    "wisp tune train.txt -o model --effort normal --tried tried.jsonl" } },
    { .name = "prune",
      .usage = "prune DATA -o MODEL [options]",
      .what = "train a net and make it small",
      .out = "the smaller model",
      .min = 1,
      .max = 1,
      .inputs = 1,
      .writes = { "", ".svg" },
      .run = cmd_prune,
      .examples = { "wisp prune train-images-idx3-ubyte --net \"dense 1024, relu, dense 1024, "
                    "relu\" "
                    "-o small",
                    "wisp prune train.bin --net resnet18-cifar --target-accuracy-drop 1 -o "
                    "small" } },
    { .name = "eval",
      .usage = "eval MODEL DATA [options]",
      .what = "measure it on labelled rows",
      .min = 2,
      .max = 2,
      .inputs = 2,
      .run = cmd_eval,
      .examples = { "wisp eval model test.txt", "wisp eval model test.txt -k 1,5,10 --json" } },
    { .name = "predict",
      .usage = "predict MODEL DATA|- [options]",
      .what = "the best labels of each row",
      .out = "the answers, instead of stdout",
      .min = 2,
      .max = 2,
      .inputs = 2,
      .writes = { "" },
      .run = cmd_predict,
      .examples = { "wisp predict model test.txt -k 3",
                    "wisp predict model test.txt --threshold 0.5 --tsv",
                    "echo 'how long does bread keep' | wisp predict model -" } },
    { .name = "threshold",
      .usage = "threshold MODEL DATA -o MODEL2 [options]",
      .what = "choose the score from which on a label is given",
      .out = "the model with thresholds",
      .min = 2,
      .max = 2,
      .inputs = 2,
      .writes = { "" },
      .run = cmd_threshold,
      .examples = { "wisp threshold model valid.txt --for f1 -o model2",
                    "wisp threshold model valid.txt --for precision=0.9 --per one -o model2",
                    "wisp predict model2 test.txt --threshold model" } },
    { .name = "explain",
      .usage = "explain MODEL [ROW|DATA|-] [options]",
      .what = "which features made the scores",
      .min = 1,
      .max = 2,
      .inputs = 1,
      .run = cmd_explain,
      .examples = { "wisp explain model 'how long does bread keep'",
                    "wisp explain model test.txt --label bread --features 20",
                    "sed -n 7p test.txt | wisp explain model - --json" } },
    { .name = "serve",
      .usage = "serve MODEL|NAME=MODEL... [options]",
      .what = "answer requests over HTTP",
      .min = 1,
      .max = MOST_FILES,
      .run = cmd_serve,
      .examples = { "wisp serve model", "wisp serve tags=model --port 9000 --inference sparse",
                    "curl -d '{\"text\":\"how long does bread keep\"}' "
                    "http://127.0.0.1:8080/predict" } },
    { .name = "convert",
      .usage = "convert IN OUT [options]",
      .what = "between data formats; models smaller, to and from PyTorch",
      .min = 2,
      .max = 2,
      .inputs = 1,
      .writes = { "", ".labels.txt", ".vocab.txt" },
      .run = cmd_convert,
      .examples = { "wisp convert train.txt train.npz", "wisp convert model small --quantize int8",
                    "wisp convert model weights.safetensors",
                    "wisp convert resnet18.safetensors model --net resnet18 --image 3x224x224" } },
    { .name = "inject",
      .usage = "inject MODEL --rate R -o MODEL2 [options]\n"
               "inject MODEL DATA --rate R [options]\n"
               "inject MODEL DATA --sweep [options]\n"
               "inject MODEL DATA --target-accuracy-drop X [options]",
      .what = "bit errors in a model's memory, and how many it bears",
      .out = "the model with errors",
      .min = 1,
      .max = 2,
      .inputs = 2,
      .writes = { "" },
      .run = cmd_inject,
      .examples = { "wisp inject model --rate 1e-5 --type bf16 -o model2",
                    "wisp inject model valid.txt --sweep --json",
                    "wisp inject model valid.txt --target-accuracy-drop 1 --guard zero" } },
    { .name = "graph",
      .usage = "graph info FILE [options]\n"
               "graph run FILE DATA|- [options]",
      .what = "nets of any shape, as files of nodes and edges",
      .max = 3,
      .inputs = 3,
      .run = cmd_graph,
      .examples = { "wisp graph info net.mtx --function tanh", "wisp graph run xor.txt rows.svm",
                    "wisp train rows.svm --net \"dag file=xor.txt\" --values raw -o model" } },
    { .name = "report",
      .usage = "report LOG... -o FILE [options]",
      .what = "a page of training runs, side by side, from their logs",
      .out = "the page, HTML that needs nothing else",
      .min = 1,
      .max = MOST_FILES,
      .inputs = MOST_FILES,
      .writes = { "" },
      .run = cmd_report,
      .examples = { "wisp report run.jsonl -o report.html",
                    "wisp report narrow.jsonl wide.jsonl -o report.html" } },
    { .name = "synth",
      .usage = "synth PREFIX --rows N --features N --labels N [options]",
      .what = "synthetic data of any shape",
      .min = 1,
      .max = 1,
      .writes = { "_train.txt", "_test.txt" },
      .run = cmd_synth,
      .examples = { "wisp synth toy --rows 10000 --features 5000 --labels 1000",
                    "wisp synth big --shape amazon670k" } },
    { .name = "bench",
      .usage = "bench train --shape SHAPE [options]\n"
               "bench predict --shape SHAPE | MODEL DATA [options]\n"
               "bench steps [IMAGES] --net NET --batch N [options]\n"
               "bench activations [IMAGES] --net NET --batch N [options]\n"
               "bench input IMAGES [options]",
      .what = "speed of training and prediction",
      .max = 3,
      .inputs = 3,
      .run = cmd_bench,
      .examples = { "wisp bench train --shape amazon670k --seconds 30",
                    "wisp bench predict model test.txt",
                    "wisp bench steps --net resnet18-cifar --batch 64 --threads 1" } },
    { .name = "challenge",
      .usage = "challenge --neurons N --layers L --data DIR [options]",
      .what = "very deep sparse networks: the Graph Challenge",
      .out = "the categories, one per line",
      .writes = { "" },
      .run = cmd_challenge,
      .examples = { "wisp challenge --neurons 1024 --layers 120 --generate --data mnist" } },
    { .name = "inspect",
      .usage = "inspect MODEL [options]",
      .what = "what is in a model file",
      .min = 1,
      .max = 1,
      .inputs = 1,
      .run = cmd_inspect,
      .examples = { "wisp inspect model", "wisp inspect model --labels > names.txt",
                    "wisp inspect model --plan --batch 1024" } },
    { .name = "info",
      .usage = "info [options]",
      .what = "what this build and machine can do",
      .run = cmd_info },
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
