/* Which vectors no later layer changes.
 *
 * All zero: a layer gives max(0, bias), so it stays zero where no bias is above 0.
 * All at the clip: an output gives clip * (sum of its weights) + bias, which is cut to the clip
 * where it is at least that.  The sum is taken in double precision and must pass the clip by a
 * margin that covers what single precision may lose in any order of adding: 2^-23 of the sum of the
 * absolute terms for each of them.
 * Linear layers hand zeros on where they have no bias.  They break the other rule, as their outputs
 * are not at the clip: merged nets take their rules from the net they were made of (merge.c). */
#include "spdnn/spdnn.h"
#include "base/mem.h"

#include <math.h>

static bool keeps_zero(const struct wisp_splayer *l)
{
    for (uint32_t o = 0; o < (l->biases ? l->n_out : 1); o++) {
        const float bias = l->biases ? l->biases[o] : l->bias;
        if (l->linear ? bias != 0 : bias > 0) return false;
    }
    return true;
}

static bool keeps_full(const struct wisp_splayer *l, float clip)
{
    if (l->linear || !(clip > 0) || isinf(clip)) return false;
    for (uint32_t g = 0; g < l->n_groups; g++) {
        const size_t n = l->in_start[g + 1] - l->in_start[g];
        const size_t m = l->out_start[g + 1] - l->out_start[g];
        for (size_t o = 0; o < m; o++) {
            double sum = (double)n * l->weight, mass = fabs(sum);
            if (l->w) {
                sum = mass = 0;
                for (size_t k = 0; k < n; k++) {
                    const double w = l->w[l->w_start[g] + k * m + o];
                    sum += w;
                    mass += fabs(w);
                }
            }
            const double bias = l->biases ? l->biases[l->out[l->out_start[g] + o]] : l->bias;
            const double lost = (mass * clip + fabs(bias)) * 0x1p-23 * (double)(n + 2);
            if (!(sum * clip + bias - lost >= clip)) return false;
        }
    }
    return true;
}

struct rules {
    const struct wisp_spnet *net;
    uint8_t *zero, *full; /* (layers) */
};

static void look(void *arg, size_t i, int thread)
{
    struct rules *r = arg;
    (void)thread;
    r->zero[i] = keeps_zero(&r->net->layers[i]);
    r->full[i] = keeps_full(&r->net->layers[i], r->net->clip);
}

/* The first of the layers at the end that all keep it. */
static size_t suffix(const uint8_t *keeps, size_t n)
{
    while (n > 0 && keeps[n - 1]) n--;
    return n;
}

wisp_status wisp_spnet_rules(struct wisp_spnet *net, struct wisp_pool *pool, wisp_error *err)
{
    uint8_t *keeps = wisp_alloc(2 * net->n_layers, 1);
    if (!keeps) return wisp_fail_mem(err, 2 * net->n_layers, "the rules of the layers");
    struct rules r = { net, keeps, keeps + net->n_layers };
    wisp_parallel_for(pool, net->n_layers, look, &r);
    net->zero_from = suffix(r.zero, net->n_layers);
    net->full_from = suffix(r.full, net->n_layers);
    wisp_free(keeps);
    return WISP_OK;
}
