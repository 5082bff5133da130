/* wisp: neural networks that are mostly zeros.  The only public header.
 *
 * Everything that can fail returns a wisp_status and takes a wisp_error as its
 * last argument (it may be NULL).  Outputs come first.  Handles are opaque;
 * whoever creates one frees it; freeing NULL is fine.  The library never
 * prints, exits or reads the environment, except WISP_ISA when a context is
 * created, and in wisp_context_join what a launcher says there.  A handle may
 * be used by one thread at a time; a loaded wisp_model and an opened wisp_data
 * are read-only and may be shared between contexts.
 *
 * Files above 4 MiB are mapped.  So that one which is cut meanwhile is an error (WISP_EIO) and not
 * the end of the process, the library installs a handler of SIGBUS with the first such file; faults
 * elsewhere go on to the handler that was there before.  Numbers are read and written with a
 * decimal point, whatever setlocale was called with.
 *
 * The shortest useful program is docs/examples/tour.c. */
#ifndef WISP_H
#define WISP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WISP_VERSION "0.2.0"

#define WISP_VERSION_MAJOR 0
#define WISP_VERSION_MINOR 2
#define WISP_VERSION_PATCH 0
/* The number of the ABI, which the shared library carries in its name (libwisp.so.1).  A program
 * that was linked runs with every library of the same number: functions are added, and the structs
 * that only the library makes (wisp_option, wisp_progress, wisp_explanation) grow at their end;
 * whatever else changes raises the number.  tools/abi checks it. */
#define WISP_ABI 1

#if defined(__GNUC__)
#define WISP_API __attribute__((visibility("default")))
#else
#define WISP_API
#endif

typedef enum wisp_status {
    WISP_OK = 0,
    WISP_EINVAL = -1,   /* an argument or option out of range */
    WISP_ENOMEM = -2,   /* the machine, or the device, is full */
    WISP_EIO = -3,      /* a file could not be read or written */
    WISP_EFORMAT = -4,  /* data that breaks its format */
    WISP_ENOTSUP = -5,  /* this build or machine cannot do it */
    WISP_EMODEL = -6,   /* a model or training state that is damaged or does not fit */
    WISP_ENUMERIC = -7, /* NaN or infinity where a number must be */
    WISP_EPEER = -8,    /* another process of the job was lost */
    WISP_ESTOPPED = -9  /* stopped on request, after saving */
} wisp_status;

typedef struct wisp_error {
    wisp_status code;
    char text[500];   /* one line: where, what was found, what was expected */
    size_t line, row; /* of the file, of the data, from 1 (the text counts rows of arrays from 0);
                         0: not known, or it is about no line */
    /* How much of the text is the name of the file (0: it begins with none, or with a part of one),
     * and how much is all that says where ("file:line: ", "file: ", "row 3: ", "--option: "): the
     * message alone is text + place_bytes.  Control characters of a name are question marks. */
    unsigned short file_bytes, place_bytes;
} wisp_error;

typedef struct wisp_context wisp_context;     /* threads and the kernels of this machine */
typedef struct wisp_config wisp_config;       /* values of the options */
typedef struct wisp_data wisp_data;           /* sparse rows with labels, in CSR order */
typedef struct wisp_model wisp_model;         /* a network, mapped from its file */
typedef struct wisp_predictor wisp_predictor; /* a model with room to predict in */
typedef struct wisp_report wisp_report;       /* named results, in order */

WISP_API const char *wisp_version(void);

/* ---- context ---- */

/* 'threads' 0 takes one per core this process may use. */
WISP_API wisp_status wisp_context_create(wisp_context **out, int threads, wisp_error *err);
/* The same for a process that may be one of several which mpirun or srun has started together:
 * joins the others.  Then wisp_challenge divides its work among them; wisp_train does, and
 * wisp_eval and predictors with a model that wisp_model_share has dealt out: all processes call them
 * with the same arguments, rank 0 writes the files, and all get the same results and errors.  'threads' 0 divides the cores of the machine by the processes on it.
 * All processes call it, once, and wisp_context_free at the end.  Started alone, or with WISP_MPI=0
 * in the environment, it is wisp_context_create.  WISP_ENOTSUP: one of several, but this build or
 * its MPI cannot join them. */
WISP_API wisp_status wisp_context_join(wisp_context **out, int threads, wisp_error *err);
/* The number of this process among them, from 0: the one that speaks for all. */
WISP_API int wisp_context_rank(const wisp_context *ctx);
/* How many there are: 1 where it is alone. */
WISP_API int wisp_context_ranks(const wisp_context *ctx);
/* All processes of the context call it: they get WISP_OK if all of them have it, else the status and
 * the message of the first that has not.  Alone it returns 'st'. */
WISP_API wisp_status wisp_context_agree(wisp_context *ctx, wisp_status st, wisp_error *err);
WISP_API void wisp_context_free(wisp_context *ctx);
/* 'say' receives one line for things a person should know but that are no error
 * (a rebuilt cache, ignored features, the printed plan). */
WISP_API void wisp_context_on_notice(wisp_context *ctx, void (*say)(void *arg, const char *line),
                                     void *arg);

/* ---- tables: what this build knows ---- */

/* Row 'i' of a table: of "tables", which lists them all ("formats", "layers", ...), of one of those
 * (a card is a row of "devices" only where there is one), or of the arguments of a layer
 * ("layers/dense").  The strings live until the next call, those of "tables" for ever.
 * Returns 0 and leaves the outputs alone when there is no such row. */
