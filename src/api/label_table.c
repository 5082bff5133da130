/* Figures of each label as a table; what would break a line of it is escaped. */
#include "api/label_table.h"
#include "base/file.h"
#include "base/text.h"

#include <stdio.h>

static wisp_status put_name(struct wisp_out *o, const struct wisp_model *m, int32_t label,
                            wisp_error *err)
{
    size_t bytes = 0;
    const char *name = wisp_model_label_name(m, label, &bytes);
    char text[32];
    wisp_status st = WISP_OK;
    if (!name) {
        snprintf(text, sizeof text, "%d", label);
        return wisp_out_write(o, text, strlen(text), err);
    }
    for (size_t i = 0; i < bytes && st == WISP_OK; i++) {
        const unsigned char c = (unsigned char)name[i];
        snprintf(text, sizeof text, c < 0x20 || c == 0x7f ? "\\x%02x" : "%c", c);
        st = wisp_out_write(o, text, strlen(text), err);
    }
    return st;
}

static wisp_status put_label(struct wisp_out *o, const struct wisp_model *m, size_t l,
                             const struct wisp_decisions *d, const struct wisp_guesses *g,
                             wisp_error *err)
{
    char line[200];
    wisp_status st = put_name(o, m, (int32_t)l, err);
    wisp_print(line, sizeof line, "\t%lld\t%llu\t%llu\t%.4f\t%.4f\t%.4f\t%.4f\n",
               (long long)m->label_rows[l], (unsigned long long)d->n_true,
               (unsigned long long)(d->tp + d->fp), wisp_decisions_precision(*d),
               wisp_decisions_recall(*d), wisp_decisions_f1(*d),
               wisp_guesses_average_precision(g, l));
    return st == WISP_OK ? wisp_out_write(o, line, strlen(line), err) : st;
}

wisp_status wisp_label_table(const char *path, const struct wisp_model *m,
                             const struct wisp_decisions *of, struct wisp_guesses *g,
                             wisp_error *err)
{
    static const char titles[] =
        "label\ttraining_rows\trows\tpredicted\tprecision\trecall\tf1\taverage_precision\n";
    struct wisp_out *o;
    wisp_status st = wisp_guesses_sort(g, err);
    if (st == WISP_OK) st = wisp_out_create(&o, path, err);
    if (st != WISP_OK) return st;
    st = wisp_out_write(o, titles, sizeof titles - 1, err);
    for (size_t l = 0; l < m->net.n_labels && st == WISP_OK; l++)
        st = put_label(o, m, l, &of[l], g, err);
    if (st == WISP_OK) return wisp_out_commit(o, err);
    wisp_out_abort(o);
    return st;
}
