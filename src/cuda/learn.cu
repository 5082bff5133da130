/* What a step teaches: the best active rows of each sample, and neighbours.c's memories.
 *
 * Best rows.  E (room, lde) has one row per active row, one column per sample.  First the largest E
 * of every tile of 32 rows is found for each sample: all of E is read once, in whole lines.  Where
 * forward has left these maxima, only those of tiles with true labels, whose E changed since, are
 * found anew.  Then a warp a sample looks at its column.  The k best rows lie in the k tiles with
 * the largest maxima: a row of another tile has k better ones, these maxima (of equal ones the
 * smaller tile counts as better, as do its rows).  So k * 32 numbers are looked at, those that can
 * be among the best are listed (about 40 of them for k = 32), and the k largest are sorted. Nothing
 * can overflow, however many are equal. limits of the k largest are found bit by bit from the top:
 * how many numbers have this prefix or a larger one?  16 rounds for bf16, 32 for float. Bytes bound
 * the first pass: 3.3 MB for 256 samples and 6400 rows (1 us), 41 MB for 1024 and 20000 (10 us);
 * the second reads 32 bytes per number, 8 and 33 MB, mostly from the cache, and takes 5 us because
 * its steps wait for each other.
 *
 * Rings.  Each label in the batch has a warp, which holds the ring in shared memory and goes
 * through the label's samples in order.  The rows a sample puts into it are put 32 at a time, one
 * per lane.  1.4 thousand rings of 96 bytes: time is that of 8 reads in a row, 5 us; then of the
 * label that most samples have, about 0.15 us per sample.
 *
 * Carried rows.  One block: 11 + 10 + 10 bits of the limit of the hottest rows, then these. */
#include "cuda/ops.cuh"

#include <math_constants.h>

enum {
    TILE = 32,
    THREADS = 256,
    WARPS = THREADS / 32,
    SMALL = 128,  /* threads a block where a warp has a sample or a label */
    TOGETHER = 6, /* as in neighbours.c */
    TO_ALL = 4,
    WIDE = 1024, /* threads that choose carried rows */
};
#define ALL 0xffffffffu

static size_t tiles_of(const struct wisp_dfind *f)
{
    return ((f->active.room + TILE - 1) / TILE + 7) / 8 * 8;
}

static size_t max_stride(const struct wisp_dfind *f) /* samples of a row of tile_max */
{
    return (f->batch + 127) / 128 * 128;
}

size_t wisp_find_lay(struct wisp_dfind *f, void *block)
{
    size_t at = 0, lde = max_stride(f);
    f->wrong = (int32_t *)wisp_dtake(block, &at, f->batch * f->last * sizeof(int32_t));
    f->tile_max = (float *)wisp_dtake(block, &at, f->k ? lde * tiles_of(f) * sizeof(float) : 0);
    return at;
}

static __device__ int warp_sum(int x)
{
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(ALL, x, d);
    return x;
}

static __device__ uint32_t below(int lane) /* lanes */
{
    return (1u << lane) - 1;
}

/* ---- the best active rows: tiles ---- */

template <bool half> struct type {        /* of E */
    static const int lane = half ? 8 : 4; /* samples in 16 bytes */
    static const int warp = 8 * lane;     /* in a line of 128 */
    static const int bits = half ? 16 : 32;
};

template <bool half> static __device__ float number(const uint4 &x, int i)
{
    const uint32_t w = half ? (&x.x)[i / 2] : (&x.x)[i];
    if (!half) return __uint_as_float(w);
    return __uint_as_float(i % 2 ? w & 0xffff0000u : w << 16);
}

