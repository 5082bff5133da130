/* The losses of linear models.
 *
 *   loss           primal, margin m         dual variable       its term in the dual
 *   squared-hinge  max(0, 1 - m)^2          0 .. infinity       a - a^2 / 4
 *   hinge          max(0, 1 - m)            0 .. 1              a
 *   logistic       log(1 + exp(-m))         0 .. 1              -(a log a + (1 - a) log(1 - a))
 *
 * for cost 1; with cost C a dual variable is C times as large, and so is the term. */
#include "linear/linear.h"

#include <math.h>
#include <string.h>

static double squared_hinge(double margin)
{
    double slack = fmax(0, 1 - margin);
    return slack * slack;
}

static double squared_hinge_dual(double a)
{
    return a - a * a / 4;
}

static double hinge(double margin)
{
    return fmax(0, 1 - margin);
}

static double hinge_dual(double a)
{
    return a;
}

static double logistic(double margin)
{
    return margin > 0 ? log1p(exp(-margin)) : log1p(exp(margin)) - margin;
}

static double entropy(double a)
{
    return a > 0 && a < 1 ? -(a * log(a) + (1 - a) * log1p(-a)) : 0;
}

/* The root of  margin + square * (z - a) + log(z / (1 - z)),  which rises from -inf to inf in z:
 * Newton's method within bounds that close in on it. */
static double logistic_step(double a, double margin, double square)
{
    double low = 1e-12, high = 1 - 1e-12, z = fmin(fmax(a, 1e-3), 1 - 1e-3);
    for (int i = 0; i < 40; i++) {
        double g = margin + square * (z - a) + log(z / (1 - z));
        if (g > 0) high = z;
        else low = z;
        double next = z - g / (square + 1 / (z * (1 - z)));
        if (!(next > low && next < high)) next = (low + high) / 2;
        if (fabs(next - z) < 1e-9) return next;
        z = next;
    }
    return z;
}

static const struct wisp_linear_loss losses[] = {
    { "squared-hinge", "max(0, 1 - margin)^2", 0.5, INFINITY, squared_hinge, squared_hinge_dual,
      NULL },
    { "hinge", "max(0, 1 - margin)", 0, 1, hinge, hinge_dual, NULL },
    { "logistic", "log(1 + exp(-margin))", 0, 1, logistic, entropy, logistic_step },
};
enum { N_LOSSES = sizeof losses / sizeof *losses };

const struct wisp_linear_loss *wisp_linear_loss_at(size_t i)
{
    return i < N_LOSSES ? &losses[i] : NULL;
}

const struct wisp_linear_loss *wisp_linear_loss_find(const char *name)
{
    for (size_t i = 0; i < N_LOSSES; i++)
        if (strcmp(losses[i].name, name) == 0) return &losses[i];
    return NULL;
}
