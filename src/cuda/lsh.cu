/* Hash tables over the rows of the output layer, made on the card (hash/lsh.c, hash/frame.c and the
 * families of hash/ on the CPU).
 *
 *     moments   of queries, a little each step                               observe
 *     frame     from the moments and up to 1024 rows (hash/frame.h)          centre, look, settle
 *     buckets   row -> vector in the frame -> keys -> buckets of all tables  make_keys
 *     tables    (table, bucket), row: sorted by the first, stable            one cub sort
 *     start     first place of each bucket, by halving                       edges
 *
 *     keys, ids  table 0 [row 0, row 1, ...]      table 1 [row 0, ...]      ...
 *     sorted     table 0 [bucket 0|bucket 1|...]  table 1 [bucket 0|...]    ...
 *
 * All tables of a group are sorted at once, the table's number above the bucket's bits: one sort of
 * 8 M pairs fills the card, a sort of one table does not.  A group has as many tables as fit into
 * GROUP pairs (20 bytes each with what the sort needs: 640 MB), one at least; rows are read again
 * for each group.  12 tables of 670,091 rows are one group, 50 are too.
 *
 * A block of make_keys holds up to 32 vectors in shared memory, a row of 'stride' floats each.  A
 * lane is a vector, so that all lanes of a warp look at the same coordinate: 'stride' is odd where
 * they do (32 banks), and a multiple of 4 where four coordinates of one vector go to all lanes.
 * Vectors are computed without fused multiply-adds, as on the CPU: under the same frame keys of the
 * order families (dwta, wta, minhash) are the same bits.
 *
 * Bounds at 670,091 x 128 and 12 tables of 6 digits: 343 MB of rows read, 64 MB of pairs written;
 * 386 M coordinates looked at, 12 M warp reads of shared memory.  The sort moves 3 x 128 MB. */
#include "cuda/ops.cuh"
#include "cuda/update.cuh"

#include <assert.h>
#include <cub/device/device_radix_sort.cuh>
#include <math.h>
#include <string.h>

enum { ROWS = 32, WARPS = 4, THREADS = 32 * WARPS };
enum { QUERY_ROWS = 8 };           /* a batch is small: more blocks, each done sooner */
enum { SAMPLE = 1024, TILE = 32 }; /* WISP_FRAME_SAMPLE; samples observed in a step */
enum { BIN = 8, BORROWS = 64 };    /* WISP_BIN, WISP_BORROWS of hash/family.h */
enum { SIGN_BITS = 1024 };         /* bits of a vector made between two joins */
enum { GROUP = 1 << 25, STATIC_BYTES = 8192 };
enum { DWTA, WTA, SIMHASH, MINHASH }; /* wisp_dhash.family */
enum { ORDERS, SIGNS, SETS };         /* kinds of kernels: wta and dwta share one */
enum { FLOATS, HALVES, QUERIES };     /* where vectors come from */

/* ---- moments of queries ---- */

/* A block has 32 columns, its warps take every 8th sample. */
static __global__ void __launch_bounds__(256)
    observe(const __grid_constant__ struct wisp_dhash t, bool first)
{
    __shared__ float sums[2][8][32];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t n = t.now->n, tiles = (n + TILE - 1) / TILE;
    if (n == 0) return;
    const uint32_t from = first ? 0 : (uint32_t)(t.now->step % tiles) * TILE;
    const uint32_t end = first || n - from < TILE ? n : from + TILE;
    const size_t c = (size_t)blockIdx.x * 32 + lane;
    float sum = 0, square = 0;
    if (c < t.width) {
#pragma unroll 4
        for (uint32_t i = from + warp; i < end; i += 8) {
            float h = t.h[i * t.width + c];
            sum += h;
            square += h * h;
        }
    }
    sums[0][warp][lane] = sum, sums[1][warp][lane] = square;
    __syncthreads();
    if (warp > 1 || c >= t.width) return;
    float keep = first ? 0 : 0.98f, all = 0; /* as in lsh_upkeep.c */
    for (int k = 0; k < 8; k++) all += sums[warp][k][lane];
    float *m = t.moments + warp * t.width + c; /* at first it may hold anything */
    *m = (first ? 0 : keep * *m) + (1 - keep) / (float)(end - from) * all;
}

