/* Merging equal neurons: a smaller net with the same answers.
 *
 * Two outputs of a layer are equal where they have the same bias and the same weights to the same
 * *classes* of inputs (classes are the equal outputs of the layer before; the net's inputs are all
 * different).  Layer by layer, with A the weights of one output of each class, there are two forms:
 *
 *     direct    (classes, classes before): weights of inputs of one class are added
 *     factored  inputs with equal columns of A are summed first, u = P x, then Q u:
 *               P (groups of inputs, classes before) adds, Q (classes, groups) has A's weights
 *
 * and the one that costs less is taken.  Equality is found by hashing and then compared number by
 * number, so nothing rests on a hash.  Weights that are added are rounded once to single precision;
 * a net without equal neurons comes out as it is. */
#include "spdnn/spdnn.h"
#include "base/bounds.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct rows { /* lists of (id, weight) */
    size_t n;
    uint64_t *start;
    uint32_t *id;
    float *w;
    float *bias; /* of each row; NULL: there is none */
};

struct work { /* room for the largest layer */
    struct rows cand, column, direct, p, q;
    uint32_t *class_before; /* (inputs) */
    uint32_t *cand_of;      /* (outputs) candidate of each */
    uint32_t *class_of;     /* (candidates, or inputs) */
    uint32_t *first;        /* first candidate of a class */
    uint32_t *group_of, *group_first, *members, *member_start;
    uint32_t *cand_group, *cand_place; /* group and place in it of a candidate's output */
    uint32_t *slot;
    double *sum;
    size_t n_slots;
    uint32_t n_before;
};

static int by_id(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void sort_ids(uint32_t *id, size_t n)
{
    if (n > 64) {
        qsort(id, n, sizeof *id, by_id);
        return;
    }
    for (size_t i = 1; i < n; i++) { /* most lists have 16 or 32 */
        const uint32_t x = id[i];
        size_t j = i;
        for (; j > 0 && id[j - 1] > x; j--) id[j] = id[j - 1];
        id[j] = x;
    }
}

/* ---- equal rows ---- */

static uint64_t hash_row(const struct rows *r, size_t i)
{
    const size_t n = r->start[i + 1] - r->start[i];
    const uint64_t h = XXH3_64bits_withSeed(r->id + r->start[i], n * sizeof *r->id, n);
    const uint64_t k = XXH3_64bits_withSeed(r->w + r->start[i], n * sizeof *r->w, h);
    return r->bias ? XXH3_64bits_withSeed(r->bias + i, sizeof *r->bias, k) : k;
}

static bool equal(const struct rows *r, size_t a, size_t b)
{
    const size_t n = r->start[a + 1] - r->start[a];
    return n == r->start[b + 1] - r->start[b] && (!r->bias || r->bias[a] == r->bias[b]) &&
           memcmp(r->id + r->start[a], r->id + r->start[b], n * sizeof *r->id) == 0 &&
           memcmp(r->w + r->start[a], r->w + r->start[b], n * sizeof *r->w) == 0;
}

/* class_of[i] of each row, numbered as they first appear; first[c].  Returns how many. */
static uint32_t classify(uint32_t *class_of, uint32_t *first, const struct rows *r, uint32_t *slot,
                         size_t n_slots)
{
    uint32_t n = 0;
    memset(slot, 0xff, n_slots * sizeof *slot);
    for (size_t i = 0; i < r->n; i++) {
        size_t at = hash_row(r, i) & (n_slots - 1);
        while (slot[at] != UINT32_MAX && !equal(r, first[slot[at]], i))
            at = (at + 1) & (n_slots - 1);
        if (slot[at] == UINT32_MAX) {
            first[n] = (uint32_t)i;
            slot[at] = n++;
        }
        class_of[i] = slot[at];
    }
    return n;
}

/* ---- one output of each kind: candidates ---- */

static float weight_of(const struct wisp_splayer *l, uint32_t g, size_t k, size_t o)
{
    const size_t m = l->out_start[g + 1] - l->out_start[g];
    return l->w ? l->w[l->w_start[g] + k * m + o] : l->weight;
}

static float bias_of(const struct wisp_splayer *l, uint32_t id)
{
    return l->biases ? l->biases[id] : l->bias;
}

/* Weights of output 'o' of group g to the classes before it, ascending. */
static void add_candidate(struct work *k, const struct wisp_splayer *l, uint32_t g, size_t o)
{
    struct rows *c = &k->cand;
    const uint32_t *in = l->in + l->in_start[g];
    const size_t n = l->in_start[g + 1] - l->in_start[g];
    uint32_t *id = c->id + c->start[c->n];
    size_t some = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t before = k->class_before[in[i]];
        if (k->sum[before] == 0) id[some++] = before;
        k->sum[before] += weight_of(l, g, i, o);
        if (k->sum[before] == 0) k->sum[before] = 0x1p-1000; /* seen, though it cancelled */
    }
    sort_ids(id, some);
    for (size_t i = 0; i < some; i++) {
        c->w[c->start[c->n] + i] = (float)k->sum[id[i]];
        k->sum[id[i]] = 0;
    }
    c->bias[c->n] = bias_of(l, l->out[l->out_start[g] + o]);
    k->cand_group[c->n] = g;
    k->cand_place[c->n] = (uint32_t)o;
    c->start[c->n + 1] = c->start[c->n] + some;
    c->n++;
}

