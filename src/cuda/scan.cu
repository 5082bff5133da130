/* Exact best rows: for each sample the k rows with the largest z = h . W[row] + bias[row] over all
 * rows, of equal ones the smaller row (layer/topk.c).  Scores never exist as a whole.
 *
 *   prepare      h as bf16, padded with zeros to a multiple of 16 columns; counters
 *   scan, some   scores of every f-th row (f is 2 to 17), in buckets of 16 rows; only the best
 *                score of a bucket, its peak, is written
 *   find_limits  a sample's limit: its k-th best peak.  k different rows reach it, so the k best
 *                rows of all do
 *   scan, all    scores of all rows; the few (about k f) that reach the limit go to the sample's
 *                list in device memory, through a list of the block in shared memory
 *   scan_slow    samples with more of them than a list has room for (many equal scores, say): every
 *                row again, with lists that keep the best; seldom has anything to do
 *   merge        sorts each list: its first k
 *
 * Limits do not change while rows are scanned, so what passes, and which lists run over, does not
 * depend on the order in which blocks run; nor does a sorted list.  Both scans are one kernel: a
 * row has the same score, to the bit, in both.
 *
 * A block holds the h of 'ns' samples in shared memory and walks over tiles of rows, of which tile
 * t is 8 runs of 8 rows far apart (the best rows are often neighbours, and would all come to one
 * block), or, of some rows, 64 single ones (so that neighbours are in different buckets).  Tiles
 * arrive by asynchronous copies several chunks of 64 columns ahead.  Chunks lie in shared memory as
 * rows of 128 bytes, the 16-byte piece c of row r at place c ^ r % 8: no bank conflicts.
 *
 * 670,091 rows, 128 columns, 256 samples: 44 GFLOP (0.045 ms at 989 TFLOP/s) and 171 MB (0.043 ms
 * at 4 TB/s); 2 instructions a score to see that it does not pass: 0.02 ms, beside the products. */
#include "cuda/scan_bf16.cuh"
#include "cuda/scan_fp32.cuh"

/* ---- before and after ---- */

/* open: every score passes; slow: scan_slow does everything. */
static __global__ void __launch_bounds__(128) prepare(const struct job j, bool open, bool slow)
{
    const uint32_t i = blockIdx.x, n = *j.n;
    for (int c = threadIdx.x; c < j.padded && j.round; c += blockDim.x) {
        float x = i < n && c < (int)j.width ? j.h[(size_t)i * j.width + c] : 0.0f;
        j.h16[(size_t)i * j.padded + c] = __float2bfloat16_rn(x);
    }
    if (threadIdx.x > 0) return;
    j.count[i] = slow && i < n ? (uint32_t)j.room + 1 : 0;
    if (open) j.limit[i] = i < n ? -INFINITY : NAN;
}

