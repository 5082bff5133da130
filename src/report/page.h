/* The page of a training report: one file of HTML that needs nothing else, no script either. */
#ifndef WISP_REPORT_PAGE_H
#define WISP_REPORT_PAGE_H

#include "report/log.h"

/* Writes it whole or not at all.  The same runs give the same bytes. */
wisp_status wisp_report_page(const char *path, const struct wisp_logs *logs, wisp_error *err);

#endif
