/* Layers of few, fixed connections, and nets of them.
 *
 * Groups are found by hashing each output's list of inputs and comparing it with the list of the
 * group that has the same hash: O(edges), nothing is sorted.  A group's inputs are kept once for
 * all of its outputs, so the official networks take a 16th of what their files say. */
#include "spdnn/spdnn.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

void wisp_splayer_clear(struct wisp_splayer *l)
{
    wisp_free(l->in_start);
    wisp_free(l->in);
    wisp_free(l->out_start);
    wisp_free(l->out);
    wisp_free(l->w);
    wisp_free(l->w_start);
    wisp_free(l->biases);
    memset(l, 0, sizeof *l);
}

static wisp_status check(const struct wisp_edges *e, wisp_error *err)
{
    if (e->n_in == 0 || e->n_out == 0)
        return wisp_fail(err, WISP_EINVAL,
                         "a layer of %u inputs and %u outputs; both must be from 1 on", e->n_in,
                         e->n_out);
    if (e->start[e->n_out] > UINT32_MAX)
        return wisp_fail(err, WISP_EINVAL, "a layer of %llu edges; a layer may have 4294967295",
                         (unsigned long long)e->start[e->n_out]);
    for (uint32_t o = 0; o < e->n_out; o++)
        for (uint64_t k = e->start[o]; k < e->start[o + 1]; k++) {
            if (e->in[k] >= e->n_in || (k > e->start[o] && e->in[k] < e->in[k - 1]))
                return wisp_fail(err, WISP_EINVAL,
                                 "output %u: input %u after %u; ids must ascend and stay below %u",
                                 o, e->in[k], k > e->start[o] ? e->in[k - 1] : 0, e->n_in);
            if (e->w && !isfinite(e->w[k]))
                return wisp_fail(err, WISP_EINVAL,
                                 "output %u: the weight of input %u is not finite", o, e->in[k]);
        }
    for (uint32_t o = 0; e->biases && o < e->n_out; o++)
        if (!isfinite(e->biases[o]))
            return wisp_fail(err, WISP_EINVAL, "output %u: its bias is not finite", o);
    if (!isfinite(e->bias) || !isfinite(e->weight))
        return wisp_fail(err, WISP_EINVAL, "the bias %g or the weight %g is not finite",
                         (double)e->bias, (double)e->weight);
    return WISP_OK;
}

static bool same_inputs(const struct wisp_edges *e, uint32_t a, uint32_t b)
{
    const uint64_t n = e->start[a + 1] - e->start[a];
    return n == e->start[b + 1] - e->start[b] &&
           memcmp(e->in + e->start[a], e->in + e->start[b], n * sizeof *e->in) == 0;
}

/* group[o] of every output, numbered as they first appear; first[g] is a group's first output.
 * slot (a power of two > n_out) is scratch. */
static uint32_t find_groups(uint32_t *group, uint32_t *first, const struct wisp_edges *e,
                            uint32_t *slot, size_t n_slots)
{
    uint32_t n = 0;
    memset(slot, 0xff, n_slots * sizeof *slot);
    for (uint32_t o = 0; o < e->n_out; o++) {
        const size_t bytes = (e->start[o + 1] - e->start[o]) * sizeof *e->in;
        size_t at = XXH3_64bits(e->in + e->start[o], bytes) & (n_slots - 1);
        while (slot[at] != UINT32_MAX && !same_inputs(e, first[slot[at]], o))
            at = (at + 1) & (n_slots - 1);
        if (slot[at] == UINT32_MAX) {
            first[n] = o;
            slot[at] = n++;
        }
        group[o] = slot[at];
    }
    return n;
}

/* Lists of outputs by group. */
static void list_outputs(struct wisp_splayer *l, const uint32_t *group)
{
    memset(l->out_start, 0, (l->n_groups + 1) * sizeof *l->out_start);
    for (uint32_t o = 0; o < l->n_out; o++) l->out_start[group[o] + 1]++;
    for (uint32_t g = 0; g < l->n_groups; g++) l->out_start[g + 1] += l->out_start[g];
    for (uint32_t o = 0; o < l->n_out; o++) l->out[l->out_start[group[o]]++] = o;
    for (uint32_t g = l->n_groups; g > 0; g--) l->out_start[g] = l->out_start[g - 1];
    l->out_start[0] = 0;
}

static void copy_weights(struct wisp_splayer *l, const struct wisp_edges *e)
{
    uint64_t at = 0;
    for (uint32_t g = 0; g < l->n_groups; g++) {
        const size_t n = l->in_start[g + 1] - l->in_start[g];
        const size_t m = l->out_start[g + 1] - l->out_start[g];
        l->w_start[g] = at;
        for (size_t o = 0; o < m; o++) {
            const float *w = e->w + e->start[l->out[l->out_start[g] + o]];
            for (size_t k = 0; k < n; k++) l->w[at + k * m + o] = w[k];
        }
        at += n * m;
    }
}

/* Whether all weights are one number, which is then kept once. */
static bool constant(const struct wisp_edges *e, float *weight)
{
    const uint64_t n = e->start[e->n_out];
    *weight = e->w && n > 0 ? e->w[0] : e->weight;
    for (uint64_t k = 0; e->w && k < n; k++)
        if (e->w[k] != *weight) return false;
    return true;
}