static void list_candidates(struct work *k, const struct wisp_splayer *l)
{
    k->cand.n = 0;
    k->cand.start[0] = 0;
    for (uint32_t g = 0; g < l->n_groups; g++) {
        const uint32_t *out = l->out + l->out_start[g];
        const size_t m = l->out_start[g + 1] - l->out_start[g];
        for (size_t o = 0; o < m; o++) {
            if (o == 0 || l->w || bias_of(l, out[o]) != bias_of(l, out[o - 1]))
                add_candidate(k, l, g, o);
            k->cand_of[out[o]] = (uint32_t)(k->cand.n - 1);
        }
    }
}

/* ---- the two forms ---- */

static void make_direct(struct work *k, uint32_t n_classes)
{
    struct rows *d = &k->direct, *c = &k->cand;
    d->n = n_classes;
    d->start[0] = 0;
    for (uint32_t i = 0; i < n_classes; i++) {
        const uint64_t from = c->start[k->first[i]], n = c->start[k->first[i] + 1] - from;
        memcpy(d->id + d->start[i], c->id + from, n * sizeof *d->id);
        memcpy(d->w + d->start[i], c->w + from, n * sizeof *d->w);
        d->start[i + 1] = d->start[i] + n;
    }
}

/* Columns of A: for each input, the classes that it feeds. */
static void make_columns(struct work *k, const struct wisp_splayer *l, uint32_t n_classes)
{
    struct rows *c = &k->column;
    c->n = l->n_in;
    memset(c->start, 0, (l->n_in + 1) * sizeof *c->start);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < n_classes; i++) {
            const uint32_t g = k->cand_group[k->first[i]];
            for (uint32_t j = l->in_start[g]; j < l->in_start[g + 1]; j++) {
                uint64_t *at = &c->start[l->in[j] + 1];
                if (pass) {
                    c->id[*at] = i;
                    c->w[*at] = weight_of(l, g, j - l->in_start[g], k->cand_place[k->first[i]]);
                }
                ++*at;
            }
        }
        if (pass) break;
        /* start[i + 1]: where input i begins; it moves to its end in the second pass */
        uint64_t sum = 0;
        for (uint32_t i = 0; i < l->n_in; i++) {
            const uint64_t n = c->start[i + 1];
            c->start[i + 1] = sum;
            sum += n;
        }
    }
}

/* P: the inputs of a group, as classes of the layer before.  A class that is there twice stays so:
 * without weights the kernels only add. */
static void make_p(struct work *k, const struct wisp_splayer *l, uint32_t n_groups)
{
    memset(k->member_start, 0, (n_groups + 1) * sizeof *k->member_start);
    for (uint32_t i = 0; i < l->n_in; i++) k->member_start[k->group_of[i] + 1]++;
    for (uint32_t g = 0; g < n_groups; g++) k->member_start[g + 1] += k->member_start[g];
    for (uint32_t i = 0; i < l->n_in; i++)
        k->members[k->member_start[k->group_of[i]]++] = k->class_before[i];
    struct rows *p = &k->p;
    p->n = n_groups;
    p->start[0] = 0;
    for (uint32_t g = 0, from = 0; g < n_groups; g++) {
        const uint32_t n = k->member_start[g] - from;
        uint32_t *m = k->members + from;
        uint64_t at = p->start[g];
        sort_ids(m, n);
        const bool used =
            k->column.start[k->group_first[g] + 1] > k->column.start[k->group_first[g]];
        for (uint32_t i = 0; used && i < n; i++) {
            p->id[at] = m[i];
            p->w[at++] = 1;
        }
        p->start[g + 1] = at;
        from += n;
    }
}

