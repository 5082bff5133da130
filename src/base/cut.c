/* Borders between the parts of a block: a book of where they are, for one that is freed or cut anew
 * and for whoever asks.  None of this runs in a release: wisp_borders is off there. */
#include "base/cut.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONS 1
#endif
#endif
#ifdef POISONS
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   __asan_poison_memory_region(p, n)
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#else
enum { POISONS = 0 };
#define POISON(p, n)   ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#ifdef WISP_BORDERS
bool wisp_borders = true;
#else
bool wisp_borders = false;
#endif

enum { BORDER = 64 };
/* Not a number as a float and as a double, and so is each half as a bf16; as an index far too
 * large, or below 0 and not the -1 that stands for none. */
static const uint32_t PATTERN = 0xffffffa5u;

struct border {
    unsigned char *p;
    size_t bytes;
    const char *where; /* the part before it was taken */
};

static struct border *book;
static size_t n_borders, room;
static char broken[200], told[200]; /* the first that was found so; what was told of it last */
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void lock(void)
{
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) sched_yield();
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

static void fill(void *p, size_t bytes)
{
    unsigned char *to = p;
    size_t whole = bytes / sizeof PATTERN * sizeof PATTERN;
    for (size_t i = 0; i < whole; i += sizeof PATTERN) memcpy(to + i, &PATTERN, sizeof PATTERN);
    memcpy(to + whole, &PATTERN, bytes - whole);
}

/* Borders of parts of odd sizes begin in the middle of a word, so by bytes. */
static void look_at(const struct border *b)
{
    unsigned char want[2 * BORDER];
    fill(want, b->bytes);
    for (size_t i = 0; i < b->bytes && !broken[0]; i++)
        if (b->p[i] != want[i])
            snprintf(
                broken, sizeof broken,
                "the border behind the part taken at %s was written to, %zu bytes after its end",
                b->where, i);
}

/* Looks at all borders within and forgets them.  One that only reaches into the block is of an
 * older cut of what lies before, and no longer there. */
static void forget(const void *block, size_t bytes)
{
    const unsigned char *begin = block, *end = begin + bytes;
    for (size_t i = 0; i < n_borders;) {
        if (book[i].p + book[i].bytes <= begin || book[i].p >= end) {
            i++;
            continue;
        }
        if (book[i].p >= begin) look_at(&book[i]);
        book[i] = book[--n_borders];
    }
}

static void enter(void *p, size_t bytes, const char *where)
{
    if (n_borders == room) {
        size_t more = room ? 2 * room : 256;
        struct border *bigger = realloc(book, more * sizeof *book);
        if (!bigger) return; /* this one is not looked at */
        book = bigger;
        room = more;
    }
    book[n_borders++] = (struct border){ p, bytes, where };
}

void wisp_cut_begin(void *block, size_t bytes)
{
    lock();
    forget(block, bytes);
    unlock();
    POISON(block, bytes); /* what is not taken is nobody's */
}

void wisp_cut_border(struct wisp_cut *c, size_t from, size_t bytes, const char *where)
{
    c->at += BORDER;
    if (!c->block || c->mode == WISP_CUT_AGAIN || c->at > c->room) return;
    char *part = c->block + from;
    UNPOISON(part, bytes);
    if (c->mode == WISP_CUT_FRESH) fill(part, bytes);
    if (POISONS) return; /* it is so since the block was begun */
    lock();
    fill(part + bytes, c->at - from - bytes);
    enter(part + bytes, c->at - from - bytes, where);
    unlock();
}

void wisp_cut_join(void *block, size_t bytes)
{
    lock();
    forget(block, bytes);
    unlock();
    UNPOISON(block, bytes);
    fill(block, bytes);
}

void wisp_cut_spoil(void *p, size_t bytes)
{
    if (wisp_borders) fill(p, bytes);
}

/* | bytes of its user | border | ... | bytes |, the last word in another form: not likely by chance
 */
void wisp_cut_close(void *block, size_t bytes, size_t all)
{
    const uint64_t mark = ~(uint64_t)bytes;
    if (POISONS) return; /* the sanitizer sees to it */
    fill((char *)block + bytes, BORDER);
    memcpy((char *)block + all - sizeof mark, &mark, sizeof mark);
}

static void look_at_end(const void *block, size_t all)
{
    uint64_t mark;
    unsigned char want[BORDER];
    if (POISONS) return;
    memcpy(&mark, (const char *)block + all - sizeof mark, sizeof mark);
    mark = ~mark;
    fill(want, BORDER);
    if (mark + WISP_CUT_CLOSE <= all && memcmp((const char *)block + mark, want, BORDER) == 0)
        return;
    snprintf(broken, sizeof broken, "behind a block of %llu bytes something was written",
             (unsigned long long)mark);
}

void wisp_cut_drop(void *block, size_t all)
{
    lock();
    forget(block, all);
    look_at_end(block, all);
    unlock();
    UNPOISON(block, all);
}

const char *wisp_borders_broken(void)
{
    lock();
    for (size_t i = 0; i < n_borders; i++) look_at(&book[i]);
    memcpy(told, broken, sizeof told);
    broken[0] = 0;
    unlock();
    return told[0] ? told : NULL;
}
