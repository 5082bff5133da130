/* What all fuzz targets share: one form of input, the checks that hold for every reader, and two
 * drivers.
 *
 *   input = how (2 bytes, low first) | allocations (1 byte) | the bytes to read
 *
 * 'how' picks a reader and its options.  allocations n > 0: the n-th allocation and all after it
 * fail.  Whatever the input is, a reader must return WISP_OK or an error that its target lists,
 * with one line of words, and leave no memory behind.
 *
 * With -DWISP_LIBFUZZER (clang -fsanitize=fuzzer) libFuzzer drives.  Otherwise main() does, in
 * 'make test':
 *
 *   fuzz_NAME [-n N] [-w FOLDER] [-m] [FILE or FOLDER ...]
 *
 * replays files, then each seed as it is and with every allocation failing in turn, then N
 * mutations of seeds, each a function of its number alone.  -w writes the seeds into FOLDER and a
 * dictionary to FOLDER.dict, for libFuzzer to begin with, and ends.  -m measures the memory that
 * files, seeds and N mutations take, with ids of any size, in place of all other tests.
 *
 * A target defines, before it includes this:
 *   FUZZ_NAME      its name
 *   FUZZ_ERRORS    statuses that its readers may return, besides WISP_OK and WISP_ENOMEM
 *   FUZZ_WORDS     strings that mutations put in
 *   FUZZ_MUTANTS   how many of them in 'make test'
 * and after it fuzz_read, fuzz_seed and fuzz_tests. */
#ifndef WISP_TESTS_FUZZ_RIG_H
#define WISP_TESTS_FUZZ_RIG_H

#include "test.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/context.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { FUZZ_HEAD = 3, FUZZ_ROOM = 16384 };

/* ---- what a target defines ---- */

/* Reads the bytes; on success looks through all that came out.  err is all zero before. */
static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err);
/* Seed i into 'to' (FUZZ_ROOM bytes), its length; 0: there are no more.  Use fuzz_put. */
static size_t fuzz_seed(uint8_t *to, size_t i);
/* For a table of seeds that are text, maybe with zeros in it. */
struct fuzz_text_seed {
    unsigned how;
    const char *text;
    size_t n;
};
#define SEED(how, text)                                                                            \
    {                                                                                              \
        how, text, sizeof(text) - 1                                                                \
    }
#ifndef WISP_LIBFUZZER
/* Tests of the own driver, besides replaying; may be empty. */
static void fuzz_tests(void);
#endif

static const wisp_status fuzz_errors[] = { FUZZ_ERRORS, WISP_OK };

/* ---- for targets ---- */

static char fuzz_folder[64];
static struct wisp_context fuzz_three_threads;
__attribute__((unused)) static struct wisp_context fuzz_one_thread;
static bool fuzz_starved;           /* allocations will fail: outcomes may differ */
static bool fuzz_enough;            /* of the last input: they were as many as it wanted */
static volatile unsigned fuzz_sink; /* reads that must not be optimised away */
__attribute__((
    unused)) static bool fuzz_measuring; /* memory: what keeps other runs small is left away */

static inline void fuzz_die(const char *why, const wisp_error *err)
{
    fprintf(stderr, FUZZ_NAME ": %s (%s)\n", why, err ? err->text : "");
    abort(); /* both drivers keep the input of an abort */
}

static inline const char *fuzz_path(const char *name) /* lives for the next 15 calls */
{
    static char path[16][200];
    static unsigned turn;
    char *p = path[turn++ % 16];
    snprintf(p, sizeof path[0], "%s/%s", fuzz_folder, name);
    return p;
}

static inline const char *fuzz_save(const char *name, const void *bytes, size_t n)
{
    const char *path = fuzz_path(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || (n && write(fd, bytes, n) != (ssize_t)n)) fuzz_die("cannot write", NULL);
    close(fd);
    return path;
}

static inline size_t fuzz_load(const char *name, uint8_t *to, size_t room)
{
    int fd = open(fuzz_path(name), O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, to, room);
    if (n < 0 || (size_t)n == room) fuzz_die("cannot read", NULL);
    close(fd);
    return (size_t)n;
}

static inline size_t fuzz_put(uint8_t *to, unsigned how, const void *bytes, size_t n)
{
    if (n > FUZZ_ROOM - FUZZ_HEAD) fuzz_die("a seed is too long", NULL);
    to[0] = (uint8_t)how;
    to[1] = (uint8_t)(how >> 8);
    to[2] = 0;
    memcpy(to + FUZZ_HEAD, bytes, n);
    return FUZZ_HEAD + n;
}