/* Q: the groups that feed a class, each with the weight of its inputs. */
static void make_q(struct work *k, uint32_t n_groups, uint32_t n_classes)
{
    struct rows *q = &k->q;
    q->n = n_classes;
    memset(q->start, 0, (n_classes + 1) * sizeof *q->start);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t g = 0; g < n_groups; g++) {
            const uint32_t i = k->group_first[g];
            for (uint64_t j = k->column.start[i]; j < k->column.start[i + 1]; j++) {
                uint64_t *at = &q->start[k->column.id[j] + 1];
                if (pass) {
                    q->id[*at] = g;
                    q->w[*at] = k->column.w[j];
                }
                ++*at;
            }
        }
        if (pass) break;
        uint64_t sum = 0;
        for (uint32_t i = 0; i < n_classes; i++) {
            const uint64_t n = q->start[i + 1];
            q->start[i + 1] = sum;
            sum += n;
        }
    }
}

/* ---- layers ---- */

static wisp_status add_layer(struct wisp_spnet *net, const struct rows *r, uint32_t n_in,
                             const float *biases, bool linear, wisp_error *err)
{
    const struct wisp_edges e = { .n_in = n_in,
                                  .n_out = (uint32_t)r->n,
                                  .start = r->start,
                                  .in = r->id,
                                  .w = r->w,
                                  .biases = biases,
                                  .linear = linear };
    return wisp_spnet_add(net, &e, err);
}

/* Edges; with weights of their own they are twice the work. */
static uint64_t cost(const struct rows *r)
{
    const uint64_t n = r->start[r->n];
    for (uint64_t i = 1; i < n; i++)
        if (r->w[i] != r->w[0]) return 2 * n;
    return n;
}

static wisp_status merge_layer(struct wisp_spnet *net, struct wisp_merged *what, struct work *k,
                               const struct wisp_splayer *l, wisp_error *err)
{
    list_candidates(k, l);
    const uint32_t n = classify(k->class_of, k->first, &k->cand, k->slot, k->n_slots);
    make_direct(k, n);
    make_columns(k, l, n);
    const uint32_t n_groups =
        classify(k->group_of, k->group_first, &k->column, k->slot, k->n_slots);
    make_p(k, l, n_groups);
    make_q(k, n_groups, n);
    float *biases = k->direct.bias;
    for (uint32_t i = 0; i < n; i++) biases[i] = k->cand.bias[k->first[i]];
    wisp_status st = WISP_OK;
    if (cost(&k->p) + cost(&k->q) < cost(&k->direct)) {
        st = add_layer(net, &k->p, k->n_before, NULL, true, err);
        if (st == WISP_OK) st = add_layer(net, &k->q, n_groups, biases, l->linear, err);
    } else st = add_layer(net, &k->direct, k->n_before, biases, l->linear, err);
    for (uint32_t o = 0; o < l->n_out; o++) k->class_before[o] = k->class_of[k->cand_of[o]];
    k->n_before = n;
    if (n > what->widest) what->widest = n;
    return st;
}

/* ---- room ---- */

static bool make_rows(struct rows *r, size_t n, size_t n_edges, bool bias)
{
    r->start = wisp_alloc(n + 1, sizeof *r->start);
    r->id = wisp_alloc(n_edges, sizeof *r->id);
    r->w = wisp_alloc(n_edges, sizeof *r->w);
    r->bias = bias ? wisp_alloc(n, sizeof *r->bias) : NULL;
    return r->start && r->id && r->w && (r->bias || !bias);
}

static void clear_rows(struct rows *r)
{
    wisp_free(r->start);
    wisp_free(r->id);
    wisp_free(r->w);
    wisp_free(r->bias);
}