/* ---- the frame ---- */

static __device__ size_t sample_step(size_t n_rows)
{
    return (n_rows + SAMPLE - 1) / SAMPLE;
}

static __device__ float weight(const struct wisp_dparam &p, size_t row, size_t c)
{
    size_t at = row * p.cols + c;
    return p.w ? p.w[at] : __bfloat162float(p.b16[at]);
}

/* The sum over a block of 1024 threads, the same in all and in a fixed order. */
static __device__ double block_sum(double x)
{
    __shared__ double sums[32];
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(WISP_WARP, x, d);
    __syncthreads(); /* of the sum before */
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    for (int k = 0; k < 32; k++) x += sums[k];
    return x;
}

static __device__ float deviation(const struct wisp_dhash &t, size_t c)
{
    float mean = t.moments[c], variance = __fsub_rn(t.moments[t.width + c], __fmul_rn(mean, mean));
    return variance > 0 ? sqrtf(variance) : 0;
}

/* Mean, scale and centre of 32 columns per block; a thread adds every 32nd sampled row. */
static __global__ void __launch_bounds__(1024) centre(const __grid_constant__ struct wisp_dhash t)
{
    __shared__ float part[32][33];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t c = (size_t)blockIdx.x * 32 + lane, step = sample_step(t.n_rows);
    double deviations = 0;
    for (size_t i = threadIdx.x; i < t.width; i += 1024) deviations += deviation(t, i);
    float least = (float)(block_sum(deviations) / (20 * (double)t.width));
    if (!(least > 0)) least = 1; /* no query seen, or all the same */
    float sum = 0;
    if (c < t.width) {
#pragma unroll 8
        for (size_t row = warp * step; row < t.n_rows; row += 32 * step) sum += weight(t.w, row, c);
    }
    part[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || c >= t.width) return;
    double all = 0;
    for (int k = 0; k < 32; k++) all += part[k][lane];
    float scale = deviation(t, c);
    if (!(scale >= least)) scale = least;
    t.frame[c] = t.moments[c];
    t.frame[t.width + c] = scale;
    t.frame[2 * t.width + c] = (float)(all * scale / (double)((t.n_rows + step - 1) / step));
}

/* b + mean . w and |scale w - centre|^2 of each sampled row, one warp per row. */
static __global__ void __launch_bounds__(256) look(const __grid_constant__ struct wisp_dhash t)
{
    const uint32_t lane = threadIdx.x % 32;
    const size_t i = blockIdx.x * 8 + threadIdx.x / 32, row = i * sample_step(t.n_rows);
    if (i >= SAMPLE || row >= t.n_rows) return;
    const float *mean = t.frame, *scale = mean + t.width, *middle = scale + t.width;
    float bias = 0, square = 0;
    for (size_t c = lane; c < t.width; c += 32) {
        float w = weight(t.w, row, c), x = __fsub_rn(__fmul_rn(scale[c], w), middle[c]);
        bias += mean[c] * w;
        square += x * x;
    }
    bias = wisp_warp_sum(bias);
    square = wisp_warp_sum(square);
    if (lane > 0) return;
    t.sample[i] = t.bias.w[row] + bias;
    t.sample[SAMPLE + i] = square;
}

