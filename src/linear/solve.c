/* Dual coordinate descent for one label (Hsieh et al. 2008, Yu et al. 2011).
 *
 * The dual of the problem in linear.h has one variable per row, and  w = w_old + sum a_i sign_i x_i,
 * where w_old, what the weights are to stay near to, is 0 in a new model.  A visit
 * to a row computes the gradient of its variable from one sparse product with w, moves the variable
 * to where it is best while the others stay, and adds the difference times the row to w.  A pass
 * visits all rows that still matter, in a random order.
 *
 * Rows whose variable is at a bound, and whose gradient points well beyond it, are left out of the
 * passes that follow (shrinking): nearly all negatives of a label end so.  When the rows that are
 * left agree to within the precision, all are looked at once more before it ends. */
#include "linear/linear.h"
#include "base/rand.h"

#include <math.h>

enum { AHEAD = 4 }; /* rows that are asked for before their turn */

static float dot(const float *w, const struct wisp_linear_entry *x, size_t n)
{
    float s0 = 0, s1 = 0;
    size_t j = 0;
    for (; j + 2 <= n; j += 2) {
        s0 += w[x[j].id] * x[j].x;
        s1 += w[x[j + 1].id] * x[j + 1].x;
    }
    if (j < n) s0 += w[x[j].id] * x[j].x;
    return s0 + s1;
}

static void add(float *w, const struct wisp_linear_entry *x, size_t n, float step)
{
    for (size_t j = 0; j < n; j++) w[x[j].id] += step * x[j].x;
}

/* The rows that take part, in a random order; drawn is the account of random numbers. */
static void shuffle(uint32_t *order, size_t n, uint64_t seed, uint64_t stream, uint64_t *drawn)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = wisp_rand_below(seed, stream, (*drawn)++, i);
        uint32_t t = order[i - 1];
        order[i - 1] = order[k];
        order[k] = t;
    }
}

struct pass {           /* what it found */
    float most, least;  /* of projected gradients */
    float above, below; /* gradients beyond these at a bound shrink: from the pass before */
};

/* One visit; false: the row is to be left out. */
static bool visit(struct wisp_linear_problem *p, const struct wisp_linear_loss *loss, uint32_t i,
                  struct pass *pass)
{
    const struct wisp_linear_entry *x = p->x + p->xp[i];
    size_t n = p->xp[i + 1] - p->xp[i];
    float old = p->a[i], cost = p->cost[i], now, g;
    float margin = (float)p->sign[i] * (dot(p->w, x, n) + p->bias);
    if (loss->step) {
        now = (float)(cost * loss->step(old / cost, margin, cost * p->square[i]));
        g = (old - now) * p->square[i];
    } else {
        float ridge = (float)loss->ridge / cost, bound = (float)loss->most * cost;
        g = margin - 1 + old * ridge;
        if (old == 0 && g > 0) {
            if (g > pass->above) return false;
            g = 0;
        } else if (old >= bound && g < 0) {
            if (g < pass->below) return false;
            g = 0;
        }
        now = old - g / (p->square[i] + ridge);
        now = now < 0 ? 0 : now > bound ? bound : now;
    }
    if (g > pass->most) pass->most = g;
    if (g < pass->least) pass->least = g;
    if (fabsf(g) < 1e-6f) return true;
    float step = (now - old) * (float)p->sign[i];
    p->a[i] = now;
    p->bias += step;
    add(p->w, x, n, step);
    return true;
}

/* At most the minimum that is looked for.  With v = w - w_old the dual has  -|v|^2 / 2 - v w_old,
 * which is  (|w_old|^2 - |w|^2) / 2. */
static double dual(const struct wisp_linear_problem *p, const struct wisp_linear_loss *loss)
{
    double sum = p->old_length - 0.5 * (double)p->bias * p->bias;
    for (size_t i = 0; i < p->n; i++)
        if (p->a[i] > 0) sum += p->cost[i] * loss->dual(p->a[i] / p->cost[i]);
    for (size_t f = 0; f < p->n_features; f++) sum -= 0.5 * (double)p->w[f] * p->w[f];
    return sum;
}

void wisp_linear_solve(struct wisp_linear_problem *p, const struct wisp_linear_how *how,
                       uint64_t stream)
{
    size_t n = 0, active;
    uint64_t drawn = 0;
    struct pass pass = { .above = INFINITY, .below = -INFINITY };
    for (size_t i = 0; i < p->n; i++)
        if (p->cost[i] > 0) p->order[n++] = (uint32_t)i; /* others count for nothing */
    active = n;
    for (int it = 0; it < how->passes; it++) {
        pass.most = -INFINITY, pass.least = INFINITY;
        shuffle(p->order, active, how->seed, stream, &drawn);
        for (size_t k = 0; k < active; k++) {
            uint32_t i = p->order[k];
            p->visits++;
            if (k + AHEAD < active) __builtin_prefetch(p->x + p->xp[p->order[k + AHEAD]]);
            if (visit(p, how->loss, i, &pass)) continue;
            p->order[k--] = p->order[--active];
            p->order[active] = i;
        }
        if (pass.most - pass.least <= how->precision) {
            if (active == n) break;
            active = n;
            pass.above = INFINITY, pass.below = -INFINITY;
        } else {
            pass.above = pass.most > 0 ? pass.most : INFINITY;
            pass.below = pass.least < 0 ? pass.least : -INFINITY;
        }
    }
    p->reached = dual(p, how->loss);
}
