/* The pot: the rows found for one sample, without repeats.  Its cost grows with what is in it. */
#include "hash/finder.h"
#include "base/cut.h"
#include "hash/best.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { FIRST = 512 }; /* rows that the slots are laid out for at first: 4 KiB */

static void lay_out(struct wisp_pot *p, struct wisp_cut *c, size_t room)
{
    p->keys = wisp_cut_take(c, room, sizeof *p->keys);
    p->slot = wisp_cut_take(c, 2 * room, sizeof *p->slot);
    p->at = wisp_cut_take(c, room, sizeof *p->at);
    p->row = wisp_cut_take(c, room, sizeof *p->row);
    p->score = wisp_cut_take(c, room, sizeof *p->score);
    p->votes = wisp_cut_take(c, room, sizeof *p->votes);
    p->spare = wisp_cut_take(c, room, sizeof *p->spare);
}

size_t wisp_pot_bytes(size_t room)
{
    struct wisp_pot none;
    struct wisp_cut plan = { 0 };
    lay_out(&none, &plan, room);
    return plan.at;
}

void wisp_pot_init(struct wisp_pot *p, const struct wisp_kernels *k, void *block, size_t room)
{
    assert((room & (room - 1)) == 0);
    *p = (struct wisp_pot){ .k = k, .room = room };
    struct wisp_cut c = wisp_cut_of(block, wisp_pot_bytes(room), WISP_CUT_KEEP);
    lay_out(p, &c, room);
}

void wisp_pot_start(struct wisp_pot *p, const struct wisp_query *q, size_t i)
{
    for (size_t r = 0; r < p->n; r++) p->slot[p->at[r]] = 0;
    p->n = p->n_scored = 0;
    p->mask = 2 * (p->room < FIRST ? p->room : FIRST) - 1;
    p->products = 0;
    p->rows = &q->rows;
    p->h = q->h + i * q->rows.width;
    p->labels = q->yp ? q->yi + q->yp[i] : NULL;
    p->n_labels = q->yp ? q->yp[i + 1] - q->yp[i] : 0;
}

static bool is_label(const struct wisp_pot *p, int32_t row)
{
    size_t lo = 0, hi = p->n_labels;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (p->labels[mid] < row) lo = mid + 1;
        else hi = mid;
    }
    return lo < p->n_labels && p->labels[lo] == row;
}

static size_t slot_of(const struct wisp_pot *p, int32_t row)
{
    return ((uint32_t)row * 0x9e3779b1u >> 7) & p->mask;
}

/* Puts the first n rows into the slots anew: taking single ones out would cut the chains of
 * others. */
static void refill(struct wisp_pot *p, size_t n, size_t mask)
{
    for (size_t i = 0; i < p->n; i++) p->slot[p->at[i]] = 0;
    p->n = n;
    p->mask = mask;
    for (size_t i = 0; i < n; i++) {
        size_t at = slot_of(p, p->row[i]);
        while (p->slot[at]) at = (at + 1) & mask;
        p->slot[at] = (uint32_t)i + 1;
        p->at[i] = (uint32_t)at;
    }
}

void wisp_pot_vote(struct wisp_pot *p, int32_t row, float votes)
{
    size_t at = slot_of(p, row);
    for (; p->slot[at]; at = (at + 1) & p->mask)
        if (p->row[p->slot[at] - 1] == row) {
            p->votes[p->slot[at] - 1] += votes;
            return;
        }
    if (p->n == p->room || is_label(p, row)) return;
    p->at[p->n] = (uint32_t)at;
    p->row[p->n] = row;
    p->votes[p->n] = votes;
    p->slot[at] = (uint32_t)++p->n;
    if (2 * p->n > p->mask && p->n < p->room) refill(p, p->n, 2 * p->mask + 1);
}

void wisp_pot_add_all(struct wisp_pot *p, const int32_t *rows, size_t n)
{
    for (size_t i = 0; i < n && rows[i] >= 0; i++) {
        size_t had = p->n;
        wisp_pot_vote(p, rows[i], 1);
        if (p->n > had && wisp_share_has(p->share, (size_t)rows[i]))
            wisp_weights_fetch(&p->rows->w, wisp_share_row(p->share, (size_t)rows[i]));
    }
}