WISP_API int wisp_table_row(const char *table, size_t i, const char **name, const char **what);

typedef struct wisp_option {
    const char *key; /* long flag without the dashes */
    const char *
        type; /* "int", "real", "size", "flag", "choice", "text", "list" (numbers, commas between), "file" (one that is read, or
                         a word of its range), "output" (one that is written), "folder", "port" (an int; on a command line its value may be left away, which is 0) */
    const char *fallback; /* default, as text */
    const char *range;    /* "1..1000", "adam|adagrad|sgd", "" */
    const char *commands; /* commands that take it: "train eval" */
    const char *help;
    const char *group;     /* title under which help lists it */
    const char *essential; /* commands whose short help shows it: "train" */
} wisp_option;
/* NULL past the end. */
WISP_API const wisp_option *wisp_option_row(size_t i);
/* The i-th option that 'command' takes, as it means it: type, range and help may differ from those
 * of the row that all commands share.  NULL past the end. */
WISP_API const wisp_option *wisp_option_of(const char *command, size_t i);
/* The option of 'command' (NULL: of any) that a misspelt key probably means ("epoch": epochs,
 * "learning_rate": lr), or NULL. */
WISP_API const wisp_option *wisp_option_like(const char *key, const char *command);
/* Which of n words a misspelt one probably means; -1: none. */
WISP_API int wisp_nearest(const char *word, const char *const *words, size_t n);

/* ---- options ---- */

WISP_API wisp_status wisp_config_create(wisp_config **out, wisp_error *err);
WISP_API void wisp_config_free(wisp_config *cfg);
/* Options are those of a command from here on, as wisp_option_of has them: "rows" of "synth" is a
 * number of rows, else what weights are kept in.  To be called before any is set; wisp_synth needs
 * it. */
WISP_API wisp_status wisp_config_command(wisp_config *cfg, const char *command, wisp_error *err);
WISP_API wisp_status wisp_config_set(wisp_config *cfg, const char *key, const char *value,
                                     wisp_error *err);
/* The value as text; the pointer lives until the next set of that key.  NULL: no such key. */
WISP_API const char *wisp_config_get(const wisp_config *cfg, const char *key);
/* Lines "key = value"; '#' starts a comment. */
WISP_API wisp_status wisp_config_load(wisp_config *cfg, const char *path, wisp_error *err);

/* ---- files ---- */

/* What a file is, by its bytes: "model", "safetensors" (weights from elsewhere), the name of a data
 * format ("xc"), or "" for none of them.
 * Of stdin ("-") and pipes, which can be read once only, it is "". */
WISP_API wisp_status wisp_file_kind(const char **kind, const char *path, wisp_error *err);
/* 1 where a line of the format is a row, so that wisp_data_parse can be handed some lines at a time
 * ("auto", and what is no format, too); 0 for tables and archives, which are read as a whole. */
WISP_API int wisp_format_by_lines(const char *format);

/* Removes what is half written (temporaries of models, caches, converted data), for a handler of a
 * signal that ends the process: it may be called from one, and nothing else may follow. */
WISP_API void wisp_abandon(void);

/* ---- data ---- */

typedef struct wisp_data_stats {
    size_t n_rows, n_features, n_labels;
    size_t n_values;       /* non-zeros of all rows */
    size_t n_label_values; /* labels of all rows */
    size_t n_unlabelled;   /* rows without a label */
    size_t source_bytes;   /* text or archive read, before unpacking; 0 when it came from a cache */
    size_t bytes;          /* of the binary rows; of a view: what it does not borrow */
    size_t n_unknown_values; /* features of all rows that the model does not know: left out */
    size_t n_unknown_labels; /* labels likewise: they count as misses */
} wisp_data_stats;

/* Opens 'path' in the format that the options name (or that its bytes show).
 * Text of 1 MiB and more is parsed once into a binary file; see docs/data.md.
 * With a model, words and label names are looked up in it and its numbers of
 * features and labels are used.  Without one, but with option "init" set, ids
 * are those of the model that it names, and further ones (docs/continue.md).
 * "-" is stdin: it, and what a pipe's name leads to, is text that is copied to
 * a temporary without a name first.  On failure *out is NULL and err->text is "path:line: what is
 * wrong", err->line that line. */
WISP_API wisp_status wisp_data_open(wisp_data **out, wisp_context *ctx, const char *path,
                                    const wisp_config *cfg, const wisp_model *model,
                                    wisp_error *err);
/* The same for rows that go with 'like' (validation rows): words and label names get its ids. */
WISP_API wisp_status wisp_data_open_like(wisp_data **out, wisp_context *ctx, const char *path,
                                         const wisp_config *cfg, const wisp_data *like,
                                         wisp_error *err);
/* Whole lines of text that arrive through a descriptor, plain, gzip or zstd (told by the first
 * bytes), as soon as they are there: to be handed to wisp_data_parse and answered.  'next' waits
 * for at least one; bytes 0: the end.  The last line may lack its end.  line: the number of the
 * first one, from 1.  The text lives until the next call.  'name' stands in messages. */
typedef struct wisp_lines wisp_lines;
WISP_API wisp_status wisp_lines_open(wisp_lines **out, int fd, const char *name, wisp_error *err);
WISP_API wisp_status wisp_lines_next(wisp_lines *l, const char **text, size_t *bytes, size_t *line,
                                     wisp_error *err);
