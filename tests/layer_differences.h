/* Gradients of layers against finite differences.
 *
 * The numeric derivative is (L(w + h) - L(w - h)) / 2h with L the mean loss, along single weights
 * and along whole directions.  A float loss is too coarse for a small h, and with a large one some
 * ReLU of the batch is always at its kink; so L is a second forward pass in double, written as
 * plainly as possible, which the real one has to equal first.  Where the two one-sided differences
 * disagree there is a kink in between, and h is made smaller once. */
#ifndef WISP_TEST_LAYER_DIFFERENCES_H
#define WISP_TEST_LAYER_DIFFERENCES_H

#include "layer_rig.h"

static inline double whole_loss(const struct rig *r)
{
    const double loss = mean_loss(r); /* which makes the values that the other part looks at */
    return loss + l1_part(r);
}

/* Derivative of the loss along 'd' (n numbers) from the weights w, where it is 'here'; false at a
 * kink. */
static inline bool numeric(double *out, const struct rig *r, double *w, const double *d, size_t n,
                           double h, double here)
{
    double *keep = malloc(n * sizeof *keep), side[3] = { 0, here, 0 };
    memcpy(keep, w, n * sizeof *keep);
    for (int s = 0; s < 3; s += 2) {
        for (size_t i = 0; i < n; i++) w[i] = keep[i] + (s - 1) * h * d[i];
        side[s] = whole_loss(r);
    }
    memcpy(w, keep, n * sizeof *keep);
    free(keep);
    double up = (side[2] - side[1]) / h, down = (side[1] - side[0]) / h;
    *out = (up + down) / 2;
    return fabs(up - down) <= 2e-5 * (fabs(up) + fabs(down)) + 1e-7;
}

static int n_checks, n_kinks;

/* 'scale': how large the terms are of which 'want' is the sum. */
static inline void check_direction(struct rig *r, const struct wisp_param *p, size_t at,
                                   const double *d, size_t n, double want, double scale,
                                   double here)
{
    double got, *w = r->w + (p->w - r->net.params) + at;
    n_checks++;
    if (!numeric(&got, r, w, d, n, 1e-5, here) && !numeric(&got, r, w, d, n, 1e-7, here)) {
        n_kinks++;
        return;
    }
    /* What bn takes away again has a gradient of 0, as the sum of many that are not; so has a softmax
     * over one label, but for the rounding of its 1 (1.9e-7 were seen with AVX-512). */
    const double least = strstr(r->spec, "bn") ? 2e-6 : 3e-7;
    CHECK(fabs(got - want) <= 2e-5 * (fabs(want) + scale) + least,
          "%s '%s' %s loss, %s at %zu (%zu numbers): gradient %g, differences say %g",
          r->ctx.k->name, r->spec, r->step.head.loss->name, p->name, at, n, want, got);
}

static inline void check_param(struct rig *r, const struct wisp_param *p)
{
    size_t n = wisp_param_n(p);
    if (p->role != WISP_TRAINED) return;
    const float *g = r->rec.g + (p->w - r->net.params);
    double norm = 0, want = 0, biggest = 0, length = 0, here = whole_loss(r);
    for (size_t i = 0; i < n; i++) norm += (double)g[i] * g[i], biggest = fmax(biggest, fabs(g[i]));
    norm = sqrt(norm);
    const double one = 1;
    for (int c = 0; c < 3; c++) {
        size_t at = below(n);
        for (int more = 0; more < 6 * c;
             more++) { /* one anywhere, others where there is much to see */
            size_t other = below(n);
            if (fabsf(g[other]) > fabsf(g[at])) at = other;
        }
        check_direction(r, p, at, &one, 1, g[at], biggest, here);
    }
    double *d = malloc(n * sizeof *d); /* all weights at once: no place is left out */
    for (size_t i = 0; i < n; i++)
        d[i] = test_randf(&seed) + (norm > 0 ? g[i] / biggest : 0), length += d[i] * d[i];
    for (size_t i = 0; i < n; i++) d[i] /= sqrt(length), want += d[i] * g[i];
    check_direction(r, p, 0, d, n, want, norm, here);
    free(d);
}

/* Is this output row one that the step computed? */
static inline bool computed(const struct rig *r, int32_t row)
{
    const struct wisp_active *a = &r->step.head.active;
    size_t place = wisp_active_place(a, row);
    if (place == SIZE_MAX || !a->op) return place != SIZE_MAX;
    for (uint32_t e = 0; e < a->op[r->step.batch->n]; e++)
        if (a->own[e] == place) return true;
    return false;
}

/* Every active row and touched feature moved once, everything else not at all. */
static inline void check_hits(const struct rig *r)
{
    for (int i = 0; i < r->net.n_layers; i++)
        for (int k = 0; k < r->net.layers[i].n_params; k++) {
            const struct wisp_param *p = &r->net.layers[i].params[k];
            for (size_t row = 0; p->role == WISP_TRAINED && row < p->rows; row++) {
                size_t n, at = wisp_param_row(p, row, &n);
                if (n == 0) continue; /* there is nothing to move */
                int want = 1, got = r->rec.hits[(size_t)(p->w - r->rec.params) + at];
                if (i == r->net.n_layers - 1) want = computed(r, (int32_t)row);
                if (r->net.layers[i].kind == &wisp_layer_sampled) {
                    const struct wisp_active *a = wisp_sampled_active(&r->net.layers[i]);
                    want = a->n == 0 || wisp_active_place(a, (int32_t)row) != SIZE_MAX;
                }
                if (k == 0 && r->net.layers[i].kind == &wisp_layer_input) {
                    want = 0;
                    for (uint32_t e = 0; e < r->step.batch->xp[r->step.batch->n]; e++)
                        want |= (size_t)r->step.batch->xi[e] == row;
                }
                CHECK(got == want, "'%s' %s row %zu moved %d times, expected %d", r->spec, p->name,
                      row, got, want);
            }
        }
}

#endif
