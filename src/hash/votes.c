/* Casting votes: into a pot while training, or in an election of its own for prediction.
 *
 * An election counts thousands of votes for thousands of labels, for one sample, so that each of
 * them counts.  Label and sum lie side by side in open slots that never fill up by more than a
 * quarter: most votes look at one cache line, and the only branch that is hard to foresee is a
 * collision.  (The pot keeps three arrays that grow: 2.5 times as slow here.) */
#include "hash/votes.h"
#include "base/mem.h"

#include <math.h>

/* The least value of the features that vote; *ties: how many with exactly this value do.
 * spare (nnz). */
static float least_voter(size_t *ties, const struct wisp_votes *v, const int32_t *xi,
                         const float *xv, size_t nnz, size_t voters, float *spare)
{
    size_t n_known = 0;
    *ties = voters;
    for (size_t i = 0; i < nnz; i++) {
        spare[n_known] = xv[i];
        n_known += (size_t)xi[i] < v->n_features;
    }
    if (n_known <= voters) return -INFINITY;
    float least = wisp_nth_largest(spare, n_known, voters);
    for (size_t i = 0; i < nnz; i++) *ties -= xv[i] > least && (size_t)xi[i] < v->n_features;
    return least;
}

/* Does this feature vote?  To be asked once for each, in order. */
static bool votes(const struct wisp_votes *v, int32_t feature, float x, float least, size_t *ties)
{
    if ((size_t)feature >= v->n_features || !(x >= least) || (x == least && *ties == 0))
        return false;
    *ties -= x == least;
    return true;
}

void wisp_votes_cast(const struct wisp_votes *v, const int32_t *xi, const float *xv, size_t nnz,
                     size_t voters, size_t each, size_t n, struct wisp_pot *pot)
{
    size_t first = pot->n, ties;
    if (nnz > pot->room) nnz = pot->room;
    float least = least_voter(&ties, v, xi, xv, nnz, voters, pot->spare);
    for (size_t i = 0; i < nnz; i++) {
        if (!votes(v, xi[i], xv[i], least, &ties)) continue;
        int64_t end = v->start[xi[i] + 1];
        if (end > v->start[xi[i]] + (int64_t)each) end = v->start[xi[i]] + (int64_t)each;
        for (int64_t e = v->start[xi[i]]; e < end; e++)
            wisp_pot_vote(pot, v->label[e], xv[i] * v->weight[e]);
    }
    wisp_pot_trim(pot, first, n, 0);
}

/* ---- elections ---- */

enum {
    FREE = -1,
    SPARE = 4, /* slots a label; with 2 all of it took a tenth longer */
    AHEAD = 3  /* lists that are asked for before their turn */
};

wisp_status wisp_election_init(struct wisp_election *e, size_t voters, size_t each, wisp_error *err)
{
    size_t most = voters * each, slots = 16, room = most > WISP_POT_ROOM ? most : WISP_POT_ROOM;
    int shift = 28;
    for (; slots < SPARE * most; shift--) slots *= 2;
    *e = (struct wisp_election){
        .voters = voters, .each = each, .room = room, .mask = slots - 1, .shift = shift
    };
    e->slot = wisp_alloc(slots, sizeof *e->slot);
    e->used = wisp_alloc(most, sizeof *e->used);
    e->row = wisp_alloc(most, sizeof *e->row);
    e->votes = wisp_alloc(most, sizeof *e->votes);
    e->spare = wisp_alloc(room, sizeof *e->spare);
    e->voter = wisp_alloc(voters, sizeof *e->voter);
    if (!e->slot || !e->used || !e->row || !e->votes || !e->spare || !e->voter) {
        wisp_election_clear(e);
        return wisp_fail_mem(err, slots * sizeof *e->slot, "votes");
    }
    for (size_t i = 0; i < slots; i++) e->slot[i] = (struct wisp_tally){ FREE, 0 };
    return WISP_OK;
}

