/* Instructions for products on tensor cores that scans and the output layer share: copies into
 * shared memory that do not wait, barriers of a part of a block, and (sm_90a) wgmma.
 *
 * A matrix of wgmma lies in shared memory in boxes: rows of 128 bytes (64 bf16), eight of them to
 * 1024 bytes at a multiple of 1024, the 16-byte piece p of row r at place p ^ r % 8.  What counts
 * rows may be the index of the sum or the other one. */
#ifndef WISP_CUDA_WGMMA_CUH
#define WISP_CUDA_WGMMA_CUH

#include <stdint.h>

static __device__ inline uint32_t shared_at(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define ASM80(...) asm volatile(__VA_ARGS__)
#else
#define ASM80(...) (void)0 /* the kernels are not launched there */
#endif

/* 16 bytes to shared memory, zeros where there is nothing. */
static __device__ inline void copy16(uint32_t to, const void *from, bool there)
{
    ASM80("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
          "r"(there ? 16 : 0)
          : "memory");
}
/* The same of 4 or 8 bytes. */
template <int BYTES>
static __device__ inline void copy_few(uint32_t to, const void *from, bool there)
{
    ASM80("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(from),
          "r"(there ? BYTES : 0), "n"(BYTES)
          : "memory");
}
static __device__ inline void copy_commit(void)
{
    ASM80("cp.async.commit_group;" ::: "memory");
}
template <int N> static __device__ inline void copy_wait(void) /* for all but the last N commits */
{
    ASM80("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
static __device__ inline void bar_sync(int bar, int threads)
{
    ASM80("bar.sync %0, %1;" ::"r"(bar), "r"(threads) : "memory");
}
static __device__ inline unsigned char *align_pool(unsigned char *pool)
{
    return pool + ((1024 - (shared_at(pool) & 1023)) & 1023);
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

static __device__ inline void bar_arrive(int bar, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(bar), "r"(threads) : "memory");
}
static __device__ inline void wgmma_see_copies(void) /* what this thread stored or copied */
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
static __device__ inline void wgmma_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ inline void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> static __device__ inline void wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* A box whose rows are those of the operand: the sum goes along them, 16 numbers are 32 bytes. */
static __device__ inline uint64_t wgmma_matrix(uint32_t at)
{
    return (uint64_t)(at >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}
/* Boxes whose rows the sum counts, 16 of them are 2048 bytes; 64 rows each, and the operand's next
 * 64 columns are in the next box. */
static __device__ inline uint64_t wgmma_turned(uint32_t at)
{
    return (uint64_t)(at >> 4) | (uint64_t)(8192 >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

#define WGMMA_4(x)  "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
#define WGMMA_16(i) WGMMA_4(acc[i]), WGMMA_4(acc[i + 1]), WGMMA_4(acc[i + 2]), WGMMA_4(acc[i + 3])
#define WGMMA_32    WGMMA_16(0), WGMMA_16(4)
#define WGMMA_64    WGMMA_16(0), WGMMA_16(4), WGMMA_16(8), WGMMA_16(12)

/* Results are in their registers only from here on. */
static __device__ inline void wgmma_results(float (&acc)[16][4])
{
    asm volatile("" : WGMMA_64 : : "memory");
}
static __device__ inline void wgmma_results(float (&acc)[8][4])
{
    asm volatile("" : WGMMA_32 : : "memory");
}
/* acc (64, 128) += or = 16 terms of each sum; acc[b] of a thread are rows 16 (warp % 4) + lane / 4,
 * the last two 8 on, and columns 8 b + 2 (lane % 4) and 1 on. */
template <bool A_TURNED, bool B_TURNED>
static __device__ inline void wgmma128(float (&acc)[16][4], uint64_t a, uint64_t b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
                 "}, %64, %65, p, 1, 1, %67, %68;\n}\n"
                 : WGMMA_64
                 : "l"(a), "l"(b), "r"(add), "n"(A_TURNED ? 1 : 0), "n"(B_TURNED ? 1 : 0)
                 : "memory");
}
/* The same of 64 columns. */
template <bool A_TURNED, bool B_TURNED>
static __device__ inline void wgmma64(float (&acc)[8][4], uint64_t a, uint64_t b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, %32, %33, p, 1, 1, %35, %36;\n}\n"
                 : WGMMA_32
                 : "l"(a), "l"(b), "r"(add), "n"(A_TURNED ? 1 : 0), "n"(B_TURNED ? 1 : 0)
                 : "memory");
}

#endif

#endif