/* Centre of the biases, beta and M: one block, one thread per sampled row. */
static __global__ void __launch_bounds__(1024) settle(const __grid_constant__ struct wisp_dhash t)
{
    __shared__ float length[SAMPLE];
    const size_t step = sample_step(t.n_rows);
    const uint32_t n = (uint32_t)((t.n_rows + step - 1) / step), i = threadIdx.x;
    const bool mine = i < n;
    float y = mine ? t.sample[i] : 0, square = mine ? t.sample[SAMPLE + i] : 0;
    float *out = t.frame + 3 * t.width; /* centre_bias, beta, m */
    float middle = (float)(block_sum(y) / n), beta = 1;
    if (mine) y -= middle;
    if (t.appended) {
        double xx = block_sum(square), yy = block_sum((double)y * y);
        double b = sqrt(sqrt(xx / (yy * (double)t.width)));
        if (b > 1e-3 && b < 1e3) beta = (float)b;
    }
    if (i == 0) out[0] = middle, out[1] = beta, out[2] = 0;
    if (!t.appended) return;
    const float own = sqrtf(square + beta * y * (beta * y));
    length[i] = own;
    __syncthreads();
    if (!mine) return;
    uint32_t rank = 0;
    for (uint32_t k = 0; k < n; k++) rank += length[k] < own || (length[k] == own && k < i);
    if (rank == (uint32_t)((double)(n - 1) * 0.98)) out[2] = own;
}

/* ---- vectors into shared memory ---- */

struct held { /* vectors of a block */
    float *x;
    uint32_t stride, rows, m; /* room for 'rows', m of them are there; others hold 0 */
    size_t first;             /* number of the first */
    uint32_t first_table, n_tables;
};

static __host__ __device__ uint32_t stride_of(int kind, size_t total)
{
    return (uint32_t)(kind == SIGNS ? (total + 3) / 4 * 4 : total | 1);
}

template <int source>
static __device__ float4 load(const struct wisp_dhash &t, size_t row, uint32_t c)
{
    size_t at = row * t.width + c;
    if (source == QUERIES) return *(const float4 *)(t.h + at);
    if (source == FLOATS) return __ldcs((const float4 *)(t.w.w + at)); /* read once: let it go */
    uint2 h = __ldcs((const uint2 *)(t.w.b16 + at));
    return make_float4(__uint_as_float(h.x << 16), __uint_as_float(h.x & 0xffff0000u),
                       __uint_as_float(h.y << 16), __uint_as_float(h.y & 0xffff0000u));
}

/* A warp reads 4 rows of 32 columns, 16 bytes per lane, two such tiles of each of two groups of
 * rows at a time; with an odd stride the 32 lanes then write to 32 banks.  'frame': as the frame
 * shows them; 'hide': zeros as minus infinity, and some[row] = 1 where a value is not zero. */
template <int source>
static __device__ void stage(const struct wisp_dhash &t, const struct held &b, bool frame,
                             bool hide, uint32_t *some)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, width = (uint32_t)t.width;
    const uint32_t r0 = 4 * warp + lane / 8;
    const float *one = t.frame + (source == QUERIES ? 0 : width), *two = one + width;
    for (uint32_t c0 = lane % 8 * 4; c0 < width; c0 += 64) {
        float4 v[2][2];
        for (uint32_t k = 0; k < 2; k++)
            for (uint32_t g = 0; g < 2; g++) {
                uint32_t r = r0 + 4 * WARPS * g, c = c0 + 32 * k;
                v[k][g] = make_float4(0, 0, 0, 0);
                if (r < b.m && c < width) v[k][g] = load<source>(t, b.first + r, c);
            }
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t c = c0 + 32 * k;
            if (c >= width) break;
            float4 p = make_float4(0, 0, 0, 0), q = p; /* mean, scale; scale, centre */
            if (frame) p = *(const float4 *)(one + c), q = *(const float4 *)(two + c);
            const float *ps = &p.x, *qs = &q.x;
            for (uint32_t g = 0; g < 2; g++) {
                uint32_t r = r0 + 4 * WARPS * g;
                const float *vs = &v[k][g].x;
                bool any = false;
                if (r >= b.rows) break;
                for (uint32_t i = 0; i < 4; i++) {
                    float x = vs[i];
                    if (frame && r < b.m)
                        x = source == QUERIES ? __fdiv_rn(__fsub_rn(x, ps[i]), qs[i])
                                              : __fsub_rn(__fmul_rn(ps[i], x), qs[i]);
                    any |= x != 0;
                    b.x[r * b.stride + c + i] = hide && x == 0 ? -INFINITY : x;
                }
                if (hide && any) some[r] = 1;
            }
        }
    }
}

