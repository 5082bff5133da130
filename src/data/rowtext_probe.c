/* Does text look like rows of numbers?  Asked of the first bytes of a file, which may end anywhere.
 */
#include "data/number.h"
#include "data/rowtext.h"

#include <string.h>

static const char *skip_blanks(const char *p, const char *end)
{
    while (p < end && (wisp_is_blank(*p) || *p == '\r')) p++;
    return p;
}

/* The first line with more than a comment. */
static const char *first_row(const char *p, const char *end)
{
    for (const char *line = p; line < end;) {
        p = skip_blanks(p, end);
        if (p < end && *p != '#' && *p != '\n') break;
        const char *nl = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        line = p = nl ? nl + 1 : end;
    }
    return p;
}

/* One "id:value": what follows it; NULL: it is something else. */
static const char *feature(const char *p, const char *end)
{
    const char *token = p;
    while (p < end && wisp_is_digit(*p)) p++;
    if (p == token || p == end || *p != ':') return NULL;
    for (p++; p < end && *p != '\r' && !wisp_is_blank(*p); p++)
        if (!wisp_is_digit(*p) && (!*p || !strchr("+-.eE", *p))) return NULL;
    return skip_blanks(p, end);
}

/* How many features are there from p to the end of the line; -1: there is something else. */
static int features_of(const char *p, const char *end)
{
    int n = 0;
    for (p = skip_blanks(p, end); p < end && *p != '#'; n++)
        if (!(p = feature(p, end))) return -1;
    return n;
}

/* What follows the labels, if the line begins with numbers. */
static const char *number_labels(const char *p, const char *end)
{
    const char *begin = p;
    while (p < end && (wisp_is_digit(*p) || *p == ',')) p++;
    return p < end && *p == ':' ? begin : p;
}

/* "spam 3:0.5 7:1": labels that are words, and features.  fastText's mark begins other text. */
static bool word_labels(const char *p, const char *end)
{
    static const char mark[] = "__label__";
    const char *word = p;
    if ((size_t)(end - p) >= sizeof mark - 1 && memcmp(p, mark, sizeof mark - 1) == 0) return false;
    while (p < end && !wisp_is_blank(*p) && *p != ':' && *p) p++;
    return p > word && p < end && wisp_is_blank(*p) && features_of(p, end) > 0;
}

bool wisp_rowtext_probe(const char *head, size_t n)
{
    const char *end = head + n, *row = first_row(head, end), *p = row;
    const char *nl = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
    bool digit = false;
    for (; p < end && *p != '\n' && *p != ':'; p++) {
        if (!*p || !strchr("0123456789,.+-eE \t\r", *p)) return word_labels(row, nl ? nl : end);
        digit |= wisp_is_digit(*p);
    }
    return digit;
}

bool wisp_rowtext_certain(const char *head, size_t n)
{
    const char *p = head, *end = head + n;
    int features = 0;
    for (bool first = true; p < end; first = false) {
        const char *nl = memchr(p, '\n', (size_t)(end - p)), *stop = nl ? nl : end;
        if (!nl && features > 1) break; /* a line that is cut off */
        bool header = first && wisp_xc_header(p, (size_t)(stop - p));
        int k = header ? 0 : features_of(number_labels(p, stop), stop);
        if (k < 0) return false;
        features += k;
        p = nl ? nl + 1 : end;
    }
    return features > 1; /* "12:30" may be a time */
}
