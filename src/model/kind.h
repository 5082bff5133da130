/* What a model is: a net, or one of the other rows of this table.
 *
 * A row says how the part that is its own comes from a file and goes to one, how it scores rows and how it
 * is trained.  All else of a model (names, values, counts of labels, votes, calibrations) is the same
 * for every kind and is not its business.  Whoever can use a net only asks wisp_model_need_net. */
#ifndef WISP_MODEL_KIND_H
#define WISP_MODEL_KIND_H

#include "model/explain.h"
#include "model/loader.h"
#include "model/model.h"

enum { WISP_KIND_META = 128 };

/* Which labels sparse prediction scores: there is none; those that features vote for; of a joint model the
 * best ones of its linear member, which scores all. */
enum wisp_guide { WISP_GUIDE_NONE, WISP_GUIDE_VOTES, WISP_GUIDE_LEAD };

struct wisp_model_kind {
    const char *name;  /* "net" */
    const char *index; /* what to train with for votes, as it is written: "--index yes" */
    const char *learn; /* what to try where a run has learnt no more than which label is frequent */
    /* Does the text of a net (--net, the metadata of a file) name this kind?  NULL: every text that names
     * no other kind does. */
    bool (*is)(const char *spec);

    /* ---- its own part of a model ---- */
    /* From a file.  m->spec, m->loss and the numbers of features and labels (m->net) are set. */
    wisp_status (*load)(const struct wisp_loader *ld, wisp_error *err);
    /* The same once values, counts of labels and votes are there, too; NULL: nothing is left to do. */
    wisp_status (*whole)(const struct wisp_loader *ld, wisp_error *err);
    void (*list)(struct wisp_tensor_list *l, const struct wisp_model *m);
    /* Up to WISP_KIND_META entries of metadata more, kept until the file is written: how many.  NULL: none. */
    size_t (*meta)(struct wisp_pair *to, const struct wisp_model *m);
    void (*clear)(struct wisp_model *m); /* also half loaded */
    size_t (*n_params)(const struct wisp_model *m);
    size_t (*bytes)(const struct wisp_model *m); /* of its weights, as they are kept */

    /* ---- scoring: rows that are laid out, the values made as m->values says ---- */
    size_t (*batch)(const struct wisp_model *m); /* rows at once, up to WISP_SCORE_BATCH */
    /* All memory that scoring takes.  s->m, ctx, k and batch are set; s->own is the kind's. */
    wisp_status (*ready)(struct wisp_scorer *s, enum wisp_zeros zeros, wisp_error *err);
    void (*done)(struct wisp_scorer *s); /* also half ready */
    /* The net that says what of a row is laid out (images); NULL: that of the scorer. */
    const struct wisp_net *(*reads)(const struct wisp_scorer *s);
    /* How rows find the labels that sparse prediction scores; NULL: by votes, where the model has some. */
    enum wisp_guide (*guide)(const struct wisp_model *m);
    /* From now on sparse prediction, as 'guide' says: by the model's votes; or, of a member of a joint
     * model, among the best labels of a scorer that has done the same rows before. */
    wisp_status (*use_some)(struct wisp_scorer *s, const struct wisp_scorer *lead, wisp_error *err);
    void (*use_all)(struct wisp_scorer *s); /* no longer */
    /* The k best labels of every row of b into s->labels and s->scores, which are raw and fall from
     * place to place; -1: there are no more.  Adds to s->n_scored. */
    wisp_status (*best)(struct wisp_scorer *s, const struct wisp_batch *b, wisp_error *err);
    /* After 'best' of the same rows: the raw scores of some labels of one row, on the scale of s->scores;
     * 0 of a label that the model cannot judge.  May be called by several threads at once. */
    void (*score)(float *out, struct wisp_scorer *s, const struct wisp_batch *b, size_t row,
                  const int32_t *labels, size_t n, int thread);

    /* ---- explaining (explain.h); 'explain' NULL: it cannot be explained ---- */
    /* All memory that it takes.  e->m and ctx are set; e->own is the kind's. */
    wisp_status (*explain_ready)(struct wisp_explainer *e, wisp_error *err);
    void (*explain_done)(struct wisp_explainer *e); /* e->own is there; also half ready */
    /* Adds what the logit of a label is made of, times a weight, for the one row of b, which is also laid
     * out by feature: parts of its features, biases, the logit itself. */
    wisp_status (*explain)(struct wisp_account *to, struct wisp_explainer *e,
                           const struct wisp_batch *b, int32_t label, double weight,
                           wisp_error *err);

    /* ---- training: as wisp_train_run ---- */
    wisp_status (*train)(struct wisp_report **out, struct wisp_context *ctx, const wisp_config *cfg,
                         const struct wisp_data *train, const struct wisp_data *valid,
                         const char *path, wisp_on_progress on_progress, void *arg,
                         wisp_error *err);
};

/* In the order in which they are asked for a text; the last one takes any. */
#define WISP_MODEL_KINDS(X) X(joint) X(linear) X(net)

#define X(name) extern const struct wisp_model_kind wisp_kind_##name;
WISP_MODEL_KINDS(X)
#undef X

const struct wisp_model_kind *wisp_kind_at(size_t i); /* NULL past the end */
const struct wisp_model_kind *wisp_kind_of_text(const char *spec);
/* What the options of a training ask for; where they do not say, by the rows.  train NULL: then a net. */
const struct wisp_model_kind *wisp_kind_to_train(const wisp_config *cfg,
                                                 const struct wisp_data *train);
/* What --net names, or --hidden: nothing hidden is linear. */
const struct wisp_model_kind *wisp_kind_named(const wisp_config *cfg);
/* A model whose kind nobody has set is a net. */
const struct wisp_model_kind *wisp_kind_of(const struct wisp_model *m);
/* The net that says what is read of a row that is an image: the model's, or that of a member. */
const struct wisp_net *wisp_model_reads(const struct wisp_model *m);
bool wisp_model_is_net(const struct wisp_model *m);
enum wisp_guide wisp_model_guide(const struct wisp_model *m);
/* WISP_ENOTSUP unless the model is a net; 'what' is what needs one. */
wisp_status wisp_model_need_net(const struct wisp_model *m, const char *what, wisp_error *err);

#endif
