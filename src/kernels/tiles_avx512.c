/* Sums of small products with 512-bit vectors: one to a block.  A tile is 14 rows of one or two
 * blocks, or 7 of four, 28 of the 32 registers. */
#include "kernels/kernels.h"

#include <immintrin.h>

#define VEC           __m512
#define LOAD(x)       _mm512_loadu_ps(x)
#define STORE(x, v)   _mm512_storeu_ps(x, v)
#define ZERO()        _mm512_setzero_ps()
#define SET1(x)       _mm512_set1_ps(x)
#define ADD(a, b)     _mm512_add_ps(a, b)
#define SUB(a, b)     _mm512_sub_ps(a, b)
#define MUL(a, b)     _mm512_mul_ps(a, b)
#define FMA(a, b, c)  _mm512_fmadd_ps(a, b, c)
#define MAX(a, b)     _mm512_max_ps(a, b)
#define MASK          __mmask16
#define ABOVE(a, b)   _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ)
#define MORE(a, b)    _mm512_cmp_ps_mask(a, b, _CMP_NLE_UQ)
#define NUMBER(a)     _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q)
#define SAME(a, b)    _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ)
#define LIVE(a)       ((uint64_t)__builtin_popcount(_mm512_cmp_ps_mask(a, ZERO(), _CMP_NEQ_UQ)))
#define AND(m, n)     ((MASK)((m) & (n)))
#define KEEP(m, a)    _mm512_maskz_mov_ps(m, a)
#define PICK(m, a, b) _mm512_mask_blend_ps(m, b, a)
#define ROWS(B)       ((B) == 4 ? 7 : 14)
enum { LANES = 16, PER = 1, BLOCKS = 4, ENOUGH = 14 };
#include "kernels/tiles.h"

INLINE void PLACES(uint8_t *to, const VEC w[PER])
{
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(w[0])));
}
INLINE void NUMBERS(VEC w[PER], const uint8_t *from)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)from);
    w[0] = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}
#include "kernels/planes.h"

#define FETCH(x)  _mm_prefetch((const char *)(x), _MM_HINT_T0)
#define LATER(x)  _mm_prefetch((const char *)(x), _MM_HINT_T1)
#define WIDE_BACK 1
#include "kernels/stream.h"

/* clang-format off */
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1) TILE(7, 1)
TILE(8, 1) TILE(9, 1) TILE(10, 1) TILE(11, 1) TILE(12, 1) TILE(13, 1) TILE(14, 1)
TILE(1, 2) TILE(2, 2) TILE(3, 2) TILE(4, 2) TILE(5, 2) TILE(6, 2) TILE(7, 2)
TILE(8, 2) TILE(9, 2) TILE(10, 2) TILE(11, 2) TILE(12, 2) TILE(13, 2) TILE(14, 2)
TILE(1, 4) TILE(2, 4) TILE(3, 4) TILE(4, 4) TILE(5, 4) TILE(6, 4) TILE(7, 4)

static const tile_form forms[BLOCKS + 1][ROWS(1) + 1] = {
    [1] = { NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, tile_7_1,
            tile_8_1, tile_9_1, tile_10_1, tile_11_1, tile_12_1, tile_13_1, tile_14_1 },
    [2] = { NULL, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2, tile_7_2,
            tile_8_2, tile_9_2, tile_10_2, tile_11_2, tile_12_2, tile_13_2, tile_14_2 },
    [4] = { NULL, tile_1_4, tile_2_4, tile_3_4, tile_4_4, tile_5_4, tile_6_4, tile_7_4 },
};
/* clang-format on */

static void tiles(const struct wisp_tiles *t)
{
    all_tiles(t, forms);
}

void wisp_kernels_tiles_avx512(struct wisp_kernels *k)
{
    k->tiles = tiles;
    k->winograd = winograd;
    install_planes(k);
    k->gemm_few = gemm_few;
    k->gemm_live = gemm_live;
    k->back_few = back_few;
}
