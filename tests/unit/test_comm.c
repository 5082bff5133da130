/* Ranks: shares, threads, the job of one process, and what is said where others cannot be joined.
 * Several real ranks are the business of tests/cli/test_mpi.sh; here agreeing is shown on ranks
 * that are played one after the other. */
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "spdnn/spdnn.h"
#include "test.h"

#include <limits.h>
#include <string.h>

/* ---- shares ---- */

static void test_share(void)
{
    TEST("shares: every row once, in order, sizes differ by at most one");
    for (int size = 1; size <= 9; size++)
        for (size_t n = 0; n <= 40; n++) {
            size_t next = 0, most = 0, least = SIZE_MAX, at_0 = 0;
            for (int rank = 0; rank < size; rank++) {
                struct wisp_comm c = { .rank = rank, .size = size };
                size_t first = SIZE_MAX, share = SIZE_MAX;
                wisp_comm_share(&first, &share, &c, n);
                CHECK(first == next, "%zu rows, rank %d of %d begins at %zu, not %zu", n, rank,
                      size, first, next);
                next = first + share;
                if (share > most) most = share;
                if (share < least) least = share;
                if (rank == 0) at_0 = share;
            }
            CHECK(next == n, "%zu rows, %d ranks: %zu in shares", n, size, next);
            CHECK(most - least <= 1 && at_0 == most, "%zu rows, %d ranks: %zu to %zu, rank 0 %zu",
                  n, size, least, most, at_0);
        }
}

static void test_threads(void)
{
    static const struct {
        int host_size, host_cores, cores, quota, want;
    } cases[] = {
        { 1, 16, 16, INT_MAX, 16 }, /* alone */
        { 4, 16, 16, INT_MAX, 4 },  /* not bound */
        { 4, 16, 8, INT_MAX, 4 },   /* bound to halves of the machine */
        { 2, 2, 1, INT_MAX, 1 },    /* bound to a core each */
        { 4, 2, 2, INT_MAX, 1 },    /* more ranks than cores */
        { 3, 16, 16, INT_MAX, 5 },  /* not divisible */
        { 4, 64, 8, 8, 2 },         /* a container with less time than processors */
        { 2, 0, 6, INT_MAX, 3 },    /* what others may use is not known */
    };
    TEST("threads: the cores of a machine are divided among its ranks");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct wisp_comm c = { .host_size = cases[i].host_size,
                                     .host_cores = cases[i].host_cores };
        const int got = wisp_comm_threads(&c, cases[i].cores, cases[i].quota);
        CHECK(got == cases[i].want, "case %zu: %d threads, not %d", i, got, cases[i].want);
    }
}

/* ---- inputs of a share ---- */

static float value_at(const struct wisp_spinputs *x, size_t row, uint32_t i)
{
    if (x->bits) return (float)(x->bits[row * x->words + i / 64] >> i % 64 & 1);
    for (uint64_t k = x->start[row]; k < x->start[row + 1]; k++)
        if (x->id[k] == i) return x->value[k];
    return 0;
}

enum { ROWS = 13, WIDTH = 70 };

static void make_inputs(struct wisp_spinputs *x, bool numbers)
{
    uint64_t s = 3;
    wisp_error err;
    if (!numbers) {
        CHECK(wisp_spinputs_bits(x, ROWS, WIDTH, &err) == WISP_OK, "%s", err.text);
        for (size_t r = 0; r < ROWS; r++)
            for (uint32_t i = 0; i < WIDTH; i++)
                x->bits[r * x->words + i / 64] |= (test_rand(&s) >> 40 & 1) << i % 64;
        return;
    }
    *x = (struct wisp_spinputs){ .n = ROWS, .width = WIDTH, .words = 2 };
    x->start = wisp_zalloc(ROWS + 1, sizeof *x->start);
    x->id = wisp_zalloc(ROWS * WIDTH, sizeof *x->id);
    x->value = wisp_zalloc(ROWS * WIDTH, sizeof *x->value);
    for (size_t r = 0; r < ROWS; r++) {
        uint64_t at = x->start[r];
        for (uint32_t i = 0; i < WIDTH && r % 4 != 1; i++) { /* some rows are empty */
            if (test_rand(&s) >> 40 & 3) continue;
            x->id[at] = i;
            x->value[at++] = test_randf(&s);
        }
        x->start[r + 1] = at;
    }
}

