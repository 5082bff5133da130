/* Joint models: 2 to 16 members, each a net or another kind of model over the same features and labels, whose
 * answers are mixed.
 *
 *   p(label) = sum over members of  mix * p_member(label)
 *
 * p_member is the member's own calibrated probability.  A row's candidates are the best labels of each
 * member; every member scores all of them.  What comes out is a raw score again, which is calibrated
 * as a whole, on the same held-out rows that the weights 'mix' were chosen on.
 *
 * In the file a member's tensors and its part of the metadata have the prefix "0/", "1/" and so on;
 * names, values, counts of labels and votes are there once. */
#ifndef WISP_MODEL_JOINT_H
#define WISP_MODEL_JOINT_H

#include "config/options.h"
#include "model/kind.h"

#include <limits.h>

enum {
    WISP_JOINT_MOST = 16,      /* members */
    WISP_JOINT_PREFIX = 24,    /* bytes of what the names of a member's tensors begin with */
    WISP_JOINT_CANDIDATES = 50 /* of each member; more where more answers are asked for */
};

struct wisp_joint {
    size_t n;
    struct wisp_model *members[WISP_JOINT_MOST]; /* owned; they borrow what the joint model has */
    float mix[WISP_JOINT_MOST];                  /* from 0 on; their sum is 1 */
    bool lent;    /* the other way round: the joint model borrows from its first member, ... */
    size_t voter; /* ... and votes from this one, as do members that have none */
    /* of the metadata, while it is written: how many members there are, and the keys of each */
    char count[24], keys[WISP_JOINT_MOST][7][40];
};

/* A joint model of whole models (as wisp_model_open gives them) with equal weights; takes them over, also on
 * failure.  They must have the same features, labels and values. */
wisp_status wisp_joint_make(struct wisp_model **out, struct wisp_model **members, size_t n,
                            wisp_error *err);

/* What the names of a member's tensors and metadata begin with. */
void wisp_joint_prefix(char out[WISP_JOINT_PREFIX], size_t i);

/* ---- scoring: as struct wisp_model_kind has it (joint_score.c) ---- */

size_t wisp_joint_batch(const struct wisp_model *m);
wisp_status wisp_joint_ready(struct wisp_scorer *s, enum wisp_zeros zeros, wisp_error *err);
void wisp_joint_done(struct wisp_scorer *s);
const struct wisp_net *wisp_joint_reads(const struct wisp_scorer *s);
enum wisp_guide wisp_joint_guide(const struct wisp_model *m);
wisp_status wisp_joint_use_some(struct wisp_scorer *s, const struct wisp_scorer *lead,
                                wisp_error *err);
void wisp_joint_use_all(struct wisp_scorer *s);
wisp_status wisp_joint_best(struct wisp_scorer *s, const struct wisp_batch *b, wisp_error *err);
void wisp_joint_score(float *out, struct wisp_scorer *s, const struct wisp_batch *b, size_t row,
                      const int32_t *labels, size_t n, int thread);

/* ---- weights (joint_mix.c) ---- */

/* What members say of the candidates of some rows. */
struct wisp_mix_seen {
    size_t n_members, room;   /* candidates of a row, at most */
    size_t n_rows, rows_room; /* seen so far; more are not looked at */
    float *p;                 /* (rows_room, n_members, room) calibrated probabilities */
    uint8_t *hit;             /* (rows_room, room) is the candidate true? */
    uint16_t *n_candidates;   /* (rows_room) */
};
wisp_status wisp_mix_init(struct wisp_mix_seen *m, size_t n_members, size_t room, size_t rows,
                          wisp_error *err);
void wisp_mix_clear(struct wisp_mix_seen *m);
/* From now on the first n_rows rows that the scorer of a joint model scores are kept in 'to', which is made
 * here and cleared by wisp_joint_unwatch. */
wisp_status wisp_joint_watch(struct wisp_scorer *s, struct wisp_mix_seen *to, size_t n_rows,
                             wisp_error *err);
void wisp_joint_unwatch(struct wisp_scorer *s);
/* How good rankings by these weights are: P@1, P@3, P@5 in percent. */
void wisp_mix_judge(double p[3], const struct wisp_mix_seen *m, const float *mix);
/* Members of one group share its weight equally; the groups' weights are those that rank best. */
void wisp_mix_choose(float *mix, const struct wisp_mix_seen *m, const int *group, int n_groups);
/* All weight to the best group by itself, unless the sum of P@1, P@3 and P@5 is higher with all groups, by more
 * than this share of it. */
void wisp_mix_simplify(float *mix, const struct wisp_mix_seen *m, const int *group, int n_groups,
                       double least_gain);

/* ---- trials: the runs of a joint training, each an ordinary one at PATH.0, PATH.1, ... (trials.c) ---- */

