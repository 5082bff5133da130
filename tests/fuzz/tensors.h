/* Tensor files for fuzz targets: walking through what was accepted. */
#ifndef WISP_TESTS_FUZZ_TENSORS_H
#define WISP_TESTS_FUZZ_TENSORS_H

#include "fuzz/rig.h"

#include "fuzz/repair.h"

/* All that an accepted file promises; data at multiples of 'align'. */
static inline void tensors_use(const struct wisp_tensor_file *f, size_t align)
{
    unsigned sum = 0;
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct wisp_tensor *t = &f->tensors[i];
        const unsigned char *p = t->data;
        size_t want = wisp_dtypes[t->dtype].bytes;
        for (int d = 0; d < WISP_MAX_DIMS; d++) want *= t->shape[d];
        if (t->bytes != want || (uintptr_t)p % align || !memchr(t->name, 0, sizeof t->name))
            fuzz_die("a tensor", NULL);
        if (p < f->map.p || t->bytes > f->map.bytes - (size_t)(p - f->map.p))
            fuzz_die("a tensor outside of the file", NULL);
        if (wisp_tensor_file_find(f, t->name) != t) fuzz_die("a name twice", NULL);
        for (size_t j = 0; j < t->bytes; j++) sum += p[j];
    }
    for (size_t i = 0; i < f->n_meta; i++)
        sum += (unsigned)(strlen(f->meta[i].key) + strlen(f->meta[i].value));
    fuzz_sink = sum;
    if (strlen(f->check) != 32) fuzz_die("the checksum's text", NULL);
}

#endif
