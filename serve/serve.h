/* wisp serve: models that answer requests. */
#ifndef WISP_SERVE_SERVE_H
#define WISP_SERVE_SERVE_H

#include "wisp/wisp.h"

#include <stdbool.h>
#include <stddef.h>

struct serve_call {
    const wisp_config *cfg; /* options of 'serve' */
    const char *const *models;
    size_t n_models;
    const char *token;             /* NULL: the one of option token-file, or none */
    void (*say)(const char *line); /* what a person should know */
};

/* Answers until a signal asks it to end (SIGTERM, SIGINT), and has answered what was asked before. */
wisp_status serve(const struct serve_call *call, wisp_error *err);

#endif