/* The same of biases. */
static bool constant_bias(const struct wisp_edges *e, float *bias)
{
    *bias = e->biases ? e->biases[0] : e->bias;
    for (uint32_t o = 1; e->biases && o < e->n_out; o++)
        if (e->biases[o] != *bias) return false;
    return true;
}

static wisp_status fill(struct wisp_splayer *l, const struct wisp_edges *e, uint32_t *group,
                        uint32_t *first, wisp_error *err)
{
    size_t n_in = 0;
    for (uint32_t g = 0; g < l->n_groups; g++) n_in += e->start[first[g] + 1] - e->start[first[g]];
    const bool same = constant(e, &l->weight), one_bias = constant_bias(e, &l->bias);
    l->in_start = wisp_alloc(l->n_groups + 1, sizeof *l->in_start);
    l->in = wisp_alloc(n_in, sizeof *l->in);
    l->out_start = wisp_alloc(l->n_groups + 1, sizeof *l->out_start);
    l->out = wisp_alloc(l->n_out, sizeof *l->out);
    l->w = same ? NULL : wisp_alloc(l->n_edges, sizeof *l->w);
    l->w_start = same ? NULL : wisp_alloc(l->n_groups, sizeof *l->w_start);
    l->biases = one_bias ? NULL : wisp_alloc(l->n_out, sizeof *l->biases);
    if (!l->in_start || !l->in || !l->out_start || !l->out || (!same && (!l->w || !l->w_start)) ||
        (!one_bias && !l->biases))
        return wisp_fail_mem(err, (n_in + l->n_edges) * sizeof *l->in, "the edges of a layer");
    size_t at = 0;
    for (uint32_t g = 0; g < l->n_groups; g++) {
        const uint64_t from = e->start[first[g]], n = e->start[first[g] + 1] - from;
        l->in_start[g] = (uint32_t)at;
        memcpy(l->in + at, e->in + from, n * sizeof *l->in);
        at += n;
    }
    l->in_start[l->n_groups] = (uint32_t)at;
    list_outputs(l, group);
    if (!same) copy_weights(l, e);
    l->linear = e->linear;
    if (!one_bias) memcpy(l->biases, e->biases, l->n_out * sizeof *l->biases);
    return WISP_OK;
}

wisp_status wisp_splayer_make(struct wisp_splayer *out, const struct wisp_edges *e, wisp_error *err)
{
    memset(out, 0, sizeof *out);
    wisp_status st = check(e, err);
    if (st != WISP_OK) return st;
    size_t n_slots = 2;
    while (n_slots <= 2 * (size_t)e->n_out) n_slots *= 2;
    uint32_t *group = wisp_alloc(e->n_out, sizeof *group);
    uint32_t *first = wisp_alloc(e->n_out, sizeof *first);
    uint32_t *slot = wisp_alloc(n_slots, sizeof *slot);
    if (group && first && slot) {
        *out = (struct wisp_splayer){ .n_in = e->n_in, .n_out = e->n_out };
        out->n_edges = e->start[e->n_out];
        out->n_groups = find_groups(group, first, e, slot, n_slots);
        st = fill(out, e, group, first, err);
    } else
        st = wisp_fail_mem(err, (n_slots + 2 * (size_t)e->n_out) * sizeof *slot,
                           "the groups of a layer");
    wisp_free(group);
    wisp_free(first);
    wisp_free(slot);
    if (st != WISP_OK) wisp_splayer_clear(out);
    return st;
}

/* ---- nets ---- */

struct wisp_spnet *wisp_spnet_create(float clip)
{
    struct wisp_spnet *net = wisp_zalloc(1, sizeof *net);
    if (net) net->clip = clip;
    return net;
}

void wisp_spnet_free(struct wisp_spnet *net)
{
    if (!net) return;
    for (size_t i = 0; i < net->n_layers; i++) wisp_splayer_clear(&net->layers[i]);
    wisp_free(net->layers);
    wisp_free(net);
}

wisp_status wisp_spnet_push(struct wisp_spnet *net, struct wisp_splayer *l, wisp_error *err)
{
    wisp_status st = WISP_OK;
    if (net->n_layers > 0 && net->layers[net->n_layers - 1].n_out != l->n_in)
        st =
            wisp_fail(err, WISP_EINVAL, "layer %zu has %u inputs; the one before it has %u outputs",
                      net->n_layers + 1, l->n_in, net->layers[net->n_layers - 1].n_out);
    else if (!wisp_grow(&net->layers, net->n_layers, &net->room, sizeof *net->layers))
        st = wisp_fail_mem(err, 2 * net->room * sizeof *net->layers, "the list of layers");
    if (st != WISP_OK) {
        wisp_splayer_clear(l);
        return st;
    }
    net->layers[net->n_layers++] = *l;
    net->n_edges += l->n_edges;
    net->zero_from = net->full_from = net->n_layers;
    memset(l, 0, sizeof *l);
    return WISP_OK;
}

wisp_status wisp_spnet_add(struct wisp_spnet *net, const struct wisp_edges *e, wisp_error *err)
{
    struct wisp_splayer l;
    const wisp_status st = wisp_splayer_make(&l, e, err);
    return st == WISP_OK ? wisp_spnet_push(net, &l, err) : st;
}

uint32_t wisp_spnet_width(const struct wisp_spnet *net)
{
    uint32_t most = net->n_layers > 0 ? net->layers[0].n_in : 0;
    for (size_t i = 0; i < net->n_layers; i++)
        if (net->layers[i].n_out > most) most = net->layers[i].n_out;
    return most;
}
