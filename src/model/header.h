/* The header of a model file, as JSON of one shape and no other:
 *
 *   {"__metadata__": {"key": "text", ...},
 *    "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *
 * It comes from anywhere, so it is read in one pass without a tree and without recursion: what does
 * not belong is refused where it stands, and memory is at most a few times the header's bytes. */
#ifndef WISP_MODEL_HEADER_H
#define WISP_MODEL_HEADER_H

#include "model/file.h"

struct wisp_span { /* a tensor of any kind, pads and __integrity__ included; t.data is not set */
    struct wisp_tensor t;
    size_t begin, end; /* in the data, as the header says */
};

struct wisp_header {
    struct wisp_span *spans; /* (n_spans) in the order of the header, no name twice */
    size_t n_spans;
    struct wisp_pair *meta; /* (n_meta) the strings lie in 'text'; no key twice */
    size_t n_meta;
    char *text;
    /* room */
    size_t cap_spans, cap_meta;
};

/* Spaces and the order of keys are free, as safetensors has it.  WISP_EMODEL says what is wrong,
 * and at which byte of the JSON where it is none; 'path' begins the text. */
wisp_status wisp_header_parse(struct wisp_header *h, const char *path, const unsigned char *json,
                              size_t bytes, wisp_error *err);
void wisp_header_clear(struct wisp_header *h);

#endif
