/* The scan: a sample's best rows by exact scores of all rows.
 *
 * It finds what every other finder looks for, at the cost of the full forward product; what is
 * saved is the way back.  On a card, where products cost least, it is the best finder up to some
 * hundred thousand rows (docs/gpu.md); on a CPU it is what the others are compared with. */
#include "base/mem.h"
#include "hash/best.h"
#include "hash/finder.h"

#include <math.h>

enum { BLOCK = 512 };

struct scan {
    size_t n_rows, keep;
    int threads;
    size_t own_bytes;
    char *own; /* (threads, own_bytes) */
};

struct own {               /* of a thread */
    float *score;          /* (BLOCK) */
    int32_t *row;          /* (BLOCK) */
    struct wisp_best best; /* of one sample */
    uint64_t *keys;        /* (best.room) */
};

static struct own lay_out(struct wisp_cut *c, size_t keep)
{
    struct own o;
    o.score = wisp_cut_take(c, BLOCK, sizeof *o.score);
    o.row = wisp_cut_take(c, BLOCK, sizeof *o.row);
    o.best = wisp_best_lay(c, 1, keep);
    o.keys = wisp_cut_take(c, o.best.room, sizeof *o.keys);
    return o;
}

static struct own own_of(const struct scan *s, int thread)
{
    struct wisp_cut c =
        wisp_cut_of(s->own + (size_t)thread * s->own_bytes, s->own_bytes, WISP_CUT_FRESH);
    return lay_out(&c, s->keep);
}

static struct scan sizes(const struct wisp_finder_setup *s)
{
    struct scan t = { .n_rows = s->n_rows, .threads = s->threads };
    struct wisp_cut plan = { 0 };
    t.keep = s->o->keep < s->n_rows ? s->o->keep : s->n_rows;
    lay_out(&plan, t.keep);
    t.own_bytes = plan.at;
    return t;
}

static size_t bytes(const struct wisp_finder_setup *setup)
{
    struct scan s = sizes(setup);
    return sizeof s + (size_t)s.threads * s.own_bytes;
}

static void release(void *state)
{
    struct scan *s = state;
    wisp_free(s->own);
    wisp_free(s);
}

static wisp_status create(void **state, const struct wisp_finder_setup *setup, wisp_error *err)
{
    struct scan *s = *state = wisp_zalloc(1, sizeof *s);
    if (!s) return wisp_fail_mem(err, sizeof *s, "the scan");
    *s = sizes(setup);
    s->own = wisp_alloc((size_t)s->threads, s->own_bytes);
    if (s->own) return WISP_OK;
    release(s);
    return wisp_fail_mem(err, bytes(setup), "the scan");
}

static bool is_label(const struct wisp_pot *p, int32_t row)
{
    for (size_t i = 0; i < p->n_labels; i++)
        if (p->labels[i] == row) return true;
    return false;
}

static void sample(const void *state, const struct wisp_query *q, size_t i, int thread,
                   struct wisp_pot *pot)
{
    const struct scan *s = state;
    struct own own = own_of(s, thread);
    float *score = own.score;
    int32_t *row = own.row;
    struct wisp_best *best = &own.best;
    wisp_best_reset(best, NULL);
    for (size_t first = 0; first < s->n_rows; first += BLOCK) {
        size_t n = s->n_rows - first < BLOCK ? s->n_rows - first : BLOCK;
        for (size_t r = 0; r < n; r++) row[r] = (int32_t)(first + r);
        wisp_weights_dots(pot->k, score, &q->rows.w, row, n, q->h + i * q->rows.width);
        for (size_t r = 0; r < n; r++) {
            float z = score[r] + q->rows.bias[row[r]];
            if (z > best->limit[0] && !is_label(pot, row[r])) wisp_best_add(best, 0, z, row[r]);
        }
    }
    size_t found = wisp_best_take(own.keys, best, 1, 0, -INFINITY);
    for (size_t r = 0; r < found; r++) wisp_pot_add(pot, wisp_key_row(own.keys[r]));
    pot->products += s->n_rows; /* and the pot scores those it got once more */
}

static void device(struct wisp_finders *out, const struct wisp_finder_setup *s, void *state)
{
    (void)s;
    (void)state;
    out->scan = true;
}

const struct wisp_finder_kind wisp_finder_scan = {
    .name = "scan",
    .what = "the best rows by exact scores of all: for cards, and to compare with",
    .bytes = bytes,
    .create = create,
    .free = release,
    .sample = sample,
    .device = device,
};
