/* The option table and the values a run was given.
 *
 * To add an option: one enum value here, one row in options.c.  The command line, config
 * files, 'wisp help', docs and the model's metadata all read the table. */
#ifndef WISP_CONFIG_OPTIONS_H
#define WISP_CONFIG_OPTIONS_H

#include "base/error.h"

#include <stdbool.h>

enum wisp_opt {
    /* the network */
    OPT_NET,
    OPT_HIDDEN,
    OPT_DROPOUT,
    OPT_INPUT_DROPOUT,
    OPT_LOSS,
    OPT_COST,
    OPT_DROP_BELOW,
    OPT_NEGATIVES,
    OPT_REFIT,
    /* training */
    OPT_EPOCHS,
    OPT_SECONDS,
    OPT_BATCH,
    OPT_LR,
    OPT_OPTIMIZER,
    OPT_MOMENTS,
    OPT_PRECISION,
    OPT_ZEROS,
    OPT_MORE_ZEROS,
    OPT_MOMENTUM,
    OPT_WEIGHT_DECAY,
    OPT_SMOOTHING,
    OPT_GROUP_PENALTY,
    OPT_PENALTY_EPOCHS,
    OPT_TARGET_DROP,
    OPT_TARGET_SPEEDUP,
    OPT_PLOT,
    OPT_WARMUP,
    OPT_DECAY,
    OPT_AVERAGE,
    /* which rows a step computes */
    OPT_SAMPLING,
    OPT_KEEP,
    OPT_RANDOM,
    OPT_FREQUENT,
    OPT_CARRY,
    OPT_ACTIVE_MIN,
    OPT_ACTIVE_MAX,
    OPT_ACTIVE_PER,
    OPT_HOGWILD,
    OPT_HIDDEN_SAMPLING,
    OPT_CORRECT,
    OPT_RESCORE,
    OPT_HASH,
    OPT_BITS,
    OPT_TABLES,
    OPT_BUCKET,
    OPT_REPLACE,
    OPT_STRATEGY,
    OPT_VOTES,
    OPT_TRANSFORM,
    OPT_REBUILD,
    OPT_REDRAW,
    OPT_LISTS,
    OPT_PROBES,
    OPT_INDEX,
    /* training, continued */
    OPT_SEED,
    OPT_VALID,
    OPT_HOLDOUT,
    OPT_PATIENCE,
    OPT_WEIGHTS,
    OPT_CLASS_WEIGHT,
    OPT_INIT,
    OPT_OLD_PACE,
    OPT_KEEP_STATE,
    OPT_RESUME,
    OPT_CHECKPOINT_STEPS,
    OPT_CHECKPOINT_MINUTES,
    OPT_DEADLINE,
    OPT_DIVIDE,
    OPT_EXCHANGE,
    OPT_LOG,
    OPT_NOTE,
    /* data */
    OPT_FORMAT,
    OPT_VALUES,
    OPT_INDEX_BASE,
    OPT_NO_HEADER,
    OPT_BLANK_LINES,
    OPT_TOKENS,
    OPT_PAIRS,
    OPT_CHARS,
    OPT_STOP_WORDS,
    OPT_MIN_COUNT,
    OPT_TEXT_COLUMN,
    OPT_LABEL_COLUMN,
    OPT_LABEL_SEPARATOR,
    OPT_LABELS,
    OPT_VOCAB,
    OPT_CACHE,
    OPT_MEMORY,
    /* use */
    OPT_K,
    OPT_LABEL,
    OPT_THRESHOLD,
    OPT_FOR,
    OPT_PER,
    OPT_PER_LABEL,
    OPT_SCORES,
    OPT_PROPENSITY,
    OPT_INFERENCE,
    OPT_QUANTIZE,
    OPT_IMAGE,
    OPT_MEAN,
    OPT_STD,
    OPT_PLAN,
    /* synthetic data */
    OPT_SHAPE,
    OPT_ROWS,
    OPT_TEST_ROWS,
    OPT_FEATURES,
    OPT_ROW_FEATURES,
    OPT_ROW_LABELS,

