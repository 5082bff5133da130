/* Rows of many steps laid out at once: what model/batch.c does for one batch.
 *
 *   rows of the chunk --measure, sum up--> xp, yp: where each row begins
 *                     --fill-------------> xi, xv (transformed, dropped), yi; and a key for each:
 *
 *       key = | step | feature, or n_features + label | sample |       value = xv
 *              \------------- sorted by these ------/
 *
 *   The sort keeps equal ids in order of samples.  Each run of equal (step, id) is then a touched
 *   feature or a distinct label of its step: its id and where it begins, in one list for the whole
 *   chunk, of which a step sees two parts:
 *
 *       run_id, run_at: | features of step 0 | labels of step 0 | features of step 1 | ...
 *
 *   Features dropped and places not used have a key of all ones, so they come last; run_at has one
 *   more element, the end of the last run, so that the next run's start is always this one's end.
 *
 * 64 steps of 256 rows with 75 features and 5 labels are 1.3 million keys.  Each of the four passes
 * of the sort reads and writes 12 bytes per key, all else about 70 bytes: 220 MB through the cache,
 * some 100 us at 2-3 TB/s.  Arithmetic is nothing. */
#include "cuda/ops.cuh"
#include "base/rand.h"
#include "graph/ids.h"

#include <cub/device/device_radix_sort.cuh>

enum { TFIDF, UNIT, RAW }; /* enum wisp_values_mode of model/batch.h */
enum {
    WARPS = 8,            /* of a block, where nothing else is said */
    THREADS = 32 * WARPS, /* of that block */
    TURNS = 8,            /* keys of a lane: a warp looks at TURNS * 32 in a row */
    TILE = THREADS * TURNS,
    SUM_THREADS = 1024,
    SUM_EACH = 8 /* numbers of a thread */
};
#define ALL_LANES 0xffffffffu
#define NO_KEY    0xffffffffffffffffu

struct cut {        /* where the parts of a key lie */
    int sample, id; /* bits */
    int end;        /* of sorting */
};

static int bits_for(size_t n) /* to write 0 .. n - 1 */
{
    int b = 0;
    while (b < 63 && (size_t)1 << b < n) b++;
    return b;
}

/* One id stays unused, so that no key is all ones. */
static struct cut cut_of(size_t steps, size_t batch, size_t n_features, size_t n_labels)
{
    struct cut k = { bits_for(batch), bits_for(n_features + n_labels + 1), 0 };
    k.end = k.sample + k.id + bits_for(steps);
    return k;
}

/* The only place that calls CUB.  Sorts key[0] and value[0], using key[1] and value[1]; returns
 * which of the two holds the result.  Without 'work' only tells how much of that it takes. */
static int sort_keys(const struct wisp_dchunk *c, void *work, size_t *work_bytes, size_t n,
                     struct cut k, cudaStream_t s)
{
    cub::DoubleBuffer<uint64_t> key(c->key[0], c->key[1]);
    cub::DoubleBuffer<float> value(c->value[0], c->value[1]);
    if (n > 0)
        cub::DeviceRadixSort::SortPairs(work, *work_bytes, key, value, (uint32_t)n, k.sample, k.end,
                                        s);
    return key.selector;
}

size_t wisp_chunk_lay(struct wisp_dchunk *c, void *block, size_t n_features, size_t n_labels)
{
    size_t at = 0, rows = c->steps * c->batch, all = c->nnz_room + c->lab_room;
    c->block = block;
    c->ids = (uint32_t *)wisp_dtake(block, &at, rows * 4);
    c->now = (struct wisp_dnow *)wisp_dtake(block, &at, c->steps * sizeof *c->now);
    c->xp = (uint32_t *)wisp_dtake(block, &at, (rows + 1) * 4);
    c->xn = (uint32_t *)wisp_dtake(block, &at, rows * 4);
    c->yp = (uint32_t *)wisp_dtake(block, &at, (rows + 1) * 4);
    c->xi = (int32_t *)wisp_dtake(block, &at, c->nnz_room * 4);
    c->xv = (float *)wisp_dtake(block, &at, c->nnz_room * 4);
    c->yi = (int32_t *)wisp_dtake(block, &at, c->lab_room * 4);
    for (int i = 0; i < 2; i++) {
        c->key[i] = (uint64_t *)wisp_dtake(block, &at, all * 8);
        c->value[i] = (float *)wisp_dtake(block, &at, all * 4);
    }
    c->sample = (uint32_t *)wisp_dtake(block, &at, all * 4);
    c->run_id = (int32_t *)wisp_dtake(block, &at, all * 4);
    c->run_at = (uint32_t *)wisp_dtake(block, &at, (all + 1) * 4);
    c->first = (uint32_t *)wisp_dtake(block, &at, (2 * c->steps + 1) * 4);
    c->tiles = (uint32_t *)wisp_dtake(block, &at, (all / TILE + 2) * 4);
    c->work_bytes = 0; /* grows with the number of keys and of bits */
    sort_keys(c, NULL, &c->work_bytes, all, cut_of(c->steps, c->batch, n_features, n_labels), 0);
    c->work = wisp_dtake(block, &at, c->work_bytes);
    return at;
}

