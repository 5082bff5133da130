/* Finding the active rows of a step: neighbours.c, lsh.c, pot.c and sampler.c of hash/.
 *
 * A block finds the rows of one sample: of 256 threads, or of 128 where there are so many samples
 * that blocks of 256 would not all be on the card at once.  Lists of rows are read in this order:
 *     its last rows | rings of its labels (10 at most)          -> scored
 *     rings of the 'hops' best of these | rows of its buckets   -> scored
 * each list up to its first -1.  A row is scored once, true labels never: a hash table in shared
 * memory tells what was there.  Then the best of all are kept.
 *
 *     raw   (raw)   lists as read, one after the other
 *     slots (2^b)   the hash table: rows, -1: free
 *     rows  (room)  rows without repeats, in any order
 *     keys  (room)  each with its score
 * The order of 'rows' depends on timing, but nothing else does: the table holds the same set of
 * rows in any case, a score depends on its row only, and no two keys are equal.  What does not fit
 * is cut before it gets there, by its place in the lists: there is room for all of the rings, and
 * for 512 rows of the buckets.  Where these hold more, the longest give less: at most as many each
 * as makes them fit (and in the order of tables), the first of each bucket.  hash/lsh.c would keep
 * the 5 keep rows found in most tables; here all are scored.
 *
 * The sample's h lies in shared memory, too; one that is too wide for it is read where it is.
 *
 * The union is a bitmap, in chunks of 1024 words: counted, then listed; where there are few, each
 * block counts all words before its own.
 *
 * Bytes bound it: a sample scores about 270 rows of 128 columns, 512 bytes each: 35 MB for 256
 * samples, 9 us at 4 TB/s; 18 Mflop are nothing.  A chain of 9 reads that wait for each other, 0.7
 * us each, is the other half of the time.  The union reads and writes 170 KB. */
#include "cuda/ops.cuh"
#include "base/rand.h"
#include "graph/ids.h"

#include <math_constants.h>

enum {
    THREADS = 256,
    WARPS = THREADS / 32,
    FEW_THREADS = 128,   /* of a sample, where there are more than MANY */
    MANY = 3 * 132,      /* blocks of THREADS that the card has room for */
    LANES = 8,           /* a row: 16 bytes each, 128 bytes of a row at a time */
    MOST_RINGS = 10,     /* as in neighbours.c */
    WORDS = 4 * THREADS, /* of a chunk */
    FEW_CHUNKS = 32,
    STATIC_BYTES = 4096, /* of shared memory, that find_rows declares */
};
#define ALL 0xffffffffu

struct sizes {               /* places in shared memory, from the settings */
    int lists, hops, hashed; /* places of raw: first lists; rings of the best; rows of buckets */
    int raw, room, most;     /* most: best rows asked for */
    int ends;                /* lists at a time */
    int width;               /* rounded up to what a group reads at a time; 0: h stays outside */
    int bits;                /* of a slot's number */
    size_t bytes;
};

static int most_of(int a, int b)
{
    return a > b ? a : b;
}

static struct sizes sizes_of(const struct wisp_dfind &f)
{
    struct sizes z = {};
    if (f.neighbours) {
        z.lists = (int)(f.last + MOST_RINGS * f.ring);
        z.hops = (int)(f.hops * f.ring);
    }
    z.hashed = f.lsh.n_tables ? WISP_FIND_HASHED : 0;
    z.raw = most_of(z.lists, z.hops + z.hashed);
    z.room = z.lists + z.hops + z.hashed;
    z.room += z.room & 1; /* what follows stays at multiples of 16 bytes */
    z.most = most_of(most_of((int)f.keep, (int)f.deep), f.neighbours ? (int)f.hops : 0);
    z.most += z.most & 1;
    z.ends = most_of(1 + MOST_RINGS, f.neighbours ? 1 + (int)f.hops : 0);
    z.width = (int)(f.width + 16 * LANES - 1) / (16 * LANES) * (16 * LANES);
    z.bits = 6;
    while (1 << z.bits < 2 * z.room) z.bits++;
    z.bytes = (size_t)(z.room + (WARPS + 1) * z.most) * sizeof(uint64_t) +
              ((size_t)(1 << z.bits) + z.room + z.raw + 2 * z.ends) * sizeof(int32_t);
    const size_t h = z.width * sizeof(float);
    if (z.bytes + h + STATIC_BYTES > wisp_dshared()) z.width = 0;
    else z.bytes += h;
    return z;
}

