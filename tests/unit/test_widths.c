/* Numbers of channels that are fast: what is chosen by a table, what that does to a net, and the file. */
#include "small_rig.h"
#include "conv/conv.h"
#include "model/compact.h"
#include "model/widths.h"

#include <math.h>
#include <unistd.h>

/* Steps of 16 for maps, and of 8 for units with a fifth more between them. */
static struct wisp_widths steps(void)
{
    struct wisp_widths w;
    for (size_t n = 1; n <= WISP_WIDTHS_MOST; n++) {
        w.time[WISP_WIDTHS_MAPS][n] = (double)((n + 15) / 16) / 4;
        w.time[WISP_WIDTHS_UNITS][n] = (double)((n + 7) / 8) / 8 * (n % 8 ? 1.2 : 1);
    }
    return w;
}

static void test_best(void)
{
    static const struct {
        int of;
        size_t n, least, most, want;
    } cases[] = {
        { WISP_WIDTHS_MAPS, 17, 15, 21, 16 },     /* half the time */
        { WISP_WIDTHS_MAPS, 17, 17, 21, 17 },     /* nobody may go */
        { WISP_WIDTHS_MAPS, 16, 14, 20, 16 },     /* the best there is */
        { WISP_WIDTHS_MAPS, 31, 28, 38, 31 },     /* nothing is faster */
        { WISP_WIDTHS_MAPS, 241, 211, 256, 240 }, /* beyond the table */
        { WISP_WIDTHS_UNITS, 43, 43, 53, 48 },    /* more are faster */
        { WISP_WIDTHS_UNITS, 43, 39, 53, 40 },    /* fewer are faster still */
        { WISP_WIDTHS_UNITS, 48, 42, 60, 48 },    { WISP_WIDTHS_UNITS, 1, 1, 1, 1 },
    };
    const struct wisp_widths w = steps();
    TEST("widths: which number is taken");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t best =
            wisp_widths_best(&w, cases[i].of, cases[i].n, cases[i].least, cases[i].most);
        CHECK(best == cases[i].want, "%zu of [%zu, %zu]: %zu, expected %zu", cases[i].n,
              cases[i].least, cases[i].most, best, cases[i].want);
    }
}

/* A card has maps by the block, and units as many as there are. */
static void test_card(void)
{
    struct wisp_widths w;
    TEST("widths: of a card");
    wisp_widths_card(&w);
    for (size_t n = 1; n <= 300; n++) {
        const double blocks = (double)((n + 15) / 16) / 4;
        CHECK(fabs(wisp_widths_time(&w, WISP_WIDTHS_MAPS, n) - blocks) < 1e-9, "%zu maps", n);
        CHECK(wisp_widths_best(&w, WISP_WIDTHS_UNITS, n, n - n / 8, n + n / 4) == n, "%zu units",
              n);
    }
    CHECK(wisp_widths_best(&w, WISP_WIDTHS_MAPS, 17, 15, 21) == 16, "17 maps stay");
}

/* A layer of 64 units, of which 'kept' are not 0 and 'weak' of these are small: how many are left, to
 * multiples of 'of' or by the table where that is 0. */
static size_t rounded(size_t kept, size_t weak, size_t of, char *said, size_t room)
{
    const struct wisp_widths w = steps();
    struct wisp_layer_sizes sizes = { .batch = 4, .training = true };
    struct wisp_net net = { 0 };
    struct wisp_bonds bonds = { 0 };
    size_t gone = 0, left = 0;
    bool *keep = NULL;
    if (wisp_net_plan(&net, "input 64 as first, relu", 9, 3, &sizes, &err) == WISP_OK &&
        wisp_net_alloc_params(&net, &err) == WISP_OK) {
        struct wisp_graph g = wisp_net_graph(&net);
        wisp_net_init(&net, 3, NULL);
        for (size_t p = 0; p < 2; p++)
            for (size_t i = 0; i < net.list.p[p].n; i++)
                net.list.p[p].w[i] = i % 64 < weak ? 1e-3f : i % 64 < kept ? 1 : 0;
        if (wisp_bonds_of(&bonds, &g, &net.list, &err) == WISP_OK) {
            keep = calloc(bonds.n, sizeof *keep);
            size_t more = 0;
            CHECK(wisp_compact_choose(keep, &gone, &bonds, &net, &err) == WISP_OK, "%s", err.text);
            if (of) more = wisp_compact_round(keep, &bonds, &net, of, 1);
            else wisp_widths_round(keep, &bonds, &net, &w, said, room);
            for (size_t c = 0; c < bonds.n; c++) left += keep[c];
            CHECK(!of || left == kept + more, "%zu, %zu more: %zu", kept, more, left);
            for (size_t i = 0; i < 64 && left < kept; i++) /* the weak ones, and none else */
                CHECK(keep[bonds.of[bonds.first[1] + i]] == (i >= kept - left && i < kept),
                      "%zu of %zu: unit %zu", left, kept, i);
        }
    }
    free(keep);
    wisp_bonds_clear(&bonds);
    wisp_net_clear(&net);
    return left;
}

