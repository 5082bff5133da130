/* Errors and their places; files written whole or not at all, links and odd targets, temporaries of
 * the dead and the living; how many threads the machine is good for. */
#include "folder_rig.h"
#include "error_rig.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static wisp_status put(const char *path, const char *text, wisp_error *err)
{
    struct wisp_out *o;
    wisp_status st = wisp_out_create(&o, path, err);
    if (st != WISP_OK) return st;
    wisp_out_write(o, text, strlen(text), NULL);
    return wisp_out_commit(o, err);
}

static bool is_plain(const wisp_error *e)
{
    return e->line == 0 && e->row == 0 && e->file_bytes == 0 && e->place_bytes == 0;
}

static void test_errors(void)
{
    wisp_error err, other;
    char path[1001];
    memset(&err, 0x55, sizeof err);
    TEST("errors: fields say what the text does");
    CHECK(wisp_fail_at(&err, WISP_EFORMAT, "a/b", 12, "found %d", 7) == WISP_EFORMAT &&
              err.code == WISP_EFORMAT && strcmp(err.text, "a/b:12: found 7") == 0 &&
              place_agrees(&err) && err.line == 12 && err.row == 0,
          "%s: %zu %u %u", err.text, err.line, err.file_bytes, err.place_bytes);
    CHECK(wisp_fail_as(&other, WISP_EMODEL, &err) == WISP_EMODEL && other.code == WISP_EMODEL &&
              strcmp(other.text, err.text) == 0 && place_agrees(&other),
          "%s", other.text);
    wisp_fail_at(&err, WISP_EFORMAT, "a/b", 0, "gone");
    CHECK(strcmp(err.text, "a/b: gone") == 0 && place_agrees(&err), "%s", err.text);
    wisp_fail_row(&err, WISP_ENUMERIC, 4, 0, "no number");
    CHECK(strcmp(err.text, "row 4: no number") == 0 && err.row == 5 && err.line == 0 &&
              err.file_bytes == 0 && strcmp(err.text + err.place_bytes, "no number") == 0,
          "%s: %zu", err.text, err.row);
    wisp_fail_row(&err, WISP_ENUMERIC, 4, 1, "no number");
    CHECK(strcmp(err.text, "row 5: no number") == 0 && err.row == 5, "%s: %zu", err.text, err.row);
    CHECK(wisp_fail_option(&err, "seed", "'%s' is odd", "x") == WISP_EINVAL &&
              strcmp(err.text, "--seed: 'x' is odd") == 0 && err.place_bytes == 8 && !err.row,
          "%s: %u", err.text, err.place_bytes);
    errno = ENOENT;
    wisp_fail_errno(&err, WISP_EIO, "a/b", "cannot be %s", "read");
    CHECK(strcmp(err.text, "a/b: cannot be read: No such file or directory") == 0 &&
              place_agrees(&err),
          "%s", err.text);
    wisp_fail(&err, WISP_EINVAL, "a\nb");
    CHECK(strcmp(err.text, "a?b") == 0 && is_plain(&err), "%s", err.text);

    TEST("errors: long names and texts");
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = 0;
    wisp_fail_at(&err, WISP_EIO, path, 3, "%s", path); /* the end of the name is shown */
    CHECK(strncmp(err.text, "...xxx", 6) == 0 && strncmp(err.text + 303, ":3: x", 5) == 0 &&
              err.place_bytes == 307 && err.file_bytes == 0 && err.line == 3 &&
              strlen(err.text) == sizeof err.text - 1,
          "%s: %u", err.text, err.place_bytes);
    wisp_fail_at(&err, WISP_EIO, path + 700, 3, "gone");
    CHECK(err.file_bytes == 300 && place_agrees(&err), "%s: %u", err.text, err.file_bytes);
    for (size_t i = 0; i + 1 < sizeof path; i += 2) memcpy(path + i, "\xc3\xa4", 2);
    wisp_fail_at(&err, WISP_EIO, path + 1, 0, "gone");
    CHECK(strncmp(err.text, "...\xc3\xa4", 5) == 0, "a name begins within a letter: %s", err.text);
    errno = ENOENT;
    wisp_fail_errno(&err, WISP_EIO, path, "%s", path);
    CHECK(strlen(err.text) == sizeof err.text - 1, "%s", err.text);
    CHECK(wisp_fail_at(NULL, WISP_EIO, "a", 1, "x") == WISP_EIO &&
              wisp_fail_row(NULL, WISP_EIO, 1, 0, "x") == WISP_EIO &&
              wisp_fail_as(NULL, WISP_EIO, &err) == WISP_EIO &&
              wisp_fail_errno(NULL, WISP_EIO, "a", "x") == WISP_EIO,
          "without an error");
}

