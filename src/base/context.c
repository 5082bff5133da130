/* wisp_say: the library's only way to speak. */
#include "base/context.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

void wisp_say(const struct wisp_context *ctx, const char *fmt, ...)
{
    if (!ctx || !ctx->say) return;
    char line[1000];
    va_list ap;
    va_start(ap, fmt);
    wisp_vprint(line, sizeof line, fmt, ap);
    va_end(ap);
    ctx->say(ctx->say_arg, line);
}
