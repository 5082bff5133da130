/* Times of steps: which of them count, and what layers took in the middle one. */
#include "model/pace.h"

#include "base/mem.h"
#include "test.h"

static void test_counts(void)
{
    TEST("the first steps do not count");
    struct wisp_pace p = { .warm = 3, .least = 2 };
    wisp_error err;
    CHECK(wisp_pace_begin(&p, 1, &err) == WISP_OK, "%s", err.text);
    wisp_pace_add(&p, 1, 50);
    wisp_pace_add(&p, 3, 30);
    CHECK(p.seen == 4 && p.n == 1 && p.each[0] == 10 && !wisp_pace_enough(&p), "%zu of %zu", p.n,
          p.seen);
    wisp_pace_add(&p, 1, 7);
    CHECK(p.n == 2 && p.each[1] == 7 && wisp_pace_enough(&p), "%zu", p.n);
    wisp_pace_clear(&p);
}

/* Steps of 1, 2, 3, 4 and one that something held up; layers 0 and 2 of three, which take as long. */
static void test_laps(void)
{
    TEST("laps of layers are those of the middle step");
    const int all[] = { 0, 1, 2 }, some[] = { 0, 2 };
    struct wisp_pace p = { .warm = 1 };
    wisp_error err;
    CHECK(wisp_pace_begin(&p, 3, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_pace_lap(&p, all, 3, false) == 0, "before the first step");
    wisp_pace_add(&p, 1, 1000); /* warm: nobody takes laps */
    static const double takes[] = { 1, 4, 100, 2, 3 };
    for (int s = 0; s < 5; s++) {
        for (int i = 0; i < 3; i++) {
            p.laps.forward[i] += takes[s] * (i + 1);
            p.laps.back[i] += 10 * takes[s] * (i + 1);
        }
        wisp_pace_add(&p, 1, takes[s]);
    }
    CHECK(wisp_pace_lap(&p, all, 3, false) == 18, "forward %g", wisp_pace_lap(&p, all, 3, false));
    CHECK(wisp_pace_lap(&p, some, 2, false) == 12, "of some %g", wisp_pace_lap(&p, some, 2, false));
    CHECK(wisp_pace_lap(&p, some, 2, true) == 120, "back %g", wisp_pace_lap(&p, some, 2, true));
    CHECK(wisp_pace_lap(&p, all, 0, true) == 0, "of none %g", wisp_pace_lap(&p, all, 0, true));
    CHECK(wisp_pace_median(&p) == 3, "steps %g", wisp_pace_median(&p));
    wisp_pace_clear(&p);
    CHECK(wisp_mem_live == 0, "%zu blocks are left", (size_t)wisp_mem_live);
}

int main(void)
{
    test_counts();
    test_laps();
    return test_end();
}
