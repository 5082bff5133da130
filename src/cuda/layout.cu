/* Values of several pixels on their way in and out: images of bytes become (n, h, w, c), normalised;
 * the last planes become units in the order of the host, (n, c, h, w). */
#include "cuda/planes.cuh"

enum { SIDE = 32, THREADS = 256 };

/* ---- units ---- */

/* A block has 32 pixels x 32 channels of a sample; BACK: of (c, pixels) into (pixels, c), and zeros
 * for samples beyond the last and channels beyond those of the units. */
template <class T, bool BACK>
__global__ static void __launch_bounds__(THREADS)
    turn(const uint32_t *now_n, T *planes, float *units, int pixels, int c, int used)
{
    __shared__ float tile[SIDE][SIDE + 1];
    const int lane = (int)threadIdx.x % 32, first = (int)threadIdx.x / 32, sample = (int)blockIdx.z;
    const int q0 = (int)blockIdx.x * SIDE, c0 = (int)blockIdx.y * SIDE;
    const bool beyond = now_n && sample >= (int)*now_n;
    if (beyond && !BACK) return;
    planes += (size_t)sample * pixels * c, units += (size_t)sample * pixels * used;
    for (int i = first; i < SIDE; i += THREADS / 32) {
        const int q = q0 + (BACK ? lane : i), k = c0 + (BACK ? i : lane);
        if (q >= pixels || k >= used) continue;
        const float v = BACK ? units[(size_t)k * pixels + q] : (float)planes[(size_t)q * c + k];
        tile[i][lane] = beyond ? 0 : v;
    }
    __syncthreads();
    for (int i = first; i < SIDE; i += THREADS / 32) {
        const int q = q0 + (BACK ? i : lane), k = c0 + (BACK ? lane : i);
        if (q >= pixels || k >= (BACK ? c : used)) continue;
        if (BACK) planes[(size_t)q * c + k] = (T)(k < used ? tile[lane][i] : 0);
        else units[(size_t)k * pixels + q] = tile[lane][i];
    }
}

template <class T, bool BACK>
static void run_turn(const struct wisp_dplanes &p, void *planes, float *units, cudaStream_t s)
{
    const dim3 grid((unsigned)wisp_parts(p.h * p.w, SIDE), (unsigned)wisp_parts(p.c, SIDE),
                    (unsigned)p.n);
    turn<T, BACK><<<grid, THREADS, 0, s>>>(p.now_n, (T *)planes, units, (int)(p.h * p.w), (int)p.c,
                                           (int)(p.used ? p.used : p.c));
}

void wisp_dflatten(const struct wisp_dplanes &p, float *y, const void *x, cudaStream_t s)
{
    if (p.half) run_turn<__nv_bfloat16, false>(p, (void *)x, y, s);
    else run_turn<float, false>(p, (void *)x, y, s);
}

void wisp_dflatten_back(const struct wisp_dplanes &p, void *gx, const float *gy, cudaStream_t s)
{
    if (p.half) run_turn<__nv_bfloat16, true>(p, gx, (float *)gy, s);
    else run_turn<float, true>(p, gx, (float *)gy, s);
}

/* ---- images ---- */

/* A thread has a pixel with all its channels. */
template <class T>
__global__ static void __launch_bounds__(THREADS)
    lay_images(const __grid_constant__ struct wisp_dplanes p,
               const __grid_constant__ struct wisp_dimages f, T *x)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x, pixels = p.h * p.w;
    const size_t sample = i / pixels;
    if (sample >= p.n) return;
    if (p.now_n && sample >= *p.now_n) {
        for (size_t c = 0; c < p.c; c++) x[i * p.c + c] = (T)0.0f;
        return;
    }
    const struct wisp_moved *moved = f.now ? f.now->moved : f.moved;
    const uint32_t *rows = f.now ? f.now->id : f.row;
    const size_t row = rows ? rows[sample] : sample;
    struct wisp_moved m = {};
    if (moved) m = moved[sample];
    const int h = (int)p.h, w = (int)p.w, at = (int)(i % p.w);
    const int u = (int)(i % pixels / p.w) + m.down, v = (m.mirrored ? w - 1 - at : at) + m.right;
    const bool in = u >= 0 && u < h && v >= 0 && v < w;
    const uint8_t *from = f.bytes + row * f.channels * pixels;
    const size_t pixel = in ? (size_t)u * p.w + (size_t)v : 0;
    for (size_t c = 0; c < p.c; c++)
        x[i * p.c + c] =
            (T)(in && c < f.channels ? f.table[c * 256 + from[c * pixels + pixel]] : 0);
}

void wisp_dimages_lay(const struct wisp_dplanes &p, const struct wisp_dimages &images, void *x,
                      cudaStream_t s)
{
    const unsigned n = (unsigned)wisp_parts(p.n * p.h * p.w, THREADS);
    if (p.half) lay_images<<<n, THREADS, 0, s>>>(p, images, (__nv_bfloat16 *)x);
    else lay_images<<<n, THREADS, 0, s>>>(p, images, (float *)x);
}
