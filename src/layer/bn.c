/* Batch norm: out = (in - mean) / sqrt(variance + eps) * scale + shift, of each unit over the batch,
 * or of each channel over the batch and its pixels.
 *
 * While training, mean and variance are those of the batch, and running ones are kept (parameters of
 * role state); otherwise the running ones are used.  A value is (n, blocks, pixels, block): units
 * are one block of one pixel, channels lie in blocks of 16, or of 1 (graph/planes.h).  A task is a
 * block of a tile of 16 samples; its sums are added in the order of tiles, so no result depends on
 * the number of threads:
 *
 *   forward   (tasks) sums of x; then (tasks) sums of (x - mean)^2; then (tasks) the result
 *   backward  (tasks) sums of g and of g xhat; then (tasks)
 *             gx = scale / deviation * (g - sum g / n - xhat * sum(g xhat) / n)
 *
 * Blocks of 16 channels are large, so they are read as few times as can be, by kernels of their own:
 * forward (tasks) sums of x - the tile's first pixel and of its square, which have no cancellation
 * to speak of, joined in double; a ReLU behind it is part of all passes (model/fuse.c), and on the
 * way back is found from x, not read.
 *
 * Channels past the last have a scale and a shift of 0, so they stay 0.
 *
 * scratch, from forward to backward: mean, 1 / deviation, scale, shift (width each, whole blocks) |
 * of blocks of 16 scale / deviation, and two factors of backward | two sums per tile */
#include "comm/comm.h"
#include "layer/bn.h"
#include "layer/planes.h"

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
    float *y;                          /* the result, or the gradient of x */
    float *mean, *inverse, *sums;      /* (width), (width), (tiles, 2, width) */
    float *scale, *shift;              /* (width) */
    bool planes;                       /* blocks of 16, by their kernels: */
    float *times, *slope, *rest;       /* (width) struct wisp_norm */
    bool relu;                         /* with the ReLU behind it */
    const struct wisp_zeros_of *zeros; /* of its result; NULL: nobody counts */
    size_t n, width, used;             /* width: of whole blocks, of which so many are used */
    size_t blocks, pixels, block;
};

static void lay_out(struct job *j, struct wisp_cut *c)
{
    j->mean = wisp_cut_take(c, j->width, sizeof *j->mean);
    j->inverse = wisp_cut_take(c, j->width, sizeof *j->inverse);
    j->scale = wisp_cut_take(c, j->width, sizeof *j->scale);
    j->shift = wisp_cut_take(c, j->width, sizeof *j->shift);
    const size_t factors = j->planes ? j->width : 0;
    j->times = wisp_cut_take(c, factors, sizeof *j->times);
    j->slope = wisp_cut_take(c, factors, sizeof *j->slope);
    j->rest = wisp_cut_take(c, factors, sizeof *j->rest);
    const size_t tiles = j->n ? wisp_tiles(j->n) : 1;
    j->sums = wisp_cut_take(c, tiles * 2 * j->width, sizeof *j->sums);
}

/* The sizes of n samples of a value. */
static struct job job_of(const struct wisp_act *in, size_t n)
{
    struct job j = {
        .n = n, .width = in->width, .used = in->width, .blocks = 1, .pixels = 1, .block = in->width
    };
    if (in->shape.rank != 3) return j;
    const struct wisp_planes p = wisp_planes_of(in);
    j.width = p.blocks * p.block;
    j.used = p.channels;
    j.blocks = p.blocks, j.pixels = p.h * p.w, j.block = p.block;
    j.planes = in->form == WISP_PLANES;
    return j;
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
    struct job none = job_of(in[0], s->batch);
    if (s->training && !s->traces && s->batch == 1 && none.used == in[0]->width)
        return wisp_fail(err, WISP_EINVAL,
                         "'bn' takes the mean over a batch, which has 1 row: each unit less its "
                         "mean would be 0; use --batch 2 or more");
    for (size_t i = 0; i < sizeof params / sizeof *params; i++)
        wisp_param_axes(wisp_layer_declare(l, params[i].name, params[i].role, WISP_BY_NONE, 2,
                                           (size_t[]){ 1, none.used }),
                        WISP_AXIS_NONE, WISP_AXIS_OUT);
    struct wisp_cut shared = { 0 };
    lay_out(&none, &shared);
    l->scratch_floats = shared.at / sizeof(float);
    return wisp_layer_plan_same(l, in, out, s, err);
}

