/* Sparse matrices as text: numbers, lines, edges, MatrixMarket.
 *
 * Lines become edges by two passes of counting, by input and then, stable, by output: O(lines +
 * ids).  Files that are in that order already, as the official ones are, are not sorted. */
#include "spdnn/mtx.h"
#include "base/mem.h"
#include "base/text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

size_t wisp_tsv_chunk = 4 << 20;
uint32_t wisp_tsv_id_max = INT32_MAX;

/* ---- numbers ---- */

static bool is_digit(const char *p, const char *end)
{
    return p < end && (unsigned)(*p - '0') < 10;
}

/* By the C library. */
static bool slow_number(float *out, const char *begin, const char *end)
{
    char copy[512];
    size_t n = (size_t)(end - begin);
    if (n >= sizeof copy) return false;
    memcpy(copy, begin, n);
    copy[n] = 0;
    *out = wisp_strtof(copy, NULL);
    return isfinite(*out);
}

/* m * 10^e, if that is sure to be the nearest float: both are exact in double, so the result is
 * within half a unit of it, and so is its float unless it lies at the middle between two. */
static bool quick_number(float *out, uint64_t m, int e)
{
    static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    if (m >= 1u << 31 && m >> 53) return false;
    if (e < -22 || e > 22) return false;
    double d = e < 0 ? (double)m / powers[-e] : (double)m * powers[e];
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    uint64_t below = bits & 0x1fffffff; /* what a float has no room for */
    if (m && (d < (double)FLT_MIN || d > (double)FLT_MAX || below - 0x0fffffff <= 2)) return false;
    *out = (float)d;
    return true;
}

/* Digits after those of *m; *fits ends when they are too many for it. */
static const char *more_digits(uint64_t *m, bool *fits, const char *p, const char *end)
{
    for (; is_digit(p, end); p++) {
        *fits &= *m < 1000000000000000000u;
        if (*fits) *m = *m * 10 + (uint64_t)(*p - '0');
    }
    return p;
}

const char *wisp_tsv_number(float *out, const char *p, const char *end)
{
    const char *begin = p;
    uint64_t m = 0;
    bool fits = true, minus = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    const char *whole = p;
    p = more_digits(&m, &fits, p, end);
    size_t digits = (size_t)(p - whole), behind = 0;
    if (p < end && *p == '.') {
        const char *point = ++p;
        p = more_digits(&m, &fits, p, end);
        behind = (size_t)(p - point);
    }
    if (digits + behind == 0) return NULL;
    int e = 0;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        bool down = p < end && *p == '-';
        if (p < end && (*p == '-' || *p == '+')) p++;
        if (!is_digit(p, end)) return NULL;
        for (; is_digit(p, end); p++) e = e < 10000 ? e * 10 + (*p - '0') : e;
        e = down ? -e : e;
    }
    if (fits && behind < 100 && quick_number(out, m, e - (int)behind)) {
        if (minus) *out = -*out;
        return p;
    }
    return slow_number(out, begin, p) ? p : NULL;
}

/* ---- chunks and faults ---- */