enum { FUZZ_PLAIN, FUZZ_GZIP, FUZZ_ZSTD };
/* Packs n bytes; the length, 0: no room. */
static inline size_t fuzz_pack(int kind, uint8_t *to, size_t room, const uint8_t *p, size_t n)
{
    if (kind == FUZZ_ZSTD) {
        size_t m = ZSTD_compress(to, room, p, n, 1);
        return ZSTD_isError(m) ? 0 : m;
    }
    z_stream z = { .next_in = (uint8_t *)p,
                   .avail_in = (unsigned)n,
                   .next_out = to,
                   .avail_out = (unsigned)room };
    if (deflateInit2(&z, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) return 0;
    int rc = deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return rc == Z_STREAM_END ? z.total_out : 0;
}

/* ---- one input ---- */

static inline void fuzz_tear_down(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", fuzz_folder);
    if (system(command) != 0) fprintf(stderr, FUZZ_NAME ": %s stays behind\n", fuzz_folder);
    wisp_pool_free(fuzz_three_threads.pool);
}

/* A folder, in memory if there is such a place. */
static inline void fuzz_set_up(void)
{
    wisp_error err;
    if (fuzz_folder[0]) return;
    snprintf(fuzz_folder, sizeof fuzz_folder, "%s/wisp-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(fuzz_folder) || wisp_pool_create(&fuzz_three_threads.pool, 3, &err) != WISP_OK ||
        atexit(fuzz_tear_down) != 0)
        fuzz_die("no folder, or no threads", NULL);
}

static inline wisp_status fuzz_one(const uint8_t *data, size_t size, wisp_error *err)
{
    memset(err, 0, sizeof *err);
    if (size < FUZZ_HEAD) return WISP_OK;
    const long live = wisp_mem_live;
    fuzz_starved = data[2] != 0;
    wisp_mem_budget = (long)data[2] - 1;
    wisp_status st =
        fuzz_read(data[0] | (unsigned)data[1] << 8, data + FUZZ_HEAD, size - FUZZ_HEAD, err);
    fuzz_enough = wisp_mem_budget != 0;
    wisp_mem_budget = -1;
    bool known = st == WISP_OK || st == WISP_ENOMEM;
    for (const wisp_status *e = fuzz_errors; *e != WISP_OK; e++) known |= st == *e;
    if (!known) fuzz_die("an error of another kind", err);
    if (st != WISP_OK && (err->code != st || !err->text[0]))
        fuzz_die("an error without words", err);
    for (const char *c = err->text; *c; c++)
        if ((unsigned char)*c < ' ') fuzz_die("more than a line of words", err);
    if (wisp_mem_live != live) fuzz_die("memory leaked", err);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    wisp_error err;
    fuzz_set_up();
    fuzz_one(data, size, &err);
    return 0;
}

/* ---- the own driver ---- */
#ifndef WISP_LIBFUZZER

static const char *const fuzz_words[] = { FUZZ_WORDS, NULL };
static uint8_t fuzz_seeds[192][FUZZ_ROOM];
static size_t fuzz_seed_bytes[192], fuzz_n_seeds;

/* ---- memory ---- */

static struct {
    size_t inputs;
    size_t small, small_bytes; /* the most that a file below SMALL_FILE bytes took, and its size */
    size_t most, most_bytes;   /* of longer ones */
    double per_byte;
} fuzz_memory;
enum { SMALL_FILE = 1000, SMALL_MEMORY = 100 << 20 };

static inline size_t fuzz_resident(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1) fuzz_die("no /proc/self/statm", NULL);
    fclose(f);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* fuzz_one, and what it took at its peak above what there was before. */
static inline wisp_status fuzz_measure(const uint8_t *data, size_t size, wisp_error *err)
{
    malloc_trim(0);
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "5", 1) != 1) fuzz_die("no /proc/self/clear_refs", NULL);
    close(fd);
    const size_t before = fuzz_resident(), n = size < FUZZ_HEAD ? 0 : size - FUZZ_HEAD;
    wisp_status st = fuzz_one(data, size, err);
    const size_t peak = wisp_mem_peak(), took = peak > before ? peak - before : 0;
    fuzz_memory.inputs++;
    if (n < SMALL_FILE && took > fuzz_memory.small)
        fuzz_memory.small = took, fuzz_memory.small_bytes = n;
    if (n >= SMALL_FILE && took > fuzz_memory.most)
        fuzz_memory.most = took, fuzz_memory.most_bytes = n;
    if (n >= SMALL_FILE && (double)took / (double)n > fuzz_memory.per_byte)
        fuzz_memory.per_byte = (double)took / (double)n;
    if (n < SMALL_FILE && took >= SMALL_MEMORY) fuzz_save("found", data, size);
    return st;
}

