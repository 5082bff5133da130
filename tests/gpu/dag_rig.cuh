/* Graphs of any shape for tests of cards: drawn ones, their parameters, and a plain walk in double. */
#ifndef WISP_TESTS_GPU_DAG_RIG_CUH
#define WISP_TESTS_GPU_DAG_RIG_CUH

#include "dag_functions.h"
#include "gpu/graph_rig.cuh"
#include "gpu/rig.cuh"

#include <algorithm>

struct rig_dag { /* as in spdnn/dag.h */
    size_t n_nodes, n_in, longest;
    std::vector<int64_t> start;
    std::vector<int32_t> from, function, out;
};

/* Levels of these widths, with functions that have a derivative.  A level of one node reads all of the
 * level before it; in others a node reads one of that level and up to 'fan' others before it, or, one in
 * eight, none at all.  Results are the last node and any others, inputs, too. */
static struct rig_dag rig_dag_draw(size_t n_in, const std::vector<size_t> &widths, size_t fan,
                                   size_t n_out)
{
    struct rig_dag d = { 0, n_in, 0, { 0 }, {}, {}, {} };
    for (size_t w : widths) d.n_nodes += w;
    auto input = [&](size_t i) { return (int32_t)(d.n_nodes + i); };
    size_t first = 0, before = 0; /* nodes of this level, of the one before it */
    for (size_t w : widths) {
        for (size_t o = first; o < first + w; o++) {
            std::vector<int32_t> from;
            if (w == 1) {
                for (size_t i = before; i < first; i++) from.push_back((int32_t)i);
                for (size_t i = 0; i < n_in && first == 0; i++) from.push_back(input(i));
            } else if (o % 8 != 3) {
                from.push_back(first ? (int32_t)(before + rig_below(first - before))
                                     : input(rig_below(n_in)));
                for (size_t k = rig_below(fan + 1); k > 0; k--) {
                    const size_t i = rig_below(first + n_in);
                    from.push_back(i < first ? (int32_t)i : input(i - first));
                }
            }
            std::sort(from.begin(), from.end());
            from.erase(std::unique(from.begin(), from.end()), from.end());
            d.from.insert(d.from.end(), from.begin(), from.end());
            d.start.push_back((int64_t)d.from.size());
            d.function.push_back((int32_t)rig_below(WISP_NODE_STEP));
            d.longest = std::max(d.longest, from.size());
        }
        before = first, first += w;
    }
    std::vector<bool> taken(d.n_nodes + n_in);
    for (size_t i = d.n_nodes - 1; d.out.size() < n_out; i = rig_below(taken.size())) {
        if (!taken[i]) d.out.push_back((int32_t)i);
        taken[i] = true;
    }
    return d;
}

/* The parameters of the last layer of a net that are not trained; weights and biases are there. */
static void rig_dag_fixed(struct graph_rig *net, struct rig_dag *d)
{
    struct wisp_param *starts = net->param(1, d->n_nodes + 1, NULL);
    starts->role = WISP_STARTS, starts->start = d->start.data();
    net->connections(1, d->from.size(), d->from.data());
    net->connections(1, d->n_nodes, d->function.data());
    net->connections(1, d->out.size(), d->out.data());
    for (size_t k : { (size_t)0, (size_t)3 }) { /* weights, and where edges begin */
        struct wisp_param &p = net->params.back()[k];
        p.rows = d->n_nodes, p.cols = d->longest, p.ragged = true, p.start = d->start.data();
    }
}

/* Weights of a node with many edges are small. */
static void rig_dag_scale(std::vector<float> *w, const struct rig_dag &d)
{
    for (size_t o = 0; o < d.n_nodes; o++)
        for (auto e = (size_t)d.start[o]; e < (size_t)d.start[o + 1]; e++)
            (*w)[e] /= sqrtf((float)(d.start[o + 1] - d.start[o]));
}

/* One sample: v (nodes, then inputs), whose inputs are there; z (nodes): the sums. */
static void rig_dag_walk(const struct rig_dag &d, const float *w, const float *bias,
                         std::vector<double> *v, std::vector<double> *z)
{
    for (size_t o = 0; o < d.n_nodes; o++) {
        double &sum = (*z)[o] = bias[o];
        for (auto e = (size_t)d.start[o]; e < (size_t)d.start[o + 1]; e++)
            sum += (double)w[e] * (*v)[(size_t)d.from[e]];
        (*v)[o] = dag_function(d.function[o], sum);
    }
}

/* And back: g (nodes, then inputs) has the gradients of the results, and then of all values; what the
 * sample adds to the gradients of weights and biases, times 'times'. */
static void rig_dag_back(const struct rig_dag &d, const float *w, const std::vector<double> &v,
                         const std::vector<double> &z, std::vector<double> *g, double *gw,
                         double *gb, double times)
{
    for (size_t o = d.n_nodes; o-- > 0;) {
        const double gz = (*g)[o] * dag_slope(d.function[o], z[o]);
        for (auto e = (size_t)d.start[o]; e < (size_t)d.start[o + 1]; e++) {
            (*g)[(size_t)d.from[e]] += (double)w[e] * gz;
            gw[e] += times * gz * v[(size_t)d.from[e]];
        }
        gb[o] += times * gz;
    }
}

#endif
