/* Sparse matrices as text: lines of 'id id value', ids from 1; edges made of them; MatrixMarket.
 * tsv.c reads the files of the Graph Challenge with it.
 *
 * A text is mapped and cut into chunks; a chunk owns the lines that begin in it, so chunks can be
 * read in any order by any thread and every line is read once.  A line that is wrong is remembered
 * by its place, the lowest wins, and only then is its number counted and the reason put into words:
 * errors do not depend on threads, and good text pays nothing for them.
 *
 *     for each chunk i:  r = wisp_tsv_open(t, i);  while (wisp_tsv_next(&r, &line)) ...;
 *                        wisp_tsv_close(&r);
 *     then:              wisp_tsv_status(t, err) */
#ifndef WISP_SPDNN_MTX_H
#define WISP_SPDNN_MTX_H

#include "base/file.h"
#include "spdnn/spdnn.h"

#include <stdatomic.h>
#include <string.h>

/* ---- lines ---- */

extern size_t wisp_tsv_chunk; /* bytes of a chunk; tests make it small */
extern uint32_t
    wisp_tsv_id_max; /* of ids that nothing else limits: arrays are as long as they say */

struct wisp_tsv {
    const char *path, *text;
    size_t bytes;
    const char *form;    /* of a line, for words: "input output weight" */
    int n_ids;           /* of a line: 1 or 2 */
    uint32_t max[2];     /* the largest that may be */
    bool value;          /* a number follows the ids */
    bool whole;          /* ... and has digits only */
    bool blanks;         /* empty lines are skipped */
    _Atomic(size_t) bad; /* place of the first wrong line; SIZE_MAX: none */
};

struct wisp_tsv_line {
    uint32_t id[2]; /* from 0 */
    float value;    /* 1 where the line has none */
};

struct wisp_tsv_reader {
    struct wisp_tsv *t;
    const char *p, *last; /* the next line; the chunk's lines begin before 'last' */
    const char *why;      /* the line at p is wrong; NULL: all is well */
    const char *seen;     /* the last number, 'n_seen' bytes that mean 'number' */
    size_t n_seen;
    float number;
};

/* All of a text, behind a mark of byte order, with no fault so far. */
void wisp_tsv_init(struct wisp_tsv *t, const struct wisp_map *m);
size_t wisp_tsv_chunks(const struct wisp_tsv *t);
struct wisp_tsv_reader wisp_tsv_open(struct wisp_tsv *t, size_t chunk);
void wisp_tsv_close(struct wisp_tsv_reader *r);
wisp_status wisp_tsv_status(struct wisp_tsv *t, wisp_error *err);
/* "path:line: why, in 'the line'" for the line that begins at 'place'. */
wisp_status wisp_tsv_fail(const struct wisp_tsv *t, size_t place, const char *why, wisp_error *err);
/* Place of the n-th line, from 0, that is not empty, at 'from' and behind it. */
size_t wisp_tsv_place(const struct wisp_tsv *t, const char *from, size_t n);

/* [+-]digits[.digits][e[+-]digits] to the nearest float.  What follows, or NULL: no number. */
const char *wisp_tsv_number(float *out, const char *p, const char *end);

/* Arrays are as long as the highest id, so ids must be in proportion to the lines that name them: a
 * few bytes must not take gigabytes.  The largest number of ids that so many lines may have. */
enum { WISP_TSV_IDS_FREE = 1 << 20, WISP_TSV_IDS_PER_LINE = 16 };
static inline uint64_t wisp_tsv_most_ids(uint64_t lines)
{
    return WISP_TSV_IDS_FREE + WISP_TSV_IDS_PER_LINE * lines;
}

/* ---- the hot loop ---- */

static inline const char *wisp_tsv_blank(const char *p, const char *end)
{
    while (p < end && (*p == '\t' || *p == ' ')) p++;
    return p;
}

/* An id of up to 19 digits; what follows, or NULL. */
static inline const char *wisp_tsv_digits(uint64_t *out, const char *p, const char *end)
{
    const char *begin = p;
    uint64_t v = 0;
    for (unsigned d; p < end && (d = (unsigned)(*p - '0')) < 10; p++) v = v * 10 + d;
    *out = v;
    return p == begin || p - begin > 19 ? NULL : p;
}

/* After the last field: the beginning of the next line, or NULL. */
static inline const char *wisp_tsv_line_end(const char *p, const char *end)
{
    p = wisp_tsv_blank(p, end);
    if (p < end && *p == '\r') p++;
    if (p == end) return p;
    return *p == '\n' ? p + 1 : NULL;
}

