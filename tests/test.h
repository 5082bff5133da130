/* The whole test harness: CHECK, a seeded generator, and a closing line.
 * A test program includes this once, calls CHECK, and ends with 'return test_end();'.
 * Each CHECK group that matters is announced by TEST("name"), which is what is counted. */
#ifndef WISP_TEST_H
#define WISP_TEST_H

#ifndef __cplusplus
#include "base/text.h"
#endif

#include <limits.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef __cplusplus
#define snprintf         wisp_print
#define vsnprintf        wisp_vprint
#define sprintf(to, ...) wisp_print(to, INT_MAX, __VA_ARGS__)
#define strtod           wisp_strtod
#define strtof           wisp_strtof
#define sscanf           wisp_scan
#endif

#ifdef __CUDACC__ /* tests of the card are linked without the library */
#define TEST_BORDERS_BROKEN() NULL
#else
#include "base/cut.h"
#define TEST_BORDERS_BROKEN() wisp_borders_broken()

/* Every test program runs with borders between the parts of a block, and looks at them after each
 * test. */
__attribute__((constructor)) static void test_begin(void)
{
    wisp_borders = true;
}
#endif

static int test_passed, test_failed, test_skipped, test_bad;
static const char *test_name;

static inline void test_close(void)
{
    const char *broken = TEST_BORDERS_BROKEN();
    if (!test_name) return;
    if (broken) test_bad++, printf("  %s\n", broken);
    if (test_bad) test_failed++;
    else test_passed++;
    printf("%s %s\n", test_bad ? "FAIL" : "ok  ", test_name);
    test_name = NULL;
    test_bad = 0;
}

#define TEST(name) (test_close(), test_name = (name))
#define SKIP(why)  (printf("skip %s: %s\n", test_name, why), test_name = NULL, test_skipped++)
#define CHECK(cond, ...)                                                                           \
    do {                                                                                           \
        if (!(cond) && test_bad++ < 5) {                                                           \
            printf("  %s:%d: %s: ", __FILE__, __LINE__, #cond);                                    \
            printf(__VA_ARGS__);                                                                   \
            putchar('\n');                                                                         \
        }                                                                                          \
    } while (0)

/* WISP_TEST_LOCALE=de_DE.UTF-8: as in a program that has called setlocale, with a decimal comma;
 * tests/run makes the locale.  What tests print and read themselves stays as it is in C. */
__attribute__((constructor)) static void test_locale(void)
{
    const char *name = getenv("WISP_TEST_LOCALE");
    if (!name || !*name || setlocale(LC_ALL, name)) return;
    printf("there is no locale '%s'\n", name);
    exit(1);
}

static inline int test_end(void)
{
    test_close();
    printf("%d passed, %d failed, %d skipped\n", test_passed, test_failed, test_skipped);
    return test_failed != 0;
}

static inline uint64_t test_rand(uint64_t *s) /* xorshift64* */
{
    *s ^= *s >> 12, *s ^= *s << 25, *s ^= *s >> 27;
    return *s * 0x2545f4914f6cdd1du;
}
static inline float test_randf(uint64_t *s) /* -1 .. 1 */
{
    return (float)((double)(test_rand(s) >> 11) * 0x1p-52 - 1.0);
}

#endif