void wisp_tsv_init(struct wisp_tsv *t, const struct wisp_map *m)
{
    const size_t bom = m->bytes >= 3 && memcmp(m->p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    t->text = m->p ? (const char *)m->p + bom : "";
    t->bytes = m->bytes - bom;
    t->bad = SIZE_MAX;
}

size_t wisp_tsv_chunks(const struct wisp_tsv *t)
{
    return t->bytes / wisp_tsv_chunk + (t->bytes % wisp_tsv_chunk != 0);
}

/* The first line that begins at 'at' or behind it. */
static const char *line_from(const struct wisp_tsv *t, size_t at)
{
    if (at == 0 || at >= t->bytes) return at ? t->text + t->bytes : t->text;
    const char *nl = memchr(t->text + at - 1, '\n', t->bytes - at + 1);
    return nl ? nl + 1 : t->text + t->bytes;
}

struct wisp_tsv_reader wisp_tsv_open(struct wisp_tsv *t, size_t chunk)
{
    size_t at = chunk * wisp_tsv_chunk, left = t->bytes - at;
    return (struct wisp_tsv_reader){
        .t = t,
        .p = line_from(t, at),
        .last = t->text + (left < wisp_tsv_chunk ? t->bytes : at + wisp_tsv_chunk)
    };
}

void wisp_tsv_close(struct wisp_tsv_reader *r)
{
    if (!r->why) return;
    size_t place = (size_t)(r->p - r->t->text), lowest = atomic_load(&r->t->bad);
    while (place < lowest && !atomic_compare_exchange_weak(&r->t->bad, &lowest, place)) {}
}

wisp_status wisp_tsv_fail(const struct wisp_tsv *t, size_t place, const char *why, wisp_error *err)
{
    size_t line = 1, n = 0;
    for (size_t i = 0; i < place; i++) line += t->text[i] == '\n';
    const char *p = t->text + place;
    while (place + n < t->bytes && p[n] != '\n' && p[n] != '\r') n++;
    char limits[64], shown[WISP_SHOW_BYTES(48)];
    wisp_text_show(shown, p, n, 48);
    snprintf(limits, sizeof limits, t->n_ids > 1 ? "%u and %u" : "%u", t->max[0], t->max[1]);
    return wisp_fail_at(err, WISP_EFORMAT, t->path, line,
                        "%s in '%s'; expected '%s', ids from 1 to %s", why, shown, t->form, limits);
}

wisp_status wisp_tsv_status(struct wisp_tsv *t, wisp_error *err)
{
    if (t->bad == SIZE_MAX) return WISP_OK;
    struct wisp_tsv_reader r = { .t = t, .p = t->text + t->bad };
    struct wisp_tsv_line line;
    wisp_tsv_parse(&r, &line);
    return wisp_tsv_fail(t, t->bad, r.why ? r.why : "a line that changed", err);
}

size_t wisp_tsv_place(const struct wisp_tsv *t, const char *from, size_t n)
{
    const char *end = t->text + t->bytes, *p = from;
    while (p < end) {
        const char *next = wisp_tsv_line_end(p, end);
        if (!next && n-- == 0) break;
        p = next ? next : line_from(t, (size_t)(p - t->text) + 1);
    }
    return (size_t)(p - t->text);
}

/* ---- edges from lines ---- */

wisp_status wisp_edge_lines_init(struct wisp_edge_lines *l, size_t room, wisp_error *err)
{
    *l = (struct wisp_edge_lines){ .room = room };
    l->in = wisp_alloc(room, sizeof *l->in);
    l->out = wisp_alloc(room, sizeof *l->out);
    l->w = wisp_alloc(room, sizeof *l->w);
    if (l->in && l->out && l->w) return WISP_OK;
    wisp_edge_lines_clear(l);
    return wisp_fail_mem(err, 12 * room, "the edges of a file");
}

void wisp_edge_lines_clear(struct wisp_edge_lines *l)
{
    wisp_free(l->in);
    wisp_free(l->out);
    wisp_free(l->w);
    *l = (struct wisp_edge_lines){ 0 };
}

void wisp_edge_arrays_clear(struct wisp_edge_arrays *a)
{
    wisp_free(a->start);
    wisp_free(a->in);
    wisp_free(a->w);
    *a = (struct wisp_edge_arrays){ 0 };
}

static bool in_order(const struct wisp_edge_lines *l)
{
    for (size_t i = 1; i < l->n; i++)
        if (l->out[i] < l->out[i - 1] || (l->out[i] == l->out[i - 1] && l->in[i] <= l->in[i - 1]))
            return false;
    return true;
}

/* start[k] = number of ids below k. */
static void count(uint64_t *start, uint32_t n_ids, const uint32_t *id, size_t n)
{
    memset(start, 0, ((size_t)n_ids + 1) * sizeof *start);
    for (size_t i = 0; i < n; i++) start[(size_t)id[i] + 1]++;
    for (size_t k = 0; k < n_ids; k++) start[k + 1] += start[k];
}

/* to = from (NULL: 0, 1, ...), by ascending id, equal ones in the order they had.  start is used
 * up: start[k] becomes the end of id k. */
static void sort_by(uint32_t *to, const uint32_t *from, uint64_t *start, const uint32_t *id,
                    size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t line = from ? from[i] : (uint32_t)i;
        to[start[id[line]]++] = line;
    }
}