size_t wisp_find_shared(const struct wisp_dfind &f)
{
    return sizes_of(f).bytes + STATIC_BYTES;
}

struct pot { /* in shared memory */
    uint64_t *keys, *few, *best;
    const float *h;                      /* (width, rounded up: 0), or where it lies outside */
    int32_t *slots, *rows, *raw, *owner; /* owner (ends): labels or rows whose rings are read */
    int *end;                            /* (ends) place of each list's first -1 */
    int *n;                              /* rows */
    int shift;                           /* a hash's upper bits are its slot */
    uint32_t mask;
    const int32_t *labels;
    int n_labels;
};

static __device__ struct pot lay_pot(const struct sizes &z, void *block)
{
    struct pot p;
    p.keys = (uint64_t *)block;
    p.few = p.keys + z.room;
    p.best = p.few + WARPS * z.most;
    p.h = (const float *)(p.best + z.most);
    p.slots = (int32_t *)(p.h + z.width);
    p.rows = p.slots + (1 << z.bits);
    p.raw = p.rows + z.room;
    p.owner = p.raw + z.raw;
    p.end = p.owner + z.ends;
    p.shift = 32 - z.bits;
    p.mask = (1u << z.bits) - 1;
    return p;
}

/* ---- threads of a block ---- */

static __device__ int n_threads(void)
{
    return (int)blockDim.x;
}
static __device__ int n_warps(void)
{
    return n_threads() / 32;
}
static __device__ int n_groups(void)
{
    return n_threads() / LANES;
}

/* ---- lists ---- */

static __device__ bool is_label(const struct pot &p, int32_t row)
{
    int lo = 0, hi = p.n_labels;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (p.labels[mid] < row) lo = mid + 1;
        else hi = mid;
    }
    return lo < p.n_labels && p.labels[lo] == row;
}

/* Reads a list of n_lone rows, and then the rings of n owners, into raw; notes where they end. */
static __device__ void read_lists(const struct wisp_dfind &f, const struct pot &p,
                                  const int32_t *lone, int n_lone, int n)
{
    int ring = (int)f.ring, total = n_lone + n * ring;
    for (int at = threadIdx.x; at < total; at += n_threads()) {
        int list = 0, c = at;
        const int32_t *from = lone;
        if (at >= n_lone) {
            list = 1 + (at - n_lone) / ring;
            c = (at - n_lone) % ring;
            from = f.rings + (size_t)p.owner[list - 1] * f.ring;
        }
        int32_t row = from[c];
        p.raw[at] = row;
        if (row < 0) atomicMin(&p.end[list], c);
    }
}

/* True for one of those that ask for a row, the first to come. */
static __device__ bool take_slot(const struct pot &p, int32_t row)
{
    uint32_t at = (uint32_t)row * 0x9e3779b1u >> p.shift;
    for (;; at = (at + 1) & p.mask) {
        int32_t had = atomicCAS(&p.slots[at], -1, row);
        if (had == -1) return true;
        if (had == row) return false;
    }
}

/* Adds what was read: the lists, then 'more' rows, to the pot's rows. */
static __device__ void add_lists(const struct pot &p, int n_lone, int n, int ring, int more)
{
    int listed = n_lone + n * ring, total = listed + more, lane = threadIdx.x % 32;
    for (int base = 0; base < total; base += n_threads()) {
        int at = base + (int)threadIdx.x;
        int32_t row = at < total ? p.raw[at] : -1;
        if (at < n_lone) {
            if (at >= p.end[0]) row = -1;
        } else if (at < listed) {
            if ((at - n_lone) % ring >= p.end[1 + (at - n_lone) / ring]) row = -1;
        }
        bool fresh = row >= 0 && !is_label(p, row) && take_slot(p, row);
        uint32_t some = __ballot_sync(ALL, fresh);
        int first = 0;
        if (lane == 0 && some) first = atomicAdd(p.n, __popc(some));
        first = __shfl_sync(ALL, first, 0);
        if (fresh) p.rows[first + __popc(some & ((1u << lane) - 1))] = row;
    }
}

