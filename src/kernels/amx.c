/* Products of bf16 by AMX tiles (Sapphire Rapids and later).
 *
 * A tile register holds 16 rows of 64 bytes.  C is made 32 x 32 at a time in four of them:
 *
 *               b0 b1      per 32 of k: 4 loads, 4 products of 16 x 16 x 32
 *          a0 [ t0 t1 ]
 *          a1 [ t2 t3 ]
 *
 * They begin as zeros, as the bias or as the old C, and are stored where C lies; only at the edges
 * of C they go through a buffer.  gcc's tile intrinsics do not tell the compiler that they read and
 * write memory: barriers do. */
#include "kernels/kernels.h"

#include <immintrin.h>
#include <string.h>

#define INLINE    static inline __attribute__((always_inline))
#define BARRIER() __asm__ volatile("" ::: "memory")

enum { SIDE = 16, SQUARE = 32, K_STEP = 32, PANEL_STEP = K_STEP / 2 * SIDE };

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

/* What the four tiles begin as: rows ld floats apart, the right half 'right' floats on; NULL: 0. */
INLINE void load_square(const float *from, size_t ld, size_t right)
{
    if (!from) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    _tile_loadd(0, from, ld * sizeof *from);
    _tile_loadd(1, from + right, ld * sizeof *from);
    _tile_loadd(2, from + SIDE * ld, ld * sizeof *from);
    _tile_loadd(3, from + SIDE * ld + right, ld * sizeof *from);
}

/* 32 rows of A, or the first 16 of them, times 2 panels of B. */
INLINE void multiply(const bool both, const uint16_t *a, size_t lda, const uint32_t *b0,
                     const uint32_t *b1, size_t k)
{
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
}

INLINE void store_square(float *to, size_t ld)
{
    _tile_stored(0, to, ld * sizeof *to);
    _tile_stored(1, to + SIDE, ld * sizeof *to);
    _tile_stored(2, to + SIDE * ld, ld * sizeof *to);
    _tile_stored(3, to + SIDE * ld + SIDE, ld * sizeof *to);
}

INLINE __mmask16 first(size_t n)
{
    return n >= SIDE ? 0xffff : (__mmask16)((1u << n) - 1);
}

/* Between an (m, n) corner of a buffer and C, which a bias may be added to; the rest of the buffer
 * becomes 0. */
INLINE void get_corner(float *buffer, const float *c, size_t ldc, const float *bias, size_t m,
                       size_t n)
{
    const __mmask16 left = first(n), right = n > SIDE ? first(n - SIDE) : 0;
    memset(buffer, 0, SQUARE * SQUARE * sizeof *buffer);
    for (size_t i = 0; i < m; i++, c += ldc, buffer += SQUARE) {
        const __m512 more = _mm512_set1_ps(bias ? bias[i] : 0);
        _mm512_storeu_ps(buffer, _mm512_add_ps(_mm512_maskz_loadu_ps(left, c), more));
        _mm512_storeu_ps(buffer + SIDE,
                         _mm512_add_ps(_mm512_maskz_loadu_ps(right, c + SIDE), more));
    }
}

INLINE void put_corner(float *c, size_t ldc, const float *buffer, size_t m, size_t n)
{
    const __mmask16 left = first(n), right = n > SIDE ? first(n - SIDE) : 0;
    for (size_t i = 0; i < m; i++, c += ldc, buffer += SQUARE) {
        _mm512_mask_storeu_ps(c, left, _mm512_loadu_ps(buffer));
        _mm512_mask_storeu_ps(c + SIDE, right, _mm512_loadu_ps(buffer + SIDE));
    }
}

/* Each of 32 rows of 16 its bias. */
INLINE void spread(float *start, const float *bias, size_t m)
{
    for (size_t i = 0; i < SQUARE; i++)
        _mm512_storeu_ps(start + i * SIDE, _mm512_set1_ps(i < m ? bias[i] : 0));
}

static void gemm16(float *c, size_t ldc, const uint16_t *a, size_t lda, const uint32_t *b,
                   size_t ldb, const float *bias, size_t m, size_t n, size_t k, bool add)
{
    float buffer[SQUARE * SQUARE] __attribute__((aligned(64)));
    float start[SQUARE * SIDE] __attribute__((aligned(64)));
    use_tiles();
    for (size_t i = 0; i < m; i += SQUARE, a += SQUARE * lda, c += SQUARE * ldc) {
        const size_t rows = m - i < SQUARE ? m - i : SQUARE;
        if (bias) spread(start, bias + i, rows);
        for (size_t j = 0; j < n; j += SQUARE) {
            const size_t columns = n - j < SQUARE ? n - j : SQUARE;
            const uint32_t *b0 = b + j / SIDE * ldb, *b1 = columns > SIDE ? b0 + ldb : b0;
            const bool whole = rows == SQUARE && columns == SQUARE && !(bias && add);
            float *to = c + j;
            if (add && !whole) get_corner(buffer, to, ldc, bias ? bias + i : NULL, rows, columns);
            BARRIER();
            if (bias && !add) load_square(start, SIDE, 0);
            else if (add && whole) load_square(to, ldc, SIDE);
            else load_square(add ? buffer : NULL, SQUARE, SIDE);
            if (rows > SIDE) multiply(true, a, lda, b0, b1, k);
            else multiply(false, a, lda, b0, b1, k);
            if (whole) store_square(to, ldc);
            else store_square(buffer, SQUARE);
            BARRIER();
            if (!whole) put_corner(to, ldc, buffer, rows, columns);
        }
    }
    _tile_release();
}

/* ---- sums of small products ---- */

#define TILES_BEGIN()          use_tiles()
#define TILES_END()            _tile_release()
#define TILE_ZERO(t)           _tile_zero(t)
#define TILE_LOAD(t, from, ld) _tile_loadd(t, from, ld)
#define TILE_STORE(t, to, ld)  _tile_stored(t, to, ld)
#define TILE_DOT(c, a, b)      _tile_dpbf16ps(c, a, b)
#define VEC                    __m512
#define LOAD(x)                _mm512_loadu_ps(x)
#define STORE(x, v)            _mm512_storeu_ps(x, v)
#define ZERO()                 _mm512_setzero_ps()
#define ADD(a, b)              _mm512_add_ps(a, b)
#define MAX(a, b)              _mm512_max_ps(a, b)
#define LIVE(a)                ((uint64_t)__builtin_popcount(_mm512_cmp_ps_mask(a, ZERO(), _CMP_NEQ_UQ)))
#define WHERE_ABOVE(m, v)                                                                          \
    _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(m, _mm512_setzero_ps(), _CMP_GT_OQ), v)
#include "kernels/tiles16.h"

void wisp_kernels_amx(struct wisp_kernels *k)
{
    k->fast16 = true;
    k->gemm16 = gemm16;
    k->tiles16 = tiles16;
    k->sums16 = sums16;
}
