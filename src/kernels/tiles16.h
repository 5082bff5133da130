/* Sums of small products of bf16 by tiles of 16 rows of 64 bytes: the text that amx.c compiles for
 * the hardware's and a test (test_tiles16.c) for tiles written in C.  Who includes it has named
 *
 *   TILES_BEGIN(), TILES_END()   8 tiles can be used in between
 *   TILE_ZERO(t), TILE_LOAD(t, from, bytes from row to row), TILE_STORE(t, to, bytes)
 *   TILE_DOT(c, a, b)            c += a b: floats, 16 rows of 32 halves, 16 rows of 16 words
 *   BARRIER()                    memory is read and written by tiles, which a compiler may not know
 *   VEC, LOAD, STORE, ZERO, ADD, MAX (its second argument where one is NaN): 16 floats
 *   WHERE_ABOVE(m, v)            v, and 0 where m is not above 0
 *   LIVE(v)                      lanes that are not 0, as a NaN is not
 *
 * 32 rows of A by two blocks are four tiles, which run down all products at once and go to C
 * through a buffer: rows lie anywhere in C, some of them nowhere. */
#ifndef WISP_KERNELS_TILES16_H
#define WISP_KERNELS_TILES16_H

INLINE void four_tiles(const struct wisp_tiles16 *t, size_t row, size_t block, const bool low,
                       const bool right, float *sums)
{
    const uint16_t *a0 = t->a + row * t->ras, *a1 = a0 + 16 * t->ras;
    const uint32_t *b0 = t->b + block * t->b_block, *b1 = b0 + t->b_block;
    const size_t ld = t->ras * sizeof *a0;
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (size_t i = 0; i < t->n; i++) {
        const size_t a = t->a_at[i], b = t->b_at[i];
        TILE_LOAD(4, a0 + a, ld);
        TILE_LOAD(6, b0 + b, 64);
        if (right) TILE_LOAD(7, b1 + b, 64);
        if (low) TILE_LOAD(5, a1 + a, ld);
        TILE_DOT(0, 4, 6);
        if (right) TILE_DOT(1, 4, 7);
        if (low) TILE_DOT(2, 5, 6);
        if (low && right) TILE_DOT(3, 5, 7);
    }
    TILE_STORE(0, sums, 128);
    if (right) TILE_STORE(1, sums + 16, 128);
    if (low) TILE_STORE(2, sums + 16 * 32, 128);
    if (low && right) TILE_STORE(3, sums + 16 * 32 + 16, 128);
}

INLINE void sums_to_c(const struct wisp_tiles16 *t, size_t row, size_t rows, size_t block,
                      const bool right, const float *sums)
{
    const VEC left_bias = t->bias ? LOAD(t->bias + block * 16) : ZERO();
    uint64_t found[2] = { 0 };
    const VEC right_bias = t->bias && right ? LOAD(t->bias + block * 16 + 16) : ZERO();
    for (size_t r = 0; r < rows; r++, sums += 32) {
        if (t->c_at[row + r] < 0) continue;
        float *c = t->c + t->c_at[row + r] + block * t->c_block;
        const float *mask = t->mask ? t->mask + (c - t->c) : NULL;
        VEC v = ADD(LOAD(sums), left_bias);
        if (mask) v = WHERE_ABOVE(LOAD(mask), v);
        if (t->relu) v = MAX(ZERO(), v);
        if (t->live) found[0] += LIVE(v);
        STORE(c, v);
        if (!right) continue;
        v = ADD(LOAD(sums + 16), right_bias);
        if (mask) v = WHERE_ABOVE(LOAD(mask + t->c_block), v);
        if (t->relu) v = MAX(ZERO(), v);
        if (t->live) found[1] += LIVE(v);
        STORE(c + t->c_block, v);
    }
    if (t->live) t->live[block] += found[0];
    if (t->live && right) t->live[block + 1] += found[1];
}

static void tiles16(const struct wisp_tiles16 *t)
{
    float sums[32 * 32] __attribute__((aligned(64)));
    TILES_BEGIN();
    for (size_t block = 0; block < t->blocks; block += 2)
        for (size_t row = 0; row < t->m; row += 32) {
            const bool low = t->m - row > 16, right = t->blocks - block > 1;
            BARRIER();
            if (low && right) four_tiles(t, row, block, true, true, sums);
            else if (low) four_tiles(t, row, block, true, false, sums);
            else if (right) four_tiles(t, row, block, false, true, sums);
            else four_tiles(t, row, block, false, false, sums);
            BARRIER();
            sums_to_c(t, row, t->m - row < 32 ? t->m - row : 32, block, right, sums);
        }
    TILES_END();
}

/* ---- products that share B: all of them of 32 rows and two blocks, whose A and B stay in the first
 * cache ---- */

INLINE void four_sums(const struct wisp_sums16 *t, size_t i, size_t row, size_t block,
                      const bool low, const bool right)
{
    const uint16_t *a0 = t->a + t->a_at[i] + row * t->lda, *a1 = a0 + 16 * t->lda;
    const uint32_t *b0 = t->b + block * t->ldb, *b1 = b0 + t->ldb;
    float *c0 = t->c + t->c_at[i] + row * t->ldc + block * 16, *c1 = c0 + 16 * t->ldc;
    const size_t lda = t->lda * sizeof *a0, ldc = t->ldc * sizeof *c0;
    if (t->add) {
        TILE_LOAD(0, c0, ldc);
        if (right) TILE_LOAD(1, c0 + 16, ldc);
        if (low) TILE_LOAD(2, c1, ldc);
        if (low && right) TILE_LOAD(3, c1 + 16, ldc);
    } else {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    }
    for (size_t p = 0; p < t->k; p += 32, b0 += 256, b1 += 256) {
        TILE_LOAD(4, a0 + p, lda);
        TILE_LOAD(6, b0, 64);
        if (right) TILE_LOAD(7, b1, 64);
        if (low) TILE_LOAD(5, a1 + p, lda);
        TILE_DOT(0, 4, 6);
        if (right) TILE_DOT(1, 4, 7);
        if (low) TILE_DOT(2, 5, 6);
        if (low && right) TILE_DOT(3, 5, 7);
    }
    TILE_STORE(0, c0, ldc);
    if (right) TILE_STORE(1, c0 + 16, ldc);
    if (low) TILE_STORE(2, c1, ldc);
    if (low && right) TILE_STORE(3, c1 + 16, ldc);
}

static void sums16(const struct wisp_sums16 *t)
{
    TILES_BEGIN();
    BARRIER();
    for (size_t block = 0; block < t->blocks; block += 2)
        for (size_t row = 0; row < t->m; row += 32) {
            const bool low = t->m - row > 16, right = t->blocks - block > 1;
            for (size_t i = 0; i < t->n; i++)
                if (low && right) four_sums(t, i, row, block, true, true);
                else if (low) four_sums(t, i, row, block, true, false);
                else if (right) four_sums(t, i, row, block, false, true);
                else four_sums(t, i, row, block, false, false);
        }
    BARRIER();
    TILES_END();
}

#endif
