/* Deep sparse networks through wisp.h: layers from memory and from MatrixMarket files, every mode
 * against plain loops, files, and what is refused with which words. */
#include "data_rig.h"
#include "wisp/wisp.h"

#include <math.h>

enum { LAYERS = 3, INPUTS = 70 };
static const uint32_t widths[LAYERS + 1] = { 40, 64, 33, 5 };
static const float clip = 2.5f;

struct layer { /* W (n_out, n_in) as a whole; 0: no edge */
    float w[64][64], bias[64];
};
static struct layer net[LAYERS];
static float inputs[INPUTS][64];

/* About a fifth of the weights; outputs 1 and 2 of each layer are equal, so that merging has work.
 */
static void make(void)
{
    uint64_t s = 9;
    for (int l = 0; l < LAYERS; l++)
        for (uint32_t o = 0; o < widths[l + 1]; o++) {
            net[l].bias[o] = 0.3f * test_randf(&s);
            for (uint32_t i = 0; i < widths[l]; i++)
                net[l].w[o][i] = test_rand(&s) % 5 ? 0 : test_randf(&s);
            if (o == 2) net[l].bias[2] = net[l].bias[1];
            if (o == 2) memcpy(net[l].w[2], net[l].w[1], sizeof net[l].w[2]);
        }
    for (int i = 0; i < INPUTS; i++)
        for (uint32_t k = 0; k < widths[0]; k++)
            inputs[i][k] = i == 7 || test_rand(&s) % 3 ? 0 : 2 * test_randf(&s);
}

/* By definition; the last layer is linear. */
static void plain(double *out, int input)
{
    double x[64], y[64];
    for (uint32_t k = 0; k < widths[0]; k++) x[k] = inputs[input][k];
    for (int l = 0; l < LAYERS; l++) {
        for (uint32_t o = 0; o < widths[l + 1]; o++) {
            y[o] = net[l].bias[o];
            for (uint32_t i = 0; i < widths[l]; i++) y[o] += net[l].w[o][i] * x[i];
            if (l + 1 < LAYERS) y[o] = fmin(clip, fmax(0, y[o]));
        }
        memcpy(x, y, sizeof x);
    }
    memcpy(out, x, widths[LAYERS] * sizeof *out);
}

static wisp_sparse *from_memory(void)
{
    wisp_sparse *n;
    wisp_error err = { 0 };
    CHECK(wisp_sparse_create(&n, clip, &err) == WISP_OK, "%s", err.text);
    for (int l = 0; l < LAYERS; l++) {
        static uint64_t start[65];
        static uint32_t in[64 * 64];
        static float w[64 * 64];
        uint64_t at = 0;
        for (uint32_t o = 0; o < widths[l + 1]; o++) {
            for (uint32_t i = 0; i < widths[l]; i++)
                if (net[l].w[o][i] != 0) in[at] = i, w[at++] = net[l].w[o][i];
            start[o + 1] = at;
        }
        CHECK(wisp_sparse_add(n, widths[l], widths[l + 1], start, in, w, net[l].bias,
                              l + 1 == LAYERS, &err) == WISP_OK,
              "%s", err.text);
    }
    return n;
}

static void write_mtx(const char *path, int l)
{
    FILE *f = fopen(path, "w");
    size_t edges = 0;
    for (uint32_t o = 0; o < widths[l + 1]; o++)
        for (uint32_t i = 0; i < widths[l]; i++) edges += net[l].w[o][i] != 0;
    fprintf(f, "%%%%MatrixMarket matrix coordinate real general\n%u %u %zu\n", widths[l + 1],
            widths[l], edges);
    for (uint32_t o = 0; o < widths[l + 1]; o++)
        for (uint32_t i = 0; i < widths[l]; i++)
            if (net[l].w[o][i] != 0) {
                char line[60];
                snprintf(line, sizeof line, "%u %u %.9g\n", o + 1, i + 1, net[l].w[o][i]);
                fputs(line, f);
            }
    fclose(f);
}

static wisp_sparse *from_files(double bias)
{
    wisp_sparse *n;
    wisp_error err = { 0 };
    CHECK(wisp_sparse_create(&n, clip, &err) == WISP_OK, "%s", err.text);
    for (int l = 0; l < LAYERS; l++) {
        write_mtx(in_folder("w.mtx"), l);
        CHECK(wisp_sparse_add_file(n, in_folder("w.mtx"), bias, l + 1 == LAYERS, &err) == WISP_OK,
              "%s", err.text);
    }
    return n;
}

