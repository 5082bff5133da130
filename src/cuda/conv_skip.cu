/* Convolution that leaves out slices of zeros (conv_skip.cuh): marks, lists, forward and data.
 *
 * The 128 pixels of a block, with all taps, are a tile (pixels, taps x units) of the implicit product;
 * a column of it whose numbers are all 0 is left out.  Its list comes from the marks: for each tap
 * and word of 32 units a warp ors the words of the 128 pixels that the tap reads, and lanes whose bit
 * is set put their unit where the set bits before it end.  A unit is the least that can be copied
 * without waiting, 4 bytes; a warp copies 32 units of one row at a time.
 *
 * Cost beside the products: x is read once more for the marks, and the lists, of which all blocks of
 * outputs share one, are 1 / 64 of the terms or less.  Units of 4 bytes take four times as many
 * copies as the dense way, and four times its time in bf16 where all slices are live (H200, three
 * times in TF32); units of 16 took 1.6 times, but 8 channels of bf16 are hardly ever 0 together. */
#include "cuda/conv_rows.cuh"
#include "cuda/conv_skip.cuh"

#include <new>

enum { UNIT = 4 }; /* bytes of a slice's channels */
enum { MOST_ITEMS = 2048, FAR = -0x4000, WARPS = THREADS / 32 };

/* ---- marks ---- */

/* A group of lanes makes a word; a lane sees 16 bytes. */
template <int BYTES>
__global__ static void __launch_bounds__(THREADS)
    mark(const struct wisp_dmarks m, const uint4 *x, int slots, uint32_t n_words, uint32_t signs)
{
    constexpr int EACH = 16 / BYTES, LANES = 32 / EACH;
    const uint32_t at = (uint32_t)(((size_t)blockIdx.x * THREADS + threadIdx.x) / LANES);
    const int lane = (int)threadIdx.x % LANES;
    const uint32_t pixel = at / (uint32_t)m.words;
    const int slot = (int)(at % (uint32_t)m.words) * LANES + lane;
    uint32_t bits = 0;
    if (at < n_words && slot < slots) {
        const uint4 v = x[(size_t)pixel * slots + slot];
        const uint32_t words[4] = { v.x, v.y, v.z, v.w };
#pragma unroll
        for (int i = 0; i < 4; i++) bits |= (words[i] & ~signs ? 1u : 0) << (i * EACH / 4);
        bits <<= lane * EACH;
    }
#pragma unroll
    for (int d = 1; d < LANES; d *= 2) bits |= __shfl_xor_sync(0xffffffffu, bits, d);
    if (lane == 0 && at < n_words) m.bits[at] = bits;
}

void wisp_dmark(const struct wisp_dmarks &m, const void *x, size_t pixels, size_t channel_bytes,
                int unit, bool half, cudaStream_t s)
{
    const size_t n_words = pixels * (size_t)m.words;
    const size_t lanes = n_words * (unit == 4 ? 8 : 32);
    const unsigned blocks = (unsigned)wisp_parts(lanes, THREADS);
    const int slots = (int)(channel_bytes / 16);
    const uint32_t signs = half ? 0x80008000u : 0x80000000u, all = (uint32_t)n_words;
    const uint4 *from = (const uint4 *)x;
    if (unit == 4) mark<4><<<blocks, THREADS, 0, s>>>(m, from, slots, all, signs);
    else mark<16><<<blocks, THREADS, 0, s>>>(m, from, slots, all, signs);
}

/* ---- lists ---- */

struct lists {      /* of blocks of rows, phase by phase */
    uint16_t *list; /* (phases, blocks, pitch) units: tap, counted in the phase, x units + unit */
    int *count;     /* (phases, blocks) */
    int blocks, pitch; /* of a phase; of a list */
};

/* Rows of a block: the sample's first pixel of a, and the pixel that tap (0, 0) reads, as 16 bits of
 * each side. */
struct where {
    int first, at;
};
__device__ static struct where where_of(const struct product &p, const struct side &y,
                                        const struct side &x, int row, int rows)
{
    if (row >= rows) return { 0, FAR * 0x10000 };
    const int sample = row / (y.count * x.count), left = row % (y.count * x.count);
    const int at_y = left / x.count * y.step + y.base, at_x = left % x.count * x.step + x.base;
    return { sample * p.ah * p.aw, at_y * 0x10000 + (at_x & 0xffff) };
}
/* The pixel of a that a row reads at a tap; -1: outside. */
__device__ static int pixel_of(const struct product &p, const struct where &w, int tap_y, int tap_x)
{
    const int y = (w.at >> 16) + tap_y, x = (int)(int16_t)(w.at & 0xffff) + tap_x;
    const bool in = (unsigned)y < (unsigned)p.ah && (unsigned)x < (unsigned)p.aw;
    return in ? w.first + y * p.aw + x : -1;
}

