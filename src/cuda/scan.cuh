/* What the kernels of a scan share: see scan.cu. */
#ifndef WISP_CUDA_SCAN_CUH
#define WISP_CUDA_SCAN_CUH

#include "cuda/ops.cuh"
#include "cuda/wgmma.cuh"

#include <math.h>

enum {
    GROUP = 128,             /* threads that work on a tile; a block has up to two groups */
    TILE = 64,               /* rows */
    CHUNK = 64,              /* columns of a tile that arrive together */
    SLOT = TILE * CHUNK * 2, /* bytes of a chunk */
    RING = 4,
    FLOAT_RING = 3,
    FAST_RING = 5, /* chunks of a group in shared memory */
    F_ROWS = 256,
    F_SAMPLES = 128,
    F_COLS = 32, /* the tile in fp32 */
    MOST_SLOTS = 8,
    MOST_PEAKS = 8448,
    MOST_ROOM = 4096,
    MOST_K = 64,
    PARTS = 64,
    FEW = 4,       /* of scan_slow: parts of the rows; samples at a time, */
    WINDOW = 1024, /* and of how many samples it looks at the lists at a time */
};

struct job { /* what all kernels of a scan get */
    size_t n_rows, width;
    const void *rows; /* (n_rows, width) float, or bf16 where 'half' */
    bool half, round; /* round: everything is rounded to bf16 */
    const float *bias, *h;
    const uint32_t *n;
    const struct wisp_dnow *now; /* NULL: no labels to leave out */
    int k, room, padded;         /* room of a list; columns rounded up */
    int ns, ways, keep;          /* samples of a block; tiles of samples; room of a block's list */
    uint64_t *lists;
    uint32_t *count;
    float *limit, *peaks;
    __nv_bfloat16 *h16;
    int32_t *best;
    float *scores;
};

struct pass {          /* which rows a scan takes */
    int count, stride; /* 0, stride, 2 stride, ...: so many */
    int tiles, shift;  /* tiles of runs of 2^shift of them */
    size_t jump;       /* weights from row m of a tile to row m + 8, by 8 */
    bool some;         /* write peaks */
    int groups, slots; /* that walk over tiles side by side; tiles of a group with own buckets */
    int in_tile, buckets;
};

/* Which of the rows of a pass is row m of tile t. */
static __device__ int index_of(const struct pass &p, int t, int m)
{
    return (((m >> p.shift) * p.tiles + t) << p.shift) + (m & ((1 << p.shift) - 1));
}

/* What has to be added to the products; where there is no row, no score is above any limit. */
static __device__ float bias_of(const struct job &j, const struct pass &p, int index)
{
    return index < p.count ? j.bias[(size_t)index * p.stride] : NAN;
}

/* ---- instructions ---- */

