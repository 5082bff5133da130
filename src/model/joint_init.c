/* Going on from a joint model (--init): every member goes on by itself, as its kind does, over the same held-out
 * rows.  A run goes on from a file, so each member is first written to one of its own, PATH.from.0,
 * PATH.from.1 and so on, with what the joint model has for all: names, values, counts and votes.  The
 * same model gives the same files, so a resumed run finds its members' checkpoints to be of them. */
#include "base/text.h"
#include "model/joint.h"

/* The member borrows the names while it is written. */
static wisp_status write_member(const struct wisp_trials *p, int i, wisp_error *err)
{
    const struct wisp_model *all = p->init;
    struct wisp_model alone = *all->joint->members[i];
    char path[PATH_MAX];
    wisp_trials_from(path, p, i);
    alone.labels = all->labels;
    alone.vocab = all->vocab;
    alone.stop = all->stop;
    alone.text = all->text;
    alone.how = all->how;
    alone.named = all->named;
    alone.format = all->format;
    alone.index_base = all->index_base;
    return wisp_model_save(&alone, path, -1, 1, NULL, err);
}

/* Members of one kind share a weight: linear ones are group 0 where there are some, as in every joint training. */
static wisp_status train_member(struct wisp_trials *p, int i, bool any_linear, wisp_error *err)
{
    const struct wisp_model *m = p->init->joint->members[i];
    double seed = wisp_opt_num(p->cfg, OPT_SEED); /* that of the first net, as in a new ensemble */
    char what[60];
    for (int k = 0; k < i; k++) seed += wisp_model_is_net(p->init->joint->members[k]);
    if (!wisp_model_is_net(m)) return wisp_trials_linear(p, i + 1, err);
    wisp_print(what, sizeof what, "net, seed %.0f", seed);
    struct wisp_trial *t = wisp_trials_add(p, any_linear, what);
    t->from = i + 1;
    wisp_trial_set_num(t, "seed", seed);
    return wisp_trials_train(p, err);
}

wisp_status wisp_joint_go_on(struct wisp_trials *p, wisp_error *err)
{
    const struct wisp_joint *j = p->init->joint;
    const int n = (int)j->n;
    bool any_linear = false;
    wisp_status st = WISP_OK;
    for (int i = 0; i < n; i++) any_linear |= !wisp_model_is_net(j->members[i]);
    p->planned = n;
    wisp_say(p->ctx,
             "joint     goes on from %s: its %d members, one after the other; then one model of "
             "them, with weights by the new rows that are held out",
             wisp_opt_text(p->cfg, OPT_INIT), n);
    for (int i = 0; i < n && st == WISP_OK; i++) {
        st = write_member(p, i, err);
        if (st == WISP_OK) st = train_member(p, i, any_linear, err);
    }
    return st;
}
