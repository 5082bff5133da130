/* The scan in fp32: see scan.cu.
 *
 * A tile is 256 rows and 128 samples, a thread has 16 x 8 of it: rows ty + 16 i, samples tx + 16 i.
 * Chunks of 32 columns of both, two in shared memory: rows of 36 floats (40 halves), so that 8 rows
 * side by side are in different banks. */
#ifndef WISP_CUDA_SCAN_FP32_CUH
#define WISP_CUDA_SCAN_FP32_CUH

#include "cuda/scan.cuh"

template <bool HALF>
static __device__ __forceinline__ void ask_fp32(const struct job &j, const struct pass &p, int t,
                                                int c, uint32_t to, int first, int n)
{
    constexpr int PITCH = HALF ? 80 : 144, SIZE = HALF ? 2 : 4;
    const int m = threadIdx.x / 8, piece = threadIdx.x % 8, col = c * F_COLS + piece * 4;
    if (col >= (int)j.width) return;
    const int index = index_of(p, t, m), rows_left = p.count - index, jump = 32 * p.tiles;
    const char *rows = (const char *)j.rows;
    const char *from = rows + ((size_t)index * p.stride * j.width + col) * SIZE;
    const float *h = j.h + (size_t)(first + m) * j.width + col;
    const uint32_t here = to + m * PITCH + piece * 4 * SIZE;
#pragma unroll
    for (int i = 0; i < F_ROWS / 32; i++) {
        bool there = i * jump < rows_left;
        const char *x = there ? from + i * p.jump * (32 * SIZE) : rows;
        if (HALF) copy8(here + 32 * i * PITCH, x, there);
        else copy16(here + 32 * i * PITCH, x, there);
    }
#pragma unroll
    for (int i = 0; i < F_SAMPLES / 32; i++) {
        bool there = first + m + 32 * i < n;
        copy16(to + F_ROWS * PITCH + (m + 32 * i) * 144 + piece * 16,
               there ? h + 32 * i * j.width : j.h, there);
    }
}

template <bool HALF>
static __global__ void __launch_bounds__(256, 1) scan_simt(const struct job j, const struct pass p)
{
    constexpr int PITCH = HALF ? 80 : 144, BYTES = F_ROWS * PITCH + F_SAMPLES * 144;
    extern __shared__ unsigned char pool[];
    const int first = (int)(blockIdx.x % j.ways) * F_SAMPLES, n = (int)*j.n;
    if (first >= n) return;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tx = warp / 4 * 8 + lane % 8, ty = warp % 4 * 4 + lane / 8;
    const int chunks = ((int)j.width + F_COLS - 1) / F_COLS, mine = blockIdx.x / j.ways;
    unsigned char *slots = align_pool(pool);

    int ask_t = mine, ask_c = 0;
    if (ask_t < p.tiles) ask_fp32<HALF>(j, p, ask_t, ask_c, shared_at(slots), first, n);
    copy_commit();
    if (++ask_c == chunks) ask_c = 0, ask_t += p.groups;
    const struct desk d = open_desk(j, p, slots + 2 * BYTES, first);
    __syncthreads();

    for (int t = mine, at = 0, turn = 0; t < p.tiles; t += p.groups, turn++) {
        float acc[16][8];
#pragma unroll
        for (int i = 0; i < 128; i++) acc[i / 8][i % 8] = 0;
        for (int c = 0; c < chunks; c++) {
            copy_wait<0>();
            __syncthreads(); /* it is here, and the chunk before is done with */
            const unsigned char *w = slots + at * BYTES, *h = w + F_ROWS * PITCH;
            at ^= 1;
            if (ask_t < p.tiles)
                ask_fp32<HALF>(j, p, ask_t, ask_c, shared_at(slots) + at * BYTES, first, n);
            copy_commit();
            if (++ask_c == chunks) ask_c = 0, ask_t += p.groups;
            const int left = ((int)j.width - c * F_COLS) / 4, quads = left < 8 ? left : 8;
#pragma unroll 1
            for (int q = 0; q < quads; q++) {
                float4 y[8];
#pragma unroll
                for (int i = 0; i < 8; i++)
                    y[i] = *(const float4 *)(h + (tx + 16 * i) * 144 + q * 16);
#pragma unroll
                for (int r = 0; r < 16; r++) {
                    float4 x;
                    if (HALF) {
                        uint2 u = *(const uint2 *)(w + (ty + 16 * r) * PITCH + q * 8);
                        x = make_float4(
                            __uint_as_float(u.x << 16), __uint_as_float(u.x & 0xffff0000u),
                            __uint_as_float(u.y << 16), __uint_as_float(u.y & 0xffff0000u));
                    } else {
                        x = *(const float4 *)(w + (ty + 16 * r) * PITCH + q * 16);
                    }
#pragma unroll
                    for (int i = 0; i < 8; i++) acc[r][i] = fmaf(x.x, y[i].x, acc[r][i]);
#pragma unroll
                    for (int i = 0; i < 8; i++) acc[r][i] = fmaf(x.y, y[i].y, acc[r][i]);
#pragma unroll
                    for (int i = 0; i < 8; i++) acc[r][i] = fmaf(x.z, y[i].z, acc[r][i]);
#pragma unroll
                    for (int i = 0; i < 8; i++) acc[r][i] = fmaf(x.w, y[i].w, acc[r][i]);
                }
            }
        }
        const int index = index_of(p, t, ty);
        float limit[8], best[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            limit[i] = d.limit[tx + 16 * i];
            best[i] = -INFINITY;
        }
#pragma unroll
        for (int r = 0; r < 16; r++) {
            float bias = bias_of(j, p, index + 16 * r * p.tiles), z[8];
#pragma unroll
            for (int i = 0; i < 8; i++) z[i] = acc[r][i] + bias;
            if (!p.some) sift(j, d, z, limit, tx, 64, 32, 16, index + 16 * r * p.tiles, 0);
#pragma unroll
            for (int i = 0; i < 8; i++) best[i] = fmaxf(best[i], z[i]);
        }
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (p.some)
                put_peak(j, p, first + tx + 16 * i, mine * p.slots + turn % p.slots, turn, ty,
                         best[i]);
        __syncwarp();
    }
    if (!p.some) close_desk(j, d);
}

#endif