struct part { /* a phase, and what a block has of it */
    struct side y, x;
    int rows;
};
__device__ static struct part part_of(const struct product &p, int phase)
{
    const int n = p.now_n && (int)*p.now_n < p.n ? (int)*p.now_n : p.n;
    struct part a = { side_of(p.back, p.dh, p.kh, p.stride, p.pad_h, phase / p.stride),
                      side_of(p.back, p.dw, p.kw, p.stride, p.pad_w, phase % p.stride) };
    a.rows = n * a.y.count * a.x.count;
    return a;
}

__global__ static void __launch_bounds__(THREADS)
    list_live(const __grid_constant__ struct product p, const struct wisp_dmarks m,
              const struct lists l)
{
    __shared__ uint32_t masks[MOST_ITEMS];
    __shared__ int before[MOST_ITEMS], sums[WARPS];
    __shared__ struct where rows_at[ROWS];
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    const struct part a = part_of(p, (int)blockIdx.y);
    const int row0 = (int)blockIdx.x * ROWS, items = a.y.taps * a.x.taps * m.words;
    const size_t block = (size_t)blockIdx.y * l.blocks + blockIdx.x;
    if (row0 >= a.rows || !items) { /* the block has no rows, or no terms */
        if (thread == 0) l.count[block] = 0;
        return;
    }
    if (thread < ROWS) rows_at[thread] = where_of(p, a.y, a.x, row0 + thread, a.rows);
    __syncthreads();
#pragma unroll 2
    for (int item = warp; item < items; item += WARPS) {
        const int tap = item / m.words, word = item % m.words;
        const int i = tap / a.x.taps, j = tap % a.x.taps;
        uint32_t bits = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r += 32) {
            const int pixel = pixel_of(p, rows_at[r + lane], p.back ? -i : i, p.back ? -j : j);
            if (pixel >= 0) bits |= m.bits[(size_t)pixel * m.words + word];
        }
#pragma unroll
        for (int d = 1; d < 32; d *= 2) bits |= __shfl_xor_sync(0xffffffffu, bits, d);
        if (lane == 0) masks[item] = bits;
    }
    __syncthreads();
    const int each = (items + THREADS - 1) / THREADS, first = thread * each;
    int mine = 0;
    for (int k = first; k < first + each && k < items; k++) mine += __popc(masks[k]);
    int up_to = mine;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, up_to, d);
        if (lane >= d) up_to += other;
    }
    if (lane == 31) sums[warp] = up_to;
    __syncthreads();
    int at = up_to - mine;
    for (int w = 0; w < warp; w++) at += sums[w];
    if (thread == THREADS - 1) l.count[block] = at + mine;
    for (int k = first; k < first + each && k < items; k++) {
        before[k] = at;
        at += __popc(masks[k]);
    }
    __syncthreads();
    uint16_t *list = l.list + block * (size_t)l.pitch;
    for (int item = warp; item < items; item += WARPS) {
        const uint32_t bits = masks[item];
        const int unit = item / m.words * m.units + item % m.words * 32 + lane;
        if (bits >> lane & 1)
            list[before[item] + __popc(bits & ((1u << lane) - 1))] = (uint16_t)unit;
    }
}

/* ---- the product ---- */

