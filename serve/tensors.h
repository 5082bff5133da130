/* The body of a request of the Open Inference protocol (v2): tensors, which become the rows of a
 * request.
 *
 *   one tensor BYTES [n]                      texts
 *   one tensor of numbers [n, features]       rows; 0 is no feature
 *   UINT8 [n, channels, height, width]        images
 *   ids INT [n, m], values [n, m]             rows by id; an id below 0 fills up; values: 1 unless given
 *   indptr [n+1], indices, data               rows in CSR order */
#ifndef WISP_SERVE_TENSORS_H
#define WISP_SERVE_TENSORS_H

#include "serve/request.h"

/* As request_read does it.  id: what the client calls its request, to be told again; to be cleared. */
bool tensors_read(struct request *q, struct text *id, const char *bytes, size_t n, size_t most_rows,
                  struct request_error *why);

#endif
