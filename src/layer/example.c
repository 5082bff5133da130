/* The output layer with an active set for each sample, as in SLIDE.
 *
 * Sample i computes its own rows only, e = op[i] .. op[i+1]:
 *   forward   z_e = w . h_i + bias; its loss over these; z_e becomes the gradient g_e at once
 *   backward  gradient of h_i = sum over its rows of g_e w
 *             the lists turned round (count, prefix sum, fill): each row's gradient is the sum over
 *             the samples that own it of g_e h_i, and the row moves once, by one thread
 * Nothing here is a dense product, so a row costs several times what it costs in a batch's set.
 *
 * Hogwild (step->hogwild) is the published way: a thread takes a sample, computes it and moves its
 * rows at once, without locks, while others read and move the same rows.  Numbers get lost or are
 * half old, and which ones differs from run to run: with more than one thread nothing is
 * repeatable, and ThreadSanitizer is right to complain, so it never sees this mode.
 *
 * scratch:  loss (batch doubles) | g, rows (own) | samples, g by row (own)
 *           | starts (active + 1) | heat (active) | best rows, lists of them
 * of each thread: gradient of a row (n_in), or keys of a sample's list */
#include "layer/example.h"
#include "base/bounds.h"
#include "hash/best.h"
#include "layer/loss.h"
#include "layer/rows.h"

#include <math.h>
#include <string.h>

enum { SAMPLES_A_TASK = 4, ROWS_A_TASK = 16, COLUMNS = 16 };

struct view { /* the scratch, cut up for this step */
    double *loss;
    float *g;        /* (own) logits, then their gradients, by sample */
    int32_t *row;    /* (own) */
    int32_t *sample; /* (own) by row: those of place p are start[p] .. start[p+1] */
    float *by_row;   /* (own) g in that order */
    uint32_t *start; /* (active + 1) */
    float *heat;     /* (active) */
    struct wisp_best lists;
    int32_t *best; /* (n, k) of the lists */
};

struct job {
    struct wisp_layer *l;
    struct wisp_step *s;
    const struct wisp_act *in;
    struct view v;
};

static struct view lay_out(struct wisp_cut *c, size_t n, size_t own, size_t active, size_t k)
{
    struct view v = { 0 };
    v.loss = wisp_cut_take(c, n, sizeof *v.loss);
    v.g = wisp_cut_take(c, own, sizeof *v.g);
    v.row = wisp_cut_take(c, own, sizeof *v.row);
    v.sample = wisp_cut_take(c, own, sizeof *v.sample);
    v.by_row = wisp_cut_take(c, own, sizeof *v.by_row);
    v.start = wisp_cut_take(c, active + 1, sizeof *v.start);
    v.heat = wisp_cut_take(c, active, sizeof *v.heat);
    if (k == 0) return v;
    v.best = wisp_cut_take(c, n * k, sizeof *v.best);
    v.lists = wisp_best_lay(c, n, k);
    return v;
}

static float *lay_row(struct wisp_cut *c, size_t width)
{
    return wisp_cut_take(c, width, sizeof(float));
}

static uint64_t *lay_keys(struct wisp_cut *c, size_t k)
{
    return wisp_cut_take(c, wisp_best_room(k), sizeof(uint64_t));
}

void wisp_example_plan(struct wisp_layer *l, const struct wisp_layer_sizes *s)
{
    struct wisp_cut shared = { 0 }, row = { 0 }, keys = { 0 };
    lay_out(&shared, s->batch, s->own, s->active, s->best);
    lay_row(&row, l->n_in);
    lay_keys(&keys, s->best);
    l->scratch_floats = shared.at / sizeof(float);
    l->thread_floats = wisp_most(row.at, keys.at) / sizeof(float);
}

static struct job job_of(const struct wisp_layer *l, struct wisp_step *s, const struct wisp_act *in,
                         enum wisp_cut_mode mode)
{
    size_t n = s->batch->n, k = l->sampler ? wisp_sampler_best(l->sampler) : 0;
    struct wisp_cut c = wisp_layer_cut(l, mode);
    return (struct job){ (struct wisp_layer *)l, s, in,
                         lay_out(&c, n, s->head.active.op[n], s->head.active.n, k) };
}

static float *row_of(const struct job *j, int thread)
{
    struct wisp_cut c = wisp_layer_thread_cut(j->l, thread, WISP_CUT_FRESH);
    return lay_row(&c, j->l->n_in);
}

/* ---- a sample forward ---- */

