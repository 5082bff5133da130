/* The table of kinds of models. */
#include "model/joint.h"
#include "config/options.h"
#include "model/torch.h"

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

/* The kind of the model that --init names; NULL: there is none.  What is wrong with the file is said by whoever
 * opens it to train. */
static const struct wisp_model_kind *kind_of_init(const wisp_config *cfg)
{
    const char *path = wisp_opt_text(cfg, OPT_INIT);
    struct wisp_tensor_file f = { 0 };
    if (!*path || wisp_torch_is(path) || wisp_tensor_file_open(&f, NULL, path, NULL) != WISP_OK)
        return NULL;
    const char *spec = wisp_tensor_file_meta(&f, "net");
    const struct wisp_model_kind *kind = spec ? wisp_kind_of_text(spec) : NULL;
    wisp_tensor_file_close(&f);
    return kind;
}

const struct wisp_model_kind *wisp_kind_to_train(const wisp_config *cfg,
                                                 const struct wisp_data *train)
{
    static const enum wisp_opt says[] = { OPT_NET, OPT_HIDDEN, OPT_DROPOUT, OPT_ENSEMBLE };
    bool said = false;
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) said |= wisp_opt_given(cfg, says[i]);
    const struct wisp_model_kind *init = said ? NULL : kind_of_init(cfg);
    if (init) return init;
    const bool several =
        wisp_opt_num(cfg, OPT_ENSEMBLE) > 1 || (train && wisp_auto_is_meant(cfg, train));
    return several ? &wisp_kind_joint : wisp_kind_named(cfg);
}

const struct wisp_model_kind *wisp_kind_of(const struct wisp_model *m)
{
    return m->kind ? m->kind : &wisp_kind_net;
}

const struct wisp_net *wisp_model_reads(const struct wisp_model *m)
{
    for (size_t i = 0; m->joint && i < m->joint->n; i++)
        if (wisp_model_is_net(m->joint->members[i])) return &m->joint->members[i]->net;
    return &m->net;
}

bool wisp_model_is_net(const struct wisp_model *m)
{
    return wisp_kind_of(m) == &wisp_kind_net;
}

enum wisp_guide wisp_model_guide(const struct wisp_model *m)
{
    const struct wisp_model_kind *kind = wisp_kind_of(m);
    if (kind->guide) return kind->guide(m);
    return m->votes.start ? WISP_GUIDE_VOTES : WISP_GUIDE_NONE;
}

wisp_status wisp_model_need_net(const struct wisp_model *m, const char *what, wisp_error *err)
{
    if (wisp_model_is_net(m)) return WISP_OK;
    return wisp_fail(err, WISP_ENOTSUP, "%s: found a %s model, expected a net", what,
                     wisp_kind_of(m)->name);
}
