/* Synthetic rows with the shape of extreme-classification data, where labels explain features.
 *
 * Row i is a pure function of (shape, seed, i): every choice is wisp_rand of a stream of its own,
 * nothing is stored but the idf of each feature.  Streams are STREAM_SYNTH + (s << 8):
 * s = CLUSTER, OWN, SCATTER below, and s = FIRST_ROW + i for row i.
 *
 *   Zipf(a)  rank 1 .. n by the inverse of the continuous distribution with density ~ x^-a on
 *            [1, n+1), rounded down: x = (1 + u ((n+1)^(1-a) - 1))^(1/(1-a)), or (n+1)^u for a = 1;
 *            1/(1-a) is 2 and 4 here, so only the last needs more than multiplications
 *   label    the Zipf(0.75) rank, sent through a seeded permutation (Feistel, walked until it
 *            lands below n_labels), so that popular labels lie in different clusters
 *   cluster  c = label / 20: 40 features; each label has 12 of its own; all of them drawn by
 *            Zipf(0.5) over the features (id = rank - 1)
 *   labels   their number is 1 + geometric with mean row_labels - 1, at most 8 x row_labels.  The
 *            first is any label; each further one, without repeats, is with 80 % from the first
 *            one's cluster (the next cluster takes over when all 20 are taken), else any label
 *   features their number is uniform in row_features * [1/2, 3/2].  Draws (35 % from the labels'
 *            own, 30 % from the first label's cluster, 35 % Zipf(1) over all) repeat until so many
 *            different ones are there: the mean number of non-zeros is then row_features by
 *            construction, whatever the shape.  (A vocabulary too small for this ends a
 *            row after 32 draws per wanted feature.)
 *   value    (1 + log tf) idf, scaled to length 1, rounded to 6 significant digits (so
 *            text and memory agree); tf = times drawn, idf = log((N + 1) / df) over the N
 *            training rows, counted in a first pass; df = 0 counts as 1 */
#include "data/synth.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/rand.h"

#include <math.h>
#include <string.h>

enum { STREAM_SYNTH = 5 }; /* a kind of streams (base/rand.h); those below are of this kind */
enum {
    CLUSTER = 1,
    OWN = 2,
    SCATTER = 3,
    FIRST_ROW = 16,
    PER_CLUSTER = 20,
    CLUSTER_FEATURES = 40,
    OWN_FEATURES = 12,
    MAX_SPREAD = 8,
    DRAWS = 32,
};

static wisp_status check_shape(const struct wisp_synth_shape *s, wisp_error *err)
{
    const struct {
        const char *key;
        double value, least, most;
    } bounds[] = {
        { "rows", (double)s->n_rows, 1, WISP_MOST_ROWS },
        { "test-rows", (double)s->n_test, 0, WISP_MOST_ROWS },
        { "features", (double)s->n_features, 1, WISP_MOST_IDS },
        { "labels", (double)s->n_labels, 1, WISP_MOST_IDS },
        { "row-features", s->row_features, 1, WISP_MOST_ROW_FEATURES },
        { "row-labels", s->row_labels, 1, WISP_MOST_ROW_LABELS },
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (!(bounds[i].value >= bounds[i].least && bounds[i].value <= bounds[i].most))
            return wisp_fail_option(err, bounds[i].key, "%.15g is not in %.15g..%.15g",
                                    bounds[i].value, bounds[i].least, bounds[i].most);
    return WISP_OK;
}

static size_t at_most(double want, size_t n)
{
    return want < (double)n ? (size_t)want : n;
}

wisp_status wisp_synth_init(struct wisp_synth *g, const struct wisp_synth_shape *s, wisp_error *err)
{
    *g = (struct wisp_synth){ .s = *s };
    wisp_status st = check_shape(s, err);
    if (st) return st;
    g->half_span = sqrt((double)s->n_features + 1) - 1;
    g->label_span = sqrt(sqrt((double)s->n_labels + 1)) - 1;
    g->log_features = log((double)s->n_features + 1);
    g->log_more = s->row_labels > 1 ? log((s->row_labels - 1) / s->row_labels) : 0;
    g->max_labels = at_most(MAX_SPREAD * s->row_labels, s->n_labels);
    g->max_features = at_most(1.5 * s->row_features + 1, s->n_features);
    while (s->n_labels > (size_t)1 << 2 * g->half_bits) g->half_bits++;
    return WISP_OK;
}

struct pick { /* a row's random numbers */
    uint64_t seed, stream, i;
};

static uint64_t stream(uint64_t s)
{
    return wisp_stream(STREAM_SYNTH, s);
}
static double unit(struct pick *p)
{
    return wisp_rand_unit(p->seed, p->stream, p->i++);
}
static size_t below(struct pick *p, size_t n)
{
    return (size_t)wisp_rand_below(p->seed, p->stream, p->i++, n);
}

static int32_t clamp(double x, size_t n) /* rounding may reach n + 1 */
{
    size_t rank = (size_t)x;
    return (int32_t)((rank > n ? n : rank) - 1);
}

static int32_t feature_half(const struct wisp_synth *g, double u) /* Zipf(0.5) */
{
    double t = 1 + u * g->half_span;
    return clamp(t * t, g->s.n_features);
}
static int32_t feature_one(const struct wisp_synth *g, double u) /* Zipf(1) */
{
    return clamp(exp(u * g->log_features), g->s.n_features);
}

/* A permutation of 0 .. n_labels-1: four Feistel rounds permute 0 .. 2^(2 half_bits)-1, and
 * walking on from a value outside comes back inside, as a cycle must. */
static uint64_t scatter(const struct wisp_synth *g, uint64_t x)
{
    uint64_t mask = ((uint64_t)1 << g->half_bits) - 1;
    do {
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t left = x >> g->half_bits, right = x & mask;
            uint64_t f = wisp_rand(g->s.seed, stream(SCATTER), round << 32 | right);
            x = right << g->half_bits | (left ^ (f & mask));
        }
    } while (x >= g->s.n_labels);
    return x;
}

