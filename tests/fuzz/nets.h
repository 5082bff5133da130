/* Deep sparse networks for fuzz targets: what is accepted is walked through as running it would. */
#ifndef WISP_TESTS_FUZZ_NETS_H
#define WISP_TESTS_FUZZ_NETS_H

#include "fuzz/rig.h"

#include "spdnn/spdnn.h"

#include <math.h>

static inline void use_layer(const struct wisp_splayer *l)
{
    uint64_t n = 0;
    unsigned sum = 0;
    uint8_t *seen = calloc(l->n_out, 1);
    for (uint32_t g = 0; g < l->n_groups; g++) {
        if (l->in_start[g] > l->in_start[g + 1] || l->out_start[g] >= l->out_start[g + 1])
            fuzz_die("places", NULL);
        for (uint32_t i = l->in_start[g]; i < l->in_start[g + 1]; i++)
            if (l->in[i] >= l->n_in || (i > l->in_start[g] && l->in[i] <= l->in[i - 1]))
                fuzz_die("an input", NULL);
        for (uint32_t o = l->out_start[g]; o < l->out_start[g + 1]; o++) {
            if (l->out[o] >= l->n_out || seen[l->out[o]]++) fuzz_die("an output", NULL);
            for (uint32_t i = l->in_start[g]; i < l->in_start[g + 1]; i++, n++) {
                const uint64_t m = l->out_start[g + 1] - l->out_start[g];
                if (l->w &&
                    !isfinite(l->w[l->w_start[g] + (i - l->in_start[g]) * m + o - l->out_start[g]]))
                    fuzz_die("a weight", NULL);
            }
            if (l->biases && !isfinite(l->biases[l->out[o]])) fuzz_die("a bias", NULL);
        }
    }
    for (uint32_t o = 0; o < l->n_out; o++) sum += seen[o];
    free(seen);
    if (sum != l->n_out || n != l->n_edges || !isfinite(l->weight) || !isfinite(l->bias))
        fuzz_die("totals", NULL);
}

static inline void use_net(const struct wisp_spnet *net)
{
    if (!(net->clip > 0)) fuzz_die("clip", NULL);
    for (size_t i = 0; i < net->n_layers; i++) {
        use_layer(&net->layers[i]);
        if (i && net->layers[i].n_in != net->layers[i - 1].n_out) fuzz_die("widths", NULL);
    }
}

static inline void use_inputs(const struct wisp_spinputs *x)
{
    unsigned sum = 0;
    if (x->words != ((size_t)x->width + 63) / 64 || !x->bits == !x->start) fuzz_die("shape", NULL);
    for (size_t r = 0; r < x->n; r++) {
        if (x->bits) {
            for (size_t k = 0; k < x->words; k++) sum += (unsigned)x->bits[r * x->words + k];
            if (x->width % 64 && x->bits[(r + 1) * x->words - 1] >> x->width % 64)
                fuzz_die("a bit beyond the width", NULL);
            continue;
        }
        if (x->start[r] > x->start[r + 1]) fuzz_die("places", NULL);
        for (uint64_t i = x->start[r]; i < x->start[r + 1]; i++)
            if (x->id[i] >= x->width || (i > x->start[r] && x->id[i] <= x->id[i - 1]) ||
                !isfinite(x->value[i]))
                fuzz_die("a value", NULL);
    }
    fuzz_sink = sum;
}

static inline bool same_inputs(const struct wisp_spinputs *a, const struct wisp_spinputs *b)
{
    if (a->n != b->n || a->width != b->width || !a->bits != !b->bits) return false;
    if (a->bits) return memcmp(a->bits, b->bits, 8 * a->n * a->words) == 0;
    return !memcmp(a->start, b->start, 8 * (a->n + 1)) &&
           !memcmp(a->id, b->id, 4 * a->start[a->n]) &&
           !memcmp(a->value, b->value, 4 * a->start[a->n]);
}

#endif