/* ---- where rows begin ---- */

/* Lengths of whole rows; labels beyond n_labels, which come last, are not counted. */
__global__ static void measure(struct wisp_dchunk c, struct wisp_ddata d, size_t n_rows)
{
    size_t r = (size_t)blockIdx.x * THREADS + threadIdx.x, s = r / c.batch;
    uint32_t x = 0, y = 0;
    if (r >= n_rows) return;
    if (r - s * c.batch < c.now[s].n) {
        size_t row = c.ids[r];
        uint64_t from = d.yp[row], end = d.yp[row + 1];
        x = (uint32_t)(d.xp[row + 1] - d.xp[row]);
        while (end > from && (size_t)d.yi[end - 1] >= d.n_labels) end--;
        y = (uint32_t)(end - from);
    }
    c.xp[r] = x;
    c.yp[r] = y;
}

/* What the threads before this one hold, added to *sum, which becomes the sum of all.  part: 32
 * numbers in shared memory.  All threads of a block of SUM_THREADS call it. */
static __device__ uint32_t sum_before(uint32_t mine, uint32_t *part, uint32_t *sum)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t up_to = mine;
    for (int d = 1; d < 32; d *= 2) {
        uint32_t other = __shfl_up_sync(ALL_LANES, up_to, d);
        if (lane >= d) up_to += other;
    }
    if (lane == 31) part[warp] = up_to;
    __syncthreads();
    uint32_t before = *sum, total = 0;
    for (int w = 0; w < SUM_THREADS / 32; w++) {
        if (w == warp) before += total;
        total += part[w];
    }
    __syncthreads(); /* part is free again */
    *sum += total;
    return before + up_to - mine;
}

/* Of two arrays, a block each: x[i] becomes the sum of all before it, x[n] of all. */
__global__ static void __launch_bounds__(SUM_THREADS)
    sum_up(uint32_t *x, size_t n_x, uint32_t *y, size_t n_y)
{
    __shared__ uint32_t part[SUM_THREADS / 32];
    uint32_t *a = blockIdx.x ? y : x, sum = 0;
    size_t n = blockIdx.x ? n_y : n_x;
    for (size_t base = 0; base < n; base += SUM_THREADS * SUM_EACH) {
        size_t first = base + threadIdx.x * SUM_EACH;
        uint32_t v[SUM_EACH], mine = 0;
#pragma unroll
        for (int i = 0; i < SUM_EACH; i++) {
            v[i] = first + i < n ? a[first + i] : 0;
            mine += v[i];
        }
        uint32_t at = sum_before(mine, part, &sum);
#pragma unroll
        for (int i = 0; i < SUM_EACH; i++) {
            if (first + i < n) a[first + i] = at;
            at += v[i];
        }
    }
    if (threadIdx.x == 0) a[n] = sum;
}

/* ---- rows, a warp each ---- */

static __device__ uint64_t key_of(struct cut k, size_t step, uint64_t id, size_t sample)
{
    return ((uint64_t)step << k.id | id) << k.sample | sample;
}

