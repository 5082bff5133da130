/* Weights that go by their magnitude: as many as the schedule says, the smallest of all layers, and
 * they stay 0 whatever an update does. */
#include "layer_rig.h"
#include "model/magnitude.h"

#include <stdlib.h>

static bool cut_of(const struct wisp_net *net, const struct wisp_param *q)
{
    const struct wisp_layer *l = &net->layers[q->layer];
    return q == &l->params[0] && (l->kind->thins || q->wired);
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* An update that moves every number of a row, some to 0. */
static void shake(const struct wisp_update *u, struct wisp_param *p, size_t row, const float *g)
{
    size_t n, at = wisp_param_row(p, row, &n);
    (void)u, (void)g;
    for (size_t i = at; i < at + n; i++) p->w[i] = below(50) ? p->w[i] + test_randf(&seed) : 0;
}

struct expected {
    size_t n, zeros;
    float least, most; /* the smallest that must stay, the largest that must go */
};

/* By sorting, of the weights as they are. */
static struct expected expect(const struct wisp_net *net, double share)
{
    struct expected e = { 0 };
    float *all = calloc(net->list.n ? (size_t)1 << 22 : 1, sizeof *all);
    for (size_t p = 0; p < net->list.n; p++)
        for (size_t i = 0; cut_of(net, &net->list.p[p]) && i < net->list.p[p].n; i++)
            all[e.n++] = fabsf(net->list.p[p].w[i]);
    qsort(all, e.n, sizeof *all, by_size);
    e.zeros = (size_t)(share * (double)e.n);
    e.least = e.n ? all[e.zeros < e.n ? e.zeros : e.n - 1] : 0;
    e.most = e.zeros ? all[e.zeros - 1] : -1;
    free(all);
    return e;
}

static size_t zeros(const struct wisp_net *net)
{
    size_t n = 0;
    for (size_t p = 0; p < net->list.n; p++)
        for (size_t i = 0; cut_of(net, &net->list.p[p]) && i < net->list.p[p].n; i++)
            n += net->list.p[p].w[i] == 0;
    return n;
}

/* Units whose weights are all 0 have no bias. */
static void check_biases(const struct wisp_net *net, const char *spec)
{
    for (int i = 0; i < net->n_layers; i++) {
        const struct wisp_layer *l = &net->layers[i];
        const struct wisp_param *w = &l->params[0];
        if (!l->n_params || !cut_of(net, w)) continue;
        for (size_t o = 0; o < l->n_out; o++) {
            size_t n = l->n_in, at = o, any = 0;
            if (w->wired) at = wisp_param_row(w, o, &n);
            for (size_t k = 0; k < n; k++) any += w->w[at + (w->wired ? k : k * l->n_out)] != 0;
            CHECK(any || l->params[1].w[o] == 0, "'%s': layer %d, unit %zu has a bias of %g", spec,
                  i, o, (double)l->params[1].w[o]);
        }
    }
}

static void check_net(struct rig *r, double share)
{
    static const size_t STEPS = 1000; /* 10 between two cuts */
    const struct wisp_update moves = { shake };
    struct wisp_magnitude m;
    CHECK(wisp_magnitude_make(&m, &r->net, &moves, STEPS, &err) == WISP_OK, "%s", err.text);
    for (size_t done = 10; done <= STEPS;
         done += done == STEPS || done + 70 <= STEPS ? 5 + 5 * below(14) : STEPS - done) {
        const double left = 1 - (double)done / (double)STEPS;
        const bool due = done % 10 == 0;
        struct expected e = expect(&r->net, due ? share * (1 - left * left * left) : 0);
        const size_t before = zeros(&r->net);
        wisp_magnitude_step(&m, share, done);
        const size_t now = zeros(&r->net);
        CHECK(m.n == e.n, "'%s': %zu weights, expected %zu", r->spec, m.n, e.n);
        CHECK(now == (e.zeros > before ? e.zeros : before) || e.least == e.most,
              "'%s': %zu are 0 after %zu steps, %zu before, expected %zu", r->spec, now, done,
              before, e.zeros);
        if (due) check_biases(&r->net, r->spec);
        size_t moved = 0;
        for (size_t p = 0; p < r->net.list.n; p++) {
            struct wisp_param *q = &r->net.list.p[p];
            if (q->role != WISP_TRAINED) continue;
            const size_t row = below(q->rows);
            size_t n, at = wisp_param_row(q, row, &n);
            float *was = calloc(n + 1, sizeof *was);
            memcpy(was, q->w + at, n * sizeof *was);
            m.update.row(&m.update, q, row, NULL);
            for (size_t i = 0; i < n; i++) {
                moved += was[i] != q->w[at + i];
                CHECK(!cut_of(&r->net, q) || was[i] != 0 || q->w[at + i] == 0,
                      "'%s': %s: what was cut is %g again", r->spec, q->name, (double)q->w[at + i]);
            }
            free(was);
        }
        CHECK(moved > 0, "'%s': nothing moves", r->spec);
    }
    CHECK(m.n == 0 || zeros(&r->net) >= (size_t)(share * (double)m.n), "'%s': %zu of %zu are 0",
          r->spec, zeros(&r->net), m.n);
    /* From weights alone, as after a stop: what is 0 stays so. */
    struct wisp_magnitude again;
    CHECK(wisp_magnitude_make(&again, &r->net, &moves, STEPS, &err) == WISP_OK, "%s", err.text);
    for (size_t p = 0; p < r->net.list.n; p++)
        CHECK(!m.keep[p] || memcmp(m.keep[p], again.keep[p], r->net.list.p[p].n) == 0,
              "'%s': %s: other weights were cut", r->spec, r->net.list.p[p].name);
    wisp_magnitude_clear(&m);
    wisp_magnitude_clear(&again);
}

int main(void)
{
    struct wisp_kernels k = { 0 };
    CHECK(wisp_kernels_select(&k, "scalar", &err) == WISP_OK, "%s", err.text);
    TEST("magnitude: the smallest weights of random nets go by a schedule, and stay 0");
    for (uint64_t i = 0; i < 12; i++) {
        struct rig r;
        if (!rig_init(&r, &k, 1, 3000017 * (i + 1), 4, false)) break;
        check_net(&r, i % 3 ? 0.5 + 0.04 * (double)i : 0.99);
        rig_clear(&r);
    }
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}
