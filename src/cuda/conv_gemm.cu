/* Convolution in plain fp32 on the card: the definition (conv.cuh), for any channels, groups and
 * strides; what other ways are compared with.
 *
 * All three passes are one product d (rows, cols) = a b of each group, whose operands are functions:
 *
 *             rows              cols            terms of the sum
 *   forward   output pixels     outputs         taps and input channels
 *   data      input pixels      inputs          taps and outputs
 *   weights   outputs           taps, inputs    output pixels
 *
 * A block makes 64 x 64 numbers, 4 x 4 a thread, 16 terms at a time in shared memory.  The pixels of
 * weights are cut into shares, added in their order. */
#include "cuda/conv.cuh"

enum { SIDE = 64, DEPTH = 16, THREADS = 256, STRIDE = SIDE + 4, SHARE = 4096 };

struct sizes { /* of struct wisp_dconv, with channels of a group */
    int in, out, ig, og, h, w, oh, ow, kh, kw, stride, pad_h, pad_w;
    long long n, share; /* samples; terms of a share */
    int n_shares;
};

struct call {
    struct sizes c;
    const uint32_t *now_n;
    const void *x, *gy, *w, *gate;
    const float *bias;
    void *to;
    bool relu;
};

__device__ static float value(const float *x, long long at)
{
    return x[at];
}
__device__ static float value(const __nv_bfloat16 *x, long long at)
{
    return __bfloat162float(x[at]);
}
__device__ static void set(float *x, long long at, float v)
{
    x[at] = v;
}
__device__ static void set(__nv_bfloat16 *x, long long at, float v)
{
    x[at] = __float2bfloat16(v);
}

/* x at output pixel q and tap, channel c of the group; 0 outside the image. */
template <class T>
__device__ static float x_at(const struct call &p, int group, long long q, int tap, int c)
{
    const struct sizes &s = p.c;
    const int y = (int)(q / s.ow % s.oh) * s.stride - s.pad_h + tap / s.kw;
    const int z = (int)(q % s.ow) * s.stride - s.pad_w + tap % s.kw;
    if (y < 0 || y >= s.h || z < 0 || z >= s.w) return 0;
    const long long sample = q / ((long long)s.oh * s.ow);
    return value((const T *)p.x, ((sample * s.h + y) * s.w + z) * s.in + group * s.ig + c);
}

/* gy where the tap of an output pixel reads input pixel u; 0 where none does. */
template <class T>
__device__ static float gy_at(const struct call &p, int group, long long u, int tap, int o)
{
    const struct sizes &s = p.c;
    const int y = (int)(u / s.w % s.h) + s.pad_h - tap / s.kw;
    const int z = (int)(u % s.w) + s.pad_w - tap % s.kw;
    if (y < 0 || z < 0 || y % s.stride || z % s.stride) return 0;
    if (y / s.stride >= s.oh || z / s.stride >= s.ow) return 0;
    const long long sample = u / ((long long)s.h * s.w);
    return value((const T *)p.gy,
                 ((sample * s.oh + y / s.stride) * s.ow + z / s.stride) * s.out + group * s.og + o);
}

template <class T, enum wisp_dconv_pass PASS>
__device__ static float a_at(const struct call &p, int group, long long row, long long k)
{
    const struct sizes &s = p.c;
    if (PASS == WISP_DCONV_FORWARD) return x_at<T>(p, group, row, (int)(k / s.ig), (int)(k % s.ig));
    if (PASS == WISP_DCONV_DATA) return gy_at<T>(p, group, row, (int)(k / s.og), (int)(k % s.og));
    return value((const T *)p.gy, k * s.out + group * s.og + row);
}

template <class T, enum wisp_dconv_pass PASS>
__device__ static float b_at(const struct call &p, int group, long long k, int col)
{
    const struct sizes &s = p.c;
    const long long width = (long long)s.kh * s.kw * s.ig;
    if (PASS == WISP_DCONV_FORWARD) return value((const T *)p.w, (group * s.og + col) * width + k);
    if (PASS == WISP_DCONV_DATA)
        return value((const T *)p.w, (group * s.og + k % s.og) * width + k / s.og * s.ig + col);
    return x_at<T>(p, group, k, col / s.ig, col % s.ig);
}

template <class T, enum wisp_dconv_pass PASS>
__device__ static void write(const struct call &p, int group, int share, long long row, int col,
                             float sum)
{
    const struct sizes &s = p.c;
    if (PASS == WISP_DCONV_FORWARD) {
        if (p.bias) sum += p.bias[group * s.og + col];
        if (p.relu) sum = sum > 0 ? sum : 0;
        set((T *)p.to, row * s.out + group * s.og + col, sum);
    } else if (PASS == WISP_DCONV_DATA) {
        const long long at = row * s.in + group * s.ig + col;
        if (p.gate && !(value((const T *)p.gate, at) > 0)) sum = 0;
        set((T *)p.to, at, sum);
    } else {
        const long long width = (long long)s.kh * s.kw * s.ig;
        ((float *)p.to)[((long long)share * s.out + group * s.og + row) * width + col] = sum;
    }
}

