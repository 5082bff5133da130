/* Base64 (RFC 4648), as pictures come in JSON. */
#ifndef WISP_SERVE_BASE64_H
#define WISP_SERVE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Decodes the *n characters at 'from' to 'to', which may begin at or before 'from' in the same array;
 * *n: how many bytes that are.  Blanks and '=' at the end are fine. */
bool base64_decode(char *to, size_t *n, const char *from);

#endif
