/* Rows to labels: requests that are answered at once, and those that wait to go together. */
#ifndef WISP_SERVE_PREDICT_H
#define WISP_SERVE_PREDICT_H

#include "serve/http.h"
#include "serve/models.h"

struct service;

/* Writes the answer of one request from the labels of its rows; forms of answers differ by it. */
struct form;
struct job;

/* One row's labels, best first; n of them reach what was asked for. */
struct best {
    const int32_t *labels;
    const float *scores;
    size_t n;
    struct reasons *why; /* NULL: not asked for */
};
/* Why a label of this row has its score, until the next call; NULL: it cannot be said. */
const wisp_explanation *best_explain(const struct best *b, int32_t label);

struct form {
    void (*begin)(struct text *t, const struct job *j);
    void (*row)(struct text *t, const struct job *j, size_t row, const struct best *b);
    void (*end)(struct text *t, const struct job *j);
    void (*clear)(struct job *j); /* what it has beside the job; NULL: nothing */
};

struct job { /* a request that is being answered */
    struct http_request *r;
    struct request q;
    struct how how; /* all said */
    struct served *s;
    const struct form *form;
    bool grows; /* as many labels as reach the threshold */
    bool quick; /* costs little: need not wait for others */
    struct job *next;
    int64_t since_us;
};

/* Takes over the job (allocated by malloc, with its request read): resolves its rows, predicts them
 * now or later, and answers. */
void predict_job(struct service *s, struct job *j);
/* bytes: of the job, or of a struct that begins with it.  NULL: answered with 503. */
struct job *job_make(struct http_request *r, const struct form *form, size_t bytes);
void job_free(struct job *j);
void job_fail(struct job *j, const wisp_error *err);
/* Finds the model, settles how; false: answered with an error. */
bool job_settle(struct service *s, struct job *j);

/* Predicts rows of several jobs of the same settings with one desk and writes their answers; the
 * jobs stay the caller's. */
void predict_batch(struct service *s, struct desk *d, struct job *first, size_t n_rows);
int job_level(const struct job *j);

/* The gathering of rows (queue.c). */
struct queue;
wisp_status queue_open(struct queue **out, struct service *s, wisp_error *err);
void queue_close(struct queue *q);
bool queue_put(struct queue *q, struct job *j); /* false: it is full */
size_t queue_rows(const struct queue *q);
bool queue_is_slow(const struct queue *q); /* does it have jobs that are not quick? */
void queue_give_up(struct queue *q);       /* what waits is answered with 503 */

#endif