/* One warp per tile: 8 lanes read a line of a row, 4 rows at a time. */
template <bool half>
static __global__ void __launch_bounds__(THREADS)
    max_tiles(const struct wisp_dfind f, const void *e, size_t lde, size_t stride)
{
    enum { LANE = type<half>::lane, WARP = type<half>::warp };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t n = f.now->n, n_active = *f.active.n;
    const uint32_t first = blockIdx.y * WARP, tile = blockIdx.x * WARPS + warp;
    if (first >= n || (size_t)tile * TILE >= n_active) return;
    const size_t size = half ? sizeof(__nv_bfloat16) : sizeof(float);
    const char *from = (const char *)e + (first + lane % 8 * LANE) * size;
    uint4 x[8];
    float m[LANE];
#pragma unroll
    for (int u = 0; u < 8; u++) {
        uint32_t row = tile * TILE + 4 * u + lane / 8;
        if (row >= n_active) row = n_active - 1; /* which is in this tile too */
        x[u] = *(const uint4 *)(from + row * lde * size);
    }
#pragma unroll
    for (int i = 0; i < LANE; i++) {
        m[i] = -CUDART_INF_F;
#pragma unroll
        for (int u = 0; u < 8; u++) m[i] = fmaxf(m[i], number<half>(x[u], i));
        m[i] = fmaxf(m[i], __shfl_xor_sync(ALL, m[i], 8));
        m[i] = fmaxf(m[i], __shfl_xor_sync(ALL, m[i], 16));
    }
    float4 *to = (float4 *)(f.tile_max + tile * stride + first + lane * LANE);
#pragma unroll
    for (int i = 0; i < LANE; i += 4)
        if (lane < 8) to[i / 4] = make_float4(m[i], m[i + 1], m[i + 2], m[i + 3]);
}

/* ---- the best active rows: choosing ---- */

/* A number as bits that grow with it, 0 and -0 the same; of bf16 the upper 16. */
template <bool half> static __device__ uint32_t rising(float x)
{
    uint32_t bits = __float_as_uint(x + 0.0f);
    bits ^= bits >> 31 ? 0xffffffffu : 0x80000000u;
    return half ? bits >> 16 : bits;
}

static __device__ int count_from(const uint32_t *v, int n, uint32_t x)
{
    int c = 0;
#pragma unroll 8
    for (int a = threadIdx.x % 32; a < n; a += 32) c += v[a] >= x;
    return warp_sum(c);
}

/* Places of the k largest of v (all, if there are no more), ascending; of equal ones the first.
 * Returns how many; *limit: none that is smaller was taken.  A warp calls it, v is in shared
 * memory. */
template <bool half>
static __device__ int k_largest(int *out, const uint32_t *v, int n, int k, uint32_t *limit)
{
    const int lane = threadIdx.x % 32;
    uint32_t x = 0;
    int left = k, found = 0; /* left: how many that are equal to x are taken */
    if (n > k) {
        for (int b = type<half>::bits - 1; b >= 0; b--) {
            uint32_t next = x | 1u << b;
            int c = count_from(v, n, next);
            if (c >= k) x = next;
            if (c == k) break; /* all of these, then */
        }
        if (x != ~0u) left -= count_from(v, n, x + 1);
    }
    for (int base = 0; base < n; base += 32) {
        int a = base + lane;
        uint32_t own = a < n ? v[a] : 0;
        bool same = a < n && own == x;
        uint32_t all_same = __ballot_sync(ALL, same);
        bool in = a < n && (own > x || (same && __popc(all_same & below(lane)) < left));
        uint32_t all_in = __ballot_sync(ALL, in);
        if (in) out[found + __popc(all_in & below(lane))] = a;
        found += __popc(all_in);
        left -= __popc(all_same) < left ? __popc(all_same) : left;
    }
    *limit = x;
    __syncwarp();
    return found;
}

struct work {              /* of a warp, in shared memory */
    uint64_t *key;         /* (k) */
    uint32_t *value, *row; /* (k * TILE) listed rows */
    uint32_t *max;         /* (tiles) at the same place: done with when rows are listed */
    int *chosen;           /* (k) tiles, then listed rows */
};