/* ---- scores ---- */

static __device__ float dot4(float4 a, float4 b, float sum)
{
    sum = fmaf(a.x, b.x, sum);
    sum = fmaf(a.y, b.y, sum);
    sum = fmaf(a.z, b.z, sum);
    return fmaf(a.w, b.w, sum);
}

/* The key of a row; of a NaN 0, which is below all others. */
static __device__ uint64_t key_of(float score, int32_t row)
{
    return score == score ? wisp_dkey(score, row) : 0;
}

/* A lane's share of 128 columns.  What lies beyond the last column is read from the first, and is
 * to be multiplied by 0: loads without conditions are sent off all at once. */
static __device__ void load_row(float4 *x, const struct wisp_dparam &w, int32_t row, int c)
{
#pragma unroll
    for (int u = 0; u < 4; u++) {
        int at = c + 4 * LANES * u;
        x[u] = wisp_dweights(w, row, at < (int)w.cols ? at : 0);
    }
}

/* Four numbers of h; outside there is nothing beyond the last. */
template <bool wide> static __device__ float4 load_h(const struct pot &p, int at, int width)
{
    if (wide && at >= width) return make_float4(0, 0, 0, 0);
    return *(const float4 *)(p.h + at);
}

/* Scores rows from .. to - 1 of the pot: 8 lanes per row, two rows with 4 loads each in flight. */
template <bool half, bool wide>
static __device__ void score(const struct wisp_dfind &f, const struct pot &p, int from, int to)
{
    const int lane = threadIdx.x % LANES, width = (int)f.width;
    struct wisp_dparam w = f.w;
    if (half) w.w = NULL; /* so that nothing is asked between the loads */
    else __builtin_assume(w.w != NULL);
    for (int base = from; base < to; base += 2 * n_groups()) {
        int r0 = base + (int)threadIdx.x / LANES, r1 = r0 + n_groups();
        bool in0 = r0 < to, in1 = r1 < to;
        int32_t row0 = p.rows[in0 ? r0 : from], row1 = p.rows[in1 ? r1 : from];
        float bias0 = f.bias.w[row0], bias1 = f.bias.w[row1], sum0 = 0, sum1 = 0;
        for (int c = 4 * lane; c < width; c += 16 * LANES) {
            float4 x[4], y[4];
            load_row(x, w, row0, c);
            load_row(y, w, row1, c);
#pragma unroll
            for (int u = 0; u < 4; u++) {
                float4 h = load_h<wide>(p, c + 4 * LANES * u, width);
                sum0 = dot4(x[u], h, sum0);
                sum1 = dot4(y[u], h, sum1);
            }
        }
#pragma unroll
        for (int d = LANES / 2; d > 0; d /= 2) {
            sum0 += __shfl_xor_sync(ALL, sum0, d);
            sum1 += __shfl_xor_sync(ALL, sum1, d);
        }
        if (in0 && lane == 0) p.keys[r0] = key_of(sum0 + bias0, row0);
        if (in1 && lane == 0) p.keys[r1] = key_of(sum1 + bias1, row1);
    }
}

/* The k largest of n keys to p.best, largest first, then 0.  Two rounds: a warp keeps the k largest
 * of its eighth, then all threads those of what is left; a key's place is the number of larger
 * ones.  All threads call it, when the keys are there; it ends with a barrier. */
static __device__ void choose(const struct pot &p, int n, int k)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int m = (n + n_warps() - 1) / n_warps(), left = m < k ? m : k, all = n_warps() * left;
    const int from = warp * m, to = from + m < n ? from + m : n;
    uint64_t *few = p.few + warp * left;
    for (int c = lane; c < left; c += 32) few[c] = 0;
    for (int c = threadIdx.x; c < k; c += n_threads()) p.best[c] = 0;
    __syncwarp();
    for (int a = from + lane; a < to; a += 32) {
        uint64_t key = p.keys[a];
        int place = 0;
#pragma unroll 8
        for (int b = from; b < to; b++) place += p.keys[b] > key;
        if (key && place < left) few[place] = key;
    }
    __syncthreads();
    for (int a = threadIdx.x; a < all; a += n_threads()) {
        uint64_t key = p.few[a];
        int place = 0;
#pragma unroll 8
        for (int b = 0; b < all; b++) place += p.few[b] > key;
        if (key && place < k) p.best[place] = key;
    }
    __syncthreads();
}

