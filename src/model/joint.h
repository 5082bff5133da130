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

#include "model/kind.h"

#include <limits.h>

enum {
    WISP_JOINT_MOST = 16,      /* members */
    WISP_JOINT_CANDIDATES = 50 /* of each member; more where more answers are asked for */
};

struct wisp_joint {
    size_t n;
    struct wisp_model *members[WISP_JOINT_MOST]; /* owned; they borrow what the joint model has */
    float mix[WISP_JOINT_MOST];                  /* from 0 on; their sum is 1 */
    bool lent; /* the other way round: the joint model borrows from its first member */
    char keys[WISP_JOINT_MOST][7][40]; /* of the metadata, while it is written */
};

/* A joint model of whole models (as wisp_model_open gives them) with equal weights; takes them over, also on
 * failure.  They must have the same features, labels and values. */
wisp_status wisp_joint_make(struct wisp_model **out, struct wisp_model **members, size_t n,
                            wisp_error *err);

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

/* ---- parts: runs of a joint training, each an ordinary one at PATH.0, PATH.1, ... (trials.c) ---- */

struct wisp_trial {
    char what[80]; /* for a person */
    int group;     /* parts of a group share one weight */
    int n_set;
    struct { /* options that differ from the user's */
        const char *key;
        char value[64];
    } set[8];
    double seconds, valid; /* once it is trained: what it took, and P@1 of held-out rows */
};
struct wisp_trials {
    struct wisp_context *ctx;
    const wisp_config *cfg;
    const struct wisp_data *train, *valid;
    const char *path;
    wisp_on_progress told;
    void *arg;
    int n, now; /* parts; the one that is being trained */
    struct wisp_trial part[WISP_JOINT_MOST];
    struct wisp_data
        *held_out; /* owned: the rows that no part is trained on, where 'valid' is NULL */
};
/* Adds a part that has the user's options; NULL: there are enough. */
struct wisp_trial *wisp_trials_add(struct wisp_trials *p, int group, const char *what);
void wisp_trial_set(struct wisp_trial *part, const char *key, const char *value);
void wisp_trial_set_num(struct wisp_trial *part, const char *key, double value);
void wisp_trials_path(char out[PATH_MAX], const struct wisp_trials *p, int i);
/* Trains part i, or finds it trained (--resume). */
wisp_status wisp_trials_train(struct wisp_trials *p, int i, wisp_error *err);
/* The rows to choose by; there may be none. */
wisp_status wisp_trials_rows(const struct wisp_data **out, struct wisp_trials *p, wisp_error *err);
/* Removes the models of all parts. */
void wisp_trials_remove(const struct wisp_trials *p);

/* ---- training (joint_train.c) ---- */

/* --ensemble N, --net linear+net.  As wisp_train_run. */
wisp_status wisp_joint_train(struct wisp_report **out, struct wisp_context *ctx,
                             const wisp_config *cfg, const struct wisp_data *train,
                             const struct wisp_data *valid, const char *path,
                             wisp_on_progress on_progress, void *arg, wisp_error *err);

#endif
