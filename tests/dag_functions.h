/* What the nodes of a graph compute, in double.  C and C++. */
#ifndef WISP_TEST_DAG_FUNCTIONS_H
#define WISP_TEST_DAG_FUNCTIONS_H

#include "graph/ids.h"

#include <math.h>

static inline double dag_function(int32_t f, double x)
{
    switch (f) {
    case WISP_NODE_IDENTITY:
        return x;
    case WISP_NODE_RELU:
        return fmax(x, 0);
    case WISP_NODE_TANH:
        return tanh(x);
    case WISP_NODE_SIGMOID:
        return 1 / (1 + exp(-x));
    case WISP_NODE_GAUSS:
        return exp(-x * x);
    case WISP_NODE_SIN:
        return sin(x);
    case WISP_NODE_ABS:
        return fabs(x);
    default:
        return x > 0;
    }
}

/* Its derivative; 0 at a kink. */
static inline double dag_slope(int32_t f, double x)
{
    const double y = dag_function(f, x);
    switch (f) {
    case WISP_NODE_IDENTITY:
        return 1;
    case WISP_NODE_RELU:
        return x > 0;
    case WISP_NODE_TANH:
        return 1 - y * y;
    case WISP_NODE_SIGMOID:
        return y * (1 - y);
    case WISP_NODE_GAUSS:
        return -2 * x * y;
    case WISP_NODE_SIN:
        return cos(x);
    case WISP_NODE_ABS:
        return (x > 0) - (x < 0);
    default:
        return 0;
    }
}

#endif
