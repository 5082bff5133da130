/* What rows count for: weights set by the caller, and files of weights. */
#include "base/mem.h"
#include "data/data.h"
#include "data/number.h"
#include "data/text.h"

#include <math.h>
#include <string.h>

enum { WORD = 64 }; /* the longest number that a file of weights may have */

wisp_status wisp_data_set_weights(wisp_data *d, const float *weights, wisp_error *err)
{
    float *copy = NULL;
    for (size_t i = 0; weights && i < d->n_rows; i++)
        if (!(weights[i] >= 0 && isfinite(weights[i])))
            return wisp_fail_row(err, WISP_EINVAL, i, 0,
                                 "its weight is %g; expected a finite number, 0 or more",
                                 (double)weights[i]);
    if (weights && !(copy = wisp_alloc(d->n_rows, sizeof *copy)))
        return wisp_fail_mem(err, d->n_rows * sizeof *copy, "the weights of rows");
    if (copy) memcpy(copy, weights, d->n_rows * sizeof *copy);
    wisp_free(d->weights);
    d->weights = copy;
    return WISP_OK;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* One line from 'p' to 'end', which is not part of it. */
static wisp_status take_line(const char *path, size_t line, const char *p, const char *end,
                             wisp_on_weight take, void *arg, wisp_error *err)
{
    char word[WORD], found[WISP_EXCERPT];
    const char *after;
    float weight = 0;
    while (p < end && blank(*p)) p++;
    while (end > p && blank(end[-1])) end--;
    const char *number = end;
    while (number > p && !blank(number[-1])) number--;
    size_t n = (size_t)(end - number), bytes = (size_t)(number - p);
    memcpy(word, number, n < WORD ? n : 0);
    word[n < WORD ? n : 0] = 0;
    after = wisp_number_parse(&weight, word);
    if (!after || *after || n >= WORD || !(weight >= 0 && isfinite(weight)))
        return wisp_fail_at(err, WISP_EFORMAT, path, line,
                            "found '%s', expected a weight: a finite number, 0 or more",
                            wisp_text_excerpt(found, number, end, NULL));
    while (bytes > 0 && blank(p[bytes - 1])) bytes--;
    return take(arg, line, p, bytes, weight, err);
}

wisp_status wisp_sample_weights_read(const char *path, wisp_on_weight take, void *arg,
                                     wisp_error *err)
{
    struct wisp_map map;
    wisp_status st = wisp_map_open(&map, path, err);
    if (st != WISP_OK) return st;
    const char *p = map.p ? (const char *)map.p : "", *end = p + map.bytes;
    if (map.bytes >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) p += 3;
    for (size_t line = 1; st == WISP_OK && p < end; line++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl) nl = end;
        st = take_line(path, line, p, nl, take, arg, err);
        p = nl + (nl < end);
    }
    return wisp_map_end(&map, st, err);
}