static inline wisp_status fuzz_try(const uint8_t *data, size_t size, wisp_error *err)
{
    return fuzz_measuring ? fuzz_measure(data, size, err) : fuzz_one(data, size, err);
}

static inline void fuzz_say_memory(void)
{
    printf("memory %-12s %6zu inputs; below %d bytes at most %zu kB (%zu bytes); longer: at most "
           "%zu kB (%zu bytes), %.0f for each byte\n",
           FUZZ_NAME, fuzz_memory.inputs, SMALL_FILE, fuzz_memory.small >> 10,
           fuzz_memory.small_bytes, fuzz_memory.most >> 10, fuzz_memory.most_bytes,
           fuzz_memory.per_byte);
    CHECK(fuzz_memory.small < SMALL_MEMORY, "%zu bytes for a file of %zu", fuzz_memory.small,
          fuzz_memory.small_bytes);
}

static inline void fuzz_replay(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char inner[1000];
        int n = snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.' && n < (int)sizeof inner) fuzz_replay(inner);
    }
    if (dir) {
        closedir(dir);
        return;
    }
    struct wisp_map m;
    wisp_error err;
    if (wisp_map_open(&m, path, &err) != WISP_OK) fuzz_die(path, &err);
    if (m.p) fuzz_try(m.p, m.bytes, &err);
    wisp_map_close(&m);
}

static inline void fuzz_write_seeds(const char *folder)
{
    char path[4096];
    wisp_error err = { 0 };
    for (size_t i = 0; i < fuzz_n_seeds; i++) {
        snprintf(path, sizeof path, "%s/seed-%zu", folder, i);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(fuzz_seeds[i], 1, fuzz_seed_bytes[i], f) != fuzz_seed_bytes[i])
            fuzz_die(path, &err);
        fclose(f);
    }
    snprintf(path, sizeof path, "%s.dict", folder);
    FILE *f = fopen(path, "wb");
    if (!f) fuzz_die(path, &err);
    for (size_t i = 0; fuzz_words[i]; i++) {
        fputc('"', f);
        for (const char *c = fuzz_words[i]; *c; c++) fprintf(f, "\\x%02x", (unsigned char)*c);
        fputs("\"\n", f);
    }
    fclose(f);
}

/* As it is: accepted or refused with words.  With each allocation failing: no memory, or the same
 * end.  Ends when nothing was left to fail, or at 254, which is as far as an input can say. */
static inline void fuzz_starve(size_t i, wisp_status plain)
{
    static uint8_t b[FUZZ_ROOM];
    wisp_error err;
    memcpy(b, fuzz_seeds[i], fuzz_seed_bytes[i]);
    fuzz_enough = false;
    for (unsigned n = 1; n < 256 && !fuzz_enough; n++) {
        b[2] = (uint8_t)n;
        wisp_status st = fuzz_one(b, fuzz_seed_bytes[i], &err);
        CHECK(st == WISP_ENOMEM || st == plain, "seed %zu, %u allocations: %d %s, without limit %d",
              i, n - 1, st, err.text, plain);
    }
}

