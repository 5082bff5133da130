/* Linear models: one weight vector per label over the features, most of it zero.
 *
 * A label's score is  bias + sum over the row's features of value * weight.  Its weights minimise
 *
 *     |w|^2 / 2 + bias^2 / 2 + sum over its rows of cost_i * loss(sign_i * score_i)
 *
 * where the rows are those that have the label (sign 1) and its negatives (sign -1): all other rows
 * where labels are few, else those that the votes of their features take for rows of this label
 * (negatives.c).  A model that goes on from another one has  |w - w_old|^2 / 2  in place of
 * |w|^2 / 2.  The minimum is found by dual coordinate descent (solve.c); weights near 0 are
 * dropped afterwards.  Nothing here knows files, options or data sets: rows come as arrays. */
#ifndef WISP_LINEAR_LINEAR_H
#define WISP_LINEAR_LINEAR_H

#include "base/context.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- the model ---- */

/* Where all labels are scored, the weights lie in lists by feature, and a row reads those of its
 * features alone.  Where a few candidates are, they lie by label, and a row's features are looked up
 * in the list of each candidate. */
struct wisp_linear {
    size_t n_features, n_labels;
    bool by_feature; /* lists are those of features and name labels; else the other way round */
    const int64_t *start; /* (lists + 1) */
    const int32_t *id;    /* (start[lists]) ascending within a list */
    /* the weights (start[lists]) in one of three types: what is not NULL */
    const float *f32;
    const uint16_t *b16;
    const int8_t *i8;
    const float *scale; /* (lists) of i8 */
    const float *bias;  /* (n_labels) */
    /* (n_features) of lists by label: where in a list a feature is on average, 0 .. 1; NULL: not known,
     * which takes longer */
    const float *places;
    bool owned; /* start, id, f32 and bias are its own; else they lie in a file */
};
void wisp_linear_clear(struct wisp_linear *m);
static inline size_t wisp_linear_lists(const struct wisp_linear *m)
{
    return m->by_feature ? m->n_features : m->n_labels;
}
static inline size_t wisp_linear_weights(const struct wisp_linear *m)
{
    return (size_t)m->start[wisp_linear_lists(m)];
}

/* ---- scoring (score.c) ---- */

/* The scores of all labels of one row, from lists by feature: z (n_labels). */
void wisp_linear_all(float *z, const struct wisp_linear *m, const int32_t *xi, const float *xv,
                     size_t nnz);
/* The scores of n labels of one row, whose features ascend. */
void wisp_linear_some(float *z, const struct wisp_linear *m, const int32_t *xi, const float *xv,
                      size_t nnz, const int32_t *labels, size_t n);
/* Fills in what 'places' of a model may point at. */
void wisp_linear_places(float *out, const struct wisp_linear *m);
/* The weight of a feature for a label: 0 where it has none. */
float wisp_linear_weight(const struct wisp_linear *m, size_t feature, size_t label);
/* The weight at a place of a list, whatever its type. */
float wisp_linear_weight_at(const struct wisp_linear *m, size_t list, size_t at);

/* ---- rows to train on, and what is asked of training ---- */

struct wisp_linear_entry { /* one feature of a row */
    int32_t id;
    float x;
};

struct wisp_linear_rows {
    size_t n_rows, n_features, n_labels;
    const size_t *xp;                  /* (n_rows + 1) features of row i: xp[i] .. xp[i + 1] */
    const struct wisp_linear_entry *x; /* (xp[n_rows]) ids ascend within a row */
    const float *square;               /* (n_rows) squared length of the row and its constant 1 */
    const size_t *yp;                  /* (n_rows + 1) labels of row i */
    const int32_t *yi;
    const size_t *lp; /* (n_labels + 1) rows of label l, ascending */
    const uint32_t *lr;
    const float *weight; /* (n_rows) what a row counts for; NULL: all 1 */
};

/* A loss as its dual sees it.  A dual variable lies between 0 and 'most' times the cost, and
 * 'ridge' / cost is added to the diagonal of the dual's matrix. */
struct wisp_linear_loss {
    const char *name, *what;
    double ridge, most;
    /* The loss of a row with cost 1, and the term of its dual variable in the dual. */
    double (*primal)(double margin);
    double (*dual)(double a);
    /* Where ridge and most do not say it all: the dual variable that is best while all others stay,
     * from its value 'a', the margin and the square of the row's length; cost 1. */
    double (*step)(double a, double margin, double square);
};
const struct wisp_linear_loss *wisp_linear_loss_at(size_t i); /* NULL past the end */
const struct wisp_linear_loss *wisp_linear_loss_find(const char *name);

