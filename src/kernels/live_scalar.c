/* Sums over the numbers that are not 0, in plain C: the definition. */
#include "kernels/kernels.h"

static void live_find(float *x, uint64_t *live, const float *const *from, size_t sources, size_t n,
                      size_t step)
{
    for (size_t i = 0; i < n; i++) {
        live[i] = 0;
        for (size_t j = 0; j < sources * 16; j++) {
            const float v = from[j / 16] ? from[j / 16][i * step * 16 + j % 16] : 0;
            if (v == 0) continue;
            *x++ = v;
            live[i] |= (uint64_t)1 << j;
        }
    }
}

static void weave(float *x, const float *const *from, size_t sources, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < sources * 16; j++)
            *x++ = from[j / 16] ? from[j / 16][i * step * 16 + j % 16] : 0;
}

static void live_pack(uint64_t *live, float *x, size_t n, size_t words)
{
    for (size_t i = 0; i < n; i++, x += words * 64)
        for (size_t j = 0, found = 0; j < words * 64; j++) {
            if (j % 64 == 0) live[i * words + j / 64] = 0;
            if (x[j] == 0) continue;
            x[found++] = x[j];
            live[i * words + j / 64] |= (uint64_t)1 << j % 64;
        }
}

static void live_row(const struct wisp_live_row *t)
{
    const size_t each = t->blocks * 16, all = t->taps * each;
    const float *x = t->x;
    for (size_t i = 0; i < t->n; i++)
        for (size_t j = 0; j < t->sources * 16; j++) {
            if (!(t->live[i] >> j & 1)) continue;
            for (size_t e = 0; e < all; e++) t->c[i * each + e] += *x * t->w[j * all + e];
            x++;
        }
}

static void live_sums(const struct wisp_live_sums *t)
{
    const size_t pitch = t->blocks * 16, line = t->taps * pitch;
    for (size_t i = 0; i < t->n; i++) {
        const float *x = t->x + i * t->words * 64;
        for (size_t p = 0; p < t->words * 64; p++) {
            if (!(t->live[i * t->words + p / 64] >> p % 64 & 1)) continue;
            for (size_t r = 0; r < t->rows; r++)
                for (size_t e = 0; e < line; e++)
                    t->c[(i * t->rows + r) * line + e] +=
                        *x * t->v[(p + WISP_LIVE_COLS * r) * pitch + e];
            x++;
        }
    }
}

static size_t relu_live(float *y, const float *x, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] < 0 ? 0 : x[i]; /* this way round a NaN stays */
        found += y[i] != 0;
    }
    return found;
}

static void push(float *g, const float *x, float more, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] > 0) g[i] += more;
}

static size_t live_count(const float *x, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) found += x[i] != 0;
    return found;
}

static const struct wisp_live_forms forms = {
    .row_blocks = { 0, 4, 3, 2 },
    .rows = 2,
    .sum_blocks = { { 0 }, { 0, 4, 3, 2 }, { 0, 3, 2, 2 } },
    .near_floats = 6 * 1024,
};

void wisp_kernels_live_scalar(struct wisp_kernels *k)
{
    k->live_find = live_find;
    k->weave = weave;
    k->live_pack = live_pack;
    k->live_row = live_row;
    k->live_sums = live_sums;
    k->live_forms = &forms;
    k->relu_live = relu_live;
    k->push = push;
    k->live_count = live_count;
}
