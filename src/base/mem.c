/* Memory: aligned, checked, countable, and able to fail on purpose. */
#include "base/mem.h"
#include "base/bounds.h"
#include "base/cut.h"
#include "base/text.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

atomic_long wisp_mem_budget = -1;
atomic_long wisp_mem_live = 0;

enum { ALIGN = 64, HUGE_PAGE = 2 << 20, HUGE_FROM = 4 << 20, SPOILED_MOST = 64 << 20 };

/* Takes one allocation from the budget; 0 when it is spent. */
static int spend(void)
{
    long left = atomic_load_explicit(&wisp_mem_budget, memory_order_relaxed);
    if (left < 0) return 1;
    if (left == 0) return 0;
    atomic_fetch_sub_explicit(&wisp_mem_budget, 1, memory_order_relaxed);
    return 1;
}

void *wisp_alloc(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2 || !spend()) return NULL;
    size_t align = bytes >= HUGE_FROM ? HUGE_PAGE : ALIGN;
    size_t all = wisp_borders ? bytes + WISP_CUT_CLOSE : bytes;
    void *p = aligned_alloc(align, (all + align) & ~(align - 1));
    if (!p) return NULL;
    if (wisp_borders) wisp_cut_close(p, bytes, malloc_usable_size(p));
    if (bytes >= HUGE_FROM) madvise(p, bytes, MADV_HUGEPAGE);
    atomic_fetch_add_explicit(&wisp_mem_live, 1, memory_order_relaxed);
    if (bytes <= SPOILED_MOST) wisp_cut_spoil(p, bytes);
    return p;
}

void *wisp_zalloc(size_t n, size_t size)
{
    void *p = wisp_alloc(n, size);
    if (p) memset(p, 0, n * size);
    return p;
}

/* Pages of private memory that are given up read as zeros. */
void *wisp_zalloc_lazy(size_t n, size_t size)
{
    if (n == 0 || size > HUGE_FROM || n < HUGE_FROM / size) return wisp_zalloc(n, size);
    char *p = wisp_alloc(n, size);
    if (!p) return NULL;
    const size_t page = HUGE_PAGE, whole = n * size / page * page; /* p is aligned to these */
    madvise(p, whole, MADV_NOHUGEPAGE);
    if (madvise(p, whole, MADV_DONTNEED) != 0) memset(p, 0, whole);
    memset(p + whole, 0, n * size - whole);
    return p;
}

void *wisp_realloc(void *p, size_t old_n, size_t n, size_t size)
{
    void *q = wisp_alloc(n, size);
    if (!q) return NULL;
    if (p) memcpy(q, p, (old_n < n ? old_n : n) * size);
    wisp_free(p);
    return q;
}

void wisp_free(void *p)
{
    if (!p) return;
    if (wisp_borders) wisp_cut_drop(p, malloc_usable_size(p));
    atomic_fetch_sub_explicit(&wisp_mem_live, 1, memory_order_relaxed);
    free(p);
}

char *wisp_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = wisp_alloc(n, 1);
    if (p) memcpy(p, s, n);
    return p;
}

wisp_status wisp_fail_mem(wisp_error *err, size_t bytes, const char *what)
{
    if (bytes >= (size_t)1 << 30)
        return wisp_fail(err, WISP_ENOMEM, "out of memory: %.1f GiB for %s", wisp_gib(bytes), what);
    return wisp_fail(err, WISP_ENOMEM, "out of memory: %zu bytes for %s", bytes, what);
}

int wisp_grow(void *p, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return 1;
    void *old;
    memcpy(&old, p, sizeof old); /* p is the address of a typed pointer */
    size_t bigger = n < 16 ? 16 : n + n / 2;
    void *q = wisp_realloc(old, n, bigger, size);
    if (!q) return 0;
    memcpy(p, &q, sizeof q);
    *cap = bigger;
    return 1;
}

size_t wisp_mem_available(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    if (!f) return 0;
    char line[256];
    unsigned long long kb = 0;
    while (fgets(line, sizeof line, f))
        if (wisp_scan(line, "MemAvailable: %llu kB", &kb) == 1) break;
    fclose(f);
    return (size_t)kb << 10;
}

bool wisp_mem_fits(size_t bytes)
{
    if (bytes < (size_t)64 << 20) return true;
    size_t there = wisp_mem_available();
    return there == 0 || bytes < there;
}

size_t wisp_mem_peak(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (size_t)u.ru_maxrss << 10 : 0;
}
