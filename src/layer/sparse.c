/* A layer whose connections are few and fixed (wires.c): output o has the inputs in[o][0 .. fan-1],
 * and
 *
 *     out[o] = bias[o] + sum over k of w[o][k] * in[in[o][k]]
 *
 * 'fan' is one number for all outputs, or each has its own, and with 0 it is its bias.  Weights and
 * biases are trained, the connections (parameters "inputs", and "start" where their numbers differ)
 * are made once by init() and kept in the model file.
 *
 * The values of a batch are turned round, xt (n_in, batch): then an edge is one row of xt times
 * one number, and all three products are kernels on rows:
 *
 *   forward   yt[o]  = bias[o] + sum over k of w[o][k] xt[in[o][k]]       a bag of rows
 *   backward  gw[o][k] = gyt[o] . xt[in[o][k]]                             dots with rows
 *             gxt[i] = sum over edges e from i of w[e] gyt[output of e]    a bag of rows
 *
 * Rows that are connected to the same others, as the radix layers have them, are done at once as a
 * product of matrices.  Work is cut into fixed sets of rows, so no result depends on the number of
 * threads.  As the first
 * layer of a net it reads the rows of the batch, which are spread into xt.
 *
 * kept:     first edge of each input (n_in + 1) | edges by input: number, output (edges each); when
 *           training
 * scratch:  weights of edges by input (edges) | sums of gyt (n_out), when training
 *           | xt, then gxt (n_in, batch) | yt, then gyt (n_out, batch)
 * Each part begins at a multiple of 16 floats, rows of xt and yt too.
 * of each thread: rows that several others share, (64, batch) | and when training, these turned
 *   round | gradients of 16 rows of weights, or of one that is long */
#include "layer/wires.h"
#include "base/bounds.h"

#include <string.h>

enum { RUN = 16, ROWS_AT_ONCE = 16, ALIKE_MOST = 64 };

struct job {
    struct wisp_layer *l;
    struct wisp_step *s;
    const struct wisp_act *in, *out;
    struct wisp_wires wires;
    size_t n, ld; /* samples, lanes */
    float *xt, *yt;
    /* when training: edges by input */
    uint32_t *start, *edge;
    int32_t *output;
    float *weight, *sums;
};

/* What outlives a step. */
static void lay_kept(struct job *j, struct wisp_cut *c)
{
    const struct wisp_layer *l = j->l;
    size_t edges = j->wires.n_edges;
    if (!l->trains) return;
    j->start = wisp_cut_take(c, l->n_in + 1, sizeof *j->start);
    j->edge = wisp_cut_take(c, edges, sizeof *j->edge);
    j->output = wisp_cut_take(c, edges, sizeof *j->output);
}

static void lay_out(struct job *j, struct wisp_cut *c)
{
    const struct wisp_layer *l = j->l;
    if (l->trains) j->weight = wisp_cut_take(c, j->wires.n_edges, sizeof *j->weight);
    if (l->trains) j->sums = wisp_cut_take(c, l->n_out, sizeof *j->sums);
    j->xt = wisp_cut_take(c, l->n_in * j->ld, sizeof *j->xt);
    j->yt = wisp_cut_take(c, l->n_out * j->ld, sizeof *j->yt);
}

struct work { /* of a thread */
    float *rows, *turned, *g;
};

static struct work lay_work(struct wisp_cut *c, const struct job *j)
{
    struct work w = { 0 };
    w.rows = wisp_cut_take(c, ALIKE_MOST * j->ld, sizeof *w.rows);
    if (!j->l->trains) return w;
    w.turned = wisp_cut_take(c, ALIKE_MOST * j->ld, sizeof *w.turned);
    size_t fan = j->wires.fan, most = fan < ALIKE_MOST ? fan : ALIKE_MOST;
    w.g = wisp_cut_take(c, ROWS_AT_ONCE * most > fan ? ROWS_AT_ONCE * most : fan, sizeof *w.g);
    return w;
}

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)out;
    wisp_status st = wisp_wires_plan(l, in[0], s, err);
    if (st != WISP_OK) return st;
    struct wisp_cut shared = { 0 }, kept = { 0 }, work = { 0 };
    struct job none = { .l = l, .wires = wisp_layer_wires(l), .ld = wisp_up(s->batch, 16) };
    lay_out(&none, &shared);
    lay_kept(&none, &kept);
    l->kept_floats = kept.at / sizeof(float);
    lay_work(&work, &none);
    l->scratch_floats = shared.at / sizeof(float);
    l->thread_floats = work.at / sizeof(float);
    return WISP_OK;
}

