/* Fuzzing the model file reader: any bytes are either refused or safe to use.
 *
 * LLVMFuzzerTestOneInput opens the bytes through a file in memory, as a file of tensors and as a
 * model, and, when they are accepted, reads all that it was given.  Without -DWISP_LIBFUZZER a
 * main() mutates a valid model, with weights of all types, with a fixed seed; half of the mutants
 * get checksums that match, so that the checks behind them are reached too. */
#include "test.h"
#include "base/mem.h"
#include "model/model.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int fd = -1;
static char path[40];
static wisp_error err;
static wisp_status last, last_model;
static volatile unsigned sink; /* reads that must not be optimised away */

/* All that an accepted file promises; 0 when a promise is broken. */
static int use(const struct wisp_tensor_file *f)
{
    unsigned sum = 0;
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct wisp_tensor *t = &f->tensors[i];
        const unsigned char *p = t->data;
        size_t want = wisp_dtypes[t->dtype].bytes * t->shape[0] * t->shape[1];
        if (t->bytes != want || (uintptr_t)p % 64 || !memchr(t->name, 0, sizeof t->name)) return 0;
        if (p < f->map.p || t->bytes > f->map.bytes - (size_t)(p - f->map.p)) return 0;
        if (wisp_tensor_file_find(f, t->name) != t) return 0;
        for (size_t j = 0; j < t->bytes; j++) sum += p[j];
    }
    for (size_t i = 0; i < f->n_meta; i++)
        sum += (unsigned)(strlen(f->meta[i].key) + strlen(f->meta[i].value));
    sink = sum;
    return strlen(f->check) == 32;
}

/* All weights of a model: of each parameter in one type, of int8 with scales that are numbers. */
static int use_model(const struct wisp_model *m)
{
    unsigned sum = 0;
    for (int i = 0; i < m->net.n_layers; i++)
        for (int k = 0; k < m->net.layers[i].n_params; k++) {
            const struct wisp_param *p = &m->net.layers[i].params[k];
            const unsigned char *w = p->w     ? (const unsigned char *)p->w
                                     : p->b16 ? (const unsigned char *)p->b16
                                              : (const unsigned char *)p->i8;
            size_t bytes = p->rows * p->cols * (p->w ? 4 : p->b16 ? 2 : 1);
            if (!!p->w + !!p->b16 + !!p->i8 != 1 || !p->scale != !p->i8) return 0;
            for (size_t j = 0; j < bytes; j++) sum += w[j];
            for (size_t row = 0; p->i8 && row < p->rows; row++)
                if (!(p->scale[row] >= 0 && p->scale[row] - p->scale[row] == 0)) return 0;
        }
    for (size_t l = 0; l < m->net.n_labels; l++) sum += (unsigned)m->label_rows[l];
    sink = sum + (unsigned)strlen(m->describe);
    return 1;
}

