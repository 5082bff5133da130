/* Lists of finders as options say them: "neighbours+random". */
#include "base/error.h"
#include "hash/sampler.h"

#include <assert.h>

wisp_status wisp_sampling_check(const char *names, const char *option, bool has_labels,
                                wisp_error *err)
{
    const struct wisp_finder_kind *had[WISP_MAX_FINDERS];
    const char *p = names;
    size_t length;
    int n = 0;
    do {
        const char *name = p;
        const struct wisp_finder_kind *k = wisp_finder_next(&p, &length);
        if (!k)
            return wisp_fail_option(
                err, option, "no '%.*s' in '%s'; 'wisp info' lists the samplers, joined by +",
                (int)length, name, names);
        if (!k->create && (n > 0 || *p))
            return wisp_fail_option(err, option, "'%s' is all rows: nothing joins it", k->name);
        if (k->needs_labels && !has_labels)
            return wisp_fail_option(err, option, "'%s' needs labels: a hidden layer has none",
                                    k->name);
        for (int i = 0; i < n; i++) /* its state would have the name of the other's */
            if (had[i] == k)
                return wisp_fail_option(err, option, "'%s' twice in '%s'", k->name, names);
        assert(n < WISP_MAX_FINDERS); /* there are no more kinds, and none comes twice */
        had[n++] = k;
    } while (*p || p[-1] == '+');
    return WISP_OK;
}

bool wisp_sampling_is_full(const char *names)
{
    size_t length;
    return !wisp_finder_next(&names, &length)->create;
}

bool wisp_sampling_only_draws(const char *names)
{
    size_t length;
    return wisp_finder_next(&names, &length)->draws && !*names;
}

const struct wisp_finder_kind *wisp_sampling_alone(const char *names)
{
    size_t length;
    for (const char *p = names; *p;) {
        const struct wisp_finder_kind *k = wisp_finder_next(&p, &length);
        if (k->create && !k->shared) return k;
    }
    return NULL;
}

bool wisp_sampling_needs_votes(const char *names)
{
    size_t length;
    for (const char *p = names; *p;)
        if (wisp_finder_next(&p, &length)->needs_votes) return true;
    return false;
}