/* Rows of other ranks have no score: NaN, which is never among the best. */
static void score_own(struct wisp_pot *p, float *score, const int32_t *id, size_t n)
{
    int32_t *row = (int32_t *)p->keys;
    size_t own = 0;
    for (size_t i = 0; i < n; i++)
        if (wisp_share_has(p->share, (size_t)id[i]))
            row[own++] = (int32_t)wisp_share_row(p->share, (size_t)id[i]);
    wisp_weights_dots(p->k, p->spare, &p->rows->w, row, own, p->h);
    for (size_t i = 0, at = 0; i < n; i++) {
        const bool here = wisp_share_has(p->share, (size_t)id[i]);
        score[i] = here ? p->spare[at] + p->rows->bias[row[at]] : NAN;
        at += here;
    }
}

const uint64_t *wisp_pot_hops(struct wisp_pot *p, size_t n, size_t *found)
{
    if (p->hops && p->told) {
        wisp_pot_score(p);
        for (*found = 0; *found < n && p->hops[*found]; ++*found) continue;
        return p->hops;
    }
    wisp_pot_score(p);
    const uint64_t *best = wisp_pot_best(p, n, found);
    if (!p->hops) return best;
    memcpy(p->hops, best, *found * sizeof *best);
    *found = 0;
    return best;
}

void wisp_pot_score(struct wisp_pot *p)
{
    size_t n = p->n - p->n_scored;
    const int32_t *row = p->row + p->n_scored;
    float *score = p->score + p->n_scored;
    if (!wisp_share_all(p->share)) {
        score_own(p, score, row, n);
        p->n_scored = p->n;
        p->products += n; /* of all ranks */
        return;
    }
    wisp_weights_dots(p->k, score, &p->rows->w, row, n, p->h);
    for (size_t i = 0; i < n; i++) score[i] += p->rows->bias[row[i]];
    p->n_scored = p->n;
    p->products += n;
}

const uint64_t *wisp_pot_best(struct wisp_pot *p, size_t n, size_t *found)
{
    assert(p->n_scored == p->n);
    *found = wisp_keys_best(p->keys, p->score, p->row, p->n, n);
    return p->keys;
}

float wisp_nth_largest(float *x, size_t size, size_t n)
{
    size_t lo = 0, hi = size;
    while (hi - lo > 1) {
        float pivot = x[lo + (hi - lo) / 2];
        size_t i = lo, k = hi - 1;
        for (;; i++, k--) {
            while (x[i] > pivot) i++;
            while (x[k] < pivot) k--;
            if (i >= k) break;
            float v = x[i];
            x[i] = x[k];
            x[k] = v;
        }
        /* all before i are at least pivot, all from i on at most; where i and k met stands pivot */
        if (i == k && n == i + 1) return pivot;
        if (n <= i) hi = i;
        else lo = i + (i == k);
    }
    return x[lo];
}

void wisp_pot_trim(struct wisp_pot *p, size_t first, size_t n, float min_votes)
{
    assert(p->n_scored <= first);
    size_t size = p->n - first, above = 0, to = first;
    float cut = n > 0 ? min_votes : INFINITY;
    if (n > 0 && size > n) {
        memcpy(p->spare, p->votes + first, size * sizeof *p->spare);
        float nth = wisp_nth_largest(p->spare, size, n);
        if (nth > cut) cut = nth;
    }
    for (size_t i = first; i < p->n; i++) above += p->votes[i] > cut;
    size_t left = n > above ? n - above : 0; /* places for those with exactly 'cut' votes */
    for (size_t i = first; i < p->n; i++) {
        if (p->votes[i] < cut || (p->votes[i] == cut && left == 0)) continue;
        left -= p->votes[i] == cut;
        p->row[to] = p->row[i];
        p->votes[to++] = p->votes[i];
    }
    if (to < p->n) refill(p, to, p->mask);
}
