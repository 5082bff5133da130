/* A layer that is a net of any shape without cycles (spdnn/dag.h): nodes with functions of their own,
 * edges that may leave out levels, and results that may be any of the nodes.
 *
 *   file=   nodes, edges and weights of a file
 *   mask=   the same, but weights begin as drawn numbers
 *
 * Weights and biases are trained.  Edges, functions and outputs are fixed and kept in the model, so
 * the file is read once; parameters are in the order of the net's own numbers.
 *
 * kept:     parts of the net | when training: edges by the node where they begin
 * scratch:  values, then gradients (nodes + inputs, lanes) | when training: derivatives (nodes, lanes) |
 *           weights and their gradients in that order (edges) | gradients of the biases (nodes) |
 *           gradients of the inputs (inputs, lanes)
 * of each thread:  gradients of the weights of a node */
#include "spdnn/dag.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "layer/layer.h"

#include <math.h>
#include <string.h>

enum { MASK, WEIGHTS, FUNCTION };                                     /* arguments */
enum { WEIGHT_P, BIAS_P, START_P, INPUTS_P, FUNCTIONS_P, OUTPUTS_P }; /* parameters */
enum { OF_FILE = 1 << MASK | 1 << WEIGHTS };

static const struct wisp_arg args[] = {
    { .name = "mask",
      .what = "a file of nodes and edges; weights are drawn",
      .type = WISP_ARG_FILE,
      .fallback = "",
      .by_name = true },
    { .name = "file",
      .what = "a file of nodes, edges and weights",
      .type = WISP_ARG_FILE,
      .fallback = "",
      .by_name = true },
    { .name = "function",
      .what = "of nodes between inputs and outputs, of MatrixMarket",
      .type = WISP_ARG_WORD,
      .word = wisp_node_function_name,
      .fallback = "relu",
      .by_name = true },
    { .name = NULL },
};

/* ---- planning ---- */

struct job {
    struct wisp_layer *l;
    struct wisp_step *s;
    const struct wisp_act *in, *out;
    struct wisp_dag dag;
    struct wisp_dag_plan plan;
    struct wisp_dag_run run;
    size_t fan; /* most edges to a node */
};

static struct wisp_dag dag_of(const struct wisp_layer *l)
{
    const struct wisp_param *p = l->params;
    return (struct wisp_dag){ .n_nodes = p[INPUTS_P].rows,
                              .n_in = l->n_in,
                              .n_out = p[OUTPUTS_P].rows,
                              .n_edges = wisp_param_n(&p[INPUTS_P]),
                              .start = p[INPUTS_P].start,
                              .from = p[INPUTS_P].ids,
                              .function = p[FUNCTIONS_P].ids,
                              .out = p[OUTPUTS_P].ids,
                              .w = p[WEIGHT_P].w,
                              .bias = p[BIAS_P].w };
}

static void lay_kept(struct job *j, struct wisp_cut *c)
{
    const size_t nodes = j->dag.n_nodes, all = nodes + j->dag.n_in, edges = j->dag.n_edges;
    j->plan.made = wisp_cut_take(c, 16, sizeof *j->plan.made);
    j->plan.part = wisp_cut_take(c, nodes + 1, sizeof *j->plan.part);
    if (!j->l->trains) return;
    j->plan.begin = wisp_cut_take(c, all + 1, sizeof *j->plan.begin);
    j->plan.at = wisp_cut_take(c, edges, sizeof *j->plan.at);
    j->plan.target = wisp_cut_take(c, edges, sizeof *j->plan.target);
    j->plan.place = wisp_cut_take(c, all, sizeof *j->plan.place);
}

static void lay_out(struct job *j, struct wisp_cut *c)
{
    struct wisp_dag_run *r = &j->run;
    const size_t nodes = j->dag.n_nodes, n_in = j->dag.n_in;
    r->x = wisp_cut_take(c, (nodes + n_in) * r->lanes, sizeof *r->x);
    if (!j->l->trains) return;
    r->d = wisp_cut_take(c, nodes * r->lanes, sizeof *r->d);
    r->weight = wisp_cut_take(c, j->dag.n_edges, sizeof *r->weight);
    r->gw = wisp_cut_take(c, j->dag.n_edges, sizeof *r->gw);
    r->gb = wisp_cut_take(c, nodes, sizeof *r->gb);
    if (j->in->form != WISP_ROWS) r->gx = wisp_cut_take(c, n_in * r->lanes, sizeof *r->gx);
}

struct work { /* of a thread */
    float *gw;
};