/* ---- buckets ---- */

struct buckets { /* of a sample, in shared memory */
    uint32_t begin[WISP_FIND_TABLES];
    int n[WISP_FIND_TABLES];     /* rows in it */
    int up_to[WISP_FIND_TABLES]; /* rows taken of this table and those before */
    int total;
};

static __device__ int n_tables(const struct wisp_dfind &f)
{
    return f.lsh.n_tables < WISP_FIND_TABLES ? (int)f.lsh.n_tables : WISP_FIND_TABLES;
}

static __device__ void find_buckets(const struct wisp_dfind &f, struct buckets *b, size_t i)
{
    /* the other half of the threads is busy with the lists */
    for (int t = (threadIdx.x + blockDim.x / 2) % blockDim.x; t < n_tables(f); t += n_threads()) {
        uint32_t key = f.lsh.query[i * f.lsh.n_tables + t];
        const uint32_t *start = f.lsh.start + t * (((size_t)1 << f.lsh.bits) + 1) + key;
        uint32_t begin = start[0], n = start[1] - begin;
        b->begin[t] = begin;
        b->n[t] = n < WISP_FIND_HASHED ? (int)n : WISP_FIND_HASHED;
    }
}

static __device__ int warp_sum(int x)
{
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(ALL, x, d);
    return x;
}

static __device__ int sum_capped(const struct buckets *b, int tables, int cap)
{
    int sum = 0;
    for (int t = threadIdx.x % 32; t < tables; t += 32) sum += b->n[t] < cap ? b->n[t] : cap;
    return warp_sum(sum);
}

/* How much each bucket gives: a warp. */
static __device__ void share_room(const struct wisp_dfind &f, struct buckets *b)
{
    const int lane = threadIdx.x % 32, tables = n_tables(f);
    int cap = WISP_FIND_HASHED, sum = sum_capped(b, tables, cap);
    if (sum > WISP_FIND_HASHED) {
        int lo = 1, hi = WISP_FIND_HASHED; /* the answer is among these */
        while (lo < hi) {
            int mid = (lo + hi + 1) / 2;
            if (sum_capped(b, tables, mid) <= WISP_FIND_HASHED) lo = mid;
            else hi = mid - 1;
        }
        cap = lo;
    }
    int before = 0;
    for (int base = 0; base < tables; base += 32) {
        int t = base + lane, x = t < tables ? b->n[t] : 0;
        if (x > cap) x = cap;
        for (int d = 1; d < 32; d *= 2) {
            int y = __shfl_up_sync(ALL, x, d);
            if (lane >= d) x += y;
        }
        if (t < tables) b->up_to[t] = before + x;
        before += __shfl_sync(ALL, x, 31);
    }
    if (lane == 0) b->total = before < WISP_FIND_HASHED ? before : WISP_FIND_HASHED;
}

static __device__ void read_buckets(const struct wisp_dfind &f, const struct buckets *b,
                                    int32_t *raw)
{
    for (int at = threadIdx.x; at < b->total; at += n_threads()) {
        int lo = 0, hi = n_tables(f) - 1; /* the first table that ends beyond 'at' */
        while (lo < hi) {
            int mid = (lo + hi) / 2;
            if (b->up_to[mid] <= at) lo = mid + 1;
            else hi = mid;
        }
        int c = at - (lo ? b->up_to[lo - 1] : 0);
        raw[at] = f.lsh.rows[lo * f.n_rows + b->begin[lo] + c];
    }
}

/* ---- the rows of a sample ---- */

static __device__ void mark(const struct wisp_dfind &f, int32_t row)
{
    atomicOr(&f.active.bits[(uint32_t)row / 32], 1u << row % 32);
}

