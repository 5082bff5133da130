/* The floor of every product: independent fused multiply-adds in registers, GFLOP/s of one core. */
#ifndef WISP_BENCH_PEAK_H
#define WISP_BENCH_PEAK_H

#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { PEAK_RUNS = 12 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#if defined(__x86_64__)
static volatile float sink; /* keeps every chain alive */
/* More chains than the latency (4 or 5 cycles) times the units (2). */
#define PEAK(name, isa, type, set1, fma, store, lanes)                                             \
    __attribute__((target(isa))) static double name(void)                                          \
    {                                                                                              \
        enum { CHAINS = 12, STEPS = 1000000 };                                                     \
        double best = 0;                                                                           \
        for (int run = 0; run < PEAK_RUNS; run++) {                                                \
            type acc[CHAINS], x = set1(0.999f), y = set1(1e-3f);                                   \
            float out[CHAINS * (lanes)];                                                           \
            _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) acc[i] = set1((float)i);     \
            double start = now();                                                                  \
            for (int step = 0; step < STEPS; step++)                                               \
                _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) acc[i] =                 \
                    fma(acc[i], x, y);                                                             \
            double seconds = now() - start;                                                        \
            _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)                              \
                store(out + i * (lanes), acc[i]);                                                  \
            for (int i = 0; i < CHAINS * (lanes); i++) sink += out[i];                             \
            double rate = 2e-9 * (lanes)*CHAINS * STEPS / seconds;                                 \
            if (rate > best) best = rate;                                                          \
        }                                                                                          \
        return best;                                                                               \
    }
PEAK(peak_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps, 8)
PEAK(peak_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps, 16)
#endif

static double peak(const char *isa)
{
#if defined(__x86_64__)
    if (strcmp(isa, "avx2") == 0) return peak_avx2();
    if (strcmp(isa, "avx2") != 0 && strcmp(isa, "scalar") != 0) return peak_avx512();
#endif
    (void)isa;
    return 0;
}

#endif
