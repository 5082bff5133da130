/* The union of many lists of rows, by bits: any number of threads mark rows, nobody sorts.
 *
 * A bit a row, and above every 64 words of these a word that tells which are not zero; so finding
 * the marked rows again costs what was marked, and a 4096th of what exists. */
#ifndef WISP_HASH_UNITE_H
#define WISP_HASH_UNITE_H

#include "base/context.h"

#include <stdatomic.h>
#include <stdint.h>

enum { WISP_MARK_PARTS = 16 }; /* fixed parts of the work */

struct wisp_marks {
    size_t n_rows;
    _Atomic uint64_t *bits;       /* (n_rows / 64, up) */
    _Atomic uint64_t *above;      /* (words of bits / 64, up) */
    size_t part[WISP_MARK_PARTS]; /* rows marked in each part, when counted */
};

size_t wisp_marks_words(size_t n_rows);
/* Lays them out in a block of so many words, all zero. */
void wisp_marks_place(struct wisp_marks *m, uint64_t *block, size_t n_rows);
/* May be called by many threads at a time. */
void wisp_marks_add(struct wisp_marks *m, int32_t row);
/* How many rows are marked. */
size_t wisp_marks_count(struct wisp_marks *m, struct wisp_context *ctx);
/* The marked rows, which were counted and must fit, ascending; place[row] becomes the row's place
 * plus 1.  Clears all marks. */
void wisp_marks_take(struct wisp_marks *m, struct wisp_context *ctx, int32_t *rows,
                     uint32_t *place);
void wisp_marks_clear(struct wisp_marks *m);

#endif
