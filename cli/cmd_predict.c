/* wisp predict MODEL DATA|-
 *
 * From stdin rows are answered as they come: whatever whole lines have arrived form a batch. */
#include "answers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct job {
    const struct args *a;
    wisp_context *ctx;
    wisp_model *model;
    struct answers answers;
    size_t n_unknown; /* features of lines from stdin that the model does not know */
};

/* Answers whole lines, the first of which is line 'line' of stdin. */
static wisp_status predict_text(struct job *j, const char *text, size_t bytes, size_t line,
                                wisp_error *err)
{
    wisp_data *d = NULL;
    size_t bad = 0, good = 0;
    int colon = 0;
    wisp_status st = wisp_data_parse(&d, j->ctx, text, bytes, "stdin", j->a->cfg, j->model, err);
    if (st == WISP_OK) {
        wisp_data_stats s;
        wisp_data_stats_get(d, &s);
        j->n_unknown += s.n_unknown_values;
        st = answers_rows(&j->answers, d, err);
    }
    wisp_data_free(d);
    const char *place = st == WISP_EFORMAT ? "stdin:%zu%n" : "row %zu%n"; /* a row is a line */
    if ((st != WISP_EFORMAT && st != WISP_ENUMERIC) ||
        sscanf(err->text, place, &bad, &colon) != 1 || !colon)
        return st;

    /* The lines before the bad one are answered, however they were cut into batches. */
    for (size_t n = 1; n < bad && good < bytes; good++) n += text[good] == '\n';
    wisp_error why = *err;
    if (good > 0 && good < bytes && (st = predict_text(j, text, good, line, err)) != WISP_OK)
        return st;
    snprintf(err->text, sizeof err->text, "stdin:%zu%.440s", line + bad - 1, why.text + colon);
    return err->code = why.code;
}

enum { LINE_MAX_BYTES = 1 << 30 }; /* as in files */

/* Room for one more read; a line longer than the room makes it grow. */
static char *grow(char *buf, size_t used, size_t *room)
{
    if (used < *room) return buf;
    char *bigger = *room < LINE_MAX_BYTES ? realloc(buf, *room *= 2) : NULL;
    if (!bigger) free(buf);
    return bigger;
}

static wisp_status predict_stdin(struct job *j, wisp_error *err)
{
    size_t room = 1 << 20, used = 0, line = 1;
    char *buf = malloc(room);
    wisp_status st = WISP_OK;
    for (int more = 1; buf && more && st == WISP_OK;) {
        if (!(buf = grow(buf, used, &room))) break;
        ssize_t got = read(0, buf + used, room - used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            snprintf(err->text, sizeof err->text, "stdin: cannot be read: %s", strerror(errno));
            st = err->code = WISP_EIO;
            break;
        }
        more = got > 0;
        /* What waits from earlier reads has no line end: only the new bytes are searched. */
        const char *nl = more ? memrchr(buf + used, '\n', (size_t)got) : NULL;
        if (more) used += (size_t)got;
        size_t whole = nl ? (size_t)(nl + 1 - buf) : more ? 0 : used;
        if (whole == 0) continue;
        st = predict_text(j, buf, whole, line, err);
        for (size_t i = 0; i < whole; i++) line += buf[i] == '\n';
        memmove(buf, buf + whole, used - whole);
        used -= whole;
    }
    if (!buf) {
        bool endless = used >= LINE_MAX_BYTES;
        snprintf(err->text, sizeof err->text, "stdin:%zu: a line %s", line,
                 endless ? "longer than 1 GiB" : "too long for memory");
        st = err->code = endless ? WISP_EFORMAT : WISP_ENOMEM;
    }
    free(buf);
    return st;
}

static wisp_status predict(struct job *j, wisp_error *err)
{
    wisp_data *d = NULL;
    wisp_status st = open_context(&j->ctx, j->a, err);
    if (st == WISP_OK) st = load_model(&j->model, j->a, err);
    if (st == WISP_OK) st = wisp_model_inference(j->model, args_text(j->a, "inference"), err);
    if (st == WISP_OK) st = wisp_model_scores(j->model, args_text(j->a, "scores"), err);
    if (st == WISP_OK) st = wisp_model_device(j->model, args_text(j->a, "device"), err);
    if (st == WISP_OK) st = answers_open(&j->answers, j->ctx, j->model, err);
    if (st == WISP_OK && strcmp(j->a->files[1], "-") == 0) {
        st = predict_stdin(j, err);
        if (j->n_unknown && !args_on(j->a, "quiet"))
            fprintf(stderr,
                    "stdin: %zu feature values were left out: the model does not know them\n",
                    j->n_unknown);
    } else if (st == WISP_OK) {
        st = wisp_data_open(&d, j->ctx, j->a->files[1], j->a->cfg, j->model, err);
        if (st == WISP_OK) st = answers_rows(&j->answers, d, err);
    }
    wisp_data_free(d);
    st = answers_close(&j->answers, st, err);
    wisp_model_free(j->model);
    wisp_context_free(j->ctx);
    return st;
}

int cmd_predict(const struct args *a)
{
    wisp_error err = { 0 };
    struct job j = { .a = a };
    int rc = answers_init(&j.answers, a);
    if (rc) return rc;
    return predict(&j, &err) == WISP_OK ? 0 : fail(&err);
}
