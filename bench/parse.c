/* How fast text becomes rows: MB/s of the reader on one file, no cache, for 1, 2, ... threads.
 *   bench/parse FILE [max threads] */
#include "wisp/wisp.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc < 2) return fprintf(stderr, "usage: parse FILE [max threads]\n"), 2;
    wisp_error err;
    wisp_config *cfg;
    if (wisp_config_create(&cfg, &err) || wisp_config_set(cfg, "cache", "-", &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    for (int threads = 1; threads <= (argc > 2 ? atoi(argv[2]) : 2); threads *= 2) {
        wisp_context *ctx;
        if (wisp_context_create(&ctx, threads, &err)) return fprintf(stderr, "%s\n", err.text), 1;
        double best = 1e9;
        wisp_data_stats s = { 0 };
        for (int i = 0; i < 5; i++) {
            wisp_data *d;
            double began = now();
            if (wisp_data_open(&d, ctx, argv[1], cfg, NULL, &err))
                return fprintf(stderr, "%s\n", err.text), 1;
            double took = now() - began;
            if (took < best) best = took;
            wisp_data_stats_get(d, &s);
            wisp_data_free(d);
        }
        printf("wisp, %d thread%s: %.0f MB/s (%.3f s, %zu rows, %.1f million values)\n", threads,
               threads > 1 ? "s" : "", 1e-6 * (double)s.source_bytes / best, best, s.n_rows,
               1e-6 * (double)s.n_values);
        wisp_context_free(ctx);
    }
    wisp_config_free(cfg);
    return 0;
}