static __host__ __device__ size_t work_words(size_t k, size_t tiles)
{
    return 2 * k * TILE > tiles ? 2 * k * TILE : tiles;
}

static __host__ __device__ size_t work_bytes(size_t k, size_t tiles)
{
    return (k * 8 + work_words(k, tiles) * 4 + k * 4 + 15) / 16 * 16;
}

static __device__ struct work work_at(char *block, size_t k, size_t tiles)
{
    struct work w;
    w.key = (uint64_t *)block;
    w.value = (uint32_t *)(w.key + k);
    w.row = w.value + k * TILE;
    w.max = w.value;
    w.chosen = (int *)(w.max + work_words(k, tiles));
    return w;
}

/* What E must be above to be worth listing: what the pot has is known already (output.c). */
static __device__ float limit_of(const struct wisp_dfind &f, enum wisp_loss_id loss, size_t i)
{
    float z = f.limit[i];
    if (z == -CUDART_INF_F) return z;
    return 0.98f * (loss == WISP_SOFTMAX ? expf(z - f.origin[i]) : 1 / (1 + expf(-z)));
}

/* Lists the rows of the chosen tiles that may be among the best; returns how many. */
template <bool half>
static __device__ int list_rows(const struct work &w, int n, uint32_t n_active, const void *column,
                                size_t lde, float limit, uint32_t least)
{
    enum { AHEAD = 16 };
    const int lane = threadIdx.x % 32;
    int listed = 0;
    for (int first = 0; first < n; first += AHEAD) {
        float e[AHEAD];
        uint32_t row[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            row[u] = first + u < n ? (uint32_t)w.chosen[first + u] * TILE + lane : n_active;
            e[u] = CUDART_NAN_F;
            if (row[u] >= n_active) continue;
            size_t at = row[u] * lde;
            if (half) e[u] = __uint_as_float((uint32_t)((const uint16_t *)column)[at] << 16);
            else e[u] = ((const float *)column)[at];
        }
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            uint32_t value = rising<half>(e[u]);
            bool in = e[u] > limit && value >= least; /* a NaN is not */
            uint32_t all_in = __ballot_sync(ALL, in);
            if (in) {
                int at = listed + __popc(all_in & below(lane));
                w.value[at] = value;
                w.row[at] = row[u];
            }
            listed += __popc(all_in);
        }
    }
    __syncwarp();
    return listed;
}

/* Maxima of the tiles with true labels of sample i: a warp. */
template <bool half>
static __device__ void renew_max(const struct wisp_dfind &f, const struct work &w, size_t i,
                                 uint32_t n_active, const void *column, size_t lde)
{
    enum { AHEAD = 8 };
    const int lane = threadIdx.x % 32;
    const uint32_t y0 = f.now->yp[i], n = f.now->yp[i + 1] - y0;
    for (uint32_t base = 0; base < n; base += 32) {
        uint32_t own =
            base + lane < n ? wisp_dplace(f.active, f.now->yi[y0 + base + lane]) / TILE : 0;
        uint32_t m = n - base < 32 ? n - base : 32;
        for (uint32_t first = 0; first < m; first += AHEAD) {
            float x[AHEAD];
#pragma unroll
            for (uint32_t u = 0; u < AHEAD; u++) { /* beyond the last: that one again */
                uint32_t tile = __shfl_sync(ALL, own, first + u < m ? first + u : m - 1);
                size_t row = tile * TILE + lane, at = (row < n_active ? row : n_active - 1) * lde;
                if (half) x[u] = __uint_as_float((uint32_t)((const uint16_t *)column)[at] << 16);
                else x[u] = ((const float *)column)[at];
            }
#pragma unroll
            for (uint32_t u = 0; u < AHEAD; u++) {
                for (int d = 16; d > 0; d /= 2) x[u] = fmaxf(x[u], __shfl_xor_sync(ALL, x[u], d));
                uint32_t tile = __shfl_sync(ALL, own, first + u < m ? first + u : m - 1);
                if (lane == 0) w.max[tile] = rising<half>(x[u]);
            }
        }
    }
    __syncwarp();
}

