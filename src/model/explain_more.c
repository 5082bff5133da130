/* Taking the logits of linear and of joint models apart (explain.h).
 *
 * A linear model is the sum that an explanation is.  Of a joint model the members' parts are added,
 * each times its member's weight: what is explained is the weighted mean of their logits.  (Its score
 * is the weighted mean of their probabilities, which is no sum over features.) */
#include "base/mem.h"
#include "model/explain.h"
#include "model/joint.h"

wisp_status wisp_explain_linear_ready(struct wisp_explainer *e, wisp_error *err)
{
    (void)e, (void)err;
    return WISP_OK;
}

void wisp_explain_linear_done(struct wisp_explainer *e)
{
    (void)e;
}

wisp_status wisp_explain_linear(struct wisp_account *to, struct wisp_explainer *e,
                                const struct wisp_batch *b, int32_t label, double weight,
                                wisp_error *err)
{
    (void)err;
    const struct wisp_linear *m = &e->m->linear;
    double z = (double)m->bias[label];
    to->bias += weight * z;
    for (uint32_t i = b->xp[0]; i < b->xp[1]; i++) {
        const float w = wisp_linear_weight(m, (size_t)b->xi[i], (size_t)label);
        const double part = (double)b->xv[i] * (double)w;
        to->sum[b->xi[i]] += weight * part;
        z += part;
    }
    to->logit += weight * z;
    return WISP_OK;
}

wisp_status wisp_explain_joint_ready(struct wisp_explainer *e, wisp_error *err)
{
    const struct wisp_joint *j = e->m->joint;
    struct wisp_explainer *of = e->own = wisp_zalloc(j->n, sizeof *of);
    wisp_status st = of ? WISP_OK : wisp_fail_mem(err, j->n * sizeof *of, "explaining");
    for (size_t i = 0; i < j->n && st == WISP_OK; i++) {
        st = wisp_explainer_init_member(&of[i], j->members[i], &e->ctx, err);
        if (st == WISP_OK && !e->reads) e->reads = of[i].reads;
    }
    return st;
}

void wisp_explain_joint_done(struct wisp_explainer *e)
{
    struct wisp_explainer *of = e->own;
    for (size_t i = 0; i < e->m->joint->n; i++)
        if (of[i].m) wisp_explainer_clear(&of[i]);
    wisp_free(of);
}

wisp_status wisp_explain_joint(struct wisp_account *to, struct wisp_explainer *e,
                               const struct wisp_batch *b, int32_t label, double weight,
                               wisp_error *err)
{
    const struct wisp_joint *j = e->m->joint;
    struct wisp_explainer *of = e->own;
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < j->n && st == WISP_OK; i++)
        st = wisp_kind_of(of[i].m)->explain(to, &of[i], b, label, weight * (double)j->mix[i], err);
    return st;
}
