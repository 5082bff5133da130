/* Which steps' parameters are averaged: those behind the first part of a run, all of them or none. */
#include "model/run.h"
#include "test.h"

/* How many of 'steps' are, and that they are the last. */
static size_t n_due(struct wisp_run *r, double share, size_t steps)
{
    size_t n = 0;
    r->plan.average = share;
    r->at.steps = steps;
    for (size_t step = 1; step <= steps; step++) {
        r->at.step = step;
        const bool due = wisp_average_due(r);
        CHECK(due || n == 0, "%g of %zu: step %zu is not, one before it is", share, steps, step);
        n += due;
    }
    return n;
}

int main(void)
{
    static struct wisp_run r;
    float one = 0;
    TEST("average: the last steps, as many as were asked for");
    CHECK(n_due(&r, 0.5, 10) == 0, "averaged without a place for it");
    r.average = &one;
    CHECK(n_due(&r, 0.5, 10) == 5, "%zu of 10", n_due(&r, 0.5, 10));
    CHECK(n_due(&r, 0.25, 8) == 2, "%zu of 8", n_due(&r, 0.25, 8));
    CHECK(n_due(&r, 0.5, 7) == 4, "%zu of 7", n_due(&r, 0.5, 7)); /* the middle one too */
    CHECK(n_due(&r, 1, 6) == 6, "%zu of 6", n_due(&r, 1, 6));
    CHECK(n_due(&r, 0.01, 10) == 1, "%zu of 10", n_due(&r, 0.01, 10));
    return test_end();
}