static void init(struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool)
{
    (void)seed, (void)pool;
    for (size_t i = 0; i < l->params[WISP_BN_SCALE].cols; i++) {
        l->params[WISP_BN_SCALE].w[i] = l->params[WISP_BN_VAR].w[i] = 1;
        l->params[WISP_BN_SHIFT].w[i] = l->params[WISP_BN_MEAN].w[i] = 0;
    }
}

static struct job make_job(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *in, enum wisp_cut_mode mode)
{
    struct job j = job_of(in, s->batch->n);
    struct wisp_cut c = wisp_layer_cut(l, mode);
    j.l = l;
    j.s = s;
    j.x = in->x;
    j.relu = l->parts & WISP_FUSE_RELU;
    lay_out(&j, &c);
    return j;
}

static void over_tasks(struct job *j, void (*fn)(void *, size_t, int))
{
    wisp_parallel_for(j->s->ctx->pool, wisp_tiles(j->n) * j->blocks, fn, j);
}

struct part {          /* of a task */
    size_t first, end; /* samples */
    size_t channel;    /* of its block, the first */
    float *sum, *dot;  /* (block) its sums */
};
static struct part part_of(const struct job *j, size_t task)
{
    const size_t tile = task / j->blocks, block = task % j->blocks;
    struct part p = { .first = tile * WISP_TILE, .channel = block * j->block };
    p.end = p.first + wisp_tile_rows(j->n, tile);
    p.sum = j->sums + tile * 2 * j->width + p.channel;
    p.dot = p.sum + j->width;
    return p;
}
/* The same, its sums being 0. */
static struct part cleared_part_of(const struct job *j, size_t task)
{
    const struct part p = part_of(j, task);
    memset(p.sum, 0, j->block * sizeof *p.sum);
    memset(p.dot, 0, j->block * sizeof *p.dot);
    return p;
}
/* Where the block's pixels of a sample begin; they follow each other. */
static size_t pixels_at(const struct job *j, const struct part *p, size_t sample)
{
    return (sample * j->width + p->channel) * j->pixels;
}

/* The first, or the second, sum of all tiles, in the place of the first tile's. */
static float *total(const struct job *j, int which)
{
    float *to = j->sums + (size_t)which * j->width;
    if (j->n == 0) memset(to, 0, j->width * sizeof *to); /* other ranks have samples */
    for (size_t t = 1; t < wisp_tiles(j->n); t++)
        j->s->ctx->k->axpy(to, to + t * 2 * j->width, 1, j->width);
    return to;
}

/* ---- forward, units and images ---- */

/* Sums of a sample's pixels, and then of samples: rounding grows with the longest sum. */
enum { SIDE = 64 }; /* channels at a time */

static void sum_task(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct part p = part_of(j, task);
    memset(p.sum, 0, j->block * sizeof *p.sum);
    for (size_t i = p.first; i < p.end; i++)
        for (size_t c0 = 0; c0 < j->block; c0 += SIDE) {
            const size_t m = j->block - c0 < SIDE ? j->block - c0 : SIDE;
            const float *x = j->x + pixels_at(j, &p, i) + c0;
            float of_sample[SIDE] = { 0 };
            for (size_t q = 0; q < j->pixels; q++, x += j->block)
                for (size_t c = 0; c < m; c++) of_sample[c] += x[c];
            for (size_t c = 0; c < m; c++) p.sum[c0 + c] += of_sample[c];
        }
}

static void square_task(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct part p = part_of(j, task);
    memset(p.sum, 0, j->block * sizeof *p.sum);
    for (size_t i = p.first; i < p.end; i++)
        for (size_t c0 = 0; c0 < j->block; c0 += SIDE) {
            const size_t m = j->block - c0 < SIDE ? j->block - c0 : SIDE;
            const float *x = j->x + pixels_at(j, &p, i) + c0, *mean = j->mean + p.channel + c0;
            float of_sample[SIDE] = { 0 };
            for (size_t q = 0; q < j->pixels; q++, x += j->block)
                for (size_t c = 0; c < m; c++) of_sample[c] += (x[c] - mean[c]) * (x[c] - mean[c]);
            for (size_t c = 0; c < m; c++) p.sum[c0 + c] += of_sample[c];
        }
}