WISP_API void wisp_lines_free(wisp_lines *l); /* NULL is fine; the descriptor stays open */
/* The same for text in memory, without header line and cache, in the format that the options name,
 * else in the one that the model was trained on.  'name' stands in messages. */
WISP_API wisp_status wisp_data_parse(wisp_data **out, wisp_context *ctx, const char *text,
                                     size_t bytes, const char *name, const wisp_config *cfg,
                                     const wisp_model *model, wisp_error *err);
/* Rows of text that a program holds: row i is the bytes text[start[i] .. start[i+1]-1], start has
 * n_rows + 1 offsets; y_ptr and y_idx as below, y_ptr NULL: no labels.  With a model, words are
 * looked up in it, cut as it was trained; without one they get numbers of their own, by the options
 * "tokens", "pairs", "chars", "min-count" and "stop-words", or, with option "init" set, those of
 * the model that it names, and further ones. */
WISP_API wisp_status wisp_data_from_text(wisp_data **out, wisp_context *ctx, size_t n_rows,
                                         const char *text, const uint64_t *start, size_t n_labels,
                                         const int64_t *y_ptr, const int32_t *y_idx,
                                         const wisp_config *cfg, const wisp_model *model,
                                         wisp_error *err);
/* The same for rows that go with 'like', which is text (validation rows): words get its ids. */
WISP_API wisp_status wisp_data_from_text_like(wisp_data **out, wisp_context *ctx, size_t n_rows,
                                              const char *text, const uint64_t *start,
                                              size_t n_labels, const int64_t *y_ptr,
                                              const int32_t *y_idx, const wisp_config *cfg,
                                              const wisp_data *like, wisp_error *err);
/* Copies rows in CSR order; y_ptr may be NULL (no labels).  Ids are checked. */
WISP_API wisp_status wisp_data_from_csr(wisp_data **out, size_t n_rows, size_t n_features,
                                        size_t n_labels, const int64_t *x_ptr, const int32_t *x_idx,
                                        const float *x_val, const int64_t *y_ptr,
                                        const int32_t *y_idx, wisp_error *err);
/* The same without a copy: offsets, ids and values are of 32 bits (int32_t, float), or of 64
 * (int64_t, double) where 'types' says so.  Ids and values are BORROWED: they must stay as they are
 * until wisp_data_free; offsets and labels are copied.  WISP_EFORMAT where a row's ids do not
 * ascend, or repeat, or a value is 0: the caller tidies the rows (scipy: sum_duplicates,
 * eliminate_zeros) or has them copied.  64-bit ids and values cannot be trained on a card. */
enum { WISP_CSR_PTR64 = 1, WISP_CSR_IDS64 = 2, WISP_CSR_VALUES64 = 4 };
WISP_API wisp_status wisp_data_view_csr(wisp_data **out, size_t n_rows, size_t n_features,
                                        size_t n_labels, const void *x_ptr, const void *x_idx,
                                        const void *x_val, unsigned types, const int64_t *y_ptr,
                                        const int32_t *y_idx, wisp_error *err);
/* Images: values (n_rows, channels, height, width), copied; of uint8_t, whose value is byte / 255, or
 * with 'floats' of float, as they are.  Labels as above. */
WISP_API wisp_status wisp_data_from_images(wisp_data **out, size_t n_rows, size_t channels,
                                           size_t height, size_t width, const void *values,
                                           int floats, size_t n_labels, const int64_t *y_ptr,
                                           const int32_t *y_idx, wisp_error *err);
/* The pixels of a JPEG or PNG file that is in memory, as wisp_data_from_images takes them: out
 * (channels, height, width), fitted to that size as pictures of folders are.  WISP_EFORMAT: it is no
 * such file, or damaged; WISP_ENOTSUP: libturbojpeg or libpng is not there. */
WISP_API wisp_status wisp_picture_pixels(uint8_t *out, size_t channels, size_t height, size_t width,
                                         const void *file, size_t bytes, wisp_error *err);
/* What each row counts for in training: weights (n_rows), finite and not negative, copied; NULL:
 * all the same.  The run scales them so that their mean is 1.  A row of weight 0 is neither trained
 * on nor held out; of validation rows all count the same.  'd' must not be in use elsewhere. */
WISP_API wisp_status wisp_data_set_weights(wisp_data *d, const float *weights, wisp_error *err);
WISP_API void wisp_data_stats_get(const wisp_data *d, wisp_data_stats *out);
/* Writes 'd' in the named format (NULL: the one that the path's ending names: .txt or
 * .xc, .svm or .libsvm, .npz). */
WISP_API wisp_status wisp_data_write(const wisp_data *d, wisp_context *ctx, const char *path,
                                     const char *format, wisp_error *err);
/* Writes the names that text gave the ids ("labels" or "features"), one per line, line i names id
 * i: what options "labels" and "vocab" read.  *n: how many; 0: the rows have none, and no file is
 * made. */
WISP_API wisp_status wisp_data_write_names(size_t *n, const wisp_data *d, const char *which,
                                           const char *path, wisp_error *err);
/* Label ids of d are the caller's own, and the names in option "labels" are what everybody else knows: a
 * text, or a file of numbers, that goes with a model of these rows says names, "10" the label that is
 * called so.  Without this it says ids. */
WISP_API void wisp_data_labels_by_name(wisp_data *d);
WISP_API void wisp_data_free(wisp_data *d);

/* Synthetic rows in XC text: PREFIX_train.txt and PREFIX_test.txt (options rows, features,
 * labels, test-rows, row-features, row-labels, seed).  The generator is in docs/data.md. */