enum { WISP_TRIALS_MOST = 32, WISP_TRIAL_FIGURES = 5 };
extern const char *const wisp_trial_figures[WISP_TRIAL_FIGURES]; /* keys of a report */
struct wisp_trial {
    char what[80]; /* for a person */
    bool member;   /* of the model; else it is trained for a while only, to see how good it gets */
    bool linear;   /* a linear model; else a net */
    int group;     /* members of a group share one weight */
    int from; /* --init: it goes on from this member of the model, counted from 1; 0: from none */
    int n_set;
    struct {                    /* options that differ from the user's */
        const char *key, *text; /* borrowed; text NULL: a number, ... */
        char number[32];        /* ... this one */
    } set[8];
    /* Once it is trained: */
    bool done;
    double seconds, valid, loss; /* what it took; P@1 and loss of held-out rows */
    float weight;                /* in the model; 0: it is not in it */
};
struct wisp_trials {
    struct wisp_context *ctx;
    const wisp_config *cfg;
    const struct wisp_data *train, *valid;
    const struct wisp_model *init; /* the joint model to go on from; NULL: there is none */
    const char *path;
    wisp_on_progress told;
    void *arg;
    int n, now, planned; /* trials; the one that is being trained; how many there will be, about */
    struct wisp_trial trial[WISP_TRIALS_MOST];
    struct wisp_data
        *held_out; /* owned: the rows that no trial is trained on, where 'valid' is NULL */
    double began;
    double figures
        [WISP_TRIAL_FIGURES]; /* of the last net: what reports of training have (wisp_trial_figures) */
    char run[20];             /* what tells it from other runs: lines of the list have it */
    char *before; /* owned: the list that an earlier part of this run has left; or NULL */
    bool stopped; /* ... before its end */
    bool whole;   /* there will be no more trials */
    double
        least_gain; /* several groups have to rank so much better than one, as a share; 0: by nothing */
};
/* Adds a trial that has the user's options; there must be room. */
struct wisp_trial *wisp_trials_add(struct wisp_trials *p, int group, const char *what);
void wisp_trial_set(struct wisp_trial *t, const char *key, const char *text); /* borrows both */
void wisp_trial_set_num(struct wisp_trial *t, const char *key, double value);
void wisp_trials_path(char out[PATH_MAX], const struct wisp_trials *p, int i);
/* Where the i-th member of the model to go on from lies by itself while the run lasts. */
void wisp_trials_from(char out[PATH_MAX], const struct wisp_trials *p, int i);
/* Trains the last trial, or finds it trained (--resume), and notes it in the list of what was tried. */
wisp_status wisp_trials_train(struct wisp_trials *p, wisp_error *err);
/* Adds and trains a linear model that does not see the held-out rows, as the member of group 0; from: as
 * that of a trial. */
wisp_status wisp_trials_linear(struct wisp_trials *p, int from, wisp_error *err);
struct wisp_plan;
/* What a net by defaults would do; to be cleared. */
wisp_status wisp_trials_plan(struct wisp_plan *out, const struct wisp_trials *p, wisp_error *err);
/* The rows to choose by; there may be none. */
wisp_status wisp_trials_rows(const struct wisp_data **out, struct wisp_trials *p, wisp_error *err);
/* Has a run of several models been stopped that was to end at 'path'?  Then 'out' is the list that it left. */
bool wisp_trials_left(char out[PATH_MAX], const char *path);
/* Removes what it left: another run has ended there. */
void wisp_trials_forget(const char *path);
/* Finds p->run.  options: all of them, as the model will have them. */
void wisp_trials_name(struct wisp_trials *p, const char *options);
/* Reads the list that an earlier part of this run has left, where it is resumed; else removes what a run
 * that was stopped there has left. */
wisp_status wisp_trials_recall(struct wisp_trials *p, wisp_error *err);
/* Writes the list: a line of JSON for each trial.  At the end it has the weights, too. */
wisp_status wisp_trials_note(const struct wisp_trials *p, wisp_error *err);
/* Removes the models and checkpoints of all trials, the checkpoint of one model that was stopped there, and the list unless the user has named a file for it. */
void wisp_trials_remove(const struct wisp_trials *p);
/* Is there a line of an earlier part of this run (--resume) for the i-th trial?  A run whose choices hung
 * on time makes them again by that. */
bool wisp_trials_known(const struct wisp_trials *p, int i);
bool wisp_trials_was(const struct wisp_trials *p, int i, const char *what);

/* ---- the members, once they are trained (weigh.c) ---- */

struct wisp_judged {   /* what they are together, on held-out rows */
    double p[3], loss; /* P@1, P@3, P@5; -1: there are no such rows */
    bool calibrated[WISP_N_WAYS];
    struct wisp_calibration map[WISP_N_WAYS];
};
/* Chooses the weights of all members on these rows; equal where there is nothing to choose by. */
wisp_status wisp_trials_weigh(struct wisp_trials *p, wisp_error *err);
/* The joint model of all trials that have a weight. */
wisp_status wisp_trials_open(struct wisp_model **out, const struct wisp_trials *p, wisp_error *err);
/* How good it is, and the calibration of what it says. */
wisp_status wisp_trials_judge(struct wisp_judged *out, const struct wisp_trials *p,
                              const struct wisp_data *rows, wisp_error *err);
/* Linear members again with the held-out rows, once nothing has to be chosen any more; they see to their own
 * calibration.  Nets are not: it took as long again, and gained nothing that was measured. */
wisp_status wisp_trials_refit(struct wisp_trials *p, const struct wisp_data *rows, wisp_error *err);

/* ---- training ---- */

/* --ensemble N, --net linear+net, --net auto (joint_train.c).  As wisp_train_run. */
wisp_status wisp_joint_train(struct wisp_report **out, struct wisp_context *ctx,
                             const wisp_config *cfg, const struct wisp_data *train,
                             const struct wisp_data *valid, const char *path,
                             wisp_on_progress on_progress, void *arg, wisp_error *err);

/* The members of p->init, each with the new rows (joint_init.c). */
wisp_status wisp_joint_go_on(struct wisp_trials *p, wisp_error *err);

/* What 'auto' tries, and how it decides (auto.c). */
wisp_status wisp_auto_try(struct wisp_trials *p, wisp_error *err);
/* Does the option say something about nets?  Then there is a net to train, and linear models do not take it. */
bool wisp_auto_of_net(enum wisp_opt option);
/* Is it what a training with these options and rows means, where no net is named? */
bool wisp_auto_is_meant(const wisp_config *cfg, const struct wisp_data *train);

#endif
