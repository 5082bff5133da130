/* Files that others may have put there, cut or change: nothing is followed, believed, waited for or
 * read wrongly.  And modes: nothing that wisp makes is open to more than what it was made from. */
#include "folder_rig.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STRANGER = 65534, BIG = 1 << 20 };

static mode_t mode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

/* own: as a file of wisp's own, like 'source' (or NULL) */
static wisp_status put(const char *path, bool own, const char *source, wisp_error *err)
{
    struct wisp_out *o;
    wisp_status st = (own ? wisp_out_create_own : wisp_out_create)(&o, path, err);
    if (st != WISP_OK) return st;
    wisp_out_like(o, source);
    wisp_out_write(o, "new", 3, NULL);
    return wisp_out_commit(o, err);
}

static void check_refused(const char *path, bool own, const char *words)
{
    struct wisp_map m;
    wisp_error err = { 0 };
    alarm(20); /* code that waits dies of it */
    wisp_status st =
        own ? wisp_map_open_own(&m, path, NULL, false, &err) : wisp_map_open(&m, path, &err);
    alarm(0);
    CHECK(st == WISP_EIO && strstr(err.text, path) && strstr(err.text, words), "%s: %d %s", path,
          st, err.text);
    if (st == WISP_OK) wisp_map_close(&m);
}

static void test_odd(void)
{
    TEST("files: pipes, sockets, devices and folders are refused at once");
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", in_folder("socket"));
    CHECK(mkfifo(in_folder("pipe"), 0666) == 0, "mkfifo");
    CHECK(bind(s, (struct sockaddr *)&at, sizeof at) == 0, "bind");
    CHECK(symlink("pipe", in_folder("to-pipe")) == 0, "link");
    for (int own = 0; own < 2; own++) {
        check_refused(in_folder("pipe"), own, "expected a plain file, found a pipe");
        check_refused(in_folder("socket"), own, "expected a plain file, found a socket");
        check_refused("/dev/null", own, "expected a plain file, found a device");
        check_refused(folder, own, "expected a plain file, found a folder");
        check_refused(in_folder("nothing"), own, "cannot be opened");
    }
    check_refused(in_folder("to-pipe"), false, "found a pipe");
    CHECK(wisp_file_is_pipe(in_folder("pipe")) && wisp_file_is_pipe(in_folder("to-pipe")),
          "a pipe");
    CHECK(wisp_file_is_pipe(in_folder("socket")), "a socket");
    CHECK(!wisp_file_is_pipe(folder) && !wisp_file_is_pipe(in_folder("nothing")), "no pipe");
    close(s);
}

static void test_links(void)
{
    wisp_error err = { 0 };
    struct stat st;
    struct wisp_map m;
    save(in_folder("victim"), "old", 3);
    CHECK(symlink("victim", in_folder("l")) == 0, "link");

    TEST("files: a link is not read in the place of a file of wisp's own");
    check_refused(in_folder("l"), true, "expected a plain file, found a link");
    CHECK(wisp_map_open(&m, in_folder("l"), &err) == WISP_OK && m.bytes == 3, "as named: %s",
          err.text);
    wisp_map_close(&m);

    TEST("files: nor written through: it is replaced, and so is one that leads nowhere");
    CHECK(put(in_folder("l"), true, NULL, &err) == WISP_OK && holds(in_folder("victim"), "old"),
          "%s", err.text);
    CHECK(lstat(in_folder("l"), &st) == 0 && S_ISREG(st.st_mode) && holds(in_folder("l"), "new"),
          "replaced");
    CHECK(symlink("nowhere", in_folder("n")) == 0, "link");
    CHECK(put(in_folder("n"), true, NULL, &err) == WISP_OK && holds(in_folder("n"), "new"), "%s",
          err.text);
    CHECK(access(in_folder("nowhere"), F_OK) != 0, "its target was made");

    TEST("files: a link that another user made is not followed, though named");
    if (geteuid() != 0) {
        SKIP("only root can make one");
        return;
    }
    CHECK(symlink("victim", in_folder("theirs")) == 0 &&
              lchown(in_folder("theirs"), STRANGER, STRANGER) == 0,
          "link");
    CHECK(put(in_folder("theirs"), false, NULL, &err) == WISP_EIO &&
              strstr(err.text, "another user"),
          "%s", err.text);
    CHECK(symlink("theirs", in_folder("ours")) == 0, "link");
    CHECK(put(in_folder("ours"), false, NULL, &err) == WISP_EIO && strstr(err.text, "another user"),
          "behind one of ours: %s", err.text);
    CHECK(holds(in_folder("victim"), "old"), "the victim");
}