/* ---- forward ---- */

static struct job make_job(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *in, const struct wisp_act *out,
                           enum wisp_cut_mode mode)
{
    if (in->form == WISP_ROWS) in = NULL;
    size_t n = s->batch->n;
    struct job j = { .l = (struct wisp_layer *)l,
                     .s = s,
                     .in = in,
                     .out = out,
                     .wires = wisp_layer_wires(l),
                     .n = n,
                     .ld = wisp_up(n, 16) };
    struct wisp_cut c = wisp_layer_cut(l, mode), kept = wisp_layer_kept_cut(l);
    lay_out(&j, &c);
    lay_kept(&j, &kept);
    return j;
}

static struct work work_of(const struct job *j, int thread)
{
    struct wisp_cut c = wisp_layer_thread_cut(j->l, thread, WISP_CUT_FRESH);
    return lay_work(&c, j);
}

/* A task has every row from 'task' on, in steps of the number of tasks.  That is the gap of a radix
 * layer, so that its rows are connected to the same others: see 'alike'. */
static size_t n_tasks(const struct wisp_layer *l, size_t n_rows)
{
    size_t gap = l->n_in / RUN, plain = wisp_parts(n_rows, ROWS_AT_ONCE);
    return gap < RUN ? plain : gap < n_rows ? gap : n_rows;
}

static void run_rows(const struct job *j, size_t n_rows, void (*fn)(void *, size_t, int))
{
    wisp_parallel_for(j->s->ctx->pool, n_tasks(j->l, n_rows), fn, (void *)j);
}

struct rows { /* of a task: first, first + step, ... */
    size_t first, step, n;
};

static struct rows rows_of(const struct wisp_layer *l, size_t n_rows, size_t task)
{
    size_t step = n_tasks(l, n_rows);
    return (struct rows){ task, step, wisp_parts(n_rows - task, step) };
}

/* Are the outputs of a task connected to the same inputs?  Then their rows are a product of
 * matrices, with these inputs' rows side by side: a load serves several outputs. */
static bool alike(const struct job *j, struct rows r)
{
    const size_t fan = j->wires.fan;
    const int32_t *in = j->wires.in + r.first * fan;
    if (j->wires.start) return false; /* their weights do not lie equally far apart */
    for (size_t i = 1; i < r.n; i++)
        if (memcmp(in, in + i * r.step * fan, fan * sizeof *in) != 0) return false;
    return r.n > 1 && fan <= ALIKE_MOST;
}

/* These rows of x, side by side, (n, lanes). */
static float *gather(const struct job *j, float *to, const float *x, const int32_t *id, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * j->ld, x + (size_t)id[i] * j->ld, j->n * sizeof *to);
    return to;
}

/* A tile of samples into its columns of xt: dense values, or the rows of the batch. */
static void turn_in(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t n_in = j->l->n_in, first = tile * WISP_TILE, n = wisp_tile_rows(j->n, tile);
    if (j->in) {
        j->s->ctx->k->transpose(j->xt + first, j->ld, j->in->x + first * n_in, n_in, n, n_in);
        return;
    }
    const struct wisp_batch *b = j->s->batch;
    for (size_t i = 0; i < n_in; i++) memset(j->xt + i * j->ld + first, 0, n * sizeof(float));
    for (size_t s = first; s < first + n; s++)
        for (uint32_t e = b->xp[s]; e < b->xp[s + 1]; e++)
            j->xt[(size_t)b->xi[e] * j->ld + s] = b->xv[e];
}

static void turn_out(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t n_out = j->l->n_out, first = tile * WISP_TILE, n = wisp_tile_rows(j->n, tile);
    j->s->ctx->k->transpose(j->out->x + first * n_out, n_out, j->yt + first, j->ld, n_out, n);
}

static void forward_rows(void *arg, size_t task, int thread)
{
    const struct job *j = arg;
    const struct wisp_kernels *k = j->s->ctx->k;
    const struct wisp_layer *l = j->l;
    const float *w = l->params[0].w;
    struct rows r = rows_of(l, l->n_out, task);
    bool same = alike(j, r);
    for (size_t o = r.first; o < l->n_out; o += r.step) {
        float *y = j->yt + o * j->ld, bias = l->params[1].w[o];
        size_t n, at = wisp_wires_row(&j->wires, o, &n);
        for (size_t i = 0; i < j->n; i++) y[i] = bias;
        if (!same) k->bag(y, j->xt, j->ld, j->wires.in + at, w + at, n, j->n);
    }
    if (!same) return;
    size_t fan = j->wires.fan;
    const float *x = gather(j, work_of(j, thread).rows, j->xt, j->wires.in + r.first * fan, fan);
    k->gemm(j->yt + r.first * j->ld, r.step * j->ld, w + r.first * fan, r.step * fan, 1, x, j->ld,
            r.n, j->n, fan, true);
}