WISP_API wisp_status wisp_synth(wisp_context *ctx, const char *prefix, const wisp_config *cfg,
                                wisp_error *err);

/* ---- training ---- */

typedef struct wisp_progress {
    int epoch, epochs;        /* from 1 */
    size_t rows_done, n_rows; /* in this epoch */
    double loss;              /* mean since the epoch began */
    double rows_per_s;        /* since the run (or its resume) began */
    double eta_s;             /* to the end of the last planned epoch, or of the time */
    size_t rows_trained;      /* since the run (or its resume) began */
    double train_s;           /* spent on them: validation and measuring recall left out */
    double active, scored;    /* output rows computed a step, and looked at for a row, so far */
    double recall;            /* of the exact 20 best wrong labels, found for a row; 0..1 */
    int epoch_ended;          /* 1: the fields below are there, and 'json' for a log */
    double valid;             /* P@1 on the validation rows, percent; -1 without such rows */
    int best;                 /* this epoch's model is the one on disk */
    const char *json;         /* docs/training.md says what is in it */
    int sampled; /* 1: steps compute some of the output rows; 0: all, so active, scored and recall
                    say nothing */
    const char *run; /* what the run is, an object of JSON on one line: data, net, choices, machine,
                        options that are not at their defaults */
} wisp_progress;

/* Called after the first batch, then between batches a few times a second; not 0 asks to stop
 * after saving. */
typedef int (*wisp_on_progress)(void *arg, const wisp_progress *p);

/* Trains on 'train' and leaves the best model at 'path', with checkpoints beside it (PATH.state and
 * PATH.state.1, the one before) while the run is not finished: docs/reliability.md.  'valid' may be
 * NULL: rows are then held out.  One run at a time may write a path: a second one is refused with
 * WISP_EIO (PATH.lock beside it while the run lasts).  Option "init" names a model to go on from:
 * 'train' may have further features and labels, ids below the model's numbers of them mean the
 * model's. */
WISP_API wisp_status wisp_train(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                                const wisp_data *train, const wisp_data *valid, const char *path,
                                wisp_on_progress on_progress, void *arg, wisp_error *err);
/* The same by option "net" = "auto": a linear model and nets of several widths, rates and dropouts are tried,
 * within option "budget" or by option "effort" (here "high" unless it is given), and what is best on
 * held-out rows, or several of them as one joint model, is saved at 'path'.  All that was tried is in the file
 * that option "tried" names, PATH.tried where it is empty: a line of JSON each.  Option "resume" goes on
 * after a stop and repeats the choices in that list. */
WISP_API wisp_status wisp_tune(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                               const wisp_data *train, const wisp_data *valid, const char *path,
                               wisp_on_progress on_progress, void *arg, wisp_error *err);
/* Trains the net that the options say, and then smaller ones, each from the one before: channels are
 * taken out as long as validation P@1 drops by no more than option "target-accuracy-drop", or until it
 * is "target-speedup" times as fast.  The smallest that is good enough is saved at 'path'; PATH.0,
 * PATH.1 ... are there meanwhile.  The report has "weights_ratio", "accuracy_drop", "time_ratio" (of 256
 * rows per call), "flops_ratio" and "frontier", all that were tried; option "plot" names the SVG file
 * that shows them, PATH.svg where it is empty. */
WISP_API wisp_status wisp_prune(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                                const wisp_data *train, const wisp_data *valid, const char *path,
                                wisp_on_progress on_progress, void *arg, wisp_error *err);

/* Writes one file of HTML that needs nothing else, of the runs in these logs ('wisp train --log'), side
 * by side: docs/report.md.  What logs lack is said on the page, and as notices of ctx (may be NULL).
 * WISP_EFORMAT: a file without a single epoch. */
WISP_API wisp_status wisp_log_report(wisp_context *ctx, const char *path, const char *const *logs,
                                     size_t n_logs, wisp_error *err);

/* Trains on synthetic rows of option "shape" and keeps nothing on disk, for "seconds" of training
 * or "epochs", whichever ends first (30 seconds where neither is set); options whose row names
 * "bench" count, hidden is 128 and batch 256 by default.  The report holds shape, device, threads,
 * batch, hidden, samples_per_s (all steps but the first, which builds what the others keep up),
 * us_per_step, active_mean, scored_mean, retrieval_recall, heldout_p@1 (exact, of the last model,
 * percent; -1 without test rows), epochs, train_seconds, peak_bytes and more.  The data does not
 * depend on option "seed". */
WISP_API wisp_status wisp_bench_train(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                                      wisp_on_progress on_progress, void *arg, wisp_error *err);

/* Trains a net of images (option "net") on those of 'path', or where it is NULL on images of random
 * bytes, and times each step, for "seconds" of training (5 by default) but three steps at least; the
 * first one does not count.  Option "batch"; of random ones "shape", CHANNELSxHEIGHTxWIDTHxLABELS, by
 * default that of the net, where wisp brings it along.
 * The report holds net, shape, device, precision, threads, batch, steps, ms_median, ms_min, ms_mean,
 * images_per_s (by the median), gflops, plan_bytes (weights, optimizer, step), step_bytes, bound_bytes (the most
 * of these needed at one moment), peak_bytes and grown_bytes (of the process, since the images were
 * made); on the CPU also layout_ms (waiting for images) and, for every kind of layer, KIND_forward_ms and
 * KIND_back_ms (with the update), and "layers", a list of all with the same; convolutions have "zeros" and "skipped" there, of
 * forward, data and weights the share of zeros and of the steps that skipped them (option "zeros").  On a card the steps of an
 * epoch run without a pause and count with their mean, and there are gpu_plan_bytes, gpu_bytes (taken of the
 * card), gpu_image_bytes (of both: the images, as bytes), gpu_library_bytes (of the plan: about what libraries
 * load), gpu_work_bytes and gpu_bound_bytes. */
