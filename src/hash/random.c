/* Rows drawn at random for a whole batch: uniformly, or as often as they are true labels.
 *
 * A row drawn with probability q stands for 1/q rows like it: the log of that is its shift, which
 * the loss may add to its logit (log-probability correction). */
#include "base/mem.h"
#include "base/rand.h"
#include "graph/ids.h"
#include "hash/finder.h"

#include <math.h>

struct random {
    uint64_t seed;
    size_t n, n_rows;
    double *up_to; /* (n_rows) running sum of label counts; NULL: uniform */
};

static size_t uniform_most(const struct wisp_finder_setup *s)
{
    return s->o->n_random < s->n_rows ? s->o->n_random : s->n_rows;
}

static size_t frequency_most(const struct wisp_finder_setup *s)
{
    return s->o->n_frequent;
}

static size_t uniform_bytes(const struct wisp_finder_setup *s)
{
    (void)s;
    return sizeof(struct random);
}

static size_t frequency_bytes(const struct wisp_finder_setup *s)
{
    return sizeof(struct random) + s->n_rows * sizeof(double);
}

static wisp_status create_uniform(void **state, const struct wisp_finder_setup *s, wisp_error *err)
{
    struct random *r = *state = wisp_zalloc(1, sizeof *r);
    if (!r) return wisp_fail_mem(err, sizeof *r, "the random sampler");
    *r = (struct random){ .seed = s->seed, .n = uniform_most(s), .n_rows = s->n_rows };
    return WISP_OK;
}

static void release(void *state)
{
    struct random *r = state;
    wisp_free(r->up_to);
    wisp_free(r);
}

static wisp_status create_frequency(void **state, const struct wisp_finder_setup *s,
                                    wisp_error *err)
{
    wisp_status st = create_uniform(state, s, err);
    if (st != WISP_OK) return st;
    struct random *r = *state;
    r->n = s->o->n_frequent;
    if (!(r->up_to = wisp_alloc(s->n_rows, sizeof *r->up_to))) {
        release(r);
        return wisp_fail_mem(err, s->n_rows * sizeof *r->up_to, "the frequency sampler");
    }
    double sum = 0;
    for (size_t i = 0; i < s->n_rows; i++)
        r->up_to[i] = sum += (double)s->label_rows[i] + 1e-3; /* never seen, yet possible */
    return WISP_OK;
}

/* n draws with replacement: the log of one over the probability that a row with this share of each
 * is among them. */
static float shift_of(double share, size_t n)
{
    return (float)-log(-expm1((double)n * log1p(-share)));
}

static void draw_uniform(const void *state, const struct wisp_query *q,
                         struct wisp_rows_for_all *out)
{
    const struct random *r = state;
    uint64_t stream = wisp_stream(WISP_STREAM_RANDOM, q->step);
    float shift = r->n < r->n_rows ? shift_of(1 / (double)r->n_rows, r->n) : 0;
    bool all = r->n == r->n_rows; /* as many draws would leave out a third of the rows */
    for (size_t i = 0; i < r->n; i++) {
        uint64_t row = all ? i : wisp_rand_below(r->seed, stream, i, r->n_rows);
        out->row[out->n] = (int32_t)row;
        out->shift[out->n++] = shift;
    }
}

static size_t first_above(const double *up_to, size_t n, double x)
{
    size_t lo = 0, hi = n - 1;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (up_to[mid] <= x) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static void draw_frequency(const void *state, const struct wisp_query *q,
                           struct wisp_rows_for_all *out)
{
    const struct random *r = state;
    uint64_t stream = wisp_stream(WISP_STREAM_FREQUENCY, q->step);
    double total = r->up_to[r->n_rows - 1];
    for (size_t i = 0; i < r->n; i++) {
        double x = total * wisp_rand_unit(r->seed, stream, i);
        size_t row = first_above(r->up_to, r->n_rows, x);
        double share = (r->up_to[row] - (row ? r->up_to[row - 1] : 0)) / total;
        out->row[out->n] = (int32_t)row;
        out->shift[out->n++] = shift_of(share, r->n);
    }
}

static void uniform_device(struct wisp_finders *out, const struct wisp_finder_setup *s, void *state)
{
    (void)state;
    out->n_random = uniform_most(s);
}

static void frequency_device(struct wisp_finders *out, const struct wisp_finder_setup *s,
                             void *state)
{
    const struct random *r = state;
    out->n_frequent = frequency_most(s);
    if (r) out->up_to = r->up_to;
}

const struct wisp_finder_kind wisp_finder_random = {
    .name = "random",
    .what = "rows drawn uniformly, the same for the whole batch",
    .draws = true,
    .shared = true,
    .bytes = uniform_bytes,
    .create = create_uniform,
    .free = release,
    .rows_for_all = draw_uniform,
    .most_for_all = uniform_most,
    .device = uniform_device,
};

const struct wisp_finder_kind wisp_finder_frequency = {
    .name = "frequency",
    .what = "rows drawn as often as they are labels, the same for the whole batch",
    .draws = true,
    .shared = true,
    .needs_labels = true,
    .bytes = frequency_bytes,
    .create = create_frequency,
    .free = release,
    .rows_for_all = draw_frequency,
    .most_for_all = frequency_most,
    .device = frequency_device,
};
