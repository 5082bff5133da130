/* Scans with products in bf16 on tensor cores: see scan.cu.  Two versions of one kernel. */
#ifndef WISP_CUDA_SCAN_BF16_CUH
#define WISP_CUDA_SCAN_BF16_CUH

#include "cuda/scan.cuh"

/* ---- what both versions share ---- */

/* h of the block's samples, chunk by chunk. */
static __device__ void place_h(const struct job &j, unsigned char *h, int first)
{
    const int per = j.padded / 8;
#pragma unroll 4
    for (int e = threadIdx.x; e < j.ns * per; e += blockDim.x) {
        int s = e / per, piece = e % per;
        uint4 x = *(const uint4 *)(j.h16 + (size_t)(first + s) * j.padded + 8 * piece);
        *(uint4 *)(h + (piece / 8 * j.ns + s) * 128 + ((piece % 8 ^ s % 8) << 4)) = x;
    }
}

/* Asks for chunk c of tile t, by a group.  Rows of bf16 arrive in their places; those of floats as
 * they are copied, 16 bytes per thread, for narrow().  All but the last tiles have all their rows:
 * there a copy is three instructions. */
template <bool FLOAT>
static __device__ __forceinline__ void ask(const struct job &j, const struct pass &p, int t, int c,
                                           uint32_t to, int tid)
{
    constexpr int PER = FLOAT ? 16 : 8, COLS = FLOAT ? 4 : 8, SIZE = FLOAT ? 4 : 2;
    constexpr int ROWS = GROUP / PER; /* at a time: a multiple of 8 */
    constexpr int STEP = FLOAT ? GROUP * 16 : ROWS * 128;
    const int m = tid / PER, piece = tid % PER, col = c * CHUNK + piece * COLS;
    if (col >= j.padded) return; /* nothing reads it */
    const int index = index_of(p, t, m), width = (int)j.width;
    const bool in = col < width, wide = FLOAT || width % 8 == 0;
    const char *rows = (const char *)j.rows;
    const char *from = rows + ((size_t)index * p.stride * j.width + (in ? col : 0)) * SIZE;
    const size_t jump = p.jump * (ROWS * SIZE);
    to += FLOAT ? tid * 16 : m * 128 + ((piece ^ m % 8) << 4);
    if (wide && index_of(p, t, TILE - 1) < p.count) {
#pragma unroll
        for (int i = 0; i < TILE / ROWS; i++) copy16(to + i * STEP, from + i * jump, in);
        return;
    }
#pragma unroll 1
    for (int i = 0; i < TILE / ROWS; i++, from += jump, to += STEP) {
        bool there = in && index + i * ROWS * p.tiles < p.count;
        bool more = there && col + 4 < width;
        if (wide) {
            copy16(to, there ? from : rows, there);
        } else {
            copy8(to, there ? from : rows, there);
            copy8(to + 8, more ? from + 8 : rows, more);
        }
    }
}

/* What this thread asked for, as bf16 to its place. */
static __device__ void narrow(const struct job &j, int c, const unsigned char *raw,
                              unsigned char *to, int tid)
{
    const int m = tid / 16, piece = tid % 16;
    if (c * CHUNK + piece * 4 >= j.padded) return;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float4 x = *(const float4 *)(raw + (i * GROUP + tid) * 16);
        __nv_bfloat162 half[2] = { __floats2bfloat162_rn(x.x, x.y),
                                   __floats2bfloat162_rn(x.z, x.w) };
        unsigned char *at = to + (m + 8 * i) * 128 + ((piece / 2 ^ m) << 4) + piece % 2 * 8;
        *(uint2 *)at = make_uint2(*(uint32_t *)&half[0], *(uint32_t *)&half[1]);
    }
}

/* A warp's scores of all rows: acc[a][b] are rows 16 a + lane / 4 (and 8 on) and samples
 * 8 b + 2 (lane % 4) (and 1 on), as mma and wgmma leave them.  index: of the first row; s: the
 * first sample.  Looked at by sixteens, in four chains; limits are read one sixteen ahead. */