/* Lines by output and input; false: out of memory. */
static bool sort_lines(uint32_t *line, uint64_t *start, const struct wisp_edge_lines *l,
                       uint32_t n_in, uint32_t n_out)
{
    uint32_t *half = wisp_alloc(l->n, sizeof *half);
    uint64_t *place = wisp_alloc((size_t)n_in + 1, sizeof *place);
    if (half && place) {
        count(place, n_in, l->in, l->n);
        sort_by(half, NULL, place, l->in, l->n);
        sort_by(line, half, start, l->out, l->n);
        memmove(start + 1, start, n_out * sizeof *start); /* ends to beginnings */
        start[0] = 0;
    }
    bool done = half && place;
    wisp_free(half);
    wisp_free(place);
    return done;
}

/* The first line that repeats an earlier one; l->n: none does. */
static size_t find_twice(const struct wisp_edge_lines *l, const uint32_t *line)
{
    size_t first = l->n;
    for (size_t i = 1; i < l->n; i++) {
        uint32_t a = line[i - 1], b = line[i];
        if (l->in[a] == l->in[b] && l->out[a] == l->out[b] && b < first) first = b;
    }
    return first;
}

/* to[i] = from[line[i]], of 4 bytes each. */
static void pick(void *to, const void *from, const uint32_t *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy((char *)to + 4 * i, (const char *)from + 4 * (size_t)line[i], 4);
}

/* Puts in and w into the order of 'line'; out, and then the old in, is where they go. */
static void reorder(struct wisp_edge_lines *l, const uint32_t *line)
{
    uint32_t *in = l->out;
    pick(in, l->in, line, l->n);
    void *w = l->in, *old = l->w;
    pick(w, l->w, line, l->n);
    l->in = in;
    l->w = w;
    l->out = old;
}

static wisp_status arrange(struct wisp_edge_arrays *to, struct wisp_edge_lines *l, uint32_t n_in,
                           uint32_t n_out, size_t *twice, wisp_error *err)
{
    if (l->n > UINT32_MAX)
        return wisp_fail(err, WISP_EFORMAT, "%zu edges; a layer may have 4294967295", l->n);
    if (wisp_mem_fits(8 * ((size_t)n_in + n_out + 2))) /* ids may be absurd */
        to->start = wisp_alloc((size_t)n_out + 1, sizeof *to->start);
    if (!to->start) return wisp_fail_mem(err, 8 * ((size_t)n_out + 1), "the outputs of a layer");
    count(to->start, n_out, l->out, l->n);
    if (in_order(l)) return WISP_OK;
    uint32_t *line = wisp_alloc(l->n, sizeof *line);
    bool sorted = line && sort_lines(line, to->start, l, n_in, n_out);
    if (sorted) *twice = find_twice(l, line);
    if (sorted && *twice == l->n) reorder(l, line);
    wisp_free(line);
    if (!sorted) return wisp_fail_mem(err, 8 * (l->n + n_in), "sorting edges");
    return *twice < l->n ? WISP_EFORMAT : WISP_OK;
}

