/* Words that the rows of options are written with: numbers that others keep, and titles of groups. */
#ifndef WISP_CONFIG_WORDS_H
#define WISP_CONFIG_WORDS_H

#include "base/bounds.h"

/* Numbers that others keep (base/bounds.h), as words. */
#define BENCH_PREDICT     WISP_TEXT(WISP_BENCH_PREDICT)
#define BENCH_SECONDS     WISP_TEXT(WISP_BENCH_SECONDS)
#define BENCH_STEPS       WISP_TEXT(WISP_BENCH_STEPS)
#define BENCH_TESTS       WISP_TEXT(WISP_BENCH_TESTS)
#define DEGREE            WISP_TEXT(WISP_DEGREE)
#define FEW_LABELS        WISP_TEXT(WISP_FEW_LABELS)
#define HALF_MOMENTS      WISP_TEXT(WISP_HALF_MOMENTS)
#define MOST_IDS          WISP_TEXT(WISP_MOST_IDS)
#define MOST_K            WISP_TEXT(WISP_MOST_K)
#define MOST_ROWS         WISP_TEXT(WISP_MOST_ROWS)
#define MOST_ROW_FEATURES WISP_TEXT(WISP_MOST_ROW_FEATURES)
#define MOST_ROW_LABELS   WISP_TEXT(WISP_MOST_ROW_LABELS)
#define MOST_SEED         "9007199254740992" /* 2^53: a double holds it */
#define MOST_TABLES       WISP_TEXT(WISP_MOST_TABLES)
#define MOST_THREADS      WISP_TEXT(WISP_MOST_THREADS)
#define PIECE_MAX         WISP_TEXT(WISP_PIECE_MAX)
#define PIECE_MIN         WISP_TEXT(WISP_PIECE_MIN)
#define ROW_FEATURES      WISP_TEXT(WISP_ROW_FEATURES)
#define ROW_LABELS        WISP_TEXT(WISP_ROW_LABELS)
#define SHORT_TEXT        WISP_TEXT(WISP_SHORT_TEXT)
#define SNAPSHOTS         WISP_TEXT(WISP_SNAPSHOTS)
#define SYNTH_TESTS       WISP_TEXT(WISP_SYNTH_TESTS)
#define TABLES            WISP_TEXT(WISP_TABLES)
#define TABLES_BESIDE     WISP_TEXT(WISP_TABLES_BESIDE)
#define WIDTH_FEW         WISP_TEXT(WISP_WIDTH_FEW)
#define WIDTH_MANY        WISP_TEXT(WISP_WIDTH_MANY)
#define PIECES            PIECE_MIN "-" PIECE_MAX

/* Groups, as help prints them: in the order in which the table first names them. */
#define NETWORK   "The network"
#define LINEAR    "Linear models (--net linear)"
#define TRAINING  "Training"
#define SAMPLING  "Which output rows a training step computes"
#define HASHING   "Hash tables (--sampling lsh)"
#define RUNS      "Going on, checkpoints, logs"
#define DATA      "Data"
#define TEXT      "Text"
#define USE       "Scores and answers"
#define SYNTHETIC "Synthetic rows"
#define DEEP      "Deep sparse networks"
#define MACHINE   "Machine and output"
#define ERRORS    "Memory with errors"
#define GRAPHS    "Graphs"
#define SERVING   "Serving"

#endif