static void score(const struct job *j, size_t i, int thread)
{
    const struct wisp_active *a = &j->s->head.active;
    const struct wisp_layer *l = j->l;
    float *z = j->v.g + a->op[i];
    int32_t *row = j->v.row + a->op[i];
    const uint32_t *place = a->own + a->op[i];
    size_t m = a->op[i + 1] - a->op[i];
    for (size_t e = 0; e < m; e++) row[e] = (int32_t)wisp_row_at(a, place[e]);
    struct wisp_weights w = wisp_param_weights(&l->params[0]);
    wisp_weights_dots(j->s->ctx->k, z, &w, row, m, j->in->x + i * l->n_in);
    for (size_t e = 0; e < m; e++) z[e] += l->params[1].w[row[e]];
    size_t k = j->v.lists.k;
    if (k) {
        struct wisp_cut cut = wisp_layer_thread_cut(l, thread, WISP_CUT_FRESH);
        uint64_t *keys = lay_keys(&cut, k);
        struct wisp_best lists = j->v.lists;
        wisp_best_reset_one(&lists, i);
        for (size_t e = 0; e < m; e++) wisp_best_add(&lists, i, z[e], row[e]);
        size_t n = wisp_best_take(keys, &lists, 1, i, -INFINITY);
        for (size_t c = 0; c < k; c++) j->v.best[i * k + c] = c < n ? wisp_key_row(keys[c]) : -1;
    }
    for (size_t e = 0; a->shift && e < m; e++) z[e] += a->shift[place[e]];
    for (size_t e = 0; l->raise && e < m; e++) z[e] += l->raise[row[e]];
}

/* The loss without the part of the true labels; z (m) becomes the gradient without the targets.
 * Losses run along rows of samples, and here is a single column: it is cut into COLUMNS shorter
 * ones that stand side by side, and a rest, each of which is a block to the loss. */
static double part_of_all(const struct wisp_step *s, float *z, size_t m, float scale)
{
    const struct wisp_kernels *k = s->ctx->k;
    float max[COLUMNS], sum[2 * COLUMNS], top = -INFINITY, factor;
    size_t rows = m / COLUMNS, rest = m % COLUMNS, n = rows ? COLUMNS : 0;
    float *last = z + rows * COLUMNS;
    double all = 0;
    if (m == 0) return 0;
    for (size_t i = 0; i < m; i++) top = z[i] > top ? z[i] : top;
    for (size_t i = 0; i < COLUMNS; i++) max[i] = top;
    if (rows) s->head.loss->block(k, z, COLUMNS, rows, COLUMNS, max, sum);
    if (rest) s->head.loss->block(k, last, rest, 1, rest, max, sum + n);
    for (size_t i = 0; i < n + rest; i++) all += sum[i];
    double loss = s->head.loss->finish(top, all, &factor);
    k->scale(z, z, factor * scale, m);
    return scale == 0 ? 0 : loss;
}

static void forward_sample(const struct job *j, size_t i, int thread)
{
    const struct wisp_active *a = &j->s->head.active;
    const struct wisp_batch *b = j->s->batch;
    const struct wisp_loss *loss = j->s->head.loss;
    size_t m = a->op[i + 1] - a->op[i], n_true = b->yp[i + 1] - b->yp[i], at;
    const struct wisp_active own = { .n = m, .rows = j->v.row + a->op[i] };
    float *z = j->v.g + a->op[i], target = n_true ? loss->target(n_true) : 0;
    float weight = wisp_batch_weight(b, i);
    double of_true = 0;
    score(j, i, thread);
    for (uint32_t y = b->yp[i]; y < b->yp[i + 1]; y++)
        if ((at = wisp_active_place(&own, b->yi[y])) < m) of_true += (double)target * z[at];
    float scale = n_true || loss->uses_unlabelled ? weight / (float)b->n : 0;
    j->v.loss[i] = (double)weight * (part_of_all(j->s, z, m, scale) - of_true);
    for (uint32_t y = b->yp[i]; y < b->yp[i + 1]; y++)
        if ((at = wisp_active_place(&own, b->yi[y])) < m) z[at] -= weight * target / (float)b->n;
}

static void forward_samples(void *arg, size_t task, int thread)
{
    const struct job *j = arg;
    size_t end = (task + 1) * SAMPLES_A_TASK, n = j->s->batch->n;
    for (size_t i = task * SAMPLES_A_TASK; i < end && i < n; i++) forward_sample(j, i, thread);
}

static size_t sample_tasks(const struct wisp_step *s)
{
    return wisp_parts(s->batch->n, SAMPLES_A_TASK);
}

static void add_losses(const struct job *j)
{
    j->s->head.loss_sum = 0;
    for (size_t i = 0; i < j->s->batch->n; i++) j->s->head.loss_sum += j->v.loss[i];
}

void wisp_example_forward(const struct wisp_layer *l, struct wisp_step *s,
                          const struct wisp_act *in)
{
    if (s->head.hogwild) return; /* each sample when its turn comes: backward */
    struct job j = job_of(l, s, in, WISP_CUT_FRESH);
    wisp_parallel_for(s->ctx->pool, sample_tasks(s), forward_samples, &j);
    add_losses(&j);
}

