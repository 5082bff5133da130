/* CPU features by way of the compiler's own detection, which checks CPUID and that the
 * operating system saves the wide registers (XCR0). */
#include "base/cpu.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* gcc 12 does not detect AMX.  Tile registers are large, so Linux gives them to processes that ask
 * (from 5.16 on); earlier kernels refuse, and then there is no AMX. */
static int has_amx(void)
{
    enum { TILE = 1 << 24, BF16 = 1 << 22, ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & TILE) == 0 || (d & BF16) == 0) return 0;
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#endif

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
    if ((have & CPU_AVX512) && __builtin_cpu_supports("avx512bf16")) have |= CPU_BF16;
    if ((have & CPU_BF16) && has_amx()) have |= CPU_AMX;
#endif
    return have;
}

void wisp_cpu_name(char out[WISP_CPU_NAME])
{
    memset(out, 0, WISP_CPU_NAME);
#if defined(__x86_64__)
    unsigned r[12] = { 0 };
    if (__get_cpuid_max(0x80000000u, NULL) < 0x80000004u) return;
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    memcpy(out, r, sizeof r);
    for (int i = 0; out[i]; i++)
        if ((unsigned char)out[i] < ' ' || (unsigned char)out[i] > '~') out[i] = '?';
#endif
}
