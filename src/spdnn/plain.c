/* A deep sparse net, one input at a time: the definition that tests compare with. */
#include "spdnn/spdnn.h"

#include <math.h>
#include <string.h>

static void load(double *x, const struct wisp_spinputs *in, size_t row)
{
    for (uint32_t i = 0; i < in->width; i++)
        x[i] = in->bits ? (double)(in->bits[row * in->words + i / 64] >> i % 64 & 1) : 0;
    if (!in->bits)
        for (uint64_t k = in->start[row]; k < in->start[row + 1]; k++) x[in->id[k]] = in->value[k];
}

static void layer(double *y, const double *x, const struct wisp_splayer *l, double clip)
{
    for (uint32_t g = 0; g < l->n_groups; g++) {
        const uint32_t *in = l->in + l->in_start[g];
        const size_t n = l->in_start[g + 1] - l->in_start[g];
        const size_t m = l->out_start[g + 1] - l->out_start[g];
        for (size_t o = 0; o < m; o++) {
            const uint32_t id = l->out[l->out_start[g] + o];
            double sum = 0;
            for (size_t k = 0; k < n; k++)
                sum += (double)(l->w ? l->w[l->w_start[g] + k * m + o] : l->weight) * x[in[k]];
            sum += (double)(l->biases ? l->biases[id] : l->bias);
            y[id] = l->linear ? sum : fmin(clip, fmax(0, sum));
        }
    }
}

void wisp_spnet_plain(double *values, const struct wisp_spnet *net, const struct wisp_spinputs *x,
                      size_t row, double *scratch)
{
    double *from = scratch, *to = scratch + wisp_spnet_width(net);
    load(from, x, row);
    for (size_t i = 0; i < net->n_layers; i++) {
        layer(to, from, &net->layers[i], net->clip);
        double *swap = from;
        from = to;
        to = swap;
    }
    memcpy(values, from, net->layers[net->n_layers - 1].n_out * sizeof *values);
}
