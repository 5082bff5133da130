/* Products of few rows with a matrix that comes from memory, and their way back: the text that tiles_avx2.c and
 * tiles_avx512.c share.  Who includes it has named the vector as for tiles.h, FETCH(x), which asks
 * for what will be read soon, LATER(x), for what is read after that (into the second cache), and
 * WIDE_BACK: whether there are registers for two rows on the way back.
 *
 * gemm goes down a panel of columns, so that C stays in registers; of a matrix that is read once and
 * comes from memory it asks for 64 columns of a row, and then for a row some pages on.  Here some rows
 * of B are read side by side, 1024 columns at a time, and C waits in the first cache.
 *
 * A number of C is what gemm makes of it, to the bit: the sum over p in order within each KC rows of
 * B, then the sum of those.  gemm_live reads some rows of B only, those that meet a number of A that
 * is not 0; these stay in their KC rows, so it makes the same bits, too. */
#ifndef WISP_KERNELS_FEW_H
#define WISP_KERNELS_FEW_H

enum { FEW_KC = 256, FEW_ROWS = 8, FEW_FLOATS = 8 * 1024, FEW_COLS = 1024, FEW_LIVE = 16 };

/* T (m, n) += A (m, P) B (P, n), as if it had never been put down. */
INLINE void stream_rows(float *t, size_t m, size_t n, const float *a, size_t lda, const float *b,
                        size_t ldb, const int P)
{
    for (size_t j = 0; j < n; j += LANES) {
        VEC row[FEW_ROWS];
        UNROLL for (int q = 0; q < P; q++)
        {
            row[q] = LOAD(b + (size_t)q * ldb + j);
            if (P == FEW_ROWS && (LANES == 16 || j % 16 == 0))
                FETCH(b + (size_t)(q + FEW_ROWS) * ldb + j);
        }
        for (size_t i = 0; i < m; i++) {
            VEC acc = LOAD(t + i * n + j);
            UNROLL for (int q = 0; q < P; q++) acc = FMA(SET1(a[i * lda + (size_t)q]), row[q], acc);
            STORE(t + i * n + j, acc);
        }
    }
}

/* Rows of B that are far from each other, in one step: FEW_ROWS rows on each is asked for. */
INLINE void stream_live(float *t, size_t m, size_t n, const float *a, size_t lda, const float *b,
                        size_t ldb, const int32_t *live, size_t left, const int P)
{
    const float *row[FEW_ROWS], *soon[FEW_ROWS];
    float own[FEW_LIVE * FEW_ROWS]; /* (m, P) of A */
    UNROLL for (int q = 0; q < P; q++)
    {
        row[q] = b + (size_t)live[q] * ldb;
        soon[q] = left > FEW_ROWS + (size_t)q ? b + (size_t)live[FEW_ROWS + q] * ldb : row[q];
    }
    for (size_t i = 0; i < m; i++)
        UNROLL for (int q = 0; q < P; q++) own[i * (size_t)P + (size_t)q] =
            a[i * lda + (size_t)live[q]];
    for (size_t j = 0; j < n; j += LANES) {
        VEC of[FEW_ROWS];
        UNROLL for (int q = 0; q < P; q++)
        {
            of[q] = LOAD(row[q] + j);
            if (LANES == 16 || j % 16 == 0) FETCH(soon[q] + j);
        }
        for (size_t i = 0; i < m; i++) {
            VEC acc = LOAD(t + i * n + j);
            UNROLL for (int q = 0; q < P; q++) acc =
                FMA(SET1(own[i * (size_t)P + (size_t)q]), of[q], acc);
            STORE(t + i * n + j, acc);
        }
    }
}

INLINE void few_begin(float *t, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) STORE(t + i, ZERO());
}

INLINE void few_end(float *c, size_t ldc, const float *t, size_t m, size_t n)
{
    for (size_t i = 0; i < m; i++)
        for (size_t e = 0; e < n; e += LANES)
            STORE(c + i * ldc + e, ADD(LOAD(c + i * ldc + e), LOAD(t + i * n + e)));
}

/* Columns at a time, so that C waits in the first cache. */
INLINE size_t few_columns(size_t m)
{
    const size_t room = FEW_FLOATS / (m ? m : 1) / 16 * 16;
    return room < FEW_COLS ? room : FEW_COLS;
}

static void gemm_live(float *c, size_t ldc, const float *a, size_t lda, const float *b, size_t ldb,
                      const int32_t *live, size_t m, size_t n, size_t k)
{
    float t[FEW_FLOATS] __attribute__((aligned(64)));
    const size_t most = few_columns(m);
    for (size_t j = 0; j < n; j += most) {
        const size_t cols = n - j < most ? n - j : most;
        for (size_t q = 0, end; q < k; q = end) {
            const int32_t part = live[q] / FEW_KC;
            for (end = q; end < k && live[end] / FEW_KC == part; end++)
                ;
            few_begin(t, m * cols);
            for (; q + FEW_ROWS <= end; q += FEW_ROWS)
                stream_live(t, m, cols, a, lda, b + j, ldb, live + q, k - q, FEW_ROWS);
            if (end - q >= 4)
                stream_live(t, m, cols, a, lda, b + j, ldb, live + q, k - q, 4), q += 4;
            if (end - q >= 2)
                stream_live(t, m, cols, a, lda, b + j, ldb, live + q, k - q, 2), q += 2;
            if (end > q) stream_live(t, m, cols, a, lda, b + j, ldb, live + q, k - q, 1);
            few_end(c + j, ldc, t, m, cols);
        }
    }
}

