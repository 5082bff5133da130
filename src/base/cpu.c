/* CPU features by way of the compiler's own detection, which checks CPUID and that the
 * operating system saves the wide registers (XCR0). */
#include "base/cpu.h"

unsigned wisp_cpu_features(void)
{
    unsigned have = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) have |= CPU_AVX2;
    if (__builtin_cpu_supports("fma")) have |= CPU_FMA;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        have |= CPU_AVX512;
#endif
    return have;
}