/* fill_row of model/batch.c: the features left at the front of the row's place, scaled. */
static __device__ void fill_features(const struct wisp_dchunk &c, const struct wisp_ddata &d,
                                     struct cut k, size_t r, size_t s, uint64_t seed)
{
    const int lane = threadIdx.x % 32;
    const uint64_t sample = r - s * c.batch;
    const uint64_t from = d.xp[c.ids[r]], stream = WISP_STREAM_INPUT_DROP + (c.now[s].step << 8);
    const uint32_t to = c.xp[r], n = c.xp[r + 1] - to;
    const double rate = d.drop;
    uint32_t left = 0;
    double sum = 0;
    for (uint32_t base = 0; base < n; base += 32) {
        uint32_t i = base + lane;
        int32_t f = i < n ? d.xi[from + i] : -1;
        float x = i < n ? d.xv[from + i] : 0;
        bool stays = f >= 0 && (size_t)f < d.n_features; /* ids ascend: none after one too large */
        if (stays && rate > 0)
            stays = !(wisp_drand_unit(seed, stream, (c.now[s].before + sample) << 32 | i) < rate);
        uint32_t mask = __ballot_sync(ALL_LANES, stays);
        if (stays) {
            size_t at = (size_t)to + left + __popc(mask & ((1u << lane) - 1));
            if (d.mode == TFIDF) x = (x > 1 ? 1 + logf(x) : x) * d.idf[f];
            sum += (double)x * x;
            c.xi[at] = f;
            c.xv[at] = x;
            c.key[0][at] = key_of(k, s, (uint32_t)f, sample);
        }
        left += __popc(mask);
    }
    for (int b = 16; b > 0; b /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, b);
    float scale = d.mode == RAW ? (float)(1 / (1 - rate)) : sum > 0 ? (float)(1 / sqrt(sum)) : 0;
    __syncwarp(); /* other lanes wrote the values that this one scales */
    for (uint32_t i = lane; i < left; i += 32) {
        float x = c.xv[to + i] * scale;
        c.xv[to + i] = x;
        c.value[0][to + i] = x;
    }
    if (lane == 0) c.xn[r] = left;
}

__global__ static void fill(struct wisp_dchunk c, struct wisp_ddata d, size_t n_rows, size_t nnz,
                            uint64_t seed, struct cut k)
{
    const int lane = threadIdx.x % 32;
    size_t r = (size_t)blockIdx.x * WARPS + threadIdx.x / 32, s = r / c.batch;
    if (r >= n_rows || r - s * c.batch >= c.now[s].n) return;
    const uint64_t from = d.yp[c.ids[r]];
    const uint32_t to = c.yp[r], n = c.yp[r + 1] - to;
    for (uint32_t i = lane; i < n; i += 32) {
        int32_t y = d.yi[from + i];
        c.yi[to + i] = y;
        c.key[0][nnz + to + i] = key_of(k, s, d.n_features + (uint32_t)y, r - s * c.batch);
        c.value[0][nnz + to + i] = 0; /* labels have none */
    }
    fill_features(c, d, k, r, s, seed);
}

/* ---- runs of equal step and id in the sorted keys ---- */

/* Lanes whose key begins a run; the warp looks at e of lane 0 and the 31 after it. */
static __device__ uint32_t heads_at(const uint64_t *key, size_t n, size_t e, int sample)
{
    bool head = e < n && key[e] != NO_KEY && (e == 0 || key[e] >> sample != key[e - 1] >> sample);
    return __ballot_sync(ALL_LANES, head);
}

__global__ static void __launch_bounds__(THREADS)
    count_runs(uint32_t *tiles, const uint64_t *key, size_t n, int sample)
{
    __shared__ uint32_t part[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    size_t first = (size_t)blockIdx.x * TILE + warp * (TURNS * 32) + lane;
    uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < TURNS; i++) sum += __popc(heads_at(key, n, first + i * 32, sample));
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    sum = 0;
    for (int w = 0; w < WARPS; w++) sum += part[w];
    tiles[blockIdx.x] = sum;
}

/* Which part of the list of runs a key belongs to: features of step 0, labels of step 0, ...; what
 * comes after all of them for keys that are none. */
static __device__ int64_t part_of(uint64_t key, struct cut k, size_t n_steps, size_t n_features)
{
    if (key == NO_KEY) return (int64_t)(2 * n_steps);
    uint64_t id = key >> k.sample & (((uint64_t)1 << k.id) - 1);
    return (int64_t)(2 * (key >> k.sample >> k.id) + (id >= n_features));
}

