/* clang-format off */
/* Text in chunks.  A plain file is mapped and its chunks point into the map; packed text is
 * unpacked into one buffer per slot.  Each round:
 *
 *   cut       up to one chunk per thread, each ending after a '\n'; what follows the last '\n' of a
 *             buffer is the beginning of the next chunk.  A last line without '\n' gets one (in a
 *             copy), so that parsers need no other end mark.
 *   scan      in parallel: counts lines, looks for NUL; then the chunks know their line numbers
 *   parse     in parallel
 *   deliver   in order: the first error ends the reading; else merge, and add to the sink
 *
 * A fault met while cutting (damaged gzip, endless line) is kept until the chunks before it were
 * delivered, since an error in them comes first. */
/* clang-format on */
#include "data/text.h"
#include "base/mem.h"
#include "data/unpack.h"

#include <stdio.h>
#include <string.h>

size_t wisp_text_chunk = (size_t)4 << 20;
size_t wisp_text_line_max = (size_t)1 << 30;

struct slot {
    struct wisp_chunk c;
    char *buf; /* (cap) unpacked text, or a copy of the last line */
    size_t cap;
    size_t n_lines;
    const char *nul; /* the first NUL, or NULL */
    struct wisp_builder b;
    void *local;
    wisp_status st;
    wisp_error err;
};

struct reader {
    struct wisp_source *src;
    struct wisp_sink *sink;
    const struct wisp_text_parser *parser;
    struct wisp_map map;
    struct wisp_unpack in; /* packed text */
    const char *pos, *end; /* plain text not yet cut; else the tail of the last buffer */
    bool started;
    size_t line; /* of the next chunk */
    size_t row;  /* likewise, of rows in memory */
    struct slot *slots;
    size_t n_slots;
    wisp_status code; /* a fault met while cutting, ... */
    const char *fault;
};

static void set_fault(struct reader *r, wisp_status code, const char *why)
{
    r->code = code;
    r->fault = why;
}

static bool reserve(struct reader *r, struct slot *s, size_t used, size_t bytes)
{
    if (bytes <= s->cap) return true;
    char *p = wisp_realloc(s->buf, used, bytes, 1);
    if (!p) {
        set_fault(r, WISP_ENOMEM, "out of memory for a piece of text");
        return false;
    }
    s->buf = p;
    s->cap = bytes;
    return true;
}

static size_t chunk_bytes(const struct reader *r)
{
    return r->parser->only ? r->parser->only : wisp_text_chunk;
}

static void chunk_is(struct slot *s, const char *begin, const char *end)
{
    s->c.begin = begin;
    s->c.end = end;
}

/* The end of the last whole row of a piece, or NULL. */
static const char *last_row(const struct reader *r, const char *begin, const char *end)
{
    if (r->parser->cut) return r->parser->cut(r->parser->arg, begin, end);
    const char *nl = memrchr(begin, '\n', (size_t)(end - begin));
    return nl ? nl + 1 : NULL;
}

