/* The limits of this machine, measured: memory by copying, arithmetic by a product in the caches.
 *
 * Rounds are short and the best one counts: whatever else the machine does only makes them slower.
 * Work is cut into one part per thread, all of the same size. */
#include "api/limits.h"
#include "base/file.h"
#include "base/mem.h"
#include "kernels/kernels.h"

#include <string.h>

enum { COPIED = 256 << 20 }; /* bytes of a round; caches are smaller */

/* The best rate of rounds of 'work' each, after one that does not count. */
static double best_rate(struct wisp_pool *pool, void (*fn)(void *arg, size_t i, int thread),
                        void *arg, double work, double seconds)
{
    size_t parts = (size_t)wisp_pool_threads(pool);
    double best = 0, end = wisp_now() + seconds;
    wisp_parallel_for(pool, parts, fn, arg);
    for (int round = 0; round < 3 || wisp_now() < end; round++) {
        double began = wisp_now();
        wisp_parallel_for(pool, parts, fn, arg);
        double rate = work / (wisp_now() - began);
        if (rate > best) best = rate;
    }
    return best;
}

/* ---- memory ---- */

struct copy {
    unsigned char *to, *from;
    size_t part; /* bytes of each thread's */
};

static void copy_part(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct copy *c = arg;
    memcpy(c->to + i * c->part, c->from + i * c->part, c->part);
}

static void touch_part(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct copy *c = arg;
    memset(c->from + i * c->part, 1,
           c->part); /* pages that were never written share one of zeros */
    memset(c->to + i * c->part, 2, c->part);
}

double wisp_limit_copy(struct wisp_pool *pool, double seconds)
{
    size_t parts = (size_t)wisp_pool_threads(pool);
    struct copy c = { wisp_alloc(COPIED, 1), wisp_alloc(COPIED, 1), COPIED / parts };
    double rate = 0;
    if (c.to && c.from) {
        wisp_parallel_for(pool, parts, touch_part, &c);
        rate = best_rate(pool, copy_part, &c, 2.0 * (double)(c.part * parts), seconds);
    }
    wisp_free(c.to);
    wisp_free(c.from);
    return rate;
}

/* ---- arithmetic ---- */

enum { M = 96, N = 64, K = 256, TIMES = 50 }; /* (M, K) x (K, N): 184 KiB as floats */
enum { FLOATS = M * K + K * N + M * N + M };

struct product {
    const struct wisp_kernels *k;
    bool bf16;
    float *block; /* of each thread: A | B | C | bias */
};

static void multiply(void *arg, size_t i, int thread)
{
    (void)thread;
    const struct product *p = arg;
    float *a = p->block + i * FLOATS, *b = a + M * K, *c = b + K * N, *bias = c + M * N;
    for (int t = 0; t < TIMES; t++) {
        if (p->bf16)
            p->k->gemm16(c, N, (uint16_t *)a, K, (uint32_t *)b, K * 8, bias, M, N, K, false);
        else p->k->gemm_bias(c, N, a, K, b, N, bias, M, N, K);
    }
}

double wisp_limit_flops(struct wisp_context *ctx, bool bf16, double seconds)
{
    size_t parts = (size_t)wisp_pool_threads(ctx->pool);
    struct product p = { ctx->k, bf16, wisp_zalloc(parts * FLOATS, sizeof *p.block) };
    if (!p.block) return 0;
    double rate =
        best_rate(ctx->pool, multiply, &p, 2.0 * M * N * K * TIMES * (double)parts, seconds);
    wisp_free(p.block);
    return rate;
}