/* The same in all threads of a block of 256; part: of two, in turn. */
static __device__ uint32_t block_sum(uint32_t x, uint32_t (*parts)[8], int part)
{
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    if (threadIdx.x % 32 == 0) parts[part][threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (int w = 0; w < 8; w++) x += parts[part][w];
    return x;
}

/* The k-th best peak, found bit by bit; of those labels among the rows that had their chance to be
 * a peak, so many more.  A few steps below, which lets hardly more pass and covers the last bits of
 * a product that came out otherwise in another place of a tile. */
static __global__ void __launch_bounds__(256) find_limits(const struct job j, const struct pass p)
{
    __shared__ uint32_t x[MOST_PEAKS], parts[2][8];
    const int i = blockIdx.x;
    if ((uint32_t)i >= *j.n) {
        if (threadIdx.x == 0) j.limit[i] = NAN;
        return;
    }
    for (int b = threadIdx.x; b < p.buckets; b += blockDim.x) {
        int slot = b / p.in_tile, tile = slot / p.slots + slot % p.slots * p.groups;
        x[b] = 0;
        if (tile < p.tiles)
            x[b] = (uint32_t)(wisp_dkey(j.peaks[(size_t)i * p.buckets + b], 0) >> 32);
    }
    uint32_t labels = 0, need, t = 0;
    if (j.now && j.now->yp)
        for (uint32_t e = j.now->yp[i] + threadIdx.x; e < j.now->yp[i + 1]; e += blockDim.x)
            labels += j.now->yi[e] % p.stride == 0;
    need = (uint32_t)j.k + block_sum(labels, parts, 0);
    for (int bit = 31; bit >= 0; bit--) {
        uint32_t higher = t | 1u << bit, n = 0;
        for (int b = threadIdx.x; b < p.buckets; b += blockDim.x) n += x[b] >= higher;
        n = block_sum(n, parts, bit & 1);
        if (n >= need) t = higher;
        if (n == need) break;
    }
    if (threadIdx.x > 0) return;
    const uint32_t least = 0x00800000u + 16; /* -FLT_MAX and a little */
    j.limit[i] = t <= least ? -INFINITY : wisp_dkey_score((uint64_t)(t - 16) << 32);
}

/* The k best, best first. */
static __global__ void __launch_bounds__(256) merge(const struct job j)
{
    __shared__ uint64_t x[MOST_ROOM];
    const int i = blockIdx.x;
    if ((uint32_t)i >= *j.n) return;
    const int n = j.count[i] > (uint32_t)j.room ? PARTS * j.k : (int)j.count[i];
    int size = 2;
    while (size < n) size *= 2;
    for (int e = threadIdx.x; e < size; e += blockDim.x) {
        uint64_t key = e < n ? j.lists[(size_t)i * j.room + e] : 0;
        x[e] = key && is_label(j.now, i, wisp_dkey_row(key)) ? 0 : key;
    }
    __syncthreads();
    for (int span = 2; span <= size; span *= 2) /* bitonic */
        for (int d = span / 2; d > 0; d /= 2) {
            for (int e = threadIdx.x; e < size / 2; e += blockDim.x) {
                int a = 2 * e - (e & (d - 1)), b = a + d;
                uint64_t u = x[a], v = x[b];
                if ((u < v) == ((a & span) == 0)) x[a] = v, x[b] = u;
            }
            __syncthreads();
        }
    for (int e = threadIdx.x; e < j.k; e += blockDim.x) {
        uint64_t key = e < size ? x[e] : 0;
        j.best[(size_t)i * j.k + e] = key ? wisp_dkey_row(key) : -1;
        j.scores[(size_t)i * j.k + e] = key ? wisp_dkey_score(key) : -INFINITY;
    }
}

/* ---- samples whose lists ran over ---- */

static __device__ float rounded(const struct job &j, float x)
{
    return j.round ? __bfloat162float(__float2bfloat16_rn(x)) : x;
}

static __device__ float4 weights(const struct job &j, size_t row, int c)
{
    size_t at = row * j.width + c;
    if (j.half) {
        uint2 u = *(const uint2 *)((const __nv_bfloat16 *)j.rows + at);
        return make_float4(__uint_as_float(u.x << 16), __uint_as_float(u.x & 0xffff0000u),
                           __uint_as_float(u.y << 16), __uint_as_float(u.y & 0xffff0000u));
    }
    float4 x = *(const float4 *)((const float *)j.rows + at);
    return make_float4(rounded(j, x.x), rounded(j, x.y), rounded(j, x.z), rounded(j, x.w));
}

struct few { /* a warp's best of a sample: (k) keys, 0: none, in no order */
    uint64_t key[MOST_K], least;
    int at; /* of the least */
};

/* The least goes, 'key' comes; by a whole warp. */
static __device__ void replace(struct few *f, int k, uint64_t key)
{
    const int lane = threadIdx.x % 32;
    if (lane == 0) f->key[f->at] = key;
    __syncwarp();
    uint64_t a = lane < k ? f->key[lane] : ~(uint64_t)0;
    uint64_t b = lane + 32 < k ? f->key[lane + 32] : ~(uint64_t)0, least = a < b ? a : b;
    for (int d = 16; d > 0; d /= 2) {
        uint64_t other = __shfl_xor_sync(0xffffffffu, least, d);
        if (other < least) least = other;
    }
    uint32_t low = __ballot_sync(0xffffffffu, a == least);
    uint32_t high = __ballot_sync(0xffffffffu, b == least);
    if (lane == 0) {
        f->least = least;
        f->at = low ? __ffs((int)low) - 1 : 31 + __ffs((int)high);
    }
    __syncwarp();
}

/* What four_rows multiplies: of a sample, rounded already where it lies in shared memory. */
template <bool WIDE> static __device__ float4 values(const struct job &j, const float *h, int c)
{
    float4 y = *(const float4 *)(h + c);
    if (WIDE) y = make_float4(rounded(j, y.x), rounded(j, y.y), rounded(j, y.z), rounded(j, y.w));
    return y;
}

/* Scores of four rows and the few samples, a warp: returns that of row + lane / 8 and sample
 * lane / 2 % 4, without bias.  Sums over lanes in pairs 16, 8, ... apart, for every row alike. */
template <bool WIDE>
static __device__ float four_rows(const struct job &j, const float *const (&h)[FEW], size_t row,
                                  size_t end)
{
    const int lane = threadIdx.x % 32, width = (int)j.width;
    float x[16];
#pragma unroll
    for (int v = 0; v < 16; v++) x[v] = 0;
    for (int c = 4 * lane; c < width; c += 128) {
        float4 w[4];
#pragma unroll
        for (int r = 0; r < 4; r++)
            w[r] = row + r < end ? weights(j, row + r, c) : make_float4(0, 0, 0, 0);
#pragma unroll
        for (int v = 0; v < 16; v++) {
            float4 y = values<WIDE>(j, h[v % 4], c);
            x[v] = fmaf(w[v / 4].x, y.x, x[v]);
            x[v] = fmaf(w[v / 4].y, y.y, x[v]);
            x[v] = fmaf(w[v / 4].z, y.z, x[v]);
            x[v] = fmaf(w[v / 4].w, y.w, x[v]);
        }
    }
#pragma unroll
    for (int step = 0; step < 4; step++) {
        const int d = 16 >> step, n = 8 >> step;
        const bool up = lane & d;
#pragma unroll
        for (int v = 0; v < 8; v++) {
            if (v >= n) break;
            float mine = up ? x[v + n] : x[v], other = up ? x[v] : x[v + n];
            x[v] = mine + __shfl_xor_sync(0xffffffffu, other, d);
        }
    }
    return x[0] + __shfl_xor_sync(0xffffffffu, x[0], 1);
}

/* Part 'part' of the rows for samples who[0 .. FEW-1] (-1: none): each warp's best, then the
 * block's, to keys part * k .. of the samples' lists. */
template <bool WIDE>
static __device__ void scan_part(const struct job &j, const int *who, int part,
                                 const float *const (&h)[FEW], struct few (*few)[FEW])
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t end = j.n_rows * (part + 1) / PARTS;
    const int s = lane / 2 % FEW, sample = who[s];
    for (size_t row = j.n_rows * part / PARTS + 4 * warp; row < end; row += 32) {
        float z = four_rows<WIDE>(j, h, row, end);
        size_t own = row + lane / 8;
        bool pass = lane % 2 == 0 && sample >= 0 && own < end;
        if (pass) z += j.bias[own];
        uint64_t key = wisp_dkey(z, (int32_t)own);
        pass = pass && z == z && key > few[warp][s].least;
        if (pass) pass = !is_label(j.now, sample, (int32_t)own);
        uint32_t hits = __ballot_sync(0xffffffffu, pass);
        for (; hits; hits &= hits - 1) {
            int from = __ffs((int)hits) - 1;
            uint64_t next = __shfl_sync(0xffffffffu, key, from);
            struct few *f = &few[warp][from / 2 % FEW];
            bool better = next > f->least;
            __syncwarp();
            if (better) replace(f, j.k, next);
        }
    }
    __syncthreads();
    for (int e = threadIdx.x; e < FEW * 8 * j.k; e += blockDim.x) {
        int a = e / (8 * j.k), place = e % (8 * j.k), rank = 0, some = 0;
        uint64_t key = few[place / j.k][a].key[place % j.k];
        if (who[a] < 0) continue;
        for (int w = 0; w < 8; w++)
            for (int c = 0; c < j.k; c++) {
                rank += few[w][a].key[c] > key;
                some += few[w][a].key[c] > 0;
            }
        uint64_t *list = j.lists + (size_t)who[a] * j.room + part * j.k;
        if (key && rank < j.k) list[rank] = key;
        if (place < j.k && place >= some) list[place] = 0;
    }
}

