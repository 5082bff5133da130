/* 'wisp eval --per-label': one line for each label. */
#ifndef WISP_API_LABEL_TABLE_H
#define WISP_API_LABEL_TABLE_H

#include "model/decide.h"
#include "model/model.h"

/* Labels of a row that eval looks at, the best ones: so many that a decision misses none, and with
 * 'all' enough for average precision. */
enum { WISP_TABLE_PLACES = 1000 };
static inline size_t wisp_eval_places(size_t n_labels, bool all)
{
    const size_t most = all ? WISP_TABLE_PLACES : WISP_DECIDE_PLACES;
    return n_labels < most ? n_labels : most;
}

/* Writes label, training rows, rows that have it, rows that get it, precision, recall, F1 and average
 * precision (percent), with tabs between and a line of titles; labels in the order of their ids.
 * Sorts the guesses. */
wisp_status wisp_label_table(const char *path, const struct wisp_model *m,
                             const struct wisp_decisions *of, struct wisp_guesses *g,
                             wisp_error *err);

#endif