/* FLOATS: by multiply-adds. */
template <class T, int COLS, bool GROUPS, bool FLOATS>
__global__ static void __launch_bounds__(THREADS, 2)
    multiply_live(const __grid_constant__ struct product p, const struct lists l, int units)
{
    using S = shape<COLS>;
    constexpr int EACH = UNIT / (int)sizeof(T), ALL = STAGE / UNIT, LINES = THREADS / ALL;
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ struct where rows_at[ROWS];
    unsigned char *pool = align_pool(room);
    const struct part part = part_of(p, (int)blockIdx.z);
    const int col_tiles = (p.dg + COLS - 1) / COLS;
    const int tile = (int)blockIdx.x / col_tiles;
    const int row0 = tile * ROWS, col0 = (int)(blockIdx.x % col_tiles) * COLS;
    if (row0 >= part.rows) return;
    const size_t block = (size_t)blockIdx.z * l.blocks + tile;
    const uint16_t *list = l.list + block * (size_t)l.pitch;
    const int count = l.count[block];
    if (threadIdx.x < ROWS)
        rows_at[threadIdx.x] = where_of(p, part.y, part.x, row0 + (int)threadIdx.x, part.rows);
    __syncthreads();

    /* This thread's unit of every LINES-th row; the next stage's is read ahead. */
    const int unit = (int)threadIdx.x % ALL, line = (int)threadIdx.x / ALL;
    const size_t b_row = (size_t)p.kh * p.kw * p.ag;
    int at = unit, next = at < count ? list[at] : 0;
    const uint32_t tiles = shared_at(pool);
    auto load = [&](int stage) {
        const uint32_t to = tiles + (uint32_t)(stage * S::STAGE_BYTES);
        const int tap = next / units, channel = next % units * EACH;
        const int i = tap / part.x.taps, j = tap % part.x.taps;
        const int tap_y = p.back ? -i : i, tap_x = p.back ? -j : j;
        const bool in = at < count;
#pragma unroll
        for (int r = 0; r < ROWS / LINES; r++) {
            const int row = line + r * LINES;
            const int pixel = in ? pixel_of(p, rows_at[row], tap_y, tap_x) : -1;
            const T *from = (const T *)p.a + (pixel < 0 ? 0 : (size_t)pixel * p.ac + channel);
            wisp_copy_async<UNIT>(slot_at(to, row, unit * UNIT / 16) + unit * UNIT % 16, from,
                                  pixel >= 0);
        }
        const int w_tap =
            (part.y.first + i * part.y.apart_taps) * p.kw + part.x.first + j * part.x.apart_taps;
        const T *b = (const T *)p.b + (size_t)w_tap * p.ag + channel;
#pragma unroll
        for (int r = 0; r < COLS / LINES; r++) {
            const int col = line + r * LINES;
            const bool there = in && col0 + col < p.dg;
            wisp_copy_async<UNIT>(slot_at(to + ROWS * STAGE, col, unit * UNIT / 16) +
                                      unit * UNIT % 16,
                                  there ? b + (size_t)(col0 + col) * b_row : (const T *)p.b, there);
        }
        at += ALL;
        next = at < count ? list[at] : 0;
    };

    /* so that the compiler knows it to be the same in a warp: else it makes wgmmas wait */
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
    float d[COLS / 8][4] = {};
    wisp_stages<STAGES, GROUPS>((count + ALL - 1) / ALL, load, [&](int k) {
        add_stage<T, COLS, GROUPS, FLOATS>(d, pool + k * S::STAGE_BYTES, warp);
    });
    lay_sums<COLS, GROUPS>((float *)pool, d, warp);
    write_rows<T, COLS>(p, part.y, part.x, 0, row0, part.rows, col0, (const float *)pool);
}

template <class T, int COLS, bool GROUPS, bool FLOATS = false>
static void launch(const struct product &p, const struct lists &l, int phases, int units,
                   cudaStream_t s)
{
    const dim3 grid((unsigned)(l.blocks * (int)wisp_parts((size_t)p.dg, COLS)), 1,
                    (unsigned)phases);
    cudaFuncSetAttribute(multiply_live<T, COLS, GROUPS, FLOATS>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, shape<COLS>::BYTES);
    multiply_live<T, COLS, GROUPS, FLOATS><<<grid, THREADS, shape<COLS>::BYTES, s>>>(p, l, units);
}

static void launch_any(enum wisp_dconv_math math, const struct product &p, const struct lists &l,
                       int phases, int units, cudaStream_t s)
{
    const bool wide = p.dg > 64, groups = p.dg > 32 && wisp_dconv_has_groups();
    if (math == WISP_DCONV_FP32) launch<float, 64, false, true>(p, l, phases, units, s);
    else if (math == WISP_DCONV_TF32 && wide) launch<float, 128, false>(p, l, phases, units, s);
    else if (math == WISP_DCONV_TF32) launch<float, 64, false>(p, l, phases, units, s);
    else if (wide && groups) launch<__nv_bfloat16, 128, true>(p, l, phases, units, s);
    else if (wide) launch<__nv_bfloat16, 128, false>(p, l, phases, units, s);
    else if (groups) launch<__nv_bfloat16, 64, true>(p, l, phases, units, s);
    else launch<__nv_bfloat16, 64, false>(p, l, phases, units, s);
}

/* ---- the way ---- */

struct lay { /* of the work of forward and data */
    int phases;
    size_t channel_bytes, pixels; /* of a */
    struct lists l;
    size_t turned, marks, counts, lists; /* where they lie */
    size_t bytes;
};

