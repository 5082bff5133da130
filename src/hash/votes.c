/* Casting votes: into a pot while training, or in an election of its own for prediction.
 *
 * An election counts thousands of votes for thousands of labels, for one sample, so that each of
 * them counts.  Every label has a sum of its own: no vote looks for a place, and no branch depends
 * on the labels.  (Slots found by a hash of the label took twice as long, the pot five times.) */
#include "hash/votes.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

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
    AHEAD = 3 /* lists that are asked for before their turn */
};

/* The sum of a label without votes.  Votes never add up to it: it has a sign, and they are added
 * to 0. */
static const float NONE = -0.0f;

wisp_status wisp_election_init(struct wisp_election *e, size_t voters, size_t each, size_t n_labels,
                               wisp_error *err)
{
    size_t most = voters * each, room = most > WISP_POT_ROOM ? most : WISP_POT_ROOM;
    *e = (struct wisp_election){
        .voters = voters, .each = each, .room = room, .last = (uint32_t)n_labels - 1
    };
    e->sum = wisp_alloc(n_labels, sizeof *e->sum);
    e->row = wisp_alloc(most + 1, sizeof *e->row);
    e->votes = wisp_alloc(most, sizeof *e->votes);
    e->spare = wisp_alloc(room, sizeof *e->spare);
    e->voter = wisp_alloc(voters, sizeof *e->voter);
    if (!e->sum || !e->row || !e->votes || !e->spare || !e->voter) {
        wisp_election_clear(e);
        return wisp_fail_mem(err, n_labels * sizeof *e->sum, "votes");
    }
    for (size_t i = 0; i < n_labels; i++) e->sum[i] = NONE;
    return WISP_OK;
}

void wisp_election_clear(struct wisp_election *e)
{
    wisp_free(e->sum);
    wisp_free(e->row);
    wisp_free(e->votes);
    wisp_free(e->spare);
    wisp_free(e->voter);
    *e = (struct wisp_election){ 0 };
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void fetch(const void *p, size_t bytes)
{
    for (size_t b = 0; b < bytes; b += 64) __builtin_prefetch((const char *)p + b);
}

static void fetch_list(const struct wisp_votes *v, const struct wisp_voter *of)
{
    fetch(v->label + of->start, of->n * sizeof *v->label);
    fetch(v->weight + of->start, of->n * sizeof *v->weight);
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
    float *sum = e->sum;
    int32_t *row = e->row;
    const uint32_t last = e->last;
    for (size_t i = 0; i < n; i++) {
        /* of a mapped file that somebody is writing to, labels can be anything */
        const uint32_t l = (uint32_t)label[i] < last ? (uint32_t)label[i] : last;
        const float was = sum[l];
        row[seen] = (int32_t)l;
        seen += bits_of(was) == bits_of(NONE);
        sum[l] = was + x * weight[i] + 0.0f; /* + 0: what becomes -0 is 0 */
    }
    return seen;
}

/* Takes the results out of the sums, which are none again. */
static void close_polls(struct wisp_election *e, size_t seen)
{
    for (size_t i = 0; i < seen; i++) {
        float *sum = &e->sum[e->row[i]];
        e->votes[i] = e->spare[i] = e->factor ? *sum * e->factor[e->row[i]] : *sum;
        *sum = NONE;
    }
}

size_t wisp_votes_count(struct wisp_election *e, const struct wisp_votes *v, const int32_t *xi,
                        const float *xv, size_t nnz)
{
    size_t voters = register_voters(e, v, xi, xv, nnz), seen = 0;
    for (size_t i = 0; i < voters && i < AHEAD; i++) fetch_list(v, &e->voter[i]);
    for (size_t i = 0; i < voters; i++) {
        const struct wisp_voter *it = &e->voter[i];
        if (i + AHEAD < voters) fetch_list(v, it + AHEAD);
        seen = count(e, v->label + it->start, v->weight + it->start, it->n, it->x, seen);
    }
    close_polls(e, seen);
    return seen;
}

/* What the n labels with most votes have at least, 0 where fewer than n have more.  Bits of numbers
 * above 0 are in their order, so the place is halved in them, each time by counting all votes: some
 * 15 counts, each a fraction of a microsecond, where sorting by halves would branch on every vote. */
static float least_of_best(const struct wisp_kernels *k, const float *votes, size_t seen, size_t n)
{
    uint32_t low = 0, high = bits_of(INFINITY) + 1;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        const size_t found = k->count_from(votes, seen, of_bits(middle));
        if (found >= n) low = middle;
        else high = middle;
        if (found == n) break; /* these are the ones */
    }
    return of_bits(low);
}

size_t wisp_votes_elect(int32_t *rows, struct wisp_election *e, const struct wisp_votes *v,
                        const struct wisp_kernels *k, const int32_t *xi, const float *xv,
                        size_t nnz, size_t n)
{
    const size_t seen = wisp_votes_count(e, v, xi, xv, nnz);
    const float cut = seen > n ? least_of_best(k, e->votes, seen, n) : 0;
    size_t ties = n, to = 0;
    for (size_t i = 0; i < seen; i++) ties -= e->votes[i] > cut;
    for (size_t i = 0; i < seen && to < n; i++) {
        bool tied = e->votes[i] == cut && ties > 0;
        rows[to] = e->row[i];
        to += tied || e->votes[i] > cut;
        ties -= tied;
    }
    return to;
}
