/* Graphs by themselves: what is in a file, and rows on their way through it (wisp_graph_*). */
#include "base/bounds.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/report.h"
#include "base/text.h"
#include "config/options.h"
#include "data/data.h"
#include "spdnn/dag.h"

#include <math.h>
#include <string.h>

enum { BATCH = 256 };

static wisp_status read_graph(struct wisp_dag_file *f, const char *path, const wisp_config *cfg,
                              wisp_error *err)
{
    const char *name = wisp_opt_text(cfg, OPT_FUNCTION);
    const bool given = wisp_opt_given(cfg, OPT_FUNCTION);
    return wisp_dag_read(f, path, given ? wisp_node_function_find(name, strlen(name)) : -1, err);
}

/* ---- what is in it ---- */

/* Edges of the longest path. */
static size_t longest_path(const struct wisp_dag *d, uint32_t *length)
{
    uint32_t most = 0;
    for (size_t i = 0; i < d->n_nodes; i++) {
        length[i] = 0;
        for (int64_t e = d->start[i]; e < d->start[i + 1]; e++) {
            const size_t from = (size_t)d->from[e];
            const uint32_t n = 1 + (from < d->n_nodes ? length[from] : 0);
            if (n > length[i]) length[i] = n;
        }
        if (length[i] > most) most = length[i];
    }
    return most;
}

/* Nodes, inputs too, that no output depends on; needed (all of them): work space. */
static size_t count_idle(const struct wisp_dag *d, uint32_t *needed)
{
    const size_t all = d->n_nodes + d->n_in;
    size_t idle = all;
    memset(needed, 0, all * sizeof *needed);
    for (size_t o = 0; o < d->n_out; o++) needed[d->out[o]] = 1;
    for (size_t i = d->n_nodes; i-- > 0;)
        for (int64_t e = d->start[i]; needed[i] && e < d->start[i + 1]; e++) needed[d->from[e]] = 1;
    for (size_t i = 0; i < all; i++) idle -= needed[i];
    return idle;
}

/* [3,1,2] of the levels. */
static char *widths_text(const uint32_t *level, size_t n)
{
    char *text = wisp_alloc(12 * n + 3, 1);
    size_t at = 0;
    if (!text) return NULL;
    text[at++] = '[';
    for (size_t i = 0; i < n; i++)
        at += (size_t)wisp_print(text + at, 12, "%s%u", i ? "," : "", level[i + 1] - level[i]);
    memcpy(text + at, "]", 2);
    return text;
}

static void report_functions(struct wisp_report *r, const struct wisp_dag *d)
{
    char text[400] = "{";
    size_t at = 1;
    for (size_t f = 0; wisp_node_function_name(f); f++) {
        size_t n = 0;
        for (size_t i = 0; i < d->n_nodes; i++) n += (size_t)d->function[i] == f;
        if (n)
            at += (size_t)wisp_print(text + at, sizeof text - at, "%s\"%s\":%zu", at > 1 ? "," : "",
                                     wisp_node_function_name(f), n);
    }
    wisp_print(text + at, sizeof text - at, "}");
    wisp_report_object(r, "functions", text);
}

static void report_sizes(struct wisp_report *r, const struct wisp_dag *d, size_t n_levels)
{
    wisp_report_num(r, "nodes", (double)(d->n_nodes + d->n_in));
    wisp_report_num(r, "inputs", (double)d->n_in);
    wisp_report_num(r, "outputs", (double)d->n_out);
    wisp_report_num(r, "edges", (double)d->n_edges);
    wisp_report_num(r, "levels", (double)n_levels);
}