/* Most files say one number over and over: equal bytes need no parsing. */
static inline const char *wisp_tsv_value(struct wisp_tsv_reader *r, const char *p, const char *end)
{
    size_t n = r->n_seen, left = (size_t)(end - p);
    if (n && n < left && memcmp(p, r->seen, n) == 0 && (unsigned char)p[n] <= ' ') return p + n;
    const char *next = wisp_tsv_number(&r->number, p, end);
    for (const char *c = p; next && r->t->whole && c < next; c++)
        if (*c == '.' || *c == 'e' || *c == 'E') return NULL;
    if (next) r->seen = p, r->n_seen = (size_t)(next - p);
    return next;
}

/* The fields of the line at r->p; NULL, and r->why, where it is wrong. */
static inline const char *wisp_tsv_parse(struct wisp_tsv_reader *r, struct wisp_tsv_line *out)
{
    const struct wisp_tsv *t = r->t;
    const char *end = t->text + t->bytes, *p = wisp_tsv_blank(r->p, end);
    for (int i = 0; i < t->n_ids; i++) {
        uint64_t id;
        const char *next = wisp_tsv_digits(&id, p, end);
        if (!next || id == 0 || id > t->max[i]) {
            r->why = !next ? "no id" : id == 0 ? "an id of 0" : "an id out of range";
            return NULL;
        }
        out->id[i] = (uint32_t)(id - 1);
        p = wisp_tsv_blank(next, end);
        if (p == next && (t->value || i + 1 < t->n_ids)) return r->why = "a field is missing", NULL;
    }
    if (t->value) {
        p = wisp_tsv_value(r, p, end);
        if (!p) return r->why = t->whole ? "no whole number" : "no finite number", NULL;
    }
    out->value = t->value ? r->number : 1;
    p = wisp_tsv_line_end(p, end);
    return p ? p : (r->why = "more than that", NULL);
}

/* The chunk's next line; false at its end, or at a line that is wrong. */
static inline bool wisp_tsv_next(struct wisp_tsv_reader *r, struct wisp_tsv_line *out)
{
    for (const char *end = r->t->text + r->t->bytes, *p; r->p < r->last; r->p = p) {
        if (r->t->blanks && (p = wisp_tsv_line_end(r->p, end))) continue;
        p = wisp_tsv_parse(r, out);
        if (p) r->p = p;
        return p != NULL;
    }
    return false;
}

/* ---- edges from lines ---- */

struct wisp_edge_lines { /* as they were read */
    size_t n, room;
    uint32_t *in, *out; /* (room) */
    float *w;           /* (room) */
};

struct wisp_edge_arrays { /* owned: what a struct wisp_edges points at */
    uint64_t *start;      /* (n_out + 1) */
    uint32_t *in;
    float *w; /* NULL: all are 'weight' */
    float weight;
};

wisp_status wisp_edge_lines_init(struct wisp_edge_lines *l, size_t room, wisp_error *err);
void wisp_edge_lines_clear(struct wisp_edge_lines *l);
/* By output, then by input; equal weights become one number.  'l' is used up, also on failure.  An
 * edge that is there twice: WISP_EFORMAT, and *twice is the first line, from 0, that repeats one;
 * err is left to the caller, who knows where that line is. */
wisp_status wisp_edge_arrays_make(struct wisp_edge_arrays *to, struct wisp_edge_lines *l,
                                  uint32_t n_in, uint32_t n_out, size_t *twice, wisp_error *err);
void wisp_edge_arrays_clear(struct wisp_edge_arrays *a);

/* ---- MatrixMarket ---- */

struct wisp_mtx {
    struct wisp_edges e; /* its arrays are those of 'own'; no biases, bias 0 */
    struct wisp_edge_arrays own;
};

/* Lets e point at what 'own' has. */
void wisp_mtx_show(struct wisp_mtx *m);
/* 'coordinate', real, integer or pattern (all weights 1), general.  Rows are outputs and columns
 * inputs, or the other way round.  On failure *out is empty. */
wisp_status wisp_mtx_read(struct wisp_mtx *out, const char *path, bool rows_are_inputs,
                          wisp_error *err);
void wisp_mtx_clear(struct wisp_mtx *m);
/* A matrix of n_in inputs in either form: MatrixMarket, whose rows are outputs, or lines of 'input
 * output' or 'input output weight', as the Graph Challenge has them (tsv.c).  Of n_out outputs; 0:
 * as many as the file says, or names. */
wisp_status wisp_mtx_read_any(struct wisp_mtx *out, const char *path, uint32_t n_in, uint32_t n_out,
                              wisp_error *err);

#endif