static size_t skip_bom(const char *p, size_t n)
{
    return n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static bool cut_plain(struct reader *r, struct slot *s)
{
    if (!r->started) r->pos += skip_bom(r->pos, (size_t)(r->end - r->pos));
    r->started = true;
    size_t left = (size_t)(r->end - r->pos);
    if (left == 0) return false;
    size_t far = left < wisp_text_line_max ? left : wisp_text_line_max;
    const char *stop = NULL;
    for (size_t part = chunk_bytes(r); !stop; part *= 2) { /* a long row takes more than a part */
        if (part > far) part = far;
        stop = last_row(r, r->pos, r->pos + part);
        if (part == far) break;
    }
    if (stop) {
        chunk_is(s, r->pos, stop);
        r->pos = stop;
        return true;
    }
    if (left > wisp_text_line_max) {
        set_fault(r, WISP_EFORMAT, "a line longer than 1 GiB");
        return false;
    }
    if (!reserve(r, s, 0, left + 1)) return false;
    memcpy(s->buf, r->pos, left);
    s->buf[left] = '\n';
    chunk_is(s, s->buf, s->buf + left + 1);
    r->pos = r->end;
    return true;
}

/* Fills s->buf (n bytes of it used) to the end of a row, of the text, or to a fault; returns the
 * end of the last whole row, or NULL. */
static const char *fill(struct reader *r, struct slot *s, size_t *n)
{
    size_t want = chunk_bytes(r) < 4 ? 4 : chunk_bytes(r); /* a BOM must fit */
    for (;;) {
        if (want < *n) want = *n;
        if (!reserve(r, s, *n, want + 1)) return NULL;
        *n += wisp_unpack(&r->in, s->buf + *n, want - *n);
        if (!r->started) {
            size_t bom = skip_bom(s->buf, *n);
            memmove(s->buf, s->buf + bom, *n -= bom);
            r->started = true;
        }
        const char *stop = last_row(r, s->buf, s->buf + *n);
        if (stop || r->in.ended || r->in.code != WISP_OK) return stop;
        if (*n > wisp_text_line_max) {
            set_fault(r, WISP_EFORMAT, "a line longer than 1 GiB");
            return NULL;
        }
        want = want < wisp_text_line_max / 2 ? 2 * want : wisp_text_line_max + 1;
    }
}

static bool cut_packed(struct reader *r, struct slot *s)
{
    size_t n = (size_t)(r->end - r->pos); /* the tail: in the previous slot, or in this one */
    bool own = s->buf && r->pos >= s->buf && r->pos < s->buf + s->cap;
    if (!own && !reserve(r, s, 0, n + 1)) return false;
    if (n) memmove(s->buf, r->pos, n);
    const char *stop = fill(r, s, &n);
    r->pos = r->end = s->buf;
    if (r->code == WISP_OK && r->in.code != WISP_OK) set_fault(r, r->in.code, r->in.fault);
    if (r->in.ended && r->code == WISP_OK && n > 0 && stop != s->buf + n) {
        if (s->buf[n - 1] != '\n') s->buf[n++] = '\n'; /* fill leaves room for it */
        stop = s->buf + n;
    }
    if (!stop) return false;
    chunk_is(s, s->buf, stop);
    r->pos = stop;
    r->end = s->buf + n;
    return true;
}

/* As many texts of rows in memory as make a chunk, at least one. */
static bool cut_rows(struct reader *r, struct slot *s)
{
    const struct wisp_memory_rows *m = r->src->rows;
    size_t first = r->row, n = 0;
    if (first == m->n_rows) return false;
    do n++;
    while (first + n < m->n_rows && n < WISP_BLOCK_ROWS &&
           m->start[first + n + 1] - m->start[first] <= chunk_bytes(r));
    chunk_is(s, m->text + m->start[first], m->text + m->start[first + n]);
    s->c.line = first + 1;
    s->c.n_rows = n;
    r->row += n;
    return true;
}

static void scan(void *arg, size_t i, int thread)
{
    struct slot *s = &((struct reader *)arg)->slots[i];
    (void)thread;
    enum { STEP = 240 }; /* a count of it fits a byte */
    size_t n = 0, bytes = (size_t)(s->c.end - s->c.begin);
    const char *p = s->c.begin;
    s->nul = memchr(p, 0, bytes);
    size_t at = 0;
    for (; bytes - at >= STEP; at += STEP) { /* a fixed number of bytes: this vectorises */
        unsigned char few = 0;
        for (int k = 0; k < STEP; k++) few += p[at + (size_t)k] == '\n';
        n += few;
    }
    for (; at < bytes; at++) n += p[at] == '\n';
    s->n_lines = n;
}

/* Lines before the one with a NUL are still parsed: their errors come first. */
static void end_before_nul(struct slot *s)
{
    if (!s->nul) return;
    const char *nl = memrchr(s->c.begin, '\n', (size_t)(s->nul - s->c.begin));
    s->c.end = nl ? nl + 1 : s->c.begin;
}

static void parse(void *arg, size_t i, int thread)
{
    struct reader *r = arg;
    struct slot *s = &r->slots[i];
    (void)thread;
    if (s->c.begin == s->c.end && !s->c.n_rows) return;
    s->st = r->parser->parse(r->parser->arg, &s->c, &s->b, s->local, &s->err);
}

static wisp_status first_line(struct reader *r, struct slot *s, wisp_error *err)
{
    if (!r->parser->first || s->c.begin == s->c.end) return WISP_OK;
    const char *nl = memchr(s->c.begin, '\n', (size_t)(s->c.end - s->c.begin)), *end = nl;
    if (end > s->c.begin && end[-1] == '\r') end--;
    bool taken = false;
    wisp_status st = r->parser->first(r->parser->arg, s->c.begin, end, &taken, err);
    if (taken) {
        s->c.begin = nl + 1;
        s->c.line++;
    }
    return st;
}

static wisp_status deliver(struct reader *r, struct slot *s, wisp_error *err)
{
    if (s->st != WISP_OK) {
        if (err) *err = s->err;
        return s->st;
    }
    wisp_status st = WISP_OK;
    bool parsed = s->c.begin < s->c.end || s->c.n_rows;
    if (parsed && r->parser->merge)
        st = r->parser->merge(r->parser->arg, &s->c, &s->b, s->local, err);
    if (st == WISP_OK && parsed) st = wisp_sink_add(r->sink, &s->b, err);
    if (st != WISP_OK || !s->nul) return st;
    size_t line = s->c.line;
    for (const char *p = s->c.begin; p < s->nul; p++) line += *p == '\n';
    return wisp_fail_at(err, WISP_EFORMAT, s->c.path, line, "a NUL byte, expected text");
}

/* *n chunks were delivered; 0 at the end. */
static wisp_status one_round(struct reader *r, size_t *n, wisp_error *err)
{
    const char *from = r->pos;
    bool first = r->line == 1, in_memory = r->src->rows != NULL;
    bool (*cut)(struct reader *, struct slot *) = in_memory                  ? cut_rows
                                                  : r->in.kind == WISP_PLAIN ? cut_plain
                                                                             : cut_packed;
    for (*n = 0; *n < r->n_slots && r->code == WISP_OK; ++*n)
        if (!cut(r, &r->slots[*n])) break;
    if (*n == 0) return WISP_OK;
    if (!in_memory) wisp_parallel_for(r->src->ctx ? r->src->ctx->pool : NULL, *n, scan, r);
    for (size_t i = 0; i < *n; i++) {
        struct slot *s = &r->slots[i];
        s->c.path = r->src->path;
        s->st = WISP_OK;
        wisp_builder_reset(&s->b);
        if (in_memory) continue;
        s->c.line = r->line;
        r->line += s->n_lines;
        end_before_nul(s);
    }
    wisp_status st = first ? first_line(r, &r->slots[0], err) : WISP_OK;
    if (st != WISP_OK) return st;
    wisp_parallel_for(r->src->ctx ? r->src->ctx->pool : NULL, *n, parse, r);
    for (size_t i = 0; i < *n && st == WISP_OK; i++) st = deliver(r, &r->slots[i], err);
    if (r->map.p && r->in.kind == WISP_PLAIN) /* pages of a file that need not stay */
        wisp_map_forget(&r->map, from, (size_t)(r->pos - from));
    return st;
}

static wisp_status open_reader(struct reader *r, wisp_error *err)
{
    wisp_status st = WISP_OK;
    const struct wisp_source *src = r->src;
    const unsigned char *bytes = (const unsigned char *)src->text;
    size_t n = src->text_bytes;
    if (!src->text && !src->rows) {
        st = wisp_map_open(&r->map, src->path, err);
        bytes = r->map.p;
        n = r->map.bytes;
    }
    if (st == WISP_OK) st = wisp_unpack_init(&r->in, bytes, n, err);
    if (st != WISP_OK) return st;
    r->pos = r->end = "";
    if (r->in.kind == WISP_PLAIN && n > 0) {
        r->pos = (const char *)bytes;
        r->end = r->pos + n;
    }
    r->line = 1;
    if (src->source_bytes) *src->source_bytes = n;

    r->n_slots = r->parser->only ? 1 : (size_t)wisp_pool_threads(src->ctx ? src->ctx->pool : NULL);
    size_t fit = src->o && src->o->memory ? src->o->memory / (4 * wisp_text_chunk) : r->n_slots;
    if (fit < r->n_slots) r->n_slots = fit ? fit : 1;
    r->slots = wisp_zalloc(r->n_slots, sizeof *r->slots);
    if (!r->slots) return wisp_fail_mem(err, r->n_slots * sizeof *r->slots, "pieces of text");
    for (size_t i = 0; i < r->n_slots && r->parser->local_bytes; i++)
        if (!(r->slots[i].local = wisp_zalloc(1, r->parser->local_bytes)))
            return wisp_fail_mem(err, r->parser->local_bytes, "a piece of text");
    return WISP_OK;
}

static wisp_status close_reader(struct reader *r, wisp_status st, wisp_error *err)
{
    for (size_t i = 0; r->slots && i < r->n_slots; i++) {
        struct slot *s = &r->slots[i];
        if (s->local && r->parser->clear) r->parser->clear(s->local);
        wisp_free(s->local);
        wisp_free(s->buf);
        wisp_builder_clear(&s->b);
    }
    wisp_free(r->slots);
    wisp_unpack_clear(&r->in);
    return wisp_map_end(&r->map, st, err);
}

wisp_status wisp_text_read(struct wisp_source *src, struct wisp_sink *sink,
                           const struct wisp_text_parser *parser, wisp_error *err)
{
    struct reader r = { .src = src, .sink = sink, .parser = parser };
    wisp_status st = open_reader(&r, err);
    for (size_t n = 1, round = 0; n > 0 && st == WISP_OK && !(parser->only && round); round++)
        st = one_round(&r, &n, err);
    if (st == WISP_OK && r.code != WISP_OK)
        st = wisp_fail_at(err, r.code, src->path, r.line, "%s", r.fault);
    return close_reader(&r, st, err);
}

wisp_status wisp_text_bytes(size_t *out, const struct wisp_source *src, wisp_error *err)
{
    struct wisp_map map = { 0 };
    wisp_status st = src->text ? WISP_OK : wisp_map_open(&map, src->path, err);
    const unsigned char *p = src->text ? (const unsigned char *)src->text : map.p;
    *out = src->text ? src->text_bytes : map.bytes;
    if (st == WISP_OK && wisp_unpack_kind(p, *out) != WISP_PLAIN) *out *= 8;
    return wisp_map_end(&map, st, err);
}

wisp_status wisp_text_head(char *head, size_t room, size_t *n, const unsigned char *bytes,
                           size_t n_bytes, const char *path, wisp_error *err)
{
    struct wisp_unpack in;
    wisp_status st = wisp_unpack_init(&in, bytes, n_bytes, err);
    *n = 0;
    if (st == WISP_OK) {
        *n = wisp_unpack(&in, head, room);
        if (*n == 0 && in.code != WISP_OK) st = wisp_fail_at(err, in.code, path, 0, "%s", in.fault);
        size_t bom = skip_bom(head, *n);
        memmove(head, head + bom, *n -= bom);
    }
    wisp_unpack_clear(&in);
    return st;
}

const char *wisp_text_excerpt(char buf[WISP_EXCERPT], const char *p, const char *end,
                              const char *stop)
{
    const char *q = p;
    while (q < end && *q != '\n' && *q != '\r' && !(stop && *q && strchr(stop, *q))) q++;
    return wisp_text_show(buf, p, (size_t)(q - p), WISP_EXCERPT_COLUMNS);
}