static uint64_t any_label(const struct wisp_synth *g, struct pick *p) /* Zipf(0.75) */
{
    double t = 1 + unit(p) * g->label_span;
    return scatter(g, (uint64_t)clamp(t * t * t * t, g->s.n_labels));
}

/* ---- rows ---- */

void wisp_synth_row_clear(struct wisp_synth_row *r)
{
    wisp_free(r->labels);
    wisp_free(r->draws);
    wisp_free(r->values);
    wisp_free(r->table);
}

wisp_status wisp_synth_row_init(struct wisp_synth_row *r, const struct wisp_synth *g,
                                wisp_error *err)
{
    for (r->mask = 63; r->mask < 2 * g->max_features; r->mask = 2 * r->mask + 1) {}
    r->labels = wisp_alloc(g->max_labels, sizeof *r->labels);
    r->draws = wisp_alloc(g->max_features, sizeof *r->draws);
    r->values = wisp_alloc(g->max_features, sizeof *r->values);
    r->table = wisp_zalloc(r->mask + 1, sizeof *r->table);
    if (r->labels && r->draws && r->values && r->table) return WISP_OK;
    return wisp_fail_mem(err, (r->mask + 1) * sizeof *r->table, "a synthetic row");
}

static bool has(const struct wisp_synth_row *r, uint64_t label)
{
    for (size_t i = 0; i < r->n_labels; i++)
        if (r->labels[i] == label) return true;
    return false;
}

/* A free label of the cluster, from a random place on; n_labels: all are taken. */
static uint64_t cluster_label(const struct wisp_synth *g, const struct wisp_synth_row *r, size_t c,
                              struct pick *p)
{
    size_t first = c * PER_CLUSTER, n = g->s.n_labels - first;
    if (n > PER_CLUSTER) n = PER_CLUSTER;
    size_t at = below(p, n);
    for (size_t i = 0; i < n; i++, at = at + 1 < n ? at + 1 : 0)
        if (!has(r, first + at)) return first + at;
    return g->s.n_labels;
}

/* A free label of all: in a small set the popular ones are soon taken, hence the stepping. */
static uint64_t free_label(const struct wisp_synth *g, const struct wisp_synth_row *r,
                           struct pick *p)
{
    uint64_t l = any_label(g, p);
    for (int tries = 0; has(r, l) && tries < 8; tries++) l = any_label(g, p);
    while (has(r, l)) l = l + 1 < g->s.n_labels ? l + 1 : 0;
    return l;
}