static void apply_task(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct part p = part_of(j, task);
    const float *scale = j->scale + p.channel, *shift = j->shift + p.channel,
                *mean = j->mean + p.channel, *inverse = j->inverse + p.channel;
    for (size_t i = p.first; i < p.end; i++) {
        const float *x = j->x + pixels_at(j, &p, i);
        float *y = j->y + pixels_at(j, &p, i);
        for (size_t q = 0; q < j->pixels; q++, x += j->block, y += j->block)
            for (size_t c = 0; c < j->block; c++)
                y[c] = (x[c] - mean[c]) * inverse[c] * scale[c] + shift[c];
    }
}

/* ---- forward, blocks of 16 ---- */

/* What the sums of a tile are made from: its first pixel. */
static const float *start_of(const struct job *j, const struct part *p)
{
    return j->x + pixels_at(j, p, p->first);
}

static void moments_task(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct part p = cleared_part_of(j, task);
    for (size_t i = p.first; i < p.end; i++)
        j->s->ctx->k->norm_moments(p.sum, p.dot, j->x + pixels_at(j, &p, i), start_of(j, &p),
                                   j->pixels);
}

/* The mean and the sum of squared distances from it of the tiles of a block, one tile after the
 * other. */
static void join_moments(struct job *j, size_t block, float *squares)
{
    double n = 0, mean[WISP_PLANE_BLOCK] = { 0 }, square[WISP_PLANE_BLOCK] = { 0 };
    for (size_t t = 0; t < wisp_tiles(j->n); t++) {
        const struct part p = part_of(j, t * j->blocks + block);
        const double m = (double)((p.end - p.first) * j->pixels);
        for (size_t c = 0; c < WISP_PLANE_BLOCK; c++) {
            const double sum = (double)p.sum[c], own = (double)p.dot[c] - sum * sum / m,
                         away = (double)start_of(j, &p)[c] + sum / m - mean[c];
            mean[c] += away * m / (n + m);
            square[c] += (own < 0 ? 0 : own) + away * away * n * m / (n + m);
        }
        n += m;
    }
    for (size_t c = 0; c < WISP_PLANE_BLOCK; c++) {
        j->mean[block * WISP_PLANE_BLOCK + c] = (float)mean[c];
        squares[block * WISP_PLANE_BLOCK + c] = (float)square[c];
    }
}

static struct wisp_norm norm_of(const struct job *j, const struct part *p, size_t sample)
{
    const size_t at = pixels_at(j, p, sample), c = p->channel;
    return (struct wisp_norm){ .n = j->pixels,
                               .x = j->x + at,
                               .gy = j->gy ? j->gy + at : NULL,
                               .y = j->y ? j->y + at : NULL,
                               .gx = j->y ? j->y + at : NULL,
                               .mean = j->mean + c,
                               .scale = j->times + c,
                               .shift = j->shift + c,
                               .relu = j->relu,
                               .sum = p->sum,
                               .dot = p->dot,
                               .times = j->times + c,
                               .slope = j->slope + c,
                               .rest = j->rest + c };
}

static void norm_task(void *arg, size_t task, int thread)
{
    const struct job *j = arg;
    const struct part p = part_of(j, task);
    for (size_t i = p.first; i < p.end; i++) {
        struct wisp_norm b = norm_of(j, &p, i);
        if (j->zeros) b.live = wisp_zeros_live(j->zeros, thread) + task % j->blocks;
        j->s->ctx->k->norm(&b);
    }
}

/* ---- forward ---- */

/* Sums over the batch of (x - mean)^2, and the mean. */
static float *measure_squares(struct job *j)
{
    if (j->planes) {
        float *squares = j->rest; /* of backward: free until then */
        over_tasks(j, moments_task);
        for (size_t b = 0; b < j->blocks; b++) join_moments(j, b, squares);
        return squares;
    }
    over_tasks(j, sum_task);
    const float *sum = total(j, 0);
    for (size_t c = 0; c < j->width; c++) j->mean[c] = sum[c] / (float)(j->n * j->pixels);
    over_tasks(j, square_task);
    return total(j, 0);
}

/* ---- a batch that ranks divide ---- */

struct moments {
    double n, mean, square; /* numbers, and the sum of their squared distances from the mean */
};

static void join_ranks(void *to, const void *const *part, int n_parts, size_t n, size_t bytes)
{
    (void)bytes;
    struct moments *x = to;
    for (size_t i = 0; i < n; i++) {
        struct moments m = { 0 };
        for (int q = 0; q < n_parts; q++) {
            const struct moments t = ((const struct moments *)part[q])[i];
            const double all = m.n + t.n, away = t.mean - m.mean;
            if (t.n == 0) continue;
            m.mean += away * t.n / all;
            m.square += t.square + away * away * m.n * t.n / all;
            m.n = all;
        }
        x[i] = m;
    }
}

