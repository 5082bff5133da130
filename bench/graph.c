/* bench/graph.c [THREADS [THIN]]: graphs of 10^5 nodes and 10^6 edges, a batch of 64, by levels and by a walk.
 *
 * The walk is what one would write: each sample by itself, node after node in an order in which they
 * can be computed, one core; its arrays lie in that order.  Values of both must agree.  Medians of 9
 * runs; of the walk and of one thread CPU time, in which neighbours on the same core do not count.
 * THIN: wisp_dag_thin. */
#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "kernels/kernels.h"
#include "spdnn/dag.h"

#include "graph_net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 9 };
enum {
    NODES = GRAPH_NODES,
    INPUTS = GRAPH_INPUTS,
    FAN = GRAPH_FAN,
    BATCH = GRAPH_BATCH,
    OUTPUTS = GRAPH_OUTPUTS
};

struct graph {
    int64_t *start;
    int32_t *from, *function, *out;
    float *w, *bias;
};

static void make_graph(struct wisp_dag *d, struct graph *g, size_t levels, const char *function)
{
    const int fn = wisp_node_function_find(function, strlen(function));
    *g = (struct graph){ .start = wisp_alloc(NODES + 1, 8),
                         .from = wisp_alloc(NODES * FAN, 4),
                         .function = wisp_alloc(NODES, 4),
                         .out = wisp_alloc(OUTPUTS, 4),
                         .w = wisp_alloc(NODES * FAN, 4),
                         .bias = wisp_zalloc(NODES, 4) };
    for (size_t r = 0; r < NODES; r++) g->function[r] = fn;
    graph_draw(g->start, g->from, g->w, g->out, levels);
    *d = (struct wisp_dag){ NODES,    INPUTS,  OUTPUTS,     (size_t)NODES * FAN,
                            g->start, g->from, g->function, g->out,
                            g->w,     g->bias };
}

/* One sample: v has the inputs. */
static void walk(float *restrict v, const struct wisp_dag *d, bool tangent)
{
    const int32_t *restrict from = d->from;
    const float *restrict w = d->w;
    for (size_t r = 0; r < d->n_nodes; r++) {
        float sum = d->bias[r];
        for (int64_t e = d->start[r]; e < d->start[r + 1]; e++) sum += w[e] * v[from[e]];
        v[r] = tangent ? tanhf(sum) : sum > 0 ? sum : 0;
    }
}