static struct work lay_work(struct wisp_cut *c, const struct job *j)
{
    struct work w = { 0 };
    if (!j->l->trains) return w;
    w.gw = wisp_cut_take(c, wisp_most(j->fan, 1), sizeof *w.gw);
    return w;
}

/* Ids of a parameter, 'below' some number; kept by checkpoints, as the file may be gone. */
static struct wisp_param *declare_ids(struct wisp_layer *l, const char *what, size_t n,
                                      size_t below)
{
    struct wisp_param *p =
        wisp_layer_declare(l, what, WISP_FIXED, WISP_BY_NONE, 1, (size_t[]){ n });
    p->below = below;
    p->kept = true;
    return p;
}

static void make_ragged(struct wisp_param *p, size_t rows, size_t longest)
{
    p->rows = p->total_rows = rows;
    p->cols = longest;
    p->ragged = true;
}

static void declare(struct wisp_layer *l, const struct wisp_wires *w)
{
    const size_t dim[] = { w->n_edges };
    make_ragged(wisp_layer_declare(l, "weight", WISP_TRAINED, WISP_BY_NONE, 1, dim), w->n_out,
                w->fan);
    wisp_layer_declare_rows(l, "bias", WISP_BY_NONE, 1, w->n_out);
    struct wisp_param *p =
        wisp_layer_declare(l, "start", WISP_STARTS, WISP_BY_NONE, 1, (size_t[]){ w->n_out + 1 });
    p->below = w->n_edges;
    p->kept = true;
    p = declare_ids(l, "inputs", w->n_edges, w->n_out + l->n_in);
    make_ragged(p, w->n_out, w->fan);
    declare_ids(l, "functions", w->n_out, wisp_node_functions());
    declare_ids(l, "outputs", w->n_units, w->n_out + l->n_in);
}

static void clear(struct wisp_layer *l)
{
    if (l->own) wisp_dag_file_clear(l->own);
    wisp_free(l->own);
    l->own = NULL;
}

/* A function that has no derivative to learn by. */
static wisp_status check_functions(const struct wisp_layer *l, const struct wisp_dag_file *f,
                                   wisp_error *err)
{
    char name[WISP_NODE_NAME];
    for (size_t i = 0; i < f->dag.n_nodes; i++) {
        const struct wisp_node_function *fn = wisp_node_function_at((size_t)f->dag.function[i]);
        if (fn->flat)
            return wisp_fail(err, WISP_EINVAL,
                             "%s: node '%s' has the function '%s', whose derivative is 0: nothing "
                             "before it would learn; take sigmoid, or 'wisp graph run'",
                             l->file, wisp_dag_name(name, f, i), fn->name);
    }
    return WISP_OK;
}

static wisp_status read_file(struct wisp_wires *out, struct wisp_layer *l,
                             const struct wisp_layer_sizes *s, wisp_error *err)
{
    struct wisp_dag_file *f = l->own = wisp_zalloc(1, sizeof *f);
    if (!f) return wisp_fail_mem(err, sizeof *f, "a graph");
    wisp_status st =
        wisp_dag_read(f, l->file, l->given & 1u << FUNCTION ? (int)l->arg[FUNCTION] : -1, err);
    if (st == WISP_OK && f->dag.n_in != l->n_in)
        st = wisp_fail(err, WISP_EINVAL,
                       "%s: %zu input nodes, but %zu %s; expected as many, in the same order",
                       l->file, f->dag.n_in, l->n_in,
                       l->from[0] ? "units before it" : "features in the data");
    if (st == WISP_OK && s->training) st = check_functions(l, f, err);
    if (st != WISP_OK) return st;
    *out = (struct wisp_wires){ .n_out = f->dag.n_nodes,
                                .n_edges = f->dag.n_edges,
                                .start = f->dag.start,
                                .in = f->dag.from,
                                .n_units = f->dag.n_out };
    return WISP_OK;
}

/* Of whoever knows the net, or of the file. */
static wisp_status find_wires(struct wisp_wires *w, struct wisp_layer *l,
                              const struct wisp_layer_sizes *s, wisp_error *err)
{
    wisp_status st = s->known ? s->known->wires(s->known, w, l, err) : WISP_OK;
    if (st == WISP_OK && !w->n_out) return read_file(w, l, s, err);
    if (st != WISP_OK || !w->start || !w->in) return st;
    const struct wisp_dag d = { .n_nodes = w->n_out,
                                .n_in = l->n_in,
                                .n_edges = w->n_edges,
                                .start = w->start,
                                .from = w->in };
    size_t bad;
    if (wisp_dag_ordered(&d, &bad)) return WISP_OK;
    return wisp_fail(err, WISP_EMODEL,
                     "node %zu of a layer 'dag' does not read nodes before it and inputs alone",
                     bad);
}