/* Rows for the whole batch: drawn uniformly, drawn as often as they are labels, carried over. */
static __device__ void mark_for_all(const struct wisp_dfind &f, size_t i)
{
    const uint64_t step = f.now->step;
    size_t n_random = f.n_random < f.n_rows ? f.n_random : f.n_rows;
    if (i < n_random) {
        uint64_t row = i; /* as many draws as rows would leave out a third of them */
        if (n_random < f.n_rows)
            row = wisp_drand_below(f.seed, WISP_STREAM_RANDOM + (step << 8), i, f.n_rows);
        mark(f, (int32_t)row);
        return;
    }
    i -= n_random;
    if (i < f.n_frequent) {
        double x =
            f.up_to[f.n_rows - 1] * wisp_drand_unit(f.seed, WISP_STREAM_FREQUENCY + (step << 8), i);
        size_t lo = 0, hi = f.n_rows - 1;
        while (lo < hi) {
            size_t mid = (lo + hi) / 2;
            if (f.up_to[mid] <= x) lo = mid + 1;
            else hi = mid;
        }
        mark(f, (int32_t)lo);
        return;
    }
    i -= f.n_frequent;
    if (f.neighbours && i < f.n_carried && (int64_t)i < f.carried[0]) mark(f, f.carried[1 + i]);
}

/* Empties the pot and marks the true labels; owners of the first rings.  Returns their number. */
static __device__ int start_pot(const struct wisp_dfind &f, const struct sizes &z, struct pot *p,
                                size_t i)
{
    const struct wisp_dnow *now = f.now;
    const int tid = threadIdx.x;
    uint32_t y0 = now->yp[i], n = now->yp[i + 1] - y0;
    p->labels = now->yi + y0;
    p->n_labels = (int)n;
    int4 *slots = (int4 *)p->slots;
    for (int c = tid; c < (1 << z.bits) / 4; c += n_threads()) slots[c] = make_int4(-1, -1, -1, -1);
    const float4 *h = (const float4 *)(f.h + i * f.width);
    for (int c = tid; c < z.width / 4; c += n_threads())
        ((float4 *)p->h)[c] = c < (int)f.width / 4 ? h[c] : make_float4(0, 0, 0, 0);
    for (int c = tid; c < z.ends; c += n_threads()) p->end[c] = INT32_MAX;
    if (tid == 0) *p->n = 0;
    int rings = !f.neighbours ? 0 : n < MOST_RINGS ? (int)n : MOST_RINGS;
    if (tid < rings) {
        uint64_t first = 0;
        if (n > MOST_RINGS)
            first = wisp_drand_below(f.seed, WISP_STREAM_RINGS + (now->step << 8), i, n);
        p->owner[tid] = p->labels[(first + tid) % n];
    }
    for (uint32_t y = tid; y < n; y += n_threads()) mark(f, p->labels[y]);
    return rings;
}

static __device__ void write_best(const struct wisp_dfind &f, const struct pot &p, size_t i)
{
    const int tid = threadIdx.x, keep = (int)f.keep, deep = (int)f.deep;
    for (int c = tid; c < keep; c += n_threads()) {
        int32_t row = p.best[c] ? wisp_dkey_row(p.best[c]) : -1;
        f.own[i * f.keep + c] = row;
        if (row >= 0) mark(f, row);
    }
    for (int c = tid; c < deep; c += n_threads())
        f.found[i * f.deep + c] = p.best[c] ? wisp_dkey_row(p.best[c]) : -1;
    if (tid > 0) return;
    bool full = deep > 0 && p.best[deep - 1], some = (keep > 0 || deep > 0) && p.best[0];
    float best = some ? wisp_dkey_score(p.best[0]) : 0;
    f.limit[i] = full ? wisp_dkey_score(p.best[deep - 1]) : -CUDART_INF_F;
    f.origin[i] = fabsf(best) > WISP_DFAR && fabsf(best) < CUDART_INF_F ? best : 0;
    f.products[i] = (uint32_t)*p.n;
}

