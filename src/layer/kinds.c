/* The table of layer kinds, and what they share. */
#include "layer/layer.h"
#include "base/rand.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct wisp_layer_kind *const kinds[] = {
    &wisp_layer_input, &wisp_layer_dense, &wisp_layer_relu, &wisp_layer_dropout, &wisp_layer_output,
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const struct wisp_layer_kind *wisp_layer_kind_at(size_t i)
{
    return i < N_KINDS ? kinds[i] : NULL;
}

const struct wisp_layer_kind *wisp_layer_kind_find(const char *name)
{
    for (size_t i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    return NULL;
}

void wisp_layer_declare(struct wisp_layer *l, const char *what, size_t rows, size_t cols)
{
    assert(l->n_params < WISP_MAX_PARAMS);
    struct wisp_param *p = &l->params[l->n_params++];
    *p = (struct wisp_param){ .rows = rows, .cols = cols };
    snprintf(p->name, sizeof p->name, "%d.%s.%s", l->number, l->kind->name, what);
}

void wisp_param_normal(struct wisp_param *p, double deviation, uint64_t seed, int stream)
{
    for (size_t i = 0; i < p->rows * p->cols; i++)
        p->w[i] = (float)(deviation *
                          wisp_rand_normal(seed, WISP_STREAM_INIT + ((uint64_t)stream << 8), i));
}
