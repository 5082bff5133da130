/* Sizes at and beyond 2^31: products that must be checked, memory that a file only claims, and a
 * training run over non-zeros that no 32-bit number counts.
 *
 *   test_sizes        the run has 40 copies of a block of 2^20 non-zeros
 *   test_sizes big    2,100 of them: 2.2 * 10^9 (tests/faults/beyond2g does it); the copies are
 *                     views of one block, so it takes little memory */
#include "test.h"

#include "base/idx.h"
#include "base/mem.h"
#include "data/data.h"
#include "model/file.h"
#include "model/net.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static wisp_error err;

static void test_alloc(void)
{
    TEST("memory: products that overflow are refused");
    static const size_t bad[][2] = {
        { SIZE_MAX, 2 },         { SIZE_MAX / 2 + 1, 2 }, { (size_t)1 << 32, (size_t)1 << 32 },
        { SIZE_MAX / 4 + 1, 4 }, { SIZE_MAX, 1 },         { 1, SIZE_MAX / 2 + 1 }
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!wisp_alloc(bad[i][0], bad[i][1]) && !wisp_zalloc(bad[i][0], bad[i][1]) &&
                  !wisp_zalloc_lazy(bad[i][0], bad[i][1]),
              "%zu x %zu", bad[i][0], bad[i][1]);
    char *p = wisp_alloc(4, 1);
    CHECK(p && !wisp_realloc(p, 4, SIZE_MAX / 2, 4), "realloc");
    wisp_free(p);

    TEST("memory: lazy zeros are zeros, and cost nothing until they are used");
    const size_t sizes[] = { 0, 1, 1000, (size_t)4 << 20, ((size_t)4 << 20) + 1, (size_t)9000001 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t sum = 0;
        char *dirty = wisp_alloc(sizes[i], 1); /* whose pages may come again */
        memset(dirty, 255, sizes[i]);
        wisp_free(dirty);
        unsigned char *z = wisp_zalloc_lazy(sizes[i], 1);
        for (size_t k = 0; k < sizes[i]; k++) sum += z[k];
        CHECK(z && sum == 0, "%zu bytes: %zu", sizes[i], sum);
        wisp_free(z);
    }
    const size_t before = wisp_mem_peak(), much = (size_t)1 << 30;
    uint64_t *lazy = wisp_zalloc_lazy(much / 8, 8);
    CHECK(lazy && lazy[much / 16] == 0 && lazy[much / 8 - 1] == 0, "a GiB of zeros");
    CHECK(wisp_mem_peak() - before < much / 4, /* a sanitizer takes an eighth */
          "%zu bytes were taken", wisp_mem_peak() - before);
    wisp_free(lazy);
    CHECK(wisp_mem_fits(1) && wisp_mem_fits((size_t)1 << 20) && !wisp_mem_fits(SIZE_MAX / 4),
          "what fits");
}

static void test_files(void)
{
    TEST("files: sizes of tensors and images");
    static const struct {
        enum wisp_dtype dtype;
        size_t rows, cols;
        bool fits;
    } tensors[] = { { WISP_F32, (size_t)1 << 31, (size_t)1 << 30, true },
                    { WISP_F32, (size_t)1 << 31, (size_t)1 << 31, false },
                    { WISP_I64, (size_t)1 << 60, 1, true },
                    { WISP_I64, (size_t)1 << 61, 1, false },
                    { WISP_U8, INT64_MAX, 2, true },
                    { WISP_U8, SIZE_MAX, 1, false },
                    { WISP_U8, 0, SIZE_MAX, false },
                    { WISP_U8, SIZE_MAX, 2, false },
                    { WISP_BF16, 9000000, 256, true } };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        size_t bytes, shape[] = { tensors[i].rows, tensors[i].cols };
        bool fits = wisp_tensor_size(&bytes, tensors[i].dtype, 2, shape);
        CHECK(fits == tensors[i].fits &&
                  (!fits || bytes == wisp_dtypes[tensors[i].dtype].bytes * shape[0] * shape[1]),
              "%zu", i);
    }
    CHECK(wisp_idx_bytes(
              (const unsigned char *)"\0\0\10\3\377\377\377\377\377\377\377\377\377\377\377"
                                     "\377",
              16) == SIZE_MAX,
          "2^96 bytes");
    CHECK(wisp_idx_bytes((const unsigned char *)"\0\0\10\3\0\1\0\0\0\1\0\0\0\1\0\0", 16) ==
              ((size_t)1 << 48) + 16,
          "2^48 bytes");
}

static void test_net(void)
{
    TEST("net: parameters beyond 2^31 are counted");
    struct wisp_net net;
    const struct wisp_layer_sizes sizes = { .batch = 256 };
    CHECK(wisp_net_plan(&net, "input 1048576", INT32_MAX, INT32_MAX, &sizes, &err) == WISP_OK, "%s",
          err.text);
    size_t want = 2 * (size_t)INT32_MAX * 1048576 + 1048576 + INT32_MAX;
    CHECK(wisp_net_n_params(&net) == want, "%zu, expected %zu", wisp_net_n_params(&net), want);
    wisp_net_clear(&net);

    TEST("deep net: layers as wide as a 32-bit number can say");
    const uint64_t start[] = { 0, 1 }, x_start[] = { 0, 1 };
    const uint32_t in[] = { UINT32_MAX - 1 };
    const float one[] = { 1 };
    wisp_context *ctx;
    wisp_config *c;
    wisp_sparse *deep;
    float y = 0;
    uint8_t ends = 0;
    CHECK(wisp_context_create(&ctx, 1, &err) == WISP_OK &&
              wisp_config_create(&c, &err) == WISP_OK &&
              wisp_sparse_create(&deep, 0, &err) == WISP_OK &&
              wisp_sparse_add(deep, UINT32_MAX, 1, start, in, one, NULL, 0, &err) == WISP_OK,
          "%s", err.text);
    wisp_status st =
        wisp_sparse_run(&y, &ends, NULL, ctx, deep, 1, x_start, in, one, c, &err); /* 2^38 bytes */
    CHECK(st == WISP_ENOMEM || (st == WISP_OK && y == 1), "%d %s", st, err.text);
    wisp_sparse_free(deep);
    wisp_config_free(c);
    wisp_context_free(ctx);
}