static wisp_status plan(struct wisp_layer *l, const struct wisp_act *const *in,
                        struct wisp_act *out, const struct wisp_layer_sizes *s, wisp_error *err)
{
    (void)out;
    struct wisp_wires w = { 0 };
    if (!(l->given & OF_FILE))
        return wisp_fail(
            err, WISP_EINVAL,
            "'dag' needs a file of its nodes and edges: file=FILE, or mask=FILE to draw "
            "the weights");
    wisp_status st = find_wires(&w, l, s, err);
    for (size_t o = 0; st == WISP_OK && w.start && o < w.n_out; o++)
        w.fan = wisp_most(w.fan, (size_t)(w.start[o + 1] - w.start[o]));
    if (st == WISP_OK && (w.n_edges == 0 || w.n_units == 0 || w.n_units > WISP_MAX_WIDTH ||
                          w.n_out > INT32_MAX - l->n_in))
        st = wisp_fail(
            err, WISP_EINVAL,
            "%s: %zu nodes, %zu edges and %zu outputs; expected at least one of each, and "
            "at most %d outputs",
            l->file, w.n_out, w.n_edges, w.n_units, WISP_MAX_WIDTH);
    if (st != WISP_OK) {
        clear(l);
        return st;
    }
    l->n_out = w.n_units;
    declare(l, &w);
    struct wisp_cut shared = { 0 }, kept = { 0 }, work = { 0 };
    struct job none = { .l = l, .in = in[0], .fan = w.fan };
    none.dag = (struct wisp_dag){ .n_nodes = w.n_out, .n_in = l->n_in, .n_edges = w.n_edges };
    none.run.lanes = wisp_up(s->batch, 16);
    lay_out(&none, &shared);
    lay_kept(&none, &kept);
    lay_work(&work, &none);
    l->scratch_floats = shared.at / sizeof(float);
    l->kept_floats = kept.at / sizeof(float);
    l->thread_floats = work.at / sizeof(float);
    return WISP_OK;
}

/* Of a file that was not read everything stays as it is: whoever knew the net has it. */
static void init(struct wisp_layer *l, uint64_t seed, struct wisp_pool *pool)
{
    const struct wisp_dag_file *f = l->own;
    struct wisp_param *p = l->params;
    if (f) {
        memcpy(p[BIAS_P].w, f->bias, p[BIAS_P].n * sizeof *f->bias);
        memcpy(p[START_P].start, f->start, p[START_P].n * sizeof *f->start);
        memcpy(p[INPUTS_P].ids, f->from, p[INPUTS_P].n * sizeof *f->from);
        memcpy(p[FUNCTIONS_P].ids, f->function, p[FUNCTIONS_P].n * sizeof *f->function);
        memcpy(p[OUTPUTS_P].ids, f->out, p[OUTPUTS_P].n * sizeof *f->out);
    }
    if (l->given & 1u << MASK) {
        wisp_param_normal(&p[WEIGHT_P], 1, seed, 2 * l->number, pool);
        for (size_t o = 0; p[WEIGHT_P].start && o < p[WEIGHT_P].rows; o++) {
            size_t n, at = wisp_param_row(&p[WEIGHT_P], o, &n);
            for (size_t k = 0; k < n; k++) p[WEIGHT_P].w[at + k] *= sqrtf(2 / (float)n);
        }
    } else if (f) memcpy(p[WEIGHT_P].w, f->w, p[WEIGHT_P].n * sizeof *f->w);
    clear(l);
}

/* ---- a step ---- */

static struct work work_of(const struct job *j, int thread)
{
    struct wisp_cut c = wisp_layer_thread_cut(j->l, thread, WISP_CUT_FRESH);
    return lay_work(&c, j);
}

static void make_job(struct job *j, const struct wisp_layer *l, struct wisp_step *s,
                     const struct wisp_act *in, const struct wisp_act *out, enum wisp_cut_mode mode)
{
    *j = (struct job){ .l = (struct wisp_layer *)l, .s = s, .in = in, .out = out };
    j->dag = dag_of(l);
    j->fan = l->params[INPUTS_P].cols;
    j->run.n = s->batch->n;
    j->run.lanes = wisp_up(s->batch->n, 16);
    struct wisp_cut c = wisp_layer_cut(l, mode), kept = wisp_layer_kept_cut(l);
    lay_out(j, &c);
    lay_kept(j, &kept);
    wisp_dag_plan(&j->plan, &j->dag);
    j->run.dag = &j->dag;
    j->run.plan = &j->plan;
    j->run.ctx = s->ctx;
    if (!s->training && !s->traces) j->run.d = NULL;
}

