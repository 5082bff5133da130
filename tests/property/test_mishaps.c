/* Training with wrong bits: the gradients of a step are those of a net whose weights are the wrong ones,
 * every row has its true weights when it is moved, and all have them again after the step.  Random nets
 * of all kinds of layers, all types and guards, one thread and three. */
#include "layer_rig.h"
#include "model/mishaps.h"

struct moving { /* notes the gradient, once the row was found to be as it was */
    struct wisp_update update;
    struct recorder *rec;
    const float *was;
    size_t wrong;
};

static void note(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    struct moving *m = (struct moving *)(uintptr_t)u;
    size_t n, first = wisp_param_row(p, row, &n), at = (size_t)(p->w - m->rec->params) + first;
    if (memcmp(p->w + first, m->was + at, n * sizeof *m->was) != 0)
        __atomic_fetch_add(&m->wrong, 1, __ATOMIC_RELAXED);
    record(&m->rec->update, p, row, g);
}

/* Has the batch a feature whose row is in this piece? */
static bool is_read(const struct wisp_param *p, size_t piece, const struct wisp_batch *b)
{
    const size_t first = piece * WISP_FLIP_PIECE, end = first + WISP_FLIP_PIECE;
    for (size_t e = 0; e < b->xp[b->n]; e++) {
        const size_t row = (size_t)b->xi[e];
        if (row * p->cols < end && (row + 1) * p->cols > first) return true;
    }
    return false;
}

/* The wrong numbers, by a plain loop over all numbers of a parameter. */
static size_t damage(struct wisp_net *net, const struct wisp_errors *e, const struct wisp_batch *b)
{
    size_t hit = 0;
    for (size_t i = 0; i < net->list.n; i++) {
        struct wisp_param *p = &net->list.p[i];
        if (!wisp_errors_in(p)) continue;
        const float limit = wisp_guard_limit(e->type, wisp_largest(p->w, p->n));
        float *scale = calloc(p->rows, sizeof *scale);
        for (size_t r = 0, n; r < p->rows; r++) {
            const size_t at = wisp_param_row(p, r, &n);
            scale[r] = wisp_memory_scale(wisp_largest(p->w + at, n));
        }
        for (size_t k = 0; k < wisp_parts(p->n, WISP_FLIP_PIECE); k++) {
            struct wisp_flips f;
            struct wisp_flip one;
            if (p->by == WISP_BY_FEATURE && !is_read(p, k, b)) continue;
            wisp_flips_begin(&f, e, i, k, p->n);
            for (; wisp_flips_next(&one, &f); hit++) {
                const float x = wisp_flipped(e->type, p->w[one.at], one.mask,
                                             scale[wisp_param_row_of(p, one.at)]);
                p->w[one.at] = wisp_guarded(e->guard, x, limit);
            }
        }
        free(scale);
    }
    return hit;
}

static void check_net(const struct wisp_kernels *k, uint64_t start, int hidden)
{
    struct rig plain, r;
    if (!rig_init(&plain, k, 1, start, hidden, false)) return;
    if (!rig_init(&r, k, 3, start, hidden, false)) return;
    const struct wisp_errors e = {
        .rate = 0.02,
        .type = (enum wisp_memory)(start % WISP_N_MEMORIES),
        .guard = start % 2 ? WISP_GUARD_ZERO : WISP_GUARD_CLIP,
        .fixed = start % 5 == 0,
        .seed = start,
        .draw = 3, /* the step of the rig */
    };
    const struct wisp_loss *loss = wisp_loss_at(0);
    const struct wisp_active full = { .n = r.n_labels };
    float *was = malloc(r.floats * sizeof *was);
    struct wisp_mishaps m;
    memcpy(was, r.net.params, r.floats * sizeof *was);
    const size_t hit = damage(&plain.net, &e, plain.step.batch);

    struct moving moving = { { note }, &r.rec, was, 0 };
    CHECK(wisp_mishaps_make(&m, &r.net, &e, &err) == WISP_OK, "%s", err.text);
    r.step.update = &moving.update;
    wisp_mishaps_begin(&m, e.rate, &r.step);
    size_t found = 0;
    for (size_t i = 0; i < m.n; i++) found += m.of[i].n;
    CHECK(memcmp(r.net.params, plain.net.params, r.floats * sizeof *was) == 0,
          "'%s': other weights in the step than the plain loop has", r.spec);
    const double want = gradients(&plain, loss, full, false);
    const double loss_of = gradients(&r, loss, full, false);
    wisp_mishaps_end(&m);
    CHECK(found == hit, "%zu numbers are wrong, expected %zu", found, hit);
    CHECK(loss_of == want && memcmp(r.rec.g, plain.rec.g, r.floats * sizeof *was) == 0,
          "'%s': loss %g, with the wrong weights %g; or other gradients", r.spec, loss_of, want);
    CHECK(memcmp(r.rec.hits, plain.rec.hits, r.floats) == 0, "other rows were moved");
    CHECK(moving.wrong == 0, "'%s': %zu rows were moved from wrong weights", r.spec, moving.wrong);
    for (size_t i = 0; i < r.net.list.n; i++) { /* a batch norm has moved its means */
        const struct wisp_param *p = &r.net.list.p[i];
        if (p->role == WISP_TRAINED)
            CHECK(memcmp(p->w, was + (p->w - r.net.params), p->n * sizeof *was) == 0,
                  "'%s': %s is not as it was", r.spec, p->name);
    }
    wisp_mishaps_clear(&m);
    free(was);
    rig_clear(&plain);
    rig_clear(&r);
}

int main(void)
{
    enum { NETS = 30, OF_PLANES = 30 };
    struct wisp_kernels k = { 0 };
    CHECK(wisp_kernels_select(&k, NULL, &err) == WISP_OK, "%s", err.text);
    for (int planes = 0; planes < 2; planes++) {
        TEST(planes ? "steps with wrong bits: nets of planes" : "steps with wrong bits: flat nets");
        rig_planes = planes;
        for (uint64_t n = 0; n < (planes ? OF_PLANES : NETS); n++) {
            int was = test_bad;
            const uint64_t start = 1000003 * (n + 1);
            check_net(&k, start, 1 + (int)(n % 3));
            if (test_bad > was) printf("  the seed was %llu\n", (unsigned long long)start);
        }
    }
    TEST("nothing is left");
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}
