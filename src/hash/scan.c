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
    float *score; /* (threads, BLOCK) */
    int32_t *row; /* (threads, BLOCK) */
    char *lists;  /* (threads, list_bytes) the best of one sample */
    size_t list_bytes;
    uint64_t *keys; /* (threads, room) */
    size_t room;
};

static struct scan sizes(const struct wisp_finder_setup *s)
{
    size_t keep = s->o->keep < s->n_rows ? s->o->keep : s->n_rows;
    struct wisp_cut plan = { 0 };
    wisp_best_lay(&plan, 1, keep);
    return (struct scan){ .n_rows = s->n_rows,
                          .keep = keep,
                          .threads = s->threads,
                          .list_bytes = plan.at,
                          .room = wisp_best_room(keep) };
}

static size_t bytes(const struct wisp_finder_setup *setup)
{
    struct scan s = sizes(setup);
    return sizeof s + (size_t)s.threads * (BLOCK * 8 + s.list_bytes + s.room * 8);
}

static void release(void *state)
{
    struct scan *s = state;
    wisp_free(s->score);
    wisp_free(s->row);
    wisp_free(s->lists);
    wisp_free(s->keys);
    wisp_free(s);
}

static wisp_status create(void **state, const struct wisp_finder_setup *setup, wisp_error *err)
{
    struct scan *s = *state = wisp_zalloc(1, sizeof *s);
    if (!s) return wisp_fail_mem(err, sizeof *s, "the scan");
    *s = sizes(setup);
    size_t threads = (size_t)s->threads;
    s->score = wisp_alloc(threads * BLOCK, sizeof *s->score);
    s->row = wisp_alloc(threads * BLOCK, sizeof *s->row);
    s->lists = wisp_alloc(threads, s->list_bytes);
    s->keys = wisp_alloc(threads * s->room, sizeof *s->keys);
    if (s->score && s->row && s->lists && s->keys) return WISP_OK;
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
    float *score = s->score + (size_t)thread * BLOCK;
    int32_t *row = s->row + (size_t)thread * BLOCK;
    uint64_t *keys = s->keys + (size_t)thread * s->room;
    struct wisp_cut c =
        wisp_cut_of(s->lists + (size_t)thread * s->list_bytes, s->list_bytes, WISP_CUT_FRESH);
    struct wisp_best best = wisp_best_lay(&c, 1, s->keep);
    wisp_best_reset(&best, NULL);
    for (size_t first = 0; first < s->n_rows; first += BLOCK) {
        size_t n = s->n_rows - first < BLOCK ? s->n_rows - first : BLOCK;
        for (size_t r = 0; r < n; r++) row[r] = (int32_t)(first + r);
        wisp_weights_dots(pot->k, score, &q->rows.w, row, n, q->h + i * q->rows.width);
        for (size_t r = 0; r < n; r++) {
            float z = score[r] + q->rows.bias[row[r]];
            if (z > best.limit[0] && !is_label(pot, row[r])) wisp_best_add(&best, 0, z, row[r]);
        }
    }
    size_t found = wisp_best_take(keys, &best, 1, 0, -INFINITY);
    for (size_t r = 0; r < found; r++) wisp_pot_add(pot, wisp_key_row(keys[r]));
    pot->products += s->n_rows; /* and the pot scores those it got once more */
}

const struct wisp_finder_kind wisp_finder_scan = {
    .name = "scan",
    .what = "the best rows by exact scores of all: for cards, and to compare with",
    .bytes = bytes,
    .create = create,
    .free = release,
    .sample = sample,
};