WISP_API wisp_status wisp_bench_steps(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                                      const char *path, wisp_on_progress on_progress, void *arg,
                                      wisp_error *err);

/* Trains a net of images as wisp_bench_steps does, but at the usual learning rate where 'path' is not NULL, and
 * looks at every 8th step that counts: how many numbers of each value and of its gradient are 0, how many
 * slices of 16 channels are not all zeros, and which layers and passes the time goes to.
 * The report holds net, shape, device, threads, batch, steps, looked, ms_median, "zeros" (the moving averages at
 * the end, as in training), and on the CPU "layers": of every layer name, kind ("conv+relu" where both are done at
 * once), zeros, live (shares of the slices of 1 x 1, 4 x 4, 8 x 8 pixels that are not all zeros),
 * gradient_zeros, gradient_live, forward_ms, data_ms, and weights_ms (with the update; of layers without weights the way back is
 * in data_ms).  -1: there is no such number. */
WISP_API wisp_status wisp_bench_activations(wisp_report **out, wisp_context *ctx,
                                            const wisp_config *cfg, const char *path,
                                            wisp_on_progress on_progress, void *arg,
                                            wisp_error *err);

/* Measures how fast images get to a net: read from 'path' (again and again for "seconds", 2 by default; the
 * first time makes the copy for fast reading, unless it is there, and is told apart), then laid out in batches of "batch" (256), moved and
 * mirrored as "net" says (by default pad=4 flip=yes).  The report holds data, image, images, threads,
 * batch, read_images_per_s, first_read_images_per_s, laid_images_per_s. */
WISP_API wisp_status wisp_bench_input(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                                      const char *path, wisp_error *err);

/* Measures prediction: with a model and rows (paths), or, where both are NULL, with a model trained
 * on synthetic rows of option "shape" ("epochs" of them, 1 by default; otherwise as in
 * wisp_bench_train) and its held-out rows.  Every way is measured for "seconds" (2 by default), but
 * over all rows at least once where that gives a P@1.
 *   sparse_us_median, _p90, _p99   one row per call, one thread, whatever the context has
 *   exact_us_median, _p90, _p99    the same, all labels scored
 *   sparse_p@1, exact_p@1, ratio   of the same rows, percent; sparse / exact
 *   scored_mean                    labels scored for a row
 *   batch_rows_per_s               exact, batches of batch_rows rows (of a model: option "batch", else
 *                                  256), all threads; batch_us_median: of such a call
 *   batch_gflops, peak_gflops      of the output layer's product; of a product in the caches
 *   batch_gb_per_s, copy_gb_per_s  of the output layer's weights read; read and written by a copy
 * and shape or model, rows, labels, hidden (width below the output layer), threads, train_seconds,
 * data_seconds.  Without an index (a model of few labels) there are no figures of sparse
 * prediction: neither sparse_*, ratio nor scored_mean. */
WISP_API wisp_status wisp_bench_predict(wisp_report **out, wisp_context *ctx,
                                        const wisp_config *cfg, const char *model, const char *rows,
                                        wisp_on_progress on_progress, void *arg, wisp_error *err);

/* ---- deep sparse networks ---- */

/* Runs a network of the Sparse DNN Graph Challenge: options "neurons", "layers", "mode" (raw,
 * exact, merged), "data" (a folder: the official files, or with "generate" MNIST's training
 * images), "topology", "device", "memory", "seed".  categories (NULL: none): a file that receives
 * the rows that end non-zero, from 1, one per line.  The report holds neurons, layers, mode,
 * device, seconds (of the inference alone), edges_per_s (of the whole network, times inputs:
 * *effective* in modes that skip some), categories, truth ("match", "mismatch" or "unknown":
 * against the official list where there is one in the folder, else against the official count),
 * analysis_seconds, and more: read_seconds, upload_seconds, inputs, edges, live_layers (inputs
 * times layers computed, over inputs), merged_width, merged_edges, zero_from, full_from, ranks,
 * threads (of a rank), kernel, peak_bytes (of the largest rank).
 * With a context of several processes (wisp_context_join) all call it with the same options; each
 * runs its share of the inputs.  seconds is from when the first one begins to when the last one
 * ends.  Rank 0 judges, writes and gets the report; at the others *out is NULL.  An error of one is
 * returned at all. */
WISP_API wisp_status wisp_challenge(wisp_report **out, wisp_context *ctx, const wisp_config *cfg,
                                    const char *categories, wisp_error *err);

typedef struct wisp_sparse wisp_sparse; /* a deep network of few, fixed connections */

/* Layers y = min(clip, max(0, W x + biases)), of any widths; clip 0: no upper bound. */
WISP_API wisp_status wisp_sparse_create(wisp_sparse **out, double clip, wisp_error *err);
WISP_API void wisp_sparse_free(wisp_sparse *net); /* NULL is fine */
/* One more layer, copied.  W by output (CSR): inputs of output o are in[start[o] .. start[o+1]-1],
 * ascending, with their weights beside them.  biases (n_out), NULL: 0.  linear: y = W x + biases,
 * as the last layer of a classifier has it. */
