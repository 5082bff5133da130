/* Products of bf16 by AMX tiles (Sapphire Rapids and later).
 *
 * A tile register holds 16 rows of 64 bytes.  C is made 32 x 32 at a time in four of them:
 *
 *               b0 b1      per 32 of k: 4 loads, 4 products of 16 x 16 x 32
 *          a0 [ t0 t1 ]
 *          a1 [ t2 t3 ]
 *
 * The sums go through a buffer, where bias or the old C is added; so tiles at the edge of C need
 * nothing special.  gcc's tile intrinsics do not tell the compiler that they read and write memory:
 * barriers do. */
#include "kernels/kernels.h"

#include <immintrin.h>
#include <string.h>

#define INLINE    static inline __attribute__((always_inline))
#define BARRIER() __asm__ volatile("" ::: "memory")

enum { SIDE = 16, K_STEP = 32, PANEL_STEP = K_STEP / 2 * SIDE };

struct config { /* the 64 bytes that ldtilecfg reads */
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

INLINE void use_tiles(void)
{
    struct config c __attribute__((aligned(64))) = { .palette = 1 };
    for (int i = 0; i < 8; i++) c.row_bytes[i] = 64, c.rows[i] = SIDE;
    BARRIER();
    _tile_loadconfig(&c);
    BARRIER();
}

/* sums (32, 32) = 32 rows of A, or the first 16 of them, times 2 panels of B. */
INLINE void square(const bool both, float *sums, const uint16_t *a, size_t lda, const uint32_t *b0,
                   const uint32_t *b1, size_t k)
{
    BARRIER();
    _tile_zero(0);
    _tile_zero(1);
    if (both) _tile_zero(2);
    if (both) _tile_zero(3);
    for (size_t p = 0; p < k; p += K_STEP, b0 += PANEL_STEP, b1 += PANEL_STEP) {
        _tile_loadd(4, a + p, lda * sizeof *a);
        _tile_loadd(6, b0, 64);
        _tile_loadd(7, b1, 64);
        if (both) _tile_loadd(5, a + SIDE * lda + p, lda * sizeof *a);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (both) _tile_dpbf16ps(2, 5, 6);
        if (both) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, 128);
    _tile_stored(1, sums + SIDE, 128);
    if (both) _tile_stored(2, sums + SIDE * 32, 128);
    if (both) _tile_stored(3, sums + SIDE * 32 + SIDE, 128);
    BARRIER();
}

INLINE __mmask16 first(size_t n)
{
    return n >= SIDE ? 0xffff : (__mmask16)((1u << n) - 1);
}

/* Adds what belongs to the sums of an (m, n) corner and puts them into C. */
INLINE void put(float *c, size_t ldc, const float *sums, const float *bias, size_t m, size_t n,
                bool add)
{
    const __mmask16 left = first(n), right = n > SIDE ? first(n - SIDE) : 0;
    for (size_t i = 0; i < m; i++, c += ldc, sums += 32) {
        __m512 x = _mm512_loadu_ps(sums), y = _mm512_loadu_ps(sums + SIDE);
        if (bias) {
            x = _mm512_add_ps(x, _mm512_set1_ps(bias[i]));
            y = _mm512_add_ps(y, _mm512_set1_ps(bias[i]));
        }
        if (add) {
            x = _mm512_add_ps(_mm512_maskz_loadu_ps(left, c), x);
            y = _mm512_add_ps(_mm512_maskz_loadu_ps(right, c + SIDE), y);
        }
        _mm512_mask_storeu_ps(c, left, x);
        _mm512_mask_storeu_ps(c + SIDE, right, y);
    }
}

static void gemm16(float *c, size_t ldc, const uint16_t *a, size_t lda, const uint32_t *b,
                   size_t ldb, const float *bias, size_t m, size_t n, size_t k, bool add)
{
    float sums[32 * 32] __attribute__((aligned(64)));
    use_tiles();
    for (size_t i = 0; i < m; i += 32) {
        const size_t rows = m - i < 32 ? m - i : 32;
        for (size_t j = 0; j < n; j += 32) {
            const size_t columns = n - j < 32 ? n - j : 32;
            const uint32_t *b0 = b + j / SIDE * ldb, *b1 = columns > SIDE ? b0 + ldb : b0;
            if (rows > SIDE) square(true, sums, a + i * lda, lda, b0, b1, k);
            else square(false, sums, a + i * lda, lda, b0, b1, k);
            put(c + i * ldc + j, ldc, sums, bias ? bias + i : NULL, rows, columns, add);
        }
    }
    _tile_release();
}

void wisp_kernels_amx(struct wisp_kernels *k)
{
    k->fast16 = true;
    k->gemm16 = gemm16;
}
