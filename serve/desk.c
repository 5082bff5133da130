/* Desks: what a thread needs to predict with a model, made once and used again. */
#include "serve/models.h"
#include "serve/part.h"

#include <stdlib.h>

const size_t level_k[N_LEVELS] = { 10, 100, 1000, WISP_MOST_K };

wisp_status desk_make(struct desk **out, struct served *of, int threads, wisp_error *err)
{
    struct desk *d = calloc(1, sizeof *d);
    *out = NULL;
    if (!d) return http_refuse(err, WISP_ENOMEM, "out of memory for predictions");
    d->of = of;
    const wisp_status st = wisp_context_create(&d->ctx, threads, err);
    if (st == WISP_OK) *out = d;
    else desk_free(d);
    return st;
}

void desk_free(struct desk *d)
{
    if (!d) return;
    for (int i = 0; i < 4 * N_LEVELS; i++) wisp_predictor_free(d->p[i / 2 % 2][i % 2][i / 4]);
    wisp_context_free(d->ctx);
    free(d->labels);
    free(d->scores);
    free(d);
}

struct desk *desk_take(struct served *s, wisp_error *err)
{
    pthread_mutex_lock(&s->lock);
    struct desk *d = s->idle;
    if (d) s->idle = d->next;
    pthread_mutex_unlock(&s->lock);
    if (!d) desk_make(&d, s, 1, err);
    return d;
}

void desk_put(struct desk *d)
{
    struct served *s = d->of;
    pthread_mutex_lock(&s->lock);
    d->next = s->idle;
    s->idle = d;
    pthread_mutex_unlock(&s->lock);
}

wisp_status desk_ready(wisp_predictor **p, struct desk *d, const struct models *s,
                       const struct how *how, int level, size_t n, wisp_error *err)
{
    const int sparse = how->inference == 1, raw = how->scores == 1;
    wisp_predictor **at = &d->p[sparse][raw][level];
    const size_t places = n * level_k[level];
    if (!*at) {
        const wisp_status st =
            wisp_predictor_create(at, d->ctx, d->of->m, s->cfg[sparse][raw], level_k[level], err);
        if (st != WISP_OK) return st;
    }
    *p = *at;
    if (places <= d->room) return WISP_OK;
    int32_t *labels = realloc(d->labels, places * sizeof *labels);
    if (labels) d->labels = labels;
    float *scores = realloc(d->scores, places * sizeof *scores);
    if (scores) d->scores = scores;
    if (!labels || !scores) return http_refuse(err, WISP_ENOMEM, "out of memory for predictions");
    d->room = places;
    return WISP_OK;
}