/* One warp per sample.  max (tiles, stride); made: before combine. */
template <bool half>
static __global__ void __launch_bounds__(256)
    best_rows(const struct wisp_dfind f, const void *e, size_t lde, size_t tiles,
              enum wisp_loss_id loss, const float *max, size_t stride, bool made)
{
    extern __shared__ uint4 block[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, k = (int)f.k;
    const size_t i = (size_t)blockIdx.x * (blockDim.x / 32) + warp;
    const uint32_t n = f.now->n, n_active = *f.active.n;
    const uint32_t warps = blockDim.x / 32, first = blockIdx.x * warps;
    if (first >= n) return;
    struct work w = work_at((char *)block + warp * work_bytes(f.k, tiles), f.k, tiles);
    const int n_tiles = (int)((n_active + TILE - 1) / TILE);
    const char *column = (const char *)e + i * (half ? sizeof(__nv_bfloat16) : sizeof(float));
    /* the samples of the block lie side by side; warps is a power of two */
    const uint32_t whose = threadIdx.x % warps;
    uint32_t *to = work_at((char *)block + whose * work_bytes(f.k, tiles), f.k, tiles).max;
#pragma unroll 8
    for (int t = threadIdx.x / warps; t < n_tiles; t += 32)
        to[t] = rising<half>(max[t * stride + first + whose]);
    __syncthreads();
    if (i >= n) return;
    const float limit = limit_of(f, loss, i);
    if (made) renew_max<half>(f, w, i, n_active, column, lde);
    uint32_t least;
    int n_chosen = k_largest<half>(w.chosen, w.max, n_tiles, k, &least);
    int listed = list_rows<half>(w, n_chosen, n_active, column, lde, limit, least);
    int found = k_largest<half>(w.chosen, w.value, listed, k, &least);
    for (int c = lane; c < found; c += 32)
        w.key[c] = (uint64_t)w.value[w.chosen[c]] << 32 | ~w.row[w.chosen[c]];
    __syncwarp();
    int32_t *best = f.best + i * f.k;
    for (int c = lane; c < found; c += 32) {
        uint64_t key = w.key[c];
        int place = 0;
#pragma unroll 8
        for (int b = 0; b < found; b++) place += w.key[b] > key;
        best[place] = f.active.rows[~(uint32_t)key];
    }
    for (int c = found + lane; c < k; c += 32) best[c] = -1;
}

template <bool half>
static void launch_best(const struct wisp_dfind &f, const struct wisp_dout &o, cudaStream_t s)
{
    const size_t tiles = tiles_of(&f), bytes = work_bytes(f.k, tiles);
    const bool made = o.fast && o.tile_max;
    /* many samples: eight a block, a sector of each tile's maxima */
    unsigned warps = f.batch > 512 && 8 * bytes <= 200 * 1024 ? 8 : 2 * bytes <= 48 * 1024 ? 2 : 1;
    const unsigned across = type<half>::warp;
    dim3 grid((unsigned)((tiles + WARPS - 1) / WARPS), (unsigned)((f.batch + across - 1) / across));
    if (!made) max_tiles<half><<<grid, THREADS, 0, s>>>(f, o.e, o.lde, max_stride(&f));
    if (warps * bytes > 48 * 1024) {
        cudaFuncSetAttribute(best_rows<half>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)(warps * bytes));
        cudaFuncSetAttribute(best_rows<half>, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared); /* blocks of hidden fit beside */
    }
    best_rows<half><<<(unsigned)((f.batch + warps - 1) / warps), 32 * warps, warps * bytes, s>>>(
        f, o.e, o.lde, tiles, o.loss, made ? o.tile_max : f.tile_max, made ? o.lde : max_stride(&f),
        made);
}