static void test_owners(void)
{
    wisp_error err = { 0 };
    struct wisp_map m;
    TEST("files: what others own or may write is not believed");
    save(in_folder("source"), "s", 1);
    save(in_folder("made"), "m", 1);
    chmod(in_folder("source"), 0644);
    chmod(in_folder("made"), 0664);
    CHECK(wisp_map_open_own(&m, in_folder("made"), in_folder("source"), true, &err) == WISP_EIO &&
              strstr(err.text, "others may write it"),
          "%s", err.text);
    chmod(in_folder("source"), 0664); /* who may write the made one may write the source */
    CHECK(wisp_map_open_own(&m, in_folder("made"), in_folder("source"), true, &err) == WISP_OK,
          "%s", err.text);
    wisp_map_close(&m);
    chmod(in_folder("made"), 0644);
    if (geteuid() != 0) {
        SKIP("only root can give files away");
        return;
    }
    CHECK(chown(in_folder("made"), STRANGER, STRANGER) == 0, "chown");
    CHECK(wisp_map_open_own(&m, in_folder("made"), in_folder("source"), true, &err) == WISP_EIO &&
              strstr(err.text, "belongs to another user"),
          "%s", err.text);
    CHECK(chown(in_folder("source"), STRANGER, STRANGER) == 0, "chown");
    CHECK(wisp_map_open_own(&m, in_folder("made"), in_folder("source"), true, &err) == WISP_OK,
          "the owner of the source: %s", err.text);
    wisp_map_close(&m);
}

static void test_modes(void)
{
    wisp_error err = { 0 };
    mode_t mask = umask(022);
    TEST("files: a new file has the mode of its source, a replaced one keeps its own");
    static const mode_t modes[] = { 0600, 0640, 0644, 0666, 0755, 0400 };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        save(in_folder("from"), "s", 1);
        chmod(in_folder("from"), modes[i]);
        unlink(in_folder("like"));
        CHECK(put(in_folder("like"), true, in_folder("from"), &err) == WISP_OK, "%s", err.text);
        CHECK(mode_of(in_folder("like")) == (modes[i] & 0666), "%o of %o",
              mode_of(in_folder("like")), modes[i]);
        CHECK(put(in_folder("from"), false, NULL, &err) == WISP_OK, "%s", err.text);
        CHECK(mode_of(in_folder("from")) == modes[i], "%o, was %o", mode_of(in_folder("from")),
              modes[i]);
        unlink(in_folder("from"));
    }
    CHECK(put(in_folder("fresh"), false, NULL, &err) == WISP_OK &&
              mode_of(in_folder("fresh")) == 0644,
          "%o", mode_of(in_folder("fresh")));
    umask(mask);
}

/* In the place of the C library's: the first 'busy' locks are somebody else's. */
static int busy, waits;

int flock(int fd, int how)
{
    waits += !(how & LOCK_NB);
    if (busy-- <= 0) return (int)syscall(SYS_flock, fd, how);
    errno = EWOULDBLOCK;
    return -1;
}

/* A temporary's lock may be held by another one's sweep: the next name is taken. */
static void test_no_wait(void)
{
    TEST("files: a temporary that somebody else has locked is not waited for");
    wisp_error err = { 0 };
    waits = 0;
    busy = 3;
    CHECK(put(in_folder("w"), false, NULL, &err) == WISP_OK && holds(in_folder("w"), "new"), "%s",
          err.text);
    CHECK(waits == 0 && busy < 0, "%d locks were waited for, %d left", waits, busy);
    char command[100];
    snprintf(command, sizeof command, "test -z \"$(ls %s | grep tmp)\"", folder);
    CHECK(system(command) == 0, "a temporary was left");
}

/* ---- files that change under the reader ---- */

static char bytes[BIG];

static void check_changed(struct wisp_map *m, const char *words)
{
    wisp_error err = { 0 };
    CHECK(wisp_map_check(m, &err) == WISP_EIO && strstr(err.text, words) &&
              strstr(err.text, "/big"),
          "'%s', expected '%s'", err.text, words);
    CHECK(wisp_map_end(m, WISP_EFORMAT, &err) == WISP_EIO && strstr(err.text, words), "%s",
          err.text);
}

static unsigned sum(const struct wisp_map *m)
{
    unsigned s = 0;
    for (size_t i = 0; i < m->bytes; i++) s += m->p[i];
    return s;
}

