/* Logs of training runs ('wisp train --log'): JSON lines, one per epoch (docs/report.md).
 *
 * A log may be cut, be written by another version, hold several runs ('wisp prune', or files that were
 * joined) or a run that was resumed.  What it does not say is NAN or absent; what was left out of it
 * is said in the notes of its runs.  Only a file without a single epoch is an error. */
#ifndef WISP_REPORT_LOG_H
#define WISP_REPORT_LOG_H

#include "base/error.h"

#include <stdbool.h>

enum wisp_figure { /* of an epoch; NAN where the log does not say */
                   WISP_FIGURE_LOSS,
                   WISP_FIGURE_VALID_LOSS,
                   WISP_FIGURE_P1, /* percent */
                   WISP_FIGURE_P3,
                   WISP_FIGURE_P5,
                   WISP_FIGURE_RATE, /* rows per second, since the run began or was resumed */
                   WISP_FIGURE_ACTIVE,
                   WISP_FIGURE_SCORED,
                   WISP_FIGURE_RECALL, /* percent */
                   WISP_FIGURE_LR,
                   WISP_FIGURE_TRAIN_S, /* from the beginning, pauses of a resumed run left out */
                   WISP_FIGURE_SECONDS,
                   WISP_FIGURE_PEAK, /* bytes */
                   WISP_N_FIGURES
};

struct wisp_log_epoch {
    int epoch; /* from 1, ascending within a run */
    bool best; /* its model is the one that was kept */
    double at[WISP_N_FIGURES];
    float *zeros; /* (n_layers of the run when the line was read) shares; the rest is NAN */
    size_t n_zeros;
};

struct wisp_log_fact { /* what a run says of itself: an option, or what was chosen */
    char *key, *value;
};

struct wisp_log_run {
    char *name; /* of its file, with a number where that has several runs */
    int epochs; /* planned */
    bool ended; /* the log has its last line */
    size_t n, n_facts, n_layers, n_notes;
    struct wisp_log_epoch *epoch; /* (n), at least one */
    struct wisp_log_fact *fact;   /* (n_facts), 0: the log does not say */
    char **layer;                 /* (n_layers) whose zeros were counted */
    char **note;                  /* (n_notes) what is missing, one sentence each */
    size_t cap, cap_facts, cap_layers, cap_notes;
};

enum {
    WISP_MOST_RUNS = 64,
    WISP_MOST_EPOCHS = 100000, /* of a run; the option's own bound */
    WISP_MOST_FACTS = 300,
    WISP_MOST_LAYERS = 256,
    WISP_MOST_LOG_BYTES = 64 << 20
};

struct wisp_logs {
    size_t n;
    struct wisp_log_run run[WISP_MOST_RUNS];
};

/* Adds the runs of a file to those that are there; on failure some of them may have been added, and
 * whoever made the list clears it. */
wisp_status wisp_logs_read(struct wisp_logs *to, const char *path, wisp_error *err);
void wisp_logs_clear(struct wisp_logs *logs);

/* The value of a fact; NULL: the run does not say. */
const char *wisp_log_fact(const struct wisp_log_run *r, const char *key);
/* How it stands, in a word or two: "finished", "ended early", "not finished". */
const char *wisp_log_state(const struct wisp_log_run *r);
/* The epoch that was kept, else the last one. */
const struct wisp_log_epoch *wisp_log_best(const struct wisp_log_run *r);
static inline const struct wisp_log_epoch *wisp_log_end(const struct wisp_log_run *r)
{
    return &r->epoch[r->n - 1];
}

#endif
