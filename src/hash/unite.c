/* Marking rows and finding them again. */
#include "hash/unite.h"
#include "base/bounds.h"
#include "base/cut.h"

static size_t words(size_t n_bits)
{
    return wisp_parts(n_bits, 64);
}

static void lay_out(struct wisp_marks *m, struct wisp_cut *c, size_t n_rows)
{
    *m = (struct wisp_marks){ .n_rows = n_rows };
    m->bits = wisp_cut_take(c, words(n_rows), sizeof *m->bits);
    m->above = wisp_cut_take(c, words(words(n_rows)), sizeof *m->above);
}

size_t wisp_marks_words(size_t n_rows)
{
    struct wisp_marks none;
    struct wisp_cut plan = { 0 };
    lay_out(&none, &plan, n_rows);
    return plan.at / sizeof(uint64_t);
}

/* NULL: no memory, which the caller sees. */
void wisp_marks_place(struct wisp_marks *m, uint64_t *block, size_t n_rows)
{
    struct wisp_cut c = wisp_cut_of(block, wisp_marks_words(n_rows) * sizeof *block, WISP_CUT_KEEP);
    lay_out(m, &c, n_rows);
}

void wisp_marks_add(struct wisp_marks *m, int32_t row)
{
    size_t word = (size_t)row / 64;
    uint64_t bit = 1ull << row % 64;
    if (atomic_load_explicit(&m->bits[word], memory_order_relaxed) & bit) return;
    uint64_t was = atomic_fetch_or_explicit(&m->bits[word], bit, memory_order_relaxed);
    if (was == 0)
        atomic_fetch_or_explicit(&m->above[word / 64], 1ull << word % 64, memory_order_relaxed);
}

struct job {
    struct wisp_marks *m;
    int32_t *rows;
    uint32_t *place;
};

static uint64_t get(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* Parts are runs of words of 'above'. */
static void part_of(size_t *begin, size_t *end, const struct wisp_marks *m, size_t part)
{
    size_t n = words(words(m->n_rows));
    *begin = part * n / WISP_MARK_PARTS;
    *end = (part + 1) * n / WISP_MARK_PARTS;
}

static void count_part(void *arg, size_t part, int thread)
{
    (void)thread;
    struct job *j = arg;
    size_t begin, end, n = 0;
    part_of(&begin, &end, j->m, part);
    for (size_t a = begin; a < end; a++)
        for (uint64_t some = get(&j->m->above[a]); some; some &= some - 1)
            n += (size_t)__builtin_popcountll(
                get(&j->m->bits[a * 64 + (size_t)__builtin_ctzll(some)]));
    j->m->part[part] = n;
}

static void take_part(void *arg, size_t part, int thread)
{
    (void)thread;
    struct job *j = arg;
    size_t begin, end, at = 0;
    for (size_t p = 0; p < part; p++) at += j->m->part[p];
    part_of(&begin, &end, j->m, part);
    for (size_t a = begin; a < end; a++) {
        for (uint64_t some = get(&j->m->above[a]); some; some &= some - 1) {
            size_t word = a * 64 + (size_t)__builtin_ctzll(some);
            for (uint64_t bits = get(&j->m->bits[word]); bits; bits &= bits - 1) {
                size_t row = word * 64 + (size_t)__builtin_ctzll(bits);
                j->rows[at++] = (int32_t)row;
                j->place[row] = (uint32_t)at;
            }
            atomic_store_explicit(&j->m->bits[word], 0, memory_order_relaxed);
        }
        atomic_store_explicit(&j->m->above[a], 0, memory_order_relaxed);
    }
}

size_t wisp_marks_count(struct wisp_marks *m, struct wisp_context *ctx)
{
    struct job j = { .m = m };
    size_t n = 0;
    wisp_parallel_for(ctx->pool, WISP_MARK_PARTS, count_part, &j);
    for (size_t p = 0; p < WISP_MARK_PARTS; p++) n += m->part[p];
    return n;
}

void wisp_marks_take(struct wisp_marks *m, struct wisp_context *ctx, int32_t *rows, uint32_t *place)
{
    struct job j = { m, rows, place };
    wisp_parallel_for(ctx->pool, WISP_MARK_PARTS, take_part, &j);
}

void wisp_marks_clear(struct wisp_marks *m)
{
    for (size_t a = 0; a < words(words(m->n_rows)); a++)
        for (uint64_t some = get(&m->above[a]); some; some &= some - 1) {
            size_t word = a * 64 + (size_t)__builtin_ctzll(some);
            atomic_store_explicit(&m->bits[word], 0, memory_order_relaxed);
            if ((some & (some - 1)) == 0)
                atomic_store_explicit(&m->above[a], 0, memory_order_relaxed);
        }
}
