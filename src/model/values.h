/* How the values of a row reach the network; part of the model. */
#ifndef WISP_MODEL_VALUES_H
#define WISP_MODEL_VALUES_H

#include "base/text.h"
#include "data/data.h"

enum wisp_values_mode {
    WISP_VALUES_TFIDF,
    WISP_VALUES_UNIT,
    WISP_VALUES_RAW,
    WISP_VALUES_STANDARD,
    WISP_N_VALUES
};

struct wisp_values {
    enum wisp_values_mode mode;
    const float *idf;          /* (n_features), mode tfidf only */
    const float *mean, *scale; /* (n_features), mode standard only: x becomes (x - mean) * scale;
                                  scale 0: the column is left out */
};
const struct wisp_word *wisp_values_at(size_t i); /* NULL past the end */
const char *wisp_values_name(enum wisp_values_mode mode);
bool wisp_values_find(enum wisp_values_mode *out, const char *name);
/* What suits the data, and why: a phrase for the plan (WISP_VALUES_WHY bytes). */
enum { WISP_VALUES_WHY = 100 };
enum wisp_values_mode wisp_values_choose(char *why, const struct wisp_data *d);
/* idf[f] = log(N / rows with f); features never seen get 0: they say nothing. */
void wisp_values_idf(float *idf, const struct wisp_data *d);
/* The mean of each column, and one over its standard deviation: of all rows, with the zeros that
 * are not stored.  Columns with a single value have scale 0. */
wisp_status wisp_values_columns(float *mean, float *scale, const struct wisp_data *d,
                                wisp_error *err);
/* A row in mode standard: the columns (xi) and values (xv) of all that count, at most n_features;
 * returns how many.  No value is farther from 0 than 10 deviations: a column that is nearly always
 * the same must not drown all others in the row where it is not. */
uint32_t wisp_values_fill(int32_t *xi, float *xv, const struct wisp_rows *r, size_t row,
                          size_t n_features, const struct wisp_values *v);
/* The rows of d as the network is to see them in mode standard, in memory: for whoever takes them
 * raw. */
wisp_status wisp_values_standardise(struct wisp_data **out, const struct wisp_data *d,
                                    size_t n_features, const struct wisp_values *v,
                                    wisp_error *err);

#endif
