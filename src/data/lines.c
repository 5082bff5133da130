/* Whole lines as they arrive: plain, gzip or zstd bytes from a descriptor.
 *
 *   in    | bytes read, not yet unpacked |           packed text only
 *   text  | lines that were handed out | a line that has not ended yet | room |
 *
 * A read takes what has arrived and no more, so that somebody who waits for the answer to a line
 * gets it before the next one is written. */
#include "base/mem.h"
#include "data/text.h"
#include "data/unpack.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

size_t wisp_lines_read = (size_t)1 << 20;

struct wisp_lines {
    int fd;
    char *name;
    bool known;  /* packed or not: told by the first bytes */
    bool at_end; /* the descriptor has no more */
    size_t line; /* of the text that is handed out next, from 1 */
    unsigned char *in;
    size_t n_in, cap_in;
    struct wisp_unpack unpack;
    char *text;
    size_t given, used, cap; /* given: of the last call, to be dropped */
};

wisp_status wisp_lines_open(wisp_lines **out, int fd, const char *name, wisp_error *err)
{
    wisp_lines *l = *out = wisp_zalloc(1, sizeof *l);
    if (l) l->name = wisp_strdup(name);
    if (l && l->name) {
        l->fd = fd;
        l->line = 1;
        return WISP_OK;
    }
    wisp_lines_free(l);
    *out = NULL;
    return wisp_fail_mem(err, sizeof *l, "lines");
}

void wisp_lines_free(wisp_lines *l)
{
    if (!l) return;
    wisp_unpack_clear(&l->unpack);
    wisp_free(l->in);
    wisp_free(l->text);
    wisp_free(l->name);
    wisp_free(l);
}

/* Room for 'more' bytes behind the 'used' ones. */
static wisp_status reserve(void *p, size_t used, size_t more, size_t *cap, wisp_error *err)
{
    void *old;
    if (more <= *cap - used) return WISP_OK;
    size_t bigger = 2 * *cap > used + more ? 2 * *cap : used + more;
    memcpy(&old, p, sizeof old);
    void *to = wisp_realloc(old, used, bigger, 1);
    if (!to) return wisp_fail_mem(err, bigger, "a line");
    memcpy(p, &to, sizeof to);
    *cap = bigger;
    return WISP_OK;
}

/* Looks for new bytes for a moment before going to sleep: somebody who sends line after line, and
 * waits for each answer, sends the next within some microseconds, and being woken takes longer.
 * Others run meanwhile if there is no core left. */
static void look_around(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    const double until = wisp_now() + 100e-6;
    while (poll(&p, 1, 0) == 0 && wisp_now() < until) sched_yield();
}

/* Reads what has arrived, waiting for at least one byte; the end sets at_end. */
static wisp_status read_some(wisp_lines *l, wisp_error *err)
{
    ssize_t got;
    wisp_status st = reserve(&l->in, l->n_in, wisp_lines_read, &l->cap_in, err);
    if (st != WISP_OK) return st;
    look_around(l->fd);
    while ((got = read(l->fd, l->in + l->n_in, wisp_lines_read)) < 0 && errno == EINTR) {}
    if (got < 0) return wisp_fail_errno(err, WISP_EIO, l->name, "cannot be read");
    l->n_in += (size_t)got;
    l->at_end = got == 0;
    return WISP_OK;
}

/* Could these bytes be the beginning of packed text, if more came? */
static bool may_be_packed(const unsigned char *p, size_t n)
{
    static const unsigned char gzip[] = { 0x1f, 0x8b }, zstd[] = { 0x28, 0xb5, 0x2f, 0xfd },
                               skip[] = { 0x50, 0x2a, 0x4d, 0x18 };
    unsigned char low[4] = { 0 };
    if (n >= 4) return false;
    memcpy(low, p, n);
    if (n > 0) low[0] &= 0xf0;
    return memcmp(p, gzip, n < 2 ? n : 2) == 0 || memcmp(p, zstd, n) == 0 ||
           memcmp(low, skip, n) == 0;
}

static wisp_status tell_kind(wisp_lines *l, wisp_error *err)
{
    if (!l->at_end && may_be_packed(l->in, l->n_in)) return WISP_OK;
    wisp_status st = wisp_unpack_init(&l->unpack, l->in, l->n_in, err);
    l->known = st == WISP_OK;
    return st;
}

/* Bytes that were read become text. */
static wisp_status unpack(wisp_lines *l, wisp_error *err)
{
    struct wisp_unpack *u = &l->unpack;
    u->p = l->in;
    u->left = l->n_in;
    u->more = !l->at_end;
    for (size_t got = 1; got > 0 && u->code == WISP_OK && !u->ended;) {
        wisp_status st = reserve(&l->text, l->used, wisp_lines_read, &l->cap, err);
        if (st != WISP_OK) return st;
        got = wisp_unpack(u, l->text + l->used, wisp_lines_read);
        l->used += got;
    }
    if (u->left) memmove(l->in, u->p, u->left);
    l->n_in = u->left;
    return WISP_OK;
}

/* What is there of whole lines; at the end the rest, too. */
static size_t whole_lines(const wisp_lines *l, size_t from)
{
    if (l->at_end && l->unpack.code == WISP_OK) return l->used;
    const char *nl = l->used > from ? memrchr(l->text + from, '\n', l->used - from) : NULL;
    return nl ? (size_t)(nl + 1 - l->text) : 0;
}

wisp_status wisp_lines_next(wisp_lines *l, const char **text, size_t *bytes, size_t *line,
                            wisp_error *err)
{
    wisp_status st = WISP_OK;
    for (size_t i = 0; i < l->given; i++) l->line += l->text[i] == '\n';
    if (l->given) memmove(l->text, l->text + l->given, l->used - l->given);
    l->used -= l->given;
    l->given = 0;
    while (st == WISP_OK && l->given == 0 && l->unpack.code == WISP_OK && !l->at_end) {
        const size_t seen = l->used; /* no line ends before that */
        st = read_some(l, err);
        if (st == WISP_OK && !l->known) st = tell_kind(l, err);
        if (st == WISP_OK && l->known) st = unpack(l, err);
        l->given = whole_lines(l, seen);
        if (l->used - l->given > wisp_text_line_max)
            st = wisp_fail_at(err, WISP_EFORMAT, l->name, l->line, "a line longer than 1 GiB");
    }
    /* A fault of the packed text comes after the lines before it. */
    if (st == WISP_OK && l->given == 0 && l->unpack.code != WISP_OK)
        st = wisp_fail_at(err, l->unpack.code, l->name, 0, "%s", l->unpack.fault);
    *text = l->text;
    *bytes = st == WISP_OK ? l->given : 0;
    *line = l->line;
    return st;
}