static void check_runs(wisp_sparse *n, wisp_context *ctx, const char *what)
{
    static uint64_t start[INPUTS + 1];
    static uint32_t id[INPUTS * 64];
    static float value[INPUTS * 64], values[INPUTS * 5];
    static uint8_t ends[INPUTS];
    uint64_t at = 0;
    for (int i = 0; i < INPUTS; i++) {
        for (uint32_t k = 0; k < widths[0]; k++)
            if (inputs[i][k] != 0) id[at] = k, value[at++] = inputs[i][k];
        start[i + 1] = at;
    }
    static const char *const modes[] = { "raw", "exact", "merged", "merged" };
    for (int m = 0; m < 4; m++) { /* the second time with what the first one found */
        wisp_config *cfg;
        wisp_report *report;
        wisp_error err = { 0 };
        double worst = 0, edges = 0, merged = 0;
        wisp_config_create(&cfg, NULL);
        wisp_config_set(cfg, "mode", modes[m], NULL);
        wisp_status st =
            wisp_sparse_run(values, ends, &report, ctx, n, INPUTS, start, id, value, cfg, &err);
        CHECK(st == WISP_OK, "%s, %s: %s", what, modes[m], err.text);
        for (int i = 0; i < INPUTS && st == WISP_OK; i++) {
            double want[64];
            int any = 0;
            plain(want, i);
            for (int o = 0; o < 5; o++) worst = fmax(worst, fabs(want[o] - values[i * 5 + o]));
            for (int o = 0; o < 5; o++) any |= values[i * 5 + o] != 0;
            CHECK(ends[i] == any, "%s, %s: input %d ends %d", what, modes[m], i, ends[i]);
        }
        CHECK(worst < 1e-4, "%s, %s: off by %g", what, modes[m], worst);
        wisp_report_get(report, "edges", &edges);
        if (m >= 2)
            CHECK(wisp_report_get(report, "merged_edges", &merged) && merged < edges,
                  "%s: equal neurons were not merged: %g of %g edges", what, merged, edges);
        wisp_report_free(report);
        wisp_config_free(cfg);
    }
}

static void check_refusals(wisp_context *ctx)
{
    wisp_sparse *n = from_memory();
    wisp_error err = { 0 };
    write_mtx(in_folder("w.mtx"), 0); /* 40 inputs, where the last layer has 5 outputs */
    CHECK(wisp_sparse_add_file(n, in_folder("w.mtx"), 0, 0, &err) == WISP_EINVAL &&
              strstr(err.text, "w.mtx: ") && strstr(err.text, "40"),
          "another width: %s", err.text);
    CHECK(wisp_sparse_add_file(n, in_folder("none.mtx"), 0, 0, &err) == WISP_EIO, "no file");
    save(in_folder("bad.mtx"), "%%MatrixMarket matrix array real general\n1 1\n1\n", 47);
    CHECK(wisp_sparse_add_file(n, in_folder("bad.mtx"), 0, 0, &err) == WISP_ENOTSUP &&
              strstr(err.text, "bad.mtx:1"),
          "an array: %s", err.text);
    check_runs(n, ctx, "after refusals");
    wisp_sparse_free(n);
    CHECK(wisp_sparse_create(&n, -1, &err) == WISP_EINVAL && !n, "a clip below 0");
}

int main(void)
{
    wisp_context *ctx;
    wisp_error err = { 0 };
    if (!rig_open()) return 1;
    long live = wisp_mem_live;
    make();
    if (wisp_context_create(&ctx, 2, &err) != WISP_OK) return 1;

    TEST("layers from memory, in every mode");
    wisp_sparse *n = from_memory();
    check_runs(n, ctx, "memory");

    TEST("saved and loaded");
    CHECK(wisp_sparse_save(n, in_folder("net"), &err) == WISP_OK, "%s", err.text);
    wisp_sparse_free(n);
    CHECK(wisp_sparse_load(&n, ctx, in_folder("net"), &err) == WISP_OK, "%s", err.text);
    check_runs(n, ctx, "a file");
    wisp_sparse_free(n);

    TEST("what is refused");
    check_refusals(ctx);

    TEST("layers from MatrixMarket files"); /* the last one: all biases become one number */
    for (int l = 0; l < LAYERS; l++)
        for (int o = 0; o < 64; o++) net[l].bias[o] = 0.125f;
    n = from_files(0.125);
    check_runs(n, ctx, "MatrixMarket");
    wisp_sparse_free(n);

    wisp_context_free(ctx);
    return rig_close(live);
}
