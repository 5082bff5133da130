/* Sums of small products with 256-bit vectors: two to a block, so a tile is 6 rows of one block or
 * 3 of two, 12 of the 16 registers. */
#include "kernels/kernels.h"

#include <immintrin.h>

#define VEC          __m256
#define LOAD(x)      _mm256_loadu_ps(x)
#define STORE(x, v)  _mm256_storeu_ps(x, v)
#define ZERO()       _mm256_setzero_ps()
#define SET1(x)      _mm256_set1_ps(x)
#define ADD(a, b)    _mm256_add_ps(a, b)
#define SUB(a, b)    _mm256_sub_ps(a, b)
#define MUL(a, b)    _mm256_mul_ps(a, b)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define MAX(a, b)    _mm256_max_ps(a, b)
#define MASK         __m256
#define ABOVE(a, b)  _mm256_cmp_ps(a, b, _CMP_GT_OQ)
#define MORE(a, b)   _mm256_cmp_ps(a, b, _CMP_NLE_UQ)
#define NUMBER(a)    _mm256_cmp_ps(a, a, _CMP_ORD_Q)
#define SAME(a, b)   _mm256_cmp_ps(a, b, _CMP_EQ_OQ)
#define LIVE(a)                                                                                    \
    ((uint64_t)__builtin_popcount(                                                                 \
        (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, ZERO(), _CMP_NEQ_UQ))))
#define AND(m, n)     _mm256_and_ps(m, n)
#define KEEP(m, a)    _mm256_and_ps(m, a)
#define PICK(m, a, b) _mm256_blendv_ps(b, a, m)
#define ROWS(B)       (6 / (B))
enum { LANES = 8, PER = 2, BLOCKS = 2, ENOUGH = 6 };
#include "kernels/tiles.h"

INLINE void PLACES(uint8_t *to, const VEC w[PER])
{
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(w[0]), _mm256_cvtps_epi32(w[1]));
    const __m256i order = _mm256_permute4x64_epi64(words, 0xd8);
    _mm_storeu_si128((__m128i *)to, _mm_packus_epi16(_mm256_castsi256_si128(order),
                                                     _mm256_extracti128_si256(order, 1)));
}
INLINE void NUMBERS(VEC w[PER], const uint8_t *from)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)from);
    w[0] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    w[1] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)));
}
#include "kernels/planes.h"

#define FETCH(x)  _mm_prefetch((const char *)(x), _MM_HINT_T0)
#define LATER(x)  _mm_prefetch((const char *)(x), _MM_HINT_T1)
#define WIDE_BACK 0
#include "kernels/stream.h"

/* clang-format off */
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1)
TILE(1, 2) TILE(2, 2) TILE(3, 2)

static const tile_form forms[BLOCKS + 1][ROWS(1) + 1] = {
    [1] = { NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1 },
    [2] = { NULL, tile_1_2, tile_2_2, tile_3_2 },
};
/* clang-format on */

static void tiles(const struct wisp_tiles *t)
{
    all_tiles(t, forms);
}

void wisp_kernels_tiles_avx2(struct wisp_kernels *k)
{
    k->tiles = tiles;
    k->winograd = winograd;
    install_planes(k);
    k->gemm_few = gemm_few;
    k->gemm_live = gemm_live;
    k->back_few = back_few;
}
