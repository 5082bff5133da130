/* Rows that wait to be predicted together.
 *
 * One thread takes what has gathered: the first request and all others of the same model and
 * settings, 256 rows or a little more, which one call of the library predicts with all cores.  While
 * it does, the next ones gather.  With --max-wait it waits that long for more before it begins. */
#include "serve/part.h"
#include "serve/service.h"

#include <stdlib.h>
#include <time.h>

enum { BATCH_ROWS = 256 };

struct queue {
    struct service *s;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t come;
    struct job *first, **last;
    _Atomic size_t n_rows; /* that wait */
    atomic_size_t n_slow;  /* jobs that are not quick, and wait or are being predicted */
    bool ending;
    atomic_bool given_up;
    struct desk *desk; /* of the model that was used last; it holds that one */
};

size_t queue_rows(const struct queue *q)
{
    return q->n_rows;
}

bool queue_is_slow(const struct queue *q)
{
    return q->n_slow > 0;
}

bool queue_put(struct queue *q, struct job *j)
{
    const size_t n = j->q.n_rows;
    if (q->n_rows + n > q->s->most_queue && q->n_rows > 0) return false;
    j->since_us = http_now_us();
    j->next = NULL;
    q->n_slow += !j->quick;
    http_later(j->r);
    pthread_mutex_lock(&q->lock);
    *q->last = j;
    q->last = &j->next;
    q->n_rows += n;
    pthread_cond_signal(&q->come);
    pthread_mutex_unlock(&q->lock);
    return true;
}

static bool go_together(const struct job *a, const struct job *b)
{
    return a->s == b->s && a->q.kind == b->q.kind && a->how.inference == b->how.inference &&
           a->how.scores == b->how.scores && job_level(a) == job_level(b) &&
           !a->how.explain == !b->how.explain;
}

/* Takes the first job and those that go with it out of the queue. */
static struct job *take(struct queue *q, size_t *n_rows)
{
    struct job *first = q->first, **end = &first->next;
    q->first = first->next;
    *n_rows = first->q.n_rows;
    for (struct job **at = &q->first; *at && *n_rows < BATCH_ROWS;) {
        struct job *j = *at;
        if (!go_together(first, j)) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        *end = j;
        end = &j->next;
        *n_rows += j->q.n_rows;
    }
    *end = NULL;
    q->last = &q->first;
    while (*q->last) q->last = &(*q->last)->next;
    q->n_rows -= *n_rows;
    return first;
}

/* Waits for one job, and then for more of them, as long as the first one may wait. */
static bool wait_for(struct queue *q)
{
    while (!q->first && !q->ending) pthread_cond_wait(&q->come, &q->lock);
    if (!q->first) return false;
    const int64_t until = q->first->since_us + q->s->max_wait_us;
    while (q->s->max_wait_us > 0 && q->n_rows < BATCH_ROWS && http_now_us() < until && !q->ending) {
        const struct timespec t = { .tv_sec = until / 1000000, .tv_nsec = until % 1000000 * 1000 };
        pthread_cond_timedwait(&q->come, &q->lock, &t);
    }
    return true;
}

static void drop_desk(struct queue *q)
{
    struct served *of = q->desk ? q->desk->of : NULL;
    desk_free(q->desk);
    served_free(of);
    q->desk = NULL;
}

static wisp_status use_desk(struct queue *q, struct served *of, wisp_error *err)
{
    if (q->desk && q->desk->of == of) return WISP_OK;
    drop_desk(q);
    const wisp_status st = desk_make(&q->desk, of, q->s->threads, err);
    if (st == WISP_OK) atomic_fetch_add(&of->refs, 1);
    return st;
}

static void *work(void *arg)
{
    struct queue *q = arg;
    pthread_mutex_lock(&q->lock);
    while (wait_for(q)) {
        size_t n_rows;
        wisp_error err = { 0 };
        struct job *first = take(q, &n_rows), *next;
        pthread_mutex_unlock(&q->lock);
        const wisp_status st = q->given_up ? http_refuse(&err, WISP_ENOMEM, "the server is ending")
                                           : use_desk(q, first->s, &err);
        if (st == WISP_OK) predict_batch(q->s, q->desk, first, n_rows);
        for (struct job *j = first; j; j = next) {
            next = j->next;
            struct http_request *r = j->r;
            if (st != WISP_OK) job_fail(j, &err);
            q->n_slow -= !j->quick;
            job_free(j);
            http_done(r);
        }
        pthread_mutex_lock(&q->lock);
        /* An old model goes as soon as nobody asks for it. */
        if (q->desk && !q->first && atomic_load(&q->desk->of->refs) == 1) drop_desk(q);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

wisp_status queue_open(struct queue **out, struct service *s, wisp_error *err)
{
    struct queue *q = calloc(1, sizeof *q);
    pthread_condattr_t clock;
    *out = NULL;
    if (!q) return http_refuse(err, WISP_ENOMEM, "out of memory for a queue");
    q->s = s;
    q->last = &q->first;
    pthread_mutex_init(&q->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&q->come, &clock);
    pthread_condattr_destroy(&clock);
    if (pthread_create(&q->thread, NULL, work, q) == 0) {
        *out = q;
        return WISP_OK;
    }
    free(q);
    return http_refuse(err, WISP_ENOMEM, "no thread for predictions");
}

void queue_give_up(struct queue *q)
{
    q->given_up = true;
}

void queue_close(struct queue *q)
{
    if (!q) return;
    pthread_mutex_lock(&q->lock);
    q->ending = true;
    pthread_cond_signal(&q->come);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->thread, NULL);
    drop_desk(q);
    pthread_cond_destroy(&q->come);
    pthread_mutex_destroy(&q->lock);
    free(q);
}