/* ---- forward, of a row by itself: nothing is turned round ---- */

/* Four sums that do not wait for each other. */
static float gather_dot(const float *w, const float *x, const int32_t *in, size_t n)
{
    float a = 0, b = 0, c = 0, d = 0;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        a += w[i] * x[in[i]];
        b += w[i + 1] * x[in[i + 1]];
        c += w[i + 2] * x[in[i + 2]];
        d += w[i + 3] * x[in[i + 3]];
    }
    for (; i < n; i++) a += w[i] * x[in[i]];
    return (a + b) + (c + d);
}

static void forward_alone(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const struct wisp_param *p = j->l->params;
    const struct rows r = rows_of(j->l, j->l->n_out, task);
    for (size_t o = r.first; o < j->l->n_out; o += r.step) {
        size_t n, at = wisp_wires_row(&j->wires, o, &n);
        j->out->x[o] = p[1].w[o] + gather_dot(p[0].w + at, j->xt, j->wires.in + at, n);
    }
}

static void run_alone(struct job *j)
{
    const struct wisp_batch *b = j->s->batch;
    if (j->in) {
        j->xt = j->in->x;
    } else {
        memset(j->xt, 0, j->l->n_in * sizeof *j->xt);
        for (uint32_t e = b->xp[0]; e < b->xp[1]; e++) j->xt[b->xi[e]] = b->xv[e];
    }
    run_rows(j, j->l->n_out, forward_alone);
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)err;
    struct job j = make_job(l, s, in[0], out, WISP_CUT_FRESH);
    if (s->alone) {
        run_alone(&j);
        return WISP_OK;
    }
    wisp_parallel_for(s->ctx->pool, wisp_tiles(j.n), turn_in, &j);
    run_rows(&j, l->n_out, forward_rows);
    wisp_parallel_for(s->ctx->pool, wisp_tiles(j.n), turn_out, &j);
    return WISP_OK;
}

/* ---- backward ---- */

/* Files the edges by input.  The connections stay as they are, so once is enough: what is kept
 * begins as zeros, and start[n_in] is the number of edges from then on. */
static void file_edges(const struct job *j)
{
    const struct wisp_layer *l = j->l;
    const int32_t *in = j->wires.in;
    size_t edges = j->wires.n_edges;
    uint32_t *start = j->start;
    if (start[l->n_in] == edges) return;
    for (size_t e = 0; e < edges; e++) start[in[e] + 1]++;
    for (size_t i = 0; i < l->n_in; i++) start[i + 1] += start[i];
    for (size_t o = 0; o < l->n_out; o++) {
        size_t n, first = wisp_wires_row(&j->wires, o, &n);
        for (size_t e = first; e < first + n; e++) {
            uint32_t at = start[in[e]]++;
            j->edge[at] = (uint32_t)e;
            j->output[at] = (int32_t)o;
        }
    }
    for (size_t i = l->n_in; i > 0; i--) start[i] = start[i - 1]; /* starts again */
    start[0] = 0;
}

static void turn_gradient(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t n_out = j->l->n_out, first = tile * WISP_TILE, n = wisp_tile_rows(j->n, tile);
    j->s->ctx->k->transpose(j->yt + first, j->ld, j->out->g + first * n_out, n_out, n, n_out);
}

static void turn_below(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    size_t n_in = j->l->n_in, first = tile * WISP_TILE, n = wisp_tile_rows(j->n, tile);
    j->s->ctx->k->transpose(j->in->g + first * n_in, n_in, j->xt + first, j->ld, n_in, n);
}

/* The weights of a task's inputs, as they are before the update. */
static void gather_rows(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    struct rows r = rows_of(j->l, j->l->n_in, task);
    for (size_t i = r.first; i < j->l->n_in; i += r.step)
        for (uint32_t e = j->start[i]; e < j->start[i + 1]; e++)
            j->weight[e] = j->l->params[0].w[j->edge[e]];
}

