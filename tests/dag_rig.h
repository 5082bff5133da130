/* What the tests of graphs share: random ones as files, and a plain walk through them in double. */
#ifndef WISP_TEST_DAG_RIG_H
#define WISP_TEST_DAG_RIG_H

#include "dag_functions.h"
#include "test.h"
#include "spdnn/dag.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

struct dag_text {
    size_t n_in, n_nodes;
    size_t reach; /* how far back a node may read: small for long paths; inputs are always near */
    bool market;  /* MatrixMarket, with functions by rule */
    bool flat;    /* functions without a derivative, too */
};

static inline size_t dag_below(uint64_t *seed, size_t n)
{
    return (size_t)(test_rand(seed) % n);
}

/* Is there an edge from node 'from' (inputs first, then nodes in an order) to node 'to'? */
static inline bool dag_joined(uint64_t *seed, const struct dag_text *t, size_t from, size_t to)
{
    const bool near = from < t->n_in || to - from <= t->reach;
    return dag_below(seed, 100) < (near ? 30 : 2) || (t->market && from + 1 == to);
}

/* Nodes are named, and numbered, in another order than that of their edges. */
static inline void dag_write(FILE *f, uint64_t seed, const struct dag_text *t)
{
    const size_t n = t->n_in + t->n_nodes;
    size_t *name = malloc(n * sizeof *name), edges = 0, n_out = 0;
    for (size_t i = 0; i < n; i++) name[i] = i;
    for (size_t i = n; i > t->n_in + 1; i--) {
        const size_t k = t->n_in + dag_below(&seed, i - t->n_in), keep = name[i - 1];
        name[i - 1] = name[k], name[k] = keep;
    }
    uint64_t start = seed;
    for (int pass = 0; pass < 2; pass++) {
        seed = start;
        if (pass && t->market)
            fprintf(f, "%%%%MatrixMarket matrix coordinate real general\n%zu %zu %zu\n", n, n,
                    edges);
        for (size_t i = 0; pass && !t->market && i < t->n_in; i++) fprintf(f, "input n%zu\n", i);
        for (size_t to = t->n_in; to < n; to++) {
            const size_t functions = wisp_node_functions() - !t->flat;
            const char *function = wisp_node_function_name(dag_below(&seed, functions));
            char bias[32], weight[32];
            wisp_print(bias, sizeof bias, "%.9g", (double)test_randf(&seed));
            if (pass && !t->market) fprintf(f, "node n%zu %s %s\n", name[to], function, bias);
            for (size_t from = 0; from < to; from++) {
                if (!dag_joined(&seed, t, from, to)) continue;
                wisp_print(weight, sizeof weight, "%.9g", (double)test_randf(&seed));
                edges += !pass;
                if (pass && t->market)
                    fprintf(f, "%zu %zu %s\n", name[to] + 1, name[from] + 1, weight);
                else if (pass) fprintf(f, "n%zu n%zu %s\n", name[from], name[to], weight);
            }
        }
    }
    for (size_t i = 0; !t->market && i < n; i++) /* inputs, too */
        if (dag_below(&seed, 4) == 0 || (i + 1 == n && !n_out))
            fprintf(f, "output n%zu\n", name[i]), n_out++;
    free(name);
}

/* At 'path', which ends with XXXXXX. */
static inline void dag_make(char *path, uint64_t seed, const struct dag_text *t)
{
    int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    CHECK(f, "%s cannot be made", path);
    if (!f) return;
    dag_write(f, seed, t);
    fclose(f);
}

/* v (nodes, then inputs): the values of one sample, whose inputs are there. */
static inline void dag_walk(double *v, const struct wisp_dag *d, const double *w,
                            const double *bias)
{
    for (size_t i = 0; i < d->n_nodes; i++) {
        double sum = bias[i];
        for (int64_t e = d->start[i]; e < d->start[i + 1]; e++) sum += w[e] * v[d->from[e]];
        v[i] = dag_function(d->function[i], sum);
    }
}

#endif
