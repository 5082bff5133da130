/* Sums of the parts that threads have made, tile by tile, against a plain loop: any number of rows and
 * parts, into memory that holds something else and has neighbours. */
#include "test.h"
#include "base/context.h"
#include "kernels/kernels.h"
#include "layer/rows.h"

enum { MOST_ROWS = 70, MOST_WIDTH = 19, MOST_PARTS = 4, BESIDE = 16 };

static float to[BESIDE + MOST_ROWS * MOST_WIDTH + BESIDE];
static float parts[MOST_PARTS * MOST_ROWS * MOST_WIDTH];

static void try(struct wisp_context *ctx, size_t rows, size_t width, size_t n_parts)
{
    const size_t n = rows * width, all = sizeof to / sizeof *to;
    for (size_t i = 0; i < all; i++) to[i] = -7;
    for (size_t i = 0; i < n_parts * n; i++) parts[i] = (float)(i * i % 1009);
    wisp_parts_add(ctx, to + BESIDE, parts, n_parts, rows, width);
    for (size_t i = 0; i < all; i++) {
        float want = i < BESIDE || i >= BESIDE + n ? -7 : 0;
        for (size_t p = 0; p < n_parts && want >= 0; p++) want += parts[p * n + i - BESIDE];
        if (to[i] == want) continue;
        CHECK(false, "%zu rows of %zu, %zu parts: number %td is %g, expected %g", rows, width,
              n_parts, (ptrdiff_t)i - BESIDE, (double)to[i], (double)want);
        return;
    }
    CHECK(true, "all of them");
}

int main(void)
{
    static struct wisp_kernels k;
    struct wisp_context ctx[2] = { { .k = &k }, { .k = &k } };
    wisp_error err;
    if (wisp_kernels_select(&k, NULL, &err) != WISP_OK ||
        wisp_pool_create(&ctx[1].pool, 3, &err) != WISP_OK)
        return 1;
    TEST("parts: their sum, for any number of rows, threads and parts");
    for (int threads = 0; threads < 2; threads++)
        for (size_t rows = 0; rows <= MOST_ROWS; rows++)
            for (size_t n_parts = 0; n_parts <= MOST_PARTS; n_parts++) {
                try(&ctx[threads], rows, 1, n_parts);
                try(&ctx[threads], rows, 8, n_parts);
                try(&ctx[threads], rows, MOST_WIDTH, n_parts);
            }
    wisp_pool_free(ctx[1].pool);
    return test_end();
}
