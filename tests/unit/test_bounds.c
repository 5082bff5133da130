/* Bounds met exactly: what tools/mutate found that no other test stands on. */
#include "data_rig.h"

static void test_digits(void)
{
    static const struct {
        const char *id;
        bool good;
    } ids[] = { { "7", true },
                { "000000000000000007", true },     /* 18 digits */
                { "0000000000000000007", false } }; /* 19 would overflow, if others stood there */
    TEST("text: a number has up to 18 digits");
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char line[100];
        struct wisp_read_options o = { .format = "libsvm", .index_base = -1 };
        struct wisp_data *d = NULL;
        wisp_error err = { 0 };
        int n = snprintf(line, sizeof line, "1 3:1 %s:2\n", ids[i].id);
        wisp_status st = wisp_data_read_text(&d, &one, line, (size_t)n, "t", &o, &err);
        CHECK((st == WISP_OK) == ids[i].good, "%s: %d %s", ids[i].id, st, err.text);
        CHECK(st != WISP_OK || d->nnz == 2, "%s: %zu features", ids[i].id, d ? d->nnz : 0);
        wisp_data_free(d);
    }
}

int main(void)
{
    if (!rig_open()) return 1;
    long live = wisp_mem_live;
    test_digits();
    return rig_close(live);
}
