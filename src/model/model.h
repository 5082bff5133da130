/* A model: a network, or another kind of thing that scores labels (kind.h), with everything needed to
 * use it (names, idf, label counts). */
#ifndef WISP_MODEL_MODEL_H
#define WISP_MODEL_MODEL_H

#include "data/data.h"
#include "model/batch.h"
#include "model/calibrate.h"
#include "linear/linear.h"
#include "model/file.h"
#include "model/net.h"
#include "model/shortlist.h"
#include "model/votes.h"

#include <stdatomic.h>

struct wisp_model_kind;
enum { WISP_EXACT, WISP_SPARSE, WISP_N_WAYS }; /* of prediction */

struct wisp_model {
    const struct wisp_model_kind *kind; /* NULL: a net */
    /* Sizes for prediction when loaded, for training when trained.  Of other kinds it has the numbers of
     * features and labels, and no layers. */
    struct wisp_net net;
    struct wisp_joint *joint;  /* of a joint model; NULL: it is none */
    struct wisp_linear linear; /* of a linear model; start NULL: it is none */
    char *spec;                /* the net line */
    const struct wisp_loss *loss;
    struct wisp_values values;
    float *idf;                      /* owned, or NULL (mapped) */
    float *columns;                  /* owned, or NULL: mean and scale of columns (mode standard) */
    struct wisp_names labels, vocab; /* n = 0: none */
    bool text;                       /* trained on text, ... */
    struct wisp_text_how how;        /* which was cut into features so, ... */
    struct wisp_names stop;          /* without these words; n = 0: none */
    struct wisp_lookup find_word, find_label,
        find_stop; /* of a loaded model with names in its data */
    /* of words and labels that its data does not name: made when somebody first asks */
    _Atomic(struct wisp_lookup *) find_later[2];
    unsigned named;                   /* WISP_NAMED_...: ids that stand for names of the data */
    const struct wisp_format *format; /* of the training data, NULL: rows from memory */
    int index_base;                   /* and its first feature id */
    struct wisp_votes votes;   /* for sparse prediction; start NULL: none; owned, or mapped */
    const int64_t *label_rows; /* (n_labels) training counts: 'counts', or mapped */
    int64_t *counts;           /* owned, or NULL */
    /* of each way of prediction; NULL: none, else 'fitted' */
    const struct wisp_calibration *calibration[WISP_N_WAYS];
    struct wisp_calibration fitted[WISP_N_WAYS];
    const float *threshold; /* (n_labels) of scores (threshold.h), mapped; NULL: none */
    size_t n_train;
    const struct wisp_comm
        *comm; /* of whose ranks each has its share of the rows; NULL: all here */
    const struct wisp_comm *copies; /* whose ranks have all of it: the first one writes; or NULL */
    char *options;                  /* of the training run: lines "key=value" */
    char *about;                    /* what the run chose, on which data: lines (about.h) */
    char validation[120];           /* more of its measures: lines */
    struct wisp_tensor_file file;   /* when loaded */
    char *describe;                 /* JSON, when loaded */
};

void wisp_model_free(struct wisp_model *m);
/* What scores are to be mapped by; NULL: they stay raw. */
const struct wisp_calibration *wisp_model_calibration(const struct wisp_model *m, bool sparse);
/* The calibrations of the model in a file, where it has some. */
wisp_status wisp_model_copy_calibration(struct wisp_model *m, const struct wisp_tensor_file *f,
                                        const char *path, wisp_error *err);
wisp_status wisp_model_open(struct wisp_model **out, struct wisp_pool *pool, const char *path,
                            wisp_error *err);
/* The same of a file that is read; takes it over, also on failure. */
wisp_status wisp_model_of_file(struct wisp_model **out, struct wisp_tensor_file *file,
                               const char *path, wisp_error *err);
/* Of several ranks each keeps its share of the rows (deal.c); scoring then is done by all together. */
wisp_status wisp_model_deal(struct wisp_model *m, const struct wisp_comm *c, wisp_error *err);
/* Writes the model; 'best' is its validation P@1 (or -1), 'epoch' where it stood; 'check' (33
 * characters, or NULL) receives the file's checksum. */
wisp_status wisp_model_save(struct wisp_model *m, const char *path, double best, int epoch,
                            char *check, wisp_error *err);

/* ---- scoring: the best labels of rows (score.c) ---- */

enum { WISP_SCORE_BATCH = 256 };
/* Rows at once: a power of two up to WISP_SCORE_BATCH, fewer where the values of an image are large. */
size_t wisp_score_batch(const struct wisp_net *net);

struct wisp_cuda; /* cuda/cuda.h */
struct wisp_cuda_scorer;
struct wisp_cuda_trainer;