template <int MI, int NI>
static __device__ __forceinline__ void take_hits(const struct job &j, const struct pass &p,
                                                 const struct desk &d,
                                                 const float (&acc)[MI][NI][4],
                                                 const float (&bias)[MI][2], int index, int s)
{
    float2 ahead[4];
#pragma unroll
    for (int q = 0; q < 4; q++) ahead[q] = *(const float2 *)(d.limit + s + 8 * q);
#pragma unroll
    for (int e = 0; e < MI * NI / 4; e++) {
        const int a = e / (NI / 4), b = e % (NI / 4) * 4, next = (b + 4) % NI;
        float z[2][8], limit[2][8];
        bool any[4] = { false, false, false, false };
#pragma unroll
        for (int v = 0; v < 16; v++) {
            z[v / 8][v % 8] = acc[a][b + v / 4][v % 4] + bias[a][v / 2 % 2];
            limit[v / 8][v % 8] = v % 2 ? ahead[v / 4].y : ahead[v / 4].x;
            any[v % 4] |= z[v / 8][v % 8] >= limit[v / 8][v % 8];
        }
#pragma unroll
        for (int q = 0; q < 4; q++) ahead[q] = *(const float2 *)(d.limit + s + 8 * (next + q));
        if (any[0] || any[1] || any[2] || any[3]) {
            const int row = index + a * 16 * p.tiles;
            sift(j, d, z[0], limit[0], s + 8 * b, 8, 0, 1, row, 8 * p.tiles);
            sift(j, d, z[1], limit[1], s + 8 * b + 16, 8, 0, 1, row, 8 * p.tiles);
        }
    }
}

/* The best of each 16 rows: 2 MI in a thread, then over lanes; at each step a lane keeps half of
 * the samples.  row: first row of the warp in the tile; sample: of this lane's first column. */
template <int MI, int NI>
static __device__ __forceinline__ void take_peaks(const struct job &j, const struct pass &p,
                                                  const float (&acc)[MI][NI][4],
                                                  const float (&bias)[MI][2], int slot, int turn,
                                                  int row, int sample)
{
    constexpr int STEPS = MI == 4 ? 1 : MI == 2 ? 2 : 3;
    const int lane = threadIdx.x % 32;
    float x[2 * NI];
    int first = 0;
#pragma unroll
    for (int i = 0; i < 2 * NI; i++) {
        x[i] = -INFINITY;
#pragma unroll
        for (int a = 0; a < MI; a++) {
            x[i] = fmaxf(x[i], acc[a][i / 2][i % 2] + bias[a][0]);
            x[i] = fmaxf(x[i], acc[a][i / 2][i % 2 + 2] + bias[a][1]);
        }
    }
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const int d = 16 >> step, n = NI >> step;
        const bool up = lane & d;
#pragma unroll
        for (int i = 0; i < NI; i++) {
            if (i >= n) break; /* so written it unrolls */
            float mine = up ? x[i + n] : x[i], other = up ? x[i] : x[i + n];
            x[i] = fmaxf(mine, __shfl_xor_sync(0xffffffffu, other, d));
        }
        first += up ? n : 0;
    }
#pragma unroll
    for (int i = 0; i < NI * MI / 4; i++) {
        int at = first + i;
        put_peak(j, p, sample + at / 2 * 8 + at % 2, slot, turn, row / 16 + lane / 4 % MI, x[i]);
    }
}

/* ---- version 1: mma.sync ----
 *
 * The block's shared memory: h | rings of the groups | desk.  A warp has 16 MI rows of the tile and
 * 64 samples. */