/* 8 bytes to shared memory, zeros where there is nothing. */
static __device__ void copy8(uint32_t to, const void *from, bool there)
{
    ASM80("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(there ? 8 : 0)
          : "memory");
}
static __device__ void load_matrices(uint32_t (&x)[4], uint32_t at)
{
    ASM80("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
          : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
          : "r"(at)
          : "memory");
}
/* acc (16 rows, 8 samples) += a (16 rows, 16 columns) b (8 samples, 16 columns)^T */
static __device__ void mma(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    ASM80("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
          "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* ---- lists ---- */

static __device__ bool is_label(const struct wisp_dnow *now, int i, int32_t row)
{
    if (!now || !now->yp) return false;
    uint32_t lo = now->yp[i], end = now->yp[i + 1], hi = end;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (now->yi[mid] < row) lo = mid + 1;
        else hi = mid;
    }
    return lo < end && now->yi[lo] == row;
}

/* To the list of sample i; what does not fit is only counted. */
static __device__ void give(const struct job &j, int i, uint64_t key)
{
    uint32_t at = atomicAdd(&j.count[i], 1u);
    if (at < (uint32_t)j.room) j.lists[(size_t)i * j.room + at] = key;
}

struct desk {        /* a block's list, in shared memory */
    int first;       /* sample */
    uint64_t *kept;  /* (keep) */
    uint16_t *whose; /* (keep) sample, from 'first' on */
    float *limit;    /* (ns) */
    float *spare;    /* (8, threads) */
    uint32_t *n;
};

static size_t desk_bytes(int keep, int ns, int threads)
{
    return (size_t)keep * 10 + (size_t)ns * 4 + (size_t)threads * 32 + 16;
}

static __device__ struct desk open_desk(const struct job &j, const struct pass &p,
                                        unsigned char *at, int first)
{
    struct desk d;
    d.first = first;
    d.kept = (uint64_t *)at;
    d.whose = (uint16_t *)(d.kept + j.keep);
    d.limit = (float *)(d.whose + j.keep); /* keep is a multiple of 8 */
    d.spare = d.limit + j.ns;
    d.n = (uint32_t *)(d.spare + 8 * blockDim.x);
    if (threadIdx.x == 0) *d.n = 0;
    for (int i = threadIdx.x; i < j.ns && !p.some; i += blockDim.x) d.limit[i] = j.limit[first + i];
    return d;
}

static __device__ void close_desk(const struct job &j, const struct desk &d)
{
    __syncthreads();
    uint32_t n = *d.n < (uint32_t)j.keep ? *d.n : (uint32_t)j.keep;
    for (uint32_t e = threadIdx.x; e < n; e += blockDim.x) give(j, d.first + d.whose[e], d.kept[e]);
}

/* A score that passes.  Where the sample's list has run over (it is left to scan_slow) no more of
 * its scores need to pass here. */
static __device__ void keep(const struct job &j, const struct desk &d, int s, float z, int32_t row)
{
    uint64_t key = wisp_dkey(z, row);
    uint32_t at = atomicAdd(d.n, 1u);
    if (at < (uint32_t)j.keep) {
        d.kept[at] = key;
        d.whose[at] = (uint16_t)s;
    } else if (*(volatile uint32_t *)&j.count[d.first + s] <= (uint32_t)j.room) {
        give(j, d.first + s, key);
    } else {
        d.limit[s] = NAN;
    }
}

/* Eight scores of a thread, that with bits b2 b1 b0 of sample s + b2 s2 + b1 s1 + b0 s0 and row
 * row + b1 row1.  Those that pass go through shared memory: registers cannot be indexed. */
static __device__ __forceinline__ void sift(const struct job &j, const struct desk &d,
                                            const float (&z)[8], const float (&limit)[8], int s,
                                            int s2, int s1, int s0, int32_t row, int32_t row1)
{
    bool any[2] = { false, false }; /* a chain of eight would take as long as 16 instructions */
#pragma unroll
    for (int v = 0; v < 8; v++) any[v % 2] |= z[v] >= limit[v];
    if (!any[0] && !any[1]) return;
    float *spare = d.spare + threadIdx.x;
    uint32_t hits = 0;
#pragma unroll
    for (int v = 0; v < 8; v++) {
        spare[v * blockDim.x] = z[v];
        hits |= (uint32_t)(z[v] >= limit[v]) << v;
    }
    for (; hits; hits &= hits - 1) {
        int v = __ffs((int)hits) - 1;
        keep(j, d, s + (v >> 2) * s2 + (v >> 1 & 1) * s1 + (v & 1) * s0, spare[v * blockDim.x],
             row + (v >> 1 & 1) * row1);
    }
}

static __device__ void put_peak(const struct job &j, const struct pass &p, int sample, int slot,
                                int turn, int sub, float x)
{
    float *at = j.peaks + (size_t)sample * p.buckets + (slot * p.in_tile + sub);
    *at = turn < p.slots ? x : fmaxf(*at, x); /* always the same thread's */
}

#endif
