/* Who asks for an option gets its row of the table (options.c), with the names of other tables filled in
 * where the row stands for them by "@hashes" and "@@hashes". */
#include "config/table.h"

#include <assert.h>
#include <ctype.h>
#include <stdatomic.h>
#include <string.h>

struct filled {
    wisp_option row[N_OPTS], special[WISP_MOST_SPECIAL];
    char text[1 << 14], *end; /* of what had to be filled in, one after the other */
};

/* Appends n bytes; a table that needs more is a mistake that every start of the program shows. */
static void put(struct filled *f, const char *s, size_t n)
{
    assert(n < (size_t)(f->text + sizeof f->text - f->end));
    memcpy(f->end, s, n);
    f->end += n;
}

/* The rows of a table: "a|b|c" with their names only, else "a: what; b: what". */
static void put_rows(struct filled *f, const char *of, const char *between, bool names)
{
    const char *name, *what;
    for (size_t i = 0; wisp_table_row(of, i, &name, &what); i++) {
        if (i) put(f, between, strlen(between));
        put(f, name, strlen(name));
        if (names) continue;
        put(f, ": ", 2);
        put(f, what, strlen(what));
    }
}

static const char *fill_text(struct filled *f, const char *s, const char *between)
{
    if (!strchr(s, '@')) return s;
    const char *begin = f->end;
    for (size_t n; *s; s += n) {
        n = strcspn(s, "@");
        put(f, s, n);
        s += n;
        n = 0;
        if (!*s) break;
        char of[20];
        const bool names = s[1] != '@';
        s += names ? 1 : 2;
        while (n < sizeof of - 1 && islower((unsigned char)s[n])) n++;
        memcpy(of, s, n);
        of[n] = 0;
        put_rows(f, of, names ? between : "; ", names);
    }
    put(f, "", 1);
    return begin;
}

static void fill(struct filled *f, wisp_option *to, const wisp_option *from)
{
    *to = *from;
    to->range = fill_text(f, from->range, "|");
    to->help = fill_text(f, from->help, ", ");
}

/* Made by the first who asks; whoever comes meanwhile waits for the few microseconds. */
static const struct filled *filled(void)
{
    enum { NOT_YET, BEGUN, DONE };
    static atomic_int state = NOT_YET;
    static struct filled all;
    int expected = NOT_YET;
    if (atomic_load_explicit(&state, memory_order_acquire) == DONE) return &all;
    if (atomic_compare_exchange_strong(&state, &expected, BEGUN)) {
        all.end = all.text;
        for (size_t i = 0; i < N_OPTS; i++) fill(&all, &all.row[i], &wisp_option_table[i]);
        for (size_t i = 0; i < wisp_n_special; i++)
            fill(&all, &all.special[i], &wisp_special_options[i]);
        atomic_store_explicit(&state, DONE, memory_order_release);
    }
    while (atomic_load_explicit(&state, memory_order_acquire) != DONE) continue;
    return &all;
}

/* ---- who asks ---- */

const wisp_option *wisp_option_row(size_t i)
{
    return i < N_OPTS ? &filled()->row[i] : NULL;
}

/* Is the word one of a list with blanks between? */
static bool names(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; n > 0 && (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == 0 || p[n] == ' ')) return true;
    return false;
}

const wisp_option *wisp_option_meant(const char *command, enum wisp_opt o)
{
    for (size_t s = 0; *command && s < wisp_n_special; s++)
        if (strcmp(wisp_special_options[s].key, wisp_option_table[o].key) == 0 &&
            names(wisp_special_options[s].commands, command))
            return &filled()->special[s];
    return &filled()->row[o];
}

const wisp_option *wisp_option_of(const char *command, size_t i)
{
    size_t at = 0;
    while (at < N_OPTS && (!names(wisp_option_table[at].commands, command) || i-- > 0)) at++;
    return at < N_OPTS ? wisp_option_meant(command, (enum wisp_opt)at) : NULL;
}
