/* Lists of the k best. */
#include "hash/best.h"

#include <math.h>

void wisp_keys_select(uint64_t *x, size_t size, size_t n)
{
    size_t lo = 0, hi = size;
    while (hi - lo > 1 && n > lo && n < hi) {
        uint64_t pivot = x[lo + (hi - lo) / 2];
        size_t i = lo, k = hi - 1;
        for (;;) {
            while (x[i] > pivot) i++;
            while (x[k] < pivot) k--;
            if (i >= k) break;
            uint64_t v = x[i];
            x[i++] = x[k];
            x[k--] = v;
        }
        if (n <= i) hi = i;
        else lo = i;
    }
}

void wisp_keys_sort(uint64_t *x, size_t n)
{
    static const size_t gaps[] = { 57, 23, 10, 4, 1 }; /* Ciura's */
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (size_t i = gaps[g]; i < n; i++) {
            uint64_t v = x[i];
            size_t at = i;
            for (; at >= gaps[g] && x[at - gaps[g]] < v; at -= gaps[g]) x[at] = x[at - gaps[g]];
            x[at] = v;
        }
}

/* One pass with a short list in order: most rows do not get past its end. */
static size_t best_few(uint64_t *keys, const float *score, const int32_t *row, size_t size,
                       size_t n)
{
    size_t have = 0;
    float limit = -INFINITY;
    for (size_t i = 0; n > 0 && i < size; i++) {
        if (!(score[i] >= limit)) continue;
        uint64_t key = wisp_key(score[i], row[i]);
        if (have == n && key < keys[n - 1]) continue;
        size_t at = have < n ? have++ : n - 1;
        for (; at > 0 && keys[at - 1] < key; at--) keys[at] = keys[at - 1];
        keys[at] = key;
        if (have == n) limit = wisp_key_score(keys[n - 1]);
    }
    return have;
}

size_t wisp_keys_best(uint64_t *keys, const float *score, const int32_t *row, size_t size, size_t n)
{
    enum { FEW = 12 };
    if (n <= FEW) return best_few(keys, score, row, size, n);
    size_t all = 0;
    for (size_t i = 0; i < size; i++) {
        keys[all] = wisp_key(score[i], row[i]);
        all += score[i] == score[i];
    }
    if (n > all) n = all;
    wisp_keys_select(keys, all, n);
    wisp_keys_sort(keys, n);
    return n;
}

struct wisp_best wisp_best_lay(struct wisp_cut *c, size_t n, size_t k)
{
    struct wisp_best b = { .n = n, .k = k, .room = wisp_best_room(k) };
    b.key = wisp_cut_take(c, n * b.room, sizeof *b.key);
    b.count = wisp_cut_take(c, n, sizeof *b.count);
    b.limit = wisp_cut_take(c, n, sizeof *b.limit);
    return b;
}

void wisp_best_reset(struct wisp_best *b, const float *limit)
{
    memset(b->count, 0, b->n * sizeof *b->count);
    for (size_t s = 0; s < b->n; s++) b->limit[s] = limit ? limit[s] : -INFINITY;
}

void wisp_best_reset_one(struct wisp_best *b, size_t s)
{
    b->count[s] = 0;
    b->limit[s] = -INFINITY;
}

/* Only the k best of a full list stay. */
static void shrink(struct wisp_best *b, size_t s)
{
    uint64_t *key = b->key + s * b->room, worst = UINT64_MAX;
    wisp_keys_select(key, b->count[s], b->k);
    b->count[s] = (uint32_t)b->k;
    for (size_t i = 0; i < b->k; i++) worst = key[i] < worst ? key[i] : worst;
    b->limit[s] = wisp_key_score(worst);
}

void wisp_best_hear(struct wisp_best *b, _Atomic float *told)
{
    for (size_t s = 0; s < b->n; s++) {
        float limit = atomic_load_explicit(&told[s], memory_order_relaxed);
        if (limit > b->limit[s]) b->limit[s] = limit;
    }
}

/* A little below its own limit: of equal scores the smaller row must win wherever it is found.  Two
 * lists that tell at once may leave the lower limit, which does no harm. */
void wisp_best_tell(const struct wisp_best *b, _Atomic float *told)
{
    for (size_t s = 0; s < b->n; s++)
        if (b->limit[s] > atomic_load_explicit(&told[s], memory_order_relaxed))
            atomic_store_explicit(&told[s], nextafterf(b->limit[s], -INFINITY),
                                  memory_order_relaxed);
}

void wisp_best_add(struct wisp_best *b, size_t s, float v, int32_t row)
{
    if (v <= b->limit[s] || b->k == 0) return; /* a NaN gets in */
    b->key[s * b->room + b->count[s]++] = wisp_key(v, row);
    if (b->count[s] == b->room) shrink(b, s);
}

void wisp_best_collect(struct wisp_best *b, const struct wisp_kernels *k, const float *z, size_t m,
                       const int32_t *rows, size_t first, int32_t *where)
{
    for (size_t i = 0; b->n == 1 && i < m; i++)
        if (!(z[i] <= b->limit[0]))
            wisp_best_add(b, 0, z[i], rows ? rows[i] : (int32_t)(first + i));
    for (size_t i = 0; b->n > 1 && i < m; i++) {
        size_t found = k->above(where, z + i * b->n, b->limit, b->n);
        int32_t row = rows ? rows[i] : (int32_t)(first + i);
        for (size_t f = 0; f < found; f++)
            wisp_best_add(b, (size_t)where[f], z[i * b->n + (size_t)where[f]], row);
    }
}

size_t wisp_best_take(uint64_t *work, const struct wisp_best *lists, size_t n_lists, size_t s,
                      float told)
{
    size_t n = 0, k = n_lists ? lists[0].k : 0;
    uint64_t above = wisp_key(told, -1); /* the least key of this score */
    for (size_t i = 0; i < n_lists; i++) {
        const uint64_t *key = lists[i].key + s * lists[i].room;
        for (uint32_t c = 0; c < lists[i].count[s]; c++) {
            work[n] = key[c];
            n += key[c] > above;
        }
    }
    if (n > k) wisp_keys_select(work, n, k);
    if (n > k) n = k;
    wisp_keys_sort(work, n);
    return n;
}