struct wisp_linear_how {
    const struct wisp_linear_loss *loss;
    float cost;      /* C: of a row whose weight is 1 */
    float precision; /* when to stop: the spread of the projected gradient */
    int passes;      /* at most */
    float drop;      /* weights nearer to 0 are dropped */
    float old_pace;  /* labels that go on from old weights: what multiplies their cost */
    uint64_t seed;
};

/* ---- one problem (solve.c) ---- */

struct wisp_linear_problem {
    size_t n, n_features;
    const size_t *xp; /* (n + 1) */
    const struct wisp_linear_entry *x;
    const float *square; /* (n) squared length of the row and its constant 1 */
    const int8_t *sign;  /* (n) 1 or -1 */
    const float *cost;   /* (n) */
    float *a;            /* (n) the dual variables; cleared by the caller, or a first guess */
    /* (n_features) the weights to stay near to, plus what follows from the dual variables */
    float *w;
    float bias;        /* the same */
    double old_length; /* half of the squared length of the weights and the bias to stay near to */
    uint32_t *order;   /* (n) room */
    uint64_t visits;   /* of rows, as an account */
    double reached;    /* the value of the dual: the minimum is not below it */
};
void wisp_linear_solve(struct wisp_linear_problem *p, const struct wisp_linear_how *how,
                       uint64_t stream);

/* ---- negatives by votes (negatives.c) ---- */

struct wisp_votes; /* hash/votes.h */

struct wisp_negatives_how {
    size_t always; /* a row is a negative of so many labels that it has most votes for, ... */
    size_t up_to;  /* ... and of a share of those behind them, up to this place, ... */
    double share;  /* ... whose cost is divided by the share */
    size_t random; /* rows drawn for every label besides */
};
struct wisp_negatives {
    struct wisp_negatives_how how;
    size_t each;     /* room of a row */
    uint32_t *label; /* (n_rows, each) labels, WISP_TAIL set in those of the share; ended by
                        WISP_NO_LABEL */
    size_t *count;   /* (n_labels) rows that are negatives of each */
};
#define WISP_TAIL     0x80000000u
#define WISP_NO_LABEL 0xffffffffu
size_t wisp_negatives_each(const struct wisp_negatives_how *how);
/* factor (n_labels): what votes for a label are multiplied by. */
wisp_status wisp_negatives_find(struct wisp_negatives *out, struct wisp_context *ctx,
                                const struct wisp_linear_rows *rows, const struct wisp_votes *votes,
                                const float *factor, const struct wisp_negatives_how *how,
                                uint64_t seed, wisp_error *err);
void wisp_negatives_clear(struct wisp_negatives *n);
/* What votes for a label are multiplied by where so many training rows have it. */
float wisp_negatives_factor(int64_t rows);

/* ---- training (train.c; lists.c) ---- */

/* Weights of the labels that are done, in lists by label; they grow. */
struct wisp_linear_done {
    size_t n_labels; /* done so far */
    size_t n, cap;   /* weights */
    int64_t *start;  /* (all labels + 1) */
    int32_t *id;
    float *weight;
    float *bias;      /* (all labels) */
    double objective; /* summed over these labels: what their duals have reached */
};

/* The weights of a model in lists by label; 'out' is made here and cleared by
 * wisp_linear_done_clear. */
wisp_status wisp_linear_by_label(struct wisp_linear_done *out, const struct wisp_linear *m,
                                 wisp_error *err);

struct wisp_linear_trainer;
/* negatives NULL: all rows that do not have a label are.  old NULL: nothing was learnt before; else
 * labels stay near to their weights in it, as far as their rows let them, and those without rows keep
 * them.  Everything is borrowed.  What is done already may be there. */
wisp_status wisp_linear_trainer_make(struct wisp_linear_trainer **out, struct wisp_context *ctx,
                                     const struct wisp_linear_rows *rows,
                                     const struct wisp_negatives *negatives,
                                     const struct wisp_linear_how *how,
                                     const struct wisp_linear_done *old,
                                     struct wisp_linear_done *done, wisp_error *err);
void wisp_linear_trainer_free(struct wisp_linear_trainer *t);
size_t wisp_linear_filed_bytes(void); /* of negatives that it files by label, at most about */
/* The next labels, up to about a second of work.  A label's weights depend on the label and the seed
 * alone. */
wisp_status wisp_linear_train_some(struct wisp_linear_trainer *t, wisp_error *err);
uint64_t wisp_linear_visits(const struct wisp_linear_trainer *t); /* so far, as an account */
wisp_status wisp_linear_done_init(struct wisp_linear_done *d, size_t n_labels, wisp_error *err);
void wisp_linear_done_clear(struct wisp_linear_done *d);
/* The same weights in lists by feature: start (n_features + 1), id and weight (d->n). */
void wisp_linear_by_feature(int64_t *start, int32_t *id, float *weight,
                            const struct wisp_linear_done *d, size_t n_features);

#endif