enum { SLOW_STATIC = 24 << 10 }; /* of shared memory, that scan_slow declares */

/* The samples from 'first' on whose lists ran over, of WINDOW; their number. */
static __device__ int find_slow(const struct job &j, int *whose, int first, int n)
{
    __shared__ int n_slow;
    const int end = n - first < WINDOW ? n : first + WINDOW;
    if (threadIdx.x < 32) {
        int found = 0;
        for (int i0 = first; i0 < end; i0 += 32) {
            int i = i0 + threadIdx.x;
            uint32_t over = __ballot_sync(0xffffffffu, i < end && j.count[i] > (uint32_t)j.room);
            int at = found + __popc(over & ((1u << threadIdx.x) - 1));
            if (over >> threadIdx.x & 1) whose[at] = i;
            found += __popc(over);
        }
        if (threadIdx.x < FEW) whose[found + threadIdx.x] = -1;
        if (threadIdx.x == 0) n_slow = found;
    }
    __syncthreads();
    return n_slow;
}

/* WIDE: the samples' h stays where it is, instead of lying in shared memory. */
template <bool WIDE> static __global__ void __launch_bounds__(256) scan_slow(const struct job j)
{
    extern __shared__ float4 staged[]; /* (FEW, width / 4) */
    __shared__ struct few few[8][FEW];
    __shared__ int whose[WINDOW + FEW];
    static_assert(sizeof few + sizeof whose + 64 <= SLOW_STATIC, "with what find_slow declares");
    const int n = (int)*j.n, width = (int)j.width;
    bool any = false;
    for (int i = threadIdx.x; i < n; i += blockDim.x) any |= j.count[i] > (uint32_t)j.room;
    if (!__syncthreads_or(any)) return;
    for (int first = 0; first < n; first += WINDOW) {
        const int tasks = (find_slow(j, whose, first, n) + FEW - 1) / FEW * PARTS;
        for (int task = blockIdx.x; task < tasks; task += gridDim.x) {
            const int *who = whose + task / PARTS * FEW;
            for (int e = threadIdx.x; e < FEW * width && !WIDE; e += blockDim.x) {
                int s = e / width, c = e % width;
                ((float *)staged)[e] =
                    who[s] < 0 ? 0.0f : rounded(j, j.h[(size_t)who[s] * width + c]);
            }
            for (int e = threadIdx.x; e < 8 * FEW * MOST_K; e += blockDim.x)
                few[e / (FEW * MOST_K)][e / MOST_K % FEW].key[e % MOST_K] = 0;
            for (int e = threadIdx.x; e < 8 * FEW; e += blockDim.x)
                few[e / FEW][e % FEW].least = 0, few[e / FEW][e % FEW].at = 0;
            const float *h[FEW]; /* of no sample: any, and nobody looks at the score */
#pragma unroll
            for (int s = 0; s < FEW; s++)
                h[s] = WIDE ? j.h + (size_t)(who[s] < 0 ? 0 : who[s]) * width
                            : (const float *)staged + s * width;
            __syncthreads();
            scan_part<WIDE>(j, who, task % PARTS, h, few);
            __syncthreads();
        }
        __syncthreads(); /* nobody looks at 'whose' any more */
    }
}