wisp_status wisp_edge_arrays_make(struct wisp_edge_arrays *to, struct wisp_edge_lines *l,
                                  uint32_t n_in, uint32_t n_out, size_t *twice, wisp_error *err)
{
    *to = (struct wisp_edge_arrays){ 0 };
    *twice = l->n;
    wisp_status st = arrange(to, l, n_in, n_out, twice, err);
    if (st != WISP_OK) {
        wisp_edge_arrays_clear(to);
        wisp_edge_lines_clear(l);
        return st;
    }
    to->weight = l->n ? l->w[0] : 1;
    bool equal = true;
    for (size_t i = 0; i < l->n; i++) equal &= l->w[i] == to->weight;
    to->in = l->in;
    l->in = NULL;
    if (!equal) {
        to->w = l->w;
        l->w = NULL;
    }
    wisp_edge_lines_clear(l);
    return WISP_OK;
}

/* ---- MatrixMarket ----
 *
 *     %%MatrixMarket matrix coordinate real general
 *     % comments
 *     rows columns entries
 *     row column value          'pattern': no value */

void wisp_mtx_show(struct wisp_mtx *m)
{
    m->e.start = m->own.start;
    m->e.in = m->own.in;
    m->e.w = m->own.w;
    m->e.weight = m->own.weight;
}

void wisp_mtx_clear(struct wisp_mtx *m)
{
    wisp_edge_arrays_clear(&m->own);
    *m = (struct wisp_mtx){ 0 };
}

/* The next word of a line, in 'word'; what follows it. */
static const char *next_word(char word[20], const char *p, const char *end)
{
    size_t n = 0;
    p = wisp_tsv_blank(p, end);
    for (; p < end && (unsigned char)*p > ' '; p++)
        if (n < 19) word[n++] = *p;
    word[n] = 0;
    return p;
}

/* The first line: the kind of matrix.  What follows it, or NULL. */
static const char *read_banner(struct wisp_tsv *t, wisp_error *err)
{
    static const char *const wanted[] = { "%%MatrixMarket", "matrix", "coordinate" };
    const char *p = t->text, *end = t->text + t->bytes;
    char word[20], kind[20], symmetry[20];
    for (int i = 0; i < 3; i++) {
        p = next_word(word, p, end);
        if (wisp_casecmp(word, wanted[i]) == 0) continue;
        wisp_fail_at(err, i ? WISP_ENOTSUP : WISP_EFORMAT, t->path, 1,
                     "expected '%%%%MatrixMarket matrix coordinate real general': word %d is "
                     "not '%s'",
                     i + 1, wanted[i]);
        return NULL;
    }
    p = next_word(kind, p, end);
    p = next_word(symmetry, p, end);
    t->value = wisp_casecmp(kind, "pattern") != 0;
    t->whole = wisp_casecmp(kind, "integer") == 0;
    bool known = !t->value || wisp_casecmp(kind, "real") == 0 || t->whole;
    p = wisp_tsv_line_end(p, end);
    if (p && known && wisp_casecmp(symmetry, "general") == 0) return p;
    wisp_fail_at(err, WISP_ENOTSUP, t->path, 1,
                 "expected a real, integer or pattern matrix that is 'general'; others must be "
                 "written out in full first");
    return NULL;
}

/* Comments, empty lines, and the line of sizes.  What follows, or NULL. */
static const char *read_sizes(uint64_t size[3], const struct wisp_tsv *t, const char *p,
                              wisp_error *err)
{
    const char *end = t->text + t->bytes;
    while (p < end) {
        const char *next = wisp_tsv_line_end(p, end);
        if (!next && *p == '%') {
            next = memchr(p, '\n', (size_t)(end - p));
            next = next ? next + 1 : end;
        }
        if (!next) break;
        p = next;
    }
    const char *line = p;
    for (int i = 0; p && i < 3; i++) p = wisp_tsv_digits(&size[i], wisp_tsv_blank(p, end), end);
    if (p) p = wisp_tsv_line_end(p, end);
    uint64_t max = wisp_tsv_id_max;
    if (p && size[0] > 0 && size[0] <= max && size[1] > 0 && size[1] <= max) return p;
    wisp_tsv_fail(t, (size_t)(line - t->text), "bad sizes", err);
    return NULL;
}

