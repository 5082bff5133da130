/* Checksums of binary files for fuzz targets.  Caches and files of nets have one plan:
 *
 *   head (64 bytes) | parts | index: fixed fields, entry[n_parts], ... | tail (64 bytes)
 *   entry: offset | bytes | XXH3-64, ...       tail: offset | bytes | XXH3-64 | ... | its own */
#ifndef WISP_TESTS_FUZZ_CHECKS_H
#define WISP_TESTS_FUZZ_CHECKS_H

#include <stdint.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static inline uint64_t checks_get(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void checks_put(uint8_t *to, const uint8_t *p, size_t n)
{
    const uint64_t check = XXH3_64bits(p, n);
    memcpy(to, &check, sizeof check);
}

struct checks_plan {
    size_t fixed, n_parts_at, entry; /* bytes of the fields, where n_parts is, bytes of an entry */
    size_t head, again_at; /* of a part: bytes that are not summed; where in them the sum is, too */
};

/* Makes all sums match what they are of, as far as places make sense. */
static inline void checks_fix(uint8_t *b, size_t n, const struct checks_plan *plan)
{
    if (n < 128 + plan->fixed) return;
    uint8_t *tail = b + n - 64;
    const uint64_t at = checks_get(tail), bytes = checks_get(tail + 8);
    if (at <= n - 64 && bytes <= n - 64 - at && bytes >= plan->fixed) {
        const uint64_t parts = checks_get(b + at + plan->n_parts_at);
        for (uint64_t i = 0; i < parts && plan->fixed + plan->entry * (i + 1) <= bytes; i++) {
            uint8_t *e = b + at + plan->fixed + plan->entry * i;
            const uint64_t from = checks_get(e), len = checks_get(e + 8);
            if (from > n || len > n - from || len < plan->head) continue;
            checks_put(e + 16, b + from + plan->head, len - plan->head);
            if (plan->head) memcpy(b + from + plan->again_at, e + 16, 8);
        }
        checks_put(tail + 16, b + at, bytes);
    }
    checks_put(tail + 56, tail, 56);
}

#endif
