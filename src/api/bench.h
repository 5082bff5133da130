/* What the benchmarks and synthetic data share. */
#ifndef WISP_API_BENCH_H
#define WISP_API_BENCH_H

#include "base/report.h"
#include "config/options.h"
#include "data/data.h"
#include "model/model.h"
#include "model/pace.h"

/* The options of cfg that count here, with the benchmarks' own defaults; to be freed, also after a
 * failure. */
wisp_status wisp_bench_settings(wisp_config **out, const wisp_config *cfg, wisp_error *err);
/* The shape that --shape names (synth.c). */
wisp_status wisp_shape_named(struct wisp_synth_shape *s, const wisp_config *cfg, wisp_error *err);
/* Does --net name a net that reads images? */
wisp_status wisp_bench_net(const wisp_config *cfg, wisp_error *err);
wisp_status wisp_bench_shape(struct wisp_synth_shape *s, const wisp_config *cfg, wisp_error *err);

/* A net of images that is trained to be looked at (bench_steps.c). */
struct wisp_bench_subject {
    struct wisp_image image;
    size_t n_labels, n_rows;
    wisp_config *cfg;
    struct wisp_data *rows, *none;
    struct wisp_model *m;
    struct wisp_report *run;
    struct wisp_pace pace; /* the caller may set 'peek' */
};
/* Trains the net of "net" on images of 'path', or of random bytes where it is NULL.  learns: at the
 * usual rate where there are images, else so slowly that nothing changes.  To be cleared, also after a
 * failure. */
wisp_status wisp_bench_run(struct wisp_bench_subject *s, struct wisp_context *ctx,
                           const wisp_config *cfg, const char *path, bool learns,
                           wisp_on_progress told, void *arg, wisp_error *err);
void wisp_bench_clear(struct wisp_bench_subject *s);

#endif