static void weight_rows(void *arg, size_t task, int thread)
{
    const struct job *j = arg;
    const struct wisp_kernels *k = j->s->ctx->k;
    struct wisp_layer *l = j->l;
    size_t fan = j->wires.fan;
    struct rows r = rows_of(l, l->n_out, task);
    bool same = alike(j, r);
    struct work own = work_of(j, thread);
    float *turned = own.turned /* (n, fan) */, *g = own.g;
    if (same) {
        const float *x = gather(j, own.rows, j->xt, j->wires.in + r.first * fan, fan);
        k->transpose(turned, fan, x, j->ld, fan, j->n);
    }
    for (size_t i = 0; i < r.n; i += ROWS_AT_ONCE) {
        size_t n = r.n - i < ROWS_AT_ONCE ? r.n - i : ROWS_AT_ONCE, first = r.first + i * r.step;
        if (same)
            k->gemm(g, fan, j->yt + first * j->ld, r.step * j->ld, 1, turned, fan, n, fan, j->n,
                    false);
        for (size_t m = 0; m < n; m++) {
            size_t o = first + m * r.step;
            const float *gy = j->yt + o * j->ld;
            size_t n_ids, at = wisp_wires_row(&j->wires, o, &n_ids);
            float *own_g = same ? g + m * fan : g;
            if (!same) k->dots(own_g, j->xt, j->ld, j->wires.in + at, n_ids, gy, j->n);
            j->sums[o] = k->sum(gy, j->n);
            if (n_ids) j->s->update->row(j->s->update, &l->params[0], o, own_g);
        }
    }
}

/* The same for inputs: as many outputs of each, the same ones, their weights equally far apart. */
static bool alike_inputs(const struct job *j, struct rows r)
{
    const uint32_t *start = j->start + r.first;
    uint32_t n = start[1] - start[0], apart = r.n > 1 ? start[r.step] - start[0] : 0;
    for (size_t i = 1; i < r.n; i++) {
        const uint32_t *at = start + i * r.step;
        if (at[1] - at[0] != n || at[0] - start[0] != i * apart ||
            memcmp(j->output + at[0], j->output + start[0], n * sizeof *j->output) != 0)
            return false;
    }
    return r.n > 1 && n > 0 && n <= ALIKE_MOST;
}

static void below_rows(void *arg, size_t task, int thread)
{
    const struct job *j = arg;
    const struct wisp_kernels *k = j->s->ctx->k;
    struct rows r = rows_of(j->l, j->l->n_in, task);
    if (alike_inputs(j, r)) {
        uint32_t e = j->start[r.first], n = j->start[r.first + 1] - e;
        const float *gy = gather(j, work_of(j, thread).rows, j->yt, j->output + e, n);
        k->gemm(j->xt + r.first * j->ld, r.step * j->ld, j->weight + e,
                j->start[r.first + r.step] - e, 1, gy, j->ld, r.n, j->n, n, false);
        return;
    }
    for (size_t i = r.first; i < j->l->n_in; i += r.step) {
        float *gx = j->xt + i * j->ld;
        uint32_t e = j->start[i];
        memset(gx, 0, j->n * sizeof *gx);
        k->bag(gx, j->yt, j->ld, j->output + e, j->weight + e, j->start[i + 1] - e, j->n);
    }
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)err;
    struct job j = make_job(l, s, in[0], out, WISP_CUT_AGAIN);
    bool below = in[0]->g != NULL;
    wisp_parallel_for(s->ctx->pool, wisp_tiles(j.n), turn_gradient, &j);
    if (below) {
        file_edges(&j);
        run_rows(&j, l->n_in, gather_rows);
    }
    run_rows(&j, l->n_out, weight_rows);
    s->update->row(s->update, &l->params[1], 0, j.sums);
    if (below) {
        run_rows(&j, l->n_in, below_rows);
        wisp_parallel_for(s->ctx->pool, wisp_tiles(j.n), turn_below, &j);
    }
    return WISP_OK;
}

static double flops(const struct wisp_layer *l)
{
    return 2 * (double)wisp_layer_wires(l).n_edges;
}

const struct wisp_layer_kind wisp_layer_sparse = {
    .name = "sparse",
    .what = "values times a matrix with few, fixed connections",
    .args = wisp_wires_args,
    .takes = WISP_ROWS | WISP_FLAT,
    .ties = WISP_TIES_NEW,
    .plan = plan,
    .init = wisp_wires_init,
    .clear = wisp_wires_clear,
    .flops = flops,
    .forward = forward,
    .backward = backward,
};