/* Key e, with 'run' runs beginning before it; e = n closes the last one. */
static __device__ void file_key(const struct wisp_dchunk &c, const uint64_t *key, size_t n,
                                size_t e, bool head, uint32_t run, struct cut k, size_t n_steps,
                                size_t n_features)
{
    if (e > n) return;
    uint64_t here = e < n ? key[e] : NO_KEY;
    int64_t part = part_of(here, k, n_steps, n_features);
    int64_t was = e > 0 ? part_of(key[e - 1], k, n_steps, n_features) : -1;
    if (here != NO_KEY) c.sample[e] = (uint32_t)(here & (((uint64_t)1 << k.sample) - 1));
    if (head) {
        uint64_t id = here >> k.sample & (((uint64_t)1 << k.id) - 1);
        c.run_id[run] = (int32_t)(id < n_features ? id : id - n_features);
        c.run_at[run] = (uint32_t)e;
    }
    if (was == part) return;
    for (int64_t p = was + 1; p <= part; p++) c.first[p] = run; /* those between are empty */
    if (here == NO_KEY) c.run_at[run] = (uint32_t)e;
}

__global__ static void __launch_bounds__(THREADS)
    file_runs(struct wisp_dchunk c, const uint64_t *key, size_t n, struct cut k, size_t n_steps,
              size_t n_features)
{
    __shared__ uint32_t part[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    size_t first = (size_t)blockIdx.x * TILE + warp * (TURNS * 32) + lane;
    uint32_t heads[TURNS], sum = 0, run = c.tiles[blockIdx.x];
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        heads[i] = heads_at(key, n, first + i * 32, k.sample);
        sum += __popc(heads[i]);
    }
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    for (int w = 0; w < warp; w++) run += part[w];
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        uint32_t before = __popc(heads[i] & ((1u << lane) - 1));
        file_key(c, key, n, first + i * 32, heads[i] >> lane & 1, run + before, k, n_steps,
                 n_features);
        run += __popc(heads[i]);
    }
}

/* tv: the values, sorted. */
__global__ static void describe(struct wisp_dchunk c, const float *tv, size_t n_steps)
{
    size_t s = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (s >= n_steps) return;
    struct wisp_dnow *now = &c.now[s];
    uint32_t features = c.first[2 * s], labels = c.first[2 * s + 1], end = c.first[2 * s + 2];
    now->id = c.ids + s * c.batch;
    now->xp = c.xp + s * c.batch;
    now->xn = c.xn + s * c.batch;
    now->xi = c.xi;
    now->xv = c.xv;
    now->yp = c.yp + s * c.batch;
    now->yi = c.yi;
    now->n_touched = labels - features;
    now->touched = c.run_id + features;
    now->tp = c.run_at + features;
    now->ts = c.sample;
    now->tv = tv;
    now->n_distinct = end - labels;
    now->distinct = c.run_id + labels;
    now->lp = c.run_at + labels;
    now->ls = c.sample;
}

static unsigned blocks_of(size_t n, size_t each)
{
    return (unsigned)((n + each - 1) / each);
}

void wisp_chunk_fill(const struct wisp_dchunk &c, const struct wisp_ddata &d, size_t n_steps,
                     size_t nnz, size_t labels, uint64_t seed, cudaStream_t s)
{
    size_t n_rows = n_steps * c.batch, n = nnz + labels, work_bytes = c.work_bytes;
    struct cut k = cut_of(n_steps, c.batch, d.n_features, d.n_labels);
    if (n_rows == 0) return;
    measure<<<blocks_of(n_rows, THREADS), THREADS, 0, s>>>(c, d, n_rows);
    sum_up<<<2, SUM_THREADS, 0, s>>>(c.xp, n_rows, c.yp, n_rows);
    if (n > 0) cudaMemsetAsync(c.key[0], 0xff, n * 8, s);
    fill<<<blocks_of(n_rows, WARPS), THREADS, 0, s>>>(c, d, n_rows, nnz, seed, k);
    int at = sort_keys(&c, c.work, &work_bytes, n, k, s);
    unsigned tiles = (unsigned)(n / TILE + 1); /* with key n, which closes the last run */
    count_runs<<<tiles, THREADS, 0, s>>>(c.tiles, c.key[at], n, k.sample);
    sum_up<<<1, SUM_THREADS, 0, s>>>(c.tiles, tiles, NULL, 0);
    file_runs<<<tiles, THREADS, 0, s>>>(c, c.key[at], n, k, n_steps, d.n_features);
    describe<<<blocks_of(n_steps, THREADS), THREADS, 0, s>>>(c, c.value[at], n_steps);
}