/* The two coordinates more of families of angles; rows, which were staged as they are, go into the
 * frame.  A warp a vector. */
template <int source>
static __device__ void append(const struct wisp_dhash &t, const struct held &b)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, width = (uint32_t)t.width;
    const float *mean = t.frame, *scale = mean + width, *middle = scale + width;
    const float centre_bias = middle[width], beta = middle[width + 1], most = middle[width + 2];
    for (uint32_t r = warp; r < b.rows; r += WARPS) {
        float *x = b.x + r * b.stride, bias = 0, square = 0, y = 1 / beta, rest = 0;
        if (source != QUERIES && r < b.m) {
            for (uint32_t c = lane; c < width; c += 32) {
                float w = x[c], v = __fsub_rn(__fmul_rn(scale[c], w), middle[c]);
                bias += mean[c] * w;
                square += v * v;
                x[c] = v;
            }
            y = beta * (t.bias.w[b.first + r] + wisp_warp_sum(bias) - centre_bias);
            rest = most * most - wisp_warp_sum(square) - y * y;
        }
        if (lane > 0) continue;
        x[width] = r < b.m ? y : 0;
        x[width + 1] = rest > 0 ? sqrtf(rest) : 0;
    }
}

/* ---- keys ---- */

/* The key of vector 'row' of the block under the k-th table of those being made. */
template <int source>
static __device__ void put(const struct wisp_dhash &t, const struct held &b, uint32_t row,
                           uint32_t k, uint32_t key)
{
    uint32_t bucket = (key * 0x9e3779b1u & t.key_mask) >> t.key_shift;
    if (source == QUERIES) {
        t.tables.query[(b.first + row) * t.n_tables + b.first_table + k] = bucket;
        return;
    }
    size_t at = k * t.n_rows + b.first + row;
    t.keys[at] = (uint32_t)((uint64_t)k << t.bits) | bucket;
    t.ids[at] = (int32_t)(b.first + row);
}

static __device__ size_t borrowed(size_t bin, uint32_t attempt, size_t n_bins)
{
    return __umul64hi(wisp_dmix(((uint64_t)bin << 8) + attempt + 0x9e3779b97f4a7c15u), n_bins);
}

/* wta, dwta: the place of the largest of a bin's eight coordinates, ties to the first. */
static __device__ uint32_t winner(const float *x, const uint32_t *place, bool *none)
{
    uint4 p = __ldg((const uint4 *)place), q = __ldg((const uint4 *)place + 1);
    float v[BIN] = { x[p.x], x[p.y], x[p.z], x[p.w], x[q.x], x[q.y], x[q.z], x[q.w] };
    uint32_t at = 0;
    float most = v[0];
    for (uint32_t j = 1; j < BIN; j++)
        if (v[j] > most) most = v[j], at = j;
    *none = most == -INFINITY;
    return at;
}

/* minhash: the first place of a bin, a multiple of 4, whose coordinate is in the set. */
static __device__ uint32_t first_place(const float *x, const uint32_t *place, uint32_t bin,
                                       bool *none)
{
    *none = false;
    for (uint32_t j = 0; j < bin; j += 4) {
        uint4 p = __ldg((const uint4 *)(place + j));
        float v[4] = { x[p.x], x[p.y], x[p.z], x[p.w] };
        for (uint32_t i = 0; i < 4; i++)
            if (v[i] != 0) return j + i;
    }
    *none = true;
    return 0;
}

