/* Reading whole files: small ones by a copy, large ones by a map that survives what happens to the
 * file.
 *
 * A mapped file belongs to whoever may write it: a page behind its new end raises SIGBUS when it is
 * touched, and a page that was written over has other bytes from then on.  So every map has a slot
 * in a table.  The handler of SIGBUS, installed with the first map, looks there: a fault inside a
 * map puts zeros in the place of all that follows and marks the slot as cut; any other goes to the
 * handler that was there before.  wisp_map_check tells of the mark, and of a size or a time of last
 * change that are not those of the beginning.  Behind the last byte of a map a page of line ends
 * stands, so that a reader that looks for one ends there.
 *
 * No lock: slots are taken and given back by one atomic word, which is all that the handler reads.
 * When all slots are taken files are copied, whatever their size. */
#include "base/file.h"
#include "base/mem.h"
#include "base/open.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

size_t wisp_map_copy_max = (size_t)4 << 20;

enum { SLOTS = 256, FREE = 0, TAKEN = 1 }; /* states of a slot whose 'begin' is no address */

static struct slot {
    _Atomic uintptr_t begin; /* of the map, or FREE, or TAKEN */
    uintptr_t end;           /* of the file's bytes; a page of line ends follows */
    atomic_bool cut;
    int fd;
    char *path;
    struct wisp_file_id id;
} slots[SLOTS];

static struct sigaction before;

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + page_bytes() - 1) & ~(page_bytes() - 1);
}

/* ---- the signal ---- */

static bool replace_rest(uintptr_t at)
{
    const uintptr_t page = at & ~(uintptr_t)(page_bytes() - 1);
    for (int i = 0; i < SLOTS; i++) {
        struct slot *s = &slots[i];
        const uintptr_t begin = atomic_load(&s->begin);
        if (begin <= TAKEN || at < begin || at >= s->end) continue;
        atomic_store(&s->cut, true);
        return mmap((void *)page, s->end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                    -1, 0) != MAP_FAILED;
    }
    return false;
}

static void on_bus(int signal, siginfo_t *info, void *context)
{
    const int saved = errno;
    const bool ours = replace_rest((uintptr_t)info->si_addr);
    errno = saved;
    if (ours) return;
    if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(signal, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(signal);
    else sigaction(SIGBUS, &before, NULL); /* the access faults again, and ends the process */
}

static void catch_bus(void)
{
    static atomic_int state; /* 0: nobody has, 1: somebody does, 2: done */
    int none = 0;
    if (atomic_compare_exchange_strong(&state, &none, 1)) {
        struct sigaction ours = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK };
        sigemptyset(&ours.sa_mask);
        sigaction(SIGBUS, NULL, &before);
        sigaction(SIGBUS, &ours, NULL);
        atomic_store(&state, 2);
    }
    while (atomic_load(&state) != 2) {}
}

/* ---- opening ---- */

static wisp_status copy_file(struct wisp_map *out, int fd, const struct wisp_file_id *id,
                             const char *path, wisp_error *err)
{
    const size_t bytes = (size_t)id->bytes;
    unsigned char *p = wisp_alloc(bytes, 1);
    if (!p) return wisp_fail_mem(err, bytes, path);
    size_t done = 0;
    for (ssize_t n = 1; done < bytes && n != 0;) {
        n = read(fd, p + done, bytes - done);
        if (n > 0) done += (size_t)n;
        if (n >= 0 || errno == EINTR) continue;
        wisp_free(p);
        return wisp_fail_errno(err, WISP_EIO, path, "cannot be read");
    }
    wisp_status st = wisp_file_unchanged(fd, id, done < bytes, path, err);
    if (st != WISP_OK) wisp_free(p);
    else *out = (struct wisp_map){ .p = p, .bytes = bytes };
    return st;
}

static int take_slot(void)
{
    for (int i = 0; i < SLOTS; i++) {
        uintptr_t is = FREE;
        if (atomic_compare_exchange_strong(&slots[i].begin, &is, TAKEN)) return i + 1;
    }
    return 0;
}