/* Means and squares of this rank's samples become those of all. */
static wisp_status join_squares(struct job *j, float *squares, wisp_error *err)
{
    struct moments some[SIDE];
    wisp_status st = WISP_OK;
    if (!j->s->sums) return WISP_OK;
    for (size_t first = 0; first < j->width && st == WISP_OK; first += SIDE) {
        const size_t n = j->width - first < SIDE ? j->width - first : SIDE;
        for (size_t c = 0; c < n; c++)
            some[c] = j->n ? (struct moments){ (double)(j->n * j->pixels), j->mean[first + c],
                                               squares[first + c] }
                           : (struct moments){ 0 };
        st = j->s->sums->ranks->all_join(some, n, sizeof *some, join_ranks, err);
        for (size_t c = 0; c < n && st == WISP_OK; c++) {
            j->mean[first + c] = (float)some[c].mean;
            squares[first + c] = (float)some[c].square;
        }
    }
    return st;
}

/* Numbers that the batch has of each channel, at all ranks. */
static size_t all_of(const struct job *j)
{
    return (j->s->batch->all ? j->s->batch->all : j->n) * j->pixels;
}

/* The batch's own mean and variance, and what they are to the running ones: these take the variance
 * that the batch's samples say the data has (n - 1). */
static wisp_status measure(struct job *j, wisp_error *err)
{
    float *running_mean = j->l->params[WISP_BN_MEAN].w, *running_var = j->l->params[WISP_BN_VAR].w;
    const size_t all = all_of(j);
    const float a = (float)j->l->arg[WISP_BN_MOMENTUM], n = (float)all,
                whole = all > 1 ? n / (n - 1) : 1;
    float *squares = measure_squares(j);
    wisp_status st = join_squares(j, squares, err);
    for (size_t c = 0; c < j->width && st == WISP_OK; c++) {
        float var = squares[c] / n;
        j->inverse[c] = 1 / sqrtf(var + (float)j->l->arg[WISP_BN_EPS]);
        if (c >= j->used) continue;
        running_mean[c] = (1 - a) * running_mean[c] + a * j->mean[c];
        running_var[c] = (1 - a) * running_var[c] + a * whole * var;
    }
    return st;
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    struct job j = make_job(l, s, in[0], s->again ? WISP_CUT_AGAIN : WISP_CUT_FRESH);
    const float *const w[] = { [WISP_BN_SCALE] = l->params[WISP_BN_SCALE].w,
                               [WISP_BN_SHIFT] = l->params[WISP_BN_SHIFT].w,
                               [WISP_BN_MEAN] = l->params[WISP_BN_MEAN].w,
                               [WISP_BN_VAR] = l->params[WISP_BN_VAR].w };
    j.y = out->x;
    for (size_t c = 0; c < j.width && !s->again; c++) {
        const bool used = c < j.used;
        j.scale[c] = used ? w[WISP_BN_SCALE][c] : 0;
        j.shift[c] = used ? w[WISP_BN_SHIFT][c] : 0;
        if (s->training) continue;
        j.mean[c] = used ? w[WISP_BN_MEAN][c] : 0;
        j.inverse[c] = used ? 1 / sqrtf(w[WISP_BN_VAR][c] + (float)l->arg[WISP_BN_EPS]) : 0;
    }
    if (s->training && !s->again && all_of(&j) > 0) {
        const wisp_status st = measure(&j, err);
        if (st != WISP_OK) return st;
    }
    for (size_t c = 0; j.planes && c < j.width; c++) j.times[c] = j.scale[c] * j.inverse[c];
    if (j.planes) j.zeros = wisp_layer_zeros(s, out);
    over_tasks(&j, j.planes ? norm_task : apply_task);
    return WISP_OK;
}

/* ---- backward ---- */

/* The numbers that mean and deviation were taken of.  Where these are the model's own they do not
 * change with any number of the batch, as if they had been taken of infinitely many. */
static float measured(const struct job *j)
{
    return j->s->training ? (float)all_of(j) : INFINITY;
}

