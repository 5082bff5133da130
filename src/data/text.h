/* clang-format off */
/* Reading text: plain, gzip or zstd (told apart by their first bytes), cut into chunks of whole
 * lines that are parsed in parallel and arrive in order.
 *
 *   bytes --unpack--> chunks of ~4 MiB --parse, a thread each--> builders --merge, in order--> sink
 *
 * A round holds one chunk per thread, so memory does not depend on the size of the file.  The text
 * is cut at the same places whatever the number of threads, and of several errors the one
 * on the earliest line is reported. */
/* clang-format on */
#ifndef WISP_DATA_TEXT_H
#define WISP_DATA_TEXT_H

#include "data/data.h"
#include "base/text.h"

struct wisp_chunk {
    const char *path;        /* for messages */
    const char *begin, *end; /* whole lines: end[-1] is '\n', also at the end of the text; of rows
                                in memory: their texts */
    size_t line;             /* number of the first line (of rows in memory: row), from 1 */
    size_t n_rows;           /* of rows in memory */
};

struct wisp_text_parser {
    void *arg;
    /* Sees the first line (without its end; a BOM is skipped) before any chunk is parsed, in the
     * caller's thread.  Setting *taken keeps it from the rows.  NULL: no such line.  Not called for
     * an empty text. */
    wisp_status (*first)(void *arg, const char *begin, const char *end, bool *taken,
                         wisp_error *err);
    /* The end of the last whole row of a piece of text that begins with a row, NULL: there is none.
     * No function: a row is a line. */
    const char *(*cut)(void *arg, const char *begin, const char *end);
    /* Lines to rows; runs in several threads at once.  'out' is empty.  Lines end in "\n" or "\r\n"
     * and hold no NUL.  'local' is this chunk's state: local_bytes, zero when it is first used;
     * later chunks find what an earlier one left there. */
    wisp_status (*parse)(void *arg, const struct wisp_chunk *c, struct wisp_builder *out,
                         void *local, wisp_error *err);
    /* After parse, one chunk after the other in the order of the text, in the caller's thread; then
     * 'out' goes to the sink.  NULL: nothing to do. */
    wisp_status (*merge)(void *arg, const struct wisp_chunk *c, struct wisp_builder *out,
                         void *local, wisp_error *err);
    void (*clear)(void *local); /* frees what 'local' owns, at the end; NULL: nothing */
    size_t local_bytes;
    size_t only; /* about so many bytes from the beginning are read, as one chunk; 0: everything */
};

/* Reads src->text, or else the file src->path, and sets *src->source_bytes (if not NULL). */
wisp_status wisp_text_read(struct wisp_source *src, struct wisp_sink *sink,
                           const struct wisp_text_parser *parser, wisp_error *err);

/* How many bytes of text src has; of packed text, which may be longer, eight times its own. */
wisp_status wisp_text_bytes(size_t *out, const struct wisp_source *src, wisp_error *err);

/* The first unpacked bytes, at most 'room'; *n how many.  For probing. */
wisp_status wisp_text_head(char *head, size_t room, size_t *n, const unsigned char *bytes,
                           size_t n_bytes, const char *path, wisp_error *err);

/* Writes a piece of text for a message (wisp_text_show): up to 40 columns of the line from p, ending
 * before 'stop' characters (a blank, for one token; NULL: the rest of the line).  Returns buf. */
enum { WISP_EXCERPT_COLUMNS = 40, WISP_EXCERPT = WISP_SHOW_BYTES(WISP_EXCERPT_COLUMNS) };
const char *wisp_text_excerpt(char buf[WISP_EXCERPT], const char *p, const char *end,
                              const char *stop);

/* Sizes, variable so that tests can hit every boundary. */
extern size_t wisp_text_chunk;    /* 4 MiB */
extern size_t wisp_lines_read;    /* 1 MiB: bytes of one read from a descriptor */
extern size_t wisp_text_line_max; /* 1 GiB: a longer line is an error */

#endif
