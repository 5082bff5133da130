/* Base64 (RFC 4648). */
#include "serve/base64.h"

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

bool base64_decode(char *to, size_t *n, const char *from)
{
    unsigned bits = 0, held = 0;
    size_t out = 0, i = 0, ends = 0;
    for (; i < *n; i++) {
        if (from[i] == '\n' || from[i] == '\r' || from[i] == ' ') continue;
        if (from[i] == '=' && ++ends <= 2) continue;
        const int d = digit(from[i]);
        if (d < 0 || ends) return false;
        bits = bits << 6 | (unsigned)d;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        to[out++] = (char)(bits >> held & 0xff);
    }
    *n = out;
    return held < 6 && (bits & ((1u << held) - 1)) == 0;
}
