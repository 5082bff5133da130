/* What test_hash.c and test_lsh.c share: kernels, normal numbers, and a family with functions. */
#ifndef WISP_TEST_HASHER_H
#define WISP_TEST_HASHER_H

#include "hash/family.h"
#include "base/mem.h"
#include "test.h"

#include <math.h>

static struct wisp_kernels best;
static uint64_t rng = 88172645463325252u;

static float normal(void)
{
    double u = ((double)(test_rand(&rng) >> 11) + 0.5) * 0x1p-53;
    double v = (double)(test_rand(&rng) >> 11) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

static inline void normals(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = normal();
}

struct hasher {
    const struct wisp_hash_family *f;
    struct wisp_hash_shape s;
    void *functions, *scratch;
};

static inline struct hasher hasher_of(const char *name, size_t width, size_t tables, int digits)
{
    struct hasher h = { .f = wisp_hash_family_find(name) };
    h.s = (struct wisp_hash_shape){ .width = width, .n_tables = tables, .digits = digits };
    h.s.digit_bits = h.f->digit_bits(width);
    h.functions = wisp_alloc(h.f->size(&h.s), 1);
    h.scratch = wisp_alloc(h.f->scratch(&h.s), 1);
    h.f->init(h.functions, &h.s, 7, 0);
    return h;
}

static inline void hasher_clear(struct hasher *h)
{
    wisp_free(h->functions);
    wisp_free(h->scratch);
}

static inline void hash_with(const struct hasher *h, const struct wisp_kernels *k, uint32_t *keys,
                             const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += WISP_HASH_BLOCK)
        h->f->hash(keys + i * h->s.n_tables, h->functions, &h->s, k, x + i * h->s.width,
                   n - i < WISP_HASH_BLOCK ? n - i : WISP_HASH_BLOCK, 0, h->s.n_tables, h->scratch);
}

#endif
