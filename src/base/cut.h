/* One block of memory cut into parts, and the borders between them.
 *
 * A plan and its cut are the same calls.  A cut without a block only counts, so what is planned is
 * what is taken:
 *
 *     static void lay_out(struct view *v, struct wisp_cut *c, size_t n)
 *     {
 *         v->sum = wisp_cut_take(c, n, sizeof *v->sum);
 *         v->row = wisp_cut_take(c, n, sizeof *v->row);
 *     }
 *     struct wisp_cut plan = { 0 };                                    lay_out(&v, &plan, most);
 *     void *block = wisp_alloc(plan.at, 1);
 *     struct wisp_cut c = wisp_cut_of(block, plan.at, WISP_CUT_FRESH); lay_out(&v, &c, n);
 *
 * Parts begin at multiples of 64 bytes:   | part 0 ... pad | part 1 ... pad | ...
 *
 * To AddressSanitizer the block is one, and a part that runs into the next goes unseen.  With
 * wisp_borders on (in the tests, and in builds with a sanitizer) there is a border of 64 bytes
 * more behind every part:  | part 0 ... | border | part 1 ... | border | ...
 * It is poisoned under AddressSanitizer, and else holds a pattern that wisp_borders_broken() looks
 * at, as cutting the block anew and wisp_free() do.  Parts that hold nothing yet are filled with
 * the same pattern, which is no number as a float, a double or a bf16, and no index: what is read
 * before it is written shows.  With wisp_borders off none of this takes a byte. */
#ifndef WISP_BASE_CUT_H
#define WISP_BASE_CUT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

/* To be changed only while no block is planned or cut. */
extern bool wisp_borders;

enum wisp_cut_mode {
    WISP_CUT_AGAIN, /* the parts have been cut so before: only their places are asked for */
    WISP_CUT_KEEP,  /* cut for the first time, or in another way; what they hold stays */
    WISP_CUT_FRESH  /* the same, and they hold nothing */
};

struct wisp_cut {
    char *block;             /* NULL: only counts */
    size_t at, room;         /* bytes taken so far, and there to take */
    enum wisp_cut_mode mode; /* of the parts to come */
};

enum { WISP_CUT_ALIGN = 64 };

/* What the two below do where borders are on. */
void wisp_cut_begin(void *block, size_t bytes);
void wisp_cut_border(struct wisp_cut *c, size_t from, size_t bytes, const char *where);

/* block NULL: a plan. */
static inline struct wisp_cut wisp_cut_of(void *block, size_t bytes, enum wisp_cut_mode mode)
{
    if (wisp_borders && block && mode != WISP_CUT_AGAIN) wisp_cut_begin(block, bytes);
    return (struct wisp_cut){ .block = block, .room = bytes, .mode = mode };
}

/* The next part, of n times 'size' bytes; NULL of a plan. */
static inline void *wisp_cut_next(struct wisp_cut *c, size_t n, size_t size, const char *where)
{
    size_t from = c->at, bytes = n * size;
    c->at += (bytes + WISP_CUT_ALIGN - 1) & ~(size_t)(WISP_CUT_ALIGN - 1);
    if (wisp_borders) wisp_cut_border(c, from, bytes, where);
    if (!c->block) return NULL;
    assert(c->at <= c->room); /* else the plan was another */
    return c->block + from;
}
#define WISP_CUT_TEXT_(line)      #line
#define WISP_CUT_LINE_(line)      WISP_CUT_TEXT_(line)
#define wisp_cut_take(c, n, size) wisp_cut_next(c, n, size, __FILE__ ":" WISP_CUT_LINE_(__LINE__))

/* What the next does where borders are on. */
void wisp_cut_join(void *block, size_t bytes);

/* For a block that is one part of another's: what it was cut into is used no more.  Its borders are
 * looked at and gone, and it holds nothing, so that who gets it next may take it as it is. */
static inline void wisp_cut_end(void *block, size_t bytes)
{
    if (wisp_borders) wisp_cut_join(block, bytes);
}

/* For memory that holds nothing yet: the pattern, where borders are on. */
void wisp_cut_spoil(void *p, size_t bytes);
/* A block of 'all' bytes, of which its user asked for 'bytes', WISP_CUT_CLOSE or more less: the rest
 * becomes a border.  Only where borders are on. */
enum { WISP_CUT_CLOSE = 72 };
void wisp_cut_close(void *block, size_t bytes, size_t all);
/* The same block is freed: its borders are looked at a last time. */
void wisp_cut_drop(void *block, size_t all);
/* Says which border was written over first, if one was; NULL: all are whole.  The text stays until
 * the next call. */
const char *wisp_borders_broken(void);

#endif
