/* What a running server consists of. */
#ifndef WISP_SERVE_SERVICE_H
#define WISP_SERVE_SERVICE_H

#include "serve/metrics.h"
#include "serve/predict.h"
#include "serve/serve.h"

struct service {
    const struct serve_call *call;
    struct http_server *http;
    struct models models;
    struct metrics metrics;
    struct queue *queue;
    size_t most_rows, most_queue;
    int64_t max_wait_us;              /* below 0: small requests are answered where they are read */
    _Atomic int64_t crowded_until_us; /* until then small requests are gathered, too */
    int threads;
    bool card; /* predicts on a card: by the queue alone */
};

/* Handlers; the route's arg is the service. */
void route_predict(struct http_request *r); /* POST /predict, /predict/<model> */
void route_models(struct http_request *r);  /* GET /models */
void route_v2(struct http_request *r);      /* GET /v2, /v2/models/M, /v2/models/M/ready */
void route_infer(struct http_request *r);   /* POST /v2/models/M/infer */
void route_annif(struct http_request *r);   /* GET, POST /v1/projects/..., as Annif has them */
void route_metrics(struct http_request *r);

#endif
