/* Lists of the k best. */
#include "layer/best.h"

#include <math.h>

size_t wisp_best_floats(size_t n, size_t k)
{
    return 2 * n * k + n;
}

struct wisp_best wisp_best_at(float *block, size_t n, size_t k)
{
    return (struct wisp_best){ n, k, block, (int32_t *)(block + n * k), block + 2 * n * k };
}

void wisp_best_reset(struct wisp_best *b)
{
    for (size_t s = 0; s < b->n; s++) wisp_best_reset_one(b, s);
}

void wisp_best_reset_one(struct wisp_best *b, size_t s)
{
    for (size_t i = s * b->k; i < (s + 1) * b->k; i++) b->value[i] = -INFINITY, b->id[i] = -1;
    b->limit[s] = -INFINITY;
}

/* Puts (v, id) into a list of k, best first, behind equal values. */
static void insert(float *value, int32_t *ids, size_t k, float v, int32_t id)
{
    size_t at = k - 1;
    for (; at > 0 && value[at - 1] < v; at--) {
        value[at] = value[at - 1];
        ids[at] = ids[at - 1];
    }
    value[at] = v;
    ids[at] = id;
}

void wisp_best_add(struct wisp_best *b, size_t s, float v, int32_t id)
{
    if (!(v > b->limit[s])) return;
    insert(b->value + s * b->k, b->id + s * b->k, b->k, v, id);
    float last = b->value[(s + 1) * b->k - 1];
    if (last > b->limit[s]) b->limit[s] = last; /* which may have been set higher to begin with */
}

void wisp_best_collect(struct wisp_best *b, const struct wisp_kernels *k, const float *z, size_t m,
                       const int32_t *rows, size_t first, int32_t *where)
{
    for (size_t i = 0; i < m; i++) {
        size_t found = k->above(where, z + i * b->n, b->limit, b->n);
        int32_t id = rows ? rows[i] : (int32_t)(first + i);
        for (size_t f = 0; f < found; f++)
            wisp_best_add(b, (size_t)where[f], z[i * b->n + (size_t)where[f]], id);
    }
}

void wisp_best_merge(struct wisp_best *to, const struct wisp_best *from, size_t s)
{
    float *value = to->value + s * to->k;
    const float *v = from->value + s * to->k;
    for (size_t c = 0; c < to->k && v[c] > value[to->k - 1]; c++)
        insert(value, to->id + s * to->k, to->k, v[c], from->id[s * to->k + c]);
}