/* ---- launching ---- */

typedef void scan_kernel(const struct job, const struct pass);

struct plan {
    scan_kernel *kernel; /* NULL: none fits this card, scan_slow does everything */
    int ns, threads, tile, in_tile, keep;
    int columns; /* h is padded to a multiple of it */
    size_t shared;
};

/* Room for a block's list in what is left of shared memory; false: too little is. */
static bool fits(struct plan *p, size_t taken, int shared)
{
    size_t have = shared > 2048 ? (size_t)shared - 2048 : 0; /* static, and what aligning takes */
    size_t least = taken + desk_bytes(512, p->ns, p->threads);
    if (least > have) return false;
    size_t keep = 512 + (have - least) / 10;
    p->keep = (int)(keep < 8192 ? keep : 8192) / 8 * 8;
    p->shared = taken + desk_bytes(p->keep, p->ns, p->threads) + 1024;
    return true;
}

static struct plan plan_bf16(const struct wisp_dscan &t, bool half)
{
    static scan_kernel *const kernels[3][2] = { { scan_mma<1, false>, scan_mma<1, true> },
                                                { scan_mma<2, false>, scan_mma<2, true> },
                                                { scan_mma<4, false>, scan_mma<4, true> } };
    struct plan p = { NULL, 0, 0, TILE, TILE / 16, 0, 16, 0 };
    size_t line = (t.width + CHUNK - 1) / CHUNK * 128; /* bytes of a sample */
    int most = t.batch <= 64 ? 0 : t.batch <= 128 ? 1 : 2;
    if (t.version >= 2 && half && most == 2 && t.width % 8 == 0) {
        p.ns = 256, p.threads = 256;
        p.kernel = scan_wgmma;
        p.columns = CHUNK;
        if (fits(&p, 256 * line + 2 * FAST_RING * SLOT, t.shared)) return p;
        p.kernel = NULL;
        p.columns = 16;
    }
    for (int groups = 2; t.version >= 1 && groups > 0; groups--)
        for (int i = most; i >= 0; i--) {
            size_t ring = half ? RING * SLOT : FLOAT_RING * 2 * SLOT + 2 * SLOT;
            p.ns = 64 << i, p.threads = groups * GROUP;
            if (!fits(&p, p.ns * line + groups * ring, t.shared)) continue;
            p.kernel = kernels[i][!half];
            return p;
        }
    return p;
}

