/* The option table: key, type, default, range, commands, help.  Read top-down by 'wisp help'. */
#include "config/options.h"
#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READS "train eval predict convert"

static const wisp_option table[N_OPTS] = {
    [OPT_NET] = { "net", "text", "", "", "train bench",
                  "layers in a row, e.g. \"input 256, relu, dropout 0.3, dense 128, relu\" or "
                  "\"sparse "
                  "radix 1024, relu\" (wisp info lists the kinds); the output layer is added; "
                  "empty: from --hidden and --dropout" },
    [OPT_HIDDEN] = { "hidden", "text", "", "", "train bench",
                     "widths of the hidden layers: 256, or 512,256; empty: 512 up to 4096 labels, "
                     "256 above" },
    [OPT_DROPOUT] = { "dropout", "real", "-1", "-1..0.95", "train bench",
                      "share of hidden units dropped while training; -1: chosen from the data" },
    [OPT_INPUT_DROPOUT] = { "input-dropout", "real", "-1", "-1..0.95", "train bench",
                            "share of input features dropped while training; -1: chosen from the "
                            "data" },
    [OPT_LOSS] = { "loss", "choice", "auto", "auto|softmax|bce", "train bench",
                   "softmax: labels compete, 1/|Y| targets; bce: each label alone, scores to "
                   "threshold; auto: softmax for many rows and labels, else bce" },

    [OPT_EPOCHS] = { "epochs", "int", "0", "0..100000", "train bench",
                     "passes over the data; 0: from the number of rows" },
    [OPT_SECONDS] = { "seconds", "real", "0", "0..1000000000", "bench",
                      "train: no longer than this; 0: no limit; 30 where --epochs is not given "
                      "either; predict: each way of prediction is measured for so long; 0: 2" },
    [OPT_BATCH] = { "batch", "int", "0", "0..65536", "train bench",
                    "rows a step; 0: from the number of rows" },
    [OPT_LR] = { "lr", "real", "0", "0..1000", "train bench",
                 "highest learning rate; 0: the default of the optimizer and the sampling" },
    [OPT_OPTIMIZER] = { "optimizer", "choice", "auto", "auto|adam|adagrad|sgd", "train bench",
                        "all touch only rows that have a gradient; auto: adagrad for many rows and "
                        "labels, else adam" },
    [OPT_MOMENTS] = { "moments", "choice", "auto", "auto|fp32|bf16", "train bench",
                      "what adam and sgd keep their running means in; bf16 halves them and rounds "
                      "at random; auto: bf16 from 2^26 weights on" },
    [OPT_PRECISION] = { "precision", "choice", "auto", "auto|fp32|bf16", "train bench",
                        "of the output layer's products; weights and sums stay fp32; auto: bf16 "
                        "where the processor has instructions for it" },
    [OPT_MOMENTUM] = { "momentum", "real", "0.9", "0..0.9999", "train bench",
                       "of --optimizer sgd" },
    [OPT_WARMUP] = { "warmup", "real", "0.05", "0..1", "train bench",
                     "share of all steps with a rising learning rate" },
    [OPT_DECAY] = { "decay", "choice", "linear", "linear|cosine|none", "train bench",
                    "learning rate after the warm-up" },
    [OPT_AVERAGE] = { "average", "real", "0", "0..1", "train bench",
                      "share of the run, at its end, whose weights are averaged (4 times an "
                      "epoch)" },
    [OPT_SAMPLING] = { "sampling", "text", "auto", "", "train bench",
                       "which output rows a step computes: full, or finders joined by +: random, "
                       "frequency, neighbours, features, ivf, lsh; auto: full for few labels, else "
                       "what "
                       "measured best" },
    [OPT_KEEP] = { "keep", "int", "20", "1..1000", "train bench",
                   "rows kept of what the finders found for a sample" },
    [OPT_RANDOM] = { "random", "int", "-1", "-1..100000000", "train bench",
                     "rows a batch that --sampling random draws; -1: from the number of labels" },
    [OPT_FREQUENT] = { "frequent", "int", "500", "0..100000000", "train bench",
                       "rows a batch that --sampling frequency draws" },
    [OPT_CARRY] = { "carry", "int", "-1", "-1..100000000", "train bench",
                    "rows with the most wrong probability that --sampling neighbours carries to "
                    "the next batch; -1: from the number of labels" },
    [OPT_ACTIVE_MIN] = { "active-min", "int", "0", "0..100000000", "train bench",
                         "fewest rows a step computes; random rows fill up" },
    [OPT_ACTIVE_MAX] = { "active-max", "int", "-1", "-1..100000000", "train bench",
                         "most rows a step computes (true labels are never cut); 0: no limit; -1: "
                         "from the number of labels" },
    [OPT_ACTIVE_PER] = { "active-per", "choice", "batch", "batch|example", "train bench",
                         "batch: every sample computes the rows of all; example: each its own, as "
                         "in SLIDE" },
    [OPT_HOGWILD] = { "hogwild", "choice", "no", "no|yes", "train bench",
                      "with --active-per example: threads move output rows at once, sample by "
                      "sample, without locks; not repeatable with more than one thread" },
    [OPT_HIDDEN_SAMPLING] = { "hidden-sampling", "text", "lsh", "", "train bench",
                              "which rows of a 'sampled' layer of --net a step computes: as "
                              "--sampling, but only what needs no labels" },
    [OPT_CORRECT] = { "correct", "real", "0", "0..1", "train bench",
                      "log-probability correction of rows drawn at random: 1 whole, 0 none" },
    [OPT_RESCORE] = { "rescore", "choice", "yes", "no|yes", "train bench",
                      "keep found rows by exact score; no: by votes" },
    [OPT_HASH] = { "hash", "choice", "auto", "auto|simhash|wta|dwta|minhash", "train bench",
                   "hash family of --sampling lsh" },
    [OPT_BITS] = { "bits", "int", "0", "0..30", "train bench",
                   "bits of a key, rounded to whole hashes of the family (K of them); 0: from the "
                   "number of rows" },
    [OPT_TABLES] = { "tables", "int", "0", "0..4096", "train bench",
                     "hash tables (L); 0: 50, beside neighbours 12" },
    [OPT_BUCKET] = { "bucket", "int", "128", "0..100000000", "train bench",
                     "most rows a bucket holds; 0: no limit" },
    [OPT_REPLACE] = { "replace", "choice", "fifo", "fifo|reservoir", "train bench",
                      "which rows a full bucket keeps: the newest, or a random choice" },
    [OPT_STRATEGY] = { "strategy", "choice", "topk", "vanilla|topk|threshold", "train bench",
                       "rows of one table after another; those in most tables; those in at least "
                       "--votes tables" },
    [OPT_VOTES] = { "votes", "int", "2", "1..4096", "train bench",
                    "tables for --strategy threshold" },
    [OPT_TRANSFORM] = { "transform", "choice", "yes", "no|yes", "train bench",
                        "hash centred rows, and with simhash take norms and biases into account" },
    [OPT_REBUILD] = { "rebuild", "int", "0", "0..100000000", "train bench",
                      "steps before the first rebuild of the tables, later gaps grow; 0: from the "
                      "number "
                      "of rows" },
    [OPT_REDRAW] = { "redraw", "int", "20", "0..100000000", "train bench",
                     "rebuilds between new hash functions; 0: never" },
    [OPT_LISTS] = { "lists", "int", "0", "0..1000000", "train bench",
                    "inverted lists of --sampling ivf; 0: from the number of rows" },
    [OPT_PROBES] = { "probes", "int", "0", "0..100000", "train bench",
                     "lists looked at for a sample; 0: chosen from --lists" },
    [OPT_INDEX] = { "index", "choice", "auto", "auto|no|yes", "train bench",
                    "keep an index for --inference sparse in the model; auto: for many labels" },
    [OPT_SEED] = { "seed", "int", "1", "0..9007199254740992", "train synth bench challenge",
                   "of every random choice" },
    [OPT_VALID] = { "valid", "text", "", "", "train",
                    "file of validation rows; empty: hold out some" },
    [OPT_HOLDOUT] = { "holdout", "real", "-1", "-1..0.5", "train",
                      "share of the training rows held out for validation when no file is given; "
                      "-1: from their number" },
    [OPT_PATIENCE] = { "patience", "int", "10", "0..100000", "train bench",
                       "epochs without a better validation P@1 before stopping; 0: never stop "
                       "early" },
    [OPT_WEIGHTS] = { "weights", "text", "", "", "train",
                      "file whose line i says what row i counts for in training: a number, 0 or "
                      "more; empty: all the same" },
    [OPT_CLASS_WEIGHT] = { "class-weight", "text", "none", "", "train",
                           "what labels count for, a row the mean of its labels: none; balanced: "
                           "rare ones more; or a file of lines 'label weight', or of a weight for "
                           "each label" },
    [OPT_INIT] = { "init", "text", "", "", "train bench",
                   "model to go on from; its features and labels stay, further ones are added" },
    [OPT_OLD_PACE] = { "old-pace", "real", "-1", "-1..1", "train bench",
                       "with --init: learning rate of what the model knows, times this; 0 keeps it "
                       "as it is; -1: 0 where there are new labels, else 1" },
    [OPT_KEEP_STATE] = { "keep-state", "flag", "0", "", "train",
                         "leave MODEL.state when the run is done: a later --init MODEL then also "
                         "goes on with the optimizer's memory" },
    [OPT_RESUME] = { "resume", "flag", "0", "", "train",
                     "go on with a run that was stopped or killed, from its last checkpoint; from "
                     "the beginning where there is none" },
    [OPT_CHECKPOINT_STEPS] = { "checkpoint-steps", "int", "0", "0..1000000000000", "train",
                               "steps between checkpoints within an epoch; 0: by time only" },
    [OPT_CHECKPOINT_MINUTES] = { "checkpoint-minutes", "real", "10", "0..1000000", "train",
                                 "minutes between checkpoints within an epoch; 0: at its end "
                                 "only" },
    [OPT_LOG] = { "log", "text", "", "", "train bench",
                  "file that receives one JSON line an epoch" },
    [OPT_NOTE] = { "note", "text", "", "", "train",
                   "one line of ASCII that the model keeps among its options" },

    [OPT_FORMAT] = { "format", "choice", "auto", "auto|xc|libsvm|fasttext|npz|idx", READS,
                     "of the data files" },
    [OPT_VALUES] = { "values", "choice", "auto", "auto|tfidf|unit|raw", "train bench",
                     "tfidf: (1+log count)*idf, length 1; unit: length 1; raw: as they are; auto: "
                     "raw "
                     "for images (idx), tfidf where all values are counts, else unit" },
    [OPT_INDEX_BASE] = { "index-base", "int", "-1", "-1..1", READS,
                         "first feature id; -1: xc 0, libsvm 1" },
    [OPT_NO_HEADER] = { "no-header", "flag", "0", "", READS,
                        "xc text without its first line 'rows features labels'" },
    [OPT_BLANK_LINES] = { "blank-lines", "choice", "auto", "auto|skip|rows", "eval predict",
                          "lines with nothing on them: rows without features, or skipped; auto: "
                          "eval skips them, predict answers every line" },
    [OPT_PAIRS] = { "pairs", "flag", "0", "", "train convert",
                    "fasttext text: pairs of neighbouring words are features too" },
    [OPT_MIN_COUNT] = { "min-count", "int", "1", "1..1000000", "train convert",
                        "fasttext text: rarer words and pairs are dropped" },
    [OPT_LABELS] = { "labels", "text", "", "", "train synth",
                     "file of label names, line i names id i (synth: number of labels)" },
    [OPT_VOCAB] = { "vocab", "text", "", "", "train", "file of feature names, line i names id i" },
    [OPT_CACHE] = { "cache", "text", "", "", READS " challenge",
                    "folder for binary copies of data files that cannot lie beside them; '-': keep "
                    "none" },
    [OPT_MEMORY] = { "memory", "size", "0", "", READS " challenge",
                     "limit for data held at once, e.g. 2G; 0: what the machine has (challenge: "
                     "for "
                     "network and inputs on the card; what is beyond it is streamed)" },

    [OPT_K] = { "k", "text", "", "", "eval predict",
                "cut-offs (eval, 1,3,5) or number of labels a row (predict, 5)" },
    [OPT_THRESHOLD] = { "threshold", "real", "0", "0..1", "predict",
                        "labels with a lower probability are left out" },
    [OPT_SCORES] = { "scores", "choice", "calibrated", "calibrated|raw", "predict",
                     "calibrated: the probability that a label applies, fitted on the validation "
                     "rows of training; raw: as the loss has them" },
    [OPT_PROPENSITY] = { "propensity", "text", "0.55,1.5", "", "eval",
                         "A,B of the propensity model (PSP)" },
    [OPT_INFERENCE] = { "inference", "choice", "exact", "exact|sparse", "eval predict",
                        "exact: all labels are scored; sparse: those the model's index names" },
    [OPT_QUANTIZE] = { "quantize", "choice", "no", "no|bf16|int8", "convert",
                       "IN is a model: OUT is the same with smaller weights, to predict with" },

    [OPT_SHAPE] = { "shape", "text", "", "", "synth bench",
                    "amazon670k, delicious200k or ROWSxFEATURESxLABELS" },
    [OPT_ROWS] = { "rows", "mixed", "fp32", "fp32|bf16|0..4000000000", "train bench synth",
                   "train, bench: what the rows of the input and the output layer are kept in; "
                   "bf16 halves them and rounds at random; synth: how many training rows" },
    [OPT_TEST_ROWS] = { "test-rows", "int", "-1", "-1..4000000000", "synth bench",
                        "test rows; -1: a tenth, at most 20000 (bench: 5000)" },
    [OPT_FEATURES] = { "features", "int", "0", "0..2000000000", "synth", "number of features" },
    [OPT_ROW_FEATURES] = { "row-features", "real", "0", "0..100000", "synth bench",
                           "features a row, mean; 0: 75" },
    [OPT_ROW_LABELS] = { "row-labels", "real", "0", "0..10000", "synth bench",
                         "labels a row, mean; 0: 5" },

    [OPT_NEURONS] = { "neurons", "int", "1024", "32..4194304", "challenge",
                      "of a layer: 1024, 4096, 16384 or 65536 in the official networks" },
    [OPT_LAYERS] = { "layers", "int", "120", "1..1000000", "challenge",
                     "120, 480 or 1920 in the official networks" },
    [OPT_MODE] = { "mode", "choice", "exact", "raw|exact|merged", "challenge",
                   "raw: every edge of every input is computed; exact: inputs that no later layer "
                   "changes are done; merged: exact, and equal neurons are computed once" },
    [OPT_DATA] = { "data", "text", "", "", "challenge",
                   "folder of the official files; with --generate: of MNIST's training images" },
    [OPT_GENERATE] = { "generate", "flag", "0", "", "challenge",
                       "make the network, and its inputs from MNIST, as the official ones are "
                       "made" },
    [OPT_TOPOLOGY] = { "topology", "choice", "radix", "radix|random", "challenge",
                       "of a generated network: the official butterflies, or 32 inputs a neuron at "
                       "random" },

    [OPT_DEVICE] = { "device", "choice", "cpu", "cpu|cuda", "train eval predict bench challenge",
                     "where to work: on the CPU, or on an NVIDIA card" },
    [OPT_CARD_MEMORY] = { "card-memory", "size", "0", "", "train bench",
                          "most memory of the card to take; where the output layer's rows do not "
                          "fit they stay in the host's memory, and those in use travel; 0: what "
                          "is free" },
    [OPT_THREADS] = { "threads", "int", "0", "0..1024",
                      "train eval predict convert synth bench challenge", "0: one per core" },
    [OPT_CONFIG] = { "config", "text", "", "", "train eval predict convert synth bench challenge",
                     "file with lines 'key = value'" },
    [OPT_JSON] = { "json", "flag", "0", "", "train eval predict inspect info bench challenge",
                   "the last line of stdout is a JSON object (predict: one object a row)" },
};

