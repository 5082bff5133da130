/* The answers of 'wisp predict': how many labels a row gets, and how they are printed. */
#ifndef WISP_CLI_ANSWERS_H
#define WISP_CLI_ANSWERS_H

#include "cli.h"

#include <stdbool.h>

enum { N_LEVELS = 3 };

struct answers {
    const struct args *args;
    wisp_context *ctx;
    const wisp_model *model;
    const struct form *form;
    FILE *to;
    double threshold; /* the lowest, where each label has its own */
    bool own;
    bool grows; /* as many labels as reach the threshold */
    bool cut;   /* a row had more than there is room for, and that was said */
    size_t row; /* rows answered */
    struct level {
        wisp_predictor *predictor; /* NULL: not needed so far */
        size_t rows, k;
        int32_t *labels; /* (rows, k) */
        float *scores;
    } levels[N_LEVELS];
};

/* Reads the options; returns 0, or the exit code after having said what is wrong. */
int answers_init(struct answers *s, const struct args *a);
/* Makes a predictor as the model is set, opens -o. */
wisp_status answers_open(struct answers *s, wisp_context *ctx, const wisp_model *m,
                         wisp_error *err);
/* Predicts and prints all rows. */
wisp_status answers_rows(struct answers *s, const wisp_data *d, wisp_error *err);
/* Gives 'st' on, unless -o turns out not to be written whole. */
wisp_status answers_close(struct answers *s, wisp_status st, wisp_error *err);

/* Answers the rows of stdin as they come (stdin.c).  n_unknown: values that the model does not know
 * are added to it. */
wisp_status answer_stdin(struct answers *answers, size_t *n_unknown, wisp_context *ctx,
                         const wisp_model *model, const wisp_config *cfg, wisp_error *err);

#endif