/* And back: g has the gradients of the outputs; gw those of the weights, added up. */
static void walk_back(float *restrict g, float *restrict gw, const float *restrict v,
                      const struct wisp_dag *d, bool tangent)
{
    const int32_t *restrict from = d->from;
    const float *restrict w = d->w;
    for (size_t r = d->n_nodes; r-- > 0;) {
        const float slope = tangent ? 1 - v[r] * v[r] : v[r] > 0, gz = g[r] * slope;
        for (int64_t e = d->start[r]; e < d->start[r + 1]; e++) {
            gw[e] += gz * v[from[e]];
            g[from[e]] += w[e] * gz;
        }
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct job {
    struct wisp_dag_run r;
    float *gw; /* (edges) */
};

/* By the nodes where edges end, as the optimiser wants them. */
static void weight_rows(void *arg, size_t task, int thread)
{
    (void)thread;
    const struct job *j = arg;
    const size_t first = task << 14, left = j->r.dag->n_edges - first;
    for (size_t e = first; e < first + (left < 1 << 14 ? left : 1 << 14); e++)
        j->gw[e] = j->r.gw[j->r.plan->at[e]];
}

struct times {
    double forward, back;
};

static double now(int threads)
{
    struct timespec t;
    if (threads > 1) return wisp_now();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *value_at(const struct wisp_dag_run *r, size_t node, size_t sample)
{
    const size_t in = sample % WISP_DAG_TILE;
    return r->x + wisp_dag_at(r->lanes, NODES + INPUTS, node, sample - in) + in;
}

static struct times by_levels(struct job *j, float *x, float *gy)
{
    const int threads = wisp_pool_threads(j->r.ctx->pool);
    double forward[RUNS], back[RUNS];
    const struct wisp_dag *d = j->r.dag;
    float *slopes = j->r.d;
    for (int i = -1; i < RUNS; i++) {
        for (size_t s = 0; s < BATCH; s++)
            for (size_t k = 0; k < INPUTS; k++) *value_at(&j->r, NODES + k, s) = x[s * INPUTS + k];
        double t = now(threads);
        j->r.d = NULL;
        wisp_dag_forward(&j->r);
        if (i >= 0) forward[i] = now(threads) - t;
        j->r.d = slopes;
        j->r.gy = gy;
        t = now(threads);
        wisp_dag_forward(&j->r); /* a training step, with derivatives */
        wisp_dag_backward(&j->r);
        wisp_parallel_for(j->r.ctx->pool, (d->n_edges + (1 << 14) - 1) >> 14, weight_rows, j);
        if (i >= 0) back[i] = now(threads) - t;
    }
    wisp_dag_forward(&j->r); /* the way back has taken the place of the values */
    qsort(forward, RUNS, sizeof *forward, by_value);
    qsort(back, RUNS, sizeof *back, by_value);
    return (struct times){ forward[RUNS / 2], back[RUNS / 2] };
}

static struct times by_walk(float *out, float *gw, const struct wisp_dag *d, const float *x,
                            const float *gy, bool tangent)
{
    double forward[RUNS], both[RUNS];
    float *v = wisp_alloc(NODES + INPUTS, 4), *g = wisp_alloc(NODES + INPUTS, 4);
    for (int i = 0; i < RUNS; i++) {
        double t = now(1), ahead = 0;
        memset(gw, 0, (size_t)NODES * FAN * 4);
        for (size_t s = 0; s < BATCH; s++) {
            const double t0 = now(1);
            memcpy(v + NODES, x + s * INPUTS, INPUTS * 4);
            walk(v, d, tangent);
            ahead += now(1) - t0;
            memset(g, 0, (NODES + INPUTS) * 4);
            for (size_t o = 0; o < OUTPUTS; o++) g[d->out[o]] = gy[s * OUTPUTS + o];
            for (size_t o = 0; o < OUTPUTS; o++) out[s * OUTPUTS + o] = v[d->out[o]];
            walk_back(g, gw, v, d, tangent);
        }
        both[i] = now(1) - t;
        forward[i] = ahead;
    }
    wisp_free(v), wisp_free(g);
    qsort(forward, RUNS, sizeof *forward, by_value);
    qsort(both, RUNS, sizeof *both, by_value);
    return (struct times){ forward[RUNS / 2], both[RUNS / 2] };
}

static void measure(size_t levels, const char *function, int threads)
{
    const bool tangent = strcmp(function, "tanh") == 0;
    struct wisp_dag d;
    struct graph g;
    struct wisp_kernels k;
    const size_t all = NODES + INPUTS, edges = (size_t)NODES * FAN;
    make_graph(&d, &g, levels, function);
    if (wisp_kernels_select(&k, NULL, NULL)) exit(1);
    float *x = wisp_alloc(BATCH * INPUTS, 4), *gy = wisp_alloc(BATCH * OUTPUTS, 4);
    float *want = wisp_alloc(BATCH * OUTPUTS, 4), *gw = wisp_alloc(edges, 4);
    for (size_t i = 0; i < BATCH * INPUTS; i++) x[i] = (float)(wisp_rand(1, 4, i) % 1000) / 1000.0f;
    for (size_t i = 0; i < BATCH * OUTPUTS; i++)
        gy[i] = (float)(wisp_rand(1, 5, i) % 1000) / 1000.0f;
    const struct times plain = by_walk(want, gw, &d, x, gy, tangent);
    printf("%zu levels, %s: a walk %.1f ms forward, %.1f forward and back\n", levels, function,
           1e3 * plain.forward, 1e3 * plain.back);
    for (int t = 1; t <= threads; t *= 2) {
        struct wisp_context ctx = { .k = &k };
        uint32_t made[16] = { 0 };
        struct wisp_dag_plan plan = { made,
                                      wisp_alloc(NODES + 1, 4),
                                      wisp_alloc(all + 1, 4),
                                      wisp_alloc(edges, 4),
                                      wisp_alloc(edges, 4),
                                      wisp_alloc(all, 4) };
        if (wisp_pool_create(&ctx.pool, t, NULL)) exit(1);
        wisp_dag_plan(&plan, &d);
        struct job j = { .gw = wisp_alloc(edges, 4) };
        j.r = (struct wisp_dag_run){ .dag = &d,
                                     .plan = &plan,
                                     .ctx = &ctx,
                                     .n = BATCH,
                                     .lanes = BATCH,
                                     .x = wisp_alloc(all * BATCH, 4),
                                     .d = wisp_alloc((size_t)NODES * BATCH, 4),
                                     .weight = wisp_alloc(edges, 4),
                                     .gw = wisp_alloc(edges, 4),
                                     .gb = wisp_alloc(NODES, 4) };
        const struct times own = by_levels(&j, x, gy);
        double off = 0, most = 0, off_w = 0, most_w = 0;
        for (size_t s = 0; s < BATCH; s++)
            for (size_t o = 0; o < OUTPUTS; o++) {
                const float y = *value_at(&j.r, (size_t)d.out[o], s), z = want[s * OUTPUTS + o];
                off = fmax(off, fabs((double)y - z)), most = fmax(most, fabs(z));
            }
        for (size_t e = 0; e < edges; e++)
            off_w = fmax(off_w, fabs((double)j.gw[e] - gw[e])), most_w = fmax(most_w, fabs(gw[e]));
        printf(
            "  %2d threads: %6.1f ms forward (%.1fx), %6.1f forward and back (%.1fx); values off "
            "by %.1e of %.1e, gradients %.1e of %.1e\n",
            t, 1e3 * own.forward, plain.forward / own.forward, 1e3 * own.back,
            plain.back / own.back, off, most, off_w, most_w);
        fflush(stdout);
        wisp_pool_free(ctx.pool);
        wisp_free(plan.part), wisp_free(plan.begin), wisp_free(plan.at), wisp_free(plan.target);
        wisp_free(plan.place), wisp_free(j.gw), wisp_free(j.r.x), wisp_free(j.r.d);
        wisp_free(j.r.weight), wisp_free(j.r.gw), wisp_free(j.r.gb);
    }
    wisp_free(g.start), wisp_free(g.from), wisp_free(g.function), wisp_free(g.out);
    wisp_free(g.w), wisp_free(g.bias), wisp_free(x), wisp_free(gy), wisp_free(want), wisp_free(gw);
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    if (argc > 2) wisp_dag_thin = strtoul(argv[2], NULL, 10);
    static const size_t levels[] = { 10, 100, 1000 };
    for (size_t i = 0; i < 3; i++) measure(levels[i], "relu", threads);
    measure(100, "tanh", threads);
    return 0;
}
