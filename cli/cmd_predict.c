/* wisp predict MODEL DATA|-
 *
 * One line a row, "name:score name:score ...", or one JSON object a row.  From stdin rows are
 * answered as they come: whatever whole lines have arrived form a batch. */
#include "cli.h"

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
    wisp_predictor *predictor;
    int32_t *labels; /* (ROWS, k) */
    float *scores;
    size_t k;
    double threshold;
    int json;
};

enum { ROWS = 4096 };

/* Bytes of the UTF-8 character at s, n bytes left; 0: there is none (RFC 3629: no surrogates,
 * nothing beyond U+10FFFF, no form longer than needed). */
static size_t character(const char *s, size_t n)
{
    static const unsigned lowest[] = { 0, 0, 0x80, 0x800, 0x10000 };
    unsigned char c = (unsigned char)s[0];
    size_t bytes = c < 0x80 ? 1 : c < 0xc0 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf8 ? 4 : 0;
    if (bytes < 2 || bytes > n) return bytes <= n ? bytes : 0;
    unsigned code = c & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    bool surrogate = code >= 0xd800 && code < 0xe000;
    return code < lowest[bytes] || code > 0x10ffff || surrogate ? 0 : bytes;
}

/* Names may hold any bytes; a line of JSON may not. */
static void print_json_string(const char *s, size_t n)
{
    putchar('"');
    for (size_t i = 0, bytes; i < n; i += bytes ? bytes : 1) {
        bytes = character(s + i, n - i);
        if (bytes == 0) printf("\\ufffd");
        else if (s[i] == '"' || s[i] == '\\') printf("\\%c", s[i]);
        else if (bytes == 1 && s[i] < 0x20) printf("\\u%04x", s[i]);
        else fwrite(s + i, 1, bytes, stdout);
    }
    putchar('"');
}

static void print_label(const struct job *j, int32_t label, float score, int first)
{
    size_t bytes = 0;
    const char *name = wisp_model_label_name(j->model, label, &bytes);
    if (j->json) {
        printf("%s{\"label\":%d,", first ? "" : ",", label);
        if (name) {
            printf("\"name\":");
            print_json_string(name, bytes);
            putchar(',');
        }
        printf("\"score\":%.6g}", score);
    } else {
        if (!first) putchar(' ');
        if (name) fwrite(name, 1, bytes, stdout);
        else printf("%d", label);
        printf(":%.4f", score);
    }
}

static void print_row(const struct job *j, const int32_t *labels, const float *scores)
{
    if (j->json) printf("{\"labels\":[");
    int n = 0;
    for (size_t c = 0; c < j->k && labels[c] >= 0; c++)
        if (scores[c] >= j->threshold) print_label(j, labels[c], scores[c], n++ == 0);
    puts(j->json ? "]}" : "");
}

static wisp_status predict_all(const struct job *j, const wisp_data *d, wisp_error *err)
{
    wisp_data_stats stats;
    wisp_data_stats_get(d, &stats);
    wisp_status st = WISP_OK;
    for (size_t at = 0; st == WISP_OK && at < stats.n_rows; at += ROWS) {
        size_t n = stats.n_rows - at < ROWS ? stats.n_rows - at : ROWS;
        st = wisp_predictor_run(j->labels, j->scores, j->predictor, d, at, n, err);
        for (size_t i = 0; st == WISP_OK && i < n; i++)
            print_row(j, j->labels + i * j->k, j->scores + i * j->k);
    }
    fflush(stdout);
    return st;
}

/* Answers whole lines, the first of which is line 'line' of stdin. */
static wisp_status predict_text(const struct job *j, const char *text, size_t bytes, size_t line,
                                wisp_error *err)
{
    wisp_data *d = NULL;
    size_t bad = 0, good = 0;
    int colon = 0;
    wisp_status st = wisp_data_parse(&d, j->ctx, text, bytes, "stdin", j->a->cfg, j->model, err);
    if (st == WISP_OK) st = predict_all(j, d, err);
    wisp_data_free(d);
    if (st != WISP_EFORMAT || sscanf(err->text, "stdin:%zu%n", &bad, &colon) != 1 || !colon)
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

static wisp_status predict_stdin(const struct job *j, wisp_error *err)
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

/* A predictor, and room for what it answers. */
static wisp_status get_ready(struct job *j, wisp_error *err)
{
    wisp_status st = wisp_predictor_create(&j->predictor, j->ctx, j->model, j->k, err);
    if (st != WISP_OK) return st;
    j->labels = malloc(ROWS * j->k * sizeof *j->labels);
    j->scores = malloc(ROWS * j->k * sizeof *j->scores);
    if (j->labels && j->scores) return WISP_OK;
    snprintf(err->text, sizeof err->text, "out of memory for predictions");
    return err->code = WISP_ENOMEM;
}

/* A threshold on scores that are no probabilities would not do what it says. */
static void say_raw(const struct job *j)
{
    if (j->threshold > 0 && !wisp_model_calibrated(j->model) &&
        strcmp(args_text(j->a, "scores"), "raw") != 0)
        fprintf(stderr,
                "scores    the model has no calibration for --inference %s (too few validation "
                "rows, or none, when it was trained): --threshold takes its raw scores\n",
                args_text(j->a, "inference"));
}

static wisp_status predict(struct job *j, wisp_error *err)
{
    wisp_data *d = NULL;
    wisp_status st = open_context(&j->ctx, j->a, err);
    if (st == WISP_OK) st = wisp_model_load(&j->model, j->a->files[0], err);
    if (st == WISP_OK) st = wisp_model_inference(j->model, args_text(j->a, "inference"), err);
    if (st == WISP_OK) st = wisp_model_scores(j->model, args_text(j->a, "scores"), err);
    if (st == WISP_OK) st = wisp_model_device(j->model, args_text(j->a, "device"), err);
    if (st == WISP_OK) say_raw(j);
    if (st == WISP_OK) st = get_ready(j, err);
    if (st == WISP_OK && strcmp(j->a->files[1], "-") == 0) {
        st = predict_stdin(j, err);
    } else if (st == WISP_OK) {
        st = wisp_data_open(&d, j->ctx, j->a->files[1], j->a->cfg, j->model, err);
        if (st == WISP_OK) st = predict_all(j, d, err);
    }
    wisp_data_free(d);
    free(j->labels);
    free(j->scores);
    wisp_predictor_free(j->predictor);
    wisp_model_free(j->model);
    wisp_context_free(j->ctx);
    return st;
}

int cmd_predict(int argc, char **argv)
{
    struct args a;
    wisp_error err = { 0 };
    int rc = args_read(&a, "predict", argc, argv, 2, 2, "predict MODEL DATA|- [options]");
    if (rc) return rc;
    const char *k = args_text(&a, "k");
    char *end;
    struct job j = { .a = &a,
                     .k = *k ? strtoul(k, &end, 10) : 5,
                     .threshold = atof(args_text(&a, "threshold")),
                     .json = args_on(&a, "json") };
    if (*k && (*end || j.k < 1 || j.k > 10000)) {
        fprintf(stderr, "wisp predict: -k: '%s' is not a number from 1 to 10000\n", k);
        rc = 2;
    } else {
        rc = predict(&j, &err) == WISP_OK ? 0 : fail(&err);
    }
    args_clear(&a);
    return rc;
}
