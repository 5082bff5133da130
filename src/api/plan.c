/* What memory a model takes. */
#include "base/mem.h"
#include "base/report.h"
#include "model/memory.h"

wisp_status wisp_model_plan(wisp_report **out, wisp_context *ctx, const wisp_model *m,
                            const wisp_config *cfg, wisp_error *err)
{
    char *prediction, *training;
    *out = NULL;
    wisp_status st = wisp_memory_describe(&prediction, &training, m, ctx, cfg, err);
    if (st == WISP_OK) {
        struct wisp_report *r = wisp_report_create();
        wisp_report_object(r, "prediction", prediction);
        wisp_report_object(r, "training", training);
        st = wisp_report_done(out, r, err);
    }
    wisp_free(prediction);
    wisp_free(training);
    return st;
}
