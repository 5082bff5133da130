/* A tour of the C interface: rows in memory -> train -> a model file -> measure -> predict.
 *
 *   cc tour.c $(pkg-config --cflags --libs wisp) -o tour && ./tour
 *
 * Row i of 400 belongs to label i % 4 and has two features: one of its label's ten, and one of
 * 20 that any row may have. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <wisp/wisp.h>

enum { ROWS = 400, LABELS = 4, FEATURES = 10 * LABELS + 20, BEST = 2 };

static wisp_error err; /* one line: where, what was found, what was expected */

static void must(wisp_status st)
{
    if (st == WISP_OK) return;
    fprintf(stderr, "tour: %s\n", err.text);
    exit(1);
}

static wisp_data *make_rows(void)
{
    /* CSR order: row i has the features x_idx[x_ptr[i]] .. x_idx[x_ptr[i + 1] - 1]. */
    int64_t x_ptr[ROWS + 1] = { 0 }, y_ptr[ROWS + 1] = { 0 };
    int32_t x_idx[2 * ROWS], y_idx[ROWS];
    float x_val[2 * ROWS];
    for (int i = 0; i < ROWS; i++) {
        y_idx[i] = i % LABELS;
        x_idx[2 * i] = 10 * y_idx[i] + i / LABELS % 10;
        x_idx[2 * i + 1] = 10 * LABELS + i % 20;
        x_val[2 * i] = x_val[2 * i + 1] = 1;
        x_ptr[i + 1] = 2 * (i + 1);
        y_ptr[i + 1] = i + 1;
    }
    wisp_data *rows = NULL;
    must(
        wisp_data_from_csr(&rows, ROWS, FEATURES, LABELS, x_ptr, x_idx, x_val, y_ptr, y_idx, &err));
    return rows; /* the arrays were copied */
}

int main(void)
{
    char path[] = "/tmp/wisp-tour-XXXXXX";
    int fd = mkstemp(path); /* the trained model will take its place */
    if (fd < 0 || close(fd) != 0) return 1;

    wisp_context *ctx = NULL; /* threads and kernels; 0: a thread for every core */
    wisp_config *cfg = NULL;  /* options, named like the command's long flags */
    must(wisp_context_create(&ctx, 0, &err));
    must(wisp_config_create(&cfg, &err));
    must(wisp_config_set(cfg, "hidden", "16", &err));
    must(wisp_config_set(cfg, "epochs", "20", &err));
    must(wisp_config_set(cfg, "lr", "0.05", &err));

    wisp_data *rows = make_rows();
    wisp_report *run = NULL, *quality = NULL;
    must(wisp_train(&run, ctx, cfg, rows, NULL, path, NULL, NULL, &err));
    printf("train    %s\n", wisp_report_json(run));

    wisp_model *model = NULL;
    double p1 = 0;
    must(wisp_model_load(&model, path, &err));
    must(wisp_eval(&quality, ctx, model, rows, cfg, &err));
    wisp_report_get(quality, "p@1", &p1);
    printf("quality  P@1 %.1f %% of %d rows\n", p1, ROWS);

    int32_t labels[LABELS * BEST]; /* (rows, k): the best labels of the first rows, best first */
    float scores[LABELS * BEST];
    wisp_predictor *predictor = NULL; /* it reads options of its own: inference, scores, device */
    must(wisp_predictor_create(&predictor, ctx, model, cfg, BEST, &err));
    must(wisp_predictor_run(labels, scores, predictor, rows, 0, LABELS, &err));
    for (int i = 0; i < LABELS * BEST; i++) {
        size_t bytes; /* rows from arrays bring no names, so that this is NULL here */
        const char *name = wisp_model_label_name(model, labels[i], &bytes);
        printf("row %d    place %d  ", i / BEST, i % BEST + 1);
        if (name) printf("%.*s", (int)bytes, name);
        else printf("label %d", labels[i]);
        printf("  probability %.3f\n", scores[i]);
    }

    wisp_report_free(run); /* whoever creates frees */
    wisp_report_free(quality);
    wisp_predictor_free(predictor);
    wisp_model_free(model);
    wisp_data_free(rows);
    wisp_config_free(cfg);
    wisp_context_free(ctx);
    return unlink(path) == 0 && p1 > 99 ? 0 : 1;
}