static void test_round(void)
{
    char said[100];
    TEST("widths: a net's channels");
    CHECK(rounded(43, 3, 0, said, sizeof said) == 40, "%s", said);
    CHECK(strcmp(said, "40 for 43 of first") == 0, "%s", said);
    CHECK(rounded(43, 0, 0, said, sizeof said) == 48, "%s", said); /* none is weak: 48 are faster */
    CHECK(rounded(48, 8, 0, said, sizeof said) == 48 && !*said, "%s", said);
    CHECK(rounded(39, 12, 0, said, sizeof said) == 40, "%s", said); /* 32 would be too few */
    CHECK(rounded(3, 0, 0, said, sizeof said) == 3, "%s", said);    /* not many times as many */
    CHECK(rounded(64, 0, 0, said, sizeof said) == 64, "%s", said);
}

/* As many as a card wants: the next multiple, or all there are. */
static void test_multiples(void)
{
    static const struct {
        size_t kept, of, want;
    } cases[] = { { 43, 8, 48 }, { 40, 8, 40 }, { 41, 8, 48 },
                  { 3, 4, 4 },   { 62, 5, 64 }, { 64, 5, 64 } };
    TEST("widths: multiples");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t left = rounded(cases[i].kept, 0, cases[i].of, NULL, 0);
        CHECK(left == cases[i].want, "%zu by %zu: %zu, expected %zu", cases[i].kept, cases[i].of,
              left, cases[i].want);
    }
}

/* Units whose weights are 0 go, wherever they are; of those that all are, one stays. */
static void test_dead(void)
{
    static const struct {
        bool lives[4], stays[4];
    } cases[] = { { { 0, 1, 0, 1 }, { 0, 1, 0, 1 } }, { { 0 }, { 1 } } };
    TEST("widths: units that are 0");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_layer_sizes sizes = { .batch = 4, .training = true };
        struct wisp_net net = { 0 };
        struct wisp_bonds bonds = { 0 };
        size_t gone = 0;
        bool keep[100] = { 0 };
        CHECK(wisp_net_plan(&net, "input 4, relu", 9, 3, &sizes, &err) == WISP_OK &&
                  wisp_net_alloc_params(&net, &err) == WISP_OK,
              "%s", err.text);
        struct wisp_graph g = wisp_net_graph(&net);
        wisp_net_init(&net, 3, NULL);
        for (size_t p = 0; p < 2; p++)
            for (size_t k = 0; k < net.list.p[p].n; k++) net.list.p[p].w[k] = cases[i].lives[k % 4];
        CHECK(wisp_bonds_of(&bonds, &g, &net.list, &err) == WISP_OK && bonds.n <= 100 &&
                  wisp_compact_choose(keep, &gone, &bonds, &net, &err) == WISP_OK,
              "%s", err.text);
        for (size_t u = 0; u < 4; u++)
            CHECK(keep[bonds.of[bonds.first[1] + u]] == cases[i].stays[u], "case %zu: unit %zu", i,
                  u);
        wisp_bonds_clear(&bonds);
        wisp_net_clear(&net);
    }
}

static void test_file(const struct wisp_kernels *k)
{
    char folder[] = "/tmp/wisp-test-widths-XXXXXX", path[100];
    CHECK(mkdtemp(folder) != NULL, "no folder");
    snprintf(path, sizeof path, "%s/conv", folder);
    struct wisp_conv_choice how = { .measure = true, .file = path };
    const struct wisp_context ctx = { .k = k, .conv = &how };
    struct wisp_layer_sizes sizes = { .batch = 4, .training = true };
    struct wisp_net net = { 0 };
    struct wisp_widths a = { 0 }, b = { 0 };
    TEST("widths: measured once, and kept");
    CHECK(wisp_net_plan(&net, "input 8", 9, 3, &sizes, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_widths_know(&a, &net, &ctx) && wisp_widths_know(&b, &net, &ctx), "not known");
    const double *t = a.time[WISP_WIDTHS_UNITS];
    for (size_t n = 1; n <= WISP_WIDTHS_MOST; n++)
        CHECK(t[n] > 0 && t[n] == b.time[WISP_WIDTHS_UNITS][n], "%zu: %g, then %g", n, t[n],
              b.time[WISP_WIDTHS_UNITS][n]);
    CHECK(t[1] < 1 && t[WISP_WIDTHS_MOST] == 1 && a.time[WISP_WIDTHS_MAPS][1] == 0, "%g", t[1]);
    FILE *f = fopen(path, "r");
    char line[1000];
    size_t lines = 0;
    while (f && fgets(line, sizeof line, f)) lines += strncmp(line, "wisp-widths 1\t", 14) == 0;
    if (f) fclose(f);
    CHECK(lines == 1, "%zu lines", lines);
    /* what is cut or strange is measured anew, behind it */
    CHECK(truncate(path, 60) == 0 && wisp_widths_know(&b, &net, &ctx), "not known");
    CHECK(b.time[WISP_WIDTHS_UNITS][WISP_WIDTHS_MOST] == 1, "no times");
    how.file = NULL;
    CHECK(!wisp_widths_know(&b, &net, &ctx), "known without a file");
    wisp_net_clear(&net);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct wisp_kernels k = best_kernels();
    test_best();
    test_card();
    test_round();
    test_multiples();
    test_dead();
    test_file(&k);
    CHECK(wisp_mem_live == 0, "%ld blocks left", (long)wisp_mem_live);
    return test_end();
}
