/* Making the checksums of a tensor file match whatever its bytes say: a checksum is no signature,
 * so what lies behind it must stand on its own. */
#ifndef WISP_TESTS_FUZZ_REPAIR_H
#define WISP_TESTS_FUZZ_REPAIR_H

#include "model/file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { TENSORS_MOST = 1024 };

struct tensors_span {
    uint64_t begin, end;
};

static inline int tensors_by_place(const void *a, const void *b)
{
    const struct tensors_span *x = a, *y = b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1)
                                : (x->end > y->end) - (x->end < y->end);
}

static inline void tensors_sum128(uint8_t *to, const uint8_t *p, size_t n)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(p, n));
    memcpy(to, c.digest, sizeof c.digest);
}

/* Writes the sums that the reader wants where its header says that __integrity__ lies, if the
 * header can be read and its places make sense.  Tensors here are shorter than a chunk. */
static inline void tensors_fix(uint8_t *b, size_t n)
{
    uint64_t head;
    static struct tensors_span spans[TENSORS_MOST];
    size_t n_spans = 0;
    if (n < 8) return;
    memcpy(&head, b, 8);
    if (head > n - 8) return;
    json_t *json = json_loadb((char *)b + 8, head, 0, NULL), *v;
    const char *key;
    uint64_t sums = UINT64_MAX;
    json_object_foreach(json, key, v)
    {
        json_t *at = json_object_get(v, "data_offsets");
        json_int_t begin = json_integer_value(json_array_get(at, 0)),
                   end = json_integer_value(json_array_get(at, 1));
        if (strcmp(key, WISP_INTEGRITY) == 0) sums = (uint64_t)begin;
        else if (at && begin >= 0 && end > begin && (uint64_t)end <= n - 8 - head &&
                 n_spans < TENSORS_MOST)
            spans[n_spans++] = (struct tensors_span){ (uint64_t)begin, (uint64_t)end };
    }
    json_decref(json);
    const size_t want = 32 + 8 * n_spans;
    if (sums > n - 8 - head || n - 8 - head - sums < want) return;
    uint8_t *data = b + 8 + head, *to = data + sums;
    qsort(spans, n_spans, sizeof *spans, tensors_by_place);
    tensors_sum128(to, b, 8 + head);
    for (size_t i = 0; i < n_spans; i++) {
        XXH64_canonical_t d;
        XXH64_canonicalFromHash(&d,
                                XXH3_64bits(data + spans[i].begin, spans[i].end - spans[i].begin));
        memcpy(to + 16 + 8 * i, d.digest, 8);
    }
    tensors_sum128(to + want - 16, to, want - 16);
}

#endif
