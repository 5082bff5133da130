/* Rows of text in memory, with labels by id: what programs hand over (wisp_data_from_text). */
#include "data/words.h"

static wisp_status parse(void *rows, struct wisp_words *w, const struct wisp_chunk *c, size_t *line,
                         wisp_error *err)
{
    const struct wisp_memory_rows *m = rows;
    wisp_status st = WISP_OK;
    for (size_t row = c->line - 1, end = row + c->n_rows; row < end && st == WISP_OK; row++) {
        st = wisp_words_text(w, m->text + m->start[row], m->start[row + 1] - m->start[row], err);
        for (int64_t e = m->y_ptr ? m->y_ptr[row] : 0;
             m->y_ptr && e < m->y_ptr[row + 1] && st == WISP_OK; e++)
            st = wisp_words_label_id(w, m->y_idx[e], err);
        if (st == WISP_OK) st = wisp_words_end(w, err);
        if (st == WISP_OK) ++*line;
    }
    return st;
}

static wisp_status memory_read(struct wisp_source *src, struct wisp_sink *sink, wisp_error *err)
{
    const struct wisp_words_format f = { .arg = (void *)src->rows, .parse = parse };
    wisp_sink_at_least(sink, 0, src->rows->n_labels);
    return wisp_words_read(src, sink, &f, err);
}

const struct wisp_format wisp_format_memory = {
    .name = "memory",
    .what = "texts handed over by a program",
    .index_base = -1,
    .words = true,
    .read = memory_read,
};
