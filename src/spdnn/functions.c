/* The functions of nodes (dag.h): one row each. */
#include "spdnn/dag.h"
#include "graph/ids.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

static void run_identity(const struct wisp_kernels *k, float *y, float *d, size_t n)
{
    (void)k, (void)y;
    for (size_t i = 0; d && i < n; i++) d[i] = 1;
}

static void run_relu(const struct wisp_kernels *k, float *y, float *d, size_t n)
{
    for (size_t i = 0; d && i < n; i++) d[i] = y[i] > 0;
    k->relu(y, y, n);
}

static void run_sigmoid(const struct wisp_kernels *k, float *y, float *d, size_t n)
{
    k->row_sigmoid(y, y, n);
    for (size_t i = 0; d && i < n; i++) d[i] = y[i] * (1 - y[i]);
}

static void run_tanh(const struct wisp_kernels *k, float *y, float *d, size_t n)
{
    k->row_tanh(y, y, n);
    for (size_t i = 0; d && i < n; i++) d[i] = 1 - y[i] * y[i];
}

static void run_gauss(const struct wisp_kernels *k, float *y, float *d, size_t n)
{
    for (size_t i = 0; d && i < n; i++) d[i] = y[i];
    k->row_gauss(y, y, n);
    for (size_t i = 0; d && i < n; i++) d[i] = y[i] > 0 ? -2 * d[i] * y[i] : 0;
}

static void run_sin(const struct wisp_kernels *k, float *y, float *d, size_t n)
{
    (void)k;
    for (size_t i = 0; i < n; i++) {
        if (d) d[i] = cosf(y[i]);
        y[i] = sinf(y[i]);
    }
}

static void run_abs(const struct wisp_kernels *k, float *y, float *d, size_t n)
{
    (void)k;
    for (size_t i = 0; i < n; i++) {
        if (d) d[i] = (float)(y[i] > 0) - (float)(y[i] < 0);
        y[i] = fabsf(y[i]);
    }
}

static void run_step(const struct wisp_kernels *k, float *y, float *d, size_t n)
{
    (void)k;
    for (size_t i = 0; i < n; i++) {
        if (d) d[i] = 0;
        y[i] = y[i] == y[i] ? (float)(y[i] > 0) : y[i];
    }
}

/* What the values tell: nothing has to be kept for the way back. */
static void back_identity(const struct wisp_kernels *k, float *gz, const float *g, const float *y,
                          size_t n)
{
    (void)k, (void)y;
    memcpy(gz, g, n * sizeof *g);
}

static void back_relu(const struct wisp_kernels *k, float *gz, const float *g, const float *y,
                      size_t n)
{
    k->relu_back(gz, g, y, n);
}

static void back_sigmoid(const struct wisp_kernels *k, float *gz, const float *g, const float *y,
                         size_t n)
{
    (void)k;
    for (size_t i = 0; i < n; i++) gz[i] = g[i] * (y[i] * (1 - y[i]));
}

static void back_tanh(const struct wisp_kernels *k, float *gz, const float *g, const float *y,
                      size_t n)
{
    (void)k;
    for (size_t i = 0; i < n; i++) gz[i] = g[i] * (1 - y[i] * y[i]);
}

static const struct wisp_node_function table[] = {
    [WISP_NODE_IDENTITY] = { "identity", "x", false, run_identity, back_identity },
    [WISP_NODE_RELU] = { "relu", "x above 0, else 0", false, run_relu, back_relu },
    [WISP_NODE_TANH] = { "tanh", "the hyperbolic tangent", false, run_tanh, back_tanh },
    [WISP_NODE_SIGMOID] = { "sigmoid", "1 / (1 + exp(-x))", false, run_sigmoid, back_sigmoid },
    [WISP_NODE_GAUSS] = { "gauss", "exp(-x^2)", false, run_gauss, NULL },
    [WISP_NODE_SIN] = { "sin", "the sine", false, run_sin, NULL },
    [WISP_NODE_ABS] = { "abs", "|x|", false, run_abs, NULL },
    [WISP_NODE_STEP] = { "step", "1 above 0, else 0; cannot be trained", true, run_step, NULL },
};
enum { FUNCTIONS = sizeof table / sizeof *table };
_Static_assert((int)FUNCTIONS == (int)WISP_NODE_FUNCTIONS, "one row for each number");

const struct wisp_node_function *wisp_node_function_at(size_t i)
{
    return i < FUNCTIONS ? &table[i] : NULL;
}

const char *wisp_node_function_name(size_t i)
{
    return i < FUNCTIONS ? table[i].name : NULL;
}

int wisp_node_function_find(const char *name, size_t bytes)
{
    for (int i = 0; i < FUNCTIONS; i++)
        if (strlen(table[i].name) == bytes && memcmp(table[i].name, name, bytes) == 0) return i;
    return -1;
}

size_t wisp_node_functions(void)
{
    return FUNCTIONS;
}