/* A thread makes whole keys of one vector; bins with nothing come after, and borrow if the vector
 * has anything at all. */
template <int kind, int source>
static __device__ void bin_keys(const struct wisp_dhash &t, const struct held &b,
                                const uint32_t *some)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, beside = 32 / b.rows;
    const uint32_t row = lane % b.rows, *places = (const uint32_t *)t.functions;
    const uint32_t bits = kind == SETS ? (uint32_t)t.digit_bits : 3, bin = 1u << bits;
    const uint32_t digits = (uint32_t)t.digits, n_bins = (uint32_t)t.n_tables * digits;
    const float *x = b.x + row * b.stride;
    if (row >= b.m) return;
    for (uint32_t k = warp * beside + lane / b.rows; k < b.n_tables; k += WARPS * beside) {
        const uint32_t first = (b.first_table + k) * digits;
        const uint32_t *place = places + (size_t)first * bin;
        uint32_t key = 0, empty = 0;
        bool none;
#pragma unroll 2
        for (uint32_t j = 0; j < digits; j++, place += bin) {
            uint32_t digit =
                kind == SETS ? first_place(x, place, bin, &none) : winner(x, place, &none);
            key = key << bits | digit;
            empty |= (uint32_t)none << j;
        }
        for (empty = some[row] ? empty : 0; empty; empty &= empty - 1) {
            uint32_t j = (uint32_t)__ffs((int)empty) - 1, digit = 0;
            none = true;
            for (uint32_t a = 0; none && a < BORROWS; a++) {
                place = places + borrowed(first + j, a, n_bins) * bin;
                digit = kind == SETS ? first_place(x, place, bin, &none) : winner(x, place, &none);
            }
            key |= digit << bits * (digits - 1 - j); /* 0 so far */
        }
        put<source>(t, b, row, k, key);
    }
}

/* simhash.  A lane is a column of a (width, n_tables * digits), with 16 vectors in registers (8
 * queries); signs of 32 columns are a word, and a key is cut out of a vector's words. */
template <int source>
static __device__ void sign_keys(const struct wisp_dhash &t, const struct held &b)
{
    constexpr uint32_t N = source == QUERIES ? 8 : 16;
    __shared__ uint32_t signs[ROWS][SIGN_BITS / 32 + 1];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, digits = (uint32_t)t.digits;
    const uint32_t total = (uint32_t)(t.width + t.appended), parts = (b.rows + N - 1) / N;
    const uint32_t columns = (uint32_t)t.n_tables * digits, at_once = SIGN_BITS / digits;
    for (uint32_t k0 = 0; k0 < b.n_tables; k0 += at_once) {
        const uint32_t tables = min(at_once, b.n_tables - k0), n_bits = tables * digits;
        const uint32_t words = (n_bits + 31) / 32;
        for (uint32_t item = warp; item < words * parts; item += WARPS) {
            const uint32_t word = item / parts, r0 = item % parts * N;
            const uint32_t bit = min(word * 32 + lane, n_bits - 1); /* the last again, past it */
            const float *a = (const float *)t.functions, *x[N];
            float z[N];
            a += (size_t)(b.first_table + k0) * digits + bit;
            for (uint32_t r = 0; r < N; r++)
                x[r] = b.x + min(r0 + r, b.rows - 1) * b.stride, z[r] = 0;
            uint32_t c = 0;
            for (; c + 4 <= total; c += 4, a += 4 * columns) {
                float a0 = __ldg(a), a1 = __ldg(a + columns);
                float a2 = __ldg(a + 2 * columns), a3 = __ldg(a + 3 * columns);
                for (uint32_t r = 0; r < N; r++) {
                    float4 v = *(const float4 *)(x[r] + c);
                    z[r] += a0 * v.x;
                    z[r] += a1 * v.y;
                    z[r] += a2 * v.z;
                    z[r] += a3 * v.w;
                }
            }
            for (; c < total; c++, a += columns) {
                float a0 = __ldg(a);
                for (uint32_t r = 0; r < N; r++) z[r] += a0 * x[r][c];
            }
            for (uint32_t r = 0; r < N; r++) {
                uint32_t up = __ballot_sync(WISP_WARP, z[r] > 0);
                if (lane == r && r0 + r < b.rows) signs[r0 + r][word] = up;
            }
        }
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < tables * b.rows; i += THREADS) {
            uint32_t row = i % b.rows, k = i / b.rows, at = k * digits;
            const uint32_t *s = signs[row] + at / 32;
            /* the first digit is the lowest bit here and the highest of the key; s[1], where it is
             * past the last word, holds none of the digits */
            uint32_t key = __brev(__funnelshift_r(s[0], s[1], at % 32)) >> (32 - digits);
            if (row < b.m) put<source>(t, b, row, k0 + k, key);
        }
        __syncthreads();
    }
}

