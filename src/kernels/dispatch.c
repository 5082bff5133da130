/* Which kernels run: reference first, then each instruction set that the machine has
 * overwrites what it does better. */
#include "kernels/kernels.h"
#include "base/cpu.h"
#include "base/error.h"

#include <string.h>

static const struct isa {
    const char *name, *what;
    unsigned needs; /* CPU_* bits, all of them */
    void (*install)(struct wisp_kernels *k);
} isas[] = {
    { "scalar", "plain C, the definition", 0, wisp_kernels_scalar },
#if defined(__x86_64__)
    { "avx2", "256-bit vectors with FMA (Haswell, Zen and later)", CPU_AVX2 | CPU_FMA,
      wisp_kernels_avx2 },
    { "avx512", "512-bit vectors (Skylake-X, Zen 4 and later)", CPU_AVX2 | CPU_FMA | CPU_AVX512,
      wisp_kernels_avx512 },
    { "bf16", "512-bit vectors with products of bf16 (Cooper Lake, Zen 4 and later)",
      CPU_AVX2 | CPU_FMA | CPU_AVX512 | CPU_BF16, wisp_kernels_bf16 },
    { "amx", "tiles of bf16 (Sapphire Rapids and later)",
      CPU_AVX2 | CPU_FMA | CPU_AVX512 | CPU_BF16 | CPU_AMX, wisp_kernels_amx },
#endif
};
enum { N_ISAS = sizeof isas / sizeof *isas };

int wisp_kernels_select(struct wisp_kernels *k, const char *cap, struct wisp_error *err)
{
    unsigned have = wisp_cpu_features();
    for (size_t i = 0; i < N_ISAS && (isas[i].needs & ~have) == 0; i++) {
        isas[i].install(k);
        k->name = isas[i].name;
        if (cap && strcmp(cap, isas[i].name) == 0) return WISP_OK;
    }
    if (!cap) return WISP_OK;
    return wisp_fail(err, WISP_ENOTSUP,
                     "WISP_ISA: no '%s' kernels on this machine; 'wisp info' lists them", cap);
}

const char *wisp_kernels_isa(size_t i, const char **what)
{
    if (i >= N_ISAS) return NULL;
    if (what) *what = isas[i].what;
    return isas[i].name;
}
