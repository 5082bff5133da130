/* Named results in order, and their JSON line. */
#ifndef WISP_BASE_REPORT_H
#define WISP_BASE_REPORT_H

#include "base/error.h"

/* Returns NULL when memory is out; the adding calls accept NULL and remember a failure,
 * which wisp_report_done reports: callers check once. */
struct wisp_report *wisp_report_create(void);
void wisp_report_num(struct wisp_report *r, const char *key, double value);
void wisp_report_text(struct wisp_report *r, const char *key, const char *value);
/* A value that is JSON itself. */
void wisp_report_object(struct wisp_report *r, const char *key, const char *json);
/* Makes the JSON text.  On failure r is freed and *out is NULL. */
wisp_status wisp_report_done(struct wisp_report **out, struct wisp_report *r, wisp_error *err);

#endif
