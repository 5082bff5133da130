/* The official networks (RadiX-Net): butterflies between classes of 16 neurons.
 *
 * N neurons are B = N / 16 classes.  Layers come in blocks of log2(B).  Layer s of a block connects
 * all inputs of class r with all outputs of classes r and r - 2^s (mod B): each input feeds 32
 * outputs, each output has 32 inputs, those of its own class c and of class c + 2^s:
 *
 *   class of output o: o mod B        class of input i: p(i) mod B
 *
 * p is the identity in block 0 and one random permutation of 0 .. N-1 in each later block.  The
 * permutations of the official files are not known by a rule; ours give the same categories. */
#include "spdnn/spdnn.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/rand.h"

#include <string.h>

enum { STREAM_RADIX = 15 }; /* a kind of streams (base/rand.h): + block << 8, or layer << 8 */
enum {
    OF_CLASS = 16,        /* neurons */
    DEGREE = WISP_DEGREE, /* inputs of an output */
    MAX_N = 1 << 26,      /* edges of a layer are counted in 32 bits */
    CLIP = 32,
};

static const struct official {
    uint32_t n_neurons;
    float bias;
    long categories;
} officials[] = {
    { 1024, -0.3f, 1812 },
    { 4096, -0.35f, 1801 },
    { 16384, -0.4f, 1918 },
    { 65536, -0.45f, 1994 },
};

static const struct official *find_official(uint32_t n_neurons)
{
    for (size_t i = 0; i < sizeof officials / sizeof *officials; i++)
        if (officials[i].n_neurons == n_neurons) return &officials[i];
    return NULL;
}

float wisp_radix_bias(uint32_t n_neurons)
{
    const struct official *o = find_official(n_neurons);
    return o ? o->bias : officials[0].bias;
}

long wisp_radix_categories(uint32_t n_neurons, size_t n_layers)
{
    static const size_t depths[] = { 120, 480, 1920 }; /* inputs have settled after fewer layers */
    const struct official *o = find_official(n_neurons);
    for (size_t i = 0; o && i < sizeof depths / sizeof *depths; i++)
        if (depths[i] == n_layers) return o->categories;
    return -1;
}

static wisp_status check(const struct wisp_radix *r, wisp_error *err)
{
    uint32_t n = r->n_neurons;
    if (r->n_layers == 0)
        return wisp_fail(err, WISP_EINVAL, "a network of 0 layers: give at least 1");
    if (n < DEGREE || n > MAX_N || (!r->random && (n & (n - 1))))
        return wisp_fail(err, WISP_EINVAL, "layers of %u neurons: expected %s from %d to %d", n,
                         r->random ? "a number" : "a power of 2", DEGREE, MAX_N);
    return WISP_OK;
}

/* ---- one layer ---- */

static void permute(uint32_t *p, const struct wisp_radix *r, size_t block)
{
    for (uint32_t i = 0; i < r->n_neurons; i++) p[i] = i;
    for (uint32_t i = r->n_neurons - 1; block > 0 && i > 0; i--) {
        uint64_t j = wisp_rand_below(r->seed, wisp_stream(STREAM_RADIX, block), i, (uint64_t)i + 1);
        uint32_t t = p[i];
        p[i] = p[j];
        p[j] = t;
    }
}

/* Two ascending lists of OF_CLASS become one. */
static void merge(uint32_t *out, const uint32_t *a, const uint32_t *b)
{
    const uint32_t *a_end = a + OF_CLASS, *b_end = b + OF_CLASS;
    while (a < a_end || b < b_end) *out++ = b == b_end || (a < a_end && *a < *b) ? *a++ : *b++;
}

/* scratch: (n) permutation, (n) inputs by class, (classes) their numbers so far */
static void butterfly(uint32_t *in, const struct wisp_radix *r, size_t l, uint32_t *scratch)
{
    uint32_t n = r->n_neurons, n_classes = n / OF_CLASS, bits = 0;
    uint32_t *p = scratch, *member = p + n, *count = member + n;
    while (1u << bits < n_classes) bits++;
    permute(p, r, l / bits);
    memset(count, 0, n_classes * sizeof *count);
    for (uint32_t i = 0; i < n; i++) { /* ascending within a class, as i ascends */
        uint32_t c = p[i] % n_classes;
        member[c * OF_CLASS + count[c]++] = i;
    }
    for (uint32_t c = 0; c < n_classes; c++) {
        uint32_t other = (c + (1u << l % bits)) % n_classes;
        uint32_t *first = in + (size_t)c * DEGREE;
        merge(first, member + c * OF_CLASS, member + other * OF_CLASS);
        for (uint32_t o = c + n_classes; o < n; o += n_classes)
            memcpy(in + (size_t)o * DEGREE, first, DEGREE * sizeof *in);
    }
}

void wisp_choose(uint32_t *to, size_t n, size_t all, uint64_t seed, uint64_t stream, uint64_t first)
{
    for (size_t k = 0; k < n; k++) {
        size_t last = all - n + k, at = k;
        uint32_t id = (uint32_t)wisp_rand_below(seed, stream, first + k, last + 1);
        while (at > 0 && to[at - 1] > id) at--;
        if (at > 0 && to[at - 1] == id) at = k, id = (uint32_t)last; /* above all others */
        memmove(to + at + 1, to + at, (k - at) * sizeof *to);
        to[at] = id;
    }
}

