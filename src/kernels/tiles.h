/* Sums of small products with vectors: the text that tiles_avx2.c and tiles_avx512.c share.  Who
 * includes it has named the vector:
 *
 *   VEC, LANES       a vector of floats
 *   PER              vectors of a block of 16 columns
 *   LOAD, STORE, ZERO, SET1, ADD, SUB, MUL, FMA (a b + c), MAX (its second argument where one is NaN)
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
        UNROLL for (int r = 0; r < R; r++)
        {
            float *c = t->c + at + (row + (size_t)r) * t->ldc;
            VEC sum = acc[r][v];
            if (t->add) sum = ADD(sum, LOAD(c));
            sum = ADD(sum, bias);
            STORE(c, t->relu ? MAX(ZERO(), sum) : sum);
        }
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

#endif