    OPT_NEURONS,
    OPT_LAYERS,
    OPT_MODE,
    OPT_DATA,
    OPT_GENERATE,
    OPT_TOPOLOGY,
    /* everywhere */
    OPT_DEVICE,
    OPT_CARD_MEMORY,
    OPT_CARDS,
    OPT_THREADS,
    OPT_CONFIG,
    OPT_JSON,
    OPT_TSV,
    OPT_QUIET,
    /* memory with errors */
    OPT_RATE,
    OPT_WHAT,
    OPT_TYPE,
    OPT_LAYER,
    OPT_MAP,
    OPT_GUARD,
    OPT_DRAWS,
    OPT_SWEEP,
    OPT_RATES,
    OPT_PARTITIONS,
    OPT_TEST,
    /* younger than models that are about */
    OPT_MAGNITUDE,
    OPT_MAGNITUDE_EPOCHS,
    OPT_UNSTRUCTURED,
    OPT_GROUPS,
    OPT_GROUP_WEIGHTS,
    OPT_PENALTY_WARMUP,
    OPT_ERROR_RATE,
    OPT_ERROR_TYPE,
    OPT_ERROR_MAP,
    OPT_ERROR_GUARD,
    OPT_ERROR_SEED,
    OPT_ROUND,
    /* graphs */
    OPT_FUNCTION,
    OPT_GROUP_CUT,
    OPT_WATCH,
    /* serving */
    OPT_PORT,
    OPT_ADDRESS,
    OPT_TOKEN_FILE,
    OPT_TLS_CERT,
    OPT_TLS_KEY,
    OPT_ACCESS_LOG,
    OPT_RELOAD_EVERY,
    OPT_MAX_WAIT,
    OPT_MAX_BODY,
    OPT_MAX_ROWS,
    OPT_MAX_QUEUE,
    OPT_MAX_CONNECTIONS,
    OPT_HEADER_TIME,
    OPT_IDLE_TIME,
    OPT_DRAIN_TIME,
    /* several models as one */
    OPT_ENSEMBLE,
    OPT_SPLIT_SEED,
    OPT_BUDGET,
    OPT_EFFORT,
    OPT_TRIED,
    N_OPTS
};

/* The row of an option as 'command' means it. */
const wisp_option *wisp_option_meant(const char *command, enum wisp_opt o);

/* Numbers as double: every option fits without loss (seeds up to 2^53). */
double wisp_opt_num(const wisp_config *c, enum wisp_opt o);
const char *wisp_opt_text(const wisp_config *c, enum wisp_opt o);
static inline bool wisp_opt_on(const wisp_config *c, enum wisp_opt o)
{
    return wisp_opt_num(c, o) != 0;
}
/* Seconds of a text: "90", "90s", "5m" or "1.5h"; 0: none was given. */
wisp_status wisp_opt_time(double *seconds, const wisp_config *c, enum wisp_opt o, wisp_error *err);
/* Is it this word?  A choice must have it. */
bool wisp_opt_is(const wisp_config *c, enum wisp_opt o, const char *word);
/* Is it left to whoever uses it? */
static inline bool wisp_opt_auto(const wisp_config *c, enum wisp_opt o)
{
    return wisp_opt_is(c, o, "auto");
}
/* Was it given (command line, file), or is it the default? */
bool wisp_opt_given(const wisp_config *c, enum wisp_opt o);

/* Sets in 'to' all options of 'train' that 'from' was given, but for those in 'skip' (n_skip). */
wisp_status wisp_config_take(wisp_config *to, const wisp_config *from, const enum wisp_opt *skip,
                             size_t n_skip, wisp_error *err);

/* "1,3,5" -> numbers, ascending not required.  Fails naming the option. */
wisp_status wisp_opt_list(double *out, size_t *n, size_t room, const wisp_config *c,
                          enum wisp_opt o, wisp_error *err);

#endif