static void test_targets(void)
{
    wisp_error err = { 0 };
    TEST("file: a new one, and one that is there");
    CHECK(put(in_folder("a"), "1", &err) == WISP_OK && holds(in_folder("a"), "1"), "%s", err.text);
    CHECK(put(in_folder("a"), "2", &err) == WISP_OK && holds(in_folder("a"), "2"), "%s", err.text);

    TEST("file: a link stays, its target is replaced");
    struct stat at;
    mkdir(in_folder("far"), 0777);
    save_text("far/b", "old");
    CHECK(symlink("far/b", in_folder("link")) == 0 && symlink("link", in_folder("link2")) == 0,
          "links");
    CHECK(put(in_folder("link2"), "new", &err) == WISP_OK, "%s", err.text);
    CHECK(holds(in_folder("far/b"), "new"), "the target");
    CHECK(lstat(in_folder("link2"), &at) == 0 && S_ISLNK(at.st_mode), "the link is gone");
    CHECK(lstat(in_folder("link"), &at) == 0 && S_ISLNK(at.st_mode), "the second link is gone");
    CHECK(symlink("nowhere", in_folder("dangling")) == 0, "link");
    CHECK(put(in_folder("dangling"), "x", &err) == WISP_EIO && strstr(err.text, "leads nowhere"),
          "%s", err.text);

    TEST("file: a pipe, a device, a folder are refused and left alone");
    CHECK(mkfifo(in_folder("pipe"), 0666) == 0, "mkfifo");
    CHECK(symlink("pipe", in_folder("to-pipe")) == 0, "link");
    const char *odd[] = { in_folder("pipe"), in_folder("to-pipe"), in_folder("far"),
                          in_folder("device") };
    /* of our own, never /dev/null: code that fails this test replaces it for the whole machine */
    int n = mknod(in_folder("device"), S_IFCHR | 0666, makedev(1, 3)) == 0 ? 4 : 3;
    for (int i = 0; i < n; i++) {
        CHECK(put(odd[i], "x", &err) == WISP_EIO && strstr(err.text, "a plain file or a new one"),
              "%s: %s", odd[i], err.text);
        CHECK(stat(odd[i], &at) == 0 && !S_ISREG(at.st_mode), "%s was replaced", odd[i]);
    }
    CHECK(put(in_folder("none/x"), "x", &err) == WISP_EIO && strstr(err.text, "none/x"), "%s",
          err.text);
}