WISP_API wisp_status wisp_sparse_add(wisp_sparse *net, uint32_t n_in, uint32_t n_out,
                                     const uint64_t *start, const uint32_t *in,
                                     const float *weights, const float *biases, int linear,
                                     wisp_error *err);
/* The same from a MatrixMarket file (coordinate; real, integer or pattern, which is weights of 1;
 * general): a row of the matrix is an output.  All biases are 'bias'. */
WISP_API wisp_status wisp_sparse_add_file(wisp_sparse *net, const char *path, double bias,
                                          int linear, wisp_error *err);
WISP_API wisp_status wisp_sparse_save(const wisp_sparse *net, const char *path, wisp_error *err);
/* What wisp_sparse_save wrote, or a model, trained with values 'raw', that is a chain of layers
 * input, dense, sampled, sparse, bn, relu, clip, dropout, identity and flatten: its outputs are the
 * logits of the labels.  WISP_ENOTSUP names the layer that has no form here. */
WISP_API wisp_status wisp_sparse_load(wisp_sparse **out, wisp_context *ctx, const char *path,
                                      wisp_error *err);
/* Runs n inputs (CSR: row i has values value[start[i] ..] at places id[start[i] ..], no place
 * twice) through all layers; options "mode", "device" and "memory" as for wisp_challenge.  values
 * (n, outputs): the last layer's, NULL: not wanted; ends (n): 1 where they are not all zero. report
 * (NULL: none): seconds (of the inference alone), analysis_seconds, upload_seconds, edges,
 * live_layers, merged_width, merged_edges, kernel.  What "merged" found is kept for the next call,
 * so one thread at a time may run a net. */
WISP_API wisp_status wisp_sparse_run(float *values, uint8_t *ends, wisp_report **report,
                                     wisp_context *ctx, wisp_sparse *net, size_t n,
                                     const uint64_t *start, const uint32_t *id, const float *value,
                                     const wisp_config *cfg, wisp_error *err);

/* ---- graphs ---- */

/* What is in a file of a graph (docs/graphs.md): nodes, inputs, outputs, edges, levels, widest and
 * thinnest (nodes of a level), longest_path (in edges), idle (nodes that no output depends on), "widths"
 * of all levels and "functions", how many nodes have each.  Option "function". */
WISP_API wisp_status wisp_graph_info(wisp_report **out, const char *path, const wisp_config *cfg,
                                     wisp_error *err);
/* Is handed the values of the outputs, in the order of the file, row by row (from 0). */
typedef void (*wisp_on_values)(void *arg, size_t row, const char *const *names, const float *values,
                               size_t n);
/* Runs all rows through the graph: feature i is the value of input i.  WISP_EINVAL where rows have
 * more features than it has inputs, WISP_ENUMERIC where a value is infinite or no number.  The report
 * has rows, outputs, nodes, edges, levels, threads and seconds. */
WISP_API wisp_status wisp_graph_run(wisp_report **out, wisp_context *ctx, const char *path,
                                    const wisp_data *rows, const wisp_config *cfg,
                                    wisp_on_values on_values, void *arg, wisp_error *err);

/* ---- models ---- */

WISP_API wisp_status wisp_model_load(wisp_model **out, const char *path, wisp_error *err);
/* The same of the n bytes of a model file, from wherever they came.  They are copied: the caller
 * may free them at once. */
WISP_API wisp_status wisp_model_load_memory(wisp_model **out, const void *bytes, size_t n,
                                            wisp_error *err);
/* Of several processes (wisp_context_join), which all have loaded the same model, each keeps its share
 * of the rows in memory.  Alone nothing happens. */
WISP_API wisp_status wisp_model_share(wisp_model *m, wisp_context *ctx, wisp_error *err);
WISP_API void wisp_model_free(wisp_model *m);
WISP_API size_t wisp_model_n_labels(const wisp_model *m);
WISP_API size_t wisp_model_n_features(const wisp_model *m);
/* The label's name ('*bytes' long, not ended by a zero), or NULL where the model has no names. */
WISP_API const char *wisp_model_label_name(const wisp_model *m, int32_t label, size_t *bytes);
/* The same of a feature: its word, or its line of option "vocab". */
WISP_API const char *wisp_model_feature_name(const wisp_model *m, int32_t feature, size_t *bytes);
/* A feature's id as files of the model's data have it: from 1 where these count from 1 (LibSVM). */
WISP_API int64_t wisp_model_feature_id(const wisp_model *m, int32_t feature);
/* The other way round: the id of a word ('bytes' long, as it stands in the vocabulary), or of a
 * label's name; -1: the model does not know it, or has no names. */
WISP_API int32_t wisp_model_feature(const wisp_model *m, const char *word, size_t bytes);
WISP_API int32_t wisp_model_label(const wisp_model *m, const char *name, size_t bytes);
/* JSON: architecture, options, tensors, sizes.  Lives as long as the model. */
WISP_API const char *wisp_model_describe(const wisp_model *m);
/* What memory the model takes with the context's threads, as JSON (wisp_report_json): objects
 * "prediction" and "training", with bytes of weights, of the optimizer, of the block that a step
 * works in ("arena_bytes"; "bound_bytes": the most that is needed at one moment), and its parts, the
 * largest first, with the layer and from which moment to which they are needed (docs/models.md).
 * Training is as the model's run did it; option "batch" (0: that of the run) changes its batch. */
