/* A predictor's inside, for benchmarks. */
#ifndef WISP_API_PREDICTOR_H
#define WISP_API_PREDICTOR_H

#include "model/model.h"

struct wisp_predictor {
    struct wisp_scorer scorer;
    const struct wisp_calibration *map; /* NULL: scores are handed out raw */
    size_t k; /* as asked for; the scorer's is cut to the number of labels */
};

#endif
