/* The option table: key, type, default, range, commands, help, group, and the commands whose short
 * help shows it.  Read top-down by 'wisp help'.
 *
 * "@hashes" in a range or in help stands for the names of that table (wisp_table_row), "@@hashes"
 * for its rows: "simhash: signs of random projections: angles; ...".  So a row of such a table is
 * all that a new name needs. */
#include "config/table.h"
#include "config/words.h"

#define READS "train tune prune eval predict explain threshold convert inject graph"
#define WORKS READS " synth bench challenge"

const wisp_option wisp_option_table[N_OPTS] = {
    [OPT_NET] = { "net", "text", "", "@nets", "train prune bench convert",
                  "layers, e.g. \"input 256, relu, dropout 0.3, dense 128, relu\" (wisp info lists "
                  "the kinds), the name of a net that wisp brings along, or a file FILE.net; the "
                  "output layer is added; empty: from --hidden and --dropout; train also takes "
                  "linear: no net, but weights from features to labels; linear+net: both; auto: "
                  "what is best on held-out rows, the default for rows of words",
                  NETWORK, "convert prune" },
    [OPT_HIDDEN] = { "hidden", "list", "", "", "train prune bench",
                     "widths of the hidden layers: 256, or 512,256; empty: " WIDTH_FEW
                     " up to " FEW_LABELS " labels, " WIDTH_MANY " above; 0: a linear model",
                     NETWORK, "train bench" },
    [OPT_DROPOUT] = { "dropout", "real", "-1", "-1..0.95", "train prune bench",
                      "share of hidden units dropped while training; -1: chosen from the data",
                      NETWORK, "" },
    [OPT_INPUT_DROPOUT] = { "input-dropout", "real", "-1", "-1..0.95", "train prune bench",
                            "share of input features dropped while training; -1: chosen from the "
                            "data",
                            NETWORK, "" },
    [OPT_LOSS] = { "loss", "choice", "auto", "auto|@losses|@margins", "train prune bench convert",
                   "@@losses; auto: softmax for many rows and labels, else bce; with --net linear "
                   "one of the last three; auto: squared-hinge",
                   NETWORK, "train" },
    [OPT_COST] = { "cost", "real", "0", "0..1000000000", "train",
                   "what a row's loss counts for beside the length of the weights, for rows of "
                   "length 1; larger follows the rows more closely; 0: chosen from the data",
                   LINEAR, "" },
    [OPT_DROP_BELOW] = { "drop-below", "real", "-1", "-1..1000000", "train",
                         "weights nearer to 0 are left out of the model, for rows of length 1; -1: "
                         "0.02, or 0.05 where --negatives is votes",
                         LINEAR, "" },
    [OPT_NEGATIVES] = { "negatives", "choice", "auto", "auto|all|votes", "train",
                        "rows that teach a label what it is not: all that do not have it, or those "
                        "whose features vote for it; auto: all up to " FEW_LABELS " labels",
                        LINEAR, "" },
    [OPT_REFIT] = { "refit", "choice", "auto", "auto|yes|no", "train",
                    "train a second time, with the held-out rows, once these have said how good "
                    "the model is; auto: where they are more than 3 % of all",
                    LINEAR, "" },

    [OPT_EPOCHS] = { "epochs", "int", "0", "0..100000", "train prune bench",
                     "passes over the data; 0: from the number of rows", TRAINING, "train bench" },
    [OPT_SECONDS] = { "seconds", "real", "0", "0..1000000000", "bench",
                      "train: no longer than this; 0: no limit; " BENCH_SECONDS
                      " where --epochs is not given "
                      "either; predict: each way of prediction is measured "
                      "for so long; 0: " BENCH_PREDICT
                      "; steps: of measured steps, but 3 at least; 0: " BENCH_STEPS
                      "; input: of reading, and of laying out; 0: " BENCH_PREDICT,
                      TRAINING, "bench" },
    [OPT_BATCH] = { "batch", "int", "0", "0..65536", "train prune bench inspect",
                    "rows per step; 0: from the number of rows", TRAINING, "bench" },
    [OPT_LR] = { "lr", "real", "0", "0..1000", "train prune bench",
                 "highest learning rate; 0: the default of the optimizer and the sampling",
                 TRAINING, "bench" },
    [OPT_OPTIMIZER] = { "optimizer", "choice", "auto", "auto|@optimizers", "train prune bench",
                        "all touch only rows that have a gradient; auto: adagrad for many rows and "
                        "labels, else adam",
                        TRAINING, "" },
    [OPT_MOMENTS] = { "moments", "choice", "auto", "auto|fp32|bf16", "train prune bench",
                      "what adam and sgd keep their running means in; bf16 halves them and rounds "
                      "at random; auto: bf16 from 2^" HALF_MOMENTS " weights on",
                      TRAINING, "" },
    [OPT_PRECISION] = { "precision", "choice", "auto", "auto|@precisions", "train prune bench",
                        "precision of the output layer's products and of convolutions, on a card "
                        "of large dense layers, too; weights and sums stay fp32; tf32: on a card "
                        "alone; auto: bf16 on cards, and where the processor has instructions for "
                        "it, but not for nets of images",
                        TRAINING, "" },
    [OPT_ZEROS] = { "zeros", "choice", "auto", "auto|off|force", "train prune eval predict bench",
                    "convolutions and dense layers that leave out products with zeros, on a card "
                    "convolutions alone, and in training; auto: where that was measured to be "
                    "faster, on processors with as many zeros as the numbers at hand have; on "
                    "a card only where it is given",
                    TRAINING, "" },
    [OPT_MORE_ZEROS] = { "more-zeros", "real", "0", "0..1000", "train prune bench",
                         "what the mean of a ReLU's result counts for in the loss (L1 penalty), "
                         "of each ReLU of channels with height and width; more of it is 0 then, "
                         "and "
                         "--zeros skips more; 0: nothing",
                         TRAINING, "" },
    [OPT_MOMENTUM] = { "momentum", "real", "0.9", "0..0.9999", "train prune bench",
                       "momentum of --optimizer sgd", TRAINING, "" },
    [OPT_WEIGHT_DECAY] = { "weight-decay", "real", "-1", "-1..1", "train prune bench",
                           "share of the weights that an update takes away, times the learning "
                           "rate; biases and norms keep theirs; -1: 0.0005 for nets of images, "
                           "else 0",
                           TRAINING, "" },
    [OPT_SMOOTHING] = { "smoothing", "real", "-1", "-1..0.9", "train prune bench",
                        "share of the targets of --loss softmax that all labels have alike (label "
                        "smoothing); -1: 0",
                        TRAINING, "" },
    [OPT_GROUP_PENALTY] = { "group-penalty", "real", "0", "0..1000", "train prune",
                            "lambda of a penalty on the lengths of the weights that make a unit or "
                            "a channel: whole channels become 0 and are taken out of the net while "
                            "it trains; 0: none",
                            TRAINING, "" },
    [OPT_PENALTY_EPOCHS] = { "penalty-epochs", "int", "0", "0..100000", "train prune",
                             "epochs with --group-penalty, after which what is left is trained "
                             "without it; 0: two thirds of all",
                             TRAINING, "" },
    [OPT_TARGET_DROP] = { "target-accuracy-drop", "real", "0.3", "0..100", "prune inject",
                          "points of accuracy on the validation rows that the smaller net may lose",
                          TRAINING, "prune" },
    [OPT_TARGET_SPEEDUP] = { "target-speedup", "real", "0", "0..100000", "prune",
                             "stop where the smaller net is so many times as fast, 256 rows per "
                             "call; 0: the smallest net that is accurate enough",
                             TRAINING, "prune" },
    [OPT_PLOT] = { "plot", "output", "", "", "prune",
                   "SVG file of all nets that were tried: accuracy against parameters, operations "
                   "and measured time; empty: MODEL.svg",
                   TRAINING, "prune" },
    [OPT_WARMUP] = { "warmup", "real", "0.05", "0..1", "train prune bench",
                     "share of all steps with a rising learning rate", TRAINING, "" },
    [OPT_DECAY] = { "decay", "choice", "linear", "linear|cosine|none", "train prune bench",
                    "learning rate after the warm-up", TRAINING, "" },
    [OPT_AVERAGE] = { "average", "real", "0", "0..1", "train prune bench",
                      "share of the run, at its end, whose weights are averaged (" SNAPSHOTS
                      " times per epoch)",
                      TRAINING, "" },
    [OPT_SAMPLING] = { "sampling", "text", "auto", "auto|@samplers", "train prune bench",
                       "which output rows a step computes: full, or one or more of the others, "
                       "joined by +; auto: full for few labels, else what measured best",
                       SAMPLING, "bench" },
    [OPT_KEEP] = { "keep", "int", "20", "1..1000", "train prune bench",
                   "rows kept of what the finders found for a sample", SAMPLING, "" },
    [OPT_RANDOM] = { "random", "int", "-1", "-1..100000000", "train prune bench",
                     "rows per batch that --sampling random draws; -1: from the number of labels",
                     SAMPLING, "" },
    [OPT_FREQUENT] = { "frequent", "int", "500", "0..100000000", "train prune bench",
                       "rows per batch that --sampling frequency draws", SAMPLING, "" },
    [OPT_CARRY] = { "carry", "int", "-1", "-1..100000000", "train prune bench",
                    "rows with the most wrong probability that --sampling neighbours carries to "
                    "the next batch; -1: from the number of labels",
                    SAMPLING, "" },
    [OPT_ACTIVE_MIN] = { "active-min", "int", "0", "0..100000000", "train prune bench",
                         "fewest rows a step computes; random rows fill up", SAMPLING, "" },
    [OPT_ACTIVE_MAX] = { "active-max", "int", "-1", "-1..100000000", "train prune bench",
                         "most rows a step computes (true labels are never cut); 0: no limit; -1: "
                         "from the number of labels",
                         SAMPLING, "" },
    [OPT_ACTIVE_PER] = { "active-per", "choice", "batch", "batch|example", "train prune bench",
                         "batch: every sample computes the rows of all; example: each its own, as "
                         "in SLIDE",
                         SAMPLING, "" },
    [OPT_HOGWILD] = { "hogwild", "choice", "no", "no|yes", "train prune bench",
                      "with --active-per example: threads move output rows at once, sample by "
                      "sample, without locks; not repeatable with more than one thread",
                      SAMPLING, "" },
    [OPT_HIDDEN_SAMPLING] = { "hidden-sampling", "text", "lsh", "", "train prune bench",
                              "which rows of a 'sampled' layer of --net a step computes: as "
                              "--sampling, but only what needs no labels",
                              SAMPLING, "" },
    [OPT_CORRECT] = { "correct", "real", "0", "0..1", "train prune bench",
                      "log-probability correction of rows drawn at random: 1 whole, 0 none",
                      SAMPLING, "" },
    [OPT_RESCORE] = { "rescore", "choice", "yes", "no|yes", "train prune bench",
                      "keep found rows by exact score; no: by votes", SAMPLING, "" },
    [OPT_HASH] = { "hash", "choice", "auto", "auto|@hashes", "train prune bench",
                   "hash family of --sampling lsh", HASHING, "" },
    [OPT_BITS] = { "bits", "int", "0", "0..30", "train prune bench",
                   "bits of a key, rounded to whole hashes of the family (K of them); 0: from the "
                   "number of rows",
                   HASHING, "" },
    [OPT_TABLES] = { "tables", "int", "0", "0.." MOST_TABLES, "train prune bench",
                     "hash tables (L); 0: " TABLES ", beside neighbours " TABLES_BESIDE, HASHING,
                     "" },
    [OPT_BUCKET] = { "bucket", "int", "128", "0..100000000", "train prune bench",
                     "most rows a bucket holds; 0: no limit", HASHING, "" },
    [OPT_REPLACE] = { "replace", "choice", "fifo", "fifo|reservoir", "train prune bench",
                      "which rows a full bucket keeps: the newest, or a random choice", HASHING,
                      "" },
    [OPT_STRATEGY] = { "strategy", "choice", "topk", "vanilla|topk|threshold", "train prune bench",
                       "rows of one table after another; those in most tables; those in at least "
                       "--votes tables",
                       HASHING, "" },
    [OPT_VOTES] = { "votes", "int", "2", "1.." MOST_TABLES, "train prune bench",
                    "tables for --strategy threshold", HASHING, "" },
    [OPT_TRANSFORM] = { "transform", "choice", "yes", "no|yes", "train prune bench",
                        "hash centred rows, and with simhash take norms and biases into account",
                        HASHING, "" },
    [OPT_REBUILD] = { "rebuild", "int", "0", "0..100000000", "train prune bench",
                      "steps before the first rebuild of the tables, later gaps grow; 0: from the "
                      "number "
                      "of rows",
                      HASHING, "" },
    [OPT_REDRAW] = { "redraw", "int", "20", "0..100000000", "train prune bench",
                     "rebuilds between new hash functions; 0: never", HASHING, "" },
    [OPT_LISTS] = { "lists", "int", "0", "0..1000000", "train prune bench",
                    "inverted lists of --sampling ivf; 0: from the number of rows", SAMPLING, "" },
    [OPT_PROBES] = { "probes", "int", "0", "0..100000", "train prune bench",
                     "lists looked at for a sample; 0: chosen from --lists", SAMPLING, "" },
    [OPT_INDEX] = { "index", "choice", "auto", "auto|no|yes", "train tune prune bench",
                    "keep an index for --inference sparse in the model; auto: for many labels",
                    SAMPLING, "" },
    [OPT_SEED] = { "seed", "int", "1", "0.." MOST_SEED,
                   "train tune prune inject synth bench challenge", "seed of every random choice",
                   TRAINING, "train synth" },
    [OPT_VALID] = { "valid", "file", "", "", "train tune prune",
                    "file of validation rows; empty: hold out some", TRAINING, "train" },
    [OPT_HOLDOUT] = { "holdout", "real", "-1", "-1..0.5", "train tune prune",
                      "share of the training rows held out for validation when no file is given; "
                      "-1: from their number",
                      TRAINING, "" },
    [OPT_PATIENCE] = { "patience", "int", "10", "0..100000", "train prune bench",
                       "epochs without a lower validation loss before stopping; 0: never stop "
                       "early",
                       TRAINING, "" },
    [OPT_WEIGHTS] = { "weights", "file", "", "", "train prune",
                      "file whose line i says what row i counts for in training: a number, 0 or "
                      "more; empty: all the same",
                      TRAINING, "" },
    [OPT_CLASS_WEIGHT] = { "class-weight", "file", "none", "none|balanced", "train prune",
                           "what labels count for, a row the mean of its labels: none; balanced: "
                           "rare ones more; or a file of lines 'label weight', or of a weight for "
                           "each label",
                           TRAINING, "" },
    [OPT_INIT] = { "init", "file", "", "", "train prune bench",
                   "model to go on from; its features and labels stay, further ones are added",
                   RUNS, "train" },
    [OPT_OLD_PACE] = { "old-pace", "real", "-1", "-1..1", "train prune bench",
                       "with --init: learning rate of what the model knows, times this; 0 keeps it "
                       "as it is; -1: 0 where there are new labels, else 1; of a linear model the "
                       "cost of new rows for old labels, -1: by the share of new rows",
                       RUNS, "" },
    [OPT_KEEP_STATE] = { "keep-state", "flag", "0", "", "train prune",
                         "leave MODEL.state when the run is done: a later --init MODEL then also "
                         "goes on with the optimizer's memory",
                         RUNS, "" },
    [OPT_RESUME] = { "resume", "flag", "0", "", "train tune prune",
                     "go on with a run that was stopped or killed, from its last checkpoint; from "
                     "the beginning where there is none",
                     RUNS, "train" },
    [OPT_CHECKPOINT_STEPS] = { "checkpoint-steps", "int", "0", "0..1000000000000",
                               "train tune prune",
                               "steps between checkpoints within an epoch; 0: by time only", RUNS,
                               "" },
    [OPT_CHECKPOINT_MINUTES] = { "checkpoint-minutes", "real", "10", "0..1000000",
                                 "train tune prune",
                                 "minutes between checkpoints within an epoch; 0: at its end "
                                 "only",
                                 RUNS, "" },
    [OPT_DEADLINE] = { "deadline", "real", "300", "1..1000000", "train eval predict",
                       "seconds that one of several ranks waits for another (12 times as long "
                       "while files are read); then all end with exit code 8",
                       RUNS, "" },
    [OPT_DIVIDE] = { "divide", "choice", "auto", "auto|rows|samples", "train",
                     "what several ranks divide: the rows of features and labels, or the samples "
                     "of "
                     "each batch, every rank having the whole net; auto: samples of images and "
                     "tables, unless labels are sampled",
                     RUNS, "" },
    [OPT_EXCHANGE] = { "exchange", "choice", "auto", "auto|host|nccl", "train",
                       "how ranks with cards add up gradients: through the hosts' memory, or by "
                       "NCCL from card to card; auto: by NCCL where it is there and each rank has "
                       "a card of its own",
                       RUNS, "" },
    [OPT_LOG] = { "log", "output", "", "", "train tune prune bench",
                  "file that receives one JSON line per epoch", RUNS, "" },
    [OPT_WATCH] = { "watch", "port", "-1", "-1..65535", "train tune prune",
                    "a live page of the run, on this port of this machine; without a number, or 0: "
                    "on one that is free, which is printed",
                    RUNS, "" },
    [OPT_NOTE] = { "note", "text", "", "", "train tune prune",
                   "one line of text that the model keeps", RUNS, "" },

    [OPT_FORMAT] = { "format", "choice", "auto", "auto|@formats", READS,
                     "format of the data files; auto: by their bytes", DATA,
                     "train eval predict convert" },
    [OPT_VALUES] = { "values", "choice", "auto", "auto|@values", "train tune prune bench",
                     "@@values; auto: raw for images, "
                     "standard for tables whose columns are mostly filled, tfidf for words and "
                     "counts, else unit",
                     DATA, "" },
    [OPT_INDEX_BASE] = { "index-base", "int", "-1", "-1..1", READS,
                         "first feature id; -1: the one that is usual in the format", DATA,
                         "convert" },
    [OPT_NO_HEADER] = { "no-header", "flag", "0", "", READS,
                        "without a first line: of xc text 'rows features labels', of tables the "
                        "names of "
                        "columns, which then go by their numbers",
                        DATA, "convert" },
    [OPT_BLANK_LINES] = { "blank-lines", "choice", "auto", "auto|skip|rows",
                          "eval predict inject graph",
                          "lines with nothing on them: rows without features, or skipped; auto: "
                          "predict and graph answer every line, others skip them",
                          DATA, "" },
    [OPT_TOKENS] = { "tokens", "choice", "words", "@tokens", "train tune prune convert",
                     "what a text is cut into; @@tokens; kept in the model", TEXT, "" },
    [OPT_PAIRS] = { "pairs", "flag", "0", "", "train tune prune convert",
                    "pairs of neighbouring words are features too", TEXT, "convert" },
    [OPT_CHARS] = { "chars", "text", "auto", "", "train tune prune convert",
                    "pieces of words of so many characters are features too, e.g. " PIECES
                    "; 0: none; "
                    "auto: " PIECES " for training on short texts (" SHORT_TEXT
                    " words on average, or fewer), else "
                    "none",
                    TEXT, "" },
    [OPT_STOP_WORDS] = { "stop-words", "file", "", "", "train tune prune convert",
                         "file of words to leave out, one per line", TEXT, "" },
    [OPT_MIN_COUNT] = { "min-count", "int", "0", "0..1000000", "train tune prune convert",
                        "rarer words, pairs and pieces are dropped; 0: pairs and pieces that occur "
                        "once, no words",
                        TEXT, "convert" },
    [OPT_TEXT_COLUMN] = { "text-column", "text", "", "", READS,
                          "csv, tsv, jsonl: the column of text, by its name or its number from 1; "
                          "several (title,body) are joined; empty: by its usual names",
                          TEXT, "train tune" },
    [OPT_LABEL_COLUMN] = { "label-column", "text", "", "", READS,
                           "csv, tsv, jsonl: the column of labels; empty: by its usual names", TEXT,
                           "train tune" },
    [OPT_LABEL_SEPARATOR] = { "label-separator", "text", "", "", READS,
                              "csv, tsv, jsonl: what stands between the labels of a cell; empty: a "
                              "cell is one label",
                              TEXT, "train tune" },
    [OPT_LABELS] = { "labels", "file", "", "", "train tune prune synth inspect convert",
                     "file of label names, line i names id i", DATA, "train synth" },
    [OPT_VOCAB] = { "vocab", "file", "", "", "train tune prune inspect",
                    "file of feature names, line i names id i", DATA, "" },
    [OPT_CACHE] = { "cache", "folder", "", "", READS " challenge",
                    "folder for binary copies of data files that cannot lie beside them; '-': keep "
                    "none",
                    DATA, "" },
    [OPT_MEMORY] = { "memory", "size", "0", "", READS " challenge",
                     "limit for data held at once, and for a step's values where nets of images "
                     "are trained, e.g. 2G; 0: what the machine has",
                     DATA, "challenge" },

    [OPT_K] = { "k", "list", "", "", "eval predict explain serve",
                "cut-offs (eval), or how many labels per row (predict, explain)", USE,
                "eval predict explain" },
    [OPT_LABEL] = { "label", "text", "", "", "explain",
                    "explain this label, by its name (of a model without names by its number), "
                    "instead of the best ones",
                    USE, "explain" },
    [OPT_THRESHOLD] = { "threshold", "real", "0", "0..1", "predict serve",
                        "labels with a lower probability are left out", USE, "predict" },
    [OPT_FOR] = { "for", "text", "f1", "", "threshold",
                  "what thresholds are chosen for: f1, the highest F1; precision=0.9, the highest "
                  "recall with that precision; recall=0.8, the fewest wrong labels with that "
                  "recall; cost=FP:FN, the least cost of wrong and missed labels",
                  USE, "threshold" },
    [OPT_PER] = { "per", "choice", "label", "label|one", "threshold",
                  "one threshold per label, those of rare labels drawn towards the threshold of "
                  "all, or one for all labels",
                  USE, "threshold" },
    [OPT_PER_LABEL] = { "per-label", "output", "", "", "eval",
                        "write a table with one line per label: training rows, precision, recall, "
                        "F1, average precision, with tabs between them",
                        USE, "eval" },
    [OPT_SCORES] = { "scores", "choice", "calibrated", "calibrated|raw", "predict explain serve",
                     "calibrated: the probability that a label applies, fitted on the validation "
                     "rows of training; raw: as the loss has them",
                     USE, "predict" },
    [OPT_PROPENSITY] = { "propensity", "list", "0.55,1.5", "", "eval",
                         "A,B of the propensity model (PSP)", USE, "eval" },
    [OPT_INFERENCE] = { "inference", "choice", "exact", "exact|sparse", "eval predict serve",
                        "exact: all labels are scored; sparse: those that the model's index, "
                        "or its linear member, names",
                        USE, "eval predict serve" },
    [OPT_QUANTIZE] = { "quantize", "choice", "no", "no|bf16|int8|c64|c16", "convert",
                       "IN is a model: OUT is the same with smaller weights, to predict with (c64, "
                       "c16: 64 "
                       "or 16 values that all rows of a layer share, times a scale of the row)",
                       USE, "convert" },
    [OPT_IMAGE] = { "image", "text", "", "", "convert",
                    "IN are weights from elsewhere: CHANNELSxHEIGHTxWIDTH of the images that the "
                    "net reads, e.g. 3x224x224",
                    USE, "convert" },
    [OPT_MEAN] = { "mean", "list", "", "", "convert",
                   "IN are weights from elsewhere: what was subtracted from each channel of images "
                   "with values from 0 to 1; empty: as the file says, else ImageNet's for three "
                   "channels",
                   USE, "convert" },
    [OPT_STD] = { "std", "list", "", "", "convert",
                  "IN are weights from elsewhere: what each channel was then divided by", USE,
                  "convert" },
    [OPT_PLAN] = { "plan", "flag", "0", "", "inspect",
                   "what memory prediction and a training step take, and what of it when", USE,
                   "inspect" },

    [OPT_SHAPE] = { "shape", "text", "", "@shapes", "synth bench",
                    "the shape of a known data set, or ROWSxFEATURESxLABELS", SYNTHETIC,
                    "synth bench" },
    [OPT_ROWS] = { "rows", "choice", "fp32", "fp32|bf16", "train prune bench synth",
                   "what the rows of the input and the output layer are kept in; bf16 halves them "
                   "and rounds at random",
                   TRAINING, "" },
    [OPT_TEST_ROWS] = { "test-rows", "int", "-1", "-1.." MOST_ROWS, "synth bench",
                        "test rows; -1: a tenth of the rows", SYNTHETIC, "synth" },
    [OPT_FEATURES] = { "features", "int", "0", "0.." MOST_IDS, "synth explain",
                       "number of features", SYNTHETIC, "synth" },
    [OPT_ROW_FEATURES] = { "row-features", "real", "0", "0.." MOST_ROW_FEATURES, "synth bench",
                           "features per row, mean; 0: " ROW_FEATURES, SYNTHETIC, "synth" },
    [OPT_ROW_LABELS] = { "row-labels", "real", "0", "0.." MOST_ROW_LABELS, "synth bench",
                         "labels per row, mean; 0: " ROW_LABELS, SYNTHETIC, "synth" },

    [OPT_NEURONS] = { "neurons", "int", "1024", DEGREE "..4194304", "challenge",
                      "neurons of a layer: 1024, 4096, 16384 or 65536 in the official networks",
                      DEEP, "challenge" },
    [OPT_LAYERS] = { "layers", "int", "120", "1..1000000", "challenge",
                     "number of layers: 120, 480 or 1920 in the official networks", DEEP,
                     "challenge" },
    [OPT_MODE] = { "mode", "choice", "exact", "raw|exact|merged", "challenge",
                   "raw: every edge of every input is computed; exact: inputs that no later layer "
                   "changes are done; merged: exact, and equal neurons are computed once",
                   DEEP, "challenge" },
    [OPT_DATA] = { "data", "folder", "", "", "challenge",
                   "folder of the official files; with --generate: of MNIST's training images",
                   DEEP, "challenge" },
    [OPT_GENERATE] = { "generate", "flag", "0", "", "challenge",
                       "make the network, and its inputs from MNIST, as the official ones are "
                       "made",
                       DEEP, "challenge" },
    [OPT_TOPOLOGY] = { "topology", "choice", "radix", "radix|random", "challenge",
                       "connections of a generated network: the official butterflies, "
                       "or " DEGREE " inputs "
                       "per neuron at random",
                       DEEP, "challenge" },

    [OPT_DEVICE] = { "device", "choice", "cpu", "cpu|cuda",
                     "train prune eval predict serve bench challenge",
                     "where to work: on the CPU, or on an NVIDIA card", MACHINE,
                     "train eval predict bench challenge" },
    [OPT_CARD_MEMORY] = { "card-memory", "size", "0", "", "train prune bench",
                          "most memory of the card to take; where the output layer's rows do not "
                          "fit they stay in the host's memory, and those in use travel; values of "
                          "nets of images are made again; 0: what is free",
                          MACHINE, "" },
    [OPT_CARDS] = { "cards", "int", "1", "1..1024", "train",
                    "cards of this machine to train on, with --device cuda: mpirun starts a rank "
                    "for "
                    "each",
                    MACHINE, "" },
    [OPT_THREADS] = { "threads", "int", "0", "0.." MOST_THREADS, WORKS " inspect serve",
                      "threads to work with; 0: one per core", MACHINE,
                      "train tune eval predict convert inject synth bench challenge serve" },
    [OPT_CONFIG] = { "config", "file", "", "", WORKS " serve",
                     "file of options, lines 'key = value'; the command line wins", MACHINE, "" },
    [OPT_JSON] = { "json", "flag", "0", "", READS " inspect info bench challenge",
                   "the last line of stdout is one JSON object", MACHINE,
                   "train eval predict convert inject graph inspect info bench challenge" },
    [OPT_TSV] = { "tsv", "flag", "0", "", "predict graph",
                  "one line per label: row (from 1), rank, label, score, with tabs between them",
                  MACHINE, "predict" },
    [OPT_QUIET] = { "quiet", "flag", "0", "", WORKS " serve report",
                    "no plan, notices or progress on stderr, only errors", MACHINE,
                    "train tune eval predict convert synth bench challenge" },

    [OPT_RATE] = { "rate", "real", "0", "0..1", "inject",
                   "share of bits that are wrong, each by itself", ERRORS, "inject" },
    [OPT_WHAT] = { "what", "choice", "weights", "weights|values|both", "inject",
                   "what has errors: weights, or the values that layers give for a row", ERRORS,
                   "inject" },
    [OPT_TYPE] = { "type", "choice", "auto", "auto|fp32|bf16|int8", "inject",
                   "what numbers are kept in; auto: as the model has them, and in a sweep of fp32 "
                   "weights all three",
                   ERRORS, "inject" },
    [OPT_LAYER] = { "layer", "text", "", "", "inject",
                    "layers or tensors with errors, by name, with commas between; empty: all "
                    "matrices of weights, all values",
                    ERRORS, "inject" },
    [OPT_MAP] = { "map", "choice", "random", "random|fixed", "inject",
                  "random: other bits in each draw; fixed: weak ones, always the same for a --seed",
                  ERRORS, "inject" },
    [OPT_GUARD] = { "guard", "choice", "off", "off|clip|zero", "inject",
                    "what is beyond the largest number of its tensor is read as that number, or "
                    "as 0",
                    ERRORS, "inject" },
    [OPT_DRAWS] = { "draws", "int", "3", "1..1000", "inject",
                    "times that each rate is tried, with other bits", ERRORS, "" },
    [OPT_SWEEP] = { "sweep", "flag", "0", "", "inject",
                    "accuracy against the rate of errors, for all tensors together and for each "
                    "alone",
                    ERRORS, "inject" },
    [OPT_RATES] = { "rates", "list", "1e-7,1e-6,1e-5,1e-4,1e-3,1e-2", "", "inject",
                    "rates of --sweep, rising", ERRORS, "" },
    [OPT_PARTITIONS] = { "partitions", "list", "1e-2,1e-3,1e-4,0", "", "inject",
                         "with --target-accuracy-drop: rates of the memory's partitions; empty: "
                         "none, only the "
                         "rate that all tensors bear together is found",
                         ERRORS, "inject" },
    [OPT_TEST] = { "test", "file", "", "", "inject",
                   "with --target-accuracy-drop: rows that were not chosen by, to measure the "
                   "result on",
                   ERRORS, "inject" },
    [OPT_MAGNITUDE] = { "magnitude", "real", "0", "0..0.9999", "train prune",
                        "share of the weights of 'dense' and 'sparse' layers that become 0 while "
                        "the net trains, the smallest first; the layers are 'sparse' then, with "
                        "the connections that are left; of prune: the first share to try; 0: none",
                        TRAINING, "" },
    [OPT_MAGNITUDE_EPOCHS] = { "magnitude-epochs", "int", "0", "0..100000", "train prune",
                               "epochs by which --magnitude has its share, after which what is "
                               "left is trained; 0: two thirds of all",
                               TRAINING, "" },
    [OPT_UNSTRUCTURED] = { "unstructured", "flag", "0", "", "prune",
                           "single weights go, the smallest, instead of whole units and channels; "
                           "what is left has 'sparse' layers",
                           TRAINING, "prune" },
    [OPT_GROUPS] = { "groups", "text", "channels", "@groups", "train prune",
                     "what --group-penalty makes 0, joined by +; @@groups", TRAINING, "prune" },
    [OPT_GROUP_WEIGHTS] = { "group-weights", "text", "", "", "train prune",
                            "factors of --group-penalty for layers by their names: "
                            "conv1=0,fc1=2 (with 0 a layer keeps all it has); 'operations' weighs "
                            "every layer by what a weight of it costs in time, which prune does "
                            "by itself",
                            TRAINING, "" },
    [OPT_FUNCTION] = { "function", "choice", "relu", "@functions", "graph",
                       "of nodes between inputs and outputs, where the file is MatrixMarket",
                       GRAPHS, "graph" },
    [OPT_ROUND] = { "round", "choice", "auto", "auto|no|yes", "train prune",
                    "with --group-penalty: when channels go, some more go, or some stay, where "
                    "that many are faster on this machine, as measured once; on a card maps have "
                    "16 channels or a multiple; auto: of prune",
                    TRAINING, "" },
    [OPT_PENALTY_WARMUP] = { "penalty-warmup", "real", "0", "0..100000", "train prune",
                             "epochs in which --group-penalty rises to its value; 0: it has it "
                             "from "
                             "the first step on",
                             TRAINING, "" },
    [OPT_GROUP_CUT] = { "group-cut", "real", "0", "0..0.9999", "train prune",
                        "share of each layer's units and channels that is cut in the first "
                        "--penalty-epochs (a third), the weakest; of prune: the first one; 0: none",
                        TRAINING, "" },
    [OPT_ENSEMBLE] = { "ensemble", "int", "1", "1..16", "train",
                       "how many nets with seeds of their own, one after the other, over the same "
                       "held-out rows; their probabilities are averaged in one model",
                       NETWORK, "" },
    [OPT_BUDGET] = { "budget", "text", "", "", "train tune prune",
                     "time that --net auto may take, or prune: 90s, 5m, 1.5h; empty: whatever "
                     "--effort, or the nets of prune, take",
                     NETWORK, "tune" },
    [OPT_EFFORT] = { "effort", "choice", "normal", "low|normal|high", "train tune",
                     "of --net auto. low: a linear model and a net; normal: three nets where that "
                     "is quick; high: nets of several widths, rates and dropouts are tried first",
                     NETWORK, "tune" },
    [OPT_TRIED] = { "tried", "output", "", "", "train tune",
                    "file for the list of what --net auto tried, a line of JSON each; empty: none "
                    "is kept",
                    NETWORK, "" },
    [OPT_SPLIT_SEED] = { "split-seed", "int", "-1", "-1.." MOST_SEED, "train tune prune",
                         "seed of the choice of held-out rows; -1: that of --seed", TRAINING, "" },
    [OPT_ERROR_RATE] = { "error-rate", "real", "0", "0..1", "train",
                         "share of the bits of weight matrices that are wrong in each step, on its "
                         "way forward and back; what moves are the right ones; rising over the "
                         "first half of the steps",
                         ERRORS, "" },
    [OPT_ERROR_TYPE] = { "error-type", "choice", "fp32", "fp32|bf16|int8", "train",
                         "what weights with errors are kept in", ERRORS, "" },
    [OPT_ERROR_MAP] = { "error-map", "choice", "random", "random|fixed", "train",
                        "random: other bits in each step; fixed: the weak ones that 'wisp inject "
                        "--map fixed' has for the same seed, from the first step on",
                        ERRORS, "" },
    [OPT_ERROR_GUARD] = { "error-guard", "choice", "zero", "off|clip|zero", "train",
                          "weights beyond the largest of their tensor are read as that one, or as "
                          "0",
                          ERRORS, "" },
    [OPT_ERROR_SEED] = { "error-seed", "int", "1", "0.." MOST_SEED, "train", "seed of the errors",
                         ERRORS, "" },
    [OPT_PORT] = { "port", "int", "8080", "0..65535", "serve",
                   "to listen on; 0: any that is free, which is printed", SERVING, "serve" },
    [OPT_ADDRESS] = { "address", "text", "127.0.0.1", "", "serve",
                      "to listen on; 0.0.0.0: all of this machine, for others to reach", SERVING,
                      "serve" },
    [OPT_TOKEN_FILE] = { "token-file", "file", "", "", "serve",
                         "requests must bring the token that the first line of this file is; "
                         "without it that of the environment, WISP_TOKEN, if there is one",
                         SERVING, "serve" },
    [OPT_TLS_CERT] = { "tls-cert", "file", "", "", "serve",
                       "certificate for HTTPS, with its chain (PEM)", SERVING, "" },
    [OPT_TLS_KEY] = { "tls-key", "file", "", "", "serve", "its key (PEM)", SERVING, "" },
    [OPT_ACCESS_LOG] = { "access-log", "output", "", "", "serve",
                         "a line of JSON for each request is appended here; -: to stdout", SERVING,
                         "serve" },
    [OPT_RELOAD_EVERY] = { "reload-every", "real", "1", "0..86400", "serve",
                           "seconds between looks at the model files; one that changed is loaded, "
                           "verified, then takes over; 0: on SIGHUP only",
                           SERVING, "serve" },
    [OPT_MAX_WAIT] = { "max-wait", "real", "-1", "-1..1000", "serve",
                       "milliseconds that a row may wait for others to be predicted with; -1: none "
                       "waits, but rows that came while others were predicted go together",
                       SERVING, "serve" },
    [OPT_MAX_BODY] = { "max-body", "size", "67108864", "", "serve",
                       "most bytes of a request, like 64M", SERVING, "" },
    [OPT_MAX_ROWS] = { "max-rows", "int", "4096", "1..1000000", "serve", "most rows of a request",
                       SERVING, "" },
    [OPT_MAX_QUEUE] = { "max-queue", "int", "16384", "1..100000000", "serve",
                        "most rows that wait; requests beyond are told to come again (503)",
                        SERVING, "" },
    [OPT_MAX_CONNECTIONS] = { "max-connections", "int", "4096", "1..1000000", "serve",
                              "most connections at a time; others are refused (503)", SERVING, "" },
    [OPT_HEADER_TIME] = { "header-time", "real", "10", "0.1..3600", "serve",
                          "seconds for a request to arrive whole, and 1 more for each 32 kB (408)",
                          SERVING, "" },
    [OPT_IDLE_TIME] = { "idle-time", "real", "60", "0.1..86400", "serve",
                        "seconds that a connection may stay open between two requests", SERVING,
                        "" },
    [OPT_DRAIN_TIME] = { "drain-time", "real", "30", "0..86400", "serve",
                         "most seconds to go on answering after SIGTERM", SERVING, "" },
};