WISP_API wisp_status wisp_model_plan(wisp_report **out, wisp_context *ctx, const wisp_model *m,
                                     const wisp_config *cfg, wisp_error *err);

/* Writes the model to 'path' with smaller weights, to predict with: type "bf16" (half the bytes) or
 * "int8" (a quarter; one scale per row), "c64" or "c16" (three sixteenths, an eighth: 64 or 16 values
 * that all rows of a layer share, and one scale per row).  The weights of the input and of the output layer become
 * narrow, all else stays.  WISP_EINVAL where the model's weights are as narrow already,
 * WISP_ENUMERIC where one of them cannot be held (NaN, infinity). */
WISP_API wisp_status wisp_model_quantize(const wisp_model *m, const char *path, const char *type,
                                         wisp_error *err);

/* Bit errors: the model as memory gives it back that gets some bits wrong (docs/inject.md).  Options
 * "rate", "what", "type", "layer", "map", "guard", "seed", "draws", and one of these forms:
 *   path, data NULL       the model with errors in its weights is written to 'path'
 *   data                  P@1 of its rows with errors at the rate, over the draws; written, too, where
 *                         'path' is not NULL
 *   data, "sweep"         P@1 against "rates", of all tensors together and of each alone
 *   data, "target-accuracy-drop" given   the highest rate that each tensor bears with all others at
 *                         theirs, and the partition of "partitions" that it may lie in; test (may be
 *                         NULL): rows to measure the result on
 * The report has what the command prints as JSON.  on_line (may be NULL) receives the lines of a table
 * for a person, as they are known.  WISP_ENUMERIC: 'path' would have numbers that are none. */
typedef void (*wisp_on_line)(void *arg, const char *line);
WISP_API wisp_status wisp_inject(wisp_report **out, wisp_context *ctx, const wisp_model *m,
                                 const wisp_data *data, const wisp_data *test,
                                 const wisp_config *cfg, const char *path, wisp_on_line on_line,
                                 void *arg, wisp_error *err);

/* Writes the weights of a net of images as a plain safetensors file with PyTorch's names, for
 * load_state_dict; mean and deviation of images, net and loss are metadata.  WISP_ENOTSUP: a net that
 * has no such form. */
WISP_API wisp_status wisp_model_export(const wisp_model *m, const char *path, wisp_error *err);
/* Makes a model, written to 'path', of the plain safetensors file 'weights' with PyTorch's names.
 * Options "net", "image" (CHANNELSxHEIGHTxWIDTH), "loss", "mean", "std", where empty or auto, are what
 * the file's metadata say; "labels" is a file of names.  The report: path, labels, parameters, image,
 * and whose means of images it has.  WISP_EMODEL names the tensor that is missing, too
 * many or of another shape. */
WISP_API wisp_status wisp_model_import(wisp_report **out, wisp_context *ctx, const char *weights,
                                       const wisp_config *cfg, const char *path, wisp_error *err);

/* The highest cut-off, and the most labels per row that 'wisp predict' gives. */
#define WISP_MOST_K 10000

/* Metrics at the cut-offs of option "k": p@k, r@k, ndcg@k, psp@k (percent), p@k by
 * label frequency, rows, rows_unlabelled, seconds, weight_bytes (as the model keeps them).
 * Of the labels with a score of 1/2 or more, among the best 64 of a row: micro_precision, micro_recall,
 * micro_f1, macro_precision, macro_recall, macro_f1 (percent; docs/prediction.md), macro_labels; the
 * same with "_model" behind it at the model's thresholds where it has some; rows_cut, rows with more
 * such labels.  Of the scores of the best k labels, k the largest cut-off: ece (expected calibration
 * error), calibrated (1; 0: the scores are raw), and of the raw scores ece_raw and micro_precision_raw
 * to micro_f1_raw.  Option "per-label": a file that gets a line for each label.  With option
 * "inference" = "sparse" all these are of sparse prediction; beside them exact_p@k, recall@k (share
 * of the exact best k that were found), scored_mean (rows scored for a sample) and exact_seconds.
 * Option "device" = "cuda": on a card. */
WISP_API wisp_status wisp_eval(wisp_report **out, wisp_context *ctx, const wisp_model *m,
                               const wisp_data *d, const wisp_config *cfg, wisp_error *err);
/* Chooses thresholds for labels on the rows of d, which should be none that the model was trained on, and
 * writes the model with them to 'path' (docs/prediction.md).  Options: "for" is what they are chosen
 * for, "f1", "precision=0.9", "recall=0.8" or "cost=FP:FN"; "per" is "label" or "one", for all
 * labels.  The report has micro_precision, micro_recall, micro_f1, macro_precision, macro_recall and
 * macro_f1 (percent), each row decided by thresholds of the half of the rows that it is not in;
 * the same behind "same_rows_" by the thresholds of the model, which were fitted on these rows, and
 * behind "half_" at 1/2; with a cost also "cost" per row.  threshold_least, _median and _most;
 * labels_never: how many labels will never be given. */
WISP_API wisp_status wisp_threshold(wisp_report **out, wisp_context *ctx, const wisp_model *m,
                                    const wisp_data *d, const wisp_config *cfg, const char *path,
                                    wisp_error *err);
/* The label's threshold: it applies where its score, as a predictor with default options gives it, is this
 * or more; above 1: never.  0: the model has no thresholds. */
WISP_API float wisp_model_threshold(const wisp_model *m, int32_t label);
/* The k best labels of rows first .. first+n-1, best first, ties by smaller id.
 * labels and scores are (n, k); missing places (k > labels) hold -1.  As a predictor
 * without options does it: exact, on the CPU, and scores are probabilities. */