void wisp_find_best(const struct wisp_dfind &f, const struct wisp_dout &o, cudaStream_t s)
{
    if (f.k == 0 || f.batch == 0 || f.active.room == 0) return;
    if (o.precision == WISP_IN_BF16) launch_best<true>(f, o, s);
    else launch_best<false>(f, o, s);
}

/* ---- learning ---- */

/* Where a label is, or would be, among the n ascending ones. */
static __device__ uint32_t label_place(const int32_t *labels, uint32_t n, int32_t label)
{
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (labels[mid] < label) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static __device__ bool holds(const int32_t *list, int n, int32_t row)
{
    bool in = false;
    for (int c = 0; c < n; c++) in |= list[c] == row;
    return in;
}

/* The best wrong rows of a sample: those of the active set, then what else its pot had.  A warp a
 * sample. */
static __global__ void __launch_bounds__(SMALL) gather_wrong(const struct wisp_dfind f)
{
    extern __shared__ int32_t lists[]; /* (warps, last) */
    const struct wisp_dnow *now = f.now;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, last = (int)f.last;
    const size_t i = (size_t)blockIdx.x * (SMALL / 32) + warp;
    if (i >= now->n) return;
    const uint32_t y0 = now->yp[i], n_labels = now->yp[i + 1] - y0, id = now->id[i];
    const int32_t *labels = now->yi + y0;
    int32_t *wrong = lists + warp * last;
    int n = 0;
    for (int from = 0; from < 2; from++) {
        const int size = (int)(from ? f.deep : f.k);
        const int32_t *list = from ? f.found + i * f.deep : f.best + i * f.k;
        for (int base = 0; base < size && n < last; base += 32) {
            int32_t row = base + lane < size ? list[base + lane] : -1;
            uint32_t ends = __ballot_sync(ALL, row < 0);
            bool good = (ends & (below(lane) | 1u << lane)) == 0; /* no -1 up to here */
            if (good && from) good = !holds(wrong, n, row);
            else if (good) {
                uint32_t y = label_place(labels, n_labels, row);
                good = y >= n_labels || labels[y] != row;
            }
            uint32_t all = __ballot_sync(ALL, good);
            int at = n + __popc(all & below(lane));
            if (good && at < last) wrong[at] = row;
            n = n + __popc(all) < last ? n + __popc(all) : last;
            __syncwarp();
            if (ends) break;
        }
    }
    for (int c = lane; c < last; c += 32) {
        int32_t row = c < n ? wrong[c] : -1;
        f.wrong[i * f.last + c] = row;
        if (id < f.n_samples) f.lasts[id * f.last + c] = row;
    }
}

struct visit {                 /* a label in a sample */
    uint32_t sample, y0, n, y; /* its labels are yi[y0 .. y0 + n), this one the y-th */
};

/* Where the q-th row is that a visit may put into the label's ring; NULL: none. */
static __device__ const int32_t *row_to_put(const struct wisp_dfind &f, const struct visit &v,
                                            uint32_t q)
{
    if (q < TOGETHER) return q + 1 < v.n ? f.now->yi + v.y0 + (v.y + q + 1) % v.n : NULL;
    q -= TOGETHER;
    if (q >= f.last || (q >= TO_ALL && q % v.n != v.y)) return NULL;
    return f.wrong + v.sample * f.last + q;
}

static __device__ struct visit visit_of_lane(const struct visit &v, int lane)
{
    struct visit x = { __shfl_sync(ALL, v.sample, lane), __shfl_sync(ALL, v.y0, lane),
                       __shfl_sync(ALL, v.n, lane), __shfl_sync(ALL, v.y, lane) };
    return x;
}

/* Puts the lanes' rows, all different, into the ring, in the order of lanes, as if one by one: a
 * row that is in it is skipped, the oldest is overwritten.  Returns the new 'next'.
 *
 * A row that is not in the ring is put; one that is, if as many were put before it as push it out.
 * An answer depends on the lanes before only, so asking all again until nothing changes gives the
 * only one there is: mostly the second or third time. */
static __device__ int put_all(int32_t *ring, int room, int size, int next, int32_t row)
{
    const int lane = threadIdx.x % 32;
    int at = -1;
    for (int c = 0; c < room; c += 4) {
        const int4 x = *(const int4 *)(ring + c);
        at = x.x == row ? c : x.y == row ? c + 1 : x.z == row ? c + 2 : x.w == row ? c + 3 : at;
    }
    int pushes = at < 0 ? 0 : 1 + at - next + (at < next ? size : 0);
    if (row < 0) pushes = 32; /* never so many before */
    uint32_t in = 0, more = __ballot_sync(ALL, pushes == 0);
    while (more != in) {
        in = more;
        more = __ballot_sync(ALL, __popc(in & below(lane)) >= pushes);
    }
    const int n = __popc(in), before = __popc(in & below(lane));
    __syncwarp(); /* all lanes have read the ring */
    if (in >> lane & 1 && before + size >= n) ring[(next + before) % size] = row;
    __syncwarp();
    return (next + n) % size;
}

/* One warp per label: its ring sees the label's samples in their order. */
static __global__ void __launch_bounds__(SMALL) fill_rings(const struct wisp_dfind f)
{
    extern __shared__ int4 space[]; /* (warps, ring rounded up to 4) */
    enum { AHEAD = 8 };             /* visits whose rows are read before the first is used */
    const struct wisp_dnow *now = f.now;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t d = (size_t)blockIdx.x * (SMALL / 32) + warp;
    if (now->n == 0 || d >= now->n_distinct) return;
    const int size = (int)f.ring, room = (size + 3) / 4 * 4;
    const int rounds = (int)(TOGETHER + f.last + 31) / 32;
    const int32_t label = now->distinct[d];
    const uint32_t begin = now->lp[d], end = now->lp[d + 1];
    int32_t *ring = (int32_t *)space + warp * room, *home = f.rings + (size_t)label * f.ring;
    for (int c = lane; c < room; c += 32) ring[c] = c < size ? home[c] : -1;
    int next = f.next[label];
    __syncwarp();
    for (uint32_t base = begin; base < end; base += 32) {
        struct visit own = { 0, 0, 1, 0 };
        if (base + lane < end) {
            own.sample = now->ls[base + lane];
            own.y0 = now->yp[own.sample];
            own.n = now->yp[own.sample + 1] - own.y0;
            own.y = label_place(now->yi + own.y0, own.n, label);
        }
        const int jobs = (int)(end - base < 32 ? end - base : 32) * rounds;
        for (int first = 0; first < jobs; first += AHEAD) {
            int32_t row[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++) {
                const int j = first + u;
                const int32_t *from = NULL;
                if (j < jobs)
                    from = row_to_put(f, visit_of_lane(own, j / rounds),
                                      (uint32_t)(j % rounds * 32 + lane));
                row[u] = from ? *from : -1;
            }
#pragma unroll
            for (int u = 0; u < AHEAD; u++)
                if (first + u < jobs) next = put_all(ring, room, size, next, row[u]);
        }
    }
    __syncwarp();
    for (int c = lane; c < size; c += 32) home[c] = ring[c];
    if (lane == 0) f.next[label] = (uint8_t)next;
}

/* ---- carried rows ---- */

/* The sum of x over the threads before this one; *total: over all. */
static __device__ uint32_t scan_wide(uint32_t x, uint32_t *total)
{
    __shared__ uint32_t part[WIDE / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t up_to = x;
    for (int d = 1; d < 32; d *= 2) {
        uint32_t y = __shfl_up_sync(ALL, up_to, d);
        if (lane >= d) up_to += y;
    }
    __syncthreads(); /* what an earlier call left was read */
    if (lane == 31) part[warp] = up_to;
    __syncthreads();
    uint32_t before = 0, sum = 0;
    for (int w = 0; w < WIDE / 32; w++) {
        if (w < warp) before += part[w];
        sum += part[w];
    }
    *total = sum;
    return before + up_to - x;
}

/* Bits of the want-th largest positive number of x, 1 if there are fewer; *ties: how many that are
 * equal to it are among the first 'want'. */
static __device__ uint32_t hot_limit(const float *x, uint32_t n, uint32_t want, uint32_t *ties)
{
    __shared__ uint32_t count[2 * WIDE], found, before;
    uint32_t prefix = 0;
    for (int pass = 0; pass < 3; pass++) {
        const int shift = 20 - 10 * pass; /* 11 bits below the sign, then 10 and 10 */
        for (int c = threadIdx.x; c < 2 * WIDE; c += WIDE) count[c] = 0;
        __syncthreads();
        for (uint32_t a = threadIdx.x; a < n; a += WIDE) {
            uint32_t bits = __float_as_uint(x[a]);
            if (!(x[a] > 0) || (pass && bits >> (shift + 10) != prefix)) continue;
            atomicAdd(&count[pass ? bits >> shift & (WIDE - 1) : bits >> shift], 1u);
        }
        __syncthreads();
        const uint32_t top =
            2 * WIDE - 1 - 2 * threadIdx.x; /* two digits per thread, largest first */
        uint32_t total, above = scan_wide(count[top] + count[top - 1], &total);
        if (total < want) { /* in the first pass only: all positive ones */
            *ties = want;
            return 1;
        }
        for (uint32_t c = 0; c < 2; c++) {
            uint32_t here = count[top - c];
            if (above < want && want <= above + here) found = top - c, before = above;
            above += here;
        }
        __syncthreads();
        prefix = pass ? prefix << 10 | found : found;
        want -= before;
        __syncthreads();
    }
    *ties = want;
    return prefix;
}

static __global__ void __launch_bounds__(WIDE)
    carry_rows(const struct wisp_dfind f, const float *heat)
{
    const uint32_t n = *f.active.n;
    if (f.now->n == 0) return;
    uint32_t ties, total;
    const uint32_t limit = hot_limit(heat, n, (uint32_t)f.n_carried, &ties);
    const uint32_t share = (n + WIDE - 1) / WIDE, first = threadIdx.x * share;
    const uint32_t end = first + share < n ? first + share : n;
    uint32_t same = 0, hotter = 0;
    for (uint32_t a = first; a < end; a++) {
        uint32_t bits = __float_as_uint(heat[a]);
        if (!(heat[a] > 0)) continue;
        same += bits == limit;
        hotter += bits > limit;
    }
    uint32_t before = scan_wide(same, &total);
    uint32_t left = before < ties ? ties - before : 0; /* equal ones this thread may take */
    uint32_t at = scan_wide(hotter + (same < left ? same : left), &total);
    for (uint32_t a = first; a < end; a++) {
        uint32_t bits = __float_as_uint(heat[a]);
        if (!(heat[a] > 0) || bits < limit) continue;
        if (bits == limit && left == 0) continue;
        if (bits == limit) left--;
        f.carried[1 + at++] = f.active.rows[a];
    }
    if (threadIdx.x == 0) f.carried[0] = (int32_t)total;
}

void wisp_find_learn(const struct wisp_dfind &f, const struct wisp_dout &o, cudaStream_t s)
{
    const unsigned warps = SMALL / 32;
    if (!f.neighbours) return;
    if (f.k && f.batch) {
        gather_wrong<<<(unsigned)((f.batch + warps - 1) / warps), SMALL,
                       warps * f.last * sizeof(int32_t), s>>>(f);
        unsigned blocks = (unsigned)((o.lab_room + warps - 1) / warps);
        if (blocks) fill_rings<<<blocks, SMALL, warps *((f.ring + 3) / 4) * sizeof(int4), s>>>(f);
    }
    if (f.n_carried) carry_rows<<<1, WIDE, 0, s>>>(f, o.heat);
}
