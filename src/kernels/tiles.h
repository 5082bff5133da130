/* Sums of small products and Winograd's transforms with vectors: the text that tiles_avx2.c and tiles_avx512.c share.  Who
 * includes it has named the vector:
 *
 *   VEC, LANES       a vector of floats
 *   PER              vectors of a block of 16 columns
 *   LOAD, STORE, ZERO, SET1, ADD, SUB, MUL, FMA (a b + c), MAX (its second argument where one is NaN)
 *   ABOVE(a, b)      a mask of lanes, KEEP(mask, a): a, or 0 where it is not set
 *   LIVE(a)          lanes that are not 0, as a NaN is not
 *   BLOCKS, ROWS     a tile of C that lives in registers: at most so many blocks by ROWS(blocks) rows
 *   ENOUGH           rows of a tile from which on fewer blocks are no better
 *
 * A tile runs down all products at once:
 *
 *                 b: the blocks' row p        per p: a load for each vector of b, a broadcast for
 *     a(0, p) ->  [acc acc]                   each row, rows * vectors multiply-adds.  With
 *       ...          ...                      14 rows of 2 vectors (AVX-512) or 6 of 2 (AVX2) the
 *    a(13, p) ->  [acc acc]                   multiply-adds are the limit.
 *
 * Rows of A lie 'ras' apart, which only the caller knows; four rows share a pointer, as an address is
 * a base and 0, 1 or 2 times ras, or 3 times ras, which is kept: five registers for 14 rows.
 *
 * Each element of C is one sum in the order of the products and of p, whatever the tile. */
#ifndef WISP_KERNELS_TILES_H
#define WISP_KERNELS_TILES_H

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

/* Rows r .. r + R - 1 of the blocks v .. v + B - 1. */
INLINE void tile(const struct wisp_tiles *t, size_t row, size_t block, const int R, const int B)
{
    enum { QUADS = (ROWS(1) + 3) / 4 };
    VEC acc[ROWS(1)][BLOCKS * PER];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < B * PER; v++) acc[r][v] = ZERO();
    const size_t ras = t->ras, ras3 = 3 * ras, cas = t->cas, ldb = t->ldb, next = t->b_block;
    for (size_t i = 0; i < t->n; i++) {
        const float *a[QUADS], *b = t->b + t->b_at[i] + block * next;
        UNROLL for (int q = 0; q < (R + 3) / 4; q++) a[q] =
            t->a + t->a_at[i] + (row + 4 * (size_t)q) * ras;
        for (size_t p = t->k; p > 0; p--) {
            VEC bv[BLOCKS * PER];
            UNROLL for (int v = 0; v < B * PER; v++) bv[v] =
                LOAD(b + (size_t)(v / PER) * next + v % PER * LANES);
            UNROLL for (int r = 0; r < R; r++)
            {
                const VEC av = SET1(a[r / 4][r % 4 == 3 ? ras3 : (size_t)(r % 4) * ras]);
                UNROLL for (int v = 0; v < B * PER; v++) acc[r][v] = FMA(av, bv[v], acc[r][v]);
            }
            UNROLL for (int q = 0; q < (R + 3) / 4; q++) a[q] += cas;
            b += ldb;
        }
    }
    UNROLL for (int v = 0; v < B * PER; v++)
    {
        const size_t at = (block + (size_t)(v / PER)) * t->c_block + v % PER * LANES;
        const VEC bias = t->bias ? LOAD(t->bias + block * 16 + v * LANES) : ZERO();
        uint64_t found = 0;
        UNROLL for (int r = 0; r < R; r++)
        {
            float *c = t->c + at + (row + (size_t)r) * t->ldc;
            VEC sum = acc[r][v];
            if (t->add) sum = ADD(sum, LOAD(c));
            sum = ADD(sum, bias);
            if (t->mask) sum = KEEP(ABOVE(LOAD(t->mask + (c - t->c)), ZERO()), sum);
            if (t->relu) sum = MAX(ZERO(), sum);
            if (t->live) found += LIVE(sum);
            STORE(c, sum);
        }
        if (t->live) t->live[block + (size_t)(v / PER)] += found;
    }
}

typedef void (*tile_form)(const struct wisp_tiles *t, size_t row, size_t block);
#define TILE(R, B)                                                                                 \
    static void tile_##R##_##B(const struct wisp_tiles *t, size_t row, size_t block)               \
    {                                                                                              \
        tile(t, row, block, R, B);                                                                 \
    }