template <class T, enum wisp_dconv_pass PASS>
__global__ static void __launch_bounds__(THREADS) multiply(const __grid_constant__ struct call p)
{
    __shared__ __align__(16) float a[DEPTH][STRIDE], b[DEPTH][STRIDE];
    const struct sizes &s = p.c;
    const long long n = p.now_n && *p.now_n < s.n ? *p.now_n : s.n, taps = (long long)s.kh * s.kw;
    const int share = (int)blockIdx.z % s.n_shares, group = (int)blockIdx.z / s.n_shares;
    long long rows = n * s.oh * s.ow, cols = s.og, first = 0, end = taps * s.ig;
    if (PASS == WISP_DCONV_DATA) rows = n * s.h * s.w, cols = s.ig, end = taps * s.og;
    if (PASS == WISP_DCONV_WEIGHTS) {
        rows = s.og, cols = taps * s.ig;
        first = share * s.share, end = n * s.oh * s.ow;
        end = end < first + s.share ? end : first + s.share;
    }
    const long long row0 = (long long)blockIdx.x * SIDE, col0 = (long long)blockIdx.y * SIDE;
    if (row0 >= rows) return;
    float sum[4][4] = {};
    const int r = (int)threadIdx.x / 16 * 4, c = (int)threadIdx.x % 16 * 4;
    for (long long k0 = first; k0 < end; k0 += DEPTH) {
        __syncthreads();
        for (int at = (int)threadIdx.x; at < SIDE * DEPTH; at += THREADS) {
            /* neighbours in a warp read neighbours in memory */
            const bool along = PASS != WISP_DCONV_WEIGHTS;
            const int ka = along ? at % DEPTH : at / SIDE, ra = along ? at / DEPTH : at % SIDE;
            const bool b_along = PASS == WISP_DCONV_FORWARD;
            const int kb = b_along ? at % DEPTH : at / SIDE, cb = b_along ? at / DEPTH : at % SIDE;
            a[ka][ra] =
                k0 + ka < end && row0 + ra < rows ? a_at<T, PASS>(p, group, row0 + ra, k0 + ka) : 0;
            b[kb][cb] = k0 + kb < end && col0 + cb < cols
                            ? b_at<T, PASS>(p, group, k0 + kb, (int)(col0 + cb))
                            : 0;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            const float4 x = *(const float4 *)&a[k][r], y = *(const float4 *)&b[k][c];
            const float xs[4] = { x.x, x.y, x.z, x.w }, ys[4] = { y.x, y.y, y.z, y.w };
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) sum[i][j] += xs[i] * ys[j];
        }
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            if (row0 + r + i < rows && col0 + c + j < cols)
                write<T, PASS>(p, group, share, row0 + r + i, (int)(col0 + c + j), sum[i][j]);
}

/* ---- the way ---- */

static bool can(const struct wisp_dconv *, enum wisp_dconv_pass)
{
    return true;
}

/* Shares of at least SHARE pixels, and so few that their sums take at most 64 MiB. */
static size_t shares_of(const struct wisp_dconv *c)
{
    const size_t room = ((size_t)16 << 20) / (c->out * wisp_dconv_row(c));
    const size_t n = wisp_parts(c->n * c->oh * c->ow, SHARE);
    return n < room ? n : wisp_most(room, 1);
}

static size_t bytes(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const void *)
{
    const size_t n = shares_of(c);
    return pass == WISP_DCONV_WEIGHTS && n > 1 ? n * c->out * wisp_dconv_row(c) * 4 : 0;
}

template <class T>
static void launch(const struct call &p, enum wisp_dconv_pass pass, dim3 grid, cudaStream_t s)
{
    if (pass == WISP_DCONV_FORWARD) multiply<T, WISP_DCONV_FORWARD><<<grid, THREADS, 0, s>>>(p);
    else if (pass == WISP_DCONV_DATA) multiply<T, WISP_DCONV_DATA><<<grid, THREADS, 0, s>>>(p);
    else multiply<T, WISP_DCONV_WEIGHTS><<<grid, THREADS, 0, s>>>(p);
}

static bool run(const struct wisp_dconv *c, enum wisp_dconv_pass pass, const void *,
                const struct wisp_dconv_job *j, cudaStream_t s)
{
    const size_t ig = c->in / c->groups, og = c->out / c->groups;
    const bool weights = pass == WISP_DCONV_WEIGHTS;
    const size_t n = weights ? shares_of(c) : 1, pixels = c->n * c->oh * c->ow;
    struct call p = {};
    p.c = { (int)c->in,     (int)c->out,   (int)ig,       (int)og,        (int)c->h,
            (int)c->w,      (int)c->oh,    (int)c->ow,    (int)c->kh,     (int)c->kw,
            (int)c->stride, (int)c->pad_h, (int)c->pad_w, (long long)c->n };
    p.c.share = (long long)wisp_parts(pixels, n), p.c.n_shares = (int)n;
    p.now_n = j->n, p.x = j->x, p.gy = j->gy, p.w = j->w;
    if (pass == WISP_DCONV_FORWARD) p.bias = j->bias, p.relu = j->relu, p.to = j->y;
    else if (pass == WISP_DCONV_DATA) p.gate = j->gate, p.to = j->gx;
    else p.to = n > 1 ? j->work : j->gw;
    const size_t rows = weights ? og : pass == WISP_DCONV_DATA ? c->n * c->h * c->w : pixels;
    const size_t cols = weights ? wisp_dconv_row(c) : pass == WISP_DCONV_DATA ? ig : og;
    const dim3 grid((unsigned)wisp_parts(rows, SIDE), (unsigned)wisp_parts(cols, SIDE),
                    (unsigned)(c->groups * n));
    if (c->math == WISP_DCONV_BF16) launch<__nv_bfloat16>(p, pass, grid, s);
    else launch<float>(p, pass, grid, s);
    if (weights && n > 1)
        wisp_dconv_add(j->gw, (const float *)j->work, c->out * wisp_dconv_row(c), n, s);
    return true;
}

const struct wisp_dconv_way wisp_dconv_plain = {
    "plain", "own kernels in fp32, the definition", can, NULL, NULL, bytes, run
};