template <int MI, bool FLOAT>
static __global__ void __launch_bounds__(256, 1) scan_mma(const struct job j, const struct pass p)
{
    constexpr int NS = 64 * MI, N = FLOAT ? FLOAT_RING : RING, BYTES = FLOAT ? 2 * SLOT : SLOT;
    extern __shared__ unsigned char pool[];
    const int first = (int)(blockIdx.x % j.ways) * NS;
    if ((uint32_t)first >= *j.n) return;
    const int group = threadIdx.x / GROUP, tid = threadIdx.x % GROUP, lane = tid % 32;
    const int row = tid / 32 / MI * 16 * MI, s = tid / 32 % MI * 64; /* the warp's */
    const int chunks = (j.padded + CHUNK - 1) / CHUNK;
    const int mine = (int)(blockIdx.x / j.ways * (blockDim.x / GROUP)) + group;
    unsigned char *h = align_pool(pool), *rings = h + chunks * NS * 128;
    const int ring_bytes = N * BYTES + (FLOAT ? 2 * SLOT : 0);
    unsigned char *ring = rings + group * ring_bytes, *halves = ring + N * BYTES;

    int ask_t = mine, ask_c = 0, ask_at = 0;
    for (int i = 0; i < N - 1; i++) {
        if (ask_t < p.tiles) ask<FLOAT>(j, p, ask_t, ask_c, shared_at(ring) + i * BYTES, tid);
        copy_commit();
        if (++ask_c == chunks) ask_c = 0, ask_t += p.groups;
        ask_at = i + 1;
    }
    const struct desk d = open_desk(j, p, rings + blockDim.x / GROUP * ring_bytes, first);
    place_h(j, h, first);
    __syncthreads();

    const uint32_t rows_at = (row + lane % 16) * 128, rows_half = lane / 16;
    const uint32_t h_at = shared_at(h) + (s + lane / 16 * 8 + lane % 8) * 128;
    const uint32_t h_half = lane / 8 % 2, turned = lane % 8;
    for (int t = mine, at = 0, turn = 0, flip = 0; t < p.tiles; t += p.groups, turn++) {
        const int index = index_of(p, t, row + lane / 4);
        float acc[MI][8][4], bias[MI][2];
#pragma unroll
        for (int a = 0; a < MI; a++) {
            bias[a][0] = bias_of(j, p, index + 16 * a * p.tiles);
            bias[a][1] = bias_of(j, p, index + (16 * a + 8) * p.tiles);
#pragma unroll
            for (int b = 0; b < 32; b++) acc[a][b / 4][b % 4] = 0;
        }
        for (int c = 0; c < chunks; c++) {
            copy_wait<N - 2>();
            uint32_t tile = shared_at(ring) + at * BYTES;
            if (FLOAT) {
                narrow(j, c, ring + at * BYTES, halves + flip * SLOT, tid);
                tile = shared_at(halves) + flip * SLOT;
                flip ^= 1;
            }
            bar_sync(1 + group, GROUP); /* it is here, and the chunk before is done with */
            if (ask_t < p.tiles)
                ask<FLOAT>(j, p, ask_t, ask_c, shared_at(ring) + ask_at * BYTES, tid);
            copy_commit();
            if (++ask_c == chunks) ask_c = 0, ask_t += p.groups;
            ask_at = ask_at + 1 == N ? 0 : ask_at + 1;
            at = at + 1 == N ? 0 : at + 1;
            const int steps = (j.padded - c * CHUNK) / 16;
#pragma unroll
            for (int k = 0; k < CHUNK / 16; k++) {
                if (k >= steps) break;
                uint32_t x[MI][4], y[4];
#pragma unroll
                for (int a = 0; a < MI; a++)
                    load_matrices(x[a], tile + rows_at + a * 2048 +
                                            (((2 * k + rows_half) ^ turned) << 4));
#pragma unroll
                for (int b = 0; b < 4; b++) {
                    load_matrices(y, h_at + c * NS * 128 + b * 2048 +
                                         (((2 * k + h_half) ^ turned) << 4));
#pragma unroll
                    for (int a = 0; a < MI; a++) {
                        mma(acc[a][2 * b], x[a], y[0], y[1]);
                        mma(acc[a][2 * b + 1], x[a], y[2], y[3]);
                    }
                }
            }
        }
        if (p.some)
            take_peaks(j, p, acc, bias, mine * p.slots + turn % p.slots, turn, row,
                       first + s + 2 * (lane % 4));
        else take_hits(j, p, d, acc, bias, index, s + 2 * (lane % 4));
        __syncwarp();
    }
    if (!p.some) close_desk(j, d);
}

/* ---- version 2: wgmma, 256 samples ----
 *
 * A group is a warpgroup: one instruction is its 64 rows, all samples and 16 columns.  The groups
 * take turns at the tensor cores: while one multiplies the other looks at its scores.  The four
 * warps of a group take turns at asking for chunks, three ahead: so the one that waits for its
 * chunk, and then sees to it that the tensor cores see it (a memory barrier), has no other copies
 * under way.  Only in a build for sm_90a; elsewhere the kernel is empty, which shows in its static
 * shared memory. */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

#define R4(x)  "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
#define R16(i) R4(acc[i]), R4(acc[i + 1]), R4(acc[i + 2]), R4(acc[i + 3])
#define R128   R16(0), R16(4), R16(8), R16(12), R16(16), R16(20), R16(24), R16(28)

/* Results are in their registers only from here on. */
static __device__ void wgmma_results(float (&acc)[32][4])
{
    asm volatile("" : R128 : : "memory");
}
/* acc (64 rows, 256 samples) += or = the chunk's 16 columns at a times those of h at b. */
static __device__ void wgmma(float (&acc)[32][4], uint64_t a, uint64_t b, int add)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "
                 "%110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "
                 "%125, %126, %127"
                 "}, %128, %129, p, 1, 1, 0, 0;\n}\n"
                 : R128
                 : "l"(a), "l"(b), "r"(add)
                 : "memory");
}

