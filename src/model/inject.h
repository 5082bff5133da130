/* Bit errors: what a net's numbers are in memory that gets some bits wrong.
 *
 * A memory keeps numbers as fp32, bf16 or int8, and every bit of them is wrong with the same
 * probability, the rate, by itself.  Which bits those are is a function of (seed, draw, place, piece)
 * alone, where a place is a parameter or a value of the net: distances between wrong bits are drawn
 * (they are geometric), so the cost is that of the errors, not of the bits. */
#ifndef WISP_MODEL_INJECT_H
#define WISP_MODEL_INJECT_H

#include "base/pool.h"
#include "model/net.h"

#include <math.h>

enum wisp_memory { WISP_MEMORY_FP32, WISP_MEMORY_BF16, WISP_MEMORY_INT8, WISP_N_MEMORIES };
const char *wisp_memory_name(enum wisp_memory type);
enum wisp_memory wisp_memory_find(const char *name); /* WISP_N_MEMORIES: there is none */
int wisp_memory_bits(enum wisp_memory type);         /* of a number */

/* What becomes of a number that is beyond the largest one of its place, or none at all: errors of
 * high bits of the exponent make such. */
enum wisp_guard {
    WISP_GUARD_OFF,
    WISP_GUARD_CLIP, /* it is as large as the largest; 0 where it is nan */
    WISP_GUARD_ZERO,
    WISP_N_GUARDS
};
const char *wisp_guard_name(enum wisp_guard g);
enum wisp_guard wisp_guard_find(const char *name);

struct wisp_errors {
    double rate; /* of bits that are wrong, 0 to 1 */
    enum wisp_memory type;
    enum wisp_guard guard;
    bool fixed; /* the same bits in every draw: those that are weak in this memory */
    uint64_t seed, draw;
};

/* ---- which bits ---- */

/* Numbers of a piece: what is drawn by itself, so that threads can share a place, and rows of features
 * that a step does not touch need not be drawn. */
enum { WISP_FLIP_PIECE = 256 };

struct wisp_flip { /* a number with errors, and the bits that are wrong in it */
    size_t at;
    uint32_t mask;
};

struct wisp_flips {                         /* all of a piece, one by one, ascending */
    uint64_t seed, stream, drawn, bit, end; /* of the next wrong bit; of all bits */
    double by;                              /* 1 / log(1 - rate) */
    size_t first;                           /* number of the piece */
    unsigned bits;
};
/* Piece i of the n numbers of a place. */
void wisp_flips_begin(struct wisp_flips *f, const struct wisp_errors *e, uint64_t place, size_t i,
                      size_t n);
bool wisp_flips_next(struct wisp_flip *out, struct wisp_flips *f); /* false: there are no more */

/* ---- what they do ---- */

/* A number as the memory keeps it, with these bits wrong.  scale: of int8. */
float wisp_flipped(enum wisp_memory type, float x, uint32_t mask, float scale);
/* The largest of n numbers. */
float wisp_largest(const float *x, size_t n);
/* The largest that it is in this memory, by which a guard judges. */
static inline float wisp_guard_limit(enum wisp_memory type, float largest)
{
    return type == WISP_MEMORY_INT8   ? largest * (1 + 1e-6f) /* 127 times a 127th of it */
           : type == WISP_MEMORY_BF16 ? fmaxf(largest, wisp_flipped(type, largest, 0, 0))
                                      : largest;
}
/* What int8 numbers are multiplied by where this is the largest of them. */
static inline float wisp_memory_scale(float largest)
{
    return largest / 127;
}
static inline float wisp_guarded(enum wisp_guard g, float x, float largest)
{
    if (g == WISP_GUARD_OFF || fabsf(x) <= largest) return x;
    return g == WISP_GUARD_ZERO || isnan(x) ? 0 : copysignf(largest, x);
}

/* Has it errors unless it is asked for by name?  Matrices have; biases, norms and running means are
 * few, and lie where nothing goes wrong. */
bool wisp_errors_in(const struct wisp_param *p);

struct wisp_misread {              /* a parameter as it is read back */
    void *numbers;                 /* to be freed; of the type that it has in memory */
    size_t bits, numbers_hit, odd; /* wrong bits; numbers with some; those that are none now */
    size_t odd_at;                 /* the first of these */
};
/* Of a parameter of floats: all of them are rounded as the memory's type has it.  One that is bf16 or
 * int8 itself is kept as it is, and e->type must be its own. */
wisp_status wisp_errors_read(struct wisp_misread *out, const struct wisp_param *p, uint64_t place,
                             const struct wisp_errors *e, struct wisp_pool *pool, wisp_error *err);
/* The row of a number. */
size_t wisp_param_row_of(const struct wisp_param *p, size_t at);
/* The type of memory that it lies in: its own, where that is not fp32. */
enum wisp_memory wisp_param_memory(const struct wisp_param *p, enum wisp_memory wanted);

/* A value of a sample: 'units' numbers at x, in the order of the units, that lie in planes of 16
 * channels where pixels is not 0.  Returns the wrong bits.  largest: of all samples, for the guard. */
size_t wisp_errors_in_value(float *x, size_t units, size_t pixels, uint64_t place,
                            const struct wisp_errors *e, float largest);

#endif
