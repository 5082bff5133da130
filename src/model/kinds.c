/* The table of kinds of models. */
#include "model/joint.h"
#include "config/options.h"

static const struct wisp_model_kind *const kinds[] = {
#define X(name) &wisp_kind_##name,
    WISP_MODEL_KINDS(X)
#undef X
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const struct wisp_model_kind *wisp_kind_at(size_t i)
{
    return i < N_KINDS ? kinds[i] : NULL;
}

const struct wisp_model_kind *wisp_kind_of_text(const char *spec)
{
    size_t i = 0;
    while (kinds[i]->is && !kinds[i]->is(spec)) i++; /* the last one has none */
    return kinds[i];
}

const struct wisp_model_kind *wisp_kind_named(const wisp_config *cfg)
{
    const char *net = wisp_opt_text(cfg, OPT_NET);
    return !*net && wisp_opt_is(cfg, OPT_HIDDEN, "0") ? &wisp_kind_linear : wisp_kind_of_text(net);
}

const struct wisp_model_kind *wisp_kind_to_train(const wisp_config *cfg,
                                                 const struct wisp_data *train)
{
    const bool several =
        wisp_opt_num(cfg, OPT_ENSEMBLE) > 1 || (train && wisp_auto_is_meant(cfg, train));
    return several ? &wisp_kind_joint : wisp_kind_named(cfg);
}

const struct wisp_model_kind *wisp_kind_of(const struct wisp_model *m)
{
    return m->kind ? m->kind : &wisp_kind_net;
}

bool wisp_model_is_net(const struct wisp_model *m)
{
    return wisp_kind_of(m) == &wisp_kind_net;
}

wisp_status wisp_model_need_net(const struct wisp_model *m, const char *what, wisp_error *err)
{
    if (wisp_model_is_net(m)) return WISP_OK;
    return wisp_fail(err, WISP_ENOTSUP, "%s: found a %s model, expected a net", what,
                     wisp_kind_of(m)->name);
}