/* Changes a few places behind the head; returns the new length. */
static inline size_t fuzz_mutate(uint8_t *b, size_t n, uint64_t *s)
{
    static const char odd[] = "0123456789:,.-+eE \t\n\r#%_a=\0\1\2\4\377";
    size_t n_words = 0;
    while (fuzz_words[n_words]) n_words++;
    for (size_t times = 1 + test_rand(s) % 5; times-- > 0 && n > FUZZ_HEAD + 1;) {
        size_t at = FUZZ_HEAD + test_rand(s) % (n - FUZZ_HEAD), len = 1 + test_rand(s) % 8;
        if (len > n - at) len = n - at;
        switch (test_rand(s) % 9) {
        case 0:
            b[at] ^= (uint8_t)(1 << test_rand(s) % 8);
            break;
        case 1:
        case 2:
            b[at] = (uint8_t)odd[test_rand(s) % (sizeof odd - 1)];
            break;
        case 3: /* take out */
            memmove(b + at, b + at + len, n - at - len);
            n -= len;
            break;
        case 4: /* double */
            if (n + len > FUZZ_ROOM) break;
            memmove(b + at + len, b + at, n - at);
            n += len;
            break;
        case 5: /* cut */
            if (test_rand(s) % 8 == 0) n = at;
            break;
        case 6: /* zeros or ones */
            memset(b + at, test_rand(s) % 2 ? 255 : 0, len);
            break;
        case 7: { /* a word, in place of as much or between */
            const char *word = fuzz_words[test_rand(s) % n_words];
            size_t m = strlen(word), gone = test_rand(s) % 2 ? m : 0;
            if (gone > n - at) gone = n - at;
            if (n - gone + m > FUZZ_ROOM) break;
            memmove(b + at + m, b + at + gone, n - at - gone);
            memcpy(b + at, word, m);
            n = n - gone + m;
            break;
        }
        default: { /* a piece of another seed */
            size_t other = test_rand(s) % fuzz_n_seeds;
            size_t from = test_rand(s) % fuzz_seed_bytes[other];
            if (len > fuzz_seed_bytes[other] - from) len = fuzz_seed_bytes[other] - from;
            memcpy(b + at, fuzz_seeds[other] + from, len);
        }
        }
    }
    if (test_rand(s) % 16 == 0) b[test_rand(s) % 2] ^= (uint8_t)(1 << test_rand(s) % 8); /* how */
    return n;
}

static inline void fuzz_mutants(long n)
{
    static uint8_t b[FUZZ_ROOM];
    long accepted = 0;
    wisp_error err;
    for (long i = 0; i < n; i++) {
        uint64_t s = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
        size_t from = test_rand(&s) % fuzz_n_seeds;
        memcpy(b, fuzz_seeds[from], fuzz_seed_bytes[from]);
        size_t len = fuzz_mutate(b, fuzz_seed_bytes[from], &s);
        if (test_rand(&s) % 16 == 0 && !fuzz_measuring) b[2] = (uint8_t)(1 + test_rand(&s) % 60);
        uint8_t *exact = malloc(len); /* a sanitizer sees a read beyond it */
        memcpy(exact, b, len);
        accepted += fuzz_try(exact, len, &err) == WISP_OK;
        free(exact);
    }
    CHECK(n < 1000 || (accepted > n / 500 && accepted < n - n / 100), "%ld of %ld accepted",
          accepted, n);
    printf("     %ld mutants, %ld accepted\n", n, accepted);
}

int main(int argc, char **argv)
{
    long n = FUZZ_MUTANTS;
    fuzz_set_up();
    for (; fuzz_n_seeds < sizeof fuzz_seed_bytes / sizeof *fuzz_seed_bytes; fuzz_n_seeds++)
        if (!(fuzz_seed_bytes[fuzz_n_seeds] = fuzz_seed(fuzz_seeds[fuzz_n_seeds], fuzz_n_seeds)))
            break;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-n") == 0 && i + 1 < argc) {
            n = atol(argv[++i]);
        } else if (strcmp(argv[i], "-w") == 0 && i + 1 < argc) {
            fuzz_write_seeds(argv[++i]);
            return 0;
        } else if (strcmp(argv[i], "-m") == 0) {
            fuzz_measuring = true;
        } else {
            fuzz_replay(argv[i]);
        }
    }
    if (fuzz_measuring) {
        wisp_error err;
        TEST(FUZZ_NAME ": memory of small files");
        for (size_t i = 0; i < fuzz_n_seeds; i++) fuzz_try(fuzz_seeds[i], fuzz_seed_bytes[i], &err);
        fuzz_mutants(n);
        fuzz_say_memory();
        return test_end();
    }
    TEST(FUZZ_NAME ": seeds, and each allocation failing");
    for (size_t i = 0; i < fuzz_n_seeds; i++) {
        wisp_error err;
        wisp_status st = fuzz_one(fuzz_seeds[i], fuzz_seed_bytes[i], &err);
        fuzz_starve(i, st);
    }
    TEST(FUZZ_NAME ": mutations");
    fuzz_mutants(n);
    fuzz_tests();
    return test_end();
}
#endif
#endif