static struct plan plan_fp32(const struct wisp_dscan &t, bool half)
{
    struct plan p = { NULL, F_SAMPLES, 256, F_ROWS, 16, 0, 16, 0 };
    size_t bytes = 2 * (F_ROWS * (half ? 80 : 144) + F_SAMPLES * 144);
    if (t.version >= 1 && fits(&p, bytes, t.shared))
        p.kernel = half ? scan_simt<true> : scan_simt<false>;
    return p;
}

static int less(int a, int b)
{
    return a < b ? a : b;
}

/* A 16th of the rows; more where that gives blocks nothing to do, or where there would be too few
 * buckets for the k-th best of their peaks to be near the k-th best row. */
static struct pass some_rows(struct pass p, const struct plan &plan, int k, size_t width)
{
    const int n = p.count, once = less(p.groups * plan.tile, n / 4), enough = less(64 * k, n / 2);
    const int most = less(MOST_SLOTS, MOST_PEAKS / (p.groups * plan.in_tile));
    int want = n / 16;
    if (want < once) want = once;
    if (want < enough) want = enough;
    p.some = true;
    p.shift = 0;
    p.stride = (n + want - 1) / want;
    p.count = (n + p.stride - 1) / p.stride;
    p.tiles = (p.count + plan.tile - 1) / plan.tile;
    p.jump = (size_t)p.tiles * p.stride * width;
    p.slots = less((p.tiles + p.groups - 1) / p.groups, most);
    p.buckets = p.groups * p.slots * plan.in_tile;
    return p;
}

/* What scan_slow takes of shared memory besides what it declares; 0: the samples are too wide. */
static size_t slow_bytes(const struct wisp_dscan &t)
{
    const size_t bytes = FEW * t.width * sizeof(float);
    return bytes + SLOW_STATIC <= (size_t)t.shared ? bytes : 0;
}

static void scan(const struct wisp_dscan &t, struct job j, const struct plan &plan, cudaStream_t s)
{
    const int samples = (int)(t.batch + 255) / 256 * 256, blocks = t.batch ? (int)t.batch : 1;
    const bool slow = !plan.kernel, open = t.n_rows <= (size_t)j.room;
    j.ns = slow ? 1 : plan.ns;
    j.keep = plan.keep;
    j.padded = ((int)t.width + plan.columns - 1) / plan.columns * plan.columns;
    j.ways = (blocks + j.ns - 1) / j.ns;
    const int splits = t.sms > j.ways ? t.sms / j.ways : 1, grid = splits * j.ways;
    struct pass p = {};
    p.count = (int)t.n_rows, p.stride = 1, p.shift = 3;
    p.tiles = (p.count + plan.tile - 1) / plan.tile;
    p.jump = (size_t)p.tiles * t.width;
    p.groups = plan.tile == F_ROWS ? splits : splits * plan.threads / GROUP;
    p.slots = 1, p.in_tile = plan.in_tile;
    prepare<<<samples, 128, 0, s>>>(j, open, slow);
    if (!slow && !open) {
        struct pass some = some_rows(p, plan, j.k, t.width);
        plan.kernel<<<grid, plan.threads, plan.shared, s>>>(j, some);
        find_limits<<<samples, 256, 0, s>>>(j, some);
    }
    if (!slow) plan.kernel<<<grid, plan.threads, plan.shared, s>>>(j, p);
    if (slow_bytes(t)) scan_slow<false><<<2 * t.sms, 256, slow_bytes(t), s>>>(j);
    else scan_slow<true><<<2 * t.sms, 256, 0, s>>>(j);
    merge<<<blocks, 256, 0, s>>>(j);
}