static void gemm_few(float *c, size_t ldc, const float *a, size_t lda, const float *b, size_t ldb,
                     size_t m, size_t n, size_t k)
{
    float t[FEW_FLOATS] __attribute__((aligned(64)));
    const size_t most = few_columns(m);
    for (size_t j = 0; j < n; j += most) {
        const size_t cols = n - j < most ? n - j : most;
        for (size_t p = 0; p < k; p += FEW_KC) {
            const size_t end = k - p < FEW_KC ? k : p + FEW_KC;
            size_t q = p;
            few_begin(t, m * cols);
            for (; q + FEW_ROWS <= end; q += FEW_ROWS)
                stream_rows(t, m, cols, a + q, lda, b + q * ldb + j, ldb, FEW_ROWS);
            for (; q < end; q++) stream_rows(t, m, cols, a + q, lda, b + q * ldb + j, ldb, 1);
            few_end(c + j, ldc, t, m, cols);
        }
    }
}

/* ---- the way back ---- */

/* R rows of W for M samples: a vector of gy meets W for gx and x for gw while it is in a register. */
INLINE void back_rows(const struct wisp_back *t, const int R, const int M)
{
    VEC acc[WISP_BACK_ROWS][WISP_BACK_SAMPLES];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int i = 0; i < M; i++) acc[r][i] = ZERO();
    for (size_t j = 0; j < t->n; j += LANES) {
        VEC w[WISP_BACK_ROWS], g[WISP_BACK_ROWS];
        UNROLL for (int r = 0; r < R; r++)
        {
            const size_t at = (size_t)r * t->w_row + j;
            w[r] = LOAD(t->w + at);
            g[r] = ZERO();
            if (LANES == 16 || j % 16 == 0) {
                LATER(t->w + WISP_BACK_ROWS * t->w_row + at);
                if (t->soon[0]) LATER(t->soon[0] + at);
                if (t->soon[1]) LATER(t->soon[1] + at);
            }
        }
        UNROLL for (int i = 0; i < M; i++)
        {
            const VEC gy = LOAD(t->gy + (size_t)i * t->gy_row + j);
            UNROLL for (int r = 0; r < R; r++)
            {
                acc[r][i] = FMA(w[r], gy, acc[r][i]);
                g[r] = FMA(SET1(t->x[(size_t)i * t->x_row + (size_t)r]), gy, g[r]);
            }
        }
        UNROLL for (int r = 0; r < R; r++) STORE(t->gw + (size_t)r * t->n + j, g[r]);
    }
    for (int r = 0; r < R && t->gx; r++)
        for (int i = 0; i < M; i++) {
            float part[LANES], sum = 0;
            STORE(part, acc[r][i]);
            for (int v = 0; v < LANES; v++) sum += part[v];
            t->gx[(size_t)i * t->x_row + (size_t)r] = sum;
        }
}

typedef void (*back_form)(const struct wisp_back *t);
#define BACK(R, M)                                                                                 \
    static void back_##R##_##M(const struct wisp_back *t)                                          \
    {                                                                                              \
        back_rows(t, R, M);                                                                        \
    }
/* clang-format off */
BACK(1, 1) BACK(1, 2) BACK(1, 3) BACK(1, 4) BACK(1, 5) BACK(1, 6) BACK(1, 7) BACK(1, 8)
#if WIDE_BACK
BACK(2, 1) BACK(2, 2) BACK(2, 3) BACK(2, 4) BACK(2, 5) BACK(2, 6) BACK(2, 7) BACK(2, 8)
#endif

static void back_few(const struct wisp_back *t)
{
    static const back_form one[] = { NULL, back_1_1, back_1_2, back_1_3, back_1_4, back_1_5,
                                     back_1_6, back_1_7, back_1_8 };
#if WIDE_BACK
    static const back_form two[] = { NULL, back_2_1, back_2_2, back_2_3, back_2_4, back_2_5,
                                     back_2_6, back_2_7, back_2_8 };
    if (t->rows == 2) {
        two[t->m](t);
        return;
    }
#endif
    /* clang-format on */
    struct wisp_back row = *t;
    for (size_t r = 0; r < t->rows; r++) {
        one[t->m](&row);
        row.w += t->w_row, row.x++, row.gw += t->n;
        if (row.gx) row.gx++;
        for (int i = 0; i < 2; i++)
            if (row.soon[i]) row.soon[i] += t->w_row;
    }
}

#endif