/* forms[B][R] is the tile of R rows of B blocks.  Rows are shared out evenly: of 16 rows 8 and 8, not
 * 14 and 2, whose few sums would wait for each other. */
INLINE void all_tiles(const struct wisp_tiles *t, const tile_form forms[BLOCKS + 1][ROWS(1) + 1])
{
    for (size_t block = 0; block < t->blocks;) {
        size_t B = BLOCKS;
        while (B > 1 && (B > t->blocks - block || (t->m > ROWS(B) && ROWS(B) < ENOUGH))) B /= 2;
        const size_t parts = (t->m + ROWS(B) - 1) / ROWS(B);
        for (size_t part = 0, row = 0; part < parts; part++) {
            const size_t R = (t->m - row + parts - part - 1) / (parts - part);
            forms[B][R](t, row, block);
            row += R;
        }
        block += B;
    }
}

/* ---- Winograd's transforms: one row or column at a time, first all columns, then all rows ---- */

INLINE void line(const enum wisp_winograd which, VEC to[6], const VEC x[6])
{
    const VEC two = SET1(2), four = SET1(4);
    if (which == WISP_WINOGRAD_X) {
        const VEC five = SET1(-5), minus = SET1(-4);
        const VEC a = FMA(minus, x[2], x[4]), b = FMA(minus, x[1], x[3]);
        const VEC c = SUB(x[4], x[2]), d = MUL(two, SUB(x[3], x[1]));
        to[0] = FMA(four, x[0], FMA(five, x[2], x[4]));
        to[1] = ADD(a, b), to[2] = SUB(a, b);
        to[3] = ADD(c, d), to[4] = SUB(c, d);
        to[5] = FMA(four, x[1], FMA(five, x[3], x[5]));
    } else if (which == WISP_WINOGRAD_Y) {
        const VEC a = ADD(x[1], x[2]), b = SUB(x[1], x[2]);
        const VEC c = ADD(x[3], x[4]), d = SUB(x[3], x[4]);
        to[0] = ADD(ADD(x[0], a), c);
        to[1] = FMA(two, d, b);
        to[2] = FMA(four, c, a);
        to[3] = FMA(SET1(8), d, ADD(b, x[5]));
    } else if (which == WISP_WINOGRAD_GY) {
        const VEC a = ADD(x[0], x[2]), b = ADD(x[1], x[3]);
        const VEC c = FMA(four, x[2], x[0]), d = MUL(two, FMA(four, x[3], x[1]));
        to[0] = x[0];
        to[1] = ADD(a, b), to[2] = SUB(a, b);
        to[3] = ADD(c, d), to[4] = SUB(c, d);
        to[5] = x[3];
    } else if (which == WISP_WINOGRAD_W) {
        const VEC sixth = SET1(-1.0f / 6), a = ADD(x[0], x[2]);
        const VEC b = FMA(SET1(1.0f / 24), x[0], MUL(SET1(1.0f / 6), x[2]));
        const VEC c = MUL(SET1(1.0f / 12), x[1]);
        to[0] = MUL(SET1(0.25f), x[0]);
        to[1] = MUL(sixth, ADD(a, x[1])), to[2] = MUL(sixth, SUB(a, x[1]));
        to[3] = ADD(b, c), to[4] = SUB(b, c);
        to[5] = x[2];
    } else if (which == WISP_WINOGRAD_Y5) {
        const VEC a = ADD(x[1], x[2]), b = SUB(x[1], x[2]);
        const VEC c = ADD(x[3], x[4]), d = SUB(x[3], x[4]);
        to[0] = ADD(ADD(x[0], a), c);
        to[1] = FMA(two, d, ADD(b, x[5]));
    } else if (which == WISP_WINOGRAD_GY5) {
        const VEC twice = MUL(two, x[1]);
        to[0] = x[0];
        to[1] = ADD(x[0], x[1]), to[2] = SUB(x[0], x[1]);
        to[3] = ADD(x[0], twice), to[4] = SUB(x[0], twice);
        to[5] = x[1];
    } else if (which == WISP_WINOGRAD_W5) {
        const VEC sixth = SET1(-1.0f / 6), a = ADD(ADD(x[0], x[2]), x[4]), b = ADD(x[1], x[3]);
        const VEC c =
            FMA(SET1(1.0f / 24), x[0], FMA(SET1(1.0f / 6), x[2], MUL(SET1(2.0f / 3), x[4])));
        const VEC d = FMA(SET1(1.0f / 12), x[1], MUL(SET1(1.0f / 3), x[3]));
        to[0] = MUL(SET1(0.25f), x[0]);
        to[1] = MUL(sixth, ADD(a, b)), to[2] = MUL(sixth, SUB(a, b));
        to[3] = ADD(c, d), to[4] = SUB(c, d);
        to[5] = x[4];
    } else if (which == WISP_WINOGRAD_GW5) {
        const VEC a = MUL(SET1(1.0f / 6), ADD(x[1], x[2])),
                  b = MUL(SET1(1.0f / 6), SUB(x[2], x[1]));
        const VEC c = ADD(x[3], x[4]), d = SUB(x[3], x[4]);
        to[0] = FMA(SET1(0.25f), x[0], SUB(MUL(SET1(1.0f / 24), c), a));
        to[1] = FMA(SET1(1.0f / 12), d, b);
        to[2] = SUB(MUL(SET1(1.0f / 6), c), a);
        to[3] = FMA(SET1(1.0f / 3), d, b);
        to[4] = SUB(FMA(SET1(2.0f / 3), c, x[5]), a);
    } else {
        const VEC sixth = SET1(1.0f / 6), a = ADD(x[1], x[2]), b = SUB(x[2], x[1]);
        const VEC c = ADD(x[3], x[4]), d = SUB(x[3], x[4]);
        to[0] = FMA(SET1(0.25f), x[0], FMA(SET1(1.0f / 24), c, MUL(SET1(-1.0f / 6), a)));
        to[1] = FMA(sixth, b, MUL(SET1(1.0f / 12), d));
        to[2] = FMA(sixth, SUB(c, a), x[5]);
    }
}