static size_t samples(const struct job *j, size_t first)
{
    const size_t left = j->run.n - first;
    return left < WISP_DAG_TILE ? left : WISP_DAG_TILE;
}

/* A tile of samples into its columns of the inputs' rows: dense values, or the rows of the batch. */
static void turn_in(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const size_t n_in = j->dag.n_in, nodes = j->dag.n_nodes, first = tile * WISP_DAG_TILE,
                 n = samples(j, first), width = wisp_dag_width(j->run.lanes, first);
    float *x = j->run.x + wisp_dag_at(j->run.lanes, nodes + n_in, nodes, first);
    if (j->in->form != WISP_ROWS) {
        j->s->ctx->k->transpose(x, width, j->in->x + first * n_in, n_in, n, n_in);
        return;
    }
    const struct wisp_batch *b = j->s->batch;
    memset(x, 0, n_in * width * sizeof *x);
    for (size_t s = 0; s < n; s++)
        for (uint32_t e = b->xp[first + s]; e < b->xp[first + s + 1]; e++)
            x[(size_t)b->xi[e] * width + s] = b->xv[e];
}

static void turn_out(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const size_t n_out = j->dag.n_out, all = j->dag.n_nodes + j->dag.n_in,
                 first = tile * WISP_DAG_TILE, n = samples(j, first);
    for (size_t o = 0; o < n_out; o++) {
        const float *y = j->run.x + wisp_dag_at(j->run.lanes, all, (size_t)j->dag.out[o], first);
        for (size_t s = 0; s < n; s++) j->out->x[(first + s) * n_out + o] = y[s];
    }
}

static void turn_below(void *arg, size_t tile, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const size_t n_in = j->dag.n_in, first = tile * WISP_DAG_TILE;
    j->s->ctx->k->transpose(j->in->g + first * n_in, n_in, j->run.gx + first * n_in,
                            wisp_dag_width(j->run.lanes, first), n_in, samples(j, first));
}

static wisp_status forward(const struct wisp_layer *l, struct wisp_step *s,
                           const struct wisp_act *const *in, struct wisp_act *out, wisp_error *err)
{
    (void)err;
    struct job j;
    make_job(&j, l, s, in[0], out, WISP_CUT_FRESH);
    wisp_parallel_for(s->ctx->pool, wisp_parts(j.run.n, WISP_DAG_TILE), turn_in, &j);
    wisp_dag_forward(&j.run);
    wisp_parallel_for(s->ctx->pool, wisp_parts(j.run.n, WISP_DAG_TILE), turn_out, &j);
    return WISP_OK;
}

enum { ROWS_AT_ONCE = 16 };

static void weight_rows(void *arg, size_t task, int thread)
{
    const struct job *j = arg;
    const size_t first = task * ROWS_AT_ONCE, left = j->dag.n_nodes - first,
                 end = first + (left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE);
    float *g = work_of(j, thread).gw;
    for (size_t r = first; r < end; r++) {
        size_t n, at = wisp_param_row(&j->l->params[INPUTS_P], r, &n);
        for (size_t i = 0; i < n; i++) g[i] = j->run.gw[j->plan.at[at + i]];
        if (n) j->s->update->row(j->s->update, &j->l->params[WEIGHT_P], r, g);
    }
}

static wisp_status backward(struct wisp_layer *l, struct wisp_step *s, struct wisp_act *const *in,
                            const struct wisp_act *out, wisp_error *err)
{
    (void)err;
    struct job j;
    make_job(&j, l, s, in[0], out, WISP_CUT_AGAIN);
    const bool below = in[0]->g != NULL;
    if (!below) j.run.gx = NULL;
    j.run.gy = out->g;
    wisp_dag_backward(&j.run);
    wisp_parallel_for(s->ctx->pool, wisp_parts(j.dag.n_nodes, ROWS_AT_ONCE), weight_rows, &j);
    s->update->row(s->update, &l->params[BIAS_P], 0, j.run.gb);
    if (below) wisp_parallel_for(s->ctx->pool, wisp_parts(j.run.n, WISP_DAG_TILE), turn_below, &j);
    return WISP_OK;
}

static double flops(const struct wisp_layer *l)
{
    return 2 * (double)wisp_layer_wires(l).n_edges;
}

const struct wisp_layer_kind wisp_layer_dag = {
    .name = "dag",
    .what = "a graph of nodes with functions of their own, by levels",
    .args = args,
    .takes = WISP_ROWS | WISP_FLAT,
    .plan = plan,
    .init = init,
    .clear = clear,
    .flops = flops,
    .forward = forward,
    .backward = backward,
};
