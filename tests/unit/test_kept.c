/* What is kept in a file that many processes add to: lost, damaged and foreign files. */
#include "folder_rig.h"
#include "conv/kept.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 8, LINES = 60 };

struct found {
    char value[40];
    const char *not_this; /* a value that is no good; NULL: all are */
};

static bool good(void *arg, const char *value, size_t length)
{
    struct found *f = arg;
    snprintf(f->value, sizeof f->value, "%.*s", (int)length, value);
    return !f->not_this || strcmp(f->value, f->not_this) != 0;
}

static bool has(const char *path, const char *key, const char *value)
{
    struct found f = { .value = "" };
    return wisp_kept_find(path, key, good, &f) && strcmp(f.value, value) == 0;
}

static void test_lines(void)
{
    TEST("kept: the first good value of a key");
    const char *path = in_folder("new/wisp/conv");
    struct found f = { .not_this = "one" };
    struct stat info;
    CHECK(!wisp_kept_find(path, "a\t", good, &f), "there is no file");
    CHECK(wisp_kept_add(path, "a\t", "one") && wisp_kept_add(path, "b\t", "two") &&
              wisp_kept_add(path, "a\t", "three"),
          "folders are made");
    CHECK(has(path, "a\t", "one") && has(path, "b\t", "two") && !has(path, "c\t", ""), "values");
    CHECK(wisp_kept_find(path, "a\t", good, &f) && strcmp(f.value, "three") == 0, "'%s'", f.value);
    CHECK(stat(in_folder("new/wisp"), &info) == 0 && (info.st_mode & 0777) == 0700, "mode %o",
          (unsigned)info.st_mode);
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600, "mode %o",
          (unsigned)info.st_mode);
}

static void test_damaged(void)
{
    TEST("kept: damaged files are added to, and far too long ones begun anew");
    const char *path = in_folder("new/wisp/conv");
    save(path, "a\tol", 4); /* cut off */
    CHECK(!has(path, "a\t", "ol"), "a line without an end");
    CHECK(wisp_kept_add(path, "b\t", "new") && has(path, "b\t", "new"), "behind it");
    save(path, "\0\n\xff\n\n\ta", 7);
    CHECK(wisp_kept_add(path, "b\t", "new") && has(path, "b\t", "new"), "behind garbage");
    char *long_file = calloc(1 << 20, 1);
    memcpy(long_file, "a\told\n", 6);
    save(path, long_file, 1 << 20);
    CHECK(wisp_kept_add(path, "b\t", "new") && has(path, "b\t", "new"), "after a megabyte");
    CHECK(!has(path, "a\t", "old"), "it was begun anew");
    char key[600];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0;
    CHECK(!wisp_kept_add(path, key, "v") && has(path, "b\t", "new"), "a key that is too long");
    free(long_file);
}

static void test_foreign(void)
{
    TEST("kept: nothing but a file and a folder of this user alone is written");
    const char *path = in_folder("new/wisp/conv"), *other = in_folder("other");
    save(other, "", 0);
    unlink(path);
    CHECK(symlink(other, path) == 0 && !wisp_kept_add(path, "a\t", "v"), "a link");
    unlink(path);
    CHECK(link(other, path) == 0 && !wisp_kept_add(path, "a\t", "v"), "a second name");
    unlink(path);
    CHECK(mkfifo(path, 0600) == 0 && !wisp_kept_add(path, "a\t", "v") && !has(path, "a\t", "v"),
          "a pipe");
    unlink(path);
    CHECK(mkdir(path, 0700) == 0 && !wisp_kept_add(path, "a\t", "v") && !has(path, "a\t", "v"),
          "a folder");
    rmdir(path);
    CHECK(chmod(in_folder("new/wisp"), 0777) == 0 && !wisp_kept_add(path, "a\t", "v"),
          "a folder that everybody may write");
    CHECK(chmod(in_folder("new/wisp"), 0775) == 0 && wisp_kept_add(path, "a\t", "v"), "umask 002");
    CHECK(chmod(in_folder("new/wisp"), 0700) == 0 && wisp_kept_add(path, "a\t", "v"), "own again");
    CHECK(symlink(in_folder("new/wisp"), in_folder("way")) == 0 &&
              !wisp_kept_add(in_folder("way/conv"), "b\t", "v"),
          "a folder that is a link");
    CHECK(!wisp_kept_add("/proc/nowhere/wisp/conv", "a\t", "v"), "no place");
    CHECK(holds(other, ""), "somebody else's file was written");
}

/* Each process adds lines of its own, and one for a key of all, which must mean the same to all. */
static void add_many(const char *path, int process, int out)
{
    char key[40], value[40];
    struct found f = { .value = "" };
    for (int i = 0; i < LINES; i++) {
        snprintf(key, sizeof key, "own %d %d\t", process, i);
        if (!wisp_kept_add(path, key, "v")) _exit(1);
    }
    snprintf(value, sizeof value, "by %d", process);
    if (!wisp_kept_add(path, "all\t", value) || !wisp_kept_find(path, "all\t", good, &f)) _exit(1);
    _exit(write(out, f.value, sizeof f.value) == sizeof f.value ? 0 : 1);
}

static void test_processes(void)
{
    TEST("kept: many processes at once lose nothing, and agree");
    const char *path = in_folder("many/conv");
    char first[40] = "", value[40], key[40];
    int ends[2], status;
    CHECK(pipe(ends) == 0, "no pipe");
    fflush(stdout);
    for (int p = 0; p < PROCESSES; p++)
        if (fork() == 0) add_many(path, p, ends[1]);
    for (int p = 0; p < PROCESSES; p++)
        CHECK(wait(&status) > 0 && status == 0, "process %d: %d", p, status);
    for (int p = 0; p < PROCESSES; p++) {
        CHECK(read(ends[0], value, sizeof value) == sizeof value, "no answer");
        if (p == 0) memcpy(first, value, sizeof first);
        CHECK(strcmp(first, value) == 0, "'%s' and '%s'", first, value);
        for (int i = 0; i < LINES; i++) {
            snprintf(key, sizeof key, "own %d %d\t", p, i);
            CHECK(has(path, key, "v"), "line %d of process %d is lost", i, p);
        }
    }
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    if (!mkdtemp(folder)) return 1;
    test_lines();
    test_damaged();
    test_foreign();
    test_processes();
    return folder_end();
}
