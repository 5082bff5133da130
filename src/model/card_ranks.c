/* Cards of several ranks: which one a rank works on, how much of it each takes, and who adds up their
 * gradients.
 *
 * A rank takes the card that has its number among the ranks of its machine, round and round: where
 * there are fewer cards some share one.  All ranks plan within what the one with least memory has, so
 * that all make the same step: where batch norm's numbers are added up they wait for each other. */
#include "model/card_ranks.h"
#include "base/bounds.h"

#include <stdio.h>
#include <string.h>

static const struct wisp_comm *ranks_of(const struct wisp_run *r)
{
    return wisp_run_comm(r) ? wisp_run_comm(r) : &wisp_comm_self;
}

bool wisp_card_exchanges(const struct wisp_run *r)
{
    return r->plan.cuda && (wisp_run_comm(r) || r->plan.exchange != WISP_EXCHANGE_AUTO);
}

wisp_status wisp_card_open(const struct wisp_cuda **api, const struct wisp_run *r, wisp_error *err)
{
    const struct wisp_comm *c = wisp_run_comm(r);
    return c ? wisp_cuda_open_at(api, c->host_rank, err) : wisp_cuda_open(api, err);
}

/* ---- what the card's part adds up by ---- */

static wisp_status add(const void *comm, double *x, size_t n, wisp_error *err)
{
    return wisp_comm_add(comm, x, n, err);
}

static wisp_status begin(const void *comm, float *x, size_t n, wisp_error *err)
{
    return wisp_comm_begin_sum(comm, x, n, err);
}

static wisp_status finish(const void *comm, wisp_error *err)
{
    const struct wisp_comm *c = comm;
    return c->join_finish(err);
}

/* ---- what all agree on ---- */

size_t wisp_card_share(const struct wisp_rank_card *of, int n)
{
    size_t least = SIZE_MAX;
    for (int q = 0; q < n; q++) {
        size_t sharing = 0;
        for (int p = 0; p < n; p++) sharing += memcmp(of[p].id, of[q].id, sizeof of[p].id) == 0;
        const size_t mine = (size_t)of[q].bytes / sharing;
        if (mine < least) least = mine;
    }
    return least;
}

bool wisp_card_apart(const struct wisp_rank_card *of, int n)
{
    for (int q = 1; q < n; q++)
        for (int p = 0; p < q; p++)
            if (memcmp(of[p].id, of[q].id, sizeof of[p].id) == 0) return false;
    return true;
}

/* Does NCCL add up?  The same answer at every rank. */
static wisp_status choose(bool *library, const struct wisp_rank_card *of, int n,
                          enum wisp_exchange asked, const char *says, wisp_error *err)
{
    const bool apart = wisp_card_apart(of, n);
    bool there = true;
    for (int q = 0; q < n; q++) there = there && of[q].library;
    *library =
        asked == WISP_EXCHANGE_NCCL || (asked == WISP_EXCHANGE_AUTO && n > 1 && apart && there);
    if (asked != WISP_EXCHANGE_NCCL || (apart && there)) return WISP_OK;
    if (!apart)
        return wisp_fail(err, WISP_ENOTSUP,
                         "--exchange nccl: two ranks work on the same card, and NCCL takes one "
                         "rank for each; take --exchange host, or fewer ranks");
    return wisp_fail(err, WISP_ENOTSUP, "--exchange nccl: %s; take --exchange host", says);
}

wisp_status wisp_card_agree(struct wisp_card_ranks *out, size_t *most, const struct wisp_cuda *api,
                            const struct wisp_run *r, wisp_error *err)
{
    const struct wisp_comm *c = ranks_of(r);
    struct wisp_rank_card all[WISP_COMM_MOST_RANKS], mine = { 0 };
    struct wisp_cuda_card card;
    bool there = false;
    const char *says = api->adder(&there);
    wisp_status st = wisp_comm_agree(c, api->card(&card, err), err);
    if (st != WISP_OK) return st;
    memcpy(mine.id, card.id, sizeof mine.id);
    mine.bytes = *most && *most < card.free_bytes ? *most : card.free_bytes;
    mine.library = there;
    if ((st = c->all_gather(all, &mine, sizeof mine, err)) != WISP_OK) return st;
    *most = wisp_card_share(all, c->size);
    out->ranks = (struct wisp_cuda_ranks){ .rank = c->rank,
                                           .size = c->size,
                                           .patience = r->plan.deadline,
                                           .comm = c,
                                           .add = add,
                                           .begin = begin,
                                           .finish = finish };
    st = choose(&out->ranks.library, all, c->size, r->plan.exchange,
                there ? "other ranks have no NCCL" : says, err);
    if (st == WISP_OK && out->ranks.library && c->rank == 0) st = api->new_id(out->id, err);
    st = wisp_comm_agree(c, st, err);
    if (st == WISP_OK) st = c->spread(out->id, sizeof out->id, 0, err);
    if (st != WISP_OK) return st;
    wisp_say(r->ctx, "exchange  gradients of %d rank%s are added up by %s%s", c->size,
             wisp_plural((size_t)c->size), out->ranks.library ? says : "the host",
             wisp_card_apart(all, c->size) ? "" : "; some ranks share a card");
    return WISP_OK;
}