wisp_status wisp_graph_info(wisp_report **out, const char *path, const wisp_config *cfg,
                            wisp_error *err)
{
    struct wisp_dag_file f;
    *out = NULL;
    wisp_status st = read_graph(&f, path, cfg, err);
    if (st != WISP_OK) return st;
    const size_t all = f.dag.n_nodes + f.dag.n_in;
    uint32_t *level = wisp_alloc(all + 1, sizeof *level), *work = wisp_alloc(all, sizeof *work);
    struct wisp_dag_sizes s = { 0 };
    char *widths = NULL;
    if (level && work) {
        s = wisp_dag_measure(&f.dag, level);
        widths = widths_text(level, s.n_levels);
    }
    if (widths) {
        struct wisp_report *r = wisp_report_create();
        report_sizes(r, &f.dag, s.n_levels);
        wisp_report_num(r, "widest", (double)s.widest);
        wisp_report_num(r, "thinnest", (double)s.thinnest);
        wisp_report_num(r, "longest_path", (double)longest_path(&f.dag, work));
        wisp_report_num(r, "idle", (double)count_idle(&f.dag, work));
        wisp_report_object(r, "widths", widths);
        report_functions(r, &f.dag);
        st = wisp_report_done(out, r, err);
    } else st = wisp_fail_mem(err, 20 * all, "the levels of a graph");
    wisp_free(level);
    wisp_free(work);
    wisp_free(widths);
    wisp_dag_file_clear(&f);
    return st;
}

/* ---- rows ---- */

struct runner {
    struct wisp_dag_file f;
    struct wisp_dag_plan plan;
    struct wisp_dag_run run;
    uint32_t made[16];
    float *values;      /* (outputs) of a row */
    char *text;         /* names of the outputs */
    const char **names; /* (outputs) */
    wisp_on_values told;
    void *arg;
    size_t row;
};

static void runner_clear(struct runner *u)
{
    wisp_free(u->plan.part);
    wisp_free(u->run.x);
    wisp_free(u->values);
    wisp_free(u->text);
    wisp_free(u->names);
    wisp_dag_file_clear(&u->f);
}

static wisp_status runner_init(struct runner *u, const struct wisp_context *ctx, size_t n_rows,
                               wisp_error *err)
{
    const struct wisp_dag *d = &u->f.dag;
    const size_t lanes = wisp_up(n_rows < BATCH ? n_rows : BATCH, 16), all = d->n_nodes + d->n_in;
    u->plan.made = u->made;
    u->plan.part = wisp_alloc(d->n_nodes + 1, sizeof *u->plan.part);
    u->run = (struct wisp_dag_run){ .dag = d, .plan = &u->plan, .ctx = ctx, .lanes = lanes };
    u->run.x = wisp_mem_fits(all * lanes * sizeof(float))
                   ? wisp_alloc(all * lanes, sizeof *u->run.x)
                   : NULL;
    u->values = wisp_alloc(d->n_out, sizeof *u->values);
    u->text = wisp_alloc(d->n_out, WISP_NODE_NAME);
    u->names = wisp_alloc(d->n_out, sizeof *u->names);
    if (!u->plan.part || !u->run.x || !u->values || !u->text || !u->names)
        return wisp_fail_mem(err, all * lanes * sizeof(float), "the values of a graph");
    for (size_t o = 0; o < d->n_out; o++)
        u->names[o] = wisp_dag_name(u->text + o * WISP_NODE_NAME, &u->f, (size_t)d->out[o]);
    wisp_dag_plan(&u->plan, d);
    return WISP_OK;
}

static float *value_at(const struct wisp_dag_run *r, size_t node, size_t sample)
{
    const size_t in = sample % WISP_DAG_TILE, all = r->dag->n_nodes + r->dag->n_in;
    return r->x + wisp_dag_at(r->lanes, all, node, sample - in) + in;
}