/* ---- backward ---- */

static void below_sample(const struct job *j, size_t i)
{
    const uint32_t *op = j->s->head.active.op;
    size_t width = j->l->n_in;
    float *gh = j->in->g + i * width;
    memset(gh, 0, width * sizeof *gh);
    struct wisp_weights w = wisp_param_weights(&j->l->params[0]);
    wisp_weights_bag(j->s->ctx->k, gh, &w, j->v.row + op[i], j->v.g + op[i], op[i + 1] - op[i]);
}

static void below_samples(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t end = (task + 1) * SAMPLES_A_TASK, n = j->s->batch->n;
    for (size_t i = task * SAMPLES_A_TASK; i < end && i < n; i++) below_sample(j, i);
}

/* Files the samples and their gradients by row. */
static void turn_lists(const struct job *j)
{
    const struct wisp_active *a = &j->s->head.active;
    const struct view *v = &j->v;
    size_t n = j->s->batch->n;
    uint32_t sum = 0;
    memset(v->start, 0, (a->n + 1) * sizeof *v->start);
    for (uint32_t e = 0; e < a->op[n]; e++) v->start[a->own[e]]++;
    for (size_t p = 0; p <= a->n; p++) {
        uint32_t count = v->start[p];
        v->start[p] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        for (uint32_t e = a->op[i]; e < a->op[i + 1]; e++) {
            uint32_t at = v->start[a->own[e]]++;
            v->sample[at] = (int32_t)i;
            v->by_row[at] = v->g[e];
        }
    for (size_t p = a->n; p > 0; p--) v->start[p] = v->start[p - 1];
    v->start[0] = 0;
}

static void move(const struct job *j, size_t row, const float *gw, const float *gb)
{
    const struct wisp_update *u = j->s->update;
    u->row(u, &j->l->params[0], row, gw);
    u->row(u, &j->l->params[1], row, gb);
}

static void move_rows(void *arg, size_t task, int thread)
{
    const struct job *j = arg;
    const struct view *v = &j->v;
    const struct wisp_active *a = &j->s->head.active;
    const struct wisp_kernels *k = j->s->ctx->k;
    size_t width = j->l->n_in, end = (task + 1) * ROWS_A_TASK;
    float *gw = row_of(j, thread);
    for (size_t p = task * ROWS_A_TASK; p < end && p < a->n; p++) {
        uint32_t first = v->start[p], m = v->start[p + 1] - first;
        v->heat[p] = k->sum(v->by_row + first, m);
        if (m == 0) continue; /* no sample computed it */
        memset(gw, 0, width * sizeof *gw);
        k->bag(gw, j->in->x, width, v->sample + first, v->by_row + first, m, width);
        move(j, wisp_row_at(a, p), gw, &v->heat[p]);
    }
}

/* The one place where threads race on purpose: another thread may be moving, or reading, the same
 * row at this moment. */
static void hogwild_race(const struct job *j, size_t i, int thread)
{
    const uint32_t *op = j->s->head.active.op;
    size_t width = j->l->n_in;
    float *gw = row_of(j, thread);
    for (uint32_t e = op[i]; e < op[i + 1]; e++) {
        memset(gw, 0, width * sizeof *gw);
        j->s->ctx->k->axpy(gw, j->in->x + i * width, j->v.g[e], width);
        move(j, (size_t)j->v.row[e], gw, &j->v.g[e]);
    }
}

static void hogwild_sample(void *arg, size_t i, int thread)
{
    const struct job *j = arg;
    forward_sample(j, i, thread);
    below_sample(j, i);
    hogwild_race(j, i, thread);
}

static void hogwild(const struct job *j)
{
    const struct wisp_active *a = &j->s->head.active;
    size_t n = j->s->batch->n;
    wisp_parallel_for(j->s->ctx->pool, n, hogwild_sample, (void *)j);
    add_losses(j);
    memset(j->v.heat, 0, a->n * sizeof *j->v.heat);
    for (uint32_t e = 0; e < a->op[n]; e++) j->v.heat[a->own[e]] += j->v.g[e];
}

void wisp_example_backward(struct wisp_outcome *o, struct wisp_layer *l, struct wisp_step *s,
                           struct wisp_act *in)
{
    struct job j = job_of(l, s, in, s->head.hogwild ? WISP_CUT_FRESH : WISP_CUT_AGAIN);
    if (s->head.hogwild) {
        hogwild(&j);
    } else {
        wisp_parallel_for(s->ctx->pool, sample_tasks(s), below_samples, &j);
        turn_lists(&j);
        wisp_parallel_for(s->ctx->pool, wisp_parts(s->head.active.n, ROWS_A_TASK), move_rows, &j);
    }
    *o = (struct wisp_outcome){
        .active = &s->head.active, .k = j.v.lists.k, .best = j.v.best, .heat = j.v.heat
    };
}
