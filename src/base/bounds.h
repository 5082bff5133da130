/* Numbers that parts which do not know each other must agree on, and arithmetic on sizes.
 *
 * Limits and choices that the option table says, too, are plain numbers: WISP_TEXT makes words of
 * them. */
#ifndef WISP_BASE_BOUNDS_H
#define WISP_BASE_BOUNDS_H

#include <stddef.h>

/* The clock of a row (wisp_param.count) stops here: from there on 1 - beta2^t is 1 to float's
 * precision.  Tables of such factors have WISP_CLOCK_FACTORS entries, t = 0 .. WISP_CLOCK_MAX. */
enum { WISP_CLOCK_MAX = 20000, WISP_CLOCK_FACTORS = WISP_CLOCK_MAX + 1 };

/* Adam's, on either device. */
#define WISP_ADAM_BETA1 0.9f
#define WISP_ADAM_BETA2 0.999f
#define WISP_ADAM_EPS   1e-8f

#define WISP_TEXT(number)  WISP_TEXT_(number)
#define WISP_TEXT_(number) #number

/* ---- limits ---- */
#define WISP_MOST_THREADS      1024
#define WISP_MOST_TABLES       4096       /* of hash tables */
#define WISP_MOST_IDS          2147483647 /* features, or labels: of an int32_t */
#define WISP_MOST_ROWS         4294967295 /* of synthetic data */
#define WISP_MOST_ROW_FEATURES 100000
#define WISP_MOST_ROW_LABELS   10000
#define WISP_DEGREE            32 /* inputs of a neuron of a generated network: its least width */

/* ---- what is chosen where nothing is said ---- */
#define WISP_FEW_LABELS    4096   /* up to here all rows are computed, and nets are wider */
#define WISP_FEW_ROWS      100000 /* below it a set is small */
#define WISP_WIDTH_FEW     512    /* of a hidden layer, up to so many labels */
#define WISP_WIDTH_MANY    256
#define WISP_HALF_MOMENTS  26 /* from 2 to this power of weights on moments are bf16 */
#define WISP_SNAPSHOTS     4  /* per epoch, of weights that are averaged */
#define WISP_TABLES        50 /* hash tables */
#define WISP_TABLES_BESIDE 12 /* beside a finder that remembers rows */
#define WISP_SHORT_TEXT    30 /* words on average: pieces of words help */
#define WISP_PIECE_MIN     3  /* characters of such pieces */
#define WISP_PIECE_MAX     5
#define WISP_ROW_FEATURES  75 /* of synthetic rows, mean */
#define WISP_ROW_LABELS    5
#define WISP_SYNTH_TESTS   20000 /* most test rows beside synthetic ones */
#define WISP_BENCH_TESTS   5000  /* held-out rows */
#define WISP_BENCH_SECONDS 30    /* of training */
#define WISP_BENCH_PREDICT 2     /* seconds of each way of prediction */
#define WISP_BENCH_STEPS   5     /* seconds of steps with images */

static inline size_t wisp_most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The first multiple of 'to' from n on. */
static inline size_t wisp_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* How many parts of up to 'each' n things make. */
static inline size_t wisp_parts(size_t n, size_t each)
{
    return (n + each - 1) / each;
}

static inline double wisp_gib(size_t bytes)
{
    return (double)bytes / (1 << 30);
}

#endif