static struct job job_of(const struct wisp_dscan &t)
{
    struct job j = {};
    j.n_rows = t.n_rows, j.width = t.width;
    j.bias = t.bias.w, j.h = t.h, j.n = t.n;
    j.now = t.skip_labels ? t.now : NULL;
    j.k = (int)t.k;
    j.room = t.k <= 32 ? MOST_ROOM / 2 : MOST_ROOM;
    j.lists = t.lists, j.count = t.count, j.limit = t.limit, j.peaks = t.peaks, j.h16 = t.h16;
    j.best = t.rows, j.scores = t.scores;
    return j;
}

/* Version of the bf16 kernel: 2 where the card and the build have wgmma, 1 with mma, 0 neither. */
size_t wisp_scan_lay(struct wisp_dscan *t, void *block)
{
    int device = 0, major = 0;
    struct cudaFuncAttributes fast = {};
    t->sms = 1, t->shared = (int)wisp_dshared();
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&t->sms, cudaDevAttrMultiProcessorCount, device);
    if (t->sms > 256) t->sms = 256; /* for MOST_PEAKS */
    t->version = major >= 8;
    if (major == 9 && cudaFuncGetAttributes(&fast, (const void *)scan_wgmma) == cudaSuccess &&
        fast.sharedSizeBytes > 0)
        t->version = 2;
    scan_kernel *const all[] = { scan_mma<1, false>, scan_mma<1, true>,  scan_mma<2, false>,
                                 scan_mma<2, true>,  scan_mma<4, false>, scan_mma<4, true>,
                                 scan_wgmma,         scan_simt<false>,   scan_simt<true> };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cudaFuncSetAttribute((const void *)all[i], cudaFuncAttributeMaxDynamicSharedMemorySize,
                             t->shared - 1024);
    cudaFuncSetAttribute((const void *)scan_slow<false>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, t->shared - SLOW_STATIC);

    size_t at = 0, samples = (t->batch + 255) / 256 * 256, room = job_of(*t).room;
    t->lists = (uint64_t *)wisp_dtake(block, &at, samples * room * sizeof *t->lists);
    t->count = (uint32_t *)wisp_dtake(block, &at, samples * sizeof *t->count);
    t->limit = (float *)wisp_dtake(block, &at, samples * sizeof *t->limit);
    /* peaks of a sample: groups * slots * buckets of a tile, and samples * groups is about the
     * same for all shapes */
    size_t peaks = (size_t)t->sms * 256 * 2 * MOST_SLOTS * (TILE / 16) + samples * 16 * MOST_SLOTS;
    t->peaks = (float *)wisp_dtake(block, &at, peaks * sizeof *t->peaks);
    t->h16 = (__nv_bfloat16 *)wisp_dtake(block, &at, samples * ((t->width + 63) / 64 * 64) * 2);
    return at;
}

/* Samples of more columns than a block can hold are scanned as they are: in fp32. */
void wisp_scan_bf16(const struct wisp_dscan &t, cudaStream_t s)
{
    struct job j = job_of(t);
    const __nv_bfloat16 *half = t.rows16 ? t.rows16 : t.w.b16;
    j.half = half != NULL;
    j.rows = half ? (const void *)half : t.w.w;
    const struct plan p = plan_bf16(t, j.half), plain = plan_fp32(t, j.half);
    j.round = p.kernel || !plain.kernel;
    scan(t, j, j.round ? p : plain, s);
}

void wisp_scan_fp32(const struct wisp_dscan &t, cudaStream_t s)
{
    struct job j = job_of(t);
    const __nv_bfloat16 *half = t.w.b16 ? t.w.b16 : t.rows16;
    j.half = t.w.w == NULL; /* a rounded copy is not exact */
    j.rows = t.w.w ? (const void *)t.w.w : half;
    j.round = false;
    scan(t, j, plan_fp32(t, j.half), s);
}
