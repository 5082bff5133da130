/* One line of text to labels, in C: microseconds for reading the line, and for reading and
 * predicting it.
 *   bench/text MODEL LINES [sparse]      a file with one text per line; each line is one call, one thread */
#include "wisp/wisp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { K = 5, MOST = 20000 };

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int complain(const wisp_error *err)
{
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

int main(int argc, char **argv)
{
    static double read_us[MOST], all_us[MOST];
    static char line[1 << 20];
    wisp_error err;
    wisp_config *cfg;
    wisp_context *ctx;
    wisp_model *m;
    wisp_predictor *p;
    const char *inference = argc == 4 ? argv[3] : "exact";
    FILE *f = argc == 3 || argc == 4 ? fopen(argv[2], "r") : NULL;
    if (!f) return fprintf(stderr, "usage: text MODEL LINES [exact|sparse]\n"), 2;
    if (wisp_config_create(&cfg, &err) || wisp_config_set(cfg, "inference", inference, &err) ||
        wisp_context_create(&ctx, 1, &err) || wisp_model_load(&m, argv[1], &err) ||
        wisp_predictor_create(&p, ctx, m, cfg, K, &err))
        return complain(&err);
    size_t n = 0;
    while (n < MOST && fgets(line, sizeof line, f)) {
        int32_t labels[K];
        float scores[K];
        wisp_data *d;
        uint64_t start[2] = { 0, strcspn(line, "\n") };
        double began = now_us();
        if (wisp_data_from_text(&d, ctx, 1, line, start, 0, NULL, NULL, cfg, m, &err))
            return complain(&err);
        double read = now_us();
        if (wisp_predictor_run(labels, scores, p, d, 0, 1, &err)) return complain(&err);
        wisp_data_free(d);
        all_us[n] = now_us() - began;
        read_us[n++] = read - began;
    }
    if (n == 0) return fprintf(stderr, "%s: no lines\n", argv[2]), 1;
    qsort(read_us, n, sizeof *read_us, ascending);
    qsort(all_us, n, sizeof *all_us, ascending);
    printf("C, one line per call, %s: %.1f us median, %.1f p90 (reading it: %.1f); %zu lines\n",
           inference, all_us[n / 2], all_us[9 * n / 10], read_us[n / 2], n);
    fclose(f);
    wisp_predictor_free(p);
    wisp_model_free(m);
    wisp_context_free(ctx);
    wisp_config_free(cfg);
    return 0;
}