/* The same by one warp, where width is a multiple of 8. */
static __device__ __forceinline__ void ask_warp(const struct job &j, const struct pass &p, int t,
                                                int c, uint32_t to, int lane)
{
    const int piece = lane % 8, col = c * CHUNK + piece * 8;
    const bool in = col < (int)j.width, whole = index_of(p, t, TILE - 1) < p.count;
    const __nv_bfloat16 *rows = (const __nv_bfloat16 *)j.rows;
    const size_t jump = p.jump * 8;
#pragma unroll
    for (int b = 0; b < 2; b++) {
        const int m = lane / 8 + 4 * b, index = index_of(p, t, m);
        const __nv_bfloat16 *from = rows + (size_t)index * p.stride * j.width + (in ? col : 0);
        const uint32_t at = to + m * 128 + ((piece ^ m) << 4);
        if (whole) {
#pragma unroll
            for (int i = 0; i < 8; i++) copy16(at + i * 1024, from + i * jump, in);
        } else {
#pragma unroll 1
            for (int i = 0; i < 8; i++) {
                bool there = in && index + i * 8 * p.tiles < p.count;
                copy16(at + i * 1024, there ? from + i * jump : rows, there);
            }
        }
    }
}
#endif

static __global__ void __launch_bounds__(256, 1) scan_wgmma(const struct job j, const struct pass p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    constexpr int NS = 256, N = FAST_RING;
    __shared__ uint32_t n_kept;
    extern __shared__ unsigned char pool[];
    const int first = (int)(blockIdx.x % j.ways) * NS;
    if ((uint32_t)first >= *j.n) return;
    /* so that the compiler knows it to be the same in a warp: else it makes wgmmas wait */
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / GROUP, 0);
    const int tid = threadIdx.x % GROUP, lane = tid % 32, row = tid / 32 * 16;
    const int chunks = (j.padded + CHUNK - 1) / CHUNK;
    const int mine = (int)(blockIdx.x / j.ways) * 2 + group;
    /* tiles of group 0; the other has as many, or one less */
    const int turns = (p.tiles - mine + group + p.groups - 1) / p.groups;
    unsigned char *h = align_pool(pool), *rings = h + chunks * NS * 128;
    const uint32_t ring = shared_at(rings) + group * N * SLOT;

    int ask_t = mine, ask_c = 0, ask_at = 0;
    for (int i = 0; i < N - 2; i++) {
        if (tid / 32 == i && ask_t < p.tiles) ask_warp(j, p, ask_t, ask_c, ring + i * SLOT, lane);
        copy_commit();
        if (++ask_c == chunks) ask_c = 0, ask_t += p.groups;
        ask_at = i + 1;
    }
    struct desk d = open_desk(j, p, rings + 2 * N * SLOT, first);
    d.n = &n_kept;
    if (threadIdx.x == 0) n_kept = 0;
    place_h(j, h, first);
    wgmma_see_copies();
    __syncthreads();

    if (group == 1 && turns > 0) bar_arrive(3, 256);
    for (int t = mine, at = 0, turn = 0, asker = 0; turn < turns; t += p.groups, turn++) {
        float acc[1][32][4], bias[1][2];
        const int index = index_of(p, t, row + lane / 4);
        bar_sync(3 + group, 256);
        if (t < p.tiles) {
            bias[0][0] = bias_of(j, p, index);
            bias[0][1] = bias_of(j, p, index + 8 * p.tiles);
            for (int c = 0; c < chunks; c++) {
                if (tid / 32 == asker) {
                    copy_wait<0>();
                    wgmma_see_copies();
                }
                bar_sync(1 + group, GROUP); /* it is here; that of two before is done with */
                const uint64_t x = wgmma_matrix(ring + at * SLOT);
                const uint64_t y = wgmma_matrix(shared_at(h) + c * NS * 128);
                wgmma_begin();
#pragma unroll
                for (int k = 0; k < CHUNK / 16; k++) wgmma(acc[0], x + 2 * k, y + 2 * k, c + k);
                wgmma_commit();
                wgmma_wait<1>();
                if (tid / 32 == ((asker + 3) & 3) && ask_t < p.tiles)
                    ask_warp(j, p, ask_t, ask_c, ring + ask_at * SLOT, lane);
                copy_commit();
                asker = (asker + 1) & 3;
                if (++ask_c == chunks) ask_c = 0, ask_t += p.groups;
                ask_at = ask_at + 1 == N ? 0 : ask_at + 1;
                at = at + 1 == N ? 0 : at + 1;
            }
        }
        if (group == 0 || turn + 1 < turns) bar_arrive(4 - group, 256);
        wgmma_wait<0>();
        wgmma_results(acc[0]);
        if (t < p.tiles) {
            if (p.some)
                take_peaks(j, p, acc, bias, mine * p.slots + turn % p.slots, turn, row,
                           first + 2 * (lane % 4));
            else take_hits(j, p, d, acc, bias, index, 2 * (lane % 4));
            __syncwarp();
        }
    }
    if (!p.some) close_desk(j, d);
#endif
}

#endif
