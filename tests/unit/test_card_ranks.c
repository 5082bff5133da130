/* Cards of several ranks, without a card: what each may take of a card that some share, who adds up
 * gradients, and what is refused.  The part for cards is a table made here, and the other ranks are
 * played: what they would say is there when it is gathered. */
#include "base/context.h"
#include "base/mem.h"
#include "model/card_ranks.h"
#include "test.h"

#include <string.h>

enum { RANKS = 3 };
static const size_t GIB = (size_t)1 << 30;

static wisp_error err;
static struct wisp_cuda_card mine; /* the card of the rank that is tested */
static bool there;                 /* NCCL */
static int ids_made;

static wisp_status card(struct wisp_cuda_card *out, wisp_error *e)
{
    (void)e;
    *out = mine;
    return WISP_OK;
}

static const char *adder(bool *has)
{
    *has = there;
    return there ? "NCCL 2.28.7" : "no NCCL: libnccl.so.2 cannot be opened";
}

static wisp_status new_id(unsigned char id[WISP_CUDA_ID], wisp_error *e)
{
    (void)e;
    memset(id, 7, WISP_CUDA_ID);
    ids_made++;
    return WISP_OK;
}

static const struct wisp_cuda part = { .card = card, .adder = adder, .new_id = new_id };

/* ---- the other ranks ---- */

static struct wisp_rank_card others[RANKS];
static struct wisp_comm comm;

static wisp_status gather_played(void *to, const void *from, size_t bytes, wisp_error *e)
{
    (void)e;
    CHECK(bytes == sizeof others[0], "%zu bytes", bytes);
    memcpy(to, others, sizeof others);
    memcpy((char *)to + (size_t)comm.rank * bytes, from, bytes);
    return WISP_OK;
}

/* Nobody else fails: the largest status is this rank's. */
static wisp_status join_played(void *x, size_t n, size_t bytes, wisp_join *join, wisp_error *e)
{
    (void)x, (void)n, (void)bytes, (void)join, (void)e;
    return WISP_OK;
}

static wisp_status spread_played(void *p, size_t bytes, int from, wisp_error *e)
{
    (void)e;
    if (from != comm.rank) memset(p, 9, bytes);
    return WISP_OK;
}

static struct wisp_rank_card card_of(unsigned char id, size_t bytes, bool library)
{
    struct wisp_rank_card c = { .bytes = bytes, .library = library };
    c.id[0] = id;
    return c;
}

/* ---- what is agreed on ---- */

static void test_share(void)
{
    const struct wisp_rank_card apart[] = { card_of(1, 8 * GIB, 1), card_of(2, 6 * GIB, 1),
                                            card_of(3, 7 * GIB, 1) };
    const struct wisp_rank_card shared[] = { card_of(1, 8 * GIB, 1), card_of(2, 6 * GIB, 1),
                                             card_of(1, 8 * GIB, 1) };
    TEST("all ranks take what the one with least has, and those of a card divide it");
    CHECK(wisp_card_share(apart, 3) == 6 * GIB, "%zu", wisp_card_share(apart, 3));
    CHECK(wisp_card_share(shared, 3) == 4 * GIB, "%zu", wisp_card_share(shared, 3));
    CHECK(wisp_card_share(apart, 1) == 8 * GIB, "%zu", wisp_card_share(apart, 1));
    CHECK(wisp_card_apart(apart, 3) && wisp_card_apart(shared, 2) && wisp_card_apart(shared, 1),
          "each has its own");
    CHECK(!wisp_card_apart(shared, 3), "the first and the third have the same");
}

static struct wisp_run run_of(wisp_context *ctx, enum wisp_exchange exchange)
{
    return (struct wisp_run){ .ctx = ctx,
                              .plan = { .cuda = true, .exchange = exchange, .deadline = 5 } };
}

/* What rank 1 of three agrees on, whose card is number 'id'. */
static wisp_status agree(struct wisp_card_ranks *out, size_t *most, unsigned char id,
                         enum wisp_exchange exchange)
{
    wisp_context ctx = { .comm = &comm };
    struct wisp_run r = run_of(&ctx, exchange);
    mine = (struct wisp_cuda_card){ .free_bytes = 5 * GIB, .total_bytes = 9 * GIB };
    mine.id[0] = id;
    memset(out, 0, sizeof *out);
    return wisp_card_agree(out, most, &part, &r, &err);
}

