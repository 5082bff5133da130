/* Rows dealt out by their ids; and collectives: alone they are those of one process, started by
 * mpirun (tests/cli/test_ranks.sh) those of several.  With the argument 'stall' the last rank does
 * not come, and the others must say so; with 'stall later' they wait in the end of a sum that they
 * have begun. */
#include "base/mem.h"
#include "comm/comm.h"
#include "hash/best.h"
#include "hash/swap.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void test_shares(void)
{
    TEST("dealt rows: every id has one owner, and is found again");
    for (int size = 0; size <= 7; size++)
        for (size_t n = 0; n <= 60; n++) {
            size_t sum = 0, most = 0;
            for (int rank = 0; rank < (size ? size : 1); rank++) {
                const struct wisp_share s = { rank, size };
                const size_t rows = wisp_share_rows(s, n);
                sum += rows;
                if (rows > most) most = rows;
                for (size_t r = 0; r < rows; r++) {
                    const size_t id = wisp_share_id(s, r);
                    CHECK(id < n && wisp_share_has(s, id) && wisp_share_row(s, id) == r &&
                              (r == 0 || id > wisp_share_id(s, r - 1)),
                          "%zu ids, rank %d of %d: row %zu is id %zu", n, rank, size, r, id);
                }
            }
            const struct wisp_share any = { 0, size };
            CHECK(sum == n && most <= wisp_share_most(any, n) && most * (size_t)any.size < n + 7,
                  "%zu ids, %d ranks: %zu rows, most %zu", n, size, sum, most);
        }
    TEST("dealt rows: neighbouring groups are turned differently");
    size_t even = 0;
    for (size_t id = 0; id < 4000; id += 2)
        even += wisp_share_owner((struct wisp_share){ 0, 2 }, id) == 0;
    CHECK(even > 800 && even < 1200, "rank 0 of 2 has %zu of 2000 even ids", even);
}

/* What rank q has at place i. */
static float number(int q, size_t i)
{
    return (float)((i * 2654435761u + (size_t)q * 40503u) % 2001) / 1000 - 1;
}

/* The list of rank q for sample s: up to k keys of ids that no other rank has, best first. */
static void list_of(uint64_t *to, int q, int ranks, size_t s, size_t k)
{
    const size_t n = (s * 7 + (size_t)q * 5) % (k + 1);
    memset(to, 0, k * sizeof *to);
    for (size_t i = 0; i < n; i++) to[i] = wisp_key(number(q, s * k + i), (int32_t)i * ranks + q);
    wisp_keys_sort(to, n);
}

static void test_lists(const struct wisp_comm *c, size_t n, size_t k)
{
    wisp_error err = { 0 };
    const size_t ranks = (size_t)c->size;
    uint64_t *x = wisp_alloc(n * k, sizeof *x), *all = wisp_alloc(ranks * k, sizeof *all);
    size_t wrong = 0;
    for (size_t s = 0; s < n; s++) list_of(x + s * k, c->rank, c->size, s, k);
    CHECK(wisp_keys_swap(x, c, n, k, &err) == WISP_OK, "%s", err.text);
    for (size_t s = 0; s < n; s++) {
        for (int q = 0; q < c->size; q++) list_of(all + (size_t)q * k, q, c->size, s, k);
        wisp_keys_sort(all, ranks * k); /* 0 is less than any key */
        wrong += memcmp(x + s * k, all, k * sizeof *x) != 0;
    }
    CHECK(wrong == 0, "%zu lists of %zu: %zu of them are wrong", n, k, wrong);
    wisp_free(x);
    wisp_free(all);
}

/* In up to 100 parts, more than can be under way at once, with other collectives between them. */
static void sum_later(const struct wisp_comm *c, float *x, size_t n)
{
    wisp_error err = { 0 };
    const size_t part = n / 100 + 1;
    wisp_status st = WISP_OK;
    for (size_t at = 0; at < n && st == WISP_OK; at += part) {
        double one = 1;
        st = wisp_comm_begin_sum(c, x + at, n - at < part ? n - at : part, &err);
        if (st == WISP_OK) st = c->join_go_on(&err);
        if (st == WISP_OK && at / part % 7 == 0) st = wisp_comm_add(c, &one, 1, &err);
        CHECK(at / part % 7 || one == c->size, "a sum between sums is %g", one);
    }
    if (st == WISP_OK) st = c->join_finish(&err);
    CHECK(st == WISP_OK, "%s", err.text);
}

static void test_sums(const struct wisp_comm *c, size_t n)
{
    wisp_error err = { 0 };
    float *x = wisp_alloc(n, sizeof *x), *y = wisp_alloc(n, sizeof *y);
    const uint64_t before = c->sent();
    size_t wrong = 0, later = 0;
    for (size_t i = 0; i < n; i++) x[i] = y[i] = number(c->rank, i);
    CHECK(wisp_comm_sum(c, x, n, &err) == WISP_OK, "%s", err.text);
    const double bytes = (double)(c->sent() - before);
    sum_later(c, y, n);
    for (size_t i = 0; i < n; i++) {
        float sum = number(0, i);
        for (int q = 1; q < c->size; q++) sum += number(q, i);
        wrong += x[i] != sum;
        later += y[i] != sum;
    }
    CHECK(wrong == 0 && later == 0, "%zu of %zu sums are wrong, %zu of those begun and finished",
          wrong, n, later);
    const double share = (double)(c->size - 1) / c->size, all = 4.0 * (double)n;
    if (n > 100000)
        CHECK(bytes <= 1.001 * 2 * share * all, "%g bytes sent, expected %g", bytes,
              2 * share * all);
    wisp_free(x);
    wisp_free(y);
}