static void test_temporaries(void)
{
    char name[100];
    wisp_error err = { 0 };
    TEST("file: temporaries of the dead are swept, those in use are not");
    int living = (int)getpid(); /* a number says nothing: processes of another container have it */
    snprintf(name, sizeof name, "t.tmp%d-12345", living);
    save_text(name, "left");
    save_text("t.tmp1-1", "left");
    save_text("t.tmp1-1.kept", "not ours");
    save_text("tt.tmp1-1", "of another file");
    struct wisp_out *first, *second;
    CHECK(wisp_out_create(&first, in_folder("t"), &err) == WISP_OK, "%s", err.text);
    wisp_out_write(first, "first", 5, NULL);
    CHECK(access(in_folder(name), F_OK) != 0, "%s was left", name);
    CHECK(access(in_folder("t.tmp1-1"), F_OK) != 0, "t.tmp1-1 was left");
    CHECK(wisp_out_create(&second, in_folder("t"), &err) == WISP_OK, "%s", err.text); /* sweeps */
    wisp_out_write(second, "second", 6, NULL);
    wisp_out_sweep(in_folder("t"));
    CHECK(wisp_out_commit(first, &err) == WISP_OK && holds(in_folder("t"), "first"), "%s",
          err.text);
    wisp_out_sweep(in_folder("t"));
    CHECK(wisp_out_commit(second, &err) == WISP_OK && holds(in_folder("t"), "second"), "%s",
          err.text);
    CHECK(access(in_folder("t.tmp1-1.kept"), F_OK) == 0 &&
              access(in_folder("tt.tmp1-1"), F_OK) == 0,
          "others'");

    TEST("file: another process's temporary in use is left alone; a name that is taken, too");
    int ready[2], go[2];
    char c = 0;
    CHECK(pipe(ready) == 0 && pipe(go) == 0, "pipes");
    pid_t child = fork();
    if (child == 0) {
        struct wisp_out *o;
        if (wisp_out_create(&o, in_folder("u"), NULL) != WISP_OK) _exit(1);
        wisp_out_write(o, "child", 5, NULL);
        if (write(ready[1], "x", 1) != 1 || read(go[0], &c, 1) != 1) _exit(2);
        _exit(wisp_out_commit(o, NULL) == WISP_OK ? 0 : 3);
    }
    CHECK(read(ready[0], &c, 1) == 1, "the child");
    CHECK(put(in_folder("u"), "parent", &err) == WISP_OK && holds(in_folder("u"), "parent"), "%s",
          err.text);
    CHECK(write(go[1], "x", 1) == 1, "the child");
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0 && holds(in_folder("u"), "child"), "the child ended with %d", status);
    for (int i = 0; i < 40; i++) { /* folders cannot be swept: the next numbers are taken */
        snprintf(name, sizeof name, "v.tmp%d-%d", (int)getpid(), i);
        mkdir(in_folder(name), 0777);
    }
    CHECK(put(in_folder("v"), "v", &err) == WISP_OK && holds(in_folder("v"), "v"), "%s", err.text);
}

static void test_memory(void)
{
    TEST("file: failing allocations");
    long live = wisp_mem_live;
    for (long n = 0;; n++) {
        wisp_error err = { 0 };
        wisp_mem_budget = n;
        wisp_status st = put(in_folder("m"), "m", &err);
        wisp_mem_budget = -1;
        CHECK(wisp_mem_live == live, "after %ld", n);
        if (st == WISP_OK) break;
        CHECK(st == WISP_ENOMEM && access(in_folder("m"), F_OK) != 0, "after %ld: %s", n, err.text);
    }
}

static void test_quota(void)
{
    static const struct {
        const char *text;
        int want;
    } rows[] = { { "max 100000\n", INT_MAX },
                 { "200000 100000\n", 2 },
                 { "150000 100000\n", 2 },
                 { "10000 100000\n", 1 },
                 { "100000 0\n", INT_MAX },
                 { "0 100000\n", INT_MAX },
                 { "", INT_MAX },
                 { "nan nan\n", INT_MAX },
                 { "999999 1\n", 999999 },
                 { "1000000 1\n", INT_MAX },
                 { "9e99 1\n", INT_MAX } };
    TEST("pool: a quota of processor time");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        save_text("cpu.max", rows[i].text);
        int got = wisp_cpu_quota(in_folder("cpu.max"));
        CHECK(got == rows[i].want, "'%s': %d", rows[i].text, got);
    }
    CHECK(wisp_cpu_quota(in_folder("absent")) == INT_MAX, "no file");
}

static void test_out_of_memory(void)
{
    wisp_error err;
    TEST("memory: how much was too much");
    wisp_fail_mem(&err, ((size_t)1 << 30) - 1, "rows");
    CHECK(strcmp(err.text, "out of memory: 1073741823 bytes for rows") == 0, "%s", err.text);
    wisp_fail_mem(&err, (size_t)1 << 30, "rows");
    CHECK(strcmp(err.text, "out of memory: 1.0 GiB for rows") == 0, "%s", err.text);
    CHECK(!wisp_alloc(SIZE_MAX / 8 + 1, 8) && !wisp_alloc(SIZE_MAX / 2, 1), "more than there is");
    CHECK(wisp_mem_fits((64 << 20) - 1) && !wisp_mem_fits(SIZE_MAX / 2), "what fits");
    size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    CHECK(wisp_mem_available() > 1 << 20 && wisp_mem_available() < all, "%zu of %zu bytes left",
          wisp_mem_available(), all);
    size_t cap = 0, n = 0;
    int *list = NULL;
    for (; n < 100; n++) {
        CHECK(wisp_grow(&list, n, &cap, sizeof *list) && cap > n, "room for one more");
        list[n] = (int)n;
    }
    for (size_t i = 0; i < n; i++) CHECK(list[i] == (int)i, "[%zu] moved", i);
    wisp_mem_budget = 0;
    CHECK(wisp_grow(&list, cap - 1, &cap, sizeof *list) &&
              !wisp_grow(&list, cap, &cap, sizeof *list),
          "none without memory");
    wisp_mem_budget = -1;
    wisp_free(list);
}

