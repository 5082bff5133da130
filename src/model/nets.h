/* The text of a net: as an option says it, read from a file, or one that wisp brings along. */
#ifndef WISP_MODEL_NETS_H
#define WISP_MODEL_NETS_H

#include "base/error.h"
#include "data/data.h"

#include <stdbool.h>

struct wisp_preset { /* of the folder nets/; the Makefile makes the table */
    const char *name, *text;
};
extern const struct wisp_preset wisp_presets[]; /* ends with a name of NULL */

struct wisp_net_text {
    char *text;  /* as it was written: what messages point into */
    char *where; /* what stands before them: "--net", or the file's name */
    char *line;  /* what a model keeps: without comments, on one line */
};
/* What --net says: a net, the name of a preset, or a path that ends in ".net". */
wisp_status wisp_net_text_read(struct wisp_net_text *out, const char *option, wisp_error *err);
/* A text that is a net itself. */
wisp_status wisp_net_text_set(struct wisp_net_text *out, const char *text, wisp_error *err);
/* Does the net, as far as its text can be read, have a layer that reads images?  Its size, which may
 * be NULL: what it says of them, 0 x 0 where it does not. */
bool wisp_net_text_images(const struct wisp_net_text *t, struct wisp_image *size);
/* Has it a hidden layer whose rows a sampler may choose? */
bool wisp_net_text_samples(const struct wisp_net_text *t);
/* Layers with matrices below the head, the first among them, on the longest way through the net of
 * this text; 1 where it cannot be read. */
int wisp_net_text_depth(const char *text);
void wisp_net_text_clear(struct wisp_net_text *t);
/* The text on one line, without comments: a net of the same layers.  'to' has room for twice the
 * text.  A text that is one line without comments stays what it is. */
void wisp_net_line(char *to, const char *text);

#endif