/* 1 at the largest coordinates of each vector, of equals at the first, and 0 at the others; a warp
 * a vector.  The least of the set is found bit by bit, from the highest down: each bit is kept if
 * there are still enough coordinates as large. */
static __device__ void mark_sets(const struct wisp_dhash &t, const struct held &b)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, width = (uint32_t)t.width;
    const uint32_t want = max(1u, min(30u, width / 4)); /* set_size of minhash.c */
    for (uint32_t r = warp; r < b.m; r += WARPS) {
        float *x = b.x + r * b.stride;
        for (uint32_t c = lane; c < width; c += 32) { /* numbers in the order of the floats */
            uint32_t u = __float_as_uint(x[c] + 0.0f);
            x[c] = __uint_as_float(u ^ (u >> 31 ? 0xffffffffu : 0x80000000u));
        }
        uint32_t least = 0, n = 0, left = want;
        for (uint32_t bit = 1u << 31; bit && n != want; bit >>= 1) {
            n = 0;
            for (uint32_t c = lane; c - lane < width; c += 32) {
                bool in = c < width && __float_as_uint(x[c]) >= (least | bit);
                n += __popc(__ballot_sync(WISP_WARP, in));
            }
            if (n >= want) least |= bit;
        }
        for (uint32_t c = lane; c - lane < width; c += 32)
            left -= __popc(__ballot_sync(WISP_WARP, c < width && __float_as_uint(x[c]) > least));
        for (uint32_t c = lane; c - lane < width; c += 32) {
            uint32_t u = c < width ? __float_as_uint(x[c]) : 0;
            uint32_t equals = __ballot_sync(WISP_WARP, c < width && u == least);
            bool in = u > least || (u == least && __popc(equals & ((1u << lane) - 1)) < left);
            if (c < width) x[c] = in ? 1.0f : 0.0f;
            left -= min(left, (uint32_t)__popc(equals));
        }
    }
}

template <int kind, int source>
static __global__ void __launch_bounds__(THREADS)
    make_keys(const __grid_constant__ struct wisp_dhash t, uint32_t rows, uint32_t first_table,
              uint32_t n_tables)
{
    extern __shared__ float4 shared_block[];
    __shared__ uint32_t some[ROWS];
    size_t n = t.n_rows, first = (size_t)blockIdx.x * rows;
    if (source == QUERIES) n = min((size_t)t.now->n, t.batch);
    if (first >= n) return;
    const uint32_t stride = stride_of(kind, t.width + t.appended);
    const uint32_t m = (uint32_t)min((size_t)rows, n - first);
    const struct held b = { (float *)shared_block, stride, rows, m, first, first_table, n_tables };
    if (threadIdx.x < ROWS) some[threadIdx.x] = kind == SETS; /* a set is never empty */
    __syncthreads();
    bool whole = kind == SIGNS && source != QUERIES && t.appended; /* append needs the row itself */
    stage<source>(t, b, t.transform && !whole, kind == ORDERS && t.family == DWTA, some);
    __syncthreads();
    if (kind == SIGNS && t.appended) append<source>(t, b);
    if (kind == SETS) mark_sets(t, b);
    if (kind != ORDERS) __syncthreads();
    if (kind == SIGNS) sign_keys<source>(t, b);
    else bin_keys<kind, source>(t, b, some);
}

