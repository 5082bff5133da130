/* Blocks cut into parts: a plan is its cut, borders are there and seen, and change no result. */
#include "sampler_rig.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISONED(p) __asan_address_is_poisoned(p)
enum { POISONS = 1 };
#else
#define POISONED(p) ((void)(p), 0)
enum { POISONS = 0 };
#endif

static const size_t sizes[] = { 1, 0, 64, 63, 65, 7, 4096, 100 };
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static void lay_out(char **part, struct wisp_cut *c)
{
    for (size_t i = 0; i < N_SIZES; i++) part[i] = wisp_cut_take(c, sizes[i], 1);
}

static size_t planned(void)
{
    char *part[N_SIZES];
    struct wisp_cut plan = { 0 };
    lay_out(part, &plan);
    for (size_t i = 0; i < N_SIZES; i++) CHECK(!part[i], "a plan has no memory");
    return plan.at;
}

static void test_places(void)
{
    char *part[N_SIZES];
    size_t rounded = 0;
    for (size_t i = 0; i < N_SIZES; i++) rounded += (sizes[i] + 63) / 64 * 64;
    for (int on = 0; on < 2; on++) {
        TEST(on ? "cut: with borders, 64 bytes more for each part"
                : "cut: without borders, parts at multiples of 64 bytes and no byte more");
        wisp_borders = on;
        size_t bytes = planned();
        CHECK(bytes == rounded + (on ? 64 * N_SIZES : 0), "%zu bytes, parts have %zu", bytes,
              rounded);
        char *block = wisp_zalloc(bytes, 1);
        struct wisp_cut c = wisp_cut_of(block, bytes, WISP_CUT_KEEP);
        lay_out(part, &c);
        CHECK(c.at == bytes && part[0] == block, "%zu planned, %zu taken", bytes, c.at);
        for (size_t i = 0; i < N_SIZES; i++) {
            const char *end = i + 1 < N_SIZES ? part[i + 1] : block + bytes;
            CHECK((part[i] - block) % 64 == 0, "part %zu at %td", i, part[i] - block);
            CHECK(part[i] + sizes[i] + (on ? 64 : 0) <= end, "part %zu runs into the next", i);
            for (size_t b = 0; b < sizes[i]; b++) CHECK(part[i][b] == 0, "what it held is gone");
        }
        wisp_free(block);
        CHECK(!wisp_borders_broken(), "nobody wrote there");
    }
    wisp_borders = true;
}

/* The first and the last byte of each border, seen by whoever looks next. */
static void test_seen(void)
{
    enum { ASK, FREE, AGAIN, END, N_WAYS };
    static const char *const by[N_WAYS] = { "asked", "freed", "cut anew", "ended" };
    char *part[N_SIZES];
    size_t bytes = planned();
    TEST("cut: a byte written behind a part is seen: when asked, when freed, when cut anew, "
         "when ended");
    for (size_t i = 0; i < N_SIZES; i++)
        for (int last = 0; last < 2; last++)
            for (int way = 0; way < N_WAYS; way++) {
                char *block = wisp_zalloc(bytes, 1);
                struct wisp_cut c = wisp_cut_of(block, bytes, WISP_CUT_KEEP);
                lay_out(part, &c);
                char *next = i + 1 < N_SIZES ? part[i + 1] : block + bytes;
                char *at = last ? next - 1 : part[i] + sizes[i];
                if (POISONS) {
                    CHECK(POISONED(at), "part %zu: byte %td is not poisoned", i, at - part[i]);
                    for (size_t b = 0; b < sizes[i]; b++)
                        CHECK(!POISONED(part[i] + b), "a part's own byte is");
                    wisp_free(block);
                    continue;
                }
                *at ^= 1;
                if (way == FREE) wisp_free(block);
                if (way == AGAIN) wisp_cut_of(block, bytes, WISP_CUT_FRESH);
                if (way == END) wisp_cut_end(block, bytes);
                const char *says = wisp_borders_broken();
                CHECK(says && strstr(says, "test_cut.c"), "part %zu, %s: '%s'", i, by[way],
                      says ? says : "nothing");
                if (way == ASK) *at ^= 1;
                CHECK(way == FREE || !wisp_borders_broken(), "it was mended, or is forgotten");
                if (way != FREE) wisp_free(block);
            }
    CHECK(!wisp_borders_broken(), "blocks that are freed have no borders");
}

