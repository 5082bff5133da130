/* A model in memory with errors (inject.h): where its numbers lie, how well it predicts then, and what
 * is left of it in a file. */
#ifndef WISP_MODEL_FAULTY_H
#define WISP_MODEL_FAULTY_H

#include "model/inject.h"
#include "model/model.h"

enum { WISP_IN_WEIGHTS = 1, WISP_IN_VALUES = 2 };

struct wisp_place {             /* numbers that lie together: a parameter, or a value of each row */
    char name[WISP_PARAM_NAME]; /* "1.dense.weight", "2.relu" */
    int param, layer;           /* its number; -1: it is the value that this layer gives */
    size_t numbers;             /* of a value those of a row */
    float largest;              /* of a value, over the rows that were looked at */
};

struct wisp_faulty {
    struct wisp_context *ctx;
    const struct wisp_model *m;
    size_t n;
    struct wisp_place *places; /* (n) weights, then values */
    int *of_layer;             /* (layers) the place of what it gives; -1: it has none */
};
/* in: WISP_IN_*; layers: names with commas between, "": all matrices of weights, all values. */
wisp_status wisp_faulty_make(struct wisp_faulty *f, struct wisp_context *ctx,
                             const struct wisp_model *m, unsigned in, const char *layers,
                             wisp_error *err);
void wisp_faulty_clear(struct wisp_faulty *f);
static inline bool wisp_place_is_value(const struct wisp_place *p)
{
    return p->param < 0;
}
/* The type that a place is kept in where 'wanted' is asked for. */
enum wisp_memory wisp_place_memory(const struct wisp_faulty *f, size_t i, enum wisp_memory wanted);

struct wisp_damage {
    double p1;       /* percent; a row without an answer has none right */
    size_t bits;     /* that were wrong */
    size_t odd;      /* weights that are infinite or nan */
    size_t rows_odd; /* rows whose scores are not numbers: prediction refuses to answer them */
};
/* P@1 of the rows without errors; the ranges of values are those of these rows. */
wisp_status wisp_faulty_look(double *p1, struct wisp_faulty *f, const struct wisp_data *d,
                             wisp_error *err);
/* The same with errors, at rates[i] in place i; e->rate does not count. */
wisp_status wisp_faulty_measure(struct wisp_damage *out, const struct wisp_faulty *f,
                                const double *rates, const struct wisp_errors *e,
                                const struct wisp_data *d, wisp_error *err);
/* The model with errors in its weights, as a file that says so.  WISP_ENUMERIC: it would have numbers
 * that are none. */
wisp_status wisp_faulty_write(struct wisp_damage *out, const struct wisp_faulty *f,
                              const double *rates, const struct wisp_errors *e, const char *path,
                              wisp_error *err);

#endif