/* ---- non-zeros ---- */

enum { WIDE = 65536, FEW = 16 }; /* features, and rows of a block: 2^20 non-zeros */

/* Rows of two labels, told apart by the sign of their values. */
static wisp_data *one_block(void)
{
    int64_t *xp = calloc(FEW + 1, sizeof *xp), *yp = calloc(FEW + 1, sizeof *yp);
    int32_t *xi = malloc(sizeof *xi * FEW * WIDE), yi[FEW];
    float *xv = malloc(sizeof *xv * FEW * WIDE);
    wisp_data *d = NULL;
    for (int r = 0; r < FEW; r++) {
        xp[r + 1] = (int64_t)(r + 1) * WIDE;
        yp[r + 1] = r + 1;
        yi[r] = r % 2;
        for (int i = 0; i < WIDE; i++) {
            xi[(size_t)r * WIDE + (size_t)i] = i;
            xv[(size_t)r * WIDE + (size_t)i] = (r % 2 ? 1.0f : -1.0f) / 256;
        }
    }
    CHECK(wisp_data_from_csr(&d, FEW, WIDE, 2, xp, xi, xv, yp, yi, &err) == WISP_OK, "%s",
          err.text);
    free(xp), free(yp), free(xi), free(xv);
    return d;
}

/* The same block 'times' over. */
static void repeat(struct wisp_data *out, const struct wisp_data *d, size_t times)
{
    *out = *d;
    out->n_blocks = times;
    out->blocks = calloc(times, sizeof *out->blocks);
    out->first = calloc(times + 1, sizeof *out->first);
    out->feature_rows = calloc(d->n_features, sizeof *out->feature_rows);
    out->label_rows = calloc(d->n_labels, sizeof *out->label_rows);
    for (size_t i = 0; i < times; i++) {
        out->blocks[i] = d->blocks[0];
        out->first[i + 1] = (i + 1) * d->n_rows;
    }
    for (size_t f = 0; f < d->n_features; f++)
        out->feature_rows[f] = d->feature_rows[f] * (int64_t)times;
    for (size_t l = 0; l < d->n_labels; l++) out->label_rows[l] = d->label_rows[l] * (int64_t)times;
    out->n_rows = times * d->n_rows;
    out->nnz = times * d->nnz;
    out->n_lab = times * d->n_lab;
    out->heap = NULL;
}

static void test_nonzeros(size_t times)
{
    char name[100], path[] = "/tmp/wisp-test-sizes-XXXXXX";
    snprintf(name, sizeof name, "a run over %zu non-zeros", times << 20);
    TEST(name);
    static const char *const settings[][2] = { { "hidden", "1" },        { "epochs", "1" },
                                               { "values", "raw" },      { "loss", "softmax" },
                                               { "batch", "64" },        { "dropout", "0" },
                                               { "input-dropout", "0" }, { "sampling", "full" },
                                               { "holdout", "0" },       { "k", "1" } };
    wisp_context *ctx;
    wisp_config *c;
    wisp_report *r = NULL;
    wisp_model *m = NULL;
    struct wisp_data all;
    wisp_data *d = one_block();
    wisp_data_stats stats;
    double p1 = -1, rows = -1;
    repeat(&all, d, times);
    wisp_data_stats_get(&all, &stats);
    CHECK(stats.n_values == times << 20, "%zu values", stats.n_values);
    int fd = mkstemp(path);
    CHECK(fd >= 0 && wisp_context_create(&ctx, 2, &err) == WISP_OK &&
              wisp_config_create(&c, &err) == WISP_OK,
          "%s", err.text);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        CHECK(wisp_config_set(c, settings[i][0], settings[i][1], &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_train(&r, ctx, c, &all, NULL, path, NULL, NULL, &err) == WISP_OK, "%s", err.text);
    wisp_report_free(r);
    r = NULL;
    CHECK(wisp_model_load(&m, path, &err) == WISP_OK, "%s", err.text);
    CHECK(m && wisp_eval(&r, ctx, m, &all, c, &err) == WISP_OK, "%s", err.text);
    CHECK(r && wisp_report_get(r, "rows", &rows) && rows == (double)all.n_rows, "%g rows", rows);
    CHECK(r && wisp_report_get(r, "p@1", &p1) && p1 == 100, "P@1 %g", p1);
    int32_t label[2];
    float score[2];
    CHECK(m && wisp_predict(label, score, ctx, m, &all, all.n_rows - 2, 2, 1, &err) == WISP_OK &&
              label[0] == 0 && label[1] == 1,
          "the last rows: %d %d", label[0], label[1]);
    wisp_report_free(r);
    wisp_model_free(m);
    wisp_config_free(c);
    wisp_context_free(ctx);
    wisp_data_free(d);
    free(all.blocks), free(all.first), free(all.feature_rows), free(all.label_rows);
    close(fd);
    unlink(path);
}

int main(int argc, char **argv)
{
    const bool big = argc > 1 && strcmp(argv[1], "big") == 0;
    test_alloc();
    test_files();
    test_net();
    test_nonzeros(big ? 2100 : 40);
    return test_end();
}