static void gradient_task(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct part p = cleared_part_of(j, task);
    for (size_t i = p.first; i < p.end; i++)
        for (size_t c0 = 0; c0 < j->block; c0 += SIDE) {
            const size_t m = j->block - c0 < SIDE ? j->block - c0 : SIDE;
            const float *x = j->x + pixels_at(j, &p, i) + c0, *gy = j->gy + (x - j->x),
                        *mean = j->mean + p.channel + c0, *inverse = j->inverse + p.channel + c0;
            float sum[SIDE] = { 0 }, dot[SIDE] = { 0 };
            for (size_t q = 0; q < j->pixels; q++, x += j->block, gy += j->block)
                for (size_t c = 0; c < m; c++) {
                    sum[c] += gy[c];
                    dot[c] += gy[c] * (x[c] - mean[c]) * inverse[c];
                }
            for (size_t c = 0; c < m; c++) p.sum[c0 + c] += sum[c], p.dot[c0 + c] += dot[c];
        }
}

static void below_task(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct part p = part_of(j, task);
    const float *scale = j->scale + p.channel, *sum = j->sums + p.channel, *dot = sum + j->width,
                *mean = j->mean + p.channel, *inverse = j->inverse + p.channel, n = measured(j);
    for (size_t i = p.first; i < p.end; i++) {
        const size_t at = pixels_at(j, &p, i);
        const float *x = j->x + at, *gy = j->gy + at;
        float *gx = j->y + at;
        for (size_t q = 0; q < j->pixels; q++, x += j->block, gy += j->block, gx += j->block)
            for (size_t c = 0; c < j->block; c++) {
                float xhat = (x[c] - mean[c]) * inverse[c];
                gx[c] = scale[c] * inverse[c] * (gy[c] - sum[c] / n - xhat * dot[c] / n);
            }
    }
}

/* ---- backward, blocks of 16 ---- */

static void norm_sums_task(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct part p = cleared_part_of(j, task);
    for (size_t i = p.first; i < p.end; i++) {
        const struct wisp_norm b = norm_of(j, &p, i);
        j->s->ctx->k->norm_sums(&b);
    }
}

static void norm_back_task(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct part p = part_of(j, task);
    for (size_t i = p.first; i < p.end; i++) {
        const struct wisp_norm b = norm_of(j, &p, i);
        j->s->ctx->k->norm_back(&b);
    }
}

/* Sums of g (x - mean) to sums of g xhat, and what gx is made with. */
static void find_factors(struct job *j, const float *sum, float *dot)
{
    const float n = measured(j);
    for (size_t c = 0; c < j->width; c++) {
        dot[c] *= j->inverse[c];
        j->slope[c] = -j->times[c] * j->inverse[c] * dot[c] / n;
        j->rest[c] = -j->times[c] * sum[c] / n;
    }
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    struct job j = make_job(l, s, in[0], WISP_CUT_AGAIN);
    j.gy = out->g;
    j.y = in[0]->g;
    if (all_of(&j) == 0) return WISP_OK;
    over_tasks(&j, j.planes ? norm_sums_task : gradient_task);
    float *sum = total(&j, 0), *dot = total(&j, 1); /* one behind the other */
    if (s->sums) {
        const wisp_status st = wisp_comm_sum(s->sums->ranks, sum, 2 * j.width, err);
        if (st != WISP_OK) return st;
    }
    if (j.planes) find_factors(&j, sum, dot);
    if (j.y) over_tasks(&j, j.planes ? norm_back_task : below_task); /* with the scale as it was */
    if (s->sums && s->sums->ranks->rank > 0) memset(sum, 0, 2 * j.width * sizeof *sum);
    s->update->row(s->update, &l->params[WISP_BN_SCALE], 0, dot);
    s->update->row(s->update, &l->params[WISP_BN_SHIFT], 0, sum);
    return WISP_OK;
}

const struct wisp_layer_kind wisp_layer_bn = {
    .name = "bn",
    .what =
        "each unit or channel less its mean over the batch, divided by its deviation (batch norm)",
    .args = args,
    .takes = WISP_FLAT | WISP_PLANES,
    .uses = WISP_USES_X | WISP_IN_PLACE, /* gradients; values where there is no way back */
    .part = WISP_FUSE_NORM,
    .does = WISP_FUSE_RELU,
    .undoes = WISP_FUSE_RELU,
    .ties = WISP_TIES_SAME,
    .plan = plan,
    .init = init,
    .forward = forward,
    .backward = backward,
};
