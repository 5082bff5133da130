/* What a request to predict says, read from the bytes of its body: rows, how many labels, how.
 *
 *   {"text": "..."}                                    one row of text, or a list of them
 *   {"features": {"name": 1.5, "17": 2}}               one row by names or ids; ["name", 17]: values 1
 *   {"ids": [3, 17], "values": [1, 2]}                 one row by ids
 *   {"indptr": [0,2,3], "indices": [..], "data": [..]} rows in CSR order, as scipy has them
 *   {"pixels": [0, 255, ...]}                          an image, channel after channel, may be nested
 *   {"image": "base64 of a PNG or JPEG file"}
 *   {"rows": [{...}, {...}]}                           several of these, all of one kind
 *   with "model", "k", "threshold", "inference", "scores", "explain"
 *
 * Nothing here knows a model: names are looked up by request_resolve.  Memory is in proportion to the
 * body: at most 16 bytes for each number of two bytes. */
#ifndef WISP_SERVE_REQUEST_H
#define WISP_SERVE_REQUEST_H

#include "serve/json.h"
#include "wisp/wisp.h"

#include <stdint.h>

enum row_kind { ROWS_NONE, ROWS_TEXT, ROWS_FEATURES, ROWS_PIXELS, ROWS_PICTURES };

/* How to predict; what is not said is as the server was told. */
struct how {
    size_t k;         /* 0: not said */
    bool k_default;   /* of the server: nobody asked for this k, and thresholds may give more */
    double threshold; /* below 0: not said; 0 where 'own' is */
    bool own;         /* each label has the model's threshold for it ("threshold":"model") */
    int inference;    /* -1: not said, 0: exact, 1: sparse */
    int scores;       /* -1: not said, 0: calibrated, 1: raw */
    int explain;      /* why-features per label; 0: none */
};

struct entry {  /* of a row of features */
    int32_t id; /* below 0: by name, which begins at names.at + name */
    float value;
    uint32_t name, bytes;
};

struct request {
    enum row_kind kind;
    size_t n_rows;
    struct how how;
    struct text model; /* its name; empty: not said */
    struct text text;  /* of texts: all, one after the other; of pictures: their bytes; of pixels:
                          a byte each */
    struct text names;
    uint64_t *start; /* (n_rows + 1): where rows begin in text, or in entries */
    struct entry *entries;
    size_t n_entries, start_room, entries_room;
    /* after request_resolve: rows in CSR order, ids ascending, no value 0 */
    int64_t *ptr; /* (n_rows + 1) */
    int32_t *idx;
    float *val;
    size_t n_unknown; /* names and ids that the model does not know: left out */
};

struct request_error {
    int status; /* of HTTP */
    char text[500];
};

/* False: 'why' says what was found, where, and what was expected.  bytes[n] must be readable. */
bool request_read(struct request *q, const char *bytes, size_t n, size_t most_rows,
                  struct request_error *why);
/* Looks names up and puts rows of features in CSR order; counts pixels.  units: those of an image, 0:
 * the model does not read images. */
bool request_resolve(struct request *q, const wisp_model *m, size_t units,
                     struct request_error *why);
void request_clear(struct request *q);

/* For other forms of requests: a row ends where 'text' or 'entries' have come to. */
bool request_end_row(struct request *q);
bool request_add(struct request *q, int32_t id, float value, const char *name, size_t bytes);
bool request_fail(struct request_error *why, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Nothing more may come (jread_close); 'why' says what was wrong. */
bool request_close(struct json *j, struct request_error *why);
/* One of the keys of 'how', which may each be given once ('seen' as jread_is has it); false: it is
 * none of them. */
bool request_how(struct how *how, unsigned *seen, struct json *j, const char *key, size_t n);
enum { N_HOW = 5 };
void request_how_keys(const char *names[N_HOW]);
extern const struct how how_unsaid;

#endif
