/* Kernels of every instruction set of this machine against the scalar form: the harness.
 *
 * A case is a list of arrays and a call.  The call runs once with the scalar kernels on plain
 * copies, and for each set on copies that lie exactly before, then exactly after, a page that
 * cannot be touched:
 *
 *     | no access | canary ... array | no access | array ... canary | no access |
 *
 * so reading or writing past either end faults or kills a canary.  After the call each element
 * must equal the scalar one up to its tolerance, which is 0, bit for bit, for inputs and for gaps
 * between rows.  Gaps hold NaN, which poisons any sum that reads them. */
#ifndef WISP_TEST_GUARDED_H
#define WISP_TEST_GUARDED_H

#include "kernels/kernels.h"
#include "test.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_ARRAYS = 6, ROOM = 1 << 16, CANARIES = 64, MAX_ISAS = 8 };

struct array {
    size_t n;
    float *init, *want, *first; /* (ROOM) */
    float *mass;       /* (ROOM) sum of |terms|; 0: same bits, or both NaN; below 0: same bits */
    float *low, *high; /* ends of the guarded memory */
};

static struct array arrays[MAX_ARRAYS];
static struct wisp_kernels sets[MAX_ISAS];
static size_t n_sets;
static uint64_t seed = 1;
static const float CANARY = 12345.678f;

struct call {
    const char *name;
    void (*fn)(const struct wisp_kernels *k, float *const x[], const struct call *c);
    size_t
        entry; /* in the table: a set is skipped if it has the form of the one before; 0: none is */
    size_t m, n, k, gap;
    bool transposed, add, more; /* more: with the argument that may be NULL */
    struct wisp_adam adam;
    float tolerance; /* 0: 1e-6 */
};
#define ENTRY(name) .entry = offsetof(struct wisp_kernels, name)

/* All sets this machine has, plain to fancy. */
static void find_sets(void)
{
    for (const char *name; (name = wisp_kernels_isa(n_sets, NULL)) != NULL && n_sets < MAX_ISAS;
         n_sets++) {
        if (wisp_kernels_select(&sets[n_sets], name, NULL) != 0) break;
        CHECK(strcmp(sets[n_sets].name, name) == 0, "%s", sets[n_sets].name);
        printf("  kernels: %s\n", name);
    }
    CHECK(n_sets > 0 && strcmp(sets[0].name, "scalar") == 0, "%zu sets", n_sets);
}

/* Set s has the same form of a kernel as the set before it. */
static inline bool as_before(size_t s, size_t entry)
{
    const char *of = (const char *)sets + entry;
    return s > 0 &&
           memcmp(of + s * sizeof *sets, of + (s - 1) * sizeof *sets, sizeof(void (*)(void))) == 0;
}

static float *new_floats(size_t n)
{
    float *x =
        mmap(NULL, n * sizeof *x, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (x == MAP_FAILED) abort();
    return x;
}

static void make_arrays(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE) / sizeof(float);
    for (int i = 0; i < MAX_ARRAYS; i++) {
        struct array *a = &arrays[i];
        a->init = new_floats(ROOM), a->want = new_floats(ROOM);
        a->first = new_floats(ROOM), a->mass = new_floats(ROOM);
        float *all = new_floats(ROOM + 2 * page);
        a->low = all + page, a->high = a->low + ROOM;
        if (mprotect(all, page * sizeof *all, PROT_NONE) != 0 ||
            mprotect(a->high, page * sizeof *all, PROT_NONE) != 0)
            abort();
    }
}

/* Array i of the next case: n random numbers, equal bits wanted. */
static float *fill(int i, size_t n)
{
    arrays[i].n = n;
    for (size_t j = 0; j < n; j++) arrays[i].init[j] = test_randf(&seed), arrays[i].mass[j] = 0;
    return arrays[i].init;
}

/* A matrix with rows n + gap apart; the last row has no gap. */
static inline float *fill_rows(int i, size_t m, size_t n, size_t gap)
{
    float *x = fill(i, m ? m * (n + gap) - gap : 0);
    for (size_t r = 0; r + 1 < m; r++)
        for (size_t j = 0; j < gap; j++) x[r * (n + gap) + n + j] = NAN;
    return x;
}

static bool near(float got, float want, float tolerance)
{
    if (memcmp(&got, &want, sizeof got) == 0) return true;
    if (tolerance < 0) return false;
    if (isnan(want) || isinf(want)) return isnan(want) && isnan(got);
    return tolerance > 0 && fabsf(got - want) <= tolerance;
}

static void run_guarded(const struct wisp_kernels *k, const struct call *c, bool at_end, float *x[])
{
    for (int i = 0; i < MAX_ARRAYS; i++) {
        const struct array *a = &arrays[i];
        x[i] = at_end ? a->high - a->n : a->low;
        float *canary = at_end ? x[i] - CANARIES : x[i] + a->n;
        for (int j = 0; j < CANARIES; j++) canary[j] = CANARY;
        if (a->n) memcpy(x[i], a->init, a->n * sizeof(float));
    }
    c->fn(k, x, c);
    for (int i = 0; i < MAX_ARRAYS; i++) {
        const float *canary = at_end ? x[i] - CANARIES : x[i] + arrays[i].n;
        for (int j = 0; j < CANARIES; j++)
            CHECK(canary[j] == CANARY, "%s %s: m=%zu n=%zu: wrote outside array %d", k->name,
                  c->name, c->m, c->n, i);
    }
}

static void check_set(const struct wisp_kernels *k, const struct call *c)
{
    float *x[MAX_ARRAYS];
    float tolerance = c->tolerance > 0 ? c->tolerance : 1e-6f;
    for (int at_end = 0; at_end < 2; at_end++) {
        run_guarded(k, c, at_end, x);
        for (int i = 0; i < MAX_ARRAYS; i++) {
            struct array *a = &arrays[i];
            for (size_t j = 0; j < a->n; j++)
                CHECK(near(x[i][j], a->want[j], tolerance * a->mass[j]),
                      "%s %s: m=%zu n=%zu k=%zu: array %d [%zu] is %g, scalar says %g", k->name,
                      c->name, c->m, c->n, c->k, i, j, x[i][j], a->want[j]);
            /* the other place has another alignment: the bytes must not depend on it */
            if (at_end == 0) memcpy(a->first, x[i], a->n * sizeof(float));
            else
                CHECK(memcmp(a->first, x[i], a->n * sizeof(float)) == 0,
                      "%s %s: m=%zu n=%zu: another result the second time", k->name, c->name, c->m,
                      c->n);
        }
    }
}

/* Arrays left over from an earlier case come along as inputs that nobody may touch. */
static void check_case(const struct call *c)
{
    float *x[MAX_ARRAYS];
    for (int i = 0; i < MAX_ARRAYS; i++) {
        x[i] = arrays[i].want;
        memcpy(x[i], arrays[i].init, arrays[i].n * sizeof(float));
    }
    c->fn(&sets[0], x, c);
    for (size_t s = 0; s < n_sets; s++)
        if (!c->entry || !as_before(s, c->entry)) check_set(&sets[s], c);
}

#define CALL(name)                                                                                 \
    static void name(const struct wisp_kernels *k, float *const x[], const struct call *c)

#endif