/* Rows first .. first+n-1 of a block of lists. */
static wisp_status run_rows(struct runner *u, const struct wisp_data *d, const struct wisp_rows *r,
                            size_t first, size_t n, wisp_error *err)
{
    struct wisp_dag_run *run = &u->run;
    const struct wisp_dag *dag = run->dag;
    for (size_t t = 0; t < run->lanes; t += WISP_DAG_TILE)
        memset(value_at(run, dag->n_nodes, t), 0,
               dag->n_in * wisp_dag_width(run->lanes, t) * sizeof *run->x);
    for (size_t s = 0; s < n; s++)
        for (uint32_t e = r->xp[first + s]; e < r->xp[first + s + 1]; e++)
            *value_at(run, dag->n_nodes + (size_t)wisp_row_id(r, e), s) = wisp_row_value(r, e);
    run->n = n;
    wisp_dag_forward(run);
    for (size_t s = 0; s < n; s++, u->row++) {
        for (size_t o = 0; o < dag->n_out; o++) {
            const float y = *value_at(run, (size_t)dag->out[o], s);
            if (!isfinite(y))
                return wisp_fail_row(
                    err, WISP_ENUMERIC, u->row, wisp_row_base(d),
                    "the value of output '%s' is %g; expected a finite number: make "
                    "weights or inputs smaller",
                    u->names[o], (double)y);
            u->values[o] = y;
        }
        u->told(u->arg, u->row, u->names, u->values, dag->n_out);
    }
    return WISP_OK;
}

static wisp_status run_all(struct runner *u, const struct wisp_data *d, wisp_error *err)
{
    struct wisp_lists lists = { 0 };
    wisp_status st = WISP_OK;
    for (size_t b = 0; st == WISP_OK && b < d->n_blocks; b++) {
        const struct wisp_rows *r;
        st = wisp_rows_lists(&r, &lists, &d->blocks[b], err);
        for (size_t i = 0; st == WISP_OK && i < r->n; i += BATCH)
            st = run_rows(u, d, r, i, r->n - i < BATCH ? r->n - i : BATCH, err);
    }
    wisp_lists_clear(&lists);
    return st;
}

static wisp_status check_rows(const struct wisp_context *ctx, const struct wisp_dag *d,
                              const char *path, const wisp_data *rows, wisp_error *err)
{
    if (rows->format && rows->format->words)
        return wisp_fail_at(err, WISP_EFORMAT, rows->source, 0,
                            "found text, expected rows of numbers: feature i is input i of %s",
                            path);
    if (rows->named & WISP_NAMED_FEATURES)
        return wisp_fail_at(err, WISP_EFORMAT, rows->source, 0,
                            "features far beyond the %zu inputs of %s; feature i is input i",
                            d->n_in, path);
    if (rows->n_features > d->n_in)
        return wisp_fail(err, WISP_EINVAL,
                         "the rows have %zu features, but %s has %zu inputs; expected as many, in "
                         "the same order",
                         rows->n_features, path, d->n_in);
    if (rows->n_features < d->n_in)
        wisp_say(ctx, "the rows have %zu features and the graph %zu inputs: the last are 0",
                 rows->n_features, d->n_in);
    return WISP_OK;
}

wisp_status wisp_graph_run(wisp_report **out, wisp_context *ctx, const char *path,
                           const wisp_data *rows, const wisp_config *cfg, wisp_on_values on_values,
                           void *arg, wisp_error *err)
{
    struct runner u = { .told = on_values, .arg = arg };
    *out = NULL;
    wisp_status st = read_graph(&u.f, path, cfg, err);
    if (st == WISP_OK) st = check_rows(ctx, &u.f.dag, path, rows, err);
    if (st == WISP_OK) st = runner_init(&u, ctx, rows->n_rows, err);
    const double begin = wisp_now();
    if (st == WISP_OK) st = run_all(&u, rows, err);
    if (st == WISP_OK) {
        const double seconds = wisp_now() - begin;
        struct wisp_report *r = wisp_report_create();
        wisp_report_num(r, "rows", (double)u.row);
        report_sizes(r, &u.f.dag, wisp_dag_measure(&u.f.dag, NULL).n_levels);
        wisp_report_num(r, "threads", wisp_pool_threads(ctx->pool));
        wisp_report_num(r, "seconds", seconds);
        st = wisp_report_done(out, r, err);
    }
    runner_clear(&u);
    return st;
}
