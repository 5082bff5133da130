/* What the benchmarks and synthetic data share. */
#ifndef WISP_API_BENCH_H
#define WISP_API_BENCH_H

#include "base/report.h"
#include "config/options.h"
#include "data/data.h"

/* The options of cfg that count here, with the benchmarks' own defaults; to be freed, also after a
 * failure. */
wisp_status wisp_bench_settings(wisp_config **out, const wisp_config *cfg, wisp_error *err);
/* The shape that --shape names (synth.c). */
wisp_status wisp_shape_named(struct wisp_synth_shape *s, const wisp_config *cfg, wisp_error *err);
/* Does --net name a net that reads images? */
wisp_status wisp_bench_net(const wisp_config *cfg, wisp_error *err);
wisp_status wisp_bench_shape(struct wisp_synth_shape *s, const wisp_config *cfg, wisp_error *err);

#endif
