/* The functions of nodes (dag.h): one row each.
 *
 * Those that need an exponential take it of numbers that are not above 0, so that nothing overflows,
 * by the kernel of the softmax. */
#include "spdnn/dag.h"
#include "graph/ids.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

enum { RUN = 64 };

/* e[i] = exp(e[i]), n <= RUN. */
static void exps(const struct wisp_kernels *k, float *e, size_t n)
{
    static const float zeros[RUN];
    float sum[RUN];
    k->col_exp(e, n, sum, zeros, 1, n);
}

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
    for (size_t at = 0; at < n; at += RUN) {
        const size_t m = n - at < RUN ? n - at : RUN;
        float e[RUN], *z = y + at;
        for (size_t i = 0; i < m; i++) e[i] = -fabsf(z[i]);
        exps(k, e, m);
        for (size_t i = 0; i < m; i++) {
            const float share = 1 / (1 + e[i]);
            if (d) d[at + i] = e[i] * share * share;
            z[i] = z[i] < 0 ? e[i] * share : z[i] >= 0 ? share : z[i]; /* no number stays none */
        }
    }
}

/* Near 0 (1 - e) / (1 + e) has few digits; there it is the beginning of the series. */
static float tanh_of(float x, float e)
{
    const float s = x * x;
    const float near =
        x + x * s * (-1.0f / 3 + s * (2.0f / 15 + s * (-17.0f / 315 + s * (62.0f / 2835))));
    return s >= 0.1f ? copysignf((1 - e) / (1 + e), x) : near; /* of no number none */
}

static void run_tanh(const struct wisp_kernels *k, float *y, float *d, size_t n)
{
    for (size_t at = 0; at < n; at += RUN) {
        const size_t m = n - at < RUN ? n - at : RUN;
        float e[RUN], *z = y + at;
        for (size_t i = 0; i < m; i++) e[i] = -2 * fabsf(z[i]);
        exps(k, e, m);
        for (size_t i = 0; i < m; i++) {
            const float share = 1 / (1 + e[i]);
            if (d) d[at + i] = 4 * e[i] * share * share;
            z[i] = tanh_of(z[i], e[i]);
        }
    }
}

static void run_gauss(const struct wisp_kernels *k, float *y, float *d, size_t n)
{
    for (size_t at = 0; at < n; at += RUN) {
        const size_t m = n - at < RUN ? n - at : RUN;
        float e[RUN], *z = y + at;
        for (size_t i = 0; i < m; i++) e[i] = -z[i] * z[i];
        exps(k, e, m);
        for (size_t i = 0; i < m; i++) {
            if (d) d[at + i] = e[i] > 0 ? -2 * z[i] * e[i] : 0;
            z[i] = z[i] == z[i] ? e[i] : z[i];
        }
    }
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

static const struct wisp_node_function table[] = {
    [WISP_NODE_IDENTITY] = { "identity", "x", false, run_identity, back_identity },
    [WISP_NODE_RELU] = { "relu", "x above 0, else 0", false, run_relu, back_relu },
    [WISP_NODE_TANH] = { "tanh", "the hyperbolic tangent", false, run_tanh, NULL },
    [WISP_NODE_SIGMOID] = { "sigmoid", "1 / (1 + exp(-x))", false, run_sigmoid, NULL },
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