static struct lay lay_of(const struct wisp_dconv *c, enum wisp_dconv_pass pass)
{
    const bool back = pass == WISP_DCONV_DATA;
    struct lay a = {};
    const size_t side_h = back ? wisp_parts(c->h, c->stride) : c->oh;
    const size_t side_w = back ? wisp_parts(c->w, c->stride) : c->ow;
    a.phases = back ? (int)(c->stride * c->stride) : 1;
    a.channel_bytes = (back ? c->out : c->in) * wisp_dconv_size(c);
    a.pixels = c->n * (back ? c->oh * c->ow : c->h * c->w);
    const size_t units = a.channel_bytes / UNIT;
    a.l.blocks = (int)wisp_parts(c->n * side_h * side_w, ROWS);
    a.l.pitch = (int)wisp_up(c->kh * c->kw * units, 32);
    const size_t lists = (size_t)a.phases * (size_t)a.l.blocks;
    a.turned = 0,
    a.marks = back ? wisp_up(c->out * wisp_dconv_row(c) * wisp_dconv_size(c), 256) : 0;
    a.counts = a.marks + wisp_dmarks_bytes(a.pixels, a.channel_bytes, UNIT);
    a.lists = a.counts + wisp_up(lists * 4, 256);
    a.bytes = a.lists + wisp_up(lists * (size_t)a.l.pitch * 2, 256);
    return a;
}

/* Sides of images are 14 bits, units of a list 16. */
static bool can(const struct wisp_dconv *c, enum wisp_dconv_pass pass)
{
    const size_t most = 0x3fffffff, side = 0x3f00;
    if (c->groups != 1 || wisp_dconv_capability() < 80) return false;
    if (c->n * c->h * c->w > most || c->n * c->oh * c->ow > most) return false;
    if (c->h > side || c->w > side || c->oh > side || c->ow > side) return false;
    if (c->kh > 255 || c->kw > 255 || c->stride * c->stride > 65535) return false;
    if (pass == WISP_DCONV_WEIGHTS) return wisp_dconv_skip_w_can(c);
    const size_t channels = pass == WISP_DCONV_DATA ? c->out : c->in;
    const size_t units = channels * wisp_dconv_size(c) / 4, taps = c->kh * c->kw;
    if (wisp_dconv_copies(c, channels) != 16 || taps * wisp_parts(units, 32) > MOST_ITEMS)
        return false;
    return taps * units <= 65535 && c->n * c->h * c->w * wisp_parts(units, 32) <= 0x7fffffff / 8;
}

static size_t bytes(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const void *)
{
    return pass == WISP_DCONV_WEIGHTS ? wisp_dconv_skip_w_bytes(c) : lay_of(c, pass).bytes;
}

static bool run(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const void *,
                const struct wisp_dconv_job *j, cudaStream_t s)
{
    const bool back = pass == WISP_DCONV_DATA;
    if (pass == WISP_DCONV_WEIGHTS) {
        wisp_dconv_skip_w(c, j, s);
        return true;
    }
    struct lay a = lay_of(c, pass);
    char *work = (char *)j->work;
    const struct product p = product_of(c, j, back);
    const struct wisp_dmarks m =
        wisp_dmarks_of((uint32_t *)(work + a.marks), a.channel_bytes, UNIT);
    a.l.count = (int *)(work + a.counts), a.l.list = (uint16_t *)(work + a.lists);
    if (back) wisp_dconv_turn(c, work, j->w, s);
    wisp_dmark(m, p.a, a.pixels, a.channel_bytes, UNIT, c->math == WISP_DCONV_BF16, s);
    list_live<<<dim3((unsigned)a.l.blocks, (unsigned)a.phases), THREADS, 0, s>>>(p, m, a.l);
    launch_any(c->math, p, a.l, a.phases, m.units, s);
    return true;
}

const struct wisp_dconv_way wisp_dconv_skip = {
    "skip", "own kernels that leave out slices of zeros", can, NULL, NULL, bytes, run
};

/* ---- seen ---- */

struct wisp_dlive wisp_dconv_live(const int *counts, size_t n, size_t all)
{
    struct wisp_dlive seen = { 0, all };
    int *host = new (std::nothrow) int[n];
    if (host && cudaMemcpy(host, counts, n * sizeof *host, cudaMemcpyDeviceToHost) == cudaSuccess)
        for (size_t i = 0; i < n; i++) seen.live += (size_t)host[i];
    delete[] host;
    return seen;
}

struct wisp_dlive wisp_dconv_skip_seen(const struct wisp_dconv *c, enum wisp_dconv_pass pass,
                                       const void *work)
{
    if (pass == WISP_DCONV_WEIGHTS) return wisp_dconv_skip_w_seen(c, work);
    const struct lay a = lay_of(c, pass);
    const size_t lists = (size_t)a.phases * (size_t)a.l.blocks;
    const size_t units = a.channel_bytes / UNIT;
    /* of all phases together the taps are those of the kernel */
    return wisp_dconv_live((const int *)((const char *)work + a.counts), lists,
                           (size_t)a.l.blocks * c->kh * c->kw * units);
}