static bool make_room(struct work *k, const struct wisp_spnet *net)
{
    size_t in = 0, out = 0, edges = 0;
    for (size_t i = 0; i < net->n_layers; i++) {
        const struct wisp_splayer *l = &net->layers[i];
        const size_t lists = l->w || l->biases ? l->n_edges : l->in_start[l->n_groups];
        if (l->n_in > in) in = l->n_in;
        if (l->n_out > out) out = l->n_out;
        if (lists > edges) edges = lists;
    }
    const size_t most = wisp_most(in, out);
    for (k->n_slots = 2; k->n_slots <= 2 * most; k->n_slots *= 2)
        ;
    bool all = make_rows(&k->cand, out, edges, true) && make_rows(&k->column, in, edges, false) &&
               make_rows(&k->direct, out, edges, true) && make_rows(&k->p, in, in, false) &&
               make_rows(&k->q, out, edges, false);
    uint32_t **lists[] = { &k->class_before, &k->cand_of,   &k->class_of,     &k->first,
                           &k->group_of,     &k->members,   &k->member_start, &k->group_first,
                           &k->cand_group,   &k->cand_place };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        all &= (*lists[i] = wisp_alloc(most + 1, sizeof **lists[i])) != NULL;
    all &= (k->slot = wisp_alloc(k->n_slots, sizeof *k->slot)) != NULL;
    all &= (k->sum = wisp_zalloc(most, sizeof *k->sum)) != NULL;
    return all;
}

static void clear_room(struct work *k)
{
    struct rows *rows[] = { &k->cand, &k->column, &k->direct, &k->p, &k->q };
    uint32_t *lists[] = { k->class_before, k->cand_of,    k->class_of,     k->first,
                          k->group_of,     k->members,    k->member_start, k->group_first,
                          k->cand_group,   k->cand_place, k->slot };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) clear_rows(rows[i]);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) wisp_free(lists[i]);
    wisp_free(k->sum);
}

void wisp_merged_clear(struct wisp_merged *what)
{
    wisp_free(what->last);
    memset(what, 0, sizeof *what);
}

static wisp_status merge(struct wisp_spnet *out, struct wisp_merged *what, struct work *k,
                         const struct wisp_spnet *net, wisp_error *err)
{
    const uint32_t n_in = net->layers[0].n_in, n_out = net->layers[net->n_layers - 1].n_out;
    size_t zero = 0, full = 0;
    for (uint32_t i = 0; i < n_in; i++) k->class_before[i] = i;
    k->n_before = n_in;
    for (size_t i = 0; i < net->n_layers; i++) {
        if (i == net->zero_from) zero = out->n_layers;
        if (i == net->full_from) full = out->n_layers;
        const wisp_status st = merge_layer(out, what, k, &net->layers[i], err);
        if (st != WISP_OK) return st;
    }
    out->zero_from = net->zero_from < net->n_layers ? zero : out->n_layers;
    out->full_from = net->full_from < net->n_layers ? full : out->n_layers;
    what->n_edges = out->n_edges;
    out->n_edges = net->n_edges;
    what->n_last = n_out;
    what->last = wisp_alloc(n_out, sizeof *what->last);
    if (!what->last) return wisp_fail_mem(err, n_out * sizeof *what->last, "the outputs' classes");
    memcpy(what->last, k->class_before, n_out * sizeof *what->last);
    return WISP_OK;
}

wisp_status wisp_spnet_merge(struct wisp_spnet **out, struct wisp_merged *what,
                             const struct wisp_spnet *net, wisp_error *err)
{
    struct work k = { 0 };
    memset(what, 0, sizeof *what);
    *out = NULL;
    struct wisp_spnet *small = wisp_spnet_create(net->clip);
    wisp_status st = WISP_OK;
    if (!small || !make_room(&k, net))
        st = wisp_fail_mem(err, 64 * (size_t)wisp_spnet_width(net), "merging a net's neurons");
    else if (net->n_layers > 0) st = merge(small, what, &k, net, err);
    clear_room(&k);
    if (st != WISP_OK) {
        wisp_spnet_free(small);
        wisp_merged_clear(what);
        return st;
    }
    *out = small;
    return WISP_OK;
}
