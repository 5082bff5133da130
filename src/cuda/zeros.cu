/* Counting what is not 0 of a value that was written before: some of its samples are read once more,
 * 16 bytes at a time. */
#include "cuda/zeros.cuh"
#include "cuda/planes.cuh"

enum { THREADS = 256, MOST_BLOCKS = 264, EACH = 8 };

template <class T, int N>
__global__ static void __launch_bounds__(THREADS)
    count(const struct wisp_dplanes p, const struct wisp_dlive l, const T *x, size_t every)
{
    __shared__ struct wisp_dtally tally;
    const size_t n = p.now_n && *p.now_n < p.n ? *p.now_n : p.n, samples = (n + every - 1) / every,
                 pieces = p.h * p.w * p.c / N, all = samples * pieces;
    wisp_dtally_begin(tally);
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < all;
         i += (size_t)gridDim.x * THREADS) {
        const size_t at = i % pieces * N;
        const auto v = wisp_vector<T, N>::at(x + i / pieces * every * pieces * N + at);
        wisp_dtally_add(tally, l, at % p.c / WISP_PLANE_BLOCK, wisp_dlives_of(v));
    }
    wisp_dtally_end(tally, l, blockIdx.x == 0 ? samples : 0);
}

template <class T>
static void launch(const struct wisp_dplanes &p, const struct wisp_dlive &l, const void *x,
                   size_t every, cudaStream_t s)
{
    constexpr int N = 16 / (int)sizeof(T);
    const size_t samples = wisp_parts(p.n, every), numbers = samples * p.h * p.w * p.c;
    const size_t wanted = wisp_parts(numbers, (size_t)THREADS * N * EACH);
    const unsigned blocks = (unsigned)(wanted < MOST_BLOCKS ? wanted : MOST_BLOCKS);
    if (p.c % N == 0) count<T, N><<<blocks, THREADS, 0, s>>>(p, l, (const T *)x, every);
    else count<T, 1><<<blocks, THREADS, 0, s>>>(p, l, (const T *)x, every);
}

void wisp_dlive_count(const struct wisp_dplanes &p, const struct wisp_dlive &l, const void *x,
                      size_t every, cudaStream_t s)
{
    if (p.half) launch<__nv_bfloat16>(p, l, x, every, s);
    else launch<float>(p, l, x, every, s);
}
