/* Options that mean something of their own to a command: the same key as in the option table
 * (options.c), with another type, range, default or help. */
#include "config/table.h"
#include "config/words.h"

/* Rows that mean something else to some of their commands (wisp_config_command). */
const wisp_option wisp_special_options[] = {
    { "labels", "int", "", "1.." MOST_IDS, "synth", "number of labels", SYNTHETIC, "synth" },
    { "labels", "flag", "0", "", "inspect", "print the label names, one per line", USE, "inspect" },
    { "vocab", "flag", "0", "", "inspect", "print the feature names, one per line", USE,
      "inspect" },
    { "batch", "int", "0", "0..65536", "inspect",
      "of training, for --plan; 0: that of the model's run", USE, "inspect" },
    { "threads", "int", "0", "0.." MOST_THREADS, "inspect", "for --plan; 0: one per core", MACHINE,
      "inspect" },
    { "rows", "int", "", "1.." MOST_ROWS, "synth", "number of training rows", SYNTHETIC, "synth" },
    { "test-rows", "int", "-1", "-1.." MOST_ROWS, "synth",
      "test rows; -1: a tenth of the rows, at most " SYNTH_TESTS, SYNTHETIC, "synth" },
    { "test-rows", "int", "-1", "-1.." MOST_ROWS, "bench", "held-out rows; -1: " BENCH_TESTS,
      SYNTHETIC, "" },
    { "batch", "int", "0", "0..65536", "bench",
      "rows per step; 0: 256; predict MODEL: rows per call", TRAINING, "bench" },
    { "shape", "text", "", "@shapes", "bench",
      "the shape of a known data set, or ROWSxFEATURESxLABELS; steps: "
      "CHANNELSxHEIGHTxWIDTHxLABELS, "
      "empty: what the net was made for",
      SYNTHETIC, "bench" },
    { "net", "text", "", "", "convert",
      "IN are weights from elsewhere, by PyTorch's names: the net that they are of, by its name, "
      "as "
      "text or as a file FILE.net; empty: as the file says, where wisp wrote it",
      USE, "convert" },
    { "target-accuracy-drop", "real", "1", "0..100", "inject",
      "find the highest rate that each tensor bears with no more than so many points of accuracy "
      "lost",
      ERRORS, "inject" },
    { "seed", "int", "1", "0.." MOST_SEED, "inject", "seed of the errors", ERRORS, "" },
    { "json", "flag", "0", "", "graph", "one JSON object, of run one for each row", MACHINE,
      "graph" },
    { "tsv", "flag", "0", "", "graph",
      "of run: one line for each output, row (from 1), node and value, with tabs between them",
      MACHINE, "graph" },
    { "memory", "size", "0", "", "graph",
      "limit for data held at once, e.g. 2G; 0: what the machine has", DATA, "" },
    { "zeros", "choice", "auto", "auto|off|force", "eval predict",
      "convolutions and dense layers on processors that leave out products with zeros; auto: where "
      "the numbers at hand have so many of them that it was measured to be faster",
      MACHINE, "" },
    { "loss", "choice", "auto", "auto|@losses", "convert",
      "IN are weights from elsewhere: what they were trained with, which scores are made by; auto: "
      "as the file says, else softmax",
      USE, "" },
    { "labels", "file", "", "", "convert",
      "IN are weights from elsewhere: file of label names, line i names output i", USE, "convert" },
    { "k", "list", "1,3,5", "", "eval", "cut-offs of the measures", USE, "eval" },
    { "k", "int", "", "1.." MOST_K, "predict",
      "at most so many labels per row; without it 5, and with --threshold all that reach it", USE,
      "predict" },
    { "memory", "size", "0", "", "challenge",
      "limit for network and inputs on the card, e.g. 2G; what is beyond it is streamed; 0: what "
      "is free",
      DEEP, "challenge" },
    { "k", "int", "", "1.." MOST_K, "serve",
      "labels per row, where a request does not say; without it 5, and with --threshold all that "
      "reach it",
      USE, "serve" },
    { "k", "int", "3", "1.." MOST_K, "explain",
      "labels of a row that are explained, the best first", USE, "explain" },
    { "features", "int", "10", "0.." MOST_IDS, "explain",
      "features printed for each label, those with the largest parts first; 0: all", USE,
      "explain" },
    { "threshold", "real", "", "0..1|model", "predict serve",
      "labels with a lower probability are left out; model: lower than the label's own threshold, "
      "which 'wisp threshold' has chosen",
      USE, "predict" },
    { "json", "flag", "0", "", "predict explain", "one JSON object per row", MACHINE,
      "predict explain" },
    { "json", "flag", "0", "", "inspect info", "all of it as one JSON object", MACHINE,
      "inspect info" },
    { "seed", "int", "1", "0.." MOST_SEED, "challenge", "seed of --topology random", DEEP, "" },
};
_Static_assert(sizeof wisp_special_options / sizeof *wisp_special_options <= WISP_MOST_SPECIAL,
               "WISP_MOST_SPECIAL is too small");
const size_t wisp_n_special = sizeof wisp_special_options / sizeof *wisp_special_options;