static void test_maps(void)
{
    wisp_error err = { 0 };
    struct wisp_map m, n;
    const char *path = in_folder("big");
    memset(bytes, 1, sizeof bytes);
    save(path, bytes, sizeof bytes);

    TEST("maps: small files are copies: what happens to the file does not matter");
    CHECK(wisp_map_open(&m, path, &err) == WISP_OK && m.bytes == BIG && !m.slot, "%s", err.text);
    CHECK(truncate(path, 10) == 0 && sum(&m) == BIG, "cut");
    CHECK(wisp_map_end(&m, WISP_OK, &err) == WISP_OK && !m.p, "%s", err.text);

    wisp_map_copy_max = 100;
    TEST("maps: an unchanged file");
    save(path, bytes, sizeof bytes);
    CHECK(wisp_map_open(&m, path, &err) == WISP_OK && m.slot && sum(&m) == BIG, "%s", err.text);
    CHECK(wisp_map_open(&n, path, &err) == WISP_OK && n.slot != m.slot, "%s", err.text);
    CHECK(m.p[BIG] == '\n', "a line end behind the last byte");
    CHECK(wisp_map_check(&m, &err) == WISP_OK, "%s", err.text);
    wisp_map_forget(&m, m.p, m.bytes);
    CHECK(sum(&m) == BIG, "after giving pages back");
    CHECK(wisp_map_end(&m, WISP_OK, &err) == WISP_OK, "%s", err.text);
    CHECK(wisp_map_end(&n, WISP_EFORMAT, &err) == WISP_EFORMAT, "the caller's own error stays");

    TEST("maps: replaced by renaming: the old bytes stay");
    CHECK(wisp_map_open(&m, path, &err) == WISP_OK, "%s", err.text);
    save(in_folder("other"), "x", 1);
    CHECK(rename(in_folder("other"), path) == 0 && sum(&m) == BIG, "renamed");
    CHECK(wisp_map_end(&m, WISP_OK, &err) == WISP_OK, "%s", err.text);

    TEST("maps: a file that is cut reads as zeros, and is told");
    save(path, bytes, sizeof bytes);
    CHECK(wisp_map_open(&m, path, &err) == WISP_OK, "%s", err.text);
    CHECK(truncate(path, 5000) == 0, "cut");
    CHECK(sum(&m) >= 5000 && sum(&m) < BIG && m.p[0] == 1 && m.p[BIG - 1] == 0, "%u", sum(&m));
    wisp_map_forget(&m, m.p, m.bytes);
    CHECK(m.p[BIG - 1] == 0, "and still, after giving pages back");
    check_changed(&m, "was cut from 1048576 to 5000 bytes while it was read");

    TEST("maps: a file that is written over, grown, or cut and filled again");
    for (int how = 0; how < 3; how++) {
        save(path, bytes, sizeof bytes);
        struct timespec t[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
        utimensat(AT_FDCWD, path, t, 0);
        CHECK(wisp_map_open(&m, path, &err) == WISP_OK, "%s", err.text);
        int fd = open(path, how == 1   ? O_WRONLY | O_APPEND
                            : how == 2 ? O_WRONLY | O_TRUNC
                                       : O_WRONLY);
        CHECK(write(fd, bytes, how == 2 ? BIG : 7) > 0, "write");
        close(fd);
        sum(&m);
        check_changed(&m, "was changed while it was read");
    }

    TEST("maps: more than there are slots: the others are copies");
    enum { MANY = 300 };
    static struct wisp_map many[MANY];
    int copies = 0;
    save(path, bytes, 5000);
    for (int i = 0; i < MANY; i++) {
        CHECK(wisp_map_open(&many[i], path, &err) == WISP_OK && sum(&many[i]) == 5000, "%s",
              err.text);
        copies += !many[i].slot;
    }
    CHECK(copies > 0 && copies < MANY, "%d copies", copies);
    for (int i = 0; i < MANY; i++) wisp_map_close(&many[i]);

    TEST("maps: failing allocations");
    for (long left = 0; left < 4; left++) {
        long live = wisp_mem_live;
        wisp_mem_budget = left;
        wisp_status st = wisp_map_open(&m, path, &err);
        wisp_mem_budget = -1;
        CHECK(st == WISP_OK || (st == WISP_ENOMEM && !m.p), "%ld: %s", left, err.text);
        if (st == WISP_OK) wisp_map_close(&m);
        CHECK(wisp_mem_live == live, "%ld", left);
    }
    wisp_map_copy_max = (size_t)4 << 20;
}

static volatile sig_atomic_t n_host;

static void host(int signal)
{
    n_host++;
    (void)signal;
    _exit(n_host == 1 ? 77 : 78);
}

/* In a child each: faults that are not ours go where they went before. */
static void test_signal(void)
{
    TEST("maps: other faults go to the handler that was there before");
    for (int with = 0; with < 2; with++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            const char *path = in_folder("host");
            struct wisp_map m;
            signal(SIGBUS, with ? host : SIG_DFL);
            save(path, bytes, sizeof bytes);
            wisp_map_copy_max = 100;
            if (wisp_map_open(&m, path, NULL) != WISP_OK || !m.slot) _exit(1);
            int fd = open(path, O_RDWR);
            volatile char *p = mmap(NULL, BIG, PROT_READ, MAP_SHARED, fd, 0);
            if (ftruncate(fd, 0) != 0 || m.p[BIG - 1] != 0) _exit(2); /* ours */
            _exit(p[BIG - 1] + 3);                                    /* the program's */
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (with) CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 77, "status %x", status);
        else CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "status %x", status);
    }
}

int main(void)
{
    if (!mkdtemp(folder)) return 1;
    long live = wisp_mem_live;
    test_odd();
    test_links();
    test_owners();
    test_modes();
    test_no_wait();
    test_signal(); /* before any map of this process */
    test_maps();
    TEST("files: no memory is lost");
    CHECK(wisp_mem_live == live, "%ld blocks", (long)wisp_mem_live - live);
    return folder_end();
}
