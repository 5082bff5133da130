/* A notebook: how an edge of a sparse layer is best read from shared memory
 * (src/cuda/deep_panel.cu).
 *
 *   nvcc -std=c++17 -O3 -arch=sm_90 bench/cuda/gather.cu -o gather && ./gather
 *
 * 32 inputs per block, their values in shared memory, 128 bytes per neuron.  An edge is an id, a
 * weight and a row.  Versions differ in V, the values of the row that a lane takes: 32 / V lanes
 * share an output, and each of them loads the id and the weight.
 *
 *   V = 1    one warp per output, as deep_panel.cu was before
 *   V = 4    8 lanes per output, 16 bytes each
 *   V = 8, 16, 32    4, 2, 1 lanes per output; in turn j lane i takes part i ^ (j * 32 / V), which
 *                    puts the 8 lanes that are served together into different banks
 *
 * If what counts is bytes that arrive in registers, 128 per cycle, 32 edges take 1 + 1.5 / V cycles
 * (6 bytes of id and weight for V values of 4), 1 + 0.5 / V without weights: 2.5, 1.38, 1.19, 1.09,
 * 1.05 and 1.5, 1.13, 1.06, 1.03, 1.02.  Output: tera-edges/s, and cycles at the clock that the
 * card names. */
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

enum { LANES = 32, NEURONS = 1024, ROW = 128, CHUNK = 4 };

