/* wisp predict MODEL DATA|-
 *
 * From stdin rows are answered as they come: whatever whole lines have arrived form a batch. */
#include "answers.h"

#include <string.h>

struct job {
    const struct args *a;
    wisp_context *ctx;
    wisp_model *model;
    struct answers answers;
    size_t n_unknown; /* features of lines from stdin that the model does not know */
};

static wisp_status predict(struct job *j, wisp_error *err)
{
    wisp_data *d = NULL;
    bool stream = strcmp(j->a->files[1], "-") == 0;
    wisp_status st = WISP_OK;
    if (stream && wisp_context_ranks(j->ctx) > 1)
        st = refuse(err, WISP_ENOTSUP,
                    "-: one process reads stdin, and there are several; name a file");
    if (st == WISP_OK) st = load_model_share(&j->model, j->ctx, j->a, err);
    if (st == WISP_OK) st = answers_open(&j->answers, j->ctx, j->model, err);
    if (st == WISP_OK && stream && wisp_format_by_lines(args_text(j->a, "format"))) {
        st = answer_stdin(&j->answers, &j->n_unknown, j->ctx, j->model, j->a->cfg, err);
        if (j->n_unknown && !args_on(j->a, "quiet"))
            tell("stdin: left out %zu feature value%s that the model does not know", j->n_unknown,
                 j->n_unknown > 1 ? "s" : "");
    } else if (st == WISP_OK) {
        st = wisp_data_open(&d, j->ctx, j->a->files[1], j->a->cfg, j->model, err);
        if (st == WISP_OK) st = answers_rows(&j->answers, d, err);
    }
    wisp_data_free(d);
    st = answers_close(&j->answers, st, err);
    wisp_model_free(j->model);
    return st;
}

int cmd_predict(const struct args *a)
{
    wisp_error err = { 0 };
    struct job j = { .a = a };
    int rc = answers_init(&j.answers, a);
    if (rc) return rc;
    wisp_status st = join_context(&j.ctx, a, &err);
    const int rank = wisp_context_rank(j.ctx);
    if (rank > 0 && !freopen("/dev/null", "w", stdout)) /* all have the same answers */
        st = refuse(&err, WISP_EIO, "/dev/null cannot be written");
    if (st == WISP_OK) st = predict(&j, &err);
    rc = st == WISP_OK ? 0 : fail_of_rank(&err, rank);
    fflush(stdout);
    wisp_context_free(j.ctx);
    return rc;
}
