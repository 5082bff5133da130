/* Nets of any shape without cycles: nodes and edges of a file, and how a batch goes through them.
 *
 *     file --> read and levelled (dagfile.c) --> struct wisp_dag --> forward, backward (dag.c)
 *
 * A node is an input, or has a function (functions.c) of its bias and what comes over its edges:
 *
 *     value = f(bias + sum over edges of weight * value of the node where the edge begins)
 *
 * Nodes that are no inputs are numbered first, by level, so that each comes after all nodes it reads;
 * inputs follow them.  (So a layer whose inputs become more keeps its numbers.)  A tile is
 * WISP_DAG_TILE samples, whose values lie as (nodes, samples): an edge is a row times a number, and a
 * node's edges are a bag of rows.  Nodes of a level do not read each other:
 *
 *     wide levels, in a row   a tile goes through all of them before the next one does; nodes of a
 *                             level are shared among threads
 *     thin ones, in a row     the tiles are: each goes through all of them without waiting
 *
 * On the way back a node reads the gradients of those that read it once, for its own gradient and for
 * those of the weights between them (bag_dots).  Its value is not needed after that, so its gradient
 * lies where that was: one array is read and written, not two.
 *
 * Which is which depends on the net alone, and every sum has one order. */
#ifndef WISP_SPDNN_DAG_H
#define WISP_SPDNN_DAG_H

#include "base/context.h"

#include <stdbool.h>

struct wisp_kernels;

/* ---- functions (functions.c) ---- */

struct wisp_node_function {
    const char *name, *what;
    bool flat; /* its derivative is 0 wherever there is one: nothing below it would learn */
    /* y[i] = f(y[i]); d[i] = its derivative there, unless d is NULL. */
    void (*run)(const struct wisp_kernels *k, float *y, float *d, size_t n);
    /* gz[i] = g[i] times the derivative where the value is y[i]; NULL: the value does not tell. */
    void (*back)(const struct wisp_kernels *k, float *gz, const float *g, const float *y, size_t n);
};
const struct wisp_node_function *wisp_node_function_at(size_t i); /* NULL past the end */
const char *wisp_node_function_name(size_t i);                    /* the same */
/* -1: there is none. */
int wisp_node_function_find(const char *name, size_t bytes);
size_t wisp_node_functions(void);

/* ---- a net ---- */

struct wisp_dag {   /* its arrays are somebody else's */
    size_t n_nodes; /* that are no inputs: 0 .. n_nodes - 1 */
    size_t n_in;    /* inputs: n_nodes .. n_nodes + n_in - 1 */
    size_t n_out, n_edges;
    const int64_t *start;    /* (n_nodes + 1) edges to a node */
    const int32_t *from;     /* (n_edges) where they begin, ascending for each node */
    const int32_t *function; /* (n_nodes) */
    const int32_t *out;      /* (n_out) nodes whose values are the result, none twice */
    const float *w, *bias;   /* (n_edges), (n_nodes) */
};
/* Does each node read nodes before it, and inputs, alone?  Else *bad is the first that does not. */
bool wisp_dag_ordered(const struct wisp_dag *d, size_t *bad);

struct wisp_dag_sizes {
    size_t n_levels;         /* nodes of the longest path, but for the input where it begins */
    size_t widest, thinnest; /* nodes of a level */
};
/* level (n_nodes + 1, NULL: not wanted): the first node of each, and where the last ends. */
struct wisp_dag_sizes wisp_dag_measure(const struct wisp_dag *d, uint32_t *level);

/* ---- a batch on its way (dag.c) ---- */

/* A level with fewer edges and nodes than this is thin: to share them among threads would take longer
 * than they do.  Only tests change it. */
extern size_t wisp_dag_thin;

/* What is found out of a net once. */
struct wisp_dag_plan {
    uint32_t *made; /* (16) [0]: 1, it was; [1]: parts; [2]: edges were filed */
    uint32_t *part; /* (n_nodes + 1) first node of each part, twice it, + 1 if it is wide */
    /* to train with, or NULL: edges by the node where they begin */
    uint32_t *begin; /* (n_nodes + n_in + 1) */
    uint32_t *at;    /* (n_edges) the place of each edge among them */
    int32_t *target; /* (n_edges) where they end, place by place */
    int32_t *place;  /* (n_nodes + n_in) among the outputs, + 1; 0: none */
};
/* Fills it, unless that was done: 'made' is all zero at first. */
void wisp_dag_plan(struct wisp_dag_plan *p, const struct wisp_dag *d);

struct wisp_dag_run { /* one batch */
    const struct wisp_dag *dag;
    const struct wisp_dag_plan *plan;
    const struct wisp_context *ctx;
    size_t n, lanes; /* samples; the same, up to a multiple of 16 */
    /* tile by tile, each (rows, WISP_DAG_TILE), the last may be narrower: wisp_dag_at() */
    float
        *x; /* (n_nodes + n_in) values; those of inputs are there; on the way back gradients of the
                 nodes' sums take the place of their values */
    float *d; /* (n_nodes) derivatives; NULL: not wanted */
    /* of backward */
    const float *gy; /* (n, n_out) gradients of the result */
    float *weight;   /* (n_edges) by plan->at: work space */
    float *gw;       /* (n_edges) gradients of the weights, by plan->at */
    float *gb;       /* (n_nodes) and of the biases */
    float *gx;       /* (n_in), tile by tile: gradients of the inputs; NULL: not wanted */
};
/* Samples of a tile: a usual batch is one.  Tiles of 32 were not faster for the nets of bench/graph.c, and
 * slower with tanh. */
enum { WISP_DAG_TILE = 64 };
static inline size_t wisp_dag_width(size_t lanes, size_t first) /* floats of a row of its tile */
{
    return lanes - first < WISP_DAG_TILE ? lanes - first : WISP_DAG_TILE;
}
/* Where 'row' of n_rows has the first sample of a tile. */
static inline size_t wisp_dag_at(size_t lanes, size_t n_rows, size_t row, size_t first)
{
    return first * n_rows + row * wisp_dag_width(lanes, first);
}
/* Values of all nodes, and derivatives. */
void wisp_dag_forward(const struct wisp_dag_run *r);
/* Gradients of all nodes' sums (r->x), of weights, biases and inputs.  Weights are those of forward. */
void wisp_dag_backward(const struct wisp_dag_run *r);

/* ---- files (dagfile.c) ---- */

struct wisp_dag_file {
    struct wisp_dag dag; /* of what is here */
    int64_t *start;
    int32_t *from, *function, *out;
    float *w, *bias;
    char *names;     /* each ended by 0; NULL: nodes have numbers */
    size_t *name_at; /* (n_nodes + n_in) */
    uint32_t *said;  /* (n_nodes + n_in) the number of a node in the file, from 0 */
};
enum { WISP_NODE_NAME = 80 };
/* For messages: the name of a node, or its number from 1. */
const char *wisp_dag_name(char out[WISP_NODE_NAME], const struct wisp_dag_file *f, size_t node);

/* MatrixMarket, n x n, whose rows are the nodes where edges end: nodes without such edges are inputs,
 * nodes without others outputs (identity), and all between have 'function' (-1: relu); or lines that
 * say what nodes are (docs/graphs.md), which say all functions: there it must be -1.  On failure *out
 * is empty. */
wisp_status wisp_dag_read(struct wisp_dag_file *out, const char *path, int function,
                          wisp_error *err);
void wisp_dag_file_clear(struct wisp_dag_file *f);

#endif