/* Blocks 0 .. batch - 1 have a sample each; the others mark rows for all.  wide: h stays outside. */
template <bool half, bool many, bool wide>
static __global__ void __launch_bounds__(many ? FEW_THREADS : THREADS, many ? (half ? 8 : 6) : 3)
    find_rows(const struct wisp_dfind f, const struct sizes z)
{
    extern __shared__ uint4 block[];
    __shared__ struct buckets b;
    __shared__ int count;
    const int tid = threadIdx.x;
    const size_t i = blockIdx.x;
    const uint32_t n = f.now->n;
    if (i >= f.batch) {
        if (n) mark_for_all(f, (i - f.batch) * blockDim.x + tid);
        return;
    }
    if (i >= n) return;

    struct pot p = lay_pot(z, block);
    p.n = &count;
    const bool hashed = f.lsh.n_tables > 0;
    const int ring = (int)f.ring;
    const int32_t *lone = NULL;
    int n_lone = 0;
    if (f.neighbours && f.now->id[i] < f.n_samples) {
        lone = f.lasts + f.now->id[i] * f.last;
        n_lone = (int)f.last;
    }
    const int rings = start_pot(f, z, &p, i);
    if (wide) p.h = f.h + i * f.width;
    __syncthreads();
    read_lists(f, p, lone, n_lone, rings);
    if (hashed) find_buckets(f, &b, i);
    __syncthreads();
    add_lists(p, n_lone, rings, ring, 0);
    if (hashed && tid / 32 == n_warps() - 1) share_room(f, &b);
    __syncthreads();
    const int first = count;
    score<half, wide>(f, p, 0, first);
    __syncthreads();

    int hops = 0;
    if (f.neighbours) {
        choose(p, first, (int)f.hops);
        while (hops < (int)f.hops && p.best[hops]) hops++;
        for (int c = tid; c < hops; c += n_threads()) p.owner[c] = wisp_dkey_row(p.best[c]);
        for (int c = tid; c < z.ends; c += n_threads()) p.end[c] = INT32_MAX;
        __syncthreads();
        read_lists(f, p, NULL, 0, hops);
    }
    if (hashed) read_buckets(f, &b, p.raw + hops * ring);
    __syncthreads();
    add_lists(p, 0, hops, ring, hashed ? b.total : 0);
    __syncthreads();
    const int total = count;
    score<half, wide>(f, p, first, total);
    __syncthreads();
    choose(p, total, (int)(f.keep > f.deep ? f.keep : f.deep));
    write_best(f, p, i);
}

void wisp_find_rows(const struct wisp_dfind &f, cudaStream_t s)
{
    struct sizes z = sizes_of(f);
    size_t for_all = f.n_random + f.n_frequent + (f.neighbours ? f.n_carried : 0);
    const bool wide = z.width == 0, many = f.batch > MANY && !wide;
    const size_t threads = many ? FEW_THREADS : THREADS;
    unsigned blocks = (unsigned)(f.batch + (for_all + threads - 1) / threads);
    if (blocks == 0) return;
    auto kernel = f.w.w ? (many   ? find_rows<false, true, false>
                           : wide ? find_rows<false, false, true>
                                  : find_rows<false, false, false>)
                        : (many   ? find_rows<true, true, false>
                           : wide ? find_rows<true, false, true>
                                  : find_rows<true, false, false>);
    if (z.bytes > 40 * 1024) /* 48 KB with what is declared in the kernel */
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)z.bytes);
    kernel<<<blocks, (unsigned)threads, z.bytes, s>>>(f, z);
}

/* ---- the union ---- */

/* The four words of this thread's chunk; 0 beyond the end. */
static __device__ uint4 words_of(const uint32_t *bits, size_t at, size_t n_words)
{
    if (at + 4 <= n_words) return *(const uint4 *)(bits + at);
    uint4 x = make_uint4(0, 0, 0, 0);
    if (at < n_words) x.x = bits[at];
    if (at + 1 < n_words) x.y = bits[at + 1];
    if (at + 2 < n_words) x.z = bits[at + 2];
    return x;
}

static __device__ uint32_t popc4(uint4 x)
{
    return (uint32_t)(__popc(x.x) + __popc(x.y) + __popc(x.z) + __popc(x.w));
}

static __global__ void __launch_bounds__(THREADS)
    count_chunks(const struct wisp_dfind f, size_t n_words)
{
    __shared__ int part[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    size_t at = (size_t)blockIdx.x * WORDS + 4 * threadIdx.x;
    int sum = warp_sum((int)popc4(words_of(f.active.bits, at, n_words)));
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < WARPS; w++) sum += part[w];
    f.chunk[blockIdx.x] = (uint32_t)sum;
}

