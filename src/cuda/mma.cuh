/* Products of a warp on tensor cores (sm_80 and later), as functions.
 *
 * A product of a warp is (16 rows, 32 bytes of terms) x (32 bytes of terms, 8 columns): 16 terms of
 * bf16, or 8 floats rounded to TF32.  In units of 4 bytes both have the same layout, so that one
 * ldmatrix pattern serves both:
 *
 *   a[0..3]   lane l: row l / 4, then row l / 4 + 8, word l % 4; the same, word l % 4 + 4
 *   b[0..1]   column l / 4, word l % 4; word l % 4 + 4
 *   d[0..3]   row l / 4, columns l % 4 * 2 and the next; the same of row l / 4 + 8 */
#ifndef WISP_CUDA_MMA_CUH
#define WISP_CUDA_MMA_CUH

#include <cuda_bf16.h>
#include <stdint.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define WISP_MMA 1
#endif

/* Four 8 x 16-byte matrices; lane l gives the address of row l % 8 of matrix l / 8. */
__device__ static inline void wisp_ldmatrix(uint32_t (&r)[4], uint32_t at)
{
#ifdef WISP_MMA
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
#endif
}
/* The same, each 8 x 8 matrix of bf16 turned round. */
__device__ static inline void wisp_ldmatrix_turned(uint32_t (&r)[4], uint32_t at)
{
#ifdef WISP_MMA
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
#endif
}

__device__ static inline uint32_t wisp_tf32(uint32_t x) /* a float, rounded to nearest */
{
#ifdef WISP_MMA
    uint32_t y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(__uint_as_float(x)));
    return y;
#else
    return x;
#endif
}

/* d += a b, of values of type T: float (rounded before by wisp_tf32) or bf16. */
template <class T>
__device__ static inline void wisp_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1)
{
#ifdef WISP_MMA
    if (sizeof(T) == 2)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

#endif