/* M x M to N x N. */
INLINE void transform(const struct wisp_transform *t, const enum wisp_winograd which, const int M,
                      const int N)
{
    const bool result = which == WISP_WINOGRAD_Y || which == WISP_WINOGRAD_Y5;
    uint64_t found = 0;
    for (int part = 0; part < PER; part++) {
        const float *from = t->from + part * LANES;
        float *to = t->to + part * LANES;
        const VEC bias = t->bias ? LOAD(t->bias + part * LANES) : ZERO();
        VEC half[6][6], x[6], y[6];
        for (int j = 0; j < M; j++) {
            UNROLL for (int i = 0; i < M; i++)
            {
                x[i] = LOAD(from + (size_t)i * t->from_row + (size_t)j * t->from_col);
            }
            line(which, y, x);
            UNROLL for (int i = 0; i < N; i++) half[i][j] = y[i];
        }
        for (int i = 0; i < N; i++) {
            line(which, y, half[i]);
            UNROLL for (int j = 0; j < N; j++)
            {
                VEC v = result ? ADD(y[j], bias) : y[j];
                const size_t at = (size_t)i * t->to_row + (size_t)j * t->to_col;
                if (result && t->relu) v = MAX(ZERO(), v);
                if (result && t->mask)
                    v = KEEP(ABOVE(LOAD(t->mask + at + part * LANES), ZERO()), v);
                if (result && t->live) found += LIVE(v);
                STORE(to + at, v);
            }
        }
    }
    if (result && t->live) *t->live += found;
}

#define FORM(WHICH, M, N)                                                                          \
    case WHICH:                                                                                    \
        transform(t, WHICH, M, N);                                                                 \
        break;
static void winograd(const struct wisp_transform *t)
{
    switch (t->which) {
        FORM(WISP_WINOGRAD_X, 6, 6)
        FORM(WISP_WINOGRAD_Y, 6, 4)
        FORM(WISP_WINOGRAD_GY, 4, 6)
        FORM(WISP_WINOGRAD_W, 3, 6)
        FORM(WISP_WINOGRAD_GW, 6, 3)
        FORM(WISP_WINOGRAD_Y5, 6, 2)
        FORM(WISP_WINOGRAD_GY5, 2, 6)
        FORM(WISP_WINOGRAD_W5, 5, 6)
        FORM(WISP_WINOGRAD_GW5, 6, 5)
    }
}
#undef FORM

#endif
