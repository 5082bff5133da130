/* Parts of the report of a training run. */
#ifndef WISP_MODEL_TRAIN_REPORT_H
#define WISP_MODEL_TRAIN_REPORT_H

#include "base/report.h"
#include "model/run.h"

struct wisp_done {             /* in all steps of this process: */
    double rows, nnz, touched; /* rows, their non-zeros, rows of features that moved, */
    double active, scored;     /* rows of a step, and those scored for a sample, on average */
};
void wisp_report_work(struct wisp_report *t, const struct wisp_run *r, const struct wisp_done *d);
void wisp_report_calibration(struct wisp_report *t, const struct wisp_run *r);

#endif