void wisp_election_clear(struct wisp_election *e)
{
    wisp_free(e->slot);
    wisp_free(e->used);
    wisp_free(e->row);
    wisp_free(e->votes);
    wisp_free(e->spare);
    wisp_free(e->voter);
    *e = (struct wisp_election){ 0 };
}

static void fetch(const void *p, size_t bytes)
{
    enum { LINE = 64 };
    for (size_t b = 0; b < bytes; b += LINE) __builtin_prefetch((const char *)p + b);
}

/* Who votes, and where their lists are; these lie all over a large array. */
static size_t register_voters(struct wisp_election *e, const struct wisp_votes *v,
                              const int32_t *xi, const float *xv, size_t nnz)
{
    size_t n = 0, ties;
    if (nnz > e->room) nnz = e->room;
    for (size_t i = 0; i < nnz; i++)
        if ((size_t)xi[i] < v->n_features) __builtin_prefetch(v->start + xi[i]);
    float least = least_voter(&ties, v, xi, xv, nnz, e->voters, e->spare);
    for (size_t i = 0; i < nnz && n < e->voters; i++) {
        if (!votes(v, xi[i], xv[i], least, &ties)) continue;
        size_t length = (size_t)(v->start[xi[i] + 1] - v->start[xi[i]]);
        if (length > e->each) length = e->each;
        e->voter[n++] = (struct wisp_voter){ v->start[xi[i]], length, xv[i] };
    }
    return n;
}

/* Counts the votes of one list; returns how many labels have votes now. */
static size_t count(struct wisp_election *e, const int32_t *label, const float *weight, size_t n,
                    float x, size_t seen)
{
    struct wisp_tally *slot = e->slot;
    uint32_t mask = (uint32_t)e->mask, *used = e->used;
    int shift = e->shift;
    for (size_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)label[i] * 0x9e3779b1u >> shift;
        while (slot[at].row != label[i] && slot[at].row != FREE) at = (at + 1) & mask;
        used[seen] = at;
        seen += slot[at].row == FREE;
        slot[at].row = label[i];
        slot[at].votes += x * weight[i];
    }
    return seen;
}

/* Takes the results out of the slots, which are free again. */
static void close_polls(struct wisp_election *e, size_t seen)
{
    for (size_t i = 0; i < seen; i++) {
        struct wisp_tally *t = &e->slot[e->used[i]];
        e->row[i] = t->row;
        e->votes[i] = e->spare[i] = e->factor ? t->votes * e->factor[t->row] : t->votes;
        *t = (struct wisp_tally){ FREE, 0 };
    }
}

size_t wisp_votes_count(struct wisp_election *e, const struct wisp_votes *v, const int32_t *xi,
                        const float *xv, size_t nnz)
{
    size_t voters = register_voters(e, v, xi, xv, nnz), seen = 0;
    for (size_t i = 0; i < voters; i++) {
        const struct wisp_voter *it = &e->voter[i];
        if (i + AHEAD < voters) {
            const struct wisp_voter *soon = it + AHEAD;
            fetch(v->label + soon->start, soon->n * sizeof *v->label);
            fetch(v->weight + soon->start, soon->n * sizeof *v->weight);
        }
        seen = count(e, v->label + it->start, v->weight + it->start, it->n, it->x, seen);
    }
    close_polls(e, seen);
    return seen;
}

size_t wisp_votes_elect(int32_t *rows, struct wisp_election *e, const struct wisp_votes *v,
                        const int32_t *xi, const float *xv, size_t nnz, size_t n)
{
    size_t seen = wisp_votes_count(e, v, xi, xv, nnz), ties = n, to = 0;
    float cut = seen > n ? wisp_nth_largest(e->spare, seen, n) : 0;
    if (cut < 0) cut = 0; /* nobody wins with less than nothing */
    for (size_t i = 0; i < seen; i++) ties -= e->votes[i] > cut;
    for (size_t i = 0; i < seen && to < n; i++) {
        bool tied = e->votes[i] == cut && ties > 0;
        rows[to] = e->row[i];
        to += tied || e->votes[i] > cut;
        ties -= tied;
    }
    return to;
}