static void test_others(const struct wisp_comm *c)
{
    wisp_error err = { 0 };
    double most[] = { c->rank, -c->rank }, sum[] = { c->rank + 1 };
    TEST("the largest and the sum of doubles");
    CHECK(wisp_comm_max(c, most, 2, &err) == WISP_OK && most[0] == c->size - 1 && most[1] == 0,
          "%g %g %s", most[0], most[1], err.text);
    CHECK(wisp_comm_add(c, sum, 1, &err) == WISP_OK && sum[0] == c->size * (c->size + 1) / 2,
          "%g %s", sum[0], err.text);
    TEST("all_gather, in place and from elsewhere");
    int32_t *all = wisp_zalloc((size_t)c->size * 3, sizeof *all), mine[3];
    for (int i = 0; i < 3; i++) mine[i] = 10 * c->rank + i;
    CHECK(c->all_gather(all, mine, sizeof mine, &err) == WISP_OK, "%s", err.text);
    for (int q = 0; q < c->size; q++)
        for (int i = 0; i < 3; i++) CHECK(all[3 * q + i] == 10 * q + i, "%d", all[3 * q + i]);
    memset(all, 0, (size_t)c->size * sizeof mine);
    memcpy(all + 3 * c->rank, mine, sizeof mine);
    CHECK(c->all_gather(all, all + 3 * c->rank, sizeof mine, &err) == WISP_OK, "%s", err.text);
    for (int q = 0; q < c->size; q++) CHECK(all[3 * q + 2] == 10 * q + 2, "%d", all[3 * q + 2]);
    TEST("gather: of any length, in order");
    char to[40] = "", text[8];
    memset(text, 'a' + c->rank, sizeof text);
    CHECK(c->gather(to, sizeof to, text, (size_t)c->rank + 1, &err) == WISP_OK, "%s", err.text);
    const char *want = c->size == 1 ? "a" : c->size == 2 ? "abb" : "abbccc";
    if (c->rank == 0) CHECK(strcmp(to, want) == 0, "%s", to);
    TEST("spread: from the last rank");
    snprintf(text, sizeof text, "from %d", c->rank);
    CHECK(c->spread(text, sizeof text, c->size - 1, &err) == WISP_OK &&
              text[5] == '0' + c->size - 1,
          "%s", text);
    CHECK(c->barrier(&err) == WISP_OK, "%s", err.text);
    wisp_free(all);
}

/* The last rank sleeps for longer than the others are patient. */
static void test_stall(const struct wisp_comm *c, bool later)
{
    wisp_error err = { 0 };
    float x[400] = { 0 };
    char who[20];
    TEST("a rank that does not come: WISP_EPEER after the deadline, and who it is");
    c->patience(1);
    if (c->rank == c->size - 1) {
        nanosleep(&(struct timespec){ .tv_sec = 30 }, NULL); /* mpirun ends it once others have */
        return;
    }
    wisp_status st = later ? wisp_comm_begin_sum(c, x, 400, &err) : wisp_comm_sum(c, x, 400, &err);
    if (later && st == WISP_OK) st = c->join_go_on(&err);
    if (later && st == WISP_OK) st = c->join_finish(&err);
    snprintf(who, sizeof who, "for rank %d (", c->size - 1);
    CHECK(st == WISP_EPEER && strstr(err.text, who) && strstr(err.text, "waited 1 s"), "%d %s", st,
          err.text);
    CHECK(c->barrier(&err) == WISP_EPEER && strstr(err.text, "lost before"), "%s", err.text);
}

int main(int argc, char **argv)
{
    struct wisp_comm c;
    wisp_error err = { 0 };
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    const struct wisp_launch how = { "mpirun", size ? atoi(size) : 1 };
    TEST("joining");
    CHECK(wisp_comm_open(&c, &how, &err) == WISP_OK && c.size == how.size, "%s", err.text);
    if (argc > 1 && strcmp(argv[1], "stall") == 0) {
        test_stall(&c, argc > 2);
        return test_end();
    }
    test_shares();
    static const size_t sizes[] = { 0, 1, 2, 5, 255, 256, 257, 1000, 300001 };
    TEST("sums of floats, at once and begun and finished: as in the order of ranks, bit for bit");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) test_sums(&c, sizes[i]);
    TEST("lists of the best: merged at every rank");
    static const size_t widths[] = { 1, 4, 65 };
    for (size_t i = 0; i < 3; i++)
        for (size_t n = 0; n < 400; n = 3 * n + 1) test_lists(&c, n, widths[i]);
    if (argc > 1 && strcmp(argv[1], "large") == 0) {
        TEST("more than a chunk of 64 MiB");
        test_sums(&c, (size_t)WISP_COMM_CHUNK / 4 + 12345);
    }
    test_others(&c);
    c.leave();
    return test_end();
}
