/* Who knows the connections of layers whose net names a file of them: then the file is not opened,
 * and may be gone.
 *
 *   another net         which was planned from the same text: scoring beside a run, --init
 *   a model's file      the text is never looked up in it
 *   a run's checkpoint  a run goes on with the connections that it began with */
#ifndef WISP_MODEL_KNOWN_H
#define WISP_MODEL_KNOWN_H

#include "model/file.h"
#include "model/net.h"

struct wisp_net_known {
    struct wisp_known known; /* first */
    const struct wisp_net *net;
};
struct wisp_net_known wisp_net_known(const struct wisp_net *net);

struct wisp_file_known {
    struct wisp_known known; /* first */
    const struct wisp_tensor_file *file;
    const char *prefix; /* of the names of tensors (loader.h) */
    bool must;          /* what is not there is an error */
};
struct wisp_file_known wisp_file_known(const struct wisp_tensor_file *file, const char *prefix,
                                       bool must);

struct wisp_run;
struct wisp_run_known { /* the model that a run goes on from, or its checkpoint if it is resumed */
    struct wisp_known known; /* first */
    const struct wisp_run *run;
    bool resumes;
    bool tried; /* to open: */
    struct wisp_tensor_file state;
};
void wisp_run_known_init(struct wisp_run_known *k, const struct wisp_run *r, bool resumes);
void wisp_run_known_clear(struct wisp_run_known *k);

#endif
