/* Deep sparse layers in plain C: the definition of what the other forms compute. */
#include "kernels/kernels.h"

#include <math.h>

enum { LANES = WISP_PANEL };

/* One output of a group, 16 lanes of it. */
static void output(float *y, const float *x, size_t lanes, const struct wisp_groups *g, uint32_t in,
                   size_t n, const float *w, size_t ldw, uint32_t id)
{
    float sum[LANES] = { 0 };
    for (size_t k = 0; k < n; k++) {
        const float *row = x + (size_t)g->in[in + k] * lanes, by = w ? w[k * ldw] : 1;
        for (int j = 0; j < LANES; j++) sum[j] += by * row[j];
    }
    const float bias = g->biases ? g->biases[id] : g->bias, all = w ? 1 : g->weight;
    for (int j = 0; j < LANES; j++) {
        const float s = all * sum[j] + bias;
        y[(size_t)id * lanes + j] = g->linear ? s : fminf(g->clip, fmaxf(0, s));
    }
}

static void look(struct wisp_lanes *seen, const float *y, size_t lanes, uint32_t n_out, float clip)
{
    *seen = (struct wisp_lanes){ 0, 0 };
    for (size_t j = 0; j < lanes; j++) {
        bool zero = true, full = true;
        for (size_t i = 0; i < n_out; i++) {
            zero &= y[i * lanes + j] == 0;
            full &= y[i * lanes + j] == clip;
        }
        seen->zero |= (uint64_t)zero << j;
        seen->full |= (uint64_t)full << j;
    }
}

static void groups(float *y, const float *x, size_t lanes, const struct wisp_groups *g,
                   struct wisp_lanes *seen)
{
    for (uint32_t i = 0; i < g->n_groups; i++) {
        const uint32_t in = g->in_start[i], out = g->out_start[i];
        const size_t n = g->in_start[i + 1] - in, m = g->out_start[i + 1] - out;
        for (size_t o = 0; o < m; o++)
            for (size_t c = 0; c < lanes; c += LANES)
                output(y + c, x + c, lanes, g, in, n, g->w ? g->w + g->w_start[i] + o : NULL, m,
                       g->out[out + o]);
    }
    if (seen) look(seen, y, lanes, g->out_start[g->n_groups], g->clip);
}

static void spread(float *x, size_t lanes, const uint64_t *const row[16], size_t words)
{
    for (size_t i = 0; i < 64 * words; i++)
        for (int j = 0; j < LANES; j++) x[i * lanes + j] = (float)(row[j][i / 64] >> i % 64 & 1);
}

static void tally(float *x, size_t lanes, const uint64_t *const row[16], size_t words,
                  size_t planes)
{
    for (size_t i = 0; i < 64 * words; i++)
        for (int j = 0; j < LANES; j++) {
            uint32_t n = 0;
            for (size_t p = 0; p < planes; p++) n += row[j][p * words + i / 64] >> i % 64 & 1;
            x[i * lanes + j] = (float)n;
        }
}

static void pack(float *y, size_t ldy, const float *x, size_t ldx, const uint8_t which[16],
                 size_t n, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++) y[i * ldy + j] = x[i * ldx + which[j]];
}

void wisp_kernels_deep_scalar(struct wisp_kernels *k)
{
    k->groups = groups;
    k->spread = spread;
    k->tally = tally;
    k->pack = pack;
}
