/* The style sheet of all pages, serve/pages/wisp.css; the Makefile makes it a part of the library. */
#ifndef WISP_REPORT_STYLE_H
#define WISP_REPORT_STYLE_H

#include <stddef.h>

extern const char wisp_style[];
extern const size_t wisp_style_bytes;

#endif