static void draw_labels(struct wisp_synth_row *r, const struct wisp_synth *g, struct pick *p)
{
    size_t n_clusters = wisp_parts(g->s.n_labels, PER_CLUSTER);
    double more = g->log_more < 0 ? log(unit(p)) / g->log_more : 0;
    size_t n = more < (double)g->max_labels - 1 ? 1 + (size_t)more : g->max_labels;
    r->n_labels = 1;
    r->labels[0] = any_label(g, p);
    size_t c = r->labels[0] / PER_CLUSTER;
    while (r->n_labels < n) {
        uint64_t l;
        if (unit(p) >= 0.8) l = free_label(g, r, p);
        else
            while ((l = cluster_label(g, r, c, p)) == g->s.n_labels)
                c = c + 1 < n_clusters ? c + 1 : 0;
        r->labels[r->n_labels++] = l;
    }
}

static int32_t draw_feature(const struct wisp_synth_row *r, const struct wisp_synth *g,
                            struct pick *p)
{
    double u = unit(p);
    if (u >= 0.65) return feature_one(g, unit(p));
    uint64_t s = stream(OWN), at;
    if (u < 0.35) {
        at = r->labels[below(p, r->n_labels)] * OWN_FEATURES + below(p, OWN_FEATURES);
    } else {
        s = stream(CLUSTER);
        at = r->labels[0] / PER_CLUSTER * CLUSTER_FEATURES + below(p, CLUSTER_FEATURES);
    }
    return feature_half(g, wisp_rand_unit(g->s.seed, s, at));
}

static uint64_t *slot_of(const struct wisp_synth_row *r, int32_t feature)
{
    size_t i = (uint32_t)feature * 0x9e3779b1u & r->mask;
    while (r->table[i] && r->draws[r->table[i] - 1] >> 32 != (uint64_t)feature)
        i = (i + 1) & r->mask;
    return &r->table[i];
}

static void draw_features(struct wisp_synth_row *r, const struct wisp_synth *g, struct pick *p)
{
    double mean = g->s.row_features;
    size_t want = (size_t)(mean / 2 + mean * unit(p) + 0.5);
    want = want < 1 ? 1 : want > g->max_features ? g->max_features : want;
    r->n = 0;
    for (size_t i = 0; r->n < want && i < DRAWS * want; i++) {
        int32_t f = draw_feature(r, g, p);
        uint64_t *slot = slot_of(r, f);
        if (*slot) {
            r->draws[*slot - 1]++;
        } else {
            r->draws[r->n] = (uint64_t)f << 32 | 1;
            *slot = ++r->n;
        }
    }
    memset(r->table, 0, (r->mask + 1) * sizeof *r->table);
}

static void sort(uint64_t *p, size_t n) /* Shell's: rows are short */
{
    for (size_t gap = n / 2; gap; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (size_t i = gap; i < n; i++) {
            uint64_t v = p[i];
            size_t j = i;
            for (; j >= gap && p[j - gap] > v; j -= gap) p[j] = p[j - gap];
            p[j] = v;
        }
}

void wisp_synth_row_draw(struct wisp_synth_row *r, const struct wisp_synth *g, size_t i)
{
    struct pick p = { g->s.seed, stream(FIRST_ROW + (uint64_t)i), 0 };
    draw_labels(r, g, &p);
    draw_features(r, g, &p);
}

static const double power[] = { 1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11, 1e12,
                                1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20 };

uint32_t wisp_synth_decimal(double v, unsigned *at)
{
    for (*at = 0; *at < 15 && v * power[*at] < 99999.5;) ++*at;
    return (uint32_t)(v * power[*at] + 0.5);
}

void wisp_synth_row_finish(struct wisp_synth_row *r, const struct wisp_synth *g)
{
    sort(r->labels, r->n_labels);
    sort(r->draws, r->n);
    double sum = 0;
    for (size_t i = 0; i < r->n; i++) {
        uint32_t tf = (uint32_t)r->draws[i];
        double v = (tf > 1 ? 1 + log(tf) : 1) * (double)g->idf[r->draws[i] >> 32];
        r->values[i] = (float)v;
        sum += v * v;
    }
    double scale = 1 / sqrt(sum);
    for (size_t i = 0; i < r->n; i++) {
        unsigned at;
        uint32_t digits = wisp_synth_decimal((double)r->values[i] * scale, &at);
        r->values[i] = (float)(digits / power[at]);
    }
}