struct wisp_scorer {
    const struct wisp_model *m;
    /* The model's.  Clearing a scorer asks it and not the model, which may be gone by then: Python frees what it
     * finds in a cycle in any order. */
    const struct wisp_model_kind *kind;
    struct wisp_context *ctx;
    void *own; /* of the model's kind */
    struct wisp_net
        net; /* of a net: layers share the model's weights; values and scratch are its own */
    struct wisp_layout layout;
    size_t batch; /* rows at once: wisp_score_batch, or WISP_SCORE_BATCH on a card */
    size_t k;
    bool alone; /* a row is scored by itself: wisp_output_topk */
    float *scratch, *thread_scratch;
    int32_t *labels; /* (WISP_SCORE_BATCH, k) */
    float *scores;
    struct wisp_shortlist shortlist; /* no candidates: all rows are scored */
    uint64_t n_scored;               /* rows scored so far, over all samples */
    const struct wisp_cuda *cuda;
    struct wisp_cuda_scorer *card; /* NULL: on the CPU */
    bool ranks;                    /* on a card: scores are logits, nobody looks at them */
    /* NULL, or called by wisp_score_all after the rows of every look_every-th WISP_SCORE_BATCH,
     * beginning with the first; these have scores in any case */
    void (*look)(void *arg, const struct wisp_scorer *s);
    void *look_arg;
    size_t look_every;
    const struct wisp_peek *peek; /* on the CPU: sees, and may change, all values; NULL: nobody */
};
/* k is cut to the number of labels; zeros: whether layers skip those of their inputs. */
wisp_status wisp_scorer_init(struct wisp_scorer *s, const struct wisp_model *m,
                             struct wisp_context *ctx, enum wisp_zeros zeros, size_t k,
                             wisp_error *err);
/* The same without room to lay rows out: for one who has them laid out (a joint model), and calls the
 * kind's functions. */
wisp_status wisp_scorer_init_member(struct wisp_scorer *s, const struct wisp_model *m,
                                    struct wisp_context *ctx, enum wisp_zeros zeros, size_t k,
                                    wisp_error *err);
void wisp_scorer_clear(struct wisp_scorer *s);
/* From now on sparse prediction; WISP_ENOTSUP where the model has nothing to name labels by (kind.h). */
wisp_status wisp_scorer_use_some(struct wisp_scorer *s, wisp_error *err);
void wisp_scorer_use_all(struct wisp_scorer *s); /* no longer */
/* The failure to do so. */
wisp_status wisp_no_index(const struct wisp_model *m, wisp_error *err);
/* From now on on a card (card_score.c): with a copy of the model's weights, or with those of a trainer on
 * it, which is then freed after the scorer.  ranks: scores may be anything that falls from place to
 * place, which takes half the time.  WISP_ENOTSUP says what is not there. */
wisp_status wisp_scorer_use_card(struct wisp_scorer *s, struct wisp_cuda_trainer *t, bool ranks,
                                 wisp_error *err);
/* The rows that are laid out. */
wisp_status wisp_scorer_run_card(struct wisp_scorer *s, wisp_error *err);
/* Is there a card, and can it predict with this model? */
wisp_status wisp_card_check_model(const struct wisp_model *m, wisp_error *err);
/* The failure to do something on a card. */
wisp_status wisp_not_on_card(wisp_error *err, const char *what);
/* n <= s->batch rows of d; results in s->labels and s->scores, true labels in
 * s->layout.batch.  WISP_ENUMERIC: a row whose scores are not numbers; 'err' names it. */
wisp_status wisp_scorer_run(struct wisp_scorer *s, const struct wisp_data *d, const size_t *rows,
                            size_t n, wisp_error *err);

struct wisp_metrics;
/* Adds all rows of d to the metrics.  stop(arg) (NULL: never) is asked between batches; when it
 * says yes, the result is WISP_ESTOPPED. */
wisp_status wisp_score_all(struct wisp_metrics *out, struct wisp_scorer *s,
                           const struct wisp_data *d, bool (*stop)(void *arg), void *arg,
                           wisp_error *err);

/* ---- training (train.c) ---- */

/* path NULL: nothing is kept on disk, neither the model nor a state to go on from. */
wisp_status wisp_train_run(struct wisp_report **out, struct wisp_context *ctx,
                           const wisp_config *cfg, const struct wisp_data *train,
                           const struct wisp_data *valid, const char *path,
                           wisp_on_progress on_progress, void *arg, wisp_error *err);
/* The same, but the last model itself is handed out, with an index for sparse prediction.  pace: NULL,
 * or what measures the steps (pace.h): then without the index, which takes memory. */
struct wisp_pace;
wisp_status wisp_train_model(struct wisp_model **model, struct wisp_report **out,
                             struct wisp_pace *pace, struct wisp_context *ctx,
                             const wisp_config *cfg, const struct wisp_data *train,
                             const struct wisp_data *valid, wisp_on_progress on_progress, void *arg,
                             wisp_error *err);

#endif