static __device__ void keep_accounts(const struct wisp_dfind &f, uint32_t n_active)
{
    __shared__ unsigned long long sum;
    const uint32_t n = f.now->n;
    unsigned long long products = 0;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) products += f.products[i];
    for (int d = 16; d > 0; d /= 2) products += __shfl_xor_sync(ALL, products, d);
    if (threadIdx.x % 32 == 0) atomicAdd(&sum, products); /* whole numbers: in any order */
    __syncthreads();
    if (threadIdx.x > 0) return;
    *f.active.n = n_active;
    f.counts[0] += n_active;
    f.counts[1] += (uint64_t)n_active * n + sum;
    f.counts[2] += n;
}

/* Rows of a word from place 'at' on; those without room lose their bit. */
static __device__ uint32_t list_word(const struct wisp_dactive &a, size_t word, uint32_t bits,
                                     uint32_t at)
{
    const uint32_t room = (uint32_t)a.room;
    if (at + __popc(bits) > room) {
        uint32_t stay = bits;
        for (uint32_t over = at + __popc(bits) - room; over > 0 && stay; over--)
            stay &= ~(0x80000000u >> __clz(stay));
        a.bits[word] = bits = stay;
    }
    for (; bits; bits &= bits - 1) a.rows[at++] = (int32_t)(word * 32 + __ffs(bits) - 1);
    return at;
}

/* A thread's share of the rows in chunks before this one.  Not counted yet: other blocks may take
 * bits away meanwhile, but only those beyond the room, so what is left fills it in any case. */
static __device__ uint32_t count_before(const struct wisp_dfind &f, bool counted)
{
    uint32_t sum = 0;
    if (counted) {
        for (unsigned c = threadIdx.x; c < blockIdx.x; c += THREADS) sum += f.chunk[c];
        return sum;
    }
#pragma unroll 8
    for (unsigned c = 0; c < blockIdx.x; c++)
        sum += popc4(*(const uint4 *)(f.active.bits + c * WORDS + 4 * threadIdx.x));
    return sum;
}

static __global__ void __launch_bounds__(THREADS)
    list_chunks(const struct wisp_dfind f, size_t n_words, bool counted)
{
    __shared__ uint32_t part_before[WARPS], part_own[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t at = (size_t)blockIdx.x * WORDS + 4 * threadIdx.x;
    const uint4 x = words_of(f.active.bits, at, n_words);
    uint32_t before = count_before(f, counted), own = popc4(x), up_to = own;
    before = (uint32_t)warp_sum((int)before);
    for (int d = 1; d < 32; d *= 2) {
        uint32_t y = __shfl_up_sync(ALL, up_to, d);
        if (lane >= d) up_to += y;
    }
    if (lane == 31) part_own[warp] = up_to;
    if (lane == 0) part_before[warp] = before;
    __syncthreads();
    uint32_t place = up_to - own, total = 0;
    for (int w = 0; w < WARPS; w++) {
        total += part_before[w] + part_own[w];
        place += part_before[w] + (w < warp ? part_own[w] : 0);
    }
    const uint32_t room = (uint32_t)f.active.room;
    if (place > room) place = room;
    const uint32_t word[4] = { x.x, x.y, x.z, x.w };
#pragma unroll
    for (int c = 0; c < 4; c++)
        if (at + c < n_words) {
            f.active.before[at + c] = place;
            place = list_word(f.active, at + c, word[c], place);
        }
    if (blockIdx.x == gridDim.x - 1) keep_accounts(f, total < room ? total : room);
}

void wisp_find_unite(const struct wisp_dfind &f, cudaStream_t s)
{
    size_t n_words = f.n_rows / 32 + 1;
    unsigned chunks = (unsigned)((n_words + WORDS - 1) / WORDS);
    const bool counted = chunks > FEW_CHUNKS;
    if (counted) count_chunks<<<chunks, THREADS, 0, s>>>(f, n_words);
    list_chunks<<<chunks, THREADS, 0, s>>>(f, n_words, counted);
}