static wisp_status read_entries(struct wisp_edge_lines *l, struct wisp_tsv *t, const char *body,
                                bool rows_are_inputs, wisp_error *err)
{
    struct wisp_tsv_reader r = { .t = t, .p = body, .last = t->text + t->bytes };
    struct wisp_tsv_line line;
    while (wisp_tsv_next(&r, &line)) {
        if (l->n == l->room)
            return wisp_fail_at(err, WISP_EFORMAT, t->path, 0,
                                "more than the %zu entries it announces", l->room);
        l->in[l->n] = line.id[!rows_are_inputs];
        l->out[l->n] = line.id[rows_are_inputs];
        l->w[l->n++] = line.value;
    }
    wisp_tsv_close(&r);
    wisp_status st = wisp_tsv_status(t, err);
    if (st != WISP_OK || l->n == l->room) return st;
    return wisp_fail_at(err, WISP_EFORMAT, t->path, 0,
                        "cut off: %zu of the %zu entries it announces", l->n, l->room);
}

static wisp_status read_body(struct wisp_mtx *out, struct wisp_tsv *t, const char *body,
                             const uint64_t size[3], bool rows_are_inputs, wisp_error *err)
{
    struct wisp_edge_lines l;
    t->max[0] = (uint32_t)size[0], t->max[1] = (uint32_t)size[1];
    t->form = t->value ? "row column value" : "row column";
    out->e.n_in = t->max[!rows_are_inputs];
    out->e.n_out = t->max[rows_are_inputs];
    if (size[2] > t->bytes / 3) /* of 3 bytes each, at least: no memory for a promise */
        return wisp_fail_at(err, WISP_EFORMAT, t->path, 0,
                            "cut off: too short for the %llu entries it announces",
                            (unsigned long long)size[2]);
    uint64_t most = wisp_tsv_most_ids(size[2]), larger = size[size[1] > size[0]];
    if (larger > most)
        return wisp_fail_at(err, WISP_EFORMAT, t->path, 0,
                            "%llu %s for %llu entries, expected at most %llu; number those that "
                            "have entries from 1 without gaps",
                            (unsigned long long)larger, larger == size[0] ? "rows" : "columns",
                            (unsigned long long)size[2], (unsigned long long)most);
    wisp_status st = wisp_edge_lines_init(&l, (size_t)size[2], err);
    if (st != WISP_OK) return st;
    st = read_entries(&l, t, body, rows_are_inputs, err);
    if (st != WISP_OK) {
        wisp_edge_lines_clear(&l);
        return st;
    }
    size_t twice, n = l.n;
    st = wisp_edge_arrays_make(&out->own, &l, out->e.n_in, out->e.n_out, &twice, err);
    return twice < n ? wisp_tsv_fail(t, wisp_tsv_place(t, body, twice), "an edge again", err) : st;
}

wisp_status wisp_mtx_read(struct wisp_mtx *out, const char *path, bool rows_are_inputs,
                          wisp_error *err)
{
    struct wisp_map m;
    uint64_t size[3];
    *out = (struct wisp_mtx){ 0 };
    wisp_status st = wisp_map_open(&m, path, err);
    if (st != WISP_OK) return st;
    struct wisp_tsv t = { .path = path,
                          .form = "rows columns entries",
                          .n_ids = 2,
                          .max = { wisp_tsv_id_max, wisp_tsv_id_max },
                          .blanks = true };
    wisp_tsv_init(&t, &m);
    wisp_error own;
    if (!err) err = &own;
    const char *p = read_banner(&t, err);
    if (p) p = read_sizes(size, &t, p, err);
    st = p ? read_body(out, &t, p, size, rows_are_inputs, err) : err->code;
    st = wisp_map_end(&m, st, err);
    if (st != WISP_OK) {
        wisp_mtx_clear(out);
        return st;
    }
    wisp_mtx_show(out);
    return WISP_OK;
}
