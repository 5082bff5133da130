/* What this CPU, and its operating system, can run. */
#ifndef WISP_BASE_CPU_H
#define WISP_BASE_CPU_H

enum {
    CPU_AVX2 = 1,
    CPU_FMA = 2,
    CPU_AVX512 = 4, /* F, BW, DQ, VL: Skylake-X, Zen 4 and later */
};

unsigned wisp_cpu_features(void);

#endif