WISP_API wisp_status wisp_predict(int32_t *labels, float *scores, wisp_context *ctx,
                                  const wisp_model *m, const wisp_data *d, size_t first, size_t n,
                                  size_t k, wisp_error *err);

/* The same again and again: a predictor is made once and holds all that calls need, so that a call
 * only computes.  It starts no thread, and allocates nothing unless the rows of a batch (256 of
 * them, or fewer) have more than 65,536 features or 16,384 labels together and more than any batch
 * before.  One row is predicted by the calling thread alone; larger n is cut into batches, which
 * all threads of the context work on.  Context and model are borrowed until the predictor is freed;
 * the options are read when it is made.  Several predictors (of contexts of their own) may share a
 * model, each with settings of its own.  The answers are those of wisp_predict, to the last bit for
 * any number of threads and of rows from two on; a call for one row computes it by itself, which is
 * faster and rounds otherwise (some 1e-6 of a score).  Options (NULL: all at their defaults):
 *   "inference"  how the best labels are found: "exact" (all are scored; the default) or "sparse"
 *                (those that the model's index names, or in a joint model its linear
 *                member; WISP_ENOTSUP where it has neither)
 *   "scores"     what scores are: "calibrated" (the default), probabilities that a label applies,
 *                fitted on the validation rows of the training run; or "raw", the loss's own, the
 *                softmax's share or the sigmoid of each label alone.  The order is the same
 *   "device"     where: on the "cpu" (the default), or on a card, "cuda": exact prediction of up to
 *                64 labels per row, the same answers up to rounding.  WISP_ENOTSUP says why not: no
 *                card, a net that cards have no form for, weights of int8
 *   "zeros"      products with zeros that layers on the CPU leave out: "auto" (the default) where
 *                that is faster, of convolutions in calls for one row alone, "off" none, "force"
 *                all they can; the same answers up to rounding */
WISP_API wisp_status wisp_predictor_create(wisp_predictor **out, wisp_context *ctx,
                                           const wisp_model *m, const wisp_config *cfg, size_t k,
                                           wisp_error *err);
/* Could one be made?  Has the model the index, is there the card that these options ask for?  For
 * those who want to know before they read their rows: nothing is allocated. */
WISP_API wisp_status wisp_predictor_check(const wisp_model *m, const wisp_config *cfg,
                                          wisp_error *err);
/* 1 where its scores are calibrated; 0 where they are raw: asked for, or the model has no
 * calibration (it had no validation rows, or too few to do better than raw). */
WISP_API int wisp_predictor_calibrated(const wisp_predictor *p);
WISP_API wisp_status wisp_predictor_run(int32_t *labels, float *scores, wisp_predictor *p,
                                        const wisp_data *d, size_t first, size_t n,
                                        wisp_error *err);
/* The same for rows that the caller has in CSR order, as wisp_data_view_csr takes them, for the
 * time of the call: a wisp_data of one row costs more than its prediction.  What that refuses is
 * refused here, where the batch comes to it: answers before it may have been written. */
WISP_API wisp_status wisp_predictor_run_csr(int32_t *labels, float *scores, wisp_predictor *p,
                                            size_t n_rows, size_t n_features, const void *x_ptr,
                                            const void *x_idx, const void *x_val, unsigned types,
                                            wisp_error *err);
WISP_API void wisp_predictor_free(wisp_predictor *p);

/* Which features made a label's score (docs/explain.md).  What is taken apart is the label's logit,
 * the number that the loss turns into the raw score: a feature's part is its value times the
 * derivative of the logit by it, so that
 *     logit = sum of all parts + bias + remainder
 * where 'bias' is what all biases of the net add in the same way.  The remainder is rounding in nets
 * of matrices, convolutions, pools, norms and ReLUs; whatever else a net has leaves more there. */
typedef struct wisp_reason {
    int32_t feature; /* id; of an image (channel * height + y) * width + x */
    float value;     /* as the model sees it: weighted, scaled, standardised */
    double part;
} wisp_reason;
typedef struct wisp_explanation {
    int32_t label;
    float score; /* as the predictor gives it, also of labels that are not among the best */
    double logit, bias, remainder;
    size_t n; /* features of the row that the model knows, or all pixels of an image */
    const wisp_reason *reasons;     /* (n) by size without the sign, the largest first */
    size_t channels, height, width; /* of images, else 0 */
} wisp_explanation;
/* Explains 'label' (-1: the best one) for a row, on the CPU by the calling thread.  *out belongs to
 * the predictor and lives until its next explanation, or until it is freed.  The first call makes
 * room, which takes about as much memory as one row of a training step.  WISP_EINVAL: there is no
 * such row or label; WISP_ENOTSUP: the model has a layer that cannot be explained, or a card has
 * the weights; WISP_ENUMERIC: a part that overflows, or a score. */
WISP_API wisp_status wisp_explain(const wisp_explanation **out, wisp_predictor *p,
                                  const wisp_data *d, size_t row, int32_t label, wisp_error *err);

/* ---- reports ---- */

WISP_API int wisp_report_get(const wisp_report *r, const char *key, double *value); /* 1 if there */
WISP_API const char *wisp_report_json(const wisp_report *r); /* one line; lives with r */
WISP_API void wisp_report_free(wisp_report *r);

#ifdef __cplusplus
}
#endif
#endif