static void test_several(void)
{
    struct wisp_card_ranks got;
    size_t most = 0;
    comm = wisp_comm_self;
    comm.rank = 1, comm.size = RANKS;
    comm.all_gather = gather_played, comm.all_join = join_played, comm.spread = spread_played;
    others[0] = card_of(1, 8 * GIB, 1), others[2] = card_of(3, 8 * GIB, 1);
    there = true;
    TEST("with a card for each NCCL adds up, by the id of rank 0");
    ids_made = 0;
    CHECK(agree(&got, &most, 2, WISP_EXCHANGE_AUTO) == WISP_OK, "%s", err.text);
    CHECK(got.ranks.library && got.ranks.rank == 1 && got.ranks.size == RANKS, "not by NCCL");
    CHECK(got.id[0] == 9 && got.id[WISP_CUDA_ID - 1] == 9 && ids_made == 0, "another id");
    CHECK(most == 5 * GIB && got.ranks.patience == 5, "%zu bytes", most);
    TEST("less than what is free, where so much is allowed");
    most = GIB;
    CHECK(agree(&got, &most, 2, WISP_EXCHANGE_HOST) == WISP_OK && !got.ranks.library, "NCCL");
    CHECK(most == GIB, "%zu bytes", most);

    TEST("where two share a card, or one has no NCCL, the host does");
    most = 0;
    CHECK(agree(&got, &most, 3, WISP_EXCHANGE_AUTO) == WISP_OK && !got.ranks.library, "by NCCL");
    CHECK(most == 5 * GIB / 2, "%zu bytes", most);
    others[0].library = 0;
    CHECK(agree(&got, &most, 2, WISP_EXCHANGE_AUTO) == WISP_OK && !got.ranks.library, "by NCCL");

    TEST("and NCCL that was asked for is refused, with the reason");
    CHECK(agree(&got, &most, 3, WISP_EXCHANGE_NCCL) == WISP_ENOTSUP &&
              strstr(err.text, "--exchange nccl: two ranks work on the same card"),
          "'%s'", err.text);
    CHECK(agree(&got, &most, 2, WISP_EXCHANGE_NCCL) == WISP_ENOTSUP &&
              strstr(err.text, "--exchange nccl: other ranks have no NCCL"),
          "'%s'", err.text);
    others[0].library = 1;
    there = false;
    CHECK(agree(&got, &most, 2, WISP_EXCHANGE_NCCL) == WISP_ENOTSUP &&
              strstr(err.text, "--exchange nccl: no NCCL: libnccl.so.2 cannot be opened; take"),
          "'%s'", err.text);
}

static void test_alone(void)
{
    wisp_context ctx = { 0 };
    struct wisp_card_ranks got = { 0 };
    size_t most = 0;
    struct wisp_run r = run_of(&ctx, WISP_EXCHANGE_AUTO);
    TEST("one rank exchanges nothing, unless it is asked to");
    CHECK(!wisp_card_exchanges(&r), "it does");
    r.plan.exchange = WISP_EXCHANGE_HOST;
    CHECK(wisp_card_exchanges(&r), "it does not");
    r.plan.cuda = false;
    CHECK(!wisp_card_exchanges(&r), "on cores it does");
    r = run_of(&ctx, WISP_EXCHANGE_NCCL);
    there = true;
    ids_made = 0;
    mine = (struct wisp_cuda_card){ .free_bytes = 5 * GIB };
    CHECK(wisp_card_agree(&got, &most, &part, &r, &err) == WISP_OK, "%s", err.text);
    CHECK(got.ranks.library && got.ranks.size == 1 && ids_made == 1 && got.id[0] == 7 &&
              most == 5 * GIB,
          "rank %d of %d", got.ranks.rank, got.ranks.size);
    float x[] = { 1, 2.5f };
    double y[] = { 3 };
    TEST("what the part for cards adds up by: sums of all ranks");
    CHECK(got.ranks.begin(got.ranks.comm, x, 2, &err) == WISP_OK &&
              got.ranks.finish(got.ranks.comm, &err) == WISP_OK && x[0] == 1 && x[1] == 2.5f,
          "%g, %g", (double)x[0], (double)x[1]);
    CHECK(got.ranks.add(got.ranks.comm, y, 1, &err) == WISP_OK && y[0] == 3, "%g", y[0]);
}

int main(void)
{
    test_share();
    test_several();
    test_alone();
    return test_end();
}