static void check(cudaError_t e, const char *what)
{
    if (e == cudaSuccess) return;
    printf("%s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}

/* ids (outputs / V, k / 4, V, 4) and w alike: a warp's outputs side by side, 4 edges at a time. */
template <int V, bool WEIGHTED>
static __device__ __forceinline__ void add_edge(float (&sum)[V], const unsigned char *rows,
                                                uint32_t pair, uint32_t pick, uint32_t mine,
                                                float w)
{
    const uint32_t at = __dp2a_lo(pair, pick, mine);
    if constexpr (V == 1) {
        const float x = *(const float *)(rows + at);
        sum[0] = WEIGHTED ? fmaf(w, x, sum[0]) : sum[0] + x;
    } else {
        float4 x[V / 4];
#pragma unroll
        for (int j = 0; j < V / 4; j++)
            x[j] = *(const float4 *)(rows + (at ^ (uint32_t)(j * (LANES / V) * 16)));
#pragma unroll
        for (int j = 0; j < V / 4; j++) {
            const float v[4] = { x[j].x, x[j].y, x[j].z, x[j].w };
#pragma unroll
            for (int i = 0; i < 4; i++)
                sum[4 * j + i] = WEIGHTED ? fmaf(w, v[i], sum[4 * j + i]) : sum[4 * j + i] + v[i];
        }
    }
}

template <int V, bool WEIGHTED, int THREADS>
__global__ static void __launch_bounds__(THREADS, 1)
    run(float *y, const float *x, const uint16_t *ids, const float *w, int k)
{
    extern __shared__ float4 pool[];
    const unsigned char *rows = (const unsigned char *)pool;
    const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, own = lane * V / LANES;
    const uint32_t mine = V == 1 ? lane * 4 : lane % 8 * 16;
    const float4 *from = (const float4 *)(x + (size_t)blockIdx.x * NEURONS * LANES);
    for (uint32_t i = threadIdx.x; i < NEURONS * 8; i += THREADS) pool[i] = from[i];
    __syncthreads();
    for (uint32_t unit = warp; unit < NEURONS / V; unit += THREADS / LANES) {
        const size_t first = (size_t)unit * k * V / CHUNK + own;
        const uint2 *id = (const uint2 *)ids + first;
        const float4 *weight = (const float4 *)w + first;
        float sum[V] = {};
        uint2 q = __ldg(id);
        float4 v = WEIGHTED ? __ldg(weight) : make_float4(0, 0, 0, 0);
#pragma unroll 1
        for (int e = 0; e < k; e += CHUNK) {
            const uint2 now = q;
            const float4 u = v;
            id += V, weight += V;
            q = __ldg(id);
            if (WEIGHTED) v = __ldg(weight);
            add_edge<V, WEIGHTED>(sum, rows, now.x, ROW, mine, u.x);
            add_edge<V, WEIGHTED>(sum, rows, now.x, ROW << 8, mine, u.y);
            add_edge<V, WEIGHTED>(sum, rows, now.y, ROW, mine, u.z);
            add_edge<V, WEIGHTED>(sum, rows, now.y, ROW << 8, mine, u.w);
        }
        float *to = y + ((size_t)blockIdx.x * NEURONS + unit * V + own) * LANES;
        if constexpr (V == 1) to[lane] = sum[0];
        else
#pragma unroll
            for (int j = 0; j < V / 4; j++)
                *(float4 *)(to + (lane % 8 ^ j * (LANES / V)) * 4) =
                    make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
    }
}

struct problem {
    int k, blocks;
    std::vector<uint16_t> id; /* (NEURONS, k) */
    std::vector<float> w, x;
    float *dx, *dy;
};

/* Edges in the order that V wants; one chunk more is read than there is. */
template <class T> static T *laid(const std::vector<T> &from, int k, int V)
{
    std::vector<T> to(from.size() + 32 * CHUNK);
    for (int o = 0; o < NEURONS; o++)
        for (int e = 0; e < k; e++)
            to[((size_t)o / V * (k / CHUNK) + e / CHUNK) * V * CHUNK + o % V * CHUNK + e % CHUNK] =
                from[(size_t)o * k + e];
    T *d;
    check(cudaMalloc(&d, to.size() * sizeof(T)), "memory");
    check(cudaMemcpy(d, to.data(), to.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
    return d;
}

/* The largest difference from sums in double precision, relative to the sum of absolute terms. */
static double wrong_by(const struct problem &p, bool weighted)
{
    double worst = 0;
    std::vector<float> y((size_t)NEURONS * LANES);
    for (int b : { 0, p.blocks - 1 }) {
        check(cudaMemcpy(y.data(), p.dy + b * y.size(), y.size() * 4, cudaMemcpyDeviceToHost), "y");
        for (int o = 0; o < NEURONS; o++)
            for (int i = 0; i < LANES; i++) {
                double sum = 0, mass = 1e-30;
                for (int e = 0; e < p.k; e++) {
                    const size_t at = (size_t)o * p.k + e;
                    const double t = (weighted ? p.w[at] : 1.0) *
                                     p.x[((size_t)b * NEURONS + p.id[at]) * LANES + i];
                    sum += t, mass += fabs(t);
                }
                worst = fmax(worst, fabs(sum - y[(size_t)o * LANES + i]) / mass);
            }
    }
    return worst;
}

template <int V, bool WEIGHTED, int THREADS> static void version(const struct problem &p, double hz)
{
    uint16_t *ids = laid(p.id, p.k, V);
    float *w = laid(p.w, p.k, V), ms = 0, best = 1e9f;
    int multi = 0;
    cudaEvent_t a, b;
    check(cudaDeviceGetAttribute(&multi, cudaDevAttrMultiProcessorCount, 0), "card");
    check(cudaEventCreate(&a), "event"), check(cudaEventCreate(&b), "event");
    check(cudaFuncSetAttribute(run<V, WEIGHTED, THREADS>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize, NEURONS * ROW),
          "shared memory");
    check(cudaMemset(p.dy, 0xff, (size_t)p.blocks * NEURONS * LANES * 4), "y");
    for (int i = 0; i < 5; i++) {
        cudaEventRecord(a);
        run<V, WEIGHTED, THREADS><<<p.blocks, THREADS, NEURONS * ROW>>>(p.dy, p.dx, ids, w, p.k);
        cudaEventRecord(b);
        check(cudaEventSynchronize(b), "kernel");
        cudaEventElapsedTime(&ms, a, b);
        best = fminf(best, ms);
    }
    const double edges = (double)p.blocks * NEURONS * p.k * LANES, s = 1e-3 * best;
    const double off = wrong_by(p, WEIGHTED);
    printf("  k %3d %-8s V %2d, %4d threads: %7.3f ms, %5.2f tera-edges/s, %.2f cycles, %s\n", p.k,
           WEIGHTED ? "weighted" : "plain", V, THREADS, best, edges / s * 1e-12,
           s * hz * multi / (edges / LANES), off < 1e-6 ? "right" : "WRONG");
    fflush(stdout);
    cudaFree(ids), cudaFree(w), cudaEventDestroy(a), cudaEventDestroy(b);
}

int main(void)
{
    int khz = 0, multi = 0;
    check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0), "card");
    check(cudaDeviceGetAttribute(&multi, cudaDevAttrMultiProcessorCount, 0), "card");
    printf("%d multiprocessors, %.3f GHz\n", multi, 1e-6 * khz);
    for (int k : { 104, 32 }) {
        struct problem p = {};
        uint64_t r = 1;
        const auto next = [&] { return (uint32_t)((r = r * 6364136223846793005u + 1) >> 40); };
        p.k = k, p.blocks = 8 * multi;
        for (int i = 0; i < NEURONS * k; i++) {
            p.id.push_back((uint16_t)(next() % NEURONS));
            p.w.push_back((float)next() / (1 << 24) - 0.5f);
        }
        for (size_t i = 0; i < (size_t)p.blocks * NEURONS * LANES; i++)
            p.x.push_back((float)next() / (1 << 24));
        check(cudaMalloc(&p.dx, p.x.size() * 4), "memory");
        check(cudaMalloc(&p.dy, p.x.size() * 4), "memory");
        check(cudaMemcpy(p.dx, p.x.data(), p.x.size() * 4, cudaMemcpyHostToDevice), "copy");
        const double hz = 1e3 * khz;
        version<1, true, 1024>(p, hz);
        version<4, true, 1024>(p, hz);
        version<8, true, 1024>(p, hz);
        version<16, true, 1024>(p, hz);
        version<16, true, 512>(p, hz);
        version<32, true, 512>(p, hz);
        version<32, true, 256>(p, hz);
        version<1, false, 1024>(p, hz);
        version<8, false, 1024>(p, hz);
        version<16, false, 1024>(p, hz);
        version<32, false, 512>(p, hz);
        version<32, false, 256>(p, hz);
        cudaFree(p.dx), cudaFree(p.dy);
    }
    return 0;
}
