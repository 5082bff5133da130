/* wisp serve MODEL... */
#include "cli.h"
#include "serve/serve.h"

#include <stdlib.h>

static void say(const char *line)
{
    tell("%s", line);
}

static void say_nothing(const char *line)
{
    (void)line;
}

int cmd_serve(const struct args *a)
{
    wisp_error err = { 0 };
    const char *token = getenv("WISP_TOKEN");
    const struct serve_call call = { .cfg = a->cfg,
                                     .models = a->files,
                                     .n_models = (size_t)a->n_files,
                                     .token = token && *token ? token : NULL,
                                     .say = args_on(a, "quiet") ? say_nothing : say };
    return serve(&call, &err) == WISP_OK ? 0 : fail(&err);
}