/* Memory for the file and a page of line ends, then the file over it. */
static void *map_pages(int fd, size_t bytes)
{
    const size_t room = whole_pages(bytes);
    unsigned char *p = mmap(NULL, room + page_bytes(), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    memset(p + room, '\n', page_bytes());
    if (mmap(p, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED) return p;
    const int saved = errno;
    munmap(p, room + page_bytes());
    errno = saved;
    return NULL;
}

/* Keeps 'fd' where it succeeds. */
static wisp_status map_file(struct wisp_map *out, int slot, int fd, const struct wisp_file_id *id,
                            const char *path, wisp_error *err)
{
    struct slot *s = &slots[slot - 1];
    const size_t bytes = (size_t)id->bytes;
    void *p = NULL;
    if ((s->path = wisp_strdup(path))) p = map_pages(fd, bytes);
    if (!p) {
        wisp_status st = !s->path || errno == ENOMEM
                             ? wisp_fail_mem(err, bytes, path)
                             : wisp_fail_errno(err, WISP_EIO, path, "cannot be mapped");
        wisp_free(s->path);
        atomic_store(&s->begin, FREE);
        return st;
    }
    catch_bus();
    s->fd = fd;
    s->id = *id;
    s->end = (uintptr_t)p + whole_pages(bytes);
    atomic_store(&s->cut, false);
    atomic_store(&s->begin, (uintptr_t)p);
    *out = (struct wisp_map){ .p = p, .bytes = bytes, .slot = slot };
    return WISP_OK;
}

static wisp_status open_fd(struct wisp_map *out, int fd, const struct wisp_file_id *id, bool copy,
                           const char *path, wisp_error *err)
{
    int slot = 0;
    if (id->bytes > 0 && !copy && id->bytes > wisp_map_copy_max) slot = take_slot();
    if (slot) {
        wisp_status st = map_file(out, slot, fd, id, path, err);
        if (st != WISP_OK) close(fd);
        return st;
    }
    wisp_status st = id->bytes > 0 ? copy_file(out, fd, id, path, err) : WISP_OK;
    close(fd);
    return st;
}

wisp_status wisp_map_open(struct wisp_map *out, const char *path, wisp_error *err)
{
    struct wisp_file_id id;
    *out = (struct wisp_map){ 0 };
    int fd = wisp_open_named(&id, path, err);
    return fd < 0 ? WISP_EIO : open_fd(out, fd, &id, false, path, err);
}

wisp_status wisp_map_open_own(struct wisp_map *out, const char *path, const char *source, bool copy,
                              wisp_error *err)
{
    struct wisp_file_id id;
    *out = (struct wisp_map){ 0 };
    int fd = wisp_open_own(&id, path, source, err);
    if (fd < 0) return WISP_EIO;
    return open_fd(out, fd, &id, copy && wisp_mem_fits(2 * (size_t)id.bytes), path, err);
}

/* ---- using and closing ---- */

wisp_status wisp_map_check(const struct wisp_map *m, wisp_error *err)
{
    if (!m->slot) return WISP_OK;
    struct slot *s = &slots[m->slot - 1];
    return wisp_file_unchanged(s->fd, &s->id, atomic_load(&s->cut), s->path, err);
}

void wisp_map_close(struct wisp_map *m)
{
    if (m->slot) {
        struct slot *s = &slots[m->slot - 1];
        atomic_store(&s->begin, TAKEN);
        munmap((void *)m->p, whole_pages(m->bytes) + page_bytes());
        close(s->fd);
        wisp_free(s->path);
        atomic_store(&s->begin, FREE);
    } else {
        wisp_free((void *)m->p);
    }
    *m = (struct wisp_map){ 0 };
}

wisp_status wisp_map_blame(const struct wisp_map *m, wisp_status st, wisp_error *err)
{
    const bool changed = st != WISP_ENOMEM && wisp_map_check(m, NULL) != WISP_OK;
    return changed ? wisp_map_check(m, err) : st;
}

wisp_status wisp_map_end(struct wisp_map *m, wisp_status st, wisp_error *err)
{
    st = wisp_map_blame(m, st, err);
    wisp_map_close(m);
    return st;
}

void wisp_map_forget(const struct wisp_map *m, const void *p, size_t bytes)
{
    if (!m->slot || atomic_load(&slots[m->slot - 1].cut)) return; /* zeros must stay */
    size_t from = (size_t)p & ~(page_bytes() - 1);
    madvise((void *)from, (size_t)p + bytes - from, MADV_DONTNEED);
}
