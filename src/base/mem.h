/* All heap memory.  Blocks are 64-byte aligned; blocks of 4 MiB and more ask for huge
 * pages.  Tests fail the n-th allocation by wisp_mem_budget and look for leaks
 * with wisp_mem_live. */
#ifndef WISP_BASE_MEM_H
#define WISP_BASE_MEM_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_long wisp_mem_budget; /* allocations left before they fail; below 0: no limit */
extern atomic_long wisp_mem_live;   /* blocks not yet freed */

/* n * size bytes, not cleared / cleared.  NULL when full, when the product
 * overflows, or when the budget is spent; n * size = 0 gives a valid block. */
void *wisp_alloc(size_t n, size_t size);
void *wisp_zalloc(size_t n, size_t size);
/* Cleared, and taken from the machine page by page as it is used: for arrays that are as long as a
 * file claims, of which little may ever be touched.  Not for what a training step uses: there
 * memory must be taken at once, or a run could end in the middle. */
void *wisp_zalloc_lazy(size_t n, size_t size);
/* Keeps the first min(old, new) bytes; on failure returns NULL and p stays valid. */
void *wisp_realloc(void *p, size_t old_n, size_t n, size_t size);
void wisp_free(void *p); /* NULL is fine */
/* A copy of s, or NULL. */
char *wisp_strdup(const char *s);

/* The usual failure: "out of memory: 1.5 GiB for the output layer". */
wisp_status wisp_fail_mem(wisp_error *err, size_t bytes, const char *what);

/* Makes room for one more in a growing array *p of 'n' elements with capacity *cap. */
int wisp_grow(void *p, size_t n, size_t *cap, size_t size); /* 0: out of memory */

/* Bytes of memory this machine could still give (MemAvailable); 0 if unknown. */
size_t wisp_mem_available(void);
/* Has the machine so much left?  To be asked before memory is taken for what a file claims to hold:
 * the system gives any amount, and kills whoever uses it.  Small amounts, and where nothing is
 * known: true. */
bool wisp_mem_fits(size_t bytes);
/* Highest resident size of this process so far. */
size_t wisp_mem_peak(void);

#endif
