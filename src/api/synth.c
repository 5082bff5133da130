/* Synthetic rows of the shape that options name. */
#include "api/bench.h"
#include "base/text.h"

#include <stdlib.h>

wisp_status wisp_shape_named(struct wisp_synth_shape *s, const wisp_config *cfg, wisp_error *err)
{
    const wisp_option *o = wisp_option_row(OPT_SHAPE);
    const char *name = wisp_opt_text(cfg, OPT_SHAPE);
    if (wisp_synth_find(s, name)) return WISP_OK;
    return wisp_fail_option(err, o->key, "'%.100s' is not one of %s, nor ROWSxFEATURESxLABELS",
                            name, o->range);
}

wisp_status wisp_synth(wisp_context *ctx, const char *prefix, const wisp_config *cfg,
                       wisp_error *err)
{
    struct wisp_synth_shape s = { 0 };
    wisp_status st = *wisp_opt_text(cfg, OPT_SHAPE) ? wisp_shape_named(&s, cfg, err) : WISP_OK;
    if (st != WISP_OK) return st;
    if (wisp_opt_num(cfg, OPT_ROWS) > 0) s.n_rows = (size_t)wisp_opt_num(cfg, OPT_ROWS);
    if (wisp_opt_num(cfg, OPT_FEATURES) > 0) s.n_features = (size_t)wisp_opt_num(cfg, OPT_FEATURES);
    if (wisp_opt_num(cfg, OPT_LABELS) > 0) s.n_labels = (size_t)wisp_opt_num(cfg, OPT_LABELS);
    double row_features = wisp_opt_num(cfg, OPT_ROW_FEATURES),
           row_labels = wisp_opt_num(cfg, OPT_ROW_LABELS);
    if (row_features > 0 || s.row_features == 0)
        s.row_features = row_features > 0 ? row_features : WISP_ROW_FEATURES;
    if (row_labels > 0 || s.row_labels == 0)
        s.row_labels = row_labels > 0 ? row_labels : WISP_ROW_LABELS;
    if (wisp_opt_num(cfg, OPT_TEST_ROWS) >= 0) s.n_test = (size_t)wisp_opt_num(cfg, OPT_TEST_ROWS);
    else s.n_test = wisp_synth_tests(s.n_rows);
    s.seed = (uint64_t)wisp_opt_num(cfg, OPT_SEED);
    if (!s.n_rows || !s.n_features || !s.n_labels)
        return wisp_fail(err, WISP_EINVAL,
                         "synth needs --shape, or --rows, --features and --labels");
    return wisp_synth_write(ctx, prefix, &s, err);
}
