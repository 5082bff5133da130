/* Batch norm of single units: out = (in - mean) / sqrt(variance + eps) * scale + shift.
 *
 * While training, mean and variance are those of the batch, and running ones are kept (parameters of
 * role state); otherwise the running ones are used.  Sums over samples are made by tiles of 16 and
 * added in their order, so no result depends on the number of threads:
 *
 *   forward   (tiles) sums of x; then (tiles) sums of (x - mean)^2; then (tiles) the result
 *   backward  (tiles) sums of g and of g xhat; then (tiles)
 *             gx = scale / deviation * (g - sum g / n - xhat * sum(g xhat) / n)
 *
 * scratch, from forward to backward: mean, 1 / deviation (width each) | two sums per tile */
#include "layer/bn.h"
#include "layer/layer.h"

#include <math.h>
#include <string.h>

static const struct wisp_arg args[] = {
    { .name = "momentum",
      .what = "what a batch counts for in the running means",
      .type = WISP_ARG_REAL,
      .most = 1,
      .fallback = "0.1" },
    { .name = "eps",
      .what = "added to the variance",
      .type = WISP_ARG_REAL,
      .least = 1e-12,
      .most = 1,
      .fallback = "1e-5" },
    { .name = NULL },
};

struct job {
    const struct wisp_layer *l;
    struct wisp_step *s;
    const float *x, *gy;
    float *y;                     /* the result, or the gradient of x */
    float *mean, *inverse, *sums; /* (width), (width), (tiles, 2, width) */
    size_t n, width;
};

static void lay_out(struct job *j, struct wisp_cut *c)
{
    j->mean = wisp_cut_take(c, j->width, sizeof *j->mean);
    j->inverse = wisp_cut_take(c, j->width, sizeof *j->inverse);
    j->sums = wisp_cut_take(c, wisp_tiles(j->n) * 2 * j->width, sizeof *j->sums);
}

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    static const struct {
        const char *name;
        enum wisp_role role;
    } params[] = { [WISP_BN_SCALE] = { "scale", WISP_TRAINED },
                   [WISP_BN_SHIFT] = { "shift", WISP_TRAINED },
                   [WISP_BN_MEAN] = { "running_mean", WISP_STATE },
                   [WISP_BN_VAR] = { "running_var", WISP_STATE } };
    if (in[0]->shape.rank != 1)
        return wisp_fail(err, WISP_EINVAL,
                         "'bn' takes units, found channels with height and "
                         "width; 'flatten' them first");
    for (size_t i = 0; i < sizeof params / sizeof *params; i++)
        wisp_layer_declare(l, params[i].name, params[i].role, WISP_BY_NONE, 2,
                           (size_t[]){ 1, l->n_in });
    struct job none = { .n = s->batch, .width = l->n_in };
    struct wisp_cut shared = { 0 };
    lay_out(&none, &shared);
    l->scratch_floats = shared.at / sizeof(float);
    return wisp_layer_plan_same(l, in, out, s, err);
}

static void init(struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool)
{
    (void)seed, (void)pool;
    for (size_t i = 0; i < l->n_out; i++) {
        l->params[WISP_BN_SCALE].w[i] = l->params[WISP_BN_VAR].w[i] = 1;
        l->params[WISP_BN_SHIFT].w[i] = l->params[WISP_BN_MEAN].w[i] = 0;
    }
}

static struct job make_job(const struct wisp_layer *l, struct wisp_step *s, enum wisp_cut_mode mode)
{
    struct job j = { .l = l, .s = s, .n = s->batch->n, .width = l->n_out };
    struct wisp_cut c = wisp_layer_cut(l, mode);
    lay_out(&j, &c);
    return j;
}

static void over_tiles(struct job *j, void (*fn)(void *, size_t, int))
{
    wisp_parallel_for(j->s->ctx->pool, wisp_tiles(j->n), fn, j);
}

/* The first, or the second, sum of all tiles, in the place of the first tile's. */
static float *total(const struct job *j, int which)
{
    float *to = j->sums + (size_t)which * j->width;
    for (size_t t = 1; t < wisp_tiles(j->n); t++)
        j->s->ctx->k->axpy(to, to + t * 2 * j->width, 1, j->width);
    return to;
}

/* ---- forward ---- */

static void sum_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    float *sum = j->sums + tile * 2 * j->width;
    memset(sum, 0, j->width * sizeof *sum);
    for (size_t i = tile * WISP_TILE, end = i + wisp_tile_rows(j->n, tile); i < end; i++)
        j->s->ctx->k->axpy(sum, j->x + i * j->width, 1, j->width);
}