/* One line of reason for what is refused, and for nothing else. */
static int explained(wisp_status st)
{
    return st == WISP_OK ||
           ((st == WISP_EMODEL || st == WISP_ENOMEM) && err.text[0] && !strchr(err.text, '\n'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (fd < 0) {
        fd = memfd_create("model", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) abort();
    struct wisp_tensor_file f;
    memset(&err, 0, sizeof err);
    last = wisp_tensor_file_open(&f, NULL, path, &err);
    int fine = explained(last) && (last == WISP_OK ? use(&f) : !f.map.p && !f.tensors);
    wisp_tensor_file_close(&f);
    if (last == WISP_OK) {
        struct wisp_model *m;
        last_model = wisp_model_open(&m, NULL, path, &err);
        fine &= explained(last_model) && (last_model == WISP_OK ? use_model(m) : !m);
        wisp_model_free(m);
    }
    if (!fine || wisp_mem_live != 0) abort();
    return 0;
}

#ifndef WISP_LIBFUZZER

enum { MUTANTS = 15000, ROOM = 8192 };

struct file {
    unsigned char p[ROOM];
    size_t n;
};

static size_t header_bytes(const struct file *f)
{
    uint64_t n;
    if (f->n < 8) return f->n;
    memcpy(&n, f->p, 8);
    return n <= f->n - 8 ? (size_t)n + 8 : f->n;
}

/* A valid file: a model of 3 features and 2 labels with weights of all types; an empty tensor and
 * one that nobody knows; pads. */
static void make_valid(struct file *f)
{
    static const float w[12] = { 1, 2, 3 };
    static const int64_t n[5] = { 4, 5, 6 };
    const struct wisp_tensor t[] = { { "0.input.weight", WISP_I8, 2, { 3, 2 }, w, 6 },
                                     { "0.input.weight.scale", WISP_F32, 1, { 3 }, w, 12 },
                                     { "0.input.bias", WISP_F32, 2, { 1, 2 }, w, 8 },
                                     { "none", WISP_U8, 1, { 0 }, w, 0 },
                                     { "2.dense.weight", WISP_F32, 2, { 2, 2 }, w, 16 },
                                     { "2.dense.bias", WISP_F32, 2, { 1, 2 }, w, 8 },
                                     { "3.output.weight", WISP_BF16, 2, { 2, 2 }, w, 8 },
                                     { "3.output.bias", WISP_F32, 2, { 2, 1 }, w, 8 },
                                     { "label_rows", WISP_I64, 1, { 2 }, n, 16 },
                                     { "other", WISP_I32, 1, { 3 }, w, 12 } };
    const struct wisp_pair m[] = { { "format", "wisp-model 1" },
                                   { "net", "input 2, relu, dense 2" },
                                   { "loss", "bce" },
                                   { "values", "unit" },
                                   { "features", "3" },
                                   { "labels", "2" },
                                   { "note", "a \"b\" \xc3\xa9" } };
    enum { N_TENSORS = sizeof t / sizeof *t, N_META = sizeof m / sizeof *m };
    char name[] = "/tmp/wisp_fuzz_XXXXXX";
    int temp = mkstemp(name);
    CHECK(temp >= 0, "no temporary file");
    CHECK(wisp_tensor_file_write(name, t, N_TENSORS, m, N_META, NULL, &err) == WISP_OK, "%s",
          err.text);
    FILE *in = fopen(name, "rb");
    f->n = in ? fread(f->p, 1, ROOM, in) : 0;
    if (in) fclose(in);
    close(temp);
    unlink(name);
}

/* Places and ends of the valid file's tensors and pads in its data, those of no bytes left out:
 * one chunk each. */
static size_t spans[32][2], n_spans;

static void find_spans(const struct file *f)
{
    struct wisp_tensor_file open;
    size_t head = header_bytes(f), at = 0;
    LLVMFuzzerTestOneInput(f->p, f->n);
    CHECK(last == WISP_OK && last_model == WISP_OK, "%s", err.text);
    if (wisp_tensor_file_open(&open, NULL, path, &err) != WISP_OK) return;
    for (size_t i = 0; i < open.n_tensors; i++) {
        const struct wisp_tensor *t = &open.tensors[i];
        size_t begin = (size_t)((const unsigned char *)t->data - open.map.p) - head;
        if (t->bytes == 0) continue;
        if (begin > at) spans[n_spans][0] = at, spans[n_spans++][1] = begin;
        spans[n_spans][0] = begin, spans[n_spans++][1] = at = begin + t->bytes;
    }
    wisp_tensor_file_close(&open);
}

/* Checksums as the reader wants them for an unchanged layout. */
static void repair(struct file *f)
{
    size_t sums = 32 + 8 * n_spans, head = header_bytes(f);
    if (f->n < head + sums) return;
    unsigned char *to = f->p + f->n - sums;
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(f->p, head));
    memcpy(to, c.digest, 16);
    for (size_t i = 0; i < n_spans; i++) {
        XXH64_canonical_t d;
        if (head + spans[i][1] > f->n) return;
        XXH64_canonicalFromHash(&d,
                                XXH3_64bits(f->p + head + spans[i][0], spans[i][1] - spans[i][0]));
        memcpy(to + 16 + 8 * i, d.digest, 8);
    }
    XXH128_canonicalFromHash(&c, XXH3_128bits(to, sums - 16));
    memcpy(to + sums - 16, c.digest, 16);
}

/* Replaces 'gone' bytes at 'at' by 's'; the header length follows when it was in the header. */
static void splice(struct file *f, size_t at, size_t gone, const char *s)
{
    size_t add = strlen(s), head = header_bytes(f);
    if (at + gone > f->n || f->n - gone + add > ROOM) return;
    memmove(f->p + at + add, f->p + at + gone, f->n - at - gone);
    memcpy(f->p + at, s, add);
    f->n += add - gone;
    if (at >= 8 && at + gone <= head) {
        uint64_t n = head - 8 + add - gone;
        memcpy(f->p, &n, 8);
    }
}

static void mutate(struct file *f, uint64_t *s)
{
    static const char *const words[] = { "0",
                                         "-1",
                                         "64",
                                         "18446744073709551616",
                                         "9223372036854775807",
                                         "1e9",
                                         "null",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         ",",
                                         "\"",
                                         "\\",
                                         "\"w\":",
                                         "\"F32\"",
                                         "\"U8\"",
                                         "\"I8\"",
                                         "\"BF16\"",
                                         ".scale",
                                         "\"F64\"",
                                         "__pad_",
                                         "__integrity__",
                                         "__metadata__",
                                         "data_offsets",
                                         "\xff",
                                         "\\u0000",
                                         " ",
                                         "{\"k\":\"v\"}",
                                         "[0,64]",
                                         "1" };
    size_t head = header_bytes(f), in_head = 8 + test_rand(s) % (head > 8 ? head - 8 : 1);
    const char *word = words[test_rand(s) % (sizeof words / sizeof *words)];
    if (f->n == 0) return;
    switch (test_rand(s) % 9) {
    case 0:
        f->p[test_rand(s) % f->n] ^= (unsigned char)(1u << test_rand(s) % 8);
        break;
    case 1:
        f->p[test_rand(s) % f->n] = (unsigned char)test_rand(s);
        break;
    case 2:
        f->n = test_rand(s) % f->n;
        break;
    case 3:
        splice(f, in_head, 0, word);
        break;
    case 4:
        splice(f, in_head, test_rand(s) % 12, word);
        break;
    case 5:
        splice(f, in_head, test_rand(s) % 40, "");
        break;
    case 6: { /* another number where one stands */
        size_t at = in_head, end;
        while (at < head && (f->p[at] < '0' || f->p[at] > '9')) at++;
        for (end = at; end < head && f->p[end] >= '0' && f->p[end] <= '9';) end++;
        char number[24];
        snprintf(number, sizeof number, "%llu",
                 (unsigned long long)(test_rand(s) >> test_rand(s) % 64));
        splice(f, at, end - at, number);
        break;
    }
    case 7: /* another digit: nothing moves */
        while (in_head < head && (f->p[in_head] < '0' || f->p[in_head] > '9')) in_head++;
        if (in_head < head) f->p[in_head] = (unsigned char)('0' + test_rand(s) % 10);
        break;
    default:
        if (f->n > 8) f->p[test_rand(s) % 8] = (unsigned char)test_rand(s);
    }
}

int main(void)
{
    static struct file valid, f;
    uint64_t s = 20240607;
    size_t accepted = 0, models = 0, by_sum = 0;
    TEST("fuzz: model file");
    make_valid(&valid);
    find_spans(&valid);
    f = valid;
    repair(&f);
    CHECK(memcmp(&f, &valid, sizeof f) == 0, "the repair does not know the layout");
    for (int i = 0; i < MUTANTS; i++) {
        f = valid;
        for (uint64_t n = 1 + test_rand(&s) % 3; n > 0; n--) mutate(&f, &s);
        bool repaired = i % 2;
        if (repaired) repair(&f);
        LLVMFuzzerTestOneInput(f.p, f.n);
        bool same = f.n == valid.n && memcmp(f.p, valid.p, f.n) == 0;
        CHECK(last != WISP_OK || repaired || same, "mutant %d was accepted", i);
        accepted += last == WISP_OK && !same;
        models += last == WISP_OK && last_model == WISP_OK && !same;
        by_sum += strstr(err.text, "checksum") != NULL;
    }
    CHECK(accepted > 10, "only %zu repaired mutants were accepted: the repair does not work",
          accepted);
    CHECK(models > 10 && models < accepted - 10, "%zu of %zu of them were models", models,
          accepted);
    CHECK(by_sum < MUTANTS / 2, "%zu mutants reached no further than the checksums", by_sum);
    printf("     %d mutants: %zu accepted (repaired), %zu of them as models, %zu stopped by "
           "checksums, "
           "the rest before\n",
           MUTANTS, accepted, models, by_sum);
    return test_end();
}

#endif