static void test_ended(void)
{
    char *part[N_SIZES];
    size_t bytes = planned();
    TEST("cut: a block whose cut has ended may be written everywhere");
    char *block = wisp_zalloc(bytes, 1);
    struct wisp_cut c = wisp_cut_of(block, bytes, WISP_CUT_FRESH);
    lay_out(part, &c);
    wisp_cut_end(block, bytes);
    for (size_t i = 0; i < bytes; i++) {
        CHECK(!POISONED(block + i), "byte %zu is poisoned", i);
        if (!POISONED(block + i)) block[i] ^= 1;
    }
    CHECK(!wisp_borders_broken(), "there are no borders");
    wisp_free(block);
}

static void test_end_of_block(void)
{
    TEST("cut: a byte written behind a block is seen when it is freed");
    for (size_t i = 0; i < N_SIZES && !POISONS; i++)
        for (size_t behind = 0; behind < 64; behind += 9) {
            char *block = wisp_zalloc(sizes[i], 1);
            block[sizes[i] + behind] ^= 1;
            wisp_free(block);
            const char *says = wisp_borders_broken();
            CHECK(says && strstr(says, "behind a block of"), "%zu bytes: byte %zu", sizes[i],
                  behind);
        }
}

static void test_fresh(void)
{
    TEST("cut: a fresh part holds no numbers and no places");
    struct wisp_cut plan = { 0 };
    wisp_cut_take(&plan, 24, 8);
    char *block = wisp_zalloc(plan.at, 1);
    struct wisp_cut c = wisp_cut_of(block, plan.at, WISP_CUT_FRESH);
    char *part = wisp_cut_take(&c, 24, 8);
    for (size_t i = 0; i < 24; i++) {
        double d;
        float f;
        int32_t n;
        uint16_t half;
        memcpy(&d, part + 8 * i, sizeof d), memcpy(&f, part + 4 * i, sizeof f);
        memcpy(&n, part + 4 * i, sizeof n), memcpy(&half, part + 2 * i, sizeof half);
        CHECK(isnan(d) && isnan(f) && (half & 0x7fff) > 0x7f80, "%g, %g, %x", d, f, half);
        CHECK(n < -1 && (uint32_t)n > INT32_MAX, "%d", n);
    }
    struct wisp_cut again = wisp_cut_of(block, plan.at, WISP_CUT_AGAIN);
    memset(part, 1, 192);
    CHECK(wisp_cut_take(&again, 24, 8) == part && part[0] == 1 && part[191] == 1,
          "asked again, it stays");
    wisp_free(block);
    unsigned char *raw = wisp_alloc(10, 1);
    CHECK(raw[0] == 0xa5 && raw[9] == 0xff, "what is allocated holds nothing either");
    wisp_free(raw);
}

/* A net with a sampler, with borders and without, ends with the same bytes. */
static void test_same(void)
{
    static const char *const names[] = { "full", "neighbours+lsh", "random+ivf" };
    TEST("cut: borders, and scratch that holds no numbers, change no result");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int own = 0; own < 2; own++) {
            struct wisp_sampling o = settings(names[i]);
            o.per_example = own;
            struct rig with, without;
            rig_make(&with, &o, 2);
            for (int step = 0; step < 6; step++) rig_step_with(&with, step % 2 ? BATCH : 5);
            size_t floats = wisp_net_param_floats(&with.net), work = with.net.work.bytes;
            float *params = wisp_alloc(floats, sizeof *params);
            memcpy(params, with.net.params, floats * sizeof *params);
            rig_clear(&with);
            wisp_borders = false;
            rig_make(&without, &o, 2);
            for (int step = 0; step < 6; step++) rig_step_with(&without, step % 2 ? BATCH : 5);
            CHECK(memcmp(params, without.net.params, floats * sizeof *params) == 0,
                  "%s, own sets %d: other weights", names[i], own);
            CHECK(without.net.work.bytes < work, "%s: borders take no room", names[i]);
            rig_clear(&without);
            wisp_borders = true;
            wisp_free(params);
        }
}

int main(void)
{
    rig_open();
    test_places();
    test_seen();
    test_ended();
    test_end_of_block();
    test_fresh();
    test_same();
    return rig_close();
}