static void test_keep(void)
{
    for (int numbers = 0; numbers < 2; numbers++) {
        TEST(numbers ? "keep: a share of rows of numbers" : "keep: a share of rows of bits");
        for (size_t first = 0; first <= ROWS; first++)
            for (size_t n = 0; first + n <= ROWS; n++) {
                struct wisp_spinputs all, x;
                const long live = wisp_mem_live;
                make_inputs(&all, numbers);
                make_inputs(&x, numbers);
                wisp_mem_budget = n % 2 ? 0 : -1; /* a block that stays as large will do */
                wisp_spinputs_keep(&x, first, n);
                wisp_mem_budget = -1;
                CHECK(x.n == n && x.width == WIDTH, "%zu rows of %u", x.n, x.width);
                CHECK(!numbers || x.start[0] == 0, "the first row begins at %llu",
                      (unsigned long long)x.start[0]);
                for (size_t r = 0; r < n; r++)
                    for (uint32_t i = 0; i < WIDTH; i++)
                        CHECK(value_at(&x, r, i) == value_at(&all, first + r, i),
                              "rows %zu + %zu: row %zu value %u differs", first, n, r, i);
                wisp_spinputs_clear(&all);
                wisp_spinputs_clear(&x);
                CHECK(wisp_mem_live == live, "%ld blocks left", wisp_mem_live - live);
            }
    }
}

/* ---- one process, and others that cannot be joined ---- */

static void test_self(void)
{
    struct wisp_comm c;
    wisp_error err = { 0 };
    double x[] = { 1, -2 };
    char to[8] = "", text[] = "abc";
    TEST("one process: every collective is a plain copy, or nothing");
    CHECK(wisp_comm_open(&c, &(struct wisp_launch){ .size = 1 }, &err) == WISP_OK && c.size == 1 &&
              c.rank == 0 && c.host_size == 1 && c.host_rank == 0,
          "%s", err.text);
    CHECK(wisp_comm_max(&c, x, 2, &err) == WISP_OK && wisp_comm_add(&c, x, 2, &err) == WISP_OK &&
              x[0] == 1 && x[1] == -2,
          "%g %g", x[0], x[1]);
    CHECK(c.all_gather(to, text, 4, &err) == WISP_OK && strcmp(to, "abc") == 0, "%s", to);
    to[0] = 0;
    CHECK(c.gather(to, sizeof to, text, 4, &err) == WISP_OK && strcmp(to, "abc") == 0, "%s", to);
    CHECK(c.spread(text, 4, 0, &err) == WISP_OK && strcmp(text, "abc") == 0, "%s", text);
    CHECK(c.barrier(&err) == WISP_OK, "%s", err.text);
    wisp_fail(&err, WISP_EIO, "x: gone");
    CHECK(wisp_comm_agree(&c, WISP_EIO, &err) == WISP_EIO && strcmp(err.text, "x: gone") == 0, "%s",
          err.text);
    CHECK(wisp_comm_agree(&c, WISP_OK, &err) == WISP_OK, "a failure out of nothing");
    c.leave();
}

static void test_missing(void)
{
    struct wisp_comm c;
    wisp_error err = { 0 };
    TEST("one of several without wisp-mpi.so: refused, not done alone");
    const wisp_status st = wisp_comm_open(&c, &(struct wisp_launch){ "mpirun", 4 }, &err);
    CHECK(st == WISP_ENOTSUP && strstr(err.text, "mpirun as one of 4") &&
              strstr(err.text, "wisp-mpi.so") && strstr(err.text, "not found"),
          "%d %s", st, err.text);
    CHECK(c.size == 1, "%d ranks", c.size);
}

/* ---- agreeing: rank 'rank' of 3, where 'failed' says which others have ---- */