/* There is a book of what is mapped, with so many places; each comes free again. */
static void test_places(void)
{
    wisp_error err;
    struct wisp_map m;
    size_t copied = wisp_map_copy_max;
    TEST("map: a failure takes no place, nor does what was closed");
    save_text("mapped", "text");
    wisp_map_copy_max = 0;
    for (int i = 0; i < 300; i++) {
        wisp_mem_budget = 0;
        CHECK(wisp_map_open(&m, in_folder("mapped"), &err) == WISP_ENOMEM, "%s", err.text);
        wisp_mem_budget = -1;
        CHECK(wisp_map_open(&m, in_folder("mapped"), &err) == WISP_OK && m.slot, "%d: %s", i,
              err.text);
        wisp_map_close(&m);
    }
    wisp_map_copy_max = copied;
    unlink(in_folder("mapped"));
}

static void test_show(void)
{
    TEST("text: what was found, as a message shows it");
    static const struct {
        const char *bytes, *shown;
    } rows[] = {
        { "", "" },
        { "0123456789", "0123456789" },
        { "0123456789a", "0123456789..." },
        { "caf\xc3\xa9", "caf\xc3\xa9" },
        { "\xe6\x97\xa5\xe6\x9c\xac\xf0\x9f\x8d\x9e", "\xe6\x97\xa5\xe6\x9c\xac\xf0\x9f\x8d\x9e" },
        { "\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e"
          "\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e!",
          "\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e"
          "\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e\xf0\x9f\x8d\x9e..." },
        { "a\xc2\xa0", "a<U+00A0>" },
        { "abc\xef\xbb\xbf", "abc..." },
        { "\xe2\x80\xaex", "<U+202E>x" },
        { "\xc2\x9b", "<U+009B>" },
        { "a\tb\x1b\x7f", "a b??" },
        { "\xc3", "?" },
        { "\xed\xa0\x80", "???" },
        { "\xc0\x80z", "??z" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *exact = malloc(strlen(rows[i].bytes)), got[WISP_SHOW_BYTES(10)];
        memcpy(exact, rows[i].bytes, strlen(rows[i].bytes)); /* no zero behind them */
        CHECK(strcmp(wisp_text_show(got, exact, strlen(rows[i].bytes), 10), rows[i].shown) == 0,
              "%zu: '%s', not '%s'", i, got, rows[i].shown);
        free(exact);
    }
    char zero[WISP_SHOW_BYTES(10)];
    CHECK(strcmp(wisp_text_show(zero, "a\0b", 3, 10), "a?b") == 0, "'%s'", zero);
}

static void test_bytes(void)
{
    TEST("text: bytes in the unit in which there is something to see");
    static const struct {
        size_t bytes;
        const char *text;
    } rows[] = { { 0, "0" },
                 { 60, "0.1 KiB" },
                 { 100000, "97.7 KiB" },
                 { 104858, "0.1 MiB" },
                 { (size_t)31 << 20, "31.0 MiB" },
                 { (size_t)103 << 20, "0.10 GiB" },
                 { (size_t)22 << 30, "22.00 GiB" } };
    char text[WISP_BYTES_TEXT];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(strcmp(wisp_bytes_text(text, rows[i].bytes), rows[i].text) == 0, "%zu: '%s'",
              rows[i].bytes, text);
}

int main(void)
{
    if (!mkdtemp(folder)) return 2;
    test_errors();
    test_show();
    test_bytes();
    test_targets();
    test_temporaries();
    test_memory();
    test_quota();
    test_out_of_memory();
    test_places();
    return folder_end();
}
