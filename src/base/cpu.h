/* What this CPU, and its operating system, can run. */
#ifndef WISP_BASE_CPU_H
#define WISP_BASE_CPU_H

enum {
    CPU_AVX2 = 1,
    CPU_FMA = 2,
    CPU_AVX512 = 4, /* F, BW, DQ, VL: Skylake-X, Zen 4 and later */
    CPU_BF16 = 8,   /* AVX512_BF16: Cooper Lake, Zen 4 and later */
    CPU_AMX = 16,   /* tiles of bf16, and the kernel lets this process use them: Sapphire Rapids */
};

unsigned wisp_cpu_features(void);

enum { WISP_CPU_NAME = 64 };
/* What the processor calls itself, without control characters; "" where it does not say. */
void wisp_cpu_name(char out[WISP_CPU_NAME]);

#endif
