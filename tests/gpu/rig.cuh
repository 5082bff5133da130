/* What the tests of kernels share: arrays that live on both sides, a seeded generator, timing. */
#ifndef WISP_TESTS_GPU_RIG_CUH
#define WISP_TESTS_GPU_RIG_CUH

#include "cuda/blas.cuh"
#include "cuda/ops.cuh"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

static void cuda_ok(cudaError_t e, const char *what)
{
    if (e == cudaSuccess) return;
    printf("  FAILED %s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}
#define OK(call) cuda_ok(call, #call)

/* RIG_OWN in the environment: own kernels alone. */
static const bool rig_own = wisp_dlibraries_off = getenv("RIG_OWN") != NULL;

static uint64_t rig_seed = 1;
static float rig_float(void) /* in -1 .. 1 */
{
    return test_randf(&rig_seed);
}
static size_t rig_below(size_t n)
{
    return (size_t)((test_rand(&rig_seed) >> 16) % n);
}

static inline float rig_whole(int most) /* a whole number in -most .. most */
{
    return (float)((int)rig_below(2 * most + 1) - most);
}
static inline uint16_t rig_half(float x) /* to bf16: nearest, ties to even */
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline float rig_widen(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

template <class T> struct both { /* an array on the host and on the card */
    std::vector<T> host;
    T *dev = NULL;
    explicit both(size_t n = 0, T value = T()) : host(n, value)
    {
        OK(cudaMalloc((void **)&dev, (n ? n : 1) * sizeof(T)));
        up();
    }
    both(const both &) = delete;
    ~both()
    {
        cudaFree(dev);
    }
    T &operator[](size_t i)
    {
        return host[i];
    }
    size_t size() const
    {
        return host.size();
    }
    void up()
    {
        OK(cudaMemcpy(dev, host.data(), size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    void down()
    {
        OK(cudaMemcpy(host.data(), dev, size() * sizeof(T), cudaMemcpyDeviceToHost));
    }
};

static void rig_sync(const char *what)
{
    cuda_ok(cudaGetLastError(), what);
    cuda_ok(cudaDeviceSynchronize(), what);
}

/* Median milliseconds of fn over a few runs. */
template <class F> static double rig_ms(F fn, int runs = 20)
{
    cudaEvent_t a, b;
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    std::vector<float> t;
    fn();
    for (int i = 0; i < runs; i++) {
        float ms;
        OK(cudaEventRecord(a));
        fn();
        OK(cudaEventRecord(b));
        OK(cudaEventSynchronize(b));
        OK(cudaEventElapsedTime(&ms, a, b));
        t.push_back(ms);
    }
    for (size_t i = 1; i < t.size(); i++)
        for (size_t k = i; k > 0 && t[k] < t[k - 1]; k--) std::swap(t[k], t[k - 1]);
    return t[t.size() / 2];
}

#endif
