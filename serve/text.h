/* Text that grows: bodies of answers, lines of logs.  A text that could not grow says so once, at
 * the end ('failed'), so that whoever fills it need not look after every piece. */
#ifndef WISP_SERVE_TEXT_H
#define WISP_SERVE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct text {
    char *at; /* not ended by a zero; NULL: nothing yet */
    size_t n, room;
    bool failed; /* there was no memory: what follows was left out */
};

void text_add(struct text *t, const char *s, size_t n);
void text_put(struct text *t, const char *s);
void text_print(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* As a JSON string, in quotes; what is no UTF-8 becomes U+FFFD. */
void text_json(struct text *t, const char *s, size_t n);
void text_whole(struct text *t, long long x);
/* With 6 significant digits, 0 for what is no number. */
void text_real(struct text *t, double x);
/* Bytes of it that messages show (%.*s). */
int text_shown(const struct text *t);
void text_clear(struct text *t);

/* Bytes of the UTF-8 character at s, n bytes left; 0: there is none (RFC 3629: no surrogates,
 * nothing beyond U+10FFFF, no form longer than needed). */
size_t utf8_character(const char *s, size_t n);

/* Makes what would move a terminal a question mark. */
void text_plain(char *s);

/* Room for one more in an array (*array, of malloc) of n elements; false: no memory. */
bool array_grow(void *array, size_t n, size_t *room, size_t size);

#endif