/* ---- tables ---- */

/* start[b] = first place in the table with a bucket of b or more, b = 0 .. 2^bits. */
static __global__ void __launch_bounds__(256)
    edges(uint32_t *start, const uint32_t *keys, size_t n_rows, int bits)
{
    const uint64_t b = (uint64_t)blockIdx.x * 256 + threadIdx.x, n = (uint64_t)1 << bits;
    const uint64_t table = blockIdx.y, least = (table << bits) + b;
    if (b > n) return;
    keys += table * n_rows;
    size_t low = 0, high = n_rows;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (keys[middle] < least) low = middle + 1;
        else high = middle;
    }
    start[table * (n + 1) + b] = (uint32_t)low;
}

/* The rows of n tables from 'first' on into their buckets; work NULL: *bytes that it takes. */
static void sort_tables(const struct wisp_dhash &t, size_t first, size_t n, void *work,
                        size_t *bytes, cudaStream_t s)
{
    int bits = t.bits;
    while ((size_t)1 << (bits - t.bits) < n) bits++;
    int32_t *rows = t.tables.rows ? t.tables.rows + first * t.n_rows : NULL;
    cudaError_t e = cub::DeviceRadixSort::SortPairs(work, *bytes, (const uint32_t *)t.keys,
                                                    t.keys_sorted, (const int32_t *)t.ids, rows,
                                                    (uint32_t)(n * t.n_rows), 0, bits, s);
    assert(e == cudaSuccess);
    (void)e;
}

/* ---- launching ---- */

/* By the names of hash/families.c. */
static const struct {
    const char *name;
    int family, kind;
} families[] = {
    { "dwta", DWTA, ORDERS },
    { "wta", WTA, ORDERS },
    { "simhash", SIMHASH, SIGNS },
    { "minhash", MINHASH, SETS },
};

int wisp_hash_family(const char *name)
{
    for (const auto &f : families)
        if (strcmp(f.name, name) == 0) return f.family;
    return -1;
}

static int kind_of(int family)
{
    for (const auto &f : families)
        if (f.family == family) return f.kind;
    return ORDERS;
}

template <int source>
static void keys_of(const struct wisp_dhash &t, uint32_t rows, size_t first, size_t n,
                    cudaStream_t s)
{
    const int kind = kind_of(t.family);
    void (*make)(struct wisp_dhash, uint32_t, uint32_t, uint32_t) =
        kind == ORDERS  ? make_keys<ORDERS, source>
        : kind == SIGNS ? make_keys<SIGNS, source>
                        : make_keys<SETS, source>;
    size_t vectors = source == QUERIES ? t.batch : t.n_rows;
    size_t bytes = rows * stride_of(kind, t.width + t.appended) * sizeof(float);
    if (bytes + STATIC_BYTES > 48 * 1024) /* more has to be asked for */
        cudaFuncSetAttribute((const void *)make, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)bytes);
    make<<<(uint32_t)((vectors + rows - 1) / rows), THREADS, bytes, s>>>(t, rows, (uint32_t)first,
                                                                         (uint32_t)n);
}

/* One of them, with two coordinates more, rounded up to four. */
size_t wisp_hash_most_width(void)
{
    return ((wisp_dshared() - STATIC_BYTES) / sizeof(float) - 2) / 4 * 4;
}

