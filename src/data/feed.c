/* Blocks of rows built in parallel, handed to the sink in order. */
#include "data/feed.h"
#include "base/mem.h"

struct round { /* blocks that are under way */
    const struct wisp_feed *f;
    struct wisp_feed_job *jobs;
};

static void feed_block(void *arg, size_t number, int thread)
{
    (void)thread;
    const struct round *r = arg;
    struct wisp_feed_job *j = &r->jobs[number];
    wisp_builder_reset(&j->b);
    j->err.code = WISP_OK;
    wisp_status st = WISP_OK;
    for (size_t row = j->first; row < j->first + j->n_rows && st == WISP_OK; row++)
        st = r->f->row(r->f->arg, j, row);
    j->err.code = st;
}

wisp_status wisp_feed_all(const struct wisp_feed *f, struct wisp_source *src,
                          struct wisp_sink *sink, wisp_error *err)
{
    struct wisp_pool *pool = src->ctx ? src->ctx->pool : NULL;
    size_t n_jobs = (size_t)wisp_pool_threads(pool), n;
    struct round r = { f, wisp_zalloc(n_jobs, sizeof *r.jobs) };
    if (!r.jobs) return wisp_fail_mem(err, n_jobs * sizeof *r.jobs, "blocks being read");
    wisp_status st = WISP_OK;
    for (size_t row = 0; row < f->n_rows && st == WISP_OK;) {
        for (n = 0; n < n_jobs && row < f->n_rows; n++) {
            r.jobs[n].first = row;
            row += r.jobs[n].n_rows = f->cut(f->arg, row);
        }
        wisp_parallel_for(pool, n, feed_block, &r);
        for (size_t i = 0; i < n && st == WISP_OK; i++) {
            st = r.jobs[i].err.code;
            if (st != WISP_OK) wisp_fail_as(err, st, &r.jobs[i].err);
            else st = wisp_sink_add(sink, &r.jobs[i].b, err);
        }
    }
    for (size_t i = 0; i < n_jobs; i++) {
        src->n_dropped_features += r.jobs[i].n_dropped;
        src->n_dropped_labels += r.jobs[i].n_dropped_labels;
        wisp_builder_clear(&r.jobs[i].b);
    }
    wisp_free(r.jobs);
    return st;
}