wisp_status wisp_radix_layer(uint64_t *start, uint32_t *in, const struct wisp_radix *r, size_t l,
                             wisp_error *err)
{
    wisp_status st = check(r, err);
    if (st) return st;
    if (l >= r->n_layers)
        return wisp_fail(err, WISP_EINVAL, "layer %zu of a network of %zu; they count from 0", l,
                         r->n_layers);
    for (uint64_t o = 0; o <= r->n_neurons; o++) start[o] = o * DEGREE;
    if (r->random) {
        const uint64_t stream = wisp_stream(STREAM_RADIX, (uint64_t)l);
        for (size_t at = 0; at < (size_t)r->n_neurons * DEGREE; at += DEGREE)
            wisp_choose(in + at, DEGREE, r->n_neurons, r->seed, stream, at);
        return WISP_OK;
    }
    size_t n = 2 * (size_t)r->n_neurons + r->n_neurons / OF_CLASS;
    uint32_t *scratch = wisp_alloc(n, sizeof *scratch);
    if (!scratch) return wisp_fail_mem(err, n * sizeof *scratch, "the classes of a layer");
    butterfly(in, r, l, scratch);
    wisp_free(scratch);
    return WISP_OK;
}

/* ---- all layers ---- */

struct maker { /* of one thread */
    uint64_t *start;
    uint32_t *in;
    wisp_status st; /* its first failure */
    wisp_error err;
};

struct work {
    const struct wisp_radix *r;
    struct maker *makers; /* (n_makers) */
    size_t n_makers;
    struct wisp_splayer *layers; /* (layers of r) */
};

static void make_layer(void *arg, size_t l, int thread)
{
    struct work *w = arg;
    struct maker *m = &w->makers[thread];
    if (m->st) return;
    uint32_t n = w->r->n_neurons;
    struct wisp_edges e = { .n_in = n,
                            .n_out = n,
                            .start = m->start,
                            .in = m->in,
                            .weight = 1.f / 16,
                            .bias = wisp_radix_bias(n) };
    m->st = wisp_radix_layer(m->start, m->in, w->r, l, &m->err);
    if (!m->st) m->st = wisp_splayer_make(&w->layers[l], &e, &m->err);
}

static wisp_status init(struct work *w, size_t n_threads, wisp_error *err)
{
    size_t n = w->r->n_neurons, bytes = (n + 1) * sizeof(uint64_t) + DEGREE * n * sizeof(uint32_t);
    w->layers = wisp_zalloc(w->r->n_layers, sizeof *w->layers);
    w->makers = wisp_zalloc(n_threads, sizeof *w->makers);
    if (!w->layers || !w->makers)
        return wisp_fail_mem(err, w->r->n_layers * sizeof *w->layers, "layers");
    w->n_makers = n_threads;
    for (size_t t = 0; t < n_threads; t++) {
        w->makers[t].start = wisp_alloc(n + 1, sizeof(uint64_t));
        w->makers[t].in = wisp_alloc(n, DEGREE * sizeof(uint32_t));
        if (!w->makers[t].start || !w->makers[t].in)
            return wisp_fail_mem(err, bytes, "the edges of a layer");
    }
    return WISP_OK;
}

/* Pushing leaves a layer all zero, also when it fails. */
static void clear(struct work *w)
{
    for (size_t t = 0; t < w->n_makers; t++) {
        wisp_free(w->makers[t].start);
        wisp_free(w->makers[t].in);
    }
    for (size_t l = 0; w->layers && l < w->r->n_layers; l++) wisp_splayer_clear(&w->layers[l]);
    wisp_free(w->makers);
    wisp_free(w->layers);
}

static wisp_status make(struct wisp_spnet *net, struct work *w, struct wisp_pool *pool,
                        wisp_error *err)
{
    wisp_status st = init(w, (size_t)wisp_pool_threads(pool), err);
    if (st) return st;
    wisp_parallel_for(pool, w->r->n_layers, make_layer, w);
    for (size_t t = 0; t < w->n_makers; t++)
        if (w->makers[t].st) return wisp_fail_as(err, w->makers[t].st, &w->makers[t].err);
    for (size_t l = 0; l < w->r->n_layers && !st; l++)
        st = wisp_spnet_push(net, &w->layers[l], err);
    return st;
}

wisp_status wisp_radix_net(struct wisp_spnet **out, const struct wisp_radix *r,
                           struct wisp_pool *pool, wisp_error *err)
{
    *out = NULL;
    wisp_status st = check(r, err);
    if (st) return st;
    struct wisp_spnet *net = wisp_spnet_create(CLIP);
    if (!net) return wisp_fail_mem(err, sizeof *net, "a network");
    struct work w = { .r = r };
    st = make(net, &w, pool, err);
    clear(&w);
    if (st) wisp_spnet_free(net);
    else *out = net;
    return st;
}