size_t wisp_hash_lay(struct wisp_dhash *t, void *block)
{
    const size_t room = wisp_dshared();
    size_t row_bytes = stride_of(kind_of(t->family), t->width + t->appended) * sizeof(float);
    t->rows_at_once = ROWS;
    while (t->rows_at_once > 1 && t->rows_at_once * row_bytes + STATIC_BYTES > room)
        t->rows_at_once /= 2;
    t->group = t->n_rows ? GROUP / t->n_rows : t->n_tables;
    if (t->group > t->n_tables) t->group = t->n_tables;
    if (t->group < 1) t->group = 1;
    while (t->group > 1 && (uint64_t)(t->group - 1) >> (32 - t->bits)) t->group /= 2;

    size_t at = 0, pairs = t->group * t->n_rows, buckets = ((size_t)1 << t->bits) + 1;
    t->moments = (float *)wisp_dtake(block, &at, 2 * t->width * sizeof(float));
    t->frame = (float *)wisp_dtake(block, &at, (3 * t->width + 3) * sizeof(float));
    t->tables.n_tables = t->n_tables;
    t->tables.bits = t->bits;
    t->tables.start = (uint32_t *)wisp_dtake(block, &at, t->n_tables * buckets * sizeof(uint32_t));
    t->tables.rows = (int32_t *)wisp_dtake(block, &at, t->n_tables * t->n_rows * sizeof(int32_t));
    t->tables.query = (uint32_t *)wisp_dtake(block, &at, t->batch * t->n_tables * sizeof(uint32_t));
    t->keys = (uint32_t *)wisp_dtake(block, &at, pairs * sizeof(uint32_t));
    t->keys_sorted = (uint32_t *)wisp_dtake(block, &at, pairs * sizeof(uint32_t));
    t->ids = (int32_t *)wisp_dtake(block, &at, pairs * sizeof(int32_t));
    t->sample = (float *)wisp_dtake(block, &at, 2 * SAMPLE * sizeof(float));
    size_t last = t->n_tables % t->group, bytes = 0; /* the last group may be a smaller one */
    t->work_bytes = 1;
    if (pairs) sort_tables(*t, 0, t->group, NULL, &t->work_bytes, 0);
    if (pairs && last) sort_tables(*t, 0, last, NULL, &bytes, 0);
    if (bytes > t->work_bytes) t->work_bytes = bytes;
    t->work = wisp_dtake(block, &at, t->work_bytes);
    return at;
}

void wisp_hash_observe(const struct wisp_dhash &t, bool first, cudaStream_t s)
{
    observe<<<(uint32_t)((t.width + 31) / 32), 256, 0, s>>>(t, first);
}

void wisp_hash_build(const struct wisp_dhash &t, cudaStream_t s)
{
    if (t.n_rows == 0 || t.n_tables == 0) return;
    if (t.transform) {
        centre<<<(uint32_t)((t.width + 31) / 32), 1024, 0, s>>>(t);
        look<<<SAMPLE / 8, 256, 0, s>>>(t);
        settle<<<1, 1024, 0, s>>>(t);
    }
    const uint32_t buckets = (1u << t.bits) + 1;
    for (size_t first = 0; first < t.n_tables; first += t.group) {
        size_t n = t.n_tables - first < t.group ? t.n_tables - first : t.group;
        size_t bytes = t.work_bytes;
        if (t.w.w) keys_of<FLOATS>(t, t.rows_at_once, first, n, s);
        else keys_of<HALVES>(t, t.rows_at_once, first, n, s);
        sort_tables(t, first, n, t.work, &bytes, s);
        edges<<<dim3((buckets + 255) / 256, (uint32_t)n), 256, 0, s>>>(
            t.tables.start + first * buckets, t.keys_sorted, t.n_rows, t.bits);
    }
}

void wisp_hash_query(const struct wisp_dhash &t, cudaStream_t s)
{
    uint32_t rows = t.rows_at_once < QUERY_ROWS ? t.rows_at_once : (uint32_t)QUERY_ROWS;
    if (t.batch == 0 || t.n_tables == 0) return;
    keys_of<QUERIES>(t, rows, 0, t.n_tables, s);
}