struct wisp_config {
    char *text[N_OPTS]; /* NULL: the default */
    double num[N_OPTS];
};

const wisp_option *wisp_option_row(size_t i)
{
    return i < N_OPTS ? &table[i] : NULL;
}

static bool is_type(const wisp_option *o, const char *type)
{
    return strcmp(o->type, type) == 0;
}

/* "1.5G" -> bytes; false if it is no size. */
static bool parse_size(double *out, const char *s)
{
    char *end;
    *out = strtod(s, &end);
    const char *units = "kmgtKMGT", *u = *end ? strchr(units, *end) : NULL;
    if (end == s || *out < 0 || !isfinite(*out)) return false;
    if (u) {
        *out *= pow(1024, (double)((u - units) % 4 + 1));
        end++;
        if (*end == 'i') end++;
        if (*end == 'B' || *end == 'b') end++;
    }
    return *end == 0 && *out < 0x1p62; /* a size_t holds it, and sums of a few */
}

static bool is_choice(const char *range, const char *s)
{
    size_t n = strlen(s);
    for (const char *p = range; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (n > 0 && strncmp(p, s, n) == 0 && (p[n] == 0 || p[n] == '|')) return true;
    return false;
}

static wisp_status parse(double *num, const wisp_option *o, const char *s, wisp_error *err)
{
    *num = 0;
    if (is_type(o, "text")) return WISP_OK;
    if (is_type(o, "choice")) {
        if (is_choice(o->range, s)) return WISP_OK;
        return wisp_fail(err, WISP_EINVAL, "--%s: '%s' is not one of %s", o->key, s, o->range);
    }
    if (is_type(o, "mixed") && is_choice(o->range, s)) return WISP_OK;
    if (is_type(o, "flag")) {
        if (strcmp(s, "1") == 0 || strcmp(s, "true") == 0 || strcmp(s, "yes") == 0) *num = 1;
        else if (strcmp(s, "0") != 0 && strcmp(s, "false") != 0 && strcmp(s, "no") != 0)
            return wisp_fail(err, WISP_EINVAL, "--%s: '%s' is not yes or no", o->key, s);
        return WISP_OK;
    }
    if (is_type(o, "size")) {
        if (parse_size(num, s)) return WISP_OK;
        return wisp_fail(err, WISP_EINVAL, "--%s: '%s' is not a size like 512M or 2G", o->key, s);
    }
    char *end;
    const char *last = strrchr(o->range, '|'), *range = last ? last + 1 : o->range;
    double lo = strtod(range, NULL), hi = strtod(strstr(range, "..") + 2, NULL);
    bool whole = !is_type(o, "real");
    *num = strtod(s, &end);
    if (end == s || *end || (whole && *num != floor(*num)))
        return wisp_fail(err, WISP_EINVAL, "--%s: '%s' is not %s%s", o->key, s,
                         whole ? "a whole number" : "a number",
                         is_type(o, "mixed") ? ", nor one of the words for it" : "");
    if (!(*num >= lo && *num <= hi))
        return wisp_fail(err, WISP_EINVAL, "--%s: %s is not in %s", o->key, s, o->range);
    return WISP_OK;
}

wisp_status wisp_config_create(wisp_config **out, wisp_error *err)
{
    wisp_config *c = *out = wisp_zalloc(1, sizeof *c);
    if (!c) return wisp_fail_mem(err, sizeof *c, "options");
    for (size_t i = 0; i < N_OPTS; i++) parse(&c->num[i], &table[i], table[i].fallback, NULL);
    return WISP_OK;
}

void wisp_config_free(wisp_config *c)
{
    if (!c) return;
    for (size_t i = 0; i < N_OPTS; i++) wisp_free(c->text[i]);
    wisp_free(c);
}

static int find(const char *key)
{
    for (int i = 0; i < N_OPTS; i++)
        if (strcmp(table[i].key, key) == 0) return i;
    return -1;
}

wisp_status wisp_config_set(wisp_config *c, const char *key, const char *value, wisp_error *err)
{
    int i = find(key);
    if (i < 0) return wisp_fail(err, WISP_EINVAL, "no option '%s'", key);
    double num;
    wisp_status st = parse(&num, &table[i], value, err);
    if (st != WISP_OK) return st;
    char *copy = wisp_strdup(value);
    if (!copy) return wisp_fail_mem(err, strlen(value) + 1, "an option");
    wisp_free(c->text[i]);
    c->text[i] = copy;
    c->num[i] = num;
    return WISP_OK;
}

const char *wisp_config_get(const wisp_config *c, const char *key)
{
    int i = find(key);
    return i < 0 ? NULL : wisp_opt_text(c, (enum wisp_opt)i);
}

double wisp_opt_num(const wisp_config *c, enum wisp_opt o)
{
    return c->num[o];
}

const char *wisp_opt_text(const wisp_config *c, enum wisp_opt o)
{
    return c->text[o] ? c->text[o] : table[o].fallback;
}

bool wisp_opt_given(const wisp_config *c, enum wisp_opt o)
{
    return c->text[o] != NULL;
}

static char *trim(char *s)
{
    while (*s == ' ' || *s == '\t') s++;
    for (size_t n = strlen(s); n > 0 && strchr(" \t\r\n", s[n - 1]); n--) s[n - 1] = 0;
    return s;
}

/* One line of a file of options. */
static wisp_status set_line(wisp_config *c, char *line, wisp_error *err)
{
    char *hash = strchr(line, '#');
    if (hash) *hash = 0;
    char *key = trim(line), *eq = strchr(key, '=');
    if (!*key) return WISP_OK;
    if (!eq) return wisp_fail(err, WISP_EINVAL, "expected 'key = value', found '%.40s'", key);
    *eq = 0;
    key = trim(key);
    if (strcmp(key, table[OPT_CONFIG].key) == 0)
        return wisp_fail(err, WISP_EINVAL,
                         "a file of options cannot name another: give each with "
                         "--config");
    return wisp_config_set(c, key, trim(eq + 1), err);
}

enum { LINE_ROOM = 4095 }; /* with the final zero */

/* The next line without its end; *last: the file ends with it. */
static wisp_status read_line(char line[LINE_ROOM], bool *last, FILE *f, wisp_error *err)
{
    size_t n = 0;
    int c;
    while ((c = getc(f)) != EOF && c != '\n') {
        if (c == 0) return wisp_fail(err, WISP_EINVAL, "a NUL byte, expected text");
        if (n == LINE_ROOM - 1)
            return wisp_fail(err, WISP_EINVAL, "expected text, at most %d bytes a line",
                             LINE_ROOM - 1);
        line[n++] = (char)c;
    }
    line[n] = 0;
    *last = c == EOF;
    return WISP_OK;
}

wisp_status wisp_config_load(wisp_config *c, const char *path, wisp_error *err)
{
    FILE *f = fopen(path, "re");
    if (!f) return wisp_fail_errno(err, WISP_EIO, "%s: cannot be opened", path);
    char line[LINE_ROOM];
    wisp_status st = WISP_OK;
    bool last = false;
    for (size_t n = 1; st == WISP_OK && !last; n++) {
        wisp_error why = { 0 };
        st = read_line(line, &last, f, &why);
        if (st == WISP_OK && !ferror(f)) {
            bool bom = n == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0;
            st = set_line(c, line + (bom ? 3 : 0), &why);
        }
        if (st != WISP_OK) wisp_fail(err, st, "%s:%zu: %.400s", path, n, why.text);
    }
    if (st == WISP_OK && ferror(f)) st = wisp_fail_errno(err, WISP_EIO, "%s: cannot be read", path);
    fclose(f);
    return st;
}

wisp_status wisp_opt_list(double *out, size_t *n, size_t room, const wisp_config *c,
                          enum wisp_opt o, wisp_error *err)
{
    const char *s = wisp_opt_text(c, o);
    *n = 0;
    for (const char *p = s; *p;) {
        char *end;
        double v = strtod(p, &end);
        if (end == p || (*end && *end != ',') || !isfinite(v))
            return wisp_fail(err, WISP_EINVAL, "--%s: '%s' is not a list of numbers like 1,3,5",
                             table[o].key, s);
        if (*n == room)
            return wisp_fail(err, WISP_EINVAL, "--%s: '%s' has more than %zu numbers", table[o].key,
                             s, room);
        out[(*n)++] = v;
        p = *end ? end + 1 : end;
    }
    return WISP_OK;
}
