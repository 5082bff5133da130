/* Sums over the numbers that are not 0, with vectors: the text that live_avx2.c and live_avx512.c
 * share.  Who includes it has named the vector:
 *
 *   VEC, LANES       a vector of floats
 *   PER              vectors of a block of 16
 *   LOAD, STORE, SET1, FMA (a b + c)
 *
 * Where a number is 0 its products are not computed; else it is broadcast once and multiplied with
 * as many vectors as the registers have sums for.  Each of these vectors is read from memory, so it
 * must be in the first cache, and the reads are the limit: N vectors take N + 1 reads, two in a
 * cycle.  The bits of the numbers are walked from the lowest to the highest, so a sum has a fixed
 * order.
 *
 * live_row: sums of neighbouring places overlap, and wander through the registers:
 *
 *   place i:      [c(i) c(i + 1) c(i + 2)]     c(i) is finished and stored, c(i + 3) is loaded
 *   place i + 1:         [c(i + 1) c(i + 2) c(i + 3)]
 *
 * How often the loop over bits runs is not foreseen by the processor; meanwhile it works through the
 * multiply-adds that wait.  Sums come from the second cache, in order, which needs no help: asking
 * for them early was up to 9 % slower on rows of 13 pixels and no faster on rows of 56.  What the next
 * call reads ('soon') comes from farther away, and is asked for early. */
#ifndef WISP_KERNELS_LIVE_H
#define WISP_KERNELS_LIVE_H

#define INLINE      static inline __attribute__((always_inline))
#define UNROLL      _Pragma("GCC unroll 32")
#define LINE_FLOATS 16
/* The address is computed once: a sum of two registers in each multiply-add would cost a step of its
 * own there. */
#define ONCE(p) __asm__("" : "+r"(p))

/* Place i, whose first sums are those of register set R. */
INLINE void place(const struct wisp_live_row *t, size_t i, const float **x,
                  VEC acc[WISP_LIVE_TAPS][MOST_BLOCKS * PER], const int R, const int T, const int B)
{
    const int last = (R + T - 1) % T, V = B * PER;
    float *c = t->c + i * (size_t)B * 16, *next = c + (size_t)(T - 1) * B * 16;
    UNROLL for (int v = 0; v < V; v++) acc[last][v] = LOAD(next + v * LANES);
    for (uint64_t m = t->live[i]; m; m &= m - 1) {
        const size_t j = (size_t)__builtin_ctzll(m);
        const float *w = t->w + j * (size_t)(T * B * 16);
        const VEC a = SET1(*(*x)++);
        ONCE(w);
        UNROLL for (int s = 0; s < T; s++) UNROLL for (int v = 0; v < V; v++) acc[(R + s) % T][v] =
            FMA(a, LOAD(w + (s * V + v) * LANES), acc[(R + s) % T][v]);
    }
    UNROLL for (int v = 0; v < V; v++) STORE(c + v * LANES, acc[R % T][v]);
}

INLINE void row(const struct wisp_live_row *job, const int T, const int B)
{
    const struct wisp_live_row own = *job, *t = &own; /* what is stored does not change it */
    VEC acc[WISP_LIVE_TAPS][MOST_BLOCKS * PER];
    const int V = B * PER;
    const float *soon = t->soon ? t->soon : t->w, *x = t->x;
    const size_t line = t->soon ? LINE_FLOATS : 0;
    size_t i = 0;
    UNROLL for (int s = 0; s < T - 1; s++) UNROLL for (int v = 0; v < V; v++) acc[s][v] =
        LOAD(t->c + (s * V + v) * LANES);
    for (; i + (size_t)T <= t->n; i += (size_t)T) UNROLL for (int R = 0; R < T; R++)
        {
            __builtin_prefetch(soon + (i + (size_t)R) * line, 0, 2);
            place(t, i + (size_t)R, &x, acc, R, T, B);
        }
    UNROLL for (int R = 0; R < T; R++) /* what is left, and the sums that no place follows */
    {
        if (i == t->n) {
            UNROLL for (int s = 0; s < T - 1; s++) UNROLL for (int v = 0; v < V; v++)
                STORE(t->c + i * (size_t)B * 16 + (s * V + v) * LANES, acc[(R + s) % T][v]);
            return;
        }
        place(t, i, &x, acc, R, T, B);
        i++;
    }
}

typedef void (*row_form)(const struct wisp_live_row *t);
#define ROW(T, B)                                                                                  \
    static void row_##T##_##B(const struct wisp_live_row *t)                                       \
    {                                                                                              \
        row(t, T, B);                                                                              \
    }

/* R rows of N vectors of 16: N is taps * blocks, which lie side by side. */
INLINE void sums(const struct wisp_live_sums *job, const int R, const int N)
{
    const struct wisp_live_sums own = *job, *t = &own;
    const int V = N * PER;
    const size_t pitch = t->blocks * 16, down = WISP_LIVE_COLS * pitch, each = (size_t)(R * N) * 16;
    size_t due = 0;
    for (size_t i = 0; i < t->n; i++) {
        VEC acc[WISP_LIVE_TAPS][MOST_SUMS * PER];
        float *c = t->c + i * each;
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) acc[r][v] =
            LOAD(c + (r * V + v) * LANES);
        UNROLL for (int v = 0; v < R * N; v++)
            __builtin_prefetch(c + each + (size_t)v * LINE_FLOATS, 1);
        for (; due * t->n < t->n_soon * (i + 1); due++)
            for (size_t l = 0; t->soon[due] && l < t->lines; l++)
                __builtin_prefetch(t->soon[due] + l * LINE_FLOATS, 0, 2);
        const float *at = t->v, *x = t->x + i * t->words * 64;
        const uint64_t *live = t->live + i * t->words;
        for (size_t word = 0; word < t->words; word++, at += 64 * pitch)
            for (uint64_t m = live[word]; m; m &= m - 1) {
                const size_t p = (size_t)__builtin_ctzll(m);
                const float *b = at + p * pitch;
                const VEC a = SET1(*x++);
                ONCE(b);
                UNROLL for (int r = 0; r < R; r++, b += down) UNROLL for (int v = 0; v < V; v++)
                    acc[r][v] = FMA(a, LOAD(b + v * LANES), acc[r][v]);
            }
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++)
            STORE(c + (r * V + v) * LANES, acc[r][v]);
    }
}

typedef void (*sums_form)(const struct wisp_live_sums *t);
#define SUMS(R, N)                                                                                 \
    static void sums_##R##_##N(const struct wisp_live_sums *t)                                     \
    {                                                                                              \
        sums(t, R, N);                                                                             \
    }

#endif
