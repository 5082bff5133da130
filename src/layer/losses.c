/* The losses.
 *
 * softmax: targets t = 1/|Y| on the true labels; loss = log sum exp z - sum t z, gradient p - t.
 *   A block keeps exp(z - origin); the factor is one over their sum.  With a smoothing s the targets
 *   are (1 - s) t + s / n of n labels.
 * bce: each label alone; loss = sum log(1 + exp z) - sum over true labels z, gradient
 *   sigmoid(z) - t with t = 1. */
#include "layer/loss.h"

#include <math.h>
#include <string.h>

static float softmax_target(size_t n_true)
{
    return 1.0f / (float)n_true;
}

static void softmax_block(const struct wisp_kernels *k, float *z, size_t ldz, size_t m, size_t n,
                          const float *origin, float *sum)
{
    k->col_exp(z, ldz, sum, origin, m, n);
}

static float softmax_value(float z, float origin)
{
    return expf(z - origin);
}

static double softmax_finish(float origin, double sum, float *factor)
{
    *factor = (float)(1 / sum);
    return origin + log(sum);
}

static float softmax_probability(float z, float max, double sum)
{
    return (float)(exp(z - max) / sum);
}

static float softmax_prior(double count, double n_rows, double total)
{
    (void)n_rows;
    return (float)log((count + 0.5) / total);
}

static float bce_target(size_t n_true)
{
    (void)n_true;
    return 1;
}

static void bce_block(const struct wisp_kernels *k, float *z, size_t ldz, size_t m, size_t n,
                      const float *origin, float *sum)
{
    (void)origin;
    k->col_sigmoid(z, ldz, sum, m, n);
}

static float bce_value(float z, float origin)
{
    (void)origin;
    return 1 / (1 + expf(-z));
}

static double bce_finish(float origin, double sum, float *factor)
{
    (void)origin;
    *factor = 1;
    return sum;
}

static float bce_probability(float z, float max, double sum)
{
    (void)max;
    (void)sum;
    return (float)(1 / (1 + exp(-(double)z)));
}

static float bce_prior(double count, double n_rows, double total)
{
    (void)total;
    double p = (count + 0.5) / (n_rows + 1);
    return (float)log(p / (1 - p));
}

static const struct wisp_loss losses[] = {
    {
        .name = "softmax",
        .what = "labels compete, targets 1/|Y|",
        .id = WISP_SOFTMAX,
        .target = softmax_target,
        .smooths = true,
        .has_origin = true,
        .block = softmax_block,
        .value = softmax_value,
        .finish = softmax_finish,
        .needs_sum = true,
        .probability = softmax_probability,
        .prior = softmax_prior,
    },
    {
        .name = "bce",
        .what = "each label alone (binary cross-entropy), scores to threshold",
        .id = WISP_BCE,
        .target = bce_target,
        .uses_unlabelled = true,
        .block = bce_block,
        .value = bce_value,
        .finish = bce_finish,
        .probability = bce_probability,
        .prior = bce_prior,
    },
};

const struct wisp_loss *wisp_loss_at(size_t i)
{
    return i < sizeof losses / sizeof *losses ? &losses[i] : NULL;
}

const struct wisp_loss *wisp_loss_find(const char *name)
{
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        if (strcmp(losses[i].name, name) == 0) return &losses[i];
    return NULL;
}
