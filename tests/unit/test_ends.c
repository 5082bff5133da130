/* Tables: each row is found by its name, no name is there twice, and nothing comes after the last.
 */
#include "data/data.h"
#include "hash/family.h"
#include "hash/finder.h"
#include "layer/layer.h"
#include "layer/loss.h"
#include "layer/product.h"
#include "model/optimizer.h"
#include "test.h"

#include <string.h>

#define TABLE(what, at, find)                                                                      \
    do {                                                                                           \
        TEST("tables: " what);                                                                     \
        size_t n = 0;                                                                              \
        for (; at(n); n++) {                                                                       \
            CHECK(find(at(n)->name) == at(n), "'%s' is not what its name finds", at(n)->name);     \
            for (size_t i = 0; i < n; i++)                                                         \
                CHECK(strcmp(at(i)->name, at(n)->name) != 0, "'%s' twice", at(n)->name);           \
        }                                                                                          \
        for (size_t i = n; i < n + 4; i++) CHECK(!at(i), "row %zu of %zu", i, n);                  \
        CHECK(n > 1 && !at(SIZE_MAX), "%zu rows", n);                                              \
        CHECK(!find("") && !find("no such row"), "a name that there is not");                      \
    } while (0)

static const struct wisp_finder_kind *finder_find(const char *name)
{
    return wisp_finder_find(name, strlen(name));
}

int main(void)
{
    TABLE("formats", wisp_format_at, wisp_format_find);
    TABLE("hash families", wisp_hash_family_at, wisp_hash_family_find);
    TABLE("finders", wisp_finder_at, finder_find);
    TABLE("layer kinds", wisp_layer_kind_at, wisp_layer_kind_find);
    TABLE("losses", wisp_loss_at, wisp_loss_find);
    TABLE("precisions", wisp_precision_at, wisp_precision_find);
    TABLE("optimisers", wisp_optimizer_at, wisp_optimizer_find);
    TEST("tables: a finder's name is what is before the plus");
    CHECK(wisp_finder_find("lsh+random", 3) == &wisp_finder_lsh, "the first of two");
    CHECK(!wisp_finder_find("lsh+random", 2) && !wisp_finder_find("lsh+random", 10),
          "no more, no less");
    return test_end();
}