static struct {
    double most; /* what the others contribute */
    wisp_error said;
    bool lost;
} others;

static wisp_status play_join(void *x, size_t n, size_t bytes, wisp_join *join, wisp_error *err)
{
    const void *part[] = { x, &others.most };
    CHECK(n == 1 && bytes == sizeof others.most, "%zu numbers of %zu bytes", n, bytes);
    if (others.lost) return wisp_fail(err, WISP_EPEER, "lost");
    join(x, part, 2, n, bytes);
    return WISP_OK;
}

static int spread_from;

static wisp_status play_spread(void *p, size_t bytes, int from, wisp_error *err)
{
    (void)err;
    spread_from = from;
    if (others.said.code != WISP_OK) memcpy(p, &others.said, bytes);
    return WISP_OK;
}

static void test_agree(void)
{
    struct wisp_comm c = { .size = 3, .all_join = play_join, .spread = play_spread };
    wisp_error err = { 0 };
    TEST("agreeing: nobody failed");
    memset(&others, 0, sizeof others);
    CHECK(wisp_comm_agree(&c, WISP_OK, &err) == WISP_OK, "%s", err.text);

    TEST("agreeing: another rank failed, its message comes here");
    c.rank = 0;
    others.most = 3 - 2; /* rank 2 */
    wisp_fail(&others.said, WISP_EFORMAT, "rank 2 (there): bad line");
    CHECK(wisp_comm_agree(&c, WISP_OK, &err) == WISP_EFORMAT && err.code == WISP_EFORMAT &&
              strcmp(err.text, "rank 2 (there): bad line") == 0 && spread_from == 2,
          "%d %s from %d", err.code, err.text, spread_from);
    CHECK(wisp_comm_agree(&c, WISP_OK, NULL) == WISP_EFORMAT, "no room for a message");
    wisp_fail_at(&others.said, WISP_EFORMAT, "f", 3, "bad");
    CHECK(wisp_comm_agree(&c, WISP_OK, &err) == WISP_EFORMAT && err.line == 3, "%zu", err.line);

    TEST("agreeing: this rank is the first that failed, and says where it is");
    others.said = (wisp_error){ 0 };
    c.rank = 1;
    wisp_fail(&err, WISP_ENOMEM, "full");
    CHECK(wisp_comm_agree(&c, WISP_ENOMEM, &err) == WISP_ENOMEM && spread_from == 1 &&
              strncmp(err.text, "rank 1 (", 8) == 0 && strstr(err.text, "): full"),
          "%s from %d", err.text, spread_from);
    wisp_fail_at(&err, WISP_EFORMAT, "f", 3, "bad");
    CHECK(wisp_comm_agree(&c, WISP_EFORMAT, &err) == WISP_EFORMAT && strstr(err.text, "): f:3: ") &&
              err.line == 3 && err.file_bytes == 0 && err.place_bytes == 0,
          "%s: line %zu, %u and %u bytes", err.text, err.line, err.file_bytes, err.place_bytes);
    c.rank = 0;
    wisp_fail_at(&err, WISP_ENOMEM, "f", 0, "full");
    CHECK(wisp_comm_agree(&c, WISP_ENOMEM, &err) == WISP_ENOMEM &&
              strcmp(err.text, "f: full") == 0 && err.file_bytes == 1 && err.place_bytes == 3,
          "%s", err.text);

    TEST("agreeing: where a rank is lost, this one's own failure says more");
    others.lost = true;
    CHECK(wisp_comm_agree(&c, WISP_OK, &err) == WISP_EPEER && strcmp(err.text, "lost") == 0, "%s",
          err.text);
    wisp_fail(&err, WISP_EIO, "gone");
    CHECK(wisp_comm_agree(&c, WISP_EIO, &err) == WISP_EIO && strcmp(err.text, "gone") == 0, "%s",
          err.text);
}

int main(void)
{
    test_share();
    test_threads();
    test_keep();
    test_self();
    test_missing();
    test_agree();
    return test_end();
}
