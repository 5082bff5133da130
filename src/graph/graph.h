/* What a network is, as plain data that both devices read: its parameters in one list.
 *
 * A layer declares its parameters when it is planned; whatever walks over parameters (optimiser,
 * model file, checkpoint, card, quantizing, averaging) is one loop over the list. */
#ifndef WISP_GRAPH_GRAPH_H
#define WISP_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WISP_MAX_RANK = 4, WISP_PARAM_NAME = 58 };

enum wisp_role {               /* of a parameter */
                 WISP_TRAINED, /* moved by the optimiser */
                 WISP_STATE,   /* numbers that the layer keeps itself, such as running means */
                 WISP_FIXED    /* ids of fixed connections */
};
enum wisp_by { /* what the first dimension counts: where it may grow */
               WISP_BY_NONE,
               WISP_BY_FEATURE,
               WISP_BY_LABEL
};

struct wisp_param {
    size_t rows, cols; /* dim[0], and the product of the others: an update moves a row */
    /* (rows, cols) one of: */
    float *w;
    uint16_t *b16;
    int8_t *i8;   /* only in a model to predict with: */
    float *scale; /* (rows) a weight is i8 * scale of its row */
    int32_t *ids; /* of WISP_FIXED: ascending within a row, none twice, ... */
    size_t below; /* ... and below this */
    /* optimiser state, whatever of it the optimiser asks for; only WISP_TRAINED has some */
    float *m, *v;        /* (rows, cols) running means of the gradient and its square, or */
    uint16_t *m16, *v16; /* (rows, cols) the same in bf16 */
    float *g2;           /* (rows) running sum of the mean squared gradient */
    uint32_t *count;     /* (rows) updates so far: each row has its own clock */
    size_t old; /* its first rows, which are those of the model that the run goes on from */
    enum wisp_role role;
    enum wisp_by by;
    bool narrow; /* the layer reads its rows by wisp_weights: they may be bf16 or int8 */
    bool half;   /* rows of bf16 while training */
    int layer;   /* whose it is */
    int rank;
    size_t dim[WISP_MAX_RANK];    /* as in the model file */
    size_t first_row, total_rows; /* of all processes; 0 and 'rows' where there is one */
    char name[WISP_PARAM_NAME];
};

/* Numbers in all. */
static inline size_t wisp_param_n(const struct wisp_param *p)
{
    return p->rows * p->cols;
}

struct wisp_params { /* of a net, in the order of their declaration */
    struct wisp_param *p;
    size_t n, cap;
    bool full;              /* out of memory: asked for once, when the list is whole */
    struct wisp_param none; /* where a declaration goes then */
};
/* The next one, all zero but for its sizes; valid until the one after it is declared. */
struct wisp_param *wisp_params_add(struct wisp_params *list, int rank, const size_t *dim);
void wisp_params_clear(struct wisp_params *list);

#endif