static void square_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    float *sum = j->sums + tile * 2 * j->width;
    memset(sum, 0, j->width * sizeof *sum);
    for (size_t i = tile * WISP_TILE, end = i + wisp_tile_rows(j->n, tile); i < end; i++)
        for (size_t c = 0; c < j->width; c++) {
            float d = j->x[i * j->width + c] - j->mean[c];
            sum[c] += d * d;
        }
}

static void apply_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const float *scale = j->l->params[WISP_BN_SCALE].w, *shift = j->l->params[WISP_BN_SHIFT].w;
    for (size_t i = tile * WISP_TILE, end = i + wisp_tile_rows(j->n, tile); i < end; i++)
        for (size_t c = 0; c < j->width; c++)
            j->y[i * j->width + c] =
                (j->x[i * j->width + c] - j->mean[c]) * j->inverse[c] * scale[c] + shift[c];
}

/* The batch's own mean and variance, and what they are to the running ones: these take the variance
 * that the batch's samples say the data has (n - 1). */
static void measure(struct job *j)
{
    float *running_mean = j->l->params[WISP_BN_MEAN].w, *running_var = j->l->params[WISP_BN_VAR].w;
    const float a = (float)j->l->arg[WISP_BN_MOMENTUM], n = (float)j->n,
                whole = j->n > 1 ? n / (n - 1) : 1;
    over_tiles(j, sum_tile);
    const float *sum = total(j, 0);
    for (size_t c = 0; c < j->width; c++) j->mean[c] = sum[c] / n;
    over_tiles(j, square_tile);
    total(j, 0);
    for (size_t c = 0; c < j->width; c++) {
        float var = sum[c] / n;
        j->inverse[c] = 1 / sqrtf(var + (float)j->l->arg[WISP_BN_EPS]);
        running_mean[c] = (1 - a) * running_mean[c] + a * j->mean[c];
        running_var[c] = (1 - a) * running_var[c] + a * whole * var;
    }
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)err;
    struct job j = make_job(l, s, WISP_CUT_FRESH);
    j.x = in[0]->x;
    j.y = out->x;
    if (s->training && j.n > 0) measure(&j);
    for (size_t c = 0; c < j.width && !s->training; c++) {
        j.mean[c] = l->params[WISP_BN_MEAN].w[c];
        j.inverse[c] = 1 / sqrtf(l->params[WISP_BN_VAR].w[c] + (float)l->arg[WISP_BN_EPS]);
    }
    over_tiles(&j, apply_tile);
    return WISP_OK;
}

/* ---- backward ---- */

static void gradient_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    float *sum = j->sums + tile * 2 * j->width, *dot = sum + j->width;
    memset(sum, 0, 2 * j->width * sizeof *sum);
    for (size_t i = tile * WISP_TILE, end = i + wisp_tile_rows(j->n, tile); i < end; i++)
        for (size_t c = 0; c < j->width; c++) {
            size_t at = i * j->width + c;
            sum[c] += j->gy[at];
            dot[c] += j->gy[at] * (j->x[at] - j->mean[c]) * j->inverse[c];
        }
}

static void below_tile(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const float *scale = j->l->params[WISP_BN_SCALE].w, *sum = j->sums, *dot = sum + j->width;
    const float n = (float)j->n;
    for (size_t i = tile * WISP_TILE, end = i + wisp_tile_rows(j->n, tile); i < end; i++)
        for (size_t c = 0; c < j->width; c++) {
            size_t at = i * j->width + c;
            float xhat = (j->x[at] - j->mean[c]) * j->inverse[c];
            j->y[at] = scale[c] * j->inverse[c] * (j->gy[at] - sum[c] / n - xhat * dot[c] / n);
        }
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)err;
    struct job j = make_job(l, s, WISP_CUT_AGAIN);
    j.x = in[0]->x;
    j.gy = out->g;
    j.y = in[0]->g;
    if (j.n == 0) return WISP_OK;
    over_tiles(&j, gradient_tile);
    float *sum = total(&j, 0), *dot = total(&j, 1);
    if (j.y) over_tiles(&j, below_tile); /* with the scale as it was */
    s->update->row(s->update, &l->params[WISP_BN_SCALE], 0, dot);
    s->update->row(s->update, &l->params[WISP_BN_SHIFT], 0, sum);
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_bn = {
    .name = "bn",
    .what = "each unit less its mean over the batch, divided by its deviation (batch norm)",
    .args = args,
    .takes = WISP_FLAT,
    .uses = WISP_USES_X,
    .plan = plan,
    .init = init,
    .forward = forward,
    .backward = backward,
};
