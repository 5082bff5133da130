/* Opening rows that training goes on with (--init). */
#ifndef WISP_API_GROW_H
#define WISP_API_GROW_H

#include "config/options.h"
#include "data/data.h"

/* A model's words are cut as it was trained; columns of a table may have other names this time, and
 * it may have a first line of them or none: 'how' is what the options say, and becomes what holds. */
void wisp_text_of_model(struct wisp_text_how *how, const struct wisp_text_how *m,
                        const wisp_config *cfg);
/* As wisp_data_open, 'o' being what the options say about reading.  Ids of the rows are those of
 * the model that option "init" names, and further ones. */
wisp_status wisp_grow_open(wisp_data **out, wisp_context *ctx, const char *path,
                           const wisp_config *cfg, const struct wisp_read_options *o,
                           wisp_error *err);
/* The same for rows of text in memory, whose labels are ids already. */
wisp_status wisp_grow_text(wisp_data **out, wisp_context *ctx, const struct wisp_memory_rows *rows,
                           const wisp_config *cfg, const struct wisp_read_options *o,
                           wisp_error *err);

#endif
