/* Fuzzing lines from a descriptor: whatever the sizes of reads, the text is the one that the whole
 * file unpacks to, cut behind line ends, and a fault of packed text comes after the lines before.
 */
#define FUZZ_NAME    "fuzz_lines"
#define FUZZ_ERRORS  WISP_EFORMAT
#define FUZZ_WORDS   "\n", "\r\n", "\x1f\x8b\x08", "\x28\xb5\x2f\xfd", "\x50\x2a\x4d\x18", "\n\n\n"
#define FUZZ_MUTANTS 8000
#include "fuzz/rig.h"

#include "data/text.h"
#include "data/unpack.h"

enum { GZIP = 1, ZSTD = 2, TWICE = 4, READ = 8 }; /* how; READ and above: bytes of a read */

static size_t whole_text(char *to, size_t room, wisp_status *code, const uint8_t *p, size_t n)
{
    struct wisp_unpack u;
    wisp_error err;
    if (wisp_unpack_init(&u, p, n, &err) != WISP_OK) return 0;
    size_t bytes = wisp_unpack(&u, to, room);
    *code = u.code;
    wisp_unpack_clear(&u);
    return bytes;
}

static wisp_status read_lines(char *to, size_t *n, size_t room, const char *path, wisp_error *err)
{
    wisp_lines *l = NULL;
    const char *text;
    size_t bytes = 1, line, lines = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fuzz_die("cannot open", NULL);
    wisp_status st = wisp_lines_open(&l, fd, "t", err);
    bool ended = false;
    for (*n = 0; st == WISP_OK && bytes > 0;) {
        st = wisp_lines_next(l, &text, &bytes, &line, err);
        if (st != WISP_OK || bytes == 0 || *n + bytes > room) break;
        if (ended) fuzz_die("text after a line without an end", err);
        if (line != lines) fuzz_die("a wrong line number", err);
        for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
        ended = text[bytes - 1] != '\n';
        memcpy(to + *n, text, bytes);
        *n += bytes;
    }
    wisp_lines_free(l);
    close(fd);
    return st;
}

static wisp_status fuzz_read(unsigned how, const uint8_t *p, size_t n, wisp_error *err)
{
    enum { ROOM = 4 << 20 };
    static uint8_t packed[4 * FUZZ_ROOM];
    static char want[ROOM], got[ROOM];
    size_t n_got = 0;
    wisp_status code = WISP_OK;
    if (how & (GZIP | ZSTD) && n < FUZZ_ROOM) {
        size_t one = fuzz_pack(how & GZIP ? FUZZ_GZIP : FUZZ_ZSTD, packed, sizeof packed, p, n);
        n = one;
        if (how & TWICE) memcpy(packed + n, packed, one), n += one;
        p = packed;
    }
    const long budget = wisp_mem_budget;
    wisp_mem_budget = -1;
    size_t n_want = whole_text(want, ROOM, &code, p, n);
    wisp_mem_budget = budget;
    if (n_want == ROOM) return WISP_OK; /* a bomb */
    const char *path = fuzz_save("t", p, n);
    const size_t usual = wisp_lines_read;
    wisp_lines_read = 1 + how / READ % 700;
    wisp_status st = read_lines(got, &n_got, ROOM, path, err);
    wisp_lines_read = usual;
    if (st == WISP_ENOMEM && fuzz_starved) return st;
    if ((st != WISP_OK) != (code != WISP_OK)) fuzz_die("another end than the whole text's", err);
    if (n_got > n_want || memcmp(got, want, n_got) != 0) fuzz_die("another text", err);
    if (st == WISP_OK && n_got != n_want) fuzz_die("text is missing", err);
    if (st != WISP_OK && n_got < n_want && memchr(want + n_got, '\n', n_want - n_got))
        fuzz_die("lines before a fault are missing", err);
    return st;
}

static const struct fuzz_text_seed seeds[] = {
    SEED(8, "one\ntwo\r\n\nthree"),
    SEED(8 * 3 | GZIP, "one\ntwo\r\n\nthree\n"),
    SEED(8 * 5 | ZSTD, "one\ntwo\r\n\nthree"),
    SEED(8 * 2 | GZIP | TWICE, "one\ntwo\n"),
    SEED(8 * 1 | ZSTD | TWICE, "one\ntwo\n"),
    SEED(8 * 600 | ZSTD | TWICE, "no line end"),
    SEED(0, "\x1f\x8b\x08 nonsense\n"),
    SEED(8, "\x28\xb5"),
    SEED(0, "P*\x4d\x18\4\0\0\0....\x28\xb5\x2f\xfd"),
    SEED(8, "P\n(\n"),
    SEED(8, ""),
};

static size_t fuzz_seed(uint8_t *to, size_t i)
{
    const size_t n = sizeof seeds / sizeof *seeds;
    return i < n ? fuzz_put(to, seeds[i].how, seeds[i].text, seeds[i].n) : 0;
}

#ifndef WISP_LIBFUZZER
static void fuzz_tests(void)
{
    TEST("fuzz_lines: a descriptor that cannot be read, a line that does not end");
    wisp_lines *l;
    const char *text;
    size_t bytes, line, usual = wisp_text_line_max;
    wisp_error err = { 0 };
    CHECK(wisp_lines_open(&l, 1000, "t", &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_lines_next(l, &text, &bytes, &line, &err) == WISP_EIO && bytes == 0,
          "no descriptor");
    wisp_lines_free(l);
    int fd = open(fuzz_save("t", "a\n0123456789", 12), O_RDONLY | O_CLOEXEC);
    wisp_text_line_max = 8;
    CHECK(wisp_lines_open(&l, fd, "t", &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_lines_next(l, &text, &bytes, &line, &err) == WISP_EFORMAT &&
              strstr(err.text, "a line longer than"),
          "endless: %s", err.text);
    wisp_lines_free(l);
    close(fd);
    fd = open(fuzz_save("t", "a\n01234567", 10), O_RDONLY | O_CLOEXEC);
    CHECK(wisp_lines_open(&l, fd, "t", &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_lines_next(l, &text, &bytes, &line, &err) == WISP_OK && bytes == 2 &&
              wisp_lines_next(l, &text, &bytes, &line, &err) == WISP_OK && bytes == 8,
          "a line of just that length: %s", err.text);
    wisp_lines_free(l);
    wisp_text_line_max = usual;
    close(fd);
}
#endif
